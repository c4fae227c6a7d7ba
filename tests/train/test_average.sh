#!/bin/sh
# The moving average of the weights, early stopping, and steps that are not finite: what a run does, on one rank and on
# two, and after an interruption.
here=$(dirname "$0")
. "$here/common.sh"

# The average goes on to the bit; evaluation goes by it, and so does charl eval unless told otherwise.
set -- -q train.ema_decay=0.9 train.batch_size=64 eval.interval=5
expect 0 "average" ranks 2 cnn.ini "$@" run.output_dir=whole
expect 0 "average, interrupted" ranks 1 cnn.ini "$@" train.max_steps=5 train.epochs=2
expect 0 "average, resumed" ranks 1 cnn.ini "$@"
same "average" whole run
val=$(grep '"event":"val"' run/metrics.jsonl | tail -1 | sed 's/.*"loss":\([^,]*\),.*/\1/')
expect 0 "charl eval" "$bin/charl" eval cnn.ini run/last.h5
says 1 "^val step=10 loss=$val "
expect 0 "charl eval of the weights" "$bin/charl" eval cnn.ini run/last.h5 --ema=no
says 0 "^val step=10 loss=$val "
says 1 "^val step=10 "
expect 0 "charl predict" "$bin/charl" predict cnn.ini run/last.h5 --ema=yes
rm -rf run whole

# Training ends when nothing becomes better, and stays ended.
expect 0 "early stopping" ranks 2 mlp.ini eval.interval=1 train.early_stopping_patience=2 optimizer.learning_rate=1e-30
says 1 "early stopping: no better value for 2 evaluations"
says 1 " done step=3 .*early_stopping=yes"
[ -f run/checkpoints/step-00000003.h5 ] || fail "no checkpoint of the last step"
expect 0 "early stopping, again" ranks 1 mlp.ini eval.interval=1 train.early_stopping_patience=2 optimizer.learning_rate=1e-30
says 1 " done step=3 .*early_stopping=yes"
expect 0 "more patience" ranks 1 mlp.ini eval.interval=1 train.early_stopping_patience=4 optimizer.learning_rate=1e-30
says 1 " done step=5 .*early_stopping=yes"
expect 0 "charl eval without an average" "$bin/charl" eval mlp.ini run/last.h5
expect 5 "charl eval of no average" "$bin/charl" eval mlp.ini run/last.h5 --ema=yes
says 1 "error: .*has no moving average"
expect 2 "no such choice" "$bin/charl" eval mlp.ini run/last.h5 --ema=perhaps
rm -rf run

# A sample whose products overflow makes step 4 of each epoch bad.
/usr/bin/python3 -c "
import h5py, numpy as np
with h5py.File('digits.h5') as f, h5py.File('bad.h5', 'w') as g:
    x = f['train/x'][...].astype(np.float32) / 255
    x[200] = np.where(x[200] > 0.5, 3e38, -3e38)
    g['x'], g['y'] = x, f['train/y'][...]" || exit 1
bad="-q data.path=bad.h5 data.x=/x data.y=/y data.val_split=0.2 data.shuffle=no data.normalize=none log.interval=3
    train.batch_size=64 run.seed=5 eval.interval=0"
for n in 1 2; do
    # shellcheck disable=SC2086
    expect 6 "stop, $n ranks" ranks $n cnn.ini $bad
    says 1 "error: .*step 4: the gradient of [a-z0-9.]* is not finite"
    rm -rf run
done
# shellcheck disable=SC2086
set -- $bad log.interval=1 train.on_nonfinite=skip train.ema_decay=0.5
expect 0 "skip" ranks 1 cnn.ini "$@" run.output_dir=whole
says 1 "warning: step 4 was skipped: the gradient of [a-z0-9.]* is not finite \(1 skipped so far\)"
says 1 "warning: step 8 was skipped: .*\(2 skipped so far\)"
checks=$((checks + 1))
[ "$(grep -c '"skipped":2' whole/metrics.jsonl)" -eq 1 ] || fail "the metrics do not count the steps that were skipped"
expect 0 "skip, interrupted" ranks 2 cnn.ini "$@" train.max_steps=5
expect 0 "skip, resumed" ranks 2 cnn.ini "$@"
same "skip" whole run
expect 0 "the model is sound" "$bin/charl" checkpoint show run/last.h5
says 0 "not finite"
finish

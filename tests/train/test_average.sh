#!/bin/sh
# The moving average of the weights and early stopping: what a run does, on one rank and on
# two, and after an interruption.
. "$(dirname "$0")/common.sh"

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
expect 0 "charl predict" "$bin/charl" predict run/last.h5 --ema=yes
rm -rf run whole

# Training ends when nothing becomes better, and stays ended.
expect 0 "early stopping" ranks 2 mlp.ini eval.interval=1 train.early_stopping_patience=2 optimizer.learning_rate=1e-30
says 1 "early stopping: no improvement in 2 evaluations"
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
finish

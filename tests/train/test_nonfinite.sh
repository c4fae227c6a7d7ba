#!/bin/sh
# Steps whose loss or gradient is not finite: noticed in the step itself with its samples, on all ranks alike, whatever is
# logged; left out or the end, and never more in a row than allowed; in f32, bf16 and f16, where overflows under the loss scale
# are none.
. "$(dirname "$0")/common.sh"
needs_python h5py numpy

# Sample 200, of step 4 of each epoch, overflows in products: in f32 and bf16, or in f16 only.
/usr/bin/python3 -c "
import h5py, numpy as np
with h5py.File('digits.h5') as f:
    for name, size in ('bad.h5', 3e38), ('bad16.h5', 6e4):
        with h5py.File(name, 'w') as g:
            x = f['train/x'][...].astype(np.float32) / 255
            x[200] = np.where(x[200] > 0.5, size, -size)
            g['x'], g['y'] = x, f['train/y'][...]" || exit 1
data="data.x=/x data.y=/y data.val_split=0.2 data.shuffle=no data.normalize=none eval.interval=0"
rows="rows 192 to 255 of train"
both="the loss and the gradient of [a-z0-9.]* are not finite"

# 1000 steps between rows of the log: what is noticed is not noticed there.
for n in 1 2; do
    for p in f32 bf16 f16; do
        file=bad.h5
        [ $p = f16 ] && file=bad16.h5
        # shellcheck disable=SC2086
        expect 6 "stop in $p on $n ranks" ranks $n mlp.ini -q $data data.path=$file train.precision=$p log.interval=1000 train.epochs=1000
        says 1 "error: step 4: $both; the weights are those before this step. Its samples: $rows$"
        says 1 "step [0-9]"
        rm -rf run
    done
    # NaN in the gradient of one rank alone, with a loss that is well.
    CHARL_FAULT=train.device.nan@$((n - 1)):7 expect 6 "a gradient of rank $((n - 1)) of $n" ranks $n mlp.ini -q log.interval=1000 train.epochs=1000
    says 1 "error: step 7: the gradient of [a-z0-9.]* is not finite; the weights are those before this step. Its samples: rows [0-9, to]* and [0-9]* more of train$"
    rm -rf run
done
# shellcheck disable=SC2086
expect 6 "stop in four passes" ranks 1 mlp.ini -q $data data.path=bad.h5 train.grad_accum_steps=4 log.interval=1000 train.epochs=1000
says 1 "error: step 4: $both; .* $rows$"
# Where there are no evaluations or checkpoints either, the end of training looks.
rm -rf run
# shellcheck disable=SC2086
expect 6 "the last step" ranks 1 mlp.ini -q $data data.path=bad.h5 log.interval=1000 train.max_steps=4 checkpoint.interval=0
says 1 "error: step 4: $both"
checks=$((checks + 1))
[ -e run/last.h5 ] && fail "the last step: a checkpoint was written"

# skip: left out wherever it is, counted, and the same bits after resuming. In f16 the loss says that no scale helps.
for p in f32 f16; do
    file=bad.h5
    [ $p = f16 ] && file=bad16.h5
    rm -rf run whole
    # shellcheck disable=SC2086
    set -- $data data.path=$file train.precision=$p train.on_nonfinite=skip train.ema_decay=0.5 scheduler.type=constant
    expect 0 "skip in $p" ranks 1 mlp.ini "$@" run.output_dir=whole
    says 1 "warning: step 4 was skipped: $both; its samples: $rows \\(1 skipped so far\\)$"
    says 1 "warning: step 8 was skipped: .*\\(2 skipped so far\\)$"
    says 1 " done (.* )?skipped=2( |$)"
    checks=$((checks + 1))
    [ "$(grep -c '"skipped":2' whole/metrics.jsonl)" -eq 1 ] || fail "$p: the metrics do not count the steps that were skipped"
    expect 0 "skip in $p, interrupted" ranks 2 mlp.ini -q "$@" train.max_steps=5
    expect 0 "skip in $p, resumed" ranks 2 mlp.ini "$@"
    says 1 " done (.* )?skipped=2( |$)"
    same "skip in $p" whole run
    expect 0 "the model is sound" "$bin/charl" checkpoint show run/last.h5
    says 0 "not finite"
    says 1 ", 6 updates; schedule at step 8;"
done
# Running statistics of batch norm are left alone, too.
rm -rf run
# shellcheck disable=SC2086
expect 0 "skip with batch norm" ranks 1 cnn.ini -q $data data.path=bad.h5 train.on_nonfinite=skip train.max_steps=4
expect 0 "statistics are sound" "$bin/charl" checkpoint show run/last.h5
says 0 "not finite"

# Too many in a row: after 10, or as many as are allowed. A rate beyond all reason ruins the weights in the first step, for good.
for n in 1 2; do
    for p in f32 f16; do
        rm -rf run
        expect 6 "every step in $p on $n ranks" ranks $n mlp.ini -q optimizer.learning_rate=1e30 scheduler.type=constant train.on_nonfinite=skip \
            train.precision=$p train.epochs=1000 log.interval=1000
        says 1 "error: 10 steps in a row were not finite, which is train.max_nonfinite_steps; at the first of them, step 2, $both; its samples: "
        says 4 "warning: step [2359] was skipped: the loss and the gradient"
    done
done
rm -rf run
expect 6 "three in a row" ranks 1 mlp.ini -q optimizer.learning_rate=1e30 scheduler.type=constant train.on_nonfinite=skip train.max_nonfinite_steps=3
says 1 "error: 3 steps in a row"

# Overflows under the loss scale are counted apart, in either case, and no reason for a warning.
for rule in stop skip; do
    rm -rf run
    CHARL_FAULT=train.device.nan:2,train.device.nan:3 expect 0 "f16 with two overflows, $rule" ranks 1 mlp.ini train.precision=f16 \
        train.on_nonfinite=$rule
    says 0 "not finite|skipped"
    says 1 " done (.* )?overflowed=2( |$)"
done
expect 0 "overflows of a run that is resumed" ranks 1 mlp.ini train.precision=f16 train.on_nonfinite=skip train.epochs=3
says 1 " done (.* )?overflowed=2( |$)"

# An evaluation: the weights are well, a sample of the validation split is not.
/usr/bin/python3 -c "
import h5py, numpy as np
with h5py.File('bad.h5') as f, h5py.File('badval.h5', 'w') as g:
    x = f['x'][...]
    x[[200, 300]] = x[[300, 200]]
    g['x'], g['y'] = x, f['y'][...]" || exit 1
for n in 1 2; do
    rm -rf run
    # shellcheck disable=SC2086
    expect 6 "an evaluation on $n ranks" ranks $n mlp.ini -q $data data.path=badval.h5 eval.interval=3
    says 1 "error: step 3: the loss on the val split is not finite, though the weights are"
done
rm -rf run
# Scores of NaN, which cannot be sorted.
expect 6 "auc of NaN" ranks 1 mlp.ini -q optimizer.type=sgd optimizer.learning_rate=1e25 scheduler.warmup_steps=0 eval.interval=1 eval.metrics=auc
says 1 "error: step 1: the loss on the val split is not finite"
rm -rf run
# shellcheck disable=SC2086
expect 0 "an evaluation, skip" ranks 1 mlp.ini $data data.path=badval.h5 eval.interval=4 train.on_nonfinite=skip
says 2 "warning: step [48]: the loss on the val split is not finite"
says 0 "best=yes|best_val"
finish

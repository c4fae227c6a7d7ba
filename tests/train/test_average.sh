#!/bin/sh
# The moving average of the weights and early stopping: what a run does, on one rank and on
# two, and after an interruption. Averages that are computed after a run are those that it would have had.
rows=80
. "$(dirname "$0")/common.sh"

# The average goes on to the bit; evaluation goes by it, and so does charl eval unless told otherwise.
set -- -q train.ema_decay=0.9 eval.interval=5
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
says 1 " done step=3 "
says 1 " done .*early_stopping=yes"
[ -f run/checkpoints/step-00000003.h5 ] || fail "no checkpoint of the last step"
expect 0 "early stopping, again" ranks 1 mlp.ini eval.interval=1 train.early_stopping_patience=2 optimizer.learning_rate=1e-30
says 1 " done step=3 "
says 1 " done .*early_stopping=yes"
expect 0 "more patience" ranks 1 mlp.ini eval.interval=1 train.early_stopping_patience=4 optimizer.learning_rate=1e-30
says 1 " done step=5 "
says 1 " done .*early_stopping=yes"
expect 0 "charl eval without an average" "$bin/charl" eval mlp.ini run/last.h5
expect 5 "charl eval of no average" "$bin/charl" eval mlp.ini run/last.h5 --ema=yes
says 1 "error: .*has no moving average"
expect 2 "no such choice" "$bin/charl" eval mlp.ini run/last.h5 --ema=perhaps
# After the run: the mean of steps that were not saved, or not kept; a moving average of any decay. Batch norm, dropout, bf16, two ranks.
for precision in f32 bf16; do
    rm -rf run all average
    set -- cnn.ini -q train.precision=$precision eval.interval=3 checkpoint.interval=2 checkpoint.keep_last=2
    expect 0 "a run" ranks 2 "$@" -o run
    expect 0 "every step kept" ranks 1 "$@" -o all checkpoint.interval=1 checkpoint.keep_last=100
    expect 0 "a mean of steps" "$bin/charl" checkpoint average run --steps 3:9:2 -o mean.h5
    expect 0 "a mean of files" "$bin/charl" checkpoint average all/checkpoints/step-0000000[3579].h5 -o whole.h5
    expect 0 "the same mean" "$bin/charl" checkpoint diff mean.h5 whole.h5
    expect 0 "an average" "$bin/charl" checkpoint average run --ema 0.9 -o ema.h5
    expect 0 "a run with it" ranks 1 "$@" -o average train.ema_decay=0.9
    expect 0 "the same average" "$bin/charl" checkpoint diff ema.h5 average/last.h5
    says 0 '^state/'
    expect 0 "an average of before" "$bin/charl" checkpoint average run --ema 0.9 --step 9 -o ema.h5
    expect 0 "the same average of before" "$bin/charl" checkpoint diff ema.h5 average/checkpoints/step-00000009.h5
    expect 1 "another one" "$bin/charl" checkpoint diff ema.h5 average/last.h5
done
expect 0 "the last two, which are kept" "$bin/charl" checkpoint average run --steps 9:10 -o mean.h5
says 0 'computed again'
expect 2 "steps that the run has not" "$bin/charl" checkpoint average run --steps 9:11 -o none.h5
says 1 'the run has 10 steps, there is no step 11'
expect 2 "steps that descend" "$bin/charl" checkpoint average run --steps 9:3 -o none.h5
expect 2 "both" "$bin/charl" checkpoint average run --steps 3:9 --ema 0.9 -o none.h5
expect 2 "two runs" "$bin/charl" checkpoint average run all --steps 3:9 -o none.h5
expect 2 "one file" "$bin/charl" checkpoint average run -o none.h5
# Settings that changed on the way: no single configuration gives the run again, but the steps before are those of one.
expect 0 "another rate" ranks 1 "$@" -o run optimizer.learning_rate=1e-4 train.max_steps=12
expect 5 "an average of two configurations" "$bin/charl" checkpoint average run --ema 0.9 -o none.h5
says 1 'step 12 cannot be computed: the settings of step 10 are not kept'
expect 0 "of the first" "$bin/charl" checkpoint average run --ema 0.9 --step 10 -o ema.h5
[ ! -e none.h5 ] || fail "a file in spite of an error"
finish

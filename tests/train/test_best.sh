#!/bin/sh
# The best checkpoint is not lost: not by a save that fails, a kill in a save, an interval of 0 or somebody who removes it. best.h5, the
# summary and the directory agree.
. "$(dirname "$0")/common.sh"
# Evaluations after every fifth step; the best are those of steps 5, 15, 20 and 25. Each save opens its file twice.
sed -i -e 's/^epochs = 2/epochs = 9/' -e 's/^learning_rate.*/learning_rate = 0.1/' -e 's/^type = cosine/type = constant/' \
    -e 's/^interval = 1$/interval = 1000/' mlp.ini
printf 'keep_last = 2\n' >>mlp.ini

# best STEP RUN: the last command says that it is the best, best.h5 names it, and it is whole.
best() {
    says 1 "^  model    $2/best.h5  \(best val/loss: .* at step $1\)"
    linked "$2/best.h5" "$1"
    checks=$((checks + 1))
    "$bin/charl" checkpoint verify "$2/best.h5" >/dev/null 2>&1 || fail "$2/best.h5 is not whole"
}
linked() { # linked LINK STEP
    checks=$((checks + 1))
    [ "$(readlink "$1")" = "$(printf 'checkpoints/step-%08d.h5' "$2")" ] || fail "$1 names $(readlink "$1"), expected step $2"
}

expect 0 "a run" ranks 1 mlp.ini -o whole
best 25 whole

# fault FAULT CODE WHAT COMMAND...
fault() {
    export CHARL_FAULT="$1"
    shift
    expect "$@"
    unset CHARL_FAULT
}

# The save before the last fails: the last one is written.
fault io.open:17:28 0 "the last save after one that failed" ranks 1 mlp.ini -o last train.epochs=2 checkpoint.interval=1
says 1 "warning: no checkpoint at step 9: "
linked last/last.h5 10

# The save of the best fails: the one before is the best again, stays, and is the one that early stopping counts from.
fault io.open@0:9:28 0 "a best checkpoint that cannot be written" ranks 2 mlp.ini -o failed train.early_stopping_patience=3
says 1 "warning: no checkpoint at step 25: "
says 1 " done step=35 "
says 1 " done (.* )?best_step=20( |$)"
says 1 " done .*early_stopping=yes"
best 20 failed
# Two in a row, noticed before step 27. Early stopping is due at once, and this step is saved.
fault io.open:7:28,io.open:8:28,train.data.hang:27:1 0 "two best checkpoints that cannot be written" ranks 1 mlp.ini -o two \
    train.early_stopping_patience=2
says 1 "warning: no checkpoint at step 25: "
says 1 " done step=27 "
says 1 " done (.* )?best_step=15( |$)"
says 1 " done .*early_stopping=yes"
best 15 two
linked two/last.h5 27

# kill -9 after the best checkpoint is renamed, before best.h5 names it.
CHARL_FAULT=io.crash.renamed:13 "$bin/charl-train" mlp.ini -q -o killed >"$T/log" 2>&1
linked killed/best.h5 20
[ -e killed/checkpoints/step-00000025.h5 ] || fail "not killed where it should be: $(ls killed/checkpoints)"
cp -r killed at_end
expect 0 "killed before best.h5 was linked" ranks 1 mlp.ini -o killed
best 25 killed
same "killed before best.h5 was linked" whole killed
[ -e killed/checkpoints/step-00000020.h5 ] && fail "the best of before was kept"
expect 0 "the same, and nothing left to do" ranks 1 mlp.ini -o at_end train.epochs=5 checkpoint.export=safetensors
says 1 "nothing left to do"
linked at_end/best.h5 25
linked at_end/last.h5 25
# The same with an export that is of an earlier step: a job that died in the middle of the last save.
checks=$((checks + 1))
cp at_end/last.safetensors right.safetensors
"$bin/charl" checkpoint export at_end/checkpoints/step-00000020.h5 -o at_end/last.safetensors -w >/dev/null && cmp -s at_end/last.safetensors right.safetensors &&
    fail "the export of an earlier step is the same"
expect 0 "an export that is behind" ranks 1 mlp.ini -o at_end train.epochs=5 checkpoint.export=safetensors
cmp at_end/last.safetensors right.safetensors || fail "last.safetensors is not of the last checkpoint"

expect 0 "no interval" ranks 1 mlp.ini -o none checkpoint.interval=0
best 25 none

# The best checkpoint was removed: a new one is looked for.
cp -r whole removed
rm removed/checkpoints/step-00000025.h5
expect 0 "the best checkpoint was removed" ranks 2 mlp.ini -o removed train.epochs=10
says 1 "warning: the best checkpoint, of step 25, is not in removed: training looks for a new best checkpoint"
best 50 removed

# A loss with another setting, which is larger for the same weights, does not compare with the best one of before.
expect 0 "a loss" ranks 1 mlp.ini -o setting train.epochs=1 train.loss=focal
best 5 setting
expect 0 "another setting of it" ranks 1 mlp.ini -o setting train.epochs=2 train.loss=focal train.focal_gamma=0.5 optimizer.learning_rate=1e-30
best 10 setting

# Another metric, so that the best of before does not count, and the first save fails: best.h5 is not the best of before.
fault io.open:6:28 0 "another metric" ranks 1 mlp.ini -o whole train.epochs=11 checkpoint.monitor=val/accuracy
says 1 "warning: no checkpoint at step 50: "
checks=$((checks + 1))
[ "$(readlink whole/best.h5)" = checkpoints/step-00000025.h5 ] && fail "best.h5 is the best of another metric"
finish

#!/bin/sh
# Steps of a run computed again (charl replay): whatever the ranks, with dropout, augmentation, batch norm, passes, half precision, a moving
# average, windows of tokens; from any checkpoint or from the beginning; and what is told of a step.
rows=80
. "$(dirname "$0")/common.sh"

# replay CODE WHAT ARGUMENTS...: its output in log
replay() {
    _code=$1 _what=$2
    shift 2
    expect "$_code" "$_what" timeout 1500 "$bin/charl" replay "$@"
}
# recorded N: so many steps of the last replay were compared with a checkpoint, and none differs
recorded() {
    says "$1" '^ *[0-9]+ .*  as recorded$'
    says 0 'not as recorded'
}
# at CODE WHAT RUN STEP ARGUMENTS...: charl checkpoint at, to at.h5
at() {
    _code=$1 _what=$2 _run=$3 _step=$4
    shift 4
    rm -f at.h5
    expect "$_code" "$_what" timeout 1500 "$bin/charl" checkpoint at "$_run" --step "$_step" -o at.h5 "$@"
    [ "$_code" = 0 ] || [ ! -e at.h5 ] || fail "$_what: a file was written"
}
# again WHAT RUN STEP: at.h5 is the checkpoint of that step that the run wrote, apart from the place of the data
again() {
    checks=$((checks + 1))
    _d=$("$bin/charl" checkpoint diff at.h5 "$2/checkpoints/$(printf 'step-%08d.h5' "$3")" 2>&1)
    [ $? = 0 ] && [ "$(printf '%s\n' "$_d" | grep -v -c -E '^(equal|all tensors are equal|path: .*)$')" = 0 ] || fail "$1: $_d"
}
# logged RUN: the steps of the last replay have loss and gradient norm of the log
logged() {
    checks=$((checks + 1))
    grep -E '^ +[0-9]+ .*  [0-9a-f]{16} ' log | awk '{ print $1 "," $2 "," $3 }' >replayed
    awk -F, '{ print $2 "," $4 "," $6 }' "$1/metrics.csv" | grep -xFf - replayed >both
    [ -s replayed ] && cmp -s replayed both || { fail "$1: losses differ from the log"; cat replayed; losses "$1"; }
}

all="checkpoint.interval=1 checkpoint.keep_last=100 checkpoint.keep_every=1 train.epochs=2"

# Batch norm, dropout, augmentation, bf16 on 4 ranks: every step from the checkpoint before it, and all of them from the beginning.
# shellcheck disable=SC2086
expect 0 "a run on 4 ranks" ranks 1 --simulate-ranks 4 cnn.ini -q -o four $all data.augment=flip,crop:2,mixup:0.3 train.precision=bf16 train.ema_decay=0.9 eval.interval=2
replay 0 "steps 3 to 9" four --step 3 --until 9
says 1 '^# four, from step 2, four/checkpoints/step-00000002.h5, on '
recorded 7
logged four
replay 0 "from the beginning" four --step 1 --until 10 --from-start
says 1 '^# four, from its beginning, on '
recorded 10
# A run that is thinned out: from what is left. Any of its checkpoints, with counters and the best evaluation, and one that it never saved.
cp -r four thin
rm four/checkpoints/step-0000000[12345789].h5
at 0 "a checkpoint that was removed" four 8
says 1 '^at.h5: step 8, as recorded$'
again "a checkpoint that was removed" thin 8
cp at.h5 four/checkpoints/step-00000008.h5
at 0 "the one after it" four 9
says 1 '^# four, from step 8, '
again "the one after it" thin 9
rm four/checkpoints/step-00000008.h5
sed '/step=9 /,$d' thin/run.lock >four/run.lock
at 0 "a step that run.lock does not record" four 9
says 1 '^at.h5: step 9; the run has no record of it to compare with$'
again "a step that run.lock does not record" thin 9
expect 2 "the same in the run" "$bin/charl" checkpoint at four --step 9 -o four/checkpoints/step-00000009.h5
says 1 'four/run.lock does not record step 9, '
rm four/run.lock
expect 0 "the same in a run without run.lock" "$bin/charl" checkpoint at four --step 9 -o four/checkpoints/step-00000009.h5
says 1 'step-00000009.h5: step 9; the run has no record of it to compare with$' # not as recorded by the file itself
rm four/checkpoints/step-00000009.h5
sed 's/step=8 tensors=......../step=8 tensors=00000000/' thin/run.lock >four/run.lock
at 5 "a run.lock that was changed" four 8
says 1 'error: run.lock, line 9: was changed: its hash does not match'
chain four/run.lock
at 5 "a step that was another" four 8
says 1 'error: the tensors of step 8 were computed otherwise than run.lock records: nothing was written'
cp thin/run.lock four/run.lock
at 2 "other settings" four 8 optimizer.learning_rate=0.04
says 1 'error: other settings than those of the run give a checkpoint of another training: \[optimizer\] learning_rate = 0.04 \(was 0.05\)'
at 2 "after the end" four 11
says 1 'the run has 10 steps, there is no step 11'
at 2 "before the beginning" four 0
expect 2 "in the place of another" "$bin/charl" checkpoint at four --step 8 -o four/checkpoints/step-00000006.h5
says 1 'step-00000006.h5 is the name of a checkpoint of step 6, not of step 8'
cp four/run.lock kept.lock
expect 2 "in the place of the run's record" "$bin/charl" checkpoint at four --step 8 -o four/run.lock
cmp -s four/run.lock kept.lock || fail "run.lock was replaced"
expect 2 "nowhere" "$bin/charl" checkpoint at four --step 8
"$bin/charl" data make digits other.h5 -t $rows -v 25 --seed 9 >/dev/null || exit 1
at 3 "other data" four 8 data.path=other.h5
says 1 'error: other.h5 is not the data that step 8 was trained on$'
replay 0 "a step without checkpoints around it" four --step 8 --grads --samples
says 1 'from step 6, '
says 2 '^  fc2.weight  ' # its gradient and itself
says 1 '^  bn1.running_mean  '
says 16 '^ +[0-9]+ +[0-7] +1 +[0-9]+ +[0-9.]+$'
# The first number of a run: what does a training that is not the run's give?
replay 1 "another learning rate" four --step 10 optimizer.learning_rate=0.04
says 1 'not as recorded: model/'
says 1 'warning: changed since .*learning_rate = 0.04 \(was 0.05\)'
says 1 'error: 1 recorded step was computed otherwise'
mv four moved
replay 0 "a directory that was moved" moved --step 10
recorded 1

# Two passes per step on 2 processes; rows and losses of samples.
# shellcheck disable=SC2086
expect 0 "a run of two passes" ranks 2 mlp.ini -q -o two $all train.grad_accum_steps=2
replay 0 "two passes" two --step 7 --samples
recorded 1
logged two
checks=$((checks + 1))
awk '/^ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9.]+$/ { print $1, $2, $3, $4 }' log >told
"$bin/charl" data rows two/config.ini --step 7 | awk '!/^#|index/ { print $1, $2, $3, $4 }' >want
[ "$(wc -l <want)" = 16 ] && cmp -s told want || { fail "rows of the step"; diff told want | head -n 5; }
checks=$((checks + 1))
awk '/^ +7 .*  as recorded$/ { loss = $2 } /^ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9.]+$/ { sum += $5; n++ }
     END { d = sum / n - loss; exit !(n == 16 && d < 1e-5 && d > -1e-5) }' log || fail "the losses of the samples do not add up"
cp log passes
replay 0 "one pass instead of two" two --step 7 --samples train.grad_accum_steps=1
checks=$((checks + 1))
[ "$(tail -n 16 passes)" = "$(tail -n 16 log)" ] || fail "passes change the losses of samples"

# A run that early stopping ended.
expect 0 "early stopping" ranks 1 mlp.ini -q -o early checkpoint.interval=1 eval.interval=1 train.early_stopping_patience=2 optimizer.learning_rate=1e-30
rm early/checkpoints/step-00000002.h5
at 0 "before it ended" early 2
says 1 'as recorded$'
at 2 "after it ended" early 4
says 1 'the run has no step 4: early stopping ended it after step 3'

# A run that went on with another schedule: every step with the one that it had.
expect 0 "half a run" ranks 1 mlp.ini -q -o changed checkpoint.interval=2 train.max_steps=4
expect 0 "the other half" ranks 1 mlp.ini -q -o changed checkpoint.interval=2 train.max_steps=8
replay 0 "before the change" changed --step 3 --until 4
recorded 1
logged changed
replay 0 "after the change" changed --step 5 --until 8
says 1 'changed since .*max_steps = 8 \(was 4\)'
recorded 3
logged changed
rm changed/checkpoints/step-0000000[456].h5
at 5 "settings that are not kept" changed 3
says 1 'step 3 cannot be computed: the settings of step 3 are not kept, and changed/checkpoints/step-00000008.h5 has others'
at 5 "a change on the way" changed 6
says 1 'step 6 cannot be computed: the settings of step 4 are not kept'

# Windows of tokens.
make_gpt
printf '[train]\nbatch_size = 8\nslices = 4\nmax_steps = 4\n[log]\ninterval = 1\n[device]\nshare = yes\n' >>gpt.ini
expect 0 "a transformer" ranks 1 --simulate-ranks 2 gpt.ini -q -o gpt
replay 0 "tokens" gpt --step 2 --until 4 --samples
says 3 ' token  '
recorded 1
logged gpt
# Low-rank adapters on them: what is frozen is left to the base.
expect 0 "adapters" ranks 2 gpt.ini -q -o lora checkpoint.interval=1 checkpoint.keep_last=9 init.from=gpt/last.h5 lora.rank=2 lora.dropout=0.1
cp -r lora thinner
rm thinner/checkpoints/step-0000000[123].h5
at 0 "adapters from the beginning" thinner 3
says 1 '^# thinner, from its beginning, '
says 1 'as recorded$'
again "adapters from the beginning" lora 3

# A step that ends a run: the operator. 1e25 in the first step makes the second overflow.
expect 6 "a run that diverges" ranks 1 cnn.ini -q -o bad optimizer.learning_rate=1e25
replay 6 "the step that was not finite" bad --step 1 --until 3
says 1 '^step 2 is not finite: [a-z0-9]+\.[a-z0-9_]+ \(.*\) is the first operator whose output is not finite: element [0-9]+ of output [0-9] is -?(inf|nan)$'
says 1 'error: step 2: the loss and the gradient of .* are not finite'
says 0 '^ *3 '

# 100 steps at random of two runs on 8 processes, each from the beginning of an epoch.
hundred() { # hundred NAME SETTING...
    _name=$1
    shift
    expect 0 "$_name on 8 ranks" ranks 8 cnn.ini -q -o "$_name" checkpoint.interval=1 checkpoint.keep_last=1000 train.epochs=20 \
        data.augment=flip,crop:2,mixup:0.3 train.precision=bf16 train.slices=16 "$@"
    good=0
    # not rand(), which draws other steps each time with mawk in Ubuntu 24.04
    for step in $(awk -v seed=7 'BEGIN { for (i = 0; i < 50; i++) { seed = seed * 16807 % 2147483647; print 2 + int(seed / 2147483647 * 99) } }'); do
        rm -rf one
        mkdir -p one/checkpoints
        from=$(((step - 1) / 5 * 5))
        cp "$_name/config.ini" one/
        for k in $from $step; do
            [ "$k" = 0 ] || cp "$_name/checkpoints/$(printf 'step-%08d.h5' "$k")" one/checkpoints/
        done
        "$bin/charl" replay one --step "$step" >log 2>&1 && grep -q 'as recorded$' log && good=$((good + 1))
    done
    echo "$_name: $good of 50 steps have the recorded bits"
    checks=$((checks + 1))
    [ $good = 50 ] || fail "$_name: 50 random steps"
}
if [ -n "$long" ]; then
    hundred normalized
    hundred accumulated model.batch_norm=no train.grad_accum_steps=2
fi

replay 2 "no step" two --samples
says 1 'step is missing'
mv digits.h5 gone.h5
replay 3 "data that are gone" two --step 9
says 1 '^charl: error: two/checkpoints/step-00000009.h5:[0-9]+: .data. path: .*/digits.h5: cannot be opened'
mv gone.h5 digits.h5
replay 2 "until before step" two --step 3 --until 2
replay 5 "no run" nowhere --step 3
says 1 'nowhere has neither a checkpoint of step 3 or later nor a config.ini: is it a run directory\?'
replay 2 "beyond the end" two --step 11
says 1 'the run has 10 steps, there is no step 11'
cp two/checkpoints/step-00000008.h5 good.h5
printf '\252\125\252' | dd of=two/checkpoints/step-00000008.h5 bs=1 seek=20000 conv=notrunc 2>/dev/null
replay 0 "a damaged checkpoint before it" two --step 9
says 1 'warning: .*step-00000008.h5'
says 1 'from step 7, '
recorded 1
finish

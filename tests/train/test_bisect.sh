#!/bin/sh
# Where two runs diverge (charl bisect): planted differences are found in their step, in what they are in; and what is no difference is none.
. "$(dirname "$0")/common.sh"
needs_python h5py
all="checkpoint.interval=5 checkpoint.keep_last=100 checkpoint.keep_every=1 eval.interval=0 train.max_steps=10"
normalize="data.x=/x data.y=/y data.normalize=0.5/0.25 data.val_split=0.1"

# bisect CODE WHAT ARGUMENTS...: its output in log
bisect() {
    _code=$1 _what=$2
    shift 2
    expect "$_code" "$_what" timeout 1500 "$bin/charl" bisect "$@"
}
# train NAME RANKS SETTINGS...
train() {
    _name=$1 _ranks=$2
    shift 2
    # shellcheck disable=SC2086
    expect 0 "$_name" ranks 1 --simulate-ranks "$_ranks" cnn.ini -q -o "$_name" $all $normalize "$@"
}

# The same data but for one pixel of row 137.
/usr/bin/python3 -c "
import h5py
with h5py.File('digits.h5') as f:
    for name in 'same.h5', 'other.h5':
        with h5py.File(name, 'w') as g:
            g['x'], g['y'] = f['train/x'][...], f['train/y'][...]
            if name == 'other.h5':
                g['x'][137, 0, 4, 4] ^= 1" || exit 1
train a 1 data.path=same.h5
train b 3 data.path=same.h5
train c 1 data.path=other.h5
bisect 0 "ranks" a b
says 1 '^no difference up to step 10, '
for step in 1 2 3 4 5; do
    "$bin/charl" data rows a/config.ini --step $step data.path="$PWD/same.h5" >rows
    at=$(awk '!/^#/ && $4 == 137 { print $1 }' rows)
    [ -n "$at" ] && break
done
bisect 1 "one row of the data" a c
says 1 "^the runs diverge in step $step\\."
says 1 "^the data differ: index $at of the batch, row 137 of .*same.h5, its input\$"
says 0 'weights after the step: 0'
says 0 '^settings'

# A setting: nothing but the update differs in the first step.
train d 1 data.path=same.h5 optimizer.momentum=0.8
bisect 1 "a setting" a d
says 1 '^the runs diverge in step 2\.|^the runs diverge in step 1\.'
says 1 'momentum = 0.8 \(was 0.9\)'
says 0 'the losses of samples|gradients'
train e 1 data.path=same.h5 run.seed=5
bisect 1 "a seed" a e
says 1 '^the runs begin with different weights'

# Another kernel from step 6 on: the gradient of batch norm with respect to its input, off by a thousandth. The weights above it get none of that.
cp -r "$here/../../kernels" kernels
batch_norm=$here/../../kernels/norm/batch_norm.cl
sed -e 's/charl_load(sums + sums_at + c, left) \* scale,/charl_load(sums + sums_at + c, left) * (scale * 1.001f),/' \
    -e 's/CHARL_SPLAT(sums\[sums_at + c\] \* scale)/CHARL_SPLAT(sums[sums_at + c] * (scale * 1.001f))/' \
    "$batch_norm" >kernels/norm/batch_norm.cl
[ "$(diff "$batch_norm" kernels/norm/batch_norm.cl | grep -c '^>')" -eq 2 ] || fail "the kernel is not changed in both places"
cp -r a f
rm f/checkpoints/step-00000010.h5
export CHARL_KERNEL_DIR="$PWD/kernels"
train f 1 data.path=same.h5
expect 0 "checksums with the changed kernel" "$bin/charl" replay f --step 6 --until 10 --checksums f.sums
says 1 'as recorded$'
unset CHARL_KERNEL_DIR
bisect 1 "a run of another kernel" a f
says 1 '^f is not what its replay computes: its checkpoint of step 10 differs from the replay, first in model/conv1.weight'
expect 0 "checksums" "$bin/charl" replay a --step 6 --until 10 --checksums a.sums
bisect 1 "checksums of two kernels" a.sums f.sums
says 1 '^the runs diverge in step 6\.'
says 1 '^  gradients: [0-9]+ of [0-9]+, nearest to the loss, and so computed first, fc1.weight$'
says 0 'losses of samples'
bisect 0 "checksums and itself" a.sums a.sums
says 1 '^no difference up to step 10$'

expect 0 "fewer steps" "$bin/charl" replay a --step 6 --until 8 --checksums short.sums
bisect 0 "checksums and a shorter one" a.sums short.sums
says 1 '^short.sums ends with step 8, a.sums continues$'

bisect 0 "checksums and the run" a.sums a
says 1 '^no difference up to step 10$'
bisect 1 "checksums of another kernel and a run" f.sums a
says 1 '^the runs diverge in step 6\.'
bisect 5 "no run" a nowhere
bisect 2 "checksums from the middle and a configuration" a.sums cnn.ini
says 1 'a.sums begins after step 5, cnn.ini after step 0'
bisect 5 "no checksums" a.sums digits.h5
says 1 'digits.h5 is a dataset.*, not a run directory'

# charl golden: the hash that run.lock has of a job, whatever its ranks; and what changed a training.
golden() { # golden CODE WHAT ARGUMENTS...: on CONFIG one.ini
    _code=$1 _what=$2
    shift 2
    expect "$_code" "$_what" timeout 1500 "$bin/charl" golden one.ini "$@"
}
sed -e 's/^interval = 1ep$/interval = 4/' -e '/^\[data\]/a augment = flip,crop:2,mixup:0.3' cnn.ini >one.ini
expect 0 "a job of 8 ranks" ranks 1 --simulate-ranks 8 one.ini -q -o eight train.ema_decay=0.9
golden 0 "its hash" train.ema_decay=0.9 --ranks 8 --steps 4 -o golden.sums
says 1 "^step=4 tensors=$(sed -n 's/^checkpoint step=4 tensors=\([0-9a-f]*\) .*/\1/p' eight/run.lock)\$"
golden 0 "to the end" train.ema_decay=0.9
says 1 "^step=10 tensors=$(sed -n 's/^checkpoint step=10 tensors=\([0-9a-f]*\) .*/\1/p' eight/run.lock)\$"
golden 0 "the same" --check golden.sums
says 1 '^no difference up to step 4$'
golden 1 "a schedule" --check golden.sums scheduler.type=step scheduler.step_size=2
says 1 '^the runs diverge in step 3\. '
says 1 '^  the learning rate$'
golden 1 "a value of an optimizer" --check golden.sums optimizer.momentum=0.5
says 1 '^  weights after the step: .*the first '
golden 1 "another seed" --check golden.sums run.seed=5
says 1 '^the runs begin with different weights: '
golden 1 "smaller batches" --check golden.sums train.batch_size=24
says 1 '^  gradients: .*, nearest to the loss, and so computed first, [a-z].*[a-z]$'
golden 2 "half precision" train.precision=bf16
says 1 'anywhere needs train.precision = f32'
golden 8 "no such folder" --steps 4 -o nowhere/golden.sums
cp one.ini kept.ini
golden 2 "checksums in the place of the configuration" --steps 1 -o one.ini
says 1 'the output one.ini is the same file as the input one.ini'
cmp -s one.ini kept.ini || fail "the configuration was replaced"
golden 2 "too many ranks" --ranks 9
says 1 '9 ranks, but the batch has 8 slices'
golden 2 "steps of a file" --check golden.sums --steps 2
golden 5 "no file" --check nowhere.sums
golden 5 "a configuration as checksums" --check one.ini
says 1 'one.ini is not a file of checksums'
says 0 '--until'
golden 5 "a run as checksums" --check eight
says 1 'eight is not a file of checksums'
expect 2 "no configuration" "$bin/charl" golden nowhere.ini
grep -v '^end' a.sums | head -n 60 >cut.sums
bisect 5 "checksums cut short" a.sums cut.sums
expect 0 "checksums of other steps" "$bin/charl" replay a --step 2 --checksums early.sums
bisect 2 "checksums of other steps" a.sums early.sums
says 1 'a.sums begins after step 5, early.sums after step 0'
expect 8 "no room for checksums" "$bin/charl" replay a --step 2 --checksums nowhere/a.sums
finish

#!/bin/sh
# run.lock and `charl verify`: the same file for any number of ranks, continued at a resumption; what is kept and what was thinned out is replayed;
# and whatever is changed afterwards is found and named.
rows=80
. "$(dirname "$0")/common.sh"

# verify CODE WHAT RUN ARGUMENTS...: its output in log
verify() {
    _code=$1 _what=$2
    shift 2
    expect "$_code" "$_what" timeout 1500 "$bin/charl" verify "$@"
}
# wrong PATTERN [N]: verify finds this, of N differences in all; the run is restored from `whole`
wrong() {
    verify 1 "$1" run
    says 1 "$1"
    says 1 "error: the run is not what run.lock records: ${2:-1} differences?\$"
    restore
}
restore() {
    rm -rf run
    cp -r whole run
}
# edit ARGUMENTS...: sed on the lines of run.lock
edit() {
    sed "$@" run/run.lock >edited
    checks=$((checks + 1))
    cmp -s edited run/run.lock && fail "sed $* changes nothing"
    mv edited run/run.lock
}
# Ten checkpoints, of which those of steps 4, 8, 9 and 10 are kept, on one rank, on four, and on two processes in two parts.
thin="checkpoint.interval=1 checkpoint.keep_last=2 checkpoint.keep_every=4 data.path=$PWD/data.h5 train.ema_decay=0.9 checkpoint.export=safetensors"
cp digits.h5 data.h5
# shellcheck disable=SC2086
expect 0 "four ranks" ranks 1 --simulate-ranks 4 cnn.ini -q -o run $thin
mv run four
# shellcheck disable=SC2086
expect 0 "one rank" ranks 1 cnn.ini -q -o run $thin
checks=$((checks + 1))
cmp run/run.lock four/run.lock || fail "run.lock depends on the number of ranks"
verify 0 "all of it" run --segments 100
says 4 '^steps [0-9]+ to [0-9]+: replayed, as recorded \([14] checkpoints?, on '
says 1 '^as recorded: run.lock \(11 lines\), config.ini, the data, 4 checkpoints, metrics.jsonl, last.h5, best.h5, last.safetensors, best.safetensors$'
says 1 '^6 more checkpoints are recorded and not kept$'
says 1 '^proven by a replay: every step$'
says 1 '^last hash: [0-9a-f]{64}$'
verify 0 "a checkpoint for its run" run/best.h5
verify 0 "two segments" run --segments 2 --seed 5
says 1 '^2 of 4 segments replayed \(--seed 5\)$'
says 1 '^not proven by a replay: steps .* \(--segments 4 replays all\)$'
grep -v '^charl: compil' log >first # said where it takes long
verify 0 "the same two" run --segments 2 --seed 5
checks=$((checks + 1))
grep -v '^charl: compil' log | cmp -s - first || fail "a seed does not choose"
mv run whole
cp -r whole run

# A person can check the chain.
checks=$((checks + 1))
cp run/run.lock copy.lock
chain copy.lock
cmp copy.lock run/run.lock || fail "the hashes are not those of sha256sum"

# Lines.
edit '3s/tensors=./tensors=x/'
wrong '^run.lock, line 3: is not a line that charl wrote$'
edit '3s/step=2/step=3/'
wrong '^run.lock, line 3: was changed: its hash does not match$' 2
edit 4d
wrong '^run.lock, line 4: does not follow the line before: that was changed, or lines were removed$'
edit 1d
verify 1 "no beginning" run
says 1 '^run.lock does not say how the run began$'
cp whole/run.lock run/run.lock
edit '4{h;d};5G'
verify 1 "reordered lines" run
says 1 '^run.lock, line 4: was written after line 5: lines were inserted or reordered$'
cp whole/run.lock run/run.lock
edit '$d'
wrong '^run/checkpoints/step-00000010.h5 is not recorded in run.lock$' 5
last=$(tail -n 1 run/run.lock | sed 's/.*hash=//')
verify 0 "the hash of the last line" run --hash "$last"
verify 1 "the hash of an earlier line" run --hash "$(sed -n '5s/.*hash=//p' run/run.lock)"
says 1 '^the hash [0-9a-f]*\.\.\. is of line 5 of run.lock, not of the last, line 11: it does not cover the lines after it, nor the steps after 4$'
{ cat run/run.lock; sed -n '1s/start format=2/resume format=2 step=10/p' run/run.lock; } >edited
sed -i "\$s/step=10/& $(sed -n '11s/.*\(tensors=[0-9a-f]* state=[0-9a-f]*\).*/\1/p' run/run.lock)/" edited
mv edited run/run.lock
chain run/run.lock
verify 0 "the command was given again" run --hash "$last"
sed -i '$s/config=......../config=00000000/' run/run.lock
chain run/run.lock
verify 1 "with other settings" run --hash "$last"
says 1 'not of the last, line 12: it does not cover the lines after it, nor the steps after 10$'
says 1 '^run/config.ini is not the configuration that line 12 of run.lock records$'
cat whole/run.lock whole/run.lock >run/run.lock
chain run/run.lock
wrong '^run.lock, line 12: starts a training; the lines before are of another$' 3
edit '5{h;d};3{p;x};9{x;p;x}'
chain run/run.lock
verify 1 "reordered lines with new hashes" run
says 1 '^run.lock, line .: has step ., and line . has step ., without a resumption between them$'
restore
# A forged line in a chain that fits: the hash that was published, and the replay.
edit '4s/tensors=......../tensors=00000000/'
chain run/run.lock
verify 1 "a forged line of a checkpoint that is not kept, and exports with the hash of before" run
says 1 '^run/last.safetensors is not an export of the checkpoint of step 10$'
rm run/*.safetensors
verify 0 "the same without exports" run
says 1 'note: run/last.safetensors is missing$'
verify 1 "the published hash" run --hash "$last"
says 1 "^run.lock has no line with the hash $last\$"
verify 1 "the replay" run --segments 100
says 1 '^steps 1 to 4: replayed, and different: the tensors of step 3 differ$'
cp whole/run.lock run/run.lock

# Configuration, data, checkpoints.
sed -i 's/^learning_rate *=.*/learning_rate = 0.06/' run/config.ini
wrong '^run/config.ini is not the configuration that line 1 of run.lock records$'
says 1 'warning: run/config.ini holds other settings than those that step [0-9]+ was trained with: \[optimizer\] learning_rate = 0.06 \(was 0.05\)$'
"$bin/charl" data make digits data.h5 -t $rows -v 25 --seed 9 --overwrite >/dev/null || exit 1
wrong '^the data, .*data.h5, are not those that line 1 of run.lock records$'
cp digits.h5 data.h5
verify 0 "data elsewhere" run --segments 1 --seed 1 data.path="$PWD/digits.h5"
if has_python h5py; then
    /usr/bin/python3 -c "
import h5py
with h5py.File('data.h5', 'r+') as f:
    f['train/x'][17, 0, 4, 4] ^= 1" || exit 1
    wrong '^the data differ from their checksums: .*data.h5: .*rows 0 to '
    cp digits.h5 data.h5
else
    skipped "a changed row" "/usr/bin/python3 has no h5py"
fi
printf '\252\125\252' | dd of=run/checkpoints/step-00000008.h5 bs=1 seek=20000 conv=notrunc 2>/dev/null
wrong '^run/checkpoints/step-00000008.h5: '
# A whole checkpoint of another training in its place. The replay still has the tensors that were recorded.
"$bin/charl" data make digits data.h5 -t $rows -v 25 --seed 9 --overwrite >/dev/null || exit 1
rm -rf run
# shellcheck disable=SC2086
expect 0 "another training" ranks 1 cnn.ini -q -o run $thin
cp run/checkpoints/step-00000008.h5 other.h5
rm -rf run
cp -r whole run
cp other.h5 run/checkpoints/step-00000008.h5
cp digits.h5 data.h5
verify 1 "another checkpoint" run --segments 100
says 1 '^run/checkpoints/step-00000008.h5: its tensors differ from line 9 of run.lock$'
says 1 '^run/checkpoints/step-00000008.h5: its data differ from line 1 of run.lock$'
rm -rf run
cp -r whole run

# The same training in another directory, and one that was evaluated in another way: the tensors are those that are recorded.
cp four/checkpoints/step-00000008.h5 run/checkpoints/
wrong '^run/checkpoints/step-00000008.h5: is of another run \([0-9a-f]{16}\) than run \([0-9a-f]{16}\)$'
rm -rf run
# shellcheck disable=SC2086
expect 0 "another evaluation" ranks 1 cnn.ini -q -o run $thin eval.max_batches=1
cp run/checkpoints/step-00000008.h5 other.h5
restore
cp other.h5 run/checkpoints/step-00000008.h5
wrong '^run/checkpoints/step-00000008.h5: its state differs from line 9 of run.lock$' 3

# metrics.jsonl: every number of a row that is no time. Rows after the last checkpoint are of no line.
sed -i '/"event":"val","step":5/s/"loss":./"loss":9/' run/metrics.jsonl
wrong '^run/metrics.jsonl: its rows of steps 5 to 5 differ from line 6 of run.lock$'
sed -i '/"event":"train","step":3/d' run/metrics.jsonl
wrong '^run/metrics.jsonl: its rows of steps 3 to 3 differ from line 4 of run.lock$'
sed -n '/"event":"train","step":2,/p' whole/metrics.jsonl >>run/metrics.jsonl
wrong '^run/metrics.jsonl: its rows of steps 10 to 10 differ from line 11 of run.lock$'
sed -n '/"event":"val","step":10,/{s/"step":10/"step":11/p;s/"step":11/"step":10/p}' whole/metrics.jsonl >>run/metrics.jsonl
wrong '^run/metrics.jsonl: a row of step 10 comes after one of a later step$'
rm run/metrics.jsonl
wrong '^run/metrics.jsonl: cannot be opened'
sed -n '/"event":"val","step":10,/s/"step":10/"step":11/p' whole/metrics.jsonl >>run/metrics.jsonl
verify 0 "a row after the last checkpoint" run
says 1 'note: run/metrics.jsonl has 1 row after step 10, the last that is recorded$'
restore

# Links and exports. Those of the checkpoint before the newest are what a crash leaves.
ln -sf checkpoints/step-00000008.h5 run/best.h5
wrong '^run/best.h5 is of step 8, and should be of step 10$'
rm run/best.h5
wrong '^run/best.h5 is missing, or names no checkpoint; it should be of step 10$'
rm run/last.h5
cp whole/checkpoints/step-00000004.h5 run/last.h5
wrong '^run/last.h5 is of step 4, and should be of step 10$'
rm run/last.h5
cp whole/checkpoints/step-00000010.h5 run/last.h5
verify 0 "a copy in place of a link" run
restore
ln -sf checkpoints/step-00000009.h5 run/last.h5
verify 0 "a link that a crash left behind" run
says 1 'note: run/last.h5 is behind, as after a crash: it is of step 9, and should be of step 10$'
restore
printf '\252\125\252' | dd of=run/best.safetensors bs=1 seek=4000 conv=notrunc 2>/dev/null
wrong '^run/best.safetensors is not an export of the checkpoint of step 10$'
"$bin/charl" checkpoint export run/checkpoints/step-00000004.h5 -o run/last.safetensors >/dev/null || exit 1
wrong '^run/last.safetensors is not an export of the checkpoint of step 10$'

# Data that have moved.
mv data.h5 moved.h5
verify 3 "data that have moved" run --segments 1
says 1 'error: the data cannot be opened, and were not compared: .*data.h5: cannot be opened: No such file or directory$'
says 1 'hint: if they have moved, add data.path=FILE to this command$'
verify 0 "their new place" run data.path="$PWD/moved.h5"
expect 3 "bisect" "$bin/charl" bisect run four --until 1
says 1 'hint: if the data have moved, add data.path=FILE to this command$'
expect 0 "bisect, their new place" "$bin/charl" bisect run four --until 1 data.path="$PWD/moved.h5"
mv moved.h5 data.h5

# A crash in the middle of a line: the next start removes it. Lines of format 1 are continued.
rm -rf run
export CHARL_FAULT=io.crash.append:5
# shellcheck disable=SC2086
expect 137 "a crash while a line is written" "$bin/charl-train" cnn.ini -q -o run $thin
unset CHARL_FAULT
verify 0 "a torn line" run
says 1 'note: run.lock ends in a part of a line, which a crash or a power cut interrupted$'
# shellcheck disable=SC2086
expect 0 "the same command" ranks 1 cnn.ini -q -o run $thin
says 1 'warning: run.lock ends in a part of a line, which a crash or a power cut interrupted; it is removed$'
verify 0 "the same command" run
says 1 '^as recorded: run.lock \(12 lines\)'
restore
edit 's/ \(format\|state\|metrics\)=[0-9a-f]*//g'
chain run/run.lock
rm run/*.safetensors
verify 0 "lines of format 1" run
says 1 'note: run.lock has 11 lines of format 1, which cover neither metrics.jsonl nor the state of checkpoints$'
# shellcheck disable=SC2086
expect 0 "continued" ranks 1 cnn.ini -q -o run $thin train.epochs=3
verify 0 "continued" run
says 1 '^as recorded: run.lock \(1[0-9] lines\)'
restore

# A checkpoint of another training that this one was resumed from: what came before is not its history.
rm run/checkpoints/step-000000[01][809].h5
cp other.h5 run/checkpoints/step-00000008.h5
# shellcheck disable=SC2086
expect 0 "spliced" ranks 1 cnn.ini -q -o run $thin
says 1 'warning: run.lock, line 12: the run was resumed from a checkpoint of step 8 with another state than line 9 records$'
verify 1 "spliced" run --hash "$last"
says 1 '^run.lock, line 12: the run was resumed from a checkpoint of step 8 with another state than line 9 records$'
says 1 '^the hash .* is of line 11 of run.lock, not of the last, line 14: it does not cover the lines after it, nor the steps after 8$'
restore

# Stopped, resumed on two processes, and gone back once: from a checkpoint, as a later one was lost.
# shellcheck disable=SC2086
expect 0 "the first part" ranks 2 cnn.ini -q -o parts $thin train.max_steps=6
rm parts/checkpoints/step-0000000[56].h5
# shellcheck disable=SC2086
expect 0 "the second part" ranks 2 cnn.ini -q -o parts $thin optimizer.learning_rate=0.04
checks=$((checks + 1))
[ "$(sed -n '8s/ .*//p' parts/run.lock)" = resume ] || fail "the resumption is not recorded"
verify 0 "two parts" parts --segments 100
says 1 '^proven by a replay: every step$'
says 0 'different|not replayed'
cp -r parts thinner
rm thinner/checkpoints/step-00000004.h5
verify 1 "settings that are lost" thinner --segments 100
says 1 '^steps 1 to 8: not replayed: the configuration was changed in between, at a checkpoint that is not kept$'
says 1 '^not proven by a replay: steps 1 to 8$'
says 1 'error: nothing differs from run.lock, but 1 segment could not be replayed$'
# A line that is lost with the file: training goes on, and says so.
sed -i '3s/step=2/step=3/' parts/run.lock
# shellcheck disable=SC2086
expect 0 "a damaged run.lock" ranks 1 cnn.ini -q -o parts $thin train.epochs=3
says 1 'warning: run.lock, line 3: was changed'
says 1 'warning: renamed to parts/run.lock.damaged, and a new one begins'
verify 0 "from the resumption" parts --segments 100
says 0 'not replayed'
says 1 '^not proven by a replay: steps 1 to 10$'
says 1 'note: run.lock begins with a resumption: it does not say how the 10 steps before it were trained$'

# Exports carry the hash of the line that records their checkpoint.
expect 0 "safetensors" "$bin/charl" checkpoint export run/last.h5 -o a.safetensors
expect 0 "ONNX" "$bin/charl" checkpoint export run/checkpoints/step-00000004.h5 -o a.onnx
checks=$((checks + 2))
grep -q -a "\"charl.lock\":\"$last\"" a.safetensors || fail "safetensors do not carry the hash"
grep -q -a "$(sed -n '5s/.*hash=//p' run/run.lock)" a.onnx || fail "ONNX does not carry the hash"
verify 5 "no run" nowhere
says 1 'nowhere/run.lock: cannot be opened'
verify 2 "no hash" run --hash abc
finish

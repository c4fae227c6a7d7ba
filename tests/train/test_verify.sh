#!/bin/sh
# run.lock and `charl verify`: the same file for any number of ranks, continued at a resumption; what is kept and what was thinned out is replayed;
# and whatever is changed afterwards is found and named.
here=$(dirname "$0")
. "$here/common.sh"

# verify CODE WHAT RUN ARGUMENTS...: its output in log
verify() {
    _code=$1 _what=$2
    shift 2
    expect "$_code" "$_what" timeout 600 "$bin/charl" verify "$@"
}
# wrong PATTERN: verify finds this and nothing else; the run is restored from `whole`
wrong() {
    verify 1 "$1" run
    says 1 "$1"
    says 1 'error: the run is not what run.lock records: 1 difference, '
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
# chain FILE: lines with new hashes, as one who knows the format would write them
chain() {
    _previous=0000000000000000000000000000000000000000000000000000000000000000
    while read -r _line; do
        _line="${_line% previous=*} previous=$_previous"
        _previous=$(printf %s "$_line" | sha256sum | cut -c 1-64)
        printf '%s hash=%s\n' "$_line" "$_previous"
    done <"$1" >chained
    mv chained "$1"
}

# Ten checkpoints, of which those of steps 4, 8, 9 and 10 are kept, on one rank, on four, and on two processes in two parts.
thin="checkpoint.interval=1 checkpoint.keep_last=2 checkpoint.keep_every=4 data.path=$PWD/data.h5 train.ema_decay=0.9"
cp digits.h5 data.h5
# shellcheck disable=SC2086
expect 0 "four ranks" ranks 1 --simulate-ranks 4 cnn.ini -q -o run $thin
mv run four
# shellcheck disable=SC2086
expect 0 "one rank" ranks 1 cnn.ini -q -o run $thin
checks=$((checks + 1))
cmp run/run.lock four/run.lock || fail "run.lock depends on the number of ranks"
verify 0 "all of it" run --segments 100
says 4 '^steps [0-9]+ to [0-9]+: same, [14] checkpoints?, on '
says 1 '^11 lines, the last with hash [0-9a-f]{64}$'
says 1 '^10 checkpoints recorded, 4 kept; 4 of 4 segments replayed, 4 the same$'
verify 0 "two segments" run --segments 2 --seed 5
says 1 '2 of 4 segments replayed, 2 the same \(--seed 5\)$'
cp log first
verify 0 "the same two" run --segments 2 --seed 5
checks=$((checks + 1))
cmp -s log first || fail "a seed does not choose"
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
wrong '^run.lock, line 3: was changed: its hash does not match$'
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
wrong '^run/checkpoints/step-00000010.h5 is not recorded in run.lock$'
last=$(tail -n 1 run/run.lock | sed 's/.*hash=//')
verify 0 "the hash of the last line" run --hash "$last"
# A forged line in a chain that fits: the hash that was published, and the replay.
edit '4s/tensors=......../tensors=00000000/'
chain run/run.lock
verify 0 "a forged line of a checkpoint that is not kept" run
verify 1 "the published hash" run --hash "$last"
says 1 "^run.lock has no line with the hash $last\$"
verify 1 "the replay" run --segments 100
says 1 '^steps 1 to 4: different: the tensors of step 3 differ$'
cp whole/run.lock run/run.lock

# Configuration, data, checkpoints.
sed -i 's/^learning_rate *=.*/learning_rate = 0.06/' run/config.ini
wrong '^run/config.ini is not the configuration that line 1 of run.lock records$'
"$bin/charl" data make digits data.h5 -t 320 -v 100 --seed 9 --overwrite >/dev/null || exit 1
wrong '^the data, .*data.h5, are not those that line 1 of run.lock records$'
cp digits.h5 data.h5
verify 0 "data elsewhere" run --segments 1 --seed 1 data.path="$PWD/digits.h5"
if /usr/bin/python3 -c 'import h5py' 2>/dev/null; then
    /usr/bin/python3 -c "
import h5py
with h5py.File('data.h5', 'r+') as f:
    f['train/x'][17, 0, 4, 4] ^= 1" || exit 1
    wrong '^the data cannot be verified: .*data.h5: .*rows 0 to '
    cp digits.h5 data.h5
else
    skipped "a changed row" "/usr/bin/python3 has no h5py"
fi
printf '\252\125\252' | dd of=run/checkpoints/step-00000008.h5 bs=1 seek=20000 conv=notrunc 2>/dev/null
wrong '^run/checkpoints/step-00000008.h5: '
# A whole checkpoint of another training in its place. The replay still has the tensors that were recorded.
"$bin/charl" data make digits data.h5 -t 320 -v 100 --seed 9 --overwrite >/dev/null || exit 1
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

# Stopped, resumed on two processes, and gone back once: from a checkpoint, as a later one was lost.
# shellcheck disable=SC2086
expect 0 "the first part" ranks 2 cnn.ini -q -o parts $thin train.max_steps=6
rm parts/checkpoints/step-00000006.h5
# shellcheck disable=SC2086
expect 0 "the second part" ranks 2 cnn.ini -q -o parts $thin optimizer.learning_rate=0.04
checks=$((checks + 1))
[ "$(sed -n '8s/ .*//p' parts/run.lock)" = resume ] || fail "the resumption is not recorded"
verify 0 "two parts" parts --segments 100
says 1 '^10 checkpoints recorded, '
says 0 'different|not replayed'
cp -r parts thinner
rm thinner/checkpoints/step-0000000[45].h5
verify 1 "settings that are lost" thinner --segments 100
says 1 '^steps 1 to 8: not replayed: the configuration was changed in between, at a checkpoint that is not kept$'
says 1 '3 of 4 segments|2 of 3 segments'
says 1 'error: nothing differs from run.lock, but 1 segment could not be replayed$'
# A line that is lost with the file: training goes on, and says so.
sed -i '3s/step=2/step=3/' parts/run.lock
# shellcheck disable=SC2086
expect 0 "a damaged run.lock" ranks 1 cnn.ini -q -o parts $thin train.epochs=3
says 1 'warning: run.lock, line 3: was changed'
says 1 'warning: renamed to parts/run.lock.damaged, and a new one begins'
verify 0 "from the resumption" parts --segments 100
says 1 'steps 11 to '

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

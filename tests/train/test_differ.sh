#!/bin/sh
# Ranks that see different things: another configuration, option, variable, version, data file or checkpoint on one of them is
# refused before a step is trained, with one message that names rank and value; equal copies in other places are fine.
. "$(dirname "$0")/common.sh"
two="timeout 1500 mpirun -q --oversubscribe --bind-to none -n 1"

# differs CODE PATTERN WHAT ARGUMENTS_OF_RANK_0 -- ARGUMENTS_OF_RANK_1: $before is what rank 1's command begins with
before=
differs() {
    _want=$1 _text=$2 _what=$3 _first=
    shift 3
    while [ "$1" != -- ]; do
        _first="$_first $1"
        shift
    done
    shift
    rm -rf run
    expect "$_want" "$_what" $two "$bin/charl-train" mlp.ini -q $_first : -n 1 $before "$bin/charl-train" mlp.ini -q "$@"
    says 1 "$_text"
    says 1 "^charl-train: error: "
    [ ! -e run/checkpoints ] || [ -z "$(ls run/checkpoints)" ] || fail "$_what: a checkpoint was written"
}
who="rank 1 of 2 \([^ ]+, pid [0-9]+\)"
first="rank 0 of 2 \([^ ]+, pid [0-9]+\)"

expect 0 "a run" ranks 2 mlp.ini -q -o whole

# Settings
differs 2 "error: $first has optimizer.learning_rate = 0.003, $who has 0.01$" "another learning rate" -- optimizer.learning_rate=1e-2
differs 2 "$first has run.seed = 3, $who has 7; also different: train.epochs$" "another seed and length" -- run.seed=7 train.epochs=3
differs 2 "$first has model.hidden = 24, $who has 32$" "another model" -- model.hidden=32
differs 2 "$first has --dry-run = no, $who has yes$" "a dry run on one rank" -- --dry-run
differs 2 "has --fast-dev-run = no, $who has 5; also different: --overfit-batch, --overwrite, run.max_time$" "other options" \
    -- --fast-dev-run --overfit-batch --overwrite --max-time=1h
before="env CHARL_ALLREDUCE=p2p"
differs 2 "has CHARL_ALLREDUCE = \(not set\), $who has p2p$" "another all-reduce" --
before="env CHARL_FAULT=comm.version:1"
differs 2 "rank 1 \(.*\) runs charl .*-other, rank 0 \(.*\) runs charl [0-9.]*$" "another version" --
before=
expect 2 "the odd one of three" $two "$bin/charl-train" mlp.ini -q : -n 1 "$bin/charl-train" mlp.ini -q train.grad_clip=2 : \
    -n 1 "$bin/charl-train" mlp.ini -q
says 1 "error: rank 1 of 3 \(.*\) has train.grad_clip = 2, the other 2 ranks have 0$"

# What only the second rank can say, it says.
differs 2 "unrecognized option '--nonsense'" "an unknown option on one rank" -- --nonsense
before="env CHARL_SYNC=maybe"
differs 2 "CHARL_SYNC=maybe: expected 0 or 1" "a wrong variable on one rank" --
before=
differs 2 "$who: --simulate-ranks=2: all ranks are in one process" "simulated ranks on one rank" -- --simulate-ranks=2

# Data: a copy elsewhere is fine when it is one.
mkdir there
cp digits.h5 there/copy.h5
"$bin/charl" data make digits there/stale.h5 -t 320 -v 100 -s 5 >/dev/null || fail "no other data"
expect 0 "a copy of the data" $two "$bin/charl-train" mlp.ini -q -o copy : -n 1 "$bin/charl-train" mlp.ini -q -o there/unused \
    data.path=there/copy.h5
same "a copy of the data" whole copy
[ ! -e there/unused ] || fail "rank 1 wrote a run directory"
differs 3 "$first has data = 320 .* \(.*digits.h5\), $who has 320 .* \(.*there/stale.h5\)" "stale data" -- data.path=there/stale.h5
says 1 "hint: .*stale"
cat >foreign.py <<'PY'
import h5py, numpy as n
x = n.random.RandomState(0).randint(0, 255, (320, 1, 100, 100)).astype("u1")
for name in "foreign.h5", "there/foreign.h5", "there/odd.h5":
    with h5py.File(name, "w") as f:
        if name == "there/odd.h5":
            x[209, 0, 77, 13] ^= 1
        f["x"], f["y"] = x, n.arange(320, dtype="i4") % 10
with h5py.File("there/odd_labels.h5", "w") as f:
    f["x"], f["y"] = x, (n.arange(320, dtype="i4") + 1) % 10
PY
if ! has_python h5py numpy; then
    skipped "data without checksums" "/usr/bin/python3 has no h5py"
elif ! /usr/bin/python3 foreign.py; then
    fail "no foreign data"
else
    f="data.x=/x data.y=/y train.max_steps=1"
    differs 3 "has data = .*foreign.h5\), $who has .*odd.h5" "one byte of data without checksums" data.path=foreign.h5 $f -- \
        data.path=there/odd.h5 $f
    differs 3 "has data = .*foreign.h5\), $who has .*odd_labels.h5" "other labels" data.path=foreign.h5 $f -- data.path=there/odd_labels.h5 $f
    expect 0 "equal data without checksums" $two "$bin/charl-train" mlp.ini -q -o foreign data.path=foreign.h5 $f : \
        -n 1 "$bin/charl-train" mlp.ini -q data.path=there/foreign.h5 $f
fi

# Checkpoints: another one is noticed when it is loaded.
expect 0 "another run" ranks 1 mlp.ini -q -o other optimizer.learning_rate=1e-2
cp whole/last.h5 there/last.h5
differs 5 "$first has best metric = .*whole/last.h5\), $who has .*other/last.h5\); also different: contents of the checkpoint, run id, model/" "another checkpoint" \
    -o run --resume=whole/last.h5 train.epochs=3 -- -o run --resume=other/last.h5 train.epochs=3
differs 5 "$first has step = 10 .*, $who has 5 " "an older checkpoint" \
    -o run --resume=whole/last.h5 train.epochs=3 -- -o run --resume=whole/checkpoints/step-00000005.h5 train.epochs=3
differs 5 "$first has model/.* = checksum .*, $who has checksum" "other weights to begin with" \
    --init-from=whole/last.h5 -- --init-from=other/last.h5
rm -rf run
expect 0 "a copy of the checkpoint" $two "$bin/charl-train" mlp.ini -q --resume=whole/last.h5 train.epochs=3 : \
    -n 1 "$bin/charl-train" mlp.ini -q --resume=there/last.h5 train.epochs=3
expect 5 "evaluation of another checkpoint" $two "$bin/charl" eval mlp.ini whole/last.h5 : -n 1 "$bin/charl" eval mlp.ini other/last.h5
says 1 "^charl: error: $first has model/.* = checksum"
expect 2 "evaluation of another split" $two "$bin/charl" eval mlp.ini whole/last.h5 : -n 1 "$bin/charl" eval -s train mlp.ini whole/last.h5
says 1 "^charl: error: $first has --split = val, $who has train$"

# A checkpoint that is damaged as only one rank sees it: all go back to the one before.
part() { # part DIRECTORY: a run that stopped at step 5, with checkpoints of steps 2, 4 and 5
    rm -rf "$1"
    export CHARL_FAULT=train.stop:6
    expect 75 "the first steps" ranks 1 mlp.ini -q -o "$1" checkpoint.interval=2
    unset CHARL_FAULT
}
part run
export CHARL_FAULT=io.readflip@1:1
expect 0 "a checkpoint that rank 1 cannot read" ranks 2 mlp.ini -q checkpoint.interval=2
says 1 "warning: $who: .*step-00000005.h5: .*; all ranks go back to a checkpoint before step 5$"
says 1 "warning: training continued from step 4: 1 later checkpoint was renamed to step-....h5.superseded$"
says 2 "^charl-train: "
same "after a checkpoint that rank 1 cannot read" whole run
part run
export CHARL_FAULT=io.readflip@1:1
expect 5 "the same, strict" ranks 2 mlp.ini -q checkpoint.interval=2 run.strict=yes
says 1 "error: $who: .*step-00000005.h5: "
says 1 "error: run.strict = yes: no older checkpoint"
part run
export CHARL_FAULT=io.readflip@1:1
expect 0 "the same with simulated ranks" ranks 1 mlp.ini -q checkpoint.interval=2 --simulate-ranks=2
says 1 "warning: $who: .*step-00000005.h5: .*; all ranks go back to a checkpoint before step 5$"
same "simulated ranks after a checkpoint that rank 1 cannot read" whole run
part run
export CHARL_FAULT='io.readflip@1:*'
expect 5 "no checkpoint that rank 1 can read" ranks 2 mlp.ini -q checkpoint.interval=2
unset CHARL_FAULT
says 1 "error: $who: .*; no older checkpoint can be read by every rank$"
says 3 "warning: "
finish

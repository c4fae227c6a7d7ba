#!/bin/sh
# A data file that changes while it is trained on: other bytes end the run with code 3 before a checkpoint is written of them, the same
# bytes again do not. Each run stops itself at its fourth step, the file changes, and the run continues.
. "$(dirname "$0")/common.sh"
sed -i 's/^interval = 1ep$/interval = 2/' mlp.ini
"$bin/charl" data make digits other.h5 -t 320 -v 100 -s 5 >/dev/null || exit 1
cp digits.h5 kept.h5
cp -p kept.h5 data.h5

# stopped PID: $_stopped is the process or the child of it that is stopped
stopped() {
    for _p in "$1" $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
        case $(sed 's/.*) //' "/proc/$_p/stat" 2>/dev/null) in
        T*) _stopped=$_p && return ;;
        esac
    done
    return 1
}

# changes CODE WHAT CHANGE COMMAND...: $at is where COMMAND stops itself
at=train.backward.stop:4
changes() {
    _want=$1 _what=$2 _change=$3
    shift 3
    checks=$((checks + 1))
    CHARL_FAULT=$at "$@" >"$T/log" 2>&1 &
    _job=$!
    while ! stopped "$_job"; do
        kill -0 "$_job" 2>/dev/null || { fail "$_what: it ends without a stop"; tail -n 5 "$T/log"; return; }
        sleep 0.05
    done
    $_change
    kill -CONT "$_stopped"
    wait "$_job"
    _got=$?
    [ "$_got" -eq "$_want" ] || { fail "$_what: exit code $_got, expected $_want"; tail -n 5 "$T/log"; }
}

overwrite() { # as cp does: the same file, other bytes
    cat other.h5 >data.h5
}
rewrite() { # the same bytes
    cat kept.h5 >data.h5
}
overwrite_quietly() { # and the same times
    cat other.h5 >data.h5
    touch -r kept.h5 data.h5
}
shorten() {
    truncate -s 100000 data.h5
}
replace() { # another file of the same name
    cp other.h5 new.h5
    mv new.h5 data.h5
}
train="$bin/charl-train mlp.ini -q data.path=data.h5 data.cache=none"

expect 0 "a run" $train -o whole
for change in overwrite overwrite_quietly; do
    rm -rf run
    cp -p kept.h5 data.h5
    changes 3 "$change" $change $train
    says 1 "^charl-train: error: data.h5: /train/[xy]: rows 0 to 319 are no longer what was opened .*: the file was written to while it was in use"
    says 1 "hint: put the file back"
    checks=$((checks + 1))
    [ "$(ls run/checkpoints)" = step-00000002.h5 ] || fail "$change: checkpoints $(ls run/checkpoints | tr '\n' ' ')"
done
cat kept.h5 >data.h5
expect 0 "put back" $train
same "put back" whole run

rm -rf run
changes 0 "the same bytes" rewrite $train
same "the same bytes" whole run
rm -rf run
changes 0 "another file of that name" replace $train
same "another file of that name" whole run
cp -p kept.h5 data.h5
rm -rf run
changes 3 "cut short" shorten $train
says 1 "^charl-train: error: data.h5: .*(the file was cut while it was in use, from [0-9]+ to 100000 bytes|the file ends at byte)"

# On the device the data stay what they were.
cp -p kept.h5 data.h5
rm -rf run
changes 0 "a copy on the device" overwrite "$bin/charl-train" mlp.ini -q data.path=data.h5 data.cache=device
same "a copy on the device" whole run

# One of two ranks, with a file of its own.
cp -p kept.h5 data.h5
rm -rf run
at=train.backward.stop@1:4
changes 3 "the file of one rank" overwrite mpirun -q --oversubscribe --bind-to none -n 1 "$bin/charl-train" mlp.ini -q data.path=kept.h5 \
    data.cache=none : -n 1 $train
says 1 "^charl-train: error: rank 1 of 2 \(.*\).*: data.h5: /train/[xy]: rows .* are no longer what was opened"
cp -p kept.h5 data.h5
rm -rf run
at=train.evaluation.stop@1:1
changes 3 "while one rank evaluates" overwrite mpirun -q --oversubscribe --bind-to none -n 1 "$bin/charl-train" mlp.ini -q \
    data.path=kept.h5 data.cache=none : -n 1 $train
says 1 "^charl-train: error: rank 1 of 2 \(.*\), step 5, evaluation: data.h5: /val/[xy]: rows .* are no longer what was opened"
says 1 "hint: put the file back"
says 0 "HINT"

# Evaluation
cp -p kept.h5 data.h5
at=train.evaluation.stop:1
changes 3 "an evaluation" overwrite "$bin/charl" eval mlp.ini whole/last.h5 data.path=data.h5 data.cache=none
says 1 "^charl: error: .*are no longer what was opened"
at=train.backward.stop:4

# Without checksums of its own: those formed when it was opened tell; what HDF5 decompresses has none.
cat >foreign.py <<'PY'
import h5py, numpy as n
r = n.random.RandomState(0)
x, y = r.randint(0, 255, (320, 28 * 28)).astype("u1"), r.randint(0, 10, 320).astype("i4")
for name, kw in ("plain.h5", {}), ("packed.h5", {"chunks": (32, 28 * 28), "compression": "gzip"}):
    with h5py.File(name, "w") as f:
        f.create_dataset("x", data=x, **kw)
        f["y"] = y
x[7] += 1
with h5py.File("plain_other.h5", "w") as f:
    f["x"], f["y"] = x, y
PY
touch_plain() {
    touch plain.h5
}
overwrite_plain() {
    cat plain_other.h5 >plain.h5
}
touch_packed() {
    touch packed.h5
}
chmod_packed() {
    chmod 600 packed.h5
}
if ! has_python h5py numpy; then
    skipped "data without checksums" "/usr/bin/python3 has no h5py"
elif ! /usr/bin/python3 foreign.py; then
    fail "no foreign data"
else
    foreign="$bin/charl-train mlp.ini -q data.x=/x data.y=/y data.cache=none train.epochs=1"
    changes 0 "no checksums, touched" touch_plain $foreign -o run1 data.path=plain.h5
    changes 3 "no checksums, overwritten" overwrite_plain $foreign -o run2 data.path=plain.h5
    says 1 "error: plain.h5: /x: rows 0 to 319 are no longer what was opened"
    changes 0 "compressed, other permissions" chmod_packed $foreign -o run3 data.path=packed.h5
    changes 3 "compressed, touched" touch_packed $foreign -o run4 data.path=packed.h5
    says 1 "error: packed.h5: the file was written to while it was in use .*has no checksums"
fi
finish

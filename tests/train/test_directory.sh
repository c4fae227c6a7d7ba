#!/bin/sh
# A run directory is the same whether a save was killed or not, and holds nothing of another history or of other settings.
rows=80
. "$(dirname "$0")/common.sh"
sed -i -e 's/^epochs = 2/epochs = 1/' mlp.ini
[ -n "$long" ] && last=1000 || last=2

# contents RUN: names of everything, and what links name; but for the first checkpoint, which retention keeps where a run went on from it
contents() {
    (cd "$1" && find . ! -name step-00000002.h5 | sort && find . -type l -exec readlink {} \; | sort)
}

# A save is killed at every point of every kind, and continued.
set -- mlp.ini -q checkpoint.interval=2 checkpoint.keep_last=2 checkpoint.export=safetensors
expect 0 "undisturbed" ranks 1 "$@" -o whole
contents whole >whole.list
for point in written synced verified renamed moved removed symlink linked append; do
    n=0 code=137
    while [ $code -eq 137 ] && [ $n -lt $last ]; do
        n=$((n + 1))
        rm -rf killed
        CHARL_FAULT=io.crash.$point:$n "$bin/charl-train" "$@" -o killed >"$T/log" 2>&1
        code=$?
        [ $code -eq 137 ] || break
        expect 0 "killed at $point $n" ranks 1 "$@" -o killed
        contents killed >killed.list
        checks=$((checks + 1))
        cmp -s whole.list killed.list || { fail "killed at $point $n: other files"; diff whole.list killed.list; }
        same "killed at $point $n" whole killed
        expect 0 "killed at $point $n: as recorded" "$bin/charl" verify killed
    done
done

# Epochs that are shorter than ten seconds have no checkpoint, but the best and the last, unless some are to be kept.
saved() { grep -c '^checkpoint ' "$1/run.lock"; }
expect 0 "short epochs" ranks 1 mlp.ini -o brief train.epochs=20 eval.interval=0 checkpoint.interval=auto
most=$(sed -n 's/.* done .*wall_s=\([0-9]*\).*/\1/p' "$T/log")
[ "$(saved brief)" -le $((1 + ${most:-0} / 10)) ] || fail "$(saved brief) checkpoints in $most s of short epochs"
expect 0 "some are kept" ranks 2 mlp.ini -q -o some train.epochs=4 eval.interval=0 checkpoint.interval=auto checkpoint.keep_every=10
[ "$(saved some)" -eq 4 ] && [ -e some/checkpoints/step-00000010.h5 ] || fail "checkpoint.keep_every: $(ls some/checkpoints)"

# What a run starts from is not lost before its first save, whatever is overwritten.
cp -r whole own
CHARL_FAULT=train.backward.kill:1 "$bin/charl-train" mlp.ini -q -o own --overwrite --init-from own/last.h5 >"$T/log" 2>&1
expect 0 "the base of a run that died before its first save" ranks 1 mlp.ini -o own --overwrite --init-from own/last.h5
says 1 "the checkpoint that this run started from is renamed to step-....h5.superseded"
expect 0 "the same weights to start from, elsewhere" ranks 1 mlp.ini -o other --init-from whole/last.h5
same "a base of its own" other own

# Exports in a format that is no longer asked for.
expect 0 "another format" ranks 1 mlp.ini -o whole checkpoint.interval=2 checkpoint.keep_last=2 checkpoint.export=onnx train.epochs=2
says 1 "checkpoint.export is onnx \(was safetensors\): last.safetensors and best.safetensors, which would no longer be kept up to date, are removed"
checks=$((checks + 1))
[ -e whole/last.onnx ] && [ ! -e whole/last.safetensors ] && [ ! -e whole/best.safetensors ] || fail "exports: $(ls whole)"

# A fault that did not happen tests nothing.
CHARL_FAULT=train.audit.kill:1 expect 2 "a fault of something else" ranks 1 mlp.ini -o fault1
says 1 "error: CHARL_FAULT: train.audit.kill never happened: nothing in this run passes that point"
CHARL_FAULT=train.data.hang@1:1:1 expect 2 "a fault of no rank" ranks 1 mlp.ini -o fault2
says 1 "error: CHARL_FAULT: train.data.hang@1 never happened: this job has 1 rank, numbered from 0"
CHARL_FAULT=train.data.hang@1:1:1,train.fini.hang:1:1 expect 0 "of a rank that is a thread" ranks 1 mlp.ini -o fault3 --simulate-ranks 2

# Algorithms of all-reduce change no bit, so a complete run takes another one.
expect 0 "complete" ranks 1 mlp.ini -o other --init-from whole/last.h5 dist.allreduce=shm
says 1 "nothing left to do"

# A start that is refused leaves nothing, and no directory that was there is removed.
expect 5 "refused" ranks 1 mlp.ini -o new/deep/run --init-from nothing.h5
checks=$((checks + 1))
[ -e new ] && fail "a refused start leaves $(find new)"
mkdir there
expect 5 "refused in a directory" ranks 1 mlp.ini -o there/run --init-from nothing.h5
checks=$((checks + 1))
[ -d there ] && [ ! -e there/run ] || fail "a refused start leaves $(find there)"

finish

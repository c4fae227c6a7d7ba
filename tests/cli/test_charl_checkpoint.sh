#!/bin/sh
# charl checkpoint: show, verify, diff, on good, different and damaged files.
. "$(dirname "$0")/charl.sh"
make=$bin/../../tests/cli/make_checkpoint

"$make" a.h5 7 && "$make" b.h5 8 && "$make" c.h5 7 || exit 1
expect 0 '^  step        7$' checkpoint show a.h5
expect 0 '^  model/fc1.weight .* f32   \[2, 3\]  *17.9195  *[0-9a-f]\{8\}$' checkpoint show a.h5
expect 0 '^    steps = 10$' checkpoint show a.h5
expect 0 '^steps = 10$' checkpoint show --config a.h5
expect 0 '^train.steps = 7$' checkpoint show --config --resolved a.h5
expect 0 '^b.h5: good$' checkpoint verify a.h5 b.h5
expect 0 '^equal$' checkpoint diff a.h5 c.h5
expect 1 '^model/fc1.weight: 6 of 6 elements differ' checkpoint diff a.h5 b.h5
"$make" other.h5 7 same || exit 1
expect 0 '^all tensors are equal$' checkpoint diff a.h5 other.h5
expect 0 '^config/text differs$' checkpoint diff a.h5 other.h5

: >empty
mkdir folder
mkfifo pipe
head -c 5000 a.h5 >short.h5
for f in none empty folder pipe short.h5; do
    expect 5 "^charl: error: $f[: ]" checkpoint show $f
    expect 5 "^charl: error: $f[: ]" checkpoint verify a.h5 $f
    expect 5 "^charl: error: $f[: ]" checkpoint diff a.h5 $f
done
# One wrong byte in each KiB of the file, one after another: refused, or nothing that matters.
size=$(wc -c <a.h5)
refused=0
at=100
while [ "$at" -lt "$size" ]; do
    cp a.h5 flipped.h5
    printf '\252' | dd of=flipped.h5 bs=1 seek="$at" conv=notrunc 2>/dev/null
    "$charl" checkpoint verify flipped.h5 >out 2>err
    case $? in
    0) ;;
    5) refused=$((refused + 1)) ;;
    *)
        echo "byte $at: unexpected exit code"
        cat out err
        failures=$((failures + 1))
        ;;
    esac
    at=$((at + 1024))
done
if [ $refused -lt 5 ]; then
    echo "only $refused wrong bytes were noticed"
    failures=$((failures + 1))
fi

# One file of a checkpoint, also of one that is one file: the same bytes.
expect 0 '^packed.h5: [0-9]* bytes$' checkpoint pack a.h5 -o packed.h5
cmp -s a.h5 packed.h5 || { echo "a packed checkpoint is another one" && failures=$((failures + 1)); }
expect 2 'the output ./a.h5 is the same file as the input a.h5' checkpoint pack a.h5 -o ./a.h5
expect 2 'o FILE is missing' checkpoint pack a.h5

# The mean of two checkpoints: weights only, of the newer one's state.
"$make" f1.h5 1 2 && "$make" f4.h5 4 2 && "$make" one.h5 1 1 || exit 1
expect 0 '^mean.h5: [0-9]* bytes$' checkpoint average f4.h5 f1.h5 -o mean.h5
expect 0 '^  step        4$' checkpoint show mean.h5
expect 0 '^  optimizer   none, 0 updates' checkpoint show mean.h5
expect 0 '^train.steps = 4$' checkpoint show --config --resolved mean.h5
expect 0 '^  2 tensors, 3006 elements$' checkpoint show mean.h5
expect 0 '^mean.h5: good$' checkpoint verify mean.h5
expect 0 '^mean2.h5: ' checkpoint average mean.h5 mean.h5 mean.h5 -o mean2.h5
cp f4.h5 f4.copy && ln f4.h5 link.h5 && cp f4.h5 f4.onnx
expect 2 'the output \./f4.h5 is the same file as the input f4.h5' checkpoint average f1.h5 f4.h5 -o ./f4.h5
expect 2 'the output link.h5 is the same file as the input f4.h5' checkpoint average f1.h5 f4.h5 -o link.h5
hint 'name another output'
expect 2 'the output f4.onnx is the same file as the input f4.onnx' checkpoint export f4.onnx -o f4.onnx
cmp f4.h5 f4.copy && cmp f4.onnx f4.copy || { echo "an input was changed"; failures=$((failures + 1)); }
expect 5 'one.h5 lacks weights that f1.h5 has: they are of different models' checkpoint average f1.h5 one.h5 -o no.h5
expect 5 'f1.h5 has /model/conv.weight, which one.h5 does not have' checkpoint average one.h5 f1.h5 -o no.h5
expect 5 'a.h5: /model/bn.num_batches is i64; only f32 is averaged' checkpoint average a.h5 b.h5 -o no.h5
expect 5 'short.h5: ' checkpoint average f1.h5 short.h5 -o no.h5
expect 8 'none/mean.h5' checkpoint average f1.h5 f4.h5 -o none/mean.h5
expect 2 'B is missing' checkpoint average a.h5 -o no.h5
expect 2 'o FILE is missing' checkpoint average a.h5 b.h5

expect 0 '^a.safetensors: [0-9]* bytes$' checkpoint export a.h5 -o a.safetensors
expect 0 '^a.safetensors: ' checkpoint export a.h5 -o a.safetensors --ema=no
expect 5 'f1.h5 has no moving average of the weights' checkpoint export f1.h5 -o no.safetensors --ema=yes
expect 2 'no.safetensors: safetensors holds weights only' checkpoint export a.h5 -o no.safetensors data.path=x
expect 2 'a.h5: /config/resolved:1: ' checkpoint export a.h5 -o no.onnx
expect 2 'no.pt: the name of an export ends in a dot and its format: safetensors, onnx, gguf' checkpoint export a.h5 -o no.pt
expect 2 'o FILE is missing' checkpoint export a.h5
expect 5 'short.h5: ' checkpoint export short.h5 -o no.safetensors
expect 8 'none/a.safetensors' checkpoint export a.h5 -o none/a.safetensors
[ ! -e no.h5 ] && [ ! -e no.safetensors ] || { echo "a failure left a file"; failures=$((failures + 1)); }

# A run directory for its last checkpoint; without last.h5, as a copy may be, the newest.
mkdir -p run/checkpoints
cp a.h5 run/checkpoints/step-00000007.h5 && cp b.h5 run/checkpoints/step-00000008.h5
expect 0 '^run/checkpoints/step-00000008.h5: checkpoint$' checkpoint show run
ln -s checkpoints/step-00000007.h5 run/last.h5
expect 0 '^run/last.h5: checkpoint$' checkpoint show run
expect 0 '^run/last.h5: good$' checkpoint verify b.h5 run
expect 0 'run is a run directory: run/last.h5 is read' checkpoint verify run
expect 0 '^equal$' checkpoint diff run a.h5
expect 0 '^run.safetensors: ' checkpoint export run -o run.safetensors --ema=no
cmp run.safetensors a.safetensors || failures=$((failures + 1))
expect 2 'the output run/last.h5 is the same file as the input run/last.h5' checkpoint average run a.h5 -o run/last.h5

expect 2 'FILE is missing' checkpoint verify
expect 2 'B is missing' checkpoint diff a.h5
expect 2 'unexpected operand: c.h5' checkpoint diff a.h5 b.h5 c.h5
CHARL_FAULT=cli.guard.raise:1:11 expect 5 'a.h5: damaged: reading it crashes (signal 11' checkpoint verify a.h5
CHARL_FAULT=cli.guard.raise:1:6 expect 5 'a.h5: damaged: reading it crashes (signal 6' checkpoint show a.h5
CHARL_FAULT=cli.guard.raise:1:14 expect 5 'a.h5: damaged: reading it did not end within' checkpoint show a.h5
CHARL_FAULT=cli.guard.raise:1:9 expect 137 'killed (signal 9' checkpoint diff a.h5 b.h5
finish

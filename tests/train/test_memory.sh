#!/bin/sh
# What saves memory changes no bit, on one rank and on two. Activations that are computed again: a gpt and a convolutional
# network with dropout and batch norm; the plan tells what is saved. Several passes per step: a gpt and a perceptron.
. "$(dirname "$0")/common.sh"

awk 'BEGIN { for (i = 0; i < 1500; i++) printf "%c", 97 + (i * i + i / 7) % 23 }' >text.txt
"$bin/charl" data import text -o text.h5 text.txt >log 2>&1 || { cat log; exit 1; }
cat >gpt.ini <<'INI'
[run]
output_dir = run
[data]
path = text.h5
val_split = 0.1
[model]
type = gpt
n_layer = 3
n_head = 2
n_embd = 16
block_size = 16
dropout = 0.2
[train]
batch_size = 16
slices = 8
max_steps = 3
[log]
interval = 1
[eval]
interval = 0
[device]
share = yes
INI

for model in gpt cnn; do
    set -- $model.ini -q eval.interval=0 train.max_steps=3 log.interval=1
    expect 0 "$model" ranks 1 "$@" run.output_dir=whole train.recompute=no
    for case in 2:yes 2:cheap; do # ranks:what
        expect 0 "$model, $case" ranks ${case%:*} "$@" train.recompute=${case#*:}
        same "$model, $case" whole run
        rm -rf run
    done
    rm -rf whole
done

set -- mlp.ini -q eval.interval=0 train.max_steps=3 log.interval=1 train.grad_clip=0.5
expect 0 "mlp" ranks 1 "$@" run.output_dir=whole
for case in 1:3 3:2; do # ranks:passes; of three ranks the first has two of the eight slices
    expect 0 "mlp, $case" ranks ${case%:*} "$@" train.grad_accum_steps=${case#*:}
    same "mlp, $case" whole run
    rm -rf run
done
rm -rf whole
set -- gpt.ini -q train.grad_clip=0.5
expect 0 "gpt" ranks 2 "$@" run.output_dir=whole
for case in 1:4 2:2; do
    expect 0 "gpt, $case" ranks ${case%:*} "$@" train.grad_accum_steps=${case#*:} train.recompute=yes
    same "gpt in passes, $case" whole run
    rm -rf run
done
rm -rf whole

expect 2 "passes and batch norm" ranks 2 cnn.ini train.grad_accum_steps=2
says 1 "error: .*train.grad_accum_steps = 2: bn1.* is a sum over the whole batch"
expect 2 "too many passes" ranks 2 mlp.ini train.grad_accum_steps=5
says 1 "error: .*train.grad_accum_steps = 5, but a rank here has 4 of the 8 slices"

# Every use of a weight has a gradient of its own on its way.
{
    printf '[run]\noutput_dir = run\n[data]\npath = digits.h5\n[model]\ntype = sequential\n[train]\nbatch_size = 32\nmax_steps = 1\n'
    printf '[device]\nshare = yes\n[layer flatten]\ntype = flatten\n[layer first]\ntype = linear\nout = 10\n'
    printf '[layer t0]\ntype = linear\nout = 10\nbias = no\n'
    seq 1 260 | sed 's/.*/[layer t&]\ntype = linear\nout = 10\nbias = no\ntie = t0/'
} >tied.ini
for passes in 1 2; do
    expect 2 "a weight of 261 uses, $passes passes" ranks 2 tied.ini -q train.grad_accum_steps=$passes
    says 1 "error: .*gradients in more than 256 ranges: a weight is used too many times"
done

# A device of which less may be used.
expect 4 "a device of 1 MiB" ranks 1 cnn.ini --dry-run device.memory_limit=1
says 1 "error: .*out of device memory: .* of 1.0 MiB are in use"
expect 0 "a device of 64 MiB" ranks 2 cnn.ini --dry-run device.memory_limit=64
says 1 "memory .* of 64.0 MiB on this device"

expect 0 "the plan" ranks 1 gpt.ini --dry-run train.recompute=yes
says 1 "recompute blocks in the backward pass, which saves 0.[1-9] MiB"
expect 0 "the plan with room" ranks 1 gpt.ini --dry-run
says 0 "recompute .* in the backward pass"
expect 0 "the plan without room" env CHARL_FAULT=train.memory:1 "$bin/charl-train" gpt.ini --dry-run
says 1 "recompute elementwise layers and norms in the backward pass, which saves 0.[1-9] MiB"
expect 0 "the plan without room for cheap values" env CHARL_FAULT=train.memory:* "$bin/charl-train" gpt.ini --dry-run train.grad_accum_steps=1
says 1 "recompute blocks in the backward pass, which saves 0.[1-9] MiB"
expect 0 "the plan without room for blocks either" env CHARL_FAULT=train.memory:* "$bin/charl-train" mlp.ini --dry-run
says 1 "passes   8 per step"
expect 0 "nor a gpt" env CHARL_FAULT=train.memory:* "$bin/charl-train" gpt.ini --dry-run
says 1 "passes   8 per step"
expect 0 "nor batch norm, which takes one pass" env CHARL_FAULT=train.memory:* "$bin/charl-train" cnn.ini --dry-run
says 0 "passes "
says 0 "error"
# Where the most passes have room, auto finds passes that do: of unequal size, beside what an evaluation takes and many sums.
"$bin/charl" data make digits many.h5 -t 3072 -v 64 >/dev/null || exit 1
found=0
# fits SLICES LIMITS KEY=VALUE...
fits() {
    slices=$1 limits=$2
    shift 2
    set -- mlp.ini --dry-run data.path=many.h5 data.cache=none train.batch_size=3072 train.slices=$slices "$@"
    for limit in $limits; do
        if "$bin/charl-train" "$@" device.memory_limit=$limit train.grad_accum_steps=$slices >"$T/log" 2>&1; then
            found=$((found + 1))
            expect 0 "$slices slices in $limit MiB" "$bin/charl-train" "$@" device.memory_limit=$limit
        fi
    done
}
fits 3 "36 38 42" model.hidden=64,64,64,64
fits 1536 "74 86" model.hidden=600,600 train.recompute=no
checks=$((checks + 1))
[ $found -gt 0 ] || fail "no limit shows anything"
CHARL_FAULT=train.memory@1:*
export CHARL_FAULT
expect 0 "one rank without room" ranks 2 mlp.ini -q eval.interval=0 train.max_steps=3 log.interval=1 train.grad_clip=0.5
unset CHARL_FAULT
expect 0 "both with room" ranks 2 mlp.ini -q eval.interval=0 train.max_steps=3 log.interval=1 train.grad_clip=0.5 run.output_dir=whole
same "one rank without room" whole run
finish

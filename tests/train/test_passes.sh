#!/bin/sh
# Many slices and passes: a rank runs at most 64 slices at a time, and any division into passes and ranks gives the same bits,
# with everything that depends on the place of a row in the batch: dropout, augmentation, mixup, weights of targets, evaluation.
# CHARL_TEST_LONG=1: 256 simulated ranks too.
. "$(dirname "$0")/common.sh"

set -- mlp.ini -q train.batch_size=320 train.slices=320 train.max_steps=3 train.grad_clip=0.5
expect 0 "8 ranks in one pass" ranks 8 "$@" -o whole
expect 0 "1 rank" ranks 1 "$@" -o one
same "1 rank" whole one
for passes in 7 320; do
    expect 0 "$passes passes" ranks 1 "$@" -o p train.grad_accum_steps=$passes
    same "$passes passes" whole p
    rm -rf p
done
expect 0 "2 ranks in 33 passes" ranks 2 "$@" -o p train.grad_accum_steps=33 data.cache=none
same "2 ranks in 33 passes" whole p
rm -rf p
expect 75 "stopped" env CHARL_FAULT=train.stop:2 "$bin/charl-train" "$@" -o p train.grad_accum_steps=160
expect 0 "resumed" ranks 3 "$@" -o p
same "across a stop" whole p
if [ -n "$long" ]; then
    expect 0 "256 simulated ranks" ranks 1 "$@" -o many --simulate-ranks=256
    same "256 simulated ranks" whole many
fi
expect 0 "the plan" ranks 1 mlp.ini --dry-run train.batch_size=320 train.slices=320
says 1 "passes   5 per step"
expect 2 "batch norm" ranks 1 cnn.ini train.batch_size=320 train.slices=320
says 1 "error: .*bn1.* is a sum over the whole batch"
says 1 "hint: a pass takes at most 64 slices"
expect 2 "too many passes" ranks 1 mlp.ini train.batch_size=320 train.slices=80 train.grad_accum_steps=81
says 1 "error: .*train.grad_accum_steps = 81, but a rank here has 80 of the 80 slices"

set -- cnn.ini -q model.batch_norm=no train.batch_size=96 train.slices=96 train.max_steps=3 data.augment=flip,crop:2,mixup:0.4
expect 0 "cnn on 2 ranks" ranks 2 "$@" -o cnn-2
for passes in 5 96; do
    expect 0 "cnn in $passes passes" ranks 1 "$@" -o cnn-1 train.grad_accum_steps=$passes
    same "cnn in $passes passes" cnn-2 cnn-1
    rm -rf cnn-1
done

awk 'BEGIN { for (i = 0; i < 6000; i++) printf "%c", 97 + (i * i + i / 7) % 23 }' >text.txt
"$bin/charl" data import text -o text.h5 text.txt >log 2>&1 || { cat log; exit 1; }
cat >gpt.ini <<'INI'
[run]
output_dir = run
[data]
path = text.h5
val_split = 0.1
[model]
type = gpt
n_layer = 2
n_head = 2
n_embd = 16
block_size = 16
dropout = 0.2
[train]
batch_size = 128
slices = 128
max_steps = 2
[log]
interval = 1
[device]
share = yes
INI
expect 0 "gpt on 2 ranks" ranks 2 gpt.ini -q -o gpt-2
for passes in 1 128; do
    expect 0 "gpt in $passes passes" ranks 1 gpt.ini -q -o gpt-1 train.grad_accum_steps=$passes
    same "gpt in $passes passes" gpt-2 gpt-1
    rm -rf gpt-1
done
finish

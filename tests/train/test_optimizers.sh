#!/bin/sh
# Every optimizer that keeps more than arenas, and one that does not: the same bits on one rank as on two after an
# interruption, with and without groups of parameters.
rows=80
. "$(dirname "$0")/common.sh"

check() { # check NAME OVERRIDES...
    _name=$1
    shift
    set -- -q eval.interval=0 "$@"
    expect 0 "$_name" ranks 1 cnn.ini "$@" run.output_dir=whole train.max_steps=6
    expect 0 "$_name, interrupted" ranks 2 cnn.ini "$@" train.max_steps=3
    expect 0 "$_name, resumed" ranks 1 cnn.ini "$@" train.max_steps=6
    same "$_name" whole run
    rm -rf whole run
}

check "frozen parameters" "train.freeze=*, !fc1.*, !bn1.bias" train.precision=bf16
check lamb optimizer.type=lamb
check adafactor optimizer.type=adafactor
check "muon and groups" optimizer.type=muon "optimizer.groups=*.bias weight_decay=0, conv1.* lr_scale=0.5" \
    optimizer.decay_1d=no

# State in 8 bits: a checkpoint holds it as it is, and it can be resumed in f32.
expect 0 "8 bits" ranks 1 cnn.ini -q optimizer.type=adam optimizer.learning_rate=3e-3 optimizer.state=int8 train.max_steps=3
expect 0 "shown" "$bin/charl" checkpoint show run/last.h5
says 1 "optim/exp_avg_sq/fc1.weight  *u8 +\[[0-9]+, 68\]"
expect 0 "replayed" "$bin/charl" replay run --step 3
says 1 '^ *3 .*  as recorded$'
expect 0 "in f32 from now on" ranks 1 cnn.ini -q optimizer.type=adam optimizer.learning_rate=3e-3 train.max_steps=6
says 1 "\[optimizer\] state = f32 \(was int8\)"
expect 0 "in f32" "$bin/charl" checkpoint show run/last.h5
says 1 "optim/exp_avg_sq/fc1.weight  *f32"
rm -rf run
expect 2 "whole tensors" ranks 2 cnn.ini optimizer.type=muon optimizer.state=bf16 run.output_dir=other
says 1 "error: .*optimizer.*state = bf16: muon updates whole tensors"

# A factor of 0 leaves a layer as it was.
expect 0 "a frozen layer" ranks 1 cnn.ini -q "optimizer.groups=fc1.* lr_scale=0" train.max_steps=2 checkpoint.interval=1
expect 1 "what changed" "$bin/charl" checkpoint diff run/checkpoints/step-00000001.h5 run/checkpoints/step-00000002.h5
says 0 "model/fc1.weight"
says 1 "model/fc2.weight"
expect 2 "a pattern without a parameter" ranks 2 cnn.ini "optimizer.groups=fc9.* lr_scale=0" run.output_dir=other
says 1 "error: .*groups: no parameter is called fc9"

expect 0 "frozen parameters" ranks 2 cnn.ini "train.freeze=conv*.*, bn1.*, !bn1.bias" dist.shard=optimizer run.output_dir=frozen \
    train.max_steps=2 checkpoint.interval=1
says 1 "model .*parameters \([0-9,]+ of them frozen\)"
expect 1 "what changed" "$bin/charl" checkpoint diff frozen/checkpoints/step-0000000[12].h5
says 0 "(model|optim.*)/conv1.weight"
says 0 "(model|optim.*)/bn1.weight"
says 1 "model/bn1.bias"
says 1 "model/fc1.weight"
expect 5 "trained again" ranks 1 cnn.ini train.max_steps=4 run.output_dir=frozen
says 1 "conv1.weight was frozen when it was written"
says 1 "hint: leave train.freeze, .* as they were"
expect 0 "without momentum" ranks 1 mlp.ini -q optimizer.type=sgd optimizer.momentum=0 train.max_steps=2 run.output_dir=plain
expect 5 "with momentum" ranks 1 mlp.ini -q optimizer.type=sgd optimizer.momentum=0.9 train.max_steps=4 run.output_dir=plain
says 1 "has no /optim/momentum_buffer: it was written by an optimizer without this state"
expect 0 "with a moving average" ranks 1 cnn.ini -q "train.freeze=conv*" train.max_steps=2 train.ema_decay=0.9 run.output_dir=ema
expect 0 "evaluated by its average" "$bin/charl" eval cnn.ini ema/last.h5
expect 0 "exported with its average" "$bin/charl" checkpoint export --ema=yes -o ema.safetensors ema/last.h5
expect 2 "nothing to train" ranks 1 cnn.ini "train.freeze=*" run.output_dir=other
says 1 "error: there is nothing to train: train.freeze leaves no parameter"
expect 2 "nothing to freeze" ranks 2 cnn.ini "train.freeze=fc1.*, fc9.*" run.output_dir=other
says 1 "error: .*\[train\] freeze: no parameter is called fc9"

# The optimizer of a checkpoint is the one that goes on.
expect 5 "another optimizer" ranks 1 cnn.ini optimizer.type=muon
finish

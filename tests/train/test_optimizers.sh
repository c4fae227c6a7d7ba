#!/bin/sh
# Every optimizer that keeps more than arenas, and one that does not: the same bits on one rank as on two after an
# interruption, with and without groups of parameters.
here=$(dirname "$0")
. "$here/common.sh"

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

check lamb optimizer.type=lamb
check adafactor optimizer.type=adafactor
check "muon and groups" optimizer.type=muon "optimizer.groups=*.bias weight_decay=0, conv1.* lr_scale=0.5" \
    optimizer.decay_1d=no

# A factor of 0 leaves a layer as it was.
expect 0 "a frozen layer" ranks 1 cnn.ini -q "optimizer.groups=fc1.* lr_scale=0" train.max_steps=2 checkpoint.interval=1
expect 1 "what changed" "$bin/charl" checkpoint diff run/checkpoints/step-00000001.h5 run/checkpoints/step-00000002.h5
says 0 "model/fc1.weight"
says 1 "model/fc2.weight"
expect 2 "a pattern without a parameter" ranks 2 cnn.ini "optimizer.groups=fc9.* lr_scale=0" run.output_dir=other
says 1 "error: .*groups: no parameter is called fc9"

# The optimizer of a checkpoint is the one that goes on.
expect 5 "another optimizer" ranks 1 cnn.ini optimizer.type=muon
finish

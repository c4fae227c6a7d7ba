#!/bin/sh
# The optimizer divided among ranks (dist.shard_optimizer): the same checkpoints as of one rank that has it whole, whatever
# the optimizer, precision, algorithm and bucket; and going on with another number of ranks, divided or whole.
# CHARL_TEST_LONG=1: more of each.
here=$(dirname "$0")
. "$here/common.sh"

# divided WHAT RANKS MODEL SETTINGS...: as on one rank
divided() {
    _what=$1 _ranks=$2 _model=$3
    shift 3
    rm -rf one v
    expect 0 "$_what, whole" ranks 1 "$_model.ini" -q -o one "$@"
    again "$_what" "$_ranks" "$_model" "$@"
}

# again WHAT RANKS MODEL SETTINGS...: as the last on one rank
again() {
    _what=$1 _ranks=$2 _model=$3
    shift 3
    rm -rf v
    expect 0 "$_what, on $_ranks ranks" ranks "$_ranks" "$_model.ini" -q -o v dist.shard_optimizer=yes "$@"
    same "$_what, on $_ranks ranks" one v
}

# The average of the weights, groups, clipping and a dynamic loss scale; validation exchanges weights and average.
divided "adamw with an average" 3 mlp train.ema_decay=0.9 train.grad_clip=0.5 "optimizer.groups=*.bias lr_scale=0.5"
again "small buckets, tree" 2 mlp train.ema_decay=0.9 train.grad_clip=0.5 "optimizer.groups=*.bias lr_scale=0.5" \
    dist.bucket_mb=0.01 dist.allreduce=tree
divided "sgd in f16" 2 cnn train.precision=f16 train.on_nonfinite=skip
again "sgd in f16" 3 cnn train.precision=f16 train.on_nonfinite=skip

# Divided on 3 ranks, whole on 2, divided on 2.
rm -rf one s
expect 0 "mlp" ranks 1 mlp.ini -q -o one
export CHARL_FAULT=train.stop:4
expect 75 "stopped at step 3" ranks 3 mlp.ini -q -o s dist.shard_optimizer=yes
export CHARL_FAULT=train.stop:4
expect 75 "stopped at step 6" ranks 2 mlp.ini -q -o s
unset CHARL_FAULT
expect 0 "resumed" ranks 2 mlp.ini -q -o s dist.shard_optimizer=yes
same "stopped twice" one s

expect 0 "the saving is shown" ranks 2 mlp.ini --dry-run dist.shard_optimizer=yes
says 1 "memory .*; [0-9.]* [KM]iB saved by dividing the optimizer"
expect 2 "muon" ranks 2 mlp.ini -q -o x dist.shard_optimizer=yes optimizer.type=muon
says 1 "muon updates whole tensors"
finish

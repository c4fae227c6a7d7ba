#!/bin/sh
# The optimizer, the sums of gradients and the parameters divided among ranks (dist.shard): the same checkpoints as of one rank that has them
# whole, whatever the optimizer, precision, algorithm and bucket; and going on with another number of ranks, divided or whole.
# CHARL_TEST_LONG=1: more of each.
rows=80
. "$(dirname "$0")/common.sh"

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
    expect 0 "$_what, $shard, on $_ranks ranks" ranks "$_ranks" "$_model.ini" -q -o v "dist.shard=$shard" "$@"
    same "$_what, $shard, on $_ranks ranks" one v
}
shard=optimizer

# The average of the weights, groups and clipping; validation exchanges weights and average. Divided among 3, then gradients and parameters
# too, whole on 2, divided among 3 in other buckets.
set -- train.ema_decay=0.9 train.grad_clip=0.5 "optimizer.groups=*.bias lr_scale=0.5"
expect 0 "whole" ranks 1 mlp.ini -q -o one "$@"
export CHARL_FAULT=train.stop:4
expect 75 "stopped at step 3" ranks 3 mlp.ini -q -o s "$@" dist.shard=optimizer
expect 75 "stopped at step 6" ranks 2 mlp.ini -q -o s "$@" dist.shard=parameters checkpoint.parts=rank
expect 75 "stopped at step 9" ranks 2 mlp.ini -q -o s "$@"
export CHARL_FAULT='device.copies@1:*' # as on a GPU
expect 0 "resumed" ranks 3 mlp.ini -q -o s "$@" dist.shard=gradients dist.bucket_mb=0.01
unset CHARL_FAULT
same "stopped three times" one s
rm -rf s
export CHARL_FAULT=train.stop:4
expect 75 "stopped with gradients" ranks 2 mlp.ini -q -o s "$@" dist.shard=gradients dist.allreduce=p2p
export CHARL_FAULT='train.stop:4,device.copies@1:*'
expect 75 "stopped with parameters" ranks 3 mlp.ini -q -o s "$@" dist.shard=parameters
export CHARL_FAULT='device.copies@1:*'
expect 0 "resumed with the optimizer" ranks 2 mlp.ini -q -o s "$@" dist.shard=optimizer dist.bucket_mb=0.01
unset CHARL_FAULT
same "stopped with gradients" one s

# Kernels add the gradients and send the parameters, on one node and over two.
divided "peer" 2 mlp dist.allreduce=peer
export CHARL_RANKS_PER_NODE=2
again "peer over two nodes" 4 mlp dist.allreduce=peer
shard=gradients
again "two nodes" 4 mlp
expect 2 "gradients by peer over two nodes" ranks 4 mlp.ini -q -o x dist.shard=gradients dist.allreduce=peer
says 1 "all-reduce peer does not work here: sharded gradients over several nodes need another one"
again "within nodes" 4 mlp dist.shard_group=node dist.bucket_mb=0.01
expect 2 "within nodes by p2p" ranks 4 mlp.ini -q -o x dist.shard=gradients dist.shard_group=node dist.allreduce=p2p
says 1 "all-reduce p2p does not work here: it divides among all ranks, not among those of a node"
expect 2 "within unequal nodes" ranks 3 mlp.ini -q -o x dist.shard=optimizer dist.shard_group=node
says 1 "needs the same number of ranks on each, but .* has 2 and .* has 1"
expect 0 "the plan" ranks 4 mlp.ini --dry-run dist.shard=gradients dist.shard_group=node
says 1 "all-reduce by hierarchical, optimizer and gradients sharded within nodes of 2 ranks"
shard=parameters
again "two nodes, p2p" 3 mlp dist.allreduce=p2p
again "two nodes" 3 mlp dist.bucket_mb=0.01
expect 2 "gradients by mpi" ranks 2 mlp.ini -q -o x dist.shard=gradients dist.allreduce=mpi
says 1 "it gives the sums to all ranks"
unset CHARL_RANKS_PER_NODE
again "peer" 2 mlp dist.allreduce=peer
shard=gradients
again "peer" 3 mlp dist.allreduce=peer dist.bucket_mb=0.01

# Dropout, one matrix for embedding and head; adapters; sums in bf16 in several passes.
make_gpt
printf '[train]\nmax_steps = 6\nbatch_size = 8\nslices = 8\ngrad_clip = 1\n' >>gpt.ini
divided "gpt" 3 gpt
shard=parameters
again "gpt, p2p" 2 gpt dist.allreduce=p2p dist.bucket_mb=0.01
mv one base
divided "gpt in bf16, recomputed" 2 gpt train.precision=bf16 train.recompute=yes optimizer.state=int8
divided "adapters" 2 gpt init.from=base/last.h5 lora.rank=4 lora.dropout=0.1
shard=gradients
divided "sums in bf16" 2 mlp dist.reduce_dtype=bf16 train.grad_accum_steps=2
shard=parameters
export CHARL_FAULT='device.copies@1:*'
again "sums in bf16, copied" 2 mlp dist.reduce_dtype=bf16 train.grad_accum_steps=2
unset CHARL_FAULT
export CHARL_FAULT='train.memory@0:*' # only rank 0 needs two passes
divided "passes of one rank" 2 mlp train.slices=4
unset CHARL_FAULT

# A gradient that is not finite is found by its owner, and named by all.
export CHARL_FAULT=train.device.nan@2:7
expect 6 "a gradient is not finite" ranks 3 mlp.ini -q -o x --overwrite dist.shard=gradients
unset CHARL_FAULT
says 1 "step 7: the gradient of fc2.weight is not finite"
rm -rf x

divided "sgd in f16" 3 cnn train.precision=f16 train.on_nonfinite=skip
again "sgd in f16, simulated" 1 cnn --simulate-ranks 2x2 train.precision=f16 train.on_nonfinite=skip
shard=optimizer
again "sgd in f16, within 3 nodes" 1 cnn --simulate-ranks 3x2 dist.shard_group=node train.precision=f16 train.on_nonfinite=skip
expect 2 "what does not work with parameters" ranks 2 mlp.ini -q -o x dist.shard=parameters dist.audit=2 dist.balance=speed dist.shard_group=node
says 1 "\\[dist\\] balance: speed needs all parameters on every rank, but \\[dist\\] shard = parameters divides them: use shard = gradients"
says 1 "\\[dist\\] audit: an audit needs all parameters"
says 1 "\\[dist\\] shard_group: node does not work with \\[dist\\] shard = parameters: use shard = gradients"

# Optimizers that update whole tensors: these are assigned to the ranks. The last has more ranks than tensors that cost much.
shard=gradients
divided "muon" 3 cnn optimizer.type=muon train.ema_decay=0.9
shard=optimizer
again "muon, p2p" 2 cnn optimizer.type=muon train.ema_decay=0.9 dist.allreduce=p2p
shard=parameters
again "muon" 3 cnn optimizer.type=muon train.ema_decay=0.9
export CHARL_RANKS_PER_NODE=2
shard=gradients
divided "lamb over two nodes" 3 gpt optimizer.type=lamb # one matrix for embedding and head
divided "a tensor that is most of the model" 4 mlp optimizer.type=lamb
shard=parameters
again "more ranks than large tensors" 4 mlp optimizer.type=lamb
shard=optimizer
again "the same within nodes" 4 mlp optimizer.type=lamb dist.shard_group=node checkpoint.parts=rank
shard=gradients
unset CHARL_RANKS_PER_NODE
expect 2 "muon by peer" ranks 2 cnn.ini -q -o x dist.shard=optimizer optimizer.type=muon dist.allreduce=peer
says 1 "all-reduce peer does not work here: it divides every tensor among the ranks"
set -- optimizer.type=adafactor train.grad_accum_steps=2 dist.reduce_dtype=bf16 checkpoint.parts=rank
divided "adafactor" 3 mlp "$@"
rm -rf s
export CHARL_FAULT=train.stop:4
expect 75 "stopped at step 3" ranks 2 mlp.ini -q -o s "$@" dist.shard=gradients
expect 75 "stopped at step 6" ranks 3 mlp.ini -q -o s "$@" dist.shard=optimizer
export CHARL_FAULT='device.copies@1:*'
expect 0 "resumed" ranks 2 mlp.ini -q -o s "$@" dist.shard=parameters
unset CHARL_FAULT
same "adafactor, stopped twice" one s

if [ -n "$long" ]; then
    for shard in optimizer gradients parameters; do
        for type in muon lamb adafactor; do
            divided "$type" 2 cnn optimizer.type=$type
            again "$type" 3 cnn optimizer.type=$type
            again "$type" 4 cnn optimizer.type=$type
        done
        divided "sgd in f16" 5 cnn train.precision=f16 train.on_nonfinite=skip
        for type in sgd adam lion rmsprop adagrad; do
            divided "$type" 3 mlp optimizer.type=$type
            again "$type, sums in f32" 8 mlp optimizer.type=$type
            divided "$type, sums in bf16" 2 mlp optimizer.type=$type dist.reduce_dtype=bf16 train.grad_accum_steps=2
        done
        export CHARL_FAULT='device.copies@1:*'
        again "one rank copies" 2 mlp optimizer.type=adagrad dist.reduce_dtype=bf16 train.grad_accum_steps=2
        export CHARL_SLOW=1:3
        again "divided again by speed" 2 mlp optimizer.type=adagrad dist.reduce_dtype=bf16 dist.balance=speed
        unset CHARL_FAULT CHARL_SLOW
        for from in none optimizer gradients parameters; do
            rm -rf one s
            expect 0 "whole" ranks 1 mlp.ini -q -o one
            export CHARL_FAULT=train.stop:4
            expect 75 "$from, stopped" ranks 4 mlp.ini -q -o s dist.shard=$from
            unset CHARL_FAULT
            expect 0 "$from, then $shard" ranks 3 mlp.ini -q -o s dist.shard=$shard
            same "$from, then $shard" one s
        done
    done
fi

# A rank fails alone before the state is collected, and where it has begun with that.
for fault in train.checkpoint.fail train.collect; do
    export CHARL_FAULT=$fault@1:1
    expect 4 "$fault" ranks 2 mlp.ini -q -o x dist.shard=optimizer
    unset CHARL_FAULT
    says 1 "rank 1 of 2.*on purpose"
    rm -rf x
done

# Devices with memory of their own, of which so little may be used that a model fits none alone, nor all of them with whole gradients;
# auto takes the least that fits. Four have less activations each.
export CHARL_FAULT='device.copies:*'
large="model.hidden=1500,1200 model.dropout=0 train.batch_size=64 train.slices=4 data.cache=none train.max_steps=2 eval.interval=0 log.interval=1 checkpoint.parts=one"
expect 0 "without a limit" ranks 1 mlp.ini -q -o whole $large
expect 4 "a device" ranks 1 mlp.ini -q -o x $large device.memory_limit=52 dist.shard=auto
says 1 "out of device memory"
expect 4 "2 devices, whole" ranks 2 mlp.ini -q -o x --overwrite $large device.memory_limit=52
expect 4 "2 devices, the optimizer sharded" ranks 2 mlp.ini -q -o x --overwrite $large device.memory_limit=52 dist.shard=optimizer
for case in "2 optimizer and gradients" "3 optimizer and gradients" "4 optimizer"; do # ranks, what is sharded
    n=${case%% *}
    expect 0 "$n devices" ranks $n mlp.ini -o few-$n $large device.memory_limit=52 dist.shard=auto
    says 1 "ranks    all-reduce by [a-z0-9]*, ${case#* } sharded"
    same "$n devices" whole few-$n
done
expect 0 "auto, with more memory" ranks 2 mlp.ini --dry-run $large device.memory_limit=66 dist.shard=auto
says 1 "all-reduce by .*, optimizer sharded"
expect 0 "auto, with all" ranks 2 mlp.ini --dry-run $large dist.shard=auto
says 0 "sharded"
rm -rf whole few-2 few-3 few-4 x

# Layers of one size: a model that fits neither whole nor with its parameters whole. The plan of one rank says what 2 would take.
large="model.hidden=700,700,700,700,700,700 ${large#* }"
expect 0 "without a limit" ranks 1 mlp.ini -q -o whole $large
for case in "2 36" "3 30" "4 26"; do # ranks, MiB
    n=${case% *}
    expect 4 "$n devices, gradients sharded" ranks $n mlp.ini -q -o x --overwrite $large device.memory_limit=${case#* } dist.shard=gradients
    expect 0 "$n devices" ranks $n mlp.ini -o few-$n $large device.memory_limit=${case#* } dist.shard=auto
    says 1 "ranks    all-reduce by [a-z0-9]*, optimizer, gradients and parameters sharded"
    same "$n devices, parameters" whole few-$n
done
expect 0 "with 2" ranks 2 mlp.ini -o few-2 --overwrite $large dist.shard=parameters
real=$(sed -n 's/^  memory   \([0-9.]*\) MiB.*/\1/p' log)
expect 0 "the plan" "$bin/charl" model memory mlp.ini $large
planned=$(awk '$1 == "parameters" && NF == 7 { print $4 }' log)
checks=$((checks + 1))
awk -v r="$real" -v p="$planned" 'BEGIN { exit !(r > 10 && p > 0.97 * r && p < 1.03 * r) }' || fail "2 ranks take $real MiB; planned were $planned"
unset CHARL_FAULT
large=${large#* }
expect 0 "auto and muon" ranks 2 mlp.ini --dry-run model.hidden=1500,1200 $large dist.shard=auto optimizer.type=muon device.memory_limit=66
says 1 "all-reduce by .*, optimizer.* sharded"
rm -rf whole few-2 few-3 few-4 x

expect 0 "the saving is shown" ranks 2 mlp.ini --dry-run dist.shard=gradients
says 1 "memory .*; [0-9.]* [KM]iB saved by sharding$"
finish

#!/bin/sh
# The same bits for any number of ranks, any algorithm of communication, any place of the data and any number of
# compute units; and after stopping anywhere and going on with another number of ranks. CHARL_TEST_LONG=1: every pair
# and every algorithm.
rows=80
. "$(dirname "$0")/common.sh"

# Batch normalisation has sums of all ranks: even and odd numbers of them. The last has one slice on each rank.
for model in "mlp 3 8" "cnn 3 4"; do
    numbers=${model#* } model=${model%% *}
    [ -z "$long" ] || numbers="2 3 4 8"
    expect 0 "$model on 1 rank" ranks 1 $model.ini -q -o $model-1
    for n in $numbers; do
        expect 0 "$model on $n ranks" ranks $n $model.ini -q -o $model-$n
        same "$model on $n ranks" $model-1 $model-$n
    done
done
checks=$((checks + 1))
cmp -s mlp-1/checkpoints/step-00000005.h5 mlp-1/checkpoints/step-00000010.h5 && fail "nothing was trained"

# variant NAME RANKS MODEL SETTINGS...: the same result with other settings
variant() {
    _name=$1 _ranks=$2 _model=$3
    shift 3
    expect 0 "$_model, $_name" ranks "$_ranks" "$_model.ini" -q -o "v" "$@"
    [ -z "${CHARL_LOG:-}" ] || says 1 "info: one rank without MPI: no launcher"
    same "$_model, $_name" "$_model-1" v
    rm -rf v
}
variant "streamed, p2p" 3 cnn data.cache=none dist.allreduce=p2p
variant "on the device" 1 cnn data.cache=device
variant "p2p, small buckets" 2 cnn dist.allreduce=p2p dist.bucket_mb=0.01
variant "the devices alone" 2 cnn dist.allreduce=peer dist.bucket_mb=0.01
variant "audited" 4 mlp dist.audit=1 train.grad_accum_steps=2
variant "audited, streamed" 2 cnn dist.audit=2 data.cache=none
variant "streamed" 1 mlp data.cache=none
variant "one after another" 2 mlp data.cache=none data.prefetch=no dist.overlap=no
variant "shm" 3 mlp dist.allreduce=shm
variant "shm, small buckets, no overlap" 3 cnn dist.allreduce=shm dist.bucket_mb=0.01 dist.overlap=no
# Nobody to speak to: MPI is not started, whatever all-reduce is asked for.
export CHARL_LOG=info
variant "one rank, MPI's all-reduce" 1 mlp dist.allreduce=mpi
unset CHARL_LOG

# A graph of layers, also where activations are computed again, and where it was stopped.
expect 0 "graph on 1 rank" ranks 1 graph.ini -q -o graph-1
variant "3 ranks, activations recomputed" 3 graph train.recompute=yes
variant "cheap activations recomputed" 1 graph train.recompute=cheap

# Rows shuffled in blocks: another order, and the same bits in every way.
blocks="data.shuffle=blocks data.shuffle_window=24"
expect 0 "blocks on 1 rank" ranks 1 mlp.ini -q -o blocks-1 $blocks
cmp -s mlp-1/checkpoints/step-00000010.h5 blocks-1/checkpoints/step-00000010.h5 && fail "blocks: the order of yes"
expect 0 "blocks on 3 ranks" ranks 3 mlp.ini -q -o v $blocks data.cache=none data.threads=1
same "blocks on 3 ranks" blocks-1 v
rm -rf v s
export CHARL_FAULT="train.stop:4"
expect 75 "blocks, stopped" ranks 2 mlp.ini -q -o s $blocks
unset CHARL_FAULT
expect 0 "blocks, resumed" ranks 1 mlp.ini -q -o s $blocks data.cache=none data.read_cache_mb=1 data.threads=4
same "blocks, resumed" blocks-1 s
rm -rf s

# option NAME SETTINGS...: mlp.ini with them ends elsewhere
option() {
    _name=$1
    shift
    expect 0 "$_name on 1 rank" ranks 1 mlp.ini -q -o o1 "$@"
    cmp -s mlp-1/checkpoints/step-00000010.h5 o1/checkpoints/step-00000010.h5 && fail "$_name changes nothing"
    rm -rf o1
}
option "z-loss" train.z_loss=0.1
option "focal loss" train.loss=focal train.focal_gamma=1.5
option "balanced sampling" data.sampling=balanced
option "spikes" train.on_spike=skip train.spike_window=2 train.spike_threshold=1
option "random images" data.augment=resized_crop:0.2,brightness:0.4,randaugment:1,erase:0.5,cutmix:1,mixup:0.4
# options NAME SETTINGS...: several of them end in the same place when they stop on 3 ranks and go on with 1
stop_ranks=3
options() {
    _name=$1
    shift
    expect 0 "$_name on 1 rank" ranks 1 mlp.ini -q -o o1 "$@"
    resumes "$_name" o1 7 mlp.ini -q "$@"
    rm -rf o1
}
options "z-loss, balanced sampling, state in 8 bits" train.z_loss=0.1 data.sampling=balanced optimizer.type=adamw optimizer.state=int8 \
    dist.shard=optimizer
options "focal loss, spikes" train.loss=focal train.focal_gamma=1.5 train.on_spike=skip train.spike_window=2 train.spike_threshold=1
options "random images, state in bf16" optimizer.type=adamw optimizer.state=bf16 \
    data.augment=resized_crop:0.2,brightness:0.4,randaugment:1,erase:0.5,cutmix:1,mixup:0.4

# Every algorithm, rank count, size of buckets, and whatever is divided.
if [ -n "$long" ]; then
    for mb in 0.01 25; do
        for shard in none optimizer gradients parameters; do
            set -- dist.bucket_mb=$mb dist.shard=$shard
            for n in 2 3 4 5 6 7 8; do
                for how in shm p2p peer; do
                    [ $how$shard = peeroptimizer ] || variant "$how, $n ranks, $*" $n cnn dist.allreduce=$how "$@"
                done
            done
            for nodes in 2x1 2x2 2x3 3x2 4x2 2x4; do
                variant "nodes $nodes, $*" 1 cnn --simulate-ranks $nodes dist.allreduce=hierarchical "$@"
            done
        done
    done
fi

# Compute units: PoCL can limit its own, so this is about a CPU, whatever device the rest runs on.
units() { # units N MODEL DIRECTORY
    export POCL_MAX_PTHREAD_COUNT="$1" POCL_CPU_MAX_CU_COUNT="$1"
    expect 0 "$2, $1 compute units" ranks 1 "$2.ini" -q -o "$3" device.select=cpu
    unset POCL_MAX_PTHREAD_COUNT POCL_CPU_MAX_CU_COUNT
}
if "$bin/charl" devices | grep -q '^[0-9]*  .*, cpu$'; then
    units 1 cnn one
    units 2 cnn two
    same "cnn, 1 and 2 compute units" one two
    rm -rf one two
else
    skipped "1 and 2 compute units" "no OpenCL device is a CPU"
fi

# stopped MODEL STEP FROM TO: stop before step STEP + 1 on FROM ranks, go on with TO
stopped() {
    _w="$1 stopped at $2, $3 to $4 ranks"
    rm -rf s
    export CHARL_FAULT="train.stop:$(($2 + 1))"
    expect 75 "$_w" ranks "$3" "$1.ini" -q -o s
    unset CHARL_FAULT
    expect 0 "$_w, resumed" ranks "$4" "$1.ini" -q -o s
    same "$_w" "$1-1" s
}
# An epoch has 5 steps, the run 10.
if [ -n "$long" ]; then
    for model in mlp cnn; do
        for step in 0 1 3 4 5 6 9; do
            for from in 1 2 3 4; do
                for to in 1 2 3 4; do
                    stopped $model $step $from $to
                done
            done
        done
    done
else
    stopped mlp 1 4 1
    stopped cnn 3 1 3
    stopped mlp 5 3 4
    stopped graph 6 2 1
    stopped mlp 0 1 2
fi

# At the last step there is nothing left to do, with any number of ranks.
cp -r cnn-3 again
expect 0 "a finished run again" ranks 2 cnn.ini -o again
says 1 "nothing left to do; to continue training, increase train.epochs"
same "a finished run again" cnn-1 again

# Killed in the middle of a step: what is lost is computed again.
export CHARL_FAULT="train.backward.kill@1:8"
rm -rf k
ranks 3 mlp.ini -q -o k >log 2>&1 && fail "a killed rank: exit code 0"
unset CHARL_FAULT
says 1 "rank 1 of 3 .* died at or near step 8"
expect 0 "after a killed rank" ranks 2 mlp.ini -q -o k
same "after a killed rank" mlp-1 k
finish

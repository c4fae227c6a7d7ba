#!/bin/sh
# What only updates use lies in host memory (device.offload): the same checkpoints as without, whatever the optimizer, precision and number of ranks;
# resumed with and without. A limit of memory that is too small for a model without offload is large enough with it.
# CHARL_TEST_LONG=1: more optimizers.
rows=80
. "$(dirname "$0")/common.sh"
on=device.offload=optimizer

# offloaded WHAT MODEL SETTINGS...: as without
offloaded() {
    _what=$1 _model=$2
    shift 2
    rm -rf one v
    expect 0 "$_what, on the device" ranks 1 "$_model.ini" -q -o one "$@"
    expect 0 "$_what, offloaded" ranks 1 "$_model.ini" -q -o v $on "$@"
    same "$_what, offloaded" one v
}

# again WHAT RANKS SHARD MODEL SETTINGS...: as the last on the device
again() {
    _what="$1, $3, on $2 ranks" _ranks=$2 _shard=$3 _model=$4
    shift 4
    rm -rf v
    expect 0 "$_what" "$bin/charl-train" "$_model.ini" -q -o v --simulate-ranks $_ranks $on dist.shard=$_shard "$@"
    same "$_what" one v
}

# Averages, groups, clipping and passes; stopped and resumed with and without.
set -- train.precision=bf16 train.ema_decay=0.9 train.grad_clip=0.5 "optimizer.groups=*.bias lr_scale=0.5" train.grad_accum_steps=2
offloaded "mlp in bf16" mlp "$@"
again "mlp in bf16" 2 none mlp "$@"
export CHARL_FAULT=train.stop:4
expect 75 "stopped at step 3" ranks 1 mlp.ini -q -o s "$@" $on
expect 75 "stopped at step 6" ranks 1 mlp.ini -q -o s "$@"
expect 75 "stopped at step 9" ranks 2 mlp.ini -q -o s "$@" $on dist.shard=parameters checkpoint.parts=rank
unset CHARL_FAULT
expect 0 "resumed" ranks 1 mlp.ini -q -o s "$@" $on
same "stopped three times" one s

# As on a GPU that reaches host memory: what is exchanged is copied.
CHARL_FAULT='device.copies:*,device.reaches_host:*'
export CHARL_FAULT
for shard in optimizer parameters; do
    rm -rf v
    expect 0 "copied, $shard" ranks 2 mlp.ini -q -o v "$@" $on dist.shard=$shard dist.allreduce=shm
    same "copied, $shard" one v
done
unset CHARL_FAULT

# Dropout, one matrix for embedding and head.
make_gpt
printf '[train]\nmax_steps = 4\nbatch_size = 8\nslices = 8\n[device]\nshare = yes\n' >>gpt.ini
offloaded "gpt in bf16" gpt train.precision=bf16 train.grad_clip=1
again "gpt in bf16" 4 gradients gpt train.precision=bf16 train.grad_clip=1
mv one base
offloaded "gpt" gpt
again "gpt" 4 parameters gpt
offloaded "adapters and packed states" gpt train.precision=bf16 init.from=base/last.h5 lora.rank=4 optimizer.state=int8
offloaded "muon" cnn optimizer.type=muon train.ema_decay=0.9 train.precision=bf16 eval.interval=0
if [ -n "$long" ]; then
    again "muon" 2 gradients cnn optimizer.type=muon train.ema_decay=0.9 train.precision=bf16 eval.interval=0
    again "muon" 3 parameters cnn optimizer.type=muon train.ema_decay=0.9 train.precision=bf16 eval.interval=0
    for type in sgd adam lamb adafactor rmsprop lion adagrad; do
        offloaded "$type in f16" mlp optimizer.type=$type train.precision=f16 train.on_nonfinite=skip
        again "$type in f16" 3 parameters mlp optimizer.type=$type train.precision=f16 train.on_nonfinite=skip
    done
    offloaded "gpt" gpt
    again "gpt" 2 optimizer gpt
    again "gpt" 2 none gpt
fi

# A limit. The plan counts what the run takes.
cat >large.ini <<'INI'
[run]
output_dir = run
[data]
path = digits.h5
[model]
type = mlp
hidden = 512,512
[train]
batch_size = 16
max_steps = 1
slices = 2
precision = bf16
grad_accum_steps = 1
recompute = no
[eval]
interval = 0
[device]
memory_limit = 12
share = yes
INI
expect 4 "too large" ranks 1 large.ini -q
says 1 "out of device memory: .* for optimizer state do not fit"
expect 0 "offloaded" ranks 1 large.ini $on
says 1 "memory   .* of 12.0 MiB on this device, .*; 7.7 MiB in host memory"
line=$(grep '^  memory' log)
expect 0 "the plan" ranks 1 large.ini $on --dry-run
says 1 "$line"
expect 0 "by purpose" "$bin/charl" model memory large.ini $on
says 1 "^in host memory: 7.68 MiB"
says 1 "^  optimizer state +5.12 MiB"
says 1 "^  gradients +7.68 MiB +[0-9.]+ MiB"
expect 0 "on a cluster" "$bin/charl" plan large.ini --nodes 1x2 --device H200 $on
says 1 "^none .* 8.05 MB"
CHARL_FAULT=device.host_memory:1
export CHARL_FAULT
expect 4 "no host memory" ranks 1 large.ini -q $on
says 1 "out of host memory: 2.6 MiB for parameters do not fit, 0.0 MiB are free"
CHARL_FAULT='device.copies:*'
expect 4 "a device that does not reach it" ranks 1 large.ini -q $on
says 1 "device.offload: .* does not access host memory through the driver opencl"
expect 4 "too large for such a device" ranks 1 large.ini -q
says 1 "lower the batch size, or use more ranks$"
unset CHARL_FAULT
finish

#!/bin/sh
# An ordinary step allocates nothing, on the host or on the device, builds nothing, and on one rank waits for nothing but
# the end of earlier steps; on several ranks in addition for its own gradients and sums.
. "$(dirname "$0")/common.sh"

make_gpt
cat >>gpt.ini <<'INI'
[train]
batch_size = 8
slices = 8
grad_clip = 1
[optimizer]
learning_rate = 1e-2
[device]
share = yes
INI

# steady NAME RANKS SETTING...: 20 steps of NAME.ini
steady() {
    _name=$1 _n=$2
    shift 2
    expect 0 "$_name on $_n ranks $*" timeout 1500 "$bin/charl-train" --simulate-ranks="$_n" "$_name.ini" --overwrite -o run \
        train.max_steps=20 log.interval=1000 eval.interval=0 checkpoint.interval=0 "$@"
    says "$_n" "an ordinary step: .* launches"
    says "$_n" "[1-9][0-9]* ordinary steps: 0 pieces of host memory, 0 buffers, 0 programs, 0 kernels were made"
    if [ "$_n" -eq 1 ]; then
        says 1 "an ordinary step: .*, 0.0 waits"
    fi
}

export CHARL_LOG=info
for name in mlp cnn gpt; do
    for n in 1 2; do
        steady $name $n
    done
done
steady cnn 1 train.on_nonfinite=skip data.cache=none
finish

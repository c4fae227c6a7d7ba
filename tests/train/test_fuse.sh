#!/bin/sh
# Fusion changes no bit: models trained with operators fused and one by one are the same, also on several ranks.
. "$(dirname "$0")/common.sh"

# compare NAME RANKS CONFIG ARGUMENTS...
compare() {
    _name=$1 _on=$2 _ini=$3
    shift 3
    rm -rf fused apart
    expect 0 "$_name fused" ranks "$_on" "$_ini" -q -o fused "$@"
    export CHARL_NO_FUSION=1
    expect 0 "$_name one by one" ranks 1 "$_ini" -q -o apart "$@"
    unset CHARL_NO_FUSION
    same "$_name" fused apart
}

compare "a perceptron" 3 mlp.ini train.epochs=1
compare "a perceptron without dropout" 1 mlp.ini train.epochs=1 model.dropout=0
expect 0 "a plan" ranks 1 mlp.ini --dry-run model.dropout=0
says 1 "launches [0-9]+ per step: [0-9]+ forward, [0-9]+ backward, [0-9]+ update; 3 less by fusion" # two activations, and the loss with its gradient
if [ -n "$long" ]; then
    compare "a convolutional network" 1 cnn.ini
    compare "a convolutional network in bf16" 2 cnn.ini train.precision=bf16
    compare "a convolutional network in f16" 1 cnn.ini train.precision=f16
    compare "a residual network" 1 cnn.ini model.type=resnet model.depth=20 train.max_steps=2
    make_gpt
    cat >>gpt.ini <<'INI'
[train]
max_steps = 6
batch_size = 8
slices = 8
INI
    for precision in f32 bf16; do
        compare "a transformer in $precision" 1 gpt.ini train.precision=$precision train.recompute=yes
    done
fi
finish

#!/bin/sh
# The examples of launch/ on MNIST: what they promise, and the same validation loss on 1 rank and on 4. Needs the IDX files
# in $CHARL_TEST_DATA/mnist10k. On 4 ranks they are stopped after 2 epochs, except with CHARL_TEST_LONG=1. With sanitizers, or
# CHARL_TEST_SHORT=1, only the perceptron on 1 rank.
. "$(dirname "$0")/common.sh"
data=$test_data/mnist10k
[ -f "$data/images-idx3-ubyte.gz" ] || skip "CHARL_TEST_DATA names no folder with mnist10k"
launch=$here/../../launch

"$bin/charl" data import idx "$data/images-idx3-ubyte.gz" "$data/labels-idx1-ubyte.gz" --val-split 0.2 -o mnist.h5 \
    >/dev/null || exit 1

# train EXAMPLE RANKS: writes EXAMPLE-RANKS/
train() {
    if [ "$2" -eq 1 ]; then
        set -- "$1" "$2" timeout 1500 "$bin/charl-train"
    else
        set -- "$1" "$2" timeout 1500 mpirun -q --oversubscribe --bind-to none -n "$2" "$bin/charl-train"
    fi
    _example=$1 _n=$2
    shift 2
    _end=0
    [ -z "${CHARL_FAULT:-}" ] || _end=75
    expect $_end "$_example on $_n ranks" "$@" "$launch/$_example.ini" -q data.path="$T/mnist.h5" \
        run.output_dir="$T/$_example-$_n" device.share=yes
}

# reaches EXAMPLE RANKS ACCURACY: the last validation is at least so good
reaches() {
    checks=$((checks + 1))
    _a=$(grep '"event":"val"' "$1-$2/metrics.jsonl" | tail -n 1 | sed -E 's/.*"accuracy":([0-9.e-]+).*/\1/')
    echo "$1 on $2 ranks: validation accuracy $_a"
    awk -v got="$_a" -v want="$3" 'BEGIN { exit !(got + 0 >= want + 0) }' || fail "$1 on $2 ranks: accuracy $_a, expected $3"
}

# val_losses DIRECTORY: every validation loss, as written
val_losses() {
    grep '"event":"val"' "$1/metrics.jsonl" | sed -E 's/.*"loss":([^,}]+).*/\1/'
}

train mnist-mlp 1
reaches mnist-mlp 1 0.94
if [ -n "$short" ] || grep -q __asan_init "$bin/charl-train"; then
    finish
fi
train mnist-cnn 1
[ -n "$long" ] || export CHARL_FAULT="train.stop:130"
train mnist-mlp 4
train mnist-cnn 4
unset CHARL_FAULT
reaches mnist-cnn 1 0.975
for example in mnist-mlp mnist-cnn; do
    checks=$((checks + 1))
    val_losses $example-1 >one
    val_losses $example-4 >four
    [ -s four ] && head -n "$(wc -l <four)" one | cmp -s - four ||
        { fail "$example: 1 and 4 ranks have other validation losses"; diff one four | head -n 4; }
done
finish

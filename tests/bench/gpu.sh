#!/bin/sh
# The results of docs/benchmarks.md on one GPU.
# Usage: tests/bench/gpu.sh BIN DATA PYTHON...
set -eu
here=$(dirname "$0")
bin=${1:?names the folder of the programs} data=${2:?names a folder for datasets}
shift 2
baselines=
for python in "${@:-python3}"; do
    baselines="$baselines --baseline $python"
done
for kind in gemm conv attention layernorm cross-entropy embedding optimizer copy launch; do
    "$bin/charl-bench" $kind --device gpu
done
# shellcheck disable=SC2086
python3 "$here/compare.py" --gpu --bin "$bin" --data "$data" --seconds 0.2 --rounds 3 $baselines gemm
# shellcheck disable=SC2086
python3 "$here/compare.py" --gpu --compile --bin "$bin" --data "$data" --seconds 2 --rounds 5 $baselines mnist-mlp gpt2-124m resnet50 \
    vit-b convnext-t mobilenet unet bert-base
# shellcheck disable=SC2086
python3 "$here/compare.py" --gpu --bin "$bin" --data "$data" --seconds 1 --rounds 5 $baselines lstm lstm-bf16

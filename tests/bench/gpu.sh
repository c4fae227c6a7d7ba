#!/bin/sh
# Everything that docs/benchmarks.md says of one GPU.
# Usage: tests/bench/gpu.sh BIN DATA PYTHON...
set -eu
here=$(dirname "$0")
bin=${1:?names the folder of the programs} data=${2:?names a folder for datasets}
shift 2
charl=$bin/charl
rivals=
for python in "${@:-python3}"; do
    rivals="$rivals --rival $python"
done
for kind in gemm conv attention layernorm cross-entropy embedding optimizer copy launch; do
    "$charl" bench $kind --device gpu
done
# shellcheck disable=SC2086
python3 "$here/compare.py" --gpu --charl "$charl" --data "$data" --seconds 0.2 --rounds 3 $rivals gemm
# shellcheck disable=SC2086
python3 "$here/compare.py" --gpu --compile --charl "$charl" --data "$data" --seconds 2 --rounds 5 $rivals mnist-mlp gpt2-124m resnet50

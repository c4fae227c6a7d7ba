#!/bin/sh
# The results of docs/benchmarks.md on one CPU; run it on an idle machine.
# Usage: tests/bench/cpu.sh BIN DATA PYTHON[:THREADS]...
set -eu
here=$(dirname "$0")
bin=${1:?names the folder of the programs} data=${2:?names a folder for datasets}
shift 2
baselines=
for python in "${@:-python3}"; do
    baselines="$baselines --baseline $python"
done
for kind in gemm conv attention layernorm cross-entropy embedding optimizer copy launch; do
    "$bin/charl-bench" $kind --device cpu
done
# shellcheck disable=SC2086
python3 "$here/compare.py" --bin "$bin" --data "$data" --seconds 2 --rounds 7 $baselines mnist-mlp mnist-cnn shakespeare
# shellcheck disable=SC2086
python3 "$here/compare.py" --bin "$bin" --data "$data" --seconds 0.2 --rounds 5 $baselines gemm

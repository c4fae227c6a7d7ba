#!/usr/bin/env bash
# From a fresh checkout to a trained model: install what is missing, build, make the bundled data set, train on 2 ranks,
# stop half-way, and continue on 1 rank. Prints a line for each; the rest is in build/quickstart.log.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p build
log=$PWD/build/quickstart.log
: >"$log"
# step WHAT COMMAND...: say what is done, and why it failed
step() {
    echo "$1"
    shift
    "$@" >>"$log" 2>&1 || {
        status=$?
        tail -n 20 "$log" >&2
        echo "quickstart: failed with status $status; all of it is in $log" >&2
        exit "$status"
    }
}
build() {
    cmake --preset release -DCHARL_TESTS=OFF && # tests need more packages
        cmake --build --preset release --target charl-train charl
}

step "1/4  packages that are missing" bash launch/install-deps.sh
step "2/4  charl, built in build/release" build
bin=build/release/src/cli

# Two ranks on whatever there is: containers run as root and often with one visible core.
ranks=(mpirun -q --oversubscribe --bind-to none)
[ "$(id -u)" -ne 0 ] || ranks+=(--allow-run-as-root)

data=datasets/digits.h5
[ -f "$data" ] || "$bin/charl" data make digits "$data" --train 6000 --val 1000 >>"$log"

run=runs/quickstart
rm -rf "$run"
total=$(((6 * 6000 + 127) / 128))

touch_stop() { # a STOP file ends a run with a checkpoint and exit status 75
    until grep -qs '"step":140' "$run/metrics.jsonl"; do sleep 0.2; done
    touch "$run/STOP"
}
half() {
    touch_stop &
    local watcher=$! status=0
    "${ranks[@]}" -n 2 "$bin/charl-train" launch/digits.ini -o "$run" device.share=yes || status=$? # there may be one GPU
    kill "$watcher" 2>/dev/null || true
    [ "$status" -eq 75 ] || return "$status"
}
step "3/4  training on 2 ranks, stopped after half of $total steps" half
step "4/4  training on 1 rank, from there: the same bits as if nothing had happened" \
    "$bin/charl-train" launch/digits.ini -o "$run"

accuracy=$(grep '"event":"val"' "$run/metrics.jsonl" | tail -n 1 | sed -E 's/.*"accuracy":([0-9.]+).*/\1/')
echo "validation accuracy: $accuracy   (checkpoints and metrics in $run, all output in ${log#"$PWD/"})"

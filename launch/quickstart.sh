#!/usr/bin/env bash
# From a fresh checkout to a trained model: install what is missing, build, make the bundled data set, train on 2 ranks,
# stop half-way, and continue on 1 rank.
set -euo pipefail
cd "$(dirname "$0")/.."

bash launch/install-deps.sh
cmake --preset release -DCHARL_TESTS=OFF # tests need more packages
cmake --build --preset release --target charl-train charl
bin=build/release/src/cli

# Two ranks on whatever there is: containers run as root and often with one visible core.
ranks=(mpirun -q --oversubscribe --bind-to none)
[ "$(id -u)" -ne 0 ] || ranks+=(--allow-run-as-root)

data=datasets/digits.h5
[ -f "$data" ] || "$bin/charl" data make digits "$data" --train 6000 --val 1000

run=runs/quickstart
rm -rf "$run"
total=$(((6 * 6000 + 127) / 128))

echo
echo "== 2 ranks, stopped after half of $total steps"
touch_stop() { # a STOP file ends a run with a checkpoint and exit status 75
    until grep -qs '"step":140' "$run/metrics.jsonl"; do sleep 0.2; done
    touch "$run/STOP"
}
touch_stop &
watcher=$!
status=0
"${ranks[@]}" -n 2 "$bin/charl-train" launch/digits.ini -o "$run" device.share=yes || status=$? # there may be one GPU
kill "$watcher" 2>/dev/null || true
[ "$status" -eq 75 ] || [ "$status" -eq 0 ] || exit "$status"

echo
echo "== 1 rank, continues where 2 ranks stopped: the same bits as if nothing had happened"
"$bin/charl-train" launch/digits.ini -o "$run"

echo
accuracy=$(grep '"event":"val"' "$run/metrics.jsonl" | tail -n 1 | sed -E 's/.*"accuracy":([0-9.]+).*/\1/')
echo "validation accuracy: $accuracy   (checkpoints and metrics in $run)"

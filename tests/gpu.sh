#!/usr/bin/env bash
# The tests of a GPU. An NVIDIA GPU has two sets of kernels: with inline PTX and tensor cores its own, with CHARL_NO_PTX=1 those that every other GPU
# runs. Both are tested, and their bits in f32 compared, with each other and with those that are recorded. What depends on the driver is tested with
# the driver that charl chooses and with CHARL_DRIVER=opencl, and their bits are compared too. One line for each piece: PASS or FAIL.
# Pieces run side by side, the most telling first, each with its own limit of time; after SECONDS (530) all have ended.
# Usage: tests/gpu.sh BUILD [DIRECTORY [SECONDS]]   as `tests/gpu.sh build/release /tmp/gpu`: DIRECTORY gets the logs. $CHARL_DEVICE picks the device.
set -uo pipefail
build=$(cd "${1:?names a build directory}" && pwd) || exit 2
out=${2:-$(mktemp -d)}
mkdir -p "$out" && out=$(cd "$out" && pwd) && here=$(cd "$(dirname "$0")" && pwd) || exit 2
rm -f "$out"/*.log "$out"/*.line
bin=$build/src/cli
export CHARL_DEVICE=${CHARL_DEVICE:-gpu} LD_LIBRARY_PATH=$build/src${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
jobs=$(nproc)
deadline=$((SECONDS + ${3:-530}))
names=()

# piece NAME SECONDS COMMAND...: in the background, with its output in NAME.log
piece() {
    local name=$1 limit=$2
    shift 2
    names+=("$name")
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
        wait -n
    done
    {
        local begun=$SECONDS rc
        [ "$limit" -le $((deadline - begun)) ] || limit=$((deadline - begun))
        [ "$limit" -gt 0 ] || limit=0.1
        timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1 </dev/null
        rc=$?
        case $rc in
        0) echo "PASS $name, $((SECONDS - begun)) s" ;;
        77) echo "PASS $name: $(grep -m 1 skipped "$out/$name.log")" ;;
        124 | 137) echo "FAIL $name: not done after $limit s" ;;
        *) echo "FAIL $name: exit code $rc: $(grep -E 'FAILED|error|FAIL' "$out/$name.log" | tail -n 1)" ;;
        esac >"$out/$name.line"
        cat "$out/$name.line"
    } &
}

# In both modes: own_NAME and portable_NAME.
both() {
    local name=$1 limit=$2
    shift 2
    piece "portable_$name" "$limit" env CHARL_NO_PTX=1 "$@"
    piece "own_$name" "$limit" env CHARL_NO_PTX=0 "$@"
}

# In both modes, and by OpenCL: opencl_NAME.
every() {
    local name=$1 limit=$2
    both "$@"
    shift 2
    piece "opencl_$name" "$limit" env CHARL_DRIVER=opencl "$@"
}

# results PIECE: what it has printed, without its device and its progress
results() { grep -vE '^device |compil(ing|ed) ' "$out/$1.log"; }

# equal NAME MODE: pieces own_NAME and MODE_NAME have printed the same
equal() {
    local name=equal_$2_$1
    names+=("$name")
    if ! grep -qs ^PASS "$out/own_$1.line" || ! grep -qs ^PASS "$out/$2_$1.line"; then
        echo "FAIL $name: one of the two is missing"
    elif diff <(results "own_$1") <(results "$2_$1") >"$out/$name.log"; then
        echo "PASS $name: the same bits"
    else
        echo "FAIL $name: other bits: $(grep -c '^>' "$out/$name.log") lines differ, $(sed -n 's/^> //p' "$out/$name.log" | head -n 3 | cut -d' ' -f1 | tr '\n' ' ')"
    fi | tee "$out/$name.line"
}

# Two ranks on one GPU, and one: the hashes that run.lock has of every checkpoint.
"$bin/charl" data make digits "$out/digits.h5" -t 320 -v 100 >/dev/null || exit 2
cat >"$out/train.ini" <<'INI'
[data]
path = digits.h5
[model]
type = cnn
channels = 8, 16
hidden = 32
dropout = 0.2
batch_norm = yes
[train]
epochs = 4
batch_size = 64
slices = 8
grad_clip = 1
[optimizer]
type = adamw
learning_rate = 1e-3
[device]
share = yes
[checkpoint]
interval = 1ep
INI
cat >"$out/ranks.sh" <<'SH'
# ranks.sh DIRECTORY BIN
cd "$1" || exit
run=ranks-${CHARL_NO_PTX:-0}${CHARL_DRIVER:-}
"$2/charl-train" train.ini -q --overwrite -o "$run-1" && mpirun -q --oversubscribe --bind-to none -n 2 "$2/charl-train" train.ini -q --overwrite -o "$run-2" || exit
for n in 1 2; do
    sed -n 's/.*\(step=[0-9]* tensors=[0-9a-f]*\).*/\1/p' "$run-$n/run.lock" >"$run-$n.bits"
done
[ -s "$run-1.bits" ] && cat "$run-1.bits" && cmp "$run-1.bits" "$run-2.bits"
SH

piece portable_mode 120 sh -c 'CHARL_NO_PTX=1 "$0" selftest --op relu && ! CHARL_NO_PTX=1 "$0" selftest --op relu | grep "on tensor cores"' "$bin/charl"
every hash 480 "$bin/charl" selftest --hash --verbose
both ops_f32_even 480 "$build/tests/test_ops" even
both ops_f32_odd 480 "$build/tests/test_ops" odd
every examples_small 480 env CHARL_BIN_DIR="$bin" python3 "$here/train/test_examples.py" mnist-mlp mnist-cnn digits photos cifar10-resnet text shakespeare \
    mnist-cnn+integer shakespeare+integer shakespeare+llama+integer
both examples_large 480 env CHARL_BIN_DIR="$bin" python3 "$here/train/test_examples.py" imagenet-resnet50 shakespeare-gpu gpt2-124m gpt2-finetune gpt2-laptop llama-lora
every two_ranks 300 sh "$out/ranks.sh" "$out" "$bin"
both ops_bf16_even 480 "$build/tests/test_ops" bf16 even
both ops_bf16_odd 480 "$build/tests/test_ops" bf16 odd
both ops_f16 480 "$build/tests/test_ops" f16
every ops_bits 480 "$build/tests/test_ops" --bits
# Without test_program, which damages the binaries of programs of all drivers: PoCL 5 aborts over some of them.
for test in buffer launch tracing timing; do
    every "test_$test" 240 "$build/tests/test_$test"
done
for test in arithmetic random gemm gemm_half gemm_epilogue conv attention nvidia_cores batch_norm channels_last conv_tensor_core \
    operators fuse graph_run plan optimizer optimizer_state skipping training; do
    both "test_$test" 240 "$build/tests/test_$test"
done
wait
for name in hash ops_bits; do
    equal "$name" portable
    equal "$name" opencl
done
equal two_ranks portable
equal two_ranks opencl

failed=0
for name in "${names[@]}"; do
    grep -qs ^PASS "$out/$name.line" || failed=$((failed + 1))
done
echo "${#names[@]} pieces, $failed failed; logs in $out"
[ "$failed" -eq 0 ]

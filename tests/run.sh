#!/usr/bin/env bash
# Everything a change must pass, in one command: install what is missing, build both presets, run all tests of both.
#   dev      debug, sanitizers, warnings are errors: lint and all tests but those under valgrind
#   release  optimised: all tests but lint
# Before release, dev takes the long scripts in a short form and leaves out what is labelled once: much compiling of kernels
# and nothing new on the host. Both keep their compiled kernels in one place.
# Usage: tests/run.sh [dev|release ...]      CHARL_JOBS=n limits parallel compilation
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
exec </dev/null

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(dev release)
jobs=${CHARL_JOBS:-$(nproc 2>/dev/null || echo 2)}
summary=()
failed=0
started=$SECONDS

note() {
    summary+=("$1")
    printf '\n== %s\n\n' "$1"
}

finish() {
    printf '\n== summary (%d s)\n' $((SECONDS - started))
    printf '   %s\n' "${summary[@]}"
    if [ $failed -ne 0 ]; then
        echo "   FAILED"
        exit 1
    fi
    echo "   all passed"
    exit 0
}

# run_tests PRESET EXCLUDED_LABELS SHORT
run_tests() {
    local preset=$1 log=build/$1/tests.log passed skipped bad
    # Most of the time is spent compiling kernels, on one core each; tests whose ranks compute together run alone.
    CHARL_TEST_SHORT=$3 ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure -LE "$2" 2>&1 | tee "$log"
    local rc=${PIPESTATUS[0]}
    passed=$(grep -cE ' Test +#[0-9]+:.* Passed ' "$log")
    skipped=$(grep -cE ' Test +#[0-9]+:.*\*\*\*Skipped ' "$log")
    bad=$(grep -cE ' Test +#[0-9]+:.*\*\*\*(Failed|Timeout|Exception|Not Run)' "$log")
    if [ "$skipped" -gt 0 ]; then
        summary+=("$preset skipped: $(sed -nE 's/.* Test +#[0-9]+: ([^ ]+) \.*\*\*\*Skipped .*/\1/p' "$log" | tr '\n' ' ')")
    fi
    # Single cases that skip inside a program that passes.
    grep -hoE '^(\[  SKIPPED \] [a-z0-9_]+|skipped case: .*)$' "build/$preset/Testing/Temporary/LastTest.log" 2>/dev/null |
        sort -u | sed -E "s/^(\[  SKIPPED \]|skipped case:)/$preset skipped case:/" >"$log.cases"
    while IFS= read -r line; do
        summary+=("$line")
    done <"$log.cases"
    note "$preset: $passed passed, $skipped skipped, $bad failed"
    if [ "$rc" -ne 0 ] || [ "$passed" -eq 0 ]; then
        failed=1
        summary+=("$preset failed: $(sed -nE 's/.* Test +#[0-9]+: ([^ ]+) \.*\*\*\*(Failed|Timeout|Exception|Not Run).*/\1/p' "$log" | tr '\n' ' ')")
    fi
}

if ! bash launch/install-deps.sh --tests; then
    note "dependencies could not be installed"
    failed=1
    finish
fi

for preset in "${presets[@]}"; do
    if ! cmake --preset "$preset" -DCHARL_TEST_CACHE="$PWD/build/cache" || ! cmake --build --preset "$preset" -j "$jobs"; then
        note "$preset: does not build"
        failed=1
        continue
    fi
    case $preset in
    dev)
        if [[ " ${presets[*]} " == *" release "* ]]; then
            run_tests dev '^(valgrind|once)$' 1
        else
            run_tests dev '^valgrind$' ''
        fi
        ;;
    *) run_tests "$preset" '^lint$' '' ;;
    esac
done
finish

#!/usr/bin/env bash
# Everything a change must pass, in one command: install what is missing, build both presets, run all tests of both.
#   release  optimised: all tests but lint
#   dev      debug, sanitizers, warnings are errors: lint and all tests but those under valgrind
# Where both run, each test runs in one of them: in dev, or in release if it is labelled once, because the sanitizers have nothing
# to say about it or see the same code in other tests. Tests labelled both run in dev in a short form (CHARL_TEST_SHORT) and whole in
# release. Both presets keep their compiled kernels in one place, release first: it compiles them sooner than dev with its sanitizers.
# At the end: the seconds of the tests by label, beside tests/budget.txt. Over budget is no failure: the machine may be busy.
# --quick: for contributors while they work, three minutes once it is built: in release, lint and the tests of one module at a time, but
# none that trains, takes several processes or asks another program.
# Usage: tests/run.sh [--quick | release|dev ...]      CHARL_JOBS=n limits parallel compilation
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
exec </dev/null

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(release dev)
[ "$*" != --quick ] || presets=(release)
jobs=${CHARL_JOBS:-$(nproc 2>/dev/null || echo 2)}
summary=()
failed=0
started=$SECONDS

note() {
    summary+=("$1")
    printf '\n== %s\n\n' "$1"
}

# The label of a test is its folder: train/bits. Two presets: the whole budget; one alone runs more than its share.
times() {
    local logs=()
    for preset in "${presets[@]}"; do
        [ ! -f "build/$preset/tests.log" ] || logs+=("build/$preset/tests.log")
    done
    echo
    awk -v presets="${presets[*]}" -v total=$((SECONDS - started)) '
        FILENAME == ARGV[1] { if (/^[a-z]/) { budget[$1] = $2 } next }
        match($0, / Test +#[0-9]+: /) && / sec *$/ {
            rest = substr($0, RSTART + RLENGTH)
            label = rest
            sub(/[\/ ].*/, "", label)
            preset = FILENAME
            sub(/^build\//, "", preset)
            sub(/\/.*/, "", preset)
            seconds[label, preset] += $(NF - 1)
            sum[label] += $(NF - 1)
        }
        function row(label, spent,    i, text) {
            text = sprintf("   %-10s", label)
            for (i = 1; i <= n; i++) {
                text = text sprintf(" %8s", label == "all" ? "" : int(seconds[label, p[i]]))
            }
            text = text sprintf(" %8d %8s", spent, budget[label])
            if (label in budget && spent > budget[label]) {
                text = text sprintf("   OVER BUDGET by %d s", spent - budget[label])
            }
            print text | "sort"
        }
        END {
            n = split(presets, p, " ")
            printf "   %-10s", "seconds"
            for (i = 1; i <= n; i++) { printf " %8s", p[i] }
            printf " %8s %8s\n", "both", "budget"
            fflush()
            for (label in sum) { row(label, sum[label]) }
            close("sort")
            row("all", total) # by the clock, with building: less than the sum, as tests run side by side
        }' tests/budget.txt "${logs[@]}"
}

finish() {
    printf '\n== summary\n'
    printf '   %s\n' "${summary[@]}"
    times
    if [ $failed -ne 0 ]; then
        echo "   FAILED"
        exit 1
    fi
    echo "   all passed"
    exit 0
}

# run_tests PRESET SHORT SELECTION...: of ctest
run_tests() {
    local preset=$1 short=$2 log=build/$1/tests.log passed skipped bad
    shift 2
    # Two more than cores, as tests wait for disks, launchers and deadlines; those of several ranks count as two.
    CHARL_TEST_SHORT=$short ctest --test-dir "build/$preset" -j $((jobs + 2)) --output-on-failure "$@" 2>&1 | tee "$log"
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
    case "$preset of ${*:-${presets[*]}}" in
    "release of --quick") run_tests release 1 -L '^(base|bench|config|device|dist|export|infer|io|library|lint|nn|optim|report|task|tensor)$' -LE '^(valgrind|once)$' ;;
    "dev of release dev") run_tests dev 1 -LE '^(valgrind|once)$' ;;
    "release of release dev") run_tests release '' -L '^(valgrind|once|both)$' ;;
    dev*) run_tests dev '' -LE '^valgrind$' ;;
    *) run_tests "$preset" '' -LE '^lint$' ;;
    esac
done
finish

#!/bin/sh
# Fuzz targets with libFuzzer and the sanitizers of clang.
# Usage: tests/fuzz/run.sh SECONDS [TARGET...]      each target for so long, two at a time; without names all of them
#        tests/fuzz/run.sh FILE TARGET              one input, such as one that a run has found
# What a run has learnt is kept in build/fuzz/corpus, and findings are in build/fuzz/found. New first inputs belong to tests/fuzz/corpus.
set -u
cd "$(dirname "$0")/../.." || exit 1
what=${1:?SECONDS or FILE}
shift
cmake --preset fuzz >/dev/null && cmake --build --preset fuzz || exit 1
[ $# -gt 0 ] || set -- $(ls tests/fuzz/corpus)
mkdir -p build/fuzz/corpus build/fuzz/found
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 # charl counts what it holds; HDF5 leaks

# one TARGET: status and a line
one() {
    mkdir -p "build/fuzz/corpus/$1"
    CHARL_FUZZ_TARGET=$1 build/fuzz/tests/fuzz/charl_fuzz -max_total_time="$what" -max_len=16384 -timeout=20 -rss_limit_mb=3000 -use_value_profile=1 \
        -print_final_stats=1 -artifact_prefix="build/fuzz/found/$1-" "build/fuzz/corpus/$1" "tests/fuzz/corpus/$1" >"build/fuzz/$1.log" 2>&1
    code=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$1.log")
    echo "$1: ${runs:-?} inputs, exit $code"
    [ $code -eq 0 ] || tail -n 30 "build/fuzz/$1.log"
    return $code
}

if [ -f "$what" ]; then
    CHARL_FUZZ_TARGET=$1 exec build/fuzz/tests/fuzz/charl_fuzz "$what"
fi
failed=0
while [ $# -gt 0 ]; do
    one "$1" &
    first=$!
    shift
    if [ $# -gt 0 ]; then
        one "$1" || failed=1
        shift
    fi
    wait $first || failed=1
done
exit $failed

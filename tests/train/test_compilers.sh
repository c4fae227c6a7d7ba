#!/bin/sh
# Processes that compile kernels for a training (device/compilers.c), by PoCL without a cache of its own, so that charl keeps its programs as
# it keeps those of GPUs. What they do not finish the training compiles itself; no process is left.
. "$(dirname "$0")/common.sh"
export CHARL_LOG=info CHARL_NO_OPTIMIZER=1

# train NAME ARGUMENTS...: with caches of its own, $T/NAME-cache; PoCL 3.1 aborts where two processes use one at once
train() {
    _name=$1
    shift
    mkdir -p "$T/$_name-pocl"
    POCL_KERNEL_CACHE=0 POCL_CACHE_DIR=$T/$_name-pocl CHARL_CACHE_DIR=$T/${cache:-$_name}-cache ranks 1 mlp.ini --fast-dev-run=2 -o "$_name" "$@"
}

# programs NAME: how many its cache has
programs() {
    find "$T/$1-cache" -name '*.bin' | wc -l
}

# helpers: the processes that the last log names
helpers() {
    sed -n 's/.*process \([0-9]*\) compiles kernels$/\1/p' "$T/log"
}

# gone WHAT: none of them is left, not even as a zombie
gone() {
    checks=$((checks + 1))
    for _pid in $(helpers); do
        ! grep -q charl-compile "/proc/$_pid/comm" 2>/dev/null || fail "$1: process $_pid is left"
    done
}

losses_of() {
    sed -n 's/.* \(loss=[0-9.]*\) .*/\1/p' "$T/log"
}

CHARL_COMPILERS=0 expect 0 "without helpers" train alone
says 0 'compiles kernels$'
want=$(losses_of)
n=$(programs alone)
[ "$n" -gt 0 ] || skip "the device gives no program binaries"

export CHARL_COMPILERS=3
expect 0 "with helpers" train helped
checks=$((checks + 3))
[ -n "$(helpers)" ] || fail "no process compiled kernels"
[ "$(losses_of)" = "$want" ] || fail "other losses with helpers: $(losses_of), not $want"
[ "$(programs helped)" -eq "$n" ] || fail "$(programs helped) programs with helpers, $n without"
says 0 'has ended$'
gone "with helpers"
cache=helped expect 0 "from their cache" train again
says 0 'compiles kernels$'

# A program alone is compiled by the training itself; several later ones start helpers, which are not sent the first one.
cp -r helped-cache partly-cache
find alone-cache -name '*.bin' -printf '%T@ %f\n' | sort -n | sed 's/.* //' >by-age
for name in $(head -n 1 by-age) $(tail -n 4 by-age); do
    find partly-cache -name "$name" -delete
done
cache=partly expect 0 "the first program and the last four are missing" train partly
checks=$((checks + 3))
[ -n "$(helpers)" ] || fail "no process compiled the last programs"
[ "$(losses_of)" = "$want" ] || fail "other losses where programs were missing"
[ "$(programs partly)" -eq "$n" ] || fail "$(programs partly) programs where some were missing, $n before"

# Helpers that fail, or are killed while they compile.
for fault in fail kill; do
    CHARL_FAULT="compiler.$fault:*" expect 0 "helpers: $fault" train $fault
    checks=$((checks + 3))
    [ -n "$(helpers)" ] || fail "helpers, $fault: no process was started"
    [ "$(losses_of)" = "$want" ] || fail "other losses where helpers $fault"
    [ "$(programs $fault)" -eq "$n" ] || fail "$(programs $fault) programs where helpers $fault, $n without"
    gone "helpers: $fault"
done
checks=$((checks + 1))
grep -q 'which compiled kernels, has ended$' "$T/log" || fail "nobody says that a helper was killed"

# Some are killed with a job that they have taken, others live: nobody waits for the lost jobs. The training ends with 2, since it does not pass
# the point of the fault itself.
CHARL_FAULT="compiler.kill:$((n / 4))" expect 2 "some helpers killed" train some
checks=$((checks + 3))
grep -q 'which compiled kernels, has ended$' "$T/log" || fail "no helper was killed with its job $((n / 4))"
[ "$(losses_of)" = "$want" ] || fail "other losses where some helpers are killed"
[ "$(programs some)" -eq "$n" ] || fail "$(programs some) programs where some helpers are killed, $n without"
gone "some helpers killed"

# A kernel that does not build: the error is that of the training, with the compiler's log.
cp -r "$root/kernels" broken
echo 'this is no kernel' >>broken/reduce/reduce_slices.cl
for n_helpers in 0 3; do
    CHARL_COMPILERS=$n_helpers CHARL_KERNEL_DIR=$T/broken expect 4 "a broken kernel, $n_helpers helpers" train broken-$n_helpers
    says 1 'error: [a-z0-9_.]+: kernels/reduce/reduce_slices.cl does not build on '
    says 1 "unknown type name 'this'"
    gone "a broken kernel"
done

# Two trainings with one cache at once.
cache=shared train first >first.log 2>&1 &
first=$!
cache=shared expect 0 "the second of two" train second
wait $first
[ $? -eq 0 ] || fail "the first of two: $(tail -n 3 first.log)"
checks=$((checks + 1))
[ "$(programs shared)" -eq "$n" ] || fail "$(programs shared) programs of two trainings, $n of one"
[ "$(losses_of)" = "$want" ] || fail "other losses beside another training"

# Killed while helpers compile: they end with the job that they are at, and the cache can be used.
train killed >"$T/log" 2>&1 &
turns=0
while [ -z "$(helpers)" ] && [ $turns -lt 6000 ]; do
    sleep 0.05
    turns=$((turns + 1))
done
parent=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$(helpers | head -n 1)/status")
for _ in 1 2; do # helpers that are started after the first look, too
    # shellcheck disable=SC2046
    kill -STOP $(helpers) 2>/dev/null
    sleep 2
done
kill -9 "$parent"
wait
before=$(programs killed)
# shellcheck disable=SC2046
kill -CONT $(helpers) 2>/dev/null
turns=0
for pid in $(helpers); do
    while grep -q charl-compile "/proc/$pid/comm" 2>/dev/null && [ $turns -lt 6000 ]; do
        sleep 0.05
        turns=$((turns + 1))
    done
done
gone "the training killed"
checks=$((checks + 1))
[ "$(programs killed)" -le $((before + CHARL_COMPILERS)) ] || fail "helpers compiled $(($(programs killed) - before)) programs for nobody"
cache=killed expect 0 "after a training that was killed" train after
checks=$((checks + 1))
[ "$(losses_of)" = "$want" ] || fail "other losses after a training that was killed"
[ -z "$(find "$T/killed-cache" -name '*.tmp')" ] || skipped "temporary files" "a killed process left one"
finish

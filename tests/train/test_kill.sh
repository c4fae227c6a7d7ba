#!/bin/sh
# kill -9 at any moment: the last checkpoint is whole, the same command goes on, the end is the same to the bit.
# CHARL_TEST_LONG=1: 100 kills instead of 6; CHARL_TEST_SHORT=1: 3.
. "$(dirname "$0")/common.sh"

# Long enough to be killed in: 500 steps, a checkpoint every second one.
sed -e 's/^epochs = 2/epochs = 100/' -e 's/^interval = 1ep$/interval = 2/' mlp.ini >kill.ini
expect 0 "the run that nobody kills" ranks 1 kill.ini -q -o whole

# orphans: processes that train in this directory
orphans() {
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/cwd" 2>/dev/null)" = "$T" ] || continue
        case $(tr '\0' ' ' <"$p/cmdline" 2>/dev/null) in
        *charl-train*) echo "${p#/proc/}" ;;
        esac
    done
}

# leave WHAT: no process may outlive its job for long
leave() {
    checks=$((checks + 1))
    for _i in $(seq 240); do
        [ -z "$(orphans)" ] && return
        sleep 0.5
    done
    fail "$1: processes left: $(orphans | tr '\n' ' ')"
    kill -9 $(orphans)
}

# A seeded generator: the same moments every time, as far as a clock can be.
seed=12345
random() { # random N: _r in 0..N-1
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    _r=$((seed / 65536 % $1))
}

kills=6
[ -n "$short" ] && kills=3
[ -n "$long" ] && kills=100
killed=0
tries=0
while [ "$killed" -lt "$kills" ] && [ "$tries" -lt $((3 * kills)) ]; do
    tries=$((tries + 1))
    # Finished too early to be killed: begin again.
    if [ -e run/last.h5 ] && [ "$(readlink run/last.h5)" = checkpoints/step-00000500.h5 ]; then
        same "killed $killed times, finished" whole run
        rm -rf run
    fi
    mpirun -q --oversubscribe --bind-to none -n 2 "$bin/charl-train" kill.ini -q >"$T/log" 2>&1 &
    job=$!
    random 25
    sleep "$(awk "BEGIN { print 0.3 + $_r / 10 }")"
    random 3
    case $_r in
    0) kill -9 $(orphans) 2>/dev/null ;; # the launcher and all ranks
    1) kill -9 "$job" 2>/dev/null ;;
    *) kill -9 $(orphans | grep -v -x "$job" | tail -n 1) 2>/dev/null ;;
    esac
    wait "$job" 2>/dev/null
    [ $? -ne 0 ] && killed=$((killed + 1))
    leave "kill $killed"
    [ -e run/run.lock ] && expect 0 "run.lock after kill $killed" "$bin/charl" verify run
    steps="${steps:-} $(readlink run/last.h5 2>/dev/null | tr -dc '0-9' | sed 's/5$//; s/^0*//')"
done
echo "$killed kills in $tries runs, at steps:$steps"
checks=$((checks + 1))
[ "$killed" -eq "$kills" ] || fail "only $killed of $kills runs could be killed"
expect 0 "to the end" ranks 2 kill.ini -q
same "killed $killed times" whole run

# One rank dies while the others wait for it: they say who, and not that they have waited in vain.
for rank in 0 2; do
    rm -rf run
    export CHARL_FAULT="train.backward.kill@$rank:5"
    ranks 3 mlp.ini -q >"$T/log" 2>&1
    code=$?
    unset CHARL_FAULT
    case $code in
    7 | 137) ;; # the launcher may give the dead rank's instead
    *) fail "rank $rank killed: exit code $code" ;;
    esac
    says 1 "^charl-train: error: rank $rank of 3 \(.*\) died at or near step 5"
    leave "rank $rank killed"
done

# One rank fails without dying: it says so itself.
for rank in 0 2; do
    rm -rf run
    export CHARL_FAULT="train.device.fail@$rank:5"
    expect 4 "rank $rank fails" ranks 3 mlp.ini -q
    unset CHARL_FAULT
    says 1 "^charl-train: error: rank $rank of 3 \(.*\), step 5, waiting for the device: the device fails on purpose"
    leave "rank $rank fails"
done
finish

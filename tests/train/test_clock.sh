#!/bin/sh
# A wall clock that jumps by hours while a run trains changes nothing but the times that are printed: not the result, not run.max_time, not the
# time after which a rank that hangs is reported. libfaketime moves the clock. Needs Debian's package faketime.
. "$(dirname "$0")/common.sh"

fake=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1 2>/dev/null | head -n 1)
[ -n "$fake" ] || skip "no libfaketime"
if grep -q __asan_init "$bin/charl-train"; then
    skip "the sanitizers want to be loaded before libfaketime"
fi

echo "+0" >clock
while :; do # until the script ends
    for offset in +2h -5h +0 -3d +9d; do
        echo "$offset" >clock.new
        mv clock.new clock
        sleep 0.15
    done
done &
jumps=$!
trap 'kill $jumps; cd /; rm -rf "$T"' EXIT

# jumping N ARGUMENTS...: charl-train on N ranks whose wall clock jumps
jumping() {
    n=$1
    shift
    timeout 1500 mpirun -q --oversubscribe --bind-to none -n "$n" env "LD_PRELOAD=$fake" "FAKETIME_TIMESTAMP_FILE=$T/clock" FAKETIME_NO_CACHE=1 \
        FAKETIME_DONT_FAKE_MONOTONIC=1 "$bin/charl-train" "$@"
}

sed -e 's/^epochs = 2/epochs = 100/' -e 's/^interval = 1ep$/interval = 20/' mlp.ini >long.ini
expect 0 "steady clock" ranks 2 long.ini -q -o steady
CHARL_FAULT=train.data.hang@0:250:1 expect 0 "jumping clock" jumping 2 long.ini -q -o jumped
same "jumping clock" steady jumped
checks=$((checks + 1))
[ "$(sed -n 's/.*"time":\([0-9]*\).*/\1/p' jumped/metrics.jsonl | awk 'NR > 1 && ($1 - last > 3600 || last - $1 > 3600) { n++ } { last = $1 } END { print n + 0 }')" -gt 0 ] ||
    fail "the clock of the run did not jump"

expect 75 "run.max_time" jumping 1 mlp.ini -q -o limited train.epochs=1000000 run.max_time=2s
CHARL_FAULT=train.backward.stop@1:6 expect 7 "a rank that hangs" jumping 2 mlp.ini -o hangs dist.timeout=2
says 1 "no progress for"
finish

#!/bin/sh
# Simulated ranks that are killed, stalled and cut off at points that a seed draws: the job is started again, and its end has the bits of an
# undisturbed training. CHARL_TEST_LONG=1: 100 seeds instead of 6; CHARL_TEST_SHORT=1: 2.
. "$(dirname "$0")/common.sh"

# chaos SEEDS ARGUMENTS...
chaos() {
    _seeds=$1
    shift
    timeout 1500 "$bin/charl-train" --chaos "$_seeds" "$@"
}

sed -e 's/^epochs = 2/epochs = 1/' -e 's/^interval = 1ep$/interval = 1/' mlp.ini >chaos.ini
of_node=1-3 of_nodes=6-8
[ -n "$short" ] && of_node=1-1 of_nodes=6-6
[ -n "$long" ] && of_node=1-50 of_nodes=51-100

expect 0 "ranks of one node" chaos "$of_node" --simulate-ranks 8 chaos.ini dist.shard=gradients
cat "$T/log"
grep -A 20 '^seed-1, start 1' "$T/log" | sed '/^seed-1: /q' >story
says 1 "^([0-9]+) of \1 seeds survived"
expect 0 "two nodes, with messages and copies in memory" chaos "$of_nodes" --simulate-ranks 2x4 chaos.ini dist.bucket_mb=0.01 \
    dist.shard=parameters checkpoint.interval=3 checkpoint.memory_interval=1
cat "$T/log"
says 1 "^([0-9]+) of \1 seeds survived"
[ -e run-chaos ] && fail "what survived is left behind"

# Starts that are forked from the undisturbed training. One rank: PoCL 3.1 may abort where threads run kernels of this device at once.
POCL_DEVICES=basic expect 0 "a device without threads" chaos 1-2 --simulate-ranks 1 chaos.ini
says 1 "^2 of 2 seeds survived"

# The same seed tells the same story.
expect 0 "a story told again" chaos 1 --simulate-ranks 8 chaos.ini dist.shard=gradients
checks=$((checks + 1))
grep -A 20 '^seed-1, start 1' "$T/log" | sed '/^seed-1: /q' | cmp -s story - || { fail "the same seed tells two stories"; cat story "$T/log"; }

# What it is for: bits that depend on the number of ranks. Here the undisturbed training only has a rank 7, whose gradient goes wrong.
CHARL_FAULT=train.device.flip_gradient@7:1 expect 1 "other bits" chaos 1-3 --simulate-ranks 8 chaos.ini
checks=$((checks + 2))
grep -q "error: seed [1-3]: the last checkpoint differs from that of the undisturbed training" "$T/log" || fail "other bits: not said"
grep -q "^seed-[1-3]: FAILED; to see it again: charl-train --simulate-ranks 8 --chaos [1-3] chaos.ini" "$T/log" || fail "other bits: no command"
[ -e run-chaos/undisturbed/start-1.log ] || fail "the log of a start that went wrong is lost"
# A number of ranks that the configuration does not allow is no failure.
expect 0 "audits want a power of two" chaos 2 --simulate-ranks 8 chaos.ini dist.audit=2
says 1 "exit status 2: the configuration is not for 3 ranks"
# An end that no fault explains: this test kills a start whose rank is to stall. Slow saves give it the time.
CHARL_FAULT='io.slow:*:60' timeout 1500 "$bin/charl-train" --chaos 3 --simulate-ranks 8 chaos.ini >"$T/log" 2>&1 &
for _i in $(seq 1000); do
    grep -q '^seed-3, start 1' "$T/log" && break
    sleep 0.1
done
# children PID: cat goes on past processes that have just ended, where awk would stop
children() { cat /proc/[0-9]*/stat 2>/dev/null | awk -v parent="$1" '$4 == parent { print $1 }'; }
kill -9 $(children "$(children $!)")
wait $!
[ $? -eq 1 ] || fail "a start was killed from outside, and that is no failure"
says 1 "error: seed 3: start 1 ended with exit status 137, which none of its faults explains: see run-chaos/seed-3/start-1.log"
# Without a reader of its output the command ends, quietly and before the seeds, whichever process tells their stories.
{ POCL_DEVICES=basic chaos 1-3 --simulate-ranks 1 chaos.ini 2>errors; echo $? >code; } | head -n 1 >first
checks=$((checks + 1))
grep -q 141 code && [ ! -s errors ] || { fail "no reader: exit status $(cat code)"; cat first errors; }
# A configuration that does not work as it is.
expect 3 "no data" chaos 1 --simulate-ranks 2 chaos.ini data.path=none.h5 -o new/runs/a/
says 1 "error: the undisturbed training ended with exit status 3: see new/runs/a-chaos/undisturbed/start-1.log"

expect 2 "no simulated ranks" chaos 1 chaos.ini
says 1 "error: --chaos disturbs a whole training of simulated ranks: add --simulate-ranks"
expect 2 "nothing to resume" chaos 1 --simulate-ranks 2 --dry-run chaos.ini
expect 2 "no seed" chaos 5-1 --simulate-ranks 2 chaos.ini
says 1 "chaos.5-1: must be a seed from 0, or seeds, as in 1-100"
finish

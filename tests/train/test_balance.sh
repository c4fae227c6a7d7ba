#!/bin/sh
# dist.balance = speed: a slower rank gets fewer slices while it trains, and no bit of the result changes; nor when the
# run stops behind a division and goes on with another number of ranks.
. "$(dirname "$0")/common.sh"
speed="train.slices=auto dist.balance=speed"

# slow RULE CODE WHAT COMMAND...: with ranks made slower
slow() {
    export CHARL_SLOW="$1"
    shift
    expect "$@"
    unset CHARL_SLOW
}
# fewer RANK OTHER: the last division gave RANK fewer slices than OTHER
fewer() {
    checks=$((checks + 1))
    _s=$(sed -n 's/.* balance step=.* slices=\([0-9,]*\) .*/\1/p' "$T/log" | tail -n 1)
    echo "slices $_s, $(grep -o ' balance .*' "$T/log" | head -n 1)"
    printf '%s\n' "$_s" | awk -F, -v a=$(($1 + 1)) -v b=$(($2 + 1)) '{ found = 1; exit !($a > 0 && $a < $b) }
        END { if (!found) exit 1 }' || fail "$_what: slices $_s"
}

# 64 slices of a batch of 64; the division comes behind the 7th of 10 steps.
expect 0 "mlp on 1 rank" ranks 1 mlp.ini -o mlp-1 $speed
says 1 "64 slices"
says 0 " balance step="
slow 1:10 0 "mlp on 2 ranks" ranks 2 mlp.ini -o mlp-2 $speed
fewer 1 0
same "mlp on 2 ranks" mlp-1 mlp-2
checks=$((checks + 1))
grep -q '"event":"balance","step":7,"slices":\[[0-9]*,[0-9]*\],"compute_ms":' mlp-2/metrics.jsonl || fail "not in metrics.jsonl"

# Streamed, in passes, by messages; there and back with mixup and sums over the batch in the middle of a step, with an
# optimizer that is sharded over devices of which one copies. Here the times are given, so the slices are known.
export CHARL_FAULT=train.measured@0:1:900,train.measured@1:1:100,train.measured@2:1:200
expect 0 "mlp on 3 ranks" ranks 3 mlp.ini -o mlp-3 $speed data.cache=none train.grad_accum_steps=2 dist.allreduce=p2p
says 1 " balance step=7 slices=4,40,20 step_ms=0.900,0.100,0.200 ms="
same "mlp on 3 ranks" mlp-1 mlp-3
unset CHARL_FAULT
mixup="data.augment=mixup:0.2 data.cache=none train.epochs=5"
expect 0 "cnn on 1 rank" ranks 1 cnn.ini -q -o cnn-1 $mixup
export CHARL_FAULT=train.measured@0:1:100,train.measured@1:1:300,train.measured@0:2:300,train.measured@1:2:100
CHARL_FAULT="$CHARL_FAULT,device.copies@1:*"
expect 0 "cnn on 2 ranks" ranks 2 cnn.ini -o cnn-2 $mixup dist.balance=speed dist.shard=optimizer
says 1 " balance step=7 slices=6,2 "
says 1 " balance step=20 slices=5,3 "
same "cnn on 2 ranks" cnn-1 cnn-2
unset CHARL_FAULT
# What has been one pass stays one: 64 slices at most.
batch="train.batch_size=96 train.slices=96 train.max_steps=9 train.epochs=9"
expect 0 "batch norm on 3 ranks" ranks 3 cnn.ini -q -o cnn-3 $batch
export CHARL_FAULT=train.measured@0:1:100,train.measured@1:1:900
expect 0 "batch norm and a slow rank" ranks 2 cnn.ini -o cnn-4 $batch dist.balance=speed
says 1 " balance step=7 slices=64,32 "
same "batch norm and a slow rank" cnn-3 cnn-4
export CHARL_FAULT=train.measured@0:1:100,train.measured@1:1:105
expect 0 "not worth it" ranks 2 mlp.ini -o n $speed
says 0 " balance step="
unset CHARL_FAULT

# Stopped behind the division, and on with more ranks, evenly or not.
export CHARL_FAULT=train.stop:9
slow 1:10 75 "stopped" ranks 2 mlp.ini -o s $speed
unset CHARL_FAULT
fewer 1 0
cp -r s e
expect 0 "resumed on 3 ranks" ranks 3 mlp.ini -q -o s $speed
same "resumed on 3 ranks" mlp-1 s
expect 0 "resumed evenly" ranks 1 mlp.ini -q -o e train.slices=64 dist.balance=even
same "resumed evenly" mlp-1 e

# slices = auto means another number with balance = even.
expect 5 "other slices" ranks 1 mlp.ini -o mlp-1 train.slices=auto train.epochs=3
says 1 "train.slices = 64, now 64 and 8$"
says 1 "hint: set them back .*auto is up to 64 with dist.balance = speed"

export CHARL_FAULT=train.divide@1:1
slow 1:10 4 "a division that fails" ranks 2 mlp.ini -o f $speed
unset CHARL_FAULT
says 1 "error: step 7, division of the batch: rank 1 of 2 .*the division fails on purpose"
export CHARL_FAULT=train.division.kill@1:1
slow 1:10 137 "killed while the batch is divided" ranks 2 mlp.ini -o k $speed
unset CHARL_FAULT
says 1 "rank 1 of 2 .* died at or near step 7, division of the batch"
for rule in 1 1:0.5 one:2; do
    slow $rule 2 "CHARL_SLOW=$rule" ranks 1 mlp.ini -o g
    says 1 "CHARL_SLOW=$rule: expected rank:factor"
done

# What it is good for: printed, as times are not asserted.
if [ -n "$long" ]; then
    for balance in even speed; do
        slow 1:3 0 "1:3 $balance" ranks 2 cnn.ini -o "r-$balance" dist.balance=$balance train.slices=64 train.epochs=40
        grep ' done ' "$T/log" | grep -o 'samples_per_s=.*' | sed "s/^/a rank 3 times slower, $balance: /"
    done
    same "a rank 3 times slower" r-even r-speed
fi
finish

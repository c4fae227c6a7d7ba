#!/bin/sh
# --log-ranks: the ranks that are named log too, each with its number in front and in a file of its own; nothing else changes.
. "$(dirname "$0")/../train/common.sh"

expect 0 "the first alone" ranks 3 mlp.ini -v -o plain train.max_steps=3
says 3 "Z train step="
says 0 "^\[rank"
expect 0 "all" ranks 3 mlp.ini -v -o all train.max_steps=3 --log-ranks=all
says 3 "^20[^ ]*Z train step="
for rank in 1 2; do
    says 3 "^\[rank $rank\] 20[^ ]*Z train step=[123]/3 .* step_ms="
    says 1 "^\[rank $rank\] 20[^ ]*Z start step=0/3 host=.* pid=[0-9]+ device=.* rows=[0-9]+$"
    says 1 "^\[rank $rank\] 20[^ ]*Z done step=3 "
    checks=$((checks + 1))
    [ "$(grep -c '^20[^ ]*Z train step=' all/train-rank$rank.log)" -eq 3 ] || { fail "train-rank$rank.log"; ls all; }
done
same "logging changes nothing" plain all
expect 0 "resumed" ranks 3 mlp.ini -v -o all train.max_steps=5 --log-ranks 2
says 0 "^\[rank 1\]"
says 2 "^\[rank 2\] .* train step="
checks=$((checks + 1))
[ "$(grep -c ' train step=' all/train-rank2.log)" -eq 5 ] || fail "a resumed run begins its log anew"
expect 0 "simulated ranks" ranks 1 mlp.ini -v --simulate-ranks 4 --fast-dev-run=2 log.interval=1 --log-ranks=1-2,3
says 6 "^\[rank [123]\] .* train step="
expect 0 "quiet" ranks 2 mlp.ini -q -o quiet train.max_steps=3 --log-ranks=all
says 0 .
checks=$((checks + 1))
grep -q ' train step=3/3' quiet/train-rank1.log || fail "a quiet run has no train-rank1.log"
expect 0 "a rank that is not there" ranks 1 mlp.ini --fast-dev-run=1 --log-ranks=7
for wrong in '' x 1, ,1 2-1 1-- -1 1..2 99999999999; do
    expect 2 "--log-ranks=$wrong" ranks 1 mlp.ini --dry-run "--log-ranks=$wrong"
    says 1 "must be all or ranks"
done
finish

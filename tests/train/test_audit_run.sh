#!/bin/sh
# dist.audit from outside: what is named, what becomes of the checkpoints, and that the same command continues with the bits of an undisturbed
# run. Random faults: test_audit.c.
rows=80
. "$(dirname "$0")/common.sh"

set -- mlp.ini -q checkpoint.interval=1 checkpoint.keep_last=20
expect 0 "the undisturbed run" ranks 1 "$@" -o whole
says 0 audits

# A device that errs from its second step on: after step 2 nothing is confirmed any more.
CHARL_FAULT=train.device.flip_gradient@1:3+:800 expect 9 "a wrong gradient" ranks 4 "$@" -o wrong dist.audit=2
says 1 "error: step 4, audit: slices 2 to 3: rank 1 of 4 [(].*[)] computed a different loss or gradient than two other ranks"
says 1 "hint: .* continues from a checkpoint up to step 2, the last that is confirmed"
says 1 "warning: 1 checkpoint after step 2, .*: renamed to step-....h5.superseded"
checks=$((checks + 1))
[ "$(readlink wrong/last.h5)" = checkpoints/step-00000002.h5 ] || fail "last.h5 is not the checkpoint that is confirmed"
expect 0 "the same command without it" ranks 2 "$@" dist.audit=2 -o wrong
same "continued after an audit" whole wrong

# One that errs from step 5 on, in a run that ends in between: what was saved since the audit of step 4 is not confirmed.
CHARL_FAULT=train.device.flip_gradient@1:5+:800,train.data.exit@0:8:3 expect 3 "a wrong gradient before the end" \
    ranks 1 --simulate-ranks 4 "$@" -o resumed dist.audit=4
CHARL_FAULT=train.device.flip_gradient@1:1+:800 expect 9 "and after it, with another N" ranks 1 --simulate-ranks 4 "$@" -o resumed dist.audit=3
says 1 "hint: .* continues from a checkpoint up to step 4, the last that is confirmed"
expect 0 "continued without it" ranks 2 "$@" dist.audit=4 -o resumed
same "continued after an audit of a resumed run" whole resumed
CHARL_FAULT=train.device.flip_gradient@1:2+:800 expect 9 "before any audit" ranks 1 --simulate-ranks 4 "$@" -o none dist.audit=4
says 1 "hint: .* starts from the beginning, as no step is confirmed yet"
checks=$((checks + 1))
[ -e none/checkpoints/step-00000003.h5.superseded ] && [ ! -L none/last.h5 ] || fail "last.h5 names a checkpoint that was set aside"
expect 0 "from the beginning" ranks 2 "$@" dist.audit=4 -o none
same "begun afresh after an audit" whole none

# One that errs at the end only: the last step is audited, whatever N.
CHARL_FAULT=train.device.flip_gradient@1:10+:800 expect 9 "wrong at the end" ranks 2 "$@" -o late dist.audit=7
says 1 "error: step 10, audit: slices 4 to 7: rank 0 of 2 .*, rank 1 of 2 .* no other two ranks agree"

expect 0 "how many audits" ranks 2 mlp.ini -o count dist.audit=3
says 1 " done .*audits=4"
expect 2 "ranks with different numbers of slices" ranks 3 "$@" -o refused dist.audit=2
says 1 "error: .*8 slices on 3 ranks"
expect 0 "sums in bf16, one rank" ranks 1 cnn.ini -q -o half dist.audit=1 dist.reduce_dtype=bf16 train.max_steps=2
expect 0 "sums in bf16, two ranks" ranks 2 mlp.ini -q -o half2 dist.audit=1 dist.reduce_dtype=bf16 train.max_steps=2
expect 2 "sums in bf16 and batch norm" ranks 2 cnn.ini -o refused dist.audit=1 dist.reduce_dtype=bf16
says 1 "audit: gradients of this model are finished in the middle of a step"
expect 2 "slices by speed" ranks 2 "$@" -o refused dist.audit=2 dist.balance=speed
says 1 "audit: needs the same number of slices on every rank"
finish

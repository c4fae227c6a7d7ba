#!/bin/sh
# Settings whose effect is seen from outside: intervals of 0, schedules, short runs, outputs, an older checkpoint, a
# batch larger than the data.
. "$(dirname "$0")/common.sh"

value() { # value KEY LINE: of the LINE-th training row of run/metrics.jsonl
    grep '"event":"train"' run/metrics.jsonl | sed -n "$2s/.*\"$1\":\([^,}]*\).*/\1/p"
}
is() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1: $2, expected $3"
}
files() { # names of the checkpoints of run, without what they share
    ls run/checkpoints | sed 's/step-0*//; s/\.h5//' | tr '\n' ' '
}

# 0 is never; the end always saves, and so does an evaluation that is the best, here every one.
expect 0 "never" ranks 2 mlp.ini eval.interval=0 checkpoint.interval=0
says 0 " val "
is "saved" "$(files)" "10 "
rm -rf run
expect 0 "never but the best" ranks 1 mlp.ini -v checkpoint.interval=0 eval.interval=1
says 10 " val "
is "saved, with validation" "$(files)" "8 9 10 "
rm -rf run

# wsd decays over a tenth of the steps unless it is told otherwise.
expect 0 "wsd" ranks 1 mlp.ini -q train.max_steps=20 scheduler.type=wsd scheduler.warmup_steps=0
is "rate before the decay" "$(value lr 19)" 0.003
is "rate in the decay" "$(value lr 20)" 0.0015
rm -rf run

# A fast development run has the schedule of the whole one.
expect 0 "a run" ranks 1 mlp.ini -v scheduler.warmup_steps=5
whole=$(sed -n 's/.*train step=2\/10 .*\(lr=[^ ]*\).*/\1/p' log)
expect 0 "a fast development run" ranks 1 mlp.ini -v --fast-dev-run=2 scheduler.warmup_steps=5
is "its rate" "$(sed -n 's/.*train step=2\/2 .*\(lr=[^ ]*\).*/\1/p' log)" "$whole"
says 1 " done step=2 "

# Going on from an older checkpoint leaves the later ones to another history.
expect 0 "from the first checkpoint" ranks 2 mlp.ini scheduler.warmup_steps=5 checkpoint.interval=4 train.max_steps=8 \
    --resume=run/checkpoints/step-00000005.h5
says 1 "warning: training continued from step 5: 1 later checkpoint was renamed"
is "the history" "$(files)" "5 8 10.superseded "
expect 0 "auto" ranks 1 mlp.ini scheduler.warmup_steps=5
says 1 "start step=8/10"
rm -rf run

# What the model puts out and what the data ask for.
cat >narrow.ini <<'INI'
[data]
path = digits.h5
[train]
batch_size = 64
[layer a]
type = flatten
[layer b]
type = linear
out = 7
INI
expect 2 "too few outputs" ranks 3 narrow.ini --dry-run device.share=yes
says 1 "error: .*7 outputs, but the data have 10 classes"
expect 2 "no cache on the host" ranks 1 mlp.ini --dry-run data.cache=host
says 1 "data. cache: .host. is not one of auto, device, none"
expect 0 "the binding is left alone" ranks 2 mlp.ini --dry-run device.cpu_bind=none

# The same bits anywhere: settings and devices that round otherwise are refused.
expect 2 "half precision anywhere" ranks 1 mlp.ini --dry-run train.exact=anywhere train.precision=bf16
says 1 "exact: anywhere needs train.precision = f32"
expect 2 "tf32 anywhere" ranks 1 mlp.ini --dry-run train.exact=anywhere device.allow_tf32=yes
says 1 "exact: anywhere needs device.allow_tf32 = no"
expect 2 "MPI's sums anywhere" ranks 1 mlp.ini --dry-run train.exact=anywhere dist.allreduce=mpi
says 1 "exact: anywhere needs another dist.allreduce"
CHARL_FAULT=device.arithmetic@1:1 expect 4 "a device that divides otherwise" ranks 2 mlp.ini --dry-run train.exact=anywhere
says 1 "error: .*train.exact = anywhere: .* violates \"a / b is rounded to nearest even\" \(1 of 4096"
CHARL_FAULT='device.arithmetic:*' expect 0 "the same where nobody asks" ranks 1 mlp.ini --dry-run

# Rows of metrics are JSON.
expect 0 "rows" ranks 1 mlp.ini -v eval.interval=1 checkpoint.interval=1 eval.metrics="loss, perplexity"
says 10 " val .* perplexity="
checks=$((checks + 1))
/usr/bin/python3 -c "
import json, math
def refuse(word): raise ValueError(word)
for line in open('run/metrics.jsonl'):
    json.loads(line, parse_constant=refuse)" || fail "metrics.jsonl is not JSON"

# Evaluation does not need a batch of training rows.
expect 0 "a batch larger than the data" "$bin/charl" eval mlp.ini run/last.h5 train.batch_size=1024
says 1 "^val step=10 loss="
expect 0 "a batch larger than the data, two ranks" mpirun -q --oversubscribe -n 2 "$bin/charl" eval mlp.ini run/last.h5 train.batch_size=1024
says 1 "^val step=10 loss="
expect 2 "training with a batch larger than the data" ranks 1 mlp.ini train.batch_size=1024
finish

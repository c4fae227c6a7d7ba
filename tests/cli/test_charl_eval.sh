#!/bin/sh
# charl eval: what training measured, again, from the checkpoint; on one rank and on two.
. "$(dirname "$0")/charl.sh"

if ! "$charl" devices >out 2>&1; then
    echo "skipped: no device"
    exit 77
fi
expect 0 '' data make digits d.h5 --train 160 --val 83
cat >c.ini <<'INI'
[run]
output_dir = run
[data]
path = d.h5
[model]
type = mlp
hidden = 16
[train]
epochs = 1
batch_size = 80
INI
if ! "$bin/charl-train" c.ini --progress=none >out 2>&1; then
    echo "charl-train failed:"
    cat out
    exit 1
fi
checkpoint=run/checkpoints/step-00000002.h5
loss=$(sed -n 's/.*"event":"val".*"loss":\([-+.0-9e]*\).*/\1/p' run/metrics.jsonl | tail -1)
expect 0 "^val step=2 loss=${loss:-none} accuracy=0\.[0-9]*" eval c.ini $checkpoint
cp out one
expect 0 '^train step=2 loss=' eval --split train c.ini $checkpoint
expect 3 'd.h5 has no test split' eval c.ini $checkpoint --split test
expect 2 'there is no split foo' eval c.ini $checkpoint --split foo
expect 5 'none: ' eval c.ini none
expect 5 'fc1.weight' eval c.ini $checkpoint model.hidden=17
expect 2 'hiden: unknown key (did you mean hidden?)' eval c.ini $checkpoint model.hiden=17
expect 2 'none.ini: ' eval none.ini $checkpoint
expect 2 'CHECKPOINT is missing' eval c.ini
if ! mpirun -n 2 "$charl" eval c.ini $checkpoint >two 2>err || ! cmp -s one two; then
    echo "two ranks say something else:"
    cat one two err
    failed=1
fi
exit $failed

#!/bin/sh
# charl eval: what training measured, again, from the checkpoint; on one rank and on two.
. "$(dirname "$0")/charl.sh"

if ! "$charl" devices >out 2>&1; then
    skip "no device"
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
expect 2 'CHECKPOINT is missing: c.ini is a configuration' eval c.ini
hint 'name run/last.h5, too'
# A checkpoint holds its configuration; a run directory its last checkpoint. Behind each other they are told apart.
for model in $checkpoint run run/last.h5 "$checkpoint c.ini" "c.ini run" "run/config.ini $checkpoint"; do
    expect 0 '' eval $model
    if ! cmp -s one out; then
        echo "charl eval $model says something else:"
        cat one out
        failures=$((failures + 1))
    fi
done
(cd run && expect 0 '^train step=2 loss=' eval last.h5 --split=train)
expect 3 'nowhere.h5: ' eval $checkpoint data.path=nowhere.h5
hint 'if the data have moved, add data.path=FILE'
expect 5 'not a checkpoint' eval d.h5
expect 2 'not a configuration' eval $checkpoint run/last.h5
expect 2 'none: unexpected after c.ini and' eval c.ini $checkpoint none
if ! mpirun -n 2 "$charl" eval c.ini $checkpoint >two 2>err || ! cmp -s one two; then
    echo "two ranks say something else:"
    cat one two err
    failures=$((failures + 1))
fi

# Every metric of classes: the same on 3 ranks, whose parts of a batch differ, and what the definitions give from the predictions.
metrics=eval.metrics=auto,top2,top3,precision,recall,f1,precision_micro,recall_micro,f1_micro,iou,iou_micro,dice,auc
expect 0 '^val step=2 loss=.* accuracy=.* auc=0\.[0-9]* ece=0\.[0-9]*$' eval c.ini $checkpoint $metrics --report
cp out one
if ! mpirun --oversubscribe --bind-to none -n 3 "$charl" eval c.ini $checkpoint $metrics --report device.share=yes >three 2>err || ! cmp -s one three; then
    echo "three ranks say something else:"
    diff one three
    cat err
    failures=$((failures + 1))
fi
expect 0 '"confusion":' eval c.ini $checkpoint $metrics --report=json
cp out report.json
expect 0 '' predict $checkpoint --all -o p.csv
expect 2 'report: "xml" is not one of table, json' eval c.ini $checkpoint --report=xml
expect 2 'out.json: predictions are written as CSV (.csv), lines of JSON (.jsonl) or HDF5 (.h5), not as .json' eval c.ini $checkpoint --predictions out.json
for part in val train; do
    expect 0 "^$part step=2 loss=" eval c.ini $checkpoint --split $part --predictions $part.csv
    expect 0 'rows=' predict $checkpoint d.h5 --split $part --all -o expected.csv
    if ! cmp -s $part.csv expected.csv; then
        echo "the predictions of $part are not those of charl predict"
        failures=$((failures + 1))
    fi
done
if ! mpirun --oversubscribe --bind-to none -n 2 "$charl" eval c.ini $checkpoint --predictions two.jsonl device.share=yes >two 2>err ||
    ! grep -q "^val step=2 loss=$loss " two || [ "$(grep -c '"probabilities":' two.jsonl)" != 83 ]; then
    echo "predictions of two ranks:"
    cat two err
    failures=$((failures + 1))
fi
expect 8 'no/such' eval c.ini $checkpoint --predictions no/such/file.csv
expect 2 '.--predictions writes samples of a dataset' eval c.ini $checkpoint --choices x.jsonl --predictions x.csv
if command -v python3 >out; then
    python3 - >log 2>&1 <<'PY' || { echo "the report:"; cat log; failures=$((failures + 1)); }
import csv, json
report = json.load(open("report.json"))
rows = list(csv.DictReader(open("p.csv")))
label = [int(r["label"]) for r in rows]
p = [[float(r["p_%d" % k]) for k in range(10)] for r in rows]
hit = [max(range(10), key=lambda k: q[k]) for q in p]
def near(what, got, want):
    assert abs(got - want) <= 1e-6, (what, got, want)
confusion = [[sum(y == a and h == b for y, h in zip(label, hit)) for b in range(10)] for a in range(10)]
assert report["confusion"] == confusion, report["confusion"]
total = {"precision": [], "recall": [], "f1": [], "iou": [], "dice": [], "auc": []}
for k, c in enumerate(report["classes"]):
    right, predicted, actual = confusion[k][k], sum(r[k] for r in confusion), sum(confusion[k])
    assert c["name"] == str(k) and c["support"] == actual, c
    yes, no = ([q[k] for q, y in zip(p, label) if (y == k) == is_k] for is_k in (True, False))
    want = {"precision": right / predicted if predicted else 0, "recall": right / actual if actual else 0,
            "f1": 2 * right / (predicted + actual) if predicted + actual else 0,
            "iou": right / (predicted + actual - right) if predicted + actual else 0,
            "dice": 2 * right / (predicted + actual) if predicted + actual else 0,
            "auc": sum((a > b) + (a == b) / 2 for a in yes for b in no) / len(yes) / len(no)}
    for name, v in want.items():
        near((name, k), c[name], v)
        total[name].append(v)
for name, v in total.items():
    near(name, report[name], sum(v) / 10)
accuracy = sum(y == h for y, h in zip(label, hit)) / len(rows)
for name in "accuracy", "precision_micro", "recall_micro", "f1_micro":
    near(name, report[name], accuracy)
near("iou_micro", report["iou_micro"], accuracy / (2 - accuracy))
for k in 2, 3:
    near(k, report["top%d" % k], sum(y in sorted(range(10), key=lambda i: -q[i])[:k] for y, q in zip(label, p)) / len(rows))
PY
fi

# Any metric decides which checkpoint is the best.
if ! "$bin/charl-train" c.ini -q -o monitored train.epochs=6 checkpoint.monitor=val/iou optimizer.learning_rate=0.02 >out 2>&1; then
    echo "checkpoint.monitor=val/iou:"
    cat out
    failures=$((failures + 1))
fi
awk '/"event":"val"/ {
    match($0, /"iou":[0-9.e-]*/); v = substr($0, RSTART + 6, RLENGTH - 6) + 0
    if (($0 ~ /"best":true/) != (n++ == 0 || v > most)) { print; bad = 1 }
    most = n == 1 || v > most ? v : most
}
END { exit bad || n != 6 }' monitored/metrics.jsonl || { echo "the best is not that of the best iou"; failures=$((failures + 1)); }
expect 2 'mae needs loss = mse, huber, l1, smooth_l1 or quantile' eval c.ini $checkpoint eval.metrics=mae
finish

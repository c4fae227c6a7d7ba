#!/bin/sh
# Targets that are not one class: several numbers, scaled for the loss and back for everything else, several yes-or-no labels; and tables normalised by what is stored with
# them, in training, evaluation and prediction, a constant column too.
. "$(dirname "$0")/common.sh"

# check WHAT PROGRAM: a Python program on standard input ends well.
check() {
    checks=$((checks + 1))
    /usr/bin/python3 - >log 2>&1 || { fail "$1"; tail -n 4 log; }
}
needs_python h5py numpy

# Columns of very different size, one of them constant; two numbers and three labels that follow from them.
/usr/bin/python3 - <<'PY'
import numpy
r = numpy.random.RandomState(0)
x = r.standard_normal((400, 4))
with open("t.csv", "w") as f:
    f.write("big,same,small,plain,left,right,p,q,s\n")
    for v in x:
        labels = [int(v[0] > 0), int(v[2] + v[3] > 0), int(v[3] > 1)]
        row = [5e5 + 1e4 * v[0], 7, 1e-3 * v[2], v[3], 2e5 + 3e4 * (2 * v[0] - v[2]), 1e-2 * (v[3] + 1)] + labels
        f.write(",".join("%.9g" % n for n in row) + "\n")
PY
expect 0 "numbers" "$bin/charl" data import csv t.csv -o n.h5 --label left,right --regression --val-split 0.25
expect 0 "the data" "$bin/charl" data info n.h5
grep -q '^  y mean  *[12][0-9][0-9][0-9][0-9]' "$T/log" || fail "data info does not say the means of the targets"
expect 0 "labels" "$bin/charl" data import csv t.csv -o l.h5 --label p,q,s --val-split 0.25
cat >linear.ini <<'INI'
[run]
output_dir = run
[data]
path = n.h5
[layer fc]
type = linear
[train]
loss = mse
epochs = 30
batch_size = 30
[optimizer]
learning_rate = 0.03
[eval]
metrics = auto, rmse, r2
[checkpoint]
monitor = val/r2
[device]
share = yes
INI
sed -i 's/^type = linear/&\nout = 2/' linear.ini
expect 0 "regression" ranks 1 linear.ini -v
says 30 " val .* mae=[0-9.]"
expect 0 "regression on 3 ranks" ranks 3 linear.ini -q -o three train.slices=5
expect 0 "regression again" ranks 1 linear.ini -q -o one train.slices=5
same "regression" one three
expect 0 "regression in two parts" ranks 1 linear.ini -q -o parts train.slices=5 train.epochs=12
expect 0 "regression resumed" ranks 3 linear.ini -q -o parts train.slices=5
same "regression resumed" one parts
expect 0 "regression as it is" ranks 1 linear.ini -q -o raw train.max_steps=2 data.scale_targets=no log.interval=1
expect 0 "streamed, with mixup" ranks 1 linear.ini -q -o mixed1 train.epochs=2 train.slices=5 data.cache=none data.augment=mixup:0.4
expect 0 "with mixup on 2 ranks" ranks 2 linear.ini -q -o mixed2 train.epochs=2 train.slices=5 data.augment=mixup:0.4
same "mixup" mixed1 mixed2
expect 0 "evaluation" "$bin/charl" eval linear.ini run/last.h5
cp "$T/log" eval.log
expect 0 "evaluation in 5 slices" "$bin/charl" eval linear.ini run/last.h5 train.slices=5
cp "$T/log" one.log
expect 0 "evaluation on 3 ranks" mpirun -q --oversubscribe --bind-to none -n 3 "$bin/charl" eval linear.ini run/last.h5 train.slices=5
cmp -s "$T/log" one.log || { fail "3 ranks say something else"; diff "$T/log" one.log; }
expect 0 "the checkpoint" "$bin/charl" checkpoint show run/last.h5
grep -q 'target std  *6' "$T/log" || fail "checkpoint show does not say the deviations of the targets"
expect 0 "prediction" "$bin/charl" predict run/last.h5 -o p.csv
cp "$T/log" predict.log
expect 0 "one step" ranks 1 linear.ini -q -o first train.max_steps=1 train.batch_size=300 data.shuffle=no \
    optimizer.learning_rate=1e-30 optimizer.weight_decay=0 log.interval=1
check "what the formula says" <<'PY'
import csv, h5py, json, numpy, re
with h5py.File("n.h5") as f:
    train, val, y, yv = (f[n][:].astype("f8") for n in ("train/x", "val/x", "train/y", "val/y"))
    mean, std = f["train/x"].attrs["mean"], f["train/x"].attrs["std"]
    t_mean, t_std = f.attrs["target_mean"].astype("f8"), f.attrs["target_std"].astype("f8")
assert numpy.allclose(t_mean, y.mean(0), rtol=1e-5) and numpy.allclose(t_std, y.std(0), rtol=1e-5), (t_mean, t_std)
assert std[1] == 1 and abs(mean[1] - 7) < 1e-6, (mean, std)
assert numpy.allclose(mean, train.mean(0), rtol=1e-5) and numpy.allclose(std[[0, 2, 3]], train.std(0)[[0, 2, 3]], rtol=1e-4)
def model(path, x):
    with h5py.File(path) as f:
        assert (f["schema/target_mean"][:] == t_mean.astype("f4")).all() and (f["schema/target_std"][:] == t_std.astype("f4")).all()
        return ((x - mean) / std @ f["model/fc.weight"][:].T.astype("f8") + f["model/fc.bias"][:]) * t_std + t_mean
want = model("run/last.h5", val)
rows = list(csv.DictReader(open("p.csv")))
got = numpy.array([[float(r["prediction_" + k]) for k in ("left", "right")] for r in rows])
assert numpy.allclose(got, want, rtol=1e-4, atol=1e-5), numpy.abs(got - want).max()
mse, mae = (((want - yv) / t_std) ** 2).mean(), numpy.abs(want - yv).mean()
loss, error, rmse, r2 = (float(re.search(" " + k + r"=([-+.0-9e]+)", open("eval.log").read()).group(1)) for k in ("loss", "mae", "rmse", "r2"))
assert numpy.isclose(loss, mse, rtol=1e-3) and numpy.isclose(error, mae, rtol=1e-3), (loss, mse, error, mae)
errors = (want - yv) ** 2
assert numpy.isclose(rmse, numpy.sqrt(errors.mean(0)).mean(), rtol=1e-3), rmse
assert numpy.isclose(r2, (1 - errors.sum(0) / ((yv - yv.mean(0)) ** 2).sum(0)).mean(), rtol=1e-5), r2
assert (numpy.abs(want - yv).mean(0) < 0.05 * t_std).all(), "not learned: %g" % mae
first = json.loads(open("first/metrics.jsonl").readline())
assert first["event"] == "train" and numpy.isclose(first["loss"], (((model("first/last.h5", train) - y) / t_std) ** 2).mean(), rtol=1e-4)
summary = float(re.search(r" loss=([-+.0-9e]+)", open("predict.log").read()).group(1))
assert numpy.isclose(summary, loss, rtol=1e-4), (summary, loss) # of prediction, formed on the host
assert json.loads(open("raw/metrics.jsonl").readline())["loss"] > 1e8, "targets are scaled in spite of data.scale_targets"
PY

sed -e 's/n.h5/l.h5/' -e 's/= run/= lrun/' -e 's/= mse/= bce/' -e 's/out = 2/out = 3/' -e '/monitor/s/.*/monitor = val\/f1_micro/' -e 's/rmse, r2/f1, f1_micro, auc/' \
    linear.ini >labels.ini
expect 0 "labels" ranks 2 labels.ini -v train.slices=2
says 30 " val .* accuracy=0\.[0-9]|accuracy=1"
expect 0 "labels: evaluation" "$bin/charl" eval labels.ini lrun/last.h5
cp "$T/log" eval.log
expect 0 "labels: prediction" "$bin/charl" predict lrun/last.h5 -o q.csv
check "accuracy of single labels" <<'PY'
import csv, re
rows = list(csv.DictReader(open("q.csv")))
right = sum((float(r["probability_" + k]) > 0.5) == (r["target_" + k] == "1") for r in rows for k in "pqs")
accuracy = float(re.search(r"accuracy=([.0-9]+)", open("eval.log").read()).group(1))
assert abs(accuracy - right / 3 / len(rows)) < 1e-6 and accuracy > 0.9, (accuracy, right)
def metric(name):
    return float(re.search(" " + name + r"=([.0-9]+)", open("eval.log").read()).group(1))
parts = []
for k in "pqs":
    said, true = ([float(r[column + "_" + k]) > 0.5 for r in rows] for column in ("probability", "target"))
    parts.append((sum(a and b for a, b in zip(said, true)), sum(said), sum(true)))
f1 = [2 * right / (said + true) for right, said, true in parts]
right, said, true = map(sum, zip(*parts))
assert abs(metric("f1") - sum(f1) / 3) < 1e-6 and abs(metric("f1_micro") - 2 * right / (said + true)) < 1e-6, (f1, parts)
area = 0
for k in "pqs":
    yes, no = ([float(r["probability_" + k]) for r in rows if r["target_" + k] == value] for value in "10")
    area += sum((a > b) + (a == b) / 2 for a in yes for b in no) / len(yes) / len(no) / 3
assert abs(metric("auc") - area) < 1e-6, (metric("auc"), area)
PY
# Classes in one-hot form are not several labels; integers far apart are names, also over several files and of other data.
/usr/bin/python3 - <<'PY'
import h5py, numpy
r = numpy.random.RandomState(0)
for part, years in enumerate(([2012, 2010], [2011, 2010])):
    y = r.choice(years, 40)
    with h5py.File("part-%d.h5" % part, "w") as f:
        f["x"], f["y"], f["float"] = r.standard_normal((40, 3)).astype("f4"), y, numpy.eye(3, dtype="f4")[y - 2010]
        f["hot"], f["sixes"] = numpy.eye(3, dtype="i4")[y - 2010], numpy.full(40, 6)
PY
printf '[data]\npath = part-*.h5\nx = /x\ny = /y\n[model]\ntype = mlp\nhidden = 4\n[train]\nmax_steps = 1\nbatch_size = 8\n[device]\nshare = yes\n' >years.ini
expect 0 "years" ranks 1 years.ini -o years
says 1 "loss +cross_entropy, 3 classes: 2010 2011 2012, chance level 0\.[3-9]"
expect 0 "one of the files" "$bin/charl" eval years.ini years/last.h5 data.path=part-1.h5 --split train
expect 3 "another class" "$bin/charl" eval years.ini years/last.h5 data.path=part-1.h5 data.y=/sixes --split train
says 1 "classes that .* was not trained on: \"6\""
for form in hot float; do
    expect 2 "one-hot" ranks 1 years.ini -o x data.y=/$form
    says 1 "every target has one 1 among 3 numbers: classes in one-hot form"
done
expect 0 "one-hot rows as labels" ranks 1 years.ini -o hot data.y=/hot train.loss=bce
says 1 "loss +bce, 3 labels"
expect 2 "digits are not labels" ranks 1 mlp.ini -q -o x train.loss=bce
says 1 "labels are 0 or 1, those of .* go up to 9"
# One number for each sample, without an extent of its own: from HDF5, from NumPy's arrays, and in a prediction.
/usr/bin/python3 - <<'PY'
import h5py, numpy
x = numpy.random.RandomState(0).standard_normal(40).astype("f4")
numpy.save("one-x.npy", x)
numpy.save("one-y.npy", (x > 0).astype("i4"))
with h5py.File("one-f.h5", "w") as f:
    f["x"], f["y"] = x, (x > 0).astype("i4")
PY
cat >one.ini <<'INI'
[data]
path = one.h5
[model]
type = mlp
hidden = 4
[train]
epochs = 2
batch_size = 8
INI
expect 0 "arrays of numbers" "$bin/charl" data import npy one-x.npy one-y.npy -o one.h5
expect 0 "from NumPy" ranks 1 one.ini -q -o single
expect 0 "from HDF5" ranks 1 one.ini -q -o single-f data.path=one-f.h5 data.x=x data.y=y
expect 0 "predictions of numbers" "$bin/charl" predict single/last.h5 one-x.npy -o one.csv
[ "$(wc -l <one.csv)" -eq 41 ] || fail "predictions of one number each"
# Floating-point numbers that may be classes are told, unless it is said that they are numbers.
/usr/bin/python3 -c 'import h5py
with h5py.File("one-f.h5", "a") as f:
    f["c"] = f["y"][:].astype("f8") + 1'
expect 0 "classes as floats" ranks 1 one.ini --fast-dev-run=1 data.path=one-f.h5 data.x=x data.y=c
says 1 "warning: .*one-f.h5: the targets are floating-point numbers, of which only 1, 2 occur: if they are classes, store them as integers"
expect 0 "floats that are meant" ranks 1 one.ini --fast-dev-run=1 data.path=one-f.h5 data.x=x data.y=c train.loss=mse
says 0 "only 1, 2 occur"
finish

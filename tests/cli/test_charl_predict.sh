#!/bin/sh
# charl predict on data sets: every sample once and in order, as charl eval counts them; other data; what cannot be written.
. "$(dirname "$0")/charl.sh"

if ! "$charl" devices >out 2>&1; then
    skip "no device"
fi

h5py=yes
/usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null || h5py=

# check WHAT COMMAND...
check() {
    what=$1
    shift
    "$@" >out 2>err || { echo "FAIL: $what"; cat out err; failures=$((failures + 1)); }
}

# train CONFIG
train() {
    if ! "$bin/charl-train" "$1" --progress=none >out 2>&1; then
        echo "charl-train $1 failed:"
        cat out
        exit 1
    fi
}

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
epochs = 6
batch_size = 40
[optimizer]
type = adamw
learning_rate = 1e-2
INI
train c.ini
ck=run/checkpoints/step-00000024.h5

"$charl" eval c.ini $ck >eval 2>err
expect 0 '^charl: val step=24 rows=83 accuracy=0\.' predict $ck
cp out val.csv
summary=$(sed -n 's/.* accuracy=\([^ ]*\).*/\1/p' err)
loss=$(sed -n 's/.* loss=//p' err)
cat >check_same.py <<'PY'
import csv, re, sys
rows = list(csv.DictReader(open("val.csv")))
assert list(rows[0]) == ["row", "label", "predicted", "probability"], rows[0]
assert [int(r["row"]) for r in rows] == list(range(83))
assert all(0.1 - 1e-6 <= float(r["probability"]) <= 1 for r in rows)
loss = float(re.search(r"loss=([-+.0-9e]+)", open("eval").read()).group(1))
assert abs(float(sys.argv[2]) - loss) < 1e-5 * loss, (sys.argv, loss)
mine = sum(r["label"] == r["predicted"] for r in rows) / len(rows)
theirs = float(re.search(r"accuracy=([0-9.]+)", open("eval").read()).group(1))
assert abs(mine - theirs) < 1e-6 and abs(mine - float(sys.argv[1])) < 1e-6, (mine, theirs, sys.argv)
assert 0.2 < mine < 1.0 + 1e-9, mine
PY
check "as many right as charl eval counts" /usr/bin/python3 check_same.py "${summary:-none}" "${loss:-none}"

expect 0 'rows=83 .*file=p.csv' predict $ck -o p.csv
check "a file holds what standard output gets" cmp p.csv val.csv
check "nothing on standard output" test ! -s out
expect 0 'rows=83' predict $ck train.batch_size=83 -o p.csv
check "the batch changes nothing" cmp p.csv val.csv
expect 0 'rows=83' predict $ck train.batch_size=24 data.cache=none -o p.csv
check "streaming changes nothing" cmp p.csv val.csv
expect 0 '^charl: train step=24 rows=160' predict $ck --split train -o t.csv
check "a line for every row" test "$(wc -l <t.csv)" -eq 161

expect 0 'rows=83' predict $ck --all --format jsonl -o p.jsonl
expect 0 'rows=83' predict $ck --all -o all.csv
cat >check_json.py <<'PY'
import csv, json
rows = [json.loads(line) for line in open("p.jsonl")]
plain, every = list(csv.DictReader(open("val.csv"))), list(csv.DictReader(open("all.csv")))
assert len(rows) == len(plain) == len(every) == 83
labels = set()
for j, p, e in zip(rows, plain, every):
    assert list(j) == ["row", "label", "predicted", "probability", "probabilities"], j
    assert all(str(j[k]) == p[k] == e[k] for k in ("row", "label", "predicted")), (j, p, e)
    assert len(j["probabilities"]) == 10 and abs(sum(j["probabilities"]) - 1) < 1e-6
    best = max(range(10), key=lambda k: j["probabilities"][k])
    assert best == j["predicted"] and j["probabilities"][best] == j["probability"] == float(p["probability"])
    assert [float(e["p_%d" % k]) for k in range(10)] == j["probabilities"]
    labels.add(j["label"])
assert len(labels) > 5
PY
check "JSON lines and CSV agree" /usr/bin/python3 check_json.py

if [ -n "$h5py" ]; then
    # The same rows from a file that is not charl's, with labels of less than ten classes and fewer rows than a batch: normalised
    # as the model was, not by themselves.
    cat >check_other.py <<'PY'
import h5py, numpy
with h5py.File("d.h5") as d, h5py.File("other.h5", "w") as o:
    o["images"] = d["val/x"][:30]
    o["nothing"] = numpy.zeros(30, "u1")
with h5py.File("d.h5") as d, h5py.File("new.h5", "w") as o:
    o.attrs["charl_format"], o.attrs["charl_version"], o.attrs["kind"] = numpy.bytes_("dataset"), 1, numpy.bytes_("images")
    o["train/x"], o["train/y"] = d["val/x"][:30], d["val/y"][:30]
with h5py.File("new.h5") as d, h5py.File("bare.h5", "w") as o:
    o.attrs.update(d.attrs)
    o["train/x"] = d["train/x"][:]
with h5py.File("d.h5") as d, h5py.File("small.h5", "w") as o:
    o["images"], o["nothing"] = d["val/x"][:30, :, :20], numpy.zeros(30, "u1")
PY
    check "another file" /usr/bin/python3 check_other.py
    sed 1d val.csv | head -n 30 | cut -d, -f3,4 >want
    expect 0 '^charl: train step=24 rows=30' predict $ck other.h5 data.x=images data.y=nothing -o o.csv
    sed 1d o.csv | cut -d, -f3,4 >got
    check "the same answers" cmp want got
    expect 0 '^charl: train step=24 rows=30 accuracy' predict $ck new.h5 -o o.csv
    sed 1d o.csv | cut -d, -f3,4 >got
    check "the same answers for charl's layout" cmp want got
    expect 0 'rows=30' predict $ck data.path=other.h5 data.x=images data.y=nothing --split train -o o.csv
    expect 0 '^charl: train step=24 rows=30 file' predict $ck other.h5 -x images -o o.csv
    sed 1d o.csv | cut -d, -f2,3 >got
    check "the same answers without targets" cmp want got
    head -n 1 o.csv >got
    echo row,predicted,probability >header
    check "no label" cmp header got
    expect 0 '^charl: train step=24 rows=30 file' predict $ck bare.h5 -o o.csv
    sed 1d o.csv | cut -d, -f2,3 >got
    check "the same answers for charl's layout without targets" cmp want got
    expect 2 'y goes with -x' predict $ck other.h5 -y images
    expect 3 'other.h5: there is no array /pictures' predict $ck other.h5 -x pictures
    expect 3 'other.h5 has no val split' predict $ck other.h5 data.x=images data.y=nothing --split val
    hint 'all rows of a file without splits are training rows'
    expect 3 'samples of small.h5 are .1, 20, 28., run/.* was trained on .1, 28, 28.' predict $ck small.h5 data.x=images data.y=nothing
    expect 3 'other.h5 is an HDF5 file that charl did not write' predict $ck other.h5
else
    skipped "data that are not charl's" "/usr/bin/python3 has no h5py"
fi

if [ -n "$h5py" ]; then
    expect 0 'rows=83 accuracy=.* file=p.h5' predict $ck -o p.h5
    expect 0 'rows=83' predict $ck --format hdf5 -o same.bin
    cat >check_h5.py <<'PY'
import csv, h5py, numpy
every = list(csv.DictReader(open("all.csv")))
with h5py.File("p.h5") as f, h5py.File("same.bin") as g:
    assert sorted(f) == ["label", "output", "predicted"] and f.attrs["step"] == 24, list(f)
    assert f["output"].shape == (83, 10) and f["output"].dtype == "f4" and f["label"].shape == (83,)
    assert [int(r["label"]) for r in every] == list(f["label"]) and [int(r["predicted"]) for r in every] == list(f["predicted"])
    want = numpy.array([[float(r["p_%d" % k]) for k in range(10)] for r in every], "f4")
    assert numpy.allclose(f["output"], want, rtol=2e-7) and (f["output"][:] == g["output"][:]).all()
PY
    check "HDF5 holds the same" /usr/bin/python3 check_h5.py
fi
expect 2 'format hdf5 needs a file' predict $ck --format hdf5
expect 8 'no/such' predict $ck -o no/such/folder.h5

# Names of classes, which CSV must quote.
printf 'a,b,kind\n' >k.csv
for i in 1 2 3 4 5 6 7 8; do
    printf '%d,%d,"cat, ""big"""\n-%d,-%d,dog\n' $i $i $i $i >>k.csv
done
expect 0 '' data import csv k.csv -o k.h5
sed -e 's/d.h5/k.h5/' -e 's/= run/= krun/' -e 's/batch_size = 40/batch_size = 8/' c.ini >k.ini
train k.ini
expect 0 'rows=16 accuracy=' predict krun/last.h5 --split train --all -o k.out
expect 0 'rows=16 accuracy=' predict krun/last.h5 --split train --format jsonl -o k.jsonl
cat >check_names.py <<'PY'
import csv, json
rows, lines = list(csv.DictReader(open("k.out"))), [json.loads(l) for l in open("k.jsonl")]
want = ['cat, "big"', "dog"] * 8
assert [r["label"] for r in rows] == [l["label"] for l in lines] == want, (rows, lines)
assert [r["predicted"] for r in rows] == [l["predicted"] for l in lines], (rows, lines)
assert all(r["predicted"] in want for r in rows), rows
assert list(rows[0])[4:] == ['p_cat, "big"', "p_dog"], rows[0]
PY
check "names of classes" /usr/bin/python3 check_names.py

# Numbers: one, several, and probabilities.
expect 0 '' data make regression r.h5 --train 160 --val 20
sed -e 's/d.h5/r.h5/' -e 's/= run/= rrun/' -e '/^batch_size/a loss = mse' c.ini >r.ini
train r.ini
"$charl" eval r.ini rrun/last.h5 >eval 2>err
expect 0 '^charl: val step=24 rows=20 mae=[0-9.]* loss=[0-9.]* file=r.csv$' predict rrun/last.h5 -o r.csv
expect 0 '' predict rrun/last.h5 --format jsonl -o r.jsonl
cat >check_numbers.py <<'PY'
import csv, json, re
rows, lines = list(csv.DictReader(open("r.csv"))), [json.loads(l) for l in open("r.jsonl")]
assert list(rows[0]) == ["row", "target", "prediction"] and len(rows) == 20, rows[0]
assert [[float(v) for v in r.values()] for r in rows] == [list(l.values()) for l in lines]
mse = sum((float(r["target"]) - float(r["prediction"])) ** 2 for r in rows) / 20
loss = float(re.search(r"loss=([-+.0-9e]+)", open("eval").read()).group(1))
assert abs(mse - loss) < 1e-5 * loss, (mse, loss)
PY
check "numbers" /usr/bin/python3 check_numbers.py
expect 2 'only models that choose among classes' predict rrun/last.h5 --all
if [ -n "$h5py" ]; then
    cat >check_huge.py <<'PY'
import h5py, numpy
with h5py.File("huge.h5", "w") as f:
    f["x"], f["y"] = numpy.full((4, 8), 3e38, "f4"), numpy.zeros(4, "f4")
    f["x"][:2] = 0
PY
    check "huge numbers" /usr/bin/python3 check_huge.py
    expect 6 'train, row 2: the model.s output is not finite' predict rrun/last.h5 huge.h5 data.x=x data.y=y -o no.csv
    cat >check_pairs.py <<'PY'
import h5py, numpy
with h5py.File("b.h5", "w") as f:
    x = numpy.random.RandomState(1).standard_normal((64, 3)).astype("f4")
    f["x"], f["y"] = x, (x[:, :2] > 0).astype("f4")
PY
    check "pairs" /usr/bin/python3 check_pairs.py
    sed -e 's/d.h5/b.h5\nx = x\ny = y/' -e 's/= run/= brun/' -e '/^batch_size/a loss = bce' c.ini >b.ini
    train b.ini
    expect 0 'rows=64' predict brun/last.h5 --split train -o b.csv
    expect 0 'rows=64' predict brun/last.h5 --split train --format jsonl -o b.jsonl
    expect 0 'rows=64' predict brun/last.h5 --split train -o pairs.h5
    cat >check_pairs2.py <<'PY'
import csv, json
rows, lines = list(csv.DictReader(open("b.csv"))), [json.loads(l) for l in open("b.jsonl")]
assert list(rows[0]) == ["row", "target_0", "target_1", "probability_0", "probability_1"], rows[0]
right = 0
for r, l in zip(rows, lines):
    assert l["target"] == [float(r["target_0"]), float(r["target_1"])]
    assert l["probability"] == [float(r["probability_0"]), float(r["probability_1"])]
    assert all(0 <= p <= 1 for p in l["probability"])
    right += sum((p > 0.5) == (t > 0.5) for t, p in zip(l["target"], l["probability"]))
assert right > 96, right
import h5py, numpy
with h5py.File("pairs.h5") as f:
    assert sorted(f) == ["output", "target"] and f["target"].shape == (64, 2), list(f)
    assert numpy.allclose(f["output"], [l["probability"] for l in lines], rtol=2e-7)
    assert (f["target"][:] == numpy.array([l["target"] for l in lines], "f4")).all()
PY
    check "probabilities" /usr/bin/python3 check_pairs2.py
else
    skipped "huge numbers, pairs" "/usr/bin/python3 has no h5py"
fi

expect 3 'd.h5 has no test split' predict $ck --split test -o no.csv
expect 2 'there is no split foo' predict $ck --split foo -o no.csv
expect 5 'none: ' predict none -o no.csv
expect 5 'fc1.weight' predict $ck model.hidden=17 -o no.csv
expect 2 'hiden: unknown key (did you mean hidden?)' predict $ck model.hiden=17 -o no.csv
expect 2 'c.ini is not a checkpoint, but .* is' predict c.ini $ck -o no.csv
expect 2 'MODEL is missing' predict
expect 5 'd.h5' predict d.h5
expect 2 'format: "xml" is not one of csv, jsonl, hdf5' predict $ck --format xml
expect 8 'no/such/folder.csv: .*the folder no/such does not exist; make it with: mkdir -p' predict $ck -o no/such/folder.csv
expect 8 'File name too long' predict $ck -o "$(printf '%0300d' 0)"
expect 8 'cannot write run: ' predict $ck -o run
check "a failure leaves no file" sh -c '! ls | grep -e "^no\." -e tmp'
if [ -w /dev/full ]; then
    expect 8 'cannot write /dev/full: ' predict $ck -o /dev/full
    check "/dev/full is what it was" test -c /dev/full
    "$charl" predict $ck >/dev/full 2>err
    code=$?
    check "a full standard output was not noticed ($code)" test $code -eq 8
fi
mpirun -n 2 "$charl" predict $ck -o no.csv >ranks 2>&1
code=$?
check "two ranks: exit $code, want 2" test $code -eq 2
check "two ranks: why not" grep -q 'charl: error: charl predict runs on one rank, not on 2' ranks
check "two ranks leave no file" sh -c '! ls | grep -e "^no\." -e tmp'
expect 2 'no.xlsx: predictions are written as CSV (.csv), lines of JSON (.jsonl) or HDF5 (.h5), not as .xlsx' predict $ck -o no.xlsx
expect 0 'file=p.json' predict $ck -o p.json --format jsonl
# a run directory for its last checkpoint, and says so
expect 0 'step=24 rows=83 ' predict run -o last.csv
expect 0 'run is a run directory: run/last.h5 is read' predict run -o last.csv
mkdir new && cp run/config.ini new
expect 5 'new is a run directory without checkpoints, not a checkpoint' predict new
expect 2 'd.h5 is not a checkpoint, but run is' predict d.h5 run
finish

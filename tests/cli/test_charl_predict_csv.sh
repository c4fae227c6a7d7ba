#!/bin/sh
# charl predict on CSV files and NumPy arrays: rows that a model has never seen, by name, normalised as its training data were,
# with neither the configuration nor the training data at hand; what it cannot take.
. "$(dirname "$0")/charl.sh"

if ! "$charl" devices >out 2>&1; then
    skip "no device"
fi
python=/usr/bin/python3
if ! $python -c 'import numpy' 2>/dev/null; then
    skip "$python has no numpy"
fi

# check WHAT COMMAND...
check() {
    what=$1
    shift
    "$@" >out 2>err || { echo "FAIL: $what"; cat out err; failures=$((failures + 1)); }
}

# train NAME: NAME.csv in NAME.h5, a model in NAME/last.h5
train() {
    name=$1
    shift
    "$charl" data import csv "$name.csv" -o "$name.h5" "$@" >out 2>&1 || { cat out; exit 1; }
    cat >"$name.ini" <<INI
[run]
output_dir = $name
[data]
path = $name.h5
[model]
type = mlp
hidden = 16
[train]
epochs = 6
batch_size = 32
loss = ${loss:-cross_entropy}
[optimizer]
type = adamw
learning_rate = 2e-2
INI
    "$bin/charl-train" "$name.ini" --progress=none >out 2>&1 || { cat out; exit 1; }
}

# Columns on scales that only the training data tell: height around 1000, width around 0.01.
cat >make.py <<'PY'
import csv, random
random.seed(7)
kinds = ["wolf", "cat", "dog, small"]
def rows(n):
    for i in range(n):
        k = random.randrange(3)
        yield ["%.6g" % (1000 + 50 * k + random.gauss(0, 8)), "%.6g" % (0.01 * random.gauss(k, 0.2)), "%.6g" % random.gauss(0, 1)], kinds[k]
def table(name, head, lines):
    with open(name, "w", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows([head] + list(lines))
some = list(rows(200))
table("beast.csv", ["height", "width", "age", "kind"], (x + [k] for x, k in some))
new = list(rows(90))
table("same.csv", ["height", "width", "age", "kind"], (x + [k] for x, k in new))
table("mixed.csv", ["kind", "name", "age", "height", "note", "width"], ([k, "no %d" % i, x[2], x[0], "a, b", x[1]] for i, (x, k) in enumerate(new)))
table("bare.csv", ["width", "age", "height"], ([x[1], x[2], x[0]] for x, k in new))
table("one.csv", ["width", "age", "height"], ([x[1], x[2], x[0]] for x, k in new[:1]))
table("other.csv", ["height", "age", "kind"], ([x[0], x[2], k] for x, k in new))
table("headless.csv", new[0][0], (x for x, k in new[1:]))
table("part.csv", ["kind", "height", "width", "age"], ([["", "bird", k][i % 3]] + x for i, (x, k) in enumerate(new)))
# The value to predict is 3 * a - b, of columns whose mean is far from 0.
numbers = [[100 + random.gauss(0, 5), random.gauss(-3, 1)] for i in range(200)]
table("sum.csv", ["a", "b", "total"], (["%.6g" % a, "%.6g" % b, "%.6g" % (3 * (a - 100) - b)] for a, b in numbers))
# 40 columns: more than a list in a configuration holds.
wide = [[random.gauss(j, 1 + j % 3) for j in range(40)] for i in range(120)]
table("wide.csv", ["c%d" % j for j in range(40)] + ["y"], (["%.6g" % v for v in r] + [str(int(r[7] > 7))] for r in wide))
table("big.csv", ["age", "width", "height"], ([x[2], x[1], x[0]] for x, k in rows(100000)))
PY
$python make.py || exit 1
train beast --label kind
loss=mse train sum --label total --regression
train wide
model=beast/last.h5
mkdir away
mv beast.ini beast.h5 sum.ini sum.h5 wide.ini wide.h5 away

expect 0 '^charl: same.csv step=38 rows=90 accuracy=[0-9.]* loss=' predict $model same.csv -o same.out
expect 0 'note: mixed.csv: .* does not take these columns, they are ignored: name, note$' predict $model mixed.csv -o mixed.out
expect 0 'ignored: note$' predict $model mixed.csv --id name --format jsonl --all -o mixed.jsonl
expect 0 '^charl: bare.csv step=38 rows=90 file=' predict $model bare.csv --all -o bare.out
expect 0 'rows=1 file=' predict $model one.csv -o one.out
expect 0 'labelled=30 accuracy=' predict $model part.csv -o part.out
expect 0 'warning: .* does not know 30 labels, which are not counted; the first: part.csv:3: "bird"' predict $model part.csv
expect 0 'warning: headless.csv has no column names, but .* does; columns are matched by position' predict $model headless.csv -o headless.out
cat >check.py <<'PY'
import csv, json
same, mixed, bare, one, part, headless = (list(csv.DictReader(open(n + ".out"))) for n in ("same", "mixed", "bare", "one", "part", "headless"))
lines = [json.loads(l) for l in open("mixed.jsonl")]
truth = [r["kind"] for r in csv.DictReader(open("same.csv"))]
answers = [(r["predicted"], r["probability"]) for r in same]
assert list(same[0]) == ["row", "label", "predicted", "probability"], same[0]
assert [r["label"] for r in same] == truth and sum(r["predicted"] == k for r, k in zip(same, truth)) >= 80
for rows in (mixed, bare, part, headless):
    assert [(r["predicted"], r["probability"]) for r in rows] == answers
assert [(r["predicted"], r["probability"]) for r in one] == answers[:1]
assert list(bare[0]) == ["row", "predicted", "probability", "p_cat", "p_dog, small", "p_wolf"], bare[0]
assert [r["label"] for r in part] == [["", "", k][i % 3] for i, k in enumerate(truth)]
assert [l["id"] for l in lines] == ["no %d" % i for i in range(90)]
assert [(l["predicted"], l["label"]) for l in lines] == [(a[0], k) for a, k in zip(answers, truth)]
assert all(sorted(l["probabilities"]) == ["cat", "dog, small", "wolf"] for l in lines)
assert all(abs(sum(l["probabilities"].values()) - 1) < 1e-6 for l in lines)
PY
check "the same answers whatever the order of columns, with and without labels, alone or many" $python check.py

# No output replaces an input, whatever its name and format.
cp same.csv same.copy && ln -L $model link.jsonl && cp $model model.copy
expect 2 'the output ./same.csv is the same file as the input same.csv' predict $model same.csv -o ./same.csv
expect 2 'the output same.csv is the same file as the input same.csv' predict $model same.csv --format hdf5 -o same.csv
expect 2 "the output $model is the same file as the input $model" predict $model same.csv -o $model
expect 2 "the output link.jsonl is the same file as the input $model" predict $model same.csv -o link.jsonl
hint 'name another output'
check "the data are as before" cmp same.csv same.copy
check "the model is as before" cmp $model model.copy
cp away/beast.h5 data.h5
expect 2 'the output data.h5 is the same file as the input data.h5' predict $model data.path=data.h5 data.val_split=0.5 -o data.h5
expect 2 'the output data.h5 is the same file as the input data.h5' eval away/beast.ini $model data.path=data.h5 --split train --predictions data.h5
check "the dataset is as before" cmp data.h5 away/beast.h5
expect 0 'rows=90' predict $model same.csv -o same.out # another file is replaced

# One row alone is not its own mean.
expect 0 'mae=' predict sum/last.h5 sum.csv -o all.out
for i in 2 50 150; do
    sed -n -e 1p -e "${i}p" sum.csv | cut -d, -f1,2 >alone.csv
    expect 0 '^charl: alone.csv step=38 rows=1$' predict sum/last.h5 alone.csv
    cut -d, -f2 out | tail -n 1 >got
    cut -d, -f3 all.out | sed -n "${i}p" >want
    check "row $i alone" cmp want got
done
head -n 1 all.out >got
echo row,target_total,prediction_total >want
check "values have the name of their target" cmp want got
expect 0 '{"row":0,"target":{"total":[-0-9.]*},"prediction":{"total":[-0-9.]*}}' predict sum/last.h5 sum.csv --format jsonl
expect 0 'rows=120 accuracy=' predict wide/last.h5 wide.csv
expect 0 'rows=100000 file=' predict $model big.csv train.batch_size=1000 -o big.out
check "a line for every row" test "$(wc -l <big.out)" -eq 100001

# Arrays, by their shape.
cat >arrays.py <<'PY'
import csv, numpy
x = numpy.array([[float(r[c]) for c in ("height", "width", "age")] for r in csv.DictReader(open("same.csv"))])
numpy.save("f4.npy", x.astype("f4"))
numpy.save("f8.npy", x)
numpy.save("one.npy", x[0].astype("f4"))
numpy.save("two.npy", x[:, :2])
numpy.save("nan.npy", numpy.where(x > 1100, numpy.nan, x))
PY
$python arrays.py || exit 1
for array in f4 f8; do
    expect 0 "warning: $array.npy has no column names, but .* does" predict $model $array.npy -o array.out
    cmp array.out headless.out || failures=$((failures + 1))
done
expect 0 'rows=1$' predict $model one.npy
expect 3 'two.npy is an array of .90, 2., .* takes samples of f32 .3.' predict $model two.npy
expect 3 'nan.npy: nan in row [0-9]* is no finite f32' predict $model nan.npy -o no.out

# HDF5: the rows of a CSV file are counted first.
if $python -c 'import h5py' 2>/dev/null; then
    expect 0 'rows=90 .*file=p.h5' predict $model mixed.csv -o p.h5
    expect 0 'labelled=30' predict $model part.csv -o q.h5
    cat >check_h5.py <<'PY'
import csv, h5py
rows = list(csv.DictReader(open("same.out")))
with h5py.File("p.h5") as f, h5py.File("q.h5") as g:
    names = [n.decode() for n in f["class_names"]]
    assert names == ["cat", "dog, small", "wolf"], names
    assert [names[k] for k in f["predicted"]] == [r["predicted"] for r in rows]
    assert [names[k] for k in f["label"]] == [r["label"] for r in rows]
    assert list(g["label"])[:2] == [-1, -1] and (g["output"][:] == f["output"][:]).all()
PY
    check "HDF5 holds the same" $python check_h5.py
fi

# What a model cannot take, in one message that names it.
expect 3 'other.csv has no column "width", which beast/last.h5 needs' predict $model other.csv -o no.out
printf 'height,width,age\n1000,0.01,\n' >gap.csv
expect 3 'gap.csv:2: column "age" is missing' predict $model gap.csv -o no.out
printf 'height,width,age\n1000,0.01,old\n' >word.csv
expect 3 'word.csv:2: column "age": "old" is not a number' predict $model word.csv -o no.out
printf 'height,width,age\n1000,0.01\n' >short.csv
expect 3 'short.csv:2: 2 fields, but the first line has 3' predict $model short.csv -o no.out
printf 'height,width,age,width\n1000,0.01,1,2\n' >twice.csv
expect 3 'twice.csv:1: two columns have the name "width"' predict $model twice.csv -o no.out
printf 'height,width,age\n' >none.csv
expect 3 'none.csv: there are no rows to predict' predict $model none.csv -o no.out
printf '1,2\n3,4\n' >narrow.csv
expect 3 'narrow.csv has 2 columns, .* takes 3' predict $model narrow.csv -o no.out
: >empty.csv
expect 3 'empty.csv: the file is empty' predict $model empty.csv -o no.out
expect 3 'nowhere.csv: cannot be opened: No such file' predict $model nowhere.csv -o no.out
expect 2 'same.csv and bare.csv: several files are predicted at once only where all are images or texts' predict $model same.csv bare.csv -o no.out
expect 2 'split val: only data sets have splits; same.csv is not a data set' predict $model same.csv --split val -o no.out
expect 2 'there is no column "nam"' predict $model mixed.csv --id nam -o no.out
expect 3 'beast.h5: cannot be opened' predict $model -o no.out
hint 'charl predict MODEL.h5 DATA'
expect 2 'knows the data it was trained on' predict $model same.csv --data away/beast.h5 -o no.out
expect 2 'same.csv is not a checkpoint, but .*last.h5 is' predict same.csv $model -o no.out
hint "charl predict $model same.csv"
expect 2 'away/beast.h5 is not a checkpoint, but ' predict away/beast.h5 $model -o no.out
expect 0 'warning: data.normalize is not what .* was trained with; its mean and std are used' predict $model bare.csv \
    data.normalize=none --all -o normalized.out
check "the same numbers" cmp normalized.out bare.out
printf 'height;width;age\n1000;0.01;1\n' >semi.csv
expect 0 'rows=1 file=' predict $model semi.csv --separator ';' -o semi.out
expect 0 'rows=1 file=' predict $model semi.csv -o found.out
cmp semi.out found.out || { echo "FAIL: the separator is found"; failures=$((failures + 1)); }
printf 'height width  age\n1000 0.01     1\n' >blank.csv
expect 0 'rows=1 file=' predict $model blank.csv -o blank.out
cmp semi.out blank.out || { echo "FAIL: blanks separate fields"; failures=$((failures + 1)); }
printf 'height:width:age\n1000:0.01:1\n' >colon.csv
expect 3 'colon.csv has no column' predict $model colon.csv -o no.out
hint 'which separator has it? --separator'
check "a failure leaves no file" sh -c '! ls | grep -e "^no\." -e tmp'

# A checkpoint of version 1 does not know its data: with them it answers the same, without them or with others it does not answer.
"$bin/../../tests/cli/make_checkpoint" --version-1 $model v1.h5 || failures=$((failures + 1))
expect 5 'v1.h5 is a checkpoint of version 1, which stores neither names .*beast.h5: cannot be opened' predict v1.h5 bare.csv -o no.out
hint 'data FILE.h5'
expect 0 'warning: v1.h5 is a checkpoint of version 1: names .* are taken from away/beast.h5' predict v1.h5 bare.csv \
    --data away/beast.h5 --all -o v1.out
check "the same answers" cmp v1.out bare.out
expect 5 'away/wide.h5 is not the data set that it was trained on' predict v1.h5 bare.csv --data away/wide.h5 -o no.out

# Names that would steer a terminal.
printf 'height,width,age,\302\2332J\n1000,0.01,1,5\n' >bad.csv
expect 3 'bad.csv:1: the name of a column with the control or invisible character U+009B' predict $model bad.csv
printf 'height,width,age,who\n1000,0.01,1,\033[2J\342\200\256x\n' >who.csv
expect 0 '^?.2J?x,' predict $model who.csv --id who
expect 0 '^{"id":".u001b.2J.u202ex",' predict $model who.csv --id who --format jsonl

if $python -c 'import h5py' 2>/dev/null; then
    cat >hostile.py <<'PY'
import h5py, numpy, shutil
shutil.copy("away/beast.h5", "hostile.h5")
with h5py.File("hostile.h5", "r+") as f:
    f.attrs["class_names"] = numpy.bytes_(b"x\xc2\x9b31m\n\xe2\x80\xaey\n\x1b[2J")
PY
    $python hostile.py || exit 1
    "$bin/charl-train" away/beast.ini data.path=hostile.h5 -o hostile train.epochs=1 --progress=none >out 2>&1 || { cat out; failures=$((failures + 1)); }
    expect 0 'classes     3: x?31m ?y ?.2J' checkpoint show hostile/last.h5
    expect 0 'predicted,probability,p_x?31m,p_?y,p_?.2J' predict hostile/last.h5 bare.csv --all
    cat out err >said
    check "nothing but text" $python -c 'import sys; assert all(c == "\n" or c.isprintable() for c in open("said").read())'
fi

# A reader that closes early ends the program, quietly.
"$charl" predict $model big.csv 2>pipe | head -n 1 >got
check "a closed pipe is said as that or not at all" sh -c '! grep -v -e rows= -e "standard output" -e Broken pipe'
echo row,predicted,probability >want
check "a closed pipe" cmp want got
finish

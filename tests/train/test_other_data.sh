#!/bin/sh
# Other data than those of the training. Labels, columns and targets are matched by name and normalised by the numbers of the
# checkpoint, or refused by name; a resumed training that gets other data looks for a new best; checkpoints of format version 1
# work as they did, with a warning.
. "$(dirname "$0")/common.sh"
make=$bin/../../tests/cli/make_checkpoint

# evaluates DATA ARGUMENTS...: accuracy, or mae, of all rows of DATA.
evaluates() {
    _data=$1
    shift
    "$bin/charl" eval c.ini "$@" --split train data.path="$_data" data.val_split=0 2>eval.log | sed 's/.*\(accuracy\|mae\)=//'
}

# equal WHAT WANT GOT
equal() {
    checks=$((checks + 1))
    [ -n "$2" ] && [ "$2" = "$3" ] || { fail "$1: '$3', expected '$2'"; tail -n 3 eval.log; }
}

import() {
    for name in "$@"; do
        "$bin/charl" data import csv "$name.csv" --label kind -o "$name.h5" --overwrite >/dev/null || exit 1
    done
}

# The same numbers in every run: rand() of mawk in Ubuntu 24.04 has others each time, whatever srand says.
draw='function draw() { seed = seed * 16807 % 2147483647; return seed / 2147483647 } BEGIN { seed = 7 }'

# Three classes that lie apart in four columns, two of which are in large units; 40 columns in all.
awk "$draw"'BEGIN {
    split("setosa versicolor virginica", kind, " ")
    for (i = 0; i < 40; i++) { printf "c%d,", i }
    print "kind"
    for (r = 0; r < 120; r++) {
        k = r % 3
        for (i = 0; i < 40; i++) {
            printf "%.4f,", i < 4 ? (i % 2 ? 1000 : 1) * (5 + (k == i % 3 ? 2 : 0) + draw() - 0.5) : draw()
        }
        print kind[3 - k]
    }
}' >a.csv
# The same rows sorted by class, the columns from the last to the first; two of the classes; an unknown one; one row.
{ head -n 1 a.csv; tail -n +2 a.csv | sort -t, -k41,41r; } | awk -F, '{ for (i = NF; i > 0; i--) printf("%s%s", $i, (i > 1) ? "," : "\n") }' >b.csv
grep -v setosa a.csv >two.csv
sed 's/setosa/robusta/' a.csv | head -n 30 >unknown.csv
head -n 2 a.csv >one.csv
cut -d, -f2- a.csv >lacks.csv
sed '1s/^/id,/; 2,$s/^/7,/' a.csv >more.csv
import a b two unknown one lacks more
tail -n +2 a.csv | sed 's/setosa/0/; s/versicolor/1/; s/virginica/2/' >bare.csv
"$bin/charl" data import csv bare.csv --label 40 -o bare.h5 >/dev/null || exit 1

cat >c.ini <<'INI'
[run]
output_dir = run
seed = 3
[data]
path = a.h5
val_split = 0.2
[model]
type = mlp
hidden = 8
[train]
epochs = 6
batch_size = 12
slices = 4
[optimizer]
type = adam
learning_rate = 0.02
[checkpoint]
interval = 1ep
[device]
share = yes
INI

expect 0 "training" ranks 1 c.ini
want=$(evaluates a.h5 run/last.h5)
case $want in 0.9[5-9]*|1.*) ;; *) fail "the model has not learned: accuracy $want" ;; esac
equal "another order of rows and columns" "$want" "$(evaluates b.h5 run/last.h5)"
equal "another order, read while evaluating" "$want" "$(evaluates b.h5 run/last.h5 data.cache=none)"
equal "one row of those that are right" 1.000000 "$(evaluates one.h5 run/last.h5 train.batch_size=4 train.slices=4)"
case $(evaluates two.h5 run/last.h5) in 0.9*|1.*) checks=$((checks + 1)) ;; *) fail "two of three classes" ;; esac
expect 3 "an unknown class" "$bin/charl" eval c.ini run/last.h5 data.path=unknown.h5 --split train
says 1 'unknown.h5 has classes that run/(last|checkpoints/step-[0-9]+).h5 was not trained on: "robusta"'
expect 3 "a missing column" "$bin/charl" eval c.ini run/last.h5 data.path=lacks.h5 --split train
says 1 'lacks.h5 has no columns "c0", which run/last.h5 was trained on'
expect 3 "a surplus column" "$bin/charl" eval c.ini run/last.h5 data.path=more.h5 --split train
says 1 'more.h5 has columns that run/(last|checkpoints/step-[0-9]+).h5 was not trained on: "id"'
equal "no names" "$want" "$(evaluates bare.h5 run/last.h5)"
cp eval.log log
says 1 'warning: bare.h5 names no columns, run/last.h5 does: they are matched by position'
says 1 'warning: bare.h5 names no classes, run/last.h5 does: they are matched by number'
equal "other numbers in the configuration" "$want" "$(evaluates a.h5 run/last.h5 data.normalize=none)"
cp eval.log log
says 1 'warning: data.normalize is not what run/last.h5 was trained with; its mean and std are used'

# Numbers: two targets in another order, one row alone. Normalised by its own mean it would be 0.
awk "$draw"'BEGIN {
    print "x,y,sum,difference"
    for (r = 0; r < 120; r++) {
        x = 100 * draw(); y = draw()
        printf "%.4f,%.4f,%.4f,%.4f\n", x, y, x / 50 + y, x / 50 - y
    }
}' >n.csv
awk -F, '{ print $4 "," $2 "," $3 "," $1 }' n.csv >m.csv
awk -F, 'NR == 1 || ($1 > 80 && !n++)' n.csv >lone.csv
for name in n lone; do "$bin/charl" data import csv $name.csv --regression --label sum,difference -o $name.h5 >/dev/null || exit 1; done
"$bin/charl" data import csv m.csv --regression --label difference,sum -o m.h5 >/dev/null || exit 1
expect 0 "numbers" ranks 1 c.ini data.path=n.h5 train.epochs=12 run.output_dir=numbers
mae=$(evaluates n.h5 numbers/last.h5)
equal "targets and columns in another order" "$mae" "$(evaluates m.h5 numbers/last.h5)"
# train.loss = auto: the data choose, the checkpoint says what.
chose() {
    "$bin/charl" checkpoint show "$1" --resolved >log 2>&1
    says 1 "^ *loss = $2"
}
chose run/last.h5 cross_entropy
chose numbers/last.h5 mse
expect 0 "resumed with the loss written down" ranks 1 c.ini train.loss=cross_entropy train.epochs=7
says 0 "was auto|is auto"
awk "$draw"'BEGIN { print "a,warm,wet"; for (r = 0; r < 60; r++) { a = draw(); print a "," (a > 0.5) "," (a < 0.3) } }' >flags.csv
"$bin/charl" data import csv flags.csv --label warm,wet -o flags.h5 >/dev/null || exit 1
expect 0 "labels" ranks 1 c.ini data.path=flags.h5 run.output_dir=flags train.label_smoothing=0.1
says 1 "label_smoothing has no effect with loss = bce"
chose flags/last.h5 bce
expect 2 "a metric of other targets" ranks 1 c.ini data.path=flags.h5 run.output_dir=none eval.metrics=mae
says 1 "metrics: mae needs loss = mse, huber, l1, smooth_l1 or quantile"
lone=$(evaluates lone.h5 numbers/last.h5 train.batch_size=4 train.slices=4)
checks=$((checks + 1))
awk -v all="$mae" -v lone="$lone" 'BEGIN { exit !(all < 0.2 && lone != "" && lone < 0.4) }' || fail "one row: mae $lone, of all $mae"

# Pictures of two of three folders.
python=/usr/bin/python3
if $python -c 'import zlib' 2>/dev/null; then
    $python - <<'PY'
import os, random, struct, zlib
random.seed(1)
def png(path, level):
    rows = b"".join(b"\0" + bytes(min(255, max(0, level + random.randrange(-20, 20))) for _ in range(8)) for _ in range(8))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
for folder, kinds in (("three", "ant bee cat"), ("pair", "bee cat")):
    for kind in kinds.split():
        os.makedirs(f"{folder}/{kind}")
        for i in range(20):
            png(f"{folder}/{kind}/{i:02}.png", {"ant": 40, "bee": 120, "cat": 200}[kind])
PY
    for name in three pair; do "$bin/charl" data import images $name --size 8x8 --channels 1 -o $name.h5 >log 2>&1 || break; done
    if grep -q 'libpng' log; then
        skipped "pictures" "built without libpng"
    else
        expect 0 "pictures" ranks 1 c.ini data.path=three.h5 run.output_dir=pictures train.epochs=10
        equal "three folders" 1.000000 "$(evaluates three.h5 pictures/last.h5)"
        equal "two of three folders" 1.000000 "$(evaluates pair.h5 pictures/last.h5)"
        expect 3 "the other way round" ranks 1 c.ini data.path=pair.h5 --init-from pictures/last.h5 run.output_dir=bad
        says 1 'pair.h5 has no rows of classes that pictures/(last|checkpoints/step-[0-9]+).h5 was trained on: "ant"'
    fi
else
    skipped "pictures" "no $python"
fi

# What the checkpoint holds travels on.
expect 0 "the checkpoint" "$bin/charl" checkpoint show run/last.h5
says 1 '^  classes +3: setosa versicolor virginica$'
says 1 '^  run id +[0-9a-f]{32}$'
id() { "$bin/charl" checkpoint show "$1" | sed -n 's/^  run id *//p'; }
first=$(id run/last.h5)
expect 0 "the mean of two" "$bin/charl" checkpoint average run/last.h5 run/last.h5 -o mean.h5
equal "the mean of two" "$want" "$(evaluates b.h5 mean.h5)"

# Resumed: the run keeps its id; with other data it looks for a new best, and labels are still matched by name.
expect 0 "more epochs" ranks 1 c.ini train.epochs=7
equal "a resumed run has the same id" "$first" "$(id run/last.h5)"
says 0 'new best checkpoint'
cp -r run moved
expect 0 "resumed with other data" ranks 2 c.ini train.epochs=8 data.path=b.h5 run.output_dir=moved
says 1 'warning: .*b.h5 is not the data that .* was trained on: .* looks for a new best'
equal "it has learned the same classes" "$want" "$(evaluates a.h5 moved/last.h5)"
cp -r run worse
expect 0 "resumed with other data, and worse" ranks 1 c.ini train.epochs=8 data.path=b.h5 run.output_dir=worse optimizer.learning_rate=50
checks=$((checks + 1))
[ "$(readlink worse/best.h5)" = "$(readlink worse/last.h5)" ] || fail "best.h5 is of the old data: $(readlink worse/best.h5)"
expect 3 "resumed with an unknown class" ranks 1 c.ini train.epochs=8 data.path=unknown.h5 data.val_split=0 train.batch_size=12
says 1 'was not trained on: "robusta"'
cp -r run fewer
expect 0 "evaluated on fewer rows" ranks 1 c.ini train.epochs=8 run.output_dir=fewer eval.max_batches=1 optimizer.learning_rate=50
checks=$((checks + 1))
[ "$(readlink fewer/best.h5)" = "$(readlink fewer/last.h5)" ] || fail "best.h5 is of other rows: $(readlink fewer/best.h5)"
expect 0 "another monitor" ranks 1 c.ini train.epochs=8 checkpoint.monitor=val/accuracy checkpoint.mode=max
checks=$((checks + 1))
"$bin/charl" checkpoint show run/best.h5 | grep -q '^  best  *1$' || fail "an accuracy was compared with a loss"

# Started from: the same classes in another order are mapped; other ones are refused.
expect 0 "started from" ranks 1 c.ini data.path=b.h5 data.val_split=0 --init-from run/last.h5 run.output_dir=tuned train.epochs=1 optimizer.learning_rate=1e-9
equal "started from" "$want" "$(evaluates a.h5 tuned/last.h5)"
checks=$((checks + 1))
[ "$(id tuned/last.h5)" != "$first" ] || fail "another run has the same id"
expect 3 "other classes" ranks 1 c.ini data.path=unknown.h5 data.val_split=0 --init-from run/last.h5 run.output_dir=bad
says 1 'unknown.h5 has classes that run/(last|checkpoints/step-[0-9]+).h5 was not trained on: "robusta"'
says 1 'hint: .*start the output layer afresh: skip = LAYER'
expect 3 "too few classes" ranks 1 c.ini data.path=two.h5 --init-from run/last.h5 run.output_dir=bad
says 1 'two.h5 has no rows of classes that run/(last|checkpoints/step-[0-9]+).h5 was trained on: "setosa"'
# ... unless the output layer starts afresh. Columns are still those of the model, and its mean and std are used.
expect 0 "another head" ranks 1 c.ini data.path=two.h5 --init-from run/last.h5 "init.skip=fc2.*" run.output_dir=head train.epochs=1 \
    optimizer.learning_rate=1e-30
says 1 'warning: fc2.weight starts afresh .init.skip.'
says 1 'warning: fc2.bias starts afresh .init.skip.'
"$bin/charl" checkpoint show run/last.h5 >of_run
"$bin/charl" checkpoint show head/last.h5 >of_head
checks=$((checks + 4))
grep -q 'model/fc2.bias .*\[2\]' of_head || fail "the new head has not two classes"
[ "$(grep -o 'model/fc1.*' of_run)" = "$(grep -o 'model/fc1.*' of_head)" ] || fail "fc1 was not taken over"
[ "$(grep '  mean ' of_run)" = "$(grep '  mean ' of_head)" ] || fail "another mean than that of the model"
grep '^  classes' of_head | grep -q setosa && fail "the new head knows the old classes"
expect 2 "a typing error in init.skip" ranks 1 c.ini --init-from run/last.h5 "init.skip=fc3.*" run.output_dir=bad

# safetensors written by charl say the same.
expect 0 "exported" "$bin/charl" checkpoint export run/last.h5 -o m.safetensors
ranks 1 c.ini data.path=b.h5 data.val_split=0 --init-from m.safetensors run.output_dir=fromst train.epochs=1 optimizer.learning_rate=1e-9 >log 2>&1
equal "started from safetensors" "$want" "$(evaluates a.h5 fromst/last.h5)"
expect 3 "safetensors, other classes" ranks 1 c.ini data.path=two.h5 --init-from m.safetensors run.output_dir=bad
says 1 'two.h5 has no rows of classes that m.safetensors was trained on: "setosa"'

# Format version 1: everything works as it did; one warning says what is missing.
"$make" --version-1 run/last.h5 v1.h5 || exit 1
equal "version 1" "$want" "$(evaluates a.h5 v1.h5)"
cp eval.log log
says 1 'warning: v1.h5 was written by an older charl and does not hold the names'
rm -rf old
mkdir -p old/checkpoints
cp v1.h5 "old/$(readlink run/last.h5)"
expect 0 "version 1 resumed" ranks 1 c.ini train.epochs=9 run.output_dir=old
says 1 'warning: .* was written by an older charl'
equal "version 1 resumed stores what was missing" "$want" "$(evaluates b.h5 old/last.h5)"
expect 0 "version 1 started from" ranks 1 c.ini --init-from v1.h5 run.output_dir=fromv1 train.epochs=1
says 1 'warning: .* was written by an older charl'
expect 0 "version 1 exported" "$bin/charl" checkpoint export v1.h5 -o v1.onnx
expect 0 "version 1 compared" "$bin/charl" checkpoint diff v1.h5 run/last.h5
says 1 'schema: only in the second'
expect 0 "exported without the data" sh -c "mv a.h5 gone.h5; '$bin/charl' checkpoint export run/last.h5 -o v2.onnx; c=\$?; mv gone.h5 a.h5; exit \$c"
finish

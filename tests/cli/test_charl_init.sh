#!/bin/sh
# charl init: a configuration that trains as it is, for a table, images, a text, arrays and a dataset; what it decides, and what it refuses.
. "$(dirname "$0")/charl.sh"

# trains CONFIG: a few steps of it run, with an evaluation
trains() {
    checks=$((checks + 1))
    timeout 600 "$bin/charl-train" -q "$1" train.max_steps=2 eval.interval=2 checkpoint.interval=2 -o run >log 2>&1 ||
        fail "$1 does not train: $(tail -n 3 log)"
    grep -q '"event":"val"' run/metrics.jsonl || fail "$1: no evaluation"
    rm -rf run
}

# has FILE TEXT: a line of it
has() {
    checks=$((checks + 1))
    grep -q -e "$2" "$1" || { fail "$1 has no line \"$2\":"; cat "$1"; }
}

# A table: rows are counted, prices have a gap, and so have towns; there is a text of its own in every row, a constant, and a mark.
awk 'BEGIN { srand(1); print "id,area,town,heating,level,note,country,price"
    for (i = 1; i <= 200; i++) printf "%d,%d,%s,%s,%s,%s,DE,%s\n", i, 40 + i * 7 % 160, i % 20 ? (i % 2 ? "Ulm" : "Kiel") : "",
        i % 3 ? "gas" : "oil", i % 50 ? i % 4 : "attic", "lot " i " of " i * 3, i == 17 ? "" : 1000 + i * 7 % 160 * 11 }' >houses.csv
expect 0 '^houses.ini: mlp, [0-9]* epochs of 9 steps$' init houses.csv
has out '^  next       charl train houses.ini$'
has out '^  columns    area town=Kiel town=Ulm town_missing heating=gas heating=oil level level_missing$'
has err 'the target is column "price", a number$'
has err 'column "id" counts the rows: it is left out$'
has err 'column "note" has too many different texts to be categories: it is left out$'
has err 'column "country" has the same value in every row: it is left out$'
has err 'column "level": "attic" among numbers is taken as a missing value$'
[ "$(head -n 1 houses.ini)" = '# Next: charl train houses.ini' ] || fail "the first comment of houses.ini"
has houses.ini '^# The data: charl data import csv houses.csv --label price --regression --drop id,note,country --na attic --missing flag,price:drop --val-split 0.2 -o houses.h5$'
trains houses.ini
expect 2 'houses.ini exists$' init houses.csv
hint '`charl train houses.ini`; or write another one with -o FILE.ini'
rm houses.ini
expect 2 'houses.h5 exists$' init houses.csv
hint '`charl init houses.h5`'
expect 0 '^houses.ini: mlp' init houses.h5
grep -q 'charl data import' houses.ini && fail "a dataset was imported"
mkdir sub
expect 0 '^sub/h.ini: mlp' init houses.h5 -o sub/h.ini
trains sub/h.ini
# the command in the comment makes the same data
expect 0 'note: the target is column "heating", 2 classes$' init houses.csv --target heating -o heat.ini
command=$(sed -n 's/^# The data: charl //p' heat.ini)
mv heat.h5 first.h5
# shellcheck disable=SC2086
expect 0 'classes    gas oil' $command
cmp -s heat.h5 first.h5 || [ "$("$charl" data info heat.h5 | grep content)" = "$("$charl" data info first.h5 | grep content)" ] ||
    fail "the command of heat.ini makes other data"
expect 0 'the target is column "level", 5 classes' init houses.csv -t level --classes -o level.ini
expect 3 'column "town", has "Ulm", which is not a number$' init houses.csv -t town --regression -o no.ini
expect 3 'column "note", has too many different texts to be classes' init houses.csv -t note -o no.ini
expect 3 'column "country", has the same value in every row$' init houses.csv -t country -o no.ini
expect 2 'no column "prize"' init houses.csv -t prize -o no.ini
# by its name, whatever its place and case; with a byte order mark and CRLF
awk 'BEGIN { printf "\357\273\277Class,a,b\r\n"; for (i = 0; i < 100; i++) printf "%s,%d.5,%d\r\n", i % 2 ? "x" : "y", i % 2 * 10 + i % 3, i % 7 }' >crlf.csv
expect 0 'the target is column "Class", 2 classes$' init crlf.csv

# Names with a meaning for options, configurations and shells: as a column, a word among numbers, a file
awk 'BEGIN { print "n,m,\"a,b\",yes"; for (i = 1; i < 61; i++) printf "%s,%d.5,%s,%s\n", i % 20 ? i * 7 % 11 ".25" : "no", i % 7, i % 9 ? i % 2 : "", i % 2 ? "x" : "y" }' >names.csv
expect 0 'the target is column "yes", 2 classes$' init names.csv -t yes
has names.ini '^# The data: charl data import csv names.csv --label yes --na no --missing flag --val-split 0.2 -o names.h5$'
expect 0 'the target is column "a,b", 2 classes$' init names.csv -t a,b -o comma.ini
has comma.ini ' --label a,b --na no --missing flag,2:drop '
cp names.h5 'a #b;c.h5' && cp names.h5 '"q"\$${x}.h5'
for name in 'a #b;c' '"q"\$${x}'; do
    expect 0 'mlp' init "$name.h5" -o quoted.ini
    trains quoted.ini
    rm quoted.ini
done
cp names.csv ./-q.csv
expect 0 '^  next       charl train q.ini$' init ./-q.csv -t yes
expect 2 '-o twice.h5: the dataset would have that name$' init names.csv -o twice.h5
[ ! -e twice.h5 ] || fail "twice.h5 was written"
awk 'BEGIN { for (i = 0; i < 700; i++) printf "the_same_everywhere_%d,", i; print "n,y"; for (k = 0; k < 60; k++) { for (i = 0; i < 700; i++) printf "1,"; print k * 7 % 11 ".5," k % 2 } }' >wide.csv
expect 0 '^wide.ini: mlp' init wide.csv
has wide.ini '^# The data: imported by `charl init wide.csv`, with more options than a line has room for$'

# A text, by characters
awk 'BEGIN { for (i = 0; i < 400; i++) print "line", i, "of a text that repeats itself" }' >story.txt
expect 0 '^story.ini: gpt, 1000 steps$' init story.txt
has story.ini '^# The data: charl data import text story.txt --tokenizer chars --val-split 0.1 -o story.h5$'
trains story.ini
expect 2 'story.txt is a text: only the target of a table can be chosen$' init story.txt -t x -o no.ini
printf 'hello\n' >short.txt
expect 3 'short' init short.txt
[ ! -e short.h5 ] && [ ! -e short.ini ] || fail "short.txt left files"
mkdir book && cp story.txt book/one.txt && cp story.txt book/two.txt
expect 0 '^book.ini: gpt, 1000 steps$' init book/

# Images in a folder for each class, and arrays
if has_python zlib; then
    /usr/bin/python3 - <<'EOF'
import os, struct, zlib

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

def write(path, side, value):
    rows = b"".join(b"\0" + bytes((value + x * y) % 256 for x in range(side)) for y in range(side))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

for side, folder, n in ((24, "photos", 20), (90, "large", 20), (24, "three", 1)):
    for k, name in enumerate(("day", "night")):
        os.makedirs(f"{folder}/{name}")
        for i in range(n + (n == 1) * k):
            write(f"{folder}/{name}/{i}.png", side, 128 * k + i)
EOF
    expect 0 '^photos.ini: cnn, [0-9]* epochs of 8 steps$' init photos
    has photos.ini '^# The data: charl data import images photos --size 24x24 --channels 1 --val-split 0.2 -o photos.h5$'
    trains photos.ini
    expect 0 'images become 64x64 pixels, gray$' init large
    expect 3 '^charl: error: three: 2 training and 1 validation samples are too few for so many classes$' init three
    [ ! -e three.h5 ] && [ ! -e three.ini ] || fail "three left files"
    expect 3 'photos/day: neither a labels.csv .* nor sub-folders, one for each class$' init photos/day
else
    skipped images "no zlib"
fi
if has_python h5py numpy; then
    /usr/bin/python3 - <<'EOF'
import h5py, numpy as np
x = np.random.default_rng(1).normal(size=(200, 6)).astype("f4")
np.savez("arrays.npz", x=x, y=(x[:, 0] > 0).astype("i4"))
with h5py.File("study.h5", "w") as f:
    f["X"], f["y"] = x, x[:, 1] * 2
with h5py.File("odd.h5", "w") as f:
    f["left"], f["right"] = x, x[:, 1] * 2
EOF
    expect 0 '^arrays.ini: mlp' init arrays.npz
    expect 0 'samples are the array /X, targets the array /y$' init study.h5
    has study.ini '^path = study-charl.h5$'
    expect 3 'odd.h5: which arrays are samples and targets is not known$' init odd.h5
    hint 'it has /left f32 \[200, 6\], /right f32 \[200\]: .* x and y of `charl data import hdf5`$'
else
    skipped arrays "no h5py"
fi

# What it cannot know
printf 'a,b\n1,x\n2,x\n3,x\n' >one.csv
expect 3 'column "b", has the same value in every row$' init one.csv -t b
printf 'a,b\n1,2\n' >row.csv
expect 3 'row.csv: which column is the target is not known$' init row.csv
: >empty.csv
expect 3 'empty.csv is an empty file, not a dataset, a table' init empty.csv
expect 3 'gone.csv: cannot be opened: No such file or directory$' init gone.csv
expect 3 'is a Python program, not a dataset, a table, a folder of images, a text or an archive of arrays$' init "$root/tests/cli/test_rows.py"
expect 3 'is a configuration, not a dataset' init houses.ini -o no.ini
printf 'day,price\n' >dates.csv
awk 'BEGIN { for (i = 0; i < 60; i++) printf "0%d/0%d/2024,%d.5\n", 1 + i % 8, 1 + i % 9, i }' >>dates.csv
expect 3 'dates such as "01/01/2024" do not tell whether the day or the month comes first$' init dates.csv
has err '^  To import the data with other options, change: charl data import csv dates.csv --label price --regression --val-split 0.2 -o dates.h5$'
has err '^  Then: charl init dates.h5$'
tail -n +2 houses.csv >rows.csv # no header
expect 3 'this line may be a header or a row$' init rows.csv
has err '^  To import the data with other options, change: charl data import csv rows.csv --val-split 0.2 -o rows.h5$'
awk 'BEGIN { print "text,label"; for (i = 0; i < 90; i++) printf "what was said %d of %d,%s\n", i, i * 7, i % 2 ? "good" : "bad" }' >said.csv
expect 3 'said.csv: no column but the target tells anything about new rows$' init said.csv
hint '`charl data import text-classes`'
if [ "$(id -u)" -ne 0 ]; then
    cp houses.csv closed.csv && chmod 0 closed.csv
    expect 3 'closed.csv: cannot be opened: Permission denied$' init closed.csv
fi
[ ! -e no.ini ] || fail "no.ini was written"
finish

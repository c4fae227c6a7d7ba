#!/bin/sh
# charl predict on image files: the answers are those for the same samples in the data set, and they are right; pictures of
# other sizes; what cannot be predicted.
. "$(dirname "$0")/charl.sh"

if ! "$charl" devices >out 2>&1; then
    skip "no device"
fi
needs_python h5py numpy

# check WHAT COMMAND...
check() {
    what=$1
    shift
    "$@" >out 2>err || { echo "FAIL: $what"; cat out err; failures=$((failures + 1)); }
}

expect 0 '' data make digits d.h5 --train 3000 --val 70
cat >c.ini <<'INI'
[run]
output_dir = run
[data]
path = d.h5
[model]
type = cnn
channels = 8, 16
hidden = 32
[train]
epochs = 4
batch_size = 50
[optimizer]
learning_rate = 4e-3
INI
"$bin/charl-train" c.ini --progress=none >out 2>&1 || { cat out; exit 1; }
ck=run/last.h5

# The validation samples as they are; twice as large in colour; and wide, with the sample in the middle.
cat >draw.py <<'PY'
import h5py, numpy, os, struct, zlib
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
def png(path, pixels):
    h, w = pixels.shape[:2]
    rows = b"".join(b"\0" + pixels[y].tobytes() for y in range(h))
    head = struct.pack(">IIBBBBB", w, h, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
for folder in ("same", "large", "wide"):
    os.mkdir(folder)
with h5py.File("d.h5") as d:
    for i, x in enumerate(d["val/x"][:]):
        name = "%03d.png" % i
        png("same/" + name, x[0])
        png("large/" + name, numpy.ascontiguousarray(numpy.repeat(x[0].repeat(2, 0).repeat(2, 1)[:, :, None], 3, 2)))
        png("wide/" + name, numpy.pad(x[0], ((0, 0), (20, 20))))
PY
check "pictures" /usr/bin/python3 draw.py

expect 0 'rows=70 accuracy=' predict $ck -o val.csv
expect 0 '^charl: images step=240 rows=70 file=same.csv' predict $ck same -o same.csv
expect 0 'rows=70' predict $ck wide -o wide.csv
expect 0 'rows=70' predict $ck large -o large.csv
expect 0 'rows=72' predict $ck same/009.png "same/001.png" same --format jsonl --all -o some.jsonl
expect 0 'rows=70 file=same.h5' predict $ck same -o same.h5
cat >compare.py <<'PY'
import csv, h5py, json
val, same, wide, large = (list(csv.DictReader(open(n + ".csv"))) for n in ("val", "same", "wide", "large"))
some = [json.loads(line) for line in open("some.jsonl")]
assert list(same[0]) == ["file", "predicted", "probability"], same[0]
assert [r["file"] for r in same] == ["same/%03d.png" % i for i in range(70)]
for v, s, w in zip(val, same, wide):
    assert (v["predicted"], v["probability"]) == (s["predicted"], s["probability"]), (v, s)
    assert (v["predicted"], v["probability"]) == (w["predicted"], w["probability"]), (v, w)
assert sum(v["label"] == s["predicted"] for v, s in zip(val, same)) >= 58, "not learned"
assert sum(v["label"] == r["predicted"] for v, r in zip(val, large)) >= 52, "not known at another size"
assert list(some[0]) == ["file", "predicted", "probability", "probabilities"], some[0]
assert [s["file"] for s in some[:3]] == ["same/009.png", "same/001.png", "same/000.png"]
assert some[1]["predicted"] == int(same[1]["predicted"]) and len(some[1]["probabilities"]) == 10
with h5py.File("same.h5") as f:
    assert sorted(f) == ["file", "output", "predicted"], list(f)
    assert [n.decode() for n in f["file"]] == [r["file"] for r in same]
    assert [int(r["predicted"]) for r in same] == list(f["predicted"])
PY
check "the same answers, and right ones" /usr/bin/python3 compare.py

# Folders in folders, in any depth; the data set is not needed.
mkdir -p deep/a/b deep/c
cp same/000.png deep
cp same/001.png deep/c
cp same/002.png same/003.png deep/a/b
mv d.h5 hidden.h5
expect 0 'rows=4' predict $ck deep -o deep.csv
mv hidden.h5 d.h5
printf '%s\n' deep/000.png deep/a/b/002.png deep/a/b/003.png deep/c/001.png >want
sed 1d deep.csv | cut -d, -f1 >got
check "a tree of folders" cmp want got
ln -s .. deep/c/up
expect 3 'more than 64 folders deep' predict $ck deep -o no.csv
expect 2 'same/000.png and d.h5: several files are predicted at once only where all are images or texts' predict $ck same/000.png d.h5
expect 0 'same/000.png,[0-9],' predict $ck same/000.png train.batch_size=7
expect 3 'nowhere.png: cannot be opened' predict $ck nowhere.png -o no.csv
mkdir empty
expect 3 'empty: there are no .png, .jpg or .jpeg files' predict $ck empty -o no.csv
head -c 100 same/000.png >cut.png
expect 3 'images: none can be read' predict $ck cut.png -o no.csv
check "a failure leaves no file" sh -c '! ls | grep -e "^no\." -e tmp'
# What cannot be read is named, the others are predicted.
mkdir album
cp same/001.png same/003.png album
cp cut.png album/002.png
cp same/002.png album/004.jfif
printf 'GIF89a\001\000' >album/005.gif
for out in album.csv album.h5; do
    expect 3 '2 of 5 images could not be read and have no prediction' predict $ck album -o $out
    grep -q '^charl: warning: album/002.png: damaged or truncated PNG file' err && grep -q 'album/005.gif is an image that is neither' err &&
        grep -q '^  hint: convert it: `convert album/005.gif 005.png` (ImageMagick)$' err && grep -q "rows=3 file=$out" err || { echo "a picture that cannot be read is not named"; cat err; failures=$((failures + 1)); }
done
expect 3 'album/005.gif is an image that is neither PNG nor JPEG, not a PNG or JPEG file' predict $ck album/005.gif
mkdir runs && cp -r run runs/one
expect 5 'runs is a folder of run directories, not a checkpoint' predict runs album/001.png
hint 'compare all: `charl report runs/'
expect 3 'runs is a folder of run directories, not a run directory' report runs
check "the others" sh -c "cut -d, -f1,2 album.csv | tr '\n' ' ' | grep '^file,predicted album/001.png,[0-9] album/003.png,[0-9] album/004.jfif,[0-9] $'"
expect 2 'split val: only data sets have splits; same is not a data set' predict $ck same --split val
expect 0 '' data make regression r.h5 --train 160 --val 20
sed -e "s/d.h5/r.h5/" -e "s/= run/= rrun/" -e "s/= cnn/= mlp/" -e "/^batch_size/a loss = mse" c.ini >r.ini
"$bin/charl-train" r.ini --progress=none >out 2>&1 || { cat out; exit 1; }
expect 3 'takes samples of f32 .8., but images are u8' predict rrun/last.h5 same -o no.csv
finish

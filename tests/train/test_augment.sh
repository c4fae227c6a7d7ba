#!/bin/sh
# data.augment: the same bits for any number of ranks, any place of the data and after stopping in the middle of an epoch;
# images change in training only; what does not fit the data is refused.
rows=80
. "$(dirname "$0")/common.sh"

all="data.augment=flip,crop:3,rotate:12,cutout:6,resized_crop:0.3,erase:0.5,mixup:0.4,cutmix:1,contrast:0.4,randaugment:2,magnitude:12"
steps="train.batch_size=12 train.slices=4 train.max_steps=9" # an epoch has 6 2/3 steps

expect 0 "augmented" ranks 1 cnn.ini -q -o one "$all" $steps
expect 0 "augmented on 2 ranks" ranks 2 cnn.ini -q -o more "$all" $steps
same "augmented on 2 ranks" one more
rm -rf more
expect 0 "augmented, streamed on 3 ranks" ranks 3 cnn.ini -q -o more "$all" $steps data.cache=none
same "augmented, streamed on 3 ranks" one more
rm -rf more
expect 0 "augmented, streamed" ranks 1 cnn.ini -q -o more "$all" $steps data.cache=none
same "augmented, streamed" one more
rm -rf more

export CHARL_FAULT=train.stop:4
expect 75 "stopped in an epoch" ranks 2 cnn.ini -q -o more "$all" $steps
unset CHARL_FAULT
expect 0 "resumed" ranks 3 cnn.ini -q -o more "$all" $steps data.cache=none
same "stopped in an epoch" one more

# Every change changes something, and mixed targets work with numbers as with classes.
expect 0 "plain" ranks 1 mlp.ini -q -o plain train.max_steps=1 eval.interval=0
for change in flip crop:1 rotate:5 cutout:2 mixup:1 cutmix:1 resized_crop:0.2 erase:1 brightness:0.5 randaugment:2; do
    expect 0 "$change" ranks 1 mlp.ini -q -o changed "data.augment=$change" train.max_steps=1 eval.interval=0
    losses plain >a.csv
    losses changed >b.csv
    checks=$((checks + 1))
    cmp -s a.csv b.csv && fail "$change changes nothing"
    rm -rf changed
done
"$bin/charl" data make regression table.h5 -t 300 -v 50 >log || fail "no table"
for n in 1 3; do
    expect 0 "mixed targets on $n ranks" ranks $n mlp.ini -q -o table-$n data.path=table.h5 train.loss=mse \
        data.augment=mixup:0.3 $steps
done
same "mixed targets" table-1 table-3

# charl data preview shows what the training reads: the step of a linear model, computed from the pixels of the sheet, is that of 2 ranks.
if has_python h5py; then
    cat >line.ini <<'INI'
[run]
seed = 3
[data]
path = digits.h5
augment = flip, crop:3
[layer flat]
type = flatten
[layer fc]
type = linear
out = 10
[train]
batch_size = 12
slices = 4
max_steps = 2
[optimizer]
type = sgd
momentum = 0
weight_decay = 0
learning_rate = 0.5
[eval]
interval = 0
[checkpoint]
interval = 1
[device]
share = yes
INI
    expect 0 "a linear model on 2 ranks" ranks 2 line.ini -q -o line
    expect 0 "its second step" "$bin/charl" data preview line.ini --step 2 --rows 12 -o sheet.png
    says 1 "^# step 2: the first 12 of 12 samples of .*digits.h5, drawn in sheet.png"
    cat >line.py <<'PY'
import struct, zlib
import h5py, numpy as np
data = open("sheet.png", "rb").read()
at, pixels = 8, b""
while at < len(data):
    n, kind = struct.unpack(">I4s", data[at:at + 8])
    if kind == b"IHDR":
        w, h, depth, color = struct.unpack(">IIBB", data[at + 8:at + 18])
    pixels += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
    at += n + 12
assert (w, h, depth, color) == (4 * 28, 3 * 28, 8, 0), (w, h, depth, color)
raw, sheet = zlib.decompress(pixels), np.zeros((h + 1, w + 1), int)
for y in range(h):
    how, line = raw[y * (w + 1)], raw[y * (w + 1) + 1:(y + 1) * (w + 1)]
    for x in range(w):
        a, b, c = sheet[y + 1, x], sheet[y, x + 1], sheet[y, x]
        p = a + b - c
        paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        sheet[y + 1, x + 1] = (line[x] + [0, a, b, (a + b) // 2, paeth][how]) % 256
sheet = sheet[1:, 1:]
table = [l.split() for l in open("log") if l[:5].strip().isdigit()]
assert len(table) == 12, table
d = h5py.File("digits.h5")
rows, labels = [int(t[2]) for t in table], np.array([int(t[3]) for t in table])
assert (d["train/y"][:][rows] == labels).all()
image = np.array([sheet[(int(t[0]) - 1) * 28:int(t[0]) * 28, (int(t[1]) - 1) * 28:int(t[1]) * 28] for t in table])
stored = d["train/x"][:].reshape(-1, 28, 28)[rows]
assert (image != stored).any(axis=(1, 2)).sum() > 6, "nothing is augmented"
def weights(step):
    f = h5py.File("line/checkpoints/step-%08d.h5" % step)
    return f["model/fc.weight"][:].astype(float), f["model/fc.bias"][:].astype(float)
stats = d["train/x"].attrs, d.attrs
mean, std = [next(float(np.ravel(s[k])[0]) for s in stats if k in s) for k in ("mean", "std")]
x = ((image - mean) / std).reshape(12, -1)
(w1, b1), (w2, b2) = weights(1), weights(2)
z = x @ w1.T + b1 if w1.shape[0] == 10 else x @ w1 + b1
p = np.exp(z - z.max(1, keepdims=True))
g = p / p.sum(1, keepdims=True)
g[range(12), labels] -= 1
g /= 12
dw = g.T @ x if w1.shape[0] == 10 else x.T @ g
assert np.abs(w2 - (w1 - 0.5 * dw)).max() < 1e-5 and np.abs(dw).max() > 1e-3, np.abs(w2 - (w1 - 0.5 * dw)).max()
assert np.abs(b2 - (b1 - 0.5 * g.sum(0))).max() < 1e-5
PY
    checks=$((checks + 1))
    /usr/bin/python3 line.py || fail "the preview is not what the training reads"
    cp sheet.png once.png
    expect 0 "once more" "$bin/charl" data preview line.ini --step 2 --rows 12 -o sheet.png
    checks=$((checks + 1))
    cmp once.png sheet.png || fail "the preview has other pixels"
fi
expect 0 "the first rows of a table" "$bin/charl" data preview mlp.ini data.path=table.h5 -n 2
says 1 "^# step 1: the first 2 of 16 samples of .*table.h5$"
says 1 "^ +1 +[0-9]+ +[-0-9.]+ +[|] ([-0-9.]+ ){6}[.][.][.]$"
expect 0 "a mixed sample" "$bin/charl" data preview mlp.ini -n 2 data.augment=mixup:1
says 1 "row      partner    share  target"
expect 2 "a picture of a table" "$bin/charl" data preview mlp.ini data.path=table.h5 -o sheet.png
says 1 "error: sheet.png: .*table.h5 holds no images [(]regression[)]"
expect 2 "a picture in a data set" "$bin/charl" data preview mlp.ini -o digits.h5
says 1 "error: digits.h5: samples are drawn in a PNG file"
make_text
expect 0 "texts" "$bin/charl" data preview mlp.ini data.path=text.h5 model.type=gpt model.block_size=12 -n 3
says 3 '^ +[0-2] +[0-9]+  "[0-9n\\]*"$'
printf 'text,label\n"good film",pos\n"a very bad film indeed",bad\n' >films.csv
"$bin/charl" data import text-classes films.csv -o films.h5 >/dev/null || fail "no films"
printf '[data]\npath = films.h5\n[layer e]\ntype = embedding\nvocab = 300\ndim = 8\n[layer m]\ntype = mean\n[train]\nbatch_size = 2\n' >films.ini
expect 0 "texts with classes" "$bin/charl" data preview films.ini
says 1 '^ +[01] +0  1 pos  "good film"$'
says 1 '^ +[01] +1  0 bad  "a very bad film indeed"$'

# A batch to be learned by heart stays as it is: it can be learned.
expect 0 "by heart" ranks 1 mlp.ini --overfit-batch train.max_steps=60 eval.interval=0 train.batch_size=16 model.dropout=0 \
    optimizer.learning_rate=0.02 "data.augment=cutout:28, crop:20"
loss=$(sed -n 's/.*train step=60\/60 .*loss=\([^ ]*\).*/\1/p' log)
checks=$((checks + 1))
awk "BEGIN { exit !(${loss:-9} < 0.1) }" || fail "a batch learned by heart has loss ${loss:-?}"

# The model sees the middle of larger images: the same as of data that were cropped before, in training, evaluation and prediction.
if has_python h5py; then
    cat >crop.py <<'PY'
import h5py
with h5py.File("digits.h5") as d, h5py.File("middle.h5", "w") as o:
    for name in "train/x", "train/y", "val/x", "val/y":
        o[name] = d[name][:, :, 4:24, 4:24] if name.endswith("x") else d[name][:]
    o.attrs.update({k: v for k, v in d.attrs.items() if not k.startswith("sha256")})
PY
    /usr/bin/python3 crop.py || fail "no cropped data"
    small="data.normalize=80/90 train.max_steps=4 eval.interval=2"
    expect 0 "the middle" ranks 3 cnn.ini -q -o seen data.image_size=20 $small
    expect 0 "cropped before" ranks 1 cnn.ini -q -o cropped data.path=middle.h5 $small
    losses seen >a.csv
    losses cropped >b.csv
    checks=$((checks + 1))
    cmp a.csv b.csv || fail "the middle of an image: other losses"
    expect 0 "predictions for images" "$bin/charl" predict seen/last.h5 digits.h5 --split val -o seen.csv
    expect 0 "predictions for their middles" "$bin/charl" predict cropped/last.h5 middle.h5 --split val -o cropped.csv
    checks=$((checks + 1))
    cmp -s seen.csv cropped.csv || fail "charl predict sees something else"
    expect 2 "whole images in an evaluation" "$bin/charl" eval cnn.ini seen/last.h5
    says 1 "seen/last.h5 was trained with data.image_size = 20, and here it is auto: the images of .*digits.h5 are 28 x 28"
    expect 0 "an evaluation of their middles" "$bin/charl" eval cnn.ini seen/last.h5 data.image_size=20
    expect 0 "boxes of another size" ranks 1 cnn.ini -q -o r1 data.image_size=20 data.augment=resized_crop:0.2,erase:1,cutmix:1 $small
    expect 0 "boxes of another size, 3 ranks" ranks 3 cnn.ini -q -o r3 data.image_size=20 data.augment=resized_crop:0.2,erase:1,cutmix:1 $small
    same "boxes of another size" r1 r3
    expect 0 "the model" "$bin/charl" model show cnn.ini data.image_size=20
    says 1 "1 x 20 x 20|1, 20, 20|1x20x20"
else
    skipped "data.image_size" "python3 has no h5py"
fi
expect 2 "too small" ranks 1 mlp.ini -q -o x data.image_size=29
says 1 "data.image_size = 29: the samples of .*digits.h5 are .1, 28, 28.; they must be images of at least that size"
expect 2 "images only" ranks 1 mlp.ini -q -o x data.path=table.h5 train.loss=mse data.augment=flip
says 1 "all but mixup change images .channels, height, width.; the samples of .*table.h5 are .8."
expect 2 "out of sight" ranks 1 mlp.ini -q -o x data.augment=crop:28
says 1 "crop:28 shifts images of 28 x 28 out of sight"
finish

#!/bin/sh
# What counts in the loss: labels of -1 and -100, weights of samples, classes and tokens. The same bits for any number of ranks, any
# place of the data and any number of passes, also where the parts of a batch count unevenly, and after stopping; what is refused.
. "$(dirname "$0")/common.sh"

needs_python h5py numpy
make_gpt
cat >>gpt.ini <<'INI'
[train]
max_steps = 6
batch_size = 24
slices = 8
[log]
interval = 1
[eval]
interval = 3
[device]
share = yes
INI
cat >change.py <<'PY'
"""change.py FROM TO WHAT: a data set with other labels or weights. The random part depends on nothing but its size."""
import shutil
import sys

import h5py
import numpy as np

shutil.copy(sys.argv[1], sys.argv[2])
draw = np.random.default_rng(3)
with h5py.File(sys.argv[2], "r+") as f:
    del f["crc"]
    for split in ("train", "val"):
        node = f[split]
        n = len(node["y"] if "y" in node else node["tokens"])
        if sys.argv[3] == "labels":
            y = node["y"][...].astype("i4")
            y[draw.random(n) < 0.4] = -1
            y[draw.random(n) < 0.2] = -100
            y[:50] = -1  # the first slices of the first step count nothing
            del node["y"]
            node["y"] = y
            node["weights"] = draw.random(n).astype("f4")
        elif sys.argv[3] == "none":
            del node["y"]
            node["y"] = np.full(n, -1, "i4")
        elif sys.argv[3] == "bad":
            node["weights"] = np.full(n, -1, "f4")
        elif sys.argv[3] == "masks":
            w = (draw.random(n) < 0.3).astype("u1")
            w[n // 4: n // 2] = 0
            node["weights"] = w
        else:
            node["weights"] = draw.random(n).astype("f4")
PY
change() {
    /usr/bin/python3 change.py "$1" "$2" "$3" || { echo "cannot change $1"; exit 1; }
}
change digits.h5 labels.h5 labels
change text.h5 masks.h5 masks
change text.h5 weights.h5 weights
change digits.h5 drawn.h5 weights

# compared NAME MODEL SETTINGS...: the same bits however a run is divided
compared() {
    _what=$1 _ini=$2
    shift 2
    rm -rf one v
    expect 0 "$_what" ranks 1 "$_ini" -q -o one "$@"
    expect 0 "$_what, streamed in passes" ranks 1 "$_ini" -q -o v "$@" data.cache=none train.grad_accum_steps=3
    same "$_what, streamed in passes" one v
    rm -rf v
    expect 0 "$_what, 4 ranks" ranks 1 "$_ini" -q -o v --simulate-ranks 4 "$@" train.grad_accum_steps=2
    same "$_what, 4 ranks" one v
    rm -rf v
    export CHARL_FAULT="train.stop:3"
    expect 75 "$_what, stopped" ranks 2 "$_ini" -q -o v "$@"
    unset CHARL_FAULT
    expect 0 "$_what, resumed" ranks 3 "$_ini" -q -o v "$@" data.cache=none
    same "$_what, resumed" one v
}
compared "labels" mlp.ini data.path=labels.h5 data.shuffle=no
compared "classes" mlp.ini data.path=labels.h5 train.class_weights=balanced
compared "samples drawn by weight" mlp.ini data.path=labels.h5 data.sampling=weighted
expect 0 "mixed samples drawn by weight" ranks 1 mlp.ini -q -o mixed data.path=drawn.h5 data.sampling=weighted data.augment=mixup:0.2 train.max_steps=2
compared "masked tokens" gpt.ini data.path=masks.h5
compared "weighted tokens" gpt.ini data.path=weights.h5

# What a weight of 0 has, changes nothing: other labels there, the same bits.
expect 0 "one class does not count" ranks 1 mlp.ini -q -o a train.class_weights="1,1,1,1,0,1,1,1,1,1"
/usr/bin/python3 - <<'PY'
import h5py, shutil
shutil.copy("digits.h5", "less.h5")
with h5py.File("less.h5", "r+") as f:
    del f["crc"]
    for s in ("train",):
        y = f[s]["y"][...].astype("i4")
        y[y == 4] = -100
        del f[s]["y"]
        f[s]["y"] = y
    y = f["val"]["y"][...].astype("i4")
    del f["val"]["y"]
    f["val"]["y"] = y
PY
expect 0 "its labels are left out" ranks 1 mlp.ini -q -o b data.path=less.h5
checks=$((checks + 1))
"$bin/charl" checkpoint diff a/last.h5 b/last.h5 | grep -E '^(model|optim)' && fail "a class of weight 0 differs from labels left out"

# A step in which nothing counts: no loss and no gradient, and training goes on.
expect 0 "an empty step" ranks 2 mlp.ini -q -o e data.path=labels.h5 data.shuffle=no train.batch_size=32 train.max_steps=1
checks=$((checks + 1))
grep -q '"event":"train","step":1,.*"loss":0,.*"grad_norm":0,' e/metrics.jsonl || { fail "an empty step"; cat e/metrics.jsonl; }

change digits.h5 none.h5 none
change digits.h5 bad.h5 bad
expect 3 "nothing counts" ranks 1 mlp.ini -o r data.path=none.h5
says 1 "none.h5: no label of the split train counts: all are -1 or -100"
expect 3 "a negative weight" ranks 1 mlp.ini -o r data.path=bad.h5
says 1 "bad.h5: /train/weights: -1 in row 0 is not a weight"
expect 2 "mixup" ranks 1 mlp.ini -o r data.path=labels.h5 data.augment=mixup:0.2
says 1 "mixup and cutmix do not mix targets with weights, as .*labels.h5 has them"
expect 2 "too few class weights" ranks 1 mlp.ini -o r train.class_weights=1,2
says 1 "train.class_weights has 2 weights, but .*digits.h5 has 10 classes"
expect 2 "no class weight" ranks 1 mlp.ini -o r train.class_weights=even
says 1 'train.class_weights: "even" is not a weight'
expect 2 "class weights of tokens" ranks 1 gpt.ini -o r train.class_weights=balanced
says 1 "train.class_weights weighs classes for cross_entropy or focal; .*text.h5 holds tokens"
finish

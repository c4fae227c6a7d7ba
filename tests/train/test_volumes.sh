#!/bin/sh
# The U-Net of docs/models/unet.md, with 3d for 2d, learns to mark balls in noisy volumes, with the same bits for any number of ranks,
# with recomputed activations, and after a stop. A model of two layers learns three classes of voxels.
. "$(dirname "$0")/common.sh"
needs_python h5py numpy
/usr/bin/python3 - <<'PY'
import h5py, numpy as np
rng, n = np.random.default_rng(0), 80
grid = np.stack(np.mgrid[:8, :16, :16])[None]
centre, radius = rng.uniform(4, 12, (n, 3, 1, 1, 1)) * np.array([0.5, 1, 1])[:, None, None, None], rng.uniform(2, 5, (n, 1, 1, 1))
masks = ((grid - centre) ** 2).sum(1) < radius ** 2
noisy = np.clip(90 * masks + rng.normal(80, 40, masks.shape), 0, 255)
with h5py.File("volumes.h5", "w") as f:
    f.attrs["charl_format"], f.attrs["charl_version"], f.attrs["kind"] = np.bytes_("dataset"), 1, np.bytes_("images")
    for split, at in (("train", slice(64)), ("val", slice(64, n))):
        f[f"{split}/x"], f[f"{split}/y"] = noisy[at, None].astype("u1"), masks[at].reshape(-1, 8 * 16 * 16).astype("f4")
classes = 1 * masks + (((grid - centre) ** 2).sum(1) < 0.4 * radius ** 2)
with h5py.File("classes.h5", "w") as f:
    f.attrs["charl_format"], f.attrs["charl_version"], f.attrs["kind"] = np.bytes_("dataset"), 1, np.bytes_("images")
    for split, at in (("train", slice(64)), ("val", slice(64, n))):
        f[f"{split}/x"] = (80 + 60 * classes + rng.normal(0, 25, classes.shape))[at, None].clip(0, 255).astype("u1")
        f[f"{split}/y"] = classes[at].astype("u1")
PY
sed -n '/^```ini$/,/^```$/p' "$here/../../docs/models/unet.md" | grep -v '^```' |
    sed -e 's/2d$/3d/' -e 's/masks.h5/volumes.h5/' -e 's/= 16$/= 4/' -e 's/= 32$/= 6/' -e 's/= 64$/= 8/' -e 's/= 128$/= 10/' >unet.ini
set -- unet.ini -q train.loss=dice train.batch_size=8 train.slices=4 train.epochs=4 optimizer.learning_rate=0.02 \
    eval.metrics=auto,iou,dice checkpoint.monitor=val/iou device.share=yes
expect 0 "volumes on 1 rank" ranks 1 "$@" -o one
expect 0 "its evaluation" "$bin/charl" eval unet.ini one/best.h5 train.loss=dice --report=json
checks=$((checks + 1))
/usr/bin/python3 - <<'PY' || fail "the masks are not learnt: $(cat "$T/log")"
import json
report = json.load(open("log"))
assert report["iou"] > 0.8 and abs(report["dice"] - 2 * report["iou"] / (1 + report["iou"])) < 1e-6, report["iou"]
assert len(report["labels"]) == 1 and report["labels"][0]["iou"] == report["iou"], report["labels"]
PY
expect 0 "volumes on 3 ranks" ranks 3 "$@" -o three
same "volumes on 3 ranks" one three
expect 0 "volumes, activations recomputed" ranks 1 "$@" -o again train.recompute=cheap
same "volumes, activations recomputed" one again
export CHARL_FAULT="train.stop:9"
expect 75 "volumes, stopped" ranks 2 "$@" -o two
unset CHARL_FAULT
expect 0 "volumes, resumed" ranks 1 "$@" -o two
same "volumes, resumed" one two

cat >classes.ini <<'INI'
[data]
path = classes.h5
[model]
type = sequential
[layer conv]
type = conv3d
channels = 6
kernel = 3
[layer norm]
type = batch_norm
activation = relu
[layer out]
type = conv3d
channels = 3
kernel = 1
[train]
batch_size = 8
slices = 4
epochs = 8
[optimizer]
learning_rate = 0.05
[eval]
interval = 8ep
metrics = auto, iou
[device]
share = yes
INI
expect 0 "classes on 1 rank" ranks 1 classes.ini -q -o classes
expect 0 "classes on 3 ranks" ranks 3 classes.ini -q -o classes3
same "classes on 3 ranks" classes classes3
for loss in focal dice; do
    expect 0 "classes by $loss" ranks 2 classes.ini -q -o $loss train.loss=$loss train.epochs=1
done
expect 0 "their evaluation" "$bin/charl" eval classes.ini classes/best.h5 --report=json
checks=$((checks + 1))
/usr/bin/python3 - <<'PY' || fail "the classes are not learnt: $(cat "$T/log")"
import json
report = json.loads(open("log").read().splitlines()[-1])
each, pairs = [c["iou"] for c in report["classes"]], report["confusion"]
assert report["iou"] > 0.6 and abs(sum(each) / 3 - report["iou"]) < 1e-6 and len(each) == 3, report
assert sum(map(sum, pairs)) == 16 * 8 * 16 * 16, report
assert abs(sum(r[i] for i, r in enumerate(pairs)) / sum(map(sum, pairs)) - report["accuracy"]) < 1e-6, report
PY
expect 0 "classes, predicted" "$bin/charl" predict classes/best.h5 -o classes.out.h5
checks=$((checks + 1))
/usr/bin/python3 - <<'PY' || fail "the predictions of voxels"
import h5py, numpy as np
with h5py.File("classes.out.h5") as f:
    p = f["output"][:].reshape(16, 3, -1)
    assert np.allclose(p.sum(1), 1, atol=1e-5) and (p.argmax(1) == f["predicted"][:]).all() and f["label"].shape == (16, 2048)
PY
expect 2 "too few channels" ranks 1 classes.ini -q -o none layer.out.channels=2
says 1 'does not fit the targets .*channels = 3'
/usr/bin/python3 - <<'PY'
import h5py
with h5py.File("volumes.h5") as f, h5py.File("void.h5", "w") as v:
    v["x"], y = f["train/x"][:8], f["train/y"][:8]
    y[5, 77] = -1
    v["y"], v["labels"] = y, (255 * (y > 0)).reshape(8, 8, 16, 16).astype("u1")
PY
expect 3 "a mask of floats with -1" ranks 2 unet.ini -q -o none data.path=void.h5 data.x=/x data.y=/y train.batch_size=8
says 1 '/y: row 5 holds -1 .element 77., but targets of this loss'
expect 2 "a mask of 0 and 255" ranks 1 classes.ini -q -o none data.path=void.h5 data.x=/x data.y=/labels
says 1 'channels = 256; or, if these are masks of 0 and 255, make them 0 and 1'
finish

#!/bin/sh
# The U-Net of docs/models/unet.md, with 3d for 2d, learns to mark balls in noisy volumes, with the same bits for any number of ranks,
# with recomputed activations, and after a stop.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
/usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null || { echo "skipped: no h5py"; exit 77; }
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
finish

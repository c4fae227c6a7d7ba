#!/bin/sh
# Pictures that stay in their files: the bits of the same pictures in a data set, on any number of ranks and after stopping; files that
# have changed end the run.
. "$(dirname "$0")/common.sh"

# 48 pictures of 20 x 12 pixels in two classes, written without a library.
/usr/bin/python3 - <<'PY'
import os, random, struct, zlib
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
for i in range(48):
    draw = random.Random(i)
    os.makedirs("set/%d" % (i % 2), exist_ok=True)
    rows = b"".join(b"\0" + bytes(draw.randrange(i % 2 * 60, 256) for _ in range(60)) for _ in range(12))
    with open("set/%d/%d.png" % (i % 2, i), "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 20, 12, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
PY
if ! "$bin/charl" data import images set --size 12 --val-split 0.25 -o set.h5 >log 2>&1; then
    grep -q 'without PNG' log || { cat log; exit 1; }
    skip "charl was built without PNG"
fi
options="data.path=set.h5 train.batch_size=8 data.image_size=8 data.augment=flip,resized_crop:0.3,cutmix:1"
expect 0 "stored" ranks 1 cnn.ini -q -o stored $options
expect 0 "linked" "$bin/charl" data import images set --size 12 --val-split 0.25 --link --overwrite -o set.h5
expect 0 "linked on 3 ranks" ranks 3 cnn.ini -q -o linked $options data.cache=none
same "linked on 3 ranks" stored linked
expect 0 "on the device" ranks 1 cnn.ini -q -o device $options data.cache=device
same "on the device" stored device
export CHARL_FAULT=train.stop:5
expect 75 "stopped" ranks 2 cnn.ini -q -o resumed $options data.cache=none
unset CHARL_FAULT
expect 0 "resumed" ranks 1 cnn.ini -q -o resumed $options data.cache=none data.threads=1
same "resumed" stored resumed

cp set/0/2.png set/0/0.png
expect 3 "a changed file" ranks 1 cnn.ini -q -o changed $options data.cache=none
says 1 'set/0/0.png no longer gives the pixels that were imported'
finish

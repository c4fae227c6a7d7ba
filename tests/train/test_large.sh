#!/bin/sh
# 20 GB of images in chunks train in 1 GB of memory, shuffled in blocks: no process gets more than that, the images are learnt, and the bits are
# those of two ranks and of a run that was stopped. Half of the images lie in a sparse file, half in gzip: 75 MB of disk. If it failed, a
# set larger than memory could not be trained on. CHARL_TEST_LONG=1: a whole epoch.
. "$(dirname "$0")/common.sh"

needs_python h5py numpy
"$bin/charl" devices | grep -q '^[0-9]*  .*, cpu$' || skip "no OpenCL device is a CPU"
/usr/bin/python3 - <<'PY' || exit 1
import zlib
import h5py
import numpy as np
chunks, rows, side = 4770, 512, 64
draw = np.random.default_rng(0)
bars = np.zeros((10, 1, side, side), "u1")  # class 0 is black, as what was never written to a sparse file
for c in range(1, 10):
    bars[c, :, :, 6 * c:6 * c + 6] = 220
kinds = [np.repeat(draw.permutation(10), 52)[:rows] for _ in range(8)]
packed = [zlib.compress(bars[y].tobytes()) for y in kinds]
at_once = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
at_once.set_chunk((rows, 1, side, side))
at_once.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
at_once.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
for part in range(2):
    labels, shape = np.zeros((chunks, rows), "u1"), (chunks * rows, 1, side, side)
    with h5py.File(f"part-{part}.h5", "w") as f:
        if part == 0:
            x = h5py.Dataset(h5py.h5d.create(f.id, b"images", h5py.h5t.STD_U8LE, h5py.h5s.create_simple(shape), at_once))
            for i in range(0, chunks, 240):
                labels[i] = kinds[i % 7]
                x[i * rows:(i + 1) * rows] = bars[labels[i]]
        else:
            x = f.create_dataset("images", shape, "u1", chunks=(rows, 1, side, side), compression="gzip")
            for i in range(chunks):
                labels[i] = kinds[i % 8]
                x.id.write_direct_chunk((i * rows, 0, 0, 0), packed[i % 8])
        f["labels"] = labels.reshape(-1)
        assert x.nbytes > 10e9
PY
cat >large.ini <<'INI'
[data]
path = part-*.h5
x = /images
y = /labels
val_split = 0.0005
shuffle = blocks
cache = none
[model]
type = mlp
hidden = 16
[train]
batch_size = 64
slices = 4
max_steps = 40
[optimizer]
learning_rate = 1e-2
[eval]
interval = 40
[log]
interval = 20
[device]
select = cpu
INI

# peak COMMAND...: the largest resident memory that a process of COMMAND had, in bytes, goes to the file peak
cat >peak.py <<'PY'
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
open("peak", "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
sys.exit(code)
PY
# learns RUN SETTINGS...: in less than 1 GB, and the validation images are told apart, more than half of which are black
learns() {
    _run=$1
    shift
    expect 0 "$_run" /usr/bin/python3 peak.py timeout 1500 "$bin/charl-train" large.ini -q -o "$_run" "$@"
    accuracy=$(sed -n 's/.*"event":"val".*"accuracy":\([^,}]*\).*/\1/p' "$_run/metrics.jsonl" | tail -n 1)
    echo "$_run: $(cat peak) bytes of memory, accuracy $accuracy"
    checks=$((checks + 2))
    [ "$(cat peak)" -lt 1000000000 ] || fail "$_run: $(cat peak) bytes of memory"
    awk -v got="$accuracy" 'BEGIN { exit !(got > 0.95) }' || fail "$_run: accuracy $accuracy"
}
export POCL_MAX_PTHREAD_COUNT=2 POCL_CPU_MAX_CU_COUNT=2 # threads have stacks of 8 MiB
ulimit -d 976562 || skip "memory cannot be limited"
learns steps
resumes "20 GB" steps 30 large.ini -q
if [ -n "$long" ]; then
    unset CHARL_NO_OPTIMIZER
    learns epoch train.batch_size=2048 train.max_steps=-1 train.epochs=1 eval.interval=1ep
else
    skipped "a whole epoch" "CHARL_TEST_LONG is not set"
fi
finish

#!/bin/sh
# Steps whose gradient norm is a spike: noticed and named, taken, left out or the end, on all ranks alike and with the same
# bits after resuming, which needs the norms of the steps before.
. "$(dirname "$0")/common.sh"
needs_python h5py numpy

# In step 4 of each epoch of 4 half of the samples are 100 times as large as the others.
/usr/bin/python3 -c "
import h5py, numpy as np
with h5py.File('digits.h5') as f, h5py.File('large.h5', 'w') as g:
    x = f['train/x'][...].astype(np.float32) / 255
    x[192:224] *= 100
    g['x'], g['y'] = x, f['train/y'][...]" || exit 1
set -- data.path=large.h5 data.x=/x data.y=/y data.val_split=0.2 data.shuffle=no data.normalize=none eval.interval=0 log.interval=1 \
    scheduler.type=constant train.spike_window=3 train.spike_threshold=50
numbers="[0-9.e+]*; the limit after the last 3 steps is [0-9.e+]*"
rows="rows 192 to 255 of train"

expect 0 "off" ranks 1 mlp.ini "$@" -o off
says 0 "is a spike"
expect 0 "warn" ranks 1 mlp.ini "$@" train.on_spike=warn -o warn
says 1 "warning: step 4 was taken: the gradient norm is a spike, $numbers; its samples: $rows \\(1 spikes so far\\)$"
says 1 "warning: step 8 was taken: .*\\(2 spikes so far\\)$"
says 1 " done (.* )?spikes=2( |$)"
checks=$((checks + 1))
[ "$(grep -c '"spikes":1' warn/metrics.jsonl)" -eq 4 ] || fail "the metrics do not count the spikes"
checks=$((checks + 1))
"$bin/charl" checkpoint diff off/last.h5 warn/last.h5 | grep '^model/' && fail "warn changes the weights"

expect 0 "skip" ranks 1 mlp.ini "$@" train.on_spike=skip -o whole
says 1 "warning: step 4 was skipped: the gradient norm is a spike"
checks=$((checks + 1))
"$bin/charl" checkpoint diff off/last.h5 whole/last.h5 | grep -q '^model/' || fail "skip changes nothing"
expect 0 "skip, interrupted" ranks 2 mlp.ini -q "$@" train.on_spike=skip train.max_steps=6
expect 0 "skip, resumed" ranks 3 mlp.ini "$@" train.on_spike=skip
says 1 "warning: step 8 was skipped: .*\\(2 spikes so far\\)$"
same "skip, resumed" whole run
expect 0 "replay" "$bin/charl" replay whole --step 4
says 1 "skipped: the gradient is a spike"

for n in 1 2; do
    expect 6 "stop on $n ranks" ranks $n mlp.ini -q "$@" train.on_spike=stop log.interval=1000 train.epochs=1000 -o stop-$n
    says 1 "error: step 4: the gradient norm is a spike, $numbers; the weights are those before this step. Its samples: $rows$"
done
# Another window begins with none.
expect 0 "a window of 4" ranks 1 mlp.ini "$@" train.on_spike=skip train.epochs=3 train.spike_window=4 run.resume=run/last.h5 run.strict=no -o wider
finish

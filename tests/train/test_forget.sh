#!/bin/sh
# data.forget and charl forget: rows that weigh nothing from the start. From a checkpoint that did not know them or from the beginning, the bits
# are the same; what the rows hold has no effect; and what would give them one is refused.
. "$(dirname "$0")/common.sh"

# forget CODE WHAT RUN ARGUMENTS...: charl forget, to the directory `forgot`
forget() {
    _code=$1 _what=$2
    shift 2
    rm -rf forgot
    expect "$_code" "$_what" timeout 1500 "$bin/charl" forget "$@" -o forgot
}
# recorded RUN FIRST: tensors and state of the checkpoints from step FIRST on, as run.lock has them
recorded() {
    sed -n 's/^checkpoint step=\([0-9]*\) \(tensors=[0-9a-f]* state=[0-9a-f]*\) .*/\1 \2/p' "$1/run.lock" | awk -v first="$2" '$1 >= first'
}
# equal WHAT RUN FIRST: `forgot` has the checkpoints of RUN from step FIRST on, and began with the one before
equal() {
    checks=$((checks + 2))
    recorded "$2" "$3" >want
    recorded forgot 0 | sort -u | sort -n >have # once more after an interruption
    [ -s want ] && cmp -s want have || { fail "$1: other checkpoints"; diff want have | head -n 4; }
    losses "$2" | awk -F, -v first="$3" '$2 >= first' >want
    losses forgot | awk -F, -v first="$3" '$2 >= first' >have
    [ -s want ] && cmp -s want have || { fail "$1: other losses"; diff want have | head -n 4; }
}
# rows FIRST LAST N: N random ones of the rows that steps FIRST to LAST of run/ take, separated by commas
rows() {
    for _step in $(seq "$1" "$2"); do
        "$bin/charl" data rows run/config.ini --step "$_step" | awk '/^ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+$/ { print $4 }'
    done | sort -n -u | awk -v n="$3" -v seed=7 '{ row[NR] = $1 }
        END { for (i = 0; i < n; i++) { seed = seed * 16807 % 2147483647; k = 1 + seed % NR; while (row[k] == "") k = k % NR + 1
              printf "%s%s", i ? ", " : "", row[k]; row[k] = "" } }'
}

# Dropout, augmentation, bf16, a moving average, on 4 ranks; 50 rows of steps 3 to 5.
set -- mlp.ini -q checkpoint.interval=1 checkpoint.keep_last=100 data.augment=flip,crop:2 train.precision=bf16 train.ema_decay=0.9 eval.interval=3
expect 0 "a run" ranks 1 --simulate-ranks 4 "$@" -o run
some=$(rows 3 5 50)
expect 0 "without 50 rows" ranks 1 "$@" -o honest "data.forget=$some"
forget 0 "50 rows" run --rows "$some"
says 1 '^step 3 is the first that takes one of these rows; training begins with run/checkpoints/step-00000002.h5$'
equal "50 rows" honest 3
checks=$((checks + 2))
[ "$(sed -n '1s/^resume format=2 step=2 \(tensors=[0-9a-f]* state=[0-9a-f]*\) .*/\1/p' forgot/run.lock)" = \
    "$(sed -n 's/^checkpoint step=2 \(tensors=[0-9a-f]* state=[0-9a-f]*\) .*/\1/p' run/run.lock)" ] || fail "run.lock does not continue the run's"
recorded run 10 >a
recorded forgot 10 >b
cmp -s a b && fail "the rows had no effect in the run"
expect 0 "the steps from there are proven" "$bin/charl" verify forgot --segments 20
says 0 'different|not replayed'
# What they did: the evaluations of both.
expect 0 "influence" timeout 1500 "$bin/charl" influence run --rows "$some"
awk '/^(loss|accuracy) /{ print $1 "=" $2, $1 "=" $3 }' log >told
for _run in run honest; do
    "$bin/charl" eval $_run 2>/dev/null | grep -o -E '(loss|accuracy)=[0-9.e-]*'
done | pr -2 -t -s' ' >measured
checks=$((checks + 2))
[ -s told ] && cmp -s told measured || { fail "influence is not the difference of the evaluations"; cat told measured; }
[ "$(sed -n 's/^loss=\(.*\) loss=\(.*\)/\1 \2/p' told | tr ' ' '\n' | sort -u | wc -l)" -eq 2 ] || fail "the rows did nothing"
says 1 '^val, step 10 +with +without +difference$'
expect 2 "a row that is not there" "$bin/charl" influence run --rows 320
expect 2 "no rows" "$bin/charl" influence run
# More of a run that has forgotten some.
one=$(rows 1 1 1)
expect 0 "without one more" ranks 1 "$@" -o honest --overwrite "data.forget=$some, $one"
mv forgot began
forget 5 "more, of a run that began elsewhere" began --rows "$one"
says 1 'began began with a checkpoint of another run, which may have learned from the rows'
mv honest whole
expect 0 "without 50 rows" ranks 1 "$@" -o honest "data.forget=$some"
forget 0 "one more" honest --rows "$one"
says 1 'training begins from scratch$'
equal "one more" whole 1
# Given again, after an interruption: it goes on; and another run is not touched.
rm forgot/checkpoints/step-0000000[89].h5 forgot/checkpoints/step-00000010.h5
expect 0 "once more" "$bin/charl" forget honest --rows " $one" -o forgot
equal "once more" whole 1
expect 2 "in the place of another run" "$bin/charl" forget run --rows "$some" -o forgot
says 1 'error: forgot holds another run$'
# Rows that do not stay on the device.
expect 0 "rows read in every step" ranks 1 "$@" -o forgot --overwrite "data.forget=$some, $one" data.cache=none
equal "rows read in every step" whole 1
# The command line, for several ranks.
forget 0 "print" run --rows "$some" --print
eval "set -- $(sed -n 's/^charl-train //p' log)"
expect 0 "on 2 processes" ranks 2 "$@" -q
equal "on 2 processes" honest 3

# What the rows hold has no effect: other pixels and labels in their place.
if has_python h5py; then
    /usr/bin/python3 -c "
import h5py, sys
with h5py.File('digits.h5') as f:
    x, y = f['train/x'][:], f['train/y'][:]
for name in 'plain.h5', 'other.h5':
    with h5py.File(name, 'w') as f:
        f['x'], f['y'] = x, y
    for row in map(int, sys.argv[1].split(',')):
        x[row], y[row] = 255 - x[row], (y[row] + 1) % 10" "$some" || exit 1
    for data in plain other; do
        expect 0 "$data contents" ranks 1 mlp.ini -q -o $data data.path=$data.h5 data.x=/x data.y=/y eval.interval=0 data.normalize=none \
            train.epochs=1 "data.forget=$some"
    done
    checks=$((checks + 1))
    [ "$(recorded plain 5 | sed 's/ state=.*//')" = "$(recorded other 5 | sed 's/ state=.*//')" ] ||
        fail "the contents of forgotten rows have an effect"
else
    skipped "other contents" "/usr/bin/python3 has no h5py"
fi

# Low-rank adapters.
cp -r run base
set -- mlp.ini -q init.from=base/last.h5 lora.rank=2 "lora.targets=*" checkpoint.interval=1 checkpoint.keep_last=100
expect 0 "adapters" ranks 1 "$@" -o adapters
expect 0 "adapters without 3 rows" ranks 1 "$@" -o honest --overwrite "data.forget=$(rows 4 5 3)"
forget 0 "adapters" adapters --rows "$(rows 4 5 3)"
says 1 'training begins with adapters/checkpoints/step-0000000[34].h5$'
first=$(sed -n 's/^step \([0-9]*\) is the first .*/\1/p' log)
equal "adapters" honest "$first"

# Rows of no step, and what is refused.
expect 0 "two steps" ranks 1 mlp.ini -q -o two train.max_steps=2
expect 0 "influence of rows of later steps" "$bin/charl" influence two --rows "$(rows 4 5 2)"
says 1 '^no step takes one of these rows: the run is already what it would be without them$'
forget 0 "rows of later steps" two --rows "$(rows 4 5 2)"
says 1 '^no step takes one of these rows: the run is already what it would be without them$'
[ ! -e forgot ] || fail "a run was made"
refused() { # refused WHY ARGUMENTS...: charl-train on cnn.ini
    _why=$1
    shift
    expect 2 "$_why" ranks 1 cnn.ini -q -o refused data.forget=17 "$@"
    says 1 "$_why"
}
refused 'bn1 is a batch norm, whose statistics are of all rows of a batch'
refused 'mixup and cutmix mix every row into another' model.batch_norm=no data.augment=mixup:0.2
refused 'class_weights = balanced counts all rows' model.batch_norm=no train.class_weights=balanced
refused 'with data.sampling = balanced, every row changes which others are drawn' model.batch_norm=no data.sampling=balanced
refused 'products = integer, the largest number of all rows decides' model.batch_norm=no train.products=integer
refused 'there is no row 320; the training rows of .* are 0 to 319' model.batch_norm=no data.forget=320
refused '"1x" is not the number of a row' model.batch_norm=no "data.forget=1, 1x"
refused '"2 3" is not the number of a row' model.batch_norm=no "data.forget=2 3"
forget 2 "another setting" run --rows 17 optimizer.learning_rate=1
says 1 'only data.forget may differ from the settings of the run, not:'
expect 2 "in its own place" "$bin/charl" forget run --rows 17 -o run
expect 2 "no rows" "$bin/charl" forget run -o forgot
expect 0 "more steps" ranks 1 mlp.ini -q -o two train.max_steps=3
forget 5 "several configurations" two --rows 17
says 1 'two was trained with several configurations'
finish

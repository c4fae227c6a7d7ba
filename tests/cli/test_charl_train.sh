#!/bin/sh
# What charl-train says to input that it cannot use: the exit code, one clear line, once, on one rank and on three.
here=$(dirname "$0")
. "$here/../train/common.sh"

# refuses CODE PATTERN WHAT ARGUMENTS...: alone and under mpirun
refuses() {
    _want=$1 _text=$2 _name=$3
    shift 3
    for _ranks in 1 3; do
        expect "$_want" "$_name, $_ranks ranks" ranks $_ranks "$@"
        says 1 "charl-train: error: .*$_text"
        says 1 "charl-train: error:"
    done
}

# The plan, without a run
expect 0 "dry run" ranks 3 mlp.ini --dry-run
says 1 "19,090 parameters"
says 1 "64 = 8 slices, 16 on rank 0; 10 steps"
[ ! -e run ] || fail "a dry run wrote files"
expect 0 "fast development run" ranks 2 cnn.ini --fast-dev-run
says 1 " done step=5 "
[ ! -e run ] || fail "a fast development run wrote files"

# One batch can be learnt by heart.
expect 0 "overfit" ranks 1 mlp.ini --overfit-batch model.dropout=0 train.max_steps=200 scheduler.type=constant
checks=$((checks + 1))
loss=$(sed -n 's/.*train step=200\/200 .* loss=\([^ ]*\) .*/\1/p' log)
awk "BEGIN { exit !(${loss:-9} < 0.05) }" || fail "the loss of one batch is ${loss:-nothing} after 200 steps"
[ ! -e run ] || fail "--overfit-batch wrote files"
expect 0 "devices" ranks 1 --list-devices
devices=$(grep -c '^[0-9]' log)
[ "$devices" -gt 0 ] || fail "no devices listed"
says "$devices" "compute units"
expect 0 "version" ranks 3 --version
says 1 "^charl-train [0-9]"
for rank in 0 1; do # one rank prints, the others would train
    set -- mlp.ini
    [ $rank -eq 1 ] || set -- --version
    # shellcheck disable=SC2046 # two words
    expect 2 "version on rank $rank alone" timeout 1500 mpirun -q --oversubscribe --bind-to none \
        -n 1 "$bin/charl-train" "$@" : -n 1 "$bin/charl-train" $([ $rank -eq 1 ] && echo --version || echo mlp.ini)
    says 1 "charl-train: error: rank 1 of 2 (.*) was started for .*, rank 0 for "
    [ ! -e run ] || fail "wrote files"
done
expect 0 "environment" ranks 1 --env=json
says 1 '"devices":'

# Configurations
expect 2 "unknown option" ranks 3 --nonsense
says 1 "unrecognized option"
expect 2 "unknown option, the first rank late" timeout 1500 mpirun -q --oversubscribe --bind-to none \
    -n 1 sh -c 'sleep 1; exec "$0" --nonsense' "$bin/charl-train" : -n 2 "$bin/charl-train" --nonsense
says 1 "unrecognized option"
refuses 2 "no_such: unknown key" "unknown key" mlp.ini train.no_such=1
refuses 2 'epochs: "x" is not' "wrong type" mlp.ini train.epochs=x
refuses 2 "epochs" "no epochs" mlp.ini train.epochs=0
refuses 2 "batch_size" "batch that slices do not divide" mlp.ini train.batch_size=60
sed 's/^batch_size = .*/batch_size = 400/' mlp.ini >large.ini
refuses 2 "large.ini:$(grep -n ^batch_size large.ini | cut -d: -f1): train.batch_size = 400 is more than the 320 training rows" \
    "batch larger than the data" large.ini
refuses 2 "no-file.ini" "no configuration" no-file.ini
expect 2 "more ranks than slices" ranks 3 mlp.ini train.slices=2
says 1 "charl-train: error: .*slices"
says 1 "charl-train: error:"
expect 0 "an unknown variable" env CHARL_NO_SUCH=1 mpirun -q --oversubscribe -n 3 "$bin/charl-train" mlp.ini --dry-run
says 1 "warning: .*CHARL_NO_SUCH"

# Data
head -c 20000 digits.h5 >cut.h5
head -c 20000 /dev/urandom >noise.h5
refuses 3 "command line: \[data\] path: no-file.h5: cannot be opened" "no data" mlp.ini data.path=no-file.h5
sed 's/^path = .*/path = my #digits.h5/' mlp.ini >comment.ini
refuses 3 "comment.ini:5: \[data\] path: my: cannot be opened" "a value cut by a comment" comment.ini
says 1 "hint: the value ends where a comment begins"
refuses 3 "cut.h5" "data cut short" mlp.ini data.path=cut.h5
refuses 3 "noise.h5" "data that are none" mlp.ini data.path=noise.h5
foreign() {
    echo data.path="$1" data.x=/x data.y=/y
}
cat >foreign.py <<'PY'
import h5py, numpy as n
r = n.random.RandomState(0)
def make(name, x, y):
    with h5py.File(name, "w") as f:
        f["x"] = x.astype("f4")
        if y is not None:
            f["y"] = y
make("table.h5", r.randn(128, 7), r.randint(0, 3, 128).astype("i4"))
make("negative.h5", r.randn(128, 7), n.where(n.arange(128) == 77, -1, 1).astype("i4"))
make("nan.h5", n.where(n.arange(128 * 7).reshape(128, 7) == 500, n.nan, 1.0), n.ones(128, "i4"))
make("real.h5", r.randn(128, 7), r.randn(128).astype("f4"))
PY
h5py=yes
/usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null || h5py=
if [ -z "$h5py" ]; then
    skipped "data that are not charl's" "/usr/bin/python3 has no h5py"
elif ! /usr/bin/python3 foreign.py; then
    fail "no foreign data"
else
    refuses 3 "negative.h5" "a negative label" mlp.ini $(foreign negative.h5)
    refuses 2 "cross_entropy needs one class label" "targets that are no labels" mlp.ini $(foreign real.h5) train.loss=cross_entropy
    refuses 3 "y" "no labels" mlp.ini data.path=table.h5 data.x=/x data.y=/none
    expect 0 "a table" ranks 2 mlp.ini $(foreign table.h5) -q -o table
    [ -z "$(cut -d, -f11 table/metrics.csv | grep '[0-9]')" ] || fail "validated on nothing"
    expect 0 "a table with val_split" ranks 2 mlp.ini $(foreign table.h5) data.val_split=0.25 -q -o table2
    checks=$((checks + 1))
    cut -d, -f11 table2/metrics.csv | grep -q '[0-9]' || fail "not validated"
fi

# Models that do not fit the data
cat >seq.ini <<'INI'
[data]
path = table.h5
x = /x
y = /y
[model]
type = sequential
[layer c]
type = conv2d
channels = 4
kernel = 3
[train]
batch_size = 64
[device]
share = yes
INI
[ -z "$h5py" ] || refuses 2 "c: " "a convolution on a table" seq.ini --dry-run
sed -e 's/^type = conv2d/type = linear/' -e 's/^channels = 4/out = 3/' -e '/^kernel/d' seq.ini >lin.ini
[ -z "$h5py" ] || expect 0 "linear on a table" ranks 1 lin.ini --dry-run
sed -e 's/table.h5/digits.h5/' -e '/^[xy] =/d' lin.ini >lin2.ini
refuses 2 "does not fit the loss" "linear on images" lin2.ini --dry-run

# One mistake in a layer is one message, with what may be meant; layers that read it say nothing.
sed -e 's/table.h5/digits.h5/' -e '/^[xy] =/d' seq.ini >graph.ini
printf '[block couple]\n[block couple.a]\ntype = relu\n[layer r]\ntype = couple\n[layer s]\ntype = add\ninput = c, r\n' >>graph.ini
mistaken() {
    sed -e "$1" graph.ini >mistaken.ini
    expect 2 "$2" ranks 1 mistaken.ini --dry-run
    says 1 "error: .*$2"
    says 1 "error:"
}
mistaken 's/^channels/chanels/' 'mistaken.ini:7: .layer c. chanels: unknown key for type = conv2d [(]did you mean channels[?][)]'
mistaken 's/^channels.*//' 'mistaken.ini:5: .layer c. channels: is missing'
mistaken 's/conv2d/convv2d/' 'there is no layer type or block convv2d [(]did you mean conv2d[?][)]; charl-train --help-config=layer'
mistaken 's/= couple/= couplle/' '.layer r. type: there is no layer type or block couplle [(]did you mean couple[?][)]'
mistaken 's/= c, r/= c r/' 'input: there is no layer "c r"; names are separated by commas'

# The machine
if OCL_ICD_VENDORS=/nonexistent "$bin/charl" devices >log 2>&1; then
    skipped "no device" "the loader does not follow OCL_ICD_VENDORS"
else
    expect 4 "no device" env OCL_ICD_VENDORS=/nonexistent "$bin/charl-train" mlp.ini
    says 1 "charl-train: error: .*OpenCL"
    expect 4 "no device, 3 ranks" env OCL_ICD_VENDORS=/nonexistent \
        mpirun -q --oversubscribe -n 3 "$bin/charl-train" mlp.ini
    says 1 "charl-train: error: .*OpenCL"
fi
: >file
refuses 8 "file" "a run directory below a file" mlp.ini -o file/run
says 1 "file is a file, not a folder"
refuses 8 "file" "a file as a run directory" mlp.ini -o file
says 1 "file is a file, not a folder"
finish

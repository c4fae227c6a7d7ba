# Shared by the scripts that train: sourced, not run. Leaves the script in a fresh directory with the data set digits.h5
# (320 training and 100 validation samples; a script that sets rows=80 before has a quarter of them, and of the batches of mlp.ini, cnn.ini and
# graph.ini: as many steps in less time) and the functions of support/shell.sh and those below. All configurations share the devices: the
# ranks here are more than a machine's GPUs.
. "$(dirname "$0")/../support/shell.sh"

# losses RUN: epoch, step, train/loss, val/loss, val/accuracy, lr, grad_norm
losses() {
    awk -F, -v OFS=, '{ print $1, $2, $4, $11, $12, $5, $6 }' "$1/metrics.csv"
}

# same WHAT A B: run directories A and B hold the same tensors, counters and losses, bit for bit.
same() {
    checks=$((checks + 1))
    _d=$("$bin/charl" checkpoint diff "$2/last.h5" "$3/last.h5" 2>&1)
    _c=$?
    _d=$(printf '%s\n' "$_d" | grep -v -E '^(config/|all tensors are equal$)')
    [ $_c -le 1 ] || fail "$1: charl checkpoint diff ends with $_c"
    [ -z "$_d" ] || { fail "$1: checkpoints differ"; printf '%s\n' "$_d" | head -n 5; }
    losses "$2" >"$T/a.csv"
    losses "$3" >"$T/b.csv"
    cmp -s "$T/a.csv" "$T/b.csv" || { fail "$1: losses differ"; diff "$T/a.csv" "$T/b.csv" | head -n 6; }
}

# resumes WHAT RUN N ARGUMENTS...: the training of RUN, stopped by the fault train.stop:N on
# $stop_ranks ranks and continued on 1, has the same bits.
stop_ranks=2
resumes() {
    _w=$1 _run=$2
    export CHARL_FAULT="train.stop:$3"
    shift 3
    rm -rf stopped
    expect 75 "$_w, stopped" ranks $stop_ranks "$@" -o stopped
    unset CHARL_FAULT
    expect 0 "$_w, resumed" ranks 1 "$@" -o stopped
    same "$_w, resumed" "$_run" stopped
}

# chain FILE: lines with new hashes, as one who knows the format would write them
chain() {
    _previous=0000000000000000000000000000000000000000000000000000000000000000
    while read -r _line; do
        _line="${_line% previous=*} previous=$_previous"
        _previous=$(printf %s "$_line" | sha256sum | cut -c 1-64)
        printf '%s hash=%s\n' "$_line" "$_previous"
    done <"$1" >chained
    mv chained "$1"
}

"$bin/charl" data make digits digits.h5 -t "${rows:=320}" -v $((rows * 5 / 16)) >/dev/null || exit 1

cat >mlp.ini <<'INI'
[run]
output_dir = run
seed = 3
[data]
path = digits.h5
[model]
type = mlp
hidden = 24
dropout = 0.3
[train]
epochs = 2
batch_size = 64
slices = 8
[optimizer]
learning_rate = 3e-3
[scheduler]
type = cosine
warmup_steps = 2
[log]
interval = 1
[device]
share = yes
[checkpoint]
interval = 1ep
INI

cat >cnn.ini <<'INI'
[run]
output_dir = run
seed = 4
[data]
path = digits.h5
[model]
type = cnn
channels = 4, 8
hidden = 16
dropout = 0.2
batch_norm = yes
[train]
epochs = 2
batch_size = 64
slices = 8
grad_clip = 1
[optimizer]
type = sgd
learning_rate = 0.05
[log]
interval = 1
[device]
share = yes
[checkpoint]
interval = 1ep
INI

# A graph: a U-Net and a small transformer behind it, of blocks.
cat >graph.ini <<'INI'
[run]
output_dir = run
seed = 5
[data]
path = digits.h5
[model]
type = sequential
[block conv]
channels =
[block conv.c]
type = conv2d
channels = $channels
kernel = 3
bias = no
[block conv.n]
type = batch_norm
activation = relu
[block encoder]
width =
[block encoder.norm]
type = layer_norm
[block encoder.qkv]
type = linear
out = 3 * $width
[block encoder.attention]
type = attention
heads = 2
dropout = 0.1
[block encoder.proj]
type = linear
out = $width
[block encoder.sum]
type = add
input = proj, input
[layer in]
type = conv
channels = 4
[layer down]
type = max_pool2d
kernel = 2
[layer deep]
type = conv
channels = 6
repeat = 2
[layer up]
type = upsample
mode = bilinear
[layer skip]
type = concat
input = up, in
[layer out]
type = conv
channels = 4
[layer patches]
type = conv2d
channels = 16
kernel = 4
stride = 4
padding = 0
[layer rows]
type = reshape
shape = 16, -1
[layer sequence]
type = permute
order = 2, 1
[layer class]
type = class_token
[layer positions]
type = position_embedding
block_size = 64
[layer encoder]
type = encoder
width = 16
repeat = 2
[layer first]
type = slice
length = 1
[layer flat]
type = flatten
[layer mean]
type = mean
input = encoder
[layer both]
type = add
input = flat, mean
[layer head]
type = linear
out = 10
[train]
epochs = 2
batch_size = 64
slices = 8
[optimizer]
learning_rate = 2e-3
[log]
interval = 1
[device]
share = yes
[checkpoint]
interval = 1ep
INI

[ "$rows" -eq 320 ] || sed -i "s/^batch_size = 64\$/batch_size = $((rows / 5))/" mlp.ini cnn.ini graph.ini

# make_text: text.h5, numbers as text.
make_text() {
    seq 1 1500 >text.txt
    "$bin/charl" data import text text.txt -o text.h5 --val-split 0.1 >/dev/null || exit 1
}

# make_gpt: gpt.ini, a small transformer on text.h5; the caller appends its [train].
make_gpt() {
    make_text
    cat >gpt.ini <<'INI'
[run]
output_dir = run
seed = 6
[data]
path = text.h5
[model]
type = gpt
n_layer = 2
n_head = 4
n_embd = 32
block_size = 16
dropout = 0.1
INI
}

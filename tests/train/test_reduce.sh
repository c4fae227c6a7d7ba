#!/bin/sh
# Gradients in bf16 on their way (dist.reduce_dtype): the same bits for any number of ranks, algorithm, bucket, pass and
# after resuming, near those of f32. CHARL_TEST_LONG=1: more of each, a tied gpt, and on MNIST, with the IDX files in
# $CHARL_TEST_DATA/mnist10k, as good a model as in f32.
data=${CHARL_TEST_DATA:-}/mnist10k
. "$(dirname "$0")/common.sh"

# variant NAME RANKS MODEL SETTINGS...: what MODEL-1 holds, with other settings
variant() {
    _name=$1 _ranks=$2 _model=$3
    shift 3
    expect 0 "$_model, $_name" ranks "$_ranks" "$_model.ini" -q -o v dist.reduce_dtype=bf16 "$@"
    same "$_model, $_name" "$_model-1" v
    rm -rf v
}

# cnn has batch norm, whose parameters' gradients are also completed within the step.
expect 0 "mlp on 1 rank" ranks 1 mlp.ini -q -o mlp-1 dist.reduce_dtype=bf16
expect 0 "cnn on 1 rank" ranks 1 cnn.ini -q -o cnn-1 dist.reduce_dtype=bf16

# gpt has norms without bias and a matrix that is used twice.
make_text
sed 's/digits.h5/text.h5/; s/^type = mlp/type = gpt\nn_layer = 2\nn_head = 4\nn_embd = 32\nblock_size = 16/; /^hidden/d' mlp.ini >gpt.ini
expect 0 "gpt on 1 rank" ranks 1 gpt.ini -q -o gpt-1 dist.reduce_dtype=bf16
variant "the devices alone" 2 gpt dist.allreduce=peer
variant "two passes" 2 mlp train.grad_accum_steps=2
variant "p2p, small buckets" 3 cnn dist.allreduce=p2p dist.bucket_mb=0.01
variant "the devices alone" 2 cnn dist.allreduce=peer dist.bucket_mb=0.01

# near WHAT A B: the losses of run directories A and B differ, but not much
near() {
    checks=$((checks + 1))
    losses "$2" >a.csv
    losses "$3" >b.csv
    cmp -s a.csv b.csv && fail "$1: the losses are equal"
    paste -d, a.csv b.csv | awk -F, '
        NR > 1 { for (i = 3; i <= 5; i++) if ($i != "" && ($i - $(i + 7) > 0.01 || $(i + 7) - $i > 0.01)) exit 1 }' ||
        fail "$1: losses are far apart"
}
expect 0 "mlp in f32" ranks 1 mlp.ini -q -o f32
near "bf16 and f32" mlp-1 f32
expect 2 "mpi" ranks 2 mlp.ini -q -o x dist.reduce_dtype=bf16 dist.allreduce=mpi
says 1 "mpi does not work here: it sums in f32 only"

if [ -n "$long" ]; then
    resumes "bf16" cnn-1 4 cnn.ini -q dist.reduce_dtype=bf16
    for n in 2 3 5 8; do
        variant "$n ranks" $n mlp
        variant "$n ranks" $n cnn
    done
    variant "three passes" 1 mlp train.grad_accum_steps=3
    export CHARL_RANKS_PER_NODE=2
    variant "the devices alone, two nodes" 4 mlp dist.allreduce=peer
    variant "the devices alone, two nodes, sharded" 4 mlp dist.allreduce=peer dist.shard=optimizer
    unset CHARL_RANKS_PER_NODE
    variant "3 ranks" 3 gpt
    variant "two passes" 2 gpt train.grad_accum_steps=2
    if [ -f "$data/images-idx3-ubyte.gz" ]; then
        "$bin/charl" data import idx "$data/images-idx3-ubyte.gz" "$data/labels-idx1-ubyte.gz" --val-split 0.2 \
            -o mnist.h5 >/dev/null || exit 1
        for type in f32 bf16; do
            expect 0 "MNIST in $type" ranks 2 "$here/../../launch/mnist-mlp.ini" -q data.path="$T/mnist.h5" \
                run.output_dir="$T/mnist-$type" device.share=yes dist.reduce_dtype=$type
            grep '"event":"val"' mnist-$type/metrics.jsonl | tail -n 1 | sed -E 's/.*"accuracy":([0-9.e-]+).*/\1/'
        done >accuracies
        checks=$((checks + 1))
        awk '{ a[NR] = $1 } END { exit !(a[1] > 0.95 && a[2] > a[1] - 0.01) }' accuracies ||
            fail "MNIST: accuracy in f32 and bf16: $(cat accuracies)"
    else
        skipped "MNIST" "CHARL_TEST_DATA names no folder with mnist10k"
    fi
fi
finish

#!/bin/sh
# Training in bf16, f16 and fp8, and with products of integers: the same bits for any number of ranks and after resuming, the loss scale among what goes on, and
# what the configuration refuses. On MNIST, with the IDX files in $CHARL_TEST_DATA/mnist10k, agreement with f32: see below.
data=${CHARL_TEST_DATA:-}/mnist10k
rows=80
. "$(dirname "$0")/common.sh"

# Dropout and batch normalisation on 1 and 3 ranks. Both types compile their kernels at the same time.
ranks 1 cnn.ini -q -o bf16-1 train.precision=bf16 >bf16.log 2>&1 &
ranks 1 cnn.ini -q -o f16-1 train.precision=f16 >f16.log 2>&1
wait
for p in bf16 f16; do
    checks=$((checks + 1))
    [ -f $p-1/last.h5 ] || { fail "cnn in $p on 1 rank"; cat $p.log; }
    expect 0 "cnn in $p on 3 ranks" ranks 3 cnn.ini -q -o $p-3 train.precision=$p
    same "cnn in $p on 3 ranks" $p-1 $p-3
done
checks=$((checks + 1))
cmp -s bf16-1/metrics.csv f16-1/metrics.csv && fail "bf16 and f16 have the same losses"

scale_of() {
    "$bin/charl" checkpoint show "$1" | sed -n 's/.*loss scale \([0-9.e+-]*\).*/\1/p'
}
checks=$((checks + 1))
[ "$(scale_of f16-1/last.h5)" != 1 ] || fail "f16 used no loss scale"
checks=$((checks + 1))
[ "$(scale_of bf16-1/last.h5)" = 1 ] || fail "bf16 used a loss scale: $(scale_of bf16-1/last.h5)"

# Stopped and resumed on another number of ranks.
for p in bf16 f16; do
    resumes "$p" $p-1 4 cnn.ini -q train.precision=$p
done

# fp8: linear layers but the last. Sequences have blocks of several rows, which a shard of the batch does not divide.
ranks 1 mlp.ini -q -o mlp-bf16 train.precision=bf16 >/dev/null 2>&1
make_gpt
cat >>gpt.ini <<'INI'
[train]
max_steps = 6
batch_size = 16
slices = 8
[log]
interval = 1
[device]
share = yes
INI
sed 's/^dropout.*/n_kv_head = 2\nmlp = swiglu\npositions = rotary\ntie_weights = no/' gpt.ini >llama.ini
for model in mlp llama; do
    expect 0 "$model in fp8 on 1 rank" ranks 1 $model.ini -q -o $model-fp8-1 train.precision=fp8
    expect 0 "$model in fp8 on 3 ranks" ranks 3 $model.ini -q -o $model-fp8-3 train.precision=fp8
    same "$model in fp8 on 3 ranks" $model-fp8-1 $model-fp8-3
    resumes "$model in fp8" $model-fp8-1 4 $model.ini -q train.precision=fp8
done
expect 0 "fp8 in the plan" ranks 1 mlp.ini --dry-run train.precision=fp8
says 1 "parameters with a copy in bf16, products in fp8"
expect 0 "llama in fp8, activations recomputed" ranks 2 llama.ini -q -o recomputed train.precision=fp8 train.recompute=yes
same "llama in fp8, activations recomputed" llama-fp8-1 recomputed
checks=$((checks + 1))
cmp -s mlp-bf16/metrics.csv mlp-fp8-1/metrics.csv && fail "fp8 and bf16 have the same losses"

# Products of integers, which sums of 256 or more have: forward in both layers, and gradients of their inputs.
expect 0 "integers on 1 rank" ranks 1 mlp.ini -q -o integer-1 model.hidden=260,257 train.products=integer
expect 0 "integers on 3 ranks" ranks 3 mlp.ini -q -o integer-3 model.hidden=260,257 train.products=integer
same "integers on 3 ranks" integer-1 integer-3
expect 0 "the same with fma" ranks 1 mlp.ini -q -o fma-1 model.hidden=260,257
checks=$((checks + 1))
cmp -s integer-1/metrics.csv fma-1/metrics.csv && fail "products of integers and fma have the same losses"
expect 0 "integers in the plan" ranks 1 mlp.ini --dry-run train.products=integer
says 1 "parameters, products of integers"

# Of the second convolution: 288 terms forward, 297 for the gradient of its input, and more for that of its weight.
for n in 1 3; do
    expect 0 "convolutions of integers on $n ranks" ranks $n cnn.ini -q -o conv-$n model.channels=32,33 train.batch_size=16 train.slices=4 train.max_steps=1 train.products=integer
done
same "convolutions of integers on 3 ranks" conv-1 conv-3
expect 0 "convolutions of fma" ranks 1 cnn.ini -q -o conv-fma model.channels=32,33 train.batch_size=16 train.slices=4 train.max_steps=1
checks=$((checks + 1))
cmp -s conv-1/metrics.csv conv-fma/metrics.csv && fail "convolutions of integers and fma have the same losses"

# With half types the result has the same bits anywhere, and other bits than with fma.
expect 0 "integers in bf16 on 1 rank" ranks 1 mlp.ini -q -o integer-bf16-1 model.hidden=260,257 train.products=integer train.precision=bf16 train.exact=anywhere
expect 0 "integers in bf16 on 3 ranks" ranks 3 mlp.ini -q -o integer-bf16-3 model.hidden=260,257 train.products=integer train.precision=bf16 train.exact=anywhere
same "integers in bf16 on 3 ranks" integer-bf16-1 integer-bf16-3
expect 0 "bf16 with fma" ranks 1 mlp.ini -q -o fma-bf16-1 model.hidden=260,257 train.precision=bf16
checks=$((checks + 1))
cmp -s integer-bf16-1/metrics.csv fma-bf16-1/metrics.csv && fail "products of integers and fma have the same losses in bf16"
expect 0 "integers in bf16 in the plan" ranks 1 mlp.ini --dry-run train.products=integer train.precision=bf16
says 1 "with a copy in bf16, products of integers"

# One sample on each rank.
expect 0 "batch norm over 4 samples" ranks 1 mlp.ini -q -o four model.batch_norm=yes train.batch_size=4 train.slices=4 train.max_steps=3 train.precision=bf16
expect 0 "batch norm on 4 ranks of one sample" ranks 1 mlp.ini -q -o four-4 model.batch_norm=yes train.batch_size=4 train.slices=4 train.max_steps=3 train.precision=bf16 --simulate-ranks=4
same "one sample on each rank" four four-4

# Transformers and residual networks: their programs take a CPU a minute to build.
if [ -n "$long" ]; then
    sed 's/^type = cnn/type = resnet\ndepth = 20\nwidth = 4/; /^channels/d; /^hidden/d; /^dropout/d; /^batch_norm/d' cnn.ini >resnet.ini
    for model in gpt llama resnet; do
        for p in bf16 f16; do
            for n in 1 3; do
                expect 0 "$model in $p on $n ranks" ranks $n $model.ini -q -o $model-$p-$n train.precision=$p
            done
            same "$model in $p on 3 ranks" $model-$p-1 $model-$p-3
        done
    done
fi

# Another precision goes on from the f32 weights of a checkpoint, and says so.
cp -r bf16-1 other
expect 0 "bf16 continued in f16" ranks 1 cnn.ini -o other train.precision=f16 train.epochs=3
says 1 "changed since .*precision"

# refused WORDS SETTINGS...
refused() {
    _words=$1
    shift
    expect 2 "$*" ranks 1 cnn.ini -q -o r "$@"
    says 1 "$_words"
}
refused "loss_scale: needs precision = f16" train.loss_scale=8
refused "products: integer needs precision = f32, bf16 or f16" train.products=integer train.precision=fp8
refused "fp8 does not train low-rank adapters" train.precision=fp8 lora.rank=2
refused "loss_scale: must be a power of two" train.precision=f16 train.loss_scale=9
expect 0 "a fixed loss scale" ranks 1 cnn.ini -q -o fixed train.precision=f16 train.loss_scale=512
checks=$((checks + 1))
[ "$(scale_of fixed/last.h5)" = 512 ] || fail "the fixed loss scale is $(scale_of fixed/last.h5)"

# Agreement with f32 on real data: accuracy within 0.5 %, validation loss within 3 %.
if [ ! -f "$data/images-idx3-ubyte.gz" ]; then
    skipped "agreement with f32 on MNIST" "CHARL_TEST_DATA names no folder with mnist10k"
    finish
fi
"$bin/charl" data import idx "$data/images-idx3-ubyte.gz" "$data/labels-idx1-ubyte.gz" --val-split 0.2 -o mnist.h5 \
    >/dev/null || exit 1

# val NAME DIRECTORY: that value of the last validation
val() {
    grep '"event":"val"' "$2/metrics.jsonl" | tail -n 1 | sed -E "s/.*\"$1\":([0-9.e-]+).*/\1/"
}

# within A B D: |A - B| <= D
within() {
    awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN { x = a - b; exit !(a > 0 && x <= d && -x <= d) }'
}

# agree EXAMPLE EPOCHS
agree() {
    for p in f32 bf16 f16 fp8; do
        expect 0 "$1 in $p" ranks 1 "$here/../../launch/$1.ini" -q data.path="$T/mnist.h5" \
            run.output_dir="$T/$1-$p" train.epochs="$2" train.precision=$p
        echo "$1 in $p: accuracy $(val accuracy "$1-$p"), loss $(val loss "$1-$p")"
        checks=$((checks + 2))
        within "$(val accuracy "$1-f32")" "$(val accuracy "$1-$p")" 0.005 || fail "$1 in $p: accuracy"
        _loss=$(val loss "$1-f32")
        within "$_loss" "$(val loss "$1-$p")" "$(awk -v l="$_loss" 'BEGIN { print 0.03 * l }')" || fail "$1 in $p: loss"
    done
}
agree mnist-mlp 2
[ -n "$long" ] && agree mnist-cnn 2
finish

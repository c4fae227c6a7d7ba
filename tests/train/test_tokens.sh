#!/bin/sh
# Training on tokens: it learns, the same bits for any number of ranks and any place of the data, over the ends of epochs
# and after stopping; evaluation; what does not go with tokens.
. "$(dirname "$0")/common.sh"

make_text
cat >lm.ini <<'INI'
[run]
output_dir = run
seed = 5
[data]
path = text.h5
window = 16
[layer embed]
type = embedding
vocab = 256
dim = 16
[layer hidden]
type = linear
out = 24
activation = gelu
[layer head]
type = linear
out = 256
[train]
epochs = 2
batch_size = 24
slices = 8
[optimizer]
learning_rate = 1e-2
[log]
interval = 1
[device]
share = yes
INI

expect 0 "1 rank" ranks 1 lm.ini -v -o one
says 1 "data +358 train / 39 val windows of 16 tokens, on device"
says 1 "val step=15 .* accuracy=.* perplexity="
says 30 "train step=.* tokens_per_s="
checks=$((checks + 1))
/usr/bin/python3 - <<'PY' || fail "metrics of one"
import csv, math
rows = list(csv.DictReader(open("one/metrics.csv")))
loss = [float(r["train/loss"]) for r in rows if r["train/loss"]]
val = [r for r in rows if r["val/loss"]]
assert len(loss) == 30 and abs(loss[0] - math.log(256)) < 0.5 and loss[-1] < 0.6 * loss[0], loss
for r in val:
    assert math.isclose(float(r["val/perplexity"]), math.exp(float(r["val/loss"])), rel_tol=1e-6), r
PY

# variant NAME RANKS SETTINGS...: the same result with other settings
variant() {
    _name=$1 _ranks=$2
    shift 2
    expect 0 "$_name" ranks "$_ranks" lm.ini -q -o v "$@"
    same "$_name" one v
    rm -rf v
}
variant "2 ranks" 2
variant "3 ranks, streamed" 3 data.cache=none
variant "streamed" 1 data.cache=none

# An epoch is 14.9 steps: stop inside the second, go on with another number of ranks.
export CHARL_FAULT="train.stop:20"
expect 75 "stopped" ranks 2 lm.ini -q -o v
unset CHARL_FAULT
expect 0 "gone on" ranks 3 lm.ini -q -o v data.cache=none
same "stopped at 19, 2 to 3 ranks" one v

# Lengths in tokens, of which a step has 24 x 16: the run with these steps, on any number of ranks, also when it is resumed.
sed 's/^epochs = 2$/max_steps = 3.5k tokens/' lm.ini >lengths.ini
cat >>lengths.ini <<'INI'
[scheduler]
type = wsd
warmup_steps = 1000tok
decay_steps = 1.2k tokens
[eval]
interval = 1600 tokens
[checkpoint]
interval = 1537 tokens
INI
expect 0 "lengths in steps" ranks 1 lengths.ini -q -o t train.max_steps=10 scheduler.warmup_steps=3 scheduler.decay_steps=4 \
    eval.interval=5 checkpoint.interval=5
expect 0 "lengths in tokens" ranks 1 lengths.ini -v -o t-1
says 1 "; 10 steps [(]0.67 epochs, 3840 tokens[)]"
expect 0 "lengths in tokens on 3 ranks" ranks 3 lengths.ini -q -o t-3
resumes "lengths in tokens" t 7 lengths.ini -q
for run in t-1 t-3 stopped; do
    same "the lengths of $run" t $run
    checks=$((checks + 1))
    grep -v '^output_dir' $run/config.ini | diff - t/config.ini | grep '^<' && fail "config.ini of $run has other lengths"
done
sweep() {
    expect 0 "$1" "$bin/charl" sweep lengths.ini -o sweep optimizer.learning_rate=1e-2,1e-3
    says 1 "^2 runs in sweep: 2 $2"
}
sweep "a sweep in tokens" new
sweep "the sweep again" done
expect 0 "lengths as they are written" ranks 1 lengths.ini --print-config
says 1 "^max_steps = 3500 tokens"
expect 2 "a length in tokens without tokens" ranks 1 mlp.ini --dry-run scheduler.warmup_steps="1k tokens"
says 1 "error: command line: .scheduler. warmup_steps is in tokens, which digits.h5 does not have"
expect 2 "more steps than a configuration can have" ranks 1 lm.ini --dry-run train.batch_size=8 data.window=2 train.max_steps="1000T tokens"
says 1 "error: command line: .train. max_steps: so many tokens are more than 1e12 steps"

best=$(sed -n 's/.*"event":"val".*"loss":\([^,]*\),.*/\1/p' one/metrics.jsonl | tail -n 1)
expect 0 "evaluation" "$bin/charl" eval lm.ini one/last.h5
says 1 "^val step=30 loss=$best accuracy=.* perplexity="
expect 0 "evaluation on other windows" "$bin/charl" eval lm.ini one/last.h5 data.window=100 -s train
says 1 "^train step=30 "

# Two data sets with weights: the same bits for any number of ranks and any place of the data, over the ends of epochs and after stopping.
"$bin/charl" data import text text.txt -o small.h5 --val-split 0.5 >/dev/null || exit 1
rm -rf v
sed "s/^path = .*/mix = text.h5:3, small.h5:1/" lm.ini >mix.ini
expect 0 "a mix on 1 rank" ranks 1 mix.ini -o mix-1
says 1 "data +556 train / .* val windows of 16 tokens"
mixed() {
    _name="a mix, $1" _ranks=$2
    shift 2
    expect 0 "$_name" ranks "$_ranks" mix.ini -q -o v "$@"
    same "$_name" mix-1 v
    rm -rf v
}
mixed "2 ranks" 2
mixed "3 ranks, streamed" 3 data.cache=none
mixed "weights in other units" 1 data.mix="text.h5:0.75, small.h5:0.25"
export CHARL_FAULT="train.stop:25"
expect 75 "a mix, stopped" ranks 2 mix.ini -q -o v
unset CHARL_FAULT
expect 0 "a mix, gone on" ranks 3 mix.ini -q -o v data.cache=none
same "a mix stopped at 24, 2 to 3 ranks" mix-1 v
rm -rf v
expect 0 "evaluation of a mix" "$bin/charl" eval mix.ini mix-1/last.h5
expect 0 "the weights of a mix as it is printed" ranks 1 mix.ini --print-config
says 1 "^mix = /.*/text.h5:3, /.*/small.h5:1"
says 0 "^path ="
expect 2 "a path and a mix" ranks 1 mix.ini --dry-run data.path=text.h5
says 1 '\[data\] mix: path is given too: use one of them \(`data.mix=` removes the mix\)'
expect 2 "a mix without a weight" ranks 1 mix.ini --dry-run data.mix=text.h5
says 1 "\"text.h5\" is not PATH:WEIGHT"
expect 3 "a mix of images" ranks 1 mix.ini --dry-run data.mix=digits.h5:1,text.h5:1
says 1 "error: .*digits.h5 holds images; only sets of tokens can be mixed"
expect 2 "a weight that is too small" ranks 1 mix.ini --dry-run data.mix=text.h5:1,small.h5:0.00001
says 1 "error: the weight of .*small.h5 is less than a 10000th"

# What does not go with tokens.
expect 2 "prediction" "$bin/charl" predict one/last.h5
says 1 "error: one/last.h5 is a language model"
sed '/^\[layer/,/^out = 256/d' lm.ini >mlp-lm.ini
expect 2 "a model for numbers" ranks 1 mlp-lm.ini --dry-run model.type=mlp
says 1 "error: command line: model.type = mlp reads numbers, but .*text.h5 contains tokens"
expect 2 "a loss for numbers" ranks 1 lm.ini --dry-run train.loss=mse
says 1 "error: command line: train.loss = mse does not learn from tokens; use cross_entropy"
expect 2 "a normalisation" ranks 1 lm.ini --dry-run data.normalize=1/2
says 1 "error: command line: data.normalize: .*text.h5 contains tokens"
expect 2 "a model for tokens" ranks 1 mlp.ini --dry-run model.type=gpt
says 1 "error: command line: model.type = gpt reads tokens, but .*digits.h5 contains images"
expect 2 "windows of images" ranks 1 mlp.ini --dry-run data.window=16
says 1 "error: command line: data.window applies to tokens only, but .*digits.h5 contains images"
expect 0 "windows of the default length" ranks 1 lm.ini --dry-run data.window=auto
says 1 "windows of 64 tokens"
expect 2 "augmentation" ranks 1 lm.ini --dry-run data.augment=flip
sed 's/^type = embedding/type = relu/; /^vocab/d; /^dim/d' lm.ini >float.ini
expect 2 "no embedding" ranks 1 float.ini --dry-run
says 1 "error: float.ini:[0-9]*: embed"
sed 's/^\[layer hidden\]/[layer flat]\ntype = flatten\n&/' lm.ini >flat.ini
expect 2 "one prediction per window" ranks 1 flat.ini --dry-run
says 1 "error: .*output \[24, 256\] does not fit the loss: it needs \[batch, window, vocabulary\]"
expect 3 "windows longer than the text" ranks 1 lm.ini --dry-run data.window=10000
says 1 "error: .*too few for windows of 10000"
finish

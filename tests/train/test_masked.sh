#!/bin/sh
# Masked language models: the configuration of docs/models/bert.md learns; the same bits for any number of ranks, any place of the data and
# after a stop; other masks in every step, the same in every evaluation; a classifier starts from its weights; what is refused.
# CHARL_TEST_LONG=1: Shakespeare, as the page says.
. "$(dirname "$0")/common.sh"
text=$test_data/tinyshakespeare.txt

awk '/^```/ { on = $0 == "```ini" && !n++; next } on' "$here/../../docs/models/bert.md" >bert.ini

# learns NAME LOSS SETTINGS...: the page's model, trained to the end, has a validation loss of at most LOSS
learns() {
    _name=$1 _most=$2
    shift 2
    expect 0 "$_name" ranks 1 bert.ini -q -o "$_name" checkpoint.interval=0 device.share=yes "$@"
    loss=$(sed -n 's/.*"event":"val".*"loss":\([^,]*\),.*/\1/p' "$_name/metrics.jsonl" | tail -n 1)
    echo "$_name: validation loss $loss"
    checks=$((checks + 1))
    awk -v got="$loss" -v most="$_most" 'BEGIN { exit !(got != "" && got + 0 <= most + 0) }' ||
        fail "$_name: validation loss $loss, expected at most $_most"
}
if [ -z "$long" ]; then
    skipped Shakespeare "CHARL_TEST_LONG is not set"
elif [ -f "$text" ]; then
    expect 0 "import" "$bin/charl" data import text "$text" --val-split 0.1 -o shakespeare.h5
    learns shakespeare 3.1 # single characters leave 3.31
else
    skipped Shakespeare "CHARL_TEST_DATA names no folder with tinyshakespeare.txt"
fi

# Windows of one letter each: a masked one can be told from the others alone. Twenty letters leave ln 20 = 3.0.
awk 'BEGIN { for (i = 0; i < 10752; i++) printf "%c", 97 + int(i / 16) * 7 % 20 }' >letters.txt
expect 0 "import" "$bin/charl" data import text letters.txt --val-split 0.125 -o shakespeare.h5 --overwrite
learns letters 2.0 data.window=16 optimizer.learning_rate=3e-3 train.max_steps=60 eval.interval=60

set -- bert.ini -q train.max_steps=6 train.batch_size=8 train.slices=8 eval.interval=3 log.interval=1 checkpoint.interval=3 \
    data.window=16 device.share=yes
expect 0 "short" ranks 1 "$@" -o short
for how in "3 data.cache=none" "2 train.grad_accum_steps=2"; do
    rm -rf v
    expect 0 "ranks and setting $how" ranks "${how%% *}" "$@" -o v "${how#* }"
    same "ranks and setting $how" short v
done
resumes "masked" short 5 "$@"

# Steps that change nothing: all windows in each, so that only the masks differ; evaluations have the same ones in any run.
sed 's/= 0\.1$/= 0/' bert.ini >still.ini
still() {
    rm -rf v
    expect 0 "still" ranks 1 still.ini -q -o v optimizer.learning_rate=1e-30 train.max_steps=2 train.batch_size=146 train.slices=2 \
        eval.interval=1 log.interval=1 device.share=yes "$@"
    losses v | cut -d, -f3 | sed '1d;/^$/d' | sort -u >train.txt
    losses v | cut -d, -f4 | sed '1d;/^$/d' | sort -u >val.txt
    checks=$((checks + 1))
    [ "$(wc -l <val.txt)" -eq 1 ] || fail "still, $*: evaluations have other masks"
}
still
checks=$((checks + 1))
[ "$(wc -l <train.txt)" -eq 2 ] || fail "every step has the same masks"
mv val.txt all.txt
still data.masked=0.5
checks=$((checks + 1))
cmp -s val.txt all.txt && fail "data.masked changes nothing"

# A checkpoint: evaluated with the masks of the training, exported, and the start of a classifier.
checks=$((checks + 1))
for seed in 1 2; do
    "$bin/charl" eval bert.ini short/last.h5 data.window=16 device.share=yes run.seed=$seed >eval-$seed.txt 2>eval.log || fail "eval"
done
{ [ -s eval-1.txt ] && cmp -s eval-1.txt eval-2.txt; } || fail "two evaluations mask other tokens"
expect 2 "the next token" "$bin/charl" eval bert.ini short/last.h5 data.window=16 data.masked=0
says 1 "short/last.h5 was trained with data.masked = 0.15, and does not predict the next token"
expect 0 "ONNX" "$bin/charl" checkpoint export short/last.h5 -o bert.onnx
printf 'text,label\nabcdefg,a\nbcdefga,b\ncdefgab,a\ndefgabc,b\n' >texts.csv
expect 0 "texts" "$bin/charl" data import text-classes texts.csv --val-split 0 --window 8 -o texts.h5
page=$here/../../docs/models/bert.md
{
    sed '/^masked/d; /^\[layer cls.predictions.transform.dense\]/,/^decay_1d/d' bert.ini
    awk '/^    \[layer first\]/ { on = 1 } /^[^ ]/ { on = 0 } on { print substr($0, 5) }' "$page"
} >classes.ini
expect 0 "classifier" ranks 1 classes.ini -q -o classes data.path=texts.h5 data.window=auto init.from=short/last.h5 \
    "init.skip=cls.*, bert.pooler.*, classifier.*" train.max_steps=1 train.batch_size=4 device.share=yes

sed 's/257/256/' bert.ini >small.ini
expect 2 "no row for the mask" ranks 1 small.ini -o x device.share=yes
says 1 "vocab = 256, but the data have 257 tokens"
expect 0 "the table of layers" "$bin/charl" model show bert.ini
sed 's/^vocab = 257/vocab = 256/' bert.ini >few.ini
expect 2 "no room for the mask, before a training" "$bin/charl" model show few.ini
says 1 "embedding: vocab = 256, but the data have 257 tokens"
expect 2 "not tokens" ranks 1 mlp.ini -o x data.masked=0.1
says 1 "data.masked applies to tokens only, but .*digits.h5 contains images"
expect 2 "gpt" ranks 1 /dev/null -o x data.path=shakespeare.h5 model.type=gpt data.masked=0.1
says 1 "masked: is for models in which every token sees all others"
expect 2 "documents" ranks 1 bert.ini -o x data.documents=separate
says 1 "masked: needs documents = cross"
expect 2 "a prompt" ranks 1 bert.ini -o x eval.sample_prompt=abc
says 1 "sample_prompt: is continued by models of the next token"
expect 2 "predicted" "$bin/charl" predict short/last.h5
says 1 "is a masked language model, which charl predict does not support"
expect 2 "generated" "$bin/charl" generate bert.ini short/last.h5 -p abc
says 1 "predicts masked tokens \(data.masked\), not the next one"
finish

#!/bin/sh
# Shakespeare by characters with launch/shakespeare.ini made small: the vocabulary, and more than single characters tell.
# Needs $CHARL_TEST_DATA/tinyshakespeare.txt. CHARL_TEST_LONG=1: the setting as it is, which takes minutes.
text=${CHARL_TEST_DATA:-}/tinyshakespeare.txt
[ -f "$text" ] || { echo "skipped: CHARL_TEST_DATA names no folder with tinyshakespeare.txt"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

expect 0 "import" "$bin/charl" data import text "$text" --tokenizer chars --val-split 0.1 -o s.h5
says 1 "vocabulary of 65$"
says 1 "train +1,003,855 tokens$"

# reaches LOSS SETTINGS...: the last validation is at least so good
reaches() {
    _want=$1
    shift
    expect 0 "training" timeout 1500 "$bin/charl-train" "$here/../../launch/shakespeare.ini" -q -o run data.path="$T/s.h5" \
        device.share=yes "$@"
    checks=$((checks + 1))
    _loss=$(sed -n 's/.*"event":"val".*"loss":\([^,]*\),.*/\1/p' run/metrics.jsonl | tail -n 1)
    echo "validation loss $_loss"
    awk -v got="$_loss" -v want="$_want" 'BEGIN { exit !(got != "" && got + 0 <= want + 0) }' ||
        fail "validation loss $_loss, expected $_want"
}
if [ -n "$long" ]; then
    reaches 1.9
else # pairs of characters alone leave 2.48
    reaches 2.42 model.n_layer=2 model.n_embd=64 model.block_size=32 train.max_steps=400 optimizer.learning_rate=4e-3 \
        scheduler.warmup_steps=20 eval.interval=400 checkpoint.interval=0
fi
finish

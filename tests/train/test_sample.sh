#!/bin/sh
# eval.sample_prompt: text at each evaluation in the log and for TensorBoard, that of `charl generate` with the same weights; it changes
# nothing else, on any number of ranks.
. "$(dirname "$0")/common.sh"

make_gpt
cat >>gpt.ini <<'INI'
[train]
max_steps = 24
batch_size = 8
slices = 8
ema_decay = 0.9
[optimizer]
learning_rate = 1e-2
[eval]
interval = 8
[checkpoint]
interval = 8
[device]
share = yes
INI
set -- eval.sample_prompt=17 eval.sample_tokens=40

# samples RUN: the lines of its log, without times
samples() {
    sed -n 's/^[^ ]* sample //p' "$1/train.log"
}

expect 0 "without samples" ranks 1 gpt.ini -q -o plain
expect 0 "with samples" ranks 1 gpt.ini -q -o one "$@" log.formats=csv,tensorboard
same "samples change nothing" plain one
expect 0 "3 ranks" ranks 3 gpt.ini -q -o three "$@" dist.shard=optimizer log.formats=csv
same "3 ranks" plain three
checks=$((checks + 3))
[ "$(samples one | cut -d' ' -f1 | uniq | tr '\n' ' ')" = "step=8 step=16 step=24 " ] || fail "a sample is missing: $(samples one)"
[ "$(samples one)" = "$(samples three)" ] || fail "another sample on 3 ranks"
[ -z "$(samples plain)" ] || fail "a sample that nobody asked for"
for step in 8 24; do
    checks=$((checks + 1))
    "$bin/charl" generate gpt.ini "one/checkpoints/step-$(printf %08d $step).h5" --prompt 17 --tokens 40 2>/dev/null >text || fail "generate"
    # both hide bytes that are no text, each in its way
    [ "$(samples one | sed -n "s/^step=$step | //p" | tr -cd '0-9\n')" = "$(tr -cd '0-9\n' <text)" ] || fail "step $step: generate writes another text: $(cat text)"
done
# In other precisions too, and where the weights are packed.
sample_as_generated() { # NAME KEY=VALUE...
    _name=$1
    shift
    expect 0 "$_name" ranks 1 gpt.ini -q -o other eval.sample_prompt=17 eval.sample_tokens=40 "$@"
    "$bin/charl" generate gpt.ini other/last.h5 --prompt 17 --tokens 40 --no-cache "$@" 2>/dev/null >text || fail "$_name: generate"
    checks=$((checks + 1))
    [ "$(samples other | sed -n 's/^step=24 | //p' | tr -cd '0-9\n')" = "$(tr -cd '0-9\n' <text)" ] ||
        fail "$_name: generate writes another text: $(cat text)"
    rm -rf other
}
sample_as_generated "bf16" train.precision=bf16
for base in bf16 int4; do
    sample_as_generated "f16 on a base in $base" train.precision=f16 init.from=one/last.h5 lora.rank=4 lora.base=$base
done
samples one | sed -n 's/^step=24 | /    /p' | head -n 1 >line
checks=$((checks + 1))
grep -q -a -F -f line one/tb/events.out.tfevents.* || fail "TensorBoard has no sample"

# What is resumed samples what it would have sampled.
CHARL_FAULT=train.stop:10 expect 75 "stopped" ranks 2 gpt.ini -q -o stopped "$@"
expect 0 "resumed" ranks 1 gpt.ini -q -o stopped "$@"
checks=$((checks + 1))
[ "$(samples stopped)" = "$(samples one)" ] || fail "another sample after resuming"

expect 2 "no text" ranks 1 mlp.ini -q -o bad eval.sample_prompt=17
says 1 "eval.sample_prompt is continued by models of text; digits.h5 holds"
"$bin/charl" data import text text.txt -o whole.h5 >/dev/null || fail "import"
"$bin/charl" data import text text.txt --tokenizer chars --val-split 0.2 -o chars.h5 >/dev/null || fail "import of characters"
expect 3 "a character that the text does not have" ranks 2 gpt.ini -q -o bad data.path=chars.h5 eval.sample_prompt=17#
says 1 "eval.sample_prompt: the character \"#\""
for _i in $(seq 400); do printf '\001\000\002\000\003\000'; done >numbers.bin
"$bin/charl" data import tokens numbers.bin --vocab 9 --val-split 0.2 -o numbers.h5 >/dev/null || fail "import of token numbers"
expect 2 "no tokenizer" ranks 2 gpt.ini -q -o bad data.path=numbers.h5 "$@"
says 1 "eval.sample_prompt needs a tokenizer, which numbers.h5 does not hold"
expect 2 "no validation set" ranks 2 gpt.ini -q -o bad data.path=whole.h5 "$@"
says 1 "eval.sample_prompt is continued at evaluations, which need a validation set: whole.h5 has none"
finish

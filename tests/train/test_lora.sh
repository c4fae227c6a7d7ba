#!/bin/sh
# Low-rank adapters on weights of another run: only they are trained, the same bits for any number of ranks and after an
# interruption, and what they are trained on is used by evaluation and generation.
. "$(dirname "$0")/common.sh"
make_gpt
cat >>gpt.ini <<'INI'
[train]
max_steps = 6
batch_size = 8
slices = 4
[optimizer]
learning_rate = 3e-3
[eval]
interval = 6
[checkpoint]
interval = 3
INI
expect 0 "the base" ranks 1 gpt.ini -q -o base

lora() { # lora RANKS ARGUMENTS...
    _r=$1
    shift
    ranks "$_r" gpt.ini init.from=base/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*" lora.dropout=0.1 "$@"
}
expect 0 "on 1 rank" lora 1 -o one
says 1 "model .*parameters \([0-9,]+ of them frozen\)"
expect 0 "on 2 ranks" lora 2 -o two dist.shard=optimizer
same "on 2 ranks" one two
export CHARL_FAULT="train.stop:4"
expect 75 "stopped on 3 ranks" lora 3 -o more
unset CHARL_FAULT
expect 0 "gone on with 1" lora 1 -o more
same "gone on with 1" one more

expect 1 "what was trained" "$bin/charl" checkpoint diff base/last.h5 one/last.h5
says 16 "model/.*lora_[AB].weight" # of 2 blocks with 4 linear layers
says 0 "model/(.*weight|.*bias).*differ.*c_attn.weight"
checks=$((checks + 1))
"$bin/charl" checkpoint show one/last.h5 | grep -q 'optim/exp_avg/h.0.mlp.c_fc.lora_B.weight' || fail "adapters have no state"
"$bin/charl" checkpoint show one/last.h5 | grep -q 'optim/exp_avg/h.0.mlp.c_fc.weight' && fail "frozen weights have state"
expect 0 "evaluation" "$bin/charl" eval gpt.ini one/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*"
grep -o 'loss=[0-9.]*' log | sort -u >evaluated
sed -n 's/.*"event":"val".*"loss":\([0-9.]*\).*/loss=\1/p' one/metrics.jsonl | tail -n 1 >trained
checks=$((checks + 1))
[ -s trained ] && cmp -s evaluated trained || fail "evaluation: $(cat evaluated), in training: $(cat trained)"
expect 0 "text" "$bin/charl" generate gpt.ini one/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*" --prompt "the " --tokens 5 --seed 1

# The base in fewer bits: losses are near those in full, the bits do not depend on ranks, and the base is left where it is.
loss_of() {
    sed -n 's/.*"event":"val".*"loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1
}
for base in bf16 int8 int4; do
    expect 0 "$base" lora 1 -o packed lora.base=$base
    if [ $base != int8 ] || [ -n "$long" ]; then # packed in blocks as int4
        export CHARL_FAULT="train.stop:4"
        expect 75 "$base stopped on 2 ranks" lora 2 -o more$base lora.base=$base
        unset CHARL_FAULT
        expect 0 "$base gone on with 1" lora 1 -o more$base lora.base=$base
        same "$base" packed more$base
    fi
    checks=$((checks + 1))
    awk -v a="$(loss_of packed)" -v b="$(loss_of one)" 'BEGIN { d = a - b; exit !(a > 0 && a != b && d * d < 0.0009) }' ||
        fail "$base: $(loss_of packed), in f32 $(loss_of one)"
    expect 0 "$base evaluated" "$bin/charl" eval gpt.ini packed/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*" lora.base=$base
    says 1 "loss=$(loss_of packed | cut -c 1-6)"
    expect 0 "$base shown" "$bin/charl" checkpoint show packed/last.h5
    says 1 "model/h.0.attn.c_attn.weight .* in the base"
    expect 0 "$base replayed" "$bin/charl" replay packed --step 6
    says 1 '^ *6 .*  as recorded$'
    expect 0 "$base verified" "$bin/charl" checkpoint verify packed/last.h5
    for kept in $base f32; do
        "$bin/charl" generate gpt.ini packed/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*" lora.base=$kept --prompt "the " --tokens 400 \
            --temperature 2 --seed 1 2>/dev/null >text$kept || fail "$base: generate"
    done
    checks=$((checks + 1))
    [ $base != int4 ] || { cmp -s textint4 textf32 && fail "generate has not packed the base"; }
    rm -rf packed more$base
done
expect 0 "int4 in bf16, all weights" lora 1 -o packed lora.base=int4 train.precision=bf16 checkpoint.weights=all
cp -r packed again && rm again/checkpoints/step-00000006.h5 again/last.h5 again/best.h5
expect 0 "gone on with packed weights" lora 1 -o again lora.base=int4 train.precision=bf16 checkpoint.weights=all
same "gone on with packed weights" packed again
expect 0 "text of a packed base" "$bin/charl" generate gpt.ini packed/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*" lora.base=int4 \
    --prompt "the " --tokens 5 --seed 1
rm -rf packed again

# Exported, they are part of the weights: a model without adapters computes the same.
expect 0 "exported" "$bin/charl" checkpoint export one/last.h5 -o merged.safetensors
expect 0 "the merged model" ranks 1 gpt.ini -q -o merged init.from=merged.safetensors optimizer.learning_rate=1e-30 train.max_steps=1
checks=$((checks + 1))
merged=$(sed -n 's/.*"event":"val".*"loss":\([0-9.]*\).*/\1/p' merged/metrics.jsonl | tail -n 1)
awk -v a="$merged" -v b="$(sed 's/loss=//' trained)" 'BEGIN { exit !(a > 0 && (a - b) * (a - b) < 1e-9) }' ||
    fail "merged: $merged, adapted: $(cat trained)"

# evaluated RUN: the validation loss of the last evaluation in training.
evaluated() {
    sed -n 's/.*"event":"val".*"loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1
}
expect 0 "exported for transformers" "$bin/charl" checkpoint export one/last.h5 -o hf --layout huggingface
expect 0 "the folder" ranks 1 gpt.ini -q -o folder model.from=hf model.block_size=16 init.from=hf optimizer.learning_rate=1e-30 train.max_steps=1
checks=$((checks + 1))
awk -v a="$(evaluated folder)" -v b="$merged" 'BEGIN { exit !(a > 0 && (a - b) * (a - b) < 1e-9) }' || fail "the folder: $(evaluated folder), merged: $merged"
expect 0 "exported for peft" "$bin/charl" checkpoint export one/last.h5 -o peft --layout peft
checks=$((checks + 1))
grep -q '"r": 4,' peft/adapter_config.json && [ -s peft/adapter_model.safetensors ] || fail "exported for peft: $(ls peft)"
# A folder that could not be written whole is not left behind, an empty one stays empty, and the next try is not refused.
mkdir empty
for layout in huggingface peft; do
    for at in 1 2; do
        export CHARL_FAULT="io.fsync:$at:28"
        for out in full empty; do
            expect 8 "a full disk" "$bin/charl" checkpoint export one/last.h5 -o $out --layout $layout --shard-size 20000
            says 1 "fsync failed: No space left"
        done
        unset CHARL_FAULT
        checks=$((checks + 1))
        [ ! -e full ] && [ -d empty ] && [ -z "$(ls -A empty)" ] || fail "a full disk, --layout $layout: $(ls -A full empty)"
    done
    expect 0 "the next try" "$bin/charl" checkpoint export one/last.h5 -o empty --layout $layout
    rm empty/*
done
expect 8 "a folder that is not empty" "$bin/charl" checkpoint export one/last.h5 -o hf --layout huggingface
checks=$((checks + 1))
[ -s hf/config.json ] && [ -s hf/model.safetensors ] || fail "a refused export removed what was there: $(ls hf)"
expect 2 "no adapters" "$bin/charl" checkpoint export base/last.h5 -o nopeft --layout peft
says 1 "error: base/last.h5 has no low-rank adapters"

# A checkpoint holds what is trained, and leaves the rest to its base.
expect 0 "verified" "$bin/charl" checkpoint verify one/last.h5
expect 0 "shown" "$bin/charl" checkpoint show one/last.h5
says 1 "model/wte.weight .* in the base"
says 0 "lora_A.* in the base"
expect 0 "with all weights" lora 1 -o all checkpoint.weights=all
expect 0 "the same weights" "$bin/charl" checkpoint diff one/last.h5 all/last.h5
says 0 "^(model|optim)/"
checks=$((checks + 1))
[ "$(stat -L -c %s all/last.h5)" -gt $((2 * $(stat -L -c %s one/last.h5))) ] || fail "adapters take as much as the model"
cp -r all mixed && rm mixed/checkpoints/step-00000006.h5 mixed/last.h5 mixed/best.h5
expect 0 "goes on from all weights" lora 2 -o mixed
same "goes on from all weights" one mixed

expect 0 "replayed" "$bin/charl" replay one --step 6
says 1 '^ *6 .*  as recorded$'
cp -L base/last.h5 moved.h5
mv base gone
rm one/init.from.h5
expect 5 "without its base" "$bin/charl" eval gpt.ini one/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*"
says 1 "error: .*one/last.h5 holds only the trained weights; the others are in .*base/checkpoints/step-00000006.h5, which is not there"
expect 0 "the base has moved" "$bin/charl" eval gpt.ini one/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*" init.from=moved.h5
checks=$((checks + 1))
grep -o 'loss=[0-9.]*' log | sort -u | cmp -s - trained || fail "the base has moved: $(cat log)"
expect 0 "exported with its base" "$bin/charl" checkpoint export one/last.h5 -o again.safetensors --base moved.h5
checks=$((checks + 1))
cmp -s merged.safetensors again.safetensors || fail "exported with its base: another file"
expect 5 "another base" "$bin/charl" checkpoint export one/last.h5 -o none.safetensors --base gone/checkpoints/step-00000003.h5
says 1 "error: .*one/last.h5 was trained on other weights: the checksum of"
expect 5 "a base of another shape" "$bin/charl" checkpoint export one/last.h5 -o none.safetensors --base peft/adapter_model.safetensors
says 1 "error: .*one/last.h5 was trained on other weights than those of peft/adapter_model.safetensors"
expect 0 "adapters as a start" ranks 1 gpt.ini -q -o second init.from=all/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*"
expect 0 "a base with a base" ranks 1 gpt.ini -q -o third init.from=second/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*" train.max_steps=1
expect 0 "its text" "$bin/charl" generate gpt.ini third/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*" --prompt "the " --tokens 5 --seed 1
mv gone base

# Frozen weights are left to the base where that is asked for, and never to a file of the run itself.
frozen() { # frozen RANKS ARGUMENTS...
    _r=$1
    shift
    ranks "$_r" gpt.ini -q init.from=base/last.h5 "train.freeze=*, !h.1.*, !ln_f.*" optimizer.layer_decay=0.8 "$@"
}
expect 0 "frozen, all saved" frozen 1 -o frozen
expect 0 "frozen, apart" frozen 2 -o apart checkpoint.weights=trained
expect 0 "frozen" "$bin/charl" checkpoint diff frozen/last.h5 apart/last.h5
says 0 "^(model|optim)/"
"$bin/charl" checkpoint show apart/last.h5 >log
says 1 "model/h.0.mlp.c_fc.weight .* in the base"
expect 2 "nothing to leave it to" ranks 1 gpt.ini -q -o none checkpoint.weights=trained
says 1 "error: .*weights.*\[init\] from"
cp -r base inside
expect 0 "the base in the run directory" lora 1 -o inside --overwrite init.from=inside/last.h5
"$bin/charl" checkpoint show inside/last.h5 >log
says 0 "in the base"

# train.freeze says what else is trained.
expect 0 "a norm too" lora 1 -o norm "train.freeze=!ln_f.*" train.max_steps=2
checks=$((checks + 1))
"$bin/charl" checkpoint show norm/last.h5 | grep -q 'optim/exp_avg/ln_f.weight' || fail "train.freeze = !ln_f.* trains no norm"
expect 2 "no such layer" ranks 1 gpt.ini -q -o none lora.rank=2 lora.targets=attention
says 1 "error: .*lora.targets = attention: no linear layer has such a name"

# The base trains on until the checkpoint that the adapters stand on is removed there: they go on, from its second name in their own directory.
rm -rf again && expect 0 "adapters on a link" lora 1 -q -o again
checks=$((checks + 1))
grep -q '^from = .*/base/checkpoints/step-00000006.h5$' again/config.ini || fail "the base as recorded: $(grep '^from' again/config.ini)"
for steps in 12 21; do
    expect 0 "the base, $steps steps" ranks 1 gpt.ini -q -o base train.max_steps=$steps checkpoint.keep_last=2
done
checks=$((checks + 1))
[ -e base/checkpoints/step-00000006.h5 ] && fail "the base is still there: $(ls base/checkpoints)"
expect 0 "its adapters, nothing left" lora 1 -o again
expect 0 "its adapters, evaluated" "$bin/charl" eval again/config.ini again/last.h5
expect 0 "its adapters, generated from" "$bin/charl" generate again/config.ini again/last.h5 --prompt "the " --tokens 5 --seed 1
expect 0 "its adapters, exported" "$bin/charl" checkpoint export again/last.h5 -o again.safetensors
expect 0 "its adapters, trained on" lora 1 -o again train.max_steps=9
says 1 "start step=6/9"
finish

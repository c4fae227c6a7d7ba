#!/bin/sh
# Low-rank adapters on weights of another run: only they are trained, the same bits for any number of ranks and after an
# interruption, and what they are trained on is used by evaluation and generation.
here=$(dirname "$0")
. "$here/common.sh"
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
expect 0 "on 2 ranks" lora 2 -o two dist.shard_optimizer=yes
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

# Exported, they are part of the weights: a model without adapters computes the same.
expect 0 "exported" "$bin/charl" checkpoint export one/last.h5 -o merged.safetensors
expect 0 "the merged model" ranks 1 gpt.ini -q -o merged init.from=merged.safetensors optimizer.learning_rate=1e-30 train.max_steps=1
checks=$((checks + 1))
merged=$(sed -n 's/.*"event":"val".*"loss":\([0-9.]*\).*/\1/p' merged/metrics.jsonl | tail -n 1)
awk -v a="$merged" -v b="$(sed 's/loss=//' trained)" 'BEGIN { exit !(a > 0 && (a - b) * (a - b) < 1e-9) }' ||
    fail "merged: $merged, adapted: $(cat trained)"

expect 2 "exported for transformers" "$bin/charl" checkpoint export one/last.h5 -o hf --layout huggingface
says 1 "error: one/last.h5 has low-rank adapters"
checks=$((checks + 1))
[ -e hf ] && fail "a refused export leaves a folder"

# train.freeze says what else is trained.
expect 0 "a norm too" lora 1 -o norm "train.freeze=!ln_f.*" train.max_steps=2
checks=$((checks + 1))
"$bin/charl" checkpoint show norm/last.h5 | grep -q 'optim/exp_avg/ln_f.weight' || fail "train.freeze = !ln_f.* trains no norm"
expect 2 "no such layer" ranks 1 gpt.ini -q -o none lora.rank=2 lora.targets=attention
says 1 "error: .*lora.targets = attention: no linear layer has such a name"
finish

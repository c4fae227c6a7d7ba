#!/bin/sh
# Models go to Hugging Face's layout and come back the same: GPT-2's with biases that the model does not have, Llama's in shards. A model is
# started from such a folder on two ranks, with a shorter window; and what does not fit is refused by its name.
. "$(dirname "$0")/common.sh"

make_gpt
cat >>gpt.ini <<'INI'
[train]
max_steps = 1
batch_size = 8
[eval]
interval = 0
[device]
share = yes
INI
sed 's/^dropout.*/n_kv_head = 2\nnorm = rms\nmlp = swiglu\npositions = rotary\nrope_scaling = llama3\nrope_original = 16\ntie_weights = no/' gpt.ini >llama.ini
path=$(sed -n 's/^path *= *//p' gpt.ini)
block=$(sed -n 's/^block_size *= *//p' gpt.ini)

# tensors CHECKPOINT: names and checksums of its weights, without biases of next to nothing
tensors() {
    "$bin/charl" checkpoint show "$1" | awk '$1 ~ /^model\// && $(NF - 1) > 1e-20 { print $1, $NF }'
}

# from FOLDER NAME OPTIONS...: a run of one step that changes nothing, from the model in FOLDER
from() {
    _folder=$1 _name=$2
    shift 2
    printf '[data]\npath = %s\n[model]\nfrom = %s\n[init]\nfrom = %s\n[train]\nmax_steps = 1\nbatch_size = 8\n[eval]\ninterval = 0\n' \
        "$path" "$_folder" "$_folder" >"$_name.ini"
    printf '[optimizer]\nlearning_rate = 1e-30\nweight_decay = 0\n[device]\nshare = yes\n' >>"$_name.ini"
    ranks 2 "$_name.ini" -o "$_name" "$@"
}

for model in gpt llama; do
    expect 0 "$model" ranks 1 $model.ini -q -o $model
    [ $model = gpt ] && size= || size="--shard-size 10000"
    # shellcheck disable=SC2086
    expect 0 "$model exported" "$bin/charl" checkpoint export $model/last.h5 --layout huggingface $size -o $model-hf
    from $model-hf $model-back -q >log 2>&1
    checks=$((checks + 1))
    tensors $model/last.h5 >want
    tensors $model-back/last.h5 >got
    [ -s want ] && cmp -s want got || fail "$model came back changed: $(diff want got | head -n 4) $(tail -n 3 log)"
    expect 0 "$model exported again" "$bin/charl" checkpoint export $model-back/last.h5 --layout huggingface -o $model-again
done
checks=$((checks + 4))
grep -q '"rope_scaling": {"rope_type": "llama3", "factor": 8.0, .*"original_max_position_embeddings": 16}' llama-hf/config.json ||
    fail "llama-hf/config.json has no rope_scaling: $(cat llama-hf/config.json)"
"$bin/charl" checkpoint show --config --resolved llama-back/last.h5 >resolved
{ grep -qx 'rope_scaling = llama3' resolved && grep -qx 'rope_original = 16' resolved; } || fail "rope_scaling was lost"
[ "$(ls llama-hf | grep -c '^model-.*safetensors$')" -gt 2 ] || fail "--shard-size made no shards"
[ -f llama-again/model.safetensors ] || fail "one shard is not model.safetensors"

expect 0 "a shorter window" from gpt-hf short model.block_size=$((block / 2))
says 1 "warning: .*gpt-hf: wpe.weight: the first $((block / 2)) of $block rows"
expect 5 "a longer window" from gpt-hf long model.block_size=$((block * 2))
says 1 "misshapen: .*wpe.weight is .* in the model; the longest window is $block$"
says 1 "model.block_size = $block takes the window of the file"
expect 0 "another base of the angles" from llama-again theta model.rope_theta=77
says 1 'warning: .*llama-again was trained with another model: \[model\] rope_theta = 77 \(was 10000\)$'
expect 0 "other heads" ranks 2 gpt.ini -q -o heads --init-from gpt/last.h5 model.n_head=2 model.dropout=0.2
says 1 'warning: .*gpt/checkpoints/step-00000001.h5 was trained with another model: \[model\] n_head = 2 \(was 4\)$'
expect 2 "fewer tokens than the data" from gpt-hf few model.vocab_size=3
says 1 "model.vocab_size = 3, but the data have"
expect 5 "more tokens than the file" from gpt-hf many model.vocab_size=1000
says 1 "misshapen: .*wte.weight is .* in the file, \[1000,"
expect 2 "no folder" from nothing-hf no
says 1 "\[model\] from: .*nothing-hf/config.json: cannot be opened: No such file"
expect 5 "Llama's weights in GPT-2" ranks 1 gpt.ini -o no --init-from llama-hf
says 1 "missing: .*wpe.weight"
printf '[data]\npath = digits.h5\n[model]\ntype = mobilenet\n[train]\nmax_steps = 1\nbatch_size = 8\n[device]\nshare = yes\n' >mobile.ini
expect 0 "mlp" ranks 1 mobile.ini -q -o image model.type=mlp
expect 0 "its weights" "$bin/charl" checkpoint export image/last.h5 -o image.safetensors
expect 5 "names of another library" ranks 1 mobile.ini -o no --init-from image.safetensors
says 1 "has no parameter of this model"
says 1 "hint: model.family = torchvision\|timm names the library whose names the model has, or init.rename = OLD -> NEW changes names"
expect 5 "an index of a file that is missing" sh -c "rm llama-hf/model-00002*; '$bin/charl-train' llama.ini -o no --init-from llama-hf"
says 1 "model.safetensors.index.json: .*model-00002.* cannot be opened"

expect 8 "a folder with files" "$bin/charl" checkpoint export gpt/last.h5 --layout huggingface -o gpt-hf
says 1 "gpt-hf: is not empty"
expect 2 "no such model" ranks 1 gpt.ini -q -o mixed model.norm=rms model.n_head=3
expect 0 "a mixture" ranks 1 gpt.ini -q -o mixed model.norm=rms
expect 2 "a mixture exported" "$bin/charl" checkpoint export mixed/last.h5 --layout huggingface -o no-hf
says 1 "settings that no model of Hugging Face has together: gpt2 has no norm = rms"
checks=$((checks + 1))
[ ! -e no-hf ] || fail "a folder was left behind"
finish

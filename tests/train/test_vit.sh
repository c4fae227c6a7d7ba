#!/bin/sh
# The vision transformer of docs/models/vit.md, with fewer patches and numbers in each, learns to tell digits that it was not trained on.
# CHARL_TEST_LONG=1: as the page has it.
. "$(dirname "$0")/common.sh"

awk '/^```/ { on = $0 == "```ini" && !n++; next } on' "$here/../../docs/models/vit.md" >vit.ini

# learns NAME ACCURACY SETTINGS...: the page's model, trained to the end, is right at least so often; chance is 0.1
learns() {
    _name=$1 _least=$2
    shift 2
    expect 0 "$_name" ranks 1 vit.ini -q -o "$_name" device.share=yes "$@"
    got=$(sed -n 's/.*"event":"val".*"accuracy":\([^,}]*\).*/\1/p' "$_name/metrics.jsonl" | tail -n 1)
    echo "$_name: accuracy $got"
    checks=$((checks + 1))
    awk -v got="$got" -v least="$_least" 'BEGIN { exit !(got + 0 >= least + 0) }' || fail "$_name: accuracy $got, expected at least $_least"
}
"$bin/charl" data make digits digits.h5 -t 8000 -v 500 --overwrite >/dev/null || exit 1
learns short 0.55 layer.patch_embed.proj.kernel=7 layer.patch_embed.proj.stride=7 layer.pos_embed.block_size=17 \
    layer.patch_embed.proj.channels=32 "layer.patches.shape=32, -1" layer.blocks.width=32 layer.blocks.repeat=2 \
    train.batch_size=32 train.epochs=4 optimizer.learning_rate=3e-3 eval.interval=4ep
# Stochastic depth: one draw for each sample of the global batch, so any number of ranks has the same bits, also after stopping; evaluation draws none.
cat >deep.ini <<'INI'
[data]
path = digits.h5
[model]
type = vit
image_size = 28
patch_size = 7
n_layer = 3
n_head = 2
n_embd = 16
stochastic_depth = 0.5
[train]
batch_size = 32
slices = 8
max_steps = 6
[eval]
interval = 0
[log]
interval = 1
[device]
share = yes
INI
expect 0 "stochastic depth" ranks 1 deep.ini -q -o deep
expect 0 "stochastic depth on 3 ranks" ranks 3 deep.ini -q -o deep-3
same "stochastic depth on 3 ranks" deep deep-3
resumes "stochastic depth" deep 4 deep.ini -q
expect 0 "no stochastic depth" ranks 1 deep.ini -q -o flat model.stochastic_depth=0
losses deep >a.csv
losses flat >b.csv
checks=$((checks + 1))
cmp -s a.csv b.csv && fail "stochastic depth changes nothing"
expect 0 "evaluation" "$bin/charl" eval deep.ini deep/last.h5
was=$(grep '^val ' log)
expect 0 "evaluation without" "$bin/charl" eval deep.ini deep/last.h5 model.stochastic_depth=0
checks=$((checks + 1))
[ -n "$was" ] && [ "$was" = "$(grep '^val ' log)" ] || fail "evaluation has stochastic depth: $was"
# Torchvision's and timm's rates: from 0 at the first block; a block without a shortcut has nothing to skip.
expect 0 "efficientnet" "$bin/charl" model show deep.ini model.type=efficientnet model.stochastic_depth=0.2
says 9 "[.]drop_path +stochastic_depth "

if [ -n "$long" ]; then
    "$bin/charl" data make digits digits.h5 --overwrite >/dev/null || exit 1
    learns page 0.75
else
    skipped "the whole page" "CHARL_TEST_LONG is not set"
fi
finish

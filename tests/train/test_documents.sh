#!/bin/sh
# data.documents: attention and loss within documents. The same bits for any number of ranks and any place of the data; a document
# changes nothing for another; what is refused.
. "$(dirname "$0")/common.sh"

mkdir texts
for i in $(seq 10 60); do
    seq $((i * 10)) $((i * 11)) >texts/$i.txt
done
"$bin/charl" data import text texts -o text.h5 --val-split 0.2 >log 2>&1 || { cat log; exit 1; }
cat >gpt.ini <<'INI'
[run]
output_dir = run
seed = 6
[data]
path = text.h5
documents = separate
[model]
type = gpt
n_layer = 2
n_head = 4
n_embd = 32
block_size = 80
dropout = 0.1
[train]
max_steps = 6
batch_size = 8
slices = 8
[log]
interval = 1
[eval]
interval = 3
[device]
share = yes
INI
expect 0 "separate" ranks 1 gpt.ini -q -o one
for how in "3 data.cache=none" "2 train.grad_accum_steps=2"; do
    rm -rf v
    # shellcheck disable=SC2086 # a number and a setting
    expect 0 "ranks and setting $how" ranks ${how%% *} gpt.ini -q -o v ${how#* }
    same "ranks and setting $how" one v
done
rm -rf v
export CHARL_FAULT="train.stop:3"
expect 75 "stopped" ranks 2 gpt.ini -q -o v data.cache=none
unset CHARL_FAULT
expect 0 "resumed" ranks 1 gpt.ini -q -o v
same "resumed" one v
expect 0 "across documents" ranks 1 gpt.ini -q -o cross data.documents=cross
checks=$((checks + 1))
losses one >a.csv
losses cross >b.csv
cmp -s a.csv b.csv && fail "documents = separate changes nothing"
expect 0 "rotary positions" ranks 1 gpt.ini -q -o r model.positions=rotary
expect 0 "rotary positions, streamed" ranks 3 gpt.ini -q -o v2 model.positions=rotary data.cache=none
same "rotary positions, streamed" r v2

printf 'a b c d e f g h i j k l m n o p q r s t u v w x y z\n' >words.txt
"$bin/charl" data import text words.txt words.txt words.txt words.txt -o few.h5 >log 2>&1 || cat log
/usr/bin/python3 - <<'PY' 2>/dev/null && {
import h5py
with h5py.File("few.h5", "r+") as f:
    del f["train/doc_start"], f["crc/train/doc_start"]
PY
    expect 2 "no documents" ranks 1 gpt.ini -o x data.path=few.h5 model.block_size=8 data.val_split=0
    says 1 "few.h5 does not say where documents begin"
}
# Conversations: only answers count; packed into windows they have the losses that they have alone.
cat >chat.jsonl <<'JSON'
{"messages":[{"role":"system","content":"Be short."},{"role":"user","content":"Hi?"},{"role":"assistant","content":"Yes."}]}
{"conversations":[{"from":"human","value":"2+2"},{"from":"gpt","value":"4"},{"from":"human","value":"3+3"},{"from":"gpt","value":"6"}]}
{"instruction":"Reverse","input":"abc","output":"cba"}

{"prompt":"x <|im_end|>","completion":"y"}
JSON
printf '{"user": {"before": "Q", "after": "."}, "assistant": {"before": "A", "after": "{end}"}, "system": {"after": "|"}}' >own.json
has_text() { # has_text FILE TEXT TOKENS COUNTED: the tokens of FILE, NUL as ~, begin with TEXT; how many there are, how many count
    checks=$((checks + 1))
    /usr/bin/python3 - "$@" <<'PY' || fail "$*"
import sys
try:
    import h5py
except ImportError:
    sys.exit(0)
with h5py.File(sys.argv[1]) as f:
    tokens, w = bytes(f["train/tokens"][...]), f["train/weights"][...]
    text = tokens.decode().replace("\0", "~").replace("\n", "/")
    assert text.startswith(sys.argv[2]) and len(tokens) == int(sys.argv[3]) and w.sum() == int(sys.argv[4]), (text, len(tokens), w.sum())
PY
}
expect 0 "a template of one's own" "$bin/charl" data import chat chat.jsonl --template own.json -o own.h5
has_text own.h5 'Be short.|QHi?.AYes.~Q2+2.A4~Q3+3.A6~QReverse//abc.Acba~Qx <|im_end|>.Ay~' 73 15
expect 0 "packed" "$bin/charl" data import chat chat.jsonl --template own.json --window 32 -o packed.h5
has_text packed.h5 'Be short.|QHi?.AYes.~~~~~~~~~~~~Q2+2.A4~Q3+3.A6~~~~~~~~~~~~~~~~~QReverse//abc.Acba~' 129 15
says 0 "has no token"
expect 0 "chatml" "$bin/charl" data import chat chat.jsonl -o ml.h5
says 1 "note: the tokenizer has no token <[|]im_start[|]>, so it is written as text; --template alpaca needs none"
has_text ml.h5 '<|im_start|>system/Be short.<|im_end|>/<|im_start|>user/Hi?<|im_end|>/<|im_start|>assistant/Yes.<|im_end|>/<|' 387 65
expect 3 "too long" "$bin/charl" data import chat chat.jsonl --window 32 -o x.h5
says 1 "chat.jsonl:1: a conversation of 107 tokens is longer than the window of 32"
expect 0 "cut" "$bin/charl" data import chat chat.jsonl --window 128 --longer cut -o cut.h5
printf '{"messages": [{"role": "tool", "content": "x"}]}\n' >tool.jsonl
expect 3 "no role" "$bin/charl" data import chat tool.jsonl -o x.h5
says 1 'tool.jsonl:1: "tool" is not a role'
printf '{"text": "x"}\n' >line.jsonl
expect 3 "no conversation" "$bin/charl" data import chat line.jsonl -o x.h5
says 1 "line.jsonl:1: not a conversation; a line has messages"
expect 2 "no template" "$bin/charl" data import chat chat.jsonl --template chatm -o x.h5
says 1 "template: chatml, llama3, alpaca or a file"
set -- model.block_size=32 train.batch_size=2 train.slices=2 train.max_steps=2 eval.interval=0 model.dropout=0
expect 0 "trained on packed ones" ranks 2 gpt.ini -q -o chat data.path=packed.h5 "$@"
expect 2 "another window" ranks 1 gpt.ini -o x data.path=packed.h5 "$@" model.block_size=16
says 1 "packed.h5: documents were packed into windows of 32 tokens, but the window .* is 16"
mean() { # the loss of the answers in FILE
    "$bin/charl" eval gpt.ini chat/last.h5 -s train "$@" 2>&1 | sed -n 's/.*loss=\([^ ]*\) .*/\1/p'
}
for i in 1 2 3 5; do
    sed -n ${i}p chat.jsonl >one.jsonl
    "$bin/charl" data import chat one.jsonl --template own.json --window 32 -o alone.h5 --overwrite >log 2>&1 || cat log
    mean "$@" data.path=alone.h5
done >alone.txt
mean "$@" data.path=packed.h5 >packed.txt
checks=$((checks + 1))
awk 'NR == FNR { sum += $1 * n[FNR]; next } { d = $1 - sum / 15; d = d < 0 ? -d : d; ok = d < 1e-5 * $1; print "packed " $1 ", alone " sum / 15 }
    BEGIN { n[1] = 5; n[2] = 4; n[3] = 4; n[4] = 2 } END { exit !ok }' alone.txt packed.txt || fail "packed conversations have another loss"

cat >lstm.ini <<'INI'
[data]
path = text.h5
documents = separate
[layer embed]
type = embedding
vocab = 256
dim = 8
[layer rnn]
type = lstm
hidden_size = 8
[layer head]
type = linear
out = 256
[train]
batch_size = 8
[device]
share = yes
INI
expect 2 "a recurrent layer" ranks 1 lstm.ini -o x
says 1 "a recurrent layer carries its state from one document to the next; data.documents = separate is for attention"
finish

#!/bin/sh
# data.documents: attention and loss within documents. The same bits for any number of ranks and any place of the data; a document
# changes nothing for another; what is refused.
here=$(dirname "$0")
. "$here/common.sh"

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

#!/bin/sh
# Transformers, GPT-2's kind and Llama's: the same bits for any number of ranks, with dropout and with one matrix for
# embedding and head, and after stopping and going on with another number; they learn; what does not fit. CHARL_TEST_LONG=1: one row on each rank, too.
. "$(dirname "$0")/common.sh"

make_gpt
cat >>gpt.ini <<'INI'
[train]
max_steps = 24
batch_size = 8
slices = 8
grad_clip = 1
[optimizer]
learning_rate = 1e-2
[eval]
interval = 12
[log]
interval = 1
[device]
share = yes
INI
sed 's/^dropout.*/n_kv_head = 2\nnorm = rms\nmlp = swiglu\npositions = rotary\ntie_weights = no/' gpt.ini >llama.ini

for n in 1 3 ${long:+8}; do
    expect 0 "gpt on $n ranks" ranks $n gpt.ini -q -o gpt-$n
    [ $n -eq 1 ] || same "gpt on $n ranks" gpt-1 gpt-$n
done
expect 0 "small buckets on 2 ranks" ranks 2 gpt.ini -q -o gpt-2 dist.bucket_mb=0.01 data.cache=none
same "small buckets on 2 ranks" gpt-1 gpt-2
expect 0 "small buckets, summed by the devices of 3 ranks" ranks 3 gpt.ini -q -o gpt-p dist.bucket_mb=0.01 dist.allreduce=peer
same "small buckets, summed by the devices of 3 ranks" gpt-1 gpt-p
for n in 1 2; do
    expect 0 "llama on $n ranks" ranks $n llama.ini -q -o llama-$n
done
same "llama on 2 ranks" llama-1 llama-2

export CHARL_FAULT="train.stop:15"
expect 75 "stopped at 14 on 3 ranks" ranks 3 gpt.ini -q -o s
unset CHARL_FAULT
expect 0 "resumed on 1 rank" ranks 1 gpt.ini -q -o s
same "stopped and resumed" gpt-1 s

# A digit of the next number is easier than any of 256 bytes.
for model in gpt llama; do
    checks=$((checks + 1))
    awk -F, -v m=$model '$4 != "" { last = $4 } END { print m, last; exit !(last > 0 && last < 2.5) }' $model-1/metrics.csv ||
        fail "$model: has not learned"
done

# One matrix, stored once, with nanoGPT's names.
expect 0 "tensors" "$bin/charl" checkpoint show gpt-1/last.h5
says 1 " model/wte.weight"
says 0 " model/lm_head.weight"
says 1 " model/h.1.attn.c_attn.weight"
expect 0 "tensors" "$bin/charl" checkpoint show llama-1/last.h5
says 1 " model/lm_head.weight"
says 0 " model/wpe.weight"

# More rows than tokens: generated text has none of the others, and the model of a checkpoint is found again.
expect 0 "padded vocabulary" ranks 2 gpt.ini -q -o padded model.vocab_multiple=100
expect 0 "tensors" "$bin/charl" checkpoint show padded/last.h5
says 1 " model/wte.weight .*300"
expect 0 "text of a padded vocabulary" "$bin/charl" generate gpt.ini padded/last.h5 --tokens 20 --prompt 1 model.vocab_multiple=100
expect 0 "evaluation of a padded vocabulary" "$bin/charl" eval gpt.ini padded/last.h5 model.vocab_multiple=100
expect 5 "another vocabulary" "$bin/charl" generate gpt.ini padded/last.h5 --tokens 20 --prompt 1 model.vocab_multiple=64

expect 2 "heads" ranks 1 gpt.ini --dry-run model.n_head=5
says 1 "n_embd: 32 does not divide among n_head = 5"
expect 2 "key heads" ranks 1 gpt.ini --dry-run model.n_kv_head=3
says 1 "n_kv_head: 3 does not divide n_head = 4"
finish

#!/bin/sh
# charl generate: text that depends on the seed alone, the same with and without the cache, also when the window slides; what it refuses.
. "$(dirname "$0")/charl.sh"

if ! "$charl" devices >out 2>&1; then
    skip "no device"
fi

# train CONFIG
train() {
    if ! "$bin/charl-train" "$1" --progress=none >out 2>&1; then
        echo "charl-train $1 failed:"
        cat out
        exit 1
    fi
}

# config FILE RUN [KEY=VALUE]...: a tiny gpt
config() {
    file=$1
    cat >"$file" <<INI
[run]
output_dir = $2
[data]
path = t.h5
[model]
type = gpt
n_layer = 2
n_head = 2
n_embd = 32
block_size = 24
$(shift 2 && printf '%s\n' "$@")
[train]
max_steps = 20
batch_size = 8
[optimizer]
type = adamw
learning_rate = 3e-3
INI
}

# write FILE ARGUMENT...: the text of charl generate ARGUMENT... in FILE
write() {
    file=$1
    shift
    if ! "$charl" generate "$@" >"$file" 2>err; then
        echo "FAIL: charl generate $*"
        cat err
        failures=$((failures + 1))
    fi
}

# same A B WHAT
same() {
    cmp "$1" "$2" || { echo "FAIL: $3"; failures=$((failures + 1)); }
}

i=0
while [ $i -lt 40 ]; do
    echo "The quick brown fox $i jumps over the lazy dog, and the dog sleeps."
    i=$((i + 1))
done >t.txt
expect 0 'tokenizer  chars' data import text t.txt --tokenizer chars --val-split 0.2 -o t.h5
config c.ini run
train c.ini
ck=run/checkpoints/step-00000020.h5

# Greedy: 7 tokens of prompt and 40 more, so that the window of 24 slides.
write greedy c.ini $ck --prompt 'The dog' --tokens 40 --temperature 0
write full c.ini $ck --prompt 'The dog' --tokens 40 --temperature 0 --no-cache
same greedy full "the cache changes the text"
if [ "$(wc -c <greedy)" -ne 48 ] || [ "$(head -c 7 greedy)" != "The dog" ]; then # and a newline
    echo "FAIL: not the prompt and 40 characters:"
    cat greedy
    failures=$((failures + 1))
fi
grep -q '^charl: 40 tokens, the first after .* s, then .* per second$' err || { echo "FAIL: no rate"; failures=$((failures + 1)); }

# A checkpoint alone, a run directory, and the operands swapped: the same text.
write alone $ck --prompt 'The dog' --tokens 40 --temperature 0
same greedy alone "a checkpoint alone writes another text"
write directory run --prompt 'The dog' --tokens 40 --temperature 0
same greedy directory "a run directory writes another text"
grep -q '^charl: note: run is a run directory: run/last.h5 is read$' err || { echo "FAIL: which checkpoint was read"; failures=$((failures + 1)); }
write swapped $ck c.ini --prompt 'The dog' --tokens 40 --temperature 0
same greedy swapped "swapped operands write another text"
expect 2 'CHECKPOINT is missing: c.ini is a configuration' generate c.ini --prompt x
expect 5 't.h5 is a dataset of charl, not a checkpoint' generate t.h5 --prompt x

# A setting that no shape shows: n_head.
write other c.ini $ck --prompt 'The dog' --tokens 4 --temperature 0
! grep warning err || { echo "FAIL: a warning of the same model"; failures=$((failures + 1)); }
write other c.ini $ck --prompt 'The dog' --tokens 4 --temperature 0 model.n_head=4
grep -q 'warning: .*step-00000020.h5 was trained with another model: \[model\] n_head = 4 (was 2)$' err || { echo "FAIL: no warning"; cat err; failures=$((failures + 1)); }

# Many prompts: each text is the one that its prompt gets alone, whatever came before it.
printf 'The dog\nThe quick brown fox 3 jumps over the lazy\n\nTh\n' >prompts.txt
printf '{"prompt": "The dog"}\n{"prompt": "The quick brown fox 3 jumps over the lazy", "id": 7}\n{"prompt": "Th"}\n' >prompts.jsonl
write many c.ini $ck --prompts prompts.txt --tokens 30 --seed 5
grep -q '^charl: 90 tokens after .* s$' err || { echo "FAIL: no count of tokens"; cat err; failures=$((failures + 1)); }
write objects c.ini $ck --prompts prompts.jsonl --tokens 30 --seed 5
same many objects "objects give other texts than lines"
: >alone
while read -r prompt; do
    [ -z "$prompt" ] && continue
    write one c.ini $ck --prompt "$prompt" --tokens 30 --seed 5
    printf '{"prompt":"%s","text":"%s"}\n' "$prompt" "$(sed "1s/^$prompt//" one | awk '{ printf "%s%s", s, $0; s = "\\n" }')" >>alone # no quotes in it
done <prompts.txt
same many alone "many prompts give other texts than one"
for batch in 1 2; do
    write other c.ini $ck --prompts prompts.txt --tokens 30 --seed 5 --batch $batch
    same many other "a batch of $batch gives other texts"
done
# Texts that end at different times, by a stop text or a window that slides, leave their places to others.
i=1
while [ $i -le 11 ]; do
    printf '%s\n' "The quick brown fox jumps over the lazy dog" | cut -c $i-$((2 * i + 3))
    i=$((i + 1))
done >prompts.txt
write many c.ini $ck --prompts prompts.txt --tokens 30 --seed 7 --stop e --top-p 0.9 --batch 4
write other c.ini $ck --prompts prompts.txt --tokens 30 --seed 7 --stop e --top-p 0.9 --batch 1
same many other "texts that end early depend on the batch"
write other c.ini $ck --prompts prompts.txt --tokens 30 --seed 7 --stop e --top-p 0.9 --no-cache
same many other "the cache changes the texts of a batch"
write many c.ini $ck --prompts prompts.txt --tokens 12 --temperature 0 train.precision=bf16
write other c.ini $ck --prompts prompts.txt --tokens 12 --temperature 0 train.precision=bf16 --batch 3
same many other "texts in bf16 depend on the batch"
expect 2 '--batch' generate c.ini $ck --prompts prompts.txt --batch 0
echo '{"text": "x"}' >bad.jsonl
expect 3 'bad.jsonl:1: "prompt" is not a text' generate c.ini $ck --prompts bad.jsonl
printf 'The\nThe #\n' >bad.txt
expect 3 'prompt 2: the character "#"' generate c.ini $ck --prompts bad.txt
expect 2 'exclude each other' generate c.ini $ck --prompts prompts.txt --prompt x

# Sampling: the seed decides, by default run.seed.
write a c.ini $ck -p 'The dog' -n 40
write b c.ini $ck -p 'The dog' -n 40 --seed 42
write c c.ini $ck -p 'The dog' -n 40 --seed 43 --top-k 9 --top-p 0.95 --temperature 1.5
write d c.ini $ck -p 'The dog' -n 40 --seed 43 --top-k 9 --top-p 0.95 --temperature 1.5 --no-cache
write e c.ini $ck -p 'The dog' -n 40 --seed 43
write f c.ini $ck -p 'The dog' -n 40 --seed 43 --top-k 1
same a b "run.seed is not the default"
same c d "the cache changes the draws"
same f greedy "one candidate is not greedy"
if cmp -s a e || cmp -s c e; then
    echo "FAIL: seed or cut do not matter"
    failures=$((failures + 1))
fi
# A stop text ends the text in front of it, wherever its parts fall on tokens; one that never comes changes nothing.
rest=$(tail -c +8 greedy)
stop=$(printf '%s' "$rest" | cut -c 11-14)
write a c.ini $ck -p 'The dog' -n 40 --temperature 0 --stop "$stop" --stop '~never~'
front=${rest%%"$stop"*}
printf 'The dog%s\n' "$front" >b
same a b "--stop does not end the text in front of its text"
# Of two stop texts the one that is complete counts, also where the text ends before the longer one could be.
write a c.ini $ck -p 'The dog' -n "$((${#front} + ${#stop}))" --temperature 0 --stop "$stop~" --stop "$stop"
same a b "a longer stop text hides a complete one"
expect 2 'repeat-penalty: 0.5 is out of range (1 to 1000)' generate c.ini $ck -p a --repeat-penalty 0.5
expect 2 'min-p: 2 is out of range (0 to 1)' generate c.ini $ck -p a --min-p 2
expect 2 'must not be empty' generate c.ini $ck -p a --stop ''
write a c.ini $ck -p 'The dog' -n 40 --temperature 0 --stop "$(printf '%s' "$rest" | tail -c 2)~" --min-p 0.5 --repeat-penalty 1
same a greedy "a stop text that does not come changes the text"
write a c.ini $ck -p 'The dog' -n 40 --temperature 0 --repeat-penalty 1000
if cmp -s a greedy; then
    echo "FAIL: a penalty does not matter"
    failures=$((failures + 1))
fi
# Documents end with a NUL: so does the text, unless told otherwise.
i=0
while [ $i -lt 300 ]; do
    echo '{"text": "ab"}'
    i=$((i + 1))
done >docs.jsonl
expect 0 'tokenizer  chars' data import text docs.jsonl --tokenizer chars --val-split 0.2 -o docs.h5
sed 's/t.h5/docs.h5/; s/^output_dir.*/output_dir = docs/; s/^max_steps.*/max_steps = 150/' c.ini >docs.ini
train docs.ini
write a docs.ini docs/last.h5 -p 'a' -n 9 --temperature 0
grep -q '^charl: 1 token after [0-9.]* s$' err || { echo "FAIL: one token:"; cat err; failures=$((failures + 1)); }
write b docs.ini docs/last.h5 -p 'ab' -n 9 --temperature 0
same a b "a text that ends at once"
grep -q '^charl: 0 tokens: the text ended at once$' err || { echo "FAIL: no token:"; cat err; failures=$((failures + 1)); }
printf 'ab\n' >b
same a b "a text does not end at the end of a document"
write a docs.ini docs/last.h5 -p 'a' -n 9 --temperature 0 --ignore-end
[ "$(wc -c <a)" -eq 11 ] || { echo "FAIL: --ignore-end does not go on:"; od -c a; failures=$((failures + 1)); }
# A prompt longer than the window.
long='the lazy dog, and the dog sleeps. The quick brown fox'
write a c.ini $ck -p "$long" -n 5 --temperature 0
write b c.ini $ck -p "$(printf '%s' "$long" | tail -c 24)" -n 5 --temperature 0
tail -c 30 a >a.end
tail -c 30 b >b.end
same a.end b.end "what lies before the window matters"

# Rotary positions, shared keys, and a window in every other block, also of many prompts; a sequential model, without a cache.
config r.ini rotary 'positions = rotary' 'n_kv_head = 1' 'attention_window = 7' 'full_attention_every = 2' 'attention_softcap = 3'
train r.ini
write a r.ini rotary/last.h5 -p 'The' -n 30 --temperature 0
write b r.ini rotary/last.h5 -p 'The' -n 30 --temperature 0 --no-cache
same a b "the cache changes the text of a model with rotary positions"
write many r.ini rotary/last.h5 --prompts prompts.txt --tokens 20 --repeat-penalty 1.1
write other r.ini rotary/last.h5 --prompts prompts.txt --tokens 20 --repeat-penalty 1.1 --batch 1
same many other "rotary positions depend on the batch"
cat >s.ini <<'INI'
[run]
output_dir = bigram
[data]
path = t.h5
window = 16
[layer wte]
type = embedding
vocab = 43
dim = 8
[layer head]
type = linear
out = 43
[train]
max_steps = 5
batch_size = 8
INI
vocab=$("$charl" data info t.h5 | sed -n 's/.*vocabulary of \([0-9]*\).*/\1/p')
sed -i "s/43/$vocab/" s.ini
train s.ini
write a s.ini bigram/last.h5 -p 'The' -n 30

# A conversation: the second answer depends on the first message; an answer ends at the template's text, which is not printed.
cat >chat.json <<'JSON'
{"user": {"before": "U", "after": "|"}, "assistant": {"before": "A", "after": "#{end}"}}
JSON
i=0
while [ $i -lt 200 ]; do
    printf '%s\n' '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bcd"}, {"role": "user", "content": "x"}, {"role": "assistant", "content": "yz"}]}'
    printf '%s\n' '{"messages": [{"role": "user", "content": "k\nl"}, {"role": "assistant", "content": "mno"}, {"role": "user", "content": "x"}, {"role": "assistant", "content": "wv"}]}'
    i=$((i + 1))
done >chat.jsonl
expect 0 'tokenizer  bytes' data import chat chat.jsonl --template chat.json --window 24 -o chat.h5
sed 's/t.h5/chat.h5/; s/^output_dir.*/output_dir = chat/; s/^.data.$/&\ndocuments = separate/; s/^max_steps.*/max_steps = 150/; s/^batch_size.*/batch_size = 16/; s/3e-3/1e-2/' c.ini >chat.ini
train chat.ini
# chat MESSAGES ANSWERS OPTION...
chat() {
    printf '%s' "$1" | "$charl" generate chat.ini chat/last.h5 --chat --template chat.json --temperature 0 ${3-} >out 2>err || failures=$((failures + 1))
    printf '%s\n' "$2" >want
    same out want "a conversation, ${3-}"
}
both='a
x'
lines='k\
l
x
'
chat "$both" 'bcd
yz'
chat "$lines" 'mno
wv'
chat "$both" 'bcd
yz' --no-cache
chat "$both" 'bcd
yz' '--stop never -n 9 train.precision=bf16'
chat "$both" 'bc
yz' '--stop d'
# What might have begun a stop text when an answer reached its length is not said again.
chat "$both" 'bc
yz' '--stop cZ -n 2'
"$charl" generate chat.ini chat/last.h5 --chat --template chat.json </dev/null >out 2>err || failures=$((failures + 1))
[ -s out ] && { echo "FAIL: an answer to nothing"; failures=$((failures + 1)); }
expect 2 'exclude each other' generate chat.ini chat/last.h5 --chat -p x
# The same with a tokenizer of SentencePiece, which writes spaces as U+2581 and one in front of a text: an answer neither gets nor loses one.
{
    printf '{"added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "</s>", "special": true}], "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\342\226\201"}, '
    printf '{"type": "Replace", "pattern": {"String": " "}, "content": "\342\226\201"}]}, "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "merges": [], "vocab": {"<unk>": 0, "</s>": 1'
    i=0
    while [ $i -lt 256 ]; do
        printf ', "<0x%02X>": %d' $i $((i + 2))
        i=$((i + 1))
    done
    for piece in "$(printf '\342\226\201')" a b c d k l m n o v w x y z A U '|' '#'; do
        printf ', "%s": %d' "$piece" $((i + 2))
        i=$((i + 1))
    done
    printf '}}}'
} >pieces.json
sed 's/"bcd"/" b d"/g' chat.jsonl >spaced.jsonl
expect 0 'tokenizer  pretrained' data import chat spaced.jsonl --template chat.json --window 24 --tokenizer pieces.json -o pieces.h5
sed 's/chat.h5/pieces.h5/; s/^output_dir.*/output_dir = pieces/' chat.ini >pieces.ini
train pieces.ini
printf '%s' "$both" | "$charl" generate pieces.ini pieces/last.h5 --chat --template chat.json --temperature 0 >out 2>err || failures=$((failures + 1))
printf ' b d\nyz\n' >want
same out want 'a conversation with a tokenizer of SentencePiece'
# A stop text that begins within a token: other tokens take the place of those that held it, in the cache too.
i=0
while [ $i -lt 200 ]; do
    echo "he went to the inn and then he said to me that we met there at ten in the evening $i"
    i=$((i + 1))
done >words.txt
expect 0 'tokenizer  bpe' data import text words.txt --tokenizer bpe --vocab 290 -o words.h5
sed 's/t.h5/words.h5/; s/^output_dir.*/output_dir = words/; s/^max_steps.*/max_steps = 40/; s/^block_size.*/block_size = 128/; s/3e-3/1e-2/' c.ini >words.ini
train words.ini
printf 'he went\nto the inn\nat ten\n' >messages
for stop in 'e t' 'n t' 't t' 'e e' 'd t'; do
    for cache in '' --no-cache; do
        "$charl" generate words.ini words/last.h5 --chat --template chat.json --stop "$stop" -n 20 --temperature 1 --seed 2 $cache \
            <messages >"said$cache" 2>err || { echo "FAIL: a conversation with --stop '$stop'"; cat err; failures=$((failures + 1)); }
    done
    same said said--no-cache "a conversation that ends at '$stop', with and without the cache"
done
expect 2 'batch is for several prompts' generate chat.ini chat/last.h5 -p x --batch 2
expect 2 'are for conversations' generate chat.ini chat/last.h5 -p x --system x
expect 2 'template: chatml, llama3, alpaca or a file: .*none.json' generate chat.ini chat/last.h5 --chat --template none.json

# The tokenizer is in the checkpoint: the data set need not be there. One of format version 1 has none.
"$bin/../../tests/cli/make_checkpoint" --version-1 $ck v1.h5 || exit 1
write one c.ini $ck -p 'The' -n 12
write other c.ini v1.h5 -p 'The' -n 12
same one other "version 1 generates the same text"
grep -q 'warning: v1.h5 was written by an older charl and does not contain its tokenizer: using the one in .*t.h5' err || { echo "FAIL: no warning"; cat err; failures=$((failures + 1)); }
mv t.h5 moved.h5
write other c.ini $ck -p 'The' -n 12
mv moved.h5 t.h5
same one other "no data set"
expect 0 'tokenizer  chars' data import text t.txt --tokenizer $ck -o other.h5
expect 3 'v1.h5 is a checkpoint that holds no tokenizer' data import text t.txt --tokenizer v1.h5 -o x.h5

# Published tokenizers: the checkpoint holds the tokenizer, so that neither its file nor the data is needed; special tokens are text
# unless asked for.
python3 - >r50k_base-test.tiktoken <<'PY'
import base64
tokens = [bytes([i]) for i in range(256)] + [b"Th", b"The", b" t", b" th", b" the", b" d", b" do", b" dog"]
for rank, token in enumerate(tokens):
    print(base64.b64encode(token).decode(), rank)
PY
printf 'The<|endoftext|>The' >special.txt
expect 0 'train      15 tokens' data import text special.txt --tokenizer r50k_base-test.tiktoken -o special.h5
expect 0 'train      3 tokens' data import text special.txt --tokenizer r50k_base-test.tiktoken --special-tokens -o special.h5 --overwrite
expect 0 'tokenizer  pretrained' data import text t.txt --tokenizer r50k_base-test.tiktoken --val-split 0.2 -o t.h5 --overwrite
config p.ini published
train p.ini
pk=published/checkpoints/step-00000020.h5
expect 0 'tokenizer .*pretrained' checkpoint show $pk
mv r50k_base-test.tiktoken gone
mv t.h5 moved.h5
write one p.ini $pk -p 'The dog<|endoftext|>' -n 12
write other p.ini $pk -p 'The dog<|endoftext|>' -n 12 --special-tokens
for file in one other; do
    [ "$(head -c 20 $file)" = 'The dog<|endoftext|>' ] || { echo "FAIL: $file"; cat $file; failures=$((failures + 1)); }
done
mv moved.h5 t.h5
mv gone r50k_base-test.tiktoken

# Tokens without a tokenizer: it can be named, if it is not larger than the vocabulary.
python3 -c 'open("t.bin", "wb").write(b"".join(bytes([b, 0]) for b in open("t.txt", "rb").read()))'
expect 0 'vocabulary of 300' data import tokens t.bin --vocab 300 -o t.h5 --overwrite
config n.ini numbers
train n.ini
nk=numbers/checkpoints/step-00000020.h5
expect 3 'was trained on token numbers without a tokenizer' generate n.ini $nk -p T
hint '--tokenizer FILE'
expect 0 'T' generate n.ini $nk -p T -n 3 --tokenizer r50k_base-test.tiktoken
expect 2 'contains its own tokenizer, of type pretrained' generate p.ini $pk -p T --tokenizer r50k_base-test.tiktoken
echo '{"ctx": "T", "endings": ["a", "b"], "label": 0}' >q.jsonl
expect 2 'contains its own tokenizer, of type pretrained' eval p.ini $pk --choices q.jsonl --tokenizer r50k_base-test.tiktoken
expect 3 'no-such-folder: No such file' generate n.ini $nk -p T --tokenizer no-such-folder
expect 0 'vocabulary of 260' data import tokens t.bin --vocab 260 -o t.h5 --overwrite
config f.ini few
train f.ini
expect 3 'has 265 tokens, more than the 260 that' generate f.ini few/checkpoints/step-00000020.h5 -p T --tokenizer r50k_base-test.tiktoken
expect 0 'tokenizer  chars' data import text t.txt --tokenizer chars --val-split 0.2 -o t.h5 --overwrite

# What it refuses.
expect 2 '--prompt is missing' generate c.ini $ck
hint '--prompt "Once'
expect 2 '--prompt is empty' generate c.ini $ck --prompt ''
expect 2 '--top-k' generate c.ini $ck -p T --top-k 0
expect 2 '--top-p' generate c.ini $ck -p T --top-p 0
expect 2 '--top-p' generate c.ini $ck -p T --top-p 1.5
expect 2 '--temperature' generate c.ini $ck -p T --temperature -1
expect 2 '--temperature' generate c.ini $ck -p T --temperature warm
expect 2 '--tokens' generate c.ini $ck -p T --tokens 0
expect 2 '--seed' generate c.ini $ck -p T --seed -1
expect 3 'none.h5' generate c.ini v1.h5 -p T data.path=none.h5
expect 3 '#' generate c.ini $ck -p 'The dog #1'
expect 5 'no-such.h5' generate c.ini no-such.h5 -p T
expect 5 'it belongs to another model' generate c.ini $ck -p T model.n_layer=1
expect 5 'it belongs to another model' generate c.ini bigram/last.h5 -p T
expect 2 'model.type = mlp does not generate text' generate c.ini $ck -p T model.type=mlp
sed 's/out = .*/out = 7/' s.ini >seven.ini
expect 2 'the model.s output for 16 tokens is \[1, 16, 7\]' generate seven.ini bigram/last.h5 -p T
expect 0 tokens data import text t.txt --tokenizer bytes -o bytes.h5
expect 5 "was trained on $vocab tokens, the tokenizer of bytes.h5 has 256" generate c.ini v1.h5 -p T data.path=bytes.h5
hint 'data.path=FILE'
printf '\1\0\2\0\3\0' >three.bin
expect 0 tokens data import tokens three.bin -o three.h5
expect 3 'tokenizer' generate c.ini v1.h5 -p T data.path=three.h5
if [ -w /dev/full ] && "$charl" generate c.ini $ck -p T -n 3 >/dev/full 2>err; then
    echo "FAIL: a full disk is no success"
    failures=$((failures + 1))
fi
finish

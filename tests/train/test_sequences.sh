#!/bin/sh
# Texts with a class each: docs/language-models.md works as it is written, and learns; the same bits for any number of ranks, any place
# of the data and after a stop; padding changes nothing; new texts are predicted; what is refused.
. "$(dirname "$0")/common.sh"

# One word of each text decides; the others, and how many there are, say nothing.
awk 'function draw(n) { s = (s * 1103515245 + 12345) % 2147483648; return int(s / 65536) % n }
BEGIN {
    s = 7
    n = split("the a one this that it film book song day food was is seemed really quite so very", w, " ")
    split("good bad fine poor great awful nice dull", mood, " ")
    print "id,text,label"
    for (i = 0; i < 600; i++) {
        m = draw(8) + 1; words = 1 + draw(12); at = draw(words); t = ""
        for (k = 0; k < words; k++) t = t (k ? " " : "") (k == at ? mood[m] : w[draw(n) + 1])
        printf "%d,\"%s\",%s\n", i, t, m % 2 ? "positive" : "negative"
    }
}' >reviews.csv

# The commands and the configuration of the page, with fewer steps.
page=$here/../../docs/language-models.md
awk '/^## Classifying texts/ { on = 1 } /^## / && !/Classifying/ { on = 0 } on && /^```/ { ini = $0 == "```ini"; next } on && ini' "$page" >reviews.ini
import=$(sed -n 's/^    charl data import text-classes \(reviews.csv .*\)/\1/p' "$page")
checks=$((checks + 1))
{ [ -s reviews.ini ] && [ -n "$import" ]; } || fail "docs/language-models.md shows no configuration"
# shellcheck disable=SC2086 # words
expect 0 "import" "$bin/charl" data import text-classes $import
expect 0 "info" "$bin/charl" data info reviews.h5
says 1 "classes +negative positive"
set -- reviews.ini train.max_steps=120 train.batch_size=32 train.slices=4 eval.interval=120 log.interval=20 checkpoint.interval=60 device.share=yes -q
expect 0 "trained" ranks 1 "$@" -o one
checks=$((checks + 1))
"$bin/charl" eval reviews.ini one/last.h5 device.share=yes 2>&1 | awk '{ for (i = 1; i <= NF; i++) if (split($i, a, "=") == 2 && a[1] == "accuracy") ok = a[2] > 0.95 } END { exit !ok }' ||
    fail "not learnt"

# Ranks, streamed, stopped.
set -- "$@" train.max_steps=8 eval.interval=4 log.interval=1 checkpoint.interval=4
expect 0 "short" ranks 1 "$@" -o short
expect 0 "3 ranks, streamed" ranks 3 "$@" -o v data.cache=none
same "3 ranks, streamed" short v
resumes "sequences" short 5 "$@"

# New texts, and the same ones in rows that are twice as long: the same answers.
printf 'note,text,label\nx,"so good",positive\ny,bad day,\nz,,negative\n' >new.csv
expect 0 "predict CSV" "$bin/charl" predict one/last.h5 new.csv -o csv.txt
checks=$((checks + 1))
[ "$(cut -d, -f1-3 csv.txt | sed 1d | head -n 2 | tr '\n' ' ')" = "0,positive,positive 1,,negative " ] || { fail "predicted"; cat csv.txt; }
expect 2 "rows by name" "$bin/charl" predict one/last.h5 new.csv --id note
says 1 "only the rows of a table"
printf '{"text": "so good", "label": "odd"}\n\n{"text": "bad day"}\n{"text": ""}' >new.jsonl
expect 0 "predict JSON" "$bin/charl" predict one/last.h5 new.jsonl -o json.txt
says 1 "new.jsonl: 1 label is no class of one/last.h5"
checks=$((checks + 1))
sed 1d csv.txt | awk -F, '{ print $NF }' >a.txt
sed 1d json.txt | awk -F, '{ print $NF }' | cmp -s - a.txt || fail "CSV and JSON give other answers"
# shellcheck disable=SC2086 # words
expect 0 "a wider import" "$bin/charl" data import text-classes ${import% -o *} --window 40 -o wide.h5

# padded NAME LAYERS BEFORE: the page's model with LAYERS in place of pool and BEFORE in front of its blocks has the same losses on both
padded() {
    awk -v layers="$2" -v before="$3" '/^\[layer/ { off = $2 == "pool]"; if (off) print layers; if ($2 == "block]") print before } !off' \
        reviews.ini | sed 's/^block_size = .*/block_size = 40/' >padded.ini
    for _set in reviews wide; do
        rm -rf $_set
        expect 0 "$1, $_set" ranks 1 padded.ini -q -o $_set data.path=$_set.h5 train.max_steps=3 train.batch_size=8 train.slices=1 \
            eval.interval=3 log.interval=1 checkpoint.interval=0 device.share=yes
        losses $_set | cut -d, -f3,4 >$_set.losses
    done
    checks=$((checks + 1))
    paste -d , reviews.losses wide.losses | awk -F, 'NR > 1 { for (i = 1; i <= 2; i++) { n += $i != ""; d = $i - $(i + 2); bad = bad || d > 1e-5 || d < -1e-5 } }
        END { exit bad || n < 3 }' || fail "$1: padding changes the losses"
}
padded mean "[layer pool]\ntype = mean" ""
padded last "[layer pool]\ntype = slice\nstart = -1\n[layer flat]\ntype = flatten" ""
padded first "[layer pool]\ntype = slice\nlength = 1\n[layer flat]\ntype = flatten" ""
padded lstm "[layer pool]\ntype = lstm\nhidden_size = 8\nlast = yes" ""
padded token "[layer pool]\ntype = slice\nlength = 1\n[layer flat]\ntype = flatten" "[layer token]\ntype = class_token"

# A sample of the rows keeps the tokenizer.
expect 0 "a sample" "$bin/charl" data sample reviews.h5 -n 100 -o some.h5
expect 0 "evaluated" "$bin/charl" eval reviews.ini one/last.h5 -s train data.path=some.h5 device.share=yes

# Rows of tokens from elsewhere need no tokenizer; a token that the embedding does not have is found.
if has_python h5py; then
    /usr/bin/python3 -c "
import h5py
for name, token in ('own', 7), ('beyond', 60000):
    with h5py.File('reviews.h5') as a, h5py.File(name + '.h5', 'w', libver=('earliest', 'v110')) as b:
        for key in 'charl_format', 'charl_version', 'kind', 'classes', 'vocab':
            b.attrs.create(key, a.attrs[key], dtype=a.attrs.get_id(key).dtype)
        b['train/x'], b['train/y'] = a['train/x'][:32], a['train/y'][:32]
        b['train/x'][3, 0] = token
"
    expect 0 "no tokenizer" ranks 1 reviews.ini -q -o own data.path=own.h5 train.max_steps=2 device.share=yes
    expect 0 "evaluated without one" "$bin/charl" predict own/last.h5 own.h5 --split train -o own.csv
    for command in "ranks 1 reviews.ini -q -o beyond device.share=yes data.path=beyond.h5" "$bin/charl data verify beyond.h5"; do
        # shellcheck disable=SC2086 # words
        expect 3 "a token beyond the vocabulary" $command
        says 1 "beyond.h5: /train/x: token 60000 in row 3 is not in \[0, [0-9]*)"
    done
else
    skipped "data of others" "python3 has no h5py"
fi

# What is refused, and what the import tells.
expect 3 "merged" "$bin/charl" data merge some.h5 reviews.h5 -o x.h5
says 1 "some.h5 holds sequences, which are merged when they are imported"
expect 0 "cut" "$bin/charl" data import text-classes reviews.csv --window 4 -o cut.h5
says 1 "texts are longer than 4 tokens and cut off at the end"
expect 3 "no such column" "$bin/charl" data import text-classes reviews.csv --text review -o x.h5
says 1 'reviews.csv: there is no column "review" among "id", "text", "label"'
expect 3 "no label" "$bin/charl" data import text-classes new.csv -o x.h5
says 1 'new.csv:3: the label in column "label" is missing'
printf '{"text": "a", "label": 1}\n{"text": 2}\n' >bad.jsonl
expect 3 "no text" "$bin/charl" data import text-classes bad.jsonl -o x.h5
says 1 'bad.jsonl:2: field "text" is not a string'
expect 0 "as many classes as texts" "$bin/charl" data import text-classes reviews.csv --label id -o id.h5
says 1 "most classes have only one text$"
printf 'text,label\na,b\n' >one.csv
expect 3 "one class" "$bin/charl" data import text-classes one.csv -o x.h5
says 1 "one.csv: all labels are the same"
sed 's/^vocab = .*/vocab = 20/' reviews.ini >small.ini
expect 2 "too few rows of the embedding" ranks 1 small.ini -o x
says 1 "embedding: vocab = 20, but the data have [0-9]* tokens"
sed 's/^type = mean/type = max/' reviews.ini >max.ini
expect 2 "max sees padding" ranks 1 max.ini -o x
says 1 "max over the positions of padded sequences would see the padding"
sed 's/^type = mean/type = slice\nlength = 3/' reviews.ini >cut.ini
expect 2 "a slice sees padding" ranks 1 cut.ini -o x
says 1 "what else is cut out may be padding"
sed 's/^type = mean/type = flatten\n\n[layer again]\ntype = reshape\nshape = -1, 32\n\n[layer more]\ntype = transformer_block\nheads = 4\ncausal = no\n\n[layer flat]\ntype = flatten/' reviews.ini >more.ini
expect 2 "attention over rows that were features" ranks 1 more.ini -o x
says 1 "attention cannot tell where the padded sequences end: its [0-9]* positions are not the positions of the data"
expect 2 "gpt" ranks 1 -o x /dev/null data.path=reviews.h5 model.type=gpt
says 1 "model.type = gpt reads tokens, but reviews.h5 contains sequences"
finish

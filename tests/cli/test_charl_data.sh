#!/bin/sh
# charl data: make, import, info, verify, and every way to ask for what cannot be.
. "$(dirname "$0")/charl.sh"

expect 0 'train      60 samples' data make digits d.h5 --train 60 --val 20
expect 0 'val        20 samples' data info d.h5
expect 0 '10 classes' data info d.h5
expect 0 '^d.h5: good$' data verify d.h5
expect 0 'stored     /train/x contiguous, ' data info d.h5
expect 0 'speed      shuffled [0-9]* samples/s ([0-9.]* MB/s)$' data info d.h5
expect 2 'd.h5: exists already$' data make digits d.h5
hint 'use --overwrite'
expect 0 'columns    x0 x1 x2 x3 x4 x5 x6 x7' data make regression d.h5 --train 9 --val 0 --seed 3 --overwrite
expect 2 'cannot make "letters"' data make letters x.h5
expect 2 'train: 0 is out of range (1 to ' data make digits x.h5 --train 0
expect 2 'val: "1x" is not an integer' data make digits x.h5 --val 1x
expect 2 'OUT is missing' data make digits
expect 2 'unexpected operand: b' data make digits a b
expect 8 'the folder no/such does not exist; make it with: mkdir -p' data make digits no/such/folder.h5 --train 1 --val 0
expect 8 "the folder it's does not exist$" data make digits "it's/folder.h5" --train 1 --val 0 # what a shell would read otherwise

printf 'a,b,kind\n1,2,cat\n3,4,dog\n5,6,cat\n7,9,dog\n' >t.csv
expect 0 'classes    cat dog' data import csv t.csv -o t.h5
awk 'BEGIN { print "x,price"; for (i = 0; i < 60; i++) printf "%d,%d.5\n", i % 7, i * 31 }' >prices.csv
expect 0 '^  classes    0.5 .* \.\.\. (60)$' data import csv prices.csv --label price -o prices.h5
grep -q 'if the target is a number, use --regression' err || { echo "no word of --regression"; failures=$((failures + 1)); }
expect 0 'val        1 samples' data import csv t.csv -o t.h5 --overwrite --label kind --val-split 0.25
# No import replaces what it reads, not even with -w; same WHAT ARGUMENT...
same() {
    what=$1
    shift
    cp "$what" before
    expect 2 "the output ./$what is the same file as the input .*$what" "$@" -o "./$what" -w
    cmp "$what" before || { echo "$what was replaced"; failures=$((failures + 1)); }
}
same t.csv data import csv t.csv
same t.h5 data import csv t.csv --like t.h5
same t.h5 data import hdf5 t.h5
same t.h5 data merge t.h5 t.h5
same t.h5 data sample t.h5 -n 2
expect 2 'the output t.h5 is the same file as the input t.h5' data split t.h5 --fractions 0.5,0.5 -o half.h5 -o t.h5 -w
[ ! -e half.h5 ] || { echo "a refused split left half.h5"; failures=$((failures + 1)); }
printf '{"text":"a","label":"x"}\n{"text":"b","label":"y"}\n' >said.jsonl
same said.jsonl data import text said.jsonl
same said.jsonl data import text t.csv --val-file said.jsonl
same said.jsonl data import text-classes said.jsonl
same said.jsonl data import chat said.jsonl
same said.jsonl data import tokens said.jsonl
same said.jsonl data import idx said.jsonl t.csv
same said.jsonl data import idx t.csv said.jsonl
same said.jsonl data import cifar10 t.csv --test said.jsonl
same said.jsonl data import cifar10 said.jsonl
same said.jsonl data import npy t.csv said.jsonl
mkdir -p photos/cat photos/dog && cp t.csv photos/cat/a.png && cp t.csv photos/dog/b.png
same photos/dog/b.png data import images photos --size 8
printf 'cat/a.png,x\n' >photos/labels.csv
same photos/labels.csv data import images photos --size 8

expect 0 'columns    a kind=cat kind=dog' data import csv t.csv -o words.h5 --label -2 --regression
expect 0 'note: column "kind" is categorical: one-hot encoded, 2 categories' data import csv t.csv -o words.h5 --label b --overwrite
# A word that only validation rows have.
printf 'town,y\nUlm,0\nBonn,1\nUlm,0\nRom,1\n' >late.csv
expect 0 'note: 1 word does not occur in the training data of late.csv and is treated as unknown; the first: late.csv:5: column "town": "Rom"' \
    data import csv late.csv -o late.h5 --val-split 0.25 --in-order
printf 'a,y\n1,0\n3,0\n5,0\n2,0\n8,0\n1,0\n3,0\n5,0\n2,0\n8,0\n7,1\n' >uneven.csv
expect 0 'warning: the classes are uneven: the largest has 10 of 11 training samples' data import csv uneven.csv -o uneven.h5
expect 0 'per class  0 10, 1 1 in train' data info uneven.h5
printf 'a,y\n1,1\n2,2\n3,3\n4,1\n5,2\n6,3\n' >numbered.csv # class 0 is empty
expect 0 'per class  0 0, 1 2, 2 2, 3 2 in train' data import csv numbered.csv -o numbered.h5
if grep -q 'only one sample' err; then
    echo "two samples of each class are told to be one"
    failures=$((failures + 1))
fi
printf 'a,y\n1,1.5\n2,2.5\n3,3.5\n' >real.csv
expect 0 'most classes have only one sample; if the target is a number, use --regression' data import csv real.csv -o real.h5
printf 'a' >one.txt
expect 3 ' one.h5: the training set has 1 token; at least 2 are needed' data import text one.txt -o one.h5
printf 'a,b\n1,2\nx,3\n' >typing.csv

# A second file, treated as the first
printf 'town,size,seen,kind\nUlm,1,2024-05-17,b\nZug,3,2024-05-18,a\nUlm,,2024-05-19,b\n' >first.csv
expect 0 'classes    a b' data import csv first.csv -o first.h5 --missing mean
printf 'kind,seen,more,size,town\nb,2024-06-01,x,,Zug\nb,2024-06-02,y,5,Bonn\n' >second.csv
expect 0 'note: 1 word does not occur in the training data of first.h5 and is treated as unknown; the first: second.csv:3: column "town": "Bonn"' data import csv second.csv --like first.h5 -o second.h5
expect 0 'mean       0 0.5 3.5 19875.5 6 5.5' data info second.h5
expect 0 'per class  a 0, b 2 in train' data info second.h5
expect 0 'classes    a b' data info second.h5
expect 0 'val        1 samples' data import csv first.csv --like first.h5 -o split.h5 --val-split 0.4
expect 2 '.--drop cannot be used with --like: first.h5 already defines it' data import csv second.csv --like first.h5 --drop more -o x.h5
expect 0 'train      4 samples' data make digits tiny.h5 --train 4 --val 0
expect 2 '.--like tiny.h5: not a table written by charl data import csv' data import csv second.csv --like tiny.h5 -o x.h5
expect 3 'none.h5' data import csv second.csv --like none.h5 -o x.h5
sed 's/5,Bonn/5,/; s/^b,2024-06-02/c,2024-06-02/' second.csv >third.csv
expect 3 'third.csv:3: the target is missing, or none that first.h5 has' data import csv third.csv --like first.h5 -o x.h5
head -n 1 second.csv >empty.csv
expect 3 'empty.csv: a header but no rows' data import csv empty.csv --like first.h5 -o x.h5
printf 'age,kind\n1,a\n2,b\n,a\n4,b\n' >gaps.csv
expect 0 'train      3 samples' data import csv gaps.csv -o gaps.h5 --missing drop
printf 'kind,age\nb,\na,7\nb,NA\nb,3\n' >more.csv
expect 0 'note: 2 rows with a gap in a column of --missing drop left out' data import csv more.csv --like gaps.h5 -o more.h5
expect 0 'per class  a 1, b 1 in train' data info more.h5
printf 'a,p,q\n1,0.5,1\n2,1.5,3\n' >values.csv
expect 0 'values.h5: regression' data import csv values.csv -o values.h5 --regression --label p,q
expect 0 'targets    p q' data import csv values.csv --like values.h5 -o again.h5
sed 's/,3$/,/' values.csv >gap.csv
expect 3 'gap.csv:3: column "q" is missing' data import csv gap.csv --like values.h5 -o x.h5
cut -d, -f1,2 values.csv >half.csv
expect 3 'half.csv has not all targets of values.h5: "p", "q"' data import csv half.csv --like values.h5 -o x.h5
printf '1,0\n2,1\n' >nameless.csv
expect 0 'train      2 samples' data import csv nameless.csv -o nameless.h5
expect 2 '.--like nameless.h5: its target has no name' data import csv nameless.csv --like nameless.h5 -o x.h5
cut -d, -f2- second.csv >bare.csv
expect 3 'bare.csv has not all targets of first.h5: "kind"' data import csv bare.csv --like first.h5 -o x.h5
cut -d, -f1-4 second.csv >narrow.csv
expect 3 'narrow.csv has no column "town", which first.h5 needs' data import csv narrow.csv --like first.h5 -o x.h5
expect 3 'typing.csv:3: column "a": "x" is not a number, but "1" in line 2 is' data import csv typing.csv -o x.h5
printf '1;2\n3;5\n4;4\n' >s.csv
expect 0 ': regression' data import csv s.csv -o s.h5 --separator ';' --regression --label 0
expect 2 'no column "colour"' data import csv t.csv -o x.h5 --label colour
expect 0 'vocabulary of 256' data import text t.csv -o w.h5
printf 'so it is, so it was, so it goes' >text.txt
expect 0 'tokenizer  bytes' data import text text.txt -o w.h5 --overwrite
expect 0 'vocabulary of 11' data import text text.txt text.txt -o w.h5 --tokenizer chars --val-split 0.25 --overwrite
expect 0 'train      47 tokens, 2 documents$' data info w.h5
expect 0 'sample     "so it is, so it was, so it goes\\nso' data info w.h5
expect 0 'sample     "so it is' data info w.h5 --window 9
expect 0 '^w.h5: good$' data verify w.h5
expect 2 'tokenizer words: is neither one of bytes, chars, bpe nor the file or folder' data import text text.txt -o x.h5 --tokenizer words
expect 2 'tokenizer chars: a size of the vocabulary (--vocab) applies to a tokenizer that learns one' data import text text.txt -o x.h5 --tokenizer chars --vocab 300
expect 2 "unrecognized option '--tokenizer'" data import csv t.csv -o x.h5 --tokenizer bpe
printf 'caf\351' >latin.txt
expect 3 'latin.txt: byte 3 is not UTF-8' data import text latin.txt -o x.h5 --tokenizer chars
if "$charl" data import text text.txt latin.txt -o b.h5 --binary --tokenizer bpe --vocab 300 >out 2>err; then
    expect 0 'tokenizer  bpe' data info b.h5
    expect 2 'vocabulary of 100 is outside' data import text text.txt -o x.h5 --tokenizer bpe --vocab 100
else
    grep -q 'built without libpcre2' err || failures=$((failures + 1))
fi
printf '\001\000\002\000\003\000\004\000' >tokens.bin
expect 0 'vocabulary of 50' data import tokens tokens.bin -o k.h5 --vocab 50
expect 3 'tokens.bin: token 2 (byte 4) is 3, the vocabulary has 3' data import tokens tokens.bin -o x.h5 --vocab 3
mkdir shards
cp tokens.bin shards/train_1.bin
cp tokens.bin shards/train_2.bin
cp tokens.bin shards/val_0.bin
expect 0 'val        4 tokens, 2 documents' data import tokens 'shards/train*' --val-file shards/val_0.bin --end-of-text 2 --vocab 50 -o t.k.h5
expect 0 'train      8 tokens, 3 documents' data info t.k.h5
expect 0 'train      12 tokens$' data import tokens shards -o t.k.h5 --overwrite
expect 3 'shards/test\*: no file matches' data import tokens 'shards/test*' -o x.h5
expect 2 'format: "gpt2" is not one of auto, llm.c, nanogpt' data import tokens shards --format gpt2 -o x.h5
printf '{"text": "first"}\n{"text": "second", "body": "2nd"}\n' >lines.jsonl
expect 0 '' data import text lines.jsonl -o l.h5
expect 0 'train      12 tokens, 2 documents' data info l.h5
expect 3 'lines.jsonl:1: there is no field "body"$' data import text lines.jsonl --field body -o x.h5
hint 'here, text is in: text$'
expect 0 'val        12 tokens, 2 documents' data import text text.txt --val-file 'l*.jsonl' -o l.h5 --overwrite
expect 2 '.--val-file and --val-split cannot be combined' data import text text.txt --val-file text.txt --val-split 0.1 -o x.h5

# Folders of images: 3 x 2 pixels of one level each, written without a library.
mkdir -p set/cat set/dog
picture() { # picture FILE LEVEL
    /usr/bin/python3 - "$1" "$2" <<'PY'
import struct, sys, zlib
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
rows = (b"\0" + bytes([int(sys.argv[2])]) * 3) * 2
with open(sys.argv[1], "wb") as f:
    f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
PY
}
for i in 1 2 3 4; do
    picture set/cat/$i.png 10
    picture set/dog/$i.png 200
done
expect 0 'x          u8 \[3, 4, 4\] NCHW' data import images set -o i.h5 --size 4
expect 0 'fit        crop' data info i.h5
expect 0 'classes    cat dog' data import images set set -o i.h5 --overwrite --size 4x6 --channels 1 --fit pad
expect 0 'x          u8 \[1, 4, 6\] NCHW' data info i.h5
expect 0 'val        8 samples' data info i.h5
expect 2 '--size is missing' data import images set -o x.h5
hint 'height and width'
for option in '' --overwrite; do
    expect 2 'set is a folder$' data import images set -o set --size 4 $option # not to be removed
    hint 'name a file'
done
expect 2 'size: "4x" is not an integer, nor two' data import images set -o x.h5 --size 4x
expect 2 'size: 0 is out of range' data import images set -o x.h5 --size 0x4
expect 2 'channels: "4" is not one of 1, 3' data import images set -o x.h5 --size 4 --channels 4
expect 2 'fit: "zoom" is not one of crop, stretch, pad' data import images set -o x.h5 --size 4 --fit zoom
expect 2 "unrecognized option '--fit'" data import csv t.csv -o x.h5 --fit pad
head -c 50 set/cat/1.png >set/dog/5.png
expect 3 'dog/5.png: damaged or truncated PNG' data import images set -o x.h5 --size 4
expect 3 '1 of 9 images cannot be read (--skip-bad skips them); the first: set/dog/5.png' data import images set -o x.h5 --size 4
expect 0 '1 unreadable image was skipped, 8 remain' data import images set -o good.h5 --size 4 --skip-bad
expect 0 'train      8 samples' data info good.h5
tail -c +90 "$kernels/../tests/fuzz/corpus/images/arithmetic" >set/dog/6.jpg
expect 0 'dog/6.jpg: ' data import images set -o good.h5 --size 4 --skip-bad --overwrite
if grep -q HINT err || ! grep -q '^  hint: ' err; then
    echo "a note does not show the hint of its message:"
    cat err
    failures=$((failures + 1))
fi
rm set/dog/6.jpg

expect 0 'train      60 samples' data make digits d1.h5 --train 60 --val 20
content=$("$bin/charl" data info d1.h5 | grep content)
expect 0 "$content" data import hdf5 d1.h5 -o repacked.h5
expect 0 'train      120 samples' data import hdf5 d1.h5 repacked.h5 -o merged.h5
expect 0 'val        40 samples' data info merged.h5
expect 0 '^merged.h5: good$' data verify merged.h5
expect 0 'train      105 samples' data import hdf5 'd1.h[5]' repacked.h5 --x /train/x --y /train/y -o mine.h5 --val-split 0.125
for how in "--seed 1" "--seed 1" "--seed 2" --in-order; do
    expect 0 'val        12 samples' data import hdf5 d1.h5 --x /train/x --y /train/y -o chosen.h5 --val-split 0.2 --overwrite $how
    "$bin/charl" data info chosen.h5 | sed -n 's/^  content *//p' >>chosen.txt
done
expect 0 'train      60 samples' data import hdf5 d1.h5 --x /train/x --y /train/y -o all.h5
if [ "$(sort -u chosen.txt | wc -l)" != 3 ] || [ "$(sed -n 1p chosen.txt)" != "$(sed -n 2p chosen.txt)" ]; then
    echo "seeds of import hdf5: $(cat chosen.txt)"
    failures=$((failures + 1))
fi
expect 2 'x also needs --y' data import hdf5 d1.h5 -o x.h5 --x /train/x
expect 3 'no array /images' data import hdf5 d1.h5 -o x.h5 --x /images --y /labels
expect 3 'w.h5 holds tokens' data import hdf5 w.h5 -o x.h5
expect 3 't.h5 holds table, d1.h5 holds images' data import hdf5 d1.h5 t.h5 -o x.h5

expect 0 'train      12 samples' data sample d1.h5 -n 12 -o few.h5 --seed 2
expect 0 'per class  0 ., 1 ., 2 ., 3 ., 4 ., 5 ., 6 ., 7 ., 8 ., 9 . in train' data info few.h5
expect 2 '--number is missing' data sample d1.h5 -o x.h5
expect 2 'd1.h5 has 60 training samples, not 61' data sample d1.h5 -n 61 -o x.h5
expect 0 'p2.h5: images' data split d1.h5 -o p1.h5 -o p2.h5 --fractions 0.75,0.25
expect 0 'train      45 samples' data info p1.h5
expect 0 'train      60 samples' data merge 'p[12].h5' -o parts.h5
expect 0 'val        6 samples' data split d1.h5 --x /train/x --y /train/y -o part.h5 --val-split 0.1
expect 0 'train      60 samples' data merge d1.h5 --x /train/x --y /train/y --weights /train/y -o weighed.h5
expect 0 'train      50 samples' data sample weighed.h5 -n 50 --x /train/x --y /train/y --weights /train/weights -o few.h5 --overwrite
expect 3 'no array /train/weights' data sample d1.h5 -n 50 --x /train/x --y /train/y --weights /train/weights -o x.h5
expect 2 '--weights requires -x and -y' data sample d1.h5 -n 50 --weights /train/y -o x.h5
expect 2 'weights also needs --x' data import hdf5 d1.h5 --weights /train/y -o x.h5
expect 2 'd1.h5 has a validation set' data split d1.h5 -o x.h5 --val-split 0.1
expect 2 'give either --fractions, or --val-split' data split d1.h5 -o x.h5
expect 2 'x.h5 is named twice' data split d1.h5 -o x.h5 -o x.h5 --fractions 0.5,0.5 --overwrite
expect 2 'x.h5 is named twice' data split d1.h5 -o ./x.h5 -o "$PWD/x.h5" --fractions 0.5,0.5
expect 2 'x2.h5: 0.001 of 60 training samples rounds to no sample' data split d1.h5 -o x.h5 -o x2.h5 --fractions 0.999,0.001
expect 2 '2 fractions, but 1 file' data split d1.h5 -o x.h5 --fractions 0.5,0.5
hint 'give -o once for each fraction'
expect 2 'fractions 0.5,2: must be numbers between 0 and 1' data split d1.h5 -o x.h5 --fractions 0.5,2
expect 2 'the fractions must sum to 1, not 0.8' data split d1.h5 -o x.h5 -o x2.h5 --fractions 0.4,0.4
expect 3 'w.h5 holds tokens' data sample w.h5 -n 3 -o x.h5

expect 3 't.csv is a CSV file, not a dataset' data import t.csv -o x.h5 # the format is missing
hint '`charl data import csv t.csv -o t.h5`'
expect 2 'unknown format: arrow' data import arrow t.csv -o x.h5
hint 'charl data import --help'
expect 2 '--output is missing' data import csv t.csv
hint '-o FILE'
expect 2 'the format comes first: csv, images' data import -o x.h5 csv t.csv
expect 2 'the format comes first' data import
expect 2 'csv takes FILE, not 2 files' data import csv t.csv t.csv -o x.h5
expect 2 'idx takes IMAGES LABELS' data import idx t.csv -o x.h5
expect 2 "unrecognized option '--label'" data import text t.csv -o x.h5 --label a
expect 2 "unrecognized option '--test'" data import csv t.csv -o x.h5 --test t.csv
expect 2 'val-split: 1 is out of range (at least 0, below 1)' data import csv t.csv -o x.h5 --val-split 1
expect 2 'val-split: "nan" is not a number' data import csv t.csv -o x.h5 --val-split nan
expect 2 'separator must be one character' data import csv t.csv -o x.h5 --separator ab
expect 2 'option .--val-split. requires an argument' data import csv --val-split
expect 3 'none.csv: .*No such file' data import csv none.csv -o x.h5
expect 3 'not an IDX file' data import idx t.csv t.csv -o x.h5
expect 3 'a.npy' data import npy a.npy b.npy -o x.h5
expect 3 'batch.bin' data import cifar10 batch.bin -o x.h5 --test test.bin
if [ -e x.h5 ]; then
    echo "an import that failed left its file"
    failures=$((failures + 1))
fi

# The rows of steps: an epoch has every row once, whatever the slices; the next one another order.
expect 0 'samples' data make digits r.h5 --train 40 --val 4
printf '[data]\npath = r.h5\n[model]\ntype = mlp\n[train]\nbatch_size = 16\nslices = 4\n' >rows.ini
rows() { # rows STEP SETTING...: the column `row` or `token`
    step=$1
    shift
    "$charl" data rows rows.ini --step "$step" "$@" 2>err | awk '/^#/ { next } !at { for (i = 1; i <= NF; i++) if ($i == "row" || $i == "token") at = i; next } { print $at }'
}
{ rows 1; rows 2; rows 3; } >order
[ "$(head -n 40 order | sort -n | tr '\n' ' ')" = "$(seq 0 39 | tr '\n' ' ')" ] || { echo "the rows of an epoch:"; cat order; failures=$((failures + 1)); }
expect 0 '^# step 3: 16 samples of .*r.h5, positions 32 to 47, epoch 0 and 1 of 40 samples$' data rows rows.ini --step 3
expect 0 '^ *15      3      1 ' data rows rows.ini --step 3
[ "$(rows 2 data.shuffle=no | tr '\n' ' ')" = "$(seq 16 31 | tr '\n' ' ')" ] || { echo "data.shuffle = no"; failures=$((failures + 1)); }
[ "$(rows 2 train.slices=8 train.grad_accum_steps=2)" = "$(rows 2)" ] || { echo "slices change the rows"; failures=$((failures + 1)); }
[ "$(rows 2 run.seed=2)" != "$(rows 2)" ] || { echo "the seed does not change the rows"; failures=$((failures + 1)); }
expect 0 '^ *3      0      0 .*  12 0\.[0-9]*$' data rows rows.ini --step 1 data.augment=mixup:0.4
expect 2 'step is missing' data rows rows.ini
expect 2 'step: 0 is out of range' data rows rows.ini --step 0
expect 2 'there is no step 9223372036854775807' data rows rows.ini --step 9223372036854775807
expect 2 'batch_size = 64 is more than the 40 training rows' data rows rows.ini --step 1 train.batch_size=64
expect 2 '4 slices do not divide batch_size = 18' data rows rows.ini --step 1 train.batch_size=18
expect 3 'none.h5: .*No such file' data rows rows.ini --step 1 data.path=none.h5
expect 2 'none.ini: ' data rows none.ini --step 1
# Tokens: the text of a window of the first epoch is where the row says; in a mix, in the set that it says.
seq 1 400 | tr '\n' ' ' >numbers.txt
expect 0 'tokenizer  bytes' data import text numbers.txt -o tokens.h5
expect 0 'tokenizer  bytes' data import text text.txt -o small.h5
printf '[data]\npath = tokens.h5\n[model]\ntype = gpt\nn_layer = 1\nn_head = 1\nn_embd = 8\nblock_size = 4\n[train]\nbatch_size = 16\nslices = 4\n' >rows.ini
expect 0 '^# a window: 4 tokens from' data rows rows.ini --step 1
[ "$(rows 1 | awk '{ print $1 % 4 }' | sort -u | wc -l)" = 1 ] || { echo "windows of one epoch lie 4 tokens apart"; failures=$((failures + 1)); }
sed 's/^path = .*/mix = tokens.h5:0.5, small.h5:0.5/' rows.ini >mix.ini
expect 0 '^# set 1: .*small.h5$' data rows mix.ini --step 2
most=$("$charl" data rows mix.ini --step 2 | awk '/^#|index/ { next } $4 == 1 && $5 > m { m = $5 } END { print m }')
[ "$most" -lt 31 ] || { echo "a row of the second set is not one of it: $most"; failures=$((failures + 1)); }

: >empty
mkdir -p folder photos/cats
: >photos/cats/1.JPG
mkfifo pipe
head -c 3000 t.h5 >short.h5
for command in info verify; do
    expect 3 'none: .*No such file' data $command none
    expect 3 'empty: the file is empty' data $command empty
    expect 3 'folder is an empty folder, not a dataset' data $command folder
    expect 3 'pipe: not a regular file' data $command pipe
    expect 3 'short.h5: ' data $command short.h5
    expect 3 't.csv is a CSV file, not a dataset' data $command t.csv
    hint 'convert it: `charl data import csv t.csv -o t.h5`'
    expect 2 'x requires -y' data $command t.h5 -x /train/x
done
expect 3 'photos/ is a folder of images, not a dataset' data info photos/
hint 'charl data import images photos --size 64x64 -o photos.h5`'
printf '\223NUMPY\001\000' >array
expect 3 'array is a NumPy array, not a dataset' data info array
hint 'charl data import npy X.npy Y.npy'
expect 0 'train      [34] samples' data info t.h5 -x /train/x -y /train/y
CHARL_FAULT=cli.guard.raise:1:11 expect 3 'damaged: reading it crashes (signal 11' data info t.h5
# A wrong byte in the middle of the samples, which are nearly all of the file.
expect 0 'samples' data make digits v.h5 --train 200 --val 0
printf '\252\125' | dd of=v.h5 bs=1 seek=$(($(wc -c <v.h5) / 2)) conv=notrunc 2>/dev/null
expect 3 'v.h5: /train/x: ' data verify v.h5

# Names that would steer a terminal or hide what it shows: C1, a change of direction, an invisible one, no UTF-8. From a file that
# another program made, and as the name of a file.
if has_python h5py numpy; then
    cat >hostile.py <<'PY'
import h5py, numpy, os
bad = b"\xc2\x9b31m", b"\xe2\x80\xaecod", b"\xe2\x80\x8bcat", b"\x1b[2J", b"\xc2\x85"
with h5py.File("hostile.h5", "w") as f:
    f.attrs["charl_format"], f.attrs["charl_version"], f.attrs["kind"] = numpy.bytes_("dataset"), 1, numpy.bytes_("table")
    f.attrs["class_names"] = numpy.bytes_(b"\n".join(bad))
    f.attrs["columns"] = numpy.bytes_(b"a\nb" + bad[1])
    f["train/x"], f["train/y"] = numpy.zeros((5, 2), "f4"), numpy.arange(5, dtype="i4")
    f["train/x"][0, 0] = 1
os.link("hostile.h5", b"x\xc2\x9b31m.h5")
os.link("hostile.h5", b"y\xff.h5")
PY
    cat >visible.py <<'PY'
import sys
for c in open(sys.argv[1], encoding="utf-8").read():
    assert c in "\n\t" or c.isprintable(), (sys.argv[1], hex(ord(c)))
PY
    check() {
        /usr/bin/python3 visible.py out && /usr/bin/python3 visible.py err || failures=$((failures + 1))
    }
    /usr/bin/python3 hostile.py || failures=$((failures + 1))
    expect 0 'classes    ?31m ?cod ?cat ?.2J ?$' data info hostile.h5
    check
    expect 0 '^x?31m.h5: table' data info x*31m.h5
    check
    expect 0 '^y?.h5: table' data info y*.h5
    check
    expect 3 'x?32m.h5: ' data info "$(printf 'x\302\23332m.h5')"
    check
    expect 5 'x?31m.h5 is a dataset of charl, not a checkpoint' checkpoint show x*31m.h5
    check
    printf 'a,b\n1,\342\200\256cod\n' >hostile.csv
    expect 3 'hostile.csv:2: a class name with the control or invisible character U+202E' data import csv hostile.csv -o x.h5
    mkdir -p pics/a "$(printf 'pics/b\302\205')"
    touch pics/a/1.png "$(printf 'pics/b\302\205/1.png')"
    expect 3 'a class name with the control or invisible character U+0085' data import images pics --size 4x4 -o x.h5
    check
else
    skipped "hostile names" "/usr/bin/python3 has no h5py"
fi

if [ -d "$test_data/mnist10k" ]; then
    mnist=$test_data/mnist10k
    images=$mnist/images-idx3-ubyte.gz
    labels=$mnist/labels-idx1-ubyte.gz
    expect 0 'train      8,000 samples' data import idx "$images" "$labels" -o m.h5 --val-split 0.2
    expect 0 'val        2,000 samples' data info m.h5
    expect 0 'x          u8 \[1, 28, 28\] NCHW' data info m.h5
    expect 0 'good' data verify m.h5
    expect 0 'val        10,000 samples' data import idx "$images" "$labels" "$images" "$labels" -o n.h5
    if "$charl" data import text "$test_data/tinyshakespeare.txt" text.txt --tokenizer "$test_data/gpt2-tokenizer" \
        --val-split 0.1 -o p.h5 >out 2>err; then
        expect 0 'train      301,9[0-9]* tokens, 1 document$' data info p.h5
        expect 0 'val        36,0[0-9]* tokens, 1 document$' data info p.h5
        expect 0 'train      4 tokens, 2 documents' data import tokens tokens.bin --tokenizer "$test_data/gpt2-tokenizer" --end-of-text 2 -o q.h5
    else
        grep -q 'built without' err || failures=$((failures + 1))
    fi
    expect 3 'labels and images exchanged' data import idx "$labels" "$images" -o m.h5 --overwrite
else
    echo "skipped: MNIST (CHARL_TEST_DATA has no mnist10k)"
    [ $failures = 0 ] && exit 77
fi
finish

#!/bin/sh
# Every configuration in docs/models and launch/cifar10-*.ini is one that charl-train accepts: a dry run builds it. With a
# small batch, because it runs every kernel once.
. "$(dirname "$0")/../train/common.sh"

# Stand-ins with the shapes and classes of the data sets that the pages name.
cp digits.h5 mnist.h5
seq 1 2000 >text.txt
"$bin/charl" data import text text.txt -o shakespeare.h5 --val-split 0.1 >/dev/null || exit 1
{ printf '\003'; head -c 3072 /dev/zero | tr '\000' '\100'; printf '\011'; head -c 3072 /dev/urandom; } >batch.bin
for _ in 1 2 3 4; do
    cat batch.bin batch.bin >twice.bin && mv twice.bin batch.bin
done
"$bin/charl" data import cifar10 batch.bin --test batch.bin -o cifar10.h5 >/dev/null || exit 1
cp cifar10.h5 photos.h5

# Data that the first program of a page makes.
for page in unet encoder-decoder; do
    awk '/^```/ { on = $0 == "```python" && !n++; next } on' "$root/docs/models/$page.md" >"$page.py"
    if has_python h5py numpy; then
        expect 0 "$page.md, its data" /usr/bin/python3 "$page.py"
    else
        skipped "$page.md" "no h5py"
    fi
done

# blocks PAGE: its ini blocks as PAGE-1.ini, PAGE-2.ini, ...
blocks() {
    awk -v page="$(basename "$1" .md)" '/^```/ { inside = $0 == "```ini"; n += inside; next }
        inside { print > (page "-" n ".ini") }' "$1"
}
for page in "$root"/docs/models/*.md; do
    rm -f ./*-[0-9].ini
    blocks "$page"
    found=0
    for config in ./*-[0-9].ini; do
        [ -e "$config" ] || continue
        found=$((found + 1))
        data=$(sed -nE 's/^path = ((masks|words)\.h5)$/\1/p' "$config")
        [ -z "$data" ] || [ -e "$data" ] || continue
        expect 0 "$(basename "$page"), configuration $found" ranks 1 --dry-run "$config" train.batch_size=8
    done
    checks=$((checks + 1))
    [ "$found" -gt 0 ] || fail "$(basename "$page") shows no configuration"
done
mkdir launch
cp "$root"/launch/cifar10-*.ini launch
for config in launch/*.ini; do
    expect 0 "$config" ranks 1 --dry-run "$config" data.path=cifar10.h5 train.batch_size=8
done
finish

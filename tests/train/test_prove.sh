#!/bin/sh
# charl prove and charl verify PROOF: parts of a run, recomputed without the run and its data, with batch norm, dropout, augmentation, bf16, adapters,
# tokens and data in several files; what was changed in a proof is named, also by one who recomputes all hashes that the proof has of itself.
. "$(dirname "$0")/common.sh"
needs_python h5py numpy
forge() {
    /usr/bin/python3 "$here/forge.py" "$@" || exit 1
}
mkdir away tmp
export TMPDIR="$T/tmp"

# proves WHAT RUN SEGMENTS DATA...: a proof of RUN with so many segments holds where neither RUN nor the data are there. Leaves it as `proof`.
proves() {
    what=$1 of=$2 count=$3
    shift 3
    expect 0 "$what, proof" timeout 1500 "$bin/charl" prove "$of" -o proof --segments "$count" --seed 2
    says 1 "^proof: $count of "
    says "$count" '^steps [0-9]+ to [0-9]+: replayed, as recorded'
    mv "$of" "$@" away
    expect 0 "$what, verified" timeout 1500 "$bin/charl" verify proof
    says "$count" '^steps [0-9]+ to [0-9]+: replayed, as recorded'
    says 1 '^as recorded: run.lock \([0-9]* lines\), config.ini, the checksums of the data, [0-9]* checkpoints?$'
    says 1 '^follows: steps '
    for f in "$of" "$@"; do
        mv "away/$(basename "$f")" .
    done
}
# refused WHY: `forged` is, with a line that matches
refused() {
    expect 1 "$1" timeout 1500 "$bin/charl" verify forged
    says 1 "$1"
}
# open_proof: the files of `proof` in `in`
open_proof() {
    rm -rf in
    mkdir in
    forge unpack proof in
}
close_proof() { # [DEVICE]
    forge pack proof in forged "$@"
}
thin="checkpoint.interval=1 checkpoint.keep_last=2 checkpoint.keep_every=4"

# Batch norm, dropout and augmentation, on 4 ranks, in one set that is larger than its blocks.
"$bin/charl" data make digits data.h5 -t 4000 -v 1500 >/dev/null || exit 1
set -- cnn.ini -q data.path=data.h5 data.augment=flip,crop:2 train.max_steps=10 $thin
expect 0 "a run" ranks 1 --simulate-ranks 4 "$@" -o run
proves "cnn" run 4 data.h5
says 1 '^does not follow: the evaluations;'
last=$(tail -n 1 run/run.lock | sed 's/.*hash=//')
says 1 "^last hash: $last\$"
expect 0 "one of its segments, and the published hash" "$bin/charl" verify proof --segments 1 --seed 5 --hash "$last"
says 1 '^1 of 4 segments replayed \(--seed 5\)$'
says 1 '^does not follow: steps .*; what the data are beyond their checksums$'
expect 1 "another hash" "$bin/charl" verify proof --segments 1 --hash "$(sed -n '3s/.*hash=//p' run/run.lock)"
says 1 '^the hash .* is of line 3 of run.lock, not of the last'
# The validation rows are not in it.
checks=$((checks + 1))
[ "$(stat -c %s proof)" -lt "$(($(stat -c %s data.h5) - 900000))" ] || fail "a proof of $(stat -c %s proof) bytes holds all of the data"
# Where there are few folders and files.
expect 8 "nowhere to unpack" env TMPDIR="$T/missing" "$bin/charl" verify proof
says 1 "no folder can be made in $T/missing"
checks=$((checks + 1))
ls tmp | grep '^charl-' && fail "an unpacked proof is left"

# Forged: a state, rows, run.lock, the configuration, parts of another run; with good hashes, and cut short.
expect 0 "a proof" "$bin/charl" prove run -o proof --segments 3 --seed 3
open_proof
start=$(ls in/checkpoints | tail -n 1)
forge weight "in/checkpoints/$start"
close_proof
refused "^forged/checkpoints/$start: its tensors differ from line [0-9]+ of run.lock\$"
open_proof
printf '\252\125\252' | dd of=in/data/0000.h5 bs=1 seek=1500000 conv=notrunc 2>/dev/null
close_proof
expect 1 "a row" "$bin/charl" verify forged --segments 1
says 1 '^steps [0-9]+ to [0-9]+: not replayed: forged/data/0000.h5: /train/x: damaged: checksum of rows '
says 1 'error: the proof is not what run.lock records: 1 difference$'
open_proof
cp digits.h5 in/data/0000.h5
close_proof
refused '^the data, forged/data/0000.h5, are not those that line 1 of run.lock records$'
open_proof
sed -i '7s/tensors=......../tensors=00000000/' in/run.lock
close_proof
refused '^run.lock, line 7: was changed: its hash does not match$'
chain in/run.lock
close_proof
refused '^steps 5 to 8: replayed, and different: the tensors of step 6 differ$'
open_proof
sed -i '$d' in/run.lock
close_proof
expect 1 "a line less" "$bin/charl" verify forged --hash "$last"
says 1 "^run.lock has no line with the hash $last\$"
open_proof
sed -i 's/^learning_rate *=.*/learning_rate = 0.06/' in/config.ini
close_proof
refused '^forged/config.ini is not the configuration that line 1 of run.lock records$'
expect 0 "another run" ranks 1 "$@" -o other run.seed=5
open_proof
cp "other/checkpoints/$start" in/checkpoints
close_proof
refused "^forged/checkpoints/$start: is of another run \([0-9a-f]{16}\) than forged \([0-9a-f]{16}\)\$"
says 1 "^forged/checkpoints/$start: its tensors differ from line [0-9]+ of run.lock\$"
cp proof forged
forge segments forged
expect 5 "no segments" "$bin/charl" verify forged
says 1 'error: forged: the manifest is malformed$'
head -c 60000 proof >forged
expect 5 "cut short" "$bin/charl" verify forged
says 1 'error: forged: is damaged'
cp proof forged
printf '\252\125\252' | dd of=forged bs=1 seek=$(($(stat -c %s proof) / 2)) conv=notrunc 2>/dev/null
expect 5 "a byte" "$bin/charl" verify forged
says 1 'error: forged: [a-z0-9/.-]* in it is damaged: its SHA-256 differs$'
expect 5 "no proof" "$bin/charl" verify data.h5
says 1 'data.h5 is a dataset of charl, not a run directory or a proof'
expect 3 "a proof in the place of data" ranks 1 cnn.ini data.path=proof
says 1 'proof is a proof of a run, not a dataset; HINT|hint: .charl verify proof. checks it'

# What has no proof.
cp -r run bad
sed -i '4s/tensors=......../tensors=00000000/' bad/run.lock
expect 5 "a run that was changed" "$bin/charl" prove bad -o none
says 1 'bad is not what its run.lock records: run.lock, line 4: was changed'
says 1 'hint: .charl verify bad. names all that differs'
chain bad/run.lock
expect 5 "a line that was forged" "$bin/charl" prove bad -o none --segments 4
says 1 'the segments do not prove what run.lock records: the tensors of step 3 differ'
mv data.h5 moved.h5
expect 3 "no data" "$bin/charl" prove run -o none
expect 0 "data elsewhere" "$bin/charl" prove run -o some data.path=moved.h5
mv moved.h5 data.h5
expect 2 "its own data" "$bin/charl" prove run -o data.h5
[ ! -e none ] || fail "a proof that is none"
expect 2 "no output" "$bin/charl" prove run
# Settings that changed on the way: only steps with those of the last start.
expect 0 "more steps" ranks 1 "$@" -o run train.max_steps=14
proves "a run that was continued" run 2 data.h5
says 1 '^does not follow: steps 1 to 12;'
cp proof forged
forge segments forged 0 12
refused '^steps 1 to 12 were trained with other settings or data than config.ini has$'

# Stopped before its first step, with a checkpoint of step 0.
set -- mlp.ini -q data.path=digits.h5 train.max_steps=2 checkpoint.interval=0 -o zero
expect 75 "stopped at once" env CHARL_FAULT=train.stop:1 "$bin/charl-train" "$@"
expect 0 "and continued" ranks 1 "$@"
expect 0 "its proof" "$bin/charl" prove zero -o proof --segments 2
says 1 '^steps 1 to 2: replayed, as recorded'
says 0 '^steps 1 to 0'
expect 0 "all of it" "$bin/charl" verify zero --segments 1
says 1 '^proven by a replay: every step'
set -- cnn.ini -q data.path=data.h5 data.augment=flip,crop:2 train.max_steps=10 $thin

# Weights to begin with that the configuration conceals.
expect 0 "a concealed start" ranks 1 "$@" -o secret init.from=other/last.h5 checkpoint.interval=10 train.max_steps=10
expect 0 "its proof" "$bin/charl" prove secret -o proof
says 1 '^steps 1 to 10: replayed, as recorded'
expect 0 "it says so" "$bin/charl" verify proof
says 1 'what init.from held is not recorded in run.lock: init/[a-z0-9.-]* of the proof is taken for it$'
open_proof
sed -i 's|^from *=.*[.]h5$|from = none|' in/config.ini
sed -i "s/config=[0-9a-f]*/config=$(sha256sum in/config.ini | cut -c 1-64)/" in/run.lock
chain in/run.lock
close_proof
expect 5 "concealed" "$bin/charl" verify forged
says 1 'error: the proof holds weights to begin with, init/[a-z0-9.-]*, and its config.ini has no init.from$'

# bf16, a moving average, weighted classes, several files: only on the same kind of device.
"$bin/charl" data split data.h5 -o a.h5 b.h5 >/dev/null 2>&1 || { cp data.h5 a.h5; cp digits.h5 b.h5; }
expect 0 "bf16" ranks 1 mlp.ini -q "data.path=[ab].h5" train.precision=bf16 train.ema_decay=0.9 train.class_weights=balanced train.max_steps=6 $thin -o half
proves "bf16" half 2 a.h5 b.h5
open_proof
close_proof "another device"
expect 1 "another device" "$bin/charl" verify forged
says 2 ': not replayed: its bits are those of one kind of device and driver, because of .*: the proof was made on another device, driver '

# Adapters on weights of another run, which their checkpoints leave where they are; tokens; a mix.
make_gpt
cat >>gpt.ini <<'INI'
[train]
max_steps = 6
batch_size = 8
slices = 4
INI
expect 0 "the base" ranks 1 gpt.ini -q -o base $thin
proves "tokens" base 3 text.h5
expect 0 "adapters" ranks 1 gpt.ini -q -o adapters init.from=base/last.h5 lora.rank=4 "lora.targets=*.attn.*, *.mlp.*" lora.dropout=0.1 $thin
proves "adapters" adapters 3 text.h5 base
expect 0 "adapters without another checkpoint" ranks 1 gpt.ini -q -o once init.from=base/last.h5 lora.rank=4 checkpoint.interval=0 train.max_steps=2
expect 0 "their proof" timeout 1500 "$bin/charl" prove once -o proof
says 1 '^steps 1 to 2: replayed, as recorded'
cp text.h5 more.h5
sed -i 's/^path = .*/mix = text.h5:0.7, more.h5:0.3/' gpt.ini
expect 0 "a mix" ranks 1 gpt.ini -q -o mix $thin
proves "a mix" mix 2 text.h5 more.h5

# Checkpoints in parts.
expect 0 "parts" ranks 2 mlp.ini -q -o parts checkpoint.parts=rank train.max_steps=4 $thin
proves "parts" parts 2 digits.h5
finish

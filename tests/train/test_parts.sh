#!/bin/sh
# Checkpoints that every rank writes a part of (checkpoint.parts): the same state as in one file, each rank half of the bytes, continued by any
# number of ranks in any mode; damage is named; a rank that fails or dies while it writes leaves no checkpoint that opens, and no file for good.
rows=80
. "$(dirname "$0")/common.sh"

# files RUN PATTERN: how many files of the checkpoints match
files() {
    find "$1/checkpoints" -name "$2" | wc -l
}

# tidy WHAT RUN: each checkpoint verifies, and has both of its parts; there is no other file
tidy() {
    checks=$((checks + 1))
    _n=$(files "$2" '*.h5')
    [ "$(files "$2" '*.part')" -eq $((2 * _n)) ] && [ "$(files "$2" '*')" -eq $((3 * _n + 1)) ] ||
        { fail "$1: files"; ls "$2/checkpoints"; }
    expect 0 "$1, verified" "$bin/charl" checkpoint verify "$2"/checkpoints/* # with parts among them
}

# stopped N MODE...: trained to step 3 by 2 ranks in parts, to the end by N
stopped() {
    _by=$1
    shift
    rm -rf v
    export CHARL_FAULT=train.stop:4
    expect 75 "stopped for $_by ranks" ranks 2 mlp.ini -q -o v checkpoint.parts=rank
    unset CHARL_FAULT
    expect 0 "resumed by $_by ranks" ranks "$_by" mlp.ini -q -o v "$@"
    same "resumed by $_by ranks $*" whole v
}

expect 0 "one file" ranks 1 mlp.ini -q -o whole
[ "$(files whole '*.part')" -eq 0 ] || fail "a small checkpoint has parts"
expect 0 "in parts" ranks 2 mlp.ini -q -o run checkpoint.parts=rank checkpoint.interval=2
same "in parts" whole run
tidy "in parts" run
last=run/$(readlink run/last.h5)

# Each rank has written about half of the bytes.
checks=$((checks + 1))
# shellcheck disable=SC2046 # two numbers
set -- $(stat -c %s "$last".*.part)
[ $# -eq 2 ] && [ $(($1 * 100 / ($1 + $2))) -ge 45 ] && [ $(($1 * 100 / ($1 + $2))) -le 55 ] || fail "the parts have $* bytes"

# The lines of run.lock have the hashes that one file has.
checks=$((checks + 1))
_a=$(tail -n 1 whole/run.lock | grep -o 'tensors=[0-9a-f]* state=[0-9a-f]*') _b=$(tail -n 1 run/run.lock | grep -o 'tensors=[0-9a-f]* state=[0-9a-f]*')
[ -n "$_a" ] && [ "$_a" = "$_b" ] || fail "run.lock: $_a and $_b"
expect 0 "verify" timeout 1500 "$bin/charl" verify run

expect 0 "show" "$bin/charl" checkpoint show run
says 1 '^  parts       2 files beside it, '
expect 0 "average" "$bin/charl" checkpoint average run/checkpoints/* -o average.h5
expect 0 "pack" "$bin/charl" checkpoint pack run -o one.h5
expect 0 "the same state" "$bin/charl" checkpoint diff run one.h5
says 1 '^equal$'

# Adapters keep the parts of their base too: the run of the base may remove them.
set -- init.from=base/last.h5 lora.rank=2 lora.targets=fc1 train.max_steps=2
cp -r run base
expect 0 "adapters" ranks 1 mlp.ini -q -o adapters "$@"
rm -r base/checkpoints
expect 0 "adapters without the run of their base" "$bin/charl" eval mlp.ini adapters/last.h5 "$@"
expect 0 "no adapters any more" ranks 1 mlp.ini -q -o adapters --overwrite
[ -z "$(find adapters -name '*.part')" ] || fail "--overwrite has left the parts of a base"
rm -rf base adapters

# Whoever writes, and in whatever mode, reads it.
stopped 3 checkpoint.parts=rank dist.shard=optimizer
stopped 1 checkpoint.parts=one
[ -n "$long" ] && stopped 4 checkpoint.parts=one && stopped 2 checkpoint.parts=rank dist.shard=optimizer dist.bucket_mb=0.01
rm -rf v
export CHARL_FAULT=train.stop:4
expect 75 "sharded, stopped" ranks 3 mlp.ini -q -o v checkpoint.parts=rank dist.shard=optimizer dist.bucket_mb=0.01
unset CHARL_FAULT
expect 0 "sharded, resumed" ranks 2 mlp.ini -q -o v
same "sharded" whole v

# Packed states, and an average, of which each rank has blocks.
set -- optimizer.state=int8 train.ema_decay=0.9
expect 0 "packed, one file" ranks 1 mlp.ini -q -o packed "$@"
for mode in none parameters; do
    rm -rf v
    expect 0 "packed, $mode" ranks 2 mlp.ini -q -o v "$@" checkpoint.parts=rank dist.shard=$mode
    same "packed, $mode" packed v
done

# Gradients and parameters are divided too, and a rank has several pieces of a large tensor: 1,605,632 numbers, of which 1,048,576 are summed up at a time.
set -- model.hidden=2048 train.max_steps=2 train.epochs=1 dist.bucket_mb=4
expect 0 "large, one file" ranks 1 mlp.ini -q -o large "$@"
rm -rf v
expect 0 "large" ranks 3 mlp.ini -q -o v "$@" checkpoint.parts=rank dist.shard=parameters dist.allreduce=p2p
same "large" large v
checks=$((checks + 1))
python3 -c '
import sys
lines = open(sys.argv[1], "rb").read().split(b"\n")
sys.exit(max(sum(b"/optim/exp_avg/" + n in l for l in lines) for n in (b"fc1.weight", b"layers.0.weight")) < 2)
' "$(find v/checkpoints -name '*.part' | head -n 1)" || fail "no rank has several pieces of a tensor"

# One byte: the part and the tensor are named, and the training goes back one checkpoint.
cp -r run damaged
part=$(ls damaged/"$(readlink run/last.h5)".*.part | head -n 1)
at=$(($(stat -c %s "$part") / 2))
byte=$(od -An -tu1 -j $at -N 1 "$part")
printf "\\$(printf %o $((byte ^ 1)))" | dd of="$part" bs=1 seek=$at conv=notrunc 2>/dev/null
expect 5 "damage" "$bin/charl" checkpoint verify damaged
says 1 "$part: /[a-z_/]*/[a-z0-9.]* is damaged: its checksum"
expect 0 "from the one before" ranks 3 mlp.ini -o damaged checkpoint.parts=rank
says 1 'is damaged'
same "from the one before" whole damaged

# The disk of one rank is full: a warning on one line, training continues, and nothing of that save is left.
export CHARL_FAULT=io.enospc@1:1
expect 0 "full disk" ranks 2 mlp.ini -o full checkpoint.parts=rank checkpoint.interval=4
unset CHARL_FAULT
says 1 'no checkpoint at step 4: .*\.part: write failed: No space left on device.*; training continues \(failure 1 of 3 in a row\)'
same "full disk" whole full
tidy "full disk" full
# Rank 0 cannot write the file that makes a checkpoint of the parts.
export CHARL_FAULT=io.enospc@0:20
expect 0 "full disk of rank 0" ranks 2 mlp.ini -o v --overwrite checkpoint.parts=rank checkpoint.interval=4
unset CHARL_FAULT
says 1 'no checkpoint at step 4: .*\.h5: write failed: No space left on device'
tidy "full disk of rank 0" v
export CHARL_FAULT='io.enospc@1:*'
expect 8 "a disk that stays full" ranks 2 mlp.ini -q -o none checkpoint.parts=rank
unset CHARL_FAULT
says 1 'writing the checkpoint: .*No space left'
[ -z "$(find none -name '*.part' 2>/dev/null)" ] || fail "a failed save has left parts"

# kill -9 of a rank at each moment of a save; then the same command.
faults="written@1:1 verified@1:1 renamed@1:2 renamed@0:9 written@0:11"
[ -n "$long" ] && faults="$faults synced@1:2 verified@0:10"
for fault in $faults; do
    rm -rf v
    export CHARL_FAULT="io.crash.$fault"
    ranks 2 mlp.ini -q -o v checkpoint.parts=rank checkpoint.interval=2 >"$T/log" 2>&1 && fail "$fault: nothing died"
    unset CHARL_FAULT
    for h in v/checkpoints/*.h5; do
        [ -e "$h" ] && expect 0 "$fault: $h" "$bin/charl" checkpoint verify "$h"
    done
    expect 0 "after $fault" ranks 2 mlp.ini -q -o v checkpoint.parts=rank checkpoint.interval=2
    same "after $fault" whole v
    tidy "after $fault" v
done

expect 0 "--overwrite" ranks 2 mlp.ini -q -o v --overwrite
[ "$(files v '*.part')" -eq 0 ] || fail "--overwrite has left parts"
finish

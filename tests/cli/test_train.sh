#!/bin/sh
# charl-train from outside: options, exit codes, messages, files, resume, signals.
. "$(dirname "$0")/../support/shell.sh"
train=$bin/charl-train
charl=$bin/charl
dir=$T
cd "$root" || exit 1
unset NO_COLOR OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_NTASKS

# expect NAME CODE COMMAND...: run it, output to $dir/out and $dir/err
expect() {
    name=$1 want=$2
    checks=$((checks + 1))
    shift 2
    "$@" >"$dir/out" 2>"$dir/err" </dev/null
    got=$?
    if [ "$got" -ne "$want" ]; then
        fail "$name: exit $got, expected $want"
        tail -n 5 "$dir/out" "$dir/err"
    fi
}
# says FILE TEXT: the last command wrote TEXT there
says() {
    grep -qF -- "$2" "$dir/$1" || { fail "$name: no \"$2\" in std$1"; cat "$dir/$1"; }
}
check() {
    what=$1
    shift
    "$@" || fail "$name: $what"
}

expect help 0 "$train" --help
says out "Usage: charl-train [OPTION...] CONFIG"
says out "--fast-dev-run"
expect short-help 0 "$train" -h
expect version 0 "$train" --version
says out "charl-train "
says out "onnx and gguf: written"
expect no-config 2 "$train"
says err "no configuration file"
says err "  hint: see \`charl-train --help\`"
expect bad-option 2 "$train" --bogus
says err "charl-train: error: unrecognized option '--bogus'"
says err "  hint: see \`charl-train --help\`"
expect bad-epochs 2 "$train" --epochs 5 a.ini
says err "  hint: did you mean the setting train.epochs=VALUE? See \`charl-train --help\`"
expect bad-lr 2 "$train" --lr=0.1 a.ini
says err "  hint: did you mean the setting optimizer.learning_rate=VALUE?"
expect ranks 2 "$train" --ranks 4 "$dir/t.ini"
says err "  hint: \`charl launch -n 4 CONFIG\` trains on four ranks"
expect two-configs 2 "$train" a.ini b.ini
says err "more than one configuration file: a.ini and b.ini"
expect bad-style 2 "$train" --progress=fancy a.ini
says err "charl-train: error: --progress: \"fancy\" is not one of auto, bar, plain, none"
expect bad-color 2 "$train" --color=red a.ini
says err "--color: \"red\" is not one of auto, never, always"
expect bad-count 2 "$train" --fast-dev-run=x a.ini
says err "--fast-dev-run: \"x\" is not an integer"
expect bad-env 2 "$train" --env=xml
says err "--env xml: must be json"
expect bad-ranks 2 "$train" --simulate-ranks=2x a.ini
says err "--simulate-ranks 2x: must be 1 to "
expect missing 2 "$train" "$dir/none.ini"
says err "charl-train: error: $dir/none.ini: No such file or directory"
expect no-time 2 "$train" --max-time= "$dir/none.ini"
says err "--max-time: the value is empty"
mkdir "$dir/2026-HINTS" "$dir/HINTS"
for folder in 2026-HINTS HINTS; do # what a hint begins with, in a name
    expect "$folder" 2 "$train" "$dir/$folder/none.ini"
    says err "charl-train: error: $dir/$folder/none.ini: No such file or directory"
    check "no hint" test "$(grep -c hint "$dir/err")" -eq 0
done
expect help-config 0 "$train" --help-config
says out "learning_rate = 1e-3"
expect help-section 0 "$train" --help-config=eval
says out "[eval]"
check "only one section" test "$(grep -c '^\[' "$dir/out")" -eq 1
expect help-layer 0 "$train" --help-config=layer
says out "type = embedding"
says out "standard deviation of the initial values"
check "nothing but layers and blocks" test "$(grep -c "^\[" "$dir/out")" -eq 2
expect help-nothing 2 "$train" --help-config=evl
says err "did you mean eval?"
expect env 0 "$train" --env=json
check "env is JSON" sh -c "/usr/bin/python3 -m json.tool <'$dir/out' >/dev/null"

cat >"$dir/bad.ini" <<'INI'
[data]
path = d.h5
[model]
type = mlp
[optimizer]
learning_rte = 1
[train]
epochs = ten
INI
expect mistakes 2 "$train" "$dir/bad.ini"
says err "charl-train: error: $dir/bad.ini:6: [optimizer] learning_rte: unknown key (did you mean learning_rate?)"
says err "charl-train: error: $dir/bad.ini:8: [train] epochs: \"ten\" is not an integer"
check "nothing on stdout" test ! -s "$dir/out"

cat >"$dir/t.ini" <<'INI'
[data]
path = d.h5
[model]
type = mlp
hidden = 16
[train]
epochs = 2
batch_size = 64
[log]
interval = 2
INI
expect print-config 0 "$train" --print-config "$dir/t.ini" optimizer.lr=2e-3 -o "$dir/runs/p"
says out "learning_rate = 0.002                   ; command line"
says out "hidden = 16                             ; $dir/t.ini:5"
says out "seed = 42                               ; default"
says out "; --output-dir"
says err "note: command line: [optimizer] lr is read as learning_rate"
cp "$dir/out" "$dir/again.ini"
expect last-wins 0 "$train" -s train.epochs=4 --set=train.epochs=5 "$dir/t.ini" train.epochs=6 run.output_dir=/a --print-config -o/b -strain.epochs=7
says out "epochs = 7"
says out "output_dir = /b "
expect last-operand-wins 0 "$train" -o /b --print-config "$dir/t.ini" train.epochs=6 -r run.resume=never run.output_dir=/a
says out "output_dir = /a "
says out "resume = never"
for last in -r --resume --res -qr; do
    expect "last-is$last" 0 "$train" "$dir/t.ini" run.resume=never --print-config $last
    says out "resume = auto"
done
expect print-again 0 "$train" --print-config "$dir/again.ini"
sed 's/ *;.*//' "$dir/again.ini" >"$dir/a"
sed 's/ *;.*//' "$dir/out" >"$dir/b"
check "the printed configuration reads back" cmp -s "$dir/a" "$dir/b"

if command -v mpirun >/dev/null 2>&1; then
    expect mpi-help 0 mpirun -q --oversubscribe -n 3 "$train" --help
    check "help comes once" test "$(grep -c Usage: "$dir/out")" -eq 1
    expect mpi-mistakes 2 mpirun -q --oversubscribe -n 3 "$train" "$dir/bad.ini"
    check "mistakes come once" test "$(cat "$dir/out" "$dir/err" | grep -c learning_rte)" -eq 1
fi

expect no-data 3 "$train" "$dir/t.ini"
says err "d.h5"
"$charl" data make digits "$dir/d.h5" --train 256 --val 64 --seed 1 >/dev/null || { echo "FAIL: no data"; exit 1; }

expect devices 0 "$train" --list-devices
[ -s "$dir/out" ] || skip "no OpenCL device"

mkdir "$dir/lr=0.1"
cp "$dir/t.ini" "$dir/lr=0.1/t.ini"
expect equals-in-path 0 "$train" --print-config "$dir/lr=0.1/t.ini" train.epochs=3
says out "epochs = 3                              ; command line"
cd "$dir" || exit 1
expect equals-in-name 0 "$train" --print-config lr=0.1/t.ini
cd "$OLDPWD" || exit 1

expect dry-run 0 "$train" --dry-run "$dir/t.ini"
says out "parameters"
check "a dry run writes nothing" test ! -e "$dir/runs"
expect fast-dev-run 0 "$train" --fast-dev-run=2 "$dir/t.ini"
check "a fast development run writes nothing" test ! -e "$dir/runs"
expect must 5 "$train" --resume=must "$dir/t.ini"
says err "holds no usable checkpoint"

run=$dir/runs/t
rm -rf "$dir/runs"
expect first 0 "$train" "$dir/t.ini"
says out " train step=2/8 epoch=0.50 loss="
says out " val step=4 loss="
says out " checkpoint step=8 file=checkpoints/step-00000008.h5"
says out " done step=8 epoch=2 best_val_loss="
says out "/best.h5  (best val/loss: "
says out "  next     charl predict "
says out "/best.h5 --report=json >$run/eval.json"
says out "           charl report $run"
sed -n 's/^           charl /charl /p' "$dir/out" >"$dir/next"
check "two more commands" test "$(wc -l <"$dir/next")" -eq 2
check "they run" sh -c "cd '$dir' && PATH='$bin':\$PATH && export PATH && exec sh -e next >log 2>&1"
check "the page shows the evaluation" grep -qF 'split\":\"val\"' "$dir/report.html"
check "no carriage return in a log" sh -c "! grep -q '$(printf '\r')' '$dir/out'"
for f in config.ini env.json train.log metrics.jsonl metrics.csv last.h5 best.h5; do
    check "$f is written" test -s "$run/$f"
done
check "metrics are JSON" /usr/bin/python3 -c "import json,sys; [json.loads(l) for l in open('$run/metrics.jsonl')]"
check "env.json is JSON" /usr/bin/python3 -c "import json; json.load(open('$run/env.json'))"
expect effective 0 "$train" --print-config "$run/config.ini"
says out "path = $dir/d.h5"
cp "$run/metrics.csv" "$dir/first.csv"

expect never 2 "$train" --resume=never "$dir/t.ini"
says err "--overwrite"
expect resume 0 "$train" "$dir/t.ini" train.epochs=3
says out "start step=8/12"
check "rows of both runs" test "$(grep -c . "$run/metrics.csv")" -eq 10
check "the first rows are kept" sh -c "head -n 7 '$run/metrics.csv' | cmp -s - '$dir/first.csv'"
expect overwrite-must 2 "$train" --overwrite --resume=must "$dir/t.ini" train.epochs=3
says err "--overwrite starts a new run, but run.resume = must continues one"
check "nothing is removed" test -s "$run/checkpoints/step-00000012.h5"
expect overwrite 0 "$train" --overwrite "$dir/t.ini"
check "checkpoints of the old run are gone" test ! -e "$run/checkpoints/step-00000012.h5"
check "the same losses" sh -c "cut -d, -f1,2,4-6,11,12 '$run/metrics.csv' >'$dir/a'; cut -d, -f1,2,4-6,11,12 '$dir/first.csv' | cmp -s - '$dir/a'"
expect changed-model 5 "$train" "$dir/t.ini" model.hidden=17 train.epochs=3
says err "hidden"

# What a run cannot go on with, and what to do about it.
expect changed-batch 5 "$train" "$dir/t.ini" train.batch_size=32 train.epochs=3
says err "was trained with train.batch_size = 64 and train.slices = 8, now 32 and 8"
says err "  hint: set them back, or start a new run with -o DIR, or with --overwrite in the place of this one (--init-from keeps the weights)"
expect changed-optimizer 5 "$train" "$dir/t.ini" optimizer.type=sgd train.epochs=3
says err "was trained with adamw, now optimizer.type is sgd"
says err "  hint: set it back, or start a new run with -o DIR, or with --overwrite in the place of this one (--init-from keeps the weights)"
"$charl" data make digits "$dir/alone.h5" --train 128 --val 0 >/dev/null || { echo "FAIL: no data"; exit 1; }
expect changed-data 5 "$train" "$dir/t.ini" data.path="$dir/alone.h5" train.epochs=9
says err "was trained on 256 samples, $dir/alone.h5 has 128"
says err "  hint: set data.path or data.mix back, "
expect no-validation 2 "$train" -n "$dir/t.ini" data.path="$dir/alone.h5" train.early_stopping_patience=2
says err "train.early_stopping_patience needs a validation set, $dir/alone.h5 has none"

expect bar 0 "$train" --progress=bar --color=never -o "$dir/runs/bar" "$dir/t.ini"
says out "epoch 2/2 "
says out "━"
says out "done at step 8 after 0:"
check "no color" sh -c "! grep -q '$(printf '\033')\[32m' '$dir/out'"
# Epochs end within a step: 256 rows in batches of 48. Each has its whole line before its evaluation.
expect epochs 0 "$train" -v --progress=bar --color=never -o "$dir/runs/epochs" "$dir/t.ini" train.batch_size=48 train.epochs=3
tr '\r' '\n' <"$dir/out" | sed -n 's/.*epoch \(.\)\/3 .* \([0-9]*\)\/\2 .*/epoch \1: \2/p; s/^ *val .*/val/p' >"$dir/a"
printf 'epoch 1: 6\nval\nepoch 2: 5\nval\nepoch 3: 5\nval\n' >"$dir/b"
check "lines of epochs: $(tr '\n' ' ' <"$dir/a")" cmp -s "$dir/a" "$dir/b"
expect quiet 0 "$train" -q -o "$dir/runs/quiet" "$dir/t.ini"
check "quiet" test ! -s "$dir/out"
expect tf32 0 "$train" --dry-run --simulate-ranks 2 "$dir/t.ini" device.select=cpu device.allow_tf32=yes
says err "warning: "
check "one line, no tensor cores" test "$(grep -c 'has no tensor cores for tf32: f32 is multiplied as f32' "$dir/err")" -eq 1
sed 's/^\[device\]/&\nselect = pci:zz/' "$dir/t.ini" >"$dir/pci.ini"
grep -q '^select = pci:zz' "$dir/pci.ini" || printf '\n[device]\nselect = pci:zz\n' >>"$dir/pci.ini"
at=$(grep -n '^select = pci:zz' "$dir/pci.ini" | cut -d: -f1)
expect pci 2 "$train" -n "$dir/pci.ini"
says err "pci.ini:$at: [device] select: device \"pci:zz\": a PCI address has the form pci:0000:3b:00.0"
expect no-such-device 4 "$train" -n "$dir/t.ini" device.select=name:nonsense
says err "command line: [device] select: device \"name:nonsense\" matches none of the "
CHARL_DEVICE=name:nonsense expect other-device 4 "$train" -n "$dir/t.ini" device.select=cpu
says err "error: CHARL_DEVICE is set: device \"name:nonsense\" matches none"
expect full 8 sh -c "'$train' --print-config '$dir/t.ini' >/dev/full"
expect full-help 8 sh -c "'$train' --help >/dev/full"

# STOP: checkpoint, exit 75, and the same command continues.
mkdir -p "$dir/runs/it's here"
: >"$dir/runs/it's here/STOP"
expect stop 75 "$train" -o "$dir/runs/it's here" "$dir/t.ini"
says out " stopped step="
says out "  next     the same command continues"
check "STOP is taken" test ! -e "$dir/runs/it's here/STOP"
expect nothing-left 0 "$train" -o "$dir/runs/nothing" --resume="$run" "$dir/t.ini"
check "no checkpoint that is not there" sh -c "! grep -q 'next  ' '$dir/out'"
expect goes-on 0 "$train" -o "$dir/runs/it's here" "$dir/t.ini"
says out " done step=8"
quoted="'$dir/runs/it'\\''s here"
says out "(touch $quoted/STOP': "
says out "charl predict $quoted/best.h5' [DATA...]"
says out "           charl report $quoted'"
cp "$dir/runs/it's here/metrics.csv" "$dir/second.csv"
check "as if never stopped" sh -c "tail -n 1 '$dir/second.csv' | cut -d, -f11,12 >'$dir/a'; tail -n 1 '$dir/first.csv' | cut -d, -f11,12 | cmp -s - '$dir/a'"

# A signal does the same; max_time too. HUP does not where it is ignored, as under nohup: USR1 stops without announcing it.
for sig in USR1 USR2 TERM INT HUP; do
    out=$dir/runs/$sig
    name=signal-$sig
    ([ $sig != USR1 ] || trap '' HUP; exec "$train" -o "$out" "$dir/t.ini" train.epochs=1000000 checkpoint.interval=0 >"$dir/out" 2>"$dir/err") &
    pid=$!
    while kill -0 "$pid" && [ ! -s "$out/metrics.jsonl" ]; do
        sleep 0.1
    done
    [ $sig != USR1 ] || kill -HUP "$pid"
    kill -"$sig" "$pid"
    wait "$pid"
    got=$?
    [ $sig != USR1 ] || check "HUP is ignored" test ! -s "$dir/err"
    check "exit $got, expected 75" test "$got" -eq 75
    check "a checkpoint is saved" test -s "$out/last.h5"
done
expect max-time 75 "$train" --max-time 1s -o "$dir/runs/time" "$dir/t.ini" train.epochs=1000000
says out " stopped step="

finish

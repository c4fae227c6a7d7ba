#!/bin/sh
# charl runs: run directories at any depth with their states; --prune lists, and with --yes removes, what neither the last nor the best checkpoint
# is, and never touches a run that trains.
. "$(dirname "$0")/common.sh"

runs() { # runs CODE WHAT ARGUMENTS...
    _code=$1 _what=$2
    shift 2
    expect "$_code" "$_what" "$bin/charl" runs "$@"
}
held() { # held DIR: the steps of its checkpoints
    ls "$1/checkpoints" | sed -n 's/^step-0*\([0-9]*\)\.h5$/\1/p' | tr '\n' ' '
}
is() { # is WHAT HAVE WANT
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1: $2, expected $3"
}

# The best is at step 2: the learning rate is too high after it.
expect 0 "a run" ranks 1 mlp.ini -q checkpoint.interval=1 checkpoint.keep_last=100 eval.interval=1 scheduler.type=multistep scheduler.milestones=2 \
    scheduler.warmup_steps=0 optimizer.learning_rate=1e-2 train.max_steps=6 train.ema_decay=0 -o runs/a
best=$(readlink runs/a/best.h5 | sed 's/.*step-0*\([0-9]*\)\.h5/\1/')
CHARL_FAULT=train.stop:3 expect 75 "a stopped one" ranks 1 mlp.ini -q -o runs/deep/er/b
runs 0 "the default"
says 1 '^run +state +step +best +size +age$'
says 1 '^runs/a +done +6  val/loss=[0-9.]+ +[0-9.]+ MB +[0-9]+ (s|min)$'
says 1 '^runs/deep/er/b +stopped +2  - '
says 1 '^2 runs, [0-9.]+ MB$'
runs 0 "one of them" runs/a
says 1 '^1 run, '
is "all checkpoints" "$(held runs/a)" "1 2 3 4 5 6 "
runs 0 "what can be removed" --prune
says 1 "^runs/a: $([ "$best" = 6 ] && echo 5 || echo 4) checkpoints, [0-9.]+ MB\$"
says 0 'deep/er/b'
says 1 ' checkpoints beside the last and the best ones, [0-9.]+ MB; add --yes to remove them$'
is "nothing is removed" "$(held runs/a)" "1 2 3 4 5 6 "

# A run that trains.
sed -e 's/^epochs = 2/epochs = 1000000/' -e 's/^type = cosine/type = constant/' mlp.ini >long.ini
"$bin/charl-train" long.ini -q checkpoint.interval=1 checkpoint.keep_last=100000 eval.interval=0 -o runs/c >job 2>&1 &
job=$!
for _i in $(seq 3000); do
    [ -e runs/c/checkpoints/step-00000003.h5 ] && break
    sleep 0.1
done
runs 0 "a run that trains" runs/c
says 1 '^runs/c +running '
runs 0 "pruned meanwhile" --prune --yes
says 1 '^runs/c: running, left as it is$'
says 1 "^$([ "$best" = 6 ] && echo 5 || echo 4) checkpoints removed, [0-9.]+ MB freed\$"
kill "$job"
wait "$job"
checks=$((checks + 1))
[ -e runs/c/checkpoints/step-00000001.h5 ] || fail "a checkpoint of a run that trains was removed"
is "what stays" "$(held runs/a)" "$(printf '%s\n' "$best" 6 | sort -un | tr '\n' ' ')"
expect 0 "the record holds" "$bin/charl" verify runs/a --segments 10
says 1 'recorded and not kept$'
expect 0 "it continues" ranks 1 runs/a/config.ini -q train.max_steps=8 -o runs/a

# Links that a copy has lost: the newest checkpoint knows which one was the best.
expect 0 "another run" ranks 1 mlp.ini -q checkpoint.interval=1 checkpoint.keep_last=100 eval.interval=1 scheduler.type=multistep \
    scheduler.milestones=2 scheduler.warmup_steps=0 optimizer.learning_rate=1e-2 train.max_steps=6 train.ema_decay=0 -o runs/d
rm runs/d/best.h5 runs/d/last.h5
runs 0 "pruned without links" --prune --yes runs/d
is "the best stays" "$(held runs/d)" "$(printf '%s\n' "$best" 6 | sort -un | tr '\n' ' ')"

runs 2 "no such directory" nothing
says 1 'error: nothing: No such file or directory$'
runs 2 "a confirmation of nothing" --yes
says 1 'yes confirms --prune, which is missing$'
mkdir none
runs 0 "no runs" none
says 1 '^0 runs, 0 B$'
finish

#!/bin/sh
# A reader that closes the pipe, as `| head` does: a command ends quietly by SIGPIPE, also where its parent ignored the
# signal; a training continues to its end, and its files are complete.
. "$(dirname "$0")/charl.sh"
checks=1
train=$bin/charl-train

# A pipe without a reader: descriptor 5 writes to it, and what could read it is closed.
mkfifo pipe
exec 4<>pipe 5>pipe 4<&-

# closed WHAT CODE COMMAND...: standard output is that pipe; nothing is said
closed() {
    what=$1
    want=$2
    shift 2
    for parent in default ignores; do
        ([ $parent = default ] || trap '' PIPE
        exec "$@" >&5 2>err </dev/null)
        code=$?
        [ "$code" -eq "$want" ] || { echo "$what, SIGPIPE $parent: exit $code, want $want"; failures=$((failures + 1)); }
        [ ! -s err ] || { echo "$what, SIGPIPE $parent:"; cat err; failures=$((failures + 1)); }
    done
}

"$charl" data make digits digits.h5 -t 64 -v 20 >/dev/null || exit 1
cat >mlp.ini <<'INI'
[data]
path = digits.h5
[model]
type = mlp
hidden = 8
[train]
max_steps = 4
batch_size = 16
[log]
interval = 1
INI
"$train" mlp.ini -o run >/dev/null || exit 1
checkpoint=$(echo run/checkpoints/*.h5)

closed help 141 "$charl" --help
closed show 141 "$charl" checkpoint show "$checkpoint"
closed verify 141 "$charl" checkpoint verify "$checkpoint" "$checkpoint"
closed info 141 "$charl" data info digits.h5
closed devices 141 "$charl" devices
closed predict 141 "$charl" predict "$checkpoint"
closed print-config 141 "$train" mlp.ini --print-config
closed dry-run 0 "$train" mlp.ini --dry-run
closed train 0 "$train" mlp.ini -o piped --overwrite
grep -q ' done step=4 ' piped/train.log || { echo "the training did not end"; failures=$((failures + 1)); }
if "$charl" checkpoint diff piped/last.h5 run/last.h5 | grep -v '^config/resolved\|^all tensors are equal$'; then
    echo "the training wrote something else"
    failures=$((failures + 1))
fi
finish

#!/bin/sh
# Two nodes of two ranks whose devices add the gradients (dist.allreduce = peer). A rank is lost in one step of them: it is named, and not the
# neighbour that waits for it; the job ends with the documented code, and the same command continues to the same bits.
rows=80
. "$(dirname "$0")/common.sh"
# Several buckets: on CPU devices, the kernel of the first takes the threads that the gradients of the last need.
sed -i 's/^hidden = .*/hidden = 256, 256, 256/' mlp.ini
sed -i 's/^interval = 1ep$/interval = 2/' mlp.ini
printf '[dist]\ntimeout = 2\nbucket_mb = 0.01\n' >>mlp.ini
expect 0 "one rank" ranks 1 mlp.ini -q -o whole
export CHARL_RANKS_PER_NODE=2
expect 0 "two nodes" ranks 4 mlp.ini -q -o nodes dist.allreduce=peer
same "two nodes" whole nodes

# lose RANK FAULT CODES STATE PLACE: what the one message says of the rank
lose() {
    _what="rank $1, $2"
    checks=$((checks + 1))
    rm -rf run
    CHARL_FAULT="train.$2@$1:5" ranks 4 mlp.ini -q dist.allreduce=peer >log 2>&1
    _got=$?
    case " $3 " in
    *" $_got "*) ;;
    *) fail "$_what: exit code $_got, expected one of $3" ;;
    esac
    says 1 '^charl-train: error'
    # On a busy machine others may be late, too, and are named before it.
    says 1 "^charl-train: error: (rank [0-3] of 4 [^;]*waiting for )?(rank [0-3] of 4 [^;]*; )*rank $1 of 4 \\([^ ]+, pid [0-9]+\\)$4 step 5, $5"
    expect 0 "$_what, continued" ranks 1 mlp.ini -q
    same "$_what, continued" whole run
}
lose 1 backward.kill "7 137" " died at or near" "forward and backward"
lose 1 backward.stop 7 ": stopped by a signal, last seen in" "forward and backward"
# Its node hears of the other through it.
lose 2 backward.stop 7 ": stopped by a signal, last seen in" "forward and backward"
lose 1 backward.hang 7 ": sleeping, last seen in" "forward and backward"
lose 3 allreduce.stop 7 ": stopped by a signal, last seen in" "all-reduce"
finish

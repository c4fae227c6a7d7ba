#!/bin/sh
# One rank of three fails: any rank, in any phase, in any way, from a seed that is printed. The others say who it was and
# where, once; the job ends with the documented code and leaves nothing running; the same command goes on to the same bits.
# CHARL_TEST_LONG=1: 100 times instead of 10. CHARL_TEST_SEED=n: those of another seed.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
seed=${CHARL_TEST_SEED:-4}
unset CHARL_TEST_SEED
. "$here/common.sh"

# Ten steps, evaluations after 5 and 10, checkpoints after every second step and after 5, which is the best so far.
sed -i 's/^interval = 1ep$/interval = 2/' mlp.ini
expect 0 "the run in which nobody fails" ranks 1 mlp.ini -q -o whole
expect 0 "kernels of three ranks" ranks 3 mlp.ini -q -o three

echo "seed $seed"
random() { # random N: _r in 0..N-1
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    _r=$((seed / 65536 % $1))
}
pick() { # pick WORD...: _w
    random $#
    shift "$_r"
    _w=$1
}

# draw: a case. $rank $fault $codes and $pattern, what the one message says
draw() {
    pick 0 1 2
    rank=$_w
    pick init start fini setup kernels resume data data backward backward device allreduce allreduce optimizer evaluation checkpoint write end
    phase=$_w
    pick kill stop segv hang spin exit0 exit3 fail flip skip
    way=$_w
    case $phase in
    init | fini) n=1 text=$phase ;;
    start) n=1 text=start-up ;;
    setup) n=1 text="setup: data" ;;
    kernels) n=1 text="setup: kernels" ;;
    resume) n=1 text=resume ;;
    evaluation) random 2 && n=$((_r + 1)) text="step $((5 * _r + 5)), evaluation" ;;
    checkpoint | write)
        random 6
        n=$((_r + 1))
        text="step $(echo 2 4 5 6 8 10 | cut -d' ' -f$n), $phase"
        [ $phase = write ] && text="${text%write}writing the checkpoint"
        ;;
    end) n=1 text="step 10, end" ;;
    *)
        random 10 && n=$((_r + 1)) text="step $n, $phase"
        case $phase in
        backward) text="step $n, forward and backward" ;;
        device) text="step $n, waiting for the device" ;;
        allreduce) text="step $n, all-reduce" ;;
        esac
        ;;
    esac
    who="rank $rank of 3 \([^ ]+, pid [0-9]+\)"
    died="$who died at or near $text"
    waited="no progress for .* s, waiting for (.*; )?$who"
    arg=
    case $way in
    kill) codes="7 137" pattern=$died ;;
    segv) codes="7 139" pattern=$died ;;
    exit0) way=exit codes="7 1" pattern=$died ;;
    exit3) way=exit arg=:3 codes="7 3" pattern=$died ;;
    stop) codes=7 pattern="$waited: stopped by a signal, last seen in $text" ;;
    hang) codes=7 pattern="$waited: sleeping, last seen in $text" ;;
    spin) codes=7 pattern="$waited: running elsewhere, last seen in $text" ;;
    fail) codes=4 pattern="$who.*: the device fails on purpose" ;;
    skip) # one collective left out: all wait, in two places
        pick allreduce control
        phase=$_w
        random 10
        n=$((_r + 1)) codes=7 pattern="$who, step $n, .*no progress for|$waited: .*, last seen in step $n, "
        ;;
    flip) # a bit of a parameter: seen when the next checkpoint is compared
        case $phase in
        data | backward | device | allreduce | optimizer | evaluation | checkpoint) ;;
        *) phase=optimizer n=4 ;;
        esac
        codes=6 pattern="step [0-9]+: .*: $who has model/[^ ]* = checksum [0-9a-f]{8}, the other 2 ranks have .*; nothing was saved"
        ;;
    esac
    # Before there is a communicator nobody knows the others: mpirun says that a rank died, charl that one is missing.
    # It is the same when there is none any more, and everything is saved.
    case $phase in
    init | fini) way=hang arg= codes=7 pattern="rank [01] \(pid [0-9]+\) waited .*: a rank has not (start|end)ed" ;;
    esac
    fault="train.$phase.$way@$rank:$n$arg"
}

# lose I: one case in the background, in a directory of its own; and the same command again without the fault.
lose() {
    mkdir "$1"
    (
        CHARL_FAULT=$fault ranks 3 mlp.ini -q -o "$1/run" dist.timeout=2 dist.stage_timeout=5 checkpoint.timeout=5 >"$1/log" 2>&1
        echo $? >"$1/code"
        ranks $(($1 % 2 + 1)) mlp.ini -q -o "$1/run" >"$1/again" 2>&1
        echo $? >"$1/again_code"
    ) &
    printf '%s\n' "$fault" >"$1/fault"
    printf '%s\n' "$codes" >"$1/codes"
    printf '%s\n' "$pattern" >"$1/pattern"
}

# look I: what came of it.
look() {
    what=$(cat "$1/fault")
    cp "$1/log" "$T/log"
    checks=$((checks + 1))
    case " $(cat "$1/codes") " in
    *" $(cat "$1/code") "*) ;;
    *) fail "$what: exit code $(cat "$1/code"), expected $(cat "$1/codes")" ;;
    esac
    says 1 "^charl-train: error: "
    says 1 "^charl-train: error: .*($(cat "$1/pattern"))"
    [ "$(cat "$1/again_code")" -eq 0 ] || { fail "$what, again: exit code $(cat "$1/again_code")"; cat "$1/again"; }
    same "$what, again" whole "$1/run"
    rm -rf "$1"
}

# A device that never ends what it computes: the others say so. Its driver does not return to the rank that waits for it.
cp -r "$here/../../kernels" kernels
cp -r kernels as_they_are
sed -i 's/^    u = charl_update_at.*/    while (((volatile global const float *)all.norm)[2] != 0.0f) {\n    }\n&/' kernels/optim/adam.cl
(
    timeout 1500 mpirun -q --oversubscribe --bind-to none -n 1 env CHARL_KERNEL_DIR="$T/as_they_are" "$bin/charl-train" mlp.ini -q -o stuck \
        dist.timeout=2 : -n 1 env CHARL_KERNEL_DIR="$T/kernels" "$bin/charl-train" mlp.ini -q -o stuck dist.timeout=2 >stuck.log 2>&1
    echo $? >stuck.code
) &

cases=10
[ -n "$long" ] && cases=100
at_once=10 # they wait most of the time
i=0
while [ "$i" -lt "$cases" ]; do
    first=$i
    while [ "$i" -lt "$cases" ] && [ $((i - first)) -lt "$at_once" ]; do
        draw
        lose "$i"
        sleep 0.1 # processes that start all at once take turns
        i=$((i + 1))
    done
    wait
    while [ "$first" -lt "$i" ]; do
        look "$first"
        first=$((first + 1))
    done
done

expect 7 "a kernel without end" sh -c 'cat stuck.log; exit "$(cat stuck.code)"'
says 1 "^charl-train: error: .*waiting for rank 1 of 2 \(.*\): .*, last seen in step 1, waiting for the device$"

# Processes that the jobs have left behind; zombies are the system's.
left() {
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/cwd" 2>/dev/null)" = "$T" ] || continue
        case $(tr '\0' ' ' <"$p/cmdline" 2>/dev/null) in
        *charl-train*) echo "${p#/proc/}" ;;
        esac
    done
}
checks=$((checks + 1))
for _i in $(seq 240); do
    [ -z "$(left)" ] && break
    sleep 0.5
done
[ -z "$(left)" ] || { fail "processes left: $(left | tr '\n' ' ')"; kill -9 $(left); }
finish

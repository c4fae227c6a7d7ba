#!/bin/sh
# Ranks on two hosts that share no memory: the same bits as one rank; when the cable between them is cut, ranks on both sides
# say who fell silent and leave, and the next start goes on to the same bits.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
. "$here/hosts.sh"
. "$here/common.sh"
hosts_begin
sed -i 's/^interval = 1ep$/interval = 2/' mlp.ini
printf '[dist]\ntimeout = 2\n' >>mlp.ini

expect 0 "one rank" ranks 1 mlp.ini -q -o whole
expect 0 "1 rank here, 2 there" hosts_ranks 1 2 mlp.ini -q -o uneven
same "1 rank here, 2 there" whole uneven

# is_stopped: $stopped is a process that is
is_stopped() {
    for _d in /proc/[0-9]*; do
        case $(sed 's/.*) //' "$_d/stat" 2>/dev/null) in
        T*) stopped=${_d#/proc/} && return ;;
        esac
    done
    return 1
}

stopped=
# Rank 1 stops at the sixth step; the cable is cut; rank 1 goes on.
export CHARL_FAULT=train.backward.stop@1:6
hosts_ranks 2 2 mlp.ini -q >log 2>&1 &
job=$!
unset CHARL_FAULT
while ! is_stopped && kill -0 $job 2>/dev/null; do
    sleep 0.05
done
[ -n "$stopped" ] || { fail "rank 1 does not come to its sixth step"; finish; }
hosts_cut
kill -CONT "$stopped"
for _i in $(seq 2400); do
    [ "$(cat hosts/code.* 2>/dev/null | wc -l)" -eq 4 ] && break
    sleep 0.05
done
checks=$((checks + 1))
codes=$(cat hosts/code.* 2>/dev/null | tr '\n' ' ')
[ "$codes" = "7 7 7 7 " ] || fail "after the cut the ranks end with codes $codes"
for host in a b; do
    other=$([ $host = a ] && echo b || echo a)
    cat "hosts/messages.charl-$host" >log
    says 1 "^charl-train: error: rank [0-3] of 4 \(charl-$host, pid [0-9]+\), step [67], .*no progress for [0-9]+ s, waiting for "
    says 1 "rank [0-3] of 4 \(charl-$other, pid [0-9]+\): its node silent for [0-9]+ s, last seen in .*; rank "
done
hosts_mend

expect 0 "after the cut" hosts_ranks 2 2 mlp.ini -q
same "after the cut" whole run
finish

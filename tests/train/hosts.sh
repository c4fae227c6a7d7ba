# Two hosts on one machine, charl-a and charl-b: sourced first of all. The script begins again as the first process of a
# host of its own: names, network, mounts and process numbers; what it does there ends with it and touches nothing else. The
# other host has a network and a name of its own too; a virtual cable joins them, and MPI's launcher enters it as it would
# log in by ssh. So all between ranks of different hosts goes by TCP. Ends with 77 where this is not allowed.
hosts_skip() {
    echo "skipped: $1"
    exit 77
}
if [ "${CHARL_HOSTS:-}" != begun ]; then
    for _tool in ip unshare nsenter mount hostname; do
        command -v $_tool >/dev/null || hosts_skip "there is no program $_tool"
    done
    _new="unshare --net --uts --mount --pid --fork --kill-child --mount-proc"
    [ "$(id -u)" -eq 0 ] || _new="$_new --user --map-root-user"
    $_new ip link add cable type veth peer name elbac 2>/dev/null || hosts_skip "this user may not make a virtual network"
    CHARL_HOSTS=begun exec $_new sh "$0" "$@"
fi
unset CHARL_HOSTS
[ $$ -eq 1 ] || hosts_skip "no process numbers of its own"

# hosts_begin: after common.sh. $b is the other host's first process.
hosts_begin() {
    mkdir hosts
    export TMPDIR="$T" # for the launcher: what it leaves behind when it is killed goes with $T
    printf '127.0.0.1 localhost\n10.77.0.1 charl-a\n10.77.0.2 charl-b\n' >hosts/names
    hostname charl-a && mount --bind hosts/names /etc/hosts && ip link set lo up || exit 1
    unshare --net --uts --mount sh -c 'hostname charl-b && ip link set lo up && : >hosts/b && exec sleep 600' &
    b=$!
    while [ ! -e hosts/b ]; do
        kill -0 $b || exit 1
        sleep 0.05
    done
    ip link add cable type veth peer name cable netns $b || exit 1
    ip addr add 10.77.0.1/24 dev cable && ip link set cable up || exit 1
    nsenter -t $b -n sh -c 'ip addr add 10.77.0.2/24 dev cable && ip link set cable up' || exit 1

    # What the launcher calls with a host and a command.
    printf '#!/bin/sh\nshift\nexec nsenter -t %d -n -u -m sh -c "$*"\n' $b >hosts/login
    # What it starts for every rank: codes and messages stay here, where a cut cable cannot lose them. When one rank leaves, the
    # launcher ends the others of its host: first by SIGTERM, through which this script lives until its rank has left by itself.
    cat >hosts/rank <<RANK
#!/bin/sh
trap : TERM
"$bin/charl-train" "\$@" 2>>$T/hosts/messages.\$(hostname)
code=\$?
echo \$code >$T/hosts/code.\$OMPI_COMM_WORLD_RANK
exit \$code
RANK
    chmod +x hosts/login hosts/rank
}

# hosts_ranks A B ARGUMENTS...: charl-train on A ranks of charl-a and B of charl-b
hosts_ranks() {
    _of_a=$1 _of_b=$2
    shift 2
    rm -f hosts/code.* hosts/messages.*
    timeout 1500 mpirun -q --oversubscribe --bind-to none --mca plm_rsh_agent "$T/hosts/login" -wdir "$T" \
        --mca odls_base_sigkill_timeout 30 \
        --host "charl-a:$_of_a,charl-b:$_of_b" -n $((_of_a + _of_b)) "$T/hosts/rank" "$@"
}

# hosts_cut: nothing passes the cable any more, and nobody is told
hosts_cut() {
    nsenter -t $b -n ip link set cable down
}

# hosts_mend: ends what the launcher left, which waits for its daemon at the other end for ever
hosts_mend() {
    for _d in /proc/[0-9]*; do
        case $(cat "$_d/comm" 2>/dev/null) in
        mpirun | orted) kill -9 "${_d#/proc/}" ;;
        esac
    done
    nsenter -t $b -n ip link set cable up
}

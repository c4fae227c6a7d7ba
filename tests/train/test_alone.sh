#!/bin/sh
# One rank fails where the others do not, before training begins: they must not wait for it, and it says why.
# CHARL_TEST_LONG=1: at all of the places.
. "$(dirname "$0")/common.sh"
export OMPI_MCA_odls_base_sigkill_timeout=0 # nobody here needs mpirun's two seconds between an error and its last signal
# alone NAME CODE COMMAND... -- SPEC: the second of two ranks runs with CHARL_FAULT=SPEC
alone() {
    expect "$2" "$1" timeout 1500 mpirun -q --oversubscribe --bind-to none -n 1 "$bin/$3" $4 : -n 1 env CHARL_FAULT="$5" "$bin/$3" $4
}
# The n-th acquisition of the second rank: the 20th is while it reads the configuration, the others are after that: from its first words with the
# first rank to its last checkpoint. A rank that fails before the ranks can communicate waits for 5 seconds.
reading=0
until CHARL_FAULT=alloc:$((reading += 20)) "$bin/charl-train" --print-config mlp.ini >/dev/null 2>&1; do
    [ $reading -lt 2000 ] || { fail "the configuration is not read"; break; }
done
# after N...: the acquisitions after those of reading
after() { for _n; do echo $((reading + _n)); done; }
training="20 $(after 20 60 160 260 660 1160 1660)"
evaluation=$(after 20 160 460 860)
if [ -n "$long" ]; then
    training="20 200 $(after $(seq 10 10 260) $(seq 310 50 1660))"
    evaluation="20 200 $(after $(seq 10 10 260) $(seq 310 50 860))"
fi
# failed N PROGRAM: it says so, and which rank it is once the ranks can communicate. An acquisition below HDF5 is memory that it lacks.
failed() {
    _where=
    [ "$1" -lt $reading ] || _where='rank 1 of 2 [^:]*: .*'
    says 1 "$2: error: ${_where}(injected failure|[^ ]*: out of memory in [a-z]+$)"
}
for n in $training; do
    rm -rf run
    alone "acquisition $n" 4 charl-train "mlp.ini -q" "alloc:$n"
    failed "$n" charl-train
done
rm -rf run
expect 0 "a run" ranks 1 mlp.ini -q
for n in $evaluation; do
    alone "eval, acquisition $n" 4 charl "eval mlp.ini run/last.h5" "alloc:$n"
    failed "$n" charl
done
# A configuration that only one rank cannot read, and one that is wrong for all.
expect 2 "no configuration on one rank" timeout 1500 mpirun -q --oversubscribe -n 1 "$bin/charl-train" mlp.ini : -n 1 "$bin/charl-train" none.ini
says 1 "none.ini: No such file"
cp mlp.ini wrong.ini
echo 'bad = 1' >>wrong.ini
expect 2 "a wrong configuration" ranks 3 wrong.ini
says 1 "bad: unknown key"
# What is wrong in the environment is said once.
for program in charl-train "charl eval"; do
    export CHARL_SYNC=maybe
    expect 2 "$program: a wrong value" mpirun -q --oversubscribe -n 2 "$bin/"$program mlp.ini run/last.h5
    unset CHARL_SYNC
    says 1 "CHARL_SYNC=maybe: expected 0 or 1"
    export CHARL_FAULT=a:b:c
    expect 2 "$program: a wrong fault" mpirun -q --oversubscribe -n 2 "$bin/"$program mlp.ini run/last.h5
    unset CHARL_FAULT
    says 1 "fault"
done
finish

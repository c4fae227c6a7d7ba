#!/bin/sh
# One rank fails where the others do not, before training begins: they must not wait for it, and it says why.
# CHARL_TEST_LONG=1: at all of the places.
. "$(dirname "$0")/common.sh"
# alone NAME CODE COMMAND... -- SPEC: the second of two ranks runs with CHARL_FAULT=SPEC
alone() {
    expect "$2" "$1" timeout 1500 mpirun -q --oversubscribe --bind-to none -n 1 "$bin/$3" $4 : -n 1 env CHARL_FAULT="$5" "$bin/$3" $4
}
# The n-th acquisition of the second rank: from reading the configuration to creating graphs.
training="20 206 209 212 215 230 260"
evaluation="20 208 214 280"
if [ -n "$long" ]; then
    training="20 206 207 208 209 210 211 212 213 214 215 216 230 260"
    evaluation="20 200 208 212 214 240 280"
fi
for n in $training; do
    rm -rf run
    alone "acquisition $n" 4 charl-train "mlp.ini -q" "alloc:$n"
    checks=$((checks + 1))
    grep -q "charl-train: error: .*injected failure" log || fail "acquisition $n: no word of it"
done
rm -rf run
expect 0 "a run" ranks 1 mlp.ini -q
for n in $evaluation; do
    alone "eval, acquisition $n" 4 charl "eval mlp.ini run/last.h5" "alloc:$n"
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

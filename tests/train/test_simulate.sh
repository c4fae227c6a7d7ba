#!/bin/sh
# Ranks that are threads of one process: the same bits as real ones, in both directions across a stop, and the same end
# when one of them fails. CHARL_TEST_LONG=1: every number of ranks; CHARL_TEST_SHORT=1: few.
rows=80
. "$(dirname "$0")/common.sh"

# simulated N ARGUMENTS...
simulated() {
    _n=$1
    shift
    timeout 1500 "$bin/charl-train" --simulate-ranks="$_n" "$@"
}

# faulty SPECIFICATION EXPECTATION...
faulty() {
    export CHARL_FAULT="$1"
    shift
    expect "$@"
    unset CHARL_FAULT
}

for model in mlp cnn; do
    expect 0 "$model on 2 ranks" ranks 2 $model.ini -q -o $model-real
done
expect 0 "mlp on 1 simulated rank" simulated 1 mlp.ini -o mlp-1
says 1 "1 simulated rank in one process"
same "mlp on 1 simulated rank" mlp-real mlp-1
counts="3 8"
[ -n "$short" ] && counts=
[ -n "$long" ] && counts="1 2 3 4 5 6 7 8"
for n in $counts; do
    expect 0 "cnn on $n simulated ranks" simulated "$n" cnn.ini -q -o "cnn-$n"
    same "cnn on $n simulated ranks" cnn-real "cnn-$n"
done

expect 0 "cnn on 2 simulated nodes" simulated 2x3 cnn.ini -o cnn-nodes
says 1 "6 simulated ranks on 2 nodes in one process"
says 1 "all-reduce by hierarchical"
same "cnn on 2 simulated nodes" cnn-real cnn-nodes

# Across stops; by messages, and with data that are read while training.
faulty train.stop@1:4 75 "3 simulated ranks stop" simulated 3 mlp.ini -q -o s dist.allreduce=p2p data.cache=none
faulty train.stop@1:4 75 "2 real ones go on" ranks 2 mlp.ini -q -o s
expect 0 "8 simulated ones go on" simulated 8 mlp.ini -q -o s
same "from simulated to real ranks and back" mlp-real s
if [ -n "$long" ]; then
    faulty 'train.memory:*' 0 "in several passes" simulated 3 mlp.ini -q -o p
    same "in several passes" mlp-real p
fi

faulty train.allreduce.fail@2:4 4 "a simulated rank fails" simulated 3 mlp.ini -q -o f
says 1 "^charl-train: error: rank 2 of 3 .*: the device fails on purpose"
says 1 "error:"
faulty train.backward.hang@1:3 7 "a simulated rank hangs" simulated 3 mlp.ini -q -o f dist.timeout=1
says 1 "error: .*waiting for rank 1 of 3 .*: sleeping, last seen in step 3, forward and backward"
says 1 "error:"
faulty train.device.exit@1:2:9 9 "a simulated rank exits" simulated 4 mlp.ini -q -o f
expect 2 "more ranks than slices" simulated 9 mlp.ini -q -o f
says 1 "set slices to 9 or more"
expect 2 "no number of ranks" simulated 4097 mlp.ini -q -o f
says 1 "simulate-ranks.4097: must be 1 to 4096 ranks"
expect 2 "no number of ranks and nodes" simulated 2x mlp.ini -q -o f
expect 2 "simulated ranks and real ones" ranks 2 mlp.ini --simulate-ranks=2 -q -o f
says 1 "error: rank . of 2 .*: --simulate-ranks=2: all ranks are in one process, but the launcher has started 2"
faulty 'io.one_thread:*' 2 "HDF5 for one thread" simulated 2 mlp.ini -q -o f
says 1 "built thread-safe"
expect 2 "no MPI in one process" simulated 2 mlp.ini -q -o f dist.allreduce=mpi
says 1 "simulated ranks have no MPI"
finish

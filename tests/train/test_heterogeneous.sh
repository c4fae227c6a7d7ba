#!/bin/sh
# Different devices in one job: a rule of device.select for every rank; the bits are those of one device, or, where devices round
# differently, replicas do not drift apart. Faults stand for both, another model and another rounding: kernels for a second device take
# long to compile, and PoCL's kinds of CPU device round alike. CHARL_TEST_LONG=1: two kinds of PoCL's.
. "$(dirname "$0")/common.sh"
unset CHARL_DEVICE
cpu=$("$bin/charl" devices | sed -n 's/^\([0-9]*\)  .*, cpu$/\1/p' | head -n 1)
[ -n "$cpu" ] || skip "no OpenCL device is a CPU, which ranks may share"
sed -i '/^share/d' mlp.ini
other='train.model@1:1'

# In f32, devices that round as IEEE 754 says compute the same bits: no parameters are taken over, and a difference is damage.
expect 0 "one device" ranks 1 mlp.ini -q -o one device.select=cpu
export CHARL_FAULT="$other"
expect 0 "two models" ranks 3 mlp.ini -o c device.select="$cpu, cpu" dist.balance=speed train.slices=8
says 1 "^  bits +the same with any number of ranks"
expect 0 "two models, the same bits" ranks 2 mlp.ini -q -o two
same "two models" one two
export CHARL_FAULT="$other,train.optimizer.flip@1:8"
expect 6 "one that rounds differently, unseen" ranks 2 mlp.ini -q -o d
says 1 "error: .*the ranks no longer train the same model"

# Otherwise the replicas are brought together, where a device is found out, is not to be asked, or cannot be.
for how in "a device.arithmetic@1:1 auto f32" "b - device f32" "h - auto bf16"; do
    # shellcheck disable=SC2086
    set -- $how
    export CHARL_FAULT="$other,train.optimizer.flip@1:8"
    [ "$2" = - ] || CHARL_FAULT="$CHARL_FAULT,$2"
    expect 0 "one that rounds differently: $how" ranks 2 mlp.ini -o "round-$1" train.exact="$3" train.precision="$4"
    says 1 "^  bits +equal up to rounding, as the devices differ"
done
export CHARL_FAULT="$other"
expect 0 "two models, anywhere" ranks 2 mlp.ini -q -o e1 train.exact=anywhere
unset CHARL_FAULT
expect 0 "one model after two, anywhere" ranks 1 mlp.ini -o e1 train.exact=anywhere train.epochs=3
says 0 "resumed on another device"
# Where devices are alike that is damage.
export CHARL_FAULT=train.optimizer.flip@1:8
expect 6 "replicas that differ" ranks 2 mlp.ini -o e
says 1 "error: .*the ranks no longer train the same model: rank . of 2 .* has model/"
unset CHARL_FAULT

# Copies in memory are those of rank 0, as its state counts: a start does not find another on each node.
apart() { # apart ARGUMENTS...: two nodes
    timeout 1500 mpirun -q --oversubscribe --bind-to none -n 1 env CHARL_SHM_DIR=shm CHARL_RANKS_PER_NODE=1 "$bin/charl-train" "$@" : -n 1 \
        env CHARL_SHM_DIR=shm2 CHARL_RANKS_PER_NODE=1 "$bin/charl-train" "$@"
}
mkdir shm shm2
set -- mlp.ini -o copied checkpoint.memory_interval=1 checkpoint.interval=0 eval.interval=0 train.exact=device optimizer.type=adam optimizer.weight_decay=0.1
CHARL_FAULT="$other,train.optimizer.flip@1:3,train.backward.kill@0:8" apart "$@" >log 2>&1
CHARL_FAULT="$other" expect 0 "copies of devices that differ" apart "$@"
says 1 "^  resumed .*shm/.*[(]step 7[)]"

# The checkpoint tells where it comes from.
expect 0 "one device after two" ranks 1 mlp.ini -o c train.slices=8 train.epochs=3
says 1 "resumed on another device .*, was .* [+] another .*: the same bits only if both round as IEEE 754 says"
expect 0 "that promises nothing" ranks 1 mlp.ini -o two train.exact=device train.epochs=3
says 1 "resumed on another device .*, was .* [+] another .*: equal up to rounding"
# A processor with AMX and one without are two models in bf16, whatever they are called, and in f32 one.
if "$bin/charl" selftest -d cpu -o relu | grep -q "by AMX"; then
    export CHARL_FAULT="device.amx@1:*"
    expect 0 "AMX on one rank of two" ranks 2 mlp.ini -o g train.precision=bf16 train.max_steps=5
    says 1 "^  bits +equal up to rounding, as the devices differ"
    expect 0 "the same in f32, which knows no AMX" ranks 2 mlp.ini -o g32 train.max_steps=5 train.exact=device
    says 1 "^  bits +the same with any number of ranks"
    unset CHARL_FAULT
else
    skipped "AMX on some ranks" "the processor has none"
fi

expect 2 "no device" ranks 2 mlp.ini -o f device.select="cpu, fast"
says 1 "select: \"cpu, fast\" is not"
expect 4 "a device that is not there" ranks 2 mlp.ini -o f device.select="cpu, 77"
says 1 "device .77. matches none"

export POCL_DEVICES="basic pthread"
if [ -z "$long" ]; then
    finish
elif [ "$("$bin/charl" devices | grep -c -E '^[01]  (basic|pthread)-.*, cpu$')" -ne 2 ]; then
    skipped "two kinds of device" "PoCL does not offer them"
    finish
fi
expect 0 "two kinds of device" ranks 3 mlp.ini -o k device.select="0, 1" dist.balance=speed
says 1 "devices  r0 basic-.* · r1 pthread-.* · r2 pthread-"
says 1 "^  bits +the same with any number of ranks"
expect 0 "one kind after two" ranks 1 mlp.ini -o k device.select=1 train.slices=8 train.epochs=3
says 1 "resumed on another device .pthread-.*, was basic-.* [+] pthread-"
finish

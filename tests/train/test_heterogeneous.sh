#!/bin/sh
# Different devices in one job: a rule of device.select for every rank; replicas do not drift apart, although their
# devices round differently. Faults stand for both, another model and another rounding: kernels for a second device take
# long to compile, and PoCL's kinds of CPU device round alike. CHARL_TEST_LONG=1: two kinds of PoCL's.
here=$(dirname "$0")
. "$here/common.sh"
unset CHARL_DEVICE
cpu=$("$bin/charl" devices | sed -n 's/^\([0-9]*\)  .*, cpu$/\1/p' | head -n 1)
[ -n "$cpu" ] || { echo "no OpenCL device is a CPU, which ranks may share"; exit 77; }
sed -i '/^share/d' mlp.ini
other='train.model@1:1'

export CHARL_FAULT="$other"
expect 0 "two models" ranks 3 mlp.ini -o c device.select="$cpu, cpu" dist.balance=speed
says 1 "^  bits +equal up to rounding, as the devices differ"
export CHARL_FAULT="$other,train.optimizer.flip@1:8"
expect 0 "one that rounds differently" ranks 2 mlp.ini -q -o d
# Where devices are alike that is damage.
export CHARL_FAULT=train.optimizer.flip@1:8
expect 6 "replicas that differ" ranks 2 mlp.ini -o e
says 1 "error: .*the ranks no longer train the same model: rank . of 2 .* has model/"
unset CHARL_FAULT

# The checkpoint tells where it comes from.
expect 0 "one device after two" ranks 1 mlp.ini -o c train.slices=8 train.epochs=3
says 1 "resumed on another device .*, was .* [+] another .*: equal up to rounding"
expect 2 "no device" ranks 2 mlp.ini -o f device.select="cpu, fast"
says 1 "select: \"cpu, fast\" is not"
expect 4 "a device that is not there" ranks 2 mlp.ini -o f device.select="cpu, 77"
says 1 "device.select = 77 matches none"

export POCL_DEVICES="basic pthread"
if [ -z "$long" ]; then
    finish
elif [ "$("$bin/charl" devices | grep -c -E '^[01]  (basic|pthread)-.*, cpu$')" -ne 2 ]; then
    skipped "two kinds of device" "PoCL does not offer them"
    finish
fi
expect 0 "two kinds of device" ranks 3 mlp.ini -o k device.select="0, 1" dist.balance=speed
says 1 "devices  r0 basic-.* · r1 pthread-.* · r2 pthread-"
says 1 "equal up to rounding"
expect 0 "one kind after two" ranks 1 mlp.ini -o k device.select=1 train.slices=8 train.epochs=3
says 1 "resumed on another device .pthread-.*, was basic-.* [+] pthread-"
finish

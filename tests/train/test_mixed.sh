#!/bin/sh
# Different devices in one job: a rule of device.select for every rank; replicas do not drift apart, although their
# devices round differently, which a fault stands for here: PoCL's two kinds of CPU device round alike.
here=$(dirname "$0")
. "$here/common.sh"
unset CHARL_DEVICE
export POCL_DEVICES="basic pthread"
if [ "$("$bin/charl" devices | grep -c -E '^[01]  (basic|pthread)-.*, cpu$')" -ne 2 ]; then
    echo "PoCL offers no two kinds of device here"
    exit 77
fi
sed -i '/^share/d' mlp.ini

expect 0 "two kinds of device" ranks 2 mlp.ini -o c device.select="0, 1"
says 1 "devices  r0 basic-.* · r1 pthread-"
says 1 "steps .2 epochs.; equal up to rounding, as the devices differ"
export CHARL_FAULT=train.optimizer.flip@1:8
expect 0 "one that rounds differently" ranks 2 mlp.ini -q -o d device.select="0, 1"
expect 0 "slices by speed" ranks 3 mlp.ini -o s device.select="0, 1" dist.balance=speed
says 1 "devices  r0 basic-.* · r1 pthread-.* · r2 pthread-"
says 1 "equal up to rounding"
# Where devices are alike that is damage.
expect 6 "replicas that differ" ranks 2 mlp.ini -o e device.select=1
says 1 "error: .*the ranks no longer train the same model: model/"
unset CHARL_FAULT

# The checkpoint tells where it comes from.
expect 0 "one device after two" ranks 1 mlp.ini -o c device.select=1 train.epochs=3
says 1 "resumed on another device .pthread-.*, was basic-.* [+] pthread-.*: equal up to rounding"
expect 2 "no device" ranks 2 mlp.ini -o f device.select="0, fast"
says 1 "select: \"0, fast\" is not"
expect 4 "a device that is not there" ranks 2 mlp.ini -o f device.select="0, 7"
says 1 "device.select = 7 matches none"
finish

#!/bin/sh
# charl devices and charl selftest, on the device there is and without any.
. "$(dirname "$0")/charl.sh"

# Not every loader looks where this variable says.
mkdir none
if OCL_ICD_VENDORS=$dir/none "$charl" devices >out 2>err; then
    skipped "no OpenCL platform" "the loader does not follow OCL_ICD_VENDORS"
else
    OCL_ICD_VENDORS=$dir/none expect 4 'no OpenCL platform' devices
    OCL_ICD_VENDORS=$dir/none expect 4 'no OpenCL platform' selftest
    hint 'charl devices'
fi
expect 2 'unexpected operand: x' devices x
expect 2 'op nonsense: no such operator' selftest --op nonsense
if ! "$charl" devices >out 2>err; then
    echo "skipped: no device"
    [ $failures = 0 ] && exit 77
    exit 1
fi
expect 0 '^0  ' devices
expect 0 'memory    [0-9.]* GiB' devices
expect 0 '^relu .* PASS$' selftest --op relu --device 0
CHARL_NO_TENSOR_CORES=1 expect 0 '^1 operators passed, 0 failed' selftest --op relu # with AMX in bf16, too
expect 0 '^  relu, sample 0: ' selftest --op relu -v
CHARL_NO_TENSOR_CORES=1 expect 0 '^2 operators passed, 0 failed' selftest --op relu --op tanh
expect 4 'device "99" matches none' selftest --device 99
hint 'charl devices'
CHARL_DEVICE=99 expect 4 'CHARL_DEVICE is set: device "99" matches none' selftest --op relu
expect 4 'device "name:nonsense" matches none' selftest --device name:nonsense

# in_report TEXT: report.json is JSON, and has it
in_report() {
    checks=$((checks + 1))
    if ! /usr/bin/python3 -m json.tool report.json >json || ! grep -q -e "$1" report.json; then
        echo "report.json lacks $1:"
        cat report.json
        failures=$((failures + 1))
    fi
}

# The bits of a device: the same on every one whose arithmetic is that of IEEE 754 (docs/exactness.md).
if "$charl" selftest --hash --op relu >out 2>err; then
    [ "$(grep -c '  *yes  ' out)" = 8 ] || { echo "not all of the arithmetic was looked at:"; cat out; failures=$((failures + 1)); }
    while read -r op hash; do
        expect 0 "^$op  *$hash\$" selftest --hash --op $op
    done <<HASHES
relu c29b9d0d700b9657dcfc7f704d7173b1
softmax 300e7d5b05bf842b4cf0aa71070b88d9
cross_entropy a7a1212155011d85ebd62e2c82ddf847
matmul 8d10a38b9cb843c692ef578012c4ffd8
relu bf16  *340bbfc0496cd605322d5dbea59ab3a6
softmax bf16  *da8b0498ebf7bbccaa09b1a40e65c413
linear_integer bf16  *9ae67ce8b54c4f3729abb4bc60e5a023
HASHES
    expect 0 '^relu bf16 .*340bbf' selftest --type bf16 --op relu --report report.json
    in_report '"relu": "340bbfc0496cd605322d5dbea59ab3a6"'
    in_report '"no contraction": true'
    in_report '"speed": {"copy_gb_per_s": [0-9]'
    if grep -q '"operators f32"' report.json || [ -e report.json.part ]; then
        echo "--type bf16 reports f32, or its unfinished report is still there"
        failures=$((failures + 1))
    fi
    expect 8 'cannot write none/x/r.json: No such file' selftest --op relu --report none/x/r.json
    CHARL_FAULT=device.arithmetic:1 expect 1 '^divide  *NO   a / b is rounded to nearest even (1 of 4096 are not; with a = ' selftest --hash --op relu
else
    skipped "the hash of a device" "its arithmetic is not that of IEEE 754"
fi

# Choices between kernels are found, kept, listed and forgotten.
tune() { # tune CODE TEXT ARGUMENT...
    CHARL_CACHE_DIR=$dir/tuned expect "$1" "$2" tune $3
}
tune 0 '^kept in .*/tuned/tuning-[0-9a-f]*\.txt$' '--device 0 --shape 24x100x9:nn --dtype f32 --verbose'
tune 0 '^gemm f32 f32 nn 24x100x9 .* = ' --list
tune 0 '^1 choice for ' --list
tune 0 '^f32 nn 2000000x2000000x1 .*left out: ' '--shape 2000000x2000000x1:nn --dtype f32'
tune 0 '^forgotten: ' --clear
tune 0 '^0 choices for ' --list
tune 2 'shape 3: must be MxNxK' '--shape 3'
tune 2 'a configuration says what to tune' 'x.ini --list'
tune 2 'dtype i8: must be f32' '--dtype i8'
tune 4 'device "99" matches none' '--list --device 99'
CHARL_CACHE_DIR=/dev/null/x expect 8 'tuning results cannot be saved: .*CHARL_CACHE_DIR' tune --shape 24x100x9:nn
if grep -q 24x100x9 out; then
    echo "a product was timed although its choice cannot be kept"
    failures=$((failures + 1))
fi
CHARL_TUNE=maybe expect 2 'CHARL_TUNE=maybe: expected stored, first or no' tune --list

# A kernel that computes something else is noticed.
cp -r "$kernels" broken
sed -i 's/CHARL_SPLAT(EXPR(\(.*\)))/(2.0f * CHARL_SPLAT(EXPR(\1)))/' broken/elementwise/map.cl
if cmp -s "$kernels/elementwise/map.cl" broken/elementwise/map.cl; then
    echo "map.cl no longer says what this test breaks"
    failures=$((failures + 1))
fi
CHARL_KERNEL_DIR=$dir/broken expect 1 '^  relu, sample 0: .*output 0\[[0-9]*\] is .*, the reference says ' selftest --op relu
CHARL_KERNEL_DIR=$dir/broken expect 1 '^relu  *wrong$' selftest --op relu --type f32 --report report.json
in_report '"relu": "wrong"'
CHARL_NO_TENSOR_CORES=1 CHARL_KERNEL_DIR=$dir/broken expect 1 '^0 operators passed, 1 failed' selftest --op relu

# A signal ends the program, although the driver has taken the handlers. It gets it while it stands still in the middle
# of its work: a fast one would be done.
state() { # state PID: R, S, T, Z ...
    sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null
}
rm -f out # of the command before: it is waited for
"$charl" selftest >out 2>err &
pid=$!
n=0
while [ ! -s out ] && [ $n -lt 1000 ]; do
    sleep 0.01
    n=$((n + 1))
done
kill -STOP $pid
n=0
while [ "$(state $pid)" != T ] && [ "$(state $pid)" != Z ] && [ $n -lt 1000 ]; do
    sleep 0.01
    n=$((n + 1))
done
stopped=$(state $pid)
kill -TERM $pid
kill -CONT $pid
wait $pid
code=$?
if [ $code -eq 0 ] && [ "$stopped" != T ]; then
    skipped "SIGTERM in selftest" "it ended before the signal"
elif [ $code -ne 143 ]; then
    echo "SIGTERM in selftest: exit $code, want 143"
    cat err
    failures=$((failures + 1))
fi
finish

#!/bin/sh
# Every operator gives the same bits with 1 and with 2 compute units, in f32 and in bf16. Usage: op_bits.sh TEST_OPS
# (PoCL 3.1 takes POCL_MAX_PTHREAD_COUNT, newer ones POCL_CPU_MAX_CU_COUNT. Other devices cannot be limited: skipped, 77.)
set -u
export CHARL_DEVICE=cpu
bits() {
    POCL_MAX_PTHREAD_COUNT=$2 POCL_CPU_MAX_CU_COUNT=$2 "$1" --bits &&
        POCL_MAX_PTHREAD_COUNT=$2 POCL_CPU_MAX_CU_COUNT=$2 "$1" --bits bf16
}
one=$(bits "$1" 1)
status=$?
[ $status -eq 0 ] || exit $status
two=$(bits "$1" 2) || exit 1
if [ -z "$one" ]; then
    echo "no operator printed its bits"
    exit 1
fi
if [ "$one" != "$two" ]; then
    echo "other bits with another number of compute units:"
    printf '%s\n' "$one" >"${TMPDIR:-/tmp}/op_bits.$$"
    printf '%s\n' "$two" | diff "${TMPDIR:-/tmp}/op_bits.$$" -
    rm -f "${TMPDIR:-/tmp}/op_bits.$$"
    exit 1
fi
printf '%s\n' "$one" | wc -l | sed 's/$/ operators, the same bits with 1 and 2 compute units/'

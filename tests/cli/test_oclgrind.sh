#!/bin/sh
# The kernels of GPUs without inline PTX, in Oclgrind, which runs one work-item after another and reports accesses out of bounds and races: sums,
# softmax and operands that broadcast, with CHARL_TEST_LONG all operators, hours (ctest ends it earlier: run this file); without half arithmetic, which it does not report; and that it
# finds a barrier that is missing and local memory that is too small (docs/devices.md).
. "$(dirname "$0")/../support/shell.sh"
charl=$bin/charl
library=$(find /usr/lib /usr/local/lib -name 'liboclgrind-rt-icd.so' 2>/dev/null | head -n 1)
[ -n "$library" ] || skip "no Oclgrind (apt-get install oclgrind)"
mkdir "$T/drivers" && echo "$library" >"$T/drivers/oclgrind.icd"
unset CHARL_NO_OPTIMIZER CHARL_KERNEL_DIR
export OCL_ICD_VENDORS="$T/drivers" OCLGRIND_DATA_RACES=1 OCLGRIND_GLOBAL_MEM_SIZE=1073741824 OCLGRIND_LOCAL_MEM_SIZE=32768 OCLGRIND_MAX_WGSIZE=256

# runs WHAT OPERATOR [SECONDS]: the log of its test in $T/log, how many reports in $reports
runs() {
    checks=$((checks + 1))
    timeout "${3:-300}" "$charl" selftest --op "$2" >"$T/log" 2>&1
    code=$?
    reports=$(grep -cE 'data race|Invalid (read|write)|divergence' "$T/log")
    echo "$1, $2: exit code $code, $reports reports"
}

operators="sum softmax add"
if [ -n "$long" ]; then
    operators=$(sed -n 's/^CHARL_OP(\(.*\))$/\1/p' "$root/src/autograd/ops.def" | grep -vx embedding_wgrad)
    skipped embedding_wgrad "it does not end"
fi
for op in $operators; do
    runs "as they are" "$op" 3600
    [ $code -eq 0 ] && [ "$reports" -eq 0 ] && grep -q "Oclgrind" "$T/log" && ! grep -q "Unsupported float" "$T/log" || { fail "as they are, $op"; tail -n 30 "$T/log"; }
done

# planted WHAT FILE EXPRESSION REPORT: kernels changed by sed's EXPRESSION, and Oclgrind says REPORT
planted() {
    rm -rf "$T/kernels" && cp -r "$root/kernels" "$T/kernels" && sed -i "$3" "$T/kernels/$2"
    cmp -s "$root/kernels/$2" "$T/kernels/$2" && fail "$1: $2 is not as this test expects"
    CHARL_KERNEL_DIR=$T/kernels runs "$1" softmax_grad
    grep -q "$4" "$T/log" || { fail "no '$4'"; tail -n 30 "$T/log"; }
}
planted "without a barrier" prelude/rows.clh '/charl_row_other(charl_real/,/^}/s/^    barrier(CLK_LOCAL_MEM_FENCE);$//' 'data race'
planted "with an eighth of the local memory" prelude/rows.clh 's/float at\[CHARL_ROW_GROUP \* CHARL_VEC\]/float at[CHARL_ROW_GROUP]/' 'Invalid write'
finish

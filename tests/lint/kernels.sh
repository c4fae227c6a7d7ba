#!/bin/sh
# Every kernel file is plain OpenCL C 1.2 and compiles with its default parameters; kernels/nvidia for that target, and also with each
# parameter 1 whose default is 0, and with an epilogue or for rows that work-items share, for no other machine here compiles them. The others compile as OpenCL C 2.0 too, where a pointer without an address space is one into any, as NVIDIA's compiler has it in 1.2.
# Usage: kernels.sh ROOT [CLANG]
cd "$1" || exit 2
clang=${2:-clang}
if ! command -v "$clang" >/dev/null 2>&1; then
    echo "skipped: no clang"
    exit 77
fi
prelude= # in the order of src/device/program.c
for f in common math memory rows quick; do
    [ -f kernels/$f.clh ] && prelude="$prelude -include kernels/$f.clh"
done
epilogue="CHARL_VEC=4 -DEXPR=a+b*c -DN_WITH=2 -DKEEP=1 -DPRODUCT_T=ushort -DWITH_B_T=half -DWITH_C_T=float"
shared_rows="CHARL_VEC=8 -DCHARL_ROW_ITEMS=32 -DCHUNKS=1 -DKEEP=4"
# FILE and what it includes from nvidia: NAME=1 for each parameter whose default is 0, but for what FILE itself decides.
parameters() {
    # shellcheck disable=SC2046
    awk '/^#ifndef / { name = $2 }
        /^#define / && $2 == name && $3 == "0" && !decided[$2] { print $2 "=1" }
        /^#define / && $2 != name && FNR == NR { decided[$2] = 1 }' "$1" $(sed -n 's,^#include "\(nvidia/.*\)",kernels/\1,p' "$1")
}
# compile FILE FLAG...: those for any device preprocessed first, as PoCL does it: some warnings spare what is still a macro
compile() {
    file=$1
    shift
    set -- "$@" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Wall -Wextra -Werror
    case $file in
    kernels/nvidia/*) "$clang" "$@" $prelude -fsyntax-only "$file" ;;
    *) { "$clang" "$@" $prelude -E "$file" || echo "#error not preprocessed"; } | "$clang" "$@" -fsyntax-only - ;;
    esac
}
failed=0
if grep -n '^#include' $(find kernels -name '*.clh' ! -name common.clh ! -name math.clh ! -name memory.clh ! -name rows.clh ! -name quick.clh); then
    echo "a file that kernels include includes no others: src/device/program.c puts each in its place once"
    failed=1
fi
for f in $(find kernels -name '*.cl' | sort); do
    case $f in
    kernels/nvidia/*) target="-target nvptx64-nvidia-nvcl -DCHARL_PTX -DACT=ushort -Xclang -cl-ext=+cl_khr_fp16 -I kernels" ;;
    *) target= ;;
    esac
    forms="IS_DEFAULT=1"
    if [ -n "$target" ]; then
        grep -q cross_entropy.clh "$f" && forms=$shared_rows
        forms="$forms
$(parameters "$f")"
        grep -q gemm_epilogue.clh "$f" && forms="$forms
$epilogue"
    elif grep -q gemm_image.clh "$f"; then
        forms="$forms
B_KIND=2"
    fi
    while read -r form; do
        [ -n "$form" ] || continue
        # shellcheck disable=SC2086
        if ! compile "$f" $target -D$form; then
            echo "$f: does not compile with $form"
            failed=1
        fi
    done <<EOF
$forms
EOF
    # shellcheck disable=SC2086
    if [ -z "$target" ] && ! "$clang" $prelude -x cl -cl-std=CL2.0 -fsyntax-only -w \
        -Xclang -finclude-default-header "$f"; then
        echo "$f: does not compile where pointers are generic"
        failed=1
    fi
done
exit $failed

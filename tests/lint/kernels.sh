#!/bin/sh
# Every kernel file is plain OpenCL C 1.2 and compiles without a warning with its default parameters, with each parameter 1 whose default
# is 0, and as a convolution; kernels/nvidia for that target, and also with an epilogue or for rows that work-items share, for no other
# machine here compiles them. (Compilers in drivers print how many warnings there were to the terminal.) The others compile with the row kernels'
# work-items of a GPU, too, and as OpenCL C 2.0, where a pointer without an address space is one into any, as NVIDIA's compiler has it in 1.2, for
# a device of 32-bit addresses without double precision and atomics of 64 bits.
# Functions that are given an array of local memory say its size: local_arrays.py. Kernels have few parameters, files few conditions: parameters.py.
# Usage: kernels.sh ROOT [CLANG]
lint=$(cd "$(dirname "$0")" && pwd)
cd "$1" || exit 2
clang=${2:-clang}
if ! command -v "$clang" >/dev/null 2>&1; then
    echo "skipped: no clang"
    exit 77
fi
prelude= # as src/device/program.c puts it together
for f in $(grep -o 'prelude/[a-z_]*\.clh"' src/device/program.c | tr -d '"' | grep -v builtins); do
    prelude="$prelude -include kernels/$f"
done
epilogue="CHARL_VEC=4 -DEXPR(a,b,c,draw)=a+b*c -DN_WITH=2 -DKEEP=1 -DPRODUCT_T=ushort -DWITH_B_T=half -DWITH_C_T=float"
two_steps="CHARL_VEC=4 -DEXPR(a,b,c,draw)=a+b -DTHEN(a,b,c,draw)=a*c -DN_WITH=2 -DKEEP=2 -DPRODUCT_T=half -DWITH_B_T=half -DWITH_C_T=half"
image="A_KIND=2 -DB_KIND=2"
gpu_rows="CHARL_VEC=8 -DCHARL_ROW_ITEMS=32 -DKEEP=1 -DBLOCK=64"
shared_rows="CHARL_VEC=8 -DCHARL_ROW_ITEMS=32 -DCHUNKS=1 -DKEEP=4"
# FILE and what it includes from nvidia: NAME=1 for each parameter whose default is 0, but for what FILE itself decides. A default that another file may
# have set stands behind #ifndef; the others are those that the comment at the head of a file tells.
parameters() {
    # shellcheck disable=SC2046
    awk 'BEGIN { more["AMX"] = " -DACT=ushort -DMR=16 -DNR=32"; more["SWAP"] = " -DAMX=1" more["AMX"]; more["PAIR"] = " -DA_KIND_2=0 -DB_KIND_2=0 -DFOLD_2=0 -DA_SUMS_2=0 -DBIAS_2=0 -DA_BY_4_2=0 -DB_BY_4_2=0" }
        FNR == 1 { head = 1 }
        head { words = $0; gsub(/[^A-Za-z0-9_]+/, " ", words); n = split(words, word, " "); for (i = 1; i <= n; i++) { told[word[i]] = 1 } }
        head && /\*\// { head = 0 }
        /^#ifndef / { name = $2 }
        /^#define / && ($2 == name || told[$2]) && $3 == "0" && !decided[$2] { print $2 "=1" more[$2] }
        /^#define / && $2 != name && !told[$2] && FNR == NR { decided[$2] = 1 }' "$1" $(sed -n 's,^#include "\(nvidia/.*\)",kernels/\1,p' "$1")
}
# FILE as it is specialised by FORM.
specialised() {
    names=$(printf '%s' "$2" | sed 's/(/=(/g; s/ -D/\n/g' | sed 's/=.*//' | tr '\n' ' ')
    awk -v roots=kernels -v names="$names" -f "$lint/specialise.awk" "$1"
}
failed=0
if command -v python3 >/dev/null; then
    python3 "$lint/local_arrays.py" . || failed=1
    python3 "$lint/parameters.py" . || failed=1
fi
if grep -n '^#include' $(find kernels -name '*.clh' ! -path 'kernels/prelude/*') | grep -v '_of\.clh"$'; then
    echo "a file that kernels include includes no others but *_of.clh, which stand there once for each type"
    failed=1
fi
for f in $(find kernels -name '*.cl' | sort); do
    case $f in
    kernels/nvidia/*) target="-target nvptx64-nvidia-nvcl -DCHARL_PTX -DACT=ushort -Xclang -cl-ext=+cl_khr_fp16" ;;
    *) target= ;;
    esac
    case $f in
    kernels/x86/*) generic= ;;
    *) generic="-target spir-unknown-unknown -Xclang -cl-ext=-cl_khr_fp64,-cl_khr_int64_base_atomics,-cl_khr_int64_extended_atomics" ;;
    esac
    forms="IS_DEFAULT=1"
    [ -n "$target" ] && grep -q cross_entropy.clh "$f" && forms=$shared_rows
    [ -z "$target" ] && grep -q CHARL_ROW_ITEMS "$f" && forms="$forms
$gpu_rows"
    forms="$forms
$(parameters "$f")"
    [ "$f" = kernels/gemm/gemm_local.cl ] && forms="CHARL_VEC=4
CHARL_VEC=4 -DFOLD=1
CHARL_VEC=4 -DJOIN=1 -DWHOLE_K=1
CHARL_VEC=4 -DA_KIND=1 -DB_KIND=1 -DA_V=4 -DB_V=4 -DOUT_V=4
CHARL_VEC=4 -D$image -DJOIN=1
CHARL_VEC=4 -DB_KIND=3" # four outputs at a time
    [ "$f" = kernels/reduce/reduce_slices.cl ] && forms="$forms
FOLD_COLUMNS=16 -DFOLD_LEAVES=8"
    grep -q gemm_vector_image.clh "$f" && forms="$forms
$image
AMX=1 -DACT=ushort -DMR=32 -DNR=32 -D$image
AMX=1 -DACT=ushort -DMR=32 -DNR=32 -DA_KIND=1 -DB_KIND=1 -DFOLD=1
AMX=1 -DACT=ushort -DMR=32 -DNR=32 -DB_KIND=3"
    if [ -n "$target" ]; then
        grep -q gemm_epilogue.clh "$f" && forms="$forms
$epilogue
$two_steps"
    fi
    while read -r form; do
        [ -n "$form" ] || continue
        # shellcheck disable=SC2086
        if ! specialised "$f" "$form" | "$clang" -I kernels $target $prelude -D$form -x cl -cl-std=CL1.2 -fsyntax-only \
            -Xclang -finclude-default-header -Wall -Wextra -Werror -; then
            echo "$f: does not compile with $form"
            failed=1
        fi
    done <<EOF
$forms
EOF
    form=${forms%%
*}
    # shellcheck disable=SC2086
    if [ -z "$target" ] && ! specialised "$f" "$form" | "$clang" -I kernels $generic $prelude -D$form -x cl -cl-std=CL2.0 -fsyntax-only -w \
        -Xclang -finclude-default-header -; then
        echo "$f: does not compile where pointers are generic and have 32 bits, without double precision and atomics of 64 bits"
        failed=1
    fi
done
exit $failed

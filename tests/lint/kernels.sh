#!/bin/sh
# Every kernel file is plain OpenCL C 1.2 and compiles with its default parameters; kernels/nvidia for that target. The others compile
# as OpenCL C 2.0 too, where a pointer without an address space is one into any, as NVIDIA's compiler has it in 1.2.
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
failed=0
if grep -n '^#include' $(find kernels -name '*.clh' ! -name common.clh ! -name math.clh ! -name memory.clh ! -name rows.clh ! -name quick.clh); then
    echo "a file that kernels include includes no others: src/device/program.c puts each in its place once"
    failed=1
fi
for f in $(find kernels -name '*.cl' | sort); do
    case $f in
    kernels/nvidia/*) target="-target nvptx64-nvidia-nvcl -DCHARL_PTX -Xclang -cl-ext=+cl_khr_fp16 -I kernels" ;;
    *) target= ;;
    esac
    # shellcheck disable=SC2086
    if ! "$clang" $target $prelude -x cl -cl-std=CL1.2 -fsyntax-only -Xclang -finclude-default-header \
        -Wall -Wextra -Werror "$f"; then
        echo "$f: does not compile"
        failed=1
    fi
    # shellcheck disable=SC2086
    if [ -z "$target" ] && ! "$clang" $prelude -x cl -cl-std=CL2.0 -fsyntax-only -w \
        -Xclang -finclude-default-header "$f"; then
        echo "$f: does not compile where pointers are generic"
        failed=1
    fi
done
exit $failed

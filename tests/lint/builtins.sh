#!/bin/sh
# kernels/prelude/builtins.clh stands for the compiler's own declarations of OpenCL C's library: with it every kernel file becomes the same code.
# Usage: builtins.sh ROOT [CLANG]
lint=$(cd "$(dirname "$0")" && pwd)
cd "$1" || exit 2
clang=${2:-clang}
if ! command -v "$clang" >/dev/null 2>&1; then
    echo "skipped: no clang"
    exit 77
fi
[ -f kernels/prelude/builtins.clh ] || exit 0
T=$(mktemp -d) || exit 2
trap 'rm -rf "$T"' EXIT
base=$("$clang" -print-resource-dir)/include/opencl-c-base.h
prelude= # as src/device/program.c puts it together
for f in $(grep -o 'prelude/[a-z_]*\.clh"' src/device/program.c | tr -d '"' | grep -v builtins); do
    prelude="$prelude -include kernels/$f"
done
failed=0

# compile TO FILE OPTIONS...
compile() {
    to=$1 file=$2
    shift 2
    # shellcheck disable=SC2086
    "$clang" -I kernels -x cl -cl-std=CL1.2 -S -emit-llvm -O0 -w -o "$to" "$@" $prelude "$file" || return
    sed -i -E '/^![0-9]+ = !\{i64 [0-9]+\}$/d' "$to" # where inline assembly stands in its file
}

# Calls that stand in some kernel under any defines.
names() { sed -e 's,/\*.*\*/,,' -e '/\/\*/,/\*\//d' "$@" | grep -oE '[A-Za-z0-9_]+\(' | sort -u; }
names "$(dirname "$base")/opencl-c.h" >"$T/library"
"$clang" -x c -E -P -DCHARL_BUILTINS kernels/prelude/builtins.clh | names >"$T/declared"
names $(find kernels -name '*.cl*' ! -name builtins.clh ! -path 'kernels/nvidia/*') >"$T/called"
# (defined() is the preprocessor's, normalize() row_norm.cl's own.)
comm -12 "$T/called" "$T/library" | comm -23 - "$T/declared" | grep -vxE '(defined|normalize)\(' >"$T/missing"
if [ -s "$T/missing" ]; then
    echo "kernels/prelude/builtins.clh lacks $(tr -d '(' <"$T/missing" | tr '\n' ' ')"
    failed=1
fi

# compare FILE OPTIONS...
compare() {
    kernels=$1
    shift
    compile "$T/whole" "$kernels" "$@" 2>/dev/null || return # it takes no such vectors
    if ! compile "$T/brief" "$kernels" "$@" -cl-no-stdinc -DCHARL_BUILTINS -include "$base" -include kernels/prelude/builtins.clh; then
        echo "$kernels: kernels/prelude/builtins.clh lacks a function ($*)"
        failed=1
    elif ! cmp -s "$T/whole" "$T/brief"; then
        diff "$T/whole" "$T/brief" | head -n 4
        echo "$kernels: kernels/prelude/builtins.clh declares a function otherwise ($*)"
        failed=1
    fi
}

for f in $(find kernels -name '*.cl' ! -path 'kernels/nvidia/*' | sort); do
    widths="1 16"
    [ "$f" = kernels/elementwise/map.cl ] && widths="1 2 4 8 16"
    for width in $widths; do
        compare "$f" -DCHARL_VEC=$width
    done
    if grep -q '^#define T ' "$f"; then # elements of any type of their size
        awk -v roots=kernels -v names=T -v out="$T/$(basename "$f")" -f "$lint/specialise.awk" "$f"
        for type in uchar ushort; do
            compare "$T/$(basename "$f")" -DT=$type
        done
    fi
done
exit $failed

#!/bin/sh
# A program on the library of another minor version: the loader refuses it, and charl_version_check does where the loader cannot know.
# Environment: CHARL_BUILD_DIR, CHARL_TEST_FLAGS (what sanitizers need)
here=$(cd "$(dirname "$0")" && pwd)
build=${CHARL_BUILD_DIR:?} flags=${CHARL_TEST_FLAGS:-}
unset CHARL_BUILD_DIR CHARL_TEST_FLAGS
. "$here/../train/common.sh"
source=$here/../..
ours=$(sed -n 's/^#define CHARL_VERSION "\(.*\)"/\1/p' "$build/include/charl/version.h")
soname=$(objdump -p "$build/src/libcharl.so" | sed -n 's/^ *SONAME *//p')
minor=$(printf '%s' "$ours" | cut -d . -f 2)
next=${ours%%.*}.$((minor + 1)).0
checks=$((checks + 1))
[ "$soname" = "libcharl.so.${ours%.*}" ] || fail "the library of $ours is called $soname"

printf '#include <charl/charl.h>\n#include <stdio.h>\nint main(void)\n{\n    const charl_status st = charl_version_check();\n' >program.c
printf '    puts(st == CHARL_OK ? charl_version() : charl_error_message());\n    return st != CHARL_OK;\n}\n' >>program.c
# shellcheck disable=SC2086 # several words
expect 0 "a program" cc $flags -I"$source/include" -I"$build/include" program.c -o program -L"$build/src" -lcharl
export LD_LIBRARY_PATH="$build/src"
expect 0 "on the library of its headers" ./program
says 1 "^$ours\$"

# The lowest module of the next minor version, which is all that the program calls.
mkdir -p headers/charl next
sed "s/\"$ours\"/\"$next\"/; s/\(CHARL_VERSION_MINOR\) $minor\$/\1 $((minor + 1))/" "$build/include/charl/version.h" >headers/charl/version.h
cp "$build/src/libcharl_base.a" base.a
ar d base.a status.c.o
# shellcheck disable=SC2086
expect 0 "the library of $next" cc -shared -fPIC $flags -D_POSIX_C_SOURCE=200809L -Iheaders -I"$source/include" -I"$source/src" \
    -Wl,-soname,"libcharl.so.${next%.*}" "$source/src/base/status.c" -Wl,--whole-archive base.a -Wl,--no-whole-archive -lm -lpthread \
    -o "next/libcharl.so.${next%.*}"
export LD_LIBRARY_PATH="$T/next"
expect 127 "where only $next is installed" ./program
says 1 "$soname: cannot open shared object file"
ln -s "libcharl.so.${next%.*}" "next/$soname"
expect 1 "$next under the name of $ours" ./program
says 1 "headers of charl $ours, but the library that it has loaded is charl $next"
finish

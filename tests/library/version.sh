#!/bin/sh
# A program on the library of another minor version: the loader refuses it, and charl_version_check does where the loader cannot know. One that
# is given a library with a key more reads the same values.
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
expect 0 "the library of $next" cc -shared -fPIC $flags -D_POSIX_C_SOURCE=200809L -Iheaders -I"$source/include" -I"$source/src" -I"$source/kernels" \
    -Wl,-soname,"libcharl.so.${next%.*}" "$source/src/base/status.c" -Wl,--whole-archive base.a -Wl,--no-whole-archive -lm -lpthread \
    -o "next/libcharl.so.${next%.*}"
export LD_LIBRARY_PATH="$T/next"
expect 127 "where only $next is installed" ./program
says 1 "$soname: cannot open shared object file"
ln -s "libcharl.so.${next%.*}" "next/$soname"
expect 1 "$next under the name of $ours" ./program
says 1 "headers of charl $ours, but the library that it has loaded is charl $next"

# libcharl-train with one more key, in front of the others and under the same name: the program reads the key that it asks for.
cat >batch.c <<'END'
#include <charl/charl.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    static const char text[] = "[data]\npath = x\n[model]\ntype = mlp\n";
    charl_config *config = NULL;
    int64_t batch = 0;
    charl_status st = charl_config_parse("t.ini", text, strlen(text), NULL, 0, &config);

    st = st == CHARL_OK ? charl_config_get_int(config, "train.batch_size", &batch) : st;
    printf("%lld %s\n", (long long)batch, st == CHARL_OK ? "" : charl_error_message());
    charl_config_destroy(config);
    return st != CHARL_OK;
}
END
# shellcheck disable=SC2086
expect 0 "a program that reads a key" cc -std=c11 $flags -I"$source/include" -I"$build/include" batch.c -o batch -L"$build/src" -lcharl-train -lcharl
export LD_LIBRARY_PATH="$build/src"
expect 0 "batch_size of the library of its headers" ./batch
says 1 "^[1-9][0-9]* $"
mv log batch_size
mkdir -p more/config key
awk '{ print } /^CHARL_SECTION_BEGIN\(train\)/ { print "CHARL_KEY(train, int64_t, one_more, \"one_more\", INT, \"5\", \"[0,9]\", NULL, \"a key\")" }' \
    "$source/src/config/section_keys.def" >more/config/section_keys.def
for file in $(cd "$source/src" && find config -name '*.c'); do
    # shellcheck disable=SC2086
    cc -std=c11 -c -fPIC $flags -D_POSIX_C_SOURCE=200809L -Imore -I"$source/include" -I"$build/include" -I"$source/src" -I"$source/kernels" "$source/src/$file" \
        -o "key/$(echo "$file" | tr / _).o" || fail "$file does not compile"
done
modules=
for module in $(sed -n 's/^train *| \([a-z]*\) .*/\1/p' "$source/src/layers.txt"); do
    [ "$module" = config ] || modules="$modules $build/src/libcharl_$module.a"
done
train=$(objdump -p "$build/src/libcharl-train.so" | sed -n 's/^ *SONAME *//p')
# shellcheck disable=SC2046,SC2086
expect 0 "the library with one more key" cc -shared $flags -Wl,-soname,"$train" key/*.o -Wl,--whole-archive $modules -Wl,--no-whole-archive \
    $(ldd "$build/src/libcharl-train.so" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p') -o "key/$train"
export LD_LIBRARY_PATH="$T/key:$build/src"
expect 0 "batch_size of the library with one more key" ./batch
checks=$((checks + 1))
cmp -s log batch_size || fail "train.batch_size is $(cat log), not $(cat batch_size)"
finish

#!/bin/sh
# The installed tree, at another place than it was installed to: headers alone in C11 and C++17, the symbols of the library, and the
# examples, built by find_package and by pkg-config, outside of the source tree. The same weights on 1 to 4 ranks.
# Environment: CHARL_BUILD_DIR, CHARL_LIBDIR (relative to the prefix), CHARL_TEST_FLAGS (what sanitizers need).
here=$(cd "$(dirname "$0")" && pwd)
build=${CHARL_BUILD_DIR:?} libdir=${CHARL_LIBDIR:?} flags=${CHARL_TEST_FLAGS:-}
unset CHARL_BUILD_DIR CHARL_LIBDIR CHARL_TEST_FLAGS
. "$here/../train/common.sh"
source=$here/../..

expect 0 "install" cmake --install "$build" --prefix "$T/first"
mv first prefix || exit 1
lib=$T/prefix/$libdir
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib

# Each header compiles alone, and charl.h has them all.
for header in prefix/include/charl/*.h; do
    name=charl/$(basename "$header")
    printf "#include \"%s\"\ntypedef int charl_alone;\n" "$name" >alone.c
    cp alone.c alone.cpp
    expect 0 "$name in C11" cc -std=c11 -Wall -Wextra -pedantic -Werror -Iprefix/include -fsyntax-only alone.c
    expect 0 "$name in C++17" c++ -std=c++17 -Wall -Wextra -pedantic -Werror -Iprefix/include -fsyntax-only alone.cpp
    checks=$((checks + 1))
    [ "$name" = charl/charl.h ] || grep -q "#include \"$name\"" prefix/include/charl/charl.h || fail "charl.h does not include $name"
done

# The library shows what the headers declare and nothing else.
nm -D --defined-only "$lib/libcharl.so" | awk '{ print $3 }' | sort -u >exported
checks=$((checks + 1))
cat prefix/include/charl/*.h | sed -e 's#/\*.*\*/##' | awk '/\/\*/ { skip = 1 } !skip && !/^#/ { print } /\*\// { skip = 0 }' |
    grep -oE '\bcharl_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u >declared
comm -13 declared exported >hidden_names
[ ! -s hidden_names ] || fail "exported but in no header: $(tr '\n' ' ' <hidden_names)"
comm -23 declared exported | grep -v '^charl_status$' >missing
[ ! -s missing ] || fail "declared but not exported: $(tr '\n' ' ' <missing)"

# The examples, by find_package; the C++ program by pkg-config.
expect 0 "configuring the examples" cmake -S "$source/examples" -B by_cmake -DCMAKE_PREFIX_PATH="$T/prefix" \
    -DCMAKE_C_FLAGS="-Wall -Wextra -pedantic -Werror $flags"
expect 0 "building the examples" cmake --build by_cmake
for example in "$source"/examples/*.c; do
    name=$(basename "$example" .c)
    # shellcheck disable=SC2046,SC2086 # several words
    expect 0 "$name by pkg-config" cc -std=c11 -Wall -Wextra -pedantic -Werror $flags "$example" -o "$name" $(pkg-config --cflags --libs charl) -lm
done
# shellcheck disable=SC2046,SC2086
expect 0 "C++17 by pkg-config" c++ -std=c++17 -Wall -Wextra -pedantic -Werror $flags "$here/program.cpp" -o program $(pkg-config --cflags --libs charl)
expect 0 "C++17" ./program

expect 0 "custom_operator" by_cmake/custom_operator
says 1 "^row_norm: 2 samples, 2 gradients"
says 1 "^[|].9, 40.[|] = 41$"
expect 0 "train_mlp" by_cmake/train_mlp digits.h5
says 4 "^step [0-9]+  loss"
expect 0 "train_mlp by pkg-config" ./train_mlp digits.h5
for n in 1 2 3 4; do
    expect 0 "train_ddp on $n ranks" timeout 600 mpirun -q --oversubscribe --bind-to none -n $n by_cmake/train_ddp digits.h5
    says 1 "^weights "
    cp log ddp.$n
    checks=$((checks + 1))
    cmp -s ddp.1 ddp.$n || { fail "train_ddp differs on $n ranks"; diff ddp.1 ddp.$n; }
done
expect 1 "train_ddp on more ranks than slices" timeout 600 mpirun -q --oversubscribe --bind-to none -n 9 by_cmake/train_ddp digits.h5
says 1 "^train_ddp: .*slices"
finish

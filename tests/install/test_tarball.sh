#!/bin/sh
# What the preset `tarball` is made with: the toolchain's programs run with the C library that is promised, charl is configured with it, and
# the check of the archive refuses a program that needs more. With CHARL_TEST_LONG the archive is made (minutes without ccache).
# tests/install/chroot.sh runs it on older systems.
# Environment: CHARL_BUILD_DIR
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
build=${CHARL_BUILD_DIR:?}
unset CHARL_BUILD_DIR
. "$here/../train/common.sh"
glibc=$(sed -n 's/^set(CHARL_GLIBC \([0-9.]*\)).*/\1/p' "$source/cmake/sysroot.cmake")
# check GLIBC FOLDER
check() {
    cmake -DGLIBC="$1" -DFOLDER="$2" -P "$source/cmake/check_glibc.cmake"
}

mkdir -p own/bin empty
cp "$bin/charl" own/bin
expect 1 "a program that needs more" check 2.2 "$T/own"
says 1 "needs __libc_start_main of glibc 2[.0-9]*; 2.2 is promised"
expect 0 "a program that does not" check 99 "$T/own"
expect 1 "nothing to check" check "$glibc" "$T/empty"

mkdir small
cat >small/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(small C)
find_package(Threads REQUIRED)
add_executable(small small.c)
target_link_libraries(small PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
END
# Functions that moved from other libraries into libc, or have a newer version there, since the promised one.
cat >small/small.c <<'END'
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
static void *run(void *x) { return x; }
int main(int argc, char **argv)
{
    pthread_t thread;
    struct stat s;
    return pthread_create(&thread, NULL, run, NULL) || pthread_join(thread, NULL) || stat(argv[0], &s) || !dlopen(NULL, RTLD_LAZY) ||
           pow(argc, argc) != 1;
}
END
if [ "$(uname -m)" != x86_64 ]; then
    skipped "the toolchain" "it is for x86_64"
elif [ "$build" != "${build#* }" ]; then
    expect 1 "a path with a space" cmake -G Ninja -DCMAKE_TOOLCHAIN_FILE="$source/cmake/sysroot.cmake" -DCHARL_SYSROOT="$build/sysroot" -S small -B small/build
    says 1 "because of the space"
elif ! cmake -G Ninja -DCMAKE_TOOLCHAIN_FILE="$source/cmake/sysroot.cmake" -DCHARL_SYSROOT="$build/sysroot" -S small -B small/build >log 2>&1 && grep -q "cannot be downloaded" log; then
    skipped "the toolchain" "$(grep -o 'http.* cannot be downloaded' log)"
else
    cat log
    expect 0 "a small program" cmake --build small/build
    expect 0 "it runs here" small/build/small
    mkdir small/bin && mv small/build/small small/bin
    expect 0 "it needs no more than is promised" check "$glibc" "$T/small/bin"
    cd "$source" # where the presets are
    if [ -n "$long" ]; then
        expect 0 "the archive" sh -c "cmake --preset tarball -B '$T/all' -DCHARL_SYSROOT='$build/sysroot' && cmake --build '$T/all' && cd '$T/all' && cpack"
        says 1 "6 files run with glibc $glibc"
    else
        expect 0 "charl is configured" cmake --preset tarball -B "$T/all" -DCHARL_SYSROOT="$build/sysroot"
    fi
fi
finish

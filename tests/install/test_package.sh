#!/bin/sh
# The Debian packages of this build tree, as far as it can be seen without root: what is in them, what they depend on, lintian, and that the
# programs run from where they unpack. tests/install/chroot.sh installs them.
# Environment: CHARL_BUILD_DIR
here=$(cd "$(dirname "$0")" && pwd)
build=${CHARL_BUILD_DIR:?}
unset CHARL_BUILD_DIR
command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null || { echo "skipped: no dpkg-deb or no dpkg-shlibdeps"; exit 77; }
. "$here/../train/common.sh"

expect 0 "cpack" sh -c "cd '$build' && cpack -G DEB -B '$T/deb'"
for package in charl libcharl0.1 libcharl-dev libcharl-train0.1 libcharl-train-dev libcharl-report0.1 libcharl-report-dev; do
    set -- deb/"$package"_*.deb
    checks=$((checks + 1))
    [ $# -eq 1 ] && [ -f "$1" ] || { fail "$package: packages: $*"; continue; }
    dpkg-deb -f "$1" >"$package.control"
    dpkg-deb -x "$1" root
    expect 0 "$package: copyright" test -f "root/usr/share/doc/$package/copyright"
    # A file belongs to one package.
    dpkg-deb -c "$1" | awk '$1 !~ /^d/ { print $6 }' >>files
done
checks=$((checks + 1))
[ -z "$(sort files | uniq -d)" ] || fail "in two packages: $(sort files | uniq -d | tr '\n' ' ')"

cp libcharl0.1.control log
for library in libc6 libhdf5 ocl-icd-libopencl1 zlib1g; do
    says 1 "^Depends:.*$library"
done
says 0 "^Depends:.*lib(png|jpeg|pcre2|utf8proc)" # of libcharl-train
says 0 "^Depends:.*openmpi" # opened at run time
says 1 "^Recommends:.*openmpi-bin"
cp charl.control log
says 1 "^Depends:.*libcharl0.1 [(]= "
says 1 "^Recommends:.*openmpi-bin"
cp libcharl-dev.control log
says 1 "^Depends:.*libcharl0.1 [(]= "
cp libcharl-train0.1.control log
says 1 "^Depends:.*libcharl0.1 [(]= "
says 1 "^Depends:.*libpng"
cp libcharl-train-dev.control log
says 1 "^Depends:.*libcharl-train0.1 [(]= .*libcharl-dev [(]= "
cp libcharl-report0.1.control log
says 1 "^Depends:.*libcharl0.1 [(]= "
says 0 "^Depends:.*libcharl-train"

LD_LIBRARY_PATH=$(dirname "$(find "$T/root" -name 'libcharl.so.0.1')")
export LD_LIBRARY_PATH
for program in charl charl-train charl-bench; do
    expect 0 "$program from the package" "root/usr/bin/$program" --version
    expect 0 "manual page of $program" test -s "root/usr/share/man/man1/$program.1.gz"
    expect 0 "completion of $program" test -s "root/usr/share/bash-completion/completions/$program"
done
expect 2 "first steps" root/usr/bin/charl
says 1 "charl train $T/root/usr/share/charl/launch/digits.ini "
expect 0 "charl-config(5)" gzip -t root/usr/share/man/man5/charl-config.5.gz
expect 0 "an example of the package" root/usr/bin/charl-train --dry-run root/usr/share/charl/launch/digits.ini data.path=digits.h5

if command -v lintian >/dev/null; then
    # The prefix of this tree is not that of the package: its programs name a folder of libraries, and the library lies in /usr/lib.
    lintian --allow-root --no-cfg --suppress-tags custom-library-search-path deb/*.deb >log 2>&1
    says 0 "^E:"
else
    skipped "lintian" "it is not installed"
fi
finish

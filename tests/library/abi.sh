#!/bin/sh
# The binary interfaces of the libraries are those of LIBRARY.abi.gz: what was there is still there, with the same types. New functions are allowed.
# After a change that breaks programs, which only a new minor version (while the major version is 0) or a version in the making may bring:
#     CHARL_BUILD_DIR=build/release tests/library/abi.sh --record
# Environment: CHARL_BUILD_DIR
here=$(cd "$(dirname "$0")" && pwd)
headers=$here/../../include
command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "skipped: no abidw (Debian: abigail-tools)"; exit 77; }
objdump -h "${CHARL_BUILD_DIR:?}/src/libcharl.so" | grep -q debug_info || { echo "skipped: the library has no debugging information"; exit 77; }
T=$(mktemp -d) || exit 1
trap 'rm -rf "$T"' EXIT
# What libcharl shows to its sisters is no interface of programs (tests/library/private.sh).
for kind in function variable; do
    printf "[suppress_$kind]\n  %s = ^charl__\n  drop = yes\n" name_regexp symbol_name_regexp
done >"$T/private"
failed=0
for name in libcharl libcharl-train libcharl-report; do
    library=$CHARL_BUILD_DIR/src/$name.so
    if [ "${1:-}" = --record ]; then
        abidw --no-show-locs --no-corpus-path --no-comp-dir-path --type-id-style hash --drop-private-types --headers-dir "$headers" \
            --suppressions "$T/private" "$library" >"$T/abi" && gzip -9nc "$T/abi" >"$here/$name.abi.gz" || exit 1
        continue
    fi
    gzip -dc "$here/$name.abi.gz" >"$T/$name.abi" || exit 1
    abidiff --no-added-syms --drop-private-types --headers-dir2 "$headers" --suppressions "$T/private" "$T/$name.abi" "$library" >"$T/log" && continue
    failed=$?
    cat "$T/log"
    echo "abi.sh: programs that were linked with this minor version of $name would break (abidiff: $failed)"
done
[ $failed -eq 0 ] && exit 0
echo "Keep the interface, or raise the minor version and record it: CHARL_BUILD_DIR=$CHARL_BUILD_DIR tests/library/abi.sh --record"
exit 1

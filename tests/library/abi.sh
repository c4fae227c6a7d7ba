#!/bin/sh
# The library's binary interface is that of libcharl.abi.gz: what was there is still there, with the same types. New functions are allowed.
# After a change that breaks programs, which only a new minor version (while the major version is 0) or a version in the making may bring:
#     CHARL_BUILD_DIR=build/release tests/library/abi.sh --record
# Environment: CHARL_BUILD_DIR
here=$(cd "$(dirname "$0")" && pwd)
library=${CHARL_BUILD_DIR:?}/src/libcharl.so
headers=$here/../../include
command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "skipped: no abidw (Debian: abigail-tools)"; exit 77; }
objdump -h "$library" | grep -q debug_info || { echo "skipped: the library has no debugging information"; exit 77; }
T=$(mktemp -d) || exit 1
trap 'rm -rf "$T"' EXIT
describe() {
    abidw --no-show-locs --no-corpus-path --no-comp-dir-path --type-id-style hash --drop-private-types --headers-dir "$headers" "$library"
}
describe >"$T/now.abi" || exit 1
if [ "${1:-}" = --record ]; then
    gzip -9nc "$T/now.abi" >"$here/libcharl.abi.gz"
    exit
fi
gzip -dc "$here/libcharl.abi.gz" >"$T/libcharl.abi" || exit 1
# Both as abidw writes them: compared with the library itself, abidiff takes changed structs for private ones.
abidiff --no-added-syms "$T/libcharl.abi" "$T/now.abi" >"$T/log"
rc=$?
[ $rc -eq 0 ] && exit 0
cat "$T/log"
echo "abi.sh: programs that were linked with this minor version would break (abidiff: $rc). Keep the interface, or raise the minor version"
echo "and record it: CHARL_BUILD_DIR=$CHARL_BUILD_DIR tests/library/abi.sh --record"
exit 1

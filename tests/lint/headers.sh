#!/bin/sh
# Every header compiles alone and twice, and has the guard its place asks for.
# Usage: headers.sh ROOT COMPILER [flag...]
cd "$1" || exit 2
shift
cc=$1
shift
failed=0
for h in $(find include src bench -name '*.h' 2>/dev/null | sort); do
    case $h in
    include/charl/*) guard=${h#include/} ;;
    *) guard=CHARL_${h#src/} ;;
    esac
    guard=$(printf '%s' "$guard" | tr 'a-z/.-' 'A-Z___')
    if ! grep -q "^#ifndef $guard\$" "$h"; then
        echo "$h: expected the guard $guard"
        failed=1
    fi
    if ! printf '#include "%s"\n#include "%s"\n' "$h" "$h" |
        "$cc" -std=c11 -fsyntax-only -Wall -Wextra -Werror "$@" -I. -Iinclude -Isrc -Ikernels -x c -; then
        echo "$h: does not compile alone"
        failed=1
    fi
done
# Which threads may use an object is said of every type.
for type in $(sed -n 's/^typedef struct \(charl_[a-z_]*\) \1;$/\1/p' include/charl/*.h); do
    if ! sed -n '/^| objects | threads |/,/^$/p' docs/library.md | grep -q "\`$type\`"; then
        echo "docs/library.md does not say which threads may use $type"
        failed=1
    fi
done
exit $failed

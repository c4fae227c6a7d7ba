#!/bin/sh
# Files of at most 600 lines (kernels 250), functions of at most 60 lines.
# Usage: size.sh ROOT
cd "$1" || exit 2
failed=0
for f in $(find src include tests -name '*.[ch]' | sort) $(find kernels -name '*.cl' -o -name '*.clh' | sort); do
    limit=600
    case $f in kernels/*) limit=250 ;; esac
    lines=$(wc -l <"$f")
    if [ "$lines" -gt $limit ]; then
        echo "$f: $lines lines, at most $limit"
        failed=1
    fi
done
if ! ctags --version 2>/dev/null | grep -q Universal; then
    echo "skipped: function lengths (no Universal Ctags)"
    [ $failed = 0 ] && exit 77
    exit 1
fi
find src tests -name '*.[ch]' | sort |
    ctags -L - --languages=C --langmap=C:.c.h --kinds-C=f --fields=+ne -o - 2>/dev/null |
    awk -F '\t' '
    /^!/ { next }
    {
        first = last = 0
        for (i = 4; i <= NF; i++) {
            if ($i ~ /^line:/) { first = substr($i, 6) }
            if ($i ~ /^end:/) { last = substr($i, 5) }
        }
        if (last - first + 1 > 60) {
            printf "%s:%d: %s has %d lines, at most 60\n", $2, first, $1, last - first + 1
            failed = 1
        }
    }
    END { exit failed }' || failed=1
exit $failed

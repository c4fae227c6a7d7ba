#!/bin/sh
# `cleanup:` means that something is released: a function that holds nothing returns at once (src/base/error.h). A macro that
# returns must not stand in a function with that label, or what the function holds would leak.
# Usage: cleanup.sh ROOT
cd "$1" || exit 2
found=$(find src bench tests -name '*.c' | sort | xargs awk '
/^\{$/ { inside = 1; label = 0; n = 0 }
inside && /^cleanup:$/ { label = FNR }
inside && label && FNR == label + 1 && /^    return st;/ { print FILENAME ":" label ": cleanup: releases nothing; return at once" }
inside && /(^|[^A-Za-z0-9_])(CHARL_TRY|CHARL_FAIL|CHARL_REQUIRE|CHARL_CL|CHARL_H5|CHARL_H5_OPEN)\(/ { at[n++] = FNR }
/^\}$/ {
    for (i = 0; label && i < n; i++) {
        print FILENAME ":" at[i] ": returns past cleanup:; use the macro that ends in _CLEANUP"
    }
    inside = 0
}')
[ -z "$found" ] && exit 0
echo "$found"
exit 1

#!/bin/sh
# src/base/fault_points.def has exactly the points that the sources pass.
# Usage: faults.sh ROOT
cd "$1" || exit 2
listed=$(sed -nE 's/^(POINT|PLACE)\("([^"]*)".*/\2/p' src/base/fault_points.def | sort)
passed=$({
    grep -rhoE '(charl__crash_point|injected|charl__fault|charl__fault_arg|charl_fault)\("[^"]*"' src --include='*.c' | sed 's/.*"\(.*\)"/\1/'
    grep -rhoE '"io\.[a-z.]+"' src --include='*.c' | tr -d '"'
    sed -nE 's/^ *X\([A-Z]+, "([a-z]+)", .*/train.\1/p' src/parallel/phase.h
} | sort -u)
[ -n "$listed" ] && [ "$listed" = "$passed" ] && exit 0
echo "src/base/fault_points.def (<) and the sources (>) differ:"
printf '%s\n' "$listed" >"${TMPDIR:-/tmp}/faults.$$"
printf '%s\n' "$passed" | diff "${TMPDIR:-/tmp}/faults.$$" -
rm -f "${TMPDIR:-/tmp}/faults.$$"
exit 1

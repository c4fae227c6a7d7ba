#!/bin/sh
# Every operator that the library defines, a symbol charl_op_NAME, is in the table that test_ops runs.
# Usage: op_table.sh NM LIBRARY OPS_DEF
defined=$("$1" -g "$2" 2>/dev/null | sed -nE 's/.* [A-TV-Z] charl_op_([a-z0-9_]+)$/\1/p' | sort -u)
listed=$(sed -nE 's/^CHARL_OP\(([a-z0-9_]+)\).*/\1/p' "$3" | sort)
if [ -z "$defined" ]; then
    echo "no symbols in $2"
    exit 1
fi
if [ "$defined" != "$listed" ]; then
    echo "operators defined and not listed in $3, and so not tested: add CHARL_OP(NAME)"
    printf '%s\n' "$listed" >"${TMPDIR:-/tmp}/op_table.$$"
    printf '%s\n' "$defined" | diff "${TMPDIR:-/tmp}/op_table.$$" - | sed -n 's/^> //p'
    rm -f "${TMPDIR:-/tmp}/op_table.$$"
    exit 1
fi
printf '%s\n' "$listed" | wc -l | sed 's/$/ operators, all in the table/'

#!/bin/sh
# expect.sh CODES TIMES PATTERN COMMAND...: COMMAND ends with one of CODES ("7" or "7|137") and writes so many lines that
# match PATTERN as one of TIMES says ("1" or "1|2").
codes=$1 times=$2 pattern=$3
shift 3
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
"$@" >"$out" 2>&1
code=$?
cat "$out"
case "|$codes|" in
*"|$code|"*) ;;
*) echo "exit code $code, expected $codes"; exit 1 ;;
esac
n=$(grep -c -E "$pattern" "$out")
case "|$times|" in
*"|$n|"*) ;;
*) echo "$n lines match '$pattern', expected $times"; exit 1 ;;
esac

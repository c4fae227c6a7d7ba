#!/bin/sh
# A macro of a kernel uses its parameters, and no variable of whoever uses it, and one with parameters is a line: macros.py, which lists those
# that are not so and counts them.
# Usage: macros.sh ROOT
command -v python3 >/dev/null || {
    echo "skipped: no python3"
    exit 77
}
exec python3 "$(dirname "$0")/macros.py" "$1"

#!/bin/sh
# A macro of a kernel uses its parameters, and no variable of whoever uses it: macros.py, which lists those that do and counts them.
# Usage: macros.sh ROOT
command -v python3 >/dev/null || {
    echo "skipped: no python3"
    exit 77
}
exec python3 "$(dirname "$0")/macros.py" "$1"

#!/bin/sh
# What the public headers look like: interface.py has the rules.
# Usage: interface.sh ROOT
command -v python3 >/dev/null || {
    echo "skipped: no python3"
    exit 77
}
exec python3 "$(dirname "$0")/interface.py" "$1"

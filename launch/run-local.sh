#!/bin/sh
# Train on N ranks of this machine, one for each device, and start again after a rank has died.
# Usage: run-local.sh N CONFIG [SECTION.KEY=VALUE...]
case ${1:-} in
'' | *[!0-9]*)
    sed -n 's/^# Usage: /usage: /p' "$0" >&2
    exit 2
    ;;
esac
ranks=$1
shift
[ "$ranks" -gt 1 ] || exec charl-train "$@"
exec charl launch -n "$ranks" "$@"

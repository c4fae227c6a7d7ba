#!/bin/sh
# Outside src/cli nothing in src prints, exits or asserts, except base/log.c where CHARL_LOG asks; nowhere is work left marked as undone.
# Functions that end the process by name and contract: charl__panic aborts, charl_comm_exit exits, and so does a fault.
# Usage: words.sh ROOT
cd "$1" || exit 2
failed=0
prints=$(grep -rnE --include='*.c' --include='*.h' \
    '(^|[^A-Za-z0-9_>.])(printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|abort|assert)[ ]*\(|(^|[^A-Za-z0-9_])(stdout|stderr)([^A-Za-z0-9_]|$)' \
    src | grep -v '^src/cli/' | grep -vE '^[^:]*:[0-9]+:[ ]*(/?\*|//)' |
    grep -vE '^src/(base/log\.c:[0-9]+: *fprintf\(stderr, "charl: %s: %s|base/status\.c:[0-9]+: *abort\(\);|dist/comm\.c:[0-9]+: *_exit\(code\);|base/fault\.c:[0-9]+: *_exit\(\(int\)arg\);)')
if [ -n "$prints" ]; then
    echo "$prints"
    echo "only src/cli prints or exits; the library returns a status or logs"
    failed=1
fi
getenvs=$(grep -rnE --include='*.c' --include='*.h' 'getenv\("CHARL_' src bench 2>/dev/null)
if [ -n "$getenvs" ]; then
    echo "$getenvs"
    echo "charl's own variables are read through base/env.h"
    failed=1
fi
marks=$(grep -rnwE --include='*.c' --include='*.h' --include='*.cl' --include='*.clh' 'TODO|FIXME|XXX|HACK' \
    src include bench kernels tests 2>/dev/null)
if [ -n "$marks" ]; then
    echo "$marks"
    echo "finish it, or say in an issue what is missing"
    failed=1
fi
# Words of a translated voice, in comments only: `*` at their beginning, or behind the opening of one. Say it as an engineer would.
voice='whoever|nobody|one after the other|quick(er|est|ly)?|says of|told of|is told|made by cmake|also after (a )?failure'
odd=$(grep -rniE --include='*.c' --include='*.h' --include='*.cl' --include='*.clh' --include='*.def' \
    "(^[[:space:]]*\*|/\*).*[^[:alnum:]_]($voice)([^[:alnum:]_]|\$)" src include bench)
if [ -n "$odd" ]; then
    echo "$odd"
    echo "plain words, please: fast for quick, reported for told, generated for made, even after for also after (tests/lint/words.sh)"
    failed=1
fi
# Names that say nothing: what is taken, settled or dealt is read, copied, reserved, finished, assigned ...
names=$(grep -rnoE --include='*.c' --include='*.h' '(^|[^[:alnum:]_])(charl__)?(settle|deal|retrace|tally)(_[a-z_]+)?[ ]*\(' src bench)
if [ -n "$names" ]; then
    echo "$names"
    echo "name a function by what it does: read, copy, apply, assign, finish, rewind ..."
    failed=1
fi
exit $failed

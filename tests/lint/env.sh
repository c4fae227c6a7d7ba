#!/bin/sh
# docs/env.md lists exactly the variables of the table in src/base/env.h, with the same words.
# Usage: env.sh ROOT
cd "$1" || exit 2
table=$(tr '\n' ' ' <src/base/env.h | sed 's/\\ */ /g' | grep -oE 'X\([A-Z_]+, *[A-Z]+, *[A-Z]+, *("[^"]*" *)+\)' |
    sed -E 's/" +"//g; s/^X\(([A-Z_]+), *[A-Z]+, *([A-Z]+), *"([^"]*)" *\)$/CHARL_\1 | \L\2\E | \3/' | sort)
page=$(sed -nE 's/^\| `(CHARL_[A-Z_]+)` \| (own|same|set) \| (.*) \|$/\1 | \2 | \3/p' docs/env.md | sort)
[ -n "$table" ] || { echo "src/base/env.h: no table found"; exit 1; }
if [ "$table" != "$page" ]; then
    echo "docs/env.md and src/base/env.h differ. The table says:"
    echo "$table"
    echo "The page says:"
    echo "$page"
    exit 1
fi

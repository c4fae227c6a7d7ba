#!/bin/sh
# Source files that documents name in backquotes exist, by the end of their path, and so do the files that they link to.
# Decisions (docs/adr) speak of their time.
# Usage: paths.sh ROOT
cd "$1" || exit 2
failed=0
all=$(find src include bench kernels tests cmake launch -type f 2>/dev/null | sed 's,^,/,')
for doc in *.md datasets/*.md checkpoints/*.md $(find docs -name '*.md' ! -path 'docs/adr/*'); do
    [ -f "$doc" ] || continue
    for name in $(grep -oE '`[A-Za-z0-9_./-]+\.(c|h|cl|clh|def|sh|py)`' "$doc" | tr -d '`' | sort -u); do
        if ! printf '%s\n' "$all" | grep -q -- "/$name\$"; then
            echo "$doc: there is no $name"
            failed=1
        fi
    done
    for link in $(grep -oE '\]\([^)#]+' "$doc" | sed 's/^](//' | grep -v '^https*:' | sort -u); do
        if [ ! -e "$(dirname "$doc")/$link" ]; then
            echo "$doc: links to $link, which is not there"
            failed=1
        fi
    done
done
exit $failed

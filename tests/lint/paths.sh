#!/bin/sh
# Source files that documents name in backquotes exist, by the end of their path, and so do the files that they link to.
# Decisions (docs/adr) speak of their time. Tests that docs/reliability.md names exist too.
# Usage: paths.sh ROOT
cd "$1" || exit 2
failed=0
all=$(find src include bench kernels tests cmake launch tools docs/site python packaging devices -type f 2>/dev/null | sed 's,^,/,')
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
for test in $(grep -oE '`[a-z]+/[a-z0-9_]+`' docs/reliability.md 2>/dev/null | tr -d '`' | sort -u); do
    folder=${test%%/*}
    name=${test#*/}
    case $folder in
    fuzz) [ -d "tests/fuzz/corpus/$name" ] ;;
    mpi) grep -q "(${name#mishap_} " tests/mpi/CMakeLists.txt ;;
    *) ls "tests/$folder/test_$name".* >/dev/null 2>&1 ;;
    esac || {
        echo "docs/reliability.md: there is no test $test"
        failed=1
    }
done
exit $failed

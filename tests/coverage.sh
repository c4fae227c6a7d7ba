#!/bin/sh
# Line coverage by module: build the preset coverage, run tests and print how many lines of src and bench they ran.
# Usage: tests/coverage.sh [CTEST OPTION...]      tests/coverage.sh -L 'base|config|io|tensor'; without options all tests but
#   those under valgrind. Counts add up over calls; rm -r build/coverage starts again. build/coverage/lines.txt has every file.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- -LE '^(valgrind|lint)$'
command -v gcov >/dev/null || { echo "coverage: no gcov; it comes with gcc" >&2; exit 1; }

cmake --preset coverage >/dev/null && cmake --build --preset coverage || exit 1
ctest --preset coverage "$@"
tests=$?

# gcov says of every source "File 'PATH'" and "Lines executed:P% of N"; a header is in many, and left out.
find build/coverage/src build/coverage/bench -name '*.gcda' -exec gcov -n {} + 2>/dev/null |
    awk -v root="$PWD/" '
        /^File / { file = substr($0, 7, length($0) - 7); sub("^" root, "", file) }
        /^Lines executed:/ && file ~ /^(src|bench)\/.*\.c$/ {
            split($0, part, /[:% ]+/)
            printf "%s %d %d\n", file, part[3] * part[5] / 100 + 0.5, part[5]
            file = ""
        }' | sort -u >build/coverage/lines.txt
# Files of which nothing ran have no counts.
find build/coverage/src build/coverage/bench -name '*.gcno' | while read -r notes; do
    [ -f "${notes%.gcno}.gcda" ] || gcov -n "$notes" 2>/dev/null
done | awk -v root="$PWD/" '
    /^File / { file = substr($0, 7, length($0) - 7); sub("^" root, "", file) }
    /^(Lines executed|No executable lines)/ && file ~ /^(src|bench)\/.*\.c$/ {
        n = split($0, part, /[:% ]+/)
        if (part[1] == "Lines") { printf "%s 0 %d\n", file, part[5] }
        file = ""
    }' | sort -u >>build/coverage/lines.txt
[ -s build/coverage/lines.txt ] || { echo "coverage: no counts" >&2; exit 1; }
awk '
    { split($1, dir, "/"); name = dir[1] == "bench" ? "bench" : dir[2]; ran[name] += $2; all[name] += $3; r += $2; a += $3 }
    END {
        for (name in all) { printf "%-12s %6d of %6d lines  %5.1f %%\n", name, ran[name], all[name], 100 * ran[name] / all[name] | "sort" }
        close("sort")
        printf "%-12s %6d of %6d lines  %5.1f %%\n", "all", r, a, 100 * r / a
    }' build/coverage/lines.txt
exit $tests

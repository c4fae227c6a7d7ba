#!/bin/sh
# C programs of tests that include headers of src, directly or through headers of tests, are those that tests/internal.txt lists, and no more
# than the limit below. The compiler holds the others to it: their include path has no src.
# Usage: internal.sh ROOT
cd "$1" || exit 2
limit=56
awk -v limit=$limit '
function base(path) { sub(/[^\/]*$/, "", path); return path }
# Whether FILE includes a header of src or bench.
function is_internal(file,    line, q, header, at, found) {
    if (file in known) { return known[file] }
    known[file] = 0
    while ((getline line < file) > 0) {
        if (line !~ /^[ \t]*#[ \t]*include[ \t]*"/) { continue }
        split(line, q, "\""); header = q[2]
        at = exists(base(file) header) ? base(file) header : "tests/" header
        found = exists(at) ? is_internal(at) : header !~ /^charl\// && (exists("src/" header) || exists(header))
        known[file] = known[file] || found
    }
    close(file)
    return known[file]
}
function exists(path,    line, r) {
    if (!(path in is_there)) { r = getline line < path; close(path); is_there[path] = r >= 0 }
    return is_there[path]
}
function is_program(file,    line, r) {
    r = 0
    while ((getline line < file) > 0) { if (line ~ /^int main\(/) { r = 1 } }
    close(file)
    return r
}
/^[a-z]/ {
    if (NF < 2) { print FILENAME ":" FNR ": say what of the inside " $1 " tests"; failed = 1 }
    if ($1 in listed || $1 < last) { print FILENAME ":" FNR ": " $1 " is not in alphabetical order"; failed = 1 }
    listed[$1] = last = $1
}
END {
    while (("find tests -name \"*.c\" | LC_ALL=C sort" | getline file) > 0) {
        if (!is_program(file)) { continue }
        programs++
        name = file; sub(/^tests\//, "", name); sub(/\.c$/, "", name)
        there[name] = 1
        if (is_internal(file)) {
            n++
            if (!(name in listed)) { print file ": includes headers of src and is not in tests/internal.txt"; failed = 1 }
        } else if (name in listed) {
            print "tests/internal.txt: " name " includes no header of src: remove the line"; failed = 1
        }
    }
    for (name in listed) { if (!(name in there)) { print "tests/internal.txt: there is no program tests/" name ".c"; failed = 1 } }
    printf "%d of %d programs include headers of src (limit %d)\n", n, programs, limit
    if (n > limit) { print "above the limit: test through <charl/...>, or through a program that is listed already"; failed = 1 }
    if (programs == 0) { print "no programs found"; failed = 1 }
    exit failed
}' tests/internal.txt

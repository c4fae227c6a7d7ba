#!/bin/sh
# Who may include whom (src/layers.txt: modules, the three libraries, their public headers), and where the headers of OpenCL, MPI, HDF5, jansson, pcre2, utf8proc, zlib, libpng, libjpeg and hwloc
# may appear. The programs (src/cli, bench, examples) are programs of users: they include <charl/...> and headers of their own, and
# nothing else includes theirs. bench includes those of src/cli too, which reads its command line.
# Usage: layers.sh ROOT
cd "$1" || exit 2
find src include bench -name '*.[ch]' 2>/dev/null | sort | sed '1i src/layers.txt' | xargs awk '
FILENAME == "src/layers.txt" {
    n = split($0, field, /[ ]*[|][ ]*/)
    if ($0 !~ /^[a-z]/ || n != 4) { next }
    library[field[2]] = field[1]
    allow[field[2]] = " " field[2] " "
    n = split(field[3], used, " ")
    for (i = 1; i <= n; i++) {
        if (!(used[i] in allow)) { bad(field[2] " uses " used[i] ", which no line above describes"); continue }
        if (library[used[i]] != field[1] && library[used[i]] != "charl") { # report uses nothing of train, and charl nothing of both
            bad("a module of " field[1] " may not use " used[i] " of " library[used[i]])
        }
        allow[field[2]] = allow[field[2]] allow[used[i]]
    }
    n = split(field[4], header, " ")
    for (i = 1; i <= n; i++) { owner[header[i]] = field[2] }
    next
}
BEGIN {
    allow["cli"] = " cli "
    allow["bench"] = " cli bench "
    allow["compile"] = " device " # charl-compile is a part of libcharl
    is_program["cli"] = is_program["bench"] = 1
    owner["version"] = "base" # made from version.h.in
    n = split("CL/:device mpi.h:dist hdf5:io jansson:io jansson:data jansson:report jansson:files hdf5:data pcre2:data utf8proc:data zlib.h:io zlib.h:data lzf.h:io png.h:data jpeglib.h:data jerror.h:data hwloc:dist", pair, " ")
    for (i = 1; i <= n; i++) { split(pair[i], p, ":"); confined[p[1]] = (confined[p[1]] ? confined[p[1]] " and " : "") "src/" p[2] }
}
function bad(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; failed = 1 }
FNR == 1 {
    if (FILENAME ~ /^include\//) {
        name = FILENAME; sub(/.*\//, "", name); sub(/\.h$/, "", name)
        if (!(name in owner)) { bad("say in src/layers.txt which module this public header belongs to") }
        mod = owner[name]
    } else {
        split(FILENAME, part, "/"); mod = part[1] == "bench" ? "bench" : part[2]
        if (!(mod in allow)) { bad("no layer is called " mod) }
    }
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, q, "\""); path = q[2]; target = path; sub(/\/.*/, "", target)
    if (FILENAME == "include/charl/charl.h") { next } # what is installed
    if (path ~ /_args\.h$/) { # of kernels/: what kernels take
        if (index(allow[mod], " device ") == 0) { bad(mod " may not include what kernels take: " path) }
    } else if (path !~ /\//) {
        bad("include from the root of src: \"module/" path "\"")
    } else if (target == "charl" && mod in is_program) {
        bad("programs include <" path ">, not \"" path "\"")
    } else if (target == "charl") {
        name = path; sub(/.*\//, "", name); sub(/\.(h|def)$/, "", name); target = owner[name]
        if (name in owner && index(allow[mod], " " target " ") == 0) {
            bad(mod " may not include " path " of " target)
        }
    } else if (mod in is_program && index(allow[mod], " " target " ") == 0) {
        bad("programs include <charl/...> and headers of their own, not " path)
    } else {
        if (FILENAME ~ /^include\//) { bad("a public header may not include " path) }
        else if (index(allow[mod], " " target " ") == 0) { bad(mod " may not include " target ": " path) }
        if (path ~ /_private\.h$/ && target != mod) { bad(path " is private to " target) }
    }
}
/^[ \t]*#[ \t]*include[ \t]*</ {
    split($0, q, /[<>]/)
    target = q[2]; sub(/\/.*/, "", target)
    if (target in allow && q[2] ~ /\//) { bad("<" q[2] ">: headers of a module are included between quotes") }
    for (k in confined) {
        if (index(q[2], k) == 1 && mod != "bench" && (index(confined[k] " ", "src/" mod " ") == 0 || FILENAME ~ /^include\//)) {
            bad("<" q[2] "> may appear in " confined[k] " only")
        }
    }
}
END { exit failed }' || exit 1

# Examples are programs of users: of charl they see the installed headers only.
if grep -nE '^[ \t]*#[ \t]*include[ \t]*"' examples/*.c /dev/null 2>/dev/null; then
    echo 'examples include <charl/...> only'
    exit 1
fi

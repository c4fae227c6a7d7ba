#!/bin/sh
# Who may include whom (the layers), and where the headers of OpenCL, MPI, HDF5, jansson, pcre2, utf8proc, zlib, libpng, libjpeg and hwloc
# may appear. The programs (src/cli, bench, examples) are programs of users: they include <charl/...> and headers of their own, and
# nothing else includes theirs. bench includes those of src/cli too, which reads its command line.
# Usage: layers.sh ROOT
cd "$1" || exit 2
find src include bench -name '*.[ch]' 2>/dev/null | sort | xargs awk '
BEGIN {
    allow["base"] = " base "
    allow["device"] = " base device "
    allow["tensor"] = allow["device"] "tensor "
    allow["autograd"] = allow["tensor"] "autograd "
    allow["nn"] = allow["autograd"] "nn "
    allow["optim"] = allow["tensor"] "optim "
    allow["dist"] = allow["tensor"] "dist "
    allow["io"] = allow["tensor"] "io "
    allow["config"] = allow["nn"] "optim dist io config "
    allow["task"] = allow["config"] "task "
    allow["export"] = allow["task"] "export "
    allow["infer"] = allow["task"] "infer "
    allow["train"] = allow["export"] "infer dist train "
    allow["report"] = allow["config"] "io report "
    allow["cli"] = " cli "
    allow["all"] = allow["train"] "report " # charl.h
    allow["bench"] = " cli bench "
    is_program["cli"] = is_program["bench"] = 1
    # shape.h holds plain values (element types, extents) that every layer speaks of
    n = split("base:api base:version base:status base:slices base:shape base:log base:environment base:error base:text device:device device:tune tensor:tensor tensor:roofline tensor:opencl tensor:params tensor:steps autograd:graph autograd:ops autograd:operator base:key nn:nn nn:layer nn:loss nn:metric nn:weights_layout optim:optim dist:comm " \
        "io:dataset io:import io:loader io:data_schema io:tokenizer io:image io:checkpoint io:safetensors config:config task:weights task:summary infer:inference export:export train:train train:metrics train:replay train:verify train:data_parallel train:profile infer:predict infer:generate infer:choices report:report all:charl", pair, " ")
    for (i = 1; i <= n; i++) { split(pair[i], p, ":"); owner[p[2]] = p[1] }
    n = split("CL/:device mpi.h:dist hdf5:io jansson:io pcre2:io utf8proc:io zlib.h:io lzf.h:io png.h:io jpeglib.h:io jerror.h:io hwloc:dist", pair, " ")
    for (i = 1; i <= n; i++) { split(pair[i], p, ":"); confined[p[1]] = p[2] }
}
function bad(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; failed = 1 }
FNR == 1 {
    if (FILENAME ~ /^include\//) {
        name = FILENAME; sub(/.*\//, "", name); sub(/\.h$/, "", name)
        if (!(name in owner)) { bad("say in tests/lint/layers.sh which layer this public header belongs to") }
        mod = owner[name]
    } else {
        split(FILENAME, part, "/"); mod = part[1] == "bench" ? "bench" : part[2]
        if (!(mod in allow)) { bad("no layer is called " mod) }
    }
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, q, "\""); path = q[2]; target = path; sub(/\/.*/, "", target)
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
        if (index(q[2], k) == 1 && mod != "bench" && (mod != confined[k] || FILENAME ~ /^include\//)) {
            bad("<" q[2] "> may appear in src/" confined[k] " only")
        }
    }
}
END { exit failed }' || exit 1

# Examples are programs of users: of charl they see the installed headers only.
if grep -nE '^[ \t]*#[ \t]*include[ \t]*"' examples/*.c /dev/null 2>/dev/null; then
    echo 'examples include <charl/...> only'
    exit 1
fi

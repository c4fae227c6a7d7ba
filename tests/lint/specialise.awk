# A kernel file with what it includes, without its defaults of what is defined for it, as src/device/program.c does it: lines "#define NAME ..." of the names in
# `names`. roots: folders in which to look for included files, in this order; out: a file instead of standard output.
# Usage: awk -v roots="kernels" -v names="A_KIND BIAS" -f specialise.awk FILE
BEGIN {
    if (!out) { out = "/dev/stdout" }
    n = split(names, name, " ")
    for (i = 1; i <= n; i++) { given[name[i]] = 1 }
    n_roots = split(roots, root, " ")
    print "# 1 \"" ARGV[1] "\"" >out
    put(ARGV[1])
    exit
}
function put(file, line, word, i, part, number) {
    while ((getline line <file) > 0) {
        number++
        if (line ~ /^#include "/) {
            split(line, part, "\"")
            for (i = 1; i <= n_roots && (getline word <(root[i] "/" part[2])) <= 0; i++) { }
            close(root[i] "/" part[2])
            print "# 1 \"" root[i] "/" part[2] "\" 1" >out # enters a file, and returns, as a preprocessor tells it
            put(root[i] "/" part[2])
            print "# " number + 1 " \"" file "\" 2" >out
            continue
        }
        word = ""
        if (line ~ /^#define /) {
            word = substr(line, 9)
            sub(/[^A-Za-z0-9_].*/, "", word)
        }
        print(word in given ? "" : line) >out
    }
    close(file)
}

#!/bin/sh
# Lines of the product: of each library, with its public headers (src/layers.txt), of the kernels, and of the programs.
# Usage: lines.sh [ROOT]
cd "${1:-$(dirname "$0")/..}" || exit 2
git ls-files src include kernels bench | grep -E '\.(c|h|cl|clh|def)$' | xargs wc -l | awk '
FILENAME == "src/layers.txt" {
    if (split($0, field, / *[|] */) != 4 || $0 !~ /^[a-z]/) { next }
    library[field[2]] = field[1]
    n = split(field[4], header, " ")
    for (i = 1; i <= n; i++) { of_header[header[i]] = field[1] }
    next
}
$2 == "total" { next }
{
    n = split($2, part, "/")
    if (part[1] == "include") { name = part[n]; sub(/\..*/, "", name); name = of_header[name] }
    else if (part[1] == "src") { name = part[2] in library ? library[part[2]] : part[2] }
    else { name = part[1] }
    lines[name == "train" || name == "report" ? "libcharl-" name : name == "charl" ? "libcharl" : name] += $1
    total += $1
}
END {
    for (name in lines) { printf "%7d %s\n", lines[name], name | "sort -k2" }
    close("sort -k2")
    printf "%7d\n", total
}' src/layers.txt -

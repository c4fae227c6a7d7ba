#!/bin/sh
# Every public prototype has a comment with the fixed words: Local or "Collective on", and Async or Blocks where a
# status is returned. The words may stand in the comment in front of the prototype (one comment may serve several
# prototypes without a blank line between them), behind it, or for the whole file in the comment at its top.
# destroy, release, retain and free need none. tests/lint/docs_exempt.txt lists functions that need no Async or Blocks.
# Usage: docs.sh ROOT
cd "$1" || exit 2
exempt=/dev/null
[ -f tests/lint/docs_exempt.txt ] && exempt=tests/lint/docs_exempt.txt
awk '
FILENAME == ARGV[1] && ARGV[1] != "/dev/null" { if ($1 !~ /^#/) { exempt[$1] = 1 } next }
function has(text, words) { return text ~ ("(^|[^A-Za-z])(" words ")([^A-Za-z]|$)") }
function check(proto, trailing,    name, all) {
    name = proto; sub(/\(.*/, "", name); sub(/[ \t]+$/, "", name); sub(/.*[ *]/, "", name)
    if (name ~ /_(destroy|release|retain|free)$/) { return }
    all = doc " " trailing " " top
    if (doc == "" && trailing == "") {
        printf "%s:%d: %s has no comment\n", FILENAME, FNR, name; failed = 1
    } else if (!has(all, "Local|Collective")) {
        printf "%s:%d: %s: the comment says neither Local nor Collective\n", FILENAME, FNR, name; failed = 1
    } else if (proto ~ /^(CHARL_[A-Z_]+ )?charl_status / && !(name in exempt) && !has(all, "Async|Blocks")) {
        printf "%s:%d: %s: the comment says neither Async nor Blocks\n", FILENAME, FNR, name; failed = 1
    }
}
FNR == 1 { doc = ""; top = ""; seen_top = 0; in_comment = 0; proto = "" }
in_comment { text = text " " $0; if (/\*\//) { in_comment = 0; finish_comment() } next }
proto == "" && /^[ \t]*\/\*/ {
    text = $0
    if (/\*\//) { finish_comment() } else { in_comment = 1 }
    next
}
/^[ \t]*$/ { if (proto == "") { doc = "" } next }
proto == "" && /^[A-Za-z_].*\(/ && !/^(typedef|struct|enum|union|static|extern|_Static_assert)/ { proto = $0; if (/;/) { finish_proto() } next }
proto != "" { proto = proto " " $0; if (/;/) { finish_proto() } }
function finish_comment() { if (!seen_top) { top = text; seen_top = 1 } else { doc = text } }
function finish_proto(    at) {
    at = index(proto, ";")
    check(substr(proto, 1, at), substr(proto, at + 1))
    proto = ""
}
END { exit failed }' "$exempt" $(find include/charl -name '*.h' | sort)

# Shared by the tests that are shell scripts: sourced first, by train/common.sh and cli/charl.sh too. Leaves the script in a fresh directory, $T,
# which goes when it ends.
#
#   $bin $root      folders of the programs and of the sources, absolute
#   $long $short    CHARL_TEST_LONG, CHARL_TEST_SHORT and CHARL_TEST_DATA, which are unset: charl warns of variables that it does not know
#   $test_data
set -u
[ -n "${CHARL_BIN_DIR:-}" ] && [ -x "$CHARL_BIN_DIR/charl-train" ] || { echo "CHARL_BIN_DIR holds no charl-train"; exit 1; }
# absolute: the script leaves this directory
bin=$(cd "$CHARL_BIN_DIR" && pwd) && here=$(cd "$(dirname "$0")" && pwd) && root=$(cd "$here/../.." && pwd) || exit 1
long=${CHARL_TEST_LONG:-} short=${CHARL_TEST_SHORT:-} test_data=${CHARL_TEST_DATA:-}
unset CHARL_BIN_DIR CHARL_TEST_LONG CHARL_TEST_SHORT CHARL_TEST_DATA
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
T=$(mktemp -d "${TMPDIR:-/tmp}/charl-test-XXXXXX") || exit 1
trap 'cd /; rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
cd "$T" || exit 1
failures=0
checks=0

# skip WHY: the script ends here, visibly
skip() {
    echo "skipped: $*"
    exit 77
}

# skipped CASE WHY: visible in what the test prints and in the summary of tests/run.sh
skipped() {
    echo "skipped case: $1: $2"
}

# has_python MODULE...: Debian's interpreter can import them; needs_python: skip if it cannot
has_python() {
    /usr/bin/python3 -c "import $(echo "$@" | sed 's/ /, /g')" 2>/dev/null
}
needs_python() {
    has_python "$@" || skip "/usr/bin/python3 has not all of $*"
}

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# finish: the end of every script
finish() {
    echo "$checks checks, $failures failed"
    [ "$checks" -gt 0 ] && [ "$failures" -eq 0 ]
    exit
}

# expect CODE WHAT COMMAND...: COMMAND ends with CODE; its output is kept in $T/log.
expect() {
    _code=$1 _what=$2
    shift 2
    checks=$((checks + 1))
    "$@" >"$T/log" 2>&1
    _got=$?
    if [ "$_got" -ne "$_code" ]; then
        fail "$_what: exit code $_got, expected $_code"
        grep -A 20 'ERROR: AddressSanitizer' "$T/log" || tail -n 5 "$T/log"
        return 1
    fi
}

# says TIMES PATTERN: so many lines of the last log match.
says() {
    checks=$((checks + 1))
    _n=$(grep -c -E -- "$2" "$T/log")
    [ "$_n" -eq "$1" ] || { fail "$_n lines match '$2', expected $1"; tail -n 8 "$T/log"; }
}

# ranks N ARGUMENTS...: charl-train on N ranks; without a launcher for one.
ranks() {
    _n=$1
    shift
    if [ "$_n" -eq 1 ]; then
        timeout 1500 "$bin/charl-train" "$@"
    else
        timeout 1500 mpirun -q --oversubscribe --bind-to none -n "$_n" "$bin/charl-train" "$@"
    fi
}

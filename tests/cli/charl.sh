# Sourced by the test_charl_*.sh: they run $CHARL_BIN_DIR/charl, or the program that $charl names, and compare exit codes and messages.
set -u
kernels=$(cd "$(dirname "$0")/../../kernels" && pwd) || exit 1
bin=${CHARL_BIN_DIR:?names the folder of the programs}
unset CHARL_BIN_DIR CHARL_TEST_SHORT # the programs know no such variables
charl=$bin/charl
dir=$(mktemp -d "${TMPDIR:-/tmp}/charl-cli-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

# expect CODE TEXT ARGUMENT...: the exit code, and a line (a basic regular expression) in what was printed
expect() {
    want=$1
    text=$2
    shift 2
    "$charl" "$@" >out 2>err </dev/null
    code=$?
    if [ $code -ne "$want" ] || ! cat out err | grep -q -e "$text"; then
        echo "$(basename "$charl") $*: exit $code, want $want and \"$text\":"
        cat out err
        failed=1
    fi
    # a failure is an error on stderr, in the form of all programs
    if [ "$want" -gt 1 ] && ! grep -q "^$(basename "$charl"): error: " err; then
        echo "$(basename "$charl") $*: no error message"
        failed=1
    fi
}

# skipped CASE WHY: visible in what the test prints and in the summary of tests/run.sh
skipped() {
    echo "skipped case: $1: $2"
}

# hint TEXT: the last command gave this hint
hint() {
    if ! grep -q -e "^  hint: .*$1" err; then
        echo "no hint \"$1\" in:"
        cat err
        failed=1
    fi
}

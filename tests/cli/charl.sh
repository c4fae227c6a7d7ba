# Sourced by the test_charl_*.sh: they run $CHARL_BIN_DIR/charl, or the program that $charl names, and compare exit codes and messages.
. "$(dirname "$0")/../support/shell.sh"
kernels=$root/kernels
charl=$bin/charl
dir=$T

# expect CODE TEXT ARGUMENT...: the exit code, and a line (a basic regular expression) in what was printed
expect() {
    checks=$((checks + 1))
    want=$1
    text=$2
    shift 2
    "$charl" "$@" >out 2>err </dev/null
    code=$?
    if [ $code -ne "$want" ] || ! cat out err | grep -q -e "$text"; then
        echo "$(basename "$charl") $*: exit $code, want $want and \"$text\":"
        cat out err
        failures=$((failures + 1))
    fi
    # a failure is an error on stderr, in the form of all programs
    if [ "$want" -gt 1 ] && ! grep -q "^$(basename "$charl"): error: " err; then
        echo "$(basename "$charl") $*: no error message"
        failures=$((failures + 1))
    fi
}

# hint TEXT: the last command gave this hint
hint() {
    if ! grep -q -e "^  hint: .*$1" err; then
        echo "no hint \"$1\" in:"
        cat err
        failures=$((failures + 1))
    fi
}

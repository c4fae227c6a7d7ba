#!/bin/sh
# charl: help, version, commands that do not exist, output that cannot be written.
. "$(dirname "$0")/charl.sh"

expect 0 '^  charl data import ' --help
if grep '^  charl' out | grep -v '^  charl .\{40\}  [a-zA-Z]'; then
    echo "a command stands out of its column"
    failures=$((failures + 1))
fi
expect 0 '^  charl checkpoint diff ' -h
expect 0 '^charl [0-9]*\.[0-9]*\.[0-9]*$' --version
expect 0 '^charl [0-9]' version
expect 2 'charl: error: a command is missing: charl [.][.][.]$'
hint 'charl --help'
grep -q '^  \$ charl train ' out && grep -q '^  charl data import ' out || { echo "charl alone does not show the way"; failures=$((failures + 1)); }
expect 0 '^Usage: charl-train ' train --help
expect 2 'charl: error: unknown command: charl trian$' trian
hint 'did you mean `charl train`?'
expect 2 "unrecognized option '--verbos3=1'" tune --verbos3=1
hint 'did you mean --verbose? See `charl tune --help`'
expect 2 'separator xx: must be one character' predict a.h5 --separator=xx
hint 'see `charl predict --help`'
expect 2 'error: --input 3x: must be the extents of a sample' model show x.ini --input 3x
expect 2 'error: --tokens: 0 is out of range (at least 1)$' model show x.ini --tokens 0
expect 2 'error: --hash 12: must be 64 hexadecimal digits$' verify run --hash 12
expect 2 'error: --layout: "onnx" is not one of charl, huggingface, peft$' checkpoint export a.h5 -o b --layout onnx
expect 2 'unknown command: charl dat$' dat
hint 'did you mean `charl data`?'
expect 2 'unknown command: charl import' import
hint 'did you mean `charl data import`?'
expect 2 'unknown command: charl export' export
hint 'did you mean `charl checkpoint export`?'
expect 2 'unknown command: charl xylophone' xylophone
hint 'charl --help'
expect 2 'a command is missing: charl checkpoint [.][.][.]$' checkpoint
expect 0 'charl data verify' data --help
expect 2 'unknown command: charl data verfy' data verfy x
hint 'did you mean `charl data verify`'
expect 0 '^Usage: charl data import FORMAT' data import --help
if awk 'length > 79' out | grep .; then
    echo "charl data import --help: lines that wrap"
    failures=$((failures + 1))
fi
formats=$(sed -n 's/^  \([a-z0-9]*\) [A-Z].*/\1/p' out)
for command in $(printf 'data_import_%s ' $formats) 'data make' 'data info' 'data verify' 'checkpoint show' 'checkpoint verify' \
    'checkpoint diff' 'checkpoint average' 'checkpoint export' devices selftest tune eval predict generate; do
    command=$(echo "$command" | tr _ ' ')
    # shellcheck disable=SC2086
    expect 0 "^Usage: charl $command " $command --help
    if awk 'length > 79' out | grep . || grep '^[a-z]* *$' out | grep .; then
        echo "charl $command --help: lines that wrap"
        failures=$((failures + 1))
    fi
    # shellcheck disable=SC2086
    expect 2 "unrecognized option '--nonsense'" $command --nonsense
    hint "charl $command --help"
done

expect 2 'unknown command: charl tunee' tunee
hint 'did you mean `charl tune`'

if [ -w /dev/full ]; then
    "$charl" --help >/dev/full 2>err
    if [ $? -ne 8 ] || ! grep -q 'charl: error: standard output could not be written' err; then
        echo "a full standard output was not noticed"
        failures=$((failures + 1))
    fi
fi
CHARL_FAULT=nonsense expect 2 'must be followed by' --version
CHARL_FAULT=train.data.kil:1 expect 2 'there is no point train.data.kil$' --version
hint 'did you mean train.data.kill?'
CHARL_NONSENSE=1 expect 0 'charl: warning: .*CHARL_NONSENSE' --version
# the commands that hints about files of another kind name
grep -o '`charl [a-z]* *[a-z]* *[a-z0-9]*' "$kernels/../src/io/kind.c" | sed 's/`charl //;s/ *$//' | sort -u >commands
while read -r command; do
    # shellcheck disable=SC2086
    expect 0 '^Usage: ' $command --help
done <commands
finish

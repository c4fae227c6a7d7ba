#!/bin/sh
# What a start shows: name and configuration before anything is opened, devices, model and data before kernels are compiled, then
# how far that is. Compiling is pretended to be slow, so caches may be full.
. "$(dirname "$0")/common.sh"
slow() { env CHARL_FAULT=device.compile:*:2000 "$@"; }
quick() { env CHARL_FAULT=device.compile:*:0 "$@"; }

# order A B...: the first lines with A, B, ... stand in this order in the last log
order() {
    checks=$((checks + 1))
    _at=0
    for _text in "$@"; do
        _line=$(grep -n -E -m 1 -- "$_text" log | cut -d: -f1)
        [ "${_line:-0}" -gt "$_at" ] || { fail "'$_text' is in line ${_line:-none}, after line $_at"; cat log; return; }
        _at=$_line
    done
}

# A log
expect 0 "slow, plain" slow "$bin/charl-train" mlp.ini --fast-dev-run=2
order "^charl .* 1 rank" "^  config   mlp.ini" "^  devices" "^  model " "^  data " "Z compile kernels=[0-9]+(/[0-9]+)? s=[0-9.]+$" \
    "^  launches" "^  memory" "Z compiled kernels=[0-9]+ s=[0-9.]+$" " train step="
checks=$((checks + 1)) # one line before the first step, and the next not before some seconds; the kernels of the evaluation come after it
[ "$(sed '/ train step=/q' log | grep -c 'Z compile kernels=')" = 1 ] || { fail "lines of compiling before the first step"; cat log; }
says 1 "Z compiled kernels="
says 0 "$(printf '\033|\r')"
expect 0 "slow, 2 ranks" slow mpirun -q --oversubscribe --bind-to none -n 2 "$bin/charl-train" mlp.ini --dry-run
says 1 "Z compile kernels="
says 1 "^  config "
expect 0 "quick" quick "$bin/charl-train" mlp.ini --fast-dev-run=2
says 0 "compile"
expect 0 "in the log" slow "$bin/charl-train" mlp.ini -q -o kept train.max_steps=1 scheduler.warmup_steps=0
[ ! -s log ] || fail "--quiet prints something"
says 0 "."
checks=$((checks + 1))
grep -q "Z compiled kernels=" kept/train.log || fail "train.log does not say how long compiling took"

# What is shown of a log: whole words that fit 80 columns, a few lines of a kind in a second, and the last; the file has all of them, whole.
expect 0 "many steps" "$bin/charl-train" mlp.ini -o short train.epochs=20
checks=$((checks + 1))
if grep -E '^[^ ]*Z (train|val|checkpoint|done) ' log | awk 'length > 80' | grep .; then
    fail "lines of more than 80 columns"
fi
says 1 "Z train step=100/100 epoch=20.00 loss=[0-9.e-]+ eta=0:00:00( |$)"
says 1 "Z val step=100 loss=[0-9.e-]+ accuracy=[0-9.]+ best=(yes|no)( |$)"
# two a second, and the first and the last
most=$(sed -n 's/.* done .*wall_s=\([0-9]*\).*/\1/p' log)
most=$((2 * (${most:-0} + 1) + 2))
[ "$(grep -c 'Z train step=' log)" -le $most ] || fail "$(grep -c 'Z train step=' log) lines, at most $most expected"
[ "$(grep -c 'Z train step=.* eta=.* mem_gib=' short/train.log)" -eq 100 ] || fail "train.log has not all lines"
expect 0 "whole lines" "$bin/charl-train" mlp.ini -v -o whole train.epochs=2
says 10 "Z train step=.* mem_gib="

# What fails before kernels are compiled: the name and the configuration were shown before.
expect 3 "no data" "$bin/charl-train" mlp.ini data.path=none.h5
order "^charl " "^  config " "charl-train: error: "

# A bar on no terminal: lines that are rewritten
expect 0 "slow, bar" slow "$bin/charl-train" mlp.ini --fast-dev-run=2 --progress=bar --color=never
tr '\r' '\n' <log | sed 's/.\[K//' >lines && mv lines log
order "^charl " "^  data " "^  compiling kernels: [1-9][0-9]* of [0-9]+, [0-9]+ s, now [a-z]" "^  kernels  [0-9]+ compiled in" "^  launches" "^epoch 1/1"
says 0 "Z compile"
# A row is complete with the next one: its loss is the one that the bar shows.
expect 0 "two rows at once" "$bin/charl-train" mlp.ini --fast-dev-run=12 log.interval=10 --progress=bar --color=never
says 0 "loss 0\.0000"

# Commands say it on standard error, so that what they print can be used.
make_gpt
printf '[train]\nbatch_size = 8\nmax_steps = 1\n' >>gpt.ini
ranks 1 mlp.ini -q -o mlp train.max_steps=1 && ranks 1 gpt.ini -q -o gpt || fail "no checkpoints"
commands() {
    echo charl eval mlp.ini mlp/last.h5
    echo charl predict mlp/last.h5
    echo charl generate gpt.ini gpt/last.h5 -n 3 -p 1
    echo charl selftest -o linear
    echo charl tune -s 8x8x8
    echo charl-bench gemm -s 8x8x8 -r 1 -m 1
}
commands >list
while read -r program arguments; do
    name="$program ${arguments%% *}"
    checks=$((checks + 2))
    # shellcheck disable=SC2086
    CHARL_FAULT=device.compile:*:3000 "$bin/$program" $arguments >out 2>err </dev/null || { fail "$program $arguments"; cat err; }
    grep -q "^$program: compiling kernels: [1-9]" err && grep -q -E "^$program: compiled ([1-9][0-9]* )?kernels in" err ||
        { fail "$name does not say that it compiles"; cat err; }
    ! grep -q 'compil' out || { fail "$name says among its results that it compiles"; cat out; }
done <list

# On a terminal of 60 columns no line is longer, and what was shown while kernels were compiled is gone.
cat >on_terminal.py <<'PY'
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = sys.argv[1]
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
seen = b""
while True:
    try:
        more = os.read(fd, 65536)
    except OSError:
        break
    if not more:
        break
    seen += more
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
out = seen.decode(errors="replace").replace("\r\n", "\n")
sys.stdout.write(out)
rewritten = [line for line in out.replace("\033[K", "").split("\r") if "compiling kernels" in line]
sys.exit(code or (3 if any(len(line.split("\n")[-1]) > 59 for line in rewritten) else 0))
PY
for program in "charl-train mlp.ini --fast-dev-run=2" "charl eval mlp.ini mlp/last.h5" "charl generate gpt.ini gpt/last.h5 -n 3 -p 1"; do
    if ! has_python pty; then
        skipped "$program on a terminal" "no /usr/bin/python3"
        continue
    fi
    # shellcheck disable=SC2086
    expect 0 "$program on a terminal" slow /usr/bin/python3 on_terminal.py xterm "$bin/"$program
    checks=$((checks + 1))
    tr '\r' '\n' <log | grep -q 'compiling kernels: [0-9].*now' || fail "$program on a terminal shows no progress"
    # shellcheck disable=SC2086
    expect 0 "$program on a terminal that cannot rewrite" slow /usr/bin/python3 on_terminal.py dumb "$bin/"$program
    says 0 "$(printf '\033')"
done
finish

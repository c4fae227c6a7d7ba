#!/bin/sh
# charl doctor: every line says ok, warning or error, what is broken on purpose is found with a way to mend it, and the exit status tells.
# And what it and the log know of a GPU, from a stand-in for NVIDIA's library.
. "$(dirname "$0")/../train/common.sh"
doctor() { env "$@" "$bin/charl" doctor; }
mkdir own && chmod 700 own
export CHARL_CACHE_DIR="${CHARL_CACHE_DIR:-$T/own}"

expect 0 "a machine on which charl works" doctor OMPI_ALLOW_RUN_AS_ROOT=1
says 1 "^ok +device +0: .*compiles and runs kernels"
says 1 "^ok +cache +.* keeps compiled kernels"
says 1 "^(ok|warning) +shm +/dev/shm has"
says 1 "^[0-9]+ ok, [0-9]+ warnings?, 0 errors$"
for subject in icd device cache mpi shm cpu memory hdf5 disk; do
    checks=$((checks + 1))
    grep -q -E "^(ok|warning) +$subject " log || fail "no line about $subject"
done
checks=$((checks + 1))
[ -z "$(grep -v -E '^(ok|warning) +[a-z0-9]+ +[^ ]|^ {20}[^ ]|^$|^[0-9]+ ok, ' log)" ] || { fail "lines of another form"; cat log; }
says "$(grep -c '^ok ' log)" "^ok "

# Drivers
mkdir none bad
expect 1 "no ICD files" doctor OCL_ICD_VENDORS="$T/none"
says 1 "^error +icd +.*/none has no .icd file"
says 1 "^ +OCL_ICD_VENDORS is set"
says 1 "^error +device "
says 1 ", [1-9][0-9]* errors?$"
expect 1 "no such directory" doctor OCL_ICD_VENDORS="$T/nowhere"
says 1 "^error +icd +.*/nowhere: No such file"
expect 1 "a line end in a message" doctor OCL_ICD_VENDORS="$T/no
where"
says 1 "^error +icd +.*/no where: No such file"
echo libno-such-driver.so.1 >bad/other.icd
cp /etc/OpenCL/vendors/*.icd bad/ 2>/dev/null
expect 0 "one driver is missing" doctor OCL_ICD_VENDORS="$T/bad"
says 1 "^warning +icd +.*/other.icd: libno-such-driver.so.1: cannot open shared object file: No such file"
says 1 "^ok +device +0: "
expect 0 "arithmetic of its own" doctor CHARL_FAULT=device.arithmetic:1
says 1 "^warning +arithmetic +device 0 rounds f32 in a way of its own .divide."

# The cache
mkdir shared && chmod 777 shared
expect 0 "a cache that others can write" doctor CHARL_CACHE_DIR="$T/shared"
says 1 "^warning +cache +there is no directory for compiled kernels"
says 1 "set CHARL_CACHE_DIR to a directory of your own"
touch file
expect 0 "a cache that is a file" doctor CHARL_CACHE_DIR="$T/file/cache"
says 1 "^warning +cache "

# MPI
mkdir empty fake
expect 0 "no mpirun" doctor PATH="$T/empty"
says 1 "^warning +mpi +.* mpirun is not in PATH"
says 1 "openmpi-bin"
printf '#!/bin/sh\necho "mpirun (Open MPI) 1.2.3"\n' >fake/mpirun && chmod +x fake/mpirun
expect 0 "another mpirun" doctor PATH="$T/fake:$PATH"
says 1 "^warning +mpi +.*but mpirun is mpirun \(Open MPI\) 1.2.3"
if [ "$(id -u)" -eq 0 ]; then
    expect 0 "root" doctor -u OMPI_ALLOW_RUN_AS_ROOT
    says 1 "^warning +root "
else
    skipped "root" "this user is not root"
fi

# Limits, and a directory that cannot be written
(ulimit -n 500 && expect 0 "few files" doctor && says 1 "^warning +limits +open files: 500" && finish) >inner || { fail "few files"; cat inner; }
(ulimit -n 100 && expect 1 "too few files" doctor && says 1 "^error +limits +open files: 100" && finish) >inner || { fail "too few files"; cat inner; }
checks=$((checks + 2))

# 80 columns of a terminal: nothing is longer
cat >on_terminal.py <<'PY'
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execv(sys.argv[1], [sys.argv[1], "doctor"])
seen = b""
while True:
    try:
        more = os.read(fd, 65536)
    except OSError:
        break
    if not more:
        break
    seen += more
lines = seen.decode().replace("\r", "").split("\n")
assert len(lines) > 10 and max(map(len, lines)) <= 80, [line for line in lines if len(line) > 80]
PY
checks=$((checks + 1))
OCL_ICD_VENDORS="$T/bad" /usr/bin/python3 on_terminal.py "$bin/charl" || fail "at 80 columns"

# A GPU, by the stand-in
mkdir lib
cp "$bin/../../tests/cli/libfake_nvml.so" lib/libnvidia-ml.so.1 || fail "there is no stand-in for NVML"
with_gpu() { env LD_LIBRARY_PATH="$T/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" CHARL_FAULT='device.health:*' "$@"; }
expect 0 "a GPU" with_gpu "$bin/charl" doctor
says 1 "^ok +gpu +device 0: 512 of 700 W, 61 C, 1755 of 1980 MHz, 5 NVLinks active"
expect 0 "a hot GPU" with_gpu env FAKE_SLOW=1 "$bin/charl" doctor
says 1 "^warning +gpu +device 0: .*slowed down"
expect 0 "training" with_gpu "$bin/charl-train" mlp.ini -v -o hot train.max_steps=3
says 3 " train step=.* power_w=512 temperature_c=61 "
checks=$((checks + 2))
[ "$(grep -c '"power_w":512.345,"temperature_c":61,' hot/metrics.jsonl)" -eq 3 ] || { fail "metrics.jsonl"; cat hot/metrics.jsonl; }
expect 0 "a plan" with_gpu "$bin/charl-train" mlp.ini --dry-run
says 1 "^  memory .* of it activations; with the driver and other programs 3.0 GiB$"
expect 0 "without one" "$bin/charl-train" mlp.ini -o cold train.max_steps=3
says 0 "power_w|other programs"
! grep -q power_w cold/metrics.jsonl || fail "power of no GPU"
same "the power is only looked at" hot cold

# Energy, which is measured, or estimated where the configuration says how; the cost of both. Ranks that share a GPU count it once.
says 0 "energy|cost"
checks=$((checks + 4))
[ "$(tail -n 2 hot/metrics.jsonl | grep -c '"energy_j":3600,')" -ge 1 ] || { fail "energy in metrics.jsonl"; cat hot/metrics.jsonl; }
grep -q ' done step=3 .* energy_kwh=0.001$' hot/train.log || { fail "energy in train.log"; cat hot/train.log; }
if command -v mpirun >/dev/null; then
    expect 0 "two ranks on one GPU" with_gpu mpirun -q --oversubscribe --bind-to none -n 2 "$bin/charl-train" mlp.ini -o shared_gpu train.max_steps=3 \
        device.share=yes run.price=36
    says 1 " start step=0/3 ranks=2 devices=1$"
    says 1 " done (.* )?energy_kwh=0.001( |$)"
    says 1 " done (.* )?cost=0\.[0-9]+$"
fi
expect 0 "an estimate" "$bin/charl-train" mlp.ini -o estimate train.max_steps=3 run.power=3.6e6 run.price=3600
sed -n 's/.* done .* wall_s=\([0-9.]*\) .* estimated_energy_kwh=\([0-9.]*\) cost=\([0-9.]*\)$/\1 \2 \3/p' estimate/train.log >have
awk '{ n++; if ($2 < $1 - 0.06 || $2 > $1 + 0.06 || $2 != $3) n = 9 } END { exit n != 1 }' have || { fail "an estimate: 1 kWh and 1 a second"; cat estimate/train.log; }
expect 0 "rates" "$bin/charl-train" mlp.ini --dry-run run.power=700 run.price=2.5
says 1 "^  an hour  about 0.7 kWh, 2.5 by run.price$"
"$bin/charl" report hot estimate -o page.html >/dev/null
grep -q '"energy_kwh":0.001,"energy_measured":true,"cost":null' page.html && grep -q '"energy_measured":false,"cost":[0-9.]' page.html ||
    fail "energy in the report"
finish

#!/bin/sh
# Stopping on purpose, going on, and what may lie in the way: requests by file and signal, damaged checkpoints, other
# settings, a directory in use, a disk that fails.
. "$(dirname "$0")/common.sh"
# A run that does not end by itself, with checkpoints only where it is asked for them.
sed -e 's/^epochs = 2/epochs = 1000000/' -e 's/^type = cosine/type = constant/' -e 's/^interval = 1ep$/interval = 0/' mlp.ini >long.ini
printf '[eval]\ninterval = 0\n' >>long.ini

# begin N ARGUMENTS...: long.ini in the background, until it trains; $job
begin() {
    _n=$1
    shift
    rm -rf run
    if [ "$_n" -eq 1 ]; then
        "$bin/charl-train" long.ini "$@" >"$T/job" 2>&1 &
    else
        mpirun -q --oversubscribe --bind-to none -n "$_n" "$bin/charl-train" long.ini "$@" >"$T/job" 2>&1 &
    fi
    job=$!
    wait_for run/metrics.jsonl
}
wait_for() {
    for _i in $(seq 3000); do
        [ -s "$1" ] && return
        sleep 0.1
    done
    fail "$1 did not appear"
}
# ended CODE WHAT: the background run ends with CODE
ended() {
    checks=$((checks + 1))
    wait "$job"
    _got=$?
    [ "$_got" -eq "$1" ] || { fail "$2: exit code $_got, expected $1"; tail -n 5 "$T/job"; }
}
saved() { # a checkpoint that verifies
    checks=$((checks + 1))
    "$bin/charl" checkpoint verify run/last.h5 >/dev/null 2>&1 || fail "$1: no whole checkpoint"
}
rank_pids() {
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/cwd" 2>/dev/null)" = "$T" ] && [ "$(cat "$p/comm" 2>/dev/null)" = charl-train ] && echo "${p#/proc/}"
    done
}

begin 2
touch run/CHECKPOINT
wait_for run/last.h5
[ -e run/CHECKPOINT ] && fail "CHECKPOINT was not taken"
kill -0 "$job" || fail "CHECKPOINT stopped the run"
touch run/STOP
ended 75 "STOP"
saved STOP
checks=$((checks + 1))
grep -q " stopped step=" "$T/job" || fail "STOP: no word of it"
[ -e run/STOP ] && fail "STOP was not taken"

for sig in USR1 TERM INT; do
    begin 2
    kill -$sig $(rank_pids | tail -n 1)
    ended 75 "SIG$sig to one rank of two"
    saved "SIG$sig"
done
begin 2
kill -USR2 "$job"
ended 75 "SIGUSR2 to mpirun"
saved "SIGUSR2 to mpirun"

# A request that is delivered twice is one request.
for gap in 0 0.001 0.01 0.3; do
    begin 1
    kill -TERM "$job"
    [ $gap = 0 ] || sleep $gap
    kill -TERM "$job"
    ended 75 "SIGTERM twice, $gap s apart"
    saved "SIGTERM twice, $gap s apart"
done
begin 1
kill -STOP "$job" && kill -INT "$job" && kill -TERM "$job" && kill -HUP "$job" && kill -CONT "$job"
ended 75 "three signals that were pending"
saved "three signals that were pending"
begin 2
pids=$(rank_pids)
kill -TERM $pids && kill -TERM $pids "$job" # a wrapper forwards what its group got too
ended 1 "SIGTERM to both ranks twice and to mpirun"
saved "SIGTERM to both ranks twice and to mpirun"

# While kernels are compiled there is nothing to save: the process ends at once.
rm -rf run
CHARL_CACHE_DIR=$T/cold POCL_CACHE_DIR=$T/cold_pocl "$bin/charl-train" long.ini >"$T/job" 2>&1 &
job=$!
wait_for "$T/cold"
kill -TERM "$job"
ended 75 "SIGTERM before the first step"
checks=$((checks + 1))
grep -q "stopped before the first step" "$T/job" || fail "SIGTERM before the first step: no word of it"

# A second request ends the process where it stands, here in a save that hangs; the checkpoint before it stands.
begin 1
touch run/STOP
ended 75 "STOP before a save that hangs"
rm run/metrics.jsonl
CHARL_FAULT=train.write.hang:1 "$bin/charl-train" long.ini >"$T/job" 2>&1 &
job=$!
wait_for run/metrics.jsonl
kill -TERM "$job"
sleep 1.5
checks=$((checks + 1))
kill -0 "$job" || fail "a save that hangs ended by itself"
kill -USR1 "$job"
kill -TERM "$job"
ended 143 "a second SIGTERM"
saved "a second SIGTERM"
grep -q "stopped at once; the last checkpoint is complete" "$T/job" || fail "a second SIGTERM: no word of it"

# SIGQUIT acts at once, the first time. A shell has it ignored in the background.
rm -rf run
(ulimit -c 0 && exec env --default-signal=QUIT "$bin/charl-train" long.ini >"$T/job" 2>&1) &
job=$!
wait_for run/metrics.jsonl
kill -QUIT "$job"
ended 131 "SIGQUIT"
rm -rf run job

# To a SIGTERM of its own mpirun gives the ranks two seconds, and says 1 whatever they say.
begin 2
kill -TERM "$job"
ended 1 "SIGTERM to mpirun"
saved "SIGTERM to mpirun"
# Stopped and continued is not asked to stop.
begin 2
kill -TSTP "$job"
sleep 1.5
kill -CONT "$job"
sleep 1
checks=$((checks + 1))
kill -0 "$job" || fail "SIGCONT after SIGTSTP stopped the run"
touch run/STOP
ended 75 "STOP after SIGCONT"
# Where nothing is written nothing can be continued.
rm -rf run job # or the words of the run before would be taken for this one's
"$bin/charl-train" long.ini --overfit-batch >"$T/job" 2>&1 &
job=$!
for _i in $(seq 3000); do grep -qs " train step=" "$T/job" && break; sleep 0.1; done
kill -INT "$job"
ended 130 "SIGINT with --overfit-batch"

rm -rf run
expect 75 "--max-time" ranks 2 long.ini --max-time 2s
saved "--max-time"
# Each start makes a step, however long it takes to come there.
rm -rf run
CHARL_FAULT=train.setup.hang:1:2 expect 75 "a time that the start takes" ranks 1 long.ini -q --max-time 1s
CHARL_FAULT=train.setup.hang:1:2 expect 75 "the next start" ranks 1 long.ini -q --max-time 1s
checks=$((checks + 1))
[ "$(tail -n 1 run/train.log | grep -c ' stopped step=[2-9]')" -eq 1 ] || { fail "a short time makes no step"; tail -n 2 run/train.log; }
# What earlier starts have taken counts.
CHARL_FAULT=train.data.hang:3:3600 expect 75 "a time that is over" ranks 1 long.ini -q --max-time 1h --spent 7200

# resume
expect 0 "a run" ranks 1 mlp.ini -q -o a
expect 0 "auto" ranks 1 mlp.ini -o a
says 1 "nothing left to do"
says 0 "warning"
expect 2 "never" ranks 3 mlp.ini -o a --resume=never
says 1 "run.resume = never, but .* holds a run at step 10"
expect 5 "must" ranks 1 mlp.ini -o none --resume=must
expect 0 "another run's checkpoint" ranks 2 mlp.ini -o b --resume=a/checkpoints/step-00000005.h5
says 1 "resumed .*step-00000005.h5 .step 5"
checks=$((checks + 1))
"$bin/charl" checkpoint diff a/last.h5 b/last.h5 | grep -v -E '^(config/|all tensors)' | grep . && fail "from another run's checkpoint: differs"
expect 5 "a checkpoint that is not there" ranks 2 mlp.ini -o b --resume=nothing.h5
says 1 "error: .*nothing.h5"
# Once: the same command continues its own run. --overwrite says that it is meant.
expect 0 "the same command" ranks 2 mlp.ini -o b --resume=a/checkpoints/step-00000005.h5 train.epochs=3
says 1 "warning: b has gone back to a/checkpoints/step-00000005.h5 before and continues from its own step 10; .* add --overwrite"
says 1 "resumed .*b/checkpoints/step-00000010.h5"
expect 0 "back once more" ranks 1 mlp.ini -o b --resume=a/checkpoints/step-00000005.h5 --overwrite
says 1 "resumed .*a/checkpoints/step-00000005.h5"
cp a/checkpoints/step-00000005.h5 other.h5
expect 0 "back to another one" ranks 1 mlp.ini -o b --resume=other.h5
says 1 "resumed .*other.h5"
# A start that dies before its first checkpoint has done nothing: not even later checkpoints, of another history, are its own.
rm -rf back
cp -r a back
CHARL_FAULT=train.data.exit:2:3 expect 3 "back, and lost" ranks 1 mlp.ini -o back --resume=other.h5
expect 0 "back again" ranks 1 mlp.ini -o back --resume=other.h5
says 1 "resumed .*other.h5"
# A job does so at the first of its starts, and Slurm's at the first one that it does not requeue.
# starts CODE WHAT PATTERN VARIABLE... ARGUMENTS: the third step is the last of each start
starts() {
    _c=$1 _w=$2 _p=$3
    shift 3
    expect "$_c" "$_w" env CHARL_FAULT=train.stop:4 "$@" -o jobs
    says 1 "$_p"
}
set -- "$bin/charl-train" mlp.ini
starts 75 "a first start" "start step=0/10" "$@" --overwrite --job=one
starts 75 "a second start" "start step=3/10" "$@" --overwrite --job=one
starts 75 "another job" "start step=0/10" "$@" --overwrite --job=two
starts 75 "its second start, with a word that would refuse" "start step=3/10" "$@" --resume=never --job=two
starts 2 "the same from elsewhere" "run.resume = never, but " "$@" --resume=never --job=three
starts 75 "a job of Slurm" "start step=0/10" SLURM_JOB_ID=7 "$@" --overwrite
starts 75 "the same typed again in its allocation" "start step=0/10" SLURM_JOB_ID=7 "$@" --overwrite
starts 75 "queued again" "start step=3/10" SLURM_JOB_ID=7 SLURM_RESTART_COUNT=1 "$@" --overwrite
starts 75 "another job of Slurm, queued again before its first checkpoint" "start step=0/10" SLURM_JOB_ID=8 SLURM_RESTART_COUNT=1 "$@" --overwrite
starts 75 "by hand, in a job's directory" "start step=0/10" "$@" --overwrite
expect 2 "a job without a name" ranks 1 mlp.ini -o jobs --job=
expect 0 "weights only" ranks 1 mlp.ini -o c --init-from a/last.h5
says 1 "start step=0/10"
checks=$((checks + 1))
l1=$(sed -n 2p a/metrics.csv | cut -d, -f4)
l2=$(sed -n 2p c/metrics.csv | cut -d, -f4)
awk "BEGIN { exit !($l2 < $l1) }" || fail "--init-from did not begin with trained weights: $l2, $l1"
expect 5 "weights of another model" ranks 2 mlp.ini -o d --init-from a/last.h5 model.hidden=8
says 1 "misshapen: fc1.weight is \[24, 784\] in the file, \[8, 784\] in the model"
expect 0 "overwrite" ranks 1 mlp.ini -o c --overwrite
same "overwrite" a c

# Another batch or another model is another run.
expect 5 "another batch" ranks 2 mlp.ini -o a train.batch_size=32 train.epochs=3
says 1 "train.batch_size = 64 .* now 32"
expect 5 "another model" ranks 2 mlp.ini -o a model.hidden=24,8 train.epochs=3
says 1 "belongs to another model"
expect 0 "another rate" ranks 2 mlp.ini -o c optimizer.learning_rate=1e-3 train.epochs=3
says 1 "changed since [^ ]*: \[train\] epochs = 3 \(was 2\), \[optimizer\] learning_rate = 0.001 \(was 0.003\)$"

# Damage: the checkpoint before is taken, with a warning; without any the run begins again.
damage() { # the last bytes of the tensors, and a bit in the middle
    _size=$(wc -c <"$1")
    printf '\377\377\377\377' | dd of="$1" bs=1 seek=$((_size / 2)) conv=notrunc 2>/dev/null
}
cp -r a e
damage e/checkpoints/step-00000010.h5
expect 0 "a damaged checkpoint" ranks 3 mlp.ini -o e
says 1 "warning: .*step-00000010.h5"
says 1 "start step=5/10"
same "after a damaged checkpoint" a e
cp -r a f
: >f/checkpoints/step-00000010.h5
head -c 3000 a/checkpoints/step-00000005.h5 >f/checkpoints/step-00000005.h5
expect 0 "only damaged checkpoints" ranks 1 mlp.ini -o f
says 2 "warning: .*step-000000(05|10).h5"
says 1 "start step=0/10"
same "after only damaged checkpoints" a f
expect 5 "only damaged checkpoints, must" ranks 2 mlp.ini -o f2 --resume=must

# best.h5 survives a resume: validation gets worse with a rate that is far too high.
expect 0 "best" ranks 1 mlp.ini -q -o g
best=$(readlink g/best.h5)
expect 0 "worse" ranks 1 mlp.ini -o g optimizer.learning_rate=3 train.epochs=8
checks=$((checks + 1))
[ "$(readlink g/best.h5)" = "$best" ] && [ -s g/best.h5 ] || fail "best.h5: was $best, is $(readlink g/best.h5)"

# The directory is in use.
begin 1
CHARL_FAULT=train.patience:*:100 expect 8 "a directory in use" ranks 2 mlp.ini
says 1 "warning: .*in use by another job: process $job on .*; waiting up to 0.1 s for it to end"
says 1 "error: .*in use by another job: process $job on "
# One who is going is waited for.
(CHARL_FAULT=train.patience:*:600000 "$bin/charl-train" long.ini --max-time 1s >next 2>&1; echo $? >next.code) &
while ! grep -q "waiting up to 600 s" next && [ ! -e next.code ]; do sleep 0.1; done
touch run/STOP
ended 75 "the one who holds it"
wait_for next.code
cp next log
checks=$((checks + 1))
[ "$(cat next.code)" -eq 75 ] || { fail "after the one who holds it: exit code $(cat next.code), not 75"; tail -n 5 next; }
says 1 "resumed "

# A disk that fails once is a warning; the training ends as if nothing had been.
fault() {
    export CHARL_FAULT="$1"
    shift
    expect "$@"
    unset CHARL_FAULT
}
# Seven files are written before the first checkpoint: two probes, run.lock, metrics.jsonl, metrics.csv, config.ini and env.json; then run.lock again.
fault "io.fsync@0:10:5" 0 "one failed save" ranks 2 mlp.ini -o h checkpoint.interval=1
says 1 "warning: no checkpoint at step .*training continues"
same "one failed save" a h
fault "io.fsync@0:10+:5" 8 "a disk that is gone" ranks 2 mlp.ini -o i checkpoint.interval=1
says 2 "warning: no checkpoint at step"
says 1 "charl-train: error: "
fault "io.write@0:*:28" 8 "a full disk" ranks 1 mlp.ini -o j checkpoint.interval=0
says 1 "charl-train: error: "
# Rows of the metrics files that cannot be written are left out, whole, and cost nothing else.
fault "io.log@0:*:28" 0 "no room for metrics" ranks 2 mlp.ini -o rows log.formats=jsonl,csv
says 1 "warning: cannot write rows/metrics.jsonl: No space left on device; rows are left out"
fault "io.log@0:4:28,io.log@0:6:28,io.log@0:8:28,io.log@0:10:28" 0 "no room for four rows" ranks 2 mlp.ini -o row log.formats=csv
says 3 "warning: cannot write row/metrics.csv" # the first time, the second and the fourth
for run in rows row; do
    checks=$((checks + 1))
    "$bin/charl" checkpoint diff a/last.h5 $run/last.h5 | grep -qvE '^(config/|all tensors)' && fail "$run: other weights without some rows"
done
losses a >whole.csv
losses row >part.csv
checks=$((checks + 1))
[ "$(grep -vcxFf part.csv whole.csv)" -eq 4 ] && [ "$(grep -vcxFf whole.csv part.csv)" -eq 0 ] ||
    fail "not four rows are left out: $(diff whole.csv part.csv)"
# A rank that fails while its save is under way leaves when the checkpoint is complete.
fault "io.slow:*:40,train.backward.fail@0:6" 4 "a failure during a save" ranks 2 mlp.ini -o slow checkpoint.interval=5
says 1 "step 6, .*the device fails on purpose"
[ -f slow/checkpoints/step-00000005.h5 ] || fail "the checkpoint that was under way is lost"

# The run directory of a job is moved away while it runs: nothing is written to what another job may put there.
CHARL_FAULT=train.backward.stop:3 "$bin/charl-train" mlp.ini -q -o moved >moved.log 2>&1 &
pid=$!
while kill -0 $pid 2>/dev/null && ! grep -q '^State:.T' /proc/$pid/status; do
    sleep 0.1
done
mv moved moved.away
mkdir moved
kill -CONT $pid
wait $pid
moved=$?
expect 8 "a run directory that was replaced" sh -c "cat moved.log; exit $moved"
says 1 "charl-train: error: .*moved: the run directory was removed or replaced while this job writes to it"
expect 0 "nothing in its place" rmdir moved

# A rank that is stopped while it writes a checkpoint is given up when nothing moves; a slow disk is waited for.
fault "train.write.stop@0:1" 7 "a rank stopped in a save" ranks 2 mlp.ini -q -o w checkpoint.timeout=2
says 1 "charl-train: error: .*no progress for .*, waiting for rank 0 .*: stopped by a signal, last seen in step [0-9]*, writing the checkpoint"
fault "io.slow@0:*:100" 0 "a slow disk" ranks 2 mlp.ini -q -o x checkpoint.timeout=2 checkpoint.interval=0

# Loss that is not finite ends the run before the weights change.
expect 6 "a rate beyond all reason" ranks 3 mlp.ini -o l optimizer.learning_rate=1e30 scheduler.type=constant checkpoint.interval=1
says 1 "charl-train: error: step 2: the loss and the gradient of [a-z0-9.]* are not finite; the weights are those before this step"
finish

#!/bin/sh
# charl launch: a lost rank costs nothing, and the bits are those of an undisturbed run; a host that is gone is left out; mistakes and stops are
# not started again. launch/run-local.sh.
here=$(cd "$(dirname "$0")" && pwd)
launch=$(cd "$here/../../launch" && pwd)
. "$here/../train/common.sh"
PATH=$bin:$PATH
set -- mlp.ini -q checkpoint.interval=2 train.max_steps=8
expect 0 "the undisturbed run" ranks 1 "$@" -o whole checkpoint.keep_last=4

# Dies in its sixth step; the second start has four steps left and does not come to it. Only the first one overwrites what was there.
expect 0 "another run" ranks 1 "$@" -o killed run.seed=9
CHARL_FAULT=train.backward.kill@1:6 expect 0 "a rank is killed" timeout 1500 charl launch -n 2 "$@" -o killed --overwrite
says 1 "^charl: warning: exit status 137: starting again [(]1 of 3[)]"
same "a rank was killed" whole killed
CHARL_FAULT=train.backward.kill@1:4 expect 0 "back to a checkpoint, and killed" timeout 1500 charl launch -n 2 "$@" -o back run.resume=whole/checkpoints/step-00000004.h5
says 1 "starting again"
says 0 "has gone back"
checks=$((checks + 1))
charl checkpoint diff whole/last.h5 back/last.h5 | grep -v -E '^(config/|all tensors)' | grep . && fail "back to a checkpoint, and killed: differs"
CHARL_FAULT=train.backward.kill@1:1 expect 137 "killed again and again" timeout 1500 charl launch -n 2 --rest 1 "$@" -o again
says 1 "starting again"
says 1 "^charl: error: exit status 137; it was started again 1 time"

# What another start does not mend.
expect 2 "no configuration" charl launch -n 2 nothing.ini
says 0 "starting again"
expect 2 "nothing" charl launch
says 1 "CONFIG is missing"
expect 2 "more ranks than a batch has slices at most" charl launch -n 4097 "$@"
says 1 "ranks: 4097 is out of range \(1 to 4096\)"
expect 2 "an option of charl-train before CONFIG" charl launch --dry-run "$@"
expect 0 "the same behind it" charl launch mlp.ini --dry-run -np 2 --restarts=0 -o dry
says 1 "^charl .* 2 ranks on 1 node"
expect 0 "its own -n" charl launch mlp.ini -n2 --ranks 1 -n -o dry
says 1 "^charl .* 1 rank on 1 node"
[ ! -e dry ] || fail "-n without a number is not --dry-run"
expect 2 "a number of ranks that is none" charl launch -np two "$@"
says 1 'ranks: "two" is not an integer'
expect 6 "a loss that is not finite" timeout 1500 env CHARL_FAULT=train.device.nan@0:3 charl launch -n 2 "$@" -o nan
says 0 "starting again"
expect 9 "an audit finds something" timeout 1500 env CHARL_FAULT=train.device.flip_gradient@1:3 charl launch -n 2 "$@" -o audited dist.audit=3
says 0 "starting again"
says 1 "^charl: error: not started again: an audit has found a device"

# A stop is passed on: a checkpoint and 75; the same command continues. A HUP that is ignored, as under nohup, stops nothing.
(trap '' HUP; exec env CHARL_FAULT='train.data.hang:4:2' charl launch -n 2 "$@" -o stopped >log 2>&1) &
pid=$!
while kill -0 $pid 2>/dev/null && ! grep -qs '"step":3' stopped/metrics.jsonl; do
    sleep 0.05
done
kill -HUP $pid
kill -TERM $pid
wait $pid
code=$?
checks=$((checks + 1))
[ $code -eq 75 ] || { fail "SIGTERM: exit code $code, not 75"; cat log; }
expect 0 "after the stop" timeout 1500 charl launch -n 1 "$@" -o stopped
same "after the stop" whole stopped

# A supervisor that is killed leaves nothing behind, and the same command continues; what still ends is no death of this job.
charl launch -n 2 "$@" -o orphans train.max_steps=1000000 train.epochs=1000000 checkpoint.interval=1000000 >log 2>&1 &
pid=$!
for _i in $(seq 600); do
    grep -qs '"step":3' orphans/metrics.jsonl && break
    sleep 0.05
done
kill -KILL $pid
wait $pid
CHARL_FAULT=train.patience:*:600000 expect 75 "after a supervisor that was killed" timeout 1500 charl launch -n 2 "$@" -o orphans \
    train.max_steps=1000000 train.epochs=1000000 run.max_time=1s
says 0 "starting again"
flock -F -x orphans sleep 1000 &
holder=$!
while flock -n orphans true; do sleep 0.05; done
CHARL_FAULT=train.patience:*:1 expect 8 "another job has the directory" charl launch -n 2 "$@" -o orphans
says 1 "^charl-train: error: .*orphans: is in use by another job"
says 0 "starting again"
kill $holder

# term PID FILE: SIGTERM once FILE is there; $code is the exit code.
term() {
    while kill -0 "$1" && [ ! -e "$2" ]; do
        sleep 0.05
    done
    kill -TERM "$1"
    touch told
    wait "$1"
    code=$?
    checks=$((checks + 1))
}

# Also while the hosts are contacted, before there is anybody to pass it on to.
printf '#!/bin/sh\ntouch asked\nwhile [ ! -e told ]; do sleep 0.05; done\n' >slow-ssh
printf '#!/bin/sh\ntouch started\n' >no-mpirun
chmod +x slow-ssh no-mpirun
printf 'localhost slots=2\nother slots=2\n' >hosts
charl launch --ssh=./slow-ssh --mpirun=./no-mpirun -f hosts "$@" -o early >log 2>&1 &
term $! asked
[ $code -eq 75 ] && [ ! -e started ] || { fail "SIGTERM while hosts are contacted: exit code $code, not 75"; cat log; }

# Nor is it lost with an mpirun that is not ready to pass it on.
cat >deaf-mpirun <<'SH'
#!/bin/sh
trap 'trap "exit 75" USR2' USR2
touch started
for _i in $(seq 300); do sleep 0.1; done
SH
chmod +x deaf-mpirun
charl launch -n 2 --mpirun=./deaf-mpirun "$@" -o early >log 2>&1 &
term $! started
[ $code -eq 75 ] || { fail "SIGTERM that mpirun loses: exit code $code, not 75"; cat log; }

# Hosts: one answers, one does not. The ssh of this test is told which.
printf '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift 2; done\n[ "$1" != gone ]\n' >fake-ssh
chmod +x fake-ssh
printf '# two hosts\nlocalhost:2 # here\n\ngone slots=2\n' >hosts
expect 0 "a host is gone" timeout 1500 charl launch --ssh=./fake-ssh -f hosts "$@" -o hosts_run
says 1 "warning: gone does not answer ./fake-ssh and is left out"
same "a host is gone" whole hosts_run
grep -q '"ranks":2' hosts_run/metrics.jsonl hosts_run/env.json || grep -q "ranks=2" hosts_run/train.log || fail "the host that is left has two ranks"
expect 7 "too few ranks are left" charl launch --ssh=./fake-ssh -f hosts --min-ranks=3 "$@" -o few
says 1 "2 ranks can be started, at least 3 are wanted"
says 1 "hint: bring hosts back"

# Of two names of this machine the second has the rank that errs; mpirun does not get the two as the list of its hosts.
cat >fake-mpirun <<'SH'
#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
    arg=$1
    shift
    n=$((n - 1))
    if [ "$arg" = --hostfile ]; then
        shift
        n=$((n - 1))
        arg=--oversubscribe
    fi
    set -- "$@" "$arg"
done
exec mpirun "$@"
SH
chmod +x fake-mpirun
printf 'localhost slots=2\n%s slots=2\n' "$(hostname)" >hosts
CHARL_FAULT=train.device.flip_gradient@2:3+:800 expect 0 "an audit names a host" timeout 1500 charl launch --mpirun=./fake-mpirun \
    --ssh=./fake-ssh -f hosts "$@" -o redone dist.audit=2
says 1 "warning: $(hostname) is left out: an audit has found that one of its devices computes wrong values"
says 1 "starting again [(]1 of 3[)]"
same "an audit names a host" whole redone
printf 'other slots=2\nlocalhost slots=2\n' >hosts
CHARL_FAULT=train.device.flip_gradient@2:3+:800 expect 0 "an audit names this machine" timeout 1500 charl launch --mpirun=./fake-mpirun \
    --ssh=./fake-ssh -f hosts "$@" -o here dist.audit=2 train.max_steps=4
says 1 "warning: localhost is left out"
printf 'localhost slots=two\n' >hosts
expect 2 "a hostfile with a mistake" charl launch -f hosts "$@"
says 1 "^charl: error: hosts:1: "
printf 'localhost:two\n' >hosts
expect 2 "a number of ranks with a mistake" charl launch -f hosts "$@"
says 1 "^charl: error: hosts:1: .localhost:two.: a line is HOST slots=RANKS, or HOST:RANKS"
printf 'localhost slots=9223372036854775807\nlocalhost slots=2\n' >hosts
expect 2 "slots that cannot be added up" charl launch -f hosts "$@"
says 1 "^charl: error: hosts:1: "
printf 'localhost %01500d slots=2\n' 0 | tr 0 ' ' >hosts # the rest of a line is no host
expect 2 "a line that is too long" charl launch -f hosts "$@"
says 1 "^charl: error: hosts:1: "
expect 2 "a directory as a hostfile" charl launch -f . "$@"
says 1 "^charl: error: [.]: Is a directory"
printf 'localhost slots=2\nlocalhost slots=2\n' >hosts # which Open MPI refuses
expect 1 "mpirun starts nothing" charl launch --restarts=1 -f hosts "$@" -o none
says 1 "multiple definitions"
expect 2 "no hostfile" charl launch -f none "$@"
sed -e '/^gpu08/d' -e 's/^gpu07/localhost/' "$launch/hostfile.example" >hosts
expect 0 "the example of a hostfile" timeout 1500 charl launch -n 2 -f hosts "$@" -o example
same "the example of a hostfile" whole example

for n in 1 2; do
    expect 0 "run-local.sh $n" timeout 1500 "$launch/run-local.sh" $n "$@" -o local$n
    same "run-local.sh $n" whole local$n
done
# Launchers that start nothing and return 0 or, as srun of Slurm 23.11, 1. What has been done is no success, and is tried again.
mkdir fake
cat >fake/srun <<'SH'
#!/bin/sh
[ -z "${FAKE_STATUS:-}" ] || { echo "srun: error: task 0 launch failed: Unspecified error"; exit "$FAKE_STATUS"; }
while [ "$1" != charl-train ]; do
    shift
done
exec "$@"
SH
printf '#!/bin/sh\necho "scontrol $*"\n' >fake/scontrol
chmod +x fake/srun fake/scontrol
cp fake/srun fake/mpirun
cp fake/srun fake-launcher
printf '%s\n' "$* -o array_job" "nothing.ini" >configs.txt
for script in slurm-srun slurm-mpirun slurm-array; do
    good="$* -o $script"
    bad=nothing.ini
    [ $script != slurm-array ] || good=configs.txt bad=configs.txt
    # submit CODE WHAT VARIABLE... ARGUMENTS: $good or $bad
    submit() {
        _c=$1 _w=$2
        shift 2
        expect "$_c" "$script: $_w" env PATH="$T/fake:$PATH" SLURM_JOB_ID=5 SLURM_ARRAY_TASK_ID=1 "$@"
    }
    submit 7 "a launcher that starts nothing and returns 0" FAKE_STATUS=0 bash "$launch/$script.sbatch" $good
    says 1 "^scontrol requeue 5"
    submit 7 "the same after three starts" FAKE_STATUS=0 SLURM_RESTART_COUNT=3 bash "$launch/$script.sbatch" $good
    says 0 "^scontrol"
    submit 165 "a launcher that fails" FAKE_STATUS=165 bash "$launch/$script.sbatch" $good
    says 1 "^scontrol requeue 5"
    if [ $script = slurm-mpirun ]; then
        submit 1 "an allocation that is too small" FAKE_STATUS=1 bash "$launch/$script.sbatch" $good
        says 0 "^scontrol"
    else
        submit 7 "a launcher that starts nothing and returns 1" FAKE_STATUS=1 bash "$launch/$script.sbatch" $good
        says 1 "^scontrol requeue 5"
    fi
    submit 0 "a training" bash "$launch/$script.sbatch" $good
    says 0 "^scontrol"
    submit 2 "a mistake" SLURM_ARRAY_TASK_ID=2 bash "$launch/$script.sbatch" $bad
    says 0 "^scontrol"
done
same "slurm-srun" whole slurm-srun
same "slurm-mpirun" whole slurm-mpirun
same "slurm-array" whole array_job
export FAKE_STATUS=0
expect 7 "mpirun starts nothing and returns 0" charl launch --mpirun=./fake-launcher -n 2 --restarts=1 "$@" -o none
says 1 "^charl: warning: exit status 7: starting again"
says 2 "^charl: error: ./fake-launcher ended with status 0"
expect 7 "run-local.sh, the same" env PATH="$T/fake:$PATH" "$launch/run-local.sh" 2 "$@" -o none
says 4 "^charl: error: mpirun ended with status 0"
unset FAKE_STATUS
expect 0 "help of the program" timeout 1500 charl launch -n 2 "$@" --help
says 1 "^Usage: charl-train"
says 0 "ended with status"

expect 2 "run-local.sh without a number" "$launch/run-local.sh" mlp.ini
says 1 "^usage: "
finish

#!/bin/sh
# The job scripts of launch/ in a Slurm of their own: munged, slurmctld and a slurmd on this machine. Trainings that take longer than their
# limit of a minute are stopped with a checkpoint, queued again by themselves and end with the bits of an undisturbed run. A job whose ranks
# Slurm could not start is queued again, although srun returned 0.
# Slurm looks at limits every 30 s and knows minutes only, so this test sleeps most of its time.
here=$(cd "$(dirname "$0")" && pwd)
launch=$(cd "$here/../../launch" && pwd)
for program in munged mungekey slurmctld slurmd sbatch; do
    PATH=$PATH:/usr/sbin command -v $program >/dev/null || { echo "skipped: no $program (packages munge, slurmctld, slurmd, slurm-client)"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "skipped: slurmd starts jobs as root only"; exit 77; }
. "$here/../train/common.sh"
PATH=$bin:$PATH:/usr/sbin
export SLURM_CONF=$T/slurm.conf
daemons=

leave() {
    for _p in $daemons; do
        kill "$_p" 2>/dev/null
    done
    for _p in $daemons; do
        wait "$_p" 2>/dev/null
    done
    cd / && rm -rf "$T"
}
trap leave EXIT
chmod 711 "$T"
mkdir -m 700 munge
mkdir state spool
mungekey --create --keyfile munge/key || { echo "skipped: munge makes no key"; exit 77; }

# until_is SECONDS COMMAND: until it succeeds; tried each second, as those that wait for jobs cost a processor more than the jobs
until_is() {
    _n=$1
    shift
    while [ "$_n" -gt 0 ]; do
        "$@" >/dev/null 2>&1 && return 0
        _n=$((_n - 1))
        sleep 1
    done
    return 1
}
host=$(hostname -s)
port=$((20000 + $$ % 20000))
cat >slurm.conf <<EOF
ClusterName=charl
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SrunPortRange=$((port + 10))-$((port + 200))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$T/munge/socket
CredType=cred/munge
StateSaveLocation=$T/state
SlurmdSpoolDir=$T/spool
SlurmctldPidFile=$T/slurmctld.pid
SlurmdPidFile=$T/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=0
ReturnToService=2
KillWait=20
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOF
# Else in /tmp, named by the job's number: what a test that was killed has left there would make every launch fail.
echo "PMIxCliTmpDirBase=$T/ranks" >mpi.conf
mkdir ranks
munged --foreground --force --socket="$T/munge/socket" --key-file="$T/munge/key" --pid-file="$T/munge/pid" --log-file="$T/munge/log" \
    --seed-file="$T/munge/seed" >munged.log 2>&1 &
daemons=$!
until_is 30 munge -n --socket="$T/munge/socket" || { cat munged.log; fail "munged does not answer"; finish; }
slurmctld -D -c -f slurm.conf >slurmctld.log 2>&1 &
daemons="$! $daemons"
until_is 60 scontrol ping || { tail -n 5 slurmctld.log; fail "slurmctld does not answer"; finish; }
slurmd -D -f slurm.conf -N "$host" >slurmd.log 2>&1 &
daemons="$! $daemons"
until_is 60 sh -c 'sinfo -h -o %T | grep -q idle' || { sinfo; tail -n 5 slurmd.log; fail "slurmd does not register"; finish; }

# Rank 0 sleeps a second in each step: 65 of them are longer than the limit. What the ranks compute is the same.
cp mlp.ini job.ini
set -- job.ini train.epochs=20 -q
expect 0 "the undisturbed run" ranks 1 "$@" train.max_steps=65 -o whole
expect 0 "the undisturbed run of an array" ranks 1 "$@" train.max_steps=4 -o short

# submit OPTION... SCRIPT ARGUMENT...: $job is its number
submit() {
    checks=$((checks + 1))
    job=$(sbatch --parsable --cpus-per-task=1 --output="$T/job-%A.%a.log" "$@" 2>"$T/log") || { fail "sbatch: $(cat "$T/log")"; finish; }
}
# The GPUs that the scripts ask for are not in this cluster.
for script in slurm-srun slurm-mpirun slurm-array; do
    grep -v '^#SBATCH --gpus' "$launch/$script.sbatch" >$script.sbatch
done
export CHARL_FAULT='train.data.hang@0:*:1'
submit --time=1 --signal=USR1@40 --ntasks-per-node=2 slurm-srun.sbatch "$@" train.max_steps=65 -o by_srun
by_srun=$job
submit --time=1 --signal=B:USR2@40 --ntasks-per-node=2 slurm-mpirun.sbatch "$@" train.max_steps=65 -o by_mpirun
by_mpirun=$job
unset CHARL_FAULT
# PMIx wants a folder that comes after the first try.
SLURM_PMIX_TMPDIR=$T/pmix submit --time=9 --ntasks-per-node=2 slurm-srun.sbatch "$@" train.max_steps=4 -o late
late=$job
printf '%s\n' "$* train.max_steps=4 -o array1" "$* train.max_steps=4 -o 'array 2' optimizer.learning_rate=1e-3" >configs.txt
submit --array=1-2%4 slurm-array.sbatch configs.txt
array=$job

# A job that was queued again waits two minutes for what is left of it to end: here, until it has been seen pending 8 times.
are_done() {
    _running=
    for _j in $by_srun $by_mpirun $late; do
        scontrol -o show job "$_j" >job.$_j
        if [ ! -d pmix ] && grep -q "JobId=$late .*Restarts=1" job.$_j; then
            rm -rf spool/*pmix."$late".* # what Slurm leaves there makes the next launch on this node fail
            mkdir pmix
        fi
        _s=$(sed -n 's/.* JobState=\([A-Z_]*\).*/\1/p' job.$_j)
        if [ "$_s" = PENDING ]; then
            echo pending >>pending.$_j
            [ "$(wc -l <pending.$_j)" -ne 8 ] || scontrol update JobId="$_j" StartTime=now
        else
            rm -f pending.$_j
        fi
        case $_s in COMPLETED | FAILED | TIMEOUT | NODE_FAIL) ;; *) _running=yes ;; esac
    done
    [ -z "$_running" ] && ! squeue -h -j "$array" -o %i | grep -q .
}
until_is 600 are_done || { scontrol show job; fail "the jobs do not end"; }

for name in srun mpirun; do
    eval "job=\$by_$name"
    scontrol -o show job "$job" >log
    says 1 "JobState=COMPLETED .*Restarts=[1-9]"
    same "the job by $name" whole by_$name
    cp by_$name/train.log log
    says 1 "^charl|^# charl|^[0-9TZ:-]+ done step=65"
done
scontrol -o show job "$late" >log
says 1 "JobState=COMPLETED .*Restarts=1"
same "the job that could not be started at first" short late
cp job-$late.*.log log
says 1 "task 0 launch failed"
same "the first of the array" short array1
expect 0 "the second of the array" test -e 'array 2'/last.h5
[ $failures -eq 0 ] || tail -n 20 job-*.log slurmd.log
finish

#!/bin/sh
# Copies of the state in memory (checkpoint.memory_interval): after kill -9 of any rank the same command makes at most so many steps again, on
# any number of ranks, and the end is the same to the bit; without a usable copy it says why and continues from the checkpoint on disk. Ranks that
# outlive another copy the last whole step. CHARL_TEST_LONG=1: 200 kills instead of 4.
rows=80
. "$(dirname "$0")/common.sh"
CHARL_SHM_DIR=$T/shm
export CHARL_SHM_DIR
mkdir shm

sed -e 's/^epochs = 2/epochs = 10/' -e 's/^interval = 1ep$/interval = 0/' mlp.ini >mem.ini # 50 steps
printf 'memory_interval = 6\n[eval]\ninterval = 0\n' >>mem.ini
expect 0 "the run that nobody kills" ranks 1 mem.ini -q -o whole

copies() { find shm -name 'step-*.h5' | wc -l; }
# left WHAT N: so many copies lie in memory
left() {
    checks=$((checks + 1))
    [ "$(copies)" -eq "$2" ] || fail "$1: $(copies) copies are left, not $2"
}
# reached RUN: the last step that its metrics tell of; resumed: the step that the last log starts from, if it comes to that
reached() { sed -n '$s/.*"step":\([0-9]*\).*/\1/p' "$1/metrics.jsonl" 2>/dev/null; }
resumed() { sed -n 's/^[^ ]* start step=\([0-9]*\).*/\1/p' log; }
# bounded WHAT STEP: the last log resumes from at most 6 steps before STEP
bounded() {
    checks=$((checks + 1))
    _s=$(resumed)
    [ "$2" -le $((${_s:-$2} + 6)) ] || { fail "$1: step $2 was made, and the job resumes from step $_s"; head -20 log; }
}
ended() { # ended WHAT: all of it was made, no copy is left, and the bits are those of an undisturbed run
    same "$1" whole run
    left "$1" 0
    checks=$((checks + 1))
    [ ! -e run/.copies ] || fail "$1: run/.copies is left"
    expect 0 "run.lock, $1" "$bin/charl" verify run
}
# killed FAULT N ARGUMENTS...: a job of N ranks that FAULT ends; "resumes from" is in the log
killed() {
    export CHARL_FAULT="$1"
    shift
    ranks "$@" >log 2>&1
    _k=$?
    unset CHARL_FAULT
    checks=$((checks + 1))
    case $_k in
    "${code:-7}" | 137) ;;
    0) [ -n "${may_end:-}" ] || fail "killed: exit code 0" ;; # it did not come to that
    *) fail "killed: exit code $_k"; tail -n 5 log ;;
    esac
}
orphans() {
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/cwd" 2>/dev/null)" = "$T" ] || continue
        case $(tr '\0' ' ' <"$p/cmdline" 2>/dev/null) in
        *charl-train*) echo "${p#/proc/}" ;;
        esac
    done
}
seed=4711
random() { # random N: _r in 0..N-1
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    _r=$((seed / 65536 % $1))
}

# A random rank dies in a random phase of a random step, in the writing of a copy, or by a signal at a random moment.
may_end=yes
kills=4
[ -n "$long" ] && kills=200
k=0
while [ $k -lt $kills ]; do
    k=$((k + 1))
    before=$(reached run)
    [ "${before:-0}" -lt 35 ] || { expect 0 "to the end" ranks 3 mem.ini; bounded "to the end" "$before"; ended "$k kills"; rm -rf run; before=; }
    random 4; rank=$_r
    random 9; n=$((_r + 4))
    random 4
    case $_r in
    0) fault=train.backward.kill@$rank:$n ;;
    1) fault=train.optimizer.kill@$rank:$n ;;
    2) random 4; case $_r in 0) fault=io.crash.written ;; 1) fault=io.crash.synced ;; 2) fault=io.crash.verified ;; *) fault=io.crash.renamed ;; esac
        random 9; fault=$fault@0:$((_r + 8)) ;;
    *) fault= ;;
    esac
    if [ -n "$fault" ]; then
        killed "$fault" 4 mem.ini
    else
        timeout 1500 mpirun -q --oversubscribe --bind-to none -n 4 "$bin/charl-train" mem.ini >log 2>&1 &
        job=$!
        until [ "$(reached run)" != "$before" ] && grep -q "step=$((${before:-0} + n))/" log || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
        kill -9 $(orphans | grep -v -x "$job" | sed -n "$((rank + 1))p") 2>/dev/null
        wait $job
        while [ -n "$(orphans)" ]; do sleep 0.1; done
    fi
    bounded "kill $k ($fault)" "${before:-0}"
done
before=$(reached run)
expect 0 "to the end" ranks 3 mem.ini
bounded "to the end" "${before:-0}"
ended "$kills kills"
[ -n "$long" ] && finish
may_end=

# The survivors of a death copy the last whole step. On a busy machine mpirun may end them before: then the job is begun once more.
survive() { # survive WHAT FAULT STEP ARGUMENTS...: the job of 3 ranks continues from STEP on 2
    _what=$1 _fault=$2 _step=$3
    shift 3
    for _i in 1 2 3 4 5 6; do
        rm -rf run shm
        mkdir shm
        killed "$_fault" 3 "$@" -q checkpoint.memory_interval=60
        [ "$_step" -eq 0 ] || [ -n "$(find shm -name "step-*0$_step.h5")" ] && break
    done
    expect 0 "$_what" ranks 2 "$@"
    says 1 "^[^ ]* start step=$_step/"
    says 0 "warning: .*/step-"
    ended "$_what"
}
survive "the survivors" train.backward.kill@1:18 17 mem.ini
survive "the survivors of rank 0" train.backward.kill@0:33 32 mem.ini
survive "rank 0 has logged the step" train.data.kill@2:9 8 mem.ini
code=4 survive "a device fails" train.device.fail@1:18 17 mem.ini
# Whoever writes the copy dies, too. The first file that a survivor writes is .copies.
any() { echo "train.backward.kill@0:18,io.crash.$1@1:2,io.crash.$1@2:2"; }
survive "a copy that is half written" "$(any written)" 0 mem.ini
survive "a copy that has just been written" "$(any renamed)" 17 mem.ini
survive "a part of the state died with its rank" train.backward.kill@1:33 30 mem.ini dist.shard=gradients
if [ -n "$long" ]; then
    CHARL_RANKS_PER_NODE=2 survive "two nodes" train.backward.kill@2:12 11 mem.ini
    survive "a rank that hangs" train.backward.stop@0:12 11 mem.ini dist.timeout=2
fi
# No copy, as no checkpoint, of what came of a data file that was cut, while a rank stalls.
cp digits.h5 kept.h5
rm -rf run shm
mkdir shm
killed train.backward.hang@2:10:3,train.backward.kill@1:18 3 mem.ini -q checkpoint.memory_interval=60 &
until [ "$(reached run)" = 9 ] || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
truncate -s -30000 digits.h5
wait $!
left "a data file that was cut" 0
cat kept.h5 >digits.h5
# Running statistics are those before the step that failed; a step that is not logged is whole without rank 0.
sed -e 's/^interval = 1$/interval = 4/' -e 's/^interval = 1ep$/interval = 0/' cnn.ini >statistics.ini
printf 'memory_interval = 6\n[eval]\ninterval = 0\n' >>statistics.ini
mv whole mlp
expect 0 "running statistics" ranks 1 statistics.ini -q -o whole
survive "running statistics" train.allreduce.kill@1:6 5 statistics.ini
survive "a step that is not logged" train.optimizer.kill@0:6 6 statistics.ini
rm -rf whole run
mv mlp whole

# All below begins with the same death: a checkpoint of step 10 on disk, copies of steps 16 and 17. With an interval of 1, training waits for them.
now=checkpoint.memory_interval=1
rm -rf run
expect 75 "a stop" env CHARL_FAULT=train.stop:11 "$bin/charl-train" mem.ini -q
left "a stop" 0
killed train.backward.kill@1:8 2 mem.ini -q $now
left "a death" 2
checks=$((checks + 1))
[ "$(stat -c %a shm/charl-*)" = 700 ] || fail "others can open the folder of the copies"
cp -r run run.dead && cp -r shm shm.dead
again() { rm -rf run shm && cp -r run.dead run && cp -r shm.dead shm; }
newest=$(ls shm/charl-*/*/checkpoints/* | tail -n 1)
case $newest in *step-00000017.h5) ;; *) fail "the newest copy is $newest" ;; esac
# next WHAT STEP [WARNING]: on $next_ranks the job continues from STEP, with one line that says why, and to the same end
next_ranks=3
next() {
    expect 0 "$1" ranks $next_ranks mem.ini
    says 1 "^  resumed .*/step-0*$2[.]h5 [(]step $2[)]"
    if [ -n "${3:-}" ]; then
        says 1 "^charl-train: warning: "
        says 1 "warning: copies of the training state in memory: $3; training continues from the c(opy|heckpoint) of step $2\$"
    else
        says 0 "warning"
    fi
    ended "$1"
    again
}
next "a death" 17
next_ranks=1
rm -r shm/*
next "the memory of the node is lost" 10 "none is left: the machine was started again, or they were removed"
truncate -s 5000 "$newest"
next "half of the newest copy" 16 ".*/step-00000017.h5: is damaged .*"
rm "$newest" && cp mem.ini "$newest"
next "a text in the place of a copy" 16 ".*/step-00000017.h5 is .*"
for f in shm/charl-*/*/checkpoints/*; do printf '\001' | dd of="$f" bs=1 seek=$(($(stat -c %s "$f") / 2)) conv=notrunc 2>/dev/null; done
next "damaged copies" 10 ".*/step-00000017.h5: .* .*/step-00000016.h5: .*"
chmod 755 shm/charl-*
CHARL_FAULT=copies.room:* expect 0 "others can open the folder" ranks 1 mem.ini
says 1 "warning: copies of .* is not a folder that only this user can open"
again
echo 00000000000000000000000000000000 >run/run_id
expect 0 "copies of another run" ranks 1 mem.ini -q
says 1 "warning: copies of the training state in memory: .*/step-00000017.h5 is of another run [(][0-9a-f]*[)]; training continues from the checkpoint of step 10"
left "copies of another run" 0
again
expect 0 "copies of another configuration" ranks 1 mem.ini -q optimizer.learning_rate=1e-3
says 1 "warning: copies .*/step-00000017.h5 was made with other settings or data: .optimizer. learning_rate = 0.001 .was 0.003.; training continues from the checkpoint of step 10"
left "copies of another configuration" 0
again
expect 0 "without the key" ranks 1 mem.ini -q checkpoint.memory_interval=0
left "without the key" 0
again
expect 0 "a new run" ranks 1 mem.ini -q --overwrite
says 0 "warning"
ended "a new run"
rm -rf run
CHARL_FAULT=copies.room:* expect 0 "no room" ranks 2 mem.ini -q
says 1 "warning: step 3: no copy of the training state in memory: .*: not enough room, as on a full disk; training continues without copies"
says 1 warning
ended "no room"

# Two nodes of $each ranks, of which each has a memory of its own: one loses it.
each=1
apart() { # apart ARGUMENTS...
    timeout 1500 mpirun -q --oversubscribe --bind-to none \
        -n $each env CHARL_SHM_DIR=shm CHARL_RANKS_PER_NODE=$each "$bin/charl-train" "$@" : \
        -n $each env CHARL_SHM_DIR=shm2 CHARL_RANKS_PER_NODE=$each "$bin/charl-train" "$@"
}
within= # of the second: the optimizer is sharded within nodes
for lost in shm shm2; do
    rm -rf run shm shm2
    mkdir shm shm2
    CHARL_FAULT=train.backward.kill@$((2 * each - 1)):8 apart mem.ini -q $now $within >log 2>&1
    left "two nodes" 2
    rm -r $lost/*
    expect 0 "$lost is lost" apart mem.ini $within
    says 1 "^  resumed .*[(]step 7[)]"
    ended "$lost is lost"
    checks=$((checks + 1))
    [ -z "$(find shm2 -type f)" ] || fail "copies are left on the second node"
    each=2 within="dist.shard=optimizer dist.shard_group=node"
done

# The copies of a node are two, whatever ranks it had before.
rm -rf run shm
mkdir shm
CHARL_RANKS_PER_NODE=2 killed train.backward.kill@1:8 4 mem.ini -q $now
left "two nodes with one memory" 4
half=$(ls shm/charl-*/*.2/checkpoints/*07.h5).tmp.$(hostname).4194305 # a process that cannot exist
: >"$half"
killed train.backward.kill@1:5 2 mem.ini -q $now
left "a node less" 2
[ ! -e "$half" ] || fail "a node less: what another start has half written is left"

# run.resume = must does not begin anew where the copy of a node does not reach the other.
rm -rf run
each=1
CHARL_FAULT=train.backward.kill@1:8 apart mem.ini -q $now >log 2>&1
rm -r shm2/*
CHARL_FAULT=copies.room:* expect 5 "must" apart mem.ini run.resume=must
says 1 "run.resume = must, but run holds no usable checkpoint; copies of the training state in memory: .*not enough room"
rm -rf run

# What charl launch starts again continues from the copy, though the command says --overwrite; so do divided parameters.
expect 0 "another run" ranks 1 mem.ini -q run.seed=9 --overwrite train.max_steps=5
CHARL_FAULT=train.backward.kill@1:11 expect 0 "charl launch" timeout 1500 "$bin/charl" launch -n 2 mem.ini --overwrite $now dist.shard=parameters train.max_steps=20
says 1 "starting again [(]1 of 3[)]"
says 1 "^  resumed .*[(]step 10[)]"
left "charl launch" 0
rm -rf run
expect 0 "a short run" ranks 1 mem.ini -q -o short train.max_steps=20 dist.shard=optimizer
expect 0 "a short run" ranks 2 mem.ini -q train.max_steps=20 dist.shard=parameters
same "divided parameters" short run

# Values that an audit does not confirm are not continued.
rm -rf run
CHARL_FAULT=train.device.flip_gradient@1:8 expect 9 "an audit finds something" ranks 2 mem.ini -q $now dist.audit=8
left "an audit finds something" 0

# Replicas that differ end the job with one message, as before a checkpoint on disk.
rm -rf run
CHARL_FAULT=train.optimizer.flip@1:3 expect 6 "replicas that differ" ranks 2 mem.ini -q $now
says 1 "error: step 3: the ranks no longer train the same model: rank"
rm -rf run

# A copy that leaves frozen weights to its base finds what the run has kept of it.
expect 0 "adapters" ranks 1 mem.ini -q -o adapters init.from=whole/last.h5 lora.rank=2 lora.targets=fc1 train.max_steps=12
killed train.backward.kill@0:8 1 mem.ini -q $now init.from=whole/last.h5 lora.rank=2 lora.targets=fc1 train.max_steps=12
mv whole gone
expect 0 "adapters, resumed" ranks 1 mem.ini init.from=whole/last.h5 lora.rank=2 lora.targets=fc1 train.max_steps=12
says 1 "^  resumed .*[(]step 7[)]"
same "adapters, resumed" adapters run
mv gone whole

expect 0 "auto" ranks 1 mem.ini -q -o auto checkpoint.memory_interval=auto
grep -q '^memory_interval *= auto' auto/config.ini || fail "auto is not in config.ini"
expect 2 "an interval that is none" ranks 1 mem.ini -q checkpoint.memory_interval=often
says 1 '"often" is not an interval: steps [(]500[)], epochs [(]1ep[)], tokens [(]10M tokens[)], time [(]30m[)], auto or 0'
finish

#!/bin/sh
# charl sweep: grids, random draws and seeds; what is done is not done again, by the configuration that a run recorded; an interrupted sweep
# continues with the same bits; a run that fails does not stop the others; the list for a job script.
. "$(dirname "$0")/common.sh"

# sweep CODE WHAT ARGUMENTS...
sweep() {
    _code=$1 _what=$2
    shift 2
    expect "$_code" "$_what" timeout 1500 "$bin/charl" sweep "$@"
}
runs() { # runs DIR: its run directories
    find "$1" -mindepth 2 -maxdepth 2 -name config.ini | wc -l
}
is() { # is WHAT HAVE WANT
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1: $2, expected $3"
}

# A grid with seeds.
set -- mlp.ini optimizer.learning_rate=1e-3,3e-3 train.batch_size=64,32
sweep 0 "a grid" "$@" --seeds 2 train.epochs=1 -o grid
says 1 '^8 runs in grid: 8 new$'
says 1 '^learning_rate=1e-3,batch_size=32,seed=4: done at step 10, val/loss [0-9.]*; [0-7] left$'
says 8 ': done at step '
says 1 '^learning_rate  batch_size  runs  val/loss mean  deviation +best  at step$'
says 1 '^ +3e-3 +32 +2/2 '
is "directories" "$(runs grid)" 8
checks=$((checks + 2))
# mean, deviation and order of the table are those of sweep.csv
tail -n 4 log | awk '{ print $1, $2, $4, $5, $6 }' >have
tr -d '"' <grid/sweep.csv | awk -F, 'NR > 1 { k = $4 " " $5; n[k]++; v[k, n[k]] = $(NF - 2); if ($7 != "done") exit 1 }
    END { for (k in n) { m = (v[k, 1] + v[k, 2]) / 2; d = v[k, 1] - v[k, 2]; d = (d < 0 ? -d : d) / sqrt(2)
          printf "%s %.5g %.2g %.5g\n", k, m, d, v[k, 1] < v[k, 2] ? v[k, 1] : v[k, 2] } }' | sort -k3,3g >want
[ "$(wc -l <want)" -eq 4 ] && cmp -s want have || { fail "the table"; diff want have; }
checks=$((checks + 1))
grep -q '"path":"grid/learning_rate=3e-3,batch_size=32,seed=4"' grid/report.html || fail "the page"
expect 0 "a run alone" ranks 1 mlp.ini -q optimizer.learning_rate=3e-3 train.batch_size=32 run.seed=4 train.epochs=1 -o alone
same "a run of the grid" alone grid/learning_rate=3e-3,batch_size=32,seed=4

# Given again: nothing is trained, whatever the directories are called. More values and a further key keep what is done.
mv grid/learning_rate=1e-3,batch_size=32,seed=4 grid/renamed
sweep 0 "again" "$@" --seeds 2 train.epochs=1 -o grid
says 1 '^8 runs in grid: 8 done$'
says 0 ': done at step '
is "the renamed run" "$(grep -c '^grid/renamed,1e-3,32,4,done,10,' grid/sweep.csv)" 1
sweep 0 "a further key and value" "$@" run.seed=3,4,5 train.epochs=1 optimizer.weight_decay=0.01,0.1 -o grid --dry-run
says 1 '^24 runs in grid: 16 new, 8 done$'
is "directories after a dry run" "$(runs grid)" 8
sweep 2 "another configuration under the same name" "$@" --seeds 2 train.epochs=2 -o grid
says 1 'error: grid/learning_rate=1e-3,batch_size=64,seed=3 holds another run: \[train\] epochs = 2 \(was 1\)$'
sweep 2 "another loss" "$@" --seeds 2 train.epochs=1 train.loss=focal -o grid
says 1 'holds another run: \[train\] loss = focal \(was cross_entropy\)$'
cp digits.h5 other.h5
sweep 2 "other data" "$@" --seeds 2 train.epochs=1 data.path=other.h5 -o grid
says 1 'holds another run: \[data\] path = .*/other.h5 \(was .*/digits.h5\)$'

# Runs that fail: a configuration that is refused, a key that the model refuses, a loss that is not finite.
sweep 1 "failures" mlp.ini train.batch_size=64,60 train.epochs=1 'train.freeze= | nothing' -o failing -j 2
says 1 '^4 runs in failing: 2 new, 2 failed$'
says 2 'error: batch_size=60,freeze=.*: mlp.ini:.*\[train\] slices: 8 slices do not divide batch_size = 60$'
says 1 'error: batch_size=64,freeze=nothing: exit status 2$'
says 1 'error: command line: \[train\] freeze: no parameter is called nothing'
says 1 '^batch_size=64,freeze=: done at step 5, '
says 1 '^ +64 +1/1 '
says 1 '^ +60 +nothing +0/1, 1 failed '
is "their states" "$(sed 1d failing/sweep.csv | tr -d '"' | awk -F, '{ for (i = 1; i <= NF; i++) if ($i == "done" || $i == "failed") print $i }' | sort | tr '\n' ' ')" \
    "done failed failed failed "
sweep 2 "no run is accepted" mlp.ini train.batch_size=60,61 -o failing
says 1 'slices do not divide batch_size'

# An interruption, and a command that continues. Both runs of two at a time stop, the rest has not begun.
sed 's/^type = cosine/type = constant/' mlp.ini >long.ini
timeout 1500 "$bin/charl" sweep long.ini train.epochs=100000 optimizer.learning_rate=1e-3,2e-3,3e-3 -j 2 checkpoint.interval=0 eval.interval=0 \
    -o stopped >first 2>&1 &
job=$!
for _i in $(seq 3000); do
    [ -s stopped/learning_rate=1e-3/metrics.jsonl ] && [ -s stopped/learning_rate=2e-3/metrics.jsonl ] && break
    sleep 0.1
done
kill -TERM "$job"
checks=$((checks + 2))
wait "$job"
_got=$?
[ "$_got" -eq 75 ] || { fail "a signal: exit code $_got"; tail -n 5 first; }
[ "$(grep -c ': stopped at step ' first)" -eq 2 ] || { fail "a signal"; cat first; }
sweep 0 "the states" long.ini train.epochs=100000 optimizer.learning_rate=1e-3,2e-3,3e-3 checkpoint.interval=0 eval.interval=0 -o stopped --dry-run
says 1 '^3 runs in stopped: 1 new, 2 begun$'
export CHARL_FAULT=train.stop:6
sweep 75 "stopped" mlp.ini optimizer.learning_rate=1e-3,3e-3 -o cut
unset CHARL_FAULT
says 2 ': stopped at step '
sweep 0 "continued" mlp.ini optimizer.learning_rate=1e-3,3e-3 -o cut
says 1 '^2 runs in cut: 2 begun$'
expect 0 "without interruption" ranks 1 mlp.ini -q optimizer.learning_rate=1e-3 -o whole
same "continued" whole cut/learning_rate=1e-3

# Random draws: the same every time, more of them keep the first; ranges hold; every value of a list occurs.
sweep 0 "draws" mlp.ini optimizer.learning_rate=1e-4..1e-2:log model.hidden='8 | 16, 8' train.batch_size=8..64 train.slices=1 --random 6 -o drawn --print
cp log first
sweep 0 "more draws" mlp.ini optimizer.learning_rate=1e-4..1e-2:log model.hidden='8 | 16, 8' train.batch_size=8..64 train.slices=1 --random 12 -o drawn --print
head -n 6 log >second
checks=$((checks + 3))
[ "$(wc -l <first)" -eq 6 ] && cmp -s first second || { fail "draws change"; cat first; }
sed -n "s/.*learning_rate=\([^ ]*\) .*batch_size=\([0-9]*\) .*/\1 \2/p" log | awk '$1 < 1e-4 || $1 > 1e-2 || $2 < 8 || $2 > 64 { exit 1 } END { exit NR != 12 }' ||
    { fail "draws are not in their ranges"; cat log; }
[ "$(grep -c 'hidden=8 ' log)" -gt 0 ] && [ "$(grep -c "'model.hidden=16, 8'" log)" -gt 0 ] || { fail "a value does not occur"; cat log; }

# The list for a job script, which reads a line as slurm-array.sbatch does.
sweep 0 "print" mlp.ini optimizer.learning_rate=3e-3 train.epochs=1 model.hidden='8 | 16, 8' -o "a list" --print
cp log runs.txt
is "lines" "$(wc -l <runs.txt)" 2
for i in 1 2; do
    sed -n ${i}p runs.txt | xargs -r printf '%s\n' >words
    set --
    while IFS= read -r word; do set -- "$@" "$word"; done <words
    expect 0 "line $i" ranks 1 "$@" -q
done
sweep 0 "the results of a job script" mlp.ini optimizer.learning_rate=3e-3 train.epochs=1 model.hidden='8 | 16, 8' -o "a list"
says 1 '^2 runs in a list: 2 done$'
says 1 '^ *16, 8 +1/1 '

# A file, which is the command line that it stands for; the command line replaces what it says. Its configuration is beside it.
mkdir files
cat >files/sweep.ini <<'INI'
# Two rates, with two seeds
[sweep]
seeds = 2
config = ../mlp.ini
output = filed
alone = no
[optimizer]
learning_rate = 1e-3, 3e-3
[train]
epochs = 1
batch_size = 64, 32
INI
sweep 0 "a file" files/sweep.ini --print
cp log have
sweep 0 "its command line" files/../mlp.ini optimizer.learning_rate=1e-3,3e-3 train.epochs=1 train.batch_size=64,32 --seeds 2 -o filed --print
checks=$((checks + 1))
cmp -s log have && [ "$(wc -l <have)" -eq 8 ] || { fail "a file"; diff log have; }
sweep 0 "a file and more" files/sweep.ini train.batch_size=64 --seeds 1 train.max_steps=2 -o replaced
says 1 '^2 runs in replaced: 2 new$'
says 1 '^ +3e-3 +1/1 '
printf '[sweep]\nconfig = ../mlp.ini\nsedes = 2\n' >files/wrong.ini
sweep 2 "a key that is no option" files/wrong.ini train.epochs=1,2
says 1 'files/wrong.ini:3: \[sweep\] sedes: unknown key$'
printf '[sweep]\nseeds = 2\n' >files/wrong.ini
sweep 2 "no configuration" files/wrong.ini
says 1 'files/wrong.ini: \[sweep\] config is missing'
printf '[sweep]\n[train]\nepochs = 1,2\n' >files/wrong.ini
sweep 2 "an empty section" files/wrong.ini
says 1 'files/wrong.ini: \[sweep\] config is missing'
printf '[sweep]\nconfig = ../mlp.ini\nalone = perhaps\n' >files/wrong.ini
sweep 2 "a flag that is neither" files/wrong.ini
says 1 'files/wrong.ini:3: \[sweep\] alone: "perhaps" is neither yes nor no$'
printf '[sweep]\nconfig = ../mlp.ini\n[train]\nepochs = 1,2\nepochs = 3\n' >files/wrong.ini
sweep 2 "a key twice" files/wrong.ini
says 1 'files/wrong.ini:5: \[train\] epochs: given twice$'
printf '[sweep]\nseeds = 3\nconfig = ../mlp.ini\nseeds = 2\n' >files/wrong.ini
sweep 2 "an option twice" files/wrong.ini
says 1 'files/wrong.ini:4: \[sweep\] seeds: given twice$'

# One value in two spellings is one configuration.
sweep 2 "a number twice" mlp.ini optimizer.learning_rate=0.001,1e-3 -o twice
says 1 'learning_rate=0.001 and learning_rate=1e-3 are the same configuration$'
sweep 2 "a word twice" mlp.ini train.epochs=2 data.shuffle=yes,on -o twice
says 1 'shuffle=yes and shuffle=on are the same configuration$'
[ ! -e twice ] || fail "a directory was made"

# On two ranks each.
if command -v mpirun >/dev/null; then
    sweep 0 "two ranks" mlp.ini optimizer.learning_rate=1e-3,3e-3 --ranks 2 -o ranked
    same "two ranks" whole ranked/learning_rate=1e-3
fi

# Losers: a configuration that learns nothing gets no further seed than three; one with the same results gets all of them.
sweep 0 "losers" mlp.ini optimizer.learning_rate=1e-6,1e-2 train.max_steps=100 --seeds 5 --stop-losers 0.05 -o race
says 1 '^learning_rate=1e-6,seed=6: dropped with its other seeds, worse than learning_rate=1e-2,seed=3 in 3 pairs$'
says 1 '^ +1e-2 +5/5 '
says 1 '^ +1e-6 +3/5, 2 dropped '
is "their states" "$(grep -c ',dropped,' race/sweep.csv)" 2
sweep 0 "no losers" mlp.ini optimizer.weight_decay=0,1e-30 train.epochs=1 --seeds 4 --stop-losers 0.4 -o even -j 2
says 2 ' 4/4 '
sweep 0 "a probability that no difference meets" mlp.ini optimizer.learning_rate=1e-3,0.3 train.max_steps=3 --seeds 4 --stop-losers 1e-18 -o far
says 2 ' 4/4 '
sweep 2 "too few seeds" mlp.ini optimizer.learning_rate=1e-6,1e-2 --seeds 3 --stop-losers 0.05 -o race
says 1 'compares three seeds before it stops others$'

# What cannot be meant.
sweep 2 "nothing to sweep" mlp.ini train.epochs=2
says 1 'no key has several values$'
sweep 2 "a range without draws" mlp.ini optimizer.learning_rate=1e-4..1e-2
says 1 'values of a range are drawn at random$'
sweep 2 "a range that descends" mlp.ini optimizer.learning_rate=1..0 --random 2
says 1 'LOW..HIGH must ascend$'
sweep 2 "a range from 0" mlp.ini optimizer.learning_rate=0..1:log --random 2
says 1 'LOW..HIGH must ascend, and be above 0 for :log$'
sweep 2 "seeds and folds" mlp.ini data.fold=1/2,2/2 --seeds 2
says 1 'a configuration is repeated for each seed or for each fold, not for both$'
sweep 2 "a value twice" mlp.ini train.epochs=1,1
says 1 'train.epochs: the value "1" is there twice$'
sweep 2 "a range that is misspelt" mlp.ini optimizer.learning_rate=1e-4..1e-2:lin --random 2
says 1 '\[optimizer\] learning_rate: "1e-4..1e-2:lin" is not a number$'
sweep 2 "a range with a dot too many" mlp.ini optimizer.learning_rate=1e-4...1e-2 --random 2
says 1 '\[optimizer\] learning_rate: "1e-4...1e-2" is not a number$'
sweep 2 "several places" mlp.ini run.output_dir=a,b
says 1 'run.output_dir=a,b: each run has its own directory$'
sweep 2 "a key twice" mlp.ini train.epochs=1,2 train.epochs=3,4
says 1 'train.epochs is swept twice$'
sweep 2 "seeds twice" mlp.ini run.seed=1,2 --seeds 2
says 1 'the values of run.seed are listed, or --seeds tells their number$'
sweep 2 "an unknown key" mlp.ini train.epoch=1,2 -o unknown
says 1 'epoch: unknown key'
sweep 2 "two configurations" mlp.ini cnn.ini train.epochs=1,2
says 1 'cnn.ini: one configuration is swept, mlp.ini$'
sweep 2 "too many" mlp.ini --seeds 1000 train.epochs="$(seq -s, 1 11)"
says 1 'these are more than 10000 runs$'
[ ! -e unknown ] || fail "a directory was made"
finish

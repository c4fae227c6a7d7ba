#!/bin/sh
# run.strict: what would change the result of a run that continues is refused, all of it in one message, and so is a checkpoint that
# is not the newest of this run. Without it each is a warning. What does not change the result is neither.
. "$(dirname "$0")/common.sh"

expect 0 "a run" ranks 1 mlp.ini -q -o a run.strict=yes
checks=$((checks + 1))
id=$(cat a/run_id)
[ ${#id} -eq 32 ] && "$bin/charl" checkpoint show a/last.h5 | grep -q "run id *$id" || fail "a/run_id: $id"

# It stops and continues, also on another number of ranks, with other settings that do not matter.
expect 75 "stopped" env CHARL_FAULT=train.stop:5 "$bin/charl-train" mlp.ini -q -o b run.strict=yes
expect 0 "continued" ranks 2 mlp.ini -o b run.strict=yes log.interval=1 data.cache=none checkpoint.keep_last=5 dist.bucket_mb=1 \
    train.recompute=yes dist.timeout=50 run.name=other
says 0 "warning|error"
same "continued" a b
cp digits.h5 moved.h5
expect 0 "the same data elsewhere" ranks 1 mlp.ini -o b run.strict=yes data.path=moved.h5
says 0 "warning|error"

# One at a time: a warning, or with run.strict a refusal that names it
"$bin/charl" data make digits other.h5 -t 320 -v 100 -s 7 >/dev/null || fail "no other data"
cat >changes <<'LIST'
run.seed=9 \[run\] seed = 9 \(was 3\)
data.shuffle=no \[data\] shuffle = no \(was yes\)
data.normalize=none \[data\] normalize = none
data.augment=flip \[data\] augment = flip
train.precision=bf16 \[train\] precision = bf16 \(was f32\)
train.label_smoothing=0.1 \[train\] label_smoothing = 0.1 \(was 0\)
optimizer.learning_rate=1e-3 \[optimizer\] learning_rate = 0.001 \(was 0.003\)
train.epochs=3 \[train\] epochs = 3 \(was 2\)
dist.reduce_dtype=bf16 \[dist\] reduce_dtype = bf16
eval.max_batches=1 \[eval\] max_batches = 1 \(was 0\)
LIST
while read -r change text; do
    rm -rf c && cp -r a c
    expect 5 "$change, strict" ranks 1 mlp.ini -o c "$change" run.strict=yes
    says 1 "error: $text"
    says 1 "run.strict = yes: c/checkpoints/step-00000010.h5 was trained with other settings or data:$"
    says 1 "hint: set these back"
done <changes
rm -rf c && cp -r a c
expect 5 "other data, strict" ranks 1 mlp.ini -o c data.path=other.h5 run.strict=yes
says 1 "error: data: content [0-9a-f]{16}, 320 samples of .*other.h5 \(was [0-9a-f]{16}, 320 samples of .*digits.h5\)"

# A run that is complete trains nothing. What would change it is refused without run.strict, too, and the directory stays as it is.
expect 5 "complete, other settings" ranks 2 mlp.ini -o c run.seed=9 optimizer.learning_rate=1e-3 data.path=other.h5 eval.max_batches=1
says 1 "error: .*nothing is left to train after c/checkpoints/step-00000010.h5, which was trained with other settings or data:$"
for text in "\[run\] seed = 9 \(was 3\)" "\[optimizer\] learning_rate = 0.001 \(was 0.003\)" "\[eval\] max_batches = 1 \(was 0\)" \
    "data: content [0-9a-f]{16}, 320 samples of .*other.h5"; do
    says 1 "error: $text"
done
says 1 "hint: .*-o DIR.*--overwrite"
expect 5 "complete, fewer steps" ranks 1 mlp.ini -o c train.epochs=1
says 1 "error: \[train\] epochs = 1 \(was 2\)"
expect 5 "complete, other initial weights" ranks 1 mlp.ini -o c --init-from b/last.h5
says 1 "error: \[init\] from = .*b/checkpoints/step-00000010.h5 \(was none\)"
expect 0 "complete, another measure" ranks 1 mlp.ini -o c checkpoint.monitor=val/accuracy log.interval=3 run.max_time=1h
says 1 "warning: \[checkpoint\] monitor = val/accuracy \(was val/loss\)"
says 1 "warning: nothing is left to train: these settings change nothing"
# config.ini changes with the first step.
expect 75 "stopped before a step" env CHARL_FAULT=train.stop:1 "$bin/charl-train" mlp.ini -o c train.epochs=3 run.seed=9
checks=$((checks + 1))
cmp a/config.ini c/config.ini && cmp a/run_id c/run_id && cmp a/run.lock c/run.lock || fail "what trained nothing changed the directory"
expect 0 "more epochs, and another seed and data" ranks 1 mlp.ini -o c train.epochs=3 run.seed=9 data.path=other.h5
says 1 "warning: changed since .*seed = 9"
says 1 "warning: .*other.h5 is not the data"
grep -q '^epochs = 3$' c/config.ini || fail "config.ini is not that of the last steps"

# All in one message, which one rank prints
expect 5 "several, strict" ranks 3 mlp.ini -o a run.strict=yes run.seed=9 data.shuffle=no data.path=other.h5 model.hidden=8
says 1 "run.strict = yes: "
for text in "\[run\] seed = 9" "\[data\] shuffle = no" "data: content" "\[model\] hidden = 8"; do
    says 1 "error: $text"
done

# A checkpoint of another run, copied into this one's directory
expect 0 "another run" ranks 1 mlp.ini -q -o d
rm -rf c && cp -r a c && cp d/checkpoints/step-00000010.h5 c/checkpoints/
expect 5 "of another run, strict" ranks 2 mlp.ini -o c run.strict=yes
says 1 "error: run: [0-9a-f]{16}, of this run.output_dir \(was [0-9a-f]{16}\)"
expect 0 "of another run" ranks 2 mlp.ini -o c train.epochs=3
says 1 "warning: c/checkpoints/step-00000010.h5 is of another run"
checks=$((checks + 1))
cmp -s c/run_id d/run_id || fail "the directory does not belong to the run that continues in it"
expect 0 "of another run, by name" ranks 1 mlp.ini -o e run.strict=yes --resume=d/checkpoints/step-00000005.h5
says 0 "warning: .*another run"
# A run directory for its last checkpoint; its own directory continues, however often it is given.
expect 0 "the directory of another run" ranks 1 mlp.ini -o h --resume=d train.epochs=3
says 1 "start step=10/15"
expect 0 "its own directory" ranks 2 mlp.ini -o h --resume=h train.epochs=4
says 1 "start step=15/20"
says 0 "has gone back"
expect 0 "where it went on from" timeout 1500 "$bin/charl" replay h --step 11
expect 0 "weights of a run directory" ranks 1 mlp.ini -o i --init-from=d
grep -q '^from = .*/d/checkpoints/step-00000010.h5$' i/config.ini || fail "init.from is not the file that d/last.h5 named"

# The newest checkpoint or none
rm -rf c && cp -r a c && : >c/checkpoints/step-00000010.h5
expect 5 "damaged, strict" ranks 2 mlp.ini -o c run.strict=yes
says 1 "error: .*step-00000010.h5"
says 1 "run.strict = yes: no older checkpoint"
: >c/checkpoints/step-00000005.h5
expect 5 "all damaged, strict" ranks 1 mlp.ini -o c run.strict=yes
says 1 "run.strict = yes: no older checkpoint"
rm -rf c && cp -r a c && rm c/checkpoints/step-00000010.h5
expect 5 "gone, strict" ranks 1 mlp.ini -o c run.strict=yes
says 1 "error: c/last.h5 names a checkpoint of step 10 that is not there"
expect 0 "gone" ranks 1 mlp.ini -o c
says 1 "warning: c/last.h5 names a checkpoint of step 10 that is not there"
says 1 "start step=5/10"
rm -rf c && cp -r a c && : >c/checkpoints/step-00000010.h5
expect 0 "overwritten, strict" ranks 1 mlp.ini -q -o c run.strict=yes --overwrite
same "overwritten" a c

# A run directory that was copied or moved is its own: the original stays as it is.
rm -rf c && cp -r a c
expect 0 "a copy" ranks 1 c/config.ini train.epochs=3 run.strict=no
says 1 "note: c/config.ini:[0-9]*: \[run\] output_dir: .*/a is read as c, the run directory of this file"
says 1 "start step=10/15"
mkdir elsewhere && mv c elsewhere/d
(cd / && expect 0 "moved" ranks 1 "$T/elsewhere/d/config.ini" train.epochs=4 run.strict=no && says 1 "start step=15/20" && exit "$failures") || failures=$((failures + 1))
checks=$((checks + 1))
[ "$(readlink a/last.h5) $(readlink elsewhere/d/last.h5)" = "checkpoints/step-00000010.h5 checkpoints/step-00000020.h5" ] && [ ! -e c ] ||
    fail "a copy or a moved run is not continued where it lies"
finish

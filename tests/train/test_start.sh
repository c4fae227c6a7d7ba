#!/bin/sh
# What a training is told or refused before its first step: rows in the order of their classes, rows of one class, metrics that cannot be
# measured, settings that have no effect.
. "$(dirname "$0")/common.sh"

table() { # table FILE ROWS EXPRESSION ARGUMENTS...: a dataset whose target in row i is EXPRESSION
    awk "BEGIN { print \"a,b,y\"; for (i = 0; i < $2; i++) print i % 7 / 7 \",\" i % 5 / 5 \",\" $3 }" >table.csv
    _file=$1
    shift 3
    "$bin/charl" data import csv table.csv --label y -o "$_file" -w "$@" >/dev/null || fail "import of $_file"
}
table sorted.h5 300 '(i < 138 ? "oak" : i < 240 ? "elm" : "ash")'
table mixed.h5 300 '(i % 3 == 0 ? "oak" : "ash")'
table rare.h5 100 '(i == 99 ? "elm" : i % 3 == 0 ? "oak" : "ash")'
table one.h5 40 '"oak"'
table late.h5 60 '(i % 2 == 0 || i >= 45 ? "oak" : "ash")'
table ascending.h5 40 'i / 3' --regression
cat >table.ini <<'INI'
[run]
output_dir = run
[data]
path = sorted.h5
[model]
type = mlp
hidden = 4
[train]
batch_size = 8
epochs = 2
INI
train="ranks 1 table.ini -q"

# Rows that data.val_split cuts off are like the others, and the way out works as it is written.
expect 2 "rows in the order of their classes" $train data.val_split=0.2
says 1 "sorted.h5: data.val_split takes the last 60 rows for validation, and all of them are of class 0 \(ash\): the rows are not in random"
says 1 "charl data split sorted.h5 --val-split 0.2 -o FILE"
expect 2 "classes that no training row has" $train data.val_split=0.5
says 1 "last 150 rows for validation, and class 0 \(ash\) has 60 of them and 0 of the training rows: the rows are not in random"
expect 0 "the way out" "$bin/charl" data split sorted.h5 --val-split 0.2 -o split.h5
expect 0 "rows at random" $train data.path=split.h5
says 0 "warning"
expect 0 "rows of two classes" $train data.path=mixed.h5 data.val_split=0.2 -o mixed
says 0 "warning"
expect 0 "a rare class" $train data.path=rare.h5 data.val_split=0.2 -o rare
says 1 "warning: .* takes the last 20 rows for validation, and class 1 \(elm\) has 1 of them and 0 of the training rows$"
expect 0 "numbers in ascending order" $train data.path=ascending.h5 data.val_split=0.2 -o ascending
says 1 "warning: ascending.h5: .* their targets, 10.6667 to 13, are all beyond those of the training rows, 0 to 10.3333"

# One class is nothing to learn.
expect 3 "one class" $train data.path=one.h5 -o one
says 1 "one.h5: all 40 training rows are of class 0 \(oak\), so there is nothing to learn"

# A metric without a value chooses no checkpoint and stops no run.
expect 2 "a monitor without validation rows" $train data.path=mixed.h5 checkpoint.monitor=val/auc -o none
says 1 "checkpoint.monitor = val/auc needs a validation set, mixed.h5 has none"
expect 0 "a monitor without evaluations" $train data.val_split=0.2 data.path=mixed.h5 checkpoint.monitor=val/auc eval.interval=0 -o unevaluated
says 1 "warning: checkpoint.monitor = val/auc has no effect: eval.interval is 0, so nothing is evaluated"
expect 0 "a validation set of one class" "$bin/charl" data split late.h5 --val-split 0.25 --in-order -o late1.h5
expect 2 "auc of one class" $train data.path=late1.h5 checkpoint.monitor=val/auc -o none
says 1 "compares samples of different classes, and all 15 validation rows of late1.h5 are of class 1 \(oak\)"
expect 0 "accuracy of one class" $train data.path=late1.h5 -o accuracy
says 1 "warning: all 15 validation rows of late1.h5 are of class 1 \(oak\): they say nothing of the other classes"
expect 0 "auc of a batch of one class" ranks 2 table.ini data.path=split.h5 checkpoint.monitor=val/auc eval.max_batches=1 train.batch_size=2 \
    train.epochs=1 eval.interval=10 train.early_stopping_patience=2 -o unmeasured
says 1 "warning: step 10: val/auc, which is checkpoint.monitor, cannot be measured on these rows, which are of one class: such"
says 0 "Z early stopping"
says 1 " done step=120 "
[ -e unmeasured/best.h5 ] && fail "an evaluation without a value is the best"

# Settings without effect are told once; a complete run names the limit that ended it; a schedule that is stretched makes the rate jump.
expect 0 "a long warm-up" ranks 2 table.ini data.path=mixed.h5 scheduler.warmup_steps=20 train.max_steps=4 eval.metrics=f1 -o settings
says 1 "warning: scheduler.warmup_steps = 20 is not shorter than the run of 4 steps: the learning rate only reaches 0.00019 of 0.001$"
says 1 "warning: eval.metrics = f1 has no effect: there are no validation rows$"
says 2 "warning"
expect 0 "complete" ranks 1 table.ini data.path=mixed.h5 scheduler.warmup_steps=20 train.max_steps=4 eval.metrics=f1 -o settings
says 1 "nothing left to do; to continue training, increase train.max_steps$"
expect 0 "a run" $train data.path=mixed.h5 scheduler.type=cosine -o cosine train.epochs=1
says 0 "warning"
expect 0 "complete, too" ranks 1 table.ini data.path=mixed.h5 scheduler.type=cosine -o cosine train.epochs=1
says 1 "nothing left to do; to continue training, increase train.epochs$"
expect 0 "a longer run" $train data.path=mixed.h5 scheduler.type=cosine -o cosine
says 1 "warning: the learning rate goes from 1.71e-06 in step 38 to 0.00049 in step 39, .* the run has 75 steps, before it had 38;"

finish

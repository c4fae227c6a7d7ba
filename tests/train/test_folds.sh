#!/bin/sh
# data.fold: a fold has the bits of one rank on 2 and 3; a sweep over the folds tells mean and deviation; evaluations, predictions and the lock of a run
# know the fold of their data.
. "$(dirname "$0")/common.sh"

"$bin/charl" data make digits whole.h5 --train 120 --val 0 >log 2>&1 || fail "the data"
cat >t.ini <<'INI'
[data]
path = whole.h5
[model]
type = mlp
hidden = 8
[train]
batch_size = 24
slices = 6
max_steps = 6
[device]
share = yes
INI
for n in 1 2 3; do
    expect 0 "fold 2 of 3 on $n ranks" ranks $n t.ini -q data.fold=2/3 -o on$n
done
same "two ranks" on1 on2
same "three ranks" on1 on3
expect 0 "fold 3 of 3" ranks 1 t.ini -q data.fold=3/3 -o other
checks=$((checks + 3))
"$bin/charl" checkpoint diff on1/last.h5 other/last.h5 >log 2>&1 && fail "two folds train the same"
grep -q '^fold = 2/3$' on1/config.ini || fail "config.ini"
lock() { sed -n 's/^start .* config=\([0-9a-f]*\) .*/\1/p' "$1/run.lock"; }
[ -n "$(lock on1)" ] && [ "$(lock on1)" != "$(lock other)" ] || fail "run.lock does not tell the fold"
expect 0 "its evaluation" "$bin/charl" eval on1
says 1 '^val step=6 loss='
expect 0 "its predictions" "$bin/charl" eval on1 --predictions val.csv
checks=$((checks + 2))
[ "$(wc -l <val.csv)" -eq 41 ] || fail "a third of 120 rows is $(wc -l <val.csv)"
expect 0 "predictions of the same data" "$bin/charl" predict on1 whole.h5 --all -o again.csv
cmp -s val.csv again.csv || fail "charl predict takes other rows"
expect 0 "verification" "$bin/charl" verify on1
expect 0 "cross-validation" timeout 1500 "$bin/charl" sweep t.ini data.fold=1/3,2/3,3/3 optimizer.learning_rate=1e-3,1e-2 -o cv
says 1 '^6 runs in cv: 6 new$'
says 1 '^learning_rate  runs  val/loss mean  deviation +best  at step$'
says 1 '^ +1e-2 +3/3 '
expect 0 "the comparison" "$bin/charl" compare --seeds cv/*/
says 1 '^  A  seeds .* fold 1/3, .* fold 2/3, .* fold 3/3; optimizer.learning_rate = '
expect 0 "a fold of one row" ranks 1 t.ini data.fold=1/120 train.max_steps=1 -o one
says 1 'all 1 validation rows of .*whole.h5 are of '
expect 2 "data with a validation set" ranks 1 t.ini data.path=digits.h5 data.fold=1/3 -o none
says 1 'digits.h5 has a validation set, and a fold would be another one$'
expect 2 "both" ranks 1 t.ini data.val_split=0.2 data.fold=1/3 -o none
says 1 'fold: takes rows for validation, and so does val_split: leave one of them out$'
finish

#!/bin/sh
# charl sweep trains steps that runs have in common once: every run has the tensors, the state and the metrics of a run alone, and a run.lock that
# a replay proves; where that cannot be shown, nothing is shared.
rows=80
. "$(dirname "$0")/common.sh"

# sweep CODE WHAT ARGUMENTS...
sweep() {
    _code=$1 _what=$2
    shift 2
    expect "$_code" "$_what" timeout 1500 "$bin/charl" sweep "$@"
}

# shared WHAT PERCENT CONFIG ARGUMENTS...: a sweep in shared/ and one in separate/, of which the first trains at most so many of the steps
shared() {
    _w=$1 _percent=$2
    shift 2
    rm -rf shared separate
    sweep 0 "$_w, separate" "$@" --alone -j 2 -o separate
    says 1 '^[0-9]+ steps trained$'
    _all=$(sed -n 's/^\([0-9]*\) steps trained$/\1/p' log)
    sweep 0 "$_w, shared" "$@" -o shared
    _some=$(sed -n 's/^\([0-9]*\) steps trained; \([0-9]*\) more are those of other runs$/\1 \2/p' log)
    checks=$((checks + 3))
    [ $((${_some% *} + ${_some#* })) -eq "$_all" ] || fail "$_w: $_some steps of $_all"
    [ $((100 * ${_some% *})) -lt $((_percent * _all)) ] || fail "$_w: ${_some% *} of $_all steps are trained"
    for _d in separate/*/; do
        _n=$(basename "$_d")
        for _r in separate shared; do
            sed -n 's/^checkpoint step=\([0-9]*\) \(tensors=[0-9a-f]* state=[0-9a-f]*\) .*/\1 \2/p' "$_r/$_n/run.lock" | tail -n 1 >$_r.last
            "$bin/charl" checkpoint show "$_r/$_n/best.h5" 2>&1 | sed -n 's/^ *best  *//p' >$_r.best
            losses "$_r/$_n" >$_r.csv
        done
        checks=$((checks + 1))
        [ -s shared.last ] && cmp -s shared.last separate.last && cmp -s shared.best separate.best && cmp -s shared.csv separate.csv ||
            fail "$_w: $_n is not the run alone"
    done
}
sed 's/^type = cosine/type = wsd/' mlp.ini >wsd.ini
set -- wsd.ini train.max_steps=20 eval.interval=4 checkpoint.keep_last=100 data.augment=flip,crop:2 train.precision=bf16 train.ema_decay=0.9
shared "bf16, dropout, augmentation, average" 70 "$@" scheduler.decay_steps=3,6 scheduler.min_lr=0,1e-4
says 2 ': begins after step 15 of '
says 1 ': begins after step 18 of '
expect 0 "a run that began with another is proven" "$bin/charl" verify shared/decay_steps=6,min_lr=1e-4 --segments 20
says 1 '^proven by a replay: every step$'
checks=$((checks + 1))
[ "$(grep -c '^resume .* step=15 ' shared/decay_steps=6,min_lr=1e-4/run.lock)" -eq 1 ] || fail "run.lock does not tell where it began"
# Lengths: not the last step of the shorter one, which an evaluation follows. Other seeds, rates and models have nothing in common.
shared "lengths" 80 wsd.ini scheduler.type=constant train.max_steps=6,9,12 eval.interval=4
says 1 ': begins after step 5 of '
says 1 ': begins after step 8 of '
for other in run.seed=1,2 optimizer.learning_rate=1e-3,2e-3 'model.hidden=24|24, 8' optimizer.weight_decay=0,0.1 scheduler.warmup_steps=2,3; do
    sweep 0 "nothing in common: $other" wsd.ini train.max_steps=12 "$other" -o none --dry-run
    says 2 '^new '
    says 0 ' after step '
done
for other in train.early_stopping_patience=5 eval.interval=1s; do
    sweep 0 "what cannot be shared: $other" wsd.ini train.max_steps=12 scheduler.decay_steps=2,3 "$other" -o none --dry-run
    says 0 ' after step '
done
sweep 0 "the same without it" wsd.ini train.max_steps=12 scheduler.decay_steps=2,3 -o none --dry-run
says 1 '^new +decay_steps=3, after step 10 of decay_steps=2$'
# An interruption between the forks: the rest is shared all the same.
rm -rf shared
CHARL_FAULT=train.stop:10 sweep 75 "stopped before the forks" "$@" scheduler.decay_steps=3,6 scheduler.min_lr=0,1e-4 -o shared
sweep 0 "continued" "$@" scheduler.decay_steps=3,6 scheduler.min_lr=0,1e-4 -o shared
says 3 ': begins after step '
if [ -n "$long" ]; then
    set -- cnn.ini train.max_steps=40 eval.interval=4 scheduler.type=wsd scheduler.decay_steps=2,4,6,8 scheduler.min_lr=0,1e-4,1e-3,1e-2
    shared "batch norm, 16 runs" 40 "$@"
    expect 0 "a base" ranks 1 mlp.ini -q -o base
    shared "LoRA, 16 runs" 40 wsd.ini train.max_steps=40 init.from=base/last.h5 lora.rank=2 "lora.targets=*" scheduler.decay_steps=2,4,6,8 \
        scheduler.min_lr=0,1e-5,1e-4,1e-3
fi
finish

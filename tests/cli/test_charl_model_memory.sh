#!/bin/sh
# charl model memory: its parts are the memory that the device counts and --dry-run prints, its tensors are those of the model; nothing is
# written.
. "$(dirname "$0")/../train/common.sh"

# adds_up WHAT: the last log, and plan, that of --dry-run for the same
adds_up() {
    checks=$((checks + 1))
    /usr/bin/python3 - <<'PY' || { fail "$1: the memory does not add up"; cat log plan; }
import re
unit = {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}
mib = lambda number, u: float(number) * unit[u]
text, plan = open("log").read(), open("plan").read()
head = re.search(r"^([0-9.]+) (.iB) of ", text, re.M)
table, peak, parameters = re.split(r"\n\n(?=activations: |parameters )", text)
rows = re.findall(r"^  ([a-z].*?) +([0-9.]+) (.iB) +[0-9.]+ %$", table, re.M)
total = sum(mib(n, u) for _, n, u in rows)
assert len(rows) > 5 and len({r[0] for r in rows}) == len(rows), rows
assert abs(total - mib(*head.groups())) < 0.006 + 0.005 * len(rows), (total, head[0])
want = re.search(r"memory +([0-9.]+) (.iB) of .*, ([0-9.]+) (.iB) of it activations", plan)
most = re.search(r"([0-9.]+) (.iB)  at most", table)
assert abs(mib(*(most or head).groups()) - mib(want[1], want[2])) < 0.06, (want[0], most, head)
in_use, reserved = re.search(r"activations: ([0-9.]+ .iB) in use at most, ([0-9.]+ .iB) reserved", peak).groups()
assert abs(mib(*reserved.split()) - mib(want[3], want[4])) < 0.06, (reserved, want[0])
activations = sum(mib(n, u) for name, n, u in rows if name.startswith("activations"))
assert abs(activations - mib(*reserved.split())) < 0.011, (rows, reserved)  # the evaluation, which is smaller, has none of its own
assert mib(*in_use.split()) <= mib(*reserved.split()) + 0.006
tensors = re.findall(r"^  .*?([0-9.]+) (.iB)$", peak, re.M)
assert abs(sum(mib(*t) for t in tensors) - mib(*in_use.split())) < 0.006 + 0.005 * len(tensors), (tensors, in_use)
values = re.findall(r"^  \S.*?([0-9.]+) (.iB) +([0-9.]+ .iB|not trained)$", parameters, re.M)
assert len(values) >= 4, parameters
PY
}

# memory WHAT CONFIG [KEY=VALUE...]
memory() {
    _what=$1
    shift
    "$bin/charl-train" "$@" --dry-run >plan 2>&1 || { fail "$_what: --dry-run"; cat plan; }
    expect 0 "$_what" "$bin/charl" model memory "$@"
    adds_up "$_what"
}

memory "cnn" cnn.ini
says 1 "^  conv2.weight +\[8, 4, 3, 3\] +1.12 KiB"
says 1 "^  training data +"
# Kernels, of which the others are what the device was asked with (AMX is tried with a product).
kernels() {
    ls "$1" | grep -cv probe
}
mkdir planned compiled
expect 0 "no kernel" env CHARL_NO_TENSOR_CORES=1 CHARL_DUMP_KERNELS="$T/planned" "$bin/charl" model memory cnn.ini
expect 0 "the kernels" env CHARL_DUMP_KERNELS="$T/compiled" "$bin/charl-train" --dry-run cnn.ini
checks=$((checks + 1))
[ "$(kernels planned)" -eq 0 ] && [ "$(kernels compiled)" -gt 5 ] || fail "kernels were compiled: $(ls planned compiled)"
memory "no data on the device" cnn.ini data.cache=none
says 1 "^  training data +"
memory "passes" mlp.ini train.grad_accum_steps=2 optimizer.type=sgd optimizer.momentum=0.9
says 1 "^  fc1.weight +\[24, 784\] +73.50 KiB +73.50 KiB"
memory "muon" mlp.ini optimizer.type=muon
says 1 "^  optimizer  .* [0-9.]+ .iB"
make_gpt
printf '[train]\nbatch_size = 8\nmax_steps = 1\nprecision = bf16\nfreeze = wpe.*\n' >>gpt.ini
memory "gpt in bf16" gpt.ini model.n_layer=4
says 1 "^  wpe.weight .* not trained$"
says 1 "^  [0-9]+ smaller ones"
says 1 "^  [0-9]+ more; --all shows them"
expect 0 "all" "$bin/charl" model memory gpt.ini --all model.n_layer=4
says 0 "more; --all|smaller ones"
says 1 "^  h.3.mlp.c_proj.weight +\\["
says 1 "about, by dist.shard, with the same batch on so many ranks:"
says 1 "^  gradients  .* MiB"
says 0 "^  shards"
expect 0 "within nodes" env CHARL_RANKS_PER_NODE=2 "$bin/charl" model memory mlp.ini dist.shard=gradients dist.shard_group=node
says 1 "^  shards  +1 +2 +2 +2$"
says 1 "^  parameters  .*[KM]iB +- +- +-$"

expect 0 "2 ranks" mpirun -q --oversubscribe --bind-to none -n 2 "$bin/charl" model memory mlp.ini
expect 0 "2 ranks" mpirun -q --oversubscribe --bind-to none -n 2 "$bin/charl" model memory mlp.ini dist.allreduce=peer
says 1 "^parameters "
expect 2 "a wrong key" "$bin/charl" model memory mlp.ini model.hiden=3
says 1 "did you mean"
expect 3 "no data" "$bin/charl" model memory mlp.ini data.path=none.h5
expect 2 "nothing" "$bin/charl" model memory
expect 2 "no such verb" "$bin/charl" model size mlp.ini
checks=$((checks + 1))
[ ! -e run ] || fail "a run directory was made"
# 80 columns
expect 0 "narrow" "$bin/charl" model memory gpt.ini
checks=$((checks + 1))
awk 'length > 80 { print; bad = 1 } END { exit bad }' log || fail "lines of more than 80 characters"
finish

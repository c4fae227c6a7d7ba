#!/bin/sh
# Names are said in one way everywhere: what --version and --env print comes from the tables that training looks in, --help-config from
# that of the configuration; both, the documents, messages and other commands name the same optimizers, schedulers, layers, ...
. "$(dirname "$0")/charl.sh"
train=$bin/charl-train

checks=1

"$train" --version >version || fail "--version"
"$train" --env >env || fail "--env"
"$train" --help-config >keys || fail "--help-config"

grep -q '^  C11, OpenCL 1.2, .*[0-9], HDF5 [0-9][0-9.]*$' version || fail "--version: versions of MPI and HDF5"
for kind in bytes chars bpe pretrained; do
    grep -q "^  tokenizers:.* $kind" version || fail "--version: tokenizer $kind"
done

# version_has TITLE: the names behind it, one per line
version_has() {
    sed -n "s/^  $1: //p" version | tr ' ' '\n'
}

# key_has SECTION KEY: its choices, one per line
key_has() {
    awk -v section="[$1]" -v key="$2" '
        /^\[/ { inside = $0 == section }
        inside && $1 == key && $2 == "=" { getline; sub(/;.*/, ""); gsub(/[ ]/, ""); gsub(/,/, "\n"); print; exit }' keys
}

# same WHAT A B: files of names, in any order
same() {
    sort "$2" >a
    sort "$3" >b
    [ -s a ] || fail "$1: no names"
    cmp -s a b || { fail "$1:"; diff a b; }
}

for pair in models:model.type losses:train.loss precisions:train.precision optimizers:optimizer.type schedulers:scheduler.type; do
    key=${pair#*:}
    version_has "${pair%%:*}" >one
    key_has "${key%.*}" "${key#*.}" | grep -vx auto >two
    same "$pair" one two
done
version_has all-reduces >one
key_has dist allreduce | grep -vx auto >two
same "all-reduces" one two
version_has exporters >one
key_has checkpoint export | grep -vx none >two
same "exporters" one two
version_has metrics >one
key_has eval metrics | sed 's/^listof//' | grep -vx auto >two
same "metrics" one two
version_has layers >one
sed -n '/^\[layer NAME\]/,$s/^  type = //p' keys >two
same "layers" one two
grep '^  ' version | grep -vxF -f env && fail "--env lacks these lines of --version"

# named WHAT DOCUMENT: it has all names of WHAT between backquotes
named() {
    for name in $(version_has "$1"); do
        grep -q "\`$name\`" "$root/docs/$2" || fail "docs/$2 does not name $name of the $1"
    done
}
named optimizers training.md
named schedulers training.md
named losses training.md
named metrics training.md
named layers models/sequential.md
version_has all-reduces | grep -vx local | while read -r name; do
    grep -q "\`$name\`" "$root/docs/distributed.md" || echo "$name"
done >missing
[ ! -s missing ] || fail "docs/distributed.md does not name: $(cat missing)"
for name in $(version_has importers); do
    grep -q "charl data import $name " "$root/datasets/README.md" || fail "datasets/README.md does not name the importer $name"
    "$charl" data import --help | grep -q "^  $name " || fail "charl data import --help does not name $name"
done
for name in $("$charl" data make --help | sed -n 's/^  \([a-z]*\): .*/\1/p'); do
    "$charl" data make none x.h5 2>&1 | grep -q "the kinds are .*$name" || fail "charl data make does not list $name"
    grep -q "charl data make $name " "$root/datasets/README.md" || fail "datasets/README.md does not name the kind $name"
done
for name in $(version_has models); do
    [ -f "$root/docs/models/$name.md" ] || fail "there is no docs/models/$name.md"
done

# Every optimizer can be sharded, and docs/distributed.md says how, and with which ones parameters cannot be
printf '[data]\npath = none.h5\n[model]\ntype = mlp\n' >c.ini
for name in $(version_has optimizers); do
    "$train" c.ini --print-config dist.shard=optimizer optimizer.type="$name" >out 2>&1 || fail "dist.shard with $name: $(tail -n 1 out)"
    "$train" c.ini --print-config dist.shard=parameters optimizer.type="$name" >out 2>&1
    code=$?
    listed=0
    grep -q "^- It does not work with .*\\b$name\\b" "$root/docs/distributed.md" && listed=2
    [ $code -eq $listed ] || fail "dist.shard = parameters with $name: exit $code, but docs/distributed.md says otherwise"
done
words=$(grep -A2 'update every element independently, so ranks divide each tensor' "$root/docs/distributed.md" | tr -d '\n')
for name in $(version_has optimizers); do
    case $words in *"$name"*) ;; *) fail "docs/distributed.md does not say how $name is sharded" ;; esac
done

# Messages and other commands
"${charl}-bench" optimizer --shape 1:none >out 2>&1
for name in $(version_has optimizers); do
    grep -q ":$name\\b" out || fail "charl-bench optimizer does not know $name"
done
for name in $(version_has exporters); do
    "$charl" checkpoint export --help | grep -q "\\.$name" || fail "charl checkpoint export does not name .$name"
done

# --env=json tells every variable of charl that is set, but not those that are not
CHARL_NO_FUSION=1 CHARL_TUNE=no CHARL_LOG=error "$train" --env=json >out 2>err || fail "--env=json"
for name in CHARL_NO_FUSION CHARL_TUNE CHARL_LOG; do
    grep -q "\"$name\":" out || fail "--env=json leaves out $name"
done
grep -q '"CHARL_SYNC"' out && fail "--env=json has a variable that is not set"
finish

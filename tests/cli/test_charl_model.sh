#!/bin/sh
# charl model show: the table and the pictures of a graph, shapes of the data or given ones, mistakes with file and line.
. "$(dirname "$0")/../train/common.sh"
show() { "$bin/charl" model show graph.ini "$@"; }

expect 0 "of the data" show
says 1 '^  input +f32 +1x28x28 *$'
says 1 '^  in\.c +conv2d +4x28x28 +36 +56\.4 k +12\.2 KiB$'
says 1 '^  skip +concat +10x28x28 +30\.6 KiB  <- up, in\.n$'
says 1 '^  encoder\.1\.sum +add +50x16 +3\.12 KiB  <- encoder\.1\.proj, encoder\.0\.sum$'
says 1 '^  31 layers +5466 '
says 1 '^  40 numbers more are not trained'
cp log table
expect 0 "of a given shape" show --input 1x28x28 --outputs 10
checks=$((checks + 1))
cmp -s log table || fail "the same shape gives another table"
expect 0 "other channels, more classes" show -i 3x24x28 -n 100
says 1 '^  positions +position_embedding +43x16 '
expect 0 "in bf16" show train.precision=bf16
says 1 '^  31 layers +5466 '
long=a_layer_whose_name_is_very_long
printf '[data]\npath = digits.h5\n[model]\ntype = sequential\n[layer flat]\ntype = flatten\n[layer %s]\ntype = linear\nout = 10\n' "$long" >long.ini
expect 0 "a long name in a file" "$bin/charl" model show long.ini
says 1 "^  $long  linear "
if command -v script >/dev/null; then
    expect 0 "a long name on a terminal" env TERM=xterm script -qec "stty cols 78; '$bin/charl' model show long.ini" /dev/null
    says 1 '^  a_layer_[a-z_]*[.][.][a-z_]*ery_long  linear '
    checks=$((checks + 1))
    [ "$(awk '{ sub(/ *\r$/, "") } / linear / { print length }' log)" -le 78 ] || fail "the table is wider than the terminal: $(cat log)"
    awk '/^```/ { on = $0 == "```ini" && !n++; next } on' "$here/../../docs/models/bert.md" >bert.ini
    for columns in 80 120; do
        expect 0 "long names of inputs, too" env TERM=xterm script -qec \
            "stty cols $columns; '$bin/charl' model show bert.ini --tokens 64 --outputs 257" /dev/null
        checks=$((checks + 1))
        [ -z "$(awk -v most=$columns '{ sub(/ *\r$/, "") } length > most' log)" ] || fail "the table is wider than $columns: $(cat log)"
        says 1 "bert.encoder.layer.0.attention.self.value.?$"
    done
else
    skipped "a long name on a terminal" "there is no script"
fi
rm digits.h5
expect 3 "without data" show
says 1 'digits.h5'
says 1 'hint.* --input 3x224x224 --outputs 10'

# The training has as many parameters as the table says.
"$bin/charl" data make digits digits.h5 -t 64 -v 32 >/dev/null || exit 1
expect 0 "dry run" ranks 1 --dry-run -v graph.ini
says 1 '^  model +31 layers, 5,466 parameters'
says 1 '^  31 layers +5466 '
says 1 '^  skip .*<- up, in\.n$'

expect 0 "dot" show --dot
says 1 '^  "up" -> "skip";$'
says 1 '^  "in\.n" -> "skip";$'
says 1 '^  "skip" \[label="skip.nconcat.n10x28x28"\];$'
command -v dot >/dev/null && expect 0 "Graphviz reads it" sh -c "'$bin/charl' model show graph.ini --dot | dot -Tsvg"
expect 0 "svg" show --svg
cp log picture.svg
expect 0 "a picture is XML" /usr/bin/python3 -c 'import sys, xml.dom.minidom as d
t = d.parse("picture.svg"); assert len(t.getElementsByTagName("rect")) == 27, t # encoder.1 is drawn with encoder.0
# an edge for every input: 26 layers, of which skip, the sum and both read two; and the bracket beside the copies
assert len(t.getElementsByTagName("path")) == 30, len(t.getElementsByTagName("path"))
texts = [x.firstChild.data for x in t.getElementsByTagName("text") if x.firstChild]
assert "2 \u00d7" in texts and "1024" in texts and "5466 parameters" in texts, texts'

expect 2 "shapes that do not fit" show --input 1x27x28 --outputs 10
says 1 'graph.ini:48: skip.concat: .*; it reads up \[1, 6, 26, 28\], in.n \[1, 4, 27, 28\]'
expect 2 "a padding that is too large" show layer.down.padding=2 -i 1x28x28 -n 10
says 1 'graph.ini:[0-9]*: down.max_pool2d: padding 2 is more than half'
expect 2 "an unknown input" show layer.skip.input=up,inn
says 1 '\[layer skip\] input: there is no layer inn'
expect 2 "a layer that nothing reads" show layer.skip.input=up,up -i 1x28x28 -n 10 layer.up.input=in
says 1 'graph.ini:[0-9]*: layer deep\.1\.n: no layer reads it, and it is not the last one'
expect 2 "an unknown activation" show layer.mean.type=linear layer.mean.out=4 layer.mean.activation=relu7
says 1 'error: command line: .layer mean. activation: "relu7" is not one of relu, '
expect 2 "an unknown layer" show layer.mean.type=linear layer.mean.out=16 layer.mean.tie=none
says 1 'error: command line: .layer mean. tie: no layer before this one is named none'
expect 2 "no activation, no tie: shapes of the sum do not fit" show layer.mean.type=linear layer.mean.out=16 layer.mean.activation= layer.mean.tie=
says 1 'graph.ini:[0-9]*: both.add: '
expect 2 "outputs missing" show --input 1x28x28
says 1 '\-\-outputs is missing'
expect 2 "no shape" show --input 1x0 --outputs 3
expect 2 "two pictures" show --dot --svg

cat >gpt.ini <<'INI'
[data]
path = none.h5
[model]
type = gpt
n_layer = 2
n_head = 2
n_embd = 16
block_size = 32
INI
expect 0 "a model by name, of tokens" "$bin/charl" model show gpt.ini --tokens 24 --outputs 100
says 1 '^  input +i32 +24 *$'
says 1 '^  lm_head +linear +24x[0-9]+ '
finish

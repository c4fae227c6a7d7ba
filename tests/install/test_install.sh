#!/bin/sh
# The installed tree, at another place than it was installed to: headers alone in C11 and C++17, the symbols of the libraries, and the
# examples, built by find_package and by pkg-config, outside of the source tree. The same weights on one rank and on several.
# Environment: CHARL_BUILD_DIR, CHARL_LIBDIR (relative to the prefix), CHARL_TEST_FLAGS (what sanitizers need).
here=$(cd "$(dirname "$0")" && pwd)
build=${CHARL_BUILD_DIR:?} libdir=${CHARL_LIBDIR:?} flags=${CHARL_TEST_FLAGS:-}
unset CHARL_BUILD_DIR CHARL_LIBDIR CHARL_TEST_FLAGS
. "$here/../train/common.sh"
source=$here/../..

expect 0 "install" cmake --install "$build" --prefix "$T/first"
mv first prefix || exit 1
lib=$T/prefix/$libdir
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib

# Documents and examples are installed.
for file in LICENSE README.md docs/tutorial.md docs/img/digits.png examples/train_mlp.c; do
    checks=$((checks + 1))
    [ -f "prefix/share/doc/charl/$file" ] || fail "share/doc/charl/$file is not installed"
done

# Each header compiles alone, and charl.h has them all.
for header in prefix/include/charl/*.h; do
    name=charl/$(basename "$header")
    printf "#include \"%s\"\ntypedef int charl_alone;\n" "$name" >alone.c
    cp alone.c alone.cpp
    expect 0 "$name in C11" cc -std=c11 -Wall -Wextra -pedantic -Werror -Iprefix/include -fsyntax-only alone.c
    expect 0 "$name in C++17" c++ -std=c++17 -Wall -Wextra -pedantic -Werror -Iprefix/include -fsyntax-only alone.cpp
    checks=$((checks + 1))
    [ "$name" = charl/charl.h ] || grep -q "#include \"$name\"" prefix/include/charl/charl.h || fail "charl.h does not include $name"
done

# Each library shows what its headers declare and nothing else, but for what libcharl shows to its sisters.
for library in charl train report; do
    name=libcharl$([ $library = charl ] || echo "-$library")
    headers=$(awk -F ' *[|] *' -v library=$library '$1 == library { print $4 }' "$source/src/layers.txt")
    nm -D --defined-only "$lib/$name.so" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | grep -v '^charl__' | sort -u >exported
    checks=$((checks + 1))
    for header in $headers; do
        cat "prefix/include/charl/$header.h" || fail "$name has no $header.h"
    done | sed -e 's#/\*.*\*/##' | awk '/\/\*/ { skip = 1 } !skip && !/^#/ { print } /\*\// { skip = 0 }' |
        grep -oE '\bcharl_[a-z0-9_]+ ?\(' | tr -d ' (' | grep -v '^charl_status$' | sort -u >declared
    comm -13 declared exported >hidden_names
    [ ! -s hidden_names ] || fail "$name exports what its headers do not declare: $(tr '\n' ' ' <hidden_names)"
    comm -23 declared exported >missing
    [ ! -s missing ] || fail "$name does not export what its headers declare: $(tr '\n' ' ' <missing)"
done

# The examples, by find_package; the C++ program by pkg-config.
expect 0 "configuring the examples" cmake -S "$source/examples" -B by_cmake -DCMAKE_PREFIX_PATH="$T/prefix" \
    -DCMAKE_C_FLAGS="-Wall -Wextra -pedantic -Werror $flags"
expect 0 "building the examples" cmake --build by_cmake
mkdir feature
printf 'cmake_minimum_required(VERSION 3.16)\nproject(feature LANGUAGES NONE)\nfind_package(charl REQUIRED COMPONENTS train report telepathy)\n' >feature/CMakeLists.txt
expect 1 "a component that charl does not have" cmake -S feature -B feature -DCMAKE_PREFIX_PATH="$T/prefix"
says 1 "this build of charl is without telepathy"
mkdir parent
printf 'cmake_minimum_required(VERSION 3.25)\nproject(parent LANGUAGES C)\nadd_subdirectory(%s charl)\nadd_library(x INTERFACE)\ntarget_link_libraries(x INTERFACE charl::charl)\n' \
    '"${CHARL}"' >parent/CMakeLists.txt
expect 0 "charl in another project" cmake -S parent -B parent/build -DCHARL="$(cd "$source" && pwd)"
for example in "$source"/examples/*.c; do
    name=$(basename "$example" .c)
    # shellcheck disable=SC2046,SC2086 # several words
    expect 0 "$name by pkg-config" cc -std=c11 -Wall -Wextra -pedantic -Werror $flags "$example" -o "$name" $(pkg-config --cflags --libs charl-train) -lm
done
# shellcheck disable=SC2046,SC2086
expect 0 "C++17 by pkg-config" c++ -std=c++17 -Wall -Wextra -pedantic -Werror $flags "$here/program.cpp" -o program $(pkg-config --cflags --libs charl)
expect 0 "C++17" ./program

# The program of the tutorial in C, as a reader copies it.
awk '/^```c$/ { take = 1; next } /^```$/ { take = 0 } take' "$source/docs/c-tutorial.md" >wave.c
# shellcheck disable=SC2046,SC2086
expect 0 "the tutorial's program" cc -std=c11 -Wall -Wextra -pedantic -Werror $flags wave.c -o wave $(pkg-config --cflags --libs charl) -lm
for n in 1 2; do
    expect 0 "the tutorial's program on $n ranks" timeout 1500 mpirun -q --oversubscribe --bind-to none -n $n ./wave
    says 3 "^step "
    cp log wave.$n
done
checks=$((checks + 2))
cmp -s wave.1 wave.2 || { fail "the tutorial's program differs on 2 ranks"; diff wave.1 wave.2; }
awk '/^step 600 / { exit !($NF < 0.05) }' wave.1 || fail "the tutorial's program has learned nothing"

expect 0 "custom_operator" by_cmake/custom_operator
says 1 "^row_norm: 2 samples, 2 gradients"
says 1 "^[|].9, 40.[|] = 41$"
printf '%s\n' '[data]' 'path = digits.h5' '[layer flat]' 'type = flatten' '[layer gate]' 'type = gate' 'start = 0.5' '[layer out]' 'type = linear' \
    'out = 10' '[train]' 'batch_size = 32' 'max_steps = 6' '[optimizer]' 'type = soft_sign' 'learning_rate = 1e-3' '[run]' 'output_dir = own' >own.ini
expect 0 "custom_types" by_cmake/custom_types own.ini
says 1 "^step 6, best validation "
expect 0 "their names in the checkpoint" "$bin/charl" checkpoint show own
says 1 "^  model/gate.scale  "
says 1 "^  optim/mean/gate.scale  "
expect 0 "custom_types on 2 ranks" timeout 1500 mpirun -q --oversubscribe --bind-to none -n 2 by_cmake/custom_types own.ini
expect 1 "a value out of range" sh -c "sed 's/start = 0.5/start = 50/' own.ini >bad.ini && exec by_cmake/custom_types bad.ini"
says 1 "bad.ini:7: .layer gate. start: 50 is out of range"
expect 0 "train_mlp" by_cmake/train_mlp digits.h5
says 4 "^step [0-9]+  loss"
expect 0 "train_mlp by pkg-config" ./train_mlp digits.h5
for n in 1 3; do
    expect 0 "train_ddp on $n ranks" timeout 1500 mpirun -q --oversubscribe --bind-to none -n $n by_cmake/train_ddp digits.h5
    says 1 "^weights "
    cp log ddp.$n
    checks=$((checks + 1))
    cmp -s ddp.1 ddp.$n || { fail "train_ddp differs on $n ranks"; diff ddp.1 ddp.$n; }
done
expect 0 "train_ddp in 3 passes on 2 ranks" timeout 1500 mpirun -q --oversubscribe --bind-to none -n 2 by_cmake/train_ddp digits.h5 3
checks=$((checks + 1))
cmp -s ddp.1 log || { fail "train_ddp differs in 3 passes on 2 ranks"; diff ddp.1 log; }
expect 1 "train_ddp in more passes than slices" by_cmake/train_ddp digits.h5 9
says 1 "^train_ddp: passes = 9, but a rank has 8 of the 8 slices"
for program in gan actor_critic; do
    for n in 1 2; do
        expect 0 "$program on $n ranks" timeout 1500 mpirun -q --oversubscribe --bind-to none -n $n by_cmake/$program
        says 3 "^step "
        cp log $program.$n
        checks=$((checks + 1))
        cmp -s $program.1 $program.$n || { fail "$program differs on $n ranks"; diff $program.1 $program.$n; }
    done
done
checks=$((checks + 2))
awk '/^step 600 / { exit !($NF > 1.7 && $NF < 2.3) }' gan.1 || fail "the points of the generator are not on the circle"
awk '/^step 300 / { exit !($NF > 0.8) }' actor_critic.1 || fail "the actor has learned nothing"
expect 0 "gan, the first part" timeout 1500 mpirun -q --oversubscribe --bind-to none -n 2 by_cmake/gan 500 gan.h5
expect 0 "gan, the second part" timeout 1500 mpirun -q --oversubscribe --bind-to none -n 3 by_cmake/gan 600 gan.h5
checks=$((checks + 1))
tail -n 1 gan.1 | cmp -s - log || { fail "gan differs when it continues"; cat log; }
expect 0 "its state" "$bin/charl" checkpoint verify gan.h5
expect 0 "what is in it" "$bin/charl" checkpoint show gan.h5
says 1 "^  model/discriminator.fc1.weight "
says 1 "^  optim/exp_avg/generator.fc2.bias "
says 1 "^  user/points "
if /usr/bin/python3 -c "import h5py" 2>/dev/null; then
    expect 0 "h5py" /usr/bin/python3 -c "import h5py; f = h5py.File('gan.h5'); assert f.attrs['step'] == 600 and f['user/points'][()] == 76800"
fi
printf 'x' | dd of=gan.h5 bs=1 seek=6000 conv=notrunc 2>/dev/null
expect 1 "a damaged state" by_cmake/gan 700 gan.h5
says 1 "^gan: gan.h5: "
expect 1 "train_ddp on more ranks than slices" timeout 1500 mpirun -q --oversubscribe --bind-to none -n 9 by_cmake/train_ddp digits.h5
says 1 "^train_ddp: .*slices"

# Inference: the same answers from a checkpoint, from safetensors and from charl predict.
"$bin/charl" data make regression regression.h5 -t 64 -v 8 >/dev/null || exit 1
printf '[run]\noutput_dir = reg\n[data]\npath = regression.h5\n[model]\ntype = mlp\nhidden = 8\n[train]\nloss = mse\nmax_steps = 5\nbatch_size = 16\n[device]\nshare = yes\n' >reg.ini
expect 0 "a model to answer with" "$bin/charl-train" reg.ini
awk 'BEGIN { for (r = 0; r < 70; r++) { for (c = 0; c < 8; c++) { printf "%s%g", c ? " " : "", (r * 8 + c) % 11 / 11 } print "" } }' >rows.txt
expect 0 "inference" sh -c 'by_cmake/inference reg/last.h5 <rows.txt >from_h5'
expect 0 "export" "$bin/charl" checkpoint export reg/last.h5 -o reg.safetensors
expect 0 "inference of safetensors" sh -c './inference reg.safetensors reg.ini <rows.txt >from_safetensors'
checks=$((checks + 2))
[ "$(wc -l <from_h5)" -eq 70 ] || fail "inference answered $(wc -l <from_h5) rows of 70"
cmp -s from_h5 from_safetensors || fail "a checkpoint and its safetensors answer differently"
expect 1 "a row that is too short" sh -c 'echo 1 2 3 | by_cmake/inference reg/last.h5'
says 1 "^inference: a row has 3 numbers, not 8"
expect 1 "safetensors without a configuration" sh -c './inference reg.safetensors <rows.txt'
says 1 "config_text"

# A server: two clients at a time, whose answers are those above.
cat >clients.py <<'PY'
import socket, subprocess, sys, threading
probe = socket.socket()
probe.bind(("127.0.0.1", 0))
port = probe.getsockname()[1]
probe.close()
server = subprocess.Popen([sys.argv[1], sys.argv[2], str(port)])
rows, wanted = open("rows.txt").read().splitlines(), open("from_h5").read().splitlines()
wrong = []

def connect():
    while server.poll() is None: # until it listens
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            threading.Event().wait(0.05)
    sys.exit("the server has ended")

def client(first):
    with connect() as s, s.makefile("rw") as f:
        for i in range(first, len(rows), 2):
            f.write(rows[i] + "\n")
            f.flush()
            answer = f.readline().strip()
            if answer != wanted[i]:
                wrong.append("row %d: %s, want %s" % (i, answer, wanted[i]))

try:
    threads = [threading.Thread(target=client, args=(k,)) for k in range(2)]
    for t in threads: t.start()
    for t in threads: t.join()
    with connect() as s, s.makefile("rw") as f:
        f.write("1 2 x\n")
        f.flush()
        print(f.readline(), end="")
finally:
    server.terminate()
sys.exit("\n".join(wrong) if wrong else 0)
PY
expect 0 "server" python3 clients.py by_cmake/server reg/last.h5
says 1 "^error: a row has 2 numbers, not 8"

# Fine-tuning: the same on 1 and 2 ranks; frozen parameters as they were, the others changed.
awk 'BEGIN { for (i = 0; i < 400; i++) { printf "to be or not to be %d, ", i * i % 97 } }' >text.txt
expect 0 "tokens" "$bin/charl" data import text text.txt --tokenizer bytes -o tokens.h5
printf '[run]\noutput_dir = gpt\n[data]\npath = tokens.h5\n[model]\ntype = gpt\nn_layer = 2\nn_head = 2\nn_embd = 32\nblock_size = 16\n[train]\nmax_steps = 4\nbatch_size = 8\n[device]\nshare = yes\n' >gpt.ini
expect 0 "a model to fine-tune" "$bin/charl-train" gpt.ini
expect 0 "generation" by_cmake/generation gpt/last.h5 "to be" 12 0.8
expect 0 "generation of the most probable tokens" sh -c 'by_cmake/generation gpt/last.h5 "to be" 12 0 >drawn'
expect 0 "charl generate" sh -c "'$bin/charl' generate gpt/last.h5 --prompt 'to be' --tokens 12 --temperature 0 >generated"
checks=$((checks + 1))
cmp -s drawn generated || { fail "generation draws other tokens than charl generate"; cat drawn generated; }
expect 1 "generation without a model" by_cmake/generation nosuch.h5 "to be"
says 1 "^generation: nosuch.h5: cannot be opened"
says 1 "^  at .*generation.c:[0-9]+$"
for n in 1 2; do
    expect 0 "finetune on $n ranks" timeout 1500 mpirun -q --oversubscribe --bind-to none -n $n by_cmake/finetune gpt/last.h5 tokens.h5 tuned$n.h5
    says 0 "(wte|wpe|h[.]).*(trained|a gradient|a state)"
    says 2 "trained, a gradient, a state" # ln_f and lm_head
    says 2 "^step "
    cp log tuned.$n
done
says 1 "^33024 bytes of gradients a step" # ln_f in a block of 64 and 256 x 32 of lm_head, times 4
"$bin/charl" checkpoint diff tuned1.h5 tuned2.h5 >log 2>&1
says 0 "model/"
"$bin/charl" checkpoint diff gpt/last.h5 tuned2.h5 >log 2>&1
says 0 "model/(wte|wpe|h[.])"
says 1 "model/ln_f.weight"
finish

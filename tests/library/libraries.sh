#!/bin/sh
# The three libraries: a program with a loop of its own is built where only libcharl is installed, and loads nothing of the others; the loader refuses
# libcharl-train beside libcharl of another version; and the libraries above use no more of what libcharl shows to them alone.
# Environment: CHARL_BUILD_DIR, CHARL_LIBDIR (relative to the prefix), CHARL_TEST_FLAGS (what sanitizers need)
here=$(cd "$(dirname "$0")" && pwd)
build=${CHARL_BUILD_DIR:?} libdir=${CHARL_LIBDIR:?} flags=${CHARL_TEST_FLAGS:-}
unset CHARL_BUILD_DIR CHARL_LIBDIR CHARL_TEST_FLAGS
. "$here/../train/common.sh"
source=$here/../..
# Names charl__ that the library uses of libcharl, at most. Use a public function of libcharl, or move the code down, before you raise a number.
most_train=392
most_report=23

for component in charl charl_development; do
    expect 0 "installing $component" cmake --install "$build" --prefix "$T/prefix" --component $component
done
lib=$T/prefix/$libdir
export PKG_CONFIG_PATH="$lib/pkgconfig" LD_LIBRARY_PATH="$lib"
checks=$((checks + 2))
[ ! -e "$lib/libcharl-train.so.0.1" ] && [ ! -e prefix/include/charl/train.h ] || fail "the component charl installs libcharl-train"
pkg-config --exists charl-train && fail "the component charl installs charl-train.pc"
for example in train_mlp train_ddp gan actor_critic custom_operator; do
    # shellcheck disable=SC2046,SC2086 # several words
    expect 0 "$example with libcharl alone" cc -std=c11 -Wall -Wextra -pedantic -Werror $flags "$source/examples/$example.c" -o $example \
        $(pkg-config --cflags --libs charl) -lm
    ldd $example >log
    says 1 "libcharl.so.0.1 => $lib"
    says 0 "libcharl-|libpng|libjpeg|libpcre2|libutf8proc"
done
expect 0 "train_mlp" ./train_mlp digits.h5
# shellcheck disable=SC2086
expect 1 "a configuration without libcharl-train" cc $flags "$source/examples/inference.c" -o inference -Iprefix/include -L"$lib" -lcharl
printf 'cmake_minimum_required(VERSION 3.16)\nproject(c LANGUAGES NONE)\nfind_package(charl REQUIRED COMPONENTS train)\n' >CMakeLists.txt
expect 1 "the component train, which is not installed" cmake -S . -B configured -DCMAKE_PREFIX_PATH="$T/prefix"
says 1 "this build of charl is without train"

# The tokenizer of a data set and of a checkpoint is copied by a program that cannot encode.
cat >tokens.c <<'END'
#include <charl/charl.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    const charl_dataset_options window = {sizeof window, .window = 4};
    charl_dataset *data = NULL;
    charl_data_schema *schema = NULL;
    charl_status st = argc == 3 ? charl_dataset_open(argv[1], &window, &data) : CHARL_ERR_INVALID;

    st = st == CHARL_OK ? charl_dataset_verify(data) : st;
    st = st == CHARL_OK ? charl_data_schema_create(data, 0, NULL, NULL, &schema) : st;
    if (st == CHARL_OK) {
        const float weight = 1;
        const charl_checkpoint_tensor w = {.group = "model", .name = "w", .dtype = CHARL_F32, .shape = {1, {1}}, .data = &weight};
        const charl_checkpoint c = {.config_text = "", .config_resolved = "", .tensors = &w, .n_tensors = 1, .schema = schema,
            .state = {.rng = "philox4x32-10", .loss_scale = 1, .slices = 1, .batch_size = 1, .world_size = 1,
                      .optim_kind = CHARL_CHECKPOINT_NO_OPTIMIZER}};

        st = charl_checkpoint_save(argv[2], &c);
    }
    puts(st == CHARL_OK ? "copied" : charl_error_message());
    charl_data_schema_destroy(schema);
    charl_dataset_close(data);
    return st != CHARL_OK;
}
END
# shellcheck disable=SC2046,SC2086
expect 0 "a program that copies a tokenizer" cc -std=c11 $flags tokens.c -o tokens $(pkg-config --cflags --libs charl)
printf 'the cat and the hat and the bat\n' >text.txt
for kind in bytes chars "bpe --vocab 260"; do
    # shellcheck disable=SC2086
    expect 0 "tokens of $kind" "$bin/charl" data import text text.txt --tokenizer $kind -o tokens.h5 --overwrite
    expect 0 "a copy of the tokenizer of $kind" ./tokens tokens.h5 copy.h5
    expect 0 "its type in the copy" "$bin/charl" checkpoint show copy.h5
    says 1 "${kind%% *}"
    rm -f copy.h5
done

# Parameters are saved and loaded without libcharl-train, which only a configuration needs.
cat >weights.c <<'END'
#include <charl/charl.h>
#include <stdio.h>
int main(void)
{
    const charl_device_request request = {sizeof request, .share = true};
    const charl_params_save_options described = {sizeof described, .config_text = "[model]\ntype = mlp\n"};
    charl_device *dev = NULL;
    charl_params *params = NULL;
    charl_model *model = NULL;
    charl_graph *g = NULL;
    charl_params_report report = {.loaded = 0};
    charl_status st = charl_device_open(&request, &dev);

    st = st == CHARL_OK ? charl_params_create(&params) : st;
    st = st == CHARL_OK ? charl_model_create(&model) : st;
    st = st == CHARL_OK ? charl_model_add_mlp(model, &(charl_mlp_config){.outputs = 2}) : st;
    st = st == CHARL_OK ? charl_graph_create(dev, NULL, &g) : st;
    if (st == CHARL_OK) {
        charl_var *x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {1, 3}}, CHARL_BATCHED);

        charl_graph_keep(g, charl_model_build(model, g, params, x));
        st = charl_graph_compile(g);
    }
    st = st == CHARL_OK ? charl_params_initialize(params, 1) : st;
    st = st == CHARL_OK ? charl_params_save(params, "w.safetensors", NULL) : st;
    st = st == CHARL_OK ? charl_params_save(params, "w.h5", NULL) : st;
    st = st == CHARL_OK ? charl_params_load(params, "w.safetensors", NULL, NULL) : st;
    st = st == CHARL_OK ? charl_params_load(params, "w.h5", NULL, &report) : st;
    printf("%s, %d loaded\n", st == CHARL_OK ? "saved" : charl_error_message(), report.loaded);
    st = charl_params_save(params, "w.h5", &described);
    printf("%s: %s\n", charl_status_name(st), charl_error_message());
    charl_params_report_fini(&report);
    charl_graph_destroy(g);
    charl_model_destroy(model);
    charl_params_destroy(params);
    charl_device_close(dev);
    return 0;
}
END
# shellcheck disable=SC2046,SC2086
expect 0 "a program that saves parameters" cc -std=c11 $flags weights.c -o weights $(pkg-config --cflags --libs charl)
expect 0 "parameters saved and loaded" ./weights
says 1 "^saved, 2 loaded"
says 1 "^ERR_CONFIG: config_text .*-lcharl-train"

# Samples that are image files are refused by a program that cannot decode them.
cat >rows.c <<'END'
#include <charl/charl.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    charl_dataset *data = NULL;
    const charl_status st = argc == 2 ? charl_dataset_open(argv[1], NULL, &data) : CHARL_ERR_INVALID;

    puts(st == CHARL_OK ? "opened" : charl_error_message());
    charl_dataset_close(data);
    return st != CHARL_OK;
}
END
# shellcheck disable=SC2046,SC2086
expect 0 "a program that opens a dataset" cc -std=c11 $flags rows.c -o rows $(pkg-config --cflags --libs charl)
mkdir -p images/a images/b
for class in a b; do
    /usr/bin/python3 - images/$class/1.png <<'PY'
import struct, sys, zlib
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
with open(sys.argv[1], "wb") as f:
    f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress((b"\0" + bytes(4)) * 4)) + chunk(b"IEND", b""))
PY
done
expect 0 "images in the dataset" "$bin/charl" data import images images --size 4 -o stored.h5
expect 0 "a dataset that holds its images" ./rows stored.h5
says 1 "^opened"
expect 0 "images in their files" "$bin/charl" data import images images --size 4 --link -o linked.h5
expect 1 "a dataset of image files without libcharl-train" ./rows linked.h5
says 1 "linked.h5: /train/x is in image files, which libcharl-train reads; HINT link the program with it"

# libcharl of another version under the same name.
mkdir other
ours=$(sed -n 's/^#define CHARL_VERSION "\(.*\)"/\1/p' "$build/include/charl/version.h")
LC_ALL=C sed "s/CHARL_PRIVATE_$ours/CHARL_PRIVATE_9.9.9/" "$build/src/libcharl.so" >other/libcharl.so.0.1
checks=$((checks + 1))
LD_LIBRARY_PATH=$T/other LD_BIND_NOW=1 "$bin/charl" --version >log 2>&1 && fail "charl runs with libcharl of another version"
says 2 "version .CHARL_PRIVATE_$ours. not found .required by .*libcharl-(train|report).so.0.1"

for library in train report; do
    used=$(nm -D -u "$build/src/libcharl-$library.so" | grep -c ' charl__')
    eval "most=\$most_$library"
    checks=$((checks + 1))
    [ "$used" -le "$most" ] || fail "libcharl-$library uses $used names charl__ of libcharl; at most $most"
    echo "libcharl-$library uses $used names charl__ of libcharl"
done
finish

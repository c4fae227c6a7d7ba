/* One function for each reader of files and texts; those of HDF5 files are in hdf5.c. */
#include "io/imports.h"
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "charl/api.h"
#include "config/values.h"
#include "charl/image.h"
#include "charl/import.h"
#include "charl/report.h"
#include "charl/tensor_file.h"
#include "charl/replay.h"
#include "charl/tokenizer.h"
#include "cli/charl/hostfile.h"
#include "device/nvidia/ptx.h"
#include "files/run_lock.h"
#include "io/checkpoint/checkpoint_format.h"
#include "io/schema.h"
#include "data/table/recipe.h"
#include "files/json.h"
#include "io/kind.h"
#include "data/proof_file.h"
#include "data/questions.h"
#include "data/rows/rows.h"
#include "data/tokenizer/bpe.h"

enum { LARGEST = 1 << 20 }; /* bytes of a tensor that is read back */

/* The text of the input, with a NUL behind it; free it. */
static char *text_of(const unsigned char *data, size_t size)
{
    char *text = malloc(size + 1);

    FUZZ_CHECK(text != NULL, "no memory");
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* What is printed of a configuration can be read again and prints the same. */
static void check_config(const char *text, size_t size)
{
    charl_config *cfg = NULL, *again = NULL;
    char *print = NULL, *second = NULL;

    if (fuzz_accepts(charl_config_parse("fuzz.ini", text, size, NULL, 0, &cfg))) {
        FUZZ_CHECK(charl_config_print(cfg, false, &print) == CHARL_OK, "an accepted configuration is not printed");
        FUZZ_CHECK(charl_config_parse("printed", print, strlen(print), NULL, 0, &again) == CHARL_OK,
                   "a printed configuration is refused");
        FUZZ_CHECK(charl_config_print(again, false, &second) == CHARL_OK && strcmp(print, second) == 0,
                   "a printed configuration reads as another one");
        charl_config_destroy(again);
    }
    charl_config_destroy(cfg);
    charl_free(print);
    charl_free(second);
}

static void run_config(const unsigned char *data, size_t size)
{
    check_config((const char *)data, size);
}

/* config.json of a folder of weights. */
static void run_model_from(const unsigned char *data, size_t size)
{
    char text[512];
    const int n = snprintf(text, sizeof text, "[data]\npath = d.h5\n[model]\nfrom = %s\n", fuzz_dir());

    fuzz_put("config.json", data, size);
    check_config(text, (size_t)n);
}

void fuzz_check_import(charl_status st, int64_t window)
{
    const charl_dataset_options options = {sizeof options, .window = window};
    charl_dataset *ds = NULL;

    if (fuzz_accepts(st)) {
        FUZZ_CHECK(charl_dataset_open(fuzz_path("out.h5"), &options, &ds) == CHARL_OK,
                   "the imported dataset is refused");
        FUZZ_CHECK(charl_dataset_verify(ds) == CHARL_OK, "the imported dataset is damaged");
        charl_dataset_close(ds);
    }
}

static void check_import(charl_status st)
{
    fuzz_check_import(st, 1);
}

static void run_csv(const unsigned char *data, size_t size)
{
    static const char *const labels[] = {NULL, "0", "y", "-1,0"}, *const headers[] = {"auto", "yes", "no"},
                             *const missing[] = {NULL, "drop", "mean", "median,0:flag"},
                             *const signs[] = {"auto", "point", "comma"},
                             *const dates[] = {"auto", "dmy", "mdy", "ymd"};
    const uint64_t c = fuzz_choice(data, size);
    const char *const *csv = WITH(given("label", labels[c % 4]), c / 4 % 2 ? "regression=yes" : NULL,
                                  c / 8 % 4 == 0 ? "separator=;" : NULL, given("header", headers[c / 32 % 3]),
                                  given("missing", missing[c / 256 % 4]), c / 1024 % 4 == 0 ? "categorical=0" : NULL,
                                  c / 4096 % 4 == 0 ? "drop=1" : NULL, c / 16384 % 2 ? "na=?,-" : NULL,
                                  given("decimal", signs[c / 32768 % 3]), given("dates", dates[c / 131072 % 4]),
                                  c / 524288 % 2 ? "values=NA,None" : NULL, number("skip", (int64_t)(c / 4194304 % 3)));
    const charl_import_options opt = {sizeof opt, .val_split = c / 128 % 2 ? 0.25 : 0.0, .in_order = c / 1048576 % 2};

    check_import(charl_import("csv", csv, FILES(fuzz_put("in.csv", data, size)), 1, fuzz_path("out.h5"), &opt));
}

/* Rows for the columns of another dataset. */
static void run_csv_like(const unsigned char *data, size_t size)
{
    static const char *const signs[] = {"auto", "point", "comma"};
    const uint64_t c = fuzz_choice(data, size);
    const char *const *csv = WITH(given("like", fuzz_put_table("like.h5", c % 2)),
                                  c / 2 % 4 == 0 ? "separator=;" : NULL, given("decimal", signs[c / 8 % 3]));
    const charl_import_options opt = {sizeof opt, .val_split = c / 32 % 2 ? 0.25 : 0.0, .in_order = c / 64 % 2};

    check_import(charl_import("csv", csv, FILES(fuzz_put("in.csv", data, size)), 1, fuzz_path("out.h5"), &opt));
}

/* Rows for a model of the columns a, b, c and the classes ant, bee and cat. */
static void read_rows(const char *path, char separator, const char *id, bool cooked)
{
    static char cook[] =
        "decimal\t.\nmissing\t?\nnumber\ta\tflag\t1\t2.5\ndropped\td\nwords\tb\terror\t0\tant\ntarget\tkind\n";
    static float mean[] = {0}, std[] = {1};
    static char empty[] = "", classes[] = "ant\nbee\ncat", columns[] = "a\nb\nc", layout[] = "rows", target[] = "kind";
    const charl_data_schema schema = {.kind = CHARL_DATASET_TABLE,
                                      .x_dtype = CHARL_F32,
                                      .x_shape = {1, {3}},
                                      .y_dtype = CHARL_I32,
                                      .classes = 3,
                                      .class_names = classes,
                                      .columns = columns,
                                      .targets = target,
                                      .recipe = cooked ? cook : empty,
                                      .fields = empty,
                                      .layout = layout,
                                      .fit = empty,
                                      .n_stats = 1,
                                      .mean = mean,
                                      .std = std,
                                      .tokenizer_kind = empty};
    const char *const paths[] = {path};
    const charl__rows_options o = {
        .schema = &schema, .model = "model", .paths = paths, .n_paths = 1, .separator = separator, .id = id};
    charl__rows *rows = NULL;
    float x[4][3];
    int32_t y[4];
    int64_t n = 0;

    if (fuzz_accepts(charl__rows_open(&o, &rows))) {
        while (fuzz_accepts(charl__rows_next(rows, 4, x, y, &n)) && n > 0) {
            for (int64_t i = 0; i < n && rows->has_targets; i++) {
                FUZZ_CHECK(y[i] >= -1 && y[i] < 3, "a class that the model does not have");
            }
        }
        charl_free(charl__rows_drain_notes(rows, true));
        charl_free(charl__rows_drain_notes(rows, false));
        charl__rows_close(rows);
    }
}

static void run_rows(const unsigned char *data, size_t size)
{
    const uint64_t c = fuzz_choice(data, size);

    read_rows(fuzz_put("rows", data, size), c % 4 == 0 ? ';' : 0, c / 4 % 2 ? "who" : NULL, c / 8 % 2);
}

/* Texts with or without classes, for a model of sequences. */
static void run_rows_texts(const unsigned char *data, size_t size)
{
    static char empty[] = "", classes[] = "neg\npos", columns[] = "text", targets[] = "label";
    const uint64_t c = fuzz_choice(data, size);
    charl_data_schema schema = {.kind = CHARL_DATASET_SEQUENCES,
                                .x_dtype = CHARL_I32,
                                .x_shape = {1, {5}},
                                .y_dtype = CHARL_I32,
                                .classes = 2,
                                .class_names = classes,
                                .columns = c % 2 ? columns : empty,
                                .targets = c % 2 ? targets : empty,
                                .recipe = empty,
                                .fields = empty,
                                .layout = empty,
                                .fit = empty,
                                .tokenizer_kind = empty};
    const char *const path = fuzz_put(c / 2 % 2 ? "rows.csv" : "rows.jsonl", data, size);
    const charl__rows_options o = {
        .schema = &schema, .model = "model", .paths = &path, .n_paths = 1, .separator = c / 4 % 4 == 0 ? ';' : 0};
    charl__rows *rows = NULL;
    int32_t x[4][5], y[4];
    int64_t n = 0, all = 0, read = 0;
    bool counted, whole = false;

    FUZZ_CHECK(charl_tokenizer_create("bytes", "", 0, 0, &schema.tokenizer) == CHARL_OK, "no tokenizer");
    if (fuzz_accepts(charl__rows_open(&o, &rows))) {
        counted = fuzz_accepts(charl__rows_count(rows, &all));
        while (fuzz_accepts(charl__rows_next(rows, 4, x, y, &n)) && !(whole = n == 0)) {
            read += n;
            for (int64_t i = 0; i < n && rows->has_targets; i++) {
                FUZZ_CHECK(y[i] >= -1 && y[i] < 2, "a class that the model does not have");
            }
        }
        FUZZ_CHECK(!whole || (counted && read == all), "rows are counted otherwise than they are read");
        charl_free(charl__rows_drain_notes(rows, true));
        charl_free(charl__rows_drain_notes(rows, false));
        charl__rows_close(rows);
    }
    charl_tokenizer_destroy(schema.tokenizer);
}

static void run_npy(const unsigned char *data, size_t size)
{
    fuzz_part part[2];
    const char *x, *y;

    fuzz_split(data, size, part, 2);
    x = fuzz_put("x.npy", part[0].data, part[0].size);
    y = fuzz_put("y.npy", part[1].data, part[1].size);
    check_import(charl_import("npy", NULL, FILES(x, y), 2, fuzz_path("out.h5"), NULL));
}

static void run_idx(const unsigned char *data, size_t size)
{
    fuzz_part part[2];
    const char *images[2] = {NULL}, *labels[2] = {NULL};

    fuzz_split(data, size, part, 2);
    images[0] = fuzz_put("images", part[0].data, part[0].size);
    labels[0] = fuzz_put("labels", part[1].data, part[1].size);
    check_import(import_idx(images, labels, fuzz_path("out.h5"), NULL));
}

static void run_cifar10(const unsigned char *data, size_t size)
{
    const char *train = fuzz_put("batch.bin", data, size);

    check_import(charl_import("cifar10", NULL, &train, 1, fuzz_path("out.h5"), NULL));
}

static void run_image(const unsigned char *data, size_t size)
{
    const uint64_t c = fuzz_choice(data, size);
    const charl_image_format format = {.channels = c % 2 ? 1 : 3,
                                       .height = 1 + (int64_t)(c / 2 % 9),
                                       .width = 1 + (int64_t)(c / 32 % 9),
                                       .fit = (charl_image_fit)(c / 512 % CHARL_FIT_COUNT)};
    unsigned char out[3 * 9 * 9];

    fuzz_accepts(charl_image_read(fuzz_put("image", data, size), &format, out));
}

/* A list of files and labels, and two pictures that it may name. */
static void run_images(const unsigned char *data, size_t size)
{
    const uint64_t c = fuzz_choice(data, size);
    const charl_image_format format = {
        .channels = c % 2 ? 1 : 3, .height = 1 + (int64_t)(c / 2 % 9), .width = 1 + (int64_t)(c / 32 % 9)};
    const charl_import_options opt = {sizeof opt, .val_split = c / 512 % 2 ? 0.25 : 0.0};
    const char *const extra = c / 1024 % 2 ? "skip_bad=yes" : c / 2048 % 2 ? "link=yes" : NULL;
    const char *folders[2] = {fuzz_dir(), NULL};
    fuzz_part part[3];

    fuzz_split(data, size, part, 3);
    fuzz_put("labels.csv", part[0].data, part[0].size);
    fuzz_put("a.png", part[1].data, part[1].size);
    fuzz_put("b.jpg", part[2].data, part[2].size);
    check_import(import_images(folders, &format, extra, fuzz_path("out.h5"), &opt));
}

static void read_tensor_file(const char *path)
{
    static const charl_checkpoint_tensor no_tensor = {.name = ""};
    charl_tensor_file *s = NULL;

    if (fuzz_accepts(charl_tensor_file_open(path, &s))) {
        for (int64_t i = 0; i < charl_tensor_file_get_count(s); i++) {
            const charl_checkpoint_tensor *t = charl_tensor_file_get(s, i);
            const int64_t bytes = charl_shape_count(&t->shape) * (int64_t)charl_dtype_size(t->dtype);
            void *values = bytes > 0 && bytes <= LARGEST ? malloc((size_t)bytes) : NULL;

            FUZZ_CHECK(charl_tensor_file_find(s, t->name) == t, "a tensor is not found by its name");
            if (values) {
                FUZZ_CHECK(charl_tensor_file_read(s, t, values) == CHARL_OK, "an accepted tensor cannot be read");
            }
            free(values);
        }
        FUZZ_CHECK(!charl_tensor_file_get(s, -1), "a tensor that is not there");
        FUZZ_CHECK(charl_tensor_file_read(s, &no_tensor, NULL) == CHARL_ERR_INVALID,
                   "a tensor of another file is read");
        (void)charl_tensor_file_get_schema(s);
        charl_tensor_file_close(s);
    }
}

/* The file, or the folder that holds it. */
static void run_npz(const unsigned char *data, size_t size)
{
    const char *path = fuzz_put("x.npz", data, size);

    check_import(charl_import("npy", NULL, FILES(path), 1, fuzz_path("out.h5"), NULL));
    read_tensor_file(path);
}

/* As a table, and as a column of texts. */
static void run_parquet(const unsigned char *data, size_t size)
{
    const char *path = fuzz_put("x.parquet", data, size);

    check_import(charl_import("parquet", NULL, FILES(path), 1, fuzz_path("out.h5"), NULL));
    check_import(charl_import("text", (const char *const[]){"field=s", "binary=yes", NULL}, FILES(path), 1,
                              fuzz_path("out.h5"), NULL));
}

static void run_safetensors(const unsigned char *data, size_t size)
{
    const char *path = fuzz_put("model.safetensors", data, size);

    read_tensor_file(fuzz_choice(data, size) % 2 ? path : fuzz_dir());
}

/* An index and the shard that it may name. */
static void run_safetensors_index(const unsigned char *data, size_t size)
{
    fuzz_part part[2];

    fuzz_split(data, size, part, 2);
    fuzz_put("shard.safetensors", part[1].data, part[1].size);
    fuzz_put("model.safetensors.index.json", part[0].data, part[0].size);
    read_tensor_file(fuzz_choice(data, size) % 2 ? fuzz_path("model.safetensors.index.json") : fuzz_dir());
}

static void run_pytorch(const unsigned char *data, size_t size)
{
    read_tensor_file(fuzz_put("model.pt", data, size));
}

/* A folder of adapters: its configuration, the adapters, and the base "base.safetensors". */
static void run_peft(const unsigned char *data, size_t size)
{
    fuzz_part part[3];

    fuzz_split(data, size, part, 3);
    fuzz_put("adapter_config.json", part[0].data, part[0].size);
    fuzz_put("adapter_model.safetensors", part[1].data, part[1].size);
    fuzz_put("base.safetensors", part[2].data, part[2].size);
    read_tensor_file(fuzz_dir());
}

static void run_json(const unsigned char *data, size_t size)
{
    static const char *const names[] = {"a", "a.b", "model_type", "rope_scaling.factor", ""};
    charl__json *json = NULL;

    if (fuzz_accepts(charl__json_open(fuzz_put("config.json", data, size), &json))) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            charl__text text = {0};
            bool found = false;

            FUZZ_CHECK(charl__json_get(json, names[i], strlen(names[i]), &text, &found) == CHARL_OK,
                       "a member is not read");
            charl__text_fini(&text);
        }
        charl__json_close(json);
    }
}

/* A schema that was accepted is printed and read back as the same. */
static void run_schema(const unsigned char *data, size_t size)
{
    char *text = text_of(data, size), *print = NULL, *second = NULL;
    charl_data_schema *s = NULL, *again = NULL;

    if (fuzz_accepts(charl__data_schema_parse("schema", text, &s))) {
        FUZZ_CHECK(charl_data_schema_print(s, &print) == CHARL_OK, "an accepted schema is not printed");
        FUZZ_CHECK(charl__data_schema_parse("printed", print, &again) == CHARL_OK, "a printed schema is refused");
        FUZZ_CHECK(charl_data_schema_print(again, &second) == CHARL_OK && strcmp(print, second) == 0,
                   "a printed schema reads as another one");
    }
    charl_data_schema_destroy(s);
    charl_data_schema_destroy(again);
    charl_free(print);
    charl_free(second);
    free(text);
}

/* Tokens of a text give the text back, unless the tokenizer normalizes or has an unknown token. */
static void check_text(const charl_tokenizer *t, const char *text, size_t size, bool comes_back)
{
    int32_t *tokens = NULL;
    int64_t n = 0;
    char *copy = NULL;
    size_t length = 0;

    if (fuzz_accepts(charl_tokenizer_encode(t, text, size, false, &tokens, &n))) {
        FUZZ_CHECK(charl_tokenizer_decode(t, tokens, n, &copy, &length) == CHARL_OK, "tokens are not decoded");
        if (comes_back) {
            FUZZ_CHECK(length == size && memcmp(copy, text, size) == 0, "the text of the tokens is another one");
        }
        charl_free(copy);
    }
    charl_free(tokens);
}

/* The file, or by `folder` the folder that holds it. */
static void check_tokenizer(const char *path, bool folder)
{
    const charl__tokenizer_type *type;
    static const char text[] = "The quick brown fox, it's 2026:\n\n  naive -- ok?",
                      other[] = "\xc3\xa9\xff\xf0\x9f\x98\x80";
    charl_tokenizer *t = NULL;

    if (fuzz_accepts(charl__tokenizer_open(folder ? fuzz_dir() : path, &type, &t))) {
        check_text(t, text, sizeof text - 1, !t->bpe || (t->bpe->normalizers == 0 && t->bpe->unknown < 0));
        check_text(t, other, sizeof other - 1, false);
        charl_tokenizer_find_special(t, "<|endoftext|>");
        charl_tokenizer_get_end_of_text(t);
        charl_tokenizer_destroy(t);
    }
}

static void run_tokenizer_json(const unsigned char *data, size_t size)
{
    const bool tekken = size > 9 && memcmp(data, "{\"config\"", 9) == 0, json = size > 0 && data[0] == '{';

    check_tokenizer(fuzz_put(tekken ? "tekken.json"
                             : json ? "tokenizer.json"
                                    : "vocab.txt",
                             data, size),
                    fuzz_choice(data, size) % 2);
}

static void run_tiktoken(const unsigned char *data, size_t size)
{
    static const char *const names[] = {"cl100k_base-x.tiktoken", "gpt2-x.tiktoken", "o200k_base-x.tiktoken",
                                        "llama3-x.tiktoken"};
    const uint64_t c = fuzz_choice(data, size);
    const char *path = fuzz_put(names[c % 4], data, size);

    if (c / 8 % 8 == 0) { /* two of them: it is not known which one */
        fuzz_put(names[(c + 1) % 4], data, size);
    }
    check_tokenizer(path, c / 4 % 2);
}

static void run_sentencepiece(const unsigned char *data, size_t size)
{
    check_tokenizer(fuzz_put("tokenizer.model", data, size), fuzz_choice(data, size) % 2);
}

/* What a cache of programs has for the driver nvidia. Whatever is made of it is made of it again. */
static void run_ptx(const unsigned char *data, size_t size)
{
    char *text = calloc(size + 1, 1);
    charl__ptx_kernel k;
    charl__text out = {0}, again = {0};

    memcpy(text, data, size);
    if (charl__ptx_kernel_find(text, "k", &k) == CHARL_OK) {
        FUZZ_CHECK(k.params >= 0 && k.params <= CHARL__PTX_MAX_PARAMS && k.dynamic_bytes >= 0, "an impossible kernel");
    }
    if (charl__ptx_for_cuda(text, &out) == CHARL_OK &&
        !strstr(text, ".ptr")) { /* what is cut out could join its neighbours */
        FUZZ_CHECK(!strstr(charl__text_string(&out), "%envreg"), "a register of OpenCL is left");
        FUZZ_CHECK(charl__ptx_for_cuda(charl__text_string(&out), &again) == CHARL_OK, "the edited text is refused");
    }
    charl__text_fini(&again);
    charl__text_fini(&out);
    free(text);
}

static void run_merges(const unsigned char *data, size_t size)
{
    fuzz_part part[2];

    fuzz_split(data, size, part, 2);
    fuzz_put("merges.txt", part[1].data, part[1].size);
    check_tokenizer(fuzz_put("vocab.json", part[0].data, part[0].size), fuzz_choice(data, size) % 2);
}

/* Text of any kind through a tokenizer that it was learnt from. */
static void run_bpe(const unsigned char *data, size_t size)
{
    static const char *const types[] = {"bytes", "bpe", "chars"};
    charl_tokenizer *t = NULL;

    for (int i = 0; i < 3; i++) {
        if (fuzz_accepts(charl_tokenizer_create(types[i], (const char *)data, size, 300, &t))) {
            check_text(t, (const char *)data, size, true);
            charl_tokenizer_destroy(t);
        }
        t = NULL;
    }
}

static void run_text(const unsigned char *data, size_t size)
{
    static const char *const names[] = {"in.jsonl", "in.txt"};
    static const char *const types[] = {"bytes", "chars", "bpe"};
    const uint64_t c = fuzz_choice(data, size);
    const char *const *text = WITH(given("tokenizer", types[c / 2 % 3]), number("vocab", c / 2 % 3 == 2 ? 300 : 0));
    const charl_import_options opt = {sizeof opt, .val_split = c / 8 % 2 ? 0.25 : 0.0};
    const char *path = fuzz_put(names[c % 2], data, size);

    check_import(charl_import("text", text, &path, 1, fuzz_path("out.h5"), &opt));
}

static void run_tokens(const unsigned char *data, size_t size)
{
    static const char *const formats[] = {"auto", "llm.c", "nanogpt"};
    const uint64_t c = fuzz_choice(data, size);
    fuzz_part part[2];
    const char *path, *tokenizer;

    fuzz_split(data, size, part, 2); /* the tokens, and the tokenizer that made them */
    path = fuzz_put("in.bin", part[0].data, part[0].size);
    tokenizer = part[1].size > 0 ? fuzz_put("tokenizer.json", part[1].data, part[1].size) : NULL;
    check_import(charl_import("tokens",
                              WITH(number("vocab", c % 2 ? 512 : 0), given("format", formats[c / 2 % 3]),
                                   c / 8 % 2 ? "end_of_text=2" : NULL, given("val_file", c / 16 % 4 == 0 ? path : NULL),
                                   given("tokenizer", tokenizer)),
                              &path, 1, fuzz_path("out.h5"), NULL));
}

/* A run directory: metrics, and the configuration. */
static void run_metrics(const unsigned char *data, size_t size)
{
    const char *const runs[] = {fuzz_dir()};
    fuzz_part part[4];
    char *table = NULL;

    fuzz_split(data, size, part, 4);
    fuzz_put("metrics.jsonl", part[0].data, part[0].size);
    fuzz_put("config.ini", part[1].data, part[1].size);
    fuzz_put("env.json", part[2].data, part[2].size);
    fuzz_put("train.log", part[3].data, part[3].size);
    if (fuzz_accepts(charl_report_write(runs, 1, fuzz_path("report.html")))) {
        FUZZ_CHECK(charl_report_compare(runs, 1, NULL, &table) == CHARL_OK, "a run has a report and no table");
        charl_free(table);
    }
}

/* Conversations, and the template that an input may bring. */
static void run_chat(const unsigned char *data, size_t size)
{
    static const char *const names[] = {NULL, "llama3", "alpaca"}, *const longer[] = {"refuse", "cut", "skip"};
    const uint64_t c = fuzz_choice(data, size);
    const int64_t window = c / 4 % 2 ? 32 : 0;
    const charl_import_options opt = {sizeof opt, .val_split = c / 32 % 2 ? 0.25 : 0.0};
    fuzz_part part[2];
    const char *path, *name;

    fuzz_split(data, size, part, 2);
    path = fuzz_put("in.jsonl", part[0].data, part[0].size);
    name = part[1].size > 0 ? fuzz_put("template.json", part[1].data, part[1].size) : names[c % 3];
    fuzz_check_import(
        charl_import("chat",
                     WITH(given("template", name), number("window", window), given("longer", longer[c / 8 % 3])), &path,
                     1, fuzz_path("out.h5"), &opt),
        window > 0 ? window : 1);
}

/* Texts with a class each, as CSV or as lines of JSON. */
static void run_text_classes(const unsigned char *data, size_t size)
{
    const uint64_t c = fuzz_choice(data, size);
    const char *const *options =
        WITH(given("tokenizer", c / 2 % 2 ? "chars" : NULL), number("window", c / 4 % 2 ? 3 : 0));
    const charl_import_options opt = {sizeof opt, .val_split = c / 8 % 2 ? 0.25 : 0.0};
    const char *path = fuzz_put(c % 2 ? "in.csv" : "in.jsonl", data, size);

    check_import(charl_import("text-classes", options, &path, 1, fuzz_path("out.h5"), &opt));
}

static void run_questions(const unsigned char *data, size_t size)
{
    charl__questions questions = {0};

    fuzz_accepts(charl__questions_read(fuzz_put("in.jsonl", data, size), &questions));
    charl__questions_fini(&questions);
}

static void run_prompts(const unsigned char *data, size_t size)
{
    charl__prompts prompts = {0};

    fuzz_accepts(
        charl__prompts_read(fuzz_put(fuzz_choice(data, size) % 2 ? "in.jsonl" : "in.txt", data, size), &prompts));
    charl__prompts_fini(&prompts);
}

/* Time lines of several programs, in one file; what is written can be merged again, unless there are too many processes. */
static void run_trace(const unsigned char *data, size_t size)
{
    const char *files[2];

    files[0] = files[1] = fuzz_put("trace.json", data, size);
    if (fuzz_accepts(charl_trace_merge(files, 2, fuzz_path("both.json")))) {
        files[1] = fuzz_path("both.json");
        FUZZ_CHECK(charl_trace_merge(files, 2, fuzz_path("all.json")) == CHARL_OK ||
                       strstr(charl_error_message(), "the time lines have more than"),
                   "a merged time line is refused");
    }
}

/* What is printed of a recipe can be read again and prints the same. */
static void run_recipe(const unsigned char *data, size_t size)
{
    char *text = text_of(data, size);
    charl__recipe r = {0}, again = {0};
    charl__text print = {0}, second = {0}, names = {0};

    if (fuzz_accepts(charl__recipe_parse("recipe", text, &r))) {
        FUZZ_CHECK(charl__recipe_width(&r) >= 0 && charl__recipe_names(&r, &names) == CHARL_OK,
                   "columns without names");
        FUZZ_CHECK(charl__recipe_print(&r, &print) == CHARL_OK, "an accepted recipe is not printed");
        FUZZ_CHECK(charl__recipe_parse("printed", charl__text_string(&print), &again) == CHARL_OK,
                   "a printed recipe is refused");
        FUZZ_CHECK(charl__recipe_print(&again, &second) == CHARL_OK &&
                       strcmp(charl__text_string(&print), charl__text_string(&second)) == 0,
                   "a printed recipe reads as another one");
        for (int i = 0; i < r.n; i++) {
            double out[64];

            if (charl__recipe_column_width(&r.column[i]) <= 64 && r.column[i].kind <= CHARL__COLUMN_WORDS) {
                charl__recipe_convert(&r, &r.column[i], "2026-11-23 10:30", out);
                charl__recipe_convert(&r, &r.column[i], "1.5", out);
            }
        }
    }
    charl__recipe_fini(&r);
    charl__recipe_fini(&again);
    charl__text_fini(&print);
    charl__text_fini(&second);
    charl__text_fini(&names);
    free(text);
}

/* An export finds its line by the step and the tensors of its checkpoint. */
static void find_line(void)
{
    char hash[CHARL__SHA256_TEXT];
    charl_checkpoint_reader *r = NULL;
    const char *path;

    FUZZ_CHECK(mkdir(fuzz_path("checkpoints"), 0700) == 0, "no folder of checkpoints");
    path = fuzz_put_checkpoint("checkpoints/step-00000006.h5");
    FUZZ_CHECK(charl_checkpoint_open(path, &r) == CHARL_OK, "a checkpoint is not opened");
    fuzz_accepts(charl__lock_of_checkpoint(path, r, hash));
    charl_checkpoint_close(r);
    unlink(path);
    rmdir(fuzz_path("checkpoints"));
}

/* The manifest of a part: what is accepted of it is what would be written. Then the list of parts of a checkpoint, beside one that is there. */
static void run_checkpoint_parts(const unsigned char *data, size_t size)
{
    static const float weight[6] = {1, 2, 3, 4, 5, 6};
    static const charl_checkpoint_tensor tensor = {
        .group = "model", .name = "fc1.weight", .dtype = CHARL_F32, .shape = {2, {2, 3}}};
    static const charl_checkpoint_tensor *const at = &tensor;
    const charl__ckpt_share share = {0, 0, 6, weight};
    charl__ckpt_parts parts = {0};
    char sha256[CHARL__SHA256_TEXT];
    fuzz_part part[2];
    char *text, *line, *end;

    fuzz_split(data, size, part, 2);
    text = text_of(part[0].data, part[0].size);
    for (line = text; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        charl__text print = {0}, given = {0};
        charl__ckpt_piece p = {0};
        charl_checkpoint_tensor t;

        *end = '\0';
        FUZZ_CHECK(charl__text_printf(&given, "%s\n", line) == CHARL_OK, "no memory");
        if (charl__ckpt_piece_parse(line, &t, &p)) {
            FUZZ_CHECK(charl__ckpt_piece_format(&print, &t, &p) == CHARL_OK &&
                           strcmp(charl__text_string(&print), charl__text_string(&given)) == 0,
                       "the line of a piece is not the one that is written of it");
        }
        charl__text_fini(&print);
        charl__text_fini(&given);
    }
    free(text);
    FUZZ_CHECK(charl__ckpt_part_save(fuzz_path("a.h5"), &tensor, 1, &share, 1, sha256) == CHARL_OK, "no part");
    text = text_of(part[1].data, part[1].size);
    if (fuzz_accepts(charl__ckpt_parts_open(fuzz_path("a.h5"), text, &at, 1, &parts))) {
        FUZZ_CHECK(parts.n_pieces == 0 ||
                       charl__ckpt_parts_crc32c(&parts, 0, 4) == charl__crc32c(0, weight, sizeof weight),
                   "pieces are not the tensor");
    }
    charl__ckpt_parts_fini(&parts);
    free(text);
}

/* The manifest of a proof: what is accepted stays in the folder and in its files. */
static void run_proof(const unsigned char *data, size_t size)
{
    char *text = text_of(data, size);
    charl__proof p = {0};

    if (fuzz_accepts(charl__proof_parse("fuzz.proof", text, &p))) {
        for (int64_t i = 0; i < p.n_segments; i++) {
            FUZZ_CHECK(p.segments[i].from >= 0 && p.segments[i].until > p.segments[i].from, "steps that do not ascend");
        }
        for (int64_t i = 0; i < p.n_files; i++) {
            const charl__proof_file *f = &p.files[i];
            int64_t at = 0;

            FUZZ_CHECK(f->name[0] != '/' && f->name[0] != '.' && !strstr(f->name, "/."), "a name outside the folder");
            for (int64_t k = 0; k < f->n_parts; at = f->parts[k].first + f->parts[k].count, k++) {
                FUZZ_CHECK(f->parts[k].first >= at && f->parts[k].count > 0 &&
                               f->parts[k].count <= f->bytes - f->parts[k].first,
                           "parts that overlap, or reach beyond the file");
            }
        }
    }
    charl__proof_fini(&p);
    free(text);
}

/* What is read without a complaint is a chain that can be continued. */
static void run_run_lock(const unsigned char *data, size_t size)
{
    charl__lock lock = {0}, again = {0};
    charl__lock_history history = {0};
    charl__text wrong = {0};

    fuzz_put(CHARL__LOCK_FILE, data, size);
    if (fuzz_accepts(charl__lock_read(fuzz_dir(), &lock, &wrong)) &&
        fuzz_accepts(charl__lock_trace(&lock, &history, &wrong)) && wrong.length == 0) {
        const charl__lock_line next = lock.line[lock.count - 1];

        FUZZ_CHECK(charl__lock_append(fuzz_dir(), &lock, &next) == CHARL_OK, "run.lock cannot be continued");
        FUZZ_CHECK(charl__lock_read(fuzz_dir(), &again, &wrong) == CHARL_OK && wrong.length == 0,
                   "a continued run.lock is damaged");
        FUZZ_CHECK(again.count == lock.count, "a line is lost");
        find_line();
    }
    charl_free(history.line);
    charl__text_fini(&wrong);
    charl__lock_fini(&lock);
    charl__lock_fini(&again);
}

/* Two files of checksums; one and itself never differ. */
static void run_checksums(const unsigned char *data, size_t size)
{
    const charl_bisect_options options = {sizeof options};
    charl_bisect_result result;
    fuzz_part part[2];
    const char *a, *b;

    fuzz_split(data, size, part, 2);
    a = fuzz_put("a.sums", part[0].data, part[0].size);
    b = fuzz_put("b.sums", part[1].data, part[1].size);
    fuzz_accepts(charl_bisect(a, b, &options, &result));
    charl_bisect_result_fini(&result);
    if (fuzz_accepts(charl_bisect(a, a, &options, &result))) {
        FUZZ_CHECK(result.what == CHARL_BISECT_NOTHING, "a file differs from itself");
    }
    charl_bisect_result_fini(&result);
}

static void run_hostfile(const unsigned char *data, size_t size)
{
    charl__host *hosts = NULL;
    int n = 0;

    if (fuzz_accepts(charl__hostfile_read(fuzz_put("hosts", data, size), &hosts, &n))) {
        FUZZ_CHECK(n >= 1 && n <= CHARL__MAX_HOSTS, "a number of hosts that cannot be");
        for (int i = 0; i < n; i++) {
            FUZZ_CHECK(hosts[i].name[0] && hosts[i].name[0] != '-' && hosts[i].slots >= 1 &&
                           hosts[i].slots <= CHARL__MAX_SLOTS,
                       "a host that ssh or mpirun would misread");
        }
    }
    free(hosts);
}

/* The first byte chooses the name. Whatever a file holds, it is of a kind, whose sentence and hint can be said. HDF5's own reader is left out. */
static void run_kind(const unsigned char *data, size_t size)
{
    static const char *const names[] = {"in.csv",      "in.txt",          "in.ini", "in",
                                        "config.json", "tokenizer.model", "in.bin", "in.gz"};
    const size_t skipped = size > 0 ? 1 : 0;
    const char *path = fuzz_put(names[size > 0 ? data[0] % 8 : 0], data + skipped, size - skipped);
    const charl__kind *kind;

    for (size_t i = 0; i + 4 <= size; i++) {
        if (memcmp(data + i, "\x89HDF", 4) == 0) {
            return;
        }
    }
    kind = charl__kind_of(path);
    FUZZ_CHECK(kind && kind->name && kind->name[0], "a file of no kind");
    FUZZ_CHECK(!fuzz_accepts(charl__kind_expect(path, 0, "a file", CHARL_ERR_DATA)), "a file of every kind");
    (void)!fuzz_accepts(charl__kind_expect(path, CHARL__KIND_CHECKPOINT, "a checkpoint", CHARL_ERR_CHECKPOINT));
}

const fuzz_target fuzz_targets[] = {
    {"kind", run_kind},
    {"config", run_config},
    {"model_from", run_model_from},
    {"csv", run_csv},
    {"csv_like", run_csv_like},
    {"rows", run_rows},
    {"rows_texts", run_rows_texts},
    {"npy", run_npy},
    {"npz", run_npz},
    {"parquet", run_parquet},
    {"idx", run_idx},
    {"cifar10", run_cifar10},
    {"image", run_image},
    {"images", run_images},
    {"safetensors", run_safetensors},
    {"safetensors_index", run_safetensors_index},
    {"pytorch", run_pytorch},
    {"peft", run_peft},
    {"json", run_json},
    {"schema", run_schema},
    {"tokenizer_json", run_tokenizer_json},
    {"tiktoken", run_tiktoken},
    {"sentencepiece", run_sentencepiece},
    {"ptx", run_ptx},
    {"merges", run_merges},
    {"bpe", run_bpe},
    {"text", run_text},
    {"tokens", run_tokens},
    {"metrics", run_metrics},
    {"chat", run_chat},
    {"text_classes", run_text_classes},
    {"questions", run_questions},
    {"prompts", run_prompts},
    {"trace", run_trace},
    {"recipe", run_recipe},
    {"run_lock", run_run_lock},
    {"checksums", run_checksums},
    {"proof", run_proof},
    {"hostfile", run_hostfile},
    {"resumed_logs", fuzz_resumed_logs},
    {"run_directory", fuzz_run_directory},
    {"tuning", fuzz_tuning},
    {"dataset", fuzz_dataset},
    {"hdf5", fuzz_hdf5},
    {"checkpoint", fuzz_checkpoint},
    {"checkpoint_parts", run_checkpoint_parts},
    {NULL, NULL},
};

/* Every reader with every kind of file: what a reader does not take it names, and says which command does. */
#include "support/on_device.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "charl/checkpoint.h"
#include "charl/config.h"
#include "charl/dataset.h"
#include "charl/image.h"
#include "charl/import.h"
#include "charl/report.h"
#include "charl/tensor_file.h"
#include "charl/tokenizer.h"
#include "charl/verify.h"
#include "charl/weights.h"

static charl_device *dev;
static char *dir;

#define BYTES(s) s, sizeof(s) - 1

/* Files by contents; a name that ends in / is a folder, with the file that its bytes name. */
static const struct {
    const char *name, *bytes;
    size_t n;
    const char *kind;
} files[] = {
    {"haus.csv", BYTES("price,rooms\n1,2\n3,4\n"), "a CSV file"},
    {"table.data", BYTES("1;2;3\n4;5;6\n"), "a CSV file"},
    {"notes.txt", BYTES("It was a dark night, indeed.\n"), "a text"},
    {"lines.jsonl", BYTES("{\"text\": \"a\"}\n{\"text\": \"b\"}\n"), "a file of JSON lines"},
    {"array.json", BYTES("[{\"instruction\": \"say hi\", \"output\": \"hi\"}]\n"), "one JSON array"},
    {"object.json", BYTES("{\"a\": 1}\n"), "one JSON object"},
    {"conf.yaml", BYTES("train:\n  epochs: 3\n"), "a YAML file"},
    {"run.ini", BYTES("# mine\n[data]\npath = a.h5\n"), "a configuration"},
    {"page.safetensors", BYTES("<!DOCTYPE html>\n<html></html>\n"), "a web page"},
    {"script.py", BYTES("import numpy\n"), "a Python program"},
    {"wide.txt", BYTES("\xff\xfeI\0t\0 \0w\0a\0s\0"), "text in UTF-16"},
    {"wide.csv", BYTES("a\0,\0b\0\n\0001\0,\0002\0\n\0"), "text in UTF-16"},
    {"wider.txt", BYTES("\xff\xfe\0\0I\0\0\0t\0\0\0"), "text in UTF-32"},
    {"pointer.safetensors", BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 4\n"),
     "a Git LFS pointer"},
    {"x.npy", BYTES("\x93NUMPY\1\0\x46\0{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }          \n\0\0\0\0"),
     "a NumPy array"},
    {"x.npz", BYTES("PK\3\4\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0x.npy"), "an archive of NumPy arrays"},
    {"images-ubyte", BYTES("\0\0\x08\3\0\0\0\1\0\0\0\1\0\0\0\1a"), "an IDX file"},
    {"old.nc", BYTES("CDF\1\0\0\0\0\0\0\0\0"), "a netCDF file of the classic format"},
    {"old.mat", BYTES("MATLAB 5.0 MAT-file, Platform: GLNXA64\0\0\0"), "a MATLAB file of a version before 7.3"},
    {"weights.safetensors", BYTES("\x02\0\0\0\0\0\0\0{}"), "weights in the safetensors format"},
    {"model.pt", BYTES("PK\3\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
     "weights in PyTorch's own format"},
    {"old.pth", BYTES("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."), "weights in PyTorch's own format"},
    {"any.pkl", BYTES("\x80\4\x95\x0b\0\0\0\0"), "a Python pickle"},
    {"model.gguf", BYTES("GGUF\3\0\0\0\0\0"), "weights in llama.cpp's format (GGUF)"},
    {"tokenizer.json", BYTES("{\"version\": \"1.0\", \"added_tokens\": []}"), "a tokenizer (tokenizer.json)"},
    {"vocab.txt", BYTES("[PAD]\nthe\n"), "BERT's vocabulary (vocab.txt)"},
    {"vocab.json", BYTES("{\"a\": 0}"), "part of a tokenizer (vocab.json and merges.txt)"},
    {"mine.tiktoken", BYTES("IQ== 0\nIg== 1\nIw== 2\n"), "a rank file of tiktoken"},
    {"spiece.model", BYTES("\n\x0e\n\5<unk>\x15\0\0\0\0"), "a SentencePiece model"},
    {"config.json", BYTES("{\"model_type\": \"gpt2\"}"), "the config.json of a published model"},
    {"a.parquet", BYTES("PAR1\0\0\0\0"), "a Parquet file"},
    {"a.xlsx", BYTES("PK\3\4\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\23\0\0\0[Content_Types].xml"),
     "an Excel workbook"},
    {"a.zip", BYTES("PK\3\4\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0a.txt"), "a zip archive"},
    {"a.bz2", BYTES("BZh91AY&SY"), "a file that is compressed in another way than gzip"},
    {"a.sqlite", BYTES("SQLite format 3\0\x10\0"), "an SQLite database"},
    {"a.pdf", BYTES("%PDF-1.4\n"), "a PDF document"},
    {"a.png", BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), "an image"},
    {"a.jpg", BYTES("GIF89a\1\0\1\0"), "an image that is neither PNG nor JPEG"},
    {"tokens.bin", BYTES("\1\7\2\x81\3\x9f\0\x80"), "a binary file, perhaps of tokens"},
    {"blob", BYTES("\1\7\2\x81\3\x9f\0\x80"), "a binary file of an unknown format"},
    {"run.lock", BYTES("start step=0 previous=0 hash=0\n"), "the run.lock of a run"},
    {"metrics.jsonl", BYTES("{\"event\":\"train\",\"step\":1}\n"), "the metrics.jsonl of a run"},
    {"trace.json", BYTES("{\"traceEvents\":[\n"), "a time line"},
    {"arun/", BYTES("metrics.jsonl"), "a run directory without checkpoints"},
    {"photos/", BYTES("a.png"), "a folder of images"},
    {"texts/", BYTES("a.txt"), "a folder of texts"},
    {"peft/", BYTES("adapter_config.json"), "a folder with adapters (PEFT)"},
    {"gpt2/", BYTES("model.safetensors"), "a folder with a published model"},
    {"words/", BYTES("tokenizer.json"), "a folder with a tokenizer"},
    {"mistral/", BYTES("tokenizer.model.v3"), "a folder with a tokenizer"},
    {"odds/", BYTES("odd"), "a folder"},
};

/* HDF5 files by an attribute of the file. */
static const struct {
    const char *name, *attribute, *value, *kind;
} hdf5_files[] = {
    {"other.h5", "title", "x", "an HDF5 file that charl did not write"},
    {"new.nc", "_NCProperties", "version=2", "a netCDF-4 file"},
    {"frame.h5", "PYTABLES_FORMAT_VERSION", "2.1", "a file of pandas or PyTables"},
    {"net.h5", "keras_version", "2.4", "a model of Keras"},
    {"data.h5", "charl_format", "dataset", "a dataset of charl"},
    {"best.h5", "charl_format", "checkpoint", "a checkpoint of charl"},
};

static void make_files(void)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        FILE *f;

        snprintf(path, sizeof path, "%s", charl_test_path(dir, files[i].name));
        if (path[strlen(path) - 1] == '/') {
            assert_int_equal(mkdir(path, 0700), 0);
            snprintf(path, sizeof path, "%s%s", charl_test_path(dir, files[i].name), files[i].bytes);
        }
        f = fopen(path, "wb");
        assert_non_null(f);
        fwrite(files[i].bytes, 1, files[i].n, f);
        fclose(f);
    }
    for (size_t i = 0; i < sizeof hdf5_files / sizeof *hdf5_files; i++) {
        const hid_t file = H5Fcreate(charl_test_path(dir, hdf5_files[i].name), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
        hid_t attribute;

        H5Tset_size(type, strlen(hdf5_files[i].value) + 1);
        attribute = H5Acreate2(file, hdf5_files[i].attribute, type, space, H5P_DEFAULT, H5P_DEFAULT);
        assert_true(H5Awrite(attribute, type, hdf5_files[i].value) >= 0);
        H5Aclose(attribute);
        H5Tclose(type);
        H5Sclose(space);
        H5Fclose(file);
    }
}

static charl_status read_config(const char *path)
{
    charl_config *c = NULL;
    const charl_status st = charl_config_load(path, NULL, 0, &c);

    charl_config_destroy(c);
    return st;
}

static charl_status read_checkpoint(const char *path)
{
    charl_checkpoint_reader *r = NULL;
    const charl_status st = charl_checkpoint_open(path, &r);

    charl_checkpoint_close(r);
    return st;
}

static charl_status read_dataset(const char *path)
{
    charl_dataset *ds = NULL;
    const charl_status st = charl_dataset_open(path, NULL, &ds);

    charl_dataset_close(ds);
    return st;
}

static charl_status read_tensor_file(const char *path)
{
    charl_tensor_file *s = NULL;
    const charl_status st = charl_tensor_file_open(path, &s);

    charl_tensor_file_close(s);
    return st;
}

/* Into a set of one parameter. */
static charl_status read_weights(const char *path)
{
    const charl_param_spec one = {.name = "w", .shape = {1, {4}}, .trainable = true};
    charl_params *set = NULL;
    charl_param *p = NULL;
    charl_graph *g = NULL;
    charl_status st;

    charl_assert_ok(charl_params_create(&set));
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    charl_assert_ok(charl_params_add(set, &one, &p));
    charl_graph_keep(g, charl_parameter(g, p));
    charl_assert_ok(charl_graph_compile(g));
    st = charl_params_load(set, path, NULL, NULL);
    charl_graph_destroy(g);
    charl_params_destroy(set);
    return st;
}

static charl_status read_tokenizer(const char *path)
{
    charl_tokenizer *t = NULL;
    const charl_status st = charl_tokenizer_load(path, &t);

    charl_tokenizer_destroy(t);
    return st;
}

static charl_status read_image(const char *path)
{
    unsigned char out[64];

    return charl_image_read(path, &(charl_image_format){.channels = 1, .height = 8, .width = 8}, out);
}

static charl_status import(const char *format, const char *path)
{
    const charl_importer *t = charl_importer_find(format);
    const char *two[2] = {path, path};

    return t->run(t->row.defaults, two, t->group, charl_test_path(dir, "out.h5"),
                  &(charl_import_options){sizeof(charl_import_options), .overwrite = true});
}

static charl_status import_csv(const char *path)
{
    return import("csv", path);
}

static charl_status import_text(const char *path)
{
    return import("text", path);
}

static charl_status import_npy(const char *path)
{
    return import("npy", path);
}

static charl_status import_idx(const char *path)
{
    return import("idx", path);
}

static charl_status import_hdf5(const char *path)
{
    return import("hdf5", path);
}

static charl_status report(const char *path)
{
    return charl_report_write(&path, 1, charl_test_path(dir, "out.html"));
}

static charl_status compare(const char *path)
{
    char *text = NULL;
    const charl_status st = charl_report_compare(&path, 1, NULL, &text);

    charl_free(text);
    return st;
}

static charl_status verify(const char *path)
{
    charl_verify_result result;
    const charl_status st =
        charl_verify(path, &(charl_verify_options){sizeof(charl_verify_options), .segments = 0}, &result);

    return st;
}

static charl_status merge(const char *path)
{
    return charl_trace_merge(&path, 1, charl_test_path(dir, "out.json"));
}

#define RUNS "a run directory|a run directory without checkpoints"
#define WEIGHTS                                                                                                        \
    "weights in the safetensors format|weights in PyTorch's own format|a folder with adapters (PEFT)|a folder "        \
    "with a published model|a NumPy array|an archive of NumPy arrays"
#define CHECKPOINT "a checkpoint of charl"
#define DATASETS "a dataset of charl|an HDF5 file that charl did not write|a netCDF-4 file"
#define FOLDERS "a folder of images|a folder of texts|a folder with a tokenizer|a folder"
#define TOKENIZERS                                                                                                     \
    "a tokenizer (tokenizer.json)|part of a tokenizer (vocab.json and merges.txt)|BERT's vocabulary (vocab.txt)|a "    \
    "rank file of tiktoken|a "                                                                                         \
    "SentencePiece model|a folder with a published model"
#define TEXTS                                                                                                          \
    "a text|a CSV file|a file of JSON lines|one JSON array|one JSON object|a YAML file|a configuration|a web page|a "  \
    "Python program|the run.lock of a run|the metrics.jsonl of a run|a time line|a tokenizer (tokenizer.json)|part "   \
    "of a tokenizer (vocab.json and merges.txt)|BERT's vocabulary (vocab.txt)|a rank file of tiktoken|the "            \
    "config.json of a published model"

static const struct {
    const char *name;
    charl_status (*read)(const char *path);
    const char *takes; /* kinds, between bars */
    bool folders;      /* looks for files in them */
} readers[] = {
    {"configuration", read_config, "a configuration|a text|" RUNS},
    {"checkpoint", read_checkpoint, CHECKPOINT},
    {"dataset", read_dataset, DATASETS},
    {"weights of other programs", read_tensor_file, WEIGHTS},
    {"weights", read_weights, WEIGHTS "|" CHECKPOINT},
    {"tokenizer", read_tokenizer, TOKENIZERS "|" DATASETS "|" CHECKPOINT "|" FOLDERS},
    {"image", read_image, "an image"},
    {"import csv", import_csv, "a CSV file|a text|text in UTF-16|text in UTF-32"},
    {"import text", import_text, TEXTS, true},
    {"import npy", import_npy, "a NumPy array|an archive of NumPy arrays"},
    {"import idx", import_idx, "an IDX file"},
    {"import hdf5", import_hdf5, DATASETS, true},
    {"report", report, RUNS "|" FOLDERS},
    {"compare", compare, RUNS "|" FOLDERS},
    {"verify", verify, RUNS "|" FOLDERS},
    {"trace merge", merge, "a time line"},
};

static bool takes(const char *kinds, const char *kind)
{
    const size_t n = strlen(kind);

    for (const char *at = kinds; (at = strstr(at, kind)) != NULL; at++) {
        if ((at == kinds || at[-1] == '|') && (at[n] == '\0' || at[n] == '|')) {
            return true;
        }
    }
    return false;
}

static int failures;

/* The message names the kind, and is not about damage. */
static void check(const char *name, const char *kind_name, size_t r)
{
    const char *path = charl_test_path(dir, name);
    charl_status st;

    if (takes(readers[r].takes, kind_name) || (readers[r].folders && name[strlen(name) - 1] == '/')) {
        return;
    }
    st = readers[r].read(path);
    if (st == CHARL_OK || strstr(charl_error_message(), "damaged") || strstr(charl_error_message(), "HDF5:") ||
        !strstr(charl_error_message(), kind_name)) {
        fprintf(stderr, "%s of %s: %s\n", readers[r].name, name, st == CHARL_OK ? "accepted" : charl_error_message());
        failures++;
    }
    charl_error_clear();
}

static void readers_name_what_they_do_not_take(void **state)
{
    (void)state;
    dir = charl_test_tempdir();
    make_files();
    for (size_t r = 0; r < sizeof readers / sizeof *readers; r++) {
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            check(files[i].name, files[i].kind, r);
        }
        for (size_t i = 0; i < sizeof hdf5_files / sizeof *hdf5_files; i++) {
            check(hdf5_files[i].name, hdf5_files[i].kind, r);
        }
    }
    charl_test_tempdir_remove(dir);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_name_what_they_do_not_take),
    };

    return charl_test_on_device(tests, &dev);
}

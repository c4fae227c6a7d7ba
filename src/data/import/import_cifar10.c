/* Importer of CIFAR-10 batches: first reads the sizes of the files, so that the writer knows the number of
 * samples, then blocks of records. */
#include <string.h>

#include "base/alloc.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "io/commit.h"
#include "io/dataset/dataset_write.h"
#include "data/import/import_source.h"
#include "data/import/importer.h"

enum {
    CIFAR_PIXELS = 3 * 32 * 32,
    CIFAR_RECORD = 1 + CIFAR_PIXELS,
    CIFAR_BLOCK = 256,
};

static charl_status cifar_count(const char *path, int64_t *n)
{
    CHARL_SCOPED(charl__source_left) charl__source *s = NULL;
    int64_t bytes;

    CHARL_TRY(charl__source_open(path, &s));
    bytes = charl__source_file_bytes(s);
    CHARL_REQUIRE(bytes % CIFAR_RECORD == 0, CHARL_ERR_DATA,
                  "%s: %lld bytes are not a whole number of CIFAR-10 records of %d bytes: truncated "
                  "or another format",
                  path, (long long)bytes, CIFAR_RECORD);
    *n += bytes / CIFAR_RECORD;
    return CHARL_OK;
}

static charl_status cifar_copy(const char *path, charl__writer *w)
{
    CHARL_SCOPED(charl__source_left) charl__source *s = NULL;
    CHARL_SCOPED_FREE unsigned char *records = NULL;
    CHARL_SCOPED_FREE unsigned char *x = NULL;
    int32_t y[CIFAR_BLOCK];
    int64_t left;

    CHARL_TRY(charl__source_open(path, &s));
    CHARL_TRY(charl__alloc_array(CIFAR_BLOCK, CIFAR_RECORD, &records));
    CHARL_TRY(charl__alloc_array(CIFAR_BLOCK, CIFAR_PIXELS, &x));
    left = charl__source_file_bytes(s) / CIFAR_RECORD;
    for (int64_t at = 0; left > 0;) {
        const int64_t n = left < CIFAR_BLOCK ? left : CIFAR_BLOCK;

        CHARL_TRY(charl__source_exact(s, records, (size_t)n * CIFAR_RECORD, "the records"));
        for (int64_t k = 0; k < n; k++) {
            const unsigned char *r = records + k * CIFAR_RECORD;

            CHARL_REQUIRE(r[0] < 10, CHARL_ERR_DATA, "%s: label %d in record %lld: CIFAR-10 labels are 0 to 9", path,
                          r[0], (long long)(at + k));
            y[k] = r[0];
            memcpy(x + k * CIFAR_PIXELS, r + 1, CIFAR_PIXELS);
        }
        CHARL_TRY(charl__writer_put(w, x, y, n));
        at += n;
        left -= n;
    }
    CHARL_TRY(charl__source_end(s));
    return CHARL_OK;
}

typedef struct cifar_settings {
    const char *test;
} cifar_settings;

static charl_status run_cifar10(const void *settings, const char *const *files, int n, const char *out,
                                const charl_import_options *opt)
{
    const char *test = ((const cifar_settings *)settings)->test;
    CHARL_SCOPED(charl__writer_left) charl__writer *w = NULL;
    charl__writer_spec spec = {
        .kind = CHARL_DATASET_IMAGES, .x_dtype = CHARL_U8, .x_item = {3, {3, 32, 32}}, .classes = 10};

    CHARL_TRY(charl__commit_check_inputs(out, files, n));
    CHARL_TRY(charl__commit_check_inputs(out, &test, 1));
    for (int i = 0; i < n; i++) {
        CHARL_TRY(cifar_count(files[i], &spec.rows));
    }
    if (test) {
        CHARL_TRY(cifar_count(test, &spec.more));
    }
    CHARL_TRY(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY(
        charl__writer_text(w, "class_names", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck"));
    for (int i = 0; i < n; i++) {
        CHARL_TRY(cifar_copy(files[i], w));
    }
    if (test) {
        CHARL_TRY(cifar_copy(test, w));
    }
    CHARL_TRY(charl__writer_finish(w));
    return CHARL_OK;
}

static const charl_key cifar_keys[] = {
    {"test", CHARL_KEY_TEXT, offsetof(cifar_settings, test), NULL, false,
     "held-out batch, used as validation set, with --val-split as test set", NULL},
};
static const cifar_settings cifar_defaults = {NULL};

const charl_importer charl__importer_cifar10 = {
    .row.name = "cifar10",
    .row.help = "CIFAR-10, binary version",
    CHARL_KEYS(cifar_keys),
    CHARL_DEFAULTS(cifar_defaults),
    .files = "BATCH...",
    .group = 1,
    .run = run_cifar10,
};

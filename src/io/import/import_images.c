/* Importers of image collections in fixed binary records: IDX pairs and CIFAR-10 batches. Each
 * reads headers first, so that the writer knows the number of samples, then streams blocks. */
#include <string.h>

#include "base/alloc.h"
#include "charl/dataset.h"
#include "io/commit.h"
#include "io/dataset/dataset_write.h"
#include "io/import/import_source.h"
#include "io/import/importer.h"
#include "io/kind.h"

enum {
    BLOCK_BYTES = 1 << 20,
    MAX_IMAGE_BYTES = 1 << 28,
    CIFAR_PIXELS = 3 * 32 * 32,
    CIFAR_RECORD = 1 + CIFAR_PIXELS,
    CIFAR_BLOCK = 256,
};

typedef struct idx_pair {
    charl__source *images;
    charl__source *labels;
    int64_t n;
    charl_shape item; /* [1,h,w] or [c,h,w] */
} idx_pair;

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Magic number and extents of an IDX file of unsigned bytes. */
static charl_status idx_header(charl__source *s, int *ndim, int64_t *dim)
{
    unsigned char head[4];
    const char *path = charl__source_path(s);

    CHARL_TRY(charl__kind_expect(path, CHARL__KIND_IDX, "an IDX file", CHARL_ERR_DATA));
    CHARL_TRY(charl__source_exact(s, head, sizeof head, "the IDX header"));
    CHARL_REQUIRE(head[0] == 0 && head[1] == 0, CHARL_ERR_DATA, "%s: not an IDX file (begins with %02x %02x %02x %02x)",
                  path, head[0], head[1], head[2], head[3]);
    CHARL_REQUIRE(head[2] == 8, CHARL_ERR_DATA,
                  "%s: IDX elements of type 0x%02x; only unsigned bytes (0x08) are imported", path, head[2]);
    *ndim = head[3];
    CHARL_REQUIRE(*ndim >= 1 && *ndim <= 4, CHARL_ERR_DATA, "%s: IDX with %d dimensions", path, *ndim);
    for (int i = 0; i < *ndim; i++) {
        CHARL_TRY(charl__source_exact(s, head, sizeof head, "the IDX header"));
        dim[i] = big_endian(head);
        CHARL_REQUIRE(dim[i] > 0, CHARL_ERR_DATA, "%s: IDX extent %d is 0", path, i);
    }
    return CHARL_OK;
}

static charl_status idx_open(idx_pair *p, const char *images, const char *labels)
{
    int64_t dim[4];
    int64_t n_labels[4];
    int64_t bytes = 1;
    int ndim;
    int label_ndim;

    CHARL_TRY(charl__source_open(images, &p->images));
    CHARL_TRY(charl__source_open(labels, &p->labels));
    CHARL_TRY(idx_header(p->images, &ndim, dim));
    CHARL_REQUIRE(ndim >= 3, CHARL_ERR_DATA, "%s: %d dimensions; images are [n,h,w] or [n,c,h,w]%s", images, ndim,
                  ndim == 1 ? " (are labels and images exchanged?)" : "");
    CHARL_TRY(idx_header(p->labels, &label_ndim, n_labels));
    CHARL_REQUIRE(label_ndim == 1, CHARL_ERR_DATA, "%s: %d dimensions; labels are [n]", labels, label_ndim);
    CHARL_REQUIRE(n_labels[0] == dim[0], CHARL_ERR_DATA, "%s has %lld images but %s has %lld labels", images,
                  (long long)dim[0], labels, (long long)n_labels[0]);
    p->n = dim[0];
    p->item.ndim = 3;
    p->item.dim[0] = ndim == 4 ? dim[1] : 1;
    p->item.dim[1] = dim[ndim - 2];
    p->item.dim[2] = dim[ndim - 1];
    for (int i = 0; i < 3; i++) {
        CHARL_REQUIRE(p->item.dim[i] <= MAX_IMAGE_BYTES / bytes, CHARL_ERR_DATA, "%s: images of more than %d bytes",
                      images, MAX_IMAGE_BYTES);
        bytes *= p->item.dim[i];
    }
    CHARL_TRY(charl__source_holds(p->images, p->n * bytes, "the images"));
    CHARL_TRY(charl__source_holds(p->labels, p->n, "the labels"));
    return CHARL_OK;
}

static void idx_close(idx_pair *p)
{
    charl__source_close(p->images);
    charl__source_close(p->labels);
}

static charl_status idx_copy(idx_pair *p, charl__writer *w)
{
    charl_status st = CHARL_OK;
    const int64_t bytes = charl_shape_count(&p->item);
    const int64_t block = bytes < BLOCK_BYTES ? BLOCK_BYTES / bytes : 1;
    unsigned char *x = NULL;
    unsigned char *labels = NULL;
    int32_t *y = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(block, (size_t)bytes, &x));
    CHARL_TRY_CLEANUP(charl__alloc_array(block, 1, &labels));
    CHARL_TRY_CLEANUP(charl__alloc_array(block, sizeof *y, &y));
    for (int64_t i = 0; i < p->n; i += block) {
        const int64_t n = p->n - i < block ? p->n - i : block;

        CHARL_TRY_CLEANUP(charl__source_exact(p->images, x, (size_t)(n * bytes), "the images"));
        CHARL_TRY_CLEANUP(charl__source_exact(p->labels, labels, (size_t)n, "the labels"));
        for (int64_t k = 0; k < n; k++) {
            y[k] = labels[k];
        }
        CHARL_TRY_CLEANUP(charl__writer_put(w, x, y, n));
    }
    CHARL_TRY_CLEANUP(charl__source_end(p->images));
    CHARL_TRY_CLEANUP(charl__source_end(p->labels));
cleanup:
    charl_free(y);
    charl_free(labels);
    charl_free(x);
    return st;
}

charl_status charl_import_idx(const char *const images[2], const char *const labels[2], const char *out,
                              const charl_import_options *opt)
{
    CHARL_GIVEN(images, labels, out);
    charl_status st = CHARL_OK;
    idx_pair pair[2] = {{0}, {0}};
    charl__writer *w = NULL;
    charl__writer_spec spec = {.kind = CHARL_DATASET_IMAGES, .x_dtype = CHARL_U8};

    CHARL_REQUIRE_CLEANUP(images[0] && labels[0] && !images[1] == !labels[1], CHARL_ERR_CONFIG,
                          "an IDX import needs images and labels, in pairs");
    CHARL_TRY_CLEANUP(charl__commit_check_inputs(out, images, 2));
    CHARL_TRY_CLEANUP(charl__commit_check_inputs(out, labels, 2));
    CHARL_TRY_CLEANUP(idx_open(&pair[0], images[0], labels[0]));
    if (images[1]) {
        CHARL_TRY_CLEANUP(idx_open(&pair[1], images[1], labels[1]));
        CHARL_REQUIRE_CLEANUP(charl_shape_equal(&pair[0].item, &pair[1].item), CHARL_ERR_DATA,
                              "images of %s and %s differ in size", images[0], images[1]);
    }
    spec.x_item = pair[0].item;
    spec.rows = pair[0].n;
    spec.more = pair[1].n;
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY_CLEANUP(idx_copy(&pair[0], w));
    if (images[1]) {
        CHARL_TRY_CLEANUP(idx_copy(&pair[1], w));
    }
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    idx_close(&pair[0]);
    idx_close(&pair[1]);
    return st;
}

static charl_status cifar_count(const char *path, int64_t *n)
{
    charl_status st = CHARL_OK;
    charl__source *s = NULL;
    int64_t bytes;

    CHARL_TRY_CLEANUP(charl__source_open(path, &s));
    bytes = charl__source_file_bytes(s);
    CHARL_REQUIRE_CLEANUP(bytes % CIFAR_RECORD == 0, CHARL_ERR_DATA,
                          "%s: %lld bytes are not a whole number of CIFAR-10 records of %d bytes: truncated "
                          "or another format",
                          path, (long long)bytes, CIFAR_RECORD);
    *n += bytes / CIFAR_RECORD;
cleanup:
    charl__source_close(s);
    return st;
}

static charl_status cifar_copy(const char *path, charl__writer *w)
{
    charl_status st = CHARL_OK;
    charl__source *s = NULL;
    unsigned char *records = NULL;
    unsigned char *x = NULL;
    int32_t y[CIFAR_BLOCK];
    int64_t left;

    CHARL_TRY_CLEANUP(charl__source_open(path, &s));
    CHARL_TRY_CLEANUP(charl__alloc_array(CIFAR_BLOCK, CIFAR_RECORD, &records));
    CHARL_TRY_CLEANUP(charl__alloc_array(CIFAR_BLOCK, CIFAR_PIXELS, &x));
    left = charl__source_file_bytes(s) / CIFAR_RECORD;
    for (int64_t at = 0; left > 0;) {
        const int64_t n = left < CIFAR_BLOCK ? left : CIFAR_BLOCK;

        CHARL_TRY_CLEANUP(charl__source_exact(s, records, (size_t)n * CIFAR_RECORD, "the records"));
        for (int64_t k = 0; k < n; k++) {
            const unsigned char *r = records + k * CIFAR_RECORD;

            CHARL_REQUIRE_CLEANUP(r[0] < 10, CHARL_ERR_DATA, "%s: label %d in record %lld: CIFAR-10 labels are 0 to 9",
                                  path, r[0], (long long)(at + k));
            y[k] = r[0];
            memcpy(x + k * CIFAR_PIXELS, r + 1, CIFAR_PIXELS);
        }
        CHARL_TRY_CLEANUP(charl__writer_put(w, x, y, n));
        at += n;
        left -= n;
    }
    CHARL_TRY_CLEANUP(charl__source_end(s));
cleanup:
    charl_free(x);
    charl_free(records);
    charl__source_close(s);
    return st;
}

charl_status charl_import_cifar10(const char *const *train, int n_train, const char *test, const char *out,
                                  const charl_import_options *opt)
{
    CHARL_GIVEN(train || n_train == 0, out);
    charl_status st = CHARL_OK;
    charl__writer *w = NULL;
    charl__writer_spec spec = {
        .kind = CHARL_DATASET_IMAGES, .x_dtype = CHARL_U8, .x_item = {3, {3, 32, 32}}, .classes = 10};

    CHARL_REQUIRE_CLEANUP(n_train >= 1, CHARL_ERR_CONFIG, "a CIFAR-10 import needs at least one file");
    CHARL_TRY_CLEANUP(charl__commit_check_inputs(out, train, n_train));
    CHARL_TRY_CLEANUP(charl__commit_check_inputs(out, &test, 1));
    for (int i = 0; i < n_train; i++) {
        CHARL_TRY_CLEANUP(cifar_count(train[i], &spec.rows));
    }
    if (test) {
        CHARL_TRY_CLEANUP(cifar_count(test, &spec.more));
    }
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY_CLEANUP(
        charl__writer_text(w, "class_names", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck"));
    for (int i = 0; i < n_train; i++) {
        CHARL_TRY_CLEANUP(cifar_copy(train[i], w));
    }
    if (test) {
        CHARL_TRY_CLEANUP(cifar_copy(test, w));
    }
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    return st;
}

/* idx */
static charl_status run_idx(const void *settings, const char *const *files, int n, const char *out,
                            const charl_import_options *opt)
{
    (void)settings;
    return charl_import_idx((const char *const[2]){files[0], n == 4 ? files[2] : NULL},
                            (const char *const[2]){files[1], n == 4 ? files[3] : NULL}, out, opt);
}

const charl_importer charl__importer_idx = {
    .row.name = "idx",
    .row.help = "MNIST's format, plain or .gz",
    .files = "IMAGES LABELS [IMAGES LABELS]",
    .group = 2,
    .most = 4,
    .note = "The second pair becomes the validation set, with --val-split the test set.",
    .run = run_idx,
};

/* cifar10 */
typedef struct cifar_settings {
    const char *test;
} cifar_settings;

static charl_status run_cifar10(const void *settings, const char *const *files, int n, const char *out,
                                const charl_import_options *opt)
{
    return charl_import_cifar10(files, n, ((const cifar_settings *)settings)->test, out, opt);
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

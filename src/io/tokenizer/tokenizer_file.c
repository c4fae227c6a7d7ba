/* The tokenizer in a data set: its kind as an attribute, and what it learnt as an array. */
#include "base/alloc.h"
#include "io/dataset/dataset_file.h"
#include "io/h5.h"
#include "io/tokenizer/tokenizer_private.h"

#define CHARACTERS "/tokenizer/characters"
#define MERGES "/tokenizer/merges"

charl_status charl__tokenizer_store(const charl_tokenizer *t, charl__writer *w)
{
    const charl_shape point = {0, {0}}, pair = {1, {2}};

    CHARL_TRY(charl__writer_text(w, "tokenizer", charl_tokenizer_kind_name(t->kind)));
    if (t->kind == CHARL_TOKENIZER_CHARS) {
        CHARL_TRY(charl__writer_array(w, CHARACTERS, CHARL_U32, &point, t->vocab, t->points));
    }
    if (t->kind == CHARL_TOKENIZER_BPE && t->vocab > 256) {
        CHARL_TRY(charl__writer_array(w, MERGES, CHARL_U32, &pair, t->vocab - 256, t->merges));
    }
    return CHARL_OK;
}

/* An array of u32 with rows of `columns` numbers, 0 for scalars; no rows when it is not there. */
static charl_status read_array(charl__file *f, const char *name, int64_t columns, uint32_t **out, int64_t *rows)
{
    charl_status st = CHARL_OK;
    const charl_shape item = {columns > 0, {columns}};
    charl__array a = {.dataset = H5I_INVALID_HID};
    uint32_t *numbers = NULL;
    bool found = false;

    *out = NULL;
    *rows = 0;
    CHARL_TRY_CLEANUP(charl__file_find(f, name, &found));
    if (!found) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__array_init(&a, f, name, CHARL__ROLE_SAMPLES));
    CHARL_REQUIRE_CLEANUP(a.dtype == CHARL_U32 && charl_shape_equal(&a.item, &item) && a.rows <= 0x110000,
                          CHARL_ERR_DATA, "%s: %s is not a vocabulary", f->path, name);
    CHARL_TRY_CLEANUP(charl_alloc_array(a.rows, a.item_bytes, &numbers));
    CHARL_TRY_CLEANUP(charl__array_read(f, &a, 0, a.rows, numbers));
    *rows = a.rows;
    *out = numbers;
    numbers = NULL;
cleanup:
    charl_free(numbers);
    charl__array_fini(&a);
    return st;
}

/* What the tokenizer learnt; the arrays go to it. */
static charl_status read_contents(charl__file *f, charl_tokenizer *t)
{
    charl_status st = CHARL_OK;
    uint32_t *numbers = NULL;
    int64_t n = 0;

    switch (t->kind) {
    case CHARL_TOKENIZER_CHARS:
        CHARL_TRY(read_array(f, CHARACTERS, 0, &numbers, &n));
        st = charl__chars_become(t, numbers, n);
        break;
    case CHARL_TOKENIZER_BPE:
        CHARL_TRY(read_array(f, MERGES, 2, &numbers, &n));
        st = charl__bpe_become(t, numbers, n);
        break;
    default:
        st = charl__bytes_learn(t);
    }
    if (st == CHARL_ERR_DATA) {
        charl__error_prefix("%s: tokenizer: ", f->path);
    }
    CHARL_TRY(st);
    return CHARL_OK;
}

static charl_status read_kind(charl__file *f, charl_tokenizer_kind *out)
{
    charl_status st = CHARL_OK;
    char *name = NULL;
    charl_tokenizer_kind kind;

    CHARL_TRY_CLEANUP(charl__file_text(f, "/", "tokenizer", &name));
    CHARL_REQUIRE_CLEANUP(name[0], CHARL_ERR_DATA,
                          "%s carries no tokenizer; HINT only data sets made by `charl data import text` do", f->path);
    kind = charl__tokenizer_kind_of(name);
    CHARL_REQUIRE_CLEANUP(kind < CHARL_TOKENIZER_KIND_COUNT, CHARL_ERR_DATA,
                          "%s: unknown tokenizer \"%.40s\" (bytes, chars or bpe)", f->path, name);
    *out = kind;
cleanup:
    charl_free(name);
    return st;
}

charl_status charl_tokenizer_load(const char *path, charl_tokenizer **out)
{
    charl_status st = CHARL_OK;
    charl__file f = {.fd = -1, .h5 = H5I_INVALID_HID};
    const charl__h5_site site = {CHARL_ERR_DATA, path};
    charl_tokenizer *t = NULL;
    hid_t root = H5I_INVALID_HID;
    int64_t vocab = 0;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl_alloc(sizeof *t, &t));
    CHARL_TRY_CLEANUP(charl__file_init(&f, path));
    CHARL_TRY_CLEANUP(read_kind(&f, &t->kind));
    CHARL_TRY_CLEANUP(read_contents(&f, t));
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DATA, root, H5Gopen2(f.h5, "/", H5P_DEFAULT), "%s", path);
    CHARL_TRY_CLEANUP(charl__h5_get_i64(&site, root, "vocab", &vocab));
    CHARL_REQUIRE_CLEANUP(vocab == t->vocab, CHARL_ERR_DATA,
                          "%s: the tokenizer has %lld tokens, but the vocabulary of the data %lld", path,
                          (long long)t->vocab, (long long)vocab);
    *out = t;
    t = NULL;
cleanup:
    charl__h5_close(&root);
    charl__file_fini(&f);
    charl_tokenizer_destroy(t);
    return st;
}

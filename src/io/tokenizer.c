/* A tokenizer as stored in data sets, checkpoints and schemas: its type and its state. */
#include "io/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/dataset/dataset_file.h"
#include "io/h5.h"

static const charl__tokenizer_layout layouts[] = {
    {.name = "bytes", .dtype = CHARL_U32},
    {.name = "chars", .array = "characters", .dtype = CHARL_U32},
    {.name = "bpe", .array = "merges", .dtype = CHARL_U32, .columns = 2},
    {.name = "pretrained", .array = "pretrained", .dtype = CHARL_U8, .has_spare = true},
};

enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static const charl__tokenizer_kind *kind; /* NULL: the program has no libcharl-train */

void charl__tokenizer_set_kind(const charl__tokenizer_kind *k)
{
    kind = k;
}

static const char *layout_name(int i)
{
    return i < LAYOUTS ? layouts[i].name : NULL;
}

const charl__tokenizer_layout *charl__tokenizer_layout_find(const char *name)
{
    for (int i = 0; name && i < LAYOUTS; i++) {
        if (strcmp(layouts[i].name, name) == 0) {
            return &layouts[i];
        }
    }
    return NULL;
}

charl_status charl__tokenizer_create(const charl__tokenizer_layout *layout, void *state, int64_t n,
                                     charl_tokenizer **out)
{
    charl_status st = CHARL_OK;
    charl_tokenizer *t = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *t, &t));
    t->layout = layout;
    atomic_init(&t->shares, 1);
    t->state = state;
    t->n = n;
    state = NULL;
    CHARL_REQUIRE_CLEANUP(n % (layout->columns > 0 ? layout->columns : 1) == 0 && (layout->array || n == 0),
                          CHARL_ERR_DATA, "%lld numbers are not the state of a tokenizer of type %s", (long long)n,
                          layout->name);
    if (kind) {
        CHARL_TRY_CLEANUP(kind->become(t));
    }
    *out = t;
    t = NULL;
cleanup:
    charl_free(state);
    charl__tokenizer_release(t);
    return st;
}

charl_status charl__tokenizer_restore(const charl__tokenizer_layout *layout, const void *state, int64_t n,
                                      charl_tokenizer **out)
{
    void *copy = NULL;

    *out = NULL;
    if (n > 0) {
        CHARL_TRY(charl__alloc_array(n, charl_dtype_size(layout->dtype), &copy));
        memcpy(copy, state, (size_t)n * charl_dtype_size(layout->dtype));
    }
    return charl__tokenizer_create(layout, copy, n, out);
}

void charl__tokenizer_release(charl_tokenizer *t)
{
    if (!t || atomic_fetch_sub(&t->shares, 1) > 1) {
        return;
    }
    if (kind) {
        kind->fini(t);
    }
    charl_free(t->state);
    charl_free(t);
}

charl_tokenizer *charl__tokenizer_retain(const charl_tokenizer *t)
{
    if (!t) {
        return NULL;
    }
    charl_tokenizer *shared = (charl_tokenizer *)(uintptr_t)t; /* only the count changes */

    atomic_fetch_add(&shared->shares, 1);
    return shared;
}

bool charl__tokenizer_equal(const charl_tokenizer *a, const charl_tokenizer *b)
{
    if (!a || !b || a == b) {
        return a == b;
    }
    return a->layout == b->layout && a->n == b->n &&
           (a->n == 0 || memcmp(a->state, b->state, (size_t)a->n * charl_dtype_size(a->layout->dtype)) == 0);
}

enum { MOST_STATE = 1 << 28 }; /* rows */

/* The array of a type's state: /tokenizer/characters, ... */
typedef char array_name[64];

static const char *name_array(const charl__tokenizer_layout *layout, array_name out)
{
    snprintf(out, sizeof(array_name), "/tokenizer/%s", layout->array);
    return out;
}

static charl_shape row_shape(const charl__tokenizer_layout *layout)
{
    return (charl_shape){layout->columns > 0, {layout->columns}};
}

charl_status charl__tokenizer_store(const charl_tokenizer *t, charl__writer *w)
{
    const charl_shape item = row_shape(t->layout);
    array_name name;

    CHARL_TRY(charl__writer_text(w, "tokenizer", t->layout->name));
    if (t->n == 0) {
        return CHARL_OK;
    }
    return charl__writer_array(w, name_array(t->layout, name), t->layout->dtype, &item,
                               t->n / (item.ndim > 0 ? item.dim[0] : 1), t->state);
}

/* The state of a tokenizer of this type; none if the array does not exist. */
static charl_status read_state(charl__file *f, const charl__tokenizer_layout *layout, void **out, int64_t *n)
{
    const charl_shape item = row_shape(layout);
    CHARL_SCOPED(charl__array_fini) charl__array a = CHARL__ARRAY_CLOSED;
    array_name name;
    CHARL_SCOPED_FREE void *state = NULL;
    bool found = false;

    *out = NULL;
    *n = 0;
    if (layout->array) {
        CHARL_TRY(charl__file_find(f, name_array(layout, name), &found));
    }
    if (!found) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__array_init(&a, f, name, CHARL__ROLE_SAMPLES));
    CHARL_REQUIRE(a.dtype == layout->dtype && charl_shape_equal(&a.item, &item) && a.rows <= MOST_STATE, CHARL_ERR_DATA,
                  "%s: %s is not a vocabulary", f->path, name);
    CHARL_TRY(charl__alloc_array(a.rows, a.item_bytes, &state));
    CHARL_TRY(charl__array_read(f, &a, 0, a.rows, state));
    *n = a.rows * (item.ndim > 0 ? item.dim[0] : 1);
    *out = state;
    state = NULL;
    return CHARL_OK;
}

static charl_status read_layout(charl__file *f, const charl__tokenizer_layout **out)
{
    CHARL_SCOPED_FREE char *name = NULL;
    char names[200];

    CHARL_TRY(charl__file_text(f, "/", "tokenizer", &name));
    CHARL_REQUIRE(name[0], CHARL_ERR_DATA,
                  "%s carries no tokenizer; HINT import the text with `charl data import "
                  "text`, or the tokens with `charl data "
                  "import tokens --tokenizer FILE`",
                  f->path);
    *out = charl__tokenizer_layout_find(name);
    CHARL_REQUIRE(*out, CHARL_ERR_DATA, "%s: unknown tokenizer \"%.40s\" (%s)", f->path, name,
                  charl__text_list(name, layout_name, names, sizeof names));
    return CHARL_OK;
}

charl_status charl__tokenizer_of_dataset(const char *path, charl_tokenizer **out)
{
    CHARL_H5_SCOPE;
    charl_status st = CHARL_OK;
    charl__file f = {.fd = -1, .h5 = H5I_INVALID_HID};
    const charl__h5_site site = {CHARL_ERR_DATA, path};
    const charl__tokenizer_layout *layout = NULL;
    charl_tokenizer *t = NULL;
    hid_t root = H5I_INVALID_HID;
    void *state = NULL;
    int64_t n = 0, vocab = 0;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__file_init(&f, path));
    CHARL_TRY_CLEANUP(read_layout(&f, &layout));
    CHARL_TRY_CLEANUP(read_state(&f, layout, &state, &n));
    CHARL_TRY_CLEANUP(
        charl__error_in(charl__tokenizer_create(layout, state, n, &t), CHARL_ERR_DATA, "%s: tokenizer: ", path));
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DATA, root, H5Gopen2(f.h5, "/", H5P_DEFAULT), "%s", path);
    CHARL_TRY_CLEANUP(charl__h5_get_i64(&site, root, "vocab", &vocab));
    t->vocab = kind ? t->vocab : vocab;
    CHARL_REQUIRE_CLEANUP(vocab == t->vocab || (layout->has_spare && vocab > t->vocab), CHARL_ERR_DATA,
                          "%s: the tokenizer has %lld tokens, but the vocabulary of the data %lld", path,
                          (long long)t->vocab, (long long)vocab);
    *out = t;
    t = NULL;
cleanup:
    charl__h5_close(&root);
    charl__file_fini(&f);
    charl__tokenizer_release(t);
    return st;
}

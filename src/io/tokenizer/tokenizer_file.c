/* The tokenizer in a data set: its type as an attribute, and its state as an array. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/checkpoint.h"
#include "io/dataset/dataset_file.h"
#include "io/h5.h"
#include "io/tokenizer/tokenizer_private.h"

enum { MOST_STATE = 1 << 28 }; /* rows */

/* The array of a type's state: /tokenizer/characters, ... */
typedef char array_name[64];

static const char *name_array(const charl__tokenizer_type *type, array_name out)
{
    snprintf(out, sizeof(array_name), "/tokenizer/%s", type->array);
    return out;
}

static charl_shape row_shape(const charl__tokenizer_type *type)
{
    return (charl_shape){type->columns > 0, {type->columns}};
}

charl_status charl__tokenizer_store(const charl_tokenizer *t, charl__writer *w)
{
    const charl_shape item = row_shape(t->type);
    array_name name;

    CHARL_TRY(charl__writer_text(w, "tokenizer", t->type->row.name));
    if (t->n == 0) {
        return CHARL_OK;
    }
    return charl__writer_array(w, name_array(t->type, name), t->type->dtype, &item,
                               t->n / (item.ndim > 0 ? item.dim[0] : 1), t->state);
}

/* The state of a tokenizer of this type; none when the array is not there. */
static charl_status read_state(charl__file *f, const charl__tokenizer_type *type, void **out, int64_t *n)
{
    charl_status st = CHARL_OK;
    const charl_shape item = row_shape(type);
    charl__array a = CHARL__ARRAY_CLOSED;
    array_name name;
    void *state = NULL;
    bool found = false;

    *out = NULL;
    *n = 0;
    if (type->array) {
        CHARL_TRY_CLEANUP(charl__file_find(f, name_array(type, name), &found));
    }
    if (!found) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__array_init(&a, f, name, CHARL__ROLE_SAMPLES));
    CHARL_REQUIRE_CLEANUP(a.dtype == type->dtype && charl_shape_equal(&a.item, &item) && a.rows <= MOST_STATE,
                          CHARL_ERR_DATA, "%s: %s is not a vocabulary", f->path, name);
    CHARL_TRY_CLEANUP(charl__alloc_array(a.rows, a.item_bytes, &state));
    CHARL_TRY_CLEANUP(charl__array_read(f, &a, 0, a.rows, state));
    *n = a.rows * (item.ndim > 0 ? item.dim[0] : 1);
    *out = state;
    state = NULL;
cleanup:
    charl_free(state);
    charl__array_fini(&a);
    return st;
}

static charl_status read_type(charl__file *f, const charl__tokenizer_type **out)
{
    charl_status st = CHARL_OK;
    char *name = NULL;
    char names[200];

    CHARL_TRY_CLEANUP(charl__file_text(f, "/", "tokenizer", &name));
    CHARL_REQUIRE_CLEANUP(name[0], CHARL_ERR_DATA,
                          "%s carries no tokenizer; HINT import the text with `charl data import "
                          "text`, or the tokens with `charl data "
                          "import tokens --tokenizer FILE`",
                          f->path);
    *out = charl__tokenizer_type_find(name);
    CHARL_REQUIRE_CLEANUP(*out, CHARL_ERR_DATA, "%s: unknown tokenizer \"%.40s\" (%s)", f->path, name,
                          charl__text_list(name, charl_tokenizer_type_name, names, sizeof names));
cleanup:
    charl_free(name);
    return st;
}

charl_status charl__tokenizer_of_dataset(const char *path, charl_tokenizer **out)
{
    CHARL_H5_SCOPE;
    charl_status st = CHARL_OK;
    charl__file f = {.fd = -1, .h5 = H5I_INVALID_HID};
    const charl__h5_site site = {CHARL_ERR_DATA, path};
    const charl__tokenizer_type *type = NULL;
    charl_tokenizer *t = NULL;
    hid_t root = H5I_INVALID_HID;
    void *state = NULL;
    int64_t n = 0, vocab = 0;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__file_init(&f, path));
    CHARL_TRY_CLEANUP(read_type(&f, &type));
    CHARL_TRY_CLEANUP(read_state(&f, type, &state, &n));
    st = charl__tokenizer_take(type, state, n, &t);
    if (st == CHARL_ERR_DATA) {
        charl__error_prefix("%s: tokenizer: ", path);
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DATA, root, H5Gopen2(f.h5, "/", H5P_DEFAULT), "%s", path);
    CHARL_TRY_CLEANUP(charl__h5_get_i64(&site, root, "vocab", &vocab));
    CHARL_REQUIRE_CLEANUP(vocab == t->vocab || (!type->learn && vocab > t->vocab), CHARL_ERR_DATA,
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

static charl_status is_checkpoint(const char *path, bool *out)
{
    CHARL_H5_SCOPE;
    charl_status st = CHARL_OK;
    const charl__h5_site site = {CHARL_ERR_DATA, path};
    charl__file f = {.fd = -1, .h5 = H5I_INVALID_HID};
    hid_t root = H5I_INVALID_HID;
    char format[32] = "";

    *out = false;
    CHARL_TRY_CLEANUP(charl__file_init(&f, path));
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DATA, root, H5Gopen2(f.h5, "/", H5P_DEFAULT), "%s", path);
    if (charl__h5_has(root, "charl_format")) {
        CHARL_TRY_CLEANUP(charl__h5_get_text(&site, root, "charl_format", format, sizeof format));
    }
    *out = strcmp(format, "checkpoint") == 0;
cleanup:
    charl__h5_close(&root);
    charl__file_fini(&f);
    return st;
}

static charl_status of_checkpoint(const char *path, charl_tokenizer **out)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;
    const charl_data_schema *s;

    CHARL_TRY_CLEANUP(charl_checkpoint_open(path, &r));
    s = charl_checkpoint_get_schema(r);
    CHARL_REQUIRE_CLEANUP(s && s->tokenizer, CHARL_ERR_DATA, "%s is a checkpoint that holds no tokenizer", path);
    *out = charl_tokenizer_share(s->tokenizer);
cleanup:
    charl_checkpoint_close(r);
    return st;
}

charl_status charl__tokenizer_of_hdf5(const char *path, charl_tokenizer **out)
{
    bool checkpoint;

    *out = NULL;
    CHARL_TRY(is_checkpoint(path, &checkpoint));
    return checkpoint ? of_checkpoint(path, out) : charl__tokenizer_of_dataset(path, out);
}

/* Writing safetensors: the header as text, then the tensors, in one commit. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/checkpoint/checkpoint_format.h"
#include "io/commit.h"
#include "io/tensors/safetensors.h"

enum { ALIGN = 8 };

typedef const charl_checkpoint_tensor *item;

const char *charl__safetensors_dtype(charl_dtype dtype)
{
    static const char *const names[CHARL_DTYPE_COUNT] = {
        [CHARL_F32] = "F32", [CHARL_F16] = "F16", [CHARL_BF16] = "BF16", [CHARL_U8] = "U8",
        [CHARL_U16] = "U16", [CHARL_U32] = "U32", [CHARL_I32] = "I32",   [CHARL_I64] = "I64"};

    return (unsigned)dtype < CHARL_DTYPE_COUNT ? names[dtype] : NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const item *)a)->name, (*(const item *)b)->name);
}

/* Wider elements first; the elements are pointers into one array, so they preserve the given order among equals. */
static int by_width(const void *a, const void *b)
{
    const item x = *(const item *)a, y = *(const item *)b;
    const size_t width_x = charl_dtype_size(x->dtype), width_y = charl_dtype_size(y->dtype);

    return width_x != width_y ? (width_x < width_y) - (width_x > width_y) : (x > y) - (x < y);
}

static charl_status check(item *sorted, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const item t = sorted[i];
        const int64_t bytes = charl__ckpt_bytes(t->dtype, &t->shape);

        CHARL_REQUIRE(t->name && t->name[0] && strcmp(t->name, "__metadata__") != 0, CHARL_ERR_INVALID,
                      "safetensors: '%s' cannot be the name of a tensor", t->name ? t->name : "");
        CHARL_REQUIRE(bytes >= 0, CHARL_ERR_INVALID, "safetensors: %s: impossible element type or shape", t->name);
        CHARL_REQUIRE(bytes == 0 || t->data, CHARL_ERR_INVALID, "safetensors: %s has no data", t->name);
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    for (int64_t i = 1; i < n; i++) {
        CHARL_REQUIRE(by_name(&sorted[i - 1], &sorted[i]) != 0, CHARL_ERR_INVALID, "safetensors: %s is given twice",
                      sorted[i]->name);
    }
    return CHARL_OK;
}

static charl_status put_entry(charl__text *t, item tensor, int64_t begin)
{
    CHARL_TRY(charl__text_append(t, ",", 1));
    CHARL_TRY(charl__text_json(t, tensor->name));
    CHARL_TRY(charl__text_printf(t, ":{\"dtype\":\"%s\",\"shape\":[", charl__safetensors_dtype(tensor->dtype)));
    for (int i = 0; i < tensor->shape.ndim; i++) {
        CHARL_TRY(charl__text_printf(t, "%s%lld", i ? "," : "", (long long)tensor->shape.dim[i]));
    }
    CHARL_TRY(charl__text_printf(t, "],\"data_offsets\":[%lld,%lld]}", (long long)begin,
                                 (long long)(begin + charl__ckpt_bytes(tensor->dtype, &tensor->shape))));
    return CHARL_OK;
}

static charl_status put_metadata(charl__text *t, const charl_data_schema *schema, const char *lock)
{
    CHARL_SCOPED_FREE char *json = NULL;

    CHARL_TRY(charl__text_printf(t, "\"__metadata__\":{\"format\":\"pt\""));
    if (schema) {
        CHARL_TRY(charl_data_schema_print(schema, &json));
        CHARL_TRY(charl__text_printf(t, ",\"%s\":", CHARL__SAFETENSORS_SCHEMA));
        CHARL_TRY(charl__text_json(t, json));
    }
    if (lock && lock[0]) {
        CHARL_TRY(charl__text_printf(t, ",\"" CHARL__EXPORT_LOCK "\":\"%s\"", lock));
    }
    CHARL_TRY(charl__text_append(t, "}", 1));
    return CHARL_OK;
}

static charl_status put_header(charl__text *t, const item *sorted, int64_t n, const charl_data_schema *schema,
                               const char *lock)
{
    int64_t at = 0;

    CHARL_TRY(charl__text_append(t, "{", 1));
    CHARL_TRY(put_metadata(t, schema, lock));
    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(put_entry(t, sorted[i], at));
        at += charl__ckpt_bytes(sorted[i]->dtype, &sorted[i]->shape);
    }
    CHARL_TRY(charl__text_append(t, "}", 1));
    while (t->length % ALIGN != 0) {
        CHARL_TRY(charl__text_append(t, " ", 1));
    }
    CHARL_REQUIRE(t->length <= CHARL__SAFETENSORS_HEADER, CHARL_ERR_INVALID,
                  "safetensors: the names and shapes take %zu bytes, at most %d are allowed", t->length,
                  CHARL__SAFETENSORS_HEADER);
    return CHARL_OK;
}

static charl_status write_file(const char *path, const charl__text *header, const item *sorted, int64_t n)
{
    charl_status st = CHARL_OK;
    const uint64_t length = header->length; /* memory is little-endian, like the file */
    charl__commit c;

    CHARL_TRY_CLEANUP(charl__commit_begin(path, &c));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, &length, sizeof length));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, header->data, header->length));
    for (int64_t i = 0; i < n; i++) {
        const int64_t bytes = charl__ckpt_bytes(sorted[i]->dtype, &sorted[i]->shape);

        CHARL_TRY_CLEANUP(charl__commit_write(&c, sorted[i]->data, (size_t)bytes));
    }
    CHARL_TRY_CLEANUP(charl__commit_end(&c, NULL, NULL));
cleanup:
    charl__commit_fini(&c);
    return st;
}

charl_status charl_safetensors_save(const char *path, const charl_checkpoint_tensor *tensors, int64_t n_tensors,
                                    const charl_data_schema *schema)
{
    CHARL_GIVEN(path, tensors || n_tensors == 0);
    return charl__safetensors_save(path, tensors, n_tensors, schema, NULL);
}

charl_status charl__safetensors_save(const char *path, const charl_checkpoint_tensor *tensors, int64_t n_tensors,
                                     const charl_data_schema *schema, const char *lock)
{
    CHARL_SCOPED(charl__text_fini) charl__text header = {0};
    CHARL_SCOPED_FREE item *sorted = NULL;

    CHARL_TRY(charl__alloc_array(n_tensors, sizeof *sorted, &sorted));
    for (int64_t i = 0; i < n_tensors; i++) {
        sorted[i] = &tensors[i];
    }
    CHARL_TRY(check(sorted, n_tensors));
    qsort(sorted, (size_t)n_tensors, sizeof *sorted, by_width);
    CHARL_TRY(put_header(&header, sorted, n_tensors, schema, lock));
    CHARL_TRY(write_file(path, &header, sorted, n_tensors));
    return CHARL_OK;
}

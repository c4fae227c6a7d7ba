/* Comparing two checkpoints, one line per difference. Tensors are read in blocks, so size does not
 * matter. */
#include "io/checkpoint/checkpoint_read.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "io/checkpoint/checkpoint_format.h"
#include "io/dataset/schema/data_schema.h"

typedef struct diff {
    charl_checkpoint_reader *a, *b;
    unsigned char *block_a, *block_b;
    charl__text out;
} diff;

static charl_status diff_state(diff *d)
{
    const charl_checkpoint_state *a = charl_checkpoint_get_info(d->a).state;
    const charl_checkpoint_state *b = charl_checkpoint_get_info(d->b).state;

    for (int i = 0; i < charl__ckpt_n_fields; i++) {
        const charl__ckpt_field *f = &charl__ckpt_fields[i];
        const int64_t ia = f->kind == CHARL__CKPT_I64 ? charl__ckpt_get_i64(a, f) : 0;
        const int64_t ib = f->kind == CHARL__CKPT_I64 ? charl__ckpt_get_i64(b, f) : 0;
        const double fa = f->kind == CHARL__CKPT_F64 ? charl__ckpt_get_f64(a, f) : 0;
        const double fb = f->kind == CHARL__CKPT_F64 ? charl__ckpt_get_f64(b, f) : 0;
        const char *sa = f->kind == CHARL__CKPT_STRING ? charl__ckpt_get_string(a, f) : "";
        const char *sb = f->kind == CHARL__CKPT_STRING ? charl__ckpt_get_string(b, f) : "";

        if (f->provenance) {
            continue;
        }
        if (ia != ib) {
            CHARL_TRY(charl__text_printf(&d->out, "%s: %lld, %lld\n", f->name, (long long)ia, (long long)ib));
        }
        if (memcmp(&fa, &fb, sizeof fa) != 0) {
            CHARL_TRY(charl__text_printf(&d->out, "%s: %.17g, %.17g\n", f->name, fa, fb));
        }
        if (strcmp(sa, sb) != 0) {
            CHARL_TRY(charl__text_printf(&d->out, "%s: '%s', '%s'\n", f->name, sa, sb));
        }
    }
    if (strcmp(charl_checkpoint_get_info(d->a).config_text, charl_checkpoint_get_info(d->b).config_text) != 0) {
        CHARL_TRY(charl__text_printf(&d->out, "config/text differs\n"));
    }
    if (strcmp(charl_checkpoint_get_info(d->a).config_resolved, charl_checkpoint_get_info(d->b).config_resolved) != 0) {
        CHARL_TRY(charl__text_printf(&d->out, "config/resolved differs\n"));
    }
    CHARL_TRY(
        charl__schema_diff(charl_checkpoint_get_info(d->a).schema, charl_checkpoint_get_info(d->b).schema, &d->out));
    return CHARL_OK;
}

/* Elements of `size` bytes that differ among the first n, and the largest difference of f32 ones.
 */
static void compare(const diff *d, int64_t n, const charl_checkpoint_tensor *t, int64_t *count, double *largest)
{
    const size_t size = charl_dtype_size(t->dtype);

    for (int64_t i = 0; i < n; i++) {
        const unsigned char *a = d->block_a + (size_t)i * size, *b = d->block_b + (size_t)i * size;

        if (memcmp(a, b, size) == 0) {
            continue;
        }
        (*count)++;
        if (t->dtype == CHARL_F32) {
            float fa, fb;
            double gap;

            memcpy(&fa, a, sizeof fa);
            memcpy(&fb, b, sizeof fb);
            gap = fabs((double)fa - (double)fb);
            *largest = gap > *largest || isnan(gap) ? gap : *largest;
        }
    }
}

/* Equal names, types and shapes: compare the bits. */
static charl_status diff_contents(diff *d, const charl_checkpoint_tensor *a, const charl_checkpoint_tensor *b)
{
    const int64_t bytes = charl__ckpt_bytes(a->dtype, &a->shape);
    int64_t count = 0;
    double largest = 0;

    CHARL_TRY(charl__checkpoint_check_tensor(d->a, a, d->block_a));
    CHARL_TRY(charl__checkpoint_check_tensor(d->b, b, d->block_b));
    for (int64_t from = 0; from < bytes; from += CHARL__CKPT_BLOCK) {
        const int64_t n = bytes - from < CHARL__CKPT_BLOCK ? bytes - from : CHARL__CKPT_BLOCK;

        CHARL_TRY(charl__checkpoint_read_part(d->a, a, from, n, d->block_a));
        CHARL_TRY(charl__checkpoint_read_part(d->b, b, from, n, d->block_b));
        compare(d, n / (int64_t)charl_dtype_size(a->dtype), a, &count, &largest);
    }
    if (count > 0) {
        CHARL_TRY(charl__text_printf(&d->out, "%s/%s: %lld of %lld elements differ", a->group, a->name,
                                     (long long)count, (long long)charl_shape_count(&a->shape)));
        if (a->dtype == CHARL_F32) {
            CHARL_TRY(charl__text_printf(&d->out, ", by up to %.9g", largest));
        }
        CHARL_TRY(charl__text_printf(&d->out, "\n"));
    }
    return CHARL_OK;
}

static charl_status diff_tensor(diff *d, const charl_checkpoint_tensor *a)
{
    const charl_checkpoint_tensor *b = charl_checkpoint_find(d->b, a->group, a->name);
    char shape_a[CHARL_SHAPE_TEXT], shape_b[CHARL_SHAPE_TEXT];

    if (!b) {
        CHARL_TRY(charl__text_printf(&d->out, "%s/%s: only in the first\n", a->group, a->name));
    } else if (a->dtype != b->dtype || !charl_shape_equal(&a->shape, &b->shape)) {
        CHARL_TRY(charl__text_printf(&d->out, "%s/%s: %s %s, %s %s\n", a->group, a->name, charl_dtype_name(a->dtype),
                                     charl_shape_format(&a->shape, shape_a), charl_dtype_name(b->dtype),
                                     charl_shape_format(&b->shape, shape_b)));
    } else if (charl_checkpoint_is_in_base(d->a, a) || charl_checkpoint_is_in_base(d->b, b)) {
        if (a->crc32c != b->crc32c) { /* the values of at least one are not here */
            CHARL_TRY(charl__text_printf(&d->out, "%s/%s: another checksum\n", a->group, a->name));
        }
    } else {
        CHARL_TRY(diff_contents(d, a, b));
    }
    return CHARL_OK;
}

charl_status charl_checkpoint_diff(const char *path_a, const char *path_b, bool *same, char **report)
{
    CHARL_GIVEN(path_a, path_b, same, report);
    charl_status st = CHARL_OK;
    diff d = {0};
    size_t others;

    *same = false;
    *report = NULL;
    CHARL_TRY_CLEANUP(charl_checkpoint_open(path_a, &d.a));
    CHARL_TRY_CLEANUP(charl_checkpoint_open(path_b, &d.b));
    CHARL_TRY_CLEANUP(charl__alloc(CHARL__CKPT_BLOCK, &d.block_a));
    CHARL_TRY_CLEANUP(charl__alloc(CHARL__CKPT_BLOCK, &d.block_b));
    CHARL_TRY_CLEANUP(diff_state(&d));
    others = d.out.length;
    for (int64_t i = 0; i < charl_checkpoint_get_info(d.a).n_tensors; i++) {
        CHARL_TRY_CLEANUP(diff_tensor(&d, charl_checkpoint_get_tensor(d.a, i)));
    }
    for (int64_t i = 0; i < charl_checkpoint_get_info(d.b).n_tensors; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(d.b, i);

        if (!charl_checkpoint_find(d.a, t->group, t->name)) {
            CHARL_TRY_CLEANUP(charl__text_printf(&d.out, "%s/%s: only in the second\n", t->group, t->name));
        }
    }
    *same = d.out.length == others;
    *report = charl__text_steal(&d.out);
    if (!*report) {
        CHARL_TRY_CLEANUP(charl__strdup("", report));
    }
cleanup:
    charl__text_fini(&d.out);
    charl_free(d.block_b);
    charl_free(d.block_a);
    charl_checkpoint_close(d.b);
    charl_checkpoint_close(d.a);
    return st;
}

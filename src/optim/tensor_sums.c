/* Sums of squares per tensor: chunks of a tensor first, then the tensors. */
#include "optim/tensor_sums.h"

#include "base/alloc.h"

enum { CHUNK_BLOCKS = 16, LANES = 16, GROUP = 64 };

typedef struct tables {
    uint32_t *chunk[2], *tensor, *owner;
    int64_t n_chunks;
} tables;

static void add_tensor(tables *t, const charl_param *p, int64_t own_at)
{
    const int64_t first[2] = {charl__params_at(p->set, p->offset) / CHARL_PARAM_ALIGN, own_at / CHARL_PARAM_ALIGN};
    const int64_t n = charl__param_blocks(p);

    t->tensor[2 * p->index] = (uint32_t)t->n_chunks;
    for (int64_t b = 0; b < n; b += CHUNK_BLOCKS) {
        for (int i = 0; i < 2; i++) {
            t->chunk[i][2 * t->n_chunks] = (uint32_t)(first[i] + b);
            t->chunk[i][2 * t->n_chunks + 1] = (uint32_t)(n - b < CHUNK_BLOCKS ? n - b : CHUNK_BLOCKS);
        }
        t->n_chunks++;
    }
    t->tensor[2 * p->index + 1] = (uint32_t)t->n_chunks - t->tensor[2 * p->index];
    for (int64_t b = 0; b < n; b++) {
        t->owner[first[1] + b] = (uint32_t)p->index;
    }
}

static charl_status upload(charl_device *dev, const uint32_t *v, int64_t n, charl__buffer **out)
{
    const size_t bytes = (size_t)(n > 0 ? n : 1) * sizeof *v;

    CHARL_TRY(charl__buffer_create(dev, bytes, "tensor table", out));
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, *out, 0, v, bytes, true));
    return CHARL_OK;
}

charl_status charl__tensor_sums_create(charl_params *set, const int64_t *own_at, int64_t elements,
                                       charl__tensor_sums **out)
{
    charl_status st = CHARL_OK;
    const int64_t blocks = elements / CHARL_PARAM_ALIGN;
    charl__tensor_sums *s = NULL;
    tables t = {0};

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(set->elements / CHARL_PARAM_ALIGN <= UINT32_MAX / 2, CHARL_ERR_SHAPE,
                          "%lld parameters are too many for %s", (long long)set->elements, "sums per tensor");
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *s, &s));
    s->set = set;
    CHARL_TRY_CLEANUP(charl__alloc_array(2 * blocks, sizeof *t.chunk[0], &t.chunk[0]));
    CHARL_TRY_CLEANUP(charl__alloc_array(2 * blocks, sizeof *t.chunk[1], &t.chunk[1]));
    CHARL_TRY_CLEANUP(charl__alloc_array(2 * set->count, sizeof *t.tensor, &t.tensor));
    CHARL_TRY_CLEANUP(charl__alloc_array(blocks, sizeof *t.owner, &t.owner));
    for (int i = 0; i < set->count; i++) {
        if (own_at[i] >= 0) {
            add_tensor(&t, set->param[i], own_at[i]);
        }
    }
    s->n_chunks = t.n_chunks;
    for (int i = 0; i < 2; i++) {
        CHARL_TRY_CLEANUP(upload(set->dev, t.chunk[i], 2 * t.n_chunks, &s->chunk[i]));
    }
    CHARL_TRY_CLEANUP(upload(set->dev, t.tensor, 2 * set->count, &s->tensor));
    CHARL_TRY_CLEANUP(upload(set->dev, t.owner, blocks, &s->owner));
    CHARL_TRY_CLEANUP(charl__buffer_create(set->dev, (size_t)t.n_chunks * 4, "tensor sums", &s->partial));
    CHARL_TRY_CLEANUP(charl__buffer_create(set->dev, (size_t)set->count * 2 * 4, "tensor sums", &s->square));
    *out = s;
    s = NULL;
cleanup:
    charl_free(t.chunk[0]);
    charl_free(t.chunk[1]);
    charl_free(t.tensor);
    charl_free(t.owner);
    charl__tensor_sums_destroy(s);
    return st;
}

void charl__tensor_sums_destroy(charl__tensor_sums *s)
{
    if (s) {
        charl__buffer_release(s->chunk[0]);
        charl__buffer_release(s->chunk[1]);
        charl__buffer_release(s->tensor);
        charl__buffer_release(s->owner);
        charl__buffer_release(s->partial);
        charl__buffer_release(s->square);
        charl_free(s);
    }
}

charl_status charl__tensor_sums_squares(const charl__tensor_sums *s, charl__buffer *x, int row)
{
    const size_t items = (size_t)s->n_chunks * LANES;
    charl__arg square = charl__raw(CHARL_ARG_OUT, s->square);
    charl__buffer *const chunk = s->chunk[x != s->set->value];

    if (s->n_chunks == 0) {
        return CHARL_OK;
    }
    square.v.offset = (int64_t)row * s->set->count;
    CHARL_TRY(charl__launch_enqueue(
        s->set->dev, &(charl__launch){.file = "optim/tensor_sums",
                                      .entry = "charl_chunk_squares",
                                      .global = {(items + GROUP - 1) / GROUP * GROUP},
                                      .local = {GROUP},
                                      .args = {charl__raw(CHARL_ARG_IN, x), charl__raw(CHARL_ARG_IN, chunk),
                                               charl__raw(CHARL_ARG_OUT, s->partial), charl__i64(s->n_chunks)}}));
    CHARL_TRY(charl__launch_enqueue(
        s->set->dev,
        &(charl__launch){.file = "optim/tensor_sums",
                         .entry = "charl_tensor_sum",
                         .global = {(size_t)s->set->count * GROUP},
                         .local = {GROUP},
                         .args = {charl__raw(CHARL_ARG_IN, s->partial), charl__raw(CHARL_ARG_IN, s->tensor), square}}));
    return CHARL_OK;
}

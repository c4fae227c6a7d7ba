/* Sums of squares per tensor: chunks of a tensor first, then the tensors. */
#include "optim/tensor_sums.h"

#include "base/alloc.h"

enum { CHUNK_BLOCKS = 16, LANES = 16, GROUP = 64 };

typedef struct tables {
    uint32_t *chunk, *tensor, *owner;
    int64_t n_chunks;
} tables;

static void add_tensor(tables *t, const charl_param *p)
{
    const int64_t first = p->offset / CHARL_PARAM_ALIGN, n = charl__param_blocks(p);

    t->tensor[2 * p->index] = (uint32_t)t->n_chunks;
    for (int64_t b = 0; b < n; b += CHUNK_BLOCKS) {
        t->chunk[2 * t->n_chunks] = (uint32_t)(first + b);
        t->chunk[2 * t->n_chunks + 1] = (uint32_t)(n - b < CHUNK_BLOCKS ? n - b : CHUNK_BLOCKS);
        t->n_chunks++;
    }
    t->tensor[2 * p->index + 1] = (uint32_t)t->n_chunks - t->tensor[2 * p->index];
    for (int64_t b = 0; b < n; b++) {
        t->owner[first + b] = (uint32_t)p->index;
    }
}

static charl_status upload(charl_device *dev, const uint32_t *v, int64_t n, charl__buffer **out)
{
    const size_t bytes = (size_t)(n > 0 ? n : 1) * sizeof *v;

    CHARL_TRY(charl__buffer_create(dev, bytes, "tensor table", out));
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, *out, 0, v, bytes, true));
    return CHARL_OK;
}

charl_status charl__tensor_sums_create(charl_params *set, charl__tensor_sums **out)
{
    charl_status st = CHARL_OK;
    const int64_t blocks = set->elements / CHARL_PARAM_ALIGN;
    charl__tensor_sums *s = NULL;
    tables t = {0};

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(blocks <= UINT32_MAX / 2, CHARL_ERR_SHAPE, "%lld parameters are too many for %s",
                          (long long)set->elements, "sums per tensor");
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *s, &s));
    s->set = set;
    CHARL_TRY_CLEANUP(charl__alloc_array(2 * blocks, sizeof *t.chunk, &t.chunk));
    CHARL_TRY_CLEANUP(charl__alloc_array(2 * set->count, sizeof *t.tensor, &t.tensor));
    CHARL_TRY_CLEANUP(charl__alloc_array(blocks, sizeof *t.owner, &t.owner));
    for (int i = 0; i < set->count; i++) {
        if (set->param[i]->spec.trainable) {
            add_tensor(&t, set->param[i]);
        }
    }
    s->n_chunks = t.n_chunks;
    CHARL_TRY_CLEANUP(upload(set->dev, t.chunk, 2 * t.n_chunks, &s->chunk));
    CHARL_TRY_CLEANUP(upload(set->dev, t.tensor, 2 * set->count, &s->tensor));
    CHARL_TRY_CLEANUP(upload(set->dev, t.owner, blocks, &s->owner));
    CHARL_TRY_CLEANUP(charl__buffer_create(set->dev, (size_t)t.n_chunks * 4, "tensor sums", &s->partial));
    CHARL_TRY_CLEANUP(charl__buffer_create(set->dev, (size_t)set->count * 2 * 4, "tensor sums", &s->square));
    *out = s;
    s = NULL;
cleanup:
    charl_free(t.chunk);
    charl_free(t.tensor);
    charl_free(t.owner);
    charl__tensor_sums_destroy(s);
    return st;
}

void charl__tensor_sums_destroy(charl__tensor_sums *s)
{
    if (s) {
        charl__buffer_release(s->chunk);
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

    square.v.offset = (int64_t)row * s->set->count;
    CHARL_TRY(charl__launch_enqueue(
        s->set->dev, &(charl__launch){.file = "optim/tensor_sums",
                                      .entry = "charl_chunk_squares",
                                      .global = {(items + GROUP - 1) / GROUP * GROUP},
                                      .local = {GROUP},
                                      .args = {charl__raw(CHARL_ARG_IN, x), charl__raw(CHARL_ARG_IN, s->chunk),
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

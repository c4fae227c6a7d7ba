/* The fixed summation tree. Everything follows from one schedule: pairs at distance 1, 2, 4, ... */
#include "base/numeric/tree.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/error.h"

enum { STREAM_BYTES = 8 << 20 }; /* larger data no longer stay in a core's caches */

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

charl_status charl_slices_range(int total, int first, int count, charl_slices *out)
{
    CHARL_GIVEN(out);
    const int end = first + count;

    memset(out, 0, sizeof *out);
    CHARL_REQUIRE(total >= 1 && total <= CHARL_MAX_SLICES, CHARL_ERR_INVALID, "%d slices; a batch has 1 to %d", total,
                  CHARL_MAX_SLICES);
    CHARL_REQUIRE(first >= 0 && count >= 0 && first <= total && count <= total - first, CHARL_ERR_INVALID,
                  "slices %d to %d of %d", first, end, total);
    out->total = total;
    out->first = first;
    out->count = count;
    for (int lo = first; lo < end;) {
        int span = 1;

        while (span < total && lo % (2 * span) == 0 && min_int(lo + 2 * span, total) <= end) {
            span *= 2;
        }
        CHARL_INVARIANT(out->n_lanes < CHARL_MAX_LANES);
        out->lane_lo[out->n_lanes] = lo;
        out->lane_hi[out->n_lanes] = min_int(lo + span, total);
        lo = out->lane_hi[out->n_lanes++];
    }
    return CHARL_OK;
}

charl_status charl_slices_block(int total, int rank, int size, charl_slices *out)
{
    CHARL_GIVEN(out);
    int first, end;

    memset(out, 0, sizeof *out);
    CHARL_REQUIRE(total >= 1 && total <= CHARL_MAX_SLICES, CHARL_ERR_CONFIG, "slices = %d; a batch has 1 to %d slices",
                  total, CHARL_MAX_SLICES);
    CHARL_REQUIRE(size >= 1 && rank >= 0 && rank < size, CHARL_ERR_INVALID, "rank %d of %d; ranks are numbered from 0",
                  rank, size);
    CHARL_REQUIRE(size <= total, CHARL_ERR_CONFIG,
                  "%d ranks, but the batch has %d slices; HINT set slices to %d or more (at most %d, and a divisor of "
                  "the batch size), or start fewer ranks",
                  size, total, size, CHARL_MAX_SLICES);
    first = total * rank / size;
    end = total * (rank + 1) / size;
    CHARL_TRY(charl_slices_range(total, first, end - first, out));
    return CHARL_OK;
}

bool charl__slices_are_alike(const charl_slices *a, const charl_slices *b)
{
    bool alike = a->count == b->count && a->n_lanes == b->n_lanes;

    for (int j = 0; j < a->n_lanes && alike; j++) {
        alike = a->lane_hi[j] - a->first == b->lane_hi[j] - b->first;
    }
    return alike;
}

void charl__tree_fold(float *const *part, int m, int64_t n)
{
    for (int step = 1; step < m; step *= 2) {
        for (int i = 0; i + step < m; i += 2 * step) {
            float *restrict a = part[i];
            const float *restrict b = part[i + step];

            for (int64_t e = 0; e < n; e++) {
                a[e] += b[e];
            }
        }
    }
}

bool charl__tree_are_siblings(int total, int lo, int middle, int hi)
{
    const int span = middle - lo;

    return (span & (span - 1)) == 0 && lo % (2 * span) == 0 && hi == min_int(lo + 2 * span, total);
}

int charl__tree_combine(int total, const int *lo, int n, charl__tree_add *adds)
{
    int open[CHARL_MAX_LANES], depth = 0; /* lanes that wait for their siblings */
    int n_adds = 0;

    for (int j = 0; j < n; j++) {
        const int hi = j + 1 < n ? lo[j + 1] : total;

        CHARL_INVARIANT(depth < CHARL_MAX_LANES);
        open[depth++] = j;
        while (depth > 1 && charl__tree_are_siblings(total, lo[open[depth - 2]], lo[open[depth - 1]], hi)) {
            depth--;
            adds[n_adds++] = (charl__tree_add){open[depth - 1], open[depth]};
        }
    }
    return n_adds;
}

/* Four floats to a register, in source, because compilers vectorise no loop at -O2. */
typedef float quad __attribute__((vector_size(16)));

static quad quad_sum(const float *a, const float *b)
{
    quad x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x + y;
}

static void add_block(const float *a, const float *b, int64_t n, float *out)
{
    int64_t e = 0;

    for (; e + 16 <= n; e += 16) {
        for (int k = 0; k < 16; k += 4) {
            const quad sum = quad_sum(a + e + k, b + e + k);

            memcpy(out + e + k, &sum, sizeof sum);
        }
    }
    for (; e < n; e++) {
        out[e] = a[e] + b[e];
    }
}

/* The same with non-temporal stores: a line that is written whole need not be read first. */
static void stream_block(const float *a, const float *b, int64_t n, float *out)
{
    int64_t e = 0;

#ifdef __SSE2__
    if ((uintptr_t)out % sizeof(quad) == 0) {
        for (; e + 4 <= n; e += 4) {
            _mm_stream_ps(out + e, (__m128)quad_sum(a + e, b + e));
        }
    }
#endif
    add_block(a + e, b + e, n - e, out + e);
}

/* Non-temporal stores are not ordered among themselves or with later ones. */
static void stream_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

float *charl__tree_place(float (*place)[CHARL_TREE_BLOCK], int *used, const float *a, const float *b)
{
    const float *last = *used > 0 ? place[*used - 1] : NULL, *before = *used > 1 ? place[*used - 2] : NULL;

    if (last && before && b == last && a == before) {
        --*used;
    } else if (!last || (a != last && b != last)) {
        ++*used;
    }
    return place[*used - 1];
}

void charl__tree_apply(const charl__tree_add *adds, int m, const float *const *leaf, int64_t n, float *out)
{
    const float *value[CHARL_MAX_SLICES];
    float place[CHARL_TREE_DEPTH][CHARL_TREE_BLOCK];
    const bool streams = (m + 1) * n * (int64_t)sizeof *out >= STREAM_BYTES;

    if (m == 1) {
        if (out != leaf[0]) {
            memcpy(out, leaf[0], (size_t)n * sizeof *out);
        }
        return;
    }
    for (int64_t at = 0; at < n; at += CHARL_TREE_BLOCK) {
        const int64_t left = n - at < CHARL_TREE_BLOCK ? n - at : CHARL_TREE_BLOCK;
        int used = 0;

        for (int j = 0; j < m; j++) {
            value[j] = leaf[j] + at;
        }
        for (int k = 0; k < m - 2; k++) {
            float *to = charl__tree_place(place, &used, value[adds[k].dst], value[adds[k].src]);

            add_block(value[adds[k].dst], value[adds[k].src], left, to);
            value[adds[k].dst] = to;
        }
        (streams ? stream_block : add_block)(value[adds[m - 2].dst], value[adds[m - 2].src], left, out + at);
    }
    if (streams) {
        stream_end();
    }
}

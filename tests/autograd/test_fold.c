/* kernels/reduce/fold.cl adds in the tree of base/numeric/tree.h, bit for bit, for any number of leaves. */
#include "support/on_device.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/bf16.h"
#include "base/numeric/tree.h"
#include "device/device.h"

enum { N = 37, GROUP = 64, MOST = 4096, BEFORE = 5 };

static charl_device *dev;

static void fold_on_device(int m, const char *rounding, const float *part, float *out)
{
    charl__buffer *in, *sum;
    charl__arg from, to;
    char defines[64];

    charl_assert_ok(charl__buffer_create(dev, ((size_t)m * N + BEFORE) * sizeof(float), "leaves", &in));
    charl_assert_ok(charl__buffer_create(dev, (N + BEFORE) * sizeof(float), "sum", &sum));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, in, BEFORE * sizeof(float), part,
                                        (size_t)m * N * sizeof(float), true));
    from = charl__raw(CHARL_ARG_IN, in);
    to = charl__raw(CHARL_ARG_OUT, sum);
    from.v.offset = to.v.offset = BEFORE;
    snprintf(defines, sizeof defines, "#define M %d\n%s", m, rounding);
    charl_assert_ok(charl__launch_enqueue(dev, &(charl__launch){.file = "reduce/fold",
                                                                .entry = "charl_fold",
                                                                .defines = defines,
                                                                .global = {GROUP},
                                                                .local = {GROUP},
                                                                .args = {from, to, charl__i64(N)}}));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, sum, BEFORE * sizeof(float), out, N * sizeof(float), true));
    charl__buffer_release(in);
    charl__buffer_release(sum);
}

static void test_tree(void **state)
{
    static const int leaves[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 21, 63, 64, 100, 1023, MOST};
    static float *row[MOST];
    float *part, got[N];

    (void)state;
    charl_assert_ok(charl__alloc_array((int64_t)MOST * N, sizeof *part, &part));
    for (size_t k = 0; k < sizeof leaves / sizeof leaves[0]; k++) {
        const int m = leaves[k];

        /* far from zero, so that another order gives other bits */
        charl_test_fill(part, (int64_t)m * N, -1.0F, 3.0F, (uint64_t)m);
        fold_on_device(m, "", part, got);
        for (int s = 0; s < m; s++) {
            row[s] = part + (size_t)s * N;
        }
        charl__tree_fold(row, m, N);
        charl_assert_same_bits(got, part, N);
    }
    charl_free(part);
}

static void round_row(float *row)
{
    for (int i = 0; i < N; i++) {
        row[i] = charl__bf16_load(charl__bf16_round(row[i]));
    }
}

/* Slices of 4 parts: what is below a slice is f32, slices and what is above them bf16. */
static void test_rounded_nodes(void **state)
{
    enum { PARTS = 4 };
    static const int slices[] = {1, 2, 3, 5, 8};

    (void)state;
    for (size_t k = 0; k < sizeof slices / sizeof slices[0]; k++) {
        static float part[8 * PARTS * N];
        const int n = slices[k];
        float *row[8], got[N];

        charl_test_fill(part, (int64_t)n * PARTS * N, -1.0F, 3.0F, (uint64_t)n);
        fold_on_device(n * PARTS, "#define ROUND 2\n", part, got);
        for (int s = 0; s < n; s++) {
            float *leaf[PARTS];

            for (int p = 0; p < PARTS; p++) {
                leaf[p] = part + (ptrdiff_t)(s * PARTS + p) * N;
            }
            charl__tree_fold(leaf, PARTS, N);
            row[s] = leaf[0];
            round_row(row[s]);
        }
        for (int step = 1; step < n; step *= 2) {
            for (int s = 0; s + step < n; s += 2 * step) {
                charl__tree_fold((float *[]){row[s], row[s + step]}, 2, N);
                round_row(row[s]);
            }
        }
        charl_assert_same_bits(got, row[0], N);
    }
}

/* Two results in one launch, one element or four to a work-item. */
static void test_two_results(void **state)
{
    enum { LEAVES = 7, FIRST = 4 * N, SECOND = 4 * (N + 60), BOTH = FIRST + SECOND };
    static float part[LEAVES * BOTH], tree[LEAVES * BOTH], got[BOTH];
    float *first[LEAVES], *second[LEAVES];
    charl__buffer *in, *sum;

    (void)state;
    charl_test_fill(part, LEAVES * BOTH, -1.0F, 3.0F, 9);
    memcpy(tree, part, sizeof part);
    for (int s = 0; s < LEAVES; s++) {
        first[s] = tree + (ptrdiff_t)s * FIRST;
        second[s] = tree + LEAVES * FIRST + (ptrdiff_t)s * SECOND;
    }
    charl__tree_fold(first, LEAVES, FIRST);
    charl__tree_fold(second, LEAVES, SECOND);
    charl_assert_ok(charl__buffer_create(dev, sizeof part, "leaves", &in));
    charl_assert_ok(charl__buffer_create(dev, sizeof got, "sums", &sum));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, in, 0, part, sizeof part, true));
    for (int vec = 1; vec <= 4; vec += 3) {
        const int groups = (FIRST / vec + GROUP - 1) / GROUP + (SECOND / vec + GROUP - 1) / GROUP;
        charl__arg from = charl__raw(CHARL_ARG_IN, in), to = charl__raw(CHARL_ARG_OUT, sum);
        charl__arg from2 = from, to2 = to;
        char defines[96];

        from2.v.offset = (int64_t)LEAVES * FIRST;
        to2.v.offset = FIRST;
        snprintf(defines, sizeof defines, "#define M %d\n#define CHARL_VEC %d\n#define TWO 1\n", LEAVES, vec);
        charl_assert_ok(charl__launch_enqueue(
            dev, &(charl__launch){.file = "reduce/fold",
                                  .entry = "charl_fold",
                                  .defines = defines,
                                  .global = {(size_t)(groups * GROUP)},
                                  .local = {GROUP},
                                  .args = {from, to, charl__i64(FIRST), from2, to2, charl__i64(SECOND)}}));
        charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, sum, 0, got, sizeof got, true));
        charl_assert_same_bits(got, first[0], FIRST);
        charl_assert_same_bits(got + FIRST, second[0], SECOND);
    }
    charl__buffer_release(in);
    charl__buffer_release(sum);
}

/* Leaves [rows, taps, padded] for a result [rows, channels, taps]. */
static void test_moved_leaves(void **state)
{
    enum { LEAVES = 5, ROWS = 3, TAPS = 9, CHANNELS = 11, PADDED = 16, LEAF = ROWS * TAPS * PADDED };
    enum { COUNT = ROWS * CHANNELS * TAPS, ITEMS = (COUNT + GROUP - 1) / GROUP * GROUP };
    static float part[LEAVES * LEAF], tree[LEAVES * LEAF], got[COUNT], want[COUNT];
    float *leaf[LEAVES];
    charl__buffer *in, *sum;

    (void)state;
    charl_test_fill(part, LEAVES * LEAF, -1.0F, 3.0F, 4);
    memcpy(tree, part, sizeof part);
    for (int s = 0; s < LEAVES; s++) {
        leaf[s] = tree + (ptrdiff_t)s * LEAF;
    }
    charl__tree_fold(leaf, LEAVES, LEAF);
    for (int i = 0; i < COUNT; i++) {
        const int row = i / (CHANNELS * TAPS), c = i / TAPS % CHANNELS, t = i % TAPS;

        want[i] = tree[(row * TAPS + t) * PADDED + c];
    }
    charl_assert_ok(charl__buffer_create(dev, sizeof part, "leaves", &in));
    charl_assert_ok(charl__buffer_create(dev, sizeof got, "sums", &sum));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, in, 0, part, sizeof part, true));
    charl_assert_ok(charl__launch_enqueue(
        dev, &(charl__launch){.file = "reduce/fold",
                              .entry = "charl_fold",
                              .defines = "#define M 5\n#define MOVED 1\n",
                              .global = {ITEMS},
                              .local = {GROUP},
                              .args = {charl__raw(CHARL_ARG_IN, in), charl__raw(CHARL_ARG_OUT, sum), charl__i64(COUNT),
                                       charl__i32(CHANNELS), charl__i32(TAPS), charl__i32(PADDED)}}));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, sum, 0, got, sizeof got, true));
    charl_assert_same_bits(got, want, COUNT);
    charl__buffer_release(in);
    charl__buffer_release(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tree), cmocka_unit_test(test_rounded_nodes),
                                       cmocka_unit_test(test_two_results), cmocka_unit_test(test_moved_leaves)};

    return charl_test_on_device(tests, &dev);
}

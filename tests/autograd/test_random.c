/* What the kernels' generator draws, in an operator that a program registers: the blocks of Philox4x32-10 (Salmon et al., 2011), whose key is
 * the seed with the name, and numbers in [0, 1) from their words. base/numeric knows the published values of the same function. */
#include "support/on_device.h"

#include <string.h>

#include "charl/charl.h"
#include "charl/operator.h"

enum { COUNT = 1000 };

static charl_device *dev;

typedef struct place {
    uint64_t key, step, first;
} place;

static const char source[] =
    "kernel void draw(global const float *x, ulong x_at, global int *words, ulong words_at, global float *unit,\n"
    "                 ulong unit_at, long key, long step, long first)\n"
    "{\n"
    "    const ulong i = get_global_id(0);\n"
    "    uint block[4];\n"
    "\n"
    "    charl_rng_u32x4((ulong)key, (ulong)step, (ulong)first + i, block);\n"
    "    vstore4((int4)((int)block[0], (int)block[1], (int)block[2], (int)block[3]), i, words + words_at);\n"
    "    unit[unit_at + i] = charl_rng_uniform((ulong)key, (ulong)step, (ulong)first + i);\n"
    "}\n";

static charl_status draw_types(charl_operator_types *t)
{
    t->n_out = 2;
    t->out[0] = (charl_type){CHARL_I32, {2, {COUNT, 4}}, CHARL_REPLICATED};
    t->out[1] = (charl_type){CHARL_F32, {1, {COUNT}}, CHARL_REPLICATED};
    return CHARL_OK;
}

static charl_status draw_run(const charl_operator_run *r)
{
    const place *at = r->attr;

    return charl_operator_launch(r, &(charl_kernel){.entry = "draw",
                                                    .global = {COUNT},
                                                    .args = {{CHARL_KERNEL_IN, 0},
                                                             {CHARL_KERNEL_OUT, 0},
                                                             {CHARL_KERNEL_OUT, 1},
                                                             {CHARL_KERNEL_LONG, (int64_t)at->key},
                                                             {CHARL_KERNEL_LONG, (int64_t)at->step},
                                                             {CHARL_KERNEL_LONG, (int64_t)at->first}}});
}

static void no_reference(const charl_operator_reference *r)
{
    (void)r;
}

static const charl_operator draw = {.name = "test_draw",
                                    .formula = "words, unit = draws",
                                    .n_in = 1,
                                    .attr_size = sizeof(place),
                                    .source = source,
                                    .types = draw_types,
                                    .run = draw_run,
                                    .reference = no_reference};

static void philox(const uint32_t counter[4], uint64_t key, uint32_t out[4])
{
    uint32_t c[4], k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};

    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = UINT64_C(0xD2511F53) * c[0], b = UINT64_C(0xCD9E8D57) * c[2];
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1],
                                  (uint32_t)a};

        memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
    memcpy(out, c, sizeof c);
}

static void block_at(const place *at, uint64_t position, uint32_t out[4])
{
    philox((const uint32_t[]){(uint32_t)position, (uint32_t)(position >> 32), (uint32_t)at->step,
                              (uint32_t)(at->step >> 32)},
           at->key, out);
}

static void check(const place *at)
{
    static uint32_t words[4 * COUNT];
    static float unit[COUNT];
    charl_graph *g = NULL;
    charl_var *x, *out[4];

    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = charl_input(g, "x", CHARL_F32, (charl_shape){1, {1}}, CHARL_REPLICATED);
    charl_operator_apply(g, &draw, at, &x, 1, out);
    charl_graph_keep(g, out[0]);
    charl_graph_keep(g, out[1]);
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(out[0]), words, sizeof words));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(out[1]), unit, sizeof unit));
    for (uint64_t i = 0; i < COUNT; i++) {
        uint32_t want[4];

        block_at(at, at->first + i, want);
        assert_memory_equal(words + 4 * i, want, sizeof want);
        block_at(at, (at->first + i) / 4, want);
        assert_true(unit[i] == (float)(want[(at->first + i) % 4] >> 8) * 0x1p-24F);
    }
    charl_graph_destroy(g);
}

static void test_published(void **state)
{
    uint32_t out[4];

    (void)state;
    philox((const uint32_t[4]){0}, 0, out); /* kat_vectors of Random123 */
    assert_memory_equal(out, ((const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), sizeof out);
}

static void test_same_bits(void **state)
{
    static const place places[] = {
        {0, 0, 0},
        {UINT64_C(0xa3b195354a39b70d), 7, 1000},
        {UINT64_C(0xfedcba9876543210), UINT64_C(3) << 33, (UINT64_C(1) << 34) - 500},
    };

    (void)state;
    charl_assert_ok(charl_register_operator(&draw));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        check(&places[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published), cmocka_unit_test(test_same_bits)};

    return charl_test_on_device(tests, &dev);
}

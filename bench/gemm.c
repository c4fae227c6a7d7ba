/* charl-bench gemm: matrix products, each a graph of its own, in the three layouts of a linear
 * layer: nt is its forward pass, nn the gradient of its input, tn that of its weight (in f32). */
#include <stdlib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <charl/graph.h>
#include <charl/opencl.h>
#include <charl/ops.h>
#include "bench/baseline_openblas.h"
#include "bench/kernel.h"
#include "bench/baseline_clblast.h"

static const char open_blas[] = "OpenBLAS", cl_blast[] = "CLBlast";

typedef struct product {
    charl_device *dev;
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    charl_graph *g;            /* of this one product */
    charl_tensor *a, *b, *out; /* borrowed from it */
    float *host[3];            /* a, b and out of the baseline */
    charl__blas_product blas;
    charl__clblast_product clblast;
} product;

static charl_status run_charl(void *ctx)
{
    const product *p = ctx;

    return charl_graph_run_forward(p->g);
}

static charl_status run_blas(void *ctx)
{
    const product *p = ctx;

    charl__blas_multiply(&p->blas);
    return CHARL_OK;
}

static charl_status run_clblast(void *ctx)
{
    const product *p = ctx;

    return charl__clblast_multiply(p->dev, &p->clblast);
}

/* The same product both ways: sums of k products in [-1, 1), each rounded; a sum may be as large as k. `theirs`: the
 * baseline's. */
static charl_status check(const product *p, const float *theirs, const char *baseline)
{
    charl_status st = CHARL_OK;
    const int64_t n = p->m * p->n;
    float *got = NULL;

    CHARL_TRY_CLEANUP(charl__cli_alloc(n, sizeof *got, &got));
    CHARL_TRY_CLEANUP(charl_graph_run_forward(p->g));
    CHARL_TRY_CLEANUP(charl_tensor_read(p->out, got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++) {
        const double allowed = 1e-6 * (double)p->k + 1e-5 * fabs((double)theirs[i]);

        CHARL_REQUIRE_CLEANUP(fabs((double)got[i] - (double)theirs[i]) <= allowed, CHARL_ERR_DEVICE,
                              "element %lld of the product is %.9g, but %.9g by %s", (long long)i, (double)got[i],
                              (double)theirs[i], baseline);
    }
cleanup:
    free(got);
    return st;
}

/* OpenBLAS, on operands of its own. */
static charl_status add_blas(charl__bench_case *c, product *p, double flop)
{
    const int64_t n[] = {p->m * p->k, p->k * p->n, p->m * p->n};

    for (int i = 0; i < 3; i++) {
        CHARL_TRY(charl__bench_aligned(64, (size_t)n[i] * sizeof(float), &p->host[i]));
    }
    CHARL_TRY(charl_tensor_read(p->a, p->host[0], (size_t)n[0] * sizeof(float)));
    CHARL_TRY(charl_tensor_read(p->b, p->host[1], (size_t)n[1] * sizeof(float)));
    p->blas = (charl__blas_product){.m = (int)p->m,
                                    .n = (int)p->n,
                                    .k = (int)p->k,
                                    .transpose_a = p->transpose_a,
                                    .transpose_b = p->transpose_b,
                                    .a = p->host[0],
                                    .b = p->host[1],
                                    .out = p->host[2]};
    charl__blas_multiply(&p->blas);
    CHARL_TRY(check(p, p->host[2], open_blas));
    charl__bench_add(c, open_blas, run_blas, p, flop)->wait = NULL;
    return CHARL_OK;
}

/* CLBlast, on charl's operands. */
static charl_status add_clblast(charl__bench_case *c, product *p, double flop)
{
    charl_status st = CHARL_OK;
    const int64_t n = p->m * p->n;
    float *theirs = NULL;

    p->clblast = (charl__clblast_product){.m = p->m,
                                          .n = p->n,
                                          .k = p->k,
                                          .transpose_a = p->transpose_a,
                                          .transpose_b = p->transpose_b,
                                          .a = p->a,
                                          .b = p->b,
                                          .out = p->out};
    CHARL_TRY_CLEANUP(charl__cli_alloc(n, sizeof *theirs, &theirs));
    CHARL_TRY_CLEANUP(run_clblast(p));
    CHARL_TRY_CLEANUP(charl_tensor_read(p->out, theirs, (size_t)n * sizeof *theirs));
    CHARL_TRY_CLEANUP(check(p, theirs, cl_blast));
    charl__bench_add(c, cl_blast, run_clblast, p, flop);
cleanup:
    free(theirs);
    return st;
}

/* The graph that has nothing but the product. The gradient of a weight is a sum over the rows of a batch, in f32; the other forms have
 * no batch. */
static charl_status build(product *p, charl_dtype dtype, bool integer)
{
    const charl_batch batch = p->transpose_a ? CHARL_BATCHED : CHARL_REPLICATED;
    const charl_shape a_shape = {2, {p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k}};
    const charl_shape b_shape = {2, {p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n}};
    charl_var *a, *b, *out;

    CHARL_TRY(charl_graph_create(p->dev, NULL, &p->g));
    charl_graph_set_precision(p->g, dtype);
    a = charl_input(p->g, "a", dtype, a_shape, batch);
    b = charl_input(p->g, "b", dtype, b_shape, batch);
    out = integer ? charl_linear_integer(p->g, a, b, NULL) : charl_matmul(p->g, a, b, p->transpose_a, p->transpose_b);
    charl_graph_keep(p->g, out);
    CHARL_TRY(charl_graph_compile(p->g));
    p->a = charl_var_get_tensor(a);
    p->b = charl_var_get_tensor(b);
    p->out = charl_var_get_tensor(out);
    CHARL_TRY(charl__bench_fill_random(p->a));
    CHARL_TRY(charl__bench_fill_random(p->b));
    return charl_graph_warm_up(p->g);
}

static charl_status begin(charl__bench_case *c)
{
    const int64_t *x = c->shape->x;
    const double flop = 2.0 * (double)x[0] * (double)x[1] * (double)x[2];
    product *p = NULL;

    CHARL_TRY(charl__cli_alloc(1, sizeof *p, &p));
    c->own = p;
    *p = (product){.dev = c->dev,
                   .m = x[0],
                   .n = x[1],
                   .k = x[2],
                   .transpose_a = c->shape->form == CHARL__CLI_TN,
                   .transpose_b = c->shape->form == CHARL__CLI_NT};
    CHARL_REQUIRE(!c->integer || c->shape->form == CHARL__CLI_NT, CHARL_ERR_INVALID,
                  "with --products integer only MxNxK:nt is timed; `charl-bench linear` times gradients too");
    CHARL_TRY(build(p, c->dtype, c->integer));
    charl__bench_add(c, "charl", run_charl, p, flop);
    if (c->dtype != CHARL_F32 || charl_device_has_tensor_cores(c->dev, CHARL_F32)) {
        return CHARL_OK;
    }
    if (charl_device_get_info(c->dev)->kind == CHARL_DEVICE_CPU && charl__blas_is_available()) {
        CHARL_TRY(add_blas(c, p, flop));
    }
    if (charl__clblast_is_available() && charl_device_cl_queue(p->dev)) {
        CHARL_TRY(add_clblast(c, p, flop));
    }
    return CHARL_OK;
}

static void end(charl__bench_case *c)
{
    product *p = c->own;

    if (p) {
        charl_graph_destroy(p->g);
        for (int i = 0; i < 3; i++) {
            free(p->host[i]);
        }
        free(p);
    }
}

static const char *about(void)
{
    static char text[512];

    snprintf(text, sizeof text, "%s\n%s", charl__blas_about(), charl__clblast_about());
    return text;
}

const charl__bench_kind charl__bench_gemm = {
    .name = "gemm",
    .shapes = &charl__cli_products,
    .unit = "GFLOP/s",
    .baseline = open_blas,
    .gpu_baseline = cl_blast,
    .is_typed = true,
    .multiplies = true,
    .has_peak = true,
    .has_products = true,
    .doc =
        "Time matrix products, [M, N] = sum over K, as the layers of a model compute them: "
        "MxNxK:nt is the forward pass of a linear layer, :nn the gradient of its input, :tn the "
        "gradient of its weight, whose result is f32. Baselines, in f32 and if they are "
        "installed: CLBlast, and OpenBLAS on CPU devices; results are compared before anything "
        "is timed. --products integer times :nt only; `charl-bench linear` times gradients too. The peak is the rate "
        "of a loop of the device's fastest multiplications, without integers.",
    .begin = begin,
    .end = end,
    .about = about};

/* charl-bench gemm: matrix products by the engine of src/tensor, in the three layouts of a linear
 * layer: nt is its forward pass, nn the gradient of its input, tn that of its weight (in f32). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "bench/baseline_openblas.h"
#include "bench/kernel.h"
#include "bench/baseline_clblast.h"
#include "tensor/gemm/gemm.h"
#include "tensor/random.h"

static const char open_blas[] = "OpenBLAS", cl_blast[] = "CLBlast";

typedef struct product {
    charl_device *dev;
    charl_tensor *a, *b, *out;
    charl_gemm gemm;
    float *host[3]; /* a, b and out of the baseline */
    charl__blas_product blas;
    charl__clblast_product clblast;
} product;

static charl_status run_charl(void *ctx)
{
    const product *p = ctx;

    return charl__gemm(p->dev, &p->gemm);
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

/* The same product both ways: sums of k products in [-1, 1), each rounded. `theirs`: the
 * baseline's.
 */
static charl_status check(const product *p, const float *theirs, const char *baseline)
{
    charl_status st = CHARL_OK;
    const int64_t n = p->gemm.m * p->gemm.n;
    const double allowed = 1e-6 * (double)p->gemm.k;
    float *got = NULL;

    CHARL_TRY_CLEANUP(charl_alloc_array(n, sizeof *got, &got));
    CHARL_TRY_CLEANUP(charl__gemm(p->dev, &p->gemm));
    CHARL_TRY_CLEANUP(charl_tensor_read(p->out, got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++) {
        CHARL_REQUIRE_CLEANUP(fabs((double)got[i] - (double)theirs[i]) <= allowed, CHARL_ERR_DEVICE,
                              "element %lld of the product is %g, but %g by %s", (long long)i, (double)got[i],
                              (double)theirs[i], baseline);
    }
cleanup:
    charl_free(got);
    return st;
}

/* OpenBLAS, on operands of its own. */
static charl_status add_blas(charl__bench_case *c, product *p, double flop)
{
    const charl_gemm *g = &p->gemm;
    const int64_t n[] = {g->m * g->k, g->k * g->n, g->m * g->n};

    for (int i = 0; i < 3; i++) {
        CHARL_TRY(charl_alloc_aligned(64, (size_t)n[i] * sizeof(float), &p->host[i]));
    }
    CHARL_TRY(charl_tensor_read(p->a, p->host[0], (size_t)n[0] * sizeof(float)));
    CHARL_TRY(charl_tensor_read(p->b, p->host[1], (size_t)n[1] * sizeof(float)));
    p->blas = (charl__blas_product){.m = (int)g->m,
                                    .n = (int)g->n,
                                    .k = (int)g->k,
                                    .transpose_a = g->a_kind == CHARL_GEMM_TRANSPOSED,
                                    .transpose_b = g->b_kind == CHARL_GEMM_TRANSPOSED,
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
    const charl_gemm *g = &p->gemm;
    const int64_t n = g->m * g->n;
    float *theirs = NULL;

    p->clblast = (charl__clblast_product){.m = g->m,
                                          .n = g->n,
                                          .k = g->k,
                                          .transpose_a = g->a_kind == CHARL_GEMM_TRANSPOSED,
                                          .transpose_b = g->b_kind == CHARL_GEMM_TRANSPOSED,
                                          .a = p->a->buffer,
                                          .b = p->b->buffer,
                                          .out = p->out->buffer};
    CHARL_TRY_CLEANUP(charl_alloc_array(n, sizeof *theirs, &theirs));
    CHARL_TRY_CLEANUP(run_clblast(p));
    CHARL_TRY_CLEANUP(charl_tensor_read(p->out, theirs, (size_t)n * sizeof *theirs));
    CHARL_TRY_CLEANUP(check(p, theirs, cl_blast));
    charl__bench_add(c, cl_blast, run_clblast, p, flop);
cleanup:
    charl_free(theirs);
    return st;
}

static charl_status begin(charl__bench_case *c)
{
    const int64_t m = c->shape->x[0], n = c->shape->x[1], k = c->shape->x[2];
    const double flop = 2.0 * (double)m * (double)n * (double)k;
    const int form = c->shape->form;
    const charl_dtype out_type = form == CHARL__CLI_TN ? CHARL_F32 : c->dtype;
    product *p = NULL;

    CHARL_TRY(charl_alloc(sizeof *p, &p));
    c->own = p;
    p->dev = c->dev;
    CHARL_TRY(charl__tensor_random(c->dev, c->dtype, (charl_shape){2, {m, k}}, &p->a));
    CHARL_TRY(charl__tensor_random(c->dev, c->dtype, (charl_shape){2, {n, k}}, &p->b));
    CHARL_TRY(charl_tensor_create(c->dev, out_type, &(charl_shape){2, {m, n}}, &p->out));
    p->gemm = (charl_gemm){.a = p->a,
                           .b = p->b,
                           .out = p->out,
                           .m = m,
                           .n = n,
                           .k = k,
                           .a_kind = form == CHARL__CLI_TN ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN,
                           .b_kind = form == CHARL__CLI_NT ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN,
                           .label = "bench"};
    charl__bench_add(c, "charl", run_charl, p, flop);
    if (c->dtype != CHARL_F32 || charl__device_facts(c->dev)->tf32) {
        return CHARL_OK;
    }
    if (charl_device_get_info(c->dev)->kind == CHARL_DEVICE_CPU && charl__blas_is_available()) {
        CHARL_TRY(add_blas(c, p, flop));
    }
    if (charl__clblast_is_available()) {
        CHARL_TRY(add_clblast(c, p, flop));
    }
    return CHARL_OK;
}

static void end(charl__bench_case *c)
{
    product *p = c->own;

    if (p) {
        charl_tensor_release(p->a);
        charl_tensor_release(p->b);
        charl_tensor_release(p->out);
        for (int i = 0; i < 3; i++) {
            charl_free(p->host[i]);
        }
        charl_free(p);
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
    .doc = "Time matrix products, [M, N] = sum over K, as the layers of a model compute them: "
           "MxNxK:nt is the forward pass of a linear layer, :nn the gradient of its input, :tn the "
           "gradient of its weight, whose result is f32. Baselines, in f32 and if they are "
           "installed: CLBlast, and OpenBLAS on CPU devices; results are compared before anything "
           "is timed. The peak is the rate of a loop of the device's fastest multiplications.",
    .begin = begin,
    .end = end,
    .about = about};

/* Timing the plans of a product. */
#include "tensor/gemm/gemm_tune.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/numeric/hash.h"
#include "base/log.h"
#include "tensor/gemm/gemm_private.h"
#include "tensor/random.h"

enum { ROUNDS = 3, MOST_CALLS = 1000, BLOCK_BYTES = 16 << 20 };

static const double first_s = 1e-3;  /* whether it is worth more */
static const double sample_s = 4e-3; /* of a round */
static const double hopeless = 1.5;  /* not timed again */
static const double worth_it = 0.97; /* of the guess's time */

/* A product of the same shape on other operands. */
typedef struct trial {
    charl_tensor *a, *b, *out;
    charl__gemm gemm;
} trial;

/* Elements that the operand spans: one matrix, plus the distance from the first matrix to the last. */
static int64_t span(const charl__gemm *p, int64_t matrix, const charl__gemm_matrix *x)
{
    const int64_t inners = charl__at_least_one(p->inner);
    const int64_t leaves = p->fold.leaves > 1 ? p->fold.leaves : 1;
    const int64_t outers = p->fold.leaves > 1 ? leaves : charl__at_least_one(p->count) / inners;

    return matrix + (outers - 1) * x->outer + (inners - 1) * x->inner +
           (charl__at_least_one(p->segments) - 1) * x->segment;
}

static charl_status trial_begin(charl_device *dev, const charl__gemm *p, trial *t)
{
    const bool image = p->b.kind >= CHARL_GEMM_WINDOW;
    const charl__gemm_matrix result = {.outer = p->fold.leaves > 1 ? 0 : p->out.outer, .inner = p->out.inner};
    const int64_t a = span(p, p->m * p->k, &p->a);
    const int64_t b = span(p, image ? charl__gemm_image_elements(p) : p->n * p->k, &p->b);
    const int64_t out = span(p, p->m * p->n, &result);

    CHARL_TRY(charl__tensor_random(dev, p->a.tensor->dtype, (charl_shape){1, {a}}, &t->a));
    CHARL_TRY(charl__tensor_random(dev, p->b.tensor->dtype, (charl_shape){1, {b}}, &t->b));
    CHARL_TRY(charl_tensor_create(dev, p->out.tensor->dtype, &(charl_shape){1, {out}}, &t->out));
    t->gemm = *p;
    t->gemm.a.tensor = t->a;
    t->gemm.b.tensor = t->b;
    t->gemm.out.tensor = t->out;
    t->gemm.a.at = t->gemm.b.at = t->gemm.out.at = 0;
    t->gemm.bias = NULL;
    t->gemm.bias_kind = CHARL_GEMM_NO_BIAS;
    t->gemm.epilogue = NULL;
    t->gemm.a_sums = NULL;
    t->gemm.label = "tuning";
    return CHARL_OK;
}

static void trial_end(trial *t)
{
    charl_tensor_release(t->a);
    charl_tensor_release(t->b);
    charl_tensor_release(t->out);
}

/* A checksum of the result, which has been poisoned before. */
static charl_status result_of(charl_device *dev, const trial *t, const charl__gemm_plan *plan, uint32_t *crc)
{
    const size_t bytes = charl__tensor_bytes(t->out);
    CHARL_SCOPED_FREE void *block = NULL;

    *crc = 0;
    CHARL_TRY(charl__alloc(BLOCK_BYTES, &block));
    CHARL_TRY(charl_tensor_fill(t->out, -1.0));
    CHARL_TRY(charl__gemm_launch(dev, &t->gemm, plan));
    for (size_t at = 0; at < bytes; at += BLOCK_BYTES) {
        const size_t n = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES;

        CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, t->out->buffer, at, block, n, true));
        *crc = charl__crc32c(*crc, block, n);
    }
    return CHARL_OK;
}

/* Replayed, as in a step: setting arguments takes the host longer than a small product takes. */
static charl_status time_calls(charl_device *dev, const trial *t, const charl__gemm_plan *plan, int calls,
                               double *seconds)
{
    charl_status st = CHARL_OK;
    charl__recording *r = NULL;
    double begin;
    int n;

    CHARL_TRY_CLEANUP(charl__record_begin(dev, &r));
    st = charl__gemm_launch(dev, &t->gemm, plan);
    CHARL_TRY_CLEANUP(charl__record_end(dev, st));
    n = charl__recording_count(r);
    CHARL_TRY_CLEANUP(charl_device_sync(dev));
    begin = charl__clock_s();
    for (int i = 0; i < calls; i++) {
        CHARL_TRY_CLEANUP(charl__recording_replay(r, 0, n));
    }
    CHARL_TRY_CLEANUP(charl_device_sync(dev));
    *seconds = (charl__clock_s() - begin) / calls;
cleanup:
    charl__recording_destroy(r);
    return st;
}

/* As many calls as take that long, given the time of a single call: that includes the wait for its end, which is
 * longer than a small product, so that a single call is not enough to measure. */
static int calls_in(double seconds, double one_s)
{
    return (int)fmin(MOST_CALLS, seconds / one_s) + 1;
}

/* First run of a plan: whether it runs, and gives the bits of the heuristic's choice. */
static charl_status try_plan(charl_device *dev, const trial *t, charl__gemm_tuned *x, int i, uint32_t *want)
{
    charl_status st = CHARL_OK;
    char text[CHARL__GEMM_TEXT];
    uint32_t crc = 0;

    x->seconds[i] = (double)INFINITY;
    st = result_of(dev, t, &x->plan[i], &crc);
    if (i > 0 && (st == CHARL_ERR_KERNEL || st == CHARL_ERR_DEVICE)) { /* too much for the device */
        charl__log(CHARL_LOG_INFO, "tuning: %s does not run: %s", charl__gemm_plan_text(&x->plan[i], text),
                   charl_error_message());
        charl_error_clear();
        return CHARL_OK;
    }
    CHARL_TRY(st);
    if (i == 0) {
        *want = crc;
    } else if (crc != *want) {
        charl__log(CHARL_LOG_WARN, "tuning: %s gives other bits on %s: it is not used",
                   charl__gemm_plan_text(&x->plan[i], text), charl_device_get_info(dev)->name);
        return st;
    }
    CHARL_TRY(time_calls(dev, t, &x->plan[i], 1, &x->seconds[i]));
    CHARL_TRY(time_calls(dev, t, &x->plan[i], calls_in(first_s, x->seconds[i]), &x->seconds[i]));
    return st;
}

/* The best of several rounds, in which the plans alternate. */
static charl_status time_plans(charl_device *dev, const trial *t, charl__gemm_tuned *x)
{
    double best = x->seconds[0];

    for (int i = 1; i < x->count; i++) {
        best = fmin(best, x->seconds[i]);
    }
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < x->count; i++) {
            double took = 0;

            if (i > 0 && !(x->seconds[i] <= hopeless * best)) {
                continue;
            }
            CHARL_TRY(time_calls(dev, t, &x->plan[i], calls_in(sample_s, x->seconds[i]), &took));
            x->seconds[i] = fmin(x->seconds[i], took);
            best = fmin(best, took);
        }
    }
    return CHARL_OK;
}

static charl_status keep(charl_device *dev, const charl__gemm *p, charl__gemm_tuned *x)
{
    char key[CHARL__GEMM_TEXT], text[CHARL__GEMM_TEXT];

    x->best = 0;
    for (int i = 1; i < x->count; i++) {
        if (x->seconds[i] < x->seconds[x->best] && x->seconds[i] < worth_it * x->seconds[0]) {
            x->best = i;
        }
    }
    charl__gemm_plan_text(&x->plan[x->best], text);
    charl__gemm_key(dev, p, key);
    charl__log(CHARL_LOG_INFO, "tuning: %s: %s, %.1f us (guess %.1f us)", key, text, x->seconds[x->best] * 1e6,
               x->seconds[0] * 1e6);
    return charl__tuning_set(dev, key, text);
}

charl_status charl__gemm_tune(charl_device *dev, const charl__gemm *p, charl__gemm_tuned *out)
{
    charl_status st = CHARL_OK;
    charl__recording *recording = charl__record_pause(dev);
    trial t = {0};
    uint32_t crc = 0;

    *out = (charl__gemm_tuned){0};
    out->count = charl__gemm_plans(dev, p, out->plan);
    CHARL_TRY_CLEANUP(trial_begin(dev, p, &t));
    for (int i = 0; i < out->count; i++) {
        CHARL_TRY_CLEANUP(try_plan(dev, &t, out, i, &crc));
    }
    CHARL_TRY_CLEANUP(time_plans(dev, &t, out));
    CHARL_TRY_CLEANUP(keep(dev, p, out));
cleanup:
    trial_end(&t);
    charl__record_resume(dev, recording);
    return st;
}

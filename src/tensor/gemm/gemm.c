/* Products: checks, and functions shared by the back ends. gemm_plan.c has their table. */
#include "tensor/gemm/gemm_private.h"

#include <limits.h>
#include <string.h>

enum { LOCAL_SUM = 256 /* elements of all leaves */ };

int charl__gemm_units(charl_device *dev)
{
    const int n = charl_device_get_info(dev)->compute_units;

    return n > 1 ? n : 1;
}

/* A work-group that folds keeps the levels of the tree in registers, and processes all leaves itself:
 * they must be few and short. */
bool charl__gemm_folds_in_tiles(charl_device *dev, const charl__gemm *p)
{
    const int64_t leaves = charl__at_least_one(p->count) / charl__at_least_one(p->inner);

    (void)dev;
    return leaves <= CHARL__GEMM_LOCAL_LEAVES && p->k > 0 &&
           leaves * p->k * charl__at_least_one(p->segments) <= LOCAL_SUM;
}

static charl_status check(const charl__gemm *p)
{
    const int64_t largest = INT_MAX - CHARL__GEMM_MARGIN;

    CHARL_REQUIRE(p->m <= largest && p->n <= largest && p->k <= largest && p->segments <= largest, CHARL_ERR_SHAPE,
                  "matrix product of %lld x %lld x %lld: an extent is beyond 2^31", (long long)p->m, (long long)p->n,
                  (long long)p->k);
    CHARL_REQUIRE(p->a.tensor->dtype == p->b.tensor->dtype && charl__is_float(p->a.tensor->dtype) &&
                      charl__is_float(p->out.tensor->dtype) && (!p->bias || p->bias->dtype == CHARL_F32),
                  CHARL_ERR_DTYPE, "matrix product of %s and %s with result in %s",
                  charl_dtype_name(p->a.tensor->dtype), charl_dtype_name(p->b.tensor->dtype),
                  charl_dtype_name(p->out.tensor->dtype));
    return CHARL_OK;
}

void charl__gemm_set_common(const charl__gemm *p, charl__launch *l)
{
    const charl__gemm_window *w = &p->window;
    const int a_kind = p->a.kind == CHARL_GEMM_TAPS ? 2 : (int)p->a.kind;
    const int b_kind = p->b.kind == CHARL_GEMM_WINDOW ? 2 : p->b.kind == CHARL_GEMM_WINDOW_T ? 3 : (int)p->b.kind;
    const charl__kernel_param window[] = {{"KW", w->taps[1]},
                                          {"TAPS", (int64_t)w->taps[0] * w->taps[1]},
                                          {"STEP_H", w->step[0]},
                                          {"STEP_W", w->step[1]},
                                          {"SHIFT_H", w->shift[0]},
                                          {"SHIFT_W", w->shift[1]},
                                          {"TAP_H", w->tap_step[0]},
                                          {"TAP_W", w->tap_step[1]},
                                          {"DIV_H", w->divide[0]},
                                          {"DIV_W", w->divide[1]},
                                          {NULL}};

    charl__launch_set(l, "A_KIND", a_kind);
    charl__launch_set(l, "B_KIND", b_kind);
    charl__launch_set(l, "BIAS", (int)p->bias_kind);
    charl__launch_set_text(l, "ACT", charl__kernel_type(p->a.tensor->dtype));
    charl__launch_set_text(l, "OUT_T", charl__kernel_type(p->out.tensor->dtype));
    charl__launch_set_all(l, a_kind >= 2 || b_kind >= 2 ? window : NULL);
}

int charl__gemm_rounded_level(const charl__gemm *p)
{
    int level = 0;

    while (1 << level < p->fold.rounded) {
        level++;
    }
    return p->fold.leaves > 1 && p->fold.rounded > 0 ? level : -1;
}

void charl__gemm_set_fold(const charl__gemm *p, charl__launch *l)
{
    const int level = charl__gemm_rounded_level(p);

    charl__launch_set(l, "FOLD", p->fold.leaves > 1 || p->a_sums);
    if (level >= 0) {
        charl__launch_set(l, "ROUND", level);
    }
}

int64_t charl__gemm_image_elements(const charl__gemm *p)
{
    const charl__gemm_window *w = &p->window;
    const int64_t taps = (int64_t)w->taps[0] * w->taps[1];
    const int64_t channels = p->b.kind == CHARL_GEMM_WINDOW ? p->k / taps : p->n / taps;

    return channels * w->image[0] * w->image[1];
}

void charl__gemm_set_leaves(const charl__gemm *p, charl__launch *l)
{
    if (p->fold.leaves <= 1 && !p->a_sums) {
        return;
    }
    charl__gemm_set_fold(p, l); /* a tree of one leaf, where a lane is one slice */
    charl__launch_set(l, "M", CHARL__GEMM_LOCAL_LEAVES);
}

/* Strides are combined by |: that is a multiple of 4, a power of two, only if each of them is. */
bool charl__gemm_is_by_4(const charl__gemm_matrix *x, int64_t length)
{
    return (x->tensor->offset + x->at) % 4 == 0 && length % 4 == 0 && (x->outer | x->inner | x->segment) % 4 == 0;
}

bool charl__gemm_reads_by_4(const charl__gemm *p, bool of_a)
{
    const charl__gemm_matrix *x = of_a ? &p->a : &p->b;
    const bool along_k = x->kind == (of_a ? CHARL_GEMM_PLAIN : CHARL_GEMM_TRANSPOSED);
    const int64_t length = along_k ? p->k : of_a ? p->m : p->n;

    return x->kind <= CHARL_GEMM_TRANSPOSED && charl__gemm_is_by_4(x, length);
}

void charl__gemm_describe(const charl__gemm *p, charl__gemm_args *args, charl__launch *l)
{
    const charl__gemm_epilogue *e = p->epilogue;

    *args = (charl__gemm_args){.a_segment = p->a.segment,
                               .b_segment = p->b.segment,
                               .a_outer = p->a.outer,
                               .a_inner = p->a.inner,
                               .b_outer = p->b.outer,
                               .b_inner = p->b.inner,
                               .out_outer = p->out.outer,
                               .out_inner = p->out.inner,
                               .m = (int32_t)p->m,
                               .n = (int32_t)p->n,
                               .k = (int32_t)p->k,
                               .inner = (int32_t)charl__at_least_one(p->inner),
                               .segments = (int32_t)charl__at_least_one(p->segments),
                               .leaves = p->fold.leaves > 1 ? p->fold.leaves : 1,
                               .ih = p->window.image[0],
                               .iw = p->window.image[1],
                               .pw = p->window.row};
    l->label = p->label;
    l->args[0] = charl__placed(charl__gemm_operand(CHARL_ARG_IN, p->a.tensor, p->a.at), &args->a);
    l->args[1] = charl__placed(charl__gemm_operand(CHARL_ARG_IN, p->b.tensor, p->b.at), &args->b);
    l->args[2] = charl__placed(charl__gemm_operand(CHARL_ARG_IN, p->bias, 0), &args->bias);
    l->args[3] = charl__placed(charl__gemm_operand(CHARL_ARG_OUT, p->out.tensor, p->out.at), &args->out);
    charl__gemm_add_epilogue(p, args, l);
    charl__launch_add(l, charl__struct_at(args, sizeof *args, offsetof(charl__gemm_args, draw),
                                          e && e->record ? e->draw_at : charl__i64(0)));
}

charl_status charl__gemm_launch(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    CHARL_INVARIANT(!p->a_sums || charl__gemm_sums_a(dev, p) || charl__gemm_folds_sums(dev, p));
    return plan->backend->enqueue(dev, p, plan);
}

charl_status charl__gemm_enqueue(charl_device *dev, const charl__gemm *p)
{
    charl__gemm_plan plan;

    CHARL_TRY(check(p));
    CHARL_TRY(charl__gemm_check_epilogue(p));
    if (p->m == 0 || p->n == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__gemm_plan_of(dev, p, &plan));
    CHARL_TRY(charl__gemm_launch(dev, p, &plan));
    return CHARL_OK;
}

/* Epilogues: parameters and arguments of the kernels of matrix products. */
#include "tensor/gemm/gemm_private.h"

charl_status charl__gemm_check_epilogue(const charl__gemm *p)
{
    const charl__gemm_epilogue *e = p->epilogue;

    if (!e) {
        return CHARL_OK;
    }
    CHARL_INVARIANT(e->expr && e->n_in >= 0 && e->n_in <= CHARL_GEMM_EPILOGUE_IN);
    CHARL_INVARIANT((e->then || !e->keeps_first) && (!e->record || p->out.at == 0));
    CHARL_REQUIRE(charl__is_float(e->type) && (!e->product || e->product->dtype == e->type), CHARL_ERR_DTYPE,
                  "epilogue of a matrix product in %s that is kept in %s", charl_dtype_name(e->type),
                  charl_dtype_name(e->product ? e->product->dtype : e->type));
    for (int i = 0; i < e->n_in; i++) {
        CHARL_REQUIRE(charl__is_float(e->in[i]->dtype), CHARL_ERR_DTYPE,
                      "operand %d of a matrix product's epilogue is %s, not a float", i,
                      charl_dtype_name(e->in[i]->dtype));
    }
    return CHARL_OK;
}

void charl__gemm_set_epilogue(const charl__gemm *p, int vec, charl__launch *l)
{
    const charl__gemm_epilogue *e = p->epilogue;

    if (!e) {
        return;
    }
    charl__launch_set_text(l, "EXPR(a, b, c, draw)", e->expr);
    charl__launch_set(l, "CHARL_VEC", vec);
    charl__launch_set_text(l, "PRODUCT_T", charl__kernel_type(e->type));
    charl__launch_set_text(l, "WITH_B_T", e->n_in > 0 ? charl__kernel_type(e->in[0]->dtype) : "float");
    charl__launch_set_text(l, "WITH_C_T", e->n_in > 1 ? charl__kernel_type(e->in[1]->dtype) : "float");
    charl__launch_set(l, "N_WITH", e->n_in);
    charl__launch_set(l, "KEEP", e->product ? 1 + e->keeps_first : 0);
    charl__launch_set(l, "USES_RNG", e->record != NULL);
    if (e->then) {
        charl__launch_set_text(l, "THEN(a, b, c, draw)", e->then);
    }
}

void charl__gemm_add_epilogue(const charl__gemm *p, charl__gemm_args *args, charl__launch *l)
{
    const charl__gemm_epilogue *e = p->epilogue;

    if (!e) {
        return;
    }
    charl__launch_add(l, charl__placed(charl__out(e->product), &args->with_a));
    charl__launch_add(l, charl__placed(charl__in(e->n_in > 0 ? e->in[0] : NULL), &args->with_b));
    charl__launch_add(l, charl__placed(charl__in(e->n_in > 1 ? e->in[1] : NULL), &args->with_c));
    charl__launch_add(l, charl__placed(charl__in(e->record), &args->record));
    args->key = e->key;
    args->draw = e->record ? (uint64_t)e->draw_at.v.i64 : 0;
}

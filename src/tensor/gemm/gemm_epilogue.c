/* Epilogues: defines and arguments of the kernels of matrix products. */
#include <stdio.h>

#include "tensor/gemm/gemm_private.h"

charl_status charl__gemm_check_epilogue(const charl__gemm *p)
{
    const charl__gemm_epilogue *e = p->epilogue;

    if (!e) {
        return CHARL_OK;
    }
    CHARL_INVARIANT(e->expr && e->n_in >= 0 && e->n_in <= CHARL_GEMM_EPILOGUE_IN);
    CHARL_INVARIANT((e->then || !e->keeps_first) && (!e->record || p->out_at == 0));
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

int charl__gemm_define_epilogue(const charl__gemm *p, int vec, char *text, size_t bytes)
{
    const charl__gemm_epilogue *e = p->epilogue;
    int n;

    if (!e) {
        return 0;
    }
    n = snprintf(text, bytes,
                 "%s#define EXPR (%s)\n#define CHARL_VEC %d\n#define PRODUCT_T %s\n#define WITH_B_T "
                 "%s\n#define WITH_C_T %s\n#define N_WITH %d\n#define KEEP %d\n#define USES_RNG %d\n",
                 e->extra ? e->extra : "", e->expr, vec, charl__kernel_type(e->type),
                 e->n_in > 0 ? charl__kernel_type(e->in[0]->dtype) : "float",
                 e->n_in > 1 ? charl__kernel_type(e->in[1]->dtype) : "float", e->n_in,
                 e->product ? 1 + e->keeps_first : 0, e->record != NULL);
    if (e->then && (size_t)n < bytes) {
        n += snprintf(text + n, bytes - (size_t)n, "#define THEN (%s)\n", e->then);
    }
    CHARL_INVARIANT(n > 0 && (size_t)n < bytes);
    return n;
}

void charl__gemm_add_epilogue(const charl__gemm *p, charl__launch *l)
{
    const charl__gemm_epilogue *e = p->epilogue;

    if (!e) {
        return;
    }
    charl__launch_add(l, charl__out(e->product));
    for (int i = 0; i < CHARL_GEMM_EPILOGUE_IN; i++) {
        charl__launch_add(l, charl__in(i < e->n_in ? e->in[i] : NULL));
    }
    if (e->record) {
        charl__launch_add(l, charl__in(e->record));
        charl__launch_add(l, charl__i64((int64_t)e->key));
        charl__launch_add(l, charl__i64(e->draw_at));
    }
}

/* The public side of tuning (charl/tune.h). */
#include "charl/tune.h"

#include <stdio.h>

#include "tensor/gemm/gemm_tune.h"

_Static_assert((int)CHARL_TUNE_CANDIDATES >= (int)CHARL__GEMM_PLANS, "a result holds all plans");
_Static_assert((int)CHARL_TUNE_TEXT >= (int)CHARL__GEMM_TEXT, "a name holds the text of a plan");

charl_status charl_tune(charl_device *dev, const charl_tune_product *product, charl_tune_result *out)
{
    CHARL_GIVEN(dev, product, out);
    const charl_tensor operand = {.dtype = product->dtype}, result = {.dtype = product->out_dtype};
    const charl__gemm gemm = {.a = {&operand, product->transpose_a ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN},
                              .b = {&operand, product->transpose_b ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN},
                              .out = {&result},
                              .m = product->m,
                              .n = product->n,
                              .k = product->k};
    charl__gemm_tuned tuned;

    *out = (charl_tune_result){.count = 0};
    CHARL_REQUIRE(product->m > 0 && product->n > 0 && product->k > 0, CHARL_ERR_SHAPE,
                  "a product of %lld x %lld x %lld cannot be tuned", (long long)product->m, (long long)product->n,
                  (long long)product->k);
    CHARL_TRY(charl__tuning_db_check());
    CHARL_TRY(charl__gemm_tune(dev, &gemm, &tuned));
    for (int i = 0; i < tuned.count; i++) {
        charl__gemm_plan_text(&tuned.plan[i], out->candidate[i].name);
        out->candidate[i].seconds = tuned.seconds[i];
    }
    out->count = tuned.count;
    out->best = tuned.best;
    return charl__tuning_db_save(dev);
}

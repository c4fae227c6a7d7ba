/* Low-rank adapters added to the weights that they adapt. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/text.h"
#include "export/export.h"

enum { NAME_BYTES = 256 };

static int64_t find(const charl_checkpoint_tensor *t, int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++) {
        if (strcmp(t[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* w [out, in] += scale * b [out, rank] @ a [rank, in], each element summed in double */
static void add_product(float *w, const float *b, const float *a, int64_t out, int64_t in, int64_t rank, double scale)
{
    for (int64_t o = 0; o < out; o++) {
        for (int64_t i = 0; i < in; i++) {
            double sum = 0.0;

            for (int64_t r = 0; r < rank; r++) {
                sum += (double)b[o * rank + r] * (double)a[r * in + i];
            }
            w[o * in + i] = (float)((double)w[o * in + i] + scale * sum);
        }
    }
}

charl_status charl__merge_adapters(const charl_lora *lora, const charl_checkpoint_tensor *t, float *const *data,
                                   int64_t n)
{
    static const char suffix[] = ".lora_A.weight";

    for (int64_t i = 0; i < n; i++) {
        const int layer = (int)(strlen(t[i].name) - strlen(suffix));
        char name[NAME_BYTES];
        int64_t up, weight;

        if (!charl__ends_in(t[i].name, suffix)) {
            continue;
        }
        snprintf(name, sizeof name, "%.*s.lora_B.weight", layer, t[i].name);
        up = find(t, n, name);
        snprintf(name, sizeof name, "%.*s.weight", layer, t[i].name);
        weight = find(t, n, name);
        CHARL_REQUIRE(lora && up >= 0 && weight >= 0 && t[i].shape.ndim == 2 && t[up].shape.ndim == 2 &&
                          t[weight].shape.ndim == 2 && t[up].shape.dim[1] == t[i].shape.dim[0] &&
                          t[weight].shape.dim[0] == t[up].shape.dim[0] && t[weight].shape.dim[1] == t[i].shape.dim[1],
                      CHARL_ERR_CHECKPOINT,
                      "%s does not adapt a weight of this checkpoint: lora.rank in its "
                      "configuration, lora_B or the weight does not fit",
                      t[i].name);
        add_product(data[weight], data[up], data[i], t[weight].shape.dim[0], t[weight].shape.dim[1], t[i].shape.dim[0],
                    lora->alpha / (double)lora->rank);
    }
    return CHARL_OK;
}

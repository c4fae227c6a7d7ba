/* contrastive: which of all rows of the batch belong together (InfoNCE, van den Oord et al. 2018, in both directions as CLIP, Radford et al. 2021). */
#include "autograd/op.h"
#include "nn/loss.h"

/* outputs [rows, 2 * features]: the halves a and b of each row. With A and B those of the whole batch,
 *
 *     loss[i] = (cross entropy of a[i] @ B^T at i + cross entropy of b[i] @ A^T at i) / 2 */
static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    const int64_t n = outputs ? charl_var_get_type(outputs).shape.dim[1] / 2 : 1;
    charl_var *half[2], *all[2], *row, *sum = NULL;

    (void)config;
    (void)targets;
    if (outputs && charl_var_get_type(outputs).shape.dim[1] % 2 != 0) {
        return charl__graph_fail(g, CHARL_ERR_SHAPE,
                                 "the loss contrastive compares the two halves of an output, which has %lld numbers",
                                 (long long)charl_var_get_type(outputs).shape.dim[1]);
    }
    row = charl_batch_index(g, outputs);
    for (int k = 0; k < 2; k++) {
        half[k] = charl_slice(g, outputs, 1, k * n, n);
        all[k] = charl_batch_gather(g, half[k]);
    }
    for (int k = 0; k < 2; k++) {
        charl_var *logits = charl_matmul(g, half[k], all[1 - k], false, true);
        charl_var *loss = charl_cross_entropy(g, logits, row, NULL, NULL);

        sum = k > 0 ? charl_add(g, sum, loss) : loss;
    }
    return charl_scale(g, sum, 0.5F, 0.0F);
}

const charl__loss charl__loss_contrastive = {
    .row.name = "contrastive",
    .row.help = "of an output from the layer pair: how hard the two embeddings of a row are to find among those of all "
                "rows of the batch",
    .targets = CHARL_TARGET_NOTHING,
    .build = build,
    .answer = &charl__answer_identity,
};

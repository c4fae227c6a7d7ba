/* The loss, and metrics derived from it. */
#include <math.h>

#include "nn/metric.h"

static charl_status finish_loss(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                double *details)
{
    (void)d;
    (void)details;
    *value = s->loss;
    return CHARL_OK;
}

const charl__metric charl__metric_loss = {
    .row.name = "loss",
    .row.help = "mean of the loss over the samples; always measured",
    .targets = CHARL_TARGET_NOTHING | CHARL_TARGET_CLASS | CHARL_TARGET_MAPS | CHARL_TARGET_FLAGS |
               CHARL_TARGET_NUMBERS | CHARL_TARGET_TOKENS | CHARL_TARGET_PROBABILITIES,
    .finish = finish_loss,
};

static charl_status finish_perplexity(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                      double *details)
{
    (void)d;
    (void)details;
    *value = exp(s->loss);
    return CHARL_OK;
}

const charl__metric charl__metric_perplexity = {
    .row.name = "perplexity",
    .row.help = "exp(loss)",
    .targets = CHARL_TARGET_CLASS | CHARL_TARGET_TOKENS,
    .automatic = CHARL_TARGET_TOKENS,
    .finish = finish_perplexity,
};

/* counts: number of predicted tokens, and bytes of text that they represent */

static void size_bytes(const charl__metric_data *d, charl__metric_size *out)
{
    (void)d;
    out->counts = 2;
}

static void add_bytes(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    for (int64_t i = 0; i < row->n; i++) {
        if (!row->weights || row->weights[i] > 0.0F) {
            s->counts[0]++;
            s->counts[1] += d->token_bytes[row->labels[i]];
        }
    }
}

static charl_status finish_bytes(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                 double *details)
{
    (void)d;
    (void)details;
    *value = s->counts[1] > 0 ? s->loss / log(2.0) * ((double)s->counts[0] / (double)s->counts[1]) : (double)NAN;
    return CHARL_OK;
}

const charl__metric charl__metric_bits_per_byte = {
    .row.name = "bits_per_byte",
    .row.help = "loss per byte of text in bits, which does not depend on the tokenizer",
    .targets = CHARL_TARGET_TOKENS,
    .reads = CHARL__READS_TARGETS,
    .size = size_bytes,
    .add = add_bytes,
    .finish = finish_bytes,
};

/* Replays as text. */
#include "train/checksums.h"

#include <inttypes.h>

#include "base/error.h"

static charl_status add_tensors(charl__text *sums, const char *what, const charl_replay_tensor *t, int n)
{
    for (int i = 0; i < n; i++) {
        CHARL_TRY(charl__text_printf(sums, "%s %s %08" PRIx32 "\n", what, t[i].name, t[i].crc32c));
    }
    return CHARL_OK;
}

charl_status charl__checksums_start(charl__text *sums, const charl_replay_start *start)
{
    CHARL_TRY(charl__text_printf(sums, CHARL__CHECKSUMS_HEAD "start %" PRId64 "\n", start->step));
    return add_tensors(sums, "weight", start->weights, start->n_weights);
}

charl_status charl__checksums_row(charl__text *sums, const charl_replay_row *row)
{
    CHARL_TRY(charl__text_printf(sums, "step %" PRId64 "\nlr %a\n", row->step, row->lr));
    for (int64_t i = 0; i < row->rows->n; i++) {
        const charl_step_sample *s = &row->rows->sample[i];

        CHARL_TRY(charl__text_printf(sums, "row %" PRId64 " %d %" PRId64 "\n", i, s->set, s->row));
    }
    for (int64_t i = 0; i < row->rows->n; i++) {
        CHARL_TRY(charl__text_printf(sums, "sample %" PRId64 " %a\n", i, (double)row->losses[i]));
    }
    CHARL_TRY(charl__text_printf(sums, "loss %a\n", row->loss));
    CHARL_TRY(add_tensors(sums, "gradient", row->gradients, row->n_gradients));
    return add_tensors(sums, "weight", row->weights, row->n_weights);
}

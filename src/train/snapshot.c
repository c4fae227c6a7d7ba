/* What the checkpoints of a trainer hold. */
#include "train/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io/checkpoint/checkpoint_read.h"
#include "task/weights/weights.h"

const char charl__rng_name[] = "philox4x32-10";

const char *charl__shuffle_name(charl_shuffle shuffle, const charl_dataset_info *data, char text[CHARL__SHUFFLE_TEXT])
{
    if (data->sampling != CHARL_SAMPLING_ONCE) {
        snprintf(text, CHARL__SHUFFLE_TEXT, "%s-v1",
                 data->sampling == CHARL_SAMPLING_WEIGHTED ? "weighted" : "balanced");
    } else if (shuffle == CHARL_SHUFFLE_BLOCKS) {
        snprintf(text, CHARL__SHUFFLE_TEXT, "feistel6-blocks-v1, %" PRId64 " of %" PRId64 " rows", data->shuffle_window,
                 data->block_rows);
    } else {
        snprintf(text, CHARL__SHUFFLE_TEXT, "%s", shuffle == CHARL_SHUFFLE_ROWS ? "feistel6-v1" : "none");
    }
    return text;
}

bool charl__leaves_base(const charl_config *config)
{
    return config->checkpoint.weights == CHARL__SAVED_TRAINED ||
           (config->checkpoint.weights == CHARL__SAVED_AUTO && config->lora.rank > 0);
}

static charl_status add_items(const charl__replica *r, bool model, charl__state *s)
{
    CHARL_TRY(charl__state_add_params(s, NULL, r->session->params, r->dp));
    return model ? CHARL_OK : charl__state_add_optimizer(s, NULL, r->optimizer, r->dp, NULL);
}

charl_status charl__snapshot_bytes(const charl__replica *r, bool apart, int64_t *bytes)
{
    CHARL_SCOPED(charl__state_fini) charl__state s = {.apart = apart};

    CHARL_TRY(add_items(r, false, &s));
    *bytes = charl__state_bytes(&s);
    return CHARL_OK;
}

charl_status charl__snapshot_copy(const charl__replica *r, bool model, charl__state *s)
{
    charl_status st;

    s->alike = model;
    st = add_items(r, model, s);
    s->sums = charl_comm_size(r->comm) > 1;
    if (r->dp->shard && !model && s->parts == 0) { /* all go on alike */
        CHARL_TRY(charl_comm_agree(r->comm, st));
    }
    return charl__state_copy(s, st);
}

/* The moving average continues if the checkpoint has one, and else starts from the weights. */
static charl_status restore_optimizer(charl__replica *r, charl_checkpoint_reader *reader, const char *path)
{
    charl_optimizer *o = r->optimizer;
    CHARL_SCOPED(charl__state_fini) charl__state s = {0};
    charl_status st;

    CHARL_TRY(charl__state_add_optimizer(&s, NULL, o, r->dp, reader));
    st = charl__state_load(&s, reader, path, true);
    if (st == CHARL_ERR_CHECKPOINT && !strstr(charl_error_message(), "HINT")) {
        charl__error_append(
            "; HINT leave train.freeze, optimizer.type, optimizer.momentum and the like as they were, or "
            "start afresh in another run.output_dir (--init-from keeps the weights)");
    }
    CHARL_TRY(st);
    return charl__checkpoint_has_average(reader) ? CHARL_OK : charl_optimizer_reset_ema(o);
}

charl_status charl__snapshot_restore(charl__replica *r, charl_checkpoint_reader *reader, const char *path)
{
    const charl_params *params = r->session->params;

    CHARL_TRY(charl__weights_restore(r->session->params, reader, path, "model"));
    for (int i = 0; i < charl_params_get_count(params); i++) {
        charl_param *p = charl_params_get(params, i);
        const charl_checkpoint_tensor *t = charl_checkpoint_find(reader, "model", charl_param_get_spec(p)->name);

        p->in_base = t && charl_checkpoint_is_in_base(reader, t);
    }
    return restore_optimizer(r, reader, path);
}

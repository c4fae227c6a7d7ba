/* The state of a program's training loop in a checkpoint. */
#include "charl/training.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/text/text.h"
#include "io/scoped.h"
#include "charl/checkpoint.h"
#include "optim/optimizer.h"
#include "parallel/data_parallel.h"
#include "parallel/state.h"

/* Communicator of the first part that has ranks, or NULL. */
static charl_comm *comm_of(const charl_training *t)
{
    charl_comm *comm = NULL;

    for (int i = 0; i < t->n_parts && !comm; i++) {
        comm = t->parts[i].dp ? t->parts[i].dp->comm : NULL;
    }
    return comm;
}

static charl_status agree(charl_comm *comm, charl_status mine)
{
    return comm ? charl_comm_agree(comm, mine) : mine;
}

static charl_status list(const charl_training *t, charl__state *s)
{
    for (int i = 0; i < t->n_parts; i++) {
        const charl_training_part *part = &t->parts[i];

        CHARL_TRY(part->params ? charl__state_add_params(s, part->name, part->params, part->dp) : CHARL_OK);
        if (part->optimizer) {
            CHARL_TRY(charl__state_add_optimizer(s, part->name, part->optimizer, part->dp, NULL));
            CHARL_TRY(charl__state_add_counts(s, part->name, part->optimizer, part->dp));
        }
    }
    for (int i = 0; i < t->n_values; i++) {
        CHARL_TRY(charl__state_add_value(s, &t->values[i]));
    }
    return CHARL_OK;
}

/* The types of all optimizers, in order. */
static charl_status optimizers_of(const charl_training *t, charl__text *out)
{
    for (int i = 0; i < t->n_parts; i++) {
        if (t->parts[i].optimizer) {
            CHARL_TRY(
                charl__text_printf(out, "%s%s", out->length > 0 ? ", " : "", t->parts[i].optimizer->type->row.name));
        }
    }
    return out->length > 0 ? CHARL_OK : charl__text_printf(out, "%s", CHARL_CHECKPOINT_NO_OPTIMIZER);
}

static charl_status check(const charl_training *t)
{
    for (int i = 0; i < t->n_parts; i++) {
        const charl_training_part *part = &t->parts[i];

        CHARL_REQUIRE(!part->name || charl__text_is_name(part->name), CHARL_ERR_INVALID,
                      "part %d cannot be called \"%s\"", i, part->name);
        CHARL_REQUIRE(!part->dp || !part->dp->shard || !part->optimizer || !part->optimizer->trains, CHARL_ERR_CONFIG,
                      "part %d: the optimizer is sharded and updates part of the parameters; HINT "
                      "charl_data_parallel_options.shard = CHARL_SHARD_NONE",
                      i);
    }
    for (int i = 0; i < t->n_values; i++) {
        const charl_training_value *v = &t->values[i];

        CHARL_REQUIRE(v->name && v->name[0] && v->data, CHARL_ERR_INVALID, "value %d has no name or no data", i);
        CHARL_REQUIRE((unsigned)v->dtype < CHARL_DTYPE_COUNT, CHARL_ERR_INVALID, "value %s: %d is no charl_dtype",
                      v->name, (int)v->dtype);
        CHARL_TRY(charl_shape_check(&v->shape));
    }
    return CHARL_OK;
}

/* Check the parts passed, and list them. */
static charl_status begin(const charl_training *t, charl__state *s)
{
    charl_status st;

    CHARL_REQUIRE((t->parts || t->n_parts == 0) && (t->values || t->n_values == 0), CHARL_ERR_INVALID,
                  "parts or values are NULL");
    st = check(t);
    st = st == CHARL_OK ? list(t, s) : st;
    return agree(comm_of(t), st);
}

static charl_status write_file(const char *path, const charl_training *t, const charl__state *s)
{
    CHARL_SCOPED(charl__text_fini) charl__text optimizers = {0};
    charl_comm *comm = comm_of(t);
    charl_checkpoint c = {.tensors = s->tensor, .n_tensors = s->n};

    CHARL_TRY(optimizers_of(t, &optimizers));
    c.state = (charl_checkpoint_state){.step = t->step ? *t->step : 0,
                                       .rng = "philox4x32-10",
                                       .loss_scale = 1.0,
                                       .slices = 1,
                                       .batch_size = 1,
                                       .best_metric = (double)NAN,
                                       .world_size = comm ? charl_comm_size(comm) : 1,
                                       .optim_kind = charl__text_string(&optimizers)};
    return charl_checkpoint_save(path, &c);
}

charl_status charl_training_save(const char *path, const charl_training *state)
{
    CHARL_GIVEN(path, state);
    CHARL__OPTIONS(charl_training, state);
    charl_status st = CHARL_OK;
    charl_comm *comm = NULL;
    CHARL_SCOPED(charl__state_fini) charl__state s = {0};

    CHARL_TRY(begin(state, &s));
    comm = comm_of(state);
    s.keeps = !comm || charl_comm_rank(comm) == 0;
    st = charl__state_copy(&s, CHARL_OK);
    st = st == CHARL_OK && s.keeps ? write_file(path, state, &s) : st;
    return agree(comm, st);
}

static charl_status check_file(const char *path, const charl_training *t, const charl__state *s,
                               charl_checkpoint_reader **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text optimizers = {0};
    const char *found;

    CHARL_TRY(charl_checkpoint_open(path, out));
    CHARL_TRY(optimizers_of(t, &optimizers));
    found = charl_checkpoint_get_info(*out).state->optim_kind;
    CHARL_REQUIRE(strcmp(found, charl__text_string(&optimizers)) == 0, CHARL_ERR_CHECKPOINT,
                  "%s: was saved with the optimizers %s, here they are %s", path, found,
                  charl__text_string(&optimizers));
    return charl__state_load(s, *out, path, false);
}

charl_status charl_training_load(const char *path, const charl_training *state)
{
    CHARL_GIVEN(path, state);
    CHARL__OPTIONS(charl_training, state);
    CHARL_SCOPED(charl__state_fini) charl__state s = {0};
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *reader = NULL;
    int64_t found = access(path, F_OK) == 0;

    if (comm_of(state)) { /* if a rank lacks a part that another has, that rank reports it */
        CHARL_TRY(charl_comm_reduce_i64(comm_of(state), CHARL_COMM_MAX, &found, 1));
    }
    if (!found && state->may_be_missing) {
        return CHARL_OK;
    }
    CHARL_TRY(begin(state, &s));
    CHARL_TRY(agree(comm_of(state), check_file(path, state, &s, &reader)));
    CHARL_TRY(agree(comm_of(state), charl__state_load(&s, reader, path, true)));
    if (state->step) {
        *state->step = charl_checkpoint_get_info(reader).state->step;
    }
    return CHARL_OK;
}

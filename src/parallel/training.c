/* The state of a training loop as the tensors of a checkpoint. One walk names them all, in one order; saving reads each item into the
 * checkpoint, loading finds each in it: once to see that everything is there, and once to take it. */
#include "charl/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/text/text.h"
#include "charl/checkpoint.h"
#include "optim/optimizer.h"
#include "parallel/optimizer_shard.h"

enum { NAME = 600, GROUP = 64, N_COUNTS = 3 };

/* What a tensor of the checkpoint is. */
typedef struct item {
    enum { PARAM, STATE, AVERAGE, COUNTS, NORMS, SCALE, VALUE } kind;
    char group[GROUP], name[NAME];
    charl_dtype dtype;
    charl_shape shape;
    const charl_training_part *part;
    charl_param *p;
    int k;                  /* of a STATE */
    const float *collected; /* of a sharded optimizer: the arena of the state, on rank 0 */
    void *data;             /* of a VALUE */
} item;

typedef struct walk {
    const charl_training *t;
    bool saves;       /* else it loads */
    bool takes;       /* the walk that loads changes the state */
    charl_comm *comm; /* of the first part that has ranks, or NULL */
    charl_status st;

    charl_checkpoint_tensor *tensor; /* [n], with group, name and data of its own */
    int64_t n;

    const char *path;
    charl_checkpoint_reader *reader;
} walk;

static charl_status get_counts(const charl_training_part *part, int64_t *out)
{
    charl_optimizer_report report;

    CHARL_TRY(charl_optimizer_get_report(part->optimizer, &report));
    out[0] = charl_optimizer_get_steps(part->optimizer);
    out[1] = report.skipped;
    out[2] = part->dp ? (int64_t)part->dp->step : out[0];
    return CHARL_OK;
}

static charl_status set_counts(const charl_training_part *part, const int64_t *counts)
{
    CHARL_TRY(charl_optimizer_set_steps(part->optimizer, counts[0], counts[1]));
    if (part->dp) {
        part->dp->step = part->optimizer->applied = (uint64_t)counts[2];
    }
    return CHARL_OK;
}

static charl_status read_item(const item *it, void *dst)
{
    const size_t bytes = (size_t)charl_shape_count(&it->shape) * charl_dtype_size(it->dtype);
    charl_optimizer *o = it->part ? it->part->optimizer : NULL;

    switch (it->kind) {
    case PARAM:
        return charl_param_read(it->p, dst);
    case STATE:
    case AVERAGE:
        if (it->collected) {
            memcpy(dst, it->collected + it->p->offset, bytes);
            return CHARL_OK;
        }
        return it->kind == STATE ? charl_optimizer_read_state(o, it->k, it->p, dst)
                                 : charl__optimizer_read_ema(o, it->p, dst);
    case COUNTS:
        return get_counts(it->part, dst);
    case NORMS:
        return charl__optimizer_get_norms(o, dst);
    case SCALE:
        return charl_steps_get_loss_scale(o->steps, dst);
    case VALUE:
        memcpy(dst, it->data, bytes);
        break;
    }
    return CHARL_OK;
}

static charl_status write_item(const item *it, const void *src)
{
    charl_optimizer *o = it->part ? it->part->optimizer : NULL;

    switch (it->kind) {
    case PARAM:
        return charl_param_write(it->p, src);
    case STATE:
        return charl_optimizer_write_state(o, it->k, it->p, src);
    case AVERAGE:
        return charl__optimizer_write_ema(o, it->p, src);
    case COUNTS:
        return set_counts(it->part, src);
    case NORMS:
        return charl__optimizer_set_norms(o, src);
    case SCALE:
        return charl_steps_set_loss_scale(o->steps, *(const float *)src);
    case VALUE:
        memcpy(it->data, src, (size_t)charl_shape_count(&it->shape) * charl_dtype_size(it->dtype));
        break;
    }
    return CHARL_OK;
}

static charl_status save_item(walk *w, const item *it)
{
    const size_t bytes = (size_t)charl_shape_count(&it->shape) * charl_dtype_size(it->dtype);
    charl_checkpoint_tensor *t;
    char *text;

    CHARL_TRY(charl__grow(w->n, sizeof *w->tensor, &w->tensor));
    CHARL_TRY(charl__alloc(sizeof it->group + sizeof it->name + bytes + 1, &text));
    t = &w->tensor[w->n++];
    memcpy(text, it->group, sizeof it->group);
    memcpy(text + sizeof it->group, it->name, sizeof it->name);
    *t = (charl_checkpoint_tensor){.group = text,
                                   .name = text + sizeof it->group,
                                   .dtype = it->dtype,
                                   .shape = it->shape,
                                   .data = text + sizeof it->group + sizeof it->name};
    return read_item(it, text + sizeof it->group + sizeof it->name);
}

/* What the functions that take these values would refuse, or trust. */
static charl_status check_values(const walk *w, const item *it, const void *data)
{
    const int64_t *counts = data;
    const float *v = data;
    bool is_right = true;
    int exponent;

    if (it->kind == COUNTS) {
        is_right = counts[1] >= 0 && counts[0] >= counts[1] && counts[2] >= 0;
    } else if (it->kind == NORMS) {
        const int64_t last = it->shape.dim[0] - 1;

        is_right = v[last] >= 0.0F && v[last] < (float)last; /* where the next one goes */
    } else if (it->kind == SCALE) {
        is_right = isfinite(v[0]) && v[0] >= 1.0F && frexpf(v[0], &exponent) == 0.5F;
    }
    CHARL_REQUIRE(is_right, CHARL_ERR_CHECKPOINT, "%s: /%s/%s has a value that no training has", w->path, it->group,
                  it->name);
    return CHARL_OK;
}

static charl_status load_item(walk *w, const item *it)
{
    charl_status st = CHARL_OK;
    const charl_checkpoint_tensor *t = charl_checkpoint_find(w->reader, it->group, it->name);
    char wanted[CHARL_SHAPE_TEXT], found[CHARL_SHAPE_TEXT];
    void *data = NULL;

    CHARL_REQUIRE_CLEANUP(t, CHARL_ERR_CHECKPOINT, "%s: /%s/%s is missing", w->path, it->group, it->name);
    CHARL_REQUIRE_CLEANUP(t->dtype == it->dtype && charl_shape_equal(&t->shape, &it->shape), CHARL_ERR_CHECKPOINT,
                          "%s: /%s/%s is %s %s, here it is %s %s", w->path, it->group, it->name,
                          charl_dtype_name(t->dtype), charl_shape_format(&t->shape, found), charl_dtype_name(it->dtype),
                          charl_shape_format(&it->shape, wanted));
    CHARL_TRY_CLEANUP(charl__alloc((size_t)charl_shape_count(&it->shape) * charl_dtype_size(it->dtype) + 1, &data));
    CHARL_TRY_CLEANUP(charl_checkpoint_read(w->reader, t, data));
    CHARL_TRY_CLEANUP(w->takes ? write_item(it, data) : check_values(w, it, data));
cleanup:
    charl_free(data);
    return st;
}

/* Of several ranks the first one saves. All walk on after a failure: they collect sharded states together. */
static void visit(walk *w, const item *it)
{
    if (w->st == CHARL_OK && (!w->saves || !w->comm || charl_comm_rank(w->comm) == 0)) {
        w->st = w->saves ? save_item(w, it) : load_item(w, it);
    }
}

static void set_name(item *it, const char *name)
{
    const char *prefix = it->part->name;

    snprintf(it->name, sizeof it->name, "%s%s%s", prefix ? prefix : "", prefix && name[0] ? "." : "", name);
}

/* State k of an optimizer; k = number of states: the moving average. */
static void visit_state(walk *w, const charl_training_part *part, int k)
{
    const charl_optimizer *o = part->optimizer;
    const bool is_average = k == o->n_states;
    item it = {.kind = is_average ? AVERAGE : STATE, .dtype = CHARL_F32, .part = part, .k = k};
    float *collected = NULL;

    if (w->saves && part->dp && part->dp->shard) {
        w->st = charl__shard_collect(part->dp, o, w->st, k, &collected);
    }
    snprintf(it.group, sizeof it.group, "%s%s", is_average ? "ema" : "optim/",
             is_average ? "" : charl_optimizer_get_state_name(o, k));
    it.collected = collected;
    for (int i = 0; i < o->set->count; i++) {
        it.p = o->set->param[i];
        it.shape = it.p->spec.shape;
        if (is_average ? charl__optimizer_trains(o, it.p) : charl_optimizer_get_state_shape(o, k, it.p, &it.shape)) {
            set_name(&it, it.p->spec.name);
            visit(w, &it);
        }
    }
    charl_free(collected);
}

static void visit_optimizer(walk *w, const charl_training_part *part)
{
    const charl_optimizer *o = part->optimizer;
    const int n = o->n_states + charl__optimizer_has_ema(o);
    item it = {.kind = COUNTS, .group = "optim/counts", .dtype = CHARL_I64, .shape = {1, {N_COUNTS}}, .part = part};

    for (int k = 0; k < n; k++) {
        visit_state(w, part, k);
    }
    set_name(&it, part->name ? "" : "all");
    visit(w, &it);
    it.dtype = CHARL_F32;
    if (charl__optimizer_count_norms(o) > 0) {
        it.kind = NORMS;
        it.shape.dim[0] = charl__optimizer_count_norms(o);
        snprintf(it.group, sizeof it.group, CHARL_CHECKPOINT_SPIKE);
        set_name(&it, CHARL_CHECKPOINT_NORMS);
        visit(w, &it);
    }
    if (charl__steps_scale(o->steps)) {
        it.kind = SCALE;
        it.shape = (charl_shape){0, {0}};
        snprintf(it.group, sizeof it.group, "optim/loss_scale");
        set_name(&it, part->name ? "" : "all");
        visit(w, &it);
    }
}

static void visit_all(walk *w)
{
    for (int i = 0; i < w->t->n_parts; i++) {
        const charl_training_part *part = &w->t->parts[i];
        item it = {.kind = PARAM, .group = "model", .dtype = CHARL_F32, .part = part};

        for (int k = 0; k < charl_params_get_count(part->params); k++) {
            it.p = part->params->param[k];
            it.shape = it.p->spec.shape;
            set_name(&it, it.p->spec.name);
            visit(w, &it);
        }
        if (part->optimizer) {
            visit_optimizer(w, part);
        }
    }
    for (int i = 0; i < w->t->n_values; i++) {
        const charl_training_value *v = &w->t->values[i];
        item it = {.kind = VALUE, .group = "user", .dtype = v->dtype, .shape = v->shape, .data = v->data};

        snprintf(it.name, sizeof it.name, "%s", v->name);
        visit(w, &it);
    }
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

static charl_status check(const walk *w)
{
    for (int i = 0; i < w->t->n_parts; i++) {
        const charl_training_part *part = &w->t->parts[i];

        CHARL_REQUIRE(!part->name || charl__text_is_name(part->name), CHARL_ERR_INVALID,
                      "part %d cannot be called \"%s\"", i, part->name);
        CHARL_REQUIRE(!part->dp || !part->dp->shard || !part->optimizer || !part->optimizer->trains, CHARL_ERR_CONFIG,
                      "part %d: the optimizer is sharded and updates part of the parameters; HINT "
                      "charl_data_parallel_options.shard_optimizer = false",
                      i);
    }
    for (int i = 0; i < w->t->n_values; i++) {
        const charl_training_value *v = &w->t->values[i];

        CHARL_REQUIRE(v->name && v->data, CHARL_ERR_INVALID, "value %d has no name or no data", i);
        CHARL_REQUIRE((unsigned)v->dtype < CHARL_DTYPE_COUNT, CHARL_ERR_INVALID, "value %s: %d is no charl_dtype",
                      v->name, (int)v->dtype);
        CHARL_TRY(charl_shape_check(&v->shape));
    }
    return CHARL_OK;
}

static charl_status begin(walk *w)
{
    CHARL_REQUIRE((w->t->parts || w->t->n_parts == 0) && (w->t->values || w->t->n_values == 0), CHARL_ERR_INVALID,
                  "parts or values are NULL");
    for (int i = 0; i < w->t->n_parts && !w->comm; i++) {
        w->comm = w->t->parts[i].dp ? w->t->parts[i].dp->comm : NULL;
    }
    w->st = check(w);
    return w->comm ? charl_comm_agree(w->comm, w->st) : w->st;
}

static charl_status write_file(const walk *w, const charl_training *t)
{
    charl_status st = CHARL_OK;
    charl__text optimizers = {0};
    charl_checkpoint c = {.tensors = w->tensor, .n_tensors = w->n};

    CHARL_TRY_CLEANUP(optimizers_of(t, &optimizers));
    c.state = (charl_checkpoint_state){.step = t->step ? *t->step : 0,
                                       .rng = "philox4x32-10",
                                       .loss_scale = 1.0,
                                       .slices = 1,
                                       .batch_size = 1,
                                       .best_metric = (double)NAN,
                                       .world_size = w->comm ? charl_comm_size(w->comm) : 1,
                                       .optim_kind = charl__text_string(&optimizers)};
    CHARL_TRY_CLEANUP(charl_checkpoint_save(w->path, &c));
cleanup:
    charl__text_fini(&optimizers);
    return st;
}

charl_status charl_training_save(const char *path, const charl_training *state)
{
    CHARL_GIVEN(path, state);
    CHARL__OPTIONS(charl_training, state);
    charl_status st = CHARL_OK;
    walk w = {.t = state, .saves = true, .path = path};

    CHARL_TRY_CLEANUP(begin(&w));
    visit_all(&w);
    if (w.st == CHARL_OK && (!w.comm || charl_comm_rank(w.comm) == 0)) {
        w.st = write_file(&w, state);
    }
    st = w.comm ? charl_comm_agree(w.comm, w.st) : w.st;
cleanup:
    for (int64_t i = 0; i < w.n; i++) {
        charl_free((void *)(uintptr_t)w.tensor[i].group);
    }
    charl_free(w.tensor);
    return st;
}

static charl_status check_file(walk *w, const charl_training *t)
{
    charl_status st = CHARL_OK;
    charl__text optimizers = {0};

    CHARL_TRY_CLEANUP(charl_checkpoint_open(w->path, &w->reader));
    CHARL_TRY_CLEANUP(optimizers_of(t, &optimizers));
    CHARL_REQUIRE_CLEANUP(strcmp(charl_checkpoint_get_state(w->reader)->optim_kind, charl__text_string(&optimizers)) ==
                              0,
                          CHARL_ERR_CHECKPOINT, "%s: was saved with the optimizers %s, here they are %s", w->path,
                          charl_checkpoint_get_state(w->reader)->optim_kind, charl__text_string(&optimizers));
    visit_all(w);
    st = w->st;
cleanup:
    charl__text_fini(&optimizers);
    return st;
}

charl_status charl_training_load(const char *path, const charl_training *state)
{
    CHARL_GIVEN(path, state);
    CHARL__OPTIONS(charl_training, state);
    charl_status st = CHARL_OK;
    walk w = {.t = state, .path = path};

    CHARL_TRY_CLEANUP(begin(&w));
    st = check_file(&w, state);
    CHARL_TRY_CLEANUP(w.comm ? charl_comm_agree(w.comm, st) : st);
    w.takes = true;
    visit_all(&w);
    CHARL_TRY_CLEANUP(w.comm ? charl_comm_agree(w.comm, w.st) : w.st);
    if (state->step) {
        *state->step = charl_checkpoint_get_state(w.reader)->step;
    }
cleanup:
    charl_checkpoint_close(w.reader);
    return st;
}

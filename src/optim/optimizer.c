/* The optimizer: norm, clipping and update as recorded launches over the arena. */
#include "optim/update_args.h"
#include "optim/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/registry/key.h"
#include "base/text/text.h"

static charl__registry optimizers = {.what = "optimizer", .built_in = charl__optimizers};
static charl__optimizer_rule registered[CHARL__REGISTRY_ADDED];

const charl__optimizer_rule *charl__optimizer_at(int i)
{
    return charl__registry_at(&optimizers, i);
}

const charl__optimizer_rule *charl__optimizer_find(const char *name)
{
    return charl__registry_find(&optimizers, name);
}

charl_status charl_register_optimizer(const charl_optimizer_type *type)
{
    CHARL_GIVEN(type);
    charl__optimizer_rule *rule = &registered[optimizers.n_added % CHARL__REGISTRY_ADDED];
    charl__optimizer_rule new_rule = {.row = type->row,
                                      .custom = type,
                                      .elementwise = charl__custom_is_elementwise(type),
                                      .nonnegative = type->nonnegative,
                                      .count_states = charl__custom_states,
                                      .state_shape = charl__custom_state_shape,
                                      .prepare = charl__custom_prepare,
                                      .fill = charl__custom_fill,
                                      .enqueue = charl__custom_enqueue};

    CHARL_TRY(charl__custom_check(type));
    if (new_rule.elementwise) {
        new_rule.state_shape = NULL; /* arenas like the parameters' */
    }
    memcpy(new_rule.state_name, type->state_names, sizeof new_rule.state_name);
    if (optimizers.n_added < CHARL__REGISTRY_ADDED) { /* otherwise the registry rejects it */
        *rule = new_rule;
    }
    return charl__registry_add(&optimizers, &rule->row);
}

const char *charl_optimizer_name(int i)
{
    const charl__optimizer_rule *t = charl__optimizer_at(i);

    return t ? t->row.name : NULL;
}

charl_optimizer_config charl_optimizer_defaults(const char *type)
{
    const charl__optimizer_rule *t = charl__optimizer_find(type);

    if (t && !t->custom) {
        return *(const charl_optimizer_config *)t->row.defaults;
    }
    return (charl_optimizer_config){.type = t ? t->row.name : type, .settings = t ? t->row.defaults : NULL};
}

static charl_status check(const charl_optimizer_config *c)
{
    const charl__optimizer_rule *t = charl__optimizer_find(c->type);
    char names[256];

    CHARL_REQUIRE(t, CHARL_ERR_CONFIG, "type is %s; it can be %s", c->type ? c->type : "missing",
                  charl__text_list(c->type, charl_optimizer_name, names, sizeof names));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "weight_decay", (double)c->weight_decay, "[0,inf)"));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "grad_clip", (double)c->grad_clip, "[0,inf)"));
    CHARL_REQUIRE(c->state <= CHARL_PACKING_INT8, CHARL_ERR_CONFIG, "state can be f32, bf16 or int8");
    CHARL_REQUIRE(c->state == CHARL_PACKING_F32 || t->elementwise, CHARL_ERR_CONFIG,
                  "state = %s: %s updates whole tensors, and its state can only be f32",
                  c->state == CHARL_PACKING_BF16 ? "bf16" : "int8", c->type);
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "ema_decay", c->ema_decay, "[0,1)"));
    CHARL_REQUIRE(c->on_spike <= CHARL_SPIKE_STOP, CHARL_ERR_CONFIG,
                  "on_spike is %d; it can be one of the constants of charl_spike_rule", (int)c->on_spike);
    if (c->on_spike != CHARL_SPIKE_OFF) {
        CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "spike_threshold", (double)c->spike_threshold, "[1,1e6]"));
        CHARL_REQUIRE(c->spike_window >= 2 && c->spike_window <= CHARL_MAX_SPIKE_WINDOW, CHARL_ERR_CONFIG,
                      "spike_window is %d, out of range (2 to %d)", c->spike_window, CHARL_MAX_SPIKE_WINDOW);
    }
    if (!t->custom) {
        return charl__settings_check(&t->row, c);
    }
    return t->row.defaults ? charl__settings_check(&t->row, c->settings ? c->settings : t->row.defaults) : CHARL_OK;
}

/* The caller may free its settings before the optimizer. */
static charl_status copy_config(charl_optimizer *o, const charl_optimizer_config *config)
{
    void *settings = NULL;

    o->type = charl__optimizer_find(config->type);
    o->config = *config;
    o->config.type = o->type->row.name;
    o->config.settings = NULL;
    if (o->type->custom && o->type->row.settings_size > 0) {
        CHARL_TRY(charl__alloc(o->type->row.settings_size, &settings));
        memcpy(settings, config->settings ? config->settings : o->type->row.defaults, o->type->row.settings_size);
        o->config.settings = settings;
    }
    o->n_states = charl__optimizer_count_states(o->type, config);
    return CHARL_OK;
}

/* Select the parameters of config->params; their gradients then have a separate place, so that those of others do not count in the norm. */
static charl_status choose(charl_optimizer *o, const charl_optimizer_config *config)
{
    o->config.params = NULL; /* the caller's */
    if (!config->params) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(o->type->elementwise, CHARL_ERR_CONFIG,
                  "params = \"%s\": %s updates whole tensors, and all parameters of a set; HINT put the others into a "
                  "separate set",
                  config->params, o->type->row.name);
    CHARL_TRY(charl__alloc_array(o->set->count, sizeof *o->trains, &o->trains));
    CHARL_TRY(charl__params_choose(o->set, config->params, false, o->trains));
    return charl__buffer_create(o->set->dev, (size_t)o->set->elements * 4, "gradients of the optimizer", &o->gradients);
}

static float decay_of(const charl_optimizer *o, const charl_param *p)
{
    if (p->settings.weight_decay >= 0.0F) {
        return p->settings.weight_decay;
    }
    return p->spec.no_decay ? 0.0F : o->config.weight_decay;
}

/* Weight decay and factor of the learning rate, per block of the arena: no two parameters share
 * one.
 */
static charl_status upload_table(charl_optimizer *o)
{
    const int64_t blocks = o->set->elements / CHARL_PARAM_ALIGN;
    CHARL_SCOPED_FREE float *table = NULL;

    for (int i = 0; i < o->set->count; i++) {
        const charl_param *p = o->set->param[i];

        CHARL_REQUIRE(isfinite(p->settings.lr_scale) && p->settings.lr_scale >= 0 && isfinite(p->settings.weight_decay),
                      CHARL_ERR_INVALID,
                      "parameter %s: lr_scale is %g and weight_decay %g; a scale is finite and not negative",
                      p->spec.name, (double)p->settings.lr_scale, (double)p->settings.weight_decay);
    }
    CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)blocks * 8, "optimizer table", &o->table));
    if (charl__device_skips_kernels(o->set->dev)) { /* none reads it */
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(2 * blocks, sizeof *table, &table));
    for (int i = 0; i < o->set->count; i++) {
        const charl_param *p = o->set->param[i];
        const int64_t first = p->offset / CHARL_PARAM_ALIGN;

        for (int64_t b = first; p->spec.trainable && b < first + charl__param_blocks(p); b++) {
            table[2 * b] = decay_of(o, p);
            table[2 * b + 1] = p->settings.lr_scale;
        }
    }
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, o->table, 0, table, (size_t)blocks * 8, true));
    return CHARL_OK;
}

/* Whether training continues after a step that changed nothing. */
static bool may_skip(const charl_optimizer *o)
{
    return o->config.skip_nonfinite || o->config.on_spike >= CHARL_SPIKE_SKIP ||
           charl__steps_scale_is_dynamic(o->steps);
}

static charl_status allocate(charl_optimizer *o)
{
    charl_device *dev = o->set->dev;

    CHARL_TRY(charl__optimizer_create_states(o));
    CHARL_TRY(
        charl__buffer_create(dev, (size_t)charl__grad_norm_scratch(o->set->elements), "gradient norm", &o->partial));
    CHARL_TRY(charl__buffer_create(dev, sizeof(charl__norm_record), "gradient norm", &o->norm));
    CHARL_TRY(charl__buffer_create(dev, (size_t)CHARL_OPTIM_WINDOW * 8, "gradient norm", &o->scalars));
    CHARL_TRY(charl__norms_create(o));
    if ((may_skip(o) || o->set->undoes) && o->set->buffer_elements > 0) {
        CHARL_TRY(charl__buffer_create(dev, (size_t)o->set->buffer_elements * 4, "running statistics", &o->before));
    }
    if (o->config.ema_decay > 0) {
        CHARL_TRY(charl__ema_create(o));
    }
    CHARL_TRY(upload_table(o));
    if (o->type->prepare) {
        CHARL_TRY(o->type->prepare(o));
    }
    return CHARL_OK;
}

/* Copy running statistics: of the set to o->before, or back. */
static charl_status copy_statistics(const charl_optimizer *o, charl__buffer *source, charl__buffer *target)
{
    const charl_shape shape = {1, {o->set->buffer_elements}};
    CHARL_SCOPED(charl__tensor_left) charl_tensor *to = NULL, *from = NULL;

    CHARL_TRY(charl__tensor_view(source, CHARL_F32, &shape, 0, &from));
    CHARL_TRY(charl__tensor_view(target, CHARL_F32, &shape, 0, &to));
    CHARL_TRY(charl_tensor_copy(from, to));
    return CHARL_OK;
}

/* The update of a rule that has no function for it. */
static charl_status enqueue_numbers(const charl_optimizer *o)
{
    const charl__optimizer_rule *t = o->type;
    const char *name = t->kernel ? t->kernel : t->row.name;
    char file[64], entry[64];
    charl__optimizer_update u = {.file = file, .entry = entry, .elementwise = t->elementwise, .params = {t->param}};
    int n = o->n_states, n_params = t->param.name != NULL;

    if (t->count_states) {
        u.params[n_params++] = (charl__kernel_param){"STATES", n};
    }
    if (t->flag.name) {
        u.params[n_params++] =
            (charl__kernel_param){t->flag.name, *(const bool *)((const char *)&o->config + t->flag.at)};
    }
    snprintf(file, sizeof file, "optim/%s", name);
    snprintf(entry, sizeof entry, "charl_%s", name);
    for (int k = 0; k < o->n_states; k++) {
        u.own[k] = charl__raw(CHARL_ARG_INOUT, o->state[k]);
    }
    for (int i = 0; i < CHARL_OPTIM_MAX_NUMBERS && t->numbers[i].at; i++) {
        const double v = *(const double *)((const char *)&o->config + t->numbers[i].at);

        u.own[n++] = charl__f32((float)(t->numbers[i].rest ? 1.0 - v : v));
    }
    return charl__optimizer_update_enqueue(o, NULL, &u);
}

static charl_status record(charl_optimizer *o)
{
    charl_status st = CHARL_OK;

    charl__norm_parts_destroy(o->parts); /* of other gradients */
    o->parts = NULL;
    CHARL_TRY(o->set->parts ? charl__norm_parts_create(o) : CHARL_OK);
    CHARL_TRY(charl__record_begin(o->set->dev, &o->recording));
    if (o->before) {
        st = copy_statistics(o, o->set->buffers, o->before);
    }
    o->n_begin = charl__recording_count(o->recording);
    if (st == CHARL_OK) {
        st = charl__params_join(o->set);
    }
    o->n_join = charl__recording_count(o->recording);
    if (st == CHARL_OK && o->trains) {
        st = charl__own_copy_gradients(o);
    }
    if (st == CHARL_OK) {
        st = charl__grad_norm_first(o);
    }
    o->n_told = charl__recording_count(o->recording);
    if (st == CHARL_OK) {
        st = charl__grad_norm_enqueue(o);
    }
    if (st == CHARL_OK) {
        st = o->type->enqueue ? o->type->enqueue(o) : enqueue_numbers(o);
    }
    if (st == CHARL_OK && o->ema) {
        st = charl__ema_enqueue(o);
    }
    if (st == CHARL_OK && o->before) {
        st = charl__restore_enqueue(o);
    }
    if (st == CHARL_OK && (!o->is_divided || o->set->is_divided)) {
        st = o->type->elementwise ? charl__params_refresh_vectors(o->set) : charl__params_refresh(o->set);
    }
    CHARL_TRY(charl__record_end(o->set->dev, st));
    return CHARL_OK;
}

charl_status charl__optimizer_create(charl_params *set, const charl_optimizer_config *config, charl_steps *steps,
                                     const charl__param_ranges *own, charl_optimizer **out)
{
    charl_status st = CHARL_OK;
    charl_optimizer *o = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(check(config));
    CHARL_REQUIRE_CLEANUP(set->sum && set->elements > 0, CHARL_ERR_INVALID,
                          "the set has no gradients; HINT compile its training graph before the optimizer is created, "
                          "and leave a parameter trainable");
    CHARL_REQUIRE_CLEANUP(!set->is_part, CHARL_ERR_INVALID,
                          "the gradients of this set are sums over a part of the batch, and nothing sums them over "
                          "ranks; HINT call charl_data_parallel_compile instead of charl_graph_compile");
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *o, &o));
    o->set = set;
    set->users++;
    o->next = set->optimizers;
    set->optimizers = o;
    CHARL_TRY_CLEANUP(copy_config(o, config));
    CHARL_TRY_CLEANUP(choose(o, config));
    o->steps = steps;
    if (!steps) {
        CHARL_TRY_CLEANUP(charl__steps_create(set->dev, 4, &o->own_steps));
        o->steps = o->own_steps;
    }
    CHARL_TRY_CLEANUP(charl__own_create(o, own));
    CHARL_TRY_CLEANUP(allocate(o));
    CHARL_TRY_CLEANUP(record(o));
    *out = o;
    o = NULL;
cleanup:
    charl_optimizer_destroy(o);
    return st;
}

void charl__optimizers_unbind(const charl_params *set)
{
    for (charl_optimizer *o = set->optimizers; o; o = o->next) {
        charl__recording_destroy(o->recording);
        o->recording = NULL;
        o->set->users -= !o->unbound;
        o->unbound = true;
    }
}

charl_status charl__optimizers_rebind(const charl_params *set)
{
    for (charl_optimizer *o = set->optimizers; o; o = o->next) {
        CHARL_TRY(o->unbound ? record(o) : CHARL_OK);
        o->set->users += o->unbound;
        o->unbound = false;
    }
    return CHARL_OK;
}

charl_status charl_optimizer_create(charl_params *set, const charl_optimizer_config *config, charl_optimizer **out)
{
    CHARL_GIVEN(set, config, out);
    CHARL_TRY(charl__optimizer_create(set, config, config->steps, set->own, out));
    (*out)->asks_begin = config->steps != NULL;
    return CHARL_OK;
}

charl_status charl_optimizer_begin(charl_optimizer *o, float lr)
{
    CHARL_GIVEN(o);
    CHARL_TRY(charl__device_enter(o->set->dev));
    CHARL_TRY(charl__range_check(CHARL_ERR_INVALID, "the learning rate", (double)lr, "[0,inf)"));
    const uint64_t seed = charl__steps_seed(o->steps), step = (uint64_t)o->t;
    charl__step_params record = {.seed_lo = (uint32_t)seed,
                                 .seed_hi = (uint32_t)(seed >> 32),
                                 .step_lo = (uint32_t)step,
                                 .step_hi = (uint32_t)(step >> 32),
                                 .loss_seed = 1.0F,
                                 .commit = 1};

    CHARL_REQUIRE(o->asks_begin || o->before, CHARL_ERR_INVALID,
                  "this optimizer has no step parameters, so its steps need no begin; HINT set "
                  "charl_optimizer_config.steps if its graphs have step parameters");
    if (o->asks_begin) { /* otherwise charl_optimizer_step passes its own parameters */
        CHARL_TRY(charl__optimizer_fill(o, lr, &record));
        CHARL_TRY(charl__steps_push(o->steps, &record));
    }
    return charl__optimizer_begin(o);
}

void charl_optimizer_destroy(charl_optimizer *o)
{
    if (o) {
        charl_optimizer **at = &o->set->optimizers;

        while (*at != o) {
            at = &(*at)->next;
        }
        *at = o->next;
        charl__recording_destroy(o->recording);
        charl__norm_parts_destroy(o->parts);
        for (int k = 0; k < CHARL_OPTIM_MAX_STATES; k++) {
            charl__buffer_release(o->state[k]);
            charl__buffer_release(o->codes[k]);
            charl__buffer_release(o->scales[k]);
        }
        for (int k = 0; k < CHARL_OPTIM_MAX_SCRATCH; k++) {
            charl__buffer_release(o->scratch[k]);
        }
        charl__tensor_sums_destroy(o->sums);
        charl_free((void *)(uintptr_t)o->config.settings);
        o->set->users -= !o->unbound;
        charl_free(o->state_at);
        charl_free(o->own_at);
        charl_free(o->own);
        charl_free(o->trains);
        charl__buffer_release(o->gradients);
        charl__buffer_release(o->table);
        charl__buffer_release(o->partial);
        charl__buffer_release(o->norm);
        charl__buffer_release(o->scalars);
        charl__buffer_release(o->norms);
        charl__buffer_release(o->ema);
        charl__buffer_release(o->before);
        charl__steps_destroy(o->own_steps);
        charl_free(o);
    }
}

static int64_t skipped_of(const charl_optimizer *o, const charl__norm_record *r)
{
    return o->skipped + (int32_t)(r->skipped - (uint32_t)o->skipped);
}

void charl__optimizer_learn(charl_optimizer *o, const charl__norm_record *r, int64_t step)
{
    if (step > o->learned_at) {
        o->skipped = skipped_of(o, r);
        o->learned_at = step;
    }
}

charl_status charl__optimizer_fill(charl_optimizer *o, float lr, charl__step_params *record)
{
    int64_t update;

    if (may_skip(o) && o->t - o->learned_at >= CHARL_OPTIM_WINDOW / 2) {
        charl__norm_record r;

        CHARL_TRY(charl__optimizer_fetch_norm(o, &r));
        charl__optimizer_learn(o, &r, o->t);
    }
    update = o->t - o->skipped + 1;
    record->lr = lr;
    record->update = (uint32_t)update;
    record->skipped = (uint32_t)o->skipped;
    record->bias1 = (float)(1.0 - pow(o->config.beta1, (double)update));
    record->bias2 = (float)(1.0 - pow(o->config.beta2, (double)update));
    if (o->type->fill) {
        o->type->fill(&o->config, update, record);
    }
    return CHARL_OK;
}

int charl__optimizer_launches(const charl_optimizer *o)
{
    return o ? charl__recording_count(o->recording) : 0;
}

charl_status charl__optimizer_warm_up(charl_optimizer *o)
{
    const charl__step_params idle = {.commit = 0, .bias1 = 1.0F, .bias2 = 1.0F};

    CHARL_TRY(charl__steps_push(o->steps, &idle));
    CHARL_TRY(charl__recording_replay(o->recording, 0, charl__recording_count(o->recording)));
    CHARL_TRY(charl_device_sync(o->set->dev));
    return CHARL_OK;
}

/* Whether an argument is an arena of which this process stores its own ranges. */
static bool is_kept(const charl_optimizer *o, const charl__arg *a)
{
    bool is = a->buffer && (a->buffer == o->ema || a->buffer == o->scratch[0]);

    for (int k = 0; k < o->n_states; k++) {
        is = is || a->buffer == o->state[k];
    }
    return is;
}

enum { GROUP = 256, OWN = 7 }; /* arguments before a rule's own */

/* Elements of a work-item, by which CHARL_PARAM_ALIGN can be divided. The accesses of a GPU to host memory are faster when work-items that follow one
 * another have elements that do. */
static int vector_of(const charl_optimizer *o, const charl__optimizer_update *u)
{
    const bool grouped = charl__device_facts_get(o->set->dev)->group > 1;

    return !u->elementwise ? 1 : !grouped ? 16 : charl__device_offloads(o->set->dev) ? 1 : 8;
}

/* Work-items for `count` elements, a multiple of CHARL_PARAM_ALIGN, or as many as u says. */
static void set_extent(const charl_optimizer *o, int64_t count, const charl__optimizer_update *u, charl__launch *l)
{
    const size_t items = (size_t)(count / vector_of(o, u));

    l->global[0] = (size_t)count;
    l->local[0] = CHARL_PARAM_ALIGN;
    if (u->global[0]) {
        memcpy(l->global, u->global, sizeof l->global);
    } else if (u->elementwise) {
        l->local[0] = charl_device_get_info(o->set->dev)->max_group < GROUP ? CHARL_PARAM_ALIGN : GROUP;
        l->global[0] = (items + l->local[0] - 1) / l->local[0] * l->local[0];
    }
}

/* Bytes moved by an elementwise update of `count` elements: gradients are read, values and states are updated, copies are written. */
static double bytes_of(const charl_optimizer *o, const charl__launch *l, int64_t count)
{
    double each = 3 * sizeof(float);

    for (int i = OWN; i < OWN + CHARL_OPTIM_MAX_OWN; i++) {
        each += is_kept(o, &l->args[i]) ? 2 * sizeof(float) : 0;
    }
    return (double)count * (each + (l->args[5].buffer ? 2 : 0));
}

static charl__arg from(charl__arg_kind kind, charl__buffer *b, int64_t first, uint64_t *at)
{
    charl__arg a = charl__raw(kind, b);

    a.v.offset = first;
    return charl__placed(a, at);
}

/* A range of the arena; kept_at is its offset in the states. */
static charl_status update_range(const charl_optimizer *o, charl__param_range range, int64_t kept_at,
                                 const charl__optimizer_update *u)
{
    const bool copies =
        u->elementwise && o->type->elementwise && o->set->half && (!o->is_divided || o->set->is_divided);
    const int64_t at = charl__params_at(o->set, range.begin);
    charl__buffer *const half = copies ? o->set->half : NULL;
    charl__update_args args = {.extent = (uint64_t)range.count,
                               .kept = (uint64_t)kept_at,
                               .n = u->n,
                               .rows = u->rows,
                               .cols = u->cols,
                               .eps = (float)o->config.eps};
    charl__launch l = {.file = u->file,
                       .entry = u->entry,
                       .params = {{"CHARL_VEC", vector_of(o, u)}},
                       .args = {from(CHARL_ARG_INOUT, o->set->value, at, &args.param),
                                from(CHARL_ARG_IN, charl__optimizer_gradients(o), range.begin, &args.grad),
                                from(CHARL_ARG_IN, o->table, 2 * (range.begin / CHARL_PARAM_ALIGN), &args.table),
                                from(CHARL_ARG_IN, o->norm, 0, &args.norm),
                                charl__placed(charl__in(charl__steps_tensor(o->steps)), &args.record),
                                from(CHARL_ARG_OUT, half, copies ? at : 0, &args.copy),
                                charl__struct(&args, sizeof args)},
                       .label = o->type->row.name};

    charl__launch_set_all(&l, u->params);
    if (copies) {
        charl__launch_set(&l, "COPIES", 1);
        charl__launch_set_text(&l, "HALF", charl__kernel_type(o->set->half_type));
    }
    set_extent(o, range.count, u, &l);
    memcpy(l.args + OWN, u->own, sizeof u->own);
    for (int i = OWN; kept_at > 0 && i < OWN + CHARL_OPTIM_MAX_OWN; i++) {
        if (is_kept(o, &l.args[i])) {
            l.args[i].v.offset += kept_at;
        } else if (o->sums && l.args[i].buffer == o->sums->owner) {
            l.args[i].v.offset += kept_at / CHARL_PARAM_ALIGN;
        }
    }
    l.bytes = u->elementwise ? bytes_of(o, &l, range.count) : 0;
    CHARL_TRY(charl__launch_enqueue(o->set->dev, &l));
    return CHARL_OK;
}

static bool uses(const charl__optimizer_update *u, const charl__buffer *b)
{
    for (int i = 0; i < CHARL_OPTIM_MAX_OWN; i++) {
        if (b && u->own[i].buffer == b) {
            return true;
        }
    }
    return false;
}

/* Elements that a launch has at most: packed states have a workspace, and NVIDIA's compiler counts work-items in 32 bits. */
static int64_t most_at_once(const charl_optimizer *o, const charl__optimizer_update *u, bool packed)
{
    return packed                                                  ? CHARL_OPTIM_PACKED_AT_ONCE
           : u->elementwise && charl__device_offloads(o->set->dev) ? CHARL_OPTIM_OFFLOADED_AT_ONCE
                                                                   : INT64_MAX;
}

/* A range, in pieces. */
static charl_status update_pieces(const charl_optimizer *o, charl__param_range range, int64_t kept_at,
                                  const charl__optimizer_update *u)
{
    const bool packed = o->codes[0] && uses(u, o->state[0]);
    const int64_t most = most_at_once(o, u, packed);

    for (int64_t at = 0, n; at < range.count; at += n) {
        n = range.count - at < most ? range.count - at : most;
        for (int k = 0; packed && k < o->n_states; k++) {
            CHARL_TRY(charl__optimizer_unpack_state(o, k, kept_at + at, n));
        }
        CHARL_TRY(update_range(o, (charl__param_range){range.begin + at, n}, packed ? 0 : kept_at + at, u));
        for (int k = 0; packed && k < o->n_states; k++) {
            CHARL_TRY(charl__optimizer_pack_state(o, k, kept_at + at, n));
        }
    }
    return CHARL_OK;
}

charl_status charl__optimizer_update_enqueue(const charl_optimizer *o, const charl_param *p,
                                             const charl__optimizer_update *u)
{
    int64_t kept_at = 0;

    if (p) {
        CHARL_TRY(update_range(o, (charl__param_range){p->offset, charl__param_blocks(p) * CHARL_PARAM_ALIGN}, 0, u));
        return CHARL_OK;
    }
    for (int i = 0; i < o->n_own; i++) {
        CHARL_TRY(update_pieces(o, o->own[i], kept_at, u));
        kept_at += o->own[i].count;
    }
    return CHARL_OK;
}

charl_status charl_optimizer_step(charl_optimizer *o, float lr)
{
    CHARL_GIVEN(o);
    CHARL_TRY(charl__device_enter(o->set->dev));
    CHARL_TRY(charl__own_require_whole(o, "charl_optimizer_step"));
    return charl__optimizer_step(o, lr);
}

charl_status charl__optimizer_step(charl_optimizer *o, float lr)
{
    int first = o->set->is_joined ? o->n_join : o->n_begin;

    CHARL_REQUIRE(o->set->has_values, CHARL_ERR_INVALID,
                  "the parameters have no values; HINT charl_params_initialize or charl_params_load gives them values");
    CHARL_TRY(charl__range_check(CHARL_ERR_INVALID, "the learning rate", (double)lr, "[0,inf)"));
    CHARL_REQUIRE(o->begun || !(o->asks_begin || o->before), CHARL_ERR_INVALID,
                  "the step has not begun; HINT call charl_optimizer_begin before the graph runs");
    o->begun = false;
    if (o->own_steps) {
        const uint64_t t = (uint64_t)o->t;
        charl__step_params step = {.step_lo = (uint32_t)t, .step_hi = (uint32_t)(t >> 32), .commit = 1};

        CHARL_TRY(charl__optimizer_fill(o, lr, &step));
        CHARL_TRY(charl__steps_push(o->own_steps, &step));
    }
    if (o->parts) {
        CHARL_TRY(charl__recording_replay(o->recording, first, o->n_told));
        CHARL_TRY(charl__norm_parts_exchange(o));
        first = o->n_told;
    }
    CHARL_TRY(charl__recording_replay(o->recording, first, charl__recording_count(o->recording)));
    o->set->is_joined = true;
    o->t++;
    return CHARL_OK;
}

/* The trainable parameter that covers element `at` of the arena. */
static const charl_param *param_at(const charl_params *set, int64_t at)
{
    for (int i = 0; i < set->count; i++) {
        const charl_param *p = set->param[i];

        if (p->spec.trainable && at >= p->offset && at < p->offset + charl_shape_count(&p->spec.shape)) {
            return p;
        }
    }
    return NULL;
}

charl_status charl__optimizer_read_norm(charl_optimizer *o, charl__norm_record *host)
{
    return charl__buffer_read(CHARL_QUEUE_COMPUTE, o->norm, 0, host, sizeof *host, false);
}

charl_status charl__optimizer_fetch_norm(charl_optimizer *o, charl__norm_record *host)
{
    return charl__buffer_read(CHARL_QUEUE_COMPUTE, o->norm, 0, host, sizeof *host, true);
}

void charl__optimizer_judge(const charl_optimizer *o, const charl__norm_record *r, charl_optimizer_report *out)
{
    *out = (charl_optimizer_report){.grad_norm = r->norm, .bad_steps = r->bad_steps, .skipped = skipped_of(o, r)};
    out->finite = o->config.skip_nonfinite ? (r->left_out[0] & 1) == 0 : r->bad_steps == 0;
    out->spike = (r->spiked[0] & 1) != 0;
    if (r->bad_steps > 0 || r->left_out[0] != 0 || r->left_out[1] != 0) {
        const int64_t at = (int64_t)((uint64_t)r->element_hi << 32 | r->element_lo);

        out->bad_step = (int64_t)((uint64_t)r->step_hi << 32 | r->step_lo);
        out->bad_param = at >= 0 ? param_at(o->set, at) : NULL;
    }
}

charl_status charl_optimizer_get_report(charl_optimizer *o, charl_optimizer_report *out)
{
    CHARL_GIVEN(o, out);
    charl__norm_record r = {0};

    *out = (charl_optimizer_report){0};
    CHARL_TRY(charl__device_enter(o->set->dev));
    CHARL_TRY(charl__optimizer_fetch_norm(o, &r));
    charl__optimizer_judge(o, &r, out);
    return CHARL_OK;
}

charl_status charl__optimizer_begin(charl_optimizer *o)
{
    CHARL_TRY(charl__recording_replay(o->recording, 0, o->n_begin));
    o->begun = true;
    return CHARL_OK;
}

charl_status charl__optimizer_undo(charl_optimizer *o)
{
    if (!o->begun || o->set->buffer_elements == 0) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(o->before, CHARL_ERR_INVALID, "the running statistics before the step are not stored");
    CHARL_TRY(copy_statistics(o, o->before, o->set->buffers));
    o->begun = false;
    return CHARL_OK;
}

int64_t charl_optimizer_get_steps(const charl_optimizer *o)
{
    return o ? o->t : 0;
}

charl_status charl_optimizer_set_steps(charl_optimizer *o, int64_t steps, int64_t skipped)
{
    CHARL_GIVEN(o);
    const uint32_t word = (uint32_t)skipped;

    CHARL_REQUIRE(skipped >= 0 && skipped <= steps, CHARL_ERR_INVALID, "skipped is %lld; it is 0 to steps, %lld",
                  (long long)skipped, (long long)steps);
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, o->norm, offsetof(charl__norm_record, skipped), &word,
                                  sizeof word, true));
    o->t = o->learned_at = steps;
    o->skipped = skipped;
    return CHARL_OK;
}

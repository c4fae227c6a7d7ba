/* Optimizers that a program has registered: their settings and update become parameters of kernels/optim/custom.cl. */
#include <inttypes.h>
#include <string.h>

#include "base/text/text.h"
#include "optim/custom_args.h"
#include "optim/optimizer.h"

charl_status charl__custom_check(const charl_optimizer_type *type)
{
    const char *name = type->row.name ? type->row.name : "";

    const char *const texts[] = {type->update, type->direction, type->measure, type->fold};
    bool folds = false;

    CHARL_REQUIRE(type->update && type->update[0], CHARL_ERR_INVALID, "optimizer %s: its update is missing", name);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CHARL_REQUIRE(!texts[i] || (!strchr(texts[i], '#') && !strstr(texts[i], "//")), CHARL_ERR_INVALID,
                      "optimizer %s: a text holds # or //: %.60s", name, texts[i]);
    }
    CHARL_REQUIRE(type->n_states >= 0 && type->n_states <= CHARL_OPTIM_MAX_STATES, CHARL_ERR_INVALID,
                  "optimizer %s has %d states; it can have %d", name, type->n_states, CHARL_OPTIM_MAX_STATES);
    for (int k = 0; k < type->n_states; k++) {
        const char *state = type->state_names[k];

        CHARL_REQUIRE(state && state[0] && strspn(state, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(state),
                      CHARL_ERR_INVALID,
                      "optimizer %s: state %d is named \"%s\"; names have lower-case letters, "
                      "digits and underscores",
                      name, k, state ? state : "");
        CHARL_REQUIRE(type->state_shapes[k] <= CHARL_STATE_MATRIX, CHARL_ERR_INVALID,
                      "optimizer %s: the shape of state %s is %d; it can be one of the constants of charl_state_shape",
                      name, state, (int)type->state_shapes[k]);
        folds = folds || type->state_shapes[k] != CHARL_STATE_ELEMENTS;
        for (int j = 0; j < k; j++) {
            CHARL_REQUIRE(strcmp(state, type->state_names[j]) != 0, CHARL_ERR_INVALID,
                          "optimizer %s: two states are named %s", name, state);
        }
    }
    CHARL_REQUIRE(
        folds == (type->fold != NULL) && folds == (type->measure != NULL), CHARL_ERR_INVALID,
        "optimizer %s: states of rows, columns or matrices come with measure and fold, and these with such states",
        name);
    for (int i = 0; i < type->row.n_keys; i++) {
        const charl_key_kind kind = type->row.keys[i].kind;

        CHARL_REQUIRE(kind == CHARL_KEY_INT || kind == CHARL_KEY_FLOAT || kind == CHARL_KEY_BOOL ||
                          kind == CHARL_KEY_CHOICE,
                      CHARL_ERR_INVALID, "optimizer %s: key %s is not an INT, FLOAT, BOOL or CHOICE", name,
                      type->row.keys[i].name ? type->row.keys[i].name : "");
    }
    return CHARL_OK;
}

int charl__custom_states(const charl_optimizer_config *c)
{
    return charl__optimizer_find(c->type)->custom->n_states;
}

void charl__custom_fill(const charl_optimizer_config *c, int64_t t, charl__step_params *record)
{
    const charl_optimizer_type *type = charl__optimizer_find(c->type)->custom;
    float scalar[2] = {0.0F, 0.0F};

    if (type->scalars) {
        type->scalars(c->settings, t, scalar);
    }
    record->bias1 = scalar[0];
    record->bias2 = scalar[1];
}

static charl_status declare(const charl_key *k, const void *settings, charl__text *t)
{
    const void *at = (const char *)settings + k->offset;

    switch (k->kind) {
    case CHARL_KEY_FLOAT: /* a hexadecimal constant is exact */
        return charl__text_printf(t, "const float %s = %af; (void)%s; ", k->name, (double)(float)*(const double *)at,
                                  k->name);
    case CHARL_KEY_INT:
        return charl__text_printf(t, "const long %s = %" PRId64 "L; (void)%s; ", k->name, *(const int64_t *)at,
                                  k->name);
    case CHARL_KEY_BOOL:
        return charl__text_printf(t, "const int %s = %d; (void)%s; ", k->name, *(const bool *)at, k->name);
    default:
        return charl__text_printf(t, "const int %s = %d; (void)%s; ", k->name, *(const int *)at, k->name);
    }
}

/* A parameter as matrices. */
typedef struct view {
    int64_t batch, rows, cols;
} view;

static view view_of(const charl_shape *s)
{
    view v = {1, 1, 1};

    for (int i = 0; i < s->ndim; i++) {
        *(s->ndim == 1 || i == s->ndim - 2 ? &v.rows : i == s->ndim - 1 ? &v.cols : &v.batch) *= s->dim[i];
    }
    return v;
}

bool charl__custom_is_elementwise(const charl_optimizer_type *type)
{
    return !type->direction && !type->fold;
}

bool charl__custom_state_shape(const charl__optimizer_rule *rule, int k, const charl_param *p, charl_shape *out)
{
    const charl_state_shape shape = rule->custom->state_shapes[k];
    const int row = p->spec.shape.ndim > 1 ? p->spec.shape.ndim - 2 : 0, col = row + 1;

    *out = p->spec.shape;
    if (out->ndim > 1 && (shape == CHARL_STATE_ROWS || shape == CHARL_STATE_MATRIX)) {
        out->dim[col] = 1;
    }
    if (out->ndim > 0 && (shape == CHARL_STATE_COLUMNS || shape == CHARL_STATE_MATRIX)) {
        out->dim[row] = 1;
    }
    return true;
}

enum { DIRECTION }; /* scratch */

charl_status charl__custom_prepare(charl_optimizer *o)
{
    if (o->type->custom->direction) {
        CHARL_TRY(charl__tensor_sums_create(o->set, o->own_at, o->own_elements, &o->sums));
        CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)o->own_elements * 4, "direction", &o->scratch[DIRECTION]));
    }
    return CHARL_OK;
}

/* The texts of all launches, and their buffers. */
typedef struct texts {
    charl__kernel_param params[CHARL_OPTIM_MAX_PARAMS];
} texts;

static charl__optimizer_update launch_of(const texts *t, const char *entry)
{
    charl__optimizer_update u = {.file = "optim/custom", .entry = entry};

    memcpy(u.params, t->params, sizeof u.params);
    return u;
}

static charl__arg placed(charl__arg_kind kind, charl__buffer *b, int64_t at, uint64_t *out)
{
    charl__arg a = charl__raw(kind, b);

    a.v.offset = at;
    return charl__placed(a, out);
}

/* Direction or update, of a parameter or, if p is NULL, of all elements. */
static charl_status enqueue_elements(const charl_optimizer *o, const texts *t, const charl_param *p, bool directs)
{
    const charl_optimizer_type *type = o->type->custom;
    charl__optimizer_update u = launch_of(t, "charl_custom");
    charl__custom_args own = {.count = (uint64_t)o->set->count};
    const view v = p ? view_of(&p->spec.shape) : (view){0, 0, 0};
    int n = CHARL_OPTIM_MAX_STATES;

    u.elementwise = !p;
    u.params[0] = (charl__kernel_param){"CHARL_DIRECTS", directs};
    if (p) {
        own.tensor = (uint64_t)p->index;
        own.dims = p->spec.shape.ndim;
        u.n = charl_shape_count(&p->spec.shape);
        u.rows = v.rows;
        u.cols = v.cols;
    }
    for (int k = 0; k < CHARL_OPTIM_MAX_STATES; k++) {
        u.own[k] = k >= type->n_states ? placed(CHARL_ARG_INOUT, NULL, 0, &own.state[k])
                   : p                 ? charl__placed(charl__optimizer_state(o, k, p), &own.state[k])
                                       : placed(CHARL_ARG_INOUT, o->state[k], 0, &own.state[k]);
        own.shape[k] = (uint32_t)type->state_shapes[k];
    }
    u.own[n++] = placed(directs ? CHARL_ARG_OUT : CHARL_ARG_IN, o->scratch[DIRECTION], p ? o->own_at[p->index] : 0,
                        &own.direction);
    u.own[n++] = placed(CHARL_ARG_IN, o->sums ? o->sums->square : NULL, 0, &own.square);
    u.own[n] = charl__struct(&own, sizeof own);
    return charl__optimizer_update_enqueue(o, p, &u);
}

/* State k of rows, columns or matrices of p. */
static charl_status enqueue_fold(const charl_optimizer *o, const texts *t, const charl_param *p, int k)
{
    const view v = view_of(&p->spec.shape);
    const uint64_t rows = (uint64_t)v.rows, cols = (uint64_t)v.cols, batch = (uint64_t)v.batch;
    charl__optimizer_update u = launch_of(t, "charl_custom_fold");
    charl__custom_args own = {.inner = 1, .outer = rows * cols, .stride = 1, .n = rows * cols};
    uint64_t lines = batch;

    if (o->type->custom->state_shapes[k] == CHARL_STATE_ROWS) {
        own.outer = own.n = cols;
        lines *= rows;
    } else if (o->type->custom->state_shapes[k] == CHARL_STATE_COLUMNS) {
        own.inner = own.stride = cols;
        own.n = rows;
        lines *= cols;
    }
    u.global[0] = (size_t)lines * CHARL_PARAM_ALIGN;
    u.own[0] = charl__placed(charl__optimizer_state(o, k, p), &own.state[0]);
    u.own[1] = charl__struct(&own, sizeof own);
    return charl__optimizer_update_enqueue(o, p, &u);
}

static charl_status enqueue_whole(const charl_optimizer *o, const texts *t)
{
    const charl_optimizer_type *type = o->type->custom;

    for (int i = 0; i < o->set->count; i++) {
        const charl_param *p = o->set->param[i];

        for (int k = 0; k < type->n_states && charl__optimizer_owns(o, p); k++) {
            if (type->state_shapes[k] != CHARL_STATE_ELEMENTS) {
                CHARL_TRY(enqueue_fold(o, t, p, k));
            }
        }
        if (type->direction && charl__optimizer_owns(o, p)) {
            CHARL_TRY(enqueue_elements(o, t, p, true));
        }
    }
    if (type->direction) {
        CHARL_TRY(charl__tensor_sums_squares(o->sums, o->set->value, 0));
        CHARL_TRY(charl__tensor_sums_squares(o->sums, o->scratch[DIRECTION], 1));
    }
    for (int i = 0; i < o->set->count; i++) {
        if (charl__optimizer_owns(o, o->set->param[i])) {
            CHARL_TRY(enqueue_elements(o, t, o->set->param[i], false));
        }
    }
    return CHARL_OK;
}

#define OF_ELEMENTS "(d, p, g, lr, weight_decay, scalar0, scalar1, grad_norm, s0, s1, s2, s3, s4, s5)"

charl_status charl__custom_enqueue(const charl_optimizer *o)
{
    const charl_optimizer_type *type = o->type->custom;
    const bool whole = !o->type->elementwise;
    CHARL_SCOPED(charl__text_fini) charl__text settings = {0};
    texts t = {{{"CHARL_DIRECTS", false},
                {"CHARL_STATES", type->n_states},
                {"CHARL_WHOLE", whole},
                {"CHARL_DIRECTED", type->direction != NULL}}};
    int n = 4;

    for (int i = 0; i < type->row.n_keys; i++) {
        CHARL_TRY(declare(&type->row.keys[i], o->config.settings, &settings));
    }
    t.params[n++] = (charl__kernel_param){"CHARL_SETTINGS", .text = charl__text_string(&settings)};
    t.params[n++] = (charl__kernel_param){"CHARL_UPDATE" OF_ELEMENTS, .text = type->update};
    if (type->direction) {
        t.params[n++] = (charl__kernel_param){"CHARL_DIRECTION" OF_ELEMENTS, .text = type->direction};
    }
    if (type->fold) {
        t.params[n++] = (charl__kernel_param){"CHARL_MEASURE(p, g)", .text = type->measure};
        t.params[n++] = (charl__kernel_param){"CHARL_FOLD(s, mean, scalar0, scalar1)", .text = type->fold};
    }
    return whole ? enqueue_whole(o, &t) : enqueue_elements(o, &t, NULL, false);
}

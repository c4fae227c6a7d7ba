/* The life of a graph: its variables, nodes and leaves, scopes, the first error.
 *
 * Invariant: nodes are in an order in which they can run, because a builder can only name variables
 * that exist. A failed builder leaves the graph unchanged, except for the status.
 */
#include "autograd/graph_private.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/registry/key.h"
#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/ops.h"

charl_status charl__list_add(charl__list *l, void *item)
{
    CHARL_TRY(charl__grow(l->count, sizeof *l->item, &l->item));
    l->item[l->count++] = item;
    return CHARL_OK;
}

charl_status charl_graph_create(charl_device *dev, const charl_slices *slices, charl_graph **out)
{
    CHARL_GIVEN(out);
    CHARL_SCOPED_FREE charl_graph *g = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *g, &g));
    g->dev = dev;
    g->training = true;
    g->bucket_elements = INT64_MAX;
    g->first_recomputed_segment = INT_MAX;
    if (slices) {
        CHARL_REQUIRE(slices->count >= 1 && slices->count <= CHARL_GRAPH_SLICES, CHARL_ERR_INVALID,
                      "a graph over %d slices; it takes 1 to %d", slices->count, CHARL_GRAPH_SLICES);
        CHARL_TRY(charl_slices_range(slices->total, slices->first, slices->count, &g->slices));
        CHARL_REQUIRE(slices->n_lanes == g->slices.n_lanes, CHARL_ERR_INVALID,
                      "slices %d to %d of %d have %d lanes, not %d; HINT charl_slices_range counts them", slices->first,
                      slices->first + slices->count, slices->total, g->slices.n_lanes, slices->n_lanes);
    } else {
        CHARL_TRY(charl_slices_block(1, 0, 1, &g->slices));
    }
    *out = g;
    g = NULL;
    return CHARL_OK;
}

static void var_destroy(charl_var *v)
{
    charl_tensor_release(v->tensor);
    charl_free(v->name);
    charl_free(v->more.item);
    charl_free(v);
}

static void node_destroy(charl__node *n)
{
    if (n) {
        charl_free(n->attr);
        charl_free(n->name);
        charl_free(n);
    }
}

void charl_graph_destroy(charl_graph *g)
{
    if (!g) {
        return;
    }
    if (g->compiled) {
        const charl_status ignored = charl_device_sync(g->dev); /* the error cannot be handled here */
        (void)ignored;
    }
    charl__recording_destroy(g->recording);
    for (int i = 0; i < g->vars.count; i++) {
        var_destroy(g->vars.item[i]);
    }
    for (int i = 0; i < g->nodes.count; i++) {
        node_destroy(g->nodes.item[i]);
    }
    for (int i = 0; i < g->n_segments; i++) {
        charl__buffer_release(g->segment ? g->segment[i] : NULL);
    }
    charl_free(g->segment);
    charl_free(g->segment_bytes);
    for (int i = 0; g->compiled && charl__graph_set(g, i); i++) {
        charl__graph_set(g, i)->users--;
    }
    charl_free(g->vars.item);
    charl_free(g->parameters.item);
    charl_free(g->nodes.item);
    charl_free(g->constants.item);
    charl_free(g->action);
    for (int i = 0; i < g->n_gathered; i++) {
        charl_tensor_release(g->gathered[i].to);
    }
    charl_free(g->gathered);
    charl_free(g->message);
    charl__steps_destroy(g->own_steps);
    charl_free(g);
}

void charl_graph_set_training(charl_graph *g, bool training)
{
    if (!g) {
        return;
    }
    g->training = training;
}

bool charl_graph_is_training(const charl_graph *g)
{
    return g && g->training;
}

void charl_graph_set_precision(charl_graph *g, charl_dtype precision)
{
    if (!g) {
        return;
    }
    if (!charl__is_float(precision)) {
        charl__graph_fail(g, CHARL_ERR_DTYPE, "a precision is f32, bf16 or f16, not %s", charl_dtype_name(precision));
        return;
    }
    g->precision = precision;
}

charl_dtype charl_graph_get_precision(const charl_graph *g)
{
    return g ? g->precision : CHARL_F32;
}

void charl__graph_set_linear(charl_graph *g, charl__linear_kind kind)
{
    g->linear = kind;
}

charl__linear_kind charl__graph_get_linear(const charl_graph *g)
{
    return g->linear;
}

bool charl__graph_has_device(const charl_graph *g)
{
    return g->dev != NULL;
}

const charl_slices *charl__graph_slices(const charl_graph *g)
{
    return &g->slices;
}

charl_params *charl__graph_params(const charl_graph *g)
{
    return g->params;
}

bool charl__graph_has_gradients(const charl_graph *g)
{
    return g->has_gradients;
}

bool charl__graph_is_whole(const charl_graph *g)
{
    return g->slices.count == g->slices.total;
}

void charl_graph_set_steps(charl_graph *g, charl_steps *steps)
{
    if (!g) {
        return;
    }
    g->steps = steps;
}

charl_var *charl_graph_loss_scale(charl_graph *g)
{
    charl_tensor *scale = g && g->steps ? charl__steps_scale(g->steps) : NULL;
    charl_var *v;

    if (!scale) {
        return charl_constant(g, 1.0F);
    }
    v = charl_input(g, "loss_scale", CHARL_F32, (charl_shape){0, {0}}, CHARL_REPLICATED);
    charl__graph_bind_input(g, v, scale);
    return v;
}

void charl__graph_on_collective(charl_graph *g, charl__collective_fn fn, void *ctx)
{
    g->collective = fn;
    g->collective_ctx = ctx;
}

void charl__graph_on_ready(charl_graph *g, charl__ready_fn fn, void *ctx, int64_t bucket_elements)
{
    g->ready = fn;
    g->ready_ctx = ctx;
    g->bucket_elements = bucket_elements > 0 ? bucket_elements : 1;
}

void charl__graph_on_gather(charl_graph *g, charl__gather_fn fn, void *ctx)
{
    g->gather = fn;
    g->gather_ctx = ctx;
}

void charl__graph_use_gradients(charl_graph *g, charl__buffer *gradients)
{
    g->gradients = gradients;
}

void charl__graph_share_activations(charl_graph *g, const charl_graph *other)
{
    g->arena_of = other;
}

static const charl__node *find_live(const charl_graph *g, const charl__op *op)
{
    for (int i = 0; i < g->nodes.count; i++) {
        const charl__node *n = charl__graph_node(g, i);

        if (n->live && n->op == op) {
            return n;
        }
    }
    return NULL;
}

/* Whether a node of the backward pass depends on node `first`. Nodes come after their operands. */
static bool is_needed_backward(const charl_graph *g, int first)
{
    for (int i = first; i < g->nodes.count; i++) {
        charl__node *n = charl__graph_node(g, i);

        n->reached = i == first;
        for (int k = 0; k < n->n_in; k++) {
            const charl__node *from = n->in[k]->node;

            n->reached = n->reached || (from && from->position >= first && from->reached);
        }
        if (n->reached && n->live && i >= g->n_forward) {
            return true;
        }
    }
    return false;
}

const char *charl__graph_collective(const charl_graph *g)
{
    for (int i = 0; i < g->nodes.count; i++) {
        const charl__node *n = charl__graph_node(g, i);

        if (n->live && n->op == &charl__op_batch_sum && is_needed_backward(g, i)) {
            return n->name;
        }
    }
    return NULL;
}

charl_steps *charl__graph_steps(const charl_graph *g)
{
    return g->steps;
}

void charl__graph_count_from(charl_graph *g, uint64_t n)
{
    g->runs = n;
}

bool charl__graph_can_move(const charl_graph *g)
{
    return find_live(g, &charl__op_spread) == NULL;
}

/* Keep the first error: later ones are consequences and would confuse. */
charl_var *charl__graph_keep_error(charl_graph *g, charl_status st)
{
    if (g->status == CHARL_OK && charl__device_enter(g->dev) == CHARL_OK) { /* another thread's graph is not touched */
        g->status = st;
        if (charl__strdup(charl_error_message(), &g->message) != CHARL_OK) {
            g->message = NULL;
        }
    }
    return NULL;
}

charl_status charl__graph_explain(charl_graph *g, const char *origin, const char *after)
{
    charl__text text = {0};

    CHARL_TRY(charl__text_printf(&text, "%s%s%s%s", origin ? origin : "", origin ? ": " : "",
                                 g->message ? g->message : "", after));
    charl_free(g->message);
    g->message = charl__text_steal(&text);
    if (origin && g->status == CHARL_ERR_INVALID) { /* the user's, who described it there */
        g->status = CHARL_ERR_CONFIG;
    }
    return CHARL_OK;
}

charl_var *charl__graph_fail(charl_graph *g, charl_status st, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!g) {
        return NULL;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    st = charl_error_set(st, __FILE__, __LINE__, __func__, "%s%s%s", g->scope, g->scope[0] ? ": " : "", text);
    return charl__graph_keep_error(g, st);
}

charl_status charl_graph_status(const charl_graph *g)
{
    CHARL_GIVEN(g);
    CHARL_REQUIRE(g->status == CHARL_OK, g->status, "%s", g->message ? g->message : charl_status_text(g->status));
    return CHARL_OK;
}

void charl_graph_scope_begin(charl_graph *g, const char *name)
{
    if (!g || !name) {
        return;
    }
    const size_t used = strlen(g->scope);

    if (g->scopes == CHARL_MAX_SCOPES || used + strlen(name) + 2 > sizeof g->scope) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "scope %.40s is too long or too deep", name);
        return;
    }
    g->scope_length[g->scopes++] = used;
    snprintf(g->scope + used, sizeof g->scope - used, "%s%s", used ? "." : "", name);
}

void charl_graph_scope_end(charl_graph *g)
{
    if (!g) {
        return;
    }
    if (g->scopes > 0) { /* otherwise its begin failed, and so did the graph */
        g->scope[g->scope_length[--g->scopes]] = '\0';
    }
}

static bool name_is_taken(const charl_graph *g, const char *name)
{
    for (int i = g->nodes.count - 1; i >= 0; i--) {
        if (strcmp(charl__graph_node(g, i)->name, name) == 0) {
            return true;
        }
    }
    return false;
}

const char *charl__graph_next_name(charl_graph *g, const char *op_name, char *text, size_t bytes)
{
    const char *dot = g->scope[0] ? "." : "";

    snprintf(text, bytes, "%s%s%s", g->scope, dot, op_name);
    for (int i = 2; name_is_taken(g, text); i++) {
        snprintf(text, bytes, "%s%s%s#%d", g->scope, dot, op_name, i);
    }
    return text;
}

charl_status charl__var_new(charl_graph *g, charl_type type, charl_var **out)
{
    CHARL_SCOPED_FREE charl_var *v = NULL;

    *out = NULL;
    CHARL_TRY(charl__device_enter(g->dev));
    CHARL_TRY(charl_shape_check(&type.shape));
    CHARL_TRY(charl__alloc(sizeof *v, &v));
    v->g = g;
    v->id = g->vars.count;
    v->type = type;
    v->segment = -1;
    CHARL_TRY(charl__list_add(&g->vars, v));
    *out = v;
    v = NULL;
    return CHARL_OK;
}

charl_status charl__node_new(charl_graph *g, const charl__op *op, const void *attr, charl__node **out)
{
    charl_status st = CHARL_OK;
    char name[320];
    charl__node *n = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *n, &n));
    n->op = op;
    n->position = g->nodes.count;
    n->model_segment = g->has_gradients ? 0 : g->model_segment;
    CHARL_TRY_CLEANUP(charl__strdup(charl__graph_next_name(g, op->name, name, sizeof name), &n->name));
    if (op->attr_size) {
        CHARL_TRY_CLEANUP(charl__alloc(op->attr_size, &n->attr));
        memcpy(n->attr, attr, op->attr_size);
    }
    CHARL_TRY_CLEANUP(charl__list_add(&g->nodes, n));
    *out = n;
    n = NULL;
cleanup:
    node_destroy(n);
    return st;
}

bool charl__graph_check_range(charl_graph *g, const char *what, const char *name, double v, const char *range)
{
    char text[160];

    if (charl__range_holds(range, v)) {
        return true;
    }
    charl__graph_fail(g, CHARL_ERR_INVALID, "%s: %s %s", what, name, charl__range_refusal(range, v, text, sizeof text));
    return false;
}

static charl_status new_input(charl_graph *g, const char *name, charl_type type, charl_var **out)
{
    charl_var *v = NULL;

    CHARL_REQUIRE(!g->compiled, CHARL_ERR_INVALID, "input %s: the graph is already compiled", name);
    CHARL_TRY(charl_shape_check(&type.shape));
    CHARL_REQUIRE(type.batch != CHARL_PARTIAL, CHARL_ERR_INVALID, "input %s: an input is REPLICATED or BATCHED", name);
    CHARL_REQUIRE(type.batch != CHARL_BATCHED || (type.shape.ndim > 0 && type.shape.dim[0] % g->slices.count == 0),
                  CHARL_ERR_SHAPE, "input %s: %lld rows do not divide into %d slices", name,
                  type.shape.ndim ? (long long)type.shape.dim[0] : 0LL, g->slices.count);
    CHARL_TRY(charl__var_new(g, type, &v));
    v->leaf = CHARL_LEAF_INPUT;
    CHARL_TRY(charl__strdup(name, &v->name));
    *out = v;
    return CHARL_OK;
}

charl_var *charl_input(charl_graph *g, const char *name, charl_dtype dtype, charl_shape shape, charl_batch batch)
{
    if (!g || !name) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "input: name is NULL");
    }
    charl_var *v = NULL;
    const charl_status st = new_input(g, name, (charl_type){dtype, shape, batch}, &v);

    return st == CHARL_OK ? v : charl__graph_keep_error(g, st);
}

void charl__graph_bind_input(charl_graph *g, charl_var *v, charl_tensor *t)
{
    if (!v) {
        return; /* the error that made it NULL is kept */
    }
    CHARL_INVARIANT(v->g == g && v->leaf == CHARL_LEAF_INPUT && !v->tensor && t->dtype == v->type.dtype &&
                    charl__tensor_count(t) == charl_shape_count(&v->type.shape));
    v->tensor = charl_tensor_retain(t);
}

/* The first set is trained unless charl_graph_set_trained names another. */
static charl_status add_set(charl_graph *g, charl_params *set)
{
    g->params = g->params ? g->params : set;
    for (int i = 0; charl__graph_set(g, i); i++) {
        if (charl__graph_set(g, i) == set) {
            return CHARL_OK;
        }
    }
    return charl__list_add(&g->constants, set);
}

void charl_graph_set_trained(charl_graph *g, charl_params *set)
{
    if (!g || !set) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "charl_graph_set_trained: set is NULL");
        return;
    }
    const charl_status st = g->has_gradients ? CHARL_OK : add_set(g, set);

    if (st != CHARL_OK) {
        charl__graph_keep_error(g, st);
    } else if (g->has_gradients) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "charl_graph_set_trained comes before charl_graph_backward");
    } else {
        for (int i = 0; i < g->constants.count; i++) {
            if (g->constants.item[i] == set) {
                g->constants.item[i] = g->params;
            }
        }
        g->params = set;
        g->is_chosen = true;
    }
}

/* The variable of p; NULL: it has none. It is at p's index in its set, or anywhere if a parameter of another set took that place. */
static charl_var *find_parameter(const charl_graph *g, const charl_param *p)
{
    charl_var *v = p->index < g->parameters.count ? g->parameters.item[p->index] : NULL;

    for (int i = 0; v && v->param != p; i++) {
        v = i < g->vars.count ? charl__var(g, i) : NULL;
    }
    return v;
}

static charl_status add_parameter(charl_graph *g, charl_param *p, charl_var *v)
{
    while (g->parameters.count <= p->index) {
        CHARL_TRY(charl__list_add(&g->parameters, NULL));
    }
    if (!g->parameters.item[p->index]) {
        g->parameters.item[p->index] = v;
    }
    v->leaf = CHARL_LEAF_PARAM;
    v->param = p;
    return CHARL_OK;
}

charl_var *charl_parameter(charl_graph *g, charl_param *p)
{
    if (!g || !p) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "parameter: p is NULL");
    }
    charl_status st = CHARL_OK;
    charl_type type;
    charl_var *v = find_parameter(g, p);

    if (v) {
        return v;
    }
    if (g->compiled) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "parameter %s: the graph is already compiled", p->spec.name);
    }
    st = add_set(g, p->set);
    if (st != CHARL_OK) {
        return charl__graph_keep_error(g, st);
    }
    type = (charl_type){charl__param_is_halved(p) ? g->precision : CHARL_F32, p->spec.shape, CHARL_REPLICATED};
    st = charl__var_new(g, type, &v);
    if (st == CHARL_OK) {
        st = add_parameter(g, p, v);
    }
    if (st != CHARL_OK) {
        return charl__graph_keep_error(g, st);
    }
    return v;
}

charl_var *charl_constant(charl_graph *g, float value)
{
    if (!g) {
        return NULL;
    }
    charl_var *v = NULL;
    const charl_status st = charl__var_new(g, (charl_type){CHARL_F32, {0, {0}}, CHARL_REPLICATED}, &v);

    if (st != CHARL_OK) {
        return charl__graph_keep_error(g, st);
    }
    v->leaf = CHARL_LEAF_CONSTANT;
    v->constant = value;
    return v;
}

/* Fail g if v belongs to another graph. */
static bool is_foreign(charl_graph *g, const charl_var *v)
{
    if (v->g != g) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "%s belongs to another graph", charl_var_get_name(v));
    }
    return v->g != g;
}

void charl_graph_keep(charl_graph *g, charl_var *v)
{
    if (!g) {
        return;
    }
    if (v && !is_foreign(g, v)) {
        v->keep = true;
    }
}

charl_var *charl__graph_find(const charl_graph *g, const char *name)
{
    for (int i = 0; i < g->vars.count; i++) {
        charl_var *v = g->vars.item[i];

        if (v->name && strcmp(v->name, name) == 0) {
            return v;
        }
    }
    return NULL;
}

bool charl__var_is_input(const charl_var *v)
{
    return v->leaf == CHARL_LEAF_INPUT;
}

charl_var *charl__graph_get_batched_input(const charl_graph *g, int k)
{
    for (int i = 0; i < g->vars.count; i++) {
        charl_var *v = g->vars.item[i];

        if (v->leaf == CHARL_LEAF_INPUT && v->type.batch == CHARL_BATCHED && k-- == 0) {
            return v;
        }
    }
    return NULL;
}

static charl_status name_output(charl_graph *g, const char *name, charl_var *v)
{
    CHARL_GIVEN(name);
    CHARL_REQUIRE(!v->name, CHARL_ERR_INVALID, "output %s: this value is called %s already", name, v->name);
    CHARL_REQUIRE(!charl__graph_find(g, name), CHARL_ERR_INVALID, "output %s: another value has this name", name);
    return charl__strdup(name, &v->name);
}

void charl_output(charl_graph *g, const char *name, charl_var *v)
{
    v = v && v->type.batch == CHARL_PARTIAL ? charl_batch_sum(g, v) : v;
    charl_graph_keep(g, v);
    if (g && v && name_output(g, name, v) != CHARL_OK) {
        charl__graph_keep_error(g, CHARL_ERR_INVALID);
    }
}

static bool is_used(const charl_graph *g, const charl_var *v)
{
    for (int i = 0; i < g->nodes.count; i++) {
        for (int k = 0; k < charl__graph_node(g, i)->n_in; k++) {
            if (charl__graph_node(g, i)->in[k] == v) {
                return true;
            }
        }
    }
    return false;
}

void charl_graph_require_gradient(charl_graph *g, charl_var *v)
{
    if (!g) {
        return;
    }
    if (!v || is_foreign(g, v)) {
        return;
    }
    if (v->node || is_used(g, v)) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "charl_graph_require_gradient is for inputs, before they are used");
    } else if (!charl__is_float(v->type.dtype)) {
        charl__graph_fail(g, CHARL_ERR_DTYPE, "%s is %s, which has no gradient", charl_var_get_name(v),
                          charl_dtype_name(v->type.dtype));
    } else {
        v->wants_gradient = true;
    }
}

charl_var *charl_var_get_gradient(const charl_var *v)
{
    return v ? v->grad : NULL;
}

charl_type charl_var_get_type(const charl_var *v)
{
    return v ? v->type : (charl_type){0};
}

const char *charl_var_get_name(const charl_var *v)
{
    if (!v) {
        return NULL;
    }
    switch (v->leaf) {
    case CHARL_LEAF_INPUT:
        return v->name;
    case CHARL_LEAF_PARAM:
        return v->param->spec.name;
    case CHARL_LEAF_CONSTANT:
        return "constant";
    case CHARL_LEAF_NONE:
        break;
    }
    return v->node ? v->node->name : "workspace";
}

/* Operators that programs register: each charl_operator gets a charl__op, which finds it as op->row. */
#include "charl/operator.h"

#include <pthread.h>
#include <string.h>

#include "autograd/custom.h"
#include "autograd/op.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static charl__op table[CHARL_OPERATOR_MAX];
static int count; /* under lock */

_Static_assert((int)CHARL_OPERATOR_MAX_IN == (int)CHARL_OP_MAX_IN &&
                   (int)CHARL_OPERATOR_MAX_OUT == (int)CHARL_OP_MAX_OUT,
               "one number of operands and of outputs");

/* A shape rule may leave `batch` unset, which gives REPLICATED or BATCHED; only PARTIAL must be set. */
static charl_status infer(charl__infer *inf)
{
    const charl_operator *row = inf->op->row;
    charl_operator_types t = {
        .attr = inf->attr, .n_in = inf->n_in, .in = inf->in, .n_slices = inf->n_slices, .n_out = 1};

    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        t.out[k] = inf->in[0];
    }
    if (row->types) {
        CHARL_TRY(row->types(&t));
    }
    CHARL_REQUIRE(t.n_out >= 1 && t.n_out <= CHARL_OP_MAX_OUT && t.workspace_bytes >= 0, CHARL_ERR_INVALID,
                  "its shape rule gives %d outputs and %lld bytes of workspace", t.n_out, (long long)t.workspace_bytes);
    inf->n_out = t.n_out;
    inf->workspace = t.workspace_bytes;
    CHARL_TRY(charl__infer_rows(inf));
    for (int k = 0; k < t.n_out; k++) {
        const charl_batch rows = inf->out[k].batch;

        inf->out[k] = t.out[k];
        inf->out[k].batch = t.out[k].batch == CHARL_PARTIAL ? CHARL_PARTIAL : rows;
        CHARL_REQUIRE(t.out[k].batch != CHARL_PARTIAL || (rows == CHARL_BATCHED && t.out[k].dtype == CHARL_F32),
                      CHARL_ERR_INVALID, "output %d is PARTIAL, which is for f32 sums over rows of the batch", k);
        CHARL_REQUIRE(rows != CHARL_BATCHED || t.out[k].batch == CHARL_PARTIAL || t.out[k].shape.ndim > 0,
                      CHARL_ERR_SHAPE, "output %d has no extent for the rows of the batch", k);
    }
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_operator *row = e->op->row;
    const charl_operator_run r = {.attr = e->attr,
                                  .n_in = e->n_in,
                                  .n_out = e->n_out,
                                  .in = e->in,
                                  .out = e->out,
                                  .n_slices = e->slices->count,
                                  .internal = e};

    return row->run(&r);
}

static void backward(const charl__backward *b)
{
    const charl_operator *row = b->op->row;
    const charl_operator_gradient r = {.g = b->g,
                                       .attr = b->attr,
                                       .n_in = b->n_in,
                                       .n_out = b->n_out,
                                       .in = b->in,
                                       .out = b->out,
                                       .gout = b->gout,
                                       .gin = b->gin,
                                       .needed = b->needed};

    row->backward(&r);
}

static void reference(const charl__reference *r)
{
    const charl_operator *row = r->op->row;
    const charl_operator_reference own = {.attr = r->attr,
                                          .n_in = r->n_in,
                                          .n_out = r->n_out,
                                          .in = r->in,
                                          .in_type = r->in_type,
                                          .out = r->out,
                                          .out_type = r->out_type};

    row->reference(&own);
}

static bool is_name(const char *name)
{
    return name && name[0] >= 'a' && name[0] <= 'z' && strlen(name) < 48 &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static charl_status check(const charl_operator *o)
{
    CHARL_REQUIRE(is_name(o->name), CHARL_ERR_INVALID,
                  "an operator's name is lower_snake_case of at most 47 characters: %.60s", o->name ? o->name : "NULL");
    CHARL_REQUIRE(o->formula && o->n_in >= 1 && o->n_in <= CHARL_OP_MAX_IN, CHARL_ERR_INVALID,
                  "operator %s: it needs a formula and 1 to %d operands", o->name, CHARL_OP_MAX_IN);
    CHARL_REQUIRE(!o->expr != !o->source, CHARL_ERR_INVALID,
                  "operator %s: it needs either an expression or the source of kernels", o->name);
    CHARL_REQUIRE(o->expr ? o->element && !o->types && !o->run && !o->reference : o->run && o->reference && !o->element,
                  CHARL_ERR_INVALID,
                  "operator %s: with an expression go `element` and no other function, with kernels "
                  "`run` and `reference`",
                  o->name);
    CHARL_REQUIRE(!o->expr || o->attr_size == 0 || o->attr_size == sizeof(float) || o->attr_size == 2 * sizeof(float),
                  CHARL_ERR_INVALID, "operator %s: the settings of an expression are one float or two, not %zu bytes",
                  o->name, o->attr_size);
    CHARL_REQUIRE(o->n_samples >= 0 && (o->samples || o->n_samples == 0), CHARL_ERR_INVALID,
                  "operator %s: samples is NULL or n_samples, %d, is negative", o->name, o->n_samples);
    return CHARL_OK;
}

/* Under the lock. */
static charl__op *find(const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(table[i].name, name) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

static bool is_own(const char *name)
{
    for (int i = 0; i < charl__op_count; i++) {
        if (strcmp(charl__op_table[i]->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Under the lock. */
static charl_status add(const charl_operator *o)
{
    const charl__op *known = find(o->name);

    if (known && known->row == o) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(!known && !is_own(o->name), CHARL_ERR_INVALID, "there is an operator %s already", o->name);
    CHARL_REQUIRE(count < CHARL_OPERATOR_MAX, CHARL_ERR_INVALID,
                  "operator %s: %d operators are registered, the maximum", o->name, count);
    table[count++] = (charl__op){.name = o->name,
                                 .formula = o->formula,
                                 .n_in = o->n_in,
                                 .attr_size = o->attr_size,
                                 .expr = o->expr,
                                 .expr_numbers = o->expr ? (int)(o->attr_size / sizeof(float)) : 0,
                                 .half = o->expr ? CHARL_HALF_ALL : 0,
                                 .in_place = o->expr != NULL,
                                 .infer = o->expr ? charl__infer_broadcast : infer,
                                 .enqueue = o->expr ? NULL : enqueue,
                                 .backward = o->backward ? backward : NULL,
                                 .reference = o->expr ? NULL : reference,
                                 .element = o->element,
                                 .samples = o->samples,
                                 .n_samples = o->n_samples,
                                 .row = o};
    return CHARL_OK;
}

charl_status charl_register_operator(const charl_operator *op)
{
    CHARL_GIVEN(op);
    charl_status st;

    CHARL_TRY(check(op));
    pthread_mutex_lock(&lock);
    st = add(op);
    pthread_mutex_unlock(&lock);
    return st;
}

const charl__op *charl__custom_find(const char *name)
{
    const charl__op *op;

    pthread_mutex_lock(&lock);
    op = find(name);
    pthread_mutex_unlock(&lock);
    return op;
}

const char *charl_operator_name(int i)
{
    const char *name = NULL;

    if (i >= 0 && i < charl__op_count) {
        return charl__op_table[i]->name;
    }
    pthread_mutex_lock(&lock);
    if (i >= 0 && i - charl__op_count < count) {
        name = table[i - charl__op_count].name;
    }
    pthread_mutex_unlock(&lock);
    return name;
}

charl_var *charl_operator_apply(charl_graph *g, const charl_operator *op, const void *attr, charl_var *const *in,
                                int n_in, charl_var **outs)
{
    charl_var *out[CHARL_OP_MAX_OUT] = {0};
    const charl__op *found = op && op->name ? charl__custom_find(op->name) : NULL;

    if (!found || found->row != op) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "operator %s is not registered", op && op->name ? op->name : "NULL");
    } else if (n_in != op->n_in) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "%s takes %d operands, %d are given", op->name, op->n_in, n_in);
    } else if (op->attr_size > 0 && !attr) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "%s has settings, none are given", op->name);
    } else {
        charl__apply(g, found, attr, in, n_in, out);
    }
    if (outs) {
        memcpy(outs, out, sizeof out);
    }
    return out[0];
}

static charl_status argument(const charl_operator_run *r, const charl_kernel_arg *a, charl__arg *out)
{
    const charl__enqueue *e = r->internal;
    const bool is_in = a->kind == CHARL_KERNEL_IN;

    switch (a->kind) {
    case CHARL_KERNEL_IN:
    case CHARL_KERNEL_OUT:
    case CHARL_KERNEL_SLICES:
        CHARL_REQUIRE(a->value >= 0 && a->value < (is_in ? r->n_in : r->n_out), CHARL_ERR_INVALID, "%s %lld of %d",
                      is_in ? "operand" : "output", (long long)a->value, is_in ? r->n_in : r->n_out);
        CHARL_REQUIRE(a->kind != CHARL_KERNEL_SLICES || e->lane_stride[a->value] > 0, CHARL_ERR_INVALID,
                      "output %lld is not PARTIAL, so it has no sums per slice", (long long)a->value);
        CHARL_REQUIRE(a->kind != CHARL_KERNEL_SLICES || charl__fold_is_direct(e) || e->workspace, CHARL_ERR_INVALID,
                      "its shape rule requests no workspace for the sums per slice");
        *out = is_in                         ? charl__in(r->in[a->value])
               : a->kind == CHARL_KERNEL_OUT ? charl__inout(r->out[a->value])
                                             : charl__inout(charl__fold_target(e, (int)a->value));
        break;
    case CHARL_KERNEL_WORKSPACE:
        CHARL_REQUIRE(e->workspace, CHARL_ERR_INVALID, "its shape rule requests no workspace");
        *out = charl__inout(e->workspace);
        break;
    case CHARL_KERNEL_INT:
        CHARL_REQUIRE(a->value >= INT32_MIN && a->value <= INT32_MAX, CHARL_ERR_INVALID,
                      "%lld does not fit an int; HINT CHARL_KERNEL_LONG", (long long)a->value);
        *out = charl__i32((int32_t)a->value);
        break;
    case CHARL_KERNEL_LONG:
        *out = charl__i64(a->value);
        break;
    case CHARL_KERNEL_FLOAT:
        *out = charl__f32(a->number);
        break;
    case CHARL_KERNEL_LOCAL:
        *out = charl__local((size_t)a->value);
        break;
    default:
        CHARL_FAIL(CHARL_ERR_INVALID, "%d is no kind of a kernel argument; HINT charl_kernel_arg_kind", (int)a->kind);
    }
    return CHARL_OK;
}

charl_status charl_operator_launch(const charl_operator_run *r, const charl_kernel *k)
{
    CHARL_GIVEN(r, k);
    const charl__enqueue *e = r->internal;
    const charl_operator *row = e->op->row;
    charl__launch l = {
        .file = row->name, .source = row->source, .entry = k->entry, .defines = k->defines, .label = e->label};

    memcpy(l.global, k->global, sizeof l.global);
    memcpy(l.local, k->local, sizeof l.local);
    for (int i = 0; i < CHARL_KERNEL_MAX_ARGS && k->args[i].kind != CHARL_KERNEL_END; i++) {
        const charl_status st = argument(r, &k->args[i], &l.args[i]);

        if (st != CHARL_OK) {
            charl__error_prefix("%s, kernel %s, argument %d: ", row->name, k->entry, i);
            return st;
        }
    }
    return charl__launch_enqueue(e->dev, &l);
}

charl_status charl_operator_fold(const charl_operator_run *r, int k)
{
    CHARL_GIVEN(r);
    const charl__enqueue *e = r->internal;
    const char *name = ((const charl_operator *)e->op->row)->name;
    int64_t n;

    CHARL_REQUIRE(k >= 0 && k < r->n_out && e->lane_stride[k] > 0, CHARL_ERR_INVALID, "%s: output %d is not PARTIAL",
                  name, k);
    n = charl__tensor_count(e->out[k]);
    CHARL_REQUIRE(charl__fold_is_direct(e) || (e->workspace && charl__tensor_count(e->workspace) >= n * r->n_slices),
                  CHARL_ERR_INVALID,
                  "%s: the sums of %d slices need %lld bytes of workspace, its shape rule asks for %lld", name,
                  r->n_slices, (long long)(n * r->n_slices * 4),
                  (long long)(e->workspace ? charl__tensor_count(e->workspace) * 4 : 0));
    return charl__fold_is_direct(e) ? CHARL_OK : charl__fold(e, e->workspace, n, k);
}

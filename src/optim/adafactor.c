/* adafactor (Shazeer and Stern 2018, algorithms 4 and 5) as torch.optim.Adafactor has it: no first
 * moment, beta2 = 1 - t^-0.8, steps relative to the parameter's root mean square (at least 1e-3),
 * updates clipped to root mean square 1, weight decay decoupled. Matrices keep the means of rows
 * and columns of the squared gradient instead of the moment itself; a convolution is a batch of
 * kernels. */
#include <math.h>

#include "base/alloc.h"
#include "optim/optimizer.h"

enum { ROW, COL, VARIANCE };             /* states */
enum { DIRECTION, SIZE, PARTIAL, MEAN }; /* scratch */
enum { GROUP = 64, STRETCH = 256 };

/* A parameter as a batch of matrices. */
typedef struct view {
    int64_t batch, rows, cols;
} view;

static view view_of(const charl_shape *s)
{
    view v = {1, s->dim[s->ndim - 2], s->dim[s->ndim - 1]};

    for (int i = 0; i < s->ndim - 2; i++) {
        v.batch *= s->dim[i];
    }
    return v;
}

static int64_t stretches(const view *v)
{
    return (v->rows + STRETCH - 1) / STRETCH;
}

static bool state_shape(const charl__optimizer_rule *rule, int k, const charl_param *p, charl_shape *out)
{
    (void)rule;
    *out = p->spec.shape;
    if (out->ndim > 1 && k != VARIANCE) {
        out->dim[out->ndim - (k == ROW ? 1 : 2)] = 1;
    }
    return (out->ndim > 1) == (k != VARIANCE);
}

static void fill(const charl_optimizer_config *c, int64_t t, charl__step_params *record)
{
    (void)c;
    record->bias1 = (float)pow((double)t, -0.8);
    record->bias2 = (float)(1.0 / sqrt((double)t));
}

static charl_status prepare(charl_optimizer *o)
{
    const int count = o->set->count;
    int64_t partial = 1, mean = 1;
    CHARL_SCOPED_FREE float *size = NULL;

    CHARL_TRY(charl__alloc_array(count, sizeof *size, &size));
    for (int i = 0; i < count; i++) {
        const charl_param *p = o->set->param[i];

        size[i] = (float)charl_shape_count(&p->spec.shape);
        if (charl__optimizer_owns(o, p) && p->spec.shape.ndim > 1) {
            const view v = view_of(&p->spec.shape);
            const int64_t n = v.batch * stretches(&v) * v.cols;

            partial = n > partial ? n : partial;
            mean = v.batch > mean ? v.batch : mean;
        }
    }
    CHARL_TRY(charl__tensor_sums_create(o->set, o->own_at, o->own_elements, &o->sums));
    CHARL_TRY(
        charl__buffer_create(o->set->dev, (size_t)o->own_elements * 4, "adafactor direction", &o->scratch[DIRECTION]));
    CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)count * 4, "adafactor sizes", &o->scratch[SIZE]));
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, o->scratch[SIZE], 0, size, (size_t)count * 4, true));
    CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)partial * 4, "adafactor columns", &o->scratch[PARTIAL]));
    CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)mean * 4, "adafactor means", &o->scratch[MEAN]));
    return CHARL_OK;
}

static charl__arg direction_of(const charl_optimizer *o, const charl_param *p)
{
    charl__arg a = charl__raw(CHARL_ARG_OUT, o->scratch[DIRECTION]);

    a.v.offset = o->own_at[p->index];
    return a;
}

static charl_status update_factors(const charl_optimizer *o, const charl_param *p, const view *v)
{
    const size_t wide = (size_t)((v->cols + GROUP - 1) / GROUP * GROUP);
    charl__launch mean = {
        .file = "optim/adafactor",
        .entry = "charl_adafactor_mean",
        .global = {(size_t)v->batch * GROUP},
        .local = {GROUP},
        .args = {charl__optimizer_state(o, ROW, p), charl__raw(CHARL_ARG_OUT, o->scratch[MEAN]), charl__i64(v->rows)},
        .label = "adafactor"};

    CHARL_TRY(
        charl__optimizer_update_enqueue(o, p,
                                        &(charl__optimizer_update){.file = "optim/adafactor",
                                                                   .entry = "charl_adafactor_rows",
                                                                   .global = {(size_t)(v->batch * v->rows) * GROUP},
                                                                   .cols = v->cols,
                                                                   .own = {charl__optimizer_state(o, ROW, p)}}));
    CHARL_TRY(charl__optimizer_update_enqueue(
        o, p,
        &(charl__optimizer_update){.file = "optim/adafactor",
                                   .entry = "charl_adafactor_columns",
                                   .global = {wide, (size_t)stretches(v), (size_t)v->batch},
                                   .rows = v->rows,
                                   .cols = v->cols,
                                   .own = {charl__raw(CHARL_ARG_OUT, o->scratch[PARTIAL])}}));
    CHARL_TRY(charl__optimizer_update_enqueue(
        o, p,
        &(charl__optimizer_update){
            .file = "optim/adafactor",
            .entry = "charl_adafactor_fold",
            .global = {wide, 1, (size_t)v->batch},
            .rows = v->rows,
            .cols = v->cols,
            .own = {charl__optimizer_state(o, COL, p), charl__raw(CHARL_ARG_IN, o->scratch[PARTIAL])}}));
    CHARL_TRY(charl__launch_enqueue(o->set->dev, &mean));
    return CHARL_OK;
}

static charl_status direct(const charl_optimizer *o, const charl_param *p)
{
    charl__optimizer_update u = {
        .file = "optim/adafactor", .entry = "charl_adafactor_vector", .own = {direction_of(o, p)}};

    if (p->spec.shape.ndim > 1) {
        const view v = view_of(&p->spec.shape);

        CHARL_TRY(update_factors(o, p, &v));
        u.entry = "charl_adafactor_matrix";
        u.n = charl_shape_count(&p->spec.shape);
        u.rows = v.rows;
        u.cols = v.cols;
        u.own[1] = charl__optimizer_state(o, ROW, p);
        u.own[2] = charl__optimizer_state(o, COL, p);
        u.own[3] = charl__raw(CHARL_ARG_IN, o->scratch[MEAN]);
    } else {
        u.own[1] = charl__optimizer_state(o, VARIANCE, p);
        u.own[2] = charl__f32((float)o->config.eps);
    }
    CHARL_TRY(charl__optimizer_update_enqueue(o, p, &u));
    return CHARL_OK;
}

static charl_status enqueue(const charl_optimizer *o)
{
    for (int i = 0; i < o->set->count; i++) {
        if (charl__optimizer_owns(o, o->set->param[i])) {
            CHARL_TRY(direct(o, o->set->param[i]));
        }
    }
    CHARL_TRY(charl__tensor_sums_squares(o->sums, o->set->value, 0));
    CHARL_TRY(charl__tensor_sums_squares(o->sums, o->scratch[DIRECTION], 1));
    CHARL_TRY(charl__optimizer_update_enqueue(
        o, NULL,
        &(charl__optimizer_update){
            .file = "optim/adafactor",
            .entry = "charl_adafactor_apply",
            .own = {charl__raw(CHARL_ARG_IN, o->scratch[DIRECTION]), charl__raw(CHARL_ARG_IN, o->sums->owner),
                    charl__raw(CHARL_ARG_IN, o->scratch[SIZE]), charl__raw(CHARL_ARG_IN, o->sums->square),
                    charl__i32(o->set->count)},
        }));
    return CHARL_OK;
}

/* Means of the squares of n elements, `step` apart. */
static double mean_square(const double *x, int64_t n, int64_t step)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++) {
        sum += x[i * step] * x[i * step];
    }
    return sum / (double)n;
}

static void update_reference(const charl__optimizer_reference *r, double w)
{
    const view v = r->shape.ndim > 1 ? view_of(&r->shape) : (view){0, 0, 0};

    for (int64_t k = 0; r->shape.ndim < 2 && k < r->n; k++) {
        r->state[VARIANCE][k] += (r->grad[k] * r->grad[k] - r->state[VARIANCE][k]) * w;
    }
    for (int64_t k = 0; k < v.batch * v.rows; k++) {
        r->state[ROW][k] += (mean_square(r->grad + k * v.cols, v.cols, 1) - r->state[ROW][k]) * w;
    }
    for (int64_t k = 0; k < v.batch * v.cols; k++) {
        const double *first = r->grad + k / v.cols * v.rows * v.cols + k % v.cols;

        r->state[COL][k] += (mean_square(first, v.rows, v.cols) - r->state[COL][k]) * w;
    }
}

/* Second moment of element i. */
static double moment(const charl__optimizer_reference *r, int64_t i)
{
    double mean = 0.0;
    int64_t b;
    view v;

    if (r->shape.ndim < 2) {
        return r->state[VARIANCE][i];
    }
    v = view_of(&r->shape);
    b = i / (v.rows * v.cols);
    for (int64_t k = 0; k < v.rows; k++) {
        mean += r->state[ROW][b * v.rows + k] / (double)v.rows;
    }
    return r->state[ROW][i / v.cols] * r->state[COL][b * v.cols + i % v.cols] / fmax(mean, r->config->eps);
}

static void reference(const charl__optimizer_reference *r)
{
    const double eps = r->config->eps, w = pow((double)r->t, -0.8);
    const double rho = fmin(r->lr, 1.0 / sqrt((double)r->t));
    const double alpha = fmax(1e-3, sqrt(mean_square(r->param, r->n, 1))) * rho;
    double uu = 0.0;

    update_reference(r, w);
    for (int64_t i = 0; i < r->n; i++) {
        const double u = r->grad[i] / sqrt(fmax(moment(r, i), eps * eps));

        r->scratch[i] = u;
        uu += u * u;
    }
    for (int64_t i = 0; i < r->n; i++) {
        r->param[i] *= 1.0 - r->lr * r->weight_decay;
        r->param[i] -= alpha / fmax(1.0, sqrt(uu / (double)r->n)) * r->scratch[i];
    }
}

static const charl_key keys[] = {
    CHARL__KEY_EPS("smallest root of the second moment"),
};

static const charl_optimizer_config defaults = {.type = "adafactor", .eps = 0x1p-23};

const charl__optimizer_rule charl__optim_adafactor = {
    .row.name = "adafactor",
    .row.help = "second moments as row and column means; steps relative to the size of the weights",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .state_name = {"row_var", "col_var", "variance"},
    .state_shape = state_shape,
    .prepare = prepare,
    .fill = fill,
    .enqueue = enqueue,
    .reference = reference,
};

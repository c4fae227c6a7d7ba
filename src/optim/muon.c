/* muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"): the
 * Nesterov momentum of a hidden matrix is orthogonalised by five Newton-Schulz steps with their
 * coefficients (3.4445, -4.7750, 2.0315). Everything else (vectors, embeddings, the output layer)
 * is updated as by adamw.
 *
 * The step is scaled by 0.2 sqrt(max(rows, columns)), which gives it the root mean square of an
 * adamw step (Liu et al. 2025, "Muon is Scalable for LLM Training"), so that one learning rate and
 * weight decay serve both. A convolution is the matrix [out, in * kernel].
 */
#include <math.h>

#include "optim/optimizer.h"
#include "tensor/gemm/gemm.h"

enum { MOMENTUM, EXP_AVG, EXP_AVG_SQ };        /* states */
enum { DIRECTION, OTHER, SQUARE, POLYNOMIAL }; /* scratch */
enum { STEPS = 5 };

static bool is_hidden(const charl_param *p)
{
    return p->spec.shape.ndim > 1 && !p->settings.muon_exclude;
}

static int64_t rows_of(const charl_shape *s)
{
    return s->dim[0];
}

static int64_t cols_of(const charl_shape *s)
{
    return charl_shape_count(s) / s->dim[0];
}

static double scale_of(const charl_shape *s)
{
    const int64_t m = rows_of(s), n = cols_of(s);

    return 0.2 * sqrt((double)(m > n ? m : n));
}

static bool state_shape(const charl__optimizer_rule *rule, int k, const charl_param *p, charl_shape *out)
{
    (void)rule;
    *out = p->spec.shape;
    return is_hidden(p) == (k == MOMENTUM);
}

/* Multiplications; everything else moves memory, which counts as 16 per element. */
static double cost(const charl_param *p)
{
    const double m = (double)rows_of(&p->spec.shape), n = (double)cols_of(&p->spec.shape), k = m < n ? m : n;

    return is_hidden(p) ? STEPS * (2 * m * n * k + k * k * k) : 16 * (double)charl_shape_count(&p->spec.shape);
}

static charl_status prepare(charl_optimizer *o)
{
    int64_t largest = 1, square = 1;

    for (int i = 0; i < o->set->count; i++) {
        const charl_shape *s = &o->set->param[i]->spec.shape;

        if (charl__optimizer_owns(o, o->set->param[i]) && is_hidden(o->set->param[i])) {
            const int64_t m = rows_of(s), n = cols_of(s), k = m < n ? m : n;

            largest = m * n > largest ? m * n : largest;
            square = k * k > square ? k * k : square;
        }
    }
    CHARL_TRY(charl__tensor_sums_create(o->set, o->own_at, o->own_elements, &o->sums));
    CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)o->own_elements * 4, "muon direction", &o->scratch[DIRECTION]));
    CHARL_TRY(
        charl__buffer_create(o->set->dev, (size_t)charl__param_round(largest) * 4, "muon matrix", &o->scratch[OTHER]));
    CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)square * 4, "muon square", &o->scratch[SQUARE]));
    CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)square * 4, "muon square", &o->scratch[POLYNOMIAL]));
    return CHARL_OK;
}

static charl__arg direction_of(charl__arg_kind kind, const charl_optimizer *o, const charl_param *p)
{
    charl__arg a = charl__raw(kind, o->scratch[DIRECTION]);

    a.v.offset = o->own_at[p->index];
    return a;
}

static charl_status adamw(const charl_optimizer *o, const charl_param *p)
{
    const charl_optimizer_config *c = &o->config;

    return charl__optimizer_update_enqueue(
        o, p,
        &(charl__optimizer_update){
            .file = "optim/adam",
            .entry = "charl_adam",
            .params = {{"DECOUPLED", 1}},
            .own = {charl__optimizer_state(o, EXP_AVG, p), charl__optimizer_state(o, EXP_AVG_SQ, p),
                    charl__f32((float)(1.0 - c->beta1)), charl__f32((float)c->beta2),
                    charl__f32((float)(1.0 - c->beta2)), charl__f32((float)c->eps)},
        });
}

/* out = x x^T for flat matrices x, else x^T x: the smaller square. */
static charl_status multiply_self(charl_device *dev, const charl_tensor *x, charl_tensor *out)
{
    const int64_t rows = x->shape.dim[0], cols = x->shape.dim[1];
    const bool flat = rows <= cols;

    return charl__gemm_enqueue(dev, &(charl__gemm){.a = {x, flat ? CHARL_GEMM_PLAIN : CHARL_GEMM_TRANSPOSED},
                                                   .b = {x, flat ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN},
                                                   .out = {out},
                                                   .m = flat ? rows : cols,
                                                   .n = flat ? rows : cols,
                                                   .k = flat ? cols : rows,
                                                   .label = "muon"});
}

/* One Newton-Schulz step from x to out, with two squares in between. */
static charl_status iterate(charl_device *dev, const charl_tensor *x, charl_tensor *square, charl_tensor *polynomial,
                            charl_tensor *out)
{
    const int64_t rows = x->shape.dim[0], cols = x->shape.dim[1], k = square->shape.dim[0];
    const bool flat = rows <= cols;

    CHARL_TRY(multiply_self(dev, x, square));
    CHARL_TRY(charl__gemm_enqueue(
        dev,
        &(charl__gemm){.a = {square}, .b = {square}, .out = {polynomial}, .m = k, .n = k, .k = k, .label = "muon"}));
    CHARL_TRY(charl__launch_enqueue(
        dev, &(charl__launch){.file = "optim/muon",
                              .entry = "charl_muon_polynomial",
                              .global = {(size_t)((k * k + 63) / 64 * 64)},
                              .local = {64},
                              .args = {charl__in(square), charl__inout(polynomial), charl__i64(k)}}));
    CHARL_TRY(charl__gemm_enqueue(dev, &(charl__gemm){.a = {flat ? polynomial : x},
                                                      .b = {flat ? x : polynomial},
                                                      .out = {out},
                                                      .m = rows,
                                                      .n = cols,
                                                      .k = k,
                                                      .label = "muon"}));
    return CHARL_OK;
}

/* The direction of p, orthogonalised: afterwards in scratch OTHER. */
static charl_status orthogonalise(const charl_optimizer *o, const charl_param *p)
{
    charl_status st = CHARL_OK;
    const int64_t rows = rows_of(&p->spec.shape), cols = cols_of(&p->spec.shape);
    const int64_t k = rows < cols ? rows : cols;
    const charl_shape shape = {2, {rows, cols}}, side = {2, {k, k}};
    charl_tensor *x[2] = {NULL, NULL}, *square = NULL, *polynomial = NULL;

    CHARL_TRY_CLEANUP(charl__tensor_view(o->scratch[DIRECTION], CHARL_F32, &shape, o->own_at[p->index], &x[0]));
    CHARL_TRY_CLEANUP(charl__tensor_view(o->scratch[OTHER], CHARL_F32, &shape, 0, &x[1]));
    CHARL_TRY_CLEANUP(charl__tensor_view(o->scratch[SQUARE], CHARL_F32, &side, 0, &square));
    CHARL_TRY_CLEANUP(charl__tensor_view(o->scratch[POLYNOMIAL], CHARL_F32, &side, 0, &polynomial));
    for (int i = 0; i < STEPS; i++) {
        CHARL_TRY_CLEANUP(iterate(o->set->dev, x[i % 2], square, polynomial, x[(i + 1) % 2]));
    }
cleanup:
    charl_tensor_release(x[0]);
    charl_tensor_release(x[1]);
    charl_tensor_release(square);
    charl_tensor_release(polynomial);
    return st;
}

static charl_status update_hidden(const charl_optimizer *o, const charl_param *p)
{
    const size_t elements = (size_t)charl__param_blocks(p) * CHARL_PARAM_ALIGN;
    charl__arg square = charl__raw(CHARL_ARG_IN, o->sums->square);

    square.v.offset = p->index;
    CHARL_TRY(
        charl__launch_enqueue(o->set->dev, &(charl__launch){.file = "optim/muon",
                                                            .entry = "charl_muon_normalize",
                                                            .global = {elements},
                                                            .local = {CHARL_PARAM_ALIGN},
                                                            .args = {direction_of(CHARL_ARG_INOUT, o, p), square}}));
    CHARL_TRY(orthogonalise(o, p));
    CHARL_TRY(charl__optimizer_update_enqueue(
        o, p,
        &(charl__optimizer_update){.file = "optim/muon",
                                   .entry = "charl_muon_apply",
                                   .own = {charl__raw(CHARL_ARG_IN, o->scratch[OTHER]),
                                           charl__i64(charl_shape_count(&p->spec.shape)),
                                           charl__f32((float)scale_of(&p->spec.shape))}}));
    return CHARL_OK;
}

static charl_status enqueue(const charl_optimizer *o)
{
    const float momentum = (float)o->config.momentum;

    for (int i = 0; i < o->set->count; i++) {
        const charl_param *p = o->set->param[i];

        if (charl__optimizer_owns(o, p) && !is_hidden(p)) {
            CHARL_TRY(adamw(o, p));
        } else if (charl__optimizer_owns(o, p)) {
            CHARL_TRY(charl__optimizer_update_enqueue(
                o, p,
                &(charl__optimizer_update){.file = "optim/muon",
                                           .entry = "charl_muon_momentum",
                                           .own = {charl__optimizer_state(o, MOMENTUM, p),
                                                   direction_of(CHARL_ARG_OUT, o, p), charl__f32(momentum),
                                                   charl__f32((float)(1.0 - (double)momentum))}}));
        }
    }
    CHARL_TRY(charl__tensor_sums_squares(o->sums, o->scratch[DIRECTION], 0));
    for (int i = 0; i < o->set->count; i++) {
        if (charl__optimizer_owns(o, o->set->param[i]) && is_hidden(o->set->param[i])) {
            CHARL_TRY(update_hidden(o, o->set->param[i]));
        }
    }
    return CHARL_OK;
}

/* out[m, n] = a[m, k] b[k, n]; an operand is read transposed where asked. */
static void product(const double *a, bool a_t, const double *b, bool b_t, const int64_t size[3], double *out)
{
    const int64_t m = size[0], n = size[1], k = size[2];

    for (int64_t i = 0; i < m * n; i++) {
        out[i] = 0.0;
        for (int64_t j = 0; j < k; j++) {
            out[i] += a[a_t ? j * m + i / n : i / n * k + j] * b[b_t ? i % n * k + j : j * n + i % n];
        }
    }
}

/* x[m, n] = 3.4445 x - 4.7750 (x x^T) x + 2.0315 (x x^T)^2 x, as written in the paper; work has
 * room for m^2 + 2 m n. */
static void iterate_reference(double *x, int64_t m, int64_t n, double *work)
{
    double *square = work, *once = work + m * m, *twice = once + m * n;

    product(x, false, x, true, (int64_t[]){m, m, n}, square);
    product(square, false, x, false, (int64_t[]){m, n, m}, once);
    product(square, false, once, false, (int64_t[]){m, n, m}, twice);
    for (int64_t i = 0; i < m * n; i++) {
        x[i] = 3.4445 * x[i] - 4.7750 * once[i] + 2.0315 * twice[i];
    }
}

static void reference_adamw(const charl__optimizer_reference *r)
{
    charl__optimizer_reference other = *r;

    other.state[0] = r->state[EXP_AVG];
    other.state[1] = r->state[EXP_AVG_SQ];
    charl__optim_adamw.reference(&other);
}

static void reference(const charl__optimizer_reference *r)
{
    const double momentum = r->config->momentum;
    double *buf = r->state[MOMENTUM], *x = r->scratch, norm = 0.0;

    if (r->shape.ndim < 2 || r->muon_exclude) {
        reference_adamw(r);
        return;
    }
    for (int64_t i = 0; i < r->n; i++) {
        buf[i] += (1.0 - momentum) * (r->grad[i] - buf[i]);
        x[i] = r->grad[i] + momentum * (buf[i] - r->grad[i]);
        norm += x[i] * x[i];
    }
    for (int64_t i = 0; i < r->n; i++) {
        x[i] /= sqrt(norm) + 1e-7;
    }
    for (int k = 0; k < STEPS; k++) {
        iterate_reference(x, rows_of(&r->shape), cols_of(&r->shape), r->scratch + r->n);
    }
    for (int64_t i = 0; i < r->n; i++) {
        r->param[i] *= 1.0 - r->lr * r->weight_decay;
        r->param[i] -= r->lr * scale_of(&r->shape) * x[i];
    }
}

static const charl_key keys[] = {
    CHARL__KEY_MOMENTUM("momentum"),
    CHARL__KEY_BETA1("decay rate of the first moment (mean of the gradient)"),
    CHARL__KEY_BETA2("decay rate of the second moment (mean of the squared gradient)"),
    CHARL__KEY_EPS("added to the denominator for numerical stability"),
};

static const charl_optimizer_config defaults = {
    .type = "muon", .momentum = 0.95, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01F};

const charl__optimizer_rule charl__optim_muon = {
    .row.name = "muon",
    .row.help = "orthogonalized momentum for matrices, AdamW for the rest",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .state_name = {"momentum_buffer", "exp_avg", "exp_avg_sq"},
    .state_shape = state_shape,
    .cost = cost,
    .prepare = prepare,
    .enqueue = enqueue,
    .reference = reference,
};

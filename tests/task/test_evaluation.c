/* Metrics against scikit-learn's values, with the rows divided among 1 and 3 ranks of different size, and losses against their definition. */
#include "support/on_device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "autograd/graph.h"
#include "charl/tokenizer.h"
#include "nn/metric.h"
#include "task/evaluation.h"

enum { ROWS = 23, MAX_OUTPUTS = 12, MAX_EXPECTED = 20, MAX_PARTS = 3 };

static charl_device *dev;

typedef struct expected {
    const char *metric;
    double value;
} expected;

/* Outputs that have no ties in a row, or with `fine` 0 ties between rows. */
static float output_of(int i, int k, double fine)
{
    return (float)((i * 7 + k * 13 + i * k * 5) % 29 / 8.0 - 1.8125 + fine * (k / 64.0 + i * (k + 1) / 4096.0));
}

static int32_t class_of_four(int i)
{
    return (i * i + 3 * i + (i % 3 == 0)) % 4;
}

static int32_t class_of_two(int i)
{
    return (i * i + i / 2) % 2;
}

typedef struct problem {
    const char *name;
    const char *loss;
    int outputs, per_row;
    charl_dtype dtype;
    int channels;    /* masks and maps: the outputs are images of so many */
    bool maps, some; /* some: of the pixels, and all of row 7, do not count */
    float x[ROWS][MAX_OUTPUTS];
    int32_t label[ROWS][MAX_OUTPUTS];
    float number[ROWS][MAX_OUTPUTS];
    expected expected[MAX_EXPECTED]; /* as scikit-learn 1.9, and torchmetrics for iou and dice, define them */
} problem;

/* Of six classes one is never seen, and one neither seen nor predicted. */
static void fill_classes(problem *p)
{
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < p->outputs; k++) {
            p->x[i][k] = k == 5 ? (float)(-4.0 - i / 64.0) : output_of(i, k, 1.0);
        }
        p->label[i][0] = p->outputs == 2 ? class_of_two(i) : class_of_four(i);
    }
}

static bool counts(const problem *p, int i, int pixel)
{
    return !p->some || ((i + pixel) % 4 != 0 && i != 7);
}

/* Outputs that are often equal. */
static void fill_flags(problem *p)
{
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < p->outputs; k++) {
            p->x[i][k] = (float)((i * 7 + k * 13 + i * k * 5) % 29 % 7 / 2.0 - 1.25);
            p->label[i][k] = (i * (k + 2) + i / 3) % 3 == 0;
        }
    }
}

/* The last target has a mean that is far from 0. */
static void fill_numbers(problem *p)
{
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < p->outputs; k++) {
            const double x = (double)output_of(i, k, 0.0), far = k == 2 ? 1000.0 : 0.0;

            p->x[i][k] = (float)(x + far);
            p->number[i][k] = (float)(far + x * (0.5 + k * 0.25) + (i * 5 + k * 3) % 11 / 8.0 - 0.5);
        }
    }
}

/* clang-format off */
static problem problems[] = {
    {"six classes", "cross_entropy", 6, 1, CHARL_I32, .expected = {
        {"accuracy", 0.21739130434782608}, {"top2", 0.34782608695652173}, {"top3", 0.43478260869565216},
        {"precision", 0.18333333333333332}, {"precision_micro", 0.21739130434782608},
        {"recall", 0.12857142857142856}, {"recall_micro", 0.21739130434782608},
        {"f1", 0.15064935064935064}, {"f1_micro", 0.21739130434782608},
        {"iou", 0.1}, {"iou_micro", 0.12195121951219512},
        {"dice", 0.15064935064935064}, {"dice_micro", 0.21739130434782608},
        {"auc", 0.42098997493734336}, {"perplexity", 9.1062199129644874}, {"ece", 0.2602733293859562}}},
    {"two classes", "cross_entropy", 2, 1, CHARL_I32, .expected = {
        {"accuracy", 0.82608695652173914}, {"precision", 0.8257575757575758},
        {"recall", 0.8257575757575758}, {"f1", 0.8257575757575758},
        {"f1_micro", 0.82608695652173914}, {"iou", 0.70329670329670324},
        {"iou_micro", 0.70370370370370372}, {"auc", 0.87878787878787867},
        {"perplexity", 1.5568456559026485}, {"ece", 0.11953048536090813}}},
    {"labels", "bce", 3, 3, CHARL_I32, .expected = {
        {"accuracy", 0.46376811594202899},
        {"precision", 0.35141941391941395}, {"precision_micro", 0.34883720930232559},
        {"recall", 0.63161375661375663}, {"recall_micro", 0.625},
        {"f1", 0.44913419913419911}, {"f1_micro", 0.44776119402985076},
        {"iou", 0.28992518059855521}, {"iou_micro", 0.28846153846153844},
        {"dice", 0.44913419913419911}, {"dice_micro", 0.44776119402985076}, {"auc", 0.47294973544973545}}},
    {"numbers", "mse", 3, 3, CHARL_F32, .expected = {
        {"mae", 0.4390851449275362}, {"rmse", 0.5189693691220002}, {"r2", 0.5400676834249869}}},
    {"masks", "bce", 6, 6, CHARL_I32, .channels = 2, .expected = {
        {"precision", 0.34547123623011017}, {"recall", 0.58333333333333326},
        {"iou", 0.27688383045525899}, {"iou_micro", 0.27722772277227725},
        {"dice", 0.4335580163697641}, {"dice_micro", 0.43410852713178294}, {"auc", 0.4775462962962963}}},
    {"probabilities", "kl", 5, 5, CHARL_F32},
    {"classes of pixels", "cross_entropy", 12, 3, CHARL_I32, .channels = 4, .maps = true, .expected = {
        {"accuracy", 0.17391304347826086}, {"top2", 0.5217391304347826}, {"precision", 0.16154970760233917},
        {"recall", 0.16032608695652173}, {"f1", 0.15036630036630036}, {"f1_micro", 0.17391304347826086},
        {"iou", 0.08598484848484848}, {"iou_micro", 0.09523809523809523}, {"dice", 0.15036630036630036},
        {"auc", 0.4726562222494606}}},
    {"pixels of which some count", "cross_entropy", 12, 3, CHARL_I32, .channels = 4, .maps = true, .some = true, .expected = {
        {"accuracy", 0.16}, {"top2", 0.5}, {"precision", 0.1607142857142857}, {"recall", 0.1534090909090909},
        {"f1", 0.14400527009222663}, {"iou", 0.08035714285714285}, {"auc", 0.43828703460282403},
        {"ece", 0.3377419171776835}}},
    {"pixels of two classes", "cross_entropy", 6, 3, CHARL_I32, .channels = 2, .maps = true, .some = true, .expected = {
        {"accuracy", 0.58}, {"precision", 0.5525451559934318}, {"f1", 0.5495495495495495}, {"auc", 0.6066176470588236}}},
};
/* clang-format on */

/* Two targets of a row are 0. */
static void fill_probabilities(problem *p)
{
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < p->outputs; k++) {
            p->x[i][k] = output_of(i, k, 1.0);
            p->number[i][k] = k == i % 5 ? 0.625F : k == (i + 2) % 5 ? 0.25F : k == (i + 3) % 5 ? 0.125F : 0.0F;
        }
    }
}

/* Two or four classes at each of three pixels. */
static void fill_maps(problem *p)
{
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < p->outputs; k++) {
            p->x[i][k] = output_of(i, k, 1.0);
        }
        for (int k = 0; k < p->per_row; k++) {
            p->label[i][k] = p->channels == 2 ? class_of_two(i + 5 * k) : class_of_four(i + 5 * k);
        }
    }
}

static void fill_all(void)
{
    fill_classes(&problems[0]);
    fill_classes(&problems[1]);
    fill_flags(&problems[2]);
    fill_numbers(&problems[3]);
    fill_flags(&problems[4]);
    fill_probabilities(&problems[5]);
    for (int i = 6; i < 9; i++) {
        fill_maps(&problems[i]);
    }
}

static charl_config *config_of(const problem *p)
{
    charl_config *c = NULL;
    char text[512];
    int n = snprintf(text, sizeof text,
                     "[data]\npath=d.h5\n[model]\ntype=mlp\n[train]\nloss=%s\n[eval]\nmetrics=", p->loss);

    for (int i = 0; i < MAX_EXPECTED && p->expected[i].metric; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", i > 0 ? ", " : "", p->expected[i].metric);
    }
    snprintf(text + n, sizeof text - (size_t)n, "%s\n", p->expected[0].metric ? "" : "auto");
    charl_assert_ok(charl_config_parse("t.ini", text, strlen(text), NULL, 0, &c));
    return c;
}

/* Rows [first, first + n) with a row of weight 0 among them, as a rank's last batch has. */
static void add_rows(charl__evaluation *e, const problem *p, int first, int n)
{
    const int weights = p->some ? p->per_row : 1;
    float x[(ROWS + 1) * MAX_OUTPUTS] = {0}, weight[(ROWS + 1) * MAX_OUTPUTS];
    int32_t label[(ROWS + 1) * MAX_OUTPUTS] = {0};
    float number[(ROWS + 1) * MAX_OUTPUTS] = {0};

    for (int i = 0; i <= n; i++) {
        const int row = i < n / 2 ? i : i - 1; /* row n / 2 is no row */

        for (int k = 0; k < weights; k++) {
            weight[i * weights + k] = i != n / 2 && counts(p, first + row, k);
        }
        for (int k = 0; k < p->outputs && i != n / 2; k++) {
            x[i * p->outputs + k] = p->x[first + row][k];
        }
        for (int k = 0; k < p->per_row && i != n / 2; k++) {
            label[i * p->per_row + k] = p->label[first + row][k];
            number[i * p->per_row + k] = p->number[first + row][k];
        }
    }
    charl_assert_ok(charl__evaluation_add(e, n + 1, x, p->dtype, p->dtype == CHARL_I32 ? (void *)label : number,
                                          p->per_row, weight, weights));
}

/* What ranks do, without ranks: add up, and join what is kept. */
static void join(charl__evaluation *to, charl__evaluation *from)
{
    assert_int_equal(to->n_exact, from->n_exact);
    for (int64_t i = 0; i < to->n_exact; i++) {
        to->exact[i] += from->exact[i];
    }
    for (int i = 0; i < to->n; i++) {
        charl__evaluation_item *a = &to->item[i], *b = &from->item[i];
        const int64_t n = a->state.n_kept + b->state.n_kept, width = a->size.kept;

        if (width > 0) {
            assert_true(n <= a->capacity);
            memcpy(a->state.kept + a->state.n_kept * width, b->state.kept,
                   (size_t)(b->state.n_kept * width) * sizeof(double));
            a->state.n_kept = n;
        }
        a->sum += b->sum;
    }
    to->weight += from->weight;
    to->loss_weight += from->loss_weight;
    to->loss_sum += from->loss_sum;
}

static void check_values(const problem *p, const charl_metric_value *v, int n)
{
    int checked = 0;

    for (int i = 0; i < MAX_EXPECTED && p->expected[i].metric; i++, checked++) {
        const double got = charl_metric_get(v, n, p->expected[i].metric);

        if (!(fabs(got - p->expected[i].value) <= 1e-6 * fabs(p->expected[i].value))) {
            fail_msg("%s: %s is %.9g, not %.9g", p->name, p->expected[i].metric, got, p->expected[i].value);
        }
    }
    assert_int_equal(checked, n);
}

/* Of the output for all rows. */
static charl_shape shape_of(const problem *p)
{
    return p->channels > 0 ? (charl_shape){4, {ROWS, p->channels, 1, p->outputs / p->channels}}
                           : (charl_shape){2, {ROWS, p->outputs}};
}

static charl_status begin(charl__evaluation *e, const problem *p)
{
    const charl_shape out = shape_of(p);

    return charl__evaluation_begin(e, &out);
}

static void evaluate(const problem *p, const int *parts, int n_parts, bool report, charl_metric_value *v, int *n,
                     charl_eval_report **out)
{
    const charl_data_schema schema = {.kind = p->maps ? CHARL_DATASET_IMAGES : CHARL_DATASET_TABLE,
                                      .y_dtype = p->dtype,
                                      .y_shape = {p->per_row > 1, {p->per_row}},
                                      .classes = p->channels,
                                      .class_names = (char[]){"a\nb"},
                                      .targets = (char[]){""}};
    charl__evaluation e[MAX_PARTS];
    charl_config *config = config_of(p);
    int first = 0;

    for (int i = 0; i < n_parts; i++) {
        charl_assert_ok(charl__evaluation_open(config, &schema, true, report, &e[i]));
        charl_assert_ok(begin(&e[i], p));
        e[i].first = first + i; /* behind a row without weight of each part before */
        add_rows(&e[i], p, first, parts[i]);
        first += parts[i];
    }
    assert_int_equal(first, ROWS);
    for (int i = 1; i < n_parts; i++) {
        join(&e[0], &e[i]);
    }
    charl_assert_ok(charl__evaluation_finish(&e[0], charl__evaluation_loss(&e[0]), NULL, v, n, report ? out : NULL));
    for (int i = 0; i < n_parts; i++) {
        charl__evaluation_fini(&e[i]);
    }
    charl_config_destroy(config);
}

static void test_values_are_scikit_learns(void **state)
{
    static const int whole[] = {ROWS}, uneven[] = {11, 2, 10};
    const long live = charl__live();

    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        charl_metric_value one[CHARL_MAX_METRICS], three[CHARL_MAX_METRICS];
        int n_one, n_three;

        evaluate(&problems[i], whole, 1, false, one, &n_one, NULL);
        check_values(&problems[i], one, n_one);
        evaluate(&problems[i], uneven, 3, false, three, &n_three, NULL);
        check_values(&problems[i], three, n_three);
        for (int k = 0; k < n_one; k++) { /* what is not a mean has the same bits */
            assert_true(charl__metric_find(one[k].name)->build || !charl__metric_find(one[k].name)->add ||
                        one[k].value == three[k].value);
        }
    }
    assert_int_equal(charl__live(), live);
}

static const charl_metric_table *table_of(const charl_eval_report *r, const char *name)
{
    for (int i = 0; i < r->n_tables; i++) {
        if (strcmp(r->tables[i].name, name) == 0) {
            return &r->tables[i];
        }
    }
    fail_msg("no table %s", name);
    return NULL;
}

/* All rows are in the bins, which give the value. */
static void check_calibration(const charl_eval_report *r, double ece)
{
    const charl_metric_diagram *d = &r->diagrams[0];
    double rows = 0, off = 0;

    assert_int_equal(r->n_diagrams, 1);
    assert_string_equal(d->name, "calibration");
    assert_string_equal(d->columns[2], "samples");
    assert_in_range(d->n, 4, 15);
    for (int64_t i = 0; i < d->n; i++) {
        const double *at = d->values + i * CHARL_DIAGRAM_COLUMNS;

        assert_true(at[0] > 0.0 && at[0] <= 1.0 && at[1] >= 0.0 && at[1] <= 1.0 && at[2] >= 1.0);
        assert_true(i == 0 || at[0] > at[-CHARL_DIAGRAM_COLUMNS]);
        rows += at[2];
        off += at[2] * fabs(at[0] - at[1]);
    }
    assert_true(rows == ROWS);
    assert_true(fabs(off / rows - ece) < 1e-12);
}

/* Every row once for each target, in the order of rows. */
static void check_residuals(const charl_eval_report *r, int targets)
{
    const problem *p = &problems[3];
    const charl_metric_diagram *d = &r->diagrams[0];

    assert_int_equal(r->n_diagrams, 1);
    assert_string_equal(d->name, "residuals");
    assert_int_equal(d->n, ROWS * targets);
    for (int i = 0; i < ROWS * targets; i++) {
        const double *at = d->values + i * CHARL_DIAGRAM_COLUMNS;

        assert_true(at[0] == i / ROWS);
        assert_true(at[1] == (double)p->number[i % ROWS][i / ROWS]);
        assert_true(at[2] == (double)p->x[i % ROWS][i / ROWS]);
    }
}

static void test_report(void **state)
{
    static const int whole[] = {ROWS}, uneven[] = {11, 2, 10};
    static const double confusion[] = {4, 1, 2, 0, 1, 0, 0, 0, 1, 0, 3, 0, 1, 0, 1, 5, 0, 0,
                                       1, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const double precision[] = {2.0 / 3.0, 0, 0.25, 0, 0, 0}, support[] = {8, 4, 7, 4, 0, 0};
    static const double r2[] = {0.114451844884088, 0.6540061052965429, 0.8517451000943298};
    charl_metric_value v[CHARL_MAX_METRICS];
    charl_eval_report *r = NULL;
    int n;

    (void)state;
    evaluate(&problems[0], whole, 1, true, v, &n, &r);
    assert_int_equal(r->targets, CHARL_TARGET_CLASS);
    assert_int_equal(r->n, 6);
    assert_string_equal(r->names, "a\nb");
    assert_true(table_of(r, "confusion")->pairs);
    assert_memory_equal(table_of(r, "confusion")->values, confusion, sizeof confusion);
    assert_memory_equal(table_of(r, "precision")->values, precision, sizeof precision);
    assert_memory_equal(table_of(r, "support")->values, support, sizeof support);
    assert_true(isnan(table_of(r, "auc")->values[4])); /* no sample is of this class */
    assert_true(isnan(charl_metric_get(v, n, "support")));
    check_calibration(r, charl_metric_get(v, n, "ece"));
    charl_eval_report_destroy(r);
    evaluate(&problems[3], uneven, 3, true, v, &n, &r);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(table_of(r, "r2")->values[i] - r2[i]) < 1e-9);
    }
    check_residuals(r, 3);
    charl_eval_report_destroy(r);
    evaluate(&problems[4], whole, 1, true, v, &n, &r); /* a row of the report is a channel */
    assert_int_equal(r->n, 2);
    assert_string_equal(r->names, "");
    assert_true(table_of(r, "support")->values[1] == 24);
    assert_true(fabs(table_of(r, "iou")->values[0] - 15.0 / 52) < 1e-12);
    charl_eval_report_destroy(r);
    charl_eval_report_destroy(NULL);
}

/* The row of the problem that the parts of `evaluate` call `index`. */
static int row_of(int64_t index, const int *parts)
{
    int first = 0, i = 0;

    for (; index > first + parts[i] + i; first += parts[i++]) {
    }
    index -= first + i;
    assert_int_not_equal(index, parts[i] / 2);
    return first + (int)index - (index > parts[i] / 2);
}

/* The probability of the class of a row. */
static double probability_of(const problem *p, int row)
{
    double sum = 0.0;

    for (int k = 0; k < p->outputs; k++) {
        sum += exp((double)p->x[row][k] - (double)p->x[row][p->label[row][0]]);
    }
    return 1.0 / sum;
}

static void test_worst(void **state)
{
    static const int whole[] = {ROWS}, uneven[] = {11, 2, 10};
    const problem *p = &problems[0];
    charl_metric_value v[CHARL_MAX_METRICS];
    charl_eval_report *one = NULL, *three = NULL;
    int n;

    (void)state;
    evaluate(p, whole, 1, true, v, &n, &one);
    evaluate(p, uneven, 3, true, v, &n, &three);
    assert_int_equal(one->n_worst, ROWS);
    assert_int_equal(three->n_worst, ROWS);
    for (int i = 0; i < ROWS; i++) {
        const charl_worst_sample *w = &one->worst[i];
        const int row = row_of(w->row, whole);

        assert_int_equal(row, row_of(three->worst[i].row, uneven));
        assert_int_equal(w->actual, p->label[row][0]);
        assert_int_equal(w->predicted, charl__largest(p->x[row], p->outputs, 1));
        assert_true(fabs(w->actual_probability - probability_of(p, row)) < 1e-12);
        assert_true(w->predicted_probability >= w->actual_probability);
        assert_true(i == 0 || one->worst[i - 1].actual_probability <= w->actual_probability);
        assert_null(w->png); /* the writer of the report draws it */
    }
    charl_eval_report_destroy(one);
    charl_eval_report_destroy(three);
}

/* An evaluation of more rows than the first memory for what is kept, with a report. */
static charl_status life(void *ctx)
{
    charl_status st = CHARL_OK;
    const problem *p = ctx;
    const charl_data_schema schema = {
        .kind = CHARL_DATASET_TABLE, .class_names = (char[]){"a\nb"}, .targets = (char[]){""}};
    const char text[] = "[data]\npath=d.h5\n[model]\ntype=mlp\n[train]\nloss=cross_entropy\n[eval]\nmetrics=auc\n";
    charl_metric_value v[CHARL_MAX_METRICS];
    charl__evaluation e = {0};
    charl_eval_report *r = NULL;
    charl_config *config = NULL;
    int n;

    CHARL_TRY_CLEANUP(charl_config_parse("t.ini", text, strlen(text), NULL, 0, &config));
    CHARL_TRY_CLEANUP(charl__evaluation_open(config, &schema, true, true, &e));
    CHARL_TRY_CLEANUP(begin(&e, p));
    for (int i = 0; i < 60 * ROWS; i++) {
        CHARL_TRY_CLEANUP(charl__evaluation_add(&e, 1, p->x[i % ROWS], p->dtype, p->label[i % ROWS], 1, NULL, 1));
    }
    CHARL_TRY_CLEANUP(charl__evaluation_finish(&e, 1.0, NULL, v, &n, &r));
cleanup:
    charl__evaluation_fini(&e);
    charl_eval_report_destroy(r);
    charl_config_destroy(config);
    return st;
}

static void test_failing_acquisitions(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(life, &problems[0]) > 10);
}

/* A confusion matrix of very many classes is left out. */
static void test_report_of_many_classes(void **state)
{
    const charl_data_schema schema = {
        .kind = CHARL_DATASET_TABLE, .class_names = (char[]){""}, .targets = (char[]){""}};
    static const int64_t outputs[] = {4096, 4097};

    (void)state;
    for (int k = 0; k < 2; k++) {
        charl_config *config = config_of(&problems[1]);
        charl__evaluation e = {0};
        int pairs = 0;

        charl_assert_ok(charl__evaluation_open(config, &schema, true, true, &e));
        charl_assert_ok(charl__evaluation_begin(&e, &(charl_shape){2, {ROWS, outputs[k]}}));
        for (int i = 0; i < e.n; i++) {
            pairs += e.item[i].type->detail == CHARL__DETAIL_PAIRS;
        }
        assert_int_equal(pairs, k == 0);
        charl__evaluation_fini(&e);
        charl_config_destroy(config);
    }
}

/* bits per byte = loss in bits * tokens / bytes */
static void test_bits_per_byte(void **state)
{
    static const char text[] = "abc";
    charl_data_schema schema = {.kind = CHARL_DATASET_TOKENS, .class_names = (char[]){""}, .targets = (char[]){""}};
    const problem p = {.loss = "cross_entropy", .expected = {{"bits_per_byte", 0}}};
    const int32_t tokens[] = {0, 1, 2, 2, 1, 0};
    charl_metric_value v[CHARL_MAX_METRICS];
    charl__evaluation e = {0};
    charl_config *config = config_of(&p);
    int n;

    (void)state;
    charl_assert_status(charl__evaluation_open(config, &schema, false, false, &e), CHARL_ERR_CONFIG);
    assert_non_null(strstr(charl_error_message(), "bits_per_byte needs the tokenizer"));
    charl__evaluation_fini(&e);
    charl_assert_ok(charl_tokenizer_create("chars", text, strlen(text), 0, &schema.tokenizer));
    charl_assert_ok(charl__evaluation_open(config, &schema, false, false, &e));
    assert_int_equal(e.reads, CHARL__READS_TARGETS);
    charl_assert_ok(charl__evaluation_begin(&e, &(charl_shape){3, {2, 3, 3}}));
    charl_assert_ok(charl__evaluation_add(&e, 2, NULL, CHARL_I32, tokens, 3, (const float[]){1, 1}, 1));
    e.token_bytes[2] = 4; /* as if the character c had four bytes: 12 in all */
    charl_assert_ok(charl__evaluation_begin(&e, &(charl_shape){3, {2, 3, 3}}));
    charl_assert_ok(charl__evaluation_add(&e, 2, NULL, CHARL_I32, tokens, 3, (const float[]){1, 1}, 1));
    charl_assert_ok(charl__evaluation_finish(&e, log(8.0), (const double[]){0}, v, &n, NULL));
    assert_true(fabs(v[0].value - 3.0 * 6 / 12) < 1e-12);
    charl__evaluation_fini(&e);
    charl_tokenizer_destroy(schema.tokenizer);
    charl_config_destroy(config);
}

/* Metrics of other data are refused. */
static void test_unfit(void **state)
{
    const charl_data_schema schema = {
        .kind = CHARL_DATASET_TOKENS, .class_names = (char[]){""}, .targets = (char[]){""}};
    charl_config *config = config_of(&problems[0]);
    charl__evaluation e = {0};

    (void)state;
    charl_assert_status(charl__evaluation_open(config, &schema, false, false, &e), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), "the metric precision is not defined for tokens, which d.h5 holds");
    charl__evaluation_fini(&e);
    charl_config_destroy(config);
}

/* A graph of one var on the device: its rows. */
static void run(charl_graph *g, charl_var *v, float *out)
{
    charl_graph_keep(g, v);
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(v), out, ROWS * sizeof *out));
}

static charl_var *input_of(charl_graph *g, const char *name, charl_dtype dtype, charl_shape shape, const void *data)
{
    charl_tensor *t = NULL;
    charl_var *v = charl_input(g, name, dtype, shape, CHARL_BATCHED);

    charl_assert_ok(charl_tensor_create(dev, dtype, &shape, &t));
    charl_assert_ok(charl_tensor_write(t, data, (size_t)charl_shape_count(&shape) * 4));
    charl__graph_bind_input(g, v, t);
    charl_tensor_release(t);
    return v;
}

/* What the device computes of each row is what the definition says: of every loss, and of every metric that has both. */
static void check_row_values(const problem *p, const charl__loss *loss, const void *settings,
                             const charl__metric *metric)
{
    const charl_target_kind kind =
        p->maps ? CHARL_TARGET_MAPS
                : (charl_target_kind)(loss->targets &
                                      ~(unsigned)(CHARL_TARGET_TOKENS | CHARL_TARGET_MAPS | CHARL_TARGET_INTERVALS));
    const bool classes = p->maps || kind == CHARL_TARGET_CLASS;
    const charl_shape wide = p->maps ? (charl_shape){3, {ROWS, p->channels, p->per_row}} : shape_of(p);
    const charl_shape lone = {1 + p->maps, {ROWS, p->per_row}};
    float x[ROWS * MAX_OUTPUTS], y[ROWS * MAX_OUTPUTS], w[ROWS * MAX_OUTPUTS], got[ROWS];
    int32_t label[ROWS * MAX_OUTPUTS];
    charl_graph *g = NULL;
    charl_var *outputs, *targets, *v;

    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < (p->maps ? p->per_row : 1); k++) {
            label[i * (p->maps ? p->per_row : 1) + k] = p->label[i][k];
            w[i * (p->maps ? p->per_row : 1) + k] = counts(p, i, k);
        }
        for (int k = 0; k < p->outputs; k++) {
            x[i * p->outputs + k] = p->x[i][k];
            y[i * p->outputs + k] = p->dtype == CHARL_I32 ? (float)p->label[i][k] : p->number[i][k];
        }
    }
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    charl_graph_set_training(g, false);
    outputs = input_of(g, "x", CHARL_F32, wide, x);
    targets = classes ? input_of(g, "y", CHARL_I32, lone, label) : input_of(g, "y", CHARL_F32, wide, y);
    if (p->maps) {
        outputs = charl_transpose(g, outputs, (const int[]){0, 2, 1});
    }
    if (!metric && p->some && loss->build_counted) {
        v = loss->build_counted(g, settings, outputs, targets, input_of(g, "w", CHARL_F32, lone, w));
    } else {
        v = metric ? metric->build(g, kind, outputs, targets) : loss->build(g, settings, outputs, targets);
    }
    if (p->some && charl_var_get_type(v).shape.ndim > 1) {
        charl_var *weights = input_of(g, "w", CHARL_F32, lone, w);

        v = charl_div(g, charl_sum(g, charl_mul(g, v, weights), 1, false), charl_sum(g, weights, 1, false));
    }
    run(g, charl_var_get_type(v).shape.ndim > 1 ? charl_mean(g, v, 1, false) : v, got);
    for (int i = 0; i < ROWS; i++) {
        const charl__eval_row row = {.outputs = p->x[i],
                                     .values = p->x[i],
                                     .n = p->outputs,
                                     .is_map = p->maps,
                                     .classes = p->channels > 0 ? p->channels : p->outputs,
                                     .labels = p->dtype == CHARL_I32 ? p->label[i] : NULL,
                                     .weights = p->some ? w + i * p->per_row : NULL,
                                     .numbers = p->dtype == CHARL_I32 ? NULL : p->number[i]};
        const double want = metric ? metric->reference(kind, &row) : loss->reference(settings, &row);

        if (p->some && i == 7 && isnan((double)got[i]) && isnan(want)) {
            continue; /* a mean over no pixels */
        }
        if (!(fabs((double)got[i] - want) <= 1e-5 * (1 + fabs(want)))) {
            fail_msg("%s of %s, row %d: %.9g, not %.9g", metric ? metric->row.name : loss->row.name, p->name, i,
                     (double)got[i], want);
        }
    }
    charl_graph_destroy(g);
}

static void test_rows_on_the_device(void **state)
{
    const charl__loss *loss;
    const charl__metric *metric;

    (void)state;
    for (int l = 0; (loss = charl__loss_at(l)) != NULL; l++) {
        int problems_of = 0;

        if (loss->targets == CHARL_TARGET_NOTHING) { /* of the rows of a batch together: tests/interop/test_towers.py */
            continue;
        }
        for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
            const unsigned kinds = charl__loss_find(problems[i].loss)->targets & loss->targets;

            if (problems[i].maps ? !(kinds & CHARL_TARGET_MAPS) : !(kinds & ~(unsigned)CHARL_TARGET_MAPS)) {
                continue;
            }
            problems_of++;
            if (loss->quantiles) { /* several of each: test_quantiles */
                check_row_values(&problems[i], loss, &(const charl_float_list){1, {0.3}}, NULL);
                continue;
            }
            check_row_values(&problems[i], loss, loss->row.defaults, NULL);
            if (loss->row.n_keys > 0) { /* each has one or two keys, numbers */
                assert_int_equal(loss->row.settings_size, (size_t)loss->row.n_keys * sizeof(double));
                check_row_values(&problems[i], loss, (const double[]){0.3, 0.3}, NULL);
            }
            for (int m = 0; l < 3 && (metric = charl__metric_at(m)) != NULL; m++) {
                if (metric->build && metric->targets & loss->targets &&
                    (metric->targets & CHARL_TARGET_NUMBERS) == (loss->targets & CHARL_TARGET_NUMBERS)) {
                    check_row_values(&problems[i], loss, NULL, metric);
                }
            }
        }
        assert_true(problems_of > 0);
    }
}

/* Every row says enough of itself to be computed, and reports' rows come last. */
static void test_the_list(void **state)
{
    const charl__metric *m;
    bool reports = false;

    (void)state;
    for (int i = 0; (m = charl__metric_at(i)) != NULL; i++) {
        assert_true(m->finish && m->targets && (m->automatic & ~m->targets) == 0);
        assert_true(!m->build == !m->reference && !m->size == !m->add && !(m->build && m->add));
        assert_int_equal(m->add ? m->reads != 0 : m->reads, m->add ? 1 : 0);
        assert_true(!reports || m->report_only);
        reports = reports || m->report_only;
        assert_true(i < 32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list),
        cmocka_unit_test(test_values_are_scikit_learns),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_worst),
        cmocka_unit_test(test_bits_per_byte),
        cmocka_unit_test(test_unfit),
        cmocka_unit_test(test_failing_acquisitions),
        cmocka_unit_test(test_report_of_many_classes),
        cmocka_unit_test(test_rows_on_the_device),
    };

    fill_all();
    return charl_test_on_device(tests, &dev);
}

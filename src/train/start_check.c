/* Warnings and errors before the first step of a training: data and metrics that cannot serve their purpose.
 *
 *     data      training rows of one class; validation rows that do not have the classes of the training rows, because data.val_split cuts
 *               them off rows in the order of their classes
 *     metrics   a monitored metric without evaluations, or one that is not defined for these rows
 * A run that is resumed is warned of its data, and continues.
 *
 *     settings  those that have no effect in this run: charl__config_check_run
 *     rate      one that jumps because a run is resumed with another length */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "config/config_rows.h"
#include "config/config_run.h"
#include "train/trainer.h"

enum { NAME = 96, TEXT_BYTES = 1024 };

/* A class of so many expected rows is missing among rows in random order with a probability of e^-20. */
static const double CERTAIN = 20.0;

/* How the classes of a dataset with a class for each row are divided. */
typedef struct classes {
    const charl_dataset_info *data;
    int64_t *train, *val; /* [data->classes] */
    int64_t n_train, n_val;
    int64_t one_train, one_val; /* the only class; -1: there are several, or none */
} classes;

/* "class 2 (virginica)" into text[NAME]; returns text. */
static const char *class_text(const charl_dataset_info *d, int64_t c, char *text)
{
    const char *name = d->class_names;

    for (int64_t i = 0; i < c && *name; i++) {
        name += strcspn(name, "\n");
        name += *name == '\n';
    }
    snprintf(text, NAME, "class %lld", (long long)c);
    if (*name) {
        snprintf(text + strlen(text), NAME - strlen(text), " (%.60s", name);
        text[strcspn(text, "\n")] = '\0';
        snprintf(text + strlen(text), NAME - strlen(text), ")");
    }
    return text;
}

static int64_t only_class(const int64_t *count, int64_t n, int64_t *rows)
{
    int64_t only = -1, occur = 0;

    *rows = 0;
    for (int64_t c = 0; c < n; c++) {
        occur += count[c] > 0;
        only = count[c] > 0 ? c : only;
        *rows += count[c];
    }
    return occur == 1 ? only : -1;
}

static charl_status count_classes(charl__trainer *t, classes *c)
{
    const int64_t n = t->session.data.classes;

    c->data = &t->session.data;
    CHARL_TRY(charl__alloc_array(n, sizeof *c->train, &c->train));
    CHARL_TRY(charl__alloc_array(n, sizeof *c->val, &c->val));
    CHARL_TRY(charl__session_count_classes(&t->session, CHARL_SPLIT_TRAIN, c->train));
    if (c->data->rows[CHARL_SPLIT_VAL] > 0) {
        CHARL_TRY(charl__session_count_classes(&t->session, CHARL_SPLIT_VAL, c->val));
    }
    c->one_train = only_class(c->train, n, &c->n_train);
    c->one_val = only_class(c->val, n, &c->n_val);
    return CHARL_OK;
}

/* What cannot be if the rows were in random order, into text; false: nothing. *certain: it is not chance. */
static bool describe_cut(const classes *c, char *text, bool *certain)
{
    const double all = (double)(c->n_train + c->n_val), val = (double)c->n_val;
    char name[NAME];

    *certain = true;
    if (c->one_val >= 0 && c->one_train != c->one_val) {
        snprintf(text, TEXT_BYTES, "all of them are of %s", class_text(c->data, c->one_val, name));
        return true;
    }
    for (int pass = 0; pass < 2; pass++) { /* what is certain first */
        for (int64_t k = 0; k < c->data->classes; k++) {
            const double rows = (double)(c->train[k] + c->val[k]);

            *certain = rows * (c->val[k] == 0 ? val : all - val) / all >= CERTAIN;
            if ((*certain || pass == 1) && (c->train[k] == 0) != (c->val[k] == 0)) {
                snprintf(text, TEXT_BYTES, "%s has %lld of them and %lld of the training rows",
                         class_text(c->data, k, name), (long long)c->val[k], (long long)c->train[k]);
                return true;
            }
        }
    }
    return false;
}

/* "charl data split FILE -x X -y Y --val-split 0.25 -o NEW", and what to do with NEW */
static charl_status way_out(const charl__trainer *t, charl__text *out)
{
    const charl_config *c = t->config;

    if (c->data.mix.count > 0 || strpbrk(c->data.path, "*?[")) {
        return charl__text_printf(out, "shuffle the rows, or give the files a validation set (charl data split)");
    }
    CHARL_TRY(charl__text_printf(out, "`charl data split %s", c->data.path));
    if (c->data.x[0]) {
        CHARL_TRY(charl__text_printf(out, " -x %s -y %s", c->data.x, c->data.y));
    }
    if (c->data.weights[0]) {
        CHARL_TRY(charl__text_printf(out, " --weights %s", c->data.weights));
    }
    return charl__text_printf(out,
                              " --val-split %g -o FILE` chooses rows at random; then set data.path = FILE, without "
                              "data.val_split%s",
                              c->data.val_split, c->data.x[0] ? ", data.x and data.y" : "");
}

/* Refuse a new run, warn one that is resumed. */
static charl_status refuse(const charl__trainer *t, charl_status st, const char *text)
{
    if (t->resumes) {
        char line[TEXT_BYTES];
        const char *hint = strstr(text, "; HINT ");

        snprintf(line, sizeof line, "%.*s", hint ? (int)(hint - text) : (int)strlen(text), text);
        charl__session_warn(&t->session, line);
        return CHARL_OK;
    }
    return charl_error_set(st, __FILE__, __LINE__, __func__, "%s", text);
}

static charl_status check_cut(const charl__trainer *t, const classes *c)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    char why[TEXT_BYTES];
    bool certain;

    if (!describe_cut(c, why, &certain)) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__text_printf(&text, "%s: data.val_split takes the last %lld rows for validation, and %s%s%s",
                                 c->data->path, (long long)c->data->rows[CHARL_SPLIT_VAL], why,
                                 certain ? ": the rows are not in random order" : "", certain ? "; HINT " : ""));
    CHARL_TRY(certain ? way_out(t, &text) : CHARL_OK);
    if (certain) {
        CHARL_TRY(refuse(t, CHARL_ERR_CONFIG, charl__text_string(&text)));
    } else {
        charl__session_warn(&t->session, charl__text_string(&text));
    }
    return CHARL_OK;
}

static charl_status judge_classes(const charl__trainer *t, const classes *c)
{
    const charl__metric *m = charl__config_monitor(t->config);
    char text[TEXT_BYTES], name[NAME];

    if (c->one_train >= 0) {
        snprintf(
            text, sizeof text,
            "%s: all %lld training rows are of %s, so there is nothing to learn; HINT check the targets (data.y, or "
            "the column at the import) and the choice of rows",
            c->data->path, (long long)c->n_train, class_text(c->data, c->one_train, name));
        CHARL_TRY(refuse(t, CHARL_ERR_DATA, text));
    }
    if (c->data->val_is_cut) {
        CHARL_TRY(check_cut(t, c));
    }
    if (c->one_val >= 0 && m->compares) {
        snprintf(text, sizeof text,
                 "checkpoint.monitor = val/%s compares samples of different classes, and all %lld validation rows of "
                 "%s are of "
                 "%s; HINT another checkpoint.monitor, or other validation rows",
                 m->row.name, (long long)c->n_val, c->data->path, class_text(c->data, c->one_val, name));
        CHARL_TRY(refuse(t, CHARL_ERR_CONFIG, text));
    } else if (c->one_val >= 0 && !c->data->val_is_cut && c->one_train < 0) {
        snprintf(text, sizeof text, "all %lld validation rows of %s are of %s: they say nothing of the other classes",
                 (long long)c->n_val, c->data->path, class_text(c->data, c->one_val, name));
        charl__session_warn(&t->session, text);
    }
    return CHARL_OK;
}

static charl_status check_classes(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    const charl_dataset_info *d = &t->session.data;
    classes c = {0};

    if (!d->labelled || d->kind == CHARL_DATASET_TOKENS || d->y_dtype != CHARL_I32 || d->y_shape.ndim > 0) {
        return CHARL_OK;
    }
    CHARL_TRY_CLEANUP(count_classes(t, &c));
    CHARL_TRY_CLEANUP(judge_classes(t, &c));
cleanup:
    charl_free(c.train);
    charl_free(c.val);
    return st;
}

static void widen_range(void *user, const void *y, int64_t n, bool *stop)
{
    float *range = user;

    (void)stop;
    for (int64_t i = 0; i < n; i++) {
        range[0] = fminf(range[0], ((const float *)y)[i]);
        range[1] = fmaxf(range[1], ((const float *)y)[i]);
    }
}

/* The smallest and the largest target of a split, each one number. */
static charl_status range_of(charl__trainer *t, charl_split split, float out[2])
{
    out[0] = FLT_MAX;
    out[1] = -FLT_MAX;
    return charl__session_scan_targets(&t->session, split, widen_range, out);
}

/* Rows in the order of their target: those that are cut off have other targets than the rest. */
static charl_status check_numbers(charl__trainer *t)
{
    const charl_dataset_info *d = &t->session.data;
    float train[2], val[2];
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    if (!d->labelled || d->y_dtype != CHARL_F32 || charl_shape_count(&d->y_shape) != 1) {
        return CHARL_OK;
    }
    CHARL_TRY(range_of(t, CHARL_SPLIT_TRAIN, train));
    if (train[0] >= train[1]) {
        CHARL_TRY(charl__text_printf(&text, "%s: the target of all %lld training rows is %g: there is nothing to learn",
                                     d->path, (long long)d->rows[CHARL_SPLIT_TRAIN], (double)train[0]));
    } else if (d->val_is_cut) {
        CHARL_TRY(range_of(t, CHARL_SPLIT_VAL, val));
        if (val[0] > train[1] || val[1] < train[0]) {
            CHARL_TRY(charl__text_printf(&text,
                                         "%s: data.val_split takes the last %lld rows for validation; their "
                                         "targets, %g to %g, are all beyond those "
                                         "of the training rows, %g to %g. If the rows are only sorted, ",
                                         d->path, (long long)d->rows[CHARL_SPLIT_VAL], (double)val[0], (double)val[1],
                                         (double)train[0], (double)train[1]));
            CHARL_TRY(way_out(t, &text));
        }
    }
    charl__session_warn(&t->session, charl__text_string(&text));
    return CHARL_OK;
}

static charl_status check_evaluations(const charl__trainer *t)
{
    const charl_config *c = t->config;
    const charl__metric *m = charl__config_monitor(c);
    const bool has_val = t->session.data.rows[CHARL_SPLIT_VAL] > 0;

    CHARL_REQUIRE(has_val || c->train.early_stopping_patience == 0, CHARL_ERR_CONFIG,
                  "train.early_stopping_patience needs a validation set, %s has none; HINT data.val_split",
                  t->session.data.path);
    CHARL_REQUIRE(has_val || m == &charl__metric_loss || c->eval.interval.unit == CHARL__INTERVAL_OFF, CHARL_ERR_CONFIG,
                  "checkpoint.monitor = val/%s needs a validation set, %s has none; HINT data.val_split", m->row.name,
                  t->session.data.path);
    return CHARL_OK;
}

static charl_status check_settings(const charl__trainer *t)
{
    const charl__run_facts facts = {.steps = t->total_steps,
                                    .batch = t->config->train.batch_size,
                                    .train_rows = t->session.data.rows[CHARL_SPLIT_TRAIN],
                                    .val_rows = t->session.data.rows[CHARL_SPLIT_VAL],
                                    .val_is_cut = t->session.data.val_is_cut};
    CHARL_SCOPED(charl__text_fini) charl__text lines = {0};

    CHARL_TRY(charl__config_check_run(t->config, &facts, &lines));
    charl__session_warn_lines(&t->session, charl__text_string(&lines));
    return CHARL_OK;
}

void charl__trainer_check_rate(const charl__trainer *t, const charl_config *was, int64_t step)
{
    const int64_t total = charl__config_steps(was, t->session.data.rows[CHARL_SPLIT_TRAIN]);
    const charl_schedule before = charl__config_schedule(was, total);
    const double last = step > 0 ? charl_schedule_lr(&before, step - 1) : 0;
    const double expected = charl_schedule_lr(&before, step) * t->schedule.base_lr;
    const double next = charl_schedule_lr(&t->schedule, step), same = next * before.base_lr;
    char text[TEXT_BYTES];

    if (step > 0 && (same > 2 * expected || 2 * same < expected)) {
        snprintf(
            text, sizeof text,
            "the learning rate goes from %.3g in step %lld to %.3g in step %lld, because its schedule has changed: the "
            "run has %lld steps, before it had %lld; scheduler.type = constant with optimizer.learning_rate = %.3g "
            "continues at the last rate",
            last, (long long)step, next, (long long)step + 1, (long long)t->total_steps, (long long)total, last);
        charl__session_warn(&t->session, text);
    }
}

charl_status charl__trainer_check_start(charl__trainer *t)
{
    if (t->replaying) {
        return CHARL_OK;
    }
    CHARL_TRY(check_evaluations(t));
    CHARL_TRY(check_settings(t));
    CHARL_TRY(check_classes(t));
    CHARL_TRY(check_numbers(t));
    return CHARL_OK;
}

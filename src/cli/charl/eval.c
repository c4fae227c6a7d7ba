/* charl eval: evaluates a checkpoint's weights on a split of the configured data. Runs under mpirun too; rank
 * 0 prints. MPI starts after the command line and the configuration have been validated. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/error.h>
#include <charl/checkpoint.h>
#include <charl/choices.h>
#include <charl/train.h>
#include "cli/charl/commands.h"
#include "cli/cli_ranks.h"

enum { MAX_PAIRS = 24 }; /* classes of a confusion matrix that is printed as a table */

typedef enum report_format { REPORT_NONE, REPORT_TABLE, REPORT_JSON } report_format;

typedef struct evaluation {
    const char *split;
    charl_ema_choice ema;
    report_format report;
    charl_config *config;
    const char *checkpoint;
    const char *predictions;         /* file; NULL: none */
    const char *choices, *tokenizer; /* files */
    int64_t repeats;                 /* of the importance; 0: not measured */
    charl_importance *groups;        /* [n_groups] */
    char (*names)[256];              /* [n_groups] */
    int n_groups;
} evaluation;

/* Only the weights are loaded, so the step is read from the file. */
static charl_status step_of(const evaluation *e, int64_t *out)
{
    charl_checkpoint_reader *r = NULL;

    CHARL_TRY(charl_checkpoint_open(e->checkpoint, &r));
    *out = charl_checkpoint_get_info(r).state->step;
    charl_checkpoint_close(r);
    return CHARL_OK;
}

static void print_row(const evaluation *e, const charl_val_row *row)
{
    printf("%s step=%" PRId64 " loss=%.9g", e->split, row->step, row->loss);
    for (int i = 0; i < row->n_metrics; i++) {
        const charl_metric_value *m = &row->metrics[i];

        printf(m->fraction ? " %s=%.6f" : " %s=%.6g", m->name, m->value);
    }
    printf("\n");
}

/* Name of class, label or target i of a report, or its number as text. */
static const char *name_of(const charl_eval_report *r, int64_t i, char number[24], size_t *length)
{
    const char *name = charl_names_get(r->names, i, length);

    if (!name) {
        *length = (size_t)snprintf(number, 24, "%" PRId64, i);
        name = number;
    }
    return name;
}

/* Number of characters of a name; UTF-8 continuation bytes do not count. */
static int width_of(const char *name, size_t length)
{
    int width = 0;

    for (size_t i = 0; i < length; i++) {
        width += ((unsigned char)name[i] & 0xC0U) != 0x80U;
    }
    return width;
}

static int widest_name(const charl_eval_report *r)
{
    char number[24];
    size_t length;
    int widest = 6;

    for (int64_t i = 0; i < r->n; i++) {
        const char *name = name_of(r, i, number, &length);
        const int width = width_of(name, length);

        widest = width > widest ? width : widest;
    }
    return widest;
}

/* Padded to `width`; negative: on the left. */
static void print_name(const charl_eval_report *r, int64_t i, int width)
{
    char number[24];
    size_t length;
    const char *name = name_of(r, i, number, &length);
    const int used = width_of(name, length);

    printf("%*s", width < -used ? -width - used : 0, "");
    charl__cli_write(stdout, name, length);
    printf("%*s", width > used ? width - used : 0, "");
}

/* One line for each class, label or target, and one column for each metric. */
static void print_each(const charl_eval_report *r, int width)
{
    printf("\n%*s", width, "");
    for (int t = 0; t < r->n_tables; t++) {
        if (!r->tables[t].pairs) {
            printf("  %10s", r->tables[t].name);
        }
    }
    printf("\n");
    for (int64_t i = 0; i < r->n; i++) {
        print_name(r, i, width);
        for (int t = 0; t < r->n_tables; t++) {
            const charl_metric_table *table = &r->tables[t];

            if (!table->pairs && isnan(table->values[i])) {
                printf("  %10s", "-");
            } else if (!table->pairs) {
                printf(table->fraction ? "  %10.4f" : "  %10.6g", table->values[i]);
            }
        }
        printf("\n");
    }
}

static void print_pairs(const charl_eval_report *r, const charl_metric_table *table, int width)
{
    const int cell = width > 8 ? width : 8;

    printf("\n%s: line: actual, column: predicted\n%*s", table->name, width, "");
    for (int64_t i = 0; i < r->n; i++) {
        printf("  ");
        print_name(r, i, -cell);
    }
    printf("\n");
    for (int64_t i = 0; i < r->n; i++) {
        print_name(r, i, width);
        for (int64_t k = 0; k < r->n; k++) {
            printf("  %*.0f", cell, table->values[i * r->n + k]);
        }
        printf("\n");
    }
}

/* The points of a diagram, unless they are many. */
static void print_diagram(const charl_metric_diagram *d)
{
    if (d->n > MAX_PAIRS) {
        printf("\n%s: %" PRId64 " points: see --report=json, or the page of charl report\n", d->name, d->n);
        return;
    }
    printf("\n%s:\n", d->name);
    for (int64_t i = -1; i < d->n; i++) {
        for (int k = 0; k < CHARL_DIAGRAM_COLUMNS; k++) {
            if (i < 0) {
                printf("%s%10s", k > 0 ? "  " : "", d->columns[k]);
            } else {
                printf("%s%10.6g", k > 0 ? "  " : "", d->values[i * CHARL_DIAGRAM_COLUMNS + k]);
            }
        }
        printf("\n");
    }
}

static void print_tables(const charl_eval_report *r)
{
    const int width = widest_name(r);

    if (r->n_tables > 0) {
        print_each(r, width);
    }
    for (int t = 0; t < r->n_tables; t++) {
        if (r->tables[t].pairs && r->n > MAX_PAIRS) {
            printf("\n%s: %" PRId64 " classes are too many to show; see --report=json\n", r->tables[t].name, r->n);
        } else if (r->tables[t].pairs) {
            print_pairs(r, &r->tables[t], width);
        }
    }
    for (int d = 0; d < r->n_diagrams; d++) {
        print_diagram(&r->diagrams[d]);
    }
}

static charl_status print(const evaluation *e, charl_val_row *row, const charl_eval_report *report)
{
    char *json = NULL;

    CHARL_TRY(step_of(e, &row->step));
    if (e->report == REPORT_JSON) {
        CHARL_TRY(charl_eval_report_json(report, row, e->split, &json));
        fputs(json, stdout);
        charl_free(json);
        return CHARL_OK;
    }
    print_row(e, row);
    if (report) {
        print_tables(report);
    }
    return CHARL_OK;
}

static charl_status keep_group(void *ctx, const charl_importance *importance)
{
    evaluation *e = ctx;
    charl_importance *groups = realloc(e->groups, (size_t)(e->n_groups + 1) * sizeof *groups);
    char(*names)[256] = realloc(e->names, (size_t)(e->n_groups + 1) * sizeof *names);

    e->groups = groups ? groups : e->groups;
    e->names = names ? names : e->names;
    CHARL_REQUIRE(groups && names, CHARL_ERR_NOMEM, "out of memory");
    groups[e->n_groups] = *importance;
    snprintf(names[e->n_groups], sizeof *names, "%s", importance->name);
    for (int i = 0; i <= e->n_groups; i++) {
        groups[i].name = names[i];
    }
    e->n_groups++;
    return CHARL_OK;
}

/* The group whose loss grows the most first. */
static int by_loss(const void *a, const void *b)
{
    const charl_importance *x = a, *y = b;

    return (x->loss < y->loss) - (x->loss > y->loss);
}

static void print_change(double mean, double deviation)
{
    printf("  %+11.5g", mean);
    if (isnan(deviation)) {
        printf("  %9s", "-");
    } else {
        printf("  %9.2g", deviation);
    }
}

static void print_importance(evaluation *e)
{
    int width = 6;

    qsort(e->groups, (size_t)e->n_groups, sizeof *e->groups, by_loss);
    for (int i = 0; i < e->n_groups; i++) {
        const int used = width_of(e->groups[i].name, strlen(e->groups[i].name));

        width = used > width ? used : width;
    }
    printf("\nchanges with a column permuted, mean and deviation of %" PRId64 "\n%-*s  %11s  %9s", e->repeats, width,
           "column", "loss", "deviation");
    for (int i = 0; e->n_groups > 0 && i < e->groups[0].n_metrics; i++) {
        printf("  %11s  %9s", e->groups[0].metrics[i].name, "deviation");
    }
    printf("\n");
    for (int i = 0; i < e->n_groups; i++) {
        const charl_importance *g = &e->groups[i];

        charl__cli_write(stdout, g->name, strlen(g->name));
        printf("%*s", width - width_of(g->name, strlen(g->name)), "");
        print_change(g->loss, g->loss_deviation);
        for (int k = 0; k < g->n_metrics; k++) {
            print_change(g->metrics[k].value, g->deviations[k]);
        }
        printf("\n");
    }
}

static int evaluate(void *ctx, charl_comm *comm)
{
    evaluation *e = ctx;
    const charl_train_options options = {sizeof options, .comm = comm, .ema = e->ema,
                                         .events = {.ctx = comm,
                                                    .compiling = charl__cli_compiling_show,
                                                    .started = charl__ranks_started,
                                                    .warned = charl__ranks_warn,
                                                    .lost = charl__ranks_lost}};
    charl_val_row row;
    charl_eval_report *report = NULL;
    charl_status st =
        e->repeats > 0
            ? charl_train_importance(e->config, &options, e->checkpoint, e->split, (int)e->repeats, keep_group, e, &row)
            : charl_train_evaluate(e->config, &options, e->checkpoint, e->split, &row, e->report ? &report : NULL);

    if (st == CHARL_OK && charl_comm_rank(comm) == 0) {
        st = print(e, &row, report);
        if (st == CHARL_OK && e->repeats > 0) {
            print_importance(e);
        }
        fflush(stdout);
        if (st == CHARL_OK && e->predictions) {
            st = charl__predict_split(e->config, e->checkpoint, e->split, e->ema, e->predictions);
        }
    }
    charl_eval_report_destroy(report);
    free(e->groups);
    free(e->names);
    e->groups = NULL;
    e->names = NULL;
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

/* A question of --report, as a line of JSON. */
static charl_status print_choice(void *ctx, const charl_choice *c)
{
    (void)ctx;
    charl__cli_compiling_done();
    printf("{\"line\":%" PRId64 ",\"right\":%d,\"chosen\":%d,\"chosen_norm\":%d,\"log_likelihood\":[", c->line,
           c->right, c->chosen, c->chosen_norm);
    for (int k = 0; k < c->n; k++) {
        printf("%s%.9g", k ? "," : "", c->log_likelihood[k]);
    }
    printf("]}\n");
    return CHARL_OK;
}

static int answer_choices(const evaluation *e)
{
    const charl_choices_options options = {sizeof options,
                                           .ema = (charl_ema_choice)e->ema,
                                           .tokenizer = e->tokenizer,
                                           .answered = e->report ? print_choice : NULL,
                                           .warned = charl__cli_warn,
                                           .compiling = charl__cli_compiling_show};
    charl_choices_result r;
    const charl_status st = charl_choices(e->config, e->checkpoint, e->choices, &options, &r);

    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    charl__cli_compiling_done();
    if (r.cut > 0) {
        fprintf(stderr,
                "charl: %" PRId64
                " choices are longer with their context than the window of the model: its beginning was left out\n",
                r.cut);
    }
    printf("choices questions=%" PRId64 " accuracy=%.6f accuracy_norm=%.6f\n", r.questions,
           (double)r.right / (double)r.questions, (double)r.right_norm / (double)r.questions);
    return CHARL__EXIT_OK;
}

int charl__eval_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"split", 's', "NAME", "val (default), train or test", 0, CHARL__CLI_TEXT(evaluation, split)},
        {"report", 0, "table|json",
         "Also print metrics of every class, label or target, the confusion matrix and the calibration; json: all as "
         "one "
         "JSON object, with the samples whose class is the least probable, or actual and predicted numbers",
         0, CHARL__CLI_CHOICE(evaluation, report, REPORT_TABLE), .flags = OPTION_ARG_OPTIONAL},
        {"predictions", 0, "FILE",
         "Also write the probabilities of all classes or labels, or the numbers, of every sample of the split, as "
         "charl predict does: FILE.csv, FILE.jsonl or FILE.h5, which is replaced if it exists",
         0, CHARL__CLI_TEXT(evaluation, predictions)},
        {"importance", 0, "N",
         "Also measure how much the model depends on each column of a table: the changes of loss and metrics when its "
         "values come from other rows, mean and deviation of N permutations. The columns of one category or date are "
         "permuted together",
         0, CHARL__CLI_INT(evaluation, repeats, 1, 1000)},
        CHARL__CLI_EMA_OPTION(0, evaluation, ema),
        {"choices", 0, "FILE",
         "Instead of a dataset, answer the multiple-choice questions of FILE: lines of JSON in the form of HellaSwag "
         "or ARC. Prints the "
         "accuracy of the most probable choice, and by probability for each character; with --report also every answer",
         0, CHARL__CLI_TEXT(evaluation, choices)},
        {"tokenizer", 0, "FILE",
         "With --choices: file or folder of the tokenizer, for a model that was trained on token numbers", 0,
         CHARL__CLI_TEXT(evaluation, tokenizer)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "[CONFIG] CHECKPOINT [SECTION.KEY=VALUE...]",
        "Evaluate a checkpoint on a split of the dataset of CONFIG (default: the configuration that it was trained "
        "with). Prints step, loss and metrics; they do not depend on the number of ranks.\vA run directory stands for "
        "its last checkpoint."};
    charl__cli_operands operands = {.names = {"CHECKPOINT"}, .max = 2 + CHARL__CLI_OVERRIDES};
    charl__trained trained;
    evaluation e = {.split = "val"};
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &e);

    if (code >= 0) {
        return code;
    }
    if (e.tokenizer && !e.choices) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--tokenizer goes with --choices");
    }
    if (e.repeats > 0 && (e.report || e.choices)) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--importance does not go with --report or --choices");
    }
    if (e.predictions && e.choices) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--predictions writes samples of a dataset, not --choices");
    }
    st = charl__prediction_name(e.predictions);
    st = st == CHARL_OK ? charl__parse_trained(&operands, &trained) : st;
    if (st != CHARL_OK) {
        return charl__cli_fail_alike(st);
    }
    e.config = trained.config;
    e.checkpoint = trained.path;
    code = e.choices ? answer_choices(&e) : charl__with_ranks(e.config, evaluate, &e, &argc, &argv);
    charl_config_destroy(e.config);
    return code;
}

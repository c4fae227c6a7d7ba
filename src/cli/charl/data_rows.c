/* charl data rows: the samples of a training step. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <charl/replay.h>
#include "cli/charl/commands.h"

typedef struct request {
    int64_t step;
    charl_config *config;
} request;

static void print_head(const charl_config *c, const charl_step_rows *rows)
{
    const charl_step_sample *first = rows->sample, *last = rows->sample + rows->n - 1;

    printf("# step %" PRId64 ": %" PRId64 " %s of ", rows->step, rows->n, rows->window > 0 ? "windows" : "samples");
    charl__cli_put(rows->n_sets > 0 ? "data.mix" : charl__cli_text(c, "data.path"), 0);
    printf(", positions %" PRId64 " to %" PRId64 ", epoch %" PRId64, first->position, last->position, first->epoch);
    if (last->epoch != first->epoch) {
        printf(" and %" PRId64, last->epoch);
    }
    printf(" of %" PRId64 " samples\n", rows->train_rows);
    if (rows->window > 0) {
        printf("# a window: %" PRId64 " tokens from `token` on, and the one after them\n", rows->window);
    }
    for (int i = 0; i < rows->n_sets; i++) {
        printf("# set %d: ", i);
        charl__cli_put(rows->sets[i], 0);
        printf("\n");
    }
}

static void print_rows(const charl_config *c, const charl_step_rows *rows)
{
    const int64_t per_slice = rows->n / rows->slices;
    const bool mixes = rows->mixed, several = rows->n_sets > 0;

    print_head(c, rows);
    printf("%7s %6s %6s", "index", "slice", "epoch");
    if (several) {
        printf(" %4s", "set");
    }
    printf(" %12s", rows->window > 0 ? "token" : "row");
    printf(mixes ? " %8s %8s\n" : "\n", "partner", "share");
    for (int64_t i = 0; i < rows->n; i++) {
        const charl_step_sample *s = &rows->sample[i];

        printf("%7" PRId64 " %6" PRId64 " %6" PRId64, i, i / per_slice, s->epoch);
        if (several) {
            printf(" %4d", s->set);
        }
        printf(" %12" PRId64, s->row);
        if (mixes) {
            printf(" %8" PRId64 " %8.6f", s->partner, (double)s->share);
        }
        printf("\n");
    }
}

static int show_rows(void *ctx)
{
    const request *r = ctx;
    charl_step_rows *rows = NULL;
    const charl_status st = charl_step_rows_create(r->config, r->step, &rows);

    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    print_rows(r->config, rows);
    charl_step_rows_destroy(rows);
    return CHARL__EXIT_OK;
}

int charl__data_rows_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {{"step", 's', "N", "The step, counted from 1 as in the log; required",
                                                 0, CHARL__CLI_INT(request, step, 1, INT64_MAX)},
                                                {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG --step N [SECTION.KEY=VALUE...]",
        "Print which rows of the training split step N takes, in the order of the batch; of tokens, where each window "
        "begins. They follow from configuration and data, and are the same for any number of ranks and with "
        "train.grad_accum_steps. For a run, CONFIG is the config.ini of its directory. Lines that begin with # are no "
        "rows."};
    charl__cli_operands operands = {.names = {"CONFIG"}, .max = 1 + CHARL__CLI_OVERRIDES};
    request r = {0};
    charl_status st;
    const char *data;
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    if (r.step == 0) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--step is missing: which step?");
    }
    st = charl__cli_load_config(&operands, 1, &r.config);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    data = charl__cli_text(r.config, "data.path");
    code = charl__cli_guarded(data[0] ? data : "data.mix", CHARL__EXIT_DATA, show_rows, &r);
    charl_config_destroy(r.config);
    return code;
}

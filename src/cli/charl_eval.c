/* charl eval: a checkpoint's weights on a split of the configured data. Runs under mpirun too; rank
 * 0 prints. MPI starts after the command line and the configuration are known to be good. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "charl/checkpoint.h"
#include "charl/train.h"
#include "cli/charl_commands.h"
#include "cli/cli_ranks.h"

enum { MAX_OVERRIDES = 64 };

enum { KEY_EMA = 0x100 };

typedef struct evaluation {
    const char *split;
    int ema;
    charl_config *config;
    const char *checkpoint;
} evaluation;

static error_t parse_eval(int key, char *arg, struct argp_state *state)
{
    evaluation *e = state->input;

    switch (key) {
    case 's':
        e->split = arg;
        return 0;
    case KEY_EMA:
        return charl__cli_parse_ema(arg, &e->ema);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Only the weights are loaded, so the step comes from the file. */
static charl_status print_row(const evaluation *e, const charl_val_row *row)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;

    CHARL_TRY_CLEANUP(charl_checkpoint_open(e->checkpoint, &r));
    printf("%s step=%lld loss=%.9g", e->split, (long long)charl_checkpoint_get_state(r)->step, row->loss);
    if (!isnan(row->accuracy)) {
        printf(" accuracy=%.6f", row->accuracy);
    }
    if (!isnan(row->top5)) {
        printf(" top5=%.6f", row->top5);
    }
    if (!isnan(row->mae)) {
        printf(" mae=%.6g", row->mae);
    }
    if (row->perplexity > 0) {
        printf(" perplexity=%.6g", row->perplexity);
    }
    printf("\n");
cleanup:
    charl_checkpoint_close(r);
    return st;
}

static int evaluate(void *ctx, charl_comm *comm)
{
    const evaluation *e = ctx;
    const charl_train_options options = {.comm = comm,
                                         .ema = e->ema,
                                         .events = {.ctx = comm,
                                                    .compiling = charl__cli_compiling_show,
                                                    .started = charl__ranks_started,
                                                    .warned = charl__ranks_warn,
                                                    .lost = charl__ranks_lost}};
    charl_val_row row;
    charl_status st = charl_train_evaluate(e->config, &options, e->checkpoint, e->split, &row);

    if (st == CHARL_OK && charl_comm_rank(comm) == 0) {
        st = print_row(e, &row);
    }
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

int charl__eval_main(const char *path, int argc, char **argv)
{
    static const struct argp_option options[] = {{"split", 's', "NAME", 0, "val (default), train or test", 0},
                                                 {"ema", KEY_EMA, "WHICH", 0, CHARL__CLI_EMA_HELP, 0},
                                                 {0}};
    static const struct argp argp = {options,
                                     parse_eval,
                                     "CONFIG CHECKPOINT [SECTION.KEY=VALUE...]",
                                     "Evaluate a checkpoint on a split of the dataset of CONFIG. Prints step, loss and "
                                     "metrics; they do not depend on the number of ranks.",
                                     NULL,
                                     NULL,
                                     NULL};
    charl__cli_operands operands = {.names = {"CONFIG", "CHECKPOINT"}, .max = 2 + MAX_OVERRIDES};
    charl_config_override overrides[MAX_OVERRIDES] = {{NULL, NULL}};
    evaluation e = {.split = "val"};
    charl_status st;
    int code = charl__cli_parse(path, &argp, &operands, argc, argv, &e);

    if (code >= 0) {
        return code;
    }
    for (int i = 2; i < operands.count; i++) {
        overrides[i - 2].text = operands.values[i];
    }
    st = charl_config_load(operands.values[0], overrides, operands.count - 2, &e.config);
    if (st != CHARL_OK) {
        return charl__cli_fail_alike(st);
    }
    e.checkpoint = operands.values[1];
    code = charl__with_ranks(e.config, evaluate, &e, &argc, &argv);
    charl_config_destroy(e.config);
    return code;
}

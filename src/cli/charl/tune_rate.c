/* The range test of the learning rate (L. Smith, 2017): a short training whose rate grows by the same factor in each step.
 *
 *      rate   1e-7 ............... 1e-3 .......... 0.1 ........ 10
 *      loss   stays                falls           rises, or is not finite: the end
 *
 * The loss of a single batch is noisy, so the loss at a rate is the mean over the steps around it. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <charl/error.h>
#include <charl/train.h>
#include "cli/charl/commands.h"
#include "cli/cli_ranks.h"

enum { STEPS = 200, AROUND = 5, SHOWN = 8, BAR = 40, OWN = 9 };
#define LOWEST "1e-7"
#define HIGHEST "10"

typedef struct range_test {
    const char *path;
    charl_config_override override[CHARL__CLI_OVERRIDES + OWN];
    int n_overrides;
    bool verbose;
    double rate[STEPS], loss[STEPS];
    int n;
    atomic_int stop; /* the trainer takes it back when it has seen it */
    bool has_ended;  /* a step that was under way then does not count */
} range_test;

/* The mean loss around step i. */
static double smooth(const range_test *t, int i)
{
    const int first = i < AROUND ? 0 : i - AROUND, last = i + AROUND < t->n ? i + AROUND : t->n - 1;
    double sum = 0;

    for (int k = first; k <= last; k++) {
        sum += t->loss[k];
    }
    return sum / (last - first + 1);
}

/* The step with the lowest loss. */
static int lowest(const range_test *t)
{
    int best = 0;

    for (int i = 1; i < t->n; i++) {
        best = smooth(t, i) < smooth(t, best) ? i : best;
    }
    return best;
}

/* Whether the loss has risen by as much as it had fallen, and by half of what it was: noise does neither. */
static bool has_risen(const range_test *t)
{
    const double first = smooth(t, AROUND), least = smooth(t, lowest(t)), now = smooth(t, t->n - 1 - AROUND);

    return now > first + fmax(first - least, fabs(first) / 2);
}

/* Called for the same steps, with the same numbers, on all ranks. */
static charl_status on_trained(void *ctx, const charl_train_row *row)
{
    range_test *t = ctx;

    if (t->has_ended || t->n == STEPS) {
        return CHARL_OK;
    }
    if (isfinite(row->loss)) {
        t->rate[t->n] = row->lr;
        t->loss[t->n++] = row->loss;
    }
    if (!isfinite(row->loss) || (t->n > 4 * AROUND && has_risen(t))) {
        t->has_ended = true;
        atomic_store(&t->stop, CHARL_STOP_SAVE); /* a short training saves nothing */
    }
    return CHARL_OK;
}

static void print_losses(const range_test *t)
{
    const double least = smooth(t, lowest(t));
    double most = least;

    for (int i = 0; i < t->n; i++) {
        most = fmax(most, smooth(t, i));
    }
    printf("%-13s  loss\n", "learning rate");
    for (int i = 0; i < t->n; i += t->verbose ? 1 : SHOWN) {
        const double v = smooth(t, i);

        printf("%13.1e  %-9.4g ", t->rate[i], v);
        for (int k = most > least ? (int)lround(BAR * (v - least) / (most - least)) : 0; k > 0; k--) {
            putchar('#');
        }
        putchar('\n');
    }
}

/* A rate that is too high is worse than one that is too low, and the lowest loss is where steps have become too long: a tenth of that rate. */
static void print_suggestion(const range_test *t)
{
    const int best = lowest(t);

    if (t->n < STEPS / 8 || t->rate[best] < 1e-6 || !(smooth(t, best) < smooth(t, 0))) {
        printf("\nthe loss does not fall with any learning rate: no suggestion\n");
        return;
    }
    printf(
        "\nlowest loss %.4g at a learning rate of %.1e; a tenth of it is a good start:\n\n[optimizer]\nlearning_rate = "
        "%.1e\n",
        smooth(t, best), t->rate[best], t->rate[best] / 10);
}

static int train(void *ctx, charl_comm *comm)
{
    range_test *t = ctx;
    const charl_train_options options = {
        sizeof options, .comm = comm, .stop = &t->stop, .fast_dev_run = STEPS,
        .events = {.ctx = t, .compiling = charl__cli_compiling_show, .trained = on_trained}};
    charl_train_result result;
    charl_config *config = NULL;
    charl_status st;

    st = charl_comm_agree(comm, charl_config_load(t->path, t->override, t->n_overrides, &config));
    st = st == CHARL_OK ? charl_train_run(config, &options, &result) : st;
    charl_config_destroy(config);
    if (st != CHARL_OK) {
        return charl__ranks_fail(comm, st);
    }
    if (charl_comm_rank(comm) == 0) {
        charl__cli_compiling_done();
        print_losses(t);
        print_suggestion(t);
    }
    return CHARL__EXIT_OK;
}

int charl__tune_rate(const charl__cli_operands *operands, bool verbose, int *argc, char ***argv)
{
    static const char *const own[OWN] = {
        "scheduler.type=range_test", "scheduler.min_lr=" LOWEST, "optimizer.learning_rate=" HIGHEST,
        "scheduler.warmup_steps=0",  "train.max_steps=200",      "train.early_stopping_patience=0",
        "train.on_nonfinite=skip",   "eval.interval=0",          "log.interval=1"};
    static range_test t;
    charl_config *config = NULL;
    charl_status st;
    int code;

    t.path = operands->values[0];
    t.verbose = verbose;
    t.n_overrides = charl__cli_overrides(operands, 1, t.override);
    for (int i = 0; i < OWN; i++) {
        t.override[t.n_overrides++] = (charl_config_override){own[i], charl__cli_program()};
    }
    atomic_init(&t.stop, CHARL_STOP_NONE);
    st = charl_config_load(t.path, t.override, t.n_overrides, &config);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    code = charl__with_ranks(config, train, &t, argc, argv);
    charl_config_destroy(config);
    return code;
}

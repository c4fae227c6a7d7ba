/* charl-bench overlap: what reading ahead and the all-reduce during the backward pass gain over doing one after
 * another. */
#include <stdio.h>
#include <string.h>

#include <charl/error.h>
#include "bench/bench.h"
#include "cli/cli_ranks.h"

enum { WAYS = 3, SETTINGS = 2, ROWS = 5, TEXT = 32 };

/* A way to train; the last one is the default. */
typedef struct way {
    const char *name;
    char setting[SETTINGS][TEXT];
} way;

static const way ways[WAYS] = {{"one by one", {"data.prefetch=no", "dist.overlap=no"}},
                               {"input ahead", {"data.prefetch=yes", "dist.overlap=no"}},
                               {"overlapped", {"data.prefetch=yes", "dist.overlap=yes"}}};

typedef struct overlap {
    charl__cli_steps_config config;
    int64_t repeats, ms;
    charl__bench_format format;
} overlap;

static charl_status train(const overlap *o, charl_comm *comm, const way *w, charl__cli_steps *out)
{
    charl__cli_steps_config config = o->config;

    CHARL_REQUIRE(config.n + SETTINGS <= CHARL__CLI_OVERRIDES, CHARL_ERR_CONFIG, "too many settings");
    for (int i = 0; i < SETTINGS; i++) {
        config.override[config.n++] = (charl_config_override){w->setting[i], charl__cli_program()};
    }
    config.row_s = (double)o->ms * 1e-3;
    return charl__cli_steps_run(&config, comm, ROWS, NULL, 0, out);
}

/* Rounds of all ways in turn. One rank has no all-reduce: there are only the first and the last way. */
static charl_status measure(const overlap *o, charl_comm *comm)
{
    const int step = charl_comm_size(comm) > 1 ? 1 : WAYS - 1;
    charl__bench_subject subject[WAYS];
    double time[WAYS][CHARL__CLI_ROWS];
    charl__cli_steps found;
    int n = 0;
    const charl__bench_table table = {.bench = "overlap",
                                      .unit = "samples/s",
                                      .baseline = ways[0].name,
                                      .format = o->format,
                                      .ranks = charl_comm_size(comm),
                                      .prints = charl_comm_rank(comm) == 0};

    for (int r = 0; r < o->repeats; r++) {
        n = 0;
        for (int i = 0; i < WAYS; i += step, n++) {
            CHARL_TRY(train(o, comm, &ways[i], &found));
            time[n][r] = found.median_s;
            subject[n] = (charl__bench_subject){.name = ways[i].name, .amount = (double)found.batch * 1e9};
        }
    }
    for (int i = 0; i < n; i++) {
        subject[i].median_s = charl__cli_median(time[i], (int)o->repeats);
        subject[i].best_s = time[i][0]; /* sorted */
    }
    charl__bench_head(&table);
    charl__bench_rows(&table, o->config.path, found.batch, subject, n);
    return CHARL_OK;
}

static int run(void *ctx, charl_comm *comm)
{
    charl_status st = CHARL_OK;

    CHARL_TRY_CLEANUP(measure(ctx, comm));
cleanup:
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

int charl__bench_overlap_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"repeat", 'r', "N", "Trainings of each kind, of which the median counts (default: 3)", 0,
         CHARL__CLI_INT(overlap, repeats, 1, CHARL__CLI_ROWS)},
        {"ms", 'm', "N", "Length of a row of steps, of which there are five (default: 200)", 0,
         CHARL__CLI_INT(overlap, ms, 1, 60000)},
        CHARL__BENCH_FORMAT_OPTION(overlap),
        {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG [SECTION.KEY=VALUE...]",
        "Train the same steps in three ways, in turns: reading a batch, computing and the all-reduce one after "
        "another; batches read ahead (data.prefetch); and the all-reduce also during the backward pass (dist.overlap). "
        "One rank has no all-reduce, so the second is left out. Data that are on the device are not read: "
        "data.cache=none streams them. Nothing is written."};
    overlap o = {.repeats = 3, .ms = 200};

    return charl__bench_config_main(path, &syntax, argc, argv, &o, &o.config, run);
}

/* charl-bench data: how fast samples come from the file, without a model and a device. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <charl/config.h>
#include <charl/error.h>
#include <charl/loader.h>
#include "bench/bench.h"
#include "cli/cli_ranks.h"

typedef struct data_bench {
    charl__cli_steps_config command; /* the configuration as given */
    const charl_config *config;
    int64_t repeats, steps;
    charl__bench_format format;
} data_bench;

static charl_status run_step(void *ctx)
{
    charl_loader_batch batch;

    return charl_loader_next(ctx, &batch);
}

/* One order after another: a loader that is not measured would read ahead. */
static charl_status measure_order(const data_bench *b, charl_dataset *ds, charl_comm *comm, charl_shuffle order,
                                  charl__bench_subject *s)
{
    charl_status st = CHARL_OK;
    const int ranks = charl_comm_size(comm);
    const charl__bench_effort effort = {.repeats = (int)b->repeats, .calls = (int)b->steps};
    const charl_loader_options options = {
        sizeof options, .batch_size = (charl__cli_int(b->config, "train.batch_size") + ranks - 1) / ranks * ranks,
        .shuffle = order, .seed = (uint64_t)charl__cli_int(b->config, "run.seed")};
    charl_slices mine;
    charl_loader *loader = NULL;
    charl_loader_batch batch = {0};

    CHARL_TRY_CLEANUP(charl_slices_block(ranks, charl_comm_rank(comm), ranks, &mine));
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, charl_loader_create(ds, &mine, &options, &loader)));
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, charl_loader_next(loader, &batch)));
    s->run = run_step;
    s->ctx = loader;
    s->amount = (double)(batch.x_bytes + batch.y_bytes);
    CHARL_TRY_CLEANUP(charl__bench_measure(comm, s, 1, &effort));
cleanup:
    charl_loader_destroy(loader);
    return st;
}

static charl_status measure(const data_bench *b, charl_dataset *ds, charl_comm *comm)
{
    static const char *const names[] = {"in order", "shuffled", "in blocks"};
    enum { ORDERS = sizeof names / sizeof *names };
    const int ranks = charl_comm_size(comm);
    const int64_t rows = (charl__cli_int(b->config, "train.batch_size") + ranks - 1) / ranks;
    const charl__bench_table table = {
        .bench = "data", .unit = "GB/s", .format = b->format, .ranks = ranks, .prints = charl_comm_rank(comm) == 0};
    charl__bench_subject orders[ORDERS] = {{.name = names[0]}, {.name = names[1]}, {.name = names[2]}};
    charl_dataset_info info;

    charl_dataset_get_info(ds, &info);
    for (int i = 0; i < ORDERS; i++) {
        CHARL_TRY(measure_order(b, ds, comm, (charl_shuffle)i, &orders[i]));
    }
    charl__bench_note(&table, "%s: %" PRId64 " rows for each of %d rank%s per step; per rank:", info.path, rows, ranks,
                      ranks > 1 ? "s" : "");
    charl__bench_head(&table);
    charl__bench_rows(&table, charl_dataset_kind_name(info.kind), rows, orders, ORDERS);
    for (int i = 0; i < ORDERS; i++) {
        charl__bench_note(&table, "%s: %.6g rows/s", names[i], (double)rows / orders[i].median_s);
    }
    return CHARL_OK;
}

static int run(void *ctx, charl_comm *comm)
{
    charl_status st = CHARL_OK;
    data_bench *b = ctx;
    charl_config *config = NULL;
    charl_dataset *ds = NULL;

    CHARL_TRY_CLEANUP(
        charl_comm_agree(comm, charl_config_load(b->command.path, b->command.override, b->command.n, &config)));
    b->config = config;
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, charl_config_open_dataset(config, true, &ds)));
    CHARL_TRY_CLEANUP(measure(b, ds, comm));
cleanup:
    charl_dataset_close(ds);
    charl_config_destroy(config);
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

int charl__bench_data_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"repeat", 'r', "N", "Measurements, of which the median counts (default: 5)", 0,
         CHARL__CLI_INT(data_bench, repeats, 1, CHARL__CLI_ROWS)},
        {"steps", 's', "N", "Steps of a measurement (default: 50)", 0, CHARL__CLI_INT(data_bench, steps, 1, 1000000)},
        CHARL__BENCH_FORMAT_OPTION(data_bench),
        {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG [SECTION.KEY=VALUE...]",
        "Read training batches as a training with data.cache = none does, in order, shuffled, and shuffled in blocks, "
        "and print rows and GB per second and rank. Chunks that are in memory (data.read_cache_mb) are not decoded "
        "again, and files may be in memory too."};
    data_bench b = {.repeats = 5, .steps = 50};

    return charl__bench_config_main(path, &syntax, argc, argv, &b, &b.command, run);
}

/* charl-bench scaling: the time of a training step on other numbers of ranks, predicted from what
 * is measured here: the computing time of a rank with several shares of the batch, every rank for
 * itself but all at once, and the all-reduce. On several ranks the step itself is measured too. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/error.h>
#include <charl/device.h>
#include "bench/bench.h"
#include "cli/cli_steps.h"
#include "cli/cli_ranks.h"
#include "cli/cli_scaling.h"

enum { FEW_BYTES = 4096, MANY_BYTES = 25 << 20, SUMS = 20, ROWS = 6, CPU_ROUNDS = 3 };

static const double BACKWARD = 2.0 / 3; /* of the computing time: two products of three */
static const int COUNTS[] = {1, 2, 4, 8, 64, 512};

typedef struct link_option {
    bool given;
    charl__link link;
} link_option;

typedef struct scaling {
    charl__cli_steps_config config;
    link_option near, far;
    int64_t node, repeats; /* 0: by the devices */
    charl__bench_format format;
    /* found */
    charl__cli_steps here; /* on all ranks that there are */
    charl__compute_curve curve;
    charl__cluster cluster;
    int ranks;
} scaling;

/* A step on `ranks` ranks. */
typedef struct prediction {
    const char *kind;
    int ranks;
    double batch, compute_s, comm_s, exposed_s, step_s, efficiency;
} prediction;

/* An eighth of the slices, twice that, and so on to all of them. */
static void choose_shares(scaling *s)
{
    charl__compute_curve *c = &s->curve;
    const int all = s->here.slices;

    for (int share = all >= 8 ? all / 8 : 1; share < all; share *= 2) {
        c->slices[c->n++] = share;
    }
    c->slices[c->n++] = all;
}

static bool is_better(double found, double before)
{
    return before <= 0 || found < before;
}

/* The step on all ranks, and every share on every rank alone: all at once, with the memory traffic
 * of the neighbours. Of several rounds the best counts: a machine has quiet and busy times. */
static charl_status measure_round(scaling *s, charl_comm *comm, charl_comm *alone)
{
    charl_status st = CHARL_OK;
    charl__compute_curve *c = &s->curve;
    charl__cli_steps steps;

    CHARL_TRY(charl__cli_steps_run(&s->config, comm, ROWS, NULL, 0, &steps));
    if (is_better(steps.step_s, s->here.step_s)) {
        s->here = steps;
    }
    if (c->n == 0) {
        choose_shares(s);
    }
    for (int i = 0; i < c->n; i++) {
        st = charl__cli_steps_run(&s->config, alone, ROWS, &s->here, (int)c->slices[i], &steps);
        CHARL_TRY(charl_comm_agree(comm, st));
        CHARL_TRY(charl_comm_reduce_f64(comm, CHARL_COMM_MAX, &steps.step_s, 1));
        c->compute_s[i] = is_better(steps.step_s, c->compute_s[i]) ? steps.step_s : c->compute_s[i];
    }
    return st;
}

static charl_status measure_steps(scaling *s, charl_comm *comm)
{
    charl_status st = CHARL_OK;
    charl_team *team = NULL;
    charl_comm *alone = NULL;
    int64_t rounds;

    st = charl_team_create(1, &team);
    if (st == CHARL_OK) {
        st = charl_comm_create(&(charl_comm_options){sizeof(charl_comm_options), .team = team}, &alone);
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
    CHARL_TRY_CLEANUP(measure_round(s, comm, alone));
    rounds = s->repeats > 0 ? s->repeats : s->here.is_cpu ? CPU_ROUNDS : 1;
    CHARL_TRY_CLEANUP(charl_comm_reduce_i64(comm, CHARL_COMM_MAX, &rounds, 1));
    for (int64_t r = 1; r < rounds; r++) {
        CHARL_TRY_CLEANUP(measure_round(s, comm, alone));
    }
cleanup:
    charl_comm_destroy(alone);
    charl_team_destroy(team);
    return st;
}

static charl_status time_sum(charl_comm *comm, charl_allreduce *ar, int64_t bytes, double *out)
{
    charl__bench_sum sum = {.ar = ar, .count = bytes / (int64_t)sizeof(float)};
    charl__bench_subject subject = {.run = charl__bench_sum_run, .ctx = &sum};
    const charl__bench_effort effort = {.repeats = SUMS, .calls = bytes > FEW_BYTES ? 1 : 64};

    CHARL_TRY(charl__bench_measure(comm, &subject, 1, &effort));
    *out = subject.best_s;
    return CHARL_OK;
}

/* The link that the ranks here are joined by: within a node, or between several. */
static link_option *link_here(scaling *s, const charl_comm *comm)
{
    return charl_comm_node_count(comm) > 1 ? &s->far : &s->near;
}

static charl_status check_link(scaling *s, charl_comm *comm)
{
    CHARL_REQUIRE(s->ranks > 1 || link_here(s, comm)->given, CHARL_ERR_CONFIG,
                  "one rank cannot measure a link; HINT mpirun -n 2 charl-bench scaling CONFIG, or "
                  "--near=LATENCY_US,GB_PER_S");
    return CHARL_OK;
}

/* Of the all-reduce that training takes: between GPUs that is one of their own. */
static charl_status measure_link(scaling *s, charl_comm *comm)
{
    charl_status st = CHARL_OK;
    const int nodes = charl_comm_node_count(comm);
    charl_allreduce_options options = {sizeof options, .algorithm = "auto", .reduce_dtype = CHARL_F32};
    charl_allreduce *ar = NULL;
    charl_device *dev = NULL;
    charl_slices mine;
    char select[16];
    double few_s = 0, many_s = 0;

    if (link_here(s, comm)->given) {
        goto cleanup;
    }
    snprintf(select, sizeof select, "%d", s->here.device);
    if (!s->here.is_cpu) {
        st = charl_device_open(&(charl_device_request){sizeof(charl_device_request), .select = select, .exact = true,
                                                       .share = true, .compiling = charl__cli_compiling_show},
                               &dev);
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
    options.device = dev;
    CHARL_TRY_CLEANUP(charl_slices_block(s->ranks, charl_comm_rank(comm), s->ranks, &mine));
    CHARL_TRY_CLEANUP(charl_allreduce_create(comm, MANY_BYTES / 4, &mine, &options, &ar));
    CHARL_TRY_CLEANUP(time_sum(comm, ar, FEW_BYTES, &few_s));
    CHARL_TRY_CLEANUP(time_sum(comm, ar, MANY_BYTES, &many_s));
    *link_here(s, comm) =
        (link_option){true, charl__scaling_fit(nodes > 1 ? nodes : s->ranks, FEW_BYTES, few_s, MANY_BYTES, many_s)};
cleanup:
    charl_allreduce_destroy(ar);
    charl_device_close(dev);
    return st;
}

/* `share` slices on each of `ranks` ranks. */
static prediction predict(const scaling *s, const char *kind, int ranks, double share)
{
    const charl__cli_steps *h = &s->here;
    const double element = h->bf16 ? 2 : 4, bytes = (double)h->gradients * element;
    const double last = h->overlaps ? (double)h->last_gradients * element : 0;
    const double buckets = h->overlaps ? (bytes - last) / h->bucket : 1;
    const double alone_s = charl__scaling_compute_s(&s->curve, h->slices);
    const charl__step_work w = {.compute_s = charl__scaling_compute_s(&s->curve, share),
                                .bytes = bytes,
                                .last = last,
                                .buckets = buckets > 1 ? (int)(buckets + 0.999) : 1,
                                .backward = h->overlaps && !h->is_cpu ? BACKWARD : 0};
    prediction p = {
        .kind = kind, .ranks = ranks, .batch = (double)h->batch / h->slices * share * ranks, .compute_s = w.compute_s};

    if (strcmp(kind, "strong") == 0) {
        p.batch = (double)h->batch; /* the last rank may have a smaller share */
    }
    p.comm_s = charl__scaling_allreduce_s(&s->cluster, ranks, bytes);
    p.exposed_s = charl__scaling_exposed_s(&s->cluster, ranks, &w);
    p.step_s = p.compute_s + p.exposed_s;
    p.efficiency = p.batch / p.step_s / ((double)h->batch / alone_s) / ranks;
    return p;
}

static void print_prediction(const scaling *s, const prediction *p)
{
    const double rate = p->batch / p->step_s;
    const bool here = p->ranks == s->ranks && s->ranks > 1 && strcmp(p->kind, "strong") == 0;
    const double error = here ? p->step_s / s->here.step_s - 1 : 0;
    char measured[96] = "";

    switch (s->format) {
    case CHARL__BENCH_TABLE:
        if (here) {
            snprintf(measured, sizeof measured, "  measured %.3f (%.3f exposed), error %+.1f %%", s->here.step_s * 1e3,
                     s->here.exposed_s * 1e3, error * 100);
        }
        printf("%-6s %5d %9.0f %11.3f %9.3f %10.3f %9.3f %12.0f %9.1f %%%s\n", p->kind, p->ranks, p->batch,
               p->compute_s * 1e3, p->comm_s * 1e3, p->exposed_s * 1e3, p->step_s * 1e3, rate, p->efficiency * 100,
               measured);
        break;
    case CHARL__BENCH_CSV:
        if (here) {
            snprintf(measured, sizeof measured, "%.9g,%.4g", s->here.step_s, error);
        }
        printf("%s,%d,%.0f,%.9g,%.9g,%.9g,%.9g,%.6g,%.6g,%s\n", p->kind, p->ranks, p->batch, p->compute_s, p->comm_s,
               p->exposed_s, p->step_s, rate, p->efficiency, here ? measured : ",");
        break;
    case CHARL__BENCH_JSONL:
        if (here) {
            snprintf(measured, sizeof measured, ",\"measured_s\":%.9g,\"error\":%.4g", s->here.step_s, error);
        }
        printf("{\"bench\":\"scaling\",\"kind\":\"%s\",\"ranks\":%d,\"batch\":%.0f,\"compute_s\":%."
               "9g,\"comm_s\":%.9g,\"exposed_s\":%.9g,\"step_s\":%.9g,\"samples_per_s\":%.6g,"
               "\"efficiency\":%.6g%s}\n",
               p->kind, p->ranks, p->batch, p->compute_s, p->comm_s, p->exposed_s, p->step_s, rate, p->efficiency,
               measured);
        break;
    }
}

static void print_head(const scaling *s, const charl__bench_table *t)
{
    const charl__cli_steps *h = &s->here;

    charl__bench_note(t,
                      "%s: %" PRId64 " parameters, batch %" PRId64 " = %d slices; measured on %d "
                      "rank%s",
                      s->config.path, h->parameters, h->batch, h->slices, s->ranks, s->ranks > 1 ? "s" : "");
    for (int i = 0; i < s->curve.n; i++) {
        charl__bench_note(t, "  a rank computes %.0f slices in %.3f ms", s->curve.slices[i],
                          s->curve.compute_s[i] * 1e3);
    }
    if (s->near.given) {
        charl__bench_note(t, "  in a node of %d: %.2f us, %.3f GB/s", s->cluster.node, s->near.link.alpha_s * 1e6,
                          1e-9 / s->near.link.beta_s);
    }
    if (s->far.given) {
        charl__bench_note(t, "  between nodes: %.2f us, %.3f GB/s", s->far.link.alpha_s * 1e6,
                          1e-9 / s->far.link.beta_s);
    } else {
        charl__bench_note(t, "  more than a node: --far=LATENCY_US,GB_PER_S");
    }
    if (s->format == CHARL__BENCH_TABLE) {
        printf("%-6s %5s %9s %11s %9s %10s %9s %12s %11s\n", "batch", "ranks", "samples", "compute ms", "comm ms",
               "exposed ms", "step ms", "samples/s", "efficiency");
    } else if (s->format == CHARL__BENCH_CSV) {
        printf("kind,ranks,batch,compute_s,comm_s,exposed_s,step_s,samples_per_s,efficiency,"
               "measured_s,error\n");
    }
}

static void print_all(const scaling *s, const charl__bench_table *t)
{
    const int slices = s->here.slices, n = (int)(sizeof COUNTS / sizeof COUNTS[0]);
    bool done = false; /* the ranks that there are */

    print_head(s, t);
    for (int i = 0; i < n; i++) {
        const int ranks = !done && s->ranks < COUNTS[i] ? s->ranks : COUNTS[i];
        prediction p;

        i -= ranks != COUNTS[i]; /* a number between two of the list */
        done = done || ranks >= s->ranks;
        if (ranks > slices || (ranks > s->cluster.node && !s->far.given)) {
            break;
        }
        p = predict(s, "strong", ranks, (slices + ranks - 1) / ranks);
        print_prediction(s, &p);
    }
    for (int i = 0; i < n && (COUNTS[i] <= s->cluster.node || s->far.given); i++) {
        const prediction p = predict(s, "weak", COUNTS[i], slices);

        print_prediction(s, &p);
    }
}

static int scaling_run(void *ctx, charl_comm *comm)
{
    charl_status st = CHARL_OK;
    scaling *s = ctx;
    const charl__bench_table table = {.format = s->format, .prints = charl_comm_rank(comm) == 0};

    s->ranks = charl_comm_size(comm);
    CHARL_TRY_CLEANUP(check_link(s, comm));
    CHARL_TRY_CLEANUP(measure_steps(s, comm));
    CHARL_TRY_CLEANUP(measure_link(s, comm));
    if (s->node == 0) {
        s->node = charl_comm_local_size(comm) > 8 ? charl_comm_local_size(comm) : 8;
    }
    s->cluster = (charl__cluster){s->near.link, s->far.link, (int)s->node};
    if (table.prints) {
        print_all(s, &table);
    }
cleanup:
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

/* LATENCY_US,GB_PER_S */
static error_t parse_link(link_option *out, const char *option, const char *value)
{
    char *end = NULL;
    const double us = strtod(value, &end), rate = *end == ',' ? strtod(end + 1, &end) : 0;

    if (*end != '\0' || !(us >= 0) || !(rate > 0)) {
        return charl__cli_bad_option(option, value, "must be microseconds and GB per second, as 5,25");
    }
    *out = (link_option){true, {us * 1e-6, 1e-9 / rate}};
    return 0;
}

static error_t parse_near(void *input, const char *option, const char *value)
{
    return parse_link(&((scaling *)input)->near, option, value);
}

static error_t parse_far(void *input, const char *option, const char *value)
{
    return parse_link(&((scaling *)input)->far, option, value);
}

int charl__bench_scaling_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"near", 0, "US,GB/S", "Link between the ranks of a node: latency in us and bandwidth (default: measured)", 0,
         .parse = parse_near},
        {"far", 0, "US,GB/S", "Link of a node to others (default: measured where there are several)", 0,
         .parse = parse_far},
        {"node", 0, "N", "Ranks per node to predict for (default: 8, or those here)", 0,
         CHARL__CLI_INT(scaling, node, 1, 1024)},
        {"repeat", 'r', "N", "Rounds of measurements, of which the best counts (default: 3 on processors, 1 on GPUs)",
         0, CHARL__CLI_INT(scaling, repeats, 1, 1000)},
        CHARL__BENCH_FORMAT_OPTION(scaling),
        {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG [SECTION.KEY=VALUE...]",
        "Predict the time of a training step on 1 to 512 ranks from measured computing times and link rates, for the "
        "configured batch (strong) and for one such batch per rank (weak). Under mpirun the step is measured too, and "
        "the prediction compared with it. Nothing is written."};
    scaling s = {0};

    return charl__bench_config_main(path, &syntax, argc, argv, &s, &s.config, scaling_run);
}

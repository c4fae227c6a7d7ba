/* charl plan: memory, time, traffic, energy and cost of a training on a cluster that need not be here. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/report.h>
#include <charl/train.h>
#include "cli/charl/commands.h"
#include "cli/charl/plan.h"
#include "cli/cli_ranks.h"
#include "cli/cli_scaling.h"
#include "cli/cli_steps.h"

enum { MODES = 4, COLUMNS = 8, CELL_BYTES = 32, SETTING_BYTES = 64, ROWS = 6 };

static const double BACKWARD = 3.0 / 4; /* of the computing time, activations recomputed */
static const char *const modes[MODES] = {"none", "optimizer", "gradients", "parameters"};

/* A kind of device. What is here was measured in training, or is the maker's: docs/distributed.md says where. */
typedef struct device_row {
    const char *name;
    double memory, watts;           /* bytes; at its limit */
    double half_rate, single_rate;  /* floating-point operations per second of a step */
    double near_rate;               /* bytes per second of an all-reduce in a node */
    double host_rate, message_rate; /* as in charl__sharded_cluster */
} device_row;

static const device_row devices[] = {
    {"H200", 141e9, 700, 423e12, 46e12, 343e9, 55e9, 2.4e9},
};

typedef struct request {
    charl__cli_steps_config config;
    int64_t nodes, per_node;
    const char *device, *run;
    bool largest_batch;
    double memory_gb, tflops, watts, price, near_gbs, far_gbs; /* 0: not given */
} request;

/* What is planned. */
typedef struct plan {
    const request *request;
    const charl_config *config;
    device_row device;
    int ranks, share; /* slices of a rank */
    charl_memory_plan kept;
    charl_train_info whole, rank; /* a step of all ranks, of one; their pointers are not used */
    double compute_s, element;    /* element: bytes of a gradient */
    int here;                     /* the device that is timed */
    bool is_measured;             /* compute_s, here */
} plan;

/* The events of a dry run have one ctx. */
typedef struct dry {
    charl_train_info info;
    int device; /* its index: info's pointers end with the run */
    charl_memory_plan kept;
} dry;

static charl_status on_started(void *ctx, const charl_train_info *info)
{
    ((dry *)ctx)->info = *info;
    ((dry *)ctx)->device = info->device->index;
    return CHARL_OK;
}

static charl_status on_memory(void *ctx, const charl_memory *m)
{
    if (m->n_plans > 0) {
        ((dry *)ctx)->kept = m->plan[0];
    }
    return CHARL_OK;
}

/* share 0: as configured; else of so many slices, on the planned cluster. */
static charl_status run_dry(const plan *p, charl_comm *comm, int share, dry *out)
{
    charl_config_override all[CHARL__CLI_OVERRIDES + 2];
    const charl__cli_steps_config *c = &p->request->config;
    const charl_train_options options = {
        sizeof options,
        .comm = comm,
        .dry_run = true,
        .skip_kernels = true,
        .overwrite = true,
        .planned = {.device_bytes = INT64_C(1) << 60,
                    .ranks = share > 0 ? p->ranks : 0,
                    .node = (int)p->request->per_node},
        .events = {.ctx = out, .compiling = charl__cli_compiling_show, .started = on_started, .memory = on_memory}};
    char text[2][SETTING_BYTES];
    charl_config *config = NULL;
    charl_train_result result;
    charl_status st;
    int n = c->n;

    memcpy(all, c->override, (size_t)n * sizeof *all);
    if (share > 0) {
        snprintf(text[0], SETTING_BYTES, "train.slices=%d", share);
        snprintf(text[1], SETTING_BYTES, "train.batch_size=%" PRId64, p->whole.batch_size / p->whole.slices * share);
        all[n++] = (charl_config_override){text[0], charl__cli_program()};
        all[n++] = (charl_config_override){text[1], charl__cli_program()};
    }
    *out = (dry){0};
    CHARL_TRY(charl_config_load(c->path, all, n, &config));
    st = charl_train_run(config, &options, &result);
    charl_config_destroy(config);
    return st;
}

/* The device: its row, and the options of the command line. */
static charl_status choose_device(plan *p)
{
    const request *r = p->request;

    for (size_t i = 0; r->device && i < sizeof devices / sizeof *devices; i++) {
        if (strcmp(r->device, devices[i].name) == 0) {
            p->device = devices[i];
        }
    }
    CHARL_REQUIRE(!r->device || p->device.name || (r->tflops > 0 && r->memory_gb > 0), CHARL_ERR_CONFIG,
                  "--device %s: charl has measured H200 only; HINT --tflops and --memory describe another device, and "
                  "--watts and "
                  "--near",
                  r->device);
    p->device.name = r->device ? r->device : "devices as here";
    p->device.memory = r->memory_gb > 0 ? r->memory_gb * 1e9 : p->device.memory;
    p->device.watts = r->watts > 0                                    ? r->watts
                      : charl__cli_number(p->config, "run.power") > 0 ? charl__cli_number(p->config, "run.power")
                                                                      : p->device.watts;
    p->device.near_rate = r->near_gbs > 0 ? r->near_gbs * 1e9 : p->device.near_rate;
    CHARL_REQUIRE(r->per_node == 1 || p->device.near_rate > 0, CHARL_ERR_CONFIG,
                  "the rate of an all-reduce between the %" PRId64
                  " devices of a node is not known; HINT --near GB/S, as "
                  "`charl-bench allreduce` measures it",
                  r->per_node);
    p->device.host_rate = p->device.host_rate > 0 ? p->device.host_rate : p->device.near_rate;
    p->device.message_rate = p->device.message_rate > 0 ? p->device.message_rate : p->device.near_rate;
    return CHARL_OK;
}

/* Seconds that a rank computes in a step: by the rate of the device, or measured on the one here. */
static charl_status find_compute(plan *p, charl_comm *comm)
{
    const request *r = p->request;
    const bool is_half = strcmp(charl__cli_text(p->config, "train.precision"), "f32") != 0;
    const double rate = r->tflops > 0 ? r->tflops * 1e12 : is_half ? p->device.half_rate : p->device.single_rate;
    const charl__cli_steps whole = {.batch = p->whole.batch_size, .slices = p->whole.slices, .device = p->here};
    charl__cli_steps found;

    if (rate > 0) {
        p->compute_s = p->rank.flop / rate;
        return CHARL_OK;
    }
    CHARL_TRY(charl__cli_steps_run(&r->config, comm, ROWS, &whole, p->share, &found));
    p->compute_s = found.step_s;
    p->is_measured = true;
    return CHARL_OK;
}

static void put_bytes(char *text, double v)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int u = 0;

    for (; v >= 999.5 && u < 5; u++) {
        v /= 1000;
    }
    snprintf(text, CELL_BYTES, u == 0 || v >= 99.95 ? "%.0f %s" : v >= 9.995 ? "%.1f %s" : "%.2f %s", v, units[u]);
}

static void put_duration(char *text, double s)
{
    snprintf(text, CELL_BYTES,
             s < 0.9995   ? "%.3g ms"
             : s < 120    ? "%.3g s"
             : s < 7200   ? "%.3g min"
             : s < 172800 ? "%.3g h"
                          : "%.3g d",
             s < 0.9995   ? s * 1e3
             : s < 120    ? s
             : s < 7200   ? s / 60
             : s < 172800 ? s / 3600
                          : s / 86400);
}

/* Time, energy and cost of `hours`, into cells. */
static void put_totals(double hours, double kwh, double cost, char (*cell)[CELL_BYTES])
{
    put_duration(cell[0], hours * 3600);
    snprintf(cell[1], CELL_BYTES, kwh > 0 ? "%.3g kWh" : "-", kwh);
    snprintf(cell[2], CELL_BYTES, cost > 0 ? "%.4g" : "-", cost);
}

static double price_of(const plan *p)
{
    return p->request->price > 0 ? p->request->price : charl__cli_number(p->config, "run.price");
}

static charl__sharded_cluster cluster_of(const plan *p)
{
    const double far = p->request->far_gbs > 0 ? p->request->far_gbs : 25;
    const double near_s = p->device.near_rate > 0 ? 1 / p->device.near_rate : 0;

    return (charl__sharded_cluster){.links = {{0, near_s}, {5e-6, 1e-9 / far}, (int)p->request->per_node},
                                    .host = p->device.host_rate,
                                    .messages = p->device.message_rate};
}

static double step_s(const plan *p, int mode)
{
    const charl__sharded_cluster c = cluster_of(p);
    const double bytes = (double)p->whole.gradients * p->element;
    const double buckets = ceil(bytes / (charl__cli_number(p->config, "dist.bucket_mb") * 1048576));
    const bool overlaps = charl__cli_int(p->config, "dist.overlap") != 0;
    const double offloaded = (double)p->kept.host_bytes[mode]; /* read and written at the same time, after the sums */
    const charl__step_work w = {.compute_s = p->compute_s,
                                .bytes = bytes,
                                .buckets = overlaps && buckets > 1 ? (int)buckets : 1,
                                .backward = overlaps ? BACKWARD : 0};

    return charl__scaling_step_s(&c, p->ranks, (charl_shard)mode, &w, p->whole.layers) +
           (offloaded > 0 && c.host > 0 ? offloaded / c.host : 0);
}

static void fill_row(const plan *p, int mode, char (*cell)[CELL_BYTES])
{
    const charl__sharded_cluster c = cluster_of(p);
    const double s = step_s(p, mode), hours = s * (double)p->whole.steps / 3600, device_hours = hours * p->ranks;
    const bool fits = p->device.memory <= 0 || (double)p->kept.bytes[mode] <= p->device.memory;

    snprintf(cell[0], CELL_BYTES, "%s", modes[mode]);
    if (p->kept.bytes[mode] == 0) {
        snprintf(cell[1], CELL_BYTES, "not possible");
        return;
    }
    put_bytes(cell[1], (double)p->kept.bytes[mode]);
    put_bytes(cell[2],
              charl__scaling_traffic(&c, p->ranks, (charl_shard)mode, (double)p->whole.gradients * p->element));
    if (!fits) {
        snprintf(cell[3], CELL_BYTES, "does not fit");
        return;
    }
    put_duration(cell[3], s);
    put_totals(hours, device_hours * p->device.watts / 1e3, device_hours * price_of(p), cell + 4);
    if (p->kept.host_bytes[mode] > 0) {
        put_bytes(cell[COLUMNS - 1], (double)p->kept.host_bytes[mode]);
    }
}

/* The run, and how far it is from the plan of its dist.shard. */
static charl_status fill_run(const plan *p, char (*cell)[CELL_BYTES], char *text, size_t size)
{
    const char *shard = charl__cli_text(p->config, "dist.shard");
    charl_run_summary s;

    CHARL_TRY(charl_report_summarize(p->request->run, &s));
    snprintf(cell[0], CELL_BYTES, "measured");
    put_bytes(cell[1], (double)s.mem_bytes);
    put_duration(cell[3], s.step_ms / 1e3);
    put_totals(s.time_s / 3600, isnan(s.energy_kwh) ? 0 : s.energy_kwh, isnan(s.cost) ? 0 : s.cost, cell + 4);
    text[0] = '\0';
    for (int m = 0; m < MODES; m++) {
        if (strcmp(shard, modes[m]) == 0 && p->kept.bytes[m] > 0 && s.step_ms > 0) {
            const double planned_s = step_s(p, m) * (double)s.step;

            snprintf(text, size,
                     "measured against dist.shard = %s: memory %+.1f %%, step %+.1f %%, time of %" PRId64
                     " steps %+.1f %%",
                     shard, 100 * ((double)s.mem_bytes / (double)p->kept.bytes[m] - 1),
                     100 * (s.step_ms / 1e3 / step_s(p, m) - 1), s.step, 100 * (s.time_s / planned_s - 1));
        }
    }
    return CHARL_OK;
}

static void print_head(const plan *p)
{
    const request *r = p->request;
    const double count = (double)(p->whole.parameters + p->whole.frozen_parameters);
    char rank[CELL_BYTES];

    put_duration(rank, p->compute_s);
    printf("%s: %.4g %s parameters, batch %" PRId64 " in %d slice%s, %" PRId64 " steps\n", r->config.path,
           count / (count < 1e9 ? 1e6 : 1e9), count < 1e9 ? "million" : "billion", p->whole.batch_size, p->whole.slices,
           p->whole.slices == 1 ? "" : "s", p->whole.steps);
    printf("%" PRId64 " node%s of %" PRId64 " %s: a rank computes %d slice%s in %s, %s\n", r->nodes,
           r->nodes == 1 ? "" : "s", r->per_node, p->device.name, p->share, p->share == 1 ? "" : "s", rank,
           p->is_measured ? "measured here" : "by the rate of the device");
    if (p->device.watts > 0) {
        printf("energy: an estimate, at %g W per device\n", p->device.watts);
    }
    if (r->nodes > 1) {
        printf("nodes: %g GB/s each%s\n", r->far_gbs > 0 ? r->far_gbs : 25,
               r->far_gbs > 0 ? "" : ", which is assumed (--far)");
    }
    putchar('\n');
}

static charl_status print_plan(const plan *p)
{
    const char *const heads[COLUMNS] = {
        "dist.shard", "memory", "sent by a node", "step",
        "time",       "energy", "cost",           p->kept.host_bytes[0] > 0 ? "host memory" : ""};
    char cell[MODES + 2][COLUMNS][CELL_BYTES] = {0}, text[160] = "";
    const int modes_shown = p->ranks > 1 ? MODES : 1;
    int width[COLUMNS] = {0}, rows = 1;

    for (int c = 0; c < COLUMNS; c++) {
        snprintf(cell[0][c], CELL_BYTES, "%s", heads[c]);
    }
    for (int m = 0; m < modes_shown; m++) {
        fill_row(p, m, cell[rows++]);
    }
    if (p->request->run) {
        CHARL_TRY(fill_run(p, cell[rows++], text, sizeof text));
    }
    print_head(p);
    for (int i = 0; i < rows; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            width[c] = (int)strlen(cell[i][c]) > width[c] ? (int)strlen(cell[i][c]) : width[c];
        }
    }
    for (int i = 0; i < rows; i++) {
        int last = COLUMNS - 1;

        while (!cell[i][last][0]) {
            last--;
        }
        printf("%-*s", width[0], cell[i][0]);
        for (int c = 1; c <= last; c++) {
            printf("  %*s", width[c], cell[i][c]);
        }
        putchar('\n');
    }
    if (text[0]) {
        printf("\n%s\n", text);
    }
    return CHARL_OK;
}

static charl_status make_plan(plan *p, charl_comm *comm)
{
    dry found;

    CHARL_REQUIRE(charl_comm_size(comm) == 1, CHARL_ERR_CONFIG,
                  "charl plan runs in one process; HINT leave out mpirun: --nodes says what is planned");
    CHARL_TRY(choose_device(p));
    CHARL_TRY(run_dry(p, comm, 0, &found));
    p->whole = found.info;
    p->here = found.device;
    CHARL_REQUIRE(
        p->whole.slices >= p->ranks, CHARL_ERR_CONFIG,
        "%d devices need as many slices, and train.slices is %d; HINT train.slices=%d, and a train.batch_size "
        "that it divides",
        p->ranks, p->whole.slices, p->ranks);
    p->share = (p->whole.slices + p->ranks - 1) / p->ranks;
    CHARL_TRY(run_dry(p, comm, p->share, &found));
    p->rank = found.info;
    p->kept = found.kept;
    p->element = strcmp(charl__cli_text(p->config, "dist.reduce_dtype"), "bf16") == 0 ? 2 : 4;
    CHARL_TRY(find_compute(p, comm));
    charl__cli_compiling_done();
    return print_plan(p);
}

static int run_plan(void *ctx, charl_comm *comm)
{
    plan *p = ctx;
    const request *r = p->request;
    const charl_status st =
        r->largest_batch ? charl__plan_largest_batch(&r->config, comm, r->memory_gb * 1e9) : make_plan(p, comm);

    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

/* "2x8", or "8": devices of one node */
static error_t parse_nodes(void *input, const char *option, const char *value)
{
    request *r = input;
    char *end = NULL;
    long a = strtol(value, &end, 10), b = 0;

    if (*end == 'x') {
        b = strtol(end + 1, &end, 10);
    } else {
        b = a;
        a = 1;
    }
    if (*end != '\0' || a < 1 || b < 1 || a > 4096 || b > 4096 || a * b > 4096) {
        return charl__cli_bad_option(option, value, "must be NODESxDEVICES, as 2x8, of at most 4096 devices");
    }
    r->nodes = a;
    r->per_node = b;
    return 0;
}

int charl__plan_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"nodes", 'n', "NxD", "N nodes of D devices (default: one device)", 0, .parse = parse_nodes},
        {"device", 'd', "NAME", "Kind of the devices: H200 (default: that of this machine, whose steps are timed)", 0,
         CHARL__CLI_TEXT(request, device)},
        {"largest-batch", 'b', NULL,
         "Print instead the largest train.batch_size that fits a device in one pass, without recomputation", 0,
         CHARL__CLI_FLAG(request, largest_batch)},
        {"price", 'p', "PRICE", "Price of a device and hour (default: run.price)", 0,
         CHARL__CLI_NUMBER(request, price, "(0,inf)")},
        {"run", 'r', "RUN", "Compare the plan with what a run has measured", 0, CHARL__CLI_TEXT(request, run)},
        {"memory", 0, "GB", "Memory of a device, in 10^9 bytes", 1, CHARL__CLI_NUMBER(request, memory_gb, "(0,inf)")},
        {"tflops", 0, "RATE", "10^12 floating-point operations per second that a device reaches in training", 1,
         CHARL__CLI_NUMBER(request, tflops, "(0,inf)")},
        {"watts", 0, "W", "Power of a device (default: run.power)", 1, CHARL__CLI_NUMBER(request, watts, "(0,inf)")},
        {"near", 0, "GB/S", "Rate of an all-reduce within a node", 1, CHARL__CLI_NUMBER(request, near_gbs, "(0,inf)")},
        {"far", 0, "GB/S", "Rate of a node's link to others (default: 25)", 1,
         CHARL__CLI_NUMBER(request, far_gbs, "(0,inf)")},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG [SECTION.KEY=VALUE...]",
        "Plan a training on a cluster: the memory of a device, the bytes that a node sends per step, the time of a "
        "step, "
        "and time, energy and cost of all steps, for each dist.shard. Nothing is trained, except a few steps to time "
        "this machine's device where --device and --tflops are not given, and nothing is written.\vThe memory is that "
        "of charl's own planner, for devices of any size. Time and traffic are computed from rates "
        "(docs/distributed.md); the energy is an estimate at full power. Evaluations and checkpoints are left out."};
    charl__cli_operands operands = {.names = {"CONFIG"}, .max = 1 + CHARL__CLI_OVERRIDES};
    request r = {.nodes = 1, .per_node = 1};
    charl_config *config = NULL;
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);
    plan p = {.request = &r};

    if (code >= 0) {
        return code;
    }
    if (r.largest_batch && (r.nodes * r.per_node > 1 || r.device || r.run)) {
        return charl__cli_error(CHARL__EXIT_USAGE, "on N devices without dist.shard it is N times as large",
                                "--largest-batch is of one device: leave out --nodes, --device and --run");
    }
    st = charl__cli_steps_config_read(&operands, &r.config, &config);
    if (st != CHARL_OK) {
        return charl__cli_fail_alike(st);
    }
    p.config = config;
    p.ranks = (int)(r.nodes * r.per_node);
    code = charl__with_ranks(config, run_plan, &p, &argc, &argv);
    charl_config_destroy(config);
    return code;
}

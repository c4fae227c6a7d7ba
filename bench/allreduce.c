/* charl-bench allreduce: the sum of gradients over ranks, by every algorithm that works on them,
 * beside MPI_Allreduce and NCCL in the same run. Before anything is timed the sums of small whole
 * numbers, exact in any order, are checked. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/error.h>
#include "bench/bench.h"
#include "cli/cli_ranks.h"
#include "bench/baseline_allreduce.h"

enum { MOST = 16 };

static const int64_t CALLS_BYTES = 1 << 20; /* shorter sums are called more times per sample */

typedef struct bench_options {
    int64_t min, max, step, repeats, slices;
    const char *only; /* comma-separated names, or NULL */
    charl__bench_format format;
} bench_options;

/* One of charl's algorithms or a baseline. */
typedef struct summer {
    charl__bench_sum sum;
    int64_t ticket; /* of the last sum that has been begun on the devices */
    charl__baseline *baseline;
    bool on_device; /* of algorithms that run on the devices */
} summer;

typedef struct bench {
    const bench_options *o;
    charl_comm *comm;
    charl_device *dev; /* NULL: this rank has no GPU */
    charl__bench_table table;
    charl_slices mine;
    summer summer[MOST];
    charl__bench_subject subject[MOST];
    int n;
    float *values; /* of the largest size */
} bench;

/* What runs on devices is waited for at the end of a row. */
static charl_status run_baseline(void *ctx)
{
    const summer *s = ctx;

    return charl__baseline_sum(s->baseline, s->sum.count);
}

static charl_status wait_baseline(void *on)
{
    const summer *s = on;

    return charl__baseline_wait(s->baseline);
}

static charl_status run_on_device(void *ctx)
{
    summer *s = ctx;

    return charl_allreduce_begin(s->sum.ar, 0, s->sum.count, &s->ticket);
}

static charl_status wait_on_device(void *on)
{
    const summer *s = on;

    return charl_allreduce_wait(s->sum.ar, s->ticket);
}

static bool is_wanted(const bench_options *o, const char *name)
{
    const size_t length = strlen(name);

    for (const char *p = o->only; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        if (strncmp(p, name, length) == 0 && (p[length] == ',' || p[length] == '\0')) {
            return true;
        }
    }
    return !o->only;
}

/* By the GPUs of the ranks. On CPU devices it exists for tests: only if --only asks for it. */
static charl_status add_peer(bench *b, int64_t n, const charl_allreduce_options *options)
{
    charl_status st = CHARL_OK;
    summer *s = &b->summer[b->n];

    st = charl_allreduce_create(b->comm, n, &b->mine, options, &s->sum.ar);
    if (st == CHARL_ERR_CONFIG) { /* the same on all ranks */
        charl__bench_note(&b->table, "peer: not available: %s", charl_error_message());
        charl_error_clear();
        return CHARL_OK;
    }
    CHARL_TRY(st);
    s->on_device = true;
    b->subject[b->n++].name = "peer";
    return st;
}

static charl_status add_algorithms(bench *b, int64_t n)
{
    charl_allreduce_options options = {sizeof options, .reduce_dtype = CHARL_F32, .device = b->dev};
    const char *name, *why;

    for (int i = 0; (name = charl_allreduce_algorithm(b->comm, i, &why)) != NULL; i++) {
        if (!is_wanted(b->o, name) || strcmp(name, "local") == 0) {
            continue;
        }
        if (why) {
            charl__bench_note(&b->table, "%s: not available: %s", name, why);
            continue;
        }
        assert(b->n < MOST);
        options.algorithm = name;
        if (strcmp(name, "peer") == 0) {
            CHARL_TRY(add_peer(b, n, &options));
            continue;
        }
        CHARL_TRY(charl_allreduce_create(b->comm, n, &b->mine, &options, &b->summer[b->n].sum.ar));
        b->subject[b->n++].name = name;
    }
    return CHARL_OK;
}

static charl_status add_baselines(bench *b, int64_t n)
{
    const char *name;
    char why[CHARL__BASELINE_WHY];

    for (int i = 0; (name = charl__baseline_name(i)) != NULL; i++) {
        if (!is_wanted(b->o, name)) {
            continue;
        }
        assert(b->n < MOST);
        CHARL_TRY(charl__baseline_create(b->comm, i, n, &b->summer[b->n].baseline, why));
        if (!b->summer[b->n].baseline) {
            charl__bench_note(&b->table, "%s: not available: %s", name, why);
            continue;
        }
        b->subject[b->n++].name = name;
    }
    return CHARL_OK;
}

/* Element i of the lane that begins at slice `lo`; baselines have one lane, that of the rank. */
static float value_of(int64_t i, int lo)
{
    return (float)(i % 1000 + lo);
}

/* b->values hold the sums of i % 1000 from `lanes` lanes, and of their `first` slices. */
static charl_status check_values(const bench *b, const char *name, int64_t count, int64_t lanes, int64_t first)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t got = (int64_t)b->values[i], want = lanes * (i % 1000) + first;

        CHARL_REQUIRE(got == want, CHARL_ERR_COMM,
                      "%s of %" PRId64 " values: element %" PRId64 " is %" PRId64 " and should be %" PRId64, name,
                      count, i, got, want);
    }
    return CHARL_OK;
}

static charl_status lane_write(const bench *b, const summer *s, int j)
{
    for (int64_t i = 0; i < s->sum.count; i++) {
        b->values[i] = value_of(i, b->mine.lane_lo[j]);
    }
    return charl_allreduce_write_lane(s->sum.ar, j, 0, s->sum.count, b->values);
}

static charl_status check_algorithm(const bench *b, summer *s, const char *name)
{
    int64_t all[2] = {b->mine.n_lanes, 0};

    for (int j = 0; j < b->mine.n_lanes; j++) {
        all[1] += b->mine.lane_lo[j];
        CHARL_TRY(lane_write(b, s, j));
    }
    CHARL_TRY(charl_comm_reduce_i64(b->comm, CHARL_COMM_SUM, all, 2));
    CHARL_TRY(charl__bench_sum_run(&s->sum));
    CHARL_TRY(charl_allreduce_read_sum(s->sum.ar, 0, s->sum.count, b->values));
    CHARL_TRY(check_values(b, name, s->sum.count, all[0], all[1]));
    return CHARL_OK;
}

/* It sums in place, again and again: what is timed are zeros. */
static charl_status check_baseline(const bench *b, summer *s, const char *name)
{
    const int64_t size = charl_comm_size(b->comm);

    for (int64_t i = 0; i < s->sum.count; i++) {
        b->values[i] = value_of(i, charl_comm_rank(b->comm));
    }
    CHARL_TRY(charl__baseline_write(s->baseline, b->values, s->sum.count));
    CHARL_TRY(charl__baseline_sum(s->baseline, s->sum.count));
    CHARL_TRY(charl__baseline_wait(s->baseline));
    CHARL_TRY(charl__baseline_read(s->baseline, b->values, s->sum.count));
    CHARL_TRY(check_values(b, name, s->sum.count, size, size * (size - 1) / 2));
    memset(b->values, 0, (size_t)s->sum.count * sizeof *b->values);
    CHARL_TRY(charl__baseline_write(s->baseline, b->values, s->sum.count));
    return CHARL_OK;
}

static charl_status check_all(bench *b)
{
    charl_status st = CHARL_OK;

    for (int k = 0; k < b->n; k++) {
        summer *s = &b->summer[k];

        st = s->baseline ? check_baseline(b, s, b->subject[k].name) : check_algorithm(b, s, b->subject[k].name);
        CHARL_TRY(charl_comm_agree(b->comm, st));
    }
    return st;
}

static const char *size_text(int64_t bytes, char *text, size_t size)
{
    const int shift = bytes >= 1 << 20 && bytes % (1 << 20) == 0   ? 20
                      : bytes >= 1 << 10 && bytes % (1 << 10) == 0 ? 10
                                                                   : 0;

    snprintf(text, size, "%" PRId64 " %s", bytes >> shift, shift == 20 ? "MiB" : shift == 10 ? "KiB" : "B");
    return text;
}

/* Bus bandwidth: what each rank's link carries at least, 2 (n-1)/n of the bytes. */
static charl_status measure_size(bench *b, int64_t bytes)
{
    const double ranks = charl_comm_size(b->comm);
    const int64_t wanted = CALLS_BYTES / bytes;
    const charl__bench_effort effort = {
        .repeats = (int)b->o->repeats,
        .calls = wanted < 4    ? 4
                 : wanted < 64 ? (int)wanted
                               : 64,
    };
    char label[32];

    for (int k = 0; k < b->n; k++) {
        summer *s = &b->summer[k];

        s->sum.count = bytes / (int64_t)sizeof(float);
        b->subject[k].run = s->baseline ? run_baseline : s->on_device ? run_on_device : charl__bench_sum_run;
        b->subject[k].wait = s->baseline ? wait_baseline : s->on_device ? wait_on_device : NULL;
        b->subject[k].ctx = b->subject[k].on = s; /* begins with its sum */
        b->subject[k].amount = 2 * (ranks - 1) / ranks * (double)bytes;
    }
    CHARL_TRY(check_all(b));
    CHARL_TRY(charl__bench_measure(b->comm, b->subject, b->n, &effort));
    charl__bench_rows(&b->table, size_text(bytes, label, sizeof label), bytes, b->subject, b->n);
    return CHARL_OK;
}

/* Bytes of memory that the system could hand out now; INT64_MAX where it does not tell. */
static int64_t host_available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    int64_t kib = -1;
    char line[128];

    while (f && kib < 0 && fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemAvailable: %" SCNd64, &kib) != 1) {
            kib = -1;
        }
    }
    if (f) {
        fclose(f);
    }
    return kib < 0 ? INT64_MAX : kib * 1024;
}

/* The largest size for which all subjects at once have room in the memory of every node. */
static charl_status find_room(const bench *b, int64_t *room)
{
    const int64_t local = charl_comm_local_size(b->comm), lanes = b->mine.n_lanes + 1;
    const int64_t shared = charl_comm_shared_available() / 10 * 9 / (local * b->mine.n_lanes + 1);
    const char *name, *why;
    int64_t arenas = 1; /* of a rank, for the values to check */

    for (int i = 0; (name = charl_allreduce_algorithm(b->comm, i, &why)) != NULL; i++) {
        arenas += is_wanted(b->o, name) && !why ? lanes : 0;
    }
    for (int i = 0; (name = charl__baseline_name(i)) != NULL; i++) {
        arenas += is_wanted(b->o, name);
    }
    *room = host_available() / 10 * 8 / (arenas * local);
    *room = shared < *room ? shared : *room;
    CHARL_TRY(charl_comm_reduce_i64(b->comm, CHARL_COMM_MIN, room, 1));
    return CHARL_OK;
}

static charl_status run_sizes(bench *b)
{
    charl_status st = CHARL_OK;
    const bench_options *o = b->o;
    int64_t room, largest = o->max;
    char text[32];

    CHARL_TRY_CLEANUP(find_room(b, &room));
    if (largest > room) {
        for (largest = o->min; largest * o->step <= room;) {
            largest *= o->step;
        }
    }
    CHARL_REQUIRE_CLEANUP(largest <= room, CHARL_ERR_NOMEM,
                          "memory or /dev/shm of a node has room for only %" PRId64
                          " bytes per rank; HINT a smaller --min, or fewer algorithms with --only",
                          room);
    if (largest < o->max) {
        charl__bench_note(&b->table, "sizes above %s are left out: not enough memory or /dev/shm",
                          size_text(largest, text, sizeof text));
    }
    largest -= largest % (int64_t)sizeof(float);
    CHARL_TRY_CLEANUP(charl_comm_agree(b->comm, charl__cli_alloc(largest / 4 + 1, 4, &b->values)));
    CHARL_TRY_CLEANUP(add_algorithms(b, largest / 4));
    CHARL_TRY_CLEANUP(add_baselines(b, largest / 4));
    CHARL_REQUIRE_CLEANUP(b->n > 0, CHARL_ERR_CONFIG, "--only %s: none of these is available on these ranks", o->only);
    charl__bench_head(&b->table);
    for (int64_t bytes = o->min; bytes < largest; bytes *= o->step) {
        CHARL_TRY_CLEANUP(measure_size(b, bytes));
    }
    CHARL_TRY_CLEANUP(measure_size(b, largest));
cleanup:
    for (int k = 0; k < MOST; k++) {
        charl_allreduce_destroy(b->summer[k].sum.ar);
        charl__baseline_destroy(b->summer[k].baseline);
    }
    free(b->values);
    return st;
}

/* Without a GPU the device is opened only where "peer" is asked for by name. */
static charl_status device_open(bench *b)
{
    const bool is_asked = b->o->only && is_wanted(b->o, "peer");
    const charl_device_request request = {
        sizeof request, .select = is_asked ? "auto" : "gpu", .local_rank = charl_comm_local_rank(b->comm),
        .local_size = charl_comm_local_size(b->comm), .compiling = charl__cli_compiling_show};

    if (is_wanted(b->o, "peer") && charl_device_open(&request, &b->dev) != CHARL_OK) {
        charl_error_clear(); /* then it is not measured */
    }
    return CHARL_OK;
}

static int bench_run(void *ctx, charl_comm *comm)
{
    charl_status st = CHARL_OK;
    const bench_options *o = ctx;
    const int size = charl_comm_size(comm);
    bench b = {.o = o,
               .comm = comm,
               .table = {.bench = "allreduce",
                         .unit = "bus GB/s",
                         .baseline = charl__baseline_name(0),
                         .format = o->format,
                         .ranks = size,
                         .prints = charl_comm_rank(comm) == 0}};

    CHARL_REQUIRE_CLEANUP(size > 1, CHARL_ERR_CONFIG,
                          "an all-reduce needs at least two ranks; HINT mpirun -n 2 charl-bench allreduce");
    CHARL_TRY_CLEANUP(charl_slices_block(o->slices > 0 ? (int)o->slices : size, charl_comm_rank(comm), size, &b.mine));
    charl__bench_note(&b.table,
                      "all-reduce of f32: %d ranks on %d node%s (rank 0 on %s), %" PRId64 " slices, medians of %" PRId64
                      " repetitions, measured alternately",
                      size, charl_comm_node_count(comm), charl_comm_node_count(comm) > 1 ? "s" : "",
                      charl_comm_host(comm, 0), (int64_t)b.mine.total, o->repeats);
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, device_open(&b)));
    CHARL_TRY_CLEANUP(run_sizes(&b));
cleanup:
    charl_device_close(b.dev);
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

/* 4K, 25M, 1G */
static error_t parse_size(int64_t *out, const char *option, const char *value)
{
    return charl__cli_parse_key(option, value, &(charl_key){.kind = CHARL_KEY_SIZE, .range = "[4,8589934592]"}, out);
}

static error_t parse_min(void *input, const char *option, const char *value)
{
    return parse_size(&((bench_options *)input)->min, option, value);
}

static error_t parse_max(void *input, const char *option, const char *value)
{
    return parse_size(&((bench_options *)input)->max, option, value);
}

int charl__bench_allreduce_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"min", 0, "BYTES", "Smallest size, as 4096, 64K, 25M or 1G (default: 4K)", 0, .parse = parse_min},
        {"max", 0, "BYTES", "Largest size (default: 512M); sizes that do not fit in memory are left out", 0,
         .parse = parse_max},
        {"step", 0, "FACTOR", "Factor from one size to the next (default: 4)", 0,
         CHARL__CLI_INT(bench_options, step, 2, 1024)},
        {"repeat", 'r', "N", "Repetitions, of which the median counts (default: 20)", 0,
         CHARL__CLI_INT(bench_options, repeats, 1, 10000)},
        {"slices", 0, "N", "Slices of the batch (default: one per rank)", 0,
         CHARL__CLI_INT(bench_options, slices, 1, CHARL_MAX_SLICES)},
        {"only", 0, "NAME,...", "Only these algorithms and baselines", 0, CHARL__CLI_TEXT(bench_options, only)},
        CHARL__BENCH_FORMAT_OPTION(bench_options),
        {0}};
    static const charl__cli_syntax syntax = {
        options, "",
        "Time the all-reduce of gradients: every algorithm that works on these ranks, MPI_Allreduce in place on host "
        "memory, and NCCL where it is installed and every rank has an NVIDIA GPU. Start it with mpirun. Bus bandwidth "
        "is 2(n-1)/n * bytes / time for n ranks; the ratio compares the medians with MPI_Allreduce."};
    charl__cli_operands none = {0};
    bench_options o = {.min = 4 << 10, .max = 512 << 20, .step = 4, .repeats = 20};
    const int code = charl__cli_parse(path, &syntax, &none, argc, argv, &o);

    if (code >= 0) {
        return code;
    }
    if (o.min > o.max) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--min is more than --max");
    }
    return charl__with_ranks(NULL, bench_run, &o, &argc, &argv);
}

/* charl sweep: the command, the table of its configurations, and sweep.csv. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/charl/sweep.h"

enum { STOPPED = 75, CELL_BYTES = 64, MOST_COLUMNS = CHARL__SWEEP_KEYS + 6 };

typedef struct request {
    charl__sweep_options options;
    bool print, dry_run;
} request;

/* What the runs of a configuration have reached. */
typedef struct group {
    const charl__sweep_arm *first;
    int runs, done, failed, dropped, n; /* n: with a value */
    double mean, deviation, best;
    int64_t best_step;
} group;

static const char *state_name(charl__sweep_state state)
{
    static const char *const names[] = {
        [CHARL__SWEEP_NEW] = "new",         [CHARL__SWEEP_BEGUN] = "begun",   [CHARL__SWEEP_RUNNING] = "running",
        [CHARL__SWEEP_STOPPED] = "stopped", [CHARL__SWEEP_FAILED] = "failed", [CHARL__SWEEP_DROPPED] = "dropped",
        [CHARL__SWEEP_DONE] = "done"};

    return names[state];
}

/* Mean, deviation (n - 1) and best value of the runs of a configuration that are done. */
static void sum_up(const charl__sweep *s, group *groups)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < s->n_arms; i++) {
            const charl__sweep_arm *arm = &s->arm[i];
            group *g = &groups[arm->group];
            const double v = arm->state == CHARL__SWEEP_DONE && arm->measured ? arm->done.best : (double)NAN;

            if (pass == 0) {
                g->first = g->first ? g->first : arm;
                g->runs++;
                g->done += arm->state == CHARL__SWEEP_DONE;
                g->failed += arm->state == CHARL__SWEEP_FAILED;
                g->dropped += arm->state == CHARL__SWEEP_DROPPED;
                if (!isnan(v)) {
                    if (g->n++ == 0 || (arm->done.higher ? v > g->best : v < g->best)) {
                        g->best = v;
                        g->best_step = arm->done.best_step;
                    }
                    g->mean += v;
                }
            } else if (!isnan(v)) {
                g->deviation += (v - g->mean) * (v - g->mean);
            }
        }
        for (int k = 0; k < s->n_groups; k++) {
            group *g = &groups[k];

            if (pass == 0) {
                g->mean = g->n > 0 ? g->mean / g->n : (double)NAN;
            } else {
                g->deviation = g->n > 1 ? sqrt(g->deviation / (g->n - 1)) : (double)NAN;
            }
        }
    }
}

static bool is_higher_better; /* of the metric that the table is sorted by */

static int by_mean(const void *a, const void *b)
{
    const group *x = a, *y = b;

    if (isnan(x->mean) || isnan(y->mean)) {
        return isnan(x->mean) - isnan(y->mean);
    }
    return is_higher_better ? (x->mean < y->mean) - (x->mean > y->mean) : (x->mean > y->mean) - (x->mean < y->mean);
}

/* The cells of a row, [MOST_COLUMNS]; returns their number. g NULL: the heads. */
static int fill_row(const charl__sweep *s, const group *g, const char *monitor, char (*cell)[CELL_BYTES])
{
    const int keys = s->seed < 0 ? s->n_keys : s->seed;
    int c = 0;

    for (int k = 0; k < keys; k++) {
        snprintf(cell[c++], CELL_BYTES, "%.63s", g ? s->key[k].values[g->first->value[k]] : s->key[k].label);
    }
    if (!g) {
        snprintf(cell[c++], CELL_BYTES, "runs");
        snprintf(cell[c++], CELL_BYTES, "%.50s%s", monitor, s->seed < 0 ? "" : " mean");
        if (s->seed >= 0) {
            snprintf(cell[c++], CELL_BYTES, "deviation");
            snprintf(cell[c++], CELL_BYTES, "best");
        }
        snprintf(cell[c++], CELL_BYTES, "at step");
        return c;
    }
    snprintf(cell[c++], CELL_BYTES,
             g->failed > 0    ? "%d/%d, %d failed"
             : g->dropped > 0 ? "%d/%d, %d dropped"
                              : "%d/%d",
             g->done, g->runs, g->failed > 0 ? g->failed : g->dropped);
    snprintf(cell[c++], CELL_BYTES, isnan(g->mean) ? "-" : "%.5g", g->mean);
    if (s->seed >= 0) {
        snprintf(cell[c++], CELL_BYTES, isnan(g->deviation) ? "-" : "%.2g", g->deviation);
        snprintf(cell[c++], CELL_BYTES, g->n == 0 ? "-" : "%.5g", g->best);
    }
    snprintf(cell[c++], CELL_BYTES, g->n == 0 ? "-" : "%" PRId64, g->best_step);
    return c;
}

/* A line for each configuration, the best first. */
static charl_status print_table(const charl__sweep *s)
{
    char cell[MOST_COLUMNS][CELL_BYTES];
    const char *monitor = "best";
    int width[MOST_COLUMNS] = {0};
    group *groups = NULL;

    CHARL_TRY(charl__cli_alloc(s->n_groups, sizeof *groups, &groups));
    sum_up(s, groups);
    for (int i = 0; i < s->n_arms; i++) {
        if (s->arm[i].measured && !isnan(s->arm[i].done.best)) {
            monitor = s->arm[i].done.monitor;
            is_higher_better = s->arm[i].done.higher;
        }
    }
    qsort(groups, (size_t)s->n_groups, sizeof *groups, by_mean);
    for (int pass = 0; pass < 2; pass++) {
        for (int g = -1; g < s->n_groups; g++) {
            const int n = fill_row(s, g < 0 ? NULL : &groups[g], monitor, cell);

            for (int c = 0; c < n; c++) {
                if (pass == 0) {
                    width[c] = (int)strlen(cell[c]) > width[c] ? (int)strlen(cell[c]) : width[c];
                } else {
                    printf("%s%*s", c > 0 ? "  " : "", width[c], cell[c]);
                }
            }
            if (pass == 1) {
                putchar('\n');
            }
        }
    }
    free(groups);
    return CHARL_OK;
}

/* A field of a CSV file (RFC 4180). */
static void put_field(FILE *f, const char *text)
{
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text; text++) {
        fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, f);
    }
    fputc('"', f);
}

static void put_number(FILE *f, double v)
{
    if (isnan(v)) {
        fputc(',', f);
    } else {
        fprintf(f, ",%.9g", v);
    }
}

/* DIR/sweep.csv: a line for each run. It appears whole or not at all. */
static charl_status write_csv(const charl__sweep *s)
{
    char path[CHARL__SWEEP_PATH + 32], temporary[CHARL__SWEEP_PATH + 32];
    FILE *f;
    bool is_good;

    if (access(s->dir, F_OK) != 0) { /* no run has begun */
        return CHARL_OK;
    }
    snprintf(path, sizeof path, "%s/sweep.csv", s->dir);
    snprintf(temporary, sizeof temporary, "%s/.sweep.csv", s->dir);
    f = fopen(temporary, "we");
    CHARL_REQUIRE(f, CHARL_ERR_DISK, "cannot write %s: %s", path, strerror(errno));
    fputs("run", f);
    for (int k = 0; k < s->n_keys; k++) {
        fputc(',', f);
        put_field(f, s->key[k].name);
    }
    fputs(",state,step,time_s,monitor,best,best_step,last\n", f);
    for (int i = 0; i < s->n_arms; i++) {
        const charl__sweep_arm *arm = &s->arm[i];

        put_field(f, arm->dir);
        for (int k = 0; k < s->n_keys; k++) {
            fputc(',', f);
            put_field(f, s->key[k].values[arm->value[k]]);
        }
        fprintf(f, ",%s", state_name(arm->state));
        if (arm->measured) {
            fprintf(f, ",%" PRId64 ",%.3f,%s", arm->done.step, arm->done.time_s, arm->done.monitor);
            put_number(f, arm->done.best);
            put_number(f, isnan(arm->done.best) ? (double)NAN : (double)arm->done.best_step);
            put_number(f, arm->done.last);
            fputc('\n', f);
        } else {
            fputs(",,,,,,\n", f);
        }
    }
    is_good = ferror(f) == 0;
    is_good = fclose(f) == 0 && is_good && rename(temporary, path) == 0;
    CHARL_REQUIRE(is_good, CHARL_ERR_DISK, "cannot write %s: %s", path, strerror(errno));
    return CHARL_OK;
}

/* DIR/report.html, of the runs that have made a step. */
static charl_status write_page(const charl__sweep *s)
{
    char path[CHARL__SWEEP_PATH + 32];
    const char **runs = NULL;
    charl_status st = CHARL_OK;
    int n = 0;

    CHARL_TRY(charl__cli_alloc(s->n_arms, sizeof *runs, &runs));
    for (int i = 0; i < s->n_arms; i++) {
        if (s->arm[i].measured) {
            runs[n++] = s->arm[i].dir;
        }
    }
    snprintf(path, sizeof path, "%s/report.html", s->dir);
    st = n > 0 ? charl_report_write(runs, n, path) : CHARL_OK;
    free(runs);
    return st;
}

static int count(const charl__sweep *s, charl__sweep_state state)
{
    int n = 0;

    for (int i = 0; i < s->n_arms; i++) {
        n += s->arm[i].state == state;
    }
    return n;
}

/* "8 runs in runs/digits-sweep: 5 new, 1 begun, 2 done" */
static void print_start(const charl__sweep *s)
{
    const char *comma = ": ";

    printf("%d run%s in ", s->n_arms, s->n_arms == 1 ? "" : "s");
    charl__cli_put(s->dir, 0);
    for (int i = 0; i <= CHARL__SWEEP_DONE; i++) {
        const int n = count(s, (charl__sweep_state)i);

        if (n > 0) {
            printf("%s%d %s", comma, n, state_name((charl__sweep_state)i));
            comma = ", ";
        }
    }
    putchar('\n');
    fflush(stdout);
}

static void print_arms(const charl__sweep *s)
{
    for (int i = 0; i < s->n_arms; i++) {
        printf("%-8s ", state_name(s->arm[i].state));
        charl__cli_put(s->arm[i].name, 0);
        if (s->arm[i].parent >= 0) {
            printf(", after step %" PRId64 " of %s", s->arm[i].shared, s->arm[s->arm[i].parent].name);
        }
        putchar('\n');
    }
}

/* "1,200 steps trained; 3,400 more in common with other runs" */
static void print_steps(const charl__sweep *s)
{
    int64_t trained = 0, shared = 0;

    for (int i = 0; i < s->n_arms; i++) {
        const charl__sweep_arm *arm = &s->arm[i];

        trained += arm->to - arm->from;
        shared += arm->parent >= 0 ? arm->from : 0;
    }
    printf("%" PRId64 " steps trained", trained);
    if (shared > 0) {
        printf("; %" PRId64 " more are those of other runs", shared);
    }
    printf("\n\n");
}

static charl_status sweep(const request *r, const charl__cli_operands *operands, charl__sweep *s, int *code)
{
    bool stopped = false;

    CHARL_TRY(charl__sweep_plan(operands, &r->options, s));
    CHARL_TRY(charl__sweep_look(s));
    if (r->print) {
        charl__sweep_print(s);
        return CHARL_OK;
    }
    print_start(s);
    CHARL_TRY(r->options.alone ? CHARL_OK : charl__sweep_share(s));
    if (r->dry_run) {
        print_arms(s);
        return CHARL_OK;
    }
    CHARL_TRY(charl__sweep_run(s, &r->options, &stopped));
    print_steps(s);
    CHARL_TRY(print_table(s));
    CHARL_TRY(write_csv(s));
    CHARL_TRY(write_page(s));
    *code = stopped || count(s, CHARL__SWEEP_STOPPED) > 0 ? STOPPED
            : count(s, CHARL__SWEEP_FAILED) > 0           ? CHARL__EXIT_INTERNAL
                                                          : CHARL__EXIT_OK;
    return CHARL_OK;
}

/* The number of runs at a time: -j, or one for each device. */
static int64_t jobs_of(const charl__sweep_options *o)
{
    int devices = 1;

    for (const char *p = o->devices; p && *p; p++) {
        devices += *p == ',';
    }
    return o->jobs > 0 ? o->jobs : devices < CHARL__SWEEP_MOST_JOBS ? devices : CHARL__SWEEP_MOST_JOBS;
}

int charl__sweep_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"output", 'o', "DIR", "Directory of the run directories (default: run.output_dir with -sweep behind it)", 0,
         CHARL__CLI_TEXT(request, options.dir)},
        {"seeds", 's', "N", "Run each configuration with N seeds: run.seed and the numbers after it", 0,
         CHARL__CLI_INT(request, options.seeds, 1, 1000)},
        {"random", 'r', "N", "Draw N configurations at random instead of running all combinations", 0,
         CHARL__CLI_INT(request, options.random, 1, 10000)},
        {"draw", 0, "SEED", "Seed of --random (default 1); a larger N keeps the earlier configurations", 0,
         CHARL__CLI_INT(request, options.draw_seed, 0, INT64_MAX)},
        {"jobs", 'j', "N", "Runs at a time (default: one for each of --devices, else 1)", 0,
         CHARL__CLI_INT(request, options.jobs, 1, CHARL__SWEEP_MOST_JOBS)},
        {"devices", 'd', "LIST", "Devices for the runs, as device.select has them, with commas between them", 0,
         CHARL__CLI_TEXT(request, options.devices)},
        {"ranks", 'n', "N", "Ranks of each run, started by charl launch", 0,
         CHARL__CLI_INT(request, options.ranks, 1, INT32_MAX)},
        {"stop-losers", 0, "P",
         "Run no further seeds of a configuration that a paired t test over at least three seeds shows to be worse "
         "than "
         "the best one; P is the probability that a sweep of equal configurations stops one, such as 0.05",
         0, CHARL__CLI_NUMBER(request, options.stop_losers, "(0,0.5)")},
        {"alone", 0, NULL, "Train each run from its beginning, also where others have the same first steps", 0,
         CHARL__CLI_FLAG(request, options.alone)},
        {"print", 'p', NULL, "Print the command line of each run that is not done, for a job script, and run nothing",
         0, CHARL__CLI_FLAG(request, print)},
        {"dry-run", 0, NULL, "List the runs and their states, and run nothing", 0, CHARL__CLI_FLAG(request, dry_run)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG|FILE SECTION.KEY=VALUES...",
        "Run a configuration with several values of keys, each run in its own directory, and print a table of the "
        "results; DIR/sweep.csv has a line for each run, DIR/report.html their curves. VALUES are A,B,C: each of them, "
        "in all combinations; or, with "
        "--random, LOW..HIGH: numbers drawn uniformly, and LOW..HIGH:log: drawn uniformly in their logarithm. Values "
        "that contain commas, such as data.augment, are separated by | in quotes. A key with one value has it in all "
        "runs. Runs that differ in [scheduler], train.epochs or train.max_steps only have their first steps in common, "
        "up to "
        "the first step with another learning rate: these are trained once, with the same result.\vGiven again, the "
        "command continues where it ended: a run in DIR is recognized by the configuration "
        "that it recorded, whatever its directory is called. It is left as it is if it is done, and otherwise "
        "continued. A run that fails is reported, and the others go on. On a signal the runs in progress save and "
        "stop, and the exit status is 75; it is 1 if a run has failed. --print writes the list that "
        "slurm-array.sbatch takes. FILE is a configuration file with the keys that are swept and a section [sweep] "
        "with `config` and these options; what the command line says replaces it."};
    const charl__cli_operands expected = {.names = {"CONFIG"}, .max = 1 + CHARL__CLI_OVERRIDES};
    const request defaults = {.options = {.draw_seed = 1}};
    charl__cli_operands operands = expected;
    request r = defaults;
    charl__sweep_file file = {0};
    charl__sweep s = {0};
    charl_status st;
    int result = CHARL__EXIT_OK, code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    st = charl__sweep_file_read(operands.values[0], options, argc, argv, &file);
    if (st == CHARL_OK && file.argc > 0) {
        operands = expected;
        r = defaults;
        code = charl__cli_parse(path, &syntax, &operands, file.argc, file.argv, &r);
    }
    if (st == CHARL_OK && code < 0) {
        r.options.jobs = jobs_of(&r.options);
        st = sweep(&r, &operands, &s, &result);
    }
    charl__sweep_fini(&s);
    charl__sweep_file_fini(&file);
    return st != CHARL_OK ? charl__cli_fail(st) : code >= 0 ? code : result;
}

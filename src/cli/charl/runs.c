/* charl runs: run directories with their states and sizes, and removing checkpoints that they no longer need. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <charl/report.h>
#include <charl/run.h>
#include "cli/charl/commands.h"

enum { PATH_BYTES = 4096, DEEPEST = 4, CELL_BYTES = 96, COLUMNS = 6 };

typedef struct request {
    bool prune, yes;
} request;

typedef struct run {
    char *path; /* owned */
    int64_t bytes;
    time_t changed; /* the newest of its files */
    bool busy;
    dev_t device; /* of the directory, which may have several paths */
    ino_t inode;
} run;

/* Run directories that were found. */
typedef struct list {
    run *run; /* [count] */
    int count;
} list;

static void list_free(list *l)
{
    for (int i = 0; i < l->count; i++) {
        free(l->run[i].path);
    }
    free(l->run);
}

/* Bytes on the disk and newest change of a directory and what is in it. A file that several directories share counts in proportion. */
static void measure(const char *path, int depth, run *r)
{
    char inner[PATH_BYTES];
    DIR *d = opendir(path);
    const struct dirent *entry;
    struct stat info;

    while (d && (entry = readdir(d)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) >= (int)sizeof inner ||
            lstat(inner, &info) != 0) {
            continue;
        }
        if (S_ISDIR(info.st_mode) && depth < DEEPEST) {
            measure(inner, depth + 1, r);
        } else if (S_ISREG(info.st_mode)) {
            r->bytes += (int64_t)info.st_blocks * 512 / (info.st_nlink > 0 ? (int64_t)info.st_nlink : 1);
            r->changed = info.st_mtime > r->changed ? info.st_mtime : r->changed;
        }
    }
    if (d) {
        closedir(d);
    }
}

static bool has(const char *dir, const char *name)
{
    char path[PATH_BYTES];

    return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path && access(path, F_OK) == 0;
}

static charl_status add_run(list *l, const char *path)
{
    run *grown, *r;
    struct stat info;

    CHARL_REQUIRE(stat(path, &info) == 0, CHARL_ERR_CONFIG, "%s: %s", path, strerror(errno));
    for (int i = 0; i < l->count; i++) {
        if (l->run[i].device == info.st_dev && l->run[i].inode == info.st_ino) {
            return CHARL_OK; /* of another operand */
        }
    }
    grown = realloc(l->run, (size_t)(l->count + 1) * sizeof *grown);
    CHARL_REQUIRE(grown, CHARL_ERR_NOMEM, "out of memory");
    l->run = grown;
    r = &grown[l->count];
    *r = (run){.device = info.st_dev, .inode = info.st_ino};
    CHARL_TRY(charl__cli_alloc((int64_t)strlen(path) + 1, 1, &r->path));
    strcpy(r->path, path);
    l->count++;
    measure(path, 0, r);
    return charl_run_is_busy(path, &r->busy);
}

/* The run directories in `path`, which may be one itself. */
static charl_status find_runs(const char *path, int depth, list *l)
{
    charl_status st = CHARL_OK;
    char inner[PATH_BYTES];
    const struct dirent *entry;
    struct stat info;
    DIR *d;

    if (has(path, "metrics.jsonl") || (has(path, "config.ini") && has(path, "checkpoints"))) {
        return add_run(l, path);
    }
    d = opendir(path);
    CHARL_REQUIRE(d || depth > 0, CHARL_ERR_CONFIG, "%s: %s", path, strerror(errno));
    while (d && st == CHARL_OK && (entry = readdir(d)) != NULL) {
        if (entry->d_name[0] != '.' &&
            snprintf(inner, sizeof inner, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", entry->d_name) <
                (int)sizeof inner &&
            lstat(inner, &info) == 0 && S_ISDIR(info.st_mode) && depth < DEEPEST) {
            st = find_runs(inner, depth + 1, l);
        }
    }
    if (d) {
        closedir(d);
    }
    return st;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const run *)a)->path, ((const run *)b)->path);
}

static void put_bytes(char *text, int64_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    int u = 0;

    for (; v >= 999.5 && u < 4; u++) {
        v /= 1000;
    }
    snprintf(text, CELL_BYTES, u == 0 ? "%.0f %s" : "%.3g %s", v, units[u]);
}

static void put_age(char *text, double s)
{
    const double days = s / 86400;

    snprintf(text, CELL_BYTES,
             s < 60     ? "%.0f s"
             : s < 3600 ? "%.0f min"
             : days < 1 ? "%.0f h"
                        : "%.0f d",
             s < 60     ? fmax(s, 0)
             : s < 3600 ? floor(s / 60)
             : days < 1 ? floor(s / 3600)
                        : floor(days));
}

static void fill_row(const run *r, char (*cell)[CELL_BYTES])
{
    charl_run_summary s;
    const bool measured = charl_report_summarize(r->path, &s) == CHARL_OK;

    if (!measured) { /* no step yet, or no metrics.jsonl */
        charl_error_clear();
    }
    snprintf(cell[1], CELL_BYTES, "%s", r->busy ? "running" : measured ? s.state : "not begun");
    snprintf(cell[2], CELL_BYTES, measured ? "%" PRId64 : "-", measured ? s.step : 0);
    if (measured && !isnan(s.best)) {
        snprintf(cell[3], CELL_BYTES, "%.40s=%.5g", s.monitor, s.best);
    } else {
        snprintf(cell[3], CELL_BYTES, "-");
    }
    put_bytes(cell[4], r->bytes);
    put_age(cell[5], difftime(time(NULL), r->changed));
}

static charl_status print_runs(const list *l)
{
    static const char *const heads[COLUMNS] = {"run", "state", "step", "best", "size", "age"};
    char(*cell)[COLUMNS][CELL_BYTES] = NULL, total[CELL_BYTES];
    int width[COLUMNS] = {0};
    int64_t bytes = 0;

    CHARL_TRY(charl__cli_alloc(l->count + 1, sizeof *cell, &cell));
    for (int c = 0; c < COLUMNS; c++) {
        snprintf(cell[0][c], CELL_BYTES, "%s", heads[c]);
    }
    for (int i = 0; i < l->count; i++) {
        fill_row(&l->run[i], cell[i + 1]);
        bytes += l->run[i].bytes;
    }
    for (int i = 0; i <= l->count; i++) {
        width[0] = i > 0 && (int)strlen(l->run[i - 1].path) > width[0] ? (int)strlen(l->run[i - 1].path) : width[0];
        for (int c = 1; c < COLUMNS; c++) {
            width[c] = (int)strlen(cell[i][c]) > width[c] ? (int)strlen(cell[i][c]) : width[c];
        }
    }
    for (int i = 0; i <= l->count; i++) {
        const char *name = i > 0 ? l->run[i - 1].path : cell[0][0];

        charl__cli_put(name, 0);
        printf("%*s  %-*s  %*s  %-*s  %*s  %*s\n", width[0] - (int)strlen(name), "", width[1], cell[i][1], width[2],
               cell[i][2], width[3], cell[i][3], width[4], cell[i][4], width[5], cell[i][5]);
    }
    put_bytes(total, bytes);
    printf("%d run%s, %s\n", l->count, l->count == 1 ? "" : "s", total);
    free(cell);
    return CHARL_OK;
}

static charl_status prune(const list *l, bool removes)
{
    charl_run_pruned all = {0};
    char bytes[CELL_BYTES];

    for (int i = 0; i < l->count; i++) {
        charl_run_pruned p = {0};
        const charl_status st = l->run[i].busy ? CHARL_ERR_BUSY : charl_run_prune(l->run[i].path, removes, &p);

        if (st == CHARL_ERR_BUSY) {
            charl__cli_put(l->run[i].path, 0);
            printf(": running, left as it is\n");
            continue;
        }
        CHARL_TRY(st);
        if (p.checkpoints > 0) {
            put_bytes(bytes, p.bytes);
            charl__cli_put(l->run[i].path, 0);
            printf(": %" PRId64 " checkpoint%s, %s\n", p.checkpoints, p.checkpoints == 1 ? "" : "s", bytes);
        }
        all.checkpoints += p.checkpoints;
        all.bytes += p.bytes;
    }
    put_bytes(bytes, all.bytes);
    printf(removes ? "%" PRId64 " checkpoints removed, %s freed\n"
                   : "%" PRId64 " checkpoints beside the last and the best ones, %s; add --yes to remove them\n",
           all.checkpoints, bytes);
    return CHARL_OK;
}

int charl__runs_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"prune", 'p', NULL, "List the checkpoints that are neither the last nor the best of their run", 0,
         CHARL__CLI_FLAG(request, prune)},
        {"yes", 'y', NULL, "With --prune, remove them", 0, CHARL__CLI_FLAG(request, yes)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "[DIR...]",
        "List the run directories in DIR (default: runs) and in the folders below it: state, last step, best value of "
        "the monitored metric, size on the disk and the time since the last change.\vA file that several runs share "
        "counts in proportion. --prune leaves every run its last and its best checkpoint, with which it can be "
        "continued "
        "and used; a run that is training is left as it is."};
    static char fallback[] = "runs", *fallbacks[] = {fallback};
    charl__cli_operands operands = {.max = INT_MAX};
    request r = {0};
    list l = {0};
    charl_status st = CHARL_OK;
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);
    char **dirs = operands.count > 0 ? operands.values : fallbacks;

    if (code >= 0) {
        return code;
    }
    if (r.yes && !r.prune) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--yes confirms --prune, which is missing");
    }
    for (int i = 0; i < (operands.count > 0 ? operands.count : 1) && st == CHARL_OK; i++) {
        st = find_runs(dirs[i], 0, &l);
    }
    if (st == CHARL_OK) {
        if (l.count > 1) {
            qsort(l.run, (size_t)l.count, sizeof *l.run, by_path);
        }
        st = r.prune ? prune(&l, r.yes) : print_runs(&l);
    }
    list_free(&l);
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
}

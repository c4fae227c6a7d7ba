/* Output of a run: a start-up block, a progress bar on terminals, key=value lines elsewhere; and its
 * files.
 *
 * Under mpirun standard output is always a terminal, so a bar needs a terminal that has a width.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <charl/device.h>
#include "cli/cli_summary.h"
#include "cli/train/train.h"
#include "cli/cli.h"

enum { BAR_CELLS = 20, SILENCE_S = 50 }; /* every log has at least one line per minute */
enum { COLUMNS = 80, METRICS_BYTES = CHARL_MAX_METRICS * 48, LINE_BYTES = METRICS_BYTES + 512 };
static const double OFTEN_S = 0.5;

void charl__output_init(charl__output *o, const charl_config *config, const charl__train_args *args, charl_comm *comm)
{
    const bool terminal = charl__cli_columns(stdout) > 0;
    const char *no_color = getenv("NO_COLOR");

    *o = (charl__output){.config = config,
                         .args = args,
                         .comm = comm,
                         .rank = charl_comm_rank(comm),
                         .size = charl_comm_size(comm),
                         .nodes = charl_comm_node_count(comm),
                         .files = !args->dry_run && args->fast_dev_run == 0 && !args->overfit_batch,
                         .last_loss = (double)NAN,
                         .epoch_s = charl__cli_clock_s()};
    o->logs = charl__train_logs(args->log_ranks, o->rank);
    o->bar = args->progress == CHARL__PROGRESS_BAR || (args->progress == CHARL__PROGRESS_AUTO && terminal);
    o->color = args->color == 1 || (args->color == -1 && terminal && !(no_color && no_color[0]));
}

/* Columns for a progress bar; --progress=bar draws even if the output is not a terminal. */
static int columns_of(void)
{
    const int columns = charl__cli_columns(stdout);

    return columns > 0 ? columns : 80;
}

static bool is_quiet(const charl__output *o)
{
    return o->args->verbosity < 0 || o->args->progress == CHARL__PROGRESS_NONE;
}

/* A dry run only prints the plan. */
static bool prints_plan(const charl__output *o)
{
    return !is_quiet(o) || o->args->dry_run;
}

static void erase_bar(charl__output *o)
{
    if (o->bar_drawn) {
        printf("\r\033[K");
        o->bar_drawn = false;
    }
}

/* "2026-11-21T10:03:13Z" */
static void now_text(char *text, size_t size)
{
    const time_t now = time(NULL);
    struct tm t;

    if (!gmtime_r(&now, &t) || strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &t) == 0) {
        snprintf(text, size, "?");
    }
}

/* "0:00:05" or "2-03:00:00" */
static const char *duration_text(double seconds, char *text, size_t size)
{
    const long long s = isfinite(seconds) && seconds >= 0 && seconds < 1e15 ? (long long)seconds : -1;

    if (s < 0) {
        snprintf(text, size, "?");
    } else if (s < 86400) {
        snprintf(text, size, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    } else {
        snprintf(text, size, "%lld-%02lld:%02lld:%02lld", s / 86400, s / 3600 % 24, s / 60 % 60, s % 60);
    }
    return text;
}

static CHARL_PRINTF(2, 3) void say_line(charl__output *o, const char *fmt, ...)
{
    char stamp[64];
    va_list ap;

    now_text(stamp, sizeof stamp);
    o->said_s = charl__cli_clock_s();
    if (!o->bar && !is_quiet(o)) {
        flockfile(stdout); /* simulated ranks are threads */
        if (o->rank > 0) {
            printf("[rank %d] ", o->rank);
        }
        printf("%s ", stamp);
        va_start(ap, fmt);
        vprintf(fmt, ap);
        va_end(ap);
        putchar('\n');
        fflush(stdout);
        funlockfile(stdout);
    }
    if (o->log) {
        fprintf(o->log, "%s ", stamp);
        va_start(ap, fmt);
        vfprintf(o->log, fmt, ap);
        va_end(ap);
        fputc('\n', o->log);
        fflush(o->log);
    }
}

/* Whether a line of a kind that may come many times a second is shown: a few of each kind are, and the last one. */
static bool is_shown(const charl__output *o, double *shown_s, bool last)
{
    const double now = charl__cli_clock_s();

    if (is_quiet(o) || (o->args->verbosity <= 0 && !last && now - *shown_s < OFTEN_S)) {
        return false;
    }
    *shown_s = now;
    return true;
}

/* Print "WORD KEY=VALUE..." in lines of 80 columns at most, each with the prefix and WORD; or the first of them only. */
static void print_words(const char *prefix, const char *line, bool all)
{
    const int word = (int)strcspn(line, " "), room = COLUMNS - (int)strlen(prefix) - word;

    for (const char *at = line + word; *at;) {
        int length = (int)strlen(at);

        for (int k = room; length > room && k > 0; k--) {
            length = at[k] == ' ' ? k : length;
        }
        printf("%s%.*s%.*s\n", prefix, word, line, length, at);
        at += length;
        if (!all) {
            return;
        }
    }
}

/* A line of which 80 columns have room. shown_s: it may come many times a second, and of its words those are shown that fit; NULL: all are, in
 * several lines. The log has all lines, whole. */
static CHARL_PRINTF(4, 5) void say_words(charl__output *o, double *shown_s, bool last, const char *fmt, ...)
{
    char stamp[64], prefix[128], line[LINE_BYTES];
    va_list ap;

    now_text(stamp, sizeof stamp);
    o->said_s = charl__cli_clock_s();
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (!o->bar && (shown_s ? is_shown(o, shown_s, last) : !is_quiet(o))) {
        snprintf(prefix, sizeof prefix, "%s ", stamp);
        if (o->rank > 0) {
            snprintf(prefix, sizeof prefix, "[rank %d] %s ", o->rank, stamp);
        }
        flockfile(stdout); /* simulated ranks are threads */
        if (o->args->verbosity > 0) {
            printf("%s%s\n", prefix, line);
        } else {
            print_words(prefix, line, !shown_s);
        }
        fflush(stdout);
        funlockfile(stdout);
    }
    if (o->log) {
        fprintf(o->log, "%s %s\n", stamp, line);
        fflush(o->log);
    }
}

/* train.log, or train-rankN.log for other ranks, in the run directory, which exists and is locked by now. Links are not followed, and files
 * with another hard link are not truncated: either could be a user's file. */
static charl_status open_log(charl__output *o, bool afresh)
{
    const char *dir = charl__cli_text(o->config, "run.output_dir");
    char path[4096], name[32] = "train.log";
    struct stat s;
    int fd;

    if (o->rank > 0) {
        snprintf(name, sizeof name, "train-rank%d.log", o->rank);
    }
    CHARL_REQUIRE((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path, CHARL_ERR_DISK,
                  "the path %s is too long", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    CHARL_REQUIRE(fd >= 0, CHARL_ERR_DISK, "%s: %s", path,
                  errno == ELOOP ? "is a symbolic link, which is not followed; HINT remove it" : strerror(errno));
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || (afresh && s.st_nlink > 1)) {
        close(fd);
        CHARL_FAIL(CHARL_ERR_DISK, "%s: is not a file of its own; HINT remove it", path);
    }
    o->log = afresh && ftruncate(fd, 0) != 0 ? NULL : fdopen(fd, "a");
    if (!o->log) {
        close(fd);
        CHARL_FAIL(CHARL_ERR_DISK, "%s: %s", path, strerror(errno));
    }
    return CHARL_OK;
}

void charl__output_begin(const charl__output *o)
{
    if (o->rank == 0 && prints_plan(o)) {
        charl__train_print_title(o);
    }
}

static void on_compiling(void *ctx, const charl_compile_progress *p)
{
    charl__output *o = ctx;
    char text[CHARL__COMPILE_TEXT], count[32];

    o->compiled = *p;
    if (o->rank != 0 || is_quiet(o)) {
        return;
    }
    erase_bar(o);
    if (!o->bar) {
        if (charl__cli_compiling_is_due(&o->compiling, p)) {
            say_line(o, "compile kernels=%s s=%.1f", charl__cli_compiling_count(p, true, count),
                     p->seconds - o->compiling.base_s);
        }
        return;
    }
    charl__cli_compiling_line(&o->compiling, p, columns_of() - 2, text);
    if (text[0]) {
        printf("  %s", text);
        o->bar_drawn = true;
    }
    fflush(stdout);
}

/* The output of `charl model show`. The plan is useful without it. */
static void print_layers(const charl__output *o)
{
    charl_summary *s = NULL;

    if (charl_summary_create(o->config, NULL, &s) == CHARL_OK) {
        charl__cli_print_summary(s);
    } else {
        charl__cli_say("warning", charl_error_message());
        charl_error_clear();
    }
    charl_summary_destroy(s);
}

static charl_status on_built(void *ctx, const charl_train_info *i)
{
    charl_status st = CHARL_OK;
    charl__output *o = ctx;
    charl__device_text mine, *devices = NULL;

    if (i->device->kind == CHARL_DEVICE_CPU) {
        snprintf(mine.name, sizeof mine.name, "%.63s", i->device->name);
    } else {
        snprintf(mine.name, sizeof mine.name, "%.46s, %.14s", i->device->name, i->device->backend);
    }
    snprintf(mine.pci, sizeof mine.pci, "%s", i->device->pci);
    CHARL_TRY_CLEANUP(charl__cli_alloc(o->size, sizeof mine, &devices));
    CHARL_TRY_CLEANUP(charl_comm_allgather(o->comm, &mine, sizeof mine, devices));
    if (o->rank == 0 && prints_plan(o)) {
        erase_bar(o);
        charl__train_print_model(o, i, devices);
        if (o->args->dry_run && o->args->verbosity > 0) {
            print_layers(o);
        }
    }
cleanup:
    free(devices);
    return st;
}

/* For a rank other than the first that logs too. */
static charl_status start_rank(charl__output *o, const charl_train_info *i)
{
    CHARL_TRY(open_log(o, i->start_step == 0));
    say_line(o, "start step=%" PRId64 "/%" PRId64 " host=%s pid=%" PRId64 " device=%s%s%s rows=%" PRId64, i->start_step,
             i->steps, charl_comm_host(o->comm, o->rank), charl_comm_pid(o->comm, o->rank), i->device->name,
             i->device->pci[0] ? " " : "", i->device->pci, i->local_rows);
    return CHARL_OK;
}

static charl_status on_started(void *ctx, const charl_train_info *i)
{
    charl__output *o = ctx;
    const double compiled_s = charl__cli_compiling_end(&o->compiling, &o->compiled);
    const bool compiled_long = compiled_s >= CHARL__COMPILE_LONG_S;
    int64_t all_bytes = i->memory_bytes, most = -1;

    charl__train_begun();
    CHARL_TRY(charl_comm_reduce_i64(o->comm, CHARL_COMM_SUM, &all_bytes, 1));
    if (o->rank != 0) {
        return o->logs && o->files ? start_rank(o, i) : CHARL_OK;
    }
    o->steps = i->steps;
    o->window = i->window;
    o->rows = i->train_rows;
    o->batch = i->batch_size;
    o->devices = i->devices;
    erase_bar(o);
    if (o->bar && compiled_long && !is_quiet(o)) {
        printf("  kernels  %d compiled in %.1f s\n", o->compiled.done, compiled_s);
    }
    if (prints_plan(o)) {
        charl__train_print_plan(o, i, all_bytes);
    }
    if (o->files) {
        CHARL_TRY(open_log(o, i->start_step == 0));
    }
    if (compiled_long) {
        say_line(o, "compiled kernels=%d s=%.1f", o->compiled.done, compiled_s);
    }
    if (o->files) {
        char devices[32] = "";

        if (i->devices != o->size) {
            snprintf(devices, sizeof devices, " devices=%d", i->devices);
        }
        say_line(o, "start step=%" PRId64 "/%" PRId64 " ranks=%d%s", i->start_step, i->steps, o->size, devices);
        if (i->start_step >= i->steps) {
            say_line(o, "complete: nothing left to do; to continue training, increase train.%s",
                     charl_config_get_int(o->config, "train.max_steps", &most) != CHARL_OK || most >= 0 ? "max_steps"
                                                                                                        : "epochs");
            if (o->bar) {
                printf("complete: nothing left to do\n");
            }
        }
    }
    if (i->data_note && i->data_note[0]) {
        charl__cli_say("note", i->data_note);
    }
    o->epoch_s = charl__cli_clock_s();
    return CHARL_OK;
}

/* printf would show the sign bit of NaN. */
static double unsigned_nan(double v)
{
    return isnan(v) ? copysign(v, 1.0) : v;
}

static charl_status on_trained(void *ctx, const charl_train_row *r)
{
    charl__output *o = ctx;
    char eta[32], tokens[48] = "", flop[32] = "", mfu[32] = "", power[64] = "";

    if (!o->logs) {
        return CHARL_OK;
    }
    o->rate = r->samples_per_s;
    if (r->tflops > 0) {
        snprintf(flop, sizeof flop, " tflops=%.4g", r->tflops);
    }
    if (r->mfu > 0) {
        snprintf(mfu, sizeof mfu, " mfu=%.4g", r->mfu);
    }
    if (r->power_w > 0) {
        snprintf(power, sizeof power, " power_w=%.0f temperature_c=%.0f", r->power_w, r->temperature_c);
    }
    if (r->tokens_per_s > 0) {
        o->rate = r->tokens_per_s;
        snprintf(tokens, sizeof tokens, " tokens_per_s=%.0f", r->tokens_per_s);
    }
    o->lr = r->lr;
    o->eta_s = r->eta_s;
    o->row_s = charl__cli_clock_s();
    say_words(o, &o->shown_s[CHARL__LINE_TRAIN], r->step == r->steps,
              "train step=%" PRId64 "/%" PRId64
              " epoch=%.2f loss=%.6g eta=%s lr=%.2e grad_norm=%.4g samples_per_s=%.0f%s%s%s step_ms=%.3f "
              "data_ms=%.3f comm_ms=%.3f comm_exposed_ms=%.3f%s mem_gib=%.2f",
              r->step, r->steps, r->epoch, unsigned_nan(r->loss), duration_text(r->eta_s, eta, sizeof eta), r->lr,
              unsigned_nan(r->grad_norm), r->samples_per_s, tokens, flop, mfu, r->step_ms, r->data_ms, r->comm_ms,
              r->comm_exposed_ms, power, (double)r->mem_bytes / 1073741824.0);
    return CHARL_OK;
}

/* 1180234 as "1.18M". */
static const char *rate_text(double v, char *text, size_t size)
{
    const double m = v / 1e6;
    const double k = v / 1e3;

    if (m >= 1) {
        snprintf(text, size, "%.*fM", m < 10 ? 2 : m < 100 ? 1 : 0, m);
    } else if (k >= 1) {
        snprintf(text, size, "%.*fk", k < 10 ? 2 : k < 100 ? 1 : 0, k);
    } else {
        snprintf(text, size, "%.*f", v < 10 ? 2 : v < 100 ? 1 : 0, v);
    }
    return text;
}

/* The text after the bar: counts, the last row's values, and the remaining time or, at the end of an
 * epoch, its duration. */
static void bar_suffix(const charl__output *o, int64_t done, int64_t length, char *text, size_t size)
{
    const double now = charl__cli_clock_s();
    const double left = o->eta_s - (now - o->row_s);
    char rate[32], time[48];
    int n = snprintf(text, size, " %" PRId64 "/%" PRId64, done, length);

    if (isfinite(o->last_loss)) {
        n += snprintf(text + n, size - (size_t)n, "  loss %.4f", o->last_loss);
    }
    if (o->rate > 0) {
        n += snprintf(text + n, size - (size_t)n, "  lr %.1e  %s %s", o->lr, rate_text(o->rate, rate, sizeof rate),
                      o->window > 0 ? "tok/s" : "samples/s");
    }
    if (done == length) {
        snprintf(text + n, size - (size_t)n, "  %s", duration_text(now - o->epoch_s, time, sizeof time));
    } else if (o->rate > 0) {
        snprintf(text + n, size - (size_t)n, "  ETA %s", duration_text(left > 0 ? left : 0, time, sizeof time));
    }
}

/* The epoch, from 0, that the step's first row belongs to. */
static int64_t epoch_of(const charl__output *o, int64_t step)
{
    return (step - 1) * o->batch / o->rows;
}

/* The step with the last row of an epoch; it may contain some of the next. */
static int64_t last_step(const charl__output *o, int64_t epoch)
{
    const int64_t last = ((epoch + 1) * o->rows + o->batch - 1) / o->batch;

    return last < o->steps ? last : o->steps;
}

/* One line that never wraps: the bar shrinks first, then the end of the text. */
static void draw_bar(charl__output *o, int64_t step)
{
    const int64_t epoch = epoch_of(o, step), epochs = epoch_of(o, o->steps) + 1;
    const int64_t first = epoch > 0 ? last_step(o, epoch - 1) : 0;
    const int64_t length = last_step(o, epoch) - first;
    const int columns = columns_of();
    char prefix[64], suffix[256];
    int cells, room, filled;

    room = columns - 1 - snprintf(prefix, sizeof prefix, "epoch %" PRId64 "/%" PRId64 " ", epoch + 1, epochs);
    bar_suffix(o, step - first, length, suffix, sizeof suffix);
    cells = room - (int)strlen(suffix);
    cells = cells > BAR_CELLS ? BAR_CELLS : cells < 5 ? 0 : cells;
    filled = length > 0 ? (int)((step - first) * cells / length) : cells;
    printf("\r\033[K%s%s", prefix, o->color && cells > 0 ? "\033[32m" : "");
    for (int i = 0; i < cells; i++) {
        if (i == filled && o->color) {
            printf("\033[90m");
        }
        fputs(i < filled ? "━" : "─", stdout);
    }
    printf("%s%.*s", o->color && cells > 0 ? "\033[0m" : "", room - cells > 0 ? room - cells : 0, suffix);
    o->bar_drawn = true;
    if (step - first == length) { /* the line of a whole epoch stays, unless the last one came just before */
        if (is_shown(o, &o->shown_s[CHARL__LINE_EPOCH], step == o->steps)) {
            putchar('\n');
            o->bar_drawn = false;
        }
        o->epoch_s = charl__cli_clock_s();
    }
    fflush(stdout);
}

static charl_status on_progressed(void *ctx, int64_t step, double loss)
{
    charl__output *o = ctx;
    const double now = charl__cli_clock_s();

    if (!isnan(loss)) {
        o->last_loss = loss;
    }
    if (o->rank == 0 && o->bar && !is_quiet(o) && (now - o->drawn_s > 0.1 || step == last_step(o, epoch_of(o, step)))) {
        o->drawn_s = now;
        draw_bar(o, step);
    }
    if (o->rank == 0 && !o->bar && now - o->said_s > SILENCE_S) {
        say_line(o, "progress step=%" PRId64 "/%" PRId64, step, o->steps);
    }
    return CHARL_OK;
}

/* " NAME=VALUE" of every metric; for_people: as a percentage if it is a fraction. */
static const char *metrics_text(const charl_val_row *r, bool for_people, char text[METRICS_BYTES])
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < r->n_metrics && used < METRICS_BYTES; i++) {
        const charl_metric_value *m = &r->metrics[i];
        const double v = unsigned_nan(m->value);

        used +=
            (size_t)(for_people ? snprintf(text + used, METRICS_BYTES - used, m->fraction ? "  %s %.2f%%" : "  %s %.4g",
                                           m->name, m->fraction ? 100.0 * v : v)
                                : snprintf(text + used, METRICS_BYTES - used, m->fraction ? " %s=%.4f" : " %s=%.6g",
                                           m->name, v));
    }
    return text;
}

/* Text of a model, as one log line for each of its lines. */
static void say_sample(charl__output *o, const charl_val_row *r)
{
    for (const char *line = r->sample, *end; line; line = *end ? end + 1 : NULL) {
        end = line + strcspn(line, "\n");
        say_line(o, "sample step=%" PRId64 " | %.*s", r->step, (int)(end - line), line);
        if (o->bar && !is_quiet(o)) {
            printf("            | %.*s\n", (int)(end - line), line);
        }
    }
}

static charl_status on_evaluated(void *ctx, const charl_val_row *r)
{
    charl__output *o = ctx;
    char text[METRICS_BYTES];

    if (o->rank != 0) {
        return CHARL_OK;
    }
    say_words(o, &o->shown_s[CHARL__LINE_VAL], r->step == o->steps,
              "val step=%" PRId64 " loss=%.6g%s best=%s epoch=%.4g", r->step, unsigned_nan(r->loss),
              metrics_text(r, false, text), r->best ? "yes" : "no", r->epoch);
    if (o->bar && is_shown(o, &o->shown_s[CHARL__LINE_VAL], r->step == o->steps)) {
        erase_bar(o);
        printf("          val  loss %.4f%s%s\n", r->loss, metrics_text(r, true, text), r->best ? "  best" : "");
    }
    say_sample(o, r);
    return CHARL_OK;
}

static charl_status on_balanced(void *ctx, const charl_balance_row *r)
{
    charl_status st = CHARL_OK;
    charl__output *o = ctx;
    char *slices = NULL, *times = NULL;
    size_t bytes;
    FILE *f[2] = {NULL, NULL};

    if (o->rank != 0) {
        return CHARL_OK;
    }
    f[0] = open_memstream(&slices, &bytes);
    f[1] = open_memstream(&times, &bytes);
    CHARL_REQUIRE_CLEANUP(f[0] && f[1], CHARL_ERR_NOMEM, "no memory for a line of text");
    for (int i = 0; i < r->size; i++) {
        fprintf(f[0], "%s%d", i > 0 ? "," : "", r->slices[i]);
        fprintf(f[1], "%s%.3f", i > 0 ? "," : "", r->step_ms[i]);
    }
    CHARL_REQUIRE_CLEANUP(fflush(f[0]) == 0 && fflush(f[1]) == 0, CHARL_ERR_NOMEM, "no memory for a line of text");
    say_line(o, "balance step=%" PRId64 " slices=%s step_ms=%s ms=%.0f", r->step, slices, times, r->ms);
cleanup:
    for (int i = 0; i < 2; i++) {
        if (f[i]) {
            fclose(f[i]);
        }
    }
    free(slices);
    free(times);
    return st;
}

static charl_status on_saved(void *ctx, const charl_saved_row *r)
{
    charl__output *o = ctx;

    if (o->rank == 0) {
        const char *dir = strstr(r->path, "checkpoints/");

        say_words(o, &o->shown_s[CHARL__LINE_CHECKPOINT], r->step == o->steps,
                  "checkpoint step=%" PRId64 " file=%s ms=%.0f waited_ms=%.0f", r->step, dir ? dir : r->path, r->ms,
                  r->waited_ms);
    }
    return CHARL_OK;
}

static charl_status on_traced(void *ctx, const charl_trace_row *r)
{
    charl__output *o = ctx;
    char hidden[48] = "", lost[48] = "";

    if (o->rank != 0 || !r->path) {
        return CHARL_OK;
    }
    erase_bar(o);
    if (!isnan(r->hidden)) {
        snprintf(hidden, sizeof hidden, " allreduce_hidden_percent=%.1f", 100 * r->hidden);
    }
    if (r->lost > 0) {
        snprintf(lost, sizeof lost, " lost=%" PRId64, r->lost);
    }
    say_line(o, "trace steps=%" PRId64 "-%" PRId64 " file=%s spans=%" PRId64 "%s clock_error_us=%.0f ms=%.0f%s",
             r->first, r->last, r->path, r->spans, hidden, r->clock_error_us, r->ms, lost);
    if (o->bar && !is_quiet(o)) {
        printf("  trace    steps %" PRId64 "-%" PRId64 " in %s", r->first, r->last, r->path);
        if (!isnan(r->hidden)) {
            printf("; %.1f %% of the all-reduce is hidden behind compute", 100 * r->hidden);
        }
        putchar('\n');
    }
    fflush(stdout);
    return CHARL_OK;
}

static charl_status on_profiled(void *ctx, const charl_profile *p)
{
    charl__output *o = ctx;

    erase_bar(o);
    charl__train_print_profile(p, columns_of());
    fflush(stdout);
    return CHARL_OK;
}

static void on_warned(void *ctx, const char *text)
{
    charl__output *o = ctx;

    erase_bar(o);
    fflush(stdout);
    flockfile(stderr);
    while (*text) {
        const int length = (int)strcspn(text, "\n");

        if (o->rank > 0) {
            fprintf(stderr, "[rank %d] ", o->rank);
        }
        fprintf(stderr, "charl-train: warning: ");
        charl__cli_write(stderr, text, (size_t)length);
        fputc('\n', stderr);
        text += length + (text[length] == '\n');
    }
    funlockfile(stderr);
}

charl_train_events charl__output_events(charl__output *o)
{
    return (charl_train_events){.ctx = o,
                                .compiling = on_compiling,
                                .built = on_built,
                                .started = on_started,
                                .trained = on_trained,
                                .progressed = on_progressed,
                                .evaluated = on_evaluated,
                                .saved = on_saved,
                                .balanced = on_balanced,
                                .traced = on_traced,
                                .profiled = on_profiled,
                                .warned = on_warned};
}

/* The checkpoint to use, and the command that uses it. */
static void say_next(const charl__output *o, const charl_train_result *r)
{
    const char *dir = charl__cli_text(o->config, "run.output_dir");
    char path[4096], best[96] = "";

    if (is_quiet(o) || !o->files) {
        return;
    }
    if (r->stopped) {
        printf("  next     the same command continues\n");
        return;
    }
    snprintf(path, sizeof path, "%s/best.h5", dir);
    if (access(path, R_OK) != 0) {
        snprintf(path, sizeof path, "%s/last.h5", dir);
        if (access(path, R_OK) != 0) { /* there were no steps left */
            return;
        }
    } else if (!isnan(r->best_metric)) {
        snprintf(best, sizeof best, "  (best %s: %.6g at step %" PRId64 ")",
                 charl__cli_text(o->config, "checkpoint.monitor"), r->best_metric, r->best_step);
    }
    printf("  model    ");
    charl__cli_write(stdout, path, strlen(path));
    printf("%s\n  next     charl %s ", best, o->window > 0 ? "generate" : "predict");
    charl__cli_put_word(stdout, path);
    printf(o->window > 0 ? " --prompt TEXT\n" : " [DATA...]\n"); /* of a language model */
    if (best[0] && o->window == 0) {
        printf("           charl eval ");
        charl__cli_put_word(stdout, path);
        snprintf(path, sizeof path, "%s/eval.json", dir);
        printf(" --report=json >");
        charl__cli_put_word(stdout, path);
        printf("\n");
    }
    printf("           charl report ");
    charl__cli_put_word(stdout, dir);
    printf("\n");
}

/* What the run has cost. */
typedef struct expense {
    double kwh; /* 0: unknown */
    bool is_measured;
    double price, cost; /* of a device and hour, of the run; 0: not given */
} expense;

static expense expense_of(const charl__output *o, const charl_train_result *r)
{
    const double hours = o->devices * r->wall_s / 3600, power = charl__cli_number(o->config, "run.power"),
                 price = charl__cli_number(o->config, "run.price");

    return (expense){.kwh = r->energy_j > 0 ? r->energy_j / 3.6e6 : power * hours / 1e3,
                     .is_measured = r->energy_j > 0,
                     .price = price,
                     .cost = price * hours};
}

static void say_expense(const charl__output *o, const expense *x)
{
    const char *plural = o->devices == 1 ? "" : "s";

    if (x->kwh > 0 && x->is_measured) {
        printf("  energy   %.4g kWh, measured on %d device%s\n", x->kwh, o->devices, plural);
    } else if (x->kwh > 0) {
        printf("  energy   about %.4g kWh, at run.power = %g W for %d device%s\n", x->kwh,
               charl__cli_number(o->config, "run.power"), o->devices, plural);
    }
    if (x->cost > 0) {
        printf("  cost     %.4g, at run.price = %g per hour for %d device%s\n", x->cost, x->price, o->devices, plural);
    }
}

void charl__output_done(charl__output *o, const charl_train_result *r)
{
    char best[96] = "", wall[32], tokens[48] = "", skipped[48] = "", overflowed[48] = "", spikes[48] = "",
         audits[64] = "", energy[64] = "", cost[48] = "";
    const expense x = expense_of(o, r);

    if (o->rank != 0 && o->logs && !o->args->dry_run) {
        say_line(o, "%s step=%" PRId64 " wall_s=%.1f", r->stopped ? "stopped" : "done", r->step, r->wall_s);
    }
    if (o->rank != 0 || o->args->dry_run) {
        return;
    }
    erase_bar(o);
    if (!isnan(r->best_metric)) {
        char *slash;

        snprintf(best, sizeof best, " best_%s=%.6g best_step=%" PRId64,
                 charl__cli_text(o->config, "checkpoint.monitor"), r->best_metric, r->best_step);
        slash = strchr(best, '/');
        if (slash) {
            *slash = '_'; /* a key of key=value */
        }
    }
    if (o->window > 0) {
        snprintf(tokens, sizeof tokens, " tokens_per_s=%.0f", r->samples_per_s * (double)o->window);
    }
    if (r->skipped > 0) {
        snprintf(skipped, sizeof skipped, " skipped=%" PRId64, r->skipped);
    }
    if (r->overflowed > 0) {
        snprintf(overflowed, sizeof overflowed, " overflowed=%" PRId64, r->overflowed);
    }
    if (r->spikes > 0) {
        snprintf(spikes, sizeof spikes, " spikes=%" PRId64, r->spikes);
    }
    if (r->audits > 0) {
        snprintf(audits, sizeof audits, " audits=%" PRId64 " audit_s=%.1f", r->audits, r->audit_s);
    }
    if (r->early) {
        say_line(o, "early stopping: no improvement in %" PRId64 " evaluations",
                 charl__cli_int(o->config, "train.early_stopping_patience"));
    }
    if (x.kwh > 0) {
        snprintf(energy, sizeof energy, " %senergy_kwh=%.4g", x.is_measured ? "" : "estimated_", x.kwh);
    }
    if (x.cost > 0) {
        snprintf(cost, sizeof cost, " cost=%.4g", x.cost);
    }
    say_words(o, NULL, true, "%s step=%" PRId64 " epoch=%.4g%s%s%s%s%s%s wall_s=%.1f samples_per_s=%.0f%s%s%s",
              r->stopped ? "stopped" : "done", r->step, r->epoch, best, skipped, overflowed, spikes, audits,
              r->early ? " early_stopping=yes" : "", r->wall_s, r->samples_per_s, tokens, energy, cost);
    if (o->bar && !is_quiet(o)) {
        printf("%s at step %" PRId64 " after %s\n", r->stopped ? "stopped" : "done", r->step,
               duration_text(r->wall_s, wall, sizeof wall));
        say_expense(o, &x);
    }
    say_next(o, r);
    fflush(stdout);
}

void charl__output_fini(charl__output *o)
{
    erase_bar(o);
    if (o->log) {
        fclose(o->log);
    }
    o->log = NULL;
}

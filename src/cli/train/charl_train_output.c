/* What a run prints: a start-up block, a bar on terminals, key=value lines elsewhere; and its
 * files.
 *
 * Under mpirun standard output is always a terminal, so a bar needs a terminal that has a width.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "charl/device.h"
#include "cli/train/charl_train.h"
#include "cli/cli.h"
#include "config/interval.h"
#include "io/commit.h"

enum { BAR_CELLS = 20, SILENCE_S = 50 }; /* no log is silent for a minute */

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
                         .epoch_s = charl__clock_s()};
    o->bar = args->progress == CHARL__PROGRESS_BAR || (args->progress == CHARL__PROGRESS_AUTO && terminal);
    o->color = args->color == 1 || (args->color == -1 && terminal && !(no_color && no_color[0]));
}

/* Columns to draw in; --progress=bar draws on what is no terminal, too. */
static int columns_of(void)
{
    const int columns = charl__cli_columns(stdout);

    return columns > 0 ? columns : 80;
}

static bool is_quiet(const charl__output *o)
{
    return o->args->verbosity < 0 || o->args->progress == CHARL__PROGRESS_NONE;
}

/* A dry run is for the plan. */
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

static CHARL_PRINTF(2, 3) void say_line(charl__output *o, const char *fmt, ...)
{
    char stamp[64];
    va_list ap;

    charl__clock_format(charl__clock_wall_s(), stamp);
    o->said_s = charl__clock_s();
    if (!o->bar && !is_quiet(o)) {
        printf("%s ", stamp);
        va_start(ap, fmt);
        vprintf(fmt, ap);
        va_end(ap);
        putchar('\n');
        fflush(stdout);
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

/* The run directory's files; it exists and is locked by now. */
static charl_status open_files(charl__output *o, const charl_train_info *i)
{
    charl_status st = CHARL_OK;
    const char *dir = o->config->run.output_dir;
    char path[4096], *text = NULL;
    charl__text env = {0};

    CHARL_TRY_CLEANUP(charl__metrics_open(dir, o->config->log.formats, i->start_step, &o->metrics));
    CHARL_REQUIRE_CLEANUP((size_t)snprintf(path, sizeof path, "%s/train.log", dir) < sizeof path, CHARL_ERR_DISK,
                          "the path %s is too long", dir);
    CHARL_TRY_CLEANUP(charl__log_open(path, i->start_step == 0, &o->log));
    CHARL_TRY_CLEANUP(charl_config_print(o->config, false, &text));
    CHARL_TRY_CLEANUP(charl__metrics_write_file(dir, "config.ini", text));
    CHARL_TRY_CLEANUP(charl__train_env_json(&env));
    CHARL_TRY_CLEANUP(charl__metrics_write_file(dir, "env.json", charl__text_string(&env)));
cleanup:
    charl__text_fini(&env);
    charl_free(text);
    return st;
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

static charl_status on_built(void *ctx, const charl_train_info *i)
{
    charl_status st = CHARL_OK;
    charl__output *o = ctx;
    charl__device_text mine, *devices = NULL;

    snprintf(mine.name, sizeof mine.name, "%.63s", i->device->name);
    snprintf(mine.pci, sizeof mine.pci, "%s", i->device->pci);
    CHARL_TRY_CLEANUP(charl_alloc_array(o->size, sizeof mine, &devices));
    CHARL_TRY_CLEANUP(charl_comm_allgather(o->comm, &mine, sizeof mine, devices));
    if (o->rank == 0 && prints_plan(o)) {
        erase_bar(o);
        charl__train_print_model(o, i, devices);
    }
cleanup:
    charl_free(devices);
    return st;
}

static charl_status on_started(void *ctx, const charl_train_info *i)
{
    charl__output *o = ctx;
    const double compiled_s = charl__cli_compiling_end(&o->compiling, &o->compiled);
    const bool compiled_long = compiled_s >= CHARL__COMPILE_LONG_S;
    int64_t all_bytes = i->memory_bytes;

    CHARL_TRY(charl_comm_reduce_i64(o->comm, CHARL_COMM_SUM, &all_bytes, 1));
    if (o->rank != 0) {
        return CHARL_OK;
    }
    o->steps = i->steps;
    o->window = i->window;
    o->rows = i->train_rows;
    o->batch = i->batch_size;
    erase_bar(o);
    if (o->bar && compiled_long && !is_quiet(o)) {
        printf("  kernels  %d compiled in %.1f s\n", o->compiled.done, compiled_s);
    }
    if (prints_plan(o)) {
        charl__train_print_plan(o, i, all_bytes);
    }
    if (o->files) {
        CHARL_TRY(open_files(o, i));
    }
    if (compiled_long) {
        say_line(o, "compiled kernels=%d s=%.1f", o->compiled.done, compiled_s);
    }
    if (o->files) {
        say_line(o, "start step=%" PRId64 "/%" PRId64 " ranks=%d", i->start_step, i->steps, o->size);
        if (i->start_step >= i->steps) {
            say_line(o, "complete: nothing left to do; to train on, increase train.epochs");
            if (o->bar) {
                printf("complete: nothing left to do\n");
            }
        }
    }
    if (i->data_note && i->data_note[0]) {
        charl__cli_say("note", i->data_note);
    }
    o->epoch_s = charl__clock_s();
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
    char eta[32], tokens[48] = "";

    if (o->rank != 0) {
        return CHARL_OK;
    }
    o->rate = r->samples_per_s;
    if (r->tokens_per_s > 0) {
        o->rate = r->tokens_per_s;
        snprintf(tokens, sizeof tokens, " tokens_per_s=%.0f", r->tokens_per_s);
    }
    o->lr = r->lr;
    o->eta_s = r->eta_s;
    o->row_s = charl__clock_s();
    say_line(o,
             "train step=%" PRId64 "/%" PRId64
             " epoch=%.2f loss=%.6g lr=%.2e grad_norm=%.4g samples_per_s=%.0f%s step_ms=%.3f "
             "data_ms=%.3f comm_ms=%.3f comm_exposed_ms=%.3f mem_gib=%.2f eta=%s",
             r->step, r->steps, r->epoch, unsigned_nan(r->loss), r->lr, unsigned_nan(r->grad_norm), r->samples_per_s,
             tokens, r->step_ms, r->data_ms, r->comm_ms, r->comm_exposed_ms, (double)r->mem_bytes / 1073741824.0,
             charl__duration_short(r->eta_s, eta, sizeof eta));
    if (o->metrics) {
        CHARL_TRY(charl__metrics_train(o->metrics, r));
    }
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

/* The text after the bar: counts, the last row's values, and the time left or, at the end of an
 * epoch, taken. */
static void bar_suffix(const charl__output *o, int64_t done, int64_t length, char *text, size_t size)
{
    const double now = charl__clock_s();
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
        snprintf(text + n, size - (size_t)n, "  %s", charl__duration_short(now - o->epoch_s, time, sizeof time));
    } else if (o->rate > 0) {
        snprintf(text + n, size - (size_t)n, "  ETA %s", charl__duration_short(left > 0 ? left : 0, time, sizeof time));
    }
}

/* The epoch, from 0, that step takes its first row from. */
static int64_t epoch_of(const charl__output *o, int64_t step)
{
    return (step - 1) * o->batch / o->rows;
}

/* The step that takes the last row of an epoch; it may take some of the next. */
static int64_t last_step(const charl__output *o, int64_t epoch)
{
    const int64_t last = ((epoch + 1) * o->rows + o->batch - 1) / o->batch;

    return last < o->steps ? last : o->steps;
}

/* One line that never wraps: the bar gives way first, then the end of the text. */
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
    if (step - first == length) { /* the line of a whole epoch stays */
        putchar('\n');
        o->bar_drawn = false;
        o->epoch_s = charl__clock_s();
    }
    fflush(stdout);
}

static charl_status on_progressed(void *ctx, int64_t step, double loss)
{
    charl__output *o = ctx;
    const double now = charl__clock_s();

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

static charl_status on_evaluated(void *ctx, const charl_val_row *r)
{
    charl__output *o = ctx;
    char accuracy[48] = "", percent[48] = "", perplexity[64] = "", exponential[64] = "", mae[64] = "";

    if (o->rank != 0) {
        return CHARL_OK;
    }
    if (!isnan(r->accuracy)) {
        snprintf(accuracy, sizeof accuracy, " accuracy=%.4f", r->accuracy);
        snprintf(percent, sizeof percent, "  accuracy %.2f%%", 100.0 * r->accuracy);
    }
    if (!isnan(r->mae)) {
        snprintf(mae, sizeof mae, " mae=%.6g", r->mae);
    }
    if (r->perplexity > 0) {
        snprintf(perplexity, sizeof perplexity, " perplexity=%.6g", r->perplexity);
        snprintf(exponential, sizeof exponential, "  perplexity %.4g", r->perplexity);
    }
    say_line(o, "val step=%" PRId64 " epoch=%.4g loss=%.6g%s%s%s best=%s", r->step, r->epoch, unsigned_nan(r->loss),
             accuracy, perplexity, mae, r->best ? "yes" : "no");
    if (o->bar && !is_quiet(o)) {
        erase_bar(o);
        printf("          val  loss %.4f%s%s%s%s\n", r->loss, percent, exponential, mae, r->best ? "  best" : "");
    }
    if (o->metrics) {
        CHARL_TRY(charl__metrics_val(o->metrics, r));
    }
    return CHARL_OK;
}

static charl_status on_balanced(void *ctx, const charl_balance_row *r)
{
    charl_status st = CHARL_OK;
    charl__output *o = ctx;
    charl__text slices = {0}, times = {0};

    if (o->rank != 0) {
        goto cleanup;
    }
    for (int i = 0; i < r->size; i++) {
        CHARL_TRY_CLEANUP(charl__text_printf(&slices, "%s%d", i > 0 ? "," : "", r->slices[i]));
        CHARL_TRY_CLEANUP(charl__text_printf(&times, "%s%.3f", i > 0 ? "," : "", r->step_ms[i]));
    }
    say_line(o, "balance step=%" PRId64 " slices=%s step_ms=%s ms=%.0f", r->step, charl__text_string(&slices),
             charl__text_string(&times), r->ms);
    if (o->metrics) {
        CHARL_TRY_CLEANUP(charl__metrics_balance(o->metrics, r));
    }
cleanup:
    charl__text_fini(&slices);
    charl__text_fini(&times);
    return st;
}

static charl_status on_saved(void *ctx, const charl_saved_row *r)
{
    charl__output *o = ctx;

    if (o->rank == 0) {
        const char *dir = strstr(r->path, "checkpoints/");

        say_line(o, "checkpoint step=%" PRId64 " file=%s ms=%.0f waited_ms=%.0f", r->step, dir ? dir : r->path, r->ms,
                 r->waited_ms);
    }
    return CHARL_OK;
}

static void on_warned(void *ctx, const char *text)
{
    charl__output *o = ctx;

    erase_bar(o);
    fflush(stdout);
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
                                .warned = on_warned};
}

void charl__output_done(charl__output *o, const charl_train_result *r)
{
    char best[96] = "", wall[32], tokens[48] = "", skipped[48] = "", overflowed[48] = "";

    if (o->rank != 0 || o->args->dry_run) {
        return;
    }
    erase_bar(o);
    if (!isnan(r->best_metric)) {
        char *slash;

        snprintf(best, sizeof best, " best_%s=%.6g best_step=%" PRId64, o->config->checkpoint.monitor, r->best_metric,
                 r->best_step);
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
    if (r->early) {
        say_line(o, "early stopping: no better value for %" PRId64 " evaluations",
                 o->config->train.early_stopping_patience);
    }
    say_line(o, "%s step=%" PRId64 " epoch=%.4g%s%s%s%s wall_s=%.1f samples_per_s=%.0f%s",
             r->stopped ? "stopped" : "done", r->step, r->epoch, best, skipped, overflowed,
             r->early ? " early_stopping=yes" : "", r->wall_s, r->samples_per_s, tokens);
    if (o->bar && !is_quiet(o)) {
        printf("%s at step %" PRId64 " after %s%s\n", r->stopped ? "stopped" : "done", r->step,
               charl__duration_short(r->wall_s, wall, sizeof wall),
               r->stopped && o->files ? "; the same command continues" : "");
    }
    fflush(stdout);
}

void charl__output_fini(charl__output *o)
{
    erase_bar(o);
    if (o->log) {
        fclose(o->log);
    }
    charl__metrics_close(o->metrics);
    o->log = NULL;
    o->metrics = NULL;
}

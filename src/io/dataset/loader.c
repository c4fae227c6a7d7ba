/* A ring with three counters that only grow: filled >= taken >= released. Slot of step k (counted
 * from the first) is k % n_slots. The thread works while filled - released < n_slots; next waits
 * while filled == taken. */
#include "io/dataset/loader.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/order/stream.h"
#include "io/dataset/weights.h"

enum { MESSAGE = 2048 };

struct charl__loader {
    charl__loader_options opt;
    void *part[CHARL__BATCH_PARTS][CHARL__LOADER_MAX_SLOTS]; /* of those that are requested */
    charl__stream stream;
    charl_dataset_info info;
    int64_t *rows; /* of the batch being read */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t filled, taken, released; /* under lock, as all below */
    bool waits;                      /* next waits for a step that has not been read */
    bool stop;
    charl_status failed;
    char message[MESSAGE];
    double waited_s;
};

static int64_t slot_rows(const charl__loader_options *o)
{
    return o->mirrored ? 2 * o->rows : o->rows;
}

/* Position in the stream of row i of a slot. */
static int64_t position_of(const charl__loader_options *o, int64_t step, int64_t i)
{
    return step * o->batch + (i < o->rows ? o->row0 + i : o->batch - 1 - o->row0 - (i - o->rows));
}

static charl_status fill(charl__loader *l, int64_t index)
{
    const charl__loader_options *o = &l->opt;
    const int slot = (int)(index % o->n_slots);
    const int64_t n = slot_rows(o), window = l->stream.window;
    void *x = l->part[CHARL__BATCH_X][slot], *y = l->part[CHARL__BATCH_Y][slot];
    float *weights = l->part[CHARL__BATCH_WEIGHTS][slot];
    int32_t *starts = l->part[CHARL__BATCH_STARTS][slot];

    for (int64_t i = 0; i < n; i++) {
        charl__stream_places(&l->stream, position_of(o, o->first_step + index, i), 1, &l->rows[i]);
    }
    CHARL_TRY((window > 0 ? charl__dataset_read_at : charl_dataset_read)(o->ds, o->split, l->rows, n, x, y));
    if (weights) {
        CHARL_TRY(o->weighs_pixels ? charl__dataset_weigh_pixels(o->ds, o->split, l->rows, n, y, weights)
                                   : charl__dataset_read_weights(o->ds, o->split, l->rows, n, weights));
        charl__clear_ignored(&l->info, y, n);
    }
    for (int64_t i = 0; starts && i < n; i++) {
        charl__dataset_window_starts(o->ds, o->split, l->rows[i], window, starts + i * window);
    }
    return CHARL_OK;
}

void charl__clear_ignored(const charl_dataset_info *info, void *y, int64_t n)
{
    int32_t *label = y;

    for (int64_t i = 0; info->y_dtype == CHARL_I32 && i < n * charl_shape_count(&info->y_shape); i++) {
        label[i] = label[i] < 0 ? 0 : label[i];
    }
}

static bool has_work(const charl__loader *l)
{
    const bool ended = l->opt.end_step >= 0 && l->opt.first_step + l->filled >= l->opt.end_step;

    return !ended && l->filled - l->released < l->opt.n_slots &&
           (!l->opt.on_demand || (l->waits && l->filled == l->taken));
}

static void *work(void *user)
{
    charl__loader *l = user;

    pthread_mutex_lock(&l->lock);
    while (!l->stop && l->failed == CHARL_OK) {
        charl_status st;
        double begun;

        if (!has_work(l)) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        begun = charl__trace_begin(l->opt.trace);
        st = fill(l, l->filled); /* only this thread changes filled */
        charl__trace_end(l->opt.trace, CHARL__LANE_INPUT, "read batch", "", 0, begun);
        pthread_mutex_lock(&l->lock);
        if (st == CHARL_OK) {
            l->filled++;
        } else {
            l->failed = st;
            snprintf(l->message, sizeof l->message, "%s", charl_error_message());
        }
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static charl_status check_options(const charl__loader_options *o)
{
    charl_dataset_info info;
    const bool in_batch = o->batch >= 1 && o->row0 >= 0 && o->rows >= 1 && o->rows <= o->batch - o->row0;

    CHARL_REQUIRE(o->ds && (unsigned)o->split < CHARL_SPLIT_COUNT, CHARL_ERR_INVALID,
                  "loader: no dataset or no such split");
    charl_dataset_get_info(o->ds, &info);
    CHARL_REQUIRE(info.rows[o->split] > 0, CHARL_ERR_INVALID, "loader: %s has no split %s", info.path,
                  charl_split_name(o->split));
    CHARL_REQUIRE(in_batch, CHARL_ERR_INVALID, "loader: rows [%lld, +%lld) of a batch of %lld", (long long)o->row0,
                  (long long)o->rows, (long long)o->batch);
    CHARL_REQUIRE(o->first_step >= 0 && o->first_step < INT64_MAX / o->batch - o->batch, CHARL_ERR_INVALID,
                  "loader: step %lld", (long long)o->first_step);
    CHARL_REQUIRE(o->n_slots >= 1 && o->n_slots <= CHARL__LOADER_MAX_SLOTS && o->part[CHARL__BATCH_X],
                  CHARL_ERR_INVALID, "loader: %d slots", o->n_slots);
    return CHARL_OK;
}

charl_status charl__loader_create(const charl__loader_options *opt, charl__loader **out)
{
    charl_status st = CHARL_OK;
    charl__loader *l = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(check_options(opt));
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *l, &l));
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->opt = *opt;
    for (int k = 0; k < CHARL__BATCH_PARTS; k++) {
        if (opt->part[k]) {
            memcpy(l->part[k], opt->part[k], (size_t)opt->n_slots * sizeof *l->part[k]);
        }
    }
    charl_dataset_get_info(opt->ds, &l->info);
    charl__stream_init(&l->stream, opt->ds, opt->split, opt->shuffle, opt->seed);
    CHARL_TRY_CLEANUP(charl__alloc_array(slot_rows(opt), sizeof *l->rows, &l->rows));
    CHARL_TRY_CLEANUP(charl__acquire("thread"));
    l->running = pthread_create(&l->thread, NULL, work, l) == 0;
    if (!l->running) {
        charl__drop();
        CHARL_FAIL_CLEANUP(CHARL_ERR_NOMEM, "loader: no thread can be started");
    }
    *out = l;
    l = NULL;
cleanup:
    charl__loader_destroy(l);
    return st;
}

charl_status charl__loader_next(charl__loader *l, int64_t *step, int *slot)
{
    charl_status st = CHARL_OK;
    double since;

    *step = -1;
    *slot = -1;
    pthread_mutex_lock(&l->lock);
    CHARL_REQUIRE_CLEANUP(l->opt.end_step < 0 || l->opt.first_step + l->taken < l->opt.end_step, CHARL_ERR_INVALID,
                          "loader: step %lld was the last", (long long)l->opt.end_step);
    CHARL_REQUIRE_CLEANUP(l->taken - l->released < l->opt.n_slots, CHARL_ERR_INVALID, "loader: all %d slots are held",
                          l->opt.n_slots);
    since = charl__clock_s();
    l->waits = true;
    if (l->opt.on_demand) {
        pthread_cond_broadcast(&l->changed);
    }
    while (l->filled == l->taken && l->failed == CHARL_OK) {
        pthread_cond_wait(&l->changed, &l->lock);
    }
    l->waits = false;
    l->waited_s += charl__clock_s() - since;
    CHARL_REQUIRE_CLEANUP(l->filled > l->taken, l->failed, "%s", l->message);
    *step = l->opt.first_step + l->taken;
    *slot = (int)(l->taken % l->opt.n_slots);
    l->taken++;
cleanup:
    pthread_mutex_unlock(&l->lock);
    return st;
}

void charl__loader_release(charl__loader *l, int slot)
{
    pthread_mutex_lock(&l->lock);
    CHARL_INVARIANT(l->released < l->taken && slot == (int)(l->released % l->opt.n_slots));
    l->released++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

double charl__loader_waited_s(const charl__loader *l)
{
    return l->waited_s; /* written only by next, which runs in the caller's thread */
}

void charl__loader_destroy(charl__loader *l)
{
    if (!l) {
        return;
    }
    if (l->running) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
        charl__drop();
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    charl_free(l->rows);
    charl_free(l);
}

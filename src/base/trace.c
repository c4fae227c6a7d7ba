/* Spans of time. Few distinct texts recur: each is stored once, found by a hash. */
#include "base/trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/numeric/hash.h"

enum { SLOTS = 4096, MOST_SPANS = 4 << 20 };

struct charl__trace {
    atomic_bool is_on, is_aside;
    pthread_mutex_t lock; /* of all below */
    charl__trace_span *span;
    int64_t count, lost;
    char **text;
    int n_texts;
    int chain[SLOTS]; /* 1 + number of the last text added with this hash; 0: none */
    int *next;        /* [n_texts] as chain */
};

const char *charl__lane_name(charl__lane lane)
{
    static const char *const names[] = {
#define X(id, name) name,
        CHARL__LANE_LIST(X)
#undef X
    };

    return (unsigned)lane < CHARL__LANE_COUNT ? names[lane] : "?";
}

charl_status charl__trace_create(charl__trace **out)
{
    CHARL_TRY(charl__alloc(sizeof **out, out));
    pthread_mutex_init(&(*out)->lock, NULL);
    return CHARL_OK;
}

static void forget(charl__trace *t)
{
    for (int i = 0; i < t->n_texts; i++) {
        charl_free(t->text[i]);
    }
    charl_free(t->text);
    charl_free(t->next);
    charl_free(t->span);
    t->text = NULL;
    t->next = NULL;
    t->span = NULL;
    t->n_texts = 0;
    t->count = t->lost = 0;
    memset(t->chain, 0, sizeof t->chain);
}

void charl__trace_destroy(charl__trace *t)
{
    if (t) {
        forget(t);
        pthread_mutex_destroy(&t->lock);
        charl_free(t);
    }
}

void charl__trace_start(charl__trace *t)
{
    if (t) {
        pthread_mutex_lock(&t->lock);
        forget(t);
        pthread_mutex_unlock(&t->lock);
        atomic_store(&t->is_on, true);
    }
}

void charl__trace_stop(charl__trace *t)
{
    if (t) {
        atomic_store(&t->is_on, false);
    }
}

bool charl__trace_is_on(const charl__trace *t)
{
    return t && atomic_load_explicit(&t->is_on, memory_order_relaxed);
}

void charl__trace_set_aside(charl__trace *t, bool aside)
{
    if (t) {
        atomic_store(&t->is_aside, aside);
    }
}

bool charl__trace_is_aside(const charl__trace *t)
{
    return t && atomic_load_explicit(&t->is_aside, memory_order_relaxed);
}

double charl__trace_begin(const charl__trace *t)
{
    return charl__trace_is_on(t) ? charl__clock_s() : -1.0;
}

static charl_status add_text(charl__trace *t, int slot, const char *text)
{
    CHARL_TRY(charl__grow(t->n_texts, sizeof *t->text, &t->text));
    CHARL_TRY(charl__grow(t->n_texts, sizeof *t->next, &t->next));
    CHARL_TRY(charl__strdup(text, &t->text[t->n_texts]));
    t->next[t->n_texts++] = t->chain[slot];
    t->chain[slot] = t->n_texts;
    return CHARL_OK;
}

int charl__trace_number(charl__trace *t, const char *text)
{
    const int slot = (int)(charl__fnv1a64_string(text) % SLOTS);
    int at;

    pthread_mutex_lock(&t->lock);
    for (at = t->chain[slot]; at > 0 && strcmp(t->text[at - 1], text) != 0; at = t->next[at - 1]) {
    }
    if (at == 0 && add_text(t, slot, text) == CHARL_OK) {
        at = t->n_texts;
    }
    pthread_mutex_unlock(&t->lock);
    return at - 1;
}

void charl__trace_add(charl__trace *t, const charl__trace_span *span)
{
    pthread_mutex_lock(&t->lock);
    if (span->name >= 0 && span->label >= 0 && t->count < MOST_SPANS &&
        charl__grow(t->count, sizeof *t->span, &t->span) == CHARL_OK) {
        t->span[t->count++] = *span;
    } else {
        t->lost++;
    }
    pthread_mutex_unlock(&t->lock);
}

void charl__trace_end(charl__trace *t, charl__lane lane, const char *name, const char *label, double bytes,
                      double begun)
{
    if (begun >= 0) {
        charl__trace_add(t, &(charl__trace_span){.lane = lane,
                                                 .name = charl__trace_number(t, name),
                                                 .label = charl__trace_number(t, label),
                                                 .begin_s = begun,
                                                 .end_s = charl__clock_s(),
                                                 .bytes = bytes,
                                                 .is_aside = charl__trace_is_aside(t)});
    }
}

int64_t charl__trace_count(const charl__trace *t)
{
    return t->count;
}

const charl__trace_span *charl__trace_at(const charl__trace *t, int64_t i)
{
    return &t->span[i];
}

const char *charl__trace_text(const charl__trace *t, int number)
{
    return t->text[number];
}

int charl__trace_texts(const charl__trace *t)
{
    return t->n_texts;
}

int64_t charl__trace_lost(const charl__trace *t)
{
    return t->lost;
}

/* Saving in the background: begin copies everything into one block, a thread saves the copy, poll
 * or wait joins it and hands on its status with its message. One save at a time; the block is kept
 * for the next one.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "charl/checkpoint.h"
#include "io/checkpoint/checkpoint_format.h"
#include "io/h5.h"

enum { MESSAGE_BYTES = 2048, ALIGN = 64 };

struct charl_checkpoint_writer {
    bool background;
    bool busy; /* begun and not collected */
    bool threaded;
    pthread_t thread;
    atomic_bool done;
    charl_status result;
    char message[MESSAGE_BYTES];
    char *block;
    size_t capacity;
    const char *path;          /* in block */
    charl_checkpoint copy;     /* pointers into block */
    charl_data_schema *schema; /* of the copy */
};

/* Takes pieces from a block, or only counts when base is NULL. */
typedef struct bump {
    char *base;
    size_t used;
} bump;

charl_status charl_checkpoint_writer_create(bool background, charl_checkpoint_writer **out)
{
    charl_checkpoint_writer *w = NULL;

    *out = NULL;
    CHARL_TRY(charl_alloc(sizeof *w, &w));
    w->background = background && charl__h5_is_thread_safe();
    atomic_init(&w->done, false);
    *out = w;
    return CHARL_OK;
}

static const void *take(bump *b, const void *data, size_t bytes)
{
    char *at = b->base ? b->base + b->used : NULL;

    if (at && bytes > 0) {
        memcpy(at, data, bytes);
    }
    b->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static const char *take_text(bump *b, const char *text)
{
    return text ? take(b, text, strlen(text) + 1) : NULL;
}

/* Copy *c and path into the block, or count. The block starts with the array of tensors. */
static void snapshot(bump *b, charl_checkpoint_writer *w, const char *path,
                     const charl_checkpoint *c)
{
    charl_checkpoint_tensor *tensors = (void *)b->base;
    charl_checkpoint copy = *c;

    take(b, c->tensors, (size_t)c->n_tensors * sizeof *tensors);
    for (int64_t i = 0; i < c->n_tensors; i++) {
        const charl_checkpoint_tensor *t = &c->tensors[i];
        const int64_t bytes = charl__ckpt_bytes(t->dtype, &t->shape);
        const char *group = take_text(b, t->group), *name = take_text(b, t->name);
        const void *data = take(b, t->data, bytes > 0 && t->data ? (size_t)bytes : 0);

        if (tensors) {
            tensors[i].group = group;
            tensors[i].name = name;
            tensors[i].data = t->data ? data : NULL;
        }
    }
    for (int i = 0; i < charl__ckpt_n_fields; i++) {
        if (charl__ckpt_fields[i].kind == CHARL__CKPT_STRING) {
            char *at = (char *)&copy.state + charl__ckpt_fields[i].offset;
            const char *text = NULL;

            memcpy(&text, at, sizeof text);
            text = take_text(b, text);
            memcpy(at, &text, sizeof text);
        }
    }
    copy.config_text = take_text(b, c->config_text);
    copy.config_resolved = take_text(b, c->config_resolved);
    copy.tensors = tensors;
    copy.schema = w->schema;
    w->path = take_text(b, path);
    w->copy = copy;
}

static void *run(void *user)
{
    charl_checkpoint_writer *w = user;

    w->result = charl_checkpoint_save(w->path, &w->copy);
    if (w->result != CHARL_OK) {
        snprintf(w->message, sizeof w->message, "%s", charl_error_message());
    }
    atomic_store(&w->done, true);
    return NULL;
}

/* Start run() in a thread that takes no signals: they belong to the thread that waits for them. */
static charl_status start(charl_checkpoint_writer *w)
{
    sigset_t all, before;
    int err;

    CHARL_TRY(charl__acquire("thread"));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&w->thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_NOMEM, "no thread for saving a checkpoint (error %d)", err);
    }
    w->threaded = true;
    return CHARL_OK;
}

charl_status charl_checkpoint_writer_begin(charl_checkpoint_writer *w, const char *path,
                                           const charl_checkpoint *c)
{
    bump b = {0};

    CHARL_REQUIRE(!w->busy, CHARL_ERR_INVALID, "the last save has not been collected");
    CHARL_REQUIRE(c->n_tensors >= 0 && (c->tensors || c->n_tensors == 0), CHARL_ERR_INVALID,
                  "checkpoint: %lld tensors", (long long)c->n_tensors);
    atomic_store(&w->done, false);
    if (!w->background) {
        w->path = path;
        w->copy = *c;
        run(w);
        w->busy = true;
        return CHARL_OK;
    }
    charl_data_schema_destroy(w->schema);
    w->schema = NULL;
    if (c->schema) {
        CHARL_TRY(charl_data_schema_copy(c->schema, &w->schema));
    }
    snapshot(&b, w, path, c);
    if (b.used > w->capacity) {
        charl_free(w->block); /* first: the old copy is of no use */
        w->block = NULL;
        w->capacity = 0;
        CHARL_TRY(charl_alloc_aligned(ALIGN, b.used, &w->block));
        w->capacity = b.used;
    }
    b = (bump){.base = w->block};
    snapshot(&b, w, path, c);
    CHARL_TRY(start(w));
    w->busy = true;
    return CHARL_OK;
}

charl_status charl_checkpoint_writer_wait(charl_checkpoint_writer *w)
{
    if (w->threaded) {
        pthread_join(w->thread, NULL);
        charl__drop();
        w->threaded = false;
    }
    if (w->busy) {
        w->busy = false;
        CHARL_REQUIRE(w->result == CHARL_OK, w->result, "%s", w->message);
    }
    return CHARL_OK;
}

charl_status charl_checkpoint_writer_poll(charl_checkpoint_writer *w, bool *done)
{
    *done = !w->busy || atomic_load(&w->done);
    if (*done) {
        CHARL_TRY(charl_checkpoint_writer_wait(w));
    }
    return CHARL_OK;
}

void charl_checkpoint_writer_destroy(charl_checkpoint_writer *w)
{
    if (!w) {
        return;
    }
    if (w->threaded) {
        pthread_join(w->thread, NULL);
        charl__drop();
    }
    charl_data_schema_destroy(w->schema);
    charl_free(w->block);
    charl_free(w);
}

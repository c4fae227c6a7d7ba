/* Launches kept with kernel objects of their own, so that replaying sets no argument and allocates
 * nothing. */
#include <string.h>

#include "device/cl_private.h"

struct charl_recording {
    charl_device *dev; /* retained */
    charl__ready *item;
    char **text; /* entry NUL label NUL of each item: the caller's strings may die first */
    int count, capacity;
    charl_buffer **held; /* retained, each once */
    int n_held, held_capacity;
};

static charl_status hold(charl_recording *rec, charl_buffer *b)
{
    charl_status st = CHARL_OK;

    for (int i = rec->n_held - 1; i >= 0; i--) { /* neighbours in time share buffers */
        if (rec->held[i] == b) {
            goto cleanup;
        }
    }
    if (rec->n_held == rec->held_capacity) {
        const int capacity = rec->held_capacity ? 2 * rec->held_capacity : 32;

        CHARL_TRY(charl_realloc((size_t)capacity * sizeof(charl_buffer *), &rec->held));
        rec->held_capacity = capacity;
    }
    rec->held[rec->n_held++] = charl__buffer_retain(b);
cleanup:
    return st;
}

static charl_status grow(charl_recording *rec)
{
    charl_status st = CHARL_OK;
    const int capacity = rec->capacity ? 2 * rec->capacity : 64;

    if (rec->count == rec->capacity) {
        CHARL_TRY(charl_realloc((size_t)capacity * sizeof *rec->item, &rec->item));
        CHARL_TRY(charl_realloc((size_t)capacity * sizeof(char *), &rec->text));
        rec->capacity = capacity;
    }
cleanup:
    return st;
}

/* Takes r.kernel, also on failure. */
charl_status charl__recording_append(charl_recording *rec, const charl_launch *l, charl__ready r)
{
    charl_status st = CHARL_OK;
    const size_t entry = strlen(r.entry) + 1, label = strlen(r.label) + 1;
    char *text = NULL;

    CHARL_TRY(charl__args_set(r.kernel, l));
    CHARL_TRY(grow(rec));
    CHARL_TRY(charl_alloc(entry + label, &text));
    memcpy(text, r.entry, entry);
    memcpy(text + entry, r.label, label);
    for (int i = 0; i < CHARL_MAX_ARGS && l->args[i].kind != CHARL_ARG_END; i++) {
        if (charl__arg_is_buffer(l->args[i].kind) && l->args[i].buffer) {
            CHARL_TRY(hold(rec, l->args[i].buffer));
        }
    }
    r.entry = text;
    r.label = text + entry;
    rec->text[rec->count] = text;
    rec->item[rec->count++] = r;
    text = NULL;
    r.kernel = NULL;
cleanup:
    charl__kernel_release(r.kernel);
    charl_free(text);
    return st;
}

charl_status charl__record_begin(charl_device *dev, charl_recording **out)
{
    charl_status st = CHARL_OK;
    charl_recording *rec = NULL;

    *out = NULL;
    CHARL_REQUIRE(!dev->recording, CHARL_ERR_INVALID, "a recording is already in progress");
    CHARL_TRY(charl_alloc(sizeof *rec, &rec));
    rec->dev = charl__device_retain(dev);
    dev->recording = rec;
    *out = rec;
cleanup:
    return st;
}

void charl__record_end(charl_device *dev)
{
    dev->recording = NULL;
}

charl_recording *charl__record_pause(charl_device *dev)
{
    charl_recording *r = dev->recording;

    dev->recording = NULL;
    return r;
}

void charl__record_resume(charl_device *dev, charl_recording *r)
{
    dev->recording = r;
}

int charl__recording_count(const charl_recording *r)
{
    return r->count;
}

charl_status charl__recording_replay(charl_recording *r, int first, int last)
{
    charl_status st = CHARL_OK;

    CHARL_REQUIRE(first >= 0 && first <= last && last <= r->count, CHARL_ERR_INVALID,
                  "launches %d to %d of a recording of %d", first, last, r->count);
    for (int i = first; i < last; i++) {
        CHARL_TRY(charl__ready_enqueue(r->dev, &r->item[i]));
    }
cleanup:
    return st;
}

void charl__recording_destroy(charl_recording *r)
{
    if (!r) {
        return;
    }
    if (r->dev->recording == r) {
        r->dev->recording = NULL;
    }
    for (int i = 0; i < r->count; i++) {
        charl__kernel_release(r->item[i].kernel);
        charl_free(r->text[i]);
    }
    for (int i = 0; i < r->n_held; i++) {
        charl__buffer_release(r->held[i]);
    }
    charl_free(r->held);
    charl_free(r->item);
    charl_free(r->text);
    charl__device_release(r->dev);
    charl_free(r);
}

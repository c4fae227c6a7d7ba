/* run.lock: lines of text, each with the hash of the one before. */
#define _DEFAULT_SOURCE /* realpath */
#include "io/checkpoint/run_lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/commit.h"
#include "io/progress.h"
#include "io/regular.h"

enum { LARGEST = 1 << 28, MAX_DIGITS = 18 };

static const char *const keys[CHARL__LOCK_KEYS] = {"step",   "tensors", "charl",    "kernels",
                                                   "config", "data",    "previous", "hash"};
static const char first_previous[] = "0000000000000000000000000000000000000000000000000000000000000000";

#define BIT(key) (1U << CHARL__LOCK_##key)
#define CHAIN (BIT(PREVIOUS) | BIT(HASH))
#define MADE_OF (BIT(VERSION) | BIT(KERNELS) | BIT(CONFIG) | BIT(DATA))
static const struct {
    const char *name;
    unsigned keys;
} kinds[] = {
    [CHARL__LOCK_START] = {"start", MADE_OF | CHAIN},
    [CHARL__LOCK_CHECKPOINT] = {"checkpoint", BIT(STEP) | BIT(TENSORS) | CHAIN},
    [CHARL__LOCK_RESUME] = {"resume", BIT(STEP) | BIT(TENSORS) | MADE_OF | CHAIN},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

void charl__lock_fini(charl__lock *lock)
{
    charl__text_fini(&lock->text);
    charl_free(lock->line);
    charl_free(lock->number);
    *lock = (charl__lock){0};
}

static charl_status add_line(charl__lock *lock, const charl__lock_line *line, int64_t number)
{
    CHARL_TRY(charl__grow(lock->count, sizeof *lock->line, &lock->line));
    CHARL_TRY(charl__grow(lock->count, sizeof *lock->number, &lock->number));
    lock->line[lock->count] = *line;
    lock->number[lock->count++] = number;
    return CHARL_OK;
}

static bool is_value(charl__lock_key key, const char *text, size_t n)
{
    if (key == CHARL__LOCK_STEP) {
        return n >= 1 && n <= MAX_DIGITS && strspn(text, "0123456789") >= n && (text[0] != '0' || n == 1);
    }
    if (key == CHARL__LOCK_VERSION) {
        return n >= 1 && n < CHARL__SHA256_TEXT;
    }
    return n == CHARL__SHA256_TEXT - 1 && strspn(text, "0123456789abcdef") >= n;
}

/* The line of n bytes at `text`; false: it is none. */
static bool parse(const char *text, size_t n, charl__lock_line *out)
{
    size_t at = strcspn(text, " \n");
    int kind = 0;

    while (kind < KINDS && (strlen(kinds[kind].name) != at || memcmp(text, kinds[kind].name, at) != 0)) {
        kind++;
    }
    if (kind == KINDS) {
        return false;
    }
    *out = (charl__lock_line){.kind = (charl__lock_kind)kind};
    for (int k = 0; k < CHARL__LOCK_KEYS; k++) {
        const size_t name = strlen(keys[k]);
        size_t length;

        if (!(kinds[kind].keys >> k & 1)) {
            continue;
        }
        if (n - at < name + 2 || text[at] != ' ' || memcmp(text + at + 1, keys[k], name) != 0 ||
            text[at + 1 + name] != '=') {
            return false;
        }
        at += name + 2;
        length = strcspn(text + at, " \n");
        if (!is_value((charl__lock_key)k, text + at, length)) {
            return false;
        }
        memcpy(out->value[k], text + at, length);
        at += length;
    }
    out->step = strtoll(out->value[CHARL__LOCK_STEP][0] ? out->value[CHARL__LOCK_STEP] : "0", NULL, 10);
    return at == n;
}

/* The text that a line's hash is of. */
static charl_status print(const charl__lock_line *line, charl__text *t)
{
    CHARL_TRY(charl__text_printf(t, "%s", kinds[line->kind].name));
    for (int k = 0; k < CHARL__LOCK_HASH; k++) {
        if (kinds[line->kind].keys >> k & 1) {
            CHARL_TRY(charl__text_printf(t, " %s=%s", keys[k], line->value[k]));
        }
    }
    return CHARL_OK;
}

static int64_t find_hash(const charl__lock *lock, const char *hash)
{
    for (int64_t i = 0; i < lock->count; i++) {
        if (strcmp(lock->line[i].value[CHARL__LOCK_HASH], hash) == 0) {
            return i;
        }
    }
    return -1;
}

/* What is wrong with line i, which is `text` up to its hash. */
static charl_status check_line(const charl__lock *lock, int64_t i, const char *text, charl__text *wrong)
{
    const charl__lock_line *line = &lock->line[i];
    const char *previous = line->value[CHARL__LOCK_PREVIOUS];
    const char *before = i > 0 ? lock->line[i - 1].value[CHARL__LOCK_HASH] : first_previous;
    const bool follows =
        lock->number[i] == (i > 0 ? lock->number[i - 1] + 1 : 1); /* else the line before cannot be read */
    char hash[CHARL__SHA256_TEXT];
    size_t n = 0;

    while (strncmp(text + n, " hash=", 6) != 0) {
        n++;
    }
    charl__sha256_text(text, n, hash);
    if (strcmp(hash, line->value[CHARL__LOCK_HASH]) != 0) {
        CHARL_TRY(charl__text_printf(
            wrong, CHARL__LOCK_FILE ", line %" PRId64 ": was changed: its hash does not match\n", lock->number[i]));
    }
    if (follows && strcmp(previous, before) != 0) {
        const int64_t other = find_hash(lock, previous);

        CHARL_TRY(charl__text_printf(wrong, CHARL__LOCK_FILE ", line %" PRId64 ": ", lock->number[i]));
        CHARL_TRY(other >= 0 ? charl__text_printf(
                                   wrong, "was written after line %" PRId64 ": lines were inserted or reordered\n",
                                   lock->number[other])
                             : charl__text_printf(wrong, "does not follow the line before: that was changed, or lines "
                                                         "were removed\n"));
    }
    return CHARL_OK;
}

static charl_status parse_file(charl__lock *lock, charl__text *wrong)
{
    const char *text = charl__text_string(&lock->text);
    int64_t number = 1;

    CHARL_REQUIRE(strlen(text) == lock->text.length, CHARL_ERR_CHECKPOINT, "it holds bytes that are no text");
    for (const char *p = text; *p; number++) {
        const size_t n = strcspn(p, "\n");
        charl__lock_line line;

        if (p[n] == '\n' && parse(p, n, &line)) {
            CHARL_TRY(add_line(lock, &line, number));
        } else {
            CHARL_TRY(charl__text_printf(wrong, CHARL__LOCK_FILE ", line %" PRId64 ": is not a line that charl wrote\n",
                                         number));
        }
        p += n + (p[n] == '\n');
    }
    CHARL_REQUIRE(lock->count > 0, CHARL_ERR_CHECKPOINT, "charl wrote none of its lines");
    number = 1;
    for (int64_t i = 0; i < lock->count; i++) {
        for (; number < lock->number[i]; number++) {
            text += strcspn(text, "\n") + 1;
        }
        CHARL_TRY(check_line(lock, i, text, wrong));
    }
    return CHARL_OK;
}

/* Leave a last line out of which a crash has kept a part: it has no end, or zeros where it was not written. */
static void drop_torn_line(charl__lock *lock)
{
    const char *data = lock->text.data;
    const size_t n = lock->text.length;
    size_t last = n > 0 ? n - 1 : 0; /* where the last line begins */

    while (last > 0 && data[last - 1] != '\n') {
        last--;
    }
    if (last > 0 && (data[n - 1] != '\n' || memchr(data + last, 0, n - last))) {
        lock->torn = (int64_t)(n - last);
        lock->text.length = last;
        lock->text.data[last] = '\0';
    }
    lock->written = (int64_t)lock->text.length;
}

charl_status charl__lock_read(const char *dir, charl__lock *lock, charl__text *wrong)
{
    charl_status st = CHARL_OK;
    char *path = NULL;

    *lock = (charl__lock){0};
    CHARL_TRY_CLEANUP(charl__commit_join(dir, CHARL__LOCK_FILE, &path));
    CHARL_TRY_CLEANUP(charl__regular_read_all(path, LARGEST, &lock->text));
    drop_torn_line(lock);
    st = parse_file(lock, wrong);
    if (st == CHARL_ERR_CHECKPOINT) {
        charl__error_prefix("%s: ", path);
    }
cleanup:
    charl_free(path);
    return st;
}

/* What `lock` holds and the file does not. */
static charl_status write_lines(const char *path, charl__lock *lock)
{
    const int64_t length = (int64_t)lock->text.length;

    CHARL_TRY(lock->written == 0 || access(path, F_OK) != 0
                  ? charl__commit_bytes(path, lock->text.data, lock->text.length)
                  : charl__commit_append(path, lock->written, lock->text.data + lock->written,
                                         (size_t)(length - lock->written)));
    lock->written = length;
    return CHARL_OK;
}

charl_status charl__lock_append(const char *dir, charl__lock *lock, const charl__lock_line *given)
{
    charl_status st = CHARL_OK;
    charl__lock_line line = *given;
    const size_t was = lock->text.length;
    char *path = NULL;
    bool added = false;

    if (line.kind != CHARL__LOCK_START) {
        snprintf(line.value[CHARL__LOCK_STEP], sizeof line.value[0], "%" PRId64, line.step);
    }
    snprintf(line.value[CHARL__LOCK_PREVIOUS], sizeof line.value[0], "%s",
             lock->count > 0 ? lock->line[lock->count - 1].value[CHARL__LOCK_HASH] : first_previous);
    CHARL_TRY_CLEANUP(charl__commit_join(dir, CHARL__LOCK_FILE, &path));
    CHARL_TRY_CLEANUP(print(&line, &lock->text));
    charl__sha256_text(lock->text.data + was, lock->text.length - was, line.value[CHARL__LOCK_HASH]);
    CHARL_TRY_CLEANUP(charl__text_printf(&lock->text, " hash=%s\n", line.value[CHARL__LOCK_HASH]));
    CHARL_TRY_CLEANUP(add_line(lock, &line, lock->count > 0 ? lock->number[lock->count - 1] + 1 : 1));
    added = true;
    CHARL_TRY_CLEANUP(write_lines(path, lock));
cleanup:
    if (!added && lock->text.data) {
        lock->text.length = was;
        lock->text.data[was] = '\0';
    }
    charl_free(path);
    return st;
}

/* A resumption: what was recorded after it no longer counts. */
static charl_status trace_resume(const charl__lock *lock, int64_t i, charl__lock_history *h, charl__text *wrong)
{
    const charl__lock_line *line = &lock->line[i], *at;

    while (h->count > 0 && lock->line[h->line[h->count - 1]].step > line->step) {
        h->count--;
    }
    at = h->count > 0 ? &lock->line[h->line[h->count - 1]] : NULL;
    if (at && at->step == line->step) {
        if (strcmp(at->value[CHARL__LOCK_TENSORS], line->value[CHARL__LOCK_TENSORS]) == 0) {
            return CHARL_OK;
        }
        CHARL_TRY(charl__text_printf(wrong,
                                     CHARL__LOCK_FILE ", line %" PRId64
                                                      ": the run was resumed from another checkpoint of step %" PRId64
                                                      " than line %" PRId64 " records\n",
                                     lock->number[i], line->step, lock->number[h->line[h->count - 1]]));
    }
    h->count = 0;
    h->line[h->count++] = i; /* there is room for all lines */
    return CHARL_OK;
}

charl_status charl__lock_trace(const charl__lock *lock, charl__lock_history *out, charl__text *wrong)
{
    charl__lock_history *h = out;

    CHARL_TRY(charl__alloc_array(lock->count + 1, sizeof *h->line, &h->line));
    for (int64_t i = 0; i < lock->count; i++) {
        if (lock->line[i].kind == CHARL__LOCK_RESUME) {
            CHARL_TRY(trace_resume(lock, i, h, wrong));
            continue;
        }
        while (h->count > 0 && (lock->line[i].kind == CHARL__LOCK_START ||
                                lock->line[h->line[h->count - 1]].step >= lock->line[i].step)) {
            h->count--;
        }
        if (lock->line[i].kind == CHARL__LOCK_CHECKPOINT) {
            h->line[h->count++] = i;
        }
    }
    return CHARL_OK;
}

int64_t charl__lock_start_of(const charl__lock *lock, int64_t i)
{
    while (i >= 0 && lock->line[i].kind == CHARL__LOCK_CHECKPOINT) {
        i--;
    }
    return i;
}

static charl_status add_tensor(charl__text *t, const charl_checkpoint_tensor *tensor, const char *group,
                               const void *data)
{
    char shape[CHARL_SHAPE_TEXT], hash[CHARL__SHA256_TEXT];

    if (data) {
        charl__sha256_text(data, (size_t)charl_shape_count(&tensor->shape) * charl_dtype_size(tensor->dtype), hash);
    } else {
        snprintf(hash, sizeof hash, CHARL_CHECKPOINT_BASE " %08" PRIx32, tensor->crc32c);
    }
    return charl__text_printf(t, "%s/%s %s %s %s\n", group, tensor->name, charl_dtype_name(tensor->dtype),
                              charl_shape_format(&tensor->shape, shape), hash);
}

charl_status charl__lock_tensors(const charl_checkpoint_tensor *tensor, int64_t n, char hash[CHARL__SHA256_TEXT])
{
    charl_status st = CHARL_OK;
    charl__text t = {0};

    for (int64_t i = 0; i < n; i++) {
        const bool is_left = strcmp(tensor[i].group, CHARL_CHECKPOINT_BASE) == 0;

        CHARL_TRY_CLEANUP(add_tensor(&t, &tensor[i], is_left ? "model" : tensor[i].group, tensor[i].data));
        charl__progress_made();
    }
    charl__sha256_text(t.data, t.length, hash);
cleanup:
    charl__text_fini(&t);
    return st;
}

charl_status charl__lock_checkpoint(charl_checkpoint_reader *r, char hash[CHARL__SHA256_TEXT])
{
    charl_status st = CHARL_OK;
    charl__text t = {0};
    char *values = NULL;

    for (int64_t i = 0; i < charl_checkpoint_get_count(r); i++) {
        const charl_checkpoint_tensor *tensor = charl_checkpoint_get_tensor(r, i);

        if (!charl_checkpoint_is_in_base(r, tensor)) {
            CHARL_TRY_CLEANUP(
                charl__alloc_array(charl_shape_count(&tensor->shape) + 1, charl_dtype_size(tensor->dtype), &values));
            CHARL_TRY_CLEANUP(charl_checkpoint_read(r, tensor, values));
        }
        CHARL_TRY_CLEANUP(add_tensor(&t, tensor, tensor->group, values));
        charl_free(values);
        values = NULL;
    }
    charl__sha256_text(t.data, t.length, hash);
cleanup:
    charl__text_fini(&t);
    charl_free(values);
    return st;
}

charl_status charl__lock_of_checkpoint(const char *checkpoint, charl_checkpoint_reader *r,
                                       char hash[CHARL__SHA256_TEXT])
{
    static const char folder[] = "/checkpoints";
    charl_status st = CHARL_OK;
    charl__lock lock = {0};
    charl__lock_history history = {0};
    charl__text wrong = {0};
    char *dir = realpath(checkpoint, NULL), *slash = dir ? strrchr(dir, '/') : NULL;

    hash[0] = '\0';
    if (slash) {
        *slash = '\0'; /* DIR/checkpoints */
    }
    if (!slash || !charl__ends_in(dir, folder)) {
        goto cleanup;
    }
    dir[strlen(dir) - strlen(folder)] = '\0';
    st = charl__lock_read(dir, &lock, &wrong);
    if (st == CHARL_ERR_CHECKPOINT) { /* there is none */
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(charl__lock_trace(&lock, &history, &wrong));
    for (int64_t i = 0; i < history.count; i++) {
        const charl__lock_line *line = &lock.line[history.line[i]];
        char tensors[CHARL__SHA256_TEXT];

        if (line->step == charl_checkpoint_get_state(r)->step) {
            CHARL_TRY_CLEANUP(charl__lock_checkpoint(r, tensors));
            if (strcmp(tensors, line->value[CHARL__LOCK_TENSORS]) == 0) {
                snprintf(hash, CHARL__SHA256_TEXT, "%s", line->value[CHARL__LOCK_HASH]);
            }
        }
    }
cleanup:
    charl_free(history.line);
    charl__text_fini(&wrong);
    charl__lock_fini(&lock);
    free(dir);
    return st;
}

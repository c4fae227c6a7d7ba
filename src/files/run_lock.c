/* run.lock: lines of text, each with the hash of the previous one. */
#define _DEFAULT_SOURCE /* realpath */
#include "files/run_lock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "io/commit.h"
#include "io/progress.h"
#include "io/regular.h"

enum { LARGEST = 1 << 28, MAX_DIGITS = 18 };

static const char *const keys[CHARL__LOCK_KEYS] = {"format",  "step",   "tensors", "state",    "metrics", "charl",
                                                   "kernels", "config", "data",    "previous", "hash"};
static const char first_previous[] = "0000000000000000000000000000000000000000000000000000000000000000";

#define BIT(key) (1U << CHARL__LOCK_##key)
#define CHAIN (BIT(PREVIOUS) | BIT(HASH))
#define MADE_OF (BIT(VERSION) | BIT(KERNELS) | BIT(CONFIG) | BIT(DATA))
static const struct {
    charl__lock_kind kind;
    int format;
    const char *name;
    unsigned keys;
} forms[] = {
    {CHARL__LOCK_START, 2, "start", BIT(FORMAT) | MADE_OF | CHAIN},
    {CHARL__LOCK_CHECKPOINT, 2, "checkpoint", BIT(STEP) | BIT(TENSORS) | BIT(STATE) | BIT(METRICS) | CHAIN},
    {CHARL__LOCK_RESUME, 2, "resume", BIT(FORMAT) | BIT(STEP) | BIT(TENSORS) | BIT(STATE) | MADE_OF | CHAIN},
    {CHARL__LOCK_START, 1, "start", MADE_OF | CHAIN},
    {CHARL__LOCK_CHECKPOINT, 1, "checkpoint", BIT(STEP) | BIT(TENSORS) | CHAIN},
    {CHARL__LOCK_RESUME, 1, "resume", BIT(STEP) | BIT(TENSORS) | MADE_OF | CHAIN},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

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
    if (key == CHARL__LOCK_FORMAT) {
        return n == 1 && text[0] == '0' + CHARL__LOCK_NEWEST;
    }
    if (key == CHARL__LOCK_STEP) {
        return n >= 1 && n <= MAX_DIGITS && strspn(text, "0123456789") >= n && (text[0] != '0' || n == 1);
    }
    if (key == CHARL__LOCK_VERSION) {
        return n >= 1 && n < CHARL__SHA256_TEXT;
    }
    return n == CHARL__SHA256_TEXT - 1 && strspn(text, "0123456789abcdef") >= n;
}

/* The line of n bytes at `text`, of this form; false: it is none. */
static bool parse_form(const char *text, size_t n, int form, charl__lock_line *out)
{
    size_t at = strlen(forms[form].name);

    if (n < at || memcmp(text, forms[form].name, at) != 0) {
        return false;
    }
    *out = (charl__lock_line){.kind = forms[form].kind, .format = forms[form].format};
    for (int k = 0; k < CHARL__LOCK_KEYS; k++) {
        const size_t name = strlen(keys[k]);
        size_t length;

        if (!(forms[form].keys >> k & 1)) {
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

static bool parse(const char *text, size_t n, charl__lock_line *out)
{
    int form = 0;

    while (form < FORMS && !parse_form(text, n, form, out)) {
        form++;
    }
    return form < FORMS;
}

/* The text that a line's hash covers. */
static charl_status print(const charl__lock_line *line, charl__text *t)
{
    int form = 0;

    while (forms[form].kind != line->kind || forms[form].format != line->format) {
        form++;
    }
    CHARL_TRY(charl__text_printf(t, "%s", forms[form].name));
    for (int k = 0; k < CHARL__LOCK_HASH; k++) {
        if (forms[form].keys >> k & 1) {
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

/* The error in line i, which is `text` up to its hash. */
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
            char head[32];
            int format = 0;

            snprintf(head, sizeof head, "%.*s", (int)(n < sizeof head ? n : sizeof head - 1), p);
            (void)!sscanf(head, "%*[a-z] format=%9d", &format); /* 0 if the line has none */
            CHARL_TRY(charl__text_printf(wrong, CHARL__LOCK_FILE ", line %" PRId64 ": %s\n", number,
                                         format > CHARL__LOCK_NEWEST ? "was written by a newer version of charl"
                                                                     : "is not a line that charl wrote"));
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

/* Drop a last line of which a crash left only part: it has no end, or zeros where it was not written. */
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
    CHARL_SCOPED_FREE char *path = NULL;

    *lock = (charl__lock){0};
    CHARL_TRY(charl__commit_join(dir, CHARL__LOCK_FILE, &path));
    CHARL_TRY(charl__regular_read_all(path, LARGEST, &lock->text));
    drop_torn_line(lock);
    return charl__error_in(parse_file(lock, wrong), CHARL_ERR_CHECKPOINT, "%s: ", path);
}

/* The lines that `lock` has and the file does not. */
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

    line.format = line.format == 0 ? CHARL__LOCK_NEWEST : line.format;
    snprintf(line.value[CHARL__LOCK_FORMAT], sizeof line.value[0], "%d", line.format);
    if (line.kind != CHARL__LOCK_START) {
        snprintf(line.value[CHARL__LOCK_STEP], sizeof line.value[0], "%" PRId64, line.step);
    }
    snprintf(line.value[CHARL__LOCK_PREVIOUS], sizeof line.value[0], "%s",
             lock->count > 0 ? lock->line[lock->count - 1].value[CHARL__LOCK_HASH] : first_previous);
    CHARL_TRY_CLEANUP(dir ? charl__commit_join(dir, CHARL__LOCK_FILE, &path) : CHARL_OK);
    CHARL_TRY_CLEANUP(print(&line, &lock->text));
    charl__sha256_text(lock->text.data + was, lock->text.length - was, line.value[CHARL__LOCK_HASH]);
    CHARL_TRY_CLEANUP(charl__text_printf(&lock->text, " hash=%s\n", line.value[CHARL__LOCK_HASH]));
    CHARL_TRY_CLEANUP(add_line(lock, &line, lock->count > 0 ? lock->number[lock->count - 1] + 1 : 1));
    added = true;
    CHARL_TRY_CLEANUP(path ? write_lines(path, lock) : CHARL_OK);
cleanup:
    if (!added && lock->text.data) {
        lock->text.length = was;
        lock->text.data[was] = '\0';
    }
    charl_free(path);
    return st;
}

const char *charl__lock_difference(const charl__lock_line *a, const charl__lock_line *b)
{
    for (int k = CHARL__LOCK_TENSORS; k <= CHARL__LOCK_STATE; k++) {
        if (a->value[k][0] && b->value[k][0] && strcmp(a->value[k], b->value[k]) != 0) {
            return keys[k];
        }
    }
    return NULL;
}

static const charl__lock_line *last_of(const charl__lock *lock, const charl__lock_history *h)
{
    return h->count > 0 ? &lock->line[h->line[h->count - 1]] : NULL;
}

/* A resumption: lines recorded after its step no longer count. */
static charl_status trace_resume(const charl__lock *lock, int64_t i, charl__lock_history *h, charl__text *wrong)
{
    const charl__lock_line *line = &lock->line[i], *at;
    const char *differs;

    while ((at = last_of(lock, h)) != NULL && at->step > line->step) {
        h->count--;
    }
    if (at && at->step == line->step) {
        differs = charl__lock_difference(at, line);
        if (!differs) {
            return CHARL_OK;
        }
        h->count--;
        CHARL_TRY(charl__text_printf(wrong,
                                     CHARL__LOCK_FILE ", line %" PRId64
                                                      ": the run was resumed from a checkpoint of step %" PRId64
                                                      " with another %s than line %" PRId64 " records\n",
                                     lock->number[i], line->step, differs, lock->number[h->line[h->count]]));
    } else if (i > 0) {
        CHARL_TRY(charl__text_printf(wrong,
                                     CHARL__LOCK_FILE ", line %" PRId64
                                                      ": the run was resumed from a checkpoint of step %" PRId64
                                                      " that no line before records: it is not of this training\n",
                                     lock->number[i], line->step));
    }
    h->line[h->count++] = i; /* there is room for all lines */
    return CHARL_OK;
}

static charl_status trace_checkpoint(const charl__lock *lock, int64_t i, charl__lock_history *h, charl__text *wrong)
{
    const charl__lock_line *line = &lock->line[i], *at = last_of(lock, h);
    /* of a copy in memory, which is recorded when a run resumes from it; a checkpoint after it may have been recorded and then not written */
    const bool goes_back = i + 1 < lock->count && lock->line[i + 1].kind == CHARL__LOCK_RESUME;

    if (at && ((at->step > line->step && !goes_back) || (at->step == line->step && charl__lock_difference(at, line)))) {
        CHARL_TRY(charl__text_printf(wrong,
                                     CHARL__LOCK_FILE ", line %" PRId64 ": has step %" PRId64 ", and line %" PRId64
                                                      " has step %" PRId64 ", without a resumption between them\n",
                                     lock->number[i], line->step, lock->number[h->line[h->count - 1]], at->step));
    }
    while ((at = last_of(lock, h)) != NULL && at->step >= line->step) {
        h->count--;
    }
    h->line[h->count++] = i;
    return CHARL_OK;
}

charl_status charl__lock_trace(const charl__lock *lock, charl__lock_history *out, charl__text *wrong)
{
    CHARL_TRY(charl__alloc_array(lock->count + 1, sizeof *out->line, &out->line));
    for (int64_t i = 0; i < lock->count; i++) {
        if (lock->line[i].kind == CHARL__LOCK_RESUME) {
            CHARL_TRY(trace_resume(lock, i, out, wrong));
        } else if (lock->line[i].kind == CHARL__LOCK_CHECKPOINT) {
            CHARL_TRY(trace_checkpoint(lock, i, out, wrong));
        } else {
            out->count = 0;
            CHARL_TRY(i == 0 ? CHARL_OK
                             : charl__text_printf(wrong,
                                                  CHARL__LOCK_FILE
                                                  ", line %" PRId64
                                                  ": starts a training; the lines before are of another\n",
                                                  lock->number[i]));
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

static void hash_values(const charl_checkpoint_tensor *tensor, const void *data, char hash[CHARL__SHA256_TEXT])
{
    charl__sha256_text(data, (size_t)charl_shape_count(&tensor->shape) * charl_dtype_size(tensor->dtype), hash);
}

/* hash: of the values; "": they are left to the base. */
static charl_status add_tensor(charl__text *t, const charl_checkpoint_tensor *tensor, const char *group,
                               const char *hash)
{
    char shape[CHARL_SHAPE_TEXT], base[32];

    snprintf(base, sizeof base, CHARL_CHECKPOINT_BASE " %08" PRIx32, tensor->crc32c);
    return charl__text_printf(t, "%s/%s %s %s %s\n", group, tensor->name, charl_dtype_name(tensor->dtype),
                              charl_shape_format(&tensor->shape, shape), hash[0] ? hash : base);
}

charl_status charl__lock_tensors(const charl_checkpoint_tensor *tensor, const char (*sha256)[CHARL__SHA256_TEXT],
                                 int64_t n, char hash[CHARL__SHA256_TEXT])
{
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    for (int64_t i = 0; i < n; i++) {
        const bool is_left = strcmp(tensor[i].group, CHARL_CHECKPOINT_BASE) == 0;
        char values[CHARL__SHA256_TEXT] = "";

        if (sha256 && sha256[i][0]) {
            memcpy(values, sha256[i], sizeof values);
        } else if (tensor[i].data) {
            hash_values(&tensor[i], tensor[i].data, values);
        }
        CHARL_TRY(add_tensor(&t, &tensor[i], is_left ? "model" : tensor[i].group, values));
        charl__progress_made();
    }
    charl__sha256_text(t.data, t.length, hash);
    return CHARL_OK;
}

typedef struct hashing {
    charl_checkpoint_reader *r;
    char (*hash)[CHARL__SHA256_TEXT]; /* of each tensor */
} hashing;

static charl_status hash_tensor(void *ctx, int64_t i)
{
    const hashing *h = ctx;
    const charl_checkpoint_tensor *tensor = charl_checkpoint_get_tensor(h->r, i);
    CHARL_SCOPED_FREE char *values = NULL;

    h->hash[i][0] = '\0';
    if (!charl_checkpoint_is_in_base(h->r, tensor)) {
        CHARL_TRY(charl__alloc_array(charl_shape_count(&tensor->shape) + 1, charl_dtype_size(tensor->dtype), &values));
        CHARL_TRY(charl_checkpoint_read(h->r, tensor, values));
        hash_values(tensor, values, h->hash[i]);
    }
    return CHARL_OK;
}

/* A training that resumes waits for it. */
static charl_status hash_tensors(charl_checkpoint_reader *r, char hash[CHARL__SHA256_TEXT])
{
    enum { THREADS = 8 }; /* each has a tensor in memory */
    const int64_t n = charl_checkpoint_get_info(r).n_tensors;
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};
    CHARL_SCOPED_FREE char(*each)[CHARL__SHA256_TEXT] = NULL;
    hashing h = {.r = r};

    CHARL_TRY(charl__alloc_array(n + 1, sizeof *each, &each));
    h.hash = each;
    CHARL_TRY(charl__parallel_try(THREADS, n, hash_tensor, &h));
    for (int64_t i = 0; i < n; i++) {
        const charl_checkpoint_tensor *tensor = charl_checkpoint_get_tensor(r, i);

        CHARL_TRY(add_tensor(&t, tensor, tensor->group, each[i]));
    }
    charl__sha256_text(t.data, t.length, hash);
    return CHARL_OK;
}

charl_status charl__lock_state(const charl_checkpoint_state *s, const charl_data_schema *schema,
                               char hash[CHARL__SHA256_TEXT])
{
    const struct {
        const char *name;
        int64_t value;
    } counters[] = {{"step", s->step},
                    {"epoch", s->epoch},
                    {"samples_in_epoch", s->samples_in_epoch},
                    {"samples_seen", s->samples_seen},
                    {"seed", s->seed},
                    {"lr_step", s->lr_step},
                    {"slices", s->slices},
                    {"batch_size", s->batch_size},
                    {"best_step", s->best_step},
                    {"stale_evals", s->stale_evals},
                    {"skipped_steps", s->skipped_steps},
                    {"overflowed_steps", s->overflowed_steps},
                    {"spike_steps", s->spike_steps},
                    {"data_n_samples", s->data_n_samples},
                    {"optim_t", s->optim_t}};
    const struct {
        const char *name, *value;
    } texts[] = {{"rng", s->rng},
                 {"data_content_id", s->data_content_id},
                 {"data_shuffle", s->data_shuffle},
                 {"optim_kind", s->optim_kind}};
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};
    CHARL_SCOPED_FREE char *json = NULL;

    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        CHARL_TRY(charl__text_printf(&t, "%s=%" PRId64 "\n", counters[i].name, counters[i].value));
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CHARL_TRY(charl__text_printf(&t, "%s=%s\n", texts[i].name, texts[i].value ? texts[i].value : ""));
    }
    CHARL_TRY(charl__text_printf(&t, "loss_scale=%.17g\n", s->loss_scale));
    CHARL_TRY(isnan(s->best_metric) ? charl__text_printf(&t, "best_metric=none\n")
                                    : charl__text_printf(&t, "best_metric=%.17g\n", s->best_metric));
    if (schema) {
        CHARL_TRY(charl_data_schema_print(schema, &json));
        CHARL_TRY(charl__text_printf(&t, "schema=%s\n", json));
    }
    charl__sha256_text(t.data, t.length, hash);
    return CHARL_OK;
}

charl_status charl__lock_describe(charl_checkpoint_reader *r, charl__lock_line *line)
{
    line->step = charl_checkpoint_get_info(r).state->step;
    CHARL_TRY(hash_tensors(r, line->value[CHARL__LOCK_TENSORS]));
    return charl__lock_state(charl_checkpoint_get_info(r).state, charl_checkpoint_get_info(r).schema,
                             line->value[CHARL__LOCK_STATE]);
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
        charl__lock_line found = {0};

        if (line->step == charl_checkpoint_get_info(r).state->step) {
            CHARL_TRY_CLEANUP(charl__lock_describe(r, &found));
            if (!charl__lock_difference(line, &found)) {
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

/* Power cuts, simulated. The program stands between charl and the system calls that change files,
 * and records them while six checkpoints are saved and old ones removed. From the record it makes
 * disk states as they may be found after a power cut at a random instant: of what was not yet
 * synced, any pages and any directory changes may be missing. In every state the newest checkpoint
 * that verifies must be the last acknowledged one or a newer one, with its exact content, and
 * run.lock must have its line, and no damage but a last line that is torn. The same with fsync left out of the record must find losses, or the simulation proves nothing. 100 states;
 * 600 with CHARL_TEST_LONG=1.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/env.h"
#include "base/numeric/rng.h"
#include "files/run.h"
#include "files/run_lock.h"
#include "io/checkpoint_sample.h"

enum {
    MAX_OPS = 4096,
    MAX_NAMES = 64,
    STEPS = 6,
    PAGE = 4096,
    LINES = 4 /* of run.lock for a step, so that they fill a page */
};

typedef enum op_kind { OP_LINK, OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_RENAME, OP_UNLINK, OP_DIR, OP_ACK } op_kind;

typedef struct op {
    op_kind kind;
    int file; /* what the name meant, an index that is never reused */
    char name[128], to[128];
    int64_t offset, bytes; /* OP_ACK: offset is the step */
    unsigned char *data;
} op;

typedef struct name {
    char text[128]; /* "": unused */
    int file;
} name;

/* A file in a simulated state. */
typedef struct content {
    unsigned char *data;
    size_t bytes;
} content;

static op ops[MAX_OPS];
static int n_ops, n_files;
static name names[MAX_NAMES];
static char watched[700]; /* the directory; "": not recording */
static uint64_t draws;

static op *record(op_kind kind, int file, const char *text)
{
    op *o = &ops[n_ops++];

    assert_true(n_ops < MAX_OPS);
    *o = (op){.kind = kind, .file = file};
    snprintf(o->name, sizeof o->name, "%s", text);
    return o;
}

/* The name inside the watched directory, or NULL; "" is the directory itself. */
static const char *inside(const char *path)
{
    const size_t length = strlen(watched);

    if (length == 0 || strncmp(path, watched, length) != 0) {
        return NULL;
    }
    return path[length] == '/' ? path + length + 1 : path[length] ? NULL : "";
}

static name *find_name(const char *text)
{
    for (int i = 0; i < MAX_NAMES; i++) {
        if (strcmp(names[i].text, text) == 0) {
            return &names[i];
        }
    }
    return NULL;
}

static name *add_name(const char *text, int file)
{
    name *n = find_name("");

    assert_non_null(n);
    if (n) { /* the compiler does not know that an assertion ends the test */
        snprintf(n->text, sizeof n->text, "%s", text);
        n->file = file;
    }
    return n;
}

/* The name that descriptor `fd` has now, in `text`; false when it is not watched. */
static bool name_of(int fd, char *text)
{
    char link[64], path[700];
    const char *in;
    ssize_t n;

    if (!watched[0]) {
        return false;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    in = inside(path);
    snprintf(text, 128, "%s", in ? in : "");
    return in != NULL;
}

/* The file behind a watched name; a new name is a new file. */
static int file_of(const char *text)
{
    const name *n = find_name(text);

    if (!n) {
        n = add_name(text, n_files++);
        record(OP_LINK, n->file, text);
    }
    return n->file;
}

long syscall(long number, ...);

static ssize_t record_write(int fd, const void *data, ssize_t n, off_t offset)
{
    char text[128];

    if (n > 0 && name_of(fd, text)) {
        op *o = record(OP_WRITE, file_of(text), text);

        o->offset = (int64_t)offset;
        o->bytes = n;
        o->data = malloc((size_t)n);
        assert_non_null(o->data);
        memcpy(o->data, data, (size_t)n);
    }
    return n;
}

/* These take the place of the C library's for charl. */
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    return record_write(fd, data, (ssize_t)syscall(SYS_pwrite64, fd, data, bytes, offset), offset);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    const ssize_t n = (ssize_t)syscall(SYS_write, fd, data, bytes);

    return watched[0] ? record_write(fd, data, n, lseek(fd, 0, SEEK_CUR) - n) : n;
}

int ftruncate(int fd, off_t length)
{
    const int rc = (int)syscall(SYS_ftruncate, fd, length);
    char text[128];

    if (rc == 0 && name_of(fd, text)) {
        record(OP_TRUNCATE, file_of(text), text)->offset = (int64_t)length;
    }
    return rc;
}

int fsync(int fd)
{
    char text[128];

    if (name_of(fd, text)) {
        if (text[0]) {
            record(OP_SYNC, file_of(text), text);
        } else {
            record(OP_DIR, -1, "");
        }
    }
    return 0;
}

int rename(const char *from, const char *to)
{
    const int rc = renameat(AT_FDCWD, from, AT_FDCWD, to);
    const char *a = inside(from), *b = inside(to);

    if (rc == 0 && a && b) {
        const int file = file_of(a);
        name *old = find_name(b);
        op *o = record(OP_RENAME, file, a);

        snprintf(o->to, sizeof o->to, "%s", b);
        if (old) {
            old->text[0] = '\0';
        }
        find_name(a)->text[0] = '\0';
        add_name(b, file);
    }
    return rc;
}

int unlink(const char *path)
{
    const int rc = unlinkat(AT_FDCWD, path, 0);
    const char *in = inside(path);

    if (rc == 0 && in) {
        record(OP_UNLINK, file_of(in), in);
        find_name(in)->text[0] = '\0';
    }
    return rc;
}

static double chance(void)
{
    const charl__rng key = charl__rng_key(charl_test_seed(), 1, 0);

    return (double)charl__rng_uniform(&key, draws++);
}

static void resize(content *c, size_t bytes)
{
    if (bytes > c->bytes) {
        c->data = realloc(c->data, bytes);
        assert_non_null(c->data);
        memset(c->data + c->bytes, 0, bytes - c->bytes);
    }
    c->bytes = bytes;
}

static void put(content *c, const op *o, int64_t from, int64_t bytes)
{
    if (c->bytes < (size_t)(o->offset + from + bytes)) {
        resize(c, (size_t)(o->offset + from + bytes));
    }
    memcpy(c->data + o->offset + from, o->data + from, (size_t)bytes);
}

/* An operation on a file's contents that was not synced: `keep` is how likely each page is there.
 */
static void apply_unsynced(content *c, const op *o, double keep)
{
    if (o->kind == OP_TRUNCATE) {
        if (chance() < 0.7) {
            resize(c, (size_t)o->offset);
        }
        return;
    }
    for (int64_t at = 0; at < o->bytes; at += PAGE) {
        const int64_t n = o->bytes - at < PAGE ? o->bytes - at : PAGE;

        if (chance() < keep) {
            put(c, o, at, n);
        } else if (chance() < 0.5 && c->bytes < (size_t)(o->offset + at + n)) {
            resize(c, (size_t)(o->offset + at + n)); /* the length is there, the data are not */
        }
    }
}

static void apply_dir(name *state, const op *o)
{
    for (int i = 0; i < MAX_NAMES; i++) {
        if (strcmp(state[i].text, o->name) == 0 || (o->kind == OP_RENAME && strcmp(state[i].text, o->to) == 0)) {
            state[i].text[0] = '\0';
        }
    }
    for (int i = 0; i < MAX_NAMES && o->kind != OP_UNLINK; i++) {
        if (!state[i].text[0]) {
            snprintf(state[i].text, sizeof state[i].text, "%s", o->kind == OP_RENAME ? o->to : o->name);
            state[i].file = o->file;
            return;
        }
    }
}

/* Whether operation i is followed by `sync` (of its file, or of the directory) before the cut. */
static bool is_synced(int i, int cut, op_kind sync)
{
    for (int j = i + 1; j < cut; j++) {
        if (ops[j].kind == sync && (sync == OP_DIR || ops[j].file == ops[i].file)) {
            return true;
        }
    }
    return false;
}

/* The state of the disk after a cut before operation `cut`, without regard for `ignored`
 * operations. */
static void write_state(const char *folder, int cut, op_kind ignored)
{
    const double draw = chance();
    const double keep = draw < 0.2 ? 0.0 : draw < 0.6 ? 0.95 : 0.5;
    name state[MAX_NAMES] = {{"", 0}};

    for (int i = 0; i < cut; i++) {
        const bool dir_op = ops[i].kind == OP_LINK || ops[i].kind == OP_RENAME || ops[i].kind == OP_UNLINK;

        if (dir_op && ((ignored != OP_DIR && is_synced(i, cut, OP_DIR)) || chance() < 0.5)) {
            apply_dir(state, &ops[i]);
        }
    }
    for (int k = 0; k < MAX_NAMES; k++) {
        content c = {0};
        char path[700];
        int fd;

        if (!state[k].text[0]) {
            continue;
        }
        for (int i = 0; i < cut; i++) {
            const op *o = &ops[i];

            if (o->file != state[k].file || (o->kind != OP_WRITE && o->kind != OP_TRUNCATE)) {
                continue;
            }
            if (ignored == OP_SYNC || !is_synced(i, cut, OP_SYNC)) {
                apply_unsynced(&c, o, keep);
            } else if (o->kind == OP_WRITE) {
                put(&c, o, 0, o->bytes);
            } else {
                resize(&c, (size_t)o->offset);
            }
        }
        snprintf(path, sizeof path, "%s/%.127s", folder, state[k].text);
        fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0666);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, c.data, c.bytes), (ssize_t)c.bytes);
        close(fd);
        free(c.data);
    }
}

static void record_saves(const char *given)
{
    static sample s;
    charl__lock lock = {0};
    charl__lock_line line = {.kind = CHARL__LOCK_START};
    char dir[512], link[64], path[800];
    const int fd = open(given, O_RDONLY | O_DIRECTORY);
    ssize_t n;

    assert_true(fd >= 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, dir, sizeof dir - 1); /* without symbolic links, as name_of sees it */
    assert_true(n > 0);
    dir[n] = '\0';
    close(fd);
    snprintf(path, sizeof path, "%s/checkpoints", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    memcpy(watched, path, strlen(path) + 1);
    snprintf(line.value[CHARL__LOCK_VERSION], sizeof line.value[0], "0.1.0");
    for (int k = 0; k < CHARL__LOCK_KEYS; k++) {
        if (k != CHARL__LOCK_VERSION && k != CHARL__LOCK_STEP) {
            memset(line.value[k], 'a', CHARL__SHA256_TEXT - 1);
        }
    }
    charl_assert_ok(charl__lock_append(watched, &lock, &line));
    line.kind = CHARL__LOCK_CHECKPOINT;
    for (int64_t step = 1; step <= STEPS; step++) {
        const charl__run_policy policy = {.step = step, .keep_last = 2, .resumed_step = -1, .best_step = -1};

        sample_init(&s, step);
        snprintf(path, sizeof path, "%s/step-%08lld.h5", watched, (long long)step);
        line.step = step;
        for (int i = 0; i < LINES; i++) {
            charl_assert_ok(charl__lock_append(watched, &lock, &line));
        }
        charl_assert_ok(charl_checkpoint_save(path, &s.c));
        record(OP_ACK, -1, "")->offset = step;
        charl_assert_ok(charl__run_retain(dir, &policy, NULL));
    }
    watched[0] = '\0';
    charl__lock_fini(&lock);
}

/* run.lock has the lines of every checkpoint that is there, and can be continued. */
static int check_lock(const char *folder, int64_t newest)
{
    charl__lock lock = {0};
    charl__text wrong = {0};
    int64_t torn, count;

    charl_assert_ok(charl__lock_read(folder, &lock, &wrong));
    torn = lock.torn;
    count = lock.count;
    assert_true(count >= 1 + LINES * newest);
    charl_assert_ok(charl__lock_append(folder, &lock, &lock.line[count - 1]));
    charl__lock_fini(&lock);
    charl_assert_ok(charl__lock_read(folder, &lock, &wrong));
    assert_string_equal(charl__text_string(&wrong), "");
    assert_int_equal(lock.torn, 0);
    assert_int_equal(lock.count, count + 1);
    charl__lock_fini(&lock);
    charl__text_fini(&wrong);
    return torn > 0;
}

/* An instant after operation `first`; one in three is within an append to run.lock, as these are few. */
static int a_cut(int first)
{
    const int cut = first + 1 + (int)(chance() * (double)(n_ops - first));
    int i = cut;

    while (i < n_ops && (ops[i - 1].kind != OP_WRITE || strcmp(ops[i - 1].name, CHARL__LOCK_FILE) != 0)) {
        i++;
    }
    return chance() < 1.0 / 3 && i < n_ops ? i : cut;
}

/* Simulate `count` cuts; how many lost an acknowledged save. Wrong content is never acceptable. */
static int simulate(int count, op_kind ignored)
{
    int lost = 0, torn = 0, first = 0;

    while (ops[first].kind != OP_ACK) {
        first++;
    }
    for (int i = 0; i < count; i++) {
        const int cut = a_cut(first);
        char *dir = charl_test_tempdir();
        int64_t acknowledged = 0;
        charl__run_found found;
        char folder[600];

        for (int j = 0; j < cut; j++) {
            acknowledged = ops[j].kind == OP_ACK ? ops[j].offset : acknowledged;
        }
        snprintf(folder, sizeof folder, "%s/checkpoints", dir);
        assert_int_equal(mkdir(folder, 0777), 0);
        write_state(folder, cut < n_ops ? cut : n_ops, ignored);
        charl_assert_ok(charl__run_find(dir, INT64_MAX, &found));
        lost += found.step < acknowledged ? 1 : 0;
        if (found.path) {
            assert_int_equal(sample_load(found.path), found.step);
        }
        if (ignored == OP_ACK) {
            assert_int_equal(found.n_refused, 0);
            torn += check_lock(folder, found.step);
        }
        charl__run_found_fini(&found);
        charl_test_tempdir_remove(dir);
    }
    if (ignored == OP_ACK) {
        print_message("%d of %d cuts tore a line of run.lock\n", torn, count);
        assert_true(torn > 0);
    }
    return lost;
}

static void test_power_cuts(void **state)
{
    const int count = charl__env_is_on(CHARL_ENV_TEST_LONG) ? 600 : 100;
    char *dir = charl_test_tempdir();
    int lost, no_dir_sync, no_sync;

    (void)state;
    record_saves(dir);
    lost = simulate(count, OP_ACK); /* nothing that a disk knows of is ignored */
    no_dir_sync = simulate(count, OP_DIR);
    no_sync = simulate(count, OP_SYNC);
    print_message("%d operations, %d cuts: %d lost an acknowledged save; without fsync of the "
                  "directory %d, without "
                  "fsync of the file %d\n",
                  n_ops, count, lost, no_dir_sync, no_sync);
    assert_int_equal(lost, 0);
    assert_true(no_dir_sync > 0);
    assert_true(no_sync > 0);
    for (int i = 0; i < n_ops; i++) {
        free(ops[i].data);
    }
    charl_test_tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_power_cuts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

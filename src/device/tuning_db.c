/* Tuning database: the fastest of several equivalent kernels on this device, saved between runs.
 *
 * One text file per device, driver and version of charl in the kernel cache directory, with lines "what = choice". It is read when the
 * device is opened and replaced by rename. Callers validate the lines, so a damaged one can only cost speed. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/handles.h"
#include "base/numeric/hash.h"
#include "base/text/text.h"
#include "device/device_private.h"
#include "charl/tune.h"
#include "charl/version.h"

enum { LINE = 512, NAME = 12, MOST = 1 << 16 };

static const char mark[] = "# charl tuning 1: ";

typedef struct charl__tuning {
    char *what, *choice;
} charl__tuning;

struct charl__tuning_db {
    char *path; /* NULL: no cache directory */
    charl__tuning *item;
    int count;
    charl_tune_mode mode;
};

/* The request takes precedence over the variable. */
static charl_status choose_mode(charl_tune_mode asked, charl_tune_mode *out)
{
    static const char *const names[] = {
        [CHARL_TUNE_STORED] = "stored", [CHARL_TUNE_FIRST] = "first", [CHARL_TUNE_NO] = "no"};
    const char *value = charl__env(CHARL_ENV_TUNE);

    *out = asked;
    if (!value || asked != CHARL_TUNE_STORED) {
        return CHARL_OK;
    }
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        if (strcmp(value, names[i]) == 0) {
            *out = (charl_tune_mode)i;
            return CHARL_OK;
        }
    }
    CHARL_FAIL(CHARL_ERR_CONFIG, "CHARL_TUNE=%s: expected stored, first or no", value);
    return CHARL_OK;
}

/* Everything that measured times depend on. The number of compute units distinguishes partitions of a CPU. */
static charl_status describe(const charl_device *dev, charl__text *out)
{
    return charl__text_printf(out, "charl %s, %s, %d compute units, %s, driver %s, %s", CHARL_VERSION, dev->info.name,
                              dev->info.compute_units, dev->info.version, dev->info.driver,
                              dev->found.platform_version);
}

static charl_status name_file(const charl_device *dev, char **out)
{
    char digest[CHARL__SHA256_TEXT];
    CHARL_SCOPED(charl__text_fini) charl__text about = {0}, path = {0};

    CHARL_TRY(describe(dev, &about));
    charl__sha256_text(charl__text_string(&about), about.length, digest);
    CHARL_TRY(charl__text_printf(&path, "%s/tuning-%.*s.txt", dev->cache_dir, NAME, digest));
    *out = charl__text_steal(&path);
    return CHARL_OK;
}

static charl__tuning *find(charl__tuning_db *c, const char *what)
{
    for (int i = 0; i < c->count; i++) {
        if (strcmp(c->item[i].what, what) == 0) {
            return &c->item[i];
        }
    }
    return NULL;
}

static charl_status put(charl__tuning_db *c, const char *what, const char *choice)
{
    charl_status st = CHARL_OK;
    charl__tuning *at = find(c, what), item = {0};

    if (at) {
        CHARL_TRY_CLEANUP(charl__strdup(choice, &item.choice));
        charl_free(at->choice);
        at->choice = item.choice;
        item.choice = NULL;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__grow(c->count, sizeof *c->item, &c->item));
    CHARL_TRY_CLEANUP(charl__strdup(what, &item.what));
    CHARL_TRY_CLEANUP(charl__strdup(choice, &item.choice));
    c->item[c->count++] = item;
    item = (charl__tuning){0};
cleanup:
    charl_free(item.what);
    charl_free(item.choice);
    return st;
}

/* Add the lines of the file whose keys are unknown so far; malformed lines are skipped. */
static charl_status read_file(charl__tuning_db *c)
{
    char line[LINE];
    CHARL_SCOPED(charl__file_left) FILE *f = c->path ? charl__cache_file_open(c->path) : NULL;

    while (f && c->count < MOST && fgets(line, sizeof line, f)) {
        char *end = strchr(line, '\n'), *equals = strstr(line, " = ");

        if (line[0] == '#' || !end || !equals) {
            continue;
        }
        *end = *equals = '\0';
        if (!find(c, line)) {
            CHARL_TRY(put(c, line, equals + 3));
        }
    }
    return CHARL_OK;
}

charl_status charl__tuning_db_open(charl_device *dev, charl_tune_mode asked)
{
    charl_status st = CHARL_OK;
    charl__tuning_db *c = NULL;

    CHARL_TRY_CLEANUP(charl__alloc(sizeof *c, &c));
    CHARL_TRY_CLEANUP(choose_mode(asked, &c->mode));
    if (asked == CHARL_TUNE_FIRST) {
        CHARL_TRY_CLEANUP(charl__tuning_db_check());
    }
    if (dev->cache_dir) {
        CHARL_TRY_CLEANUP(name_file(dev, &c->path));
    }
    if (c->mode != CHARL_TUNE_NO) {
        CHARL_TRY_CLEANUP(read_file(c));
    }
    dev->tuning_db = c;
    c = NULL;
cleanup:
    charl__tuning_db_close(c);
    return st;
}

void charl__tuning_db_close(charl__tuning_db *c)
{
    if (!c) {
        return;
    }
    for (int i = 0; i < c->count; i++) {
        charl_free(c->item[i].what);
        charl_free(c->item[i].choice);
    }
    charl_free(c->item);
    charl_free(c->path);
    charl_free(c);
}

charl_tune_mode charl__device_tune_mode(const charl_device *dev)
{
    return dev->tuning_db->mode;
}

void charl__tune_set_mode(charl_device *dev, charl_tune_mode mode)
{
    dev->tuning_db->mode = mode;
}

const char *charl__tuning_find(const charl_device *dev, const char *what)
{
    const charl__tuning *at = find(dev->tuning_db, what);

    return at ? at->choice : NULL;
}

bool charl__tuning_db_has_any(const charl_device *dev)
{
    return dev->tuning_db->count > 0;
}

bool charl_tune_get(const charl_device *dev, int i, const char **product, const char **kernel)
{
    if (!dev || !product || !kernel) {
        return false;
    }
    const charl__tuning_db *c = dev->tuning_db;

    if (i < 0 || i >= c->count) {
        return false;
    }
    *product = c->item[i].what;
    *kernel = c->item[i].choice;
    return true;
}

charl_status charl__tuning_set(charl_device *dev, const char *what, const char *choice)
{
    CHARL_REQUIRE(!strstr(what, " = ") && strcspn(what, "#\n") == strlen(what) &&
                      strcspn(choice, "\n") == strlen(choice) && strlen(what) + strlen(choice) + 5 < LINE,
                  CHARL_ERR_INVALID, "tuning result %s does not fit on one line of text", what);
    CHARL_TRY(put(dev->tuning_db, what, choice));
    return CHARL_OK;
}

/* On failure errno is set. */
static bool write_file(const charl__tuning_db *c, const char *about, const char *path)
{
    FILE *f = charl__cache_file_create(path);
    bool ok = f && fprintf(f, "%s%s\n", mark, about) > 0;

    for (int i = 0; ok && i < c->count; i++) {
        ok = fprintf(f, "%s = %s\n", c->item[i].what, c->item[i].choice) > 0;
    }
    return f && fclose(f) == 0 && ok;
}

static atomic_int n_saved; /* ranks that are threads may save at once */

static charl_status name_temporary(charl__text *out, const char *path)
{
    return charl__text_printf(out, "%s.%ld-%d.tmp", path, (long)getpid(), atomic_fetch_add(&n_saved, 1));
}

static charl_status require_directory(const char *dir)
{
    CHARL_REQUIRE(dir, CHARL_ERR_DISK,
                  "tuning results cannot be saved: there is no writable cache directory; set "
                  "CHARL_CACHE_DIR");
    return CHARL_OK;
}

charl_status charl__tuning_db_check(void)
{
    const charl__tuning_db none = {0};
    CHARL_SCOPED(charl__text_fini) charl__text path = {0}, temporary = {0};
    CHARL_SCOPED_FREE char *dir = NULL;
    int err;

    CHARL_TRY(charl__cache_open(&dir));
    CHARL_TRY(require_directory(dir));
    CHARL_TRY(charl__text_printf(&path, "%s/tuning", dir));
    CHARL_TRY(name_temporary(&temporary, charl__text_string(&path)));
    err = write_file(&none, "check", charl__text_string(&temporary)) ? 0 : errno;
    remove(charl__text_string(&temporary));
    CHARL_REQUIRE(err == 0, CHARL_ERR_DISK, "tuning results cannot be saved: cannot write to %s: %s", dir,
                  strerror(err));
    return CHARL_OK;
}

charl_status charl__tuning_db_save(charl_device *dev)
{
    charl__tuning_db *c = dev->tuning_db;
    CHARL_SCOPED(charl__text_fini) charl__text about = {0}, temporary = {0};

    CHARL_TRY(require_directory(c->path));
    CHARL_TRY(read_file(c)); /* merge results that other processes have saved in the meantime */
    CHARL_TRY(describe(dev, &about));
    CHARL_TRY(name_temporary(&temporary, c->path));
    if (!write_file(c, charl__text_string(&about), charl__text_string(&temporary)) ||
        rename(charl__text_string(&temporary), c->path) != 0) {
        const int err = errno;

        remove(charl__text_string(&temporary));
        CHARL_FAIL(CHARL_ERR_DISK, "cannot write %s: %s", c->path, strerror(err));
    }
    return CHARL_OK;
}

charl_status charl_tune_clear(charl_device *dev)
{
    CHARL_GIVEN(dev);
    charl__tuning_db *c = dev->tuning_db;

    CHARL_REQUIRE(!c->path || remove(c->path) == 0 || errno == ENOENT, CHARL_ERR_DISK, "cannot remove %s: %s", c->path,
                  strerror(errno));
    while (c->count > 0) {
        c->count--;
        charl_free(c->item[c->count].what);
        charl_free(c->item[c->count].choice);
    }
    return CHARL_OK;
}

const char *charl_tune_path(const charl_device *dev)
{
    return dev ? dev->tuning_db->path : NULL;
}

/* Detects that a file changes while it is read.
 *
 * Size and times of the open file are compared with those when it was opened: after reads,
 * at most once a second, and before the caller relies on what it has read. A difference means that the
 * file was written to, not that its bytes differ; the checksums decide that.
 *
 * Checks are numbered. A reader marks its blocks with the number that is current after the read, so
 * a block with a smaller number than a check was read before that check began: if the check finds
 * no change, the block was good. A check that finds one verifies at once the other blocks, those that
 * were read since the last check without a change; every block becomes UNKNOWN and is verified when
 * it is next read. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "io/dataset/dataset_file.h"
#include "io/dataset/pictures/pictures.h"

enum { PERIOD_MS = 1000 };

static int64_t now_ms(void)
{
    return (int64_t)(charl__clock_s() * 1e3);
}

static charl_status read_stamp(const charl__file *f, charl__file_stamp *out)
{
    struct stat s;

    CHARL_REQUIRE(fstat(f->fd, &s) == 0, CHARL_ERR_IO, "%s: %s", f->path, strerror(errno));
    *out = (charl__file_stamp){s.st_size, s.st_mtim, s.st_ctim};
    return CHARL_OK;
}

charl_status charl__file_stamp_read(charl__file *f)
{
    atomic_store(&f->looked_ms, now_ms());
    return read_stamp(f, &f->stamp);
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Whether the bytes may differ; a new name or new permissions only change the other time. */
static bool is_written(const charl__file_stamp *a, const charl__file_stamp *b)
{
    return a->bytes != b->bytes || !is_same_time(&a->modified, &b->modified);
}

static bool is_same(const charl__file_stamp *a, const charl__file_stamp *b)
{
    return !is_written(a, b) && is_same_time(&a->changed, &b->changed);
}

bool charl__file_is_changed(charl__file *f)
{
    charl__file_stamp now;
    bool is_changed;

    if (pthread_mutex_trylock(&f->looking) != 0) {
        return true; /* a check is in progress, which verifies blocks only after a change */
    }
    is_changed = atomic_load(&f->generation) > 0 || read_stamp(f, &now) != CHARL_OK || !is_same(&now, &f->stamp);
    pthread_mutex_unlock(&f->looking);
    return is_changed;
}

static bool has_all_checksums(const charl__file *f)
{
    for (int i = 0; i < f->n_arrays; i++) {
        if (f->arrays[i].rows > 0 && f->arrays[i].n_blocks == 0) {
            return false;
        }
    }
    return true;
}

/* Verify recently read blocks, and mark all others to be verified when they are read. */
static charl_status recheck(charl__file *f)
{
    atomic_fetch_add(&f->generation, 1);
    for (int i = 0; i < f->n_arrays; i++) {
        charl__array *a = f->arrays[i].pictures ? charl__pictures_list(f->arrays[i].pictures) : &f->arrays[i];

        for (int64_t b = 0; b < a->n_blocks; b++) {
            if (atomic_exchange(&a->block_state[b], CHARL__BLOCK_UNKNOWN) >= f->good) {
                CHARL_TRY(charl__array_check_block(f, a, b));
            }
        }
    }
    return CHARL_OK;
}

static charl_status look(charl__file *f)
{
    charl__file_stamp now;
    char before[CHARL__CLOCK_TEXT], after[CHARL__CLOCK_TEXT];
    const unsigned number = atomic_fetch_add(&f->looks, 1) + 1;

    CHARL_TRY(read_stamp(f, &now));
    if (is_same(&now, &f->stamp)) {
        f->good = number;
        return CHARL_OK;
    }
    CHARL_REQUIRE(now.bytes >= f->bytes, CHARL_ERR_DATA,
                  "%s: the file was cut while it was in use, from %lld to %lld bytes. HINT put the "
                  "file back as it was and run the same command",
                  f->path, (long long)f->bytes, (long long)now.bytes);
    CHARL_TRY(recheck(f));
    if (is_written(&now, &f->stamp) && !has_all_checksums(f)) {
        /* Earlier reads are good; the next one fails. */
        CHARL_REQUIRE(atomic_load(&f->read_unchecked) < f->good, CHARL_ERR_DATA,
                      "%s: the file was written to while it was in use (%lld bytes of %s, opened with %lld "
                      "of "
                      "%s), and has no checksums that could tell whether its data are the same. HINT put the "
                      "file back as it was and run the same command, or start afresh; `charl data import` "
                      "gives data checksums",
                      f->path, (long long)now.bytes, charl__clock_format((double)now.modified.tv_sec, after),
                      (long long)f->stamp.bytes, charl__clock_format((double)f->stamp.modified.tv_sec, before));
        return CHARL_OK;
    }
    f->stamp = now;
    f->good = number;
    charl__log(CHARL_LOG_INFO, "%s: size or times of the file have changed, its data have not", f->path);
    return CHARL_OK;
}

charl_status charl__file_look(charl__file *f, bool now)
{
    charl_status st = CHARL_OK;

    if (!f->arrays) { /* it is being opened */
        return CHARL_OK;
    }
    if (now) {
        pthread_mutex_lock(&f->looking);
    } else if (now_ms() - atomic_load(&f->looked_ms) < PERIOD_MS || pthread_mutex_trylock(&f->looking) != 0) {
        return CHARL_OK;
    }
    atomic_store(&f->looked_ms, now_ms());
    st = look(f);
    pthread_mutex_unlock(&f->looking);
    for (int i = 0; now && st == CHARL_OK && i < f->n_arrays; i++) {
        for (int j = 0; st == CHARL_OK && j < f->arrays[i].n_sources; j++) {
            st = charl__file_look(&f->arrays[i].source[j]->file, true);
        }
    }
    return st;
}

/* Noticing that a file changes while it is read.
 *
 * Size and times of the open file are compared with those it had when it was opened: after reads,
 * at most once a second, and when the caller is about to trust what it has read. They show that the
 * file was written to, not that its bytes differ; the checksums decide that.
 *
 *   block_state   UNKNOWN -> CHECKED -> READ -> READ_BEFORE -> CHECKED
 *                          check      read   look           look
 *
 * A look that finds a change checks the blocks that are READ or READ_BEFORE: they were read since
 * the last look but one, and bytes read before a look that found nothing are good. A block stays
 * marked for two looks, as a thread may have read after the first look began and marked before it
 * ended. Then all blocks become UNKNOWN. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "io/dataset/dataset_file.h"

enum { PERIOD_MS = 1000 };

static int64_t now_ms(void)
{
    return (int64_t)(charl__clock_s() * 1e3);
}

static charl_status read_stamp(const charl__file *f, charl__file_stamp *out)
{
    charl_status st = CHARL_OK;
    struct stat s;

    CHARL_REQUIRE(fstat(f->fd, &s) == 0, CHARL_ERR_IO, "%s: %s", f->path, strerror(errno));
    *out = (charl__file_stamp){s.st_size, s.st_mtim, s.st_ctim};
cleanup:
    return st;
}

charl_status charl__file_stamp_take(charl__file *f)
{
    atomic_store(&f->looked_ms, now_ms());
    return read_stamp(f, &f->stamp);
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Whether the bytes may be others; a new name or other permissions change only the other time. */
static bool is_written(const charl__file_stamp *a, const charl__file_stamp *b)
{
    return a->bytes != b->bytes || !is_same_time(&a->modified, &b->modified);
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

static void age(atomic_uchar *state)
{
    unsigned char was = atomic_load(state);

    if (was > CHARL__BLOCK_CHECKED) { /* not if it has just become UNKNOWN, or READ once more */
        (void)atomic_compare_exchange_strong(state, &was, (unsigned char)(was - 1));
    }
}

static void age_all(charl__file *f)
{
    for (int i = 0; i < f->n_arrays; i++) {
        for (int64_t b = 0; b < f->arrays[i].n_blocks; b++) {
            age(&f->arrays[i].block_state[b]);
        }
    }
    age(&f->read_unchecked);
}

/* Check what has been read lately, and have everything else checked when it is read. */
static charl_status check_again(charl__file *f)
{
    charl_status st = CHARL_OK;

    atomic_fetch_add(&f->generation, 1);
    for (int i = 0; i < f->n_arrays; i++) {
        charl__array *a = &f->arrays[i];

        for (int64_t b = 0; b < a->n_blocks; b++) {
            if (atomic_exchange(&a->block_state[b], CHARL__BLOCK_UNKNOWN) > CHARL__BLOCK_CHECKED) {
                CHARL_TRY(charl__array_check_block(f, a, b));
            }
        }
    }
cleanup:
    return st;
}

static charl_status look(charl__file *f)
{
    charl_status st = CHARL_OK;
    charl__file_stamp now;
    char before[CHARL__CLOCK_TEXT], after[CHARL__CLOCK_TEXT];

    CHARL_TRY(read_stamp(f, &now));
    if (!is_written(&now, &f->stamp) && is_same_time(&now.changed, &f->stamp.changed)) {
        age_all(f);
        goto cleanup;
    }
    CHARL_REQUIRE(now.bytes >= f->bytes, CHARL_ERR_DATA,
                  "%s: the file was cut while it was in use, from %lld to %lld bytes. HINT put the "
                  "file back as it was and run the same command",
                  f->path, (long long)f->bytes, (long long)now.bytes);
    CHARL_TRY(check_again(f));
    if (is_written(&now, &f->stamp) && !has_all_checksums(f)) {
        /* What was read before then is good; the next read is refused. */
        CHARL_REQUIRE(
            atomic_load(&f->read_unchecked) <= CHARL__BLOCK_CHECKED, CHARL_ERR_DATA,
            "%s: the file was written to while it was in use (%lld bytes of %s, opened with %lld "
            "of "
            "%s), and has no checksums that could tell whether its data are the same. HINT put the "
            "file back as it was and run the same command, or start afresh; `charl data import` "
            "gives data checksums",
            f->path, (long long)now.bytes, charl__clock_format((double)now.modified.tv_sec, after),
            (long long)f->stamp.bytes,
            charl__clock_format((double)f->stamp.modified.tv_sec, before));
        goto cleanup;
    }
    f->stamp = now;
    charl__log(CHARL__LOG_INFO, "%s: size or times of the file have changed, its data have not",
               f->path);
cleanup:
    return st;
}

charl_status charl__file_look(charl__file *f, bool now)
{
    charl_status st = CHARL_OK;

    if (!f->arrays) { /* it is being opened */
        return CHARL_OK;
    }
    if (now) {
        pthread_mutex_lock(&f->looking);
    } else if (now_ms() - atomic_load(&f->looked_ms) < PERIOD_MS ||
               pthread_mutex_trylock(&f->looking) != 0) {
        return CHARL_OK;
    }
    atomic_store(&f->looked_ms, now_ms());
    st = look(f);
    pthread_mutex_unlock(&f->looking);
    return st;
}

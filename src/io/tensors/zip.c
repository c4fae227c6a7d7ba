/* The central directory at the end of a zip archive (PKWARE's APPNOTE 6.3): archives of more than 4 GiB have extra fields (zip64). */
#include "io/tensors/zip.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/regular.h"

enum {
    END = 22,
    END64 = 56,
    LOCATOR = 20,
    ENTRY = 46,
    LOCAL = 30,
    COMMENT = 65535,
    MOST_DIRECTORY = 1 << 26,
    MOST = 65536
};

typedef struct archive {
    const char *path;
    charl_status code; /* of a damaged archive */
    int fd;
    int64_t bytes;
} archive;

static uint64_t number(const unsigned char *p, int n)
{
    uint64_t v = 0;

    while (n-- > 0) {
        v = v << 8 | p[n];
    }
    return v;
}

static charl_status read_at(const archive *a, void *dst, int64_t n, int64_t at)
{
    const int64_t got = at < 0 || at > a->bytes - n ? 0 : charl__regular_read(a->fd, dst, n, at);

    CHARL_REQUIRE(got >= 0, CHARL_ERR_IO, "%s: %s", a->path, strerror(errno));
    CHARL_REQUIRE(got == n, a->code, "%s: the zip archive is cut short or damaged", a->path);
    return CHARL_OK;
}

/* Where the directory is, and how many files it lists. */
static charl_status find_directory(const archive *a, int64_t *at, int64_t *bytes, int64_t *n)
{
    const int64_t tail = a->bytes < COMMENT + END ? a->bytes : COMMENT + END;
    CHARL_SCOPED_FREE unsigned char *end = NULL;
    unsigned char record[END64];
    int64_t i = tail - END;

    CHARL_TRY(charl__alloc((size_t)tail + 1, &end));
    CHARL_TRY(read_at(a, end, tail, a->bytes - tail));
    while (i >= 0 && memcmp(end + i, "PK\5\6", 4) != 0) {
        i--;
    }
    CHARL_REQUIRE(i >= 0, a->code, "%s: the zip archive is cut short: it has no directory", a->path);
    *n = (int64_t)number(end + i + 10, 2);
    *bytes = (int64_t)number(end + i + 12, 4);
    *at = (int64_t)number(end + i + 16, 4);
    if (i >= LOCATOR && memcmp(end + i - LOCATOR, "PK\6\7", 4) == 0) {
        CHARL_TRY(read_at(a, record, sizeof record, (int64_t)number(end + i - LOCATOR + 8, 8)));
        *n = (int64_t)number(record + 32, 8);
        *bytes = (int64_t)number(record + 40, 8);
        *at = (int64_t)number(record + 48, 8);
    }
    CHARL_REQUIRE(*n > 0 && *n <= MOST && *bytes >= *n * ENTRY && *bytes <= MOST_DIRECTORY, a->code,
                  "%s: the directory of the zip archive is empty or damaged", a->path);
    return CHARL_OK;
}

/* One entry of the directory, from `left` bytes; *used is its size. */
static charl_status read_entry(const archive *a, const unsigned char *p, int64_t left, charl__zip_member *m,
                               int64_t *used)
{
    const int64_t name = left >= ENTRY ? (int64_t)number(p + 28, 2) : 0,
                  extra = left >= ENTRY ? (int64_t)number(p + 30, 2) : 0;
    int64_t local = 0;
    unsigned char head[LOCAL];
    uint64_t method;

    *used = ENTRY + name + extra + (left >= ENTRY ? (int64_t)number(p + 32, 2) : 0);
    CHARL_REQUIRE(left >= *used && memcmp(p, "PK\1\2", 4) == 0, a->code,
                  "%s: the directory of the zip archive is damaged", a->path);
    CHARL_REQUIRE(name < (int64_t)sizeof m->name && !memchr(p + ENTRY, '\0', (size_t)name), a->code,
                  "%s: a name of more than %zu bytes in the zip archive", a->path, sizeof m->name - 1);
    memcpy(m->name, p + ENTRY, (size_t)name);
    m->packed = (int64_t)number(p + 20, 4);
    m->bytes = (int64_t)number(p + 24, 4);
    local = (int64_t)number(p + 42, 4);
    for (int64_t i = ENTRY + name; i + 4 <= ENTRY + name + extra; i += 4 + (int64_t)number(p + i + 2, 2)) {
        int64_t *const wide[] = {&m->bytes, &m->packed, &local};
        int64_t at = i + 4;

        for (int k = 0; number(p + i, 2) == 1 && k < 3; k++) {
            if (*wide[k] == UINT32_MAX && at + 8 <= ENTRY + name + extra) {
                *wide[k] = (int64_t)number(p + at, 8);
                at += 8;
            }
        }
    }
    method = number(p + 10, 2);
    CHARL_REQUIRE((method == 0 || method == 8) && (number(p + 8, 2) & 1) == 0, a->code,
                  "%s: %s is encrypted, or packed in another way than deflate", a->path, m->name);
    m->deflated = method == 8;
    CHARL_TRY(read_at(a, head, sizeof head, local));
    m->begin = local + LOCAL + (int64_t)number(head + 26, 2) + (int64_t)number(head + 28, 2);
    CHARL_REQUIRE(m->packed >= 0 && m->bytes >= 0 && m->begin <= a->bytes && m->packed <= a->bytes - m->begin &&
                      (m->deflated || m->packed == m->bytes),
                  a->code, "%s: %s reaches beyond the end of the zip archive, which is cut short", a->path, m->name);
    return CHARL_OK;
}

charl_status charl__zip_list(const char *path, charl_status code, charl__zip_member **members, int64_t *n)
{
    charl_status st = CHARL_OK;
    archive a = {.path = path, .code = code, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    unsigned char *directory = NULL;
    charl__zip_member *list = NULL;
    int64_t at = 0, bytes = 0, used = 0;
    struct stat info;

    *members = NULL;
    *n = 0;
    CHARL_REQUIRE_CLEANUP(a.fd >= 0 && fstat(a.fd, &info) == 0, code, "%s: cannot be opened: %s", path,
                          strerror(errno));
    a.bytes = info.st_size;
    CHARL_TRY_CLEANUP(find_directory(&a, &at, &bytes, n));
    CHARL_TRY_CLEANUP(charl__alloc((size_t)bytes, &directory));
    CHARL_TRY_CLEANUP(read_at(&a, directory, bytes, at));
    CHARL_TRY_CLEANUP(charl__alloc_array(*n, sizeof *list, &list));
    for (int64_t i = 0, place = 0; i < *n; i++, place += used) {
        CHARL_TRY_CLEANUP(read_entry(&a, directory + place, bytes - place, &list[i], &used));
    }
    *members = list;
    list = NULL;
cleanup:
    if (a.fd >= 0) {
        close(a.fd);
    }
    charl_free(list);
    charl_free(directory);
    return st;
}

/* zlib's gz functions read plain files unchanged, so the same code reads both. */
#include "data/import/import_source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "io/kind.h"

enum { ZLIB_BUFFER = 1 << 17, PART_BUFFER = 1 << 16, READ_MOST = 1 << 26 };

enum { DEFLATE_MOST = 1032 }; /* maximum expansion of a byte: https://zlib.net/zlib_tech.html */

/* A file in a zip archive. */
typedef struct part {
    charl__zip_member member;
    int fd;
    int64_t consumed; /* packed bytes */
    z_stream z;       /* if it is deflated */
    unsigned char in[PART_BUFFER];
} part;

struct charl__source {
    char *path;
    gzFile gz;
    part *part; /* instead of gz */
    int64_t file_bytes;
    int64_t at;
};

static charl_status open_gz(charl__source *s)
{
    struct stat info;
    CHARL_SCOPED(charl__descriptor_left) int fd = -1;

    /* O_NONBLOCK: a FIFO must be rejected, not waited for. */
    fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CHARL_REQUIRE(fd >= 0, CHARL_ERR_DATA, "%s: cannot be opened: %s", s->path, strerror(errno));
    CHARL_REQUIRE(fstat(fd, &info) == 0, CHARL_ERR_IO, "%s: %s", s->path, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        CHARL_TRY(charl__kind_expect(s->path, 0, "a file", CHARL_ERR_DATA));
    }
    CHARL_REQUIRE(S_ISREG(info.st_mode), CHARL_ERR_DATA, "%s: not a regular file", s->path);
    CHARL_REQUIRE(info.st_size > 0, CHARL_ERR_DATA, "%s: the file is empty", s->path);
    s->file_bytes = info.st_size;
    CHARL_TRY(charl__acquire("gzip stream"));
    s->gz = gzdopen(fd, "rb");
    if (!s->gz) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_NOMEM, "%s: out of memory for reading", s->path);
    }
    fd = -1; /* gzclose closes it */
    gzbuffer(s->gz, ZLIB_BUFFER);
    return CHARL_OK;
}

charl_status charl__source_open(const char *path, charl__source **out)
{
    CHARL_SCOPED(charl__source_left) charl__source *s = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *s, &s));
    CHARL_TRY(charl__strdup(path, &s->path));
    CHARL_TRY(open_gz(s));
    *out = s;
    s = NULL;
    return CHARL_OK;
}

static charl_status open_part(charl__source *s, const charl__zip_member *member)
{
    CHARL_TRY(charl__alloc(sizeof *s->part, &s->part));
    s->part->member = *member;
    s->part->fd = open(s->path, O_RDONLY | O_CLOEXEC);
    CHARL_REQUIRE(s->part->fd >= 0, CHARL_ERR_DATA, "%s: cannot be opened: %s", s->path, strerror(errno));
    CHARL_REQUIRE(!member->deflated || inflateInit2(&s->part->z, -MAX_WBITS) == Z_OK, CHARL_ERR_NOMEM,
                  "%s: out of memory for reading", s->path);
    s->file_bytes = member->bytes;
    return CHARL_OK;
}

charl_status charl__source_open_member(const char *path, const charl__zip_member *member, charl__source **out)
{
    CHARL_SCOPED(charl__source_left) charl__source *s = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *s, &s));
    CHARL_TRY(charl__strdup(path, &s->path));
    CHARL_TRY(open_part(s, member));
    *out = s;
    s = NULL;
    return CHARL_OK;
}

/* Compressed bytes; *got is 0 at their end only. */
static charl_status read_packed(const charl__source *s, void *dst, size_t cap, size_t *got)
{
    part *p = s->part;
    const int64_t left = p->member.packed - p->consumed;
    ssize_t n = 0;

    do {
        n = left > 0
                ? pread(p->fd, dst, left < (int64_t)cap ? (size_t)left : cap, (off_t)(p->member.begin + p->consumed))
                : 0;
    } while (n < 0 && errno == EINTR);
    CHARL_REQUIRE(n > 0 || (n == 0 && left <= 0), CHARL_ERR_IO, "%s: %s cannot be read: %s", s->path, p->member.name,
                  n < 0 ? strerror(errno) : "the file was shortened");
    p->consumed += n;
    *got = (size_t)n;
    return CHARL_OK;
}

static charl_status read_part(charl__source *s, void *dst, size_t cap, size_t *got)
{
    part *p = s->part;
    int code = Z_OK;

    *got = 0;
    if (!p->member.deflated) {
        CHARL_TRY(read_packed(s, dst, cap, got));
    }
    p->z.next_out = dst;
    p->z.avail_out = (uInt)cap;
    while (p->member.deflated && *got == 0 && s->at < p->member.bytes && code != Z_STREAM_END) {
        if (p->z.avail_in == 0) {
            size_t n;

            CHARL_TRY(read_packed(s, p->in, sizeof p->in, &n));
            p->z.next_in = p->in;
            p->z.avail_in = (uInt)n;
        }
        code = inflate(&p->z, Z_NO_FLUSH);
        *got = cap - p->z.avail_out;
        CHARL_REQUIRE(code == Z_OK || code == Z_STREAM_END, CHARL_ERR_DATA,
                      "%s: %s cannot be inflated: the archive is damaged", s->path, p->member.name);
    }
    s->at += (int64_t)*got;
    CHARL_REQUIRE(s->at <= p->member.bytes && (*got > 0 || s->at == p->member.bytes), CHARL_ERR_DATA,
                  "%s: %s has %lld bytes, its archive says %lld", s->path, p->member.name, (long long)s->at,
                  (long long)p->member.bytes);
    return CHARL_OK;
}

/* Read a byte order mark; other bytes are read again. */
static charl_status skip_mark(charl__source *s)
{
    unsigned char mark[3];
    size_t n = 0, got = 1;

    while (n < sizeof mark && got > 0) {
        CHARL_TRY(charl__source_some(s, mark + n, sizeof mark - n, &got));
        n += got;
    }
    return n == sizeof mark && memcmp(mark, "\xef\xbb\xbf", sizeof mark) == 0 ? CHARL_OK : charl__source_rewind(s);
}

charl_status charl__source_open_text(const char *path, charl__source **out, int64_t *bytes)
{
    charl_status st;

    *out = NULL;
    CHARL_TRY(charl__kind_expect(path, CHARL__KIND_TEXT, "text in UTF-8", CHARL_ERR_DATA));
    CHARL_TRY(charl__source_open(path, out));
    st = skip_mark(*out);
    if (st != CHARL_OK) {
        charl__source_close(*out);
        *out = NULL;
    } else if (bytes) {
        *bytes = (*out)->at;
    }
    return st;
}

void charl__source_close(charl__source *s)
{
    if (!s) {
        return;
    }
    if (s->gz) {
        gzclose(s->gz);
        charl__drop();
    }
    if (s->part) {
        inflateEnd(&s->part->z);
        if (s->part->fd >= 0) {
            close(s->part->fd);
        }
        charl_free(s->part);
    }
    charl_free(s->path);
    charl_free(s);
}

const char *charl__source_path(const charl__source *s)
{
    return s->path;
}

int64_t charl__source_file_bytes(const charl__source *s)
{
    return s->file_bytes;
}

charl_status charl__source_some(charl__source *s, void *dst, size_t cap, size_t *got)
{
    int code = Z_OK, n;

    if (s->part) {
        return read_part(s, dst, cap < READ_MOST ? cap : READ_MOST, got);
    }
    n = gzread(s->gz, dst, (unsigned)(cap < READ_MOST ? cap : READ_MOST));
    *got = 0;
    if (n <= 0) {
        const char *text = gzerror(s->gz, &code);

        CHARL_REQUIRE(code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR,
                      code == Z_ERRNO ? CHARL_ERR_IO : CHARL_ERR_DATA, "%s: cannot be read at byte %lld: %s", s->path,
                      (long long)s->at, code == Z_ERRNO ? strerror(errno) : text);
        CHARL_REQUIRE(code != Z_BUF_ERROR, CHARL_ERR_DATA, "%s: the compressed file is truncated (after byte %lld)",
                      s->path, (long long)s->at);
        return CHARL_OK;
    }
    *got = (size_t)n;
    s->at += n;
    return CHARL_OK;
}

charl_status charl__source_exact(charl__source *s, void *dst, size_t bytes, const char *what)
{
    unsigned char *p = dst;

    while (bytes > 0) {
        size_t got;

        CHARL_TRY(charl__source_some(s, p, bytes, &got));
        CHARL_REQUIRE(got > 0, CHARL_ERR_DATA, "%s: truncated: ends at byte %lld within %s", s->path, (long long)s->at,
                      what);
        p += got;
        bytes -= got;
    }
    return CHARL_OK;
}

charl_status charl__source_holds(charl__source *s, int64_t bytes, const char *what)
{
    const int64_t left = s->file_bytes - s->at;

    if (s->part || gzdirect(s->gz)) {
        CHARL_REQUIRE(bytes <= left, CHARL_ERR_DATA, "%s: truncated: %s take %lld bytes, but %lld are there", s->path,
                      what, (long long)bytes, (long long)left);
    } else {
        CHARL_REQUIRE(bytes / DEFLATE_MOST <= s->file_bytes, CHARL_ERR_DATA,
                      "%s: truncated: %s take %lld bytes, more than %lld compressed ones can hold", s->path, what,
                      (long long)bytes, (long long)s->file_bytes);
    }
    return CHARL_OK;
}

charl_status charl__source_end(charl__source *s)
{
    const int64_t at = s->at;
    unsigned char byte;
    size_t got;

    CHARL_TRY(charl__source_some(s, &byte, 1, &got));
    CHARL_REQUIRE(got == 0, CHARL_ERR_DATA, "%s: more data than its header says (after byte %lld)", s->path,
                  (long long)at);
    return CHARL_OK;
}

charl_status charl__source_rewind(charl__source *s)
{
    CHARL_REQUIRE(gzrewind(s->gz) == 0, CHARL_ERR_IO, "%s: cannot be read again", s->path);
    s->at = 0;
    return CHARL_OK;
}

/* Proofs: the manifest, and the bytes of the files. */
#include "data/proof_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "base/numeric/hash.h"
#include "io/commit.h"
#include "io/h5_array.h"
#include "io/h5_driver.h"

enum { BLOCK = 1 << 20, LARGEST_MANIFEST = 64 << 20 };

void charl__proof_fini(charl__proof *p)
{
    for (int64_t i = 0; i < p->n_files; i++) {
        charl_free(p->files[i].path);
        charl_free(p->files[i].parts);
    }
    charl_free(p->files);
    charl_free(p->segments);
    *p = (charl__proof){0};
}

static charl_status add_part(charl__proof_file *f, int64_t first, int64_t count)
{
    CHARL_TRY(charl__grow(f->n_parts, sizeof *f->parts, &f->parts));
    f->parts[f->n_parts++] = (charl_byte_range){first, count};
    return CHARL_OK;
}

charl_status charl__proof_add_segment(charl__proof *p, int64_t from, int64_t until)
{
    CHARL_TRY(charl__grow(p->n_segments, sizeof *p->segments, &p->segments));
    p->segments[p->n_segments++] = (charl__proof_segment){from, until};
    return CHARL_OK;
}

static charl_status add_file(charl__proof *p, charl__proof_file **out)
{
    CHARL_TRY(charl__grow(p->n_files, sizeof *p->files, &p->files));
    *out = &p->files[p->n_files++];
    **out = (charl__proof_file){0};
    return CHARL_OK;
}

/* A name that stays in the folder: letters, digits and "._-", with at most one folder. */
static bool is_name(const char *s)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t folder = strspn(s, allowed);
    const char *rest = s[folder] == '/' ? s + folder + 1 : s;

    return s[0] != '.' && rest[0] != '\0' && rest[0] != '.' && strspn(rest, allowed) == strlen(rest);
}

charl_status charl__proof_add(charl__proof *p, const char *name, const char *path, const charl_byte_range *left_out,
                              int64_t n)
{
    charl__proof_file *f;
    struct stat info;
    int64_t at = 0;

    CHARL_TRY(add_file(p, &f));
    CHARL_REQUIRE((size_t)snprintf(f->name, sizeof f->name, "%s", name) < sizeof f->name && is_name(f->name),
                  CHARL_ERR_CONFIG,
                  "%s: a proof holds files with names of letters, digits and ._-, at most %d characters", path,
                  CHARL__PROOF_NAME - 1);
    CHARL_TRY(charl__strdup(path, &f->path));
    CHARL_REQUIRE(stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0, CHARL_ERR_CHECKPOINT,
                  "%s: is missing, empty or not a regular file", path);
    f->bytes = (int64_t)info.st_size;
    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(left_out[i].first > at ? add_part(f, at, left_out[i].first - at) : CHARL_OK);
        at = left_out[i].first + left_out[i].count;
    }
    return f->bytes > at ? add_part(f, at, f->bytes - at) : CHARL_OK;
}

static int64_t kept_bytes(const charl__proof_file *f)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < f->n_parts; i++) {
        sum += f->parts[i].count;
    }
    return sum;
}

typedef struct writer {
    const char *path;
    charl__commit commit;
    charl__h5_io io;
    hid_t h5;
    charl__h5_array array;
    unsigned char *block;
} writer;

static charl_status begin_array(writer *w, const char *name, int64_t bytes)
{
    w->array = (charl__h5_array){.path = w->path, .dtype = CHARL_U8, .rows = bytes, .dataset = H5I_INVALID_HID};
    snprintf(w->array.name, sizeof w->array.name, "%s", name);
    return charl__h5_array_create(&w->array, w->h5);
}

static charl_status end_array(writer *w)
{
    charl__h5_close(&w->array.dataset);
    return charl__h5_io_check(&w->io, w->path, -1);
}

static charl_status write_file(writer *w, charl__proof_file *f, int64_t number)
{
    CHARL_SCOPED(charl__file_left) FILE *in = NULL;
    unsigned char digest[CHARL__SHA256_BYTES];
    charl__sha256 sha;
    char name[40];

    snprintf(name, sizeof name, "/files/%" PRId64, number);
    CHARL_TRY(begin_array(w, name, kept_bytes(f)));
    in = fopen(f->path, "rb");
    CHARL_REQUIRE(in, CHARL_ERR_CHECKPOINT, "%s: cannot be opened: %s", f->path, strerror(errno));
    charl__sha256_init(&sha);
    for (int64_t i = 0; i < f->n_parts; i++) {
        for (int64_t at = 0; at < f->parts[i].count; at += BLOCK) {
            const int64_t n = f->parts[i].count - at < BLOCK ? f->parts[i].count - at : BLOCK;

            CHARL_REQUIRE(fseeko(in, (off_t)(f->parts[i].first + at), SEEK_SET) == 0 &&
                              fread(w->block, 1, (size_t)n, in) == (size_t)n,
                          CHARL_ERR_CHECKPOINT, "%s: cannot be read, or was changed meanwhile", f->path);
            charl__sha256_update(&sha, w->block, (size_t)n);
            CHARL_TRY(charl__h5_array_append(&w->array, w->block, n));
            CHARL_TRY(charl__h5_io_check(&w->io, w->path, -1));
        }
    }
    charl__sha256_final(&sha, digest);
    charl__sha256_format(digest, f->sha256);
    return end_array(w);
}

static charl_status print_manifest(const charl__proof *p, charl__text *out)
{
    CHARL_TRY(charl__text_printf(out, "device %s\ndriver %s\n", p->device, p->driver));
    CHARL_TRY(p->init[0] ? charl__text_printf(out, "init %s\n", p->init) : CHARL_OK);
    for (int64_t i = 0; i < p->n_segments; i++) {
        CHARL_TRY(
            charl__text_printf(out, "segment %" PRId64 " %" PRId64 "\n", p->segments[i].from, p->segments[i].until));
    }
    for (int64_t i = 0; i < p->n_files; i++) {
        const charl__proof_file *f = &p->files[i];

        CHARL_TRY(charl__text_printf(out, "file %s %" PRId64 " %s\n", f->name, f->bytes, f->sha256));
        for (int64_t k = 0; k < f->n_parts; k++) {
            CHARL_TRY(charl__text_printf(out, "part %" PRId64 " %" PRId64 "\n", f->parts[k].first, f->parts[k].count));
        }
    }
    return CHARL_OK;
}

static charl_status write_manifest(writer *w, const charl__proof *p)
{
    const charl__h5_site site = {CHARL_ERR_DISK, w->path};
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    char hash[CHARL__SHA256_TEXT];

    CHARL_TRY(print_manifest(p, &text));
    CHARL_REQUIRE(text.length <= LARGEST_MANIFEST, CHARL_ERR_CONFIG,
                  "the rows of these segments are in too many places of the data for a proof; HINT fewer segments");
    CHARL_TRY(begin_array(w, "/manifest", (int64_t)text.length));
    CHARL_TRY(charl__h5_array_append(&w->array, text.data, (int64_t)text.length));
    CHARL_TRY(charl__h5_set_text(&site, w->array.dataset, "sha256", charl__sha256_text(text.data, text.length, hash)));
    CHARL_TRY(end_array(w));
    CHARL_TRY(charl__h5_set_text(&site, w->h5, "charl_format", "proof"));
    return charl__h5_set_i64(&site, w->h5, "charl_version", 1);
}

static charl_status write_all(writer *w, charl__proof *p)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t fapl = H5I_INVALID_HID;

    w->io.fd = w->commit.fd;
    CHARL_TRY(charl__h5_driver_fapl(&w->io, &fapl));
    CHARL_H5_OPEN(CHARL_ERR_DISK, w->h5, H5Fcreate(w->commit.temp, H5F_ACC_TRUNC, H5P_DEFAULT, fapl),
                  "%s: cannot be created", w->path);
    for (int64_t i = 0; i < p->n_files; i++) {
        CHARL_TRY(write_file(w, &p->files[i], i));
    }
    return write_manifest(w, p);
}

charl_status charl__proof_write(const char *path, charl__proof *p, charl_status (*verify)(const char *temp, void *user),
                                void *user, int64_t *bytes)
{
    charl_status st = CHARL_OK;
    writer w = {.path = path, .commit = {.fd = -1}, .h5 = H5I_INVALID_HID, .array = {.dataset = H5I_INVALID_HID}};
    struct stat info;

    CHARL_TRY_CLEANUP(charl__alloc(BLOCK, &w.block));
    CHARL_TRY_CLEANUP(charl__commit_begin(path, &w.commit));
    st = write_all(&w, p);
    charl__h5_close(&w.array.dataset);
    charl__h5_close(&w.h5);
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(charl__h5_io_check(&w.io, path, -1));
    CHARL_TRY_CLEANUP(charl__commit_end(&w.commit, verify, user));
    *bytes = stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
cleanup:
    charl__commit_fini(&w.commit);
    charl_free(w.block);
    return st;
}

/* The rest of a line that begins with `word` and a space; NULL: it does not. */
static const char *after(const char *line, const char *word)
{
    const size_t n = strlen(word);

    return strncmp(line, word, n) == 0 && line[n] == ' ' ? line + n + 1 : NULL;
}

static bool copy(const char *value, char *out, size_t size)
{
    return (size_t)snprintf(out, size, "%s", value) < size;
}

/* "FILE 123 SHA256" */
static bool parse_file(charl__proof_file *f, const char *value)
{
    char end;

    return sscanf(value, "%159s %" SCNd64 " %64[0-9a-f]%c", f->name, &f->bytes, f->sha256, &end) == 3 &&
           is_name(f->name) && f->bytes > 0 && strlen(f->sha256) == 64;
}

/* Whether the last part of f follows those before it, inside the file. */
static bool is_in_order(const charl__proof_file *f)
{
    const charl_byte_range *last = &f->parts[f->n_parts - 1];
    const int64_t at = f->n_parts > 1 ? last[-1].first + last[-1].count : 0;

    return last->first >= at && last->count > 0 && last->first <= f->bytes && last->count <= f->bytes - last->first;
}

static charl_status parse_line(charl__proof *p, const char *line, bool *good)
{
    charl__proof_file *f = p->n_files > 0 ? &p->files[p->n_files - 1] : NULL;
    const char *value;
    int64_t a, b;
    char end;

    if ((value = after(line, "device")) != NULL) {
        *good = copy(value, p->device, sizeof p->device);
    } else if ((value = after(line, "driver")) != NULL) {
        *good = copy(value, p->driver, sizeof p->driver);
    } else if ((value = after(line, "init")) != NULL) {
        *good = copy(value, p->init, sizeof p->init) && is_name(value);
    } else if ((value = after(line, "segment")) != NULL) {
        *good = sscanf(value, "%" SCNd64 " %" SCNd64 "%c", &a, &b, &end) == 2 && a >= 0 && b > a;
        CHARL_TRY(*good ? charl__proof_add_segment(p, a, b) : CHARL_OK);
    } else if ((value = after(line, "file")) != NULL) {
        CHARL_TRY(add_file(p, &f));
        *good = parse_file(f, value);
    } else if ((value = after(line, "part")) != NULL && f) {
        *good = sscanf(value, "%" SCNd64 " %" SCNd64 "%c", &a, &b, &end) == 2;
        CHARL_TRY(*good ? add_part(f, a, b) : CHARL_OK);
        *good = *good && is_in_order(f);
    } else {
        *good = false;
    }
    return CHARL_OK;
}

charl_status charl__proof_parse(const char *path, char *manifest, charl__proof *p)
{
    bool good = true;

    for (char *line = manifest; *line && good;) {
        char *end = line + strcspn(line, "\n");
        const bool is_last = *end == '\0';

        *end = '\0';
        CHARL_TRY(parse_line(p, line, &good));
        line = is_last ? end : end + 1;
    }
    CHARL_REQUIRE(good && p->n_files > 0 && p->n_segments > 0, CHARL_ERR_CHECKPOINT, "%s: the manifest is malformed",
                  path);
    return CHARL_OK;
}

/* An open proof. */
typedef struct reader {
    const char *path, *dir;
    charl__h5_site site;
    hid_t h5;
    unsigned char *block;
} reader;

/* An array of bytes that lies in the file itself, and how many it has. */
static charl_status open_bytes(const reader *r, const char *name, hid_t *out, int64_t *bytes)
{
    CHARL_SCOPED(charl__h5_close) hid_t plist = H5I_INVALID_HID, space = H5I_INVALID_HID;
    H5L_info_t link;
    hsize_t extent = 0;

    CHARL_REQUIRE(H5Lget_info(r->h5, name, &link, H5P_DEFAULT) >= 0 && link.type == H5L_TYPE_HARD, CHARL_ERR_CHECKPOINT,
                  "%s: %s is missing", r->path, name);
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, *out, H5Dopen2(r->h5, name, H5P_DEFAULT), "%s: %s is not a readable array",
                  r->path, name);
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, plist, H5Dget_create_plist(*out), "%s: %s", r->path, name);
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, space, H5Dget_space(*out), "%s: %s", r->path, name);
    CHARL_REQUIRE(H5Pget_layout(plist) == H5D_CONTIGUOUS && H5Pget_external_count(plist) == 0 &&
                      H5Sget_simple_extent_ndims(space) == 1 && H5Sget_simple_extent_dims(space, &extent, NULL) == 1 &&
                      H5Dget_storage_size(*out) == extent && extent <= INT64_MAX,
                  CHARL_ERR_CHECKPOINT, "%s: %s is not a list of bytes in the file", r->path, name);
    *bytes = (int64_t)extent;
    return CHARL_OK;
}

static charl_status read_bytes(const reader *r, hid_t dataset, const char *name, int64_t at, int64_t n, void *out)
{
    CHARL_SCOPED(charl__h5_close) hid_t from = H5I_INVALID_HID, to = H5I_INVALID_HID;
    const hsize_t start = (hsize_t)at, count = (hsize_t)n;

    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, from, H5Dget_space(dataset), "%s: %s", r->path, name);
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, to, H5Screate_simple(1, &count, NULL), "%s: %s", r->path, name);
    CHARL_H5(CHARL_ERR_CHECKPOINT, H5Sselect_hyperslab(from, H5S_SELECT_SET, &start, NULL, &count, NULL), "%s: %s",
             r->path, name);
    CHARL_H5(CHARL_ERR_CHECKPOINT, H5Dread(dataset, H5T_NATIVE_UINT8, to, from, H5P_DEFAULT, out),
             "%s: %s cannot be read", r->path, name);
    return CHARL_OK;
}

static charl_status read_manifest(const reader *r, charl__proof *p)
{
    CHARL_SCOPED(charl__h5_close) hid_t dataset = H5I_INVALID_HID;
    CHARL_SCOPED_FREE char *text = NULL;
    char want[CHARL__SHA256_TEXT], hash[CHARL__SHA256_TEXT];
    int64_t bytes = 0;

    CHARL_TRY(open_bytes(r, "manifest", &dataset, &bytes));
    CHARL_REQUIRE(bytes > 0 && bytes <= LARGEST_MANIFEST, CHARL_ERR_CHECKPOINT,
                  "%s: the manifest has an impossible size", r->path);
    CHARL_TRY(charl__alloc((size_t)bytes + 1, &text));
    CHARL_TRY(read_bytes(r, dataset, "manifest", 0, bytes, text));
    CHARL_TRY(charl__h5_get_text(&r->site, dataset, "sha256", want, sizeof want));
    CHARL_REQUIRE(strcmp(want, charl__sha256_text(text, (size_t)bytes, hash)) == 0, CHARL_ERR_CHECKPOINT,
                  "%s: the manifest is damaged: its SHA-256 differs", r->path);
    return charl__proof_parse(r->path, text, p);
}

/* Create the file and the folder that it is in. */
static charl_status create(const reader *r, const char *name, charl__text *path, FILE **out)
{
    const char *slash = strchr(name, '/');

    if (slash) {
        CHARL_TRY(charl__text_printf(path, "%s/%.*s", r->dir, (int)(slash - name), name));
        CHARL_REQUIRE(mkdir(path->data, 0700) == 0 || errno == EEXIST, CHARL_ERR_DISK, "%s: %s", path->data,
                      strerror(errno));
        charl__text_fini(path);
    }
    CHARL_TRY(charl__text_printf(path, "%s/%s", r->dir, name));
    *out = fopen(path->data, "wbx");
    CHARL_REQUIRE(*out, CHARL_ERR_DISK, "%s: cannot be created: %s", path->data, strerror(errno));
    return CHARL_OK;
}

static charl_status unpack_file(const reader *r, const charl__proof_file *f, int64_t number)
{
    CHARL_SCOPED(charl__h5_close) hid_t dataset = H5I_INVALID_HID;
    CHARL_SCOPED(charl__file_left) FILE *out = NULL;
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};
    char hash[CHARL__SHA256_TEXT], name[40];
    unsigned char digest[CHARL__SHA256_BYTES];
    charl__sha256 sha;
    int64_t bytes = 0, from = 0;

    snprintf(name, sizeof name, "files/%" PRId64, number);
    CHARL_TRY(open_bytes(r, name, &dataset, &bytes));
    CHARL_REQUIRE(bytes == kept_bytes(f), CHARL_ERR_CHECKPOINT, "%s: %s in it has not the size that the manifest says",
                  r->path, f->name);
    CHARL_TRY(create(r, f->name, &path, &out));
    charl__sha256_init(&sha);
    for (int64_t i = 0; i < f->n_parts; i++) {
        for (int64_t at = 0; at < f->parts[i].count; at += BLOCK) {
            const int64_t n = f->parts[i].count - at < BLOCK ? f->parts[i].count - at : BLOCK;

            CHARL_TRY(read_bytes(r, dataset, name, from, n, r->block));
            charl__sha256_update(&sha, r->block, (size_t)n);
            CHARL_REQUIRE(fseeko(out, (off_t)(f->parts[i].first + at), SEEK_SET) == 0 &&
                              fwrite(r->block, 1, (size_t)n, out) == (size_t)n,
                          CHARL_ERR_DISK, "%s: cannot be written: %s", path.data, strerror(errno));
            from += n;
        }
    }
    charl__sha256_final(&sha, digest);
    CHARL_REQUIRE(strcmp(charl__sha256_format(digest, hash), f->sha256) == 0, CHARL_ERR_CHECKPOINT,
                  "%s: %s in it is damaged: its SHA-256 differs", r->path, f->name);
    CHARL_REQUIRE(fflush(out) == 0 && ftruncate(fileno(out), (off_t)f->bytes) == 0, CHARL_ERR_DISK,
                  "%s: cannot be written: %s", path.data, strerror(errno));
    return CHARL_OK;
}

static charl_status unpack_all(reader *r, charl__h5_io *io, charl__proof *p)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t fapl = H5I_INVALID_HID;
    CHARL_SCOPED(charl__text_fini) charl__text version = {0};
    char format[64];
    bool is_float;

    CHARL_TRY(charl__h5_driver_fapl(io, &fapl));
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, r->h5, H5Fopen(r->path, H5F_ACC_RDONLY, fapl), "%s: is damaged", r->path);
    CHARL_TRY(charl__h5_get_text(&r->site, r->h5, "charl_format", format, sizeof format));
    CHARL_REQUIRE(strcmp(format, "proof") == 0, CHARL_ERR_CHECKPOINT, "%s: not a proof: its charl_format is '%s'",
                  r->path, format);
    CHARL_TRY(charl__h5_get_any(&r->site, r->h5, "charl_version", &version, &is_float));
    CHARL_REQUIRE(strcmp(charl__text_string(&version), "1") == 0, CHARL_ERR_CHECKPOINT,
                  "%s: has format version %s, this charl reads version 1", r->path, charl__text_string(&version));
    CHARL_TRY(read_manifest(r, p));
    CHARL_TRY(charl__alloc(BLOCK, &r->block));
    for (int64_t i = 0; i < p->n_files; i++) {
        CHARL_TRY(unpack_file(r, &p->files[i], i));
    }
    return CHARL_OK;
}

charl_status charl__proof_unpack(const char *path, const char *dir, charl__proof *p)
{
    reader r = {.path = path, .dir = dir, .site = {CHARL_ERR_CHECKPOINT, path}, .h5 = H5I_INVALID_HID};
    charl__h5_io io = {.fd = -1};
    const charl_status st = unpack_all(&r, &io, p);

    charl__h5_close(&r.h5);
    charl_free(r.block);
    return st;
}

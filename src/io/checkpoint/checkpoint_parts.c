/* Parts of a checkpoint: reading, and removing those that are left over. They are written in checkpoint_save.c. */
#define _DEFAULT_SOURCE /* realpath */
#include "io/checkpoint/checkpoint_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/handles.h"
#include "io/checkpoint/checkpoint_file.h"
#include "io/commit.h"
#include "io/progress.h"
#include "io/regular.h"

enum { MOST_PARTS = 1 << 16, NAME_DIGITS = 16 };

charl_status charl__ckpt_add_part(charl__text *list, const char *path, const char *sha256)
{
    return !sha256[0] ? CHARL_OK
                      : charl__text_printf(list, "%s.%.*s" CHARL__CKPT_PART " %s\n", charl__base_name(path),
                                           (int)NAME_DIGITS, sha256, sha256);
}

/* ------------------------------------------------------------------ finding the pieces */

typedef struct named {
    const charl_checkpoint_tensor *tensor;
    int64_t index;
} named;

typedef struct opening {
    const charl_checkpoint_tensor *const *tensor; /* [n] */
    named *by_name;                               /* [n] sorted */
    int64_t n;
    charl__ckpt_parts *out;
} opening;

static int compare_names(const charl_checkpoint_tensor *a, const charl_checkpoint_tensor *b)
{
    const int order = strcmp(a->group, b->group);

    return order ? order : strcmp(a->name, b->name);
}

static int by_name(const void *a, const void *b)
{
    return compare_names(((const named *)a)->tensor, ((const named *)b)->tensor);
}

static int by_place(const void *a, const void *b)
{
    const charl__ckpt_piece *x = a, *y = b;
    const int order = (x->tensor > y->tensor) - (x->tensor < y->tensor);

    return order ? order : (x->from > y->from) - (x->from < y->from);
}

/* The index of the tensor with the names of t; -1: there is none. */
static int64_t find(const opening *o, const charl_checkpoint_tensor *t)
{
    int64_t low = 0, high = o->n;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = compare_names(t, o->by_name[middle].tensor);

        if (order == 0) {
            return o->by_name[middle].index;
        }
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
    return -1;
}

/* Line `number` of the manifest of a part, and the dataset that it describes. */
static charl_status add_piece(opening *o, charl__ckpt_file *f, char *line, int number)
{
    charl__ckpt_parts *out = o->out;
    CHARL_SCOPED(charl__h5_close) hid_t dataset = H5I_INVALID_HID;
    charl__ckpt_piece p = {.part = out->n - 1, .number = number};
    charl_checkpoint_tensor t;
    const charl_checkpoint_tensor *whole;
    charl_shape shape;
    char name[32];

    CHARL_REQUIRE(charl__ckpt_piece_parse(line, &t, &p), CHARL_ERR_CHECKPOINT,
                  "%s: line %d of the manifest is malformed", f->path, number + 1);
    p.tensor = find(o, &t);
    CHARL_REQUIRE(p.tensor >= 0, CHARL_ERR_CHECKPOINT, "%s: /%s/%s is not a tensor of this checkpoint", f->path,
                  t.group, t.name);
    whole = o->tensor[p.tensor];
    CHARL_REQUIRE(t.dtype == whole->dtype && p.count > 0 && p.from <= charl_shape_count(&whole->shape) - p.count,
                  CHARL_ERR_CHECKPOINT, "%s: the piece of /%s/%s is not one of the tensor of this checkpoint", f->path,
                  t.group, t.name);
    snprintf(name, sizeof name, "%d", number);
    CHARL_TRY(charl__ckpt_open_dataset(f, name, t.dtype, &dataset));
    CHARL_TRY(charl__ckpt_get_shape(f, dataset, name, &shape));
    CHARL_REQUIRE(charl_shape_equal(&shape, &t.shape), CHARL_ERR_CHECKPOINT,
                  "%s: the shape of /%s is not the one in the manifest", f->path, name);
    CHARL_TRY(charl__ckpt_locate(f, dataset, name, charl__ckpt_bytes(t.dtype, &t.shape), &p.offset));
    CHARL_TRY(charl__grow(out->n_pieces, sizeof *out->piece, &out->piece));
    out->piece[out->n_pieces++] = p;
    return CHARL_OK;
}

static charl_status read_part(opening *o, charl__ckpt_file *f, const char *sha256)
{
    CHARL_SCOPED_FREE char *manifest = NULL;
    char found[CHARL__SHA256_TEXT];
    char *line, *end;
    size_t length = 0;
    int64_t version;
    int n = 0;

    CHARL_TRY(charl__ckpt_check_root(f, CHARL__CKPT_PART_FORMAT, 4, &version));
    CHARL_TRY(charl__ckpt_read_lines(f, "manifest", &manifest, &length, found));
    CHARL_REQUIRE(strcmp(sha256, found) == 0, CHARL_ERR_CHECKPOINT,
                  "%s: is not the part that the checkpoint was written with", f->path);
    for (line = manifest; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        CHARL_TRY(add_piece(o, f, line, n++));
    }
    return charl__ckpt_check_group(f, "/", n + 1);
}

/* The line "NAME SHA256" of the list, in folder `dir`. */
static charl_status open_part(opening *o, const char *path, const char *dir, char *line)
{
    CHARL_H5_SCOPE;
    charl_status st;
    charl__ckpt_parts *out = o->out;
    charl__ckpt_part *p;
    charl__ckpt_file f;
    char *sha = strchr(line, ' ');

    CHARL_REQUIRE(sha && strlen(sha + 1) == CHARL__SHA256_TEXT - 1 && out->n < MOST_PARTS, CHARL_ERR_CHECKPOINT,
                  "%s: the parts are malformed", path);
    *sha++ = '\0';
    CHARL_REQUIRE(charl__text_is_name(line) && line[0] != '.', CHARL_ERR_CHECKPOINT,
                  "%s: '%s' is not the name of a part", path, line);
    CHARL_TRY(charl__grow(out->n, sizeof *out->part, &out->part));
    p = &out->part[out->n++];
    *p = (charl__ckpt_part){.fd = -1};
    memcpy(p->sha256, sha, CHARL__SHA256_TEXT);
    CHARL_TRY(charl__strdup(line, &p->name));
    CHARL_TRY(charl__commit_join(dir, line, &p->path));
    CHARL_REQUIRE(access(p->path, F_OK) == 0 || errno != ENOENT, CHARL_ERR_CHECKPOINT,
                  "%s: its part %s is missing: the files of a checkpoint in parts are moved and copied together; HINT "
                  "charl checkpoint pack makes one file of them",
                  path, p->path);
    CHARL_TRY(charl__regular_open(p->path, &p->fd, &p->bytes));
    st = charl__ckpt_file_open(&f, p->path, p->fd, p->bytes);
    return charl__ckpt_file_close(&f, st == CHARL_OK ? read_part(o, &f, p->sha256) : st);
}

/* Set `first`; the pieces of each tensor are all of it. */
static charl_status check_cover(opening *o, const char *path)
{
    charl__ckpt_parts *out = o->out;
    int64_t at = 0;

    if (out->n_pieces > 0) {
        qsort(out->piece, (size_t)out->n_pieces, sizeof *out->piece, by_place);
    }
    for (int64_t i = 0; i < o->n; i++) {
        const charl_checkpoint_tensor *t = o->tensor[i];
        int64_t end = 0;

        out->first[i] = at;
        for (; at < out->n_pieces && out->piece[at].tensor == i && out->piece[at].from == end; at++) {
            end += out->piece[at].count;
        }
        CHARL_REQUIRE((at == out->first[i] || end == charl_shape_count(&t->shape)) &&
                          (at == out->n_pieces || out->piece[at].tensor > i),
                      CHARL_ERR_CHECKPOINT, "%s: the pieces of /%s/%s in its parts are not the whole tensor", path,
                      t->group, t->name);
    }
    out->first[o->n] = at;
    return CHARL_OK;
}

/* The folder of a file, whatever links lead to it. */
static charl_status folder_of(const char *path, char **out)
{
    char *real = realpath(path, NULL);
    const charl_status st = charl__commit_dir(real ? real : path, out);

    free(real);
    return st;
}

static charl_status open_all(const char *path, char *list, opening *o)
{
    CHARL_SCOPED_FREE char *dir = NULL;
    CHARL_SCOPED_FREE named *sorted = NULL;
    char *end;

    CHARL_TRY(folder_of(path, &dir));
    CHARL_TRY(charl__alloc_array(o->n + 1, sizeof *sorted, &sorted));
    for (int64_t i = 0; i < o->n; i++) {
        sorted[i] = (named){o->tensor[i], i};
    }
    qsort(sorted, (size_t)o->n, sizeof *sorted, by_name);
    o->by_name = sorted;
    for (; (end = strchr(list, '\n')) != NULL; list = end + 1) {
        *end = '\0';
        CHARL_TRY(open_part(o, path, dir, list));
    }
    return CHARL_OK;
}

charl_status charl__ckpt_parts_open(const char *path, char *list, const charl_checkpoint_tensor *const *tensor,
                                    int64_t n, charl__ckpt_parts *out)
{
    opening o = {.tensor = tensor, .n = n, .out = out};

    CHARL_TRY(charl__alloc_array(n + 1, sizeof *out->first, &out->first));
    CHARL_TRY(open_all(path, list, &o));
    return check_cover(&o, path);
}

void charl__ckpt_parts_fini(charl__ckpt_parts *p)
{
    for (int i = 0; i < p->n; i++) {
        charl__regular_close(&p->part[i].fd);
        charl_free(p->part[i].name);
        charl_free(p->part[i].path);
    }
    charl_free(p->part);
    charl_free(p->piece);
    charl_free(p->first);
    *p = (charl__ckpt_parts){0};
}

/* ------------------------------------------------------------------ reading them */

charl_status charl__ckpt_read_values(const char *path, int fd, const charl_checkpoint_tensor *t, int64_t offset,
                                     int64_t bytes, void *dst)
{
    char *at = dst;
    const int64_t n = charl__regular_read(fd, dst, bytes, offset);

    CHARL_REQUIRE(n >= 0, CHARL_ERR_CHECKPOINT, "%s: /%s/%s cannot be read", path, t->group, t->name);
    CHARL_REQUIRE(n == bytes, CHARL_ERR_CHECKPOINT, "%s: the file ends inside /%s/%s", path, t->group, t->name);
    if (bytes > 0 && charl__fault("io.readflip")) {
        at[bytes / 2] = (char)(at[bytes / 2] ^ 1);
    }
    return CHARL_OK;
}

uint32_t charl__ckpt_parts_crc32c(const charl__ckpt_parts *p, int64_t i, size_t size)
{
    uint32_t crc = 0;

    for (const charl__ckpt_piece *e = p->piece + p->first[i]; e < p->piece + p->first[i + 1]; e++) {
        crc = charl__crc32c_join(crc, e->crc32c, e->count * (int64_t)size);
    }
    return crc;
}

/* Read a piece in blocks; the checksum of each is compared, and `sha` (NULL: not wanted) updated. */
static charl_status read_piece(const charl__ckpt_parts *p, const charl__ckpt_piece *e, const charl_checkpoint_tensor *t,
                               void *block, charl__sha256 *sha)
{
    const charl__ckpt_part *part = &p->part[e->part];
    const int64_t bytes = e->count * (int64_t)charl_dtype_size(t->dtype);
    uint32_t crc = 0;

    for (int64_t at = 0; at < bytes; at += CHARL__CKPT_BLOCK) {
        const int64_t n = bytes - at < CHARL__CKPT_BLOCK ? bytes - at : CHARL__CKPT_BLOCK;

        CHARL_TRY(charl__ckpt_read_values(part->path, part->fd, t, e->offset + at, n, block));
        crc = charl__crc32c(crc, block, (size_t)n);
        if (sha) {
            charl__sha256_update(sha, block, (size_t)n);
        }
        charl__progress_made();
    }
    CHARL_REQUIRE(crc == e->crc32c, CHARL_ERR_CHECKPOINT,
                  "%s: /%s/%s is damaged: its checksum is %08lx, should be %08lx", part->path, t->group, t->name,
                  (unsigned long)crc, (unsigned long)e->crc32c);
    return CHARL_OK;
}

charl_status charl__ckpt_part_verify(const char *path, const char *sha256, const charl_checkpoint_tensor *tensor,
                                     int64_t n)
{
    charl_status st = CHARL_OK;
    charl__ckpt_parts parts = {0};
    charl__text list = {0};
    const charl_checkpoint_tensor **at = NULL;
    void *block = NULL;
    opening o = {.n = n, .out = &parts};

    CHARL_TRY_CLEANUP(charl__alloc_array(n, sizeof *at, &at));
    CHARL_TRY_CLEANUP(charl__alloc(CHARL__CKPT_BLOCK, &block));
    for (int64_t i = 0; i < n; i++) {
        at[i] = &tensor[i];
    }
    o.tensor = at;
    CHARL_TRY_CLEANUP(charl__text_printf(&list, "%s %s\n", charl__base_name(path), sha256));
    CHARL_TRY_CLEANUP(open_all(path, list.data, &o));
    for (int64_t i = 0; i < parts.n_pieces; i++) {
        CHARL_TRY_CLEANUP(read_piece(&parts, &parts.piece[i], at[parts.piece[i].tensor], block, NULL));
    }
cleanup:
    charl__ckpt_parts_fini(&parts);
    charl__text_fini(&list);
    charl_free(at);
    charl_free(block);
    return st;
}

static charl_status hash_tensor(const charl__ckpt_parts *p, int64_t i, const charl_checkpoint_tensor *t,
                                char out[CHARL__SHA256_TEXT])
{
    const charl__ckpt_piece *e = p->piece + p->first[i], *end = p->piece + p->first[i + 1];
    CHARL_SCOPED_FREE void *block = NULL;
    unsigned char digest[CHARL__SHA256_BYTES];
    charl__sha256 sha;

    if (e == end) {
        return CHARL_OK;
    }
    if (end - e == 1 && e->sha256[0]) {
        memcpy(out, e->sha256, CHARL__SHA256_TEXT);
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc(CHARL__CKPT_BLOCK, &block));
    charl__sha256_init(&sha);
    for (; e < end; e++) {
        CHARL_TRY(read_piece(p, e, t, block, &sha));
    }
    charl__sha256_final(&sha, digest);
    charl__sha256_format(digest, out);
    return CHARL_OK;
}

static charl_status join(const char *path, const charl_checkpoint *c, char *list, charl__ckpt_parts *out,
                         char (*sha256)[CHARL__SHA256_TEXT])
{
    CHARL_SCOPED_FREE const charl_checkpoint_tensor **at = NULL;

    CHARL_TRY(charl__alloc_array(c->n_tensors, sizeof *at, &at));
    for (int64_t i = 0; i < c->n_tensors; i++) {
        at[i] = &c->tensors[i];
    }
    CHARL_TRY(charl__ckpt_parts_open(path, list, at, c->n_tensors, out));
    for (int64_t i = 0; i < c->n_tensors; i++) {
        CHARL_TRY(hash_tensor(out, i, at[i], sha256[i]));
    }
    return CHARL_OK;
}

charl_status charl__ckpt_parts_join(const char *path, const charl_checkpoint *c, const char (*part)[CHARL__SHA256_TEXT],
                                    int n, charl__ckpt_parts *out, char (*sha256)[CHARL__SHA256_TEXT])
{
    CHARL_SCOPED(charl__text_fini) charl__text list = {0};
    charl_status st;

    for (int i = 0; i < n; i++) {
        CHARL_TRY(charl__ckpt_add_part(&list, path, part[i]));
    }
    st = list.length > 0 ? join(path, c, list.data, out, sha256) : CHARL_OK;
    CHARL_REQUIRE(st != CHARL_ERR_CHECKPOINT, CHARL_ERR_DISK, "read back after writing: %s", charl_error_message());
    return st;
}

/* ------------------------------------------------------------------ removing what is left over */

/* Append the list of parts of a file to `lists`. */
static charl_status add_list(const char *path, charl__text *lists)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED_FREE char *list = NULL;
    charl__ckpt_file f;
    char sha256[CHARL__SHA256_TEXT];
    size_t length = 0;
    int64_t bytes, version;
    bool has_parts = false;
    int fd = -1;
    charl_status st = charl__regular_open(path, &fd, &bytes);

    if (st == CHARL_OK) {
        st = charl__ckpt_file_open(&f, path, fd, bytes);
        st = st == CHARL_OK ? charl__ckpt_check_root(&f, "checkpoint", 1, &version) : st;
        st = st == CHARL_OK ? charl__ckpt_check_link(&f, "parts", &has_parts) : st;
        st = st == CHARL_OK && has_parts ? charl__ckpt_read_lines(&f, "parts", &list, &length, sha256) : st;
        st = charl__ckpt_file_close(&f, st);
    }
    charl__regular_close(&fd);
    return st == CHARL_OK && has_parts ? charl__text_printf(lists, "%s", list) : st;
}

/* Bytes of the name of the checkpoint in that of a part; 0: it is none. */
static size_t part_of(const char *name)
{
    static const size_t end = sizeof CHARL__CKPT_PART - 1;
    const size_t n = strlen(name);
    const char *digits = n > end + NAME_DIGITS + 1 ? name + n - end - NAME_DIGITS : NULL;

    return digits && strcmp(digits + NAME_DIGITS, CHARL__CKPT_PART) == 0 && digits[-1] == '.' &&
                   strspn(digits, "0123456789abcdef") == NAME_DIGITS
               ? (size_t)(digits - 1 - name)
               : 0;
}

/* The files of `dir`, each with a line end behind it. */
static charl_status list_files(const char *dir, charl__text *names, bool *has_parts)
{
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;

    CHARL_TRY(charl__directory_open(dir, &d));
    if (!d) {
        return errno == ENOENT ? CHARL_OK : charl__disk_error(dir, "open of the directory", errno, -1);
    }
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] != '.' && !strchr(e->d_name, '\n')) {
            CHARL_TRY(charl__text_printf(names, "%s\n", e->d_name));
            *has_parts = *has_parts || part_of(e->d_name) > 0;
        }
    }
    return CHARL_OK;
}

typedef struct naming {
    charl__text lists;  /* of the parts that checkpoints name */
    charl__text unread; /* files that are no checkpoint, or a damaged one, each with a line end behind it */
} naming;

/* Look into the file `name` of `dir`. */
static charl_status look(const char *dir, const char *name, naming *out)
{
    CHARL_SCOPED_FREE char *path = NULL;
    charl_status st;

    if (part_of(name) > 0 || strstr(name, ".tmp.")) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__commit_join(dir, name, &path));
    st = add_list(path, &out->lists);
    return st == CHARL_ERR_CHECKPOINT ? charl__text_printf(&out->unread, "%s\n", name) : st;
}

/* Whether no checkpoint names `part`, and none that cannot be read has the name that the part begins with. */
static bool is_left_over(const char *part, const naming *all)
{
    const size_t length = part_of(part);
    const char *name = charl__text_string(&all->unread);

    if (length == 0 || strstr(charl__text_string(&all->lists), part)) {
        return false;
    }
    for (const char *end; (end = strchr(name, '\n')) != NULL; name = end + 1) {
        if (strncmp(name, part, length) == 0 && (name[length] == '\n' || name[length] == '.')) {
            return false;
        }
    }
    return true;
}

/* `names`: of the files of `dir`, which are taken apart. */
static charl_status sweep(const char *dir, char *names, naming *all, int *count)
{
    char *end, *const last = names + strlen(names);

    for (char *name = names; (end = strchr(name, '\n')) != NULL; name = end + 1) {
        *end = '\0';
        CHARL_TRY(look(dir, name, all));
    }
    for (const char *part = names; part < last; part += strlen(part) + 1) {
        CHARL_SCOPED_FREE char *path = NULL;

        if (is_left_over(part, all)) {
            CHARL_TRY(charl__commit_join(dir, part, &path));
            CHARL_REQUIRE(unlink(path) == 0 || errno == ENOENT, CHARL_ERR_DISK, "%s: cannot be removed: %s", path,
                          strerror(errno));
            charl__crash_point("io.crash.swept");
            (*count)++;
        }
    }
    return CHARL_OK;
}

charl_status charl__ckpt_sweep(const char *dir, int *removed)
{
    charl_status st = CHARL_OK;
    charl__text names = {0};
    naming all = {0};
    bool has_parts = false;
    int count = 0;

    CHARL_TRY_CLEANUP(list_files(dir, &names, &has_parts));
    CHARL_TRY_CLEANUP(has_parts ? sweep(dir, names.data, &all, &count) : CHARL_OK);
cleanup:
    charl__text_fini(&names);
    charl__text_fini(&all.lists);
    charl__text_fini(&all.unread);
    if (removed) {
        *removed = count;
    }
    return st;
}

/* Whether a file ends as a checkpoint in parts does. */
static bool is_sealed(const char *path)
{
    static const char begin[] = "charl-sha256 ";
    char line[CHARL__CKPT_SEAL] = "";
    int64_t bytes;
    int fd;

    if (charl__regular_open(path, &fd, &bytes) == CHARL_OK) {
        (void)charl__regular_read(fd, line, CHARL__CKPT_SEAL - 1, bytes - (CHARL__CKPT_SEAL - 1));
    }
    charl__regular_close(&fd);
    return strncmp(line, begin, sizeof begin - 1) == 0;
}

int64_t charl_checkpoint_size(const char *path)
{
    CHARL_SCOPED_FREE char *dir = NULL;
    char *real = path ? realpath(path, NULL) : NULL;
    const char *name = real ? charl__base_name(real) : "";
    const size_t length = strlen(name);
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;
    struct stat s;
    int64_t bytes = 0, own = 0, all = 0;

    if (real && stat(real, &s) == 0 && S_ISREG(s.st_mode)) {
        bytes = (int64_t)s.st_size;
        if (is_sealed(real) && charl__commit_dir(real, &dir) == CHARL_OK &&
            charl__directory_open(dir, &d) == CHARL_OK && d) {
            for (const struct dirent *e; (e = readdir(d)) != NULL;) {
                const size_t n = part_of(e->d_name);

                if (n > 0 && fstatat(dirfd(d), e->d_name, &s, 0) == 0) {
                    all += (int64_t)s.st_size;
                    own += n == length && strncmp(e->d_name, name, n) == 0 ? (int64_t)s.st_size : 0;
                }
            }
        }
    }
    free(real);
    return bytes + (own > 0 ? own : all);
}

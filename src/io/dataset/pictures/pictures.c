/* Rows that are decoded from image files. */
#define _DEFAULT_SOURCE /* realpath */
#include "io/dataset/pictures/pictures.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"

static const char *const fit_names[] = {"crop", "stretch", "pad"};

const char *charl_image_fit_name(charl_image_fit fit)
{
    return (unsigned)fit < CHARL_FIT_COUNT ? fit_names[fit] : "?";
}

charl_image_fit charl_image_fit_of(const char *name)
{
    if (!name) {
        return (charl_image_fit){0};
    }
    int fit = 0;

    while (fit < CHARL_FIT_COUNT && strcmp(name, fit_names[fit]) != 0) {
        fit++;
    }
    return (charl_image_fit)fit;
}

static charl__picture_reader *reader; /* NULL: the program has no libcharl-train */

void charl__pictures_set_reader(charl__picture_reader *read)
{
    reader = read;
}

struct charl__pictures {
    charl__file *file;        /* borrowed */
    const charl__array *rows; /* borrowed */
    charl__array list;
    charl_image_format format;
    char folder[PATH_MAX]; /* of the data set, with a slash at the end unless it is "" */
};

static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? (int)(slash - path) + 1 : 0;
}

/* The file of row `index`, and the checksum of its pixels. */
static charl_status find_file(charl__pictures *p, int64_t index, charl__text *path, uint32_t *crc)
{
    CHARL_SCOPED_FREE unsigned char *record = NULL;
    const char *name;

    CHARL_TRY(charl__alloc(p->list.item_bytes + 1, &record));
    CHARL_TRY(charl__array_read(p->file, &p->list, index, 1, record));
    *crc = 0;
    for (int i = 0; i < CHARL__PICTURE_PATH; i++) {
        *crc |= (uint32_t)record[i] << 8 * i;
    }
    name = (const char *)record + CHARL__PICTURE_PATH;
    charl__text_clear(path);
    CHARL_TRY(charl__text_printf(path, "%s%s", name[0] == '/' ? "" : p->folder, name));
    return CHARL_OK;
}

/* A charl__chunks.decode. */
static charl_status decode(void *ctx, int64_t index, unsigned char *out)
{
    charl_status st = CHARL_OK;
    charl__pictures *p = ctx;
    charl__text path = {0};
    uint32_t stored, crc;

    CHARL_TRY_CLEANUP(find_file(p, index, &path, &stored));
    st = reader(charl__text_string(&path), &p->format, out);
    if (st != CHARL_OK) {
        charl__error_prefix("%s: %s: row %lld: ", p->file->path, p->rows->name, (long long)index);
        goto cleanup;
    }
    crc = charl__crc32c(0, out, p->rows->item_bytes);
    CHARL_REQUIRE_CLEANUP(
        crc == stored, CHARL_ERR_DATA,
        "%s: %s: row %lld: %s no longer gives the pixels that were imported (checksum %08x, was %08x): the file was "
        "changed, or this libjpeg decodes it otherwise. HINT put the file back, or import the folder again",
        p->file->path, p->rows->name, (long long)index, charl__text_string(&path), crc, stored);
cleanup:
    charl__text_fini(&path);
    return st;
}

static charl_status judge(charl__pictures *p, const charl__array *a)
{
    const charl__array *list = &p->list;
    CHARL_SCOPED_FREE char *fit = NULL;

    CHARL_TRY(charl__file_text(p->file, "/", "fit", &fit));
    p->format = (charl_image_format){
        .channels = a->item.dim[0], .height = a->item.dim[1], .width = a->item.dim[2], .fit = charl_image_fit_of(fit)};
    CHARL_REQUIRE(a->item.ndim == 3 && a->dtype == CHARL_U8 && !a->converted &&
                      (p->format.channels == 1 || p->format.channels == 3) && p->format.fit < CHARL_FIT_COUNT,
                  CHARL_ERR_DATA, "%s: %s cannot be images of files: u8 [n, 1 or 3, height, width] with a fit",
                  p->file->path, a->name);
    CHARL_REQUIRE(list->dtype == CHARL_U8 && list->item.ndim == 1 && list->rows == a->rows &&
                      list->item_bytes > CHARL__PICTURE_PATH && list->offset >= 0 && list->n_blocks > 0,
                  CHARL_ERR_DATA, "%s: %s does not list the files of %s", p->file->path, list->name, a->name);
    return CHARL_OK;
}

/* Relative paths begin in the folder of the data set or, if that is a link, of its target. A folder that was moved is detected now and not
 * in the middle of a training. */
static charl_status find_folder(charl__pictures *p)
{
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};
    char real[PATH_MAX];
    const char *const sets[] = {p->file->path, realpath(p->file->path, real) ? real : p->file->path};
    bool found = false;
    uint32_t crc;

    for (int i = 0; !found && i < 2; i++) {
        snprintf(p->folder, sizeof p->folder, "%.*s", folder_length(sets[i]), sets[i]);
        CHARL_TRY(find_file(p, 0, &path, &crc));
        found = access(charl__text_string(&path), R_OK) == 0;
    }
    CHARL_REQUIRE(found, CHARL_ERR_DATA,
                  "%s: %s: the files are elsewhere: %s: %s. HINT put the folder back, or import it again",
                  p->file->path, p->rows->name, charl__text_string(&path), strerror(errno));
    return CHARL_OK;
}

charl_status charl__pictures_open(charl__file *f, charl__array *a, charl__pictures **out)
{
    charl_status st = CHARL_OK;
    charl__pictures *p = NULL;
    char name[CHARL__ARRAY_NAME];
    bool found = false;

    *out = NULL;
    if ((size_t)snprintf(name, sizeof name, "/files%s", a->name) < sizeof name) {
        CHARL_TRY_CLEANUP(charl__file_find(f, name, &found));
    }
    if (!found) {
        goto cleanup;
    }
    CHARL_REQUIRE_CLEANUP(reader, CHARL_ERR_CONFIG,
                          "%s: %s is in image files, which libcharl-train reads; HINT link the program with it "
                          "(-Wl,--no-as-needed -lcharl-train), or import the images without --link",
                          f->path, a->name);
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *p, &p));
    *p = (charl__pictures){.file = f, .rows = a, .list = CHARL__ARRAY_CLOSED};
    CHARL_TRY_CLEANUP(charl__array_init(&p->list, f, name, CHARL__ROLE_SAMPLES));
    CHARL_TRY_CLEANUP(judge(p, a));
    CHARL_TRY_CLEANUP(charl__array_verify(f, &p->list));
    CHARL_TRY_CLEANUP(find_folder(p));
    charl__h5_close(&p->list.type);
    charl__h5_close(&p->list.dataset);
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *a->chunks, &a->chunks));
    charl__chunks_of_rows(a->chunks, f->path, a->name, a->rows, &a->item, decode, p);
    *out = p;
    p = NULL;
cleanup:
    charl__pictures_close(p);
    return st;
}

void charl__pictures_close(charl__pictures *p)
{
    if (p) {
        charl__array_fini(&p->list);
        charl_free(p);
    }
}

charl__array *charl__pictures_list(charl__pictures *p)
{
    return &p->list;
}

charl_status charl__pictures_root(const char *path, const char *folder, charl__text *out)
{
    char own[PATH_MAX], its[PATH_MAX];
    const int length = folder_length(path);
    size_t n;

    CHARL_REQUIRE(length < PATH_MAX, CHARL_ERR_CONFIG, "%s: the name is too long", path);
    snprintf(own, sizeof own, "%.*s", length, path);
    CHARL_REQUIRE(realpath(length ? own : ".", its), CHARL_ERR_CONFIG, "%s: its folder cannot be found: %s", path,
                  strerror(errno));
    snprintf(own, sizeof own, "%s", its);
    CHARL_REQUIRE(realpath(folder, its), CHARL_ERR_CONFIG, "%s: cannot be found: %s", folder, strerror(errno));
    n = strlen(own);
    if (strcmp(own, its) == 0) {
        return CHARL_OK;
    }
    return charl__text_printf(out, "%s/", strncmp(own, its, n) == 0 && its[n] == '/' ? its + n + 1 : its);
}

void charl__pictures_record(const char *root, const char *name, const void *pixels, size_t bytes, unsigned char *record)
{
    const uint32_t crc = charl__crc32c(0, pixels, bytes);

    for (int i = 0; i < CHARL__PICTURE_PATH; i++) {
        record[i] = (unsigned char)(crc >> 8 * i);
    }
    memcpy(record + CHARL__PICTURE_PATH, root, strlen(root));
    memcpy(record + CHARL__PICTURE_PATH + strlen(root), name, strlen(name));
}

/* Image files: finds them and converts them to samples. */
#include "charl/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "base/text/text.h"
#include "data/image/image_files.h"
#include "data/image/image_pixels.h"
#include "data/import/import_source.h"
#include "io/dataset/pictures/pictures.h"
#include "io/kind.h"

enum { MAX_FILE_BYTES = 1 << 28, MAX_DEPTH = 64 };

charl_status charl__pixels_create(const char *path, int64_t height, int64_t width, charl__pixels *out)
{
    CHARL_REQUIRE(height > 0 && width > 0 && height <= CHARL__IMAGE_MAX_PIXELS / width, CHARL_ERR_DATA,
                  "%s: %lld x %lld pixels; at most %d are supported", path, (long long)width, (long long)height,
                  CHARL__IMAGE_MAX_PIXELS);
    CHARL_TRY(charl__alloc_array(height * width, 3, &out->rgb));
    out->height = height;
    out->width = width;
    return CHARL_OK;
}

void charl__pixels_fini(charl__pixels *p)
{
    charl_free(p->rgb);
    *p = (charl__pixels){0};
}

static charl_status read_file(const char *path, unsigned char **data, size_t *bytes)
{
    CHARL_SCOPED(charl__source_left) charl__source *s = NULL;
    int64_t n;

    CHARL_TRY(charl__source_open(path, &s));
    n = charl__source_file_bytes(s);
    CHARL_REQUIRE(n <= MAX_FILE_BYTES, CHARL_ERR_DATA, "%s: larger than %d bytes", path, MAX_FILE_BYTES);
    CHARL_TRY(charl__alloc((size_t)n, data));
    CHARL_TRY(charl__source_exact(s, *data, (size_t)n, "the image"));
    *bytes = (size_t)n;
    return CHARL_OK;
}

charl_status charl__pixels_read(const char *path, charl__pixels *out)
{
    static const unsigned char png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const unsigned char jpeg[] = {0xff, 0xd8, 0xff};
    CHARL_SCOPED_FREE unsigned char *data = NULL;
    size_t bytes = 0;

    CHARL_TRY(read_file(path, &data, &bytes));
    if (bytes >= sizeof png && memcmp(data, png, sizeof png) == 0) {
        CHARL_TRY(charl__png_decode(path, data, bytes, out));
    } else {
        if (bytes < sizeof jpeg || memcmp(data, jpeg, sizeof jpeg) != 0) {
            CHARL_TRY(charl__kind_expect(path, CHARL__KIND_IMAGE, "a PNG or JPEG file", CHARL_ERR_DATA));
            CHARL_FAIL(CHARL_ERR_DATA, "%s: neither a PNG nor a JPEG file", path);
        }
        CHARL_TRY(charl__jpeg_decode(path, data, bytes, out));
    }
    return CHARL_OK;
}

charl_status charl_image_read(const char *path, const charl_image_format *format, unsigned char *out)
{
    CHARL_GIVEN(path, format, out);
    CHARL_SCOPED(charl__pixels_fini) charl__pixels pixels = {0};

    CHARL_TRY(charl__pixels_read(path, &pixels));
    CHARL_TRY(charl__pixels_resize(&pixels, format, out));
    return CHARL_OK;
}

charl_status charl__files_append(charl_image_files *f, const char *folder, const char *name)
{
    const size_t bytes = strlen(folder) + strlen(name) + 2;
    const bool slash = folder[0] && folder[strlen(folder) - 1] != '/';

    CHARL_TRY(charl__grow(f->count, sizeof *f->paths, &f->paths));
    CHARL_TRY(charl__alloc(bytes, &f->paths[f->count]));
    snprintf(f->paths[f->count++], bytes, "%s%s%s", folder, slash ? "/" : "", name);
    return CHARL_OK;
}

charl_status charl__folder_list(const char *folder, charl__folder_entries what, charl_image_files *out)
{
    const bool folders = what == CHARL__FOLDER_FOLDERS;
    const int64_t first = out->count;
    const struct dirent *entry;
    CHARL_SCOPED(charl__directory_left) DIR *dir = NULL;

    CHARL_TRY(charl__directory_open(folder, &dir));
    CHARL_REQUIRE(dir, CHARL_ERR_DATA, "%s: cannot be read: %s", folder, strerror(errno));
    while ((entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        const bool foreign = !folders && charl__is_foreign_image_name(name);
        struct stat s;

        if (name[0] == '.' ||
            (!folders && !charl__is_image_name(name) && !(foreign && what == CHARL__FOLDER_ALL_IMAGES))) {
            CHARL_REQUIRE(!foreign, CHARL_ERR_DATA,
                          "%s/%s: only .png, .jpg and .jpeg images are read; HINT convert it or "
                          "move it out of the folder",
                          folder, name);
            continue;
        }
        CHARL_TRY(charl__files_append(out, folder, name));
        if (folders && (stat(out->paths[out->count - 1], &s) != 0 || !S_ISDIR(s.st_mode))) {
            charl_free(out->paths[--out->count]);
        }
    }
    if (out->count > first) {
        qsort(out->paths + first, (size_t)(out->count - first), sizeof *out->paths, charl__by_text);
    }
    return CHARL_OK;
}

static charl_status add_tree(charl_image_files *files, const char *folder, int depth)
{
    CHARL_SCOPED(charl_image_files_fini) charl_image_files below = {0};

    CHARL_REQUIRE(depth < MAX_DEPTH, CHARL_ERR_DATA, "%s: more than %d folders deep (a link to a folder above?)",
                  folder, MAX_DEPTH);
    CHARL_TRY(charl__folder_list(folder, CHARL__FOLDER_ALL_IMAGES, files));
    CHARL_TRY(charl__folder_list(folder, CHARL__FOLDER_FOLDERS, &below));
    for (int64_t i = 0; i < below.count; i++) {
        CHARL_TRY(add_tree(files, below.paths[i], depth + 1));
    }
    return CHARL_OK;
}

/* A file, or the files of a folder, or of the tree below it. */
static charl_status add(charl_image_files *files, const char *path, bool below)
{
    const int64_t before = files->count;
    struct stat s;

    CHARL_REQUIRE(stat(path, &s) == 0, CHARL_ERR_DATA, "%s: cannot be opened: %s", path, strerror(errno));
    if (!S_ISDIR(s.st_mode)) {
        CHARL_TRY(charl__files_append(files, "", path));
        return CHARL_OK;
    }
    CHARL_TRY(below ? add_tree(files, path, 0) : charl__folder_list(path, CHARL__FOLDER_IMAGES, files));
    CHARL_REQUIRE(files->count > before, CHARL_ERR_DATA, "%s: there are no .png, .jpg or .jpeg files in this folder%s",
                  path, below ? " or below it" : "");
    return CHARL_OK;
}

charl_status charl_image_files_add(charl_image_files *files, const char *path)
{
    CHARL_GIVEN(files, path);
    return add(files, path, false);
}

charl_status charl__image_files_add_tree(charl_image_files *files, const char *path)
{
    return add(files, path, true);
}

void charl_image_files_fini(charl_image_files *files)
{
    if (!files) {
        return;
    }
    for (int64_t i = 0; i < files->count; i++) {
        charl_free(files->paths[i]);
    }
    charl_free(files->paths);
    *files = (charl_image_files){0};
}

__attribute__((constructor)) static void register_reader(void)
{
    charl__pictures_set_reader(charl_image_read);
}

const char *charl_image_format_name(int i)
{
    static const char *const names[] = {
#ifdef CHARL_HAVE_PNG
        "png",
#endif
#ifdef CHARL_HAVE_JPEG
        "jpeg",
#endif
        NULL};

    return i >= 0 && i < (int)(sizeof names / sizeof names[0]) ? names[i] : NULL;
}

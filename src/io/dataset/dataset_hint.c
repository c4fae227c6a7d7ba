/* What a user can do with a path that is no dataset. */
#include "io/dataset/dataset_hint.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text/text.h"
#include "io/h5_element.h"
#include "io/image/image_files.h"

enum { HEAD = 8, MAX_ENTRIES = 1000, NAME = 512 };

static bool is_text(const char *name)
{
    return charl__ends_in(name, ".txt") || charl__ends_in(name, ".jsonl") || charl__ends_in(name, ".txt.gz") ||
           charl__ends_in(name, ".jsonl.gz");
}

/* The format of the files in a folder, or in its first folders; NULL: none that is known. */
static const char *format_of_folder(const char *path, int depth)
{
    const char *format = NULL;
    const struct dirent *e;
    DIR *d = opendir(path);

    for (int i = 0; d && !format && i < MAX_ENTRIES && (e = readdir(d)); i++) {
        char inner[NAME];
        struct stat s;

        if (e->d_name[0] == '.') {
            continue;
        }
        if (charl__is_image_name(e->d_name)) {
            format = "images";
        } else if (is_text(e->d_name)) {
            format = "text";
        } else if (charl__ends_in(e->d_name, ".bin")) {
            format = "tokens";
        } else if (depth > 0 && (size_t)snprintf(inner, sizeof inner, "%s/%s", path, e->d_name) < sizeof inner &&
                   stat(inner, &s) == 0 && S_ISDIR(s.st_mode)) {
            format = format_of_folder(inner, depth - 1);
        }
    }
    if (d) {
        closedir(d);
    }
    return format;
}

/* By contents where a format shows itself there, else by name. */
static const char *format_of_file(const char *path)
{
    unsigned char head[HEAD] = {0};
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(head, 1, sizeof head, f) : 0;

    if (f) {
        fclose(f);
    }
    if (n >= 6 && memcmp(head, "\x93NUMPY", 6) == 0) {
        return "npy";
    }
    if ((n >= 4 && memcmp(head, "\0\0\x08", 3) == 0 && (head[3] == 1 || head[3] == 3)) || strstr(path, "-ubyte")) {
        return "idx";
    }
    if (charl__ends_in(path, ".csv") || charl__ends_in(path, ".csv.gz") || charl__ends_in(path, ".tsv")) {
        return "csv";
    }
    if (is_text(path)) {
        return "text";
    }
    return charl__ends_in(path, ".bin") ? "tokens" : charl__is_image_name(path) ? "images" : NULL;
}

const char *charl__dataset_hint_import(const char *path, char text[CHARL__DATASET_HINT])
{
    struct stat s;
    const bool is_folder = stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    const char *format = is_folder ? format_of_folder(path, 1) : format_of_file(path);
    const char *slash, *dot;
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    for (slash = path + length; slash > path && slash[-1] != '/'; slash--) {
    }
    dot = memchr(slash, '.', (size_t)(path + length - slash));
    if (!format) {
        snprintf(text, CHARL__DATASET_HINT,
                 is_folder ? "" : "; HINT `charl data import --help` lists the formats that charl converts");
    } else if (strcmp(format, "npy") == 0) {
        snprintf(text, CHARL__DATASET_HINT, "; HINT convert it: `charl data import npy X.npy Y.npy -o data.h5`");
    } else if (strcmp(format, "idx") == 0) {
        snprintf(text, CHARL__DATASET_HINT, "; HINT convert it: `charl data import idx IMAGES LABELS -o data.h5`");
    } else if (strcmp(format, "images") == 0 && !is_folder) {
        snprintf(text, CHARL__DATASET_HINT,
                 "; HINT convert a folder of images: `charl data import images FOLDER --size 64x64 -o data.h5`");
    } else {
        const int stem = (int)((dot > slash ? dot : path + length) - slash);

        snprintf(text, CHARL__DATASET_HINT, "; HINT convert it: `charl data import %s %.*s%s -o %.*s.h5`", format,
                 (int)length, path, strcmp(format, "images") == 0 ? " --size 64x64" : "", stem, slash);
    }
    return text;
}

/* The arrays of numbers that a file has, of which the first few are named. */
typedef struct arrays {
    char text[CHARL__DATASET_HINT];
    char last[NAME]; /* component of the first one's path */
    int n, in_groups;
} arrays;

/* Append "/images u8 [60000, 784]". */
static herr_t add_array(hid_t root, const char *name, const H5O_info_t *info, void *ctx)
{
    enum { SHOWN = 4, ROOM = 160 };
    arrays *all = ctx;
    char kind[CHARL__ELEMENT_TEXT], one[2 * CHARL__DATASET_HINT]; /* room for any name and rank */
    hsize_t dims[H5S_MAX_RANK];
    charl__element element;
    hid_t d, type, space;
    size_t used = strlen(all->text);
    int rank;

    if (info->type != H5O_TYPE_DATASET || (d = H5Dopen2(root, name, H5P_DEFAULT)) < 0) {
        return 0;
    }
    type = H5Dget_type(d);
    space = H5Dget_space(d);
    rank = H5Sget_simple_extent_dims(space, dims, NULL);
    if (charl__element_of(type, &element, kind) && rank > 0) {
        const char *slash = strrchr(name, '/');
        int at = snprintf(one, sizeof one, "/%.*s %s [", NAME, name, charl__element_name(&element, kind));

        for (int i = 0; i < rank; i++) {
            at += snprintf(one + at, sizeof one - (size_t)at, "%s%llu", i > 0 ? ", " : "", (unsigned long long)dims[i]);
        }
        snprintf(one + at, sizeof one - (size_t)at, "]");
        if (all->n == 0) {
            snprintf(all->last, sizeof all->last, "%s", slash ? slash + 1 : name);
        }
        if (all->n < SHOWN && used + strlen(one) + ROOM < sizeof all->text) {
            memcpy(all->text + used, ", ", 2);
            used += used > 0 ? 2 : 0;
            memcpy(all->text + used, one, strlen(one) + 1);
        } else if (!strstr(all->text, " and more")) {
            snprintf(all->text + used, sizeof all->text - used, " and more");
        }
        all->n++;
        all->in_groups += slash != NULL;
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(d);
    return 0;
}

const char *charl__dataset_hint_arrays(hid_t file, char text[CHARL__DATASET_HINT])
{
    arrays all = {.n = 0};
    int at;

    H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, add_array, &all, H5O_INFO_BASIC);
    if (all.n == 0) {
        snprintf(text, CHARL__DATASET_HINT, "; it has no arrays of numbers");
        return text;
    }
    at = snprintf(text, CHARL__DATASET_HINT, "; HINT it has %s: name samples and targets with data.x and data.y",
                  all.text);
    if (all.in_groups > 2 && at < CHARL__DATASET_HINT) {
        snprintf(text + at, CHARL__DATASET_HINT - (size_t)at,
                 ", or import them with targets that are attributes: --x '/*/%.64s' --y @NAME", all.last);
    }
    return text;
}

/* Folders of images to a dataset. First collects every name and label, so that mistakes are found before the long
 * part and classes can be numbered by name; then converts one image at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/commit.h"
#include "io/dataset/pictures/pictures.h"
#include "io/dataset/text_labels.h"
#include "data/image/image_files.h"
#include "data/image/image_pixels.h"
#include "data/table/table.h"
#include "data/import/import_rows.h"
#include "data/import/importer.h"
#include "io/kind.h"

/* The images of one folder: paths, and for each its label, a number or a name. */
typedef struct collection {
    const char *folder;
    bool listed; /* labels.csv lists the images */
    charl_image_files images;
    charl_image_files labels; /* texts */
    int32_t *label;           /* [images.count] */
    charl__text root;         /* prefix of the folder in the records of the files, if the data set refers to them */
} collection;

/* A file name in labels.csv: inside the folder, and of an image. */
static charl_status check_listed_name(const collection *c, const char *name, int64_t line)
{
    const bool climbs =
        strcmp(name, "..") == 0 || strncmp(name, "../", 3) == 0 || strstr(name, "/../") || name[0] == '/';

    CHARL_REQUIRE(!climbs, CHARL_ERR_DATA, "%s/labels.csv:%lld: %.200s is outside the folder", c->folder,
                  (long long)line, name);
    CHARL_REQUIRE(charl__is_image_name(name), CHARL_ERR_DATA,
                  "%s/labels.csv:%lld: \"%.200s\" is not a .png, .jpg or .jpeg file", c->folder, (long long)line, name);
    return CHARL_OK;
}

/* Whether the first field of a list is a header: it is not the name of a file, here or of an image of any format. */
static charl_status is_heading(const collection *c, const char *field, bool *heading)
{
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};
    struct stat s;

    CHARL_TRY(charl__text_printf(&path, "%s/%s", c->folder, field));
    *heading = !charl__is_image_name(field) && !charl__is_foreign_image_name(field) &&
               stat(charl__text_string(&path), &s) != 0;
    return CHARL_OK;
}

typedef struct listing {
    const char *path, *label;
} listing;

static int by_path(const void *a, const void *b)
{
    const listing *x = a, *y = b;
    const int order = strcmp(x->path, y->path);

    return order ? order : strcmp(x->label, y->label);
}

/* A file may be listed several times with the same label. */
static charl_status check_contradictions(const collection *c)
{
    CHARL_SCOPED_FREE listing *sorted = NULL;

    CHARL_TRY(charl__alloc_array(c->images.count, sizeof *sorted, &sorted));
    for (int64_t i = 0; i < c->images.count; i++) {
        sorted[i] = (listing){c->images.paths[i], c->labels.paths[i]};
    }
    qsort(sorted, (size_t)c->images.count, sizeof *sorted, by_path);
    for (int64_t i = 1; i < c->images.count; i++) {
        CHARL_REQUIRE(strcmp(sorted[i - 1].path, sorted[i].path) != 0 ||
                          strcmp(sorted[i - 1].label, sorted[i].label) == 0,
                      CHARL_ERR_DATA, "%s/labels.csv: %s has two labels: \"%.100s\" and \"%.100s\"", c->folder,
                      sorted[i].path, sorted[i - 1].label, sorted[i].label);
    }
    return CHARL_OK;
}

static charl_status read_list(collection *c, charl__csv *csv)
{
    bool heading = false;
    int n;

    CHARL_TRY(charl__csv_next(csv, &n));
    if (n == 2) {
        CHARL_TRY(is_heading(c, charl__csv_field(csv, 0), &heading));
    }
    if (heading) {
        CHARL_TRY(charl__csv_next(csv, &n));
    }
    while (n > 0) {
        const long long line = (long long)charl__csv_line(csv);

        CHARL_REQUIRE(n == 2, CHARL_ERR_DATA, "%s/labels.csv:%lld: %d fields; a file name and a label were expected",
                      c->folder, line, n);
        CHARL_TRY(check_listed_name(c, charl__csv_field(csv, 0), line));
        CHARL_REQUIRE(charl__csv_field(csv, 1)[0], CHARL_ERR_DATA, "%s/labels.csv:%lld: the label is missing",
                      c->folder, line);
        CHARL_TRY(charl__files_append(&c->images, c->folder, charl__csv_field(csv, 0)));
        CHARL_TRY(charl__files_append(&c->labels, "", charl__csv_field(csv, 1)));
        CHARL_TRY(charl__csv_next(csv, &n));
    }
    CHARL_REQUIRE(c->images.count > 0, CHARL_ERR_DATA, "%s/labels.csv: there are no images in it", c->folder);
    return check_contradictions(c);
}

static charl_status collect_list(collection *c, const char *path)
{
    CHARL_SCOPED(charl__source_left) charl__source *source = NULL;
    CHARL_SCOPED(charl__csv_left) charl__csv *csv = NULL;

    CHARL_TRY(charl__source_open(path, &source));
    CHARL_TRY(charl__csv_create(source, ',', &csv));
    CHARL_TRY(read_list(c, csv));
    return CHARL_OK;
}

/* A class: the images of a folder. */
static charl_status collect_class(collection *c, const char *folder)
{
    const int64_t before = c->images.count;

    CHARL_TRY(charl__folder_list(folder, CHARL__FOLDER_ALL_IMAGES, &c->images));
    CHARL_REQUIRE(c->images.count > before, CHARL_ERR_DATA, "%s: there are no .png, .jpg or .jpeg files in this folder",
                  folder);
    while (c->labels.count < c->images.count) {
        CHARL_TRY(charl__files_append(&c->labels, "", charl__base_name(folder)));
    }
    return CHARL_OK;
}

static charl_status collect_classes(collection *c)
{
    CHARL_SCOPED(charl_image_files_fini) charl_image_files folders = {0};

    CHARL_TRY(charl__folder_list(c->folder, CHARL__FOLDER_FOLDERS, &folders));
    CHARL_REQUIRE(folders.count > 0, CHARL_ERR_DATA,
                  "%s: neither a labels.csv (file name and label on each line) nor sub-folders, one "
                  "for each class",
                  c->folder);
    for (int64_t i = 0; i < folders.count; i++) {
        CHARL_TRY(collect_class(c, folders.paths[i]));
    }
    return CHARL_OK;
}

/* The images of the folder and their labels, except `out`, the file to be written. */
static charl_status collect(collection *c, const char *out)
{
    CHARL_SCOPED(charl__text_fini) charl__text list = {0};
    struct stat s;

    CHARL_REQUIRE(stat(c->folder, &s) == 0, CHARL_ERR_DATA, "%s: cannot be opened: %s", c->folder, strerror(errno));
    CHARL_REQUIRE(S_ISDIR(s.st_mode), CHARL_ERR_DATA, "%s: not a folder", c->folder);
    CHARL_TRY(charl__text_printf(&list, "%s/labels.csv", c->folder));
    c->listed = stat(charl__text_string(&list), &s) == 0;
    if (c->listed) {
        CHARL_TRY(charl__commit_check_inputs(out, (const char *const[]){charl__text_string(&list)}, 1));
        CHARL_TRY(collect_list(c, charl__text_string(&list)));
    } else {
        CHARL_TRY(collect_classes(c));
    }
    CHARL_TRY(charl__commit_check_inputs(out, (const char *const *)c->images.paths, c->images.count));
    CHARL_TRY(charl__alloc_array(c->images.count, sizeof *c->label, &c->label));
    return CHARL_OK;
}

static void collection_fini(collection *c)
{
    charl_image_files_fini(&c->images);
    charl_image_files_fini(&c->labels);
    charl_free(c->label);
    charl__text_fini(&c->root);
}

/* The classes of the training images. Only a list can have class numbers; names of folders are names. */
static charl_status find_classes(collection *c, charl__text_labels *labels, charl__text *names)
{
    labels->may_be_ids = c->listed;
    for (int64_t i = 0; i < c->labels.count; i++) {
        CHARL_TRY(charl__error_in(charl__text_labels_add(labels, c->labels.paths[i]), CHARL_ERR_DATA,
                                  "%s: ", c->images.paths[i]));
    }
    return charl__text_labels_decide(labels, names);
}

static charl_status number_labels(collection *c, const charl__text_labels *labels)
{
    for (int64_t i = 0; i < c->labels.count; i++) {
        c->label[i] = charl__text_labels_find(labels, c->labels.paths[i]);
        CHARL_REQUIRE(c->label[i] >= 0, CHARL_ERR_DATA,
                      "%s: class \"%.100s\" is not among those of the training images", c->images.paths[i],
                      c->labels.paths[i]);
    }
    return CHARL_OK;
}

/* Keep the images at `index`, in that order. */
static charl_status select_images(collection *c, const int64_t *index, int64_t n)
{
    CHARL_SCOPED_FREE int32_t *label = NULL;
    CHARL_SCOPED(charl_image_files_fini) charl_image_files kept = {0};

    CHARL_TRY(charl__alloc_array(n, sizeof *label, &label));
    CHARL_TRY(charl__alloc_array(n, sizeof *kept.paths, &kept.paths));
    for (; kept.count < n; kept.count++) {
        kept.paths[kept.count] = c->images.paths[index[kept.count]];
        c->images.paths[index[kept.count]] = NULL;
        label[kept.count] = c->label[index[kept.count]];
    }
    charl_image_files_fini(&c->images);
    charl_free(c->label);
    c->images = kept;
    c->label = label;
    label = NULL;
    kept = (charl_image_files){0};
    return CHARL_OK;
}

/* A fixed random permutation. */
static charl_status shuffle(collection *c)
{
    CHARL_SCOPED_FREE int64_t *index = NULL;

    CHARL_TRY(charl__alloc_array(c->images.count, sizeof *index, &index));
    for (int64_t i = 0; i < c->images.count; i++) {
        index[i] = charl_order_row(0, c->images.count, true, i);
    }
    CHARL_TRY(select_images(c, index, c->images.count));
    return CHARL_OK;
}

static charl__rows_options source_of(const collection *c, const charl_data_schema *schema)
{
    return (charl__rows_options){.schema = schema,
                                 .imports = true,
                                 .model = "a dataset",
                                 .paths = (const char *const *)c->images.paths,
                                 .n_paths = c->images.count};
}

/* Count images that can be read. */
typedef struct readable {
    int64_t *index;
    int64_t n;
} readable;

static charl_status note_readable(void *ctx, const charl__rows *rows, const void *x, const void *y, int64_t n)
{
    readable *r = ctx;

    (void)x, (void)y;
    for (int64_t i = 0; i < n; i++) {
        r->index[r->n++] = charl__rows_file(rows, i);
    }
    return CHARL_OK;
}

/* Remove images that cannot be read. */
static charl_status drop_bad(collection *c, const charl_data_schema *schema, const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const charl__rows_options source = source_of(c, schema);
    charl__import_count count;
    readable good = {0};

    CHARL_TRY_CLEANUP(charl__alloc_array(c->images.count, sizeof *good.index, &good.index));
    CHARL_TRY_CLEANUP(charl__import_pass(&source, opt, note_readable, &good, &count));
    CHARL_REQUIRE_CLEANUP(good.n > 0, CHARL_ERR_DATA, "%s: none of the images can be read; the first: %s", c->folder,
                          count.first);
    CHARL_TRY_CLEANUP(select_images(c, good.index, good.n));
    if (count.skipped > 0) {
        charl__import_note(opt,
                           count.skipped == 1 ? "%lld unreadable image was skipped, %lld remain%s"
                                              : "%lld unreadable images were skipped, %lld remain%s",
                           (long long)count.skipped, (long long)good.n, good.n == 1 ? "s" : "");
    }
cleanup:
    charl_free(good.index);
    return st;
}

/* Records of the samples' files, in order: a data set refers to them, or only names them. */
typedef struct links {
    const collection *c; /* [2] */
    unsigned char *records;
    int64_t width, n;
} links;

static const char *name_in(const collection *c, int64_t i)
{
    const char *name = c->images.paths[i] + strlen(c->folder);

    return name + (name[0] == '/');
}

static charl_status links_init(links *l, collection *c, const char *out)
{
    size_t longest = 0;
    int64_t n = 0;

    l->c = c;
    for (int k = 0; k < 2 && c[k].folder; k++) {
        CHARL_TRY(charl__pictures_root(out, c[k].folder, &c[k].root));
        for (int64_t i = 0; i < c[k].images.count; i++) {
            const size_t bytes = c[k].root.length + strlen(name_in(&c[k], i));

            longest = bytes > longest ? bytes : longest;
        }
        n += c[k].images.count;
    }
    l->width = CHARL__PICTURE_PATH + (int64_t)longest + 1;
    CHARL_TRY(charl__alloc_array(n, (size_t)l->width, &l->records));
    return CHARL_OK;
}

static charl_status add_links(void *ctx, int source, const charl__rows *rows, const void *x, int64_t n)
{
    links *l = ctx;
    const collection *c = &l->c[source];
    const size_t bytes = (size_t)charl_shape_count(&rows->s->x_shape);

    for (int64_t i = 0; i < n; i++) {
        charl__pictures_record(charl__text_string(&c->root), name_in(c, charl__rows_file(rows, i)),
                               (const unsigned char *)x + (size_t)i * bytes, bytes, l->records + l->n++ * l->width);
    }
    return CHARL_OK;
}

static charl_status write_links(void *ctx, charl__writer *w)
{
    const links *l = ctx;

    return charl__writer_files(w, l->records, l->width);
}

typedef struct images_settings {
    int64_t size[2]; /* height, width */
    int channels;    /* 0: 1, 1: 3 */
    int fit;         /* charl_image_fit */
    bool skip_bad, link;
} images_settings;

static charl_status run_images(const void *settings, const char *const *files, int n, const char *out,
                               const charl_import_options *opt)
{
    const images_settings *o = settings;
    charl_status st = CHARL_OK;
    collection c[2] = {{.folder = files[0]}, {.folder = n == 2 ? files[1] : NULL}};
    charl__text_labels labels = {0};
    charl__text names = {0}, fit = {0};
    links l = {0};
    charl_data_schema schema = charl__import_schema(CHARL_DATASET_IMAGES);
    charl__import_plan plan = {
        .schema = &schema, .linked = o->link, .written = add_links, .end = write_links, .ctx = &l};
    int32_t *label = NULL;

    schema.x_dtype = CHARL_U8;
    schema.x_shape = (charl_shape){3, {o->channels ? 3 : 1, o->size[0], o->size[1]}};
    schema.y_dtype = CHARL_I32;
    CHARL_TRY_CLEANUP(charl__text_printf(&fit, "%s", charl_image_fit_name((charl_image_fit)o->fit)));
    schema.fit = fit.data;
    for (int k = 0; k < n; k++) {
        CHARL_TRY_CLEANUP(collect(&c[k], out));
        if (k == 0) {
            CHARL_TRY_CLEANUP(find_classes(&c[0], &labels, &names));
        }
        CHARL_TRY_CLEANUP(number_labels(&c[k], &labels));
    }
    schema.class_names = names.length > 0 ? names.data : schema.class_names;
    for (int k = 0; k < n; k++) {
        if (o->skip_bad) {
            CHARL_TRY_CLEANUP(drop_bad(&c[k], &schema, opt));
        }
        CHARL_TRY_CLEANUP(shuffle(&c[k]));
        plan.source[k] = source_of(&c[k], &schema);
        plan.rows[k] = c[k].images.count;
    }
    plan.classes = labels.are_ids ? 0 : labels.set.n;
    CHARL_TRY_CLEANUP(charl__alloc_array(plan.rows[0] + plan.rows[1], sizeof *label, &label));
    for (int64_t i = 0; i < plan.rows[0] + plan.rows[1]; i++) {
        label[i] = i < plan.rows[0] ? c[0].label[i] : c[1].label[i - plan.rows[0]];
    }
    plan.labels = label;
    CHARL_TRY_CLEANUP(links_init(&l, c, out));
    CHARL_TRY_CLEANUP(charl__import_rows(&plan, out, opt));
cleanup:
    charl_free(label);
    charl_free(l.records);
    charl__text_labels_fini(&labels);
    charl__text_fini(&names);
    charl__text_fini(&fit);
    collection_fini(&c[0]);
    collection_fini(&c[1]);
    return st;
}

/* The size of the images, if it is small and all that are looked at have it; else the size of launch/photos.ini. Gray images have one channel. */
static charl_status suggest_images(const char *path, const charl_suggest_options *opt, char **out)
{
    enum { LOOKED_AT = 16, LEAST = 8, MOST = 64 };
    CHARL_SCOPED(collection_fini) collection c = {.folder = path};
    CHARL_SCOPED(charl__text_fini) charl__text settings = {0};
    int64_t height = 0, width = 0;
    bool small = true, gray = true;

    CHARL_TRY(collect(&c, NULL));
    for (int64_t k = 0; k < LOOKED_AT && k < c.images.count; k++) {
        CHARL_SCOPED(charl__pixels_fini) charl__pixels p = {0};
        const int64_t i = c.images.count < LOOKED_AT ? k : k * (c.images.count / LOOKED_AT);
        const charl_status st = charl__pixels_read(c.images.paths[i], &p);

        if (st == CHARL_ERR_DATA) { /* the import lists all files that cannot be read */
            charl_error_clear();
            continue;
        }
        CHARL_TRY(st);
        small = small && (height == 0 || (height == p.height && width == p.width));
        height = p.height;
        width = p.width;
        for (int64_t at = 0; gray && at < 3 * height * width; at += 3) {
            gray = p.rgb[at] == p.rgb[at + 1] && p.rgb[at] == p.rgb[at + 2];
        }
    }
    small = small && height >= LEAST && width >= LEAST && height <= MOST && width <= MOST;
    height = small ? height : MOST;
    width = small ? width : MOST;
    charl__suggest_note(opt, "images become %lldx%lld pixels%s", (long long)height, (long long)width,
                        gray ? ", gray" : "");
    CHARL_TRY(charl__text_printf(&settings, "size=%lldx%lld%s", (long long)height, (long long)width,
                                 gray ? "\nchannels=1" : ""));
    *out = charl__text_steal(&settings);
    return CHARL_OK;
}

static const charl_key keys[] = {
    {"size", CHARL_KEY_PAIR, offsetof(images_settings, size), "[1,4096]", true,
     "height and width of every sample, as in 32x48; one number for a square (required)", NULL},
    {"channels", CHARL_KEY_CHOICE, offsetof(images_settings, channels), NULL, false,
     "1 for grayscale, 3 for RGB (default 3)", "1|3"},
    {"fit", CHARL_KEY_CHOICE, offsetof(images_settings, fit), NULL, false,
     "how to handle another aspect ratio: crop (center crop, default), stretch or pad", "crop|stretch|pad"},
    {"skip_bad", CHARL_KEY_BOOL, offsetof(images_settings, skip_bad), NULL, false,
     "leave out files that cannot be read; otherwise they are listed and nothing is imported", NULL},
    {"link", CHARL_KEY_BOOL, offsetof(images_settings, link), NULL, false,
     "leave the pixels in the files, which are then decoded whenever they are read", NULL},
};
static const images_settings defaults = {.channels = 1};

const charl_importer charl__importer_images = {
    .row.name = "images",
    .row.help = "PNG and JPEG files, a folder per class or labels in FOLDER/labels.csv",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .files = "FOLDER [FOLDER]",
    .group = 1,
    .most = 2,
    .note = "The second folder becomes the validation set, with --val-split the test set.",
    .run = run_images,
    .suggest = suggest_images,
};

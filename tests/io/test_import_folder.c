/* Folders of images: classes, lists, order, splits, and what is refused. */
#include "io/imports.h"
#include "io/import_sample.h"

#include <hdf5.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "charl/image.h"
#include "io/image_sample.h"

static const charl_image_format tiny = {1, 2, 2, CHARL_FIT_STRETCH};

static const char *make_folder(const char *name)
{
    const char *path = charl_test_path(dir, name);

    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

/* A 2 x 2 picture of one gray level. */
static void put_level(const char *name, int level)
{
    unsigned char rgb[12];

    memset(rgb, level, sizeof rgb);
    put_rgb_png(charl_test_path(dir, name), 2, 2, rgb);
}

static void put_text(const char *name, const char *text)
{
    put_file(charl_test_path(dir, name), text, strlen(text));
}

static charl_status import(const char *folder, const char *second)
{
    const char *folders[2] = {charl_test_path(dir, folder), second ? charl_test_path(dir, second) : NULL};

    return import_images(folders, &tiny, NULL, out, &replace);
}

/* Levels 100 k .. 100 k + n - 1 in class k of a folder. */
static void make_classes(const char *folder, int n)
{
    static const char *const names[] = {"ant", "bee"};
    char name[64];

    make_folder(folder);
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "%s/%s", folder, names[k]);
        make_folder(name);
        for (int i = 0; i < n; i++) {
            snprintf(name, sizeof name, "%s/%s/%02d.png", folder, names[k], i);
            put_level(name, 100 * k + i);
        }
    }
}

/* What /files/SPLIT/x says of a row: 4 bytes of a checksum, then the path. */
static char *file_of(const char *path, charl_split split, int64_t row)
{
    const hid_t h5 = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    char name[32], *records, *file;
    hsize_t dims[2];
    hid_t set, space;

    snprintf(name, sizeof name, "/files/%s/x", charl_split_name(split));
    set = H5Dopen2(h5, name, H5P_DEFAULT);
    space = H5Dget_space(set);
    assert_int_equal(H5Sget_simple_extent_dims(space, dims, NULL), 2);
    assert_true(row < (int64_t)dims[0] && dims[1] > 4);
    records = calloc(dims[0], dims[1]);
    file = calloc(1, dims[1]);
    assert_true(records && file);
    assert_true(H5Dread(set, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, records) >= 0);
    memcpy(file, records + (hsize_t)row * dims[1] + 4, dims[1] - 4);
    free(records);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(h5);
    return file;
}

/* The name of the file of a sample is kept: CLASS/LEVEL.png, or level-LEVEL.png. */
static void check_file(const char *path, charl_split split, int64_t row, int level)
{
    char want[32], *file = file_of(path, split, row);

    snprintf(want, sizeof want, "%s/%02d.png", level < 100 ? "ant" : "bee", level % 100);
    if (strchr(file, '/') && (strstr(file, "ant/") || strstr(file, "bee/"))) {
        assert_non_null(strstr(file, want));
    }
    free(file);
}

/* Every sample's label is its hundreds; returns the sum of levels. */
static int check_samples(charl_dataset *ds, const char *path, charl_split split, int64_t n)
{
    int sum = 0;

    for (int64_t i = 0; i < n; i++) {
        unsigned char x[4];
        int32_t y;

        charl_assert_ok(charl_dataset_read(ds, split, &i, 1, x, &y));
        assert_int_equal(y, x[0] / 100);
        assert_int_equal(x[0], x[3]);
        sum += x[0];
        check_file(path, split, i, x[0]);
    }
    return sum;
}

static void sub_folders_are_classes(void **state)
{
    const char *folder[2];
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    int32_t y[8];
    const int64_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7};
    int bees = 0;

    (void)state;
    make_classes("set", 20);
    make_classes("more", 3);
    put_text("set/README.txt", "not a class");
    folder[0] = charl_test_path(dir, "set");
    folder[1] = charl_test_path(dir, "more");
    charl_assert_ok(
        import_images(folder, &tiny, NULL, out,
                      &(charl_import_options){sizeof(charl_import_options), .overwrite = true, .val_split = 0.2}));
    charl_assert_ok(charl_dataset_open(out, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.kind, CHARL_DATASET_IMAGES);
    assert_string_equal(info.class_names, "ant\nbee");
    assert_string_equal(info.fit, "stretch");
    assert_int_equal(info.classes, 2);
    assert_int_equal(info.rows[0], 32);
    assert_int_equal(info.rows[1], 8);
    assert_int_equal(info.rows[2], 6);
    assert_int_equal(info.x_shape.dim[0], 1);
    assert_int_equal(check_samples(ds, out, CHARL_SPLIT_TRAIN, 32) + check_samples(ds, out, CHARL_SPLIT_VAL, 8),
                     2 * 190 + 2000);
    assert_int_equal(check_samples(ds, out, CHARL_SPLIT_TEST, 6), 306);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_VAL, rows, 8, NULL, y));
    for (int i = 0; i < 8; i++) {
        bees += y[i];
    }
    assert_in_range(bees, 1, 7); /* both classes are in both splits */
    charl_dataset_close(ds);
}

static void a_list_gives_labels(void **state)
{
    charl_dataset *ds = NULL;
    charl_dataset_info info;

    (void)state;
    make_folder("flat");
    put_level("flat/x.png", 0);
    put_level("flat/y.png", 100);
    put_level("flat/unused.png", 9);
    put_text("flat/labels.csv", "file,label\ny.png,wasp\nx.png,\"fly, small\"\n");
    charl_assert_ok(import("flat", NULL));
    charl_assert_ok(charl_dataset_open(out, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    assert_string_equal(info.class_names, "fly, small\nwasp");
    assert_int_equal(info.rows[0], 2);
    check_samples(ds, out, CHARL_SPLIT_TRAIN, 2);
    charl_dataset_close(ds);
    put_text("flat/labels.csv", "y.png,1\nx.png,0\nx.png,0\n"); /* no header; numbers */
    charl_assert_ok(import("flat", NULL));
    charl_assert_ok(charl_dataset_open(out, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    assert_string_equal(info.class_names, "");
    assert_int_equal(info.classes, 2);
    assert_int_equal(info.rows[0], 3);
    check_samples(ds, out, CHARL_SPLIT_TRAIN, 3);
    charl_dataset_close(ds);
    put_text("flat/labels.csv", "y.png,1\nx.png,01\n"); /* names, since 01 is not how the number 1 is written */
    charl_assert_ok(import("flat", NULL));
    charl_assert_ok(charl_dataset_open(out, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    assert_string_equal(info.class_names, "01\n1");
    check_samples(ds, out, CHARL_SPLIT_TRAIN, 2);
    charl_dataset_close(ds);
}

static void bad_lists_are_refused(void **state)
{
    static const char *const bad[][2] = {
        {"x.png,1\nx.png\n", "list/labels.csv:2: 1 fields; a file name and a label were expected"},
        {"f,l\nx.png,\n", "list/labels.csv:2: the label is missing"},
        {"x.png,1\n../x.png,1\n", "list/labels.csv:2: ../x.png is outside the folder"},
        {"x.png,1\n/x.png,1\n", "list/labels.csv:2: /x.png is outside the folder"},
        {"x.png,1\na/../../x.png,1\n", "list/labels.csv:2: a/../../x.png is outside the folder"},
        {"x.png,1\nx.txt,1\n", "list/labels.csv:2: \"x.txt\" is not a .png, .jpg or .jpeg file"},
        {"file,label\n", "list/labels.csv: there are no images in it"},
        {"z.bmp,cat\nx.png,dog\n", "list/labels.csv:1: \"z.bmp\" is not a .png, .jpg or .jpeg file"},
        {"scan,cat\nx.png,dog\n", "list/labels.csv:1: \"scan\" is not a .png, .jpg or .jpeg file"},
        {"x.png,dog\ny.png,dog\nx.png,cat\n", "list/x.png has two labels: \"cat\" and \"dog\""},
        {"gone.png,1\n", "list/gone.png: cannot be opened"},
        {"x.png,\"a\nb\"\n", "x.png: a class name with a line end"},
        {"x.png,caf\xe9\n", "x.png: a class name that is not UTF-8"},
    };

    (void)state;
    make_folder("list");
    put_level("list/x.png", 0);
    put_text("list/scan", "a file of the folder");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_text("list/labels.csv", bad[i][0]);
        charl_assert_status(import("list", NULL), CHARL_ERR_DATA);
        charl_assert_message(bad[i][1]);
    }
}

static void bad_folders_are_refused(void **state)
{
    (void)state;
    charl_assert_status(import("nowhere", NULL), CHARL_ERR_DATA);
    charl_assert_message("nowhere: cannot be opened");
    put_text("file", "x");
    charl_assert_status(import("file", NULL), CHARL_ERR_DATA);
    charl_assert_message("file: not a folder");
    make_folder("bare");
    charl_assert_status(import("bare", NULL), CHARL_ERR_DATA);
    charl_assert_message("bare: neither a labels.csv");
    make_folder("bare/void");
    charl_assert_status(import("bare", NULL), CHARL_ERR_DATA);
    charl_assert_message("bare/void: there are no .png, .jpg or .jpeg files");
    put_text("bare/void/a.png", "not a picture");
    charl_assert_status(import("bare", NULL), CHARL_ERR_DATA);
    charl_assert_message("bare/void/a.png is a text, not a PNG or JPEG file");
    put_level("bare/void/a.png", 1);
    charl_assert_status(import("set", "bare"), CHARL_ERR_DATA);
    charl_assert_message("a.png: class \"void\" is not among those of the training images");
}

static void keep_note(void *ctx, const char *text)
{
    char(*notes)[160] = ctx;
    int n = 0;

    while (notes[n][0]) {
        n++;
    }
    assert_in_range(n, 0, 30);
    snprintf(notes[n], sizeof notes[n], "%s", text);
}

/* All bad files of a folder are noted at once, or left out where that is wanted. */
static void bad_files_are_counted_or_left_out(void **state)
{
    const char *folders[2] = {NULL};
    char name[32], notes[32][160] = {""};
    charl_import_options o = {sizeof o, .overwrite = true, .noted = keep_note, .ctx = notes};
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    int n = 0;

    (void)state;
    make_classes("mixed", 30);
    for (int i = 0; i < 23; i++) {
        snprintf(name, sizeof name, "mixed/bee/%02d.png", i);
        put_text(name, "not a picture");
    }
    folders[0] = charl_test_path(dir, "mixed");
    charl_assert_status(import_images(folders, &tiny, NULL, out, &o), CHARL_ERR_DATA);
    charl_assert_message("23 of 60 images cannot be read (--skip-bad skips them); the first: ");
    charl_assert_message(".png is a text, not a PNG or JPEG file");
    while (notes[n][0]) {
        assert_non_null(strstr(notes[n++], "not a PNG or JPEG file"));
    }
    assert_int_equal(n, 20);
    memset(notes, 0, sizeof notes);
    put_text("mixed/ant/a.webp", "another kind");
    put_text("mixed/ant/b.gif", "another kind");
    charl_assert_status(import_images(folders, &tiny, NULL, out, &o), CHARL_ERR_DATA);
    charl_assert_message("25 of 62 images cannot be read"); /* all at once, whatever they are */
    memset(notes, 0, sizeof notes);
    charl_assert_ok(import_images(folders, &tiny, "skip_bad=yes", out, &o));
    assert_string_equal(notes[20], "25 unreadable images were skipped, 37 remain");
    charl_assert_ok(charl_dataset_open(out, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.rows[0], 37);
    assert_int_equal(check_samples(ds, out, CHARL_SPLIT_TRAIN, 37), 29 * 30 / 2 + 7 * 126);
    charl_dataset_close(ds);
    make_classes("worse", 1);
    put_text("worse/ant/00.png", "no");
    put_text("worse/bee/00.png", "no");
    folders[0] = charl_test_path(dir, "worse");
    charl_assert_status(import_images(folders, &tiny, "skip_bad=yes", out, &o), CHARL_ERR_DATA);
    charl_assert_message("worse: none of the images can be read");
    /* those of the second folder too, and in it only */
    make_classes("second", 2);
    put_text("second/ant/00.png", "no");
    memset(notes, 0, sizeof notes);
    folders[0] = charl_test_path(dir, "worse");
    folders[1] = charl_test_path(dir, "second");
    charl_assert_status(import_images(folders, &tiny, NULL, out, &o), CHARL_ERR_DATA);
    charl_assert_message("2 of 2 images cannot be read");
    assert_non_null(strstr(notes[2], "second/ant/00.png"));
    put_level("worse/ant/00.png", 0);
    put_level("worse/bee/00.png", 100);
    folders[0] = charl_test_path(dir, "worse");
    folders[1] = charl_test_path(dir, "second");
    charl_assert_status(import_images(folders, &tiny, NULL, out, &o), CHARL_ERR_DATA);
    charl_assert_message("1 of 4 images cannot be read");
    put_text("worse/bee/a.gif", "another kind");
    put_text("second/bee/b.gif", "another kind");
    memset(notes, 0, sizeof notes);
    folders[0] = charl_test_path(dir, "worse");
    folders[1] = charl_test_path(dir, "second");
    charl_assert_status(import_images(folders, &tiny, NULL, out, &o), CHARL_ERR_DATA);
    assert_true(strstr(notes[1], "second/bee/b.gif") || strstr(notes[2], "second/bee/b.gif"));
}

static void bad_formats_are_refused(void **state)
{
    static const struct {
        const char *settings[3], *message;
    } bad[] = {{{"size=8", "channels=2"}, "channels: \"2\" is not one of 1, 3"},
               {{"size=0x8"}, "size: 0 is out of range (1 to 4096)"},
               {{"size=8x5000"}, "size: 5000 is out of range (1 to 4096)"},
               {{"size=8", "fit=squeeze"}, "fit: \"squeeze\" is not one of crop, stretch, pad"},
               {{"size=8", "scale=2"}, "importer images has no setting \"scale=2\""},
               {{"size"}, "importer images has no setting \"size\""},
               {{"fit=pad"}, "importer images needs size: height and width"}};
    const char *folders[3] = {charl_test_path(dir, "set"), "b", "c"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        charl_assert_status(charl_import("images", bad[i].settings, folders, 1, out, &replace), CHARL_ERR_CONFIG);
        charl_assert_message(bad[i].message);
    }
    charl_assert_status(charl_import("images", WITH("size=8"), folders, 3, out, &replace), CHARL_ERR_CONFIG);
    charl_assert_message("images takes FOLDER [FOLDER], not 3 files");
    charl_assert_status(charl_import("pictures", NULL, folders, 1, out, &replace), CHARL_ERR_CONFIG);
    charl_assert_message("there is no importer \"pictures\"");
}

/* /train/x by HDF5 alone, into memory that holds something. */
static void read_as_others_do(unsigned char *x)
{
    const hid_t file = H5Fopen(out, H5F_ACC_RDONLY, H5P_DEFAULT), array = H5Dopen2(file, "/train/x", H5P_DEFAULT);

    memset(x, 7, 32 * 4);
    assert_true(H5Dread(array, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
    H5Dclose(array);
    H5Fclose(file);
}

/* Several files count the pictures of all, and the rows that one of them holds. */
static void check_pictures_of_several_files(void)
{
    const char *const names[] = {"part-a.h5", "part-b.h5", "part-c.h5"};
    char *text = NULL;
    charl_dataset *ds = NULL;
    charl_dataset_info info;

    for (int i = 0; i < 3; i++) {
        const charl_import_options o = {sizeof o, .overwrite = true, .val_split = 0.2};
        const char *folders[] = {charl_test_path(dir, "left"), charl_test_path(dir, "test")};

        charl_assert_ok(import_images(folders, &tiny, i > 0 ? "link=yes" : NULL, charl_test_path(dir, names[i]), &o));
    }
    charl_assert_ok(charl_dataset_open(charl_test_path(dir, "part-[bc].h5"), NULL, &ds));
    charl_dataset_get_info(ds, &info);
    assert_string_equal(info.note, "/train/x is decoded from 64 image files whenever it is read\n"
                                   "/val/x is decoded from 16 image files whenever it is read\n"
                                   "/test/x is decoded from 12 image files whenever it is read");
    charl_assert_ok(charl_dataset_storage(ds, &text));
    assert_non_null(strstr(text, "/train/x in 2 files, 64 image files, decoded when read\n"));
    charl_free(text);
    charl_dataset_close(ds);
    charl_assert_ok(charl_dataset_open(charl_test_path(dir, "part-*.h5"), NULL, &ds));
    charl_assert_ok(charl_dataset_storage(ds, &text));
    assert_non_null(
        strstr(text, "/train/x in 3 files, 64 image files, decoded when read, and 32 rows contiguous, 128 bytes"));
    charl_free(text);
    charl_dataset_close(ds);
}

/* A set of pictures that stay in their files has the rows of one that holds them, and is it, as far as a run can tell. */
static void pictures_may_stay_in_their_files(void **state)
{
    const char *folders[2];
    charl_import_options o = {sizeof o, .overwrite = true, .val_split = 0.2};
    charl_dataset_options few = {sizeof few, .cache_bytes = 9, .threads = 3}; /* room for two */
    charl_dataset *linked = NULL, *stored = NULL;
    charl_dataset_info info, other;
    int64_t rows[32];
    unsigned char x[2][32 * 4];
    int32_t y[2][32];
    char own[512], here[512], moved[512], file[600];

    (void)state;
    make_classes("left", 20);
    make_classes("test", 3);
    snprintf(own, sizeof own, "%s", charl_test_path(dir, "own.h5"));
    folders[0] = charl_test_path(dir, "left/");
    folders[1] = charl_test_path(dir, "test");
    charl_assert_ok(import_images(folders, &tiny, NULL, own, &o));
    folders[0] = charl_test_path(dir, "left/");
    folders[1] = charl_test_path(dir, "test");
    charl_assert_ok(import_images(folders, &tiny, "link=yes", out, &o));
    charl_assert_ok(charl_dataset_open(own, NULL, &stored));
    charl_assert_ok(charl_dataset_open(out, &few, &linked));
    charl_dataset_get_info(stored, &other);
    charl_dataset_get_info(linked, &info);
    assert_string_equal(info.content_id, other.content_id);
    assert_true(info.mean[0] == other.mean[0] && info.std[0] == other.std[0] && info.checksums && info.native);
    assert_non_null(strstr(info.note, "/test/x is decoded from 6 image files"));
    charl_assert_ok(charl_dataset_verify(linked));
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        const int64_t n = info.rows[s];

        assert_int_equal(n, other.rows[s]);
        for (int64_t i = 0; i < n; i++) {
            rows[i] = charl_order_row(7, n, true, i);
        }
        charl_assert_ok(charl_dataset_read(stored, (charl_split)s, rows, n, x[0], y[0]));
        charl_assert_ok(charl_dataset_read(linked, (charl_split)s, rows, n, x[1], y[1]));
        assert_memory_equal(x[0], x[1], (size_t)n * 4);
        assert_memory_equal(y[0], y[1], (size_t)n * sizeof(int32_t));
    }
    charl_dataset_close(stored);
    charl_dataset_close(linked);
    check_pictures_of_several_files();
    read_as_others_do(x[0]);
    for (size_t i = 0; i < 4 * (size_t)info.rows[CHARL_SPLIT_TRAIN]; i++) {
        assert_int_equal(x[0][i], 0);
    }
    /* It may be opened by a link in another folder. */
    snprintf(file, sizeof file, "%s", charl_test_path(dir, "left/link.h5"));
    assert_int_equal(symlink("../out.h5", file), 0);
    charl_assert_ok(charl_dataset_open(file, NULL, &linked));
    charl_assert_ok(charl_dataset_verify(linked));
    charl_dataset_close(linked);
    assert_int_equal(unlink(file), 0);
    /* The set and its pictures can be moved together. */
    snprintf(here, sizeof here, "%s", dir);
    snprintf(moved, sizeof moved, "%s-moved", dir);
    snprintf(file, sizeof file, "%s/out.h5", moved);
    assert_int_equal(rename(here, moved), 0);
    charl_assert_ok(charl_dataset_open(file, NULL, &linked));
    check_samples(linked, file, CHARL_SPLIT_TRAIN, 32);
    charl_dataset_close(linked);
    assert_int_equal(rename(moved, here), 0);
}

/* What was imported is what is read, or an error. */
static void changed_files_are_noticed(void **state)
{
    const char *folders[2] = {charl_test_path(dir, "left"), NULL};
    charl_dataset *ds = NULL;
    char away[512];

    (void)state;
    charl_assert_ok(import_images(folders, &tiny, "link=yes", out, &replace));
    charl_assert_ok(charl_dataset_open(out, NULL, &ds));
    for (int i = 0; i < 20; i++) {
        char name[32];

        snprintf(name, sizeof name, "left/ant/%02d.png", i);
        put_level(name, 90);
    }
    charl_assert_status(charl_dataset_verify(ds), CHARL_ERR_DATA);
    charl_assert_message("no longer gives the pixels that were imported");
    put_text("left/ant/00.png", "no picture");
    charl_assert_status(charl_dataset_verify(ds), CHARL_ERR_DATA);
    charl_assert_message("out.h5: /train/x: row ");
    charl_dataset_close(ds);
    snprintf(away, sizeof away, "%s", charl_test_path(dir, "away"));
    assert_int_equal(rename(charl_test_path(dir, "left"), away), 0);
    charl_assert_status(charl_dataset_open(out, NULL, &ds), CHARL_ERR_DATA);
    charl_assert_message("out.h5: /train/x: the files are elsewhere: ");
}

static charl_status import_small(void *ctx)
{
    return import_images(ctx, &tiny, NULL, out, &replace);
}

static charl_status link_small(void *ctx)
{
    charl_status st = CHARL_OK;
    const charl_dataset_options two = {sizeof two, .threads = 2};
    charl_dataset *ds = NULL;
    const int64_t rows[] = {1, 0};
    unsigned char x[8];

    CHARL_TRY_CLEANUP(import_images(ctx, &tiny, "link=yes", out, &replace));
    CHARL_TRY_CLEANUP(charl_dataset_open(out, &two, &ds));
    CHARL_TRY_CLEANUP(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 2, x, NULL));
cleanup:
    charl_dataset_close(ds);
    return st;
}

static void every_acquisition_may_fail(void **state)
{
    const char *folders[2];

    (void)state;
    make_classes("few", 1);
    folders[0] = charl_test_path(dir, "few");
    folders[1] = charl_test_path(dir, "flat");
    put_text("flat/labels.csv", "y.png,bee\n");
    assert_true(charl_test_fail_every_acquisition(import_small, folders) > 60);
    assert_true(charl_test_fail_every_acquisition(link_small, folders) > 90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sub_folders_are_classes),
        cmocka_unit_test(a_list_gives_labels),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(bad_folders_are_refused),
        cmocka_unit_test(bad_formats_are_refused),
        cmocka_unit_test(bad_files_are_counted_or_left_out),
        cmocka_unit_test(pictures_may_stay_in_their_files),
        cmocka_unit_test(changed_files_are_noticed),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}

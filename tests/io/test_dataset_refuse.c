/* Files that charl did not write: those it reads, at their price, and those it refuses, with file,
 * array and reason. */
#include "io/scratch.h"

#include <hdf5.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "charl/dataset.h"

enum { ROWS = 50, COLUMNS = 6 };

static char path[512];
static const charl_dataset_options named = {sizeof named, .x = "/x", .y = "/y"};

static int setup(void **state)
{
    setup_dir(state);
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "f.h5"));
    return 0;
}

/* How one array is stored. */
typedef struct array_spec {
    hid_t type; /* 0: u8 */
    int ndim;   /* 0: [ROWS, COLUMNS] */
    hsize_t dims[8];
    hsize_t chunk; /* rows per chunk; 0: contiguous */
    int gzip;
    bool fletcher;
    bool szip;
    bool compact;
    bool never;     /* do not write */
    bool only_part; /* write only the first chunk */
    bool external;
} array_spec;

/* Values: row * 7 + column of samples, row % 5 of labels, as doubles that HDF5 converts. */
static void fill(double *values, const hsize_t *dims, int ndim)
{
    hsize_t per_row = 1;

    for (int i = 1; i < ndim; i++) {
        per_row *= dims[i];
    }
    for (hsize_t r = 0; r < dims[0]; r++) {
        for (hsize_t c = 0; c < per_row; c++) {
            values[r * per_row + c] = ndim == 1 ? (double)(r % 5) : (double)((r * 7 + c) % 200);
        }
    }
}

static void add_array(hid_t file, const char *name, const array_spec *given)
{
    static double values[ROWS * COLUMNS * 4];
    array_spec s = *given;
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space;
    hid_t set;

    s.type = s.type ? s.type : H5T_NATIVE_UINT8;
    if (s.ndim == 0) {
        s.ndim = 2;
        s.dims[0] = ROWS;
        s.dims[1] = COLUMNS;
    }
    if (s.chunk) {
        hsize_t chunk[8];

        memcpy(chunk, s.dims, sizeof chunk);
        chunk[0] = s.chunk;
        H5Pset_chunk(plist, s.ndim, chunk);
    }
    if (s.gzip) {
        H5Pset_deflate(plist, (unsigned)s.gzip);
    }
    if (s.fletcher) {
        H5Pset_fletcher32(plist);
    }
    if (s.szip) {
        H5Pset_szip(plist, H5_SZIP_NN_OPTION_MASK, 8);
    }
    if (s.compact) {
        H5Pset_layout(plist, H5D_COMPACT);
    }
    if (s.external) {
        H5Pset_external(plist, "/etc/passwd", 0, ROWS * COLUMNS);
    }
    space = H5Screate_simple(s.ndim, s.dims, NULL);
    set = H5Dcreate2(file, name, s.type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(set >= 0);
    if (s.only_part) {
        const hsize_t start[8] = {0};
        hsize_t count[8];
        hid_t memory;

        memcpy(count, s.dims, sizeof count);
        count[0] = s.chunk;
        memory = H5Screate_simple(s.ndim, count, NULL);
        fill(values, count, s.ndim);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
        assert_true(H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values) >= 0);
        H5Sclose(memory);
    } else if (!s.never && !s.external && H5Tget_class(s.type) != H5T_STRING) {
        fill(values, s.dims, s.ndim);
        assert_true(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    }
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(plist);
}

static const array_spec labels_default = {.ndim = 1, .dims = {ROWS}};

static void make_file(const array_spec *x, const array_spec *y)
{
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(file >= 0);
    add_array(file, "/x", x);
    add_array(file, "/y", y ? y : &labels_default);
    H5Fclose(file);
}

static void expect_refusal(const charl_dataset_options *opt, const char *message)
{
    const long live = charl_test_live();
    charl_dataset *ds = NULL;

    charl_assert_status(charl_dataset_open(path, opt, &ds), CHARL_ERR_DATA);
    charl_assert_message(message);
    charl_assert_message("f.h5");
    assert_null(ds);
    assert_int_equal(charl_test_live(), live);
}

/* The file reads right, in any order; `native` says how. */
static void expect_content(bool native, const char *note)
{
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    const int64_t rows[] = {0, 1, 2, ROWS - 1, 17, 17, 3};
    float f[7][COLUMNS];
    unsigned char u[7][COLUMNS];
    int32_t y[7];

    charl_assert_ok(charl_dataset_open(path, &named, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.native, native);
    assert_non_null(strstr(info.note, note));
    assert_int_equal(info.classes, 5);
    assert_int_equal(info.y_shape.ndim, 0);
    assert_false(info.checksums);
    charl_assert_ok(
        charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 7, info.x_dtype == CHARL_U8 ? (void *)u : (void *)f, y));
    for (int i = 0; i < 7; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            const int want = (int)((rows[i] * 7 + c) % 200);

            assert_int_equal(info.x_dtype == CHARL_U8 ? u[i][c] : (int)f[i][c], want);
        }
        assert_int_equal(y[i], rows[i] % 5);
    }
    charl_assert_ok(charl_dataset_verify(ds));
    charl_dataset_close(ds);
}

static void other_layouts_are_read_at_a_price(void **state)
{
    (void)state;
    make_file(&(array_spec){0}, NULL);
    expect_content(true, "");
    make_file(&(array_spec){.chunk = 7}, NULL);
    expect_content(true, "");
    make_file(&(array_spec){.chunk = 7, .gzip = 4, .fletcher = true}, NULL);
    expect_content(true, "");
    make_file(&(array_spec){.chunk = 7, .szip = true}, NULL);
    expect_content(false, "/x is compressed with szip, which is decoded by one thread");
    make_file(&(array_spec){.compact = true}, NULL);
    expect_content(false, "");
    make_file(&(array_spec){.type = H5T_IEEE_F64BE}, NULL);
    expect_content(true, "");
    make_file(&(array_spec){.type = H5T_IEEE_F32LE}, NULL);
    expect_content(true, "");
    make_file(&(array_spec){0}, &(array_spec){.type = H5T_STD_I16BE, .ndim = 1, .dims = {ROWS}});
    expect_content(true, "");
    make_file(&(array_spec){0}, &(array_spec){.type = H5T_STD_I64LE, .ndim = 1, .dims = {ROWS}});
    expect_content(true, "");
}

static void a_user_block_shifts_the_data(void **state)
{
    const hid_t create = H5Pcreate(H5P_FILE_CREATE);
    hid_t file;

    (void)state;
    assert_true(H5Pset_userblock(create, 1024) >= 0);
    file = H5Fcreate(path, H5F_ACC_TRUNC, create, H5P_DEFAULT);
    assert_true(file >= 0);
    add_array(file, "/x", &(array_spec){0});
    add_array(file, "/y", &labels_default);
    H5Fclose(file);
    H5Pclose(create);
    expect_content(true, "");
}

typedef struct bad_array {
    array_spec x;
    const char *message;
} bad_array;

static void bad_arrays_are_refused(void **state)
{
    const hid_t text = H5Tcopy(H5T_C_S1);
    const bad_array cases[] = {
        {{.never = true}, "/x was never written"},
        {{.chunk = 7, .never = true}, "/x was never written"},
        {{.chunk = 7, .only_part = true}, "/x was only partly written"},
        {{.external = true}, "/x is external"},
        {{.type = text, .never = true}, "/x holds text"},
        {{.type = H5T_NATIVE_LDOUBLE}, "/x holds floats of 16 bytes"},
        {{.ndim = 7, .dims = {ROWS, 1, 1, 1, 1, 1, 2}}, "/x has 7 dimensions"},
        {{.ndim = 2, .dims = {ROWS - 1, COLUMNS}}, "/x has 49 rows but /y has 50"},
        {{.ndim = 2, .dims = {ROWS, 0}}, "/x is empty"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_file(&cases[i].x, NULL);
        expect_refusal(&named, cases[i].message);
    }
    H5Tclose(text);
}

static void a_filter_charl_lacks_is_refused(void **state)
{
    const unsigned unknown = 333; /* the file says so without the filter being there */
    const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t dims[2] = {ROWS, COLUMNS};
    const hid_t space = H5Screate_simple(2, dims, NULL);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t set;

    (void)state;
    assert_true(H5Pset_chunk(plist, 2, dims) >= 0);
    H5Pset_filter(plist, (H5Z_filter_t)unknown, H5Z_FLAG_OPTIONAL, 0, NULL);
    set = H5Dcreate2(file, "/x", H5T_NATIVE_UINT8, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(set >= 0);
    H5Dclose(set);
    add_array(file, "/y", &labels_default);
    H5Fclose(file);
    H5Sclose(space);
    H5Pclose(plist);
    expect_refusal(&named, "compressed with unnamed (filter 333), for which HDF5 has no plug-in here");
}

static void put_attribute(const char *array, const char *name, hid_t type, const void *value)
{
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), set = H5Dopen2(file, array, H5P_DEFAULT),
                space = H5Screate(H5S_SCALAR), attribute = H5Acreate2(set, name, type, space, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(H5Awrite(attribute, type, value) >= 0);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
}

static void put_text(const char *array, const char *name, const char *value)
{
    const hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, strlen(value));
    put_attribute(array, name, type, value);
    H5Tclose(type);
}

/* An attribute of n values. */
static void put_list(const char *array, const char *name, hid_t type, hsize_t n, const void *values)
{
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), set = H5Dopen2(file, array, H5P_DEFAULT),
                space = H5Screate_simple(1, &n, NULL),
                attribute = H5Acreate2(set, name, type, space, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(H5Awrite(attribute, type, values) >= 0);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
}

/* Values of rows 0 and 1 of x. */
static void expect_values(const float *want, int n)
{
    charl_dataset *ds = NULL;
    const int64_t rows[2] = {0, 1};
    charl_dataset_info info;
    float x[2 * ROWS];
    unsigned char u[2 * ROWS];
    int32_t y[2];

    charl_assert_ok(charl_dataset_open(path, &named, &ds));
    charl_dataset_get_info(ds, &info);
    charl_assert_ok(
        charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 2, info.x_dtype == CHARL_U8 ? (void *)u : (void *)x, y));
    for (int i = 0; i < n; i++) {
        assert_true((info.x_dtype == CHARL_U8 ? (float)u[i] : x[i]) == want[i]);
    }
    charl_dataset_close(ds);
}

/* netCDF: packed numbers, fill values, ranges. Row r, column c holds 7 r + c. */
static void attributes_say_what_numbers_mean(void **state)
{
    const double scale = 0.5, offset = -1, most = 7;
    const int16_t fill = 8;
    const signed char last = -100, range[2] = {0, -57}; /* 156; 0 to 199 */

    (void)state;
    make_file(&(array_spec){.type = H5T_STD_I16LE}, NULL);
    put_attribute("/x", "scale_factor", H5T_NATIVE_DOUBLE, &scale);
    put_attribute("/x", "add_offset", H5T_NATIVE_DOUBLE, &offset);
    expect_values((const float[]){-1, -0.5F, 0, 0.5F, 1, 1.5F, 2.5F, 3}, 8);
    put_attribute("/x", "_FillValue", H5T_NATIVE_INT16, &fill);
    expect_refusal(&named, "/x: row 1 has no value (element 1 is 8, attribute _FillValue is 8); HINT");
    make_file(&(array_spec){.type = H5T_STD_I16LE}, NULL);
    put_attribute("/x", "valid_max", H5T_NATIVE_DOUBLE, &most);
    expect_refusal(&named, "/x: row 1 has no value (element 1 is 8, attribute valid_max");
    make_file(&(array_spec){.type = H5T_STD_I8LE}, NULL); /* HDF5 cuts values at 127 */
    put_text("/x", "_Unsigned", "true");
    put_attribute("/x", "missing_value", H5T_NATIVE_SCHAR, &last);
    put_list("/x", "valid_range", H5T_NATIVE_SCHAR, 2, range);
    expect_values((const float[]){0, 1, 2}, 3);
    make_file(&(array_spec){0}, NULL);
    put_text("/y", "flag_masks", "1");
    expect_refusal(&named, "/y holds several flags in each number (attribute flag_masks)");
    make_file(&(array_spec){0}, NULL);
    put_text("/x", "units", "days since 1970-01-01");
    expect_content(true, "/x holds times (units = days since 1970-01-01)");
}

/* netCDF: numbers of classes and their names. */
static void flags_are_classes(void **state)
{
    const signed char values[] = {2, 0, 1, -5};
    const int64_t rows[] = {0, 1, 2};
    const array_spec table = {.ndim = 2, .dims = {3, COLUMNS}}, more = {.ndim = 2, .dims = {4, COLUMNS}},
                     labels = {.type = H5T_STD_I8LE, .ndim = 1, .dims = {3}},
                     more_labels = {.type = H5T_STD_I8LE, .ndim = 1, .dims = {4}};
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    unsigned char x[3][COLUMNS];
    int32_t y[3];

    (void)state;
    make_file(&table, &labels);
    put_list("/y", "flag_values", H5T_NATIVE_SCHAR, 4, values);
    put_text("/y", "flag_meanings", "snow  clear cloud other");
    charl_assert_ok(charl_dataset_open(path, &named, &ds));
    charl_dataset_get_info(ds, &info);
    assert_string_equal(info.class_names, "other\nclear\ncloud\nsnow");
    assert_int_equal(info.classes, 4);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 3, x, y));
    assert_memory_equal(y, ((int32_t[]){1, 2, 3}), sizeof y);
    charl_dataset_close(ds);
    make_file(&more, &more_labels);
    put_list("/y", "flag_values", H5T_NATIVE_SCHAR, 4, values);
    put_text("/y", "flag_meanings", "snow clear cloud other");
    expect_refusal(&named, "/y: row 3 is 3, which is the number of no class");
    make_file(&table, &labels);
    put_list("/y", "flag_values", H5T_NATIVE_SCHAR, 3, values);
    put_text("/y", "flag_meanings", "snow clear");
    expect_refusal(&named, "/y: flag_values has 3 numbers, and flag_meanings 2 names; HINT");
}

/* Which extent counts channels is not guessed where the file says it. */
static void labels_of_extents_say_where_channels_are(void **state)
{
    static const char *const last[] = {"sample", "y", "x", "Channel"}, *const first[] = {"", "channel", "y", "x"},
                             *const middle[] = {"", "y", "channel", "x"};
    const charl_dataset_options moves = {sizeof moves, .x = "/x", .y = "/y", .moves_channels = true};
    const array_spec narrow = {.ndim = 4, .dims = {6, 8, 8, 3}}, small = {.ndim = 4, .dims = {6, 4, 4, 5}},
                     labels = {.ndim = 1, .dims = {6}};
    const hid_t text = H5Tcopy(H5T_C_S1);
    charl_dataset *ds = NULL;
    charl_dataset_info info;

    (void)state;
    H5Tset_size(text, H5T_VARIABLE);
    make_file(&narrow, &labels);
    put_list("/x", "DIMENSION_LABELS", text, 4, first);
    charl_assert_ok(charl_dataset_open(path, &named, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.x_shape.dim[0], 8);
    charl_dataset_close(ds);
    make_file(&small, &labels);
    put_list("/x", "DIMENSION_LABELS", text, 4, last);
    expect_refusal(&named, "rows of /x are [4, 4, 5], with the channels last");
    charl_assert_ok(charl_dataset_open(path, &moves, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.x_shape.dim[0], 5);
    charl_dataset_close(ds);
    make_file(&small, &labels);
    put_list("/x", "DIMENSION_LABELS", text, 4, middle);
    expect_refusal(&named, "extent 2 of /x counts channels (DIMENSION_LABELS or INTERLACE_MODE)");
    H5Tclose(text);
}

/* The HDF5 Image specification. */
static void images_say_what_they_are(void **state)
{
    (void)state;
    make_file(&(array_spec){.ndim = 4, .dims = {6, 4, 4, 3}}, &(array_spec){.ndim = 1, .dims = {6}});
    put_text("/x", "CLASS", "IMAGE");
    put_text("/x", "INTERLACE_MODE", "INTERLACE_PIXEL");
    expect_refusal(&named, "rows of /x are [4, 4, 3], with the channels last");
    put_text("/x", "IMAGE_SUBCLASS", "IMAGE_INDEXED");
    expect_refusal(&named, "/x holds places in a palette, not colours (attribute IMAGE_SUBCLASS = IMAGE_INDEXED)");
    make_file(&(array_spec){0}, NULL);
    put_text("/x", "CLASS", "IMAGE");
    expect_refusal(&named, "/x is one image (attribute CLASS), not a list of samples; HINT");
}

/* MATLAB's arrays lie in the file by columns. */
static void matlab_matrices_are_transposed(void **state)
{
    const array_spec square = {.type = H5T_IEEE_F64LE, .ndim = 2, .dims = {4, ROWS}},
                     row = {.ndim = 2, .dims = {1, ROWS}};

    (void)state;
    make_file(&square, &row);
    put_text("/x", "MATLAB_class", "double");
    put_text("/y", "MATLAB_class", "uint8");
    /* file[c][r] = (7 c + r) % 200 */
    expect_values((const float[]){0, 7, 14, 21, 1, 8, 15, 22}, 8);
    make_file(&(array_spec){.ndim = 3, .dims = {ROWS, 2, 3}}, NULL);
    put_text("/x", "MATLAB_class", "double");
    expect_refusal(
        &named, "/x: MATLAB stores the extents of its arrays in reverse, and which of 3 are rows is not known; HINT");
    make_file(&(array_spec){0}, NULL);
    put_text("/y", "MATLAB_class", "char");
    expect_refusal(&named, "/y is of MATLAB's class char (attribute MATLAB_class), not numbers; HINT");
}

static void channels_in_the_end_are_not_taken_for_heights(void **state)
{
    const charl_dataset_options moves = {sizeof moves, .x = "/x", .y = "/y", .moves_channels = true};
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    unsigned char x[8 * 8 * 3];
    const int64_t first = 0;
    int32_t y;

    (void)state;
    make_file(&(array_spec){.ndim = 4, .dims = {6, 8, 8, 3}}, &(array_spec){.ndim = 1, .dims = {6}});
    expect_refusal(&named, "rows of /x are [8, 8, 3], with the channels last");
    charl_assert_ok(charl_dataset_open(path, &moves, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.x_shape.dim[0], 3);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &first, 1, x, &y));
    assert_int_equal(x[1], 3); /* red of the second pixel */
    assert_int_equal(x[64], 1);
    charl_dataset_close(ds);
}

static void expect_classes(const char *names)
{
    const int64_t rows[] = {0, 1, 2};
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    unsigned char x[3][COLUMNS];
    int32_t y[3];

    charl_assert_ok(charl_dataset_open(path, &named, &ds));
    charl_dataset_get_info(ds, &info);
    assert_string_equal(info.class_names, names);
    assert_int_equal(info.classes, 3);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 3, x, y));
    assert_memory_equal(y, ((int32_t[]){2, 0, 1}), sizeof y);
    charl_dataset_close(ds);
}

static void texts_and_enumerations_are_classes(void **state)
{
    static const char *const words[3] = {"dog", "ant", "bee"};
    static char fixed[ROWS][5];
    const char *variable[ROWS];
    const signed char numbers[ROWS] = {2, 0, 1};
    const hsize_t n = ROWS;
    const hid_t space = H5Screate_simple(1, &n, NULL), text = H5Tcopy(H5T_C_S1), pointer = H5Tcopy(H5T_C_S1),
                names = H5Tenum_create(H5T_STD_I8LE);
    const struct {
        hid_t type;
        const void *data;
    } kinds[] = {{text, fixed}, {pointer, variable}, {names, numbers}};

    (void)state;
    H5Tset_size(text, sizeof fixed[0]);
    H5Tset_size(pointer, H5T_VARIABLE);
    for (signed char i = 0; i < 3; i++) {
        H5Tenum_insert(names, ((const char *const[]){"ant", "bee", "dog"})[i], &i);
    }
    for (int i = 0; i < ROWS; i++) {
        variable[i] = words[i % 3];
        strcpy(fixed[i], words[i % 3]);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), set;

        add_array(file, "/x", &(array_spec){0});
        set = H5Dcreate2(file, "/y", kinds[k].type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        assert_true(H5Dwrite(set, kinds[k].type, H5S_ALL, H5S_ALL, H5P_DEFAULT, kinds[k].data) >= 0);
        H5Dclose(set);
        H5Fclose(file);
        expect_classes("ant\nbee\ndog");
    }
    H5Tclose(text);
    H5Tclose(pointer);
    H5Tclose(names);
    H5Sclose(space);
}

static void links_out_of_the_file_are_refused(void **state)
{
    hid_t file;
    const char *other = charl_test_path(dir, "other.h5");

    (void)state;
    make_file(&(array_spec){0}, NULL);
    assert_int_equal(rename(path, other), 0);
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    add_array(file, "/data", &(array_spec){0});
    add_array(file, "/y", &labels_default);
    H5Lcreate_soft("/data", file, "/x", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external(other, "/x", file, "/far", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("loop", file, "/loop", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/far", file, "/round", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    expect_content(true, ""); /* /x */
    expect_refusal(&(charl_dataset_options){sizeof(charl_dataset_options), .x = "/loop", .y = "/y"},
                   "more than 16 soft links");
    expect_refusal(&(charl_dataset_options){sizeof(charl_dataset_options), .x = "/round", .y = "/y"},
                   "/far is an external link");
    expect_refusal(&(charl_dataset_options){sizeof(charl_dataset_options), .x = "/far", .y = "/y"},
                   "/far is an external link");
    expect_refusal(&(charl_dataset_options){sizeof(charl_dataset_options), .x = "far/x", .y = "/y"},
                   "/far is an external link");
}

/* path: /x shows /held of the file `source`. */
static void make_virtual(const char *source)
{
    const hsize_t dims[2] = {ROWS, COLUMNS};
    const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t file;
    hid_t set;

    assert_true(H5Pset_virtual(plist, space, source, "/held", space) >= 0);
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    set = H5Dcreate2(file, "/x", H5T_NATIVE_UINT8, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(set >= 0);
    H5Dclose(set);
    add_array(file, "/y", &labels_default);
    H5Fclose(file);
    H5Sclose(space);
    H5Pclose(plist);
}

static charl_status open_and_verify(void *ctx)
{
    charl_status st;
    charl_dataset *ds = NULL;

    (void)ctx;
    st = charl_dataset_open(path, &named, &ds);
    if (st == CHARL_OK) {
        st = charl_dataset_verify(ds);
    }
    charl_dataset_close(ds);
    return st;
}

static void virtual_data_follow_their_sources(void **state)
{
    const char *source = charl_test_path(dir, "held.h5");
    hid_t file;

    (void)state;
    make_virtual("held.h5");
    expect_refusal(&named, "/x is virtual, and its source held.h5 is missing");
    file = H5Fcreate(source, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    add_array(file, "/held", &(array_spec){.chunk = 8, .gzip = 1});
    H5Fclose(file);
    expect_content(true, "");
    assert_true(charl_test_fail_every_acquisition(open_and_verify, NULL) > 10);
}

static void labels_out_of_range_are_refused(void **state)
{
    const int64_t rows[] = {3, 4};
    charl_dataset *ds = NULL;
    int32_t y[2];
    hid_t file;
    const hsize_t dims[1] = {ROWS};
    const hid_t space = H5Screate_simple(1, dims, NULL);
    int32_t labels[ROWS] = {0};
    hid_t set;

    (void)state;
    make_file(&(array_spec){0}, NULL);
    charl_assert_ok(charl_dataset_open(
        path, &(charl_dataset_options){sizeof(charl_dataset_options), .x = "/x", .y = "/y", .classes = 4}, &ds));
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 1, NULL, y));
    charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 2, NULL, y), CHARL_ERR_DATA);
    charl_assert_message("/y: 4 in row 4 is not in [0, 4)");
    charl_dataset_close(ds);
    labels[30] = -2;
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    add_array(file, "/x", &(array_spec){0});
    set = H5Dcreate2(file, "/y", H5T_NATIVE_INT32, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels) >= 0);
    H5Dclose(set);
    H5Fclose(file);
    H5Sclose(space);
    expect_refusal(&named, "/y: -2 in row 30 is not a class");
}

static void values_that_are_not_finite_are_refused(void **state)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY, 1e300};
    const hsize_t dims[2] = {ROWS, COLUMNS};
    const hid_t space = H5Screate_simple(2, dims, NULL);

    (void)state;
    for (int i = 0; i < 8; i++) { /* f32 directly, f64 through HDF5 */
        static double values[ROWS * COLUMNS];
        const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        const hid_t set = H5Dcreate2(file, "/x", i < 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE, space, H5P_DEFAULT,
                                     H5P_DEFAULT, H5P_DEFAULT);

        memset(values, 0, sizeof values);
        values[20 * COLUMNS + 3] = bad[i % 4];
        H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
        H5Dclose(set);
        add_array(file, "/y", &labels_default);
        H5Fclose(file);
        expect_refusal(&named, "/x: row 20 holds a NaN or an infinity (element 3)");
    }
    H5Sclose(space);
}

/* Losses of labels and probabilities would take -1 for a target like any other. */
static void targets_outside_of_0_to_1_are_refused_where_they_must_be_fractions(void **state)
{
    static const float bad[] = {-1.0F, 1.5F, 1.0F};
    const charl_dataset_options fractions = {sizeof fractions, .x = "/x", .y = "/y", .fractions = true};
    const hsize_t dims[2] = {ROWS, 3};
    const hid_t space = H5Screate_simple(2, dims, NULL);

    (void)state;
    for (int i = 0; i < 6; i++) { /* contiguous and chunked */
        float values[ROWS * 3] = {0}, y[3];
        unsigned char x[COLUMNS];
        const int64_t row = 20, other = 19;
        const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
        charl_dataset *ds = NULL;
        hid_t set;

        if (i > 2) {
            H5Pset_chunk(plist, 2, (const hsize_t[]){7, 3});
        }
        set = H5Dcreate2(file, "/y", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, plist, H5P_DEFAULT);
        values[row * 3 + 2] = bad[i % 3];
        H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
        H5Dclose(set);
        H5Pclose(plist);
        add_array(file, "/x", &(array_spec){0});
        H5Fclose(file);

        charl_assert_ok(charl_dataset_open(path, &named, &ds));
        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, y));
        charl_dataset_close(ds);
        if (i > 2 && bad[i % 3] != 1.0F) { /* the description of chunked data reads them */
            expect_refusal(&fractions, "/y: row 20 holds ");
            continue;
        }
        charl_assert_ok(charl_dataset_open(path, &fractions, &ds));
        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &other, 1, x, y));
        if (bad[i % 3] == 1.0F) {
            charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, y));
        } else {
            charl_assert_status(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, y), CHARL_ERR_DATA);
            charl_assert_message(bad[i % 3] < 0 ? "/y: row 20 holds -1 (element 2)"
                                                : "/y: row 20 holds 1.5 (element 2)");
        }
        charl_dataset_close(ds);
    }
    H5Sclose(space);
}

static void what_is_not_a_dataset_is_refused(void **state)
{
    FILE *f;
    hid_t file;
    charl_dataset *ds = NULL;

    (void)state;
    unlink(path);
    expect_refusal(NULL, "No such file");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(NULL, "not a regular file");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refusal(NULL, "is an empty folder, not a dataset");
    rmdir(path);
    f = fopen(path, "w");
    fclose(f);
    expect_refusal(NULL, "empty");
    f = fopen(path, "w");
    fputs("1,2,3\n4,5,6\n", f);
    fclose(f);
    expect_refusal(NULL, "is a CSV file, not a dataset; HINT convert it: `charl data import csv ");
    make_file(&(array_spec){0}, NULL);
    expect_refusal(NULL, "is an HDF5 file that charl did not write; HINT it has");
    expect_refusal(&(charl_dataset_options){sizeof(charl_dataset_options), .x = "/z", .y = "/y"}, "no array /z");
    expect_refusal(&(charl_dataset_options){sizeof(charl_dataset_options), .x = "/x/deeper", .y = "/y"},
                   "no array /x/deeper");
    charl_assert_status(
        charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .x = "/x"}, &ds),
        CHARL_ERR_CONFIG);
    charl_assert_status(
        charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .y = "/x"}, &ds),
        CHARL_ERR_CONFIG);
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(H5Gcreate2(file, "/x", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    add_array(file, "/y", &labels_default);
    H5Fclose(file);
    expect_refusal(&named, "/x is not a dataset");
}

static void every_truncation_is_refused(void **state)
{
    struct stat info;
    static unsigned char data[1 << 20];
    FILE *f;
    size_t size;

    (void)state;
    make_file(&(array_spec){0}, NULL);
    f = fopen(path, "rb");
    size = fread(data, 1, sizeof data, f);
    fclose(f);
    assert_int_equal(stat(path, &info), 0);
    for (size_t cut = 1; cut < size; cut += 97) {
        charl_dataset *ds = NULL;

        f = fopen(path, "wb");
        assert_int_equal(fwrite(data, 1, size - cut, f), size - cut);
        fclose(f);
        charl_assert_status(charl_dataset_open(path, &named, &ds), CHARL_ERR_DATA);
        charl_assert_message("f.h5");
    }
}

typedef struct attribute {
    const char *name;
    const char *text; /* NULL: number */
    int number;
    const char *message;
} attribute;

static void set_attribute(hid_t object, const char *name, const char *text, int number)
{
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t type = text ? H5Tcopy(H5T_C_S1) : H5Tcopy(H5T_NATIVE_INT);
    hid_t attr;

    if (text) {
        H5Tset_size(type, strlen(text));
    }
    if (H5Aexists(object, name) > 0) {
        H5Adelete(object, name);
    }
    attr = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(attr >= 0);
    assert_true(H5Awrite(attr, type, text ? (const void *)text : (const void *)&number) >= 0);
    H5Aclose(attr);
    H5Tclose(type);
    H5Sclose(space);
}

static void wrong_attributes_are_refused(void **state)
{
    static const attribute cases[] = {
        {"charl_format", "checkpoint", 0, "is a checkpoint of charl, not a dataset; HINT"},
        {"charl_format", NULL, 3, "attribute charl_format is not text"},
        {"charl_version", NULL, 2, "format version 2"},
        {"charl_version", "one", 0, "not a number"},
        {"kind", "sounds", 0, "unknown kind \"sounds\""},
        {"classes", NULL, -1, "attribute classes is -1"},
        {"classes", NULL, 3, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        charl_dataset *ds = NULL;

        H5Gclose(H5Gcreate2(file, "/train", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        add_array(file, "/train/x", &(array_spec){0});
        add_array(file, "/train/y", &labels_default);
        set_attribute(file, "charl_format", "dataset", 0);
        set_attribute(file, "charl_version", NULL, 1);
        set_attribute(file, "kind", "table", 0);
        H5Fflush(file, H5F_SCOPE_GLOBAL);
        set_attribute(file, cases[i].name, cases[i].text, cases[i].number);
        H5Fclose(file);
        if (cases[i].message[0]) {
            expect_refusal(NULL, cases[i].message);
            continue;
        }
        charl_assert_ok(charl_dataset_open(path, NULL, &ds)); /* too few classes: found when read */
        charl_assert_status(charl_dataset_verify(ds), CHARL_ERR_DATA);
        charl_assert_message("3 in row 3 is not in [0, 3)");
        charl_dataset_close(ds);
    }
}

static void variable_length_text_is_refused(void **state)
{
    const hid_t type = H5Tcopy(H5T_C_S1);
    const hid_t space = H5Screate(H5S_SCALAR);
    const char *text = "dataset";
    hid_t file;
    hid_t attr;

    (void)state;
    make_file(&(array_spec){0}, NULL);
    file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    assert_true(H5Tset_size(type, H5T_VARIABLE) >= 0);
    attr = H5Acreate2(file, "charl_format", type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attr, type, &text) >= 0);
    H5Aclose(attr);
    H5Sclose(space);
    H5Tclose(type);
    H5Fclose(file);
    expect_refusal(NULL, "variable-length string");
}

static void wrong_checksums_are_refused(void **state)
{
    hid_t file;

    (void)state;
    make_file(&(array_spec){0}, NULL);
    file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    H5Gclose(H5Gcreate2(file, "/crc", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    add_array(file, "/crc/x", &(array_spec){.type = H5T_NATIVE_UINT32, .ndim = 1, .dims = {2}});
    H5Fclose(file);
    expect_refusal(&named, "/crc/x must hold 1 checksums");
}

static charl_status open_chunked(void *ctx)
{
    charl_dataset *ds = NULL;
    const int64_t rows[] = {4, 9};
    int32_t y[2];
    unsigned char x[2][COLUMNS];
    charl_status st = charl_dataset_open(ctx, &named, &ds);

    if (st == CHARL_OK) {
        st = charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 2, x, y);
    }
    if (st == CHARL_OK) {
        st = charl_dataset_verify(ds);
    }
    charl_dataset_close(ds);
    return st;
}

static void every_acquisition_may_fail(void **state)
{
    (void)state;
    make_file(&(array_spec){.chunk = 7, .gzip = 1}, NULL);
    assert_true(charl_test_fail_every_acquisition(open_chunked, path) > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_layouts_are_read_at_a_price),
        cmocka_unit_test(a_user_block_shifts_the_data),
        cmocka_unit_test(bad_arrays_are_refused),
        cmocka_unit_test(a_filter_charl_lacks_is_refused),
        cmocka_unit_test(links_out_of_the_file_are_refused),
        cmocka_unit_test(attributes_say_what_numbers_mean),
        cmocka_unit_test(flags_are_classes),
        cmocka_unit_test(labels_of_extents_say_where_channels_are),
        cmocka_unit_test(images_say_what_they_are),
        cmocka_unit_test(matlab_matrices_are_transposed),
        cmocka_unit_test(channels_in_the_end_are_not_taken_for_heights),
        cmocka_unit_test(texts_and_enumerations_are_classes),
        cmocka_unit_test(virtual_data_follow_their_sources),
        cmocka_unit_test(labels_out_of_range_are_refused),
        cmocka_unit_test(values_that_are_not_finite_are_refused),
        cmocka_unit_test(targets_outside_of_0_to_1_are_refused_where_they_must_be_fractions),
        cmocka_unit_test(what_is_not_a_dataset_is_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(wrong_attributes_are_refused),
        cmocka_unit_test(variable_length_text_is_refused),
        cmocka_unit_test(wrong_checksums_are_refused),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}

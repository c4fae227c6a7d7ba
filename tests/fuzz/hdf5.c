/* HDF5 files. Random bytes would test HDF5's own reader, which is known to crash on them; so an input is a list of changes to a valid file:
 * objects and attributes removed, renamed, replaced by others of any type and shape, linked elsewhere, or overwritten. */
#include "io/imports.h"
#include "fuzz/fuzz.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charl/api.h"
#include "charl/checkpoint.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "charl/tokenizer.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/weights.h"
#include "data/rows/rows.h"

enum { DATASETS = 5, MAX_OBJECTS = 64, NAME = 128, MAX_CHANGES = 12, MAX_VALUES = 4096, LARGEST = 1 << 20 };

/* The rest of the input; past its end there are zeros. */
typedef struct reader {
    const unsigned char *data;
    size_t left;
} reader;

static unsigned take(reader *r)
{
    if (r->left == 0) {
        return 0;
    }
    r->left--;
    return *r->data++;
}

/* The whole content of a file. */
typedef struct image {
    unsigned char *data;
    size_t size;
} image;

static image load(const char *path)
{
    FILE *f = fopen(path, "rb");
    image i = {NULL, 0};
    long size = 0;

    FUZZ_CHECK(f != NULL && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0 && fseek(f, 0, SEEK_SET) == 0,
               "no valid file to begin with");
    i.data = malloc((size_t)size);
    i.size = (size_t)size;
    FUZZ_CHECK(i.data != NULL && fread(i.data, 1, i.size, f) == i.size, "no valid file to begin with");
    fclose(f);
    return i;
}

typedef struct names {
    char name[MAX_OBJECTS][NAME];
    int n;
} names;

static herr_t add_name(hid_t root, const char *name, const H5O_info_t *info, void *ctx)
{
    names *all = ctx;

    (void)root;
    (void)info;
    if (all->n < MAX_OBJECTS && strcmp(name, ".") != 0) {
        snprintf(all->name[all->n++], NAME, "%s", name);
    }
    return 0;
}

static herr_t add_attribute(hid_t object, const char *name, const H5A_info_t *info, void *ctx)
{
    names *all = ctx;

    (void)object;
    (void)info;
    if (all->n < MAX_OBJECTS) {
        snprintf(all->name[all->n++], NAME, "%s", name);
    }
    return 0;
}

/* A type of the table below; those with a string or a compound are the caller's to close, as all are copies. */
static hid_t type_of(reader *r)
{
    const hid_t plain[] = {H5T_NATIVE_UINT8, H5T_NATIVE_INT8,   H5T_NATIVE_UINT16, H5T_NATIVE_INT32,  H5T_NATIVE_UINT32,
                           H5T_NATIVE_INT64, H5T_NATIVE_UINT64, H5T_NATIVE_FLOAT,  H5T_NATIVE_DOUBLE, H5T_STD_I32BE,
                           H5T_IEEE_F64BE,   H5T_NATIVE_HBOOL,  H5T_STD_B16LE,     H5T_STD_U16BE};
    const unsigned k = take(r) % 24;
    hid_t type;

    switch (k) {
    case 14: /* a string of fixed length */
        type = H5Tcopy(H5T_C_S1);
        H5Tset_size(type, 1 + take(r) % 64);
        return type;
    case 15: /* of any length */
        type = H5Tcopy(H5T_C_S1);
        H5Tset_size(type, H5T_VARIABLE);
        return type;
    case 16: /* a compound */
        type = H5Tcreate(H5T_COMPOUND, 8);
        H5Tinsert(type, "r", 0, H5T_NATIVE_FLOAT);
        H5Tinsert(type, "i", 4, H5T_NATIVE_FLOAT);
        return type;
    case 18: /* a bool, as h5py has it */
    case 19: /* another enumeration */
        type = H5Tenum_create(k == 18 ? H5T_NATIVE_INT8 : H5T_NATIVE_INT);
        for (int value = 0; value < (k == 18 ? 2 : 3); value++) {
            static const char *const words[] = {"FALSE", "TRUE", "PERHAPS"};
            const signed char small = (signed char)value;

            H5Tenum_insert(type, words[value], k == 18 ? (const void *)&small : (const void *)&value);
        }
        return type;
    case 20: /* rows of any length */
        return H5Tvlen_create(H5T_NATIVE_INT);
    case 21: /* arrays as elements */
        return H5Tarray_create2(H5T_NATIVE_FLOAT, 1, &(hsize_t){3});
    case 22:
        return H5Tcreate(H5T_OPAQUE, 4);
    case 23: /* 12 bits of 16 */
        type = H5Tcopy(H5T_NATIVE_INT16);
        H5Tset_precision(type, 12);
        return type;
    case 17: /* a half float */
        type = H5Tcopy(H5T_IEEE_F32LE);
        H5Tset_fields(type, 15, 10, 5, 0, 10);
        H5Tset_size(type, 2);
        H5Tset_ebias(type, 15);
        return type;
    default:
        return H5Tcopy(plain[k]);
    }
}

static hid_t space_of(reader *r, hsize_t dims[5], int *rank)
{
    const unsigned k = take(r);

    *rank = (int)(k % 6);
    if (k % 64 == 63) {
        return H5Screate(H5S_NULL);
    }
    for (int i = 0; i < *rank; i++) {
        const unsigned extent = take(r);

        dims[i] = extent == 255 ? 100000 : extent % 33;
    }
    return *rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(*rank, dims, NULL);
}

/* Values out of the input, around and around; NULL for none or for too many. */
static void *values_of(reader *r, hid_t type, hid_t space)
{
    const hssize_t n = H5Sget_simple_extent_npoints(space);
    const size_t size = H5Tget_size(type);
    unsigned char *values;

    if (n < 1 || n > MAX_VALUES || H5Tis_variable_str(type) > 0 || H5Tdetect_class(type, H5T_VLEN) > 0) {
        return NULL;
    }
    values = calloc((size_t)n, size);
    FUZZ_CHECK(values != NULL, "no memory");
    for (size_t i = 0, from = 0; r->left > 0 && i < (size_t)n * size && i < 4096; i++) {
        values[i] = r->data[from];
        from = (from + 1) % r->left;
    }
    return values;
}

/* The halves of an array of another file, exchanged; all of it if it has one row. */
static void set_virtual(hid_t plist, hid_t space, const hsize_t *dims)
{
    const hid_t to = H5Scopy(space), from = H5Scopy(space);
    hsize_t count[5], start[5] = {0};

    H5Sget_simple_extent_dims(space, count, NULL);
    for (hsize_t begin = 0, n; begin < dims[0]; begin += n) {
        n = begin == 0 && dims[0] > 1 ? dims[0] / 2 : dims[0] - begin;
        count[0] = n;
        start[0] = begin;
        H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, NULL);
        start[0] = begin == 0 ? dims[0] - n : 0;
        H5Sselect_hyperslab(to, H5S_SELECT_SET, start, NULL, count, NULL);
        H5Pset_virtual(plist, to, "other.h5", "/x", from);
    }
    H5Sclose(to);
    H5Sclose(from);
}

static void replace_object(hid_t file, const char *name, reader *r)
{
    hsize_t dims[5] = {0}, chunk[5];
    int rank;
    const hid_t type = type_of(r), space = space_of(r, dims, &rank), plist = H5Pcreate(H5P_DATASET_CREATE);
    const unsigned layout = take(r) % 7;
    hid_t d;
    void *values = values_of(r, type, space);

    for (int i = 0; i < 5; i++) {
        chunk[i] = i < rank && dims[i] > 0 ? (dims[i] + 1) / 2 : 1;
    }
    if (layout == 6 && rank > 0) {
        set_virtual(plist, space, dims);
    } else if (layout >= 2 && rank > 0) {
        H5Pset_chunk(plist, rank, chunk);
        if (layout >= 3) {
            H5Pset_deflate(plist, 1);
        }
        if (layout == 4) {
            H5Pset_shuffle(plist);
        }
        if (layout == 5) {
            H5Pset_fletcher32(plist);
        }
    } else if (layout == 1) {
        H5Pset_layout(plist, H5D_COMPACT);
    }
    H5Ldelete(file, name, H5P_DEFAULT);
    d = H5Dcreate2(file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    if (d >= 0) {
        if (values) {
            H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
        }
        H5Dclose(d);
    }
    free(values);
    H5Pclose(plist);
    H5Sclose(space);
    H5Tclose(type);
}

static void overwrite(hid_t file, const char *name, reader *r)
{
    const hid_t d = H5Dopen2(file, name, H5P_DEFAULT);

    if (d >= 0) {
        const hid_t type = H5Dget_type(d), space = H5Dget_space(d);
        void *values = values_of(r, type, space);

        if (values) {
            H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
        }
        free(values);
        H5Sclose(space);
        H5Tclose(type);
        H5Dclose(d);
    }
}

static void change_attribute(hid_t file, const char *object, reader *r)
{
    const hid_t o = H5Oopen(file, object, H5P_DEFAULT);
    static names all;
    hsize_t dims[5] = {0};
    int rank;

    if (o < 0) {
        return;
    }
    all.n = 0;
    H5Aiterate2(o, H5_INDEX_NAME, H5_ITER_INC, NULL, add_attribute, &all);
    if (all.n > 0) {
        const char *name = all.name[take(r) % (unsigned)all.n];
        const unsigned how = take(r) % 4;

        if (how == 1) { /* another value of the same type */
            const hid_t a = H5Aopen(o, name, H5P_DEFAULT), type = H5Aget_type(a), space = H5Aget_space(a);
            void *values = values_of(r, type, space);

            if (values) {
                H5Awrite(a, type, values);
            }
            free(values);
            H5Sclose(space);
            H5Tclose(type);
            H5Aclose(a);
        } else {
            H5Adelete(o, name);
        }
        if (how >= 2) { /* another type too */
            const hid_t type = type_of(r), space = space_of(r, dims, &rank);
            void *values = values_of(r, type, space);
            /* The library holds the whole of an attribute in memory. */
            const hid_t a = H5Sget_simple_extent_npoints(space) <= MAX_VALUES
                                ? H5Acreate2(o, name, type, space, H5P_DEFAULT, H5P_DEFAULT)
                                : -1;

            if (a >= 0 && values) {
                H5Awrite(a, type, values);
            }
            if (a >= 0) {
                H5Aclose(a);
            }
            free(values);
            H5Sclose(space);
            H5Tclose(type);
        }
    }
    H5Oclose(o);
}

static void change(hid_t file, reader *r)
{
    static names all;
    const unsigned what = take(r);
    const char *name, *other;

    all.n = 0;
    H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, add_name, &all, H5O_INFO_BASIC);
    if (all.n == 0) {
        return;
    }
    name = all.name[take(r) % (unsigned)all.n];
    switch (what % 9) {
    case 0:
        H5Ldelete(file, name, H5P_DEFAULT);
        break;
    case 1:
        other = all.name[take(r) % (unsigned)all.n];
        if (strcmp(name, other) != 0 && strncmp(name, other, strlen(name)) != 0) {
            H5Ldelete(file, other, H5P_DEFAULT);
            H5Lmove(file, name, file, other, H5P_DEFAULT, H5P_DEFAULT);
        }
        break;
    case 2:
        other = all.name[take(r) % (unsigned)all.n];
        if (strcmp(name, other) != 0 && strncmp(other, name, strlen(other)) != 0) {
            H5Ldelete(file, other, H5P_DEFAULT);
            H5Lcreate_hard(file, name, file, other, H5P_DEFAULT, H5P_DEFAULT);
        }
        break;
    case 3:
        other = all.name[take(r) % (unsigned)all.n];
        H5Ldelete(file, name, H5P_DEFAULT);
        if (take(r) % 2) {
            H5Lcreate_soft(other, file, name, H5P_DEFAULT, H5P_DEFAULT);
        } else {
            H5Lcreate_external("other.h5", other, file, name, H5P_DEFAULT, H5P_DEFAULT);
        }
        break;
    case 4:
    case 5:
        replace_object(file, name, r);
        break;
    case 6:
        overwrite(file, name, r);
        break;
    case 7:
        change_attribute(file, name, r);
        break;
    default:
        change_attribute(file, "/", r);
    }
}

/* One of the valid files, changed as the input says. */
static const char *changed(const image *valid, unsigned n, reader *r)
{
    const image *from = &valid[take(r) % n];
    const char *path = fuzz_put("in.h5", from->data, from->size);
    hid_t file;

    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    FUZZ_CHECK(file >= 0, "the valid file does not open");
    for (int i = 0; i < MAX_CHANGES && r->left > 0; i++) {
        change(file, r);
    }
    H5Fclose(file);
    return path;
}

static void use_tokenizer(const char *path)
{
    charl_tokenizer *t = NULL;
    int32_t *tokens = NULL;
    int64_t n = 0;

    if (fuzz_accepts(charl_tokenizer_load(path, &t))) {
        fuzz_accepts(charl_tokenizer_encode(t, "to be", 5, false, &tokens, &n));
        charl_free(tokens);
        charl_tokenizer_destroy(t);
    }
}

static void make_datasets(image *out)
{
    static const char table[] = "a,b,species\n1,2,cat\n3,4.5,dog\n5,6,cat\n7,-8,dog\n";
    static const char other_table[] = "b,a,species\n1,2,dog\n3,4.5,cat\n5,6,cat\n7,-8,dog\n";
    static const char text[] = "to be or not to be, that is the question; to be or not";
    static const char documents[] =
        "{\"text\":\"to be or not\"}\n{\"text\":\"that is\"}\n{\"text\":\"the question\"}\n";
    const charl_make_options digits = {sizeof digits, .kind = "digits", .n_train = 3, .n_val = 2, .overwrite = true};
    const char *const *csv = WITH("label=species");
    const charl_import_options opt = {sizeof opt, .overwrite = true, .val_split = 0.25};
    const char *const *bpe = WITH("tokenizer=bpe", "vocab=270");
    const char *out_path = fuzz_path("valid.h5");
    char path[512];
    const char *source;

    snprintf(path, sizeof path, "%s", out_path);
    FUZZ_CHECK(charl_dataset_make(path, &digits) == CHARL_OK, "no dataset");
    out[0] = load(path);
    source = fuzz_put("valid.csv", (const unsigned char *)table, sizeof table - 1);
    FUZZ_CHECK(charl_import("csv", csv, FILES(source), 1, path, &opt) == CHARL_OK, "no dataset");
    out[1] = load(path);
    source = fuzz_put("valid.txt", (const unsigned char *)text, sizeof text - 1);
    FUZZ_CHECK(charl_import("text", bpe, &source, 1, path, &opt) == CHARL_OK, "no dataset");
    out[2] = load(path);
    source = fuzz_put("valid.csv", (const unsigned char *)other_table, sizeof other_table - 1);
    FUZZ_CHECK(charl_import("csv", csv, FILES(source), 1, path, &opt) == CHARL_OK, "no dataset");
    out[3] = load(path);
    source = fuzz_put("valid.jsonl", (const unsigned char *)documents, sizeof documents - 1);
    FUZZ_CHECK(charl_import("text", NULL, &source, 1, path, &opt) == CHARL_OK, "no dataset");
    out[4] = load(path);
}

/* Samples from the beginning and the end of a split, of two or more. */
static void read_samples(charl_dataset *ds, const charl_dataset_info *info, charl_split split)
{
    const int64_t rows[3] = {0, info->rows[split] - 1, 0};
    const size_t x_bytes = (size_t)charl_shape_count(&info->x_shape) * charl_dtype_size(info->x_dtype);
    const size_t y_bytes = (size_t)charl_shape_count(&info->y_shape) * charl_dtype_size(info->y_dtype);
    int32_t *starts = NULL;
    int64_t n_starts = 0;
    void *x, *y;

    if (info->rows[split] < 1 || x_bytes > LARGEST || y_bytes > LARGEST) {
        return;
    }
    x = malloc(3 * x_bytes + 1);
    y = malloc(3 * y_bytes + 1);
    FUZZ_CHECK(x != NULL && y != NULL, "no memory");
    fuzz_accepts(charl_dataset_read(ds, split, rows, 3, x, info->labelled ? y : NULL));
    if (info->kind == CHARL_DATASET_TOKENS) {
        fuzz_accepts(charl__dataset_read_at(ds, split, rows, 1, x, y));
        fuzz_accepts(charl_dataset_read_tokens(ds, split, 0, 3, x));
        if (fuzz_accepts(charl__dataset_starts(ds, split, &starts, &n_starts))) {
            charl_free(starts);
        }
    }
    free(x);
    free(y);
}

/* As data to predict, for a model that was trained on the file before it was changed. */
static void predict_from(const char *path, const charl_data_schema *schema)
{
    const charl__rows_options o = {
        .schema = schema, .model = "model", .paths = &path, .n_paths = 1, .other_x = "/train/x", .other_y = "/train/y"};
    charl__rows *rows = NULL;
    unsigned char x[2 * 28 * 28 * 4], y[2 * 8];
    int64_t n = 0;

    if (fuzz_accepts(charl__rows_open(&o, &rows))) {
        while (fuzz_accepts(charl__rows_next(rows, 2, x, y, &n)) && n > 0) {
        }
        charl_free(charl__rows_drain_notes(rows, true));
        charl__rows_close(rows);
    }
}

static charl_data_schema *schema_of(const image *file)
{
    charl_data_schema *schema = NULL;
    charl_dataset_info info;
    charl_dataset *ds = NULL;

    FUZZ_CHECK(charl_dataset_open(fuzz_put("valid.h5", file->data, file->size), NULL, &ds) == CHARL_OK, "no dataset");
    charl_dataset_get_info(ds, &info);
    FUZZ_CHECK(charl_data_schema_create(ds, info.n_stats, info.mean, info.std, &schema) == CHARL_OK, "no schema");
    charl_dataset_close(ds);
    return schema;
}

void fuzz_dataset(const unsigned char *data, size_t size)
{
    static image valid[DATASETS];
    const charl_dataset_options own = {sizeof own, .window = 4, .separate = size % 2 == 0},
                                other = {sizeof other, .x = "/train/x", .y = "/train/y"};
    reader r = {data, size};
    charl_data_schema *schema;
    char *storage = NULL;
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    const char *path;
    unsigned which;

    if (!valid[0].data) {
        make_datasets(valid);
    }
    which = size > 0 ? data[0] % DATASETS : 0;
    path = changed(valid, DATASETS, &r);
    if (fuzz_accepts(charl_dataset_open(path, take(&r) % 4 == 3 ? &other : &own, &ds))) {
        charl_dataset_get_info(ds, &info);
        for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
            read_samples(ds, &info, (charl_split)s);
        }
        if (fuzz_accepts(charl_dataset_verify(ds))) {
            fuzz_accepts(charl__dataset_check(ds));
        }
        if (fuzz_accepts(charl_dataset_storage(ds, &storage))) {
            charl_free(storage);
        }
        charl_dataset_close(ds);
    }
    if (which != 2 && which != 4) { /* no text; the columns of a table are in another order, and so are its classes */
        schema = schema_of(&valid[which == 0 ? 0 : 4 - which]);
        predict_from(path, schema);
        charl_data_schema_destroy(schema);
    }
    use_tokenizer(path);
}

const char *fuzz_put_table(const char *name, bool regression)
{
    static const char table[] = "price,sold,area,kind,note\n1.5,2026-01-02,3,ant,x\n2,2026-03-04,,bee,y\n"
                                "-4,2025-12-31,0.5,ant,x\n8,2026-11-26,7,cat,z\n";
    static image valid[2];
    image *v = &valid[regression];
    const charl_import_options opt = {sizeof opt, .overwrite = true};

    if (!v->data) {
        const char *const *csv =
            WITH(given("label", regression ? "price,area" : "kind"), regression ? "regression=yes" : NULL, "drop=note",
                 given("missing", regression ? "drop" : "area:flag"));
        const char *source = fuzz_put("valid.csv", (const unsigned char *)table, sizeof table - 1);

        FUZZ_CHECK(charl_import("csv", csv, FILES(source), 1, fuzz_path("valid.h5"), &opt) == CHARL_OK, "no dataset");
        *v = load(fuzz_path("valid.h5"));
    }
    return fuzz_put(name, v->data, v->size);
}

static void put_array(hid_t file, const char *name, hid_t type, int rank, const hsize_t *dims)
{
    static const float numbers[64] = {0, 1, 2, 1, 0, 2, 1.5F, -3, 4, 0.25F};
    const hid_t space = H5Screate_simple(rank, dims, NULL);
    const hid_t d = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    FUZZ_CHECK(d >= 0 && H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) >= 0, "no array");
    H5Dclose(d);
    H5Sclose(space);
}

static void put_label(hid_t file, const char *object, hid_t type, const void *value)
{
    const hid_t o = H5Oopen(file, object, H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
    const hid_t a = H5Acreate2(o, "label", type, space, H5P_DEFAULT, H5P_DEFAULT);

    FUZZ_CHECK(a >= 0 && H5Awrite(a, type, value) >= 0, "no attribute");
    H5Aclose(a);
    H5Sclose(space);
    H5Oclose(o);
}

/* Files that charl did not write: a group for each sample, an array for each class, and arrays of all rows. */
static void make_foreign(image *out)
{
    static const hsize_t sample[2] = {2, 3}, rows[2] = {6, 4}, targets[1] = {6};
    static const char *const words[] = {"ant", "bee"};
    static const double numbers[] = {0.5, 2};
    static const int ids[] = {0, 1};
    const hid_t word = H5Tcopy(H5T_C_S1);
    char path[512], name[32];

    snprintf(path, sizeof path, "%s", fuzz_path("valid.h5"));
    H5Tset_size(word, H5T_VARIABLE);
    for (int k = 0; k < 4; k++) {
        const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);

        FUZZ_CHECK(file >= 0, "no file");
        for (int i = 0; i < 2 && k < 3; i++) {
            snprintf(name, sizeof name, "/g%d", i);
            if (k == 0) { /* words of groups */
                H5Gclose(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
                put_label(file, name, word, &words[i]);
                snprintf(name, sizeof name, "/g%d/image", i);
                put_array(file, name, H5T_NATIVE_UINT8, 2, sample);
            } else { /* numbers of arrays */
                put_array(file, name, H5T_NATIVE_FLOAT, 2, rows);
                put_label(file, name, k == 1 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT,
                          k == 1 ? (const void *)&numbers[i] : (const void *)&ids[i]);
            }
        }
        if (k == 3) {
            put_array(file, "/x", H5T_NATIVE_FLOAT, 2, rows);
            put_array(file, "/y", H5T_NATIVE_INT, 1, targets);
            put_array(file, "/w", H5T_NATIVE_FLOAT, 1, targets);
        }
        H5Fclose(file);
        out[k] = load(path);
    }
    H5Tclose(word);
}

void fuzz_hdf5(const unsigned char *data, size_t size)
{
    static const char *const options[][4] = {
        {"x=/*/image", "y=@label"},
        {"x=/*", "y=@label"},
        {"x=/*", "y=@label", "stacked=yes"},
        {"x=/x", "y=/y"},
        {"x=/x", "y=/y", "weights=/w"},
        {"x=/x", "y=@label", "stacked=yes"},
        {NULL},
        {"x=/g[01]*", "y=@label"},
    };
    static image valid[4 + DATASETS];
    reader r = {data, size};
    const unsigned c = take(&r);
    const charl_import_options opt = {sizeof opt, .val_split = c / 16 % 2 ? 0.25 : 0.0, .in_order = c / 32 % 2};
    const char *const *o = options[c % 8];
    const char *files[2];
    unsigned which;

    if (!valid[0].data) {
        make_foreign(valid);
        make_datasets(valid + 4);
    }
    which = r.left > 0 ? r.data[0] % (4 + DATASETS) : 0;
    files[0] = changed(valid, 4 + DATASETS, &r);
    files[1] = fuzz_put("other.h5", valid[which].data, valid[which].size);
    fuzz_check_import(charl_import("hdf5", o, files, 1 + (int)(c / 8 % 2), fuzz_path("out.h5"), &opt), 1);
}

static void make_checkpoints(image *out)
{
    static const float weight[6] = {1, 2, 3, 4, 5, 6}, mean[3] = {0}, std[3] = {1, 1, 1};
    static const int64_t count = 7;
    static char classes[] = "cat\ndog", columns[] = "a\nb\nc", targets[] = "species", layout[] = "rows", empty[] = "";
    const charl_checkpoint_tensor tensors[] = {
        {.group = CHARL_CHECKPOINT_BASE, .name = "fc0.weight", .dtype = CHARL_F32, .shape = {2, {2, 3}}, .crc32c = 1},
        {.group = "model", .name = "fc1.weight", .dtype = CHARL_F32, .shape = {2, {2, 3}}, .data = weight},
        {.group = "model", .name = "bn1.num_batches_tracked", .dtype = CHARL_I64, .shape = {0}, .data = &count},
        {.group = "optim/exp_avg", .name = "fc1.weight", .dtype = CHARL_F32, .shape = {2, {2, 3}}, .data = weight}};
    float m[3], s[3];
    charl_data_schema schema = {.kind = CHARL_DATASET_TABLE,
                                .x_dtype = CHARL_F32,
                                .x_shape = {1, {3}},
                                .y_dtype = CHARL_I32,
                                .classes = 2,
                                .class_names = classes,
                                .columns = columns,
                                .targets = targets,
                                .recipe = empty,
                                .fields = empty,
                                .layout = layout,
                                .fit = empty,
                                .n_stats = 3,
                                .mean = m,
                                .std = s,
                                .tokenizer_kind = empty};
    charl_checkpoint c = {.state = {.step = 6,
                                    .rng = "philox4x32-10",
                                    .slices = 8,
                                    .batch_size = 64,
                                    .world_size = 1,
                                    .optim_kind = "adamw",
                                    .run_id = "0123456789abcdef0123456789abcdef"},
                          .config_text = "[model]\ntype = mlp\n",
                          .config_resolved = "model.type = mlp\n",
                          .tensors = tensors + 1,
                          .n_tensors = 3,
                          .schema = &schema};
    charl_data_schema *words = NULL;
    image datasets[DATASETS];
    charl_dataset *ds = NULL;
    char path[512];

    memcpy(m, mean, sizeof m);
    memcpy(s, std, sizeof s);
    snprintf(path, sizeof path, "%s", fuzz_path("valid.h5"));
    FUZZ_CHECK(charl_checkpoint_save(path, &c) == CHARL_OK, "no checkpoint");
    out[0] = load(path);
    c.schema = NULL;
    FUZZ_CHECK(charl_checkpoint_save(path, &c) == CHARL_OK, "no checkpoint");
    out[1] = load(path);
    make_datasets(datasets); /* the third has a tokenizer, and one weight is left to a base */
    fuzz_put("valid.h5", datasets[2].data, datasets[2].size);
    FUZZ_CHECK(charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .window = 4}, &ds) ==
                       CHARL_OK &&
                   charl_data_schema_create(ds, 0, NULL, NULL, &words) == CHARL_OK,
               "no schema");
    charl_dataset_close(ds);
    c.schema = words;
    c.tensors = tensors;
    c.n_tensors = 4;
    FUZZ_CHECK(charl_checkpoint_save(path, &c) == CHARL_OK, "no checkpoint");
    out[2] = load(path);
    charl_data_schema_destroy(words);
    for (int i = 0; i < DATASETS; i++) {
        free(datasets[i].data);
    }
}

static const image *checkpoints(void)
{
    static image valid[3];

    if (!valid[0].data) {
        make_checkpoints(valid);
    }
    return valid;
}

const char *fuzz_put_checkpoint(const char *name)
{
    const image *last = &checkpoints()[2];

    return fuzz_put(name, last->data, last->size);
}

void fuzz_checkpoint(const unsigned char *data, size_t size)
{
    reader r = {data, size};
    charl_checkpoint_reader *c = NULL;
    char *report = NULL;
    bool same;
    const char *path = changed(checkpoints(), 3, &r);

    if (fuzz_accepts(charl_checkpoint_open(path, &c))) {
        for (int64_t i = 0; i < charl_checkpoint_get_info(c).n_tensors; i++) {
            const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(c, i);

            const int64_t bytes = charl_shape_count(&t->shape) * (int64_t)charl_dtype_size(t->dtype);
            void *values = bytes <= LARGEST ? malloc((size_t)bytes + 1) : NULL;

            FUZZ_CHECK(charl_checkpoint_find(c, t->group, t->name) == t, "a tensor is not found by its name");
            if (values) {
                fuzz_accepts(charl_checkpoint_read(c, t, values));
            }
            free(values);
        }
        charl_checkpoint_close(c);
    }
    fuzz_accepts(charl_checkpoint_verify(path));
    if (fuzz_accepts(charl_checkpoint_diff(path, path, &same, &report))) {
        FUZZ_CHECK(same, "a checkpoint differs from itself");
    }
    charl_free(report);
    use_tokenizer(path);
}

/* safetensors: what is written reads back, every malformed file is refused with the file and the
 * tensor named, and damage at random never does worse than that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "charl/safetensors.h"
#include "charl/tensor_file.h"
#include "io/scratch.h"

enum { FILE_BYTES = 1 << 16, MUTATIONS = 3000 };

static const float weight[6] = {1, -2, 3.5F, 0, 1e-38F, 3e38F};
static const uint16_t half[3] = {0x3c00, 0x8001, 0x7bff};
static const int64_t steps = 1234567890123LL;
static const uint8_t bytes[5] = {0, 1, 2, 254, 255};

static const charl_checkpoint_tensor tensors[] = {
    {NULL, "fc1.weight", CHARL_F32, {2, {2, 3}}, weight, 0},
    {NULL, "a \"quoted\" name\n", CHARL_BF16, {1, {3}}, half, 0},
    {NULL, "empty", CHARL_F16, {2, {0, 3}}, NULL, 0},
    {NULL, "bn.num_batches_tracked", CHARL_I64, {0, {0}}, &steps, 0},
    {NULL, "bytes", CHARL_U8, {1, {5}}, bytes, 0},
};
enum { N_TENSORS = sizeof tensors / sizeof *tensors };

static int setup(void **state)
{
    charl_tensor_file *s = NULL;

    setup_dir(state);
    charl_assert_ok(charl_safetensors_save(charl_test_path(dir, "m.safetensors"), tensors, N_TENSORS, NULL));
    charl_assert_ok(charl_tensor_file_open(charl_test_path(dir, "m.safetensors"), &s));
    charl_tensor_file_close(s);
    return 0;
}

static size_t read_file(const char *path, unsigned char *data)
{
    FILE *f = fopen(path, "rb");
    size_t n;

    assert_non_null(f);
    n = fread(data, 1, FILE_BYTES, f);
    fclose(f);
    assert_true(n > 0 && n < FILE_BYTES);
    return n;
}

static const char *write_file(const unsigned char *data, size_t n)
{
    const char *path = charl_test_path(dir, "bad.safetensors");
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
    return path;
}

/* A file with this header, as it is, and so many bytes of tensors. */
static const char *write_header(const char *json, size_t data_bytes)
{
    static unsigned char file[FILE_BYTES];
    const uint64_t length = strlen(json);

    memset(file, 0, sizeof file);
    memcpy(file, &length, 8);
    memcpy(file + 8, json, length);
    return write_file(file, 8 + length + data_bytes);
}

static void test_round_trip(void **state)
{
    const char *path = charl_test_path(dir, "m.safetensors");
    charl_tensor_file *s = NULL;
    unsigned char data[64];

    (void)state;
    charl_assert_ok(charl_tensor_file_open(path, &s));
    assert_int_equal(charl_tensor_file_get_count(s), N_TENSORS);
    for (int i = 0; i < N_TENSORS; i++) {
        const charl_checkpoint_tensor *t = charl_tensor_file_find(s, tensors[i].name);
        const size_t n = (size_t)charl_shape_count(&tensors[i].shape) * charl_dtype_size(tensors[i].dtype);

        assert_non_null(t);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_true(charl_shape_equal(&t->shape, &tensors[i].shape));
        charl_assert_ok(charl_tensor_file_read(s, t, data));
        assert_true(n == 0 || memcmp(data, tensors[i].data, n) == 0);
    }
    assert_null(charl_tensor_file_find(s, "fc2.weight"));
    assert_null(charl_tensor_file_get(s, N_TENSORS));
    charl_assert_status(charl_tensor_file_read(s, &tensors[0], data), CHARL_ERR_INVALID);
    charl_tensor_file_close(s);
}

/* The rules that readers of other programs rely on. */
static void test_form(void **state)
{
    static unsigned char file[FILE_BYTES], again[FILE_BYTES];
    const size_t n = read_file(charl_test_path(dir, "m.safetensors"), file);
    uint64_t length;

    (void)state;
    memcpy(&length, file, 8);
    assert_int_equal(length % 8, 0);
    assert_int_equal(file[8], '{');
    assert_true(memchr("} ", file[8 + length - 1], 2) != NULL);
    assert_int_equal(n, 8 + length + 8 + 24 + 6 + 5);
    assert_memory_equal(file + 8 + length, &steps, 8); /* the widest first: all are aligned */
    charl_assert_ok(charl_safetensors_save(charl_test_path(dir, "again.safetensors"), tensors, N_TENSORS, NULL));
    assert_int_equal(read_file(charl_test_path(dir, "again.safetensors"), again), n);
    assert_memory_equal(file, again, n);
}

static void test_save_refuses(void **state)
{
    const char *path = charl_test_path(dir, "none.safetensors");
    charl_checkpoint_tensor t[2] = {tensors[0], tensors[0]};

    (void)state;
    charl_assert_status(charl_safetensors_save(path, t, 2, NULL), CHARL_ERR_INVALID);
    charl_assert_message("fc1.weight is given twice");
    t[0].name = "__metadata__";
    charl_assert_status(charl_safetensors_save(path, t, 1, NULL), CHARL_ERR_INVALID);
    charl_assert_message("'__metadata__' cannot be the name of a tensor");
    t[0] = tensors[0];
    t[0].shape.dim[1] = -1;
    charl_assert_status(charl_safetensors_save(path, t, 1, NULL), CHARL_ERR_INVALID);
    charl_assert_message("impossible element type or shape");
    t[0] = tensors[0];
    t[0].data = NULL;
    charl_assert_status(charl_safetensors_save(path, t, 1, NULL), CHARL_ERR_INVALID);
    charl_assert_message("fc1.weight has no data");
    charl_assert_status(charl_safetensors_save(charl_test_path(dir, "no/where.safetensors"), tensors, 1, NULL),
                        CHARL_ERR_DISK);
}

#define T(name, dtype, shape, from, to)                                                                                \
    "\"" name "\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"
#define GOOD T("a", "\"F32\"", "[2]", 0, 8)

static const struct malformed {
    const char *json;
    size_t data;
    const char *message;
} malformed[] = {
    {"[1, 2]", 0, "does not begin with {"},
    {"{\"a\":", 0, "the header is not JSON: byte "},
    {"{" GOOD "," GOOD "}", 16, "the header is not JSON: "},
    {"{" GOOD "} x", 8, "the header is not JSON: "},
    {"{\"a\":[]}", 0, "a must have dtype, shape and data_offsets and nothing else"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "a must have dtype, shape and data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8,
     "a must have dtype, shape and data_offsets and nothing else"},
    {"{" T("a", "32", "[2]", 0, 8) "}", 8, "a: dtype must be a string"},
    {"{" T("a", "\"F65\"", "[1]", 0, 8) "}", 8, "a: element type F65 is not known"},
    {"{" T("a", "\"F64\"", "[2]", 0, 8) "}", 8, "a: data_offsets do not hold [2] of F64"},
    {"{" T("a", "\"F32\"", "2", 0, 8) "}", 8, "a: shape must be a list of at most 6 integers"},
    {"{" T("a", "\"F32\"", "[1,1,1,1,1,1,2]", 0, 8) "}", 8, "a: shape must be a list of at most 6"},
    {"{" T("a", "\"F32\"", "[2.0]", 0, 8) "}", 8, "a: shape must hold integers"},
    {"{" T("a", "\"F32\"", "[-2]", 0, 8) "}", 8, "a: shape must hold integers"},
    {"{" T("a", "\"F32\"", "[2]", -8, 0) "}", 8, "a: data_offsets must hold integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "a: data_offsets do not hold [2] of F32"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,16]}}", 8,
     "a: data_offsets must be a list of at most 2 integers"},
    {"{" T("a", "\"F32\"", "[2]", 8, 0) "}", 8, "a: data_offsets do not hold [2] of F32"},
    {"{" T("a", "\"F32\"", "[2]", 0, 12) "}", 12, "a: data_offsets do not hold [2] of F32"},
    {"{" T("a", "\"F32\"", "[4611686018427387904,4]", 0, 0) "}", 0, "a: data_offsets do not hold"},
    {"{" T("a", "\"F32\"", "[99999999999999999999]", 0, 8) "}", 8, "the header is not JSON: "},
    {"{" GOOD "}", 4, "a ends at byte 8 of 4: the file is cut short or damaged"},
    {"{" GOOD "}", 12, "4 bytes after the last tensor"},
    {"{" GOOD "," T("b", "\"F32\"", "[2]", 4, 12) "}", 12, "b overlaps another tensor"},
    {"{" GOOD "," T("b", "\"F32\"", "[2]", 12, 20) "}", 20, "b comes after a hole"},
    {"{" T("b", "\"F32\"", "[2]", 4, 12) "}", 12, "b comes after a hole"},
    {"{\"__metadata__\":3," GOOD "}", 8, "__metadata__ must be an object"},
    {"{\"__metadata__\":{\"k\":3}," GOOD "}", 8, "__metadata__: k must be a string"},
};

static void test_malformed(void **state)
{
    charl_tensor_file *s = NULL;

    (void)state;
    charl_assert_ok(charl_tensor_file_open(write_header("{" GOOD "}   ", 8), &s));
    charl_tensor_file_close(s);
    charl_assert_ok(charl_tensor_file_open(write_header("{}", 0), &s));
    charl_tensor_file_close(s);
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        const char *path = write_header(malformed[i].json, malformed[i].data);

        charl_assert_status(charl_tensor_file_open(path, &s), CHARL_ERR_CHECKPOINT);
        charl_assert_message(malformed[i].message);
        charl_assert_message("bad.safetensors: ");
        assert_null(s);
    }
}

/* A tensor of a type that charl does not have is listed, and cannot be read; the others can. */
static void test_other_types(void **state)
{
    charl_tensor_file *s = NULL;
    const charl_checkpoint_tensor *t;
    double values[2];

    (void)state;
    charl_assert_ok(charl_tensor_file_open(
        write_header("{" GOOD "," T("b", "\"F64\"", "[1]", 8, 16) "," T("c", "\"BOOL\"", "[2,2]", 16, 20) "}", 20),
        &s));
    assert_int_equal(charl_tensor_file_get_count(s), 3);
    charl_assert_ok(charl_tensor_file_read(s, charl_tensor_file_find(s, "a"), values));
    t = charl_tensor_file_find(s, "c");
    assert_int_equal(t->dtype, CHARL_DTYPE_COUNT);
    charl_assert_status(charl_tensor_file_read(s, t, values), CHARL_ERR_CHECKPOINT);
    charl_assert_message("bad.safetensors: c: element type BOOL cannot be read; there are F32");
    charl_tensor_file_close(s);
}

static void test_lengths(void **state)
{
    static const uint64_t lengths[] = {0, 1, 25, 100000001, (uint64_t)1 << 63, UINT64_MAX};
    unsigned char file[32] = {0};
    charl_tensor_file *s = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memcpy(file, &lengths[i], 8);
        charl_assert_status(charl_tensor_file_open(write_file(file, sizeof file), &s), CHARL_ERR_CHECKPOINT);
        charl_assert_message("is not a safetensors file: a header of");
    }
    charl_assert_status(charl_tensor_file_open(write_file(file, 7), &s), CHARL_ERR_CHECKPOINT);
    charl_assert_message("is too short");
    charl_assert_status(charl_tensor_file_open(charl_test_path(dir, "absent"), &s), CHARL_ERR_CHECKPOINT);
    charl_assert_status(charl_tensor_file_open(dir, &s), CHARL_ERR_CHECKPOINT);
    charl_assert_message("has no weights: none of model.safetensors, model.safetensors.index.json");
}

static void test_deep_nesting(void **state)
{
    static char json[40000];
    charl_tensor_file *s = NULL;

    (void)state;
    strcpy(json, "{\"a\":");
    memset(json + 5, '[', sizeof json - 6);
    charl_assert_status(charl_tensor_file_open(write_header(json, 0), &s), CHARL_ERR_CHECKPOINT);
    charl_assert_message("the header is not JSON: ");
}

static size_t draw(size_t below)
{
    static uint64_t draws;

    return charl_test_random(0, draws++) % below;
}

/* Change a few bytes of the header, mostly into what JSON is made of; or cut the file. */
static size_t mutate(unsigned char *file, size_t n, size_t header)
{
    static const char alphabet[] = "{}[]\",:0123456789-.eE\\ \0\377Ffalsn";
    const size_t changes = 1 + draw(4);

    for (size_t i = 0; i < changes; i++) {
        file[draw(8 + header)] = (unsigned char)alphabet[draw(sizeof alphabet)];
    }
    return draw(8) ? n : 1 + draw(n);
}

static void test_damage(void **state)
{
    static unsigned char good[FILE_BYTES], bad[FILE_BYTES], data[FILE_BYTES];
    const size_t n = read_file(charl_test_path(dir, "m.safetensors"), good);
    uint64_t header;
    int refused = 0;

    (void)state;
    memcpy(&header, good, 8);
    for (int i = 0; i < MUTATIONS; i++) {
        charl_tensor_file *s = NULL;
        const long alive = charl_test_live();
        charl_status st;

        memcpy(bad, good, n);
        st = charl_tensor_file_open(write_file(bad, mutate(bad, n, header)), &s);
        assert_true(st == CHARL_OK || st == CHARL_ERR_CHECKPOINT);
        for (int64_t k = 0; s && k < charl_tensor_file_get_count(s); k++) {
            charl_assert_ok(charl_tensor_file_read(s, charl_tensor_file_get(s, k), data));
        }
        refused += st != CHARL_OK;
        charl_tensor_file_close(s);
        assert_int_equal(charl_test_live(), alive);
    }
    assert_true(refused > MUTATIONS / 2);
}

static charl_status scenario(void *ctx)
{
    const char *path = ctx;
    charl_tensor_file *s = NULL;
    charl_status st = charl_safetensors_save(path, tensors, N_TENSORS, NULL);

    if (st == CHARL_OK) {
        st = charl_tensor_file_open(path, &s);
    }
    charl_tensor_file_close(s);
    return st;
}

/* A model has more files than a process may open. */
static void test_many_files(void **state)
{
    char path[512];
    struct rlimit limit, low;
    charl_tensor_file *s = NULL;
    const long live = charl_test_live();

    (void)state;
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "many.safetensors"));
    charl_assert_ok(charl_safetensors_save(path, NULL, 0, NULL));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    charl_assert_status(charl_tensor_file_open(path, &s), CHARL_ERR_NOMEM);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    charl_assert_message("raise the limit with `ulimit -n`");
    assert_int_equal(charl_test_live(), live);
}

static void test_faults(void **state)
{
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "f.safetensors"));
    charl_test_fail_every_acquisition(scenario, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_form),
                                       cmocka_unit_test(test_save_refuses), cmocka_unit_test(test_malformed),
                                       cmocka_unit_test(test_lengths),      cmocka_unit_test(test_deep_nesting),
                                       cmocka_unit_test(test_other_types),  cmocka_unit_test(test_damage),
                                       cmocka_unit_test(test_faults),       cmocka_unit_test(test_many_files)};

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}

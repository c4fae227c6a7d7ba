/* Round trip, refusals of descriptions, and of files that are no checkpoints or tampered with. */
#include <fcntl.h>
#include <hdf5.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/checkpoint_sample.h"
#include "charl/error.h"
#include "io/scratch.h"

static sample s;

static int setup(void **state)
{
    setup_dir(state);
    sample_init(&s, 7);
    return 0;
}

static void test_round_trip(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    charl_checkpoint_reader *r = NULL;
    const charl_checkpoint_state *got;

    (void)state;
    s.c.state.skipped_steps = 3;
    charl_assert_ok(charl_checkpoint_save(path, &s.c));
    charl_assert_ok(charl_checkpoint_verify(path));
    charl_assert_ok(charl_checkpoint_open(path, &r));
    assert_true(sample_matches(&s, r));
    got = charl_checkpoint_get_info(r).state;
    assert_string_equal(got->writer, "charl test");
    assert_int_equal(got->epoch, 1);
    assert_int_equal(got->samples_in_epoch, 32);
    assert_int_equal(got->samples_seen, 7 * 64);
    assert_int_equal(got->seed, 1234567890123LL);
    assert_string_equal(got->rng, "philox4x32-10");
    assert_int_equal(got->lr_step, 7);
    assert_true(got->loss_scale == 1024.0);
    assert_int_equal(got->slices, 8);
    assert_int_equal(got->batch_size, 64);
    assert_true(isnan(got->best_metric));
    assert_int_equal(got->best_step, 5);
    assert_int_equal(got->stale_evals, 0);
    assert_int_equal(got->skipped_steps, 3);
    assert_int_equal(got->world_size, 4);
    assert_string_equal(got->device, "pthread-test");
    assert_string_equal(got->driver, "3.1");
    assert_string_equal(got->data_path, "data.h5");
    assert_int_equal(got->data_n_samples, 60000);
    assert_string_equal(got->data_content_id, "c0ffee");
    assert_string_equal(got->data_shuffle, "feistel6-v1");
    assert_string_equal(got->optim_kind, "adam");
    assert_int_equal(got->optim_t, 7);
    assert_string_equal(charl_checkpoint_get_info(r).config_text, "[train]\nsteps = 10\n");
    assert_string_equal(charl_checkpoint_get_tensor(r, 1)->name, "conv.weight"); /* as saved */
    assert_null(charl_checkpoint_get_tensor(r, -1));
    assert_null(charl_checkpoint_get_tensor(r, SAMPLE_TENSORS));
    assert_null(charl_checkpoint_find(r, "model", "no such"));
    assert_null(charl_checkpoint_find(r, "config", "text"));
    assert_null(charl_checkpoint_find(r, "schema", "mean"));
    assert_int_equal(charl_checkpoint_get_info(r).schema->classes, 2);
    charl_checkpoint_close(r);
}

static void test_minimal_and_same_bytes(void **state)
{
    charl_checkpoint c = {.state = {.slices = 1, .batch_size = 1, .world_size = 1}};
    char a[16384], b[16384];
    charl_checkpoint_reader *r = NULL;
    FILE *f;
    size_t n;

    (void)state;
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl_checkpoint_save(charl_test_path(dir, i ? "b.h5" : "a.h5"), &c));
        f = fopen(charl_test_path(dir, i ? "b.h5" : "a.h5"), "rb");
        assert_non_null(f);
        n = fread(i ? b : a, 1, sizeof a, f);
        fclose(f);
    }
    assert_true(n > 0 && n < sizeof a);
    assert_memory_equal(a, b, n);
    charl_assert_ok(charl_checkpoint_open(charl_test_path(dir, "a.h5"), &r));
    assert_int_equal(charl_checkpoint_get_info(r).n_tensors, 0);
    assert_string_equal(charl_checkpoint_get_info(r).config_text, "");
    assert_string_equal(charl_checkpoint_get_info(r).state->device, "");
    assert_string_equal(charl_checkpoint_get_info(r).state->run_id, "");
    assert_null(charl_checkpoint_get_info(r).schema);
    assert_memory_equal(charl_checkpoint_get_info(r).state->writer, "charl ", 6);
    charl_checkpoint_close(r);
}

static void test_many_tensors(void **state)
{
    enum { COUNT = 700 };
    static charl_checkpoint_tensor tensors[COUNT];
    static char names[COUNT][32];
    float value[4] = {1, 2, 3, 4};
    charl_checkpoint_reader *r = NULL;

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "layer%d.weight", i);
        tensors[i] = (charl_checkpoint_tensor){i % 3 ? "model" : "optim/m", names[i], CHARL_F32, {1, {4}}, value, 0};
    }
    s.c.tensors = tensors;
    s.c.n_tensors = COUNT;
    charl_assert_ok(charl_checkpoint_save(charl_test_path(dir, "a.h5"), &s.c));
    charl_assert_ok(charl_checkpoint_open(charl_test_path(dir, "a.h5"), &r));
    assert_int_equal(charl_checkpoint_get_info(r).n_tensors, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_string_equal(charl_checkpoint_get_tensor(r, i)->name, names[i]);
    }
    charl_checkpoint_close(r);
}

static void save_invalid(const char *message)
{
    const char *path = charl_test_path(dir, "a.h5");

    charl_assert_status(charl_checkpoint_save(path, &s.c), CHARL_ERR_INVALID);
    charl_assert_message(message);
    assert_int_not_equal(access(path, F_OK), 0);
    sample_init(&s, 7);
}

static void test_invalid_descriptions(void **state)
{
    static char long_text[5000];

    (void)state;
    memset(long_text, 'x', sizeof long_text - 1);
    s.tensors[0].name = "a/b";
    save_invalid("model/a/b");
    s.tensors[0].name = "a b";
    save_invalid("cannot be the name");
    s.tensors[0].name = "..";
    save_invalid("cannot be the name");
    s.tensors[0].name = NULL;
    save_invalid("cannot be the name");
    s.tensors[0].group = "state";
    save_invalid("cannot be the name");
    s.tensors[0].group = NULL;
    save_invalid("cannot be the name");
    s.tensors[0].group = "optim/";
    save_invalid("cannot be the name");
    s.tensors[0].data = NULL;
    save_invalid("/model/fc1.weight has no data");
    s.tensors[0].shape.dim[0] = -1;
    save_invalid("impossible");
    s.tensors[0].shape = (charl_shape){2, {INT64_MAX / 4, 2}};
    save_invalid("impossible");
    s.tensors[0].dtype = CHARL_DTYPE_COUNT;
    save_invalid("impossible");
    s.tensors[1].name = "fc1.weight";
    save_invalid("/model/fc1.weight is given twice");
    s.c.state.step = -1;
    save_invalid("step is -1");
    s.c.state.slices = 0;
    save_invalid("slices is 0");
    s.c.state.device = long_text;
    save_invalid("device is longer");
    s.c.n_tensors = -1;
    save_invalid("n_tensors, -1");
}

static void refused(const char *path, const char *message)
{
    charl_checkpoint_reader *r = NULL;

    charl_assert_status(charl_checkpoint_verify(path), CHARL_ERR_CHECKPOINT);
    charl_assert_message(message);
    charl_assert_message(path);
    charl_assert_status(charl_checkpoint_open(path, &r), CHARL_ERR_CHECKPOINT);
    assert_null(r);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_not_a_checkpoint(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    hid_t file;

    (void)state;
    refused(path, "No such file");
    write_file(path, "");
    refused(path, "is empty");
    write_file(path, "not HDF5, but long enough to hold a superblock if it were one, which it is not."
                     " More text so that it is longer than any header.");
    refused(path, "is a text, not a checkpoint");
    unlink(path);
    assert_int_equal(mkfifo(path, 0666), 0);
    refused(path, "not a regular file");
    unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    refused(path, " is an empty folder, not a checkpoint");
    rmdir(path);
    path = charl_test_path(dir, "a.safetensors");
    write_file(path, "{}");
    refused(path, " is one JSON object, not a checkpoint");
    unlink(path);
    path = charl_test_path(dir, "a.h5");
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    H5Fclose(file);
    refused(path, "is an HDF5 file that charl did not write, not a checkpoint");
}

/* Save the sample and open it for tampering, with HDF5's own driver. */
static hid_t tamper(const char *path)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    hid_t file;

    charl_assert_ok(charl_checkpoint_save(path, &s.c));
    H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110);
    file = H5Fopen(path, H5F_ACC_RDWR, fapl);
    assert_true(file >= 0);
    H5Pclose(fapl);
    return file;
}

static void set_attr(hid_t file, const char *object, const char *name, int64_t value)
{
    hid_t owner = H5Oopen(file, object, H5P_DEFAULT);
    hid_t attr = H5Aopen(owner, name, H5P_DEFAULT);

    assert_true(attr >= 0);
    assert_true(H5Awrite(attr, H5T_NATIVE_INT64, &value) >= 0);
    H5Aclose(attr);
    H5Oclose(owner);
}

static void test_tampered_attributes(void **state)
{
    static const struct {
        const char *object, *name;
        int64_t value;
        const char *message;
    } cases[] = {
        {"/", "charl_version", 7, "format version 7, this charl reads versions 1 to 4"},
        {"/", "complete", 0, "incomplete"},
        {"/", "step", -3, "step is -3"},
        {"/state", "slices", 0, "slices is 0"},
        {"/model/fc1.weight", "crc32c", 1, "/model/fc1.weight: attributes crc32c"},
        {"/model/fc1.weight", "index", 9, "/model/fc1.weight: attributes crc32c"},
    };
    const char *path = charl_test_path(dir, "a.h5");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hid_t file = tamper(path);

        set_attr(file, cases[i].object, cases[i].name, cases[i].value);
        H5Fclose(file);
        refused(path, cases[i].message);
    }
    for (int i = 0; i < 4; i++) {
        static const char *const names[][3] = {{"/", "complete", "incomplete"},
                                               {"/", "charl_version", "charl_version is missing"},
                                               {"/state", "rng", "rng is missing"},
                                               {"/manifest", "sha256", "sha256 is missing"}};
        hid_t file = tamper(path);

        assert_true(H5Adelete_by_name(file, names[i][0], names[i][1], H5P_DEFAULT) >= 0);
        H5Fclose(file);
        refused(path, names[i][2]);
    }
}

static void put_dataset(hid_t file, const char *name, hid_t type, hid_t dcpl)
{
    const hsize_t dims[2] = {2, 3};
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);

    assert_true(set >= 0);
    H5Dclose(set);
    H5Sclose(space);
}

/* Replace /model/fc1.weight, which the manifest knows, by something else of that name. */
static hid_t without_weight(const char *path)
{
    hid_t file = tamper(path);

    assert_true(H5Ldelete(file, "/model/fc1.weight", H5P_DEFAULT) >= 0);
    return file;
}

static void test_tampered_links(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    hid_t file = without_weight(path);

    (void)state;
    H5Fclose(file);
    refused(path, "group /model holds 4 objects, 5 are expected");
    file = without_weight(path);
    assert_true(H5Lcreate_soft("/ema/fc1.weight", file, "/model/fc1.weight", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Fclose(file);
    refused(path, "/model/fc1.weight is a soft or external link");
    file = without_weight(path);
    assert_true(H5Lcreate_external("/etc/hostname", "/x", file, "/model/fc1.weight", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Fclose(file);
    refused(path, "/model/fc1.weight is a soft or external link");
    file = without_weight(path); /* a second name for another tensor: same type and shape */
    assert_true(H5Lcreate_hard(file, "/ema/fc1.weight", file, "/model/fc1.weight", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Fclose(file);
    refused(path, "/model/fc1.weight");
    file = tamper(path); /* swapped */
    assert_true(H5Lmove(file, "/model/fc1.weight", file, "/tmp1", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lmove(file, "/ema/fc1.weight", file, "/model/fc1.weight", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lmove(file, "/tmp1", file, "/ema/fc1.weight", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Fclose(file);
    refused(path, "fc1.weight");
    file = without_weight(path);
    H5Gclose(H5Gcreate2(file, "/model/fc1.weight", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Fclose(file);
    refused(path, "/model/fc1.weight is not a readable dataset");
    file = tamper(path);
    put_dataset(file, "/model/extra", H5T_IEEE_F32LE, H5P_DEFAULT);
    H5Fclose(file);
    refused(path, "group /model holds 6 objects, 5 are expected");
    file = tamper(path);
    put_dataset(file, "/extra", H5T_IEEE_F32LE, H5P_DEFAULT);
    H5Fclose(file);
    refused(path, "group / holds 9 objects, 8 are expected");
    file = tamper(path);
    assert_true(H5Ldelete(file, "/schema/columns", H5P_DEFAULT) >= 0);
    H5Fclose(file);
    refused(path, "group /schema holds 5 objects, 6 are expected");
    file = tamper(path);
    set_attr(file, "/", "charl_version", 1);
    H5Fclose(file);
    refused(path, "/schema/description is not expected in a checkpoint");
    file = tamper(path);
    assert_true(H5Ldelete(file, "/manifest", H5P_DEFAULT) >= 0);
    H5Fclose(file);
    refused(path, "/manifest is missing");
    file = tamper(path);
    assert_true(H5Ldelete(file, "/state", H5P_DEFAULT) >= 0);
    put_dataset(file, "/state", H5T_IEEE_F32LE, H5P_DEFAULT);
    H5Fclose(file);
    refused(path, "/state is not a readable group");
}

static void test_tampered_storage(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    const hsize_t chunk[2] = {2, 3};
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t file = without_weight(path);

    (void)state;
    H5Pset_external(dcpl, "/etc/hostname", 0, 24);
    put_dataset(file, "/model/fc1.weight", H5T_IEEE_F32LE, dcpl);
    H5Fclose(file);
    H5Pclose(dcpl);
    refused(path, "model/fc1.weight is stored in another file");
    dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 2, chunk);
    file = without_weight(path);
    put_dataset(file, "/model/fc1.weight", H5T_IEEE_F32LE, dcpl);
    H5Fclose(file);
    H5Pclose(dcpl);
    refused(path, "model/fc1.weight is not stored contiguously");
    file = without_weight(path);
    put_dataset(file, "/model/fc1.weight", H5T_IEEE_F32LE, H5P_DEFAULT);
    H5Fclose(file);
    refused(path, "model/fc1.weight was never written");
    file = without_weight(path);
    put_dataset(file, "/model/fc1.weight", H5T_IEEE_F32BE, H5P_DEFAULT);
    H5Fclose(file);
    refused(path, "the element type is not f32");
    file = tamper(path);
    assert_true(H5Ldelete(file, "/ema/fc1.weight", H5P_DEFAULT) >= 0);
    assert_true(H5Lmove(file, "/model/bn.num_batches", file, "/ema/fc1.weight", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_hard(file, "/model/fc1.weight", file, "/model/bn.num_batches", H5P_DEFAULT, H5P_DEFAULT) >=
                0);
    H5Fclose(file);
    refused(path, "element type");
}

/* Change contents through HDF5, so that its own checksums are right. */
static void test_tampered_contents(void **state)
{
    static const struct {
        const char *name, *message;
    } cases[] = {{"/model/fc1.weight", "/model/fc1.weight is damaged"},
                 {"/config/text", "/config/text is damaged"},
                 {"/schema/class_names", "/schema/class_names is damaged"},
                 {"/schema/description", "/schema/description is damaged"},
                 {"/schema/mean", "/schema/mean is damaged"},
                 {"/manifest", "the manifest is damaged"}};
    const char *path = charl_test_path(dir, "a.h5");
    static char buffer[16384];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hid_t file = tamper(path);
        hid_t set = H5Dopen2(file, cases[i].name, H5P_DEFAULT);
        hid_t type = H5Dget_type(set);

        assert_true(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer) >= 0);
        buffer[5] ^= 4;
        assert_true(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer) >= 0);
        H5Tclose(type);
        H5Dclose(set);
        H5Fclose(file);
        if (i == 0) { /* tensors are checked when they are read */
            charl_assert_status(charl_checkpoint_verify(path), CHARL_ERR_CHECKPOINT);
            charl_assert_message(cases[i].message);
        } else {
            refused(path, cases[i].message);
        }
    }
}

static void test_read_errors(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    charl_checkpoint_reader *r = NULL;
    const charl_checkpoint_tensor *t;
    charl_checkpoint_tensor foreign;
    static float got[SAMPLE_LARGE];

    (void)state;
    charl_assert_ok(charl_checkpoint_save(path, &s.c));
    charl_assert_ok(charl_checkpoint_open(path, &r));
    t = charl_checkpoint_find(r, "model", "conv.weight");
    charl_test_fault_set("io.read:1");
    charl_assert_status(charl_checkpoint_read(r, t, got), CHARL_ERR_CHECKPOINT);
    charl_assert_message("/model/conv.weight cannot be read");
    charl_test_fault_set("io.readflip:1");
    charl_assert_status(charl_checkpoint_read(r, t, got), CHARL_ERR_CHECKPOINT);
    charl_assert_message("/model/conv.weight is damaged");
    charl_test_fault_set(NULL);
    foreign = *t;
    charl_assert_status(charl_checkpoint_read(r, &foreign, got), CHARL_ERR_INVALID);
    charl_assert_status(charl_checkpoint_read(r, NULL, got), CHARL_ERR_INVALID);
    charl_assert_ok(charl_checkpoint_read(r, t, got));
    assert_int_equal(truncate(path, 4096), 0);
    charl_assert_status(charl_checkpoint_read(r, t, got), CHARL_ERR_CHECKPOINT);
    charl_assert_message("the file ends inside /model/conv.weight");
    charl_checkpoint_close(r);
    charl_assert_ok(charl_checkpoint_save(path, &s.c));
    charl_test_fault_set("io.open:1");
    charl_assert_status(charl_checkpoint_open(path, &r), CHARL_ERR_CHECKPOINT);
}

static charl_status save_open_read(void *ctx)
{
    charl_status st = CHARL_OK;
    const char *path = ctx;
    charl_checkpoint_reader *r = NULL;
    static float got[SAMPLE_LARGE];

    CHARL_TRY_CLEANUP(charl_checkpoint_save(path, &s.c));
    CHARL_TRY_CLEANUP(charl_checkpoint_verify(path));
    CHARL_TRY_CLEANUP(charl_checkpoint_open(path, &r));
    CHARL_TRY_CLEANUP(charl_checkpoint_read(r, charl_checkpoint_get_tensor(r, 1), got));
cleanup:
    charl_checkpoint_close(r);
    return st;
}

static charl_status diff_once(void *ctx)
{
    charl_status st = CHARL_OK;
    const char *const *paths = ctx;
    bool same = false;
    char *report = NULL;

    CHARL_TRY_CLEANUP(charl_checkpoint_diff(paths[0], paths[1], &same, &report));
cleanup:
    charl_free(report);
    return st;
}

static void test_every_acquisition(void **state)
{
    char path[256];

    (void)state;
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "a.h5"));
    assert_true(charl_test_fail_every_acquisition(save_open_read, path) > 100);
}

static void test_diff(void **state)
{
    const char *a = charl_test_path(dir, "a.h5"), *b = charl_test_path(dir, "b.h5");
    const char *paths[2] = {a, b};
    bool same = false;
    char *report = NULL;

    (void)state;
    charl_assert_ok(charl_checkpoint_save(a, &s.c));
    s.c.state.world_size = 1;
    s.c.state.device = "another";
    s.c.state.run_id = "another run";
    charl_assert_ok(charl_checkpoint_save(b, &s.c));
    charl_assert_ok(charl_checkpoint_diff(a, b, &same, &report));
    assert_true(same);
    assert_string_equal(report, "");
    charl_free(report);
    s.weight[4] += 0.5F;
    s.half[0] ^= 1;
    s.tensors[7].group = "model";
    s.tensors[7].name = "renamed";
    s.tensors[8].shape = (charl_shape){2, {2, 1}};
    s.c.state.epoch = 2;
    s.c.state.loss_scale = 1;
    s.c.state.optim_kind = "sgd";
    s.c.config_text = "";
    s.resolved[0] = 'T';
    s.schema.class_names = sample_text("d\xc3\xb6g\ncat");
    s.schema.classes = 3;
    s.std[1] = 2;
    charl_assert_ok(charl_checkpoint_save(b, &s.c));
    charl_assert_ok(charl_checkpoint_diff(a, b, &same, &report));
    assert_false(same);
    assert_string_equal(report, "epoch: 1, 2\n"
                                "loss_scale: 1024, 1\n"
                                "kind: 'adam', 'sgd'\n"
                                "config/text differs\n"
                                "config/resolved differs\n"
                                "schema: classes: 2, 3\n"
                                "schema: class names: other text\n"
                                "schema: mean or std differs\n"
                                "model/fc1.weight: 1 of 6 elements differ, by up to 0.5\n"
                                "optim/exp_avg/fc1.weight: 1 of 5 elements differ\n"
                                "ema/fc1.weight: only in the first\n"
                                "model/ids: i32 [2], i32 [2, 1]\n"
                                "model/renamed: only in the second\n");
    charl_free(report);
    assert_true(charl_test_fail_every_acquisition(diff_once, paths) > 10);
    unlink(b);
    charl_assert_status(charl_checkpoint_diff(a, b, &same, &report), CHARL_ERR_CHECKPOINT);
    assert_null(report);
}

/* The base: what a checkpoint leaves to the weights that its run started from. */
static const float base_values[4] = {1.5F, -2, 0.25F, 8};
/* CRC-32C, bit by bit. */
static uint32_t crc32c(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint32_t crc = ~0U;

    for (size_t i = 0; i < 8 * n; i++) {
        crc ^= i % 8 == 0 ? p[i / 8] : 0;
        crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static void base_sample(charl_checkpoint *c, charl_checkpoint_tensor t[2])
{
    sample_init(&s, 7);
    *c = s.c;
    t[0] = (charl_checkpoint_tensor){CHARL_CHECKPOINT_BASE, "wte.weight", CHARL_F32,
                                     {2, {2, 2}},           NULL,         crc32c(base_values, sizeof base_values)};
    t[1] = s.c.tensors[0];
    c->tensors = t;
    c->n_tensors = 2;
}

static void check_base(const char *path)
{
    charl_checkpoint_reader *r = NULL;
    const charl_checkpoint_tensor *t;
    float got[4];

    charl_assert_ok(charl_checkpoint_verify(path));
    charl_assert_ok(charl_checkpoint_open(path, &r));
    t = charl_checkpoint_find(r, "model", "wte.weight");
    assert_non_null(t);
    assert_int_equal(t->shape.dim[1], 2);
    assert_true(charl_checkpoint_is_in_base(r, t));
    assert_false(charl_checkpoint_is_in_base(r, charl_checkpoint_get_tensor(r, 1)));
    charl_assert_status(charl_checkpoint_read(r, t, got), CHARL_ERR_CHECKPOINT);
    charl_assert_message("holds only the trained weights");
    charl_checkpoint_close(r);
}

static void test_base(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    charl_checkpoint c;
    charl_checkpoint_tensor t[3];
    charl_checkpoint_reader *r = NULL;
    const char *paths[2] = {path, path};
    char out[600];

    (void)state;
    base_sample(&c, t);
    charl_assert_ok(charl_checkpoint_save(path, &c));
    check_base(path);
    check_base("checkpoints/golden-v3.h5");
    snprintf(out, sizeof out, "%s.mean", path);
    charl_assert_ok(charl_checkpoint_average(paths, 2, out)); /* what is in the base stays there */
    charl_assert_ok(charl_checkpoint_open(out, &r));
    assert_true(charl_checkpoint_is_in_base(r, charl_checkpoint_find(r, "model", "wte.weight")));
    charl_checkpoint_close(r);
    t[2] = t[0]; /* held and left to the base */
    t[2].group = "model";
    t[2].data = base_values;
    c.n_tensors = 3;
    charl_assert_status(charl_checkpoint_save(path, &c), CHARL_ERR_INVALID);
    charl_assert_message("/model/wte.weight is given twice");
}

/* Files of every format version, which every later charl must load; `test_checkpoint --golden PATH` and, for version 3, `--golden-base PATH`
 * wrote them. */
static void test_golden(void **state)
{
    charl_checkpoint_reader *r = NULL;

    (void)state;
    for (int version = 1; version <= 2; version++) {
        char path[64];

        (version == 1 ? sample_init_v1 : sample_init)(&s, 7);
        snprintf(path, sizeof path, "checkpoints/golden-v%d.h5", version);
        charl_assert_ok(charl_checkpoint_verify(path));
        charl_assert_ok(charl_checkpoint_open(path, &r));
        assert_true(sample_matches(&s, r));
        charl_checkpoint_close(r);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_minimal_and_same_bytes, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_many_tensors, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_invalid_descriptions, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_not_a_checkpoint, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_tampered_attributes, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_tampered_links, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_tampered_storage, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_tampered_contents, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_read_errors, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_every_acquisition, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_diff, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_base, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_golden, setup, teardown_dir),
    };

    if (argc == 3 && strcmp(argv[1], "--golden") == 0) {
        sample_init(&s, 7);
        return charl_checkpoint_save(argv[2], &s.c) == CHARL_OK ? 0 : 1;
    }
    if (argc == 3 && strcmp(argv[1], "--golden-base") == 0) { /* version 3 */
        charl_checkpoint c;
        charl_checkpoint_tensor t[2];

        base_sample(&c, t);
        return charl_checkpoint_save(argv[2], &c) == CHARL_OK ? 0 : 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Options of a program that was compiled with other headers. */
#include "io/scratch.h"

#include <string.h>

#include "charl/dataset.h"
#include "charl/import.h"
#include "charl/version.h"

static char path[512];
static int notes;

/* The importer says that validation rows are the last ones. */
static void count_note(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
    notes++;
}

static int setup(void **state)
{
    setup_dir(state);
    snprintf(path, sizeof path, "%s/d.h5", dir);
    return 0;
}

static charl_make_options valid(void)
{
    return (charl_make_options){sizeof(charl_make_options), .kind = "regression", .n_train = 4, .n_val = 2, .seed = 1,
                                .overwrite = true};
}

static void check_rows(int64_t train, int64_t val)
{
    charl_dataset *ds = NULL;
    charl_dataset_info info;

    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    assert_int_equal(info.rows[CHARL_SPLIT_TRAIN], train);
    assert_int_equal(info.rows[CHARL_SPLIT_VAL], val);
    charl_dataset_close(ds);
}

static void test_same(void **state)
{
    const charl_make_options o = valid();

    (void)state;
    charl_assert_ok(charl_dataset_make(path, &o));
    check_rows(4, 2);
    charl_assert_ok(charl_dataset_make(path, &o));
}

/* The members that it does not have are 0, whatever lies behind it. */
static void test_older(void **state)
{
    charl_make_options o = valid();

    (void)state;
    o.struct_size = offsetof(charl_make_options, n_val);
    charl_assert_status(charl_dataset_make(path, &o), CHARL_ERR_CONFIG);
    charl_assert_message("exists already");
    remove(path);
    charl_assert_ok(charl_dataset_make(path, &o));
    check_rows(4, 0);
}

static void test_newer(void **state)
{
    struct {
        charl_make_options known;
        int64_t more[2];
    } o = {valid(), {0, 0}};

    (void)state;
    o.known.struct_size = sizeof o;
    charl_assert_ok(charl_dataset_make(path, &o.known));
    check_rows(4, 2);
    o.more[1] = 1;
    charl_assert_status(charl_dataset_make(path, &o.known), CHARL_ERR_INVALID);
    charl_assert_message("a member that charl " CHARL_VERSION " does not have");
}

/* The padding of a version holds anything, and is no member of an older or newer one. */
static void test_padding(void **state)
{
    struct {
        charl_make_options known; /* ends in seven bytes of padding */
        int64_t more;
    } later;
    charl_import_options o;
    char table[512];
    const char *files = table;

    (void)state;
    memset(&later, 0xff, sizeof later);
    later.known.struct_size = sizeof later;
    later.known.kind = "regression";
    later.known.n_train = 4;
    later.known.n_val = 0;
    later.known.seed = 1;
    later.known.overwrite = true;
    later.more = 0;
    charl_assert_ok(charl_dataset_make(path, &later.known));
    check_rows(4, 0);

    snprintf(table, sizeof table, "%s/t.csv", dir);
    put_file(table, "a,b,y\n1,2,0\n3,4,1\n5,,0\n", 23);
    memset(&o, 0xff, sizeof o); /* seven bytes of padding lie before `noted` */
    o.val_split = 0;
    o.in_order = false;
    o.seed = 0;
    o.overwrite = true;
    o.noted = count_note;
    o.ctx = NULL;
    o.struct_size = sizeof o;
    charl_assert_ok(charl_import("csv", (const char *const[]){"label=y", "missing=mean", NULL}, &files, 1, path, &o));
    assert_true(notes > 0);
    notes = 0;
    o.struct_size = offsetof(charl_import_options, noted); /* it lies behind what the program has */
    charl_assert_ok(charl_import("csv", (const char *const[]){"label=y", "missing=mean", NULL}, &files, 1, path, &o));
    assert_int_equal(notes, 0);
    check_rows(3, 0);
}

static void test_not_set(void **state)
{
    charl_make_options o = valid();

    (void)state;
    o.struct_size = 0;
    charl_assert_status(charl_dataset_make(path, &o), CHARL_ERR_INVALID);
    assert_string_equal(charl_error_message(),
                        "charl_make_options.struct_size is 0: set it to sizeof(charl_make_options)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),    cmocka_unit_test(test_older),   cmocka_unit_test(test_newer),
        cmocka_unit_test(test_padding), cmocka_unit_test(test_not_set),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}

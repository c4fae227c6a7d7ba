/* Clearing a run directory removes what charl named, and nothing that a user put there. */
#include "support/support.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "charl/checkpoint.h"
#include "train/rundir.h"

static void touch(const char *dir, const char *name)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

static bool exists(const char *dir, const char *name)
{
    char path[4096];
    struct stat info;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return lstat(path, &info) == 0;
}

static void test_clear(void **state)
{
    static const char *const keep[] = {
        "checkpoints/step-1.h5", "checkpoints/step-00000007.h5.bak",
        "checkpoints/notes.txt", "checkpoints/my-step-00000001.h5",
        "metrics.jsonl",         "best.h5",
    };
    char *dir = charl_test_tempdir();
    char path[4096];
    const long live = charl__live();

    (void)state;
    charl_assert_ok(charl__rundir_clear(dir));
    snprintf(path, sizeof path, "%s/checkpoints", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    touch(dir, "checkpoints/step-00000007.h5");
    touch(dir, "checkpoints/step-123456789.h5");
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
        touch(dir, keep[i]);
    }
    snprintf(path, sizeof path, "%s/last.h5", dir);
    assert_int_equal(symlink("checkpoints/step-00000007.h5", path), 0);
    charl_assert_ok(charl__rundir_clear(dir));
    assert_false(exists(dir, "checkpoints/step-00000007.h5"));
    assert_false(exists(dir, "checkpoints/step-123456789.h5"));
    assert_false(exists(dir, "last.h5"));
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
        assert_true(exists(dir, keep[i])); /* best.h5 here is a file, not charl's link */
    }
    assert_int_equal(charl__live(), live);
    charl_test_tempdir_remove(dir);
}

static void test_supersede(void **state)
{
    char *dir = charl_test_tempdir();
    char path[4096];
    const long live = charl__live();
    int moved = -1;

    (void)state;
    charl_assert_ok(charl__rundir_supersede(dir, 0, 0, &moved)); /* no checkpoints, no error */
    assert_int_equal(moved, 0);
    snprintf(path, sizeof path, "%s/checkpoints", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    touch(dir, "checkpoints/step-00000004.h5");
    touch(dir, "checkpoints/step-00000005.h5");
    touch(dir, "checkpoints/step-00000006.h5");
    touch(dir, "checkpoints/step-00000007.h5");
    touch(dir, "checkpoints/step-123456789.h5");
    touch(dir, "checkpoints/step-9.h5");
    snprintf(path, sizeof path, "%s/best.h5", dir);
    assert_int_equal(symlink("checkpoints/step-00000005.h5", path), 0);
    charl_assert_ok(charl__rundir_supersede(dir, 5, 6, &moved));
    assert_int_equal(moved, 2);
    assert_true(exists(dir, "checkpoints/step-00000004.h5"));
    assert_true(exists(dir, "checkpoints/step-00000005.h5"));
    assert_true(exists(dir, "checkpoints/step-00000006.h5"));
    assert_true(exists(dir, "checkpoints/step-9.h5"));
    assert_false(exists(dir, "checkpoints/step-00000007.h5"));
    assert_true(exists(dir, "checkpoints/step-00000007.h5.superseded"));
    assert_true(exists(dir, "checkpoints/step-123456789.h5.superseded"));
    assert_int_equal(charl_run_linked(dir, "best.h5"), 5);
    charl_assert_ok(charl__rundir_supersede(dir, 4, 6, &moved));
    assert_int_equal(moved, 1);
    assert_false(exists(dir, "best.h5"));
    snprintf(path, sizeof path, "%s/checkpoints/step-00000006.h5.superseded", dir);
    assert_int_equal(mkdir(path, 0700), 0); /* rename refuses */
    charl_assert_status(charl__rundir_supersede(dir, 4, 4, &moved), CHARL_ERR_DISK);
    charl_assert_message("cannot rename ");
    assert_int_equal(charl__live(), live);
    charl_test_tempdir_remove(dir);
}

static void test_errors(void **state)
{
    char *dir = charl_test_tempdir();
    char path[4096];
    char deep[5000];
    const long live = charl__live();

    (void)state;
    touch(dir, "checkpoints"); /* not a directory */
    charl_assert_status(charl__rundir_clear(dir), CHARL_ERR_DISK);
    charl_assert_message("checkpoints: Not a directory");
    snprintf(path, sizeof path, "%s/checkpoints", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000001.h5", dir);
    assert_int_equal(mkdir(path, 0700), 0); /* unlink refuses directories */
    charl_assert_status(charl__rundir_clear(dir), CHARL_ERR_DISK);
    charl_assert_message("cannot remove ");
    memset(deep, 'd', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    charl_assert_status(charl__rundir_clear(deep), CHARL_ERR_DISK);
    charl_assert_message("the path dddd");
    charl__fault_after(1);
    charl_assert_status(charl__rundir_clear(dir), CHARL_ERR_NOMEM);
    charl__fault_after(0);
    assert_int_equal(charl__live(), live);
    charl_test_tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_supersede),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

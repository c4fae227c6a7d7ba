/* Choices among the plans of products, and the database that keeps them. */
#include "device/suite.h"
#include "support/on_device.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "charl/tune.h"
#include "tensor/gemm/gemm_private.h"

/* Choosing between plans of a product: what is timed, what is refused, what is kept and read again.
 */

enum { M = 24, N = 100, K = 9 };

static const charl_device_request on_cpu = {sizeof on_cpu, .select = "cpu", .local_size = 1};
static charl_device *shared;
static char *cache; /* of the devices that these tests open */

static charl_device *open_device(const char *mode)
{
    charl_device *dev = NULL;

    charl__env_set(CHARL_ENV_CACHE_DIR, cache);
    charl__env_set(CHARL_ENV_TUNE, mode);
    charl_assert_ok(charl_device_open(&on_cpu, &dev));
    charl__env_set(CHARL_ENV_TUNE, NULL);
    return dev;
}

/* A product on a CPU, with operands. */
typedef struct product {
    charl_tensor *a, *b, *out;
    charl__gemm gemm;
    char key[CHARL__GEMM_TEXT];
} product;

static product make(charl_device *dev)
{
    product p;

    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &(charl_shape){2, {M, K}}, &p.a));
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &(charl_shape){2, {K, N}}, &p.b));
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &(charl_shape){2, {M, N}}, &p.out));
    p.gemm = (charl__gemm){.a = {p.a}, .b = {p.b}, .out = {p.out}, .m = M, .n = N, .k = K};
    charl__gemm_key(dev, &p.gemm, p.key);
    return p;
}

static void release(product *p)
{
    charl_tensor_release(p->a);
    charl_tensor_release(p->b);
    charl_tensor_release(p->out);
}

static void keeps_the_quickest(void **state)
{
    charl_device *dev = open_device(NULL);
    product p = make(dev);
    charl__gemm_tuned x;
    char text[CHARL__GEMM_TEXT];

    (void)state;
    charl_assert_ok(charl__gemm_tune(dev, &p.gemm, &x));
    assert_true(x.count >= 2);
    for (int i = 0; i < x.count; i++) {
        assert_true(isfinite(x.seconds[i]) && x.seconds[i] > 0);
        assert_true(x.best == 0 || x.seconds[x.best] <= x.seconds[i]);
    }
    charl__gemm_plan_text(&x.plan[x.best], text);
    assert_string_equal(charl__tuning_find(dev, p.key), text);
    charl_assert_ok(charl__tuning_db_save(dev));
    release(&p);
    charl_device_close(dev);

    dev = open_device("stored");
    assert_string_equal(charl__tuning_find(dev, p.key), text);
    charl_device_close(dev);
    dev = open_device("no");
    assert_null(charl__tuning_find(dev, p.key));
    charl_device_close(dev);
}

/* A choice is followed where it is one of the product's plans. */
static void takes_what_is_kept(void **state)
{
    static const struct {
        const char *choice;
        int rows; /* of the plan */
    } cases[] = {{"vector 2x1", 2}, {"vector 48x12", 0}, {"local 128x128 8x8 16", 0}, {"?", 0}};
    charl_device *dev = open_device(NULL);
    product p = make(dev);
    charl__gemm_plan plan;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl_assert_ok(charl__tuning_set(dev, p.key, cases[i].choice));
        charl_assert_ok(charl__gemm_plan_of(dev, &p.gemm, &plan));
        assert_int_equal(plan.rows, cases[i].rows);
    }
    charl_assert_ok(charl__tuning_set(dev, p.key, "vector 2x1"));
    p.gemm.form = CHARL_GEMM_VECTOR; /* not AUTO */
    charl_assert_ok(charl__gemm_plan_of(dev, &p.gemm, &plan));
    assert_int_equal(plan.rows, 0);
    release(&p);
    charl_device_close(dev);
}

/* Where it is to be so, a product is timed when it is met, also while recording: once. */
static void tunes_at_first_use(void **state)
{
    charl_device *dev = open_device("first");
    product p = make(dev);
    charl__recording *r = NULL;
    charl__device_counters before;
    const char *what, *kernel;

    (void)state;
    charl_assert_ok(charl_tune_clear(dev));
    charl_assert_ok(charl__record_begin(dev, &r));
    charl_assert_ok(charl__gemm_enqueue(dev, &p.gemm));
    charl_assert_ok(charl__record_end(dev, CHARL_OK));
    assert_int_equal(charl__recording_count(r), 1);
    charl__recording_destroy(r);
    assert_true(charl_tune_get(dev, 0, &what, &kernel));
    assert_false(charl_tune_get(dev, 1, &what, &kernel));
    before = charl__device_counters_get(dev);
    charl_assert_ok(charl__gemm_enqueue(dev, &p.gemm));
    assert_int_equal(charl__device_counters_get(dev).launches, before.launches + 1);
    release(&p);
    charl_device_close(dev);
    dev = open_device(NULL); /* it has been kept */
    assert_true(charl__tuning_db_has_any(dev));
    charl_device_close(dev);
}

/* Where operands for trials do not fit, a product is done as guessed. */
static void goes_on_without_memory(void **state)
{
    const charl_device_request small = {sizeof small, .select = "cpu", .local_size = 1, .memory_limit = 2 * 4 * M * N};
    charl_device *dev = NULL;
    product p;

    (void)state;
    charl__env_set(CHARL_ENV_CACHE_DIR, cache);
    charl_assert_ok(charl_device_open(&small, &dev));
    charl__tune_set_mode(dev, CHARL_TUNE_FIRST);
    charl_assert_ok(charl_tune_clear(dev));
    p = make(dev);
    charl_assert_ok(charl__gemm_enqueue(dev, &p.gemm));
    assert_false(charl__tuning_db_has_any(dev));
    release(&p);
    charl_device_close(dev);
}

/* Wherever memory ends, that is said, and nothing is left behind (main counts). */
static void fails_whole(void **state)
{
    static const long nth[] = {1, 2, 3, 5, 8, 13, 21, 34};
    charl_device *dev = open_device("no");
    product p = make(dev);
    charl__gemm_tuned x;

    (void)state;
    for (size_t i = 0; i < sizeof nth / sizeof *nth; i++) {
        charl__fault_after(nth[i]);
        charl_assert_status(charl__gemm_tune(dev, &p.gemm, &x), CHARL_ERR_NOMEM);
        charl__fault_after(0);
        assert_false(charl__tuning_db_has_any(dev));
    }
    release(&p);
    charl_device_close(dev);
}

/* All kernels, but for those with tiles in local memory: one does not build, one is wrong. */
static char *broken_kernels(void)
{
    static const char kernel[] =
        "#if 0 /* parameters without effect */\nA_KIND B_KIND BIAS FOLD M ROUND USES_RNG KEEP N_WITH CHARL_VEC PM PN "
        "BK A_SUMS A_V B_V "
        "OUT_V OUT_T A_T B_T ACT WHOLE_K JOIN TILE PART A_BY_4 B_BY_4 FLAT\n#endif\n"
        "#if TM == 32 && TN == 32\n#error no such tile\n#endif\n#ifndef TM\n#define TM 0\n"
        "#define TN 0\n#endif\n"
        "#include \"gemm/gemm_args.h\"\n"
        "kernel void %s(global const float *a, global const float *b, global const float *c, global float *out, "
        "const charl__gemm_args p)\n{\n"
        "    out[p.out] = TM == 32 && TN == 64 ? 2.0f : 1.0f;\n}\n";
    static const char *const names[] = {"gemm_local", "gemm_small"};
    char *dir = charl_test_tempdir(), from[64], text[2048];

    assert_int_equal(mkdir(charl_test_path(dir, "gemm"), 0777), 0);
    charl_test_link_kernels(dir, "", "gemm", "gemm");
    charl_test_link_kernels(dir, "gemm/", "gemm_local.cl", "gemm_small.cl");
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, kernel, names[i]);
        snprintf(from, sizeof from, "gemm/%s.cl", names[i]);
        charl_test_write_text(charl_test_path(dir, from), text);
    }
    return dir;
}

static void refuses_what_is_wrong(void **state)
{
    charl_device *dev;
    product p;
    charl__gemm_tuned x;
    char *dir;

    (void)state;
    dir = broken_kernels();
    charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
    dev = open_device(NULL);
    if (charl_device_get_info(dev)->max_group < 256) {
        goto done;
    }
    p = make(dev);
    p.gemm.form = CHARL_GEMM_LOCAL;
    charl_assert_ok(charl__gemm_tune(dev, &p.gemm, &x));
    for (int i = 0; i < x.count; i++) {
        const bool bad = x.plan[i].form == CHARL_GEMM_LOCAL && x.plan[i].rows == 32;

        assert_int_equal(isfinite(x.seconds[i]), !bad);
        assert_false(bad && x.best == i);
    }
    assert_true(x.count >= 4);
    release(&p);
done:
    charl_device_close(dev);
    charl__env_set(CHARL_ENV_KERNEL_DIR, NULL);
    charl_test_tempdir_remove(dir);
}

/* Choices between kernels: the file that keeps them, and what is no such file. */

static char *db_cache;

static charl_device *db_open_device(void)
{
    (void)charl_test_device_count();
    charl__env_set(CHARL_ENV_CACHE_DIR, db_cache);
    return charl_test_open(0, 0);
}

static void are_kept(void **state)
{
    charl_device *dev = db_open_device(), *other;
    const char *what, *choice;

    (void)state;
    assert_false(charl__tuning_db_has_any(dev));
    assert_null(charl__tuning_find(dev, "x"));
    charl_assert_ok(charl__tuning_set(dev, "x", "1"));
    charl_assert_ok(charl__tuning_set(dev, "y", "2"));
    charl_assert_ok(charl__tuning_set(dev, "x", "3"));
    charl_assert_ok(charl__tuning_db_save(dev));
    other = db_open_device();
    assert_string_equal(charl__tuning_find(other, "x"), "3");
    assert_string_equal(charl__tuning_find(other, "y"), "2");

    /* Two processes that find something at the same time. */
    charl_assert_ok(charl__tuning_set(other, "z", "4"));
    charl_assert_ok(charl__tuning_db_save(other));
    charl_assert_ok(charl__tuning_set(dev, "x", "5"));
    charl_assert_ok(charl__tuning_db_save(dev));
    assert_string_equal(charl__tuning_find(dev, "z"), "4");
    charl_device_close(other);
    other = db_open_device();
    assert_true(charl_tune_get(other, 0, &what, &choice));
    assert_string_equal(choice, "5");
    assert_true(charl_tune_get(other, 2, &what, &choice));
    assert_false(charl_tune_get(other, 3, &what, &choice));

    charl_assert_ok(charl_tune_clear(other));
    assert_false(charl__tuning_db_has_any(other));
    charl_device_close(other);
    charl_device_close(dev);
    dev = db_open_device();
    assert_false(charl__tuning_db_has_any(dev));
    charl_device_close(dev);
}

static void *save_often(void *device)
{
    intptr_t failed = 0;

    for (int i = 0; i < 200; i++) {
        failed += charl__tuning_db_save(device) != CHARL_OK;
    }
    return (void *)failed;
}

/* Ranks may be threads of one process. */
static void are_kept_by_threads_at_once(void **state)
{
    charl_device *dev[2] = {db_open_device(), db_open_device()};
    pthread_t thread[2];
    void *failed = NULL;

    (void)state;
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl__tuning_set(dev[i], i == 0 ? "x" : "y", "1"));
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, save_often, dev[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], &failed), 0);
        assert_null(failed);
    }
    charl_assert_ok(charl_tune_clear(dev[0]));
    charl_device_close(dev[0]);
    charl_device_close(dev[1]);
}

static void other_lines_are_skipped(void **state)
{
    charl_device *dev = db_open_device();
    char text[4096], long_line[2000];

    (void)state;
    memset(long_line, 'l', sizeof long_line - 1);
    long_line[sizeof long_line - 1] = '\0';
    snprintf(text, sizeof text, "# x = 1\nno choice\nx=1\n = \ny = 2\ny = 3\n%s = 1\nlast = not ended", long_line);
    charl_test_write_text(charl_tune_path(dev), text);
    assert_int_equal(chmod(charl_tune_path(dev), 0622), 0); /* others may have written this */
    charl_device_close(dev);
    dev = db_open_device();
    assert_false(charl__tuning_db_has_any(dev));
    assert_int_equal(chmod(charl_tune_path(dev), 0644), 0);
    charl_device_close(dev);
    dev = db_open_device();
    assert_string_equal(charl__tuning_find(dev, "y"), "2");
    assert_null(charl__tuning_find(dev, "x"));
    assert_null(charl__tuning_find(dev, "last"));
    charl_assert_ok(charl_tune_clear(dev));
    charl_device_close(dev);
}

/* That there is room for a file, not only a directory, is tried with one, which is not left. */
static void a_check_leaves_nothing(void **state)
{
    const char *own = charl_test_path(db_cache, "own");
    struct rlimit limit, none = {0, 0};

    (void)state;
    charl__env_set(CHARL_ENV_CACHE_DIR, own);
    charl_assert_ok(charl__tuning_db_check());
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none.rlim_max = limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    charl_assert_status(charl__tuning_db_check(), CHARL_ERR_DISK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    charl_assert_message("tuning results cannot be saved: cannot write to ");
    assert_int_equal(rmdir(own), 0); /* it is empty */
}

static void failures_say_why(void **state)
{
    charl_device *dev = db_open_device(), *none = NULL;
    const char *path = charl_tune_path(dev);

    (void)state;
    charl_assert_status(charl__tuning_set(dev, "a = b", "1"), CHARL_ERR_INVALID);
    charl_assert_status(charl__tuning_set(dev, "a", "1\n2"), CHARL_ERR_INVALID);
    assert_int_equal(mkdir(path, 0777), 0); /* a folder in the file's place */
    charl_test_write_text(charl_test_path(path, "x"), "x");
    charl_assert_ok(charl__tuning_set(dev, "a", "1"));
    charl_assert_status(charl__tuning_db_save(dev), CHARL_ERR_DISK);
    charl_assert_message("cannot write");
    charl_assert_status(charl_tune_clear(dev), CHARL_ERR_DISK);
    charl_assert_message("cannot remove");
    assert_int_equal(unlink(charl_test_path(path, "x")), 0);
    assert_int_equal(rmdir(path), 0);
    charl_device_close(dev);

    charl__env_set(CHARL_ENV_CACHE_DIR, "/dev/null/x");
    dev = charl_test_open(0, 0);
    assert_null(charl_tune_path(dev));
    charl_assert_status(charl__tuning_db_save(dev), CHARL_ERR_DISK);
    charl_assert_message("CHARL_CACHE_DIR");
    charl_assert_ok(charl_tune_clear(dev));
    charl_device_close(dev);
    charl_assert_status(charl__tuning_db_check(), CHARL_ERR_DISK);
    charl_assert_message("CHARL_CACHE_DIR");
    charl__env_set(CHARL_ENV_CACHE_DIR, db_cache);
    charl_assert_ok(charl__tuning_db_check());

    charl__env_set(CHARL_ENV_TUNE, "maybe");
    charl_assert_status(
        charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &none),
        CHARL_ERR_CONFIG);
    charl_assert_message("expected stored, first or no");
    charl__env_set(CHARL_ENV_TUNE, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_quickest),
        cmocka_unit_test(takes_what_is_kept),
        cmocka_unit_test(tunes_at_first_use),
        cmocka_unit_test(goes_on_without_memory),
        cmocka_unit_test(fails_whole),
        cmocka_unit_test(refuses_what_is_wrong),
        cmocka_unit_test(are_kept),
        cmocka_unit_test(are_kept_by_threads_at_once),
        cmocka_unit_test(other_lines_are_skipped),
        cmocka_unit_test(a_check_leaves_nothing),
        cmocka_unit_test(failures_say_why),
    };
    int failed;

    cache = charl_test_tempdir();
    db_cache = charl_test_tempdir();
    charl__env_set(CHARL_ENV_DEVICE, NULL);
    failed = charl_test_run_on_device_of(&on_cpu, "tests", tests, sizeof tests / sizeof *tests, &shared);
    charl_test_tempdir_remove(cache);
    charl_test_tempdir_remove(db_cache);
    return failed;
}

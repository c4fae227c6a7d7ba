/* Building programs, their cache on disk, and every acquisition failing in turn. */
#include "device/suite.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

enum { WORDS = 256, PROCESSES = 4, ALONE_FAILED = 100 };

static charl_status run_once(charl_device *dev, uint32_t value, uint32_t *got)
{
    charl_status st = CHARL_OK;
    charl__buffer *b = NULL;
    charl__launch l;

    CHARL_TRY_CLEANUP(charl__buffer_create(dev, 4 * WORDS, "words", &b));
    l = charl_test_fill_launch(b, 0, value, WORDS);
    CHARL_TRY_CLEANUP(charl__launch_enqueue(dev, &l));
    CHARL_TRY_CLEANUP(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, got, 4 * WORDS, true));
cleanup:
    charl__buffer_release(b);
    return st;
}

static int64_t built(int index)
{
    charl_device *dev = charl_test_open(index, 0);
    uint32_t got[WORDS] = {0};
    int64_t n;

    charl_assert_ok(run_once(dev, 5, got));
    charl_assert_ok(run_once(dev, 6, got));
    for (int i = 0; i < WORDS; i++) {
        assert_int_equal(got[i], 6);
    }
    n = charl__device_counters_get(dev).programs_built;
    charl_device_close(dev);
    return n;
}

/* Cuts every cache entry to `keep` bytes, or changes its last one; returns how many there are. */
static int damage(const char *dir, long keep)
{
    DIR *d = opendir(dir);
    int n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        const char *path = charl_test_path(dir, e->d_name);

        if (strstr(e->d_name, ".bin")) {
            n++;
            if (keep >= 0) {
                assert_int_equal(truncate(path, keep), 0);
            } else {
                FILE *f = fopen(path, "r+b");

                assert_non_null(f);
                assert_int_equal(fseek(f, -1, SEEK_END), 0);
                assert_true(fputc(0x5a, f) != EOF);
                assert_int_equal(fclose(f), 0);
            }
        }
        assert_null(strstr(e->d_name, ".tmp"));
    }
    closedir(d);
    return n;
}

static void test_disk_cache(void **state)
{
    (void)state;
    const int count = charl_test_device_count();

    assert_int_equal(setenv("POCL_KERNEL_CACHE", "0", 1), 0); /* else it would have none of PoCL */
    for (int i = 0; i < count; i++) {
        char *dir = charl_test_tempdir();
        char nested[512];

        snprintf(nested, sizeof nested, "%s/a/b", dir); /* made when missing */
        charl__env_set(CHARL_ENV_CACHE_DIR, nested);
        assert_int_equal(built(i), 1);
        if (damage(nested, 30) == 0) {
            print_message("device %d gives no program binaries\n", i);
        } else {
            assert_int_equal(built(i), 1); /* cut short */
            assert_int_equal(built(i), 0);
            (void)damage(nested, -1);
            assert_int_equal(built(i), 1); /* one byte wrong */
            (void)damage(nested, 0);
            assert_int_equal(built(i), 1); /* empty */
            assert_int_equal(built(i), 0);
        }
        charl__env_set(CHARL_ENV_CACHE_DIR, NULL);
        charl_test_tempdir_remove(dir);
    }
    assert_int_equal(unsetenv("POCL_KERNEL_CACHE"), 0);
}

static int n_warnings;

static void count_warnings(void *ctx, charl_log_level level, const char *message)
{
    (void)ctx;
    n_warnings += level == CHARL_LOG_WARN && strstr(message, "the kernel cache ") != NULL;
}

/* Do `change` to every entry of the cache; returns how many there are. */
static int change_entries(const char *cache, int (*change)(const char *path))
{
    DIR *d = opendir(cache);
    int n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strstr(e->d_name, ".bin")) {
            assert_int_equal(change(charl_test_path(cache, e->d_name)), 0);
            n++;
        }
    }
    closedir(d);
    return n;
}

static int let_all_write(const char *path)
{
    return chmod(path, 0666);
}

static int give_away(const char *path)
{
    return chown(path, 65534, (gid_t)-1);
}

static int make_link(const char *path)
{
    char to[512];

    snprintf(to, sizeof to, "%s.real", path);
    return rename(path, to) == 0 ? symlink(to, path) : -1;
}

/* Programs are executed: what another user could have put into the cache is not. */
static void test_others_may_not_write(void **state)
{
    static int (*const changes[])(const char *path) = {let_all_write, make_link, give_away};
    char *cache = charl_test_tempdir();

    (void)state;
    (void)charl_test_device_count();
    assert_int_equal(setenv("POCL_KERNEL_CACHE", "0", 1), 0);
    charl__env_set(CHARL_ENV_CACHE_DIR, cache);
    assert_int_equal(built(0), 1);
    for (int i = 0; i < (geteuid() == 0 ? 3 : 2); i++) {
        if (change_entries(cache, changes[i]) == 0) {
            print_message("SKIP: the device gives no program binaries\n");
            break;
        }
        assert_int_equal(built(0), 1);
        assert_int_equal(built(0), 0); /* written anew */
    }
    if (geteuid() != 0) {
        print_message("SKIP: files of another user need root\n");
    }
    charl_log_set_callback(count_warnings, NULL);
    assert_int_equal(chmod(cache, 0770), 0);
    assert_int_equal(built(0), 1);
    assert_int_equal(built(0), 1);
    assert_int_equal(chmod(cache, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(give_away(cache), 0);
        assert_int_equal(built(0), 1);
    }
    charl_log_set_callback(NULL, NULL);
    assert_int_equal(n_warnings, 1);
    charl__env_set(CHARL_ENV_CACHE_DIR, NULL);
    assert_int_equal(unsetenv("POCL_KERNEL_CACHE"), 0);
    charl_test_tempdir_remove(cache);
}

/* PoCL is asked for no binary: that would compile every kernel once more. Of its headers programs
 * get what kernels/prelude/builtins.clh declares; one that calls other functions gets all of them.
 */
static void check_pocl(charl_device *dev)
{
    char *dir = charl_test_kernel_dir("wave.cl",
                                      "kernel void wave(global float *x, ulong at, float a) { x[at] = cospi(a); }\n");
    const bool old = strncmp(charl_device_get_info(dev)->driver, "3.", 2) == 0;
    charl__buffer *b = charl_test_buffer(dev, 64);
    uint32_t got[WORDS] = {0};
    float x = 0;

    if (!charl_test_is_pocl(dev)) {
        goto done;
    }
    charl_assert_ok(run_once(dev, 5, got));
    assert_int_equal(got[WORDS - 1], 5);
    if (old) { /* later ones may put their headers together otherwise, and build the long way */
        assert_int_equal(charl__device_counters_get(dev).programs_with_header, 0);
    }
    charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
    charl_assert_ok(charl__launch_enqueue(
        dev,
        &(charl__launch){
            .file = "wave", .entry = "wave", .global = {1}, .args = {charl__raw(CHARL_ARG_OUT, b), charl__f32(1)}}));
    charl__env_set(CHARL_ENV_KERNEL_DIR, NULL);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, &x, sizeof x, true));
    assert_true(x == -1.0f);
    assert_int_equal(charl__device_counters_get(dev).programs_built, 2);
    assert_true(charl__device_counters_get(dev).programs_with_header >= 1);
done:
    charl__buffer_release(b);
    charl_test_tempdir_remove(dir);
}

static void test_pocl(void **state)
{
    (void)state;
    char *cache = charl_test_tempdir();

    charl__env_set(CHARL_ENV_CACHE_DIR, cache);
    charl_test_each_device(check_pocl);
    if (charl_test_device_count() == 1) {
        charl_device *dev = charl_test_open(0, 0);

        assert_true(!charl_test_is_pocl(dev) || damage(cache, 0) == 0);
        charl_device_close(dev);
    }
    charl__env_set(CHARL_ENV_CACHE_DIR, NULL);
    charl_test_tempdir_remove(cache);
}

static void test_no_cache_dir(void **state)
{
    (void)state;

    (void)charl_test_device_count();
    charl__env_set(CHARL_ENV_CACHE_DIR, "/dev/null/cache");
    assert_int_equal(built(0), 1);
    assert_int_equal(built(0), 1);
    charl__env_set(CHARL_ENV_CACHE_DIR, NULL);
}

/* Processes that start together on an empty cache, charl's or PoCL's, all compute the right thing. Returns the sum of run_alone. */
static int start_together(const char *program, const char *pocl_keeps)
{
    int n_built = 0;
    char *dir = charl_test_tempdir();
    charl_device *dev = NULL;
    pid_t child[PROCESSES];

    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0) {
            unsetenv("POCL_CACHE_DIR");
            setenv("POCL_KERNEL_CACHE", pocl_keeps, 1);
            if (pocl_keeps[0] ==
                '0') { /* where it keeps nothing, its processes get in each other's way when they load the same binary */
                char own[512];

                snprintf(own, sizeof own, "%s/pocl/%d", dir, i);
                assert_true(setenv("POCL_CACHE_DIR", own, 1) == 0);
            }
            execl(program, program, "--alone", dir, (char *)NULL);
            _exit(127);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;

        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < ALONE_FAILED);
        n_built += WEXITSTATUS(status);
    }
    dev = charl_test_open(0, 0);
    if (charl_test_is_pocl(dev)) { /* what PoCL keeps is there too */
        assert_int_equal(access(charl_test_path(dir, "pocl"), F_OK), 0);
    }
    charl_device_close(dev);
    charl_test_tempdir_remove(dir);
    return n_built;
}

static void test_concurrent(void **state)
{
    (void)charl_test_device_count();
    assert_in_range(start_together(*state, "1"), 0, 1);
    assert_int_equal(start_together(*state, "0"), 1);
}

/* PoCL does not tell whether it compiled a kernel or found it, but it starts a linker for each that it compiles. */
static bool has_linked(void)
{
    struct rusage children;

    assert_int_equal(getrusage(RUSAGE_CHILDREN, &children), 0);
    return children.ru_minflt > 0;
}

/* Returns how many programs it built or, where PoCL has a cache of its own, whether it compiled a kernel; or ALONE_FAILED. */
static int run_alone(const char *cache)
{
    charl_device *dev = NULL;
    uint32_t got[WORDS] = {0};
    int bad = 0, n_built;
    bool pocl;

    charl__env_set(CHARL_ENV_CACHE_DIR, cache);
    if (charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev) != CHARL_OK) {
        return ALONE_FAILED;
    }
    for (uint32_t n = 0; n < 20; n++) {
        bad += run_once(dev, n, got) != CHARL_OK || got[0] != n || got[WORDS - 1] != n;
    }
    n_built = (int)charl__device_counters_get(dev).programs_built;
    pocl = charl_test_is_pocl(dev);
    charl_device_close(dev);
    n_built = pocl && getenv("POCL_KERNEL_CACHE")[0] == '1' ? has_linked() : n_built;
    return bad ? ALONE_FAILED : n_built;
}

static void check_errors(charl_device *dev)
{
    char *dir = charl_test_kernel_dir("bad.cl", "kernel void bad(global int *x, ulong at) { x[at] = nonsense; }\n");
    charl__launch l = {.file = "absent", .entry = "x", .global = {1}};

    charl_assert_status(charl__launch_enqueue(dev, &l), CHARL_ERR_KERNEL);
    charl_assert_message("there is no kernel file absent.cl");
    l.file = "tensor/copy";
    charl_assert_status(charl__launch_enqueue(dev, &l), CHARL_ERR_KERNEL);
    charl_assert_message("copy.cl has no kernel x");
    charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
    l.file = "bad";
    charl_assert_status(charl__launch_enqueue(dev, &l), CHARL_ERR_KERNEL);
    charl_assert_message("bad.cl does not build on");
    charl_assert_message("nonsense");
    l.file = "gone";
    charl_assert_status(charl__launch_enqueue(dev, &l), CHARL_ERR_KERNEL);
    charl_assert_message("CHARL_KERNEL_DIR");
    charl__env_set(CHARL_ENV_KERNEL_DIR, NULL);
    charl_test_tempdir_remove(dir);
}

static void test_errors(void **state)
{
    (void)state;
    charl_test_each_device(check_errors);
}

/* Programs for sm_90a: where the compiler makes no PTX, or no array to enlarge. */
static void check_retarget(charl_device *dev)
{
    char *dir = charl_test_kernel_dir("bad.cl", "kernel void bad(global int *x, ulong at) { x[at] = nonsense; }\n");
    charl__buffer *b = charl_test_buffer(dev, 64);
    charl__launch l = charl_test_fill_launch(b, 0, 1, 4);

    l.sm90a.shared_bytes = 65536;
    charl_assert_status(charl__launch_enqueue(dev, &l), CHARL_ERR_KERNEL);
    charl_assert_message("copy.cl for sm_90a on");
    charl_assert_message(charl__device_facts_get(dev)->nvidia.wgmma ? "no array" : "no PTX");
    charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
    l.file = "bad";
    charl_assert_status(charl__launch_enqueue(dev, &l), CHARL_ERR_KERNEL);
    charl_assert_message("bad.cl does not build on");
    charl_assert_message("nonsense");
    charl__env_set(CHARL_ENV_KERNEL_DIR, NULL);
    charl__buffer_release(b);
    charl_test_tempdir_remove(dir);
}

static void test_retarget(void **state)
{
    (void)state;
    charl_test_each_device(check_retarget);
}

/* Defines stand before the source, and each text is a program of its own. */
static void check_defines(charl_device *dev)
{
    char *dir = charl_test_kernel_dir("n.cl", "kernel void n(global int *x, ulong at) { x[at] = N; }\n");
    char *dump = charl_test_tempdir();
    charl__buffer *b = charl_test_buffer(dev, 64);
    charl__launch l = {.file = "n", .entry = "n", .global = {1}, .args = {charl__raw(CHARL_ARG_OUT, b)}};
    int32_t got = 0;

    charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
    charl__env_set(CHARL_ENV_DUMP_KERNELS, dump);
    for (int n = 3; n < 9; n++) {
        char text[32];

        snprintf(text, sizeof text, "#define N %d\n", n % 3);
        l.defines = text;
        charl_assert_ok(charl__launch_enqueue(dev, &l));
        charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, &got, 4, true));
        assert_int_equal(got, n % 3);
    }
    charl__env_set(CHARL_ENV_DUMP_KERNELS, NULL);
    charl__env_set(CHARL_ENV_KERNEL_DIR, NULL);
    {
        DIR *d = opendir(dump);
        int files = 0;

        assert_non_null(d);
        for (struct dirent *e; (e = readdir(d)) != NULL;) {
            files += e->d_name[0] != '.';
        }
        closedir(d);
        assert_int_equal(files, 3);
    }
    charl__buffer_release(b);
    charl_test_tempdir_remove(dump);
    charl_test_tempdir_remove(dir);
}

static void test_defines(void **state)
{
    (void)state;
    charl_test_each_device(check_defines);
}

/* A parameter that the file does not have, or has for something else, would be without effect, or a compiler's riddle. */
static void check_params(charl_device *dev)
{
    static const char text[] = "/* ABSENT */\n"
                               "#ifndef T\n#define T int\n#endif\n"
                               "#ifndef N\n#define N 5\n#endif\n"
                               "kernel void n(global T *x, ulong at) { x[at] = (T)(N SUM(1, 2)); }\n";
    static const struct {
        charl__kernel_param params[4];
        const char *problem; /* NULL: builds, and gives `value` */
        int32_t value;
    } rows[] = {
        {{{"SUM(a, b)", .text = "+ a\n + b"}}, NULL, 8},
        {{{"N", -7}, {"SUM(a, b)", .text = ""}}, NULL, -7},
        {{{"T", .text = "uint"}, {"N", 4}, {"SUM(a, b)", .text = ""}}, NULL, 4},
        {{{"SUM(a, b)", .text = ""}, {"ABSENT", 1}}, "kernels/n.cl has no parameter ABSENT", 0},
        {{{"SUM(a, b)", .text = ""}, {"NN", 1}}, "kernels/n.cl has no parameter NN", 0},
        {{{"SUM(a, b)", .text = ""}, {"T", 4}}, "parameter T of kernels/n.cl is a type or code, 4 is given", 0},
    };
    char *dir = charl_test_kernel_dir("n.cl", text);
    charl__buffer *b = charl_test_buffer(dev, 64);
    int32_t got = 0;

    charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        charl__launch l = {.file = "n", .entry = "n", .global = {1}, .args = {charl__raw(CHARL_ARG_OUT, b)}};

        charl__launch_set_all(&l, rows[i].params);
        if (rows[i].problem) {
            assert_int_equal(charl__launch_enqueue(dev, &l), CHARL_ERR_INVALID);
            assert_non_null(strstr(charl_error_message(), rows[i].problem));
            charl_error_clear();
            continue;
        }
        charl_assert_ok(charl__launch_enqueue(dev, &l));
        charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, &got, 4, true));
        assert_int_equal(got, rows[i].value);
    }
    charl__env_set(CHARL_ENV_KERNEL_DIR, NULL);
    charl__buffer_release(b);
    charl_test_tempdir_remove(dir);
}

static void test_params(void **state)
{
    (void)state;
    charl_test_each_device(check_params);
}

/* The prelude forbids contraction: a*b+c rounds twice. */
static void check_contraction(charl_device *dev)
{
    char *dir =
        charl_test_kernel_dir("mad.cl", "kernel void twice(global float *x, ulong at, float a, float c)\n"
                                        "{ x[at] = a * a + c; x[at + 1] = (x[at] != x[at]) + fma(a, a, c); }\n");
    charl__buffer *b = charl_test_buffer(dev, 64);
    const float a = 1.0f + 0x1p-12f;
    float got[2] = {0};
    FILE *in = fopen("kernels/prelude/common.clh", "r"), *out = fopen(charl_test_path(dir, "prelude/common.clh"), "w");
    int c;

    assert_non_null(in);
    assert_non_null(out);
    while ((c = fgetc(in)) != EOF) {
        fputc(c, out);
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
    charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
    charl_assert_ok(charl__launch_enqueue(
        dev, &(charl__launch){.file = "mad",
                              .entry = "twice",
                              .global = {1},
                              .args = {charl__raw(CHARL_ARG_OUT, b), charl__f32(a), charl__f32(-1.0f)}}));
    charl__env_set(CHARL_ENV_KERNEL_DIR, NULL);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, got, sizeof got, true));
    assert_true(got[0] == 0x1p-11f);
    assert_true(got[1] == fmaf(a, a, -1.0f) && got[1] != got[0]);
    charl__buffer_release(b);
    charl_test_tempdir_remove(dir);
}

static void test_contraction(void **state)
{
    (void)state;
    charl_test_each_device(check_contraction);
}

typedef struct heard {
    int begun, ended;
    charl_compile_progress last;
} heard;

static void hear(void *ctx, const charl_compile_progress *p)
{
    heard *h = ctx;

    h->begun += p->current != NULL;
    h->ended += p->current == NULL;
    assert_true(p->seconds >= h->last.seconds && p->done >= h->last.done);
    assert_true(p->known == 0 || p->known >= p->done);
    h->last = *p;
    h->last.current = NULL;
}

/* Each kernel is reported once, before and after it is compiled: when its program is built or, by
 * PoCL, when a recording launches it first. */
static void test_compiling(void **state)
{
    (void)state;
    const int count = charl_test_device_count();

    for (int i = 0; i < count; i++) {
        heard h = {0};
        charl_device *dev = NULL;
        charl__buffer *b = NULL;
        charl__recording *r = NULL;
        charl__launch l;
        char select[16];
        int done, begun = 0;

        snprintf(select, sizeof select, "%d", i);
        charl_assert_ok(
            charl_device_open(&(charl_device_request){sizeof(charl_device_request), .select = select, .local_size = 1,
                                                      .share = true, .compiling = hear, .compiling_ctx = &h},
                              &dev));
        b = charl_test_buffer(dev, 4 * WORDS);
        done = h.last.done;
        charl_assert_ok(charl__record_begin(dev, &r));
        for (uint32_t k = 0; k < 3; k++) {
            l = charl_test_fill_launch(b, 0, k, WORDS);
            charl_assert_ok(charl__launch_enqueue(dev, &l));
        }
        charl_assert_ok(charl__record_end(dev, CHARL_OK));
        for (int k = 0; k < 2; k++) {
            charl_assert_ok(charl__recording_replay(r, 0, 3));
            assert_int_equal(h.last.done, done + 1);
            assert_int_equal(h.last.known, charl_test_is_pocl(dev) ? h.last.done : 0);
            begun = k == 0 ? h.begun : begun;
        }
        assert_int_equal(h.begun, begun); /* nothing more the second time */
        assert_int_equal(h.begun, h.ended);
        assert_true(h.begun > 0 && h.last.seconds > 0);
        charl__recording_destroy(r);
        charl__buffer_release(b);
        charl_device_close(dev);
    }
}

/* Everything the layer acquires, from opening to closing. */
static charl_status life(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_device *dev = NULL;
    charl__buffer *b = NULL, *w = NULL;
    charl__ring *ring = NULL;
    charl__event *e = NULL;
    charl__recording *r = NULL;
    const uint32_t record[4] = {1, 2, 3, 4};
    uint32_t got[WORDS];
    charl__launch l;

    CHARL_TRY_CLEANUP(charl_device_open(ctx, &dev));
    CHARL_TRY_CLEANUP(run_once(dev, 1, got));
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, 4 * WORDS, "words", &b));
    CHARL_TRY_CLEANUP(charl__ring_create(dev, sizeof record, 2, &ring));
    l = charl_test_copy_launch(charl__ring_buffer(ring), 0, b, 0, 4);
    CHARL_TRY_CLEANUP(charl__record_begin(dev, &r));
    CHARL_TRY_CLEANUP(charl__launch_enqueue(dev, &l));
    CHARL_TRY_CLEANUP(charl__record_end(dev, CHARL_OK));
    CHARL_TRY_CLEANUP(charl__ring_push(ring, record));
    CHARL_TRY_CLEANUP(charl__recording_replay(r, 0, 1));
    CHARL_TRY_CLEANUP(charl__event_record(dev, CHARL_QUEUE_COMPUTE, &e));
    CHARL_TRY_CLEANUP(charl__event_wait(e));
cleanup:
    charl__event_release(e);
    charl__recording_destroy(r);
    charl__ring_destroy(ring);
    charl__buffer_release(w);
    charl__buffer_release(b);
    charl_device_close(dev);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    charl_device_request request = {sizeof request, .local_size = 1};
    char *dir = charl_test_tempdir();

    (void)charl_test_device_count();
    charl__env_set(CHARL_ENV_CACHE_DIR, "/dev/null/none"); /* compiled every time */
    assert_true(charl_test_fail_every_acquisition(life, &request) > 30);
    charl__env_set(CHARL_ENV_CACHE_DIR, dir); /* stored once, then loaded */
    assert_int_equal(setenv("POCL_KERNEL_CACHE", "0", 1), 0);
    assert_true(charl_test_fail_every_acquisition(life, &request) > 30);
    assert_int_equal(unsetenv("POCL_KERNEL_CACHE"), 0);
    charl__env_set(CHARL_ENV_CACHE_DIR, NULL);
    charl_test_tempdir_remove(dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_may_not_write),
        cmocka_unit_test(test_disk_cache),
        cmocka_unit_test(test_pocl),
        cmocka_unit_test(test_no_cache_dir),
        cmocka_unit_test_prestate(test_concurrent, argv[0]),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_retarget),
        cmocka_unit_test(test_defines),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_contraction),
        cmocka_unit_test(test_compiling),
        cmocka_unit_test(test_faults),
    };

    if (argc == 3 && strcmp(argv[1], "--alone") == 0) {
        return run_alone(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

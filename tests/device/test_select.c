/* Which device a rank gets, over invented lists; and the list of real devices. */
#include "device/suite.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device_private.h"

static charl_device_info device(charl_device_kind kind, const char *name, const char *platform, const char *pci)
{
    charl_device_info d = {.kind = kind};

    snprintf(d.name, sizeof d.name, "%s", name);
    snprintf(d.platform, sizeof d.platform, "%s", platform);
    snprintf(d.pci, sizeof d.pci, "%s", pci);
    return d;
}

enum { NODE = 6 };

/* Two GPUs, the first offered by a second platform too; an integrated one; two CPU runtimes. */
static void make_node(charl_device_info *out)
{
    out[0] = device(CHARL_DEVICE_GPU, "NVIDIA H200", "NVIDIA CUDA", "0000:0a:00.0");
    out[1] = device(CHARL_DEVICE_GPU, "H200 through Mesa", "rusticl", "0000:0a:00.0");
    out[2] = device(CHARL_DEVICE_GPU, "NVIDIA H200", "NVIDIA CUDA", "0001:3b:00.0");
    out[3] = device(CHARL_DEVICE_INTEGRATED_GPU, "Iris", "Intel OpenCL", "0000:00:02.0");
    out[4] = device(CHARL_DEVICE_CPU, "cpu-skylake", "Portable Computing Language", "");
    out[5] = device(CHARL_DEVICE_CPU, "Xeon", "Intel OpenCL", "");
    for (int i = 0; i < NODE; i++) {
        out[i].index = i;
    }
}

static charl_status choose(const char *select, int rank, int size, bool share, charl__pick *out)
{
    charl_device_info node[NODE];

    make_node(node);
    return charl__device_select(node, NODE,
                                &(charl_device_request){sizeof(charl_device_request), .select = select,
                                                        .local_rank = rank, .local_size = size, .share = share},
                                out);
}

static void expect(const char *select, int rank, int size, int index)
{
    charl__pick p;

    charl_assert_ok(choose(select, rank, size, false, &p));
    assert_int_equal(p.index, index);
}

static void test_grammar(void **state)
{
    (void)state;
    expect(NULL, 0, 1, 0);
    expect("", 0, 1, 0);
    expect("auto", 0, 2, 0);
    expect("auto", 1, 2, 2);
    expect("gpu", 2, 3, 3);
    expect("cpu", 0, 1, 4);
    expect("1", 0, 1, 1);
    expect("5", 0, 1, 5);
    expect("pci:0001:3B:00.0", 0, 1, 2);
    expect("pci:0a:00.0", 0, 1, 0);
    expect("name:h200", 1, 2, 2);
    expect("name:mesa", 0, 1, 1);
    expect("platform:intel", 0, 1, 3);
    expect("platform:portable", 0, 1, 4);
}

static void test_sharing(void **state)
{
    (void)state;
    charl__pick p;

    charl_assert_status(choose("auto", 0, 3, false, &p), CHARL_ERR_DEVICE);
    charl_assert_message("3 ranks on this node for 2 devices");
    charl_assert_message("share");
    charl_assert_status(choose("2", 1, 2, false, &p), CHARL_ERR_DEVICE);
    charl_assert_message("for 1 device (");
    charl_assert_ok(choose("auto", 2, 3, true, &p));
    assert_int_equal(p.index, 0);
    assert_int_equal(p.sharers, 2);
    charl_assert_ok(choose("auto", 1, 3, true, &p));
    assert_int_equal(p.index, 2);
    assert_int_equal(p.sharers, 1);
    charl_assert_ok(choose("cpu", 3, 4, false, &p));
    assert_int_equal(p.index, 4);
    assert_int_equal(p.sharers, 4);
}

/* A rule for every rank. */
static void test_lists(void **state)
{
    static const char list[] = "gpu,gpu , cpu";
    (void)state;
    charl__pick p;

    expect(list, 0, 3, 0);
    expect(list, 1, 3, 2);
    expect(list, 2, 3, 4);
    expect(list, 0, 1, 0); /* fewer ranks than rules */
    expect(list, 3, 4, 4); /* more: the last */
    expect("cpu, gpu, cpu, gpu", 3, 4, 2);
    expect("cpu,\n gpu\n cpu\n , gpu", 3, 4, 2);
    expect("platform:intel, name:H200", 1, 2, 0);
    charl_assert_ok(choose("gpu, cpu", 2, 5, false, &p));
    assert_int_equal(p.index, 4);
    assert_int_equal(p.sharers, 4);
    charl_assert_ok(choose("gpu, cpu", 0, 5, false, &p));
    assert_int_equal(p.sharers, 1);
    charl_assert_ok(choose("cpu, 5", 0, 2, false, &p)); /* two drivers, one set of cores */
    assert_int_equal(p.sharers, 2);
    charl_assert_status(choose("0, name:Mesa", 1, 2, false, &p), CHARL_ERR_DEVICE);
    charl_assert_message("device \"0, name:Mesa\" gives 2 ranks H200 through Mesa");
    charl_assert_ok(choose("0, name:Mesa", 1, 2, true, &p));
    charl_assert_status(choose("cpu, gpu", 4, 5, false, &p), CHARL_ERR_DEVICE);
    charl_assert_message("4 ranks on this node for 3 devices");
    charl_assert_status(choose("cpu,,gpu", 1, 3, false, &p), CHARL_ERR_CONFIG);
    charl_assert_message("is not understood");
    charl_assert_status(choose("cpu, name:none", 1, 2, false, &p), CHARL_ERR_DEVICE);
    charl_assert_message("device \"name:none\" matches none");
}

static void test_best_kind(void **state)
{
    (void)state;
    charl_device_info node[NODE];
    charl__pick p;

    make_node(node);
    charl_assert_ok(charl__device_select(
        node + 3, 3, &(charl_device_request){sizeof(charl_device_request), .local_rank = 0, .local_size = 1}, &p));
    assert_int_equal(p.index, 0); /* the integrated GPU before the CPUs */
    charl_assert_ok(charl__device_select(
        node + 4, 2, &(charl_device_request){sizeof(charl_device_request), .local_rank = 1, .local_size = 2}, &p));
    assert_int_equal(p.index, 0); /* ranks share one CPU, not one each */
    charl_assert_status(
        charl__device_select(
            node + 4, 2, &(charl_device_request){sizeof(charl_device_request), .select = "gpu", .local_size = 1}, &p),
        CHARL_ERR_DEVICE);
    charl_assert_message("device \"gpu\" matches none of the 2");
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const bad[] = {"best",
                                      "GPU",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1x",
                                      "name:",
                                      "pci:",
                                      "pci:zz",
                                      "pci:1:2",
                                      "pci:0a:00",
                                      "name",
                                      "pci:0000:0a:00.0x",
                                      "platform:",
                                      "auto ",

                                      "gpu;cpu"};
    charl__pick p;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        charl_assert_status(choose(bad[i], 0, 1, false, &p), CHARL_ERR_CONFIG);
        charl_assert_message(bad[i]);
    }
    charl_assert_status(choose("6", 0, 1, false, &p), CHARL_ERR_DEVICE);
    charl_assert_status(choose("99999999999999999999999", 0, 1, false, &p), CHARL_ERR_DEVICE);
    charl_assert_status(choose("name:voodoo", 0, 1, false, &p), CHARL_ERR_DEVICE);
    charl_assert_status(choose("pci:0000:0b:00.0", 0, 1, false, &p), CHARL_ERR_DEVICE);
    charl_assert_status(choose("auto", 2, 2, false, &p), CHARL_ERR_INVALID);
    charl_assert_status(choose("auto", -1, 2, false, &p), CHARL_ERR_INVALID);
}

static void test_list(void **state)
{
    (void)state;
    charl_device_info info[CHARL__MAX_DEVICES], first;
    int count = 0, again = 0;

    if (charl_device_list(info, CHARL__MAX_DEVICES, &count) != CHARL_OK) {
        skip();
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(info[i].index, i);
        assert_true(info[i].name[0] != '\0');
        assert_true(info[i].compute_units > 0 && info[i].max_group > 0);
        assert_true(info[i].max_alloc_bytes > 0 && info[i].max_alloc_bytes <= info[i].global_bytes);
        assert_true(i == 0 || info[i].kind <= info[i - 1].kind);
    }
    charl_assert_ok(charl_device_list(&first, 1, &again));
    assert_int_equal(again, count);
    assert_memory_equal(&first, &info[0], sizeof first);
}

static void ignore(int sig)
{
    (void)sig;
}

/* A driver that is initialized (by the first list of this process) replaces no signal handler. */
static void test_signal_handlers(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGABRT};
    struct sigaction before[sizeof signals / sizeof signals[0]], now;
    int count;

    (void)state;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_int_equal(sigaction(signals[i], &(struct sigaction){.sa_handler = ignore}, &before[i]), 0);
    }
    (void)!charl_device_list(NULL, 0, &count);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_int_equal(sigaction(signals[i], &before[i], &now), 0);
        assert_true(now.sa_handler == ignore);
    }
}

static void test_environment_overrides(void **state)
{
    (void)state;
    charl_device *dev = NULL;
    const charl_device_request cpu = {sizeof cpu, .select = "0", .local_size = 1};

    (void)charl_test_device_count();
    charl__env_set(CHARL_ENV_DEVICE, "bogus");
    charl_assert_status(charl_device_open(&cpu, &dev), CHARL_ERR_CONFIG);
    charl_assert_message("bogus");
    assert_null(dev);
    if (charl_test_device_count() > 0) {
        charl__env_set(CHARL_ENV_DEVICE, "bogus");
        charl_assert_ok(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .select = "0",
                                                                  .exact = true, .local_size = 1, .share = true},
                                          &dev));
        charl_device_close(dev);
    }
    charl__env_set(CHARL_ENV_DEVICE, NULL);
    charl_assert_status(
        charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1, .memory_limit = -1},
                          &dev),
        CHARL_ERR_INVALID);
}

/* The loader reads its variables once, so this is a process of its own. */
static void test_no_platform(void **state)
{
    const char *program = *state;
    const char *libraries = getenv("LD_LIBRARY_PATH");
    char *dir = charl_test_tempdir();
    char command[4096];
    int result;

    charl_test_write_text(charl_test_path(dir, "libnvidia-opencl.so.1"), "");
    snprintf(command, sizeof command, "OCL_ICD_VENDORS=%s LD_LIBRARY_PATH=%s:%s %s --no-platform", dir, dir,
             libraries ? libraries : "", program);
    result = system(command);
    charl_test_tempdir_remove(dir);
    assert_true(WIFEXITED(result));
    if (WEXITSTATUS(result) == 77) {
        print_message("skipped: the loader does not follow OCL_ICD_VENDORS\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(result), 0);
}

static int report_no_platform(void)
{
    int count = 0;
    const charl_status st = charl_device_list(NULL, 0, &count);

    if (st == CHARL_OK && count > 0) { /* found elsewhere */
        return 77;
    }
    return st == CHARL_ERR_DEVICE && strstr(charl_error_message(), "pocl-opencl-icd") &&
                   strstr(charl_error_message(), "/etc/OpenCL/vendors/nvidia.icd")
               ? 0
               : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signal_handlers), /* before anything else lists devices */
        cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_best_kind),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_environment_overrides),
        cmocka_unit_test_prestate(test_no_platform, argv[0]),
    };

    if (argc == 2 && strcmp(argv[1], "--no-platform") == 0) {
        return report_no_platform();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

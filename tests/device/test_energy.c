/* Energy of processors, from counters that the test writes as the kernel does: packages only, all of them, and behind their ends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charl/device.h>

#include "support/support.h"

static char *dir;
static const charl_device_info cpu = {.kind = CHARL_DEVICE_CPU};

static void put(const char *domain, const char *file, const char *text)
{
    char path[600];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, domain);
    assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
    snprintf(path, sizeof path, "%s/%s/%s", dir, domain, file);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    assert_int_equal(fclose(f), 0);
}

static void make_domain(const char *domain, const char *name, const char *uj)
{
    put(domain, "name", name);
    put(domain, "energy_uj", uj);
    put(domain, "max_energy_range_uj", "262143328850");
}

static int setup(void **state)
{
    (void)state;
    dir = charl_test_tempdir();
    return setenv("CHARL_POWERCAP_DIR", dir, 1);
}

static int teardown(void **state)
{
    (void)state;
    charl_test_tempdir_remove(dir);
    return 0;
}

static void test_without_counters(void **state)
{
    charl_energy_meter m = {0};

    (void)state;
    charl_device_read_energy(&cpu, &m);
    assert_false(m.is_known);
    charl_device_read_energy(NULL, &m);
    charl_device_read_energy(&cpu, NULL);
}

static void test_packages(void **state)
{
    charl_energy_meter m = {0};

    (void)state;
    make_domain("intel-rapl:0", "package-0", "1000000");
    make_domain("intel-rapl:1", "package-1", "262143000000");
    make_domain("intel-rapl:0:0", "core", "7");
    make_domain("intel-rapl:2", "psys", "7");
    charl_device_read_energy(&cpu, &m);
    assert_true(m.is_known);
    assert_true(m.joules == 0);
    put("intel-rapl:0", "energy_uj", "3500000"); /* 2.5 J */
    put("intel-rapl:1", "energy_uj", "671150");  /* 0.328850 J to its end, and 0.671150 J behind it */
    put("intel-rapl:0:0", "energy_uj", "900000000");
    put("intel-rapl:2", "energy_uj", "900000000");
    charl_device_read_energy(&cpu, &m);
    assert_true(m.is_known);
    assert_float_equal(m.joules, 3.5, 1e-9);
    charl_device_read_energy(&cpu, &m);
    assert_float_equal(m.joules, 3.5, 1e-9);
    m.read_s -= 500; /* 300 kJ at most since then: it may have passed its end */
    charl_device_read_energy(&cpu, &m);
    assert_false(m.is_known);
    charl_device_read_energy(&cpu, &m);
    assert_false(m.is_known);
}

/* A package that cannot be read, or is gone, leaves nothing that is known. */
static void test_unreadable(void **state)
{
    char path[600], hidden[600];
    charl_energy_meter before = {0}, m = {0};

    (void)state;
    charl_device_read_energy(&cpu, &before);
    assert_true(before.is_known);
    snprintf(path, sizeof path, "%s/intel-rapl:1/energy_uj", dir);
    snprintf(hidden, sizeof hidden, "%s/hidden", dir);
    assert_int_equal(rename(path, hidden), 0);
    charl_device_read_energy(&cpu, &m);
    assert_false(m.is_known);
    charl_device_read_energy(&cpu, &before);
    assert_false(before.is_known);
    assert_int_equal(rename(hidden, path), 0);
}

static void test_other_devices(void **state)
{
    const charl_device_info gpu = {.kind = CHARL_DEVICE_GPU};
    charl_energy_meter m = {0};

    (void)state;
    charl_device_read_energy(&gpu, &m);
    assert_false(m.is_known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_counters),
        cmocka_unit_test(test_packages),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_other_devices),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

/* charl selftest: the operators on the user's device. Each sample runs twice, the second time at other offsets: the values
 * must agree with the reference and the bits with each other. Where the device has tensor cores, the operators that take
 * half types run with bf16 too. */
#include <charl/device.h>
#include <charl/operator.h>

#include <stdio.h>
#include <string.h>

#include "cli/charl/commands.h"

enum { SEED = 1 };

typedef struct selftest {
    const char *device, *op;
    bool verbose;
} selftest;

static bool is_operator(const char *name)
{
    return charl_operator_takes(name, CHARL_F32);
}

static error_t parse_selftest(int key, char *arg, struct argp_state *state)
{
    selftest *s = state->input;

    switch (key) {
    case 'd':
        s->device = arg;
        return 0;
    case 'o':
        if (!is_operator(arg)) {
            return charl__cli_bad_option("--op", arg, "no such operator");
        }
        s->op = arg;
        return 0;
    case 'v':
        s->verbose = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_sample(void *name, int sample, double ulp, double used)
{
    printf("  %s, sample %d: %.2f ulp, %.0f %% of what is allowed\n", (const char *)name, sample, ulp, 100.0 * used);
}

/* Prints the verdict on an operator; returns whether it failed. */
static bool check_operator(charl_device *dev, const selftest *s, const char *name, charl_dtype dtype)
{
    const charl_operator_check_options options = {.precision = dtype,
                                                  .seed = SEED,
                                                  .outputs_only = true,
                                                  .passed = s->verbose ? print_sample : NULL,
                                                  .ctx = (void *)(uintptr_t)name};
    charl_operator_report report;
    const charl_status st = charl_operator_check(dev, name, &options, &report);

    if (st != CHARL_OK) {
        printf("  ");
        charl__cli_put(charl_error_message(), 0);
        printf("\n");
    }
    printf("%-22s %12.2f %8.0f %%  %s\n", name, report.ulp, 100.0 * report.used, st == CHARL_OK ? "PASS" : "FAIL");
    fflush(stdout);
    return st != CHARL_OK;
}

static void check_type(charl_device *dev, const selftest *s, charl_dtype dtype, int count[2])
{
    const char *name;

    printf("%-22s %12s %10s\n", "operator", "error (ulp)", "of allowed");
    for (int i = 0; (name = charl_operator_name(i)) != NULL; i++) {
        if ((!s->op || strcmp(s->op, name) == 0) && charl_operator_takes(name, dtype)) {
            count[check_operator(dev, s, name, dtype)]++;
        }
    }
}

static int check_all(charl_device *dev, const selftest *s)
{
    const double begun = charl__cli_clock_s();
    int count[2] = {0, 0}; /* passed, failed */

    check_type(dev, s, CHARL_F32, count);
    if (charl_device_has_tensor_cores(dev, CHARL_BF16)) {
        printf("\nin bf16, products on tensor cores\n");
        check_type(dev, s, CHARL_BF16, count);
    }
    printf("\n%d operators passed, %d failed, in %.1f s\n", count[0], count[1], charl__cli_clock_s() - begun);
    return count[1] > 0 ? CHARL__EXIT_INTERNAL : CHARL__EXIT_OK;
}

int charl__selftest_main(const char *path, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"device", 'd', "SELECT", 0,
         "auto, gpu, cpu, INDEX, pci:ADDRESS, name:TEXT or platform:TEXT (see `charl devices`)", 0},
        {"op", 'o', "NAME", 0, "Test only this operator", 0},
        {"verbose", 'v', NULL, 0, "Print the result of every sample", 0},
        {0}};
    static const struct argp argp = {
        options,
        parse_selftest,
        "",
        "Run every operator on its test samples: twice, comparing bits, and against a "
        "double-precision reference within a bound on the rounding error. On devices with tensor "
        "cores, operators that support bf16 are also tested in bf16. The exit status is 0 if all "
        "tests pass, otherwise 1.",
        NULL,
        NULL,
        NULL};
    charl__cli_operands none = {0};
    selftest s = {0};
    charl_device *dev = NULL;
    charl_status st;
    int code = charl__cli_parse(path, &argp, &none, argc, argv, &s);

    if (code >= 0) {
        return code;
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    st = charl_device_open(
        &(charl_device_request){.select = s.device, .local_size = 1, .compiling = charl__cli_compiling_show}, &dev);
    if (st != CHARL_OK) {
        return charl__cli_error(charl__cli_exit_code(st), "`charl devices` lists the devices", "%s",
                                charl_error_message());
    }
    printf("device %d: %s, %s, driver %s\n\n", charl_device_get_info(dev)->index, charl_device_get_info(dev)->name,
           charl_device_get_info(dev)->platform, charl_device_get_info(dev)->driver);
    code = check_all(dev, &s);
    charl_device_close(dev);
    return code;
}

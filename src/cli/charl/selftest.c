/* charl selftest: tests the operators on the user's device. Each sample runs twice, the second time at other offsets: the values
 * must agree with the reference and the bits with each other. If the device has tensor cores or AMX, the operators that support
 * half types run with bf16 too; with --hash, which computes half types as all devices can, also without. */
#include <charl/device.h>
#include <charl/error.h>
#include <charl/operator.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/charl/commands.h"

enum { SEED = 1, OPS = 32 };

typedef struct selftest {
    const char *device, *op[OPS]; /* of the operators, all if there are none */
    int n_ops;
    bool verbose, hash;
} selftest;

static error_t parse_operator(void *input, const char *option, const char *value)
{
    selftest *s = input;

    if (!charl_operator_takes(value, CHARL_F32)) {
        return charl__cli_bad_option(option, value, "no such operator");
    }
    if (s->n_ops == OPS) {
        return charl__cli_bad_option(option, value, "can be given 32 times");
    }
    s->op[s->n_ops++] = value;
    return 0;
}

static bool is_chosen(const selftest *s, const char *name)
{
    for (int i = 0; i < s->n_ops; i++) {
        if (strcmp(s->op[i], name) == 0) {
            return true;
        }
    }
    return s->n_ops == 0;
}

static void print_sample(void *name, int sample, double ulp, double used)
{
    printf("  %s, sample %d: %.2f ulp, %.0f %% of what is allowed\n", (const char *)name, sample, ulp, 100.0 * used);
}

/* Print the verdict on an operator; returns whether it failed. */
static bool check_operator(charl_device *dev, const selftest *s, const char *name, charl_dtype dtype)
{
    const charl_operator_check_options options = {sizeof options,
                                                  .precision = dtype,
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
        if (is_chosen(s, name) && charl_operator_takes(name, dtype)) {
            count[check_operator(dev, s, name, dtype)]++;
        }
    }
}

/* Properties that the device needs to compute the same f32 bits as others; returns how many it lacks. */
static charl_status check_arithmetic(charl_device *dev, int *missing)
{
    charl_arithmetic table[CHARL_ARITHMETIC_COUNT];

    *missing = 0;
    CHARL_TRY(charl_device_check_arithmetic(dev, table));
    printf("f32 arithmetic, compared with IEEE 754\n");
    for (int k = 0; k < CHARL_ARITHMETIC_COUNT; k++) {
        const charl_arithmetic *row = &table[k];

        printf("%-16s %s  %s", row->name, row->wrong == 0 ? "yes" : "NO ", row->meaning);
        if (row->wrong > 0) {
            printf(" (%" PRId64 " of %" PRId64 " are not; with a = %a, b = %a, c = %a it is %a, not %a)", row->wrong,
                   row->tried, (double)row->first[0], (double)row->first[1], (double)row->first[2], (double)row->got,
                   (double)row->want);
        }
        printf("\n");
        *missing += row->wrong > 0;
    }
    printf("\n");
    return CHARL_OK;
}

static void print_hash(void *type, const char *name, const char *hash)
{
    const bool is_f32 = *(const charl_dtype *)type == CHARL_F32;
    char text[64];

    snprintf(text, sizeof text, "%s%s%s", name, is_f32 ? "" : " ",
             is_f32 ? "" : charl_dtype_name(*(const charl_dtype *)type));
    printf("%-30s %.32s\n", text, hash);
    fflush(stdout);
}

/* One line for each type: a digest of the outputs of all operators that take it. With --verbose also one for each operator, to find where two
 * devices differ. */
static charl_status print_hashes(charl_device *dev, const selftest *s)
{
    charl_dtype types[] = {CHARL_F32, CHARL_BF16};

    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const charl_operator_check_options one = {sizeof one, .precision = types[t], .seed = SEED,
                                                  .outputs_only = true};
        charl_operator_report report;
        char hash[65];

        for (int i = 0; i < s->n_ops; i++) {
            if (charl_operator_takes(s->op[i], types[t])) {
                CHARL_TRY(charl_operator_check(dev, s->op[i], &one, &report));
                print_hash(&types[t], s->op[i], report.hash);
            }
        }
        if (s->n_ops == 0) {
            CHARL_TRY(charl_operator_hash(dev, types[t], SEED, s->verbose ? print_hash : NULL, &types[t], hash));
            printf("hash of %s, charl %s: %s\n", charl_dtype_name(types[t]), charl_version(), hash);
        }
    }
    return CHARL_OK;
}

/* With --hash: the lines that say whether the device computes the same bits as others. */
static int compare_device(charl_device *dev, const selftest *s)
{
    int missing = 0;
    charl_status st = check_arithmetic(dev, &missing);

    st = st == CHARL_OK ? print_hashes(dev, s) : st;
    charl__cli_compiling_done();
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    return missing > 0 ? CHARL__EXIT_INTERNAL : CHARL__EXIT_OK;
}

static int check_all(charl_device *dev, const selftest *s)
{
    const double begun = charl__cli_clock_s();
    int count[2] = {0, 0}; /* passed, failed */

    check_type(dev, s, CHARL_F32, count);
    if (charl_device_has_tensor_cores(dev, CHARL_BF16)) {
        printf("\nin bf16, products %s\n",
               charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU ? "by AMX" : "on tensor cores");
        check_type(dev, s, CHARL_BF16, count);
    }
    printf("\n%d operators passed, %d failed, in %.1f s\n", count[0], count[1], charl__cli_clock_s() - begun);
    return count[1] > 0 ? CHARL__EXIT_INTERNAL : CHARL__EXIT_OK;
}

int charl__selftest_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"device", 'd', "SELECT",
         "auto, gpu, cpu, INDEX, pci:ADDRESS, name:TEXT or platform:TEXT (see `charl devices`)", 0,
         CHARL__CLI_TEXT(selftest, device)},
        {"op", 'o', "NAME", "Test only this operator; can be repeated", 0, .parse = parse_operator},
        {"hash", 0, NULL,
         "Print what of IEEE 754 the device has, and hashes of the bits that it computes in f32 and bf16", 0,
         CHARL__CLI_FLAG(selftest, hash)},
        {"verbose", 'v', NULL, "Print the result of every sample; with --hash the hash of every operator", 0,
         CHARL__CLI_FLAG(selftest, verbose)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "",
        "Run every operator on its test samples: twice, comparing bits, and against a double-precision reference "
        "within a bound on the rounding error. On devices with tensor cores or AMX, operators that support bf16 are "
        "also tested in bf16. The exit status is 0 if all tests pass, otherwise 1. With --hash: devices that print the "
        "same hash train to the same bits in that type, in bf16 with train.products = integer; the exit status "
        "is 1 if the device's arithmetic does not follow IEEE 754."};
    charl__cli_operands none = {0};
    selftest s = {0};
    charl_device *dev = NULL;
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &none, argc, argv, &s);

    if (code >= 0) {
        return code;
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    st = charl_device_open(&(charl_device_request){sizeof(charl_device_request), .select = s.device, .local_size = 1,
                                                   .compiling = charl__cli_compiling_show, .exact_half = s.hash},
                           &dev);
    if (st != CHARL_OK) {
        return charl__cli_error(charl__cli_exit_code(st), "`charl devices` lists the devices", "%s",
                                charl_error_message());
    }
    printf("device %d: %s, %s, driver %s\n\n", charl_device_get_info(dev)->index, charl_device_get_info(dev)->name,
           charl_device_get_info(dev)->platform, charl_device_get_info(dev)->driver);
    code = s.hash ? compare_device(dev, &s) : check_all(dev, &s);
    charl_device_close(dev);
    return code;
}

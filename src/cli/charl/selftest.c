/* charl selftest: tests the operators on the user's device. Each sample runs twice, the second time at other offsets: the values
 * must agree with the reference and the bits with each other. If the device has tensor cores or AMX, the operators that support
 * half types run with bf16 too; with --hash, which computes half types as all devices can, also without. */
#include <charl/device.h>
#include <charl/error.h>
#include <charl/operator.h>
#include <charl/roofline.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/charl/commands.h"

enum { SEED = 1, OPS = 32 };

typedef enum chosen { BOTH, F32, BF16 } chosen;

typedef struct selftest {
    const char *device, *op[OPS]; /* of the operators, all if there are none */
    const char *path;             /* of the report, or NULL */
    int n_ops;
    chosen type;
    bool verbose, hash;
    char part[PATH_MAX]; /* the report until it is complete */
    FILE *report;        /* NULL: none */
} selftest;

/* Hashes of one type that are being printed. */
typedef struct hashing {
    const selftest *s;
    charl_dtype dtype;
    const char *comma; /* before the next operator of the report */
} hashing;

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
static charl_status check_arithmetic(charl_device *dev, const selftest *s, int *missing)
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
        if (s->report) {
            fprintf(s->report, "%s\"%s\": %s", k == 0 ? "\"arithmetic\": {" : ", ", row->name,
                    row->wrong == 0 ? "true" : "false");
        }
        *missing += row->wrong > 0;
    }
    printf("\n");
    if (s->report) {
        fprintf(s->report, "},\n");
    }
    return CHARL_OK;
}

static void take_hash(void *ctx, const char *name, const char *hash)
{
    hashing *h = ctx;
    const bool is_f32 = h->dtype == CHARL_F32;
    char text[64];

    if (h->s->report) {
        fprintf(h->s->report, "%s\n    \"%s\": \"%.32s\"", h->comma, name, hash[0] ? hash : "wrong");
        h->comma = ",";
    }
    if (!h->s->verbose && h->s->n_ops == 0) {
        return;
    }
    snprintf(text, sizeof text, "%s%s%s", name, is_f32 ? "" : " ", is_f32 ? "" : charl_dtype_name(h->dtype));
    printf("%-30s %.32s\n", text, hash[0] ? hash : "wrong");
    fflush(stdout);
}

static charl_status take_hashes(charl_device *dev, hashing *h)
{
    const charl_operator_check_options one = {sizeof one, .precision = h->dtype, .seed = SEED, .outputs_only = true};
    const selftest *s = h->s;
    charl_status st = CHARL_OK;
    charl_operator_report report;
    char hash[65] = "";

    if (s->report) {
        fprintf(s->report, "\"operators %s\": {", charl_dtype_name(h->dtype));
    }
    for (int i = 0; i < s->n_ops && st == CHARL_OK; i++) {
        if (charl_operator_takes(s->op[i], h->dtype)) {
            st = charl_operator_check(dev, s->op[i], &one, &report);
            take_hash(h, s->op[i], report.hash);
        }
    }
    if (s->n_ops == 0) {
        st = charl_operator_hash(dev, h->dtype, SEED, take_hash, h, hash);
    }
    if (s->report) {
        fprintf(s->report, "},\n");
    }
    if (hash[0]) {
        printf("hash of %s, charl %s: %s\n", charl_dtype_name(h->dtype), charl_version(), hash);
    }
    if (hash[0] && s->report) {
        fprintf(s->report, "\"hash %s\": \"%s\",\n", charl_dtype_name(h->dtype), hash);
    }
    return st;
}

/* One line for each type: a digest of the outputs of all operators that take it. With --verbose also one for each operator, to find where two
 * devices differ. Returns the exit code. */
static int print_hashes(charl_device *dev, const selftest *s)
{
    static const charl_dtype types[] = {CHARL_F32, CHARL_BF16};
    int code = CHARL__EXIT_OK;

    for (int t = 0; t < 2; t++) {
        hashing h = {.s = s, .dtype = types[t], .comma = ""};
        charl_status st;

        if (s->type == BOTH || s->type == (t == 0 ? F32 : BF16)) {
            st = take_hashes(dev, &h);
            code = st != CHARL_OK ? charl__cli_fail(st) : code;
        }
    }
    return code;
}

/* The report's speeds: of copies and of multiplications and additions in f32, and what a kernel takes that does nearly nothing. */
static charl_status report_speed(charl_device *dev, const selftest *s)
{
    const int64_t much = (charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU ? 64 : 256) * (int64_t)(1 << 20);
    const int64_t little = 64;
    charl_status st = CHARL_OK;
    charl_roofline *r[3] = {NULL};
    double per_s[3];

    CHARL_TRY_CLEANUP(charl_roofline_copy(dev, much, &r[0]));
    CHARL_TRY_CLEANUP(charl_roofline_multiply(dev, CHARL_F32, &r[1]));
    CHARL_TRY_CLEANUP(charl_roofline_copy(dev, little, &r[2]));
    for (int i = 0; i < 3; i++) {
        CHARL_TRY_CLEANUP(charl_roofline_measure(r[i], &per_s[i]));
    }
    fprintf(s->report, "\"speed\": {\"copy_gb_per_s\": %.4g, \"f32_gflop_per_s\": %.4g, \"launch_us\": %.3g}\n}\n",
            per_s[0] / 1e9, per_s[1] / 1e9, 1e6 * charl_roofline_get_amount(r[2]) / per_s[2]);
cleanup:
    for (int i = 0; i < 3; i++) {
        charl_roofline_destroy(r[i]);
    }
    return st;
}

/* Begins the report beside its place, so that what is there stays until the new one is complete. */
static charl_status begin_report(const charl_device *dev, selftest *s)
{
    const time_t now = time(NULL);
    struct tm utc;
    char *device = NULL, date[16] = "";

    if (!s->path) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(snprintf(s->part, sizeof s->part, "%s.part", s->path) < (int)sizeof s->part, CHARL_ERR_INVALID,
                  "%s: the path is too long", s->path);
    s->report = fopen(s->part, "we");
    CHARL_REQUIRE(s->report, CHARL_ERR_DISK, "cannot write %s: %s", s->path, strerror(errno));
    CHARL_TRY(charl_device_json(dev, &device));
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
    fprintf(s->report, "{\n\"charl\": \"%s\", \"date\": \"%s\",\n\"device\": %.*s,\n", charl_version(), date,
            (int)strcspn(device, "\n"), device);
    charl_free(device);
    return CHARL_OK;
}

static charl_status finish_report(selftest *s)
{
    FILE *f = s->report;
    bool is_good;

    if (!f) {
        return CHARL_OK;
    }
    s->report = NULL;
    is_good = ferror(f) == 0;
    is_good = fclose(f) == 0 && is_good && rename(s->part, s->path) == 0;
    CHARL_REQUIRE(is_good, CHARL_ERR_DISK, "cannot write %s: %s", s->path, strerror(errno));
    return CHARL_OK;
}

static charl_status compare(charl_device *dev, selftest *s, int *code)
{
    int missing;

    CHARL_TRY(begin_report(dev, s));
    CHARL_TRY(check_arithmetic(dev, s, &missing));
    *code = print_hashes(dev, s);
    *code = *code == CHARL__EXIT_OK && missing > 0 ? CHARL__EXIT_INTERNAL : *code;
    if (s->report) {
        CHARL_TRY(report_speed(dev, s));
    }
    return finish_report(s);
}

/* With --hash: the lines that say whether the device computes the same bits as others. */
static int compare_device(charl_device *dev, selftest *s)
{
    int code = CHARL__EXIT_OK;
    const charl_status st = compare(dev, s, &code);

    charl__cli_compiling_done();
    if (s->report) { /* it failed */
        fclose(s->report);
        unlink(s->part);
    }
    return st != CHARL_OK ? charl__cli_fail(st) : code;
}

static int check_all(charl_device *dev, const selftest *s)
{
    const bool cores = charl_device_has_tensor_cores(dev, CHARL_BF16);
    const bool is_cpu = charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU;
    const double begun = charl__cli_clock_s();
    int count[2] = {0, 0}; /* passed, failed */

    if (s->type != BF16) {
        check_type(dev, s, CHARL_F32, count);
    }
    if (s->type == BF16 || (s->type == BOTH && cores)) {
        printf("%sin bf16%s\n", s->type == BOTH ? "\n" : "",
               !cores   ? ""
               : is_cpu ? ", products by AMX"
                        : ", products on tensor cores");
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
        {"type", 't', "f32|bf16", "Test operators in this type only", 0, CHARL__CLI_CHOICE(selftest, type, F32)},
        {"hash", 0, NULL,
         "Print what of IEEE 754 the device has, and hashes of the bits that it computes in f32 and bf16", 0,
         CHARL__CLI_FLAG(selftest, hash)},
        {"report", 0, "FILE",
         "As --hash, and write these results, what the driver reports of the device and its measured speed to FILE, as "
         "JSON",
         0, CHARL__CLI_TEXT(selftest, path)},
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
    s.hash = s.hash || s.path;
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

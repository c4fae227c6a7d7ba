/* charl selftest: the operator table on the user's device. Each sample runs twice, the second time
 * at other offsets: the values must agree with the reference and the bits with each other. Where
 * the device has tensor cores, the operators that take half types run with bf16 too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "cli/charl_commands.h"

enum { SEED = 1, SHIFT = 3 };

typedef struct selftest {
    const char *device, *op;
    bool verbose;
} selftest;

/* Of one operator. */
typedef struct verdict {
    double ulp, allowed;
    bool failed;
} verdict;

static error_t parse_selftest(int key, char *arg, struct argp_state *state)
{
    selftest *s = state->input;

    switch (key) {
    case 'd':
        s->device = arg;
        return 0;
    case 'o':
        if (!charl__op_find(arg)) {
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

static void free_outputs(void **raw)
{
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(raw[k]);
        raw[k] = NULL;
    }
}

/* Index of an output whose bits differ, or -1. */
static int differing(const charl_op_case *c, const charl_slices *whole, void *const *a, void *const *b)
{
    for (int k = 0; k < c->n_out; k++) {
        if (memcmp(a[k], b[k], charl__op_case_bytes(c, whole, k)) != 0) {
            return k;
        }
    }
    return -1;
}

/* Run one sample twice and compare. Values and bits that are wrong are errors, with the message. */
static charl_status check_sample(charl_device *dev, const charl_op *op, int index, charl_dtype dtype,
                                 charl_op_error *worst)
{
    charl_status st = CHARL_OK;
    charl_op_case c = {0};
    charl_slices whole;
    void *first[CHARL_OP_MAX_OUT] = {NULL}, *second[CHARL_OP_MAX_OUT] = {NULL};
    int k;

    *worst = (charl_op_error){0};
    CHARL_TRY_CLEANUP(charl_slices_block(1, 0, 1, &whole));
    CHARL_TRY_CLEANUP(charl__op_case_create(op, &op->samples[index], dtype, SEED + (uint64_t)index, &c));
    CHARL_TRY_CLEANUP(charl__op_case_run(dev, &c, &whole, 0, first));
    CHARL_TRY_CLEANUP(charl__op_case_run(dev, &c, &whole, SHIFT, second));
    *worst = charl__op_case_compare(&c, first);
    CHARL_REQUIRE_CLEANUP(worst->allowed <= 1.0, CHARL_ERR_DEVICE, "output %d, element %lld is %.9g and should be %.9g",
                          worst->output, (long long)worst->index, worst->got, worst->want);
    k = differing(&c, &whole, first, second);
    CHARL_REQUIRE_CLEANUP(k < 0, CHARL_ERR_DEVICE, "output %d has other bits in a second run", k);
cleanup:
    free_outputs(first);
    free_outputs(second);
    charl__op_case_destroy(&c);
    return st;
}

static void print_failure(const char *op, int sample)
{
    printf("  %s, sample %d: ", op, sample);
    charl__cli_put(charl_error_message(), 0);
    printf("\n");
}

/* Whether the sample has rows: half types are for them and what is derived from them. */
static bool is_batched(const charl_op_sample *s)
{
    for (int i = 0; i < CHARL_OP_MAX_IN; i++) {
        if (s->in[i].batch == CHARL_BATCHED) {
            return true;
        }
    }
    return false;
}

static verdict check_operator(charl_device *dev, const charl_op *op, charl_dtype dtype, bool verbose)
{
    verdict v = {.failed = op->n_samples < 1};

    for (int i = 0; i < op->n_samples; i++) {
        charl_op_error worst;
        charl_status st;

        if (dtype != CHARL_F32 && !is_batched(&op->samples[i])) {
            continue;
        }
        st = check_sample(dev, op, i, dtype, &worst);

        v.ulp = fmax(v.ulp, worst.ulp);
        v.allowed = fmax(v.allowed, worst.allowed);
        if (st != CHARL_OK) {
            v.failed = true;
            print_failure(op->name, i);
        } else if (verbose) {
            printf("  %s, sample %d: %.2f ulp, %.0f %% of what is allowed\n", op->name, i, worst.ulp,
                   100.0 * worst.allowed);
        }
    }
    return v;
}

static void check_type(charl_device *dev, const selftest *s, charl_dtype dtype, int count[2])
{
    printf("%-22s %12s %10s\n", "operator", "error (ulp)", "of allowed");
    for (int i = 0; i < charl__op_count; i++) {
        const charl_op *op = charl__op_table[i];
        verdict v;

        if ((s->op && strcmp(s->op, op->name) != 0) || (dtype != CHARL_F32 && !op->half)) {
            continue;
        }
        v = check_operator(dev, op, dtype, s->verbose);
        printf("%-22s %12.2f %8.0f %%  %s\n", op->name, v.ulp, 100.0 * v.allowed, v.failed ? "FAIL" : "PASS");
        fflush(stdout);
        count[v.failed]++;
    }
}

static int check_table(charl_device *dev, const selftest *s)
{
    const double begun = charl__clock_s();
    int count[2] = {0, 0}; /* passed, failed */

    check_type(dev, s, CHARL_F32, count);
    if (charl__device_facts(dev)->wgmma || charl__device_facts(dev)->mma) {
        printf("\nin bf16, products on tensor cores\n");
        check_type(dev, s, CHARL_BF16, count);
    }
    printf("\n%d operators passed, %d failed, in %.1f s\n", count[0], count[1], charl__clock_s() - begun);
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
    code = check_table(dev, &s);
    charl_device_close(dev);
    return code;
}

/* Launches on tensor cores, on a device that has none: its facts say that it has, and a driver takes every launch as that of the device
 * would: the file is found and compiled, without its inline PTX; the arguments are as many, of the kinds and sizes that the kernel
 * declares; and nothing runs. So every launch of an operator is seen. Results are tested in tests/emulation.
 */
#include "support/support.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "autograd/op/attention/attention.h"
#include "base/alloc.h"
#include "device/device_private.h"

enum { SEED = 3, ENOUGH = 2 /* samples of an operator that go there: its kernels take their time to compile */ };

static charl_device *dev;
static charl_slices whole;
static charl__driver dry; /* OpenCL's, but for what follows */
static int n_cores;       /* programs of tensor cores that were compiled */

static void *copy_of(const char *text)
{
    char *copy = malloc(strlen(text) + 1);

    assert_non_null(copy);
    return strcpy(copy, text);
}

/* Blank out ASM(...) and ASM volatile(...) in place. */
static void remove_ptx(char *text)
{
    for (char *at = text; (at = strstr(at, "ASM")) != NULL; at += 3) {
        char *p = at + 3;
        bool quoted = false;
        int depth = 0;

        p += *p == ' ' && strncmp(p + 1, "volatile", 8) == 0 ? 9 : 0;
        if (*p != '(' || (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))) {
            continue;
        }
        do {
            quoted = *p == '"' && p[-1] != '\\' ? !quoted : quoted;
            depth += quoted ? 0 : (*p == '(') - (*p == ')');
        } while (*p++ && depth > 0);
        memset(at, ' ', (size_t)(p - at));
    }
}

static charl_status build(charl_device *device, const char *file, const char *const source[3], const char *options,
                          const char *key, charl__driver_program **out)
{
    char *text[3];
    charl_status st;

    n_cores += strncmp(file, "nvidia/", 7) == 0;
    for (int i = 0; i < 3; i++) {
        text[i] = copy_of(source[i] ? source[i] : "");
        remove_ptx(text[i]);
    }
    st = charl__driver_opencl.program_build(device, file, (const char *const *)text, options, key, out);
    for (int i = 0; i < 3; i++) {
        free(text[i]);
    }
    return st;
}

/* The linker puts it in the place of charl__sm90a_build, which would read back PTX. */
charl_status __wrap_charl__sm90a_build(charl_device *device, const char *file, const char *const source[3],
                                       const charl__sm90a *target, charl__driver_program **out);
charl_status __wrap_charl__sm90a_build(charl_device *device, const char *file, const char *const source[3],
                                       const charl__sm90a *target, charl__driver_program **out)
{
    (void)target;
    return build(device, file, source, "-cl-std=CL1.2 -w", NULL, out);
}

static charl_status keep_nothing(charl_device *device, charl__driver_program *p, unsigned char **data, size_t *bytes)
{
    (void)device;
    (void)p;
    *data = NULL;
    *bytes = 0;
    return CHARL_OK;
}

static int run_nothing(charl_device *device, charl__queue q, charl__driver_kernel *k, const size_t global[3],
                       const size_t local[3], charl__driver_event *after, charl__driver_event **event)
{
    (void)k;
    (void)global;
    (void)local;
    (void)after;
    return event ? charl__driver_opencl.mark(device, q, event) : 0;
}

static void free_all(void **raw)
{
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(raw[k]);
        raw[k] = NULL;
    }
}

/* How many samples of the operator, up to ENOUGH, needed programs of tensor cores. */
static int launch_samples(const charl__op *op)
{
    void *raw[CHARL_OP_MAX_OUT] = {NULL};
    int taken = 0;

    for (int i = 0; i < op->n_samples && taken < ENOUGH; i++) {
        const charl_dtype type = i % 2 ? CHARL_F16 : CHARL_BF16;
        const int before = n_cores;
        bool alone = false;
        charl__op_case c;

        charl_assert_ok(charl__op_case_create(op, &op->samples[i], type, SEED, &c));
        if (charl__op_check_includes(&c, type, &alone) && charl__op_case_run(dev, &c, &whole, 0, raw) != CHARL_OK) {
            fail_msg("%s, sample %d: %s", op->name, i, charl_error_message());
        }
        taken += n_cores > before;
        free_all(raw);
        charl__op_case_destroy(&c);
    }
    return taken;
}

/* The programs of an operator: at least so many in all, of kernels of its own and of what goes before and after. */
static void launch_all(charl__nvidia_facts facts)
{
    static const struct {
        const char *name;
        int programs;
    } ops[] = {{"matmul", 1}, {"attention", 1},    {"attention_grad", 2},
               {"conv2d", 1}, {"conv2d_dgrad", 1}, {"conv2d_wgrad", 1}};

    dev->facts.nvidia = facts;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const int before = n_cores;

        assert_true(launch_samples(charl__op_find(ops[i].name)) > 0);
        assert_true(n_cores - before >= ops[i].programs);
    }
}

static void by_mma(void **state)
{
    (void)state;
    launch_all((charl__nvidia_facts){.mma = true});
}

static void by_wgmma(void **state)
{
    (void)state;
    launch_all((charl__nvidia_facts){.wgmma = true});
}

/* The kernel for generated tokens has neither windows nor limited scores. */
static void generated_tokens(void **state)
{
    static const charl__attention_attr attr[] = {
        {.heads = 2, .kv_heads = 1, .scale = 0.25F, .causal = true, .window = 9},
        {.heads = 2, .kv_heads = 1, .scale = 0.25F, .causal = true, .softcap = 1.5F},
        {.heads = 2, .kv_heads = 1, .scale = 0.25F, .causal = true}};

    (void)state;
    dev->facts.nvidia = (charl__nvidia_facts){.wgmma = true};
    for (int i = 0; i < 3; i++) {
        const charl__op_sample s = {.in = {CHARL_R(F32, 4, 1, 64), CHARL_R(F32, 4, 40, 32), CHARL_R(I32, 4)},
                                    .n_in = 3,
                                    .attr = &attr[i],
                                    .lo = -1,
                                    .hi = 1,
                                    .int_end = 40};
        void *raw[CHARL_OP_MAX_OUT] = {NULL};
        const int before = n_cores;
        charl__op_case c;

        charl_assert_ok(charl__op_case_create(charl__op_find("attention_cached"), &s, CHARL_BF16, SEED, &c));
        charl_assert_ok(charl__op_case_run(dev, &c, &whole, 0, raw));
        assert_int_equal(n_cores - before, i == 2 ? 1 : 0);
        free_all(raw);
        charl__op_case_destroy(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_mma), cmocka_unit_test(by_wgmma),
                                       cmocka_unit_test(generated_tokens)};
    int rc = 77;

    if (charl_slices_block(1, 0, 1, &whole) != CHARL_OK ||
        charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    if (charl__device_facts_get(dev)->nvidia.ptx) {
        fprintf(stderr, "skipped: the device builds such kernels\n");
    } else {
        dry = charl__driver_opencl;
        dry.program_build = build;
        dry.program_binary = keep_nothing;
        dry.launch = run_nothing;
        dev->driver = &dry;
        dev->info.local_bytes = 227 << 10; /* of an H100 */
        rc = cmocka_run_group_tests(tests, NULL, NULL);
    }
    charl_device_close(dev);
    return rc;
}

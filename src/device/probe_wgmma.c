/* Are there tensor cores that kernels/nvidia/gemm_wgmma.cl can use? One product of small integers,
 * whose sums are exact, through everything the kernel relies on: the retargeted program, local
 * memory above 48 KB, operands in both directions, tiles that the matrices do not fill. */
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "device/cl_private.h"

/* Queries of cl_nv_device_attribute_query. */
enum { COMPUTE_CAPABILITY_MAJOR_NV = 0x4000, COMPUTE_CAPABILITY_MINOR_NV = 0x4001 };

enum { M = 200, N = 136, K = 264, LOCAL_BYTES = 98304, GROUP = 256, TILES = 4, GROUPS = 3 };

static bool is_candidate(const charl_device *dev)
{
    cl_uint major = 0, minor = 0;

    return strstr(dev->info.platform, "NVIDIA") && dev->info.max_group >= GROUP &&
           clGetDeviceInfo(dev->id, COMPUTE_CAPABILITY_MAJOR_NV, sizeof major, &major, NULL) ==
               CL_SUCCESS &&
           clGetDeviceInfo(dev->id, COMPUTE_CAPABILITY_MINOR_NV, sizeof minor, &minor, NULL) ==
               CL_SUCCESS &&
           major == 9 && minor == 0 && !charl__env_is_on(CHARL_ENV_NO_TENSOR_CORES);
}

/* -4 to 4: exact in bf16, as products and sums of them are in f32. */
static int element(int i, int multiplier)
{
    return (int)((unsigned)i * (unsigned)multiplier >> 7) % 9 - 4;
}

static uint16_t bf16_of(int x)
{
    const float f = (float)x;
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static charl_status upload(charl_device *dev, int n, int multiplier, charl_buffer **out)
{
    charl_status st = CHARL_OK;
    uint16_t *x = NULL;

    CHARL_TRY(charl_alloc_array(n, sizeof *x, &x));
    for (int i = 0; i < n; i++) {
        x[i] = bf16_of(element(i, multiplier));
    }
    CHARL_TRY(charl__buffer_create(dev, (size_t)n * sizeof *x, "probe", out));
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, *out, 0, x, (size_t)n * sizeof *x, true));
cleanup:
    charl_free(x);
    return st;
}

static bool is_product(const float *c, int a_multiplier, int b_multiplier)
{
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            int sum = 0;

            for (int k = 0; k < K; k++) {
                sum += element(i * K + k, a_multiplier) * element(k * N + j, b_multiplier);
            }
            if (c[i * N + j] != (float)sum) {
                return false;
            }
        }
    }
    return true;
}

static charl_status multiply(charl_device *dev, charl_buffer *a, charl_buffer *b, charl_buffer *c)
{
    return charl__launch(
        dev, &(charl_launch){
                 .file = "nvidia/gemm_wgmma",
                 .entry = "gemm_wgmma",
                 .defines = "#define ACT ushort\n",
                 .global = {GROUPS * GROUP},
                 .local = {GROUP},
                 .local_bytes = LOCAL_BYTES,
                 .args = {charl__raw(CHARL_ARG_IN, a), charl__raw(CHARL_ARG_IN, b),
                          charl__raw(CHARL_ARG_IN, NULL), charl__raw(CHARL_ARG_OUT, c),
                          charl__i32(M), charl__i32(N), charl__i32(K), charl__i32(K), charl__i32(N),
                          charl__i32(1), charl__i32(TILES), charl__i64(0), charl__i64(0),
                          charl__i64(0), charl__i64(0), charl__i64(0), charl__i64(0)},
             });
}

charl_status charl__probe_wgmma(charl_device *dev)
{
    enum { A_MULTIPLIER = 7919, B_MULTIPLIER = 104729 };
    charl_status st = CHARL_OK;
    charl_buffer *a = NULL, *b = NULL, *c = NULL;
    float *got = NULL;

    if (!is_candidate(dev)) {
        goto cleanup;
    }
    CHARL_TRY(charl_alloc_array(M * N, sizeof *got, &got));
    CHARL_TRY(upload(dev, M * K, A_MULTIPLIER, &a));
    CHARL_TRY(upload(dev, K * N, B_MULTIPLIER, &b));
    CHARL_TRY(charl__buffer_create(dev, sizeof *got * M * N, "probe", &c));
    st = multiply(dev, a, b, c);
    if (st == CHARL_OK) {
        st = charl__buffer_read(CHARL_QUEUE_COMPUTE, c, 0, got, sizeof *got * M * N, true);
    }
    dev->facts.wgmma = st == CHARL_OK && is_product(got, A_MULTIPLIER, B_MULTIPLIER);
    if (!dev->facts.wgmma) {
        charl__log(CHARL__LOG_INFO, "%s: no matrix products on tensor cores: %s", dev->info.name,
                   st == CHARL_OK ? "the results are wrong" : charl_error_message());
    }
    if (st == CHARL_ERR_KERNEL || st == CHARL_ERR_DEVICE) {
        charl_error_clear();
        st = CHARL_OK;
    }
    CHARL_TRY(st);
    if (dev->facts.wgmma) {
        CHARL_TRY(charl__device_keep(
            dev, CHARL__KEPT_PASSED,
            (CHARL_PASSED_WORDS + (size_t)dev->info.compute_units * CHARL_PASSED_FLOATS) *
                sizeof(float),
            "sums between work-groups"));
    }
cleanup:
    charl__buffer_release(a);
    charl__buffer_release(b);
    charl__buffer_release(c);
    charl_free(got);
    return st;
}

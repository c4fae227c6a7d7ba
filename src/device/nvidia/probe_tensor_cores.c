/* Detects facts.nvidia.wgmma, mma and tf32: whether kernels/nvidia/gemm/gemm_wgmma.cl or gemm_mma.cl give right results.
 *
 * One product of small integers, whose sums are exact, exercises what the kernels rely on: operands of both orientations and partial
 * tiles; for gemm_wgmma also the program for sm_90a and more than 48 KB of local memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "device/cl_private.h"

/* Queries of cl_nv_device_attribute_query. */
enum { COMPUTE_CAPABILITY_MAJOR_NV = 0x4000, COMPUTE_CAPABILITY_MINOR_NV = 0x4001 };

enum { M = 200, N = 136, K = 264, LOCAL_BYTES = 98304, MOST_ITEMS = 256, TILES = 4, GROUPS = 3 };
enum { PTX_8_3 = 545 }; /* the first driver that assembles it */
enum { A_MULTIPLIER = 7919, B_MULTIPLIER = 104729 };

typedef struct kernel {
    const char *file, *entry;
    charl__kernel_param param;
    int64_t shared_bytes;
    size_t items; /* of a work-group */
    size_t size;  /* bytes of an element: 2, bf16; 4, f32 */
} kernel;

static const kernel wgmma = {"nvidia/gemm/gemm_wgmma", "gemm_wgmma", {"ACT", .text = "ushort"}, LOCAL_BYTES, 256, 2},
                    mma = {"nvidia/gemm/gemm_mma", "gemm_mma", {"ACT", .text = "ushort"}, 0, 128, 2},
                    tf32 = {"nvidia/gemm/gemm_mma", "gemm_mma", {"SIZE", 4}, 0, 128, 4};

/* Compute capability times 10; 0 if tensor cores are not used. */
static int capability(const charl_device *dev)
{
    cl_uint major = 0, minor = 0;
    const bool is_told =
        strstr(dev->info.platform, "NVIDIA") && dev->info.max_group >= MOST_ITEMS &&
        clGetDeviceInfo(dev->id, COMPUTE_CAPABILITY_MAJOR_NV, sizeof major, &major, NULL) == CL_SUCCESS &&
        clGetDeviceInfo(dev->id, COMPUTE_CAPABILITY_MINOR_NV, sizeof minor, &minor, NULL) == CL_SUCCESS;

    return is_told && !charl__env_is_on(CHARL_ENV_NO_TENSOR_CORES) ? (int)(10 * major + minor) : 0;
}

/* -4 to 4: exact in bf16 and tf32, as products and sums of them are in f32. */
static int element(int i, int multiplier)
{
    return (int)((unsigned)i * (unsigned)multiplier >> 7) % 9 - 4;
}

/* The upper half of a float that bf16 holds exactly is that number. */
static charl_status upload(charl_device *dev, const kernel *k, int n, int multiplier, charl__buffer **out)
{
    charl_status st = CHARL_OK;
    unsigned char *x = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(n, k->size, &x));
    for (int i = 0; i < n; i++) {
        const float f = (float)element(i, multiplier);
        uint32_t bits;
        uint16_t upper;

        memcpy(&bits, &f, sizeof bits);
        upper = (uint16_t)(bits >> 16);
        memcpy(x + (size_t)i * k->size, k->size == sizeof f ? (void *)&bits : (void *)&upper, k->size);
    }
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, (size_t)n * k->size, "probe", out));
    CHARL_TRY_CLEANUP(charl__buffer_write(CHARL_QUEUE_COMPUTE, *out, 0, x, (size_t)n * k->size, true));
cleanup:
    charl_free(x);
    return st;
}

static bool is_product(const float *c)
{
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            int sum = 0;

            for (int k = 0; k < K; k++) {
                sum += element(i * K + k, A_MULTIPLIER) * element(k * N + j, B_MULTIPLIER);
            }
            if (c[i * N + j] != (float)sum) {
                return false;
            }
        }
    }
    return true;
}

static charl_status multiply(charl_device *dev, const kernel *k, charl__buffer *a, charl__buffer *b, charl__buffer *c)
{
    return charl__launch_enqueue(
        dev, &(charl__launch){
                 .file = k->file,
                 .entry = k->entry,
                 .params = {k->param},
                 .global = {GROUPS * k->items},
                 .local = {k->items},
                 .sm90a.shared_bytes = k->shared_bytes,
                 .args = {charl__raw(CHARL_ARG_IN, a), charl__raw(CHARL_ARG_IN, b), charl__raw(CHARL_ARG_IN, NULL),
                          charl__raw(CHARL_ARG_OUT, c), charl__i32(M), charl__i32(N), charl__i32(K), charl__i32(K),
                          charl__i32(N), charl__i32(1), charl__i32(TILES), charl__i64(0), charl__i64(0), charl__i64(0),
                          charl__i64(0), charl__i64(0), charl__i64(0)},
             });
}

/* A kernel that does not build or run counts as wrong. */
static charl_status try_kernel(charl_device *dev, const kernel *k, const char *what, bool *is_right)
{
    charl_status st = CHARL_OK;
    charl__buffer *a = NULL, *b = NULL, *c = NULL;
    float *got = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(M * N, sizeof *got, &got));
    CHARL_TRY_CLEANUP(upload(dev, k, M * K, A_MULTIPLIER, &a));
    CHARL_TRY_CLEANUP(upload(dev, k, K * N, B_MULTIPLIER, &b));
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, sizeof *got * M * N, "probe", &c));
    st = multiply(dev, k, a, b, c);
    if (st == CHARL_OK) {
        st = charl__buffer_read(CHARL_QUEUE_COMPUTE, c, 0, got, sizeof *got * M * N, true);
    }
    *is_right = st == CHARL_OK && is_product(got);
    if (!*is_right) {
        charl__log(CHARL_LOG_INFO, "%s: no matrix products of %s on tensor cores: %s", dev->info.name, what,
                   st == CHARL_OK ? "the results are wrong" : charl_error_message());
    }
    if (st == CHARL_ERR_KERNEL || st == CHARL_ERR_DEVICE) {
        charl_error_clear();
        st = CHARL_OK;
    }
cleanup:
    charl__buffer_release(a);
    charl__buffer_release(b);
    charl__buffer_release(c);
    charl_free(got);
    return st;
}

charl_status charl__probe_tensor_cores(charl_device *dev, bool allow_tf32)
{
    const int cc = capability(dev);
    const bool has_mma = cc >= 80 && dev->facts.nvidia.ptx;

    if (cc == 90 && !charl__env_is_on(CHARL_ENV_NO_WGMMA)) {
        CHARL_TRY(try_kernel(dev, &wgmma, "half types", &dev->facts.nvidia.wgmma));
        dev->facts.nvidia.tensor_maps = dev->facts.nvidia.wgmma && atoi(dev->info.driver) >= PTX_8_3;
    }
    if (has_mma && !dev->facts.nvidia.wgmma) {
        CHARL_TRY(try_kernel(dev, &mma, "half types", &dev->facts.nvidia.mma));
    }
    if (has_mma && allow_tf32) {
        CHARL_TRY(try_kernel(dev, &tf32, "tf32", &dev->facts.nvidia.tf32));
    }
    if (dev->facts.nvidia.wgmma || dev->facts.nvidia.mma || dev->facts.nvidia.tf32) {
        CHARL_TRY(charl__workspace_replace(
            dev, CHARL__WORKSPACE_SPLIT_K,
            (CHARL_SPLIT_K_WORDS + CHARL_SPLIT_K_MAPS + (size_t)dev->info.compute_units * CHARL_SPLIT_K_FLOATS) *
                sizeof(float),
            "sums between work-groups"));
    }
    return CHARL_OK;
}

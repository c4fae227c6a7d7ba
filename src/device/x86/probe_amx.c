/* Detects facts.x86.amx: whether kernels/gemm/gemm_vector.cl computes correct results on the matrix unit of x86.
 *
 * An unsupported instruction ends the process, so the processor is queried first, then Linux, which a process must ask
 * before it uses tiles. PoCL's CPU drivers run kernels in this process and pass inline assembly to an assembler that knows the
 * instructions.
 */
#define _DEFAULT_SOURCE /* syscall */
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/fault.h"
#include "device/device_private.h"

#if defined(__linux__) && defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CPUID_FEATURES = 7, EDX_AMX_BF16 = 1 << 22, EDX_AMX_TILE = 1 << 24 };
enum { REQUEST_STATE = 0x1023 /* ARCH_REQ_XCOMP_PERM of asm/prctl.h */, TILE_DATA = 18 /* of XCR0 */ };

static bool may_use_tiles(void)
{
    const unsigned needed = EDX_AMX_BF16 | EDX_AMX_TILE;
    unsigned eax, ebx, ecx, edx;

    return __get_cpuid_count(CPUID_FEATURES, 0, &eax, &ebx, &ecx, &edx) && (edx & needed) == needed &&
           syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}
#else
static bool may_use_tiles(void)
{
    return false;
}
#endif

/* The driver runs kernels in this process. PoCL's driver `remote` presents the devices of another machine, a CPU as a CPU. */
static bool is_here(const charl_device *dev)
{
    const char *drivers = getenv("POCL_DEVICES");

    return dev->info.kind == CHARL_DEVICE_CPU && strstr(dev->info.platform, "Portable Computing Language") &&
           !(drivers && strstr(drivers, "remote"));
}

/* Partial tiles in both dimensions. */
enum { M = 72, N = 40, K = 96, TILE = 32 };

charl_status charl__probe_amx(charl_device *dev)
{
    if (dev->facts.exact_half || !is_here(dev) || charl__env_is_on(CHARL_ENV_NO_TENSOR_CORES) ||
        charl__fault("device.amx") || !may_use_tiles()) {
        return CHARL_OK;
    }
    return charl__probe_product(
        dev,
        &(charl__product_probe){
            .args = {.m = M, .n = N, .k = K, .segments = 1, .inner = 1, .leaves = 1, .mi = 1, .nj = 1},
            .size = 2,
            .what = "bf16 by AMX",
            .launch = {.file = "gemm/gemm_vector",
                       .entry = "gemm_vector",
                       .params = {{"AMX", 1},
                                  {"MR", TILE},
                                  {"NR", TILE},
                                  {"MI", 1},
                                  {"TILES", 1},
                                  {"KEPT", 0},
                                  {"IN_PLACE", 1},
                                  {"ACT", .text = "ushort"}},
                       .global = {(M / TILE + 1) * (N / TILE + 1)},
                       .local = {1}}},
        &dev->facts.x86.amx);
}

/* Programs for sm_90a.
 *
 * NVIDIA's OpenCL compiler targets sm_90: its assembler rejects the tensor-core instructions of sm_90a and allows 48 KB of local memory,
 * although the device has 227. But the PTX of a build can be read back, even if assembling failed, and a program created from PTX is
 * assembled for the target named in its text. So: compile, edit the PTX (ptx.c), create the program from it.
 */
#include "device/device_private.h"
#include "device/nvidia/ptx.h"

/* No -cl-std: with it, asm is not a keyword. Otherwise the same options as for all programs, so that fused operators give the bits of separate
 * ones. */
const char *charl__sm90a_options(const charl_device *dev)
{
    return dev->facts.nvidia.ptx ? "-w -DASM=asm -DCHARL_PTX -cl-fp32-correctly-rounded-divide-sqrt"
                                 : "-w -DASM=asm -cl-fp32-correctly-rounded-divide-sqrt";
}

charl_status charl__sm90a_build(charl_device *dev, const char *file, const char *const source[3],
                                const charl__sm90a *target, charl__driver_program **out)
{
    charl_status st = CHARL_OK;
    charl__text patched = {0};
    char *ptx = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__opencl_ptx(dev, file, source, charl__sm90a_options(dev), &ptx));
    st = charl__ptx_retarget(ptx, target->shared_bytes, target->min_blocks, &patched);
    if (st == CHARL_ERR_KERNEL) {
        CHARL_FAIL_CLEANUP(st, "kernels/%s.cl for sm_90a on %s: %s", file, dev->info.name, charl_error_message());
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(dev->driver->program_load(dev, (const unsigned char *)charl__text_string(&patched),
                                                patched.length, "-cl-nv-verbose", out));
    CHARL_REQUIRE_CLEANUP(*out, CHARL_ERR_KERNEL, "kernels/%s.cl for sm_90a on %s does not assemble", file,
                          dev->info.name);
cleanup:
    charl__text_fini(&patched);
    charl_free(ptx);
    return st;
}

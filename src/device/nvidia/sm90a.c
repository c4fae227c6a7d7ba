/* Programs for sm_90a.
 *
 * NVIDIA's OpenCL compiler targets sm_90: its assembler rejects the tensor-core instructions of sm_90a and allows 48 KB of local memory,
 * where the device has 227. But the PTX of a build can be read back, even if assembling failed, and a program created from PTX is
 * assembled for the target named in its text. So: compile, edit the PTX (ptx.c), create the program from it.
 */
#include "device/cl_private.h"
#include "device/nvidia/ptx.h"

/* No -cl-std: with it, asm is not a keyword. Otherwise the options of all programs, so that fused operators give the bits of separate
 * ones. */
const char *charl__sm90a_options(const charl_device *dev)
{
    return dev->facts.nvidia.ptx ? "-w -DASM=asm -DCHARL_PTX -cl-fp32-correctly-rounded-divide-sqrt"
                                 : "-w -DASM=asm -cl-fp32-correctly-rounded-divide-sqrt";
}

/* The program's binary as a string; "" if it has none, as some drivers return an error after a failed build. */
static charl_status read_binary(cl_program program, char **out)
{
    charl_status st = CHARL_OK;
    unsigned char *data = NULL;
    size_t bytes = 0;

    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS) {
        bytes = 0;
    }
    CHARL_TRY_CLEANUP(charl__alloc(bytes + 1, &data));
    if (bytes > 0) {
        CHARL_CL_CLEANUP(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, NULL));
    }
    data[bytes] = '\0';
    *out = (char *)data;
    data = NULL;
cleanup:
    charl_free(data);
    return st;
}

/* PTX of the source, whether or not it assembles. */
static charl_status compile(charl_device *dev, const char *file, const char *const source[3], char **out)
{
    charl_status st = CHARL_OK;
    cl_program program = NULL;
    char *text = NULL;
    cl_int err;

    CHARL_TRY_CLEANUP(charl__program_create(dev, file, source, &program));
    err = clBuildProgram(program, 1, &dev->id, charl__sm90a_options(dev), NULL, NULL);
    CHARL_TRY_CLEANUP(read_binary(program, &text));
    if (!text[0]) {
        CHARL_TRY_CLEANUP(charl__program_fail(dev, program, file, err));
    }
    CHARL_TRY_CLEANUP(charl__program_log(dev, program, file));
    *out = text;
    text = NULL;
cleanup:
    charl_free(text);
    charl__program_release(program);
    return st;
}

charl_status charl__sm90a_build(charl_device *dev, const char *file, const char *const source[3],
                                const charl__sm90a *target, cl_program *out)
{
    charl_status st = CHARL_OK;
    charl__text patched = {0};
    char *ptx = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(compile(dev, file, source, &ptx));
    st = charl__ptx_retarget(ptx, target->shared_bytes, target->min_blocks, &patched);
    if (st == CHARL_ERR_KERNEL) {
        CHARL_FAIL_CLEANUP(st, "kernels/%s.cl for sm_90a on %s: %s", file, dev->info.name, charl_error_message());
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(charl__program_of_binary(dev, (const unsigned char *)charl__text_string(&patched), patched.length,
                                               "-cl-nv-verbose", out));
    CHARL_REQUIRE_CLEANUP(*out, CHARL_ERR_KERNEL, "kernels/%s.cl for sm_90a on %s does not assemble", file,
                          dev->info.name);
    dev->counters.programs_built++;
cleanup:
    charl__text_fini(&patched);
    charl_free(ptx);
    return st;
}

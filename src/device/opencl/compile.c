/* Compiles programs with OpenCL. */
#include <string.h>

#include "base/log.h"
#include "base/text/text.h"
#include "device/opencl/opencl.h"

/* For PoCL, to avoid clang's header of built-in functions: kernels/prelude/builtins.clh
 * declares those that kernels call. The macro is that header's include guard. */
#define WITHOUT_HEADER " -D_OPENCL_H_ -DCHARL_BUILTINS"

/* Build log of the last build, trimmed. *out is owned by the caller. */
static charl_status build_log(charl_device *dev, cl_program program, char **out)
{
    size_t bytes = 0, blank;
    char *log = NULL;

    *out = NULL;
    clGetProgramBuildInfo(program, dev->opencl->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
    CHARL_TRY(charl__alloc(bytes + 1, &log));
    clGetProgramBuildInfo(program, dev->opencl->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    blank = strspn(log, " \t\r\n");
    memmove(log, log + blank, strlen(log + blank) + 1);
    *out = log;
    return CHARL_OK;
}

charl_status charl__opencl_build_failed(charl_device *dev, cl_program program, const char *file, int err)
{
    const charl__driver_error e = charl__opencl_error(err);
    CHARL_SCOPED_FREE char *log = NULL;

    if (e.fault != CHARL__NO_FAULT) {
        return charl__device_failed(dev, "building a kernel", e);
    }
    CHARL_TRY(build_log(dev, program, &log)); /* nothing, if the source is not the cause */
    CHARL_FAIL(CHARL_ERR_KERNEL, "kernels/%s.cl does not build on %s: %s%s%.1500s", file, dev->info.name, e.text,
               log[0] ? "\n" : "", log);
}

static charl_status show_log(charl_device *dev, cl_program program, const char *what)
{
    CHARL_SCOPED_FREE char *log = NULL;

    if (charl__log_enabled(CHARL_LOG_DEBUG)) {
        CHARL_TRY(build_log(dev, program, &log));
        if (log[0]) {
            charl__log(CHARL_LOG_DEBUG, "%s built on %s: %s", what, dev->info.name, log);
        }
    }
    return CHARL_OK;
}

static charl_status create(charl_device *dev, const char *file, const char *const source[3], cl_program *out)
{
    const char *text[3] = {source[0], source[1], source[2]};
    cl_int err = CL_SUCCESS;

    *out = NULL;
    CHARL_TRY(charl__opencl_context(dev));
    CHARL_TRY(charl__acquire("program"));
    *out = clCreateProgramWithSource(dev->opencl->context, 3, text, NULL, &err);
    if (err != CL_SUCCESS) {
        *out = NULL;
        charl__drop();
        CHARL_TRY(charl__device_failed(dev, file, charl__opencl_error(err)));
    }
    return CHARL_OK;
}

void charl__opencl_program_release(cl_program program)
{
    if (program) {
        clReleaseProgram(program);
        charl__drop();
    }
}

/* One that another device has built; NULL if there is none. */
static charl_status take(charl_device *dev, const char *key, cl_program *out)
{
    charl_status st;

    CHARL_TRY(charl__opencl_context(dev));
    *out = key ? charl__opencl_program_find(dev->opencl->shared, key) : NULL;
    st = *out ? charl__acquire("program") : CHARL_OK;
    if (st != CHARL_OK) {
        clReleaseProgram(*out);
        *out = NULL;
    }
    return st;
}

charl_status charl__opencl_build(charl_device *dev, const char *file, const char *const source[3], const char *options,
                                 const char *key, cl_program *out)
{
    charl_status st = CHARL_OK;
    charl__text quick = {0};
    cl_program program = NULL;
    cl_int err = CL_BUILD_PROGRAM_FAILURE;

    CHARL_TRY_CLEANUP(take(dev, key, out));
    if (*out) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(create(dev, file, source, &program));
    if (dev->pocl) {
        CHARL_TRY_CLEANUP(charl__text_printf(&quick, "%s" WITHOUT_HEADER, options));
        err = clBuildProgram(program, 1, &dev->opencl->id, charl__text_string(&quick), NULL, NULL);
        CHARL_TRY_CLEANUP(show_log(dev, program, file)); /* the functions that builtins.clh lacks */
    }
    if (err != CL_SUCCESS) {
        dev->counters.programs_with_header++;
        err = clBuildProgram(program, 1, &dev->opencl->id, options, NULL, NULL);
    }
    if (err != CL_SUCCESS) {
        CHARL_TRY_CLEANUP(charl__opencl_build_failed(dev, program, file, err));
    }
    CHARL_TRY_CLEANUP(show_log(dev, program, file));
    if (key) {
        CHARL_TRY_CLEANUP(charl__opencl_program_keep(dev->opencl->shared, key, program));
    }
    *out = program;
    program = NULL;
cleanup:
    charl__text_fini(&quick);
    charl__opencl_program_release(program);
    return st;
}

charl_status charl__opencl_binary(cl_program program, unsigned char **out, size_t *bytes)
{
    CHARL_SCOPED_FREE unsigned char *data = NULL;

    *out = NULL;
    *bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *bytes, bytes, NULL) != CL_SUCCESS || *bytes == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc(*bytes + 1, &data));
    if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, NULL) == CL_SUCCESS) {
        data[*bytes] = '\0';
        *out = data;
        data = NULL;
    }
    return CHARL_OK;
}

charl_status charl__opencl_ptx(charl_device *dev, const char *file, const char *const source[3], const char *options,
                               char **out)
{
    charl_status st = CHARL_OK;
    cl_program program = NULL;
    unsigned char *text = NULL;
    size_t bytes = 0;
    int err;

    *out = NULL;
    CHARL_TRY_CLEANUP(create(dev, file, source, &program));
    err = clBuildProgram(program, 1, &dev->opencl->id, options, NULL, NULL);
    CHARL_TRY_CLEANUP(charl__opencl_binary(program, &text, &bytes));
    if (!text) {
        CHARL_TRY_CLEANUP(charl__opencl_build_failed(dev, program, file, err));
    }
    CHARL_TRY_CLEANUP(show_log(dev, program, file));
    *out = (char *)text;
cleanup:
    charl__opencl_program_release(program);
    return st;
}

charl_status charl__opencl_load(charl_device *dev, const unsigned char *data, size_t bytes, const char *options,
                                cl_program *out)
{
    charl_status st = CHARL_OK;
    cl_int err = CL_SUCCESS, status = CL_SUCCESS;
    cl_program p = NULL;

    *out = NULL;
    CHARL_TRY(charl__opencl_context(dev));
    CHARL_TRY(charl__acquire("program"));
    p = clCreateProgramWithBinary(dev->opencl->context, 1, &dev->opencl->id, &bytes, &data, &status, &err);
    if (err == CL_SUCCESS && status == CL_SUCCESS) {
        err = clBuildProgram(p, 1, &dev->opencl->id, options, NULL, NULL);
        st = show_log(dev, p, "binary");
        *out = err == CL_SUCCESS && st == CHARL_OK ? p : NULL;
    }
    if (charl__opencl_error(err).fault != CHARL__NO_FAULT) {
        st = charl__device_failed(dev, "loading a compiled kernel", charl__opencl_error(err));
    }
    if (!*out) {
        if (p) {
            clReleaseProgram(p);
        }
        charl__drop();
    }
    return st;
}

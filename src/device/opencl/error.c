/* OpenCL's errors: their names, their effect on the device, and their charl_status. */
#include <stdio.h>

#include "device/opencl/opencl.h"

#define ERRORS(X)                                                                                                      \
    X(CL_DEVICE_NOT_FOUND)                                                                                             \
    X(CL_DEVICE_NOT_AVAILABLE)                                                                                         \
    X(CL_COMPILER_NOT_AVAILABLE)                                                                                       \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE)                                                                                \
    X(CL_OUT_OF_RESOURCES)                                                                                             \
    X(CL_OUT_OF_HOST_MEMORY)                                                                                           \
    X(CL_PROFILING_INFO_NOT_AVAILABLE)                                                                                 \
    X(CL_MEM_COPY_OVERLAP)                                                                                             \
    X(CL_BUILD_PROGRAM_FAILURE)                                                                                        \
    X(CL_MAP_FAILURE)                                                                                                  \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET)                                                                                 \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)                                                                    \
    X(CL_INVALID_VALUE)                                                                                                \
    X(CL_INVALID_DEVICE_TYPE)                                                                                          \
    X(CL_INVALID_PLATFORM)                                                                                             \
    X(CL_INVALID_DEVICE)                                                                                               \
    X(CL_INVALID_CONTEXT)                                                                                              \
    X(CL_INVALID_QUEUE_PROPERTIES)                                                                                     \
    X(CL_INVALID_COMMAND_QUEUE)                                                                                        \
    X(CL_INVALID_HOST_PTR)                                                                                             \
    X(CL_INVALID_MEM_OBJECT)                                                                                           \
    X(CL_INVALID_BINARY)                                                                                               \
    X(CL_INVALID_BUILD_OPTIONS)                                                                                        \
    X(CL_INVALID_PROGRAM)                                                                                              \
    X(CL_INVALID_PROGRAM_EXECUTABLE)                                                                                   \
    X(CL_INVALID_KERNEL_NAME)                                                                                          \
    X(CL_INVALID_KERNEL_DEFINITION)                                                                                    \
    X(CL_INVALID_KERNEL)                                                                                               \
    X(CL_INVALID_ARG_INDEX)                                                                                            \
    X(CL_INVALID_ARG_VALUE)                                                                                            \
    X(CL_INVALID_ARG_SIZE)                                                                                             \
    X(CL_INVALID_KERNEL_ARGS)                                                                                          \
    X(CL_INVALID_WORK_DIMENSION)                                                                                       \
    X(CL_INVALID_WORK_GROUP_SIZE)                                                                                      \
    X(CL_INVALID_WORK_ITEM_SIZE)                                                                                       \
    X(CL_INVALID_GLOBAL_OFFSET)                                                                                        \
    X(CL_INVALID_EVENT_WAIT_LIST)                                                                                      \
    X(CL_INVALID_EVENT)                                                                                                \
    X(CL_INVALID_OPERATION)                                                                                            \
    X(CL_INVALID_BUFFER_SIZE)                                                                                          \
    X(CL_INVALID_GLOBAL_WORK_SIZE)                                                                                     \
    X(CL_INVALID_PROPERTY)

static const char *name_of(cl_int err)
{
    switch (err) {
#define X(name)                                                                                                        \
    case name:                                                                                                         \
        return #name;
        ERRORS(X)
#undef X
    case -1001:
        return "CL_PLATFORM_NOT_FOUND_KHR (no OpenCL driver is registered in /etc/OpenCL/vendors)";
    case CHARL__NVIDIA_FAULT:
        return "error -9999 (NVIDIA: a command accessed memory out of bounds)";
    default: {
        static _Thread_local char number[32];

        snprintf(number, sizeof number, "OpenCL error %d", (int)err);
        return number;
    }
    }
}

charl__driver_error charl__opencl_error(int err)
{
    const bool is_fault = err == CHARL__NVIDIA_FAULT || err == CL_INVALID_COMMAND_QUEUE ||
                          err == CL_DEVICE_NOT_AVAILABLE || err == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    const bool no_memory = err == CL_MEM_OBJECT_ALLOCATION_FAILURE || err == CL_OUT_OF_HOST_MEMORY;

    return (charl__driver_error){.text = name_of(err),
                                 .status = no_memory                    ? CHARL_ERR_NOMEM
                                           : err == CL_INVALID_ARG_SIZE ? CHARL_ERR_INVALID
                                                                        : CHARL_ERR_DEVICE,
                                 .fault = err == CL_OUT_OF_RESOURCES ? CHARL__OWN_OR_FAULT
                                          : is_fault                 ? CHARL__FAULT
                                                                     : CHARL__NO_FAULT};
}

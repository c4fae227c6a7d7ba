/* Lists every device of every platform, in an order independent of the platforms' order: discrete GPUs
 * by PCI address, integrated GPUs, accelerators, CPUs. Devices that cannot compile or are not
 * available are not listed. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/opencl/opencl.h"

enum { MAX_PLATFORMS = 16 };

/* Queries of extensions that the plain header does not define. */
enum {
    PCI_BUS_INFO_KHR = 0x410F,
    PCI_BUS_ID_NV = 0x4008,
    PCI_SLOT_ID_NV = 0x4009,
    PCI_DOMAIN_ID_NV = 0x400A,
    CAPABILITY_MAJOR_NV = 0x4000,
    CAPABILITY_MINOR_NV = 0x4001,
    WARP_NV = 0x4003,
    TOPOLOGY_AMD = 0x4037,
    WAVEFRONT_AMD = 0x4043
};

static void get_text(cl_device_id id, cl_device_info what, char *out, size_t bytes)
{
    char text[1024] = "";
    const char *first = text;

    if (clGetDeviceInfo(id, what, sizeof text, text, NULL) != CL_SUCCESS) {
        text[0] = '\0';
    }
    while (*first == ' ') {
        first++; /* CPU names are padded */
    }
    snprintf(out, bytes, "%.*s", (int)bytes - 1, first);
}

static int64_t get_number(cl_device_id id, cl_device_info what)
{
    unsigned char raw[8] = {0};
    size_t bytes = 0;
    cl_uint u32;
    cl_ulong u64;

    if (clGetDeviceInfo(id, what, sizeof raw, raw, &bytes) != CL_SUCCESS) {
        return 0;
    }
    if (bytes == sizeof u32) {
        memcpy(&u32, raw, sizeof u32);
        return (int64_t)u32;
    }
    memcpy(&u64, raw, sizeof u64);
    return u64 > INT64_MAX ? INT64_MAX : (int64_t)u64;
}

static bool has_extension(cl_device_id id, const char *name)
{
    char text[16384] = "";

    return clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, sizeof text, text, NULL) == CL_SUCCESS &&
           strstr(text, name) != NULL;
}

static void get_pci(cl_device_id id, char *out, size_t bytes)
{
    cl_uint at[4] = {0}; /* domain, bus, device, function */
    unsigned char amd[24] = {0};

    out[0] = '\0';
    if (has_extension(id, "cl_khr_pci_bus_info") &&
        clGetDeviceInfo(id, PCI_BUS_INFO_KHR, sizeof at, at, NULL) == CL_SUCCESS) {
        /* unchanged */
    } else if (has_extension(id, "cl_nv_device_attribute_query")) {
        const int64_t slot = get_number(id, PCI_SLOT_ID_NV);

        at[0] = (cl_uint)get_number(id, PCI_DOMAIN_ID_NV);
        at[1] = (cl_uint)get_number(id, PCI_BUS_ID_NV);
        at[2] = (cl_uint)(slot >> 3);
        at[3] = (cl_uint)(slot & 7);
    } else if (has_extension(id, "cl_amd_device_attribute_query") &&
               clGetDeviceInfo(id, TOPOLOGY_AMD, sizeof amd, amd, NULL) == CL_SUCCESS) {
        for (int i = 0; i < 3; i++) {
            at[1 + i] = amd[21 + i];
        }
    } else {
        return;
    }
    snprintf(out, bytes, "%04x:%02x:%02x.%x", at[0] & 0xffff, at[1] & 0xff, at[2] & 0x1f, at[3] & 7);
}

static charl_device_kind kind_of(cl_device_id id)
{
    const int64_t type = get_number(id, CL_DEVICE_TYPE);

    if (type & CL_DEVICE_TYPE_GPU) {
        return get_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY) ? CHARL_DEVICE_INTEGRATED_GPU : CHARL_DEVICE_GPU;
    }
    return type & CL_DEVICE_TYPE_CPU ? CHARL_DEVICE_CPU : CHARL_DEVICE_ACCELERATOR;
}

/* Maximum size of one buffer. NVIDIA's driver (580.159) allows more than 32 GiB, but filling beyond
 * that hangs or accesses memory out of bounds. */
static int64_t largest_buffer(cl_device_id id, const char *platform)
{
    const int64_t told = get_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    const int64_t fillable = ((int64_t)32 << 30) - (2 << 20);

    return strstr(platform, "NVIDIA") && told > fillable ? fillable : told;
}

static void describe(charl__found *f)
{
    charl_device_info *d = &f->info;
    const cl_device_id id = f->id;
    const int width = (int)get_number(id, CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT);
    const int64_t arithmetic = get_number(id, CL_DEVICE_SINGLE_FP_CONFIG);

    *d = (charl_device_info){.kind = kind_of(id)};
    get_text(id, CL_DEVICE_NAME, d->name, sizeof d->name);
    get_text(id, CL_DEVICE_VENDOR, d->vendor, sizeof d->vendor);
    get_text(id, CL_DRIVER_VERSION, d->driver, sizeof d->driver);
    get_text(id, CL_DEVICE_VERSION, d->version, sizeof d->version);
    get_pci(id, d->pci, sizeof d->pci);
    clGetPlatformInfo(f->platform, CL_PLATFORM_NAME, sizeof d->platform - 1, d->platform, NULL);
    d->compute_units = (int)get_number(id, CL_DEVICE_MAX_COMPUTE_UNITS);
    d->global_bytes = get_number(id, CL_DEVICE_GLOBAL_MEM_SIZE);
    d->max_alloc_bytes = largest_buffer(id, d->platform);
    d->local_bytes = get_number(id, CL_DEVICE_LOCAL_MEM_SIZE);
    d->max_group = (int)get_number(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    clGetPlatformInfo(f->platform, CL_PLATFORM_VERSION, sizeof f->platform_version - 1, f->platform_version, NULL);
    f->unified = get_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
    f->has_half = has_extension(id, "cl_khr_fp16");
    f->rounds_divide = (arithmetic & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    f->has_denormals = (arithmetic & CL_FP_DENORM) != 0;
    f->has_fma = (arithmetic & CL_FP_FMA) != 0;
    f->has_local = get_number(id, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL;
    f->lockstep = (int)(has_extension(id, "cl_nv_device_attribute_query")    ? get_number(id, WARP_NV)
                        : has_extension(id, "cl_amd_device_attribute_query") ? get_number(id, WAVEFRONT_AMD)
                                                                             : 0);
    f->vector_width = width > 0 ? width : 1;
    f->capability = strstr(d->platform, "NVIDIA")
                        ? (int)(10 * get_number(id, CAPABILITY_MAJOR_NV) + get_number(id, CAPABILITY_MINOR_NV))
                        : 0;
}

static bool is_before(const charl_device_info *a, const charl_device_info *b)
{
    return a->kind != b->kind ? a->kind > b->kind : strcmp(a->pci, b->pci) < 0;
}

static bool is_usable(cl_device_id id)
{
    return get_number(id, CL_DEVICE_AVAILABLE) && get_number(id, CL_DEVICE_COMPILER_AVAILABLE) &&
           get_number(id, CL_DEVICE_ENDIAN_LITTLE);
}

/* Insertion keeps the order of platforms among equal devices. */
static void insert(charl__found *out, int *count, charl__found f)
{
    int at = *count;

    for (; at > 0 && is_before(&f.info, &out[at - 1].info); at--) {
        out[at] = out[at - 1];
    }
    out[at] = f;
    ++*count;
}

static bool holds_file(const char *dir, size_t length, const char *name)
{
    char path[1024];
    const int n = snprintf(path, sizeof path, "%.*s/%s", (int)length, dir, name);

    return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

static bool is_in_path_list(const char *list, const char *name)
{
    while (list && *list) {
        const size_t length = strcspn(list, ":");

        if (length > 0 && holds_file(list, length, name)) {
            return true;
        }
        list += length + (list[length] == ':');
    }
    return false;
}

const char *charl__devices_hint(void)
{
    static const char name[] = "libnvidia-opencl.so.1";
    static const char dirs[] = "/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib:"
                               "/usr/local/nvidia/lib64:/usr/local/lib";
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n = 0;

    if (clGetPlatformIDs(MAX_PLATFORMS, platforms, &n) == CL_SUCCESS) {
        for (cl_uint p = 0; p < n && p < MAX_PLATFORMS; p++) {
            char text[128] = "";

            clGetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof text - 1, text, NULL);
            if (strstr(text, "NVIDIA")) {
                return "";
            }
        }
    }
    return is_in_path_list(dirs, name) || is_in_path_list(getenv("LD_LIBRARY_PATH"), name)
               ? ". NVIDIA's OpenCL library is installed but not registered: "
                 "echo libnvidia-opencl.so.1 > /etc/OpenCL/vendors/nvidia.icd"
               : "";
}

static charl_status find(charl__found *out, int *count)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n_platforms = 0;
    cl_int err;

    *count = 0;
    charl__cache_place_pocl();
    err = clGetPlatformIDs(MAX_PLATFORMS, platforms, &n_platforms);
    CHARL_REQUIRE(err == CL_SUCCESS && n_platforms > 0, CHARL_ERR_DEVICE,
                  "no OpenCL platform (%s). Install the OpenCL driver of your GPU, or PoCL for the CPU "
                  "(Debian: apt-get install pocl-opencl-icd)%s",
                  charl__opencl_error(err).text, charl__devices_hint());
    for (cl_uint p = 0; p < n_platforms && p < MAX_PLATFORMS; p++) {
        cl_device_id ids[CHARL__MAX_DEVICES];
        cl_uint n = 0;

        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, CHARL__MAX_DEVICES, ids, &n) != CL_SUCCESS) {
            continue; /* a driver without its hardware */
        }
        for (cl_uint d = 0; d < n && d < CHARL__MAX_DEVICES && *count < CHARL__MAX_DEVICES; d++) {
            charl__found f = {.platform = platforms[p], .id = ids[d]};

            if (is_usable(ids[d])) {
                describe(&f);
                insert(out, count, f);
            }
        }
    }
    CHARL_REQUIRE(*count > 0, CHARL_ERR_DEVICE,
                  "no OpenCL device on any of %u platforms. Is the hardware there, and may this user open "
                  "it? For the CPU install PoCL (Debian: apt-get install pocl-opencl-icd)%s",
                  n_platforms, charl__devices_hint());
    for (int i = 0; i < *count; i++) {
        out[i].info.index = i;
    }
    return CHARL_OK;
}

static _Atomic(long) user;     /* the process that opened OpenCL; 0: none */
static atomic_bool has_others; /* devices than PoCL's, whose handles do not pass to a forked process */
static bool is_whole;          /* OpenCL will be, in the process that is being forked */

static bool is_single_threaded(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;

    for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
        n += e->d_name[0] != '.';
    }
    if (d) {
        (void)closedir(d);
    }
    return n == 1;
}

/* A forked process has only the thread that forks. One that has been joined may still be listed for a moment. */
static void before_fork(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    const bool may_be = atomic_load(&user) == (long)getpid() && !atomic_load(&has_others);

    is_whole = may_be && is_single_threaded();
    for (int i = 0; may_be && !is_whole && i < 10; i++) {
        nanosleep(&moment, NULL);
        is_whole = is_single_threaded();
    }
}

static void in_child(void)
{
    if (is_whole) {
        atomic_store(&user, (long)getpid());
    }
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, NULL, in_child);
}

/* The first query initializes a driver, and PoCL's is not thread-safe. PoCL and its LLVM then also
 * replace the program's signal handlers (LLVM's swallows the first SIGQUIT and SIGUSR1), so
 * the program's own are restored. */
charl_status charl__devices_find(charl__found *out, int *count)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGILL,  SIGTRAP,
                                  SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGSYS,  SIGPIPE, SIGXCPU, SIGXFSZ};
    enum { N = sizeof signals / sizeof signals[0] };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sigaction action[N];
    charl_status st;
    long nobody = 0;

    pthread_once(&once, watch_forks);
    CHARL_REQUIRE(atomic_compare_exchange_strong(&user, &nobody, (long)getpid()) || nobody == (long)getpid(),
                  CHARL_ERR_INVALID,
                  "process %ld had used OpenCL when it forked this one, which OpenCL does not survive; HINT fork "
                  "first, and open devices in "
                  "the child alone",
                  nobody);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < N; i++) {
        sigaction(signals[i], NULL, &action[i]);
    }
    st = find(out, count);
    for (int i = 0; i < *count; i++) {
        if (!charl__is_pocl(&out[i].info)) {
            atomic_store(&has_others, true);
        }
    }
    for (int i = 0; i < N; i++) {
        sigaction(signals[i], &action[i], NULL);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

charl_status charl_device_list(charl_device_info *out, int capacity, int *count)
{
    CHARL_GIVEN(out || capacity == 0, count);
    CHARL_SCOPED_FREE charl__found *all = NULL;

    *count = 0;
    CHARL_TRY(charl__alloc_array(CHARL__MAX_DEVICES, sizeof *all, &all));
    CHARL_TRY(charl__devices_find(all, count));
    for (int i = 0; i < *count && i < capacity; i++) {
        out[i] = all[i].info;
        snprintf(out[i].backend, sizeof out[i].backend, "%s", charl__driver_auto(&all[i])->name);
    }
    return CHARL_OK;
}

/* charl doctor: checks the machine for everything charl needs, line by line, and says how to fix what is missing. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <charl/comm.h>
#include <charl/dataset.h>
#include <charl/device.h>
#include "cli/charl/commands.h"

enum { MOST_DEVICES = 64, TEXT = 1024, INDENT = 20, NARROW = 40, WIDE = 120 };

static const int64_t MIB = 1 << 20, GIB = 1 << 30;

typedef enum verdict { OK, WARNING, ERROR, VERDICTS } verdict;

typedef struct doctor {
    int count[VERDICTS];
    int columns;
    charl_device_info device[MOST_DEVICES];
    int n_devices;
} doctor;

/* Words of `text` from column INDENT on, whose line ends are blanks; `used`: the current column. */
static void print_wrapped(const doctor *d, const char *text, int used)
{
    while (*text) {
        const int length = (int)strcspn(text, " \n");

        if (used + length >= d->columns && used > INDENT) {
            printf("\n%*s", INDENT, "");
            used = INDENT;
        }
        charl__cli_write(stdout, text, (size_t)length);
        used += length;
        text += length;
        if (*text) {
            putchar(' ');
            used++;
            text++;
        }
    }
    putchar('\n');
}

/* A line: verdict, subject, finding; below it how to fix it, unless NULL. */
static void CHARL_PRINTF(5, 6) say(doctor *d, verdict v, const char *subject, const char *hint, const char *fmt, ...)
{
    static const char *const words[] = {"ok", "warning", "error"};
    char text[TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    d->count[v]++;
    printf("%-8s %-10s ", words[v], subject);
    print_wrapped(d, text, INDENT);
    if (v != OK && hint) {
        printf("%*s", INDENT, "");
        print_wrapped(d, hint, INDENT);
    }
    fflush(stdout);
}

/* The thread's last failure, with its own hint if it has one. */
static void say_failure(doctor *d, verdict v, const char *subject, const char *hint)
{
    char text[TEXT];
    const char *own;

    snprintf(text, sizeof text, "%s", charl_error_message());
    own = charl__cli_split_hint(text);
    say(d, v, subject, own ? own : hint, "%s", text);
}

static bool ends_in(const char *name, const char *suffix)
{
    const size_t n = strlen(name), m = strlen(suffix);

    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* Whether the library named in an ICD file can be loaded. */
static void check_icd_file(doctor *d, const char *path)
{
    char line[512] = "";
    FILE *f = fopen(path, "r");
    void *library;

    if (!f) {
        say(d, WARNING, "icd", "make it readable: chmod a+r", "%s: %s", path, strerror(errno));
        return;
    }
    if (!fgets(line, sizeof line, f)) {
        line[0] = '\0';
    }
    fclose(f);
    line[strcspn(line, "\r\n")] = '\0';
    library = line[0] ? dlopen(line, RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (library) {
        say(d, OK, "icd", NULL, "%s: %s", path, line);
        dlclose(library);
    } else {
        const char *why = dlerror(); /* begins with the library's name */

        say(d, WARNING, "icd",
            "the file names a driver that is not installed, or not complete: install it, or remove the file", "%s: %s",
            path,
            !line[0] ? "the file is empty"
            : why    ? why
                     : "the driver cannot be loaded");
    }
}

static void check_icds(doctor *d)
{
    static const char hint[] = "install a driver, for CPUs: apt-get install pocl-opencl-icd";
    const char *set = getenv("OCL_ICD_VENDORS"), *dir = set && set[0] ? set : "/etc/OpenCL/vendors";
    DIR *list;
    const struct dirent *e;
    char path[TEXT];
    int files = 0;

    if (ends_in(dir, ".icd")) {
        check_icd_file(d, dir);
        return;
    }
    list = opendir(dir);
    while (list && (e = readdir(list)) != NULL) {
        if (ends_in(e->d_name, ".icd")) {
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
            check_icd_file(d, path);
            files++;
        }
    }
    if (!list) {
        say(d, ERROR, "icd", set ? "OCL_ICD_VENDORS is set: unset it, or set it to a directory of .icd files" : hint,
            "%s: %s", dir, strerror(errno));
    } else if (files == 0) {
        say(d, ERROR, "icd", set ? "OCL_ICD_VENDORS is set: unset it, or put a driver's .icd file there" : hint,
            "%s has no .icd file: no OpenCL driver is registered", dir);
    }
    if (list) {
        closedir(list);
    }
}

static void check_health(doctor *d, const charl_device_info *info)
{
    charl_device_health h;

    if (charl_device_get_health(info, &h)) {
        say(d, h.is_slowed ? WARNING : OK, "gpu", "look at cooling and power: nvidia-smi -q -d PERFORMANCE",
            "device %d: %.0f of %.0f W, %.0f C, %.0f of %.0f MHz%s, %d NVLinks active", info->index, h.power_w,
            h.power_limit_w, h.temperature_c, h.clock_mhz, h.max_clock_mhz,
            h.is_slowed ? " (slowed down: too hot, or too little power)" : "", h.nvlinks);
    }
}

/* Opens a device, and compiles and runs a kernel with f32 arithmetic. */
static void check_kernels(doctor *d, const charl_device_info *info)
{
    charl_arithmetic table[CHARL_ARITHMETIC_COUNT];
    charl_device *dev = NULL;
    char select[16];
    const char *wrong = NULL;
    const double begun = charl__cli_clock_s();

    snprintf(select, sizeof select, "%d", info->index);
    if (charl_device_open(&(charl_device_request){sizeof(charl_device_request), .select = select, .local_size = 1,
                                                  .exact = true, .share = true},
                          &dev) == CHARL_OK &&
        charl_device_check_arithmetic(dev, table) == CHARL_OK) {
        const charl_device_memory m = charl_device_get_memory(dev);

        for (int i = 0; i < CHARL_ARITHMETIC_COUNT && !wrong; i++) {
            wrong = table[i].wrong > 0 ? table[i].name : NULL;
        }
        say(d, OK, "device", NULL, "%d: %s, %s, driver %s, %.1f GiB; compiles and runs kernels (%.1f s)", info->index,
            info->name, info->platform, info->driver, (double)m.capacity / (double)GIB, charl__cli_clock_s() - begun);
        if (wrong) {
            say(d, WARNING, "arithmetic",
                "it trains, but not to the bits of other devices: `charl selftest --hash` has the details",
                "device %d rounds f32 in a way of its own (%s)", info->index, wrong);
        }
    } else {
        say_failure(
            d, ERROR, "device",
            "the driver is installed, but does not work: look at its version and, in a container, at its files");
    }
    charl_device_close(dev);
}

static void check_devices(doctor *d)
{
    struct stat s;
    bool has_gpu = false;

    if (charl_device_list(d->device, MOST_DEVICES, &d->n_devices) != CHARL_OK) {
        d->n_devices = 0;
        say_failure(d, ERROR, "device", "install an OpenCL driver, for CPUs: apt-get install pocl-opencl-icd");
    }
    for (int i = 0; i < d->n_devices && i < MOST_DEVICES; i++) {
        has_gpu = has_gpu || d->device[i].kind == CHARL_DEVICE_GPU;
        check_kernels(d, &d->device[i]);
        check_health(d, &d->device[i]);
    }
    if (charl__nvidia_is_hidden(d->device, d->n_devices)) {
        say(d, WARNING, "nvidia", "register it: echo libnvidia-opencl.so.1 > /etc/OpenCL/vendors/nvidia.icd",
            "NVIDIA's OpenCL library is installed, but not registered");
    } else if (!has_gpu && stat("/dev/nvidia0", &s) == 0) {
        say(d, WARNING, "nvidia",
            "install the driver's OpenCL library (libnvidia-opencl.so.1); in a container, start it with "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            "there is an NVIDIA GPU (/dev/nvidia0), but OpenCL does not show it");
    }
}

/* Free bytes for this user at `path`; -1: unknown. */
static int64_t free_bytes(const char *path)
{
    struct statvfs v;

    return statvfs(path, &v) == 0 && v.f_frsize > 0 ? (int64_t)(v.f_bavail * v.f_frsize) : -1;
}

static void check_cache(doctor *d)
{
    static const char hint[] = "set CHARL_CACHE_DIR to a directory of your own that no other user can write";
    char *dir = NULL;
    int64_t left;

    if (charl_device_get_cache(&dir) != CHARL_OK) {
        say_failure(d, ERROR, "cache", hint);
        return;
    }
    if (!dir) {
        say(d, WARNING, "cache", hint, "there is no directory for compiled kernels: every run compiles them again");
        return;
    }
    left = free_bytes(dir);
    say(d, left >= 0 && left < 256 * MIB ? WARNING : OK, "cache", "make room, or set CHARL_CACHE_DIR",
        "%s keeps compiled kernels, %.1f GiB free", dir, (double)left / (double)GIB);
    charl_free(dir);
}

static void check_output(doctor *d)
{
    const int64_t left = free_bytes(".");
    const bool writable = access(".", W_OK | X_OK) == 0;

    say(d, !writable || (left >= 0 && left < GIB) ? WARNING : OK, "disk",
        writable ? "checkpoints need room: set run.output_dir to another disk"
                 : "set run.output_dir to a directory that you can write",
        "the working directory %s, %.1f GiB free", writable ? "can be written" : "cannot be written",
        (double)left / (double)GIB);
}

/* First line of a command's output, or "". */
static void first_line(const char *command, char text[TEXT])
{
    FILE *f = popen(command, "r");

    text[0] = '\0';
    if (f) {
        if (!fgets(text, TEXT, f)) {
            text[0] = '\0';
        }
        pclose(f);
        text[strcspn(text, "\n")] = '\0';
    }
}

static bool is_on(const char *name)
{
    const char *value = getenv(name);

    return value && strcmp(value, "1") == 0;
}

/* The version in "Open MPI v4.1.4" and in "mpirun (Open MPI) 4.1.4". */
static const char *version_in(const char *text)
{
    const char *at = text + strcspn(text, "0123456789");

    return at;
}

static void check_mpi(doctor *d)
{
    const char *library = charl_comm_mpi_version(), *mine = version_in(library), *launcher;
    char text[TEXT];
    int length;

    first_line("mpirun --version 2>/dev/null", text);
    launcher = version_in(text);
    length = (int)strspn(mine, "0123456789.");
    if (!text[0]) {
        say(d, WARNING, "mpi", "one rank needs no mpirun; for more: apt-get install openmpi-bin",
            "%s; mpirun is not in PATH", library);
    } else if (strncmp(library, "no ", 3) == 0) {
        say(d, WARNING, "mpi",
            "for several ranks: install the MPI that charl was built for, or put its folder into LD_LIBRARY_PATH",
            "%s, but mpirun is %s", library, text);
    } else if (strstr(text, "Open MPI") &&
               (strncmp(mine, launcher, (size_t)length) != 0 || (int)strspn(launcher, "0123456789.") != length)) {
        say(d, WARNING, "mpi", "put the mpirun of the library first in PATH: ranks may not find each other",
            "%s, but mpirun is %s", library, text);
    } else {
        say(d, OK, "mpi", NULL, "%s, %s", library, text);
    }
    if (geteuid() == 0 && !(is_on("OMPI_ALLOW_RUN_AS_ROOT") && is_on("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"))) {
        say(d, WARNING, "root", "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or be another user",
            "you are root: mpirun of Open MPI refuses to start");
    }
}

static void check_shared_memory(doctor *d)
{
    const int64_t left = charl_comm_shared_available();
    const verdict v = left < 64 * MIB ? ERROR : left < GIB ? WARNING : OK;

    if (left == INT64_MAX) {
        say(d, ERROR, "shm", "mount it: mount -t tmpfs tmpfs /dev/shm",
            "/dev/shm is missing: ranks share memory there");
        return;
    }
    say(d, v, "shm",
        "containers give 64 MiB: docker run --shm-size=8g; in Kubernetes an emptyDir of medium Memory at /dev/shm",
        "/dev/shm has %.2f GiB free; several ranks need room for all gradients there", (double)left / (double)GIB);
}

typedef struct limit {
    int resource;
    const char *name, *option;
    rlim_t least, good;
    const char *why;
} limit;

static void check_limits(doctor *d)
{
    static const limit limits[] = {
        {RLIMIT_NOFILE, "open files", "-n", 128, 1024, "every rank and every dataset needs some"},
        {RLIMIT_STACK, "stack", "-s", 1 << 20, 8 << 20, "kernels are compiled on it"},
        {RLIMIT_NPROC, "processes and threads", "-u", 64, 1024, "drivers and MPI start threads"},
        {RLIMIT_FSIZE, "size of a file", "-f", 16 << 20, 1 << 30, "checkpoints are one file"},
        {RLIMIT_AS, "virtual memory", "-v", 1 << 30, (rlim_t)64 << 30, "drivers reserve much more than they use"},
        {RLIMIT_MEMLOCK, "locked memory", "-l", 0, 64 << 10, "copies from locked memory are faster"},
    };
    char text[TEXT], hint[128];
    int low = 0;

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const limit *l = &limits[i];
        struct rlimit r;

        /* charl raises a soft limit at start if the hard one allows it */
        if (getrlimit(l->resource, &r) == 0 && r.rlim_max < l->good) {
            snprintf(text, sizeof text, "%s: %llu (%s)", l->name, (unsigned long long)r.rlim_max, l->why);
            snprintf(hint, sizeof hint,
                     "raise the hard limit, in /etc/security/limits.conf or of the container: ulimit -H %s", l->option);
            say(d, r.rlim_max < l->least ? ERROR : WARNING, "limits", hint, "%s", text);
            low++;
        }
    }
    if (low == 0) {
        say(d, OK, "limits", NULL, "open files, stack, threads, file size, memory");
    }
}

/* A number from a system file; -1: missing or invalid. */
static double number_in(const char *path, double *second)
{
    double a = -1;
    FILE *f = fopen(path, "r");

    *second = 0;
    if (f) {
        if (fscanf(f, "%lf %lf", &a, second) < 1) {
            a = -1;
        }
        fclose(f);
    }
    return a;
}

static void check_machine(doctor *d)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_AVPHYS_PAGES);
    double period, unused, quota = number_in("/sys/fs/cgroup/cpu.max", &period);
    const double group = number_in("/sys/fs/cgroup/memory.max", &unused);
    const double memory = (double)pages * (double)sysconf(_SC_PAGESIZE);
    cpu_set_t set;
    long mine = online;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        mine = CPU_COUNT(&set);
    }
    quota = quota > 0 && period > 0 ? quota / period : (double)mine;
    say(d, quota < (double)mine || mine < online ? WARNING : OK, "cpu",
        "the launcher or the container binds it: mpirun --bind-to none, docker run --cpus",
        "this process may use %.3g of %ld processors", quota < (double)mine ? quota : (double)mine, online);
    say(d, memory < (double)GIB || (group > 0 && group < (double)GIB) ? WARNING : OK, "memory",
        "close other programs, or give the container more", "%.1f GiB free%s", memory / (double)GIB,
        group > 0 ? ", limited by the container" : "");
}

static void check_library(doctor *d)
{
    say(d, charl_dataset_is_thread_safe() ? OK : WARNING, "hdf5",
        "install an HDF5 that was built thread-safe (Debian's libhdf5-dev is): checkpoints are then written while "
        "training continues",
        "HDF5 %s, %s", charl_dataset_hdf5_version(),
        charl_dataset_is_thread_safe() ? "thread-safe" : "not thread-safe");
}

int charl__doctor_main(const char *path, int argc, char **argv)
{
    static const charl__cli_syntax syntax = {
        NULL, "",
        "Look at what charl needs of this machine: OpenCL drivers and devices, the cache of kernels, MPI, shared "
        "memory, limits, processors, memory and disk. Each line is ok, a warning (slower, or only with several ranks a "
        "problem) or an error, with a way to fix it. The exit status is 1 if there are errors, otherwise 0. `charl "
        "selftest` tests the operators."};
    charl__cli_operands none = {0};
    doctor d = {0};
    const int code = charl__cli_parse(path, &syntax, &none, argc, argv, NULL), columns = charl__cli_columns(stdout);

    if (code >= 0) {
        return code;
    }
    d.columns = columns == 0       ? INT_MAX
                : columns < NARROW ? NARROW
                : columns > WIDE   ? WIDE
                                   : columns; /* so that a log has whole lines */
    check_icds(&d);
    check_devices(&d);
    check_cache(&d);
    check_mpi(&d);
    check_shared_memory(&d);
    check_limits(&d);
    check_machine(&d);
    check_library(&d);
    check_output(&d);
    printf("\n%d ok, %d warning%s, %d error%s\n", d.count[OK], d.count[WARNING], d.count[WARNING] == 1 ? "" : "s",
           d.count[ERROR], d.count[ERROR] == 1 ? "" : "s");
    return d.count[ERROR] > 0 ? CHARL__EXIT_INTERNAL : CHARL__EXIT_OK;
}

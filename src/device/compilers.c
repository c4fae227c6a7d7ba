#define _GNU_SOURCE /* dladdr, memfd_create, sched_getaffinity */
/* Compiling ahead, in other processes.
 *
 * NVIDIA's OpenCL compiles one program at a time per process, whatever its threads. So programs that will be needed are sent to helpers,
 * processes of the program charl-compile installed beside the library, which put them into the cache on disk:
 *
 *      parent                                          helpers
 *      charl__compilers_want  -- job, by a socket -->  charl__compiler_main: a free helper takes the next one
 *      charl__compilers_wait  <--- begun, over ------  compiles it (charl__program_compile)
 *
 * A job is a descriptor of memory with the compiler's entire input. The parent then loads the program from the cache. If it is missing, because
 * a helper could not start, failed or was killed, the parent compiles it itself, so errors are the same as without helpers. Helpers
 * end when the first recording is replayed, and when their parent dies. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/text/text.h"
#include "device/compilers.h"
#include "device/device_private.h"

enum {
    MOST = 32,              /* helpers */
    LEAST_JOBS = 2,         /* a single program starts no helper */
    JOBS_OF_HELPER = 8,     /* a third helper pays off from so many programs on, and so on */
    SOCKET = 3,             /* descriptor in a helper */
    LOOK_EVERY_MS = 50,     /* checks whether helpers are alive */
    PATIENCE_S = 300,       /* for helpers that are alive but do not answer; as for the cache's lock */
    MOST_CLOSED = 65536,    /* descriptors, if they are closed one by one */
    BYTES_OF_HELPER = 1024, /* MiB of a GPU that its context may use */
    SHARE_OF_HELPERS = 8,   /* all helpers together use at most 1 / this of a GPU's memory */
    TEXTS = 5
};

/* What the helper must know about the device and the program, before the texts. */
typedef struct job {
    int32_t device, is_nvidia, has_ptx, ticket;
    charl__sm90a sm90a;
    char name[128], key[CHARL__CACHE_KEY];
    uint64_t bytes[TEXTS]; /* of file, options, defines, common, text, each with its NUL */
} job;

typedef struct reply {
    int32_t pid, ticket;
    bool is_over;
} reply;

typedef enum state { WAITS, OVER } state; /* by or inside a helper; no helper has it */

struct charl__compilers {
    int ours, theirs; /* the ends of the socket */
    int n, most, started;
    pid_t helper[MOST];
    int works_on[MOST]; /* ticket; -1: none */
    charl__program **program;
    state *state; /* of each ticket */
    int n_programs, n_sent, n_over;
};

static const int64_t mib = 1 << 20;

/* Maximum number of helpers of this process: one per core that other ranks leave, using an eighth of a GPU's memory. */
int charl__compilers_most(const charl_device *dev)
{
    cpu_set_t set;
    const int64_t memory =
        dev->info.kind == CHARL_DEVICE_CPU ? MOST : dev->info.global_bytes / (SHARE_OF_HELPERS * BYTES_OF_HELPER * mib);
    const int64_t allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    const int64_t share = sysconf(_SC_NPROCESSORS_ONLN) / dev->local_size, cores = allowed < share ? allowed : share;
    int64_t most = charl__env_integer(CHARL_ENV_COMPILERS, -1);

    if (!dev->cache_dir || dev->pocl_keeps) {
        return 0;
    }
    if (most < 0) {
        most = cores < memory ? cores : memory;
        most = most < LEAST_JOBS ? 0 : most;
    }
    return most < MOST ? (int)most : MOST;
}

/* In the directory of the library, or of the program if it is linked statically. */
static charl_status helper_path(charl__text *out)
{
    static const char *const folders[] = {"", "../lib/"};
    char self[4096] = "";
    Dl_info info = {0};
    const char *slash;

    if (dladdr((void *)(uintptr_t)charl__compilers_want, &info) == 0 || !strchr(info.dli_fname, '/')) {
        info.dli_fname = readlink("/proc/self/exe", self, sizeof self - 1) > 0 ? self : "";
    }
    if ((slash = strrchr(info.dli_fname, '/')) == NULL) {
        return CHARL_OK;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        charl__text_fini(out);
        CHARL_TRY(charl__text_printf(out, "%.*s%s" CHARL_HELPERS "/charl-compile", (int)(slash + 1 - info.dli_fname),
                                     info.dli_fname, folders[i]));
        if (access(charl__text_string(out), X_OK) == 0) {
            return CHARL_OK;
        }
    }
    charl__text_fini(out);
    return CHARL_OK;
}

/* Start a process that inherits only the environment and one end of the socket. */
static charl_status start(charl__compilers *c)
{
    extern char **environ;
    charl_status st = CHARL_OK;
    char name[] = "charl-compile", *const argv[] = {name, NULL};
    charl__text path = {0};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int err = ENOENT;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    CHARL_TRY(helper_path(&path));
    if (path.data && posix_spawn_file_actions_init(&actions) == 0) {
        if (posix_spawnattr_init(&attributes) == 0) {
            err = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
            err = err ? err : posix_spawn_file_actions_adddup2(&actions, 0, 1);
            err = err ? err : posix_spawn_file_actions_adddup2(&actions, 0, 2);
            err = err ? err : posix_spawn_file_actions_adddup2(&actions, c->theirs, SOCKET);
            err = err ? err : posix_spawnattr_setsigmask(&attributes, &none);
            err = err ? err : posix_spawnattr_setsigdefault(&attributes, &all);
            err = err ? err : posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
            err = err ? err : posix_spawn(&c->helper[c->n], path.data, &actions, &attributes, argv, environ);
            posix_spawnattr_destroy(&attributes);
        }
        posix_spawn_file_actions_destroy(&actions);
    }
    if (err == 0) {
        charl__log(CHARL_LOG_INFO, "process %ld compiles kernels", (long)c->helper[c->n]);
        c->works_on[c->n++] = -1;
        c->started++;
    } else {
        charl__log(CHARL_LOG_INFO, "kernels are compiled by this process alone: %s: %s",
                   path.data ? path.data : "charl-compile", strerror(err));
        c->most = 0;
    }
    charl__text_fini(&path);
    return st;
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes > 0) {
        const ssize_t n = write(fd, at, bytes);

        if (n <= 0) {
            return false;
        }
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* A descriptor of the job; -1: failed. */
static int pack(const charl_device *dev, const charl__program *p, int ticket)
{
    const char *const text[] = {p->file, p->options, p->defines, p->common, p->text};
    job j = {.device = dev->info.index,
             .is_nvidia = dev->driver == &charl__driver_nvidia,
             .has_ptx = dev->facts.nvidia.ptx,
             .ticket = ticket,
             .sm90a = p->sm90a};
    const int fd = memfd_create("charl-compile", MFD_CLOEXEC);
    bool ok;

    memcpy(j.name, dev->info.name, sizeof j.name);
    memcpy(j.key, p->key, sizeof j.key);
    for (int i = 0; i < TEXTS; i++) {
        j.bytes[i] = strlen(text[i]) + 1;
    }
    ok = fd >= 0 && write_all(fd, &j, sizeof j);
    for (int i = 0; i < TEXTS; i++) {
        ok = ok && write_all(fd, text[i], j.bytes[i]);
    }
    if (!ok && fd >= 0) {
        close(fd);
    }
    return ok ? fd : -1;
}

/* Room for the one descriptor of a message. */
typedef union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} control;

static void finish(charl__compilers *c, int ticket)
{
    if (ticket >= 0 && ticket < c->n_programs && c->state[ticket] != OVER) {
        c->state[ticket] = OVER;
        c->n_over++;
    }
}

/* Whether a job that was sent is not over. */
static bool awaits(const charl__compilers *c)
{
    for (int ticket = 0; ticket < c->n_sent; ticket++) {
        if (c->state[ticket] != OVER) {
            return true;
        }
    }
    return false;
}

/* False: the socket is full, and will have room when a job is over. */
static bool post(charl_device *dev, charl__compilers *c, int ticket)
{
    const int fd = pack(dev, c->program[ticket], ticket);
    control room = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)}};
    char byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
    bool sent;

    if (fd < 0) {
        finish(c, ticket);
        return true;
    }
    memcpy(CMSG_DATA(&room.header), &fd, sizeof fd);
    sent = sendmsg(c->ours, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
    close(fd);
    if (sent || awaits(c)) {
        return sent;
    }
    finish(c, ticket); /* descriptors cannot be sent here */
    return true;
}

/* A helper that dies may have taken a job without reporting it. A job that no other helper has begun is over: the parent compiles it, or waits
 * for the lock of a helper that does. */
static void finish_lost(charl__compilers *c)
{
    for (int ticket = 0; ticket < c->n_sent; ticket++) {
        bool is_begun = false;

        for (int i = 0; i < c->n; i++) {
            is_begun = is_begun || c->works_on[i] == ticket;
        }
        if (!is_begun) {
            finish(c, ticket);
        }
    }
}

/* Process the reports of helpers, and detect those that have died. */
static void hear(charl__compilers *c)
{
    const int n = c->n;
    reply r;

    while (recv(c->ours, &r, sizeof r, MSG_DONTWAIT) == (ssize_t)sizeof r) {
        for (int i = 0; i < c->n; i++) {
            if (c->helper[i] == r.pid) {
                c->works_on[i] = r.is_over ? -1 : r.ticket;
            }
        }
        if (r.is_over) {
            finish(c, r.ticket);
        }
    }
    for (int i = 0; i < c->n; i++) {
        int how = SIGKILL;

        if (waitpid(c->helper[i], &how, WNOHANG) != 0) {
            charl__log(CHARL_LOG_INFO, "process %ld, which compiled kernels, has ended", (long)c->helper[i]);
            c->most = WIFEXITED(how) ? 0 : c->most; /* it cannot open the device, so others could not either */
            c->n--;
            c->helper[i] = c->helper[c->n];
            c->works_on[i--] = c->works_on[c->n];
        }
    }
    if (c->n < n) {
        finish_lost(c);
    }
}

/* Start helpers if there is enough to do for them, and send them as many jobs as the socket takes. */
static charl_status drive(charl_device *dev, charl__compilers *c)
{
    int jobs, useful;

    hear(c);
    jobs = c->n_programs - c->n_over;
    useful = jobs < LEAST_JOBS ? c->n : LEAST_JOBS + jobs / JOBS_OF_HELPER;
    while (c->n < c->most && c->n < useful && c->started < 2 * c->most) {
        CHARL_TRY(start(c));
    }
    while (c->n > 0 && c->n_sent < c->n_programs && (c->state[c->n_sent] == OVER || post(dev, c, c->n_sent))) {
        c->n_sent++; /* past programs that this process compiled before it had helpers, whose sources are gone */
    }
    return CHARL_OK;
}

static charl_status create(charl_device *dev)
{
    charl_status st = CHARL_OK;
    charl__compilers *c = NULL;
    int ends[2];

    CHARL_TRY_CLEANUP(charl__alloc(sizeof *c, &c));
    CHARL_TRY_CLEANUP(charl__acquire("socket"));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) {
        c->ours = ends[0];
        c->theirs = ends[1];
        c->most = charl__compilers_most(dev);
        dev->compilers = c;
        c = NULL;
    } else {
        charl__drop();
    }
cleanup:
    charl_free(c);
    return st;
}

charl_status charl__compilers_want(charl_device *dev, charl__program *p)
{
    charl__compilers *c;

    if (p->is_wanted || charl__compilers_most(dev) == 0 || charl__cache_has(dev, p->key)) {
        return CHARL_OK;
    }
    CHARL_TRY(dev->compilers ? CHARL_OK : create(dev));
    c = dev->compilers;
    if (c && c->most > 0) {
        CHARL_TRY(charl__grow(c->n_programs, sizeof(charl__program *), &c->program));
        CHARL_TRY(charl__grow(c->n_programs, sizeof *c->state, &c->state));
        c->program[c->n_programs] = p;
        c->state[c->n_programs++] = WAITS;
        p->is_wanted = true;
        CHARL_TRY(drive(dev, c));
    }
    return CHARL_OK;
}

charl_status charl__compilers_wait(charl_device *dev, const charl__program *p)
{
    const double begun = charl__clock_s();
    charl__compilers *c = dev->compilers;
    int ticket = 0;

    if (!c || !p->is_wanted) {
        return CHARL_OK;
    }
    while (c->program[ticket] != p) {
        ticket++;
    }
    for (;;) {
        struct pollfd ready = {.fd = c->ours, .events = POLLIN};

        CHARL_TRY(drive(dev, c));
        if (c->n == 0 || charl__clock_s() - begun > PATIENCE_S) { /* they have died, or are stopped */
            finish(c, ticket);
        }
        if (c->state[ticket] == OVER) {
            return CHARL_OK;
        }
        (void)poll(&ready, 1, LOOK_EVERY_MS);
    }
}

bool charl__compilers_end(charl_device *dev)
{
    charl__compilers *c = dev->compilers;
    bool had_any;

    if (!c) {
        return false;
    }
    had_any = c->started > 0;
    for (int i = 0; i < c->n; i++) { /* files of the cache are created by rename, so this is possible at any time */
        kill(c->helper[i], SIGKILL);
    }
    for (int i = 0; i < c->n; i++) {
        while (waitpid(c->helper[i], NULL, 0) < 0 && errno == EINTR) {
        }
    }
    for (int i = 0; i < c->n_programs; i++) {
        c->program[i]->is_wanted = false;
    }
    close(c->ours);
    close(c->theirs);
    charl__drop();
    charl_free(c->program);
    charl_free(c->state);
    charl_free(c);
    dev->compilers = NULL;
    return had_any;
}

/* The helper. */

static void close_others(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)SOCKET + 1, ~0U, 0) == 0) {
        return;
    }
#endif
    for (long fd = SOCKET + 1, end = sysconf(_SC_OPEN_MAX); fd < end && fd < MOST_CLOSED; fd++) {
        close((int)fd);
    }
}

/* Whether the parent is alive: jobs of a dead one may still be in the socket. */
static bool has_parent(void)
{
    struct pollfd parent = {.fd = SOCKET};

    return poll(&parent, 1, 0) == 0;
}

/* The memory of the next job, *bytes of it; NULL: there will be no more. */
static char *receive(size_t *bytes)
{
    control room;
    char byte;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
    const struct cmsghdr *header;
    struct stat s;
    void *map;
    int fd;

    if (recvmsg(SOCKET, &message, MSG_CMSG_CLOEXEC) != 1 || (header = CMSG_FIRSTHDR(&message)) == NULL) {
        return NULL;
    }
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    *bytes = fstat(fd, &s) == 0 ? (size_t)s.st_size : 0;
    map = *bytes > sizeof(job) ? mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

static void answer(const job *j, bool is_over)
{
    const reply r = {.pid = (int32_t)getpid(), .ticket = j->ticket, .is_over = is_over};

    (void)send(SOCKET, &r, sizeof r, MSG_NOSIGNAL);
}

static charl_status compile(charl_device **dev, const job *j)
{
    charl__program p = {.sm90a = j->sm90a};
    char **const texts[TEXTS] = {&p.file, &p.options, &p.defines, &p.common, &p.text};
    char *at = (char *)(uintptr_t)(j + 1), key[CHARL__CACHE_KEY];
    const char *source[3];

    for (int i = 0; i < TEXTS; i++) {
        *texts[i] = at;
        at += j->bytes[i];
    }
    if (!*dev) {
        CHARL_TRY(charl__device_open_compiler(j->device, j->name,
                                              j->is_nvidia ? CHARL_DRIVER_NVIDIA : CHARL_DRIVER_OPENCL, dev));
    }
    (*dev)->facts.nvidia.ptx = j->has_ptx != 0;
    source[0] = p.defines;
    source[1] = p.common;
    source[2] = p.text;
    charl__cache_key(*dev, source, p.options, key);
    CHARL_REQUIRE(strcmp(key, j->key) == 0, CHARL_ERR_DEVICE, "this process sees another device");
    memcpy(p.key, key, sizeof p.key);
    return charl__program_compile(*dev, &p);
}

int charl__compiler_main(void)
{
    charl_device *dev = NULL;
    size_t bytes;
    char *map;

    close_others();
    charl__fault_load();
    while ((map = receive(&bytes)) != NULL && has_parent()) {
        const job *j = (const job *)(void *)map;

        if (charl__fault("compiler.kill")) {
            raise(SIGKILL);
        }
        answer(j, false);
        if (!charl__fault("compiler.fail") && compile(&dev, j) != CHARL_OK) {
            charl_error_clear(); /* the parent compiles it and reports the error */
            if (!dev) {
                return 1;
            }
        }
        answer(j, true);
        munmap(map, bytes);
    }
    return 0;
}

/* charl launch: starts a training under mpirun and restarts it. After a rank, a node or mpirun itself has died, the same command is started
 * again and resumes from the last checkpoint; hosts that no longer answer, and a host that an audit names, are excluded.
 *
 * The supervisor itself opens no device and no MPI, so it survives whatever kills a training. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <charl/slices.h>
#include "cli/charl/commands.h"
#include "cli/charl/hostfile.h"
#include "cli/cli_describe.h"

enum { STOPPED = 75, LINE = 1024, BUSY_STARTS = 12 /* in a row; each waits some seconds for the other job */ };

typedef struct launch {
    int64_t ranks; /* 0: not given */
    int64_t restarts, min_ranks;
    const char *hostfile, *mpirun, *ssh;
    charl__host *hosts; /* owned */
    int n_hosts;
    char used[512];    /* the hostfile that mpirun reads; "": none */
    char suspect[512]; /* file in which a rank names the host that failed an audit; "": none */
    char status[512];  /* file in which the ranks on this machine write their exit status; "": none */
    char job[32];      /* the name of this job */
    double begun_s;
} launch;

/* mpirun while it runs, for the signal handler. */
static volatile sig_atomic_t child, stopping;

/* A stop is forwarded as SIGUSR2, on which the ranks save; after a SIGTERM mpirun kills them within two seconds. A second stop is forwarded as SIGTERM.
 * While it starts the ranks, mpirun loses signals, so the stop is repeated, which has no effect on ranks that have received it. */
static void on_signal(int sig)
{
    const pid_t pid = (pid_t)child;
    const bool again = stopping != 0 && (sig == SIGTERM || sig == SIGINT || sig == SIGHUP);

    stopping = stopping ? stopping : sig;
    if (pid > 0) {
        kill(pid, again ? SIGTERM : SIGUSR2);
    }
    alarm(1);
}

static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

/* SIGHUP stays ignored if it was, as under nohup. */
static void handle_signals(void (*handler)(int))
{
    const struct sigaction action = {.sa_handler = handler};

    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction before;

        if (signals[i] != SIGHUP || sigaction(SIGHUP, NULL, &before) != 0 || before.sa_handler != SIG_IGN) {
            sigaction(signals[i], &action, NULL);
        }
    }
}

/* Run argv and wait. Returns the status as a shell does, 127 if it cannot be started. A signal that arrives during the start is forwarded, not lost
 * in the forked copy of this process. */
static int run_and_wait(char *const *argv, bool quiet)
{
    sigset_t watched, before;
    int status = 0;
    const pid_t supervisor = getpid();
    pid_t pid;

    sigemptyset(&watched);
    for (int i = 0; i < SIGNALS; i++) {
        sigaddset(&watched, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &watched, &before);
    pid = fork();
    if (pid == 0) {
        handle_signals(SIG_DFL);
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != supervisor) { /* it must not outlive the supervisor */
            _exit(127);
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (quiet && (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stdout) ||
                      !freopen("/dev/null", "w", stderr))) {
            _exit(127);
        }
        setpgid(0, 0); /* a Ctrl-C at the terminal reaches the supervisor, which forwards it */
        execvp(argv[0], argv);
        fprintf(stderr, "charl: error: cannot start %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    child = pid < 0 ? 0 : pid;
    if (pid > 0 && stopping) { /* it arrived before there was a child to forward it to */
        kill(pid, SIGUSR2);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        return 127;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool is_here(const char *name)
{
    char own[CHARL__HOST_BYTES] = "";
    size_t n;

    gethostname(own, sizeof own - 1);
    n = strcspn(own, ".");
    return strcmp(name, "localhost") == 0 || strcmp(name, own) == 0 ||
           (strlen(name) == n && strncmp(name, own, n) == 0);
}

/* Create an empty temporary file. Returns false after printing an error. */
static bool make_file(char path[512])
{
    const char *tmp = getenv("TMPDIR");
    int fd;

    snprintf(path, 512, "%s/charl-XXXXXX", tmp && strlen(tmp) < 490 ? tmp : "/tmp");
    fd = mkstemp(path);
    if (fd < 0) {
        path[0] = '\0';
        charl__cli_error(0, NULL, "no temporary file can be made: %s", strerror(errno));
        return false;
    }
    return close(fd) == 0;
}

/* Exclude the hosts that ssh does not reach, and write the others for mpirun. Returns their ranks, -1 after printing an error. */
static int64_t find_hosts(launch *l)
{
    int64_t ranks = 0;
    FILE *f;

    for (int i = 0; i < l->n_hosts; i++) {
        char option[] = "-o", batch[] = "BatchMode=yes", timeout[] = "ConnectTimeout=10", what[] = "true", ssh[LINE];
        char *const argv[] = {ssh, option, batch, option, timeout, l->hosts[i].name, what, NULL};

        snprintf(ssh, sizeof ssh, "%s", l->ssh);
        if (is_here(l->hosts[i].name) || run_and_wait(argv, true) == 0) {
            ranks += l->hosts[i].slots;
            continue;
        }
        if (stopping) {
            return ranks;
        }
        snprintf(ssh, sizeof ssh, "%s does not answer %s and is left out", l->hosts[i].name, l->ssh);
        charl__cli_say("warning", ssh);
        l->hosts[i] = l->hosts[--l->n_hosts];
        i--;
    }
    if ((!l->used[0] && !make_file(l->used)) || (!l->suspect[0] && !make_file(l->suspect))) {
        return -1;
    }
    f = fopen(l->used, "w");
    if (!f) {
        charl__cli_error(0, NULL, "the list of hosts cannot be written: %s", strerror(errno));
        return -1;
    }
    for (int i = 0; i < l->n_hosts; i++) {
        fprintf(f, "%s slots=%" PRId64 "\n", l->hosts[i].name, l->hosts[i].slots);
    }
    return fclose(f) == 0 ? ranks : -1;
}

/* Number of GPUs of this machine, or 1. In a separate process: drivers start threads and handle signals. */
static int64_t count_devices(void)
{
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        charl_device_info devices[64];
        int count = 0, gpus = 0;

        if (charl_device_list(devices, 64, &count) == CHARL_OK) {
            for (int i = 0; i < count && i < 64; i++) {
                gpus += devices[i].kind == CHARL_DEVICE_GPU;
            }
        }
        _exit(gpus);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) > 0 ? WEXITSTATUS(status) : 1;
}

/* Whether at least one of `ranks` ranks must be on this machine, wherever mpirun places them. */
static bool has_rank_here(const launch *l, int64_t ranks)
{
    int64_t elsewhere = 0;

    for (int i = 0; i < l->n_hosts; i++) {
        elsewhere += is_here(l->hosts[i].name) ? 0 : l->hosts[i].slots;
    }
    return ranks > elsewhere;
}

/* Meaning of mpirun's 0: the ranks on this machine ended by themselves, or nothing was started. *busy: another job has the run directory. */
static int check_status(const launch *l, int code, bool *busy)
{
    FILE *f = fopen(l->status, "r");
    char line[32] = "", why[32] = "";
    bool has_ended = false;

    if (f) {
        has_ended = fgets(line, sizeof line, f) != NULL;
        *busy = has_ended && fgets(why, sizeof why, f) && strcmp(why, "in use\n") == 0;
        (void)fclose(f);
    }
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    return has_ended
               ? (int)strtol(line, NULL, 10)
               : charl__cli_error(CHARL__EXIT_COMM, NULL,
                                  "%s ended with status 0, but no rank on this machine reported that it had ended",
                                  l->mpirun);
}

/* The command line: mpirun, then the program with its arguments. With --quiet mpirun suppresses its long messages, including the reason if it
 * starts nothing. */
static int start(launch *l, int64_t ranks, bool quiet, const charl__cli_operands *operands, bool *busy)
{
    char program[4096], number[32], mpirun[LINE], spent_s[32];
    /* clang-format off */
    char silent[] = "-q", bind[] = "--bind-to", none[] = "none", over[] = "--oversubscribe", root[] = "--allow-run-as-root",
         n[] = "-n", file[] = "--hostfile", topology[] = "-x", hwloc[] = "HWLOC_COMPONENTS=-opencl",
         option[] = "--suspect", status[] = "--status-file", job[] = "--job", spent[] = "--spent";
    /* clang-format on */
    const bool is_checked = has_rank_here(l, ranks);
    char **argv = NULL;
    int i = 0, code;

    if (is_checked && !l->status[0] && !make_file(l->status)) {
        return CHARL__EXIT_DISK;
    }
    if (is_checked && truncate(l->status, 0) != 0) { /* from the previous start */
        return charl__cli_error(CHARL__EXIT_DISK, NULL, "%s: %s", l->status, strerror(errno));
    }
    if (charl__cli_alloc(operands->count + 26, sizeof *argv, &argv) != CHARL_OK) {
        return charl__cli_fail(CHARL_ERR_NOMEM);
    }
    charl__cli_beside("charl-train", program);
    snprintf(number, sizeof number, "%" PRId64, ranks);
    snprintf(mpirun, sizeof mpirun, "%s", l->mpirun);
    if (ranks > 1 || l->n_hosts > 0) {
        argv[i++] = mpirun;
        if (quiet) {
            argv[i++] = silent;
        }
        argv[i++] = bind; /* ranks bind to processors near their device themselves (device.cpu_bind) */
        argv[i++] = none;
        argv[i++] = topology;
        argv[i++] = hwloc;
        if (geteuid() == 0) {
            argv[i++] = root;
        }
        if (l->n_hosts > 0) {
            argv[i++] = file;
            argv[i++] = l->used;
        } else {
            argv[i++] = over;
        }
        argv[i++] = n;
        argv[i++] = number;
    }
    argv[i++] = program;
    if (l->suspect[0]) {
        argv[i++] = option;
        argv[i++] = l->suspect;
    }
    if (is_checked) {
        argv[i++] = status;
        argv[i++] = l->status;
    }
    snprintf(spent_s, sizeof spent_s, "%.3f", charl__cli_clock_s() - l->begun_s);
    argv[i++] = job;
    argv[i++] = l->job;
    argv[i++] = spent;
    argv[i++] = spent_s;
    for (int k = 0; k < operands->count; k++) {
        argv[i++] = operands->values[k];
    }
    code = run_and_wait(argv, false);
    free(argv);
    return is_checked ? check_status(l, code, busy) : code;
}

/* Whether restarting the same command may help: for all errors except usage, data, and requested stops. */
static bool is_worth_a_restart(int code)
{
    return code == CHARL__EXIT_INTERNAL || code == CHARL__EXIT_DEVICE || code == CHARL__EXIT_COMM ||
           code == CHARL__EXIT_AUDIT || code == CHARL__EXIT_DISK || code > 128;
}

/* Exclude the host that an audit has named. Returns false if it has named none, or if no other host is left. */
static bool leave_out_suspect(launch *l)
{
    char name[CHARL__HOST_BYTES] = "", text[LINE];
    FILE *f = l->suspect[0] ? fopen(l->suspect, "r") : NULL;
    int found = -1;

    if (f) {
        if (fgets(name, sizeof name, f)) {
            name[strcspn(name, "\n")] = '\0';
        }
        (void)fclose(f);
    }
    for (int i = 0; i < l->n_hosts; i++) { /* the host name may be gpu07 in one place and gpu07.site in the other */
        const char *host = l->hosts[i].name;
        const size_t n = strcspn(name, "."), m = strcspn(host, ".");

        if (strcmp(host, name) == 0) {
            found = i;
            break;
        }
        if ((n == m && n > 0 && strncmp(host, name, n) == 0 && (!name[n] || !host[m])) ||
            (is_here(host) && is_here(name))) { /* localhost */
            found = i;
        }
    }
    if (found < 0 || l->n_hosts == 1) {
        return false;
    }
    snprintf(text, sizeof text, "%s is left out: an audit has found that one of its devices computes wrong values",
             l->hosts[found].name);
    charl__cli_say("warning", text);
    l->hosts[found] = l->hosts[--l->n_hosts];
    return true;
}

/* A name unique to this job. */
static bool name_job(launch *l)
{
    uint64_t bits;

    l->begun_s = charl__cli_clock_s();
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits) {
        charl__cli_error(0, NULL, "cannot read random bytes from the system");
        return false;
    }
    snprintf(l->job, sizeof l->job, "launch-%016" PRIx64, bits);
    return true;
}

static int supervise(launch *l, const charl__cli_operands *operands)
{
    int code = CHARL__EXIT_OK, busy_starts = 0;
    char text[LINE];

    for (int64_t tried = 0;;) {
        bool busy = false;

        int64_t ranks = l->n_hosts > 0 ? find_hosts(l) : l->ranks > 0 ? l->ranks : count_devices();

        if (stopping) {
            return STOPPED;
        }
        if (ranks < 0) {
            return CHARL__EXIT_DISK;
        }
        if (l->ranks > 0 && ranks > l->ranks) {
            ranks = l->ranks;
        }
        if (ranks < l->min_ranks) {
            return charl__cli_error(CHARL__EXIT_COMM,
                                    ranks > 0
                                        ? "bring hosts back, or allow fewer with --min-ranks"
                                        : "`ssh HOST true` must work without a password for every host of the file",
                                    "%" PRId64 " rank%s can be started, at least %" PRId64 " are wanted", ranks,
                                    ranks == 1 ? "" : "s", l->min_ranks);
        }
        code = start(l, ranks, code != CHARL__EXIT_INTERNAL, operands, &busy);
        if (code == CHARL__EXIT_AUDIT && !stopping && !leave_out_suspect(l)) { /* the same devices would start again */
            return charl__cli_error(code,
                                    "take that device or its host out of the job; the same command then continues",
                                    "not started again: an audit has found a device that computes wrong values");
        }
        if (stopping || !is_worth_a_restart(code)) {
            return stopping && code == 128 + SIGUSR2 ? STOPPED : code; /* mpirun did not handle signals yet */
        }
        busy_starts = busy ? busy_starts + 1 : 0;
        if (busy &&
            (tried == 0 ||
             busy_starts == BUSY_STARTS)) { /* the directory is not busy because of an earlier start of this job */
            return code;
        }
        if (!busy && tried == l->restarts) {
            return charl__cli_error(code, "the same command continues from the last checkpoint",
                                    "exit status %d; it was started again %" PRId64 " time%s", code, tried,
                                    tried == 1 ? "" : "s");
        }
        if (!busy) { /* otherwise no rank has died */
            snprintf(text, sizeof text, "exit status %d: starting again (%" PRId64 " of %" PRId64 ")", code, ++tried,
                     l->restarts);
            charl__cli_say("warning", text);
        }
        if (busy || tried > 1) { /* what fails at once is not tried in a loop without a pause */
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL); /* a signal interrupts it */
        }
        if (stopping) {
            return STOPPED;
        }
    }
}

/* Everything after parsing the command line. */
static int run(launch *l, const charl__cli_operands *command)
{
    int code;

    if (charl_launcher_size() > 1) {
        return charl__cli_speaks() ? charl__cli_error(CHARL__EXIT_USAGE, "start it once, or charl-train under mpirun",
                                                      "charl launch starts mpirun itself")
                                   : CHARL__EXIT_USAGE;
    }
    if (l->hostfile) {
        const charl_status st = charl__hostfile_read(l->hostfile, &l->hosts, &l->n_hosts);

        if (st != CHARL_OK) {
            free(l->hosts);
            return charl__cli_fail(st);
        }
    }
    if (!name_job(l)) {
        free(l->hosts);
        return CHARL__EXIT_INTERNAL;
    }
    handle_signals(on_signal);
    code = supervise(l, command);
    if (l->suspect[0]) {
        unlink(l->suspect);
    }
    if (l->used[0]) {
        unlink(l->used);
    }
    if (l->status[0]) {
        unlink(l->status);
    }
    free(l->hosts);
    return code;
}

static const charl__cli_option options[] = {
    {"ranks", 'n', "N", "Ranks (default: the slots of the hostfile, else a rank for each GPU)", 1,
     CHARL__CLI_INT(launch, ranks, 1, CHARL_MAX_SLICES)},
    {"hostfile", 'f', "FILE", "Hosts and their numbers of ranks, one `HOST slots=N` or `HOST:N` per line", 1,
     CHARL__CLI_TEXT(launch, hostfile)},
    {"restarts", 0, "N", "Restart up to N times after a rank or a host is lost (default 3)", 2,
     CHARL__CLI_INT(launch, restarts, 0, 1000000)},
    {"min-ranks", 0, "N", "Continue without lost hosts while at least N ranks are left (default 1)", 2,
     CHARL__CLI_INT(launch, min_ranks, 1, CHARL_MAX_SLICES)},
    {"mpirun", 0, "FILE", "mpirun of Open MPI (default: the one in PATH)", 3, CHARL__CLI_TEXT(launch, mpirun)},
    {"ssh", 0, "FILE", "Program that checks whether a host answers (default: ssh)", 3, CHARL__CLI_TEXT(launch, ssh)},
    {0}};

/* Number of words at argv[i] that form an option of charl launch after CONFIG, with its value: -n N (also mpirun's -np N; without a number -n is
 * charl-train's), --restarts N, --restarts=N. 0: none. */
static int own_words(int argc, char **argv, int i)
{
    const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;

    for (const charl__cli_option *o = options; o->name; o++) {
        const size_t n = strlen(o->name);

        if (strncmp(word, "--", 2) == 0 && strncmp(word + 2, o->name, n) == 0) {
            if (word[2 + n] == '=') {
                return 1;
            }
            if (!word[2 + n]) {
                return next ? 2 : 1;
            }
        }
    }
    if (strcmp(word, "-f") == 0) {
        return next ? 2 : 1;
    }
    if (strcmp(word, "-n") == 0) {
        return next && next[0] && !next[strspn(next, "0123456789")] ? 2 : 0;
    }
    return word[0] == '-' && word[1] == 'n' && word[2] && !word[2 + strspn(word + 2, "0123456789")];
}

/* The command line with the options of charl launch moved to the front: *out has room for argc + 1 words. */
static void gather(int argc, char **argv, char **out)
{
    static char ranks[] = "-n";
    int n = 0, end = 1;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-np") == 0 || strcmp(argv[i], "--np") == 0) {
            argv[i] = ranks;
        }
    }
    while (end < argc && strcmp(argv[end], "--") != 0) {
        end++;
    }
    out[n++] = argv[0];
    for (int pass = 0; pass < 2; pass++) { /* first the options of charl launch, then the rest */
        for (int i = 1; i < argc;) {
            const int words = i < end ? own_words(end, argv, i) : 0, step = words > 0 ? words : 1;

            for (int k = 0; k < step && (words > 0) == (pass == 0); k++) {
                out[n++] = argv[i + k];
            }
            i += step;
        }
    }
    out[n] = NULL;
}

int charl__launch_main(const char *path, int argc, char **argv)
{
    static const charl__cli_syntax syntax = {
        options, "CONFIG [ARGUMENT...]",
        "Run charl-train on several ranks, and restart it after a failure. CONFIG and the arguments after it are "
        "passed to charl-train; the options below may also be among them.\vmpirun starts the ranks, without binding: "
        "each rank takes a device of its host and "
        "the processors near it. If a rank or a host is lost, or a device fails, charl launch restarts the same "
        "command, which continues from the last checkpoint with the same result; hosts that do not answer, or that an "
        "audit (dist.audit) names, are left out. It does not restart after mistakes in the configuration or the data, "
        "or when the loss diverges.\nOn SIGTERM, SIGINT, SIGHUP, SIGUSR1 or SIGUSR2, the ranks save a checkpoint and "
        "exit with status 75; a second SIGTERM, SIGINT or SIGHUP ends them at once."};
    charl__cli_operands command = {.names = {"CONFIG"}, .max = INT_MAX, .program = true};
    launch l = {.restarts = 3, .min_ranks = 1, .mpirun = "mpirun", .ssh = "ssh"};
    char **words = NULL;
    int code;

    if (charl__cli_alloc(argc + 1, sizeof *words, &words) != CHARL_OK) {
        return charl__cli_fail(CHARL_ERR_NOMEM);
    }
    gather(argc, argv, words);
    code = charl__cli_parse(path, &syntax, &command, argc, words, &l);
    if (code < 0) {
        code = run(&l, &command);
    }
    free(words);
    return code;
}

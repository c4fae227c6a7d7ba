/* --chaos: does a training survive what happens to jobs?
 *
 * A start of the job is a process with all simulated ranks, so that a kill ends it as it ends a real job, in the middle of
 * everything, and the next start has only what is on disk. What happens to a start are rules of CHARL_FAULT, drawn from the seed
 * and the number of the start. After some such starts, one without faults completes the training. Then the last checkpoint must
 * have the bits of a training that nothing happened to. Whatever happens, a start ends with 0 or a status that one of its
 * faults explains, and the log of a start tells which faults have happened. */
#define _GNU_SOURCE /* nftw */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <charl/checkpoint.h>
#include <charl/device.h>
#include <charl/log.h>
#include "cli/train/train.h"

enum {
    KILLED = 128 + SIGKILL,
    MAX_FAULTS = 3,
    MAX_DISTURBED = 4,
    STATUSES = 3,
    RULE = 96,
    STEPS = 0,       /* most: those of the training */
    ALWAYS = -1,     /* most */
    PATIENCE_S = 600 /* and the time of 20 undisturbed trainings, for one start */
};

typedef struct fault_kind {
    const char *point, *what;
    int status[STATUSES]; /* that it explains besides 0, then zeros */
    int64_t most;         /* drawn: the first to this passing of the point, small numbers more often; or as above */
    int64_t low, high;    /* of the argument; 0: none */
    bool of_rank, stays;  /* on one rank only; ever after */
} fault_kind;

/* Silent errors of a device are not among them: finding these is the task of dist.audit. */
static const fault_kind kinds[] = {
    {"train.setup.kill", "killed", {KILLED}, 1, .of_rank = true},
    {"train.kernels.kill", "killed", {KILLED}, 1, .of_rank = true},
    {"train.resume.kill", "killed", {KILLED}, 1, .of_rank = true},
    {"train.data.kill", "killed", {KILLED}, STEPS, .of_rank = true},
    {"train.backward.kill", "killed", {KILLED}, STEPS, .of_rank = true},
    {"train.device.kill", "killed", {KILLED}, STEPS, .of_rank = true},
    {"train.allreduce.kill", "killed", {KILLED}, STEPS, .of_rank = true},
    {"train.optimizer.kill", "killed", {KILLED}, STEPS, .of_rank = true},
    {"train.evaluation.kill", "killed", {KILLED}, STEPS, .of_rank = true},
    {"train.checkpoint.kill", "killed", {KILLED}, STEPS, .of_rank = true},
    {"train.write.kill", "killed", {KILLED}, STEPS, .of_rank = true},
    {"train.end.kill", "killed", {KILLED}, 1, .of_rank = true},
    {"io.crash.written", "killed while it writes a file", {KILLED}, STEPS},
    {"io.crash.synced", "killed while it writes a file", {KILLED}, STEPS},
    {"io.crash.verified", "killed while it writes a file", {KILLED}, STEPS},
    {"io.crash.renamed", "killed while it writes a file", {KILLED}, STEPS},
    {"io.crash.linked", "killed while it links a checkpoint", {KILLED}, STEPS},
    {"io.crash.symlink", "killed while it links a checkpoint", {KILLED}, STEPS},
    {"io.crash.moved", "killed while it moves a checkpoint", {KILLED}, STEPS},
    {"io.crash.removed", "killed while it removes a checkpoint", {KILLED}, STEPS},
    {"io.crash.append", "killed while it appends to run.lock", {KILLED}, STEPS},
    {"train.data.hang", "stalls, and goes on", {0}, STEPS, 1, 10, .of_rank = true},
    {"train.backward.hang", "stalls, and goes on", {0}, STEPS, 1, 10, .of_rank = true},
    {"train.optimizer.hang", "stalls, and goes on", {0}, STEPS, 1, 10, .of_rank = true},
    {"train.checkpoint.hang", "stalls, and goes on", {0}, STEPS, 1, 10, .of_rank = true},
    {"train.setup.hang", "stalls for ever", {CHARL__EXIT_COMM}, 1, 1000000, 1000000, .of_rank = true},
    {"train.kernels.hang", "stalls for ever", {CHARL__EXIT_COMM}, 1, 1000000, 1000000, .of_rank = true},
    {"train.device.hang", "stalls for ever", {CHARL__EXIT_COMM}, STEPS, 1000000, 1000000, .of_rank = true},
    {"train.allreduce.hang", "stalls for ever", {CHARL__EXIT_COMM}, STEPS, 1000000, 1000000, .of_rank = true},
    {"train.evaluation.hang", "stalls for ever", {CHARL__EXIT_COMM}, STEPS, 1000000, 1000000, .of_rank = true},
    {"train.write.hang", "stalls for ever", {CHARL__EXIT_COMM}, STEPS, 1000000, 1000000, .of_rank = true},
    {"train.data.fail", "its device fails", {CHARL__EXIT_DEVICE}, STEPS, .of_rank = true},
    {"train.device.fail", "its device fails", {CHARL__EXIT_DEVICE}, STEPS, .of_rank = true},
    {"train.checkpoint.fail", "its device fails", {CHARL__EXIT_DEVICE}, STEPS, .of_rank = true},
    {"train.backward.raise", "the job gets SIGTERM", {CHARL__EXIT_STOPPED}, STEPS, SIGTERM, SIGTERM, .of_rank = true},
    {"train.checkpoint.raise", "the job gets SIGTERM", {CHARL__EXIT_STOPPED}, STEPS, SIGTERM, SIGTERM, .of_rank = true},
    {"train.collect", "its device fails", {CHARL__EXIT_DEVICE}, STEPS},
    {"train.memory", "its device has too little memory for the batch at once", {0}, ALWAYS},
    {"comm.delay", "its link is slow: ms per message", {0}, ALWAYS, 1, 50, .of_rank = true},
    {"comm.delay", "a message is late: ms", {0}, 200, 100, 10000, .of_rank = true},
    {"comm.delay", "a message is lost", {CHARL__EXIT_COMM}, 200, 1000000000, 1000000000, .of_rank = true},
    {"comm.reorder", "messages overtake each other", {0}, ALWAYS, 2, 20},
    {"io.enospc", "the disk is full, once", {CHARL__EXIT_DISK}, 200},
    {"io.enospc", "the disk is full from then on", {CHARL__EXIT_DISK}, 200, .stays = true},
    {"io.statvfs", "the disk is nearly full", {CHARL__EXIT_DISK}, ALWAYS, 4096, 4096},
    {"io.eio", "a write fails", {CHARL__EXIT_DISK}, 200},
    {"io.fsync", "a write does not reach the disk", {CHARL__EXIT_DISK}, 20},
    {"io.dirfsync", "a rename does not reach the disk", {CHARL__EXIT_DISK}, 20},
    {"io.rename", "a rename fails", {CHARL__EXIT_DISK}, 20},
    {"io.truncate", "a file cannot grow", {CHARL__EXIT_DISK}, 20},
    {"io.create", "a file cannot be created", {CHARL__EXIT_DISK}, 20},
    {"io.flip", "the disk stores a wrong bit", {CHARL__EXIT_DISK}, 200, 0, 1000},
    {"copies.room", "shared memory is full", {0}, ALWAYS},
    {"io.log", "a row of a log cannot be written", {CHARL__EXIT_DISK}, 50},
    {"io.readflip", "the disk returns a wrong bit", {CHARL__EXIT_DISK, CHARL__EXIT_CHECKPOINT}, 50},
    {"io.open", "a file cannot be opened", {CHARL__EXIT_DATA, CHARL__EXIT_CHECKPOINT, CHARL__EXIT_DISK}, 50},
    {"io.read", "a read fails", {CHARL__EXIT_DATA, CHARL__EXIT_CHECKPOINT, CHARL__EXIT_DISK}, 500},
    {"io.short", "writes are split", {0}, ALWAYS},
    {"io.slow", "the disk is slow: ms per piece", {0}, ALWAYS, 1, 5},
    {"data.eio", "a row of the data cannot be read", {CHARL__EXIT_DATA}, 50},
    {"data.flip", "a row of the data has a wrong bit", {CHARL__EXIT_DATA}, 20},
    {"alloc", "an allocation fails", {CHARL__EXIT_DEVICE, CHARL__EXIT_DISK}, 100000},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* One training, in any number of starts. */
typedef struct story {
    const charl__train_args *args;
    int (*work)(const charl__train_args *args);
    int64_t seed;
    char name[40], dir[PATH_MAX]; /* its folder: the run directory, and a log of every start */
    char job[80];
    int starts, happened;
    bool has_failed_saves; /* may have */
    int64_t steps;         /* of the undisturbed training; 0: this is it */
    double begun_s;        /* of the undisturbed training */
    double patience_s;     /* for a start; 0: without limit */
} story;

typedef struct fault {
    const fault_kind *kind;
    char rule[RULE];
    bool has_happened;
} fault;

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ULL;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static int64_t draw_between(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(draw(state) % (uint64_t)(high - low + 1));
}

/* Each power of two equally often. */
static int64_t draw_small(uint64_t *state, int64_t most)
{
    const double x = (double)(draw(state) >> 11) * 0x1p-53;
    const int64_t n = (int64_t)exp2(x * log2((double)most + 1));

    return n < 1 ? 1 : n > most ? most : n;
}

static void draw_fault(uint64_t *state, int ranks, int64_t steps, fault *out)
{
    const fault_kind *k = &kinds[draw(state) % KINDS];
    const int64_t rank = draw_between(state, 0, ranks - 1), arg = draw_between(state, k->low, k->high);
    const int64_t nth = draw_small(state, k->most == STEPS ? steps : k->most);
    char at[24] = "", when[24] = "*", how[24] = "";

    if (k->of_rank) {
        snprintf(at, sizeof at, "@%" PRId64, rank);
    }
    if (k->most != ALWAYS) {
        snprintf(when, sizeof when, "%" PRId64 "%s", nth, k->stays ? "+" : "");
    }
    if (k->high > 0) {
        snprintf(how, sizeof how, ":%" PRId64, arg);
    }
    *out = (fault){.kind = k};
    snprintf(out->rule, sizeof out->rule, "%s%s:%s%s", k->point, at, when, how);
}

/* Between one and MAX_FAULTS, each at a point of its own. Returns how many. */
static int draw_faults(uint64_t *state, int ranks, int64_t steps, fault faults[MAX_FAULTS])
{
    const int wanted = (int)draw_between(state, 1, MAX_FAULTS);
    int n = 0;

    for (int i = 0; i < wanted; i++) {
        bool is_new = true;

        draw_fault(state, ranks, steps, &faults[n]);
        for (int k = 0; k < n; k++) {
            is_new = is_new && strcmp(faults[k].kind->point, faults[n].kind->point) != 0;
        }
        n += is_new;
    }
    return n;
}

/* This process becomes a start of the job. Returns its exit status, unless it ends without. */
static int start(const story *s, int ranks, const char *rules, bool dry_run, const char *log)
{
    charl__train_args args = *s->args;
    char dir[PATH_MAX + 32];

    if (!freopen(log, "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0 || charl_fault_add(rules) != CHARL_OK) {
        return CHARL__EXIT_USAGE;
    }
    snprintf(dir, sizeof dir, "run.output_dir=%s/run", s->dir);
    args.overrides[args.n_overrides++] = (charl_config_override){dir, "--chaos"};
    args.simulate_ranks = ranks;
    args.job = s->job; /* so its starts begin anew once and then continue */
    args.overwrite = true;
    args.dry_run = dry_run;
    args.progress = CHARL__PROGRESS_NONE;
    args.color = 0;
    charl_log_set_level(CHARL_LOG_INFO); /* says which faults happen */
    charl__train_block_signals();
    return s->work(&args);
}

/* A process that ends with the one that began it; 0 in it, -1: an error, which has been said. */
static pid_t begin_process(void)
{
    const pid_t parent = getpid();
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0) {
        (void)charl__cli_error(CHARL__EXIT_INTERNAL, NULL, "cannot start a process: %s", strerror(errno));
    }
    if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) {
        _exit(KILLED);
    }
    return pid;
}

/* Run a start and wait for it. Returns its exit status as a shell has it, -1 if it did not end in time. */
static int run_start(const story *s, int ranks, const char *rules, bool dry_run, const char *log)
{
    const double begun_s = charl__cli_clock_s();
    const pid_t pid = begin_process();
    bool is_late = false;
    int status = 0;
    pid_t ended;

    if (pid < 0) {
        return CHARL__EXIT_INTERNAL;
    }
    if (pid == 0) {
        exit(start(s, ranks, rules, dry_run, log));
    }
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (!is_late && s->patience_s > 0 && charl__cli_clock_s() - begun_s > s->patience_s) {
            is_late = true;
            kill(pid, SIGKILL);
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return is_late ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Note which faults have happened, as the log of the start says. */
static void find_happened(const char *log, fault *faults, int n)
{
    FILE *f = fopen(log, "r");
    char line[4096];

    while (f && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, " info: fault ");

        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; at && i < n; i++) {
            faults[i].has_happened =
                faults[i].has_happened || strcmp(at + strlen(" info: fault "), faults[i].kind->point) == 0;
        }
    }
    if (f) {
        (void)fclose(f);
    }
}

static bool is_explained(int status, const fault *faults, int n)
{
    bool is = status == CHARL__EXIT_OK;

    for (int i = 0; i < n; i++) {
        for (int k = 0; k < STATUSES && faults[i].has_happened; k++) {
            is = is || (faults[i].kind->status[k] != 0 && faults[i].kind->status[k] == status);
        }
    }
    return is;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_folder(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int say_end(const story *s, int status, bool has_faults, const char *log)
{
    char text[64];

    if (status < 0) {
        snprintf(text, sizeof text, "has not ended after %.0f s", s->patience_s);
    } else {
        snprintf(text, sizeof text, "ended with exit status %d", status);
    }
    if (s->steps == 0) {
        return charl__cli_error(status, NULL, "the undisturbed training %s: see %s", text, log);
    }
    return charl__cli_error(CHARL__EXIT_INTERNAL, NULL, "seed %" PRId64 ": start %d %s, which %s: see %s", s->seed,
                            s->starts, text, has_faults ? "none of its faults explains" : "nothing explains", log);
}

/* A folder for s in `base`, empty. */
static int story_begin(story *s, const char *base)
{
    snprintf(s->dir, sizeof s->dir, "%.3900s/%s", base, s->name);
    snprintf(s->job, sizeof s->job, "chaos %s %ld", s->name, (long)getpid());
    remove_folder(s->dir);
    return mkdir(s->dir, 0777) == 0 ? 0 : charl__cli_error(CHARL__EXIT_DISK, NULL, "%s: %s", s->dir, strerror(errno));
}

/* Whether the configuration is refused with so few ranks, also when nothing happens. */
static bool refuses(const story *s, int ranks)
{
    char log[PATH_MAX + 32];

    snprintf(log, sizeof log, "%s/dry-run.log", s->dir);
    return run_start(s, ranks, "", true, log) == CHARL__EXIT_USAGE;
}

/* One start, with what happens to it, and how it ends. *is_over: the training is complete. Returns 0 unless the end is not explained. */
static int story_continue(story *s, uint64_t *state, bool is_disturbed, bool *is_over)
{
    const int most = s->args->simulate_ranks;
    const int each = s->args->simulate_ranks_per_node > 0 ? s->args->simulate_ranks_per_node : 1;
    const int ranks = is_disturbed ? each * (int)draw_between(state, 1, most / each) : most;
    fault faults[MAX_FAULTS];
    const int n = is_disturbed ? draw_faults(state, ranks, s->steps, faults) : 0;
    char rules[MAX_FAULTS * RULE] = "", log[PATH_MAX + 32];
    int status;

    for (int i = 0; i < n; i++) {
        snprintf(rules + strlen(rules), sizeof rules - strlen(rules), "%s%s", i ? "," : "", faults[i].rule);
    }
    snprintf(log, sizeof log, "%s/start-%d.log", s->dir, ++s->starts);
    printf("%s, start %d: %d rank%s%s\n", s->name, s->starts, ranks, ranks == 1 ? "" : "s",
           is_disturbed ? "" : ", no faults");
    status = run_start(s, ranks, rules, false, log);
    find_happened(log, faults, n);
    for (int i = 0; i < n; i++) {
        printf("  %-32s %s%s\n", faults[i].rule, faults[i].kind->what, faults[i].has_happened ? "" : " (not reached)");
        s->happened += faults[i].has_happened;
        s->has_failed_saves =
            s->has_failed_saves || (faults[i].has_happened && faults[i].kind->status[0] == CHARL__EXIT_DISK);
    }
    if (status >= 0) {
        printf("  exit status %d", status);
    }
    if (status == CHARL__EXIT_USAGE && ranks < most && refuses(s, ranks)) {
        printf(": the configuration is not for %d rank%s\n", ranks, ranks == 1 ? "" : "s");
        return 0;
    }
    printf("\n");
    *is_over = status == CHARL__EXIT_OK;
    return is_explained(status, faults, n) ? 0 : say_end(s, status, n > 0, log);
}

/* Whether the last checkpoints of both have the same tensors and counters; says what differs. */
static bool are_equal(const story *whole, const story *s)
{
    char a[PATH_MAX + 32], b[PATH_MAX + 32], *report = NULL;
    bool same = false;
    charl_status st;

    snprintf(a, sizeof a, "%s/run/last.h5", whole->dir);
    snprintf(b, sizeof b, "%s/run/last.h5", s->dir);
    st = charl_checkpoint_diff(a, b, &same, &report);
    if (st != CHARL_OK) {
        (void)charl__cli_fail(st);
        return false;
    }
    for (char *line = strtok(report, "\n"); line; line = strtok(NULL, "\n")) {
        /* The best step is the best of those whose checkpoint could be written. */
        const bool is_best = strncmp(line, "best_", 5) == 0 || strncmp(line, "stale_evals:", 12) == 0;

        if (strncmp(line, "config/", 7) != 0 && !(is_best && s->has_failed_saves)) { /* config: the run directory */
            same = false;
            charl__cli_error(0, NULL, "seed %" PRId64 ": %s", s->seed, line);
        }
    }
    charl_free(report);
    return same;
}

/* The whole story of a seed. Returns 0 if the training survives. */
static int story_run(story *s, const story *whole, const char *base)
{
    uint64_t state = (uint64_t)s->seed;
    const int disturbed = (int)draw_between(&state, 1, MAX_DISTURBED);
    bool is_over = false;
    int code = story_begin(s, base);

    while (code == 0 && !is_over) {
        code = story_continue(s, &state, s->steps > 0 && s->starts < disturbed, &is_over);
        fflush(stdout);
    }
    if (code == 0 && whole && !are_equal(whole, s)) {
        code = charl__cli_error(CHARL__EXIT_INTERNAL, NULL,
                                "seed %" PRId64 ": the last checkpoint differs from that of the undisturbed training: "
                                "compare %s and %s",
                                s->seed, whole->dir, s->dir);
    }
    return code;
}

static int count_steps(const story *whole, int64_t *steps)
{
    charl_checkpoint_reader *r = NULL;
    char path[PATH_MAX + 32];
    charl_status st;

    snprintf(path, sizeof path, "%s/run/last.h5", whole->dir);
    st = charl_checkpoint_open(path, &r);
    *steps = st == CHARL_OK ? charl_checkpoint_get_info(r).state->step : 0;
    charl_checkpoint_close(r);
    return st == CHARL_OK ? 0 : charl__cli_fail(st);
}

static int run_seeds(const story *whole, const char *base)
{
    const charl__train_args *args = whole->args;
    int64_t seeds = 0, survived = 0, starts = 0, happened = 0, steps = 0;
    int code = count_steps(whole, &steps);

    if (code) {
        return code;
    }
    for (int64_t seed = args->chaos_first; seed <= args->chaos_last; seed++, seeds++) {
        story s = {.args = args, .work = whole->work, .seed = seed, .steps = steps > 0 ? steps : 1};
        int failed;

        s.patience_s = PATIENCE_S + 20 * (charl__cli_clock_s() - whole->begun_s) / (double)(1 + starts);
        snprintf(s.name, sizeof s.name, "seed-%" PRId64, seed);
        failed = story_run(&s, whole, base);
        starts += s.starts;
        happened += s.happened;
        survived += failed == 0;
        if (failed == 0) {
            printf("%s: the bits of the undisturbed training\n", s.name);
            remove_folder(s.dir);
        } else {
            printf("%s: FAILED; to see it again: charl-train --simulate-ranks %d --chaos %" PRId64 " ", s.name,
                   args->simulate_ranks, seed);
            charl__cli_put_word(stdout, args->config);
            printf("%s\n", args->n_overrides > 0 ? " ..." : "");
            code = CHARL__EXIT_INTERNAL;
        }
    }
    printf("%" PRId64 " of %" PRId64 " seeds survived: %" PRId64 " starts, %" PRId64 " faults happened, %.0f s\n",
           survived, seeds, starts, happened, charl__cli_clock_s() - whole->begun_s);
    if (code == 0) {
        remove_folder(whole->dir);
        (void)rmdir(base);
    }
    return code;
}

/* Whether a process that is forked from this one can open devices. Threads of most devices do not survive that. */
static bool can_fork(void)
{
    const pid_t pid = begin_process();
    int status = 1, count;

    if (pid == 0) {
        _exit(charl_device_list(NULL, 0, &count) == CHARL_OK ? 0 : 1);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status == 0;
}

/* The undisturbed training in this process. Starts that are forked from it need neither load libraries nor build programs, which takes longer
 * than a short training. *is_warm: it can fork them. Returns the exit status, unless the process ends without. */
static int train_undisturbed(const story *whole, const char *select, const char *log, bool *is_warm)
{
    const int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    const charl_device_request request = {sizeof request, .select = select, .local_size = whole->args->simulate_ranks,
                                          .share = true};
    charl_device *kept; /* for the starts, with its programs */
    int code;

    if (charl_device_open(&request, &kept) != CHARL_OK) {
        kept = NULL; /* the training will say why */
    }
    code = start(whole, whole->args->simulate_ranks, "", false, log);
    charl__train_unwatch_signals();
    if (fflush(NULL) != 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) {
        _exit(CHARL__EXIT_DISK);
    }
    (void)close(out);
    (void)close(err);
    signal(SIGPIPE, SIG_DFL); /* the training ignored it */
    *is_warm = kept && can_fork();
    if (!*is_warm) {
        charl_device_close(kept);
    }
    return code;
}

/* The undisturbed training, then the seeds, in its process if that is possible. */
static int run(story *whole, const char *select, const char *base)
{
    char log[PATH_MAX + 32];
    bool is_warm = false, is_trained;
    int code = story_begin(whole, base), status = 0, ends[2];
    pid_t pid;

    if (code) {
        return code;
    }
    snprintf(log, sizeof log, "%s/start-%d.log", whole->dir, ++whole->starts);
    printf("%s: %d ranks, no faults\n", whole->name, whole->args->simulate_ranks);
    if (pipe(ends) != 0) {
        return charl__cli_error(CHARL__EXIT_INTERNAL, NULL, "cannot make a pipe: %s", strerror(errno));
    }
    whole->begun_s = charl__cli_clock_s();
    pid = begin_process();
    if (pid < 0) {
        return CHARL__EXIT_INTERNAL;
    }
    if (pid == 0) {
        code = train_undisturbed(whole, select, log, &is_warm);
        if (code == 0 && write(ends[1], &is_warm, sizeof is_warm) != sizeof is_warm) {
            code = CHARL__EXIT_INTERNAL;
        }
        (void)close(ends[1]);
        exit(charl__cli_end(code == 0 && is_warm ? run_seeds(whole, base) : code));
    }
    (void)close(ends[1]);
    is_trained = read(ends[0], &is_warm, sizeof is_warm) == sizeof is_warm;
    (void)close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (!is_trained) {
        return say_end(whole, code, false, log);
    }
    if (is_warm && code == 128 + SIGPIPE) { /* without a reader of its output the command ends */
        raise(SIGPIPE);
    }
    if (is_warm && !WIFEXITED(status)) {
        return charl__cli_error(CHARL__EXIT_INTERNAL, NULL, "the process of the seeds ended with exit status %d", code);
    }
    return is_warm ? code : run_seeds(whole, base);
}

int charl__train_chaos(const charl__train_args *args, int (*work)(const charl__train_args *args))
{
    charl_config *config = NULL;
    const char *dir;
    char base[PATH_MAX];
    charl_status st;
    int length, code;

    charl__train_unblock_signals();
    if (charl_launcher_size() > 1) {
        return charl__cli_speaks()
                   ? charl__cli_error(CHARL__EXIT_USAGE, "remove mpirun", "--chaos starts all ranks in one process")
                   : CHARL__EXIT_USAGE;
    }
    if (args->n_overrides == CHARL__MAX_OVERRIDES) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "more than %d overrides", CHARL__MAX_OVERRIDES - 1);
    }
    st = charl_config_load(args->config, args->overrides, args->n_overrides, &config);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    dir = charl__cli_text(config, "run.output_dir");
    for (length = (int)strnlen(dir, 3900); length > 1 && dir[length - 1] == '/'; length--) {
    }
    snprintf(base, sizeof base, "%.*s-chaos", length, dir);
    for (char *p = base + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') { /* the folders that it lies in */
        *p = '\0';
        (void)mkdir(base, 0777);
    }
    if (mkdir(base, 0777) != 0 && errno != EEXIST) {
        code = charl__cli_error(CHARL__EXIT_DISK, NULL, "%s: %s", base, strerror(errno));
    } else {
        code = run(&(story){.args = args, .work = work, .name = "undisturbed"},
                   charl__cli_text(config, "device.select"), base);
    }
    charl_config_destroy(config);
    return code;
}

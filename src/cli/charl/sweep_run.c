/* The runs of a sweep: which exist, by their own configurations, and running the others, several at a time. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charl/run.h>
#include <charl/train.h>
#include "cli/charl/sweep.h"
#include "cli/cli_describe.h"

enum {
    LARGEST_CONFIG = 1 << 20,
    STOPPED = 75,
    SHOWN_LINES = 6,
    LINE_BYTES = 1024,
    MOST_ARGUMENTS = CHARL__CLI_OVERRIDES + CHARL__SWEEP_KEYS + 12
};

/* A run directory in the directory of the sweep. */
typedef struct existing {
    char name[CHARL__SWEEP_NAME * 2];
    char *config; /* text of config.ini; owned */
    bool is_taken;
} existing;

typedef struct found {
    existing *run; /* [count] */
    int count;
} found;

static void found_free(found *f)
{
    for (int i = 0; i < f->count; i++) {
        free(f->run[i].config);
    }
    free(f->run);
}

/* DIR/NAME/config.ini, NULL without it. */
static charl_status read_config(const char *dir, const char *name, char **out)
{
    char path[2 * CHARL__SWEEP_PATH];
    size_t n;
    FILE *f;

    *out = NULL;
    snprintf(path, sizeof path, "%s/%s/config.ini", dir, name);
    f = fopen(path, "re");
    if (f && charl__cli_alloc(LARGEST_CONFIG + 1, 1, out) == CHARL_OK) {
        n = fread(*out, 1, LARGEST_CONFIG, f);
        (*out)[n] = '\0';
    }
    if (f) {
        (void)fclose(f);
    }
    CHARL_REQUIRE(!f || *out, CHARL_ERR_NOMEM, "out of memory");
    return CHARL_OK;
}

static charl_status list_runs(const char *dir, found *f)
{
    charl_status st = CHARL_OK;
    DIR *d = opendir(dir);
    const struct dirent *entry;

    while (d && (entry = readdir(d)) != NULL) {
        char *config = NULL;
        existing *grown;

        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof grown->name) {
            continue;
        }
        CHARL_TRY_CLEANUP(read_config(dir, entry->d_name, &config));
        if (!config) {
            continue;
        }
        grown = realloc(f->run, (size_t)(f->count + 1) * sizeof *grown);
        if (!grown) {
            free(config);
            CHARL_FAIL_CLEANUP(CHARL_ERR_NOMEM, "out of memory");
        }
        f->run = grown;
        f->run[f->count] = (existing){.config = config};
        snprintf(f->run[f->count++].name, sizeof grown->name, "%s", entry->d_name);
    }
cleanup:
    if (d) {
        closedir(d);
    }
    return st;
}

/* Whether the run has the settings of the configuration; *why: what differs, owned by the caller. */
static charl_status is_same(const charl_config *config, const existing *run, bool *same, char **why)
{
    const charl_status st = charl_config_diff(config, run->config, why);

    *same = st == CHARL_OK && !(*why)[0];
    return st == CHARL_ERR_CONFIG ? CHARL_OK : st; /* of another version */
}

/* The run directory of an arm: under its name, or under another. */
static charl_status find_run(const charl__sweep *s, charl__sweep_arm *arm, const charl_config *config, found *f)
{
    bool same = false;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < f->count && !same; i++) {
            existing *run = &f->run[i];
            const bool is_named = strcmp(run->name, arm->name) == 0;
            char *why = NULL, *end;

            if (run->is_taken || is_named != (pass == 0)) {
                continue;
            }
            CHARL_TRY(is_same(config, run, &same, &why));
            if (is_named && !same) {
                end = why ? strchr(why, '\n') : NULL;
                if (end) {
                    *end = '\0';
                }
                charl_error_set(CHARL_ERR_CONFIG, __FILE__, __LINE__, __func__,
                                "%s holds another run: %s; HINT name another directory with -o", arm->dir,
                                why ? why : "its configuration is of another version of charl");
                charl_free(why);
                return CHARL_ERR_CONFIG;
            }
            charl_free(why);
            if (same) {
                run->is_taken = true;
                arm->state = CHARL__SWEEP_BEGUN;
                snprintf(arm->dir, sizeof arm->dir, "%s/%s", s->dir, run->name);
            }
        }
    }
    return CHARL_OK;
}

void charl__sweep_measure(charl__sweep_arm *arm)
{
    arm->measured = charl_report_summarize(arm->dir, &arm->done) == CHARL_OK;
    if (!arm->measured) { /* it has not made a step */
        charl_error_clear();
    }
}

/* The configuration of an arm; loss: in the place of the file's, "": none. */
static charl_status load(const charl__sweep *s, const charl__sweep_arm *arm, const char *loss, charl_config **out)
{
    static char text[CHARL__SWEEP_KEYS][CHARL__SWEEP_PATH];
    charl_config_override overrides[CHARL__CLI_OVERRIDES + CHARL__SWEEP_KEYS + 1];
    int n = s->n_fixed;

    memcpy(overrides, s->fixed, (size_t)n * sizeof *overrides);
    charl__sweep_settings(s, arm, text);
    for (int k = 0; k < s->n_keys; k++) {
        overrides[n++] = (charl_config_override){text[k], NULL};
    }
    if (loss[0]) {
        overrides[n++] = (charl_config_override){loss, "the data"};
    }
    return charl_config_load(s->config, overrides, n, out);
}

/* Whether the loss that the data ask for is the same for all arms. */
static bool shares_loss(const charl__sweep *s)
{
    for (int k = 0; k < s->n_keys; k++) {
        if (strncmp(s->key[k].name, "data.", 5) == 0 || strncmp(s->key[k].name, "output ", 7) == 0) {
            return false;
        }
    }
    return true;
}

/* The configuration of an arm as its run records it. loss[64]: what was found for another arm, or "". */
static charl_status resolve(const charl__sweep *s, const charl__sweep_arm *arm, char loss[64], charl_config **out)
{
    charl_status st = CHARL_OK;
    charl_config *given = NULL;
    char *text = NULL;

    CHARL_TRY_CLEANUP(load(s, arm, "", &given));
    if (strcmp(charl__cli_text(given, "train.loss"), "auto") != 0) {
        *out = given;
        given = NULL;
        goto cleanup;
    }
    if (!loss[0] || !shares_loss(s)) {
        charl_config *recorded = NULL;

        CHARL_TRY_CLEANUP(charl_train_print_config(given, &text));
        CHARL_TRY_CLEANUP(charl_config_parse("/config", text, strlen(text), NULL, 0, &recorded));
        snprintf(loss, 64, "train.loss=%.50s", charl__cli_text(recorded, "train.loss"));
        charl_config_destroy(recorded);
    }
    CHARL_TRY_CLEANUP(load(s, arm, loss, out));
cleanup:
    charl_config_destroy(given);
    charl_free(text);
    return st;
}

/* Print the configurations that are refused. Where all are, the first is the error of the command. */
static charl_status report_refusals(const charl__sweep *s)
{
    const charl__sweep_arm *first = NULL;
    int refused = 0;

    for (int i = 0; i < s->n_arms; i++) {
        refused += s->arm[i].refusal != NULL;
        first = first ? first : s->arm[i].refusal ? &s->arm[i] : NULL;
    }
    CHARL_REQUIRE(refused < s->n_arms, CHARL_ERR_CONFIG, "%s", first->refusal);
    for (int i = 0; i < s->n_arms; i++) {
        if (s->arm[i].refusal) {
            const char *hint = charl__cli_split_hint(s->arm[i].refusal);

            charl__cli_error(0, hint, "%s: %s", s->arm[i].name, s->arm[i].refusal);
        }
    }
    return CHARL_OK;
}

/* Refuse two runs of one configuration: a value may be written in several ways, such as 0.001 and 1e-3. */
static charl_status check_twin(charl__sweep *s, int i)
{
    char *text = NULL;

    CHARL_TRY(charl_config_print(s->arm[i].config, false, &text));
    s->arm[i].hash = charl__sweep_hash(CHARL__SWEEP_HASH, text);
    charl_free(text);
    for (int k = 0; k < i; k++) {
        CHARL_REQUIRE(!s->arm[k].config || s->arm[k].hash != s->arm[i].hash, CHARL_ERR_CONFIG,
                      "%s and %s are the same configuration; HINT leave one of the values out", s->arm[k].name,
                      s->arm[i].name);
    }
    return CHARL_OK;
}

charl_status charl__sweep_look(charl__sweep *s)
{
    charl_status st = CHARL_OK;
    found f = {0};
    char loss[64] = "";

    CHARL_TRY_CLEANUP(list_runs(s->dir, &f));
    for (int i = 0; i < s->n_arms; i++) {
        charl__sweep_arm *arm = &s->arm[i];
        charl_config *config = NULL;

        st = resolve(s, arm, loss, &config);
        if (st == CHARL_ERR_CONFIG) {
            const char *why = charl_error_message();

            arm->state = CHARL__SWEEP_FAILED;
            st = charl__cli_alloc((int64_t)strlen(why) + 1, 1, &arm->refusal);
            if (st == CHARL_OK) {
                strcpy(arm->refusal, why);
            }
        } else if (st == CHARL_OK) {
            arm->config = config;
            st = check_twin(s, i);
            st = st == CHARL_OK ? find_run(s, arm, config, &f) : st;
        }
        CHARL_TRY_CLEANUP(st);
        CHARL_REQUIRE_CLEANUP(!config || strcmp(charl__cli_text(config, "run.resume"), "auto") == 0, CHARL_ERR_CONFIG,
                              "run.resume = %s: the runs of a sweep begin anew or continue their own directories; HINT "
                              "init.from starts them with the weights of a checkpoint",
                              charl__cli_text(config, "run.resume"));
        if (arm->state == CHARL__SWEEP_BEGUN) {
            charl__sweep_measure(arm);
            arm->state = arm->measured && strcmp(arm->done.state, "done") == 0 ? CHARL__SWEEP_DONE : arm->state;
        }
    }
    CHARL_TRY_CLEANUP(report_refusals(s));
cleanup:
    found_free(&f);
    return st;
}

/* Whether two runs differ in keys that may have an effect late in a training alone, so that a comparison is worth its time. */
static bool may_share(const charl__sweep *s, const charl__sweep_arm *a, const charl__sweep_arm *b)
{
    for (int k = 0; k < s->n_keys; k++) {
        const char *name = s->key[k].name;

        if (a->value[k] != b->value[k] && strncmp(name, "scheduler.", 10) != 0 && strcmp(name, "train.epochs") != 0 &&
            strcmp(name, "train.max_steps") != 0) {
            return false;
        }
    }
    return a->config && b->config;
}

charl_status charl__sweep_share(charl__sweep *s)
{
    for (int i = 1; i < s->n_arms; i++) {
        charl__sweep_arm *arm = &s->arm[i];

        for (int k = 0; k < i && arm->state == CHARL__SWEEP_NEW; k++) {
            int64_t steps = 0;

            CHARL_TRY(may_share(s, arm, &s->arm[k]) ? charl_train_common_steps(arm->config, s->arm[k].config, &steps)
                                                    : CHARL_OK);
            if (steps > arm->shared) {
                arm->parent = k;
                arm->shared = steps;
            }
        }
    }
    return CHARL_OK;
}

/* The step of the last checkpoint of a run; 0: it has none. */
static int64_t last_step(const charl__sweep_arm *arm)
{
    charl_checkpoint_reader *r = NULL;
    char *path = NULL;
    int64_t step = 0;

    if (charl_run_checkpoint(arm->dir, &path) == CHARL_OK && charl_checkpoint_open(path, &r) == CHARL_OK) {
        step = charl_checkpoint_get_info(r).state->step;
    } else {
        charl_error_clear();
    }
    charl_checkpoint_close(r);
    charl_free(path);
    return step;
}

/* Let a new run begin with the steps of its parent. Where it cannot, it begins at the beginning. */
static charl_status fork_run(const charl__sweep *s, charl__sweep_arm *arm)
{
    const charl__sweep_arm *parent = &s->arm[arm->parent];
    charl_status st = CHARL_OK;
    char *config = NULL;
    int64_t step = -1;

    if (access(parent->dir, F_OK) != 0) { /* it has failed before it began */
        return CHARL_OK;
    }
    CHARL_TRY(charl_config_print(arm->config, false, &config));
    st = charl_run_fork(parent->dir, arm->shared, arm->dir, config, &step);
    charl_free(config);
    if (st != CHARL_OK && st != CHARL_ERR_NOMEM) {
        charl__cli_say("warning", charl_error_message());
        charl_error_clear();
        st = CHARL_OK;
    }
    if (step > 0) {
        arm->state = CHARL__SWEEP_BEGUN;
        arm->from = arm->to = step;
        charl__cli_put(arm->name, 0);
        printf(": begins after step %" PRId64 " of %s\n", step, parent->name);
        fflush(stdout);
    }
    return st;
}

/* Fork the new runs that have no more steps in common with arm `i` than it has made. Returns the step after which the next one is
 * forked; 0: there is none. */
static charl_status fork_runs(charl__sweep *s, const charl__sweep_arm *arm, int64_t *next)
{
    const int64_t step = arm->state == CHARL__SWEEP_NEW ? 0 : last_step(arm);

    *next = 0;
    for (int i = 0; i < s->n_arms; i++) {
        charl__sweep_arm *child = &s->arm[i];

        if (child->state != CHARL__SWEEP_NEW || child->parent < 0 || &s->arm[child->parent] != arm) {
            continue;
        }
        if (child->shared <= step) {
            CHARL_TRY(fork_run(s, child));
        } else if (*next == 0 || child->shared < *next) {
            *next = child->shared;
        }
    }
    return CHARL_OK;
}

/* The arguments of charl-train, behind its name; `text` holds those that are made. */
typedef struct command {
    char stop[64], setting[CHARL__SWEEP_KEYS][CHARL__SWEEP_PATH], dir[CHARL__SWEEP_PATH + 32], ranks[32], program[4096];
    const char *argv[MOST_ARGUMENTS];
} command;

static int fill(const charl__sweep *s, const charl__sweep_arm *arm, int n, command *c)
{
    charl__sweep_settings(s, arm, c->setting);
    snprintf(c->dir, sizeof c->dir, "run.output_dir=%s", arm->dir);
    c->argv[n++] = s->config;
    for (int i = 0; i < s->n_fixed; i++) {
        c->argv[n++] = s->fixed[i].text;
    }
    for (int k = 0; k < s->n_keys; k++) {
        c->argv[n++] = c->setting[k];
    }
    c->argv[n++] = c->dir;
    c->argv[n] = NULL;
    return n;
}

/* A word in single quotes if a shell or xargs would change it. */
static void print_word(const char *text)
{
    if (text[0] &&
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-%@") == strlen(text)) {
        printf("%s", text);
        return;
    }
    putchar('\'');
    for (const char *p = text; *p; p++) {
        if (*p == '\'') {
            printf("'\\''");
        } else {
            putchar(*p);
        }
    }
    putchar('\'');
}

void charl__sweep_print(const charl__sweep *s)
{
    static command c;

    for (int i = 0; i < s->n_arms; i++) {
        if (s->arm[i].state == CHARL__SWEEP_NEW || s->arm[i].state == CHARL__SWEEP_BEGUN) {
            fill(s, &s->arm[i], 0, &c);
            for (int k = 0; c.argv[k]; k++) {
                printf("%s", k > 0 ? " " : "");
                print_word(c.argv[k]);
            }
            putchar('\n');
        }
    }
}

/* A run in progress. */
typedef struct job {
    pid_t pid; /* 0: none */
    charl__sweep_arm *arm;
    FILE *errors;       /* what it wrote on standard error */
    int64_t stop_after; /* the step after which other runs are forked; 0: none */
} job;

static volatile sig_atomic_t asked; /* to stop */

static void on_signal(int sig)
{
    (void)sig;
    asked = 1;
}

static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
enum { SIGNALS = sizeof signals / sizeof *signals };

static void on_child(int sig)
{
    (void)sig;
}

/* Item `i` of a list with commas, in turn, into out; false without a list. */
static bool take_item(const char *list, int i, char *out, size_t size)
{
    int n = 1;

    if (!list) {
        return false;
    }
    for (const char *p = list; *p; p++) {
        n += *p == ',';
    }
    for (i %= n; i > 0; i--) {
        list = strchr(list, ',') + 1;
    }
    snprintf(out, size, "%.*s", (int)strcspn(list, ","), list);
    return true;
}

/* In the child: become the training. */
static void become(const charl__sweep *s, const charl__sweep_options *o, const job *j, int slot, pid_t parent,
                   const sigset_t *before)
{
    static char launch[] = "launch", ranks[] = "--ranks";
    static command c;
    char device[256], *argv[MOST_ARGUMENTS];
    int n = 0;

    for (int i = 0; i < SIGNALS; i++) {
        signal(signals[i], SIG_DFL);
    }
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) { /* it must not outlive the sweep */
        _exit(127);
    }
    sigprocmask(SIG_SETMASK, before, NULL);
    setpgid(0, 0); /* a Ctrl-C at the terminal reaches the sweep, which forwards it */
    if (take_item(o->devices, slot, device, sizeof device)) {
        setenv("CHARL_DEVICE", device, 1);
    }
    charl__cli_beside(o->ranks > 0 ? "charl" : "charl-train", c.program);
    c.argv[n++] = c.program;
    if (o->ranks > 0) {
        snprintf(c.ranks, sizeof c.ranks, "%" PRId64, o->ranks);
        c.argv[n++] = launch;
        c.argv[n++] = ranks;
        c.argv[n++] = c.ranks;
    }
    n = fill(s, j->arm, n, &c);
    if (j->stop_after > 0) {
        snprintf(c.stop, sizeof c.stop, "--stop-after=%" PRId64, j->stop_after);
        c.argv[n++] = c.stop;
        c.argv[n] = NULL;
    }
    if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stdout) ||
        dup2(fileno(j->errors), STDERR_FILENO) < 0) {
        _exit(127);
    }
    memcpy(argv, c.argv, sizeof argv); /* execv changes none of them */
    execv(c.program, argv);
    fprintf(stderr, "charl: error: cannot start %s: %s\n", c.program, strerror(errno));
    _exit(127);
}

static charl_status start(charl__sweep *s, const charl__sweep_options *o, charl__sweep_arm *arm, job *j, int slot,
                          const sigset_t *before)
{
    const pid_t parent = getpid();
    int64_t next;

    if (arm->state == CHARL__SWEEP_NEW && arm->parent >= 0) {
        CHARL_TRY(fork_run(s, arm));
    }
    CHARL_TRY(fork_runs(s, arm, &next));
    if (arm->to == 0) {
        arm->from = arm->to = arm->state == CHARL__SWEEP_NEW ? 0 : last_step(arm);
    }
    *j = (job){.arm = arm, .errors = tmpfile(), .stop_after = next};
    CHARL_REQUIRE(j->errors, CHARL_ERR_IO, "no temporary file can be made: %s", strerror(errno));
    fflush(stdout);
    j->pid = fork();
    if (j->pid == 0) {
        become(s, o, j, slot, parent, before);
    }
    if (j->pid < 0) {
        (void)fclose(j->errors);
        *j = (job){0};
        CHARL_FAIL(CHARL_ERR_IO, "no process can be made: %s", strerror(errno));
    }
    arm->state = CHARL__SWEEP_RUNNING;
    return CHARL_OK;
}

/* The last lines that a run wrote on standard error. */
static void print_errors(FILE *f)
{
    char line[SHOWN_LINES][LINE_BYTES];
    int n = 0;

    rewind(f);
    while (fgets(line[n % SHOWN_LINES], LINE_BYTES, f)) {
        n++;
    }
    for (int i = n > SHOWN_LINES ? n - SHOWN_LINES : 0; i < n; i++) {
        fputs("  ", stderr);
        charl__cli_write(stderr, line[i % SHOWN_LINES], strcspn(line[i % SHOWN_LINES], "\n"));
        fputc('\n', stderr);
    }
}

/* Whether a run has stopped for others to begin with it, and continues. */
static bool is_forked(const job *j, int code)
{
    return code == STOPPED && j->stop_after > 0 && !asked && j->arm->to >= j->stop_after;
}

/* Print how a run has ended. */
static void finish(const charl__sweep *s, job *j, int status)
{
    charl__sweep_arm *arm = j->arm;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    int left = 0;

    arm->to = last_step(arm);
    if (is_forked(j, code)) {
        arm->state = CHARL__SWEEP_BEGUN;
        (void)fclose(j->errors);
        *j = (job){0};
        return;
    }
    arm->state = code == CHARL__EXIT_OK ? CHARL__SWEEP_DONE
                 : code == STOPPED      ? CHARL__SWEEP_STOPPED
                                        : CHARL__SWEEP_FAILED;
    charl__sweep_measure(arm);
    for (int i = 0; i < s->n_arms; i++) {
        left += s->arm[i].state < CHARL__SWEEP_STOPPED;
    }
    if (arm->state == CHARL__SWEEP_FAILED) {
        fflush(stdout);
        charl__cli_error(0, NULL, "%s: exit status %d", arm->name, code);
        print_errors(j->errors);
    } else {
        charl__cli_put(arm->name, 0);
        printf(": %s", arm->state == CHARL__SWEEP_DONE ? "done" : "stopped");
        if (arm->measured) {
            printf(" at step %" PRId64, arm->done.step);
        }
        if (arm->measured && !isnan(arm->done.best)) {
            printf(", %s %.5g", arm->done.monitor, arm->done.best);
        }
        printf("; %d left\n", left);
    }
    fflush(stdout);
    (void)fclose(j->errors);
    *j = (job){0};
}

static charl__sweep_arm *next_arm(charl__sweep *s)
{
    for (int i = 0; i < s->n_arms; i++) {
        charl__sweep_arm *arm = &s->arm[i];
        const charl__sweep_state parent = arm->parent < 0 ? CHARL__SWEEP_DONE : s->arm[arm->parent].state;

        /* a new one waits until its parent has made their common steps, or will not make them */
        if (arm->state == CHARL__SWEEP_BEGUN || (arm->state == CHARL__SWEEP_NEW && parent > CHARL__SWEEP_STOPPED)) {
            return arm;
        }
    }
    return NULL;
}

/* Send what stops a run to all that are in progress. */
static void forward(const job *jobs, int n, int sig)
{
    for (int i = 0; i < n; i++) {
        if (jobs[i].pid > 0) {
            kill(jobs[i].pid, sig);
        }
    }
}

charl_status charl__sweep_run(charl__sweep *s, const charl__sweep_options *o, bool *stopped)
{
    const int n = (int)o->jobs;
    charl_status st = CHARL_OK;
    job jobs[CHARL__SWEEP_MOST_JOBS] = {0};
    sigset_t watched, before;
    int running = 0;
    bool is_told = false;

    sigemptyset(&watched);
    for (int i = 0; i < SIGNALS; i++) {
        const struct sigaction action = {.sa_handler = signals[i] == SIGCHLD ? on_child : on_signal};
        struct sigaction was;

        sigaddset(&watched, signals[i]);
        if (signals[i] != SIGHUP || sigaction(SIGHUP, NULL, &was) != 0 || was.sa_handler != SIG_IGN) {
            sigaction(signals[i], &action, NULL);
        }
    }
    sigprocmask(SIG_BLOCK, &watched, &before); /* they arrive in sigsuspend only */
    for (;;) {
        int status;
        pid_t pid;

        if (o->stop_losers > 0 && st == CHARL_OK && !asked) {
            st = charl__sweep_drop(s, o->stop_losers);
        }
        for (int i = 0; i < n && st == CHARL_OK && !asked; i++) {
            charl__sweep_arm *arm = jobs[i].pid == 0 ? next_arm(s) : NULL;

            if (arm) {
                st = start(s, o, arm, &jobs[i], i, &before);
                running += st == CHARL_OK;
            }
        }
        if (running == 0) {
            break;
        }
        if ((asked || st != CHARL_OK) && !is_told) {
            forward(jobs, n, SIGTERM);
            is_told = true;
        }
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            for (int i = 0; i < n; i++) {
                if (jobs[i].pid == pid) {
                    finish(s, &jobs[i], status);
                    running--;
                }
            }
        }
        if (pid == 0 && running > 0) {
            sigsuspend(&before);
        }
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    *stopped = asked != 0;
    return st;
}

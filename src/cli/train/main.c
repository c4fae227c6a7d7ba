/* charl-train: one configuration file, one command.
 *
 * The order matters: signals are blocked before any thread exists, the command line is read before
 * MPI starts (so that help works without a launcher and prints once under one), and OpenCL comes
 * after MPI_Init.
 */
#include "cli/cli_describe.h"
#include "cli/train/train.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const double meeting_s = 60; /* for ranks that only print */

static charl_comm *watched; /* the watchdog thread aborts it */

static void on_death(void *ctx, const charl_comm_death *death)
{
    char text[1024];

    (void)ctx;
    snprintf(text, sizeof text,
             "charl-train: error: %s\n  hint: the last checkpoint is whole; run the same command "
             "to continue\n",
             death->message);
    charl_comm_exit(watched, CHARL__EXIT_COMM, text);
}

/* The ranks can no longer agree on anything. */
static void leave_torn(charl_comm *comm, charl_status st)
{
    char message[2048], text[4096];
    const char *hint;

    snprintf(message, sizeof message, "%s", charl_error_message());
    hint = charl__cli_split_hint(message);
    snprintf(text, sizeof text, "charl-train: error: %s\n  hint: %s\n", message,
             hint ? hint : "run the same command to continue from the last checkpoint");
    charl_comm_exit(comm, charl__cli_exit_code(st), text);
}

static void on_lost(void *ctx, charl_status st)
{
    const charl__output *o = ctx;

    leave_torn(o->comm, st);
}

/* Messages that every rank has are printed by the first. */
static int fail(charl_status st, int rank)
{
    return rank == 0 ? charl__cli_fail(st) : charl__cli_exit_code(st);
}

static int load_config(const charl__train_args *args, charl_config **out)
{
    const int rank = charl_launcher_rank();
    const charl_status st = charl_config_load(args->config, args->overrides, args->n_overrides, out);
    const char *notice;

    if (st != CHARL_OK) {
        return charl__cli_fail_alike(st);
    }
    for (int i = 0; rank == 0 && (notice = charl_config_get_notice(*out, i)) != NULL; i++) {
        charl__cli_say("note", notice);
    }
    return 0;
}

static int print_text(charl_status st, char **text)
{
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    fputs(*text, stdout);
    charl_free(*text);
    return 0;
}

/* Everything that needs neither MPI nor a run. */
static int inform(const charl__train_args *args)
{
    charl_config *config = NULL;
    char *text = NULL;
    int code;

    charl__train_unblock_signals();
    if (charl_launcher_rank() != 0) {
        return 0;
    }
    switch (args->action) {
    case CHARL__TRAIN_VERSION:
        charl__train_print_version();
        return 0;
    case CHARL__TRAIN_LIST_DEVICES:
        return charl__train_print_devices();
    case CHARL__TRAIN_ENV:
        return charl__train_print_env(args->json);
    case CHARL__TRAIN_HELP_CONFIG:
        return print_text(charl_config_help(args->section, &text), &text);
    default:
        code = load_config(args, &config);
        if (code == 0) {
            code = print_text(charl_config_print(config, true, &text), &text);
        }
        charl_config_destroy(config);
        return code;
    }
}

/* Why a training that wrote nothing stopped: 128 + the signal that some rank received, or 0. */
static charl_status stop_code(charl_comm *comm, int *out)
{
    int64_t sig = charl__train_first_signal();

    CHARL_TRY(charl_comm_reduce_i64(comm, CHARL_COMM_MAX, &sig, 1));
    *out = sig > 0 ? 128 + (int)sig : 0;
    return CHARL_OK;
}

/* The environment of every rank of a run. */
typedef struct job {
    const charl__train_args *args;
    const charl_config *config;
    atomic_int *stop;
} job;

/* Ranks on the machine of charl launch can open its file. */
static void name_suspect(const char *path, const char *host)
{
    FILE *f = path ? fopen(path, "r+") : NULL;

    if (f) {
        fprintf(f, "%s\n", host);
        (void)fclose(f);
    }
}

static atomic_bool is_busy; /* tells charl launch that another job has the run directory */

/* Launchers lose statuses: srun of Slurm 22.05 returns 0 after "task 0 launch failed". Ranks on other machines cannot open the file of a
 * job script; all ranks write the same status. */
static void write_status(const charl__train_args *args, int code)
{
    FILE *f = args->status_file ? fopen(args->status_file, "r+") : NULL;

    if (f) {
        fprintf(f, atomic_load(&is_busy) ? "%d\nin use\n" : "%d\n", code);
        (void)fclose(f);
    }
}

/* The jobs that this start belongs to. A requeued Slurm job is another start; without a requeue, a person may have run the command
 * twice in one allocation. */
static void name_jobs(const charl__train_args *args, char batch_job[64], charl_train_options *out)
{
    const char *id = getenv("SLURM_JOB_ID"), *count = getenv("SLURM_RESTART_COUNT");

    snprintf(batch_job, 64, "slurm-%.32s", id ? id : "");
    out->job[0] = (charl_train_job){.name = args->job, .restarted = true};
    out->job[1] = (charl_train_job){.name = id && id[0] ? batch_job : NULL, .restarted = count && atoi(count) > 0};
}

/* *leave: the ranks stop together, because a launcher that was told to end the job gives them no time
 * for more. */
static int train(const job *j, charl_comm *comm, bool *leave)
{
    charl_status st = CHARL_OK;
    const charl__train_args *args = j->args;
    charl__output output;
    charl_train_options options = {sizeof options,
                                   .comm = comm,
                                   .stop = j->stop,
                                   .dry_run = args->dry_run,
                                   .fast_dev_run = args->fast_dev_run,
                                   .overfit_batch = args->overfit_batch,
                                   .overwrite = args->overwrite,
                                   .spent_s = args->spent_s,
                                   .trace = args->trace,
                                   .profile = args->profile,
                                   .trace_first = args->trace_first,
                                   .trace_last = args->trace_last,
                                   .stop_after = args->stop_after};
    charl_train_result result;
    char batch_job[64];
    int code = 0;

    name_jobs(args, batch_job, &options);
    charl__output_init(&output, j->config, args, comm);
    options.events = charl__output_events(&output);
    options.events.lost = on_lost;
    charl__output_begin(&output);
    CHARL_TRY_CLEANUP(charl_train_run(j->config, &options, &result));
    charl__output_done(&output, &result);
    *leave = result.stopped;
    if (result.stopped && output.files) {
        code = CHARL__EXIT_STOPPED;
    } else if (result.stopped) {
        CHARL_TRY_CLEANUP(stop_code(comm, &code));
    }
cleanup:
    charl__output_fini(&output);
    atomic_store(&is_busy, st == CHARL_ERR_BUSY);
    if (st == CHARL_ERR_AUDIT && result.suspect >= 0) {
        name_suspect(args->suspect, charl_comm_host(comm, result.suspect));
    }
    if (st != CHARL_OK && charl_comm_is_broken(comm)) {
        leave_torn(comm, st);
    }
    return st == CHARL_OK ? code : fail(st, charl_comm_rank(comm));
}

static int train_simulated(void *ctx, charl_comm *comm)
{
    bool leave; /* there is no launcher to leave for */

    return train(ctx, comm, &leave);
}

/* Train as this rank of a job, or as all ranks of a simulated one. */
static int work(job *j, charl_comm *comm, bool *leave)
{
    const int n = j->args->simulate_ranks;

    if (n == 0) {
        return train(j, comm, leave);
    }
    return charl__train_simulate(j->args, train_simulated, j);
}

enum { PURPOSE_BYTES = 24 };

/* What a rank was started to do. */
static const char *purpose_of(const charl__train_args *args)
{
    switch (args->action) {
    case CHARL__TRAIN_RUN:
        return "a training";
    case CHARL__TRAIN_PRINT_CONFIG:
        return "--print-config";
    case CHARL__TRAIN_HELP_CONFIG:
        return "--help-config";
    case CHARL__TRAIN_LIST_DEVICES:
        return "--list-devices";
    case CHARL__TRAIN_ENV:
        return "--env";
    case CHARL__TRAIN_VERSION:
        return "--version";
    }
    return "";
}

/* Training ranks would wait in vain for a rank that only prints. Collective on comm; all ranks get
 * the same status. */
static charl_status check_purpose(charl_comm *comm, const char *purpose)
{
    charl_status st = CHARL_OK;
    const int size = charl_comm_size(comm);
    char mine[PURPOSE_BYTES] = "", *all = NULL;

    snprintf(mine, sizeof mine, "%s", purpose);
    st = charl__cli_alloc(size, PURPOSE_BYTES, &all);
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
    CHARL_TRY_CLEANUP(charl_comm_allgather(comm, mine, sizeof mine, all));
    for (int r = 1; r < size; r++) {
        const char *other = all + (size_t)r * PURPOSE_BYTES;

        CHARL_REQUIRE_CLEANUP(strcmp(other, all) == 0, CHARL_ERR_CONFIG,
                              "rank %d of %d (%s) was started for %s, rank 0 for %s; HINT start all "
                              "ranks with the same command line",
                              r, size, charl_comm_host(comm, r), other, all);
    }
cleanup:
    free(all);
    return st;
}

/* A rank that has finished printing meets the others, which may have been started for
 * a training. `code` is the exit code so far. */
static int meet(const char *purpose, int code, int *argc, char ***argv)
{
    const charl_comm_options wait = {sizeof wait, .timeout_s = meeting_s};
    charl_comm *comm = NULL;
    charl_status st;

    if (code != 0 || charl_launcher_size() < 2) {
        return code;
    }
    fflush(stdout);
    charl__train_unblock_signals();
    charl__cli_deadline_begin(meeting_s, "a rank has not started");
    if (charl_comm_init(argc, argv) != CHARL_OK) { /* not a job of ranks that know each other */
        charl__cli_deadline_end();
        return code;
    }
    st = charl_comm_create(&wait, &comm);
    if (st != CHARL_OK) {
        charl_comm_exit(NULL, charl__cli_fail_alike(st), NULL);
    }
    st = check_purpose(comm, purpose);
    code = st == CHARL_OK ? code : fail(st, charl_comm_rank(comm));
    charl_comm_destroy(comm);
    charl_comm_fini();
    charl__cli_deadline_end();
    return code;
}

/* Local start-up of each rank; a rank that fails ends the others too. */
static charl_status start(const job *j, charl_comm *comm)
{
    charl_status st = CHARL_OK;

    CHARL_TRY_CLEANUP(charl_fault("train.start"));
    CHARL_REQUIRE_CLEANUP(j->args->simulate_ranks == 0 || charl_comm_size(comm) == 1, CHARL_ERR_CONFIG,
                          "--simulate-ranks=%d: all ranks are in one process, but the launcher has started "
                          "%d; HINT remove either mpirun or --simulate-ranks",
                          j->args->simulate_ranks, charl_comm_size(comm));
    if (charl_comm_size(comm) > 1) {
        CHARL_TRY_CLEANUP(charl_comm_watch_begin(comm, on_death, NULL));
    }
cleanup:
    return charl_comm_agree(comm, st);
}

static int run(const charl__train_args *args, int *argc, char ***argv)
{
    static atomic_int stop; /* never freed: the signal thread keeps it */
    charl_config *config = NULL;
    charl_comm *comm = NULL;
    charl_comm_options wait = {sizeof wait};
    charl_status st;
    bool leave = false;
    int code = load_config(args, &config);
    job j = {.args = args, .config = config, .stop = &stop};

    if (code == 0) {
        code = charl__cli_limits();
    }
    if (code != 0) {
        charl_config_destroy(config);
        write_status(args, code);
        return code; /* every rank finds the same errors and exits with the same code */
    }
    signal(SIGPIPE, SIG_IGN); /* without a reader of its output, training continues and its files are complete */
    wait.timeout_s = charl__cli_number(config, "dist.stage_timeout");
    wait.still_s = 2 * wait.timeout_s;
    wait.keep_binding = strcmp(charl__cli_text(config, "device.cpu_bind"), "none") == 0;
    charl__cli_deadline_begin(wait.timeout_s, "a rank has not started");
    st = charl__train_watch_signals(&stop, !args->dry_run && args->fast_dev_run == 0 && !args->overfit_batch);
    if (st == CHARL_OK) {
        st = charl_fault("train.init");
    }
    if (st == CHARL_OK) {
        st = charl_comm_init_if_launched(argc, argv);
    }
    if (st == CHARL_OK) {
        st = charl_comm_create(&wait, &comm);
    }
    if (st != CHARL_OK) { /* the others may be waiting for this rank: no MPI_Finalize */
        code = st == CHARL_ERR_CONFIG ? charl__cli_fail_alike(st) : charl__cli_fail(st);
        charl_comm_exit(NULL, code, NULL);
    }
    charl__cli_deadline_end();
    watched = comm;
    st = check_purpose(comm, purpose_of(args));
    if (st == CHARL_OK) {
        st = start(&j, comm);
    }
    if (st != CHARL_OK && charl_comm_is_broken(comm)) {
        leave_torn(comm, st);
    }
    code = st == CHARL_OK ? work(&j, comm, &leave) : fail(st, charl_comm_rank(comm));
    charl_config_destroy(config);
    code = charl__cli_end(code);
    write_status(args, code);
    if (charl_comm_is_broken(comm) || (leave && charl_comm_barrier(comm) != CHARL_OK) || leave) {
        charl_comm_exit(comm, code, NULL);
    }
    charl_comm_watch_end(comm);
    charl__cli_deadline_begin(wait.timeout_s, "a rank has not ended, after everything was saved");
    (void)!charl_fault("train.fini");
    if (code == 0 && !args->job) { /* an earlier start of a supervised job may have had the fault */
        const int simulated = args->simulate_ranks;

        st = charl_fault_finish(simulated > 0 ? simulated : charl_comm_size(comm), simulated > 0);
        code = st == CHARL_OK ? 0 : charl__cli_fail(st);
    }
    charl_comm_destroy(comm);
    charl_comm_fini();
    charl__cli_deadline_end();
    return code;
}

/* Without a launcher: simulated ranks. */
static int run_alone(const charl__train_args *args)
{
    int argc = 0;
    char **argv = NULL;

    return run(args, &argc, &argv);
}

static int read_line(const char *path, int argc, char **argv)
{
    charl__train_args args;

    (void)path;
    return charl__train_parse(argc, argv, &args);
}

static const char *const examples[][2] = {
    {"Train on one device:", "charl-train flowers.ini"},
    {"The same result on four ranks:", "mpirun -n 4 charl-train flowers.ini"},
    {"Check data, device and model without training:", "charl-train --dry-run flowers.ini"},
    {"Train with other values, into a folder of its own:",
     "charl-train flowers.ini train.epochs=40 optimizer.learning_rate=3e-4 -o runs/longer"},
    {NULL, NULL},
};

static const charl__cli_self self = {
    .name = "charl-train",
    .summary = "train neural networks on OpenCL devices",
    .description = "",
    .examples = examples,
    .see_also = "charl 1, charl-bench 1, mpirun 1, charl-config 5",
    .run = read_line,
};

int main(int argc, char **argv)
{
    charl__train_args args;
    int code;

    charl__train_block_signals();
    code = charl__cli_begin("charl-train");
    if (code != 0) {
        return code;
    }
    if (charl__cli_describe(&self, argc, argv, &code)) {
        return charl__cli_end(code);
    }
    code = charl__train_parse(argc, argv, &args);
    if (code >= 0) { /* the error of the command line, or its help, has been printed */
        code = charl__cli_end(code);
        write_status(&args, code);
    } else if (args.action == CHARL__TRAIN_RUN && args.chaos_last >= 0) {
        code = charl__cli_end(charl__train_chaos(&args, run_alone));
    } else if (args.action == CHARL__TRAIN_RUN) {
        code = run(&args, &argc, &argv);
    } else {
        code = charl__cli_end(inform(&args));
        code = meet(purpose_of(&args), code, &argc, &argv);
        write_status(&args, code);
    }
    charl__train_args_fini(&args);
    return code;
}

/* Saving checkpoints during training.
 *
 *      copy_identical      all ranks: copy the state to the host and compare its checksums across ranks, so
 *                      that an inconsistent state is never saved
 *      start_alone     rank 0: start a job that writes the copy; training continues
 *      (the job)       of a checkpoint in parts, on each rank: write, verify and rename its part. When all ranks have done so
 *                      (charl__trainer_continue_save), or without parts at once, on rank 0: append to run.lock; rename superseded checkpoints; write what does not change once; write, verify
 *                      and rename the file; update links, delete old checkpoints, export (train/rundir.h)
 *      finish_save     all ranks: agree on the result, after the job has ended, before the next save, or
 *                      before training ends, whichever is first
 *
 * A copy in memory (files/copies.h) is a save whose file is written there, by the first rank of each node; it concerns neither run.lock nor the
 * links, and training goes on without it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "dist/consensus.h"
#include "base/text/text.h"
#include "files/copies.h"
#include "files/job.h"
#include "files/run.h"
#include "io/checkpoint/checkpoint_parts.h"
#include "io/commit.h"
#include "io/dataset/dataset_read.h"
#include "io/progress.h"
#include "train/rank_check.h"
#include "train/rundir.h"
#include "train/snapshot.h"
#include "train/trainer.h"

enum { MAX_SAVE_FAILURES = 3 };

/* What makes a part worthwhile: a file more, whose metadata, 4 to 8 KiB with 24 tensors, are then below 0.1 % of it
 * (docs/adr/0032-checkpoints-in-parts.md). */
enum { PART_BYTES = 16 << 20 };

static charl_checkpoint_state state_of(const charl__trainer *t, double loss_scale, int64_t skipped)
{
    const int64_t n = t->session.data.rows[CHARL_SPLIT_TRAIN], seen = t->replica.step * t->config->train.batch_size;
    const charl_device_info *d = charl_device_get_info(t->session.dev);

    return (charl_checkpoint_state){.step = t->replica.step,
                                    .epoch = seen / n,
                                    .samples_in_epoch = seen % n,
                                    .samples_seen = seen,
                                    .seed = t->config->run.seed,
                                    .rng = charl__rng_name,
                                    .lr_step = t->replica.step,
                                    .loss_scale = loss_scale,
                                    .slices = t->replica.dp->slices.total,
                                    .batch_size = t->config->train.batch_size,
                                    .best_metric = t->best.metric,
                                    .best_step = t->best.step > 0 ? t->best.step : 0,
                                    .stale_evals = t->evals - t->best.evals,
                                    .skipped_steps = t->nonfinite.skipped,
                                    .overflowed_steps = t->nonfinite.overflowed,
                                    .spike_steps = t->nonfinite.spikes,
                                    .audited_step = t->audited_step,
                                    .world_size = charl_comm_size(t->comm),
                                    .device = t->replica.mixed.models,
                                    .driver = d->driver,
                                    .data_path = t->session.data.path,
                                    .data_n_samples = n,
                                    .data_content_id = t->session.data.content_id,
                                    .data_shuffle = t->shuffle,
                                    .optim_kind = t->config->optimizer.type,
                                    .optim_t = charl_optimizer_get_steps(t->replica.optimizer) - skipped,
                                    .run_id = t->run_id};
}

/* The step that training resumed from last, in this process or, where that makes no step, in one before; -1: none. */
static int64_t last_resumption(const charl__lock *lock)
{
    int64_t i = lock->count - 1;

    while (i >= 0 && lock->line[i].kind != CHARL__LOCK_RESUME) {
        i--;
    }
    return i >= 0 ? lock->line[i].step : -1;
}

charl__rundir_plan charl__trainer_rundir_plan(const charl__trainer *t, int64_t step, int64_t best_step)
{
    return (charl__rundir_plan){
        .policy = {.step = step,
                   .keep_last = t->config->checkpoint.keep_last,
                   .keep_every = t->config->checkpoint.keep_every,
                   .resumed_step = last_resumption(&t->lock),
                   .best_step = best_step},
        .export_format = t->config->checkpoint.export_format,
        .lock = &t->lock,
    };
}

/* A save in progress. Rank 0 writes, and of parts each rank; else the other ranks only track it. The job's thread owns
 * everything it reads until it ends. */
struct charl__saving {
    int64_t step;
    bool is_copy; /* to memory */
    charl__best best;
    double begin_s, waited_s; /* waited_s: how long training waited for the save */
    char *path;

    charl__job
        *job;      /* rank 0, or with parts all ranks until these are written; of a copy the first rank of each node */
    double job_s;  /* that it took */
    bool in_parts; /* the job writes this rank's part */
    char sha256[CHARL__SHA256_TEXT];   /* of that part */
    char (*parts)[CHARL__SHA256_TEXT]; /* [n_parts] of those of all ranks, when they are written */
    int n_parts;
    charl__state snapshot;
    charl_checkpoint checkpoint;
    char *resolved;
    const char *dir;
    charl__lock *lock;
    char metrics[CHARL__SHA256_TEXT]; /* of the rows so far, as run.lock has it */
    int rank;
    charl__rundir_plan plan;
    int64_t resumed_step;
    bool supersedes;
    const char *key;         /* of the copies */
    bool marks;              /* note in the run directory that there are copies */
    const charl__once *once; /* NULL: nothing to note */
    bool superseded;         /* set by the job when it has renamed later checkpoints */
    bool noted;              /* and when it has noted what is done once */
    charl__text warnings;    /* from the job, one per line */
    atomic_long progress;    /* incremented by the job */
    charl_comm *waiting;     /* not NULL: the job runs in the foreground, and all ranks wait for it */
};

static void on_progress(void *ctx)
{
    charl__saving *s = ctx;

    atomic_fetch_add(&s->progress, 1);
    if (s->waiting) {
        charl__phase_mark(s->waiting, s->step, CHARL__PHASE_WRITE);
    }
}

/* Record the current error as a warning. */
static void note(charl__saving *s)
{
    (void)!charl__text_printf(&s->warnings, "%s\n", charl_error_message());
}

/* After resuming from an older checkpoint, rename the later ones before the first new one is there: whatever happens, the next start finds the
 * history that this one continues. */
static charl_status supersede(charl__saving *s)
{
    int moved = 0;
    const charl_status st = charl__rundir_supersede(s->dir, s->resumed_step, &moved);

    if (st != CHARL_OK) {
        note(s);
    }
    if (moved > 0 && s->resumed_step < 0) { /* --overwrite */
        (void)!charl__text_printf(&s->warnings,
                                  "the checkpoint that this run started from is renamed to step-....h5.superseded\n");
    } else if (moved > 0) {
        (void)!charl__text_printf(&s->warnings,
                                  "training continued from step %" PRId64
                                  ": %d later checkpoint%s renamed to step-....h5.superseded\n",
                                  s->resumed_step, moved, moved == 1 ? " was" : "s were");
    }
    s->superseded = true;
    return st;
}

/* Before the checkpoint: one that is not recorded is none of this run. A failure is only a warning. sha256: of tensors in parts; NULL: there are
 * none. */
static charl_status record(charl__saving *s, const char (*sha256)[CHARL__SHA256_TEXT])
{
    const charl_checkpoint *c = &s->checkpoint;
    charl__lock_line line = {.kind = CHARL__LOCK_CHECKPOINT, .step = s->step};
    CHARL_SCOPED_FREE char *path = NULL;

    CHARL_TRY(charl__lock_tensors(c->tensors, sha256, c->n_tensors, line.value[CHARL__LOCK_TENSORS]));
    CHARL_TRY(charl__lock_state(&c->state, c->schema, line.value[CHARL__LOCK_STATE]));
    memcpy(line.value[CHARL__LOCK_METRICS], s->metrics, sizeof s->metrics);
    CHARL_TRY(charl__commit_join(s->dir, CHARL__METRICS_JSONL, &path));
    CHARL_TRY(charl__commit_sync(path)); /* a power cut must not take rows that the line is of */
    CHARL_TRY(charl__lock_append(s->dir, s->lock, &line));
    return CHARL_OK;
}

/* Note what is done once: a checkpoint after the resumed step is of this start now. */
static void note_once(charl__saving *s)
{
    if (s->once) {
        s->noted = charl__once_write(s->dir, s->once) == CHARL_OK;
        if (!s->noted) {
            note(s);
        }
    }
}

/* The job: write the checkpoint, then clean up the directory. */
static charl_status write_checkpoint(void *ctx)
{
    charl_status st = CHARL_OK;
    charl__saving *s = ctx;
    charl__ckpt_parts parts = {0};
    char(*sha256)[CHARL__SHA256_TEXT] = NULL;

    charl__fault_thread_rank_set(s->rank);
    charl__progress_set(on_progress, s);
    if (s->parts) {
        CHARL_TRY_CLEANUP(charl__alloc_array(s->checkpoint.n_tensors, sizeof *sha256, &sha256));
        CHARL_TRY_CLEANUP(charl__ckpt_parts_join(s->path, &s->checkpoint, (const char(*)[CHARL__SHA256_TEXT])s->parts,
                                                 s->n_parts, &parts, sha256));
    }
    if (record(s, (const char(*)[CHARL__SHA256_TEXT])sha256) != CHARL_OK) {
        note(s);
    }
    if (!s->supersedes || supersede(s) == CHARL_OK) {
        note_once(s);
    }
    CHARL_TRY_CLEANUP(parts.n > 0 ? charl__ckpt_save_parts(s->path, &s->checkpoint, &parts)
                                  : charl_checkpoint_save(s->path, &s->checkpoint));
    charl__rundir_update(s->dir, &s->plan, &s->warnings); /* the checkpoint is safe: a failure is only a warning */
cleanup:
    charl__progress_set(NULL, NULL);
    charl__ckpt_parts_fini(&parts);
    charl_free(sha256);
    return st;
}

/* The job of each rank of a checkpoint in parts. */
static charl_status write_part(void *ctx)
{
    charl_status st = CHARL_OK;
    charl__saving *s = ctx;
    const charl__state *state = &s->snapshot;

    charl__fault_thread_rank_set(s->rank);
    charl__progress_set(on_progress, s);
    if (state->part >= 0) {
        st = charl__ckpt_part_save(s->path, state->tensor, state->n, state->share, state->n_shares, s->sha256);
    }
    charl__progress_set(NULL, NULL);
    return st;
}

/* ------------------------------------------------------------------ what is decided before the first step */

/* Whether all ranks see the directory of the run: its .lock, which rank 0 holds, is the same file for them. *blind: the first that does not. */
static charl_status find_blind(const charl__trainer *t, int *blind)
{
    CHARL_SCOPED_FREE int64_t *all = NULL;
    CHARL_SCOPED_FREE char *path = NULL;
    struct stat info;
    int64_t mine = -1;
    charl_status st = charl__alloc_array(charl_comm_size(t->comm), sizeof *all, &all);

    *blind = -1;
    st = st == CHARL_OK ? charl__commit_join(t->config->run.output_dir, ".lock", &path) : st;
    CHARL_TRY(charl_comm_agree(t->comm, st));
    if (stat(path, &info) == 0) {
        mine = (int64_t)info.st_ino;
    }
    CHARL_TRY(charl_comm_allgather(t->comm, &mine, sizeof mine, all));
    for (int i = charl_comm_size(t->comm) - 1; i > 0; i--) {
        *blind = all[i] < 0 || all[i] != all[0] ? i : *blind;
    }
    return CHARL_OK;
}

/* Whether checkpoint.parts = rank can be had. blind: see above. */
static charl_status check_ranks(const charl__trainer *t, int blind)
{
    CHARL_REQUIRE(
        !t->replica.mixed.on, CHARL_ERR_CONFIG,
        "checkpoint.parts = rank: only rank 0 has the whole state, as the devices are of different kinds; HINT "
        "checkpoint.parts = one");
    CHARL_REQUIRE(
        blind < 0, CHARL_ERR_CONFIG,
        "checkpoint.parts = rank: rank %d does not see the directory %s of rank 0; HINT choose a run.output_dir "
        "on a file system that all nodes share, or checkpoint.parts = one",
        blind, t->config->run.output_dir);
    return CHARL_OK;
}

/* Whether each rank has the whole state, so that it can make a copy without the others. */
static bool can_rescue(const charl__trainer *t)
{
    return t->config->checkpoint.memory_interval.unit != CHARL__INTERVAL_OFF && t->writes && !t->replica.dp->shard &&
           !t->replica.mixed.on && charl_comm_size(t->comm) > 1;
}

static charl_status plan_rescue(charl__trainer *t)
{
    int64_t waits = t->supersedes || t->notes_once; /* rank 0: the first save has more to do than to write the state */

    t->ended_step = t->whole_step = -1;
    if (can_rescue(t)) {
        CHARL_TRY(charl_comm_reduce_i64(t->comm, CHARL_COMM_MAX, &waits, 1));
        t->rescues = !waits;
    }
    return CHARL_OK;
}

charl_status charl__trainer_plan_save(charl__trainer *t)
{
    const charl__checkpoint_parts asked = t->config->checkpoint.parts;
    const int size = charl_comm_size(t->comm);
    int64_t bytes = 0, most;
    int blind = -1;

    CHARL_TRY(plan_rescue(t));
    t->parts = 1;
    if (!t->writes || size == 1 || asked == CHARL__PARTS_ONE) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_comm_agree(t->comm, charl__snapshot_bytes(&t->replica, charl__leaves_base(t->config), &bytes)));
    most = bytes / PART_BYTES;
    if (asked == CHARL__PARTS_RANK || most >= size) {
        t->parts = size;
    } else if (most > 1 && !t->replica.dp->shard) { /* a rank that does not write would have to send what it has */
        t->parts = (int)most;
    }
    if (t->parts > 1) {
        CHARL_TRY(find_blind(t, &blind));
    }
    if (asked == CHARL__PARTS_RANK) {
        CHARL_TRY(charl_comm_agree(t->comm, check_ranks(t, blind)));
    } else if (blind >= 0 || t->replica.mixed.on) {
        t->parts = 1;
    }
    return CHARL_OK;
}

/* Which part this rank writes; -1: none. They are spread over the ranks, and so over the nodes. */
static int part_of(const charl__trainer *t)
{
    const int size = charl_comm_size(t->comm), rank = charl_comm_rank(t->comm);
    const int part = (int)(((int64_t)rank * t->parts + size - 1) / size);

    return part < t->parts && (int64_t)part * size / t->parts == rank ? part : -1;
}

/* The job of a copy. */
static charl_status write_copy(void *ctx)
{
    charl_status st = CHARL_OK;
    charl__saving *s = ctx;
    const double begin = charl__clock_s();

    charl__fault_thread_rank_set(s->rank);
    charl__progress_set(on_progress, s);
    note_once(s);
    CHARL_TRY_CLEANUP(charl__copies_begin(s->key, s->rank, s->step, &s->path));
    if (s->marks) {
        CHARL_TRY_CLEANUP(charl__metrics_write_file(s->dir, CHARL__COPIES_MARK, ""));
    }
    CHARL_TRY_CLEANUP(charl_checkpoint_save(s->path, &s->checkpoint));
cleanup:
    s->job_s = charl__clock_s() - begin;
    charl__progress_set(NULL, NULL);
    return st;
}

static charl_status agree_before_save(charl__trainer *t, charl_status mine)
{
    if (mine != CHARL_OK && charl_comm_size(t->comm) > 1) {
        charl__error_prefix("step %" PRId64 ", checkpoint: ", t->replica.step);
    }
    return charl_comm_agree(t->comm, mine);
}

static charl_status refuse_differing(const charl__trainer *t, charl_status st)
{
    CHARL_FAIL(st,
               "step %" PRId64 ": the ranks no longer train the same model: %s; nothing was "
               "saved. HINT run the same command to continue from the last checkpoint; a rank "
               "that differs again has a device or memory that fails",
               t->replica.step, charl_error_message());
}

/* Whether this rank writes. What ranks divide among them is collected on the first of them, and of replicas that differ rank 0's is the state. */
static bool is_writer(const charl__trainer *t, bool is_copy)
{
    const bool is_spread =
        t->replica.dp->shard && charl__data_parallel_shards(t->replica.dp) > charl_comm_local_size(t->comm);
    const bool has_all = !is_spread && !t->replica.mixed.on;

    return charl_comm_rank(t->comm) == 0 || (is_copy && charl_comm_local_rank(t->comm) == 0 && has_all);
}

/* Do not save if another job has the run directory or the data file has changed. */
static charl_status check_files(const charl__trainer *t)
{
    CHARL_TRY(t->run ? charl__run_check(t->run) : CHARL_OK); /* rank 0 */
    return charl__dataset_check(t->session.ds);
}

/* Copy the state and check that it is identical on all ranks, as it must be: every rank applied the same
 * gradients. */
static charl_status copy_identical(charl__trainer *t, bool is_copy, charl__state *s)
{
    charl_status st = CHARL_OK;
    const charl__fact form = {.status = CHARL_ERR_NONFINITE};
    charl__consensus facts = {0};

    if (t->parts > 1 && !is_copy) {
        s->parts = t->parts;
        s->part = part_of(t);
    }
    s->keeps = s->parts > 0 ? s->part >= 0 : is_writer(t, is_copy);
    s->apart = charl__leaves_base(t->config);
    st = charl__phase_enter(t->comm, t->replica.step, CHARL__PHASE_CHECKPOINT, t->session.params);
    st = st == CHARL_OK ? check_files(t) : st;
    if (t->replica.mixed.on || t->replica.dp->shard) { /* the next calls are collective */
        CHARL_TRY_CLEANUP(agree_before_save(t, st));
    }
    if (t->replica.mixed.on) {
        CHARL_TRY_CLEANUP(charl__heterogeneous_follow(&t->replica));
    }
    if (st == CHARL_OK) {
        st = charl__snapshot_copy(&t->replica, false, s);
    }
    if (st == CHARL_OK) {
        st = charl__state_facts(s, t->replica.mixed.on || t->replica.dp->shard ? "model" : NULL, &form, &facts);
    }
    CHARL_TRY_CLEANUP(agree_before_save(t, st));
    st = charl__consensus_reach(&facts, st, t->comm);
    if (st != CHARL_OK && charl__comm_is_agreed(t->comm)) {
        st = charl__comm_agreed(t->comm, refuse_differing(t, st));
    }
cleanup:
    charl__consensus_fini(&facts);
    return st;
}

/* The checkpoint of a snapshot of the present state. *resolved: the configuration in it, owned by the caller. */
static charl_status describe(const charl__trainer *t, const charl__state *snapshot, const char *config_text,
                             char **resolved, charl_checkpoint *out)
{
    const charl_tensor *dynamic = charl__steps_scale(t->replica.steps);
    charl_optimizer_report optimizer;
    float scale = 1.0F; /* 1: no loss scale; a dynamic one is at least 2 */

    if (dynamic) {
        CHARL_TRY(charl_tensor_read(dynamic, &scale, sizeof scale));
    }
    CHARL_TRY(charl_optimizer_get_report(t->replica.optimizer, &optimizer));
    CHARL_TRY(charl_config_print(t->config, false, resolved));
    *out = (charl_checkpoint){.tensors = snapshot->tensor,
                              .n_tensors = snapshot->n,
                              .schema = t->session.schema,
                              .state = state_of(t, (double)scale, optimizer.skipped),
                              .config_text = config_text,
                              .config_resolved = *resolved};
    return CHARL_OK;
}

charl_status charl__trainer_write(const charl__trainer *t, const char *config_text, const charl__lock_line *recorded,
                                  const char *path)
{
    CHARL_SCOPED(charl__state_fini) charl__state s = {.keeps = true, .apart = charl__leaves_base(t->config)};
    CHARL_SCOPED_FREE char *resolved = NULL;
    charl_checkpoint c;
    charl__lock_line line = {.step = t->replica.step};
    const char *differs;

    CHARL_TRY(charl__snapshot_copy(&t->replica, false, &s));
    CHARL_TRY(describe(t, &s, config_text, &resolved, &c));
    if (recorded) {
        CHARL_TRY(charl__lock_tensors(s.tensor, NULL, s.n, line.value[CHARL__LOCK_TENSORS]));
        CHARL_TRY(charl__lock_state(&c.state, c.schema, line.value[CHARL__LOCK_STATE]));
        differs = charl__lock_difference(recorded, &line);
        CHARL_REQUIRE(!differs, CHARL_ERR_CHECKPOINT,
                      "the %s of step %" PRId64 " were computed otherwise than " CHARL__LOCK_FILE
                      " records: nothing was written; HINT use the device, driver and version of charl of the run, "
                      "and its weights of init.from",
                      strcmp(differs, "state") == 0 ? "counters or the best evaluation" : differs, line.step);
    }
    return charl_checkpoint_save(path, &c);
}

/* Describe the checkpoint, and start the job on the ranks that write; training may continue afterwards. */
static charl_status start_alone(charl__trainer *t, charl__saving *s)
{
    CHARL_TRY(charl__phase_enter(t->comm, s->step, CHARL__PHASE_WRITE, t->session.params));
    CHARL_TRY(s->is_copy ? CHARL_OK : charl__run_path(t->config->run.output_dir, s->step, &s->path));
    s->in_parts = s->snapshot.parts > 0;
    s->rank = charl_comm_rank(t->comm);
    s->waiting = charl_dataset_is_thread_safe() ? NULL : t->comm;
    if (!is_writer(t, s->is_copy)) {
        return s->in_parts ? charl__job_start(!s->waiting, write_part, s, &s->job) : CHARL_OK;
    }
    CHARL_TRY(describe(t, &s->snapshot, charl__config_source(t->config, &(size_t){0}), &s->resolved, &s->checkpoint));
    s->dir = t->config->run.output_dir;
    s->lock = &t->lock;
    if (!t->metrics || !charl__metrics_digest(t->metrics, s->metrics)) {
        memset(s->metrics, '0', sizeof s->metrics - 1);
    }
    s->resumed_step = t->resumed_step;
    s->supersedes = t->supersedes;
    s->key = t->copies_key;
    s->marks = s->is_copy && t->copied_step < 0 && s->rank == 0;
    s->once = t->notes_once ? &t->once : NULL;
    s->plan = charl__trainer_rundir_plan(t, s->step, t->best.step);
    s->plan.forgets_best = t->new_best;
    CHARL_TRY(charl__job_start(!s->waiting,
                               s->is_copy    ? write_copy
                               : s->in_parts ? write_part
                                             : write_checkpoint,
                               s, &s->job));
    return CHARL_OK;
}

/* Wait for the job. As long as it makes progress this rank is not silent, however slow its disk is. */
static void wait_alone(const charl__trainer *t, charl__saving *s)
{
    static const double LOOK_S = 0.05;
    long seen = -1;

    while (s->job && !charl__job_wait(s->job, LOOK_S)) {
        const long now = atomic_load(&s->progress);

        if (now != seen) {
            charl_comm_mark(t->comm, 0, NULL);
        }
        seen = now;
    }
}

static charl_status end_alone(charl__trainer *t, charl__saving *s)
{
    charl_status st;

    if (s->job) {
        charl__phase_mark(t->comm, t->replica.step, CHARL__PHASE_WRITE);
    }
    wait_alone(t, s);
    st = charl__job_end(s->job);
    s->job = NULL;
    t->supersedes = t->supersedes && !s->superseded;
    t->notes_once = t->notes_once && !s->noted;
    return st;
}

static void saving_destroy(charl__saving *s)
{
    if (s) {
        charl__job_discard(s->job);
        charl__state_fini(&s->snapshot);
        charl__text_fini(&s->warnings);
        charl_free(s->parts);
        charl_free(s->resolved);
        charl_free(s->path);
        charl_free(s);
    }
}

/* The best is an older one again if the checkpoint of the present one could not be written. */
static void update_best(charl__trainer *t, const charl__saving *s, bool written)
{
    if (s->best.step != s->step) {
        return;
    }
    if (written) {
        t->kept = s->best;
    } else if (t->best.step == s->step) {
        t->best = t->kept;
    }
}

/* Decide whether training continues after a save. A disk error is a warning, unless this was the last save
 * of the run or MAX_SAVE_FAILURES saves in a row have failed. The status is the same on every rank. */
static charl_status forgive(charl__trainer *t, charl_status failed, const charl__saving *s, bool last)
{
    char text[1200];

    update_best(t, s, failed == CHARL_OK);
    if (failed == CHARL_OK) {
        t->save_failures = 0;
        t->saved_step = s->step;
        t->new_best = false;
        return CHARL_OK;
    }
    t->save_failures++;
    if (failed != CHARL_ERR_DISK || last || t->save_failures >= MAX_SAVE_FAILURES) {
        if (charl__comm_is_agreed(t->comm) && charl_comm_size(t->comm) > 1) {
            charl__error_prefix("step %" PRId64 ", writing the checkpoint: ", s->step);
        }
        CHARL_TRY(failed);
    }
    snprintf(text, sizeof text, "no checkpoint at step %" PRId64 ": %s; training continues (failure %d of %d in a row)",
             s->step, charl_error_message(), t->save_failures, MAX_SAVE_FAILURES);
    if (charl_comm_rank(t->comm) == 0) {
        charl__trainer_warn(t, text);
    }
    return CHARL_OK;
}

/* Steps that may be made again after a death; 0: the interval is no number of steps. */
static int64_t copy_steps(const charl__trainer *t)
{
    const charl__interval every = t->config->checkpoint.memory_interval;
    const int64_t batch = t->config->train.batch_size, rows = t->session.data.rows[CHARL_SPLIT_TRAIN];

    return every.unit == CHARL__INTERVAL_STEPS    ? every.count
           : every.unit == CHARL__INTERVAL_EPOCHS ? every.count * rows / batch
                                                  : 0;
}

/* A death costs the steps since the last copy that is complete, so one is made twice in each interval, and the one before is complete then. */
bool charl__trainer_copy_is_due(const charl__trainer *t)
{
    static const double COST = 0.01; /* of the time, with auto */
    const charl__interval every = t->config->checkpoint.memory_interval;
    const int64_t steps = copy_steps(t), safe = t->copied_step > t->saved_step ? t->copied_step : t->saved_step;
    const bool is_writing = t->saving && (steps == 0 || !t->saving->is_copy);
    const double since_s = charl__clock_s() - (t->copied_s > t->last_save_s ? t->copied_s : t->last_save_s);

    /* supersedes: until the first checkpoint the directory tells of another history */
    if (every.unit == CHARL__INTERVAL_OFF || !t->writes || t->copies_off || t->supersedes || is_writing) {
        return false;
    }
    if (steps > 0) {
        const int64_t last = t->saving && t->saving->step > safe ? t->saving->step : safe;

        return t->replica.step - (last > 0 ? last : 0) >= (steps > 1 ? steps / 2 : 1);
    }
    return t->replica.step > safe &&
           since_s >= (every.unit == CHARL__INTERVAL_AUTO ? t->copy_cost_s / COST : (double)every.count / 2);
}

/* A copy is worth less than the training: where there is no room for it, training goes on without copies. */
static charl_status forgive_copy(charl__trainer *t, charl_status failed, const charl__saving *s)
{
    char text[1400];

    if (failed == CHARL_OK) {
        t->copied_step = s->step;
        t->copied_s = charl__clock_s();
        return CHARL_OK;
    }
    if (failed != CHARL_ERR_DISK && failed != CHARL_ERR_NOMEM) {
        return failed; /* the error is the agreed one */
    }
    t->copies_off = true;
    snprintf(text, sizeof text,
             "step %" PRId64
             ": no copy of the training state in memory: %s; training continues without copies, and after a death from "
             "the last checkpoint",
             s->step, charl_error_message());
    if (charl_comm_rank(t->comm) == 0) {
        charl__trainer_warn(t, text);
    }
    return CHARL_OK;
}

bool charl__trainer_is_writing(const charl__trainer *t)
{
    return t->saving && t->saving->job && !charl__job_is_done(t->saving->job);
}

static charl_status sweep(void *saving)
{
    return charl__rundir_sweep(((charl__saving *)saving)->dir);
}

/* Rank 0 removes the parts of a save that has failed. On another thread, as the error of this one is to be reported; what it cannot remove, the next
 * start does. */
static void remove_parts(const charl__trainer *t, charl__saving *s)
{
    charl__job *job = NULL;

    if (s->rank == 0 && t->parts > 1 && !s->is_copy && charl__job_start(true, sweep, s, &job) == CHARL_OK) {
        charl__job_discard(job);
    }
}

/* All parts are written: rank 0 makes the checkpoint of them. */
static charl_status start_commit(charl__trainer *t, charl__saving *s)
{
    charl_status st = CHARL_OK;

    charl_free(s->snapshot.block); /* the copy of the values */
    s->snapshot.block = NULL;
    s->n_parts = charl_comm_size(t->comm);
    CHARL_TRY(charl_comm_agree(t->comm, charl__alloc_array(s->n_parts, sizeof *s->parts, &s->parts)));
    CHARL_TRY(charl_comm_allgather(t->comm, s->sha256, sizeof s->sha256, s->parts));
    for (int i = 0; i < s->n_parts; i++) {
        s->parts[i][CHARL__SHA256_TEXT - 1] = '\0';
    }
    s->in_parts = false;
    if (s->rank == 0) {
        st = charl__job_start(!s->waiting, write_checkpoint, s, &s->job);
    }
    return charl_comm_agree(t->comm, st);
}

/* Wait for the parts, and begin to make the checkpoint of them. If that fails, the save is over: t->saving is NULL. */
static charl_status end_parts(charl__trainer *t, bool last)
{
    charl__saving *s = t->saving;
    const double begin = charl__clock_s();
    charl_status st;

    charl_comm_set_timeout(t->comm, t->config->checkpoint.timeout_s);
    st = charl_comm_agree(t->comm, end_alone(t, s));
    st = st == CHARL_OK ? start_commit(t, s) : st;
    if (st != CHARL_OK) {
        t->saving = NULL;
        remove_parts(t, s);
        st = forgive(t, st, s, last);
        saving_destroy(s);
        CHARL_TRY(st);
    } else {
        s->waited_s += charl__clock_s() - begin;
    }
    charl_comm_set_timeout(t->comm, t->config->dist.timeout_s);
    return CHARL_OK;
}

charl_status charl__trainer_continue_save(charl__trainer *t)
{
    return t->saving && t->saving->in_parts ? end_parts(t, false) : charl__trainer_finish_save(t, false);
}

/* Wait for the job, and report the result. */
static charl_status finish(charl__trainer *t, charl__saving *s, bool last)
{
    charl_status st = CHARL_OK;
    const charl_train_events *e = &t->options->events;
    const double begin = charl__clock_s();

    t->saving = NULL;
    charl_comm_set_timeout(t->comm, t->config->checkpoint.timeout_s);
    st = end_alone(t, s);
    charl__session_warn_lines(&t->session, charl__text_string(&s->warnings));
    st = charl_comm_agree(t->comm, st);
    if (st != CHARL_OK) {
        remove_parts(t, s);
    }
    t->rescues = t->rescues || (st == CHARL_OK && can_rescue(t));
    CHARL_TRY_CLEANUP(s->is_copy ? forgive_copy(t, st, s) : forgive(t, st, s, last));
    charl_comm_set_timeout(t->comm, t->config->dist.timeout_s);
    if (s->is_copy) {
        const long processors = sysconf(_SC_NPROCESSORS_ONLN);

        t->copy_cost_s = s->waited_s + charl__clock_s() - begin + s->job_s / (double)(processors > 1 ? processors : 1);
        charl__log(CHARL_LOG_INFO, "copy of step %" PRId64 " in memory: %.1f ms, training waited %.1f ms", s->step,
                   s->job_s * 1e3, (s->waited_s + charl__clock_s() - begin) * 1e3);
    } else if (e->saved && t->saved_step == s->step) {
        const double now = charl__clock_s();

        CHARL_TRY_CLEANUP(e->saved(e->ctx, &(charl_saved_row){.step = s->step,
                                                              .path = s->path,
                                                              .ms = (now - s->begin_s) * 1e3,
                                                              .waited_ms = (s->waited_s + now - begin) * 1e3}));
    }
cleanup:
    saving_destroy(s);
    return st;
}

charl_status charl__trainer_finish_save(charl__trainer *t, bool last)
{
    if (t->saving && t->saving->in_parts) {
        CHARL_TRY(end_parts(t, last));
    }
    return t->saving ? finish(t, t->saving, last) : CHARL_OK;
}

static charl_status save(charl__trainer *t, bool is_copy, bool last)
{
    charl_status st = CHARL_OK;
    charl__saving *s = NULL;

    CHARL_TRY(charl__trainer_finish_save(t, false)); /* an earlier save: this one is still to come */
    if (t->saved_step == t->replica.step || (is_copy && t->copies_off)) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_comm_agree(t->comm, charl__alloc(sizeof *s, &s)));
    t->saving = s;
    s->step = t->replica.step;
    s->is_copy = is_copy;
    s->best = t->best;
    s->begin_s = charl__clock_s();
    atomic_init(&s->progress, 0);
    charl_comm_set_timeout(t->comm, t->config->checkpoint.timeout_s);
    st = copy_identical(t, is_copy, &s->snapshot);
    CHARL_TRY(is_copy ? CHARL_OK : st);
    st = st == CHARL_OK ? charl_comm_agree(t->comm, start_alone(t, s)) : st;
    if (st != CHARL_OK) { /* treat it like a failed write */
        t->saving = NULL;
        st = is_copy ? forgive_copy(t, st, s) : forgive(t, st, s, last);
        saving_destroy(s);
        CHARL_TRY(st);
    }
    charl_comm_set_timeout(t->comm, t->config->dist.timeout_s);
    if (!is_copy) {
        t->last_save_s = charl__clock_s();
    }
    if (t->saving) {
        s->waited_s = charl__clock_s() - s->begin_s;
    }
    if (last) {
        CHARL_TRY(charl__trainer_finish_save(t, last));
    }
    return CHARL_OK;
}

charl_status charl__trainer_save(charl__trainer *t, bool last)
{
    return save(t, false, last);
}

charl_status charl__trainer_copy(charl__trainer *t)
{
    return save(t, true, copy_steps(t) == 1);
}

void charl__trainer_drop_copies(charl__trainer *t)
{
    char path[CHARL__COPIES_PATH];

    if (!t->writes || charl_comm_local_rank(t->comm) != 0) {
        return;
    }
    charl__copies_remove(t->copies_key);
    if (charl_comm_rank(t->comm) == 0 &&
        snprintf(path, sizeof path, "%s/" CHARL__COPIES_MARK, t->config->run.output_dir) < (int)sizeof path) {
        (void)unlink(path);
    }
    t->copied_step = -1;
}

void charl__trainer_abandon_save(charl__trainer *t)
{
    if (t->saving) {
        wait_alone(t, t->saving);
    }
    saving_destroy(t->saving);
    t->saving = NULL;
}

/* ------------------------------------------------------------------ after the loss of a rank */

static charl_status write_last(const charl__trainer *t, charl__saving *s)
{
    charl__norm_record record;
    char path[CHARL__COPIES_PATH];

    if (charl__copies_has(t->copies_key, s->step, path)) {
        return CHARL_OK;
    }
    CHARL_TRY(check_files(t));
    CHARL_TRY(charl__optimizer_fetch_norm(t->replica.optimizer, &record));
    CHARL_REQUIRE(!charl__nonfinite_is_suspect(t, s->step, &record), CHARL_ERR_NONFINITE,
                  "a loss or gradient that is not finite has not been dealt with");
    CHARL_TRY(charl__snapshot_copy(&t->replica, false, &s->snapshot));
    CHARL_TRY(describe(t, &s->snapshot, charl__config_source(t->config, &(size_t){0}), &s->resolved, &s->checkpoint));
    return write_copy(s);
}

static void rescue(void *trainer, charl_status st)
{
    charl__trainer *t = trainer;
    charl__saving *s = NULL;

    charl__trainer_abandon_save(t); /* a copy */
    st = st == CHARL_OK ? charl__alloc(sizeof *s, &s) : st;
    if (s) {
        s->step = t->replica.step;
        s->is_copy = s->marks = true;
        s->rank = charl_comm_rank(t->comm);
        s->key = t->copies_key;
        s->dir = t->config->run.output_dir;
        s->snapshot.keeps = true;
        s->snapshot.apart = charl__leaves_base(t->config);
        atomic_init(&s->progress, 0);
        st = write_last(t, s);
    }
    if (st == CHARL_OK) {
        charl__log(CHARL_LOG_INFO, "step %" PRId64 " is in memory, after the loss of a rank", t->replica.step);
    } else {
        charl__log(CHARL_LOG_INFO, "no copy of step %" PRId64 " after the loss of a rank: %s", t->replica.step,
                   charl_error_message());
    }
    saving_destroy(s);
}

void charl__trainer_rescue(charl__trainer *t)
{
    const int64_t step = t->replica.step, safe = t->copied_step > t->saved_step ? t->copied_step : t->saved_step;
    const bool is_whole = step == t->whole_step || (charl_comm_rank(t->comm) == 0 && step == t->ended_step);
    char lost[2048];

    /* While a checkpoint is being written to disk, the best one may be one that is not there yet. */
    if (t->rescues && !t->copies_off && is_whole && step > safe && step > (t->resumes ? t->resumed_step : 0) &&
        !(t->saving && !t->saving->is_copy)) {
        snprintf(lost, sizeof lost, "%s", charl_error_message());
        charl__data_parallel_outlive(t->replica.dp, rescue, t);
        (void)charl_error_set(CHARL_ERR_COMM, __FILE__, __LINE__, __func__, "%s", lost);
    }
}

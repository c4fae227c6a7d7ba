/* How a training saves its checkpoints.
 *
 * Replicas are identical, so rank 0 writes; before it does, the hash of the parameters is compared
 * over ranks, so that a mixed state is never saved.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "export/export.h"
#include "io/progress.h"
#include "train/rank_check.h"
#include "train/rundir.h"
#include "train/snapshot.h"
#include "train/trainer.h"

enum { MAX_SAVE_FAILURES = 3 };

static charl_checkpoint_state state_of(const charl__trainer *t, double loss_scale)
{
    const int64_t n = t->session.data.rows[CHARL_SPLIT_TRAIN],
                  seen = t->replica.step * t->config->train.batch_size;
    const charl_device_info *d = charl_device_get_info(t->session.dev);

    return (charl_checkpoint_state){.step = t->replica.step,
                                    .epoch = seen / n,
                                    .samples_in_epoch = seen % n,
                                    .samples_seen = seen,
                                    .seed = t->config->run.seed,
                                    .rng = charl__rng_name,
                                    .lr_step = t->replica.step,
                                    .loss_scale = loss_scale,
                                    .slices = t->replica.slices.total,
                                    .batch_size = t->config->train.batch_size,
                                    .best_metric = t->best_metric,
                                    .stale_evals = t->stale_evals,
                                    .skipped_steps = t->nonfinite.skipped,
                                    .overflowed_steps = t->nonfinite.overflowed,
                                    .world_size = charl_comm_size(t->comm),
                                    .device = t->replica.mixed.models,
                                    .driver = d->driver,
                                    .data_path = t->session.data.path,
                                    .data_n_samples = n,
                                    .data_content_id = t->session.data.content_id,
                                    .data_shuffle =
                                        t->config->data.shuffle ? charl__shuffle_name : "none",
                                    .optim_kind = t->optimizer_kind,
                                    .optim_t = charl_optimizer_get_steps(t->replica.optimizer),
                                    .run_id = t->run_id};
}

static charl_status write_file(charl__trainer *t, const charl__snapshot *s, const char *path)
{
    charl_status st = CHARL_OK;
    char *resolved = NULL;
    float scale = 1.0F; /* none; a dynamic one is at least 2 */
    charl_checkpoint c = {.tensors = s->tensor, .n_tensors = s->n, .schema = t->session.schema};

    if (charl__steps_scale(t->replica.steps)) {
        CHARL_TRY_CLEANUP(
            charl_tensor_read(charl__steps_scale(t->replica.steps), &scale, sizeof scale));
    }
    c.state = state_of(t, (double)scale);
    CHARL_TRY_CLEANUP(charl_config_print(t->config, false, &resolved));
    c.config_text = charl_config_source(t->config, &(size_t){0});
    c.config_resolved = resolved;
    CHARL_TRY_CLEANUP(charl_checkpoint_save(path, &c));
cleanup:
    charl_free(resolved);
    return st;
}

/* Links are for people and old files only take room: neither may stop a training whose checkpoint
 * is safe. */
static void tidy(charl__trainer *t)
{
    const char *dir = t->config->run.output_dir;
    const bool forgets = t->new_best;
    const charl_run_policy policy = {.step = t->replica.step,
                                     .keep_last = t->config->checkpoint.keep_last,
                                     .keep_every = t->config->checkpoint.keep_every,
                                     .resumed_step = t->resumed_step,
                                     .best_step = t->best_step};
    int removed;

    t->new_best = false;
    if ((forgets && charl__rundir_forget_best(dir) != CHARL_OK) ||
        charl_run_link(dir, "last.h5", t->replica.step) != CHARL_OK ||
        (t->best_step == t->replica.step &&
         charl_run_link(dir, "best.h5", t->replica.step) != CHARL_OK) ||
        charl_run_retain(dir, &policy, &removed) != CHARL_OK) {
        charl__trainer_warn(t, charl_error_message());
    }
}

/* A run that goes on from an older checkpoint of its directory must not find its later ones when it
 * resumes again. */
static void supersede(charl__trainer *t)
{
    char text[256];
    int moved = 0;

    if (!t->supersedes) {
        return;
    }
    t->supersedes = false;
    if (charl__rundir_supersede(t->config->run.output_dir, t->resumed_step, t->replica.step,
                                &moved) != CHARL_OK) {
        charl__trainer_warn(t, charl_error_message());
    }
    if (moved > 0) {
        snprintf(text, sizeof text,
                 "training went on from step %" PRId64
                 ": %d later checkpoint%s renamed to step-....h5.superseded",
                 t->resumed_step, moved, moved == 1 ? " was" : "s were");
        charl__trainer_warn(t, text);
    }
}

/* Like a link, an export is for others: training does not depend on it. */
static void export_model(charl__trainer *t, const char *checkpoint)
{
    const char *dir = t->config->run.output_dir;
    const charl_export_format format = (charl_export_format)t->config->checkpoint.export_format;

    if (charl__export_beside(checkpoint, format, dir, "last") != CHARL_OK ||
        (t->best_step == t->replica.step &&
         charl__export_beside(checkpoint, format, dir, "best") != CHARL_OK)) {
        charl__trainer_warn(t, charl_error_message());
    }
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

/* Copy the state, and let no rank's differ from the others': the sums they train on were the same.
 */
static charl_status take_alike(charl__trainer *t, charl__snapshot *s)
{
    charl_status st = CHARL_OK;
    const charl__fact form = {.status = CHARL_ERR_NONFINITE};
    charl__consensus facts = {0};

    s->keeps = charl_comm_rank(t->comm) == 0;
    st = charl__phase_enter(t->comm, t->replica.step, CHARL__PHASE_CHECKPOINT, t->session.params);
    if (st == CHARL_OK && t->run) { /* rank 0 */
        st = charl_run_check(t->run);
    }
    if (st == CHARL_OK) { /* nothing is saved that was learnt of other data */
        st = charl_dataset_check(t->session.ds);
    }
    if (t->replica.mixed.on || t->replica.shard) { /* what follows is done together */
        CHARL_TRY_CLEANUP(agree_before_save(t, st));
    }
    if (t->replica.mixed.on) {
        CHARL_TRY_CLEANUP(charl__heterogeneous_follow(&t->replica));
    }
    if (st == CHARL_OK) {
        st = charl__snapshot_take(&t->replica, s);
    }
    if (st == CHARL_OK) {
        st = charl__snapshot_facts(s, t->replica.mixed.on || t->replica.shard ? "model" : NULL,
                                   &form, &facts);
    }
    CHARL_TRY_CLEANUP(agree_before_save(t, st));
    st = charl__consensus_reach(&facts, st, t->comm);
    if (st != CHARL_OK && charl_comm_is_agreed(t->comm)) {
        st = charl_comm_agreed(t->comm, refuse_differing(t, st));
    }
cleanup:
    charl__consensus_fini(&facts);
    return st;
}

/* Rank 0 writes on: the others go on waiting, however slow its disk is. */
static void on_progress(void *ctx)
{
    const charl__trainer *t = ctx;

    charl__phase_mark(t->comm, t->replica.step, CHARL__PHASE_WRITE);
}

static charl_status save_alone(charl__trainer *t, const charl__snapshot *s, char **path)
{
    charl_status st = CHARL_OK;

    CHARL_TRY_CLEANUP(
        charl__phase_enter(t->comm, t->replica.step, CHARL__PHASE_WRITE, t->session.params));
    CHARL_TRY_CLEANUP(charl_run_path(t->config->run.output_dir, t->replica.step, path));
    if (charl_comm_rank(t->comm) == 0) {
        charl__progress_set(on_progress, t);
        CHARL_TRY_CLEANUP(write_file(t, s, *path));
        supersede(t);
        tidy(t);
        export_model(t, *path);
    }
cleanup:
    charl__progress_set(NULL, NULL);
    return st;
}

/* Whether a training whose checkpoint could not be written goes on: until the next interval, unless
 * it was the last chance or the disk does not recover. The status is the same on every rank. */
static charl_status forgive(charl__trainer *t, charl_status failed, bool last)
{
    char text[1200];

    if (failed == CHARL_OK) {
        t->save_failures = 0;
        t->saved_step = t->replica.step;
        return CHARL_OK;
    }
    t->save_failures++;
    if (failed != CHARL_ERR_DISK || last || t->save_failures >= MAX_SAVE_FAILURES) {
        if (charl_comm_is_agreed(t->comm) && charl_comm_size(t->comm) > 1) {
            charl__error_prefix("step %" PRId64 ", writing the checkpoint: ", t->replica.step);
        }
        CHARL_TRY(failed);
    }
    snprintf(text, sizeof text,
             "no checkpoint at step %" PRId64 ": %s; training goes on (failure %d of %d in a row)",
             t->replica.step, charl_error_message(), t->save_failures, MAX_SAVE_FAILURES);
    if (charl_comm_rank(t->comm) == 0) {
        charl__trainer_warn(t, text);
    }
    return CHARL_OK;
}

charl_status charl__trainer_save(charl__trainer *t, bool last)
{
    charl_status st = CHARL_OK;
    const double begin = charl__clock_s();
    charl__snapshot s = {0};
    char *path = NULL;

    if (t->saved_step == t->replica.step) {
        goto cleanup;
    }
    charl_comm_timeout_set(t->comm, t->config->checkpoint.timeout_s);
    CHARL_TRY_CLEANUP(take_alike(t, &s));
    st = save_alone(t, &s, &path);
    CHARL_TRY_CLEANUP(forgive(t, charl_comm_agree(t->comm, st), last));
    charl_comm_timeout_set(t->comm, t->config->dist.timeout_s);
    t->last_save_s = charl__clock_s();
    if (t->options->events.saved && t->saved_step == t->replica.step) {
        CHARL_TRY_CLEANUP(t->options->events.saved(
            t->options->events.ctx,
            &(charl_saved_row){t->replica.step, path, (t->last_save_s - begin) * 1e3}));
    }
cleanup:
    charl__snapshot_fini(&s);
    charl_free(path);
    return st;
}

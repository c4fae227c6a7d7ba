/* Checkpoints of a training: what goes in, and how it comes back.
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

static const char rng_name[] = "philox4x32-10", shuffle_name[] = "feistel6-v1";

static charl_checkpoint_state state_of(const charl__trainer *t, double loss_scale)
{
    const int64_t n = t->data.rows[CHARL_SPLIT_TRAIN], seen = t->step * t->config->train.batch_size;
    const charl_device_info *d = charl_device_get_info(t->dev);

    return (charl_checkpoint_state){.step = t->step,
                                    .epoch = seen / n,
                                    .samples_in_epoch = seen % n,
                                    .samples_seen = seen,
                                    .seed = t->config->run.seed,
                                    .rng = rng_name,
                                    .lr_step = t->step,
                                    .loss_scale = loss_scale,
                                    .slices = t->slices.total,
                                    .batch_size = t->config->train.batch_size,
                                    .best_metric = t->best_metric,
                                    .stale_evals = t->stale_evals,
                                    .skipped_steps = t->nonfinite.skipped,
                                    .overflowed_steps = t->nonfinite.overflowed,
                                    .world_size = charl_comm_size(t->comm),
                                    .device = t->mixed.models,
                                    .driver = d->driver,
                                    .data_path = t->data.path,
                                    .data_n_samples = n,
                                    .data_content_id = t->data.content_id,
                                    .data_shuffle = t->config->data.shuffle ? shuffle_name : "none",
                                    .optim_kind = t->optimizer_kind,
                                    .optim_t = charl_optimizer_get_steps(t->optimizer),
                                    .run_id = t->run_id};
}

static charl_status write_file(charl__trainer *t, const charl__snapshot *s, const char *path)
{
    charl_status st = CHARL_OK;
    char *resolved = NULL;
    float scale = 1.0F; /* none; a dynamic one is at least 2 */
    charl_checkpoint c = {.tensors = s->tensor, .n_tensors = s->n, .schema = t->schema};

    if (charl__steps_scale(t->steps)) {
        CHARL_TRY_CLEANUP(charl_tensor_read(charl__steps_scale(t->steps), &scale, sizeof scale));
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
    const charl_run_policy policy = {.step = t->step,
                                     .keep_last = t->config->checkpoint.keep_last,
                                     .keep_every = t->config->checkpoint.keep_every,
                                     .resumed_step = t->resumed_step,
                                     .best_step = t->best_step};
    int removed;

    t->new_best = false;
    if ((forgets && charl__rundir_forget_best(dir) != CHARL_OK) ||
        charl_run_link(dir, "last.h5", t->step) != CHARL_OK ||
        (t->best_step == t->step && charl_run_link(dir, "best.h5", t->step) != CHARL_OK) ||
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
    if (charl__rundir_supersede(t->config->run.output_dir, t->resumed_step, t->step, &moved) !=
        CHARL_OK) {
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
        (t->best_step == t->step &&
         charl__export_beside(checkpoint, format, dir, "best") != CHARL_OK)) {
        charl__trainer_warn(t, charl_error_message());
    }
}

static charl_status agree_before_save(charl__trainer *t, charl_status mine)
{
    if (mine != CHARL_OK && charl_comm_size(t->comm) > 1) {
        charl__error_prefix("step %" PRId64 ", checkpoint: ", t->step);
    }
    return charl_comm_agree(t->comm, mine);
}

static charl_status refuse_differing(const charl__trainer *t, charl_status st)
{
    CHARL_FAIL(st,
               "step %" PRId64 ": the ranks no longer train the same model: %s; nothing was "
               "saved. HINT run the same command to continue from the last checkpoint; a rank "
               "that differs again has a device or memory that fails",
               t->step, charl_error_message());
}

/* Copy the state, and let no rank's differ from the others': the sums they train on were the same.
 */
static charl_status take_alike(charl__trainer *t, charl__snapshot *s)
{
    charl_status st = CHARL_OK;
    const charl__fact form = {.status = CHARL_ERR_NONFINITE};
    charl__consensus facts = {0};

    s->keeps = charl_comm_rank(t->comm) == 0;
    st = charl__phase_enter(t->comm, t->step, CHARL__PHASE_CHECKPOINT, t->params);
    if (st == CHARL_OK && t->run) { /* rank 0 */
        st = charl_run_check(t->run);
    }
    if (st == CHARL_OK) { /* nothing is saved that was learnt of other data */
        st = charl_dataset_check(t->ds);
    }
    if (t->mixed.on || t->shard) { /* what follows is done together */
        CHARL_TRY_CLEANUP(agree_before_save(t, st));
    }
    if (t->mixed.on) {
        CHARL_TRY_CLEANUP(charl__heterogeneous_follow(t));
    }
    if (st == CHARL_OK) {
        st = charl__snapshot_take(t, s);
    }
    if (st == CHARL_OK) {
        st = charl__snapshot_facts(s, t->mixed.on || t->shard ? "model" : NULL, &form, &facts);
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

    charl__phase_mark(t->comm, t->step, CHARL__PHASE_WRITE);
}

static charl_status save_alone(charl__trainer *t, const charl__snapshot *s, char **path)
{
    charl_status st = CHARL_OK;

    CHARL_TRY_CLEANUP(charl__phase_enter(t->comm, t->step, CHARL__PHASE_WRITE, t->params));
    CHARL_TRY_CLEANUP(charl_run_path(t->config->run.output_dir, t->step, path));
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
        t->saved_step = t->step;
        return CHARL_OK;
    }
    t->save_failures++;
    if (failed != CHARL_ERR_DISK || last || t->save_failures >= MAX_SAVE_FAILURES) {
        if (charl_comm_is_agreed(t->comm) && charl_comm_size(t->comm) > 1) {
            charl__error_prefix("step %" PRId64 ", writing the checkpoint: ", t->step);
        }
        CHARL_TRY(failed);
    }
    snprintf(text, sizeof text,
             "no checkpoint at step %" PRId64 ": %s; training goes on (failure %d of %d in a row)",
             t->step, charl_error_message(), t->save_failures, MAX_SAVE_FAILURES);
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

    if (t->saved_step == t->step) {
        goto cleanup;
    }
    charl_comm_timeout_set(t->comm, t->config->checkpoint.timeout_s);
    CHARL_TRY_CLEANUP(take_alike(t, &s));
    st = save_alone(t, &s, &path);
    CHARL_TRY_CLEANUP(forgive(t, charl_comm_agree(t->comm, st), last));
    charl_comm_timeout_set(t->comm, t->config->dist.timeout_s);
    t->last_save_s = charl__clock_s();
    if (t->options->events.saved && t->saved_step == t->step) {
        CHARL_TRY_CLEANUP(t->options->events.saved(
            t->options->events.ctx,
            &(charl_saved_row){t->step, path, (t->last_save_s - begin) * 1e3}));
    }
cleanup:
    charl__snapshot_fini(&s);
    charl_free(path);
    return st;
}

#define AFRESH "or start afresh in another run.output_dir (--init-from keeps the weights)"

static bool is_other_run(const charl__trainer *t, const charl_checkpoint_state *s)
{
    const char *resume = t->config->run.resume; /* one that is named may be of any run */

    return t->run_dir_id[0] && s->run_id[0] && strcmp(t->run_dir_id, s->run_id) != 0 &&
           (strcmp(resume, "auto") == 0 || strcmp(resume, "must") == 0);
}

/* run.strict: what would make the rest of the run another one than what the checkpoint is of, all
 * in one message. */
static charl_status check_strict(const charl__trainer *t, const charl_checkpoint_reader *r,
                                 const char *path)
{
    charl_status st = CHARL_OK;
    const charl_checkpoint_state *s = charl_checkpoint_get_state(r);
    const char *shuffle = t->config->data.shuffle ? shuffle_name : "none";
    charl__text text = {0};
    char *changes = NULL;
    bool model;

    st = charl_config_diff(t->config, charl_checkpoint_get_config_resolved(r), &model, &changes);
    CHARL_TRY_CLEANUP(st == CHARL_ERR_CONFIG ? CHARL_OK : st);
    CHARL_TRY_CLEANUP(
        charl__text_printf(&text, "%s",
                           !changes     ? "\nits settings, by another version of charl, cannot "
                                          "be compared"
                           : changes[0] ? "\n"
                                        : ""));
    CHARL_TRY_CLEANUP(charl__text_printf(&text, "%s", changes ? changes : ""));
    if (strcmp(s->data_content_id, t->data.content_id) != 0) {
        CHARL_TRY_CLEANUP(
            charl__text_printf(&text,
                               "\ndata: content %.16s, %" PRId64 " samples of %s (was "
                               "%.16s, %" PRId64 " samples of %s)",
                               t->data.content_id, t->data.rows[CHARL_SPLIT_TRAIN], t->data.path,
                               s->data_content_id, s->data_n_samples, s->data_path));
    }
    if (strcmp(s->rng, rng_name) != 0) {
        CHARL_TRY_CLEANUP(
            charl__text_printf(&text, "\nrandom numbers: %s (was %s)", rng_name, s->rng));
    }
    if (strcmp(s->data_shuffle, shuffle) != 0) {
        CHARL_TRY_CLEANUP(charl__text_printf(&text, "\norder of the samples: %s (was %s)", shuffle,
                                             s->data_shuffle));
    }
    if (is_other_run(t, s)) {
        CHARL_TRY_CLEANUP(charl__text_printf(
            &text, "\nrun: %.16s, of this run.output_dir (was %.16s)", t->run_dir_id, s->run_id));
    }
    CHARL_REQUIRE_CLEANUP(
        text.length == 0, CHARL_ERR_CHECKPOINT,
        "run.strict = yes: %s was trained with other settings or data:%.1800s\nHINT set "
        "these back, start afresh in another run.output_dir (--init-from keeps the "
        "weights), or accept them with run.strict = no",
        path, charl__text_string(&text));
cleanup:
    charl__text_fini(&text);
    charl_free(changes);
    return st;
}

/* Another model is refused by the keys that differ; other changes are allowed and named. */
static charl_status check_config(const charl__trainer *t, const charl_checkpoint_reader *r,
                                 const char *path)
{
    charl_status st = CHARL_OK;
    char *changes = NULL;
    char text[1200];
    bool model = false;

    st = charl_config_diff(t->config, charl_checkpoint_get_config_resolved(r), &model, &changes);
    if (st == CHARL_ERR_CONFIG) { /* of another version: the tensors decide */
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_REQUIRE_CLEANUP(
        !model, CHARL_ERR_CHECKPOINT,
        "%s belongs to another model:\n%.1500s\nset the model back, or start afresh in "
        "another run.output_dir",
        path, changes);
    if (changes[0] && charl_comm_rank(t->comm) == 0) {
        int used = snprintf(text, sizeof text, "changed since %s:", path);

        for (const char *p = changes; *p && used > 0 && (size_t)used < sizeof text;) {
            const int length = (int)strcspn(p, "\n");

            used += snprintf(text + used, sizeof text - (size_t)used, "%s %.*s",
                             p == changes ? "" : ",", length, p);
            p += length + (p[length] == '\n');
        }
        charl__trainer_warn(t, text);
    }
cleanup:
    charl_free(changes);
    return st;
}

/* What must be as it was for the rest of the run to be the same run. */
static charl_status check_state(const charl__trainer *t, const charl_checkpoint_state *s,
                                const char *path)
{
    const charl_device_info *d = charl_device_get_info(t->dev);
    char text[1600];

    CHARL_REQUIRE(s->batch_size == t->config->train.batch_size && s->slices == t->slices.total,
                  CHARL_ERR_CHECKPOINT,
                  "%s was trained with train.batch_size = %" PRId64 " and train.slices = %" PRId64
                  ", now %" PRId64 " and %d; HINT set them back%s, " AFRESH,
                  path, s->batch_size, s->slices, t->config->train.batch_size, t->slices.total,
                  t->config->train.slices == 0 && s->slices != t->slices.total
                      ? " (slices = auto is up to 64 with dist.balance = speed, "
                        "else up to 8)"
                      : "");
    CHARL_REQUIRE(s->data_n_samples == t->data.rows[CHARL_SPLIT_TRAIN], CHARL_ERR_CHECKPOINT,
                  "%s was trained on %" PRId64 " samples, %s has %" PRId64
                  "; HINT set data.path back, " AFRESH,
                  path, s->data_n_samples, t->data.path, t->data.rows[CHARL_SPLIT_TRAIN]);
    if (charl_comm_rank(t->comm) != 0) {
        return CHARL_OK;
    }
    if (strcmp(s->data_content_id, t->data.content_id) != 0) {
        snprintf(text, sizeof text,
                 "%s is not the data that %s was trained on: training continues with the new data, "
                 "and looks for a new best checkpoint",
                 t->data.path, path);
        charl__trainer_warn(t, text);
    }
    if (is_other_run(t, s)) {
        snprintf(text, sizeof text,
                 "%s is of another run (%.16s) than %s (%.16s): training continues from it", path,
                 s->run_id, t->config->run.output_dir, t->run_dir_id);
        charl__trainer_warn(t, text);
    }
    if (strcmp(s->device, t->mixed.models) != 0 || strcmp(s->driver, d->driver) != 0) {
        snprintf(
            text, sizeof text,
            "resumed on another device (%s %s, was %s %s): equal up to rounding, not to the bit",
            t->mixed.models, d->driver, s->device, s->driver);
        charl__trainer_warn(t, text);
    }
    return CHARL_OK;
}

/* Evaluations of other data or of another kind say nothing of the best one so far. */
static charl_status check_best(charl__trainer *t, const charl_checkpoint_reader *r)
{
    charl_status st = CHARL_OK;
    const char *text = charl_checkpoint_get_config_resolved(r);
    const charl_config *now = t->config;
    charl_config *was = NULL;

    t->new_best = strcmp(charl_checkpoint_get_state(r)->data_content_id, t->data.content_id) != 0;
    st = charl_config_parse("/config/resolved", text, strlen(text), NULL, 0, &was);
    if (st == CHARL_ERR_CONFIG) { /* of another version: only the data tell */
        return CHARL_OK;
    }
    CHARL_TRY_CLEANUP(st);
    t->new_best = t->new_best || strcmp(was->data.x, now->data.x) != 0 ||
                  strcmp(was->data.y, now->data.y) != 0 ||
                  memcmp(&was->data.val_split, &now->data.val_split, sizeof(double)) != 0 ||
                  was->data.window != now->data.window || was->train.loss != now->train.loss ||
                  was->eval.max_batches != now->eval.max_batches ||
                  strcmp(was->checkpoint.monitor, now->checkpoint.monitor) != 0 ||
                  was->checkpoint.mode != now->checkpoint.mode;
cleanup:
    charl_config_destroy(was);
    return st;
}

/* A dynamic scale goes on; 1 is that of a run that used none. */
static charl_status restore_scale(charl__trainer *t, double stored)
{
    const float scale = (float)stored;

    if (charl__steps_scale_is_dynamic(t->steps) && scale > 1.0F) {
        CHARL_TRY(charl_tensor_write(charl__steps_scale(t->steps), &scale, sizeof scale));
    }
    return CHARL_OK;
}

/* Of all tensors, by their checksums: ranks compare it. */
static uint64_t digest_of(const charl_checkpoint_reader *r)
{
    uint64_t digest = 0;

    for (int64_t i = 0; i < charl_checkpoint_get_count(r); i++) {
        const charl_checkpoint_tensor *tensor = charl_checkpoint_get_tensor(r, i);
        const uint64_t part[4] = {digest, charl__fnv1a64_string(tensor->group),
                                  charl__fnv1a64_string(tensor->name), tensor->crc32c};

        digest = charl__fnv1a64(part, sizeof part);
    }
    return digest;
}

charl_status charl__trainer_load(charl__trainer *t, const char *path, bool all)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;
    const charl_checkpoint_state *s;

    CHARL_TRY_CLEANUP(charl_checkpoint_open(path, &r));
    s = charl_checkpoint_get_state(r);
    if (all) {
        CHARL_REQUIRE_CLEANUP(
            strcmp(s->optim_kind, CHARL_CHECKPOINT_NO_OPTIMIZER) != 0, CHARL_ERR_CHECKPOINT,
            "%s holds weights only and cannot be resumed; HINT start from it with "
            "--init-from, in another run.output_dir",
            path);
        if (t->config->run.strict) {
            CHARL_TRY_CLEANUP(check_strict(t, r, path));
        }
        CHARL_TRY_CLEANUP(check_config(t, r, path));
        CHARL_TRY_CLEANUP(check_state(t, s, path));
        CHARL_REQUIRE_CLEANUP(
            strcmp(s->optim_kind, t->optimizer_kind) == 0, CHARL_ERR_CHECKPOINT,
            "%s was trained with %s, now optimizer.type is %s; HINT set it back, " AFRESH, path,
            s->optim_kind, t->optimizer_kind);
    }
    CHARL_TRY_CLEANUP(charl__snapshot_restore(t, r, path, all));
    if (all) {
        CHARL_TRY_CLEANUP(check_best(t, r));
        t->step = s->step;
        t->best_metric = t->new_best ? (double)NAN : s->best_metric;
        t->stale_evals = t->new_best ? 0 : s->stale_evals;
        t->nonfinite.skipped = s->skipped_steps;
        t->nonfinite.overflowed = s->overflowed_steps;
        charl_optimizer_set_steps(t->optimizer, s->optim_t);
        CHARL_TRY_CLEANUP(restore_scale(t, s->loss_scale));
        t->resumed_step = t->saved_step = s->step;
        t->resumed_digest = digest_of(r);
        t->best_step = charl__rundir_best(t->config->run.output_dir);
        t->best_step = t->best_step <= t->step && !isnan(t->best_metric) ? t->best_step : -1;
        charl_free(t->resumed);
        t->resumed = NULL;
        CHARL_TRY_CLEANUP(charl_strdup(path, &t->resumed));
    }
cleanup:
    charl_checkpoint_close(r);
    return st;
}

/* Weights of another run, or drawn: what is only planned needs none. */
static charl_status start_afresh(charl__trainer *t)
{
    const char *path = t->origin;

    if (path && !charl__is_safetensors(path)) {
        CHARL_TRY(charl__trainer_load(t, path, false));
        return CHARL_OK;
    }
    if (path) {
        CHARL_TRY(charl__import_safetensors(path, t->model, t->params));
    } else if (!t->options->dry_run) {
        CHARL_TRY(charl_params_initialize(t->params, (uint64_t)t->config->run.seed));
    }
    CHARL_TRY(charl_optimizer_reset_ema(t->optimizer));
    return CHARL_OK;
}

/* The run directory is this run's from now on. */
static charl_status claim_rundir(const charl__trainer *t)
{
    const char *dir = t->config->run.output_dir;

    if (!t->resumes && t->options->overwrite) {
        CHARL_TRY(charl__rundir_clear(dir));
    }
    if (strcmp(t->run_id, t->run_dir_id) != 0) {
        CHARL_TRY(charl__rundir_write_id(dir, t->run_id));
    }
    return CHARL_OK;
}

charl_status charl__trainer_resume(charl__trainer *t)
{
    charl_status st = CHARL_OK;

    st = charl__phase_enter(t->comm, 0, CHARL__PHASE_RESUME, t->params);
    CHARL_TRY(charl_comm_agree(t->comm, st));
    st = t->resumes ? charl__trainer_load(t, t->origin, true) : start_afresh(t);
    CHARL_TRY(charl__rank_check_state(t, t->origin, st));
    /* After the weights to begin with were read: they may lie there. */
    if (t->writes && charl_comm_rank(t->comm) == 0) {
        st = claim_rundir(t);
    }
    CHARL_TRY(charl_comm_agree(t->comm, st));
    charl_comm_timeout_set(t->comm, t->config->dist.timeout_s);
    return st;
}

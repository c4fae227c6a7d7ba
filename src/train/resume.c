/* Resuming a run from a checkpoint, or starting a new one. */
#define _DEFAULT_SOURCE /* realpath */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/text/text.h"
#include "charl/version.h"
#include "config/config_rows.h"
#include "config/diff.h"
#include "config/outputs.h"
#include "io/checkpoint/checkpoint_read.h"
#include "files/run.h"
#include "files/run_path.h"
#include "io/commit.h"
#include "io/progress.h"
#include "io/scoped.h"
#include "task/weights/weights.h"
#include "task/weights/weights_base.h"
#include "train/rank_check.h"
#include "train/rundir.h"
#include "train/snapshot.h"
#include "train/trainer.h"

#define AFRESH                                                                                                         \
    "or start a new run with -o DIR, or with --overwrite in the place of this one (--init-from keeps the weights)"

static bool is_other_run(const charl__trainer *t, const charl_checkpoint_state *s)
{
    const char *resume = t->config->run.resume; /* a checkpoint file may be of any run */

    return t->run_dir_id[0] && s->run_id[0] && strcmp(t->run_dir_id, s->run_id) != 0 &&
           (strcmp(resume, "auto") == 0 || strcmp(resume, "must") == 0);
}

/* Differences of settings, of the kinds `wanted`, and of data from those of a checkpoint: "\n" and a line for each; *found: the kinds that there
 * are. */
static charl_status list_differences(const charl__trainer *t, const charl_checkpoint_reader *r, unsigned wanted,
                                     charl__text *text, unsigned *found)
{
    charl_status st = CHARL_OK;
    const charl_checkpoint_state *s = charl_checkpoint_get_info(r).state;
    char *changes = NULL;

    st = charl__config_diff(t->config, charl_checkpoint_get_info(r).config_resolved, wanted, found, &changes);
    CHARL_TRY_CLEANUP(st == CHARL_ERR_CONFIG ? CHARL_OK : st);
    if (!changes) {
        CHARL_TRY_CLEANUP(charl__text_printf(text, "\nits settings, by another version of charl, cannot be compared"));
    } else if (changes[0]) {
        CHARL_TRY_CLEANUP(charl__text_printf(text, "\n%s", changes));
    }
    if (strcmp(s->data_content_id, t->session.data.content_id) != 0) {
        CHARL_TRY_CLEANUP(charl__text_printf(text,
                                             "\ndata: content %.16s, %" PRId64 " samples of %s (was "
                                             "%.16s, %" PRId64 " samples of %s)",
                                             t->session.data.content_id, t->session.data.rows[CHARL_SPLIT_TRAIN],
                                             t->session.data.path, s->data_content_id, s->data_n_samples,
                                             s->data_path));
        *found |= CHARL__CHANGE_TRAINING;
    }
cleanup:
    charl_free(changes);
    return st;
}

charl_status charl__trainer_accepts_copy(const void *trainer, const charl_checkpoint_reader *r, const char *path)
{
    const charl__trainer *t = trainer;
    const char *run = charl_checkpoint_get_info(r).state->run_id;
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    unsigned found;

    CHARL_REQUIRE(strcmp(run, t->run_dir_id) == 0, CHARL_ERR_CHECKPOINT, "%s is of another run (%.16s)", path, run);
    CHARL_TRY(list_differences(t, r, CHARL__CHANGE_RESULT, &text, &found));
    CHARL_REQUIRE(text.length == 0, CHARL_ERR_CHECKPOINT, "%s was made with other settings or data:%.800s", path,
                  charl__text_string(&text));
    return CHARL_OK;
}

/* run.strict: reject every difference that would change the rest of the run, listing all of them in one
 * message. */
static charl_status check_strict(const charl__trainer *t, const charl_checkpoint_reader *r, const char *path)
{
    const charl_checkpoint_state *s = charl_checkpoint_get_info(r).state;
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    unsigned found;

    CHARL_TRY(list_differences(t, r, CHARL__CHANGE_RESULT, &text, &found));
    if (strcmp(s->rng, charl__rng_name) != 0) {
        CHARL_TRY(charl__text_printf(&text, "\nrandom numbers: %s (was %s)", charl__rng_name, s->rng));
    }
    if (strcmp(s->data_shuffle, t->shuffle) != 0) {
        CHARL_TRY(charl__text_printf(&text, "\norder of the samples: %s (was %s)", t->shuffle, s->data_shuffle));
    }
    if (is_other_run(t, s)) {
        CHARL_TRY(
            charl__text_printf(&text, "\nrun: %.16s, of this run.output_dir (was %.16s)", t->run_dir_id, s->run_id));
    }
    CHARL_REQUIRE(text.length == 0, CHARL_ERR_CHECKPOINT,
                  "run.strict = yes: %s was trained with other settings or data:%.1800s\nHINT set "
                  "these back, start afresh in another run.output_dir (--init-from keeps the "
                  "weights), or accept them with run.strict = no",
                  path, charl__text_string(&text));
    return CHARL_OK;
}

/* Where no step is left to train, reject settings and data that ask for another result, or for fewer steps: nothing of them would come true.
 * Those that only choose the best checkpoint are a warning. The file that a base is read from may have moved. */
static charl_status check_ended(const charl__trainer *t, const charl_checkpoint_reader *r, const char *path)
{
    const unsigned start = charl__checkpoint_lacks_base(r) ? 0 : CHARL__CHANGE_START;
    unsigned refused = CHARL__CHANGE_TRAINING | CHARL__CHANGE_MODEL | start, found;
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    if (t->replica.step > t->end_step) {
        refused |= CHARL__CHANGE_LENGTH;
    }
    CHARL_TRY(list_differences(t, r, refused | CHARL__CHANGE_MEASURE, &text, &found));
    CHARL_REQUIRE(!(found & refused), CHARL_ERR_CHECKPOINT,
                  "nothing is left to train after %s, which was trained with other settings or data:%.1800s\n"
                  "HINT start a new run with -o DIR, or with --overwrite in the place of this one, or set these "
                  "back",
                  path, charl__text_string(&text));
    if (found && charl_comm_rank(t->comm) == 0) {
        CHARL_TRY(charl__text_printf(&text, "\nnothing is left to train: these settings change nothing"));
        charl__trainer_warn(t, charl__text_string(&text) + 1);
    }
    return CHARL_OK;
}

/* Reject a checkpoint of another model, naming the keys that differ; warn about other changed keys. */
static charl_status check_config(const charl__trainer *t, const charl_checkpoint_reader *r, const char *path)
{
    charl_status st = CHARL_OK;
    char *changes = NULL;
    char text[1200];
    unsigned found;

    st = charl__config_diff(t->config, charl_checkpoint_get_info(r).config_resolved, CHARL__CHANGE_RESULT, &found,
                            &changes);
    if (st == CHARL_ERR_CONFIG) { /* written by another version: compare the tensors only */
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_REQUIRE_CLEANUP(!(found & CHARL__CHANGE_MODEL), CHARL_ERR_CHECKPOINT,
                          "%s belongs to another model:\n%.1500s\nHINT set the model back, " AFRESH, path, changes);
    if (changes[0] && charl_comm_rank(t->comm) == 0) {
        int used = snprintf(text, sizeof text, "changed since %s:", path);

        for (const char *p = changes; *p && used > 0 && (size_t)used < sizeof text;) {
            const int length = (int)strcspn(p, "\n");

            used += snprintf(text + used, sizeof text - (size_t)used, "%s %.*s", p == changes ? "" : ",", length, p);
            p += length + (p[length] == '\n');
        }
        charl__trainer_warn(t, text);
    }
cleanup:
    charl_free(changes);
    return st;
}

/* Whether all devices, before and now, were asked to round as IEEE 754 says. */
static bool is_exact_anywhere(const charl__trainer *t, const charl_config *was)
{
    return t->config->train.exact == CHARL__EXACT_ANYWHERE && was && was->train.exact == CHARL__EXACT_ANYWHERE;
}

/* Reject another batch size, number of slices or number of samples; warn about other data, run or device. */
static charl_status check_state(const charl__trainer *t, const charl_checkpoint_reader *r, const charl_config *was,
                                const char *path)
{
    const charl_checkpoint_state *s = charl_checkpoint_get_info(r).state;
    const charl_device_info *d = charl_device_get_info(t->session.dev);
    char text[1600];

    CHARL_REQUIRE(s->batch_size == t->config->train.batch_size && s->slices == t->replica.dp->slices.total,
                  CHARL_ERR_CHECKPOINT,
                  "%s was trained with train.batch_size = %" PRId64 " and train.slices = %" PRId64 ", now %" PRId64
                  " and %d; HINT set them back%s, " AFRESH,
                  path, s->batch_size, s->slices, t->config->train.batch_size, t->replica.dp->slices.total,
                  t->config->train.slices == 0 && s->slices != t->replica.dp->slices.total
                      ? " (slices = auto is up to 64 with dist.balance = speed, "
                        "else up to 8)"
                      : "");
    CHARL_REQUIRE(s->data_n_samples == t->session.data.rows[CHARL_SPLIT_TRAIN], CHARL_ERR_CHECKPOINT,
                  "%s was trained on %" PRId64 " samples, %s has %" PRId64
                  "; HINT set data.path or data.mix back, " AFRESH,
                  path, s->data_n_samples, t->session.data.path, t->session.data.rows[CHARL_SPLIT_TRAIN]);
    if (charl_comm_rank(t->comm) != 0) {
        return CHARL_OK;
    }
    if (strcmp(s->data_content_id, t->session.data.content_id) != 0) {
        snprintf(text, sizeof text,
                 "%s is not the data that %s was trained on: training continues with the new data, "
                 "and looks for a new best checkpoint",
                 t->session.data.path, path);
        charl__trainer_warn(t, text);
    }
    if (t->config->data.shuffle == CHARL_SHUFFLE_BLOCKS && strcmp(s->data_shuffle, t->shuffle) != 0) {
        snprintf(
            text, sizeof text,
            "the order of the samples differs from before, because the chunks of the file or data.shuffle changed: %s "
            "(was %s)",
            t->shuffle, s->data_shuffle);
        charl__trainer_warn(t, text);
    }
    if (is_other_run(t, s)) {
        snprintf(text, sizeof text, "%s is of another run (%.16s) than %s (%.16s): training continues from it", path,
                 s->run_id, t->config->run.output_dir, t->run_dir_id);
        charl__trainer_warn(t, text);
    }
    if ((strcmp(s->device, t->replica.mixed.models) != 0 || strcmp(s->driver, d->driver) != 0) &&
        !is_exact_anywhere(t, was)) {
        snprintf(text, sizeof text, "resumed on another device (%s %s, was %s %s): %s", t->replica.mixed.models,
                 d->driver, s->device, s->driver,
                 t->config->train.exact == CHARL__EXACT_DEVICE || charl__config_inexact(t->config)
                     ? "equal up to rounding, not to the bit"
                     : "the same bits only if both round as IEEE 754 says (charl selftest --hash)");
        charl__trainer_warn(t, text);
    }
    return CHARL_OK;
}

/* Set new_best if the best metric is not comparable any more: other data, or other evaluation settings. */
static void check_best(charl__trainer *t, const charl_checkpoint_reader *r, const charl_config *was)
{
    const charl_config *now = t->config;

    t->new_best = strcmp(charl_checkpoint_get_info(r).state->data_content_id, t->session.data.content_id) != 0;
    if (!was) {
        return;
    }
    charl__trainer_check_rate(t, was, charl_checkpoint_get_info(r).state->step);
    t->new_best = t->new_best || strcmp(was->data.x, now->data.x) != 0 || strcmp(was->data.y, now->data.y) != 0 ||
                  memcmp(&was->data.val_split, &now->data.val_split, sizeof(double)) != 0 ||
                  was->data.fold.k != now->data.fold.k || was->data.fold.n != now->data.fold.n ||
                  was->data.window != now->data.window || !charl__config_same_loss(was, now) ||
                  was->diffusion.schedule != now->diffusion.schedule ||
                  was->diffusion.predict != now->diffusion.predict || was->eval.max_batches != now->eval.max_batches ||
                  was->checkpoint.mode != now->checkpoint.mode ||
                  strcmp(was->checkpoint.monitor, now->checkpoint.monitor) != 0;
}

/* Restore a dynamic loss scale; 1 means that the run used none. */
static charl_status restore_scale(charl__trainer *t, double stored)
{
    const float scale = (float)stored;

    if (charl__steps_scale_is_dynamic(t->replica.steps) && scale > 1.0F) {
        CHARL_TRY(charl_tensor_write(charl__steps_scale(t->replica.steps), &scale, sizeof scale));
    }
    return CHARL_OK;
}

/* A digest of names and checksums of all tensors, for the ranks to compare. */
static uint64_t digest_of(const charl_checkpoint_reader *r)
{
    uint64_t digest = 0;

    for (int64_t i = 0; i < charl_checkpoint_get_info(r).n_tensors; i++) {
        const charl_checkpoint_tensor *tensor = charl_checkpoint_get_tensor(r, i);
        const uint64_t part[4] = {digest, charl__fnv1a64_string(tensor->group), charl__fnv1a64_string(tensor->name),
                                  tensor->crc32c};

        digest = charl__fnv1a64(part, sizeof part);
    }
    return digest;
}

static charl_status check_checkpoint(const charl__trainer *t, const charl_checkpoint_reader *r, const charl_config *was,
                                     const char *path)
{
    const charl_checkpoint_state *s = charl_checkpoint_get_info(r).state;

    CHARL_REQUIRE(strcmp(s->optim_kind, CHARL_CHECKPOINT_NO_OPTIMIZER) != 0, CHARL_ERR_CHECKPOINT,
                  "%s holds weights only and cannot be resumed; HINT start from it with "
                  "--init-from, in another run.output_dir",
                  path);
    if (t->config->run.strict) {
        CHARL_TRY(check_strict(t, r, path));
    }
    if (t->writes && charl__trainer_has_ended(t)) {
        return check_ended(t, r, path);
    }
    CHARL_TRY(check_config(t, r, path));
    CHARL_TRY(check_state(t, r, was, path));
    CHARL_REQUIRE(strcmp(s->optim_kind, t->config->optimizer.type) == 0, CHARL_ERR_CHECKPOINT,
                  "%s was trained with %s, now optimizer.type is %s; HINT set it back, " AFRESH, path, s->optim_kind,
                  t->config->optimizer.type);
    return CHARL_OK;
}

/* The configuration that a checkpoint was trained with; NULL: one of another version, which cannot be read. */
static charl_status read_config(const charl_checkpoint_reader *r, charl_config **out)
{
    const char *text = charl_checkpoint_get_info(r).config_resolved;
    const charl_status st = charl_config_parse("/config/resolved", text, strlen(text), NULL, 0, out);

    return st == CHARL_ERR_CONFIG ? CHARL_OK : st;
}

static charl_status restore(charl__trainer *t, const char *path)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    CHARL_SCOPED(charl__config_left) charl_config *was = NULL;
    const charl_checkpoint_state *s;
    char place[4096];

    CHARL_TRY(charl_checkpoint_open(path, &r));
    s = charl_checkpoint_get_info(r).state;
    CHARL_TRY(read_config(r, &was));
    check_best(t, r, was);
    t->replica.step = s->step;
    t->best =
        t->new_best ? charl__best_none : (charl__best){.metric = s->best_metric, .step = -1, .evals = -s->stale_evals};
    CHARL_TRY(check_checkpoint(t, r, was, path));
    snprintf(place, sizeof place, "%.4000s/last.h5", t->config->run.output_dir); /* a copy has its base there too */
    CHARL_TRY(charl__weights_find_base(r, t->from_copy ? place : path, charl__config_init_from(t->config)));
    CHARL_TRY(charl__snapshot_restore(&t->replica, r, path));
    t->nonfinite.skipped = s->skipped_steps;
    t->nonfinite.overflowed = s->overflowed_steps;
    t->nonfinite.spikes = s->spike_steps;
    t->audited_step = s->audited_step;
    CHARL_TRY(charl_optimizer_set_steps(t->replica.optimizer, s->step, s->step - s->optim_t));
    CHARL_TRY(restore_scale(t, s->loss_scale));
    if (s->run_id[0]) {
        snprintf(t->run_id, sizeof t->run_id, "%s", s->run_id);
    }
    t->resumed_step = s->step;
    *(t->from_copy ? &t->copied_step : &t->saved_step) = s->step;
    t->resumed_digest = digest_of(r);
    if (was && strcmp(was->checkpoint.export_format, "none") != 0) {
        snprintf(t->exported, sizeof t->exported, "%s", was->checkpoint.export_format);
    }
    t->recorded_best = isnan(s->best_metric) ? -1 : s->best_step;
    CHARL_TRY(charl__strdup(path, &t->resumed));
    return CHARL_OK;
}

/* Checkpoints cannot leave weights to a file that this run replaces. */
static bool is_in_rundir(const char *path, const char *dir)
{
    char *file = realpath(path, NULL), *folder = realpath(dir, NULL);
    const size_t n = folder ? strlen(folder) : 0;
    const bool is = file && folder && strncmp(file, folder, n) == 0 && (file[n] == '/' || file[n] == '\0');

    free(file);
    free(folder);
    return is;
}

static void leave_nothing_to_own(const charl__trainer *t)
{
    charl_params *params = t->session.params;

    for (int i = 0; is_in_rundir(t->session.origin, t->config->run.output_dir) && i < charl_params_get_count(params);
         i++) {
        charl_params_get(params, i)->in_base = false;
    }
}

/* Load the weights of init.from, and initialize at random what it does not give; a dry run needs no random weights. */
static charl_status start_afresh(charl__trainer *t)
{
    if (!t->options->dry_run && (!t->session.origin || t->config->init.skip[0] || t->config->lora.rank > 0)) {
        CHARL_TRY(charl_params_initialize(t->session.params, (uint64_t)t->config->run.seed));
    }
    if (t->session.origin) {
        CHARL_TRY(charl__session_start_weights(&t->session));
        leave_nothing_to_own(t);
    }
    CHARL_TRY(charl_optimizer_reset_ema(t->replica.optimizer));
    return CHARL_OK;
}

/* Give a checkpoint, and its parts, a second name in this run's directory. */
static charl_status link_base(const char *origin, const char *dir, const char *path)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    const char *part;

    CHARL_TRY(charl_checkpoint_open(origin, &r));
    for (int i = 0; (part = charl__checkpoint_part(r, i)) != NULL; i++) {
        CHARL_SCOPED_FREE char *name = NULL;

        CHARL_TRY(charl__commit_join(dir, charl__base_name(part), &name));
        CHARL_REQUIRE(link(part, name) == 0 || errno == EEXIST, CHARL_ERR_DISK, "%s", strerror(errno));
    }
    CHARL_REQUIRE((unlink(path) == 0 || errno == ENOENT) && link(origin, path) == 0, CHARL_ERR_DISK, "%s",
                  strerror(errno));
    return CHARL_OK;
}

/* Give a base that another run may remove a second name in this run's directory. A failure is only a warning. */
static void keep_base(const charl__trainer *t)
{
    const char *origin = t->session.origin;
    char path[4096], text[4400];
    bool leaves = false;

    for (int i = 0; i < charl_params_get_count(t->session.params); i++) {
        const charl_param *p = charl_params_get(t->session.params, i);

        leaves = leaves || (p->frozen && p->in_base);
    }
    if (!leaves || !charl__leaves_base(t->config) || charl_run_length(origin) == strlen(origin) ||
        (size_t)snprintf(path, sizeof path, "%s/" CHARL__RUN_BASE, t->config->run.output_dir) >= sizeof path) {
        return;
    }
    if (link_base(origin, t->config->run.output_dir, path) != CHARL_OK) {
        snprintf(text, sizeof text,
                 "%.2000s belongs to a run that may remove it as it trains on, and cannot be linked here (%s): copy "
                 "it, and start from the copy",
                 origin, charl_error_message());
        charl__trainer_warn(t, text);
    }
}

static charl_status describe_checkpoint(const char *path, charl__lock_line *line)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;

    CHARL_TRY(charl_checkpoint_open(path, &r));
    CHARL_TRY(charl__lock_describe(r, line));
    return CHARL_OK;
}

/* The content of run.lock so far. A file that charl did not leave so is moved aside: training continues without its proof. */
static charl_status read_lock(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    char *path = NULL, *aside = NULL;
    charl__text wrong = {0};

    CHARL_TRY_CLEANUP(charl__commit_join(t->config->run.output_dir, CHARL__LOCK_FILE, &path));
    if (access(path, F_OK) != 0) { /* a run of an older version, or a checkpoint of another run */
        goto cleanup;
    }
    st = charl__lock_read(t->config->run.output_dir, &t->lock, &wrong);
    CHARL_REQUIRE_CLEANUP(st == CHARL_OK || st == CHARL_ERR_CHECKPOINT, st, "%s", charl_error_message());
    if (st == CHARL_ERR_CHECKPOINT) {
        CHARL_TRY_CLEANUP(charl__text_printf(&wrong, "%s\n", charl_error_message()));
    }
    st = CHARL_OK;
    if (t->lock.torn > 0) {
        charl__session_warn_lines(&t->session, CHARL__LOCK_TORN "; it is removed\n");
    }
    if (wrong.length > 0) {
        charl__lock_fini(&t->lock);
        CHARL_TRY_CLEANUP(charl__commit_join(t->config->run.output_dir, CHARL__LOCK_FILE ".damaged", &aside));
        CHARL_REQUIRE_CLEANUP(rename(path, aside) == 0, CHARL_ERR_DISK, "cannot rename %s: %s", path, strerror(errno));
        CHARL_TRY_CLEANUP(charl__text_printf(&wrong, "renamed to %s, and a new one begins\n", aside));
        charl__session_warn_lines(&t->session, charl__text_string(&wrong));
    }
cleanup:
    charl__text_fini(&wrong);
    charl_free(path);
    charl_free(aside);
    return st;
}

/* What run.lock holds so far, and the line of this start, which a run that resumes adds after its first step. */
static charl_status begin_lock(charl__trainer *t)
{
    charl__lock_line *line = &t->lock_start;
    CHARL_SCOPED_FREE char *config = NULL;

    *line = (charl__lock_line){.kind = t->resumes ? CHARL__LOCK_RESUME : CHARL__LOCK_START, .step = t->replica.step};
    if (t->resumes) {
        CHARL_TRY(read_lock(t));
        if (charl__trainer_has_ended(t)) {
            return CHARL_OK;
        }
        CHARL_TRY(describe_checkpoint(t->resumed, line));
    }
    CHARL_TRY(charl_config_print(t->config, false, &config));
    snprintf(line->value[CHARL__LOCK_VERSION], sizeof line->value[0], "%s", charl_version());
    charl__hash_kernels(line->value[CHARL__LOCK_KERNELS]);
    charl__sha256_text(config, strlen(config), line->value[CHARL__LOCK_CONFIG]);
    memcpy(line->value[CHARL__LOCK_DATA], t->session.data.content_id, CHARL__SHA256_TEXT);
    return CHARL_OK;
}

/* The step of the start or resumption that the next line continues. */
static int64_t begun_at(const charl__lock *lock)
{
    const int64_t i = charl__lock_start_of(lock, lock->count - 1);

    return i >= 0 ? lock->line[i].step : 0;
}

/* A copy in memory has no line in run.lock until a run resumes from it. */
static charl_status record_copy(charl__trainer *t)
{
    const char *dir = t->config->run.output_dir;
    const charl__lock_line *last = t->lock.count > 0 ? &t->lock.line[t->lock.count - 1] : NULL;
    charl__lock_line line = t->lock_start;

    if (!t->from_copy || !last ||
        (last->kind == CHARL__LOCK_CHECKPOINT && last->step == line.step && !charl__lock_difference(last, &line))) {
        return CHARL_OK;
    }
    line.kind = CHARL__LOCK_CHECKPOINT;
    CHARL_TRY(charl__metrics_digest_file(dir, begun_at(&t->lock), line.step, line.value[CHARL__LOCK_METRICS]));
    return charl__lock_append(NULL, &t->lock, &line); /* written with the line of the start, in one piece */
}

charl_status charl__trainer_record_start(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    charl__lock_history history = {0};
    charl__text wrong = {0};

    CHARL_TRY_CLEANUP(record_copy(t));
    CHARL_TRY_CLEANUP(charl__lock_append(t->config->run.output_dir, &t->lock, &t->lock_start));
    CHARL_TRY_CLEANUP(charl__lock_trace(&t->lock, &history, &wrong));
    charl__session_warn_lines(&t->session, charl__text_string(&wrong));
cleanup:
    charl_free(history.line);
    charl__text_fini(&wrong);
    return st;
}

/* What is done once is done with the next save, which notes it: a start before that does it again. */
static charl_status note_once(charl__trainer *t)
{
    const charl__once before = t->once;

    if (t->goes_back || !t->resumes) {
        charl__once_set_from(&t->once, t->goes_back ? t->config->run.resume : NULL, t->resumed_step);
    }
    CHARL_TRY(charl__once_set_jobs(&t->once, t->options->job));
    t->notes_once = memcmp(&before, &t->once, sizeof before) != 0;
    return CHARL_OK;
}

/* Exports in a format that checkpoint.export no longer names would stay as they are, and soon be those of an older step. */
static void drop_exports(charl__trainer *t)
{
    char text[256];
    int dropped = 0;

    if (t->exported[0] && strcmp(t->exported, t->config->checkpoint.export_format) != 0) {
        if (charl__rundir_drop_exports(t->config->run.output_dir, t->exported, &dropped) != CHARL_OK) {
            charl__trainer_warn(t, charl_error_message());
        }
        if (dropped > 0) {
            snprintf(
                text, sizeof text,
                "checkpoint.export is %s (was %s): last.%s and best.%s, which would no longer be kept up to date, are "
                "removed",
                t->config->checkpoint.export_format, t->exported, t->exported, t->exported);
            charl__trainer_warn(t, text);
        }
    }
}

/* Make the run directory belong to this run. */
static charl_status claim_rundir(charl__trainer *t)
{
    const char *dir = t->config->run.output_dir;

    if (!t->resumes && t->overwrites) { /* what the run starts from stays until its first save, when it is renamed */
        t->supersedes = t->session.origin && is_in_rundir(t->session.origin, dir);
        CHARL_TRY(charl__rundir_clear(dir, t->supersedes ? t->session.origin : NULL));
    }
    if (strcmp(t->run_id, t->run_dir_id) == 0) {
        drop_exports(t);
    }
    if (!t->resumes && t->session.origin) {
        keep_base(t);
    }
    if (strcmp(t->run_id, t->run_dir_id) != 0) {
        CHARL_TRY(charl__rundir_write_id(dir, t->run_id));
    }
    CHARL_TRY(note_once(t));
    return begin_lock(t);
}

/* Add the trainer's counters to the facts that the ranks compare. */
static charl_status add_counters(const charl__trainer *t, charl__consensus *facts)
{
    const charl__fact form = charl__rank_check_form(t->session.origin);
    const charl_tensor *dynamic = charl__steps_scale(t->replica.steps);
    float scale = 1.0F;

    CHARL_TRY(charl__consensus_print(facts, &form, "step", "%" PRId64, t->replica.step));
    CHARL_TRY(isnan(t->best.metric) ? charl__consensus_print(facts, &form, "best metric", "none")
                                    : charl__consensus_print(facts, &form, "best metric", "%.17g", t->best.metric));
    CHARL_TRY(charl__consensus_print(facts, &form, "evaluations since the best", "%" PRId64, t->evals - t->best.evals));
    CHARL_TRY(charl__consensus_print(facts, &form, "skipped steps", "%" PRId64, t->nonfinite.skipped));
    CHARL_TRY(charl__consensus_print(facts, &form, "spikes", "%" PRId64, t->nonfinite.spikes));
    CHARL_TRY(charl__consensus_print(facts, &form, "contents of the checkpoint", "%016" PRIx64, t->resumed_digest));
    CHARL_TRY(charl__consensus_print(facts, &form, "run id", "%s", t->run_id));
    CHARL_TRY(charl__consensus_print(facts, &form, "optimizer steps", "%" PRId64,
                                     charl_optimizer_get_steps(t->replica.optimizer)));
    if (dynamic) {
        CHARL_TRY(charl_tensor_read(dynamic, &scale, sizeof scale));
        CHARL_TRY(charl__consensus_print(facts, &form, "loss scale", "%.9g", (double)scale));
    }
    return CHARL_OK;
}

/* The step of the best checkpoint if it is in the run directory, and not one of another run with the same step; else -1. */
static charl_status look_for_best(const charl__trainer *t, int64_t *out)
{
    const char *dir = t->config->run.output_dir;
    const bool is_other_run = t->run_dir_id[0] && strcmp(t->run_id, t->run_dir_id) != 0;
    int64_t step = t->recorded_best;
    CHARL_SCOPED_FREE char *path = NULL;

    *out = -1;
    if (step == 0) { /* a checkpoint of an older version, which did not store it */
        step = charl__run_linked(dir, "best.h5");
    }
    if (step >= 0 && step <= t->resumed_step && !is_other_run) {
        CHARL_TRY(charl__run_path(dir, step, &path));
        *out = access(path, F_OK) == 0 ? step : -1;
    }
    return CHARL_OK;
}

/* Set recorded_best, by the directory as rank 0 has it, and best.step. Without the best checkpoint, training looks for a new one. */
static charl_status find_best(charl__trainer *t)
{
    const int64_t was = t->recorded_best;
    charl_status st = CHARL_OK;
    char text[4200], which[64] = "";

    if (t->resumes && t->writes) {
        if (charl_comm_rank(t->comm) == 0) {
            st = look_for_best(t, &t->recorded_best);
        }
        CHARL_TRY(charl_comm_agree(t->comm, st));
        CHARL_TRY(charl_comm_broadcast(t->comm, &t->recorded_best, sizeof t->recorded_best, 0));
        t->best.step = isnan(t->best.metric) ? -1 : t->recorded_best;
    }
    if (!isnan(t->best.metric) && t->best.step < 0 && t->writes) {
        if (was > 0) {
            snprintf(which, sizeof which, ", of step %" PRId64 ",", was);
        }
        snprintf(text, sizeof text, "the best checkpoint%s is not in %s: training looks for a new best checkpoint",
                 which, t->config->run.output_dir);
        if (charl_comm_rank(t->comm) == 0) {
            charl__trainer_warn(t, text);
        }
        t->new_best = true;
        t->best = charl__best_none;
    }
    t->kept = t->best;
    return CHARL_OK;
}

static void mark(void *comm)
{
    charl_comm_mark(comm, 0, NULL);
}

/* Complete the save of the checkpoint that is resumed, which may have been cut short. A failure is only a warning. */
static void finish(charl__trainer *t)
{
    const charl__rundir_plan plan = charl__trainer_rundir_plan(t, t->resumed_step, t->recorded_best);
    charl__text warnings = {0};

    charl__progress_set(mark, t->comm);
    charl__rundir_update(t->config->run.output_dir, &plan, &warnings);
    charl__progress_set(NULL, NULL);
    charl__session_warn_lines(&t->session, charl__text_string(&warnings));
    charl__text_fini(&warnings);
}

charl_status charl__trainer_resume(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    charl__consensus facts = {0};

    st = charl__phase_enter(t->comm, 0, CHARL__PHASE_RESUME, t->session.params);
    CHARL_TRY_CLEANUP(charl_comm_agree(t->comm, st));
    st = t->resumes ? restore(t, t->session.origin) : start_afresh(t);
    st = st == CHARL_OK ? add_counters(t, &facts) : st;
    CHARL_TRY_CLEANUP(charl__rank_check_state(&t->replica, &facts, t->session.origin, st));
    t->replica.dp->step = (uint64_t)t->replica.step;
    CHARL_TRY_CLEANUP(find_best(t));
    if (!t->from_copy) {
        charl__trainer_drop_copies(t); /* of what this run does not continue */
    }
    /* Only after the initial weights have been read: they may be in the run directory. */
    if (t->writes && charl_comm_rank(t->comm) == 0) {
        st = claim_rundir(t);
        if (st == CHARL_OK && t->resumes && !t->supersedes && !t->from_copy) {
            finish(t);
        }
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(t->comm, st));
    charl_comm_set_timeout(t->comm, t->config->dist.timeout_s);
cleanup:
    charl__consensus_fini(&facts);
    return st;
}

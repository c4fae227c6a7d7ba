/* Steps computed again: a trainer that writes nothing, on the whole batch, asked after every step. */
#include "train/replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "autograd/graph.h"
#include "base/alloc.h"
#include "base/options.h"
#include "config/config_rows.h"
#include "config/diff.h"
#include "files/run.h"
#include "files/run_lock.h"
#include "io/commit.h"
#include "io/kind.h"
#include "io/regular.h"
#include "io/scoped.h"
#include "task/weights/weights_base.h"
#include "train/metrics/metrics_async.h"
#include "train/snapshot.h"
#include "train/checksums.h"
#include "train/rundir.h"
#include "train/trainer.h"

enum { TEXT_BYTES = 1600, LARGEST_CONFIG = 1 << 26 };

typedef struct replay {
    const char *run; /* directory */
    bool is_config;  /* or a configuration */
    const charl_replay_options *options;
    charl__replay_variant variant;
    int64_t until;

    charl_team *team;
    charl_comm *comm;
    charl_config *config;
    char *source;               /* the file that config is from */
    char *content;              /* of the data, as that or run.lock says; NULL: not known */
    charl__text resolved, text; /* config before overrides, with all keys; and as it was given, where it is known */
    charl__lock_line *recorded; /* [n_recorded] what run.lock records of the checkpoints of the run; NULL: not known */
    int64_t n_recorded;
    char *start; /* checkpoint, or NULL */
    int64_t start_step;
    charl_train_options train;

    charl__replay_request replaying;
    charl__trainer trainer;
    charl__metrics_async log;
    charl__throughput throughput;
    float scale; /* loss scale of the step */

    charl_step_rows *rows;
    float *losses;
    charl_replay_tensor *weights, *gradients; /* [number of parameters] */
    char differs[640], tensors[CHARL__SHA256_TEXT];
    charl__text checksums;
    int64_t bad_step; /* first one reported that was not finite; 0: none */
} replay;

/* Whether checkpoints are written. */
static bool writes(const replay *r)
{
    return r->options->checkpoint || r->variant.folder;
}

/* What run.lock records of a step; NULL: nothing. */
static const charl__lock_line *record_of(const replay *r, int64_t step)
{
    for (int64_t i = 0; i < r->n_recorded; i++) {
        if (r->recorded[i].step == step) {
            return &r->recorded[i];
        }
    }
    return NULL;
}

static void warn(const replay *r, const char *text)
{
    if (r->options->warned && text && text[0]) {
        r->options->warned(r->options->ctx, text);
    }
}

/* The configuration in the file config.ini of the run, its last start; or that is given in the place of a run. */
static charl_status load_config(replay *r)
{
    CHARL_TRY(r->is_config ? charl__strdup(r->run, &r->source) : charl__commit_join(r->run, "config.ini", &r->source));
    CHARL_REQUIRE(access(r->source, R_OK) == 0, CHARL_ERR_CHECKPOINT,
                  "%s has neither a checkpoint of step %" PRId64 " or later nor a config.ini: is it a run directory?",
                  r->run, r->options->step);
    CHARL_TRY(charl__regular_read_all(r->source, LARGEST_CONFIG, &r->resolved));
    return charl_config_load(r->source, r->options->overrides, r->options->n_overrides, &r->config);
}

/* The configuration and the data of the checkpoint of `step`. */
static charl_status read_config(replay *r, int64_t step)
{
    CHARL_SCOPED_FREE char *path = NULL;
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *reader = NULL;
    const charl_checkpoint_state *state;
    const char *text;

    CHARL_TRY(charl__run_path(r->run, step, &path));
    CHARL_TRY(charl_checkpoint_open(path, &reader));
    text = charl_checkpoint_get_info(reader).config_resolved;
    state = charl_checkpoint_get_info(reader).state;
    CHARL_TRY(charl_config_parse(path, text, strlen(text), r->options->overrides, r->options->n_overrides, &r->config));
    CHARL_TRY(charl__text_printf(&r->resolved, "%s", text));
    CHARL_TRY(charl__text_printf(&r->text, "%s", charl_checkpoint_get_info(reader).config_text));
    CHARL_TRY(charl__strdup(path, &r->source));
    CHARL_TRY(charl__strdup(state->data_content_id, &r->content));
    if (strcmp(r->config->dist.allreduce, "mpi") == 0 && state->world_size > 1) {
        warn(r, "dist.allreduce = mpi sums in an order that depends on the number of ranks: this replay, on one rank, "
                "differs by roundings");
    }
    return CHARL_OK;
}

/* The configuration that the steps up to the next checkpoint were trained with: what that checkpoint says. */
static charl_status find_config(replay *r)
{
    charl_status st = CHARL_OK;
    charl__run_steps list = {0};
    int64_t i = 0;

    CHARL_TRY_CLEANUP(r->is_config ? CHARL_OK : charl__run_list(r->run, &list));
    while (i < list.count && list.steps[i] < r->options->step) {
        i++;
    }
    st = i < list.count ? read_config(r, list.steps[i]) : CHARL_OK;
    if (st == CHARL_ERR_CHECKPOINT) { /* damaged */
        warn(r, charl_error_message());
    }
    if (!r->config) {
        st = st == CHARL_OK || st == CHARL_ERR_CHECKPOINT ? load_config(r) : st;
    }
cleanup:
    charl_free(list.steps);
    return st;
}

/* A run that began at a checkpoint of another one, by run.resume = FILE. */
static charl_status start_elsewhere(replay *r)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *reader = NULL;

    CHARL_TRY(charl_run_checkpoint(r->config->run.resume, &r->start));
    CHARL_TRY(charl_checkpoint_open(r->start, &reader));
    r->start_step = charl_checkpoint_get_info(reader).state->step;
    CHARL_REQUIRE(r->start_step < r->options->step, CHARL_ERR_CHECKPOINT,
                  "the run begins after step %" PRId64 ", with %s (run.resume)", r->start_step, r->start);
    return CHARL_OK;
}

/* The newest checkpoint before the first step. */
static charl_status find_start(replay *r)
{
    const charl_replay_options *o = r->options;
    const char *resume = r->config->run.resume;
    const int64_t before = o->after > 0 && o->after < o->step ? o->after + 1 : o->step;
    CHARL_SCOPED(charl__run_found_fini) charl__run_found found = {0};

    if (!o->from_start && !r->is_config) {
        CHARL_TRY(charl__run_find(r->run, before, &found));
        warn(r, found.warning);
    }
    if (found.path) {
        CHARL_TRY(charl__strdup(found.path, &r->start));
        r->start_step = found.step;
    } else if (strcmp(resume, "auto") != 0 && strcmp(resume, "must") != 0 && strcmp(resume, "never") != 0) {
        CHARL_TRY(start_elsewhere(r));
    }
    return CHARL_OK;
}

/* Whether the steps from the start of the replay to `until` were trained with the same settings and data. The line of a start is of the steps after
 * its own, up to the first that a later line resumes from. */
static charl_status check_starts(replay *r, const charl__lock *lock)
{
    char hash[CHARL__SHA256_TEXT];
    int64_t end = r->until;

    charl__sha256_text(charl__text_string(&r->resolved), r->resolved.length, hash);
    for (int64_t i = lock->count - 1; i >= 0; i--) {
        const charl__lock_line *line = &lock->line[i];

        if (line->kind == CHARL__LOCK_CHECKPOINT || line->step >= end) {
            continue;
        }
        if (end > r->start_step) {
            CHARL_REQUIRE(strcmp(line->value[CHARL__LOCK_CONFIG], hash) == 0, CHARL_ERR_CHECKPOINT,
                          "step %" PRId64 " cannot be computed: the settings of step %" PRId64
                          " are not kept, and %s has others",
                          r->until, end, r->source);
            CHARL_REQUIRE(!r->content || strcmp(line->value[CHARL__LOCK_DATA], r->content) == 0, CHARL_ERR_CHECKPOINT,
                          "step %" PRId64
                          " cannot be computed: the run was resumed with other data after step %" PRId64,
                          r->until, r->start_step);
            CHARL_TRY(r->content ? CHARL_OK : charl__strdup(line->value[CHARL__LOCK_DATA], &r->content));
        }
        end = line->step;
    }
    return CHARL_OK;
}

/* What run.lock records of the checkpoints of the run, and of the steps that are computed. A run of an older version has no such file. */
static charl_status read_lock(replay *r)
{
    charl_status st = CHARL_OK;
    charl__lock lock = {0};
    charl__lock_history history = {0};
    charl__text wrong = {0};

    st = charl__lock_read(r->run, &lock, &wrong);
    if (st == CHARL_ERR_CHECKPOINT) {
        warn(r, charl_error_message());
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(charl__lock_trace(&lock, &history, &wrong));
    CHARL_TRY_CLEANUP(charl__alloc_array(history.count + 1, sizeof *r->recorded, &r->recorded));
    while (r->n_recorded < history.count) {
        r->recorded[r->n_recorded] = lock.line[history.line[r->n_recorded]];
        r->n_recorded++;
    }
    CHARL_REQUIRE_CLEANUP(wrong.length == 0, CHARL_ERR_CHECKPOINT,
                          "%.*s; HINT `charl verify %s` names all that differs",
                          (int)strcspn(charl__text_string(&wrong), "\n"), charl__text_string(&wrong), r->run);
    CHARL_TRY_CLEANUP(check_starts(r, &lock));
cleanup:
    charl_free(history.line);
    charl__text_fini(&wrong);
    charl__lock_fini(&lock);
    return st;
}

/* A checkpoint among those of the run must be one that run.lock records, if there is one. */
static charl_status check_place(const replay *r)
{
    CHARL_SCOPED_FREE char *own = NULL, *folder = NULL, *ours = NULL, *lock = NULL;
    struct stat x, y;

    CHARL_TRY(charl__run_path(r->run, r->until, &own));
    CHARL_TRY(charl__commit_dir(own, &folder));
    CHARL_TRY(charl__commit_dir(r->options->checkpoint, &ours));
    CHARL_TRY(charl__commit_join(r->run, CHARL__LOCK_FILE, &lock));
    CHARL_REQUIRE(record_of(r, r->until) || access(lock, F_OK) != 0 || stat(folder, &x) != 0 || stat(ours, &y) != 0 ||
                      x.st_dev != y.st_dev || x.st_ino != y.st_ino,
                  CHARL_ERR_CONFIG,
                  "%s does not record step %" PRId64 ", so that a checkpoint of it among those of the run is none of "
                  "the run's; HINT write it to another folder",
                  lock, r->until);
    return CHARL_OK;
}

/* Whether checkpoints can be written: with the settings of the run, and not in the place of another. */
static charl_status check_writing(replay *r)
{
    CHARL_SCOPED_FREE char *changes = NULL;
    const char *path = r->options->checkpoint;
    const int64_t named = path ? charl__run_step(charl__base_name(path)) : -1;
    unsigned found;

    if (r->variant.changes) { /* of one configuration of the run all the same */
        CHARL_TRY(r->is_config ? CHARL_OK : read_lock(r));
        r->n_recorded = 0;
        return CHARL_OK;
    }
    CHARL_REQUIRE(named < 0 || named == r->until, CHARL_ERR_CONFIG,
                  "%s is the name of a checkpoint of step %" PRId64 ", not of step %" PRId64, path, named, r->until);
    CHARL_TRY(charl__config_diff(r->config, charl__text_string(&r->resolved), CHARL__CHANGE_RESULT, &found, &changes));
    CHARL_REQUIRE(!changes[0], CHARL_ERR_CONFIG,
                  "other settings than those of the run give a checkpoint of another training: %.*s",
                  (int)strcspn(changes, "\n"), changes);
    if (r->config->eval.interval.unit == CHARL__INTERVAL_SECONDS) {
        warn(r, "eval.interval is in seconds: when the run evaluated is not known, and the best evaluation in the "
                "checkpoint is that of the one before it");
    }
    CHARL_TRY(r->is_config ? CHARL_OK : read_lock(r));
    return r->is_config || !path ? CHARL_OK : check_place(r);
}

/* Whether a file can be written at the end, and does not replace what is read. NULL: there is none. */
static charl_status check_output(const replay *r, const char *path)
{
    CHARL_SCOPED_FREE char *config = NULL, *lock = NULL;
    charl__commit c;

    if (!path) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__commit_join(r->run, "config.ini", &config));
    CHARL_TRY(charl__commit_join(r->run, CHARL__LOCK_FILE, &lock));
    CHARL_TRY(charl__commit_check_inputs(
        path, (const char *const[]){r->source, r->start, r->config->data.path, config, lock}, 5));
    CHARL_TRY(charl__commit_begin(path, &c));
    charl__commit_fini(&c);
    return CHARL_OK;
}

static charl_status create_comm(replay *r)
{
    CHARL_TRY(charl_team_create(1, &r->team));
    CHARL_TRY(charl_comm_create(&(charl_comm_options){sizeof(charl_comm_options), .team = r->team}, &r->comm));
    return CHARL_OK;
}

static charl_status plan(replay *r)
{
    const charl_replay_options *o = r->options;

    charl_slices slices;

    CHARL_REQUIRE(r->until != CHARL_REPLAY_END || !o->checkpoint, CHARL_ERR_INVALID,
                  "charl_replay_options.checkpoint is of a step, not of CHARL_REPLAY_END");
    CHARL_REQUIRE(o->step >= 1 && (r->until >= o->step || r->until == CHARL_REPLAY_END), CHARL_ERR_CONFIG,
                  "steps %" PRId64 " to %" PRId64 " cannot be replayed: steps begin at 1, and the range must ascend",
                  o->step, r->until);
    CHARL_TRY(find_config(r));
    CHARL_TRY(o->ranks > 0 ? charl_slices_block(charl__config_slices(r->config), 0, o->ranks, &slices) : CHARL_OK);
    CHARL_TRY(find_start(r));
    CHARL_TRY(writes(r) ? check_writing(r) : CHARL_OK);
    CHARL_TRY(check_output(r, o->checkpoint));
    CHARL_TRY(check_output(r, o->checksums));
    CHARL_TRY(create_comm(r));
    r->train = (charl_train_options){sizeof(charl_train_options), .comm = r->comm, .device = o->device};
    r->train.events = (charl_train_events){.ctx = o->ctx, .compiling = o->compiling, .warned = o->warned};
    return CHARL_OK;
}

/* The data of a recorded run may have moved: behind the error, how to name their place now. */
static charl_status name_data(charl_status st)
{
    if (st == CHARL_ERR_DATA || st == CHARL_ERR_IO) {
        charl__error_append("; HINT if the data have moved, add data.path=FILE to this command");
    }
    return st;
}

/* A trainer at the start of the replay. */
static charl_status open_trainer(replay *r, bool checkable)
{
    charl__trainer *t = &r->trainer;

    r->replaying = (charl__replay_request){.checkpoint = r->start, .losses = r->losses, .checkable = checkable};
    r->replaying.evaluates =
        r->variant.evaluates && writes(r) && r->config->eval.interval.unit != CHARL__INTERVAL_SECONDS;
    CHARL_TRY(name_data(charl__trainer_init(t, r->config, &r->train, &r->replaying)));
    r->until = r->until == CHARL_REPLAY_END ? t->total_steps : r->until;
    CHARL_REQUIRE(r->until <= t->total_steps, CHARL_ERR_CONFIG,
                  "the run has %" PRId64 " steps, there is no step %" PRId64, t->total_steps, r->until);
    CHARL_TRY(charl__trainer_resume(t));
    t->best.step = isnan(t->best.metric) ? -1 : t->recorded_best;
    CHARL_TRY(charl__metrics_async_open(t, &r->log));
    CHARL_TRY(charl__nonfinite_open(t));
    CHARL_TRY(charl__device_loader_seek(t->replica.train_loader, t->replica.step));
    r->throughput = (charl__throughput){0};
    charl__throughput_start(t, &r->throughput);
    return CHARL_OK;
}

static void close_trainer(replay *r)
{
    charl__metrics_async_close(&r->log);
    charl__nonfinite_close(&r->trainer);
    charl__trainer_fini(&r->trainer);
}

/* The next step, done. r->log.row has its numbers, also when it was not finite. */
static charl_status run_step(replay *r)
{
    charl__trainer *t = &r->trainer;

    CHARL_REQUIRE(!writes(r) || !r->variant.evaluates || !charl__trainer_is_over(t), CHARL_ERR_CONFIG,
                  "the run has no step %" PRId64 ": early stopping ended it after step %" PRId64, r->until,
                  t->replica.step);
    CHARL_TRY(charl_steps_get_loss_scale(t->replica.steps, &r->scale)); /* the step may change it */
    CHARL_TRY(charl__trainer_step(t));
    r->throughput.steps++;
    CHARL_TRY(charl__metrics_async_begin(t, &r->log, &r->throughput));
    return charl__metrics_async_end(t, &r->log, &r->throughput);
}

static charl_replay_tensor describe(const char *name, const float *values, int64_t n, double scale)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    return (charl_replay_tensor){.name = name,
                                 .count = n,
                                 .crc32c = charl__crc32c(0, values, (size_t)n * sizeof *values),
                                 .norm = sqrt(sum) / scale};
}

/* The weights in s into r->weights; hash gets their digest. Returns their number. */
static int describe_weights(replay *r, const charl__state *s, char hash[CHARL__SHA256_TEXT])
{
    unsigned char digest[CHARL__SHA256_BYTES];
    charl__sha256 sha;
    int count = 0;

    charl__sha256_init(&sha);
    for (int64_t i = 0; i < s->n; i++) {
        const charl_checkpoint_tensor *t = &s->tensor[i];
        const int64_t n = charl_shape_count(&t->shape);

        if (strcmp(t->group, "model") == 0) {
            charl__sha256_update(&sha, t->name, strlen(t->name) + 1);
            charl__sha256_update(&sha, t->data, (size_t)n * sizeof(float));
            r->weights[count++] = describe(t->name, t->data, n, 1);
        }
    }
    charl__sha256_final(&sha, digest);
    charl__sha256_format(digest, hash);
    return count;
}

static charl_status add_gradients(replay *r, charl_replay_row *row)
{
    const charl_params *params = r->trainer.session.params;
    CHARL_SCOPED_FREE float *values = NULL;

    for (int i = 0; i < charl_params_get_count(params); i++) {
        const charl_param *p = charl_params_get(params, i);
        const charl_param_spec *spec = charl_param_get_spec(p);
        const int64_t n = charl_shape_count(&spec->shape);

        if (spec->trainable) {
            CHARL_TRY(charl__alloc_array(n, sizeof *values, &values));
            CHARL_TRY(charl_param_read_gradient(p, values));
            r->gradients[row->n_gradients++] = describe(spec->name, values, n, (double)r->scale);
            charl_free(values);
            values = NULL;
        }
    }
    row->gradients = r->gradients;
    return CHARL_OK;
}

/* Whether the file has the values of t; where it leaves a packed parameter to its base, the values that were packed. */
static charl_status is_recorded(const replay *r, charl_checkpoint_reader *reader, const charl_checkpoint_tensor *t,
                                bool *same)
{
    const charl_checkpoint_tensor *stored = charl_checkpoint_find(reader, t->group, t->name);
    const charl_param *p = charl_params_find(r->trainer.session.params, t->name);
    const int64_t n = charl_shape_count(&t->shape);
    const size_t size = charl_dtype_size(t->dtype);
    CHARL_SCOPED_FREE char *values = NULL;

    *same = false;
    if (stored && p && p->codes && charl_checkpoint_is_in_base(reader, stored)) {
        *same = stored->crc32c == p->source_crc32c;
    } else if (stored && stored->dtype == t->dtype && charl_shape_equal(&stored->shape, &t->shape)) {
        CHARL_TRY(charl__alloc_array(n, size, &values));
        CHARL_TRY(charl_checkpoint_read(reader, stored, values));
        *same = memcmp(values, t->data, (size_t)n * size) == 0;
    }
    return CHARL_OK;
}

static charl_status compare(replay *r, const char *path, const charl__state *s, charl_replay_row *row)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *reader = NULL;
    bool same = true;

    CHARL_TRY_CLEANUP(charl__weights_open(path, charl__config_init_from(r->config), &reader));
    for (int64_t i = 0; i < s->n && same; i++) {
        CHARL_TRY_CLEANUP(is_recorded(r, reader, &s->tensor[i], &same));
        if (!same) {
            snprintf(r->differs, sizeof r->differs, "%s/%s", s->tensor[i].group, s->tensor[i].name);
            row->differs = r->differs;
        }
    }
    row->recorded = same ? CHARL_REPLAY_SAME : CHARL_REPLAY_DIFFERS;
cleanup:
    charl_checkpoint_close(reader);
    if (st == CHARL_ERR_CHECKPOINT) { /* damaged: nothing to compare with */
        warn(r, charl_error_message());
        st = CHARL_OK;
    }
    return st;
}

/* The state after the step, compared with what the run has of it. */
static charl_status add_state(replay *r, charl_replay_row *row)
{
    CHARL_SCOPED(charl__state_fini) charl__state s = {.keeps = true};
    CHARL_SCOPED_FREE char *path = NULL;
    struct stat saved, written;
    bool is_saved;

    CHARL_TRY(charl__run_path(r->run, row->step, &path));
    is_saved = stat(path, &saved) == 0;
    if (is_saved && r->options->checkpoint && stat(r->options->checkpoint, &written) == 0) { /* just now */
        is_saved = saved.st_dev != written.st_dev || saved.st_ino != written.st_ino;
    }
    CHARL_TRY(charl__snapshot_copy(&r->trainer.replica, !is_saved && !r->options->tensors, &s));
    if (is_saved) {
        CHARL_TRY(compare(r, path, &s, row));
    }
    row->weights = r->weights;
    row->n_weights = describe_weights(r, &s, row->hash); /* with names of the snapshot */
    if (r->options->tensors) {
        if (charl__leaves_base(r->config)) {
            charl__state_leave_base(&s);
        }
        CHARL_TRY(charl__lock_tensors(s.tensor, NULL, s.n, r->tensors));
    }
    if (r->options->checksums) {
        CHARL_TRY(charl__checksums_row(&r->checksums, row));
    }
    if (r->options->replayed) {
        CHARL_TRY(r->options->replayed(r->options->ctx, row));
    }
    return CHARL_OK;
}

/* The checkpoint that the run would have written now. */
static charl_status write_checkpoint(replay *r, charl_replay_row *row)
{
    charl__trainer *t = &r->trainer;
    const charl__lock_line *recorded = record_of(r, row->step);
    CHARL_SCOPED_FREE char *path = NULL;
    char run_id[33];

    CHARL_TRY(r->variant.folder ? charl__run_path(r->variant.folder, row->step, &path)
                                : charl__strdup(r->options->checkpoint, &path));
    charl__rundir_read_id(r->run, run_id);
    if (run_id[0]) {
        memcpy(t->run_id, run_id, sizeof t->run_id);
    }
    CHARL_TRY(
        charl__trainer_write(t, charl__text_string(r->text.length > 0 ? &r->text : &r->resolved), recorded, path));
    row->recorded = recorded ? CHARL_REPLAY_SAME : row->recorded;
    return CHARL_OK;
}

static charl_status report(replay *r, bool skipped)
{
    const charl_replay_options *o = r->options;
    const charl_train_row *logged = &r->log.row;
    charl_replay_row row = {.step = logged->step,
                            .loss = logged->loss,
                            .lr = logged->lr,
                            .grad_norm = logged->grad_norm,
                            .skipped = skipped,
                            .tensors = r->tensors,
                            .losses = r->losses,
                            .differs = ""};

    if (o->grads || o->checksums) {
        CHARL_TRY(add_gradients(r, &row));
    }
    if (r->losses) {
        CHARL_TRY(charl_step_rows_create(r->config, row.step, &r->rows));
        row.rows = r->rows;
    }
    if (r->variant.folder || (o->checkpoint && row.step == r->until)) {
        CHARL_TRY(write_checkpoint(r, &row));
    }
    CHARL_TRY(add_state(r, &row));
    charl_step_rows_destroy(r->rows);
    r->rows = NULL;
    return CHARL_OK;
}

static bool is_wanted(const replay *r, int64_t step)
{
    const charl_replay_options *o = r->options;
    int64_t i = 0;

    while (i < o->n_only && o->only[i] < step) {
        i++;
    }
    return (o->checkpoint && step == r->until) ||
           (step >= o->step && (!o->only || (i < o->n_only && o->only[i] == step)));
}

/* Up to the last step, or the first that ends the training. */
static charl_status run_steps(replay *r)
{
    charl__trainer *t = &r->trainer;

    while (t->replica.step < r->until) {
        const int64_t left_out = charl__nonfinite_left_out(t), skipped = t->nonfinite.skipped;
        charl_status st = run_step(r), reported = CHARL_OK;
        const bool is_bad = st == CHARL_ERR_NONFINITE || t->nonfinite.skipped > skipped || !isfinite(r->log.row.loss);
        char why[TEXT_BYTES];

        if (st != CHARL_OK && st != CHARL_ERR_NONFINITE) {
            return st;
        }
        snprintf(why, sizeof why, "%s", st == CHARL_OK ? "" : charl_error_message());
        if (is_bad && r->bad_step == 0 && t->replica.step >= r->options->step) {
            r->bad_step = t->replica.step;
        }
        if (writes(r) && r->variant.evaluates) { /* it holds the best evaluation, which may also end the run */
            CHARL_TRY(st);
            CHARL_TRY(charl__trainer_evaluate(t));
        }
        if (is_wanted(r, t->replica.step)) {
            reported = report(r, charl__nonfinite_left_out(t) > left_out);
        }
        CHARL_TRY(reported);
        CHARL_REQUIRE(st == CHARL_OK, CHARL_ERR_NONFINITE, "%s", why);
    }
    return CHARL_OK;
}

/* The buffers of the rows, whose sizes the model and the batch decide. */
static charl_status create_buffers(replay *r)
{
    const int64_t n = charl_params_get_count(r->trainer.session.params);

    CHARL_TRY(charl__alloc_array(n, sizeof *r->weights, &r->weights));
    CHARL_TRY(charl__alloc_array(n, sizeof *r->gradients, &r->gradients));
    return CHARL_OK;
}

static charl_status begin(replay *r)
{
    CHARL_SCOPED(charl__state_fini) charl__state s = {.keeps = true};
    charl_replay_start start = {.step = r->trainer.replica.step,
                                .checkpoint = r->start ? r->start : "",
                                .device = charl_device_get_info(r->trainer.session.dev),
                                .weights = r->weights};
    const char *now = r->trainer.session.data.content_id;
    char text[TEXT_BYTES], hash[CHARL__SHA256_TEXT];

    CHARL_TRY(charl__snapshot_copy(&r->trainer.replica, true, &s));
    start.n_weights = describe_weights(r, &s, hash);
    CHARL_REQUIRE(!writes(r) || !r->content || strcmp(r->content, now) == 0, CHARL_ERR_DATA,
                  "%s is not the data that step %" PRId64 " was trained on; HINT data.path=FILE names them, if they "
                  "are elsewhere now",
                  r->trainer.session.data.path, r->until);
    if (!r->start && r->content && strcmp(r->content, now) != 0) { /* else the trainer has warned */
        snprintf(text, sizeof text,
                 "%s is not the data that the run was trained on: a replay with it is another training",
                 r->trainer.session.data.path);
        warn(r, text);
    }
    if (r->options->checksums) {
        CHARL_TRY(charl__checksums_start(&r->checksums, &start));
    }
    if (r->options->started) {
        CHARL_TRY(r->options->started(r->options->ctx, &start));
    }
    return CHARL_OK;
}

/* Which operator it was: the bad step again, operator by operator. */
static charl_status locate(replay *r)
{
    charl__replica *replica = &r->trainer.replica;
    char text[TEXT_BYTES];
    charl_status st;

    r->train.events.warned = NULL; /* it has been said */
    CHARL_TRY(open_trainer(r, true));
    while (replica->step < r->bad_step - 1) {
        CHARL_TRY(run_step(r));
    }
    for (int k = 0; k < charl__data_parallel_shapes(replica->dp); k++) {
        charl__graph_check(replica->train[k].g, true);
    }
    st = charl__trainer_step(&r->trainer);
    if (st == CHARL_ERR_NONFINITE) {
        snprintf(text, sizeof text, "%s", charl_error_message());
    } else {
        CHARL_TRY(st);
        snprintf(text, sizeof text, "every operator's output is finite: only a sum over the batch is not");
    }
    return r->options->located(r->options->ctx, r->bad_step, text);
}

static charl_status replay_all(replay *r)
{
    charl_status st = CHARL_OK, located = CHARL_OK;
    char why[TEXT_BYTES];

    CHARL_TRY(plan(r));
    if (r->options->samples || r->options->checksums) {
        CHARL_TRY(charl__alloc_array(r->config->train.batch_size, sizeof *r->losses, &r->losses));
    }
    CHARL_TRY(open_trainer(r, false));
    CHARL_TRY(create_buffers(r));
    CHARL_TRY(begin(r));
    st = run_steps(r);
    if (r->options->checksums && (st == CHARL_OK || st == CHARL_ERR_NONFINITE)) {
        CHARL_TRY(charl__text_printf(&r->checksums, CHARL__CHECKSUMS_END));
        CHARL_TRY(charl__commit_bytes(r->options->checksums, charl__text_string(&r->checksums), r->checksums.length));
    }
    if (r->bad_step > 0 && r->options->located && (st == CHARL_OK || st == CHARL_ERR_NONFINITE)) {
        snprintf(why, sizeof why, "%s", st == CHARL_OK ? "" : charl_error_message());
        close_trainer(r);
        located = locate(r);
        CHARL_TRY(located);
        CHARL_REQUIRE(st == CHARL_OK, CHARL_ERR_NONFINITE, "%s", why);
    }
    return st;
}

charl_status charl__replay_open_data(charl__session *s)
{
    return name_data(charl__session_open_data(s, CHARL_SPLIT_TRAIN));
}

/* What is known of r->config. */
static void forget_config(replay *r)
{
    charl_free(r->source);
    charl_free(r->content);
    charl__text_fini(&r->resolved);
    charl__text_fini(&r->text);
}

static bool is_config(const char *path)
{
    const charl__kind *kind = charl__kind_of(path);

    return kind && (kind->as & CHARL__KIND_CONFIG);
}

charl_status charl__replay_config(const char *run, int64_t step, const charl_config_override *overrides,
                                  int n_overrides, charl_config **out)
{
    const charl_replay_options options = {sizeof options, .step = step, .overrides = overrides,
                                          .n_overrides = n_overrides};
    replay r = {.run = run, .is_config = is_config(run), .options = &options};
    const charl_status st = step == CHARL__REPLAY_LAST_START ? load_config(&r) : find_config(&r);

    forget_config(&r);
    *out = r.config;
    return st;
}

charl_status charl__replay_variant_of(const char *run, const charl_replay_options *options,
                                      const charl__replay_variant *variant)
{
    replay r = {.run = run,
                .is_config = is_config(run),
                .options = options,
                .variant = *variant,
                .until = options->until != 0 ? options->until : options->step};
    const charl_status st =
        charl__kind_explain(replay_all(&r), run, CHARL__KIND_RUN | CHARL__KIND_FOLDER | CHARL__KIND_CONFIG,
                            "a run directory", CHARL_ERR_CHECKPOINT);

    charl__text_fini(&r.checksums);
    close_trainer(&r);
    charl_step_rows_destroy(r.rows);
    charl_free(r.losses);
    charl_free(r.weights);
    charl_free(r.gradients);
    charl_comm_destroy(r.comm);
    charl_team_destroy(r.team);
    charl_config_destroy(r.config);
    forget_config(&r);
    charl_free(r.recorded);
    charl_free(r.start);
    return st;
}

charl_status charl_replay(const char *run, const charl_replay_options *options)
{
    CHARL_GIVEN(run, options);
    CHARL__OPTIONS(charl_replay_options, options);
    return charl__replay_variant_of(run, options, &(charl__replay_variant){.evaluates = true});
}

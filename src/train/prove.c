/* Proofs: what a replay of some segments needs, in one file, and its verification. A proof is unpacked to a folder that looks like a run directory in
 * which most checkpoints were deleted, and verified as one. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "base/options.h"
#include "config/config_rows.h"
#include "files/run.h"
#include "files/run_lock.h"
#include "files/temporary.h"
#include "io/commit.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/order/stream.h"
#include "io/scoped.h"
#include "train/replay.h"
#include "train/snapshot.h"
#include "train/verify.h"

enum { TEXT_BYTES = 1600, MOST_OVERRIDES = 256 };

/* The settings that name the files of an unpacked proof. */
typedef struct places {
    charl_config_override list[MOST_OVERRIDES];
    int n;
    charl__text data, init, output;
} places;

static charl_status add_place(places *p, const char *setting)
{
    CHARL_REQUIRE(p->n < MOST_OVERRIDES, CHARL_ERR_CONFIG, "more than %d settings", MOST_OVERRIDES);
    p->list[p->n++] = (charl_config_override){setting, "the proof"};
    return CHARL_OK;
}

/* data.mix with the files of the proof in the places of its sets. */
static charl_status print_mix(const charl_config *config, const char *dir, charl__text *out)
{
    for (int i = 0; i < config->data.mix.count; i++) {
        CHARL_TRY(charl__text_printf(out, "%s%s/data/%04d.h5:%.17g", i ? ", " : "data.mix=", dir, i,
                                     config->data.mix.weight[i]));
    }
    return CHARL_OK;
}

static charl_status find_places(const charl__proof *proof, const char *dir, const charl_verify_options *o, places *p)
{
    CHARL_SCOPED_FREE char *path = NULL;
    charl_config *config = NULL;
    int64_t files = 0;
    bool has_init;
    charl_status st;

    for (int i = 0; i < o->n_overrides; i++) {
        CHARL_TRY(add_place(p, o->overrides[i].text));
    }
    for (int64_t i = 0; i < proof->n_files; i++) {
        files += strncmp(proof->files[i].name, "data/", 5) == 0;
    }
    CHARL_TRY(charl__commit_join(dir, "config.ini", &path));
    CHARL_TRY(charl_config_load(path, NULL, 0, &config));
    st = config->data.mix.count > 0
             ? print_mix(config, dir, &p->data)
             : charl__text_printf(&p->data, "data.path=%s/data/%s.h5", dir, files == 1 ? "0000" : "*");
    has_init = charl__config_init_from(config) != NULL;
    charl_config_destroy(config);
    CHARL_TRY(st);
    CHARL_TRY(add_place(p, charl__text_string(&p->data)));
    CHARL_TRY(add_place(p, "run.resume=auto")); /* a segment begins where the proof says, not at another file */
    CHARL_REQUIRE(has_init || !proof->init[0], CHARL_ERR_CHECKPOINT,
                  "the proof holds weights to begin with, %s, and its config.ini has no init.from", proof->init);
    if (proof->init[0]) {
        CHARL_TRY(charl__text_printf(&p->init, "init.from=%s/%s", dir, proof->init));
        CHARL_TRY(add_place(p, charl__text_string(&p->init)));
    }
    /* Not the folder with init in it, because a run leaves no weights to a file of its own. */
    CHARL_TRY(charl__text_printf(&p->output, "run.output_dir=%s/run", dir));
    CHARL_TRY(add_place(p, charl__text_string(&p->output)));
    return add_place(p, "data.cache=none"); /* which would read all rows */
}

charl_status charl__verify_proof(const char *path, const charl_verify_options *options, charl_verify_result *result)
{
    charl_status st = CHARL_OK;
    charl__text folder = {0};
    charl__proof proof = {0};
    places p = {0};
    charl_verify_options o = *options;
    const charl__verify_request request = {.proof = &proof, .shown = path};

    *result = (charl_verify_result){0};
    CHARL_TRY_CLEANUP(charl__temporary_make(&folder));
    CHARL_TRY_CLEANUP(charl__proof_unpack(path, charl__text_string(&folder), &proof));
    CHARL_TRY_CLEANUP(find_places(&proof, charl__text_string(&folder), options, &p));
    o.overrides = p.list;
    o.n_overrides = p.n;
    CHARL_TRY_CLEANUP(charl__verify_run(charl__text_string(&folder), &o, &request, result));
cleanup:
    charl__temporary_remove(&folder);
    charl__proof_fini(&proof);
    charl__text_fini(&p.data);
    charl__text_fini(&p.init);
    charl__text_fini(&p.output);
    return st;
}

typedef struct prove {
    const char *run;
    const charl_prove_options *options;
    charl__session session;
    charl_config *config;
    charl__proof proof;
    charl__text folder; /* for checkpoints in parts, of which a proof has one file; "": there is none */
    int64_t files;      /* of the data */
    char wrong[TEXT_BYTES];
} prove;

/* The first thing that is wrong. */
static void on_wrong(void *ctx, const char *text)
{
    prove *p = ctx;

    if (!p->wrong[0]) {
        snprintf(p->wrong, sizeof p->wrong, "%s", text);
    }
}

static void on_warned(void *ctx, const char *text)
{
    const prove *p = ctx;

    if (p->options->warned) {
        p->options->warned(p->options->ctx, text);
    }
}

static void on_compiling(void *ctx, const charl_compile_progress *progress)
{
    const prove *p = ctx;

    if (p->options->compiling) {
        p->options->compiling(p->options->ctx, progress);
    }
}

static void on_replayed(void *ctx, const charl_verify_segment *s)
{
    prove *p = ctx;

    if (s->outcome != CHARL_VERIFY_SAME) {
        on_wrong(p, s->text);
    }
    if (p->options->replayed) {
        p->options->replayed(p->options->ctx, s);
    }
}

static charl_status on_chosen(void *ctx, const charl__proof_segment *s)
{
    prove *p = ctx;

    return charl__proof_add_segment(&p->proof, s->from, s->until);
}

/* The checks of charl_verify, and the choice of segments. */
static charl_status choose(prove *p, charl_prove_result *out)
{
    const charl_prove_options *o = p->options;
    const charl_verify_options v = {sizeof v,
                                    .segments = o->segments > 0 ? o->segments : 1,
                                    .seed = o->seed,
                                    .overrides = o->overrides,
                                    .n_overrides = o->n_overrides,
                                    .ctx = p,
                                    .wrong = on_wrong,
                                    .warned = on_warned};
    const charl__verify_request request = {.chosen = on_chosen, .ctx = p};
    charl_verify_result found;

    CHARL_TRY(charl__verify_run(p->run, &v, &request, &found));
    CHARL_REQUIRE(found.wrong == 0, CHARL_ERR_CHECKPOINT,
                  "%s is not what its run.lock records: %s; HINT `charl verify %s` names all that differs", p->run,
                  p->wrong, p->run);
    CHARL_REQUIRE(!found.no_data[0], CHARL_ERR_DATA, "%s; HINT if the data have moved, add data.path=FILE",
                  found.no_data);
    CHARL_REQUIRE(p->proof.n_segments > 0, CHARL_ERR_CHECKPOINT,
                  "%s has no segment that a proof can hold: from its beginning or a checkpoint that is kept to a later "
                  "step that run.lock records, with the settings of its last start",
                  p->run);
    out->segments = p->proof.n_segments;
    out->provable = found.segments;
    snprintf(out->hash, sizeof out->hash, "%s", found.hash);
    return CHARL_OK;
}

/* A checkpoint as one file. */
static charl_status add_checkpoint(prove *p, const char *name, const char *path)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    CHARL_SCOPED(charl__text_fini) charl__text packed = {0};

    CHARL_TRY(charl_checkpoint_open(path, &r));
    if (charl_checkpoint_get_info(r).n_parts == 0) {
        return charl__proof_add(&p->proof, name, path, NULL, 0);
    }
    CHARL_TRY(p->folder.length > 0 ? CHARL_OK : charl__temporary_make(&p->folder));
    CHARL_TRY(charl__text_printf(&packed, "%s/%s", charl__text_string(&p->folder), charl__base_name(name)));
    CHARL_TRY(charl_checkpoint_pack(path, charl__text_string(&packed)));
    return charl__proof_add(&p->proof, name, charl__text_string(&packed), NULL, 0);
}

static charl_status add_run_files(prove *p)
{
    static const char *const names[] = {CHARL__LOCK_FILE, "config.ini", "run_id"};

    for (int i = 0; i < 3; i++) {
        CHARL_SCOPED_FREE char *path = NULL;

        CHARL_TRY(charl__commit_join(p->run, names[i], &path));
        CHARL_TRY(i < 2 || access(path, F_OK) == 0 ? charl__proof_add(&p->proof, names[i], path, NULL, 0) : CHARL_OK);
    }
    for (int64_t i = 0; i < p->proof.n_segments; i++) {
        CHARL_SCOPED_FREE char *path = NULL;
        const int64_t from = p->proof.segments[i].from;
        char name[64];

        CHARL_TRY(charl__run_path(p->run, from, &path));
        snprintf(name, sizeof name, "checkpoints/%.40s", charl__base_name(path));
        CHARL_TRY(from > 0 ? add_checkpoint(p, name, path) : CHARL_OK);
    }
    return CHARL_OK;
}

/* The files of a folder, without its folders. */
static charl_status add_folder(prove *p, const char *path)
{
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;

    CHARL_TRY(charl__directory_open(path, &d));
    CHARL_REQUIRE(d, CHARL_ERR_CONFIG, "%s: %s", path, strerror(errno));
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        CHARL_SCOPED_FREE char *file = NULL;
        char name[CHARL__PROOF_NAME];
        struct stat info;

        CHARL_TRY(charl__commit_join(path, e->d_name, &file));
        if (stat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
            snprintf(name, sizeof name, "init/%.120s", e->d_name);
            CHARL_TRY(charl__proof_add(&p->proof, name, file, NULL, 0));
        }
    }
    snprintf(p->proof.init, sizeof p->proof.init, "init");
    return CHARL_OK;
}

/* What the weights began with, if a segment begins at the beginning or if checkpoints leave weights to it. */
static charl_status add_init(prove *p)
{
    const char *from = charl__config_init_from(p->config);
    CHARL_SCOPED_FREE char *path = NULL;
    bool is_needed = from && charl__leaves_base(p->config);
    struct stat info;

    for (int64_t i = 0; from && i < p->proof.n_segments; i++) {
        is_needed = is_needed || p->proof.segments[i].from == 0;
    }
    if (!is_needed) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_run_checkpoint(from, &path));
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        return add_folder(p, path);
    }
    snprintf(p->proof.init, sizeof p->proof.init, "init/%.120s", charl__base_name(path));
    return charl__proof_add(&p->proof, p->proof.init, path, NULL, 0);
}

/* Read the rows of a step, so that their blocks are known. */
static charl_status read_step(prove *p, const charl__stream *stream, int64_t step, int64_t *place, void *x, void *y)
{
    const int64_t batch = p->config->train.batch_size;
    const bool is_tokens = p->session.data.kind == CHARL_DATASET_TOKENS;

    charl__stream_places(stream, (step - 1) * batch, batch, place);
    for (int64_t i = 0; i < batch; i++) {
        CHARL_TRY((is_tokens ? charl__dataset_read_at : charl_dataset_read)(p->session.ds, CHARL_SPLIT_TRAIN, &place[i],
                                                                            1, x, y));
    }
    return CHARL_OK;
}

static charl_status read_rows(prove *p)
{
    const charl_dataset_info *d = &p->session.data;
    CHARL_SCOPED_FREE int64_t *place = NULL;
    CHARL_SCOPED_FREE void *x = NULL;
    CHARL_SCOPED_FREE void *y = NULL;
    charl__stream stream;

    CHARL_TRY(charl__alloc_array(p->config->train.batch_size, sizeof *place, &place));
    CHARL_TRY(charl__alloc_array(charl_shape_count(&d->x_shape), charl_dtype_size(d->x_dtype), &x));
    CHARL_TRY(charl__alloc_array(charl_shape_count(&d->y_shape), charl_dtype_size(d->y_dtype), &y));
    charl__stream_init(&stream, p->session.ds, CHARL_SPLIT_TRAIN, p->config->data.shuffle,
                       (uint64_t)p->config->run.seed);
    for (int64_t i = 0; i < p->proof.n_segments; i++) {
        const charl__proof_segment *s = &p->proof.segments[i];

        for (int64_t step = s->from + 1; step <= s->until; step++) {
            CHARL_TRY(read_step(p, &stream, step, place, x, d->labelled ? y : NULL));
        }
    }
    return CHARL_OK;
}

static charl_status add_data_file(void *ctx, const char *path, const charl_byte_range *unread, int64_t n)
{
    prove *p = ctx;
    char name[32];

    snprintf(name, sizeof name, "data/%04" PRId64 ".h5", p->files++);
    return charl__proof_add(&p->proof, name, path, unread, n);
}

/* The data, opened as a training opens them, but for the blocks that it does not read. */
static charl_status add_data(prove *p)
{
    const charl_device_request request = {sizeof request,
                                          .select = p->options->device ? p->options->device : p->config->device.select,
                                          .exact = p->options->device != NULL, .share = p->config->device.share};
    charl__session *s = &p->session;

    s->config = p->config;
    CHARL_TRY(charl__replay_open_data(s));
    CHARL_TRY(charl__session_weigh_classes(s));
    CHARL_TRY(read_rows(p));
    CHARL_TRY(charl_dataset_unread(s->ds, add_data_file, p));
    CHARL_TRY(charl__session_open_device(s, &request));
    snprintf(p->proof.device, sizeof p->proof.device, "%s", charl_device_get_info(s->dev)->name);
    snprintf(p->proof.driver, sizeof p->proof.driver, "%s", charl_device_get_info(s->dev)->driver);
    charl__session_fini(s);
    *s = (charl__session){0};
    return CHARL_OK;
}

/* The proof, under its temporary name, as others will verify it. */
static charl_status check_proof(const char *temp, void *user)
{
    prove *p = user;
    const charl_verify_options v = {sizeof v,
                                    .device = p->options->device,
                                    .ctx = p,
                                    .wrong = on_wrong,
                                    .replayed = on_replayed,
                                    .warned = on_warned,
                                    .compiling = on_compiling};
    charl_verify_result found;

    CHARL_TRY(charl__verify_proof(temp, &v, &found));
    CHARL_REQUIRE(found.wrong == 0 && found.unknown == 0, CHARL_ERR_CHECKPOINT,
                  "the segments do not prove what run.lock records: %s", p->wrong);
    return CHARL_OK;
}

static charl_status prove_all(prove *p, const char *path, charl_prove_result *out)
{
    const charl_prove_options *o = p->options;

    CHARL_TRY(choose(p, out));
    CHARL_TRY(charl__replay_config(p->run, CHARL__REPLAY_LAST_START, o->overrides, o->n_overrides, &p->config));
    CHARL_TRY(add_run_files(p));
    CHARL_TRY(add_init(p));
    CHARL_TRY(add_data(p));
    for (int64_t i = 0; i < p->proof.n_files; i++) {
        CHARL_TRY(charl__commit_check_inputs(path, (const char *const[]){p->proof.files[i].path}, 1));
    }
    return charl__proof_write(path, &p->proof, check_proof, p, &out->bytes);
}

charl_status charl_prove(const char *run, const char *path, const charl_prove_options *options,
                         charl_prove_result *result)
{
    CHARL_GIVEN(run, path, result);
    static const charl_prove_options none = {sizeof none};
    CHARL__OPTIONS(charl_prove_options, options);
    prove p = {.run = run, .options = options ? options : &none};
    charl_status st;

    *result = (charl_prove_result){0};
    st = prove_all(&p, path, result);
    charl__session_fini(&p.session);
    charl__proof_fini(&p.proof);
    charl__temporary_remove(&p.folder);
    charl_config_destroy(p.config);
    return st;
}

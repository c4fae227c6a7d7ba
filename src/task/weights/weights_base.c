/* The base of a checkpoint: the source of weights that it does not contain.
 *
 * The parameters to find are those that the manifest leaves to the base. They are matched with the tensors of the file as [init]
 * did it when the run started, so that names, layout and renaming are the same; the reader compares the checksums.
 */
#include "task/weights/weights_base.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "config/config_rows.h"
#include "io/checkpoint/checkpoint_read.h"
#include "files/run_path.h"
#include "io/scoped.h"
#include "task/task.h"
#include "weights/weights_load.h"
#include "weights/weights_source.h"

enum { MOST_BASES = 8 };

static const charl__weights_words words = {
    .skip = "init.skip", .rename = "init.rename", .effect = "starts afresh or leaves out what does not fit"};

typedef struct base {
    char *path;
    charl_config *config; /* of the checkpoint */
    charl_model *model;
    charl_params *set; /* the parameters left to the base; without memory */
    charl__weights_plan *plan;
} base;

static void base_close(void *ctx)
{
    base *b = ctx;

    if (b) {
        charl__weights_plan_close(b->plan);
        charl_params_destroy(b->set);
        charl_model_destroy(b->model);
        charl_config_destroy(b->config);
        charl_free(b->path);
        charl_free(b);
    }
}

static charl_status base_read(void *ctx, const char *name, const charl_shape *shape, float *dst)
{
    const base *b = ctx;

    (void)shape; /* that of the parameter in the set */
    return charl__weights_plan_read(b->plan, name, dst);
}

static charl_status declare(base *b, const charl_checkpoint_reader *r)
{
    CHARL_TRY(charl_params_create(&b->set));
    for (int64_t i = 0; i < charl_checkpoint_get_info(r).n_tensors; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(r, i);
        charl_param *p;

        if (charl_checkpoint_is_in_base(r, t)) {
            CHARL_TRY(charl_params_add(b->set,
                                       &(charl_param_spec){.name = t->name, .shape = t->shape, .trainable = true}, &p));
        }
    }
    return CHARL_OK;
}

/* DIR/init.from.h5 for a checkpoint of run DIR; "": it is none, or has no such file. */
static void kept_base(const char *path, char *out, size_t bytes)
{
    const size_t n = charl_run_length(path);

    if (n == strlen(path) ||
        (size_t)snprintf(out, bytes, "%.*s%s" CHARL__RUN_BASE, (int)n, path, n > 0 ? "/" : "") >= bytes ||
        access(out, R_OK) != 0) {
        out[0] = '\0';
    }
}

/* The base of the checkpoint at `path`: the file `from` or, if that is NULL or names the run in the checkpoint, which may
 * have continued training, the file recorded there; if that is gone, the one that the run kept. */
static const char *choose_base(const char *from, const char *recorded, const char *kept)
{
    if (!from || (recorded && charl__run_is_same(from, recorded))) {
        from = recorded;
    }
    return kept[0] && (!from || access(from, F_OK) != 0) ? kept : from;
}

static charl_status base_open(const charl_checkpoint_reader *r, const char *path, const char *from, base **out)
{
    charl_status st = CHARL_OK;
    const char *text = charl_checkpoint_get_info(r).config_resolved;
    base *b = NULL;
    char why[1200], kept[4096];

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *b, &b));
    CHARL_TRY_CLEANUP(charl_config_parse("/config/resolved", text, strlen(text), NULL, 0, &b->config));
    kept_base(path, kept, sizeof kept);
    from = choose_base(from, charl__config_init_from(b->config), kept);
    CHARL_REQUIRE_CLEANUP(
        from, CHARL_ERR_CHECKPOINT,
        "%s holds only the trained weights and does not record what the run started from; HINT init.from=PATH names it",
        path);
    CHARL_REQUIRE_CLEANUP(
        access(from, F_OK) == 0, CHARL_ERR_CHECKPOINT,
        "%s holds only the trained weights; the others are in %s, which is not there; HINT init.from=PATH "
        "names the weights that the run started from",
        path, from);
    CHARL_TRY_CLEANUP(charl__strdup(from, &b->path));
    CHARL_TRY_CLEANUP(charl__task_model(b->config, 1, NULL, &b->model));
    CHARL_TRY_CLEANUP(declare(b, r));
    st = charl__weights_plan_open(b->set, b->path,
                                  &(charl_params_load_options){sizeof(charl_params_load_options), .by_name = true,
                                                               .ema = CHARL_EMA_NO, .rename = b->config->init.rename,
                                                               .model = b->model},
                                  &words, &b->plan);
    if (st == CHARL_ERR_CHECKPOINT) {
        const char *said = charl_error_message(), *hint = strstr(said, "; HINT"); /* of another situation */

        snprintf(why, sizeof why, "%.*s", hint ? (int)(hint - said) : (int)strlen(said), said);
        CHARL_FAIL_CLEANUP(
            CHARL_ERR_CHECKPOINT,
            "%s was trained on other weights than those of %s: %s; HINT init.from=PATH names the weights that the run "
            "started from",
            path, from, why);
    }
    CHARL_TRY_CLEANUP(st);
    *out = b;
    b = NULL;
cleanup:
    base_close(b);
    return st;
}

charl_status charl__weights_find_base(charl_checkpoint_reader *r, const char *path, const char *from)
{
    static _Thread_local int depth; /* a base may be a checkpoint with a base */
    charl_status st = CHARL_OK;
    base *b = NULL;

    if (!charl__checkpoint_lacks_base(r)) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(depth < MOST_BASES, CHARL_ERR_CHECKPOINT, "%s: the chain of bases is longer than %d checkpoints",
                  path, MOST_BASES);
    depth++;
    st = base_open(r, path, from, &b);
    depth--;
    CHARL_TRY(st);
    charl__checkpoint_attach(r, &(charl__checkpoint_base){.ctx = b, .read = base_read, .close = base_close});
    return CHARL_OK;
}

charl_status charl__weights_open(const char *path, const char *from, charl_checkpoint_reader **out)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;

    *out = NULL;
    CHARL_TRY(charl_checkpoint_open(path, &r));
    CHARL_TRY(charl__weights_find_base(r, path, from));
    *out = r;
    r = NULL;
    return CHARL_OK;
}

static charl_status resolve(const char *text, char **out)
{
    CHARL_SCOPED(charl__config_left) charl_config *config = NULL;

    CHARL_TRY(charl_config_parse("the configuration", text, strlen(text), NULL, 0, &config));
    CHARL_TRY(charl_config_print(config, false, out));
    return CHARL_OK;
}

__attribute__((constructor)) static void register_configs(void)
{
    static const charl__weights_configs configs = {charl__weights_find_base, resolve};

    charl__weights_set_configs(&configs);
}

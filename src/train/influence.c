/* What rows did to a run: its last state, beside the one that it would have had without them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "files/run.h"
#include "files/temporary.h"
#include "io/commit.h"
#include "train/replay.h"

enum { MOST_OVERRIDES = 256 };

typedef struct influence {
    const char *run, *split;
    const charl_replay_options *options;
    charl_config_override overrides[MOST_OVERRIDES + 1];
    int n_overrides;
    charl_config *config, *forgetting; /* of the run, and with data.forget */
    charl_team *team;
    charl_comm *comm;
    charl__text folder, setting;
} influence;

/* The settings of the run, and with the rows besides those that it forgets already. */
static charl_status load(influence *f, const char *rows)
{
    const charl_replay_options *o = f->options;

    CHARL_REQUIRE(o->n_overrides < MOST_OVERRIDES, CHARL_ERR_CONFIG, "more than %d settings", MOST_OVERRIDES);
    CHARL_TRY(charl__replay_config(f->run, CHARL__REPLAY_LAST_START, o->overrides, o->n_overrides, &f->config));
    CHARL_TRY(charl__text_printf(&f->setting, "data.forget=%s%s%s", f->config->data.forget,
                                 f->config->data.forget[0] ? ", " : "", rows + strspn(rows, " ")));
    while (f->n_overrides < o->n_overrides) {
        f->overrides[f->n_overrides] = o->overrides[f->n_overrides];
        f->n_overrides++;
    }
    f->overrides[f->n_overrides++] = (charl_config_override){charl__text_string(&f->setting), "the rows"};
    return charl__replay_config(f->run, CHARL__REPLAY_LAST_START, f->overrides, f->n_overrides, &f->forgetting);
}

/* The checkpoint of the last step, without the rows. */
static charl_status train(influence *f, int64_t step, int64_t until, const char *path)
{
    const charl_replay_options o = {sizeof o,
                                    .step = step,
                                    .until = until,
                                    .only = &until,
                                    .n_only = 1,
                                    .checkpoint = path,
                                    .device = f->options->device,
                                    .overrides = f->overrides,
                                    .n_overrides = f->n_overrides,
                                    .ctx = f->options->ctx,
                                    .started = f->options->started,
                                    .warned = f->options->warned,
                                    .compiling = f->options->compiling};

    return charl__replay_variant_of(f->run, &o, &(charl__replay_variant){.changes = true});
}

static charl_status evaluate(influence *f, const char *checkpoint, charl_val_row *out)
{
    const charl_train_options options = {
        sizeof options, .comm = f->comm, .device = f->options->device,
        .events = {.ctx = f->options->ctx, .compiling = f->options->compiling, .warned = f->options->warned}};

    return charl_train_evaluate(f->config, &options, checkpoint, f->split, out, NULL);
}

static charl_status measure(influence *f, const char *rows, charl_influence_result *out)
{
    CHARL_SCOPED_FREE char *checkpoint = NULL, *last = NULL, *without = NULL;
    charl__run_steps list = {0};
    charl_status st;

    CHARL_TRY(load(f, rows));
    CHARL_TRY(charl_forget_find(f->run, f->forgetting, &out->first, &checkpoint));
    st = charl__run_list(f->run, &list);
    out->step = list.count > 0 ? list.steps[list.count - 1] : 0;
    charl_free(list.steps);
    CHARL_TRY(st);
    CHARL_REQUIRE(out->step > 0, CHARL_ERR_CHECKPOINT, "%s has no checkpoint: is it a run directory?", f->run);
    CHARL_TRY(charl_team_create(1, &f->team));
    CHARL_TRY(charl_comm_create(&(charl_comm_options){sizeof(charl_comm_options), .team = f->team}, &f->comm));
    CHARL_TRY(charl__run_path(f->run, out->step, &last));
    CHARL_TRY(evaluate(f, last, &out->run));
    out->without = out->run;
    if (out->first == 0 || out->first > out->step) {
        out->first = 0;
        return CHARL_OK;
    }
    CHARL_TRY(charl__temporary_make(&f->folder));
    CHARL_TRY(charl__commit_join(charl__text_string(&f->folder), "without.h5", &without));
    CHARL_TRY(train(f, out->first, out->step, without));
    return evaluate(f, without, &out->without);
}

charl_status charl_influence(const char *run, const char *rows, const char *split, const charl_replay_options *options,
                             charl_influence_result *result)
{
    CHARL_GIVEN(run, rows, options, result);
    CHARL__OPTIONS(charl_replay_options, options);
    influence f = {.run = run, .split = split ? split : "val", .options = options};
    charl_status st;

    *result = (charl_influence_result){0};
    st = measure(&f, rows, result);
    charl_comm_destroy(f.comm);
    charl_team_destroy(f.team);
    charl_config_destroy(f.config);
    charl_config_destroy(f.forgetting);
    charl__temporary_remove(&f.folder);
    charl__text_fini(&f.setting);
    return st;
}

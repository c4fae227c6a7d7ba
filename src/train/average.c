/* Averages of the weights of a run, computed after it: the steps that were not saved are computed again. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/options.h"
#include "files/run.h"
#include "files/temporary.h"
#include "io/commit.h"
#include "train/replay.h"

enum { MOST_OVERRIDES = 256 };

/* The last step that the run has a checkpoint of. */
static charl_status find_last(const char *run, int64_t *out)
{
    charl__run_steps list = {0};
    charl_status st = charl__run_list(run, &list);

    *out = list.count > 0 ? list.steps[list.count - 1] : 0;
    charl_free(list.steps);
    CHARL_TRY(st);
    CHARL_REQUIRE(*out > 0, CHARL_ERR_CHECKPOINT, "%s has no checkpoint: is it a run directory?", run);
    return CHARL_OK;
}

charl_status charl_replay_ema(const char *run, double decay, const charl_replay_options *options, const char *out)
{
    CHARL_GIVEN(run, options, out);
    CHARL__OPTIONS(charl_replay_options, options);
    charl_config_override overrides[MOST_OVERRIDES + 1];
    charl_replay_options o = *options;
    char setting[64];

    CHARL_REQUIRE(decay > 0 && decay < 1, CHARL_ERR_CONFIG, "a decay of %g: it must be above 0 and below 1", decay);
    CHARL_REQUIRE(o.n_overrides <= MOST_OVERRIDES, CHARL_ERR_CONFIG, "more than %d settings", MOST_OVERRIDES);
    snprintf(setting, sizeof setting, "train.ema_decay=%.17g", decay);
    for (int i = 0; i < o.n_overrides; i++) {
        overrides[i] = o.overrides[i];
    }
    overrides[o.n_overrides++] = (charl_config_override){setting, "the decay"};
    o.overrides = overrides;
    o.from_start = true;
    o.checkpoint = out;
    CHARL_TRY(o.step > 0 ? CHARL_OK : find_last(run, &o.step));
    o.until = o.step;
    return charl__replay_variant_of(run, &o, &(charl__replay_variant){.changes = true, .evaluates = true});
}

typedef struct average {
    const char *run;
    int64_t *steps, *missing; /* [n], [n_missing] ascending: all, and those that the run has no file of */
    char **path;              /* [n] */
    int64_t n, n_missing;
    charl__text folder; /* a run directory with the missing ones */
} average;

static charl_status plan(average *a, int64_t first, int64_t last, int64_t every)
{
    const int64_t n = (last - first) / every + 1;

    CHARL_TRY(charl__alloc_array(n, sizeof *a->steps, &a->steps));
    CHARL_TRY(charl__alloc_array(n, sizeof *a->missing, &a->missing));
    CHARL_TRY(charl__alloc_array(n, sizeof *a->path, &a->path));
    for (; a->n < n; a->n++) {
        const int64_t step = first + a->n * every;

        a->steps[a->n] = step;
        CHARL_TRY(charl__run_path(a->run, step, &a->path[a->n]));
        if (access(a->path[a->n], F_OK) != 0) {
            a->missing[a->n_missing++] = step;
        }
    }
    return CHARL_OK;
}

/* The missing checkpoints, in a folder that goes afterwards. */
static charl_status compute(average *a, const charl_replay_options *options)
{
    charl_replay_options o = {sizeof o,
                              .device = options->device,
                              .overrides = options->overrides,
                              .n_overrides = options->n_overrides,
                              .ctx = options->ctx,
                              .started = options->started,
                              .warned = options->warned,
                              .compiling = options->compiling};
    CHARL_SCOPED_FREE char *folder = NULL;

    if (a->n_missing == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__temporary_make(&a->folder));
    CHARL_TRY(charl__commit_join(charl__text_string(&a->folder), "checkpoints", &folder));
    CHARL_TRY(mkdir(folder, 0700) == 0 ? CHARL_OK : charl__disk_error(folder, "mkdir", errno, -1));
    o.step = a->missing[0];
    o.until = a->missing[a->n_missing - 1];
    o.only = a->missing;
    o.n_only = a->n_missing;
    CHARL_TRY(charl__replay_variant_of(
        a->run, &o, &(charl__replay_variant){.evaluates = true, .folder = charl__text_string(&a->folder)}));
    for (int64_t i = 0; i < a->n; i++) {
        if (access(a->path[i], F_OK) != 0) {
            charl_free(a->path[i]);
            a->path[i] = NULL;
            CHARL_TRY(charl__run_path(charl__text_string(&a->folder), a->steps[i], &a->path[i]));
        }
    }
    return CHARL_OK;
}

charl_status charl_replay_average(const char *run, int64_t first, int64_t last, int64_t every,
                                  const charl_replay_options *options, const char *out)
{
    CHARL_GIVEN(run, options, out);
    CHARL__OPTIONS(charl_replay_options, options);
    charl_status st = CHARL_OK;
    average a = {.run = run};

    CHARL_REQUIRE_CLEANUP(
        first >= 1 && last >= first && every >= 1 && (last - first) / every < INT32_MAX, CHARL_ERR_CONFIG,
        "steps %" PRId64 " to %" PRId64 ", every %" PRId64 ": steps begin at 1, and the range must ascend", first, last,
        every);
    CHARL_TRY_CLEANUP(plan(&a, first, last, every));
    CHARL_TRY_CLEANUP(compute(&a, options));
    CHARL_TRY_CLEANUP(charl_checkpoint_average((const char *const *)a.path, (int)a.n, out));
cleanup:
    charl__temporary_remove(&a.folder);
    for (int64_t i = 0; i < a.n; i++) {
        charl_free(a.path[i]);
    }
    charl_free(a.path);
    charl_free(a.steps);
    charl_free(a.missing);
    return st;
}

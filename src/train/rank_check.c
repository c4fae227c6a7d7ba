/* Facts of a rank's settings, data and state, for dist/consensus.h to compare. */
#include "train/rank_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "config/config_shared.h"
#include "device/kernel_source.h"
#include "dist/consensus.h"
#include "train/snapshot.h"

static const char settings_hint[] =
    "all ranks of a run need the same configuration, options and environment (mpirun -x NAME "
    "passes a variable to other nodes)";
static const char data_hint[] =
    "a copy on one node may be stale: copy the file again, or name one that all nodes share";

/* Add a fact whose value is short. */
static charl_status CHARL_PRINTF(3, 4)
    add(charl__consensus *facts, charl__fact fact, const char *fmt, ...)
{
    char value[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    fact.value = value;
    return charl__consensus_add(facts, &fact);
}

static charl_status reach(charl__trainer *t, charl__consensus *facts, charl_status mine)
{
    const charl_status st = charl__consensus_reach(facts, mine, t->comm);

    charl__consensus_fini(facts);
    return st;
}

static charl_status take_setting(void *ctx, const char *name, const char *value)
{
    const charl__fact fact = {CHARL_ERR_CONFIG, name, value, NULL, settings_hint};

    return charl__consensus_add(ctx, &fact);
}

static charl_status add_options(const charl__trainer *t, charl__consensus *facts)
{
    const charl_train_options *o = t->options;
    char steps[32];

    CHARL_TRY(take_setting(facts, "task", t->infers ? "evaluation" : "training"));
    CHARL_TRY(take_setting(facts, "--split", charl_split_name(t->eval_split)));
    CHARL_TRY(take_setting(facts, "--dry-run", o->dry_run ? "yes" : "no"));
    snprintf(steps, sizeof steps, "%d", o->fast_dev_run);
    CHARL_TRY(take_setting(facts, "--fast-dev-run", o->fast_dev_run ? steps : "no"));
    CHARL_TRY(take_setting(facts, "--overfit-batch", o->overfit_batch ? "yes" : "no"));
    CHARL_TRY(take_setting(facts, "--overwrite", o->overwrite ? "yes" : "no"));
    CHARL_TRY(take_setting(facts, "--init-from", o->init_from ? "a file" : "no"));
    CHARL_TRY(take_setting(facts, "--ema",
                           o->ema == CHARL_EMA_AUTO  ? "auto"
                           : o->ema == CHARL_EMA_YES ? "yes"
                                                     : "no"));
    return CHARL_OK;
}

/* Of the sources that this program was built with. */
static charl_status add_kernels(charl__consensus *facts)
{
    const charl__fact fact = {
        .status = CHARL_ERR_CONFIG,
        .label = "kernel sources",
        .hint = "the ranks run different builds of charl: install one on every node"};
    uint32_t crc = 0;

    for (const charl__kernel_source *s = charl__kernel_sources; s->name; s++) {
        crc = charl__crc32c(crc, s->name, strlen(s->name) + 1);
        crc = charl__crc32c(crc, s->text, strlen(s->text) + 1);
    }
    return add(facts, fact, "%08" PRIx32, crc);
}

charl_status charl__rank_check_settings(charl__trainer *t, charl_status mine)
{
    charl_status st = mine;
    charl__consensus facts = {0};

    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(add_kernels(&facts));
    CHARL_TRY_CLEANUP(add_options(t, &facts));
    CHARL_TRY_CLEANUP(charl__config_each_shared(t->config, take_setting, &facts));
    for (int i = 0; i < CHARL_ENV_COUNT; i++) {
        const char *value = charl__env_shared((charl__env_id)i);

        if (value) {
            CHARL_TRY_CLEANUP(take_setting(&facts, charl__env_name((charl__env_id)i), value));
        }
    }
cleanup:
    return reach(t, &facts, st);
}

/* A text of names, which may be long. */
static charl_status add_names(charl__consensus *facts, charl__fact fact, const char *names)
{
    return add(facts, fact, "%.60s%s (checksum %08" PRIx32 ")", names,
               strlen(names) > 60 ? "..." : "", charl__crc32c(0, names, strlen(names)));
}

static charl_status add_data(const charl__trainer *t, charl__consensus *facts)
{
    const charl_dataset_info *d = &t->data;
    const size_t stats = (size_t)d->n_stats * sizeof(float);
    charl__fact fact = {.status = CHARL_ERR_DATA, .note = d->path, .hint = data_hint};

    fact.label = "data";
    CHARL_TRY(add(facts, fact, "%" PRId64 " + %" PRId64 " + %" PRId64 " rows, digest %s",
                  d->rows[CHARL_SPLIT_TRAIN], d->rows[CHARL_SPLIT_VAL], d->rows[CHARL_SPLIT_TEST],
                  d->content_id));
    fact.label = "classes of the data";
    CHARL_TRY(add(facts, fact, "%" PRId64, d->classes));
    fact.label = "class names of the data";
    CHARL_TRY(add_names(facts, fact, d->class_names));
    fact.label = "columns of the data";
    CHARL_TRY(add_names(facts, fact, d->columns));
    fact.label = "target names of the data";
    CHARL_TRY(add_names(facts, fact, d->targets));
    fact.label = "mean and std of the data";
    CHARL_TRY(add(facts, fact, "%d of them, checksum %08" PRIx32, d->n_stats,
                  stats ? charl__crc32c(charl__crc32c(0, d->mean, stats), d->std, stats) : 0));
    fact.label = "tokenizer of the data";
    CHARL_TRY(add(facts, fact, "%.60s", d->tokenizer));
    return CHARL_OK;
}

charl_status charl__rank_check_data(charl__trainer *t, charl_status mine)
{
    charl_status st = mine;
    charl__consensus facts = {0};

    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(add_data(t, &facts));
cleanup:
    return reach(t, &facts, st);
}

static charl_status add_counters(const charl__trainer *t, charl__consensus *facts,
                                 const charl__fact *form)
{
    charl__fact fact = *form;
    float scale = 1.0F;

    fact.label = "step";
    CHARL_TRY(add(facts, fact, "%" PRId64, t->step));
    fact.label = "best metric";
    CHARL_TRY(isnan(t->best_metric) ? add(facts, fact, "none")
                                    : add(facts, fact, "%.17g", t->best_metric));
    fact.label = "evaluations since the best";
    CHARL_TRY(add(facts, fact, "%" PRId64, t->stale_evals));
    fact.label = "skipped steps";
    CHARL_TRY(add(facts, fact, "%" PRId64, t->nonfinite.skipped));
    fact.label = "contents of the checkpoint";
    CHARL_TRY(add(facts, fact, "%016" PRIx64, t->resumed_digest));
    if (!t->infers) {
        fact.label = "run id";
        CHARL_TRY(add(facts, fact, "%s", t->run_id));
        fact.label = "optimizer steps";
        CHARL_TRY(add(facts, fact, "%" PRId64, charl_optimizer_get_steps(t->optimizer)));
    }
    if (charl__steps_scale(t->steps)) {
        CHARL_TRY(charl_tensor_read(charl__steps_scale(t->steps), &scale, sizeof scale));
        fact.label = "loss scale";
        CHARL_TRY(add(facts, fact, "%.9g", (double)scale));
    }
    return CHARL_OK;
}

static uint32_t add_text(uint32_t crc, const char *text)
{
    return charl__crc32c(crc, text, strlen(text) + 1);
}

/* By what rows are matched and normalised: of the data, or of the checkpoint. */
static charl_status add_schema(const charl__trainer *t, charl__consensus *facts,
                               const charl__fact *form)
{
    const charl_data_schema *s = t->schema;
    const size_t stats = (size_t)s->n_stats * sizeof(float);
    charl__fact fact = *form;
    uint32_t crc = add_text(add_text(add_text(0, s->class_names), s->columns), s->targets);

    if (stats) {
        crc = charl__crc32c(charl__crc32c(crc, s->mean, stats), s->std, stats);
    }
    fact.label = "names, mean and std of the model's data";
    return add(facts, fact, "checksum %08" PRIx32, crc);
}

charl_status charl__rank_check_state(charl__trainer *t, const char *path, charl_status mine)
{
    charl_status st = mine;
    charl__consensus facts = {0};
    charl__snapshot s = {0};
    const charl__fact form = {
        .status = path ? CHARL_ERR_CHECKPOINT : CHARL_ERR_NONFINITE,
        .note = path,
        .hint = path ? "a copy of the file on one node may be another one: copy it again, or name "
                       "one that all nodes share"
                     : "ranks that draw different weights run different builds or libraries"};

    CHARL_TRY_CLEANUP(st);
    if (charl_comm_size(t->comm) == 1) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(add_counters(t, &facts, &form));
    CHARL_TRY_CLEANUP(add_schema(t, &facts, &form));
    if (!t->options->dry_run || path) { /* of what is only planned nothing was drawn */
        CHARL_TRY_CLEANUP(charl__snapshot_take_model(t, &s));
        CHARL_TRY_CLEANUP(charl__snapshot_facts(&s, NULL, &form, &facts));
    }
cleanup:
    charl__snapshot_fini(&s);
    return reach(t, &facts, st);
}

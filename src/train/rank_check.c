/* Facts of a rank's settings, data and state, for dist/consensus.h to compare. */
#include "train/rank_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/error.h"
#include "base/numeric/hash.h"
#include "charl/environment.h"
#include "config/config_shared.h"
#include "device/kernel_source.h"
#include "dist/consensus.h"
#include "train/snapshot.h"

static const char settings_hint[] =
    "all ranks of a run need the same configuration, options and environment (mpirun -x NAME "
    "passes a variable to other nodes)";
static const char data_hint[] =
    "a copy on one node may be stale: copy the file again, or name one that all nodes share";

static charl_status reach(charl__replica *r, charl__consensus *facts, charl_status mine)
{
    const charl_status st = charl__consensus_reach(facts, mine, r->comm);

    charl__consensus_fini(facts);
    return st;
}

static charl_status add_setting(void *ctx, const char *name, const char *value)
{
    const charl__fact fact = {CHARL_ERR_CONFIG, name, value, NULL, settings_hint};

    return charl__consensus_add(ctx, &fact);
}

static charl_status add_options(const charl__replica *r, charl__consensus *facts)
{
    const charl_train_options *o = r->options;
    char steps[48];

    CHARL_TRY(add_setting(facts, "task", r->session->infers ? "evaluation" : "training"));
    CHARL_TRY(add_setting(facts, "--split", charl_split_name(r->eval_split)));
    CHARL_TRY(add_setting(facts, "--dry-run", o->dry_run ? "yes" : "no"));
    snprintf(steps, sizeof steps, "%d", o->fast_dev_run);
    CHARL_TRY(add_setting(facts, "--fast-dev-run", o->fast_dev_run ? steps : "no"));
    CHARL_TRY(add_setting(facts, "--overfit-batch", o->overfit_batch ? "yes" : "no"));
    CHARL_TRY(add_setting(facts, "--overwrite", o->overwrite ? "yes" : "no"));
    CHARL_TRY(add_setting(facts, "--trace", o->trace ? "yes" : "no"));
    CHARL_TRY(add_setting(facts, "--profile", o->profile ? "yes" : "no"));
    snprintf(steps, sizeof steps, "%" PRId64 "-%" PRId64, o->trace_first, o->trace_last);
    CHARL_TRY(add_setting(facts, "--trace-steps", o->trace_last > 0 ? steps : "default"));
    CHARL_TRY(add_setting(facts, "--ema", o->ema == CHARL_EMA_AUTO ? "auto" : o->ema == CHARL_EMA_YES ? "yes" : "no"));
    return CHARL_OK;
}

void charl__hash_kernels(char hash[CHARL__SHA256_TEXT])
{
    unsigned char digest[CHARL__SHA256_BYTES];
    charl__sha256 sha;

    charl__sha256_init(&sha);
    for (const charl__kernel_source *s = charl__kernel_sources; s->name; s++) {
        charl__sha256_update(&sha, s->name, strlen(s->name) + 1);
        charl__sha256_update(&sha, s->text, strlen(s->text) + 1);
    }
    charl__sha256_final(&sha, digest);
    charl__sha256_format(digest, hash);
}

static charl_status add_kernels(charl__consensus *facts)
{
    const charl__fact form = {.status = CHARL_ERR_CONFIG,
                              .hint = "the ranks run different builds of charl: install one on every node"};
    char hash[CHARL__SHA256_TEXT];

    charl__hash_kernels(hash);
    return charl__consensus_print(facts, &form, "kernel sources", "%.16s", hash);
}

charl_status charl__rank_check_settings(charl__replica *r, charl_status mine)
{
    charl_status st = mine;
    charl__consensus facts = {0};

    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(add_kernels(&facts));
    CHARL_TRY_CLEANUP(add_options(r, &facts));
    CHARL_TRY_CLEANUP(charl__config_each_shared(r->session->config, add_setting, &facts));
    for (int i = 0; i < CHARL_ENV_COUNT; i++) {
        const char *value = charl__env_shared((charl__env_id)i);

        if (value) {
            CHARL_TRY_CLEANUP(add_setting(&facts, charl_environment_variable(i, NULL), value));
        }
    }
cleanup:
    return reach(r, &facts, st);
}

/* A text of names, which may be long. */
static charl_status add_names(charl__consensus *facts, const charl__fact *form, const char *label, const char *names)
{
    return charl__consensus_print(facts, form, label, "%.60s%s (checksum %08" PRIx32 ")", names,
                                  strlen(names) > 60 ? "..." : "", charl__crc32c(0, names, strlen(names)));
}

static charl_status add_data(const charl__replica *r, charl__consensus *facts)
{
    const charl_dataset_info *d = &r->session->data;
    const size_t stats = (size_t)d->n_stats * sizeof(float);
    char shuffle[CHARL__SHUFFLE_TEXT];
    charl__fact fact = {.status = CHARL_ERR_DATA, .note = d->path, .hint = data_hint};

    CHARL_TRY(charl__consensus_print(facts, &fact, "data", "%" PRId64 " + %" PRId64 " + %" PRId64 " rows, digest %s",
                                     d->rows[CHARL_SPLIT_TRAIN], d->rows[CHARL_SPLIT_VAL], d->rows[CHARL_SPLIT_TEST],
                                     d->content_id));
    CHARL_TRY(charl__consensus_print(facts, &fact, "classes of the data", "%" PRId64, d->classes));
    CHARL_TRY(add_names(facts, &fact, "class names of the data", d->class_names));
    CHARL_TRY(add_names(facts, &fact, "columns of the data", d->columns));
    CHARL_TRY(add_names(facts, &fact, "target names of the data", d->targets));
    CHARL_TRY(charl__consensus_print(facts, &fact, "mean and std of the data", "%d of them, checksum %08" PRIx32,
                                     d->n_stats,
                                     stats ? charl__crc32c(charl__crc32c(0, d->mean, stats), d->std, stats) : 0));
    CHARL_TRY(charl__consensus_print(facts, &fact, "tokenizer of the data", "%.60s", d->tokenizer));
    CHARL_TRY(charl__consensus_print(facts, &fact, "order of the samples", "%s",
                                     charl__shuffle_name(r->session->config->data.shuffle, d, shuffle)));
    return CHARL_OK;
}

charl_status charl__rank_check_data(charl__replica *r, charl_status mine)
{
    charl_status st = mine;
    charl__consensus facts = {0};

    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(add_data(r, &facts));
cleanup:
    return reach(r, &facts, st);
}

static uint32_t add_text(uint32_t crc, const char *text)
{
    return charl__crc32c(crc, text, strlen(text) + 1);
}

/* By what rows are matched and normalised: of the data, or of the checkpoint. */
static charl_status add_schema(const charl__replica *r, charl__consensus *facts, const charl__fact *form)
{
    const charl_data_schema *s = r->session->schema;
    const size_t stats = (size_t)s->n_stats * sizeof(float);
    charl__fact fact = *form;
    uint32_t crc = add_text(add_text(add_text(0, s->class_names), s->columns), s->targets);

    if (stats) {
        crc = charl__crc32c(charl__crc32c(crc, s->mean, stats), s->std, stats);
    }
    if (s->n_target_stats > 0) {
        const size_t bytes = (size_t)s->n_target_stats * sizeof(float);

        crc = charl__crc32c(charl__crc32c(crc, s->target_mean, bytes), s->target_std, bytes);
    }
    return charl__consensus_print(facts, &fact, "names, mean and std of the model's data", "checksum %08" PRIx32, crc);
}

charl__fact charl__rank_check_form(const char *path)
{
    return (charl__fact){.status = path ? CHARL_ERR_CHECKPOINT : CHARL_ERR_NONFINITE,
                         .note = path,
                         .hint = path ? "a copy of the file on one node may be another one: copy it again, or name "
                                        "one that all nodes share"
                                      : "ranks that draw different weights run different builds or libraries"};
}

charl_status charl__rank_check_state(charl__replica *r, charl__consensus *more, const char *path, charl_status mine)
{
    charl_status st = mine;
    charl__consensus own = {0}, *facts = more ? more : &own;
    charl__state s = {0};
    const charl__fact form = charl__rank_check_form(path);

    CHARL_TRY_CLEANUP(st);
    if (charl_comm_size(r->comm) == 1) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(add_schema(r, facts, &form));
    if (!r->options->dry_run || path) { /* of what is only planned nothing was drawn */
        CHARL_TRY_CLEANUP(charl__snapshot_copy(r, true, &s));
        CHARL_TRY_CLEANUP(charl__state_facts(&s, NULL, &form, facts));
    }
cleanup:
    st = charl__consensus_reach(facts, st, r->comm);
    charl__state_fini(&s);
    charl__consensus_fini(&own);
    return st;
}

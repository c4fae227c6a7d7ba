/* A training or an evaluation from begin to end. */
#include <math.h>
#include <string.h>

#include "base/registry/key.h"
#include "base/clock.h"
#include "base/options.h"
#include "config/config_place.h"
#include "train/rank_check.h"
#include "train/trainer.h"

static charl_status train(charl__trainer *t, const charl_config *config, const charl_train_options *options,
                          charl_train_result *result)
{
    CHARL_TRY(charl__trainer_init(t, config, options, NULL));
    CHARL_TRY(charl__trainer_resume(t));
    CHARL_TRY(charl__trainer_report(t));
    CHARL_TRY(options->events.memory ? charl__memory_report(t) : CHARL_OK);
    if (!options->dry_run) {
        CHARL_TRY(charl__trainer_loop(t, result));
        charl__trainer_drop_copies(t);
    }
    return CHARL_OK;
}

charl_status charl_train_run(const charl_config *config, const charl_train_options *options, charl_train_result *result)
{
    CHARL_GIVEN(config, options, result);
    CHARL__OPTIONS(charl_train_options, options);
    CHARL_GIVEN(options->comm);
    charl__trainer t = {0};
    const double begin = charl__clock_s();
    charl_data_parallel_audits audits;
    charl_status st;

    *result = (charl_train_result){.loss = (double)NAN, .best_metric = (double)NAN, .best_step = -1, .suspect = -1};
    CHARL_TRY(charl__range_check(CHARL_ERR_INVALID, "spent_s", options->spent_s, "[0,inf)"));
    st = train(&t, config, options, result);
    if (st == CHARL_ERR_CONFIG) {
        charl__config_locate(config);
    }
    if (st == CHARL_ERR_COMM) {
        charl__trainer_rescue(&t);
    }
    if (st != CHARL_OK) { /* a save under way is complete before this rank leaves */
        charl__trainer_abandon_save(&t);
    }
    result->step = t.replica.step;
    if (t.session.ds) {
        result->epoch = charl__trainer_epoch(&t);
        result->best_metric = t.best.metric;
        result->early = charl__trainer_is_over(&t);
        result->best_step = t.best.step;
    }
    result->skipped = t.nonfinite.skipped;
    result->overflowed = t.nonfinite.overflowed;
    result->spikes = t.nonfinite.spikes;
    audits = charl_data_parallel_get_info(t.replica.dp).audits;
    result->audits = audits.count;
    result->suspect = audits.suspect;
    result->audit_s = audits.seconds;
    st = charl__replica_leave(&t.replica, st);
    charl__trainer_fini(&t);
    result->wall_s = charl__clock_s() - begin;
    return st;
}

/* The split of that name, or -1. */
static int split_of(const char *name)
{
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        if (strcmp(charl_split_name((charl_split)s), name) == 0) {
            return s;
        }
    }
    return -1;
}

static charl_status report(const charl__replica *r, charl_status (*event)(void *, const charl_train_info *))
{
    const charl_train_info info = charl__replica_info(r);

    return event ? event(r->options->events.ctx, &info) : CHARL_OK;
}

/* What is done with a replica that is ready to evaluate. */
typedef struct evaluation {
    charl_eval_report **report; /* NULL: none */
    int repeats;                /* of charl__replica_importance; 0: one evaluation */
    charl_status (*measured)(void *ctx, const charl_importance *importance);
    void *ctx;
} evaluation;

static charl_status evaluate(charl__replica *r, const char *checkpoint, const evaluation *what, charl_val_row *out)
{
    const double begin = charl__clock_s();
    const charl_train_events *e = &r->options->events;
    charl_status st;

    CHARL_TRY(charl__replica_open(r));
    CHARL_TRY(charl__replica_build(r));
    CHARL_TRY(report(r, e->built));
    CHARL_TRY(charl__replica_compile(r));
    CHARL_TRY(report(r, e->started));
    st = charl__session_load_weights(r->session, checkpoint, r->options->ema);
    CHARL_TRY(charl__rank_check_state(r, NULL, checkpoint, st));
    CHARL_TRY(charl__replica_evaluate(r, 0, out, what->report));
    if (what->repeats > 0) {
        CHARL_TRY(charl__replica_importance(r, out, what->repeats, what->measured, what->ctx));
    }
    out->elapsed_s = charl__clock_s() - begin;
    return CHARL_OK;
}

static charl_status evaluate_checkpoint(const charl_config *config, const charl_train_options *options,
                                        const char *checkpoint, const char *split, const evaluation *what,
                                        charl_val_row *out)
{
    const charl_train_events *e = &options->events;
    const int which = split_of(split);
    charl__session s = {.config = config,
                        .infers = true,
                        .origin = checkpoint,
                        .warned = charl_comm_rank(options->comm) == 0 ? e->warned : NULL,
                        .warned_ctx = e->ctx};
    charl__replica r = {.session = &s,
                        .config = config,
                        .options = options,
                        .comm = options->comm,
                        .reports = what->report != NULL,
                        .rereads = what->repeats > 0};
    charl_status st;

    CHARL_REQUIRE(which >= 0, CHARL_ERR_CONFIG, "there is no split %s; there are train, val and test", split);
    r.eval_split = (charl_split)which;
    st = evaluate(&r, checkpoint, what, out);
    if (st == CHARL_ERR_CONFIG) {
        charl__config_locate(config);
    }
    st = charl__replica_leave(&r, st);
    charl__replica_fini(&r);
    charl__session_fini(&s);
    return st;
}

charl_status charl_train_evaluate(const charl_config *config, const charl_train_options *options,
                                  const char *checkpoint, const char *split, charl_val_row *out,
                                  charl_eval_report **report_out)
{
    CHARL_GIVEN(config, options, checkpoint, split, out);
    CHARL__OPTIONS(charl_train_options, options);
    CHARL_GIVEN(options->comm);

    if (report_out) {
        *report_out = NULL;
    }
    return evaluate_checkpoint(config, options, checkpoint, split, &(evaluation){.report = report_out}, out);
}

charl_status charl_train_importance(const charl_config *config, const charl_train_options *options,
                                    const char *checkpoint, const char *split, int repeats,
                                    charl_status (*measured)(void *ctx, const charl_importance *importance), void *ctx,
                                    charl_val_row *out)
{
    CHARL_GIVEN(config, options, checkpoint, split, out);
    CHARL__OPTIONS(charl_train_options, options);
    CHARL_GIVEN(measured, options->comm);
    CHARL_REQUIRE(repeats >= 1 && repeats <= 1000, CHARL_ERR_INVALID, "%d repeats; there are 1 to 1000", repeats);
    return evaluate_checkpoint(config, options, checkpoint, split,
                               &(evaluation){.repeats = repeats, .measured = measured, .ctx = ctx}, out);
}

/* The trainer: schedule, and how a run begins and ends. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

#include "config/config_place.h"
#include "config/config_rows.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "charl/environment.h"
#include "dist/consensus.h"
#include "files/run.h"
#include "train/rank_check.h"

void charl__trainer_warn(const charl__trainer *t, const char *text)
{
    if (t->options->events.warned && text && text[0]) {
        t->options->events.warned(t->options->events.ctx, text);
    }
}

double charl__trainer_epoch(const charl__trainer *t)
{
    return (double)(t->replica.step * t->config->train.batch_size) / (double)t->session.data.rows[CHARL_SPLIT_TRAIN];
}

static charl_status plan_steps(charl__trainer *t)
{
    const charl_config *c = t->config;
    const int64_t n = t->session.data.rows[CHARL_SPLIT_TRAIN], batch = c->train.batch_size;

    charl__shuffle_name(c->data.shuffle, &t->session.data, t->shuffle);
    CHARL_REQUIRE(batch <= n, CHARL_ERR_CONFIG, "train.batch_size = %lld is more than the %lld training rows",
                  (long long)batch, (long long)n);
    t->total_steps = charl__config_steps(c, n);
    t->end_step = t->total_steps;
    if (t->options->fast_dev_run > 0 && t->options->fast_dev_run < t->end_step) {
        t->end_step = t->options->fast_dev_run;
    }
    t->schedule = charl__config_schedule(c, t->total_steps);
    CHARL_TRY(charl__config_name_option(charl_schedule_check(&t->schedule), "scheduler"));
    return charl__step_trace_check(t);
}

static charl_status open_sampler(charl__trainer *t)
{
    if (!t->config->eval.sample_prompt[0] || t->replaying || charl_comm_rank(t->comm) != 0) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(t->replica.eval, CHARL_ERR_CONFIG,
                  "eval.sample_prompt is continued at evaluations, which need a validation set: %s has none; HINT "
                  "data.val_split",
                  t->session.data.path);
    return charl__sampler_create(&t->session, (uint64_t)t->config->run.seed, &t->sampler);
}

/* The plan of the run, to one of the callbacks that take it. */
static charl_status report(const charl__trainer *t, charl_status (*event)(void *, const charl_train_info *))
{
    charl_train_info info = charl__replica_info(&t->replica);

    info.steps = t->end_step;
    info.resumed = t->resumed ? t->resumed : "";
    info.trace_first = t->step_trace.first;
    info.trace_last = t->step_trace.last;
    info.devices = t->energy.devices;
    return event ? event(t->options->events.ctx, &info) : CHARL_OK;
}

charl_status charl__trainer_describe(charl__trainer *t)
{
    const char *dir = t->config->run.output_dir;
    CHARL_SCOPED_FREE char *config = NULL, *environment = NULL;

    if (!t->writes || t->is_described || charl_comm_rank(t->comm) != 0) {
        return CHARL_OK;
    }
    t->is_described = true;
    CHARL_TRY(charl__trainer_record_start(t));
    CHARL_TRY(charl_config_print(t->config, false, &config));
    CHARL_TRY(charl__metrics_write_file(dir, "config.ini", config));
    CHARL_TRY(charl_environment_json(&environment));
    CHARL_TRY(charl__metrics_write_file(dir, "env.json", environment));
    return CHARL_OK;
}

/* The files of the run directory beside the checkpoints; it exists and is locked by now. A run that resumes is described after its first
 * step: until then all that is there was made with the settings of before, which those of a copy are. */
static charl_status open_files(charl__trainer *t)
{
    const charl_config *c = t->config;

    if (!t->resumes || t->from_copy) {
        CHARL_TRY(charl__trainer_describe(t));
    }
    if (!t->resumes || !charl__trainer_has_ended(t)) {
        CHARL_TRY(charl_metrics_open(c, c->run.output_dir, c->log.formats, t->replica.step, &t->metrics));
    }
    return CHARL_OK;
}

charl_status charl__trainer_report(charl__trainer *t)
{
    CHARL_TRY(charl__energy_begin(t));
    charl__step_trace_plan(t);
    if (t->writes && charl_comm_rank(t->comm) == 0) {
        CHARL_TRY(open_files(t));
    }
    return report(t, t->options->events.started);
}

charl_status charl__trainer_wrote_row(const charl__trainer *t, charl_status st)
{
    char text[1200];

    if (charl__metrics_loses_rows(t->metrics, st == CHARL_ERR_DISK)) {
        snprintf(text, sizeof text, "%s; rows are left out until it can be written again, and training continues",
                 charl_error_message());
        charl__trainer_warn(t, text);
    }
    return st == CHARL_ERR_DISK ? CHARL_OK : st;
}

charl_status charl__trainer_trained(const charl__trainer *t, const charl_train_row *row)
{
    const charl_train_events *e = &t->options->events;

    CHARL_TRY(e->trained ? e->trained(e->ctx, row) : CHARL_OK);
    return t->metrics ? charl__trainer_wrote_row(t, charl_metrics_train(t->metrics, row)) : CHARL_OK;
}

charl_status charl__trainer_evaluated(const charl__trainer *t, const charl_val_row *row)
{
    const charl_train_events *e = &t->options->events;

    CHARL_TRY(e->evaluated ? e->evaluated(e->ctx, row) : CHARL_OK);
    return t->metrics ? charl__trainer_wrote_row(t, charl_metrics_val(t->metrics, row)) : CHARL_OK;
}

charl_status charl__trainer_balanced(const charl__trainer *t, const charl_balance_row *row)
{
    const charl_train_events *e = &t->options->events;

    CHARL_TRY(e->balanced ? e->balanced(e->ctx, row) : CHARL_OK);
    return t->metrics ? charl__trainer_wrote_row(t, charl__metrics_balance(t->metrics, row)) : CHARL_OK;
}

charl_status charl__trainer_init(charl__trainer *t, const charl_config *config, const charl_train_options *options,
                                 const charl__replay_request *replaying)
{
    const charl_train_events *e = &options->events;

    *t = (charl__trainer){.config = config,
                          .options = options,
                          .replaying = replaying,
                          .comm = options->comm,
                          .best = charl__best_none,
                          .recorded_best = -1,
                          .kept = charl__best_none,
                          .resumed_step = -1,
                          .saved_step = -1,
                          .copied_step = -1,
                          .copy_cost_s = 0.1, /* a guess, until one has been made */
                          .started_s = charl__clock_s()};
    t->session = (charl__session){
        .config = config, .warned = charl_comm_rank(t->comm) == 0 ? e->warned : NULL, .warned_ctx = e->ctx};
    t->replica = (charl__replica){.session = &t->session,
                                  .config = config,
                                  .options = options,
                                  .comm = t->comm,
                                  .eval_split = CHARL_SPLIT_VAL,
                                  .replaying = replaying,
                                  .rows_of = config->dist.audit > 0 && !replaying ? charl__trainer_deliver : NULL,
                                  .ctx = t};
    t->last_save_s = t->last_eval_s = t->started_s;
    CHARL_TRY(charl__replica_open(&t->replica));
    t->config = t->session.config;
    CHARL_TRY(charl__comm_agreed(t->comm, plan_steps(t)));
    CHARL_TRY(charl__trainer_begin(t));
    CHARL_TRY(charl_comm_agree(t->comm, charl__trainer_check_start(t)));
    CHARL_TRY(charl__replica_build(&t->replica));
    CHARL_TRY(report(t, e->built));
    CHARL_TRY(charl__replica_compile(&t->replica));
    CHARL_TRY(charl_comm_agree(t->comm, open_sampler(t)));
    t->flop = charl__replica_info(&t->replica).flop;
    CHARL_TRY(charl_comm_reduce_f64(t->comm, CHARL_COMM_SUM, &t->flop, 1));
    return CHARL_OK;
}

void charl__trainer_fini(charl__trainer *t)
{
    charl__trainer_abandon_save(t);
    charl__sampler_destroy(t->sampler);
    charl__replica_fini(&t->replica);
    charl__session_fini(&t->session);
    charl_metrics_close(t->metrics);
    charl__run_close(t->run);
    charl__lock_fini(&t->lock);
    charl_free(t->resumed);
    *t = (charl__trainer){0};
}

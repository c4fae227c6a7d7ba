/* The window of steps that is traced. */
#include "train/metrics/step_trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "io/commit.h"
#include "train/metrics/trace_file.h"
#include "train/trainer.h"

enum { WARM_UP = 10, USUAL = 10, ROUNDS = 12 };

static bool is_wanted(const charl_train_options *options)
{
    return options->trace || options->profile;
}

charl_status charl__step_trace_check(const charl__trainer *t)
{
    const charl_train_options *o = t->options;

    if (is_wanted(o) && o->trace_last > 0) {
        CHARL_REQUIRE(o->trace_first >= 1 && o->trace_first <= o->trace_last, CHARL_ERR_CONFIG,
                      "steps %" PRId64 "-%" PRId64 " cannot be traced: steps begin at 1, and the range must ascend",
                      o->trace_first, o->trace_last);
        CHARL_REQUIRE(o->trace_last <= t->end_step, CHARL_ERR_CONFIG,
                      "steps %" PRId64 "-%" PRId64 " cannot be traced: the run ends with step %" PRId64, o->trace_first,
                      o->trace_last, t->end_step);
    }
    return CHARL_OK;
}

/* After ten steps, in which caches are filled and the host gets ahead; of a shorter run the second half. */
void charl__step_trace_plan(charl__trainer *t)
{
    const charl_train_options *o = t->options;
    const int64_t done = t->replica.step, left = t->end_step - done;
    charl__step_trace *s = &t->step_trace;

    *s = (charl__step_trace){0};
    if (!is_wanted(o) || left <= 0 || o->dry_run) {
        return;
    }
    if (o->trace_last > 0) {
        s->first = o->trace_first > done ? o->trace_first : done + 1;
        s->last = o->trace_last;
        if (s->last <= done) {
            *s = (charl__step_trace){0};
            charl__trainer_warn(t, "nothing is traced: the run resumes after the steps to trace");
        }
        return;
    }
    s->first = done + 1 + (left / 2 < WARM_UP ? left / 2 : WARM_UP);
    s->last = s->first + USUAL - 1 < t->end_step ? s->first + USUAL - 1 : t->end_step;
}

/* Times at which this rank entered and left a collective that no rank leaves before all have entered. */
typedef struct moments {
    double entered[ROUNDS], left[ROUNDS];
} moments;

/* For a test: the clock of a rank that is wrong. */
static double clock_of(void)
{
    int64_t wrong_us = 0;

    return charl__fault_arg("train.trace.clock", &wrong_us) ? charl__clock_s() + 1e-6 * (double)wrong_us
                                                            : charl__clock_s();
}

/* In the same round rank 0 entered before this rank left, and the other way round:
 *
 *     entered - left of rank 0 <= this clock - clock of rank 0 <= left - entered of rank 0
 *
 * Where that allows 0, the clocks are taken to be one, as those of a node are. */
static charl_status compare_clocks(charl_comm *comm, charl__clock_offset *out)
{
    charl_status st = CHARL_OK;
    const int size = charl_comm_size(comm);
    moments mine, *all = NULL;
    double least = -1e300, most = 1e300;
    char *nothing = NULL;

    st = charl__alloc_array(size, sizeof *all, &all);
    st = st == CHARL_OK ? charl__alloc_array(size, 1, &nothing) : st;
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
    for (int i = 0; i < ROUNDS; i++) {
        mine.entered[i] = clock_of();
        CHARL_TRY_CLEANUP(charl_comm_allgather(comm, "", 1, nothing));
        mine.left[i] = clock_of();
    }
    CHARL_TRY_CLEANUP(charl_comm_allgather(comm, &mine, sizeof mine, all));
    for (int i = 0; i < ROUNDS; i++) {
        least = fmax(least, mine.entered[i] - all[0].left[i]);
        most = fmin(most, mine.left[i] - all[0].entered[i]);
    }
    *out = (charl__clock_offset){
        .host_s = charl__clock_s(), .offset_s = (least + most) / 2, .error_s = (most - least) / 2};
    if (charl_comm_rank(comm) == 0 || (least <= 0 && most >= 0)) {
        out->offset_s = out->error_s = 0;
    }
cleanup:
    charl_free(nothing);
    charl_free(all);
    return st;
}

static void end_phase(charl__trainer *t)
{
    charl__step_trace *s = &t->step_trace;

    if (s->phase) {
        s->aside_s += s->is_aside ? charl__clock_s() - s->phase_begun : 0;
        charl__trace_end(charl__device_trace(t->session.dev), CHARL__LANE_HOST, s->phase, "", 0, s->phase_begun);
    }
    s->phase = NULL;
}

void charl__step_trace_phase(charl__trainer *t, const char *phase, bool is_aside)
{
    charl__step_trace *s = &t->step_trace;

    if (s->is_on) {
        end_phase(t);
        charl__trace_set_aside(charl__device_trace(t->session.dev), is_aside);
        s->phase = phase;
        s->is_aside = is_aside;
        s->phase_begun = charl__trace_begin(charl__device_trace(t->session.dev));
    }
}

/* Complete all steps, with a deadline. */
static charl_status complete(charl__trainer *t)
{
    charl__phase_mark(t->comm, t->replica.step, CHARL__PHASE_DEVICE);
    CHARL_TRY(charl__grad_reducer_verify(t->replica.dp->reducer));
    return charl_device_sync(t->session.dev);
}

charl_status charl__step_trace_begin(charl__trainer *t, charl__throughput *m)
{
    charl__step_trace *s = &t->step_trace;

    if (t->replica.step + 1 == s->first) {
        CHARL_TRY(complete(t));
        charl__throughput_pause(t, m);
        CHARL_TRY(compare_clocks(t->comm, &s->begin));
        CHARL_TRY(charl__device_trace_begin(t->session.dev));
        s->is_on = true;
        s->aside_s = 0;
        s->begun = charl__clock_s();
        charl__throughput_resume(t, m);
    }
    s->step_begun = charl__trace_begin(charl__device_trace(t->session.dev));
    return CHARL_OK;
}

/* The first moment of any rank is 0 on the time line. */
static charl_status set_zero(charl__trainer *t, charl__trace_clock *clock)
{
    const charl__trace *trace = charl__device_trace(t->session.dev);
    double zero = 1e300;

    for (int64_t i = 0; i < charl__trace_count(trace); i++) {
        const double begin_s = charl__trace_at(trace, i)->begin_s;

        zero = fmin(zero, begin_s - clock->offset_s - clock->drift * (begin_s - clock->host_s));
    }
    CHARL_TRY(charl_comm_reduce_f64(t->comm, CHARL_COMM_MIN, &zero, 1));
    clock->zero_s = zero;
    return CHARL_OK;
}

static charl_status name_process(const charl__trainer *t, charl__text *out)
{
    const int rank = charl_comm_rank(t->comm);
    const charl_device_info *d = charl_device_get_info(t->session.dev);

    return charl__text_printf(out, "rank %d: %s, %s%s%s", rank, charl_comm_host(t->comm, rank), d->name,
                              d->pci[0] ? " " : "", d->pci);
}

/* otherData, on rank 0 */
static charl_status describe(const charl__trainer *t, const charl_trace_row *row, double wall_s, charl__text *out)
{
    CHARL_TRY(charl__text_printf(out, "{\"program\":\"charl %s\",\"run\":", charl_version()));
    CHARL_TRY(charl__text_json(out, t->config->run.name));
    CHARL_TRY(charl__text_printf(out,
                                 ",\"run_id\":\"%s\",\"ranks\":%d,\"first_step\":%" PRId64 ",\"last_step\":%" PRId64,
                                 t->run_id, charl_comm_size(t->comm), row->first, row->last));
    CHARL_TRY(charl__text_printf(out, ",\"zero_s\":"));
    CHARL_TRY(charl__text_json_number(out, wall_s));
    CHARL_TRY(charl__text_printf(out, ",\"all_reduce_hidden\":"));
    CHARL_TRY(charl__text_json_number(out, row->hidden));
    CHARL_TRY(charl__text_printf(out, ",\"clock_error_us\":"));
    CHARL_TRY(charl__text_json_number(out, row->clock_error_us));
    return charl__text_printf(out, ",\"spans\":%" PRId64 ",\"lost\":%" PRId64 "}", row->spans, row->lost);
}

/* FILE, or trace.json in the run directory, or here where there is none. */
static charl_status find_path(const charl__trainer *t, char **out)
{
    const char *name = t->options->trace;

    if (name[0]) {
        return charl__strdup(name, out);
    }
    return t->writes ? charl__commit_join(t->config->run.output_dir, "trace.json", out)
                     : charl__strdup("trace.json", out);
}

static charl_status write_file(charl__trainer *t, charl__trace_clock *clock, charl_trace_row *row)
{
    charl_status st = CHARL_OK, written = CHARL_OK;
    charl__text events = {0}, process = {0}, other = {0};
    char *path = NULL;
    double wall_s;

    CHARL_TRY_CLEANUP(set_zero(t, clock));
    wall_s = charl__clock_wall_s() - (charl__clock_s() - clock->offset_s - clock->zero_s);
    st = name_process(t, &process);
    st = st == CHARL_OK ? charl__trace_print(charl__device_trace(t->session.dev), clock, charl_comm_rank(t->comm),
                                             charl__text_string(&process), &events)
                        : st;
    st = st == CHARL_OK ? describe(t, row, wall_s, &other) : st;
    st = st == CHARL_OK ? find_path(t, &path) : st;
    CHARL_TRY_CLEANUP(charl_comm_agree(t->comm, st));
    CHARL_TRY_CLEANUP(charl__trace_gather(t->comm, &events, path, charl__text_string(&other), &written));
    if (written != CHARL_OK) {
        charl__error_prefix("the trace is not written: ");
        charl__trainer_warn(t, charl_error_message());
    }
    row->ms = (charl__clock_s() - row->ms) * 1e3;
    row->path = written == CHARL_OK ? path : NULL;
    CHARL_TRY_CLEANUP(t->options->events.traced ? t->options->events.traced(t->options->events.ctx, row) : CHARL_OK);
cleanup:
    charl_free(path);
    charl__text_fini(&events);
    charl__text_fini(&process);
    charl__text_fini(&other);
    return st;
}

/* Of all ranks. */
static charl_status sum_up(charl__trainer *t, charl_trace_row *row)
{
    const charl__trace *trace = charl__device_trace(t->session.dev);
    double v[2] = {0, 0};
    int64_t n[2] = {charl__trace_count(trace), row->lost};

    CHARL_TRY(charl_comm_agree(t->comm, charl__trace_overlap(trace, &v[0], &v[1])));
    CHARL_TRY(charl_comm_reduce_f64(t->comm, CHARL_COMM_SUM, v, 2));
    CHARL_TRY(charl_comm_reduce_i64(t->comm, CHARL_COMM_SUM, n, 2));
    CHARL_TRY(charl_comm_reduce_f64(t->comm, CHARL_COMM_MAX, &row->clock_error_us, 1));
    row->hidden = v[0] > 0 ? v[1] / v[0] : (double)NAN;
    row->spans = n[0];
    row->lost = n[1];
    return CHARL_OK;
}

static charl_status finish(charl__trainer *t)
{
    charl__step_trace *s = &t->step_trace;
    charl__clock_offset end;
    charl_trace_row row = {
        .first = s->first, .last = t->replica.step >= s->first ? t->replica.step : s->first, .ms = charl__clock_s()};
    charl__trace_clock clock = {.host_s = s->begin.host_s, .offset_s = s->begin.offset_s};
    double device_error_s = 0;

    s->is_on = false;
    s->step_s = (charl__clock_s() - s->begun - s->aside_s) / (double)(row.last - row.first + 1);
    CHARL_TRY(charl__device_trace_end(t->session.dev, &device_error_s, &row.lost));
    CHARL_TRY(compare_clocks(t->comm, &end));
    if (end.host_s > clock.host_s) {
        clock.drift = (end.offset_s - clock.offset_s) / (end.host_s - clock.host_s);
    }
    row.clock_error_us = 1e6 * (device_error_s + fmax(s->begin.error_s, end.error_s));
    CHARL_TRY(sum_up(t, &row));
    if (t->options->trace) {
        CHARL_TRY(write_file(t, &clock, &row));
    }
    return CHARL_OK;
}

charl_status charl__step_trace_end(charl__trainer *t, charl__throughput *m)
{
    charl__step_trace *s = &t->step_trace;
    char step[48];

    if (!s->is_on) {
        return CHARL_OK;
    }
    end_phase(t);
    charl__trace_set_aside(charl__device_trace(t->session.dev), false);
    snprintf(step, sizeof step, "step %" PRId64, t->replica.step);
    charl__trace_end(charl__device_trace(t->session.dev), CHARL__LANE_HOST, step, "", 0, s->step_begun);
    if (t->replica.step >= s->last || t->replica.step == t->end_step || charl__trainer_is_over(t)) {
        CHARL_TRY(charl__step_trace_close(t, m));
    }
    return CHARL_OK;
}

charl_status charl__step_trace_close(charl__trainer *t, charl__throughput *m)
{
    charl__step_trace *s = &t->step_trace;

    if (!s->is_on) {
        return CHARL_OK;
    }
    s->phase = NULL; /* of a step that does not come */
    charl__trace_set_aside(charl__device_trace(t->session.dev), false);
    CHARL_TRY(complete(t));
    charl__throughput_pause(t, m);
    CHARL_TRY(finish(t));
    if (t->options->profile) {
        CHARL_TRY(charl__profile_report(t));
    }
    charl__throughput_resume(t, m);
    return CHARL_OK;
}

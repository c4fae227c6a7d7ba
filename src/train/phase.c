/* Phases of a rank's work, and the ways in which a test can lose a rank in one of them. */
#include "train/phase.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "tensor/params.h"

typedef charl_status (*way_of_failing)(int64_t arg, charl_params *params);

static charl_status way_kill(int64_t arg, charl_params *params)
{
    (void)arg;
    (void)params;
    raise(SIGKILL);
    return CHARL_OK;
}

static charl_status way_stop(int64_t arg, charl_params *params)
{
    (void)arg;
    (void)params;
    raise(SIGSTOP);
    return CHARL_OK;
}

static charl_status way_segv(int64_t arg, charl_params *params)
{
    (void)arg;
    (void)params;
    signal(SIGSEGV, SIG_DFL); /* drivers and sanitizers have handlers that talk a lot */
    raise(SIGSEGV);
    return CHARL_OK;
}

static charl_status way_hang(int64_t arg, charl_params *params)
{
    (void)params;
    charl__sleep_s(arg > 0 ? (double)arg : 3600.0);
    return CHARL_OK;
}

static charl_status way_spin(int64_t arg, charl_params *params)
{
    const double until = charl__clock_s() + (arg > 0 ? (double)arg : 3600.0);

    (void)params;
    while (charl__clock_s() < until) {
    }
    return CHARL_OK;
}

static charl_status way_exit(int64_t arg, charl_params *params)
{
    (void)params;
    exit((int)arg);
}

static charl_status way_fail(int64_t arg, charl_params *params)
{
    (void)arg;
    (void)params;
    return charl__error_set(CHARL_ERR_DEVICE, __FILE__, __LINE__, __func__, "the device fails on purpose");
}

/* A bit of the first value of the first parameter, as a weak memory cell would: of the mantissa the
 * highest, as the roundings of the updates may swallow the lowest. */
static charl_status way_flip(int64_t arg, charl_params *params)
{
    charl_status st = CHARL_OK;
    charl_param *p = params ? charl_params_get(params, 0) : NULL;
    uint32_t bits;
    float *v = NULL;

    (void)arg;
    if (p) {
        CHARL_TRY_CLEANUP(charl_alloc_array(charl_shape_count(&charl_param_get_spec(p)->shape), sizeof *v, &v));
        CHARL_TRY_CLEANUP(charl_param_read(p, v));
        memcpy(&bits, v, sizeof bits);
        bits ^= 1U << 22;
        memcpy(v, &bits, sizeof bits);
        CHARL_TRY_CLEANUP(charl_param_write(p, v));
    }
cleanup:
    charl_free(v);
    return st;
}

/* The first gradient of this rank, before those of all are added up (but for GPUs that began to).
 */
static charl_status way_nan(int64_t arg, charl_params *params)
{
    static const float nan = NAN;

    (void)arg;
    return params && params->grad ? charl__buffer_write(CHARL_QUEUE_COMPUTE, params->grad, 0, &nan, sizeof nan, true)
                                  : CHARL_OK;
}

static const struct {
    const char *name;
    way_of_failing lose;
} ways[] = {{"kill", way_kill}, {"stop", way_stop}, {"segv", way_segv}, {"hang", way_hang}, {"spin", way_spin},
            {"exit", way_exit}, {"fail", way_fail}, {"flip", way_flip}, {"nan", way_nan}};

charl_status charl__phase_fault(const char *word, charl_params *params)
{
    char point[48];

    for (size_t i = 0; charl__fault_any() && i < sizeof ways / sizeof ways[0]; i++) {
        int64_t arg = 0;

        snprintf(point, sizeof point, "train.%s.%s", word, ways[i].name);
        if (charl__fault_arg(point, &arg)) {
            CHARL_TRY(ways[i].lose(arg, params));
        }
    }
    return CHARL_OK;
}

static const struct {
    const char *word, *text;
} phases[CHARL__PHASE_COUNT] = {
#define X(id, word, text) {word, text},
    CHARL__PHASE_LIST(X)
#undef X
};

void charl__phase_mark(charl_comm *c, int64_t step, charl__phase phase)
{
    charl_comm_mark(c, step, phases[phase].text);
}

charl_status charl__phase_enter(charl_comm *c, int64_t step, charl__phase phase, charl_params *params)
{
    charl__phase_mark(c, step, phase);
    return charl__phase_fault(phases[phase].word, params);
}

/* Phases of a rank's work, and the faults of a rank that concern its parameters. */
#include "train/metrics/phase.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "tensor/params.h"

typedef charl_status (*way_of_failing)(charl_params *params);

/* A bit of the first value of the first parameter, as a weak memory cell would: of the mantissa the
 * highest, as the roundings of the updates may swallow the lowest. */
static charl_status way_flip(charl_params *params)
{
    charl_status st = CHARL_OK;
    charl_param *p = params ? charl_params_get(params, 0) : NULL;
    uint32_t bits;
    float *v = NULL;

    if (p) {
        CHARL_TRY_CLEANUP(charl__alloc_array(charl_shape_count(&charl_param_get_spec(p)->shape), sizeof *v, &v));
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
static charl_status way_nan(charl_params *params)
{
    static const float nan = NAN;

    return params && params->grad ? charl__buffer_write(CHARL_QUEUE_COMPUTE, params->grad, 0, &nan, sizeof nan, true)
                                  : CHARL_OK;
}

static const struct {
    const char *name;
    way_of_failing corrupt;
} ways[] = {{"flip", way_flip}, {"nan", way_nan}};

/* What a fault asks for, as train.WORD.FAULT. */
static charl_status pass_fault(const char *word, charl_params *params)
{
    char point[48];

    if (!charl__fault_any()) {
        return CHARL_OK;
    }
    snprintf(point, sizeof point, "train.%s", word);
    CHARL_TRY(charl_fault(point));
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        snprintf(point, sizeof point, "train.%s.%s", word, ways[i].name);
        if (charl__fault(point)) {
            CHARL_TRY(ways[i].corrupt(params));
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

const char *charl__phase_text(charl__phase phase)
{
    return phases[phase].text;
}

void charl__phase_mark(charl_comm *c, int64_t step, charl__phase phase)
{
    charl_comm_mark(c, step, phases[phase].text);
}

charl_status charl__phase_enter(charl_comm *c, int64_t step, charl__phase phase, charl_params *params)
{
    charl__phase_mark(c, step, phase);
    return pass_fault(phases[phase].word, params);
}

/* Phases of a rank's work, and injected faults that affect its parameters. */
#include "parallel/phase.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "tensor/params.h"

typedef charl_status (*way_of_failing)(charl_params *params, int64_t arg);

/* Flip a bit of an arena laid out like the parameters, like a weak memory cell: bit arg % 32 of float arg / 32, counted from the highest bit
 * of the mantissa of the first parameter, because rounding in the updates may hide the lowest. */
static charl_status flip(const charl_params *set, charl__buffer *arena, int64_t elements, int64_t arg)
{
    const charl_param *p = charl_params_get(set, 0);
    const int64_t first = p->spec.trainable ? p->offset : 0;
    const size_t at = (size_t)((first + arg / 32) % elements) * sizeof(uint32_t);
    uint32_t bits;

    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, arena, at, &bits, sizeof bits, true));
    bits ^= 1U << (arg + 22) % 32;
    return charl__buffer_write(CHARL_QUEUE_COMPUTE, arena, at, &bits, sizeof bits, true);
}

static charl_status way_flip(charl_params *params, int64_t arg)
{
    if (!params || !params->value || params->value_elements == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(flip(params, params->value, params->value_elements, arg));
    params->is_changed = true;
    return charl__params_refresh(params);
}

/* Of this rank's first lane: it is computed from the phase `device` on, summed from `optimizer` on. */
static charl_status way_flip_gradient(charl_params *params, int64_t arg)
{
    return params && params->grad ? flip(params, params->grad, params->elements, arg) : CHARL_OK;
}

/* Of the sums, which exist in the phase `optimizer`. */
static charl_status way_flip_sum(charl_params *params, int64_t arg)
{
    return params && params->sum ? flip(params, params->sum, params->elements, arg) : CHARL_OK;
}

/* The first gradient of this rank, before those of all are added up (but for GPUs that began to).
 */
static charl_status way_nan(charl_params *params, int64_t arg)
{
    static const float nan = NAN;

    (void)arg;
    return params && params->grad ? charl__buffer_write(CHARL_QUEUE_COMPUTE, params->grad, 0, &nan, sizeof nan, true)
                                  : CHARL_OK;
}

static const struct {
    const char *name;
    way_of_failing corrupt;
} ways[] = {{"flip", way_flip}, {"flip_gradient", way_flip_gradient}, {"flip_sum", way_flip_sum}, {"nan", way_nan}};

/* The effect of a fault, by its name train.WORD.FAULT. */
static charl_status pass_fault(const char *word, charl_params *params)
{
    char point[48];
    int64_t arg;

    if (!charl__fault_any()) {
        return CHARL_OK;
    }
    snprintf(point, sizeof point, "train.%s", word);
    CHARL_TRY(charl_fault(point));
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        snprintf(point, sizeof point, "train.%s.%s", word, ways[i].name);
        if (charl__fault_arg(point, &arg)) {
            CHARL_TRY(ways[i].corrupt(params, arg));
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

/* Horizontal fusion: two independent launches of the same kernel are recorded as a single launch.
 *
 * Small models spend their time on launch overhead, and many of their products do not depend on one another. While recording, the last
 * launch that can be part of a pair is held back. If the next one fits and neither touches what the other writes, both are recorded as
 * one launch of the kernel ENTRY_pair. All earlier launches still run before both.
 */
#include <string.h>

#include "base/env.h"
#include "base/text/text.h"
#include "device/device_private.h"

static bool is_writer(charl__arg_kind kind)
{
    return kind == CHARL_ARG_OUT || kind == CHARL_ARG_INOUT;
}

/* Whether a and b may touch the same bytes and one of them writes. An argument with count 0 uses the rest of its buffer. */
static bool interfere(const charl__arg *a, const charl__arg *b)
{
    const uint64_t a_first = (uint64_t)a->v.offset * a->size, a_end = a_first + (uint64_t)a->count * a->size;
    const uint64_t b_first = (uint64_t)b->v.offset * b->size, b_end = b_first + (uint64_t)b->count * b->size;

    if (!charl__arg_is_buffer(a->kind) || !charl__arg_is_buffer(b->kind) || !a->buffer || a->buffer != b->buffer ||
        (!is_writer(a->kind) && !is_writer(b->kind))) {
        return false;
    }
    return a->count == 0 || b->count == 0 || (a_first < b_end && b_first < a_end);
}

static int count_args(const charl__launch *l)
{
    int n = 0;

    while (n < CHARL_MAX_ARGS && l->args[n].kind != CHARL_ARG_END) {
        n++;
    }
    return n;
}

static bool are_apart(const charl__launch *x, const charl__launch *y)
{
    const int nx = count_args(x), ny = count_args(y);

    for (int i = 0; i < nx; i++) {
        for (int k = 0; k < ny; k++) {
            if (interfere(&x->args[i], &y->args[k])) {
                return false;
            }
        }
    }
    return nx + ny + 1 < CHARL_MAX_ARGS;
}

static bool fits(const charl__launch *first, const charl__launch *second)
{
    return first->pair_first && second->pair_second && strcmp(first->file, second->file) == 0 &&
           strcmp(first->entry, second->entry) == 0 && first->queue == second->queue &&
           first->pair_form == second->pair_form && first->local[0] == second->local[0] && first->global[1] <= 1 &&
           second->global[1] <= 1;
}

bool charl__launch_pair_fits(const charl__launch *a, const charl__launch *b, const charl__launch **first)
{
    *first = fits(a, b) ? a : b;
    return (fits(a, b) || fits(b, a)) && are_apart(a, b) && !charl__env_is_on(CHARL_ENV_NO_FUSION) &&
           !charl__env_is_on(CHARL_ENV_CHECK_FINITE);
}

charl_status charl__launch_pair(charl_device *dev, const charl__launch *first, const charl__launch *second)
{
    charl__launch both = *first;
    CHARL_SCOPED(charl__text_fini) charl__text entry = {0}, label = {0};
    int n = count_args(first);

    charl__launch_set_all(&both, second->pair_params);
    charl__launch_set(&both, "PAIR", 1);
    CHARL_TRY(charl__text_printf(&entry, "%s_pair", first->entry));
    CHARL_TRY(charl__text_printf(&label, "%s & %s", first->label ? first->label : first->file,
                                 second->label ? second->label : second->file));
    for (int i = 0; i < count_args(second); i++) {
        both.args[n++] = second->args[i];
    }
    both.args[n] = charl__i32((int32_t)(first->global[0] / first->local[0]));
    both.global[0] += second->global[0];
    both.entry = charl__text_string(&entry);
    both.label = charl__text_string(&label);
    both.pair_first = both.pair_second = false;
    CHARL_TRY(charl__launch_enqueue(dev, &both));
    return CHARL_OK;
}

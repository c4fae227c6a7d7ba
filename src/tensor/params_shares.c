/* Ranges of a lane of gradients, and the shares of parameters that are used several times. */
#include "base/error.h"
#include "tensor/params.h"

charl_status charl__params_share(charl_param *p, int n)
{
    charl_params *set = p->set;
    const int64_t each = charl__param_blocks(p) * CHARL_PARAM_ALIGN;

    CHARL_INVARIANT(charl__params_is_laid_out(set));
    if (p->n_shares == n) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(p->n_shares == 0 && !set->grad, CHARL_ERR_INVALID,
                  "%s is used %d times in this graph, and %d times in another", p->spec.name, n + 1, p->n_shares + 1);
    p->n_shares = n;
    p->shares = set->gradient_elements;
    set->gradient_elements = charl__params_pages(p->shares + n * each);
    return CHARL_OK;
}

int64_t charl__param_gradient_at(const charl_param *p, int k)
{
    return k == 0 ? p->offset : p->shares + (k - 1) * charl__param_blocks(p) * CHARL_PARAM_ALIGN;
}

typedef struct piece {
    int64_t begin, count;
    bool alone;
} piece;

/* The first trainable parameter or share that starts at or after `at`. */
static piece piece_from(const charl_params *set, int64_t at)
{
    piece first = {.begin = INT64_MAX};

    for (int i = 0; i < set->count; i++) {
        const charl_param *p = set->param[i];
        const int64_t count = charl__param_blocks(p) * CHARL_PARAM_ALIGN;

        for (int k = 0; p->spec.trainable && count > 0 && k <= p->n_shares; k++) {
            const int64_t begin = charl__param_gradient_at(p, k);

            if (begin >= at && begin < first.begin) {
                first = (piece){begin, count, p->n_shares > 0};
            }
        }
    }
    return first;
}

int64_t charl__params_range(const charl_params *set, int64_t *begin, int64_t least)
{
    piece p = piece_from(set, *begin);
    int64_t end = p.begin;

    if (p.begin == INT64_MAX) {
        return *begin;
    }
    *begin = p.begin;
    do {
        end = p.begin + p.count;
        if (p.alone) {
            break;
        }
        p = piece_from(set, end);
    } while (p.begin == end && !p.alone && end - *begin < least);
    return end;
}

charl_status charl__params_join(charl_params *set)
{
    for (int i = 0; i < set->count; i++) {
        const charl_param *p = set->param[i];

        for (int k = 1; k <= p->n_shares; k++) {
            charl__arg sum = charl__raw(CHARL_ARG_INOUT, set->sum), share = charl__raw(CHARL_ARG_IN, set->sum);

            sum.v.offset = p->offset;
            share.v.offset = charl__param_gradient_at(p, k);
            CHARL_TRY(charl__accumulate(set->dev, sum, share, charl__param_blocks(p) * CHARL_PARAM_ALIGN, false,
                                        p->spec.name));
        }
    }
    return CHARL_OK;
}

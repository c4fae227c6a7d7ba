/* Control collectives: the transport's, waited for with a deadline. Rare or tiny; what must be fast
 * goes through shared memory (allreduce_shm.c, reducer.c). */
#include "dist/comm_private.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { MESSAGE_BYTES = 2048, VALUES = 16 /* reduced at once */ };

charl_status charl_comm_allgather(charl_comm *c, const void *mine, size_t bytes, void *all)
{
    int sizes[CHARL_MAX_SLICES], at[CHARL_MAX_SLICES];
    charl__request request;

    CHARL_REQUIRE(bytes <= INT_MAX / (size_t)c->size, CHARL_ERR_INVALID, "all-gather of %zu bytes", bytes);
    CHARL_TRY(charl__comm_check(c));
    charl__parts_equal(c->size, bytes, sizes, at);
    if (bytes > 0) {
        memmove((unsigned char *)all + at[c->rank], mine, bytes);
    }
    charl__comm_enter(c);
    CHARL_TRY(c->world->transport->allgather(c->world, &(charl__parts){all, 1, sizes, at}, &request));
    CHARL_TRY(charl__comm_finish(c, c->world, &request, "all-gather"));
    return CHARL_OK;
}

/* No rank has a byte of every rank before every rank has arrived. */
charl_status charl_comm_barrier(charl_comm *c)
{
    const char here = 1;
    char all[CHARL_MAX_SLICES];

    CHARL_TRY(charl_comm_allgather(c, &here, sizeof here, all));
    return CHARL_OK;
}

charl_status charl_comm_broadcast(charl_comm *c, void *data, size_t bytes, int root)
{
    const size_t most = (size_t)1 << 30;

    CHARL_REQUIRE(root >= 0 && root < c->size, CHARL_ERR_INVALID, "broadcast from rank %d of %d", root, c->size);
    CHARL_TRY(charl__comm_check(c));
    for (size_t at = 0; at < bytes; at += most) {
        const size_t left = bytes - at < most ? bytes - at : most;
        charl__request request;

        charl__comm_enter(c);
        CHARL_TRY(c->world->transport->broadcast(c->world, (unsigned char *)data + at, left, root, &request));
        CHARL_TRY(charl__comm_finish(c, c->world, &request, "broadcast"));
    }
    return CHARL_OK;
}

void charl_comm_break(charl_comm *c)
{
    c->is_broken = true;
}

charl_status charl_comm_agreed(charl_comm *c, charl_status st)
{
    if (st != CHARL_OK && !c->is_broken) {
        c->agreed_error = charl__error_number();
    }
    return st;
}

bool charl_comm_is_agreed(const charl_comm *c)
{
    return c->size == 1 || c->agreed_error == charl__error_number();
}

charl_status charl_comm_agree(charl_comm *c, charl_status mine)
{
    charl_status all[CHARL_MAX_SLICES];
    char text[MESSAGE_BYTES], name[160];
    int worst = 0;

    if (c->is_broken && mine != CHARL_OK) {
        return mine; /* the others cannot be asked */
    }
    CHARL_TRY(charl__comm_check(c));
    if (c->size == 1) {
        return mine;
    }
    snprintf(text, sizeof text, "%s", mine == CHARL_OK ? "" : charl_error_message());
    CHARL_TRY(charl_comm_allgather(c, &mine, sizeof mine, all));
    for (int r = 1; r < c->size; r++) {
        worst = all[r] > all[worst] ? r : worst;
    }
    if (all[worst] == CHARL_OK) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_comm_broadcast(c, text, sizeof text, worst));
    return charl_comm_agreed(c, charl_error_set(all[worst], __FILE__, __LINE__, __func__, "%s: %s",
                                                charl__peer_name(c, worst, name, sizeof name), text));
}

static void fold_i64(charl_comm_op op, void *to, const void *from)
{
    int64_t *a = to;
    const int64_t b = *(const int64_t *)from;

    *a = op == CHARL_COMM_SUM ? *a + b : (op == CHARL_COMM_MIN) == (b < *a) ? b : *a;
}

static void fold_f64(charl_comm_op op, void *to, const void *from)
{
    double *a = to;
    const double b = *(const double *)from;

    *a = op == CHARL_COMM_SUM ? *a + b : (op == CHARL_COMM_MIN) == (b < *a) ? b : *a;
}

/* Every rank folds the values of all, in the order of the ranks. */
static charl_status reduce_any(charl_comm *c, charl_comm_op op, unsigned char *v, int count,
                               void (*fold)(charl_comm_op, void *, const void *))
{
    enum { VALUE = 8 };
    _Alignas(VALUE) unsigned char all[CHARL_MAX_SLICES * VALUES * VALUE];

    CHARL_REQUIRE((unsigned)op < CHARL_COMM_OP_COUNT && count >= 0, CHARL_ERR_INVALID, "reduction %d of %d values",
                  (int)op, count);
    for (int at = 0; at < count; at += VALUES) {
        const int n = count - at < VALUES ? count - at : VALUES;

        CHARL_TRY(charl_comm_allgather(c, v + at * VALUE, (size_t)n * VALUE, all));
        memcpy(v + at * VALUE, all, (size_t)n * VALUE);
        for (int k = n; k < n * c->size; k++) {
            fold(op, v + (at + k % n) * VALUE, all + k * VALUE);
        }
    }
    return CHARL_OK;
}

charl_status charl_comm_reduce_i64(charl_comm *c, charl_comm_op op, int64_t *v, int count)
{
    return reduce_any(c, op, (unsigned char *)v, count, fold_i64);
}

charl_status charl_comm_reduce_f64(charl_comm *c, charl_comm_op op, double *v, int count)
{
    return reduce_any(c, op, (unsigned char *)v, count, fold_f64);
}

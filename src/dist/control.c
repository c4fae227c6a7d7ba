/* Control collectives: the transport's, with a deadline. They are rare or small; what must be fast
 * uses shared memory (allreduce_shm.c, reducer.c). */
#include "dist/comm_private.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "dist/allreduce/parts.h"
#include "dist/consensus.h"

enum { MESSAGE_BYTES = 2048, VALUES = 512 /* reduced at once */ };

static charl_status allgather(charl_comm *c, charl__group *g, const void *mine, size_t bytes, void *all)
{
    charl__request request;

    CHARL_REQUIRE(bytes <= INT_MAX / (size_t)g->size, CHARL_ERR_INVALID,
                  "all-gather of %zu bytes from each of %d ranks: 2 GiB or more in all", bytes, g->size);
    CHARL_TRY(charl__comm_check(c));
    charl__parts_equal(g->size, bytes, c->counts, c->places);
    if (bytes > 0) {
        memmove((unsigned char *)all + c->places[g->rank], mine, bytes);
    }
    charl__comm_enter(c);
    CHARL_TRY(g->transport->allgather(g, &(charl__parts){all, 1, c->counts, c->places}, &request));
    CHARL_TRY(charl__comm_finish(c, g, &request, "all-gather"));
    return CHARL_OK;
}

charl_status charl_comm_allgather(charl_comm *c, const void *mine, size_t bytes, void *all)
{
    CHARL_GIVEN(c, mine || bytes == 0, all || bytes == 0);
    return allgather(c, c->world, mine, bytes, all);
}

charl_status charl__comm_allgather_node(charl_comm *c, const void *mine, size_t bytes, void *all)
{
    return allgather(c, c->node, mine, bytes, all);
}

/* No rank has the sum over all before every rank has arrived. */
charl_status charl_comm_barrier(charl_comm *c)
{
    CHARL_GIVEN(c);
    int64_t here = 1;

    return charl_comm_reduce_i64(c, CHARL_COMM_SUM, &here, 1);
}

charl_status charl_comm_broadcast(charl_comm *c, void *data, size_t bytes, int root)
{
    CHARL_GIVEN(c, data || bytes == 0);
    const size_t most = (size_t)1 << 30;

    CHARL_REQUIRE(root >= 0 && root < c->size, CHARL_ERR_INVALID,
                  "there is no rank %d to broadcast from: the communicator has %d", root, c->size);
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
    if (!c) {
        return;
    }
    c->is_broken = true;
}

charl_status charl__comm_agreed(charl_comm *c, charl_status st)
{
    if (!c) {
        return st;
    }
    if (st != CHARL_OK && !c->is_broken) {
        c->agreed_error = charl__error_number();
    }
    return st;
}

bool charl__comm_is_agreed(const charl_comm *c)
{
    return c && (c->size == 1 || c->agreed_error == charl__error_number());
}

charl_status charl_comm_agree(charl_comm *c, charl_status mine)
{
    CHARL_GIVEN(c);
    char text[MESSAGE_BYTES], name[160];
    int64_t worst = (int64_t)mine * c->size + (c->size - 1 - c->rank); /* among equal ones the lowest rank */
    charl_status status;
    int rank;

    if (c->is_broken && mine != CHARL_OK) {
        return mine; /* the others cannot be asked */
    }
    CHARL_TRY(charl__comm_check(c));
    if (c->size == 1) {
        return mine;
    }
    snprintf(text, sizeof text, "%s", mine == CHARL_OK ? "" : charl_error_message());
    CHARL_TRY(charl_comm_reduce_i64(c, CHARL_COMM_MAX, &worst, 1));
    status = (charl_status)(worst / c->size);
    rank = c->size - 1 - (int)(worst % c->size);
    if (status == CHARL_OK) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_comm_broadcast(c, text, sizeof text, rank));
    return charl__comm_agreed(c, charl_error_set(status, __FILE__, __LINE__, __func__, "%s: %s",
                                                 charl__peer_name(c, rank, name, sizeof name), text));
}

static charl_status check_reduction(charl_comm_op op, int count)
{
    CHARL_REQUIRE((unsigned)op < CHARL_COMM_OP_COUNT && count >= 0, CHARL_ERR_INVALID,
                  "operation %d on %d values; the operations are those of charl_comm_op", (int)op, count);
    return CHARL_OK;
}

/* Integers have the same sum in any order: the transport adds them. */
charl_status charl_comm_reduce_i64(charl_comm *c, charl_comm_op op, int64_t *v, int count)
{
    CHARL_GIVEN(c, v || count == 0);
    int64_t mine[VALUES];

    CHARL_TRY(check_reduction(op, count));
    for (int at = 0; at < count; at += VALUES) {
        const int n = count - at < VALUES ? count - at : VALUES;
        charl__request request;

        CHARL_TRY(charl__comm_check(c));
        memcpy(mine, v + at, (size_t)n * sizeof *v);
        charl__comm_enter(c);
        CHARL_TRY(c->world->transport->reduce(c->world, op, mine, v + at, n, &request));
        CHARL_TRY(charl__comm_finish(c, c->world, &request, "reduction"));
    }
    return CHARL_OK;
}

static void fold_f64(charl_comm_op op, double *a, double b)
{
    *a = op == CHARL_COMM_SUM ? *a + b : (op == CHARL_COMM_MIN) == (b < *a) ? b : *a;
}

/* Every rank folds the values of all, in the order of the ranks. */
charl_status charl_comm_reduce_f64(charl_comm *c, charl_comm_op op, double *v, int count)
{
    CHARL_GIVEN(c, v || count == 0);
    CHARL_TRY(check_reduction(op, count));
    for (int at = 0; at < count; at += CHARL__GATHERED) {
        const int n = count - at < CHARL__GATHERED ? count - at : CHARL__GATHERED;

        CHARL_TRY(charl_comm_allgather(c, v + at, (size_t)n * sizeof *v, c->gathered));
        memcpy(v + at, c->gathered, (size_t)n * sizeof *v);
        for (int k = n; k < n * c->size; k++) {
            fold_f64(op, v + at + k % n, c->gathered[k]);
        }
    }
    return CHARL_OK;
}

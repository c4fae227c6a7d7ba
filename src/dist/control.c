/* Control collectives: MPI's nonblocking ones, waited for with a deadline. Rare or tiny; what must
 * be fast goes through shared memory (allreduce_window.c, reducer.c). */
#include "dist/comm_private.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { MESSAGE_BYTES = 2048 };

charl_status charl_comm_barrier(charl_comm *c)
{
    charl_status st = CHARL_OK;
    MPI_Request request;

    CHARL_TRY(charl__comm_check(c));
    charl__comm_enter(c);
    CHARL_MPI(MPI_Ibarrier(c->world, &request));
    CHARL_TRY(charl__comm_finish(c, &request, "barrier"));
cleanup:
    return st;
}

charl_status charl_comm_broadcast(charl_comm *c, void *data, size_t bytes, int root)
{
    charl_status st = CHARL_OK;
    const size_t most = (size_t)1 << 30;

    CHARL_REQUIRE(root >= 0 && root < c->size, CHARL_ERR_INVALID, "broadcast from rank %d of %d",
                  root, c->size);
    CHARL_TRY(charl__comm_check(c));
    for (size_t at = 0; at < bytes; at += most) {
        const size_t left = bytes - at < most ? bytes - at : most;
        MPI_Request request;

        charl__comm_enter(c);
        CHARL_MPI(
            MPI_Ibcast((unsigned char *)data + at, (int)left, MPI_BYTE, root, c->world, &request));
        CHARL_TRY(charl__comm_finish(c, &request, "broadcast"));
    }
cleanup:
    return st;
}

charl_status charl_comm_allgather(charl_comm *c, const void *mine, size_t bytes, void *all)
{
    charl_status st = CHARL_OK;
    MPI_Request request;

    CHARL_REQUIRE(bytes <= INT_MAX / (size_t)c->size, CHARL_ERR_INVALID, "all-gather of %zu bytes",
                  bytes);
    CHARL_TRY(charl__comm_check(c));
    charl__comm_enter(c);
    CHARL_MPI(
        MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, c->world, &request));
    CHARL_TRY(charl__comm_finish(c, &request, "all-gather"));
cleanup:
    return st;
}

void charl_comm_break(charl_comm *c)
{
    c->is_broken = true;
}

charl_status charl_comm_agree(charl_comm *c, charl_status mine)
{
    charl_status st = CHARL_OK;
    struct {
        int status, rank;
    } in = {(int)mine, c->rank}, worst = {0, 0};
    char text[MESSAGE_BYTES];
    MPI_Request request;

    if (c->is_broken && mine != CHARL_OK) {
        return mine; /* the others cannot be asked */
    }
    CHARL_TRY(charl__comm_check(c));
    if (c->size == 1) {
        return mine;
    }
    snprintf(text, sizeof text, "%s", mine == CHARL_OK ? "" : charl_error_message());
    charl__comm_enter(c);
    CHARL_MPI(MPI_Iallreduce(&in, &worst, 1, MPI_2INT, MPI_MAXLOC, c->world, &request));
    CHARL_TRY(charl__comm_finish(c, &request, "agreement"));
    if (worst.status == CHARL_OK) {
        goto cleanup;
    }
    CHARL_TRY(charl_comm_broadcast(c, text, sizeof text, worst.rank));
    CHARL_FAIL((charl_status)worst.status, "rank %d of %d (%s): %s", worst.rank, c->size,
               c->peer[worst.rank].host, text);
cleanup:
    return st;
}

static charl_status reduce_any(charl_comm *c, charl_comm_op op, void *v, int count,
                               MPI_Datatype type)
{
    charl_status st = CHARL_OK;
    const MPI_Op ops[] = {MPI_SUM, MPI_MIN, MPI_MAX};
    MPI_Request request;

    CHARL_REQUIRE((unsigned)op < CHARL_COMM_OP_COUNT && count >= 0, CHARL_ERR_INVALID,
                  "reduction %d of %d values", (int)op, count);
    CHARL_TRY(charl__comm_check(c));
    charl__comm_enter(c);
    CHARL_MPI(MPI_Iallreduce(MPI_IN_PLACE, v, count, type, ops[op], c->world, &request));
    CHARL_TRY(charl__comm_finish(c, &request, "reduction"));
cleanup:
    return st;
}

charl_status charl_comm_reduce_i64(charl_comm *c, charl_comm_op op, int64_t *v, int count)
{
    return reduce_any(c, op, v, count, MPI_INT64_T);
}

charl_status charl_comm_reduce_f64(charl_comm *c, charl_comm_op op, double *v, int count)
{
    return reduce_any(c, op, v, count, MPI_DOUBLE);
}

/* The rank whose data most ranks share; the lowest of equals. */
static int majority_rank(const unsigned char *all, size_t bytes, int size)
{
    int best = 0, best_votes = 0;

    for (int a = 0; a < size; a++) {
        int votes = 0;

        for (int b = 0; b < size; b++) {
            votes += memcmp(all + (size_t)a * bytes, all + (size_t)b * bytes, bytes) == 0;
        }
        if (votes > best_votes) {
            best = a;
            best_votes = votes;
        }
    }
    return best;
}

charl_status charl_comm_compare(charl_comm *c, const char *what, const void *data, size_t bytes,
                                charl_status code)
{
    charl_status st = CHARL_OK;
    unsigned char *all = NULL;
    char odd[512] = "";
    size_t used = 0;
    int good, n_odd = 0;

    CHARL_REQUIRE(bytes <= 4096, CHARL_ERR_INVALID, "comparison of %zu bytes: compare a hash",
                  bytes);
    st = charl_alloc_array(c->size, bytes, &all);
    CHARL_TRY(charl_comm_agree(c, st));
    CHARL_TRY(charl_comm_allgather(c, data, bytes, all));
    good = majority_rank(all, bytes, c->size);
    for (int r = 0; r < c->size; r++) {
        if (memcmp(all + (size_t)r * bytes, all + (size_t)good * bytes, bytes) != 0) {
            n_odd++;
            if (used < sizeof odd - 100) {
                used += (size_t)snprintf(odd + used, sizeof odd - used, "%srank %d (%s)",
                                         used ? ", " : "", r, c->peer[r].host);
            }
        }
    }
    CHARL_REQUIRE(n_odd == 0, code,
                  "%s: %s of %d ranks %s not what rank %d (%s) and %d other%s have", what, odd,
                  c->size, n_odd == 1 ? "has" : "have", good, c->peer[good].host,
                  c->size - n_odd - 1, c->size - n_odd == 2 ? "" : "s");
cleanup:
    charl_free(all);
    return st;
}

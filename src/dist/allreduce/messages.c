/* Messages between single ranks, of which an all-reduce has many in flight. */
#include "dist/allreduce/allreduce.h"

charl_status charl__messages_send(const charl_allreduce *ar, charl__messages *q, const charl__message *m)
{
    charl__group *all = ar->c->world;

    if (m->count > 0) {
        CHARL_TRY(all->transport->send(all, m, &q->request[q->n]));
        q->n++;
    }
    return CHARL_OK;
}

charl_status charl__messages_receive(const charl_allreduce *ar, charl__messages *q, const charl__message *m)
{
    charl__group *all = ar->c->world;

    if (m->count > 0) {
        CHARL_TRY(all->transport->receive(all, m, &q->request[q->n]));
        q->n++;
    }
    return CHARL_OK;
}

charl_status charl__messages_test(const charl_allreduce *ar, charl__messages *q, bool *out)
{
    charl__group *all = ar->c->world;

    *out = true;
    for (int i = 0; i < q->n && *out; i++) {
        CHARL_TRY(all->transport->test(all, &q->request[i], out));
    }
    return CHARL_OK;
}

bool charl__messages_await(const charl_allreduce *ar, const charl__messages *q, int rank)
{
    charl__group *all = ar->c->world;

    for (int i = 0; i < q->n; i++) {
        bool is_complete = false;

        if (q->request[i].message.rank == rank &&
            (all->transport->test(all, &q->request[i], &is_complete) != CHARL_OK || !is_complete)) {
            return true;
        }
    }
    return false;
}

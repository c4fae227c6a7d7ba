/* Heartbeat messages: made from the page of a node, written to the pages of the others. */
#include "dist/liveness/heartbeat_message.h"

#include <string.h>

#include "base/fault.h"

static const uint32_t magic = 0x6368726c;

int charl__first_rank(const charl_comm *c, int node)
{
    return c->node_first[node];
}

int charl__node_size(const charl_comm *c, int node)
{
    return c->node_first[node + 1] - c->node_first[node];
}

size_t charl__heartbeat_message_bytes(int ranks)
{
    return sizeof(charl__heartbeat_message) + (size_t)ranks * sizeof(charl__rank_status);
}

static void status_write(charl__slot *s, const charl__rank_status *w, int64_t now_ms)
{
    atomic_store(&s->marks, w->marks);
    atomic_store(&s->step, w->step);
    atomic_store(&s->entered, w->entered);
    for (int i = 0; i < CHARL__PHASE_WORDS; i++) {
        atomic_store_explicit(&s->phase[i], w->phase[i], memory_order_relaxed);
    }
    atomic_store(&s->leaving, w->is_leaving);
    atomic_store(&s->state, w->state);
    atomic_store(&s->waited_ms, w->is_waiting ? now_ms : 0);
    atomic_store(&s->heard_ms, now_ms);
}

bool charl__heartbeat_message_read(const charl_comm *c, int m, const charl__heartbeat_message *r)
{
    const int first = charl__first_rank(c, m);

    if (r->magic != magic || r->ranks != charl__node_size(c, m)) {
        return false;
    }
    if (r->pulse > atomic_load(&c->board->pulse)) {
        atomic_store(&c->board->pulse, r->pulse);
    }
    for (int i = 0; i < r->ranks; i++) {
        charl__slot *s = charl__slot_of(c, first + i);

        status_write(s, &r->rank[i], charl__now_ms());
        if (r->is_last) {
            atomic_store(&s->heard_ms, 0); /* no further heartbeat is expected */
        }
    }
    if (r->has_reported) {
        atomic_store(&c->board->has_reported, 1);
    }
    return true;
}

static void status_make(const charl_comm *c, int rank, charl__rank_status *w)
{
    const charl__slot *s = charl__slot_of(c, rank);
    char state = '?';
    int64_t started = 0;

    *w = (charl__rank_status){
        .marks = atomic_load(&s->marks), .step = atomic_load(&s->step), .entered = atomic_load(&s->entered)};
    for (int i = 0; i < CHARL__PHASE_WORDS; i++) {
        w->phase[i] = atomic_load_explicit(&s->phase[i], memory_order_relaxed);
    }
    if (charl__peer_is_dead(c, rank)) {
        w->state = 'X';
    } else if (c->is_visible[rank] && charl__process_read(&c->peer[rank], &state, &started)) {
        w->state = state;
    }
    w->is_leaving = atomic_load(&s->leaving) != 0;
    w->is_waiting = charl__peer_is_waiting(c, rank);
}

void charl__heartbeat_message_make(const charl_comm *c, bool is_last, charl__heartbeat_message *out)
{
    memset(out, 0, charl__heartbeat_message_bytes(c->local_size));
    out->magic = magic + charl__fault("comm.report");
    out->ranks = c->local_size;
    out->has_reported = atomic_load(&c->board->has_reported);
    out->is_last = is_last;
    out->pulse = atomic_load(&c->board->pulse);
    for (int i = 0; i < c->local_size; i++) {
        status_make(c, charl__comm_local_peer(c, i), &out->rank[i]);
    }
}

/* Ranks that are threads of one process.
 *
 * An operation is a request that every rank publishes to the others. When all have published theirs, each
 * copies its data directly from the others' memory; when all have copied, it is complete, and
 * its memory belongs to the caller again. A rank has SHOWN places, used in turn, so that several
 * operations can be in flight; the number in a place says which operation it belongs to. */
#include "dist/transport.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "dist/comm_private.h"

enum { SHOWN = 16 };

typedef struct place {
    _Alignas(CHARL__LINE) _Atomic(const charl__request *) request; /* NULL: withdrawn */
    double visible_s;                                              /* the others see it from then on; 0: at once */
    atomic_int_least64_t shown; /* number of the operation whose request is here, from 1 */
    atomic_int_least64_t taken; /* number of the last operation of which this rank has copied its part */
    bool is_open;               /* its owner's: not complete yet */
} place;

typedef struct rank_state {
    place places[SHOWN];
    int64_t begun;                /* operations of all ranks; its owner's */
    atomic_bool reads;            /* the requests of the others */
    pthread_mutex_t lock;         /* of: */
    charl__request *first, *last; /* messages sent to this rank and not received yet */
} rank_state;

/* State shared by the ranks of a group; the last one to leave frees it. */
typedef struct shared_state {
    int size;
    atomic_int users;
    rank_state ranks[];
} shared_state;

typedef struct thread_group {
    charl__group base;
    shared_state *shared;
} thread_group;

typedef struct charl__common {
    atomic_int users;
    void *memory;
} charl__common;

struct charl_team {
    shared_state *shared;
};

static const charl__transport threads;
static _Thread_local uint64_t shown_count; /* number of operations that this rank has published, for faults */

static thread_group *own(charl__group *g)
{
    return (thread_group *)(void *)g;
}

static charl_status shared_create(int size, int users, shared_state **out)
{
    CHARL_TRY(charl__alloc_aligned(CHARL__LINE, sizeof **out + (size_t)size * sizeof(rank_state), out));
    (*out)->size = size;
    atomic_init(&(*out)->users, users);
    for (int r = 0; r < size; r++) {
        pthread_mutex_init(&(*out)->ranks[r].lock, NULL);
    }
    return CHARL_OK;
}

static void shared_leave(shared_state *m)
{
    if (m && atomic_fetch_sub(&m->users, 1) == 1) {
        for (int r = 0; r < m->size; r++) {
            pthread_mutex_destroy(&m->ranks[r].lock);
        }
        charl_free(m);
    }
}

/* A collective that no rank has entered yet. */
static void shared_discard(shared_state *m)
{
    if (m) {
        atomic_store(&m->users, 1);
        shared_leave(m);
    }
}

static charl_status group_create(shared_state *m, int rank, thread_group **out)
{
    CHARL_TRY(charl__alloc(sizeof **out, out));
    (*out)->base = (charl__group){.transport = &threads, .rank = rank};
    (*out)->shared = m;
    (*out)->base.size = m ? m->size : 0;
    return CHARL_OK;
}

charl_status charl_team_create(int size, charl_team **out)
{
    CHARL_GIVEN(out);
    CHARL_SCOPED_FREE charl_team *team = NULL;

    *out = NULL;
    CHARL_REQUIRE(size >= 1 && size <= CHARL_MAX_SLICES, CHARL_ERR_INVALID, "a team of %d ranks; there may be 1 to %d",
                  size, CHARL_MAX_SLICES);
    CHARL_TRY(charl__alloc(sizeof *team, &team));
    CHARL_TRY(shared_create(size, 1, &team->shared));
    charl__clock_add_members(size);
    *out = team;
    team = NULL;
    return CHARL_OK;
}

void charl_team_destroy(charl_team *team)
{
    if (team) {
        charl__clock_add_members(-team->shared->size);
        shared_leave(team->shared);
        charl_free(team);
    }
}

charl_status charl__team_world(charl_team *team, int rank, charl__group **out)
{
    thread_group *g = NULL;

    CHARL_REQUIRE(rank >= 0 && rank < team->shared->size, CHARL_ERR_INVALID, "rank %d of a team of %d", rank,
                  team->shared->size);
    CHARL_TRY(group_create(team->shared, rank, &g));
    atomic_fetch_add(&team->shared->users, 1);
    *out = &g->base;
    return CHARL_OK;
}

static void threads_destroy(charl__group *g, bool is_broken)
{
    (void)is_broken;
    shared_leave(own(g)->shared);
    charl_free(g);
}

static place *place_of(const thread_group *g, int rank, int64_t number)
{
    return &g->shared->ranks[rank].places[number % SHOWN];
}

/* When the others may see what this rank shows now; 0: at once. A fault makes the link slow, or messages overtake each other. */
static double visible_from(int rank)
{
    const uint64_t draw = (shown_count++ * CHARL_MAX_SLICES + (uint64_t)rank) * 0x9e3779b97f4a7c15ULL >> 33;
    int64_t ms = 0;
    double delay_s = 0;

    if (charl__fault_arg("comm.delay", &ms)) {
        delay_s = (double)ms * 1e-3;
    }
    if (charl__fault_arg("comm.reorder", &ms) && ms > 0) {
        delay_s += (double)(draw % (uint64_t)(ms + 1)) * 1e-3;
    }
    return delay_s > 0 ? charl__clock_s() + delay_s : 0;
}

static bool is_visible(double from_s)
{
    return from_s <= 0 || from_s <= charl__clock_s();
}

/* Publish r to the others. */
static charl_status begin(charl__group *group, charl__request *r)
{
    thread_group *g = own(group);
    rank_state *mine = &g->shared->ranks[group->rank];
    place *p = place_of(g, group->rank, mine->begun + 1);

    CHARL_REQUIRE(!p->is_open, CHARL_ERR_INVALID, "%d operations of ranks are under way already", SHOWN);
    r->number = ++mine->begun;
    r->is_taken = false;
    p->visible_s = visible_from(group->rank);
    p->is_open = true;
    atomic_store(&p->request, r);
    atomic_store_explicit(&p->shown, r->number, memory_order_release);
    return CHARL_OK;
}

static charl_status threads_broadcast(charl__group *g, void *data, size_t bytes, int root, charl__request *r)
{
    *r = (charl__request){.operation = CHARL__BROADCAST, .send = {.data = data}, .bytes = bytes, .root = root};
    return begin(g, r);
}

static charl_status threads_allgather(charl__group *g, const charl__parts *all, charl__request *r)
{
    *r = (charl__request){.operation = CHARL__ALLGATHER, .send = *all};
    return begin(g, r);
}

static charl_status threads_alltoall(charl__group *g, const charl__parts *send, const charl__parts *receive,
                                     charl__request *r)
{
    *r = (charl__request){.operation = CHARL__ALLTOALL, .send = *send, .receive = *receive};
    return begin(g, r);
}

static size_t part_bytes(const charl__parts *parts, int k)
{
    return (size_t)parts->count[k] * parts->unit;
}

static unsigned char *part_at(const charl__parts *parts, int k)
{
    return (unsigned char *)parts->data + (size_t)parts->at[k] * parts->unit;
}

static charl_status threads_reduce(charl__group *g, charl_comm_op op, const int64_t *mine, int64_t *out, int count,
                                   charl__request *r)
{
    *r = (charl__request){.operation = CHARL__REDUCE,
                          .send = {.data = out},
                          .values = mine,
                          .bytes = (size_t)count * sizeof *mine,
                          .op = op};
    return begin(g, r);
}

/* out: what rank 0 publishes, combined with what the others publish. */
static void fold(charl_comm_op op, const int64_t *from, size_t count, bool is_first, int64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const int64_t b = from[i];

        out[i] = is_first               ? b
                 : op == CHARL_COMM_SUM ? out[i] + b
                                        : ((op == CHARL_COMM_MIN) == (b < out[i]) ? b : out[i]);
    }
}

/* Check that rank p's request is for the same operation and size as this rank's. */
static charl_status match(const charl__group *g, const charl__request *r, int p, const charl__request *theirs)
{
    const bool alike = theirs->operation == r->operation;
    size_t sent = theirs->bytes, expected = r->bytes;

    if (alike && r->operation == CHARL__ALLGATHER) {
        sent = part_bytes(&theirs->send, p);
        expected = part_bytes(&r->send, p);
    } else if (alike && r->operation == CHARL__ALLTOALL) {
        sent = part_bytes(&theirs->send, g->rank);
        expected = part_bytes(&r->receive, p);
    }
    CHARL_REQUIRE(alike && theirs->root == r->root && theirs->op == r->op && sent == expected, CHARL_ERR_COMM,
                  "rank %d is in another collective operation than rank %d: operation %d of %zu "
                  "bytes, here %d of %zu",
                  p, g->rank, (int)theirs->operation, sent, (int)r->operation, expected);
    return CHARL_OK;
}

/* Copy this rank's data from rank p. */
static void copy_from(const charl__group *g, charl__request *r, int p, const charl__request *theirs)
{
    switch (r->operation) {
    case CHARL__SEND:
    case CHARL__RECEIVE: /* are not shown to all */
        break;
    case CHARL__BROADCAST:
        if (p == r->root && p != g->rank) {
            memcpy(r->send.data, theirs->send.data, r->bytes);
        }
        break;
    case CHARL__REDUCE:
        fold(r->op, theirs->values, r->bytes / sizeof *r->values, p == 0, r->send.data);
        break;
    case CHARL__ALLGATHER:
        if (p != g->rank && r->send.count[p] > 0) {
            memcpy(part_at(&r->send, p), part_at(&theirs->send, p), part_bytes(&r->send, p));
        }
        break;
    case CHARL__ALLTOALL:
        if (r->receive.count[p] > 0) {
            memcpy(part_at(&r->receive, p), part_at(&theirs->send, g->rank), part_bytes(&r->receive, p));
        }
        break;
    }
}

/* Whether all ranks have published (or have copied) the operation. */
static bool all_have(const thread_group *g, charl__request *r, bool taken)
{
    for (; r->seen < g->base.size; r->seen++) {
        place *at = place_of(g, r->seen, r->number);

        if (atomic_load_explicit(taken ? &at->taken : &at->shown, memory_order_acquire) < r->number ||
            (!taken && !is_visible(at->visible_s))) {
            return false;
        }
    }
    r->seen = 0;
    return true;
}

/* Copy this rank's data from all; *out: whether no rank has withdrawn its own. */
static charl_status read_all(thread_group *g, charl__request *r, bool *out)
{
    atomic_bool *reads = &g->shared->ranks[g->base.rank].reads;
    charl_status st = CHARL_OK;

    *out = true;
    atomic_store(reads, true);
    for (int p = 0; p < g->base.size && *out && st == CHARL_OK; p++) {
        const charl__request *theirs = atomic_load(&place_of(g, p, r->number)->request);

        *out = theirs != NULL;
        st = theirs ? match(&g->base, r, p, theirs) : CHARL_OK;
        if (theirs && st == CHARL_OK) {
            copy_from(&g->base, r, p, theirs);
        }
    }
    atomic_store(reads, false);
    return st;
}

/* For operations in which all ranks take part. */
static charl_status collective_test(thread_group *g, charl__request *r)
{
    const int rank = g->base.rank;
    place *mine = place_of(g, rank, r->number);

    if (!r->is_taken) {
        if (!all_have(g, r, false)) {
            return CHARL_OK;
        }
        r->status = read_all(g, r, &r->is_taken);
        if (!r->is_taken) {
            return CHARL_OK; /* until the failure is noticed */
        }
        atomic_store_explicit(&mine->taken, r->number, memory_order_release);
    }
    r->is_over = all_have(g, r, true);
    mine->is_open = !r->is_over;
    return r->is_over ? r->status : CHARL_OK; /* when all ranks have seen it */
}

/* A message waits in the rank_state of its receiver, which copies it from the sender's memory.
 */
static charl_status threads_send(charl__group *g, const charl__message *m, charl__request *r)
{
    rank_state *to = &own(g)->shared->ranks[m->rank];

    *r = (charl__request){.operation = CHARL__SEND, .message = *m, .root = g->rank, .visible_s = visible_from(g->rank)};
    pthread_mutex_lock(&to->lock);
    if (to->first) {
        to->last->next = r;
    } else {
        to->first = r;
    }
    to->last = r;
    pthread_mutex_unlock(&to->lock);
    return CHARL_OK;
}

static charl_status threads_receive(charl__group *g, const charl__message *m, charl__request *r)
{
    (void)g;
    *r = (charl__request){.operation = CHARL__RECEIVE, .message = *m};
    return CHARL_OK;
}

/* Remove the first message for this rank that m expects from the queue, which is locked; or NULL. */
static charl__request *message_find(rank_state *mine, const charl__message *m)
{
    charl__request *before = NULL, *found;

    found = mine->first;
    while (found && (found->root != m->rank || found->message.tag != m->tag)) {
        before = found;
        found = found->next;
    }
    found = found && is_visible(found->visible_s) ? found
                                                  : NULL; /* not a later one either: those of a tag keep their order */
    if (found) {
        *(before ? &before->next : &mine->first) = found->next;
        mine->last = found->next ? mine->last : before;
    }
    return found;
}

static charl_status receive_test(thread_group *g, charl__request *r)
{
    charl_status st = CHARL_OK;
    rank_state *mine = &g->shared->ranks[g->base.rank];
    const charl__message *m = &r->message;
    charl__request *sent;

    pthread_mutex_lock(&mine->lock); /* until it is copied, the sender cannot withdraw it */
    sent = message_find(mine, m);
    if (sent) {
        CHARL_TRY_CLEANUP(charl__message_check(&g->base, m, sent->message.count));
        memcpy(m->data, sent->message.data, (size_t)m->count * m->unit);
        atomic_store_explicit(&sent->is_read, true, memory_order_release);
        r->is_over = true;
    }
cleanup:
    pthread_mutex_unlock(&mine->lock);
    return st;
}

/* Remove the messages of rank `from` that a rank has not received. */
static void remove_messages(rank_state *to, int from)
{
    charl__request *before = NULL;

    pthread_mutex_lock(&to->lock);
    for (charl__request *r = to->first; r; r = r->next) {
        if (r->root == from) {
            *(before ? &before->next : &to->first) = r->next;
        } else {
            before = r;
        }
    }
    to->last = before;
    pthread_mutex_unlock(&to->lock);
}

static void threads_withdraw(charl__group *group)
{
    shared_state *s = own(group)->shared;

    for (int i = 0; i < SHOWN; i++) {
        atomic_store(&s->ranks[group->rank].places[i].request, NULL);
    }
    for (int p = 0; p < s->size; p++) {
        while (atomic_load(&s->ranks[p].reads)) {
            sched_yield();
        }
        remove_messages(&s->ranks[p], group->rank);
    }
}

static charl_status threads_test(charl__group *g, charl__request *r, bool *is_complete)
{
    charl_status st = CHARL_OK;

    if (r->is_over) {
        /* as it was */
    } else if (r->operation == CHARL__SEND) {
        r->is_over = atomic_load_explicit(&r->is_read, memory_order_acquire);
    } else if (r->operation == CHARL__RECEIVE) {
        CHARL_TRY_CLEANUP(receive_test(own(g), r));
    } else {
        CHARL_TRY_CLEANUP(collective_test(own(g), r));
    }
cleanup:
    *is_complete = st == CHARL_OK && r->is_over;
    return st;
}

/* Values of `bytes` from all ranks. Blocks. */
static charl_status exchange(charl_comm *c, charl__group *g, void *all, size_t bytes)
{
    charl__request r;

    charl__parts_equal(g->size, bytes, c->counts, c->places);
    CHARL_TRY(threads_allgather(g, &(charl__parts){all, 1, c->counts, c->places}, &r));
    CHARL_TRY(charl__comm_finish(c, g, &r, "meeting of the ranks"));
    return CHARL_OK;
}

/* Share what rank `maker` has created with all, unless any rank has failed. Blocks. */
static charl_status pass_round(charl_comm *c, charl__group *g, int maker, charl_status mine, void **made)
{
    typedef struct offer {
        void *made;
        charl_status status;
    } offer;
    offer all[CHARL_MAX_SLICES];

    all[g->rank] = (offer){*made, mine};
    CHARL_TRY(exchange(c, g, all, sizeof *all));
    CHARL_TRY(mine);
    for (int p = 0; p < g->size; p++) {
        CHARL_REQUIRE(all[p].status == CHARL_OK, all[p].status, "rank %d of %d is out of memory", p, g->size);
    }
    *made = all[maker].made;
    return CHARL_OK;
}

typedef struct placing {
    int color, key;
} placing;

/* Rank and size of this rank among those of its color, and the first of them. */
static void rank_among(const placing *all, int me, int n, int *rank, int *size, int *first)
{
    *rank = *size = 0;
    *first = me;
    for (int p = 0; p < n; p++) {
        if (all[p].color == all[me].color) {
            ++*size;
            *rank += all[p].key < all[me].key || (all[p].key == all[me].key && p < me);
            if (all[p].key < all[*first].key || (all[p].key == all[*first].key && p < *first)) {
                *first = p;
            }
        }
    }
}

static charl_status threads_split(charl_comm *c, charl__group *from, int color, int key, charl__group **out)
{
    charl_status st = CHARL_OK;
    placing all[CHARL_MAX_SLICES];
    thread_group *g = NULL;
    shared_state *made = NULL;
    void *met = NULL;
    int rank, size, first;

    all[from->rank] = (placing){color, key};
    CHARL_TRY_CLEANUP(exchange(c, from, all, sizeof *all));
    rank_among(all, from->rank, from->size, &rank, &size, &first);
    st = group_create(NULL, rank, &g);
    if (st == CHARL_OK && first == from->rank) {
        st = shared_create(size, size, &made);
        met = made;
    }
    CHARL_TRY_CLEANUP(pass_round(c, from, first, st, &met));
    g->shared = met;
    g->base.size = size;
    *out = &g->base;
    g = NULL;
    made = NULL;
cleanup:
    shared_discard(made);
    charl_free(g);
    return st;
}

static charl_status threads_near(charl_comm *c, charl__group *from, charl__group **out)
{
    return threads_split(c, from, 0, from->rank, out);
}

static charl_status common_create(size_t bytes, int users, charl__common **out)
{
    CHARL_TRY(charl__alloc(sizeof **out, out));
    atomic_init(&(*out)->users, users);
    CHARL_TRY(charl__alloc_aligned(CHARL__PAGE, bytes, &(*out)->memory));
    return CHARL_OK;
}

static void common_free(charl__common *m)
{
    if (m) {
        charl_free(m->memory);
        charl_free(m);
    }
}

static charl_status threads_share(charl_comm *c, charl__group *g, size_t bytes, charl__window *w)
{
    charl_status st = CHARL_OK;
    charl__common *made = NULL;
    void *common;

    if (g->rank == 0) {
        st = common_create(bytes, g->size, &made);
    }
    common = made;
    CHARL_TRY_CLEANUP(pass_round(c, g, 0, st, &common));
    made = NULL;
    w->common = common;
    w->base = w->common->memory;
    w->is_shared = true;
cleanup:
    common_free(made);
    return st;
}

static void threads_unshare(charl__window *w, bool is_broken)
{
    (void)is_broken;
    if (atomic_fetch_sub(&w->common->users, 1) == 1) {
        common_free(w->common);
    }
}

static const charl__transport threads = {
    .near = threads_near,
    .split = threads_split,
    .destroy = threads_destroy,
    .broadcast = threads_broadcast,
    .allgather = threads_allgather,
    .alltoall = threads_alltoall,
    .reduce = threads_reduce,
    .send = threads_send,
    .receive = threads_receive,
    .withdraw = threads_withdraw,
    .test = threads_test,
    .share = threads_share,
    .unshare = threads_unshare,
};

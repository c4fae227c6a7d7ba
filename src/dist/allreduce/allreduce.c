/* The all-reduce of gradients: the registry of algorithms and what they share. */
#include "dist/allreduce/allreduce.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/numeric/divide.h"
#include "base/options.h"
#include "base/text/text.h"
#include "dist/allreduce/allreduce_device.h"
#include "dist/allreduce/parts.h"
#include "dist/consensus.h"
#include "dist/allreduce/peer.h"

enum { POLLS = 100, LOOK_EVERY = 64 }; /* before the host sleeps between polls; polls between looks at the ranks */
static const double nap_s = 20e-6;

static const charl__registry algorithms = {.what = "all-reduce", .built_in = charl__allreduces};

static const charl__algorithm *algorithm_at(int i)
{
    return charl__registry_at(&algorithms, i);
}

const char *charl_allreduce_algorithm_name(int i)
{
    const charl__algorithm *alg = algorithm_at(i);

    return alg ? alg->row.name : NULL;
}

const char *charl__allreduce_algorithm_help(int i)
{
    const charl__algorithm *alg = algorithm_at(i);

    return alg ? alg->row.help : NULL;
}

/* The inputs of the choice, equal on every rank. */
typedef struct demand {
    charl_comm *c;
    const charl_allreduce_options *options;
    charl__buffer *values;       /* of charl__allreduce_create_with */
    const charl__owners *owners; /* the same */
    charl__peer_survey peers;
} demand;

static const char *wanted_name(const demand *d)
{
    const char *forced = charl__env(CHARL_ENV_ALLREDUCE);
    const char *name = forced ? forced : d->options->algorithm ? d->options->algorithm : "auto";
    const bool is_alone = !d->c->has_mpi && !d->c->is_team;

    return is_alone && strcmp(name, "mpi") == 0 ? "auto" : name; /* it sends nothing, so it needs no MPI */
}

/* NULL, or the reason why alg cannot be used. */
static const char *unsuitable(const charl__algorithm *alg, const demand *d)
{
    if (d->options->reduce_dtype == CHARL_BF16 && !alg->has_bf16) {
        return "it sums in f32 only, not in bf16 (reduce_dtype)";
    }
    if (d->options->gathers && (!alg->has_gather || (alg->join && !d->values))) {
        return "it does not gather parameters, as a sharded optimizer needs";
    }
    if (alg->join && !d->peers.is_usable) {
        return d->peers.why;
    }
    if (d->options->scatters && !alg->has_scatter) {
        return "it gives the sums to all ranks, not each rank its part, as sharded gradients need";
    }
    if (d->owners && alg->join) {
        return "it divides every tensor among the ranks, and this optimizer updates whole ones (use auto, shm or "
               "hierarchical)";
    }
    if (d->options->scatters && alg->join && d->c->n_nodes > 1) {
        return "sharded gradients over several nodes need another one (use auto or hierarchical)";
    }
    if (d->options->within_nodes && d->c->n_nodes > 1 && !alg->has_nodes) {
        return "it divides among all ranks, not among those of a node (use auto or hierarchical)";
    }
    return alg->unavailable(d->c);
}

charl_status charl__allreduce_check_name(const char *name)
{
    char names[128];
    bool is_known = strcmp(name, "auto") == 0;

    for (int i = 0; algorithm_at(i); i++) {
        is_known = is_known || strcmp(name, algorithm_at(i)->row.name) == 0;
    }
    CHARL_REQUIRE(is_known, CHARL_ERR_CONFIG, "unknown all-reduce %s%s; it can be auto, %s", name,
                  charl__env(CHARL_ENV_ALLREDUCE) ? " (CHARL_ALLREDUCE)" : "",
                  charl__text_list(name, charl_allreduce_algorithm_name, names, sizeof names));
    return CHARL_OK;
}

bool charl__allreduce_can_scatter(const charl_comm *c, const char *name)
{
    const demand d = {.c = (charl_comm *)(uintptr_t)c,
                      .options = &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = name}};
    const char *wanted = wanted_name(&d);

    for (int i = 0; algorithm_at(i); i++) {
        if (strcmp(wanted, algorithm_at(i)->row.name) == 0) {
            return algorithm_at(i)->has_scatter && !(algorithm_at(i)->join && c->n_nodes > 1);
        }
    }
    return true; /* auto */
}

static charl_status choose(const demand *d, const charl__algorithm **out)
{
    const char *name = wanted_name(d), *why;
    const charl__algorithm *best = NULL;
    const charl_dtype dtype = d->options->reduce_dtype;

    CHARL_TRY(charl__allreduce_check_name(name));
    CHARL_REQUIRE(dtype == CHARL_F32 || dtype == CHARL_BF16, CHARL_ERR_CONFIG,
                  "reduce_dtype is %s; gradients are summed in f32 or bf16", charl_dtype_name(dtype));
    for (int i = 0; algorithm_at(i); i++) {
        const charl__algorithm *alg = algorithm_at(i);
        const bool is_named = strcmp(name, alg->row.name) == 0;

        why = unsuitable(alg, d);
        CHARL_REQUIRE(!is_named || !why, CHARL_ERR_CONFIG, "all-reduce %s does not work here: %s", name, why);
        if (is_named || (strcmp(name, "auto") == 0 && !why && (!alg->join || d->peers.is_preferred) &&
                         (!best || alg->preference < best->preference))) {
            best = alg;
        }
    }
    CHARL_REQUIRE(best, CHARL_ERR_CONFIG, "no all-reduce works here");
    *out = best;
    return CHARL_OK;
}

static charl_status compare_demands(const demand *d, int64_t n, const charl__algorithm *alg)
{
    charl__consensus facts = {0};
    charl_status st;
    char text[128];

    snprintf(text, sizeof text, "%s of %lld gradients in %s%s%s%s", alg->row.name, (long long)n,
             charl_dtype_name(d->options->reduce_dtype), d->options->gathers ? ", gathered" : "",
             d->options->scatters ? ", scattered" : "", d->options->within_nodes ? ", within nodes" : "");
    st =
        charl__consensus_add(&facts, &(charl__fact){.status = CHARL_ERR_INVALID, .label = "all-reduce", .value = text});
    st = charl__consensus_reach(&facts, st, d->c);
    charl__consensus_fini(&facts);
    return st;
}

/* If the devices alone should do it and a driver does not support it, the hosts do. */
static charl_status algorithm_create(charl_allreduce *ar, demand *d)
{
    charl_status st = ar->algorithm->create(ar);

    if (st != CHARL_OK && ar->algorithm->join && strcmp(wanted_name(d), "auto") == 0 && !charl_comm_is_broken(ar->c)) {
        charl__log(CHARL_LOG_WARN, "all-reduce %s is not used: %s", ar->algorithm->row.name, charl_error_message());
        ar->algorithm->destroy(ar);
        ar->own = ar->lanes = ar->sum = NULL;
        ar->device_lanes = ar->device_sum = NULL;
        ar->begun = ar->completed = 0;
        d->peers.is_usable = false;
        CHARL_TRY(choose(d, &ar->algorithm));
        return ar->algorithm->create(ar);
    }
    return st;
}

const char *charl_allreduce_algorithm(const charl_comm *c, int i, const char **why)
{
    const charl__algorithm *alg = c ? algorithm_at(i) : NULL;

    if (why) {
        *why = alg ? alg->unavailable(c) : NULL;
    }
    return alg ? alg->row.name : NULL;
}

charl_status charl_allreduce_create(charl_comm *c, int64_t n, const charl_slices *mine,
                                    const charl_allreduce_options *options, charl_allreduce **out)
{
    CHARL_GIVEN(c, mine, out);
    CHARL__OPTIONS(charl_allreduce_options, options);
    return charl__allreduce_create_with(c, n, mine, options, NULL, NULL, out);
}

/* Every rank's sums replace its first lane. Ranks of the same number in their nodes have the same part. */
static charl_status check_parts(const charl_allreduce *ar)
{
    const int *first = ar->c->node_first;

    for (int m = 1; ar->options.within_nodes && m < ar->c->n_nodes; m++) {
        CHARL_REQUIRE(first[m + 1] - first[m] == first[1], CHARL_ERR_CONFIG,
                      "sharding within nodes needs the same number of ranks on each, but %s has %d and %s has %d; HINT "
                      "start as many on each, or set dist.shard_group = all",
                      ar->c->peer[0].host, first[1], ar->c->peer[first[m]].host, first[m + 1] - first[m]);
    }
    for (int r = 0; ar->options.scatters && r < ar->c->size; r++) {
        CHARL_REQUIRE(ar->map.first[r] < ar->map.first[r + 1], CHARL_ERR_CONFIG,
                      "rank %d has no slices, and sharded gradients need some on every rank; HINT start fewer ranks",
                      r);
    }
    return CHARL_OK;
}

charl_status charl__allreduce_create_with(charl_comm *c, int64_t n, const charl_slices *mine,
                                          const charl_allreduce_options *options, charl__buffer *values,
                                          const charl__owners *owners, charl_allreduce **out)
{
    charl_status st = CHARL_OK;
    const charl_allreduce_options defaults = {sizeof defaults};
    charl_allreduce *ar = NULL;
    const charl__algorithm *alg = NULL;
    demand d = {.c = c, .options = options ? options : &defaults, .values = values, .owners = owners};

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__peer_ask(c, d.options->device, &d.peers));
    CHARL_TRY_CLEANUP(charl_comm_agree(c, choose(&d, &alg)));
    CHARL_TRY_CLEANUP(compare_demands(&d, n, alg));
    CHARL_REQUIRE_CLEANUP(n >= 0 && n <= INT64_MAX / 16 / CHARL_MAX_SLICES, CHARL_ERR_INVALID,
                          "n is %lld values, out of range", (long long)n);
    CHARL_TRY_CLEANUP(charl_comm_agree(c, charl__alloc(sizeof *ar, &ar)));
    ar->c = c;
    ar->n = n;
    ar->options = *d.options;
    ar->owners = owners;
    ar->element = charl_dtype_size(d.options->reduce_dtype);
    ar->stride = (int64_t)(charl__round_up(n > 0 ? (size_t)n : 1, 4096 / ar->element));
    CHARL_TRY_CLEANUP(charl__lane_map_init(c, mine, &ar->map));
    ar->my_lanes = ar->map.first[c->rank + 1] - ar->map.first[c->rank];
    ar->parts = ar->options.within_nodes ? c->local_size : c->size;
    ar->part = ar->options.within_nodes ? c->local_rank : c->rank;
    CHARL_TRY_CLEANUP(check_parts(ar));
    ar->algorithm = alg;
    ar->device_values = values ? charl__buffer_retain(values) : NULL;
    CHARL_TRY_CLEANUP(algorithm_create(ar, &d));
    *out = ar;
    ar = NULL;
cleanup:
    charl_allreduce_destroy(ar);
    return st;
}

void charl_allreduce_destroy(charl_allreduce *ar)
{
    if (!ar) {
        return;
    }
    if (ar->c->is_broken) {
        charl__group_withdraw(ar->c->world);
    }
    if (ar->algorithm) {
        ar->algorithm->destroy(ar);
    }
    charl__window_destroy(ar->c, &ar->window);
    charl__event_release(ar->written);
    charl__buffer_release(ar->device_values);
    charl__lane_map_fini(&ar->map);
    charl_free(ar);
}

const char *charl__allreduce_get_name(const charl_allreduce *ar)
{
    return ar ? ar->algorithm->row.name : NULL;
}

bool charl__allreduce_is_invariant(const charl_allreduce *ar)
{
    return ar && ar->algorithm->is_invariant;
}

void *charl__allreduce_lanes(const charl_allreduce *ar)
{
    return ar ? ar->lanes : NULL;
}

int64_t charl__allreduce_stride(const charl_allreduce *ar)
{
    return ar ? ar->stride : 0;
}

void *charl__allreduce_sum(const charl_allreduce *ar)
{
    return ar ? ar->sum : NULL;
}

static charl_status check_range(const charl_allreduce *ar, int64_t offset, int64_t count)
{
    CHARL_REQUIRE(offset >= 0 && count >= 0 && offset <= ar->n - count, CHARL_ERR_INVALID,
                  "values %lld to %lld are outside the all-reduce of %lld", (long long)offset,
                  (long long)(offset + count), (long long)ar->n);
    return CHARL_OK;
}

charl_status charl_allreduce_write_lane(charl_allreduce *ar, int j, int64_t offset, int64_t count, const void *src)
{
    CHARL_GIVEN(ar, src || count == 0);
    const size_t at = (size_t)(j * ar->stride + offset) * ar->element, bytes = (size_t)count * ar->element;

    CHARL_TRY(check_range(ar, offset, count));
    CHARL_REQUIRE(j >= 0 && j < ar->my_lanes, CHARL_ERR_INVALID, "there is no lane %d: this rank has %d, from 0", j,
                  ar->my_lanes);
    if (count == 0) {
        return CHARL_OK;
    }
    if (ar->device_lanes) {
        return charl__buffer_write(CHARL_QUEUE_COMPUTE, ar->device_lanes, at, src, bytes, true);
    }
    memcpy((char *)ar->lanes + at, src, bytes);
    return CHARL_OK;
}

charl_status charl_allreduce_read_sum(const charl_allreduce *ar, int64_t offset, int64_t count, void *dst)
{
    CHARL_GIVEN(ar, dst || count == 0);
    const size_t at = (size_t)offset * ar->element, bytes = (size_t)count * ar->element;

    CHARL_TRY(check_range(ar, offset, count));
    if (count == 0) {
        return CHARL_OK;
    }
    if (ar->device_sum) {
        return charl__buffer_read(CHARL_QUEUE_COMPUTE, ar->device_sum, at, dst, bytes, true);
    }
    memcpy(dst, (const char *)ar->sum + at, bytes);
    return CHARL_OK;
}

float *charl__allreduce_gathered(const charl_allreduce *ar)
{
    return ar ? ar->gathered : NULL;
}

void charl__range_part(int64_t count, int r, int size, int64_t *from, int64_t *to)
{
    const int64_t parts = (count + CHARL__PART - 1) / CHARL__PART;

    *from = parts * r / size * CHARL__PART;
    *to = parts * (r + 1) / size * CHARL__PART;
    *from = *from < count ? *from : count;
    *to = *to < count ? *to : count;
}

void charl__range_own(const charl__range *range, int r, int size, int64_t *from, int64_t *to)
{
    if (range->owner < 0) {
        charl__range_part(range->count, r, size, from, to);
    } else {
        *from = r > range->owner ? range->count : 0;
        *to = r >= range->owner ? range->count : 0;
    }
}

int64_t charl__range_most(const charl__range *range, int size)
{
    return range->owner < 0 ? charl__ceil_div(charl__ceil_div(range->count, CHARL__PART), size) * CHARL__PART
                            : range->count;
}

/* The number of cuts up to value `at`. */
static int cuts_before(const charl__owners *owners, int64_t at)
{
    int low = 0, high = owners ? owners->n : 0;

    while (low < high) {
        const int middle = (low + high) / 2;

        if (owners->cut[middle].at <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int charl__owners_find(const charl__owners *owners, int64_t at)
{
    const int n = cuts_before(owners, at);

    return n > 0 ? owners->cut[n - 1].owner : -1;
}

int64_t charl__allreduce_uncut(const charl_allreduce *ar, int64_t offset, int64_t count)
{
    const int n = cuts_before(ar->owners, offset);

    return ar->owners && n < ar->owners->n && ar->owners->cut[n].at < offset + count ? ar->owners->cut[n].at - offset
                                                                                     : count;
}

int charl__allreduce_parts(const charl_allreduce *ar, int *mine)
{
    *mine = ar->part;
    return ar->parts;
}

void charl__allreduce_part(const charl_allreduce *ar, int64_t offset, int64_t count, int part, int64_t *from,
                           int64_t *to)
{
    charl__range_own(&(charl__range){.count = count, .owner = charl__owners_find(ar->owners, offset)}, part, ar->parts,
                     from, to);
}

void charl__allreduce_add(const charl_allreduce *ar, const charl__tree_add *adds, int m, void *const *leaf, int64_t n,
                          void *out)
{
    if (ar->options.reduce_dtype == CHARL_BF16) {
        const uint16_t *half[CHARL_MAX_SLICES];

        for (int k = 0; k < m; k++) {
            half[k] = leaf[k];
        }
        charl__tree_apply_bf16(adds, m, half, n, out);
    } else {
        const float *full[CHARL_MAX_SLICES];

        for (int k = 0; k < m; k++) {
            full[k] = leaf[k];
        }
        charl__tree_apply(adds, m, full, n, out);
    }
}

static charl_status begin(charl_allreduce *ar, charl__range range, int64_t *ticket)
{
    charl_status st = CHARL_OK;
    const int64_t offset = range.offset, count = range.count;

    CHARL_REQUIRE(offset >= 0 && count >= 0 && offset <= ar->n && count <= ar->n - offset, CHARL_ERR_INVALID,
                  "values %lld to %lld are outside the all-reduce of %lld", (long long)offset,
                  (long long)(offset + count), (long long)ar->n);
    CHARL_REQUIRE(ar->begun - ar->completed < CHARL__RANGES, CHARL_ERR_INVALID,
                  "%d ranges are in flight already; HINT charl_allreduce_wait", CHARL__RANGES);
    CHARL_TRY(charl__comm_check(ar->c));
    range.owner = range.gathers || ar->options.scatters ? charl__owners_find(ar->owners, offset) : -1;
    CHARL_INVARIANT(range.owner < 0 || charl__allreduce_uncut(ar, offset, count) == count);
    *ticket = ar->begun;
    ar->range[*ticket % CHARL__RANGES] = range;
    ar->begun++;
    if (ar->algorithm->begin) {
        st = ar->algorithm->begin(ar, *ticket);
        ar->begun -= st != CHARL_OK;
    }
    CHARL_TRY(st);
    return CHARL_OK;
}

charl_status charl_allreduce_begin(charl_allreduce *ar, int64_t offset, int64_t count, int64_t *ticket)
{
    CHARL_GIVEN(ar, ticket);
    return begin(ar, (charl__range){.offset = offset, .count = count}, ticket);
}

charl_status charl__allreduce_gather(charl_allreduce *ar, int64_t offset, int64_t count, int64_t *ticket)
{
    CHARL_GIVEN(ar, ticket);
    CHARL_REQUIRE(ar->gathered || charl__allreduce_gathers_in_place(ar), CHARL_ERR_INVALID,
                  "this all-reduce was created without the option to gather");
    CHARL_TRY(begin(ar, (charl__range){.offset = offset, .count = count, .gathers = true}, ticket));
    return CHARL_OK;
}

charl_status charl__allreduce_progress(charl_allreduce *ar, int64_t *completed)
{
    CHARL_GIVEN(ar, completed);
    CHARL_TRY(charl__comm_check(ar->c));
    CHARL_TRY(ar->algorithm->progress(ar));
    *completed = ar->completed;
    return CHARL_OK;
}

/* After a failure no kernel may keep waiting for the lost rank. */
static charl_status give_up(charl_allreduce *ar, charl_status st)
{
    if (st != CHARL_OK && ar->algorithm->abandon && charl_comm_is_broken(ar->c)) {
        ar->algorithm->abandon(ar);
    }
    return st;
}

charl_status charl_allreduce_wait(charl_allreduce *ar, int64_t ticket)
{
    CHARL_GIVEN(ar);
    charl_status st = CHARL_OK;
    charl__waiter w;

    CHARL_REQUIRE_CLEANUP(ticket >= 0 && ticket < ar->begun, CHARL_ERR_INVALID,
                          "range %lld of the all-reduce was never begun", (long long)ticket);
    CHARL_TRY_CLEANUP(charl__comm_check(ar->c));
    charl__wait_start(ar->c, &w, "all-reduce", ar->algorithm->late, ar);
    w.has_messages = ar->c->n_nodes > 1;
    ar->waits = true;
    for (;;) {
        CHARL_TRY_CLEANUP(ar->algorithm->progress(ar));
        if (ticket < ar->completed) {
            break;
        }
        CHARL_TRY_CLEANUP(charl__wait_pause(ar->c, &w));
    }
    if (ar->algorithm->verify) {
        CHARL_TRY_CLEANUP(ar->algorithm->verify(ar));
    }
cleanup:
    ar->waits = false;
    return give_up(ar, st);
}

bool charl__allreduce_buffers(const charl_allreduce *ar, charl__buffer **lanes, charl__buffer **sum)
{
    *lanes = ar->device_lanes;
    *sum = ar->device_sum;
    return ar->algorithm->join != NULL;
}

bool charl__allreduce_gathers_in_place(const charl_allreduce *ar)
{
    return ar->algorithm->join && ar->options.gathers;
}

bool charl__allreduce_join_waits(const charl_allreduce *ar)
{
    return ar->algorithm->join && ar->c->n_nodes > 1;
}

void charl__allreduce_share(charl_allreduce *ar, bool with_launches)
{
    ar->shares = with_launches;
}

const charl__event *charl__allreduce_written(const charl_allreduce *ar)
{
    return ar->written;
}

/* Whether a rank of this node neither computes nor waits. */
static bool is_lifeless(const void *arg, int rank)
{
    const charl_comm *c = ((const charl_allreduce *)arg)->c;

    return c->peer[rank].node == charl__comm_node(c) && !charl__peer_is_waiting(c, rank);
}

static bool has_lifeless(const charl_allreduce *ar)
{
    for (int i = 0; i < ar->c->local_size; i++) {
        const int r = charl__comm_local_peer(ar->c, i);

        if (r != ar->c->rank && is_lifeless(ar, r)) {
            return true;
        }
    }
    return false;
}

static charl_status exchange(charl_allreduce *ar)
{
    charl__waiter w;
    bool is_written = !ar->written;

    charl__wait_start(ar->c, &w, "all-reduce", is_lifeless, ar);
    for (int64_t polls = 0; !is_written; polls++) {
        const bool is_busy = ar->algorithm->is_exchanging && ar->algorithm->is_exchanging(ar);
        const bool sleeps = polls >= POLLS && !is_busy;

        CHARL_TRY(ar->algorithm->progress(ar));
        CHARL_TRY(charl__event_is_done(ar->written, &is_written));
        if (sleeps || polls % LOOK_EVERY == 0) {
            CHARL_TRY(charl__wait_look(ar->c, &w, has_lifeless(ar)));
        }
        charl__sleep_s(sleeps && !is_written ? nap_s : 0);
    }
    return CHARL_OK;
}

charl_status charl__allreduce_exchange(charl_allreduce *ar)
{
    CHARL_TRY(charl__comm_check(ar->c));
    CHARL_TRY(give_up(ar, exchange(ar)));
    return CHARL_OK;
}

bool charl__allreduce_is_intact(charl_allreduce *ar)
{
    return !ar->algorithm->verify || ar->algorithm->verify(ar) == CHARL_OK;
}

charl_status charl__allreduce_join(charl_allreduce *ar)
{
    CHARL_TRY(charl__comm_check(ar->c));
    CHARL_TRY(give_up(ar, ar->algorithm->join(ar)));
    return CHARL_OK;
}

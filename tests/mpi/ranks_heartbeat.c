/* What nodes tell each other of their ranks. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "dist/comm_private.h"
#include "dist/liveness/node_address.h"
#include "dist/liveness/heartbeat.h"
#include "mpi/ranks.h"
#include "support/support.h"

static char warning[512];

static void keep(void *ctx, charl_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    snprintf(warning, sizeof warning, "%s", message);
}

/* No rank is lost here. */
static void died(void *ctx, const charl_comm_death *death)
{
    (void)ctx;
    (void)death;
}

/* A communicator of nodes of two, watched; some fault may be in its way. */
static charl_comm *watched_nodes(const char *fault)
{
    charl_comm *c = NULL;

    charl_assert_ok(charl__fault_set(fault));
    charl_assert_ok(charl_comm_create(
        &(charl_comm_options){sizeof(charl_comm_options), .timeout_s = 20, .ranks_per_node = {2}}, &c));
    charl_assert_ok(charl_comm_watch_begin(c, died, NULL));
    return c;
}

static void watched_end(charl_comm *c)
{
    charl_assert_ok(charl_comm_barrier(c));
    charl_comm_watch_end(c);
    charl_comm_destroy(c);
    charl_assert_ok(charl__fault_set(NULL));
}

/* Of any number of nodes: links are mutual, few, and join all; connected nodes speak of a node one after another. */
void test_links_grow_with_the_logarithm(void **state)
{
    (void)state;
    for (int n = 1; n <= 1100; n += n < 70 ? 1 : 103) {
        int away[1100] = {0}, reached = 1, log2 = 0;
        charl__peer peer[1] = {{.node = 0}};
        charl_comm c = {.n_nodes = n, .peer = peer};

        while (1 << log2 < n) {
            log2++;
        }
        for (int m = 1; m < n; m++) {
            assert_true(charl__heartbeat_is_linked(&c, m, 0) == charl__heartbeat_is_linked(&c, 0, m));
            assert_true(n > CHARL__MESH || charl__heartbeat_is_linked(&c, m, 0));
            reached += charl__heartbeat_is_linked(&c, m, 0);
        }
        assert_true(n <= CHARL__MESH || reached <= 1 + 2 * log2);
        for (int hops = 1; hops <= log2; hops++) { /* news from node 0 */
            for (int from = 0; from < n; from++) {
                for (int to = 1; to < n && (from == 0 || away[from] == hops - 1); to++) {
                    if ((from == 0) == (hops == 1) && away[to] == 0 && charl__heartbeat_is_linked(&c, to, from)) {
                        away[to] = hops;
                    }
                }
            }
        }
        for (int m = 1; m < n; m++) {
            assert_true(away[m] > 0);
        }
    }
}

static bool has_heartbeat(void)
{
    return charl_comm_size(comm) > 2 && !charl_comm_is_team(comm);
}

enum { GIVE_UP_S = 100 }; /* what is waited for comes, however busy the machine is */

/* Whether every rank of another node is (not) heard, and is in this step. */
static bool comes_true(const charl_comm *c, bool heard, int64_t step)
{
    const double begin = charl__clock_s();

    while (charl__clock_s() - begin < GIVE_UP_S) {
        bool all = true;

        for (int r = 0; r < c->size; r++) {
            const charl__slot *s = charl__slot_of(c, r);

            all = all && (c->peer[r].node == c->peer[c->rank].node ||
                          ((atomic_load(&s->heard_ms) > 0) == heard && atomic_load(&s->step) == step));
        }
        if (all) {
            return true;
        }
        charl__sleep_s(0.01);
    }
    return false;
}

void test_nodes_hear_of_each_other(void **state)
{
    charl_comm *c;

    (void)state;
    if (!has_heartbeat()) {
        skip_test();
        return;
    }
    c = watched_nodes(NULL);
    charl_comm_mark(c, 7, "hearing");
    assert_true(comes_true(c, true, 7));
    charl_assert_ok(charl_comm_barrier(c));
    assert_false(charl__peer_is_dead(c, (c->rank + 2) % c->size));
    charl_comm_watch_end(c); /* shuts down: the end of the connection then has no meaning */
    charl_assert_ok(charl_comm_barrier(c));
    assert_false(charl__peer_is_dead(c, (c->rank + 2) % c->size));
    charl_comm_destroy(c);
}

/* That a rank moves is known on nodes that are not connected with its own; and that none moves. */
void test_news_go_round(void **state)
{
    charl_comm *c = NULL;
    int64_t before = -1, quiet = -2;
    bool is_linked;

    (void)state;
    if (charl_comm_size(comm) <= CHARL__MESH || charl_comm_is_team(comm)) {
        skip_test();
        return;
    }
    charl_assert_ok(charl_comm_create(
        &(charl_comm_options){sizeof(charl_comm_options), .timeout_s = 20, .ranks_per_node = {1}}, &c));
    charl_assert_ok(charl_comm_watch_begin(c, died, NULL));
    is_linked = charl__heartbeat_is_linked(c, 0, c->rank);
    for (int i = 0; i < 20 && quiet != before; i++) { /* until the last of what the ranks did is known */
        before = quiet;
        charl__sleep_s(1);
        quiet = charl__life_sum(c, c->rank);
    }
    assert_int_equal(quiet, before);
    charl_assert_ok(charl_comm_barrier(comm)); /* no rank of c moves by it */
    if (c->rank == 0) {
        charl_comm_mark(c, 9, "moving");
    }
    for (double begin = charl__clock_s(); c->rank > 0 && charl__life_sum(c, c->rank) <= quiet;) {
        assert_true(charl__clock_s() - begin < GIVE_UP_S);
        charl__sleep_s(0.01);
    }
    charl_assert_ok(charl_comm_barrier(comm));
    assert_true(c->rank == 0 || (atomic_load(&charl__slot_of(c, 0)->step) == 9) == is_linked);
    watched_end(c);
}

/* Whoever does not know the token is dropped, and does no harm. */
void test_a_connection_without_token_is_closed(void **state)
{
    char nonsense[64] = "GET / HTTP/1.1";
    charl_comm *c = NULL;
    int fd = -1;

    (void)state;
    if (!has_heartbeat()) {
        skip_test();
        return;
    }
    charl_assert_ok(charl_comm_create(
        &(charl_comm_options){sizeof(charl_comm_options), .timeout_s = 20, .ranks_per_node = {2}}, &c));
    if (c->heartbeat) {
        fd = charl__node_connect(charl__heartbeat_address(c, charl__comm_node(c)), 0);
        assert_true(fd >= 0);
        charl__sleep_s(0.01);
        assert_int_equal(write(fd, nonsense, sizeof nonsense), sizeof nonsense);
    }
    charl_assert_ok(charl_comm_watch_begin(c, died, NULL));
    charl_comm_mark(c, 8, "hearing");
    assert_true(comes_true(c, true, 8));
    if (fd >= 0) {
        assert_true(read(fd, nonsense, sizeof nonsense) <= 0);
        charl__socket_close(&fd);
    }
    watched_end(c);
}

void test_nodes_that_do_not_hear_work_on(void **state)
{
    const double begin = charl__clock_s();
    charl_comm *c;

    (void)state;
    if (!has_heartbeat()) {
        skip_test();
        return;
    }
    charl_log_set_callback(keep, NULL);
    warning[0] = '\0';
    c = watched_nodes("comm.link@0:1+");
    while (c->heartbeat && c->rank > 0 && charl__clock_s() - begin < GIVE_UP_S && !warning[0]) {
        charl__sleep_s(0.01);
    }
    if (c->heartbeat && c->rank > 0) {
        assert_non_null(strstr(warning, "node 0 ("));
        assert_non_null(strstr(warning, "no heartbeat connection"));
    }
    watched_end(c);
    warning[0] = '\0';
    c = watched_nodes("comm.report@0:1+");
    while (c->heartbeat && c->rank > 0 && charl__clock_s() - begin < 2 * GIVE_UP_S && !warning[0]) {
        charl__sleep_s(0.01);
    }
    if (c->heartbeat && c->rank > 0) {
        assert_non_null(strstr(warning, "malformed heartbeat"));
    }
    watched_end(c);
    charl_log_set_callback(NULL, NULL);
}

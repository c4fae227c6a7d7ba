/* What ranks see when one of them is lost: mishap HOW RANK [K]. A little job of steps, of which
 * RANK does not survive the fifth; with K, on pretended nodes of K ranks. Exit code 7 and one
 * message are the proof; expect.sh looks at both.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/numeric/tree.h"
#include "charl/comm.h"
#include "dist/comm_private.h"
#include "dist/consensus.h"
#include "dist/liveness/heartbeat.h"

enum { SLICES = 64 };

static charl_comm *comm;

static void say(const char *text)
{
    char line[1400];

    snprintf(line, sizeof line, "mishap: %s\n", text);
    charl_comm_exit(comm, 7, line);
}

static void died(void *ctx, const charl_comm_death *death)
{
    (void)ctx;
    say(death->message);
}

static void lose(const char *how)
{
    if (strcmp(how, "kill") == 0 || strcmp(how, "unwatched") == 0) {
        raise(SIGKILL);
    } else if (strcmp(how, "stop") == 0) {
        raise(SIGSTOP);
    } else if (strcmp(how, "sleep") == 0) {
        charl__sleep_s(60);
    } else if (strcmp(how, "still") == 0) { /* the others are caught in MPI, as when memory is shared */
        raise(SIGSTOP);
    } else if (strcmp(how, "exit") == 0) {
        _exit(0);
    } else if (strcmp(how, "leave") == 0) {
        charl_comm_exit(comm, 9, "mishap: I leave\n");
    }
}

/* A rank that is slow but shows that it lives is waited for. */
static void dawdle(int64_t step)
{
    for (int i = 0; i < 20; i++) {
        charl_comm_mark(comm, step, "dawdling");
        charl__sleep_s(0.1);
    }
}

/* Values of the step's range: once the ranks, or the nodes, do not agree on it. */
static int64_t range_count(const char *how, int64_t step)
{
    if (strncmp(how, "differ", 6) != 0) {
        return 100000;
    }
    if (step != 5) {
        return 1000;
    }
    return 1000 + (strcmp(how, "differ") == 0 ? charl_comm_rank(comm) : 1000 * charl__comm_node(comm));
}

/* Until the nodes have heard of each other, so that every rank knows where those of its own and of connected nodes are. */
static void others_await(void)
{
    const double until = charl__clock_s() + 100;

    for (int r = 0; r < charl_comm_size(comm) && charl__clock_s() < until; r++) {
        char text[CHARL__COMM_PLACE];

        while ((comm->peer[r].node == charl__comm_node(comm) ||
                charl__heartbeat_is_linked(comm, comm->peer[r].node, charl__comm_node(comm))) &&
               !strstr(charl__comm_place(comm, r, text, sizeof text), ", step 4") && charl__clock_s() < until) {
            charl__sleep_s(0.01);
        }
    }
}

static charl_status job(const char *how, int rank)
{
    charl_status st = CHARL_OK;
    charl_allreduce *ar = NULL;
    charl_reducer *sums = NULL;
    charl_slices mine;
    float one[2 * CHARL_MAX_LANES] = {0};
    int64_t ticket = 0;

    CHARL_TRY_CLEANUP(charl_slices_block(SLICES, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    CHARL_TRY_CLEANUP(charl_allreduce_create(comm, 100000, &mine, NULL, &ar));
    CHARL_TRY_CLEANUP(charl_reducer_create(comm, &mine, &sums));
    for (int64_t step = 1; step <= 10; step++) {
        const bool is_odd = step == 5 && charl_comm_rank(comm) == rank;

        charl_comm_mark(comm, step, "backward");
        if (step == 4) {
            others_await();
        }
        if (step == 5 && strcmp(how, "still") == 0 && charl_comm_rank(comm) != rank) {
            charl__sleep_s(60);
        }
        if (is_odd) {
            lose(how);
            if (strcmp(how, "dawdle") == 0) {
                dawdle(step);
            }
        }
        CHARL_TRY_CLEANUP(charl_allreduce_begin(ar, 0, range_count(how, step), &ticket));
        CHARL_TRY_CLEANUP(charl_allreduce_wait(ar, ticket));
        for (int j = 0; j < mine.n_lanes; j++) {
            one[j] = 1;
        }
        CHARL_TRY_CLEANUP(charl_reducer_sum(sums, one, is_odd && strcmp(how, "unequal") == 0 ? 2 : 1, one));
        CHARL_TRY_CLEANUP(charl_comm_agree(comm, CHARL_OK));
    }
cleanup:
    charl_reducer_destroy(sums);
    charl_allreduce_destroy(ar);
    return st;
}

int main(int argc, char **argv)
{
    charl_comm_options options = {sizeof options, .timeout_s = 1.5};
    charl_status st;

    if (charl_comm_init(&argc, &argv) != CHARL_OK) {
        fprintf(stderr, "mishap: %s\n", charl_error_message());
        return 2;
    }
    if (argc < 3) {
        return 1;
    }
    options.ranks_per_node[0] = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
    options.still_s = strcmp(argv[1], "still") == 0 ? 2 : 0;
    if (charl_comm_create(&options, &comm) != CHARL_OK) {
        say(charl_error_message());
    }
    if (strcmp(argv[1], "unwatched") != 0 && charl_comm_watch_begin(comm, died, NULL) != CHARL_OK) {
        say(charl_error_message());
    }
    st = job(argv[1], (int)strtol(argv[2], NULL, 10));
    if (st == CHARL_ERR_COMM) {
        say(charl_error_message());
    }
    charl_comm_destroy(comm);
    charl_comm_fini();
    printf("mishap: ended with %s\n", charl_status_name(st));
    return st == CHARL_OK ? 0 : 1;
}

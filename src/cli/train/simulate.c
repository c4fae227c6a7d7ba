/* --simulate-ranks: the ranks of a run as threads of this process. Each does the same as a real rank,
 * from its communicator to its device context, and one that fails alone ends the process. */
#include <pthread.h>
#include <stdlib.h>

#include <charl/error.h>
#include "cli/train/train.h"
#include "cli/cli.h"

typedef struct simulated_rank {
    charl_comm_options options;
    int (*work)(void *ctx, charl_comm *comm);
    void *ctx;
    int code;
} simulated_rank;

static void *rank_run(void *arg)
{
    simulated_rank *r = arg;
    charl_comm *comm = NULL;
    const charl_status st = charl_comm_create(&r->options, &comm);

    if (st != CHARL_OK) { /* the others may be waiting for this rank */
        charl_comm_exit(NULL, charl__cli_fail(st), NULL);
    }
    r->code = r->work(r->ctx, comm);
    if (charl_comm_is_broken(comm)) {
        charl_comm_exit(comm, r->code, NULL);
    }
    charl_comm_destroy(comm);
    return NULL;
}

int charl__train_simulate(const charl__train_args *args, int (*work)(void *ctx, charl_comm *comm), void *ctx)
{
    charl_status st = CHARL_OK;
    const int n = args->simulate_ranks;
    simulated_rank *ranks = NULL;
    pthread_t *threads = NULL;
    charl_team *team = NULL;
    int code = CHARL__EXIT_OK;

    CHARL_TRY_CLEANUP(charl__cli_alloc(n, sizeof *ranks, &ranks));
    CHARL_TRY_CLEANUP(charl__cli_alloc(n, sizeof *threads, &threads));
    CHARL_TRY_CLEANUP(charl_team_create(n, &team));
    for (int r = 0; r < n; r++) {
        ranks[r] = (simulated_rank){.options = {sizeof(charl_comm_options), .team = team, .rank = r,
                                                .ranks_per_node = {args->simulate_ranks_per_node}},
                                    .work = work,
                                    .ctx = ctx};
        if (pthread_create(&threads[r], NULL, rank_run, &ranks[r]) != 0) {
            /* the ranks that have arrived wait for the rest */
            charl_comm_exit(NULL, charl__cli_error(CHARL__EXIT_DEVICE, NULL, "no thread for simulated rank %d", r),
                            NULL);
        }
    }
    for (int r = 0; r < n; r++) {
        pthread_join(threads[r], NULL);
    }
    code = ranks[0].code;
cleanup:
    charl_team_destroy(team);
    free(threads);
    free(ranks);
    return st == CHARL_OK ? code : charl__cli_fail(st);
}

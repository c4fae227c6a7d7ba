/* Creation and topology of a communicator. Ranks are renumbered once, by (node, local rank); everything
 * later relies on a node having consecutive ranks. */
#include "dist/comm_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/registry/key.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/options.h"
#include "base/text/utf8.h"
#include "charl/version.h"
#include "dist/consensus.h"
#include "dist/liveness/heartbeat.h"

extern char **environ;

enum { YIELDS = 1000, CROWD = 8 /* ranks of a core that may wait awake */ };
static const double default_timeout_s = 60;

/* Several programs started by srun without an MPI plugin each believe to be the only one, and would all
 * train and write the same files. */
static charl_status singletons_refuse(void)
{
    const char *tasks = getenv("SLURM_NTASKS");
    int size = 1;

    CHARL_MPI(charl__mpi.Comm_size(MPI_COMM_WORLD, &size));
    CHARL_REQUIRE(size > 1 || !tasks || strtol(tasks, NULL, 10) <= 1, CHARL_ERR_CONFIG,
                  "Slurm started %s tasks but MPI sees one: start them with `srun --mpi=pmix` or "
                  "with mpirun (to run "
                  "one process on purpose: unset SLURM_NTASKS)",
                  tasks);
    CHARL_REQUIRE(size > 1 || charl_launcher_size() <= 1, CHARL_ERR_CONFIG,
                  "the launcher started %d processes but MPI sees one: this charl uses %s; HINT start them with the "
                  "mpirun of that MPI",
                  charl_launcher_size(), charl_comm_mpi_version());
    return CHARL_OK;
}

/* Launchers that start MPI processes set variables such as these. Slurm's are also set in a script that starts charl without
 * srun: MPI then decides. */
static bool is_launched(void)
{
    static const char *const prefixes[] = {
        "OMPI_COMM_WORLD_", "PMIX_", "PMI_", "SLURM_", "FLUX_", "PALS_", "ALPS_", "JSM_"};

    for (char **entry = environ; entry && *entry; entry++) {
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            if (strncmp(*entry, prefixes[i], strlen(prefixes[i])) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool leaves_mpi_alone; /* written before there are threads */

/* Why this process is the only rank and does not need MPI, else NULL. */
static const char *alone_because(void)
{
    return leaves_mpi_alone ? "no launcher has started this process" : charl__mpi_load();
}

charl_status charl_comm_init(int *argc, char ***argv)
{
    int is_started = 0, provided = 0;
    const char *alone = alone_because();

    /* Otherwise MPI's topology library opens OpenCL before charl has limited its threads. */
    CHARL_REQUIRE(setenv("HWLOC_COMPONENTS", "-opencl", 0) == 0, CHARL_ERR_NOMEM,
                  "out of memory for an environment variable");
    /* Otherwise Open MPI starts a daemon for a process that Slurm's batch script starts directly. */
    CHARL_REQUIRE(setenv("OMPI_MCA_ess_singleton_isolated", "1", 0) == 0, CHARL_ERR_NOMEM,
                  "out of memory for an environment variable");
    CHARL_REQUIRE(!alone || charl_launcher_size() <= 1, CHARL_ERR_CONFIG,
                  "the launcher started %d processes, but charl found no MPI: %s; HINT install the MPI that this charl "
                  "was built for, or put its folder into LD_LIBRARY_PATH",
                  charl_launcher_size(), alone);
    if (alone) {
        charl__log(CHARL_LOG_INFO, "one rank without MPI: %s", alone);
        return CHARL_OK;
    }
    CHARL_MPI(charl__mpi.Initialized(&is_started));
    CHARL_REQUIRE(!is_started, CHARL_ERR_INVALID, "MPI is started already");
    CHARL_MPI(charl__mpi.Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided));
    CHARL_MPI(charl__mpi.Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHARL_REQUIRE(provided >= MPI_THREAD_FUNNELED, CHARL_ERR_COMM,
                  "this MPI library does not allow a program with threads (level %d, needed %d)", provided,
                  MPI_THREAD_FUNNELED);
    CHARL_TRY(singletons_refuse());
    return CHARL_OK;
}

charl_status charl_comm_init_if_launched(int *argc, char ***argv)
{
    leaves_mpi_alone = !is_launched();
    return charl_comm_init(argc, argv);
}

void charl_comm_fini(void)
{
    int is_started = 0, is_ended = 0;

    if (alone_because()) {
        return;
    }
    charl__mpi.Initialized(&is_started);
    charl__mpi.Finalized(&is_ended);
    if (is_started && !is_ended) {
        charl__mpi.Finalize();
    }
}

void charl__group_withdraw(charl__group *g)
{
    if (g && g->transport->withdraw) {
        g->transport->withdraw(g);
    }
}

void charl__group_destroy(charl__group *g, bool is_broken)
{
    if (g) {
        g->transport->destroy(g, is_broken);
    }
}

/* The simulated node of the rank that is `local` among those that share memory; sizes are
 * charl_comm_options' ranks_per_node. */
static int pretended_node(const int *sizes, int local)
{
    int node = 0;

    for (int size = sizes[0]; size > 0 && local >= size; node++) {
        local -= size;
        if (node + 1 < CHARL_COMM_NODES && sizes[node + 1] > 0) {
            size = sizes[node + 1];
        }
    }
    return node;
}

charl_status charl__message_check(const charl__group *g, const charl__message *m, int count)
{
    CHARL_REQUIRE(count == m->count, CHARL_ERR_COMM,
                  "rank %d sent %d values where rank %d waits for %d: their ranges differ", m->rank, count, g->rank,
                  m->count);
    return CHARL_OK;
}

/* Ranks are renumbered by (node, local rank): `all` has them in launch order. */
static charl_status node_split(charl_comm *c, charl__group *all, const int *sizes, int *leader)
{
    charl_status st = CHARL_OK;
    const charl__transport *t = all->transport;
    charl__group *near = NULL;
    charl__request request;

    CHARL_TRY_CLEANUP(t->near(c, all, &near));
    CHARL_TRY_CLEANUP(t->split(c, near, pretended_node(sizes, near->rank), all->rank, &c->node));
    c->local_rank = c->node->rank;
    c->local_size = c->node->size;
    *leader = all->rank;
    CHARL_TRY_CLEANUP(t->broadcast(c->node, leader, sizeof *leader, 0, &request));
    CHARL_TRY_CLEANUP(charl__comm_finish(c, c->node, &request, "meeting of a node"));
    CHARL_TRY_CLEANUP(t->split(c, all, 0, *leader * all->size + c->local_rank, &c->world));
    c->rank = c->world->rank;
    c->size = c->world->size;
cleanup:
    charl__group_destroy(near, c->is_broken);
    return st;
}

/* The only rank, without MPI: a team of one. */
static charl_status alone_world(charl__group **out)
{
    charl_team *team;
    charl_status st;

    CHARL_TRY(charl_team_create(1, &team));
    st = charl__team_world(team, 0, out);
    charl_team_destroy(team);
    return st;
}

typedef struct build {
    char version[32], host[CHARL__HOST_BYTES];
} build;

/* Other versions have another layout of the messages that follow, so this comes first. every: zeros, for all ranks. */
static charl_status versions_compare(charl_comm *c, charl__group *all, build *every)
{
    build *own = &every[all->rank];
    charl__request request;

    snprintf(own->version, sizeof own->version, "%s%s", CHARL_VERSION, charl__fault("comm.version") ? "-other" : "");
    if (gethostname(own->host, sizeof own->host - 1) != 0) {
        snprintf(own->host, sizeof own->host, "unknown host");
    }
    charl__parts_equal(all->size, sizeof *own, c->counts, c->places);
    CHARL_TRY(all->transport->allgather(all, &(charl__parts){every, 1, c->counts, c->places}, &request));
    CHARL_TRY(charl__comm_finish(c, all, &request, "exchange of versions"));
    for (int r = 1; r < all->size; r++) {
        CHARL_REQUIRE(strcmp(every[r].version, every[0].version) == 0, CHARL_ERR_CONFIG,
                      "rank %d (%s) runs charl %s, rank 0 (%s) runs charl %s; HINT install one "
                      "version on every node",
                      r, every[r].host, every[r].version, every[0].host, every[0].version);
    }
    return CHARL_OK;
}

/* Number of the thread that runs this. */
static int64_t own_task(void)
{
    char text[64]; /* "77/task/78" */
    const ssize_t n = readlink("/proc/thread-self", text, sizeof text - 1);
    const char *last;

    text[n > 0 ? n : 0] = '\0';
    last = strrchr(text, '/');
    return last ? (int64_t)strtoll(last + 1, NULL, 10) : (int64_t)getpid();
}

static charl_status peers_exchange(charl_comm *c, int leader)
{
    charl__peer me = {.pid = (int64_t)getpid(), .task = own_task(), .leader = leader, .local_rank = c->local_rank};
    char state = '?';

    if (gethostname(me.host, sizeof me.host) != 0) {
        snprintf(me.host, sizeof me.host, "unknown host");
    }
    me.host[sizeof me.host - 1] = '\0';
    charl__process_read(&me, &state, &me.started);
    CHARL_TRY(charl_comm_allgather(c, &me, sizeof me, c->peer));
    for (int r = 0; r < c->size; r++) {
        int64_t started = 0;

        if (r == 0 || c->peer[r].leader != c->peer[r - 1].leader) {
            c->node_first[c->n_nodes++] = r;
        }
        c->peer[r].node = c->n_nodes - 1;
        c->is_visible[r] =
            c->peer[r].leader == leader &&
            (c->is_team || (charl__process_read(&c->peer[r], &state, &started) && started == c->peer[r].started));
    }
    c->node_first[c->n_nodes] = c->size;
    return CHARL_OK;
}

/* How `n` ranks of this node wait for others: if there are more than its cores, ranks that poll would keep from running those that
 * they wait for. Simulated ranks then nap at once; this costs no time, since their clock jumps when all of them nap. */
static void choose_waiting(charl_comm *c, int n)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const double crowd = cores > 0 ? (double)n / (double)(CROWD * cores) : 1;

    c->spins = cores >= n ? 100 : 0; /* two ranks may still share a core */
    c->yields = crowd > 1 || (c->is_team && n > cores) ? 1 : YIELDS;
    c->nap_s = 500e-6 * (crowd > 1 ? crowd : 1);
}

static charl_status board_create(charl_comm *c)
{
    CHARL_TRY(charl__window_create(c, sizeof(charl__board) + (size_t)c->size * sizeof(charl__slot),
                                   "the ranks' status page", &c->page));
    c->board = (charl__board *)(void *)c->page.base;
    c->me = charl__slot_of(c, c->rank);
    choose_waiting(c, c->local_size);
    return CHARL_OK;
}

static charl_status arrays_create(charl_comm *c, int size)
{
    CHARL_TRY(charl__alloc_array(size, sizeof *c->peer, &c->peer));
    CHARL_TRY(charl__alloc_array(size, sizeof *c->is_visible, &c->is_visible));
    CHARL_TRY(charl__alloc_array(size + 1, sizeof *c->node_first, &c->node_first));
    CHARL_TRY(charl__alloc_array(size, sizeof *c->counts, &c->counts));
    CHARL_TRY(charl__alloc_array(size, sizeof *c->places, &c->places));
    CHARL_TRY(charl__alloc_array(size, CHARL__GATHERED * sizeof *c->gathered, &c->gathered));
    return CHARL_OK;
}

charl_status charl_comm_create(const charl_comm_options *options, charl_comm **out)
{
    CHARL_GIVEN(out);
    CHARL__OPTIONS(charl_comm_options, options);
    charl_status st = CHARL_OK;
    charl_comm_options o = options ? *options : (charl_comm_options){sizeof(charl_comm_options), .timeout_s = 0};
    charl_comm *c = NULL;
    charl__group *all = NULL;
    build *every = NULL;
    int leader = 0;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__range_check(CHARL_ERR_INVALID, "timeout_s", o.timeout_s, "[0,86400]"));
    CHARL_TRY_CLEANUP(charl__range_check(CHARL_ERR_INVALID, "still_s", o.still_s, "[0,inf)"));
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *c, &c));
    charl__owner_init(&c->owner);
    c->timeout_s = o.timeout_s > 0 ? o.timeout_s : default_timeout_s;
    c->still_s = o.still_s;
    c->is_team = o.team != NULL;
    charl__clock_set_member(c->is_team);
    c->has_mpi = !c->is_team && !alone_because();
    atomic_init(&c->dead, -1);
    choose_waiting(c, 1);
    CHARL_TRY_CLEANUP(o.team        ? charl__team_world(o.team, o.rank, &all)
                      : !c->has_mpi ? alone_world(&all)
                                    : charl__mpi_world(&all));
    CHARL_REQUIRE_CLEANUP(all->size <= CHARL_MAX_SLICES, CHARL_ERR_CONFIG,
                          "%d ranks; charl runs on at most %d, one per slice of the batch", all->size,
                          CHARL_MAX_SLICES);
    choose_waiting(c, o.team ? all->size : 1);
    CHARL_TRY_CLEANUP(arrays_create(c, all->size));
    CHARL_TRY_CLEANUP(charl__alloc_array(all->size, sizeof *every, &every));
    CHARL_TRY_CLEANUP(versions_compare(c, all, every));
    if (!o.team && o.ranks_per_node[0] == 0) {
        o.ranks_per_node[0] = (int)charl__env_integer(CHARL_ENV_RANKS_PER_NODE, 0);
    }
    CHARL_TRY_CLEANUP(node_split(c, all, o.ranks_per_node, &leader));
    (o.team ? charl__fault_thread_rank_set : charl__fault_rank_set)(c->rank);
    CHARL_TRY_CLEANUP(peers_exchange(c, leader));
    CHARL_TRY_CLEANUP(board_create(c));
    if (!c->is_team) { /* its ranks share what the process has */
        CHARL_TRY_CLEANUP(charl__comm_claim_processors(c, o.keep_binding));
    }
    CHARL_TRY_CLEANUP(charl__heartbeat_create(c)); /* a thread, which inherits the binding */
    *out = c;
    c = NULL;
cleanup:
    charl_free(every);
    charl__group_destroy(all, st != CHARL_OK);
    if (c) { /* the failure may be this rank's only: nothing collective to free it */
        c->is_broken = c->is_broken || c->size > 1 || !c->world;
    }
    charl_comm_destroy(c);
    return st;
}

void charl_comm_destroy(charl_comm *c)
{
    if (!c) {
        return;
    }
    charl_comm_watch_end(c);
    if (c->me && !c->is_broken) {
        atomic_store(&c->me->leaving, 1);
        c->is_broken = charl_comm_barrier(c) != CHARL_OK; /* then freeing would wait forever */
    }
    charl__heartbeat_destroy(c);
    charl__window_destroy(c, &c->page);
    charl__group_destroy(c->node, c->is_broken);
    charl__group_destroy(c->world, c->is_broken);
    charl_free(c->peer);
    charl_free(c->is_visible);
    charl_free(c->node_first);
    charl_free(c->counts);
    charl_free(c->places);
    charl_free(c->gathered);
    if (c->is_team) {
        charl__clock_set_member(false);
    }
    charl_free(c);
}

/* For the thread of a rank to leave by itself, and for charl__comm_last. A launcher may end it before: Open MPI's mpirun within two seconds. */
static const double last_s = 5;

void charl_comm_exit(charl_comm *c, int code, const char *message)
{
    int others_reported = 0;

    if (c && c->me) {
        atomic_store(&c->me->leaving, 1);
        others_reported = message ? atomic_exchange(&c->board->has_reported, 1) : 1;
        charl__heartbeat_send(c, true);
    }
    if (others_reported) {
        charl__sleep_s(c->is_told ? last_s
                                  : 0.3); /* the launcher ends the job when the first rank leaves, whose code counts */
    } else if (message) {
        char text[8192]; /* it may quote names from files */
        const char *at = text;

        snprintf(text, sizeof text, "%s", message);
        charl__utf8_make_visible(text);
        for (size_t left = strlen(text); left > 0;) {
            const ssize_t n = write(STDERR_FILENO, at, left);

            if (n <= 0) {
                break;
            }
            at += n;
            left -= (size_t)n;
        }
    }
    if (!others_reported && (!c || c->size > 1)) {
        charl__sleep_s(0.1); /* a launcher that ends the job may drop unread output */
    }
    if (c && charl__owner_check(&c->owner, "communicator") != CHARL_OK) {
        charl__sleep_s(last_s); /* its owner exits meanwhile */
    }
    _exit(code);
}

void charl__comm_last(charl_comm *c, void (*work)(void *ctx), void *ctx)
{
    enum { IDLE, WORKS, DONE };
    const double begin = charl__clock_s();
    int was = IDLE;

    if (!c->is_broken || !c->me) {
        return;
    }
    if (atomic_compare_exchange_strong(&c->board->last, &was, WORKS)) {
        work(ctx);
        atomic_store(&c->board->last, DONE);
    }
    while (atomic_load(&c->board->last) != DONE && charl__clock_s() - begin < last_s) {
        charl__sleep_s(0.01);
    }
}

int charl_comm_rank(const charl_comm *c)
{
    return c ? c->rank : 0;
}

int charl_comm_size(const charl_comm *c)
{
    return c ? c->size : 0;
}

int charl_comm_local_rank(const charl_comm *c)
{
    return c ? c->local_rank : 0;
}

int charl_comm_local_size(const charl_comm *c)
{
    return c ? c->local_size : 0;
}

int charl__comm_node(const charl_comm *c)
{
    return c ? c->peer[c->rank].node : 0;
}

int charl_comm_node_count(const charl_comm *c)
{
    return c ? c->n_nodes : 0;
}

const char *charl_comm_host(const charl_comm *c, int rank)
{
    return c && rank >= 0 && rank < c->size ? c->peer[rank].host : "";
}

int64_t charl_comm_pid(const charl_comm *c, int rank)
{
    if (!c) {
        return 0;
    }
    return rank >= 0 && rank < c->size ? c->peer[rank].pid : -1;
}

bool charl_comm_is_team(const charl_comm *c)
{
    return c && c->is_team;
}

bool charl_comm_is_broken(const charl_comm *c)
{
    return c && c->is_broken;
}

void charl_comm_set_timeout(charl_comm *c, double timeout_s)
{
    if (c && charl__range_holds("(0,86400]", timeout_s)) {
        c->timeout_s = timeout_s;
    }
}

int charl__comm_local_peer(const charl_comm *c, int local)
{
    return c->rank - c->local_rank + local;
}

/* Where a training starts: its run directory, and the checkpoint to resume from. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "config/config_rows.h"
#include "base/alloc.h"
#include "base/error.h"
#include "train/rundir.h"
#include "train/trainer.h"

static bool is_named(const char *resume)
{
    return strcmp(resume, "auto") != 0 && strcmp(resume, "must") != 0 && strcmp(resume, "never") != 0;
}

/* What rank 0 proposes to resume from. */
typedef struct proposal {
    char path[4096]; /* "": afresh */
    int64_t step;
} proposal;

#define NO_FALLBACK                                                                                                    \
    "run.strict = yes: no older checkpoint is resumed in its place. HINT repair or remove it, or "                     \
    "accept the older one with run.strict = no"

/* The newest checkpoint must be the one that was written last. */
static charl_status check_newest(const charl__trainer *t, const charl_run_found *found)
{
    const char *dir = t->config->run.output_dir;
    const int64_t last = charl_run_linked(dir, "last.h5");
    const bool is_missing = last > found->step && found->n_refused == 0;
    char text[1200] = "";

    if (is_missing) {
        snprintf(text, sizeof text, "%s/last.h5 names a checkpoint of step %" PRId64 " that is not there", dir, last);
    }
    CHARL_REQUIRE(!t->config->run.strict || (!is_missing && found->n_refused == 0), CHARL_ERR_CHECKPOINT,
                  "%.1500s\n" NO_FALLBACK, is_missing ? text : found->warning);
    charl__trainer_warn(t, found->warning);
    charl__trainer_warn(t, text);
    return CHARL_OK;
}

/* The newest checkpoint before step `before` that rank 0 can read. */
static charl_status propose(charl__trainer *t, int64_t before, proposal *out)
{
    charl_status st = CHARL_OK;
    const char *resume = t->config->run.resume, *dir = t->config->run.output_dir;
    charl_run_found found = {0};

    CHARL_REQUIRE_CLEANUP(
        !t->options->overwrite || strcmp(resume, "must") != 0, CHARL_ERR_CONFIG,
        "--overwrite starts a new run, but run.resume = must continues one; HINT use only one of them");
    CHARL_TRY_CLEANUP(charl_run_find(dir, before, &found));
    if (before == INT64_MAX && !t->options->overwrite && strcmp(resume, "never") != 0) {
        CHARL_TRY_CLEANUP(check_newest(t, &found));
    } else {
        charl__trainer_warn(t, found.warning);
    }
    CHARL_REQUIRE_CLEANUP(found.path || strcmp(resume, "must") != 0, CHARL_ERR_CHECKPOINT,
                          "run.resume = must, but %s holds no usable checkpoint", dir);
    CHARL_REQUIRE_CLEANUP(!found.path || t->options->overwrite || strcmp(resume, "never") != 0, CHARL_ERR_CONFIG,
                          "run.resume = never, but %s holds a run at step %" PRId64
                          "; use another run.output_dir, or --overwrite",
                          dir, found.step);
    if (found.path && strcmp(resume, "never") != 0 && !t->options->overwrite) {
        CHARL_REQUIRE_CLEANUP((size_t)snprintf(out->path, sizeof out->path, "%s", found.path) < sizeof out->path,
                              CHARL_ERR_CONFIG, "the path %s is too long", found.path);
        out->step = found.step;
    }
cleanup:
    charl_run_found_fini(&found);
    return st;
}

/* Whether every rank can read what rank 0 proposes and has read itself; `why` is the reason of one
 * that cannot. A failure other than a damaged or missing file says nothing about the file. */
static charl_status read_by_all(const charl__trainer *t, const proposal *p, bool *is_usable, char *why, size_t bytes)
{
    charl_status st = CHARL_OK;

    if (charl_comm_rank(t->comm) != 0) {
        st = charl_run_verify(p->path, p->step);
    }
    st = charl_comm_agree(t->comm, st);
    *is_usable = st == CHARL_OK;
    if (st == CHARL_ERR_CHECKPOINT) {
        snprintf(why, bytes, "%s", charl_error_message());
        return CHARL_OK;
    }
    return st;
}

static charl_status refuse_unreadable(const char *why)
{
    CHARL_FAIL(CHARL_ERR_CHECKPOINT,
               "%s; no older checkpoint can be read by every rank. HINT all ranks read "
               "run.output_dir of rank 0, which must be a directory that all nodes "
               "share; to start afresh use --overwrite or another run.output_dir",
               why);
}

static charl_status refuse_fallback(const char *why)
{
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s\n" NO_FALLBACK, why);
}

/* The newest checkpoint that every rank can read, from the newest to older ones. */
static charl_status choose(charl__trainer *t, proposal *p)
{
    int64_t before = INT64_MAX;
    char why[1400] = "", text[1600];
    bool is_usable = false;

    for (; !is_usable; before = p->step) {
        *p = (proposal){.path = ""};
        CHARL_TRY(charl_comm_agree(t->comm, charl_comm_rank(t->comm) == 0 ? propose(t, before, p) : CHARL_OK));
        CHARL_TRY(charl_comm_broadcast(t->comm, p, sizeof *p, 0));
        if (!p->path[0]) {
            return before == INT64_MAX ? CHARL_OK : charl_comm_agreed(t->comm, refuse_unreadable(why));
        }
        CHARL_TRY(read_by_all(t, p, &is_usable, why, sizeof why));
        if (is_usable) {
            continue;
        }
        if (t->config->run.strict) {
            CHARL_TRY(charl_comm_agreed(t->comm, refuse_fallback(why)));
        }
        if (charl_comm_rank(t->comm) == 0) {
            snprintf(text, sizeof text, "%s; all ranks go back to a checkpoint before step %" PRId64, why, p->step);
            charl__trainer_warn(t, text);
        }
        t->supersedes = true; /* rank 0 can read the later ones and would find them again */
    }
    return CHARL_OK;
}

/* 128 random bits as hexadecimal digits. */
static charl_status draw_run_id(char out[33])
{
    unsigned char bits[16];

    CHARL_REQUIRE(getrandom(bits, sizeof bits, 0) == (ssize_t)sizeof bits, CHARL_ERR_IO,
                  "cannot read random bytes from the system");
    for (size_t i = 0; i < sizeof bits; i++) {
        snprintf(out + 2 * i, 3, "%02x", bits[i]);
    }
    return CHARL_OK;
}

/* What rank 0 does alone. */
static charl_status begin_run(charl__trainer *t)
{
    if (t->writes) {
        CHARL_TRY(charl_run_open(t->config->run.output_dir, &t->run));
        charl__trainer_warn(t, charl_run_get_note(t->run));
        charl__rundir_read_id(t->config->run.output_dir, t->run_dir_id);
    }
    CHARL_TRY(draw_run_id(t->run_id));
    return CHARL_OK;
}

charl_status charl__trainer_begin(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    const char *resume = t->config->run.resume;
    proposal p = {.path = ""};

    t->writes = !t->options->dry_run && t->options->fast_dev_run == 0 && !t->options->overfit_batch && !t->retrace;
    CHARL_TRY(charl_comm_agree(t->comm, charl_comm_rank(t->comm) == 0 ? begin_run(t) : CHARL_OK));
    CHARL_TRY(charl_comm_broadcast(t->comm, t->run_id, sizeof t->run_id, 0));
    CHARL_TRY(charl_comm_broadcast(t->comm, t->run_dir_id, sizeof t->run_dir_id, 0));
    if (t->retrace) {
        CHARL_REQUIRE(snprintf(p.path, sizeof p.path, "%s", t->retrace->checkpoint ? t->retrace->checkpoint : "") <
                          (int)sizeof p.path,
                      CHARL_ERR_CONFIG, "the path %s is too long", t->retrace->checkpoint);
    } else if (t->writes && is_named(resume)) { /* each rank's own path: what it holds is compared */
        st = (size_t)snprintf(p.path, sizeof p.path, "%s", resume) < sizeof p.path
                 ? CHARL_OK
                 : charl_error_set(CHARL_ERR_CONFIG, __FILE__, __LINE__, __func__, "run.resume is too long");
        CHARL_TRY(charl_comm_agree(t->comm, st));
        t->supersedes = true;
    } else if (t->writes) {
        CHARL_TRY(choose(t, &p));
    }
    memcpy(t->start, p.path, sizeof t->start);
    t->resumes = t->start[0] != '\0';
    t->session.origin = t->resumes ? t->start : charl__config_init_from(t->config);
    t->session.starts = !t->resumes;
    return st;
}

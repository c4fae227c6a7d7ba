/* Where a training starts: its run directory, and the checkpoint or the copy in memory to resume from. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config_rows.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/handles.h"
#include "dist/consensus.h"
#include "files/copies.h"
#include "files/run.h"
#include "io/commit.h"
#include "train/rundir.h"
#include "train/trainer.h"

/* Whether run.resume names a checkpoint, or the directory of another run. Its own directory is what "auto" continues. */
static bool is_named(const charl_config *c)
{
    const char *resume = c->run.resume;
    struct stat named, own;

    return strcmp(resume, "auto") != 0 && strcmp(resume, "must") != 0 && strcmp(resume, "never") != 0 &&
           !(stat(resume, &named) == 0 && stat(c->run.output_dir, &own) == 0 && named.st_dev == own.st_dev &&
             named.st_ino == own.st_ino);
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
static charl_status check_newest(const charl__trainer *t, const charl__run_found *found)
{
    const char *dir = t->config->run.output_dir;
    const int64_t last = charl__run_linked(dir, "last.h5");
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

/* The newest checkpoint before step `before` that rank 0 can read. is_refused: there must be none. */
static charl_status propose(charl__trainer *t, int64_t before, bool is_refused, proposal *out)
{
    const char *resume = t->config->run.resume, *dir = t->config->run.output_dir;
    const bool is_new = t->overwrites || is_refused;
    CHARL_SCOPED(charl__run_found_fini) charl__run_found found = {0};

    CHARL_REQUIRE(!t->options->overwrite || strcmp(resume, "must") != 0, CHARL_ERR_CONFIG,
                  "--overwrite starts a new run, but run.resume = must continues one; HINT use only one of them");
    CHARL_TRY(charl__run_find(dir, before, &found));
    if (before == INT64_MAX && !is_new) {
        CHARL_TRY(check_newest(t, &found));
    } else {
        charl__trainer_warn(t, found.warning);
    }
    CHARL_REQUIRE(!found.path || t->overwrites || !is_refused, CHARL_ERR_CONFIG,
                  "run.resume = never, but %s holds a run at step %" PRId64
                  "; use another run.output_dir, or --overwrite",
                  dir, found.step);
    if (found.path && !is_new) {
        CHARL_REQUIRE((size_t)snprintf(out->path, sizeof out->path, "%s", found.path) < sizeof out->path,
                      CHARL_ERR_CONFIG, "the path %s is too long", found.path);
        out->step = found.step;
    }
    return CHARL_OK;
}

/* Whether every rank can read what rank 0 proposes and has read itself; `why` is the reason of one
 * that cannot. A failure other than a damaged or missing file says nothing about the file. */
static charl_status read_by_all(const charl__trainer *t, const proposal *p, bool *is_usable, char *why, size_t bytes)
{
    charl_status st = CHARL_OK;

    if (charl_comm_rank(t->comm) != 0) {
        st = charl__run_verify(p->path, p->step);
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

/* why: copies are not used; "": there are none. */
static charl_status refuse_nothing(const charl__trainer *t, const char *why)
{
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "run.resume = must, but %s holds no usable checkpoint%s%.1000s",
               t->config->run.output_dir, why[0] ? "; copies of the training state in memory: " : "", why);
}

static charl_status refuse_fallback(const char *why)
{
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s\n" NO_FALLBACK, why);
}

/* The newest checkpoint that every rank can read, from the newest to older ones. */
static charl_status choose(charl__trainer *t, bool is_refused, proposal *p)
{
    int64_t before = INT64_MAX;
    char why[1400] = "", text[1600];
    bool is_usable = false;

    for (; !is_usable; before = p->step) {
        *p = (proposal){.path = ""};
        CHARL_TRY(
            charl_comm_agree(t->comm, charl_comm_rank(t->comm) == 0 ? propose(t, before, is_refused, p) : CHARL_OK));
        CHARL_TRY(charl_comm_broadcast(t->comm, p, sizeof *p, 0));
        if (!p->path[0]) {
            return before == INT64_MAX ? CHARL_OK : charl__comm_agreed(t->comm, refuse_unreadable(why));
        }
        CHARL_TRY(read_by_all(t, p, &is_usable, why, sizeof why));
        if (is_usable) {
            continue;
        }
        if (t->config->run.strict) {
            CHARL_TRY(charl__comm_agreed(t->comm, refuse_fallback(why)));
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

/* A job that was killed may still hold the directory for a moment: as long as a rank ends, or until it notices that another one has died. */
static charl_status open_rundir(charl__trainer *t)
{
    const double begin = charl__clock_s();
    double patience_s = 10;
    int64_t ms;
    bool is_said = false;
    charl_status st = charl__run_open(t->config->run.output_dir, &t->run);

    if (charl__fault_arg("train.patience", &ms)) {
        patience_s = (double)ms / 1e3;
    }
    while (st == CHARL_ERR_BUSY && charl__clock_s() - begin < patience_s) {
        if (!is_said) {
            char text[2048];

            snprintf(text, sizeof text, "%s; waiting up to %.3g s for it to end", charl_error_message(), patience_s);
            charl__trainer_warn(t, text);
            is_said = true;
        }
        charl_comm_mark(t->comm, 0, NULL);
        charl__sleep_s(0.05);
        st = charl__run_open(t->config->run.output_dir, &t->run);
    }
    return st;
}

/* What rank 0 does alone. */
static charl_status begin_run(charl__trainer *t)
{
    if (t->writes) {
        CHARL_TRY(open_rundir(t));
        charl__trainer_warn(t, charl__run_get_note(t->run));
        CHARL_TRY(charl__rundir_supersede_rest(t->config->run.output_dir));
        charl__rundir_read_id(t->config->run.output_dir, t->run_dir_id);
        CHARL_TRY(charl__copies_key(t->config->run.output_dir, t->copies_key));
        charl__once_read(t->config->run.output_dir, &t->once);
    }
    CHARL_TRY(draw_run_id(t->run_id));
    return CHARL_OK;
}

/* What this start does of what its command does once. */
typedef struct doing {
    bool overwrites;
    bool is_refused; /* run.resume = never */
    bool is_told;    /* by another start of this job */
    bool goes_back;  /* run.resume = FILE */
    int64_t after;   /* but a checkpoint after this step is of the run that began with FILE, which then continues */
} doing;

/* Rank 0's answer, for all. */
static charl_status decide(charl__trainer *t, doing *out)
{
    const char *resume = t->config->run.resume;

    if (charl_comm_rank(t->comm) == 0) {
        const bool is_begun = charl__once_is_begun(&t->once, t->options->job);

        *out = (doing){.overwrites = t->options->overwrite && !is_begun,
                       .is_refused = strcmp(resume, "never") == 0 && !is_begun,
                       .is_told = is_begun,
                       .goes_back = is_named(t->config),
                       .after = INT64_MAX};
        if (out->goes_back && !out->overwrites && charl__once_is_from(&t->once, resume)) {
            out->after = t->once.step;
        }
    }
    CHARL_TRY(charl_comm_broadcast(t->comm, out, sizeof *out, 0));
    t->overwrites = out->overwrites;
    return CHARL_OK;
}

/* The checkpoint that run.resume names. */
static charl_status resolve(const char *resume, proposal *p)
{
    char *file = NULL;
    bool fits;

    CHARL_TRY(charl_run_checkpoint(resume, &file));
    fits = (size_t)snprintf(p->path, sizeof p->path, "%s", file) < sizeof p->path;
    charl_free(file);
    CHARL_REQUIRE(fits, CHARL_ERR_CONFIG, "run.resume is too long");
    return CHARL_OK;
}

/* Step of the newest copy in the memory of any node that this run can continue from, -1 for none; *why: what is to be said of the others, on
 * rank 0. */
static charl_status find_copy(charl__trainer *t, int64_t *step, charl__text *why)
{
    char path[CHARL__COPIES_PATH];
    charl_status st = CHARL_OK;

    *step = -1;
    if (charl_comm_local_rank(t->comm) == 0) {
        st = charl__copies_find(t->copies_key, charl__trainer_accepts_copy, t, step, why);
    }
    CHARL_TRY(charl_comm_agree(t->comm, st));
    CHARL_TRY(charl_comm_reduce_i64(t->comm, CHARL_COMM_MAX, step, 1));
    st = charl_comm_agree(t->comm, CHARL_OK);
    if (st == CHARL_OK && charl_comm_rank(t->comm) == 0 && *step < 0 && why->length == 0 &&
        snprintf(path, sizeof path, "%s/" CHARL__COPIES_MARK, t->config->run.output_dir) < (int)sizeof path &&
        access(path, F_OK) == 0) {
        st = charl__text_printf(why, "none is left: the machine was started again, or they were removed");
    }
    return charl_comm_agree(t->comm, st);
}

/* Send a copy from rank `source` to the nodes that have none. */
static charl_status spread_copy(charl__trainer *t, int64_t step, int source, bool has, const char *path)
{
    enum { PIECE = 16 << 20 };
    const bool sends = charl_comm_rank(t->comm) == source, writes = !has && charl_comm_local_rank(t->comm) == 0;
    CHARL_SCOPED_FREE char *piece = NULL, *target = NULL;
    CHARL_SCOPED(charl__file_left) FILE *f = sends ? fopen(path, "re") : NULL;
    charl__commit c = {.fd = -1};
    charl_status st = charl__alloc(PIECE, &piece);
    int64_t bytes = 0;

    if (st == CHARL_OK && sends &&
        (!f || fseeko(f, 0, SEEK_END) != 0 || (bytes = ftello(f)) < 0 || fseeko(f, 0, SEEK_SET) != 0)) {
        st = charl__disk_error(path, "read", errno, -1);
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(t->comm, st));
    CHARL_TRY_CLEANUP(charl_comm_broadcast(t->comm, &bytes, sizeof bytes, source));
    if (writes) {
        st = charl__copies_begin(t->copies_key, charl_comm_rank(t->comm), step, &target);
        st = st == CHARL_OK ? charl__commit_begin(target, &c) : st;
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(t->comm, st));
    for (int64_t at = 0; at < bytes; at += PIECE) {
        const size_t n = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;

        if (sends && fread(piece, 1, n, f) != n) {
            st = st == CHARL_OK ? charl__disk_error(path, "read", errno, -1) : st;
        }
        CHARL_TRY_CLEANUP(charl_comm_broadcast(t->comm, piece, n, source));
        st = st == CHARL_OK && writes ? charl__commit_write(&c, piece, n) : st;
    }
    if (st == CHARL_OK && writes) {
        st = charl__commit_end(&c, NULL, NULL);
        st = st == CHARL_OK ? charl__run_verify(target, step) : st;
    }
    st = charl_comm_agree(t->comm, st);
cleanup:
    charl__commit_fini(&c);
    return st;
}

/* Let every rank have the copy of `step`, p->path; "": it cannot, and `why` tells the reason on rank 0. */
static charl_status take_copy(charl__trainer *t, int64_t step, proposal *p, charl__text *why)
{
    const bool has = charl__copies_has(t->copies_key, step, p->path);
    int64_t source = has ? charl_comm_rank(t->comm) : charl_comm_size(t->comm), last = has;
    charl_status st = CHARL_OK;

    CHARL_TRY(charl_comm_reduce_i64(t->comm, CHARL_COMM_MIN, &source, 1));
    CHARL_TRY(charl_comm_reduce_i64(t->comm, CHARL_COMM_MIN, &last, 1));
    if (last == 0) {
        st = spread_copy(t, step, (int)source, has, p->path);
        CHARL_TRY(st == CHARL_ERR_DISK || st == CHARL_ERR_CHECKPOINT ? CHARL_OK : st);
    }
    last = st == CHARL_OK && charl__copies_has(t->copies_key, step, p->path);
    CHARL_TRY(charl_comm_reduce_i64(t->comm, CHARL_COMM_MIN, &last, 1));
    p->step = step;
    if (last == 1) {
        return CHARL_OK;
    }
    p->path[0] = '\0';
    return charl__text_printf(why, "%s%s", why->length > 0 ? "; " : "", charl_error_message());
}

/* Continue from a copy in memory if one is newer than the checkpoint p. Otherwise say why copies are not used. */
static charl_status prefer_copy(charl__trainer *t, int64_t step, charl__text *why, proposal *p)
{
    proposal copy = {.path = ""};
    char place[64] = "starts from the beginning";

    if (step > (p->path[0] ? p->step : -1)) {
        CHARL_TRY(take_copy(t, step, &copy, why));
    }
    t->from_copy = copy.path[0] != '\0';
    if (t->from_copy) {
        *p = copy;
    }
    if (!p->path[0] && strcmp(t->config->run.resume, "must") == 0) {
        return charl__comm_agreed(t->comm, refuse_nothing(t, charl__text_string(why)));
    }
    if (charl_comm_rank(t->comm) == 0 && why->length > 0) {
        CHARL_SCOPED(charl__text_fini) charl__text text = {0};

        if (p->path[0]) {
            snprintf(place, sizeof place, "continues from %s of step %" PRId64,
                     t->from_copy ? "the copy" : "the checkpoint", p->step);
        }
        CHARL_TRY(charl__text_printf(&text, "copies of the training state in memory: %s; training %s",
                                     charl__text_string(why), place));
        for (char *line = text.data; (line = strchr(line, '\n')) != NULL;) {
            *line = ' ';
        }
        charl__trainer_warn(t, charl__text_string(&text));
    }
    return CHARL_OK;
}

/* The checkpoint to start from, "" for none. */
static charl_status find_start(charl__trainer *t, proposal *p)
{
    const char *resume = t->config->run.resume;
    CHARL_SCOPED(charl__text_fini) charl__text why = {0};
    int64_t copied = -1;
    char text[8400];
    doing what;

    CHARL_TRY(decide(t, &what));
    if (!what.goes_back || what.after < INT64_MAX) {
        if (t->run_dir_id[0] && !t->overwrites && !what.is_refused &&
            t->config->checkpoint.memory_interval.unit != CHARL__INTERVAL_OFF) {
            CHARL_TRY(find_copy(t, &copied, &why));
        }
        CHARL_TRY(choose(t, what.is_refused, p));
        CHARL_TRY(prefer_copy(t, copied, &why, p));
        what.goes_back = what.goes_back && p->step <= what.after;
        if (is_named(t->config) && !what.goes_back && !what.is_told && charl_comm_rank(t->comm) == 0) {
            snprintf(text, sizeof text,
                     "%.4000s has gone back to %.4000s before and continues from its own step %" PRId64
                     "; to go back once more, add --overwrite",
                     t->config->run.output_dir, resume, p->step);
            charl__trainer_warn(t, text);
        }
    }
    if (what.goes_back) { /* each rank's own path: what it holds is compared */
        CHARL_TRY(charl_comm_agree(t->comm, resolve(resume, p)));
        t->goes_back = t->supersedes = true;
    }
    return CHARL_OK;
}

charl_status charl__trainer_begin(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    proposal p = {.path = ""};

    t->writes = !t->options->dry_run && t->options->fast_dev_run == 0 && !t->options->overfit_batch && !t->replaying;
    CHARL_TRY(charl_comm_agree(t->comm, charl_comm_rank(t->comm) == 0 ? begin_run(t) : CHARL_OK));
    CHARL_TRY(charl_comm_broadcast(t->comm, t->run_id, sizeof t->run_id, 0));
    CHARL_TRY(charl_comm_broadcast(t->comm, t->run_dir_id, sizeof t->run_dir_id, 0));
    CHARL_TRY(charl_comm_broadcast(t->comm, t->copies_key, sizeof t->copies_key, 0));
    if (t->replaying) {
        CHARL_REQUIRE(snprintf(p.path, sizeof p.path, "%s", t->replaying->checkpoint ? t->replaying->checkpoint : "") <
                          (int)sizeof p.path,
                      CHARL_ERR_CONFIG, "the path %s is too long", t->replaying->checkpoint);
    } else if (t->writes) {
        CHARL_TRY(find_start(t, &p));
    }
    memcpy(t->start, p.path, sizeof t->start);
    t->resumes = t->start[0] != '\0';
    t->session.origin = t->resumes ? t->start : charl__config_init_from(t->config);
    t->session.starts = !t->resumes;
    return st;
}

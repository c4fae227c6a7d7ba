#ifndef CHARL_FILES_RUN_LOCK_H
#define CHARL_FILES_RUN_LOCK_H
/** run.lock: a line for every start and every checkpoint of a run, chained by hashes.
 *
 *      start format=2 charl=0.1.0 kernels=K config=C data=D previous=P hash=H        the run begins
 *      checkpoint step=100 tensors=T state=S metrics=M previous=P hash=H             a checkpoint is saved
 *      resume format=2 step=100 tensors=T state=S charl=0.1.0 kernels=K config=C data=D previous=P hash=H
 *
 *  K, C, T, S, M, P and H are SHA-256 in hexadecimal:
 *
 *      kernels   of the kernel sources: of each the name, a NUL, the text, a NUL
 *      config    of the configuration as config.ini and checkpoints have it
 *      data      content_id of the data (charl/dataset.h)
 *      tensors   charl__lock_tensors
 *      state     charl__lock_state
 *      metrics   of the rows of metrics.jsonl since the start or resumption (train/metrics/metrics.h); zeros: there is no such file
 *      previous  `hash` of the previous line; for the first line 64 zeros
 *      hash      of the line up to " hash="
 *
 *  Nothing in it depends on the number of ranks or on the time. Lines are only appended. Lines of format 1 have neither format, state nor
 *  metrics; a run of such lines is continued with lines of format 2. */
#include "base/numeric/hash.h"
#include "base/text/text.h"
#include "charl/checkpoint.h"

#define CHARL__LOCK_FILE "run.lock"
/* What `torn` means. */
#define CHARL__LOCK_TORN CHARL__LOCK_FILE " ends in a part of a line, which a crash or a power cut interrupted"

typedef enum charl__lock_kind { CHARL__LOCK_START, CHARL__LOCK_CHECKPOINT, CHARL__LOCK_RESUME } charl__lock_kind;

enum { CHARL__LOCK_NEWEST = 2 /* format */ };

/* The keys, in the order of a line. */
typedef enum charl__lock_key {
    CHARL__LOCK_FORMAT,
    CHARL__LOCK_STEP,
    CHARL__LOCK_TENSORS,
    CHARL__LOCK_STATE,
    CHARL__LOCK_METRICS,
    CHARL__LOCK_VERSION,
    CHARL__LOCK_KERNELS,
    CHARL__LOCK_CONFIG,
    CHARL__LOCK_DATA,
    CHARL__LOCK_PREVIOUS,
    CHARL__LOCK_HASH,
    CHARL__LOCK_KEYS
} charl__lock_key;

typedef struct charl__lock_line {
    charl__lock_kind kind;
    int format;                                       /* 1 or 2; for a line to append also 0: the newest */
    int64_t step;                                     /* 0 of a start */
    char value[CHARL__LOCK_KEYS][CHARL__SHA256_TEXT]; /* "" if the kind has no such key */
} charl__lock_line;

/** Start from {0}. */
typedef struct charl__lock {
    charl__text text;       /* the lines */
    int64_t written;        /* bytes of `text` that are in the file */
    int64_t torn;           /* bytes of an incomplete last line, which is not part of `text` */
    charl__lock_line *line; /* [count]; lines that could not be read are omitted */
    int64_t *number;        /* [count] of the line in the file, from 1 */
    int64_t count;
} charl__lock;

/** Read DIR/run.lock and check the chain. A last line that is torn, which a crash leaves, is left out: see `torn`. `wrong` gets a sentence for each line that is not as it was written, one per line.
 *  Call charl__lock_fini in any case.
 *  Errors: ERR_CHECKPOINT  there is no such file, or it is none that charl wrote; ERR_NOMEM. Cost: linear in the file. */
charl_status charl__lock_read(const char *dir, charl__lock *lock, charl__text *wrong) CHARL_MUST_CHECK;
void charl__lock_fini(charl__lock *lock);

/** Append a line to `lock` and to DIR/run.lock; sets its step, `previous` and `hash`. The first line replaces the file; the others are
 *  appended to it (charl__commit_append). Durable on return. A line that cannot be written stays in `lock`, and the next call writes it too. DIR
 *  NULL: it is only added to `lock`, and the next call writes both.
 *  Errors: ERR_DISK; ERR_NOMEM, then `lock` is as it was. */
charl_status charl__lock_append(const char *dir, charl__lock *lock, const charl__lock_line *line) CHARL_MUST_CHECK;

/** The lines that say what the checkpoints of the run are, in ascending order of steps. A resumption ends what was recorded after its step.
 *  One that continues no recorded checkpoint is itself in the list: the training between it and the line before is not recorded. The first
 *  line of a file may be such a one; anywhere else it is wrong. Start from {0}; free `line`. */
typedef struct charl__lock_history {
    int64_t *line; /* [count] indices in charl__lock.line */
    int64_t count;
} charl__lock_history;

/** `wrong` gets a sentence for each line that does not continue those before it: a second start, a step that goes back, other than of a
 *  checkpoint right before a resumption, a resumption from a checkpoint that is not recorded. Errors: ERR_NOMEM. */
charl_status charl__lock_trace(const charl__lock *lock, charl__lock_history *out, charl__text *wrong) CHARL_MUST_CHECK;

/** Index of the start or resumption that line i continues; -1: none. */
int64_t charl__lock_start_of(const charl__lock *lock, int64_t i);

/** Hash of the tensors of a checkpoint: SHA-256 of a line "GROUP/NAME DTYPE SHAPE HASH" for each in the order in which they are saved,
 *  with the SHA-256 of its values; of a weight that is left to the base, "base CRC32C" in the place of HASH. sha256[i] is that of tensor i, and "":
 *  it has data, or is left to the base; sha256 NULL: all are so. */
charl_status charl__lock_tensors(const charl_checkpoint_tensor *tensor, const char (*sha256)[CHARL__SHA256_TEXT],
                                 int64_t n, char hash[CHARL__SHA256_TEXT]) CHARL_MUST_CHECK;
/** Hash of what else a checkpoint holds and the training decides: counters, best evaluation, loss scale, data, and the schema of the data.
 *  Not of what may differ between equal trainings: run_id, number of ranks, device, version, place of the data, audited step. */
charl_status charl__lock_state(const charl_checkpoint_state *state, const charl_data_schema *schema,
                               char hash[CHARL__SHA256_TEXT]) CHARL_MUST_CHECK;

/** Set step, tensors and state of `line` to those of a file. Errors: as charl_checkpoint_read. Cost: reads the file once. */
charl_status charl__lock_describe(charl_checkpoint_reader *r, charl__lock_line *line) CHARL_MUST_CHECK;
/** What differs between the checkpoints of two lines, among the keys that both have: "tensors" or "state"; NULL: nothing. */
const char *charl__lock_difference(const charl__lock_line *a, const charl__lock_line *b);

/** `hash` of the line of run.lock that records `checkpoint`, a file of a run directory or a link to one, which r reads; "" where there is
 *  none: a line of the same step records the same contents. Errors: as charl_checkpoint_read; ERR_NOMEM. Cost: reads the file once. */
charl_status charl__lock_of_checkpoint(const char *checkpoint, charl_checkpoint_reader *r,
                                       char hash[CHARL__SHA256_TEXT]) CHARL_MUST_CHECK;

#endif

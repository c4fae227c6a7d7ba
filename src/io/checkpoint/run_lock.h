#ifndef CHARL_IO_CHECKPOINT_RUN_LOCK_H
#define CHARL_IO_CHECKPOINT_RUN_LOCK_H
/** run.lock: a line for every start and every checkpoint of a run, chained by hashes.
 *
 *      start charl=0.1.0 kernels=K config=C data=D previous=P hash=H             the run begins
 *      checkpoint step=100 tensors=T previous=P hash=H                           a checkpoint is saved
 *      resume step=100 tensors=T charl=0.1.0 kernels=K config=C data=D previous=P hash=H
 *
 *  K, C, T, P and H are SHA-256 in hexadecimal:
 *
 *      kernels   of the kernel sources: of each the name, a NUL, the text, a NUL
 *      config    of the configuration as config.ini and checkpoints have it
 *      data      content_id of the data (charl/dataset.h)
 *      tensors   charl__lock_tensors
 *      previous  `hash` of the line before; of the first line 64 zeros
 *      hash      of the line up to " hash="
 *
 *  Nothing in it depends on the number of ranks or on the time. Lines are only appended. */
#include "base/numeric/hash.h"
#include "base/text/text.h"
#include "charl/checkpoint.h"

#define CHARL__LOCK_FILE "run.lock"
/* What `torn` means. */
#define CHARL__LOCK_TORN CHARL__LOCK_FILE " ends in a part of a line, which a crash or a power cut interrupted"
#define CHARL__EXPORT_LOCK                                                                                             \
    "charl.lock" /* key of the metadata of an export: `hash` of the line that records its checkpoint */

typedef enum charl__lock_kind { CHARL__LOCK_START, CHARL__LOCK_CHECKPOINT, CHARL__LOCK_RESUME } charl__lock_kind;

/* The keys, in the order of a line. */
typedef enum charl__lock_key {
    CHARL__LOCK_STEP,
    CHARL__LOCK_TENSORS,
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
    int64_t step;                                     /* 0 of a start */
    char value[CHARL__LOCK_KEYS][CHARL__SHA256_TEXT]; /* "" where the kind has no such key */
} charl__lock_line;

/** Start from {0}. */
typedef struct charl__lock {
    charl__text text;       /* the lines */
    int64_t written;        /* bytes of `text` that are in the file */
    int64_t torn;           /* bytes of a last line that was cut off while it was written, which is no part of `text` */
    charl__lock_line *line; /* [count]; lines that could not be read are left out */
    int64_t *number;        /* [count] of the line in the file, from 1 */
    int64_t count;
} charl__lock;

/** Read DIR/run.lock and check the chain. A last line that is torn, which a crash leaves, is left out: see `torn`. `wrong` gets a sentence for each line that is not as it was written, one per line.
 *  Call charl__lock_fini in any case.
 *  Errors: ERR_CHECKPOINT  there is no such file, or it is none that charl wrote; ERR_NOMEM. Cost: linear in the file. */
charl_status charl__lock_read(const char *dir, charl__lock *lock, charl__text *wrong) CHARL_MUST_CHECK;
void charl__lock_fini(charl__lock *lock);

/** Append a line to `lock` and to DIR/run.lock; sets its step, `previous` and `hash`. The first line replaces the file; the others are
 *  appended to it (charl__commit_append). Durable on return. A line that cannot be written stays in `lock`, and the next call writes it too.
 *  Errors: ERR_DISK; ERR_NOMEM, then `lock` is as it was. */
charl_status charl__lock_append(const char *dir, charl__lock *lock, const charl__lock_line *line) CHARL_MUST_CHECK;

/** The lines that say what the checkpoints of the run are, in ascending order of steps: a resumption from an earlier step ends what was
 *  recorded after it, and one from a checkpoint that is not recorded begins anew, with that line as the first. Start from {0}; free `line`. */
typedef struct charl__lock_history {
    int64_t *line; /* [count] indices in charl__lock.line */
    int64_t count;
} charl__lock_history;

/** `wrong` gets a sentence for each resumption from another checkpoint than is recorded. Errors: ERR_NOMEM. */
charl_status charl__lock_trace(const charl__lock *lock, charl__lock_history *out, charl__text *wrong) CHARL_MUST_CHECK;

/** Index of the start or resumption that line i continues; -1: none. */
int64_t charl__lock_start_of(const charl__lock *lock, int64_t i);

/** Hash of the tensors of a checkpoint: SHA-256 of a line "GROUP/NAME DTYPE SHAPE HASH" for each in the order in which they are saved,
 *  with the SHA-256 of its values; of a weight that is left to the base, "base CRC32C" in the place of HASH. */
charl_status charl__lock_tensors(const charl_checkpoint_tensor *tensor, int64_t n,
                                 char hash[CHARL__SHA256_TEXT]) CHARL_MUST_CHECK;
/** The same of a file. Errors: as charl_checkpoint_read. Cost: reads the file once. */
charl_status charl__lock_checkpoint(charl_checkpoint_reader *r, char hash[CHARL__SHA256_TEXT]) CHARL_MUST_CHECK;

/** `hash` of the line of run.lock that records `checkpoint`, a file of a run directory or a link to one, which r reads; "" where there is
 *  none: a line of the same step records the same tensors. Errors: as charl_checkpoint_read; ERR_NOMEM. Cost: reads the file once. */
charl_status charl__lock_of_checkpoint(const char *checkpoint, charl_checkpoint_reader *r,
                                       char hash[CHARL__SHA256_TEXT]) CHARL_MUST_CHECK;

#endif

#ifndef CHARL_TRAIN_CHECKSUMS_H
#define CHARL_TRAIN_CHECKSUMS_H
/** Replays as text, to be compared line by line. The text begins with CHARL__CHECKSUMS_HEAD; then there is a line for each fact, in
 *  the order in which a step computes them, numbers with all their bits:
 *
 *      start STEP              the replay begins behind this step
 *      weight NAME CRC32C      with these weights
 *      step STEP               a step:
 *      lr NUMBER               its learning rate
 *      row INDEX SET ROW       a sample of it, as in charl_step_sample
 *      sample INDEX LOSS       and its loss
 *      loss LOSS               of the batch
 *      gradient NAME CRC32C
 *      weight NAME CRC32C      after it
 *
 *  CHARL__CHECKSUMS_END closes a file.
 */
#include "base/text/text.h"
#include "charl/replay.h"

#define CHARL__CHECKSUMS_HEAD "charl-checksums 1\n"
#define CHARL__CHECKSUMS_END "end\n"

/** Append the head and the beginning of a replay. Errors: ERR_NOMEM. */
charl_status charl__checksums_start(charl__text *sums, const charl_replay_start *start) CHARL_MUST_CHECK;
/** Append a step that was replayed with gradients and samples. Errors: ERR_NOMEM. */
charl_status charl__checksums_row(charl__text *sums, const charl_replay_row *row) CHARL_MUST_CHECK;

/** Whether a file begins like checksums. */
bool charl__checksums_is(const char *path);
/** Append the text of a file, without CHARL__CHECKSUMS_END, to `sums`, which is empty. Errors: ERR_CHECKPOINT, naming the file: it is not a
 *  whole file of checksums; ERR_NOMEM. */
charl_status charl__checksums_read(const char *path, charl__text *sums) CHARL_MUST_CHECK;

/** The step behind which checksums begin, and the last of them. */
void charl__checksums_range(const char *sums, int64_t *start, int64_t *last);

/** A replay, and the run or file that it is of, for messages. */
typedef struct charl__checksums_side {
    const char *path, *sums;
} charl__checksums_side;

/** Find the first line that differs, and tell in sentences what else of its step does. *out, which is zero, gets what, step (the last one of both
 *  where nothing differs) and name.
 *  Errors: ERR_CONFIG  they begin at different steps
 *          ERR_NOMEM */
charl_status charl__checksums_compare(const charl__checksums_side sides[2], charl_bisect_result *out,
                                      charl__text *told) CHARL_MUST_CHECK;

#endif

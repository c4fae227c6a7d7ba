#ifndef CHARL_TRAIN_METRICS_METRICS_ASYNC_H
#define CHARL_TRAIN_METRICS_METRICS_ASYNC_H
/** The rows of the log.
 *
 *  The loss and the gradient norm of a step that is logged travel to the host while the next steps
 *  are enqueued, and the row is written when those are on their way: the device never runs dry for
 *  it. Where ranks meet on the host in every step anyway, it is written at once.
 */
#include "train/metrics/throughput.h"
#include "train/trainer.h"

typedef struct charl__metrics_async {
    charl_pinned *pinned;
    float *lanes;             /* of the loss, pass after pass, in pinned memory ... */
    charl__norm_record *norm; /* ... and after them what the optimizer found */
    charl__event *arrived;    /* NULL: nothing is on its way */
    charl_train_row row;      /* of the step on its way, or logged last */
    int64_t steps;            /* since the row before */
    int64_t rows;             /* written so far */
    double weight;            /* of the targets of that step */
    charl_device_health health;
    double looked_s; /* when health was read; 0: not yet */
} charl__metrics_async;

/** Local. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__metrics_async_open(charl__trainer *t, charl__metrics_async *log) CHARL_MUST_CHECK;
void charl__metrics_async_close(charl__metrics_async *log);

/** Begin the row of the step just run; none is on its way. Async. */
charl_status charl__metrics_async_begin(charl__trainer *t, charl__metrics_async *log,
                                        charl__throughput *m) CHARL_MUST_CHECK;
/** Whether enough steps have been enqueued behind the one on its way. The same on all ranks. */
bool charl__metrics_async_is_due(const charl__trainer *t, const charl__metrics_async *log);
/** Write the row on its way, if there is one. Blocks. Collective. Errors: ERR_NONFINITE when that
 *  step, or one before, was not finite; those of the callback. */
charl_status charl__metrics_async_end(charl__trainer *t, charl__metrics_async *log,
                                      charl__throughput *m) CHARL_MUST_CHECK;

#endif

#ifndef CHARL_CONFIG_CONFIG_ROWS_H
#define CHARL_CONFIG_CONFIG_ROWS_H
/** The rows that a configuration selects: its model, loss, metrics, optimizer and schedule. */
#include "config/values.h"
#include "charl/optim.h"
#include "config/layers.h"
#include "nn/metric.h"
#include "nn/model.h"

/** The row of model.type. */
const charl_model_type *charl__config_model(const charl_config *cfg);

/** Tokens: predictions per sample as determined by the model; 0: data.window determines it. */
int64_t charl__config_model_window(const charl_config *cfg);

/** init.from; NULL: none. */
const char *charl__config_init_from(const charl_config *cfg);

/** Outputs of the model for a vocabulary of so many tokens. */
int64_t charl__config_vocab(const charl_config *cfg, int64_t tokens);

/** The name of the block that is closest to `name` and closer than *best (charl_text_closer), which is updated; or NULL. */
const char *charl__config_nearest_block(const charl_config *cfg, const char *name, int *best);

/** The row of train.loss, which must not be auto. */
const charl__loss *charl__config_loss(const charl_config *cfg);

/** Bits of charl_target_kind that train.loss can learn from; auto: all. */
unsigned charl__config_targets(const charl_config *cfg);

/** `cfg` with `loss` instead of train.loss = auto. *out: owned by the caller (charl_free), and borrows from cfg, which must outlive it.
 *  *notes: settings of other losses, which then have no effect; lines, owned by the caller (charl_free). Thread-safe. Errors: ERR_CONFIG
 *  for metrics that are not defined for its targets, ERR_NOMEM. */
charl_status charl__config_choose_loss(const charl_config *cfg, const char *loss, charl_config **out,
                                       char **notes) CHARL_MUST_CHECK;

/** checkpoint.monitor without "val/": "accuracy", of an output "NAME.accuracy". */
const char *charl__config_monitor_name(const charl_config *cfg);

/** The metric of checkpoint.monitor, of whichever output. */
const charl__metric *charl__config_monitor(const charl_config *cfg);

/** Whether eval.metrics requests metric i for data with such targets, bits of charl_target_kind. */
bool charl__config_measures(const charl_config *cfg, int i, unsigned targets);

/** The optimizer of [optimizer] and [train]. Borrows from the configuration. */
charl_optimizer_config charl__config_optimizer(const charl_config *cfg);

/** Steps of a training on so many rows: train.max_steps, or those of train.epochs. Local. */
int64_t charl__config_steps(const charl_config *cfg, int64_t rows);

/** The schedule of [scheduler] and [optimizer] for a run of `total_steps`. Borrows from the configuration. */
charl_schedule charl__config_schedule(const charl_config *cfg, int64_t total_steps);

/** The setting that must change for the same bits on devices of different kinds, and why; NULL: none. Static. */
const char *charl__config_inexact(const charl_config *cfg);

/** Whether a length of `cfg` is in tokens. Local. */
bool charl__config_counts_tokens(charl_config *cfg);

/** `cfg` with its lengths in tokens converted to steps, rounded up; a step is train.batch_size windows of `data`. *out: owned by the
 *  caller (charl_free), and borrows from cfg, which must outlive it; NULL: there are none. Thread-safe. Errors: ERR_CONFIG  such a
 *  length for data without tokens, or of more than 1e12 steps */
charl_status charl__config_in_steps(const charl_config *cfg, const charl_dataset_info *data,
                                    charl_config **out) CHARL_MUST_CHECK;

/** "FILE:LINE" of the section that describes a layer. Borrowed until the next call on this thread. */
const char *charl__config_layer_place(const charl__config_layer *layer);

#endif

#ifndef CHARL_CONFIG_MODEL_CONFIG_GROUPS_H
#define CHARL_CONFIG_MODEL_CONFIG_GROUPS_H
/** Parameters with their own learning rate and weight decay: optimizer.groups. */
#include "config/values.h"
#include "charl/nn.h"
#include "charl/params.h"

enum { CHARL__MAX_GROUPS = 32, CHARL__GROUP_NAME = 128 };

/** "PATTERN [lr_scale=X] [weight_decay=Y]". */
typedef struct charl__group {
    char pattern[CHARL__GROUP_NAME]; /* of names, with * and ? */
    double lr_scale, weight_decay;   /* negative: not given */
} charl__group;

/** Read "RULE, RULE, ..." into out[CHARL__MAX_GROUPS]; *n of them. For an invalid text the reason is
 *  in why[bytes], which is "" otherwise. */
void charl__groups_parse(const char *text, charl__group *out, int *n, char *why, size_t bytes);

/** Give every trainable parameter of the set its configured settings. A later
 *  rule of optimizer.groups replaces an earlier one. `outputs` identifies the last layer: the
 *  matrix declared last, if it has that many rows.
 *
 *  The rate is multiplied by optimizer.layer_decay to the power of the number of levels above the parameter's. Every layer of `model` with
 *  a trained matrix begins a level; all embeddings are one level, and a layer without a matrix, such as a norm, belongs to the level
 *  before it.
 *  Errors: ERR_CONFIG  a pattern matches no parameter */
charl_status charl__groups_apply(const charl_config *config, const charl_model *model, charl_params *set,
                                 int64_t outputs) CHARL_MUST_CHECK;

#endif

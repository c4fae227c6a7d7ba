#ifndef CHARL_CONFIG_OUTPUTS_H
#define CHARL_CONFIG_OUTPUTS_H
/** Models with several outputs: what [output NAME] says, and where each output and its target are in the rows of all.
 *
 *  To everything that trains and measures, a model with outputs has one loss, charl__loss_outputs, whose settings are a
 *  charl__outputs: the sum of weight * loss over the outputs. The loss of a sample is the mean over its targets that count, and 0 if none does. */
#include "base/text/text.h"
#include "config/values.h"
#include "nn/metric.h"

/** Outputs for each target: the number of quantiles, or 1; and which of them is the prediction, the quantile nearest to 0.5. */
int64_t charl__loss_values(const charl__loss *loss, const void *settings);
int64_t charl__loss_point(const charl__loss *loss, const void *settings);

/** An output with its place. Of sequences and maps the model gives [T, classes] and [classes, pixels]. */
typedef struct charl__output {
    const char *name;  /* borrowed from the configuration, as is all else */
    const char *layer; /* "": the last one */
    const charl__loss *loss;
    const void *settings;
    float weight;
    charl_target_kind kind;
    int64_t first, count;      /* in the row of outputs */
    int64_t target, n_targets; /* in the row of targets */
    int64_t classes;           /* CLASS, TOKENS, MAPS; else count */
    int64_t quantiles, point;  /* charl__loss_values, charl__loss_point */
} charl__output;

typedef struct charl__outputs {
    int n; /* 0: the model has one output without a name */
    charl__output at[CHARL_MODEL_MAX_OUTPUTS];
} charl__outputs;

/** The loss of a configuration with outputs. */
extern const charl__loss charl__loss_outputs;

/** The outputs of `cfg` for data of these fields (charl_data_schema.fields, or NULL); n is 0 without any. Errors: ERR_CONFIG, with file and line, if an output
 *  has no target among them, or one that its loss does not learn from. */
charl_status charl__config_outputs(const charl_config *cfg, const char *fields, charl__outputs *out) CHARL_MUST_CHECK;

/** Whether its targets are labels, of which those below 0 do not count. */
bool charl__output_has_labels(const charl__output *o);

/** Whether the configuration names its outputs; the name of output i = 0, 1, ..., NULL past the last. */
bool charl__config_has_outputs(const charl_config *cfg);
const char *charl__config_output_name(const charl_config *cfg, int i);

/** Whether both measure the same loss: of every output the same, with the same settings and weight. */
bool charl__config_same_loss(const charl_config *a, const charl_config *b);

/** An output and its targets in a graph, as its loss and its metrics take them. */
typedef struct charl__output_vars {
    charl_var *outputs, *targets;
    charl_var *predicted; /* what metrics compare with the targets: of several quantiles one, else the outputs */
    charl_var *counted;   /* f32, of each target: 1, or 0 if it does not count; NULL: all count */
    charl_var *share;     /* f32 [rows, targets]: of each target in the mean of its row; NULL: one value for each row */
    charl_var *any;       /* f32 [rows]: 1, or 0 if no target counts; NULL: all have some */
} charl__output_vars;

/** outputs, targets: rows of all. */
charl__output_vars charl__output_vars_of(charl_graph *g, const charl__output *o, charl_var *outputs,
                                         charl_var *targets);
/** Values for each row, or for each target, as one for each row: the mean over the targets that count. */
charl_var *charl__output_rows(charl_graph *g, const charl__output_vars *v, charl_var *values);
/** The loss of each row. */
charl_var *charl__output_loss(charl_graph *g, const charl__output *o, const charl__output_vars *v);

/** Memory for one row. */
typedef struct charl__output_row {
    int32_t *labels;
    float *weights, *outputs;
} charl__output_row;

charl_status charl__output_row_create(const charl__outputs *o, charl__output_row *r) CHARL_MUST_CHECK;
void charl__output_row_fini(charl__output_row *r); /* {0} is a no-op */
/** An output and its targets of a row of all, outside of a graph: sequences as maps, [classes, T]. false: no target counts, or the kind is NOTHING. */
bool charl__output_row_of(const charl__output *o, const charl__eval_row *row, charl__output_row *room,
                          charl__eval_row *out);
/** Its kind there. */
charl_target_kind charl__output_row_kind(const charl__output *o);

/** What is predicted: for CLASS the class and its probability, for sequences and maps the class of each place, else the answer of the loss. Returns
 *  the number of answers; outputs NULL: nothing is written. */
int64_t charl__output_answers(const charl__output *o, const float *outputs, double *answers);
/** The names of all answers, a list. Errors: ERR_NOMEM. */
charl_status charl__output_names(const charl__outputs *o, charl__text *out) CHARL_MUST_CHECK;
/** The same of an output without a name whose loss predicts quantiles of n targets: TARGET_qQUANTILE each. `targets`: their names, a list, or "".
 *  Nothing for another loss. */
charl_status charl__quantile_names(const charl__loss *loss, const void *settings, const char *targets, int64_t n,
                                   charl__text *out) CHARL_MUST_CHECK;

#endif

#ifndef CHARL_TASK_TASK_H
#define CHARL_TASK_TASK_H
/** The model that a configuration describes, and the graphs for training and
 *  evaluating it. */
#include "config/values.h"
#include "autograd/ops_data.h"
#include "charl/nn.h"
#include "io/dataset/fields.h"
#include "task/device_loader.h"
#include "task/evaluation.h"

/** The model of [model], [layer NAME] and [output NAME]. `outputs` is the number that the data require: classes, or values
 *  per target; `fields`: their named inputs and targets (charl_data_schema); "" if there are none, or for a model that is not built. Errors: ERR_CONFIG with file, line and layer. */
charl_status charl__task_model(const charl_config *config, int64_t outputs, const char *fields,
                               charl_model **out) CHARL_MUST_CHECK;

/** Outputs that the loss needs for these data. Errors: ERR_CONFIG when loss and data do not fit. */
charl_status charl__task_outputs(const charl_config *config, const charl_dataset_info *data,
                                 int64_t *out) CHARL_MUST_CHECK;

/** Type of activations and of the working copy of the parameters, by train.precision: bf16 with fp8 too. */
charl_dtype charl__task_precision(const charl_config *config);
/** Shape of the model's input for a sample of shape x: data.image_size. */
charl_shape charl__task_input_shape(const charl_config *config, const charl_shape *x);

/** The form of a diffusion model, [diffusion]. */
charl__diffusion charl__task_diffusion(const charl_config *config);

/** The named arrays that [diffusion] is about. */
typedef struct charl__diffusion_fields {
    charl__field input, time, target;
} charl__diffusion_fields;

/** `fields`: of the data (charl_data_schema). Errors: ERR_CONFIG  they are not among them, or do not fit. */
charl_status charl__task_diffusion_fields(const charl_config *config, const char *fields,
                                          charl__diffusion_fields *out) CHARL_MUST_CHECK;

/* Sums over the batch that an evaluation graph computes in `sums`, PARTIAL f32 [n]; then those of the evaluation's items that have `build`. */
enum {
    CHARL__SUM_LOSS,
    CHARL__SUM_WEIGHT,      /* of the targets */
    CHARL__SUM_LOSS_WEIGHT, /* the same, except if the loss of a sample is one number for all its pixels */
    CHARL__SUM_METRICS,     /* several outputs: first the weight of each, of the rows whose targets count */
    CHARL__SUM_MAX = CHARL__SUM_METRICS + CHARL_MODEL_MAX_OUTPUTS + CHARL_MAX_METRICS
};

typedef struct charl__task {
    charl_graph *g;
    int64_t rows;              /* of a run */
    charl_target_kind targets; /* charl__task_targets */
    int64_t classes;           /* of the data, if targets are classes: the model has at least so many outputs */
    const char *fields;        /* of the data: charl_data_schema.fields */
    const charl__evaluation *evaluation; /* of evaluation graphs: the metrics; borrowed */
    charl_var *sums;                     /* training graphs: of the loss, [1] */
    bool keeps_losses;                   /* set before: request losses */
    charl_var *losses;                   /* training graphs: of every sample, f32 [rows], kept; NULL: not requested */
    charl_var *output;                   /* of the model, f32 [rows, ...]; kept in evaluation graphs, else NULL */
    charl_var *target;                   /* i32 or f32 [rows, ...]; kept if the metrics read them */
    charl_var *weight;                   /* f32 [rows], or of each token if these have weights; likewise */
} charl__task;

/** Freeze the parameters that the configuration does not train: train.freeze, and with adapters all but the adapters. Local. Errors: as
 *  charl_params_freeze. */
charl_status charl__task_freeze(const charl_config *config, charl_params *params) CHARL_MUST_CHECK;

/** The model on x, numbers or tokens, in the precision of the graph, with its parameters frozen by train.freeze and [lora] and packed by lora.base. Every graph of
 *  a model that trains, evaluates or infers is built with it. Errors are the graph's. */
charl_var *charl__task_build_model(const charl_config *config, const charl_model *model, charl_params *params,
                                   charl_graph *g, charl_var *x);

/** Outputs of a model whose targets were scaled, in units of the data: out * std + mean, of the columns of each row; of quantiles, [quantiles,
 *  targets] in a row, the mean and std of their target.
 *
 *  out  f32 [rows, ...]    mean, std  f32 [targets]; mean NULL: out itself */
charl_var *charl__task_unscale(charl_graph *g, charl_var *out, charl_var *mean, charl_var *std);

/** Append data, model, loss and metrics to a graph that has been created, with the task's rows,
 *  targets and classes set; for training also the gradients, seeded by the step record's loss_seed. The
 *  graph keeps the first error. */
void charl__task_build(const charl_config *config, const charl_model *model, charl_params *params,
                       charl__device_loader *loader, charl_steps *steps, charl__task *task);
/** The gradient of the sum of a step's losses: 1 / total weight of its targets over all ranks; 0 if none counts. */
float charl__task_loss_seed(double weight);

#endif

#ifndef CHARL_CHARL_H
#define CHARL_CHARL_H
/** All of charl that is installed. docs/library.md is the guide, and tells which header belongs to which library; each
 *  header explains its subject, and charl/api.h what Local, Collective, Async and Blocks mean in its comments. In the
 *  examples of headers, check() prints charl_error_message() and ends the program unless the status that it is given is
 *  CHARL_OK. */

/* Every function: status and messages, counted memory, logging. */
#include "charl/api.h"
#include "charl/version.h"
#include "charl/status.h"
#include "charl/error.h"
#include "charl/text.h"
#include "charl/log.h"
#include "charl/environment.h"

/* Devices, tensors and graphs of operators. */
#include "charl/device.h"
#include "charl/shape.h"
#include "charl/tensor.h"
#include "charl/graph.h"
#include "charl/ops.h"
#include "charl/operator.h"
#include "charl/opencl.h"
#include "charl/tune.h"
#include "charl/roofline.h"

/* Layers, models, weights, losses, optimizers. */
#include "charl/params.h"
#include "charl/nn.h"
#include "charl/layer.h"
#include "charl/loss.h"
#include "charl/metric.h"
#include "charl/optim.h"
#include "charl/steps.h"
#include "charl/key.h"

/* Several ranks. */
#include "charl/slices.h"
#include "charl/comm.h"
#include "charl/data_parallel.h"
#include "charl/training.h"
#include "charl/world.h"
#include "charl/learner.h"

/* Data. */
#include "charl/dataset.h"
#include "charl/data_schema.h"
#include "charl/loader.h"

/* Files of weights. */
#include "charl/checkpoint.h"
#include "charl/safetensors.h"
#include "charl/tensor_file.h"
#include "charl/weights.h"

/* libcharl-train: what configuration files describe, other data formats, trained models. */
#if defined(__has_include)
#if __has_include("charl/train.h")
#include "charl/image.h"
#include "charl/import.h"
#include "charl/tokenizer.h"
#include "charl/config.h"
#include "charl/summary.h"
#include "charl/export.h"
#include "charl/inference.h"
#include "charl/predict.h"
#include "charl/diffusion.h"
#include "charl/generate.h"
#include "charl/choices.h"
#include "charl/train.h"
#include "charl/run.h"
#include "charl/metrics.h"
#include "charl/profile.h"
#include "charl/replay.h"
#include "charl/verify.h"
#endif

/* libcharl-report: runs side by side. */
#if __has_include("charl/report.h")
#include "charl/report.h"
#endif
#endif

#endif

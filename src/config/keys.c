/* The keys of the sections, and names that other trainers have for them. The rest of the table is put together in schema.c.
 *
 * To add a key: a field in charl_config and a row here; a key of one optimizer, scheduler, model or layer: a row in its own file.
 */
#include "config/keys.h"

#include <string.h>

#include "charl/layer.h"
#include "charl/optim.h"

#define AT(field) offsetof(charl_config, field)
#define MANNER CHARL__KEY_MANNER
#define LOCAL CHARL__KEY_LOCAL

/* clang-format off */
const charl__key charl__section_keys[] = {
    {"run", "name", CHARL__KEY_STRING, AT(run.name), "", NULL, NULL,
     "run name; ${name} in other values expands to it; default: the file name without its extension", LOCAL},
    {"run", "output_dir", CHARL__KEY_PATH, AT(run.output_dir), "runs/${name}", NULL, NULL,
     "run directory: checkpoints, metrics, log", LOCAL},
    {"run", "seed", CHARL__KEY_INT, AT(run.seed), "42", "[0,inf)", NULL,
     "seed of the random numbers: initial weights, shuffling, augmentation, dropout"},
    {"run", "resume", CHARL__KEY_PATH, AT(run.resume), "auto", NULL, "auto|never|must",
     "auto: resume from the newest valid checkpoint, if any; never: start a new run; must: fail without a checkpoint; or a checkpoint file", MANNER},
    {"run", "strict", CHARL__KEY_BOOL, AT(run.strict), "no", NULL, NULL,
     "refuse to resume, instead of warning, if the result would change (different setting or data, a checkpoint of another run) or if "
     "the checkpoint is not the newest", MANNER},
    {"run", "max_time", CHARL__KEY_DURATION, AT(run.max_time_s), "", NULL, NULL,
     "save a checkpoint and exit with status 75 after this time: [D-]HH:MM:SS, 90s, 30m or 2h; empty: no limit", MANNER},

    {"data", "path", CHARL__KEY_PATH, AT(data.path), NULL, NULL, NULL,
     "dataset: an HDF5 file written by charl data, or any HDF5 file if data.x and data.y are set", LOCAL},
    {"data", "x", CHARL__KEY_STRING, AT(data.x), "", NULL, NULL,
     "name of the input array in an HDF5 file that charl did not write, e.g. /images"},
    {"data", "y", CHARL__KEY_STRING, AT(data.y), "", NULL, NULL,
     "name of the target array in an HDF5 file that charl did not write, e.g. /labels"},
    {"data", "val_split", CHARL__KEY_FLOAT, AT(data.val_split), "0", "[0,1)", NULL,
     "fraction of the training data, taken from its end, to validate on if the file has no validation set"},
    {"data", "window", CHARL__KEY_SIZE, AT(data.window), "auto", "[1,1e6]", "auto",
     "token data: sequence length of a sample; auto: model.block_size for gpt, otherwise 64"},
    {"data", "normalize", CHARL__KEY_NORMALIZE, AT(data.normalize), "auto", NULL, "auto|none",
     "auto: use the mean and standard deviation stored with the data; none; or MEANS / STDS, e.g. 0.49, 0.48 / 0.25, 0.24"},
    {"data", "augment", CHARL__KEY_AUGMENT, AT(data.augment), "", NULL, NULL,
     "random augmentation of training images: flip (horizontal), crop:N (shift by up to N pixels), rotate:N (by up to N degrees), "
     "cutout:N (set a square of N pixels to the mean), mixup:A (blend with another sample, weight from Beta(A, A)); e.g. flip, crop:4"},
    {"data", "shuffle", CHARL__KEY_BOOL, AT(data.shuffle), "yes", NULL, NULL,
     "shuffle the training set every epoch"},
    {"data", "cache", CHARL__KEY_ENUM, AT(data.cache), "auto", NULL, "auto|device|none",
     "where to keep the dataset between epochs; auto: on the device if it fits", MANNER},

    {"model", "type", CHARL__KEY_CHOICE, AT(model.type), "sequential", NULL, NULL,
     "model architecture; sequential: the [layer NAME] sections, in order", .name_at = charl_model_type_name},

    {"train", "epochs", CHARL__KEY_INT, AT(train.epochs), "10", "[1,1e9]", NULL,
     "passes over the training data"},
    {"train", "max_steps", CHARL__KEY_INT, AT(train.max_steps), "-1", "[-1,1e12]", NULL,
     "stop after this many optimizer steps, even within an epoch; -1: no limit"},
    {"train", "batch_size", CHARL__KEY_SIZE, AT(train.batch_size), "256", "[1,1e9]", NULL,
     "global batch size: samples per optimizer step, over all ranks"},
    {"train", "slices", CHARL__KEY_INT, AT(train.slices), "auto", "[1,64]", "auto",
     "equal parts of the batch whose gradients are summed in a fixed order; results are bit-identical for any number of ranks up to this; "
     "auto: the largest power of two that divides batch_size, up to 8 (64 with dist.balance = speed)"},
    {"train", "grad_accum_steps", CHARL__KEY_INT, AT(train.grad_accum_steps), "auto", "[1,64]", "auto",
     "gradient accumulation: forward and backward passes per optimizer step; saves memory and does not change the result; auto: the fewest "
     "that fit the device; models with batch norm: 1", MANNER},
    {"train", "loss", CHARL__KEY_ENUM, AT(train.loss), "cross_entropy", NULL, "cross_entropy|mse|bce|huber",
     "loss function, averaged over the batch"},
    {"train", "label_smoothing", CHARL__KEY_FLOAT, AT(train.label_smoothing), "0", "[0,1)", NULL,
     "label smoothing of cross_entropy: probability spread evenly over all classes"},
    {"train", "grad_clip", CHARL__KEY_FLOAT, AT(train.grad_clip), "0", "[0,inf)", NULL,
     "clip the gradient to this global L2 norm; 0: off"},
    {"train", "precision", CHARL__KEY_ENUM, AT(train.precision), "f32", NULL, "f32|bf16|f16",
     "element type of activations, their gradients and a working copy of the weights; accumulation, master weights and updates are f32"},
    {"train", "loss_scale", CHARL__KEY_INT, AT(train.loss_scale), "dynamic", "[1,16777216]", "dynamic",
     "loss scale for precision = f16, a power of two; dynamic: starts at 65536, halves on overflow (the step is skipped), doubles after "
     "2000 steps without overflow"},
    {"train", "recompute", CHARL__KEY_ENUM, AT(train.recompute), "auto", NULL, "auto|no|yes",
     "activation recomputation: keep only the inputs of each block and recompute the rest in the backward pass; less memory, about a third "
     "more work, same result; auto: only if memory does not suffice otherwise", MANNER},
    {"train", "ema_decay", CHARL__KEY_FLOAT, AT(train.ema_decay), "0", "[0,1)", NULL,
     "decay of an exponential moving average of the weights, e.g. 0.999, used for evaluation, prediction and the best checkpoint; 0: off"},
    {"train", "early_stopping_patience", CHARL__KEY_INT, AT(train.early_stopping_patience), "0", "[0,1e9]", NULL,
     "stop after this many evaluations without improvement of checkpoint.monitor; 0: off"},
    {"train", "on_nonfinite", CHARL__KEY_ENUM, AT(train.on_nonfinite), "stop", NULL, "stop|skip",
     "if the loss or a gradient is NaN or infinite: stop (exit with status 6), or skip the step (leave the weights unchanged and continue)"},
    {"train", "max_nonfinite_steps", CHARL__KEY_INT, AT(train.max_nonfinite_steps), "10", "[1,1e9]", NULL,
     "with on_nonfinite = skip: exit with status 6 after this many skipped steps in a row", MANNER},

    {"optimizer", "type", CHARL__KEY_CHOICE, AT(optimizer.type), "adamw", NULL, NULL,
     "optimization algorithm", .name_at = charl_optimizer_name},
    {"optimizer", "learning_rate", CHARL__KEY_FLOAT, AT(optimizer.learning_rate), "1e-3", "(0,inf)", NULL,
     "peak learning rate; does not depend on the number of ranks"},
    {"optimizer", "weight_decay", CHARL__KEY_FLOAT, AT(optimizer.weight_decay), "0.01", "[0,inf)", NULL,
     "weight decay: an L2 term in the gradient for sgd, adam, rmsprop and adagrad; decoupled for the others"},
    {"optimizer", "decay_1d", CHARL__KEY_ENUM, AT(optimizer.decay_1d), "auto", NULL, "auto|yes|no",
     "apply weight decay to one-dimensional parameters (biases, weights of norms); auto: no for gpt, otherwise yes"},
    {"optimizer", "groups", CHARL__KEY_STRING, AT(optimizer.groups), "", NULL, NULL,
     "settings per parameter group: PATTERN lr_scale=X weight_decay=Y, ...; e.g. *.bias weight_decay=0, wte.* lr_scale=0.1; "
     "if several patterns match, the last one wins"},

    {"scheduler", "type", CHARL__KEY_CHOICE, AT(scheduler.type), "constant", NULL, NULL,
     "learning rate schedule after the warm-up; wsd: constant, then decay over the last decay_steps", .name_at = charl_schedule_name},
    {"scheduler", "warmup_steps", CHARL__KEY_INT, AT(scheduler.warmup_steps), "0", "[0,1e12]", NULL,
     "steps of linear warm-up from 0 to learning_rate"},

    {"eval", "interval", CHARL__KEY_INTERVAL, AT(eval.interval), "1ep", NULL, NULL,
     "how often to evaluate on the validation set: steps (500), epochs (1ep) or time (30m); 0: never"},
    {"eval", "max_batches", CHARL__KEY_INT, AT(eval.max_batches), "0", "[0,1e12]", NULL,
     "evaluate on this many batches only; 0: all"},
    {"eval", "metrics", CHARL__KEY_SET, AT(eval.metrics), "loss, accuracy", NULL, "loss|accuracy|top5|perplexity|mae",
     "metrics besides the loss; perplexity is always reported for token data, mae (mean absolute error) for loss = mse and huber; for "
     "loss = bce, accuracy counts each label separately", MANNER},

    {"checkpoint", "interval", CHARL__KEY_INTERVAL, AT(checkpoint.interval), "1ep", NULL, NULL,
     "how often to save a checkpoint: steps (500), epochs (1ep) or time (30m); 0: only at the end and when stopped; the best is always saved", MANNER},
    {"checkpoint", "keep_last", CHARL__KEY_INT, AT(checkpoint.keep_last), "3", "[2,1e9]", NULL,
     "number of most recent checkpoints to keep", MANNER},
    {"checkpoint", "keep_every", CHARL__KEY_INT, AT(checkpoint.keep_every), "0", "[0,1e12]", NULL,
     "also keep each checkpoint whose step is a multiple of this; 0: none", MANNER},
    {"checkpoint", "timeout", CHARL__KEY_FLOAT, AT(checkpoint.timeout_s), "120", "(0,86400]", NULL,
     "end the job if saving a checkpoint makes no progress for this many seconds", MANNER},
    {"checkpoint", "monitor", CHARL__KEY_CHOICE, AT(checkpoint.monitor), "val/loss", NULL, "val/loss|val/accuracy|val/mae",
     "metric that decides which checkpoint is the best"},
    {"checkpoint", "mode", CHARL__KEY_ENUM, AT(checkpoint.mode), "min", NULL, "min|max",
     "whether a lower (min) or a higher (max) value of checkpoint.monitor is better"},
    {"checkpoint", "export", CHARL__KEY_ENUM, AT(checkpoint.export_format), "none", NULL, "none|safetensors|onnx",
     "also export the model in this format next to last.h5 and best.h5", MANNER},

    {"log", "interval", CHARL__KEY_INT, AT(log.interval), "10", "[1,1e12]", NULL,
     "log metrics every this many steps", MANNER},
    {"log", "formats", CHARL__KEY_SET, AT(log.formats), "jsonl, csv", NULL, "jsonl|csv",
     "file formats of the metrics: metrics.jsonl, metrics.csv", MANNER},

    {"device", "select", CHARL__KEY_DEVICE, AT(device.select), "auto", NULL, "auto|gpu|cpu",
     "auto, gpu, cpu, INDEX (see --list-devices), pci:0000:3b:00.0, name:H200 or platform:NVIDIA; or a list with one item per rank of a "
     "node, e.g. gpu, gpu, cpu", LOCAL},
    {"device", "share", CHARL__KEY_BOOL, AT(device.share), "no", NULL, NULL,
     "allow several ranks to share a GPU", LOCAL},
    {"device", "allow_tf32", CHARL__KEY_BOOL, AT(device.allow_tf32), "no", NULL, NULL,
     "allow tensor cores to round the operands of f32 matrix products to tf32 (10-bit mantissa); several times faster, different bits; "
     "NVIDIA GPUs of compute capability 8.0 or higher"},
    {"device", "cpu_bind", CHARL__KEY_CHOICE, AT(device.cpu_bind), "auto", NULL, "auto|none",
     "auto: if mpirun bound the rank to a single core, widen the binding; none: leave the binding unchanged", LOCAL},

    {"dist", "allreduce", CHARL__KEY_CHOICE, AT(dist.allreduce), "auto", NULL, "auto|peer|shm|hierarchical|p2p|mpi",
     "all-reduce algorithm for gradients; mpi: MPI_Allreduce, a reference whose bits depend on the number of ranks"},
    {"dist", "bucket_mb", CHARL__KEY_FLOAT, AT(dist.bucket_mb), "25", "(0,4096]", NULL,
     "bucket size of the gradient all-reduce, in MB", MANNER},
    {"dist", "overlap", CHARL__KEY_BOOL, AT(dist.overlap), "yes", NULL, NULL,
     "overlap the all-reduce with the backward pass", MANNER},
    {"dist", "shard_optimizer", CHARL__KEY_BOOL, AT(dist.shard_optimizer), "no", NULL, NULL,
     "shard optimizer state and moving average across ranks (ZeRO stage 1): less memory, same result; not for lamb, adafactor and muon", MANNER},
    {"dist", "reduce_dtype", CHARL__KEY_ENUM, AT(dist.reduce_dtype), "f32", NULL, "f32|bf16",
     "element type of gradients in the all-reduce; bf16: half the traffic, but each partial sum over the batch is rounded to bf16"},
    {"dist", "balance", CHARL__KEY_ENUM, AT(dist.balance), "even", NULL, "even|speed",
     "how slices of the batch are assigned to ranks: evenly, or by measured speed, so that unequal devices finish together; does not change "
     "the result", MANNER},
    {"dist", "timeout", CHARL__KEY_FLOAT, AT(dist.timeout_s), "60", "(0,86400]", NULL,
     "end the job if a rank makes no progress in a step for this many seconds (a rank that dies is detected at once)", MANNER},
    {"dist", "stage_timeout", CHARL__KEY_FLOAT, AT(dist.stage_timeout_s), "600", "(0,86400]", NULL,
     "the same while ranks start, read data or compile kernels", MANNER},
};
/* clang-format on */

const int charl__section_key_count = (int)(sizeof charl__section_keys / sizeof *charl__section_keys);

/* Names that other trainers use. */
static const struct {
    const char *section;
    const char *alias;
    const char *name;
} aliases[] = {
    {"optimizer", "lr", "learning_rate"},
    {"train", "max_iters", "max_steps"},
    {"train", "max_epochs", "epochs"},
    {"train", "num_epochs", "epochs"},
    {"train", "max_grad_norm", "grad_clip"},
    {"train", "gradient_clip_val", "grad_clip"},
    {"train", "global_batch_size", "batch_size"},
    {"scheduler", "warmup_iters", "warmup_steps"},
    {"run", "out_dir", "output_dir"},
    /* Former names: configurations stored in checkpoints have them. */
    {"train", "passes", "grad_accum_steps"},
    {"log", "metrics", "formats"},
};

/* Former names of choices, likewise. */
static const struct {
    const char *section;
    const char *name;
    const char *former;
    const char *choice;
} former_choices[] = {
    {"dist", "allreduce", "window", "shm"},
    {"dist", "allreduce", "nodes", "hierarchical"},
    {"dist", "allreduce", "tree", "p2p"},
};

/* Keys whose default was once written `auto`, as configurations stored in checkpoints have it. */
static const char *const former_auto[][2] = {
    {"optimizer", "momentum"}, {"optimizer", "beta1"}, {"optimizer", "beta2"}, {"optimizer", "eps"}};

bool charl__value_was_default(const charl__key *key, const char *value)
{
    for (size_t i = 0; i < sizeof former_auto / sizeof *former_auto; i++) {
        if (strcmp(former_auto[i][0], key->section) == 0 && strcmp(former_auto[i][1], key->name) == 0) {
            return strcmp(value, "auto") == 0;
        }
    }
    return false;
}

const char *charl__key_alias(const char *section, const char *name, const char **meant_section)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if ((!section || strcmp(aliases[i].section, section) == 0) && strcmp(aliases[i].alias, name) == 0) {
            *meant_section = aliases[i].section;
            return aliases[i].name;
        }
    }
    return NULL;
}

const char *charl__choice_renamed(const charl__key *key, const char *word)
{
    for (size_t i = 0; i < sizeof former_choices / sizeof *former_choices; i++) {
        if (strcmp(former_choices[i].section, key->section) == 0 && strcmp(former_choices[i].name, key->name) == 0 &&
            strcmp(former_choices[i].former, word) == 0) {
            return former_choices[i].choice;
        }
    }
    return word;
}

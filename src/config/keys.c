/* The key table and searching it. The tables are short: every search is a walk. */
#include "config/keys.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "charl/nn.h"

#define AT(field) offsetof(charl_config, field)
#define MLP_CNN "type=mlp|cnn"
#define GPT "type=gpt"
#define ADAMS "type=adam|adamw|lion|lamb|muon"
#define SCHEDULED "type=linear|cosine|poly|wsd"
#define MANNER CHARL__KEY_MANNER
#define LOCAL CHARL__KEY_LOCAL

/* clang-format off */
const charl__key charl__keys[] = {
    {"run", "name", CHARL__KEY_STRING, AT(run.name), "", NULL, NULL, NULL, NULL, NULL,
     "run name; ${name} in other values expands to it; default: the file name without its extension", LOCAL},
    {"run", "output_dir", CHARL__KEY_PATH, AT(run.output_dir), "runs/${name}", NULL, NULL, NULL, NULL, NULL,
     "run directory: checkpoints, metrics, log", LOCAL},
    {"run", "seed", CHARL__KEY_INT, AT(run.seed), "42", "[0,inf)", NULL, NULL, NULL, NULL,
     "seed of the random numbers: initial weights, shuffling, augmentation, dropout"},
    {"run", "resume", CHARL__KEY_PATH, AT(run.resume), "auto", NULL, "auto|never|must", NULL, NULL, NULL,
     "auto: resume from the newest valid checkpoint, if any; never: start a new run; must: fail without a checkpoint; or a checkpoint file", MANNER},
    {"run", "strict", CHARL__KEY_BOOL, AT(run.strict), "no", NULL, NULL, NULL, NULL, NULL,
     "refuse to resume, instead of warning, if the result would change (different setting or data, a checkpoint of another run) or if "
     "the checkpoint is not the newest", MANNER},
    {"run", "max_time", CHARL__KEY_DURATION, AT(run.max_time_s), "", NULL, NULL, NULL, NULL, NULL,
     "save a checkpoint and exit with status 75 after this time: [D-]HH:MM:SS, 90s, 30m or 2h; empty: no limit", MANNER},

    {"data", "path", CHARL__KEY_PATH, AT(data.path), NULL, NULL, NULL, NULL, NULL, NULL,
     "dataset: an HDF5 file written by charl data, or any HDF5 file if data.x and data.y are set", LOCAL},
    {"data", "x", CHARL__KEY_STRING, AT(data.x), "", NULL, NULL, NULL, NULL, NULL,
     "name of the input array in an HDF5 file that charl did not write, e.g. /images"},
    {"data", "y", CHARL__KEY_STRING, AT(data.y), "", NULL, NULL, NULL, NULL, NULL,
     "name of the target array in an HDF5 file that charl did not write, e.g. /labels"},
    {"data", "val_split", CHARL__KEY_FLOAT, AT(data.val_split), "0", "[0,1)", NULL, NULL, NULL, NULL,
     "fraction of the training data, taken from its end, to validate on if the file has no validation set"},
    {"data", "window", CHARL__KEY_SIZE, AT(data.window), "auto", "[1,1e6]", "auto", NULL, NULL, NULL,
     "token data: sequence length of a sample; auto: model.block_size for gpt, otherwise 64"},
    {"data", "normalize", CHARL__KEY_NORMALIZE, AT(data.normalize), "auto", NULL, "auto|none", NULL, NULL, NULL,
     "auto: use the mean and standard deviation stored with the data; none; or MEANS / STDS, e.g. 0.49, 0.48 / 0.25, 0.24"},
    {"data", "augment", CHARL__KEY_AUGMENT, AT(data.augment), "", NULL, NULL, NULL, NULL, NULL,
     "random augmentation of training images: flip (horizontal), crop:N (shift by up to N pixels), rotate:N (by up to N degrees), "
     "cutout:N (set a square of N pixels to the mean), mixup:A (blend with another sample, weight from Beta(A, A)); e.g. flip, crop:4"},
    {"data", "shuffle", CHARL__KEY_BOOL, AT(data.shuffle), "yes", NULL, NULL, NULL, NULL, NULL,
     "shuffle the training set every epoch"},
    {"data", "cache", CHARL__KEY_ENUM, AT(data.cache), "auto", NULL, "auto|device|none", "host", NULL, NULL,
     "where to keep the dataset between epochs; auto: on the device if it fits", MANNER},

    {"model", "type", CHARL__KEY_ENUM, AT(model.type), "sequential", NULL, "sequential|mlp|cnn|gpt|resnet", NULL, NULL, NULL,
     "model architecture; sequential: the [layer NAME] sections, in order"},
    {"model", "hidden", CHARL__KEY_INTS, AT(model.hidden), "128", "[1,1000000]", NULL, NULL, NULL, MLP_CNN,
     "widths of the hidden linear layers"},
    {"model", "channels", CHARL__KEY_INTS, AT(model.channels), "32, 64", "[1,100000]", NULL, NULL, NULL, "type=cnn",
     "channels of the convolution blocks, each followed by 2x2 max pooling"},
    {"model", "kernel", CHARL__KEY_INT, AT(model.kernel), "3", "[1,15]", NULL, NULL, NULL, "type=cnn",
     "height and width of the convolution kernels; must be odd"},
    {"model", "activation", CHARL__KEY_CHOICE, AT(model.activation), "relu", NULL, "relu|gelu|silu|tanh|sigmoid", NULL, NULL, MLP_CNN,
     "activation after every hidden layer"},
    {"model", "dropout", CHARL__KEY_FLOAT, AT(model.dropout), "0", "[0,1)", NULL, NULL, NULL, "type=mlp|cnn|gpt",
     "dropout probability"},
    {"model", "batch_norm", CHARL__KEY_BOOL, AT(model.batch_norm), "no", NULL, NULL, NULL, NULL, MLP_CNN,
     "batch normalization after every hidden layer"},
    {"model", "depth", CHARL__KEY_INT, AT(model.depth), "18", "[18,56]", NULL, NULL, NULL, "type=resnet",
     "number of layers with weights: " CHARL_RESNET_DEPTHS},
    {"model", "width", CHARL__KEY_INT, AT(model.width), "auto", "[1,100000]", "auto", NULL, NULL, "type=resnet",
     "channels of the first stage; auto: 64, or 16 for the depths made for small images"},
    {"model", "stem", CHARL__KEY_ENUM, AT(model.stem), "auto", NULL, "auto|imagenet|cifar", NULL, NULL, "type=resnet",
     "imagenet: 7x7 convolution, stride 2, and 3x3 max pooling; cifar: 3x3 convolution, stride 1; auto: by depth"},
    {"model", "n_layer", CHARL__KEY_INT, AT(model.n_layer), "12", "[1,1000]", NULL, NULL, NULL, GPT,
     "number of transformer blocks"},
    {"model", "n_head", CHARL__KEY_INT, AT(model.n_head), "12", "[1,1000]", NULL, NULL, NULL, GPT,
     "attention heads per block"},
    {"model", "n_kv_head", CHARL__KEY_INT, AT(model.n_kv_head), "auto", "[1,1000]", "auto", NULL, NULL, GPT,
     "key/value heads (grouped-query attention); n_head must be a multiple of it; auto: n_head"},
    {"model", "n_embd", CHARL__KEY_INT, AT(model.n_embd), "768", "[1,1e6]", NULL, NULL, NULL, GPT,
     "embedding width; must be a multiple of n_head"},
    {"model", "block_size", CHARL__KEY_SIZE, AT(model.block_size), "1024", "[1,1e6]", NULL, NULL, NULL, GPT,
     "context length in tokens"},
    {"model", "bias", CHARL__KEY_BOOL, AT(model.bias), "no", NULL, NULL, NULL, NULL, GPT,
     "use biases in linear layers and norms, as GPT-2 does"},
    {"model", "tie_weights", CHARL__KEY_BOOL, AT(model.tie_weights), "yes", NULL, NULL, NULL, NULL, GPT,
     "share one matrix between the token embedding and the output layer"},
    {"model", "vocab_multiple", CHARL__KEY_INT, AT(model.vocab_multiple), "1", "[1,65536]", NULL, NULL, NULL, GPT,
     "round the vocabulary size of embedding and output up to a multiple of this; multiples of 64 are faster on GPUs"},
    {"model", "norm", CHARL__KEY_ENUM, AT(model.norm), "layer", NULL, "layer|rms", NULL, NULL, GPT,
     "layer: layer norm; rms: RMS norm, as in Llama"},
    {"model", "mlp", CHARL__KEY_ENUM, AT(model.mlp), "gelu", NULL, "gelu|gelu_tanh|swiglu", NULL, NULL, GPT,
     "activation of the MLP: gelu (exact), gelu_tanh (tanh approximation, as in GPT-2) or swiglu (as in Llama)"},
    {"model", "positions", CHARL__KEY_ENUM, AT(model.positions), "learned", NULL, "learned|rotary", NULL, NULL, GPT,
     "position encoding: learned embeddings, or rotary embeddings (RoPE) of queries and keys"},

    {"train", "epochs", CHARL__KEY_INT, AT(train.epochs), "10", "[1,1e9]", NULL, NULL, NULL, NULL,
     "passes over the training data"},
    {"train", "max_steps", CHARL__KEY_INT, AT(train.max_steps), "-1", "[-1,1e12]", NULL, NULL, NULL, NULL,
     "stop after this many optimizer steps, even within an epoch; -1: no limit"},
    {"train", "batch_size", CHARL__KEY_SIZE, AT(train.batch_size), "256", "[1,1e9]", NULL, NULL, NULL, NULL,
     "global batch size: samples per optimizer step, over all ranks"},
    {"train", "slices", CHARL__KEY_INT, AT(train.slices), "auto", "[1,64]", "auto", NULL, NULL, NULL,
     "equal parts of the batch whose gradients are summed in a fixed order; results are bit-identical for any number of ranks up to this; "
     "auto: the largest power of two that divides batch_size, up to 8 (64 with dist.balance = speed)"},
    {"train", "grad_accum_steps", CHARL__KEY_INT, AT(train.grad_accum_steps), "auto", "[1,64]", "auto", NULL, NULL, NULL,
     "gradient accumulation: forward and backward passes per optimizer step; saves memory and does not change the result; auto: the fewest "
     "that fit the device; models with batch norm: 1", MANNER},
    {"train", "loss", CHARL__KEY_ENUM, AT(train.loss), "cross_entropy", NULL, "cross_entropy|mse|bce|huber", NULL, NULL, NULL,
     "loss function, averaged over the batch"},
    {"train", "label_smoothing", CHARL__KEY_FLOAT, AT(train.label_smoothing), "0", "[0,1)", NULL, NULL, NULL, NULL,
     "label smoothing of cross_entropy: probability spread evenly over all classes"},
    {"train", "grad_clip", CHARL__KEY_FLOAT, AT(train.grad_clip), "0", "[0,inf)", NULL, NULL, NULL, NULL,
     "clip the gradient to this global L2 norm; 0: off"},
    {"train", "precision", CHARL__KEY_ENUM, AT(train.precision), "f32", NULL, "f32|bf16|f16", NULL, NULL, NULL,
     "element type of activations, their gradients and a working copy of the weights; accumulation, master weights and updates are f32"},
    {"train", "loss_scale", CHARL__KEY_INT, AT(train.loss_scale), "dynamic", "[1,16777216]", "dynamic", NULL, NULL, NULL,
     "loss scale for precision = f16, a power of two; dynamic: starts at 65536, halves on overflow (the step is skipped), doubles after "
     "2000 steps without overflow"},
    {"train", "recompute", CHARL__KEY_ENUM, AT(train.recompute), "auto", NULL, "auto|no|yes", NULL, NULL, NULL,
     "activation recomputation: keep only the inputs of each block and recompute the rest in the backward pass; less memory, about a third "
     "more work, same result; auto: only if memory does not suffice otherwise", MANNER},
    {"train", "ema_decay", CHARL__KEY_FLOAT, AT(train.ema_decay), "0", "[0,1)", NULL, NULL, NULL, NULL,
     "decay of an exponential moving average of the weights, e.g. 0.999, used for evaluation, prediction and the best checkpoint; 0: off"},
    {"train", "early_stopping_patience", CHARL__KEY_INT, AT(train.early_stopping_patience), "0", "[0,1e9]", NULL, NULL, NULL, NULL,
     "stop after this many evaluations without improvement of checkpoint.monitor; 0: off"},
    {"train", "on_nonfinite", CHARL__KEY_ENUM, AT(train.on_nonfinite), "stop", NULL, "stop|skip", NULL, NULL, NULL,
     "if the loss or a gradient is NaN or infinite: stop (exit with status 6), or skip the step (leave the weights unchanged and continue)"},
    {"train", "max_nonfinite_steps", CHARL__KEY_INT, AT(train.max_nonfinite_steps), "10", "[1,1e9]", NULL, NULL, NULL, NULL,
     "with on_nonfinite = skip: exit with status 6 after this many skipped steps in a row", MANNER},

    {"optimizer", "type", CHARL__KEY_ENUM, AT(optimizer.type), "adamw", NULL, "sgd|adam|adamw|lion|rmsprop|adagrad|lamb|adafactor|muon", NULL, NULL, NULL,
     "optimization algorithm"},
    {"optimizer", "learning_rate", CHARL__KEY_FLOAT, AT(optimizer.learning_rate), "1e-3", "(0,inf)", NULL, NULL, NULL, NULL,
     "peak learning rate; does not depend on the number of ranks"},
    {"optimizer", "weight_decay", CHARL__KEY_FLOAT, AT(optimizer.weight_decay), "0.01", "[0,inf)", NULL, NULL, NULL, NULL,
     "weight decay: an L2 term in the gradient for sgd, adam, rmsprop and adagrad; decoupled for the others"},
    {"optimizer", "decay_1d", CHARL__KEY_ENUM, AT(optimizer.decay_1d), "auto", NULL, "auto|yes|no", NULL, NULL, NULL,
     "apply weight decay to one-dimensional parameters (biases, weights of norms); auto: no for gpt, otherwise yes"},
    {"optimizer", "groups", CHARL__KEY_STRING, AT(optimizer.groups), "", NULL, NULL, NULL, NULL, NULL,
     "settings per parameter group: PATTERN lr_scale=X weight_decay=Y, ...; e.g. *.bias weight_decay=0, wte.* lr_scale=0.1; "
     "if several patterns match, the last one wins"},
    {"optimizer", "momentum", CHARL__KEY_FLOAT, AT(optimizer.momentum), "auto", "[0,1)", "auto", NULL, NULL, "type=sgd|rmsprop|muon",
     "momentum; auto: 0.9 for sgd, 0 for rmsprop, 0.95 for muon"},
    {"optimizer", "nesterov", CHARL__KEY_BOOL, AT(optimizer.nesterov), "no", NULL, NULL, NULL, NULL, "type=sgd",
     "use Nesterov momentum"},
    {"optimizer", "beta1", CHARL__KEY_FLOAT, AT(optimizer.beta1), "auto", "[0,1)", "auto", NULL, NULL, ADAMS,
     "decay rate of the first moment (mean of the gradient); auto: 0.9"},
    {"optimizer", "beta2", CHARL__KEY_FLOAT, AT(optimizer.beta2), "auto", "[0,1)", "auto", NULL, NULL, ADAMS "|rmsprop",
     "decay rate of the second moment (mean of the squared gradient), for lion of the stored momentum; auto: 0.999, for lion and rmsprop 0.99"},
    {"optimizer", "eps", CHARL__KEY_FLOAT, AT(optimizer.eps), "auto", "(0,inf)", "auto", NULL, NULL, "type=adam|adamw|rmsprop|adagrad|lamb|adafactor|muon",
     "added to the denominator for numerical stability; auto: 1e-8, for adagrad 1e-10, lamb 1e-6, adafactor 2^-23"},

    {"scheduler", "type", CHARL__KEY_ENUM, AT(scheduler.type), "constant", NULL, "constant|linear|cosine|step|multistep|poly|wsd", NULL, NULL, NULL,
     "learning rate schedule after the warm-up; wsd: constant, then decay over the last decay_steps"},
    {"scheduler", "warmup_steps", CHARL__KEY_INT, AT(scheduler.warmup_steps), "0", "[0,1e12]", NULL, NULL, NULL, NULL,
     "steps of linear warm-up from 0 to learning_rate"},
    {"scheduler", "min_lr", CHARL__KEY_FLOAT, AT(scheduler.min_lr), "0", "[0,inf)", NULL, NULL, NULL, SCHEDULED,
     "learning rate at the end of the decay"},
    {"scheduler", "step_size", CHARL__KEY_INT, AT(scheduler.step_size), "1000", "[1,1e12]", NULL, NULL, NULL, "type=step",
     "multiply the learning rate by gamma every this many steps"},
    {"scheduler", "gamma", CHARL__KEY_FLOAT, AT(scheduler.gamma), "0.1", "(0,1]", NULL, NULL, NULL, "type=step|multistep",
     "factor applied to the learning rate at every step_size or milestone"},
    {"scheduler", "milestones", CHARL__KEY_INTS, AT(scheduler.milestones), "", "[1,1e12]", NULL, NULL, NULL, "type=multistep",
     "steps at which the learning rate is multiplied by gamma, in ascending order"},
    {"scheduler", "power", CHARL__KEY_FLOAT, AT(scheduler.power), "1", "(0,inf)", NULL, NULL, NULL, "type=poly",
     "exponent of the polynomial decay"},
    {"scheduler", "decay_steps", CHARL__KEY_INT, AT(scheduler.decay_steps), "auto", "[1,1e12]", "auto", NULL, NULL, "type=wsd",
     "length of the final decay; auto: a tenth of all steps"},

    {"eval", "interval", CHARL__KEY_INTERVAL, AT(eval.interval), "1ep", NULL, NULL, NULL, NULL, NULL,
     "how often to evaluate on the validation set: steps (500), epochs (1ep) or time (30m); 0: never"},
    {"eval", "max_batches", CHARL__KEY_INT, AT(eval.max_batches), "0", "[0,1e12]", NULL, NULL, NULL, NULL,
     "evaluate on this many batches only; 0: all"},
    {"eval", "metrics", CHARL__KEY_SET, AT(eval.metrics), "loss, accuracy", NULL, "loss|accuracy|top5|perplexity|mae", NULL, NULL, NULL,
     "metrics besides the loss; perplexity is always reported for token data, mae (mean absolute error) for loss = mse and huber; for "
     "loss = bce, accuracy counts each label separately", MANNER},

    {"checkpoint", "interval", CHARL__KEY_INTERVAL, AT(checkpoint.interval), "1ep", NULL, NULL, NULL, NULL, NULL,
     "how often to save a checkpoint: steps (500), epochs (1ep) or time (30m); 0: only at the end and when stopped; the best is always saved", MANNER},
    {"checkpoint", "keep_last", CHARL__KEY_INT, AT(checkpoint.keep_last), "3", "[2,1e9]", NULL, NULL, NULL, NULL,
     "number of most recent checkpoints to keep", MANNER},
    {"checkpoint", "keep_every", CHARL__KEY_INT, AT(checkpoint.keep_every), "0", "[0,1e12]", NULL, NULL, NULL, NULL,
     "also keep each checkpoint whose step is a multiple of this; 0: none", MANNER},
    {"checkpoint", "timeout", CHARL__KEY_FLOAT, AT(checkpoint.timeout_s), "120", "(0,86400]", NULL, NULL, NULL, NULL,
     "end the job if saving a checkpoint makes no progress for this many seconds", MANNER},
    {"checkpoint", "monitor", CHARL__KEY_CHOICE, AT(checkpoint.monitor), "val/loss", NULL, "val/loss|val/accuracy|val/mae", NULL, NULL, NULL,
     "metric that decides which checkpoint is the best"},
    {"checkpoint", "mode", CHARL__KEY_ENUM, AT(checkpoint.mode), "min", NULL, "min|max", NULL, NULL, NULL,
     "whether a lower (min) or a higher (max) value of checkpoint.monitor is better"},
    {"checkpoint", "export", CHARL__KEY_ENUM, AT(checkpoint.export_format), "none", NULL, "none|safetensors|onnx", NULL, NULL, NULL,
     "also export the model in this format next to last.h5 and best.h5", MANNER},

    {"log", "interval", CHARL__KEY_INT, AT(log.interval), "10", "[1,1e12]", NULL, NULL, NULL, NULL,
     "log metrics every this many steps", MANNER},
    {"log", "formats", CHARL__KEY_SET, AT(log.formats), "jsonl, csv", NULL, "jsonl|csv", "tensorboard", NULL, NULL,
     "file formats of the metrics: metrics.jsonl, metrics.csv", MANNER},

    {"device", "select", CHARL__KEY_DEVICE, AT(device.select), "auto", NULL, "auto|gpu|cpu", NULL, NULL, NULL,
     "auto, gpu, cpu, INDEX (see --list-devices), pci:0000:3b:00.0, name:H200 or platform:NVIDIA; or a list with one item per rank of a "
     "node, e.g. gpu, gpu, cpu", LOCAL},
    {"device", "share", CHARL__KEY_BOOL, AT(device.share), "no", NULL, NULL, NULL, NULL, NULL,
     "allow several ranks to share a GPU", LOCAL},
    {"device", "allow_tf32", CHARL__KEY_BOOL, AT(device.allow_tf32), "no", NULL, NULL, NULL, NULL, NULL,
     "allow tensor cores to round the operands of f32 matrix products to tf32 (10-bit mantissa); several times faster, different bits; "
     "NVIDIA GPUs of compute capability 8.0 or higher"},
    {"device", "cpu_bind", CHARL__KEY_CHOICE, AT(device.cpu_bind), "auto", NULL, "auto|none", NULL, NULL, NULL,
     "auto: if mpirun bound the rank to a single core, widen the binding; none: leave the binding unchanged", LOCAL},

    {"dist", "allreduce", CHARL__KEY_CHOICE, AT(dist.allreduce), "auto", NULL, "auto|peer|shm|hierarchical|p2p|mpi", NULL, NULL, NULL,
     "all-reduce algorithm for gradients; mpi: MPI_Allreduce, a reference whose bits depend on the number of ranks"},
    {"dist", "bucket_mb", CHARL__KEY_FLOAT, AT(dist.bucket_mb), "25", "(0,4096]", NULL, NULL, NULL, NULL,
     "bucket size of the gradient all-reduce, in MB", MANNER},
    {"dist", "overlap", CHARL__KEY_BOOL, AT(dist.overlap), "yes", NULL, NULL, NULL, NULL, NULL,
     "overlap the all-reduce with the backward pass", MANNER},
    {"dist", "shard_optimizer", CHARL__KEY_BOOL, AT(dist.shard_optimizer), "no", NULL, NULL, NULL, NULL, NULL,
     "shard optimizer state and moving average across ranks (ZeRO stage 1): less memory, same result; not for lamb, adafactor and muon", MANNER},
    {"dist", "reduce_dtype", CHARL__KEY_ENUM, AT(dist.reduce_dtype), "f32", NULL, "f32|bf16", NULL, NULL, NULL,
     "element type of gradients in the all-reduce; bf16: half the traffic, but each partial sum over the batch is rounded to bf16"},
    {"dist", "balance", CHARL__KEY_ENUM, AT(dist.balance), "even", NULL, "even|speed", NULL, NULL, NULL,
     "how slices of the batch are assigned to ranks: evenly, or by measured speed, so that unequal devices finish together; does not change "
     "the result", MANNER},
    {"dist", "timeout", CHARL__KEY_FLOAT, AT(dist.timeout_s), "60", "(0,86400]", NULL, NULL, NULL, NULL,
     "end the job if a rank makes no progress in a step for this many seconds (a rank that dies is detected at once)", MANNER},
    {"dist", "stage_timeout", CHARL__KEY_FLOAT, AT(dist.stage_timeout_s), "600", "(0,86400]", NULL, NULL, NULL, NULL,
     "the same while ranks start, read data or compile kernels", MANNER},

    {"profile", "trace", CHARL__KEY_BOOL, AT(profile.trace), "no", NULL, NULL, NULL, "no", NULL,
     "write a trace for chrome://tracing", MANNER},
    {"profile", "steps", CHARL__KEY_STRING, AT(profile.steps), "10-20", NULL, NULL, NULL, "10-20", NULL,
     "steps to trace", MANNER},
};
/* clang-format on */

const int charl__key_count = (int)(sizeof charl__keys / sizeof *charl__keys);

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

static const charl__key *find_named(const char *section, const char *name)
{
    for (int i = 0; i < charl__key_count; i++) {
        if ((!section || strcmp(charl__keys[i].section, section) == 0) &&
            strcmp(charl__keys[i].name, name) == 0) {
            return &charl__keys[i];
        }
    }
    return NULL;
}

static const charl__key *find_alias(const char *section, const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if ((!section || strcmp(aliases[i].section, section) == 0) &&
            strcmp(aliases[i].alias, name) == 0) {
            return find_named(aliases[i].section, aliases[i].name);
        }
    }
    return NULL;
}

const charl__key *charl__key_find(const char *section, const char *name, bool *alias)
{
    const charl__key *key = find_named(section, name);

    if (alias) {
        *alias = !key;
        if (!key) {
            key = find_alias(section, name);
        }
    }
    return key;
}

const charl__key *charl__key_elsewhere(const char *name)
{
    const charl__key *key = find_named(NULL, name);

    return key ? key : find_alias(NULL, name);
}

bool charl__key_section_known(const char *section)
{
    for (int i = 0; i < charl__key_count; i++) {
        if (strcmp(charl__keys[i].section, section) == 0) {
            return true;
        }
    }
    return false;
}

int charl__key_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    int rows[3][LONGEST + 1];
    const size_t na = strlen(a);
    const size_t nb = strlen(b);

    if (na > LONGEST || nb > LONGEST) {
        return INT_MAX;
    }
    for (size_t j = 0; j <= nb; j++) {
        rows[0][j] = (int)j;
    }
    for (size_t i = 1; i <= na; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i - 1) % 3];
        const int *above2 = rows[(i + 1) % 3];

        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);

            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                above2[j - 2] + 1 < best) {
                best = above2[j - 2] + 1;
            }
            row[j] = best;
        }
    }
    return rows[na % 3][nb];
}

bool charl__key_closer(const char *name, const char *candidate, int *best)
{
    const int d = charl__key_distance(name, candidate);
    const int longest = (int)(strlen(candidate) < 63 ? strlen(candidate) : 63);

    if (d >= *best || d > (longest < 6 ? 2 : (longest + 2) / 3) || d >= longest) {
        return false;
    }
    *best = d;
    return true;
}

const char *charl__key_nearest(const char *section, const char *name)
{
    const char *nearest = NULL;
    int best = INT_MAX;

    for (int i = 0; i < charl__key_count; i++) {
        if (strcmp(charl__keys[i].section, section) == 0 &&
            charl__key_closer(name, charl__keys[i].name, &best)) {
            nearest = charl__keys[i].name;
        }
    }
    return nearest;
}

const char *charl__key_nearest_section(const char *section)
{
    const char *nearest = NULL;
    int best = INT_MAX;

    for (int i = 0; i < charl__key_count; i++) {
        if (charl__key_closer(section, charl__keys[i].section, &best)) {
            nearest = charl__keys[i].section;
        }
    }
    return nearest;
}

bool charl__choice_next(const char **cursor, char *word, size_t size)
{
    const char *p = *cursor;
    size_t n;

    if (!p) {
        return false;
    }
    n = strcspn(p, "|");
    snprintf(word, size, "%.*s", (int)n, p);
    *cursor = p[n] == '|' ? p + n + 1 : NULL;
    return true;
}

int charl__choice_index(const char *choices, const char *word)
{
    char choice[64];
    const char *cursor = choices;

    for (int i = 0; charl__choice_next(&cursor, choice, sizeof choice); i++) {
        if (strcmp(choice, word) == 0) {
            return i;
        }
    }
    return -1;
}

const char *charl__choice_renamed(const charl__key *key, const char *word)
{
    for (size_t i = 0; i < sizeof former_choices / sizeof *former_choices; i++) {
        if (strcmp(former_choices[i].section, key->section) == 0 &&
            strcmp(former_choices[i].name, key->name) == 0 &&
            strcmp(former_choices[i].former, word) == 0) {
            return former_choices[i].choice;
        }
    }
    return word;
}

const char *charl__choice_list(const char *choices, char *text, size_t size)
{
    char choice[64];
    const char *cursor = choices;
    size_t used = 0;

    text[0] = '\0';
    while (charl__choice_next(&cursor, choice, sizeof choice) && used < size) {
        const int n = snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", choice);

        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

bool charl__range_holds(const char *range, double v)
{
    char *end = NULL;
    double low;
    double high;

    if (!isfinite(v)) {
        return false;
    }
    if (!range) {
        return true;
    }
    low = strtod(range + 1, &end);
    CHARL_INVARIANT(*end == ',');
    high = strtod(end + 1, &end);
    return (range[0] == '(' ? v > low : v >= low) && (*end == ')' ? v < high : v <= high);
}

const char *charl_config_choice_name(const char *section, const char *key, int index)
{
    static _Thread_local char word[64];
    const charl__key *k = find_named(section, key);
    const char *cursor = k ? k->choices : NULL;

    for (int i = 0; charl__choice_next(&cursor, word, sizeof word); i++) {
        if (i == index) {
            return word;
        }
    }
    return "?";
}

/* The keys of the sections, from config/section_keys.def, and other trainers' names for them. schema.c assembles the rest of the
 * table. */
#include "config/keys.h"

#include <string.h>

#include "charl/comm.h"
#include "charl/layer.h"
#include "charl/metric.h"
#include "charl/optim.h"
#include "config/export_formats.h"
#include "dist/allreduce/allreduce_device.h"
#include "nn/metric.h"

#define LENGTH CHARL__KEY_LENGTH
#define MEASURE CHARL__KEY_MEASURE
#define START CHARL__KEY_START
#define MANNER CHARL__KEY_MANNER
#define LOCAL CHARL__KEY_LOCAL

/* clang-format off */
const charl__key charl__section_keys[] = {
#define CHARL_KEY(section, type, field, name, kind, ...) \
    {#section, name, CHARL__KEY_##kind, offsetof(charl_config, section.field), __VA_ARGS__},
#define CHARL_KEY_OF(section, field, name, kind, ...) CHARL_KEY(section, , field, name, kind, __VA_ARGS__)
#include "config/section_keys.def"
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
    /* Former names, which configurations stored in checkpoints may have. */
    {"train", "passes", "grad_accum_steps"},
    {"dist", "shard_optimizer", "shard"},
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
    /* of shard_optimizer */
    {"dist", "shard", "yes", "optimizer"},
    {"dist", "shard", "no", "none"},
};

/* Keys whose default was formerly written like this, as in configurations stored in checkpoints. */
static const char *const former_defaults[][3] = {{"optimizer", "momentum", "auto"},
                                                 {"optimizer", "beta1", "auto"},
                                                 {"optimizer", "beta2", "auto"},
                                                 {"optimizer", "eps", "auto"},
                                                 {"eval", "metrics", "loss, accuracy"}};

bool charl__value_was_default(const charl__key *key, const char *value)
{
    for (size_t i = 0; i < sizeof former_defaults / sizeof *former_defaults; i++) {
        if (strcmp(former_defaults[i][0], key->section) == 0 && strcmp(former_defaults[i][1], key->name) == 0) {
            return strcmp(value, former_defaults[i][2]) == 0;
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

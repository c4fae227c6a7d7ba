/* The model, the loss, the metrics, the optimizer and the schedule of a configuration. */
#include "config/config_rows.h"

#include <string.h>

#include "config/outputs.h"
#include "optim/optimizer.h"

enum { DEFAULT_WINDOW = 64 }; /* tokens of a sample if data.window is not set */

const charl_model_type *charl__config_model(const charl_config *cfg)
{
    const charl_model_type *t = charl__model_type_find(cfg->model.type);

    CHARL_INVARIANT(t); /* parsing accepts no other name */
    return t;
}

unsigned charl__config_targets(const charl_config *cfg)
{
    return strcmp(cfg->train.loss, "auto") == 0 && !charl__config_has_outputs(cfg) ? ~0U
                                                                                   : charl__config_loss(cfg)->targets;
}

int64_t charl__config_model_window(const charl_config *cfg)
{
    const charl_model_type *t = charl__config_model(cfg);

    return t->window ? t->window(cfg->model.settings) : 0;
}

charl_dataset_options charl_config_get_dataset_options(const charl_config *c)
{
    if (!c) {
        return (charl_dataset_options){sizeof(charl_dataset_options)};
    }
    const int64_t window = charl__config_model_window(c);
    const unsigned targets = charl__config_targets(c);

    return (charl_dataset_options){sizeof(charl_dataset_options),
                                   .x = c->data.x[0] ? c->data.x : NULL,
                                   .y = c->data.y[0] ? c->data.y : NULL,
                                   .weights = c->data.weights[0] ? c->data.weights : NULL,
                                   .val_split = c->data.val_split,
                                   .fold = c->data.fold.k,
                                   .folds = c->data.fold.n,
                                   .fractions = targets & (CHARL_TARGET_FLAGS | CHARL_TARGET_PROBABILITIES) &&
                                                !(targets & CHARL_TARGET_NUMBERS),
                                   .shuffle_window = c->data.shuffle_window,
                                   .cache_bytes = c->data.read_cache_mb << 20,
                                   .threads = (int)c->data.threads,
                                   .separate = c->data.documents == CHARL__DOCUMENTS_SEPARATE,
                                   .window = window > 0           ? window
                                             : c->data.window > 0 ? c->data.window
                                                                  : DEFAULT_WINDOW};
}

const char *charl__config_init_from(const charl_config *cfg)
{
    return strcmp(cfg->init.from, "none") != 0 ? cfg->init.from : NULL;
}

int64_t charl__config_vocab(const charl_config *cfg, int64_t tokens)
{
    const charl_model_type *t = charl__config_model(cfg);

    return t->vocab ? t->vocab(cfg->model.settings, tokens) : tokens;
}

const charl__loss *charl__config_loss(const charl_config *cfg)
{
    const charl__loss *t = charl__config_has_outputs(cfg) ? &charl__loss_outputs : charl__loss_find(cfg->train.loss);

    CHARL_INVARIANT(t); /* parsing accepts no other name, and a session resolves auto */
    return t;
}

const char *charl__config_monitor_name(const charl_config *cfg)
{
    return strchr(cfg->checkpoint.monitor, '/') + 1;
}

const charl__metric *charl__config_monitor(const charl_config *cfg)
{
    const charl__metric *t = charl__metric_find(charl__config_monitor_name(cfg));

    CHARL_INVARIANT(t);
    return t;
}

bool charl__config_measures(const charl_config *cfg, int i, unsigned targets)
{
    const unsigned own = (unsigned)CHARL__METRICS_AUTO << (i + 1);

    return (cfg->eval.metrics & own) != 0 ||
           ((cfg->eval.metrics & CHARL__METRICS_AUTO) != 0 && (charl__metric_at(i)->automatic & targets) != 0);
}

charl_optimizer_config charl__config_optimizer(const charl_config *cfg)
{
    const charl__optimizer_rule *rule = charl__optimizer_find(cfg->optimizer.type);
    charl_optimizer_config o = charl_optimizer_defaults(cfg->optimizer.type);

    if (rule->custom) {
        o.settings = cfg->optimizer.settings;
    } else {
        o = *(const charl_optimizer_config *)cfg->optimizer.settings;
    }
    o.weight_decay = (float)cfg->optimizer.weight_decay;
    o.grad_clip = (float)cfg->train.grad_clip;
    o.ema_decay = cfg->train.ema_decay;
    o.state = cfg->optimizer.state;
    o.skip_nonfinite = cfg->train.on_nonfinite == CHARL__NONFINITE_SKIP;
    o.on_spike = cfg->train.on_spike;
    o.spike_window = (int)cfg->train.spike_window;
    o.spike_threshold = (float)cfg->train.spike_threshold;
    return o;
}

int64_t charl__config_steps(const charl_config *cfg, int64_t rows)
{
    return cfg->train.max_steps >= 0 ? cfg->train.max_steps
                                     : (cfg->train.epochs * rows + cfg->train.batch_size - 1) / cfg->train.batch_size;
}

charl_schedule charl__config_schedule(const charl_config *cfg, int64_t total_steps)
{
    charl_schedule s = *(const charl_schedule *)cfg->scheduler.settings;

    s.type = cfg->scheduler.type;
    s.base_lr = cfg->optimizer.learning_rate;
    s.warmup_steps = cfg->scheduler.warmup_steps;
    s.total_steps = total_steps;
    if (s.decay_steps == 0) { /* auto */
        const int64_t after = total_steps - s.warmup_steps;

        s.decay_steps = total_steps < 20 ? total_steps > 0 : total_steps / 10;
        s.decay_steps = after > 0 && s.decay_steps > after ? after : s.decay_steps;
    }
    return s;
}

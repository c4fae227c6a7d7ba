/* A layer and an optimizer of your own, which a configuration then names like charl's. Trains what the configuration describes:
 *
 *     custom_types config.ini
 *     mpirun -n 2 custom_types config.ini
 *
 *     [layer gate]                    [optimizer]
 *     type = gate                     type = soft_sign
 *     start = 0.5                     momentum = 0.9
 *                                     learning_rate = 1e-3
 */
#include <charl/charl.h>

#include <stdio.h>

/* y = x sigmoid(scale x), with a scale that is learned. */
typedef struct gate_settings {
    double start;
} gate_settings;

static const gate_settings gate_defaults = {.start = 1.0};
static const charl_key gate_keys[] = {
    {"start", CHARL_KEY_FLOAT, offsetof(gate_settings, start), "(0,10]", false, "scale at the start", NULL},
};

static charl_var *build_gate(const charl_layer_build *b, charl_var *x)
{
    const gate_settings *s = b->settings;
    const charl_param_spec spec = {.shape = {1, {1}}, .init = {CHARL_INIT_CONSTANT, (float)s->start, 0}};
    charl_var *scale = charl_layer_param(b, "scale", &spec); /* gate.scale in checkpoints */

    return charl_mul(b->g, x, charl_sigmoid(b->g, charl_mul(b->g, x, scale)));
}

static const charl_layer_type gate = {.row.name = "gate",
                                      .row.help = "x sigmoid(scale x), with a learned scale",
                                      CHARL_KEYS(gate_keys),
                                      CHARL_DEFAULTS(gate_defaults),
                                      .build = build_gate};

/* A running mean of the gradients, divided by its size: steps of almost one size. */
typedef struct soft_settings {
    double momentum;
} soft_settings;

static const soft_settings soft_defaults = {.momentum = 0.9};
static const charl_key soft_keys[] = {
    {"momentum", CHARL_KEY_FLOAT, offsetof(soft_settings, momentum), "[0,1)", false, "part of the mean that is kept",
     NULL},
};

static const charl_optimizer_type soft_sign = {.row.name = "soft_sign",
                                               .row.help = "a running mean of the gradients, divided by its size",
                                               CHARL_KEYS(soft_keys),
                                               CHARL_DEFAULTS(soft_defaults),
                                               .n_states = 1,
                                               .state_names = {"mean"},
                                               .update = "s0 = momentum * s0 + (1.0f - momentum) * g;\n"
                                                         "p = p - lr * (s0 / (fabs(s0) + 1e-3f) + weight_decay * p);"};

static void warned(void *ctx, const char *text)
{
    (void)ctx;
    fprintf(stderr, "custom_types: warning: %s\n", text);
}

static charl_status train(const char *path, charl_comm *comm, charl_train_result *result)
{
    const charl_train_options options = {sizeof options, .comm = comm, .events = {.warned = warned}};
    charl_config *config = NULL;
    charl_status st = charl_config_load(path, NULL, 0, &config);

    if (st == CHARL_OK) {
        st = charl_train_run(config, &options, result);
    }
    charl_config_destroy(config);
    return st;
}

int main(int argc, char **argv)
{
    charl_train_result result = {0};
    charl_comm *comm = NULL;
    charl_status st = charl_version_check();

    if (argc != 2) {
        fprintf(stderr, "usage: custom_types CONFIG\n");
        return 2;
    }
    st = st == CHARL_OK ? charl_register_layer(&gate) : st; /* before a configuration is read */
    st = st == CHARL_OK ? charl_register_optimizer(&soft_sign) : st;
    st = st == CHARL_OK ? charl_comm_init_if_launched(&argc, &argv) : st;
    st = st == CHARL_OK ? charl_comm_create(NULL, &comm) : st;
    if (st == CHARL_OK) {
        st = train(argv[1], comm, &result);
        if (st == CHARL_OK && charl_comm_rank(comm) == 0) {
            printf("step %lld, best validation %.6g\n", (long long)result.step, result.best_metric);
        }
    }
    if (st != CHARL_OK) {
        fprintf(stderr, "custom_types: %s\n", charl_error_message());
    }
    charl_comm_destroy(comm);
    charl_comm_fini();
    return st != CHARL_OK;
}

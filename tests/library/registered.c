/* An optimizer, a layer and a model of a program's own, through the installed headers alone: a configuration names them, and they train. */
#include <charl/charl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static void check(bool ok, const char *what)
{
    if (!ok) {
        printf("%s: %s\n", what, charl_error_message());
        failed = 1;
    }
}

static void refused(charl_status st, const char *message)
{
    if (st == CHARL_OK || !strstr(charl_error_message(), message)) {
        printf("want \"%s\", have \"%s\"\n", message, st == CHARL_OK ? "success" : charl_error_message());
        failed = 1;
    }
}

/* sgd with momentum as built in: the same bits. */
typedef struct heavy_settings {
    double mass;
} heavy_settings;
static const heavy_settings heavy_defaults = {.mass = 0.5};
static const charl_key heavy_keys[] = {
    {"mass", CHARL_KEY_FLOAT, offsetof(heavy_settings, mass), "[0,1)", false, "part of the last update that is kept",
     NULL},
};
static const charl_optimizer_type heavy = {
    .row.name = "heavy",
    .row.help = "momentum",
    CHARL_KEYS(heavy_keys),
    CHARL_DEFAULTS(heavy_defaults),
    .n_states = 1,
    .state_names = {"velocity"},
    .update = "s0 = mass * s0 +\n (g + weight_decay * p);\n p = p - lr * s0;",
};

/* Steps of a size that the host computes: 1 / t. */
static void fall(const void *settings, int64_t t, float out[2])
{
    (void)settings;
    out[0] = 1.0F / (float)t;
}
static const charl_optimizer_type falling = {
    .row.name = "falling", .row.help = "1 / t", .update = "p = p - lr * scalar0 * g;", .scalars = fall};

typedef struct gain_settings {
    double start;
} gain_settings;
static const gain_settings gain_defaults = {.start = 1.0};
static const charl_key gain_keys[] = {
    {"start", CHARL_KEY_FLOAT, offsetof(gain_settings, start), "(0,10]", false, "factor at the start", NULL},
};

static charl_var *build_gain(const charl_layer_build *b, charl_var *x)
{
    const gain_settings *s = b->settings;
    const charl_param_spec spec = {.shape = {1, {1}}, .init = {CHARL_INIT_CONSTANT, (float)s->start, 0.0F}};

    return charl_mul(b->g, x, charl_layer_param(b, "gain", &spec));
}
static const charl_layer_type gain = {.row.name = "gain",
                                      .row.help = "times a factor that is learned",
                                      CHARL_KEYS(gain_keys),
                                      CHARL_DEFAULTS(gain_defaults),
                                      .build = build_gain};

typedef struct tiny_settings {
    int64_t width;
    const char *activation;
} tiny_settings;
static const tiny_settings tiny_defaults = {.activation = "relu"};
static const charl_key tiny_keys[] = {
    {"width", CHARL_KEY_INT, offsetof(tiny_settings, width), "[1,1000]", true, "hidden features", NULL},
    {"activation", CHARL_KEY_ACTIVATION, offsetof(tiny_settings, activation), NULL, false, "after the hidden layer",
     NULL},
};

static charl_status add_tiny(charl_model *m, const void *settings, int64_t outputs)
{
    const tiny_settings *s = settings;
    const int64_t hidden[] = {s->width};
    const charl_mlp_config mlp = {.hidden = hidden, .n_hidden = 1, .outputs = outputs, .activation = s->activation};

    return charl_model_add_mlp(m, &mlp);
}
static const charl_model_type tiny = {.row.name = "tiny",
                                      .row.help = "one hidden layer",
                                      CHARL_KEYS(tiny_keys),
                                      CHARL_DEFAULTS(tiny_defaults),
                                      .add = add_tiny};

static void test_refused(void)
{
    static const charl_optimizer_type taken = {.row.name = "sgd", .row.help = "h", .update = "p -= g;"},
                                      shouting = {.row.name = "Mine", .row.help = "h", .update = "p -= g;"},
                                      idle = {.row.name = "idle", .row.help = "h"},
                                      hash = {.row.name = "hash", .row.help = "h", .update = "#define x"};
    static const charl_key outside[] = {{"far", CHARL_KEY_FLOAT, 8, NULL, false, "h", NULL}},
                           twice[] = {{"mass", CHARL_KEY_FLOAT, 0, NULL, false, "h", NULL},
                                      {"mass", CHARL_KEY_FLOAT, 0, NULL, false, "h", NULL}};
    static const charl_layer_type far = {.row.name = "far",
                                         .row.help = "h",
                                         CHARL_KEYS(outside),
                                         CHARL_DEFAULTS(gain_defaults),
                                         .build = build_gain},
                                  no_build = {.row.name = "none", .row.help = "h"};
    static const charl_model_type doubled = {
        .row.name = "doubled", .row.help = "h", CHARL_KEYS(twice), CHARL_DEFAULTS(heavy_defaults), .add = add_tiny};

    refused(charl_register_optimizer(&taken), "optimizer sgd exists already");
    refused(charl_register_optimizer(&shouting), "named \"Mine\"");
    refused(charl_register_optimizer(&idle), "its update is missing");
    refused(charl_register_optimizer(&hash), "holds # or //");
    refused(charl_register_optimizer(&heavy), "heavy exists already");
    refused(charl_register_layer(&far), "lies outside the settings of 8 bytes");
    refused(charl_register_layer(&no_build), "no function that builds it");
    refused(charl_register_model(&doubled), "two keys are named mass");
}

static charl_status train(charl_comm *comm, const char *text, double *loss)
{
    const charl_train_options options = {sizeof options, .comm = comm, .overwrite = true};
    charl_train_result result = {0};
    charl_config *config = NULL;
    charl_status st = charl_config_parse("own.ini", text, strlen(text), NULL, 0, &config);

    if (st == CHARL_OK) {
        st = charl_train_run(config, &options, &result);
        *loss = result.loss;
    }
    charl_config_destroy(config);
    return st;
}

#define HEAD                                                                                                           \
    "[data]\npath = digits.h5\n[train]\nbatch_size = 32\nmax_steps = 8\n[log]\ninterval = "                            \
    "1\n[eval]\ninterval = 0\n"
#define TINY "[model]\ntype = tiny\nwidth = 16\n"

int main(int argc, char **argv)
{
    const charl_make_options make = {sizeof make, .kind = "digits", .n_train = 256, .seed = 1, .overwrite = true};
    double own = 0.0, built_in = 1.0, other = 0.0;
    charl_comm *comm = NULL;
    char *help = NULL;

    check(charl_register_optimizer(&heavy) == CHARL_OK, "heavy");
    check(charl_register_optimizer(&falling) == CHARL_OK, "falling");
    check(charl_register_layer(&gain) == CHARL_OK, "gain");
    check(charl_register_model(&tiny) == CHARL_OK, "tiny");
    test_refused();
    check(charl_comm_init(&argc, &argv) == CHARL_OK, "MPI");
    check(charl_comm_create(NULL, &comm) == CHARL_OK, "communicator");
    check(charl_dataset_make("digits.h5", &make) == CHARL_OK, "data");
    if (failed) {
        return 1;
    }
    check(train(comm, HEAD TINY "[optimizer]\ntype = heavy\nmass = 0.75\nlearning_rate = 0.05\n", &own) == CHARL_OK,
          "heavy");
    check(train(comm, HEAD TINY "[optimizer]\ntype = sgd\nmomentum = 0.75\nlearning_rate = 0.05\n", &built_in) ==
              CHARL_OK,
          "sgd");
    check(own == built_in, "a registered optimizer and the built-in one differ");
    check(train(comm, HEAD TINY "[optimizer]\ntype = heavy\nlearning_rate = 0.05\n", &other) == CHARL_OK &&
              other != own,
          "default mass");
    check(train(comm, HEAD TINY "[optimizer]\ntype = falling\nlearning_rate = 0.05\n", &other) == CHARL_OK &&
              other != own,
          "falling");
    check(train(comm,
                HEAD "[layer flat]\ntype = flatten\n[layer s]\ntype = gain\nstart = 0.5\n[layer "
                     "out]\ntype = linear\nout = 10\n",
                &own) == CHARL_OK,
          "a layer");
    check(train(comm,
                HEAD "[layer flat]\ntype = flatten\n[layer s]\ntype = gain\nstart = 2\n[layer "
                     "out]\ntype = linear\nout = 10\n",
                &other) == CHARL_OK &&
              own != other,
          "a key of a layer");
    refused(train(comm, HEAD TINY "[optimizer]\ntype = heavy\nmass = 1\n", &own),
            "own.ini:15: [optimizer] mass: 1 is out of range (at least 0, below 1)");
    refused(train(comm, HEAD "[model]\ntype = tiny\n", &own), "[model] width: is missing and has no default");
    refused(train(comm, HEAD TINY "[optimizer]\ntype = heavy\nmas = 1\n", &own), "unknown key (did you mean mass?)");
    refused(train(comm, HEAD "[layer s]\ntype = gain\nstart = 11\n", &own),
            "start: 11 is out of range (above 0, at most 10)");
    refused(charl_register_layer(&gain), "before the first configuration is read");
    check(charl_config_help("optimizer", &help) == CHARL_OK &&
              strstr(help, "  type = heavy\n      momentum\n    mass = 0.5\n        number in [0,1)\n"),
          "help");
    charl_free(help);
    charl_comm_destroy(comm);
    charl_comm_fini();
    return failed;
}

/* charl sample: samples of a diffusion model. */
#include <string.h>

#include <charl/diffusion.h>
#include "cli/charl/commands.h"

enum { MAX_INPUTS = 16 };

typedef struct sampling {
    charl_sample_options o;
    const char *file;
    const char *inputs[MAX_INPUTS];
} sampling;

static error_t parse_input(void *input, const char *option, const char *value)
{
    sampling *s = input;

    if (!strchr(value, '=')) {
        return charl__cli_bad_option(option, value, "is not NAME=VALUE");
    }
    if (s->o.n_inputs == MAX_INPUTS) {
        return charl__cli_bad_option(option, value, "can be given 16 times");
    }
    s->inputs[s->o.n_inputs++] = value;
    return 0;
}

int charl__sample_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"output", 'o', "FILE",
         "Output file, which is replaced if it exists: a picture of all samples (.png), or their numbers (.h5)", 1,
         CHARL__CLI_TEXT(sampling, file)},
        {"count", 'n', "N", "Number of samples (default 16)", 1, CHARL__CLI_INT(sampling, o.count, 1, 1 << 20)},
        {"steps", 0, "S", "Runs of the model for each sample (default 50); more are finer", 1,
         CHARL__CLI_INT(sampling, o.steps, 1, 100000)},
        {"input", 0, "NAME=VALUE", "Value of another input of the model, such as a class; can be repeated", 1,
         .parse = parse_input},
        {"seed", 0, "N", "Seed of the noise (default: run.seed)", 1, CHARL__CLI_INT(sampling, o.seed, 0, INT64_MAX)},
        CHARL__CLI_EMA_OPTION(2, sampling, o.ema),
        {0}};
    static const charl__cli_syntax syntax = {
        options, "CHECKPOINT [SECTION.KEY=VALUE...]",
        "Draw samples with a trained diffusion model.\vA run directory stands for its last checkpoint. The samples "
        "depend on the weights, N, S, the inputs and the seed; sample i does not depend on how many there are. "
        "DDIM removes the noise in S steps."};
    charl__cli_operands operands = {.names = {"CHECKPOINT"}, .max = 1 + CHARL__CLI_OVERRIDES};
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    sampling s = {.o = {sizeof s.o, .seed = -1, .warned = charl__cli_warn, .compiling = charl__cli_compiling_show}};
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &s);
    charl_status st;

    if (code >= 0) {
        return code;
    }
    if (!s.file) {
        return charl__cli_error(CHARL__EXIT_USAGE, "add -o FILE.png or -o FILE.h5", "-o is missing");
    }
    for (int i = 1; i < operands.count; i++) {
        if (!charl__cli_is_override(operands.values[i])) {
            return charl__cli_error(CHARL__EXIT_USAGE, "charl sample takes one checkpoint",
                                    "%s is not SECTION.KEY=VALUE", operands.values[i]);
        }
        overrides[s.o.n_overrides++] = (charl_config_override){operands.values[i], "command line"};
    }
    s.o.inputs = s.inputs;
    s.o.overrides = overrides;
    st = charl__checkpoint_of(&operands.values[0]);
    st = st == CHARL_OK ? charl_sample(operands.values[0], &s.o, s.file) : st;
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
}

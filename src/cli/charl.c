/* charl: the companion program of charl-train. Creates, inspects and verifies datasets and
 * checkpoints; evaluates trained models. */
#include <stdio.h>
#include <string.h>

#include "cli/charl_commands.h"

static int version(const char *path, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    (void)path;
    printf("charl %s\n", charl_version());
    return CHARL__EXIT_OK;
}

static const charl__cli_command commands[] = {
    {"data", "", "", NULL, charl__data_commands},
    {"checkpoint", "", "", NULL, charl__checkpoint_commands},
    {"devices", "", "list OpenCL devices", charl__devices_main, NULL},
    {"selftest", "[--device SEL] [--op NAME]", "test every operator on a device", charl__selftest_main, NULL},
    {"tune", "[CONFIG]", "tune kernels for this device and cache the result", charl__tune_main, NULL},
    {"eval", "CONFIG CHECKPOINT", "evaluate a checkpoint on a dataset split", charl__eval_main, NULL},
    {"predict", "MODEL [DATA...]", "run a trained model on new data", charl__predict_main, NULL},
    {"generate", "CONFIG CHECKPOINT --prompt TEXT", "generate text with a language model", charl__generate_main, NULL},
    {"version", "", "print the version", version, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static int dispatch(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        return version("charl", argc, argv);
    }
    return charl__cli_dispatch("charl", commands, argc, argv);
}

int main(int argc, char **argv)
{
    int code = charl__cli_begin("charl");

    if (code == CHARL__EXIT_OK) {
        code = dispatch(argc, argv);
    }
    return charl__cli_end(code);
}

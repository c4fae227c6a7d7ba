/* charl: the companion program of charl-train. Creates, inspects and verifies datasets and
 * checkpoints; evaluates trained models. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/charl/commands.h"

static int version(const char *path, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    (void)path;
    printf("charl %s\n", charl_version());
    return CHARL__EXIT_OK;
}

/* charl-train, which lies beside this program. */
static int train(const char *path, int argc, char **argv)
{
    static const char name[] = "charl-train";
    char program[4096];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - sizeof name);
    char *slash;

    (void)path;
    (void)argc;
    program[length > 0 ? length : 0] = '\0';
    slash = strrchr(program, '/');
    strcpy(slash ? slash + 1 : program, name);
    argv[0] = program;
    execvp(program, argv); /* without a slash: as PATH has it */
    return charl__cli_error(CHARL__EXIT_INTERNAL, "it is installed with charl", "cannot start %s: %s", program,
                            strerror(errno));
}

static const charl__cli_command data_commands[] = {
    {"import", "FORMAT FILE... -o OUT", "convert data to charl's format", charl__data_import_main, NULL},
    {"make", "KIND OUT", "create a synthetic dataset", charl__data_make_main, NULL},
    {"info", "FILE", "describe a dataset", charl__data_info_main, NULL},
    {"verify", "FILE", "verify a dataset: checksums and values", charl__data_verify_main, NULL},
    {"rows", "CONFIG --step N", "name the rows that a training step takes", charl__data_rows_main, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const charl__cli_command checkpoint_commands[] = {
    {"show", "FILE", "show training state, configuration, tensors", charl__checkpoint_show_main, NULL},
    {"verify", "FILE...", "verify checkpoints: structure and checksums", charl__checkpoint_verify_main, NULL},
    {"diff", "A B", "compare two checkpoints", charl__checkpoint_diff_main, NULL},
    {"average", "A B... -o FILE", "average the weights of checkpoints", charl__checkpoint_average_main, NULL},
    {"export", "CHECKPOINT -o FILE", "export a model as ONNX or safetensors", charl__checkpoint_export_main, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* All commands. To add one: its function in a file of this folder, its row here. */
static const charl__cli_command commands[] = {
    {"train", "CONFIG [SECTION.KEY=VALUE...]", "train the model of a configuration", train, NULL},
    {"data", "", "", NULL, data_commands},
    {"checkpoint", "", "", NULL, checkpoint_commands},
    {"devices", "", "list OpenCL devices", charl__devices_main, NULL},
    {"selftest", "[--device SEL] [--op NAME]", "test every operator on a device", charl__selftest_main, NULL},
    {"tune", "[CONFIG]", "tune kernels for this device and cache the result", charl__tune_main, NULL},
    {"eval", "CONFIG CHECKPOINT", "evaluate a checkpoint on a dataset split", charl__eval_main, NULL},
    {"predict", "MODEL [DATA...]", "run a trained model on new data", charl__predict_main, NULL},
    {"generate", "CONFIG CHECKPOINT --prompt TEXT", "generate text with a language model", charl__generate_main, NULL},
    {"replay", "RUN --step N", "compute steps of a run again, and look into them", charl__replay_main, NULL},
    {"report", "RUN... [-o FILE]", "write a page with the curves of runs", charl__report_main, NULL},
    {"compare", "RUN... [--seeds]", "print values, times and differences of runs", charl__compare_main, NULL},
    {"version", "", "print the version", version, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static int dispatch(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        return version("charl", argc, argv);
    }
    if (argc == 1) {
        printf("First steps:\n\n"
               "  $ charl devices\n"
               "  $ charl data make digits digits.h5\n"
               "  $ charl train launch/digits.ini data.path=digits.h5\n\n");
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

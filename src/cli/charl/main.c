/* charl: the companion program of charl-train. Creates, inspects and verifies datasets and
 * checkpoints; evaluates trained models. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <charl/dataset.h>
#include <charl/import.h>
#include "cli/charl/commands.h"
#include "cli/cli_describe.h"

static int version(const char *path, int argc, char **argv)
{
    static const charl__cli_syntax syntax = {NULL, "", "Print the version."};
    charl__cli_operands none = {0};
    const int code = charl__cli_parse(path, &syntax, &none, argc, argv, NULL);

    if (code < 0) {
        printf("charl %s\n", charl_version());
        return CHARL__EXIT_OK;
    }
    return code;
}

static const charl__cli_command data_commands[] = {
    {"import", "FORMAT FILE... -o OUT", "convert data to charl's format", charl__data_import_main, NULL,
     charl_importer_name},
    {"make", "KIND OUT", "create a synthetic dataset", charl__data_make_main, NULL, charl_make_kind_name},
    {"info", "FILE", "describe a dataset", charl__data_info_main, NULL},
    {"verify", "FILE", "verify a dataset: checksums and values", charl__data_verify_main, NULL},
    {"sample", "FILE -n N -o OUT", "write some samples of a dataset to a new one", charl__data_sample_main, NULL},
    {"split", "FILE -o OUT...", "divide a dataset into training and validation, or into files", charl__data_split_main,
     NULL},
    {"merge", "FILE... -o OUT", "write the samples of several datasets to one", charl__data_merge_main, NULL},
    {"rows", "CONFIG --step N", "name the rows that a training step takes", charl__data_rows_main, NULL},
    {"preview", "CONFIG [-o FILE.png]", "show samples as training gets them, augmented", charl__data_preview_main,
     NULL},
    {NULL},
};

static const charl__cli_command checkpoint_commands[] = {
    {"show", "FILE", "show training state, configuration, tensors", charl__checkpoint_show_main, NULL},
    {"verify", "FILE...", "verify checkpoints: structure and checksums", charl__checkpoint_verify_main, NULL},
    {"diff", "A B", "compare two checkpoints", charl__checkpoint_diff_main, NULL},
    {"at", "RUN --step N -o FILE", "write the checkpoint of any step of a run", charl__checkpoint_at_main, NULL},
    {"average", "A B... -o FILE", "average the weights of checkpoints, or of steps of a run",
     charl__checkpoint_average_main, NULL},
    {"pack", "CHECKPOINT -o FILE", "make one file of a checkpoint in parts", charl__checkpoint_pack_main, NULL},
    {"export", "CHECKPOINT -o FILE", "export a model as ONNX or safetensors", charl__checkpoint_export_main, NULL},
    {NULL},
};

static const charl__cli_command model_commands[] = {
    {"show", "CONFIG", "list layers with shapes, parameters and costs, or draw them", charl__model_show_main, NULL},
    {"memory", "CONFIG", "show the device memory that training takes, by tensor", charl__model_memory_main, NULL},
    {NULL},
};

static const charl__cli_command trace_commands[] = {
    {"merge", "FILE... [-o FILE]", "merge time lines of runs into one", charl__trace_merge_main, NULL},
    {NULL},
};

/* All commands. To add one: its function in a file of this folder, its row here. */
static const charl__cli_command commands[] = {
    {"init", "DATA", "import data, and write a configuration that trains on it", charl__init_main, NULL},
    {"train", "CONFIG [SECTION.KEY=VALUE...]", "train the model of a configuration", NULL, NULL, NULL, "charl-train"},
    {"launch", "[OPTION...] CONFIG [ARGUMENT...]", "train on several ranks, restarting after a failure",
     charl__launch_main, NULL, NULL, "charl-train"},
    {"data", "", "import, make and check datasets", NULL, data_commands},
    {"model", "", "inspect the model of a configuration", NULL, model_commands},
    {"checkpoint", "", "inspect, compare and export checkpoints", NULL, checkpoint_commands},
    {"devices", "", "list OpenCL devices", charl__devices_main, NULL},
    {"doctor", "", "find problems with this machine, and say how to fix them", charl__doctor_main, NULL},
    {"selftest", "[--device SEL] [--op NAME]", "test every operator on a device", charl__selftest_main, NULL},
    {"tune", "[CONFIG]", "tune kernels for this device, or find a learning rate", charl__tune_main, NULL},
    {"eval", "CHECKPOINT", "evaluate a checkpoint on a dataset split", charl__eval_main, NULL},
    {"predict", "MODEL [DATA...]", "run a trained model on new data", charl__predict_main, NULL},
    {"generate", "CHECKPOINT --prompt TEXT", "generate text with a language model", charl__generate_main, NULL},
    {"sample", "CHECKPOINT -o FILE", "draw samples with a diffusion model", charl__sample_main, NULL},
    {"replay", "RUN --step N", "recompute steps of a run, and inspect them", charl__replay_main, NULL},
    {"bisect", "RUN1 RUN2", "find the first step in which two runs differ", charl__bisect_main, NULL},
    {"verify", "RUN|PROOF [--segments K]", "compare a run with its run.lock, and replay parts of it",
     charl__verify_main, NULL},
    {"prove", "RUN -o FILE", "write what others need to replay parts of a run", charl__prove_main, NULL},
    {"golden", "CONFIG [--check FILE]", "print or check the hash of a training, without a GPU", charl__golden_main,
     NULL},
    {"forget", "RUN --rows LIST -o RUN2", "train a run again without the effect of some rows", charl__forget_main,
     NULL},
    {"influence", "RUN --rows LIST", "measure what some training rows did to a run", charl__influence_main, NULL},
    {"plan", "CONFIG [--nodes NxD]", "plan memory, time, energy and cost on a cluster", charl__plan_main, NULL},
    {"sweep", "CONFIG|FILE SECTION.KEY=VALUES...", "run a configuration with several values of keys", charl__sweep_main,
     NULL},
    {"report", "RUN... [-o FILE]", "write a page with the curves of runs", charl__report_main, NULL},
    {"runs", "[DIR...]", "list run directories with their states and sizes", charl__runs_main, NULL},
    {"compare", "RUN... [--seeds]", "print values, times and differences of runs", charl__compare_main, NULL},
    {"trace", "", "merge time lines of training steps", NULL, trace_commands},
    {"completion", "SHELL", "print the completion function of a shell", charl__completion_main, NULL,
     charl__completion_shell},
    {"version", "", "print the version", version, NULL},
    {NULL},
};

static const char *const examples[][2] = {
    {"List the devices of this machine:", "charl devices"},
    {"Import a table, with a fifth of its rows for validation:",
     "charl data import csv flowers.csv --label species --val-split 0.2 -o flowers.h5"},
    {"Predict new rows with a trained model:", "charl predict runs/flowers/best.h5 new.csv -o answers.csv"},
    {"Export a model:", "charl checkpoint export runs/photos/best.h5 -o photos.onnx"},
    {NULL, NULL},
};

static const charl__cli_self self = {
    .name = "charl",
    .summary = "data, devices, checkpoints and predictions of charl",
    .description =
        "charl prepares data sets, inspects and exports checkpoints, evaluates and runs trained models, and tests and "
        "tunes devices. charl-train, or `charl train`, trains.",
    .examples = examples,
    .see_also = "charl-bench 1, charl-train 1, charl-config 5",
    .commands = commands,
};

/* Path of the example: as installed, else in a checkout. */
static const char *example_config(char path[4096])
{
    static const char bin[] = "/bin/", installed[] = "/share/charl/launch/digits.ini";
    const size_t length = strlen(charl__cli_beside("", path)), end = sizeof bin - 1;

    if (length > end && strcmp(path + length - end, bin) == 0 && length - end + sizeof installed <= 4096) {
        strcpy(path + length - end, installed);
        if (access(path, R_OK) == 0) {
            return path;
        }
    }
    return "launch/digits.ini";
}

static int dispatch(int argc, char **argv)
{
    char path[4096];
    int code;

    if (charl__cli_describe(&self, argc, argv, &code)) {
        return code;
    }
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        return version("charl", argc - 1, argv + 1);
    }
    if (argc == 1) {
        printf("First steps:\n\n"
               "  $ charl doctor\n"
               "  $ charl data make digits digits.h5\n"
               "  $ charl train %s data.path=digits.h5 -o runs/digits\n\n",
               example_config(path));
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

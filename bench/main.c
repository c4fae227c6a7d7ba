/* charl-bench: measures charl on this machine, beside other libraries and the measured peak of the
 * device. */
#include <stdio.h>
#include <string.h>

#include "bench/kernel.h"
#include "cli/cli_describe.h"

#define KERNEL_BENCH(name)                                                                                             \
    static int name##_main(const char *path, int argc, char **argv)                                                    \
    {                                                                                                                  \
        return charl__bench_kernel_main(&charl__bench_##name, path, argc, argv);                                       \
    }
KERNEL_BENCH(gemm)
KERNEL_BENCH(copy)
KERNEL_BENCH(launch)
KERNEL_BENCH(linear)
KERNEL_BENCH(conv)
KERNEL_BENCH(attention)
KERNEL_BENCH(layer_norm)
KERNEL_BENCH(cross_entropy)
KERNEL_BENCH(embedding)
KERNEL_BENCH(optimizer)

static const charl__cli_command commands[] = {
    {"allreduce", "", "all-reduce over ranks: all algorithms, MPI and NCCL (under mpirun)", charl__bench_allreduce_main,
     NULL},
    {"scaling", "CONFIG", "predict the time of a training step on more ranks", charl__bench_scaling_main, NULL},
    {"step", "CONFIG", "a training step as configured", charl__bench_step_main, NULL},
    {"overlap", "CONFIG", "what reading ahead and all-reduce during the backward pass gain", charl__bench_overlap_main,
     NULL},
    {"break-even", "", "the size from which on a GPU is faster than the CPU", charl__bench_break_even_main, NULL},
    {"data", "CONFIG", "reading training samples: rows and GB per second", charl__bench_data_main, NULL},
    {"gemm", "", "matrix products; baselines OpenBLAS (CPU) and CLBlast", gemm_main, NULL},
    {"linear", "", "linear layers and their gradients", linear_main, NULL},
    {"conv", "", "convolutions and their gradients", conv_main, NULL},
    {"attention", "", "causal attention and its gradient", attention_main, NULL},
    {"layernorm", "", "layer norm and its gradients", layer_norm_main, NULL},
    {"cross-entropy", "", "the loss of a classifier and its gradient", cross_entropy_main, NULL},
    {"embedding", "", "embedding lookup and the gradient of the table", embedding_main, NULL},
    {"optimizer", "", "the update of all parameters", optimizer_main, NULL},
    {"copy", "", "copies within the device and between host and device", copy_main, NULL},
    {"launch", "", "the time that the host takes to launch a kernel", launch_main, NULL},
    {NULL},
};

static const char *const examples[][2] = {
    {"Matrix products of the device, compared with its measured peak:", "charl-bench gemm"},
    {"A training step of a configuration:", "charl-bench step launch/mnist-cnn.ini"},
    {"All-reduce algorithms between four ranks:", "mpirun -n 4 charl-bench allreduce"},
    {NULL, NULL},
};

static const charl__cli_self self = {
    .name = "charl-bench",
    .summary = "benchmarks of charl on this machine",
    .description = "charl-bench compares kernels, training steps and all-reduce with the measured peak of the device "
                   "and, where they are "
                   "installed, other libraries.",
    .examples = examples,
    .see_also = "charl 1, charl-train 1, charl-config 5",
    .commands = commands,
};

int main(int argc, char **argv)
{
    int code = charl__cli_begin("charl-bench");

    if (code == CHARL__EXIT_OK && charl__cli_describe(&self, argc, argv, &code)) {
        return charl__cli_end(code);
    }
    if (code == CHARL__EXIT_OK && argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        printf("charl-bench %s\n", charl_version());
    } else if (code == CHARL__EXIT_OK) {
        code = charl__cli_dispatch("charl-bench", commands, argc, argv);
    }
    return charl__cli_end(code);
}

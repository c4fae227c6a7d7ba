/* charl-bench: measures charl on this machine, beside other libraries and the measured peak of the
 * device. */
#include <stdio.h>
#include <string.h>

#include "bench/kernel.h"

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
    {NULL, NULL, NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    int code = charl__cli_begin("charl-bench");

    if (code == CHARL__EXIT_OK && argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        printf("charl-bench %s\n", charl_version());
    } else if (code == CHARL__EXIT_OK) {
        code = charl__cli_dispatch("charl-bench", commands, argc, argv);
    }
    return charl__cli_end(code);
}

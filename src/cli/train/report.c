/* Versions, environment, devices. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <charl/comm.h>
#include <charl/device.h>
#include <charl/layer.h>
#include <charl/optim.h>
#include <charl/dataset.h>
#include <charl/image.h>
#include <charl/tensor_file.h>
#include <charl/tokenizer.h>
#include "cli/train/train.h"
#include "cli/cli.h"
#include <charl/export.h>
#include <charl/import.h>

enum { MAX_DEVICES = 64 };

static void print_names(const char *title, const char *(*name_at)(int i))
{
    const char *name;

    printf("  %s:", title);
    for (int i = 0; (name = name_at(i)) != NULL; i++) {
        printf(" %s", name);
    }
    putchar('\n');
}

/* The choices of a key. */
static void print_choices(const char *title, const char *section, const char *key)
{
    const char *name;

    printf("  %s:", title);
    for (int i = 0; strcmp(name = charl_config_choice_name(section, key, i), "?") != 0; i++) {
        printf(" %s", name);
    }
    putchar('\n');
}

static const char *exporter_name(int i)
{
    return charl_export_format(i, NULL);
}

void charl__train_print_version(void)
{
    printf("charl-train %s\n  C11, OpenCL 1.2, %s, HDF5 %s\n", charl_version(), charl_comm_mpi_version(),
           charl_dataset_hdf5_version());
    print_names("models", charl_model_type_name);
    print_names("layers", charl_layer_type_name);
    print_names("losses", charl_loss_name);
    print_names("metrics", charl_metric_name);
    print_choices("precisions", "train", "precision");
    print_names("optimizers", charl_optimizer_name);
    print_names("schedulers", charl_schedule_name);
    print_names("all-reduces", charl_allreduce_algorithm_name);
    print_names("importers", charl_importer_name);
    print_names("tokenizers", charl_tokenizer_type_name);
    print_names("exporters", exporter_name);
    print_names("images", charl_image_format_name);
    printf("  safetensors: read and written, onnx and gguf: written\n");
}

int charl__train_print_devices(void)
{
    charl_device_info d[MAX_DEVICES];
    int n = 0;
    const charl_status st = charl_device_list(d, MAX_DEVICES, &n);

    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    for (int i = 0; i < n && i < MAX_DEVICES; i++) {
        printf("%d  %-14s %s\n     platform %s, driver %s%s%s\n     %d compute units, %.1f GiB\n", d[i].index,
               charl_device_kind_name(d[i].kind), d[i].name, d[i].platform, d[i].driver, d[i].pci[0] ? ", pci " : "",
               d[i].pci, d[i].compute_units, (double)d[i].global_bytes / 1073741824.0);
    }
    return 0;
}

static int print_env_json(void)
{
    char *text = NULL;
    const charl_status st = charl_environment_json(&text);

    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    fputs(text, stdout);
    charl_free(text);
    return 0;
}

int charl__train_print_env(bool json)
{
    if (json) {
        return print_env_json();
    }
    charl__train_print_version();
    printf("  processors %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    return charl__train_print_devices();
}

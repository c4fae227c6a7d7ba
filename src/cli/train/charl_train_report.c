/* Versions, environment, devices. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/env.h"
#include "base/error.h"
#include "charl/comm.h"
#include "charl/device.h"
#include "charl/layer.h"
#include "charl/optim.h"
#include "charl/dataset.h"
#include "charl/image.h"
#include "charl/safetensors.h"
#include "charl/tokenizer.h"
#include "cli/train/charl_train.h"
#include "cli/cli.h"

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

/* The values of a key that holds a choice. */
static void print_choices(const char *title, const char *section, const char *key)
{
    const char *name;

    printf("  %s:", title);
    for (int i = 0; strcmp(name = charl_config_choice_name(section, key, i), "?") != 0; i++) {
        printf(" %s", name);
    }
    putchar('\n');
}

static const char *tokenizer_name(int i)
{
    return i < CHARL_TOKENIZER_KIND_COUNT ? charl_tokenizer_kind_name((charl_tokenizer_kind)i) : NULL;
}

void charl__train_print_version(void)
{
    printf("charl-train %s\n  C11, OpenCL 1.2, %s, HDF5 %s\n", charl_version(), charl_comm_mpi_version(),
           charl_dataset_hdf5_version());
    print_names("models", charl_model_type_name);
    print_names("layers", charl_layer_type_name);
    print_choices("losses", "train", "loss");
    print_choices("precisions", "train", "precision");
    print_names("optimizers", charl_optimizer_name);
    print_names("schedulers", charl_schedule_name);
    print_names("all-reduces", charl_allreduce_algorithm_name);
    print_names("tokenizers", tokenizer_name);
    print_choices("exports", "checkpoint", "export");
    print_names("images", charl_image_format_name);
    printf("  safetensors: %s, onnx: written\n",
           charl_safetensors_can_read() ? "read and written" : "written (no libjansson)");
}

static const char *kind_name(charl_device_kind kind)
{
    static const char *const names[] = {"cpu", "accelerator", "integrated gpu", "gpu"};

    return (unsigned)kind < CHARL_DEVICE_KIND_COUNT ? names[kind] : "?";
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
               kind_name(d[i].kind), d[i].name, d[i].platform, d[i].driver, d[i].pci[0] ? ", pci " : "", d[i].pci,
               d[i].compute_units, (double)d[i].global_bytes / 1073741824.0);
    }
    return 0;
}

static charl_status device_json(charl__text *t, const charl_device_info *d)
{
    CHARL_TRY(charl__text_printf(t, "{\"index\":%d,\"kind\":\"%s\",\"name\":", d->index, kind_name(d->kind)));
    CHARL_TRY(charl__text_json(t, d->name));
    CHARL_TRY(charl__text_printf(t, ",\"platform\":"));
    CHARL_TRY(charl__text_json(t, d->platform));
    CHARL_TRY(charl__text_printf(t, ",\"driver\":"));
    CHARL_TRY(charl__text_json(t, d->driver));
    CHARL_TRY(charl__text_printf(t, ",\"pci\":"));
    CHARL_TRY(charl__text_json(t, d->pci));
    CHARL_TRY(charl__text_printf(t, ",\"compute_units\":%d,\"bytes\":%" PRId64 "}", d->compute_units, d->global_bytes));
    return CHARL_OK;
}

/* "model name : AMD EPYC ..." of /proc/cpuinfo; "" where there is none. */
static void cpu_model(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];

    out[0] = '\0';
    while (f && !out[0] && fgets(line, sizeof line, f)) {
        const char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;

        if (colon) {
            snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " "));
            out[strcspn(out, "\n")] = '\0';
        }
    }
    if (f) {
        fclose(f);
    }
}

static charl_status machine_json(charl__text *t)
{
    struct utsname u = {0};
    char cpu[256];

    uname(&u);
    cpu_model(cpu, sizeof cpu);
    CHARL_TRY(charl__text_printf(t, "{\"charl\":\"%s\",\"compiler\":", charl_version()));
    CHARL_TRY(charl__text_json(t, __VERSION__));
    CHARL_TRY(charl__text_printf(t, ",\"host\":"));
    CHARL_TRY(charl__text_json(t, u.nodename));
    CHARL_TRY(charl__text_printf(t, ",\"os\":"));
    CHARL_TRY(charl__text_json(t, u.sysname));
    CHARL_TRY(charl__text_printf(t, ",\"kernel\":"));
    CHARL_TRY(charl__text_json(t, u.release));
    CHARL_TRY(charl__text_printf(t, ",\"cpu\":"));
    CHARL_TRY(charl__text_json(t, cpu));
    CHARL_TRY(charl__text_printf(t, ",\"processors\":%ld,\"memory_bytes\":%lld,\"environment\":{",
                                 sysconf(_SC_NPROCESSORS_ONLN),
                                 (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)));
    return CHARL_OK;
}

/* Variables that change what a run does: all of charl, and some of what it runs on. */
static charl_status variables_json(charl__text *t)
{
    static const char *const others[] = {
        "SLURM_JOB_ID",           "SLURM_NTASKS",          "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
        "POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT", "CUDA_VISIBLE_DEVICES",
    };
    const int n_others = (int)(sizeof others / sizeof *others);
    const char *comma = "";

    for (int i = 0; i < CHARL_ENV_COUNT + n_others; i++) {
        const char *name = i < CHARL_ENV_COUNT ? charl__env_name((charl__env_id)i) : others[i - CHARL_ENV_COUNT];
        const char *value = getenv(name);

        if (value) {
            CHARL_TRY(charl__text_printf(t, "%s\"%s\":", comma, name));
            CHARL_TRY(charl__text_json(t, value));
            comma = ",";
        }
    }
    CHARL_TRY(charl__text_printf(t, "},\"devices\":["));
    return CHARL_OK;
}

charl_status charl__train_env_json(charl__text *t)
{
    charl_device_info d[MAX_DEVICES];
    int n = 0;

    /* A machine without devices still has an environment. */
    if (charl_device_list(d, MAX_DEVICES, &n) != CHARL_OK) {
        n = 0;
    }
    CHARL_TRY(machine_json(t));
    CHARL_TRY(variables_json(t));
    for (int i = 0; i < n && i < MAX_DEVICES; i++) {
        CHARL_TRY(charl__text_printf(t, "%s", i > 0 ? "," : ""));
        CHARL_TRY(device_json(t, &d[i]));
    }
    CHARL_TRY(charl__text_printf(t, "]}\n"));
    return CHARL_OK;
}

static int print_env_json(void)
{
    charl__text t = {0};
    const charl_status st = charl__train_env_json(&t);
    const int code = st == CHARL_OK ? 0 : charl__cli_fail(st);

    if (code == 0) {
        fputs(charl__text_string(&t), stdout);
    }
    charl__text_fini(&t);
    return code;
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

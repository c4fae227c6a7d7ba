/* JSON about the machine. The environment of a run: env.json of a run directory, and `charl-train --env=json`. An open device: a report of
 * `charl selftest`. */
#include "charl/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/env.h"
#include "base/error.h"
#include "base/text/text.h"
#include "device/device_private.h"

enum { MAX_DEVICES = 64 };

/* Without the closing brace. */
static charl_status device_json(charl__text *t, const charl_device_info *d)
{
    CHARL_TRY(
        charl__text_printf(t, "{\"index\":%d,\"kind\":\"%s\",\"name\":", d->index, charl_device_kind_name(d->kind)));
    CHARL_TRY(charl__text_json(t, d->name));
    CHARL_TRY(charl__text_printf(t, ",\"platform\":"));
    CHARL_TRY(charl__text_json(t, d->platform));
    CHARL_TRY(charl__text_printf(t, ",\"driver\":"));
    CHARL_TRY(charl__text_json(t, d->driver));
    CHARL_TRY(charl__text_printf(t, ",\"pci\":"));
    CHARL_TRY(charl__text_json(t, d->pci));
    CHARL_TRY(charl__text_printf(t, ",\"compute_units\":%d,\"bytes\":%" PRId64, d->compute_units, d->global_bytes));
    return CHARL_OK;
}

/* "model name : AMD EPYC ..." of /proc/cpuinfo; "" if there is none. */
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

/* Variables that affect a run: all of charl's, and some of its dependencies'. */
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

static charl_status environment_json(charl__text *t)
{
    charl_device_info d[MAX_DEVICES];
    int n = 0;

    /* A machine without devices has an environment too. */
    if (charl_device_list(d, MAX_DEVICES, &n) != CHARL_OK) {
        n = 0;
    }
    CHARL_TRY(machine_json(t));
    CHARL_TRY(variables_json(t));
    for (int i = 0; i < n && i < MAX_DEVICES; i++) {
        CHARL_TRY(charl__text_printf(t, "%s", i > 0 ? "," : ""));
        CHARL_TRY(device_json(t, &d[i]));
        CHARL_TRY(charl__text_printf(t, "}"));
    }
    CHARL_TRY(charl__text_printf(t, "]}\n"));
    return CHARL_OK;
}

charl_status charl_environment_json(char **out)
{
    CHARL_GIVEN(out);
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    *out = NULL;
    CHARL_TRY(environment_json(&t));
    *out = charl__text_steal(&t);
    return CHARL_OK;
}

static const char *word(bool yes)
{
    return yes ? "true" : "false";
}

/* What the driver reports, and what charl has found and chooses its kernels by. */
static charl_status open_device_json(charl__text *t, const charl_device *dev)
{
    const charl_device_info *d = &dev->info;
    const charl__found *f = &dev->found;
    const charl__device_facts *is = &dev->facts;

    CHARL_TRY(device_json(t, d));
    CHARL_TRY(charl__text_printf(t, ",\"vendor\":"));
    CHARL_TRY(charl__text_json(t, d->vendor));
    CHARL_TRY(charl__text_printf(t, ",\"version\":"));
    CHARL_TRY(charl__text_json(t, d->version));
    CHARL_TRY(charl__text_printf(t, ",\"platform_version\":"));
    CHARL_TRY(charl__text_json(t, f->platform_version));
    CHARL_TRY(charl__text_printf(
        t,
        ",\"backend\":\"%s\",\"largest_buffer_bytes\":%" PRId64 ",\"local_bytes\":%" PRId64
        ",\"has_local_memory\":%s,\"largest_group\":%d,\"lockstep\":%d,\"vector_width\":%d,\"unified_memory\":%s",
        d->backend, d->max_alloc_bytes, d->local_bytes, word(f->has_local), d->max_group, f->lockstep, f->vector_width,
        word(f->unified)));
    CHARL_TRY(charl__text_printf(
        t, ",\"reports\":{\"half\":%s,\"denormals\":%s,\"rounded_divide\":%s,\"fma\":%s,\"compute_capability\":%d}",
        word(f->has_half), word(f->has_denormals), word(f->rounds_divide), word(f->has_fma), f->capability));
    return charl__text_printf(
        t,
        ",\"found\":{\"half\":%s,\"shared_buffers\":%s,\"group\":%d,\"ptx\":%s,\"mma\":%s,\"wgmma\":%s,\"amx\":%s}}\n",
        word(is->fp16), word(is->zero_copy), is->group, word(is->nvidia.ptx), word(is->nvidia.mma),
        word(is->nvidia.wgmma), word(is->x86.amx));
}

charl_status charl_device_json(const charl_device *dev, char **out)
{
    CHARL_GIVEN(dev && out);
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    *out = NULL;
    CHARL_TRY(open_device_json(&t, dev));
    *out = charl__text_steal(&t);
    return CHARL_OK;
}

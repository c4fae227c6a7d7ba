/* charl devices: the OpenCL devices, in charl's order. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <charl/device.h>
#include "cli/charl/commands.h"

enum { MAX_LISTED = 64 };

static void print_device(const charl_device_info *d)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;

    printf("%d  %s, %s\n", d->index, d->name, charl_device_kind_name(d->kind));
    printf("   platform  %s\n", d->platform);
    printf("   driver    %s: %s, %s\n", d->backend, d->driver, d->version);
    printf("   pci       %s\n", d->pci[0] ? d->pci : "-");
    printf("   units     %d compute units, work-groups of up to %d, %lld KiB local memory\n", d->compute_units,
           d->max_group, (long long)(d->local_bytes / 1024));
    printf("   memory    %.1f GiB, up to %.1f GiB in one buffer\n", (double)d->global_bytes / gib,
           (double)d->max_alloc_bytes / gib);
}

/* Containers often have NVIDIA's library without the file that registers it with OpenCL. */
bool charl__nvidia_is_hidden(const charl_device_info *devices, int count)
{
    void *library;

    for (int i = 0; i < count; i++) {
        if (strstr(devices[i].platform, "NVIDIA")) {
            return false;
        }
    }
    library = dlopen("libnvidia-opencl.so.1", RTLD_LAZY);
    if (library) {
        dlclose(library);
    }
    return library != NULL;
}

int charl__devices_main(const char *path, int argc, char **argv)
{
    static const charl__cli_syntax syntax = {
        NULL, "", "List the OpenCL devices with the indices that device.select and --device accept."};
    charl__cli_operands none = {0};
    charl_device_info devices[MAX_LISTED];
    charl_status st;
    int count = 0, code = charl__cli_parse(path, &syntax, &none, argc, argv, NULL);

    if (code >= 0) {
        return code;
    }
    st = charl_device_list(devices, MAX_LISTED, &count);
    if (st != CHARL_OK) {
        count = 0;
        code = charl__cli_fail(st);
    } else {
        code = CHARL__EXIT_OK;
    }
    for (int i = 0; i < count && i < MAX_LISTED; i++) {
        print_device(&devices[i]);
    }
    if (charl__nvidia_is_hidden(devices, count)) {
        fflush(stdout);
        fprintf(stderr, "  hint: NVIDIA's OpenCL library is installed but not registered: echo "
                        "libnvidia-opencl.so.1 > /etc/OpenCL/vendors/nvidia.icd\n");
    }
    return code;
}

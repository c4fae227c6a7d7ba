/* Which device a rank gets: pure, over a list of descriptions.
 *
 *   auto           the best kind there is: GPUs, else integrated GPUs, accelerators, CPUs
 *   gpu | cpu      GPUs of either kind, discrete first; CPUs
 *   INDEX          charl's number
 *   pci:ADDRESS    0000:3b:00.0, or 3b:00.0 in domain 0
 *   name:TEXT      part of the name, upper and lower case alike; platform:TEXT likewise
 *
 * Local rank r takes the r-th of the matching devices. A GPU that two platforms offer counts once.
 * CPUs are shared. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "device/cl_private.h"

typedef enum { BY_AUTO, BY_GPU, BY_CPU, BY_INDEX, BY_PCI, BY_NAME, BY_PLATFORM } rule_kind;

typedef struct rule {
    rule_kind kind;
    long index;
    const char *text; /* of name: and platform: */
    char pci[16];
} rule;

static bool parse_pci(const char *text, char *out, size_t bytes)
{
    unsigned at[4] = {0};
    int end = -1;

    if (sscanf(text, "%4x:%2x:%2x.%1x%n", &at[0], &at[1], &at[2], &at[3], &end) != 4 ||
        end != (int)strlen(text)) {
        at[0] = 0;
        end = -1;
        if (sscanf(text, "%2x:%2x.%1x%n", &at[1], &at[2], &at[3], &end) != 3 ||
            end != (int)strlen(text)) {
            return false;
        }
    }
    snprintf(out, bytes, "%04x:%02x:%02x.%x", at[0], at[1], at[2], at[3]);
    return true;
}

static charl_status parse(const char *select, rule *out)
{
    charl_status st = CHARL_OK;
    char *end = NULL;

    *out = (rule){.kind = BY_AUTO};
    if (strcmp(select, "auto") == 0) {
        out->kind = BY_AUTO;
    } else if (strcmp(select, "gpu") == 0) {
        out->kind = BY_GPU;
    } else if (strcmp(select, "cpu") == 0) {
        out->kind = BY_CPU;
    } else if (strncmp(select, "pci:", 4) == 0) {
        out->kind = BY_PCI;
        CHARL_REQUIRE(parse_pci(select + 4, out->pci, sizeof out->pci), CHARL_ERR_CONFIG,
                      "device.select = %s: a PCI address looks like pci:0000:3b:00.0", select);
    } else if (strncmp(select, "name:", 5) == 0 && select[5]) {
        out->kind = BY_NAME;
        out->text = select + 5;
    } else if (strncmp(select, "platform:", 9) == 0 && select[9]) {
        out->kind = BY_PLATFORM;
        out->text = select + 9;
    } else {
        out->kind = BY_INDEX;
        out->index = strtol(select, &end, 10);
        CHARL_REQUIRE(isdigit((unsigned char)select[0]) && *end == '\0', CHARL_ERR_CONFIG,
                      "device.select = %s is not understood: use auto, gpu, cpu, a number, "
                      "pci:0000:3b:00.0, name:TEXT or platform:TEXT",
                      select);
    }
cleanup:
    return st;
}

static bool contains(const char *text, const char *part)
{
    const size_t n = strlen(part);

    for (; strlen(text) >= n; text++) {
        if (strncasecmp(text, part, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_gpu(const charl_device_info *d)
{
    return d->kind == CHARL_DEVICE_GPU || d->kind == CHARL_DEVICE_INTEGRATED_GPU;
}

static bool matches(const charl_device_info *d, const rule *r)
{
    switch (r->kind) {
    case BY_AUTO:
        return true;
    case BY_GPU:
        return is_gpu(d);
    case BY_CPU:
        return d->kind == CHARL_DEVICE_CPU;
    case BY_INDEX:
        return r->index == d->index;
    case BY_PCI:
        return strcasecmp(r->pci, d->pci) == 0;
    case BY_NAME:
        return contains(d->name, r->text);
    case BY_PLATFORM:
        return contains(d->platform, r->text);
    }
    return false;
}

/* The matching devices a rank may be given, best kind first, each piece of hardware once. */
static int collect(const charl_device_info *info, int count, const rule *r, int *out)
{
    int n = 0;

    for (int i = 0; i < count && n < CHARL__MAX_DEVICES; i++) {
        bool again = false;

        for (int k = 0; k < n; k++) {
            again = again || (info[i].pci[0] && strcmp(info[i].pci, info[out[k]].pci) == 0);
        }
        if (matches(&info[i], r) && !again &&
            (n == 0 || info[i].kind == info[out[0]].kind || r->kind == BY_GPU)) {
            out[n++] = i;
        }
    }
    return n;
}

charl_status charl__device_select(const charl_device_info *info, int count,
                                  const charl_device_request *request, charl__pick *out)
{
    charl_status st = CHARL_OK;
    const char *select = request->select && request->select[0] ? request->select : "auto";
    const int size = request->local_size > 0 ? request->local_size : 1;
    const int rank = request->local_rank;
    int candidate[CHARL__MAX_DEVICES];
    int n = 0;
    rule r;

    *out = (charl__pick){0, 1};
    CHARL_REQUIRE(rank >= 0 && rank < size, CHARL_ERR_INVALID, "local rank %d of %d", rank, size);
    CHARL_TRY(parse(select, &r));
    n = collect(info, count, &r, candidate);
    CHARL_REQUIRE(
        n > 0, CHARL_ERR_DEVICE,
        "device.select = %s matches none of the %d OpenCL devices of this node (charl devices "
        "lists them)",
        select, count);
    if (info[candidate[0]].kind == CHARL_DEVICE_CPU) {
        *out = (charl__pick){candidate[0], size};
        goto cleanup;
    }
    CHARL_REQUIRE(
        size <= n || request->share, CHARL_ERR_DEVICE,
        "%d ranks on this node for %d device%s (device.select = %s). Start one rank per device, "
        "or set device.share = yes",
        size, n, n == 1 ? "" : "s", select);
    *out = (charl__pick){candidate[rank % n], (size - rank % n + n - 1) / n};
cleanup:
    return st;
}

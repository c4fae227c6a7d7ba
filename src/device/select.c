/* Selects the device of a rank: pure, over a list of descriptions.
 *
 *   auto           the best kind available: GPUs, else integrated GPUs, accelerators, CPUs
 *   gpu | cpu      GPUs of either kind, discrete first; CPUs
 *   INDEX          charl's number
 *   pci:ADDRESS    0000:3b:00.0, or 3b:00.0 in domain 0
 *   name:TEXT      part of the name, ignoring case; platform:TEXT likewise
 *
 * Local rank r gets the r-th of the matching devices. A GPU that two platforms offer counts once.
 * CPUs are shared.
 *
 * Or a list, "gpu, gpu, cpu": its r-th rule is for local rank r, the last one also for all further
 * ranks; ranks with equal rules get the matching devices in turn. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "device/device_private.h"

enum { RULE_BYTES = 128 };

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

    if (sscanf(text, "%4x:%2x:%2x.%1x%n", &at[0], &at[1], &at[2], &at[3], &end) != 4 || end != (int)strlen(text)) {
        at[0] = 0;
        end = -1;
        if (sscanf(text, "%2x:%2x.%1x%n", &at[1], &at[2], &at[3], &end) != 3 || end != (int)strlen(text)) {
            return false;
        }
    }
    snprintf(out, bytes, "%04x:%02x:%02x.%x", at[0], at[1], at[2], at[3]);
    return true;
}

static charl_status parse(const char *select, rule *out)
{
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
                      "device \"%s\": a PCI address has the form pci:0000:3b:00.0", select);
    } else if (strncmp(select, "name:", 5) == 0 && select[5]) {
        out->kind = BY_NAME;
        out->text = select + 5;
    } else if (strncmp(select, "platform:", 9) == 0 && select[9]) {
        out->kind = BY_PLATFORM;
        out->text = select + 9;
    } else {
        out->kind = BY_INDEX;
        out->index = strtol(select, &end, 10);
        CHARL_REQUIRE(
            isdigit((unsigned char)select[0]) && *end == '\0', CHARL_ERR_CONFIG,
            "device \"%s\" is not understood: it can be auto, gpu, cpu, a number, pci:0000:3b:00.0, name:TEXT or "
            "platform:TEXT",
            select);
    }
    return CHARL_OK;
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

/* The matching devices available to a rank, best kind first, each piece of hardware once. */
static int collect(const charl_device_info *info, int count, const rule *r, int *out)
{
    int n = 0;

    for (int i = 0; i < count && n < CHARL__MAX_DEVICES; i++) {
        bool again = false;

        for (int k = 0; k < n; k++) {
            again = again || (info[i].pci[0] && strcmp(info[i].pci, info[out[k]].pci) == 0);
        }
        if (matches(&info[i], r) && !again && (n == 0 || info[i].kind == info[out[0]].kind || r->kind == BY_GPU)) {
            out[n++] = i;
        }
    }
    return n;
}

/* Skips the comma or line break at p and the blanks around it. */
static const char *behind_separator(const char *p)
{
    p += strspn(p, " \t\n");
    p += *p == ',';
    return p + strspn(p, " \t\n");
}

/* Rule `i` of a list, or its last one. */
static void rule_of(const char *list, int i, char *out, size_t bytes)
{
    size_t n = strcspn(list, ",\n");

    for (; i > 0 && list[n]; i--) {
        list = behind_separator(list + n);
        n = strcspn(list, ",\n");
    }
    while (list[n] && n > 0 && (list[n - 1] == ' ' || list[n - 1] == '\t')) {
        n--;
    }
    snprintf(out, bytes, "%.*s", (int)n, list);
}

/* The index of local rank r among the ranks with the rule `text`, and their number. */
static void count_rule(const char *list, const char *text, int r, int size, int *place, int *sum)
{
    char other[RULE_BYTES];

    *place = *sum = 0;
    for (int q = 0; q < size; q++) {
        rule_of(list, q, other, sizeof other);
        *place += q < r && strcmp(other, text) == 0;
        *sum += strcmp(other, text) == 0;
    }
}

/* The device of local rank r. */
static charl_status pick(const charl_device_info *info, int count, const charl_device_request *request, int r, int size,
                         int *out)
{
    const char *list = request->select && request->select[0] ? request->select : "auto";
    int candidate[CHARL__MAX_DEVICES];
    char text[RULE_BYTES];
    int n, place, ranks;
    rule wanted;

    rule_of(list, r, text, sizeof text);
    count_rule(list, text, r, size, &place, &ranks);
    CHARL_TRY(parse(text, &wanted));
    n = collect(info, count, &wanted, candidate);
    CHARL_REQUIRE(n > 0, CHARL_ERR_DEVICE,
                  "device \"%s\" matches none of the %d OpenCL devices of this node; HINT `charl devices` lists them",
                  text, count);
    if (info[candidate[0]].kind == CHARL_DEVICE_CPU) {
        *out = candidate[0];
        return CHARL_OK;
    }
    CHARL_REQUIRE(
        ranks <= n || request->share, CHARL_ERR_DEVICE,
        "%d ranks on this node for %d device%s (device \"%s\"); HINT start one rank for each device, or let ranks "
        "share it with the option share",
        ranks, n, n == 1 ? "" : "s", text);
    *out = candidate[place % n];
    return CHARL_OK;
}

static bool is_same(const charl_device_info *a, const charl_device_info *b)
{
    return a->index == b->index || (a->pci[0] && strcmp(a->pci, b->pci) == 0) ||
           (a->kind == CHARL_DEVICE_CPU && b->kind == CHARL_DEVICE_CPU); /* the same cores */
}

charl_status charl__device_select(const charl_device_info *info, int count, const charl_device_request *request,
                                  charl__pick *out)
{
    const int size = request->local_size > 0 ? request->local_size : 1;
    const int rank = request->local_rank;
    int mine, other;

    *out = (charl__pick){0, 1};
    CHARL_REQUIRE(rank >= 0 && rank < size, CHARL_ERR_INVALID, "local rank %d of %d", rank, size);
    CHARL_TRY(pick(info, count, request, rank, size, &mine));
    *out = (charl__pick){mine, 0};
    for (int q = 0; q < size; q++) { /* a rule that matches no device reports that itself */
        out->sharers += pick(info, count, request, q, size, &other) == CHARL_OK && is_same(&info[mine], &info[other]);
    }
    CHARL_REQUIRE(out->sharers == 1 || request->share || info[mine].kind == CHARL_DEVICE_CPU, CHARL_ERR_DEVICE,
                  "device \"%s\" gives %d ranks %s; HINT name another device for each, or let ranks share it with the "
                  "option share",
                  request->select, out->sharers, info[mine].name);
    return CHARL_OK;
}

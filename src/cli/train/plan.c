/* The first lines of a run: what was read, built and measured. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <charl/data_schema.h>
#include "cli/train/train.h"

/* 1234567 as "1,234,567". */
static const char *grouped(int64_t v, char *text)
{
    char digits[32];
    const int n = snprintf(digits, sizeof digits, "%" PRId64, v);
    int used = 0;

    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-') {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

static const char *bytes_text(int64_t bytes, char *text)
{
    if (bytes >= 1 << 28) {
        snprintf(text, 32, "%.1f GiB", (double)bytes / 1073741824.0);
    } else {
        snprintf(text, 32, "%.1f MiB", (double)bytes / 1048576.0);
    }
    return text;
}

/* "r0 NVIDIA H200 3b:00.0 · r1 3c:00.0": a name is printed only if it differs from the previous one. */
static void print_devices(const charl__device_text *all, int size)
{
    enum { SHOWN = 16 };
    bool alike = true;

    for (int r = 1; r < size; r++) {
        alike = alike && !all[r].pci[0] && strcmp(all[r].name, all[0].name) == 0;
    }
    if (alike) {
        printf("  devices  %s%s%s", all[0].name, all[0].pci[0] ? " " : "", all[0].pci);
        if (size > 1) {
            printf(", the same for %d ranks", size);
        }
        putchar('\n');
        return;
    }
    printf("  devices  ");
    for (int r = 0; r < size && r < SHOWN; r++) {
        const bool named = r == 0 || !all[r].pci[0] || strcmp(all[r].name, all[r - 1].name) != 0;

        printf("%sr%d %s%s%s", r > 0 ? " · " : "", r, named ? all[r].name : "", named && all[r].pci[0] ? " " : "",
               all[r].pci);
    }
    if (size > SHOWN) {
        printf(" and %d more", size - SHOWN);
    }
    putchar('\n');
}

void charl__train_print_title(const charl__output *o)
{
    printf("charl %s · %s · ", charl_version(), charl__cli_text(o->config, "run.name"));
    if (charl_comm_is_team(o->comm)) {
        printf("%d simulated rank%s", o->size, o->size == 1 ? "" : "s");
        if (o->nodes > 1) {
            printf(" on %d nodes", o->nodes);
        }
        printf(" in one process\n");
    } else {
        printf("%d rank%s on %d node%s\n", o->size, o->size == 1 ? "" : "s", o->nodes, o->nodes == 1 ? "" : "s");
    }
    printf("  config   %s", o->args->config);
    for (int k = 0; k < o->args->n_overrides; k++) {
        printf("%s%s%s", k == 0 ? " (" : " ", o->args->overrides[k].text, k + 1 == o->args->n_overrides ? ")" : "");
    }
    putchar('\n');
    fflush(stdout);
}

static void print_launches(const charl_train_info *i)
{
    printf("  launches %d per step: %d forward, %d backward, %d update", i->launches, i->forward_launches,
           i->launches - i->forward_launches - i->update_launches, i->update_launches);
    if (i->fused > 0) {
        printf("; %d less by fusion", i->fused);
    }
    if (i->collectives) {
        printf("; batch statistics over all ranks");
    }
    printf("\n");
}

static void print_batch(const charl_train_info *i)
{
    const double rows = (double)i->steps * (double)i->batch_size, epochs = rows / (double)i->train_rows;
    char a[32], b[32], c[32], tokens[32] = "";

    if (i->window > 0) {
        snprintf(tokens, sizeof tokens, ", %.4g tokens", rows * (double)i->window);
    }
    printf("  batch    %s = %d slice%s, %s on rank 0; %s step%s (%.3g epoch%s%s)\n", grouped(i->batch_size, a),
           i->slices, i->slices == 1 ? "" : "s", grouped(i->local_rows, b), grouped(i->steps, c),
           i->steps == 1 ? "" : "s", epochs, epochs == 1 ? "" : "s", tokens);
    printf("  bits     %s\n", i->mixed       ? "equal up to rounding, as the devices differ"
                              : i->invariant ? "the same with any number of ranks, up to one per slice"
                                             : "they depend on the number of ranks");
}

/* "3 classes: ant bee cat": the names that fit into a line of 80 columns. */
static void print_targets(const charl_train_info *i)
{
    enum { ROOM = 30 };
    const char *name;
    size_t length, used = 0;
    char a[32];
    int64_t n = 0;

    if (i->window > 0) {
        printf("  loss     %s, vocabulary of %s\n", i->loss, grouped(i->classes, a));
        return;
    }
    printf("  loss     %s, ", i->loss);
    if (i->classes == 0 || i->targets > 1) {
        printf("%s %s%s", grouped(i->targets, a), i->classes > 0 ? "label" : "number", i->targets == 1 ? "" : "s");
    } else {
        printf("%s classes", grouped(i->classes, a));
        for (; (name = charl_names_get(i->class_names, n, &length)) != NULL && used + length + 1 <= ROOM; n++) {
            printf("%s%.*s", n > 0 ? " " : ": ", (int)length, name);
            used += length + 1;
        }
        printf("%s", name && n > 0 ? " ..." : "");
        if (i->chance > 0) {
            printf(", chance level %.4g", i->chance);
        }
    }
    putchar('\n');
}

static void print_memory(const charl_train_info *i)
{
    char a[32], b[32], c[32];

    printf("  memory   %s of %s on this device, %s of it activations", bytes_text(i->memory_bytes, a),
           bytes_text(i->memory_capacity, b), bytes_text(i->activation_bytes, c));
    if (i->memory_reported > 0) {
        printf("; with the driver and other programs %s", bytes_text(i->memory_reported, a));
    }
    if (i->shard_saves > 0) {
        printf("; %s saved by sharding", bytes_text(i->shard_saves, a));
    }
    if (i->offloaded_bytes > 0) {
        printf("; %s in host memory", bytes_text(i->offloaded_bytes, a));
    }
    printf("\n");
}

void charl__train_print_model(const charl__output *o, const charl_train_info *i, const charl__device_text *devices)
{
    char a[32], b[32], windows[64] = "", frozen[64] = "";
    const char *precision = charl__cli_text(o->config, "train.precision"),
               *base = charl__cli_text(o->config, "lora.base");
    static const char *const shards[] = {"", ", optimizer sharded", ", optimizer and gradients sharded",
                                         ", optimizer, gradients and parameters sharded"};
    const bool half = strcmp(precision, "f32") != 0, fp8 = strcmp(precision, "fp8") == 0;
    const bool integer = strcmp(charl__cli_text(o->config, "train.products"), "integer") == 0;
    const bool packed = charl__cli_int(o->config, "lora.rank") > 0 && strcmp(base, "f32") != 0;

    print_devices(devices, o->size);
    if (i->frozen_parameters > 0) {
        snprintf(frozen, sizeof frozen, " (%s of them frozen%s%s)", grouped(i->frozen_parameters, b),
                 packed ? ", in " : "", packed ? base : "");
    }
    printf("  model    %d layers, %s parameters%s%s%s%s\n", i->layers, grouped(i->parameters + i->frozen_parameters, a),
           frozen, half ? " with a copy in " : "",
           fp8    ? "bf16"
           : half ? precision
                  : "",
           fp8       ? ", products in fp8"
           : integer ? ", products of integers"
                     : "");
    if (i->window > 0) {
        snprintf(windows, sizeof windows, " windows of %s tokens", grouped(i->window, a));
    }
    printf("  data     %s train / %s val%s, %s\n", grouped(i->train_rows, a), grouped(i->val_rows, b), windows,
           i->data_on_device ? "on device" : "read while training");
    print_targets(i);
    print_batch(i);
    if (o->size > 1) {
        printf("  ranks    all-reduce by %s%s", i->allreduce, shards[i->shard]);
        if (i->shard != CHARL_SHARD_NONE && i->shards < o->size) {
            printf(" within nodes of %d ranks", i->shards);
        }
        printf("\n");
    }
    if (i->passes > 1) {
        printf("  passes   %d per step\n", i->passes);
    }
    if (i->recompute > CHARL_RECOMPUTE_NO) {
        printf("  recompute %s in the backward pass, which saves %s\n",
               i->recompute == CHARL_RECOMPUTE_CHEAP ? "elementwise layers and norms" : "blocks",
               bytes_text(i->recompute_saves > 0 ? i->recompute_saves : 0, a));
    }
    fflush(stdout);
}

/* What an hour takes, where the configuration says what a device takes. */
static void print_rates(const charl__output *o, int devices)
{
    const double watts = devices * charl__cli_number(o->config, "run.power"),
                 price = devices * charl__cli_number(o->config, "run.price");
    char energy[48] = "", cost[48] = "";

    if (watts > 0) {
        snprintf(energy, sizeof energy, " about %.4g kWh", watts / 1e3);
    }
    if (price > 0) {
        snprintf(cost, sizeof cost, " %.4g by run.price", price);
    }
    if (watts > 0 || price > 0) {
        printf("  an hour %s%s%s\n", energy, watts > 0 && price > 0 ? "," : "", cost);
    }
}

void charl__train_print_plan(const charl__output *o, const charl_train_info *i, int64_t all_bytes)
{
    char a[32];

    print_launches(i);
    print_memory(i);
    print_rates(o, i->devices);
    if (charl_comm_is_team(o->comm)) {
        printf("  in all   %s for %d simulated ranks\n", bytes_text(all_bytes, a), o->size);
    }
    if (i->start_step > 0) {
        printf("  resumed  %s (step %s)\n", i->resumed, grouped(i->start_step, a));
    }
    if (i->trace_last > 0) {
        printf("  trace    steps %" PRId64 " to %" PRId64 " of %s", i->trace_first, i->trace_last,
               grouped(i->steps, a));
        printf("%s\n", o->args->trace && o->args->profile ? ", time line and profile"
                       : o->args->profile                 ? ", profile"
                                                          : ", time line");
    }
    if (o->files) {
        char stop[4096];

        snprintf(stop, sizeof stop, "%s/STOP", charl__cli_text(o->config, "run.output_dir"));
        printf("  output   %s  (touch ", charl__cli_text(o->config, "run.output_dir"));
        charl__cli_put_word(stdout, stop);
        printf(": checkpoint and stop)\n");
    }
    fflush(stdout);
}

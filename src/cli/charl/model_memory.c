/* charl model memory: the device memory that a training needs. */
#include <stdio.h>
#include <string.h>

#include <charl/train.h>
#include "cli/charl/commands.h"
#include "cli/cli_ranks.h"

enum { SHOWN = 20, NUMBERS = 50, NAME_LEAST = 20, NAME_MOST = 60, NAME_SIZE = 128, COLUMNS = 5 };

typedef struct memory_view {
    charl_config *config;
    charl_comm *comm;
    bool all; /* list all tensors, not only the largest */
} memory_view;

/* "12.3 MiB", into text of 32 bytes */
static const char *bytes_text(int64_t bytes, char *text)
{
    if (bytes >= 1 << 28) {
        snprintf(text, 32, "%.2f GiB", (double)bytes / 1073741824.0);
    } else if (bytes >= 1 << 18) {
        snprintf(text, 32, "%.2f MiB", (double)bytes / 1048576.0);
    } else {
        snprintf(text, 32, "%.2f KiB", (double)bytes / 1024.0);
    }
    return text;
}

static int name_width(void)
{
    const int columns = charl__cli_columns(stdout), room = (columns > 0 ? columns : 80) - NUMBERS;

    return room < NAME_LEAST ? NAME_LEAST : room > NAME_MOST ? NAME_MOST : room;
}

/* Shortened in the middle if it is too long. */
static const char *fit(const char *name, int width, char text[NAME_SIZE])
{
    const int length = (int)strlen(name), tail = (width - 2) / 2;

    if (length > width) {
        snprintf(text, NAME_SIZE, "%.*s..%s", width - 2 - tail, name, name + length - tail);
    } else {
        snprintf(text, NAME_SIZE, "%s", name);
    }
    return text;
}

static void print_uses(const charl_memory *m)
{
    char a[32], b[32];
    int64_t sum = 0;

    printf("%s\n%s of %s\n\n", m->device->name, bytes_text(m->device_memory.in_use, a),
           bytes_text(m->device_memory.capacity, b));
    for (int i = 0; i < m->n_uses; i++) {
        if (!m->use[i].is_offloaded) {
            printf("  %-34s %12s %6.1f %%\n", m->use[i].what, bytes_text(m->use[i].bytes, a),
                   100.0 * (double)m->use[i].bytes / (double)m->device_memory.in_use);
            sum += m->use[i].bytes;
        }
    }
    printf("  %-34s %12s\n", "all", bytes_text(sum, a));
    if (m->device_memory.peak > m->device_memory.in_use) {
        printf("  %-34s %12s  at most, while it is set up\n", "", bytes_text(m->device_memory.peak, a));
    }
    if (m->device_memory.offloaded > 0) {
        printf("\nin host memory: %s\n\n", bytes_text(m->device_memory.offloaded, a));
    }
    for (int i = 0; i < m->n_uses; i++) {
        if (m->use[i].is_offloaded) {
            printf("  %-34s %12s\n", m->use[i].what, bytes_text(m->use[i].bytes, a));
        }
    }
}

static void print_activations(const charl_memory *m, const memory_view *v, int width)
{
    char text[NAME_SIZE], shape[CHARL_SHAPE_TEXT], a[32], b[32];
    const int shown = v->all || m->n_activations <= SHOWN ? m->n_activations : SHOWN;
    int64_t rest = 0;

    printf("\nactivations: %s in use at most, %s reserved\n", bytes_text(m->peak_bytes, a),
           bytes_text(m->arena_bytes, b));
    printf("in use at that moment, in the %s pass, %s:\n\n", m->peak_is_backward ? "backward" : "forward",
           m->peak_layer);
    for (int i = 0; i < shown; i++) {
        const charl_memory_activation *t = &m->activation[i];

        printf("  %-*s %-4s %-20s %12s\n", width, fit(t->name, width, text), charl_dtype_name(t->dtype),
               charl_shape_format(&t->shape, shape), bytes_text(t->bytes, a));
    }
    for (int i = shown; i < m->n_activations; i++) {
        rest += m->activation[i].bytes;
    }
    if (shown < m->n_activations) {
        snprintf(text, sizeof text, "%d smaller ones", m->n_activations - shown);
        printf("  %-*s %-4s %-20s %12s\n", width, text, "", "", bytes_text(rest, a));
    }
}

static void print_parameters(const charl_memory *m, const memory_view *v, int width)
{
    char text[NAME_SIZE], shape[CHARL_SHAPE_TEXT], a[32], b[32];
    const int shown = v->all || m->n_parameters <= SHOWN ? m->n_parameters : SHOWN;
    int64_t values = 0, states = 0;

    printf("\n%-*s %-20s %12s %12s\n", width + 2, "parameters", "", "values", "optimizer");
    for (int i = 0; i < m->n_parameters; i++) {
        const charl_memory_parameter *p = &m->parameter[i];

        if (i == shown) {
            values = states = 0;
        }
        values += p->bytes + p->copy_bytes;
        states += p->state_bytes;
        if (i < shown) {
            printf("  %-*s %-20s %12s %12s\n", width, fit(p->name, width, text), charl_shape_format(&p->shape, shape),
                   bytes_text(p->bytes + p->copy_bytes, a),
                   p->is_trained ? bytes_text(p->state_bytes, b) : "not trained");
        }
    }
    if (shown < m->n_parameters) {
        snprintf(text, sizeof text, "%d more; --all shows them", m->n_parameters - shown);
        printf("  %-*s %-20s %12s %12s\n", width, text, "", bytes_text(values, a), bytes_text(states, b));
    }
}

static void print_shards(const charl_memory *m, bool of_host)
{
    static const char *const modes[] = {"none", "optimizer", "gradients", "parameters"};
    char a[32];

    for (int shard = 0; shard < 4; shard++) {
        printf("  %-10s", modes[shard]);
        for (int k = 0; k < m->n_plans && k < COLUMNS; k++) {
            const int64_t bytes = of_host ? m->plan[k].host_bytes[shard] : m->plan[k].bytes[shard];

            printf(" %12s", m->plan[k].bytes[shard] > 0 ? bytes_text(bytes, a) : "-");
        }
        printf("\n");
    }
}

static void print_plans(const charl_memory *m)
{
    bool divided = true; /* by all ranks */

    if (m->n_plans < 2) {
        return;
    }
    printf("\nabout, by dist.shard, with the same batch on so many ranks:\n\n  %-10s", "");
    for (int k = 0; k < m->n_plans && k < COLUMNS; k++) {
        printf(" %12d", m->plan[k].ranks);
        divided = divided && m->plan[k].shards == m->plan[k].ranks;
    }
    printf("\n");
    for (int k = 0; k < m->n_plans && k < COLUMNS && !divided; k++) {
        printf("%s %12d", k == 0 ? "  shards    " : "", m->plan[k].shards);
    }
    printf("%s", divided ? "" : "\n");
    print_shards(m, false);
    if (m->device_memory.offloaded > 0) {
        printf("\nand in host memory, of each rank:\n\n");
        print_shards(m, true);
    }
}

static charl_status on_memory(void *ctx, const charl_memory *m)
{
    const memory_view *v = ctx;

    charl__cli_compiling_done();
    if (charl_comm_rank(v->comm) == 0) {
        const int width = name_width();

        print_uses(m);
        print_plans(m);
        print_activations(m, v, width);
        print_parameters(m, v, width);
    }
    return CHARL_OK;
}

static void on_warned(void *ctx, const char *text)
{
    charl__ranks_warn(((const memory_view *)ctx)->comm, text);
}

static void on_lost(void *ctx, charl_status st)
{
    charl__ranks_lost(((const memory_view *)ctx)->comm, st);
}

static int show_memory(void *ctx, charl_comm *comm)
{
    memory_view *v = ctx;
    const charl_train_options options = {sizeof options,
                                         .comm = comm,
                                         .dry_run = true,
                                         .skip_kernels = true,
                                         .overwrite = true,
                                         .events = {.ctx = v,
                                                    .compiling = charl__cli_compiling_show,
                                                    .memory = on_memory,
                                                    .warned = on_warned,
                                                    .lost = on_lost}};
    charl_train_result result;
    charl_status st;

    v->comm = comm;
    st = charl_train_run(v->config, &options, &result);
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__ranks_fail(comm, st);
}

int charl__model_memory_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"all", 'a', NULL, "Show all tensors, not only some", 0, CHARL__CLI_FLAG(memory_view, all)}, {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG [SECTION.KEY=VALUE...]",
        "Show what the training of CONFIG takes on the device: by purpose, as `charl-train --dry-run` sums it up; the "
        "activations that are alive when most are; and the parameters. Nothing is trained or written. Under mpirun, of "
        "rank 0."};
    charl__cli_operands operands = {.names = {"CONFIG"}, .max = 1 + CHARL__CLI_OVERRIDES};
    memory_view v = {0};
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &v);

    if (code >= 0) {
        return code;
    }
    st = charl__cli_load_config(&operands, 1, &v.config);
    if (st != CHARL_OK) {
        return charl__cli_fail_alike(st);
    }
    code = charl__with_ranks(v.config, show_memory, &v, &argc, &argv);
    charl_config_destroy(v.config);
    return code;
}

/* charl checkpoint show|verify|diff: each reads in a separate process (cli_guard.c). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/checkpoint.h>
#include "cli/charl/commands.h"

enum { NORM_BLOCK = 1024 };

typedef struct show {
    const char *path;
    bool config_only, resolved;
} show;

static void print_text(const char *name, const char *text)
{
    printf("  %-11s ", name);
    charl__cli_put(text[0] ? text : "-", 0);
    printf("\n");
}

static void print_state(const charl_checkpoint_state *s)
{
    printf("  %-11s %" PRId64 "\n", "step", s->step);
    printf("  %-11s %" PRId64 ", %" PRId64 " samples into it (%" PRId64 " seen in all)\n", "epoch", s->epoch,
           s->samples_in_epoch, s->samples_seen);
    printf("  %-11s %" PRId64 " in %" PRId64 " slices\n", "batch", s->batch_size, s->slices);
    printf("  %-11s %" PRId64 " (", "seed", s->seed);
    charl__cli_put(s->rng, 0);
    printf(")\n  %-11s ", "optimizer");
    charl__cli_put(s->optim_kind, 0);
    printf(", %" PRId64 " updates; schedule at step %" PRId64 "; loss scale %g\n", s->optim_t, s->lr_step,
           s->loss_scale);
    if (isnan(s->best_metric)) {
        print_text("best", "none yet");
    } else {
        printf("  %-11s %.9g\n", "best", s->best_metric);
    }
    print_text("data", s->data_path);
    printf("  %-11s %" PRId64 " samples, order ", "", s->data_n_samples);
    charl__cli_put(s->data_shuffle, 0);
    printf("\n");
    print_text("content", s->data_content_id);
    printf("  %-11s %" PRId64 "\n", "ranks", s->world_size);
    print_text("device", s->device);
    print_text("driver", s->driver);
    print_text("writer", s->writer);
    print_text("run id", s->run_id);
}

/* The number of names, and the first of them. */
static void print_names(const char *label, const char *names)
{
    enum { SHOWN = 16 };
    const int64_t n = charl_names_count(names);

    if (n == 0) {
        return;
    }
    printf("  %-11s %" PRId64 ":", label, n);
    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        size_t length;
        const char *name = charl_names_get(names, i, &length);

        printf(" ");
        charl__cli_write(stdout, name, length);
    }
    printf(n > SHOWN ? " ...\n" : "\n");
}

static void print_numbers(const char *label, const float *values, int64_t n)
{
    enum { SHOWN = 8 };

    printf("  %-11s", label);
    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        printf(" %.6g", (double)values[i]);
    }
    printf(n > SHOWN ? " ...\n" : "\n");
}

static void print_schema(const charl_data_schema *s)
{
    char shape[CHARL_SHAPE_TEXT];

    if (!s) {
        print_text("samples", "not described: written by an older charl");
        return;
    }
    printf("  %-11s %s: %s %s", "samples", charl_dataset_kind_name(s->kind), charl_dtype_name(s->x_dtype),
           charl_shape_format(&s->x_shape, shape));
    printf(", targets %s %s", charl_dtype_name(s->y_dtype), charl_shape_format(&s->y_shape, shape));
    if (s->classes > 0) {
        printf(s->kind == CHARL_DATASET_TOKENS ? ", vocabulary of %" PRId64 : ", %" PRId64 " classes", s->classes);
    }
    printf("\n");
    print_names("classes", s->class_names);
    print_names("columns", s->columns);
    print_names("targets", s->targets);
    if (s->n_stats > 0) {
        print_numbers("mean", s->mean, s->n_stats);
        print_numbers("std", s->std, s->n_stats);
    }
    if (s->n_target_stats > 0) {
        print_numbers("target mean", s->target_mean, s->n_target_stats);
        print_numbers("target std", s->target_std, s->n_target_stats);
    }
    if (s->fit[0]) {
        print_text("fit", s->fit);
    }
    if (s->tokenizer_kind[0]) {
        print_text("tokenizer", s->tokenizer_kind);
    }
}

/* Euclidean norm, and the number of elements that are not finite. */
static void measure(const charl_checkpoint_tensor *t, const void *data, double *norm, int64_t *nonfinite)
{
    const int64_t n = charl_shape_count(&t->shape);
    const size_t size = charl_dtype_size(t->dtype);
    double sum = 0.0, block[NORM_BLOCK];

    *nonfinite = 0;
    for (int64_t i = 0; i < n; i += NORM_BLOCK) {
        const int64_t m = n - i < NORM_BLOCK ? n - i : NORM_BLOCK;

        charl_dtype_decode(t->dtype, (const char *)data + (size_t)i * size, m, block);
        for (int64_t k = 0; k < m; k++) {
            sum += block[k] * block[k];
            *nonfinite += !isfinite(block[k]);
        }
    }
    *norm = sqrt(sum);
}

static charl_status print_tensors(charl_checkpoint_reader *r)
{
    charl_status st = CHARL_OK;
    void *data = NULL;
    const int64_t count = charl_checkpoint_get_info(r).n_tensors;
    int width = 6;
    int64_t elements = 0;

    for (int64_t i = 0; i < count; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(r, i);
        const int w = (int)(strlen(t->group) + strlen(t->name)) + 1;

        width = w > width ? w : width;
    }
    printf("\n  %-*s  %-4s  %-20s  %-13s  %s\n", width, "tensor", "type", "shape", "norm", "crc32c");
    for (int64_t i = 0; i < count; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(r, i);
        char shape[CHARL_SHAPE_TEXT];
        char norm_text[32] = "in the base";
        double norm;
        int64_t nonfinite = 0;

        free(data);
        data = NULL;
        if (!charl_checkpoint_is_in_base(r, t)) {
            CHARL_TRY_CLEANUP(charl__cli_alloc(charl_shape_count(&t->shape) + 1, charl_dtype_size(t->dtype), &data));
            CHARL_TRY_CLEANUP(charl_checkpoint_read(r, t, data));
            measure(t, data, &norm, &nonfinite);
            snprintf(norm_text, sizeof norm_text, "%.6g", norm);
        }
        elements += charl_shape_count(&t->shape);
        printf("  ");
        charl__cli_write(stdout, t->group, strlen(t->group));
        putchar('/');
        charl__cli_write(stdout, t->name, strlen(t->name));
        printf("%*s  %-4s  %-20s  %-13s  %08" PRIx32, width - (int)strlen(t->group) - 1 - (int)strlen(t->name), "",
               charl_dtype_name(t->dtype), charl_shape_format(&t->shape, shape), norm_text, t->crc32c);
        if (nonfinite > 0) {
            printf("  %" PRId64 " not finite", nonfinite);
        }
        printf("\n");
    }
    printf("  %" PRId64 " tensors, %" PRId64 " elements\n", count, elements);
cleanup:
    free(data);
    return st;
}

static void print_parts(const char *path, int n)
{
    if (n > 0) {
        printf("  %-11s %d files beside it, %" PRId64 " bytes in all\n", "parts", n, charl_checkpoint_size(path));
    }
}

static int show_file(void *ctx)
{
    const show *s = ctx;
    charl_checkpoint_reader *r = NULL;
    charl_status st = charl_checkpoint_open(s->path, &r);

    if (st == CHARL_OK) {
        const char *config =
            s->resolved ? charl_checkpoint_get_info(r).config_resolved : charl_checkpoint_get_info(r).config_text;

        if (s->config_only) {
            charl__cli_put(config, 0);
        } else {
            charl__cli_put(s->path, 0);
            printf(": checkpoint\n");
            print_state(charl_checkpoint_get_info(r).state);
            print_parts(s->path, charl_checkpoint_get_info(r).n_parts);
            print_schema(charl_checkpoint_get_info(r).schema);
            printf("\n  configuration\n");
            charl__cli_put(config, 4);
            st = print_tensors(r);
        }
    }
    charl_checkpoint_close(r);
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
}

int charl__checkpoint_show_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"config", 'c', NULL, "Print only the configuration, as a configuration file", 0,
         CHARL__CLI_FLAG(show, config_only)},
        {"resolved", 'r', NULL, "Print the configuration with the values of all keys", 0,
         CHARL__CLI_FLAG(show, resolved)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "FILE",
        "Show a checkpoint: training state, description of the data, "
        "configuration, and every tensor with its norm and checksum.\vA run directory stands for its last "
        "checkpoint."};
    charl__cli_operands file = {.names = {"FILE"}};
    show s = {0};
    int code = charl__cli_parse(path, &syntax, &file, argc, argv, &s);

    code = code >= 0 ? code : charl__checkpoints_of(file.values, 1);
    if (code >= 0) {
        return code;
    }
    s.path = file.values[0];
    return charl__cli_guarded(s.path, CHARL__EXIT_CHECKPOINT, show_file, &s);
}

static int verify_file(void *ctx)
{
    const char *path = ctx;
    const charl_status st = charl_checkpoint_verify(path);

    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    charl__cli_put(path, 0);
    printf(": good\n");
    return CHARL__EXIT_OK;
}

int charl__checkpoint_verify_main(const char *path, int argc, char **argv)
{
    static const charl__cli_syntax syntax = {
        NULL, "FILE...",
        "Verify checkpoints: structure, checksums, completeness.\vAll files are "
        "checked; the exit status is the status of the last invalid one. A run directory "
        "stands for its last checkpoint. Parts are verified with their checkpoint, so RUN/checkpoints/* may name "
        "them."};
    charl__cli_operands files = {.names = {"FILE"}, .max = 1 << 20};
    int code = charl__cli_parse(path, &syntax, &files, argc, argv, NULL);

    if (code >= 0) {
        return code;
    }
    code = CHARL__EXIT_OK;
    files.count = charl__without_parts(files.values, files.count);
    for (int i = 0; i < files.count; i++) {
        int one = charl__checkpoints_of(&files.values[i], 1);

        one =
            one >= 0 ? one : charl__cli_guarded(files.values[i], CHARL__EXIT_CHECKPOINT, verify_file, files.values[i]);
        code = one == CHARL__EXIT_OK ? code : one;
    }
    return code;
}

static int diff_files(void *ctx)
{
    char *const *path = ctx;
    char *report = NULL;
    bool same = false;
    const charl_status st = charl_checkpoint_diff(path[0], path[1], &same, &report);

    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    charl__cli_put(report, 0);
    if (same) {
        puts(report[0] ? "all tensors are equal" : "equal");
    }
    charl_free(report);
    return same ? CHARL__EXIT_OK : CHARL__EXIT_INTERNAL;
}

int charl__checkpoint_diff_main(const char *path, int argc, char **argv)
{
    static const charl__cli_syntax syntax = {
        NULL, "A B",
        "Compare two checkpoints bit by bit: counters, configuration, tensors. The exit status is 0 if all tensors are "
        "equal, 1 if they differ.\vDifferences in charl version, run id, number of ranks, device and driver are "
        "ignored. A run directory stands for its last checkpoint."};
    charl__cli_operands files = {.names = {"A", "B"}};
    int code = charl__cli_parse(path, &syntax, &files, argc, argv, NULL);

    code = code >= 0 ? code : charl__checkpoints_of(files.values, 2);
    return code >= 0 ? code : charl__cli_guarded(files.values[0], CHARL__EXIT_CHECKPOINT, diff_files, files.values);
}

/* charl replay, charl checkpoint at: recompute steps of a run on one device. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <charl/replay.h>
#include "cli/charl/commands.h"

typedef struct request {
    charl_replay_options options;
    const char *run;
    int64_t differing, bad; /* steps that differ from the recorded ones; that are not finite */
    bool begun;             /* the head of the table has been printed */
} request;

static charl_status started(void *ctx, const charl_replay_start *start)
{
    const request *r = ctx;

    charl__cli_compiling_done();
    printf("# ");
    charl__cli_put(r->run, 0);
    printf(", from ");
    if (start->checkpoint[0]) {
        printf("step %" PRId64 ", ", start->step);
        charl__cli_put(start->checkpoint, 0);
    } else {
        printf("its beginning");
    }
    printf(", on %s\n", start->device->name);
    return CHARL_OK;
}

static void print_tensors(const char *what, const charl_replay_tensor *t, int n)
{
    printf("\n  %-40s %12s %14s  %s\n", what, "elements", "norm", "crc32c");
    for (int i = 0; i < n; i++) {
        printf("  ");
        charl__cli_put(t[i].name, 0);
        printf("%*s %12" PRId64 " %14.6g  %08" PRIx32 "%s\n",
               (int)(strlen(t[i].name) < 40 ? 40 - strlen(t[i].name) : 0), "", t[i].count, t[i].norm, t[i].crc32c,
               isfinite(t[i].norm) ? "" : "  not finite");
    }
}

static void print_samples(const charl_step_rows *rows, const float *losses)
{
    const int64_t per_slice = rows->n / rows->slices;

    printf("\n  %7s %6s %6s%s %12s %14s\n", "index", "slice", "epoch", rows->n_sets > 0 ? "  set" : "",
           rows->window > 0 ? "token" : "row", "loss");
    for (int64_t i = 0; i < rows->n; i++) {
        const charl_step_sample *s = &rows->sample[i];

        printf("  %7" PRId64 " %6" PRId64 " %6" PRId64, i, i / per_slice, s->epoch);
        if (rows->n_sets > 0) {
            printf(" %4d", s->set);
        }
        printf(" %12" PRId64 " %14.9g%s\n", s->row, (double)losses[i], isfinite(losses[i]) ? "" : "  not finite");
    }
}

static charl_status replayed(void *ctx, const charl_replay_row *row)
{
    static const char *const recorded[] = {[CHARL_REPLAY_UNRECORDED] = "",
                                           [CHARL_REPLAY_SAME] = "  as recorded",
                                           [CHARL_REPLAY_DIFFERS] = "  not as recorded: "};
    request *r = ctx;
    const bool details = r->options.grads || r->options.samples;

    if (!r->begun || details) {
        printf("%s%8s %14s %14s %14s  %s\n", r->begun ? "\n" : "", "step", "loss", "grad_norm", "lr", "weights");
    }
    r->begun = true;
    r->differing += row->recorded == CHARL_REPLAY_DIFFERS;
    printf("%8" PRId64 " %14.9g %14.9g %14.9g  %.16s%s%s%s\n", row->step, row->loss, row->grad_norm, row->lr, row->hash,
           recorded[row->recorded], row->differs,
           row->skipped ? "  skipped: the gradient is a spike, or not finite" : "");
    if (r->options.grads) {
        print_tensors("gradient", row->gradients, row->n_gradients);
        print_tensors("weights after the step", row->weights, row->n_weights);
    }
    if (r->options.samples) {
        print_samples(row->rows, row->losses);
    }
    fflush(stdout);
    return CHARL_OK;
}

static charl_status located(void *ctx, int64_t step, const char *what)
{
    request *r = ctx;

    r->bad++;
    printf("\nstep %" PRId64 " is not finite: ", step);
    charl__cli_put(what, 0);
    printf("\n");
    return CHARL_OK;
}

static int finish(const request *r, charl_status st)
{
    charl__cli_compiling_done();
    if (st != CHARL_OK) {
        fflush(stdout);
        return charl__cli_fail(st);
    }
    if (r->differing > 0) {
        return charl__cli_error(
            CHARL__EXIT_INTERNAL,
            "another device, driver or version of charl, other data, or a fault of the device then or now",
            "%" PRId64 " recorded step%s computed otherwise in this replay", r->differing,
            r->differing == 1 ? " was" : "s were");
    }
    return CHARL__EXIT_OK;
}

/* The last steps of the command line of either command: the run, the device, overrides. Returns an exit code. */
static int run(request *r, const charl__cli_operands *operands)
{
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    int code;

    charl__runs_of(operands->values, 1);
    if (r->options.step == 0) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--step is missing: which step?");
    }
    if (r->options.until != 0 && r->options.until < r->options.step) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--until %" PRId64 " is before --step %" PRId64,
                                r->options.until, r->options.step);
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    r->run = operands->values[0];
    r->options.overrides = overrides;
    r->options.n_overrides = charl__cli_overrides(operands, 1, overrides);
    r->options.ctx = r;
    return finish(r, charl_replay(r->run, &r->options));
}

int charl__replay_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"step", 's', "N", "The step, counted from 1 as in the log; required", 0,
         CHARL__CLI_INT(request, options.step, 1, INT64_MAX)},
        {"until", 'u', "M", "Go on to step M, and print every step on the way", 0,
         CHARL__CLI_INT(request, options.until, 1, INT64_MAX)},
        {"grads", 'g', NULL, "Print norm and checksum of every gradient, and of the weights after the step", 0,
         CHARL__CLI_FLAG(request, options.grads)},
        {"samples", 'l', NULL, "Print the rows of the step and the loss of each", 0,
         CHARL__CLI_FLAG(request, options.samples)},
        {"from-start", 0, NULL, "Begin where the run began, not at a checkpoint", 0,
         CHARL__CLI_FLAG(request, options.from_start)},
        {"checksums", 0, "FILE", "Also write checksums of all that is computed to FILE, for `charl bisect`", 0,
         CHARL__CLI_TEXT(request, options.checksums)},
        {"device", 'd', "SELECT", "Device to use, as device.select has it (see `charl devices`)", 0,
         CHARL__CLI_TEXT(request, options.device)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "RUN --step N [SECTION.KEY=VALUE...]",
        "Compute step N of the run in directory RUN again, from the nearest checkpoint before it, on one device and "
        "whatever the number of ranks was. Prints loss, gradient norm and a hash of the weights after the step. Where "
        "the run has a checkpoint of a step, all tensors are compared with it: the exit status is 1 if they differ. "
        "For a step whose loss or gradient is not finite, names the first operator that computed a NaN or an infinity. "
        "RUN can also be a configuration file, whose training is computed from the beginning. Writes nothing."};
    charl__cli_operands operands = {.names = {"RUN"}, .max = 1 + CHARL__CLI_OVERRIDES};
    request r = {.options = {sizeof r.options, .started = started, .replayed = replayed, .located = located,
                             .warned = charl__cli_warn, .compiling = charl__cli_compiling_show}};
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    return code >= 0 ? code : run(&r, &operands);
}

static charl_status written(void *ctx, const charl_replay_row *row)
{
    static const char *const recorded[] = {[CHARL_REPLAY_UNRECORDED] = "; the run has no record of it to compare with",
                                           [CHARL_REPLAY_SAME] = ", as recorded",
                                           [CHARL_REPLAY_DIFFERS] = "; not as recorded: "};
    request *r = ctx;

    r->differing += row->recorded == CHARL_REPLAY_DIFFERS;
    charl__cli_put(r->options.checkpoint, 0);
    printf(": step %" PRId64 "%s%s\n", row->step, recorded[row->recorded], row->differs);
    return CHARL_OK;
}

int charl__checkpoint_at_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"step", 's', "N", "The step, counted from 1 as in the log; required", 0,
         CHARL__CLI_INT(request, options.step, 1, INT64_MAX)},
        {"output", 'o', "FILE", "Output file (required), which is replaced if it exists", 0,
         CHARL__CLI_TEXT(request, options.checkpoint)},
        {"device", 'd', "SELECT", "Device to use, as device.select has it (see `charl devices`)", 0,
         CHARL__CLI_TEXT(request, options.device)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "RUN --step N -o FILE [SECTION.KEY=VALUE...]",
        "Write the checkpoint of step N of the run in directory RUN, whether or not it was saved or is kept. The step "
        "is computed again from the nearest checkpoint before it, on one device and whatever the number of ranks was, "
        "with the evaluations of the run.\vFILE has the tensors, counters, best evaluation, configuration and run id "
        "that the run saved or would have saved; only the number of ranks, device, driver and version are those of "
        "this command. If run.lock records step N, what was computed is compared with it, and only written if it is "
        "the same. Settings that change the training are refused; data.path=FILE names data that have moved."};
    charl__cli_operands operands = {.names = {"RUN"}, .max = 1 + CHARL__CLI_OVERRIDES};
    request r = {.options = {sizeof r.options, .started = started, .replayed = written, .warned = charl__cli_warn,
                             .compiling = charl__cli_compiling_show}};
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    if (code < 0 && !r.options.checkpoint) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "%s: -o FILE is missing", path);
    }
    return code >= 0 ? code : run(&r, &operands);
}

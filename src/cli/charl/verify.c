/* charl verify: a run against its run.lock, and random parts of it computed again. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <charl/verify.h>
#include "cli/charl/commands.h"

typedef struct request {
    charl_verify_options options;
    int64_t seed;
} request;

static error_t take_hash(void *input, const char *option, const char *value)
{
    request *r = input;

    r->options.hash = value;
    return strlen(value) == 64 && strspn(value, "0123456789abcdef") == 64
               ? 0
               : charl__cli_bad_option(option, value, "must be 64 hexadecimal digits");
}

static void wrong(void *ctx, const char *text)
{
    (void)ctx;
    charl__cli_compiling_done();
    charl__cli_put(text, 0);
    printf("\n");
}

static void replayed(void *ctx, const charl_verify_segment *s)
{
    static const char *const words[] = {[CHARL_VERIFY_SAME] = "same",
                                        [CHARL_VERIFY_DIFFERS] = "different: ",
                                        [CHARL_VERIFY_UNKNOWN] = "not replayed: "};

    (void)ctx;
    charl__cli_compiling_done();
    printf("steps %" PRId64 " to %" PRId64 ": %s", s->from + 1, s->until, words[s->outcome]);
    charl__cli_put(s->text, 0);
    if (s->outcome == CHARL_VERIFY_SAME) {
        printf(", %" PRId64 " checkpoint%s, on %s", s->compared, s->compared == 1 ? "" : "s", s->device);
    }
    printf("\n");
    fflush(stdout);
}

static int finish(const request *r, charl_status st, const charl_verify_result *out)
{
    charl__cli_compiling_done();
    if (st != CHARL_OK) {
        fflush(stdout);
        return charl__cli_fail(st);
    }
    printf("%" PRId64 " line%s, the last with hash %s\n", out->lines, out->lines == 1 ? "" : "s", out->hash);
    printf("%" PRId64 " checkpoint%s recorded, %" PRId64 " kept; %" PRId64 " of %" PRId64 " segments replayed, %" PRId64
           " the same",
           out->recorded, out->recorded == 1 ? "" : "s", out->kept, out->replayed, out->segments, out->same);
    if (r->options.segments > 0 && r->options.segments < out->segments) {
        printf(" (--seed %" PRId64 ")", r->seed);
    }
    printf("\n");
    if (out->wrong == 0 && out->unknown > 0) {
        return charl__cli_error(CHARL__EXIT_INTERNAL, NULL,
                                "nothing differs from run.lock, but %" PRId64 " segment%s could not be replayed",
                                out->unknown, out->unknown == 1 ? "" : "s");
    }
    if (out->wrong > 0) {
        return charl__cli_error(CHARL__EXIT_INTERNAL, NULL,
                                "the run is not what run.lock records: %" PRId64 " difference%s, %" PRId64
                                " segment%s not replayed",
                                out->wrong, out->wrong == 1 ? "" : "s", out->unknown, out->unknown == 1 ? "" : "s");
    }
    return CHARL__EXIT_OK;
}

int charl__verify_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"segments", 'k', "K", "Replay K segments of the training, drawn at random; the default is 0", 0,
         CHARL__CLI_INT(request, options.segments, 0, INT64_MAX)},
        {"seed", 0, "S", "Draw the segments from seed S; without it, from the clock", 0,
         CHARL__CLI_INT(request, seed, 0, INT64_MAX)},
        {"hash", 0, "HASH", "Require a line with this hash, such as charl.lock in the metadata of an export", 0,
         .take = take_hash},
        {"device", 'd', "SELECT", "Device to use, as device.select has it (see `charl devices`)", 0,
         CHARL__CLI_TEXT(request, options.device)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "RUN [SECTION.KEY=VALUE...]",
        "Compare the run in directory RUN with its run.lock: the chain of its lines, the configuration, the data, and "
        "the checkpoints that are kept. With --segments, also compute parts of the training again, each from one of "
        "these checkpoints to the next, on one device and whatever the number of ranks was, and compare the tensors "
        "with every checkpoint that was saved on the way, whether or not it is kept. The exit status is 0 if all is as "
        "recorded and 1 if not. Writes nothing."};
    charl__cli_operands operands = {.names = {"RUN"}, .max = 1 + CHARL__CLI_OVERRIDES};
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    request r = {.options = {.wrong = wrong,
                             .replayed = replayed,
                             .warned = charl__cli_warn,
                             .compiling = charl__cli_compiling_show},
                 .seed = -1};
    charl_verify_result result;
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    r.seed = r.seed < 0 ? (int64_t)time(NULL) : r.seed;
    r.options.seed = (uint64_t)r.seed;
    r.options.overrides = overrides;
    r.options.n_overrides = charl__cli_overrides(&operands, 1, overrides);
    st = charl_verify(operands.values[0], &r.options, &result);
    return finish(&r, st, &result);
}

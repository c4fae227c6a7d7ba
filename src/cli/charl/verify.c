/* charl verify: checks a run against its run.lock, and recomputes random parts of it. charl prove: what that needs, in a file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <charl/verify.h>
#include "cli/charl/commands.h"

typedef struct request {
    charl_verify_options options;
    int64_t seed;
    bool is_proof;                                     /* what is verified is a file */
    const char *out;                                   /* of charl prove */
    char recorded[1600], unproven[1600], proven[1600]; /* lists */
} request;

static error_t parse_hash(void *input, const char *option, const char *value)
{
    request *r = input;

    r->options.hash = value;
    return strlen(value) == 64 && strspn(value, "0123456789abcdef") == 64
               ? 0
               : charl__cli_bad_option(option, value, "must be 64 hexadecimal digits");
}

static void print_line(const char *text)
{
    charl__cli_compiling_done();
    charl__cli_put(text, 0);
    printf("\n");
}

static void wrong(void *ctx, const char *text)
{
    (void)ctx;
    print_line(text);
}

static void add(char *list, size_t bytes, const char *text)
{
    const size_t n = strlen(list);

    snprintf(list + n, bytes - n, "%s%s", n > 0 ? ", " : "", text);
}

static void recorded(void *ctx, const char *text)
{
    request *r = ctx;

    add(r->recorded, sizeof r->recorded, text);
}

static void add_steps(char *list, size_t bytes, int64_t first, int64_t last)
{
    char text[64];

    snprintf(text, sizeof text, first == last ? "%" PRId64 : "%" PRId64 " to %" PRId64, first, last);
    add(list, bytes, text);
}

static void unproven(void *ctx, int64_t first, int64_t last)
{
    request *r = ctx;

    add_steps(r->unproven, sizeof r->unproven, first, last);
}

static void replayed(void *ctx, const charl_verify_segment *s)
{
    static const char *const words[] = {[CHARL_VERIFY_SAME] = "replayed, as recorded",
                                        [CHARL_VERIFY_DIFFERS] = "replayed, and different: ",
                                        [CHARL_VERIFY_UNKNOWN] = "not replayed: "};

    request *r = ctx;

    if (s->outcome == CHARL_VERIFY_SAME) {
        add_steps(r->proven, sizeof r->proven, s->from + 1, s->until);
    }
    charl__cli_compiling_done();
    printf("steps %" PRId64 " to %" PRId64 ": %s", s->from + 1, s->until, words[s->outcome]);
    charl__cli_put(s->text, 0);
    if (s->outcome == CHARL_VERIFY_SAME) {
        printf(" (%" PRId64 " checkpoint%s, on %s)", s->compared, s->compared == 1 ? "" : "s", s->device);
    }
    printf("\n");
    fflush(stdout);
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* What a proof shows, and what it cannot show. */
static void print_claims(const request *r)
{
    if (r->proven[0]) {
        printf("follows: steps ");
        charl__cli_put(r->proven, 0);
        printf(" lead from one recorded state to the next, with this configuration, on rows of the recorded data\n");
    }
    printf("does not follow: ");
    if (r->unproven[0]) {
        printf("steps ");
        charl__cli_put(r->unproven, 0);
        printf("; ");
    }
    printf("the evaluations; what the data are beyond their checksums");
    printf(r->options.hash ? "\n" : "; that run.lock is the published one (--hash)\n");
}

static void print_unproven(const request *r, const charl_verify_result *out)
{
    if (r->unproven[0]) {
        printf("not proven by a replay: step%s %s", strpbrk(r->unproven, " ,") ? "s" : "", r->unproven);
        if (out->segments > r->options.segments) {
            printf(" (--segments %" PRId64 " replays all)", out->segments);
        }
        printf("\n");
    } else if (out->segments > 0) {
        printf("proven by a replay: every step\n");
    }
}

static void print_result(const request *r, const charl_verify_result *out)
{
    if (r->recorded[0]) {
        printf("as recorded: ");
        print_line(r->recorded);
    }
    if (out->recorded > out->kept) {
        printf("%" PRId64 " more checkpoint%s recorded and not %s\n", out->recorded - out->kept,
               out->recorded - out->kept == 1 ? " is" : "s are", r->is_proof ? "in the proof" : "kept");
    }
    if (r->options.segments > 0 && r->options.segments < out->segments) {
        printf("%" PRId64 " of %" PRId64 " segments replayed (--seed %" PRId64 ")\n", out->replayed, out->segments,
               r->seed);
    }
    if (r->is_proof) {
        print_claims(r);
    } else {
        print_unproven(r, out);
    }
    printf("last hash: %s\n", out->hash);
}

static int finish(const request *r, charl_status st, const charl_verify_result *out)
{
    charl__cli_compiling_done();
    if (st != CHARL_OK) {
        fflush(stdout);
        return charl__cli_fail(st);
    }
    print_result(r, out);
    if (out->wrong > 0) {
        return charl__cli_error(CHARL__EXIT_INTERNAL, NULL,
                                "the %s is not what run.lock records: %" PRId64 " difference%s",
                                r->is_proof ? "proof" : "run", out->wrong, plural(out->wrong));
    }
    if (out->no_data[0]) {
        return charl__cli_error(CHARL__EXIT_DATA, "if they have moved, add data.path=FILE to this command",
                                "the data cannot be opened, and were not compared: %s", out->no_data);
    }
    if (out->unknown > 0) {
        return charl__cli_error(CHARL__EXIT_INTERNAL, NULL,
                                "nothing differs from run.lock, but %" PRId64 " segment%s could not be replayed",
                                out->unknown, plural(out->unknown));
    }
    return CHARL__EXIT_OK;
}

int charl__verify_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"segments", 'k', "K", "Replay K segments of the training, drawn at random; the default is 0, of a proof all",
         0, CHARL__CLI_INT(request, options.segments, 0, INT64_MAX)},
        {"seed", 0, "S", "Draw the segments from seed S; without it, from the clock", 0,
         CHARL__CLI_INT(request, seed, 0, INT64_MAX)},
        {"hash", 0, "HASH", "Require that the last line of run.lock has this hash, which was published", 0,
         .parse = parse_hash},
        {"device", 'd', "SELECT", "Device to use, as device.select has it (see `charl devices`)", 0,
         CHARL__CLI_TEXT(request, options.device)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "RUN|PROOF [SECTION.KEY=VALUE...]",
        "Compare the run in directory RUN with its run.lock: the chain of its lines, config.ini, the data, the "
        "checkpoints "
        "that are kept, metrics.jsonl, last.h5, best.h5 and exports. With --segments, also compute parts of the "
        "training "
        "again, each from one of these checkpoints to the next, on one device and whatever the number of ranks was, "
        "and "
        "compare the tensors with every checkpoint that was saved on the way, whether or not it is kept. Prints what "
        "is as "
        "recorded, what differs, and the steps that no replay has proven. If the data have moved, data.path=FILE names "
        "their place. The exit status is 0 if all is as recorded, 1 if something differs or a chosen segment cannot be "
        "replayed, and 3 if nothing differs but the data cannot be opened. Writes nothing to RUN.\vPROOF is a file of "
        "`charl "
        "prove`, which has all that its segments need: the same comparisons are made with what it holds, and its "
        "segments are replayed. It is unpacked to a folder in TMPDIR meanwhile. In bf16 and f16 it needs a device and "
        "driver like those that it was made with."};
    charl__cli_operands operands = {.names = {"RUN|PROOF"}, .max = 1 + CHARL__CLI_OVERRIDES};
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    request r = {.options = {sizeof r.options, .wrong = wrong, .recorded = recorded, .noted = charl__cli_note,
                             .unproven = unproven, .replayed = replayed, .warned = charl__cli_warn,
                             .compiling = charl__cli_compiling_show},
                 .seed = -1};
    charl_verify_result result;
    struct stat info;
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    charl__runs_of(operands.values, 1);
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    r.is_proof = stat(operands.values[0], &info) == 0 && S_ISREG(info.st_mode);
    r.seed = r.seed < 0 ? (int64_t)time(NULL) : r.seed;
    r.options.seed = (uint64_t)r.seed;
    r.options.overrides = overrides;
    r.options.ctx = &r;
    r.options.n_overrides = charl__cli_overrides(&operands, 1, overrides);
    st = charl_verify(operands.values[0], &r.options, &result);
    return finish(&r, st, &result);
}

int charl__prove_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"output", 'o', "FILE", "Output file (required), which is replaced if it exists", 0,
         CHARL__CLI_TEXT(request, out)},
        {"segments", 'k', "K", "Prove K segments of the training, drawn at random; the default is 1", 0,
         CHARL__CLI_INT(request, options.segments, 1, INT64_MAX)},
        {"seed", 0, "S", "Draw the segments from seed S; without it, from the clock", 0,
         CHARL__CLI_INT(request, seed, 0, INT64_MAX)},
        {"device", 'd', "SELECT", "Device to use, as device.select has it (see `charl devices`)", 0,
         CHARL__CLI_TEXT(request, options.device)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "RUN -o FILE [SECTION.KEY=VALUE...]",
        "Write a proof of parts of the run in directory RUN, with which `charl verify FILE` computes them again "
        "anywhere, without the run and its data. A segment goes from a checkpoint that is kept, or from the beginning "
        "of the run, to the next that is kept. FILE holds run.lock, config.ini, the checkpoints that the segments "
        "begin "
        "with, the blocks of the data with their rows, and init.from if they need it. The segments are replayed from "
        "FILE before it gets its name: a run that is not what its run.lock records has no proof.\vFILE contains rows "
        "of "
        "the data: do not publish it if they must stay private. Data that have no checksums, because charl did not "
        "write them, are held as a whole."};
    charl__cli_operands operands = {.names = {"RUN"}, .max = 1 + CHARL__CLI_OVERRIDES};
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    request r = {.seed = -1};
    charl_prove_result result;
    charl_status st;
    int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    charl__runs_of(operands.values, 1);
    if (!r.out) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "%s: -o FILE is missing", path);
    }
    code = charl__cli_limits();
    if (code != CHARL__EXIT_OK) {
        return code;
    }
    r.seed = r.seed < 0 ? (int64_t)time(NULL) : r.seed;
    const charl_prove_options o = {sizeof o,
                                   .segments = r.options.segments,
                                   .seed = (uint64_t)r.seed,
                                   .device = r.options.device,
                                   .overrides = overrides,
                                   .n_overrides = charl__cli_overrides(&operands, 1, overrides),
                                   .ctx = &r,
                                   .replayed = replayed,
                                   .warned = charl__cli_warn,
                                   .compiling = charl__cli_compiling_show};

    st = charl_prove(operands.values[0], r.out, &o, &result);
    charl__cli_compiling_done();
    fflush(stdout);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    charl__cli_put(r.out, 0);
    printf(": %" PRId64 " of %" PRId64 " segments (--seed %" PRId64 "), %.1f MB\nlast hash: %s\n", result.segments,
           result.provable, r.seed, (double)result.bytes / 1e6, result.hash);
    return CHARL__EXIT_OK;
}

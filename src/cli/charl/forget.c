/* charl forget: trains a run again in which some rows weigh nothing, from the last checkpoint that did not know them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charl/replay.h>
#include "cli/charl/commands.h"
#include "cli/cli_describe.h"

enum { ROWS_BYTES = 1 << 16, PATH_BYTES = 4200 };

typedef struct request {
    const char *rows, *out;
    bool print;
} request;

/* The command line of the training. */
typedef struct command {
    char program[4096], config[PATH_BYTES], forget[ROWS_BYTES], out[PATH_BYTES], resume[PATH_BYTES];
    char *argv[5 + CHARL__CLI_OVERRIDES + 1];
} command;

static charl_status join(char *text, size_t size, const char *a, const char *b, const char *c)
{
    if ((size_t)snprintf(text, size, "%s%s%s", a, b, c) < size) {
        return CHARL_OK;
    }
    CHARL_FAIL(CHARL_ERR_CONFIG, "%.200s... is too long", text);
}

/* The configuration of the run with the rows of r besides those that it forgets already. */
static charl_status load(const request *r, const charl__cli_operands *operands, command *c, charl_config **out)
{
    charl_config_override overrides[CHARL__CLI_OVERRIDES + 1];
    int n = charl__cli_overrides(operands, 1, overrides);
    charl_config *run = NULL;
    charl_status st;

    CHARL_TRY(join(c->config, sizeof c->config, operands->values[0], "/config.ini", ""));
    CHARL_TRY(charl_config_load(c->config, overrides, n, &run));
    st = join(c->forget, sizeof c->forget, "data.forget=", charl__cli_text(run, "data.forget"),
              charl__cli_text(run, "data.forget")[0] ? ", " : "");
    charl_config_destroy(run);
    CHARL_TRY(st);
    CHARL_TRY(join(c->forget + strlen(c->forget), sizeof c->forget - strlen(c->forget), r->rows + strspn(r->rows, " "),
                   "", ""));
    overrides[n++] = (charl_config_override){c->forget, "--rows"};
    return charl_config_load(c->config, overrides, n, out);
}

/* The arguments of charl-train, behind its name. */
static charl_status fill(const request *r, const charl__cli_operands *operands, const char *checkpoint, command *c)
{
    int n = 1;

    CHARL_TRY(join(c->out, sizeof c->out, "run.output_dir=", r->out, ""));
    CHARL_TRY(join(c->resume, sizeof c->resume, "run.resume=", checkpoint ? checkpoint : "auto", ""));
    c->argv[n++] = c->config;
    for (int i = 1; i < operands->count; i++) {
        c->argv[n++] = operands->values[i];
    }
    c->argv[n++] = c->forget;
    c->argv[n++] = c->out;
    c->argv[n++] = c->resume;
    c->argv[n] = NULL;
    return CHARL_OK;
}

/* A run that is at the place of the new one must be the same, begun before and interrupted. */
static charl_status check_place(const request *r, const charl_config *config)
{
    char path[PATH_BYTES];
    charl_config *there = NULL;
    bool is_other;

    CHARL_TRY(join(path, sizeof path, r->out, "/config.ini", ""));
    if (access(path, F_OK) != 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_config_load(path, NULL, 0, &there));
    is_other = strcmp(charl__cli_text(there, "data.forget"), charl__cli_text(config, "data.forget")) != 0;
    charl_config_destroy(there);
    CHARL_REQUIRE(!is_other, CHARL_ERR_CONFIG, "%s holds another run; HINT name a new directory with -o", r->out);
    return CHARL_OK;
}

/* Whether both are the same directory. */
static bool is_same(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* An argument as a shell reads it. */
static void print_argument(const char *text)
{
    printf(" '");
    for (const char *p = text; *p; p++) {
        if (*p == '\'') {
            printf("'\\''");
        } else {
            putchar(*p);
        }
    }
    printf("'");
}

/* Start charl-train in the place of this process, or print its command line. */
static int train(const request *r, command *c)
{
    c->argv[0] = charl__cli_beside("charl-train", c->program);
    if (r->print) {
        printf("charl-train");
        for (int i = 1; c->argv[i]; i++) {
            print_argument(c->argv[i]);
        }
        printf("\n");
        return CHARL__EXIT_OK;
    }
    fflush(stdout);
    execvp(c->program, c->argv);
    return charl__cli_error(CHARL__EXIT_INTERNAL, "it is installed with charl", "cannot start %s: %s", c->program,
                            strerror(errno));
}

static charl_status find(const request *r, const charl__cli_operands *operands, command *c, int64_t *step)
{
    charl_config *config = NULL;
    char *checkpoint = NULL;
    charl_status st = load(r, operands, c, &config);

    st = st == CHARL_OK ? check_place(r, config) : st;
    st = st == CHARL_OK ? charl_forget_find(operands->values[0], config, step, &checkpoint) : st;
    st = st == CHARL_OK ? fill(r, operands, checkpoint, c) : st;
    if (st == CHARL_OK && *step > 0) {
        fprintf(stderr, "step %" PRId64 " is the first that takes one of these rows; training begins %s%s\n", *step,
                checkpoint ? "with " : "from scratch", checkpoint ? checkpoint : "");
    }
    charl_config_destroy(config);
    charl_free(checkpoint);
    return st;
}

int charl__forget_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"rows", 'r', "LIST", "The rows, numbers from 0 of the training split with commas between them; required", 0,
         CHARL__CLI_TEXT(request, rows)},
        {"output", 'o', "RUN2", "Directory of the new run; required", 0, CHARL__CLI_TEXT(request, out)},
        {"print", 'p', NULL, "Print the command line of the training, for mpirun or a job script, and do not train", 0,
         CHARL__CLI_FLAG(request, print)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "RUN --rows LIST -o RUN2 [SECTION.KEY=VALUE...]",
        "Train the run in directory RUN again so that some training rows weigh nothing from the start. Begins with the "
        "newest checkpoint from before the first step that takes one of them, as up to there both trainings are the "
        "same, and sets data.forget. The result has the bits of a whole training with data.forget, but the best "
        "checkpoint and early stopping go by its own evaluations only.\vThe rows keep "
        "their places in the batches, and all other random numbers stay as they are. What the data set holds of them "
        "besides, such as mean and standard deviation of the inputs, classes and vocabulary, remains. Refused are "
        "tokens, batch norm, the loss contrastive, mixup and cutmix, data.sampling other than once, balanced class "
        "weights and "
        "train.products = integer, which let a row have an effect whatever its weight. Settings that change the "
        "training are refused; data.path=FILE names "
        "data that have moved."};
    static command c;
    charl__cli_operands operands = {.names = {"RUN"}, .max = 1 + CHARL__CLI_OVERRIDES};
    request r = {0};
    int64_t step = 0;
    charl_status st;
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    charl__runs_of(operands.values, 1);
    if (!r.rows || !r.out) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "%s: %s is missing", path, r.rows ? "-o RUN2" : "--rows LIST");
    }
    if (is_same(operands.values[0], r.out)) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "-o %s is the run itself: name a new directory", r.out);
    }
    st = find(&r, &operands, &c, &step);
    if (st != CHARL_OK) {
        return charl__cli_fail(st);
    }
    if (step == 0) {
        printf("no step takes one of these rows: the run is already what it would be without them\n");
        return CHARL__EXIT_OK;
    }
    return train(&r, &c);
}

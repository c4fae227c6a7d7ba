/* charl data preview: the first samples of a training step, as the model gets them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <charl/replay.h>
#include "cli/charl/commands.h"

enum { SHOWN = 6, SHOWN_TOKENS = 64 };

typedef struct request {
    int64_t step, count;
    const char *file;
} request;

/* Newline-separated name i, "" if there is none. */
static const char *name_at(const char *names, int64_t i, int *length)
{
    size_t n = 0;
    const char *name = charl_names_get(names, i, &n);

    *length = (int)n;
    return name ? name : "";
}

static void print_numbers(const float *v, const int32_t *whole, int64_t n)
{
    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        if (whole) {
            printf("%s%" PRId32, i > 0 ? " " : "", whole[i]);
        } else {
            printf("%s%.6g", i > 0 ? " " : "", (double)v[i]);
        }
    }
    printf(n > SHOWN ? " ..." : "");
}

/* The target of sample i. */
static void print_target(const charl_step_inputs *in, int64_t i)
{
    const int64_t n = charl_shape_count(&in->y_shape);
    char shape[CHARL_SHAPE_TEXT];
    int length;

    if (!in->data->labelled || (in->weight[i] == 0.0F && in->labels && n == 1)) {
        printf("-"); /* its label does not count */
    } else if (in->y_shape.ndim > 1) {
        printf("%s", charl_shape_format(&in->y_shape, shape));
    } else if (in->labels && n == 1) {
        const char *name = name_at(in->data->class_names, in->labels[i], &length);

        printf(length > 0 ? "%" PRId32 " " : "%" PRId32, in->labels[i]);
        charl__cli_write(stdout, name, (size_t)length);
    } else {
        print_numbers(in->y ? in->y + i * n : NULL, in->labels ? in->labels + i * n : NULL, n);
    }
}

/* The beginning of a text. The model gets the padding of short ones as tokens 0. */
static charl_status print_text(const charl_step_inputs *in, int64_t i)
{
    const int64_t window = charl_shape_count(&in->x_shape), most = window < SHOWN_TOKENS ? window : SHOWN_TOKENS;
    const int32_t *tokens = in->tokens + i * window;
    const int64_t vocab = in->tokenizer ? charl_tokenizer_get_vocab(in->tokenizer) : INT32_MAX;
    char *text = NULL;
    size_t bytes = 0;
    int64_t n = 0;

    while (n < most && tokens[n] >= 0 && tokens[n] < vocab) {
        n++;
    }
    while (in->data->kind == CHARL_DATASET_SEQUENCES && n > 1 && tokens[n - 1] == 0) {
        n--;
    }
    if (!in->tokenizer) {
        print_numbers(NULL, tokens, n);
        return CHARL_OK;
    }
    CHARL_TRY(charl_tokenizer_decode(in->tokenizer, tokens, n, &text, &bytes));
    charl__data_put_quoted(text, bytes);
    printf(n < window && n == SHOWN_TOKENS ? " ..." : "");
    charl_free(text);
    return CHARL_OK;
}

static void print_head(const charl_step_inputs *in, const request *r)
{
    const charl_step_rows *rows = in->rows;
    int length;

    printf("# step %" PRId64 ": the first %" PRId64 " of %" PRId64 " samples of ", rows->step, in->n, rows->n);
    charl__cli_put(rows->n_sets > 0 ? "data.mix" : in->data->path, 0);
    if (r->file) {
        printf(", drawn in ");
        charl__cli_put(r->file, 0);
    }
    printf("\n%s%s%12s", r->file ? " line column" : "  index", rows->n_sets > 0 ? "  set" : "",
           rows->window > 0 ? "token" : "row");
    printf(rows->mixed ? "      partner    share" : "");
    if (rows->window == 0) {
        printf("  target");
    }
    if (in->tokens) {
        printf("  text");
    } else if (!r->file) {
        printf("  |");
        for (int64_t i = 0; i < charl_names_count(in->data->columns) && i < SHOWN; i++) {
            const char *name = name_at(in->data->columns, i, &length);

            printf(" ");
            charl__cli_write(stdout, name, (size_t)length);
        }
    }
    printf("\n");
}

static charl_status print_samples(const charl_step_inputs *in, const request *r)
{
    const charl_step_rows *rows = in->rows;
    const int64_t columns = charl_step_inputs_columns(in), size = charl_shape_count(&in->x_shape);

    print_head(in, r);
    for (int64_t i = 0; i < in->n; i++) {
        const charl_step_sample *s = &rows->sample[i];

        if (r->file) {
            printf("%5" PRId64 " %6" PRId64, i / columns + 1, i % columns + 1);
        } else {
            printf("%7" PRId64, i);
        }
        if (rows->n_sets > 0) {
            printf(" %4d", s->set);
        }
        printf("%12" PRId64, s->row);
        if (rows->mixed) {
            printf(" %12" PRId64 " %8.6f", rows->sample[s->partner].row, (double)s->share);
        }
        if (rows->window == 0) {
            printf("  ");
            print_target(in, i);
        }
        if (in->tokens) {
            printf("  ");
            CHARL_TRY(print_text(in, i));
        } else if (!r->file) {
            printf("  | ");
            print_numbers(in->x + i * size, NULL, size);
        }
        printf("\n");
    }
    return CHARL_OK;
}

static charl_status preview(const charl_config *config, const request *r)
{
    charl_step_inputs *in = NULL;
    charl_status st = charl_step_inputs_create(config, r->step, r->count, &in);

    st = st == CHARL_OK && r->file ? charl_step_inputs_draw(in, r->file) : st;
    st = st == CHARL_OK ? print_samples(in, r) : st;
    charl_step_inputs_destroy(in);
    return st;
}

int charl__data_preview_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"output", 'o', "FILE.png", "Draw the samples, images, in this file, which is replaced if it exists", 0,
         CHARL__CLI_TEXT(request, file)},
        {"rows", 'n', "N", "Number of samples (default 16), at most those of the batch", 0,
         CHARL__CLI_INT(request, count, 1, INT32_MAX)},
        {"step", 's', "N", "The step, counted from 1 as in the log (default 1)", 0,
         CHARL__CLI_INT(request, step, 1, INT64_MAX)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG [-o FILE.png] [SECTION.KEY=VALUE...]",
        "Show the first samples of a training step as the model gets them, after augmentation and in the units of the "
        "data: rows, targets and partners as a table; images as a picture, in lines from the left; of other samples "
        "the first numbers, or the text of the first 64 tokens. They are the same for any number of ranks. run.seed=N "
        "shows what another seed draws."};
    charl__cli_operands operands = {.names = {"CONFIG"}, .max = 1 + CHARL__CLI_OVERRIDES};
    request r = {.step = 1, .count = 16};
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);
    charl_config *config = NULL;
    charl_status st;

    if (code >= 0) {
        return code;
    }
    st = charl__cli_load_config(&operands, 1, &config);
    st = st == CHARL_OK ? preview(config, &r) : st;
    charl_config_destroy(config);
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
}

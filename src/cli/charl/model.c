/* charl model show: the layers of a configuration's model, as a table or a diagram. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/summary.h>
#include "cli/charl/commands.h"
#include "cli/cli_summary.h"

typedef struct request {
    bool dot, svg, given;
    charl_summary_input input;
} request;

/* "3x224x224" */
static error_t parse_input(void *input, const char *option, const char *value)
{
    request *r = input;
    charl_shape *out = &r->input.shape;
    const char *at = value;
    char *end;

    r->given = true;
    *out = (charl_shape){0};
    while (out->ndim + 1 < CHARL_MAX_DIMS) {
        errno = 0;
        out->dim[out->ndim] = strtoll(at, &end, 10);
        if (end == at || errno != 0 || out->dim[out->ndim] < 1 || (*end != 'x' && *end != '\0')) {
            break;
        }
        out->ndim++;
        if (*end == '\0') {
            return 0;
        }
        at = end + 1;
    }
    return charl__cli_bad_option(option, value, "must be the extents of a sample, at most 5 of them, as in 3x224x224");
}

static error_t parse_tokens(void *input, const char *option, const char *value)
{
    request *r = input;

    r->given = r->input.tokens = true;
    r->input.shape.ndim = 1;
    return charl__cli_parse_int(option, value, 1, INT64_MAX, &r->input.shape.dim[0]);
}

/* Text inside quotes (dot) or an element (SVG): names have only letters, digits, dots, hyphens and underscores. */
static void print_dot(const charl_summary *s)
{
    char shape[64];

    printf("digraph model {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n  edge [arrowsize=0.6];\n"
           "  \"%s\" [style=rounded, label=\"%s\\n%s\"];\n",
           CHARL_MODEL_INPUT, CHARL_MODEL_INPUT, charl__cli_extents(&s->input, shape, sizeof shape));
    for (int i = 0; i < s->count; i++) {
        const charl_layer_summary *l = &s->layer[i];

        printf("  \"%s\" [label=\"%s\\n%s\\n%s\"];\n", l->name, l->name, l->type,
               charl__cli_extents(&l->shape, shape, sizeof shape));
        for (int k = 0; k < l->n_inputs; k++) {
            printf("  \"%s\" -> \"%s\";\n", l->inputs[k], l->name);
        }
    }
    printf("}\n");
}

/* Row of a layer in the diagram: the input is row 0. */
static int row_of(const charl_summary *s, const char *name, int before)
{
    for (int i = 0; i < before; i++) {
        if (strcmp(s->layer[i].name, name) == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* The diagram: which layers have a row of it. Layers that repeat those above are drawn once. */
typedef struct diagram {
    const charl_summary *s;
    int *
        from; /* [layers, CHARL_MODEL_MAX_INPUTS] rows of the summary that a layer reads: 0 is the input, 1 the first layer */
    int *row;    /* [layers + 1] row of the diagram for a row of the summary */
    int *copies; /* [layers] where copies begin: how many there are, and */
    int *period; /* [layers] of how many layers; 0: none */
    int rows;
} diagram;

/* Whether layers a and b have the same type, output and parameters, and inputs at the same place or as far above them. */
static bool are_alike(const diagram *d, int a, int b)
{
    const charl_layer_summary *x = &d->s->layer[a], *y = &d->s->layer[b];

    if (strcmp(x->type, y->type) != 0 || !charl_shape_equal(&x->shape, &y->shape) || x->parameters != y->parameters ||
        x->n_inputs != y->n_inputs) {
        return false;
    }
    for (int k = 0; k < x->n_inputs; k++) {
        const int p = d->from[a * CHARL_MODEL_MAX_INPUTS + k], q = d->from[b * CHARL_MODEL_MAX_INPUTS + k];

        if (p != q && a - p != b - q) {
            return false;
        }
    }
    return true;
}

/* How many times the `period` layers at `first` stand there, one after another. */
static int count_copies(const diagram *d, int first, int period)
{
    int copies = 1, i = 0;

    while (first + (copies + 1) * period <= d->s->count) {
        for (i = 0; i < period && are_alike(d, first + i, first + copies * period + i); i++) {
        }
        if (i < period) {
            break;
        }
        copies++;
    }
    return copies;
}

/* Find the copies: at each layer those that leave out most, if they leave out a few. */
static void fold(diagram *d)
{
    enum { LEAST = 3 };
    const charl_summary *s = d->s;

    d->rows = 1;
    for (int i = 0, copies; i < s->count; i += copies * d->period[i]) {
        int best = 0;

        copies = 1;
        d->period[i] = 1;
        for (int period = 1; i + 2 * period <= s->count; period++) {
            const int n = count_copies(d, i, period);

            if (period * (n - 1) > best && period * (n - 1) >= LEAST) {
                best = period * (n - 1);
                copies = n;
                d->period[i] = period;
            }
        }
        d->copies[i] = copies;
        for (int k = 0; k < copies * d->period[i]; k++) {
            d->row[i + k + 1] = d->rows + k % d->period[i];
        }
        d->rows += d->period[i];
    }
}

static charl_status lay_out(const charl_summary *s, diagram *d)
{
    *d = (diagram){.s = s};
    CHARL_TRY(charl__cli_alloc(s->count * CHARL_MODEL_MAX_INPUTS + 1, sizeof *d->from, &d->from));
    CHARL_TRY(charl__cli_alloc(s->count + 1, sizeof *d->row, &d->row));
    CHARL_TRY(charl__cli_alloc(s->count + 1, sizeof *d->copies, &d->copies));
    CHARL_TRY(charl__cli_alloc(s->count + 1, sizeof *d->period, &d->period));
    for (int i = 0; i < s->count; i++) {
        for (int k = 0; k < s->layer[i].n_inputs; k++) {
            d->from[i * CHARL_MODEL_MAX_INPUTS + k] = row_of(s, s->layer[i].inputs[k], i);
        }
    }
    fold(d);
    return CHARL_OK;
}

enum { STEP = 44, BOX = 30, WIDTH = 440, LEFT = 50, FURTHEST = 40 };

/* The box of a layer, of the input for -1, and lines from what it reads: straight from the box above, an arc beside the boxes from another one,
 * which is further out the longer it is. */
static void draw_layer(const diagram *d, int i)
{
    const charl_summary *s = d->s;
    const charl_layer_summary *l = i >= 0 ? &s->layer[i] : NULL;
    const int row = d->row[i + 1], y = row * STEP + 5;
    char shape[64], parameters[32] = "";

    if (l && l->parameters > 0) {
        snprintf(parameters, sizeof parameters, "%" PRId64, l->parameters);
    }
    printf("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>\n"
           "<text x=\"%d\" y=\"%d\">%s</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s  %s</text>"
           "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
           LEFT, y, WIDTH, BOX, LEFT + 8, y + 19, l ? l->name : CHARL_MODEL_INPUT, LEFT + WIDTH - 90, y + 19,
           l ? l->type : charl_dtype_name(s->dtype), charl__cli_extents(l ? &l->shape : &s->input, shape, sizeof shape),
           LEFT + WIDTH - 8, y + 19, parameters);
    for (int k = 0; l && k < l->n_inputs; k++) {
        const int from = d->row[d->from[i * CHARL_MODEL_MAX_INPUTS + k]], reach = row - from;
        const int out = LEFT + WIDTH + 14 + 6 * (reach > FURTHEST ? FURTHEST : reach);

        if (reach == 1) {
            printf("<path d=\"M%d %d V%d\"/>\n", LEFT + WIDTH / 2, y - STEP + BOX, y);
        } else {
            printf("<path d=\"M%d %d C%d %d %d %d %d %d\"/>\n", LEFT + WIDTH, from * STEP + 5 + BOX / 2, out,
                   from * STEP + 5 + BOX / 2, out, y + BOX / 2, LEFT + WIDTH, y + BOX / 2);
        }
    }
}

/* Layers from top to bottom. A bracket is beside those that stand for several copies. */
static charl_status print_svg(const charl_summary *s)
{
    diagram d;
    charl_status st = CHARL_OK;

    CHARL_TRY_CLEANUP(lay_out(s, &d));
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
           "font-size=\"11\">\n"
           "<style>rect{fill:#f4f6f8;stroke:#456}path{fill:none;stroke:#456}</style>\n",
           LEFT + WIDTH + 40 + 6 * (d.rows > FURTHEST ? FURTHEST : d.rows), d.rows * STEP + 30);
    draw_layer(&d, -1);
    for (int i = 0; i < s->count; i += d.copies[i] * d.period[i]) {
        const int top = d.row[i + 1] * STEP + 5, bottom = top + (d.period[i] - 1) * STEP + BOX;

        for (int k = 0; k < d.period[i]; k++) {
            draw_layer(&d, i + k);
        }
        if (d.copies[i] > 1) {
            printf("<path d=\"M%d %d H%d V%d H%d\"/><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%d ×</text>\n",
                   LEFT - 6, top, LEFT - 12, bottom, LEFT - 6, LEFT - 16, (top + bottom) / 2 + 4, d.copies[i]);
        }
    }
    printf("<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%" PRId64 " parameters</text>\n</svg>\n", LEFT + WIDTH - 8,
           d.rows * STEP + 19, s->parameters);
cleanup:
    free(d.from);
    free(d.row);
    free(d.copies);
    free(d.period);
    return st;
}

int charl__model_show_main(const char *path, int argc, char **argv)
{
    static const charl__cli_option options[] = {
        {"input", 'i', "SHAPE", "Shape of a sample, such as 3x224x224 (default: that of the data)", 0,
         .parse = parse_input},
        {"tokens", 0, "N", "A sample is N tokens", 0, .parse = parse_tokens},
        {"outputs", 'n', "N", "With --input or --tokens: classes, values per target, or size of the vocabulary", 0,
         CHARL__CLI_INT(request, input.outputs, 1, INT64_MAX)},
        {"dot", 0, NULL, "Print the graph for Graphviz", 0, CHARL__CLI_FLAG(request, dot)},
        {"svg", 0, NULL, "Print a picture; layers that repeat are drawn once, with their number", 0,
         CHARL__CLI_FLAG(request, svg)},
        {0}};
    static const charl__cli_syntax syntax = {
        options, "CONFIG [SECTION.KEY=VALUE...]",
        "List the layers of the configuration's model: what each reads (where that is not the layer above), the shape "
        "of its output for one sample, its parameters, the floating-point operations of its matrix products, and the "
        "memory of the values that it computes. Needs no device, and of the data only their shape."};
    charl__cli_operands operands = {.names = {"CONFIG"}, .max = 1 + CHARL__CLI_OVERRIDES};
    request r = {0};
    charl_config *config = NULL;
    charl_summary *s = NULL;
    charl_status st;
    const int code = charl__cli_parse(path, &syntax, &operands, argc, argv, &r);

    if (code >= 0) {
        return code;
    }
    if (r.dot && r.svg) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL, "--dot and --svg: choose one");
    }
    if (r.given != (r.input.outputs > 0)) {
        return charl__cli_error(CHARL__EXIT_USAGE, NULL,
                                r.given ? "--outputs is missing: how many classes, values or tokens?"
                                        : "--outputs needs --input or --tokens");
    }
    st = charl__cli_load_config(&operands, 1, &config);
    st = st == CHARL_OK ? charl_summary_create(config, r.given ? &r.input : NULL, &s) : st;
    if (st == CHARL_OK) {
        if (r.svg) {
            st = print_svg(s);
        } else {
            (r.dot ? print_dot : charl__cli_print_summary)(s);
        }
    }
    charl_summary_destroy(s);
    charl_config_destroy(config);
    if (st == CHARL_ERR_DATA && !r.given) {
        return charl__cli_error(CHARL__EXIT_DATA, "without the data: --input 3x224x224 --outputs 10, or --tokens 128",
                                "%s", charl_error_message());
    }
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
}

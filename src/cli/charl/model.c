/* charl model show: the layers of a configuration's model, as a table or a diagram. */
#include <errno.h>
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

/* Layers from top to bottom; a layer that reads the one above it has a straight line, one that reads another an arc beside the boxes, which is
 * further out the longer it is. */
static void print_svg(const charl_summary *s)
{
    enum { STEP = 44, BOX = 30, WIDTH = 360, LEFT = 10 };
    int longest = 0;
    char shape[64];

    for (int i = 0; i < s->count; i++) {
        for (int k = 0; k < s->layer[i].n_inputs; k++) {
            const int reach = i + 1 - row_of(s, s->layer[i].inputs[k], i);

            longest = reach > longest ? reach : longest;
        }
    }
    longest = longest > 40 ? 40 : longest;
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
           "font-size=\"11\">\n"
           "<style>rect{fill:#f4f6f8;stroke:#456}path{fill:none;stroke:#456}</style>\n",
           LEFT + WIDTH + 40 + 6 * longest, (s->count + 1) * STEP + 10);
    for (int i = -1; i < s->count; i++) {
        const charl_layer_summary *l = i >= 0 ? &s->layer[i] : NULL;
        const int y = (i + 1) * STEP + 5;

        printf("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>\n"
               "<text x=\"%d\" y=\"%d\">%s</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s  %s</text>\n",
               LEFT, y, WIDTH, BOX, LEFT + 8, y + 19, l ? l->name : CHARL_MODEL_INPUT, LEFT + WIDTH - 8, y + 19,
               l ? l->type : charl_dtype_name(s->dtype),
               charl__cli_extents(l ? &l->shape : &s->input, shape, sizeof shape));
        for (int k = 0; l && k < l->n_inputs; k++) {
            const int from = row_of(s, l->inputs[k], i), reach = i + 1 - from;
            const int out = LEFT + WIDTH + 14 + 6 * (reach > longest ? longest : reach);

            if (reach == 1) {
                printf("<path d=\"M%d %d V%d\"/>\n", LEFT + WIDTH / 2, y - STEP + BOX, y);
            } else {
                printf("<path d=\"M%d %d C%d %d %d %d %d %d\"/>\n", LEFT + WIDTH, from * STEP + 5 + BOX / 2, out,
                       from * STEP + 5 + BOX / 2, out, y + BOX / 2, LEFT + WIDTH, y + BOX / 2);
            }
        }
    }
    printf("</svg>\n");
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
        {"svg", 0, NULL, "Print a picture", 0, CHARL__CLI_FLAG(request, svg)},
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
        (r.dot ? print_dot : r.svg ? print_svg : charl__cli_print_summary)(s);
    }
    charl_summary_destroy(s);
    charl_config_destroy(config);
    if (st == CHARL_ERR_DATA && !r.given) {
        return charl__cli_error(CHARL__EXIT_DATA, "without the data: --input 3x224x224 --outputs 10, or --tokens 128",
                                "%s", charl_error_message());
    }
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail(st);
}

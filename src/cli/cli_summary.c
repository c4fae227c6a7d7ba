/* The layers of a model as a table. */
#include "cli/cli_summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const char *charl__cli_extents(const charl_shape *s, char *text, size_t size)
{
    size_t used = 0;

    snprintf(text, size, "1");
    for (int i = 0; i < s->ndim && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? "x" : "", s->dim[i]);
    }
    return text;
}

/* 1234567 as "1.23 M"; "" for 0. */
static const char *scaled(double v, double unit, const char *const *names, char *text, size_t size)
{
    int k = 0;

    while (v >= unit && names[k + 1]) {
        v /= unit;
        k++;
    }
    if (v == 0) {
        text[0] = '\0';
    } else {
        snprintf(text, size, "%.*f %s", k == 0 ? 0 : v < 10 ? 2 : v < 100 ? 1 : 0, v, names[k]);
    }
    return text;
}

static const char *flop_text(double v, char *text, size_t size)
{
    static const char *const names[] = {"", "k", "M", "G", "T", NULL};

    return scaled(v, 1000, names, text, size);
}

static const char *bytes_text(int64_t v, char *text, size_t size)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", NULL};

    return scaled((double)v, 1024, names, text, size);
}

enum { NAME_LEAST = 16, NAME_MOST = 256, INDENT = 6 };

/* The inputs, if they are not just the layer above: after the row, which uses `used` columns, or below it if a terminal of `columns`
 * has no room for them. */
static void print_inputs(const charl_summary *s, int i, int used, int columns)
{
    const charl_layer_summary *l = &s->layer[i];
    const char *above = i > 0 ? s->layer[i - 1].name : CHARL_MODEL_INPUT;
    const int most = columns > 0 ? columns - INDENT - 5 : NAME_MOST;
    char name[NAME_MOST + 1];
    int at = used + 4;

    if (l->n_inputs == 1 && strcmp(l->inputs[0], above) == 0) {
        return;
    }
    for (int k = 0; k < l->n_inputs; k++) {
        at += 2 + (int)strlen(l->inputs[k]);
    }
    if (columns > 0 && at > columns) {
        printf("\n%*s<-", INDENT, "");
        at = INDENT + 2;
    } else {
        printf("  <-");
        at = used + 4;
    }
    for (int k = 0; k < l->n_inputs; k++) {
        int length;

        charl__cli_shorten(l->inputs[k], most < NAME_LEAST ? NAME_LEAST : most < NAME_MOST ? most : NAME_MOST, name);
        length = (int)strlen(name);
        if (columns > 0 && k > 0 && at + length + 2 > columns) {
            printf(",\n%*s", INDENT + 2, "");
            at = INDENT + 2;
        } else if (k > 0) {
            putchar(',');
            at++;
        }
        putchar(' ');
        charl__cli_put(name, 0);
        at += 1 + length;
    }
}

void charl__cli_print_summary(const charl_summary *s)
{
    enum { OTHERS = 39 /* columns of a row beside name, type and output */ };
    const int columns = charl__cli_columns(stdout);
    int wide = 8, type = 5, output = columns > 0 ? 6 : 14, room; /* in a file, names and columns are not shortened */
    char shape[64], flop[32], bytes[32];

    room = (int)strlen(charl__cli_extents(&s->input, shape, sizeof shape));
    output = room > output ? room : output;
    for (int i = 0; i < s->count; i++) {
        const int name_length = (int)strlen(s->layer[i].name), type_length = (int)strlen(s->layer[i].type);

        const int output_length = (int)strlen(charl__cli_extents(&s->layer[i].shape, shape, sizeof shape));

        wide = name_length > wide ? name_length : wide;
        type = type_length > type ? type_length : type;
        output = output_length > output ? output_length : output;
    }
    room = columns > 0 ? columns - type - output - OTHERS : NAME_MOST;
    room = room < NAME_LEAST ? NAME_LEAST : room;
    wide = wide > room ? room : wide;
    printf("  %-*s  %-*s  %-*s %11s %8s %9s\n", wide, "layer", type, "type", output, "output", "parameters", "flop",
           "memory");
    printf("  %-*s  %-*s  %-*s\n", wide, CHARL_MODEL_INPUT, type, charl_dtype_name(s->dtype), output,
           charl__cli_extents(&s->input, shape, sizeof shape));
    for (int i = 0; i < s->count; i++) {
        const charl_layer_summary *l = &s->layer[i];
        char parameters[32] = "", name[NAME_MOST + 1];

        if (l->parameters > 0) {
            snprintf(parameters, sizeof parameters, "%" PRId64, l->parameters);
        }
        charl__cli_shorten(l->name, wide, name);
        printf("  %-*s  %-*s  %-*s %11s %8s %9s", wide, name, type, l->type, output,
               charl__cli_extents(&l->shape, shape, sizeof shape), parameters, flop_text(l->flop, flop, sizeof flop),
               bytes_text(l->bytes, bytes, sizeof bytes));
        print_inputs(s, i, OTHERS + wide + type + output, columns);
        putchar('\n');
    }
    snprintf(shape, sizeof shape, "%d layers", s->count);
    printf("  %-*s  %-*s  %-*s %11" PRId64 " %8s %9s\n", wide, shape, type, "", output, "", s->parameters,
           flop_text(s->flop, flop, sizeof flop), bytes_text(s->bytes, bytes, sizeof bytes));
    printf("  Flop and memory are of the forward pass for one sample;\n  memory is of all values, before they share "
           "it.");
    if (s->buffers > 0) {
        printf("\n  %" PRId64 " numbers more are not trained, such as running statistics.", s->buffers);
    }
    putchar('\n');
}

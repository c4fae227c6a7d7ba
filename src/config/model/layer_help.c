/* Help about the layers of sequential models, from the registry of layer types. */
#include <inttypes.h>

#include "base/error.h"
#include "nn/layer.h"
#include "config/config_private.h"

/* Word number i of "a|b|c". */
static const char *choice(const char *choices, int i, char *word, size_t size)
{
    while (charl__choice_next(&choices, word, size) && i > 0) {
        i--;
    }
    return word;
}

charl_status charl__layer_key_default_print(const charl_key *k, const void *defaults, charl__text *t)
{
    const void *at = (const char *)defaults + k->offset;
    const int64_t *n = at;
    const char *name;
    char word[64];

    switch (k->kind) {
    case CHARL_KEY_INT:
        CHARL_TRY(charl__text_printf(t, "%" PRId64, n[0]));
        break;
    case CHARL_KEY_PAIR:
        CHARL_TRY(charl__text_printf(t, "%" PRId64 "x%" PRId64, n[0], n[1]));
        break;
    case CHARL_KEY_TRIPLE:
        CHARL_TRY(charl__text_printf(t, "%" PRId64 "x%" PRId64 "x%" PRId64, n[0], n[1], n[2]));
        break;
    case CHARL_KEY_FLOAT:
        CHARL_TRY(charl__text_printf(t, "%g", *(const double *)at));
        break;
    case CHARL_KEY_BOOL:
        CHARL_TRY(charl__text_printf(t, "%s", *(const bool *)at ? "yes" : "no"));
        break;
    case CHARL_KEY_CHOICE:
        CHARL_TRY(charl__text_printf(t, "%s", choice(k->choices, *(const int *)at, word, sizeof word)));
        break;
    case CHARL_KEY_TEXT:
    case CHARL_KEY_LAYER:
    case CHARL_KEY_ACTIVATION:
        name = *(const char *const *)at;
        CHARL_TRY(charl__text_printf(t, "%s", name ? name : ""));
        break;
    case CHARL_KEY_INTS:
        for (int i = 0; i < ((const charl_int_list *)at)->count; i++) {
            CHARL_TRY(charl__text_printf(t, "%s%" PRId64, i ? ", " : "", ((const charl_int_list *)at)->values[i]));
        }
        break;
    case CHARL_KEY_FLOATS:
        CHARL_TRY(charl__config_print_floats(at, t));
        break;
    case CHARL_KEY_SIZE: /* not layers */
    case CHARL_KEY_STEPS:
        break;
    }
    return CHARL_OK;
}

const char *charl__layer_key_type_text(const charl_key *k)
{
    static const char *const names[] = {
        [CHARL_KEY_INT] = "integer",
        [CHARL_KEY_PAIR] = "an integer, or two as in 3x5,",
        [CHARL_KEY_TRIPLE] = "an integer, or three as in 1x3x3,",
        [CHARL_KEY_INTS] = "integers, as in 8, 16,",
        [CHARL_KEY_FLOATS] = "numbers, as in 0.5, 0.9,",
        [CHARL_KEY_FLOAT] = "number",
        [CHARL_KEY_BOOL] = "yes or no",
        [CHARL_KEY_CHOICE] = "",
        [CHARL_KEY_TEXT] = "text",
        [CHARL_KEY_LAYER] = "name of a layer before; empty: none",
        [CHARL_KEY_ACTIVATION] = "activation; empty: none",
    };

    return names[k->kind];
}

static charl_status print_values(const charl_key *k, charl__text *t)
{
    const bool is_number = k->kind == CHARL_KEY_INT || k->kind == CHARL_KEY_PAIR || k->kind == CHARL_KEY_TRIPLE ||
                           k->kind == CHARL_KEY_INTS || k->kind == CHARL_KEY_FLOATS || k->kind == CHARL_KEY_FLOAT;
    char list[256];

    switch (k->kind) {
    case CHARL_KEY_CHOICE:
        return charl__text_printf(t, "%s", charl__choice_list(NULL, k->choices, list, sizeof list));
    case CHARL_KEY_ACTIVATION:
        return charl__text_printf(t, "%s; empty: none",
                                  charl__text_list(NULL, charl_activation_name, list, sizeof list));
    default:
        CHARL_TRY(charl__text_printf(t, "%s", charl__layer_key_type_text(k)));
        return is_number ? charl__text_printf(t, " in %s", k->range ? k->range : "(-inf,inf)") : CHARL_OK;
    }
}

charl_status charl__layer_help(charl__text *t)
{
    const charl_layer_type *type;

    CHARL_TRY(charl__text_printf(
        t,
        "[layer NAME]\n"
        "  input = NAME, ...\n"
        "      the layers that it reads, from above; the default is the layer above. input is what the model reads\n"
        "  repeat = N\n"
        "      N copies, NAME.0 to NAME.N-1, each of which reads the one before\n"
        "\n[block BLOCK], [block BLOCK.LAYER]\n"
        "  A block defines a layer type: its layers are [block BLOCK.LAYER], and a layer NAME of type = BLOCK stands "
        "for\n"
        "  layers NAME.LAYER. Keys of [block BLOCK] are its parameters with their defaults (none: must be given); "
        "$KEY,\n"
        "  4 * $KEY and $KEY / 2 stand for them in its layers. input, input2, ... are what the block reads; its last\n"
        "  layer is what it puts out.\n\n"
        "Types of layers:\n"));
    for (int i = 0; (type = charl__layer_type_at(i)) != NULL; i++) {
        CHARL_TRY(charl__text_printf(t, "  type = %s\n      %s\n", type->row.name, type->row.help));
        for (int j = 0; j < type->row.n_keys; j++) {
            const charl_key *k = &type->row.keys[j];

            CHARL_TRY(charl__text_printf(t, "    %s", k->name));
            if (k->required) {
                CHARL_TRY(charl__text_printf(t, " (required)"));
            } else {
                CHARL_TRY(charl__text_printf(t, " = "));
                CHARL_TRY(charl__layer_key_default_print(k, type->row.defaults, t));
            }
            CHARL_TRY(charl__text_printf(t, "\n        "));
            CHARL_TRY(print_values(k, t));
            CHARL_TRY(charl__text_printf(t, "\n        %s\n", k->help));
        }
    }
    return CHARL_OK;
}

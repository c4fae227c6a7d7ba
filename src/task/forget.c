/* data.forget: rows of the training split that weigh nothing in the loss. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/registry/key.h"
#include "base/text/text.h"
#include "config/config_rows.h"
#include "config/outputs.h"
#include "io/dataset/weights.h"
#include "task/augment.h"
#include "task/session.h"

enum { WORD = 32 };

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static charl_status read_list(const charl__session *s, const char *text, int64_t *rows, int64_t *n)
{
    const int64_t all = s->data.rows[CHARL_SPLIT_TRAIN];
    char word[WORD];

    for (size_t length; *text; text += length + (text[length] == ',')) {
        text += strspn(text, " ");
        length = strcspn(text, ",");
        snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ", "), text);
        CHARL_REQUIRE(strspn(text + strlen(word), " ") + strlen(word) == length && charl__parse_int(word, &rows[*n]),
                      CHARL_ERR_CONFIG, "data.forget: \"%.*s\" is not the number of a row; write numbers with commas",
                      (int)(length < WORD ? length : WORD), text);
        CHARL_REQUIRE(rows[*n] >= 0 && rows[*n] < all, CHARL_ERR_CONFIG,
                      "data.forget: there is no row %" PRId64 "; the training rows of %s are 0 to %" PRId64, rows[*n],
                      s->data.path, all - 1);
        (*n)++;
    }
    qsort(rows, (size_t)*n, sizeof *rows, compare);
    return CHARL_OK;
}

/* Reject what would let the rows have an effect in spite of their weight. */
static charl_status check(const charl__session *s)
{
    const charl_config *c = s->config;
    charl__outputs outputs;

    CHARL_REQUIRE(s->data.kind != CHARL_DATASET_TOKENS, CHARL_ERR_CONFIG,
                  "data.forget names rows, but %s contains tokens, of which windows are cut", s->data.path);
    CHARL_REQUIRE(c->data.sampling == CHARL_SAMPLING_ONCE, CHARL_ERR_CONFIG,
                  "data.forget: with data.sampling = %s, every row changes which others are drawn; HINT "
                  "data.sampling = once",
                  charl_config_choice_name("data", "sampling", (int)c->data.sampling));
    CHARL_REQUIRE(strcmp(c->train.class_weights, "balanced") != 0, CHARL_ERR_CONFIG,
                  "data.forget: train.class_weights = balanced counts all rows; HINT give the weights as numbers");
    CHARL_REQUIRE(c->train.products != CHARL__PRODUCTS_INTEGER, CHARL_ERR_CONFIG,
                  "data.forget: with train.products = integer, the largest number of all rows decides how gradients of "
                  "weights are rounded; HINT train.products = fma");
    CHARL_TRY(charl__config_outputs(c, s->data.fields, &outputs));
    for (int k = 0; k < outputs.n; k++) {
        CHARL_REQUIRE(outputs.at[k].kind != CHARL_TARGET_NOTHING, CHARL_ERR_CONFIG,
                      "data.forget: the loss %s of the output %s compares each row with all rows of a batch",
                      outputs.at[k].loss->row.name, outputs.at[k].name);
    }
    CHARL_REQUIRE(!charl__augment_mixes(&c->data.augment), CHARL_ERR_CONFIG,
                  "data.forget: mixup and cutmix mix every row into another; HINT leave them out of data.augment");
    return CHARL_OK;
}

charl_status charl__session_check_forgotten(const charl__session *s)
{
    for (int i = 0; i < charl_params_get_count(s->params) && s->config->data.forget[0]; i++) {
        const char *name = charl_param_get_spec(charl_params_get(s->params, i))->name;

        CHARL_REQUIRE(!charl__ends_in(name, ".running_mean"), CHARL_ERR_CONFIG,
                      "data.forget: %.*s is a batch norm, whose statistics are of all rows of a batch; HINT use a "
                      "group norm or a layer norm",
                      (int)strcspn(name, "."), name);
    }
    return CHARL_OK;
}

charl_status charl__session_forget_rows(charl__session *s)
{
    const char *text = s->config->data.forget;

    if (!text[0]) {
        return CHARL_OK;
    }
    CHARL_TRY(check(s));
    CHARL_TRY(charl__alloc_array((int64_t)strlen(text), sizeof *s->forgotten, &s->forgotten));
    CHARL_TRY(read_list(s, text, s->forgotten, &s->n_forgotten));
    CHARL_TRY(charl__dataset_weigh(s->ds, NULL, s->forgotten, s->n_forgotten));
    s->data.weighted = true;
    return CHARL_OK;
}

/* train.class_weights: "balanced", or a number for each class. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/registry/key.h"
#include "config/config_rows.h"
#include "io/dataset/weights.h"
#include "task/evaluation.h"
#include "task/session.h"

enum { BLOCK_LABELS = 1 << 20, WORD = 64 };

charl_status charl__session_count_classes(charl__session *s, charl_split split, int64_t *count)
{
    const int64_t n = s->data.rows[split], labels = charl_shape_count(&s->data.y_shape);
    const int64_t block = labels < BLOCK_LABELS ? BLOCK_LABELS / labels : 1;
    CHARL_SCOPED_FREE int64_t *rows = NULL;
    CHARL_SCOPED_FREE int32_t *label = NULL;

    memset(count, 0, (size_t)s->data.classes * sizeof *count);

    CHARL_TRY(charl__alloc_array(block, sizeof *rows, &rows));
    CHARL_TRY(charl__alloc_array(block * labels, sizeof *label, &label));
    for (int64_t first = 0; first < n; first += block) {
        const int64_t m = n - first < block ? n - first : block;

        for (int64_t i = 0; i < m; i++) {
            rows[i] = first + i;
        }
        CHARL_TRY(charl_dataset_read(s->ds, split, rows, m, NULL, label));
        for (int64_t i = 0; i < m * labels; i++) {
            if (label[i] >= 0) {
                count[label[i]]++;
            }
        }
    }
    return CHARL_OK;
}

/* Weights are inversely proportional to the number of samples or pixels: samples / (classes * samples of the class), over classes that occur. */
static charl_status balance(charl__session *s, float *out)
{
    CHARL_SCOPED_FREE int64_t *count = NULL;
    int64_t samples = 0, occur = 0;

    CHARL_TRY(charl__alloc_array(s->data.classes, sizeof *count, &count));
    CHARL_TRY(charl__session_count_classes(s, CHARL_SPLIT_TRAIN, count));
    for (int64_t c = 0; c < s->data.classes; c++) {
        samples += count[c];
        occur += count[c] > 0;
    }
    for (int64_t c = 0; c < s->data.classes; c++) {
        out[c] = count[c] > 0 ? (float)((double)samples / ((double)occur * (double)count[c])) : 1.0F;
    }
    return CHARL_OK;
}

static charl_status read_list(const charl__session *s, const char *text, float *out)
{
    int64_t n = 0;
    char word[WORD];
    double v, sum = 0;

    for (size_t length; *text; text += length + (text[length] == ',')) {
        length = strcspn(text, ",");
        text += strspn(text, " ") < length ? strspn(text, " ") : 0;
        length = strcspn(text, ", ");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        length += strspn(text + length, " ");
        CHARL_REQUIRE(text[length] == ',' || text[length] == '\0', CHARL_ERR_CONFIG,
                      "train.class_weights: a comma is missing after \"%s\"", word);
        CHARL_REQUIRE(
            charl__parse_float(word, &v) && charl__range_holds("[0,1e30]", v), CHARL_ERR_CONFIG,
            "train.class_weights: \"%s\" is not a weight; write balanced, or a number from 0 on for each class", word);
        if (n < s->data.classes) {
            out[n] = (float)v;
        }
        sum += v;
        n++;
    }
    CHARL_REQUIRE(n == s->data.classes, CHARL_ERR_CONFIG,
                  "train.class_weights has %lld weights, but %s has %lld classes", (long long)n, s->data.path,
                  (long long)s->data.classes);
    CHARL_REQUIRE(sum > 0, CHARL_ERR_CONFIG, "train.class_weights are all 0");
    return CHARL_OK;
}

charl_status charl__session_weigh_classes(charl__session *s)
{
    const char *text = s->config->train.class_weights;
    const charl__loss *loss = charl__config_loss(s->config);
    const charl_target_kind targets = charl__task_targets(loss, &s->data);
    const bool has_classes =
        s->data.labelled && s->data.classes > 0 && s->data.y_dtype == CHARL_I32 &&
        (targets == CHARL_TARGET_MAPS ? !loss->build_counted
                                      : targets == CHARL_TARGET_CLASS && s->data.y_shape.ndim == 0);
    CHARL_SCOPED_FREE float *weights = NULL;

    if (!text[0]) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(has_classes, CHARL_ERR_CONFIG,
                  "train.class_weights weighs classes for cross_entropy or focal; %s holds %s, and train.loss = %s",
                  s->data.path, charl_dataset_kind_name(s->data.kind), s->config->train.loss);
    CHARL_TRY(charl__alloc_array(s->data.classes, sizeof *weights, &weights));
    CHARL_TRY(strcmp(text, "balanced") == 0 ? balance(s, weights) : read_list(s, text, weights));
    CHARL_TRY(charl__dataset_weigh(s->ds, weights, NULL, 0));
    s->data.weighted = true;
    return CHARL_OK;
}

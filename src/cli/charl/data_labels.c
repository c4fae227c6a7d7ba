/* Number of samples of each class of a data set. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/data_schema.h>
#include "cli/charl/commands.h"

enum { BLOCK = 65536, MOST_SHOWN = 12, SKEWED = 10 };

static charl_status count(charl_dataset *ds, const charl_dataset_info *info, charl_split split, int64_t *counts)
{
    charl_status st = CHARL_OK;
    int64_t *rows = NULL;
    int32_t *labels = NULL;

    CHARL_TRY_CLEANUP(charl__cli_alloc(BLOCK, sizeof *rows, &rows));
    CHARL_TRY_CLEANUP(charl__cli_alloc(BLOCK, sizeof *labels, &labels));
    for (int64_t first = 0; first < info->rows[split]; first += BLOCK) {
        const int64_t n = info->rows[split] - first < BLOCK ? info->rows[split] - first : BLOCK;

        for (int64_t i = 0; i < n; i++) {
            rows[i] = first + i;
        }
        CHARL_TRY_CLEANUP(charl_dataset_read(ds, split, rows, n, NULL, labels));
        for (int64_t i = 0; i < n; i++) {
            if (labels[i] >= 0) { /* otherwise it is not a class and is not counted */
                counts[labels[i]]++;
            }
        }
    }
cleanup:
    free(rows);
    free(labels);
    return st;
}

static void put_class(const charl_dataset_info *info, int64_t i, FILE *out)
{
    size_t length = 0;
    const char *name = charl_names_get(info->class_names, i, &length);

    if (name) {
        charl__cli_write(out, name, length);
    } else {
        fprintf(out, "%" PRId64, i);
    }
}

static void print_counts(const charl_dataset_info *info, charl_split split, const int64_t *counts)
{
    int64_t least = INT64_MAX, most = 0;

    printf("  %-10s ", split == CHARL_SPLIT_TRAIN ? "per class" : "");
    if (info->classes <= MOST_SHOWN) {
        for (int64_t i = 0; i < info->classes; i++) {
            printf("%s", i ? ", " : "");
            put_class(info, i, stdout);
            printf(" %" PRId64, counts[i]);
        }
    } else {
        for (int64_t i = 0; i < info->classes; i++) {
            least = counts[i] < least ? counts[i] : least;
            most = counts[i] > most ? counts[i] : most;
        }
        printf("%" PRId64 " to %" PRId64, least, most);
    }
    printf(" in %s\n", charl_split_name(split));
}

/* A rare class is soon never predicted, and the accuracy does not show it. */
static void warn(const charl_dataset_info *info, const int64_t *counts)
{
    int64_t least = 0, most = 0, all = 0, occurring = 0, single = 0;
    char text[256];

    for (int64_t i = 0; i < info->classes; i++) {
        least = counts[i] < counts[least] ? i : least;
        most = counts[i] > counts[most] ? i : most;
        all += counts[i];
        occurring += counts[i] > 0; /* numeric labels may have gaps */
        single += counts[i] == 1;
    }
    if (2 * single > occurring) {
        charl__cli_say("warning", info->kind == CHARL_DATASET_SEQUENCES ? "most classes have only one text"
                                  : info->kind == CHARL_DATASET_TABLE
                                      ? "most classes have only one sample; if the target is a number, use --regression"
                                      : "most classes have only one sample");
        return;
    }
    if (counts[most] < SKEWED * counts[least] || all == 0) {
        return;
    }
    snprintf(text, sizeof text,
             "the classes are uneven: the largest has %" PRId64 " of %" PRId64
             " training samples (%.0f %%), the smallest %" PRId64
             "; accuracy hides that, the metric f1 does not (eval.metrics = f1)",
             counts[most], all, 100.0 * (double)counts[most] / (double)all, counts[least]);
    charl__cli_say("warning", text);
}

charl_status charl__data_show_labels(charl_dataset *ds, const charl_dataset_info *info, bool warns)
{
    charl_status st = CHARL_OK;
    int64_t *counts = NULL;

    if (info->kind == CHARL_DATASET_TOKENS || !info->labelled || info->y_dtype != CHARL_I32 || info->y_shape.ndim > 0) {
        return CHARL_OK;
    }
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        if (info->rows[s] == 0) {
            continue;
        }
        CHARL_TRY_CLEANUP(charl__cli_alloc(info->classes, sizeof *counts, &counts));
        memset(counts, 0, (size_t)info->classes * sizeof *counts);
        CHARL_TRY_CLEANUP(count(ds, info, (charl_split)s, counts));
        print_counts(info, (charl_split)s, counts);
        if (warns && s == CHARL_SPLIT_TRAIN) {
            fflush(stdout);
            warn(info, counts);
        }
        free(counts);
        counts = NULL;
    }
cleanup:
    free(counts);
    return st;
}

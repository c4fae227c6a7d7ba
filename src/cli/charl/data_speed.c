/* Reading speed of a data set. */
#include <math.h>
#include <stdio.h>

#include <charl/error.h>
#include <charl/loader.h>
#include "cli/charl/commands.h"

enum { MOST_ROWS = 256, MOST_STEPS = 100000 };

static const double long_enough_s = 0.3;

/* *rows_per_s of training batches, and their *bytes_per_s. The first batch is not timed. */
static charl_status measure(charl_dataset *ds, const charl_dataset_info *info, charl_shuffle order, double *rows_per_s,
                            double *bytes_per_s)
{
    charl_status st = CHARL_OK;
    const int64_t all = info->rows[CHARL_SPLIT_TRAIN];
    const charl_loader_options options = {sizeof options, .batch_size = all < MOST_ROWS ? all : MOST_ROWS,
                                          .shuffle = order, .seed = 1};
    charl_loader *loader = NULL;
    charl_loader_batch batch;
    double begin, end = 0, rows = 0, bytes = 0;

    CHARL_TRY_CLEANUP(charl_loader_create(ds, NULL, &options, &loader));
    CHARL_TRY_CLEANUP(charl_loader_next(loader, &batch));
    begin = charl__cli_clock_s();
    for (int i = 0; i < MOST_STEPS && (i == 0 || end - begin < long_enough_s); i++) {
        CHARL_TRY_CLEANUP(charl_loader_next(loader, &batch));
        rows += (double)batch.rows;
        bytes += (double)(batch.x_bytes + batch.y_bytes);
        end = charl__cli_clock_s();
    }
    *rows_per_s = rows / fmax(end - begin, 1e-9);
    *bytes_per_s = bytes / fmax(end - begin, 1e-9);
cleanup:
    charl_loader_destroy(loader);
    return st;
}

static void put_rate(double rows, double bytes)
{
    printf(" %.0f samples/s (%.*f MB/s)", rows, bytes < 1e7 ? 1 : 0, bytes * 1e-6);
}

charl_status charl__data_show_speed(charl_dataset *ds, const charl_dataset_info *info)
{
    double rows = 0, bytes = 0;

    if (info->rows[CHARL_SPLIT_TRAIN] == 0 ||
        (info->kind == CHARL_DATASET_TOKENS && charl_shape_count(&info->x_shape) < 2)) {
        return CHARL_OK;
    }
    CHARL_TRY(measure(ds, info, CHARL_SHUFFLE_ROWS, &rows, &bytes));
    printf("  %-10s shuffled", "speed");
    put_rate(rows, bytes);
    if (info->rows_note[0]) {
        CHARL_TRY(measure(ds, info, CHARL_SHUFFLE_BLOCKS, &rows, &bytes));
        printf(", in blocks");
        put_rate(rows, bytes);
    }
    printf("\n");
    return CHARL_OK;
}

/* The samples of a step, as the loaders of a training choose them (task/device_loader.c). */
#include "charl/replay.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "io/dataset/order/stream.h"
#include "task/augment.h"
#include "task/session.h"
#include "task/task.h"

/* The set of a mix that `place` is in; the place within it remains in *place. */
static int set_of(const charl__stream *s, int64_t *place)
{
    int set = 0;

    while (set + 1 < s->n_parts && *place >= s->part[set + 1].first_place) {
        set++;
    }
    *place -= s->part[set].first_place;
    return set;
}

static charl_status check(const charl_config *c, const charl_dataset_info *data, int64_t step)
{
    const int64_t batch = c->train.batch_size, rows = data->rows[CHARL_SPLIT_TRAIN];

    CHARL_REQUIRE(step >= 1 && step <= INT64_MAX / batch, CHARL_ERR_CONFIG,
                  "there is no step %" PRId64 "; the first is step 1", step);
    CHARL_REQUIRE(batch <= rows, CHARL_ERR_CONFIG,
                  "train.batch_size = %" PRId64 " is more than the %" PRId64 " training rows of %s", batch, rows,
                  data->path);
    return CHARL_OK;
}

static charl_status fill(const charl_config *c, const charl__session *s, charl_step_rows *rows)
{
    const uint64_t seed = (uint64_t)c->run.seed;
    const int64_t first = (rows->step - 1) * rows->n;
    const charl_shape seen = charl__task_input_shape(c, &s->data.x_shape);
    charl__stream stream;
    CHARL_SCOPED_FREE int64_t *places = NULL;

    CHARL_TRY(charl__alloc_array(rows->n, sizeof *places, &places));
    charl__stream_init(&stream, s->ds, CHARL_SPLIT_TRAIN, c->data.shuffle, seed);
    charl__stream_places(&stream, first, rows->n, places);
    for (int64_t i = 0; i < rows->n; i++) {
        charl_step_sample *sample = &rows->sample[i];
        charl__augment_draws draws;

        *sample = (charl_step_sample){.position = first + i,
                                      .epoch = (first + i) / rows->train_rows,
                                      .partner = rows->mixed ? rows->n - 1 - i : i,
                                      .share = 1.0F};
        sample->set = set_of(&stream, &places[i]);
        sample->row = places[i];
        if (rows->mixed) {
            charl__augment_draw(&c->data.augment, &s->data.x_shape, &seen, seed, rows->step - 1, i, &draws);
            sample->share = draws.share;
        }
    }
    return CHARL_OK;
}

charl_status charl_step_rows_create(const charl_config *config, int64_t step, charl_step_rows **out)
{
    CHARL_GIVEN(config, out);
    charl_status st = CHARL_OK;
    charl__session s = {.config = config};
    charl_step_rows *rows = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__session_open_data(&s, CHARL_SPLIT_TRAIN));
    CHARL_TRY_CLEANUP(check(config, &s.data, step));
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *rows, &rows));
    *rows = (charl_step_rows){.step = step,
                              .n = config->train.batch_size,
                              .slices = charl__config_slices(config),
                              .n_sets = config->data.mix.count,
                              .sets = config->data.mix.path,
                              .mixed = charl__augment_mixes(&config->data.augment),
                              .train_rows = s.data.rows[CHARL_SPLIT_TRAIN],
                              .window = s.data.kind == CHARL_DATASET_TOKENS ? s.data.x_shape.dim[0] : 0};
    CHARL_TRY_CLEANUP(charl__alloc_array(rows->n, sizeof *rows->sample, &rows->sample));
    CHARL_TRY_CLEANUP(fill(config, &s, rows));
    *out = rows;
    rows = NULL;
cleanup:
    charl_step_rows_destroy(rows);
    charl__session_fini(&s);
    return st;
}

void charl_step_rows_destroy(charl_step_rows *rows)
{
    if (rows) {
        charl_free(rows->sample);
        charl_free(rows);
    }
}

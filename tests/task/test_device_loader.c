/* What a step is fed with: batches on the device, and what augmentation draws for their rows. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/graph.h"
#include "base/alloc.h"
#include "io/dataset/dataset_write.h"
#include "task/augment.h"
#include "task/device_loader.h"

/* Batches of tokens on the device: the windows of the training stream whether the tokens lie on the
 * device or are read while training, on one rank or as parts; and evaluation in windows that do not
 * overlap. */

enum { TRAIN = 2003, VAL = 75, WINDOW = 12, BATCH = 8, SEED = 77 };

static charl_device *dev;
static char *dir;

static uint16_t token_at(int64_t i)
{
    return (uint16_t)(i * 7 % 1201);
}

static charl_dataset *open_tokens(void)
{
    const char *path = charl_test_path(dir, "tokens.h5");
    const charl__writer_spec spec = {
        .kind = CHARL_DATASET_TOKENS, .x_dtype = CHARL_U16, .rows = TRAIN, .more = VAL, .classes = 1201};
    const charl_import_options replace = {sizeof replace, .overwrite = true};
    static uint16_t tokens[TRAIN + VAL];
    charl__writer *w = NULL;
    charl_dataset *ds = NULL;

    for (int64_t i = 0; i < TRAIN + VAL; i++) {
        tokens[i] = token_at(i);
    }
    charl_assert_ok(charl__writer_create(path, &spec, &replace, &w));
    charl_assert_ok(charl__writer_put(w, tokens, NULL, TRAIN + VAL));
    charl_assert_ok(charl__writer_finish(w));
    charl__writer_destroy(w);
    charl_assert_ok(
        charl_dataset_open(path, &(charl_dataset_options){sizeof(charl_dataset_options), .window = WINDOW}, &ds));
    return ds;
}

/* A feed and the graph that it fills. */
typedef struct bench {
    charl_dataset *ds;
    charl__device_loader *feed;
    charl_graph *g;
    charl_var *x, *y, *weight;
    int64_t rows;
} bench;

static charl_status attach(bench *b, int64_t rows)
{
    charl__device_loader_vars in;

    b->rows = rows;
    CHARL_TRY(charl_graph_create(dev, NULL, &b->g));
    charl__device_loader_attach(b->feed, b->g, rows, &in);
    b->x = in.x;
    b->y = in.y;
    b->weight = in.weight;
    charl_graph_keep(b->g, b->x);
    charl_graph_keep(b->g, b->y);
    charl_graph_keep(b->g, b->weight);
    CHARL_TRY(charl_graph_compile(b->g));
    return CHARL_OK;
}

static charl_status start(bench *b, const charl__device_loader_options *o)
{
    CHARL_TRY(charl__device_loader_create(o, &b->feed));
    CHARL_TRY(attach(b, o->rows));
    return CHARL_OK;
}

/* Another part of every batch. */
static charl_status divide(bench *b, int64_t row0, int64_t rows)
{
    charl_graph_destroy(b->g);
    b->g = NULL;
    CHARL_TRY(charl__device_loader_divide(b->feed, row0, rows));
    CHARL_TRY(attach(b, rows));
    return CHARL_OK;
}

static void stop(bench *b)
{
    charl_graph_destroy(b->g);
    charl__device_loader_destroy(b->feed);
}

static charl__device_loader_options options(charl_dataset *ds, charl_split split, bool on_device)
{
    const bool training = split == CHARL_SPLIT_TRAIN;

    return (charl__device_loader_options){.dev = dev,
                                          .ds = ds,
                                          .split = split,
                                          .shuffle = training,
                                          .endless = training,
                                          .seed = SEED,
                                          .batch = BATCH,
                                          .rows = BATCH,
                                          .on_device = on_device};
}

static charl_status step(bench *b, int32_t *x, int32_t *y, float *weight)
{
    const size_t bytes = (size_t)(b->rows * WINDOW) * 4;

    CHARL_TRY(charl__device_loader_next(b->feed));
    CHARL_TRY(charl_graph_run(b->g));
    CHARL_TRY(charl__device_loader_used(b->feed));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(b->x), x, bytes));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(b->y), y, bytes));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(b->weight), weight, (size_t)b->rows * 4));
    return CHARL_OK;
}

/* Row r of x and y is the window that begins at token `at`. */
static void assert_window(const int32_t *x, const int32_t *y, int64_t r, int64_t at)
{
    for (int64_t j = 0; j < WINDOW; j++) {
        assert_int_equal(x[r * WINDOW + j], token_at(at + j));
        assert_int_equal(y[r * WINDOW + j], token_at(at + j + 1));
    }
}

/* What rows [row0, row0 + b->rows) of a batch are in the steps from `first` on. */
static void check_stream(bench *b, int64_t row0, int64_t first, int64_t steps)
{
    const int64_t n = charl__device_loader_rows(b->feed);
    int32_t x[BATCH * WINDOW], y[BATCH * WINDOW];
    float weight[BATCH];

    charl_assert_ok(charl__device_loader_seek(b->feed, first));
    for (int64_t k = first; k < first + steps; k++) {
        charl_assert_ok(step(b, x, y, weight));
        for (int64_t r = 0; r < b->rows; r++) {
            const int64_t p = k * BATCH + row0 + r;

            assert_window(x, y, r,
                          charl_order_row(SEED, n, true, p) * WINDOW + charl_order_shift(SEED, n, true, p, WINDOW));
            assert_true(weight[r] == 1.0F);
        }
    }
}

/* Over the end of an epoch. */
static void check_training(bool on_device, int64_t row0, int64_t rows, int64_t first)
{
    bench b = {.ds = open_tokens()};
    charl__device_loader_options o = options(b.ds, CHARL_SPLIT_TRAIN, on_device);

    o.row0 = row0;
    o.rows = rows;
    charl_assert_ok(start(&b, &o));
    assert_int_equal(charl__device_loader_rows(b.feed), TRAIN / WINDOW - 1);
    check_stream(&b, row0, first, 30);
    stop(&b);
    charl_dataset_close(b.ds);
}

static void another_part(void **state)
{
    (void)state;
    for (int on_device = 0; on_device < 2; on_device++) {
        bench b = {.ds = open_tokens()};
        const charl__device_loader_options o = options(b.ds, CHARL_SPLIT_TRAIN, on_device);

        charl_assert_ok(start(&b, &o));
        check_stream(&b, 0, 4, 5);
        charl_assert_ok(divide(&b, 5, 3));
        check_stream(&b, 5, 9, 5);
        charl_assert_ok(divide(&b, 2, 6));
        check_stream(&b, 2, 14, 5);
        stop(&b);
        charl_dataset_close(b.ds);
    }
}

static void the_training_stream(void **state)
{
    (void)state;
    for (int on_device = 0; on_device < 2; on_device++) {
        check_training(on_device, 0, BATCH, 0);
        check_training(on_device, 3, 2, 13);
    }
}

/* Every window of the split once, in order; what fills the last batch up has no weight. */
static void evaluation_tiles(void **state)
{
    (void)state;
    for (int on_device = 0; on_device < 2; on_device++) {
        bench b = {.ds = open_tokens()};
        const charl__device_loader_options o = options(b.ds, CHARL_SPLIT_VAL, on_device);
        int32_t x[BATCH * WINDOW], y[BATCH * WINDOW];
        float weight[BATCH];

        charl_assert_ok(start(&b, &o));
        assert_int_equal(charl__device_loader_rows(b.feed), (VAL - 1) / WINDOW);
        charl_assert_ok(charl__device_loader_seek(b.feed, 0));
        charl_assert_ok(step(&b, x, y, weight));
        for (int64_t r = 0; r < BATCH; r++) {
            const bool inside = r < (VAL - 1) / WINDOW;

            if (inside) {
                assert_window(x, y, r, TRAIN + r * WINDOW);
            }
            assert_true(weight[r] == (inside ? 1.0F : 0.0F));
        }
        stop(&b);
        charl_dataset_close(b.ds);
    }
}

static void bytes_on_the_device(void **state)
{
    charl_dataset *ds = open_tokens();
    charl_dataset_info info;

    (void)state;
    charl_dataset_get_info(ds, &info);
    assert_int_equal(charl__device_loader_split_bytes(&info, CHARL_SPLIT_TRAIN), 2 * TRAIN);
    charl_dataset_close(ds);
}

static charl_status feed_once(void *ctx)
{
    bench b = {.ds = ctx};
    const charl__device_loader_options o = options(ctx, CHARL_SPLIT_TRAIN, true);
    charl_status st = start(&b, &o);

    if (st == CHARL_OK) {
        st = divide(&b, 1, 2);
    }
    stop(&b);
    return st;
}

static void every_acquisition_may_fail(void **state)
{
    charl_dataset *ds = open_tokens();

    (void)state;
    assert_true(charl_test_fail_every_acquisition(feed_once, ds) > 10);
    charl_dataset_close(ds);
}

/* What augmentation draws: shares of mixup from Beta(alpha, alpha), boxes of images, all a function of seed, step and
 * row; and which settings fit which data. */

enum { DRAWS = 20000 };

static void shares_are_beta(void **state)
{
    static const double alphas[] = {0.01, 0.2, 1.0, 4.0, 100.0};

    (void)state;
    for (int k = 0; k < 5; k++) {
        const double a = alphas[k], variance = 1.0 / (4.0 * (2.0 * a + 1.0));
        const double fourth = 3.0 * variance * variance * (2.0 * a + 1.0) / (2.0 * a + 3.0);
        double sum = 0, square = 0, power = 0;

        for (int64_t i = 0; i < DRAWS; i++) {
            const double x = (double)charl__mixup_share(a, 5, i / 100, i % 100) - 0.5;

            assert_true(x >= -0.5 && x <= 0.5);
            sum += x;
            square += x * x;
            power += x * x * x * x;
        }
        assert_true(fabs(sum / DRAWS) < 4.0 * sqrt(variance / DRAWS));
        assert_true(fabs(square / DRAWS / variance - 1.0) < 0.05);
        assert_true(fabs(power / DRAWS / fourth - 1.0) < 0.1);
    }
}

static void shares_are_functions_of_their_place(void **state)
{
    const float one = charl__mixup_share(0.4, 1, 2, 3);

    (void)state;
    assert_true(one == charl__mixup_share(0.4, 1, 2, 3));
    assert_true(one != charl__mixup_share(0.4, 9, 2, 3));
    assert_true(one != charl__mixup_share(0.4, 1, 9, 3));
    assert_true(one != charl__mixup_share(0.4, 1, 2, 9));
}

static const charl_shape wide = {3, {3, 40, 60}};

static bool is_inside(const float *box)
{
    return box[0] >= 0 && box[1] >= 0 && box[2] >= 1 && box[3] >= 1 && box[0] + box[2] <= 40 && box[1] + box[3] <= 60;
}

/* Areas are uniform in [0.08, 1], but for those that do not fit; where all fit, the logarithms of the ratios are even about 0. 0.370
 * and 0.396 are what torchvision's algorithm gives in Python. */
static void crops_are_drawn_as_published(void **state)
{
    const charl__augment a = {.resized_crop = 0.08};
    double small = 0, area = 0, ratio = 0;

    (void)state;
    for (int64_t i = 0; i < DRAWS; i++) {
        charl__augment_draws d;
        double r;

        charl__augment_draw(&a, &wide, &wide, 7, i / 100, i % 100, &d);
        r = log((double)d.crop[3] / (double)d.crop[2]);
        assert_true(is_inside(d.crop));
        assert_true(fabs(r) < log(4.0 / 3.0) + 0.1 || d.crop[2] < 14); /* of whole pixels */
        assert_true(d.share == 1.0F && d.blend == 1.0F && d.erase[2] == 0.0F && d.paste[2] == 0.0F);
        area += (double)(d.crop[2] * d.crop[3]) / 2400.0;
        if (d.crop[2] * d.crop[3] < 0.31F * 2400.0F) {
            small++;
            ratio += r;
        }
    }
    assert_true(fabs(ratio / small) < 0.01);
    assert_true(fabs(small / DRAWS - 0.370) < 0.01);
    assert_true(fabs(area / DRAWS - 0.396) < 0.01);
}

/* A picture that no box fits shows its middle. */
static void narrow_pictures_show_their_middle(void **state)
{
    const charl_shape narrow = {3, {1, 4, 90}};
    const charl__augment a = {.resized_crop = 1.0};
    charl__augment_draws d;

    (void)state;
    charl__augment_draw(&a, &narrow, &narrow, 1, 2, 3, &d);
    assert_true(d.crop[0] == 0 && d.crop[2] == 4 && d.crop[3] == 5 && d.crop[1] == 42);
}

static void boxes_are_erased_and_pasted(void **state)
{
    const charl__augment a = {.erase = 0.25, .cutmix = 1, .mixup = 0.4};
    double erased = 0, pasted = 0, part = 0;

    (void)state;
    for (int64_t i = 0; i < DRAWS; i++) {
        charl__augment_draws d;

        charl__augment_draw(&a, &wide, &wide, 7, i / 100, i % 100, &d);
        assert_true(d.erase[2] == 0.0F || (is_inside(d.erase) && d.erase[2] < 40 && d.erase[3] < 60));
        erased += d.erase[2] > 0;
        part += (double)(d.erase[2] * d.erase[3]) / 2400.0;
        assert_true(d.blend == 1.0F ? fabsf(1.0F - d.paste[2] * d.paste[3] / 2400.0F - d.share) < 1e-6F
                                    : d.blend == d.share && d.paste[2] == 0.0F);
        pasted += d.blend == 1.0F;
    }
    assert_true(fabs(erased / DRAWS - 0.25) < 0.02);
    assert_true(part / erased > 0.14 && part / erased < 0.19);
    assert_true(fabs(pasted / DRAWS - 0.5) < 0.03);
}

/* Each in turn comes first, by a factor in its range; what is not wanted is not drawn. */
static void colours_are_jittered_in_any_order(void **state)
{
    const charl__augment a = {.brightness = 0.4, .contrast = 0.2, .saturation = 1, .hue = 0.1};
    const charl__augment two = {.contrast = 0.2, .hue = 0.5};
    static const double middle[CHARL_TRANSFORM_COUNT] = {
        [CHARL_TRANSFORM_BRIGHTNESS] = 1, [CHARL_TRANSFORM_CONTRAST] = 1, [CHARL_TRANSFORM_SATURATION] = 1};
    static const double most[CHARL_TRANSFORM_COUNT] = {[CHARL_TRANSFORM_BRIGHTNESS] = 0.4,
                                                       [CHARL_TRANSFORM_CONTRAST] = 0.2,
                                                       [CHARL_TRANSFORM_SATURATION] = 1,
                                                       [CHARL_TRANSFORM_HUE] = 0.1};
    int first[CHARL_TRANSFORM_COUNT] = {0};
    charl__augment_draws d;

    (void)state;
    assert_int_equal(charl__augment_levels(&a), 4);
    assert_int_equal(charl__augment_levels(&two), 2);
    for (int64_t i = 0; i < DRAWS; i++) {
        unsigned seen = 0;

        charl__augment_draw(&a, &wide, &wide, 7, i / 100, i % 100, &d);
        first[d.kinds[0]]++;
        for (int k = 0; k < 4; k++) {
            seen |= 1U << d.kinds[k];
            assert_true(fabs((double)d.amounts[k][0] - middle[d.kinds[k]]) <= most[d.kinds[k]] + 1e-6);
        }
        assert_int_equal(seen, 1U << CHARL_TRANSFORM_BRIGHTNESS | 1U << CHARL_TRANSFORM_CONTRAST |
                                   1U << CHARL_TRANSFORM_SATURATION | 1U << CHARL_TRANSFORM_HUE);
    }
    assert_in_range(first[CHARL_TRANSFORM_BRIGHTNESS], DRAWS / 4 - 300, DRAWS / 4 + 300);
    assert_in_range(first[CHARL_TRANSFORM_HUE], DRAWS / 4 - 300, DRAWS / 4 + 300);
    charl__augment_draw(&two, &wide, &wide, 7, 1, 1, &d);
    assert_int_equal(d.kinds[0] + d.kinds[1], CHARL_TRANSFORM_CONTRAST + CHARL_TRANSFORM_HUE);
}

/* RandAugment with the magnitude 15 of 30: half of the largest amounts, up and down; 5 of 14 changes move the image. */
static void random_changes_have_their_magnitude(void **state)
{
    const charl__augment a = {.hue = 0.1, .randaugment = 2, .magnitude = 15};
    int count[CHARL_TRANSFORM_COUNT] = {0}, up = 0;

    (void)state;
    for (int64_t i = 0; i < DRAWS; i++) {
        charl__augment_draws d;

        charl__augment_draw(&a, &wide, &wide, 7, i / 100, i % 100, &d);
        assert_int_equal(d.kinds[0], CHARL_TRANSFORM_HUE);
        for (int k = 1; k < 3; k++) {
            const float *v = d.amounts[k];

            count[d.kinds[k]]++;
            if (d.kinds[k] == CHARL_TRANSFORM_SHARPNESS || d.kinds[k] == CHARL_TRANSFORM_CONTRAST) {
                assert_true(fabsf(fabsf(v[0] - 1.0F) - 0.45F) < 1e-6F);
                up += v[0] > 1.0F;
            } else if (d.kinds[k] == CHARL_TRANSFORM_POSTERIZE) {
                assert_true(v[0] == 6.0F);
            } else if (d.kinds[k] == CHARL_TRANSFORM_SOLARIZE) {
                assert_true(v[0] == 0.5F);
            } else if (d.kinds[k] == CHARL_TRANSFORM_AFFINE && v[0] == 1.0F && v[1] == 0.0F && v[3] == 0.0F) {
                assert_true(fabsf(v[2]) == 13.0F || fabsf(v[5]) == 9.0F); /* 150 / 331 / 2 of 60 and 40, cut */
            }
        }
    }
    assert_in_range(up, 2 * 2 * DRAWS / 14 / 2 - 200, 2 * 2 * DRAWS / 14 / 2 + 200);
    assert_in_range(count[CHARL_TRANSFORM_AFFINE], 10 * DRAWS / 14 - 400, 10 * DRAWS / 14 + 400);
    for (int k = 0; k < CHARL_TRANSFORM_COUNT; k++) {
        assert_true(count[k] > DRAWS / 14 || k == CHARL_TRANSFORM_HUE);
    }
}

static void settings_must_fit_the_data(void **state)
{
    const charl_dataset_info images = {.path = "i.h5", .x_dtype = CHARL_F32, .x_shape = {3, {3, 32, 24}}};
    const charl_dataset_info masks = {
        .path = "m.h5", .x_dtype = CHARL_U8, .x_shape = {3, {3, 32, 24}}, .y_shape = {1, {2 * 32 * 24}}};
    const charl_dataset_info table = {.path = "t.h5", .kind = CHARL_DATASET_TABLE, .x_shape = {1, {8}}};
    const charl_dataset_info tokens = {.path = "w.h5", .kind = CHARL_DATASET_TOKENS, .x_shape = {1, {8}}};
    const charl__augment none = {.flip = false}, mixup = {.mixup = 0.2}, flip = {.flip = true}, crop = {.crop = 23},
                         erase = {.erase = 1}, random = {.randaugment = 1}, far = {.crop = 24}, cutmix = {.cutmix = 1},
                         hue = {.hue = 0.1};

    (void)state;
    charl_assert_ok(charl__augment_check(&none, &tokens, &tokens.x_shape));
    charl_assert_ok(charl__augment_check(&mixup, &table, &table.x_shape));
    charl_assert_ok(charl__augment_check(&crop, &images, &images.x_shape));
    charl_assert_status(charl__augment_check(&far, &images, &images.x_shape), CHARL_ERR_CONFIG);
    charl_assert_message("crop:24 shifts images of 32 x 24 out of sight");
    charl_assert_status(charl__augment_check(&hue, &images, &images.x_shape), CHARL_ERR_CONFIG);
    charl_assert_message("change images of bytes with 1 or 3 channels; the samples of i.h5 are f32 [3, 32, 24]");
    charl_assert_ok(charl__augment_check(&hue, &masks, &masks.x_shape));
    charl_assert_ok(charl__augment_check(&erase, &masks, &masks.x_shape));
    charl_assert_ok(charl__augment_check(&mixup, &masks, &masks.x_shape));
    for (int i = 0; i < 4; i++) {
        charl_assert_status(
            charl__augment_check((const charl__augment *[]){&flip, &crop, &cutmix, &random}[i], &masks, &masks.x_shape),
            CHARL_ERR_CONFIG);
        charl_assert_message("those of m.h5 are one for each pixel");
    }
    charl_assert_status(charl__augment_check(&flip, &table, &table.x_shape), CHARL_ERR_CONFIG);
    charl_assert_message("the samples of t.h5 are [8]");
    charl_assert_status(charl__augment_check(&cutmix, &table, &table.x_shape), CHARL_ERR_CONFIG);
    charl_assert_status(charl__augment_check(&mixup, &tokens, &tokens.x_shape), CHARL_ERR_CONFIG);
    charl_assert_message("w.h5 holds tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_training_stream),
        cmocka_unit_test(another_part),
        cmocka_unit_test(evaluation_tiles),
        cmocka_unit_test(bytes_on_the_device),
        cmocka_unit_test(every_acquisition_may_fail),
        cmocka_unit_test(shares_are_beta),
        cmocka_unit_test(shares_are_functions_of_their_place),
        cmocka_unit_test(crops_are_drawn_as_published),
        cmocka_unit_test(narrow_pictures_show_their_middle),
        cmocka_unit_test(boxes_are_erased_and_pasted),
        cmocka_unit_test(colours_are_jittered_in_any_order),
        cmocka_unit_test(random_changes_have_their_magnitude),
        cmocka_unit_test(settings_must_fit_the_data),
    };
    const charl_device_request request = {sizeof request, .share = true};
    int rc;

    if (charl_device_open(&request, &dev) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    dir = charl_test_tempdir();
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    charl_test_tempdir_remove(dir);
    charl_device_close(dev);
    if (rc == 0 && charl__live() != 0) {
        fprintf(stderr, "%ld objects are still alive\n", charl__live());
        rc = 1;
    }
    return rc;
}

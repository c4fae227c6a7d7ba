/* What augmentation draws: shares of mixup from Beta(alpha, alpha), boxes of images, all a function of seed, step and
 * row; and which settings fit which data. */
#include "support/support.h"

#include <math.h>

#include "task/augment.h"

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
        cmocka_unit_test(shares_are_beta),
        cmocka_unit_test(shares_are_functions_of_their_place),
        cmocka_unit_test(crops_are_drawn_as_published),
        cmocka_unit_test(narrow_pictures_show_their_middle),
        cmocka_unit_test(boxes_are_erased_and_pasted),
        cmocka_unit_test(colours_are_jittered_in_any_order),
        cmocka_unit_test(random_changes_have_their_magnitude),
        cmocka_unit_test(settings_must_fit_the_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

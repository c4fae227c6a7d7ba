/* data.augment: converts "flip, crop:4, mixup:0.2" to its settings and back. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "config/config_private.h"

/* The augmentations that take an amount; flip takes none. */
enum {
    CROP,
    ROTATE,
    CUTOUT,
    MIXUP,
    CUTMIX,
    RESIZED_CROP,
    ERASE,
    BRIGHTNESS,
    CONTRAST,
    SATURATION,
    HUE,
    RANDAUGMENT,
    MAGNITUDE,
    N_CHANGES
};

static const char *const names[] = {"crop",         "rotate",      "cutout",     "mixup",    "cutmix",
                                    "resized_crop", "erase",       "brightness", "contrast", "saturation",
                                    "hue",          "randaugment", "magnitude"};
static const char *const ranges[] = {
    "[1,1024]", "(0,180]", "[1,1024]", "(0,100]", "(0,100]", "(0,1]", "(0,1]",
    "(0,1]",    "(0,1]",   "(0,1]",    "(0,0.5]", "[1,8]",   "[1,30]"}; /* as of keys */

static double *amount_of(charl__augment *v, int change)
{
    double *const at[] = {&v->crop,         &v->rotate,      &v->cutout,     &v->mixup,    &v->cutmix,
                          &v->resized_crop, &v->erase,       &v->brightness, &v->contrast, &v->saturation,
                          &v->hue,          &v->randaugment, &v->magnitude};

    return at[change];
}

/* The text after "NAME:" of one augmentation. */
static void set_amount(int change, const char *text, double *amount, char *why)
{
    const bool whole = change == CROP || change == CUTOUT || change == RANDAUGMENT || change == MAGNITUDE;
    const char *name = names[change];
    char reason[CHARL_REASON_BYTES];
    double v = 0;

    if (!charl__parse_float(text, &v) || (whole && v != floor(v))) {
        snprintf(why, CHARL__WHY, "%s needs %s, as in %s:%s, not \"%.100s\"", name, whole ? "an integer" : "a number",
                 name, whole ? "4" : "0.2", text);
    } else if (!charl__value_float(&(charl__number){.range = ranges[change]}, text, &v, reason)) {
        snprintf(why, CHARL__WHY, "%s:%.200s", name, reason);
    } else if (*amount > 0) {
        snprintf(why, CHARL__WHY, "%s is given twice", name);
    } else {
        *amount = v;
    }
}

static void set_change(const char *word, charl__augment *v, char *why)
{
    const size_t n = strcspn(word, ":");

    if (strcmp(word, "flip") == 0) {
        v->flip = true;
        return;
    }
    for (int i = 0; i < N_CHANGES; i++) {
        if (strlen(names[i]) == n && strncmp(word, names[i], n) == 0) {
            set_amount(i, word[n] == ':' ? word + n + 1 : "", amount_of(v, i), why);
            return;
        }
    }
    snprintf(
        why, CHARL__WHY,
        "\"%.100s\" is not flip, crop:PIXELS, rotate:DEGREES, cutout:PIXELS, mixup:ALPHA, cutmix:ALPHA, "
        "resized_crop:AREA, erase:PROBABILITY, brightness, contrast, saturation or hue:AMOUNT, randaugment:CHANGES or "
        "magnitude:LEVEL",
        word);
}

void charl__config_augment_set(const char *text, charl__augment *field, char *why)
{
    const char *cursor = text;
    charl__augment v = {0};
    char word[64];

    while (why[0] == '\0' && charl__text_element(&cursor, word, sizeof word)) {
        set_change(word, &v, why);
    }
    if (why[0] == '\0') {
        *field = v;
    }
}

charl_status charl__config_augment_print(const charl__augment *v, charl__text *out)
{
    charl__augment copy = *v;
    const char *comma = v->flip ? ", " : "";

    CHARL_TRY(charl__text_printf(out, "%s", v->flip ? "flip" : ""));
    for (int i = 0; i < N_CHANGES; i++) {
        const double amount = *amount_of(&copy, i);

        if (amount > 0) {
            CHARL_TRY(charl__text_printf(out, "%s%s:", comma, names[i]));
            CHARL_TRY(charl__config_print_float(amount, out));
            comma = ", ";
        }
    }
    return CHARL_OK;
}

#include "data/table/look.h"

#include <stdio.h>
#include <string.h>

#include "io/dataset/dataset_write.h"

static void remember(charl__look_at *at, const charl__table *t, const char *field)
{
    if (at->line == 0) {
        at->line = charl__csv_line(t->csv);
        snprintf(at->text, sizeof at->text, "%.40s", field);
    }
}

void charl__look_count(charl__look *l, const charl__table *t, int column)
{
    double value = 0;

    if (charl__parse_number(charl__table_field(t, column), '.', &value)) {
        l->first = l->rows == 0 ? value : l->first;
        l->counted += l->counted == l->rows && value == l->first + (double)l->rows;
    }
    l->rows++;
}

/* Additional words are not stored (charl__look.overflows). */
static charl_status add_word(charl__look *l, const charl__table *t, const char *field)
{
    const int64_t before = l->set.n;
    int64_t index;

    if (!l->overflows) {
        CHARL_TRY(charl__name_set_add(&l->set, field, &index));
        l->overflows = l->set.n > CHARL__MOST_WORDS;
    }
    if (l->set.n > before && l->first_fault.line == 0) {
        const char *why = charl__name_fault(field);

        if (why) {
            remember(&l->first_fault, t, field);
            snprintf(l->fault, sizeof l->fault, "%s", why);
        }
    }
    return CHARL_OK;
}

static void add_date(charl__look *l, const charl__table *t, const char *field, const charl__date *d)
{
    l->dates++;
    l->clock = l->clock || d->has_clock;
    l->has_short = l->has_short || d->form == CHARL__DATE_SHORT;
    if (d->has_clock) {
        remember(d->has_zone ? &l->first_zone : &l->first_local, t, field);
    }
    for (int i = 0; i < 2 && d->form == CHARL__DATE_XXY; i++) {
        l->has_xxy = true;
        if (d->field[i] > 12) {
            remember(i == 0 ? &l->first_dmy : &l->first_mdy, t, field);
        }
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Length of a currency sign and of blanks before a number. */
static size_t currency(const char *field)
{
    static const char *const signs[] = {"$", "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5", "\xe2\x82\xb9"};

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const size_t n = strlen(signs[i]);

        if (strncmp(field, signs[i], n) == 0) {
            return n + strspn(field + n, " ");
        }
    }
    return 0;
}

/* Whether a field is a number between an optional currency sign and an optional unit such as % or kg. Characters that may change the meaning of
 * a number, as in <5, (12), 3+ and 1-2, are not units. */
static bool add_unit(charl__look *l, const charl__table *t, const char *field)
{
    enum { LONGEST = 64 };
    const size_t before = currency(field), n = strspn(field + before, "0123456789.,+-"),
                 blank = strspn(field + before + n, " ");
    const char *after = field + before + n;
    char number[LONGEST];
    charl__number_form form;

    if (n == 0 || n >= LONGEST || (!before && !*after) || strlen(after) >= sizeof l->unit[1] ||
        (*after && !after[blank]) || strpbrk(after, "0123456789.,+-<>=~()[]?*:;#'\"\t_&|\\") || after[0] == '/') {
        return false;
    }
    memcpy(number, field + before, n);
    number[n] = '\0';
    form = charl__number_form_of(number);
    if (form == CHARL__NUMBER_NONE) {
        return false;
    }
    if (l->units++ == 0) {
        snprintf(l->unit[0], sizeof l->unit[0], "%.*s", (int)before, field);
        snprintf(l->unit[1], sizeof l->unit[1], "%s", after);
    }
    l->units_differ = l->units_differ || strlen(l->unit[0]) != before || strncmp(l->unit[0], field, before) != 0 ||
                      strcmp(l->unit[1], after) != 0;
    remember(&l->first_form[form], t, field);
    return true;
}

static charl_status add_other(charl__look *l, const charl__table *t, const char *field)
{
    const charl__date d = charl__date_parse(field);

    if (d.form != CHARL__DATE_NONE) {
        l->edges++;
        add_date(l, t, field, &d);
    } else {
        const char *at = field + currency(field);

        l->words += !add_unit(l, t, field);
        at += at[0] == '+' || at[0] == '-' || at[0] == '.';
        if (is_digit(at[0]) || is_digit(field[strlen(field) - 1])) {
            l->edges++;
            remember(&l->first_edge, t, field);
        }
    }
    remember(&l->first_word, t, field);
    return add_word(l, t, field);
}

charl_status charl__look_add(charl__look *l, const charl__table *t, int column)
{
    const char *field = charl__table_field(t, column);
    charl__number_form form;

    charl__look_count(l, t, column);
    l->fields++;
    if (charl__table_is_missing(t, field)) {
        l->missing++;
        remember(&l->first_missing, t, field);
        return CHARL_OK;
    }
    form = charl__number_form_of(field);
    if (form == CHARL__NUMBER_NONE) {
        return add_other(l, t, field);
    }
    l->numbers++;
    remember(&l->first_number, t, field);
    remember(&l->first_form[form], t, field);
    if (form == CHARL__NUMBER_INTEGER && l->first_rounded.line == 0 && charl__table_rounds(t, column)) {
        remember(&l->first_rounded, t, field);
    }
    return l->collects ? add_word(l, t, field) : CHARL_OK;
}

void charl__look_fini(charl__look *l)
{
    charl__name_set_fini(&l->set);
    *l = (charl__look){0};
}

bool charl__look_counts(const charl__look *l)
{
    return l->rows >= 3 && l->counted == l->rows && (l->first == 0 || l->first == 1);
}

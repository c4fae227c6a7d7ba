#include "io/table/look.h"

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

/* What is more than the most is left out: so many words are none (charl__look.overflows). */
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

/* [+-]?d{1,3}([.,]ddd)+([.,]d+)?, the text of a number that was written for people. What charl__parse_number takes is none. */
static bool is_grouped(const char *field)
{
    static const char digits[] = "0123456789";
    const char *at = field + (field[0] == '+' || field[0] == '-');
    size_t n = strspn(at, digits);
    int groups = 0;

    if (n < 1 || n > 3) {
        return false;
    }
    for (at += n; *at == '.' || *at == ','; at += n + 1) {
        n = strspn(at + 1, digits);
        if (n == 0 || (n != 3 && at[1 + n] != '\0')) { /* only the last part may be decimals */
            return false;
        }
        groups += n == 3;
    }
    return *at == '\0' && groups > 0;
}

static void add_date(charl__look *l, const charl__table *t, const char *field, const charl__date *d)
{
    l->dates++;
    l->clock = l->clock || d->has_clock;
    for (int i = 0; i < 2 && d->form == CHARL__DATE_XXY; i++) {
        l->has_xxy = true;
        if (d->field[i] > 12) {
            remember(i == 0 ? &l->first_dmy : &l->first_mdy, t, field);
        }
    }
}

charl_status charl__look_add(charl__look *l, const charl__table *t, int column)
{
    const char *field = charl__table_field(t, column);

    charl__look_count(l, t, column);
    if (charl__table_is_missing(t, field)) {
        l->missing++;
        remember(&l->first_missing, t, field);
    } else if (charl__parse_number(field, '.', NULL)) {
        const bool point = strchr(field, '.');

        l->points += point;
        l->integers += !point;
        remember(&l->first_number, t, field);
        if (point) {
            remember(&l->first_point, t, field);
        }
        if (l->collects) {
            CHARL_TRY(add_word(l, t, field));
        }
    } else {
        const charl__date d = charl__date_parse(field);

        if (charl__parse_number(field, ',', NULL)) {
            l->commas++;
            remember(&l->first_comma, t, field);
        } else if (d.form != CHARL__DATE_NONE) {
            add_date(l, t, field, &d);
        } else {
            l->words++;
            if (is_grouped(field)) {
                remember(&l->first_grouped, t, field);
            }
        }
        if (!charl__parse_number(field, ',', NULL)) {
            remember(&l->first_word, t, field);
        }
        CHARL_TRY(add_word(l, t, field));
    }
    l->fields++;
    return CHARL_OK;
}

void charl__look_fini(charl__look *l)
{
    charl__name_set_fini(&l->set);
    *l = (charl__look){0};
}

int64_t charl__look_numbers(const charl__look *l, char decimal)
{
    return l->integers + (decimal == ',' ? l->commas : l->points);
}

bool charl__look_counts(const charl__look *l)
{
    return l->rows >= 3 && l->counted == l->rows && (l->first == 0 || l->first == 1);
}

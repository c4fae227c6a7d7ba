#include "data/import/labelled_text.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "io/h5_element.h"

static charl_status open_table(charl__labelled_text *t, char separator)
{
    CHARL_TRY(charl__table_open(&t->table, t->path, separator, 0));
    t->text_column = charl__table_find(&t->table, t->text_field);
    t->label_column = charl__table_find(&t->table, t->label_field);
    return t->text_column >= 0 ? charl__table_use_header(&t->table)
                               : charl__table_no_column(&t->table, t->text_field, CHARL_ERR_DATA);
}

charl_status charl__labelled_text_open(charl__labelled_text *t, const char *path, const char *text_field,
                                       const char *label_field, char separator)
{
    *t = (charl__labelled_text){.path = path, .text_field = text_field, .label_field = label_field};
    t->is_json = charl__lines_are_json(path);
    return t->is_json ? charl__lines_open(&t->lines, path, true) : open_table(t, separator);
}

void charl__labelled_text_close(charl__labelled_text *t)
{
    charl__table_close(&t->table);
    charl__lines_close(&t->lines);
    charl__text_fini(&t->own_label);
    *t = (charl__labelled_text){0};
}

static charl_status set_label(charl__labelled_text *t, const json_t *label)
{
    charl__text_clear(&t->own_label);
    t->label = NULL;
    if (!label || json_is_null(label)) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(json_is_string(label) || json_is_integer(label) || json_is_boolean(label), CHARL_ERR_DATA,
                  "%s: field \"%s\" is neither a string nor a whole number", charl__labelled_text_place(t),
                  t->label_field);
    CHARL_TRY(json_is_string(label)    ? charl__text_printf(&t->own_label, "%s", json_string_value(label))
              : json_is_integer(label) ? charl__text_printf(&t->own_label, "%lld", (long long)json_integer_value(label))
                                       : charl__text_printf(&t->own_label, json_is_true(label) ? "true" : "false"));
    t->label = charl__text_string(&t->own_label);
    return CHARL_OK;
}

static charl_status parse_line(charl__labelled_text *t)
{
    json_t *object = NULL;
    const json_t *text;

    CHARL_TRY(charl__lines_object(&t->lines, &object));
    text = json_object_get(object, t->text_field);
    CHARL_REQUIRE(json_is_string(text), CHARL_ERR_DATA,
                  text ? "%s: field \"%s\" is not a string" : "%s: there is no field \"%s\"",
                  charl__labelled_text_place(t), t->text_field);
    t->text = json_string_value(text);
    t->bytes = json_string_length(text);
    return set_label(t, json_object_get(object, t->label_field));
}

charl_status charl__labelled_text_next(charl__labelled_text *t, bool *more)
{
    if (t->is_json) {
        CHARL_TRY(charl__lines_next(&t->lines, more));
        return *more ? parse_line(t) : CHARL_OK;
    }
    CHARL_TRY(charl__table_next(&t->table, more));
    if (*more) {
        t->text = charl__table_field(&t->table, t->text_column);
        t->bytes = strlen(t->text);
        t->label = t->label_column >= 0 ? charl__table_field(&t->table, t->label_column) : NULL;
        t->label = t->label && !charl__table_is_missing(&t->table, t->label) ? t->label : NULL;
    }
    return CHARL_OK;
}

const char *charl__labelled_text_place(const charl__labelled_text *t)
{
    return t->is_json ? charl__lines_place(&t->lines) : charl__table_place(&t->table);
}

/* A row that is being filled. */
typedef struct padded_row {
    charl_dtype dtype;
    int64_t length, n;
    void *row;
} padded_row;

static charl_status take_tokens(void *ctx, const int32_t *tokens, int64_t n)
{
    padded_row *r = ctx;

    for (int64_t i = 0; i < n; i++, r->n++) {
        if (r->row && r->n < r->length) {
            (void)charl__put_number(r->dtype, tokens[i], r->row, r->n);
        }
    }
    return CHARL_OK;
}

charl_status charl__labelled_text_encode(const charl__labelled_text *t, charl__encoder *encoder, charl_dtype dtype,
                                         int64_t length, void *row, int64_t *tokens)
{
    padded_row r = {dtype, length, 0, row};
    charl_status st;

    if (row) {
        memset(row, 0xff, (size_t)length * charl_dtype_size(dtype));
    }
    st = t->bytes > 0 ? charl__encoder_run(encoder, t->text, t->bytes, take_tokens, &r) : CHARL_OK;
    *tokens = r.n;
    return st == CHARL_ERR_DATA ? charl__error_in(st, st, "%s: ", charl__labelled_text_place(t)) : st;
}

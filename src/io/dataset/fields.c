/* Named arrays: what data.x and data.y say, and the text by which a schema keeps it, a line for each:
 *
 *     image input numbers 0 0 [1, 28, 28]      NAME, role, kind, least value, classes, shape of a sample
 *     digit target classes 0 10 []
 */
#include "io/dataset/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/dataset/dataset_private.h"

const char *const charl__field_kinds[] = {"numbers", "tokens", "classes"};

static const char name_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/* "NAME:/ARRAY:KIND"; false: malformed. */
static bool read_spec(const char *word, charl__field_spec *s)
{
    const size_t name = strspn(word, name_letters);
    const char *array = word[name] == ':' ? word + name + 1 : word, *end = strrchr(array, ':');
    const size_t length = end ? (size_t)(end - array) : strlen(array);
    char *after;

    *s = (charl__field_spec){.name = ""};
    if (array == word) {
        snprintf(s->array, sizeof s->array, "%.*s", (int)sizeof s->array - 1, word);
        return strlen(word) < sizeof s->array;
    }
    if (name == 0 || name >= sizeof s->name || length == 0 || length + 1 >= sizeof s->array ||
        (end && strlen(end + 1) >= sizeof s->kind)) {
        return false;
    }
    snprintf(s->name, sizeof s->name, "%.*s", (int)name, word);
    if (array[0] == '[') {
        s->zeros = strtoll(array + 1, &after, 10);
        snprintf(s->array, sizeof s->array, "%.*s", (int)length, array);
        return s->zeros > 0 && s->zeros <= INT32_MAX && strcmp(after, "]") == 0;
    }
    snprintf(s->array, sizeof s->array, "%s%.*s", array[0] == '/' ? "" : "/", (int)length, array);
    snprintf(s->kind, sizeof s->kind, "%s", end ? end + 1 : "");
    return true;
}

int charl__field_specs(const char *list, charl__field_spec *out, char *why, size_t size)
{
    char word[CHARL__FIELD_ARRAY + 2 * CHARL__FIELD_NAME];
    int n = 0;

    while (charl__text_element(&list, word, sizeof word)) {
        charl__field_spec s;

        if (!read_spec(word, &s)) {
            snprintf(why, size,
                     "\"%.100s\" is not NAME:/ARRAY or NAME:[N], with a name of up to %d letters, digits and _", word,
                     CHARL__FIELD_NAME - 1);
            return -1;
        }
        if (n == CHARL__MAX_FIELDS) {
            snprintf(why, size, "names more than %d arrays", CHARL__MAX_FIELDS);
            return -1;
        }
        out[n++] = s;
        if (n > 1 && (!out[0].name[0] || !s.name[0])) {
            snprintf(why, size, "\"%.100s\" has no name; each of several arrays is NAME:/ARRAY",
                     out[0].name[0] ? s.array : out[0].array);
            return -1;
        }
        for (int i = 0; i + 1 < n; i++) {
            if (strcmp(out[i].name, s.name) == 0) {
                snprintf(why, size, "two arrays are named %s", s.name);
                return -1;
            }
        }
    }
    return n;
}

/* "[1, 28, 28]"; false: malformed, or of more elements than a row can have. */
static bool read_shape(const char *text, charl_shape *out)
{
    int64_t count = 1;
    char *end;

    *out = (charl_shape){0, {0}};
    if (*text++ != '[') {
        return false;
    }
    while (*text != ']') {
        const long long v = strtoll(text, &end, 10);

        if (end == text || v < 1 || v > INT32_MAX || out->ndim == CHARL_MAX_DIMS - 1 || (*end != ',' && *end != ']')) {
            return false;
        }
        count *= v;
        if (count > INT32_MAX) {
            return false;
        }
        out->dim[out->ndim++] = v;
        text = end + (*end == ',');
    }
    return true;
}

int charl__fields_parse(const char *fields, charl__field *out)
{
    const int64_t lines = fields ? charl_names_count(fields) : 0;
    int64_t first[2] = {0, 0}, shape_bytes;

    if (lines > 2 * CHARL__MAX_FIELDS) {
        return -1;
    }
    for (int64_t i = 0; i < lines; i++, fields += strcspn(fields, "\n") + 1) {
        char role[16], kind[16], shape[CHARL_SHAPE_TEXT];
        long long least, classes;
        int k = 0;

        out[i] = (charl__field){.name = ""};
        if (sscanf(fields, "%31s %15s %15s %lld %lld %127[^\n]", out[i].name, role, kind, &least, &classes, shape) !=
                6 ||
            !read_shape(shape, &out[i].shape) || classes < 0 || classes > INT32_MAX) {
            return -1;
        }
        while (k < 3 && strcmp(kind, charl__field_kinds[k]) != 0) {
            k++;
        }
        shape_bytes = charl_shape_count(&out[i].shape);
        if (k == 3 || (strcmp(role, "input") != 0 && strcmp(role, "target") != 0) || shape_bytes > INT32_MAX) {
            return -1;
        }
        out[i].target = role[0] == 't';
        out[i].kind = (charl__field_kind)k;
        out[i].least = least;
        out[i].classes = classes;
        out[i].count = shape_bytes;
        out[i].first = first[out[i].target];
        first[out[i].target] += shape_bytes;
    }
    return (int)lines;
}

/* The smallest and the largest of the stored integers, except those that do not count. */
static charl_status find_range(charl_dataset *ds, charl__array *a, charl__field *f)
{
    enum { BLOCK = 1 << 16, MOST = 1 << 24 }; /* f32 holds integers up to MOST */
    const int64_t per_row = charl_shape_count(&a->item), step = per_row < BLOCK ? BLOCK / per_row : 1;
    CHARL_SCOPED_FREE unsigned char *rows = NULL;
    CHARL_SCOPED_FREE double *v = NULL;
    /* the sequences of an input end in -1 */
    const bool may_end = f->kind == CHARL__FIELD_TOKENS && f->shape.ndim == 1 && per_row > 1;
    int64_t most = -1;

    CHARL_TRY(charl__alloc_array(step, a->item_bytes, &rows));
    CHARL_TRY(charl__alloc_array(step * per_row, sizeof *v, &v));
    for (int64_t row = 0; row < a->rows; row += step) {
        const int64_t n = a->rows - row < step ? a->rows - row : step;

        CHARL_TRY(charl__array_read(&ds->file, a, row, n, rows));
        charl_dtype_decode(a->dtype, rows, n * per_row, v);
        for (int64_t i = 0; i < n * per_row; i++) {
            const bool ignored =
                (may_end && v[i] == -1) || (f->kind == CHARL__FIELD_CLASSES && (v[i] == -1 || v[i] == -100));
            const int64_t whole = v[i] >= 0 && v[i] < MOST ? (int64_t)v[i] : -1;

            CHARL_REQUIRE(ignored || (double)whole == v[i], CHARL_ERR_DATA,
                          "%s: %s: %g in row %lld is no %s; allowed are integers from 0 to %d%s", ds->file.path,
                          a->name, v[i], (long long)(row + i / per_row), f->target ? "class" : "token", MOST - 1,
                          f->target ? ", and -1 and -100 for what does not count"
                          : may_end ? ", and -1 after the end of a sequence"
                                    : "");
            CHARL_REQUIRE(!may_end || ignored || i % per_row == 0 || v[i - 1] >= 0, CHARL_ERR_DATA,
                          "%s: %s: row %lld has a token, %g, after -1, which ends a sequence", ds->file.path, a->name,
                          (long long)(row + i / per_row), v[i]);
            f->least = ignored ? -1 : f->least;
            most = whole > most ? whole : most;
        }
    }
    f->classes = most + 1;
    return CHARL_OK;
}

/* What the elements of an array are: as data.x or data.y says, else integers among the targets are classes. */
static charl_status choose_kind(const charl_dataset *ds, const charl__field_spec *s, const charl__array *a,
                                charl__field *f)
{
    const charl__field_kind other = f->target ? CHARL__FIELD_CLASSES : CHARL__FIELD_TOKENS;

    if (!s->kind[0]) {
        f->kind = f->target && a->dtype != CHARL_F32 ? CHARL__FIELD_CLASSES : CHARL__FIELD_NUMBERS;
        return CHARL_OK;
    }
    CHARL_REQUIRE(strcmp(s->kind, charl__field_kinds[other]) == 0 ||
                      strcmp(s->kind, charl__field_kinds[CHARL__FIELD_NUMBERS]) == 0,
                  CHARL_ERR_CONFIG, "%s: %s:%s:%s: the elements of %s are %s or %s", ds->file.path, s->name, s->array,
                  s->kind, f->target ? "a target" : "an input", charl__field_kinds[CHARL__FIELD_NUMBERS],
                  charl__field_kinds[other]);
    f->kind = strcmp(s->kind, charl__field_kinds[other]) == 0 ? other : CHARL__FIELD_NUMBERS;
    return CHARL_OK;
}

/* An input or a target that no array holds: rows of 0, as many as the first array has. */
static charl_status open_zeros(const charl_dataset *ds, const charl__field_spec *s, charl__array *a, charl__field *f)
{
    const charl__array *first = &ds->arrays[CHARL__FIELD_ARRAYS];

    CHARL_REQUIRE(a != first, CHARL_ERR_CONFIG, "%s: x: %s:%s comes after an input that is an array", ds->file.path,
                  s->name, s->array);
    *a = (charl__array)CHARL__ARRAY_CLOSED;
    snprintf(a->name, sizeof a->name, "%s", s->array);
    a->zeros = true;
    a->dtype = CHARL_F32;
    a->stored = (charl__element){.bytes = sizeof(float)};
    a->rows = first->rows;
    a->item = (charl_shape){1, {s->zeros}};
    a->item_bytes = (size_t)s->zeros * sizeof(float);
    f->shape = a->item;
    f->count = s->zeros;
    return CHARL_OK;
}

static charl_status open_field(charl_dataset *ds, const charl__field_spec *s, charl__array *a, charl__field *f)
{
    char shape[CHARL_SHAPE_TEXT];

    if (s->zeros > 0) {
        return open_zeros(ds, s, a, f);
    }
    CHARL_TRY(charl__array_init(a, &ds->file, s->array, f->target ? CHARL__ROLE_TARGETS : CHARL__ROLE_SAMPLES));
    CHARL_REQUIRE(f->target || !charl__array_is_channels_last(a, &a->item), CHARL_ERR_DATA,
                  "%s: rows of %s are %s, with the channels last; charl reads images as [channels, height, width]; "
                  "HINT store the array so (x.transpose(0, 3, 1, 2))",
                  ds->file.path, a->name, charl_shape_format(&a->item, shape));
    CHARL_REQUIRE(a->rows == ds->arrays[CHARL__FIELD_ARRAYS].rows, CHARL_ERR_DATA,
                  "%s: %s has %lld rows but %s has %lld", ds->file.path, ds->arrays[CHARL__FIELD_ARRAYS].name,
                  (long long)ds->arrays[CHARL__FIELD_ARRAYS].rows, a->name, (long long)a->rows);
    CHARL_REQUIRE(a->item.ndim < CHARL_MAX_DIMS - 1, CHARL_ERR_DATA, "%s: %s: samples have too many extents",
                  ds->file.path, a->name);
    CHARL_TRY(choose_kind(ds, s, a, f));
    f->shape = a->item;
    if (f->shape.ndim == 1 && f->shape.dim[0] == 1 && f->kind == CHARL__FIELD_CLASSES) {
        f->shape.ndim = 0; /* [n, 1] labels are labels */
    } else if (f->shape.ndim == 0 && f->kind != CHARL__FIELD_CLASSES) {
        f->shape = (charl_shape){1, {1}};
    }
    f->count = charl_shape_count(&f->shape);
    return f->kind == CHARL__FIELD_NUMBERS ? CHARL_OK : find_range(ds, a, f);
}

/* Mean and deviation of each element of an input, as for a single array: stored ones, else those that scale u8 to 1. */
static charl_status put_stats(charl_dataset *ds, charl__array *a, const charl__field *f, float *mean, float *std)
{
    CHARL_SCOPED_FREE float *own_mean = NULL, *own_std = NULL;
    int64_t n = 0, n_std = 0;

    if (f->kind == CHARL__FIELD_NUMBERS && !a->zeros) {
        CHARL_TRY(charl__file_stats(&ds->file, a->name, "mean", &own_mean, &n));
        CHARL_TRY(charl__file_stats(&ds->file, a->name, "std", &own_std, &n_std));
    }
    CHARL_REQUIRE(n == n_std && (n <= 1 || n == f->shape.dim[0]), CHARL_ERR_DATA,
                  "%s: %s: %lld means and %lld deviations do not fit the rows", ds->file.path, a->name, (long long)n,
                  (long long)n_std);
    for (int64_t i = 0; i < f->count; i++) {
        const int64_t at = n > 0 ? i / (f->count / n) : 0;

        mean[f->first + i] = n > 0 ? own_mean[at] : 0.0F;
        std[f->first + i] = n > 0                                                     ? own_std[at]
                            : a->dtype == CHARL_U8 && f->kind == CHARL__FIELD_NUMBERS ? 255.0F
                                                                                      : 1.0F;
    }
    return CHARL_OK;
}

static charl_status describe(const charl__field *f, charl__text *fields, charl__text *targets)
{
    char shape[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__text_printf(fields, "%s%s %s %s %lld %lld %s", fields->length ? "\n" : "", f->name,
                                 f->target ? "target" : "input", charl__field_kinds[f->kind], (long long)f->least,
                                 (long long)f->classes, charl_shape_format(&f->shape, shape)));
    for (int64_t i = 0; f->target && i < f->count; i++) {
        CHARL_TRY(charl__text_printf(targets, "%s%s", targets->length ? "\n" : "", f->name));
        if (f->count > 1) {
            CHARL_TRY(charl__text_printf(targets, "_%lld", (long long)i));
        }
    }
    return CHARL_OK;
}

/* Whether all arrays of a list exist. */
static charl_status find_all(charl_dataset *ds, const charl__field_spec *specs, int n, bool *out)
{
    *out = true;
    for (int i = 0; i < n && *out; i++) {
        *out = specs[i].zeros == 0;
        CHARL_TRY(*out ? charl__file_find(&ds->file, specs[i].array, out) : CHARL_OK);
    }
    return CHARL_OK;
}

charl_status charl__dataset_open_fields(charl_dataset *ds, const charl_dataset_options *opt)
{
    charl__field_spec specs[2][CHARL__MAX_FIELDS];
    CHARL_SCOPED(charl__text_fini) charl__text fields = {0}, targets = {0};
    charl_data_schema *stored = ds->stored;
    char why[256];
    int n[2] = {0, 0}, at = CHARL__FIELD_ARRAYS;

    for (int t = 0; t < 2; t++) {
        const char *list = t == 0 ? opt->x : opt->y;

        n[t] = list ? charl__field_specs(list, specs[t], why, sizeof why) : 0;
        CHARL_REQUIRE(n[t] >= 0, CHARL_ERR_CONFIG, "%s: %s: %s", ds->file.path, t == 0 ? "x" : "y", why);
        CHARL_REQUIRE(n[t] == 0 || specs[t][0].name[0], CHARL_ERR_CONFIG,
                      "%s: %s is \"%s\", without a name, and %s has names; each of them is NAME:/ARRAY", ds->file.path,
                      t == 0 ? "x" : "y", list, t == 0 ? "y" : "x");
        for (int i = 0; t == 1 && i < n[1] * n[0]; i++) {
            CHARL_REQUIRE(strcmp(specs[1][i / n[0]].name, specs[0][i % n[0]].name) != 0, CHARL_ERR_CONFIG,
                          "%s: x and y both name an array %s", ds->file.path, specs[0][i % n[0]].name);
        }
    }
    if (opt->unlabelled) {
        bool found;

        CHARL_TRY(find_all(ds, specs[1], n[1], &found));
        n[1] = found ? n[1] : 0;
    }
    for (int t = 0; t < 2 && (t == 0 || n[1] > 0); t++) {
        charl__array *row = &ds->arrays[t];
        charl__field f[CHARL__MAX_FIELDS];
        int64_t count = 0;

        for (int i = 0; i < n[t]; i++, at++) {
            f[i] = (charl__field){.target = t == 1, .first = count};
            snprintf(f[i].name, sizeof f[i].name, "%.*s", CHARL__FIELD_NAME - 1, specs[t][i].name);
            CHARL_TRY(open_field(ds, &specs[t][i], &ds->arrays[at], &f[i]));
            CHARL_TRY(charl__array_pack(row, &ds->file, &ds->arrays[at]));
            CHARL_TRY(describe(&f[i], &fields, &targets));
            count += f[i].count;
        }
        if (t == 0) {
            CHARL_TRY(charl__alloc_array(count, sizeof(float), &stored->mean));
            CHARL_TRY(charl__alloc_array(count, sizeof(float), &stored->std));
            for (int i = 0; i < n[0]; i++) {
                CHARL_TRY(put_stats(ds, &ds->arrays[CHARL__FIELD_ARRAYS + i], &f[i], stored->mean, stored->std));
            }
            stored->n_stats = count;
        }
    }
    ds->kind = CHARL_DATASET_REGRESSION;
    ds->views[CHARL_SPLIT_TRAIN] = (charl__view){.x = &ds->arrays[0],
                                                 .y = n[1] > 0 ? &ds->arrays[1] : NULL,
                                                 .items = ds->arrays[0].rows,
                                                 .rows = ds->arrays[0].rows};
    CHARL_TRY(charl__schema_set(&stored->fields, charl__text_string(&fields)));
    return charl__schema_set(&stored->targets, charl__text_string(&targets));
}

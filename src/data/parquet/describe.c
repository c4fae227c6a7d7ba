/* The description at the end of a file: FileMetaData of parquet.thrift. The numbers of fields are from
 * https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift. */
#include "base/alloc.h"
#include "data/parquet/parquet_private.h"
#include "data/parquet/thrift.h"

enum { TAIL = 8, MOST_DESCRIPTION = 1 << 28, MOST_CHILDREN = 1 << 20 };

/* ConvertedType, which LogicalType has replaced: files have one or both. */
enum {
    OLD_NONE = -1,
    OLD_UTF8,
    OLD_MAP,
    OLD_MAP_KEY_VALUE,
    OLD_LIST,
    OLD_ENUM,
    OLD_DECIMAL,
    OLD_DATE,
    OLD_TIME_MILLIS,
    OLD_TIME_MICROS,
    OLD_TIMESTAMP_MILLIS,
    OLD_TIMESTAMP_MICROS,
    OLD_UINT_8,
    OLD_UINT_64 = OLD_UINT_8 + 3,
    OLD_JSON = 19,
    OLD_BSON,
    OLD_INTERVAL
};
/* LogicalType: the number of the only field. */
enum {
    NEW_STRING = 1,
    NEW_MAP,
    NEW_LIST,
    NEW_ENUM,
    NEW_DECIMAL,
    NEW_DATE,
    NEW_TIME,
    NEW_TIMESTAMP,
    NEW_INTEGER = 10,
    NEW_NULL,
    NEW_JSON,
    NEW_BSON,
    NEW_UUID,
    NEW_F16
};

/* SchemaElement. */
typedef struct element {
    int64_t type, length, repetition, children, old, scale;
    int64_t new, per_unit, is_signed;
    const unsigned char *name;
    size_t name_bytes;
} element;

static int64_t read_unit(charl__thrift *t, int type)
{
    static const int64_t per_second[] = {0, 1000, 1000000, 1000000000};
    int64_t found = 0;

    if (charl__thrift_struct(t, type)) {
        for (int16_t id = 0; (type = charl__thrift_field(t, &id)) != 0;) {
            found = id >= 1 && id <= 3 ? per_second[id] : 0;
            charl__thrift_skip(t, type);
        }
    }
    return found;
}

/* What is in the only field of LogicalType: scale, unit or sign. */
static void read_new_parts(charl__thrift *t, int type, element *e)
{
    if (!charl__thrift_struct(t, type)) {
        return;
    }
    for (int16_t id = 0; (type = charl__thrift_field(t, &id)) != 0;) {
        if (e->new == NEW_DECIMAL && id == 1) {
            e->scale = charl__thrift_integer(t, type);
        } else if ((e->new == NEW_TIME || e->new == NEW_TIMESTAMP) && id == 2) {
            e->per_unit = read_unit(t, type);
        } else if (e->new == NEW_INTEGER && id == 2) {
            e->is_signed = charl__thrift_bool(t, type);
        } else {
            charl__thrift_skip(t, type);
        }
    }
}

static void read_new(charl__thrift *t, int type, element *e)
{
    if (!charl__thrift_struct(t, type)) {
        return;
    }
    for (int16_t id = 0; (type = charl__thrift_field(t, &id)) != 0;) {
        e->new = id;
        read_new_parts(t, type, e);
    }
}

static element read_element(charl__thrift *t)
{
    element e = {.type = -1, .old = OLD_NONE, .is_signed = true, .name = (const unsigned char *)""};
    int64_t *const numbers[] = {NULL, &e.type, &e.length, &e.repetition, NULL, &e.children, &e.old, &e.scale};
    int type;

    for (int16_t id = 0; (type = charl__thrift_field(t, &id)) != 0;) {
        if (id == 4) {
            e.name_bytes = charl__thrift_bytes(t, type, &e.name);
        } else if (id == 10) {
            read_new(t, type, &e);
        } else if (id >= 1 && id <= 7) {
            *numbers[id] = charl__thrift_integer(t, type);
        } else {
            charl__thrift_skip(t, type);
        }
    }
    return e;
}

/* Texts, and what else is not a number of its own. *why: it is left out. */
static charl__parquet_form form_of_bytes(const element *e, charl__parquet_type *type, const char **why)
{
    const bool fixed = e->type == CHARL__PARQUET_FIXED;

    if (e->new == NEW_DECIMAL || e->old == OLD_DECIMAL) {
        *why = type->bytes > 16 ? "holds decimals of more than 38 digits" : *why;
        return CHARL__PARQUET_AS_DECIMAL;
    }
    if (e->new == NEW_UUID && type->bytes == 16) {
        return CHARL__PARQUET_AS_UUID;
    }
    if (e->new == NEW_F16 && fixed && type->bytes == 2) {
        return CHARL__PARQUET_AS_NUMBER;
    }
    *why = fixed || e->new == NEW_BSON || e->old == OLD_BSON || e->old == OLD_INTERVAL ? "holds bytes that are no text"
                                                                                       : *why;
    return CHARL__PARQUET_AS_TEXT;
}

static charl__parquet_form form_of_integer(const element *e, charl__parquet_type *type)
{
    const int64_t old_unit = e->old == OLD_TIME_MILLIS || e->old == OLD_TIMESTAMP_MILLIS   ? 1000
                             : e->old == OLD_TIME_MICROS || e->old == OLD_TIMESTAMP_MICROS ? 1000000
                                                                                           : 0;

    if (e->new == NEW_DECIMAL || e->old == OLD_DECIMAL) {
        return CHARL__PARQUET_AS_DECIMAL;
    }
    if (e->new == NEW_DATE || e->old == OLD_DATE) {
        return CHARL__PARQUET_AS_DATE;
    }
    type->per_unit = e->per_unit > 0 ? e->per_unit : old_unit;
    if (type->per_unit > 0) {
        return e->new == NEW_TIME || (!e->new && e->old <= OLD_TIME_MICROS) ? CHARL__PARQUET_AS_TIME
                                                                            : CHARL__PARQUET_AS_TIMESTAMP;
    }
    return !e->is_signed || (!e->new && e->old >= OLD_UINT_8 && e->old <= OLD_UINT_64) ? CHARL__PARQUET_AS_UNSIGNED
                                                                                       : CHARL__PARQUET_AS_INTEGER;
}

static charl__parquet_form form_of(const element *e, charl__parquet_type *type, const char **why)
{
    switch (e->type) {
    case CHARL__PARQUET_BOOLEAN:
        return CHARL__PARQUET_AS_BOOL;
    case CHARL__PARQUET_INT32:
    case CHARL__PARQUET_INT64:
        return form_of_integer(e, type);
    case CHARL__PARQUET_INT96:
        return CHARL__PARQUET_AS_JULIAN;
    case CHARL__PARQUET_FLOAT:
    case CHARL__PARQUET_DOUBLE:
        return CHARL__PARQUET_AS_NUMBER;
    default:
        return form_of_bytes(e, type, why);
    }
}

static charl_status set_type(const charl__parquet *p, const element *e, charl__parquet_column *c)
{
    static const int bytes[] = {1, 4, 8, 12, 4, 8, 0};

    CHARL_REQUIRE(e->type >= CHARL__PARQUET_BOOLEAN && e->type <= CHARL__PARQUET_FIXED && e->repetition >= 0 &&
                      e->repetition <= 2 &&
                      (e->type != CHARL__PARQUET_FIXED || (e->length > 0 && e->length < 1 << 20)) && e->scale >= 0 &&
                      e->scale <= 38,
                  CHARL_ERR_DATA, "%s is damaged: it has no type that Parquet has", charl__parquet_place(p, c));
    c->type = (charl__parquet_type){.storage = (int)e->type,
                                    .bytes = e->type == CHARL__PARQUET_FIXED ? (int)e->length : bytes[e->type],
                                    .scale = (int)e->scale,
                                    .optional = e->repetition == 1};
    c->type.form = form_of(e, &c->type, &c->why);
    c->why = e->repetition == 2 ? "holds lists" : c->why;
    return CHARL_OK;
}

/* Pass over the elements below one with children, and count those that have values. */
static int64_t pass_children(charl__thrift *t, int64_t children, int64_t *elements)
{
    int64_t leaves = 0;

    for (; children > 0 && *elements > 0 && !t->failed; children--) {
        const element e = read_element(t);

        (*elements)--;
        children += e.children > 0 && e.children < MOST_CHILDREN ? e.children : 0;
        leaves += e.children <= 0;
    }
    t->failed = t->failed || children > 0;
    return leaves;
}

static charl_status add_column(charl__parquet *p, charl__thrift *t, int64_t *elements)
{
    charl__parquet_column *c;
    const element e = read_element(t);

    (*elements)--;
    CHARL_TRY(charl__grow(p->n_all, sizeof *p->columns, &p->columns));
    c = &p->columns[p->n_all++];
    *c = (charl__parquet_column){.leaf = p->n_leaves, .used = true};
    CHARL_TRY(charl__alloc(e.name_bytes + 1, &c->name));
    memcpy(c->name, e.name, e.name_bytes);
    if (e.children > 0) {
        c->why = e.new == NEW_LIST || e.old == OLD_LIST ? "holds lists"
                 : e.new == NEW_MAP || e.old == OLD_MAP ? "holds maps"
                                                        : "holds structures";
        p->n_leaves += (int)pass_children(t, e.children, elements);
        return CHARL_OK;
    }
    p->n_leaves++;
    c->why = strncmp(c->name, "__index_level_", 14) == 0 ? "is an index of pandas" : NULL;
    return t->failed ? CHARL_OK : set_type(p, &e, c);
}

static charl_status read_schema(charl__parquet *p, charl__thrift *t, int type)
{
    int of = 0;
    int64_t elements = charl__thrift_list(t, type, &of);
    element root;

    CHARL_REQUIRE(p->n_all == 0, CHARL_ERR_DATA, "%s: damaged: it has two lists of columns", p->path);
    if (elements > 0 && charl__thrift_struct(t, of)) {
        root = read_element(t);
        elements--;
        for (int64_t i = 0; i < root.children && elements > 0 && !t->failed; i++) {
            CHARL_TRY(add_column(p, t, &elements));
        }
    }
    t->failed = t->failed || elements > 0;
    return CHARL_OK;
}

/* ColumnMetaData. */
static void read_chunk_parts(charl__thrift *t, int type, charl__parquet_chunk *chunk)
{
    int64_t codec = 0, bytes = 0, data = 0, dictionary = 0;
    int64_t *const numbers[] = {[4] = &codec, [5] = &chunk->values, [7] = &bytes, [9] = &data, [11] = &dictionary};

    if (!charl__thrift_struct(t, type)) {
        return;
    }
    for (int16_t id = 0; (type = charl__thrift_field(t, &id)) != 0;) {
        if (id > 0 && id <= 11 && numbers[id]) {
            *numbers[id] = charl__thrift_integer(t, type);
        } else {
            charl__thrift_skip(t, type);
        }
    }
    chunk->codec = codec >= 0 && codec < 100 ? (int)codec : -1;
    chunk->begin = dictionary > 0 && dictionary < data ? dictionary : data;
    chunk->end = bytes >= 0 && chunk->begin >= 0 && chunk->begin <= INT64_MAX - bytes ? chunk->begin + bytes : -1;
}

/* ColumnChunk. */
static charl_status read_chunk(const charl__parquet *p, charl__thrift *t, int leaf, charl__parquet_chunk *chunk)
{
    bool elsewhere = false, encrypted = false, described = false;
    int type;

    for (int16_t id = 0; (type = charl__thrift_field(t, &id)) != 0;) {
        if (id == 3) {
            described = true;
            read_chunk_parts(t, type, chunk);
        } else {
            elsewhere = elsewhere || id == 1;
            encrypted = encrypted || id == 8 || id == 9;
            charl__thrift_skip(t, type);
        }
    }
    CHARL_REQUIRE(!elsewhere, CHARL_ERR_DATA, "%s: a column is in another file, which charl does not read", p->path);
    CHARL_REQUIRE(!encrypted, CHARL_ERR_DATA, "%s: a column is encrypted, which charl does not read", p->path);
    CHARL_REQUIRE(t->failed || (described && chunk->begin >= 4 && chunk->end >= chunk->begin &&
                                chunk->end <= p->file_bytes && chunk->values >= 0),
                  CHARL_ERR_DATA, "%s: damaged: part %d of a group of rows is not in the file", p->path, leaf);
    return CHARL_OK;
}

/* RowGroup. The list of columns precedes the number of rows. */
static charl_status read_group(charl__parquet *p, charl__thrift *t)
{
    const int64_t room = (p->n_groups + 1) * (int64_t)p->n_leaves;
    charl__parquet_chunk *chunks;
    int64_t rows = -1, n = 0;
    int type, of = 0;

    CHARL_TRY(charl__grow(p->n_groups, sizeof *p->group_rows, &p->group_rows));
    CHARL_TRY(charl__realloc((size_t)room * sizeof *p->chunks, &p->chunks));
    chunks = p->chunks + room - p->n_leaves;
    memset(chunks, 0, (size_t)p->n_leaves * sizeof *chunks);
    for (int16_t id = 0; (type = charl__thrift_field(t, &id)) != 0;) {
        if (id == 1) {
            n = charl__thrift_list(t, type, &of);
            for (int i = 0; i < n && i < p->n_leaves && !t->failed && charl__thrift_struct(t, of); i++) {
                CHARL_TRY(read_chunk(p, t, i, &chunks[i]));
            }
        } else if (id == 3) {
            rows = charl__thrift_integer(t, type);
        } else {
            charl__thrift_skip(t, type);
        }
    }
    CHARL_REQUIRE(t->failed || (rows >= 0 && n == p->n_leaves), CHARL_ERR_DATA,
                  "%s: damaged: a group of rows does not have all columns", p->path);
    p->group_rows[p->n_groups++] = rows;
    return CHARL_OK;
}

static charl_status read_groups(charl__parquet *p, charl__thrift *t, int type)
{
    int of = 0;
    const int64_t n = charl__thrift_list(t, type, &of);

    for (int64_t i = 0; i < n && !t->failed && charl__thrift_struct(t, of); i++) {
        CHARL_REQUIRE(p->n_leaves > 0, CHARL_ERR_DATA, "%s: damaged: it has no columns", p->path);
        CHARL_TRY(read_group(p, t));
    }
    return CHARL_OK;
}

/* Columns that are left out come last. */
static charl_status sort_columns(charl__parquet *p)
{
    CHARL_SCOPED_FREE charl__parquet_column *sorted = NULL;
    int n = 0;

    CHARL_TRY(charl__alloc_array(p->n_all, sizeof *sorted, &sorted));
    for (int out = 0; out < 2; out++) {
        for (int i = 0; i < p->n_all; i++) {
            if ((p->columns[i].why != NULL) == out) {
                sorted[n++] = p->columns[i];
            }
        }
        p->n_columns = out ? p->n_columns : n;
    }
    memcpy(p->columns, sorted, (size_t)n * sizeof *sorted);
    return CHARL_OK;
}

static charl_status read_all(charl__parquet *p, charl__thrift *t)
{
    int type;

    for (int16_t id = 0; (type = charl__thrift_field(t, &id)) != 0;) {
        if (id == 2) {
            CHARL_TRY(read_schema(p, t, type));
        } else if (id == 4) {
            CHARL_TRY(read_groups(p, t, type));
        } else {
            charl__thrift_skip(t, type);
        }
    }
    CHARL_REQUIRE(!t->failed && p->n_all > 0, CHARL_ERR_DATA, "%s: damaged: the description at its end is malformed",
                  p->path);
    return CHARL_OK;
}

charl_status charl__parquet_describe(charl__parquet *p)
{
    CHARL_SCOPED_FREE unsigned char *description = NULL;
    unsigned char tail[TAIL];
    int64_t bytes;
    charl__thrift t;

    CHARL_REQUIRE(p->file_bytes >= 4 + TAIL && charl__parquet_read(p, tail, TAIL, p->file_bytes - TAIL) &&
                      (memcmp(tail + 4, "PAR1", 4) == 0 || memcmp(tail + 4, "PARE", 4) == 0),
                  CHARL_ERR_DATA, "%s: a Parquet file that is cut short: its end is missing", p->path);
    CHARL_REQUIRE(tail[7] == '1', CHARL_ERR_DATA, "%s: an encrypted Parquet file, which charl does not read", p->path);
    bytes = charl__parquet_u32(tail);
    CHARL_REQUIRE(bytes <= p->file_bytes - 4 - TAIL && bytes <= MOST_DESCRIPTION, CHARL_ERR_DATA,
                  "%s: damaged: its description takes %lld bytes", p->path, (long long)bytes);
    CHARL_TRY(charl__alloc((size_t)bytes + 1, &description));
    CHARL_REQUIRE(charl__parquet_read(p, description, bytes, p->file_bytes - TAIL - bytes), CHARL_ERR_IO,
                  "%s: cannot be read", p->path);
    t = (charl__thrift){.at = description, .end = description + bytes};
    CHARL_TRY(read_all(p, &t));
    CHARL_TRY(sort_columns(p));
    CHARL_REQUIRE(p->n_columns > 0, CHARL_ERR_DATA, "%s: no column can be read; column \"%.60s\" %s", p->path,
                  p->columns[0].name, p->columns[0].why);
    return CHARL_OK;
}

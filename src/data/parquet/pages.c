/* Pages of a column: PageHeader of parquet.thrift, then levels and values. */
#include <limits.h>
#include <stdio.h>
#include <zlib.h>

#include "base/alloc.h"
#include "data/parquet/parquet_private.h"
#include "data/parquet/thrift.h"

enum { MOST_HEADER = 1 << 24, FIRST_HEADER = 1 << 10, MOST_PAGE = 1 << 30 };
enum { DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 };
enum {
    PLAIN,
    PLAIN_DICTIONARY = 2,
    RLE,
    BIT_PACKED,
    DELTA_BINARY_PACKED,
    DELTA_LENGTH_BYTE_ARRAY,
    DELTA_BYTE_ARRAY,
    RLE_DICTIONARY,
    BYTE_STREAM_SPLIT
};

typedef struct page_header {
    int64_t type, bytes, packed_bytes, crc;
    bool has_crc;
    int64_t values, encoding, level_encoding;
    int64_t levels, list_levels; /* bytes; of version 2 */
    bool is_packed;
} page_header;

const char *charl__parquet_place(const charl__parquet *p, const charl__parquet_column *c)
{
    static _Thread_local char text[4400];

    snprintf(text, sizeof text, "%.4200s: column \"%.60s\"", p->path, c->name);
    return text;
}

#define DAMAGED_IF_NOT(condition, what)                                                                                \
    CHARL_REQUIRE(condition, CHARL_ERR_DATA, "%s is damaged: %s", charl__parquet_place(p, c), what)

/* The next number; false: the bytes are malformed or at their end. */
static bool next_run(charl__parquet_runs *r)
{
    uint64_t head = 0;
    int shift = 0;
    size_t bytes;

    do {
        if (r->at == r->end || shift > 56) {
            return false;
        }
        head |= (uint64_t)(*r->at & 0x7f) << shift;
        shift += 7;
    } while (*r->at++ & 0x80);
    r->packed = head & 1;
    head >>= 1;
    bytes = r->packed ? (size_t)r->width : (size_t)(r->width + 7) / 8;
    if (head == 0 || head > INT_MAX || (r->packed ? head * bytes : bytes) > (size_t)(r->end - r->at)) {
        return false;
    }
    r->left = (int64_t)head * (r->packed ? 8 : 1);
    r->bits = r->at;
    r->bit = 0;
    r->value = 0;
    for (size_t i = 0; !r->packed && i < bytes; i++) {
        r->value |= (uint32_t)r->at[i] << 8 * i;
    }
    r->at += r->packed ? head * bytes : bytes;
    return true;
}

static bool next_number(charl__parquet_runs *r, uint32_t *v)
{
    uint64_t bits = 0;

    if (r->left == 0 && !next_run(r)) {
        return false;
    }
    r->left--;
    if (r->packed) {
        const unsigned char *from = r->bits + r->bit / 8;

        for (int i = 0; 8 * i < r->width + (int)(r->bit % 8); i++) {
            bits |= (uint64_t)from[i] << 8 * i;
        }
        r->value = (uint32_t)(bits >> r->bit % 8 & ((1ULL << r->width) - 1));
        r->bit += r->width;
    }
    *v = r->value;
    return true;
}

static void read_data_header(charl__thrift *t, int type, page_header *h)
{
    const bool v2 = h->type == DATA_PAGE_V2;
    const int encoding = v2 ? 4 : 2;

    if (!charl__thrift_struct(t, type)) {
        return;
    }
    for (int16_t id = 0; (type = charl__thrift_field(t, &id)) != 0;) {
        if (id == 1) {
            h->values = charl__thrift_integer(t, type);
        } else if (id == encoding) {
            h->encoding = charl__thrift_integer(t, type);
        } else if (h->type == DATA_PAGE && id == 3) {
            h->level_encoding = charl__thrift_integer(t, type);
        } else if (v2 && id == 5) {
            h->levels = charl__thrift_integer(t, type);
        } else if (v2 && id == 6) {
            h->list_levels = charl__thrift_integer(t, type);
        } else if (v2 && id == 7) {
            h->is_packed = charl__thrift_bool(t, type);
        } else {
            charl__thrift_skip(t, type);
        }
    }
}

static page_header parse_header(charl__thrift *t)
{
    page_header h = {
        .type = -1, .values = -1, .bytes = -1, .packed_bytes = -1, .is_packed = true, .level_encoding = RLE};
    int64_t *const numbers[] = {NULL, &h.type, &h.bytes, &h.packed_bytes, &h.crc};
    int type;

    for (int16_t id = 0; (type = charl__thrift_field(t, &id)) != 0;) {
        if (id >= 1 && id <= 4) {
            *numbers[id] = charl__thrift_integer(t, type);
            h.has_crc = h.has_crc || id == 4;
        } else if (id == 5 || id == 7 || id == 8) {
            read_data_header(t, type, &h);
        } else {
            charl__thrift_skip(t, type);
        }
    }
    return h;
}

static charl_status grow(size_t bytes, size_t *size, unsigned char **buffer)
{
    if (bytes > *size) {
        CHARL_TRY(charl__realloc(bytes, buffer));
        *size = bytes;
    }
    return CHARL_OK;
}

static charl_status read_bytes(const charl__parquet *p, charl__parquet_column *c, int64_t bytes)
{
    charl__parquet_pages *g = &c->pages;

    CHARL_TRY(grow((size_t)bytes, &g->packed_size, &g->packed));
    CHARL_REQUIRE(charl__parquet_read(p, g->packed, bytes, g->chunk.begin), CHARL_ERR_IO, "%s cannot be read",
                  charl__parquet_place(p, c));
    return CHARL_OK;
}

/* The length of a header is known only when it has been parsed. */
static charl_status read_header(const charl__parquet *p, charl__parquet_column *c, page_header *h)
{
    charl__parquet_pages *g = &c->pages;
    const int64_t left = g->chunk.end - g->chunk.begin;
    charl__thrift t = {.failed = true};

    for (int64_t bytes = FIRST_HEADER; t.failed; bytes *= 4) {
        const int64_t n = bytes < left ? bytes : left;

        CHARL_TRY(read_bytes(p, c, n));
        t = (charl__thrift){.at = g->packed, .end = g->packed + n};
        *h = parse_header(&t);
        DAMAGED_IF_NOT(!t.failed || (n < left && n < MOST_HEADER), "the header of a page is malformed");
    }
    g->chunk.begin += t.at - g->packed;
    DAMAGED_IF_NOT(h->packed_bytes >= 0 && h->packed_bytes <= g->chunk.end - g->chunk.begin,
                   "a page is larger than the column");
    return CHARL_OK;
}

/* Into *to, which has *size bytes. The first `plain` bytes are never compressed. */
static charl_status unpack_page(const charl__parquet *p, charl__parquet_column *c, const page_header *h, int64_t plain,
                                unsigned char **to, size_t *size)
{
    charl__parquet_pages *g = &c->pages;
    const int codec = h->is_packed ? g->chunk.codec : 0;
    const char *where = charl__parquet_place(p, c);
    int64_t most = 0;

    DAMAGED_IF_NOT(plain <= h->packed_bytes && plain <= h->bytes, "a page ends within its levels");
    CHARL_TRY(charl__parquet_expansion(where, codec, h->packed_bytes - plain, &most));
    DAMAGED_IF_NOT(h->bytes - plain <= most && h->bytes <= MOST_PAGE && (codec != 0 || h->bytes == h->packed_bytes),
                   "a page cannot have as many bytes as it says");
    CHARL_TRY(read_bytes(p, c, h->packed_bytes));
    DAMAGED_IF_NOT(!h->has_crc || (uint32_t)h->crc == crc32(0, g->packed, (uInt)h->packed_bytes),
                   "the checksum of a page differs");
    g->chunk.begin += h->packed_bytes;
    CHARL_TRY(grow((size_t)h->bytes + 1, size, to));
    memcpy(*to, g->packed, (size_t)plain);
    return h->bytes == plain ? CHARL_OK
                             : charl__parquet_unpack(where, codec, g->packed + plain, (size_t)(h->packed_bytes - plain),
                                                     *to + plain, (size_t)(h->bytes - plain));
}

/* One plain value at *at; false: it is not there. */
static bool next_plain(const charl__parquet_type *type, const unsigned char **at, const unsigned char *end,
                       const unsigned char **value, size_t *n)
{
    size_t bytes = (size_t)type->bytes;

    if (bytes == 0) {
        if (end - *at < 4) {
            return false;
        }
        bytes = charl__parquet_u32(*at);
        *at += 4;
    }
    if (bytes > (size_t)(end - *at)) {
        return false;
    }
    *value = *at;
    *n = bytes;
    *at += bytes;
    return true;
}

static charl_status read_dictionary(const charl__parquet *p, charl__parquet_column *c, const page_header *h)
{
    charl__parquet_pages *g = &c->pages;
    const unsigned char *at, *end;

    DAMAGED_IF_NOT(g->n_entries == 0 && h->values >= 0 && h->values <= h->bytes &&
                       c->type.storage != CHARL__PARQUET_BOOLEAN,
                   "its dictionary is malformed");
    CHARL_REQUIRE(h->encoding == PLAIN || h->encoding == PLAIN_DICTIONARY, CHARL_ERR_DATA,
                  "%s has a dictionary in encoding %lld, which charl does not read", charl__parquet_place(p, c),
                  (long long)h->encoding);
    CHARL_TRY(unpack_page(p, c, h, 0, &g->dictionary, &g->dictionary_size));
    if (h->values > g->most_entries) {
        CHARL_TRY(charl__realloc((size_t)h->values * sizeof *g->entries, &g->entries));
        CHARL_TRY(charl__realloc((size_t)h->values * sizeof *g->entry_bytes, &g->entry_bytes));
        g->most_entries = h->values;
    }
    at = g->dictionary;
    end = at + h->bytes;
    for (; g->n_entries < h->values; g->n_entries++) {
        size_t n = 0;

        DAMAGED_IF_NOT(next_plain(&c->type, &at, end, &g->entries[g->n_entries], &n), "its dictionary is cut short");
        g->entry_bytes[g->n_entries] = (uint32_t)n;
    }
    return CHARL_OK;
}

/* Runs with their length in front: *at is after them. */
static charl_status begin_runs(const charl__parquet *p, const charl__parquet_column *c, const unsigned char **at,
                               const unsigned char *end, int width, charl__parquet_runs *r)
{
    size_t bytes = 0;

    DAMAGED_IF_NOT(end - *at >= 4 && (bytes = charl__parquet_u32(*at)) <= (size_t)(end - *at - 4),
                   "a page ends within its levels");
    *at += 4;
    *r = (charl__parquet_runs){.at = *at, .end = *at + bytes, .width = width};
    *at += bytes;
    return CHARL_OK;
}

static charl_status begin_values(const charl__parquet *p, charl__parquet_column *c, const page_header *h)
{
    static const char *const names[] = {
        "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
        "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
        "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
    const bool known = h->encoding >= 0 && h->encoding < (int64_t)(sizeof names / sizeof *names);
    charl__parquet_pages *g = &c->pages;

    g->by_index = h->encoding == PLAIN_DICTIONARY || h->encoding == RLE_DICTIONARY;
    g->in_runs = h->encoding == RLE && c->type.storage == CHARL__PARQUET_BOOLEAN;
    g->bit = 0;
    if (g->in_runs) {
        return begin_runs(p, c, &g->at, g->end, 1, &g->indices);
    }
    if (g->by_index) {
        g->indices = (charl__parquet_runs){.width = g->at < g->end ? *g->at : 0};
        DAMAGED_IF_NOT(g->indices.width <= 32, "an index has more than 32 bits");
        g->indices.at = g->at + (g->at < g->end);
        g->indices.end = g->end;
        return CHARL_OK;
    }
    CHARL_REQUIRE(
        h->encoding == PLAIN, CHARL_ERR_DATA,
        "%s has the encoding %s, which charl does not read; HINT in Python, pandas.read_parquet(FILE).to_parquet(NEW) "
        "writes one that it reads",
        charl__parquet_place(p, c), known ? names[h->encoding] : "of an unknown kind");
    return CHARL_OK;
}

static charl_status read_data(const charl__parquet *p, charl__parquet_column *c, const page_header *h)
{
    charl__parquet_pages *g = &c->pages;
    const bool v2 = h->type == DATA_PAGE_V2;

    DAMAGED_IF_NOT(h->values >= 0 && h->values <= g->values && (!v2 || (h->levels >= 0 && h->list_levels == 0)),
                   "a page has more values than the column");
    CHARL_TRY(unpack_page(p, c, h, v2 ? h->levels : 0, &g->page, &g->page_size));
    g->at = g->page;
    g->end = g->page + h->bytes;
    if (v2) {
        g->present = (charl__parquet_runs){.at = g->at, .end = g->at + h->levels, .width = 1};
        g->at += h->levels;
    } else if (c->type.optional) {
        CHARL_REQUIRE(h->level_encoding == RLE, CHARL_ERR_DATA,
                      "%s has missing values in the encoding BIT_PACKED, which charl does not read",
                      charl__parquet_place(p, c));
        CHARL_TRY(begin_runs(p, c, &g->at, g->end, 1, &g->present));
    }
    g->values -= h->values;
    g->left = h->values;
    return begin_values(p, c, h);
}

static charl_status next_page(const charl__parquet *p, charl__parquet_column *c)
{
    charl__parquet_pages *g = &c->pages;
    page_header h;

    DAMAGED_IF_NOT(g->chunk.begin < g->chunk.end, "it has fewer values than it says");
    CHARL_TRY(read_header(p, c, &h));
    DAMAGED_IF_NOT(h.bytes >= 0, "a page has no length");
    if (h.type == DATA_PAGE || h.type == DATA_PAGE_V2) {
        return read_data(p, c, &h);
    }
    if (h.type == DICTIONARY_PAGE) {
        return read_dictionary(p, c, &h);
    }
    g->chunk.begin += h.packed_bytes; /* an index, or what later versions add */
    return CHARL_OK;
}

void charl__parquet_pages_begin(charl__parquet_column *c, const charl__parquet_chunk *chunk)
{
    charl__parquet_pages *g = &c->pages;

    g->chunk = *chunk;
    g->values = chunk->values;
    g->left = 0;
    g->n_entries = 0;
}

void charl__parquet_pages_fini(charl__parquet_pages *g)
{
    charl_free(g->packed);
    charl_free(g->page);
    charl_free(g->dictionary);
    charl_free(g->entries);
    charl_free(g->entry_bytes);
}

static charl_status take_value(const charl__parquet *p, charl__parquet_column *c)
{
    charl__parquet_pages *g = &c->pages;
    const bool is_bit = c->type.storage == CHARL__PARQUET_BOOLEAN;
    uint32_t v = 0;

    if (g->by_index || g->in_runs) {
        DAMAGED_IF_NOT(next_number(&g->indices, &v), "a page has fewer values than it says");
    }
    if (g->by_index) {
        DAMAGED_IF_NOT(v < (uint64_t)g->n_entries, "a value is not in the dictionary");
        c->value = g->entries[v];
        c->n = g->entry_bytes[v];
    } else if (is_bit) {
        if (!g->in_runs) {
            DAMAGED_IF_NOT(g->at < g->end, "a page has fewer values than it says");
            v = *g->at >> g->bit & 1;
            g->bit = (g->bit + 1) % 8;
            g->at += g->bit == 0;
        }
        c->boolean = (unsigned char)v;
        c->value = &c->boolean;
        c->n = 1;
    } else {
        DAMAGED_IF_NOT(next_plain(&c->type, &g->at, g->end, &c->value, &c->n), "a page has fewer values than it says");
    }
    DAMAGED_IF_NOT(c->type.form != CHARL__PARQUET_AS_DECIMAL || c->n <= 16, "a decimal has more than 38 digits");
    return CHARL_OK;
}

charl_status charl__parquet_value(const charl__parquet *p, charl__parquet_column *c)
{
    charl__parquet_pages *g = &c->pages;
    uint32_t present = 1;

    while (g->left == 0) {
        CHARL_TRY(next_page(p, c));
    }
    g->left--;
    if (c->type.optional) {
        DAMAGED_IF_NOT(next_number(&g->present, &present), "a page has fewer levels than values");
    }
    c->value = NULL;
    c->n = 0;
    return present ? take_value(p, c) : CHARL_OK;
}

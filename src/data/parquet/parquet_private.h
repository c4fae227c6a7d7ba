#ifndef CHARL_DATA_PARQUET_PARQUET_PRIVATE_H
#define CHARL_DATA_PARQUET_PARQUET_PRIVATE_H
#include <stdio.h>

#include "base/text/text.h"
#include "data/parquet/parquet.h"

/** How values are stored: Type of parquet.thrift. */
enum {
    CHARL__PARQUET_BOOLEAN,
    CHARL__PARQUET_INT32,
    CHARL__PARQUET_INT64,
    CHARL__PARQUET_INT96,
    CHARL__PARQUET_FLOAT,
    CHARL__PARQUET_DOUBLE,
    CHARL__PARQUET_BYTES,
    CHARL__PARQUET_FIXED
};

/** What they mean. */
typedef enum charl__parquet_form {
    CHARL__PARQUET_AS_BOOL,
    CHARL__PARQUET_AS_INTEGER,
    CHARL__PARQUET_AS_UNSIGNED,
    CHARL__PARQUET_AS_NUMBER, /* f16, f32 or f64, by its bytes */
    CHARL__PARQUET_AS_TEXT,
    CHARL__PARQUET_AS_DATE,
    CHARL__PARQUET_AS_TIME,
    CHARL__PARQUET_AS_TIMESTAMP,
    CHARL__PARQUET_AS_JULIAN, /* a timestamp of 96 bits */
    CHARL__PARQUET_AS_DECIMAL,
    CHARL__PARQUET_AS_UUID
} charl__parquet_form;

typedef struct charl__parquet_type {
    int storage;
    int bytes; /* of a value; 0: each has its own number */
    charl__parquet_form form;
    int scale;        /* of decimals */
    int64_t per_unit; /* of times: units in a second */
    bool optional;
} charl__parquet_type;

/** A column in a group of rows. */
typedef struct charl__parquet_chunk {
    int64_t begin, end; /* bytes of the file */
    int64_t values;
    int codec;
} charl__parquet_chunk;

/** Numbers of few bits, in runs: https://parquet.apache.org/docs/file-format/data-pages/encodings */
typedef struct charl__parquet_runs {
    const unsigned char *at, *end;
    int width;    /* bits of a number */
    int64_t left; /* numbers of the run */
    bool packed;  /* false: all of them are `value` */
    uint32_t value;
    const unsigned char *bits; /* of the run */
    int64_t bit;
} charl__parquet_runs;

/** What is decoded of a column. */
typedef struct charl__parquet_pages {
    charl__parquet_chunk chunk; /* begin: of the next page */
    int64_t values;             /* of the chunk that come in later pages */
    int64_t left;               /* of the page */
    unsigned char *packed;      /* the page as it is in the file */
    unsigned char *page;        /* unpacked */
    size_t packed_size, page_size;
    unsigned char *dictionary;
    size_t dictionary_size;
    const unsigned char **entries; /* [n_entries] of the dictionary */
    uint32_t *entry_bytes;
    int64_t n_entries, most_entries;
    charl__parquet_runs present; /* 1: there is a value */
    charl__parquet_runs indices; /* into the dictionary, or booleans */
    bool by_index, in_runs;
    const unsigned char *at, *end; /* plain values */
    int bit;                       /* of at, for booleans */
} charl__parquet_pages;

typedef struct charl__parquet_column {
    char *name;
    const char *why; /* it is left out; NULL: it is not */
    charl__parquet_type type;
    int leaf; /* number of its chunk in a group */
    bool used;
    charl__parquet_pages pages;
    const unsigned char *value; /* of the current row; NULL: missing */
    size_t n;
    unsigned char boolean;
} charl__parquet_column;

struct charl__parquet {
    char *path;
    FILE *file;
    int64_t file_bytes;
    charl__parquet_column *columns; /* [n_all]; those that are left out come last */
    int n_all, n_columns;
    int n_leaves;
    charl__parquet_chunk *chunks; /* [n_groups][n_leaves] */
    int64_t *group_rows;          /* [n_groups] */
    int64_t n_groups, group;      /* group: the next */
    int64_t left;                 /* rows of the current group */
    int64_t row;
    charl__text text;
};

/** Read `bytes` bytes at `at`; false: not all of them can be read. */
bool charl__parquet_read(const charl__parquet *p, void *dst, int64_t bytes, int64_t at);

/** Read the description at the end of the file. Errors: ERR_DATA, ERR_NOMEM. */
charl_status charl__parquet_describe(charl__parquet *p) CHARL_MUST_CHECK;

/** Begin to read a chunk of column c. */
void charl__parquet_pages_begin(charl__parquet_column *c, const charl__parquet_chunk *chunk);
void charl__parquet_pages_fini(charl__parquet_pages *g);
/** Read the next value of column c. Errors: ERR_DATA, naming the file and the column; ERR_NOMEM. */
charl_status charl__parquet_value(const charl__parquet *p, charl__parquet_column *c) CHARL_MUST_CHECK;

/** "FILE: column NAME" in messages. Borrowed until the next call on this thread. */
const char *charl__parquet_place(const charl__parquet *p, const charl__parquet_column *c);

/** The largest number of bytes to which a compression can expand n bytes, INT64_MAX if it has no limit. Errors: ERR_DATA if charl does not
 *  read it; `where` begins the message. */
charl_status charl__parquet_expansion(const char *where, int codec, int64_t n, int64_t *most) CHARL_MUST_CHECK;
/** Decompress n bytes into exactly `bytes`. Errors: ERR_DATA, naming `where`, if they are damaged, or a library is missing; ERR_NOMEM. */
charl_status charl__parquet_unpack(const char *where, int codec, unsigned char *from, size_t n, unsigned char *to,
                                   size_t bytes) CHARL_MUST_CHECK;

/** A value as text. Errors: ERR_NOMEM. */
charl_status charl__parquet_print(const charl__parquet_type *type, const unsigned char *value, size_t n,
                                  charl__text *out) CHARL_MUST_CHECK;

static inline uint32_t charl__parquet_u32(const unsigned char *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t charl__parquet_u64(const unsigned char *b)
{
    return charl__parquet_u32(b) | (uint64_t)charl__parquet_u32(b + 4) << 32;
}

#endif

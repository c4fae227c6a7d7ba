#include "data/parquet/parquet.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "data/parquet/parquet_private.h"

bool charl__parquet_read(const charl__parquet *p, void *dst, int64_t bytes, int64_t at)
{
    return fseeko(p->file, at, SEEK_SET) == 0 && fread(dst, 1, (size_t)bytes, p->file) == (size_t)bytes;
}

static charl_status open_file(charl__parquet *p, bool *is_parquet)
{
    CHARL_SCOPED(charl__descriptor_left) int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    unsigned char magic[4];
    struct stat info;

    CHARL_REQUIRE(fd >= 0 && fstat(fd, &info) == 0, CHARL_ERR_DATA, "%s: cannot be opened: %s", p->path,
                  strerror(errno));
    if (S_ISREG(info.st_mode)) {
        p->file = fdopen(fd, "rb");
        CHARL_REQUIRE(p->file, CHARL_ERR_NOMEM, "%s: out of memory for reading", p->path);
        fd = -1; /* fclose closes it */
        p->file_bytes = info.st_size;
        *is_parquet = charl__parquet_read(p, magic, sizeof magic, 0) && memcmp(magic, "PAR1", sizeof magic) == 0;
    }
    return CHARL_OK;
}

charl_status charl__parquet_open(const char *path, charl__parquet **out)
{
    CHARL_SCOPED(charl__parquet_left) charl__parquet *p = NULL;
    bool is_parquet = false;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *p, &p));
    CHARL_TRY(charl__strdup(path, &p->path));
    CHARL_TRY(open_file(p, &is_parquet));
    if (is_parquet) {
        CHARL_TRY(charl__parquet_describe(p));
        *out = p;
        p = NULL;
    }
    return CHARL_OK;
}

void charl__parquet_close(charl__parquet *p)
{
    if (!p) {
        return;
    }
    for (int i = 0; i < p->n_all; i++) {
        charl_free(p->columns[i].name);
        charl__parquet_pages_fini(&p->columns[i].pages);
    }
    charl_free(p->columns);
    charl_free(p->chunks);
    charl_free(p->group_rows);
    charl__text_fini(&p->text);
    charl__file_left(&p->file);
    charl_free(p->path);
    charl_free(p);
}

int charl__parquet_n_columns(const charl__parquet *p)
{
    return p->n_columns;
}

const char *charl__parquet_name(const charl__parquet *p, int column)
{
    return p->columns[column].name;
}

const char *charl__parquet_left_out(const charl__parquet *p, int i, const char **why)
{
    if (p->n_columns + i >= p->n_all) {
        return NULL;
    }
    *why = p->columns[p->n_columns + i].why;
    return p->columns[p->n_columns + i].name;
}

void charl__parquet_use(charl__parquet *p, int column)
{
    for (int i = 0; i < p->n_columns; i++) {
        p->columns[i].used = i == column;
    }
}

int64_t charl__parquet_row(const charl__parquet *p)
{
    return p->row;
}

static charl_status begin_group(charl__parquet *p)
{
    const charl__parquet_chunk *chunks = p->chunks + p->group * p->n_leaves;

    p->left = p->group_rows[p->group++];
    for (int i = 0; i < p->n_columns; i++) {
        charl__parquet_column *c = &p->columns[i];

        CHARL_REQUIRE(chunks[c->leaf].values == p->left, CHARL_ERR_DATA,
                      "%s is damaged: it has %lld values for %lld rows", charl__parquet_place(p, c),
                      (long long)chunks[c->leaf].values, (long long)p->left);
        charl__parquet_pages_begin(c, &chunks[c->leaf]);
    }
    return CHARL_OK;
}

charl_status charl__parquet_next(charl__parquet *p, bool *more)
{
    while (p->left == 0 && p->group < p->n_groups) {
        CHARL_TRY(begin_group(p));
    }
    *more = p->left > 0;
    if (*more) {
        p->left--;
        p->row++;
        for (int i = 0; i < p->n_columns; i++) {
            if (p->columns[i].used) {
                CHARL_TRY(charl__parquet_value(p, &p->columns[i]));
            }
        }
    }
    return CHARL_OK;
}

charl_status charl__parquet_field(charl__parquet *p, int column, const char **text, size_t *n)
{
    const charl__parquet_column *c = &p->columns[column];

    *text = (const char *)c->value;
    *n = c->n;
    if (c->value && c->type.form != CHARL__PARQUET_AS_TEXT) {
        charl__text_clear(&p->text);
        CHARL_TRY(charl__parquet_print(&c->type, c->value, c->n, &p->text));
        *text = charl__text_string(&p->text);
        *n = p->text.length;
    }
    return CHARL_OK;
}

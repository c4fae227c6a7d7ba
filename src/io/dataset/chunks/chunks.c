/* Chunks of an array, and the cache of decoded ones. The thread that first asks for a chunk creates its entry; others that ask
 * meanwhile wait for it. Entries that are being copied from are held and stay in the cache. */
#include "io/dataset/chunks/chunks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "io/dataset/chunks/chunk_filters.h"

enum { MAX_CHUNK_BYTES = 64 << 20 };

typedef struct charl__chunk {
    struct charl__chunk *newer, *older; /* in the order of their last use */
    charl__chunks *owner;
    int64_t index;
    unsigned char *data;
    int holders;
    bool ready;
} charl__chunk;

struct charl__chunk_cache {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t bytes, most;
    int threads;
    charl__chunk *newest, *oldest;
};

charl_status charl__chunk_cache_create(int64_t bytes, int threads, charl__chunk_cache **out)
{
    charl__chunk_cache *c = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *c, &c));
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->most = bytes;
    c->threads = threads;
    *out = c;
    return CHARL_OK;
}

void charl__chunk_cache_destroy(charl__chunk_cache *c)
{
    if (c) {
        pthread_cond_destroy(&c->changed);
        pthread_mutex_destroy(&c->lock);
        charl_free(c);
    }
}

static charl_status judge_filters(charl__chunks *c, hid_t plist)
{
    const int n = H5Pget_nfilters(plist);
    int compressors = 0;

    CHARL_REQUIRE(n >= 0 && n <= CHARL__MAX_FILTERS, CHARL_ERR_DATA, "%s: %s: filters cannot be read", c->path,
                  c->name);
    for (int i = 0; i < n; i++) {
        charl__filter *f = &c->filter[i];
        unsigned flags = 0, config = 0;
        char stored[64] = "";
        const char *name;

        f->n_values = CHARL__FILTER_VALUES;
        f->id = H5Pget_filter2(plist, (unsigned)i, &flags, &f->n_values, f->values, sizeof stored, stored, &config);
        f->n_values = f->n_values < CHARL__FILTER_VALUES ? f->n_values : CHARL__FILTER_VALUES;
        name = charl__filter_name(f->id);
        name = name ? name : stored[0] ? stored : "unnamed";
        compressors += f->id != H5Z_FILTER_SHUFFLE && f->id != H5Z_FILTER_FLETCHER32;
        if (charl__filter_is_own(f->id)) {
            continue;
        }
        c->by_hdf5 = true;
        CHARL_REQUIRE(
            H5Zfilter_avail(f->id) > 0, CHARL_ERR_DATA,
            "%s: %s is compressed with %s (filter %d), for which HDF5 has no plug-in here. HINT install the plug-in "
            "and name "
            "its folder in HDF5_PLUGIN_PATH, or repack the file where it can be read: `h5repack -f GZIP=4 IN OUT`",
            c->path, c->name, name, (int)f->id);
    }
    c->n_filters = n;
    c->by_hdf5 = c->by_hdf5 || compressors > 1;
    return CHARL_OK;
}

/* Every chunk must have been written. They are counted, because HDF5's space status calls
 * compressed data partly allocated. */
static charl_status check_written(const charl__chunks *c, hid_t space)
{
    hsize_t have = 0;

    CHARL_H5(CHARL_ERR_DATA, H5Dget_num_chunks(c->dataset, space, &have), "%s: %s", c->path, c->name);
    CHARL_REQUIRE(have == (hsize_t)c->n, CHARL_ERR_DATA, "%s: %s was %s written; unwritten parts would read as zeros",
                  c->path, c->name, have ? "only partly" : "never");
    return CHARL_OK;
}

charl_status charl__chunks_init(charl__chunks *c, hid_t dataset, hid_t plist, hid_t type)
{
    hsize_t extent[H5S_MAX_RANK], dims[H5S_MAX_RANK];
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID;
    uint64_t bytes = H5Tget_size(type);

    c->dataset = dataset;
    c->type = H5I_INVALID_HID;
    c->element_bytes = (size_t)bytes;
    CHARL_H5_OPEN(CHARL_ERR_DATA, c->type, H5Tcopy(type), "%s: %s", c->path, c->name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, space, H5Dget_space(dataset), "%s: %s", c->path, c->name);
    c->ndim = H5Sget_simple_extent_dims(space, extent, NULL);
    CHARL_REQUIRE(c->ndim >= 1 && c->ndim <= CHARL_MAX_DIMS + 1 && H5Pget_chunk(plist, H5S_MAX_RANK, dims) == c->ndim,
                  CHARL_ERR_DATA, "%s: %s: malformed chunks", c->path, c->name);
    c->n = 1;
    for (int i = 0; i < c->ndim; i++) {
        CHARL_REQUIRE(dims[i] > 0 && dims[i] <= MAX_CHUNK_BYTES / bytes, CHARL_ERR_DATA,
                      "%s: %s: chunks larger than %d MiB", c->path, c->name, MAX_CHUNK_BYTES >> 20);
        bytes *= dims[i];
        c->extent[i] = (int64_t)extent[i];
        c->dim[i] = (int64_t)dims[i];
        c->grid[i] = (c->extent[i] - 1) / c->dim[i] + 1;
        c->n *= c->grid[i];
    }
    c->per_group = c->n / c->grid[0];
    c->chunk_bytes = (size_t)bytes;
    CHARL_TRY(judge_filters(c, plist));
    CHARL_TRY(check_written(c, space));
    return CHARL_OK;
}

void charl__chunks_of_rows(charl__chunks *c, const char *path, const char *name, int64_t rows, const charl_shape *item,
                           charl_status (*decode)(void *ctx, int64_t index, unsigned char *out), void *ctx)
{
    *c = (charl__chunks){.path = path,
                         .name = name,
                         .dataset = H5I_INVALID_HID,
                         .type = H5I_INVALID_HID,
                         .element_bytes = 1,
                         .ndim = item->ndim + 1,
                         .extent = {rows},
                         .dim = {1},
                         .grid = {rows},
                         .n = rows,
                         .per_group = 1,
                         .chunk_bytes = (size_t)charl_shape_count(item),
                         .decode = decode,
                         .ctx = ctx};
    for (int i = 0; i < item->ndim; i++) {
        c->extent[i + 1] = c->dim[i + 1] = item->dim[i];
        c->grid[i + 1] = 1;
    }
}

charl_status charl__chunks_attach(charl__chunks *c, charl__chunk_cache *cache)
{
    CHARL_TRY(charl__alloc_array(c->n, sizeof *c->entry, &c->entry));
    c->cache = cache;
    return CHARL_OK;
}

/* Remove an entry from the list. */
static void unlink_entry(charl__chunk_cache *cache, charl__chunk *e)
{
    *(e->newer ? &e->newer->older : &cache->newest) = e->older;
    *(e->older ? &e->older->newer : &cache->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void link_newest(charl__chunk_cache *cache, charl__chunk *e)
{
    e->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = e;
    cache->newest = e;
}

static void drop_entry(charl__chunk_cache *cache, charl__chunk *e)
{
    unlink_entry(cache, e);
    cache->bytes -= (int64_t)e->owner->chunk_bytes;
    e->owner->entry[e->index] = NULL;
    charl_free(e->data);
    charl_free(e);
}

/* Make room, as far as entries are not held. */
static void trim(charl__chunk_cache *cache)
{
    for (charl__chunk *e = cache->oldest, *next; e && cache->bytes > cache->most; e = next) {
        next = e->newer;
        if (e->holders == 0) {
            drop_entry(cache, e);
        }
    }
}

void charl__chunks_fini(charl__chunks *c)
{
    for (int64_t i = 0; c->entry && i < c->n; i++) {
        if (c->entry[i]) {
            drop_entry(c->cache, c->entry[i]);
        }
    }
    charl_free(c->entry);
    c->entry = NULL;
    charl__h5_close(&c->type);
}

/* Where chunk `index` begins in the array. */
static void chunk_origin(const charl__chunks *c, int64_t index, hsize_t *origin)
{
    for (int i = c->ndim - 1; i >= 0; i--) {
        origin[i] = (hsize_t)(index % c->grid[i] * c->dim[i]);
        index /= c->grid[i];
    }
}

/* The bytes of a chunk as stored in the file. */
static charl_status read_stored(const charl__chunks *c, int64_t index, unsigned char **out, size_t *bytes,
                                uint32_t *skipped)
{
    CHARL_H5_LOCKED;
    hsize_t origin[CHARL_MAX_DIMS + 1], size = 0;

    *out = NULL;
    chunk_origin(c, index, origin);
    CHARL_H5(CHARL_ERR_DATA, H5Dget_chunk_storage_size(c->dataset, origin, &size), "%s: %s: chunk %lld", c->path,
             c->name, (long long)index);
    CHARL_REQUIRE(size > 0 && size <= 2 * (hsize_t)MAX_CHUNK_BYTES, CHARL_ERR_DATA,
                  "%s: %s: chunk %lld has %llu bytes in the file", c->path, c->name, (long long)index,
                  (unsigned long long)size);
    CHARL_TRY(charl__alloc((size_t)size, out));
    CHARL_H5(CHARL_ERR_DATA, H5Dread_chunk(c->dataset, H5P_DEFAULT, origin, skipped, *out),
             "%s: %s: chunk %lld cannot be read", c->path, c->name, (long long)index);
    *bytes = (size_t)size;
    return CHARL_OK;
}

/* A chunk with filters that only HDF5 undoes. Bytes beyond the extents of the array are not changed. */
static charl_status read_by_hdf5(const charl__chunks *c, int64_t index, unsigned char *out)
{
    CHARL_H5_LOCKED;
    CHARL_SCOPED(charl__h5_close) hid_t file_space = H5I_INVALID_HID, mem_space = H5I_INVALID_HID;
    hsize_t origin[CHARL_MAX_DIMS + 1], count[CHARL_MAX_DIMS + 1], dim[CHARL_MAX_DIMS + 1];
    const hsize_t zero[CHARL_MAX_DIMS + 1] = {0};

    chunk_origin(c, index, origin);
    for (int i = 0; i < c->ndim; i++) {
        const int64_t left = c->extent[i] - (int64_t)origin[i];

        dim[i] = (hsize_t)c->dim[i];
        count[i] = (hsize_t)(left < c->dim[i] ? left : c->dim[i]);
    }
    CHARL_H5_OPEN(CHARL_ERR_DATA, file_space, H5Dget_space(c->dataset), "%s: %s", c->path, c->name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, mem_space, H5Screate_simple(c->ndim, dim, NULL), "%s: %s", c->path, c->name);
    CHARL_H5(CHARL_ERR_DATA, H5Sselect_hyperslab(file_space, H5S_SELECT_SET, origin, NULL, count, NULL), "%s: %s",
             c->path, c->name);
    CHARL_H5(CHARL_ERR_DATA, H5Sselect_hyperslab(mem_space, H5S_SELECT_SET, zero, NULL, count, NULL), "%s: %s", c->path,
             c->name);
    CHARL_H5(CHARL_ERR_DATA, H5Dread(c->dataset, c->type, mem_space, file_space, H5P_DEFAULT, out),
             "%s: %s: chunk %lld cannot be read", c->path, c->name, (long long)index);
    return CHARL_OK;
}

static charl_status decode(const charl__chunks *c, int64_t index, unsigned char *out)
{
    CHARL_SCOPED_FREE unsigned char *stored = NULL;
    const char *reason = "";
    size_t bytes = 0;
    uint32_t skipped = 0;

    if (c->decode) {
        return c->decode(c->ctx, index, out);
    }
    if (c->by_hdf5) {
        return read_by_hdf5(c, index, out);
    }
    CHARL_TRY(read_stored(c, index, &stored, &bytes, &skipped));
    CHARL_REQUIRE(charl__filters_undo(c, skipped, stored, bytes, out, &reason), CHARL_ERR_DATA,
                  "%s: %s: rows %lld to %lld cannot be read: chunk %lld: %s", c->path, c->name,
                  (long long)(index / c->per_group * c->dim[0]),
                  (long long)((index / c->per_group + 1) * c->dim[0] - 1), (long long)index, reason);
    return CHARL_OK;
}

/* Hold the entry of a chunk, decoded by this thread if it is not there. */
static charl_status hold(charl__chunks *c, int64_t index, charl__chunk **out)
{
    charl_status st = CHARL_OK;
    charl__chunk_cache *cache = c->cache;
    charl__chunk *e;

    *out = NULL;
    pthread_mutex_lock(&cache->lock);
    while ((e = c->entry[index]) && !e->ready) {
        pthread_cond_wait(&cache->changed, &cache->lock);
    }
    if (e) {
        unlink_entry(cache, e);
        link_newest(cache, e);
        e->holders++;
        *out = e;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *e, &e));
    *e = (charl__chunk){.owner = c, .index = index, .holders = 1};
    c->entry[index] = e;
    link_newest(cache, e);
    cache->bytes += (int64_t)c->chunk_bytes;
    trim(cache);
    pthread_mutex_unlock(&cache->lock);
    st = charl__alloc(charl__filters_room(c), &e->data);
    st = st == CHARL_OK ? decode(c, index, e->data) : st;
    pthread_mutex_lock(&cache->lock);
    e->ready = true;
    pthread_cond_broadcast(&cache->changed);
    if (st == CHARL_OK) {
        *out = e;
    } else {
        drop_entry(cache, e);
    }
cleanup:
    pthread_mutex_unlock(&cache->lock);
    return st;
}

static void let_go(charl__chunks *c, charl__chunk *e)
{
    pthread_mutex_lock(&c->cache->lock);
    e->holders--;
    trim(c->cache);
    pthread_mutex_unlock(&c->cache->lock);
}

/* Chunks to be decoded by several threads. */
typedef struct chunk_list {
    charl__chunks *chunks;
    int64_t *index;
    int64_t n;
} chunk_list;

static charl_status decode_one(void *ctx, int64_t i)
{
    const chunk_list *l = ctx;
    charl__chunk *e;

    CHARL_TRY(hold(l->chunks, l->index[i], &e));
    let_go(l->chunks, e);
    return CHARL_OK;
}

/* The chunks of a group that are not in the cache. */
static void list_group(chunk_list *l, int64_t group)
{
    const charl__chunks *c = l->chunks;

    for (int64_t i = group * c->per_group; i < (group + 1) * c->per_group; i++) {
        if (!c->entry[i]) {
            l->index[l->n++] = i;
        }
    }
}

static int compare_indices(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The groups of rows, ascending, up to more than `most`; a group may be counted twice if rows are not in order. Returns the number
 * of rows. */
static int64_t list_groups(const charl__chunks *c, const int64_t *rows, int64_t first, int64_t n, int64_t most,
                           int64_t *groups, int64_t *n_groups)
{
    int64_t done = 0;

    *n_groups = 0;
    for (; done < n; done++) {
        const int64_t group = (first + (rows ? rows[done] : done)) / c->dim[0];

        if (*n_groups > 0 && groups[*n_groups - 1] == group) {
            continue;
        }
        if (*n_groups == most) {
            break;
        }
        groups[(*n_groups)++] = group;
    }
    qsort(groups, (size_t)*n_groups, sizeof *groups, compare_indices);
    return done;
}

charl_status charl__chunks_prepare(charl__chunks *c, const int64_t *rows, int64_t first, int64_t n, int64_t *done)
{
    charl_status st = CHARL_OK;
    charl__chunk_cache *cache = c->cache;
    const int64_t room = cache->most / 2 / (int64_t)c->chunk_bytes / c->per_group; /* groups */
    const int64_t most = room < 1 ? 1 : room < n ? room : n;
    chunk_list l = {.chunks = c};
    int64_t *groups = NULL, n_groups = 0;

    *done = n;
    if (cache->threads < 2 || n < 2) {
        return CHARL_OK;
    }
    CHARL_TRY_CLEANUP(charl__alloc_array(most, sizeof *groups, &groups));
    *done = list_groups(c, rows, first, n, most, groups, &n_groups);
    CHARL_TRY_CLEANUP(charl__alloc_array(n_groups * c->per_group, sizeof *l.index, &l.index));
    pthread_mutex_lock(&cache->lock);
    for (int64_t i = 0; i < n_groups; i++) {
        if (i == 0 || groups[i] != groups[i - 1]) {
            list_group(&l, groups[i]);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    if (l.n > 1) {
        CHARL_TRY_CLEANUP(charl__parallel_try(cache->threads, l.n, decode_one, &l));
    }
cleanup:
    charl_free(l.index);
    charl_free(groups);
    return st;
}

/* Copy rows [first, first + n) as far as they are in the chunk, from its position in a row to the same position in dst. */
static void copy_part(const charl__chunks *c, int64_t index, const unsigned char *data, int64_t first, int64_t n,
                      unsigned char *dst)
{
    hsize_t origin[CHARL_MAX_DIMS + 1];
    int64_t count[CHARL_MAX_DIMS + 1], at[CHARL_MAX_DIMS + 1] = {0}, run;
    int last = c->ndim - 1;

    chunk_origin(c, index, origin);
    for (int i = 0; i < c->ndim; i++) {
        const int64_t left = c->extent[i] - (int64_t)origin[i];

        count[i] = left < c->dim[i] ? left : c->dim[i];
    }
    /* Axes that the chunk covers completely make longer runs. */
    count[0] = n;
    run = count[last];
    while (last > 0 && c->dim[last] == c->extent[last]) {
        run *= count[--last];
    }
    for (;;) {
        int64_t from = first - (int64_t)origin[0] + at[0], to = at[0];
        int i = last - 1;

        for (int k = 1; k < c->ndim; k++) {
            from = from * c->dim[k] + (k < last ? at[k] : 0);
            to = to * c->extent[k] + (int64_t)origin[k] + (k < last ? at[k] : 0);
        }
        memcpy(dst + (size_t)to * c->element_bytes, data + (size_t)from * c->element_bytes,
               (size_t)run * c->element_bytes);
        while (i >= 0 && ++at[i] == count[i]) {
            at[i--] = 0;
        }
        if (i < 0) {
            return;
        }
    }
}

charl_status charl__chunks_read(charl__chunks *c, int64_t first, int64_t n, void *dst)
{
    int64_t row = (int64_t)c->element_bytes;
    unsigned char *out = dst;

    for (int i = 1; i < c->ndim; i++) {
        row *= c->extent[i];
    }
    while (n > 0) {
        const int64_t group = first / c->dim[0], end = (group + 1) * c->dim[0];
        const int64_t k = end - first < n ? end - first : n;

        for (int64_t i = group * c->per_group; i < (group + 1) * c->per_group; i++) {
            charl__chunk *e;

            CHARL_TRY(hold(c, i, &e));
            copy_part(c, i, e->data, first, k, out);
            let_go(c, e);
        }
        out += k * row;
        first += k;
        n -= k;
    }
    return CHARL_OK;
}

const char *charl__chunks_filters(const charl__chunks *c, char *text, size_t cap)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < c->n_filters && used < cap; i++) {
        const char *name = charl__filter_name(c->filter[i].id);

        used += (size_t)snprintf(text + used, cap - used, "%s%s", i ? ", " : "", name ? name : "another filter");
    }
    return text;
}

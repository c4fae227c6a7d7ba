/* Sources on the device, row numbers in a ring, and a loader if a source holds only part of the data. */
#include "task/device_loader.h"

#include <string.h>

#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "charl/ops.h"
#include "charl/tokenizer.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/loader.h"
#include "io/dataset/order/stream.h"
#include "io/dataset/weights.h"
#include "io/schema.h"
#include "task/augment.h"
#include "task/loader_record.h"

enum { SLOTS = 3, BLOCK_ROWS = 4096, CHOSEN = 128, BLOCK_TOKENS = 1 << 20, BLOCK_PIXELS = 1 << 20 };

/* One part of the batches: on the device the source that graphs gather from and, if that holds only part of the data, slots that a loader fills. */
typedef struct batch_part {
    bool on;
    charl_dtype dtype;
    charl_shape row;      /* shape of a row */
    charl_tensor *tensor; /* [rows, row] */
    charl_pinned *pinned[SLOTS];
    void *host[SLOTS];
} batch_part;

enum { X = CHARL__BATCH_X, Y = CHARL__BATCH_Y, WEIGHTS = CHARL__BATCH_WEIGHTS, STARTS = CHARL__BATCH_STARTS };

struct charl__device_loader {
    charl__device_loader_options o;
    charl_dataset_info info;
    charl__stream stream;
    int64_t n;               /* rows of the split */
    int64_t window;          /* 0: not tokens */
    charl_shape seen;        /* of a sample, by the model */
    bool mixes, draws;       /* has random draws: the augmentation of samples is sent with every step */
    bool counts;             /* targets have weights */
    int64_t step, delivered; /* delivered: the previous step, or the same if it is fixed */
    double step_weight;
    batch_part part[CHARL__BATCH_PARTS]; /* tokens on the device: X is the sequence, and there is no Y */
    void *weights;                       /* of the whole split, as on the device, except for pixels; else NULL */
    double *row_weights;                 /* of pixels in training: the total weight of each row, [n]; else NULL */
    float *window_weights;               /* of one window or row, otherwise */
    charl_tensor *shift, *scale;
    charl_tensor *target_shift, *target_scale, *target_std; /* NULL: targets are not scaled */
    charl__loader_record r;                                 /* of the next run of a graph */
    /* Streaming. */
    charl__loader *loader;
    charl__event *uploaded[SLOTS], *used[SLOTS];
    int slot, previous; /* of this step and of the previous one; -1 for none */
    double waited_s;
};

/* Mixup reads the partners too, unless they are in the same part of the batch. */
static bool is_mirrored(const charl__device_loader *f)
{
    return f->mixes && f->o.rows < f->o.batch;
}

static int64_t slot_rows(const charl__device_loader *f)
{
    return is_mirrored(f) ? 2 * f->o.rows : f->o.rows;
}

static int64_t row_bytes(charl_dtype dtype, const charl_shape *shape)
{
    return charl_shape_count(shape) * (int64_t)charl_dtype_size(dtype);
}

/* Number of targets of a row with separate weights. */
static int64_t weights_per_row(const charl__device_loader *f)
{
    return f->window > 0 ? f->window : f->o.pixels ? charl_shape_count(&f->info.y_shape) : 1;
}

int64_t charl__device_loader_split_bytes(const charl_dataset_info *info, charl_split split)
{
    const bool maps = info->kind == CHARL_DATASET_IMAGES && info->y_dtype == CHARL_I32;
    const int64_t weight =
        (info->weighted ? (int64_t)sizeof(float) : 0) * (maps ? charl_shape_count(&info->y_shape) : 1);

    if (info->kind == CHARL_DATASET_TOKENS) {
        return info->items[split] * ((int64_t)charl_dtype_size(info->stored_dtype) + weight);
    }
    return info->rows[split] *
           (row_bytes(info->x_dtype, &info->x_shape) + row_bytes(info->y_dtype, &info->y_shape) + weight);
}

/* Decide which parts exist, and the rows of each. */
static void describe_parts(charl__device_loader *f)
{
    const charl_shape one = {0, {0}};
    const bool tokens_stay = f->window > 0 && f->o.on_device;

    f->part[X] = (batch_part){.on = true, .dtype = f->info.x_dtype, .row = f->info.x_shape};
    f->part[Y] = (batch_part){.on = !tokens_stay, .dtype = f->info.y_dtype, .row = f->info.y_shape};
    f->part[WEIGHTS] =
        (batch_part){.on = f->counts, .dtype = CHARL_F32, .row = f->window > 0 || f->o.pixels ? f->info.y_shape : one};
    f->part[STARTS] = (batch_part){.on = f->o.separate && !tokens_stay, .dtype = CHARL_I32, .row = f->info.y_shape};
    if (tokens_stay) { /* one sequence, and documents begin where fill_starts says */
        f->part[X].dtype = f->info.stored_dtype;
        f->part[WEIGHTS].dtype = charl__dataset_weights_dtype(f->o.ds);
        f->part[X].row = f->part[WEIGHTS].row = one;
    }
}

static int64_t bytes_of_row(const batch_part *p)
{
    return row_bytes(p->dtype, &p->row);
}

static charl_status create_source(charl__device_loader *f)
{
    const int64_t rows = !f->o.on_device ? SLOTS * slot_rows(f) : f->window > 0 ? f->info.items[f->o.split] : f->n;

    for (batch_part *p = f->part; p < f->part + CHARL__BATCH_PARTS; p++) {
        charl_shape shape = {p->row.ndim + 1, {rows}};

        if (!p->on) {
            continue;
        }
        CHARL_REQUIRE(p->row.ndim < CHARL_MAX_DIMS, CHARL_ERR_DATA, "%s: samples have too many extents", f->info.path);
        CHARL_REQUIRE(rows <= INT32_MAX, CHARL_ERR_DATA,
                      "%s: %lld rows are too many to keep on the device; set data.cache = none", f->info.path,
                      (long long)rows);
        memcpy(shape.dim + 1, p->row.dim, (size_t)p->row.ndim * sizeof p->row.dim[0]);
        CHARL_TRY(charl_tensor_create(f->o.dev, p->dtype, &shape, &p->tensor));
    }
    return CHARL_OK;
}

/* Write n rows, of the whole split, from row `first` on. */
static charl_status write_rows(const batch_part *p, int64_t first, int64_t n, const void *rows)
{
    const int64_t bytes = bytes_of_row(p);

    return charl__buffer_write(CHARL_QUEUE_COMPUTE, p->tensor->buffer, (size_t)(first * bytes), rows,
                               (size_t)(n * bytes), true);
}

/* (v - mean) * (1 / std), per channel or column, or with one of each for all. */
static charl_status create_stats(charl__device_loader *f, int64_t n, const float *mean, const float *std,
                                 charl_tensor **shift, charl_tensor **scale)
{
    const charl_shape shape = {1, {n}};
    const size_t bytes = (size_t)n * sizeof(float);
    CHARL_SCOPED_FREE float *inverse = NULL;

    CHARL_TRY(charl__alloc_array(n, sizeof *inverse, &inverse));
    for (int64_t i = 0; i < n; i++) {
        inverse[i] = 1.0F / std[i];
    }
    CHARL_TRY(charl_tensor_create(f->o.dev, CHARL_F32, &shape, shift));
    CHARL_TRY(charl_tensor_create(f->o.dev, CHARL_F32, &shape, scale));
    CHARL_TRY(charl_tensor_write(*shift, mean, bytes));
    CHARL_TRY(charl_tensor_write(*scale, inverse, bytes));
    return CHARL_OK;
}

static charl_status create_normalization(charl__device_loader *f)
{
    const charl_data_schema *s = f->o.schema;

    CHARL_TRY(create_stats(f, s->n_stats, s->mean, s->std, &f->shift, &f->scale));
    if (s->n_target_stats > 0) {
        CHARL_TRY(
            create_stats(f, s->n_target_stats, s->target_mean, s->target_std, &f->target_shift, &f->target_scale));
        CHARL_TRY(charl_tensor_create(f->o.dev, CHARL_F32, &(charl_shape){1, {s->n_target_stats}}, &f->target_std));
        CHARL_TRY(charl_tensor_write(f->target_std, s->target_std, (size_t)s->n_target_stats * sizeof(float)));
    }
    return CHARL_OK;
}

/* Some rows of the split during the copy to the device. */
typedef struct block {
    int64_t first, n;
    int64_t *rows; /* their numbers */
    void *a, *b;   /* room for them */
} block;

/* Call `move` for blocks of up to `most` of the rows [0, n), with room for a and b bytes of each. */
static charl_status each_block(charl__device_loader *f, int64_t n, int64_t most, int64_t a, int64_t b,
                               charl_status (*move)(charl__device_loader *f, const block *k))
{
    charl_status st = CHARL_OK;
    block k = {0};

    most = most < n ? most : n;
    CHARL_TRY_CLEANUP(charl__alloc_array(most, sizeof *k.rows, &k.rows));
    CHARL_TRY_CLEANUP(charl__alloc_array(most, (size_t)a, &k.a));
    CHARL_TRY_CLEANUP(charl__alloc_array(most, (size_t)b, &k.b));
    for (; k.first < n; k.first += k.n) {
        k.n = n - k.first < most ? n - k.first : most;
        for (int64_t i = 0; i < k.n; i++) {
            k.rows[i] = k.first + i;
        }
        CHARL_TRY_CLEANUP(move(f, &k));
    }
cleanup:
    charl_free(k.rows);
    charl_free(k.a);
    charl_free(k.b);
    return st;
}

static charl_status move_weights(charl__device_loader *f, const block *k)
{
    const float *w = k->a;

    CHARL_TRY(f->window > 0 ? charl__dataset_token_weights(f->o.ds, f->o.split, k->first, k->n, k->a)
                            : charl__dataset_read_weights(f->o.ds, f->o.split, k->rows, k->n, k->a));
    for (int64_t i = 0; i < k->n; i++) {
        if (f->part[WEIGHTS].dtype == CHARL_F32) {
            ((float *)f->weights)[k->first + i] = w[i];
        } else {
            ((unsigned char *)f->weights)[k->first + i] = (unsigned char)w[i];
        }
    }
    return CHARL_OK;
}

/* The weights of the whole split, in host memory and on the device. */
static charl_status fill_weights(charl__device_loader *f)
{
    const int64_t n = charl__tensor_count(f->part[WEIGHTS].tensor);

    CHARL_TRY(charl__alloc_array(n, charl_dtype_size(f->part[WEIGHTS].dtype), &f->weights));
    CHARL_TRY(each_block(f, n, BLOCK_ROWS, sizeof(float), 1, move_weights));
    return write_rows(&f->part[WEIGHTS], 0, n, f->weights);
}

static charl_status fill_starts(charl__device_loader *f)
{
    CHARL_SCOPED_FREE int32_t *starts = NULL;
    int64_t n;

    CHARL_TRY(charl__dataset_starts(f->o.ds, f->o.split, &starts, &n));
    CHARL_TRY(charl_tensor_create(f->o.dev, CHARL_I32, &(charl_shape){1, {n}}, &f->part[STARTS].tensor));
    CHARL_TRY(charl_tensor_write(f->part[STARTS].tensor, starts, (size_t)n * sizeof *starts));
    return CHARL_OK;
}

static charl_status move_tokens(charl__device_loader *f, const block *k)
{
    CHARL_TRY(charl_dataset_read_tokens(f->o.ds, f->o.split, k->first, k->n, k->a));
    return write_rows(&f->part[X], k->first, k->n, k->a);
}

static charl_status move_rows(charl__device_loader *f, const block *k)
{
    CHARL_TRY(charl_dataset_read(f->o.ds, f->o.split, k->rows, k->n, k->a, k->b));
    charl__clear_ignored(&f->info, k->b, f->counts ? k->n : 0);
    CHARL_TRY(write_rows(&f->part[X], k->first, k->n, k->a));
    return write_rows(&f->part[Y], k->first, k->n, k->b);
}

/* Copy the whole split to the device. */
static charl_status fill_source(charl__device_loader *f)
{
    if (f->window > 0) {
        return each_block(f, f->info.items[f->o.split], BLOCK_TOKENS, bytes_of_row(&f->part[X]), 1, move_tokens);
    }
    return each_block(f, f->n, BLOCK_ROWS, bytes_of_row(&f->part[X]), bytes_of_row(&f->part[Y]), move_rows);
}

/* Weight of a row in the loss, from the weights of its pixels. */
static double weight_of_pixels(const charl__device_loader *f, const float *w)
{
    double sum = 0.0, most = 0.0;

    for (int64_t i = 0; i < weights_per_row(f); i++) {
        sum += (double)w[i];
        most = (double)w[i] > most ? (double)w[i] : most;
    }
    return f->o.whole ? most : sum;
}

static charl_status move_pixel_weights(charl__device_loader *f, const block *k)
{
    const float *w = k->b;

    CHARL_TRY(charl_dataset_read(f->o.ds, f->o.split, k->rows, k->n, NULL, k->a));
    CHARL_TRY(charl__dataset_weigh_pixels(f->o.ds, f->o.split, k->rows, k->n, k->a, k->b));
    for (int64_t i = 0; i < k->n; i++) {
        f->row_weights[k->first + i] = weight_of_pixels(f, w + i * weights_per_row(f));
    }
    return f->o.on_device ? write_rows(&f->part[WEIGHTS], k->first, k->n, w) : CHARL_OK;
}

/* The weights of all pixels of the split: the total of each row and, if rows stay on the device, each weight there. Labels
 * are read a few rows at a time. */
static charl_status fill_pixel_weights(charl__device_loader *f)
{
    const int64_t pixels = weights_per_row(f), most = pixels < BLOCK_PIXELS ? BLOCK_PIXELS / pixels : 1;

    CHARL_TRY(charl__alloc_array(f->n, sizeof *f->row_weights, &f->row_weights));
    return each_block(f, f->n, most, pixels * (int64_t)sizeof(int32_t), pixels * (int64_t)sizeof(float),
                      move_pixel_weights);
}

static charl_status create_slots(charl__device_loader *f)
{
    for (batch_part *p = f->part; p < f->part + CHARL__BATCH_PARTS; p++) {
        for (int s = 0; p->on && s < SLOTS; s++) {
            CHARL_TRY(
                charl_pinned_create(f->o.dev, (size_t)(slot_rows(f) * bytes_of_row(p)), &p->pinned[s], &p->host[s]));
        }
    }
    return CHARL_OK;
}

/* Number of rows that are delivered at a time. */
static int64_t pass_rows(const charl__device_loader *f)
{
    return f->o.pass_rows > 0 && f->o.pass_rows < f->o.rows ? f->o.pass_rows : f->o.rows;
}

static charl_status create_record(charl__device_loader *f)
{
    int width[CHARL__RECORD_PARTS];

    charl__augment_widths(f->o.augment, width);
    f->draws = false;
    for (int i = CHARL__RECORD_SHARE; i < CHARL__RECORD_PARTS; i++) {
        f->draws = f->draws || width[i] > 0;
    }
    CHARL_TRY(charl__loader_record_create(f->o.dev, f->o.steps, pass_rows(f), width, &f->r));
    return CHARL_OK;
}

/* Allocate the buffers for the rows of this rank. */
static charl_status create_part(charl__device_loader *f)
{
    CHARL_TRY(create_record(f));
    if (f->o.on_device) {
        return CHARL_OK;
    }
    CHARL_TRY(create_source(f));
    CHARL_TRY(create_slots(f));
    return CHARL_OK;
}

charl_status charl__device_loader_create(const charl__device_loader_options *o, charl__device_loader **out)
{
    charl_status st = CHARL_OK;
    charl__device_loader *f = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *f, &f));
    f->o = *o;
    f->slot = f->previous = -1;
    charl_dataset_get_info(o->ds, &f->info);
    f->seen = f->info.x_shape;
    if (o->image_size > 0) {
        f->seen.dim[1] = f->seen.dim[2] = o->image_size;
    }
    f->n = f->info.rows[o->split];
    f->window = f->info.kind == CHARL_DATASET_TOKENS ? f->info.x_shape.dim[0] : 0;
    charl__stream_init(&f->stream, o->ds, o->split, o->shuffle, o->seed);
    f->mixes = o->augment && charl__augment_mixes(o->augment);
    f->counts = f->info.weighted && (!f->mixes || charl__dataset_is_weighted(o->ds, o->split));
    f->step_weight = (double)o->batch;
    CHARL_REQUIRE_CLEANUP(
        !(f->mixes && f->counts), CHARL_ERR_CONFIG,
        "data.augment: mixup and cutmix do not mix targets with weights, as %s has them; HINT leave them out",
        f->info.path);
    if (f->counts) {
        CHARL_TRY_CLEANUP(charl__alloc_array(weights_per_row(f), sizeof(float), &f->window_weights));
    }
    if (o->augment) {
        CHARL_TRY_CLEANUP(charl__augment_check(o->augment, &f->info, &f->seen));
    }
    if (!charl__kind_has_tokens(f->info.kind)) {
        CHARL_TRY_CLEANUP(create_normalization(f));
    }
    describe_parts(f);
    if (f->o.on_device) {
        CHARL_TRY_CLEANUP(create_source(f));
        CHARL_TRY_CLEANUP(fill_source(f));
        if (f->counts && !f->o.pixels) {
            CHARL_TRY_CLEANUP(fill_weights(f));
        }
        if (f->o.separate) {
            CHARL_TRY_CLEANUP(fill_starts(f));
        }
        CHARL_TRY_CLEANUP(charl__dataset_check(o->ds)); /* later changes of the file do not matter */
    }
    if (f->counts && f->o.pixels && (f->o.on_device || f->o.endless)) {
        CHARL_TRY_CLEANUP(fill_pixel_weights(f));
    }
    CHARL_TRY_CLEANUP(create_part(f));
    *out = f;
    f = NULL;
cleanup:
    charl__device_loader_destroy(f);
    return st;
}

static void release_events(charl__device_loader *f)
{
    for (int s = 0; s < SLOTS; s++) {
        charl__event_release(f->uploaded[s]);
        charl__event_release(f->used[s]);
        f->uploaded[s] = f->used[s] = NULL;
    }
}

static void destroy_part(charl__device_loader *f)
{
    charl__loader_destroy(f->loader);
    f->loader = NULL;
    if (f->slot >= 0) {
        (void)!charl_device_sync(f->o.dev); /* uploads may still read the slots */
    }
    f->slot = f->previous = -1;
    release_events(f);
    for (batch_part *p = f->part; p < f->part + CHARL__BATCH_PARTS; p++) {
        for (int s = 0; s < SLOTS; s++) {
            charl_pinned_destroy(p->pinned[s]);
            p->pinned[s] = NULL;
        }
        if (!f->o.on_device) {
            charl_tensor_release(p->tensor);
            p->tensor = NULL;
        }
    }
    charl__loader_record_destroy(&f->r);
}

charl_status charl__device_loader_divide(charl__device_loader *f, int64_t row0, int64_t rows)
{
    destroy_part(f);
    f->o.row0 = row0;
    f->o.rows = rows;
    return create_part(f);
}

charl_status charl__device_loader_set_pass(charl__device_loader *f, int64_t rows)
{
    f->o.pass_rows = rows;
    charl__loader_record_destroy(&f->r);
    return create_record(f);
}

void charl__device_loader_destroy(charl__device_loader *f)
{
    if (f) {
        destroy_part(f);
        for (int k = 0; k < CHARL__BATCH_PARTS; k++) {
            charl_tensor_release(f->part[k].tensor);
        }
        charl_tensor_release(f->shift);
        charl_tensor_release(f->scale);
        charl_tensor_release(f->target_shift);
        charl_tensor_release(f->target_scale);
        charl_tensor_release(f->target_std);
        charl_free(f->weights);
        charl_free(f->row_weights);
        charl_free(f->window_weights);
        charl_free(f);
    }
}

static charl_var *bound(charl_graph *g, const char *name, charl_tensor *t, charl_batch batch)
{
    charl_var *v = charl_input(g, name, t->dtype, t->shape, batch);

    charl__graph_bind_input(g, v, t);
    return v;
}

/* The first n rows of what is delivered for each run; NULL if nothing is. */
static charl_var *bound_rows(charl_graph *g, const char *name, const charl_tensor *t, int64_t n)
{
    charl_tensor *rows = NULL;
    charl_var *v = NULL;
    charl_shape shape;
    charl_status st;

    if (!t) {
        return NULL;
    }
    shape = t->shape;
    shape.dim[0] = n;
    st = charl__tensor_view(t->buffer, t->dtype, &shape, t->offset, &rows);
    if (st == CHARL_OK) {
        v = bound(g, name, rows, CHARL_BATCHED);
        charl_tensor_release(rows); /* the graph has its own hold */
        return v;
    }
    return charl__graph_fail(g, st, "%s", charl_error_message());
}

/* The weights of the targets of rows, or of windows from the token after `row` on. */
static charl_var *attach_weights(charl__device_loader *f, charl_graph *g, charl_var *row)
{
    charl_var *source = bound(g, "weights", f->part[WEIGHTS].tensor, CHARL_REPLICATED);

    if (f->window > 0 && !f->part[Y].on) {
        source = charl__gather_windows(g, source, row, f->window, 1);
        return f->part[WEIGHTS].dtype == CHARL_F32 ? source : charl_cast(g, source, CHARL_F32);
    }
    return charl__gather_rows(g, source, row, NULL, NULL);
}

static charl_var *attach_starts(charl__device_loader *f, charl_graph *g, charl_var *row)
{
    charl_var *source = bound(g, "documents", f->part[STARTS].tensor, CHARL_REPLICATED);

    return f->part[Y].on ? charl__gather_rows(g, source, row, NULL, NULL)
                         : charl__document_starts(g, source, row, f->window);
}

static void attach_tokens(charl__device_loader *f, charl_graph *g, charl_var *source, charl_var *row,
                          charl__device_loader_vars *out)
{
    if (f->part[Y].on) {
        out->x = charl__gather_rows(g, source, row, NULL, NULL);
        out->y = charl__gather_rows(g, bound(g, "y", f->part[Y].tensor, CHARL_REPLICATED), row, NULL, NULL);
    } else {
        out->x = charl__gather_windows(g, source, row, f->window, 0);
        out->y = charl__gather_windows(g, source, row, f->window, 1);
    }
}

/* Samples of the data, normalized and augmented: those of `row`, or their partners. */
static charl_var *attach_images(charl__device_loader *f, charl_graph *g, charl_var *source, charl_var *row, int64_t n,
                                charl__augment_vars v, bool partner)
{
    const charl__augment none = {.flip = false}, *augment = f->o.augment ? f->o.augment : &none;
    const bool raw = charl__augment_levels(augment) > 0;
    charl_tensor *const *part = f->r.part + (partner ? CHARL__RECORD_PARTNER_CROP - CHARL__RECORD_CROP : 0);

    v.size = f->o.image_size;
    v.crop = bound_rows(g, partner ? "partner_crop" : "crop", part[CHARL__RECORD_CROP], n);
    v.erase = bound_rows(g, partner ? "partner_erase" : "erase", part[CHARL__RECORD_ERASE], n);
    v.kinds = bound_rows(g, partner ? "partner_kinds" : "kinds", part[CHARL__RECORD_KINDS], n);
    v.amounts = bound_rows(g, partner ? "partner_amounts" : "amounts", part[CHARL__RECORD_AMOUNTS], n);
    v.reversed_rows = partner ? f->o.batch : 0;
    return charl__augment_images(augment, g,
                                 charl__gather_rows(g, source, row, raw ? NULL : v.shift, raw ? NULL : v.scale), &v);
}

static void attach_rows(charl__device_loader *f, charl_graph *g, charl_var *source, charl_var *row, int64_t n,
                        charl__device_loader_vars *out)
{
    const charl__augment_vars v = {.shift = bound(g, "shift", f->shift, CHARL_REPLICATED),
                                   .scale = bound(g, "scale", f->scale, CHARL_REPLICATED)};
    charl_var *y = bound(g, "y", f->part[Y].tensor, CHARL_REPLICATED), *partner, *partner_x;
    charl_var *target_shift = NULL, *target_scale = NULL;
    charl_tensor *const *part = f->r.part;

    out->x = attach_images(f, g, source, row, n, v, false);
    out->y = out->scaled_y = charl__gather_rows(g, y, row, NULL, NULL);
    if (f->target_shift) {
        target_shift = bound(g, "target_shift", f->target_shift, CHARL_REPLICATED);
        target_scale = bound(g, "target_scale", f->target_scale, CHARL_REPLICATED);
        out->scaled_y = charl__gather_rows(g, y, row, target_shift, target_scale);
        out->target_mean = target_shift;
        out->target_std = bound(g, "target_std", f->target_std, CHARL_REPLICATED);
    }
    if (f->mixes) {
        partner = bound_rows(g, "partner", part[CHARL__RECORD_PARTNER], n);
        partner_x = attach_images(f, g, source, partner, n, v, true);
        out->share = bound_rows(g, "share", part[CHARL__RECORD_SHARE], n);
        if (part[CHARL__RECORD_PASTE]) {
            out->x = charl__paste2d(g, out->x, partner_x, bound_rows(g, "paste", part[CHARL__RECORD_PASTE], n));
        }
        if (f->o.augment->mixup > 0) {
            charl_var *blend = bound_rows(g, "blend", part[CHARL__RECORD_BLEND], n);

            out->x = charl__mixup(g, out->x, partner_x, blend ? blend : out->share);
        }
        out->partner_y = charl__gather_rows(g, y, partner, target_shift, target_scale);
    }
}

void charl__device_loader_attach(charl__device_loader *f, charl_graph *g, int64_t rows, charl__device_loader_vars *out)
{
    charl_var *row, *source;

    *out = (charl__device_loader_vars){NULL};
    charl_graph_scope_begin(g, "data");
    row = bound_rows(g, "row", f->r.part[CHARL__RECORD_ROW], rows);
    source = bound(g, "x", f->part[X].tensor, CHARL_REPLICATED);
    if (f->window > 0) {
        attach_tokens(f, g, source, row, out);
    } else if (f->info.kind == CHARL_DATASET_SEQUENCES) {
        const charl_tokenizer *t = f->o.schema->tokenizer;

        out->x = charl__graph_set_padded(g, charl__gather_tokens(g, source, row), t ? charl_tokenizer_get_vocab(t) : 0);
        out->y = charl__gather_rows(g, bound(g, "y", f->part[Y].tensor, CHARL_REPLICATED), row, NULL, NULL);
    } else {
        attach_rows(f, g, source, row, rows, out);
    }
    out->scaled_y = out->scaled_y ? out->scaled_y : out->y;
    out->weight = bound_rows(g, "weight", f->r.part[CHARL__RECORD_WEIGHT], rows);
    out->count = f->counts ? attach_weights(f, g, row) : NULL;
    out->starts = f->o.separate ? attach_starts(f, g, row) : NULL;
    charl_graph_scope_end(g);
}

charl_status charl__device_loader_seek(charl__device_loader *f, int64_t step)
{
    charl__loader_options o = {.ds = f->o.ds,
                               .split = f->o.split,
                               .shuffle = f->o.shuffle,
                               .seed = f->o.seed,
                               .batch = f->o.batch,
                               .row0 = f->o.row0,
                               .rows = f->o.rows,
                               .mirrored = is_mirrored(f),
                               .first_step = step,
                               .end_step = -1,
                               .on_demand = f->o.on_demand,
                               .n_slots = SLOTS,
                               .weighs_pixels = f->o.pixels,
                               .trace = charl__device_trace(f->o.dev)};

    f->step = step;
    if (f->o.on_device) {
        return CHARL_OK;
    }
    charl__loader_destroy(f->loader);
    f->loader = NULL;
    CHARL_TRY(charl_device_sync(f->o.dev));
    release_events(f);
    f->slot = f->previous = -1;
    for (int k = 0; k < CHARL__BATCH_PARTS; k++) {
        o.part[k] = f->part[k].on ? f->part[k].host : NULL;
    }
    return charl__loader_create(&o, &f->loader);
}

charl_status charl__device_loader_move(charl__device_loader *f, int64_t row0, int64_t step)
{
    f->o.row0 = row0;
    return charl__device_loader_seek(f, step);
}

/* The next slot of the loader: upload it once the device has finished reading its old contents. */
static charl_status upload(charl__device_loader *f)
{
    double begin;
    int64_t step;
    int s;

    if (f->o.on_demand) {
        CHARL_TRY(charl_device_sync(f->o.dev));
    }
    begin = charl__clock_s();
    CHARL_TRY(charl__loader_next(f->loader, &step, &s));
    f->waited_s += charl__clock_s() - begin; /* excludes waiting for a device that is behind */
    if (f->used[s]) {
        CHARL_TRY(charl__queue_wait(f->o.dev, CHARL_QUEUE_UPLOAD, f->used[s]));
    }
    for (const batch_part *p = f->part; p < f->part + CHARL__BATCH_PARTS; p++) {
        const size_t bytes = (size_t)(slot_rows(f) * bytes_of_row(p));

        if (p->on) {
            CHARL_TRY(charl__buffer_write(CHARL_QUEUE_UPLOAD, p->tensor->buffer, (size_t)s * bytes, p->host[s], bytes,
                                          false));
        }
    }
    charl__event_release(f->uploaded[s]);
    f->uploaded[s] = NULL;
    CHARL_TRY(charl__event_record(f->o.dev, CHARL_QUEUE_UPLOAD, &f->uploaded[s]));
    CHARL_TRY(charl__queue_wait(f->o.dev, CHARL_QUEUE_COMPUTE, f->uploaded[s]));
    f->previous = f->slot;
    f->slot = s;
    if (f->previous >= 0) { /* its upload is long done, or waits for a much earlier step */
        CHARL_TRY(charl__event_catch_up(f->uploaded[f->previous]));
        charl__loader_release(f->loader, f->previous);
    }
    return CHARL_OK;
}

void charl__device_loader_samples(const charl__device_loader *f, int64_t step, int64_t *out)
{
    charl__stream_places(&f->stream, f->o.fixed ? 0 : step * f->o.batch, f->o.batch, out);
}

/* Rows [first, first + n) of this rank: of the slot, or some at a time. */
static void choose_rows(charl__device_loader *f, int64_t first, int64_t n)
{
    const int64_t position = f->delivered * f->o.batch + f->o.row0 + first;
    int32_t *number = f->r.ints[CHARL__RECORD_ROW];
    float *weight = f->r.floats[CHARL__RECORD_WEIGHT];
    int64_t row[CHOSEN];

    for (int64_t i = 0; i < n && !f->o.on_device; i++) {
        number[i] = (int32_t)(f->slot * slot_rows(f) + first + i);
    }
    for (int64_t at = 0; at < n && f->o.on_device; at += CHOSEN) {
        const int64_t some = at + CHOSEN < n ? CHOSEN : n - at;

        charl__stream_places(&f->stream, position + at, some, row);
        for (int64_t i = 0; i < some; i++) {
            number[at + i] = (int32_t)row[i];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        weight[i] = f->o.endless || position + i < f->n ? 1.0F : 0.0F;
    }
}

/* Row i of this rank is mixed with the row at the mirrored position in the global batch. */
static void choose_partners(charl__device_loader *f, int64_t first, int64_t n)
{
    const int64_t last = f->o.batch - 1 - f->o.row0, rows = f->o.rows;

    for (int64_t i = first; i < first + n; i++) {
        const int64_t in_slot = is_mirrored(f) ? rows + i : rows - 1 - i;
        int64_t row = f->slot * slot_rows(f) + in_slot;

        if (f->o.on_device) {
            charl__stream_places(&f->stream, f->delivered * f->o.batch + last - i, 1, &row);
        }
        f->r.ints[CHARL__RECORD_PARTNER][i - first] = (int32_t)row;
    }
}

/* Copy the value at `value` to row i of a part, if the part is sent. */
static void put(charl__device_loader *f, int part, int64_t i, const void *value)
{
    uint32_t *words = f->r.ints[part] ? (uint32_t *)f->r.ints[part] : (uint32_t *)f->r.floats[part];

    if (words) {
        const int64_t width = charl__tensor_count(f->r.part[part]) / f->r.part[part]->shape.dim[0];

        memcpy(words + i * width, value, (size_t)width * sizeof *words);
    }
}

static void put_changes(charl__device_loader *f, int64_t i, const charl__augment_draws *d, bool partner)
{
    const int part = partner ? CHARL__RECORD_PARTNER_CROP - CHARL__RECORD_CROP : 0;

    put(f, part + CHARL__RECORD_CROP, i, d->crop);
    put(f, part + CHARL__RECORD_ERASE, i, d->erase);
    put(f, part + CHARL__RECORD_KINDS, i, d->kinds);
    put(f, part + CHARL__RECORD_AMOUNTS, i, d->amounts);
}

/* Fill in how the samples are augmented and mixed. */
static void draw_changes(charl__device_loader *f, int64_t first, int64_t n)
{
    const charl__augment *a = f->o.augment;
    charl__augment_draws d;

    for (int64_t i = 0; i < n; i++) {
        const int64_t row = f->o.row0 + first + i;

        charl__augment_draw(a, &f->info.x_shape, &f->seen, f->o.seed, f->delivered, row, &d);
        put(f, CHARL__RECORD_SHARE, i, &d.share);
        put(f, CHARL__RECORD_BLEND, i, &d.blend);
        put(f, CHARL__RECORD_PASTE, i, d.paste);
        put_changes(f, i, &d, false);
        if (f->mixes) {
            charl__augment_draw(a, &f->info.x_shape, &f->seen, f->o.seed, f->delivered, f->o.batch - 1 - row, &d);
            put_changes(f, i, &d, true);
        }
    }
}

/* The weights of the targets of a place: of one row, or of a window from the next token on. */
static charl_status add_weights(charl__device_loader *f, int64_t place, double *sum)
{
    const int64_t n = weights_per_row(f), first = f->window > 0 ? place + 1 : place;

    if (f->row_weights) {
        *sum += f->row_weights[place];
        return CHARL_OK;
    }
    if (!f->weights) {
        CHARL_TRY(charl__dataset_read_weights(f->o.ds, f->o.split, &place, 1, f->window_weights));
    }
    for (int64_t i = 0; i < n; i++) {
        *sum += !f->weights                           ? (double)f->window_weights[i]
                : f->part[WEIGHTS].dtype == CHARL_F32 ? (double)((const float *)f->weights)[first + i]
                                                      : (double)((const unsigned char *)f->weights)[first + i];
    }
    return CHARL_OK;
}

/* Total weight of a step's targets, added up in the order of the batch: the same on every rank, whichever rows it has. */
static charl_status weigh_step(charl__device_loader *f)
{
    const int64_t first = f->step * f->o.batch;
    int64_t place[CHOSEN];

    if (!f->counts || !f->o.endless) { /* an evaluation adds up the weights of the rows that it has computed */
        return CHARL_OK;
    }
    f->step_weight = 0;
    for (int64_t i = 0; i < f->o.batch; i += CHOSEN) {
        const int64_t n = f->o.batch - i < CHOSEN ? f->o.batch - i : CHOSEN;

        charl__stream_places(&f->stream, first + i, n, place);
        for (int64_t k = 0; k < n; k++) {
            CHARL_TRY(add_weights(f, place[k], &f->step_weight));
        }
    }
    return CHARL_OK;
}

double charl__device_loader_step_weight(const charl__device_loader *f)
{
    return f->step_weight;
}

/* Write the inputs of the next run, for rows from `first` on. */
static void choose(charl__device_loader *f, int64_t first)
{
    const int64_t n = pass_rows(f) < f->o.rows - first ? pass_rows(f) : f->o.rows - first;

    choose_rows(f, first, n);
    if (f->mixes) {
        choose_partners(f, first, n);
    }
    if (f->draws) {
        draw_changes(f, first, n);
    }
}

charl_status charl__device_loader_pass(charl__device_loader *f, int64_t first)
{
    choose(f, first);
    return f->r.steps ? charl__steps_repush(f->r.steps) : charl__loader_record_push(&f->r);
}

charl_status charl__device_loader_next(charl__device_loader *f)
{
    if (!f->o.on_device && !(f->o.fixed && f->slot >= 0)) {
        CHARL_TRY(upload(f));
    }
    f->delivered = f->step;
    choose(f, 0);
    CHARL_TRY(weigh_step(f));
    CHARL_TRY(charl__loader_record_push(&f->r));
    if (!f->o.fixed) {
        f->step++;
    }
    return CHARL_OK;
}

charl_status charl__device_loader_used(charl__device_loader *f)
{
    if (f->slot >= 0) {
        charl__event_release(f->used[f->slot]);
        f->used[f->slot] = NULL;
        CHARL_TRY(charl__event_record(f->o.dev, CHARL_QUEUE_COMPUTE, &f->used[f->slot]));
    }
    return CHARL_OK;
}

double charl__device_loader_waited_s(const charl__device_loader *f)
{
    return f->waited_s;
}

int64_t charl__device_loader_rows(const charl__device_loader *f)
{
    return f->n;
}

bool charl__device_loader_is_on_device(const charl__device_loader *f)
{
    return f->o.on_device;
}

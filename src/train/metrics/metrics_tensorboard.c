/* TensorBoard event files: the folder tb of a run directory.
 *
 * A file is a sequence of records, each one protocol buffer of type Event:
 *
 *     length of the data          8 bytes, little-endian
 *     checksum of the length      4 bytes
 *     data                        Event: wall time, step, and a version, a Summary or a SessionLog
 *     checksum of the data        4 bytes
 *
 * where a checksum is c = CRC-32C, rotated right by 15 bits, plus a282ead8 (TensorFlow, tsl/lib/io/record_writer.h). A row is one record,
 * so it is there with all of its values or not at all. Field numbers: tensorboard/compat/proto/{event,summary,tensor}.proto and
 * tensorboard/plugins/hparams/plugin_data.proto.
 *
 * A resumed run cuts each file off behind the last record of a step that it keeps, which removes a torn record too, and begins a new file.
 * Its SessionLog says START at the next step: a TensorBoard that is watching then forgets the later steps that it has seen.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "base/clock.h"
#include "base/numeric/hash.h"
#include "base/text/protobuf.h"
#include "charl/data_schema.h"
#include "config/config_visit.h"
#include "io/commit.h"
#include "train/metrics/metrics.h"

enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    SESSION_LOG_STATUS = 1,
    SESSION_START = 1,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE_VALUE = 2,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN_DATA = 1,
    METADATA_DATA_CLASS = 4,
    DATA_CLASS_TENSOR = 2,
    DATA_CLASS_BLOBS = 3,
    PLUGIN_DATA_NAME = 1,
    PLUGIN_DATA_CONTENT = 2,
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_CONTENT = 4,
    TENSOR_FLOAT = 5,
    TENSOR_STRING = 8,
    TYPE_FLOAT = 1,
    TYPE_DOUBLE = 2,
    TYPE_STRING = 7,
    SHAPE_DIM = 2,
    DIM_SIZE = 1,
    HPARAMS_SESSION_START = 3,
    SESSION_START_HPARAMS = 1,
    SESSION_START_TIME = 5,
    MAP_KEY = 1,
    MAP_VALUE = 2,
    JSON_NUMBER = 2,
    JSON_STRING = 3,
    JSON_BOOL = 4,
};

enum { HEAD_BYTES = 12, TAIL_BYTES = 4, RECORD_LIMIT = 1 << 28, NAME_BYTES = 512 };

static const char name_prefix[] = "events.out.tfevents.", name_suffix[] = ".charl";

typedef struct event_file {
    FILE *f;
    char *path;
    charl__text record;
    size_t summary, value, tensor; /* where in the record that one begins */
} event_file;

static uint32_t masked_crc(const void *data, size_t bytes)
{
    const uint32_t crc = charl__crc32c(0, data, bytes);

    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void store_le(unsigned char *out, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        out[i] = (unsigned char)(v >> 8 * i);
    }
}

static uint64_t load_le(const unsigned char *p, int bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++) {
        v |= (uint64_t)p[i] << 8 * i;
    }
    return v;
}

/* An Event: its time and step, then the fields that are appended to the record until it ends. */
static charl_status begin_event(event_file *e, int64_t step)
{
    const unsigned char room[HEAD_BYTES] = {0};

    charl__text_clear(&e->record);
    CHARL_TRY(charl__text_append(&e->record, room, HEAD_BYTES));
    CHARL_TRY(charl__protobuf_double(&e->record, EVENT_WALL_TIME, charl__clock_wall_s()));
    CHARL_TRY(charl__protobuf_int(&e->record, EVENT_STEP, step));
    return CHARL_OK;
}

static charl_status end_event(event_file *e)
{
    charl__text *r = &e->record;
    unsigned char frame[HEAD_BYTES];

    store_le(frame, r->length - HEAD_BYTES, 8);
    store_le(frame + 8, masked_crc(frame, 8), 4);
    memcpy(r->data, frame, HEAD_BYTES);
    store_le(frame, masked_crc(r->data + HEAD_BYTES, r->length - HEAD_BYTES), TAIL_BYTES);
    CHARL_TRY(charl__text_append(r, frame, TAIL_BYTES));
    return charl__log_append(e->f, e->path, r->data, r->length);
}

/* An event with a Summary of values. */
static charl_status begin_summary(event_file *e, int64_t step)
{
    CHARL_TRY(begin_event(e, step));
    e->summary = e->record.length;
    return CHARL_OK;
}

static charl_status end_summary(event_file *e)
{
    CHARL_TRY(charl__protobuf_nest(&e->record, EVENT_SUMMARY, e->summary));
    return end_event(e);
}

static charl_status begin_value(event_file *e, const char *tag)
{
    e->value = e->record.length;
    return charl__protobuf_string(&e->record, VALUE_TAG, tag);
}

static charl_status put_row(event_file *e, const char *event, int64_t step, const charl__metrics_value *values, int n)
{
    char tag[64];

    CHARL_TRY(begin_summary(e, step));
    for (int i = 0; i < n; i++) {
        snprintf(tag, sizeof tag, "%s/%s", event, values[i].name);
        CHARL_TRY(begin_value(e, tag));
        CHARL_TRY(charl__protobuf_float(&e->record, VALUE_SIMPLE_VALUE, (float)values[i].value));
        CHARL_TRY(charl__protobuf_nest(&e->record, SUMMARY_VALUE, e->value));
    }
    return end_summary(e);
}

static charl_status tensorboard_train(void *file, const charl_train_row *row)
{
    charl__metrics_value values[CHARL__METRICS_VALUES];
    const int n = charl__metrics_train_values(row, values);

    return put_row(file, "train", row->step, values, n);
}

/* A value that a plugin shows: a tag and a tensor, whose elements are appended until it ends, and data for the plugin. The tensor is a list
 * of n elements or, with columns > 0, n rows of them. */
static charl_status begin_tensor(event_file *e, const char *tag, int type, int n, int columns)
{
    charl__text *r = &e->record;
    size_t shape;

    CHARL_TRY(begin_value(e, tag));
    e->tensor = r->length;
    CHARL_TRY(charl__protobuf_int(r, TENSOR_DTYPE, type));
    shape = r->length;
    for (int i = 0; i < (columns > 0 ? 2 : 1); i++) {
        const size_t dim = r->length;

        CHARL_TRY(charl__protobuf_int(r, DIM_SIZE, i == 0 ? n : columns));
        CHARL_TRY(charl__protobuf_nest(r, SHAPE_DIM, dim));
    }
    return charl__protobuf_nest(r, TENSOR_SHAPE, shape);
}

/* content: a message, or NULL. */
static charl_status end_tensor(event_file *e, const char *plugin, const charl__text *content)
{
    charl__text *r = &e->record;
    size_t metadata, data;

    CHARL_TRY(charl__protobuf_nest(r, VALUE_TENSOR, e->tensor));
    metadata = data = r->length;
    CHARL_TRY(charl__protobuf_string(r, PLUGIN_DATA_NAME, plugin));
    CHARL_TRY(
        charl__protobuf_bytes(r, PLUGIN_DATA_CONTENT, content ? content->data : "", content ? content->length : 0));
    CHARL_TRY(charl__protobuf_nest(r, METADATA_PLUGIN_DATA, data));
    CHARL_TRY(charl__protobuf_int(r, METADATA_DATA_CLASS,
                                  strcmp(plugin, "images") == 0 ? DATA_CLASS_BLOBS : DATA_CLASS_TENSOR));
    CHARL_TRY(charl__protobuf_nest(r, VALUE_METADATA, metadata));
    return charl__protobuf_nest(r, SUMMARY_VALUE, e->value);
}

/* A text under a tag: Markdown, in which lines that begin with four spaces are shown as they are. */
static charl_status put_text(event_file *e, int64_t step, const char *tag, const char *text)
{
    size_t markdown;

    CHARL_TRY(begin_summary(e, step));
    CHARL_TRY(begin_tensor(e, tag, TYPE_STRING, 1, 0));
    markdown = e->record.length;
    for (const char *line = text; *line;) {
        const size_t n = strcspn(line, "\n");

        CHARL_TRY(charl__text_printf(&e->record, "    %.*s\n", (int)n, line));
        line += n + (line[n] == '\n');
    }
    CHARL_TRY(charl__protobuf_nest(&e->record, TENSOR_STRING, markdown));
    CHARL_TRY(end_tensor(e, "text", NULL));
    return end_summary(e);
}

static charl_status put_config(event_file *e, int64_t step, const charl_config *config)
{
    charl_status st;
    char *printed = NULL;

    CHARL_TRY(charl_config_print(config, false, &printed));
    st = put_text(e, step, "config", printed);
    charl_free(printed);
    return st;
}

/* The tensor of the plugin: width and height as text, then PNG files, all of these extents. */
static charl_status put_images(event_file *e, int64_t step, const charl_eval_report *r)
{
    CHARL_TRY(begin_summary(e, step));
    CHARL_TRY(begin_tensor(e, "worst/images", TYPE_STRING, r->n_worst + 2, 0));
    for (int i = -2; i < r->n_worst; i++) {
        const charl_worst_sample *w = &r->worst[i < 0 ? 0 : i];
        const size_t one = e->record.length;

        CHARL_TRY(i < 0 ? charl__text_printf(&e->record, "%" PRId64, i == -2 ? w->width : w->height)
                        : charl__text_append(&e->record, w->png, w->png_bytes));
        CHARL_TRY(charl__protobuf_nest(&e->record, TENSOR_STRING, one));
    }
    CHARL_TRY(end_tensor(e, "images", NULL));
    return end_summary(e);
}

static charl_status put_class(charl__text *t, const char *names, int64_t i)
{
    size_t length;
    const char *name = charl_names_get(names, i, &length);

    return name ? charl__text_append(t, name, length) : charl__text_printf(t, "%" PRId64, i);
}

/* The worst samples: their pictures, and a line of text about each. */
static charl_status put_worst(event_file *e, int64_t step, const charl_eval_report *r)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    for (int i = 0; i < r->n_worst; i++) {
        const charl_worst_sample *w = &r->worst[i];

        CHARL_TRY(charl__text_printf(&text, "%d: row %" PRId64 " of the split is ", i + 1, w->row));
        CHARL_TRY(put_class(&text, r->names, w->actual));
        CHARL_TRY(charl__text_printf(&text, " (%.2g), predicted ", w->actual_probability));
        CHARL_TRY(put_class(&text, r->names, w->predicted));
        CHARL_TRY(charl__text_printf(&text, " (%.2g)\n", w->predicted_probability));
    }
    CHARL_TRY(put_text(e, step, "worst/labels", charl__text_string(&text)));
    CHARL_TRY(r->n_worst > 0 && r->worst[0].png ? put_images(e, step, r) : CHARL_OK);
    return CHARL_OK;
}

static charl_status tensorboard_val(void *file, const charl_val_row *row)
{
    charl__metrics_value values[CHARL__METRICS_VALUES];
    const int n = charl__metrics_val_values(row, values);

    CHARL_TRY(put_row(file, "val", row->step, values, n));
    CHARL_TRY(row->report ? put_worst(file, row->step, row->report) : CHARL_OK);
    return row->sample ? put_text(file, row->step, "sample", row->sample) : CHARL_OK;
}

/* One entry of a map<string, google.protobuf.Value>: a number, yes or no, or text. */
static charl_status add_hparam(void *ctx, const char *section, const char *key, const char *value)
{
    charl__text *t = ctx;
    const size_t entry = t->length;
    size_t json;
    char *end;
    const double number = strtod(value, &end);

    CHARL_TRY(charl__text_printf(t, "%s.%s", section, key));
    CHARL_TRY(charl__protobuf_nest(t, MAP_KEY, entry));
    json = t->length;
    if (end != value && !*end && isfinite(number)) {
        CHARL_TRY(charl__protobuf_double(t, JSON_NUMBER, number));
    } else if (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0) {
        CHARL_TRY(charl__protobuf_int(t, JSON_BOOL, strcmp(value, "yes") == 0));
    } else {
        CHARL_TRY(charl__protobuf_string(t, JSON_STRING, value));
    }
    CHARL_TRY(charl__protobuf_nest(t, MAP_VALUE, json));
    return charl__protobuf_nest(t, SESSION_START_HPARAMS, entry);
}

/* What the tab HParams compares runs by: every key that changes the result. */
static charl_status put_hparams(event_file *e, int64_t step, const charl_config *config)
{
    CHARL_SCOPED(charl__text_fini) charl__text content = {0};

    CHARL_TRY(charl__config_visit(config, add_hparam, &content));
    CHARL_TRY(charl__protobuf_double(&content, SESSION_START_TIME, charl__clock_wall_s()));
    CHARL_TRY(charl__protobuf_nest(&content, HPARAMS_SESSION_START, 0));
    CHARL_TRY(begin_summary(e, step));
    CHARL_TRY(begin_tensor(e, "_hparams_/session_start_info", TYPE_FLOAT, 1, 0));
    CHARL_TRY(charl__protobuf_float(&e->record, TENSOR_FLOAT, 0.0F)); /* not looked at, but must be there */
    CHARL_TRY(end_tensor(e, "hparams", &content));
    CHARL_TRY(end_summary(e));
    return CHARL_OK;
}

enum { BINS = 64 };

/* Counts of n finite values in BINS bins of equal width from the least to the greatest; one bin where all are equal. */
typedef struct histogram {
    double low, high;
    int64_t count[BINS];
    int bins; /* 0: no value is finite */
} histogram;

static void count_values(const float *v, int64_t n, float scale, histogram *h)
{
    double width;

    *h = (histogram){.low = (double)INFINITY, .high = (double)-INFINITY};
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(v[i])) {
            h->low = fmin(h->low, (double)v[i] / (double)scale);
            h->high = fmax(h->high, (double)v[i] / (double)scale);
        }
    }
    h->bins = h->low > h->high ? 0 : h->low == h->high ? 1 : BINS;
    width = (h->high - h->low) / BINS;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(v[i])) {
            const int bin = h->bins > 1 ? (int)(((double)v[i] / (double)scale - h->low) / width) : 0;

            h->count[bin < BINS ? bin : BINS - 1]++;
        }
    }
    if (h->bins == 1) {
        h->low -= 0.5;
        h->high += 0.5;
    }
}

/* The tensor of the plugin: a row {left end, right end, count} of doubles for each bin. */
static charl_status put_bins(charl__text *r, const histogram *h)
{
    const size_t begin = r->length;
    const double width = (h->high - h->low) / (h->bins > 0 ? h->bins : 1);

    for (int i = 0; i < h->bins; i++) {
        const double row[] = {h->low + i * width, i + 1 < h->bins ? h->low + (i + 1) * width : h->high,
                              (double)h->count[i]};

        for (int k = 0; k < 3; k++) {
            unsigned char byte[8];
            uint64_t u;

            memcpy(&u, &row[k], sizeof u);
            store_le(byte, u, 8);
            CHARL_TRY(charl__text_append(r, byte, sizeof byte));
        }
    }
    return charl__protobuf_nest(r, TENSOR_CONTENT, begin);
}

static charl_status add_histogram(event_file *e, const char *what, const char *name, const float *v, int64_t n,
                                  float scale)
{
    CHARL_SCOPED(charl__text_fini) charl__text tag = {0};
    histogram h;

    count_values(v, n, scale, &h);
    CHARL_TRY(charl__text_printf(&tag, "%s/%s", what, name));
    CHARL_TRY(begin_tensor(e, charl__text_string(&tag), TYPE_DOUBLE, h.bins, 3));
    CHARL_TRY(put_bins(&e->record, &h));
    CHARL_TRY(end_tensor(e, "histograms", NULL));
    return CHARL_OK;
}

static charl_status tensorboard_histograms(void *file, int64_t step, const charl_params *params, float gradient_scale)
{
    event_file *e = file;
    CHARL_SCOPED_FREE float *v = NULL;
    int64_t largest = 0;

    for (int i = 0; i < charl_params_get_count(params); i++) {
        const int64_t n = charl_shape_count(&charl_param_get_spec(charl_params_get(params, i))->shape);

        largest = n > largest ? n : largest;
    }
    CHARL_TRY(charl__alloc_array(largest, sizeof *v, &v));
    CHARL_TRY(begin_summary(e, step));
    for (int i = 0; i < charl_params_get_count(params); i++) {
        const charl_param *p = charl_params_get(params, i);
        const charl_param_spec *spec = charl_param_get_spec(p);
        const int64_t n = charl_shape_count(&spec->shape);

        CHARL_TRY(charl_param_read(p, v));
        CHARL_TRY(add_histogram(e, "parameters", spec->name, v, n, 1.0F));
        if (spec->trainable) {
            CHARL_TRY(charl_param_read_gradient(p, v));
            CHARL_TRY(add_histogram(e, "gradients", spec->name, v, n, gradient_scale));
        }
    }
    CHARL_TRY(end_summary(e));
    return CHARL_OK;
}

/* A varint at *at, which moves past it; false if the data end in it. */
static bool read_varint(const unsigned char *data, size_t bytes, size_t *at, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *at < bytes; shift += 7) {
        const unsigned char byte = data[(*at)++];

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

/* The step of an Event, 0 where it has none; -1 when it is none. */
static int64_t step_of(const unsigned char *data, size_t bytes)
{
    static const size_t fixed[] = {[1] = 8, [5] = 4};
    int64_t step = 0;

    for (size_t at = 0; at < bytes;) {
        uint64_t key, v = 0;

        if (!read_varint(data, bytes, &at, &key)) {
            return -1;
        }
        switch (key & 7) {
        case 0:
            if (!read_varint(data, bytes, &at, &v)) {
                return -1;
            }
            step = key >> 3 == EVENT_STEP ? (int64_t)v : step;
            break;
        case 1:
        case 5:
            at += fixed[key & 7];
            break;
        case 2:
            if (!read_varint(data, bytes, &at, &v) || v > bytes - at) {
                return -1;
            }
            at += (size_t)v;
            break;
        default:
            return -1;
        }
    }
    return step;
}

/* Bytes of the record that begins where f stands, when it is whole and of a step up to keep_step; else 0. */
static charl_status kept_record(FILE *f, int64_t keep_step, charl__text *data, int64_t *bytes)
{
    unsigned char head[HEAD_BYTES];
    uint64_t length;
    const unsigned char *at;
    int64_t step;

    *bytes = 0;
    if (fread(head, 1, sizeof head, f) != sizeof head || load_le(head + 8, 4) != masked_crc(head, 8)) {
        return CHARL_OK;
    }
    length = load_le(head, 8);
    if (length > RECORD_LIMIT) {
        return CHARL_OK;
    }
    charl__text_clear(data);
    CHARL_TRY(charl__text_reserve(data, (size_t)length + TAIL_BYTES));
    at = (const unsigned char *)data->data;
    if (fread(data->data, 1, (size_t)length + TAIL_BYTES, f) != (size_t)length + TAIL_BYTES ||
        load_le(at + length, TAIL_BYTES) != masked_crc(at, (size_t)length)) {
        return CHARL_OK;
    }
    step = step_of(at, (size_t)length);
    if (step >= 0 && step <= keep_step) {
        *bytes = (int64_t)length + HEAD_BYTES + TAIL_BYTES;
    }
    return CHARL_OK;
}

/* Cut a file off before the first record that is torn or of a later step. *records: how many are left. */
static charl_status cut(const char *path, int64_t keep_step, int64_t *records)
{
    CHARL_SCOPED(charl__text_fini) charl__text data = {0};
    int64_t end = 0, bytes;
    CHARL_SCOPED(charl__file_left) FILE *f = fopen(path, "rb");

    *records = 0;
    CHARL_REQUIRE(f, CHARL_ERR_DISK, "cannot read %s: %s", path, strerror(errno));
    do {
        CHARL_TRY(kept_record(f, keep_step, &data, &bytes));
        end += bytes;
        *records += bytes > 0;
    } while (bytes > 0);
    CHARL_REQUIRE(truncate(path, (off_t)end) == 0, CHARL_ERR_DISK, "cannot cut %s: %s", path, strerror(errno));
    return CHARL_OK;
}

/* Keep what a file has up to keep_step. A file with nothing but its version is removed, and so is each with keep_step 0. */
static charl_status keep_file(const char *path, int64_t keep_step, int *count)
{
    int64_t records = 0;
    struct stat info;

    CHARL_REQUIRE(lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1, CHARL_ERR_DISK,
                  "%s: is not a file of its own; HINT remove it", path);
    if (keep_step > 0) {
        CHARL_TRY(cut(path, keep_step, &records));
    }
    if (records > 1) {
        ++*count;
    } else {
        CHARL_REQUIRE(unlink(path) == 0, CHARL_ERR_DISK, "cannot remove %s: %s", path, strerror(errno));
    }
    return CHARL_OK;
}

/* keep_file for the event files that charl has written to `dir`. *count: how many are left; *newest: the last time in a name, or 0. */
static charl_status keep_files(const char *dir, int64_t keep_step, int *count, int64_t *newest)
{
    const struct dirent *entry;
    CHARL_SCOPED_FREE char *path = NULL;
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;
    int64_t time;

    *count = 0;
    *newest = 0;
    CHARL_TRY(charl__directory_open(dir, &d));
    CHARL_REQUIRE(d, CHARL_ERR_DISK, "cannot read %s: %s", dir, strerror(errno));
    while ((entry = readdir(d)) != NULL) {
        if (strncmp(entry->d_name, name_prefix, strlen(name_prefix)) != 0 ||
            !charl__ends_in(entry->d_name, name_suffix)) {
            continue;
        }
        charl_free(path);
        path = NULL;
        CHARL_TRY(charl__commit_join(dir, entry->d_name, &path));
        CHARL_TRY(keep_file(path, keep_step, count));
        time = strtoll(entry->d_name + strlen(name_prefix), NULL, 10);
        *newest = time > *newest ? time : *newest;
    }
    return CHARL_OK;
}

/* A new file: TensorBoard reads the files of a folder in the order of their names, so its time is later than that of the others. */
static charl_status create(event_file *e, const char *dir, int64_t newest)
{
    const int64_t now = (int64_t)charl__clock_wall_s();
    char name[NAME_BYTES], host[256] = "localhost";

    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s%010" PRId64 ".%.255s.%ld%s", name_prefix, now > newest ? now : newest + 1, host,
             (long)getpid(), name_suffix);
    CHARL_TRY(charl__commit_join(dir, name, &e->path));
    CHARL_TRY(charl__log_open(e->path, true, &e->f));
    return CHARL_OK;
}

/* What a file begins with: the version, and that a session starts at `step`. */
static charl_status put_start(event_file *e, int64_t step)
{
    size_t session;

    CHARL_TRY(begin_event(e, 0));
    CHARL_TRY(charl__protobuf_string(&e->record, EVENT_FILE_VERSION, "brain.Event:2"));
    CHARL_TRY(end_event(e));
    CHARL_TRY(begin_event(e, step));
    session = e->record.length;
    CHARL_TRY(charl__protobuf_int(&e->record, SESSION_LOG_STATUS, SESSION_START));
    CHARL_TRY(charl__protobuf_nest(&e->record, EVENT_SESSION_LOG, session));
    return end_event(e);
}

static void close_events(void *file)
{
    event_file *e = file;

    if (e) {
        if (e->f) {
            fclose(e->f);
        }
        charl__text_fini(&e->record);
        charl_free(e->path);
        charl_free(e);
    }
}

static charl_status open_events(const charl__metrics_place *place, void **out)
{
    charl_status st = CHARL_OK;
    /* What is written now counts as of the first step to come: another resume at the same step replaces it. */
    const int64_t first = place->keep_step > 0 ? place->keep_step + 1 : 0;
    event_file *e = NULL;
    char *dir = NULL;
    int kept;
    int64_t newest;

    CHARL_TRY_CLEANUP(charl__alloc(sizeof *e, &e));
    CHARL_TRY_CLEANUP(charl__commit_join(place->dir, "tb", &dir));
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        CHARL_TRY_CLEANUP(charl__disk_error(dir, "create", errno, -1));
    }
    CHARL_TRY_CLEANUP(keep_files(dir, place->keep_step, &kept, &newest));
    CHARL_TRY_CLEANUP(create(e, dir, newest));
    CHARL_TRY_CLEANUP(put_start(e, first));
    if (place->config) {
        CHARL_TRY_CLEANUP(put_config(e, first, place->config));
        if (kept == 0) { /* of several, TensorBoard shows the first */
            CHARL_TRY_CLEANUP(put_hparams(e, first, place->config));
        }
    }
    *out = e;
    e = NULL;
cleanup:
    close_events(e);
    charl_free(dir);
    return st;
}

const charl__metrics_format charl__metrics_tensorboard = {.name = "tensorboard",
                                                          .bit = CHARL_LOG_TENSORBOARD,
                                                          .open = open_events,
                                                          .train = tensorboard_train,
                                                          .val = tensorboard_val,
                                                          .histograms = tensorboard_histograms,
                                                          .close = close_events};

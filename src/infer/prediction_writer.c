/* Predictions as rows of a CSV or JSON lines file, or as an HDF5 file. */
#include "charl/predict.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <sys/stat.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/owner.h"
#include "base/text/text.h"
#include "charl/text.h"
#include "io/commit.h"
#include "data/prediction_file.h"

enum { BLOCK_BYTES = 1 << 16 }; /* rows collected before a file is written */

/* A list of names, to be looked up by number. */
typedef struct name_list {
    int64_t n;       /* 0: no names */
    const char **at; /* [n] owned, into the list */
    size_t *length;
} name_list;

struct charl_prediction_writer {
    charl__owner owner; /* while it writes */
    const char *path;   /* borrowed, for messages; NULL: the caller's stream */
    bool all, jsonl, hdf5;
    FILE *stream;         /* the caller's, or of a path that is written in place; NULL: `commit` */
    charl__commit commit; /* of a path that is replaced atomically */
    bool commits;

    bool begun;
    name_list classes, targets, answers; /* answers: of named outputs, else empty */
    int64_t n_answers;
    charl__prediction_file *h5;
    float *values;    /* [2, n_answers] answers and deviations */
    charl__text line; /* pending: a row for a stream, several for a file */
};

static charl_status read_names(const char *list, name_list *out)
{
    const int64_t n = charl_names_count(list);

    CHARL_TRY(charl__alloc_array(n, sizeof *out->at, &out->at));
    CHARL_TRY(charl__alloc_array(n, sizeof *out->length, &out->length));
    for (int64_t i = 0; i < n; i++) {
        out->at[i] = list;
        out->length[i] = strcspn(list, "\n");
        list += out->length[i] + 1;
    }
    out->n = n;
    return CHARL_OK;
}

static void names_fini(name_list *l)
{
    charl_free(l->at);
    charl_free(l->length);
    *l = (name_list){0};
}

/* Text from elsewhere as a CSV field: quoted if necessary, on one line, and with characters that
 * a terminal displays. */
static charl_status put_csv(charl__text *line, const char *s, size_t length)
{
    const bool quoted =
        memchr(s, ',', length) || memchr(s, '"', length) || (length > 0 && (s[0] == ' ' || s[length - 1] == ' '));

    CHARL_TRY(charl__text_append(line, "\"", quoted));
    for (size_t i = 0, n; i < length; i += n) {
        bool visible;

        n = charl_text_next(s + i, length - i, &visible);
        CHARL_TRY(charl__text_append(line, "\"", s[i] == '"'));
        CHARL_TRY(charl__text_append(line, visible ? s + i : "?", visible ? n : 1));
    }
    CHARL_TRY(charl__text_append(line, "\"", quoted));
    return CHARL_OK;
}

static charl_status put_text(charl_prediction_writer *o, const char *s, size_t length)
{
    CHARL_SCOPED(charl__text_fini) charl__text copy = {0};

    if (!o->jsonl) {
        return put_csv(&o->line, s, length);
    }
    CHARL_TRY(charl__text_append(&copy, s, length));
    CHARL_TRY(charl__text_json(&o->line, charl__text_string(&copy)));
    return CHARL_OK;
}

/* A class by its name, or by its number if it has none; nothing if it is unknown. */
static charl_status put_class(charl_prediction_writer *o, int64_t k)
{
    if (k < 0) {
        return charl__text_printf(&o->line, "%s", o->jsonl ? "null" : "");
    }
    return k < o->classes.n ? put_text(o, o->classes.at[k], o->classes.length[k])
                            : charl__text_printf(&o->line, "%" PRId64, k);
}

static charl_status put_key(charl_prediction_writer *o, const char *key)
{
    return o->jsonl ? charl__text_printf(&o->line, ",\"%s\":", key) : charl__text_append(&o->line, ",", 1);
}

static charl_status put_number(charl_prediction_writer *o, double v)
{
    return isnan(v) ? charl__text_printf(&o->line, "%s", o->jsonl ? "null" : "")
                    : charl__text_printf(&o->line, "%.9g", v);
}

/* In JSON the key of value i of several; `names` says what it is called. */
static charl_status put_member(charl_prediction_writer *o, const name_list *names, int64_t i)
{
    CHARL_TRY(charl__text_append(&o->line, ",", i > 0));
    if (o->jsonl && i < names->n) {
        CHARL_TRY(put_text(o, names->at[i], names->length[i]));
        CHARL_TRY(charl__text_append(&o->line, ":", 1));
    }
    return CHARL_OK;
}

/* Several values: columns, or in JSON an object if they have names, else a list. */
static charl_status put_bracket(charl_prediction_writer *o, const name_list *names, int64_t n, bool opening)
{
    const bool object = names->n >= n;

    if (!o->jsonl || (n == 1 && !object)) {
        return CHARL_OK;
    }
    return charl__text_printf(&o->line, "%s", object ? (opening ? "{" : "}") : opening ? "[" : "]");
}

/* Numbers of a row. */
typedef enum part { TARGETS, OUTPUTS, DEVIATIONS } part;

static double value_of(const charl_prediction *p, part what, int64_t i)
{
    if (what == DEVIATIONS) {
        return p->deviations[i];
    }
    if (what == TARGETS) {
        return p->targets ? (double)p->targets[i] : p->labels[i] < 0 ? (double)NAN : (double)p->labels[i];
    }
    return p->map ? (double)p->map[i] : p->answers[i];
}

/* The predictions of each row, besides targets: for pixels their class. */
static int64_t count_of(const charl_prediction_writer *o, const charl_prediction *p, const char **name)
{
    *name = p->map ? "predicted" : p->info->answer;
    return p->map ? p->info->n_targets : o->n_answers;
}

/* The answers of an output without a name are named as its targets. */
static const name_list *names_of_answers(const charl_prediction_writer *o)
{
    return o->answers.n > 0 ? &o->answers : &o->targets;
}

static charl_status put_values(charl_prediction_writer *o, const charl_prediction *p, part what)
{
    const char *name;
    const int64_t n = what == TARGETS ? p->info->n_targets : count_of(o, p, &name);

    const name_list *names = what == TARGETS ? &o->targets : names_of_answers(o);

    CHARL_TRY(put_bracket(o, names, n, true));
    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(put_member(o, names, i));
        CHARL_TRY(put_number(o, value_of(p, what, i)));
    }
    CHARL_TRY(put_bracket(o, names, n, false));
    return CHARL_OK;
}

static charl_status put_classes(charl_prediction_writer *o, const charl_prediction *p)
{
    const int64_t n = p->info->n_outputs;

    if (p->labels) {
        CHARL_TRY(put_key(o, "label"));
        CHARL_TRY(put_class(o, p->labels[0]));
    }
    CHARL_TRY(put_key(o, "predicted"));
    CHARL_TRY(put_class(o, p->predicted));
    CHARL_TRY(put_key(o, p->info->answer));
    CHARL_TRY(put_number(o, p->answers[p->predicted]));
    if (p->deviations) {
        CHARL_TRY(put_key(o, "deviation"));
        CHARL_TRY(put_number(o, p->deviations[p->predicted]));
    }
    if (o->all) {
        CHARL_TRY(put_key(o, "probabilities"));
        CHARL_TRY(put_bracket(o, &o->classes, n, true));
        for (int64_t i = 0; i < n; i++) {
            CHARL_TRY(put_member(o, &o->classes, i));
            CHARL_TRY(put_number(o, p->answers[i]));
        }
        CHARL_TRY(put_bracket(o, &o->classes, n, false));
    }
    return CHARL_OK;
}

static charl_status put_numbers(charl_prediction_writer *o, const charl_prediction *p)
{
    const char *name;

    count_of(o, p, &name);
    if (p->info->has_targets) {
        CHARL_TRY(put_key(o, "target"));
        CHARL_TRY(put_values(o, p, TARGETS));
    }
    CHARL_TRY(put_key(o, name));
    CHARL_TRY(put_values(o, p, OUTPUTS));
    if (p->deviations && !p->map) {
        CHARL_TRY(put_key(o, "deviation"));
        CHARL_TRY(put_values(o, p, DEVIATIONS));
    }
    return CHARL_OK;
}

/* Name of the first column. */
static const char *name_of_names(const charl_predict_info *info)
{
    return info->files ? "file" : info->has_names ? "id" : "row";
}

/* Identifies the sample. */
static charl_status put_name(charl_prediction_writer *o, const charl_prediction *p)
{
    if (o->jsonl) {
        CHARL_TRY(charl__text_printf(&o->line, "{\"%s\":", name_of_names(p->info)));
    }
    if (p->name) {
        CHARL_TRY(put_text(o, p->name, strlen(p->name)));
    } else {
        CHARL_TRY(charl__text_printf(&o->line, "%" PRId64, p->row));
    }
    return CHARL_OK;
}

/* ",PREFIX_NAME" for each of n columns; NAME is the column's number if it has none. */
static charl_status put_columns(charl__text *line, const char *prefix, const name_list *names, int64_t n)
{
    CHARL_SCOPED(charl__text_fini) charl__text name = {0};

    for (int64_t i = 0; i < n; i++) {
        charl__text_clear(&name);
        CHARL_TRY(charl__text_printf(&name, "%s_", prefix));
        if (i < names->n) {
            CHARL_TRY(charl__text_append(&name, names->at[i], names->length[i]));
        } else {
            CHARL_TRY(charl__text_printf(&name, "%" PRId64, i));
        }
        CHARL_TRY(charl__text_append(line, ",", 1));
        CHARL_TRY(put_csv(line, charl__text_string(&name), name.length));
    }
    return CHARL_OK;
}

/* Columns of targets or of what was predicted for them; a single one without a name is PREFIX. */
static charl_status put_target_columns(charl_prediction_writer *o, const char *prefix, const name_list *names,
                                       int64_t n)
{
    return n == 1 && names->n == 0 ? charl__text_printf(&o->line, ",%s", prefix)
                                   : put_columns(&o->line, prefix, names, n);
}

static charl_status put_header(charl_prediction_writer *o, const charl_prediction *p)
{
    const charl_predict_info *info = p->info;

    CHARL_TRY(charl__text_printf(&o->line, "%s", name_of_names(info)));
    if (info->targets == CHARL_TARGET_CLASS) {
        CHARL_TRY(charl__text_printf(&o->line, "%s,predicted,%s%s", info->has_targets ? ",label" : "", info->answer,
                                     p->deviations ? ",deviation" : ""));
        CHARL_TRY(put_columns(&o->line, "p", &o->classes, o->all ? info->n_outputs : 0));
    } else {
        if (info->has_targets) {
            CHARL_TRY(put_target_columns(o, "target", &o->targets, info->n_targets));
        }
        const char *name;
        const int64_t n = count_of(o, p, &name);

        CHARL_TRY(put_target_columns(o, name, names_of_answers(o), n));
        if (p->deviations && !p->map) {
            CHARL_TRY(put_target_columns(o, "deviation", names_of_answers(o), n));
        }
    }
    CHARL_TRY(charl__text_append(&o->line, "\n", 1));
    return CHARL_OK;
}

static charl_status create_h5(charl_prediction_writer *o, const charl_prediction *p)
{
    const charl_predict_info *info = p->info;
    const bool classes = info->targets == CHARL_TARGET_CLASS, named = classes || p->map;
    const charl__prediction_spec spec = {.rows = info->n_rows,
                                         .outputs = o->n_answers,
                                         .deviations = p->deviations ? o->n_answers : 0,
                                         .targets = info->has_targets ? info->n_targets : 0,
                                         .predicted = classes  ? 1
                                                      : p->map ? info->n_targets
                                                               : 0,
                                         .labels = p->labels,
                                         .step = info->step,
                                         .files = info->files,
                                         .class_names = named ? info->schema->class_names : NULL,
                                         .target_names = named              ? NULL
                                                         : o->answers.n > 0 ? info->answer_names
                                                                            : info->schema->targets};

    CHARL_TRY(charl__alloc_array(2 * o->n_answers, sizeof *o->values, &o->values));
    CHARL_TRY(charl__prediction_file_create(o->path, &spec, &o->h5));
    return CHARL_OK;
}

static charl_status write_h5(charl_prediction_writer *o, const charl_prediction *p)
{
    const int32_t predicted = (int32_t)p->predicted;

    for (int64_t i = 0; i < o->n_answers; i++) {
        o->values[i] = (float)p->answers[i];
        o->values[o->n_answers + i] = p->deviations ? (float)p->deviations[i] : 0.0F;
    }
    CHARL_TRY(charl__prediction_file_put(o->h5, o->values, o->values + o->n_answers, p->map ? p->map : &predicted,
                                         p->labels ? (const void *)p->labels : p->targets));
    return CHARL_OK;
}

static charl_status begin(charl_prediction_writer *o, const charl_prediction *p)
{
    CHARL_REQUIRE(p->info && p->info->schema, CHARL_ERR_INVALID,
                  "a prediction without info, or whose info has no schema");
    CHARL_TRY(read_names(p->info->schema->class_names, &o->classes));
    CHARL_TRY(read_names(p->info->schema->targets, &o->targets));
    CHARL_TRY(p->info->answer_names ? read_names(p->info->answer_names, &o->answers) : CHARL_OK);
    o->n_answers = o->answers.n > 0 ? o->answers.n : p->info->n_outputs;
    if (o->hdf5) {
        CHARL_TRY(create_h5(o, p));
    } else if (!o->jsonl) {
        CHARL_TRY(put_header(o, p));
    }
    o->begun = true;
    return CHARL_OK;
}

/* Whether stat finds an existing file that is not regular: it is then written in place. */
static charl_status open_path(charl_prediction_writer *o)
{
    struct stat s;

    if (stat(o->path, &s) == 0 && !S_ISREG(s.st_mode)) {
        o->stream = fopen(o->path, "w");
        CHARL_REQUIRE(o->stream, CHARL_ERR_DISK, "cannot write %s: %s", o->path, strerror(errno));
        return CHARL_OK;
    }
    o->commits = true;
    return charl__commit_begin(o->path, &o->commit);
}

/* The output must not be one of the inputs. */
static charl_status check_inputs(const char *path, const charl_predict_info *info)
{
    CHARL_TRY(charl__commit_check_inputs(path, info->inputs, info->n_inputs));
    if (info->files) {
        CHARL_TRY(charl__commit_check_inputs(path, (const char *const *)info->files->paths, info->files->count));
    }
    return CHARL_OK;
}

charl_status charl_prediction_writer_create(const charl_prediction_writer_options *options,
                                            const charl_predict_info *info, charl_prediction_writer **out)
{
    CHARL_GIVEN(options, info, out);
    CHARL__OPTIONS(charl_prediction_writer_options, options);
    charl_status st = CHARL_OK;
    charl_prediction_writer *o = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(!options->all || info->targets == CHARL_TARGET_CLASS, CHARL_ERR_CONFIG,
                          "the probabilities of all classes: only models that choose among classes have them");
    CHARL_REQUIRE_CLEANUP(options->path || (options->stream && options->format != CHARL_PREDICTION_HDF5),
                          CHARL_ERR_INVALID, "predictions need a path, or a stream for CSV or JSON lines");
    if (options->path) {
        CHARL_TRY_CLEANUP(check_inputs(options->path, info));
    }
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *o, &o));
    charl__owner_init(&o->owner);
    o->path = options->path;
    o->stream = options->path ? NULL : options->stream;
    o->all = options->all;
    o->jsonl = options->format == CHARL_PREDICTION_JSONL;
    o->hdf5 = options->format == CHARL_PREDICTION_HDF5; /* created with the first row */
    if (o->path && !o->hdf5) {
        CHARL_TRY_CLEANUP(open_path(o));
    }
    *out = o;
    o = NULL;
cleanup:
    charl_prediction_writer_destroy(o);
    return st;
}

/* Write the collected rows. */
static charl_status write_line(charl_prediction_writer *o)
{
    const charl__text *t = &o->line;

    if (o->commits) {
        CHARL_TRY(charl__commit_write(&o->commit, t->data, t->length));
    } else {
        CHARL_REQUIRE(fwrite(t->data, 1, t->length, o->stream) == t->length, CHARL_ERR_DISK,
                      "predictions could not be written: %s", strerror(errno));
    }
    charl__text_clear(&o->line);
    return CHARL_OK;
}

charl_status charl_prediction_writer_put(charl_prediction_writer *w, const charl_prediction *prediction)
{
    CHARL_GIVEN(w, prediction);
    CHARL_OWNED(&w->owner, "writer of predictions");
    if (!w->begun) {
        CHARL_TRY(begin(w, prediction));
    }
    if (w->hdf5) {
        return write_h5(w, prediction);
    }
    CHARL_TRY(put_name(w, prediction));
    if (prediction->info->targets == CHARL_TARGET_CLASS) {
        CHARL_TRY(put_classes(w, prediction));
    } else {
        CHARL_TRY(put_numbers(w, prediction));
    }
    CHARL_TRY(charl__text_printf(&w->line, "%s\n", w->jsonl ? "}" : ""));
    return w->commits && w->line.length < BLOCK_BYTES ? CHARL_OK : write_line(w);
}

charl_status charl_prediction_writer_finish(charl_prediction_writer *w)
{
    CHARL_GIVEN(w);
    CHARL_OWNED(&w->owner, "writer of predictions");
    bool good;

    if (w->hdf5) {
        CHARL_REQUIRE(w->h5, CHARL_ERR_INVALID, "%s: there is no prediction to write", w->path);
        return charl__prediction_file_finish(w->h5);
    }
    CHARL_TRY(write_line(w));
    if (w->commits) {
        return charl__commit_end(&w->commit, NULL, NULL);
    }
    good = fflush(w->stream) == 0;
    if (w->path) {
        good = fclose(w->stream) == 0 && good;
        w->stream = NULL;
    }
    CHARL_REQUIRE(good, CHARL_ERR_DISK, "cannot write %s: %s", w->path ? w->path : "predictions", strerror(errno));
    return CHARL_OK;
}

void charl_prediction_writer_destroy(charl_prediction_writer *o)
{
    if (!o) {
        return;
    }
    if (o->path && o->stream) {
        fclose(o->stream);
    }
    if (o->commits) {
        charl__commit_fini(&o->commit);
    }
    charl__text_fini(&o->line);
    charl__prediction_file_destroy(o->h5);
    names_fini(&o->classes);
    names_fini(&o->targets);
    names_fini(&o->answers);
    charl_free(o->values);
    charl_free(o);
}

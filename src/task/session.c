/* Sessions: data, model, weights, device. */
#include "task/session.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "config/config_place.h"
#include "config/config_rows.h"
#include "config/outputs.h"
#include "config/diff.h"
#include "io/dataset/schema/data_schema.h"
#include "charl/tensor_file.h"
#include "charl/tokenizer.h"
#include "io/schema.h"
#include "io/scoped.h"
#include "io/tokenizer.h"
#include "task/schema.h"
#include "task/task.h"
#include "task/weights/weights.h"
#include "task/weights/weights_base.h"
#include "weights/weights_load.h"
#include "weights/weights_source.h"

enum { TEXT_BYTES = 2400 };

void charl__session_warn(const charl__session *s, const char *text)
{
    if (s->warned && text && text[0]) {
        s->warned(s->warned_ctx, text);
    }
}

void charl__session_warn_lines(const charl__session *s, const char *lines)
{
    char text[TEXT_BYTES];

    while (lines && lines[0]) {
        const size_t n = strcspn(lines, "\n");

        snprintf(text, sizeof text, "%.*s", (int)n, lines);
        charl__session_warn(s, text);
        lines += n + (lines[n] == '\n');
    }
}

charl_status charl__session_open_checkpoint(charl__session *s, const char *path)
{
    s->origin = path;
    return charl_checkpoint_open(path, &s->reader);
}

charl_status charl__session_read_config(charl__session *s, const charl_config_override *overrides, int n_overrides)
{
    const char *text = charl_checkpoint_get_info(s->reader).config_resolved;

    /* Its paths are absolute. */
    CHARL_TRY(charl__error_in(
        charl_config_parse("/config/resolved", text, strlen(text), overrides, n_overrides, &s->own_config),
        CHARL_ERR_CONFIG, "%s: ", s->origin));
    s->config = s->own_config;
    return CHARL_OK;
}

/* charl stores the schema in safetensors files too; other programs do not. */
static charl_status read_safetensors(charl__session *s)
{
    CHARL_SCOPED(charl__tensor_file_left) charl_tensor_file *file = NULL;

    CHARL_TRY(charl_tensor_file_open(s->origin, &file));
    if (charl_tensor_file_get_schema(file)) {
        CHARL_TRY(charl__task_schema_continue(s->config, charl_tensor_file_get_schema(file), &s->schema));
    }
    return CHARL_OK;
}

/* A configuration of another version of charl may not be readable and is then ignored. */
static charl_status read_settings(charl__session *s, const charl_checkpoint_reader *r)
{
    const char *text = charl_checkpoint_get_info(r).config_resolved;
    charl_config *was = NULL;
    const charl_status st =
        s->infers ? charl_config_parse("/config/resolved", text, strlen(text), NULL, 0, &was) : CHARL_OK;

    CHARL_REQUIRE(st == CHARL_OK || st == CHARL_ERR_CONFIG, st, "%s", charl_error_message());
    s->image_size = was ? was->data.image_size : 0;
    s->masked = was ? was->data.masked : 0.0;
    charl_config_destroy(was);
    return CHARL_OK;
}

charl_status charl__session_read_schema(charl__session *s)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    const charl_data_schema *stored;

    if (!s->origin) {
        return CHARL_OK;
    }
    if (charl__is_tensor_file(s->origin) && !s->infers) {
        return read_safetensors(s);
    }
    CHARL_TRY(charl_checkpoint_open(s->origin, &r));
    CHARL_TRY(read_settings(s, r));
    stored = charl_checkpoint_get_info(r).schema;
    if (stored) {
        CHARL_TRY(s->infers ? charl__data_schema_copy(stored, &s->schema)
                            : charl__task_schema_continue(s->config, stored, &s->schema));
    } else if (s->infers) {
        CHARL_TRY(charl__weights_classes(s->config, r, &s->classes));
    }
    return CHARL_OK;
}

static charl_status open_dataset(charl__session *s)
{
    const charl_status st = charl_config_open_dataset(s->config, !s->infers, &s->ds);

    if ((st == CHARL_ERR_DATA || st == CHARL_ERR_IO) && !s->own_config) {
        charl__config_blame(s->config, "data", s->config->data.mix.count > 0 ? "mix" : "path");
    }
    if (st == CHARL_ERR_DATA && s->infers && access(s->config->data.path, F_OK) != 0) {
        charl__error_append("; HINT if the data have moved, add data.path=FILE to this command");
    }
    return st;
}

static void use(charl__session *s, charl_config *chosen)
{
    charl_free(s->chosen);
    s->config = s->chosen = chosen;
}

/* A training has its lengths in steps. */
static charl_status choose_steps(charl__session *s)
{
    charl_config *chosen = NULL;

    CHARL_TRY(charl__config_in_steps(s->config, &s->data, &chosen));
    if (chosen) {
        use(s, chosen);
    }
    return CHARL_OK;
}

/* Resolve train.loss = auto by the targets of `data`: classes, also of tokens and of pixels, several labels, or numbers. Pixels of two classes are
 * masks of 0 and 1, unless some do not count. */
static charl_status choose_loss(charl__session *s)
{
    const charl_dataset_info *d = &s->data;
    const bool ignored = d->ignored[CHARL_SPLIT_TRAIN] + d->ignored[CHARL_SPLIT_VAL] + d->ignored[CHARL_SPLIT_TEST] > 0;
    const bool labels = d->y_dtype == CHARL_I32, several = d->y_shape.ndim > 0 && d->classes <= 2 && !ignored;
    const char *loss = d->kind == CHARL_DATASET_TOKENS || (labels && !several) ? "cross_entropy"
                       : labels                                                ? "bce"
                                                                               : "mse";
    char few[160], text[640];
    charl_config *chosen = NULL;
    char *notes = NULL;
    bool one_hot = false;

    if (strcmp(s->config->train.loss, "auto") != 0 || charl__config_has_outputs(s->config)) {
        return CHARL_OK;
    }
    if (!s->infers) {
        CHARL_TRY(charl__session_is_one_hot(s, &one_hot));
        CHARL_REQUIRE(
            !one_hot, CHARL_ERR_CONFIG,
            "%s: every target has one 1 among %lld numbers: classes in one-hot form, for which train.loss = auto "
            "would choose %s; HINT store the number of the class (y.argmax(1)) for cross_entropy, or say "
            "train.loss = %s if that is meant",
            d->path, (long long)d->y_shape.dim[0], loss, labels ? "bce" : "kl, bce or mse");
        CHARL_TRY(charl__session_find_few(s, few, sizeof few));
        if (few[0]) {
            snprintf(
                text, sizeof text,
                "%.300s: the targets are floating-point numbers, of which only %s occur: if they are classes, store "
                "them as integers; train.loss = mse takes them as numbers without this warning",
                d->path, few);
            charl__session_warn(s, text);
        }
    }
    CHARL_TRY(charl__config_choose_loss(s->config, loss, &chosen, &notes));
    use(s, chosen);
    charl__session_warn_lines(s, notes);
    charl_free(notes);
    return CHARL_OK;
}

charl_status charl__session_open_data(charl__session *s, charl_split split)
{
    const char *path;

    CHARL_TRY(open_dataset(s));
    charl_dataset_get_info(s->ds, &s->data);
    path = s->data.path;
    CHARL_REQUIRE(s->infers || s->data.rows[CHARL_SPLIT_TRAIN] > 0, CHARL_ERR_DATA, "%s has no training rows", path);
    CHARL_REQUIRE(!s->infers || s->data.rows[split] > 0, CHARL_ERR_DATA,
                  "%s has no %s split; HINT all rows of a file without splits are training rows: "
                  "use --split train or data.val_split",
                  path, charl_split_name(split));
    CHARL_TRY(choose_loss(s));
    CHARL_TRY(s->infers ? CHARL_OK : choose_steps(s));
    return s->infers ? CHARL_OK : charl__session_measure_chance(s);
}

static void warn_of_version_1(const charl__session *s)
{
    char text[TEXT_BYTES];

    snprintf(text, sizeof text,
             s->data.kind == CHARL_DATASET_TOKENS
                 ? "%s was written by an older charl and does not hold its tokenizer: tokens of "
                   "%s are taken to be the same"
                 : "%s was written by an older charl and does not hold the names of its classes, "
                   "columns and targets, nor its mean and std: those of %s are used as they are, "
                   "which is right only for the data that it was trained on",
             s->origin, s->data.path);
    charl__session_warn(s, text);
}

void charl__session_warn_normalize(const charl__session *s)
{
    char text[TEXT_BYTES];

    if (s->config->data.normalize.kind != CHARL__NORMALIZE_AUTO &&
        charl__task_normalizes_otherwise(s->config, s->schema)) {
        snprintf(text, sizeof text, "data.normalize is not what %s was trained with; its mean and std are used",
                 s->origin);
        charl__session_warn(s, text);
    }
}

/* If init.skip reinitializes the output layer, its outputs are those of these data: other classes, targets or tokens. Other tokens also need
 * another embedding. */
static charl_status renew_outputs(charl__session *s)
{
    bool renewed = false;

    CHARL_TRY(charl__weights_outputs_skipped(
        s->config, s->schema->kind == CHARL_DATASET_TOKENS && s->data.kind == CHARL_DATASET_TOKENS, &renewed));
    if (renewed) {
        CHARL_TRY(charl__schema_use_outputs(s->schema, s->ds));
    }
    return CHARL_OK;
}

static charl_status token_text(const char *token, size_t bytes, charl__text *out)
{
    char text[64];

    snprintf(text, sizeof text, "%.*s", (int)(bytes < sizeof text ? bytes : sizeof text - 1), bytes ? token : "");
    return bytes ? charl__text_json(out, text) : charl__text_printf(out, "none");
}

/* The data must have the tokens that the weights were trained with, if their folder defines them: a token of the data must be the same
 * text there. */
static charl_status check_tokenizer(const charl__session *s)
{
    charl_status st = CHARL_OK;
    const charl_tokenizer *own = s->schema->tokenizer;
    charl_tokenizer *theirs = NULL;
    charl__text a = {0}, b = {0};
    bool renewed = false;

    CHARL_TRY_CLEANUP(charl__weights_outputs_skipped(s->config, true, &renewed));
    if (renewed || !own || charl_tokenizer_load(s->origin, &theirs) != CHARL_OK) {
        goto cleanup; /* other weights, or nothing to compare */
    }
    for (int64_t i = 0; i < charl_tokenizer_get_vocab(own); i++) {
        size_t x = 0, y = 0;
        const char *mine = charl_tokenizer_get_token(own, i, &x);
        const char *their = i < charl_tokenizer_get_vocab(theirs) ? charl_tokenizer_get_token(theirs, i, &y) : NULL;

        if (x == y && (x == 0 || memcmp(mine, their, x) == 0)) {
            continue;
        }
        CHARL_TRY_CLEANUP(token_text(mine, x, &a));
        CHARL_TRY_CLEANUP(token_text(their, y, &b));
        CHARL_FAIL_CLEANUP(CHARL_ERR_DATA,
                           "%s has another tokenizer than %s: token %lld is %s, not %s; HINT import the "
                           "text with --tokenizer %s, or start the embedding afresh (init.skip)",
                           s->data.path, s->origin, (long long)i, charl__text_string(&a), charl__text_string(&b),
                           s->origin);
    }
cleanup:
    charl_tokenizer_destroy(theirs);
    charl__text_fini(&a);
    charl__text_fini(&b);
    return st;
}

/* Using whole images instead of the centre crops that the model was trained on is not an error of any layer. */
static charl_status check_image_size(const charl__session *s)
{
    const charl_shape *x = &s->data.x_shape;
    const int64_t size = s->image_size;

    CHARL_REQUIRE(
        size == 0 || s->config->data.image_size != 0 || x->ndim != 3 || (x->dim[1] == size && x->dim[2] == size),
        CHARL_ERR_CONFIG,
        "%s was trained with data.image_size = %lld, and here it is auto: the images of %s are %lld x %lld; "
        "HINT data.image_size=%lld",
        s->origin, (long long)size, s->data.path, (long long)x->dim[1], (long long)x->dim[2], (long long)size);
    return CHARL_OK;
}

charl_status charl__session_match_data(charl__session *s)
{
    CHARL_SCOPED_FREE char *notes = NULL;

    CHARL_TRY(check_image_size(s));
    CHARL_REQUIRE(s->masked <= 0 || s->config->data.masked > 0, CHARL_ERR_CONFIG,
                  "%s was trained with data.masked = %g, and does not predict the next token; HINT "
                  "data.masked=%g",
                  s->origin, s->masked, s->masked);
    if (s->schema && s->starts) {
        CHARL_TRY(renew_outputs(s));
    }
    if (s->schema) {
        CHARL_TRY(charl__dataset_map(s->ds, s->schema, s->origin, !s->infers, &notes));
        charl__session_warn_lines(s, notes);
        charl_dataset_get_info(s->ds, &s->data);
    }
    if (s->infers && s->schema) {
        charl__session_warn_normalize(s);
    }
    if (!s->schema) {
        if (s->origin && !charl__is_tensor_file(s->origin)) {
            warn_of_version_1(s);
        }
        s->data.classes = s->classes > s->data.classes ? s->classes : s->data.classes;
        CHARL_TRY(charl__task_schema(s->config, s->ds, &s->schema));
        s->schema->classes = s->data.classes;
    }
    if (s->starts && s->origin && charl__kind_has_tokens(s->schema->kind)) {
        CHARL_TRY(check_tokenizer(s));
    }
    return CHARL_OK;
}

#define VERSION_1 "%s is a checkpoint of version 1, which stores neither names nor mean and std of its data"

charl_status charl__session_schema_of_data(charl__session *s, const charl_config *config, const char *path,
                                           const char *hint)
{
    charl_status st = CHARL_OK;
    const charl_dataset_options how = charl_config_get_dataset_options(config);
    const char *trained_on = charl_checkpoint_get_info(s->reader).state->data_content_id;
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    char text[TEXT_BYTES];

    path = path ? path : config->data.path;
    CHARL_REQUIRE_CLEANUP(path[0], CHARL_ERR_CHECKPOINT, VERSION_1 "; HINT name the data set it was trained on: %s",
                          s->origin, hint);
    st = charl_dataset_open(path, &how, &ds);
    if (st == CHARL_ERR_DATA) {
        snprintf(text, sizeof text, "%s", charl_error_message());
        CHARL_FAIL_CLEANUP(CHARL_ERR_CHECKPOINT,
                           VERSION_1 ", and the data set that it was trained on cannot be used: %s; "
                                     "HINT name it: %s",
                           s->origin, text, hint);
    }
    CHARL_TRY_CLEANUP(st);
    charl_dataset_get_info(ds, &info);
    CHARL_REQUIRE_CLEANUP(strcmp(info.content_id, trained_on) == 0, CHARL_ERR_CHECKPOINT,
                          VERSION_1 ", and %s is not the data set that it was trained on (content "
                                    "%.12s, not %.12s); HINT name that one: %s",
                          s->origin, path, info.content_id, trained_on, hint);
    snprintf(text, sizeof text,
             "%s is a checkpoint of version 1: names of columns and classes, mean and std are "
             "taken from %s",
             s->origin, path);
    charl__session_warn(s, text);
    CHARL_TRY_CLEANUP(charl__task_schema(config, ds, &s->schema));
cleanup:
    charl_dataset_close(ds);
    return st;
}

charl_status charl__session_find_tokenizer(const charl__session *s, const char *named, charl_tokenizer **out,
                                           int64_t *classes)
{
    const charl_data_schema *d = charl_checkpoint_get_info(s->reader).schema;
    int64_t vocab;

    CHARL_REQUIRE(!d || !d->fields[0], CHARL_ERR_DATA,
                  "%s was trained on named inputs, not on a text; HINT charl predict reads them; "
                  "docs/models/encoder-decoder.md shows how to write one token after another with its ONNX export",
                  s->origin);
    CHARL_REQUIRE(!d || d->kind == CHARL_DATASET_TOKENS, CHARL_ERR_DATA, "%s was trained on %s, not on a text",
                  s->origin, charl_dataset_kind_name(d->kind));
    CHARL_REQUIRE(!d || !d->tokenizer || !named, CHARL_ERR_CONFIG,
                  "%s contains its own tokenizer, of type %s; HINT leave %s out", s->origin, d->tokenizer_kind, named);
    if (named) {
        CHARL_TRY(charl_tokenizer_load(named, out));
        vocab = charl_tokenizer_get_vocab(*out);
        *classes = d ? d->classes : vocab;
        CHARL_REQUIRE(vocab <= *classes, CHARL_ERR_DATA,
                      "the tokenizer %s has %lld tokens, more than the %lld that %s was trained on", named,
                      (long long)vocab, (long long)*classes, s->origin);
    } else if (d) {
        *out = d->tokenizer ? charl__tokenizer_retain(d->tokenizer) : NULL;
        *classes = d->classes;
    }
    return CHARL_OK;
}

charl_status charl__session_open_device(charl__session *s, const charl_device_request *request)
{
    charl_device_request limited = *request;
    charl_status st;

    limited.exact_half = request->exact_half || s->config->train.products == CHARL__PRODUCTS_INTEGER;
    limited.driver = s->config->device.driver;
    limited.memory_limit = s->config->device.memory_limit << 20;
    st = charl_device_open(&limited, &s->dev);
    if (st != CHARL_OK && limited.select == s->config->device.select &&
        strncmp(charl_error_message(), "device \"", strlen("device \"")) == 0) {
        charl__config_blame(s->config, "device", "select");
    }
    return st;
}

charl__device_loader_options charl__session_loader(const charl__session *s, charl_split split, bool training)
{
    const charl_config *c = s->config;
    const charl__loss *loss = charl__config_loss(c);

    return (charl__device_loader_options){.dev = s->dev,
                                          .ds = s->ds,
                                          .schema = s->schema,
                                          .augment = training ? &c->data.augment : NULL,
                                          .image_size = c->data.image_size,
                                          .split = split,
                                          .shuffle = training ? c->data.shuffle : CHARL_SHUFFLE_NO,
                                          .endless = training,
                                          .seed = (uint64_t)c->run.seed,
                                          .batch = c->train.batch_size,
                                          .separate = s->data.kind == CHARL_DATASET_TOKENS &&
                                                      c->data.documents == CHARL__DOCUMENTS_SEPARATE,
                                          .pixels = charl__task_targets(loss, &s->data) == CHARL_TARGET_MAPS,
                                          .whole = loss->build_counted,
                                          .on_demand = training && !c->data.prefetch};
}

charl_status charl__session_create_model(charl__session *s)
{
    int64_t outputs;

    CHARL_TRY(choose_loss(s)); /* if a schema replaces the data */
    CHARL_TRY(charl__task_outputs(s->config, &s->data, &outputs));
    CHARL_TRY(charl__task_model(s->config, outputs, s->data.fields, &s->model));
    CHARL_TRY(charl_params_create(&s->params));
    return CHARL_OK;
}

/* Whether a line of charl__config_diff concerns the model. A training may start with another window, vocabulary and dropout than the weights had,
 * and with other layers. */
static bool is_of_model(const char *line, bool starts)
{
    static const char *const free_keys[] = {"block_size ", "vocab_size ", "vocab_multiple ", "dropout ",
                                            "stochastic_depth "};
    static const char model[] = "[model] ";
    const size_t n = strlen(model);

    if (strncmp(line, model, n) != 0) {
        return !starts && (strncmp(line, "[layer ", 7) == 0 || strncmp(line, "[block ", 7) == 0);
    }
    for (size_t i = 0; starts && i < sizeof free_keys / sizeof free_keys[0]; i++) {
        if (strncmp(line + n, free_keys[i], strlen(free_keys[i])) == 0) {
            return false;
        }
    }
    return true;
}

/* Settings of the model that do not affect shapes, such as n_head, may differ from those of the weights in `path`, whose configuration is
 * `resolved`. A configuration of another version of charl may not be readable and is then ignored. */
static charl_status warn_of_model(const charl__session *s, const char *resolved, const char *path, bool starts)
{
    charl_status st = CHARL_OK;
    charl__text text = {0};
    char *changes = NULL, told[TEXT_BYTES];
    unsigned found;

    st = charl__config_diff(s->config, resolved, CHARL__CHANGE_MODEL, &found, &changes);
    if (st == CHARL_ERR_CONFIG) {
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    if (starts && strstr(changes, "[model] type ")) { /* part of it, such as a backbone */
        goto cleanup;
    }
    for (const char *line = changes; *line;) {
        const int length = (int)strcspn(line, "\n");

        if (is_of_model(line, starts)) {
            CHARL_TRY_CLEANUP(charl__text_printf(&text, "%s%.*s", text.length ? ", " : "", length, line));
        }
        line += length + (line[length] == '\n');
    }
    if (text.length > 0) {
        snprintf(told, sizeof told, "%s was trained with another model: %s", path, charl__text_string(&text));
        charl__session_warn(s, told);
    }
cleanup:
    charl__text_fini(&text);
    charl_free(changes);
    return st;
}

/* The same for config.json beside published weights. One that charl cannot read is ignored. */
static charl_status warn_of_published(const charl__session *s)
{
    charl_status st = CHARL_OK;
    static const char text[] = "[data]\npath = none\n";
    charl__text from = {0};
    charl_config *theirs = NULL;
    char *resolved = NULL;
    struct stat info;

    CHARL_TRY_CLEANUP(charl__text_printf(&from, "model.from=%s", s->origin));
    if (stat(s->origin, &info) != 0 || !S_ISDIR(info.st_mode)) {
        goto cleanup;
    }
    st = charl_config_parse("config.json", text, strlen(text),
                            &(charl_config_override){charl__text_string(&from), "init.from"}, 1, &theirs);
    if (st == CHARL_ERR_CONFIG) {
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(charl_config_print(theirs, false, &resolved));
    CHARL_TRY_CLEANUP(warn_of_model(s, resolved, s->origin, true));
cleanup:
    charl__text_fini(&from);
    charl_config_destroy(theirs);
    charl_free(resolved);
    return st;
}

/* The same for the checkpoint that a training starts from. */
static charl_status warn_of_origin(const charl__session *s)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;

    if (charl__is_tensor_file(s->origin)) {
        return warn_of_published(s);
    }
    CHARL_TRY(charl_checkpoint_open(s->origin, &r));
    if (charl_checkpoint_get_info(r).config_resolved) {
        CHARL_TRY(warn_of_model(s, charl_checkpoint_get_info(r).config_resolved, s->origin, true));
    }
    return CHARL_OK;
}

charl_status charl__session_load_weights(charl__session *s, const char *path, charl_ema_choice ema)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *own = NULL;
    charl_checkpoint_reader *r = s->reader;
    const char *group;

    if (!r) {
        CHARL_TRY(charl_checkpoint_open(path, &own));
        r = own;
    }
    CHARL_TRY(charl__weights_find_base(r, path, charl__config_init_from(s->config)));
    CHARL_TRY(charl__weights_group(r, path, ema, &group));
    CHARL_TRY(charl__weights_restore(s->params, r, path, group));
    if (s->warned && charl_checkpoint_get_info(r).config_resolved) {
        CHARL_TRY(warn_of_model(s, charl_checkpoint_get_info(r).config_resolved, path, false));
    }
    return CHARL_OK;
}

/* A line of a report, as a warning. */
static void warn_of_line(const charl__session *s, const char *line, int length)
{
    static const char skipped[] = "skipped: ";
    const int word = (int)strlen(skipped);
    char text[TEXT_BYTES];

    if (strncmp(line, skipped, strlen(skipped)) == 0) {
        snprintf(text, sizeof text, "%.*s starts afresh (init.skip)", length - word, line + word);
    } else {
        snprintf(text, sizeof text, "%s: %.*s", s->origin, length, line);
    }
    charl__session_warn(s, text);
}

charl_status charl__session_start_weights(charl__session *s)
{
    static const charl__weights_words words = {
        .skip = "init.skip", .rename = "init.rename", .effect = "starts afresh or leaves out what does not fit"};
    const charl_params_load_options o = {sizeof o, .ema = CHARL_EMA_NO, .skip = s->config->init.skip,
                                         .rename = s->config->init.rename, .model = s->model};
    charl_params_report report = {.loaded = 0};
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    CHARL_TRY(charl__weights_load(s->params, s->origin, &o, &words, &report, &text));
    for (const char *p = charl__text_string(&text); *p;) {
        const int length = (int)strcspn(p, "\n");

        warn_of_line(s, p, length);
        p += length + (p[length] == '\n');
    }
    if (s->warned) {
        CHARL_TRY(warn_of_origin(s));
    }
    return CHARL_OK;
}

void charl__session_fini(charl__session *s)
{
    charl_params_destroy(s->params);
    charl_model_destroy(s->model);
    charl_device_close(s->dev);
    charl_dataset_close(s->ds);
    charl_free(s->forgotten);
    charl_data_schema_destroy(s->schema);
    charl_config_destroy(s->own_config);
    charl_free(s->chosen);
    charl_checkpoint_close(s->reader);
    *s = (charl__session){0};
}

/* A folder of adapters that the Python package peft has saved, with their base: the tensors are those of the base, and where there are adapters
 *
 *     W + scale B A      scale = alpha / r, or with use_rslora alpha / sqrt(r)
 *
 * summed in double and rounded to f32. W is transposed in embeddings and with fan_in_fan_out. Other tensors of the folder (modules_to_save, biases)
 * take the place of the base's. What adapter_config.json asks for and is not done here is refused by its name. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/commit.h"
#include "io/kind.h"
#include "io/regular.h"
#include "io/tensors/tensor_file.h"

enum { MOST_CONFIG = 1 << 24, NAME = 512 };

static const char root_name[] = CHARL__PEFT_PREFIX;

CHARL_SCOPED_POINTER(json_left, json_t, json_decref)

/* Where a tensor comes from: tensor `from` of `file`, plus scale * up @ down. */
typedef struct part {
    const charl_tensor_file *file;
    const charl_checkpoint_tensor *from, *down, *up; /* down [r, in], up [out, r]; NULL: no adapters */
    double scale;
    bool turned; /* from is [in, out] */
} part;

struct charl__peft {
    char *path;
    charl_tensor_file *base, *adapters;
    part *parts; /* [n] */
    int64_t n;
};

/* What is added to while a folder is opened. */
typedef struct listing {
    charl__peft *p;
    const json_t *config;
    charl__tensor_file_entry *entries;
} listing;

void charl__peft_close(charl__peft *p)
{
    if (p) {
        charl_tensor_file_close(p->base);
        charl_tensor_file_close(p->adapters);
        charl_free(p->parts);
        charl_free(p->path);
        charl_free(p);
    }
}

/* ------------------------------------------------------------------ adapter_config.json */

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

static charl_status check_config(const char *path, const json_t *config)
{
    static const char *const absent[] = {
        "use_dora",          "lora_bias",  "layer_replication", "trainable_token_indices",
        "target_parameters", "use_qalora", "use_bdlora",        "alora_invocation_tokens"};
    static const char *const shifting[] = {"pissa", "olora", "corda", "loftq",
                                           "lora_ga"}; /* they train on another base */
    const char *init = text_of(config, "init_lora_weights");

    CHARL_REQUIRE(strcmp(text_of(config, "peft_type"), "LORA") == 0, CHARL_ERR_CHECKPOINT,
                  "%s: its peft_type is \"%.40s\"; LORA is read", path, text_of(config, "peft_type"));
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        const json_t *v = json_object_get(config, absent[i]);

        CHARL_REQUIRE(!v || json_is_null(v) || json_is_false(v) ||
                          (json_is_array(v) ? json_array_size(v) == 0 : json_is_object(v) && json_object_size(v) == 0),
                      CHARL_ERR_CHECKPOINT, "%s: adapter_config.json sets %s, which is not supported", path, absent[i]);
    }
    for (size_t i = 0; i < sizeof shifting / sizeof *shifting; i++) {
        CHARL_REQUIRE(
            strncmp(init, shifting[i], strlen(shifting[i])) != 0, CHARL_ERR_CHECKPOINT,
            "%s: its adapters were initialized by %s, which changes the base; HINT in Python, "
            "save_pretrained(FOLDER, path_initial_model_for_weight_conversion=INITIAL) writes adapters of the "
            "base itself",
            path, init);
    }
    return CHARL_OK;
}

/* A number of `module`: that of the first key of KEY_pattern with which its name ends, else that of `key`. */
static charl_status number_of(const listing *l, const char *key, const char *pattern, const char *module, double *out)
{
    json_t *patterns = json_object_get(l->config, pattern), *v;
    const char *end;
    const json_t *found = json_object_get(l->config, key);
    const size_t length = strlen(module);

    json_object_foreach(patterns, end, v)
    {
        const size_t n = strlen(end);

        CHARL_REQUIRE(!strpbrk(end, "\\^$*+?()[]{}|"), CHARL_ERR_CHECKPOINT,
                      "%s: %s has the key \"%.80s\", a regular expression; names of modules are supported", l->p->path,
                      pattern, end);
        if (n <= length && strcmp(module + length - n, end) == 0 && (n == length || module[length - n - 1] == '.')) {
            found = v;
            break;
        }
    }
    *out = json_number_value(found);
    CHARL_REQUIRE(json_is_number(found) && *out > 0 && isfinite(*out), CHARL_ERR_CHECKPOINT,
                  "%s: adapter_config.json has no %s above 0 for %s", l->p->path, key, module);
    return CHARL_OK;
}

/* The base: as peft finds it, or beside the adapters. */
static charl_status open_base(charl__peft *p, const json_t *config)
{
    const char *name = text_of(config, "base_model_name_or_path");
    CHARL_SCOPED_FREE char *beside = NULL;
    const charl__kind *kind;

    CHARL_TRY(charl__commit_join(p->path, name[0] ? name : "base", &beside));
    name = access(name, F_OK) == 0 || access(beside, F_OK) != 0 ? name : beside;
    kind = access(name, F_OK) == 0 ? charl__kind_of(name) : NULL;
    CHARL_REQUIRE(kind, CHARL_ERR_CHECKPOINT,
                  "%s: the base of its adapters, \"%.200s\", is not here; HINT set base_model_name_or_path in its "
                  "adapter_config.json to the folder of the base",
                  p->path, name);
    CHARL_REQUIRE((kind->as & CHARL__KIND_WEIGHTS) && !(kind->as & CHARL__KIND_ADAPTER), CHARL_ERR_CHECKPOINT,
                  "%s: the base of its adapters, %s, is %s, not a published model", p->path, name, kind->name);
    return charl_tensor_file_open(name, &p->base);
}

static charl_status open_adapters(charl__peft *p)
{
    static const char *const names[] = {"adapter_model.safetensors", "adapter_model.bin"};
    CHARL_SCOPED_FREE char *file = NULL;

    for (int i = 0; i < 2; i++) {
        charl_free(file);
        file = NULL;
        CHARL_TRY(charl__commit_join(p->path, names[i], &file));
        if (access(file, F_OK) == 0) {
            return charl_tensor_file_open(file, &p->adapters);
        }
    }
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s has an adapter_config.json, and neither %s nor %s", p->path, names[0],
               names[1]);
}

/* ------------------------------------------------------------------ tensors */

static charl_status add(listing *l, const charl_tensor_file *file, const charl_checkpoint_tensor *t, const char *name)
{
    charl__peft *p = l->p;
    charl__tensor_file_entry e = {0};
    char *own = NULL;

    CHARL_TRY(charl__grow(p->n, sizeof *p->parts, &p->parts));
    CHARL_TRY(charl__grow(p->n, sizeof *l->entries, &l->entries));
    (void)charl__tensor_file_set_type(&e, charl__tensor_file_type(t));
    CHARL_TRY(charl__strdup(name, &own));
    e.tensor.name = own;
    e.tensor.shape = t->shape;
    p->parts[p->n] = (part){.file = file, .from = t};
    l->entries[p->n++] = e;
    return CHARL_OK;
}

/* The tensor called `name`, which the base may have without the first segment; -1: none. */
static int64_t find(const listing *l, const char *name)
{
    const char *dot = strchr(name, '.');
    int64_t found = -1;

    for (int64_t i = 0; i < l->p->n; i++) {
        const char *theirs = l->entries[i].tensor.name;

        if (strcmp(theirs, name) == 0) {
            return i;
        }
        found = dot && strcmp(theirs, dot + 1) == 0 ? i : found;
    }
    return found;
}

/* Add the adapters `module`NAMES to their weight. */
static charl_status add_adapters(listing *l, const char *module, const charl_checkpoint_tensor *down,
                                 const char *up_end, bool turned)
{
    const charl__peft *p = l->p;
    char name[NAME], a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT], w[CHARL_SHAPE_TEXT];
    const charl_checkpoint_tensor *up;
    double r, alpha;
    int64_t i;
    part *x;

    snprintf(name, sizeof name, "%s%s%s", root_name, module, up_end);
    up = charl_tensor_file_find(p->adapters, name);
    CHARL_REQUIRE(up, CHARL_ERR_CHECKPOINT, "%s: it has %s and no %s", p->path, down->name, name);
    snprintf(name, sizeof name, "%s.weight", module);
    i = find(l, name);
    CHARL_REQUIRE(i >= 0, CHARL_ERR_CHECKPOINT, "%s: the base of its adapters has no %s", p->path, name);
    CHARL_TRY(number_of(l, "r", "rank_pattern", module, &r));
    CHARL_TRY(number_of(l, "lora_alpha", "alpha_pattern", module, &alpha));
    x = &p->parts[i];
    CHARL_REQUIRE(!x->down, CHARL_ERR_CHECKPOINT, "%s: %s is adapted twice", p->path, name);
    *x = (part){x->file,
                x->from,
                down,
                up,
                json_is_true(json_object_get(l->config, "use_rslora")) ? alpha / sqrt(r) : alpha / r,
                turned};
    CHARL_REQUIRE(down->shape.ndim == 2 && up->shape.ndim == 2 && x->from->shape.ndim == 2 &&
                      (double)down->shape.dim[0] == r && up->shape.dim[1] == down->shape.dim[0] &&
                      x->from->shape.dim[!turned] == down->shape.dim[1] &&
                      x->from->shape.dim[turned] == up->shape.dim[0],
                  CHARL_ERR_CHECKPOINT, "%s: adapters %s and %s of rank %g do not fit %s, which is %s", p->path,
                  charl_shape_format(&down->shape, a), charl_shape_format(&up->shape, b), r, name,
                  charl_shape_format(&x->from->shape, w));
    (void)charl__tensor_file_set_type(&l->entries[i], "F32");
    return CHARL_OK;
}

/* Where the output layer of the base shares its embedding, peft trains a copy of the embedding alone. */
static charl_status check_shared(const listing *l, const char *name)
{
    static const char *const embeddings[] = {"embed_tokens", "wte", "embed_in"};
    const json_t *saved = json_object_get(l->config, "modules_to_save"), *v;
    const size_t length = strlen(name) - (charl__ends_in(name, ".weight") ? strlen(".weight") : 0);
    size_t i;

    json_array_foreach(saved, i, v)
    {
        const char *module = json_string_value(v) ? json_string_value(v) : "", *last = strrchr(module, '.');
        const size_t n = strlen(module);
        bool is_embedding = false;

        last = last ? last + 1 : module;
        for (size_t k = 0; k < sizeof embeddings / sizeof *embeddings; k++) {
            is_embedding = is_embedding || strcmp(last, embeddings[k]) == 0;
        }
        CHARL_REQUIRE(!is_embedding || n > length || strncmp(name + length - n, module, n) != 0 ||
                          find(l, "lm_head.weight") >= 0 || find(l, "embed_out.weight") >= 0 ||
                          json_is_true(json_object_get(l->config, "ensure_weight_tying")),
                      CHARL_ERR_CHECKPOINT,
                      "%s: its modules_to_save have the embedding %s, and the base has no lm_head.weight: where the "
                      "output layer shares the embedding, peft trains a copy that is not the output layer's, which is "
                      "not supported",
                      l->p->path, module);
    }
    return CHARL_OK;
}

/* A tensor that takes the place of the base's, or that the base does not have. */
static charl_status replace(listing *l, const charl_checkpoint_tensor *t, const char *name)
{
    static const char *const segments[] = {
        ".modules_to_save", ".base_layer"}; /* of names in newer versions; of an embedding that is adapted too */
    char plain[NAME / 2];
    int64_t i;

    snprintf(plain, sizeof plain, "%s", name);
    for (int k = 0; k < 2; k++) {
        char *at = strstr(plain, segments[k]);

        if (at) {
            memmove(at, at + strlen(segments[k]), strlen(at + strlen(segments[k])) + 1);
        }
    }
    CHARL_TRY(check_shared(l, plain));
    i = find(l, plain);
    if (i < 0) {
        return add(l, l->p->adapters, t, plain);
    }
    CHARL_REQUIRE(l->p->parts[i].file == l->p->base, CHARL_ERR_CHECKPOINT, "%s: %s is replaced twice", l->p->path,
                  plain);
    l->p->parts[i] = (part){.file = l->p->adapters, .from = t};
    (void)charl__tensor_file_set_type(&l->entries[i], charl__tensor_file_type(t));
    l->entries[i].tensor.shape = t->shape;
    return CHARL_OK;
}

/* Tensor t of the folder: of adapters with `adapts`, else one that takes the place of the base's. */
static charl_status list_one(listing *l, const charl_checkpoint_tensor *t, bool adapts)
{
    static const struct {
        const char *down, *up;
        bool embedding;
    } forms[] = {{".lora_A.weight", ".lora_B.weight", false}, {".lora_embedding_A", ".lora_embedding_B", true}};
    const bool turned = json_is_true(json_object_get(l->config, "fan_in_fan_out"));
    const char *path = l->p->path, *name = t->name + strlen(root_name);
    bool known = false;
    char module[NAME / 2];

    CHARL_REQUIRE(strncmp(t->name, root_name, strlen(root_name)) == 0 && strlen(t->name) < NAME / 2,
                  CHARL_ERR_CHECKPOINT, "%s: %.100s does not begin with %s, or is too long", path, t->name, root_name);
    for (int k = 0; k < 2; k++) {
        const bool down = charl__ends_in(name, forms[k].down);

        known = known || down || charl__ends_in(name, forms[k].up);
        if (!adapts || !down) {
            continue;
        }
        CHARL_REQUIRE(!forms[k].embedding || find(l, "lm_head.weight") >= 0 || find(l, "embed_out.weight") >= 0,
                      CHARL_ERR_CHECKPOINT,
                      "%s: %s adapts an embedding, and the base has no lm_head.weight: where the output layer shares "
                      "the embedding, peft does not adapt it there, which is not supported",
                      path, name);
        snprintf(module, sizeof module, "%.*s", (int)(strlen(name) - strlen(forms[k].down)), name);
        CHARL_TRY(add_adapters(l, module, t, forms[k].up, turned || forms[k].embedding));
    }
    CHARL_REQUIRE(known || !strstr(name, ".lora_"), CHARL_ERR_CHECKPOINT, "%s: %s is not supported", path, name);
    return known || adapts ? CHARL_OK : replace(l, t, name);
}

static charl_status list_all(listing *l)
{
    const charl__peft *p = l->p;
    const int64_t n = charl_tensor_file_get_count(p->adapters);

    for (int64_t i = 0; i < charl_tensor_file_get_count(p->base); i++) {
        const charl_checkpoint_tensor *t = charl_tensor_file_get(p->base, i);

        CHARL_TRY(add(l, p->base, t, t->name));
    }
    for (int64_t i = 0; i < 2 * n; i++) { /* what is replaced may be adapted then */
        CHARL_TRY(list_one(l, charl_tensor_file_get(p->adapters, i % n), i >= n));
    }
    return CHARL_OK;
}

charl_status charl__peft_open(const char *folder, charl__tensor_file_entry **entries, int64_t *n, charl__peft **out)
{
    charl_status st = CHARL_OK;
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    CHARL_SCOPED(json_left) json_t *config = NULL;
    CHARL_SCOPED_FREE char *file = NULL;
    listing l = {0};
    json_error_t error;

    *entries = NULL;
    *n = 0;
    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *l.p, &l.p));
    CHARL_TRY_CLEANUP(charl__strdup(folder, &l.p->path));
    CHARL_TRY_CLEANUP(charl__commit_join(folder, CHARL__PEFT_CONFIG, &file));
    CHARL_TRY_CLEANUP(charl__regular_read_all(file, MOST_CONFIG, &text));
    config = json_loadb(charl__text_string(&text), text.length, JSON_REJECT_DUPLICATES, &error);
    CHARL_REQUIRE_CLEANUP(json_is_object(config), CHARL_ERR_CHECKPOINT, "%s: is not a JSON object: %s at line %d", file,
                          config ? "another value" : error.text, config ? 1 : error.line);
    l.config = config;
    CHARL_TRY_CLEANUP(check_config(folder, config));
    CHARL_TRY_CLEANUP(open_adapters(l.p));
    CHARL_TRY_CLEANUP(open_base(l.p, config));
    CHARL_TRY_CLEANUP(list_all(&l));
    *entries = l.entries;
    *n = l.p->n;
    *out = l.p;
    l = (listing){0};
cleanup:
    charl__tensor_file_free(l.entries, l.p ? l.p->n : 0);
    charl__peft_close(l.p);
    return st;
}

/* ------------------------------------------------------------------ values */

static charl_status read_doubles(const charl__peft *p, const charl_tensor_file *file, const charl_checkpoint_tensor *t,
                                 double **out)
{
    const int64_t n = charl_shape_count(&t->shape);
    const bool f64 = strcmp(charl__tensor_file_type(t), "F64") == 0;
    CHARL_SCOPED_FREE double *v = NULL;
    CHARL_SCOPED_FREE char *raw = NULL;

    CHARL_REQUIRE(f64 || t->dtype == CHARL_F32 || t->dtype == CHARL_F16 || t->dtype == CHARL_BF16, CHARL_ERR_CHECKPOINT,
                  "%s: %s is %s; adapters and what they adapt are F32, F16, BF16 or F64", p->path, t->name,
                  charl__tensor_file_type(t));
    CHARL_TRY(charl__alloc_array(n + 1, sizeof *v, &v));
    CHARL_TRY(charl__alloc_array(n + 1, sizeof *v, &raw));
    CHARL_TRY(charl__tensor_file_read_raw(file, t, f64 ? (void *)v : raw));
    if (!f64) {
        charl_dtype_decode(t->dtype, raw, n, v);
    }
    *out = v;
    v = NULL;
    return CHARL_OK;
}

charl_status charl__peft_read(const charl__peft *p, int64_t i, void *dst)
{
    const part *x = &p->parts[i];
    CHARL_SCOPED_FREE double *w = NULL, *down = NULL, *up = NULL, *delta = NULL;
    float *out = dst;

    if (!x->down) {
        return charl__tensor_file_read_raw(x->file, x->from, dst);
    }
    CHARL_TRY(read_doubles(p, x->file, x->from, &w));
    CHARL_TRY(read_doubles(p, p->adapters, x->down, &down));
    CHARL_TRY(read_doubles(p, p->adapters, x->up, &up));
    {
        const int64_t rank = x->down->shape.dim[0], columns = x->down->shape.dim[1], rows = x->up->shape.dim[0];

        CHARL_TRY(charl__alloc_array(columns + 1, sizeof *delta, &delta));
        for (int64_t r = 0; r < rows; r++) {
            memset(delta, 0, (size_t)columns * sizeof *delta);
            for (int64_t k = 0; k < rank; k++) {
                for (int64_t c = 0; c < columns; c++) {
                    delta[c] += up[r * rank + k] * down[k * columns + c];
                }
            }
            for (int64_t c = 0; c < columns; c++) {
                const int64_t at = x->turned ? c * rows + r : r * columns + c;

                out[at] = (float)(w[at] + x->scale * delta[c]);
            }
        }
    }
    return CHARL_OK;
}

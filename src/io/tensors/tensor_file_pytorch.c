/* Weights that torch.save wrote: a pickle in which tensors name storages, and the storages.
 *
 * Since PyTorch 1.6 a zip archive of NAME/data.pkl and NAME/data/KEY; before, and with _use_new_zipfile_serialization=False, a file of
 * pickles (a magic number, a protocol, the writer's sizes, the object, the keys of the storages) and, in the order of the keys, an int64
 * count and the elements of each storage. Source: torch/serialization.py and torch/_utils.py of PyTorch 2.11.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/checkpoint/checkpoint_format.h"
#include "io/tensors/pickle.h"
#include "io/regular.h"
#include "io/tensors/tensor_file.h"
#include "io/tensors/zip.h"

enum { MOST_DEPTH = 100, MOST_VISITS = 1 << 22, MOST_TENSORS = 1 << 20, MOST_NAME = 1024, LEGACY_PROTOCOL = 1001 };

/* Classes of storages and types of elements, with their names in safetensors. */
static const struct {
    const char *storage, *dtype, *type;
} types[] = {{"torch FloatStorage", "torch float32", "F32"},
             {"torch HalfStorage", "torch float16", "F16"},
             {"torch BFloat16Storage", "torch bfloat16", "BF16"},
             {"torch DoubleStorage", "torch float64", "F64"},
             {"torch ByteStorage", "torch uint8", "U8"},
             {"torch CharStorage", "torch int8", "I8"},
             {"torch ShortStorage", "torch int16", "I16"},
             {"torch IntStorage", "torch int32", "I32"},
             {"torch LongStorage", "torch int64", "I64"},
             {"torch BoolStorage", "torch bool", "BOOL"},
             {"torch Float8_e4m3fnStorage", "torch float8_e4m3fn", "F8_E4M3"},
             {"torch Float8_e5m2Storage", "torch float8_e5m2", "F8_E5M2"},
             {"torch UInt16Storage", "torch uint16", "U16"},
             {"torch UInt32Storage", "torch uint32", "U32"},
             {"torch UInt64Storage", "torch uint64", "U64"}};

typedef const charl__pickle_value value;

typedef struct storage {
    const char *key; /* borrowed */
    const char *type;
    size_t width;
    int64_t n;     /* elements */
    int64_t begin; /* first byte in the file; -1: not found yet */
} storage;

typedef struct listing {
    const charl__tensor_file_source *s;
    storage *storages; /* [n_storages] by key */
    int64_t n_storages;
    charl__tensor_file_entry *entries;
    int64_t n;
    int64_t visits;
} listing;

/* ------------------------------------------------------------------ storages */

static int by_key(const void *a, const void *b)
{
    return strcmp(((const storage *)a)->key, ((const storage *)b)->key);
}

static storage *find_storage(const listing *l, const char *key)
{
    const storage wanted = {.key = key};

    return l->n_storages > 0 ? bsearch(&wanted, l->storages, (size_t)l->n_storages, sizeof wanted, by_key) : NULL;
}

/* The type in `entry` by the class of a storage or by a dtype; false: not known. */
static bool set_type(charl__tensor_file_entry *e, value *name)
{
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++) {
        if (charl__pickle_is(name, types[i].storage) || charl__pickle_is(name, types[i].dtype)) {
            return charl__tensor_file_set_type(e, types[i].type);
        }
    }
    return false;
}

/* ('storage', class, key, device, elements), with None or a view behind it in files of before PyTorch 0.4; NULL: it is something else. */
static value *storage_parts(value *v)
{
    value *parts = v->kind == CHARL__PICKLE_OUTSIDE ? v->args : NULL;

    return parts && parts->kind == CHARL__PICKLE_LIST && parts->n >= 5 && parts->item[0]->kind == CHARL__PICKLE_TEXT &&
                   strcmp(parts->item[0]->text, "storage") == 0 && parts->item[2]->kind == CHARL__PICKLE_TEXT &&
                   parts->item[4]->kind == CHARL__PICKLE_INT
               ? parts
               : NULL;
}

/* Every storage that the pickle names, by key. The elements of an UntypedStorage are bytes. */
static charl_status list_storages(listing *l, const charl__pickle *p)
{
    const char *path = l->s->path;

    for (int64_t i = 0; i < p->n; i++) {
        value *parts = storage_parts(p->all[i]);
        charl__tensor_file_entry e = {.type = "U8", .width = 1};

        if (!parts) {
            continue;
        }
        CHARL_REQUIRE(parts->item[4]->integer >= 0, CHARL_ERR_CHECKPOINT, "%s: a storage of %lld elements", path,
                      (long long)parts->item[4]->integer);
        CHARL_REQUIRE(parts->n == 5 || parts->item[5]->kind == CHARL__PICKLE_NONE, CHARL_ERR_CHECKPOINT,
                      "%s: was written by PyTorch before 0.4, with views of storages, which are not read; HINT in "
                      "Python, torch.save(torch.load(...), ...)",
                      path);
        if (!set_type(&e, parts->item[1]) && !charl__pickle_is(parts->item[1], "torch.storage UntypedStorage")) {
            e = (charl__tensor_file_entry){.type = "of an unknown kind", .width = 0};
        }
        CHARL_TRY(charl__grow(l->n_storages, sizeof *l->storages, &l->storages));
        l->storages[l->n_storages++] = (storage){parts->item[2]->text, e.type, e.width, parts->item[4]->integer, -1};
    }
    if (l->n_storages > 0) {
        int64_t kept = 1;

        qsort(l->storages, (size_t)l->n_storages, sizeof *l->storages, by_key);
        for (int64_t i = 1; i < l->n_storages; i++) {
            storage *before = &l->storages[kept - 1], *x = &l->storages[i];

            if (by_key(before, x) != 0) {
                l->storages[kept++] = *x;
                continue;
            }
            CHARL_REQUIRE(before->width == x->width && before->n == x->n, CHARL_ERR_CHECKPOINT,
                          "%s: storage %.80s has two sizes", path, x->key);
        }
        l->n_storages = kept;
    }
    return CHARL_OK;
}

/* ------------------------------------------------------------------ tensors */

static bool get_extents(value *v, int64_t *out, int *n)
{
    if (v->kind != CHARL__PICKLE_LIST || v->n > CHARL_MAX_DIMS) {
        return false;
    }
    *n = (int)v->n;
    for (int i = 0; i < *n; i++) {
        if (v->item[i]->kind != CHARL__PICKLE_INT || v->item[i]->integer < 0) {
            return false;
        }
        out[i] = v->item[i]->integer;
    }
    return true;
}

/* Whether v is what a function of torch._utils makes of *args; *inner: the tensor that it wraps, or NULL. */
static bool is_tensor(value *v, value **args, value **inner)
{
    value *made_by = v->callable;

    *args = v->args;
    *inner = NULL;
    if (v->kind != CHARL__PICKLE_CALL || !v->args) {
        return false;
    }
    for (int depth = 0; /* a hostile file may have one that holds itself */
         depth < MOST_DEPTH && charl__pickle_is(made_by, "torch._tensor _rebuild_from_type_v2") && (*args)->n >= 3 &&
         (*args)->item[0]->kind == CHARL__PICKLE_GLOBAL && (*args)->item[2]->kind == CHARL__PICKLE_LIST;
         depth++) {
        made_by = (*args)->item[0];
        *args = (*args)->item[2];
    }
    if (charl__pickle_is(made_by, "torch._utils _rebuild_parameter") ||
        charl__pickle_is(made_by, "torch._utils _rebuild_parameter_with_state")) {
        *inner = (*args)->n > 0 ? (*args)->item[0] : NULL;
        return true;
    }
    return made_by->kind == CHARL__PICKLE_GLOBAL && strncmp(made_by->text, "torch._utils _rebuild_", 22) == 0;
}

/* (storage, offset, shape, strides, ...[, dtype, ...]): what _rebuild_tensor, _v2 and _v3 are called with. */
static charl_status set_place(const listing *l, value *args, charl__tensor_file_entry *e)
{
    const char *path = l->s->path, *name = e->tensor.name;
    value *parts = args->n >= 4 ? storage_parts(args->item[0]) : NULL;
    const storage *from = parts ? find_storage(l, parts->item[2]->text) : NULL;
    charl_shape *shape = &e->tensor.shape;
    int64_t last = 0, expected = 1, bytes;
    int n_strides = 0;

    CHARL_REQUIRE(
        from && args->item[1]->kind == CHARL__PICKLE_INT && args->item[1]->integer >= 0 &&
            args->item[2]->kind == CHARL__PICKLE_LIST,
        CHARL_ERR_CHECKPOINT,
        "%s: %s is not a dense tensor (it may be sparse, quantized or on the meta device), and cannot be read", path,
        name);
    for (int64_t i = 6; i < args->n; i++) { /* metadata: _v2 has them at 6, _v3 at 7 */
        CHARL_REQUIRE(args->item[i]->kind != CHARL__PICKLE_DICT || args->item[i]->n == 0, CHARL_ERR_CHECKPOINT,
                      "%s: %s is a negated or conjugated view, which is not read; HINT in Python, save "
                      "tensor.resolve_neg() or tensor.resolve_conj()",
                      path, name);
    }
    CHARL_REQUIRE(get_extents(args->item[2], shape->dim, &shape->ndim) &&
                      get_extents(args->item[3], e->stride, &n_strides) && n_strides == shape->ndim,
                  CHARL_ERR_CHECKPOINT, "%s: %s has a damaged shape, or more than %d dimensions", path, name,
                  CHARL_MAX_DIMS);
    CHARL_REQUIRE(set_type(e, args->n >= 7 ? args->item[6] : NULL) || set_type(e, parts->item[1]), CHARL_ERR_CHECKPOINT,
                  "%s: %s has elements of a type that is not known", path, name);
    for (int i = shape->ndim - 1; i >= 0; i--) {
        int64_t reach;

        e->strided = e->strided || (shape->dim[i] > 1 && e->stride[i] != expected);
        CHARL_REQUIRE(!__builtin_mul_overflow(shape->dim[i] > 0 ? shape->dim[i] - 1 : 0, e->stride[i], &reach) &&
                          !__builtin_add_overflow(last, reach, &last) &&
                          !__builtin_mul_overflow(expected, shape->dim[i], &expected),
                      CHARL_ERR_CHECKPOINT, "%s: %s has an impossible shape", path, name);
    }
    bytes = expected == 0 ? 0 : last + 1;
    CHARL_REQUIRE(!__builtin_add_overflow(bytes, args->item[1]->integer, &last) &&
                      !__builtin_mul_overflow(last, (int64_t)e->width, &last) &&
                      !__builtin_mul_overflow(expected, (int64_t)e->width, &expected) &&
                      (bytes == 0 || last <= from->n * (int64_t)from->width),
                  CHARL_ERR_CHECKPOINT, "%s: %s reaches beyond its storage", path, name);
    e->strided = e->strided && bytes > 0;
    e->begin = from->begin + (bytes > 0 ? args->item[1]->integer * (int64_t)e->width : 0);
    e->end = e->begin + bytes * (int64_t)e->width;
    return CHARL_OK;
}

/* The tensor `v`, called `name`. */
static charl_status add_tensor(listing *l, value *v, const char *name)
{
    value *args = NULL, *inner = NULL;
    char *own = NULL;

    for (int depth = 0; is_tensor(v, &args, &inner) && inner; v = inner) {
        CHARL_REQUIRE(depth++ < MOST_DEPTH, CHARL_ERR_CHECKPOINT, "%s: %s is wrapped without end", l->s->path, name);
    }
    CHARL_REQUIRE(is_tensor(v, &args, &inner) && args->kind == CHARL__PICKLE_LIST, CHARL_ERR_CHECKPOINT,
                  "%s: %s is not a tensor that can be read", l->s->path, name);
    CHARL_REQUIRE(strlen(name) <= MOST_NAME, CHARL_ERR_CHECKPOINT,
                  "%s: a tensor whose name has more than %d bytes: %.80s...", l->s->path, MOST_NAME, name);
    CHARL_REQUIRE(l->n < MOST_TENSORS, CHARL_ERR_CHECKPOINT, "%s: holds more than %d tensors", l->s->path,
                  MOST_TENSORS);
    CHARL_TRY(charl__grow(l->n, sizeof *l->entries, &l->entries));
    CHARL_TRY(charl__strdup(name, &own));
    l->entries[l->n++] = (charl__tensor_file_entry){.tensor.name = own};
    return set_place(l, args, &l->entries[l->n - 1]);
}

static bool holds_tensors(value *v)
{
    value *args, *inner;

    for (int64_t i = 1; (v->kind == CHARL__PICKLE_DICT || v->kind == CHARL__PICKLE_CALL) && i < v->n; i += 2) {
        if (is_tensor(v->item[i], &args, &inner)) {
            return true;
        }
    }
    return false;
}

static charl_status visit(listing *l, value *v, const charl__text *prefix, int depth);

/* What is called `key` in an object whose name is `prefix`; "" is the object itself. Of a key that is too long for a name, the beginning. */
static charl_status visit_named(listing *l, value *v, const charl__text *prefix, const char *key, int depth)
{
    CHARL_SCOPED(charl__text_fini) charl__text name = {0};

    CHARL_TRY(charl__text_printf(&name, "%s%s%.*s", charl__text_string(prefix), prefix->length > 0 && key[0] ? "." : "",
                                 MOST_NAME + 1, key));
    return visit(l, v, &name, depth);
}

static charl_status visit_pair(listing *l, value *k, value *v, const charl__text *prefix, int depth)
{
    static const char *const transparent[] = {"_parameters", "_buffers", "_modules"}; /* of a torch.nn.Module */
    char number[24];
    const char *key = number;

    snprintf(number, sizeof number, "%lld", (long long)k->integer);
    if (k->kind == CHARL__PICKLE_TEXT) {
        CHARL_REQUIRE((int64_t)strlen(k->text) == k->bytes, CHARL_ERR_CHECKPOINT, "%s: a name with a NUL byte",
                      l->s->path);
        key = k->text;
    } else if (k->kind != CHARL__PICKLE_INT) {
        return CHARL_OK;
    }
    for (size_t t = 0; t < sizeof transparent / sizeof *transparent; t++) {
        key = strcmp(key, transparent[t]) == 0 ? "" : key;
    }
    return visit_named(l, v, prefix, key, depth);
}

static charl_status visit_pairs(listing *l, value *v, const charl__text *prefix, int depth)
{
    for (int64_t i = 0; i + 1 < v->n; i += 2) {
        CHARL_TRY(visit_pair(l, v->item[i], v->item[i + 1], prefix, depth));
    }
    return CHARL_OK;
}

/* OrderedDict([[key, value], ...]), as Python 2 wrote it. */
static charl_status visit_ordered(listing *l, value *v, const charl__text *prefix, int depth)
{
    value *list = charl__pickle_is(v->callable, "collections OrderedDict") && v->args->n == 1 ? v->args->item[0] : NULL;

    for (int64_t i = 0; list && list->kind == CHARL__PICKLE_LIST && i < list->n; i++) {
        value *pair = list->item[i];

        if (pair->kind == CHARL__PICKLE_LIST && pair->n == 2) {
            CHARL_TRY(visit_pair(l, pair->item[0], pair->item[1], prefix, depth));
        }
    }
    return CHARL_OK;
}

static charl_status visit(listing *l, value *v, const charl__text *prefix, int depth)
{
    value *args, *inner;
    char number[24];

    CHARL_REQUIRE(l->visits++ < MOST_VISITS, CHARL_ERR_CHECKPOINT, "%s: holds more than %d values", l->s->path,
                  MOST_VISITS);
    if (depth > MOST_DEPTH) { /* an object that holds itself */
        return CHARL_OK;
    }
    if (is_tensor(v, &args, &inner)) {
        return add_tensor(l, v, charl__text_string(prefix));
    }
    if (v->kind == CHARL__PICKLE_DICT || v->kind == CHARL__PICKLE_CALL) {
        CHARL_TRY(visit_pairs(l, v, prefix, depth + 1));
    }
    if (v->kind == CHARL__PICKLE_CALL) {
        CHARL_TRY(visit_ordered(l, v, prefix, depth + 1));
    }
    if (v->kind == CHARL__PICKLE_CALL && v->state && v->state->kind == CHARL__PICKLE_DICT) {
        CHARL_TRY(visit_pairs(l, v->state, prefix, depth + 1));
    }
    for (int64_t i = 0; v->kind == CHARL__PICKLE_LIST && i < v->n; i++) {
        snprintf(number, sizeof number, "%lld", (long long)i);
        CHARL_TRY(visit_named(l, v->item[i], prefix, number, depth + 1));
    }
    return CHARL_OK;
}

/* The weights in what was saved: the object itself if it maps names to tensors; else, of a training's checkpoint, what a usual name says is
 * the model; else the whole. */
static value *choose_model(value *root)
{
    static const char *const usual[] = {"state_dict", "model_state_dict", "model", "module", "net", "weights"};

    for (size_t u = 0; !holds_tensors(root) && u < sizeof usual / sizeof *usual; u++) {
        for (int64_t i = 0; root->kind == CHARL__PICKLE_DICT && i + 1 < root->n; i += 2) {
            value *k = root->item[i], *v = root->item[i + 1];

            if (k->kind == CHARL__PICKLE_TEXT && strcmp(k->text, usual[u]) == 0 &&
                (v->kind == CHARL__PICKLE_DICT || v->kind == CHARL__PICKLE_CALL)) {
                return v;
            }
        }
    }
    return root;
}

static charl_status list_tensors(listing *l, value *root)
{
    const charl__text none = {0};

    CHARL_TRY(visit(l, choose_model(root), &none, 0));
    CHARL_REQUIRE(l->n > 0, CHARL_ERR_CHECKPOINT, "%s: holds no tensors", l->s->path);
    return CHARL_OK;
}

/* ------------------------------------------------------------------ a zip archive */

static int by_member(const void *a, const void *b)
{
    return strcmp(((const charl__zip_member *)a)->name, ((const charl__zip_member *)b)->name);
}

/* The member called `prefix` + `name`; NULL: none. */
static const charl__zip_member *find_member(const charl__zip_member *m, int64_t n, const char *prefix, const char *name)
{
    charl__zip_member wanted = {.name = ""};

    return snprintf(wanted.name, sizeof wanted.name, "%s%s", prefix, name) < (int)sizeof wanted.name
               ? bsearch(&wanted, m, (size_t)n, sizeof wanted, by_member)
               : NULL;
}

static charl_status check_stored(const char *path, const charl__zip_member *m)
{
    CHARL_REQUIRE(!m->deflated, CHARL_ERR_CHECKPOINT,
                  "%s: %s is compressed, as torch.save never does; HINT unpack the archive and zip it again with -0",
                  path, m->name);
    return CHARL_OK;
}

static charl_status read_archive(listing *l, charl__pickle *p)
{
    const charl__tensor_file_source *s = l->s;
    CHARL_SCOPED_FREE charl__zip_member *members = NULL;
    const charl__zip_member *m = NULL;
    char prefix[sizeof m->name + sizeof "data/"] = "", order[8] = "";
    int64_t n = 0, at;

    CHARL_TRY(charl__zip_list(s->path, CHARL_ERR_CHECKPOINT, &members, &n));
    qsort(members, (size_t)n, sizeof *members, by_member);
    for (int64_t i = 0; !m && i < n; i++) {
        m = charl__ends_in(members[i].name, "data.pkl") ? &members[i] : NULL;
    }
    CHARL_REQUIRE(m, CHARL_ERR_CHECKPOINT, "%s: has no data.pkl: torch.save did not write it", s->path);
    CHARL_TRY(check_stored(s->path, m));
    snprintf(prefix, sizeof prefix, "%.*s", (int)(strlen(m->name) - strlen("data.pkl")), m->name);
    at = m->begin;
    CHARL_TRY(charl__pickle_read(s->path, s->fd, &at, m->begin + m->bytes, p));
    m = find_member(members, n, prefix, "byteorder");
    if (m && m->bytes < (int64_t)sizeof order) {
        CHARL_REQUIRE(charl__regular_read(s->fd, order, m->bytes, m->begin) == m->bytes && strcmp(order, "big") != 0,
                      CHARL_ERR_CHECKPOINT, "%s: was written on a big-endian machine, which is not read", s->path);
    }
    CHARL_TRY(list_storages(l, p));
    snprintf(prefix + strlen(prefix), sizeof prefix - strlen(prefix), "data/");
    for (int64_t i = 0; i < l->n_storages; i++) {
        storage *x = &l->storages[i];

        m = find_member(members, n, prefix, x->key);
        CHARL_REQUIRE(m && (x->n == 0 || m->bytes / (int64_t)(x->width ? x->width : 1) >= x->n), CHARL_ERR_CHECKPOINT,
                      "%s: storage %.80s is missing or too short: the file is damaged", s->path, x->key);
        CHARL_TRY(check_stored(s->path, m));
        x->begin = m->begin;
    }
    return CHARL_OK;
}

/* ------------------------------------------------------------------ pickles and storages in a row */

/* torch.save begins with an integer of 77 bits. */
static charl_status skip_magic(const listing *l, int64_t *at)
{
    CHARL_SCOPED(charl__pickle_fini) charl__pickle p = {0};

    CHARL_TRY(charl__pickle_read(l->s->path, l->s->fd, at, l->s->bytes, &p));
    CHARL_REQUIRE(p.root->kind == CHARL__PICKLE_OTHER, CHARL_ERR_CHECKPOINT,
                  "%s: is a pickle, but torch.save did not write it", l->s->path);
    return CHARL_OK;
}

/* The writer's protocol and byte order, which follow the magic number. */
static charl_status read_writer(const listing *l, int64_t *at)
{
    const charl__tensor_file_source *s = l->s;
    CHARL_SCOPED(charl__pickle_fini) charl__pickle protocol = {0}, writer = {0};

    CHARL_TRY(charl__pickle_read(s->path, s->fd, at, s->bytes, &protocol));
    CHARL_REQUIRE(protocol.root->kind == CHARL__PICKLE_INT && protocol.root->integer == LEGACY_PROTOCOL,
                  CHARL_ERR_CHECKPOINT, "%s: was not written by torch.save, or in an unknown form", s->path);
    CHARL_TRY(charl__pickle_read(s->path, s->fd, at, s->bytes, &writer));
    for (int64_t i = 0; i + 1 < writer.root->n; i += 2) {
        value *k = writer.root->item[i];

        CHARL_REQUIRE(k->kind != CHARL__PICKLE_TEXT || strcmp(k->text, "little_endian") != 0 ||
                          writer.root->item[i + 1]->integer == 1,
                      CHARL_ERR_CHECKPOINT, "%s: was written on a big-endian machine, which is not read", s->path);
    }
    return CHARL_OK;
}

static charl_status read_row(listing *l, charl__pickle *p)
{
    const charl__tensor_file_source *s = l->s;
    CHARL_SCOPED(charl__pickle_fini) charl__pickle keys = {0};
    int64_t at = 0;

    CHARL_TRY(skip_magic(l, &at));
    CHARL_TRY(read_writer(l, &at));
    CHARL_TRY(charl__pickle_read(s->path, s->fd, &at, s->bytes, p));
    CHARL_TRY(list_storages(l, p));
    CHARL_TRY(charl__pickle_read(s->path, s->fd, &at, s->bytes, &keys));
    for (int64_t i = 0; i < keys.root->n; i++) {
        value *key = keys.root->item[i];
        storage *x = keys.root->kind == CHARL__PICKLE_LIST && key->kind == CHARL__PICKLE_TEXT
                         ? find_storage(l, key->text)
                         : NULL;
        int64_t n = 0;

        CHARL_REQUIRE(x, CHARL_ERR_CHECKPOINT, "%s: a storage that is not known: the file is damaged", s->path);
        CHARL_REQUIRE(x->width > 0, CHARL_ERR_CHECKPOINT, "%s: storage %.80s has elements of a type that is not known",
                      s->path, x->key);
        CHARL_REQUIRE(
            charl__regular_read(s->fd, &n, 8, at) == 8 && n == x->n && n <= (s->bytes - at - 8) / (int64_t)x->width,
            CHARL_ERR_CHECKPOINT, "%s: storage %.80s is missing or too short: the file is damaged", s->path, x->key);
        x->begin = at + 8;
        at = x->begin + n * (int64_t)x->width;
    }
    for (int64_t i = 0; i < l->n_storages; i++) {
        CHARL_REQUIRE(l->storages[i].begin >= 0, CHARL_ERR_CHECKPOINT,
                      "%s: storage %.80s is missing: the file is damaged", s->path, l->storages[i].key);
    }
    return CHARL_OK;
}

charl_status charl__tensor_file_pytorch(const charl__tensor_file_source *s, charl__tensor_file_entry **entries,
                                        int64_t *n, charl_data_schema **schema)
{
    charl_status st = CHARL_OK;
    listing l = {.s = s};
    charl__pickle p = {0};
    char head[2] = "";

    *schema = NULL;
    *entries = NULL;
    *n = 0;
    CHARL_REQUIRE_CLEANUP(charl__regular_read(s->fd, head, 2, 0) == 2, CHARL_ERR_CHECKPOINT, "%s: cannot be read",
                          s->path);
    CHARL_TRY_CLEANUP(head[0] == 'P' ? read_archive(&l, &p) : read_row(&l, &p));
    CHARL_TRY_CLEANUP(list_tensors(&l, p.root));
    *entries = l.entries;
    *n = l.n;
    l.entries = NULL;
cleanup:
    charl__tensor_file_free(l.entries, l.n);
    charl_free(l.storages);
    charl__pickle_fini(&p);
    return st;
}

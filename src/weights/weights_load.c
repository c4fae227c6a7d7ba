/* Loading weights: the file's tensors are first matched with parameters completely, then read.
 *
 *      names in the file    without the segments that wrappers add, then renamed
 *      layout               the first whose marker exists: its rules say which tensors form a parameter
 *      fit                  every parameter has its tensors, with their shapes, and every tensor belongs to a parameter
 *      read                 each tensor once, as f32; transposed and stacked by the rule
 */
#include "weights/weights_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/tensors/safetensors.h"
#include "io/tensors/tensor_file.h"
#include "nn/layer.h"
#include "nn/model_internal.h"
#include "nn/weights_layout.h"
#include "weights/weights_names.h"
#include "weights/weights_source.h"
#include "tensor/params.h"

enum { LISTED = 1400, HINTS = 4 }; /* bytes of lines in a message; patterns in a hint */

static const char mean_suffix[] = ".running_mean", batches_suffix[] = ".num_batches_tracked";

/* Segments added by torch.compile, FullyShardedDataParallel and activation checkpointing, anywhere; by DistributedDataParallel, in front. */
static const char *const wrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "module."};

typedef struct tensor {
    const charl_checkpoint_tensor *t;
    char *name; /* without wrappers, renamed */
    bool used;
} tensor;

/* A tensor by the name under which it is looked up. */
typedef struct named {
    const char *name;
    tensor *tensor;
} named;

/* A parameter and its tensors. */
typedef struct target {
    charl_param *p;
    const charl__weights_rule *rule; /* NULL: one tensor, as it is */
    tensor *part[CHARL__WEIGHTS_PARTS];
    int n_parts;
    bool fits;
} target;

typedef struct load {
    charl_params *set;
    const charl_params_load_options *o;
    const charl__weights_words *words;
    charl__weights_source source;
    charl__weights_names skips, renames;
    const charl__weights_layout *layout; /* or NULL */
    const void *settings;                /* of the type of the model */
    tensor *tensors;
    int64_t n;
    named *sorted; /* [n] by their names in the layout, once that is known; NULL before */
    target *targets;
    charl_params_report *r;
    charl__text *text;
    charl__text hints; /* patterns that would skip what does not fit */
    int n_hints;
    int64_t vocab;  /* rows of an embedding in the file if the model has another number; 0: none */
    bool rounds;    /* the report says that F64 is rounded */
    int64_t window; /* positions in the file, if the model has more; 0: none */
} load;

/* Whether `name`, of which `front` is the beginning, begins with a wrapper's segment; its length, or 0. */
static size_t wrapper_at(const char *name, bool front)
{
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++) {
        const size_t n = strlen(wrappers[i]);

        if (strncmp(name, wrappers[i], n) == 0 && (front || wrappers[i][0] == '_')) {
            return n;
        }
    }
    return 0;
}

static charl_status unwrap(const char *name, charl__text *out)
{
    size_t n;

    charl__text_clear(out);
    while (*name) {
        while ((n = wrapper_at(name, out->length == 0)) > 0) {
            name += n;
        }
        n = strcspn(name, ".");
        n += name[n] == '.';
        CHARL_TRY(charl__text_append(out, name, n));
        name += n;
    }
    return CHARL_OK;
}

static charl_status list_tensors(load *l)
{
    const int64_t n = charl__weights_source_count(&l->source);
    CHARL_SCOPED(charl__text_fini) charl__text name = {0};

    CHARL_TRY(charl__alloc_array(n + 1, sizeof *l->tensors, &l->tensors));
    for (int64_t i = 0; i < n; i++) {
        const charl_checkpoint_tensor *t = charl__weights_source_get(&l->source, i);

        if (t) {
            l->tensors[l->n].t = t;
            CHARL_TRY(unwrap(t->name, &name));
            CHARL_TRY(charl__weights_rename(&l->renames, charl__text_string(&name), &l->tensors[l->n].name));
            l->n++;
        }
    }
    return CHARL_OK;
}

/* The layout's prefix may be missing in the file; charl's names never have it. */
static const char *bare(const load *l, const char *name)
{
    return l->layout ? charl__layout_strip(l->layout, name) : name;
}

static int by_name(const void *a, const void *b)
{
    const named *x = a, *y = b;
    const int order = strcmp(x->name, y->name);

    return order ? order : (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static charl_status sort_names(load *l)
{
    CHARL_TRY(charl__alloc_array(l->n, sizeof *l->sorted, &l->sorted));
    for (int64_t i = 0; i < l->n; i++) {
        l->sorted[i] = (named){bare(l, l->tensors[i].name), &l->tensors[i]};
    }
    qsort(l->sorted, (size_t)l->n, sizeof *l->sorted, by_name);
    return CHARL_OK;
}

/* The first of several. */
static tensor *find(const load *l, const char *name)
{
    const char *wanted = bare(l, name);
    int64_t lo = 0, hi = l->n;

    if (!l->sorted) {
        for (int64_t i = 0; i < l->n; i++) {
            if (strcmp(bare(l, l->tensors[i].name), wanted) == 0) {
                return &l->tensors[i];
            }
        }
        return NULL;
    }
    while (lo < hi) {
        const int64_t middle = lo + (hi - lo) / 2;

        if (strcmp(l->sorted[middle].name, wanted) < 0) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return lo < l->n && strcmp(l->sorted[lo].name, wanted) == 0 ? l->sorted[lo].tensor : NULL;
}

/* Whether the file has this layout, which becomes the one by which names are looked up. */
static bool has_layout(load *l, const charl__weights_layout *layout, const charl_model_type *model)
{
    const tensor *marker;

    l->layout = layout;
    marker = layout->model == model ? find(l, layout->marker) : NULL;
    return marker && (!layout->recognizes || layout->recognizes(&marker->t->shape));
}

/* The layout of the model's family, if the file has it; else the first that the file has. */
static void recognize(load *l)
{
    const charl_model_type *model = charl__model_get_type(l->o->model, &l->settings);
    const charl__weights_layout *layout = model ? charl__layout_chosen(model, l->settings) : NULL;
    bool found = layout && has_layout(l, layout, model);

    for (int i = 0; model && !found && (layout = charl__layout_at(i)) != NULL; i++) {
        found = has_layout(l, layout, model);
    }
    l->layout = found ? l->layout : NULL;
    l->r->layout = found ? l->layout->row.name : NULL;
}

/* "fc2.*" for fc2.weight, once, among the patterns that the message suggests. */
static charl_status suggest(load *l, const char *name)
{
    const char *dot = strrchr(name, '.');
    const int length = dot ? (int)(dot - name) : (int)strlen(name);
    char pattern[CHARL__LAYOUT_NAME];

    snprintf(pattern, sizeof pattern, "%.*s%s", length, name, dot ? ".*" : "");
    if (l->n_hints > HINTS || strstr(charl__text_string(&l->hints), pattern)) {
        return CHARL_OK;
    }
    l->n_hints++;
    return charl__text_printf(&l->hints, "%s%s", l->hints.length ? ", " : "", pattern);
}

/* Layer i shares a weight: its own name for it, and the parameter's. */
static bool tie_names(const load *l, int i, char own[CHARL__LAYOUT_NAME], char shared[CHARL__LAYOUT_NAME])
{
    const char *tie = charl__model_get_tie(l->o->model, i);

    return tie &&
           snprintf(own, CHARL__LAYOUT_NAME, "%s.weight", charl_model_get_layer_name(l->o->model, i)) <
               CHARL__LAYOUT_NAME &&
           snprintf(shared, CHARL__LAYOUT_NAME, "%s.weight", tie) < CHARL__LAYOUT_NAME;
}

/* The name in the file of a weight with a single part. */
static bool their_name(const load *l, const char *own, char name[CHARL__LAYOUT_NAME])
{
    int64_t block;
    const charl__weights_rule *rule = l->layout ? charl__layout_rule(l->layout, own, &block) : NULL;

    return charl__layout_expand(rule ? rule->theirs[0] : own, rule ? block : -1, name);
}

/* The tensor of a shared weight that the file stores only under the other layer's name. */
static tensor *find_tied(const load *l, const char *name)
{
    char own[CHARL__LAYOUT_NAME], shared[CHARL__LAYOUT_NAME], theirs[CHARL__LAYOUT_NAME];

    for (int i = 0; l->o->model && i < charl_model_get_count(l->o->model); i++) {
        if (tie_names(l, i, own, shared) && strcmp(shared, name) == 0 && their_name(l, own, theirs)) {
            return find(l, theirs);
        }
    }
    return NULL;
}

static charl_status missing(load *l, target *t, const char *theirs)
{
    const char *name = charl_param_get_spec(t->p)->name;

    t->fits = false;
    CHARL_TRY(strcmp(bare(l, theirs), name) == 0 ? charl__text_printf(l->text, "missing: %s\n", name)
                                                 : charl__text_printf(l->text, "missing: %s (%s)\n", theirs, name));
    return suggest(l, name);
}

static charl_status check_part(load *l, target *t, const tensor *x, const charl_shape *want)
{
    const charl_param_spec *spec = charl_param_get_spec(t->p);
    const charl_shape *have = &x->t->shape;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];
    charl_shape first = *have;
    const bool first_rows = t->rule && t->rule->first_rows && have->ndim > 0;

    if (charl__weights_is_f64(x->t)) {
        CHARL_TRY(l->rounds ? CHARL_OK
                            : charl__text_printf(l->text, "F64, as that of %s, is rounded to f32\n", x->name));
        l->rounds = true;
    } else if (x->t->dtype != CHARL_F32 && x->t->dtype != CHARL_F16 && x->t->dtype != CHARL_BF16) {
        t->fits = false;
        CHARL_TRY(charl__text_printf(l->text, "misshapen: %s is %s; weights are f32, f16, bf16 or f64\n", x->name,
                                     x->t->dtype < CHARL_DTYPE_COUNT ? charl_dtype_name(x->t->dtype)
                                                                     : charl__tensor_file_type(x->t)));
        return suggest(l, spec->name);
    }
    if (first_rows && first.dim[0] > want->dim[0]) {
        first.dim[0] = want->dim[0];
        if (charl_shape_equal(&first, want)) {
            return charl__text_printf(l->text, "%s: the first %" PRId64 " of %" PRId64 " rows\n", spec->name,
                                      want->dim[0], have->dim[0]);
        }
    }
    if (!charl_shape_equal(have, want)) {
        t->fits = false;
        if (spec->embedding && have->ndim == 2 && want->ndim == 2 && have->dim[1] == want->dim[1] &&
            have->dim[0] > want->dim[0]) {
            l->vocab = have->dim[0];
        }
        CHARL_TRY(charl__text_printf(l->text, "misshapen: %s is %s in the file, %s in the model", x->name,
                                     charl_shape_format(have, a), charl_shape_format(want, b)));
        if (first_rows && have->dim[0] < want->dim[0]) {
            l->window = have->dim[0];
            CHARL_TRY(charl__text_printf(l->text, "; the longest window is %" PRId64, have->dim[0]));
        }
        CHARL_TRY(charl__text_printf(l->text, "\n"));
        return suggest(l, spec->name);
    }
    return CHARL_OK;
}

/* The adapted weights come without adapters (charl_lora), which then keep their values. */
static bool is_own_adapter(load *l, const char *name)
{
    return charl__is_adapter(name) && !find(l, name);
}

static charl_status match(load *l, target *t)
{
    const charl_param_spec *spec = charl_param_get_spec(t->p);
    int64_t block = -1;
    int lacking = 0;

    if (is_own_adapter(l, spec->name)) {
        return CHARL_OK;
    }
    t->rule = l->layout ? charl__layout_rule(l->layout, spec->name, &block) : NULL;
    t->n_parts = t->rule ? charl__layout_parts(t->rule) : 1;
    t->fits = true;
    for (int k = 0; k < t->n_parts; k++) {
        const charl_shape want =
            t->rule ? charl__layout_part_shape(t->rule, l->settings, &spec->shape, k) : spec->shape;
        char theirs[CHARL__LAYOUT_NAME];

        CHARL_REQUIRE(charl__layout_expand(t->rule ? t->rule->theirs[k] : spec->name, block, theirs),
                      CHARL_ERR_CHECKPOINT, "the name of %.100s is too long", spec->name);
        t->part[k] = find(l, theirs);
        if (!t->part[k] && t->n_parts == 1) {
            t->part[k] = find_tied(l, spec->name);
        }
        if (t->part[k]) {
            t->part[k]->used = true;
            CHARL_TRY(check_part(l, t, t->part[k], &want));
        } else {
            lacking++;
            CHARL_TRY(missing(l, t, theirs));
        }
    }
    l->r->missing += lacking > 0;
    l->r->misshapen += !t->fits && lacking == 0;
    return CHARL_OK;
}

/* A tensor that PyTorch stores under two names must be the same under both. */
static charl_status same_tensor(const load *l, const tensor *a, const tensor *b, bool *same)
{
    const int64_t n = charl_shape_count(&a->t->shape);
    CHARL_SCOPED_FREE float *x = NULL, *y = NULL;

    *same = a->t->dtype == b->t->dtype && (a->t->dtype < CHARL_DTYPE_COUNT || charl__weights_is_f64(a->t)) &&
            charl_shape_equal(&a->t->shape, &b->t->shape);
    if (*same) {
        CHARL_TRY(charl__alloc_array(n + 1, sizeof *x, &x));
        CHARL_TRY(charl__alloc_array(n + 1, sizeof *y, &y));
        CHARL_TRY(charl__weights_source_read(&l->source, a->t, x));
        CHARL_TRY(charl__weights_source_read(&l->source, b->t, y));
        *same = memcmp(x, y, (size_t)n * sizeof *x) == 0;
    }
    return CHARL_OK;
}

/* Whether a tensor that belongs to no parameter is a copy of a weight that layers share. */
static charl_status check_copy(load *l, tensor *x, bool *is_copy)
{
    char own[CHARL__LAYOUT_NAME], shared[CHARL__LAYOUT_NAME], theirs[CHARL__LAYOUT_NAME];
    const tensor *other;
    bool same = false;

    *is_copy = false;
    for (int i = 0; l->o->model && i < charl_model_get_count(l->o->model); i++) {
        if (!tie_names(l, i, own, shared) || !their_name(l, own, theirs) || find(l, theirs) != x ||
            !their_name(l, shared, theirs) || (other = find(l, theirs)) == NULL) {
            continue;
        }
        *is_copy = true;
        if (charl__weights_skipped(&l->skips, shared)) {
            return CHARL_OK;
        }
        CHARL_TRY(same_tensor(l, x, other, &same));
        if (!same) {
            l->r->misshapen++;
            CHARL_TRY(charl__text_printf(l->text,
                                         "misshapen: %s is not equal to %s, but the model has one weight for both\n",
                                         x->name, other->name));
            CHARL_TRY(suggest(l, x->name));
        }
        return CHARL_OK;
    }
    return CHARL_OK;
}

/* PyTorch's batch norms count batches; charl uses the number of steps. */
static bool is_count(const load *l, const char *name)
{
    char mean[CHARL__LAYOUT_NAME];
    const int layer = (int)(strlen(name) - strlen(batches_suffix));

    return charl__ends_in(name, batches_suffix) &&
           snprintf(mean, sizeof mean, "%.*s%s", layer, name, mean_suffix) < CHARL__LAYOUT_NAME &&
           charl_params_find(l->set, mean);
}

static charl_status check_surplus(load *l, tensor *x)
{
    const char *name = bare(l, x->name);
    bool copy = false;

    if (charl__weights_skipped(&l->skips, x->name) || is_count(l, name)) {
        return CHARL_OK;
    }
    for (int i = 0; l->layout && l->layout->ignored && l->layout->ignored[i]; i++) {
        if (charl__text_matches(l->layout->ignored[i], name)) {
            return CHARL_OK;
        }
    }
    CHARL_TRY(check_copy(l, x, &copy));
    if (copy) {
        return CHARL_OK;
    }
    l->r->extra++;
    CHARL_TRY(charl__text_printf(l->text, "extra: %s\n", x->name));
    return suggest(l, x->name);
}

/* The tensors of a skipped parameter belong to no other. */
static void leave_out(load *l, const char *name)
{
    int64_t block = -1;
    const charl__weights_rule *rule = l->layout ? charl__layout_rule(l->layout, name, &block) : NULL;
    char theirs[CHARL__LAYOUT_NAME];

    for (int k = 0; k < (rule ? charl__layout_parts(rule) : 1); k++) {
        tensor *x = charl__layout_expand(rule ? rule->theirs[k] : name, block, theirs) ? find(l, theirs) : NULL;

        if (x) {
            x->used = true;
        }
    }
}

static charl_status plan(load *l)
{
    const int count = charl_params_get_count(l->set);

    CHARL_TRY(charl__alloc_array(count + 1, sizeof *l->targets, &l->targets));
    for (int i = 0; i < count; i++) {
        target *t = &l->targets[i];
        const char *name;

        t->p = charl_params_get(l->set, i);
        name = charl_param_get_spec(t->p)->name;
        if (charl__weights_skipped(&l->skips, name)) {
            l->r->skipped++;
            CHARL_TRY(charl__text_printf(l->text, "skipped: %s\n", name));
            leave_out(l, name);
        } else {
            CHARL_TRY(match(l, t));
        }
    }
    for (int64_t i = 0; i < l->n; i++) {
        if (!l->tensors[i].used) {
            CHARL_TRY(check_surplus(l, &l->tensors[i]));
        }
    }
    CHARL_TRY(charl__weights_names_check(&l->skips, l->source.path));
    CHARL_TRY(charl__weights_names_check(&l->renames, l->source.path));
    return CHARL_OK;
}

/* Length of `name` without `rest` at its end, if a dot precedes that; 0: it does not end so. */
static int prefix_of(const char *name, const char *rest)
{
    const size_t n = strlen(name), m = strlen(rest);

    return n > m && name[n - m - 1] == '.' && strcmp(name + n - m, rest) == 0 ? (int)(n - m) : 0;
}

/* A prefix of names in the file that must go, or (`adds`) be put in front of them. */
typedef struct prefix {
    const char *text;
    int length; /* 0: none */
    bool adds;
    int found; /* parameters that have a tensor then */
} prefix;

/* Number of parameters that have a tensor with p. */
static int count_with(const load *l, const prefix *p)
{
    int found = 0;

    for (int i = 0; i < charl_params_get_count(l->set); i++) {
        const char *name = charl_param_get_spec(charl_params_get(l->set, i))->name;

        for (int64_t k = 0; k < l->n; k++) {
            const char *full = p->adds ? name : l->tensors[k].name, *rest = p->adds ? l->tensors[k].name : name;

            if (prefix_of(full, rest) == p->length && strncmp(full, p->text, (size_t)p->length) == 0) {
                found++;
                break;
            }
        }
    }
    return found;
}

/* The prefix before a layout's marker: all of the layout's names have it. */
static prefix prefix_of_layout(const load *l)
{
    const void *settings;
    const charl_model_type *model = charl__model_get_type(l->o->model, &settings);
    const charl__weights_layout *layout;
    char full[CHARL__LAYOUT_NAME];

    for (int i = 0; model && (layout = charl__layout_at(i)) != NULL; i++) {
        snprintf(full, sizeof full, "%s%s", layout->prefix ? layout->prefix : "", layout->marker);
        for (int64_t k = 0; layout->model == model && k < 2 * l->n; k++) { /* with the layout's own prefix first */
            const tensor *x = &l->tensors[k % l->n];
            const int n = prefix_of(x->name, k < l->n ? full : layout->marker);

            if (n > 0 && (!layout->recognizes || layout->recognizes(&x->t->shape))) {
                return (prefix){.text = x->name, .length = n, .found = charl_params_get_count(l->set)};
            }
        }
    }
    return (prefix){0};
}

/* The prefix that gives the most parameters a tensor. One is only added if no parameter has a tensor without it. */
static prefix best_prefix(const load *l)
{
    const int count = charl_params_get_count(l->set);
    prefix best = l->layout ? (prefix){0} : prefix_of_layout(l);

    for (int i = 0; i < count && best.length == 0 && !l->layout; i++) {
        const char *name = charl_param_get_spec(charl_params_get(l->set, i))->name;

        for (int64_t k = 0; k < l->n; k++) {
            const int cut = prefix_of(l->tensors[k].name, name),
                      put = l->r->missing == count ? prefix_of(name, l->tensors[k].name) : 0;
            prefix p = {cut > 0 ? l->tensors[k].name : name, cut > 0 ? cut : put, cut <= 0, 0};

            p.found = p.length > 0 ? count_with(l, &p) : 0;
            best = p.found > best.found ? p : best;
        }
    }
    return best;
}

/* As entries of [init]: the prefix, and tensors without it, which no parameter needs. */
static charl_status say_prefix(const load *l, const prefix *p, charl__text *out)
{
    CHARL_SCOPED(charl__text_fini) charl__text rest = {0};
    char pattern[CHARL__LAYOUT_NAME];

    for (int64_t k = 0; k < l->n && !p->adds; k++) {
        const char *name = l->tensors[k].name;

        snprintf(pattern, sizeof pattern, "%.*s%s", (int)strcspn(name, "."), name, strchr(name, '.') ? ".*" : "");
        if (!l->tensors[k].used && strncmp(name, p->text, (size_t)p->length) != 0 &&
            !strstr(charl__text_string(&rest), pattern)) {
            CHARL_TRY(charl__text_printf(&rest, "%s%s", rest.length > 0 ? ", " : "", pattern));
        }
    }
    CHARL_TRY(
        charl__text_printf(out, p->adds ? "%s = * -> %.*s*" : "%s = %.*s* -> *", l->words->rename, p->length, p->text));
    CHARL_TRY(rest.length > 0 ? charl__text_printf(out, " and %s = %s", l->words->skip, charl__text_string(&rest))
                              : CHARL_OK);
    return charl__text_printf(out, " gives %d of %d parameters a tensor", p->found, charl_params_get_count(l->set));
}

/* Mismatches, as lines of a message: as many as there is room for. */
static charl_status refuse(const load *l)
{
    const char *p = charl__text_string(l->text);
    CHARL_SCOPED(charl__text_fini) charl__text lines = {0};
    CHARL_SCOPED(charl__text_fini) charl__text hint = {0};
    const prefix names = l->r->missing > 0 && l->r->extra > 0 ? best_prefix(l) : (prefix){0};
    int left = 0;

    for (int length; *p; p += length + (p[length] == '\n')) {
        length = (int)strcspn(p, "\n");
        if (strncmp(p, "missing: ", 9) != 0 && strncmp(p, "misshapen: ", 11) != 0 && strncmp(p, "extra: ", 7) != 0) {
            continue;
        }
        if (left > 0 || lines.length + (size_t)length > LISTED) {
            left++;
        } else {
            CHARL_TRY(charl__text_printf(&lines, "\n  %.*s", length, p));
        }
    }
    if (left > 0) {
        CHARL_TRY(charl__text_printf(&lines, "\n  ... and %d more", left));
    }
    if (l->vocab) {
        CHARL_TRY(charl__text_printf(&hint, "model.vocab_size = %" PRId64 " gives the model as many tokens as the file",
                                     l->vocab));
    } else if (l->window) {
        CHARL_TRY(charl__text_printf(&hint, "model.block_size = %" PRId64 " takes the window of the file", l->window));
    } else if (names.found > 0) {
        CHARL_TRY(say_prefix(l, &names, &hint));
    } else {
        const bool few = l->n_hints <= HINTS, renamed = l->r->missing && l->r->extra;

        CHARL_TRY(charl__text_printf(&hint, "%s = %s %s%s%s%s", l->words->skip,
                                     few ? charl__text_string(&l->hints) : "PATTERN, ...", l->words->effect,
                                     renamed ? "; " : "", renamed ? l->words->rename : "",
                                     renamed ? " = OLD -> NEW, ... changes names of the file" : ""));
    }
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s does not fit the model:%s\nHINT %s", l->source.path,
               charl__text_string(&lines), charl__text_string(&hint));
}

static void transpose(const float *src, int64_t rows, int64_t columns, float *dst)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            dst[c * rows + r] = src[r * columns + c];
        }
    }
}

/* The value of a parameter, assembled from its tensors; *out is owned by the caller. */
static charl_status read_value(const load *l, const target *t, float **out)
{
    const charl_shape *shape = &charl_param_get_spec(t->p)->shape;
    int64_t all = charl_shape_count(shape), at = 0;
    CHARL_SCOPED_FREE float *value = NULL, *other = NULL;

    for (int k = 0; k < t->n_parts; k++) { /* all rows of a table with more rows than the model are read */
        const int64_t n = charl_shape_count(&t->part[k]->t->shape);

        all = t->n_parts == 1 && n > all ? n : all;
    }
    CHARL_TRY(charl__alloc_array(all + 1, sizeof *value, &value));
    for (int k = 0; k < t->n_parts; k++) {
        const charl_checkpoint_tensor *x = t->part[k]->t;

        if (t->rule && t->rule->transposed && x->shape.ndim == 2) {
            charl_free(other);
            other = NULL;
            CHARL_TRY(charl__alloc_array(charl_shape_count(&x->shape) + 1, sizeof *other, &other));
            CHARL_TRY(charl__weights_source_read(&l->source, x, other));
            transpose(other, x->shape.dim[0], x->shape.dim[1], value + at);
        } else {
            CHARL_TRY(charl__weights_source_read(&l->source, x, value + at));
        }
        at += charl_shape_count(&x->shape);
    }
    if (t->rule && t->rule->row) {
        float *stacked = value;

        charl_free(other);
        other = stacked;
        value = NULL;
        CHARL_TRY(charl__alloc_array(all + 1, sizeof *value, &value));
        charl__layout_order(t->rule, l->settings, shape->dim[0], all / shape->dim[0], stacked, false, value);
    }
    for (int64_t i = 0; i < all && l->layout && charl__layout_less_one(l->layout, t->rule, shape->ndim); i++) {
        value[i] += 1.0F;
    }
    *out = value;
    value = NULL;
    return CHARL_OK;
}

static charl_status read_target(const load *l, const target *t)
{
    CHARL_SCOPED_FREE float *value = NULL;

    CHARL_TRY(read_value(l, t, &value));
    CHARL_TRY(charl_param_write(t->p, value));
    t->p->in_base = true;
    return CHARL_OK;
}

/* The key of a model that names the library whose names its weights have; NULL: it has none, or files say which. */
static const charl_key *family_of(const load *l)
{
    const void *settings;
    const charl_model_type *model = charl__model_get_type(l->o->model, &settings);
    const charl__weights_layout *layout;

    for (int i = 0; model && (layout = charl__layout_at(i)) != NULL; i++) {
        if (layout->model == model) {
            return NULL;
        }
    }
    return model ? charl__layout_key(model, "family") : NULL;
}

/* What to do about a file of which no tensor has the name of a parameter. */
static charl_status say_names(const load *l, charl__text *out)
{
    const charl_key *family = family_of(l);

    if (family) {
        CHARL_TRY(charl__text_printf(out, "model.family = %s names the library whose names the model has, or ",
                                     family->choices));
    }
    return charl__text_printf(out, "%s = OLD -> NEW changes names: the file has %.80s, the model %.80s",
                              l->words->rename, l->n > 0 ? l->tensors[0].name : "no tensors",
                              charl_param_get_spec(charl_params_get(l->set, 0))->name);
}

/* Match the file with the parameters. */
static charl_status plan_all(load *l, const char *path)
{
    CHARL_TRY(charl__weights_skips_parse(l->words->skip, l->o->skip, &l->skips));
    CHARL_TRY(charl__weights_renames_parse(l->words->rename, l->o->rename, &l->renames));
    CHARL_TRY(charl__weights_source_open(path, (int)l->o->ema, &l->source));
    CHARL_TRY(list_tensors(l));
    recognize(l);
    CHARL_TRY(sort_names(l));
    CHARL_TRY(plan(l));
    if (l->r->missing == charl_params_get_count(l->set)) {
        CHARL_SCOPED(charl__text_fini) charl__text hint = {0};
        const prefix names = best_prefix(l);

        CHARL_REQUIRE(l->n == 0 || strncmp(l->tensors[0].name, CHARL__PEFT_PREFIX, strlen(CHARL__PEFT_PREFIX)) != 0,
                      CHARL_ERR_CHECKPOINT,
                      "%s has adapters of peft; HINT name its folder, with adapter_config.json, which are read with "
                      "their base",
                      path);
        CHARL_TRY(names.found > 0 ? say_prefix(l, &names, &hint) : say_names(l, &hint));
        CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s has no parameter of this model; HINT %s", path, charl__text_string(&hint));
    }
    return CHARL_OK;
}

static charl_status load_all(load *l, const char *path)
{
    CHARL_TRY(plan_all(l, path));
    if (!l->o->by_name && l->r->missing + l->r->extra + l->r->misshapen > 0) {
        CHARL_TRY(refuse(l));
    }
    for (int i = 0; i < charl_params_get_count(l->set); i++) {
        if (l->targets[i].fits) {
            CHARL_TRY(read_target(l, &l->targets[i]));
            l->r->loaded++;
        }
    }
    CHARL_REQUIRE(l->r->loaded > 0, CHARL_ERR_CHECKPOINT, "%s has no parameter of this model", path);
    return CHARL_OK;
}

static void load_fini(load *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        charl_free(l->tensors[i].name);
    }
    charl_free(l->tensors);
    charl_free(l->sorted);
    charl_free(l->targets);
    charl__text_fini(&l->hints);
    charl__weights_names_fini(&l->skips);
    charl__weights_names_fini(&l->renames);
    charl__weights_source_close(&l->source);
}

charl_status charl__weights_load(charl_params *set, const char *path, const charl_params_load_options *options,
                                 const charl__weights_words *words, charl_params_report *report, charl__text *text)
{
    load l = {.set = set, .o = options, .words = words, .r = report, .text = text};
    const charl_status st = load_all(&l, path);

    load_fini(&l);
    return st;
}

struct charl__weights_plan {
    load l;
    charl_params_load_options o;
    charl_params_report report;
    charl__text text;
};

charl_status charl__weights_plan_open(charl_params *set, const char *path, const charl_params_load_options *options,
                                      const charl__weights_words *words, charl__weights_plan **out)
{
    charl_status st = CHARL_OK;
    charl__weights_plan *p = NULL;
    const char *lines;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *p, &p));
    p->o = *options;
    p->l = (load){.set = set, .o = &p->o, .words = words, .r = &p->report, .text = &p->text};
    CHARL_TRY_CLEANUP(plan_all(&p->l, path));
    lines = charl__text_string(&p->text);
    for (const char *line = lines; *line;) {
        const int length = (int)strcspn(line, "\n");

        CHARL_REQUIRE_CLEANUP(strncmp(line, "missing: ", 9) != 0 && strncmp(line, "misshapen: ", 11) != 0,
                              CHARL_ERR_CHECKPOINT, "%s: %.*s", path, length, line);
        line += length + (line[length] == '\n');
    }
    *out = p;
    p = NULL;
cleanup:
    charl__weights_plan_close(p);
    return st;
}

void charl__weights_plan_close(charl__weights_plan *p)
{
    if (p) {
        load_fini(&p->l);
        charl__text_fini(&p->text);
        charl_free(p);
    }
}

charl_status charl__weights_plan_read(charl__weights_plan *p, const char *name, float *dst)
{
    const charl_param *wanted = charl_params_find(p->l.set, name);
    CHARL_SCOPED_FREE float *value = NULL;

    CHARL_REQUIRE(wanted && p->l.targets[wanted->index].fits, CHARL_ERR_CHECKPOINT, "%s has no %s", p->l.source.path,
                  name);
    CHARL_TRY(read_value(&p->l, &p->l.targets[wanted->index], &value));
    memcpy(dst, value, (size_t)charl_shape_count(&wanted->spec.shape) * sizeof *dst);
    return CHARL_OK;
}

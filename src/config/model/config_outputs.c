/* [output NAME]: reading the sections, and the loss that they add up to. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "charl/data_schema.h"
#include "config/config_private.h"
#include "config/config_rows.h"
#include "config/outputs.h"
#include "io/dataset/fields.h"

const charl_key charl__output_keys[CHARL__OUTPUT_KEYS] = {
    {"input", CHARL_KEY_TEXT, 0, NULL, false, "the layer that gives it; default: the layer NAME", NULL},
    {"target", CHARL_KEY_TEXT, 0, NULL, false, "its target, a name of data.y; default: NAME", NULL},
    {"loss", CHARL_KEY_TEXT, 0, NULL, false,
     "its loss, as train.loss, followed by the keys of that loss; auto: cross_entropy for classes, bce for several "
     "labels of 0 and 1, mse for numbers",
     NULL},
    {"weight", CHARL_KEY_FLOAT, offsetof(charl__config_output, weight), "[0,1e6]", false,
     "factor of its loss in the sum of all", NULL}};

charl_status charl__output_help(charl__text *t)
{
    CHARL_TRY(charl__text_printf(
        t, "[output NAME]\n  One of the outputs of a model whose data have named arrays (data.x, data.y).\n"));
    for (int i = 0; i < CHARL__OUTPUT_KEYS; i++) {
        CHARL_TRY(charl__text_printf(t, "  %s = %s\n      %s\n", charl__output_keys[i].name,
                                     i == CHARL__OUTPUT_KEYS - 1 ? "1" : "", charl__output_keys[i].help));
    }
    return CHARL_OK;
}

static charl_status refuse(charl__mistakes *m, const charl__section *s, const charl__layer_key *k, const char *why)
{
    return charl__mistake_add(m, k ? k->origin : s->origin, s->header, k ? k->key : NULL, why);
}

/* "A, B": the names of specs. */
static const char *names_of(const charl__field_spec *specs, int n, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < n && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", specs[i].name);
    }
    return text;
}

static charl_status read_target(charl__mistakes *m, const charl__section *s, const charl__layer_key *k,
                                const charl__field_spec *targets, int n, charl__config_output *out)
{
    const char *wanted = k ? k->value : out->name, *near = NULL;
    int best = INT_MAX;
    char why[CHARL__WHY], names[160];

    for (int i = 0; i < n; i++) {
        if (strcmp(targets[i].name, wanted) == 0) {
            snprintf(out->target, sizeof out->target, "%s", wanted);
            return CHARL_OK;
        }
        near = charl_text_closer(wanted, targets[i].name, &best) ? targets[i].name : near;
    }
    snprintf(why, sizeof why, "data.y has no target %.40s%s; it has %s", wanted, charl__did_you_mean(near),
             names_of(targets, n, names, sizeof names));
    return refuse(m, s, k, why);
}

static charl_status read_loss(charl__mistakes *m, const charl__section *s, const charl__layer_key *k,
                              charl__config_output *out)
{
    char why[CHARL__WHY], names[256];

    out->loss = k && strcmp(k->value, "auto") != 0 ? charl__loss_find(k->value) : NULL;
    if (k && !out->loss && strcmp(k->value, "auto") != 0) {
        snprintf(why, sizeof why, "\"%.60s\" is not auto or one of %s", k->value,
                 charl__text_list(k->value, charl_loss_name, names, sizeof names));
        return refuse(m, s, k, why);
    }
    if (out->loss && out->loss->row.settings_size > 0) {
        CHARL_INVARIANT(out->loss->row.settings_size <= sizeof out->settings);
        memcpy(out->settings, out->loss->row.defaults, out->loss->row.settings_size);
    }
    return CHARL_OK;
}

/* A key that is not `input`, `target` or `loss`: weight, or one of the loss. */
static charl_status read_key(charl__mistakes *m, const charl__section *s, const charl__layer_key *k,
                             charl__config_output *out)
{
    const charl_row *row = out->loss ? &out->loss->row : NULL;
    const charl_key *keys[] = {charl__output_keys, row ? row->keys : NULL};
    const int count[] = {CHARL__OUTPUT_KEYS, row ? row->n_keys : 0};
    const char *near = NULL;
    int best = INT_MAX;
    char why[CHARL__WHY];

    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < count[t]; i++) {
            near = charl_text_closer(k->key, keys[t][i].name, &best) ? keys[t][i].name : near;
            if (strcmp(k->key, keys[t][i].name) != 0) {
                continue;
            }
            if (keys[t][i].kind == CHARL_KEY_TEXT && t == 0) {
                return CHARL_OK; /* read elsewhere */
            }
            return charl_key_parse(&keys[t][i], k->value, t == 0 ? (void *)out : out->settings, why)
                       ? CHARL_OK
                       : refuse(m, s, k, why);
        }
    }
    snprintf(why, sizeof why, "unknown key%s%s%s", row ? " for loss = " : "", row ? row->name : "",
             charl__did_you_mean(near));
    return refuse(m, s, k, why);
}

static const charl__layer_key *find_key(const charl__section *s, const char *name)
{
    for (int i = 0; i < s->n_keys; i++) {
        if (strcmp(s->keys[i].key, name) == 0) {
            return &s->keys[i];
        }
    }
    return NULL;
}

static charl_status read_section(charl_config *cfg, charl__mistakes *m, const charl__section *s,
                                 const charl__field_spec *targets, int n_targets, charl__find_layer find, void *layers)
{
    charl__config_detail *d = cfg->detail;
    const charl__layer_key *input = find_key(s, "input"), *check;
    charl__config_output out = {.name = s->header + strlen("output "), .weight = 1, .origin = s->origin};
    charl__field_spec inputs[CHARL__MAX_FIELDS];
    char why[CHARL__WHY];
    const char *near = NULL;

    if (d->n_outputs == CHARL_MODEL_MAX_OUTPUTS) {
        return refuse(m, s, NULL, "a model has at most 8 outputs");
    }
    if (out.name[strspn(out.name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] != '\0' ||
        strlen(out.name) >= CHARL__FIELD_NAME) {
        return refuse(m, s, NULL, "the name of an output has up to 31 letters, digits and underscores");
    }
    for (int i = charl__field_specs(cfg->data.x, inputs, why, sizeof why); i > 0; i--) {
        if (strcmp(inputs[i - 1].name, out.name) == 0) {
            return refuse(m, s, NULL,
                          "an input of data.x has this name; give the output another, and set input and target");
        }
    }
    if (n_targets == 0) {
        return refuse(m, s, NULL, "needs data with names: data.x = NAME:/ARRAY and data.y = NAME:/ARRAY");
    }
    out.layer = find(layers, input ? input->value : out.name, &near);
    if (!out.layer) {
        snprintf(why, sizeof why, "there is no layer %.60s%s%s", input ? input->value : out.name,
                 charl__did_you_mean(near), input ? "" : "; input names the layer that gives this output");
        CHARL_TRY(refuse(m, s, input, why));
        out.layer = "";
    }
    CHARL_TRY(charl__config_keep(&d->strings, out.layer, &out.layer));
    CHARL_TRY(read_target(m, s, find_key(s, "target"), targets, n_targets, &out));
    CHARL_TRY(read_loss(m, s, find_key(s, "loss"), &out));
    for (int i = 0; i < s->n_keys; i++) {
        CHARL_TRY(read_key(m, s, &s->keys[i], &out));
    }
    if (out.loss && out.loss->row.check) {
        const char *key = "loss";

        if (!out.loss->row.check(out.settings, &key, why)) {
            check = find_key(s, key);
            CHARL_TRY(refuse(m, s, check, why));
        }
    }
    d->outputs[d->n_outputs++] = out;
    return CHARL_OK;
}

charl_status charl__config_read_outputs(charl_config *cfg, charl__mistakes *m, charl__find_layer find, void *layers)
{
    charl__config_detail *d = cfg->detail;
    charl__field_spec targets[CHARL__MAX_FIELDS];
    char why[CHARL__WHY];
    int n = charl__field_specs(cfg->data.y, targets, why, sizeof why), sections = 0;

    n = n > 0 && targets[0].name[0] ? n : 0;
    for (int i = 0; i < d->n_sections; i++) {
        if (strncmp(d->sections[i].header, "output ", 7) == 0) {
            d->sections[i].used = true;
            sections++;
            CHARL_TRY(read_section(cfg, m, &d->sections[i], targets, n, find, layers));
        }
    }
    if (sections == 0 && n == 1) { /* the only target is that of the last layer */
        charl__config_output *o = &d->outputs[d->n_outputs++];

        *o = (charl__config_output){.layer = "", .weight = 1, .origin = {d->strings.items[0], 0}};
        CHARL_TRY(charl__config_keep(&d->strings, targets[0].name, &o->name));
        snprintf(o->target, sizeof o->target, "%s", targets[0].name);
        o->loss = strcmp(cfg->train.loss, "auto") != 0 ? charl__loss_find(cfg->train.loss) : NULL;
        if (o->loss && o->loss->row.settings_size > 0) {
            CHARL_INVARIANT(o->loss->row.settings_size <= sizeof o->settings);
            memcpy(o->settings, cfg->train.loss_settings, o->loss->row.settings_size);
        }
    }
    return m->count == 0 ? charl__config_check_monitor(cfg, m) : CHARL_OK;
}

int64_t charl__loss_values(const charl__loss *loss, const void *settings)
{
    return loss->quantiles ? loss->quantiles(settings)->count : 1;
}

int64_t charl__loss_point(const charl__loss *loss, const void *settings)
{
    const charl_float_list *q = loss->quantiles ? loss->quantiles(settings) : NULL;
    int best = 0;

    for (int i = 1; q && i < q->count; i++) {
        best = fabs(q->values[i] - 0.5) < fabs(q->values[best] - 0.5) ? i : best;
    }
    return best;
}

static bool same_settings(const charl__loss *loss, const void *a, const void *b)
{
    return !loss || loss->row.settings_size == 0 || memcmp(a, b, loss->row.settings_size) == 0;
}

bool charl__config_same_loss(const charl_config *a, const charl_config *b)
{
    bool same = strcmp(a->train.loss, b->train.loss) == 0 && a->detail->n_outputs == b->detail->n_outputs &&
                same_settings(charl__loss_find(a->train.loss), a->train.loss_settings, b->train.loss_settings);

    for (int i = 0; same && i < a->detail->n_outputs; i++) {
        const charl__config_output *p = &a->detail->outputs[i], *q = &b->detail->outputs[i];

        same = strcmp(p->name, q->name) == 0 && p->loss == q->loss &&
               same_settings(p->loss, p->settings, q->settings) &&
               memcmp(&p->weight, &q->weight, sizeof p->weight) == 0;
    }
    return same;
}

static bool has_places(const charl__output *o)
{
    return o->kind == CHARL_TARGET_TOKENS || o->kind == CHARL_TARGET_MAPS;
}

bool charl__output_has_labels(const charl__output *o)
{
    return o->kind == CHARL_TARGET_CLASS || has_places(o);
}

bool charl__config_has_outputs(const charl_config *cfg)
{
    return cfg->detail->n_outputs > 0;
}

const char *charl__config_output_name(const charl_config *cfg, int i)
{
    return i < cfg->detail->n_outputs ? cfg->detail->outputs[i].name : NULL;
}

/* The kind of target that a loss learns from a field, 0: none. */
static charl_target_kind kind_of(const charl__loss *loss, const charl__field *f)
{
    const unsigned can = loss->targets;

    if (f->kind == CHARL__FIELD_NUMBERS) {
        return can & CHARL_TARGET_NOTHING                         ? CHARL_TARGET_NOTHING
               : can & CHARL_TARGET_NUMBERS                       ? CHARL_TARGET_NUMBERS
               : can & CHARL_TARGET_FLAGS                         ? CHARL_TARGET_FLAGS
               : can & CHARL_TARGET_PROBABILITIES && f->count > 1 ? CHARL_TARGET_PROBABILITIES
                                                                  : (charl_target_kind)0;
    }
    if (f->shape.ndim == 0 && can & CHARL_TARGET_CLASS) {
        return CHARL_TARGET_CLASS;
    }
    if (f->shape.ndim == 1 && can & CHARL_TARGET_TOKENS) {
        return CHARL_TARGET_TOKENS;
    }
    if (f->shape.ndim >= 2 && can & CHARL_TARGET_MAPS &&
        !(can & CHARL_TARGET_FLAGS && f->classes <= 2 && f->least == 0)) {
        return CHARL_TARGET_MAPS;
    }
    return can & CHARL_TARGET_FLAGS && f->classes <= 2 && f->least == 0 ? CHARL_TARGET_FLAGS : (charl_target_kind)0;
}

static charl_status resolve(const charl__config_output *o, const charl__field *f, charl__output *out)
{
    const bool flags = f->shape.ndim > 0 && f->classes <= 2 && f->least == 0;
    const char *automatic = f->kind == CHARL__FIELD_NUMBERS ? "mse" : flags ? "bce" : "cross_entropy";

    *out = (charl__output){.name = o->name,
                           .layer = o->layer,
                           .loss = o->loss ? o->loss : charl__loss_find(automatic),
                           .settings = o->settings,
                           .weight = (float)o->weight,
                           .target = f->first,
                           .n_targets = f->count};
    if (!o->loss) {
        out->settings = out->loss->row.defaults;
    }
    out->kind = kind_of(out->loss, f);
    CHARL_REQUIRE(out->kind, CHARL_ERR_CONFIG,
                  "%s: [output %s] loss = %s does not learn from %s, which holds %s; HINT classes are learned with "
                  "cross_entropy, labels of 0 and 1 with bce, numbers with mse",
                  charl__origin_text(o->origin), o->name, out->loss->row.name, f->name,
                  f->kind == CHARL__FIELD_NUMBERS ? "numbers"
                  : flags                         ? "several labels of 0 and 1"
                  : f->shape.ndim > 0             ? "several classes"
                                                  : "a class");
    out->quantiles = charl__loss_values(out->loss, out->settings);
    out->point = charl__loss_point(out->loss, out->settings);
    out->classes = charl__output_has_labels(out) ? f->classes : f->count * out->quantiles;
    out->count = has_places(out) ? out->classes * f->count : out->classes;
    return CHARL_OK;
}

charl_status charl__config_outputs(const charl_config *cfg, const char *fields, charl__outputs *out)
{
    const charl__config_detail *d = cfg->detail;
    charl__field f[2 * CHARL__MAX_FIELDS];
    const int n = charl__fields_parse(fields, f);

    *out = (charl__outputs){.n = 0};
    CHARL_REQUIRE(d->n_outputs > 0 || n <= 0, CHARL_ERR_CONFIG,
                  "the data have named targets; HINT [output NAME] says which layer learns which of them");
    for (int i = 0; i < d->n_outputs; i++) {
        charl__output *o = &out->at[out->n];
        int k = 0;

        while (k < n && !(f[k].target && strcmp(f[k].name, d->outputs[i].target) == 0)) {
            k++;
        }
        CHARL_REQUIRE(k < n, CHARL_ERR_CONFIG, "%s: [output %s]: the data have no target %s",
                      charl__origin_text(d->outputs[i].origin), d->outputs[i].name, d->outputs[i].target);
        CHARL_TRY(resolve(&d->outputs[i], &f[k], o));
        o->first = out->n > 0 ? o[-1].first + o[-1].count : 0;
        out->n++;
    }
    return CHARL_OK;
}

charl__output_vars charl__output_vars_of(charl_graph *g, const charl__output *o, charl_var *outputs, charl_var *targets)
{
    static const int perm[] = {0, 2, 1};
    const int64_t rows = outputs ? charl_var_get_type(outputs).shape.dim[0] : 1;
    charl__output_vars v = {.outputs = charl_slice(g, outputs, 1, o->first, o->count),
                            .targets = charl_slice(g, targets, 1, o->target, o->n_targets)};
    charl_var *next;

    v.predicted = v.outputs;
    if (o->quantiles > 1) {
        v.predicted = charl_slice(g, v.outputs, 1, o->point * o->n_targets, o->n_targets);
    }
    if (!charl__output_has_labels(o)) {
        return v;
    }
    /* labels y are -1 or less, or 0 and more: relu(y + 1) - relu(y) is 0 or 1 */
    next = charl_relu(g, charl_scale(g, v.targets, 1.0F, 1.0F));
    v.counted = charl_sub(g, next, charl_relu(g, v.targets));
    v.targets = charl_cast(g, charl_relu(g, v.targets), CHARL_I32);
    if (o->kind == CHARL_TARGET_CLASS) {
        v.targets = charl_reshape(g, v.targets, (charl_shape){1, {rows}});
        v.any = v.counted = charl_reshape(g, v.counted, (charl_shape){1, {rows}});
        return v;
    }
    if (o->kind == CHARL_TARGET_TOKENS) {
        v.outputs = charl_reshape(g, v.outputs, (charl_shape){3, {rows, o->n_targets, o->classes}});
    } else {
        v.outputs = charl_reshape(g, v.outputs, (charl_shape){3, {rows, o->classes, o->n_targets}});
        v.outputs = charl_transpose(g, v.outputs, perm);
    }
    v.predicted = v.outputs;
    next = charl_sum(g, v.counted, 1, true); /* n of them: relu(n) - relu(n - 1) is 0 or 1 */
    v.any = charl_sub(g, next, charl_relu(g, charl_scale(g, next, 1.0F, -1.0F)));
    v.share = charl_div(g, v.counted, charl_add(g, next, charl_scale(g, v.any, -1.0F, 1.0F)));
    v.any = charl_reshape(g, v.any, (charl_shape){1, {rows}});
    return v;
}

charl_var *charl__output_rows(charl_graph *g, const charl__output_vars *v, charl_var *values)
{
    if (!values) {
        return NULL;
    }
    if (charl_var_get_type(values).shape.ndim > 1) {
        return v->share ? charl_sum(g, charl_mul(g, values, v->share), 1, false) : charl_mean(g, values, 1, false);
    }
    return v->any ? charl_mul(g, values, v->any) : values;
}

charl_var *charl__output_loss(charl_graph *g, const charl__output *o, const charl__output_vars *v)
{
    charl_var *values = o->kind == CHARL_TARGET_MAPS && o->loss->build_counted
                            ? o->loss->build_counted(g, o->settings, v->outputs, v->targets, v->counted)
                            : o->loss->build(g, o->settings, v->outputs, v->targets);

    return charl__output_rows(g, v, values);
}

/* The sum of the weighted losses of each row. */
static charl_var *build(charl_graph *g, const void *settings, charl_var *outputs, charl_var *targets)
{
    const charl__outputs *all = settings;
    charl_var *sum = NULL;

    for (int k = 0; k < all->n; k++) {
        const charl__output *o = &all->at[k];
        const charl__output_vars v = charl__output_vars_of(g, o, outputs, targets);
        charl_var *loss = charl__output_loss(g, o, &v);

        loss = o->weight == 1.0F ? loss : charl_scale(g, loss, o->weight, 0.0F);
        sum = k > 0 ? charl_add(g, sum, loss) : loss;
    }
    return sum;
}

const charl__loss charl__loss_outputs = {
    .row.name = "sum of the outputs", .targets = CHARL_TARGET_NUMBERS, .build = build};

charl_status charl__output_row_create(const charl__outputs *o, charl__output_row *r)
{
    int64_t targets = 1, outputs = 1;

    *r = (charl__output_row){NULL};
    for (int k = 0; k < o->n; k++) {
        targets = o->at[k].n_targets > targets ? o->at[k].n_targets : targets;
        outputs = o->at[k].count > outputs ? o->at[k].count : outputs;
    }
    CHARL_TRY(charl__alloc_array(targets, sizeof *r->labels, &r->labels));
    CHARL_TRY(charl__alloc_array(targets, sizeof *r->weights, &r->weights));
    return charl__alloc_array(outputs, sizeof *r->outputs, &r->outputs);
}

void charl__output_row_fini(charl__output_row *r)
{
    charl_free(r->labels);
    charl_free(r->weights);
    charl_free(r->outputs);
    *r = (charl__output_row){NULL};
}

charl_target_kind charl__output_row_kind(const charl__output *o)
{
    return o->kind == CHARL_TARGET_TOKENS ? CHARL_TARGET_MAPS : o->kind;
}

bool charl__output_row_of(const charl__output *o, const charl__eval_row *row, charl__output_row *room,
                          charl__eval_row *out)
{
    const float *target = row->numbers + o->target;
    bool any = false;

    if (o->kind == CHARL_TARGET_NOTHING) {
        return false;
    }
    *out = (charl__eval_row){.values = row->outputs ? row->outputs + o->first : NULL,
                             .n = o->count / o->quantiles,
                             .classes = o->classes / o->quantiles,
                             .index = row->index};
    out->outputs = out->values ? out->values + o->point * out->n : NULL;
    if (!charl__output_has_labels(o)) {
        out->numbers = target;
        return true;
    }
    for (int64_t i = 0; i < o->n_targets; i++) {
        const bool counts = target[i] >= 0.0F;

        any = any || counts;
        room->labels[i] = counts ? (int32_t)target[i] : 0;
        room->weights[i] = counts ? 1.0F : 0.0F;
    }
    out->labels = room->labels;
    if (o->kind == CHARL_TARGET_CLASS) {
        out->predicted = out->outputs ? charl__largest(out->outputs, out->n, 1) : 0;
        return any;
    }
    out->is_map = true;
    out->weights = room->weights;
    for (int64_t i = 0; out->outputs && o->kind == CHARL_TARGET_TOKENS && i < o->count; i++) {
        room->outputs[i % o->classes * o->n_targets + i / o->classes] = out->outputs[i];
    }
    out->outputs = out->outputs && o->kind == CHARL_TARGET_TOKENS ? room->outputs : out->outputs;
    return any;
}

int64_t charl__output_answers(const charl__output *o, const float *outputs, double *answers)
{
    const bool tokens = o->kind == CHARL_TARGET_TOKENS;

    if (o->kind == CHARL_TARGET_CLASS && outputs) {
        const int64_t best = charl__largest(outputs + o->first, o->count, 1);
        double sum = 0.0;

        for (int64_t i = 0; i < o->count; i++) {
            sum += exp((double)outputs[o->first + i] - (double)outputs[o->first + best]);
        }
        answers[0] = (double)best;
        answers[1] = 1.0 / sum;
    } else if (has_places(o) && outputs) {
        for (int64_t i = 0; i < o->n_targets; i++) {
            answers[i] = (double)charl__largest(outputs + o->first + (tokens ? i * o->classes : i), o->classes,
                                                tokens ? 1 : o->n_targets);
        }
    } else if (outputs) {
        o->loss->answer->compute(outputs + o->first, o->count, o->count, answers);
    }
    return o->kind == CHARL_TARGET_CLASS ? 2 : has_places(o) ? o->n_targets : o->count;
}

charl_status charl__output_names(const charl__outputs *all, charl__text *out)
{
    for (int k = 0; k < all->n; k++) {
        const charl__output *o = &all->at[k];
        const int64_t n = charl__output_answers(o, NULL, NULL);

        for (int64_t i = 0; i < n; i++) {
            CHARL_TRY(charl__text_printf(out, "%s%s", out->length ? "\n" : "", o->name));
            if (o->kind == CHARL_TARGET_CLASS) {
                CHARL_TRY(charl__text_printf(out, "%s", i == 1 ? "_probability" : ""));
            } else if (o->n_targets > 1) {
                CHARL_TRY(charl__text_printf(out, "_%lld", (long long)(i % o->n_targets)));
            }
            if (o->loss->quantiles) {
                CHARL_TRY(charl__text_printf(out, "_q"));
                CHARL_TRY(charl__config_print_float(o->loss->quantiles(o->settings)->values[i / o->n_targets], out));
            }
        }
    }
    return CHARL_OK;
}

charl_status charl__quantile_names(const charl__loss *loss, const void *settings, const char *targets, int64_t n,
                                   charl__text *out)
{
    const charl_float_list *q = loss->quantiles ? loss->quantiles(settings) : NULL;

    for (int64_t i = 0; q && i < q->count * n; i++) {
        size_t length = 0;
        const char *name = charl_names_get(targets, i % n, &length);

        CHARL_TRY(charl__text_printf(out, "%s", i > 0 ? "\n" : ""));
        if (name && length > 0) {
            CHARL_TRY(charl__text_append(out, name, length));
            CHARL_TRY(charl__text_append(out, "_", 1));
        } else if (n > 1) {
            CHARL_TRY(charl__text_printf(out, "%lld_", (long long)(i % n)));
        }
        CHARL_TRY(charl__text_append(out, "q", 1));
        CHARL_TRY(charl__config_print_float(q->values[i / n], out));
    }
    return CHARL_OK;
}

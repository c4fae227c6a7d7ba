/* Parameter sets: declaration, layout, arenas, initial values.
 *
 * Invariant: offsets are fixed once, before allocation; padding is zero from allocation on, and no
 * kernel that processes an arena may change it.
 */
#include "tensor/params.h"

#include <stdio.h>
#include <string.h>

#include "base/registry/key.h"
#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/parallel.h"
#include "base/numeric/rng.h"
#include "base/text/text.h"

enum { DRAWN = 65536 /* initial values that a thread computes at a time */ };

charl_status charl_params_create(charl_params **out)
{
    CHARL_GIVEN(out);
    CHARL_TRY(charl__alloc(sizeof(charl_params), out));
    charl__owner_init(&(*out)->owner);
    return CHARL_OK;
}

static void param_destroy(charl_param *p)
{
    if (p) {
        charl_tensor_release(p->value);
        charl_tensor_release(p->half);
        charl_tensor_release(p->vector);
        charl_tensor_release(p->codes);
        charl_tensor_release(p->scales);
        charl_free((void *)(uintptr_t)p->spec.name);
        charl_free(p->held);
        charl_free(p);
    }
}

void charl_params_destroy(charl_params *set)
{
    if (!set) {
        return;
    }
    for (int i = 0; i < set->count; i++) {
        param_destroy(set->param[i]);
    }
    charl_free(set->param);
    charl_free(set->place);
    charl__buffer_release(set->value);
    charl__buffer_release(set->buffers);
    charl__buffer_release(set->frozen);
    charl__buffer_release(set->half);
    charl__buffer_release(set->frozen_half);
    charl__buffer_release(set->vectors);
    charl__params_free_gradients(set);
    charl_free(set);
}

/* Slot of `name` in the hash table, or where it would be. */
static int *place_of(const charl_params *set, const char *name)
{
    uint64_t at = charl__fnv1a64_string(name);

    for (;; at++) {
        int *place = &set->place[at & (uint64_t)(set->places - 1)];

        if (*place == 0 || strcmp(set->param[*place - 1]->spec.name, name) == 0) {
            return place;
        }
    }
}

/* Make room in the hash table for one more: at most half of it is used. */
static charl_status grow_places(charl_params *set)
{
    const int places = set->places ? 2 * set->places : 64;
    int *more = NULL;

    if (2 * (set->count + 1) <= set->places) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(places, sizeof *more, &more));
    charl_free(set->place);
    set->place = more;
    set->places = places;
    for (int i = 0; i < set->count; i++) {
        *place_of(set, set->param[i]->spec.name) = i + 1;
    }
    return CHARL_OK;
}

static charl_status check_init(const charl_param_spec *spec)
{
    char name[300];

    snprintf(name, sizeof name, "parameter %s: init.a", spec->name);
    CHARL_TRY(charl__range_check(CHARL_ERR_INVALID, name, (double)spec->init.a, NULL));
    name[strlen(name) - 1] = 'b';
    return charl__range_check(CHARL_ERR_INVALID, name, (double)spec->init.b,
                              spec->init.kind == CHARL_INIT_NORMAL ? "[0,inf)" : NULL);
}

charl_status charl_params_add(charl_params *set, const charl_param_spec *spec, charl_param **out)
{
    CHARL_GIVEN(set, spec, out);
    CHARL_OWNED(&set->owner, "set of parameters");
    charl_param *p = NULL;
    CHARL_SCOPED_FREE char *name = NULL;

    *out = NULL;
    CHARL_REQUIRE(
        charl__text_is_name(spec->name), CHARL_ERR_INVALID,
        "\"%.80s\" cannot be the name of a parameter: checkpoints take 1 to 255 bytes without blanks, control "
        "characters and /",
        spec->name ? spec->name : "");
    CHARL_REQUIRE(!charl_params_find(set, spec->name), CHARL_ERR_INVALID, "parameter %s is declared twice", spec->name);
    CHARL_REQUIRE(!charl__params_is_laid_out(set), CHARL_ERR_INVALID,
                  "parameter %s comes too late: a graph of this set is already compiled", spec->name);
    CHARL_TRY(charl_shape_check(&spec->shape));
    CHARL_TRY(check_init(spec));
    CHARL_TRY(charl__grow(set->count, sizeof *set->param, &set->param));
    CHARL_TRY(grow_places(set));
    CHARL_TRY(charl__strdup(spec->name, &name));
    CHARL_TRY(charl__alloc(sizeof *p, &p));
    p->spec = *spec;
    p->spec.name = name;
    p->settings = (charl_param_settings){.lr_scale = 1.0F, .weight_decay = -1.0F};
    p->set = set;
    p->index = set->count;
    p->offset = -1;
    set->param[set->count++] = p;
    *place_of(set, name) = set->count;
    *out = p;
    name = NULL;
    return CHARL_OK;
}

int charl_params_get_count(const charl_params *set)
{
    return set ? set->count : 0;
}

charl_param *charl_params_get(const charl_params *set, int i)
{
    if (!set) {
        return NULL;
    }
    return i >= 0 && i < set->count ? set->param[i] : NULL;
}

charl_param *charl_params_find(const charl_params *set, const char *name)
{
    if (!set || !name) {
        return NULL;
    }
    const int *place = set->count > 0 ? place_of(set, name) : NULL;

    return place && *place > 0 ? set->param[*place - 1] : NULL;
}

int64_t charl_params_get_elements(const charl_params *set)
{
    if (!set) {
        return 0;
    }
    int64_t n = 0;

    for (int i = 0; i < set->count; i++) {
        if (set->param[i]->spec.trainable) {
            n += charl_shape_count(&set->param[i]->spec.shape);
        }
    }
    return n;
}

int64_t charl__params_frozen(const charl_params *set)
{
    if (!set) {
        return 0;
    }
    int64_t n = 0;

    for (int i = 0; i < set->count; i++) {
        if (set->param[i]->frozen) {
            n += charl_shape_count(&set->param[i]->spec.shape);
        }
    }
    return n;
}

const charl_param_spec *charl_param_get_spec(const charl_param *p)
{
    return p ? &p->spec : NULL;
}

charl_param_settings charl_param_get_settings(const charl_param *p)
{
    return p ? p->settings : (charl_param_settings){0};
}

void charl_param_set_settings(charl_param *p, charl_param_settings settings)
{
    if (!p) {
        return;
    }
    p->settings = settings;
}

bool charl__params_is_laid_out(const charl_params *set)
{
    return set->count > 0 && set->param[0]->offset >= 0;
}

static bool has_match(const charl_params *set, const char *pattern)
{
    for (int i = 0; i < set->count; i++) {
        const charl_param *p = set->param[i];

        if ((p->spec.trainable || p->frozen) && charl__text_matches(pattern, p->spec.name)) {
            return true;
        }
    }
    return false;
}

charl_status charl__params_choose(const charl_params *set, const char *patterns, bool frozen, bool *chosen)
{
    const char *rest = patterns;
    charl__pattern pattern;

    while (charl__pattern_next(&rest, &pattern)) {
        CHARL_REQUIRE(has_match(set, pattern.text), CHARL_ERR_INVALID, "no parameter is called %s%s", pattern.text,
                      set->count == 0 ? "; HINT building the model declares the parameters" : "");
    }
    for (int i = 0; i < set->count; i++) {
        const charl_param *p = set->param[i];

        chosen[i] = (frozen ? p->frozen : p->spec.trainable) && charl__patterns_choose(patterns, p->spec.name);
    }
    return CHARL_OK;
}

static void free_copies(charl_params *set)
{
    for (int i = 0; i < set->count; i++) {
        charl_param *p = set->param[i];

        charl_tensor_release(p->half);
        charl_tensor_release(p->vector);
        p->half = p->vector = NULL;
    }
    charl__buffer_release(set->half);
    charl__buffer_release(set->frozen_half);
    charl__buffer_release(set->vectors);
    set->half = set->frozen_half = set->vectors = NULL;
}

void charl__params_reset(charl_params *set)
{
    for (int i = 0; i < set->count; i++) {
        set->param[i]->offset = -1;
        set->param[i]->n_shares = 0;
    }
    charl__params_free_gradients(set);
    charl__params_free_values(set);
    free_copies(set);
    set->value_elements = set->elements = set->gradient_elements = set->buffer_elements = set->frozen_elements = 0;
    set->has_values = set->is_divided = set->defers = false;
    set->dev = NULL;
}

/* Discard the layout. The values stay in host memory for the next one. */
static charl_status withdraw(charl_params *set)
{
    const bool has_values = set->has_values;
    charl_status st = CHARL_OK;

    for (int i = 0; i < set->count && st == CHARL_OK; i++) {
        charl_param *p = set->param[i];
        float *value = NULL;

        st = charl__alloc_array(charl_shape_count(&p->spec.shape) + 1, sizeof *value, &value);
        st = st == CHARL_OK ? charl_param_read(p, value) : st;
        p->held = value;
    }
    for (int i = 0; i < set->count && st != CHARL_OK; i++) {
        charl_free(set->param[i]->held);
        set->param[i]->held = NULL;
    }
    CHARL_TRY(st);
    charl__params_reset(set);
    set->has_values = has_values;
    return CHARL_OK;
}

/* Freeze the parameters that `patterns` select, or train them again. */
static charl_status change(charl_params *set, const char *patterns, bool freeze, int *count)
{
    CHARL_SCOPED_FREE bool *chosen = NULL;
    int n = 0;

    CHARL_REQUIRE(set->users == 0, CHARL_ERR_INVALID,
                  "parameters %s are %s while %d graphs, optimizers and data-parallel objects use the set; HINT "
                  "destroy these first, and build others afterwards",
                  patterns, freeze ? "frozen" : "unfrozen", set->users);
    CHARL_REQUIRE(!charl__params_is_laid_out(set) || set->packing == CHARL_PACKING_F32, CHARL_ERR_INVALID,
                  "parameters %s are %s too late: packed ones stay as the first graph has found them", patterns,
                  freeze ? "frozen" : "unfrozen");
    CHARL_TRY(charl__alloc_array(set->count + 1, sizeof *chosen, &chosen));
    CHARL_TRY(charl__params_choose(set, patterns, !freeze, chosen));
    if (charl__params_is_laid_out(set)) {
        CHARL_TRY(withdraw(set));
    }
    for (int i = 0; i < set->count; i++) {
        if (chosen[i]) {
            set->param[i]->spec.trainable = !freeze;
            set->param[i]->frozen = freeze;
            n++;
        }
    }
    if (count) {
        *count = n;
    }
    return CHARL_OK;
}

charl_status charl_params_freeze(charl_params *set, const char *patterns, int *count)
{
    CHARL_GIVEN(set, patterns);
    return change(set, patterns, true, count);
}

charl_status charl_params_unfreeze(charl_params *set, const char *patterns, int *count)
{
    CHARL_GIVEN(set, patterns);
    return change(set, patterns, false, count);
}

charl_status charl_params_pack(charl_params *set, charl_packing packing)
{
    CHARL_GIVEN(set);
    CHARL_REQUIRE(!charl__params_is_laid_out(set), CHARL_ERR_INVALID,
                  "parameters are packed too late: a graph of this set is already compiled");
    CHARL_REQUIRE(packing <= CHARL_PACKING_INT4, CHARL_ERR_INVALID, "%d is no charl_packing", (int)packing);
    set->packing = packing;
    return CHARL_OK;
}

static charl__format choose_format(const charl_param *p, charl_dtype precision)
{
    const charl__format half = precision == CHARL_BF16  ? CHARL__FORMAT_BF16
                               : precision == CHARL_F16 ? CHARL__FORMAT_F16
                                                        : CHARL__FORMAT_F32;

    if (!p->frozen || p->set->packing == CHARL_PACKING_F32 || !charl__param_is_halved(p)) {
        return CHARL__FORMAT_F32;
    }
    if (p->spec.embedding || (p->set->packing == CHARL_PACKING_BF16 && half != CHARL__FORMAT_F32)) {
        return half;
    }
    return p->set->packing == CHARL_PACKING_BF16   ? CHARL__FORMAT_BF16
           : p->set->packing == CHARL_PACKING_INT8 ? CHARL__FORMAT_INT8
                                                   : CHARL__FORMAT_NF4;
}

void charl__params_choose_formats(charl_params *set, charl_dtype precision)
{
    CHARL_INVARIANT(!charl__params_is_laid_out(set));
    for (int i = 0; i < set->count; i++) {
        set->param[i]->format = choose_format(set->param[i], precision);
    }
}

int64_t charl__param_bytes(const charl_param *p)
{
    const int64_t n = charl_shape_count(&p->spec.shape);

    return charl__packed_bytes(p->format, n) + charl__packed_scales(p->format, n) * (int64_t)sizeof(float);
}

bool charl_param_is_frozen(const charl_param *p)
{
    return p && p->frozen;
}

static void place(charl_params *set, charl_param *p)
{
    int64_t *end = p->spec.trainable ? &set->elements : p->frozen ? &set->frozen_elements : &set->buffer_elements;

    if (p->format != CHARL__FORMAT_F32) {
        p->offset = 0;
    } else if (p->offset < 0) {
        p->offset = *end;
        *end += charl__param_blocks(p) * CHARL_PARAM_ALIGN;
    }
}

charl_status charl__params_layout(charl_params *set, const int *order, int n_order)
{
    CHARL_REQUIRE(!charl__params_is_laid_out(set), CHARL_ERR_INVALID, "the parameters are already laid out");
    for (int i = 0; i < n_order; i++) {
        CHARL_REQUIRE(order[i] >= 0 && order[i] < set->count, CHARL_ERR_INVALID, "parameter %d of %d", order[i],
                      set->count);
    }
    for (int i = 0; i < n_order; i++) {
        place(set, set->param[order[i]]);
    }
    for (int i = 0; i < set->count; i++) {
        place(set, set->param[i]);
    }
    set->elements = charl__params_pages(set->elements);
    set->gradient_elements = set->elements;
    return CHARL_OK;
}

void charl__params_free_values(charl_params *set)
{
    for (int i = 0; i < set->count; i++) {
        charl_param *p = set->param[i];

        charl_tensor_release(p->value);
        charl_tensor_release(p->codes);
        charl_tensor_release(p->scales);
        p->value = p->codes = p->scales = NULL;
    }
    charl__buffer_release(set->value);
    charl__buffer_release(set->buffers);
    charl__buffer_release(set->frozen);
    set->value = set->buffers = set->frozen = NULL;
}

/* Allocate memory for a packed parameter. */
static charl_status allocate_packed(charl_param *p, charl_device *dev)
{
    const int64_t n = charl_shape_count(&p->spec.shape);
    const char *before = charl__device_set_purpose(dev, "frozen parameters");
    const charl_dtype dtype = p->format == CHARL__FORMAT_BF16  ? CHARL_BF16
                              : p->format == CHARL__FORMAT_F16 ? CHARL_F16
                                                               : CHARL_U8;
    const charl_shape flat = {1, {charl__packed_bytes(p->format, n)}},
                      scales = {1, {charl__packed_scales(p->format, n)}};
    charl_status st = charl_tensor_create(dev, dtype, dtype == CHARL_U8 ? &flat : &p->spec.shape, &p->codes);

    if (st == CHARL_OK && scales.dim[0] > 0) {
        st = charl_tensor_create(dev, CHARL_F32, &scales, &p->scales);
    }
    charl__device_set_purpose(dev, before);
    return st;
}

/* The value that p had before its layout was withdrawn. */
static charl_status restore(charl_param *p)
{
    charl_status st = CHARL_OK;
    float *value = p->held;

    p->held = NULL;
    st = value ? charl_param_write(p, value) : CHARL_OK;
    charl_free(value);
    return st;
}

charl_status charl__params_allocate(charl_params *set, charl_device *dev, charl_dtype dtype)
{
    charl_status st = CHARL_OK;

    CHARL_INVARIANT(charl__params_is_laid_out(set) && !set->dev);
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, (size_t)set->buffer_elements * 4, "running statistics", &set->buffers));
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, (size_t)set->frozen_elements * 4, "frozen parameters", &set->frozen));
    for (int i = 0; i < set->count; i++) {
        charl_param *p = set->param[i];

        if (p->format != CHARL__FORMAT_F32) {
            CHARL_TRY_CLEANUP(allocate_packed(p, dev));
        } else if (!p->spec.trainable) {
            CHARL_TRY_CLEANUP(charl__tensor_view(p->frozen ? set->frozen : set->buffers, CHARL_F32, &p->spec.shape,
                                                 p->offset, &p->value));
        }
    }
    set->dev = dev;
    for (int i = 0; i < set->count && st == CHARL_OK; i++) {
        st = set->param[i]->spec.trainable ? CHARL_OK : restore(set->param[i]);
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(dtype == CHARL_F32 ? CHARL_OK : charl__params_use_half(set, dtype));
    CHARL_TRY_CLEANUP(set->defers ? CHARL_OK : charl__params_place(set));
cleanup:
    if (st != CHARL_OK) {
        charl__params_free_values(set);
        free_copies(set);
        set->dev = NULL;
    }
    return st;
}

/* The working copy of the trainable parameters, for a set that has one of the frozen ones, if any. */
static charl_status place_half(charl_params *set)
{
    CHARL_TRY(charl__buffer_create(set->dev, (size_t)set->value_elements * charl_dtype_size(set->half_type),
                                   "working copy of the parameters", &set->half));
    for (int i = 0; i < set->count && !set->is_divided; i++) {
        charl_param *p = set->param[i];

        if (p->spec.trainable && charl__param_is_halved(p)) {
            CHARL_TRY(charl__tensor_view(set->half, set->half_type, &p->spec.shape, p->offset, &p->half));
        }
    }
    return charl__params_refresh(set);
}

/* Whether graphs read p in f32 although there is a working copy. */
static bool is_vector(const charl_param *p)
{
    return p->spec.trainable && !charl__param_is_halved(p);
}

/* The copies of vectors whose values are offloaded; those of a divided set are gathered. */
static charl_status place_vectors(charl_params *set)
{
    int64_t end = 0;

    if (!charl__params_are_offloaded(set) || set->is_divided) {
        return CHARL_OK;
    }
    for (int i = 0; i < set->count; i++) {
        end += is_vector(set->param[i]) ? charl__param_blocks(set->param[i]) * CHARL_PARAM_ALIGN : 0;
    }
    CHARL_TRY(charl__buffer_create(set->dev, (size_t)end * 4, "working copy of the parameters", &set->vectors));
    end = 0;
    for (int i = 0; i < set->count; i++) {
        charl_param *p = set->param[i];

        if (is_vector(p)) {
            CHARL_TRY(charl__tensor_view(set->vectors, CHARL_F32, &p->spec.shape, end, &p->vector));
            end += charl__param_blocks(p) * CHARL_PARAM_ALIGN;
        }
    }
    return CHARL_OK;
}

charl_status charl__params_place(charl_params *set)
{
    if (set->value) {
        return CHARL_OK;
    }
    set->value_elements = set->is_divided ? charl__params_count(set->own) : set->elements;
    CHARL_TRY((set->frozen_half ? charl__buffer_create_offloaded : charl__buffer_create)(
        set->dev, (size_t)set->value_elements * 4, "parameters", &set->value));
    for (int i = 0; i < set->count; i++) {
        charl_param *p = set->param[i];

        if (p->spec.trainable && !set->is_divided) {
            CHARL_TRY(charl__tensor_view(set->value, CHARL_F32, &p->spec.shape, p->offset, &p->value));
        }
    }
    CHARL_TRY(place_vectors(set));
    CHARL_TRY(set->frozen_half ? place_half(set) : CHARL_OK);
    for (int i = 0; i < set->count; i++) {
        CHARL_TRY(set->param[i]->spec.trainable ? restore(set->param[i]) : CHARL_OK);
    }
    return CHARL_OK;
}

int64_t charl__params_count(const charl__param_ranges *ranges)
{
    int64_t n = 0;

    for (int i = 0; i < ranges->n; i++) {
        n += ranges->range[i].count;
    }
    return n;
}

int64_t charl__params_at(const charl_params *set, int64_t at)
{
    int64_t before = 0;

    for (int i = 0; set->is_divided && i < set->own->n; i++) {
        const charl__param_range r = set->own->range[i];

        if (at >= r.begin && at < r.begin + r.count) {
            return before + at - r.begin;
        }
        before += r.count;
    }
    return at;
}

bool charl__params_part(const charl__param_ranges *ranges, int64_t offset, int64_t n, int64_t *from, int64_t *to,
                        int64_t *at)
{
    const int64_t begin = offset + *to, end = offset + n;
    int64_t before = 0;

    for (int i = 0; i < ranges->n; i++) { /* ascending */
        const charl__param_range r = ranges->range[i];
        const int64_t a = r.begin > begin ? r.begin : begin;
        const int64_t b = r.begin + r.count < end ? r.begin + r.count : end;

        if (a < b) {
            *from = a - offset;
            *to = b - offset;
            *at = before + a - r.begin;
            return true;
        }
        before += r.count;
    }
    return false;
}

bool charl__param_part(const charl_param *p, const charl__param_ranges *ranges, int64_t *from, int64_t *to, int64_t *at)
{
    return charl__params_part(ranges, p->offset, charl_shape_count(&p->spec.shape), from, to, at);
}

size_t charl__param_unit(const charl_param *p)
{
    return p->set->frozen_half && charl__param_is_halved(p) ? charl_dtype_size(p->set->half_type) : sizeof(float);
}

static charl_status copy_values(charl_params *set, charl__buffer *to)
{
    const charl_shape all = {1, {set->elements}};
    CHARL_SCOPED(charl__tensor_left) charl_tensor *dst = NULL, *src = NULL;

    CHARL_TRY(charl__tensor_view(set->value, CHARL_F32, &all, 0, &src));
    CHARL_TRY(charl__tensor_view(to, CHARL_F32, &all, 0, &dst));
    CHARL_TRY(charl_tensor_copy(src, dst));
    CHARL_TRY(charl_device_sync(set->dev));
    return CHARL_OK;
}

charl_status charl__params_move(charl_params *set, float *memory)
{
    const size_t bytes = (size_t)set->elements * 4;
    CHARL_SCOPED(charl__buffer_left) charl__buffer *to = NULL;

    if (set->elements == 0) {
        return CHARL_OK;
    }
    if (memory) {
        CHARL_TRY(charl__buffer_wrap(set->dev, memory, bytes, &to));
    } else {
        CHARL_TRY(charl__buffer_create(set->dev, bytes, "parameters", &to));
    }
    CHARL_TRY(copy_values(set, to));
    for (int i = 0; i < set->count; i++) {
        charl_param *p = set->param[i];
        charl_tensor *view;

        if (p->spec.trainable) {
            CHARL_TRY(charl__tensor_view(to, CHARL_F32, &p->spec.shape, p->offset, &view));
            charl_tensor_release(p->value);
            p->value = view;
        }
    }
    charl__buffer_release(set->value);
    set->value = to;
    to = NULL;
    return CHARL_OK;
}

bool charl__param_is_halved(const charl_param *p)
{
    return (p->spec.trainable || p->frozen) && p->spec.shape.ndim > 1;
}

/* Of frozen parameters. */
static charl_status view_half(charl_params *set)
{
    for (int i = 0; i < set->count; i++) {
        charl_param *p = set->param[i];

        if (p->codes && p->codes->dtype == set->half_type) {
            p->half = charl_tensor_retain(p->codes);
        } else if (p->frozen && charl__param_is_halved(p) && !p->codes) { /* later changes are charl_param_write's */
            CHARL_TRY(charl__tensor_view(set->frozen_half, set->half_type, &p->spec.shape, p->offset, &p->half));
            CHARL_TRY(charl__tensor_convert(p->value, p->half));
        }
    }
    return CHARL_OK;
}

charl_status charl__params_use_half(charl_params *set, charl_dtype dtype)
{
    CHARL_INVARIANT(set->dev);
    if (!set->frozen_half) {
        CHARL_REQUIRE(!set->optimizers, CHARL_ERR_INVALID,
                      "the optimizer of these parameters updates no copy in %s; HINT compile the graphs in %s before "
                      "charl_optimizer_create",
                      charl_dtype_name(dtype), charl_dtype_name(dtype));
        CHARL_REQUIRE(!set->is_divided || !set->value, CHARL_ERR_INVALID,
                      "the parameters are sharded over ranks in f32, and the graph takes them in %s; HINT compile all "
                      "their graphs in one precision",
                      charl_dtype_name(dtype));
        set->half_type = dtype;
        CHARL_TRY(charl__buffer_create(set->dev, (size_t)set->frozen_elements * charl_dtype_size(dtype),
                                       "working copy of frozen parameters", &set->frozen_half));
        CHARL_TRY(view_half(set));
        CHARL_TRY(set->value ? place_half(set) : CHARL_OK);
    }
    CHARL_REQUIRE(set->half_type == dtype, CHARL_ERR_INVALID, "the working copy of these parameters is %s, not %s",
                  charl_dtype_name(set->half_type), charl_dtype_name(dtype));
    return CHARL_OK;
}

charl_status charl__params_refresh(charl_params *set)
{
    const charl_shape all = {1, {set->value_elements}};
    CHARL_SCOPED(charl__tensor_left) charl_tensor *half = NULL, *value = NULL;

    if (!set->half || set->value_elements == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__tensor_view(set->value, CHARL_F32, &all, 0, &value));
    CHARL_TRY(charl__tensor_view(set->half, set->half_type, &all, 0, &half));
    CHARL_TRY(charl__tensor_convert(value, half));
    return charl__params_refresh_vectors(set);
}

charl_status charl__params_refresh_vectors(charl_params *set)
{
    for (int i = 0; set->vectors && i < set->count; i++) {
        const charl_param *p = set->param[i];

        CHARL_TRY(p->vector ? charl_tensor_copy(p->value, p->vector) : CHARL_OK);
    }
    return CHARL_OK;
}

static charl_status arena_get(charl_params *set, size_t bytes, const char *what, float *host, charl__buffer *made,
                              charl__buffer **out)
{
    if (made) {
        *out = charl__buffer_retain(made);
        return CHARL_OK;
    }
    return host ? charl__buffer_wrap(set->dev, host, bytes, out) : charl__buffer_create(set->dev, bytes, what, out);
}

charl_status charl__params_allocate_gradients(charl_params *set, int n_lanes, bool whole,
                                              const charl__gradient_memory *memory)
{
    charl_status st = CHARL_OK;
    const size_t bytes = (size_t)set->gradient_elements * 4;
    const charl__gradient_memory m = memory ? *memory : (charl__gradient_memory){.lanes = NULL};

    CHARL_INVARIANT(set->dev && !set->grad && n_lanes >= 1);
    CHARL_TRY_CLEANUP(arena_get(set, bytes * (size_t)n_lanes, "gradients", m.lanes, m.lanes_buffer, &set->grad));
    if (whole) {
        set->sum = charl__buffer_retain(set->grad);
    } else {
        CHARL_TRY_CLEANUP(arena_get(set, bytes, "summed gradients", m.sum, m.sum_buffer, &set->sum));
    }
    set->n_lanes = n_lanes;
cleanup:
    if (st != CHARL_OK) {
        charl__params_free_gradients(set);
    }
    return st;
}

void charl__params_free_gradients(charl_params *set)
{
    charl__buffer_release(set->grad);
    charl__buffer_release(set->sum);
    set->grad = set->sum = NULL;
    set->is_part = set->is_joined = false;
}

/* Initial values of a parameter, in blocks. */
typedef struct drawing {
    const charl_init *init;
    charl__rng rng;
    int64_t n;
    float *v;
} drawing;

static void draw_block(void *ctx, int64_t block)
{
    const drawing *d = ctx;
    const float a = d->init->a, b = d->init->b;
    const int64_t begin = block * DRAWN, left = d->n - begin;
    const int64_t end = begin + (left < DRAWN ? left : DRAWN);

    for (int64_t i = begin; i < end; i++) {
        switch (d->init->kind) {
        case CHARL_INIT_CONSTANT:
            d->v[i] = a;
            break;
        case CHARL_INIT_UNIFORM:
            d->v[i] = a + (b - a) * charl__rng_uniform(&d->rng, (uint64_t)i);
            break;
        case CHARL_INIT_NORMAL:
            d->v[i] = a + b * (float)charl__rng_normal(&d->rng, (uint64_t)i);
            break;
        }
    }
}

static void draw(const charl_param_spec *spec, uint64_t seed, float *v)
{
    drawing d = {.init = &spec->init,
                 .rng = charl__rng_key(seed, 0, charl__fnv1a64_string(spec->name)),
                 .n = charl_shape_count(&spec->shape),
                 .v = v};

    charl__parallel((d.n + DRAWN - 1) / DRAWN, draw_block, &d);
}

charl_status charl_params_initialize(charl_params *set, uint64_t seed)
{
    CHARL_GIVEN(set);
    CHARL_SCOPED_FREE float *v = NULL;

    CHARL_TRY(charl__device_enter(set->dev));
    CHARL_REQUIRE(set->dev || set->count == 0, CHARL_ERR_INVALID,
                  "the parameters have no memory yet; HINT compile a graph of the set first");
    for (int i = 0; i < set->count; i++) {
        charl_param *p = set->param[i];

        CHARL_TRY(charl__alloc_array(charl_shape_count(&p->spec.shape), sizeof *v, &v));
        draw(&p->spec, seed, v);
        CHARL_TRY(charl_param_write(p, v));
        charl_free(v);
        v = NULL;
    }
    return CHARL_OK;
}

/* Copy between `values` and the device, to it if `writes`: in host memory packed values are codes, then scales. */
static charl_status copy_packed(const charl_param *p, float *values, bool writes)
{
    const int64_t n = charl_shape_count(&p->spec.shape);
    const size_t bytes = charl__tensor_bytes(p->codes);
    CHARL_SCOPED_FREE unsigned char *codes = NULL;
    float *scales;

    CHARL_TRY(charl__alloc_large(bytes + 4 + (size_t)charl__param_bytes(p), &codes));
    scales = (float *)(void *)(codes + (bytes + 3) / 4 * 4);
    if (writes) {
        charl__pack(p->format, values, n, codes, scales);
    }
    CHARL_TRY(writes ? charl_tensor_write(p->codes, codes, bytes) : charl_tensor_read(p->codes, codes, bytes));
    if (p->scales) {
        const size_t size = charl__tensor_bytes(p->scales);

        CHARL_TRY(writes ? charl_tensor_write(p->scales, scales, size) : charl_tensor_read(p->scales, scales, size));
    }
    if (!writes) {
        charl__unpack(p->format, codes, scales, n, values);
    }
    return CHARL_OK;
}

/* Copy the own elements of a divided parameter to the device, or from there. */
static charl_status copy_own(const charl_param *p, float *values, bool writes)
{
    const charl_params *set = p->set;
    int64_t from, to = 0, at;

    CHARL_REQUIRE(set->value, CHARL_ERR_INVALID,
                  "parameter %s has no memory yet; HINT compile the graphs of its set with charl_data_parallel_compile "
                  "first",
                  p->spec.name);
    while (charl__param_part(p, set->own, &from, &to, &at)) {
        const charl_shape part = {1, {to - from}};
        CHARL_SCOPED(charl__tensor_left) charl_tensor *value = NULL, *half = NULL;

        CHARL_TRY(charl__tensor_view(set->value, CHARL_F32, &part, at, &value));
        CHARL_TRY((writes ? charl_tensor_write(value, values + from, charl__tensor_bytes(value))
                          : charl_tensor_read(value, values + from, charl__tensor_bytes(value))));
        if (writes && set->half) {
            CHARL_TRY(charl__tensor_view(set->half, set->half_type, &part, at, &half));
            CHARL_TRY(charl__tensor_convert(value, half));
        }
    }
    return CHARL_OK;
}

charl_status charl_param_write(charl_param *p, const float *src)
{
    CHARL_GIVEN(p, src);
    CHARL_TRY(charl__device_enter(p->set->dev));
    p->set->has_values = true;
    if (p->codes) {
        CHARL_TRY(copy_packed(p, (float *)(uintptr_t)src, true));
        p->source_crc32c = charl__crc32c(0, src, (size_t)charl_shape_count(&p->spec.shape) * sizeof *src);
        return CHARL_OK;
    }
    if (p->held) {
        memcpy(p->held, src, (size_t)charl_shape_count(&p->spec.shape) * sizeof *src);
        return CHARL_OK;
    }
    if (charl__param_is_divided(p)) {
        p->set->is_changed = true;
        return copy_own(p, (float *)(uintptr_t)src, true);
    }
    CHARL_REQUIRE(p->value, CHARL_ERR_INVALID, "parameter %s has no memory yet; HINT compile a graph of its set first",
                  p->spec.name);
    CHARL_TRY(charl_tensor_write(p->value, src, charl__tensor_bytes(p->value)));
    if (p->half) {
        CHARL_TRY(charl__tensor_convert(p->value, p->half));
    }
    if (p->vector) {
        CHARL_TRY(charl_tensor_copy(p->value, p->vector));
    }
    return CHARL_OK;
}

charl_status charl_param_read_gradient(const charl_param *p, float *dst)
{
    CHARL_GIVEN(p, dst);
    CHARL_TRY(charl__device_enter(p->set->dev));
    const size_t bytes = (size_t)charl_shape_count(&p->spec.shape) * sizeof *dst;

    CHARL_REQUIRE(!p->set->parts, CHARL_ERR_INVALID,
                  "parameter %s: its gradient is sharded over ranks; HINT charl_data_parallel_options.shard = "
                  "CHARL_SHARD_OPTIMIZER keeps it whole",
                  p->spec.name);
    CHARL_REQUIRE(p->spec.trainable && p->set->sum, CHARL_ERR_INVALID,
                  "parameter %s has no gradient: it is not trainable, or no training graph of its set is compiled",
                  p->spec.name);
    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, p->set->sum, (size_t)p->offset * sizeof *dst, dst, bytes, true));
    return CHARL_OK;
}

charl_status charl_param_read(const charl_param *p, float *dst)
{
    CHARL_GIVEN(p, dst);
    CHARL_TRY(charl__device_enter(p->set->dev));
    if (p->codes) {
        return copy_packed(p, dst, false);
    }
    if (p->held) {
        memcpy(dst, p->held, (size_t)charl_shape_count(&p->spec.shape) * sizeof *dst);
        return CHARL_OK;
    }
    CHARL_REQUIRE(!charl__param_is_divided(p), CHARL_ERR_INVALID,
                  "parameter %s is sharded over ranks; HINT charl_training_save collects it, if its part has the "
                  "charl_data_parallel; charl_data_parallel_options.shard = CHARL_SHARD_GRADIENTS keeps it whole",
                  p->spec.name);
    CHARL_REQUIRE(p->value, CHARL_ERR_INVALID, "parameter %s has no memory yet; HINT compile a graph of its set first",
                  p->spec.name);
    CHARL_TRY(charl_tensor_read(p->value, dst, charl__tensor_bytes(p->value)));
    return CHARL_OK;
}

charl_status charl__param_read_own(const charl_param *p, float *dst)
{
    return charl__param_is_divided(p) ? copy_own(p, dst, false) : charl_param_read(p, dst);
}

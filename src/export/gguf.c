/* Language models as GGUF, the format of llama.cpp: metadata, the list of tensors, and from a multiple of 32 bytes on their values, each at such
 * a multiple. A row of the table below says how llama.cpp calls a layout of Hugging Face; tensors have names of its own.
 *
 * llama.cpp's "llama" rotates neighbours where the layout rotates halves of a head, so the rows of queries and keys are interleaved for it. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "charl/data_schema.h"
#include "data/tokenizer/gguf.h"
#include "export/folder.h"
#include "io/commit.h"
#include "io/schema.h"
#include "io/tensors/safetensors.h"

enum { ALIGN = 32, BLOCK = 32 /* elements of q8_0 with one scale */, BLOCK_BYTES = 2 + BLOCK };

/* Element types. */
typedef enum element { F32 = 0, F16 = 1, Q8_0 = 8 } element;

static const struct architecture {
    const char *layout, *name;
    bool interleaves;
    charl_block_mlp mlp; /* the only one that it has */
} architectures[] = {
    {"gpt2", "gpt2", false, CHARL_BLOCK_GELU_TANH}, {"llama", "llama", true, CHARL_BLOCK_SWIGLU},
    {"mistral", "llama", true, CHARL_BLOCK_SWIGLU}, {"qwen2", "qwen2", false, CHARL_BLOCK_SWIGLU},
    {"qwen3", "qwen3", false, CHARL_BLOCK_SWIGLU},
};

/* Names of tensors, without weight or bias at their end. */
static const char *const names[][2] = {
    {"model.embed_tokens.", "token_embd."},
    {"model.norm.", "output_norm."},
    {"lm_head.", "output."},
    {"model.layers.#.input_layernorm.", "blk.#.attn_norm."},
    {"model.layers.#.self_attn.q_proj.", "blk.#.attn_q."},
    {"model.layers.#.self_attn.k_proj.", "blk.#.attn_k."},
    {"model.layers.#.self_attn.v_proj.", "blk.#.attn_v."},
    {"model.layers.#.self_attn.o_proj.", "blk.#.attn_output."},
    {"model.layers.#.self_attn.q_norm.", "blk.#.attn_q_norm."},
    {"model.layers.#.self_attn.k_norm.", "blk.#.attn_k_norm."},
    {"model.layers.#.post_attention_layernorm.", "blk.#.ffn_norm."},
    {"model.layers.#.mlp.gate_proj.", "blk.#.ffn_gate."},
    {"model.layers.#.mlp.up_proj.", "blk.#.ffn_up."},
    {"model.layers.#.mlp.down_proj.", "blk.#.ffn_down."},
    {"transformer.wte.", "token_embd."},
    {"transformer.wpe.", "position_embd."},
    {"transformer.ln_f.", "output_norm."},
    {"transformer.h.#.ln_1.", "blk.#.attn_norm."},
    {"transformer.h.#.attn.c_attn.", "blk.#.attn_qkv."},
    {"transformer.h.#.attn.c_proj.", "blk.#.attn_output."},
    {"transformer.h.#.ln_2.", "blk.#.ffn_norm."},
    {"transformer.h.#.mlp.c_fc.", "blk.#.ffn_up."},
    {"transformer.h.#.mlp.c_proj.", "blk.#.ffn_down."},
};

/* A file while it is written. */
typedef struct writer {
    charl__folder f;
    const struct architecture *arch;
    const charl_gpt_config *model;
    element matrices; /* the type of matrices; the rest is f32 */
    charl__folder_weight *weights;
    int64_t n_weights;
    charl__gguf meta;
    charl__text list; /* of tensors */
    uint64_t n, bytes;
    charl__commit out;
} writer;

static void writer_fini(writer *w)
{
    w->f.e.r = NULL; /* the caller closes it */
    charl__folder_fini(&w->f);
    charl_free(w->weights);
    charl__text_fini(&w->meta.text);
    charl__text_fini(&w->list);
}

static charl_status choose(writer *w)
{
    const char *path = w->f.e.path;
    const size_t length = strlen(path);

    CHARL_TRY(charl__folder_choose(&w->f));
    w->model = w->f.settings;
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        w->arch = strcmp(architectures[i].layout, w->f.layout->row.name) == 0 ? &architectures[i] : w->arch;
    }
    CHARL_REQUIRE(
        w->arch, CHARL_ERR_CONFIG,
        "%s: the model is a %s, which charl does not write as GGUF; gpt2, llama, mistral, qwen2 and qwen3 are "
        "written",
        path, w->f.layout->row.name);
    CHARL_REQUIRE(w->model->mlp == w->arch->mlp, CHARL_ERR_CONFIG,
                  "%s: llama.cpp's %s has the mlp %s, and the model another", path, w->arch->name,
                  w->arch->mlp == CHARL_BLOCK_SWIGLU ? "swiglu" : "gelu_tanh");
    CHARL_REQUIRE(w->model->form.attention_window == 0 || w->model->form.attention_window >= w->model->block_size,
                  CHARL_ERR_CONFIG, "%s: attention_window = %" PRId64 ": llama.cpp's %s has no sliding window", path,
                  w->model->form.attention_window, w->arch->name);
    w->matrices = length > 9 && strcasecmp(path + length - 9, "-f32.gguf") == 0      ? F32
                  : length > 10 && strcasecmp(path + length - 10, "-q8_0.gguf") == 0 ? Q8_0
                                                                                     : F16;
    return CHARL_OK;
}

/* ------------------------------------------------------------------ metadata */

static charl_status put_number(writer *w, const char *key, int64_t value)
{
    char full[96];

    snprintf(full, sizeof full, "%s.%s", w->arch->name, key);
    CHARL_REQUIRE(value >= 0 && value <= UINT32_MAX, CHARL_ERR_CONFIG, "%s is %" PRId64 ", which GGUF cannot hold",
                  full, value);
    return charl__gguf_put_u32(&w->meta, full, (uint32_t)value);
}

static charl_status put_real(writer *w, const char *key, double value)
{
    char full[96];

    snprintf(full, sizeof full, "%s.%s", w->arch->name, key);
    return charl__gguf_put_f32(&w->meta, full, value);
}

static int64_t head_width(const charl_gpt_config *c)
{
    return c->head_dim ? c->head_dim : c->n_embd / c->n_head;
}

static charl_status put_metadata(writer *w)
{
    static const uint32_t file_types[] = {[F32] = 0, [F16] = 1, [Q8_0] = 7};
    const charl_gpt_config *c = w->model;
    const charl_data_schema *schema = charl_checkpoint_get_info(w->f.e.r).schema;
    const bool rms = c->norm == CHARL_BLOCK_RMS_NORM;

    CHARL_TRY(charl__gguf_put_text(&w->meta, "general.architecture", w->arch->name));
    CHARL_TRY(charl__gguf_put_text(&w->meta, "general.name", charl__base_name(w->f.e.path)));
    CHARL_TRY(charl__gguf_put_u32(&w->meta, "general.file_type", file_types[w->matrices]));
    CHARL_TRY(charl__gguf_put_u32(&w->meta, "general.quantization_version", 2));
    if (w->f.e.lock[0]) {
        CHARL_TRY(charl__gguf_put_text(&w->meta, CHARL__EXPORT_LOCK, w->f.e.lock));
    }
    CHARL_TRY(put_number(w, "vocab_size", c->vocab));
    CHARL_TRY(put_number(w, "context_length", c->block_size));
    CHARL_TRY(put_number(w, "embedding_length", c->n_embd));
    CHARL_TRY(put_number(w, "block_count", c->n_layer));
    CHARL_TRY(put_number(w, "feed_forward_length", c->hidden));
    CHARL_TRY(put_number(w, "attention.head_count", c->n_head));
    CHARL_TRY(put_number(w, "attention.head_count_kv", c->n_kv_head ? c->n_kv_head : c->n_head));
    CHARL_TRY(put_real(w, rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", c->norm_eps));
    if (w->arch->mlp == CHARL_BLOCK_SWIGLU) {
        CHARL_TRY(put_number(w, "attention.key_length", head_width(c)));
        CHARL_TRY(put_number(w, "attention.value_length", head_width(c)));
        CHARL_TRY(put_number(w, "rope.dimension_count", head_width(c)));
        CHARL_TRY(put_real(w, "rope.freq_base", c->rope_theta));
    }
    return charl__gguf_put_tokenizer(&w->meta, schema ? schema->tokenizer : NULL, c->vocab);
}

/* ------------------------------------------------------------------ tensors */

/* Rows whose length is no multiple of a block are f16 in a file of q8_0, as llama.cpp has it; positions are f32. */
static element type_of(const writer *w, const char *name, const charl_shape *shape)
{
    return shape->ndim < 2 || strncmp(name, "position_embd.", 14) == 0       ? F32
           : w->matrices == Q8_0 && shape->dim[shape->ndim - 1] % BLOCK != 0 ? F16
                                                                             : w->matrices;
}

static uint64_t bytes_of(element type, int64_t n)
{
    return (uint64_t)(type == F32 ? 4 * n : type == F16 ? 2 * n : n / BLOCK * BLOCK_BYTES);
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static charl_status list_tensor(writer *w, const char *name, const charl_shape *shape)
{
    const element type = type_of(w, name, shape);
    const uint32_t head = (uint32_t)shape->ndim, kind = type;

    CHARL_TRY(charl__gguf_string(&w->list, name, strlen(name)));
    CHARL_TRY(charl__text_append(&w->list, &head, sizeof head));
    for (int i = shape->ndim - 1; i >= 0; i--) {
        const uint64_t extent = (uint64_t)shape->dim[i];

        CHARL_TRY(charl__text_append(&w->list, &extent, sizeof extent));
    }
    CHARL_TRY(charl__text_append(&w->list, &kind, sizeof kind));
    CHARL_TRY(charl__text_append(&w->list, &w->bytes, sizeof w->bytes));
    w->bytes += aligned(bytes_of(type, charl_shape_count(shape)));
    w->n++;
    return CHARL_OK;
}

/* A block of q8_0: the scale as f16, and 32 multiples of it. */
static void quantize(const float *x, unsigned char out[BLOCK_BYTES])
{
    float largest = 0, scale, inverse;
    double rounded;

    for (int i = 0; i < BLOCK; i++) {
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    }
    scale = largest / 127.0f;
    inverse = scale >= FLT_MIN ? 1.0f / scale : 0; /* else the scale is 0 as f16 */
    rounded = (double)scale;
    charl_dtype_encode(CHARL_F16, &rounded, 1, out);
    for (int i = 0; i < BLOCK; i++) {
        out[2 + i] = (unsigned char)(signed char)roundf(x[i] * inverse);
    }
}

static charl_status write_tensor(writer *w, const char *name, const charl_shape *shape, const float *x)
{
    static const unsigned char zeros[ALIGN];
    const element type = type_of(w, name, shape);
    const int64_t n = charl_shape_count(shape);
    const uint64_t bytes = bytes_of(type, n);
    CHARL_SCOPED_FREE unsigned char *packed = NULL;

    for (int64_t i = 0; type != F32 && i < n; i++) {
        CHARL_REQUIRE(fabsf(x[i]) <= (type == F16 ? 65504.0f : 65504.0f * 127.0f), CHARL_ERR_CONFIG,
                      "%s: a value of %s is %g, which %s cannot hold; HINT -o NAME-f32.gguf", w->f.e.path, name,
                      (double)x[i], type == F16 ? "f16" : "q8_0");
    }
    if (type != F32) {
        CHARL_TRY(charl__alloc_array((int64_t)bytes + 1, 1, &packed));
    }
    for (int64_t i = 0; type == F16 && i < n; i++) {
        const double v = (double)x[i];

        charl_dtype_encode(CHARL_F16, &v, 1, packed + 2 * i);
    }
    for (int64_t i = 0; type == Q8_0 && i < n / BLOCK; i++) {
        quantize(x + i * BLOCK, packed + i * BLOCK_BYTES);
    }
    CHARL_TRY(charl__commit_write(&w->out, packed ? (const void *)packed : x, (size_t)bytes));
    return charl__commit_write(&w->out, zeros, (size_t)(aligned(bytes) - bytes));
}

/* Neighbours instead of halves of each head, of rows [heads * width, columns]. */
static void interleave(const float *x, int64_t rows, int64_t columns, int64_t width, float *out)
{
    for (int64_t r = 0; r < rows; r++) {
        const int64_t i = r % width, from = r - i + i / 2 + i % 2 * (width / 2);

        memcpy(out + r * columns, x + from * columns, (size_t)columns * sizeof *x);
    }
}

/* The name of part k of a weight. */
static charl_status name_of(const charl__folder_weight *x, int k, char name[CHARL__LAYOUT_NAME])
{
    const char *theirs = x->rule->theirs[k], *end = strrchr(theirs, '.') + 1;
    char pattern[CHARL__LAYOUT_NAME] = "";

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i][0]) == (size_t)(end - theirs) &&
            strncmp(names[i][0], theirs, (size_t)(end - theirs)) == 0) {
            snprintf(pattern, sizeof pattern, "%s%s", names[i][1], end);
        }
    }
    CHARL_REQUIRE(pattern[0] && charl__layout_expand(pattern, x->block, name), CHARL_ERR_CONFIG,
                  "%s has no name in GGUF", x->own);
    return CHARL_OK;
}

/* The parts of a weight: listed, or with `writes` their values. */
static charl_status put_weight(writer *w, const charl__folder_weight *x, bool writes)
{
    CHARL_SCOPED_FREE float *value = NULL, *turned = NULL;
    int64_t at = 0;

    if (writes) {
        CHARL_TRY(charl__folder_read(&w->f, x, false, &value));
        CHARL_TRY(charl__alloc_array(charl_shape_count(&x->shape) + 1, sizeof *turned, &turned));
    }
    for (int k = 0; k < charl__layout_parts(x->rule); k++) {
        const charl_shape shape =
            x->rule->transposed ? x->shape : charl__layout_part_shape(x->rule, w->f.settings, &x->shape, k);
        const int64_t n = charl_shape_count(&shape);
        char name[CHARL__LAYOUT_NAME];

        CHARL_TRY(name_of(x, k, name));
        if (!writes) {
            CHARL_TRY(list_tensor(w, name, &shape));
        } else if (w->arch->interleaves && (strstr(name, ".attn_q.") || strstr(name, ".attn_k."))) {
            interleave(value + at, shape.dim[0], n / shape.dim[0], head_width(w->model), turned);
            CHARL_TRY(write_tensor(w, name, &shape, turned));
        } else {
            CHARL_TRY(write_tensor(w, name, &shape, value + at));
        }
        at += n;
    }
    return CHARL_OK;
}

/* Llama 3.1's scaling: what the angle of each pair of a head is divided by. */
static charl_status put_angles(writer *w, bool writes)
{
    const charl_gpt_config *c = w->model;
    const int64_t half = head_width(c) / 2;
    const charl_shape shape = {1, {half}};
    CHARL_SCOPED_FREE float *factor = NULL;

    if (c->rope.kind == CHARL_ROPE_SCALING_NONE) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(c->rope.kind == CHARL_ROPE_SCALING_LLAMA3, CHARL_ERR_CONFIG,
                  "%s: the model scales rotary positions in a way that charl does not write as GGUF", w->f.e.path);
    if (!writes) {
        return list_tensor(w, "rope_freqs.weight", &shape);
    }
    CHARL_TRY(charl__alloc_array(half + 1, sizeof *factor, &factor));
    for (int64_t i = 0; i < half; i++) {
        const double wave = 2 * 3.14159265358979323846 * pow(c->rope_theta, (double)i / (double)half);
        const double turns = (double)c->rope.original / wave;
        const double share = (turns - c->rope.low) / (c->rope.high - c->rope.low);

        factor[i] = (float)(turns > c->rope.high  ? 1.0
                            : turns < c->rope.low ? c->rope.factor
                                                  : 1.0 / ((1.0 - share) / c->rope.factor + share));
    }
    return write_tensor(w, "rope_freqs.weight", &shape, factor);
}

static charl_status put_tensors(writer *w, bool writes)
{
    CHARL_TRY(put_angles(w, writes));
    for (int64_t i = 0; i < w->n_weights; i++) {
        CHARL_TRY(put_weight(w, &w->weights[i], writes));
    }
    return CHARL_OK;
}

static charl_status write_file(writer *w)
{
    charl_status st = CHARL_OK;
    static const unsigned char zeros[ALIGN];
    const uint32_t version = 3;
    const uint64_t head = 4 + sizeof version + 16 + w->meta.text.length + w->list.length;

    CHARL_TRY_CLEANUP(charl__commit_begin(w->f.e.path, &w->out));
    CHARL_TRY_CLEANUP(charl__commit_write(&w->out, "GGUF", 4));
    CHARL_TRY_CLEANUP(charl__commit_write(&w->out, &version, sizeof version));
    CHARL_TRY_CLEANUP(charl__commit_write(&w->out, &w->n, sizeof w->n));
    CHARL_TRY_CLEANUP(charl__commit_write(&w->out, &w->meta.n, sizeof w->meta.n));
    CHARL_TRY_CLEANUP(charl__commit_write(&w->out, w->meta.text.data, w->meta.text.length));
    CHARL_TRY_CLEANUP(charl__commit_write(&w->out, w->list.data, w->list.length));
    CHARL_TRY_CLEANUP(charl__commit_write(&w->out, zeros, (size_t)(aligned(head) - head)));
    CHARL_TRY_CLEANUP(put_tensors(w, true));
    CHARL_TRY_CLEANUP(charl__commit_end(&w->out, NULL, NULL));
cleanup:
    charl__commit_fini(&w->out);
    return st;
}

charl_status charl__export_gguf(const charl__export *e)
{
    CHARL_SCOPED(writer_fini) writer w = {.f.e = *e};

    for (int i = 0; i < e->n_overrides; i++) {
        CHARL_REQUIRE(charl__export_base(e->overrides + i, 1), CHARL_ERR_CONFIG,
                      "%s: GGUF holds the model as it is, in which no setting but init.from is changed", e->path);
    }
    CHARL_TRY(choose(&w));
    CHARL_TRY(charl__folder_weights(&w.f, &w.weights, &w.n_weights));
    CHARL_TRY(put_metadata(&w));
    CHARL_TRY(put_tensors(&w, false));
    return write_file(&w);
}

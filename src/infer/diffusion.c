/* Sampling of diffusion models. The rows of a batch are all inputs of the model side by side, as its data have them: the one with noise and the
 * time change from run to run. Arithmetic between runs is double, rounded to f32 once for each element and step. */
#include "charl/diffusion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "base/options.h"
#include "data/image/sample_png.h"
#include "data/prediction_file.h"
#include "infer/inference.h"
#include "io/commit.h"
#include "io/schema.h"
#include "task/task.h"
#include "task/weights/weights.h"

enum { MOST_ROWS = 64 };

typedef struct sampler {
    const char *checkpoint, *file;
    charl_sample_options o;
    charl__session session;
    charl_inference *model;
    charl__diffusion form;
    charl__diffusion_fields at;
    int64_t width, batch; /* numbers of a row; rows of a run */
    float *rows;          /* [batch, width] in units of the data */
    float *outputs;       /* [batch, n_outputs] */
    float *samples;       /* [count, size] normalized, then in units of the data */
} sampler;

static void sampler_fini(sampler *s)
{
    charl_inference_close(s->model);
    charl__session_fini(&s->session);
    charl_free(s->rows);
    charl_free(s->outputs);
    charl_free(s->samples);
}

static bool is_picture(const char *file)
{
    const size_t n = strlen(file);

    return n > 4 && strcmp(file + n - 4, ".png") == 0;
}

static charl_status check_file(const sampler *s)
{
    const size_t n = strlen(s->file);
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(is_picture(s->file) || (n > 3 && strcmp(s->file + n - 3, ".h5") == 0), CHARL_ERR_CONFIG,
                  "%s: samples are written as HDF5 (.h5) or as a picture (.png); HINT name such a file", s->file);
    CHARL_REQUIRE(!is_picture(s->file) || charl__sheet_channels(&s->at.input.shape) > 0, CHARL_ERR_CONFIG,
                  "%s: samples are %s, which no picture shows; HINT name a file .h5", s->file,
                  charl_shape_format(&s->at.input.shape, text));
    return charl__commit_check_inputs(s->file, &s->checkpoint, 1);
}

static charl_status open_model(sampler *s)
{
    CHARL_SCOPED_FREE charl_config_override *overrides = NULL;
    const int n = CHARL__INFERENCE_OVERRIDES + s->o.n_overrides;

    CHARL_TRY(charl__alloc_array(n, sizeof *overrides, &overrides));
    for (int i = 0; i < n; i++) {
        overrides[i] = i < CHARL__INFERENCE_OVERRIDES ? charl__inference_overrides[i]
                                                      : s->o.overrides[i - CHARL__INFERENCE_OVERRIDES];
    }
    CHARL_TRY(charl__session_open_checkpoint(&s->session, s->checkpoint));
    CHARL_TRY(charl__session_read_config(&s->session, overrides, n));
    CHARL_REQUIRE(s->session.config->diffusion.schedule != CHARL__NOISE_NONE &&
                      charl_checkpoint_get_info(s->session.reader).schema,
                  CHARL_ERR_CONFIG,
                  "%s is not a diffusion model; HINT one is trained with diffusion.schedule, as in docs/diffusion.md; "
                  "charl predict runs other models",
                  s->checkpoint);
    CHARL_TRY(charl__data_schema_copy(charl_checkpoint_get_info(s->session.reader).schema, &s->session.schema));
    s->form = charl__task_diffusion(s->session.config);
    return charl__task_diffusion_fields(s->session.config, s->session.schema->fields, &s->at);
}

static charl_status build(sampler *s)
{
    const charl_config *config = s->session.config;
    const charl_device_request r = {sizeof r,
                                    .select = config->device.select,
                                    .local_size = 1,
                                    .share = config->device.share,
                                    .allow_tf32 = config->device.allow_tf32,
                                    .compiling = s->o.compiling,
                                    .compiling_ctx = s->o.ctx};
    const char *group;

    s->width = charl_shape_count(&s->session.schema->x_shape);
    s->batch = s->o.count < MOST_ROWS ? s->o.count : MOST_ROWS;
    CHARL_TRY(charl__weights_group(s->session.reader, s->checkpoint, s->o.ema, &group));
    CHARL_TRY(charl__inference_create(&s->session, s->checkpoint, s->batch, &r, &s->model));
    CHARL_TRY(charl__session_load_weights(&s->session, s->checkpoint, s->o.ema));
    CHARL_TRY(charl__inference_begin(s->model));
    CHARL_TRY(charl__alloc_array(s->batch * s->width, sizeof *s->rows, &s->rows));
    CHARL_TRY(
        charl__alloc_array(s->batch * charl_inference_get_info(s->model).n_outputs, sizeof *s->outputs, &s->outputs));
    CHARL_TRY(charl__alloc_array(s->o.count, (size_t)s->at.input.count * sizeof *s->samples, &s->samples));
    return CHARL_OK;
}

/* "NAME=VALUE" for field f; NULL: none. */
static const char *value_of(const sampler *s, const charl__field *f)
{
    const size_t n = strlen(f->name);

    for (int i = 0; i < s->o.n_inputs; i++) {
        if (strncmp(s->o.inputs[i], f->name, n) == 0 && s->o.inputs[i][n] == '=') {
            return s->o.inputs[i] + n + 1;
        }
    }
    return NULL;
}

/* The values of all inputs but that with noise and the time, which are the same in all rows. */
static charl_status set_inputs(sampler *s)
{
    charl__field f[2 * CHARL__MAX_FIELDS];
    const int n = charl__fields_parse(s->session.schema->fields, f);
    int used = 0;

    for (int i = 0; i < n && !f[i].target; i++) {
        const char *text = value_of(s, &f[i]);
        const bool own = f[i].first == s->at.input.first || f[i].first == s->at.time.first;
        char *end = NULL;
        double v;

        if (own) {
            continue;
        }
        CHARL_REQUIRE(text, CHARL_ERR_CONFIG, "%s: the model has an input %s; HINT --input %s=VALUE", s->checkpoint,
                      f[i].name, f[i].name);
        v = strtod(text, &end);
        CHARL_REQUIRE(end != text && *end == '\0' && isfinite(v), CHARL_ERR_CONFIG, "--input %s=%s is not a number",
                      f[i].name, text);
        CHARL_REQUIRE(f[i].kind != CHARL__FIELD_TOKENS || (v >= 0 && v < (double)f[i].classes && v == floor(v)),
                      CHARL_ERR_CONFIG, "--input %s=%s: the model knows the numbers 0 to %lld", f[i].name, text,
                      (long long)f[i].classes - 1);
        used++;
        for (int64_t r = 0; r < s->batch; r++) {
            for (int64_t k = 0; k < f[i].count; k++) {
                s->rows[r * s->width + f[i].first + k] = (float)v;
            }
        }
    }
    CHARL_REQUIRE(used == s->o.n_inputs, CHARL_ERR_CONFIG,
                  "--input sets each of the other inputs of the model once: it has %d, and %d are given", used,
                  s->o.n_inputs);
    return CHARL_OK;
}

/* One step of n rows x from time t to `next`. */
static charl_status step(sampler *s, float *x, int64_t n, double t, double next)
{
    const int64_t size = s->at.input.count, outputs = charl_inference_get_info(s->model).n_outputs;
    const float *mean = s->session.schema->mean + s->at.input.first, *std = s->session.schema->std + s->at.input.first;
    const charl__output *o;
    charl__outputs all;
    double a, b, a_next, b_next;

    charl__diffusion_mix(&s->form, t, &a, &b);
    charl__diffusion_mix(&s->form, next, &a_next, &b_next);
    CHARL_TRY(charl__config_outputs(s->session.config, s->session.schema->fields, &all));
    o = all.at;
    while (o->target != s->at.target.first) { /* each target is learned by an output */
        o++;
    }
    for (int64_t r = 0; r < n; r++) {
        float *row = s->rows + r * s->width;

        row[s->at.time.first] = (float)t;
        for (int64_t i = 0; i < size; i++) {
            row[s->at.input.first + i] = (float)((double)x[r * size + i] * (double)std[i] + (double)mean[i]);
        }
    }
    CHARL_TRY(charl_inference_run(s->model, s->rows, n, s->outputs));
    for (int64_t r = 0; r < n; r++) {
        for (int64_t i = 0; i < size; i++) {
            const double p = (double)s->outputs[r * outputs + o->first + i], v = (double)x[r * size + i];
            const double noise = s->form.velocity ? b * v + a * p : p;
            const double clean = s->form.velocity ? a * v - b * p : (v - b * p) / a;

            x[r * size + i] = (float)(a_next * clean + b_next * noise);
            CHARL_REQUIRE(isfinite(x[r * size + i]), CHARL_ERR_NONFINITE,
                          "%s: the model's output at time %g is not finite", s->checkpoint, t);
        }
    }
    return CHARL_OK;
}

static charl_status draw(sampler *s)
{
    const int64_t size = s->at.input.count;
    const charl__rng rng = charl__rng_key((uint64_t)s->o.seed, 0, charl__fnv1a64_string("sample"));
    const float *mean = s->session.schema->mean + s->at.input.first, *std = s->session.schema->std + s->at.input.first;

    for (int64_t i = 0; i < s->o.count * size; i++) {
        s->samples[i] = (float)charl__rng_normal(&rng, (uint64_t)i);
    }
    for (int64_t first = 0; first < s->o.count; first += s->batch) {
        const int64_t n = s->o.count - first < s->batch ? s->o.count - first : s->batch;

        for (int64_t k = s->o.steps; k > 0; k--) {
            const double steps = (double)s->o.steps, t = ((double)k - 0.5) / steps;

            CHARL_TRY(step(s, s->samples + first * size, n, t, k > 1 ? t - 1.0 / steps : 0.0));
        }
    }
    for (int64_t i = 0; i < s->o.count * size; i++) {
        s->samples[i] = (float)((double)s->samples[i] * (double)std[i % size] + (double)mean[i % size]);
    }
    return CHARL_OK;
}

charl_status charl_sample(const char *checkpoint, const charl_sample_options *options, const char *file)
{
    CHARL_GIVEN(checkpoint, options, file);
    CHARL__OPTIONS(charl_sample_options, options);
    CHARL_SCOPED(sampler_fini)
    sampler s = {.checkpoint = checkpoint,
                 .file = file,
                 .o = *options,
                 .session = {.infers = true, .warned = options->warned, .warned_ctx = options->ctx}};

    s.o.count = s.o.count > 0 ? s.o.count : 16;
    s.o.steps = s.o.steps > 0 ? s.o.steps : 50;
    CHARL_TRY(open_model(&s));
    CHARL_TRY(check_file(&s));
    s.o.seed = s.o.seed >= 0 ? s.o.seed : s.session.config->run.seed;
    CHARL_TRY(build(&s));
    CHARL_TRY(set_inputs(&s));
    CHARL_TRY(draw(&s));
    return is_picture(file) ? charl__sheet_write(file, &s.at.input.shape, s.samples, s.o.count, 0, 0)
                            : charl__samples_write(file, s.at.input.name, &s.at.input.shape, s.samples, s.o.count);
}

/* The answers of an ensemble are the means of its models' answers: of classes the mean probabilities, which are no softmax of mean outputs. */
#include "infer/ensemble.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "charl/checkpoint.h"
#include "charl/tokenizer.h"
#include "config/config_rows.h"
#include "io/schema.h"
#include "task/evaluation.h"
#include "weights/weights_source.h"

/* Whether tokens have the same numbers. A tokenizer that is too large for a checkpoint is known by its kind only. */
static bool have_same_tokens(const charl_data_schema *a, const charl_data_schema *b)
{
    const int64_t n = a->tokenizer && b->tokenizer ? charl_tokenizer_get_vocab(a->tokenizer) : 0;
    bool same =
        strcmp(a->tokenizer_kind, b->tokenizer_kind) == 0 && (n == 0 || charl_tokenizer_get_vocab(b->tokenizer) == n);

    for (int64_t i = 0; same && i < n; i++) {
        size_t bytes = 0, others = 0;
        const char *token = charl_tokenizer_get_token(a->tokenizer, i, &bytes);
        const char *other = charl_tokenizer_get_token(b->tokenizer, i, &others);

        same = !token == !other && bytes == others && (bytes == 0 || memcmp(token, other, bytes) == 0);
    }
    return same;
}

/* The first difference of what models are given and answer, in words; NULL: there is none. */
static const char *difference(const charl_data_schema *a, const charl_data_schema *b)
{
    return a->x_dtype != b->x_dtype || !charl_shape_equal(&a->x_shape, &b->x_shape)  ? "samples of another form"
           : a->classes != b->classes || strcmp(a->class_names, b->class_names) != 0 ? "other classes"
           : a->kind != b->kind || a->y_dtype != b->y_dtype || !charl_shape_equal(&a->y_shape, &b->y_shape) ||
                   strcmp(a->targets, b->targets) != 0
               ? "other targets"
           : !have_same_tokens(a, b)           ? "tokens of another tokenizer"
           : strcmp(a->fields, b->fields) != 0 ? "other named inputs"
           : strcmp(a->columns, b->columns) != 0 || strcmp(a->recipe, b->recipe) != 0
               ? "other columns, or columns of another import,"
           : strcmp(a->layout, b->layout) != 0 || strcmp(a->fit, b->fit) != 0 ? "images of another layout or fit"
                                                                              : NULL;
}

static charl_status open_member(charl__ensemble_member *m, const charl_config_override *overrides, int n,
                                const charl__session *first)
{
    const charl_data_schema *own;
    const char *what;

    m->session = (charl__session){.infers = true, .warned = first->warned, .warned_ctx = first->warned_ctx};
    CHARL_TRY(charl__session_open_checkpoint(&m->session, m->checkpoint));
    CHARL_TRY(charl__session_read_config(&m->session, overrides, n));
    own = charl_checkpoint_get_info(m->session.reader).schema;
    CHARL_REQUIRE(own, CHARL_ERR_CONFIG,
                  "%s was written by an older charl and does not describe its data, which an ensemble needs",
                  m->checkpoint);
    what = difference(first->schema, own);
    CHARL_REQUIRE(!what, CHARL_ERR_CONFIG, "%s was trained on %s than %s; HINT an ensemble has models of the same data",
                  m->checkpoint, what, first->origin);
    CHARL_TRY(charl__data_schema_copy(own, &m->session.schema));
    charl__data_schema_get_info(m->session.schema, m->checkpoint, &m->session.data);
    charl__session_warn_normalize(&m->session);
    return CHARL_OK;
}

/* Whether two models predict the same quantiles, or both none. */
static bool same_quantiles(const charl_config *a, const charl_config *b)
{
    const charl__loss *of[] = {charl__config_loss(a), charl__config_loss(b)};
    const charl_float_list *p = of[0]->quantiles ? of[0]->quantiles(a->train.loss_settings) : NULL;
    const charl_float_list *q = of[1]->quantiles ? of[1]->quantiles(b->train.loss_settings) : NULL;

    return p && q ? p->count == q->count && memcmp(p->values, q->values, (size_t)p->count * sizeof *p->values) == 0
                  : p == q;
}

/* What the outputs of a session's model mean. */
static const charl__answer *answer_of(const charl__session *s)
{
    const charl__loss *loss = charl__config_loss(s->config);
    charl_dataset_info data;

    charl__data_schema_get_info(s->schema, "", &data);
    return charl__task_answer(loss, charl__task_targets(loss, &data));
}

charl_status charl__ensemble_open(const char *const *checkpoints, int n, const charl_config_override *overrides,
                                  int n_overrides, const charl__session *first, charl__ensemble *e)
{
    CHARL_TRY(charl__alloc_array(n, sizeof *e->member, &e->member));
    CHARL_REQUIRE(n == 0 || !charl__config_has_outputs(first->config), CHARL_ERR_CONFIG,
                  "%s has several named outputs, of which there are no ensembles; HINT predict with one model",
                  first->origin);
    for (int i = 0; i < n; i++) {
        charl__ensemble_member *m = &e->member[i];

        m->checkpoint = checkpoints[i];
        e->n = i + 1;
        CHARL_TRY(open_member(m, overrides, n_overrides, first));
        e->answer = answer_of(first);
        CHARL_REQUIRE(answer_of(&m->session) == e->answer, CHARL_ERR_CONFIG,
                      "%s learned with another loss than %s, so that their outputs do not mean the same", m->checkpoint,
                      first->origin);
        CHARL_REQUIRE(same_quantiles(first->config, m->session.config), CHARL_ERR_CONFIG,
                      "%s predicts other quantiles than %s", m->checkpoint, first->origin);
    }
    return CHARL_OK;
}

void charl__ensemble_warn_rows(const charl__ensemble *e, const charl__session *first)
{
    const charl_config *a = first->config;
    const char *content = charl_checkpoint_get_info(first->reader).state->data_content_id;

    for (int i = 0; i < e->n; i++) {
        const charl__session *s = &e->member[i].session;
        const charl_config *b = s->config;
        const bool same = strcmp(charl_checkpoint_get_info(s->reader).state->data_content_id, content) == 0;
        char text[1200];

        if (same && a->data.fold.k == b->data.fold.k && a->data.fold.n == b->data.fold.n &&
            memcmp(&a->data.val_split, &b->data.val_split, sizeof(double)) == 0) {
            continue;
        }
        snprintf(text, sizeof text,
                 "%.400s was trained %s than %.400s, perhaps on some of these rows, so the metrics may be too good; "
                 "give rows that no model was trained on",
                 e->member[i].checkpoint, same ? "with another fold or split" : "on other data", first->origin);
        charl__session_warn(first, text);
    }
}

charl_status charl__ensemble_build(charl__ensemble *e, int64_t rows, const charl_device_request *request,
                                   charl_ema_choice ema, const charl_inference *first)
{
    const int64_t n_outputs = charl_inference_get_info(first).n_outputs;

    if (e->n == 0) {
        return CHARL_OK;
    }
    e->rows = rows;
    e->n_outputs = n_outputs;
    CHARL_TRY(charl__alloc_array(rows * n_outputs, sizeof *e->outputs, &e->outputs));
    CHARL_TRY(charl__alloc_array((1 + e->n) * rows * n_outputs, sizeof *e->answers, &e->answers));
    CHARL_TRY(charl__alloc_array(n_outputs, sizeof *e->means, &e->means));
    CHARL_TRY(charl__alloc_array(n_outputs, sizeof *e->deviations, &e->deviations));
    for (int i = 0; i < e->n; i++) {
        charl__ensemble_member *m = &e->member[i];

        CHARL_TRY(charl__inference_create(&m->session, m->checkpoint, rows, request, &m->model));
        CHARL_REQUIRE(charl_inference_get_info(m->model).n_outputs == n_outputs, CHARL_ERR_CONFIG,
                      "%s has %lld outputs, and the first model %lld", m->checkpoint,
                      (long long)charl_inference_get_info(m->model).n_outputs, (long long)n_outputs);
        CHARL_TRY(charl__session_load_weights(&m->session, m->checkpoint, ema));
        CHARL_TRY(charl__inference_begin(m->model));
    }
    return CHARL_OK;
}

charl_status charl__ensemble_run(charl__ensemble *e, const charl_inference *first, const void *x, int64_t n,
                                 const float *outputs)
{
    const int64_t block = e->rows * e->n_outputs;

    if (e->n == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_inference_answer(first, outputs, n, e->answers));
    for (int k = 0; k < e->n; k++) {
        charl__ensemble_member *m = &e->member[k];

        CHARL_TRY(charl_inference_run(m->model, x, n, e->outputs));
        for (int64_t i = 0; i < n * e->n_outputs; i++) {
            CHARL_REQUIRE(isfinite(e->outputs[i]), CHARL_ERR_NONFINITE, "%s: the model's output is not finite",
                          m->checkpoint);
        }
        CHARL_TRY(charl_inference_answer(m->model, e->outputs, n, e->answers + (1 + k) * block));
    }
    return CHARL_OK;
}

void charl__ensemble_row(charl__ensemble *e, int64_t i, float *outputs)
{
    const int64_t block = e->rows * e->n_outputs;

    for (int64_t j = 0; j < e->n_outputs; j++) {
        const double *of = e->answers + i * e->n_outputs + j;
        double sum = 0.0, squares = 0.0;

        for (int k = 0; k <= e->n; k++) {
            sum += of[k * block];
        }
        e->means[j] = sum / (1 + e->n);
        for (int k = 0; k <= e->n; k++) {
            squares += (of[k * block] - e->means[j]) * (of[k * block] - e->means[j]);
        }
        e->deviations[j] = sqrt(squares / e->n);
        outputs[j] = (float)e->answer->output(e->means[j]);
    }
}

void charl__ensemble_fini(charl__ensemble *e)
{
    for (int i = 0; i < e->n; i++) {
        charl_inference_close(e->member[i].model);
        charl__session_fini(&e->member[i].session);
    }
    charl_free(e->member);
    charl_free(e->outputs);
    charl_free(e->answers);
    charl_free(e->means);
    charl_free(e->deviations);
    *e = (charl__ensemble){0};
}

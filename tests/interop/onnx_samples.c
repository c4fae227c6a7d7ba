/* onnx_samples DIR: every operator that has an ONNX form, at every sample of its table, as
 * DIR/OPERATOR-K.J.onnx for each output J, with inputs OPERATOR-K.J.inI (f32, u8 or int64, as the
 * model takes them) and the wanted output OPERATOR-K.J.out (f64, by the operator's reference).
 * Prints one line per model, and per sample that an operator refuses. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/onnx/onnx.h"
#include "autograd/check/opcheck.h"
#include "base/alloc.h"

static const char *dir;

static charl_status write_file(const char *stem, const char *ending, const void *data, size_t bytes)
{
    charl_status st = CHARL_OK;
    char path[1024];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s.%s", dir, stem, ending);
    f = fopen(path, "wb");
    CHARL_REQUIRE_CLEANUP(f && fwrite(data, 1, bytes, f) == bytes, CHARL_ERR_DISK, "cannot write %s", path);
cleanup:
    if (f) {
        fclose(f);
    }
    return st;
}

/* Operand i as the ONNX model takes it: i32 is int64 there. */
static charl_status write_input(const charl__op_case *c, const char *stem, int i)
{
    charl_status st = CHARL_OK;
    const charl_dtype dtype = c->in_type[i].dtype == CHARL_I32 ? CHARL_I64 : c->in_type[i].dtype;
    const int64_t n = charl_shape_count(&c->in_type[i].shape);
    void *raw = NULL;
    char ending[16];

    snprintf(ending, sizeof ending, "in%d", i);
    CHARL_TRY_CLEANUP(charl__alloc_array(n, charl_dtype_size(dtype), &raw));
    charl_dtype_encode(dtype, c->in[i], n, raw);
    CHARL_TRY_CLEANUP(write_file(stem, ending, raw, (size_t)n * charl_dtype_size(dtype)));
cleanup:
    charl_free(raw);
    return st;
}

static charl_status no_params(void *ctx, const charl_param *p, float *dst)
{
    (void)ctx;
    (void)p;
    (void)dst;
    return CHARL_OK;
}

static charl_status write_model(const charl__op_case *c, int output, const char *stem)
{
    static const char *const output_name = "out";
    charl_status st = CHARL_OK;
    charl_graph *g = NULL;
    charl_var *in[CHARL_OP_MAX_IN], *out[CHARL_OP_MAX_OUT];
    charl__onnx_model model = {0};
    charl__onnx_export e = {
        .name = c->op->name, .outputs = &out[output], .output_names = &output_name, .n_outputs = 1, .read = no_params};

    CHARL_TRY_CLEANUP(charl_graph_create(NULL, NULL, &g));
    charl_graph_set_training(g, false);
    for (int i = 0; i < c->n_in; i++) {
        char name[16];

        snprintf(name, sizeof name, "in%d", i);
        in[i] = charl_input(g, name, c->in_type[i].dtype, c->in_type[i].shape, c->in_type[i].batch);
    }
    charl__apply(g, c->op, c->sample->attr, in, c->n_in, out);
    CHARL_TRY_CLEANUP(charl_graph_status(g));
    CHARL_TRY_CLEANUP(charl__graph_onnx(g, &e, &model));
    CHARL_TRY_CLEANUP(charl__text_append(&model.head, model.graph.data, model.graph.length));
    CHARL_TRY_CLEANUP(write_file(stem, "onnx", model.head.data, model.head.length));
cleanup:
    charl__text_fini(&model.head);
    charl__text_fini(&model.graph);
    charl_graph_destroy(g);
    return st;
}

/* ONNX has no element type for it here, nothing to compute, or no word on what lies outside of the
 * domain, such as a token outside of the table, where charl says NaN. */
static bool is_left_out(const charl__op_case *c, int output)
{
    bool out = false;

    for (int i = 0; i < c->n_in; i++) {
        out = out || !charl__onnx_dtype(c->in_type[i].dtype) || charl_shape_count(&c->in_type[i].shape) == 0;
    }
    for (int64_t i = 0; i < charl_shape_count(&c->out_type[output].shape); i++) {
        out = out || !isfinite(c->want[output][i]);
    }
    return out || !charl__onnx_dtype(c->out_type[output].dtype);
}

/* Output j of the case as a model. An operator may keep further outputs for its gradient alone. */
static charl_status write_output(const charl__op_case *c, int j, const char *stem)
{
    charl_status st = CHARL_OK;

    if (is_left_out(c, j)) {
        return st;
    }
    st = write_model(c, j, stem);
    if (st == CHARL_ERR_CONFIG) {
        if (j == 0) {
            printf("refused %s: %s\n", stem, charl_error_message());
        }
        st = CHARL_OK;
        return st;
    }
    CHARL_TRY(st);
    for (int i = 0; i < c->n_in; i++) {
        CHARL_TRY(write_input(c, stem, i));
    }
    CHARL_TRY(write_file(stem, "out", c->want[j], (size_t)charl_shape_count(&c->out_type[j].shape) * sizeof(double)));
    printf("model %s\n", stem);
    return st;
}

static charl_status write_sample(const charl__op *op, int k)
{
    charl_status st = CHARL_OK;
    charl__op_case c;
    char stem[128];

    CHARL_TRY_CLEANUP(charl__op_case_create(op, &op->samples[k], CHARL_F32, 1, &c));
    for (int j = 0; j < c.n_out; j++) {
        snprintf(stem, sizeof stem, "%s-%d.%d", op->name, k, j);
        CHARL_TRY_CLEANUP(write_output(&c, j, stem));
    }
cleanup:
    charl__op_case_destroy(&c);
    return st;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: onnx_samples DIR\n");
        return 2;
    }
    dir = argv[1];
    for (int i = 0; i < charl__op_count; i++) {
        const charl__op *op = charl__op_table[i];

        for (int k = 0; charl__onnx_knows(op) && k < op->n_samples; k++) {
            if (write_sample(op, k) != CHARL_OK) {
                fprintf(stderr, "%s, sample %d: %s\n", op->name, k, charl_error_message());
                return 1;
            }
        }
    }
    return 0;
}

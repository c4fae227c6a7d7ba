/* Any number of ranks gives the bits of one: graphs of 1 to 8 ranks over one batch, in one process.
 *
 * Each rank has a parameter set, a graph and its rows. The graphs run in lock step, action by
 * action, and the test is the communicator: a collective adds the lanes of all ranks in tree order.
 */
#include "autograd/batch.h"

#include <math.h>

static void check_layout(const rank *one, const rank *r)
{
    for (int p = 0; p < one->params->count; p++) {
        if (one->params->param[p]->offset != r->params->param[p]->offset) {
            fail_msg("%s lies at %lld with one rank and at %lld with several", one->params->param[p]->spec.name,
                     (long long)one->params->param[p]->offset, (long long)r->params->param[p]->offset);
        }
    }
}

static void read_buffers(const rank *r, float *out, size_t bytes)
{
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, r->params->buffers, 0, out, bytes, true));
}

/* One rank compared with 1 + step, 1 + 2 step, ... of them. */
static void check_model(model_fn model, int step)
{
    rank one, r[TOTAL];
    float *want, want_buffers[256], buffers[256];
    size_t bytes;

    rank_init(&one, model, 0, 1);
    write_inputs(&one);
    run_in_lock_step(&one, 1);
    want = sum_gradients(&one, 1);
    bytes = (size_t)one.params->buffer_elements * sizeof(float);
    assert_true(bytes <= sizeof buffers);
    if (bytes > 0) {
        read_buffers(&one, want_buffers, bytes);
    }
    for (int size = 1 + step; size <= TOTAL; size += step) {
        float *got;

        for (int i = 0; i < size; i++) {
            rank_init(&r[i], model, i, size);
            write_inputs(&r[i]);
            check_layout(&one, &r[i]);
        }
        run_in_lock_step(r, size);
        got = sum_gradients(r, size);
        charl_assert_same_bits(got, want, one.params->elements);
        charl_free(got);
        for (int i = 0; i < size; i++) {
            float a, b;

            charl_assert_ok(charl_tensor_read(charl_var_get_tensor(one.loss), &a, sizeof a));
            charl_assert_ok(charl_tensor_read(charl_var_get_tensor(r[i].loss), &b, sizeof b));
            charl_assert_same_bits(&b, &a, 1);
            if (bytes > 0) {
                read_buffers(&r[i], buffers, bytes);
                assert_memory_equal(buffers, want_buffers, bytes);
            }
            rank_fini(&r[i]);
        }
    }
    charl_free(want);
    rank_fini(&one);
}

static void test_bf16_on_any_ranks(void **state)
{
    static const model_fn models[] = {mlp, cnn, normed_cnn, turned, scaled};

    (void)state;
    for (size_t k = 0; k < sizeof models / sizeof models[0]; k++) {
        float *sum[2];
        rank r[2];
        bool differs = false;

        for (int i = 0; i < 2; i++) {
            reduce_dtype = i ? CHARL_BF16 : CHARL_F32;
            rank_init(&r[i], models[k], 0, 1);
            write_inputs(&r[i]);
            run_in_lock_step(&r[i], 1);
            sum[i] = sum_gradients(&r[i], 1);
        }
        for (int p = 0; p < r[0].params->count; p++) {
            const charl_param *a = r[0].params->param[p], *b = r[1].params->param[p];

            for (int64_t i = 0; a->spec.trainable && i < charl_shape_count(&a->spec.shape); i++) {
                const float x = sum[0][a->offset + i], y = sum[1][b->offset + i];

                assert_true(fabsf(x - y) <= 0.01F * fabsf(x) + 2e-3F);
                differs = differs || x < y || y < x;
            }
        }
        assert_true(differs);
        for (int i = 0; i < 2; i++) {
            charl_free(sum[i]);
            rank_fini(&r[i]);
        }
        check_model(models[k], 4);
    }
    reduce_dtype = CHARL_F32;
}

static void test_mlp_on_any_ranks(void **state)
{
    (void)state;
    check_model(mlp, 1);
}

static void test_cnn_on_any_ranks(void **state)
{
    (void)state;
    check_model(cnn, 1);
}

static void test_batch_norm_on_any_ranks(void **state)
{
    (void)state;
    check_model(normed_cnn, 1);
}

static void test_norm_without_bias_on_any_ranks(void **state)
{
    (void)state;
    check_model(scaled, 4);
}

static void test_moved_gradients_on_any_ranks(void **state)
{
    (void)state;
    check_model(turned, 4);
}

/* Gradients that are whole without being zero: else the tests above would compare nothing. */
static void test_gradients_are_not_zero(void **state)
{
    rank one;
    float *sum;
    static const char *const used[] = {"fc1.weight", "a", "b", "tied.weight", "fc2.weight", "fc2.bias"};

    (void)state;
    rank_init(&one, mlp, 0, 1);
    write_inputs(&one);
    run_in_lock_step(&one, 1);
    sum = sum_gradients(&one, 1);
    for (size_t k = 0; k < sizeof used / sizeof used[0]; k++) {
        const charl_param *p = charl_params_find(one.params, used[k]);
        bool any = false;

        for (int64_t i = 0; i < charl_shape_count(&p->spec.shape); i++) {
            any = any || sum[p->offset + i] != 0.0F;
        }
        assert_true(any);
    }
    assert_memory_equal(sum + charl_params_find(one.params, "a")->offset,
                        sum + charl_params_find(one.params, "b")->offset, 10 * sizeof *sum);
    charl_free(sum);
    rank_fini(&one);
}

static void test_part_of_the_batch_needs_a_collective(void **state)
{
    charl_slices half;
    charl_graph *g;
    charl_var *x;

    (void)state;
    charl_assert_ok(charl_slices_block(2, 0, 2, &half));
    charl_assert_ok(charl_graph_create(dev, &half, &g));
    x = charl_input(g, "x", CHARL_F32, (charl_shape){1, {4}}, CHARL_BATCHED);
    charl_graph_keep(g, charl_batch_mean(g, x));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_message("nothing sums it over ranks");
    charl_graph_destroy(g);
}

typedef struct bucket_log {
    charl_params *params;
    int64_t begin[32], count[32];
    int n;
    float *seen; /* the arena as it was when each bucket was reported */
} bucket_log;

static charl_status log_bucket(void *ctx, int64_t begin, int64_t count)
{
    bucket_log *log = ctx;

    CHARL_INVARIANT(log->n < 32);
    log->begin[log->n] = begin;
    log->count[log->n++] = count;
    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, log->params->grad, (size_t)begin * 4, log->seen + begin,
                                 (size_t)count * 4, true));
    return CHARL_OK;
}

static charl_status refuse_bucket(void *ctx, int64_t begin, int64_t count)
{
    (void)ctx;
    (void)begin;
    (void)count;
    return CHARL_ERR_COMM;
}

/* A weight at both ends, whose gradients are the first and the last but one of a backward pass. */
static charl_var *tied_ends(charl_graph *g, charl_params *set, charl_var *x)
{
    charl_var *w1 = param(g, set, "fc1.weight", (charl_shape){2, {10, 72}});
    charl_var *tied = param(g, set, "tied.weight", (charl_shape){2, {10, 10}});
    charl_var *middle = param(g, set, "middle.weight", (charl_shape){2, {10, 10}});
    charl_var *h = charl_linear(g, charl_flatten(g, x), w1, NULL);

    h = charl_tanh(g, charl_linear(g, h, tied, NULL));
    h = charl_tanh(g, charl_linear(g, h, middle, NULL));
    return charl_linear(g, h, tied, NULL);
}

/* Of rank 0 of `ranks`. */
static void bucket_graph(rank *r, model_fn model, int ranks, charl__ready_fn fn, void *ctx, int64_t elements)
{
    charl_assert_ok(charl_slices_block(TOTAL, 0, ranks, &r->slices));
    charl_assert_ok(charl_params_create(&r->params));
    charl_assert_ok(charl_graph_create(dev, &r->slices, &r->g));
    charl_graph_set_steps(r->g, steps);
    charl__graph_on_ready(r->g, fn, ctx, elements);
    charl__graph_on_collective(r->g, no_collective, NULL);
    r->x = charl_input(r->g, "x", CHARL_F32, (charl_shape){4, {ROWS / ranks, 2, 6, 6}}, CHARL_BATCHED);
    r->y = charl_input(r->g, "y", CHARL_I32, (charl_shape){1, {ROWS / ranks}}, CHARL_BATCHED);
    r->loss = charl_cross_entropy(r->g, model(r->g, r->params, r->x), r->y, NULL, NULL);
    r->loss = charl_batch_mean(r->g, r->loss);
    charl_graph_backward(r->g, r->loss, NULL);
    charl_assert_ok(charl_graph_compile(r->g));
    charl_assert_ok(charl_params_initialize(r->params, 7));
    write_inputs(r);
}

/* Every bucket once, in the order of the arena, and when it is reported what it holds is final. */
static void check_buckets(int64_t elements, int least)
{
    bucket_log log = {0};
    rank r;
    float *final;
    int64_t end = 0;

    bucket_graph(&r, mlp, 1, log_bucket, &log, elements);
    log.params = r.params;
    charl_assert_ok(charl__alloc_array(r.params->elements, sizeof(float), &log.seen));
    charl_assert_ok(charl__steps_push(steps, &(charl__step_params){.seed_lo = 1, .commit = 1}));
    charl_assert_ok(charl_graph_run(r.g));
    final = sum_gradients(&r, 1);
    assert_true(log.n >= least);
    assert_int_equal(log.n, charl__graph_bucket_count(r.g));
    for (int i = 0; i < log.n; i++) {
        int64_t begin, count;

        charl__graph_bucket(r.g, i, &begin, &count);
        assert_int_equal(begin, end);
        assert_int_equal(begin, log.begin[i]);
        assert_int_equal(count, log.count[i]);
        assert_true(count > 0 && (count >= elements || i == log.n - 1));
        end += count;
    }
    for (int i = 0; i < r.params->count; i++) {
        const charl_param *p = r.params->param[i];

        assert_true(p->offset + charl_shape_count(&p->spec.shape) <= end);
    }
    charl_assert_same_bits(log.seen, final, end);
    charl_free(final);
    charl_free(log.seen);
    rank_fini(&r);
}

static void test_buckets(void **state)
{
    (void)state;
    check_buckets(1, 6);
    check_buckets(0, 6); /* as 1 */
    check_buckets(200, 2);
    check_buckets(INT64_MAX, 1);
}

/* Buckets are reported while later launches are not yet enqueued: communication overlaps. */
static void test_buckets_close_early(void **state)
{
    bucket_log log = {0};
    rank r;
    int first = -1, last_replay = -1;

    (void)state;
    bucket_graph(&r, mlp, 1, log_bucket, &log, 1);
    for (int a = 0; a < r.g->n_actions; a++) {
        if (r.g->action[a].kind == CHARL_DO_READY && first < 0) {
            first = a;
        }
        if (r.g->action[a].kind == CHARL_DO_REPLAY) {
            last_replay = a;
        }
    }
    assert_true(first >= 0 && first < last_replay);
    rank_fini(&r);
}

/* What is final first goes first: the share of a weight that lies behind all others in the arena.
 */
static void test_first_final_first_reported(void **state)
{
    bucket_log log = {0};
    rank r;
    const charl_param *tied, *middle;
    float *final;
    int n;

    (void)state;
    bucket_graph(&r, tied_ends, 2, log_bucket, &log, 1);
    log.params = r.params;
    n = charl__graph_bucket_count(r.g);
    charl_assert_ok(charl__alloc_array(r.params->gradient_elements, sizeof(float), &log.seen));
    charl_assert_ok(charl__alloc_array(r.params->gradient_elements, sizeof(float), &final));
    charl_assert_ok(charl__steps_push(steps, &(charl__step_params){.loss_seed = 1, .commit = 1}));
    charl_assert_ok(charl_graph_run(r.g));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, r.params->grad, 0, final,
                                       (size_t)r.params->gradient_elements * sizeof *final, true));
    assert_int_equal(n, 4);
    assert_int_equal(log.n, n);
    for (int i = 0; i < n; i++) {
        assert_true(i == 0 || charl__graph_bucket_left(r.g, i) <= charl__graph_bucket_left(r.g, i - 1));
        charl_assert_same_bits(log.seen + log.begin[i], final + log.begin[i], log.count[i]);
    }
    tied = charl_params_find(r.params, "tied.weight");
    middle = charl_params_find(r.params, "middle.weight");
    assert_true(middle->offset < tied->offset);
    assert_int_equal(log.begin[0], tied->offset);
    assert_int_equal(log.begin[1], middle->offset);
    assert_true(charl__graph_bucket_left(r.g, 0) > 0.5);
    assert_true(charl__graph_bucket_left(r.g, n - 1) < 0.5);
    charl_free(final);
    charl_free(log.seen);
    rank_fini(&r);
}

static void test_callback_failure_ends_the_run(void **state)
{
    rank r;

    (void)state;
    bucket_graph(&r, mlp, 1, refuse_bucket, NULL, 1);
    charl_assert_ok(charl__steps_push(steps, &(charl__step_params){.commit = 1}));
    charl_assert_status(charl_graph_run(r.g), CHARL_ERR_COMM);
    rank_fini(&r);
}

/* A finished value spread over lanes comes back exactly, zeros with their sign. */
static void test_spread_is_exact(void **state)
{
    static const float value[6] = {1.5F, -0.0F, 0.0F, 1e-40F, -3e38F, 7.0F};

    (void)state;
    for (int size = 1; size <= TOTAL; size++) {
        rank r[TOTAL] = {0};
        float *lanes[MAX_LANES_OF_ALL], data[TOTAL][CHARL_MAX_LANES * 6], out[6];
        int lo[MAX_LANES_OF_ALL], m = 0;

        for (int i = 0; i < size; i++) {
            charl_var *x, *y;

            charl_assert_ok(charl_slices_block(TOTAL, i, size, &r[i].slices));
            charl_assert_ok(charl_graph_create(dev, &r[i].slices, &r[i].g));
            x = charl_input(r[i].g, "x", CHARL_F32, (charl_shape){1, {6}}, CHARL_REPLICATED);
            y = charl__apply1(r[i].g, &charl__op_spread, NULL, x);
            charl_graph_keep(r[i].g, y);
            charl_assert_ok(charl_graph_compile(r[i].g));
            charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), value, sizeof value));
            charl_assert_ok(charl_graph_run(r[i].g));
            charl_assert_ok(
                charl_tensor_read(charl_var_get_tensor(y), data[i], (size_t)r[i].slices.n_lanes * sizeof value));
            for (int j = 0; j < r[i].slices.n_lanes; j++) {
                lo[m] = r[i].slices.lane_lo[j];
                lanes[m++] = data[i] + (ptrdiff_t)j * 6;
            }
        }
        add_lanes((const float *const *)lanes, lo, m, 6, out);
        charl_assert_same_bits(out, value, 6);
        for (int i = 0; i < size; i++) {
            charl_graph_destroy(r[i].g);
        }
    }
}

int main(void)
{
    const charl_device_request request = {sizeof request, .local_size = 1};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp_on_any_ranks),
        cmocka_unit_test(test_cnn_on_any_ranks),
        cmocka_unit_test(test_batch_norm_on_any_ranks),
        cmocka_unit_test(test_norm_without_bias_on_any_ranks),
        cmocka_unit_test(test_moved_gradients_on_any_ranks),
        cmocka_unit_test(test_bf16_on_any_ranks),
        cmocka_unit_test(test_gradients_are_not_zero),
        cmocka_unit_test(test_part_of_the_batch_needs_a_collective),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_buckets_close_early),
        cmocka_unit_test(test_first_final_first_reported),
        cmocka_unit_test(test_callback_failure_ends_the_run),
        cmocka_unit_test(test_spread_is_exact),
    };
    int rc;

    if (charl_device_open(&request, &dev) != CHARL_OK || charl__steps_create(dev, 4, &steps) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    charl__steps_destroy(steps);
    charl_device_close(dev);
    if (rc == 0 && charl__live() != 0) {
        fprintf(stderr, "%ld objects are still alive\n", charl__live());
        rc = 1;
    }
    return rc;
}

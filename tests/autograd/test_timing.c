/* CHARL_PROFILE: every launch is timed, direct or replayed, and the table is logged once, when the
 * device goes. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "charl/error.h"
#include "charl/graph.h"
#include "charl/log.h"
#include "charl/ops.h"
#include "charl/tensor.h"

static char logged[4096];

static void keep(void *ctx, charl_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    strncat(logged, message, sizeof logged - strlen(logged) - 2);
    strncat(logged, "\n", sizeof logged - strlen(logged) - 1);
}

/* Layers of one stack, and one beside it. */
static void add_layers(charl_graph *g)
{
    static const char *const layers[] = {"h.0.fc1", "h.17.fc1", "h2"};
    charl_var *x = charl_input(g, "x", CHARL_F32, (charl_shape){1, {1000}}, CHARL_REPLICATED);

    for (int i = 0; i < 3; i++) {
        charl_graph_scope_begin(g, layers[i]);
        charl_graph_keep(g, charl_softmax(g, x));
        charl_graph_scope_end(g);
    }
}

/* A tensor is filled twice, and the graph runs twice: its second run is a replay. */
static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    const charl_device_request request = {sizeof request, .local_size = 1};
    charl_device *dev = NULL;
    charl_tensor *t = NULL;
    charl_graph *g = NULL;

    (void)ctx;
    CHARL_TRY_CLEANUP(charl_device_open(&request, &dev));
    CHARL_TRY_CLEANUP(charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {1000}}, &t));
    CHARL_TRY_CLEANUP(charl_tensor_fill(t, 1.0));
    CHARL_TRY_CLEANUP(charl_tensor_fill(t, 2.0));
    CHARL_TRY_CLEANUP(charl_graph_create(dev, NULL, &g));
    add_layers(g);
    CHARL_TRY_CLEANUP(charl_graph_compile(g));
    CHARL_TRY_CLEANUP(charl_graph_run(g));
    CHARL_TRY_CLEANUP(charl_graph_run(g));
cleanup:
    charl_graph_destroy(g);
    charl_tensor_release(t);
    charl_device_close(dev);
    return st;
}

/* The line of the table with `what`, which is not in two. */
static const char *line_of(const char *what)
{
    static char line[256];
    const char *at = strstr(logged, what), *begin;

    assert_non_null(at);
    assert_null(strstr(at + 1, what));
    for (begin = at; begin > logged && begin[-1] != '\n'; begin--) {
    }
    snprintf(line, sizeof line, "%.*s", (int)strcspn(begin, "\n"), begin);
    return line;
}

static void test_table(void **state)
{
    (void)state;
    charl_test_env_set("CHARL_PROFILE", "1");
    charl_log_set_callback(keep, NULL);
    charl_log_set_level(CHARL_LOG_INFO);
    logged[0] = '\0';
    charl_assert_ok(scenario(NULL));
    assert_non_null(strstr(line_of("  h.*.fc1.softmax ("), "4 x "));
    assert_non_null(strstr(line_of("  h2.softmax ("), "2 x "));
    assert_non_null(strstr(line_of("  all (charl_fill)"), "2 x "));
    assert_non_null(strstr(logged, " ms in ")); /* and so many kernels; to open some devices takes more than the one */
    logged[0] = '\0';
    charl_test_env_set("CHARL_PROFILE", "0");
    charl_assert_ok(scenario(NULL));
    assert_null(strstr(logged, "charl_fill"));
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    charl_test_env_set("CHARL_PROFILE", "1");
    charl_log_set_callback(NULL, NULL);
    charl_test_fail_every_acquisition(scenario, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_every_acquisition_may_fail)};
    charl_device_info info[1];
    int count;

    if (charl_device_list(info, 1, &count) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

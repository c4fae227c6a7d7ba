/* Reports and comparisons of run directories through the library: what they need, what they refuse and write, and that nothing is left when
 * an acquisition fails. What is on a page and in a table is the subject of cli/report and cli/compare. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "charl/report.h"

static char *dir;
static char run[4][512], page[512];

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* A run of 3 steps whose validation loss ends at `loss`. */
static void make_run(int i, int seed, const char *rate, double loss)
{
    char text[2048], path[600];

    snprintf(run[i], sizeof run[i], "%s/run-%d", dir, i);
    assert_int_equal(mkdir(run[i], 0777), 0);
    snprintf(text, sizeof text,
             "{\"event\":\"train\",\"step\":1,\"loss\":2,\"lr\":0.1,\"samples_per_s\":640,\"step_ms\":100,\"elapsed_"
             "s\":0.1,\"time\":1.1}\n"
             "{\"event\":\"train\",\"step\":2,\"loss\":1.5,\"lr\":0.1,\"samples_per_s\":640,\"step_ms\":100,\"elapsed_"
             "s\":0.2,\"time\":1.2}\n"
             "{\"event\":\"train\",\"step\":3,\"loss\":1,\"lr\":0.1,\"samples_per_s\":640,\"step_ms\":100,\"elapsed_"
             "s\":0.3,\"time\":1.3}\n"
             "{\"event\":\"val\",\"step\":3,\"loss\":%g,\"elapsed_s\":0.4,\"time\":1.4}\n",
             loss);
    snprintf(path, sizeof path, "%s/metrics.jsonl", run[i]);
    put(path, text);
    snprintf(text, sizeof text, "[run]\nseed = %d\n[train]\nbatch_size = 64\n[optimizer]\nlearning_rate = %s\n", seed,
             rate);
    snprintf(path, sizeof path, "%s/config.ini", run[i]);
    put(path, text);
}

static int setup(void **state)
{
    (void)state;
    dir = charl_test_tempdir();
    snprintf(page, sizeof page, "%s/report.html", dir);
    make_run(0, 1, "0.1", 0.75);
    make_run(1, 2, "0.1", 0.5);
    make_run(2, 1, "0.2", 0.625);
    make_run(3, 2, "0.2", 0.375);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    charl_test_tempdir_remove(dir);
    assert_int_equal(charl_test_live(), 0);
    return 0;
}

static char *get(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 4 << 20);
    size_t n;

    assert_non_null(f);
    assert_non_null(text);
    n = fread(text, 1, (4 << 20) - 1, f);
    assert_true(n > 0 && n < (4 << 20) - 1);
    fclose(f);
    return text;
}

static bool is_result(void *ctx, const char *key)
{
    (void)ctx;
    return strcmp(key, "optimizer.learning_rate") == 0;
}

static const charl_report_compare_options by_seed = {sizeof by_seed, .by_seed = is_result};

static void test_page(void **state)
{
    const char *runs[] = {run[0], run[2]};
    char *text, *again;

    (void)state;
    charl_assert_ok(charl_report_write(runs, 2, page));
    text = get(page);
    assert_non_null(strstr(text, "run-0"));
    assert_non_null(strstr(text, "run-2"));
    assert_null(strstr(text, "run-1"));
    assert_non_null(strstr(text, "</html>"));
    assert_null(strstr(text, "https://"));              /* it needs no network */
    charl_assert_ok(charl_report_write(runs, 2, page)); /* replaces the page */
    again = get(page);
    assert_int_equal(strlen(again), strlen(text));
    free(text);
    free(again);
}

static void test_tables(void **state)
{
    const char *runs[] = {run[0], run[1], run[2], run[3]};
    char *text = NULL;

    (void)state;
    charl_assert_ok(charl_report_compare(runs, 4, NULL, &text));
    assert_non_null(strstr(text, "optimizer.learning_rate"));
    assert_null(strstr(text, "train.batch_size")); /* alike */
    assert_non_null(strstr(text, "0.375"));
    assert_non_null(strstr(text, "640")); /* samples a second: 64 in 100 ms */
    charl_free(text);
    charl_assert_ok(charl_report_compare(runs, 4, &by_seed, &text)); /* 0.625 - 0.75 and 0.375 - 0.5 */
    assert_non_null(strstr(text, "-0.125"));
    charl_free(text);
}

static void test_refused(void **state)
{
    const char *runs[] = {run[0], dir}, *missing[] = {"no/such/run"}, *one_seed[] = {run[0], run[3]};
    char other[600], *text = NULL;

    (void)state;
    charl_assert_status(charl_report_write(runs, 0, page), CHARL_ERR_INVALID);
    charl_assert_status(charl_report_write(runs, 2, page), CHARL_ERR_DATA); /* a folder without metrics */
    charl_assert_message("is a folder of run directories");
    charl_assert_status(charl_report_write(missing, 1, page), CHARL_ERR_DATA);
    charl_assert_message("no/such/run");
    charl_assert_status(charl_report_compare(missing, 1, NULL, &text), CHARL_ERR_DATA);
    assert_null(text);
    charl_assert_status(charl_report_compare(one_seed, 2, &by_seed, &text), CHARL_ERR_DATA); /* no seed in both */
    snprintf(other, sizeof other, "%s/notes.txt", dir);
    put(other, "not a page\n");
    charl_assert_status(charl_report_write(runs, 1, other), CHARL_ERR_CONFIG);
    text = get(other);
    assert_string_equal(text, "not a page\n");
    free(text);
    snprintf(other, sizeof other, "%s/no/such/folder/report.html", dir);
    charl_assert_status(charl_report_write(runs, 1, other), CHARL_ERR_DISK);
}

static charl_status scenario(void *ctx)
{
    const char *runs[] = {run[0], run[1], run[2], run[3]};
    charl_status st = charl_report_write(runs, 4, page);
    char *text = NULL;

    (void)ctx;
    st = st == CHARL_OK ? charl_report_compare(runs, 4, &by_seed, &text) : st;
    charl_free(text);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(scenario, NULL) > 20);
}

#define TRACE                                                                                                          \
    "{\"traceEvents\":[\n"                                                                                             \
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":\"rank 0\"}},\n"                             \
    "{\"ph\":\"X\",\"name\":\"gemm\",\"pid\":0,\"tid\":1,\"ts\":5,\"dur\":2},\n"                                       \
    "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"args\":{\"labels\":\"charl\"}}\n"                           \
    "],\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"charl\",\"run\":\"%s\",\"zero_s\":%d}}\n"

/* The second run began a second later: its event is moved, and has a process of its own. */
static void test_traces(void **state)
{
    char path[3][600], text[1024];
    const char *files[2];
    char *merged;

    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/trace-%d.json", dir, i);
        files[i] = path[i];
        snprintf(text, sizeof text, TRACE, i == 0 ? "first" : "second", 1790000000 + i);
        put(files[i], text);
    }
    snprintf(path[2], sizeof path[2], "%s/both.json", dir);
    charl_assert_ok(charl_trace_merge(files, 2, path[2]));
    merged = get(path[2]);
    assert_non_null(strstr(merged, "first"));
    assert_non_null(strstr(merged, "second"));
    assert_non_null(strstr(merged, "1000005"));
    assert_non_null(strstr(merged, "\"merged\":2"));
    free(merged);
    charl_assert_status(charl_trace_merge(files, 0, path[2]), CHARL_ERR_INVALID);
    put(files[1], "{\"traceEvents\":[\n");
    charl_assert_status(charl_trace_merge(files, 2, path[2]), CHARL_ERR_DATA);
    charl_assert_message("is not a time line that charl wrote");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

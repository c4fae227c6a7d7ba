/* Metrics files: exact formats, exact floats, and what a resumed run keeps. */
#include "support/support.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "charl/config.h"
#include "charl/metrics.h"

static const char HEADER[] =
    "epoch,step,elapsed_s,train/loss,lr,grad_norm,samples_per_s,mem_gib,comm_ms,comm_exposed_ms,"
    "val/loss,val/accuracy,val/top2,val/top3,val/top5,val/top10,val/perplexity,val/bits_per_byte,"
    "val/mae,val/rmse,val/r2,val/precision,val/recall,val/f1,val/precision_micro,val/recall_micro,"
    "val/f1_micro,val/iou,val/iou_micro,val/dice,val/dice_micro,val/auc,val/ece,"
    "val/coverage,val/interval_width\n";
#define NO_METRICS ",,,,,,,,,,,,,,,,,,,,,,,,," /* in a training row */

static char *slurp(const char *dir, const char *name)
{
    char path[4096];
    char *text = calloc(1, 1 << 20);
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) < (1 << 20) - 1);
    fclose(f);
    return text;
}

static void assert_file(const char *dir, const char *name, const char *want)
{
    char *got = slurp(dir, name);

    assert_string_equal(got, want);
    free(got);
}

static charl_train_row train_row(int64_t step, double loss)
{
    return (charl_train_row){.step = step,
                             .steps = 100,
                             .epoch = 0.25,
                             .loss = loss,
                             .lr = 1e-3,
                             .grad_norm = 2.5,
                             .samples = 64 * step,
                             .samples_per_s = 1000,
                             .step_ms = 0.25,
                             .data_ms = 0.5,
                             .comm_ms = 0.5,
                             .comm_exposed_ms = 0.125,
                             .mem_bytes = 1 << 28,
                             .elapsed_s = 1.5};
}

/* The row without its time of day. */
static void assert_row(const char *line, const char *before, const char *after)
{
    const char *time = strstr(line, ",\"time\":");

    assert_non_null(time);
    assert_memory_equal(line, before, strlen(before));
    assert_int_equal(time - line, strlen(before));
    time += strlen(",\"time\":");
    time += strspn(time, "0123456789.");
    assert_memory_equal(time, after, strlen(after));
}

static charl_val_row val_row(int64_t step, double loss, charl_metric_value one, charl_metric_value two)
{
    return (charl_val_row){.step = step,
                           .epoch = (double)step / 10,
                           .loss = loss,
                           .metrics = {one, two},
                           .n_metrics = 2,
                           .best = step == 10,
                           .elapsed_s = (double)step / 10 + 1};
}

static void test_formats(void **state)
{
    char *dir = charl_test_tempdir();
    const long live = charl_test_live();
    charl_metrics *m = NULL;
    const charl_train_row row = train_row(10, 1.8342);
    const charl_metric_value accuracy = {"accuracy", 0.75, true}, top5 = {"top5", 0.875, true};
    const charl_metric_value perplexity = {"perplexity", 1.25, false}, mae = {"mae", 0.125, false};
    const charl_val_row val = val_row(10, 0.5, accuracy, top5);
    const charl_val_row plain = val_row(20, 0.25, perplexity, mae);
    char want[1024];
    char *text;
    char *line2;

    (void)state;
    charl_assert_ok(charl_metrics_open(NULL, dir, CHARL_LOG_JSONL | CHARL_LOG_CSV, 0, &m));
    charl_assert_ok(charl_metrics_train(m, &row));
    charl_assert_ok(charl_metrics_val(m, &val));
    charl_assert_ok(charl_metrics_val(m, &plain));
    charl_metrics_close(m);
    text = slurp(dir, "metrics.jsonl");
    assert_row(text,
               "{\"event\":\"train\",\"step\":10,\"epoch\":0.25,\"loss\":1.8342,\"lr\":0.001,\"grad_"
               "norm\":2.5,"
               "\"samples\":640,\"samples_per_s\":1000,\"step_ms\":0.25,\"data_ms\":0.5,\"comm_ms\":0.5,"
               "\"comm_exposed_ms\":0.125,\"mem_bytes\":268435456,\"elapsed_s\":1.500",
               "}\n");
    line2 = strchr(text, '\n') + 1;
    assert_row(line2,
               "{\"event\":\"val\",\"step\":10,\"epoch\":1,\"loss\":0.5,\"accuracy\":0.75,\"top5\":0.875,"
               "\"best\":true,\"elapsed_s\":2.000",
               "}\n");
    assert_row(strchr(line2, '\n') + 1,
               "{\"event\":\"val\",\"step\":20,\"epoch\":2,\"loss\":0.25,\"perplexity\":1.25,"
               "\"mae\":0.125,"
               "\"best\":false,\"elapsed_"
               "s\":3.000",
               "}\n");
    free(text);
    snprintf(want, sizeof want,
             "%s0.25,10,1.500,1.8342,0.001,2.5,1000,0.2500,0.5,0.125" NO_METRICS "\n"
             "1,10,2.000,,,,,,,,0.5,0.75,,,0.875,,,,,,,,,,,,,,,,,,,,\n"
             "2,20,3.000,,,,,,,,0.25,,,,,,1.25,,0.125,,,,,,,,,,,,,,,,\n",
             HEADER);
    assert_file(dir, "metrics.csv", want);
    assert_int_equal(charl_test_live(), live);
    charl_test_tempdir_remove(dir);
}

static void test_values_that_are_not_finite(void **state)
{
    char *dir = charl_test_tempdir();
    charl_metrics *m = NULL;
    const charl_train_row row = train_row(10, (double)INFINITY);
    const charl_metric_value accuracy = {"accuracy", 0, true}, auc = {"auc", (double)NAN, true};
    const charl_val_row val = {.step = 10, .loss = (double)NAN, .metrics = {accuracy, auc}, .n_metrics = 2};
    char *text;

    (void)state;
    charl_assert_ok(charl_metrics_open(NULL, dir, CHARL_LOG_JSONL | CHARL_LOG_CSV, 0, &m));
    charl_assert_ok(charl_metrics_train(m, &row));
    charl_assert_ok(charl_metrics_val(m, &val));
    charl_metrics_close(m);
    text = slurp(dir, "metrics.jsonl");
    assert_non_null(strstr(text, "\"loss\":null,\"lr\":0.001,"));
    assert_non_null(strstr(text, ",\"nonfinite\":true}\n{\"event\":\"val\""));
    assert_non_null(strstr(text, "\"loss\":null,\"accuracy\":0,\"auc\":null,\"best\":false"));
    assert_string_equal(text + strlen(text) - 19, ",\"nonfinite\":true}\n");
    free(text);
    text = slurp(dir, "metrics.csv");
    assert_non_null(strstr(text, "\n0.25,10,1.500,nan,0.001,2.5,1000,0.2500,0.5,0.125" NO_METRICS
                                 "\n0,10,0.000,,,,,,,,nan,0,,,,,,,,,,,,,,,,,,,,nan,,,\n"));
    free(text);
    charl_test_tempdir_remove(dir);
}

static void test_losses_read_back_to_the_bit(void **state)
{
    enum { N = 2000 };
    char *dir = charl_test_tempdir();
    float want[N];
    charl_metrics *m = NULL;
    char *text;
    const char *at;

    (void)state;
    charl_test_fill(want, N, -1, 1, 7);
    charl_assert_ok(charl_metrics_open(NULL, dir, CHARL_LOG_JSONL, 0, &m));
    for (int i = 0; i < N; i++) {
        want[i] = ldexpf(want[i], i % 200 - 100);
        const charl_train_row row = train_row(i + 1, (double)want[i]);

        charl_assert_ok(charl_metrics_train(m, &row));
    }
    charl_metrics_close(m);
    text = slurp(dir, "metrics.jsonl");
    at = text;
    for (int i = 0; i < N; i++) {
        float got;

        at = strstr(at, "\"loss\":");
        assert_non_null(at);
        at += strlen("\"loss\":");
        got = strtof(at, NULL);
        assert_memory_equal(&got, &want[i], sizeof got);
    }
    free(text);
    charl_test_tempdir_remove(dir);
}

/* A run killed in the middle of a row, resumed at step 20 of 30: as if it had never gone on. */
static void test_resume_drops_later_rows(void **state)
{
    char *dir = charl_test_tempdir();
    charl_metrics *m = NULL;
    char path[4096];
    char *before;
    char *after;
    FILE *f;

    (void)state;
    charl_assert_ok(charl_metrics_open(NULL, dir, CHARL_LOG_JSONL | CHARL_LOG_CSV, 0, &m));
    for (int64_t step = 10; step <= 30; step += 10) {
        const charl_train_row row = train_row(step, 1.0 / (double)step);

        charl_assert_ok(charl_metrics_train(m, &row));
    }
    charl_metrics_close(m);
    before = slurp(dir, "metrics.jsonl");
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    f = fopen(path, "a");
    assert_non_null(f);
    fputs("{\"event\":\"train\",\"step\":5", f); /* torn: step 5 would be kept */
    fclose(f);
    charl_assert_ok(charl_metrics_open(NULL, dir, CHARL_LOG_JSONL | CHARL_LOG_CSV, 20, &m));
    charl_metrics_close(m);
    after = slurp(dir, "metrics.jsonl");
    *(strstr(before, "{\"event\":\"train\",\"step\":30")) = '\0';
    assert_string_equal(after, before);
    free(after);
    free(before);
    after = slurp(dir, "metrics.csv");
    assert_memory_equal(after, HEADER, strlen(HEADER));
    assert_non_null(strstr(after, "\n0.25,20,"));
    assert_null(strstr(after, "\n0.25,30,"));
    free(after);
    charl_assert_ok(charl_metrics_open(NULL, dir, CHARL_LOG_JSONL | CHARL_LOG_CSV, 0, &m));
    charl_metrics_close(m);
    assert_file(dir, "metrics.jsonl", "");
    assert_file(dir, "metrics.csv", HEADER);
    charl_test_tempdir_remove(dir);
}

/* A file of a charl that had other columns: values keep their names. */
static void test_resume_translates_columns(void **state)
{
    char *dir = charl_test_tempdir();
    charl_metrics *m = NULL;
    char path[4096], want[1024];
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/metrics.csv", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs("epoch,step,elapsed_s,train/loss,val/loss,val/accuracy,lr,gone,comm_ms\n"
          "1,10,0.5,2.25,,,0.001,7,0.25\n"
          "1,10,0.5,,1.5,0.75,,,\n"
          "2,20,0.5,,1.5,0.75,,,\n",
          f);
    fclose(f);
    charl_assert_ok(charl_metrics_open(NULL, dir, CHARL_LOG_CSV, 10, &m));
    charl_metrics_close(m);
    snprintf(want, sizeof want,
             "%s1,10,0.5,2.25,0.001,,,,0.25," NO_METRICS "\n"
             "1,10,0.5,,,,,,,,1.5,0.75,,,,,,,,,,,,,,,,,,,,,,,\n",
             HEADER);
    assert_file(dir, "metrics.csv", want);
    charl_test_tempdir_remove(dir);
}

static void test_only_the_formats_asked_for(void **state)
{
    char *dir = charl_test_tempdir();
    charl_metrics *m = NULL;
    const charl_train_row row = train_row(1, 1);
    const charl_val_row val = {.step = 1};
    char path[4096];

    (void)state;
    charl_assert_ok(charl_metrics_open(NULL, dir, 0, 0, &m));
    charl_assert_ok(charl_metrics_train(m, &row));
    charl_assert_ok(charl_metrics_val(m, &val));
    charl_metrics_close(m);
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/metrics.csv", dir);
    assert_int_not_equal(access(path, F_OK), 0);
    charl_test_tempdir_remove(dir);
}

static void test_disk_errors(void **state)
{
    char *dir = charl_test_tempdir();
    struct rlimit limit, none = {0, 0};
    charl_metrics *m = NULL;
    const charl_train_row row = train_row(1, 1);
    const long live = charl_test_live();

    (void)state;
    charl_assert_status(charl_metrics_open(NULL, "/no/such/dir", CHARL_LOG_JSONL, 0, &m), CHARL_ERR_DISK);
    charl_assert_message("/no/such/dir/metrics.jsonl: create failed");
    assert_null(m);
    charl_assert_ok(charl_metrics_open(NULL, dir, CHARL_LOG_JSONL, 0, &m));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none.rlim_max = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    charl_assert_status(charl_metrics_train(m, &row), CHARL_ERR_DISK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    charl_assert_message("metrics.jsonl: File too large");
    charl_metrics_close(m);
    assert_int_equal(charl_test_live(), live);
    charl_test_fault_after(1);
    charl_assert_status(charl_metrics_open(NULL, dir, 0, 0, &m), CHARL_ERR_NOMEM);
    charl_test_fault_after(0);
    charl_test_tempdir_remove(dir);
}

/* What a link in the place of a file of the run leads to stays as it is. */
static void test_links_are_not_followed(void **state)
{
    char *dir = charl_test_tempdir(), path[600], other[600], *text;
    charl_metrics *m = NULL;
    FILE *f;

    (void)state;
    snprintf(other, sizeof other, "%s/other", dir);
    f = fopen(other, "w");
    assert_non_null(f);
    assert_true(fputs("precious", f) >= 0);
    assert_int_equal(fclose(f), 0);
    snprintf(path, sizeof path, "%s/metrics.csv", dir);
    assert_int_equal(symlink(other, path), 0);
    charl_assert_status(charl_metrics_open(NULL, dir, CHARL_LOG_CSV, 0, &m), CHARL_ERR_DISK);
    charl_assert_message("metrics.csv: exists and is not a regular file");
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/metrics.csv.tmp", dir); /* the temporary has another name */
    assert_int_equal(symlink(other, path), 0);
    charl_assert_ok(charl_metrics_open(NULL, dir, CHARL_LOG_CSV, 0, &m));
    charl_metrics_close(m);
    text = slurp(dir, "other");
    assert_string_equal(text, "precious");
    free(text);
    charl_test_tempdir_remove(dir);
}

/* Names and bits of log.formats are those of the formats. */
static void test_formats_are_those_of_the_key(void **state)
{
    static const struct {
        const char *name;
        unsigned bit;
    } formats[] = {{"jsonl", CHARL_LOG_JSONL}, {"csv", CHARL_LOG_CSV}, {"tensorboard", CHARL_LOG_TENSORBOARD}};

    (void)state;
    for (int n = 0; n < 3; n++) {
        assert_string_equal(charl_config_choice_name("log", "formats", n), formats[n].name);
        assert_int_equal(formats[n].bit, 1U << n);
    }
    assert_string_equal(charl_config_choice_name("log", "formats", 3), "?");
}

/* Whatever acquisition of event files fails: the status says so, and nothing is left. */
static void test_event_files_without_memory(void **state)
{
    static const char text[] = "[data]\npath = x.h5\n[model]\ntype = mlp\nhidden = 8\n";
    char *dir = charl_test_tempdir();
    charl_config *config = NULL;
    charl_metrics *m = NULL;
    const charl_train_row row = train_row(1, 1);
    const charl_metric_value accuracy = {"accuracy", 0.75, true}, top5 = {"top5", 0.875, true};
    const charl_val_row val = val_row(1, 0.5, accuracy, top5);
    charl_status st = CHARL_ERR_NOMEM;
    long live;

    (void)state;
    charl_assert_ok(charl_config_parse("test", text, strlen(text), NULL, 0, &config));
    live = charl_test_live();
    for (long nth = 1; st != CHARL_OK; nth++) {
        charl_test_fault_after(nth);
        st = charl_metrics_open(config, dir, CHARL_LOG_TENSORBOARD, nth % 2, &m);
        st = st == CHARL_OK ? charl_metrics_train(m, &row) : st;
        st = st == CHARL_OK ? charl_metrics_val(m, &val) : st;
        charl_metrics_close(m);
        assert_true(st == CHARL_OK || st == CHARL_ERR_NOMEM);
        assert_true(charl_test_live() == live);
        assert_true(nth < 1000);
    }
    charl_test_fault_after(0);
    charl_config_destroy(config);
    charl_test_tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_values_that_are_not_finite),
        cmocka_unit_test(test_losses_read_back_to_the_bit),
        cmocka_unit_test(test_resume_drops_later_rows),
        cmocka_unit_test(test_resume_translates_columns),
        cmocka_unit_test(test_only_the_formats_asked_for),
        cmocka_unit_test(test_disk_errors),
        cmocka_unit_test(test_links_are_not_followed),
        cmocka_unit_test(test_formats_are_those_of_the_key),
        cmocka_unit_test(test_event_files_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

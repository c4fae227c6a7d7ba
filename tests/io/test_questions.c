/* Multiple-choice questions: both forms, labels as numbers and texts, and no leak when memory or the file fails. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/questions.h"

static char *dir;
static char path[512];

static void write_lines(const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static charl_status read_all(void *ctx)
{
    charl__questions q;
    const charl_status st = charl__questions_read(path, &q);

    (void)ctx;
    charl__questions_fini(&q);
    return st;
}

static void test_forms(void **state)
{
    charl__questions q;

    (void)state;
    write_lines("{\"ctx\": \"a b\", \"endings\": [\"c\", \"d\", \"e\"], \"label\": \"2\", \"ind\": 4}\n"
                "\n"
                "{\"question\": \"f?\", \"choices\": {\"text\": [\"g\", \"h\"], \"label\": [\"1\", \"2\"]}, "
                "\"answerKey\": \"2\"}");
    charl_assert_ok(charl__questions_read(path, &q));
    assert_int_equal(q.count, 2);
    assert_string_equal(q.items[0].context, "a b");
    assert_int_equal(q.items[0].n, 3);
    assert_string_equal(q.items[0].endings[2], "e");
    assert_int_equal(q.items[0].answer, 2);
    assert_string_equal(q.items[1].context, "Question: f?\nAnswer:");
    assert_int_equal(q.items[1].answer, 1);
    assert_int_equal(q.items[1].line, 3);
    charl__questions_fini(&q);
    assert_true(charl_test_fail_every_acquisition(read_all, NULL) > 5);
}

static void test_refused(void **state)
{
    static const char *const bad[][2] = {
        {"[1]", "q.jsonl is one JSON array, not lines of JSON; HINT"},
        {"{\"ctx\": 1, \"endings\": [\"a\", \"b\"], \"label\": 0}", "q.jsonl:1: \"ctx\" is not a text"},
        {"{\"ctx\": \"a\", \"endings\": [\"a\", 2], \"label\": 0}", "q.jsonl:1: choice 2 is not a text"},
        {"{\"ctx\": \"a\", \"endings\": [\"a\", \"b\"], \"label\": \"1x\"}",
         "q.jsonl:1: \"label\" is not the number of a choice, 0 to 1"},
        {"{\"ctx\": \"a\", \"endings\": [\"a\", \"b\"], \"label\": -1}", "q.jsonl:1: \"label\" is not the number"},
        {"{\"question\": \"a\", \"choices\": [\"a\", \"b\"]}", "q.jsonl:1: there must be a list of 2 to 64 choices"}};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_lines(bad[i][0]);
        charl_assert_status(read_all(NULL), CHARL_ERR_DATA);
        charl_assert_message(bad[i][1]);
    }
}

static charl_status read_prompts(void *ctx)
{
    charl__prompts p;
    const charl_status st = charl__prompts_read(path, &p);

    (void)ctx;
    charl__prompts_fini(&p);
    return st;
}

static void test_prompts(void **state)
{
    static const char *const want[] = {"a b", "{\"c\""};
    charl__prompts p;

    (void)state;
    write_lines("{\"prompt\": \"a b\", \"n\": 1}\n\n{\"prompt\": \"{\\\"c\\\"\"}\n");
    for (int lines = 0; lines < 2; lines++) {
        charl_assert_ok(charl__prompts_read(path, &p));
        assert_int_equal(p.count, 2);
        for (int i = 0; i < 2; i++) {
            assert_string_equal(p.items[i], want[i]);
        }
        charl__prompts_fini(&p);
        assert_true(charl_test_fail_every_acquisition(read_prompts, NULL) > 5);
        snprintf(path, sizeof path, "%s", charl_test_path(dir, "p.txt"));
        write_lines("a b\r\n\n{\"c\"");
    }
    write_lines("\xef\xbb\xbf" /* a byte order mark is no part of the prompt */
                "a b\n");
    charl_assert_ok(charl__prompts_read(path, &p));
    assert_string_equal(p.items[0], "a b");
    charl__prompts_fini(&p);
    write_lines("\n");
    charl_assert_status(read_prompts(NULL), CHARL_ERR_DATA);
    charl_assert_message("p.txt has no prompts");
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "q.jsonl"));
}

static int setup(void **state)
{
    (void)state;
    dir = charl_test_tempdir();
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "q.jsonl"));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    charl_test_tempdir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_prompts),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

/* run.lock: what is appended is read again, histories with resumptions, what is no run.lock, hashes of tensors, and failures of memory and
 * disk. tests/train/test_verify.sh changes lines. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/numeric/hash.h"
#include "files/run_lock.h"

static char *dir;

static charl__lock_line a_line(charl__lock_kind kind, int64_t step, char tensors)
{
    charl__lock_line line = {.kind = kind, .step = step};

    snprintf(line.value[CHARL__LOCK_VERSION], sizeof line.value[0], "0.1.0");
    for (int k = CHARL__LOCK_TENSORS; k <= CHARL__LOCK_DATA; k++) {
        if (k != CHARL__LOCK_VERSION) {
            memset(line.value[k], k == CHARL__LOCK_TENSORS ? tensors : 'b', 64);
        }
    }
    return line;
}

/* The lines of a story: S a start, a digit a checkpoint of that step with tensors 'a', r and a digit a resumption from it, x and a digit one
 * from other tensors. */
static charl_status tell(const char *story, charl__lock *lock)
{
    for (const char *p = story; *p; p++) {
        const bool resumes = *p == 'r' || *p == 'x';
        const charl__lock_kind kind = *p == 'S' ? CHARL__LOCK_START
                                      : resumes ? CHARL__LOCK_RESUME
                                                : CHARL__LOCK_CHECKPOINT;
        const char tensors = *p == 'x' ? 'c' : 'a';
        charl__lock_line line;

        p += resumes;
        line = a_line(kind, *p == 'S' ? 0 : *p - '0', tensors);
        CHARL_TRY(charl__lock_append(dir, lock, &line));
    }
    return CHARL_OK;
}

static charl_status write_and_read(void *ctx)
{
    charl_status st = CHARL_OK;
    charl__lock lock = {0}, again = {0};
    charl__lock_history history = {0};
    charl__text wrong = {0};

    CHARL_TRY_CLEANUP(tell(ctx, &lock));
    CHARL_TRY_CLEANUP(charl__lock_read(dir, &again, &wrong));
    CHARL_TRY_CLEANUP(charl__lock_trace(&again, &history, &wrong));
    assert_string_equal(charl__text_string(&lock.text), charl__text_string(&again.text));
    assert_string_equal(charl__text_string(&wrong), "");
cleanup:
    charl_free(history.line);
    charl__text_fini(&wrong);
    charl__lock_fini(&lock);
    charl__lock_fini(&again);
    return st;
}

static void test_failures(void **state)
{
    char story[] = "S12r13";

    (void)state;
    assert_true(charl_test_fail_every_acquisition(write_and_read, story) > 10);
}

static void test_histories(void **state)
{
    static const struct {
        const char *story, *lines; /* indices of the history */
        int wrong;
    } cases[] = {
        {"S", "", 0},
        {"S123", "123", 0},
        {"S12r23", "124", 0},
        {"S1234r23", "126", 0},
        {"S12r1r1r123", "167", 0},
        {"S12S12", "45", 1},
        {"S12x23", "134", 1},
        {"r456", "012", 0},
        {"S12r567", "12345", 1},
        {"S1223", "134", 0},
        {"S12r12r12", "16", 0},
        {"S1231", "4", 1},
        {"S24r35", "134", 1},
        {"Sr34", "12", 1},
        {"r3r3S1", "3", 1},
        {"S1243r345", "12467", 0},
    };

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        charl__lock lock = {0};
        charl__lock_history history = {0};
        charl__text wrong = {0};
        char lines[16] = "";

        charl_assert_ok(tell(cases[c].story, &lock));
        charl_assert_ok(charl__lock_trace(&lock, &history, &wrong));
        for (int64_t i = 0; i < history.count; i++) {
            snprintf(lines + i, 2, "%d", (int)history.line[i]);
        }
        assert_string_equal(lines, cases[c].lines);
        assert_int_equal(wrong.length > 0, cases[c].wrong);
        assert_int_equal(charl__lock_start_of(&lock, 0), 0);
        charl_free(history.line);
        charl__text_fini(&wrong);
        charl__lock_fini(&lock);
    }
}

/* Replace the lines of run.lock by those of `order`, digits from 1; where `changes` is one of them, its tensors are others; where it is also
 * forged, its hash is right again. *wrong: what is found. */
static void read_changed(const char *order, char changes, bool is_forged, charl__text *wrong)
{
    charl__lock lock = {0}, again = {0};
    FILE *f;

    charl_assert_ok(tell("S123r34", &lock));
    f = fopen(charl_test_path(dir, CHARL__LOCK_FILE), "w");
    assert_non_null(f);
    for (const char *p = order; *p; p++) {
        const char *line = charl__text_string(&lock.text);
        char text[2048], hash[CHARL__SHA256_TEXT];
        size_t n;

        for (char k = '1'; k < *p; k++) {
            line += strcspn(line, "\n") + 1;
        }
        snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
        if (*p == changes) {
            *(strstr(text, "tensors=") + strlen("tensors=")) = 'c';
        }
        if (*p == changes && is_forged) {
            n = (size_t)(strstr(text, " hash=") - text);
            snprintf(text + n, sizeof text - n, " hash=%s", charl__sha256_text(text, n, hash));
        }
        fprintf(f, "%s\n", text);
    }
    fclose(f);
    charl_assert_ok(charl__lock_read(dir, &again, wrong));
    assert_int_equal(again.count, strlen(order));
    charl__lock_fini(&again);
    charl__lock_fini(&lock);
}

/* Lines that were changed, forged, removed, repeated, reordered or put before the first: each is named. At the end, the chain cannot show what
 * was removed. */
static void test_the_chain(void **state)
{
    static const struct {
        const char *order;
        char changes;
        bool is_forged;
        const char *wrong;
    } cases[] = {
        {"123456", 0, false, ""},
        {"12345", 0, false, ""},
        {"123456", '3', false, "run.lock, line 3: was changed: its hash does not match\n"},
        {"123456", '6', false, "run.lock, line 6: was changed: its hash does not match\n"},
        {"123456", '3', true,
         "run.lock, line 4: does not follow the line before: that was changed, or lines were removed\n"},
        {"123456", '6', true, ""},
        {"12456", 0, false,
         "run.lock, line 3: does not follow the line before: that was changed, or lines were removed\n"},
        {"23456", 0, false,
         "run.lock, line 1: does not follow the line before: that was changed, or lines were removed\n"},
        {"1233456", 0, false, "run.lock, line 4: was written after line 2: lines were inserted or reordered\n"},
        {"124356", 0, false,
         "run.lock, line 3: was written after line 4: lines were inserted or reordered\n"
         "run.lock, line 4: was written after line 2: lines were inserted or reordered\n"
         "run.lock, line 5: was written after line 3: lines were inserted or reordered\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl__text wrong = {0};

        read_changed(cases[i].order, cases[i].changes, cases[i].is_forged, &wrong);
        assert_string_equal(charl__text_string(&wrong), cases[i].wrong);
        charl__text_fini(&wrong);
    }
}

/* A last line of which a crash has kept a part, or zeros, is left out, and the next line takes its place. A line that could not be written is
 * written with the next. What is shorter than it was is refused. */
static void test_torn(void **state)
{
    static const struct {
        const char *tail;
        int bytes;
    } tails[] = {
        {"c", 1}, {"checkpoint step=4 tensors=aaa", 29}, {"\0\0\0\0", 4}, {"\0\0\0aa\n", 6}, {"check\0\0\n", 8}};
    const charl__lock_line next = a_line(CHARL__LOCK_CHECKPOINT, 4, 'a');
    charl__lock lock = {0}, again = {0};
    charl__text wrong = {0};
    FILE *f;

    (void)state;
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        charl_assert_ok(tell("S123", &lock));
        f = fopen(charl_test_path(dir, CHARL__LOCK_FILE), "a");
        assert_non_null(f);
        assert_int_equal(fwrite(tails[i].tail, 1, (size_t)tails[i].bytes, f), tails[i].bytes);
        fclose(f);
        charl__lock_fini(&lock);
        charl_assert_ok(charl__lock_read(dir, &lock, &wrong));
        assert_int_equal(lock.torn, tails[i].bytes);
        assert_int_equal(lock.count, 4);
        charl_assert_ok(charl__fault_set("io.fsync:1:5"));
        charl_assert_status(charl__lock_append(dir, &lock, &next), CHARL_ERR_DISK);
        charl_assert_ok(charl__fault_set(NULL));
        charl_assert_ok(charl__lock_read(dir, &again, &wrong));
        assert_int_equal(again.count, 4);
        assert_int_equal(again.torn, 0);
        charl__lock_fini(&again);
        charl_assert_ok(charl__lock_append(dir, &lock, &next));
        charl_assert_ok(charl__lock_read(dir, &again, &wrong));
        assert_int_equal(again.count, 6);
        assert_string_equal(charl__text_string(&again.text), charl__text_string(&lock.text));
        assert_string_equal(charl__text_string(&wrong), "");
        charl__lock_fini(&again);
        charl__lock_fini(&lock);
    }
    charl_assert_ok(tell("S123", &lock));
    assert_int_equal(truncate(charl_test_path(dir, CHARL__LOCK_FILE), 100), 0);
    charl_assert_status(charl__lock_append(dir, &lock, &next), CHARL_ERR_DISK);
    assert_non_null(strstr(charl_error_message(), "another program has shortened it"));
    charl__lock_fini(&lock);
    charl__text_fini(&wrong);
}

static void test_refused(void **state)
{
    static const char *const bad[][2] = {
        {"x\n", "charl wrote none of its lines"},
        {"checkpoint step=01 tensors=\n", "charl wrote none of its lines"},
        {"checkpoint step=1", "charl wrote none of its lines"},
    };
    charl__lock lock;
    charl__text wrong = {0};
    FILE *f;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        f = fopen(charl_test_path(dir, CHARL__LOCK_FILE), "w");
        assert_non_null(f);
        fputs(bad[i][0], f);
        fclose(f);
        charl_assert_status(charl__lock_read(dir, &lock, &wrong), CHARL_ERR_CHECKPOINT);
        assert_non_null(strstr(charl_error_message(), bad[i][1]));
        charl__lock_fini(&lock);
    }
    charl__text_fini(&wrong);
    charl_assert_status(charl__lock_read("no/where", &lock, &wrong), CHARL_ERR_CHECKPOINT);
    charl__lock_fini(&lock);
}

/* Name, type, shape and values count, and so does the order. */
static void test_tensors(void **state)
{
    static const float x[] = {1, 2, 3, 4};
    const charl_checkpoint_tensor a = {.group = "model", .name = "a", .dtype = CHARL_F32, .shape = {1, {4}}, .data = x};
    charl_checkpoint_tensor t[6][2];
    char hash[6][CHARL__SHA256_TEXT], again[CHARL__SHA256_TEXT];

    (void)state;
    for (int i = 0; i < 6; i++) {
        t[i][0] = t[i][1] = a;
        t[i][1].name = "b";
    }
    t[1][0].shape = (charl_shape){2, {2, 2}};
    t[2][0].group = "ema";
    t[3][0].name = "b";
    t[3][1].name = "a";
    t[4][0].group = CHARL_CHECKPOINT_BASE;
    t[4][0].data = NULL;
    t[5][0].dtype = CHARL_I32;
    for (int i = 0; i < 6; i++) {
        charl_assert_ok(charl__lock_tensors(t[i], NULL, 2, hash[i]));
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(hash[i], hash[j]);
        }
    }
    charl_assert_ok(charl__lock_tensors(t[0], NULL, 2, again));
    assert_string_equal(hash[0], again);
}

static int setup(void **state)
{
    (void)state;
    dir = charl_test_tempdir();
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
        cmocka_unit_test(test_failures), cmocka_unit_test(test_histories), cmocka_unit_test(test_the_chain),
        cmocka_unit_test(test_torn),     cmocka_unit_test(test_refused),   cmocka_unit_test(test_tensors),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

/* Files of PyTorch: tensors that share bytes and have strides are read, nothing in a file is called, and damage of any byte is refused or read
 * as other values. tests/interop/test_safetensors.py reads what PyTorch itself wrote. */
#define _GNU_SOURCE /* memmem */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charl/tensor_file.h"
#include "io/scratch.h"

enum { MOST = 4096 };

/* Bytes of a file in a row; each string literal is one piece of a pickle. */
static unsigned char file[MOST];
static size_t size;

static void add(const void *bytes, size_t n)
{
    assert_true(size + n <= sizeof file);
    memcpy(file + size, bytes, n);
    size += n;
}
#define ADD(text) add(text, sizeof(text) - 1)

/* A string of fewer than 256 bytes. */
static void add_text(const char *text)
{
    const unsigned char head[5] = {'X', (unsigned char)strlen(text)};

    add(head, sizeof head);
    add(text, strlen(text));
}

/* _rebuild_tensor_v2 of storage "0", of 6 floats. `place` pushes offset, shape and strides. */
static void add_tensor(const char *place, size_t n)
{
    ADD("ctorch._utils\n_rebuild_tensor_v2\n((");
    add_text("storage");
    ADD("ctorch\nFloatStorage\n");
    add_text("0");
    add_text("cpu");
    ADD("K\6tQ");
    add(place, n);
    ADD("\x89"
        "ccollections\nOrderedDict\n)RtR");
}
#define ADD_TENSOR(place) add_tensor(place, sizeof(place) - 1)

static void begin(void)
{
    size = 0;
    ADD("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
    ADD("\x80\2M\xe9\3.");
    ADD("\x80\2}(");
    add_text("protocol_version");
    ADD("M\xe9\3");
    add_text("little_endian");
    ADD("\x88u.");
    ADD("\x80\2");
}

/* The object ends here; its storage follows. */
static void end(void)
{
    static const float values[6] = {0, 1, 2, 3, 4, 5};
    static const int64_t n = 6;

    ADD(".\x80\2]");
    add_text("0");
    ADD("a.");
    add(&n, sizeof n);
    add(values, sizeof values);
}

static const char *write_file(const char *name, size_t n)
{
    const char *path = charl_test_path(dir, name);

    put_file(path, file, n);
    return path;
}

static void assert_tensor(const charl_tensor_file *f, const char *name, int64_t n, const float *want)
{
    const charl_checkpoint_tensor *t = charl_tensor_file_find(f, name);
    float values[6];

    assert_non_null(t);
    assert_int_equal(t->dtype, CHARL_F32);
    assert_int_equal(charl_shape_count(&t->shape), n);
    charl_assert_ok(charl_tensor_file_read(f, t, values));
    assert_memory_equal(values, want, (size_t)n * sizeof *want);
}

static void add_state_dict(void)
{
    ADD("ccollections\nOrderedDict\n)R(");
    add_text("plain");
    ADD_TENSOR("K\0K\2K\3\x86K\3K\1\x86");
    add_text("transposed");
    ADD_TENSOR("K\0K\3K\2\x86K\1K\3\x86");
    add_text("tail");
    ADD_TENSOR("K\4K\2\x85K\1\x85");
    add_text("expanded");
    ADD_TENSOR("K\5K\2K\2\x86K\0K\0\x86");
    add_text("empty"); /* its place is nowhere */
    ADD_TENSOR("\x8a\10\xff\xff\xff\xff\xff\xff\xff\x1fK\0\x85K\1\x85");
    ADD("u");
}

static void tensors_share_bytes_and_have_strides(void **state)
{
    static const float plain[] = {0, 1, 2, 3, 4, 5}, transposed[] = {0, 3, 1, 4, 2, 5}, expanded[] = {5, 5, 5, 5};
    charl_tensor_file *f = NULL;

    (void)state;
    begin();
    add_state_dict();
    end();
    charl_assert_ok(charl_tensor_file_open(write_file("a.pt", size), &f));
    assert_int_equal(charl_tensor_file_get_count(f), 5);
    assert_tensor(f, "plain", 6, plain);
    assert_tensor(f, "transposed", 6, transposed);
    assert_tensor(f, "tail", 2, plain + 4);
    assert_tensor(f, "expanded", 4, expanded);
    charl_tensor_file_close(f);
}

/* The checkpoint of a training: the optimizer's tensors are no weights. */
static void the_model_of_a_checkpoint_is_read(void **state)
{
    charl_tensor_file *f = NULL;

    (void)state;
    begin();
    ADD("}(");
    add_text("epoch");
    ADD("K\3");
    add_text("optimizer");
    ADD("}(");
    add_text("momentum");
    ADD_TENSOR("K\0K\2\x85K\1\x85");
    ADD("u");
    add_text("model");
    add_state_dict();
    ADD("u");
    end();
    charl_assert_ok(charl_tensor_file_open(write_file("checkpoint.pt", size), &f));
    assert_int_equal(charl_tensor_file_get_count(f), 5);
    assert_non_null(charl_tensor_file_find(f, "plain"));
    charl_tensor_file_close(f);
}

static void nothing_is_called(void **state)
{
    char command[200];
    charl_tensor_file *f = NULL;
    FILE *made;

    (void)state;
    snprintf(command, sizeof command, "touch %.180s", charl_test_path(dir, "called"));
    begin();
    ADD("}(");
    add_text("a");
    ADD_TENSOR("K\0K\2\x85K\1\x85");
    add_text("b");
    ADD("cos\nsystem\n(");
    add_text(command);
    ADD("tRu");
    end();
    charl_assert_ok(charl_tensor_file_open(write_file("hostile.pt", size), &f));
    assert_int_equal(charl_tensor_file_get_count(f), 1);
    charl_tensor_file_close(f);
    made = fopen(charl_test_path(dir, "called"), "rb");
    assert_null(made);
}

static void what_cannot_be_read_is_named(void **state)
{
    static const struct {
        const char *place;
        size_t n;
        const char *message;
    } cases[] = {
#define CASE(place, message) {place, sizeof(place) - 1, message}
        CASE("K\0K\7\x85K\1\x85", "x reaches beyond its storage"),
        CASE("K\1K\2K\3\x86K\3K\1\x86", "x reaches beyond its storage"),
        CASE("K\0K\2K\2\x86K\5K\1\x86", "x reaches beyond its storage"),
        CASE("K\0\x8a\10\0\0\0\0\0\0\0\x40\x8a\10\0\0\0\0\0\0\0\x40\x86K\0K\0\x86", "x has an impossible shape"),
        CASE("K\0\x8a\1\xffK\2\x86K\1K\1\x86", "x has a damaged shape"),
        CASE("K\0(K\1K\1K\1K\1K\1K\1K\1t(K\1K\1K\1K\1K\1K\1K\1t", "x has a damaged shape, or more than 6 dimensions"),
        CASE("K\0K\2\x85K\1K\1\x86", "x has a damaged shape"),
        CASE("NK\2\x85K\1\x85", "x is not a dense tensor"),
#undef CASE
    };
    charl_tensor_file *f = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        ADD("}(");
        add_text("x");
        add_tensor(cases[i].place, cases[i].n);
        ADD("u");
        end();
        charl_assert_status(charl_tensor_file_open(write_file("bad.pt", size), &f), CHARL_ERR_CHECKPOINT);
        charl_assert_message(cases[i].message);
    }
    begin();
    ADD("}(");
    add_text("loop"); /* a list that holds itself */
    ADD("]q\0h\0a");
    add_text("x");
    ADD_TENSOR("K\0K\2\x85K\1\x85");
    ADD("u");
    end();
    charl_assert_ok(charl_tensor_file_open(write_file("loop.pt", size), &f));
    assert_int_equal(charl_tensor_file_get_count(f), 1);
    charl_tensor_file_close(f);
}

/* A tensor of a subclass whose arguments are its arguments again. */
static void a_tensor_that_wraps_itself_is_none(void **state)
{
    charl_tensor_file *f = NULL;

    (void)state;
    begin();
    ADD("}(");
    add_text("loop");
    ADD("ctorch._tensor\n_rebuild_from_type_v2\nq\0]q\1h\0aNah\1aR");
    add_text("x");
    ADD_TENSOR("K\0K\2\x85K\1\x85");
    ADD("u");
    end();
    charl_assert_ok(charl_tensor_file_open(write_file("wrapped.pt", size), &f));
    assert_int_equal(charl_tensor_file_get_count(f), 1);
    charl_tensor_file_close(f);
}

/* The elements in the file have the other sign. */
static void a_negated_view_is_refused(void **state)
{
    charl_tensor_file *f = NULL;

    (void)state;
    begin();
    ADD("}(");
    add_text("x");
    ADD_TENSOR("K\0K\2\x85K\1\x85");
    size -= 2; /* tR */
    ADD("}(");
    add_text("neg");
    ADD("\x88utRu");
    end();
    charl_assert_status(charl_tensor_file_open(write_file("negated.pt", size), &f), CHARL_ERR_CHECKPOINT);
    charl_assert_message("x is a negated or conjugated view");
}

static void what_python_2_wrote_is_read(void **state)
{
    static const float values[] = {0, 1};
    charl_tensor_file *f = NULL;

    (void)state;
    begin();
    ADD("ccollections\nOrderedDict\n](](");
    add_text("x");
    ADD_TENSOR("K\0K\2\x85K\1\x85");
    ADD("ee\x85R");
    end();
    charl_assert_ok(charl_tensor_file_open(write_file("python2.pt", size), &f));
    assert_int_equal(charl_tensor_file_get_count(f), 1);
    assert_tensor(f, "x", 2, values);
    charl_tensor_file_close(f);
}

static void names_are_of_a_bounded_length(void **state)
{
    charl_tensor_file *f = NULL;
    char name[1026] = "";

    (void)state;
    memset(name, 'x', sizeof name - 1);
    for (size_t n = sizeof name - 1; n >= sizeof name - 2; n--) {
        begin();
        ADD("}(X");
        add(&(uint32_t){(uint32_t)n}, 4);
        add(name, n);
        ADD_TENSOR("K\0K\2\x85K\1\x85");
        ADD("u");
        end();
        if (n > 1024) {
            charl_assert_status(charl_tensor_file_open(write_file("long.pt", size), &f), CHARL_ERR_CHECKPOINT);
            charl_assert_message("a tensor whose name has more than 1024 bytes: xxx");
        } else {
            charl_assert_ok(charl_tensor_file_open(write_file("long.pt", size), &f));
            charl_tensor_file_close(f);
        }
    }
}

static void other_pickles_are_named(void **state)
{
    charl_tensor_file *f = NULL;

    (void)state;
    size = 0;
    ADD("\x80\2}(");
    add_text("a");
    ADD("K\1u.");
    charl_assert_status(charl_tensor_file_open(write_file("dict.pt", size), &f), CHARL_ERR_CHECKPOINT);
    charl_assert_message("is a pickle, but torch.save did not write it");
    begin();
    ADD("}(");
    add_text("x");
    ADD_TENSOR("K\0K\2\x85K\1\x85");
    ADD("u");
    end();
    memcpy(memmem(file, size, "Float", 5), "Whole", 5);
    charl_assert_status(charl_tensor_file_open(write_file("whole.pt", size), &f), CHARL_ERR_CHECKPOINT);
    charl_assert_message("storage 0 has elements of a type that is not known");
}

static void read_all(const char *path)
{
    charl_tensor_file *f = NULL;
    float values[64];

    if (charl_tensor_file_open(path, &f) != CHARL_OK) {
        assert_true(charl_error_message()[0] != '\0');
        charl_error_clear();
        return;
    }
    for (int64_t i = 0; i < charl_tensor_file_get_count(f); i++) {
        const charl_checkpoint_tensor *t = charl_tensor_file_get(f, i);

        if (t->dtype == CHARL_F32 && charl_shape_count(&t->shape) <= (int64_t)(sizeof values / sizeof *values)) {
            charl_assert_ok(charl_tensor_file_read(f, t, values));
        }
    }
    charl_tensor_file_close(f);
}

static void damage_is_survived(void **state)
{
    static const unsigned char bits[] = {1, 0x80, 0xff};
    charl_tensor_file *f = NULL;
    size_t whole;

    (void)state;
    begin();
    add_state_dict();
    end();
    whole = size;
    for (size_t n = 1; n < whole; n++) {
        charl_assert_status(charl_tensor_file_open(write_file("cut.pt", n), &f), CHARL_ERR_CHECKPOINT);
        charl_error_clear();
    }
    for (size_t i = 0; i < whole; i++) {
        const unsigned char was = file[i];

        for (unsigned k = 0; k < sizeof bits; k++) {
            file[i] = was ^ bits[k];
            read_all(write_file("damaged.pt", whole));
        }
        file[i] = was;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tensors_share_bytes_and_have_strides),
                                       cmocka_unit_test(the_model_of_a_checkpoint_is_read),
                                       cmocka_unit_test(nothing_is_called),
                                       cmocka_unit_test(what_cannot_be_read_is_named),
                                       cmocka_unit_test(a_tensor_that_wraps_itself_is_none),
                                       cmocka_unit_test(a_negated_view_is_refused),
                                       cmocka_unit_test(what_python_2_wrote_is_read),
                                       cmocka_unit_test(names_are_of_a_bounded_length),
                                       cmocka_unit_test(other_pickles_are_named),
                                       cmocka_unit_test(damage_is_survived)};

    return cmocka_run_group_tests(tests, setup_dir, teardown_dir);
}

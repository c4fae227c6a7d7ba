/* Checkpoints in parts: however the tensors are cut, what is read is the same, and so is the one file made of them; what is damaged or missing
 * is named; a save that dies at any point leaves the old checkpoint or the new one, and nothing that stays. */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/checkpoint/checkpoint_format.h"
#include "io/checkpoint/checkpoint_read.h"
#include "io/commit.h"
#include "io/checkpoint_sample.h"
#include "io/scratch.h"

enum { MOST = 8, DATA = SAMPLE_LARGE * 4 };

static sample s;

/* What part k of n has of a tensor of `count` elements. uneven: the parts are of different sizes. */
static void share_of(int64_t count, int k, int n, bool uneven, int64_t *from, int64_t *to)
{
    const int64_t a = uneven ? k * k : k, b = uneven ? (k + 1) * (k + 1) : k + 1, all = uneven ? n * n : n;

    *from = count * a / all;
    *to = count * b / all;
}

static void (*between)(void); /* the parts and the checkpoint; NULL: nothing happens there */
static int64_t reads;         /* bytes that the second half of a save has read */

/* Bytes that this process has read so far. */
static int64_t bytes_read(void)
{
    long long n = -1;
    FILE *f = fopen("/proc/self/io", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "rchar: %lld", &n), 1);
    fclose(f);
    return (int64_t)n;
}

/* Save the sample at `path` in n parts, as n processes would. */
static charl_status save(const char *path, int n, bool uneven)
{
    charl_status st = CHARL_OK;
    char hash[16][CHARL__SHA256_TEXT], values[SAMPLE_TENSORS][CHARL__SHA256_TEXT];
    charl__ckpt_parts parts = {0};
    charl_checkpoint_tensor empty[SAMPLE_TENSORS];
    charl_checkpoint c = s.c;
    const int n_tensors = (int)c.n_tensors;

    for (int k = 0; k < n; k++) {
        charl__ckpt_share share[16 * SAMPLE_TENSORS];
        int n_shares = 0;

        for (int i = 0; i < n_tensors; i++) {
            const charl_checkpoint_tensor *t = &s.tensors[i];
            const size_t size = charl_dtype_size(t->dtype);
            int64_t from, to;

            share_of(charl_shape_count(&t->shape), k, n, uneven, &from, &to);
            for (; from < to; from = uneven ? to : from + (to - from + 1) / 2) { /* in one piece, or several */
                const int64_t count = uneven ? to - from : (to - from + 1) / 2;

                if (count < 8) {
                    share[n_shares++] =
                        (charl__ckpt_share){i, from, to - from, (const char *)t->data + (size_t)from * size};
                    break;
                }
                share[n_shares++] = (charl__ckpt_share){i, from, count, (const char *)t->data + (size_t)from * size};
            }
        }
        CHARL_TRY_CLEANUP(charl__ckpt_part_save(path, s.tensors, n_tensors, share, n_shares, hash[k]));
    }
    for (int i = 0; i < n_tensors; i++) {
        empty[i] = s.tensors[i];
        empty[i].data = NULL;
    }
    c.tensors = empty;
    if (between) {
        between();
    }
    reads = bytes_read();
    CHARL_TRY_CLEANUP(charl__ckpt_parts_join(path, &c, (const char(*)[CHARL__SHA256_TEXT])hash, n, &parts, values));
    CHARL_TRY_CLEANUP(charl__ckpt_save_parts(path, &c, &parts));
    reads = bytes_read() - reads;
cleanup:
    charl__ckpt_parts_fini(&parts);
    return st;
}

static char *file(const char *name)
{
    static char path[MOST][600];
    static int next;

    next = (next + 1) % MOST;
    snprintf(path[next], sizeof path[next], "%s/%s", dir, name);
    return path[next];
}

static int64_t size_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? (int64_t)info.st_size : -1;
}

static bool same_bytes(const char *a, const char *b)
{
    char command[1300];

    snprintf(command, sizeof command, "cmp -s '%s' '%s'", a, b);
    return system(command) == 0;
}

/* How many files of a name are in the directory. */
static int count(const char *pattern)
{
    char command[700];
    int n = -1;
    FILE *f;

    snprintf(command, sizeof command, "find '%s' -name '%s' | wc -l", dir, pattern);
    f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

static void test_every_cut(void **state)
{
    const char *whole = file("whole.h5"), *path = file("a.h5"), *packed = file("packed.h5");
    charl_checkpoint_reader *r = NULL;
    char *report = NULL;
    bool same = false;

    (void)state;
    sample_init(&s, 7);
    charl_assert_ok(charl_checkpoint_save(whole, &s.c));
    for (int n = 1; n <= 5; n++) {
        for (int uneven = 0; uneven < 2; uneven++) {
            charl_assert_ok(save(path, n, uneven));
            charl_assert_ok(charl_checkpoint_verify(path));
            assert_int_equal(sample_load(path), 7);
            charl_assert_ok(charl_checkpoint_diff(whole, path, &same, &report));
            assert_true(same);
            assert_string_equal(report, "");
            charl_free(report);
            charl_assert_ok(charl_checkpoint_open(path, &r));
            assert_int_equal(charl_checkpoint_get_info(r).n_parts, n);
            assert_null(charl__checkpoint_part(r, n));
            charl_checkpoint_close(r);
            charl_assert_ok(charl_checkpoint_pack(path, packed));
            assert_true(same_bytes(whole, packed));
            charl_assert_ok(charl__ckpt_sweep(dir, NULL));
            assert_int_equal(count("a.h5.*"), n);
        }
    }
    charl_assert_ok(charl_checkpoint_pack(whole, packed));
    assert_true(same_bytes(whole, packed));
    charl_assert_status(charl_checkpoint_pack(path, path), CHARL_ERR_CONFIG);
    charl_assert_ok(charl_checkpoint_open(path, &r));
    charl_assert_status(charl_checkpoint_pack(path, charl__checkpoint_part(r, 1)), CHARL_ERR_CONFIG);
    charl_checkpoint_close(r);
}

/* Two of equal contents have the same files; saving one again changes none of them. */
static void test_names(void **state)
{
    const char *path = file("a.h5"), *whole = file("whole.h5");
    charl_checkpoint_reader *r = NULL;
    char first[2][600];

    (void)state;
    sample_init(&s, 7);
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(save(path, 2, false));
        charl_assert_ok(charl_checkpoint_open(path, &r));
        snprintf(first[i], sizeof first[i], "%s", charl__checkpoint_part(r, 0));
        charl_checkpoint_close(r);
    }
    assert_string_equal(first[0], first[1]);
    assert_int_equal(count("a.h5.*"), 2);
    charl_assert_ok(charl_checkpoint_save(whole, &s.c));
    assert_int_equal(charl_checkpoint_size(whole), size_of(whole));
    assert_true(charl_checkpoint_size(path) > size_of(path) + size_of(first[0]));
    charl_assert_status(charl_checkpoint_open(first[0], &r), CHARL_ERR_CHECKPOINT);
    charl_assert_message("is a part of a checkpoint; HINT name the checkpoint");
}

/* Every byte of every file, one in seven: the damage is found, or nothing that is read has changed. */
static void test_damage(void **state)
{
    const char *path = file("a.h5");
    charl_checkpoint_reader *r = NULL;
    char names[4][600];
    int64_t found = 0, tried = 0;
    bool named = false;

    (void)state;
    sample_init(&s, 7);
    charl_assert_ok(save(path, 3, true));
    charl_assert_ok(charl_checkpoint_open(path, &r));
    snprintf(names[3], sizeof names[3], "%s", path);
    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "%s", charl__checkpoint_part(r, i));
    }
    charl_checkpoint_close(r);
    for (int i = 0; i < 4; i++) {
        const int64_t bytes = size_of(names[i]);
        FILE *f = fopen(names[i], "r+b");

        assert_non_null(f);
        for (int64_t at = i; at < bytes; at += 41 * charl_test_each(7)) {
            int c, step;

            fseek(f, (long)at, SEEK_SET);
            c = fgetc(f);
            fseek(f, (long)at, SEEK_SET);
            fputc(c ^ 4, f);
            fflush(f);
            step = (int)sample_load(path);
            assert_true(step == -1 || step == 7);
            if (step == -1 && strstr(charl_error_message(), "is damaged: its checksum")) {
                named = strstr(charl_error_message(), names[i]) && strstr(charl_error_message(), ": /");
                assert_true(named);
            }
            found += step == -1;
            tried++;
            fseek(f, (long)at, SEEK_SET);
            fputc(c, f);
            fflush(f);
        }
        fclose(f);
    }
    assert_true(named);
    assert_true(found > tried / 2);
    assert_int_equal(sample_load(path), 7);
}

static void test_missing(void **state)
{
    const char *path = file("a.h5"), *link = file("last.h5");
    char command[1500];
    charl_checkpoint_reader *r = NULL;

    (void)state;
    sample_init(&s, 7);
    charl_assert_ok(save(path, 2, false));
    assert_int_equal(symlink("a.h5", link), 0);
    assert_int_equal(sample_load(link), 7);
    assert_int_equal(mkdir(file("moved"), 0777), 0);
    snprintf(command, sizeof command, "mv '%s'/a.h5* '%s/moved'", dir, dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(sample_load(file("moved/a.h5")), 7);
    snprintf(command, sizeof command, "mv '%s/moved/a.h5' '%s'", dir, path);
    assert_int_equal(system(command), 0);
    charl_assert_status(charl_checkpoint_open(path, &r), CHARL_ERR_CHECKPOINT);
    charl_assert_message("part is missing: the files of a checkpoint in parts are moved and copied together");
}

/* A save over a checkpoint that is there dies at each of the points that change the disk, at each time that it passes it. */
static void test_dies(void **state)
{
    static const char *const points[] = {"io.crash.written", "io.crash.synced", "io.crash.verified",
                                         "io.crash.renamed"};
    const char *path = file("a.h5");
    int64_t deaths[2] = {0, 0};

    (void)state;
    for (int p = 0; p < 4; p++) {
        for (int when = 1; when <= 3; when++) { /* the parts, then the checkpoint */
            const bool is_new = p == 3 && when == 3;
            char spec[64];
            int status = 0;
            pid_t pid;

            sample_init(&s, 3);
            charl_assert_ok(save(path, 2, false));
            snprintf(spec, sizeof spec, "%s:%d", points[p], when);
            pid = fork();
            if (pid == 0) {
                sample_init(&s, 7);
                charl_test_fault_set(spec);
                (void)!save(path, 2, true);
                _exit(0);
            }
            assert_int_equal(waitpid(pid, &status, 0), pid);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            assert_int_equal(sample_load(path), is_new ? 7 : 3);
            deaths[is_new]++;
            charl_assert_ok(charl__commit_sweep(dir, true, NULL));
            charl_assert_ok(charl__ckpt_sweep(dir, NULL));
            assert_int_equal(count("a.h5*"), 3);
            assert_int_equal(sample_load(path), is_new ? 7 : 3);
        }
    }
    assert_int_equal(deaths[0], 11);
    assert_int_equal(deaths[1], 1);
}

/* Which parts stay: those of a checkpoint, whatever its name is; those beside one that cannot be read. */
static void test_sweep(void **state)
{
    const char *path = file("a.h5"), *moved = file("a.h5.superseded"), *renamed = file("the best.h5");
    int removed = 0;

    (void)state;
    sample_init(&s, 3);
    charl_assert_ok(save(path, 2, false));
    assert_int_equal(rename(path, renamed), 0);
    charl_assert_ok(charl__ckpt_sweep(dir, &removed));
    assert_int_equal(removed, 0);
    assert_int_equal(sample_load(renamed), 3);
    assert_int_equal(rename(renamed, path), 0);
    assert_int_equal(rename(path, moved), 0);
    sample_init(&s, 7);
    charl_assert_ok(save(path, 3, false));
    charl_assert_ok(charl__ckpt_sweep(dir, &removed));
    assert_int_equal(removed, 0);
    assert_int_equal(unlink(path), 0);
    charl_assert_ok(charl__ckpt_sweep(dir, &removed));
    assert_int_equal(removed, 3);
    assert_int_equal(sample_load(moved), 3);
    put_file(moved, "none", 4);
    charl_assert_ok(charl__ckpt_sweep(dir, &removed));
    assert_int_equal(removed, 0);
    assert_int_equal(unlink(moved), 0);
    charl_assert_ok(charl__ckpt_sweep(dir, &removed));
    assert_int_equal(removed, 2);
    charl_assert_ok(charl__ckpt_sweep(file("nowhere"), &removed));
}

static void misread(void)
{
    charl_test_fault_set("io.readflip:1");
}

static void lose(void)
{
    char command[700];

    snprintf(command, sizeof command, "find '%s' -name '*.part' -size +1k | head -n 1 | xargs rm", dir);
    assert_int_equal(system(command), 0);
}

/* A part that cannot be read back when the checkpoint is made of them: an error of the disk that the save ends with. */
static void test_parts_that_are_not_as_written(void **state)
{
    static const struct {
        void (*happens)(void);
        const char *message;
    } cases[] = {{misread, "read back after writing: "}, {lose, "is missing: the files of a checkpoint"}};
    const char *path = file("a.h5");

    (void)state;
    sample_init(&s, 7);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        between = cases[i].happens;
        charl_assert_status(save(path, 3, true), CHARL_ERR_DISK);
        charl_assert_message("read back after writing: ");
        charl_assert_message(cases[i].message);
        charl_test_fault_set(NULL);
        between = NULL;
        assert_int_equal(size_of(path), -1);
    }
}

/* Who makes the checkpoint reads tensors that are in several pieces once, for their hashes, and those that are in one piece not at all. */
static void test_reads(void **state)
{
    static float values[1 << 18]; /* the metadata of HDF5 are nothing beside them */
    const int64_t bytes = sizeof values;

    (void)state;
    sample_init(&s, 7);
    for (int i = 0; i < SAMPLE_TENSORS; i++) {
        if (s.tensors[i].data == s.large) {
            s.tensors[i].data = values;
            s.tensors[i].shape = (charl_shape){1, {1 << 18}};
        }
    }
    charl_assert_ok(save(file("one.h5"), 1, true));
    assert_true(reads < bytes / 2);
    charl_assert_ok(save(file("three.h5"), 3, true));
    assert_true(reads > bytes && reads < bytes * 3 / 2);
}

static charl_status save_read_sweep(void *path)
{
    charl_checkpoint_reader *r = NULL;
    charl_status st = save(path, 1, true);

    st = st == CHARL_OK ? charl__ckpt_sweep(dir, NULL) : st;
    st = st == CHARL_OK ? charl_checkpoint_open(path, &r) : st;
    charl_checkpoint_close(r);
    return st;
}

/* A full disk, and memory that runs out, fail the save and leave nothing alive. */
static void test_failing(void **state)
{
    static const char *const points[] = {"io.enospc", "io.create", "io.fsync", "io.rename", "io.flip"};
    char *path = file("a.h5");

    (void)state;
    sample_init(&s, 7);
    for (int p = 0; p < 5; p++) {
        char spec[64];

        snprintf(spec, sizeof spec, "%s:2", points[p]);
        charl_test_fault_set(spec);
        charl_assert_status(save(path, 2, true), CHARL_ERR_DISK);
        charl_test_fault_set(NULL);
        assert_int_equal(size_of(path), -1);
        charl_assert_ok(charl__ckpt_sweep(dir, NULL));
        assert_int_equal(count("a.h5*"), 0);
    }
    s.c.n_tensors = 2;
    assert_true(charl_test_fail_every_acquisition(save_read_sweep, path) > 100);
}

/* Other programs see the tensors through the virtual datasets, also in another folder and through a link; NaN where a part is missing. */
static void test_h5py(void **state)
{
    static const char script[] = "import sys, os, h5py, numpy as np\n"
                                 "d = sys.argv[1]\n"
                                 "whole = h5py.File(d + '/whole.h5', 'r')\n"
                                 "def compare(path):\n"
                                 "    f = h5py.File(path, 'r')\n"
                                 "    assert f.attrs['charl_version'] == 4 and sorted(f) == sorted([*whole, 'parts'])\n"
                                 "    for line in f['manifest'][:].tobytes().decode().splitlines():\n"
                                 "        name = line.split()[0]\n"
                                 "        a, b = whole[name], f[name]\n"
                                 "        assert a.shape == b.shape and a.dtype == b.dtype, name\n"
                                 "        assert a[()].tobytes() == b[()].tobytes(), name\n"
                                 "    assert f['model/conv.weight'].is_virtual\n"
                                 "compare(d + '/a.h5')\n"
                                 "os.mkdir(d + '/run')\n"
                                 "os.mkdir(d + '/run/checkpoints')\n"
                                 "parts = [n for n in os.listdir(d) if n.endswith('.part')]\n"
                                 "for n in ['a.h5', *parts]:\n"
                                 "    os.rename(d + '/' + n, d + '/run/checkpoints/' + n)\n"
                                 "os.symlink('checkpoints/a.h5', d + '/run/last.h5')\n"
                                 "os.chdir('/')\n"
                                 "compare(d + '/run/last.h5')\n"
                                 "os.remove(d + '/run/checkpoints/' + parts[0])\n"
                                 "w = h5py.File(d + '/run/last.h5', 'r')['model/conv.weight'][()]\n"
                                 "assert 0 < np.isnan(w).sum() < w.size\n";
    char command[1400];

    (void)state;
    if (system("/usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null") != 0) {
        print_message("SKIP: /usr/bin/python3 has no h5py\n");
        skip();
    }
    sample_init(&s, 7);
    charl_assert_ok(charl_checkpoint_save(file("whole.h5"), &s.c));
    charl_assert_ok(save(file("a.h5"), 3, true));
    put_file(file("check.py"), script, sizeof script - 1);
    snprintf(command, sizeof command, "/usr/bin/python3 '%s' '%s'", file("check.py"), dir);
    assert_int_equal(system(command), 0);
}

/* Boxes of a tensor, one after the other, are its elements in order. */
static void test_boxes(void **state)
{
    static const charl_shape shapes[] = {{0, {0}}, {1, {7}}, {2, {3, 4}}, {3, {2, 3, 4}}, {4, {2, 1, 3, 2}}};

    (void)state;
    for (int k = 0; k < 5; k++) {
        const charl_shape *shape = &shapes[k];
        const int64_t n = charl_shape_count(shape);

        for (int64_t a = 0; a < n; a++) {
            for (int64_t b = a + 1; b <= n; b++) {
                int boxes = 0;

                for (int64_t at = a; at < b; boxes++) {
                    const charl__ckpt_box box = charl__ckpt_box_at(shape, at, b);
                    int64_t first = 0, elements = 1;

                    for (int d = 0; d < shape->ndim; d++) {
                        first = first * shape->dim[d] + (int64_t)box.start[d];
                        elements *= (int64_t)box.count[d];
                        assert_true(box.start[d] + box.count[d] <= (hsize_t)shape->dim[d]);
                    }
                    assert_int_equal(first, at);
                    assert_int_equal(elements, box.n);
                    at += box.n;
                    assert_true(at <= b);
                }
                assert_true(boxes <= 2 * shape->ndim + 1);
            }
        }
    }
}

static void test_joined_checksums(void **state)
{
    static unsigned char data[DATA];

    (void)state;
    for (int i = 0; i < DATA; i++) {
        data[i] = (unsigned char)charl_test_random(1, (uint64_t)i);
    }
    for (size_t cut = 0; cut < DATA; cut += 997) {
        assert_int_equal(charl__crc32c_join(charl__crc32c(0, data, cut), charl__crc32c(0, data + cut, DATA - cut),
                                            (int64_t)(DATA - cut)),
                         charl__crc32c(0, data, DATA));
    }
    assert_int_equal(charl__crc32c_join(charl__crc32c(0, data, DATA), 0, 0), charl__crc32c(0, data, DATA));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_cut, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_names, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_damage, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_missing, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_dies, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_sweep, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_failing, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_parts_that_are_not_as_written, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_reads, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_h5py, setup_dir, teardown_dir),
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_joined_checksums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The configuration as users meet it: values, overrides, notices, layers and the printed form. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "charl/config.h"
#include "charl/layer.h"
#include "charl/optim.h"
#include "support/support.h"

static const char GOOD[] = "[run]\n"
                           "name = demo\n"
                           "output_dir = runs/${name}  ; where it goes\n"
                           "[data]\n"
                           "path =\n"
                           "  \"some; file #1.h5\" # quoted\n"
                           "normalize = 0.5, 0.25 / 1, 2\n"
                           "augment = crop:4, flip,\n"
                           "  mixup:0.2\n"
                           "[model]\n"
                           "type = sequential\n"
                           "[layer conv1]\n"
                           "type = conv2d\n"
                           "channels = 32\n"
                           "kernel = 3 x 5\n"
                           "[layer fc.out]\n"
                           "type = linear\n"
                           "[train]\n"
                           "batch_size = 64k\n"
                           "[scheduler]\n"
                           "type = multistep\n"
                           "milestones = 10, 20,\n"
                           "  30 ; more\n"
                           "\n"
                           "  40\n"
                           "[eval]\n"
                           "interval = 30m\n"
                           "metrics = accuracy, top5\n";

static charl_status parse(const char *text, charl_config **out)
{
    return charl_config_parse("conf/t.ini", text, strlen(text), NULL, 0, out);
}

static const char *text_of(const charl_config *c, const char *key)
{
    const char *out = NULL;

    charl_assert_ok(charl_config_get_text(c, key, &out));
    return out;
}

static int64_t int_of(const charl_config *c, const char *key)
{
    int64_t out = -1;

    charl_assert_ok(charl_config_get_int(c, key, &out));
    return out;
}

static double number_of(const charl_config *c, const char *key)
{
    double out = -1;

    charl_assert_ok(charl_config_get_number(c, key, &out));
    return out;
}

static const void *settings_of(const charl_config *c, const char *section)
{
    const void *out = NULL;

    charl_assert_ok(charl_config_get_settings(c, section, &out));
    return out;
}

/* How often a line stands in the printed configuration. */
static int count_printed(const charl_config *c, const char *line)
{
    char *text = NULL;
    int n = 0;

    charl_assert_ok(charl_config_print(c, false, &text));
    for (const char *at = text; (at = strstr(at, line)) != NULL; at++) {
        n++;
    }
    charl_free(text);
    return n;
}

static void test_values(void **state)
{
    charl_config *c = NULL;
    const charl_schedule *schedule;

    (void)state;
    assert_int_equal(parse(GOOD, &c), CHARL_OK);
    assert_string_equal(text_of(c, "run.name"), "demo");
    assert_string_equal(text_of(c, "run.output_dir"), "conf/runs/demo");
    assert_int_equal(int_of(c, "run.seed"), 42);
    assert_string_equal(text_of(c, "run.resume"), "auto");
    assert_string_equal(text_of(c, "data.path"), "conf/some; file #1.h5");
    assert_int_equal(count_printed(c, "\nnormalize = 0.5, 0.25 / 1, 2\n"), 1);
    assert_int_equal(count_printed(c, "\naugment = flip, crop:4, mixup:0.2\n"), 1);
    assert_int_equal(int_of(c, "train.batch_size"), 65536);
    assert_string_equal(text_of(c, "scheduler.type"), "multistep");
    schedule = settings_of(c, "scheduler");
    assert_int_equal(schedule->milestones.count, 4);
    assert_int_equal(schedule->milestones.values[3], 40);
    assert_int_equal(count_printed(c, "\n[eval]\ninterval = 30m\n"), 1);
    assert_int_equal(count_printed(c, "\nmetrics = accuracy, top5\n"), 1);
    assert_int_equal(count_printed(c, "\n[layer "), 2);
    assert_null(charl_config_get_notice(c, 0));
    charl_config_destroy(c);
}

static void test_defaults_name_the_file(void **state)
{
    static const char text[] = "\xef\xbb\xbf[data]\r\npath = /abs/x.h5\r\n[model]\r\ntype = mlp\r\n";
    charl_config *c = NULL;
    char *printed = NULL;

    (void)state;
    assert_int_equal(parse(text, &c), CHARL_OK);
    assert_string_equal(text_of(c, "run.name"), "t");
    assert_string_equal(text_of(c, "run.output_dir"), "conf/runs/t");
    assert_string_equal(text_of(c, "data.path"), "/abs/x.h5");
    assert_int_equal(charl_config_print(c, false, &printed), CHARL_OK);
    assert_non_null(strstr(printed, "\nhidden = 128\n"));
    charl_free(printed);
    assert_true(number_of(c, "optimizer.learning_rate") == 1e-3);
    assert_string_equal(text_of(c, "optimizer.type"), "adamw");
    assert_true(((const charl_optimizer_config *)settings_of(c, "optimizer"))->beta1 == 0.9);
    charl_config_destroy(c);
}

#define HEAD "[data]\npath=d.h5\n[model]\ntype=mlp\n" /* four lines */

static charl_status override(const char *const *texts, int n, charl_config **out)
{
    charl_config_override o[8];

    for (int i = 0; i < n; i++) {
        o[i] = (charl_config_override){texts[i], i == 0 ? NULL : "--set"};
    }
    return charl_config_parse("conf/t.ini", GOOD, strlen(GOOD), o, n, out);
}

static void test_overrides(void **state)
{
    static const char *const good[] = {"train.epochs=5",
                                       "train.epochs=7",
                                       "run.name=other",
                                       "layer.fc.out.features=10",
                                       "run.output_dir=here/${name}",
                                       "train.max_steps=1",
                                       "layer conv1.kernel=7"};
    static const struct {
        const char *text;
        const char *message;
    } wrong[] = {
        {"lr=3", "command line: \"lr=3\" is not SECTION.KEY=VALUE (did you mean optimizer.learning_rate?)"},
        {"train.epochs", "command line: \"train.epochs\" is not SECTION.KEY=VALUE"},
        {"epochs=2", "command line: \"epochs=2\" is not SECTION.KEY=VALUE (did you mean train.epochs?)"},
        {"lr=2", "command line: \"lr=2\" is not SECTION.KEY=VALUE (did you mean optimizer.learning_rate?)"},
        {".epochs=2", "command line: \".epochs=2\" is not SECTION.KEY=VALUE (did you mean train.epochs?)"},
        {"trian.epochs=2", "command line: [trian]: unknown section (did you mean [train]?)"},
        {"train.epoch=2", "command line: [train] epoch: unknown key (did you mean epochs?)"},
        {"train.epochs=two", "command line: [train] epochs: \"two\" is not an integer"},
        {"layer.fc9.type=relu", "command line: [layer fc9]: the file has no such layer"},
    };
    charl_config *c = NULL;

    (void)state;
    assert_int_equal(override(good, 7, &c), CHARL_OK);
    assert_int_equal(int_of(c, "train.epochs"), 7);
    assert_string_equal(text_of(c, "run.name"), "other");
    assert_string_equal(text_of(c, "run.output_dir"), "here/other");
    charl_config_destroy(c);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(override(&wrong[i].text, 1, &c), CHARL_ERR_CONFIG);
        assert_string_equal(charl_error_message(), wrong[i].message);
    }
}

/* A loss brings its keys into [train]; those of other losses are noticed. */
static void test_keys_of_a_loss(void **state)
{
    double delta;
    charl_config *c = NULL;
    char *text = NULL;

    (void)state;
    assert_int_equal(parse(HEAD "[train]\nhuber_delta = 0.5\nlabel_smoothing = 0.1\nloss = huber\n", &c), CHARL_OK);
    assert_string_equal(text_of(c, "train.loss"), "huber");
    assert_true(number_of(c, "train.huber_delta") == 0.5);
    assert_string_equal(charl_config_get_notice(c, 0),
                        "conf/t.ini:7: [train] label_smoothing has no effect with loss = huber");
    assert_null(charl_config_get_notice(c, 1));
    assert_int_equal(charl_config_print(c, false, &text), CHARL_OK);
    assert_non_null(strstr(text, "\nhuber_delta = 0.5\n"));
    assert_null(strstr(text, "label_smoothing"));
    charl_free(text);
    charl_config_destroy(c);
    assert_int_equal(parse(HEAD "[train]\nloss = mse\n", &c), CHARL_OK);
    charl_assert_status(charl_config_get_number(c, "train.huber_delta", &delta), CHARL_ERR_INVALID);
    charl_config_destroy(c);
}

/* Configurations stored in checkpoints name metrics that were the default whatever the loss. */
static void test_former_default_metrics(void **state)
{
    charl_config *c = NULL;
    char *text = NULL;

    (void)state;
    assert_int_equal(
        parse(HEAD "[train]\nloss = mse\n[eval]\nmetrics = loss, accuracy\n[checkpoint]\nmode = min\n", &c), CHARL_OK);
    assert_int_equal(charl_config_print(c, false, &text), CHARL_OK);
    assert_non_null(strstr(text, "\nmetrics = auto\n"));
    charl_free(text);
    charl_config_destroy(c);
}

static void test_notices(void **state)
{
    charl_config *c = NULL;

    (void)state;
    assert_int_equal(parse(HEAD "[optimizer]\nlr = 0.5\nmomentum = 0\n[train]\nglobal_batch_size = 8\n", &c), CHARL_OK);
    assert_true(number_of(c, "optimizer.learning_rate") == 0.5);
    assert_int_equal(int_of(c, "train.batch_size"), 8);
    assert_string_equal(charl_config_get_notice(c, 0), "conf/t.ini:6: [optimizer] lr is read as learning_rate");
    assert_string_equal(charl_config_get_notice(c, 1), "conf/t.ini:9: [train] global_batch_size is read as batch_size");
    assert_string_equal(charl_config_get_notice(c, 2),
                        "conf/t.ini:7: [optimizer] momentum has no effect with type = adamw");
    assert_null(charl_config_get_notice(c, 3));
    charl_config_destroy(c);
}

/* Checkpoints of earlier versions hold configurations with these names. */
static void test_former_names(void **state)
{
    charl_config *c = NULL;

    (void)state;
    assert_int_equal(parse(HEAD "[train]\npasses = 2\n[log]\nmetrics = csv\n[dist]\nallreduce = tree\n", &c), CHARL_OK);
    assert_int_equal(int_of(c, "train.grad_accum_steps"), 2);
    assert_int_equal(count_printed(c, "\nformats = csv\n"), 1);
    assert_string_equal(text_of(c, "dist.allreduce"), "p2p");
    charl_config_destroy(c);
    assert_int_equal(parse(HEAD "[dist]\nallreduce = window\n", &c), CHARL_OK);
    assert_string_equal(text_of(c, "dist.allreduce"), "shm");
    charl_config_destroy(c);
    assert_int_equal(parse(HEAD "[dist]\nshard_optimizer = yes\n", &c), CHARL_OK);
    assert_int_equal(count_printed(c, "\nshard = optimizer\n"), 1);
    charl_config_destroy(c);
    assert_int_equal(parse(HEAD "[dist]\nshard_optimizer = no\n", &c), CHARL_OK);
    assert_int_equal(count_printed(c, "\nshard = none\n"), 1);
    charl_config_destroy(c);
    assert_int_equal(parse(HEAD "[dist]\nallreduce = nodes\n", &c), CHARL_OK);
    assert_string_equal(text_of(c, "dist.allreduce"), "hierarchical");
    charl_config_destroy(c);
    assert_int_equal(parse(HEAD "[optimizer]\ntype = adam\nmomentum = auto\nbeta1 = auto\n"
                                "beta2 = auto\neps = auto\n",
                           &c),
                     CHARL_OK);
    charl_config_destroy(c);
}

/* A key that was yes or no and has more choices now takes what it took before. */
static void test_choices_with_yes_and_no(void **state)
{
    static const char *const words[] = {"yes", "true", "on", "no", "false", "off"};
    charl_config *c = NULL;

    (void)state;
    for (int i = 0; i < 6; i++) {
        char text[128];

        snprintf(text, sizeof text, "[data]\npath=d.h5\nshuffle=%s\n[model]\ntype=mlp\n", words[i]);
        assert_int_equal(parse(text, &c), CHARL_OK);
        assert_int_equal(count_printed(c, i < 3 ? "\nshuffle = yes\n" : "\nshuffle = no\n"), 1);
        charl_config_destroy(c);
    }
    assert_int_equal(parse(HEAD "[device]\nallow_tf32 = blocks\n", &c), CHARL_ERR_CONFIG);
}

static void test_environment_and_home(void **state)
{
    charl_config *c = NULL;

    (void)state;
    setenv("CHARL_TEST_HERE", "/data sets", 1);
    setenv("HOME", "/home/me", 1);
    assert_int_equal(parse("[run]\noutput_dir = ~/r\nname = a$b$$c${CHARL_TEST_X}\n[data]\n"
                           "path = ${CHARL_TEST_HERE}/x.h5\n[model]\ntype=mlp\n",
                           &c),
                     CHARL_ERR_CONFIG);
    setenv("CHARL_TEST_X", "!", 1);
    assert_int_equal(parse("[run]\noutput_dir = ~/r\nname = a$b$$c${CHARL_TEST_X}\n[data]\n"
                           "path = ${CHARL_TEST_HERE}/x.h5\n[model]\ntype=mlp\n",
                           &c),
                     CHARL_OK);
    assert_string_equal(text_of(c, "data.path"), "/data sets/x.h5");
    assert_string_equal(text_of(c, "run.output_dir"), "/home/me/r");
    assert_string_equal(text_of(c, "run.name"), "a$b$c!");
    charl_config_destroy(c);
    setenv("CHARL_TEST_X", "a\x1b", 1);
    assert_int_equal(parse(HEAD "[run]\nname=${CHARL_TEST_X}\n", &c), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), "conf/t.ini:6: [run] name: environment variable CHARL_TEST_X holds the "
                                               "control or invisible character U+001B");
    unsetenv("HOME");
    assert_int_equal(parse(HEAD "[run]\noutput_dir=~/r\n", &c), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(),
                        "conf/t.ini:6: [run] output_dir: ~/r: HOME is not set, so ~ is no folder");
}

static void assert_prints_the_same(const charl_config *c)
{
    charl_config *again = NULL;
    char *text = NULL;
    char *text2 = NULL;

    for (int origins = 0; origins < 2; origins++) {
        assert_int_equal(charl_config_print(c, origins, &text), CHARL_OK);
        assert_int_equal(charl_config_parse("/elsewhere/x.ini", text, strlen(text), NULL, 0, &again), CHARL_OK);
        charl_free(text);
        assert_int_equal(charl_config_print(c, false, &text), CHARL_OK);
        assert_int_equal(charl_config_print(again, false, &text2), CHARL_OK);
        assert_string_equal(text, text2);
        charl_free(text);
        charl_free(text2);
        charl_config_destroy(again);
    }
}

static void test_print_reads_back(void **state)
{
    static const char odd[] = "[run]\nname = \" #1 \\\"x\\\\ $${y} $$$$ \"\nmax_time = 1-02:03:04\n"
                              "[data]\npath = /d\nnormalize = 0.1, 1e-9 / 0.333333333, 7\nval_split = 0.1\n"
                              "[layer a]\ntype = dropout\np = 0.25\nnote = \"a;b # c\"\n"
                              "[optimizer]\nlearning_rate = 0.1234567890123456789\n[eval]\ninterval = 45s\n"
                              "[checkpoint]\ninterval = 0\n[log]\nformats =\n";
    charl_config *c = NULL;
    char *text = NULL;

    (void)state;
    assert_int_equal(parse(GOOD, &c), CHARL_OK);
    assert_prints_the_same(c);
    charl_config_destroy(c);
    assert_int_equal(parse("[data]\npath=d\n[model]\ntype=gpt\nblock_size=8\n", &c), CHARL_OK);
    assert_prints_the_same(c);
    charl_config_destroy(c);
    assert_int_equal(parse(odd, &c), CHARL_OK);
    assert_string_equal(text_of(c, "run.name"), " #1 \"x\\ ${y} $$ ");
    assert_prints_the_same(c);
    assert_int_equal(charl_config_print(c, true, &text), CHARL_OK);
    assert_non_null(strstr(text, "max_time = 1-02:03:04                   ; conf/t.ini:3\n"));
    assert_non_null(strstr(text, "seed = 42                               ; default\n"));
    charl_free(text);
    charl_config_destroy(c);
}

/* Keys of the same name belong to each type by itself: with its default, and set for the type that is chosen in the end. */
static void test_keys_belong_to_types(void **state)
{
    static const char text[] = HEAD "dropout = 0.5\n[optimizer]\nbeta2 = 0.5\ntype = adam\n[scheduler]\nmin_lr = 0\n";
    const charl_config_override lion = {"optimizer.type=lion", NULL}, rms = {"optimizer.type=rmsprop", NULL},
                                sgd = {"optimizer.type=sgd", NULL};
    charl_config *c = NULL;
    const charl_optimizer_config *o;

    (void)state;
    assert_int_equal(charl_config_parse("t.ini", text, strlen(text), &rms, 1, &c), CHARL_OK);
    o = settings_of(c, "optimizer");
    assert_true(o->beta2 == 0.5 && o->eps == 1e-8 && o->momentum == 0.0);
    assert_string_equal(charl_config_get_notice(c, 0),
                        "t.ini:10: [scheduler] min_lr has no effect with type = constant");
    assert_null(charl_config_get_notice(c, 1));
    charl_config_destroy(c);
    assert_int_equal(charl_config_parse("t.ini", HEAD, strlen(HEAD), &lion, 1, &c), CHARL_OK);
    assert_true(((const charl_optimizer_config *)settings_of(c, "optimizer"))->beta2 == 0.99);
    charl_config_destroy(c);
    assert_int_equal(charl_config_parse("t.ini", text, strlen(text), &sgd, 1, &c), CHARL_OK);
    assert_true(((const charl_optimizer_config *)settings_of(c, "optimizer"))->momentum == 0.9);
    assert_string_equal(charl_config_get_notice(c, 0), "t.ini:7: [optimizer] beta2 has no effect with type = sgd");
    charl_config_destroy(c);
}

static void test_help_lists_the_table(void **state)
{
    charl_config_key key;
    char *text = NULL;
    int n = 0;

    (void)state;
    assert_int_equal(charl_config_help(NULL, &text), CHARL_OK);
    for (charl_assert_ok(charl_config_key_at(0, &key)); key.name; charl_assert_ok(charl_config_key_at(++n, &key))) {
        char line[128];

        snprintf(line, sizeof line, "\n%*s%s ", key.chooser ? 4 : 2, "", key.name);
        assert_true(strcmp(key.section, "layer") == 0 || strstr(text, line));
    }
    assert_true(n > 150);
    charl_free(text);
    assert_int_equal(charl_config_help("scheduler", &text), CHARL_OK);
    assert_memory_equal(text, "[scheduler]\n", 12);
    assert_null(strstr(text, "[train]"));
    charl_free(text);
    assert_int_equal(charl_config_help("layer", &text), CHARL_OK);
    assert_memory_equal(text, "[layer NAME]\n", 13);
    for (int i = 0; charl_layer_type_name(i); i++) {
        char line[128];

        snprintf(line, sizeof line, "\n  type = %s\n", charl_layer_type_name(i));
        assert_non_null(strstr(text, line));
    }
    assert_non_null(strstr(text, "\n    kernel (required)\n        an integer, or two"));
    assert_non_null(strstr(text, "\n    stride = 1x1\n"));
    assert_non_null(strstr(text, "\n    bias = yes\n        yes or no\n"));
    assert_non_null(strstr(text, "\n    init = default\n        default, kaiming_normal\n"));
    assert_non_null(strstr(text, "\n    slope = 0.01\n        number in [-1e6,1e6)\n"));
    assert_non_null(strstr(text, "\n    activation = \n        relu, relu6, hardsigmoid, hardswish, leaky_relu"));
    charl_free(text);
    assert_int_equal(charl_config_help("shceduler", &text), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), "unknown section \"shceduler\" (did you mean scheduler?)");
}

static void test_load(void **state)
{
    char path[] = "/tmp/charl_config_XXXXXX", *dir = charl_test_tempdir();
    const int fd = mkstemp(path);
    charl_config *c = NULL;
    FILE *f;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, GOOD, strlen(GOOD)), strlen(GOOD));
    close(fd);
    assert_int_equal(charl_config_load(path, NULL, 0, &c), CHARL_OK);
    assert_string_equal(text_of(c, "run.output_dir"), "/tmp/runs/demo");
    charl_config_destroy(c);
    unlink(path);
    assert_int_equal(charl_config_load("/no/such.ini", NULL, 0, &c), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), "/no/such.ini: No such file or directory");
    assert_int_equal(charl_config_load("/proc/self/fdinfo", NULL, 0, &c), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), "/proc/self/fdinfo is a folder, not a configuration");
    f = fopen(charl_test_path(dir, "config.ini"), "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(charl_config_load(dir, NULL, 0, &c), CHARL_ERR_CONFIG);
    charl_assert_message("is a run directory; HINT its configuration is");
    charl_assert_message("/config.ini");
    charl_test_tempdir_remove(dir);
}

static void put(const char *dir, const char *name, const char *text)
{
    FILE *f = fopen(charl_test_path(dir, name), "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* config.ini beside run_id is that of the run in its own directory, whatever it says: a run may have been copied or moved. */
static void test_own_directory(void **state)
{
    static const char text[] = "[run]\noutput_dir = /old/place\n[data]\npath = d.h5\n[model]\ntype = mlp\n";
    const charl_config_override elsewhere = {.text = "run.output_dir=there"};
    char *dir = charl_test_tempdir(), path[4096], data[4200], note[8400];
    charl_config *c = NULL;

    (void)state;
    put(dir, "config.ini", text);
    put(dir, "other.ini", text);
    snprintf(path, sizeof path, "%s/config.ini", dir);
    snprintf(data, sizeof data, "%s/d.h5", dir);
    snprintf(note, sizeof note, "%s:2: [run] output_dir: /old/place is read as %s, the run directory of this file",
             path, dir);
    charl_assert_ok(charl_config_load(path, NULL, 0, &c));
    assert_string_equal(text_of(c, "run.output_dir"), "/old/place"); /* no run yet */
    charl_config_destroy(c);
    put(dir, "run_id", "000102030405060708090a0b0c0d0e0f\n");
    charl_assert_ok(charl_config_load(path, NULL, 0, &c));
    assert_string_equal(text_of(c, "run.output_dir"), dir);
    assert_string_equal(text_of(c, "data.path"), data);
    assert_string_equal(charl_config_get_notice(c, 0), note);
    charl_config_destroy(c);
    charl_assert_ok(charl_config_load(path, &elsewhere, 1, &c));
    assert_string_equal(text_of(c, "run.output_dir"), "there");
    charl_config_destroy(c);
    charl_assert_ok(charl_config_load(charl_test_path(dir, "other.ini"), NULL, 0, &c));
    assert_string_equal(text_of(c, "run.output_dir"), "/old/place");
    charl_config_destroy(c);
    put(dir, "config.ini", "[data]\npath = d.h5\n[model]\ntype = mlp\n[run]\noutput_dir = .\n");
    assert_int_equal(chdir(dir), 0);
    charl_assert_ok(charl_config_load("config.ini", NULL, 0, &c));
    assert_string_equal(text_of(c, "run.output_dir"), ".");
    assert_string_equal(text_of(c, "data.path"), "d.h5");
    assert_null(charl_config_get_notice(c, 0));
    charl_config_destroy(c);
    assert_int_equal(chdir("/"), 0);
    charl_test_tempdir_remove(dir);
}

/* "../" of a folder leaves no trace in paths, which are printed; of a link it leads from where the link points. */
static void test_folder_above(void **state)
{
    static const char text[] = "[run]\noutput_dir = ../runs/a\n[data]\npath = ../../d.h5\n[model]\ntype = mlp\n",
                      twice[] = "[run]\noutput_dir = ..//runs/a\n[data]\npath = ../..//d.h5\n[model]\ntype = mlp\n";
    static const struct {
        const char *file, *output, *data;
    } cases[] = {{"launch/a.ini", "runs/a", "../d.h5"},
                 {"launch/in/a.ini", "launch/runs/a", "d.h5"},
                 {"link/a.ini", "link/../runs/a", "link/../../d.h5"},
                 {"./launch/a.ini", "./runs/a", "./../d.h5"},
                 {"launch/twice.ini", "launch/..//runs/a", "..//d.h5"}};
    char *dir = charl_test_tempdir();

    (void)state;
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(mkdir("launch", 0700), 0);
    assert_int_equal(mkdir("launch/in", 0700), 0);
    assert_int_equal(symlink("launch/in", "link"), 0);
    put(dir, "launch/a.ini", text);
    put(dir, "launch/in/a.ini", text);
    put(dir, "launch/twice.ini", twice);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl_config *c = NULL;

        charl_assert_ok(charl_config_load(cases[i].file, NULL, 0, &c));
        assert_string_equal(text_of(c, "run.output_dir"), cases[i].output);
        assert_string_equal(text_of(c, "data.path"), cases[i].data);
        charl_config_destroy(c);
    }
    assert_int_equal(chdir("/"), 0);
    charl_test_tempdir_remove(dir);
}

static void test_larger_than_a_megabyte(void **state)
{
    char *text = calloc(1, (1 << 20) + 1);
    charl_config *c = NULL;

    (void)state;
    assert_non_null(text);
    assert_int_equal(charl_config_parse("t", text, (1 << 20) + 1, NULL, 0, &c), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), "t: larger than 1 MiB: not a configuration");
    free(text);
}

static void test_values_by_name(void **state)
{
    (void)state;
    charl_config *c = NULL;
    const char *text;
    const void *settings;
    int64_t whole;
    double number;

    charl_assert_ok(parse(GOOD, &c));
    charl_assert_ok(charl_config_get_int(c, "train.batch_size", &whole));
    assert_int_equal(whole, 65536);
    charl_assert_ok(charl_config_get_int(c, "dist.overlap", &whole));
    assert_int_equal(whole, 1);
    charl_assert_ok(charl_config_get_number(c, "dist.stage_timeout", &number));
    assert_true(number == 600);
    charl_assert_ok(charl_config_get_text(c, "run.output_dir", &text));
    assert_string_equal(text, "conf/runs/demo");
    charl_assert_ok(charl_config_get_text(c, "train.precision", &text));
    assert_string_equal(text, "f32");
    charl_assert_ok(charl_config_get_settings(c, "scheduler", &settings));
    assert_int_equal(((const charl_schedule *)settings)->milestones.count, 4);

    charl_assert_status(charl_config_get_int(c, "train.batchsize", &whole), CHARL_ERR_INVALID);
    assert_string_equal(charl_error_message(), "there is no key train.batchsize (did you mean train.batch_size?)");
    charl_assert_status(charl_config_get_int(c, "batch_size", &whole), CHARL_ERR_INVALID);
    assert_string_equal(charl_error_message(), "there is no key batch_size (did you mean train.batch_size?)");
    charl_assert_status(charl_config_get_text(c, "scheduler.gamma_of_nothing_at_all", &text), CHARL_ERR_INVALID);
    charl_assert_status(charl_config_get_text(c, "train.batch_size", &text), CHARL_ERR_INVALID);
    assert_string_equal(charl_error_message(), "charl_config_get_text cannot read train.batch_size, whose values are: "
                                               "integer; suffixes k, M, G are powers of 1024");
    charl_assert_status(charl_config_get_int(c, "optimizer.beta1", &whole), CHARL_ERR_INVALID);
    charl_assert_status(charl_config_get_settings(c, "data", &settings), CHARL_ERR_INVALID);
    charl_config_destroy(c);
}

static void test_every_acquisition_fails(void **state)
{
    const long live = charl_test_live();
    static const char *const o[] = {"train.epochs=5", "layer conv1.kernel=7"};

    (void)state;
    for (long n = 1; n < 2000; n++) {
        charl_config *c = NULL;
        char *text = NULL;
        charl_status st;

        charl_test_fault_after(n);
        st = override(o, 2, &c);
        if (st == CHARL_OK) {
            st = charl_config_print(c, true, &text);
        }
        charl_test_fault_after(0);
        charl_free(text);
        charl_config_destroy(c);
        assert_int_equal(charl_test_live(), live);
        if (st == CHARL_OK) {
            assert_true(n > 100);
            return;
        }
        assert_int_equal(st, CHARL_ERR_NOMEM);
    }
    fail();
}

/* Random changes of a valid file: any outcome but a crash or a leak. */
static void test_mutations(void **state)
{
    static const char bytes[] = "[]=#;\"\\ \n\t,.${}0123456789abcxyz_-+\x01\x80\xff";
    const int n = charl_test_env_is_on("CHARL_TEST_LONG")    ? 300000
                  : charl_test_env_is_on("CHARL_TEST_SHORT") ? 5000 / charl_test_each(20)
                                                             : 50000;
    const long live = charl_test_live();
    uint64_t x = 88172645463325252ULL;
    int accepted = 0;

    (void)state;
    for (int i = 0; i < n; i++) {
        char text[sizeof GOOD + 16];
        size_t length = strlen(GOOD);
        charl_config *c = NULL;

        memcpy(text, GOOD, sizeof GOOD);
        for (uint64_t k = 0; k <= (uint64_t)i % 5; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            const size_t at = (size_t)(x >> 32) % length;
            const char byte = bytes[(x >> 8) % (sizeof bytes - 1)];

            if (x % 3 == 0) {
                text[at] = byte;
            } else if (x % 3 == 1) {
                memmove(text + at + 1, text + at, length - at);
                text[at] = byte;
                length++;
            } else {
                memmove(text + at, text + at + 1, length - at - 1);
                length--;
            }
        }
        if (charl_config_parse("t.ini", text, length, NULL, 0, &c) == CHARL_OK) {
            accepted++;
        }
        charl_config_destroy(c);
    }
    assert_int_equal(charl_test_live(), live);
    assert_in_range(accepted, n / 20, n - n / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_defaults_name_the_file),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_notices),
        cmocka_unit_test(test_keys_of_a_loss),
        cmocka_unit_test(test_former_default_metrics),
        cmocka_unit_test(test_former_names),
        cmocka_unit_test(test_choices_with_yes_and_no),
        cmocka_unit_test(test_environment_and_home),
        cmocka_unit_test(test_print_reads_back),
        cmocka_unit_test(test_keys_belong_to_types),
        cmocka_unit_test(test_help_lists_the_table),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_own_directory),
        cmocka_unit_test(test_folder_above),
        cmocka_unit_test(test_larger_than_a_megabyte),
        cmocka_unit_test(test_values_by_name),
        cmocka_unit_test(test_every_acquisition_fails),
        cmocka_unit_test(test_mutations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

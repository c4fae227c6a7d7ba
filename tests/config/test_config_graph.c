/* Layers from sections: what each of them reads, repetitions, blocks with their parameters, and every mistake that can be made there. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "config/layers.h"
#include "config/values.h"
#include "support/support.h"

static charl_status parse(const char *text, charl_config **out)
{
    return charl_config_parse("t.ini", text, strlen(text), NULL, 0, out);
}

#define HEAD "[data]\npath=d.h5\n" /* two lines */

typedef struct seen {
    char text[4096];
} seen;

/* "NAME type(inputs) key=value; " */
static charl_status note(const charl__config_layer *layer, void *user)
{
    static const char *const keys[] = {"out", "channels", "kernel", "tie"};
    seen *s = user;
    const char *const *in, *value;
    const int n = charl__config_layer_inputs(layer, &in);
    size_t used = strlen(s->text);

    used += (size_t)snprintf(s->text + used, sizeof s->text - used, "%s %s(", charl__config_layer_name(layer),
                             charl__config_layer_type(layer));
    for (int i = 0; i < n; i++) {
        used += (size_t)snprintf(s->text + used, sizeof s->text - used, "%s%s", i ? ", " : "", in[i]);
    }
    used += (size_t)snprintf(s->text + used, sizeof s->text - used, ")");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (charl__config_layer_has(layer, keys[i])) {
            const charl_key key = {.name = keys[i], .kind = CHARL_KEY_TEXT};

            assert_int_equal(charl__config_layer_read(layer, &key, &value), CHARL_OK);
            used += (size_t)snprintf(s->text + used, sizeof s->text - used, " %s=%s", keys[i], value);
        }
    }
    snprintf(s->text + used, sizeof s->text - used, "; ");
    return CHARL_OK;
}

static const struct {
    const char *text, *layers;
} good[] = {
    {"[layer a]\ntype=relu\n[layer b]\ntype=relu\n", "a relu(input); b relu(a); "},
    {"[layer a]\ntype=relu\n[layer b]\ntype=add\ninput=a, input\n[layer c]\ntype=tanh\ninput=a\n[layer d]\ntype=add\n"
     "input = b,\n  c\n",
     "a relu(input); b add(a, input); c tanh(a); d add(b, c); "},
    {"[layer a]\ntype=relu\nrepeat=3\n[layer b]\ntype=add\ninput=a, a.0\n",
     "a.0 relu(input); a.1 relu(a.0); a.2 relu(a.1); b add(a.2, a.0); "},
    {"[layer a]\ntype=relu\nrepeat=1\n", "a.0 relu(input); "},
    /* a block is used twice, and repeated; parameters with and without defaults; products and quotients */
    {"[block couple]\nwidth=\nhalf=$width / 2\nkernel=3\n"
     "[block couple.conv]\ntype=conv2d\nchannels=$width\nkernel=$kernel, 2 * $half\n"
     "[block couple.out]\ntype=add\ninput=conv, input\n"
     "[layer first]\ntype=couple\nwidth=8\n"
     "[layer rest]\ntype=couple\nwidth=16\nkernel=5\nrepeat=2\n",
     "first.conv conv2d(input) channels=8 kernel=3,8; first.out add(first.conv, input); "
     "rest.0.conv conv2d(first.out) channels=16 kernel=5,16; rest.0.out add(rest.0.conv, first.out); "
     "rest.1.conv conv2d(rest.0.out) channels=16 kernel=5,16; rest.1.out add(rest.1.conv, rest.0.out); "},
    /* several inputs; only the first goes from copy to copy */
    {"[block up]\n[block up.mix]\ntype=concat\ninput=input2, input\n[block up.act]\ntype=relu\n"
     "[layer a]\ntype=relu\n[layer b]\ntype=tanh\n[layer c]\ntype=up\ninput=b, a\nrepeat=2\n",
     "a relu(input); b tanh(a); c.0.mix concat(a, b); c.0.act relu(c.0.mix); c.1.mix concat(a, c.0.act); "
     "c.1.act relu(c.1.mix); "},
    /* blocks in blocks, which hand parameters on; a type that is a parameter; tie within a block and to the outside */
    {"[block inner]\nact=relu\n[block inner.a]\ntype=$act\n[block inner.fc]\ntype=linear\nout=4\n"
     "[block inner.again]\ntype=linear\nout=4\ntie=fc\n[block inner.far]\ntype=linear\nout=4\ntie=first\n"
     "[block outer]\nact=gelu\nn=2\n[block outer.in]\ntype=inner\nact=$act\nrepeat=$n\n[block outer.end]\ntype=tanh\n"
     "[layer first]\ntype=linear\nout=4\n[layer x]\ntype=outer\nn=1\n[layer y]\ntype=relu\ninput=x.in.0.fc\n"
     "[layer z]\ntype=add\ninput=x, y\n",
     "first linear(input) out=4; x.in.0.a gelu(first); x.in.0.fc linear(x.in.0.a) out=4; "
     "x.in.0.again linear(x.in.0.fc) out=4 tie=x.in.0.fc; x.in.0.far linear(x.in.0.again) out=4 tie=first; "
     "x.end tanh(x.in.0.far); y relu(x.in.0.fc); z add(x.end, y); "},
    /* a dollar sign outside of a block is one */
    {"[layer a]\ntype=linear\nout=$x\n", "a linear(input) out=$x; "},
};

static void test_layers_from_sections(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[2048];
        charl_config *c = NULL, *again = NULL;
        char *printed = NULL;
        seen s = {""}, t = {""};

        snprintf(text, sizeof text, HEAD "%s", good[i].text);
        if (parse(text, &c) != CHARL_OK) {
            fail_msg("%s", charl_error_message());
        }
        assert_int_equal(charl__config_read_layers(c, note, &s), CHARL_OK);
        assert_string_equal(s.text, good[i].layers);
        /* and the printed form, which checkpoints keep, has the same ones */
        assert_int_equal(charl_config_print(c, false, &printed), CHARL_OK);
        assert_int_equal(parse(printed, &again), CHARL_OK);
        assert_int_equal(charl__config_read_layers(again, note, &t), CHARL_OK);
        assert_string_equal(t.text, s.text);
        charl_free(printed);
        charl_config_destroy(c);
        charl_config_destroy(again);
    }
}

#define BLOCK "[block b]\nwidth=\n[block b.l]\ntype=linear\nout=$width\n" /* lines 3 to 7 */

static const struct {
    const char *text, *message;
} bad[] = {
    {"[layer a]\ntype=relu\n[layer c]\ntype=tanh\ninput=q\n", "t.ini:7: [layer c] input: there is no layer q"},
    {"[layer conv1]\ntype=relu\n[layer c]\ntype=tanh\ninput=con1\n",
     "t.ini:7: [layer c] input: there is no layer con1 (did you mean conv1?)"},
    {"[layer a]\ntype=add\ninput=input, c\n[layer c]\ntype=tanh\n",
     "t.ini:5: [layer a] input: layer c comes later, on line 6; a layer reads layers above it, so that there are no "
     "cycles"},
    {"[layer a]\ntype=add\ninput=input, a\n", "t.ini:5: [layer a] input: a: a layer cannot read itself"},
    {"[layer a]\ntype=add\ninput=input, input2\n",
     "t.ini:5: [layer a] input: input2: the model reads one value, which is named input"},
    {"[layer a]\ntype=relu\ninput=\n",
     "t.ini:5: [layer a] input: names no layer; leave it out to read the layer above"},
    {"[layer a]\ntype=add\ninput=input,input,input,input,input,input,input,input,input\n",
     "t.ini:5: [layer a] input: a layer reads at most 8 others"},
    {"[layer a]\ntype=relu\nrepeat=0\n", "t.ini:5: [layer a] repeat: 0 is out of range (1 to 1000)"},
    {"[layer a]\ntype=relu\nrepeat=x\n", "t.ini:5: [layer a] repeat: \"x\" is not an integer"},
    {"[layer input]\ntype=relu\n",
     "t.ini:3: [layer input]: a layer cannot be named input, input2, ...: these stand for what is read"},
    {"[layer a]\nout=5\n", "t.ini:3: [layer a] type: is missing"},
    {BLOCK "[layer a]\ntype=b\n", "t.ini:8: [layer a]: width is missing: block b needs it"},
    {BLOCK "[layer a]\ntype=b\nwidth=3\nwidht=4\n",
     "t.ini:11: [layer a] widht: block b has no such parameter (did you mean width?)"},
    {BLOCK "[layer a]\ntype=b\nwidth=3\n[layer c]\ntype=b\nwidth=2\ninput=a,input\n",
     "t.ini:14: [layer c] input: block b does not read input 2 of 2, input"},
    {"[block b]\n[block b.l]\ntype=add\ninput=input, input2\n[layer a]\ntype=b\nrepeat=3\n",
     "t.ini:6: [block b.l] input: input2: block b reads 1 layer where it is used as a.0"},
    {"[block b.l]\ntype=linear\nout=$width\n[layer a]\ntype=b\n",
     "t.ini:5: [block b.l] out: $width: the block has no such parameter; [block NAME] lists them"},
    {"[block b]\nw=5\n[block b.l]\ntype=linear\nout=$w / 2\n[layer a]\ntype=b\nrepeat=4\n",
     "t.ini:7: [block b.l] out: 5 / 2 is not a whole number"},
    {"[block b.l]\ntype=c\n[block c.l]\ntype=b\n[layer a]\ntype=b\n",
     "t.ini:6: [block c.l] type: block b contains itself"},
    {"[block linear.l]\ntype=relu\n[layer a]\ntype=relu\n",
     "t.ini:3: [block linear.l]: there is a layer type linear; give the block another name"},
    {"[block b]\n[layer a]\ntype=relu\n", "t.ini:3: [block b]: has no layers; they are sections [block b.LAYER]"},
    {"[block b]\ntype=relu\n[block b.l]\ntype=relu\n[layer a]\ntype=b\n",
     "t.ini:4: [block b] type: a parameter of a block cannot have this name; layers of the block are [block "
     "NAME.LAYER]"},
    {"[block b.l]\ntype=add\ninput=input, q\n[layer a]\ntype=b\n",
     "t.ini:5: [block b.l] input: there is no layer q in block b"},
    {"[block]\n[layer a]\ntype=relu\n", "t.ini:3: [block]: expected [block NAME]"},
    {"[block b.l]\ntype=relu\n[block b.l]\ntype=tanh\n[layer a]\ntype=b\n",
     "t.ini:5: [block b.l]: section given twice (first on line 3)"},
    {"[block b.l]\ntype=relu\nrepeat=1000\n[layer a]\ntype=b\nrepeat=1000\n",
     "t.ini:3: [block b.l]: the blocks make more than 10000 layers"},
    /* two mistakes, both told */
    {"[layer a]\ntype=relu\ninput=q\n[layer c]\ntype=add\ninput=a, r\n",
     "t.ini:5: [layer a] input: there is no layer q\nt.ini:8: [layer c] input: there is no layer r"},
};

static void test_unused_blocks(void **state)
{
    charl_config *c = NULL;

    (void)state;
    assert_int_equal(parse(HEAD "[block used.l]\ntype=relu\n[block inner.l]\ntype=used\n[block b]\n[block b.l]\n"
                                "type=linear\nouut=2\n[block b.k]\ntype=relu\n[block c.l]\ntype=b\n"
                                "[layer a]\ntype=inner\n",
                           &c),
                     CHARL_OK);
    assert_string_equal(charl_config_get_notice(c, 0), "t.ini:7: [block b]: no layer uses it");
    assert_string_equal(charl_config_get_notice(c, 1), "t.ini:13: [block c]: no layer uses it");
    assert_null(charl_config_get_notice(c, 2));
    charl_config_destroy(c);
}

static void test_mistakes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[2048];
        charl_config *c = NULL;

        snprintf(text, sizeof text, HEAD "%s", bad[i].text);
        if (parse(text, &c) == CHARL_OK) {
            fail_msg("accepted: %s", bad[i].text);
        }
        assert_null(c);
        assert_string_equal(charl_error_message(), bad[i].message);
    }
}

/* A mistake that a block makes in every copy is told once. */
static charl_status refuse(const charl__config_layer *layer, void *user)
{
    int64_t v;

    (void)user;
    return charl__config_layer_read(layer, &(charl_key){.name = "out", .kind = CHARL_KEY_INT, .range = "[1,3]"}, &v);
}

static void test_mistakes_are_told_once(void **state)
{
    charl_config *c = NULL;

    (void)state;
    assert_int_equal(parse(HEAD BLOCK "[layer a]\ntype=b\nwidth=9\nrepeat=3\n", &c), CHARL_OK);
    assert_int_equal(charl__config_read_layers(c, refuse, NULL), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), "t.ini:7: [block b.l] out: 9 is out of range (1 to 3)");
    charl_config_destroy(c);
    c = NULL;
    assert_int_equal(parse(HEAD "[block b.l]\ntype=linear\nouut=2\n[layer a]\ntype=b\nrepeat=3\n", &c), CHARL_OK);
    assert_int_equal(charl__config_read_layers(c, refuse, NULL), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(),
                        "t.ini:5: [block b.l] ouut: unknown key for type = linear (did you mean out?)");
    charl_config_destroy(c);
}

/* Simulated ranks are threads that read one configuration: a reader leaves nothing in it that another would see. */
static charl_status ask(const charl__config_layer *layer, void *user)
{
    (void)user;
    assert_true(charl__config_layer_has(layer, "ouut"));
    return CHARL_OK;
}

static void test_reading_leaves_no_trace(void **state)
{
    static const char message[] = "t.ini:5: [layer a] ouut: unknown key for type = linear (did you mean out?)";
    charl_config *c = NULL;
    seen s = {""};

    (void)state;
    assert_int_equal(parse(HEAD "[layer a]\ntype=linear\nouut=2\n", &c), CHARL_OK);
    assert_int_equal(charl__config_read_layers(c, ask, NULL), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), message);
    assert_int_equal(charl__config_read_layers(c, note, &s), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), message);
    charl_config_destroy(c);
}

static void test_overrides(void **state)
{
    static const charl_config_override o[] = {
        {"block.b.width=7", NULL}, {"block.b.l.type=conv2d", NULL}, {"layer.a.repeat=2", NULL}};
    static const charl_config_override unknown = {"block.b.m.channels=7", NULL};
    static const char text[] =
        HEAD "[block b]\nwidth=3\n[block b.l]\ntype=conv1d\nchannels=$width\n[layer a]\ntype=b\n";
    charl_config *c = NULL;
    seen s = {""};

    (void)state;
    assert_int_equal(charl_config_parse("t.ini", text, strlen(text), o, 3, &c), CHARL_OK);
    assert_int_equal(charl__config_read_layers(c, note, &s), CHARL_OK);
    assert_string_equal(s.text, "a.0.l conv2d(input) channels=7; a.1.l conv2d(a.0.l) channels=7; ");
    charl_config_destroy(c);
    c = NULL;
    assert_int_equal(charl_config_parse("t.ini", text, strlen(text), &unknown, 1, &c), CHARL_ERR_CONFIG);
    assert_string_equal(charl_error_message(), "command line: [block b.m]: the file has no such block");
}

/* What a model builder does with the layers of `layered`. */
typedef struct layer_numbers {
    int64_t channels, kernel[2];
    double p;
    bool bias;
    int activation;
} layer_numbers;

static charl_status read_layer(const charl__config_layer *layer, void *user)
{
    static const charl_key keys[] = {
        {"channels", CHARL_KEY_INT, offsetof(layer_numbers, channels), "[1,100]", true, "", NULL},
        {"kernel", CHARL_KEY_PAIR, offsetof(layer_numbers, kernel), "[1,15]", false, "", NULL},
        {"p", CHARL_KEY_FLOAT, offsetof(layer_numbers, p), "[0,1)", false, "", NULL},
        {"bias", CHARL_KEY_BOOL, offsetof(layer_numbers, bias), NULL, false, "", NULL},
        {"activation", CHARL_KEY_CHOICE, offsetof(layer_numbers, activation), NULL, false, "", "none|relu"},
    };
    layer_numbers v = {.kernel = {3, 3}, .p = 0.5, .bias = true};
    int *count = user;

    ++*count;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const charl_status st = charl__config_layer_read(layer, &keys[i], &v);

        if (st != CHARL_OK) {
            return st;
        }
    }
    assert_int_equal(v.channels, 5);
    assert_true(v.bias && v.p == 0.5);
    return v.kernel[0] == 3 && v.kernel[1] == 4 ? CHARL_OK : charl__config_layer_refuse(layer, NULL, "no");
}

#define TYPED "[data]\npath=d\n[layer a]\ntype=conv2d\n"

static void test_values_of_layers(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {TYPED "channels=5\nkernel=3, 4\n", NULL},
        {TYPED "channels=5\nkernel=3x4\nbias=on\nactivation=none\n", NULL},
        {TYPED "kernel=3\n 4\nchannels=5\n", NULL},
        {TYPED "channels=5\n", "t.ini:3: [layer a]: no"},
        {TYPED "", "t.ini:3: [layer a] channels: is missing"},
        {TYPED "channels=0\n", "t.ini:5: [layer a] channels: 0 is out of range (1 to 100)"},
        {TYPED "channels=5\nkernel=3,a\n", "t.ini:6: [layer a] kernel: \"3,a\" is not an integer, nor two as in 3x5"},
        {TYPED "channels=5\nkernel=3,99\n", "t.ini:6: [layer a] kernel: 99 is out of range (1 to 15)"},
        {TYPED "channels=5\nkernel=x\n", "t.ini:6: [layer a] kernel: \"x\" is not an integer, nor two as in 3x5"},
        {TYPED "channels=5\np=1\n", "t.ini:6: [layer a] p: 1 is out of range (at least 0, below 1)"},
        {TYPED "channels=5\nbias=5\n", "t.ini:6: [layer a] bias: \"5\" is not yes or no"},
        {TYPED "channels=5\nactivation=selu\n",
         "t.ini:6: [layer a] activation: \"selu\" is not one of none, relu (did you mean relu?)"},
        {TYPED "channels=5\nkernel=3,4\nchanels=3\n[layer b]\ntype=conv2d\n",
         "t.ini:5: [layer b] channels: is missing"},
        {TYPED "channels=5\nkernel=3,4\nkernl=3\n",
         "t.ini:7: [layer a] kernl: unknown key for type = conv2d (did you mean kernel?)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl_config *c = NULL;
        int count = 0;
        charl_status st;

        assert_int_equal(parse(cases[i].text, &c), CHARL_OK);
        st = charl__config_read_layers(c, read_layer, &count);
        assert_int_equal(st, cases[i].message ? CHARL_ERR_CONFIG : CHARL_OK);
        if (cases[i].message && count == 1) {
            assert_string_equal(charl_error_message(), cases[i].message);
        } else if (cases[i].message) { /* two layers, both wrong: both are reported */
            assert_string_equal(charl_error_message(), "t.ini:7: [layer a] chanels: unknown key for type = conv2d "
                                                       "(did you mean channels?)\n"
                                                       "t.ini:8: [layer b] channels: is missing");
        }
        charl_config_destroy(c);
    }
}

static void test_every_acquisition_fails(void **state)
{
    static const char text[] =
        HEAD BLOCK "[block c]\nw=2\n[block c.one]\ntype=b\nwidth=2 * $w\nrepeat=2\n"
                   "[block c.two]\ntype=add\ninput=one, input, input2\n"
                   "[layer a]\ntype=relu\n[layer x]\ntype=c\nrepeat=2\ninput=a, input\nwrong=1\n";
    const long live = charl__live();

    (void)state;
    for (long n = 1; n < 2000; n++) {
        charl_config *c = NULL;
        charl_status st;

        charl__fault_after(n);
        st = parse(text, &c);
        charl__fault_after(0);
        charl_config_destroy(c);
        assert_int_equal(charl__live(), live);
        if (st == CHARL_ERR_CONFIG) { /* the parameter that there is not, told in the end */
            assert_true(n > 100);
            return;
        }
        assert_int_equal(st, CHARL_ERR_NOMEM);
    }
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_from_sections),
        cmocka_unit_test(test_unused_blocks),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_mistakes_are_told_once),
        cmocka_unit_test(test_reading_leaves_no_trace),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_values_of_layers),
        cmocka_unit_test(test_every_acquisition_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

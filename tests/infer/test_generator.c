/* Generators: the tokens of charl_generate, one by one; logits; sequences side by side; what reset keeps. Public headers only. */
#include "support/models.h"

static char *dir;
static char gpt[512];

enum { TOKENS = 24 /* more than the window of 16 */, TEXT = 64 };

static int setup(void **state)
{
    (void)state;
    dir = charl_test_tempdir();
    snprintf(gpt, sizeof gpt, "%s/gpt.h5", dir);
    save_gpt(dir, gpt);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    charl_test_tempdir_remove(dir);
    return 0;
}

static charl_status append(void *ctx, const char *text, size_t bytes)
{
    strncat(ctx, text, bytes);
    return CHARL_OK;
}

/* What charl_generate makes of the prompt. */
static void generate(charl_generate_options o, const char *prompt, char *text)
{
    charl_config *config = NULL;

    text[0] = '\0';
    o.prompt = prompt;
    o.prompt_bytes = strlen(prompt);
    o.tokens = TOKENS;
    charl_assert_ok(charl_config_parse("gpt.ini", GPT_CONFIG, strlen(GPT_CONFIG), NULL, 0, &config));
    charl_assert_ok(charl_generate(config, gpt, &o, append, text));
    charl_config_destroy(config);
}

static charl_generator *open_generator(const charl_generate_options *o)
{
    charl_generator *g = NULL;

    charl_assert_ok(charl_generator_open(NULL, gpt, o, &g));
    return g;
}

static void put_text(charl_generator *g, int64_t i, const char *text)
{
    charl_assert_ok(charl_generator_put_text(g, i, text, strlen(text)));
}

static void add_token(const charl_generator *g, int32_t token, char *text)
{
    size_t bytes;
    const char *of_token = charl_tokenizer_get_token(charl_generator_get_info(g).tokenizer, token, &bytes);

    assert_non_null(of_token);
    strncat(text, of_token, bytes);
}

/* TOKENS tokens after the prompt, of a generator with one sequence. */
static void draw(charl_generator *g, char *text)
{
    for (int i = 0; i < TOKENS; i++) {
        int32_t token;

        charl_assert_ok(charl_generator_next(g, &token));
        assert_true(token >= 0);
        add_token(g, token, text);
    }
}

static const charl_generate_options settings[] = {
    {sizeof settings[0]},
    {sizeof settings[0], .no_cache = true},
    {sizeof settings[0], .temperature = 1.5, .seed = 3, .top_k = 9, .top_p = 0.95},
    {sizeof settings[0], .temperature = 0.8, .seed = 4, .repetition_penalty = 1.3, .min_p = 0.01},
    {sizeof settings[0], .temperature = 0.8, .seed = 4, .repetition_penalty = 1.3, .min_p = 0.01, .no_cache = true},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

static void writes_what_generate_writes(void **state)
{
    char want[SETTINGS][TEXT];

    (void)state;
    for (int i = 0; i < SETTINGS; i++) {
        charl_generator *g = open_generator(&settings[i]);
        char text[TEXT] = "the dog";
        const int32_t *tokens;
        int64_t n;

        generate(settings[i], text, want[i]);
        put_text(g, 0, text);
        draw(g, text);
        assert_string_equal(text, want[i]);
        tokens = charl_generator_get_tokens(g, 0, &n);
        assert_int_equal(n, strlen(text)); /* of characters */
        assert_non_null(tokens);
        charl_generator_close(g);
    }
    assert_string_equal(want[0], want[1]);
    assert_string_equal(want[3], want[4]);
    assert_string_not_equal(want[0], want[2]);
    assert_string_not_equal(want[2], want[3]);
}

/* The largest logit is the greedy token, however the tokens came in; a program that draws from logits keeps the cache. */
static void gives_logits(void **state)
{
    charl_generator *g = open_generator(NULL);
    char want[TEXT], text[TEXT] = "the dog";
    const int64_t vocab = charl_generator_get_info(g).vocab;

    (void)state;
    generate(settings[0], text, want);
    put_text(g, 0, "the");
    put_text(g, 0, " d");
    put_text(g, 0, "og");
    for (int i = 0; i < TOKENS; i++) {
        const float *logits;
        int32_t best = 0, token;

        charl_assert_ok(charl_generator_logits(g, 0, &logits));
        for (int32_t k = 1; k < vocab; k++) {
            best = logits[k] > logits[best] ? k : best;
        }
        if (i % 3 == 0) { /* on the logits that have been computed */
            charl_assert_ok(charl_generator_next(g, &token));
            assert_int_equal(token, best);
        } else {
            charl_assert_ok(charl_generator_put(g, 0, &best, 1));
        }
        add_token(g, best, text);
    }
    assert_string_equal(text, want);
    charl_generator_close(g);
}

/* Back to the prompt: the same logits; and the same greedy text, from the middle too. */
static void goes_back(void **state)
{
    charl_generator *g = open_generator(NULL);
    const int64_t prompt = 7, vocab = charl_generator_get_info(g).vocab;
    char first[TEXT] = "the dog", again[TEXT] = "the dog", text[TEXT] = "the dog";
    const float *logits;
    float kept[256];
    int32_t token;

    (void)state;
    put_text(g, 0, first);
    charl_assert_ok(charl_generator_logits(g, 0, &logits));
    memcpy(kept, logits, (size_t)vocab * sizeof *kept);
    for (int i = 0; i < 4; i++) { /* within the window, so that the cache holds the prompt */
        charl_assert_ok(charl_generator_next(g, &token));
    }
    charl_assert_ok(charl_generator_reset(g, 0, prompt));
    charl_assert_ok(charl_generator_logits(g, 0, &logits));
    charl_assert_same_bits(logits, kept, vocab);
    draw(g, first);
    charl_assert_ok(charl_generator_reset(g, 0, prompt)); /* from where the window has slid */
    draw(g, again);
    assert_string_equal(first, again);
    charl_assert_ok(charl_generator_reset(g, 0, 0));
    put_text(g, 0, text);
    draw(g, text);
    assert_string_equal(first, text);
    charl_generator_close(g);
}

/* Drawing goes on with other numbers after a reset to a prefix, and begins anew after one to nothing. */
static void draws_anew(void **state)
{
    charl_generator *g = open_generator(&settings[2]);
    char first[TEXT] = "the dog", other[TEXT] = "the dog", again[TEXT] = "the dog";

    (void)state;
    put_text(g, 0, first);
    draw(g, first);
    charl_assert_ok(charl_generator_reset(g, 0, 7));
    draw(g, other);
    charl_assert_ok(charl_generator_reset(g, 0, 0));
    put_text(g, 0, again);
    draw(g, again);
    assert_string_not_equal(first, other);
    assert_string_equal(first, again);
    charl_generator_close(g);
}

/* Sequences beside each other, of other lengths, one looked at in between, one that starts late: the texts of single ones. */
static void sequences_are_apart(void **state)
{
    const char *const prompts[] = {"the dog", "fox jumps over the lazy", "th"};
    charl_generate_options o = settings[3];

    (void)state;
    for (int greedy = 0; greedy < 2; greedy++) {
        char want[3][TEXT], text[3][TEXT];
        int32_t tokens[3];
        int drawn[3] = {0};
        charl_generator *g;

        o.temperature = greedy ? 0.0 : 0.8;
        o.repetition_penalty = greedy ? 0.0 : 1.3;
        o.batch = 3;
        g = open_generator(&o);
        for (int i = 0; i < 3; i++) {
            generate(o, prompts[i], want[i]);
            strcpy(text[i], prompts[i]);
        }
        put_text(g, 0, prompts[0]);
        put_text(g, 2, prompts[2]);
        for (int step = 0; step < TOKENS + 3; step++) {
            const float *logits;

            if (step == 3) {
                charl_assert_ok(charl_generator_next(g, tokens)); /* 1 is empty */
                assert_int_equal(tokens[1], -1);
                put_text(g, 1, prompts[1]);
            } else {
                charl_assert_ok(step % 2 ? charl_generator_logits(g, step % 3 == 1 && step > 3 ? 1 : 0, &logits)
                                         : CHARL_OK);
                charl_assert_ok(charl_generator_next(g, tokens));
            }
            for (int i = 0; i < 3; i++) {
                if (tokens[i] >= 0 && drawn[i]++ < TOKENS) {
                    add_token(g, tokens[i], text[i]);
                }
            }
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(drawn[i] >= TOKENS - 1, true);
            assert_memory_equal(text[i], want[i], strlen(text[i]));
        }
        charl_generator_close(g);
    }
}

static void refuses(void **state)
{
    charl_generator *g = open_generator(NULL);
    const charl_generate_options hot = {sizeof hot, .temperature = -1.0};
    charl_generator *none = NULL;
    const float *logits;
    int32_t token = 1000;

    (void)state;
    charl_assert_status(charl_generator_logits(g, 0, &logits), CHARL_ERR_INVALID);
    charl_assert_message("sequence 0 is empty");
    charl_assert_status(charl_generator_put(g, 0, &token, 1), CHARL_ERR_INVALID);
    charl_assert_message("tokens[0] is 1000; the tokens of the model are 0 to ");
    charl_assert_status(charl_generator_put(g, 1, &token, 1), CHARL_ERR_INVALID);
    charl_assert_message("sequence 1: the generator was opened for 1");
    charl_assert_status(charl_generator_reset(g, 0, 1), CHARL_ERR_INVALID);
    charl_assert_message("1 tokens of sequence 0, which has 0");
    charl_assert_status(charl_generator_put_text(g, 0, "#", 1), CHARL_ERR_DATA);
    charl_assert_ok(charl_generator_next(g, &token));
    assert_int_equal(token, -1);
    charl_generator_close(g);
    charl_assert_status(charl_generator_open(NULL, gpt, &hot, &none), CHARL_ERR_CONFIG);
    assert_null(none);
    charl_generator_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_what_generate_writes),
        cmocka_unit_test(gives_logits),
        cmocka_unit_test(goes_back),
        cmocka_unit_test(draws_anew),
        cmocka_unit_test(sequences_are_apart),
        cmocka_unit_test(refuses),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

/* Text from a language model, token by token, drawn by this program from the model's logits.
 *
 *     generation best.h5 "Once upon a time" [TOKENS [TEMPERATURE [SEED]]]
 */
#include <charl/charl.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Draw one of n tokens: u, random in [0, 1), chooses from the softmax of logits / temperature; 0: the largest. */
static int32_t draw(const float *logits, int64_t n, double temperature, double u)
{
    int32_t best = 0;
    double sum = 0;

    for (int32_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    if (temperature <= 0) {
        return best;
    }
    for (int64_t i = 0; i < n; i++) {
        sum += exp((double)(logits[i] - logits[best]) / temperature);
    }
    for (int32_t i = 0; i < n; i++) {
        u -= exp((double)(logits[i] - logits[best]) / temperature) / sum;
        if (u < 0) {
            return i;
        }
    }
    return best;
}

int main(int argc, char **argv)
{
    const int tokens = argc > 3 ? atoi(argv[3]) : 200;
    const double temperature = argc > 4 ? atof(argv[4]) : 0.8;
    const uint64_t seed = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;
    charl_generator *model;

    if (argc < 3) {
        CHARL_CHECK(charl_fail(CHARL_ERR_INVALID, "usage: generation MODEL.h5 PROMPT [TOKENS [TEMPERATURE [SEED]]]"));
    }
    CHARL_CHECK(charl_generator_open(NULL, argv[1], NULL, &model));
    CHARL_CHECK(charl_generator_put_text(model, 0, argv[2], strlen(argv[2])));
    const charl_generator_info info = charl_generator_get_info(model);

    printf("%s", argv[2]);
    for (int i = 0; i < tokens; i++) {
        const float *logits;
        size_t bytes;
        float u;

        charl_random(seed, i, 0, &u, 1);
        CHARL_CHECK(charl_generator_logits(model, 0, &logits));
        const int32_t token = draw(logits, info.vocab, temperature, (double)u);
        const char *text = charl_tokenizer_get_token(info.tokenizer, token, &bytes);

        if (!text || token == charl_tokenizer_get_end_of_text(info.tokenizer)) {
            break;
        }
        fwrite(text, 1, bytes, stdout);
        fflush(stdout);
        CHARL_CHECK(charl_generator_put(model, 0, &token, 1));
    }
    printf("\n");
    charl_generator_close(model);
    return EXIT_SUCCESS;
}

/* text_tokens TOKENIZER yes|no TEXT OUT [JSON] >tokens: the tokens (i32) of the file TEXT, special tokens recognized or not, and in OUT the
 * text that they decode to; in JSON the tokenizer as tokenizer.json. Says how many bytes a second of processor time were encoded. */
#include <charl/charl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(charl_status st)
{
    if (st != CHARL_OK) {
        fprintf(stderr, "text_tokens: %s\n", charl_error_message());
        exit(EXIT_FAILURE);
    }
}

static FILE *open_file(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);

    if (!f) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    return f;
}

int main(int argc, char **argv)
{
    enum { LONGEST = 1 << 26 };
    charl_tokenizer *t = NULL;
    char *text = malloc(LONGEST), *copy = NULL;
    int32_t *tokens = NULL;
    int64_t n;
    size_t length;

    if (argc < 5 || argc > 6 || !text) {
        fprintf(stderr, "usage: text_tokens TOKENIZER yes|no TEXT OUT [JSON] >tokens\n");
        return EXIT_FAILURE;
    }
    FILE *in = open_file(argv[3], "rb"), *out = open_file(argv[4], "wb");
    const size_t bytes = fread(text, 1, LONGEST, in);

    check(charl_tokenizer_load(argv[1], &t));
    if (argc == 6) {
        FILE *f = open_file(argv[5], "wb");
        char *json = NULL;

        check(charl_tokenizer_print_json(t, &json));
        if (fputs(json, f) < 0 || fclose(f) != 0) {
            perror(argv[5]);
            return EXIT_FAILURE;
        }
        charl_free(json);
    }
    const clock_t begin = clock();

    check(charl_tokenizer_encode(t, text, bytes, strcmp(argv[2], "yes") == 0, &tokens, &n));
    fprintf(stderr, "%.1f MB/s\n", (double)bytes / 1e6 / ((double)(clock() - begin) / CLOCKS_PER_SEC));
    check(charl_tokenizer_decode(t, tokens, n, &copy, &length));
    const bool ok = fwrite(copy, 1, length, out) == length && fclose(out) == 0 &&
                    fwrite(tokens, sizeof *tokens, (size_t)n, stdout) == (size_t)n && fflush(stdout) == 0;

    fclose(in);
    charl_free(copy);
    charl_free(tokens);
    charl_tokenizer_destroy(t);
    free(text);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

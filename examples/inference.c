/* Answers rows of numbers from stdin with a trained model: a line of stdin is a row, separated by spaces or commas,
 * a line of stdout its outputs. The model is a checkpoint, or a .safetensors file with the configuration it was trained by.
 *
 *     inference best.h5 <rows.txt
 *     inference model.safetensors config.ini <rows.txt
 */
#include <charl/charl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 32, TEXT = 1 << 20 };

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != CHARL_OK) {                                                                                      \
            fprintf(stderr, "inference: %s\n", charl_error_message());                                                 \
            exit(EXIT_FAILURE);                                                                                        \
        }                                                                                                              \
    } while (0)

static char text[TEXT];

/* The whole file as a string. */
static const char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    size_t length = f ? fread(text, 1, sizeof text - 1, f) : 0;

    if (!f || ferror(f)) {
        fprintf(stderr, "inference: cannot read %s\n", path);
        exit(EXIT_FAILURE);
    }
    fclose(f);
    text[length] = '\0';
    return text;
}

/* The next line of stdin as n numbers of the type that the model takes; false at the end. */
static int read_row(const charl_inference_info *info, int64_t n, void *row)
{
    if (!fgets(text, sizeof text, stdin)) {
        return 0;
    }
    for (int64_t i = 0, at = 0; i < n; i++) {
        char *end;
        const double value = strtod(text + at, &end);

        if (end == text + at) {
            fprintf(stderr, "inference: a row has %lld numbers, not %lld\n", (long long)i, (long long)n);
            exit(EXIT_FAILURE);
        }
        if (info->x_dtype == CHARL_F32) {
            ((float *)row)[i] = (float)value;
        } else {
            ((unsigned char *)row)[i] = (unsigned char)value;
        }
        at = end - text + (*end == ',');
    }
    return 1;
}

int main(int argc, char **argv)
{
    charl_inference_options options = {sizeof options, .max_rows = MAX_ROWS};
    charl_inference *model = NULL;

    CHECK(charl_version_check());
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: inference MODEL.h5 | MODEL.safetensors CONFIG.ini\n");
        return EXIT_FAILURE;
    }
    if (argc == 3) {
        options.config_text = read_file(argv[2]);
    }
    CHECK(charl_inference_open(argv[1], &options, &model));

    const charl_inference_info info = charl_inference_get_info(model);
    const int64_t columns = charl_shape_count(&info.x_shape);
    const size_t row_bytes = (size_t)columns * charl_dtype_size(info.x_dtype);

    if (info.x_dtype != CHARL_F32 && info.x_dtype != CHARL_U8) {
        fprintf(stderr, "inference: rows of %s\n", charl_dtype_name(info.x_dtype));
        return EXIT_FAILURE;
    }
    char *rows = malloc(MAX_ROWS * row_bytes);
    float *outputs = malloc((size_t)(MAX_ROWS * info.n_outputs) * sizeof *outputs);
    int64_t n;

    if (!rows || !outputs) {
        return EXIT_FAILURE;
    }
    do {
        for (n = 0; n < MAX_ROWS && read_row(&info, columns, rows + (size_t)n * row_bytes); n++) {
        }
        CHECK(charl_inference_run(model, rows, n, outputs));
        for (int64_t i = 0; i < n * info.n_outputs; i++) {
            printf("%.6g%c", (double)outputs[i], (i + 1) % info.n_outputs ? ' ' : '\n');
        }
    } while (n == MAX_ROWS);
    free(rows);
    free(outputs);
    charl_inference_close(model);
    return EXIT_SUCCESS;
}

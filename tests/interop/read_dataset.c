/* What a data set holds, for programs that compare it with what was written: read_dataset PATH X Y [THREADS CACHE_BYTES]
 *
 * Prints one line of JSON, {"rows", "x_dtype", "x_shape", "y_dtype", "x", "y", "note"}, x and y in a shuffled order of rows that is undone
 * before printing. A file that is refused gives {"error"}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/charl.h>

static void put_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text == '\n' ? ' ' : *text);
    }
    putchar('"');
}

static void put_numbers(charl_dtype dtype, const unsigned char *data, int64_t n)
{
    putchar('[');
    for (int64_t i = 0; i < n; i++) {
        uint16_t u16;
        uint32_t u32;
        int32_t i32;
        float f32;

        if (i > 0) {
            putchar(',');
        }
        switch (dtype) {
        case CHARL_U8:
            printf("%d", data[i]);
            break;
        case CHARL_U16:
            memcpy(&u16, data + 2 * i, sizeof u16);
            printf("%d", u16);
            break;
        case CHARL_U32:
            memcpy(&u32, data + 4 * i, sizeof u32);
            printf("%lu", (unsigned long)u32);
            break;
        case CHARL_I32:
            memcpy(&i32, data + 4 * i, sizeof i32);
            printf("%ld", (long)i32);
            break;
        default:
            memcpy(&f32, data + 4 * i, sizeof f32);
            printf("%.8e", (double)f32);
            break;
        }
    }
    putchar(']');
}

static charl_status read_rows(charl_dataset *ds, const charl_dataset_info *info)
{
    const int64_t n = info->rows[CHARL_SPLIT_TRAIN];
    const size_t x_bytes = (size_t)charl_shape_count(&info->x_shape) * charl_dtype_size(info->x_dtype);
    const size_t y_bytes = (size_t)charl_shape_count(&info->y_shape) * charl_dtype_size(info->y_dtype);
    int64_t *rows = malloc((size_t)n * sizeof *rows);
    unsigned char *x = malloc((size_t)n * x_bytes), *y = malloc((size_t)n * y_bytes);
    unsigned char *in_order = calloc(1, (size_t)n * (x_bytes > y_bytes ? x_bytes : y_bytes));
    charl_status st;

    charl_order_rows(1, n, true, 0, n, rows);
    st = charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, n, x, y);
    if (st == CHARL_OK) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(in_order + (size_t)rows[i] * x_bytes, x + (size_t)i * x_bytes, x_bytes);
        }
        printf("\"x\": ");
        put_numbers(info->x_dtype, in_order, n * charl_shape_count(&info->x_shape));
        for (int64_t i = 0; i < n; i++) {
            memcpy(in_order + (size_t)rows[i] * y_bytes, y + (size_t)i * y_bytes, y_bytes);
        }
        printf(", \"y\": ");
        put_numbers(info->y_dtype, in_order, n * charl_shape_count(&info->y_shape));
        printf(", ");
    }
    free(in_order);
    free(y);
    free(x);
    free(rows);
    return st;
}

int main(int argc, char **argv)
{
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    charl_dataset_options o = {sizeof o};
    char shape[CHARL_SHAPE_TEXT];
    charl_status st;

    if (argc < 4) {
        return 2;
    }
    o.x = argv[2];
    o.y = argv[3];
    o.threads = argc > 4 ? atoi(argv[4]) : 0;
    o.cache_bytes = argc > 5 ? atoll(argv[5]) : 0;
    printf("{");
    st = charl_dataset_open(argv[1], &o, &ds);
    if (st == CHARL_OK) {
        charl_dataset_get_info(ds, &info);
        st = read_rows(ds, &info);
    }
    if (st == CHARL_OK) {
        st = charl_dataset_verify(ds);
    }
    if (st == CHARL_OK) {
        printf("\"rows\": %lld, \"x_dtype\": \"%s\", \"x_shape\": \"%s\", \"y_dtype\": \"%s\", \"note\": ",
               (long long)info.rows[CHARL_SPLIT_TRAIN], charl_dtype_name(info.x_dtype),
               charl_shape_format(&info.x_shape, shape), charl_dtype_name(info.y_dtype));
        put_text(info.note);
    } else {
        printf("\"error\": ");
        put_text(charl_error_message());
    }
    printf("}\n");
    charl_dataset_close(ds);
    return 0;
}

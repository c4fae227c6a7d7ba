/* A server of a trained model: a connection sends rows of numbers, a line each, and gets the model's outputs as lines.
 * Each of two threads answers one connection after the other. Their rows go through the model together:
 * charl_inference_run makes batches of what comes in while it computes.
 *
 *     server best.h5 7070 &
 *     printf '1 2 3 4 5 6 7 8\n' | nc -N localhost 7070
 */
#define _POSIX_C_SOURCE 200809L
#include <charl/charl.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 2, MOST = 4096 /* columns and outputs */ };

static charl_inference *model;
static int64_t columns, outputs;
static int listener;

/* Answer a connection, line by line. */
static void serve(FILE *in, FILE *out)
{
    char line[16 * MOST];
    float x[MOST], y[MOST];

    while (fgets(line, sizeof line, in)) {
        char *at = line, *end;
        int64_t n = 0;

        while (n < columns && (x[n] = strtof(at, &end), end != at)) {
            at = end;
            n++;
        }
        if (n < columns) {
            fprintf(out, "error: a row has %lld numbers, not %lld\n", (long long)n, (long long)columns);
        } else if (charl_inference_run(model, x, 1, y) != CHARL_OK) {
            fprintf(out, "error: %s\n", charl_error_message());
        } else {
            for (int64_t i = 0; i < outputs; i++) {
                fprintf(out, "%.6g%c", (double)y[i], i + 1 < outputs ? ' ' : '\n');
            }
        }
        fflush(out);
    }
}

static void *work(void *unused)
{
    for (int connection; (connection = accept(listener, NULL, NULL)) >= 0;) {
        FILE *in = fdopen(connection, "r"), *out = fdopen(dup(connection), "w");

        serve(in, out);
        fclose(in);
        fclose(out);
    }
    return unused;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    pthread_t thread[THREADS];

    if (argc != 3) {
        CHARL_CHECK(charl_fail(CHARL_ERR_INVALID, "usage: server MODEL.h5 PORT"));
    }
    CHARL_CHECK(charl_inference_open(argv[1], NULL, &model));
    const charl_inference_info info = charl_inference_get_info(model);

    columns = charl_shape_count(&info.x_shape);
    outputs = info.n_outputs;
    if (info.x_dtype != CHARL_F32 || columns > MOST || outputs > MOST) {
        CHARL_CHECK(charl_fail(CHARL_ERR_CONFIG, "%s: a row is not %d floats at most", argv[1], MOST));
    }
    at.sin_port = htons((uint16_t)atoi(argv[2]));
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (const struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 8) != 0) {
        CHARL_CHECK(charl_fail(CHARL_ERR_IO, "port %s is not free", argv[2]));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&thread[i], NULL, work, NULL);
    }
    return pthread_join(thread[0], NULL);
}

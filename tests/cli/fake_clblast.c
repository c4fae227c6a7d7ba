/* Stands in for libclblast.so.1: the product is a plain loop on the host. $FAKE_FAIL: `code` for an
 * error, `sum` for a wrong result. */
#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default) /* charl opens it: all functions are exported */

enum { TRANS = 112 };

int CLBlastSgemm(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, cl_mem a, size_t a_at,
                 size_t lda, cl_mem b, size_t b_at, size_t ldb, float beta, cl_mem c, size_t c_at, size_t ldc,
                 cl_command_queue *queue, cl_event *event);

static int fails(const char *how)
{
    const char *which = getenv("FAKE_FAIL");

    return which && strcmp(which, how) == 0;
}

static float *map(cl_command_queue queue, cl_mem mem, size_t elements)
{
    return clEnqueueMapBuffer(queue, mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, elements * sizeof(float), 0, NULL,
                              NULL, NULL);
}

int CLBlastSgemm(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, cl_mem a, size_t a_at,
                 size_t lda, cl_mem b, size_t b_at, size_t ldb, float beta, cl_mem c, size_t c_at, size_t ldc,
                 cl_command_queue *queue, cl_event *event)
{
    float *x = map(*queue, a, m * k), *y = map(*queue, b, k * n), *out = map(*queue, c, m * n);

    if (fails("code") || !x || !y || !out || layout != 101 || alpha != 1.0F || beta != 0.0F ||
        a_at + b_at + c_at != 0 || event) {
        return -1;
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            float sum = fails("sum") ? 1.0F : 0.0F;

            for (size_t l = 0; l < k; l++) {
                sum += (trans_a == TRANS ? x[l * lda + i] : x[i * lda + l]) *
                       (trans_b == TRANS ? y[j * ldb + l] : y[l * ldb + j]);
            }
            out[i * ldc + j] = sum;
        }
    }
    clEnqueueUnmapMemObject(*queue, a, x, 0, NULL, NULL);
    clEnqueueUnmapMemObject(*queue, b, y, 0, NULL, NULL);
    clEnqueueUnmapMemObject(*queue, c, out, 0, NULL, NULL);
    return 0;
}

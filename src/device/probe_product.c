/* Tests kernels of matrix products on the device. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/device_private.h"

enum { A_MULTIPLIER = 7919, B_MULTIPLIER = 104729 };

/* -4 to 4: exact in bf16 and tf32; their products and sums are exact in f32. */
static int element(int i, int multiplier)
{
    return (int)((unsigned)i * (unsigned)multiplier >> 7) % 9 - 4;
}

/* The upper half of a float that bf16 holds exactly is that number. */
static charl_status upload(charl_device *dev, size_t size, int n, int multiplier, charl__buffer **out)
{
    CHARL_SCOPED_FREE unsigned char *x = NULL;

    CHARL_TRY(charl__alloc_array(n, size, &x));
    for (int i = 0; i < n; i++) {
        const float f = (float)element(i, multiplier);
        uint32_t bits;
        uint16_t upper;

        memcpy(&bits, &f, sizeof bits);
        upper = (uint16_t)(bits >> 16);
        memcpy(x + (size_t)i * size, size == sizeof f ? (void *)&bits : (void *)&upper, size);
    }
    CHARL_TRY(charl__buffer_create(dev, (size_t)n * size, "probe", out));
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, *out, 0, x, (size_t)n * size, true));
    return CHARL_OK;
}

static bool is_product(const charl__gemm_args *p, const float *c)
{
    for (int i = 0; i < p->m; i++) {
        for (int j = 0; j < p->n; j++) {
            int sum = 0;

            for (int k = 0; k < p->k; k++) {
                sum += element(i * p->k + k, A_MULTIPLIER) * element(k * p->n + j, B_MULTIPLIER);
            }
            if (c[i * p->n + j] != (float)sum) {
                return false;
            }
        }
    }
    return true;
}

charl_status charl__probe_product(charl_device *dev, const charl__product_probe *p, bool *is_right)
{
    charl_status st = CHARL_OK;
    const charl__gemm_args *x = &p->args;
    const int sums = x->m * x->n;
    const int64_t capacity = dev->memory.capacity;
    charl__launch l = p->launch;
    charl__buffer *a = NULL, *b = NULL, *c = NULL;
    float *got = NULL;
    uint64_t none; /* operands begin at 0 */

    dev->memory.capacity = INT64_MAX; /* the device's bits must not depend on its memory budget */
    CHARL_TRY_CLEANUP(charl__alloc_array(sums, sizeof *got, &got));
    CHARL_TRY_CLEANUP(upload(dev, p->size, x->m * x->k, A_MULTIPLIER, &a));
    CHARL_TRY_CLEANUP(upload(dev, p->size, x->k * x->n, B_MULTIPLIER, &b));
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, sizeof *got * (size_t)sums, "probe", &c));
    l.args[0] = charl__placed(charl__raw(CHARL_ARG_IN, a), &none);
    l.args[1] = charl__placed(charl__raw(CHARL_ARG_IN, b), &none);
    l.args[2] = charl__placed(charl__raw(CHARL_ARG_IN, NULL), &none);
    l.args[3] = charl__placed(charl__raw(CHARL_ARG_OUT, c), &none);
    l.args[4] = charl__struct(x, sizeof *x);
    for (int i = 0; i < p->others; i++) {
        l.args[5 + i] = charl__placed(charl__raw(CHARL_ARG_INOUT, NULL), &none);
    }
    st = charl__launch_enqueue(dev, &l);
    if (st == CHARL_OK) {
        st = charl__buffer_read(CHARL_QUEUE_COMPUTE, c, 0, got, sizeof *got * (size_t)sums, true);
    }
    *is_right = st == CHARL_OK && is_product(x, got);
    if (!*is_right) {
        charl__log(CHARL_LOG_INFO, "%s: no matrix products of %s: %s", dev->info.name, p->what,
                   st == CHARL_OK ? "the results are wrong" : charl_error_message());
    }
    if (st == CHARL_ERR_KERNEL || st == CHARL_ERR_DEVICE) {
        charl_error_clear();
        st = CHARL_OK;
    }
cleanup:
    charl__buffer_release(a);
    charl__buffer_release(b);
    charl__buffer_release(c);
    charl_free(got);
    dev->memory.capacity = capacity;
    return st;
}

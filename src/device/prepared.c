/* Prepared launches: a repeated launch with a kernel object of its own, which sets only the arguments that change. */
#include "base/alloc.h"
#include "device/device_private.h"

struct charl__prepared {
    charl_device *dev; /* retained */
    charl__ready ready;
    int first; /* kernel argument that changes */
    int n;
};

charl_status charl__prepared_create(charl_device *dev, const charl__launch *l, int n, charl__prepared **out)
{
    charl_status st = CHARL_OK;
    charl__program *program = NULL;
    charl__prepared *p = NULL;
    charl__kernel kernel = {.kernel = NULL};
    int args = 0;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *p, &p));
    p->dev = charl__device_retain(dev);
    p->n = n;
    CHARL_TRY_CLEANUP(charl__ready_init(dev, l, &p->ready));
    if (!dev->skip_kernels) {
        CHARL_TRY_CLEANUP(charl__program_get(dev, l, &program));
        CHARL_TRY_CLEANUP(charl__kernel_create(dev, program, l->entry, &kernel));
        p->ready.kernel = kernel.kernel;
        CHARL_TRY_CLEANUP(charl__args_set(dev, &kernel, l));
    }
    while (l->args[args].kind != CHARL_ARG_END) {
        p->first += charl__arg_params(&l->args[args++]);
    }
    p->first -= n; /* they are not buffers */
    *out = p;
    p = NULL;
cleanup:
    charl__prepared_destroy(p);
    return st;
}

charl_status charl__prepared_launch(charl__prepared *p, size_t groups, const charl__event *after,
                                    const charl__arg *args)
{
    int at = p->first;

    if (p->dev->skip_kernels) {
        return CHARL_OK;
    }
    for (int i = 0; i < p->n; i++) {
        CHARL_TRY(charl__arg_set(p->dev, p->ready.kernel, p->ready.entry, &args[i], &at));
    }
    p->ready.global[0] = groups * p->ready.local[0];
    p->ready.after = after;
    CHARL_TRY(charl__ready_enqueue(p->dev, &p->ready));
    return CHARL_OK;
}

void charl__prepared_destroy(charl__prepared *p)
{
    if (p) {
        charl__kernel_release(p->dev, p->ready.kernel);
        charl__device_release(p->dev);
        charl_free(p);
    }
}

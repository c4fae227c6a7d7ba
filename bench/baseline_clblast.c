/* CLBlast is opened at run time and the one function declared here: no header, no link dependency. A
 * cl_mem is a pointer.
 */
#include "bench/baseline_clblast.h"

#include <dlfcn.h>
#include <string.h>

#include <charl/error.h>
#include <charl/opencl.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef int (*sgemm_fn)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, void *a,
                        size_t a_at, size_t lda, void *b, size_t b_at, size_t ldb, float beta, void *c, size_t c_at,
                        size_t ldc, void **queue, void **event);

static struct clblast {
    bool tried;
    sgemm_fn sgemm;
} clblast;

bool charl__clblast_is_available(void)
{
    void *library, *f = NULL;

    if (!clblast.tried) {
        clblast.tried = true;
        library = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library) {
            f = dlsym(library, "CLBlastSgemm");
        }
        memcpy(&clblast.sgemm, &f, sizeof f); /* a function pointer, as C wants it made */
    }
    return clblast.sgemm != NULL;
}

const char *charl__clblast_about(void)
{
    return charl__clblast_is_available() ? "CLBlast: libclblast.so.1, on the driver opencl (CHARL_DRIVER)"
                                         : "CLBlast: not available: no libclblast.so.1 with CLBlastSgemm";
}

charl_status charl__clblast_multiply(charl_device *dev, const charl__clblast_product *p)
{
    const size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k, element = sizeof(float);
    void *queue = charl_device_cl_queue(dev);
    size_t at[3];
    void *a = charl_tensor_get_cl_mem(p->a, &at[0]), *b = charl_tensor_get_cl_mem(p->b, &at[1]),
         *out = charl_tensor_get_cl_mem(p->out, &at[2]);
    const int code = clblast.sgemm(ROW_MAJOR, p->transpose_a ? TRANS : NO_TRANS, p->transpose_b ? TRANS : NO_TRANS, m,
                                   n, k, 1.0F, a, at[0] / element, p->transpose_a ? m : k, b, at[1] / element,
                                   p->transpose_b ? k : n, 0.0F, out, at[2] / element, n, &queue, NULL);

    CHARL_REQUIRE(code == 0, CHARL_ERR_DEVICE, "CLBlast refuses a product of %zu x %zu x %zu: %d", m, n, k, code);
    return CHARL_OK;
}

/* OpenBLAS is opened at run time and the few functions declared here: no header, no link
 * dependency. The C interface of BLAS is older than this century. */
#include "bench/baseline_openblas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);

static struct openblas {
    bool tried;
    sgemm_fn sgemm;
    char *(*config)(void);
    char *(*corename)(void);
    int (*threads)(void);
    char about[256];
} blas;

/* A function pointer, as C wants it made. */
static void find(void *library, const char *name, void *out)
{
    void *f = dlsym(library, name);

    memcpy(out, &f, sizeof f);
}

static void load(void)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    void *library = NULL;

    blas.tried = true;
    for (int i = 0; i < 2 && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
        snprintf(blas.about, sizeof blas.about, "OpenBLAS: not available: %s is not installed", names[0]);
        return;
    }
    find(library, "openblas_get_config", &blas.config);
    find(library, "openblas_get_corename", &blas.corename);
    find(library, "openblas_get_num_threads", &blas.threads);
    if (!blas.config || !blas.corename || !blas.threads) {
        snprintf(blas.about, sizeof blas.about, "OpenBLAS: not available: %s is not OpenBLAS", names[0]);
        return;
    }
    find(library, "cblas_sgemm", &blas.sgemm);
    snprintf(blas.about, sizeof blas.about, "%s, kernels for %s, %d threads", blas.config(), blas.corename(),
             blas.threads());
}

const char *charl__blas_about(void)
{
    if (!blas.tried) {
        load();
    }
    return blas.about;
}

bool charl__blas_is_available(void)
{
    if (!blas.tried) {
        load();
    }
    return blas.sgemm != NULL;
}

void charl__blas_multiply(const charl__blas_product *p)
{
    blas.sgemm(ROW_MAJOR, p->transpose_a ? TRANS : NO_TRANS, p->transpose_b ? TRANS : NO_TRANS, p->m, p->n, p->k, 1.0F,
               p->a, p->transpose_a ? p->m : p->k, p->b, p->transpose_b ? p->k : p->n, 0.0F, p->out, p->n);
}

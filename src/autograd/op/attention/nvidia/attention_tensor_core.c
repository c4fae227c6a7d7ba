/* Launches attention of half types on NVIDIA's tensor cores, with wgmma or mma.sync. */
#include <string.h>

#include "autograd/op/attention/attention.h"
#include "autograd/launch/rows.h"

enum { MAX_D = 128, CHUNK = 8, BLOCK = 64, BLOCK_BYTES = 8192, GROUP = 128, STATE_BYTES = 512 };

/* How a kernel uses local memory and a compute unit if it is built for sm_90a. */
typedef struct form {
    const char *file, *entry;
    charl__kernel_param part;
    int tiles;         /* of 64 rows in local memory */
    int more_bytes;    /* there, per 64 elements of a head */
    int states;        /* words there of each of 64 queries, twice; one more where they have a first key */
    int narrow_groups; /* on a compute unit, for heads of at most 64 elements */
    int wide_groups;
} form;

static const form forward_form = {.file = "nvidia/attention/attention_tensor_core",
                                  .entry = "attention_tensor_core",
                                  .tiles = 4,
                                  .more_bytes = 256,
                                  .narrow_groups = 4,
                                  .wide_groups = 3};
static const form queries_form = {.file = "nvidia/attention/attention_tensor_core_grad",
                                  .entry = "charl_queries",
                                  .part = {"KEYS", 0},
                                  .tiles = 4,
                                  .more_bytes = 256,
                                  .narrow_groups = 3,
                                  .wide_groups = 2};
static const form keys_form = {.file = "nvidia/attention/attention_tensor_core_grad",
                               .entry = "charl_keys",
                               .part = {"KEYS", 1},
                               .tiles = 6,
                               .more_bytes = 512,
                               .states = 2,
                               .narrow_groups = 3,
                               .wide_groups = 2};

bool charl__attention_on_tensor_cores(const charl_device *dev, const charl__attention_attr *a, charl_dtype dtype,
                                      int64_t d)
{
    return (dtype == CHARL_BF16 || dtype == CHARL_F16) && charl__device_has_nvidia_cores(dev, dtype) &&
           d % CHUNK == 0 && d <= MAX_D && !a->lengths && !a->cross && a->softcap == 0.0F;
}

/* The kernels copy 16 bytes at a time. The memory plan aligns every value accordingly. */
static charl_status check_places(const charl__launch *l, int count)
{
    for (int i = 0; i < count; i++) {
        CHARL_REQUIRE(l->args[i].size != 2 || l->args[i].v.offset % CHUNK == 0, CHARL_ERR_INVALID,
                      "attention on tensor cores: operand %d begins at element %lld of its memory, "
                      "not at a multiple of %d; copy it to a tensor of its own",
                      i, (long long)l->args[i].v.offset, CHUNK);
    }
    return CHARL_OK;
}

/* l has the first n arguments; later ones are from the previous launch. One group per tile of each of `heads` heads. */
static charl_status launch(const charl__enqueue *e, const form *f, charl__attention_extents x, int heads, int n,
                           charl__attention_args *args, charl__launch *l)
{
    const charl__attention_attr *a = e->attr;
    const bool wgmma = charl__device_facts_get(e->dev)->nvidia.wgmma;
    const int states = f->states + (f->states > 0 && a->starts ? 1 : 0);
    const int blocks = x.d > BLOCK ? 2 : 1;
    const charl__kernel_param params[] = {{"WGMMA", wgmma},
                                          {"IS_F16", e->out[0]->dtype == CHARL_F16},
                                          {"D", x.d},
                                          {"CAUSAL", a->causal},
                                          {"DROP", a->p > 0.0F},
                                          {"STARTS", a->starts || a->window > 0},
                                          {"DOCUMENTS", a->starts},
                                          {"WINDOW", a->window},
                                          f->part,
                                          {f == &forward_form ? NULL : "GLSE", e->n_in - a->starts > 4},
                                          {NULL}};

    l->file = f->file;
    l->entry = f->entry;
    memset(l->params, 0, sizeof l->params); /* set for the previous launch */
    charl__launch_set_all(l, params);
    l->label = e->label;
    l->local[0] = GROUP;
    l->global[0] = (size_t)(x.b * heads * ((x.t + BLOCK - 1) / BLOCK)) * l->local[0];
    if (wgmma) {
        l->sm90a.shared_bytes = blocks * (f->tiles * BLOCK_BYTES + f->more_bytes) + states * STATE_BYTES;
        l->sm90a.min_blocks = blocks > 1 ? f->wide_groups : f->narrow_groups;
    }
    CHARL_TRY(check_places(l, n));
    memset(l->args + n, 0, sizeof l->args - (size_t)n * sizeof l->args[0]);
    charl__attention_arguments(e, x, args, l);
    CHARL_TRY(charl__launch_enqueue(e->dev, l));
    return CHARL_OK;
}

charl_status charl__attention_tensor_core(const charl__enqueue *e, const charl_tensor *qkv, const charl_tensor *out,
                                          charl__arg lse)
{
    const charl__attention_attr *a = e->attr;
    charl__attention_args args;
    charl__launch l = {.args = {charl__placed(charl__in(qkv), &args.qkv), charl__placed(charl__out(out), &args.out),
                                charl__placed(lse, &args.lse)}};

    return launch(e, &forward_form, charl__attention_extents_get(&qkv->shape, a), a->heads, 3, &args, &l);
}

/* attention_grad(gout, qkv, out, lse[, glse][, start]): the first kernel leaves gout . out for the second.
 */
charl_status charl__attention_tensor_core_grad(const charl__enqueue *e)
{
    const charl__attention_attr *a = e->attr;
    const charl__attention_extents x = charl__attention_extents_get(&e->in[1]->shape, a);
    charl_tensor *const glse = e->n_in - a->starts > 4 ? e->in[4] : NULL;
    charl__attention_args args;
    charl__launch l = {
        .args = {charl__placed(charl__in(e->in[0]), &args.gout), charl__placed(charl__in(e->in[1]), &args.qkv),
                 charl__placed(charl__in(e->in[2]), &args.out), charl__placed(charl__in(e->in[3]), &args.lse),
                 charl__placed(charl__in(glse), &args.glse),
                 charl__placed(charl__scratch_arg(CHARL_ARG_INOUT, e->workspace, 0), &args.dots),
                 charl__placed(charl__out(e->out[0]), &args.dqkv)}};

    CHARL_TRY(launch(e, &queries_form, x, a->heads, 7, &args, &l));
    CHARL_TRY(launch(e, &keys_form, x, a->kv_heads, 7, &args, &l));
    return CHARL_OK;
}

/* attention_tensor_core_grad: the gradient of attention_tensor_core.cl.
 *
 *   charl_queries   dq of ROWS queries of one head, and delta = gout . out (- glse) of each, for
 *   charl_keys      dk and dv of ROWS keys of one key head
 *
 *   dv = sum over q of f p gout      ds = p (f (gout . v) - delta)      dq = scale sum over k of ds k      dk = scale sum over q of ds q
 *
 * Specialised by   WGMMA, IS_F16, D, CAUSAL, DROP, STARTS, DOCUMENTS, WINDOW: see attention_tensor_core.cl, also for where operands begin; GLSE  1: there is a gradient glse of lse
 *                  KEYS     1 builds charl_keys (attention_tensor_core_keys.clh), 0 charl_queries (attention_tensor_core_queries.clh)
 * Launch           as attention_tensor_core.cl; by tile of ROWS queries or keys, head or key head, row of the batch; charl_queries first.
 * Building         as attention_tensor_core.cl.
 * Algorithm        the deterministic form of FlashAttention-2's: scores are computed twice, along the keys for dq and along the queries for
 *                  dk and dv, so that every sum stays in the registers of one group. Where rows are keys all scores are transposed, so that
 *                  weights and their gradients are left operands as they stand.
 * Numerics         see attention_tensor_core.cl. Weights and ds are rounded to the type of the operands; sums go over HEIGHT queries or 64 keys at a time,
 *                  ascending (those of dk and dv by head first), and are scaled and rounded at their end.
 */
#define WGMMA 0
#define IS_F16 0
#define GLSE 0
#define KEYS 1
#define LANES 128
#define ROWS  64
#define HEIGHT (WGMMA ? 64 : (KEYS ? 32 : 64) / (D > 64 ? 2 : 1)) /* what fits into 48 KB and the registers */

#undef ACT /* whatever the prelude took it for */
#if IS_F16
#define ACT half
#else
#define ACT ushort
#endif

#include "attention/attention_args.h"
#include "attention/attention.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/local.clh"
#if WGMMA
#include "nvidia/ptx/products.clh"
#else
#define SIZE 2 /* of an element */
#include "nvidia/ptx/mma.clh"
#include "nvidia/attention/mma_products.clh"
#endif
#include "nvidia/attention/attention_blocks.clh"
#include "nvidia/attention/attention_masks.clh"
#if KEYS
#include "nvidia/attention/attention_tensor_core_keys.clh"
#else
#include "nvidia/attention/attention_tensor_core_queries.clh"
#endif

/* diffuse: rows with noise, for a model that learns to remove it; see src/autograd/op/data/diffuse.c.
 *
 *   time[r]      = t = u + 2^-25                                   u uniform in [0, 1), 24 bits
 *   noisy[r, i]  = alpha(t) x[r, i] + sigma(t) e[r, i]              e standard normal
 *   target[r, i] = e[r, i], or alpha(t) e[r, i] - sigma(t) x[r, i]
 *
 * u is draw r of a stream, e draw r * size + i of another: rows are counted in the global batch, so a draw depends on neither ranks nor
 * launch. Two normals come from two words by Box-Muller: radius sqrt(-2 log((a + 1) / 2^24)), angle b / 2^24 turns.
 *
 * Specialised by   LINEAR    1: y = t / 10 + 9.95 t^2, alpha = exp(-y / 2), sigma = sqrt(1 - exp(-y)); 0: alpha = cos(pi t / 2), sigma =
 *                            sin(pi t / 2)
 *                  VELOCITY  1: the target is the second one
 *                  VARIES    1: by seed and step; 0: the same in every run, for evaluations (default 1)
 * Launch           span elements for each work-item.
 * Numerics         a few ulp of the largest term.
 */
#define LINEAR 0
#define VELOCITY 0
#define VARIES 1

static inline void mix_at(float t, float *alpha, float *sigma)
{
    if (LINEAR) {
        const float y = t * fma(9.95f, t, 0.1f), h = charl_tanh(0.5f * y);

        *alpha = charl_exp(-0.5f * y);
        *sigma = sqrt(2.0f * h / (1.0f + h)); /* 1 - exp(-y) without its cancellation */
    } else {
        const float quarter = charl_rint(t);

        charl_sincos((t - quarter) * 0x1.921fb6p+0f, (int)quarter, sigma, alpha);
    }
}

static inline float normal(ulong key, ulong step, ulong i)
{
    uint word[4], turns, quarter;
    float radius, sine, cosine;

    charl_rng_u32x4(key, step, i >> 2, word);
    radius = sqrt(-2.0f * charl_log((float)((word[i & 2] >> 8) + 1) * 0x1p-24f));
    turns = word[(i & 2) + 1] >> 8;
    quarter = (turns + 0x200000u) >> 22;
    charl_sincos((float)((int)turns - (int)(quarter << 22)) * 0x1.921fb6p-22f, (int)quarter, &sine, &cosine);
    return radius * (i & 1 ? sine : cosine);
}

kernel void charl_diffuse(global const float *x, ulong x_at, global float *noisy, ulong noisy_at, global float *target,
                          ulong target_at, global float *time, ulong time_at, global const uint *record,
                          ulong record_at, ulong first, ulong size, ulong n, ulong span, ulong name_hash)
{
    const ulong begin = get_global_id(0) * span, end = min(begin + span, n);
    global const charl_step_params *now = charl_step_at(record, record_at);
    ulong key = name_hash, step = 0;

    if (VARIES) {
        key ^= (ulong)now->seed_hi << 32 | now->seed_lo;
        step = (ulong)now->step_hi << 32 | now->step_lo;
    }
    for (ulong i = begin; i < end; i++) {
        const float t = fma((float)(charl_rng_u32(~key, step, (first + i) / size) >> 8), 0x1p-24f, 0x1p-25f);
        const float e = normal(key, step, first + i), v = x[x_at + i];
        float alpha, sigma;

        mix_at(t, &alpha, &sigma);
        noisy[noisy_at + i] = alpha * v + sigma * e;
        target[target_at + i] = VELOCITY ? alpha * e - sigma * v : e;
        if (i % size == 0) {
            time[time_at + i / size] = t;
        }
    }
}

#include "emulation/lanes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "charl/shape.h"

enum { WARP = 32, STACK = 1 << 18, COPIES = 256, PRODUCTS = 8, PATIENCE = 1000000 };

typedef lanes_address address;

typedef struct copy {
    address to, from;
    int bytes; /* 0: zeros */
    int size;
    int commit; /* number of commits before it */
} copy;

typedef struct product {
    float *c;
    double a[2][64]; /* the lane's two rows */
    address block;
    bool by_k, add;
    charl_dtype type;
} product;

/* What a lane shows to the others of its warp. */
typedef struct shown {
    uint32_t words[16];
    address row;
} shown;

typedef struct lane {
    ucontext_t context;
    char *stack;
    bool done;
    shown shown[2]; /* in turn: one may still be read when the next is written */
    int turn;
    bool flag;
    copy copies[COPIES];
    product products[PRODUCTS];
    int n_copies, n_products, n_commits;
} lane;

typedef struct meeting {
    int arrived;
    unsigned number;
} meeting;

static lane *lanes;
static ucontext_t scheduler;
static meeting of_group[LANES_MOST / WARP], of_warp[LANES_MOST / WARP];
static int now, n_items, n_lanes, n_left, first_group, n_groups;
static bool late, any, progress;
static double values[2][1 << 16]; /* of the bits of bf16 and of f16 */
static bool has_values;
static void (*work)(void *);
static void *work_ctx;

static void meet(meeting *m, int count)
{
    const unsigned number = m->number;
    lane *me = &lanes[now];

    if (++m->arrived == count) {
        m->arrived = 0;
        m->number++;
        progress = true;
    }
    while (m->number == number) {
        swapcontext(&me->context, &scheduler);
    }
}

static void meet_group(void)
{
    meet(&of_group[now / n_items], n_items);
}

static void meet_warp(void)
{
    meet(&of_warp[now / WARP], WARP);
}

/* What this lane shows from here on; with the next meeting of its warp the others see it. */
static shown *show(void)
{
    lane *me = &lanes[now];

    me->turn ^= 1;
    return &me->shown[me->turn];
}

static const shown *shown_by(int number)
{
    return &lanes[number].shown[lanes[now].turn];
}

static void start(void)
{
    work(work_ctx);
    lanes[now].done = true;
    n_left--;
    swapcontext(&lanes[now].context, &scheduler);
}

/* By itself: getcontext may return twice, which the variables of its function have to stand. */
static void prepare(lane *l)
{
    l->done = false;
    l->n_copies = l->n_products = l->n_commits = l->turn = 0;
    getcontext(&l->context);
    l->context.uc_stack.ss_sp = l->stack;
    l->context.uc_stack.ss_size = STACK;
    makecontext(&l->context, start, 0);
}

/* One work-group, as far as it gets before it waits for another. */
static void run_ahead(int group)
{
    do {
        progress = false;
        for (now = group * n_items; now < (group + 1) * n_items; now++) {
            if (!lanes[now].done) {
                swapcontext(&scheduler, &lanes[now].context);
            }
        }
    } while (progress);
}

/* Those that run at the same time. */
static bool run_groups(int together)
{
    n_left = n_lanes;
    memset(of_group, 0, sizeof of_group);
    memset(of_warp, 0, sizeof of_warp);
    for (int i = 0; i < n_lanes; i++) {
        prepare(&lanes[i]);
    }
    for (int round = 0; n_left > 0 && round < PATIENCE; round++) {
        run_ahead(late ? round % together : together - 1 - round % together);
    }
    return n_left == 0;
}

static void fill_values(void)
{
    for (uint32_t i = 0; i < 1 << 16; i++) {
        const uint16_t raw = (uint16_t)i;

        charl_dtype_decode(CHARL_BF16, &raw, 1, &values[0][i]);
        charl_dtype_decode(CHARL_F16, &raw, 1, &values[1][i]);
    }
    has_values = true;
}

static bool run(int groups, int together, int count, bool late_copies, void (*body)(void *), void *ctx)
{
    bool good = count % WARP == 0 && together * count <= LANES_MOST;

    if (!has_values) {
        fill_values();
    }
    n_items = count;
    n_lanes = together * count;
    lanes = good ? calloc((size_t)n_lanes, sizeof *lanes) : NULL;
    if (!lanes) {
        return false;
    }
    for (int i = 0; i < n_lanes; i++) {
        lanes[i].stack = malloc(STACK);
        good = good && lanes[i].stack;
    }
    n_groups = groups;
    late = late_copies;
    work = body;
    work_ctx = ctx;
    for (first_group = 0; good && first_group < groups; first_group += together) {
        good = run_groups(together);
    }
    for (int i = 0; i < n_lanes; i++) {
        free(lanes[i].stack);
    }
    free(lanes);
    lanes = NULL;
    return good;
}

bool lanes_run(int groups, int count, bool late_copies, void (*body)(void *), void *ctx)
{
    return run(groups, 1, count, late_copies, body, ctx);
}

bool lanes_run_together(int groups, int count, bool late_copies, void (*body)(void *), void *ctx)
{
    return run(groups, groups, count, late_copies, body, ctx);
}

/* What follows is called by kernels: types and names are theirs. */
static double value(uint32_t bits, charl_dtype type)
{
    return values[type == CHARL_F16][bits & 0xffff];
}

static uint32_t bits_of(float x, charl_dtype type)
{
    const double wide = (double)x;
    uint16_t raw;

    charl_dtype_encode(type, &wide, 1, &raw);
    return raw;
}

uint32_t lanes_pack_bf16(float x, float y)
{
    return bits_of(x, CHARL_BF16) | bits_of(y, CHARL_BF16) << 16;
}

uint32_t lanes_pack_f16(float x, float y)
{
    return bits_of(x, CHARL_F16) | bits_of(y, CHARL_F16) << 16;
}

float lanes_f16(uint32_t bits)
{
    return (float)value(bits, CHARL_F16);
}

uint32_t lanes_word_of(uint32_t x, uint32_t mask)
{
    show()->words[0] = x;
    meet_warp();
    return shown_by(now ^ (int)mask)->words[0];
}

int lanes_any(int x)
{
    bool result;

    any = any || x;
    meet_group();
    result = any;
    meet_group();
    any = false;
    meet_group();
    return result;
}

float lanes_exp2(float x)
{
    const float y = exp2f(x);

    return fpclassify(y) == FP_SUBNORMAL ? 0.0F : y;
}

static void make(const copy *c)
{
    memset((void *)c->to, 0, (size_t)c->size); /* NOLINT: addresses are numbers in kernels */
    memcpy((void *)c->to, (const void *)c->from, (size_t)c->bytes);
}

static void add_copy(address to, address from, int there, int size)
{
    lane *me = &lanes[now];
    const copy c = {to, from, there ? size : 0, size, me->n_commits};

    if (to % (address)size != 0 || (there && from % (address)size != 0) || me->n_copies == COPIES) {
        fprintf(stderr, "a copy of %d bytes from %lx to %lx\n", size, from, to);
        abort();
    }
    if (late) {
        me->copies[me->n_copies++] = c;
    } else {
        make(&c);
    }
}

void lanes_copy_16(address to, address from, int there)
{
    add_copy(to, from, there, 16);
}

void lanes_copy_4(address to, address from, int there)
{
    add_copy(to, from, there, 4);
}

void lanes_barrier(void)
{
    meet_group();
}

void lanes_commit(void)
{
    lanes[now].n_commits++;
}

void lanes_arrived_but(int commits)
{
    lane *me = &lanes[now];
    int left = 0;

    for (int i = 0; i < me->n_copies; i++) {
        if (me->copies[i].commit < me->n_commits - commits) {
            make(&me->copies[i]);
        } else {
            me->copies[left++] = me->copies[i];
        }
    }
    me->n_copies = left;
    lanes_barrier();
}

void lanes_arrived(void)
{
    lanes_commit();
    lanes_arrived_but(0);
}

/* Element x of row r of a block with 128-byte swizzle. */
static double element(address block, int r, int x, charl_dtype type)
{
    return value(*(const uint16_t *)(block + (address)(r * 128 + ((x / 8 ^ (r & 7)) << 4) + x % 8 * 2)), type);
}

static int row_of(int h)
{
    return 16 * (now % n_items / WARP % 4) + now % WARP / 4 + 8 * h;
}

static product *add_product(float *c, address block, bool by_k, bool add, int is_f16)
{
    lane *me = &lanes[now];
    product *p = &me->products[me->n_products++];

    if (me->n_products > PRODUCTS) {
        fprintf(stderr, "too many products at a time\n");
        abort();
    }
    *p = (product){.c = c, .block = block, .by_k = by_k, .add = add, .type = is_f16 ? CHARL_F16 : CHARL_BF16};
    return p;
}

/* Word a[4 j + 2 g + h] of lane 4 r + t has rows r + 8 h, k = 16 j + 8 g + 2 t and the next. */
static void of_words(product *p, const uint32_t *a)
{
    memcpy(show()->words, a, 16 * sizeof *a);
    meet_warp();
    for (int h = 0; h < 2; h++) {
        for (int k = 0; k < 64; k++) {
            const uint32_t word = shown_by(now / 4 * 4 + k % 8 / 2)->words[4 * (k / 16) + 2 * (k % 16 / 8) + h];

            p->a[h][k] = value(k % 2 ? word >> 16 : word, p->type);
        }
    }
}

void lanes_words_by_row(float *c, const uint32_t *a, address block, int add, int is_f16)
{
    of_words(add_product(c, block, false, add, is_f16), a);
}

void lanes_words_by_k(float *c, const uint32_t *a, address block, int add, int is_f16)
{
    of_words(add_product(c, block, true, add, is_f16), a);
}

void lanes_blocks(float *c, address left, address right, int add, int is_f16)
{
    product *p = add_product(c, right, false, add, is_f16);

    for (int h = 0; h < 2; h++) {
        for (int k = 0; k < 64; k++) {
            p->a[h][k] = element(left, row_of(h), k, p->type);
        }
    }
}

/* Sum c[4 j + 2 h + e] is of the lane's row h, column 8 j + 2 (lane % 4) + e. */
static void compute(const product *p)
{
    for (int i = 0; i < 32; i++) {
        const int h = i / 2 % 2, column = 8 * (i / 4) + 2 * (now % 4) + i % 2;
        double sum = p->add ? (double)p->c[i] : 0.0;

        for (int k = 0; k < 64; k++) {
            sum += p->a[h][k] * element(p->block, p->by_k ? k : column, p->by_k ? column : k, p->type);
        }
        p->c[i] = (float)sum;
    }
}

void lanes_settle(void)
{
    lane *me = &lanes[now];

    for (int i = 0; i < me->n_products; i++) {
        compute(&me->products[i]);
    }
    me->n_products = 0;
    meet_warp();
}

/* Register i of lane l: the l % 4-th word of the row that lane 8 i + l / 4 names; transposed, the
 * l / 4-th elements of two rows. */
void lanes_fragment(uint32_t *x, address row, int transposed)
{
    const int l = now % WARP;

    show()->row = row;
    meet_warp();
    for (int i = 0; i < 4; i++) {
        const int eight = now - l + 8 * i;

        if (transposed) {
            const uint16_t *low = (const uint16_t *)shown_by(eight + 2 * (l % 4))->row;      /* NOLINT: as above */
            const uint16_t *high = (const uint16_t *)shown_by(eight + 2 * (l % 4) + 1)->row; /* NOLINT */

            x[i] = low[l / 4] | (uint32_t)high[l / 4] << 16;
        } else {
            x[i] = ((const uint32_t *)shown_by(eight + l / 4)->row)[l % 4]; /* NOLINT: as above */
        }
    }
}

/* Element k of row `row` of fragment x, or column where x has two words. */
static double of_fragment(int row, int k, int first, int upper, int kind)
{
    const int per_word = kind == LANES_TF32 ? 1 : 2, half = k / per_word / 4;
    const int owner = now / WARP * WARP + 4 * (row % 8) + k / per_word % 4;
    const uint32_t word = shown_by(owner)->words[first + upper * half + row / 8];
    float x;

    if (kind == LANES_TF32) {
        memcpy(&x, &word, sizeof x);
        return (double)x;
    }
    return value(k % 2 ? word >> 16 : word, kind == LANES_F16 ? CHARL_F16 : CHARL_BF16);
}

void lanes_multiply(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, int kind)
{
    const int l = now % WARP, depth = kind == LANES_TF32 ? 8 : 16;
    double row[2][16], column[2][16];
    shown *mine = show();

    memcpy(mine->words, a, 4 * sizeof *a);
    mine->words[4] = b0;
    mine->words[5] = b1;
    meet_warp();
    for (int half = 0; half < 2; half++) {
        for (int k = 0; k < depth; k++) {
            row[half][k] = of_fragment(l / 4 + 8 * half, k, 0, 2, kind);
            column[half][k] = of_fragment(2 * (l % 4) + half, k, 4, 1, kind);
        }
    }
    for (int e = 0; e < 4; e++) {
        double sum = (double)c[e];

        for (int k = 0; k < depth; k++) {
            sum += row[e / 2][k] * column[e % 2][k];
        }
        c[e] = (float)sum;
    }
}

unsigned lanes_arrive(unsigned *word)
{
    return (*word)++;
}

void lanes_wait(const unsigned *word, unsigned count)
{
    while (*word < count) {
        swapcontext(&lanes[now].context, &scheduler);
    }
}

int lanes_item(void)
{
    return now % n_items;
}

int lanes_group(void)
{
    return first_group + now / n_items;
}

int lanes_groups(void)
{
    return n_groups;
}

#ifndef CHARL_TESTS_LANES_H
#define CHARL_TESTS_LANES_H
/** A work-group of an NVIDIA device on the host: every work-item is a coroutine, and what kernels
 *  say in PTX is a function of lanes.c, as the PTX manual defines it.
 *
 *  The kernels are those of kernels/nvidia, compiled for the host by clang; the headers that hold
 *  inline PTX are replaced by those beside this file. Copies that a device makes asynchronously
 *  are made at once or at the last moment, as the run asks: a kernel may not depend on either.
 *  Products are computed when they are waited for. Sums are exact to double, then rounded.
 */
#include <stdbool.h>
#include <stdint.h>

enum { LANES_MOST = 512 }; /* work-items at a time */

/** Run `body` in `count` work-items of each of `groups` work-groups, one group after the other.
 *  False when they wait for each other for ever. Blocks. */
bool lanes_run(int groups, int count, bool late_copies, void (*body)(void *), void *ctx);
/** The same with all work-groups at the same time, each as far ahead as it gets before it waits for another. What a kernel declares in local memory is static
 * on the host, so each work-group needs a kernel of its own, compiled under its own name. */
bool lanes_run_together(int groups, int count, bool late_copies, void (*body)(void *), void *ctx);

/* What kernels call, by the names that the headers beside this file and builtins.cl use. */
typedef unsigned long lanes_address;
int lanes_item(void);
int lanes_group(void);
int lanes_groups(void);
uint32_t lanes_pack_bf16(float x, float y);
uint32_t lanes_pack_f16(float x, float y);
float lanes_f16(uint32_t bits);
uint32_t lanes_word_of(uint32_t x, uint32_t mask); /* x of another lane of the warp */
int lanes_any(int x);
float lanes_exp2(float x);
void lanes_copy_16(lanes_address to, lanes_address from, int there);
void lanes_copy_4(lanes_address to, lanes_address from, int there);
void lanes_commit(void);
void lanes_arrived(void);
void lanes_arrived_but(int commits); /* all but so many of the last ones */
void lanes_barrier(void);
unsigned lanes_arrive(unsigned *word); /* returns what it was */
void lanes_wait(const unsigned *word, unsigned count);
void lanes_words_by_row(float *c, const uint32_t *a, lanes_address block, int add, int is_f16);
void lanes_words_by_k(float *c, const uint32_t *a, lanes_address block, int add, int is_f16);
void lanes_blocks(float *c, lanes_address left, lanes_address right, int add, int is_f16);
void lanes_settle(void);
enum { LANES_BF16, LANES_F16, LANES_TF32 };
void lanes_fragment(uint32_t *x, lanes_address row, int transposed);
void lanes_multiply(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, int kind);

#endif

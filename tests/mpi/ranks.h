#ifndef CHARL_TESTS_MPI_RANKS_H
#define CHARL_TESTS_MPI_RANKS_H
/** What the tests of test_ranks share: communicators, values, a step. */
#include "charl/comm.h"
#include "charl/device.h"

/* all ranks on their node; the same, pretending nodes of two; of one, three, then two */
extern _Thread_local charl_comm *comm, *nodes, *uneven;

/** Values whose sum depends on the order of adding. */
float value(int64_t round, int slice, int64_t i);
void leaf_fill(float *leaf, int64_t round, int slice, int64_t n);
float **leaves_alloc(int m, int64_t n);
void leaves_free(float **leaf, int m);
void pause_randomly(int64_t round);

/** A step like a trainer's: the ranges are begun one after another and waited for later. */
void step(charl_allreduce *ar, int64_t round, int64_t n);

/** As skip(), which is not for several threads: there the test only ends. */
void skip_test(void);

/** Whether comm has the all-reduce of that name. */
bool is_available(const char *algorithm);

/** Sums of n values in bf16 over `total` slices, two steps; dev may be NULL; prepare changes the all-reduce before, or NULL. (ranks_bf16.c) */
void check_bf16(charl_comm *c, const char *name, charl_device *dev, void (*prepare)(charl_allreduce *), int total,
                int64_t n);

/* ranks_options.c */
void test_sums_in_bf16(void **state);
void test_gathering(void **state);
void test_scattering(void **state);

/* ranks_heartbeat.c */
void test_links_grow_with_the_logarithm(void **state);
void test_nodes_hear_of_each_other(void **state);
void test_news_go_round(void **state);
void test_a_connection_without_token_is_closed(void **state);
void test_nodes_that_do_not_hear_work_on(void **state);

#endif

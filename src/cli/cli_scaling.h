#ifndef CHARL_CLI_CLI_SCALING_H
#define CHARL_CLI_CLI_SCALING_H
/** A model of the time of a data-parallel training step: arithmetic only. docs/benchmarks.md
 *  derives it.
 *
 *  A message of m bytes takes alpha + m * beta (Hockney 1994). All-reduces cost what their
 *  reduce-scatter and all-gather cost (Thakur, Rabenseifner and Gropp 2005). Buckets follow one
 *  another while backward runs; what is left when it ends is exposed.
 */
#include <charl/train.h>

enum { CHARL__SCALING_POINTS = 8 };

/* The time of a message over a link: alpha_s + bytes * beta_s. */
typedef struct charl__link {
    double alpha_s; /* latency */
    double beta_s;  /* per byte: 1 / bandwidth */
} charl__link;

/* Ranks in nodes of equal size. */
typedef struct charl__cluster {
    charl__link near; /* between the ranks of a node, of each rank */
    charl__link far;  /* between nodes, of each node; beta_s < 0: there is none */
    int node;         /* ranks per node */
} charl__cluster;

/* What one rank does in a step. */
typedef struct charl__step_work {
    double compute_s;
    double bytes;    /* of gradients */
    double last;     /* of these in the bucket that is ready last, when all is computed */
    int buckets;     /* in which the others are sent */
    double backward; /* the share of compute_s in which buckets become ready; 0: none is hidden */
} charl__step_work;

/* Computing times by slices per rank, ascending. */
typedef struct charl__compute_curve {
    int n;
    double slices[CHARL__SCALING_POINTS], compute_s[CHARL__SCALING_POINTS];
} charl__compute_curve;

/** Seconds of an all-reduce of `bytes` over `ranks`, which fill node after node:
 *
 *      2 a + 2 (p-1)/p bytes b  +  2 (N-1) a' + 2 (N-1)/N bytes b'
 *
 *  with p ranks in each of N nodes, (a, b) near and (a', b') far; a part for p = 1 or N = 1 is
 *  none.
 */
double charl__scaling_allreduce_s(const charl__cluster *c, int ranks, double bytes);

/** The link of `ranks` ranks of a node, from the times of all-reduces of few and of many bytes. */
charl__link charl__scaling_fit(int ranks, double few, double few_s, double many, double many_s);

/** Seconds that a step waits for its gradients after it has computed: bucket i of m is ready when
 *  i/m of backward is done, the last one when all is, and is sent when the one before it has been.
 */
double charl__scaling_exposed_s(const charl__cluster *c, int ranks, const charl__step_work *w);

/** A cluster whose ranks divide state (dist.shard). */
typedef struct charl__sharded_cluster {
    charl__cluster links;
    double host;     /* bytes per second between a device and host memory, of each rank */
    double messages; /* bytes per second of a rank's messages, which bring blocks of divided parameters */
} charl__sharded_cluster;

/** Bytes that a node sends in a step, for gradients of w->bytes and parameters of as many; on one node 0. Gradients
 *  are summed on all ranks with none and optimizer, on their owners otherwise; updated parameters go to all, with
 *  `parameters` as working copies of half their size, twice. */
double charl__scaling_traffic(const charl__sharded_cluster *c, int ranks, charl_shard shard, double bytes);

/** Seconds of a step of `layers` layers: computing, what is exposed of the sums, and the exchange of parameters. With gradients and
 *  parameters on several nodes, sums are made in host memory. docs/distributed.md has the assumptions. */
double charl__scaling_step_s(const charl__sharded_cluster *c, int ranks, charl_shard shard, const charl__step_work *w,
                             int layers);

/** compute_s for a number of slices, by straight lines between and beyond the points of the curve
 *  (one point: in proportion). */
double charl__scaling_compute_s(const charl__compute_curve *curve, double slices);

#endif

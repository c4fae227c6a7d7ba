#ifndef CHARL_BASE_ENV_H
#define CHARL_BASE_ENV_H
/** The environment variables of charl. docs/env.md has the same table; lint/env compares.
 *
 *  All are read once, on first use. Thread-safe.
 */
#include <stdbool.h>
#include <stdint.h>

#include "charl/environment.h" /* charl_environment_check */

/* id and name, kind of value, whether ranks of a run may differ in it, meaning:
 *   OWN   each rank may have its own value
 *   SAME  all ranks must have the same value
 *   SET   all ranks must set it, or none: a path, which may differ between nodes */
#define CHARL_ENV_LIST(X)                                                                                              \
    X(LOG, LEVEL, OWN, "messages of the library: error, warn, info or debug (default: warn)")                          \
    X(KERNEL_DIR, TEXT, SET, "read kernel sources from this directory instead of the built-in ones")                   \
    X(CACHE_DIR, TEXT, OWN, "directory of the compiled-kernel cache")                                                  \
    X(COMPILERS, INTEGER, OWN,                                                                                         \
      "processes that compile kernels beside a program, at most; 0: none (default: one for each core of a rank)")      \
    X(DUMP_KERNELS, TEXT, OWN, "write the final source of every specialised kernel to this directory")                 \
    X(SHM_DIR, TEXT, OWN, "directory of the copies that checkpoint.memory_interval makes (default: /dev/shm)")         \
    X(POWERCAP_DIR, TEXT, OWN, "directory of the energy counters of processors (default: /sys/class/powercap)")        \
    X(DEVICE, TEXT, OWN, "device to use; overrides device.select")                                                     \
    X(DRIVER, TEXT, OWN, "driver to use: auto, opencl or nvidia; overrides device.driver")                             \
    X(SYNC, FLAG, OWN, "1: wait for the device after every launch")                                                    \
    X(PROFILE, FLAG, OWN,                                                                                              \
      "1: time every kernel; tables by layer and by kernel are logged at the end "                                     \
      "(CHARL_LOG=info)")                                                                                              \
    X(CHECK_FINITE, FLAG, OWN, "1: report the first operator that produces a NaN or infinity")                         \
    X(FAULT, FAULT, OWN, "make named points fail: point[@rank]:when[:arg],... (for tests)")                            \
    X(ALLREDUCE, TEXT, SAME, "all-reduce algorithm to use; overrides dist.allreduce")                                  \
    X(RANKS_PER_NODE, INTEGER, SAME,                                                                                   \
      "pretend that so many processes of a machine are a node and the next ones another (for tests)")                  \
    X(SLOW, TEXT, OWN, "make ranks compute slower: rank:factor,... (for tests of dist.balance)")                       \
    X(NO_PTX, FLAG, SAME,                                                                                              \
      "1: NVIDIA GPUs run the kernels of other GPUs: no inline PTX, no tensor cores, no "                              \
      "dist.allreduce = peer")                                                                                         \
    X(NO_TENSOR_CORES, FLAG, SAME, "1: use neither tensor cores nor AMX")                                              \
    X(NO_WGMMA, FLAG, SAME, "1: do not use the wgmma instructions of compute capability 9.0")                          \
    X(TUNE, TEXT, OWN, "use of tuning results: stored, first (tune what is missing) or no")                            \
    X(NO_FUSION, FLAG, SAME, "1: do not fuse operators")                                                               \
    X(NO_OPTIMIZER, FLAG, SAME,                                                                                        \
      "1: compile kernels without optimization: they compile faster and run slower; same bits in f32")                 \
    X(TEST_SEED, INTEGER, OWN, "tests: seed of the random inputs, as printed by a failing test")                       \
    X(TEST_LONG, FLAG, OWN, "1: tests also run their long cases")                                                      \
    X(TEST_SHORT, FLAG, OWN, "1: the longest tests run only some of their cases")                                      \
    X(TEST_DATA, TEXT, OWN, "tests: directory with real datasets; without it, tests that need it are skipped")

typedef enum charl__env_id {
#define X(id, kind, ranks, meaning) CHARL_ENV_##id,
    CHARL_ENV_LIST(X)
#undef X
        CHARL_ENV_COUNT
} charl__env_id;

/** "CHARL_LOG" ... Static storage. */
const char *charl__env_name(charl__env_id id);

/** The text by which ranks of a run compare the variable: its value, "(set)" if only that matters, "(not
 *  set)"; NULL if each rank may have its own. Borrowed from the environment. */
const char *charl__env_shared(charl__env_id id);

/** Value, or NULL when unset or empty. Borrowed from the environment. */
const char *charl__env(charl__env_id id);

/** A flag: true for 1, yes, true, on; false for anything else. */
bool charl__env_is_on(charl__env_id id);

/** An integer; `fallback` when unset or malformed. */
int64_t charl__env_integer(charl__env_id id, int64_t fallback);

/** Replace a value; NULL unsets. `value` is borrowed. For tests and for options of the programs. */
void charl__env_set(charl__env_id id, const char *value);

#endif

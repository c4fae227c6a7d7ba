#ifndef CHARL_TESTS_FUZZ_H
#define CHARL_TESTS_FUZZ_H
/** Fuzz targets: what reads files and texts that charl did not write.
 *
 *  A target takes any bytes. It must come back with CHARL_OK or with a status that fits a bad file and has a message, must release all that it
 *  acquired, and what it accepts must stand its own checks; anything else ends the process. Two programs run them: fuzz.c with libFuzzer
 *  (preset fuzz, tests/fuzz/run.sh) and test_fuzz.c with a fixed number of mutations (every preset).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/status.h"

typedef struct fuzz_target {
    const char *name; /* also of the folder of its first inputs: tests/fuzz/corpus/NAME */
    void (*run)(const unsigned char *data, size_t size);
} fuzz_target;

/** All targets; the last has no name. */
extern const fuzz_target fuzz_targets[];

/** The target of that name; NULL: there is none. */
const fuzz_target *fuzz_find(const char *name);

/** Run a target on an input, with all checks. */
void fuzz_run(const fuzz_target *t, const unsigned char *data, size_t size);

/** A folder of this process in memory, removed at exit. */
const char *fuzz_dir(void);
/** Write fuzz_dir()/name. The path is in one of four static buffers, used in turn. */
const char *fuzz_put(const char *name, const unsigned char *data, size_t size);
/** The path alone. */
const char *fuzz_path(const char *name);

/** Remove the folder fuzz_dir()/name with its files. */
void fuzz_empty(const char *name);

/** A number that depends on the whole input, to choose options by: inputs stay plain files. */
uint64_t fuzz_choice(const unsigned char *data, size_t size);

/** The n parts of an input of several files, which lines "=====\n" separate; missing ones are empty. */
typedef struct fuzz_part {
    const unsigned char *data;
    size_t size;
} fuzz_part;
void fuzz_split(const unsigned char *data, size_t size, fuzz_part *parts, int n);

/** End the process unless `condition`; `what` says why. */
#define FUZZ_CHECK(condition, what) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, what))
void fuzz_fail(const char *file, int line, const char *what);

/** Whether st is CHARL_OK; ends the process for a failure that a bad input must not have: out of memory, devices, bugs. */
int fuzz_accepts(charl_status st);

/** What an import has written is a sound dataset; `window` is for tokens. */
void fuzz_check_import(charl_status st, int64_t window);

/* Targets that are files of their own. */
void fuzz_dataset(const unsigned char *data, size_t size);
void fuzz_checkpoint(const unsigned char *data, size_t size);
void fuzz_hdf5(const unsigned char *data, size_t size);
void fuzz_resumed_logs(const unsigned char *data, size_t size);
void fuzz_run_directory(const unsigned char *data, size_t size);
void fuzz_tuning(const unsigned char *data, size_t size);
/** A dataset `name` of a table with a recipe: fills, words, dates and a column that is left out. Its targets are classes, or numbers. */
const char *fuzz_put_table(const char *name, bool regression);
/** A file `name` that is a checkpoint of step 6. */
const char *fuzz_put_checkpoint(const char *name);

#endif

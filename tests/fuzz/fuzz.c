/* libFuzzer's entry: $CHARL_FUZZ_TARGET names the target. tests/fuzz/run.sh starts it. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = getenv("CHARL_FUZZ_TARGET");

    (void)argc;
    (void)argv;
    target = name ? fuzz_find(name) : NULL;
    if (!target) {
        fprintf(stderr, "set CHARL_FUZZ_TARGET to one of:");
        for (const fuzz_target *t = fuzz_targets; t->name; t++) {
            fprintf(stderr, " %s", t->name);
        }
        fprintf(stderr, "\n");
        exit(2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_run(target, data, size);
    return 0;
}

/* make_checkpoint FILE STEP [N]: a small checkpoint, or one with its first N tensors only (of which
 * two are f32 weights), for the scripts that test `charl checkpoint`. */
#include "io/checkpoint_sample.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    sample s;

    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: make_checkpoint FILE STEP [N]\n");
        return 2;
    }
    sample_init(&s, atoll(argv[2]));
    s.c.n_tensors = argc == 4 ? atoll(argv[3]) : s.c.n_tensors;
    if (charl_checkpoint_save(argv[1], &s.c) != CHARL_OK) {
        fprintf(stderr, "%s\n", charl_error_message());
        return 1;
    }
    return 0;
}

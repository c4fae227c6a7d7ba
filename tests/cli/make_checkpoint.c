/* make_checkpoint FILE STEP: a small checkpoint, for the scripts that test `charl checkpoint`. */
#include "io/checkpoint_sample.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    sample s;

    if (argc != 3) {
        fprintf(stderr, "usage: make_checkpoint FILE STEP\n");
        return 2;
    }
    sample_init(&s, atoll(argv[2]));
    if (charl_checkpoint_save(argv[1], &s.c) != CHARL_OK) {
        fprintf(stderr, "%s\n", charl_error_message());
        return 1;
    }
    return 0;
}

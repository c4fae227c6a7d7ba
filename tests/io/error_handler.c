/* The error handler of a program that uses HDF5 too, linked into every test of io: no failure of charl's own calls may reach it. A test that
 * calls HDF5 itself, and lets it fail, does so in a CHARL_H5_SCOPE. */
#include <hdf5.h>

#include <stdio.h>
#include <stdlib.h>

static herr_t refuse(hid_t stack, void *user)
{
    (void)user;
    H5Eprint2(stack, stderr);
    fprintf(stderr, "a failure within charl has reached the program's error handler\n");
    abort();
}

__attribute__((constructor)) static void install(void)
{
    H5Eset_auto2(H5E_DEFAULT, refuse, NULL);
}

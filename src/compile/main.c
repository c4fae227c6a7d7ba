/* charl-compile: compiles kernels for the process that starts it, and is of no use otherwise. */
#include "device/compilers.h"

int main(void)
{
    return charl__compiler_main();
}

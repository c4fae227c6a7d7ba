/* charl-compile: compiles kernels for the process that starts it; not useful otherwise. */
#include "device/compilers.h"

int main(void)
{
    return charl__compiler_main();
}

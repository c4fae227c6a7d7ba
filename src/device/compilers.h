#ifndef CHARL_DEVICE_COMPILERS_H
#define CHARL_DEVICE_COMPILERS_H

/** The main function of charl-compile: compiles jobs that arrive at its socket until the other end is closed. */
int charl__compiler_main(void);

#endif

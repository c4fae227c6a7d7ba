/* The standard streams for the static libraries that are linked into libcharl with CHARL_PORTABLE. Debian compiles these for programs, which have
 * copies of the C library's variables of their own; a shared library has none, and the linker refuses them. So it defines the variables,
 * hidden, with the values that the C library gives its own. <stdio.h> would declare them otherwise. */
extern char _IO_2_1_stdin_[], _IO_2_1_stdout_[], _IO_2_1_stderr_[];

#define STREAM(name) __attribute__((visibility("hidden"))) void *name = _IO_2_1_##name##_
STREAM(stdin);
STREAM(stdout);
STREAM(stderr);

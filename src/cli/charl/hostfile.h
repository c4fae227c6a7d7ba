#ifndef CHARL_CLI_CHARL_HOSTFILE_H
#define CHARL_CLI_CHARL_HOSTFILE_H
/** The hosts of a job: a file with a line "HOST slots=RANKS" or "HOST:RANKS" for each; # begins a comment, and a host alone has one slot. */
#include <stdint.h>

#include <charl/status.h>

enum { CHARL__HOST_BYTES = 256, CHARL__MAX_HOSTS = 4096, CHARL__MAX_SLOTS = 1 << 20 };

typedef struct charl__host {
    char name[CHARL__HOST_BYTES];
    int64_t slots; /* 1 to CHARL__MAX_SLOTS */
} charl__host;

/** Read a hostfile. *hosts is owned by the caller, who calls free() on every path; *n of them, at least one.
 *  Errors: ERR_CONFIG, naming file and line; ERR_NOMEM. */
charl_status charl__hostfile_read(const char *path, charl__host **hosts, int *n) CHARL_MUST_CHECK;

#endif

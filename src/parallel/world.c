/* Ranks and device of a program. */
#define _GNU_SOURCE
#include "charl/world.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "charl/environment.h"

static _Atomic(charl_comm *) open_comm; /* of the process, for charl_check */

static charl_status open_device(const charl_comm *comm, const charl_device_request *wanted, charl_device **out)
{
    charl_device_request request = wanted ? *wanted : (charl_device_request){sizeof request, .share = true};

    request.local_rank = charl_comm_local_rank(comm);
    request.local_size = charl_comm_local_size(comm);
    return charl_device_open(&request, out);
}

charl_status charl_world_open(int *argc, char ***argv, const charl_world_options *options, charl_world *out)
{
    CHARL_GIVEN(out);
    CHARL__OPTIONS(charl_world_options, options);
    charl_status st;

    *out = (charl_world){0};
    CHARL_TRY(charl_environment_check());
    CHARL_TRY(charl_comm_init_if_launched(argc, argv));
    st = charl_comm_create(options ? options->comm : NULL, &out->comm);
    if (st != CHARL_OK) {
        charl_comm_fini();
        return st;
    }
    out->rank = charl_comm_rank(out->comm);
    out->size = charl_comm_size(out->comm);
    atomic_store(&open_comm, out->comm);
    st = open_device(out->comm, options ? options->device : NULL, &out->device);
    st = charl_comm_agree(out->comm, st);
    if (st != CHARL_OK) {
        charl_world_close(out);
    }
    return st;
}

void charl_world_close(charl_world *world)
{
    if (!world || !world->comm) {
        return;
    }
    charl_comm *closed = world->comm;

    charl_device_close(world->device);
    atomic_compare_exchange_strong(&open_comm, &closed, NULL); /* unless another has been opened since */
    charl_comm_destroy(world->comm);
    charl_comm_fini();
    *world = (charl_world){0};
}

void charl_check(charl_status st, const char *file, int line)
{
    static const char mark[] = "; HINT ";
    const char *message = charl_error_message(), *hint = strstr(message, mark);
    char text[4096];

    if (st == CHARL_OK) {
        return;
    }
    snprintf(text, sizeof text, "%s: %.*s%s%s\n  at %s:%d\n", program_invocation_short_name,
             (int)(hint ? (size_t)(hint - message) : strlen(message)), message, hint ? "\n  hint: " : "",
             hint ? hint + strlen(mark) : "", file ? file : "?", line);
    charl_comm_exit(atomic_load(&open_comm), EXIT_FAILURE, text);
}

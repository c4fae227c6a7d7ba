/* Start and end of a command on ranks, and its failures. */
#include "cli/cli_ranks.h"

#include <stdio.h>
#include <string.h>

#include <charl/error.h>
#include "cli/cli.h"

enum { MESSAGE_BYTES = 2048 };

static const double no_config_s = 600; /* of silence: the default of dist.stage_timeout */

void charl__ranks_lost(void *comm, charl_status st)
{
    char message[MESSAGE_BYTES], text[MESSAGE_BYTES + 64];
    const char *hint;

    snprintf(message, sizeof message, "%s", charl_error_message());
    hint = charl__cli_split_hint(message);
    snprintf(text, sizeof text, "%s: error: %s\n%s%s%s", charl__cli_program(), message, hint ? "  hint: " : "",
             hint ? hint : "", hint ? "\n" : "");
    charl_comm_exit(comm, charl__cli_exit_code(st), text);
}

int charl__ranks_fail(charl_comm *comm, charl_status st)
{
    if (charl_comm_is_broken(comm)) {
        charl__ranks_lost(comm, st);
    }
    return charl_comm_rank(comm) == 0 ? charl__cli_fail(st) : charl__cli_exit_code(st);
}

void charl__ranks_warn(void *comm, const char *text)
{
    if (charl_comm_rank(comm) == 0) {
        charl__cli_say("warning", text);
    }
}

charl_status charl__ranks_started(void *ctx, const charl_train_info *info)
{
    (void)ctx;
    (void)info;
    charl__cli_compiling_done();
    return CHARL_OK;
}

static void on_death(void *comm, const charl_comm_death *death)
{
    char text[MESSAGE_BYTES];

    snprintf(text, sizeof text, "%s: error: %s\n", charl__cli_program(), death->message);
    charl_comm_exit(comm, CHARL__EXIT_COMM, text);
}

/* Starts each rank; if that fails on one, all ranks end. */
static charl_status start(charl_comm *comm)
{
    return charl_comm_agree(comm, charl_comm_size(comm) > 1 ? charl_comm_watch_begin(comm, on_death, comm) : CHARL_OK);
}

int charl__with_ranks(const charl_config *config, int (*work)(void *ctx, charl_comm *comm), void *ctx, int *argc,
                      char ***argv)
{
    const charl_comm_options wait = {
        sizeof wait, .timeout_s = config ? charl__cli_number(config, "dist.stage_timeout") : no_config_s,
        .keep_binding = config && strcmp(charl__cli_text(config, "device.cpu_bind"), "none") == 0};
    charl_comm *comm = NULL;
    charl_status st;
    int code = charl__cli_limits();

    if (code != CHARL__EXIT_OK) {
        return code;
    }
    charl__cli_deadline_begin(wait.timeout_s, "a rank has not started");
    st = config ? charl_comm_init_if_launched(argc, argv) : charl_comm_init(argc, argv); /* tuning measures MPI, too */
    if (st == CHARL_OK) {
        st = charl_comm_create(&wait, &comm);
    }
    if (st != CHARL_OK) { /* the others may be waiting for this rank: no MPI_Finalize */
        code = st == CHARL_ERR_CONFIG ? charl__cli_fail_alike(st) : charl__cli_fail(st);
        charl_comm_exit(NULL, code, NULL);
    }
    charl__cli_deadline_end();
    st = start(comm);
    code = st == CHARL_OK ? work(ctx, comm) : charl__ranks_fail(comm, st);
    code = charl__cli_end(code);
    charl_comm_watch_end(comm);
    charl__cli_deadline_begin(wait.timeout_s, "a rank has not ended");
    charl_comm_destroy(comm);
    charl_comm_fini();
    charl__cli_deadline_end();
    return code;
}

/* What a command does once. */
#include "train/once.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/text.h"
#include "train/metrics/metrics.h"

static const char file_name[] = ".once";

/* The file of `dir`; false: its path is too long. */
static bool path_of(const char *dir, char out[CHARL__ONCE_PATH])
{
    return snprintf(out, CHARL__ONCE_PATH, "%s/%s", dir, file_name) < CHARL__ONCE_PATH;
}

/* `path` as it is found from any directory; "" where it is too long. */
static void make_absolute(const char *path, char out[CHARL__ONCE_PATH])
{
    char here[CHARL__ONCE_PATH] = "";
    const bool is_absolute = path[0] == '/';

    if ((!is_absolute && !getcwd(here, sizeof here)) ||
        snprintf(out, CHARL__ONCE_PATH, "%s%s%s", here, is_absolute ? "" : "/", path) >= CHARL__ONCE_PATH) {
        out[0] = '\0';
    }
}

void charl__once_read(const char *dir, charl__once *out)
{
    char path[CHARL__ONCE_PATH], line[CHARL__ONCE_PATH + 64];
    FILE *f = path_of(dir, path) ? fopen(path, "re") : NULL;
    int jobs = 0;

    *out = (charl__once){.step = 0};
    while (f && fgets(line, sizeof line, f)) {
        const size_t length = strcspn(line, "\n");
        int at = 0;
        int64_t step = -1;

        line[length] = '\0';
        if (strncmp(line, "job ", 4) == 0 && jobs < CHARL_TRAIN_JOBS && length - 4 < CHARL__ONCE_JOB) {
            memcpy(out->job[jobs++], line + 4, length - 3);
        } else if (sscanf(line, "from %18" SCNd64 " %n", &step, &at) == 1 && at > 0 && step >= 0 && line[at] == '/' &&
                   length - (size_t)at < CHARL__ONCE_PATH) {
            memcpy(out->from, line + at, length - (size_t)at + 1);
            out->step = step;
        }
    }
    if (f) {
        fclose(f);
    }
}

charl_status charl__once_write(const char *dir, const charl__once *o)
{
    char path[CHARL__ONCE_PATH];
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    for (int i = 0; i < CHARL_TRAIN_JOBS; i++) {
        CHARL_TRY(o->job[i][0] ? charl__text_printf(&text, "job %s\n", o->job[i]) : CHARL_OK);
    }
    CHARL_TRY(o->from[0] ? charl__text_printf(&text, "from %" PRId64 " %s\n", o->step, o->from) : CHARL_OK);
    if (text.length > 0) {
        CHARL_TRY(charl__metrics_write_file(dir, file_name, charl__text_string(&text)));
    } else if (path_of(dir, path)) {
        CHARL_REQUIRE(unlink(path) == 0 || errno == ENOENT, CHARL_ERR_DISK, "cannot remove %s: %s", path,
                      strerror(errno));
    }
    return CHARL_OK;
}

bool charl__once_is_begun(const charl__once *o, const charl_train_job jobs[CHARL_TRAIN_JOBS])
{
    for (int i = 0; i < CHARL_TRAIN_JOBS; i++) {
        for (int k = 0; jobs[i].name && jobs[i].restarted && k < CHARL_TRAIN_JOBS; k++) {
            if (jobs[i].name[0] && strcmp(jobs[i].name, o->job[k]) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool charl__once_is_from(const charl__once *o, const char *path)
{
    char absolute[CHARL__ONCE_PATH];

    make_absolute(path, absolute);
    return absolute[0] && strcmp(o->from, absolute) == 0;
}

charl_status charl__once_set_jobs(charl__once *o, const charl_train_job jobs[CHARL_TRAIN_JOBS])
{
    bool is_named = false;

    for (int i = 0; i < CHARL_TRAIN_JOBS; i++) {
        is_named = is_named || (jobs[i].name && jobs[i].name[0]);
    }
    for (int i = 0; is_named && i < CHARL_TRAIN_JOBS; i++) {
        const char *name = jobs[i].name ? jobs[i].name : "";

        CHARL_REQUIRE(strlen(name) < CHARL__ONCE_JOB && !strchr(name, '\n'), CHARL_ERR_INVALID,
                      "the name of a job is a line of at most %d bytes", CHARL__ONCE_JOB - 1);
        snprintf(o->job[i], sizeof o->job[i], "%s", name);
    }
    return CHARL_OK;
}

void charl__once_set_from(charl__once *o, const char *path, int64_t step)
{
    o->from[0] = '\0';
    o->step = path ? step : 0;
    if (path && !strchr(path, '\n')) {
        make_absolute(path, o->from);
    }
}

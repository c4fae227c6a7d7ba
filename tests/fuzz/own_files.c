/* Files that charl itself has written, and reads again: logs of a run that is resumed, the lock and identity of its directory, and the tuning
 * database of a device. They may be torn, edited, or another version's. */
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "charl/checkpoint.h"
#include "charl/metrics.h"
#include "charl/tune.h"
#include "device/device_private.h"
#include "files/run.h"
#include "train/once.h"
#include "train/rundir.h"

enum { KEPT_STEP = 5, MOST_FILES = 4 };

/* The content of fuzz_dir()/name, free it; *size 0: it is empty or missing. */
static char *content(const char *name, size_t *size)
{
    FILE *f = fopen(fuzz_path(name), "rb");
    char *text = NULL;
    size_t capacity = 0;

    *size = 0;
    while (f) {
        text = realloc(text, capacity + 65536);
        FUZZ_CHECK(text != NULL, "no memory");
        capacity += 65536;
        *size += fread(text + *size, 1, capacity - *size, f);
        if (*size < capacity) {
            fclose(f);
            f = NULL;
        }
    }
    return text;
}

static void resume_logs(void)
{
    charl_metrics *m = NULL;

    FUZZ_CHECK(charl_metrics_open(NULL, fuzz_dir(), CHARL_LOG_JSONL | CHARL_LOG_CSV | CHARL_LOG_TENSORBOARD, KEPT_STEP,
                                  &m) == CHARL_OK,
               "damaged logs keep a run from being resumed");
    charl_metrics_close(m);
}

/* Rows of steps that are done again are cut off, torn ones too; a second resumption finds nothing to add. */
void fuzz_resumed_logs(const unsigned char *data, size_t size)
{
    static const char *const names[] = {"metrics.jsonl", "metrics.csv"};
    static const char events[] = "tb/events.out.tfevents.0000000001.host.1.charl", columns[] = "epoch,step,";
    fuzz_part part[3];
    size_t before[2] = {SIZE_MAX, SIZE_MAX};

    fuzz_split(data, size, part, 3);
    FUZZ_CHECK(mkdir(fuzz_path("tb"), 0700) == 0, "no folder of event files");
    fuzz_put(names[0], part[0].data, part[0].size);
    fuzz_put(names[1], part[1].data, part[1].size);
    fuzz_put(events, part[2].data, part[2].size);
    for (int turn = 0; turn < 2; turn++) {
        resume_logs();
        for (int i = 0; i < 2; i++) {
            size_t left;
            char *text = content(names[i], &left);

            FUZZ_CHECK(left == 0 || text[left - 1] == '\n', "a torn row is kept");
            FUZZ_CHECK(i == 0 || (left > strlen(columns) && memcmp(text, columns, strlen(columns)) == 0),
                       "metrics.csv does not begin with its columns");
            FUZZ_CHECK(left <= before[i], "a log has grown");
            before[i] = left;
            free(text);
        }
    }
    fuzz_empty("tb");
}

/* The text of .lock, by another holder, goes into one line of a message; a run_id that is none is no id. */
void fuzz_run_directory(const unsigned char *data, size_t size)
{
    charl__run *run = NULL;
    charl__once once, again;
    fuzz_part part[3];
    char id[33];
    int fd;

    fuzz_split(data, size, part, 3);
    fd = open(fuzz_put(".lock", part[0].data, part[0].size), O_RDWR);
    FUZZ_CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0, "the directory cannot be held");
    FUZZ_CHECK(charl__run_open(fuzz_dir(), &run) == CHARL_ERR_BUSY, "a directory that is held is opened");
    FUZZ_CHECK(!strchr(charl_error_message(), '\n'), "a message of several lines");
    close(fd);
    unlink(fuzz_path(".lock"));

    fuzz_put("run_id", part[1].data, part[1].size);
    charl__rundir_read_id(fuzz_dir(), id);
    FUZZ_CHECK(strspn(id, "0123456789abcdef") == strlen(id) && (strlen(id) == 32 || strlen(id) == 0),
               "an id that charl would not write");

    fuzz_put(".once", part[2].data, part[2].size);
    charl__once_read(fuzz_dir(), &once);
    FUZZ_CHECK(charl__once_write(fuzz_dir(), &once) == CHARL_OK, "what was read cannot be written");
    charl__once_read(fuzz_dir(), &again);
    FUZZ_CHECK(strcmp(once.job[0], again.job[0]) == 0 && strcmp(once.from, again.from) == 0 && once.step == again.step,
               "what was written is not read");
}

static int read_tuning(charl_device *dev)
{
    const char *product, *kernel;
    int n = 0;

    FUZZ_CHECK(charl__tuning_db_open(dev, CHARL_TUNE_STORED) == CHARL_OK, "a damaged tuning database is an error");
    while (charl_tune_get(dev, n, &product, &kernel)) {
        FUZZ_CHECK(charl__tuning_find(dev, product) == kernel, "a result is not found by its name");
        n++;
    }
    return n;
}

/* What is read is written and read again, all of it. */
void fuzz_tuning(const unsigned char *data, size_t size)
{
    char *dir = strdup(fuzz_dir());
    charl_device dev = {.cache_dir = dir};
    int n;

    setenv("OCL_ICD_VENDORS", "/none", 1); /* the device has no driver */
    FUZZ_CHECK(read_tuning(&dev) == 0, "a tuning database before there is one");
    fuzz_put(strrchr(charl_tune_path(&dev), '/') + 1, data, size);
    charl__tuning_db_close(dev.tuning_db);
    n = read_tuning(&dev);
    FUZZ_CHECK(charl__tuning_db_save(&dev) == CHARL_OK, "the results cannot be written");
    charl__tuning_db_close(dev.tuning_db);
    FUZZ_CHECK(read_tuning(&dev) == n, "a result is lost");
    charl__tuning_db_close(dev.tuning_db);
    free(dir);
}

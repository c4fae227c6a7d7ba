/* Where a training that forgets rows of a run can begin. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "config/config_rows.h"
#include "config/diff.h"
#include "files/run.h"
#include "files/run_lock.h"
#include "io/commit.h"
#include "io/dataset/order/stream.h"
#include "io/dataset/weights.h"
#include "io/regular.h"
#include "train/replay.h"

enum { LARGEST_CONFIG = 1 << 26 };

/* Whether the run was trained, from its beginning, with the settings of its config.ini and these data. */
static charl_status check_lock(const char *run, const char *config, const char *data)
{
    charl_status st = CHARL_OK;
    charl__lock lock = {0};
    charl__text wrong = {0};
    char hash[CHARL__SHA256_TEXT];

    charl__sha256_text(config, strlen(config), hash);
    CHARL_TRY_CLEANUP(charl__lock_read(run, &lock, &wrong));
    CHARL_REQUIRE_CLEANUP(wrong.length == 0, CHARL_ERR_CHECKPOINT,
                          "%.*s; HINT `charl verify %s` names all that differs",
                          (int)strcspn(charl__text_string(&wrong), "\n"), charl__text_string(&wrong), run);
    CHARL_REQUIRE_CLEANUP(lock.line[0].kind == CHARL__LOCK_START, CHARL_ERR_CHECKPOINT,
                          "%s began with a checkpoint of another run, which may have learned from the rows; HINT train "
                          "from the beginning with data.forget",
                          run);
    for (int64_t i = 0; i < lock.count; i++) {
        const charl__lock_line *line = &lock.line[i];

        CHARL_REQUIRE_CLEANUP(
            line->kind == CHARL__LOCK_CHECKPOINT || strcmp(line->value[CHARL__LOCK_CONFIG], hash) == 0,
            CHARL_ERR_CHECKPOINT,
            "%s was trained with several configurations, so that no single one gives it again; HINT train from the "
            "beginning with data.forget",
            run);
        CHARL_REQUIRE_CLEANUP(line->kind == CHARL__LOCK_CHECKPOINT || strcmp(line->value[CHARL__LOCK_DATA], data) == 0,
                              CHARL_ERR_CHECKPOINT,
                              "the data are not those that line %" PRId64 " of %s/" CHARL__LOCK_FILE " records",
                              lock.number[i], run);
    }
cleanup:
    charl__text_fini(&wrong);
    charl__lock_fini(&lock);
    return st;
}

/* The first step that takes a row that is forgotten; 0: none. */
static charl_status find_step(const charl__session *s, int64_t *out)
{
    const charl_config *c = s->config;
    const int64_t batch = c->train.batch_size, rows = s->data.rows[CHARL_SPLIT_TRAIN];
    const int64_t steps = charl__config_steps(c, rows);
    CHARL_SCOPED_FREE int64_t *place = NULL;
    charl__stream stream;

    *out = 0;
    CHARL_TRY(charl__alloc_array(batch, sizeof *place, &place));
    charl__stream_init(&stream, s->ds, CHARL_SPLIT_TRAIN, c->data.shuffle, (uint64_t)c->run.seed);
    for (int64_t step = 1; step <= steps && (step - 1) * batch < rows && *out == 0; step++) {
        charl__stream_places(&stream, (step - 1) * batch, batch, place);
        for (int64_t i = 0; i < batch; i++) {
            *out = charl__rows_have(s->forgotten, s->n_forgotten, place[i]) ? step : *out;
        }
    }
    return CHARL_OK;
}

charl_status charl_forget_find(const char *run, const charl_config *config, int64_t *step, char **checkpoint)
{
    CHARL_GIVEN(run, config, step, checkpoint);
    static const char key[] = "[data] forget ";
    charl_status st = CHARL_OK;
    charl__session s = {.config = config};
    charl__run_found found = {0};
    charl__text text = {0};
    char *path = NULL, *changes = NULL;
    unsigned what;

    *checkpoint = NULL;
    *step = 0;
    CHARL_REQUIRE_CLEANUP(config->data.forget[0], CHARL_ERR_CONFIG, "data.forget is empty: which rows?");
    CHARL_TRY_CLEANUP(charl__commit_join(run, "config.ini", &path));
    CHARL_TRY_CLEANUP(charl__regular_read_all(path, LARGEST_CONFIG, &text));
    CHARL_TRY_CLEANUP(charl__config_diff(config, charl__text_string(&text), CHARL__CHANGE_RESULT, &what, &changes));
    CHARL_REQUIRE_CLEANUP(strncmp(changes, key, strlen(key)) == 0 && strcspn(changes, "\n") + 1 >= strlen(changes),
                          CHARL_ERR_CONFIG, "only data.forget may differ from the settings of the run, not:\n%s",
                          changes);
    CHARL_TRY_CLEANUP(charl__replay_open_data(&s));
    CHARL_TRY_CLEANUP(check_lock(run, charl__text_string(&text), s.data.content_id));
    CHARL_TRY_CLEANUP(charl__session_forget_rows(&s));
    CHARL_TRY_CLEANUP(find_step(&s, step));
    CHARL_TRY_CLEANUP(*step > 0 ? charl__run_find(run, *step, &found) : CHARL_OK);
    *checkpoint = found.path;
    found.path = NULL;
cleanup:
    charl__run_found_fini(&found);
    charl__text_fini(&text);
    charl_free(path);
    charl_free(changes);
    charl__session_fini(&s);
    return st;
}

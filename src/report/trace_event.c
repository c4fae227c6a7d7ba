/* Events of a trace, read and written by libjansson. */
#include "report/trace_event.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

CHARL_SCOPED_POINTER(json_left, json_t, json_decref)

static const json_t *json_of(const charl__trace_event *e)
{
    return (const json_t *)e;
}

static const char *phase_of(const json_t *event)
{
    return json_string_value(json_object_get(event, "ph"));
}

bool charl__trace_event_is(const charl__trace_event *e, const char *name)
{
    const char *v = json_string_value(json_object_get(json_of(e), "name"));

    return v && strcmp(v, name) == 0;
}

int64_t charl__trace_event_pid(const charl__trace_event *e)
{
    return json_integer_value(json_object_get(json_of(e), "pid"));
}

double charl__trace_event_time(const charl__trace_event *e)
{
    return json_number_value(json_object_get(json_of(e), "ts"));
}

/* Whether the members that charl__trace_event_move changes exist. */
static bool is_event(const json_t *event)
{
    const charl__trace_event *e = (const charl__trace_event *)event;
    const char *ph = phase_of(event);

    return ph && json_is_integer(json_object_get(event, "pid")) && charl__trace_event_pid(e) >= 0 &&
           charl__trace_event_pid(e) < CHARL__TRACE_MAX_PIDS &&
           (strcmp(ph, "X") != 0 || json_is_number(json_object_get(event, "ts"))) &&
           (!charl__trace_event_is(e, "process_name") ||
            json_is_string(json_object_get(json_object_get(event, "args"), "name")));
}

charl_status charl__trace_event_read(const char *line, size_t length, charl__trace_event **out)
{
    json_error_t error;
    json_t *event = json_loadb(line, length, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);

    *out = NULL;
    if (event && is_event(event)) {
        const char *rest = line + error.position;

        rest += *rest == ',';
        if (*rest == '\n' && rest + 1 == line + length) {
            *out = (charl__trace_event *)event;
            return CHARL_OK;
        }
    }
    json_decref(event);
    CHARL_FAIL(CHARL_ERR_DATA, "not an event");
    return CHARL_OK;
}

void charl__trace_event_close(charl__trace_event *e)
{
    json_decref((json_t *)e);
}

charl_status charl__trace_event_move(charl__trace_event *e, int64_t pid, double us, const char *run)
{
    json_t *event = (json_t *)e, *args = json_object_get(event, "args");
    /* json_object_set_new fails on NULL: this detects a lack of memory */
    bool ok = json_object_set_new(event, "pid", json_integer(pid)) == 0;

    if (strcmp(phase_of(event), "X") == 0) {
        ok = ok && json_object_set_new(event, "ts", json_real(round(us * 1e3) * 1e-3)) == 0;
    } else if (charl__trace_event_is(e, "process_name") && run[0]) {
        const char *name = json_string_value(json_object_get(args, "name"));

        ok = ok && json_object_set_new(args, "name", json_sprintf("%s: %s", run, name)) == 0;
    } else if (charl__trace_event_is(e, "process_sort_index")) {
        ok = ok && json_object_set_new(event, "args", json_pack("{s:I}", "sort_index", (json_int_t)pid)) == 0;
    }
    CHARL_REQUIRE(ok, CHARL_ERR_NOMEM, "no memory for a time line");
    return CHARL_OK;
}

/* Append libjansson's output to a text. */
static int append(const char *data, size_t size, void *text)
{
    return charl__text_append(text, data, size) == CHARL_OK ? 0 : -1;
}

charl_status charl__trace_event_print(const charl__trace_event *e, charl__text *out)
{
    CHARL_REQUIRE(json_dump_callback(json_of(e), append, out, JSON_COMPACT | JSON_REAL_PRECISION(15)) == 0,
                  CHARL_ERR_NOMEM, "no memory for a time line");
    return CHARL_OK;
}

/* ],"displayTimeUnit":"ms","otherData":{...}} */
charl_status charl__trace_end_read(const char *line, size_t length, double *zero_s, char **run)
{
    static const char head[] = "{\"traceEvents\":[";
    CHARL_SCOPED(charl__text_fini) charl__text file = {0};
    json_error_t error;
    CHARL_SCOPED(json_left) json_t *root = NULL;
    const json_t *other, *zero, *name;

    *run = NULL;
    CHARL_TRY(charl__text_append(&file, head, sizeof head - 1));
    CHARL_TRY(charl__text_append(&file, line, length));
    root = json_loadb(file.data, file.length, JSON_REJECT_DUPLICATES, &error);
    other = json_object_get(root, "otherData");
    zero = json_object_get(other, "zero_s");
    name = json_object_get(other, "run");
    *zero_s = json_number_value(zero);
    CHARL_REQUIRE(json_is_number(zero) && (!name || json_is_string(name)), CHARL_ERR_DATA,
                  "not the end of a time line");
    CHARL_TRY(charl__strdup(name ? json_string_value(name) : "", run));
    return CHARL_OK;
}

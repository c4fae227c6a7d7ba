/* The table of environment variables. Values are read once under pthread_once; afterwards each is
 * one atomic pointer, so tests may replace it. They point into the environment, in which charl changes
 * only PoCL's variables. */
#include "base/env.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"

extern char **environ;

typedef enum { KIND_TEXT, KIND_FLAG, KIND_INTEGER, KIND_LEVEL, KIND_FAULT } value_kind;
typedef enum { RANKS_OWN, RANKS_SAME, RANKS_SET } ranks_rule;

typedef struct variable {
    const char *name;
    value_kind kind;
    ranks_rule ranks;
    const char *meaning;
} variable;

static const variable variables[CHARL_ENV_COUNT] = {
#define X(id, kind, ranks, meaning) {"CHARL_" #id, KIND_##kind, RANKS_##ranks, meaning},
    CHARL_ENV_LIST(X)
#undef X
};

static const char *const true_words[] = {"1", "yes", "true", "on"};
static const char *const false_words[] = {"0", "no", "false", "off"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(const char *) values[CHARL_ENV_COUNT];

static void read_all(void)
{
    for (int i = 0; i < CHARL_ENV_COUNT; i++) {
        atomic_store(&values[i], getenv(variables[i].name));
    }
}

static bool is_one_of(const char *value, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(value, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_true(const char *value)
{
    return is_one_of(value, true_words, sizeof true_words / sizeof *true_words);
}

static bool parse_integer(const char *value, int64_t *out)
{
    char *end = NULL;
    long long v;

    errno = 0;
    v = strtoll(value, &end, 0);
    if (errno != 0 || end == value || *end != '\0') {
        return false;
    }
    *out = (int64_t)v;
    return true;
}

const char *charl__env_name(charl__env_id id)
{
    return (unsigned)id < CHARL_ENV_COUNT ? variables[id].name : "?";
}

const char *charl_environment_variable(int i, const char **meaning)
{
    const bool exists = i >= 0 && i < CHARL_ENV_COUNT;

    if (meaning) {
        *meaning = exists ? variables[i].meaning : NULL;
    }
    return exists ? variables[i].name : NULL;
}

const char *charl__env_shared(charl__env_id id)
{
    const char *value = charl__env(id);

    if (variables[id].ranks == RANKS_OWN) {
        return NULL;
    }
    if (!value || (variables[id].kind == KIND_FLAG && !is_true(value))) {
        return "(not set)"; /* a flag that is off is equivalent to one that is not set */
    }
    return variables[id].ranks == RANKS_SET ? "(set)" : variables[id].kind == KIND_FLAG ? "1" : value;
}

const char *charl__env(charl__env_id id)
{
    const char *value;

    CHARL_INVARIANT((unsigned)id < CHARL_ENV_COUNT);
    pthread_once(&once, read_all);
    value = atomic_load(&values[id]);
    return value && value[0] != '\0' ? value : NULL;
}

bool charl__env_is_on(charl__env_id id)
{
    const char *value = charl__env(id);

    return value && is_true(value);
}

int64_t charl__env_integer(charl__env_id id, int64_t fallback)
{
    const char *value = charl__env(id);
    int64_t out = fallback;

    return value && parse_integer(value, &out) ? out : fallback;
}

void charl__env_set(charl__env_id id, const char *value)
{
    CHARL_INVARIANT((unsigned)id < CHARL_ENV_COUNT);
    pthread_once(&once, read_all);
    atomic_store(&values[id], value);
}

static charl_status check_value(charl__env_id id, const char *value)
{
    const char *name = variables[id].name;
    charl_log_level level;
    int64_t number;

    switch (variables[id].kind) {
    case KIND_TEXT:
        break;
    case KIND_FLAG:
        CHARL_REQUIRE(is_true(value) || is_one_of(value, false_words, sizeof false_words / sizeof *false_words),
                      CHARL_ERR_CONFIG, "%s=%s: expected 0 or 1", name, value);
        break;
    case KIND_INTEGER:
        CHARL_REQUIRE(parse_integer(value, &number), CHARL_ERR_CONFIG, "%s=%s: expected an integer", name, value);
        break;
    case KIND_LEVEL:
        CHARL_REQUIRE(charl__log_level_find(value, &level), CHARL_ERR_CONFIG,
                      "%s=%s: expected error, warn, info or debug", name, value);
        break;
    case KIND_FAULT:
        CHARL_TRY(charl__fault_set(value));
        break;
    }
    return CHARL_OK;
}

static void warn_unknown(void)
{
    for (char **entry = environ; entry && *entry; entry++) {
        const size_t length = strcspn(*entry, "=");
        bool is_known = strncmp(*entry, "CHARL_", 6) != 0;

        for (int i = 0; i < CHARL_ENV_COUNT && !is_known; i++) {
            is_known = strlen(variables[i].name) == length && memcmp(*entry, variables[i].name, length) == 0;
        }
        if (!is_known) {
            charl__log(CHARL_LOG_WARN, "environment variable %.*s is not one that charl knows",
                       (int)(length < 100 ? length : 100), *entry);
        }
    }
}

/* The first of these variables that is a number of at least `least`, else `fallback`. */
static int number_of(const char *const *names, size_t count, int least, int fallback)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = getenv(names[i]);
        const int n = value && value[0] ? atoi(value) : least - 1;

        if (n >= least) {
            return n;
        }
    }
    return fallback;
}

int charl_launcher_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

    return number_of(names, sizeof names / sizeof *names, 0, 0);
}

int charl_launcher_size(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

    return number_of(names, sizeof names / sizeof *names, 1, 1);
}

charl_status charl_environment_check(void)
{
    charl__fault_rank_set(charl_launcher_rank());
    for (int i = 0; i < CHARL_ENV_COUNT; i++) {
        const char *value = charl__env((charl__env_id)i);

        if (value) {
            CHARL_TRY(check_value((charl__env_id)i, value));
        }
    }
    warn_unknown();
    return CHARL_OK;
}

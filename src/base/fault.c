/* A small table of rules, protected by a mutex; `active` avoids the mutex in programs
 * without faults. */
#include "base/fault.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numeric/tree.h"
#include "charl/text.h"

enum { MAX_RULES = 16, POINT_BYTES = 48, ANY_RANK = -1 };

typedef enum { WHEN_ONCE, WHEN_FROM, WHEN_ALWAYS } when_kind;

typedef struct rule {
    char point[POINT_BYTES];
    int rank;
    when_kind when;
    int64_t nth;
    int64_t arg;
} rule;

typedef struct rule_set {
    rule rules[MAX_RULES];
    int count;
    int64_t alloc_nth;
} rule_set;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static rule_set current;
/* Passes by rule and rank, because several ranks may be threads of this process. */
static int64_t passed[MAX_RULES][CHARL_MAX_SLICES];
static bool has_happened[MAX_RULES];
static int own_rank;
static _Thread_local int thread_rank = ANY_RANK;
static atomic_bool active;
static atomic_bool malformed;

static bool parse_integer(const char **s, int64_t *out)
{
    char *end = NULL;
    long long v;

    if (!isdigit((unsigned char)**s) && **s != '-') {
        return false;
    }
    errno = 0;
    v = strtoll(*s, &end, 10);
    if (errno != 0 || end == *s) {
        return false;
    }
    *s = end;
    *out = (int64_t)v;
    return true;
}

static charl_status parse_point(const char **s, rule *r)
{
    const char *begin = *s;
    size_t length = 0;
    int64_t rank = ANY_RANK;

    while (isalnum((unsigned char)begin[length]) || (begin[length] && strchr("._-", begin[length]))) {
        length++;
    }
    CHARL_REQUIRE(length > 0 && length < POINT_BYTES, CHARL_ERR_CONFIG,
                  "fault specification: a point's name has 1 to %d characters, at \"%.40s\"", POINT_BYTES - 1, begin);
    memcpy(r->point, begin, length);
    r->point[length] = '\0';
    *s += length;
    if (**s == '@') {
        (*s)++;
        CHARL_REQUIRE(parse_integer(s, &rank) && rank >= 0 && rank <= INT32_MAX, CHARL_ERR_CONFIG,
                      "fault specification: %s@ must be followed by a rank", r->point);
    }
    r->rank = (int)rank;
    return CHARL_OK;
}

static charl_status parse_rule(const char **s, rule *r)
{
    CHARL_TRY(parse_point(s, r));
    CHARL_REQUIRE(**s == ':', CHARL_ERR_CONFIG, "fault specification: %s must be followed by :when (N, N+ or *)",
                  r->point);
    (*s)++;
    if (**s == '*') {
        (*s)++;
        r->when = WHEN_ALWAYS;
    } else {
        CHARL_REQUIRE(parse_integer(s, &r->nth) && r->nth > 0, CHARL_ERR_CONFIG,
                      "fault specification: %s: expected N, N+ or *, N from 1", r->point);
        if (**s == '+') {
            (*s)++;
            r->when = WHEN_FROM;
        }
    }
    if (**s == ':') {
        (*s)++;
        CHARL_REQUIRE(parse_integer(s, &r->arg), CHARL_ERR_CONFIG,
                      "fault specification: %s: the argument must be an integer", r->point);
    }
    CHARL_REQUIRE(**s == '\0' || **s == ',', CHARL_ERR_CONFIG, "fault specification: %s: \"%.40s\" is left over",
                  r->point, *s);
    return CHARL_OK;
}

static charl_status parse_set(const char *spec, rule_set *set)
{
    const char *s = spec;

    while (*s != '\0') {
        rule r = {.rank = ANY_RANK};

        CHARL_TRY(parse_rule(&s, &r));
        if (strcmp(r.point, "alloc") == 0) {
            CHARL_REQUIRE(r.when == WHEN_ONCE && r.rank == ANY_RANK, CHARL_ERR_CONFIG,
                          "fault specification: alloc takes a plain number, as in alloc:17");
            set->alloc_nth = r.nth;
        } else {
            CHARL_REQUIRE(set->count < MAX_RULES, CHARL_ERR_CONFIG, "fault specification: more than %d rules",
                          MAX_RULES);
            set->rules[set->count++] = r;
        }
        if (*s == ',') {
            s++;
            CHARL_REQUIRE(*s != '\0', CHARL_ERR_CONFIG, "fault specification ends in a comma");
        }
    }
    return CHARL_OK;
}

static void install(const rule_set *set)
{
    pthread_mutex_lock(&lock);
    current = *set;
    memset(passed, 0, sizeof passed[0] * (size_t)set->count);
    memset(has_happened, 0, sizeof has_happened);
    atomic_store(&active, set->count > 0);
    pthread_mutex_unlock(&lock);
    if (set->alloc_nth > 0) {
        charl__fault_after((long)set->alloc_nth);
    }
}

static void load_environment(void)
{
    const char *spec = charl__env(CHARL_ENV_FAULT);
    rule_set set = {0};

    if (spec) {
        if (parse_set(spec, &set) == CHARL_OK) {
            install(&set);
        } else {
            atomic_store(&malformed, true);
        }
    }
}

void charl__fault_load(void)
{
    pthread_once(&once, load_environment);
    /* Not inside pthread_once: a sink may allocate and so call this again. */
    if (atomic_load(&malformed) && atomic_exchange(&malformed, false)) {
        charl__log(CHARL_LOG_ERROR, "CHARL_FAULT is malformed and ignored: %s", charl__env(CHARL_ENV_FAULT));
    }
}

charl_status charl_fault_add(const char *rules)
{
    CHARL_GIVEN(rules);
    rule_set set;

    charl__fault_load();
    set = current;
    set.alloc_nth = 0;
    CHARL_TRY(parse_set(rules, &set));
    install(&set);
    return CHARL_OK;
}

charl_status charl__fault_set(const char *spec)
{
    rule_set set = {0};

    pthread_once(&once, load_environment); /* so that the environment does not override this later */
    atomic_store(&malformed, false);       /* the caller learns what is wrong, or replaces it */
    CHARL_TRY(parse_set(spec ? spec : "", &set));
    install(&set);
    return CHARL_OK;
}

void charl__fault_rank_set(int rank)
{
    pthread_mutex_lock(&lock);
    own_rank = rank >= 0 && rank < CHARL_MAX_SLICES ? rank : 0;
    pthread_mutex_unlock(&lock);
}

void charl__fault_thread_rank_set(int rank)
{
    thread_rank = rank;
}

static bool fires(rule *r)
{
    const int rank = thread_rank != ANY_RANK ? thread_rank : own_rank;
    int64_t times;

    if (r->rank != ANY_RANK && r->rank != rank) {
        return false;
    }
    times = ++passed[r - current.rules][rank];
    return r->when == WHEN_ALWAYS || (r->when == WHEN_ONCE && times == r->nth) ||
           (r->when == WHEN_FROM && times >= r->nth);
}

bool charl__fault_any(void)
{
    charl__fault_load();
    return atomic_load(&active);
}

bool charl__fault_arg(const char *point, int64_t *arg)
{
    bool hit = false, is_first = false;

    if (!charl__fault_any()) {
        return false;
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < current.count; i++) {
        rule *r = &current.rules[i];

        if (strcmp(r->point, point) == 0 && fires(r) && !hit) {
            hit = true;
            *arg = r->arg;
            is_first = !has_happened[i];
            has_happened[i] = true;
        }
    }
    pthread_mutex_unlock(&lock);
    if (is_first) {
        charl__log(CHARL_LOG_INFO, "fault %s", point);
    }
    return hit;
}

bool charl__fault(const char *point)
{
    int64_t arg;

    return charl__fault_arg(point, &arg);
}

/* The effects of a fault on its process; `arg` is the rule's argument. */
static charl_status fault_kill(int64_t arg)
{
    (void)arg;
    raise(SIGKILL);
    return CHARL_OK;
}

static charl_status fault_stop(int64_t arg)
{
    (void)arg;
    raise(SIGSTOP);
    return CHARL_OK;
}

static charl_status fault_segv(int64_t arg)
{
    (void)arg;
    signal(SIGSEGV, SIG_DFL); /* handlers of drivers and sanitizers print a lot */
    raise(SIGSEGV);
    return CHARL_OK;
}

static charl_status fault_raise(int64_t arg)
{
    kill(getpid(), (int)arg); /* not this thread, which may block what another one waits for */
    return CHARL_OK;
}

static charl_status fault_hang(int64_t arg)
{
    const double seconds = arg > 0 ? (double)arg : 3600.0;

    charl__clock_nap_s(seconds, seconds);
    return CHARL_OK;
}

static charl_status fault_spin(int64_t arg)
{
    const double until = charl__clock_s() + (arg > 0 ? (double)arg : 3600.0);

    while (charl__clock_s() < until) {
    }
    return CHARL_OK;
}

/* Without what exit() does first, which simulated ranks, other threads of this process, would run into. */
static charl_status fault_exit(int64_t arg)
{
    fflush(NULL);
    _exit((int)arg);
}

static charl_status fault_fail(int64_t arg)
{
    (void)arg;
    CHARL_FAIL(CHARL_ERR_DEVICE, "the device fails on purpose");
}

static const struct {
    const char *name;
    charl_status (*happen)(int64_t arg);
} faults[] = {{"kill", fault_kill}, {"stop", fault_stop}, {"segv", fault_segv}, {"raise", fault_raise},
              {"hang", fault_hang}, {"spin", fault_spin}, {"exit", fault_exit}, {"fail", fault_fail}};

static const char *const weight_faults[] = {"flip", "flip_gradient", "flip_sum", "nan"}; /* parallel/phase.c */

static const char *const points[] = {
#define POINT(name) name,
#define PLACE(name, weights)
#include "base/fault_points.def"
#undef POINT
#undef PLACE
};

static const struct {
    const char *name;
    bool weights;
} places[] = {
#define POINT(name)
#define PLACE(name, weights) {name, weights},
#include "base/fault_points.def"
#undef POINT
#undef PLACE
};

enum {
    POINTS = sizeof points / sizeof *points,
    PLACES = sizeof places / sizeof *places,
    FAULTS = sizeof faults / sizeof *faults,
    WEIGHT_FAULTS = sizeof weight_faults / sizeof *weight_faults,
};

/* The name i = 0, 1, ... of a fault point; false past the last. Names that cannot fire are "". */
static bool name_of(int i, char text[POINT_BYTES])
{
    const int place = (i - POINTS) / (FAULTS + WEIGHT_FAULTS), fault = (i - POINTS) % (FAULTS + WEIGHT_FAULTS);

    text[0] = '\0';
    if (i < POINTS) {
        snprintf(text, POINT_BYTES, "%s", points[i]);
    } else if (place < PLACES && (fault < FAULTS || places[place].weights)) {
        snprintf(text, POINT_BYTES, "%s.%s", places[place].name,
                 fault < FAULTS ? faults[fault].name : weight_faults[fault - FAULTS]);
    }
    return i < POINTS || place < PLACES;
}

/* The families of points, for names that are close to none. */
static void list_points(char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "the points are alloc");

    for (int i = 0; i < POINTS + PLACES && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, i < POINTS ? ", %s" : ", %s.FAULT",
                                 i < POINTS ? points[i] : places[i - POINTS].name);
    }
}

static charl_status check_point(const char *point)
{
    char name[POINT_BYTES], nearest[POINT_BYTES] = "", list[2048];
    int best = INT_MAX;

    for (int i = 0; name_of(i, name); i++) {
        if (strcmp(name, point) == 0) {
            return CHARL_OK;
        }
        if (name[0] && charl_text_closer(point, name, &best)) {
            memcpy(nearest, name, sizeof nearest);
        }
    }
    list_points(list, sizeof list);
    CHARL_FAIL(CHARL_ERR_CONFIG, "CHARL_FAULT: there is no point %s; HINT %s%s%s", point,
               nearest[0] ? "did you mean " : "", nearest[0] ? nearest : list,
               nearest[0] ? "? docs/env.md lists the points" : "");
}

charl_status charl_fault_check(void)
{
    charl_status st = CHARL_OK;

    charl__fault_load();
    pthread_mutex_lock(&lock);
    for (int i = 0; i < current.count && st == CHARL_OK; i++) {
        st = check_point(current.rules[i].point);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

/* Whether any rank of this process has passed the point of rule i. */
static bool is_passed(int i)
{
    bool any = false;

    for (int rank = 0; rank < CHARL_MAX_SLICES; rank++) {
        any = any || passed[i][rank] > 0;
    }
    return any;
}

static charl_status finish(int i, int ranks, bool is_team)
{
    const rule *r = &current.rules[i];
    const bool is_here = r->rank == ANY_RANK || is_team || r->rank == own_rank;

    if (r->when == WHEN_ALWAYS) { /* a condition, not an event */
        return CHARL_OK;
    }
    CHARL_REQUIRE(r->rank < ranks, CHARL_ERR_CONFIG,
                  "CHARL_FAULT: %s@%d never happened: this job has %d rank%s, numbered from 0", r->point, r->rank,
                  ranks, ranks == 1 ? "" : "s");
    CHARL_REQUIRE(!is_here || is_passed(i), CHARL_ERR_CONFIG,
                  "CHARL_FAULT: %s never happened: nothing in this run passes that point; HINT docs/env.md lists the "
                  "points",
                  r->point);
    return CHARL_OK;
}

charl_status charl_fault_finish(int ranks, bool is_team)
{
    charl_status st = CHARL_OK;

    charl__fault_load();
    pthread_mutex_lock(&lock);
    for (int i = 0; i < current.count && st == CHARL_OK; i++) {
        st = finish(i, ranks, is_team);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

charl_status charl_fault(const char *point)
{
    CHARL_GIVEN(point);
    char name[POINT_BYTES];

    for (size_t i = 0; charl__fault_any() && i < sizeof faults / sizeof *faults; i++) {
        int64_t arg = 0;

        if (snprintf(name, sizeof name, "%s.%s", point, faults[i].name) < POINT_BYTES && charl__fault_arg(name, &arg)) {
            CHARL_TRY(faults[i].happen(arg));
        }
    }
    return CHARL_OK;
}

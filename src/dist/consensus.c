/* Facts are sent as text, one after another: status, label, value, note and hint, each with its NUL.
 *
 * The ranks first reduce a digest of labels and values to its minimum and maximum, and stop if these are equal.
 * Otherwise each receives the text of all ranks, so that all of them compose the same message. */
#include "dist/consensus.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "dist/comm_private.h"

enum {
    WORDS = CHARL__SHA256_BYTES / 8,
    PARTS = 5,
    SHOWN_VALUE = 120,
    SHOWN_RANKS = 3,
    SHOWN_LABELS = 5,
    SENTENCE = 1536
};

/* The facts of a rank, and the position of the last one found: ranks list them in the same order. */
typedef struct fact_list {
    const char *begin, *end, *next;
} fact_list;

charl_status charl__consensus_add(charl__consensus *c, const charl__fact *fact)
{
    charl_status st = CHARL_OK;
    const char status[2] = {(char)('A' + (int)fact->status), '\0'};
    const char *parts[PARTS] = {status, fact->label, fact->value, fact->note, fact->hint};
    const size_t before = c->facts.length;

    for (int i = 0; i < PARTS && st == CHARL_OK; i++) {
        const char *part = parts[i] ? parts[i] : "";

        st = charl__text_append(&c->facts, part, strlen(part) + 1);
    }
    if (st != CHARL_OK) { /* no halves */
        c->facts.length = before;
    }
    return st;
}

charl_status charl__consensus_print(charl__consensus *c, const charl__fact *form, const char *label, const char *fmt,
                                    ...)
{
    charl__fact fact = *form;
    char value[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    fact.label = label;
    fact.value = value;
    return charl__consensus_add(c, &fact);
}

void charl__consensus_fini(charl__consensus *c)
{
    charl__text_fini(&c->facts);
}

/* Parse the fact at *at, and advance *at to the next one. false at the end. */
static bool read_fact(const char **at, const char *end, charl__fact *out)
{
    const char *part[PARTS];
    const char *p = *at;

    for (int i = 0; i < PARTS; i++) {
        const char *nul = p < end ? memchr(p, '\0', (size_t)(end - p)) : NULL;

        if (!nul) {
            return false;
        }
        part[i] = p;
        p = nul + 1;
    }
    *out = (charl__fact){(charl_status)(part[0][0] - 'A'), part[1], part[2], part[3], part[4]};
    *at = p;
    return true;
}

static bool find_between(fact_list *l, const char *from, const char *to, const char *label, charl__fact *out)
{
    while (from < to && read_fact(&from, l->end, out)) {
        if (strcmp(out->label, label) == 0) {
            l->next = from;
            return true;
        }
    }
    return false;
}

static bool find_fact(fact_list *l, const char *label, charl__fact *out)
{
    const char *next = l->next;

    return find_between(l, next, l->end, label, out) || find_between(l, l->begin, next, label, out);
}

/* SHA-256 of labels and values. */
static void digest(const charl__consensus *c, int64_t out[WORDS])
{
    const char *at = charl__text_string(&c->facts);
    const char *end = at + c->facts.length;
    unsigned char bytes[CHARL__SHA256_BYTES];
    charl__sha256 sha;
    charl__fact fact;

    charl__sha256_init(&sha);
    while (read_fact(&at, end, &fact)) {
        charl__sha256_update(&sha, fact.label, strlen(fact.label) + 1);
        charl__sha256_update(&sha, fact.value, strlen(fact.value) + 1);
    }
    charl__sha256_final(&sha, bytes);
    memcpy(out, bytes, sizeof bytes);
}

/* Equal values of one fact: the ranks that have it, by the lowest one. */
typedef struct group {
    int first, count;
} group;

/* Group the ranks by their values of a fact, fact[r].value NULL where a rank has none; a group of more
 * than half of the ranks comes last. Returns the number of groups. */
static int divide(const charl__fact *fact, int size, group *groups, int *group_of, bool *is_majority)
{
    int n = 0, largest = 0;

    for (int r = 0; r < size; r++) {
        int k = 0;

        while (k < n &&
               !(fact[r].value && fact[groups[k].first].value ? strcmp(fact[r].value, fact[groups[k].first].value) == 0
                                                              : fact[r].value == fact[groups[k].first].value)) {
            k++;
        }
        if (k == n) {
            groups[n++] = (group){.first = r};
        }
        groups[k].count++;
        group_of[r] = k;
        largest = groups[k].count > groups[largest].count ? k : largest;
    }
    *is_majority = 2 * groups[largest].count > size;
    if (*is_majority) {
        const group last = groups[largest];

        for (int k = largest; k < n - 1; k++) {
            groups[k] = groups[k + 1];
        }
        groups[n - 1] = last;
        for (int r = 0; r < size; r++) {
            group_of[r] = group_of[r] == largest ? n - 1 : group_of[r] - (group_of[r] > largest);
        }
    }
    return n;
}

/* "rank 1 of 8 (gpu07, pid 77), rank 2 of 8 (gpu07, pid 78) and 3 more ranks have". */
static charl_status name_group(const charl_comm *comm, const int *group_of, int k, int count, charl__text *out)
{
    char name[160];
    int shown = 0;

    for (int r = 0; r < comm->size && shown < SHOWN_RANKS; r++) {
        if (group_of[r] == k) {
            CHARL_TRY(
                charl__text_printf(out, "%s%s", shown > 0 ? ", " : "", charl__peer_name(comm, r, name, sizeof name)));
            shown++;
        }
    }
    if (count > shown) {
        CHARL_TRY(charl__text_printf(out, " and %d more rank%s", count - shown, count - shown == 1 ? "" : "s"));
    }
    CHARL_TRY(charl__text_printf(out, count == 1 ? " has" : " have"));
    return CHARL_OK;
}

static charl_status show_value(const charl__fact *fact, const char *label, charl__text *out)
{
    if (!fact->value) {
        CHARL_TRY(charl__text_printf(out, label ? " no %s" : " none", label));
    } else {
        const bool is_long = strlen(fact->value) > SHOWN_VALUE;

        CHARL_TRY(charl__text_printf(out, " %s%s%.*s%s", label ? label : "", label ? " = " : "", SHOWN_VALUE,
                                     fact->value[0] ? fact->value : "(empty)", is_long ? "..." : ""));
        if (fact->note[0]) {
            CHARL_TRY(charl__text_printf(out, " (%.200s)", fact->note));
        }
    }
    return CHARL_OK;
}

/* One fact that differs; fact[r] is rank r's. */
static charl_status explain(const charl_comm *comm, const char *label, const charl__fact *fact, charl__text *out)
{
    CHARL_SCOPED_FREE group *groups = NULL;
    CHARL_SCOPED_FREE int *group_of = NULL;
    int n;
    bool is_majority;

    CHARL_TRY(charl__alloc_array(comm->size, sizeof *groups, &groups));
    CHARL_TRY(charl__alloc_array(comm->size, sizeof *group_of, &group_of));
    n = divide(fact, comm->size, groups, group_of, &is_majority);
    for (int k = 0; k < n; k++) {
        CHARL_TRY(charl__text_printf(out, "%s", k > 0 ? ", " : ""));
        if (is_majority && k == n - 1) {
            CHARL_TRY(charl__text_printf(out, "the other %d ranks have", groups[k].count));
        } else {
            CHARL_TRY(name_group(comm, group_of, k, groups[k].count, out));
        }
        CHARL_TRY(show_value(&fact[groups[k].first], k == 0 ? label : NULL, out));
    }
    return CHARL_OK;
}

/* A list whose message equals the previous one's adds nothing. */
static bool is_repeated(const fact_list *list, int r)
{
    const size_t n = (size_t)(list[r].end - list[r].begin);

    return r > 0 && (size_t)(list[r - 1].end - list[r - 1].begin) == n &&
           memcmp(list[r].begin, list[r - 1].begin, n) == 0;
}

/* The differences of the ranks' lists in one sentence, and the status and hint of the first. fact: room for one of every rank. */
static charl_status compare_lists(const charl_comm *comm, fact_list *list, charl__fact *fact, charl_status *code,
                                  const char **hint, charl__text *out)
{
    charl__fact own;
    int found = 0;

    for (int r = 0; r < comm->size; r++) {
        if (is_repeated(list, r)) {
            continue;
        }
        for (const char *at = list[r].begin; read_fact(&at, list[r].end, &own);) {
            bool differs = false, is_known = false;

            for (int q = 0; q < comm->size; q++) {
                if (!find_fact(&list[q], own.label, &fact[q])) {
                    fact[q] = (charl__fact){.value = NULL};
                }
                is_known = is_known || (q < r && fact[q].value);
                differs = differs || !fact[q].value || strcmp(fact[q].value, own.value) != 0;
            }
            if (!differs || is_known) {
                continue;
            }
            found++;
            if (found == 1) {
                *code = own.status;
                *hint = own.hint;
                CHARL_TRY(explain(comm, own.label, fact, out));
            } else if (found <= SHOWN_LABELS) {
                CHARL_TRY(charl__text_printf(out, "%s%s", found == 2 ? "; also different: " : ", ", own.label));
            }
        }
    }
    if (found > SHOWN_LABELS) {
        CHARL_TRY(charl__text_printf(out, " and %d more", found - SHOWN_LABELS));
    }
    return CHARL_OK;
}

/* The ranks' facts are not equal: gather all of them and fail with what differs. */
static charl_status fail_different(const charl__consensus *c, charl_comm *comm)
{
    charl_status st = CHARL_OK;
    charl_status code = CHARL_ERR_INVALID;
    const int64_t own = (int64_t)c->facts.length;
    fact_list *list = NULL;
    charl__fact *fact = NULL;
    charl__text sentence = {0};
    const char *hint = "";
    char *texts = NULL;
    int64_t most = own > 0 ? own : 1, *bytes = NULL;

    CHARL_TRY_CLEANUP(charl_comm_reduce_i64(comm, CHARL_COMM_MAX, &most, 1));
    st = charl__alloc_array(comm->size, (size_t)most, &texts);
    st = st == CHARL_OK ? charl__alloc_array(comm->size, sizeof *bytes, &bytes) : st;
    st = st == CHARL_OK ? charl__alloc_array(comm->size, sizeof *list, &list) : st;
    st = st == CHARL_OK ? charl__alloc_array(comm->size, sizeof *fact, &fact) : st;
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
    CHARL_TRY_CLEANUP(charl_comm_allgather(comm, &own, sizeof own, bytes));
    memcpy(texts + comm->rank * most, charl__text_string(&c->facts), c->facts.length);
    CHARL_TRY_CLEANUP(charl_comm_allgather(comm, texts + comm->rank * most, (size_t)most, texts));
    for (int r = 0; r < comm->size; r++) {
        list[r].begin = list[r].next = texts + r * most;
        list[r].end = list[r].begin + bytes[r];
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, compare_lists(comm, list, fact, &code, &hint, &sentence)));
    CHARL_FAIL_CLEANUP(code, "%.*s%s%s", SENTENCE,
                       sentence.length > 0 ? charl__text_string(&sentence) : "the order of facts differs",
                       hint[0] ? "; HINT " : "", hint);
cleanup:
    charl__text_fini(&sentence);
    charl_free(texts);
    charl_free(bytes);
    charl_free(list);
    charl_free(fact);
    return st;
}

charl_status charl__consensus_reach(charl__consensus *c, charl_status mine, charl_comm *comm)
{
    int64_t v[1 + 2 * WORDS] = {mine != CHARL_OK}; /* then the largest digest, and the complement of the smallest */
    bool differ = false;

    if (comm->size == 1 || (comm->is_broken && mine != CHARL_OK)) {
        return mine; /* no others, or none that could be asked */
    }
    digest(c, v + 1);
    for (int i = 0; i < WORDS; i++) {
        v[1 + WORDS + i] = ~v[1 + i];
    }
    CHARL_TRY(charl_comm_reduce_i64(comm, CHARL_COMM_MAX, v, 1 + 2 * WORDS));
    for (int i = 0; i < WORDS; i++) {
        differ = differ || v[1 + i] != ~v[1 + WORDS + i];
    }
    if (v[0] > 0) {
        CHARL_TRY(charl_comm_agree(comm, mine));
    }
    if (differ) {
        CHARL_TRY(charl__comm_agreed(comm, fail_different(c, comm)));
    }
    return CHARL_OK;
}

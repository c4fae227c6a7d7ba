/* Files of checksums: read, and compared line by line. */
#include "train/checksums.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "io/regular.h"

static bool is_whole(const charl__text *sums)
{
    const char *text = charl__text_string(sums);

    return strncmp(text, CHARL__CHECKSUMS_HEAD, strlen(CHARL__CHECKSUMS_HEAD)) == 0 &&
           charl__ends_in(text, "\n" CHARL__CHECKSUMS_END) && strlen(text) == sums->length;
}

bool charl__checksums_is(const char *path)
{
    CHARL_SCOPED(charl__file_left) FILE *f = fopen(path, "re");
    char head[sizeof CHARL__CHECKSUMS_HEAD] = "";

    return f && fgets(head, sizeof head, f) && strcmp(head, CHARL__CHECKSUMS_HEAD) == 0;
}

charl_status charl__checksums_read(const char *path, charl__text *sums)
{
    CHARL_TRY(charl__regular_read_all(path, INT64_MAX / 2, sums));
    CHARL_REQUIRE(
        is_whole(sums), CHARL_ERR_CHECKPOINT,
        "%s is neither a run directory, a configuration nor a whole file of checksums; HINT `charl replay --checksums "
        "FILE` writes one",
        path);
    sums->length -= strlen(CHARL__CHECKSUMS_END);
    sums->data[sums->length] = '\0';
    return CHARL_OK;
}

/* A line of checksums: its first word, and the rest. */
typedef struct line {
    const char *at, *next;
    int length;
} line;

static line line_at(const char *at)
{
    const int length = (int)strcspn(at, "\n");

    return (line){at, at + length + (at[length] == '\n'), length};
}

static bool is_same(const line *a, const line *b)
{
    return a->length == b->length && memcmp(a->at, b->at, (size_t)a->length) == 0;
}

static bool is_kind(const line *l, const char *kind)
{
    const int n = (int)strlen(kind);

    return l->length > n && strncmp(l->at, kind, (size_t)n) == 0 && l->at[n] == ' ';
}

/* The second word. */
static void name_of(const line *l, char *text, size_t size)
{
    const int first = (int)strcspn(l->at, " \n");
    const int n = l->at[first] == ' ' ? (int)strcspn(l->at + first + 1, " \n") : 0;

    snprintf(text, size, "%.*s", n, l->at + first + 1);
}

/* Lines of one kind in a step of both, from where they stand. */
typedef struct counts {
    int64_t lines, differing;
    char first[512], last[512]; /* names of those that differ */
} counts;

/* The first line of a kind from `at` to the end of the step; length 0: there is none. */
static line find_kind(const char *at, const char *kind)
{
    line l = line_at(at);

    while (l.length > 0 && !is_kind(&l, kind) && !is_kind(&l, "step")) {
        l = line_at(l.next);
    }
    return is_kind(&l, kind) ? l : (line){at, at, 0};
}

static counts count(const char *a, const char *b, const char *kind)
{
    counts t = {0};
    line x = find_kind(a, kind), y = find_kind(b, kind);

    for (; x.length > 0 || y.length > 0; x = find_kind(x.next, kind), y = find_kind(y.next, kind)) {
        t.lines++;
        if (!is_same(&x, &y)) { /* also if one of them has fewer */
            t.differing++;
            name_of(x.length > 0 ? &x : &y, t.last, sizeof t.last);
            if (t.differing == 1) {
                memcpy(t.first, t.last, sizeof t.first);
            }
        }
    }
    return t;
}

static const struct {
    const char *kind, *words, *which;
    charl_bisect_what what;
} kinds[] = {
    {"lr", "the learning rate", "", CHARL_BISECT_RATE},
    {"row", "the rows of the step", "the first at index", CHARL_BISECT_ROWS},
    {"sample", "the losses of samples", "the first at index", CHARL_BISECT_SAMPLES},
    {"loss", "the loss of the batch", "", CHARL_BISECT_LOSS},
    {"gradient", "gradients", "nearest to the loss, and so computed first,", CHARL_BISECT_GRADIENTS},
    {"weight", "weights after the step", "the first", CHARL_BISECT_WEIGHTS},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Report what differs in the step that begins at x and y, and how much. */
static charl_status tell_step(const char *x, const char *y, charl_bisect_result *out, charl__text *told)
{
    for (int k = 0; k < KINDS; k++) {
        const counts t = count(x, y, kinds[k].kind);

        if (t.differing == 0) {
            continue;
        }
        if (out->what == CHARL_BISECT_NOTHING) {
            out->what = kinds[k].what;
            /* the gradient nearest to the loss is computed first */
            snprintf(out->name, sizeof out->name, "%s", out->what == CHARL_BISECT_GRADIENTS ? t.last : t.first);
        }
        CHARL_TRY(charl__text_printf(told, "  %s", kinds[k].words));
        if (t.lines > 1) {
            CHARL_TRY(charl__text_printf(told, ": %" PRId64 " of %" PRId64 ", %s %s", t.differing, t.lines,
                                         kinds[k].which, kinds[k].what == CHARL_BISECT_GRADIENTS ? t.last : t.first));
        }
        CHARL_TRY(charl__text_printf(told, "\n"));
    }
    return CHARL_OK;
}

static charl_status tell_start(const char *x, const char *y, charl_bisect_result *out, charl__text *told)
{
    const counts t = count(x, y, "weight");

    out->what = CHARL_BISECT_START;
    snprintf(out->name, sizeof out->name, "%s", t.first);
    return charl__text_printf(
        told, "the runs begin with different weights: %" PRId64 " of %" PRId64 " tensors, from %s to %s\n", t.differing,
        t.lines, t.first, t.last);
}

static int64_t number_of(const line *l)
{
    char text[32];

    name_of(l, text, sizeof text);
    return strtoll(text, NULL, 10);
}

void charl__checksums_range(const char *sums, int64_t *start, int64_t *last)
{
    line l = line_at(line_at(sums).next);

    *start = *last = number_of(&l);
    for (; l.length > 0; l = line_at(l.next)) {
        *last = is_kind(&l, "step") ? number_of(&l) : *last;
    }
}

charl_status charl__checksums_compare(const charl__checksums_side sides[2], charl_bisect_result *out, charl__text *told)
{
    const char *const a = sides[0].sums, *const b = sides[1].sums;
    const char *step_x = NULL, *step_y = NULL;
    line x = line_at(a), y = line_at(b);

    for (; x.length > 0 && y.length > 0; x = line_at(x.next), y = line_at(y.next)) {
        if (is_kind(&x, "start") && !is_same(&x, &y)) {
            CHARL_FAIL(CHARL_ERR_CONFIG,
                       "%s begins after step %" PRId64 ", %s after step %" PRId64 ": they cannot be compared",
                       sides[0].path, number_of(&x), sides[1].path, number_of(&y));
        }
        if (is_kind(&x, "step") && is_same(&x, &y)) {
            out->step = number_of(&x);
            step_x = x.next;
            step_y = y.next;
        } else if (!is_same(&x, &y) && step_x) {
            CHARL_TRY(charl__text_printf(
                told, "the runs diverge in step %" PRId64 ". What differs, in the order of computation:\n", out->step));
            return tell_step(step_x, step_y, out, told);
        } else if (!is_same(&x, &y)) { /* below the head and the step */
            return tell_start(line_at(line_at(a).next).next, line_at(line_at(b).next).next, out, told);
        }
    }
    if (x.length > 0 || y.length > 0) { /* one of the runs was not finite, or fewer steps of it were replayed */
        CHARL_TRY(charl__text_printf(told, "%s ends with step %" PRId64 ", %s continues\n", sides[x.length > 0].path,
                                     out->step, sides[x.length == 0].path));
    }
    return CHARL_OK;
}

/* Multiple-choice questions and prompts from files of lines. */
#include "data/questions.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "data/import/import_lines.h"

void charl__questions_fini(charl__questions *q)
{
    for (int64_t i = 0; i < q->count; i++) {
        for (int k = 0; q->items[i].endings && k < q->items[i].n; k++) {
            charl_free(q->items[i].endings[k]);
        }
        charl_free(q->items[i].endings);
        charl_free(q->items[i].context);
    }
    charl_free(q->items);
    *q = (charl__questions){0};
}

void charl__prompts_fini(charl__prompts *p)
{
    for (int64_t i = 0; i < p->count; i++) {
        charl_free(p->items[i]);
    }
    charl_free(p->items);
    *p = (charl__prompts){0};
}

static charl_status add_prompt(charl__prompts *p, const char *where, const char *text, size_t n)
{
    char *copy = NULL;

    CHARL_REQUIRE(!memchr(text, '\0', n), CHARL_ERR_DATA, "%s: a prompt has no NUL byte", where);
    CHARL_TRY(charl__grow(p->count, sizeof *p->items, &p->items));
    CHARL_TRY(charl__alloc(n + 1, &copy));
    memcpy(copy, text, n);
    p->items[p->count++] = copy;
    return CHARL_OK;
}

static charl_status add_text_prompt(void *ctx, charl__lines *l)
{
    return add_prompt(ctx, charl__lines_place(l), l->line.data, l->line.length);
}

static charl_status add_json_prompt(void *ctx, charl__lines *l);

charl_status charl__prompts_read(const char *path, charl__prompts *out)
{
    const bool json = charl__lines_are_json(path);

    *out = (charl__prompts){0};
    CHARL_TRY(charl__lines_each(path, json, json ? add_json_prompt : add_text_prompt, out));
    CHARL_REQUIRE(out->count > 0, CHARL_ERR_DATA, "%s has no prompts", path);
    return CHARL_OK;
}

enum { MOST = 64 };

/* The texts of a JSON list into q. */
static charl_status read_endings(const json_t *list, const char *where, charl__question *q)
{
    const size_t n = json_array_size(list);

    CHARL_REQUIRE(json_is_array(list) && n >= 2 && n <= MOST, CHARL_ERR_DATA,
                  "%s: there must be a list of 2 to %d choices", where, MOST);
    CHARL_TRY(charl__alloc_array((int64_t)n, sizeof *q->endings, &q->endings));
    q->n = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);

        CHARL_REQUIRE(json_is_string(v) && json_string_length(v) > 0, CHARL_ERR_DATA, "%s: choice %zu is not a text",
                      where, i + 1);
        CHARL_TRY(charl__strdup(json_string_value(v), &q->endings[i]));
    }
    return CHARL_OK;
}

/* {"ctx": "...", "endings": [...], "label": 2}; the label may be a text */
static charl_status read_hellaswag(const json_t *object, const char *where, charl__question *q)
{
    const json_t *context = json_object_get(object, "ctx"), *label = json_object_get(object, "label");
    long long answer = json_is_integer(label) ? (long long)json_integer_value(label) : -1;
    char extra;

    CHARL_REQUIRE(json_is_string(context) && json_string_length(context) > 0, CHARL_ERR_DATA,
                  "%s: \"ctx\" is not a text", where);
    CHARL_TRY(charl__strdup(json_string_value(context), &q->context));
    CHARL_TRY(read_endings(json_object_get(object, "endings"), where, q));
    if (json_is_string(label) && sscanf(json_string_value(label), "%lld%c", &answer, &extra) != 1) {
        answer = -1;
    }
    CHARL_REQUIRE(answer >= 0 && answer < q->n, CHARL_ERR_DATA, "%s: \"label\" is not the number of a choice, 0 to %d",
                  where, q->n - 1);
    q->answer = (int)answer;
    return CHARL_OK;
}

/* {"question": "...", "choices": {"text": [...], "label": [...]}, "answerKey": "B"} */
static charl_status read_arc(const json_t *object, const char *where, charl__question *q)
{
    const json_t *question = json_object_get(object, "question"), *choices = json_object_get(object, "choices");
    const json_t *labels = json_object_get(choices, "label"), *key = json_object_get(object, "answerKey");
    CHARL_SCOPED(charl__text_fini) charl__text context = {0};

    CHARL_REQUIRE(json_is_string(question) && json_string_length(question) > 0, CHARL_ERR_DATA,
                  "%s: \"question\" is not a text", where);
    CHARL_TRY(charl__text_printf(&context, "Question: %s\nAnswer:", json_string_value(question)));
    CHARL_TRY(charl__strdup(charl__text_string(&context), &q->context));
    CHARL_TRY(read_endings(json_object_get(choices, "text"), where, q));
    q->answer = -1;
    for (int i = 0; json_is_string(key) && i < q->n; i++) {
        const json_t *label = json_array_get(labels, (size_t)i);

        if (json_is_string(label) && strcmp(json_string_value(label), json_string_value(key)) == 0) {
            q->answer = i;
        }
    }
    CHARL_REQUIRE(q->answer >= 0, CHARL_ERR_DATA, "%s: \"answerKey\" is none of the labels of \"choices\"", where);
    return CHARL_OK;
}

static charl_status add_question(void *ctx, charl__lines *l)
{
    charl__questions *out = ctx;
    const char *where = charl__lines_place(l);
    json_t *object = NULL;
    charl__question *q;

    CHARL_TRY(charl__lines_object(l, &object));
    CHARL_TRY(charl__grow(out->count, sizeof *out->items, &out->items));
    q = &out->items[out->count++];
    *q = (charl__question){.line = l->number};
    CHARL_REQUIRE(
        json_object_get(object, "endings") || json_object_get(object, "choices"), CHARL_ERR_DATA,
        "%s: neither HellaSwag's form (\"ctx\", \"endings\", \"label\") nor ARC's (\"question\", \"choices\", "
        "\"answerKey\")",
        where);
    return json_object_get(object, "endings") ? read_hellaswag(object, where, q) : read_arc(object, where, q);
}

charl_status charl__questions_read(const char *path, charl__questions *out)
{
    *out = (charl__questions){0};
    CHARL_TRY(charl__lines_each(path, true, add_question, out));
    CHARL_REQUIRE(out->count > 0, CHARL_ERR_DATA, "%s has no questions", path);
    return CHARL_OK;
}

static charl_status add_json_prompt(void *ctx, charl__lines *l)
{
    json_t *object = NULL;
    const json_t *prompt;

    CHARL_TRY(charl__lines_object(l, &object));
    prompt = json_object_get(object, "prompt");
    CHARL_REQUIRE(json_is_string(prompt) && json_string_length(prompt) > 0, CHARL_ERR_DATA,
                  "%s: \"prompt\" is not a text", charl__lines_place(l));
    return add_prompt(ctx, charl__lines_place(l), json_string_value(prompt), json_string_length(prompt));
}

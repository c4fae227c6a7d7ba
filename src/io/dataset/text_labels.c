#include "io/dataset/text_labels.h"

#include "base/alloc.h"
#include "io/dataset/dataset_write.h"
#include "io/dataset/labels.h"

charl_status charl__text_labels_add(charl__text_labels *l, const char *text)
{
    int64_t index;

    CHARL_TRY(charl__name_set_add(&l->set, text, &index));
    if (index == l->set.n - 1) {
        const char *fault = text[0] ? charl__name_fault(text) : "that is empty";

        CHARL_REQUIRE(l->set.n <= CHARL__MOST_CLASSES, CHARL_ERR_DATA,
                      "more than %d different labels are too many for classes; HINT a target that is a number needs "
                      "--regression (CSV), or an array of floating-point numbers",
                      CHARL__MOST_CLASSES);
        CHARL_REQUIRE(!fault, CHARL_ERR_DATA, "a class name %s", fault);
    }
    CHARL_TRY(charl__grow(l->n, sizeof *l->label, &l->label));
    l->label[l->n++] = (int32_t)index;
    return CHARL_OK;
}

/* Whether all labels are the numbers of their classes. */
static charl_status find_ids(charl__text_labels *l)
{
    charl_status st = CHARL_OK;
    charl__labels *ids = NULL;

    CHARL_TRY_CLEANUP(charl__alloc(sizeof *ids, &ids));
    for (int64_t i = 0; i < l->set.n; i++) {
        const int32_t id = charl__parse_class(l->set.names[i], CHARL__MOST_CLASSES);

        if (id < 0) {
            goto cleanup;
        }
        CHARL_TRY_CLEANUP(charl__labels_add(ids, id));
    }
    CHARL_TRY_CLEANUP(charl__labels_decide(ids));
    l->are_ids = !ids->are_names;
cleanup:
    if (ids) {
        charl__labels_fini(ids);
    }
    charl_free(ids);
    return st;
}

charl_status charl__text_labels_decide(charl__text_labels *l, charl__text *names)
{
    CHARL_SCOPED_FREE int64_t *order = NULL;

    if (l->may_be_ids) {
        CHARL_TRY(find_ids(l));
    }
    CHARL_TRY(charl__name_set_sort(&l->set, &order));
    CHARL_TRY(charl__alloc_array(l->set.n + 1, sizeof *l->class_of, &l->class_of));
    for (int64_t i = 0; i < l->set.n; i++) {
        const char *name = l->set.names[order[i]];

        l->class_of[order[i]] = l->are_ids ? charl__parse_class(name, CHARL__MOST_CLASSES) : (int32_t)i;
        if (!l->are_ids) {
            CHARL_TRY(charl__text_printf(names, "%s%s", i > 0 ? "\n" : "", name));
        }
    }
    for (int64_t i = 0; i < l->n; i++) {
        l->label[i] = l->class_of[l->label[i]];
    }
    return CHARL_OK;
}

int32_t charl__text_labels_find(const charl__text_labels *l, const char *text)
{
    const int64_t index = charl__name_set_find(&l->set, text);

    return index >= 0 ? l->class_of[index] : l->are_ids ? charl__parse_class(text, CHARL__MOST_CLASSES) : -1;
}

void charl__text_labels_fini(charl__text_labels *l)
{
    charl__name_set_fini(&l->set);
    charl_free(l->label);
    charl_free(l->class_of);
    *l = (charl__text_labels){0};
}

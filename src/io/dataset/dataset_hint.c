/* The arrays of a file that is not in charl's layout. */
#include "io/dataset/dataset_hint.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "io/h5_element.h"

enum { NAME = 512 };

/* The numeric arrays of a file; the first few are named. */
typedef struct arrays {
    char text[CHARL__DATASET_HINT];
    char last[NAME]; /* component of the first one's path */
    int n, in_groups;
} arrays;

/* Append "/images u8 [60000, 784]". */
static herr_t add_array(hid_t root, const char *name, const H5O_info_t *info, void *ctx)
{
    enum { SHOWN = 4, ROOM = 160 };
    arrays *all = ctx;
    char kind[CHARL__ELEMENT_TEXT], one[2 * CHARL__DATASET_HINT]; /* room for any name and rank */
    hsize_t dims[H5S_MAX_RANK];
    charl__element element;
    hid_t d, type, space;
    size_t used = strlen(all->text);
    int rank;

    if (info->type != H5O_TYPE_DATASET || (d = H5Dopen2(root, name, H5P_DEFAULT)) < 0) {
        return 0;
    }
    type = H5Dget_type(d);
    space = H5Dget_space(d);
    rank = H5Sget_simple_extent_dims(space, dims, NULL);
    if (charl__element_of(type, &element, kind) && rank > 0) {
        const char *slash = strrchr(name, '/');
        int at = snprintf(one, sizeof one, "/%.*s %s [", NAME, name, charl__element_name(&element, kind));

        for (int i = 0; i < rank; i++) {
            at += snprintf(one + at, sizeof one - (size_t)at, "%s%llu", i > 0 ? ", " : "", (unsigned long long)dims[i]);
        }
        snprintf(one + at, sizeof one - (size_t)at, "]");
        if (all->n == 0) {
            snprintf(all->last, sizeof all->last, "%s", slash ? slash + 1 : name);
        }
        if (all->n < SHOWN && used + strlen(one) + ROOM < sizeof all->text) {
            memcpy(all->text + used, ", ", 2);
            used += used > 0 ? 2 : 0;
            memcpy(all->text + used, one, strlen(one) + 1);
        } else if (!strstr(all->text, " and more")) {
            snprintf(all->text + used, sizeof all->text - used, " and more");
        }
        all->n++;
        all->in_groups += slash != NULL;
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(d);
    return 0;
}

const char *charl__dataset_hint_arrays(hid_t file, char text[CHARL__DATASET_HINT])
{
    arrays all = {.n = 0};
    int at;

    H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, add_array, &all, H5O_INFO_BASIC);
    if (all.n == 0) {
        snprintf(text, CHARL__DATASET_HINT, "; it has no arrays of numbers");
        return text;
    }
    at = snprintf(text, CHARL__DATASET_HINT, "; HINT it has %s: name samples and targets with the options x and y",
                  all.text);
    if (all.in_groups > 2 && at < CHARL__DATASET_HINT) {
        snprintf(text + at, CHARL__DATASET_HINT - (size_t)at,
                 ", or import them with targets that are attributes: --x '/*/%.64s' --y @NAME", all.last);
    }
    return text;
}

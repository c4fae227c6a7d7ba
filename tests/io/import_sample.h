#ifndef CHARL_TESTS_IMPORT_SAMPLE_H
#define CHARL_TESTS_IMPORT_SAMPLE_H
/** Imports of files made by a test into out.h5. */
#include "io/scratch.h"

#include <stdio.h>
#include <string.h>

#include "charl/dataset.h"
#include "charl/error.h"

static char out[512];
static const charl_import_options replace = {sizeof replace, .overwrite = true};

static int setup(void **state)
{
    setup_dir(state);
    snprintf(out, sizeof out, "%s", charl_test_path(dir, "out.h5"));
    return 0;
}

static inline const char *text_file(const char *name, const char *text)
{
    const char *path = charl_test_path(dir, name);

    put_file(path, text, strlen(text));
    return path;
}

static inline charl_dataset *open_out(const charl_dataset_options *opt, charl_dataset_info *info)
{
    charl_dataset *ds = NULL;

    charl_assert_ok(charl_dataset_open(out, opt, &ds));
    charl_dataset_get_info(ds, info);
    return ds;
}

#endif

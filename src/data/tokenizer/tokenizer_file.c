/* The tokenizer in a data set or a checkpoint. */
#include <string.h>

#include "base/alloc.h"
#include "charl/checkpoint.h"
#include "data/tokenizer/tokenizer_private.h"
#include "io/dataset/dataset_file.h"
#include "io/h5.h"
#include "io/scoped.h"

static charl_status is_checkpoint(const char *path, bool *out)
{
    CHARL_H5_SCOPE;
    const charl__h5_site site = {CHARL_ERR_DATA, path};
    CHARL_SCOPED(charl__file_fini) charl__file f = {.fd = -1, .h5 = H5I_INVALID_HID};
    CHARL_SCOPED(charl__h5_close) hid_t root = H5I_INVALID_HID;
    char format[32] = "";

    *out = false;
    CHARL_TRY(charl__file_init(&f, path));
    CHARL_H5_OPEN(CHARL_ERR_DATA, root, H5Gopen2(f.h5, "/", H5P_DEFAULT), "%s", path);
    if (charl__h5_has(root, "charl_format")) {
        CHARL_TRY(charl__h5_get_text(&site, root, "charl_format", format, sizeof format));
    }
    *out = strcmp(format, "checkpoint") == 0;
    return CHARL_OK;
}

static charl_status of_checkpoint(const char *path, charl_tokenizer **out)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    const charl_data_schema *s;

    CHARL_TRY(charl_checkpoint_open(path, &r));
    s = charl_checkpoint_get_info(r).schema;
    CHARL_REQUIRE(s && s->tokenizer, CHARL_ERR_DATA, "%s is a checkpoint that holds no tokenizer", path);
    *out = charl__tokenizer_retain(s->tokenizer);
    return CHARL_OK;
}

charl_status charl__tokenizer_of_hdf5(const char *path, charl_tokenizer **out)
{
    bool checkpoint;

    *out = NULL;
    CHARL_TRY(is_checkpoint(path, &checkpoint));
    return checkpoint ? of_checkpoint(path, out) : charl__tokenizer_of_dataset(path, out);
}

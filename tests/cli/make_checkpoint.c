/* make_checkpoint FILE STEP [N | TEXT]: a small checkpoint, or one with its first N tensors only (of which
 * two are f32 weights), or with TEXT as its configuration, for the scripts that test `charl checkpoint`.
 * make_checkpoint --version-1 FILE OUT: a checkpoint as a charl of format version 1 would have
 * written it. */
#include "charl/error.h"
#include "io/checkpoint_sample.h"

#include <hdf5.h>
#include <stdlib.h>

static charl_status set_version(const char *path, int64_t version)
{
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    hid_t file, attribute;

    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
    file = H5Fopen(path, H5F_ACC_RDWR, access);
    attribute = H5Aopen(file, "charl_version", H5P_DEFAULT);
    H5Awrite(attribute, H5T_NATIVE_INT64, &version);
    H5Aclose(attribute);
    H5Pclose(access);
    return H5Fclose(file) >= 0 ? CHARL_OK : CHARL_ERR_DISK;
}

static charl_status write_version_1(const char *from, const char *to)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;
    charl_checkpoint_tensor *tensors = NULL;
    charl_checkpoint c = {{0}};

    CHARL_TRY_CLEANUP(charl_checkpoint_open(from, &r));
    c.state = *charl_checkpoint_get_info(r).state;
    c.state.run_id = NULL;
    c.config_text = charl_checkpoint_get_info(r).config_text;
    c.config_resolved = charl_checkpoint_get_info(r).config_resolved;
    tensors = calloc((size_t)charl_checkpoint_get_info(r).n_tensors, sizeof *tensors);
    CHARL_REQUIRE_CLEANUP(tensors, CHARL_ERR_NOMEM, "out of memory");
    for (; c.n_tensors < charl_checkpoint_get_info(r).n_tensors; c.n_tensors++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(r, c.n_tensors);
        void *data = calloc((size_t)charl_shape_count(&t->shape) + 1, charl_dtype_size(t->dtype));

        CHARL_REQUIRE_CLEANUP(data, CHARL_ERR_NOMEM, "out of memory");
        tensors[c.n_tensors] = *t;
        tensors[c.n_tensors].data = data; /* until the process ends */
        CHARL_TRY_CLEANUP(charl_checkpoint_read(r, t, data));
    }
    c.tensors = tensors;
    CHARL_TRY_CLEANUP(charl_checkpoint_save(to, &c));
    CHARL_TRY_CLEANUP(set_version(to, 1));
    CHARL_TRY_CLEANUP(charl_checkpoint_verify(to));
cleanup:
    charl_checkpoint_close(r);
    free(tensors);
    return st;
}

int main(int argc, char **argv)
{
    sample s;

    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: make_checkpoint FILE STEP [N | TEXT] | --version-1 FILE OUT\n");
        return 2;
    }
    if (strcmp(argv[1], "--version-1") == 0 && argc == 4) {
        if (write_version_1(argv[2], argv[3]) != CHARL_OK) {
            fprintf(stderr, "%s\n", charl_error_message());
            return 1;
        }
        return 0;
    }
    sample_init(&s, atoll(argv[2]));
    if (argc == 4 && atoll(argv[3]) > 0) {
        s.c.n_tensors = atoll(argv[3]);
    } else if (argc == 4) {
        s.c.config_text = argv[3];
    }
    if (charl_checkpoint_save(argv[1], &s.c) != CHARL_OK) {
        fprintf(stderr, "%s\n", charl_error_message());
        return 1;
    }
    return 0;
}

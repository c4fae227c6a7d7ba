/* Arrays written in blocks. */
#include "io/h5_array.h"

#include "base/alloc.h"

hid_t charl__h5_memory_type(charl_dtype dtype)
{
    return dtype == CHARL_U8    ? H5T_NATIVE_UINT8
           : dtype == CHARL_U16 ? H5T_NATIVE_UINT16
           : dtype == CHARL_U32 ? H5T_NATIVE_UINT32
           : dtype == CHARL_I32 ? H5T_NATIVE_INT32
           : dtype == CHARL_I64 ? H5T_NATIVE_INT64
                                : H5T_NATIVE_FLOAT;
}

charl_status charl__h5_array_create(charl__h5_array *a, hid_t file)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t create = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t link = H5I_INVALID_HID;
    hsize_t dims[CHARL_MAX_DIMS + 1] = {(hsize_t)a->rows};

    for (int i = 0; i < a->item.ndim; i++) {
        dims[i + 1] = (hsize_t)a->item.dim[i];
    }
    CHARL_H5_OPEN(CHARL_ERR_DISK, space, H5Screate_simple(a->item.ndim + 1, dims, NULL), "%s", a->path);
    CHARL_H5_OPEN(CHARL_ERR_DISK, create, H5Pcreate(H5P_DATASET_CREATE), "%s", a->path);
    CHARL_H5(CHARL_ERR_DISK, H5Pset_layout(create, H5D_CONTIGUOUS), "%s", a->path);
    CHARL_H5(CHARL_ERR_DISK, H5Pset_alloc_time(create, a->is_empty ? H5D_ALLOC_TIME_LATE : H5D_ALLOC_TIME_EARLY), "%s",
             a->path);
    /* without a fill time, readers of an empty array see uninitialized memory */
    CHARL_H5(CHARL_ERR_DISK, H5Pset_fill_time(create, a->is_empty ? H5D_FILL_TIME_IFSET : H5D_FILL_TIME_NEVER), "%s",
             a->path);
    CHARL_H5_OPEN(CHARL_ERR_DISK, link, H5Pcreate(H5P_LINK_CREATE), "%s", a->path);
    CHARL_H5(CHARL_ERR_DISK, H5Pset_create_intermediate_group(link, 1), "%s", a->path);
    CHARL_H5_OPEN(CHARL_ERR_DISK, a->dataset,
                  H5Dcreate2(file, a->name, charl__h5_memory_type(a->dtype), space, link, create, H5P_DEFAULT),
                  "%s: %s cannot be created", a->path, a->name);
    return CHARL_OK;
}

charl_status charl__h5_array_append(charl__h5_array *a, const void *data, int64_t n)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t file_space = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t mem_space = H5I_INVALID_HID;
    hsize_t start[CHARL_MAX_DIMS + 1] = {(hsize_t)a->done};
    hsize_t count[CHARL_MAX_DIMS + 1] = {(hsize_t)n};

    if (a->is_empty) {
        a->done += n;
        return CHARL_OK;
    }
    for (int i = 0; i < a->item.ndim; i++) {
        count[i + 1] = (hsize_t)a->item.dim[i];
    }
    CHARL_H5_OPEN(CHARL_ERR_DISK, file_space, H5Dget_space(a->dataset), "%s", a->path);
    CHARL_H5_OPEN(CHARL_ERR_DISK, mem_space, H5Screate_simple(a->item.ndim + 1, count, NULL), "%s", a->path);
    CHARL_H5(CHARL_ERR_DISK, H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start, NULL, count, NULL), "%s", a->path);
    CHARL_H5(CHARL_ERR_DISK,
             H5Dwrite(a->dataset, charl__h5_memory_type(a->dtype), mem_space, file_space, H5P_DEFAULT, data),
             "%s: %s cannot be written", a->path, a->name);
    a->done += n;
    return CHARL_OK;
}

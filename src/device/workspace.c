/* Buffers that belong to a device and die with it. A buffer holds its device, so the references of
 * these are not counted: nobody would be the last. */
#include "device/cl_private.h"

charl_status charl__device_keep(charl_device *dev, int k, size_t bytes, const char *what)
{
    charl_buffer *b = NULL;

    CHARL_TRY(charl__buffer_create(dev, bytes, what, &b));
    if (!dev->kept[k]) {
        dev->refs--;
    } /* else the new one's reference takes the place of the old one's */
    charl__buffer_release(dev->kept[k]);
    dev->kept[k] = b;
    return CHARL_OK;
}

bool charl__device_drop_kept(charl_device *dev)
{
    for (int k = 0; k < CHARL__KEPT_COUNT; k++) {
        charl_buffer *b = dev->kept[k];

        if (b) {
            dev->kept[k] = NULL;
            dev->refs++;
            charl__buffer_release(b);
            return true;
        }
    }
    return false;
}

charl_buffer *charl__device_passed(const charl_device *dev)
{
    return dev->kept[CHARL__KEPT_PASSED];
}

charl_status charl__device_scratch(charl_device *dev, size_t bytes, charl_buffer **out)
{
    if (!dev->kept[CHARL__KEPT_SCRATCH] || dev->kept[CHARL__KEPT_SCRATCH]->bytes < bytes) {
        CHARL_TRY(charl__device_keep(dev, CHARL__KEPT_SCRATCH, bytes, "copies of operands"));
    }
    *out = dev->kept[CHARL__KEPT_SCRATCH];
    return CHARL_OK;
}

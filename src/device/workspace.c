/* Workspaces: buffers that belong to a device and are released with it. A buffer retains its device, so these references are not
 * counted; otherwise the device would keep itself alive. */
#include "device/device_private.h"

charl_status charl__workspace_replace(charl_device *dev, int k, size_t bytes, const char *what)
{
    charl__buffer *b = NULL;

    CHARL_TRY(charl__buffer_create(dev, bytes, what, &b));
    if (!dev->workspace[k]) {
        dev->refs--;
    } /* else the uncounted reference of the old buffer is the new buffer's */
    charl__buffer_release(dev->workspace[k]);
    dev->workspace[k] = b;
    return CHARL_OK;
}

bool charl__workspace_release_one(charl_device *dev)
{
    for (int k = 0; k < CHARL__WORKSPACE_COUNT; k++) {
        charl__buffer *b = dev->workspace[k];

        if (b) {
            dev->workspace[k] = NULL;
            dev->refs++;
            charl__buffer_release(b);
            return true;
        }
    }
    return false;
}

charl__buffer *charl__workspace_split_k(const charl_device *dev)
{
    return dev->workspace[CHARL__WORKSPACE_SPLIT_K];
}

charl_status charl__workspace_copies(charl_device *dev, size_t bytes, charl__buffer **out)
{
    if (!dev->workspace[CHARL__WORKSPACE_COPIES] || dev->workspace[CHARL__WORKSPACE_COPIES]->bytes < bytes) {
        CHARL_TRY(charl__workspace_replace(dev, CHARL__WORKSPACE_COPIES, bytes, "copies of operands"));
    }
    *out = dev->workspace[CHARL__WORKSPACE_COPIES];
    return CHARL_OK;
}

/* Channels first. */
#include "io/image_layout.h"

#include <string.h>

bool charl__is_channels_last(const charl_shape *item)
{
    return item->ndim == 3 && item->dim[0] >= 8 && item->dim[1] >= 8 && item->dim[2] <= 4;
}

charl_shape charl__channels_first(const charl_shape *item)
{
    return (charl_shape){3, {item->dim[2], item->dim[0], item->dim[1]}};
}

void charl__move_channels(const charl_shape *item, size_t bytes, const void *src, int64_t n, void *dst)
{
    const int64_t channels = item->dim[0], pixels = item->dim[1] * item->dim[2];
    const unsigned char *in = src;
    unsigned char *out = dst;

    for (int64_t i = 0; i < n; i++, in += (size_t)(channels * pixels) * bytes) {
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t p = 0; p < pixels; p++, out += bytes) {
                memcpy(out, in + (size_t)(p * channels + c) * bytes, bytes);
            }
        }
    }
}

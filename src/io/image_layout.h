#ifndef CHARL_IO_IMAGE_LAYOUT_H
#define CHARL_IO_IMAGE_LAYOUT_H
/** Images with the channels last, as in TensorFlow, OpenCV and matplotlib: charl's are [channels, height, width]. */
#include <stdbool.h>
#include <stddef.h>

#include "charl/shape.h"

/** Whether samples of this shape look like [height, width, channels]: 1 to 4 of the last, and at least 8 of the others. */
bool charl__is_channels_last(const charl_shape *item);

/** [height, width, channels] as [channels, height, width]. */
charl_shape charl__channels_first(const charl_shape *item);

/** Convert n samples of `item`, then [channels, height, width], from src with the channels last to dst. bytes: of an element. */
void charl__move_channels(const charl_shape *item, size_t bytes, const void *src, int64_t n, void *dst);

#endif

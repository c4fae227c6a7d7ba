/* overrun read|write|map: a mistake in host memory that only a sanitizer that watches PoCL notices. */
#include <stdlib.h>
#include <string.h>

#include "charl/device.h"
#include "device/device.h"

enum { BYTES = 4096 };

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    charl_device *dev = NULL;
    charl__buffer *b = NULL;
    char *host = calloc(BYTES / 2, 1), *mapped = NULL;

    if (charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1, .share = true},
                          &dev) != CHARL_OK ||
        strcmp(charl_device_get_info(dev)->platform, "Portable Computing Language") != 0) {
        return 77;
    }
    if (!host || charl__buffer_create(dev, BYTES, "test", &b) != CHARL_OK) {
        return 0;
    }
    if (strcmp(what, "read") == 0) {
        (void)!charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, host, BYTES, true);
    } else if (strcmp(what, "write") == 0) {
        (void)!charl__buffer_write(CHARL_QUEUE_COMPUTE, b, 0, host, BYTES, true);
    } else if (charl__buffer_map(CHARL_QUEUE_COMPUTE, b, 0, BYTES, (void **)&mapped) == CHARL_OK) {
        mapped[2 * BYTES] = 1; /* PoCL makes buffers a little longer */
    }
    return 0;
}

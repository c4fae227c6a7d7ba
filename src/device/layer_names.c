/* Labels of launches, in tables. */
#include "device/layer_names.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

void charl__layer_names_merge(char *label)
{
    char *to = label;

    for (const char *from = label; *from;) {
        const size_t digits = strspn(from, "0123456789");
        const bool is_number = digits > 0 && from[digits] == '.';

        if (is_number && (from == label || !isalnum((unsigned char)from[-1]))) {
            *to++ = '*';
            from += digits;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

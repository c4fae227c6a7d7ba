/* Names and help of the exporters. */
#include "config/export_formats.h"

#include <stddef.h>

#define NAME(name, help) #name,
#define HELP(name, help) help,
static const char *const names[] = {CHARL__EXPORTERS(NAME) NULL};
static const char *const helps[] = {CHARL__EXPORTERS(HELP) NULL};

enum { EXPORTERS = sizeof names / sizeof *names - 1 };

const char *charl__export_name(int i)
{
    return i >= 0 && i < EXPORTERS ? names[i] : NULL;
}

const char *charl__export_help(int i)
{
    return i >= 0 && i < EXPORTERS ? helps[i] : NULL;
}

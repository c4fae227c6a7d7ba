/* The registry of importers. */
#include "io/import/importer.h"

#include <stdarg.h>
#include <stdio.h>

static const charl__registry importers = {.what = "importer", .built_in = charl__importers};

const charl_importer *charl_importer_get(int i)
{
    return charl__registry_at(&importers, i);
}

const charl_importer *charl_importer_find(const char *name)
{
    return charl__registry_find(&importers, name);
}

const char *charl_importer_name(int i)
{
    const charl_importer *t = charl_importer_get(i);

    return t ? t->row.name : NULL;
}

void charl__import_note(const charl_import_options *opt, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    if (opt && opt->noted) {
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        opt->noted(opt->ctx, text);
    }
}

/* The registry of importers. */
#include "io/import/importer.h"

#define ROW(name) &charl__importer_##name,
static const void *const built_in[] = {CHARL__IMPORTERS(ROW) NULL};
static const charl__registry importers = {.what = "importer", .built_in = built_in};

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

/* The registry of importers. */
#include "data/import/importer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "io/commit.h"
#include "io/dataset/order/split.h"
#include "io/kind.h"

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

/* Parse the setting "KEY=VALUE" into `own`; *given: its key. */
static charl_status parse_setting(const charl_importer *t, const char *setting, void *own, int *given)
{
    const size_t length = strcspn(setting, "=");
    char reason[CHARL_REASON_BYTES];

    for (int i = 0; i < t->row.n_keys && setting[length]; i++) {
        const charl_key *k = &t->row.keys[i];

        if (strlen(k->name) == length && strncmp(setting, k->name, length) == 0) {
            *given = i;
            CHARL_REQUIRE(charl_key_parse(k, setting + length + 1, own, reason), CHARL_ERR_CONFIG, "%s: %s", k->name,
                          reason);
            return CHARL_OK;
        }
    }
    CHARL_FAIL(CHARL_ERR_CONFIG,
               "importer %s has no setting \"%.100s\"; HINT write KEY=VALUE, with a key that `charl "
               "data import %s --help` lists",
               t->row.name, setting, t->row.name);
}

static charl_status parse_settings(const charl_importer *t, const char *const *settings, void *own)
{
    char reason[CHARL_REASON_BYTES];
    const char *key = "";
    uint64_t given = 0;

    for (; settings && *settings; settings++) {
        int i = 0;

        CHARL_TRY(parse_setting(t, *settings, own, &i));
        given |= UINT64_C(1) << i;
    }
    for (int i = 0; i < t->row.n_keys; i++) {
        CHARL_REQUIRE(!t->row.keys[i].required || given >> i & 1, CHARL_ERR_CONFIG, "importer %s needs %s: %s",
                      t->row.name, t->row.keys[i].name, t->row.keys[i].help);
    }
    CHARL_REQUIRE(!t->row.check || t->row.check(own, &key, reason), CHARL_ERR_CONFIG, "%s %s", key, reason);
    return CHARL_OK;
}

charl_status charl_import(const char *format, const char *const *settings, const char *const *files, int n,
                          const char *out, const charl_import_options *opt)
{
    CHARL_GIVEN(format, files || n == 0, out);
    CHARL__OPTIONS(charl_import_options, opt);
    const charl_import_options plain = {sizeof plain};
    const charl_importer *t = charl_importer_find(format);
    CHARL_SCOPED_FREE void *own = NULL;

    CHARL_REQUIRE(t, CHARL_ERR_CONFIG, "there is no importer \"%.60s\"; HINT `charl data import --help` lists them",
                  format);
    CHARL_REQUIRE(n >= t->group && (t->most == 0 || n <= t->most) && n % t->group == 0, CHARL_ERR_CONFIG,
                  "%s takes %s, not %d file%s", format, t->files, n, n == 1 ? "" : "s");
    CHARL_TRY(charl__val_split_check(opt ? opt->val_split : 0));
    CHARL_TRY(charl__alloc(t->row.settings_size + 1, &own));
    if (t->row.defaults) {
        memcpy(own, t->row.defaults, t->row.settings_size);
    }
    CHARL_TRY(parse_settings(t, settings, own));
    CHARL_TRY(t->run(own, files, n, out, opt ? opt : &plain));
    return CHARL_OK;
}

/* Whether charl_import needs no setting. */
static bool has_no_required(const charl_importer *t)
{
    for (int i = 0; i < t->row.n_keys; i++) {
        if (t->row.keys[i].required) {
            return false;
        }
    }
    return true;
}

charl_status charl_import_suggest(const char *path, const charl_suggest_options *opt, const charl_importer **importer,
                                  char **out)
{
    CHARL_GIVEN(path, importer, out);
    CHARL__OPTIONS(charl_suggest_options, opt);
    const charl_suggest_options plain = {sizeof plain};
    const charl__kind *kind = charl__kind_of(path);
    const charl_importer *t = kind && kind->importer ? charl_importer_find(kind->importer) : NULL;

    *importer = NULL;
    *out = NULL;
    CHARL_REQUIRE(kind, CHARL_ERR_DATA, "%s: cannot be opened: %s", path, strerror(errno));
    if (kind->as == ~0U || !(t ? t->suggest || has_no_required(t) : (kind->as & CHARL__KIND_DATASET) != 0)) {
        return charl__kind_expect(path, 0, "a dataset, a table, a folder of images, a text or an archive of arrays",
                                  CHARL_ERR_DATA);
    }
    CHARL_REQUIRE((t && t->shuffles && t->suggest) || !opt || (!opt->target && opt->choice == CHARL_TARGET_GUESSED),
                  CHARL_ERR_CONFIG, "%s is %s: only the target of a table can be chosen", path, kind->name);
    *importer = t;
    CHARL_TRY(t && t->suggest ? t->suggest(path, opt ? opt : &plain, out) : charl__strdup("", out));
    return CHARL_OK;
}

void charl__suggest_note(const charl_suggest_options *opt, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    if (opt->noted) {
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        opt->noted(opt->ctx, text);
    }
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

charl_status charl__import_paths(charl__paths paths[2], const char *const *names, int n, const char *val_file,
                                 double val_split, const char *endings, const char *output)
{
    CHARL_REQUIRE(!val_file || val_split == 0, CHARL_ERR_CONFIG, "--val-file and --val-split cannot be combined");
    for (int i = 0; i < n; i++) {
        CHARL_TRY(charl__paths_add(&paths[0], names[i], endings));
    }
    if (val_file) {
        CHARL_TRY(charl__paths_add(&paths[1], val_file, endings));
    }
    for (int i = 0; i < 2; i++) {
        CHARL_TRY(charl__commit_check_inputs(output, (const char *const *)paths[i].path, paths[i].n));
    }
    return CHARL_OK;
}

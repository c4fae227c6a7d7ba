/* The file of a sweep: its sections are those of a configuration, whose keys have several values, and [sweep].
 *
 *     [sweep]
 *     config = mnist.ini            beside the file
 *     seeds = 3                     the options of charl sweep
 *     [optimizer]
 *     learning_rate = 1e-3, 3e-3
 *
 * It is the command line that it stands for, and what the command line itself says comes after it. */
#include <stdlib.h>
#include <string.h>

#include "cli/charl/sweep.h"

typedef struct reading {
    const charl__cli_option *options;
    const char *path;
    char **argv; /* of the command line */
    int argc;
    charl__sweep_file *file;
    bool is_sweep;
    char twice[160]; /* the first key that is given twice: "LINE: MESSAGE" */
} reading;

/* Append "A B C D" as one word. */
static charl_status add(charl__sweep_file *f, const char *a, const char *b, const char *c, const char *d)
{
    char **grown = realloc(f->argv, (size_t)(f->argc + 2) * sizeof *grown), *word = NULL;
    const size_t size = strlen(a) + strlen(b) + strlen(c) + strlen(d) + 1;

    CHARL_REQUIRE(grown, CHARL_ERR_NOMEM, "out of memory");
    f->argv = grown;
    CHARL_TRY(charl__cli_alloc((int64_t)size, 1, &word));
    snprintf(word, size, "%s%s%s%s", a, b, c, d);
    f->argv[f->argc++] = word;
    f->argv[f->argc] = NULL;
    return CHARL_OK;
}

/* Note a key whose word of the command line is there already. It is a mistake if the file is one of a sweep; layers of a model may repeat. */
static void check_once(reading *r, const char *section, const char *key, const char *word, int line)
{
    const size_t length = strlen(word);

    for (int i = 2; i < r->file->argc; i++) {
        const char *other = r->file->argv[i];

        if (!r->twice[0] && strncmp(other, word, length) == 0 && (other[length] == '=' || other[length] == '\0')) {
            snprintf(r->twice, sizeof r->twice, "%d: [%.60s] %.60s: given twice", line, section, key);
        }
    }
}

/* A path in the file is one beside it. It becomes the first operand, for which a place is kept. */
static charl_status set_config(const reading *r, const char *value, int line)
{
    charl__sweep_file *f = r->file;
    const char *slash = strrchr(r->path, '/');
    const int n = slash && value[0] != '/' ? (int)(slash - r->path) + 1 : 0;
    char folder[4096];

    CHARL_REQUIRE(!f->argv[1][0], CHARL_ERR_CONFIG, "%s:%d: [sweep] config: given twice", r->path, line);
    CHARL_REQUIRE(n < (int)sizeof folder, CHARL_ERR_CONFIG, "the path %.200s... is too long", r->path);
    snprintf(folder, sizeof folder, "%.*s", n, r->path);
    CHARL_TRY(add(f, folder, value, "", ""));
    free(f->argv[1]);
    f->argv[1] = f->argv[--f->argc];
    f->argv[f->argc] = NULL;
    return CHARL_OK;
}

static charl_status add_option(reading *r, const char *key, const char *value, int line)
{
    char name[64], word[sizeof name + 2];

    snprintf(name, sizeof name, "%.63s", key);
    for (char *p = name; *p; p++) {
        *p = *p == '_' ? '-' : *p;
    }
    for (const charl__cli_option *o = r->options; o->name; o++) {
        if (strcmp(o->name, name) != 0) {
            continue;
        }
        snprintf(word, sizeof word, "--%s", name);
        check_once(r, "sweep", key, word, line);
        if (o->value) {
            return add(r->file, "--", name, "=", value);
        }
        CHARL_REQUIRE(strcmp(value, "yes") == 0 || strcmp(value, "no") == 0, CHARL_ERR_CONFIG,
                      "%s:%d: [sweep] %s: \"%s\" is neither yes nor no", r->path, line, key, value);
        return strcmp(value, "yes") == 0 ? add(r->file, "--", name, "", "") : CHARL_OK;
    }
    CHARL_FAIL(CHARL_ERR_CONFIG,
               "%s:%d: [sweep] %s: unknown key; HINT the keys are config and the options of charl sweep, such as seeds",
               r->path, line, key);
}

/* Whether the command line has a value of the key too. */
static bool is_replaced(const reading *r, const char *section, const char *key)
{
    const size_t n = strlen(section), k = strlen(key);

    for (int i = 1; i < r->argc; i++) {
        const char *word = r->argv[i];

        if (strncmp(word, section, n) == 0 && word[n] == '.' && strncmp(word + n + 1, key, k) == 0 &&
            word[n + 1 + k] == '=') {
            return true;
        }
    }
    return false;
}

static charl_status on_item(void *ctx, const char *section, const char *key, const char *value, int line)
{
    reading *r = ctx;
    char name[256];

    if (strcmp(section, "sweep") == 0) {
        r->is_sweep = true;
    }
    if (!key) {
        return CHARL_OK;
    }
    if (strcmp(section, "sweep") == 0) {
        return strcmp(key, "config") == 0 ? set_config(r, value, line) : add_option(r, key, value, line);
    }
    if (is_replaced(r, section, key)) {
        return CHARL_OK;
    }
    snprintf(name, sizeof name, "%.190s.%.60s", section, key);
    check_once(r, section, key, name, line);
    return add(r->file, name, "=", value, "");
}

charl_status charl__sweep_file_read(const char *path, const charl__cli_option *options, int argc, char **argv,
                                    charl__sweep_file *out)
{
    reading r = {.options = options, .path = path, .argc = argc, .argv = argv, .file = out};

    CHARL_TRY(add(out, argv[0], "", "", ""));
    CHARL_TRY(add(out, "", "", "", ""));
    CHARL_TRY(charl_config_scan(path, on_item, &r));
    if (!r.is_sweep) {
        charl__sweep_file_fini(out);
        return CHARL_OK;
    }
    CHARL_REQUIRE(!r.twice[0], CHARL_ERR_CONFIG, "%s:%s", path, r.twice);
    CHARL_REQUIRE(out->argv[1][0], CHARL_ERR_CONFIG, "%s: [sweep] config is missing: the configuration that is swept",
                  path);
    for (int i = 1; i < argc; i++) {
        CHARL_TRY(argv[i] == path ? CHARL_OK : add(out, argv[i], "", "", ""));
    }
    return CHARL_OK;
}

void charl__sweep_file_fini(charl__sweep_file *f)
{
    for (int i = 0; i < f->argc; i++) {
        free(f->argv[i]);
    }
    free(f->argv);
    *f = (charl__sweep_file){0};
}

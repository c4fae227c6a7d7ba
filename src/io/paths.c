/* Files, folders and patterns as a list of files. */
#include "io/paths.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "base/registry/key.h"
#include "base/text/text.h"
#include "io/commit.h"

enum { MOST_DEEP = 64, ENDING_BYTES = 32 };

static bool is_folder(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool has_ending(const char *name, const char *endings)
{
    char ending[ENDING_BYTES], packed[ENDING_BYTES + 3];

    while (charl__choice_next(&endings, ending, sizeof ending)) {
        snprintf(packed, sizeof packed, "%s.gz", ending);
        if (charl__ends_in(name, ending) || charl__ends_in(name, packed)) {
            return true;
        }
    }
    return false;
}

static charl_status append(charl__paths *p, const char *path)
{
    CHARL_TRY(charl__grow(p->n, sizeof *p->path, &p->path));
    CHARL_TRY(charl__strdup(path, &p->path[p->n]));
    p->n++;
    return CHARL_OK;
}

static charl_status add_folder(charl__paths *p, const char *folder, const char *endings, int depth)
{
    const struct dirent *entry;
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};
    CHARL_SCOPED(charl__directory_left) DIR *dir = NULL;

    CHARL_REQUIRE(depth < MOST_DEEP, CHARL_ERR_DATA, "%s: folders deeper than %d are not read", folder, MOST_DEEP);
    CHARL_TRY(charl__directory_open(folder, &dir));
    CHARL_REQUIRE(dir, CHARL_ERR_DATA, "%s: cannot be read: %s", folder, strerror(errno));
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        charl__text_clear(&path);
        CHARL_TRY(charl__text_printf(&path, "%s%s%s", folder, charl__ends_in(folder, "/") ? "" : "/", entry->d_name));
        if (is_folder(path.data)) {
            CHARL_TRY(add_folder(p, path.data, endings, depth + 1));
        } else if (has_ending(entry->d_name, endings)) {
            CHARL_TRY(append(p, path.data));
        }
    }
    return CHARL_OK;
}

static charl_status add_pattern(charl__paths *p, const char *pattern, const char *endings)
{
    charl_status st = CHARL_OK;
    glob_t found = {0};
    bool held = false;
    int code;

    CHARL_TRY_CLEANUP(charl__acquire("file names"));
    held = true;
    code = glob(pattern, GLOB_ERR, NULL, &found);
    CHARL_REQUIRE_CLEANUP(code != GLOB_NOMATCH, CHARL_ERR_DATA, "%s: no file matches this pattern", pattern);
    CHARL_REQUIRE_CLEANUP(code != GLOB_ABORTED, CHARL_ERR_DATA, "%s: a folder cannot be read: %s", pattern,
                          strerror(errno));
    CHARL_REQUIRE_CLEANUP(code == 0, CHARL_ERR_NOMEM, "%s: out of memory for the files", pattern);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (is_folder(found.gl_pathv[i])) {
            CHARL_TRY_CLEANUP(add_folder(p, found.gl_pathv[i], endings, 0));
        } else {
            CHARL_TRY_CLEANUP(append(p, found.gl_pathv[i]));
        }
    }
cleanup:
    if (held) {
        globfree(&found);
        charl__drop();
    }
    return st;
}

charl_status charl__paths_add(charl__paths *p, const char *name, const char *endings)
{
    const int64_t first = p->n;
    struct stat s;
    char list[256];

    if (is_folder(name)) {
        CHARL_TRY(add_folder(p, name, endings, 0));
    } else if (stat(name, &s) != 0 && strpbrk(name, "*?[")) {
        CHARL_TRY(add_pattern(p, name, endings));
    } else {
        CHARL_TRY(append(p, name));
    }
    CHARL_REQUIRE(p->n > first, CHARL_ERR_DATA, "%s: there are no files that end in %s (or in it and .gz)", name,
                  charl__choice_list(NULL, endings, list, sizeof list));
    qsort(p->path + first, (size_t)(p->n - first), sizeof *p->path, charl__by_text);
    return CHARL_OK;
}

void charl__paths_fini(charl__paths *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        charl_free(p->path[i]);
    }
    charl_free(p->path);
    *p = (charl__paths){0};
}

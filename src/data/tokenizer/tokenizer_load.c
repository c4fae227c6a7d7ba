/* The tokenizer of a path: a data set, a checkpoint, or a published tokenizer in one of the formats. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "charl/checkpoint.h"
#include "charl/run.h"
#include "io/kind.h"
#include "data/tokenizer/pretrained.h"

static const charl__registry formats = {.what = "tokenizer format", .built_in = charl__tokenizer_formats};

enum { HEAD = 4096, READ_BLOCK = 1 << 20, MOST_BYTES = 1 << 30 };

/* The first bytes of a file, and a NUL. */
static charl_status read_head(const char *path, char head[HEAD], size_t *bytes)
{
    FILE *f = fopen(path, "rb");

    *bytes = 0;
    CHARL_REQUIRE(f, CHARL_ERR_IO, "%s: %s", path, strerror(errno));
    *bytes = fread(head, 1, HEAD - 1, f);
    head[*bytes] = '\0';
    (void)fclose(f);
    return CHARL_OK;
}

charl_status charl__tokenizer_read_file(const char *path, charl__text *out)
{
    CHARL_SCOPED(charl__file_left) FILE *f = fopen(path, "rb");
    CHARL_SCOPED_FREE char *block = NULL;
    size_t n;

    CHARL_REQUIRE(f, CHARL_ERR_IO, "%s: %s", path, strerror(errno));
    CHARL_TRY(charl__alloc(READ_BLOCK, &block));
    while ((n = fread(block, 1, READ_BLOCK, f)) > 0) {
        CHARL_REQUIRE(out->length + n <= MOST_BYTES, CHARL_ERR_DATA, "it is larger than 1 GiB");
        CHARL_TRY(charl__text_append(out, block, n));
    }
    CHARL_REQUIRE(!ferror(f), CHARL_ERR_IO, "%s: %s", path, strerror(errno));
    return CHARL_OK;
}

/* The only file of a folder whose name matches; *found is their number. */
static charl_status match_file(const char *folder, const char *pattern, charl__text *path, int *found)
{
    CHARL_SCOPED(charl__directory_left) DIR *d = NULL;
    const struct dirent *entry;

    *found = 0;
    CHARL_TRY(charl__directory_open(folder, &d));
    CHARL_REQUIRE(d, CHARL_ERR_IO, "%s: %s", folder, strerror(errno));
    while ((entry = readdir(d)) != NULL) {
        if (charl__text_matches(pattern, entry->d_name)) {
            ++*found;
            charl__text_clear(path);
            CHARL_TRY(charl__text_printf(path, "%s/%s", folder, entry->d_name));
        }
    }
    return CHARL_OK;
}

/* The file of a folder to read. */
static charl_status find_in_folder(const char *folder, charl__text *path)
{
    const charl__tokenizer_format *f;
    CHARL_SCOPED(charl__text_fini) charl__text names = {0};

    for (int i = 0; (f = charl__registry_at(&formats, i)) != NULL; i++) {
        for (const char *const *name = f->files; *name; name++) {
            int found;

            CHARL_TRY(match_file(folder, *name, path, &found));
            CHARL_REQUIRE(found <= 1, CHARL_ERR_DATA, "%s has %d files %s; HINT name the one to use", folder, found,
                          *name);
            if (found == 1) {
                return CHARL_OK;
            }
            CHARL_TRY(charl__text_printf(&names, "%s%s", names.length > 0 ? ", " : "", *name));
        }
    }
    CHARL_FAIL(CHARL_ERR_DATA, "%s has no tokenizer; looked for %s", folder, charl__text_string(&names));
}

static charl_status read_published(const char *path, const char *head, size_t bytes, charl_tokenizer **out)
{
    charl_status st = CHARL_OK;
    charl__pretrained p = {0};
    const charl__tokenizer_format *f;
    int i = 0;

    while ((f = charl__registry_at(&formats, i)) != NULL && !f->is(path, head, bytes)) {
        i++;
    }
    CHARL_REQUIRE_CLEANUP(
        f, CHARL_ERR_DATA,
        "%s is not a tokenizer that charl reads: a data set of text, a checkpoint, tokenizer.json, "
        "tokenizer.model, tekken.json, vocab.json with merges.txt, vocab.txt, or a rank file of tiktoken",
        path);
    st = f->read(path, &p);
    if (st == CHARL_OK) {
        st = charl__pretrained_finish(&p, out);
    }
    if (st == CHARL_ERR_DATA || st == CHARL_ERR_CONFIG) {
        charl__error_prefix("%s: ", path);
    }
    CHARL_TRY_CLEANUP(st);
cleanup:
    charl__pretrained_fini(&p);
    return st;
}

charl_status charl_tokenizer_load(const char *path, charl_tokenizer **out)
{
    CHARL_GIVEN(path, out);
    charl_status st = CHARL_OK;
    charl__text found = {0};
    const char *given = path;
    char *checkpoint = NULL;
    struct stat info;
    char head[HEAD];
    size_t bytes;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl_run_checkpoint(path, &checkpoint));
    path = checkpoint;
    CHARL_REQUIRE_CLEANUP(stat(path, &info) == 0, CHARL_ERR_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        CHARL_TRY_CLEANUP(find_in_folder(path, &found));
        path = charl__text_string(&found);
    }
    CHARL_TRY_CLEANUP(read_head(path, head, &bytes));
    if (bytes >= 8 && memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0) {
        CHARL_TRY_CLEANUP(charl__tokenizer_of_hdf5(path, out));
    } else {
        CHARL_TRY_CLEANUP(read_published(path, head, bytes, out));
    }
cleanup:
    st = charl__kind_explain(st, given,
                             CHARL__KIND_TOKENIZER | CHARL__KIND_DATASET | CHARL__KIND_CHECKPOINT | CHARL__KIND_FOLDER,
                             "a tokenizer that charl reads", CHARL_ERR_DATA);
    charl__text_fini(&found);
    charl_free(checkpoint);
    return st;
}

charl_status charl__tokenizer_open(const char *name, const charl__tokenizer_type **type, charl_tokenizer **out)
{
    struct stat info;
    char names[200];

    *out = NULL;
    *type = charl__tokenizer_type_find(name);
    if (*type && (*type)->learn) {
        return CHARL_OK;
    }
    *type = NULL;
    CHARL_REQUIRE(stat(name, &info) == 0, CHARL_ERR_CONFIG,
                  "tokenizer %.200s: is neither one of %s nor the file or folder of a published tokenizer", name,
                  charl__text_list(name, charl__tokenizer_learnt_name, names, sizeof names));
    return charl_tokenizer_load(name, out);
}

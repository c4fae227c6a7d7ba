/* The first inputs of every target, and a fixed number of mutations of them: what a compiler without libFuzzer can do in a second.
 *
 * Usage: test_fuzz TARGET FOLDER [COUNT [SEED]]     test_fuzz TARGET FILE runs one input */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_INPUTS = 256, LONGEST = 1 << 16 };

typedef struct input {
    unsigned char *data;
    size_t size;
} input;

static uint64_t state;

/* splitmix64 */
static uint64_t draw(uint64_t below)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15U);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return (z ^ (z >> 31)) % below;
}

static input read_input(const char *path)
{
    FILE *f = fopen(path, "rb");
    input in = {malloc(LONGEST), 0};

    FUZZ_CHECK(f != NULL && in.data != NULL, path);
    in.size = fread(in.data, 1, LONGEST, f);
    fclose(f);
    return in;
}

/* Replace `cut` bytes at `at` by `put` bytes of `from`. Too long: nothing. */
static void splice(input *in, size_t at, size_t cut, const void *from, size_t put)
{
    if (in->size - cut + put <= LONGEST) {
        unsigned char copy[LONGEST];

        memcpy(copy, from, put); /* it may be a part of the input */
        memmove(in->data + at + put, in->data + at + cut, in->size - at - cut);
        memcpy(in->data + at, copy, put);
        in->size += put - cut;
    }
}

static void mutate(input *in, const input *all, size_t n)
{
    static const char *const numbers[] = {
        "0",          "-1",         "1e400", "nan",  "4294967296", "9223372036854775807",
        "0.00000001", "2147483648", "\"\"",  "null", "-",          "[]"};
    static const unsigned char bytes[] = {0, 1, 0x7f, 0x80, 0xff, '"', '\\', '\n', ',', '{', '[', '='};
    const size_t at = (size_t)draw(in->size + 1), left = in->size - at;
    const size_t length = left > 0 ? 1 + (size_t)draw(left < 16 ? left : 16) : 0;

    switch (draw(7)) {
    case 0: /* a bit */
        if (left > 0) {
            in->data[at] ^= (unsigned char)(1U << draw(8));
        }
        break;
    case 1: /* a byte that matters */
        splice(in, at, left > 0, &bytes[draw(sizeof bytes)], 1);
        break;
    case 2: /* away */
        splice(in, at, length, "", 0);
        break;
    case 3: /* twice */
        splice(in, at, 0, in->data + at, length);
        break;
    case 4: { /* a digit becomes an extreme number */
        const char *number = numbers[draw(sizeof numbers / sizeof numbers[0])];

        for (size_t i = at; i < in->size; i++) {
            if (in->data[i] >= '0' && in->data[i] <= '9') {
                splice(in, i, 1, number, strlen(number));
                break;
            }
        }
        break;
    }
    case 5: { /* a piece of another input */
        const input *other = &all[draw(n)];
        const size_t from = (size_t)draw(other->size + 1);

        splice(in, at, 0, other->data + from, (size_t)draw((other->size - from < 64 ? other->size - from : 64) + 1));
        break;
    }
    default: /* cut off */
        in->size = draw(4) == 0 ? at : in->size;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int main(int argc, char **argv)
{
    const fuzz_target *t = argc > 2 ? fuzz_find(argv[1]) : NULL;
    const long count = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
    static input all[MAX_INPUTS];
    char *names[MAX_INPUTS];
    size_t n = 0;
    struct stat s;
    DIR *d;
    const struct dirent *e;

    if (!t || stat(argv[2], &s) != 0) {
        fprintf(stderr, "usage: test_fuzz TARGET FOLDER [COUNT [SEED]] | TARGET FILE\n");
        return 2;
    }
    state = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    if (!S_ISDIR(s.st_mode)) {
        all[0] = read_input(argv[2]);
        fuzz_run(t, all[0].data, all[0].size);
        return 0;
    }
    d = opendir(argv[2]);
    while (d && n < MAX_INPUTS && (e = readdir(d))) {
        if (e->d_name[0] != '.') {
            char path[4096];

            snprintf(path, sizeof path, "%s/%s", argv[2], e->d_name);
            names[n++] = strdup(path);
        }
    }
    FUZZ_CHECK(d != NULL && n > 0, "the folder has no inputs");
    closedir(d);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        all[i] = read_input(names[i]);
        fuzz_run(t, all[i].data, all[i].size);
    }
    for (long k = 0; k < count; k++) {
        const input *from = &all[draw(n)];
        static unsigned char copy[LONGEST];
        input in = {copy, from->size};
        FILE *f;

        memcpy(copy, from->data, from->size);
        for (uint64_t m = 1 + draw(6); m > 0; m--) {
            mutate(&in, all, n);
        }
        if (getenv("CHARL_FUZZ_KEEP") &&
            (f = fopen(getenv("CHARL_FUZZ_KEEP"), "wb"))) { /* the input that ends the process */
            fwrite(in.data, 1, in.size, f);
            fclose(f);
        }
        fuzz_run(t, in.data, in.size);
    }
    printf("%s: %zu inputs, %ld mutations\n", t->name, n, count);
    for (size_t i = 0; i < n; i++) {
        free(all[i].data);
        free(names[i]);
    }
    return 0;
}

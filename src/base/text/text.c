/* A growing string. The buffer doubles; data is NULL until the first append. */
#include "base/text/text.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/utf8.h"

enum { FIRST_CAPACITY = 128 };

static charl_status grow(charl__text *t, size_t capacity)
{
    const bool is_first = !t->data;

    CHARL_TRY(charl__realloc(capacity, &t->data));
    t->capacity = capacity;
    if (is_first) {
        t->data[0] = '\0';
    }
    return CHARL_OK;
}

/* Room for `more` further bytes and the NUL. */
static charl_status reserve(charl__text *t, size_t more)
{
    size_t capacity = t->capacity ? t->capacity : FIRST_CAPACITY;

    CHARL_REQUIRE(more < SIZE_MAX / 4 && t->length < SIZE_MAX / 4, CHARL_ERR_NOMEM, "a text of more than %zu bytes",
                  SIZE_MAX / 4);
    while (capacity < t->length + more + 1) {
        capacity *= 2;
    }
    if (capacity > t->capacity) {
        CHARL_TRY(grow(t, capacity));
    }
    return CHARL_OK;
}

charl_status charl__text_reserve(charl__text *t, size_t bytes)
{
    CHARL_REQUIRE(bytes < SIZE_MAX / 4, CHARL_ERR_NOMEM, "a text of %zu bytes", bytes);
    if (t->length + bytes + 1 > t->capacity) {
        CHARL_TRY(grow(t, t->length + bytes + 1));
    }
    return CHARL_OK;
}

charl_status charl__text_append(charl__text *t, const void *bytes, size_t count)
{
    CHARL_TRY(reserve(t, count));
    if (count > 0) {
        memcpy(t->data + t->length, bytes, count);
    }
    t->length += count;
    t->data[t->length] = '\0';
    return CHARL_OK;
}

charl_status charl__text_printf(charl__text *t, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    CHARL_REQUIRE(n >= 0, CHARL_ERR_INVALID, "text that cannot be formatted: %.80s", fmt);
    CHARL_TRY(reserve(t, (size_t)n));
    va_start(ap, fmt);
    (void)vsnprintf(t->data + t->length, (size_t)n + 1, fmt, ap);
    va_end(ap);
    t->length += (size_t)n;
    return CHARL_OK;
}

/* A character that JSON requires to be escaped, or that a terminal would not display as is. */
static charl_status json_escape(charl__text *t, uint32_t point)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letter[] = "\"\\bfnrt";
    const char *at = point > 0 && point < 0x80 ? strchr(plain, (int)point) : NULL;

    if (at) {
        CHARL_TRY(charl__text_printf(t, "\\%c", letter[at - plain]));
    } else if (point < 0x10000) {
        CHARL_TRY(charl__text_printf(t, "\\u%04x", point));
    } else { /* a surrogate pair */
        CHARL_TRY(charl__text_printf(t, "\\u%04x\\u%04x", 0xd800 + ((point - 0x10000) >> 10),
                                     0xdc00 + ((point - 0x10000) & 0x3ff)));
    }
    return CHARL_OK;
}

static charl_status json_body(charl__text *t, const char *s)
{
    const unsigned char *p = (const unsigned char *)s, *const end = p + strlen(s);

    CHARL_TRY(charl__text_append(t, "\"", 1));
    while (p < end) {
        const size_t n = charl__utf8_length(p, (size_t)(end - p));

        if (n == 0) {
            CHARL_TRY(charl__text_append(t, "\xef\xbf\xbd", 3));
            p++;
        } else if (*p == '"' || *p == '\\' || !charl__utf8_is_visible(charl__utf8_point(p, n))) {
            CHARL_TRY(json_escape(t, charl__utf8_point(p, n)));
            p += n;
        } else {
            CHARL_TRY(charl__text_append(t, p, n));
            p += n;
        }
    }
    CHARL_TRY(charl__text_append(t, "\"", 1));
    return CHARL_OK;
}

charl_status charl__text_json(charl__text *t, const char *s)
{
    charl_status st = CHARL_OK;
    const size_t before = t->length;

    CHARL_TRY_CLEANUP(json_body(t, s));
cleanup:
    if (st != CHARL_OK && t->data) { /* no half string */
        t->length = before;
        t->data[before] = '\0';
    }
    return st;
}

charl_status charl__text_json_number(charl__text *t, double v)
{
    char text[40] = "null";

    for (int digits = 1; isfinite(v) && digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) {
            break;
        }
    }
    CHARL_TRY(charl__text_append(t, text, strlen(text)));
    return CHARL_OK;
}

charl_status charl__text_base64(charl__text *t, const void *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = bytes;

    for (size_t i = 0; i < count; i += 3) {
        const size_t left = count - i;
        const unsigned v = (unsigned)b[i] << 16 | (left > 1 ? (unsigned)b[i + 1] << 8 : 0) | (left > 2 ? b[i + 2] : 0);
        const char four[] = {digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=',
                             left > 2 ? digits[v & 63] : '='};

        CHARL_TRY(charl__text_append(t, four, sizeof four));
    }
    return CHARL_OK;
}

const char *charl__text_string(const charl__text *t)
{
    return t->data ? t->data : "";
}

void charl__text_clear(charl__text *t)
{
    t->length = 0;
    if (t->data) {
        t->data[0] = '\0';
    }
}

char *charl__text_steal(charl__text *t)
{
    char *data = t->data;

    *t = (charl__text){0};
    return data;
}

void charl__text_fini(charl__text *t)
{
    charl_free(t->data);
    *t = (charl__text){0};
}

const char *charl__did_you_mean(const char *near)
{
    static _Thread_local char text[160];

    text[0] = '\0';
    if (near) {
        snprintf(text, sizeof text, " (did you mean %.100s?)", near);
    }
    return text;
}

const char *charl__text_names(const char *word, charl__name_at name_at, const void *ctx, char *text, size_t size)
{
    const char *name, *near = NULL;
    char copy[64], nearest[64];
    size_t used = 0;
    int best = INT_MAX;

    text[0] = '\0';
    for (int i = 0; (name = name_at(ctx, i, copy)) != NULL; i++) {
        used += used < size ? (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", name) : 0;
        if (word && charl_text_closer(word, name, &best)) {
            snprintf(nearest, sizeof nearest, "%s", name);
            near = nearest;
        }
    }
    if (near) { /* what the user needs most, even if the list is truncated */
        const char *suggestion = charl__did_you_mean(near);
        const size_t n = strlen(suggestion), at = used + n < size ? used : size > n ? size - n - 1 : 0;

        snprintf(text + at, size - at, "%s", suggestion);
    }
    return text;
}

static const char *of_list(const void *ctx, int i, char *copy)
{
    (void)copy;
    return ((const charl__name_list *)ctx)->at(i);
}

const char *charl__text_list(const char *word, const char *(*name_at)(int i), char *text, size_t size)
{
    return charl__text_names(word, of_list, &(charl__name_list){name_at}, text, size);
}

bool charl__text_element(const char **cursor, char *word, size_t size)
{
    const char *p = *cursor + strspn(*cursor, " \t\n");
    size_t n = strcspn(p, ",\n");
    size_t kept = n;

    if (*p == '\0') {
        return false;
    }
    *cursor = p + n;
    *cursor += strspn(*cursor, " \t\n");
    if (**cursor == ',') {
        ++*cursor;
    }
    while (kept > 0 && (p[kept - 1] == ' ' || p[kept - 1] == '\t')) {
        kept--;
    }
    snprintf(word, size, "%.*s", (int)(kept < size ? kept : size - 1), p);
    return true;
}

int charl__by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool charl__ends_in(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);

    return n > m && strcmp(s + n - m, suffix) == 0;
}

bool charl__text_matches(const char *pattern, const char *name)
{
    for (; *pattern; pattern++, name++) {
        if (*pattern == '*') {
            for (; !charl__text_matches(pattern + 1, name); name++) {
                if (*name == '\0') {
                    return false;
                }
            }
            return true;
        }
        if (*name == '\0' || (*pattern != '?' && *pattern != *name)) {
            return false;
        }
    }
    return *name == '\0';
}

bool charl__pattern_next(const char **list, charl__pattern *out)
{
    static const char blank[] = " \t\n";
    const char *p = *list + strspn(*list, " \t\n,");
    size_t bytes = strcspn(p, ",");

    *list = p + bytes;
    out->excludes = *p == '!';
    if (out->excludes) {
        const size_t skipped = 1 + strspn(p + 1, blank);

        p += skipped;
        bytes -= skipped;
    }
    while (bytes > 0 && strchr(blank, p[bytes - 1])) {
        bytes--;
    }
    snprintf(out->text, sizeof out->text, "%.*s", (int)bytes, p);
    return out->excludes || bytes > 0;
}

bool charl__patterns_choose(const char *list, const char *name)
{
    charl__pattern p;
    bool chosen = false;

    while (charl__pattern_next(&list, &p)) {
        if (charl__text_matches(p.text, name)) {
            chosen = !p.excludes;
        }
    }
    return chosen;
}

enum { LONGEST = 63 };

/* Edit distance from a to b; INT_MAX if either is too long. */
static int distance(const char *a, const char *b)
{
    int rows[3][LONGEST + 1];
    const size_t na = strlen(a);
    const size_t nb = strlen(b);

    if (na > LONGEST || nb > LONGEST) {
        return INT_MAX;
    }
    for (size_t j = 0; j <= nb; j++) {
        rows[0][j] = (int)j;
    }
    for (size_t i = 1; i <= na; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i - 1) % 3];
        const int *above2 = rows[(i + 1) % 3];

        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);

            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best) {
                best = above2[j - 2] + 1;
            }
            row[j] = best;
        }
    }
    return rows[na % 3][nb];
}

/* Names of other programs for the same thing, one line for each of charl's words. */
static const char *const synonyms[] = {
    "f32 fp32 float32 float single",
    "f16 fp16 float16 half",
    "bf16 bfloat16",
    "int8 i8 q8",
    "silu swish",
    "accuracy acc",
    "cross_entropy ce nll categorical_crossentropy sparse_categorical_crossentropy softmax",
    "mse mean_squared_error l2",
    "l1 mae mean_absolute_error",
    "mae mean_absolute_error l1",
    "rmse root_mean_squared_error",
    "bce binary_cross_entropy binary_crossentropy bce_with_logits logistic",
    "kl kld kl_div kldiv",
    "cosine cosine_annealing cosineannealinglr",
    "linear dense fc fully_connected",
    "conv2d conv convolution",
    "batch_norm bn batchnorm1d batchnorm2d batchnorm3d",
    "layer_norm ln",
    "gpt gpt2 llama transformer",
    "mlp feedforward",
    "gpu cuda",
    "val valid validation dev",
    "epochs epoch n_epochs num_epochs max_epochs",
    "max_steps steps max_iters iterations",
    "batch_size batch bs",
    "learning_rate lr",
    "learning_rate alpha eta",
    "seed random_seed random_state",
    "output_dir out out_dir output",
    "select device",
};

/* Whether `a` equals `b` except for case and separators. */
static bool is_same(const char *a, size_t na, const char *b, size_t nb)
{
    size_t i = 0, j = 0;

    for (;; i++, j++) {
        while (i < na && strchr("-_ ", a[i])) {
            i++;
        }
        while (j < nb && strchr("-_ ", b[j])) {
            j++;
        }
        if (i == na || j == nb) {
            return i == na && j == nb;
        }
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[j])) {
            return false;
        }
    }
}

static bool is_synonym(const char *name, size_t length, const char *candidate)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        const char *word = synonyms[i];
        size_t n = strcspn(word, " ");

        if (n != strlen(candidate) || strncmp(word, candidate, n) != 0) {
            continue;
        }
        while (word[n]) {
            word += n + 1;
            n = strcspn(word, " ");
            if (is_same(name, length, word, n)) {
                return true;
            }
        }
    }
    return false;
}

/* Whether two words mean the same: Adam is adam, fp16 is f16, val/acc is val/accuracy. */
static bool means(const char *name, const char *candidate)
{
    const char *slash = strchr(name, '/'), *other = strchr(candidate, '/');

    if (slash && other && slash - name == other - candidate && strncmp(name, candidate, (size_t)(slash - name)) == 0) {
        name = slash + 1;
        candidate = other + 1;
    }
    return is_same(name, strlen(name), candidate, strlen(candidate)) || is_synonym(name, strlen(name), candidate);
}

bool charl_text_closer(const char *name, const char *candidate, int *best)
{
    if (!name || !candidate || !best) {
        return false;
    }
    const bool same = name[0] && means(name, candidate);
    const int d = same ? 0 : distance(name, candidate);
    const int longest = (int)(strlen(candidate) < LONGEST ? strlen(candidate) : LONGEST);

    if (d >= *best || (!same && (2 * d >= longest || d > (longest < 6 ? 2 : (longest + 2) / 3)))) {
        return false;
    }
    *best = d;
    return true;
}

bool charl__text_is_name(const char *name)
{
    const size_t length = name ? strlen(name) : 0;

    if (length == 0 || length > 255 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return false;
    }
    for (const char *p = name; *p; p++) {
        const unsigned char c = (unsigned char)*p;

        if (c <= ' ' || c == '/' || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* The command line of charl sweep: keys with several values, and the runs that they make. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/charl/sweep.h"

enum { MOST_ARMS = 10000, MOST_VALUES = 10000, VALUE_BYTES = 4000 };

/* Copy `length` bytes of text into memory of s. */
static charl_status keep(charl__sweep *s, const char *text, size_t length, const char **out)
{
    char *copy = NULL, **owned;

    CHARL_TRY(charl__cli_alloc((int64_t)length + 1, 1, &copy));
    memcpy(copy, text, length);
    owned = realloc(s->owned, (size_t)(s->n_owned + 1) * sizeof *owned);
    if (!owned) {
        free(copy);
        CHARL_FAIL(CHARL_ERR_NOMEM, "out of memory");
    }
    s->owned = owned;
    s->owned[s->n_owned++] = copy;
    *out = copy;
    return CHARL_OK;
}

void charl__sweep_fini(charl__sweep *s)
{
    for (int i = 0; i < s->n_keys; i++) {
        free(s->key[i].values);
    }
    for (int i = 0; i < s->n_owned; i++) {
        free(s->owned[i]);
    }
    for (int i = 0; i < s->n_arms; i++) {
        charl_config_destroy(s->arm[i].config);
        free(s->arm[i].refusal);
    }
    free(s->owned);
    free(s->arm);
    *s = (charl__sweep){0};
}

/* Whether a value of the key is one number, word or path, so that commas separate values. */
static charl_status find_kind(const char *name, bool *is_single, bool *is_integer)
{
    static const char *const several[] = {"integers", "list of", "names of", "text", "MEANS", "device", "activation"};
    const char *dot = strrchr(name, '.');
    const size_t section = strcspn(name, " ."); /* "layer" of "layer conv1.kernel" */
    charl_config_key key;

    *is_single = true;
    *is_integer = false;
    for (int i = 0;; i++) {
        CHARL_TRY(charl_config_key_at(i, &key));
        if (!key.name) {
            return CHARL_OK;
        }
        if (strlen(key.section) != section || strncmp(key.section, name, section) != 0 ||
            strcmp(key.name, dot + 1) != 0) {
            continue;
        }
        *is_integer = strncmp(key.values, "integer", 7) == 0;
        for (size_t k = 0; k < sizeof several / sizeof *several; k++) {
            *is_single = *is_single && strncmp(key.values, several[k], strlen(several[k])) != 0;
        }
        *is_single = *is_single && !key.is_list;
    }
}

static charl_status add_value(charl__sweep *s, charl__sweep_key *key, const char *text, size_t length)
{
    const char **values, *value;

    while (length > 0 && isspace((unsigned char)text[0])) {
        text++;
        length--;
    }
    while (length > 0 && isspace((unsigned char)text[length - 1])) {
        length--;
    }
    CHARL_REQUIRE(length < VALUE_BYTES && key->count < MOST_VALUES, CHARL_ERR_CONFIG,
                  "%s: more than %d values, or one of more than %d bytes", key->name, MOST_VALUES, VALUE_BYTES);
    CHARL_TRY(keep(s, text, length, &value));
    for (int i = 0; i < key->count; i++) {
        CHARL_REQUIRE(strcmp(key->values[i], value) != 0, CHARL_ERR_CONFIG, "%s: the value \"%s\" is there twice",
                      key->name, value);
    }
    values = realloc(key->values, (size_t)(key->count + 1) * sizeof *values);
    CHARL_REQUIRE(values, CHARL_ERR_NOMEM, "out of memory");
    key->values = values;
    values[key->count++] = value;
    return CHARL_OK;
}

/* "1e-4..1e-2", also with ":log" behind it. False: it is none. */
static bool read_range(const char *text, charl__sweep_key *key)
{
    const char *dots = strstr(text, "..");
    char low[64], *end = NULL;

    if (!dots || dots == text || dots[2] == '.' || (size_t)(dots - text) >= sizeof low) {
        return false;
    }
    snprintf(low, sizeof low, "%.*s", (int)(dots - text), text);
    key->low = strtod(low, &end);
    if (*end) {
        return false;
    }
    key->high = strtod(dots + 2, &end);
    key->is_log = strcmp(end, ":log") == 0;
    key->is_range = end > dots + 2 && (*end == '\0' || key->is_log);
    return key->is_range;
}

/* An operand KEY=VALUES: fixed if it has one value, else a key of the sweep. */
static charl_status add_operand(charl__sweep *s, const char *operand, const charl__sweep_options *options)
{
    const char *equals = strchr(operand, '='), *text = equals + 1;
    charl__sweep_key key = {0};
    bool is_single, is_integer;

    CHARL_TRY(keep(s, operand, (size_t)(equals - operand), &key.name));
    if (!strchr(key.name, '.')) { /* the configuration says what is wrong with it */
        s->fixed[s->n_fixed++] = (charl_config_override){operand, NULL};
        return CHARL_OK;
    }
    CHARL_TRY(find_kind(key.name, &is_single, &is_integer));
    if (!(is_single && read_range(text, &key)) && !strchr(text, '|') && !(is_single && strchr(text, ','))) {
        s->fixed[s->n_fixed++] = (charl_config_override){operand, NULL};
        return CHARL_OK;
    }
    CHARL_REQUIRE(strcmp(key.name, "run.output_dir") != 0, CHARL_ERR_CONFIG,
                  "%s: each run has its own directory; HINT -o DIR names the one that they are in", operand);
    key.is_integer = is_integer;
    for (int i = 0; i < s->n_keys; i++) {
        CHARL_REQUIRE(strcmp(s->key[i].name, key.name) != 0, CHARL_ERR_CONFIG, "%s is swept twice", key.name);
    }
    CHARL_REQUIRE(s->n_keys < CHARL__SWEEP_KEYS - 1, CHARL_ERR_CONFIG, "more than %d keys are swept",
                  CHARL__SWEEP_KEYS - 1);
    if (key.is_range) {
        CHARL_REQUIRE(options->random > 0, CHARL_ERR_CONFIG,
                      "%s: values of a range are drawn at random; HINT add --random N, or list the values", operand);
        CHARL_REQUIRE(key.low < key.high && (!key.is_log || key.low > 0), CHARL_ERR_CONFIG,
                      "%s: LOW..HIGH must ascend%s", operand, key.is_log ? ", and be above 0 for :log" : "");
    }
    s->key[s->n_keys++] = key;
    while (!key.is_range) {
        const size_t length = strcspn(text, strchr(equals, '|') ? "|" : ",");

        CHARL_TRY(add_value(s, &s->key[s->n_keys - 1], text, length));
        if (!text[length]) {
            break;
        }
        text += length + 1;
    }
    return CHARL_OK;
}

/* The key whose values repeat a configuration: run.seed, by --seeds N the N - 1 numbers after it too, or data.fold. */
static charl_status add_seeds(charl__sweep *s, int64_t n)
{
    charl_config *config = NULL;
    charl__sweep_key *key;
    int64_t first;
    int found = -1;

    for (int i = 0; i < s->n_keys; i++) {
        const bool is_seed = strcmp(s->key[i].name, "run.seed") == 0;

        if (is_seed || strcmp(s->key[i].name, "data.fold") == 0) {
            CHARL_REQUIRE(n == 0 || !is_seed, CHARL_ERR_CONFIG,
                          "the values of run.seed are listed, or --seeds tells their number");
            CHARL_REQUIRE(!s->key[i].is_range, CHARL_ERR_CONFIG, "%s has a list of values, not a range",
                          s->key[i].name);
            CHARL_REQUIRE(n <= 1 && found < 0, CHARL_ERR_CONFIG,
                          "a configuration is repeated for each seed or for each fold, not for both; HINT sweep "
                          "data.fold with one run.seed");
            found = i;
        }
    }
    if (found >= 0) {
        const charl__sweep_key repeated = s->key[found];

        memmove(&s->key[found], &s->key[found + 1], (size_t)(s->n_keys - found - 1) * sizeof repeated);
        s->seed = s->n_keys - 1;
        s->key[s->seed] = repeated;
        return CHARL_OK;
    }
    s->seed = -1;
    if (n <= 1) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_config_load(s->config, s->fixed, s->n_fixed, &config));
    first = charl__cli_int(config, "run.seed");
    charl_config_destroy(config);
    s->seed = s->n_keys;
    key = &s->key[s->n_keys++];
    *key = (charl__sweep_key){.name = "run.seed"};
    for (int64_t i = 0; i < n; i++) {
        char number[32];

        snprintf(number, sizeof number, "%" PRId64, first + i);
        CHARL_TRY(add_value(s, key, number, strlen(number)));
    }
    return CHARL_OK;
}

static void label_keys(charl__sweep *s)
{
    for (int i = 0; i < s->n_keys; i++) {
        charl__sweep_key *key = &s->key[i];

        key->label = strrchr(key->name, '.') + 1;
        for (int k = 0; k < s->n_keys; k++) {
            if (k != i && strcmp(strrchr(s->key[k].name, '.') + 1, strrchr(key->name, '.') + 1) == 0) {
                key->label = key->name;
            }
        }
    }
}

uint64_t charl__sweep_hash(uint64_t h, const char *text)
{
    for (; *text; text++) {
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* A number in [0, 1) of draw `i` of a key, whatever the other keys are. Source of the mixing: splitmix64 (S. Vigna, 2015). */
static double draw(const char *key, int64_t seed, int64_t i)
{
    uint64_t z = charl__sweep_hash(CHARL__SWEEP_HASH, key) + (uint64_t)seed * UINT64_C(0xd1342543de82ef95) +
                 (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* The value of a key in draw i: its index. A number of a range is rounded to 3 digits, which keeps it in the range. */
static charl_status draw_value(charl__sweep *s, charl__sweep_key *key, int64_t seed, int64_t i, int *out)
{
    const double u = draw(key->name, seed, i);
    char text[64];
    double v;

    if (!key->is_range) {
        *out = (int)(u * key->count);
        return CHARL_OK;
    }
    if (key->is_integer) {
        const double low = ceil(key->low), end = floor(key->high) + 1;

        CHARL_REQUIRE(low < end, CHARL_ERR_CONFIG, "%s: there is no integer from %g to %g", key->name, key->low,
                      key->high);
        v = floor(key->is_log ? exp(log(low) + u * (log(end) - log(low))) : low + u * (end - low));
        snprintf(text, sizeof text, "%.0f", fmin(fmax(v, low), end - 1));
    } else {
        v = key->is_log ? exp(log(key->low) + u * (log(key->high) - log(key->low)))
                        : key->low + u * (key->high - key->low);
        snprintf(text, sizeof text, "%.3g", v);
        v = strtod(text, NULL);
        if (v < key->low || v > key->high) {
            snprintf(text, sizeof text, "%g", v < key->low ? key->low : key->high);
        }
    }
    for (*out = 0; *out < key->count && strcmp(key->values[*out], text) != 0; (*out)++) {
    }
    return *out < key->count ? CHARL_OK : add_value(s, key, text, strlen(text));
}

static bool is_drawn(const charl__sweep *s, const charl__sweep_arm *arm, int n)
{
    const int keys = s->seed < 0 ? s->n_keys : s->seed;

    for (int i = 0; i < n; i++) {
        if (memcmp(s->arm[i].value, arm->value, (size_t)keys * sizeof arm->value[0]) == 0) {
            return true;
        }
    }
    return false;
}

/* The configurations, as runs of the first seed: all combinations, or different ones drawn at random. */
static charl_status make_groups(charl__sweep *s, const charl__sweep_options *o)
{
    const int keys = s->seed < 0 ? s->n_keys : s->seed;
    int64_t n = 1;

    for (int k = 0; k < keys && o->random == 0; k++) {
        n *= s->key[k].count;
        CHARL_REQUIRE(n <= MOST_ARMS, CHARL_ERR_CONFIG,
                      "these are more than %d runs; HINT --random N takes some of them", MOST_ARMS);
    }
    n = o->random > 0 ? o->random : n;
    CHARL_REQUIRE(n * (s->seed < 0 ? 1 : s->key[s->seed].count) <= MOST_ARMS, CHARL_ERR_CONFIG,
                  "these are more than %d runs", MOST_ARMS);
    CHARL_TRY(charl__cli_alloc(n * (s->seed < 0 ? 1 : s->key[s->seed].count), sizeof *s->arm, &s->arm));
    for (int64_t i = 0; s->n_groups < n && i < (o->random > 0 ? 100 * n : n); i++) {
        charl__sweep_arm arm = {.group = s->n_groups};
        int64_t rest = i;

        for (int k = keys - 1; k >= 0; k--) { /* the last key varies first */
            if (o->random > 0) {
                CHARL_TRY(draw_value(s, &s->key[k], o->draw_seed, i, &arm.value[k]));
            } else {
                arm.value[k] = (int)(rest % s->key[k].count);
                rest /= s->key[k].count;
            }
        }
        if (!is_drawn(s, &arm, s->n_groups)) {
            s->arm[s->n_groups++] = arm;
        }
    }
    return CHARL_OK;
}

/* "learning_rate=0.001,seed=2", of characters that no shell or file system changes. A name that is long, or not the only one, ends in a hash. */
static void name_arm(charl__sweep *s, charl__sweep_arm *arm)
{
    uint64_t hash = CHARL__SWEEP_HASH;
    size_t used = 0;
    bool is_exact = true;

    for (int k = 0; k < s->n_keys; k++) {
        const charl__sweep_key *key = &s->key[k];
        const char *value = key->values[arm->value[k]];
        const int n =
            snprintf(arm->name + used, sizeof arm->name - used, "%s%s=%s", k > 0 ? "," : "", key->label, value);

        hash = charl__sweep_hash(charl__sweep_hash(hash, key->name), value);
        for (char *p = arm->name + used; *p; p++) {
            if (!isalnum((unsigned char)*p) && !strchr("._+=,-", *p)) {
                is_exact = false;
                *p = '_';
            }
        }
        used += (size_t)n;
        if (used >= sizeof arm->name) {
            is_exact = false;
            break;
        }
    }
    if (!is_exact) {
        used = strlen(arm->name);
        used = used < sizeof arm->name - 10 ? used : sizeof arm->name - 10;
        snprintf(arm->name + used, sizeof arm->name - used, "-%08" PRIx64, hash & 0xffffffff);
    }
}

/* Every configuration with the first seed, then every one with the second: an interrupted sweep has compared all of them. */
static charl_status make_arms(charl__sweep *s)
{
    const int seeds = s->seed < 0 ? 1 : s->key[s->seed].count;

    for (int k = 0; k < seeds; k++) {
        for (int g = 0; g < s->n_groups; g++) {
            charl__sweep_arm *arm = &s->arm[s->n_arms++];

            *arm = s->arm[g];
            arm->parent = -1;
            if (s->seed >= 0) {
                arm->value[s->seed] = k;
            }
            name_arm(s, arm);
            CHARL_REQUIRE(snprintf(arm->dir, sizeof arm->dir, "%s/%s", s->dir, arm->name) < (int)sizeof arm->dir - 64,
                          CHARL_ERR_CONFIG, "the path %.200s... is too long", s->dir);
        }
    }
    return CHARL_OK;
}

/* DIR: -o, or the configuration's own with "-sweep" behind it. */
static charl_status find_dir(charl__sweep *s, const char *dir)
{
    charl_config *config = NULL;
    char text[CHARL__SWEEP_PATH];

    if (dir) {
        s->dir = dir;
        return CHARL_OK;
    }
    CHARL_TRY(charl_config_load(s->config, s->fixed, s->n_fixed, &config));
    snprintf(text, sizeof text, "%.4000s-sweep", charl__cli_text(config, "run.output_dir"));
    charl_config_destroy(config);
    return keep(s, text, strlen(text), &s->dir);
}

charl_status charl__sweep_plan(const charl__cli_operands *operands, const charl__sweep_options *options,
                               charl__sweep *s)
{
    charl_config *config = NULL;

    s->config = operands->values[0];
    for (int i = 1; i < operands->count; i++) {
        CHARL_REQUIRE(charl__cli_is_override(operands->values[i]), CHARL_ERR_CONFIG,
                      "%s: one configuration is swept, %s; HINT what follows it is SECTION.KEY=VALUES",
                      operands->values[i], s->config);
        CHARL_TRY(add_operand(s, operands->values[i], options));
    }
    CHARL_TRY(add_seeds(s, options->seeds));
    if (s->n_keys == 0) { /* a range that is misspelt is no value of its key */
        CHARL_TRY(charl_config_load(s->config, s->fixed, s->n_fixed, &config));
        charl_config_destroy(config);
    }
    CHARL_REQUIRE(s->n_keys > 0, CHARL_ERR_CONFIG,
                  "no key has several values; HINT optimizer.learning_rate=1e-3,3e-3 or --seeds 3");
    CHARL_REQUIRE(options->stop_losers == 0 ||
                      (s->seed >= 0 && s->key[s->seed].count > 3 && strcmp(s->key[s->seed].name, "run.seed") == 0),
                  CHARL_ERR_CONFIG,
                  "--stop-losers compares three seeds before it stops others; HINT add --seeds 4 or more");
    label_keys(s);
    CHARL_TRY(find_dir(s, options->dir));
    CHARL_TRY(make_groups(s, options));
    return make_arms(s);
}

void charl__sweep_settings(const charl__sweep *s, const charl__sweep_arm *arm, char (*text)[CHARL__SWEEP_PATH])
{
    for (int k = 0; k < s->n_keys; k++) {
        snprintf(text[k], CHARL__SWEEP_PATH, "%s=%s", s->key[k].name, s->key[k].values[arm->value[k]]);
    }
}

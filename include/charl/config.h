#ifndef CHARL_CONFIG_H
#define CHARL_CONFIG_H
/** A training configuration: one INI file plus overrides, checked as a whole.
 *
 *      const charl_config_override more = {"train.batch_size=64", "command line"};
 *      charl_config *config = NULL;
 *      int64_t batch;
 *
 *      check(charl_config_load("config.ini", &more, 1, &config));
 *      check(charl_config_get_int(config, "train.batch_size", &batch));
 *      printf("%lld rows in a batch\n", (long long)batch);
 *      charl_config_destroy(config);
 *
 *  Every mistake is an error with file, line, section and key, and all of them are reported at
 *  once. A value that this version cannot honour is refused, never ignored. A charl_config OWNS
 *  everything it points to. It is read-only after loading, so threads may share it.
 *  [layer NAME] sections are kept in file order and interpreted when the model is built.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/dataset.h"
#include "charl/key.h"
#include "charl/nn.h"
#include "charl/optim.h"

CHARL_BEGIN_DECLS

typedef enum charl_recompute {
    CHARL_RECOMPUTE_AUTO,
    CHARL_RECOMPUTE_NO,
    CHARL_RECOMPUTE_CHEAP,
    CHARL_RECOMPUTE_YES
} charl_recompute;
enum { CHARL_LOG_JSONL = 1, CHARL_LOG_CSV = 2, CHARL_LOG_TENSORBOARD = 4 };

typedef struct charl_config charl_config;

/** One value that replaces the file's: "section.key=value". `origin` names where it came from in
 *  messages and in print-config, such as "command line" or "--output-dir"; NULL means "command
 *  line". Borrowed. */
typedef struct charl_config_override {
    const char *text;
    const char *origin;
} charl_config_override;

/** Read and check the file at `path` with the overrides, of which the last of a key wins. Relative paths
 *  in the file are relative to its directory, those in overrides to the current one. *out: owned by
 *  the caller; NULL on failure.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  one line per mistake, "FILE:LINE: [section] key: reason"; also a file that cannot be read
 *          ERR_NOMEM */
charl_status charl_config_load(const char *path, const charl_config_override *overrides, int n_overrides,
                               charl_config **out) CHARL_MUST_CHECK;

/** As charl_config_load, but from `length` bytes of text, at most 1 MiB. `label` is the name of the file in messages,
 *  and relative paths are relative to its directory. All borrowed for the call.
 *
 *  Blocks. Local.
 *  Errors: as charl_config_load. */
charl_status charl_config_parse(const char *label, const char *text, size_t length,
                                const charl_config_override *overrides, int n_overrides,
                                charl_config **out) CHARL_MUST_CHECK;

/** A key of an INI file, or the line of a section: then `key` and `value` are NULL. The texts are borrowed for the
 *  call. Any status but OK ends the reading with it. */
typedef charl_status (*charl_config_item)(void *ctx, const char *section, const char *key, const char *value, int line);

/** Read a file in the syntax of configurations whatever its sections and keys mean, such as that of a sweep, and call
 *  `item` for each section and key, in the order of the file. Blocks. Local. Errors: those of charl_config_load for
 *  the syntax, and those of `item`. */
charl_status charl_config_scan(const char *path, charl_config_item item, void *ctx) CHARL_MUST_CHECK;

/** Free a configuration. NULL is a no-op. Local. */
void charl_config_destroy(charl_config *cfg);

/** `value` as it must stand behind a key in a file, to be read as it is: in quotes and with `$` doubled where needed.
 *  *out: owned by the caller (charl_free). Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl_config_quote(const char *value, char **out) CHARL_MUST_CHECK;

/* Values, by name: "train.batch_size". charl-train --help-config lists the keys; a key of a type that the configuration
 * does not choose, such as optimizer.beta1 with sgd, has no value.
 *
 *     int64_t batch;
 *
 *     CHARL_TRY(charl_config_get_int(config, "train.batch_size", &batch));
 *
 * All are Thread-safe. Errors: ERR_INVALID  no such key, and the message names the nearest one; a key without a value;
 *                                           a key whose values are of another kind, which the message names */

/** Get an integer: the value of an integer key, 0 if it holds a word such as auto; 1 or 0 of a key with yes or no.
 *  A length in tokens is ERR_INVALID: charl_train_info has the steps of a run. Blocks. Local. */
charl_status charl_config_get_int(const charl_config *cfg, const char *key, int64_t *out) CHARL_MUST_CHECK;

/** Get a floating-point number, or a duration in seconds. Blocks. Local. */
charl_status charl_config_get_number(const charl_config *cfg, const char *key, double *out) CHARL_MUST_CHECK;

/** Get a text, a path or one of several words; "" if it is empty. Borrowed from the configuration. Blocks. Local. */
charl_status charl_config_get_text(const charl_config *cfg, const char *key, const char **out) CHARL_MUST_CHECK;

/** Get the settings of the type that a section chooses: "model", "train" (of the loss), "optimizer" or "scheduler". It
 *  is the struct that the type's charl_row describes, such as a charl_gpt_config for model.type = gpt; NULL if the type
 *  has none. Borrowed from the configuration. Blocks. Local. */
charl_status charl_config_get_settings(const charl_config *cfg, const char *section, const void **out) CHARL_MUST_CHECK;

/** Open the data of the configuration, data.path or data.mix. If `draws`, its training stream samples as data.sampling
 *  says, otherwise it gives each sample once. *out: owned, charl_dataset_close.
 *
 *  Blocks. Local. Errors: as charl_dataset_open; ERR_CONFIG  data.path is missing */
charl_status charl_config_open_dataset(const charl_config *cfg, bool draws, charl_dataset **out) CHARL_MUST_CHECK;

/** Options with which charl_dataset_open opens the data of the configuration, each sample once whatever data.sampling
 *  says. Strings are borrowed from the configuration. Local. */
charl_dataset_options charl_config_get_dataset_options(const charl_config *cfg);

/** Notice `index` = 0, 1, ...: something that is accepted but worth knowing, such as a key without effect. Borrowed;
 *  NULL past the last. Local. */
const char *charl_config_get_notice(const charl_config *cfg, int index);

/** Word number `index`, from 0, of a key that holds one of several words: ("train", "precision", 1) gives "bf16";
 *  "?" past the last. Borrowed until the next call on this thread. Local. */
const char *charl_config_choice_name(const char *section, const char *key, int index);

/** Print every key and layer as an INI text that reads back to the same values; paths become absolute.
 *  With `origins` each line ends in a comment that says where the value comes from. *out: owned by
 *  the caller (charl_free).
 *
 *  Blocks. Local.
 *  Errors: ERR_NOMEM, ERR_IO (the current directory has no name) */
charl_status charl_config_print(const charl_config *cfg, bool origins, char **out) CHARL_MUST_CHECK;

/** Compare a configuration with the `text` of another, such as the config.ini of a run or what charl_config_print gave:
 *  a line "[train] epochs = 10 (was 5)" for each key that can change the result of a new run. The place of the data
 *  counts, run.name, run.output_dir and run.resume do not. If lengths of `cfg` alone are in tokens, the data are opened
 *  to compare steps. *out: "" if nothing differs; owned by the caller (charl_free).
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  `text` cannot be parsed, for example because another version of charl wrote it
 *          ERR_NOMEM; those of charl_config_open_dataset */
charl_status charl_config_diff(const charl_config *cfg, const char *text, char **out) CHARL_MUST_CHECK;

/** Print the key table for people: type, default, range and meaning of each key of `section`, or of all
 *  if NULL. *out: owned by the caller (charl_free).
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  no such section
 *          ERR_NOMEM */
charl_status charl_config_help(const char *section, char **out) CHARL_MUST_CHECK;

/* The key table for programs: manual pages, completion, editors. */

/** A key. Strings are static. */
typedef struct charl_config_key {
    const char *section; /* "layer": of the [layer NAME] sections */
    const char *name;
    const char *help;
    const char *values;  /* "integer", "yes or no"; "" where only the words of charl_config_key_word are accepted */
    const char *range;   /* "[0,1)", of numbers; NULL: any */
    const char *chooser; /* the key has an effect where the key `chooser` of the section is `choice`; NULL: always */
    const char *choice;  /* NULL without chooser */
    const char *choice_help; /* what it means, in one line; NULL without chooser */
    bool is_required;        /* has no default */
    bool is_path;            /* a file or folder, or one of the words */
    bool is_list;            /* of words, separated by commas */
    bool may_change;         /* when a run is resumed, with the same result */
    char fallback[128];      /* the default, as text */
} charl_config_key;

/** Describe key `index` = 0, 1, ... in *out. Keys are ordered by section; in each section the keys that always have an
 *  effect come first, then the keys of each choice. Keys of outputs and layers come last. Past the last, out->name is
 *  NULL. Types that a program has registered are included; none can be registered after the first call.
 *
 *  Blocks. Local. Thread-safe.
 *  Errors: ERR_NOMEM */
charl_status charl_config_key_at(int index, charl_config_key *out) CHARL_MUST_CHECK;

/** Copy word i = 0, 1, ... that key `index` accepts to word[64]; *help: what it means, or NULL. False past the last,
 *  and for keys that accept no words. Local. Thread-safe. */
bool charl_config_key_word(int index, int i, char *word, const char **help);

/** Whether another value of the key "section.name" can change the result of a run; true for keys of layers, and for
 *  keys that charl does not know. Local. Thread-safe. */
bool charl_config_key_is_result(const char *key);

/** Find the key that `name` means without its section, or by another program's name: "train.epochs" for epochs. It is
 *  copied to text[size]; with `misspelt` the nearest one if there is no such key. False: none. Local. Thread-safe. */
bool charl_config_nearest_key(const char *name, bool misspelt, char *text, size_t size);

CHARL_END_DECLS

#endif

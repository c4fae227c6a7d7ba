#ifndef CHARL_DATASET_H
#define CHARL_DATASET_H
/** Samples and targets in a file: reading them, checking them, making them from other formats.
 *
 *      const int64_t rows[2] = {0, 5};
 *      int32_t labels[2];
 *      charl_dataset *data = NULL;
 *      charl_dataset_info info;
 *
 *      check(charl_dataset_open("digits.h5", NULL, &data));
 *      charl_dataset_get_info(data, &info);
 *      void *images = malloc(2 * (size_t)charl_shape_count(&info.x_shape) * charl_dtype_size(info.x_dtype));
 *      if (images) {
 *          check(charl_dataset_read(data, CHARL_SPLIT_TRAIN, rows, 2, images, labels));
 *      }
 *      free(images);
 *      charl_dataset_close(data);
 *
 *  A dataset is an HDF5 file, either in charl's layout (datasets/README.md) or any file whose
 *  arrays the options name. Rows are delivered to host memory as they are stored; the trainer
 *  normalises, augments and uploads them. An open dataset never changes: reading is thread-safe,
 *  all other functions must be called from one thread. No function is collective: each rank opens the
 *  file itself.
 */
#include "charl/shape.h"
#include "charl/tokenizer.h"

CHARL_BEGIN_DECLS

typedef struct charl_dataset charl_dataset;

typedef enum charl_split { CHARL_SPLIT_TRAIN, CHARL_SPLIT_VAL, CHARL_SPLIT_TEST, CHARL_SPLIT_COUNT } charl_split;

/** How the training stream is shuffled: not at all; all rows (charl_order_rows); or blocks of adjacent rows of the
 *  file, then rows within a window of blocks (charl_order_blocks). */
typedef enum charl_shuffle { CHARL_SHUFFLE_NO, CHARL_SHUFFLE_ROWS, CHARL_SHUFFLE_BLOCKS } charl_shuffle;

/** Which rows an epoch of the training stream takes, as many as there are: each once, or with replacement, in
 *  proportion to the weights of the samples or each class as often as any other. Weights that choose rows do not count
 *  in the loss too. */
typedef enum charl_sampling { CHARL_SAMPLING_ONCE, CHARL_SAMPLING_WEIGHTED, CHARL_SAMPLING_BALANCED } charl_sampling;

typedef enum charl_dataset_kind {
    CHARL_DATASET_IMAGES,
    CHARL_DATASET_TOKENS,
    CHARL_DATASET_TABLE,
    CHARL_DATASET_REGRESSION,
    CHARL_DATASET_SEQUENCES, /* of tokens, one class or target each; the largest number of x_dtype is padding */
    CHARL_DATASET_KIND_COUNT
} charl_dataset_kind;

/** How to open a file. All members may be zero for a file in charl's layout. Strings are borrowed for the
 *  call. */
typedef struct charl_dataset_options {
    size_t struct_size;  /* sizeof(charl_dataset_options) */
    const char *x;       /* samples in a foreign file, as in "/images"; NULL: charl's layout */
    const char *y;       /* targets in a foreign file; together with x */
    const char *weights; /* weights of the targets in a foreign file; together with y; NULL: none */
    double val_split;    /* [0,1): this last part of the training rows is for validation, if the file
                         has none */
    int64_t classes;     /* number of classes the labels must stay below; 0: as stored, else counted */
    bool unlabelled;     /* targets may be missing (y NULL with x, or no y in the file): to predict */
    /* samples of [height, width, channels] in a foreign file are read as [channels, height, width]; else they are
     * refused */
    bool moves_channels;
    bool fractions; /* targets that are floats must lie from 0 to 1, as labels and probabilities do */
    bool separate;  /* tokens: documents are apart: the first token of each is no target */
    charl_sampling sampling;
    int64_t window;         /* tokens: predictions per sample (a sample reads one token more); ignored
                         otherwise */
    int64_t shuffle_window; /* rows that CHARL_SHUFFLE_BLOCKS shuffles at a time; 0: those of 64 MiB */
    /* decoded chunks of chunked arrays that are kept in memory; 0: CHARL_DATASET_CACHE_BYTES, or three times
     * shuffle_window if that is more */
    int64_t cache_bytes;
    /* that decode chunks or pictures, the reading one among them; 0: CHARL_DATASET_THREADS, or
     * CHARL_DATASET_PICTURE_THREADS */
    int threads;
} charl_dataset_options;
#define CHARL_DATASET_CACHE_BYTES ((int64_t)256 << 20)
enum { CHARL_DATASET_THREADS = 2, CHARL_DATASET_PICTURE_THREADS = 16 };

/** What an open dataset holds. Pointers are borrowed from the dataset. */
typedef struct charl_dataset_info {
    charl_dataset_kind kind;
    const char *path;
    charl_dtype x_dtype;              /* u8, u16, u32 or f32; tokens: i32 */
    charl_shape x_shape;              /* of one sample */
    charl_dtype stored_dtype;         /* of the samples in the file; tokens: u8, u16 or u32 */
    bool labelled;                    /* there are targets; else y_shape is a scalar */
    charl_dtype y_dtype;              /* i32 class labels (-1: not counted) or next tokens, f32 regression targets */
    charl_shape y_shape;              /* of one target; a single label is a scalar */
    int64_t classes;                  /* classes or size of the vocabulary; 0 for regression */
    int64_t rows[CHARL_SPLIT_COUNT];  /* samples; 0: there is no such split */
    int64_t items[CHARL_SPLIT_COUNT]; /* stored rows; tokens: tokens */
    bool val_is_cut;                  /* the validation rows are the last rows of the training array: val_split */
    /* Tokens: documents that begin in the stored split; 0: the file does not tell. */
    int64_t documents[CHARL_SPLIT_COUNT];
    int64_t ignored[CHARL_SPLIT_COUNT]; /* labels, of samples or of pixels, that do not count; tokens: 0 */
    /* Rows that CHARL_SHUFFLE_BLOCKS keeps together, as a chunk of the training samples does; and how many it shuffles
     * at a time. */
    int64_t block_rows, shuffle_window;
    charl_sampling sampling;  /* of the training stream where it is shuffled */
    bool weighted;            /* not all targets count alike */
    int n_stats;              /* channels (images) or columns of mean and std; 0: not stored */
    const float *mean;        /* [n_stats], in the units of x */
    const float *std;         /* [n_stats], never 0 */
    int n_target_stats;       /* numbers of a target, each with a mean and std; 0: not stored */
    const float *target_mean; /* [n_target_stats], in the units of y */
    const float *target_std;  /* [n_target_stats], never 0 */
    const char *layout;       /* "NCHW" ...; "" if not stored */
    const char *fit;          /* images: how pictures were brought to size; "" if not stored */
    const char *class_names;  /* newline-separated; "" if not stored */
    const char *columns;      /* names of a table's columns, newline-separated; "" if not stored */
    const char *targets;      /* names of the targets, newline-separated; "" if not stored */
    const char *recipe;       /* how a table was made of a CSV file (charl_data_schema); "" if of numbers alone */
    const char *tokenizer;    /* type of the tokenizer that made the tokens; "" if not stored */
    bool checksums;           /* the file carries block checksums */
    bool native;      /* HDF5 takes no part in reading, except for finding chunks: several threads can read at once */
    const char *note; /* what is unusual and what it costs; "" if nothing */
    /* what it costs to read the training rows in the order of CHARL_SHUFFLE_ROWS; "" if nothing */
    const char *rows_note;
    char content_id[65]; /* hexadecimal digest of names, shapes and checksums: the same data, the
                            same id. Where there are no checksums they are formed when the file is
                            opened, of large arrays from a part: see charl_dataset_open */
} charl_dataset_info;

/** Open and check a dataset: a file, or where there is none of this name and it holds one of *?[, all files that match,
 *  whose rows then follow one another in the order of the bytes of their names. Checked are: arrays present, allocated,
 *  inside the file, of a known type, x and y equally long; nothing that leads out of the file (links, external
 *  storage). Filters may be in plug-ins of HDF5's. Owned: close it.
 *
 *  Blocks. Local. `opt` may be NULL.
 *  Errors: ERR_DATA  not a regular HDF5 file, or refused; the message names file, array and reason
 *          ERR_IO    reading failed
 *  Cost: a few kB read; all labels when the number of classes is not stored or labels are stored as signed numbers. A
 *  file without checksums is read for content_id: arrays up to 1 GiB whole, of larger ones 1024 blocks of 1 MiB
 *  at even distances; arrays that must be converted or decompressed up to 256 MiB.
 */
charl_status charl_dataset_open(const char *path, const charl_dataset_options *opt,
                                charl_dataset **out) CHARL_MUST_CHECK;

/** Open n data sets of tokens as one, whose training stream takes samples from each in proportion to its weight: of
 *  10,000 consecutive samples as many as the weight says, at places that the seed decides. Each set has the same order
 *  as alone, and restarts when it ends. An epoch has as many samples as all sets together. Validation and test
 *  sets are joined, weights aside.
 *
 *  paths    [n] data sets with the same vocabulary, and the same tokenizer where they carry one; at most 32
 *  weights  [n] positive, in any unit
 *  opt      for each of them; without x and y
 *
 *  Blocks. Local. Errors: as charl_dataset_open; ERR_DATA  not tokens, or of another vocabulary or tokenizer
 *                                                 ERR_CONFIG  a weight that is not positive, or less than a 10,000th of
 *                                                             all */
charl_status charl_dataset_open_mix(const char *const *paths, const double *weights, int n,
                                    const charl_dataset_options *opt, charl_dataset **out) CHARL_MUST_CHECK;

/** Whether HDF5 was built thread-safe, so that several threads may open and read data sets and checkpoints at
 *  once, each its own. Local. */
bool charl_dataset_is_thread_safe(void);

/** Version of the HDF5 library, such as "1.10.8". Borrowed until the next call on this thread. Local. */
const char *charl_dataset_hdf5_version(void);

/** Close the dataset and free its memory. NULL is a no-op. Local. */
void charl_dataset_close(charl_dataset *ds);

/** Describe the contents of a dataset. Local. */
void charl_dataset_get_info(const charl_dataset *ds, charl_dataset_info *out);

/** How the samples lie in the file, a line for each array: "/train/x chunks of 64 x 28 x 28, gzip, shuffle, 11.2 MB
 *  instead of 47 MB". *out: owned by the caller (charl_free). Async. Local. Errors: ERR_NOMEM. */
charl_status charl_dataset_storage(const charl_dataset *ds, char **out) CHARL_MUST_CHECK;

/** Whether samples are made of tokens, which are not normalised: TOKENS and SEQUENCES. Local. */
bool charl_dataset_kind_has_tokens(charl_dataset_kind kind);

/** "images" ... and "train" ...; "?" outside the enum. Local. */
const char *charl_dataset_kind_name(charl_dataset_kind kind);
const char *charl_split_name(charl_split split);

/** x[i] = sample rows[i], y[i] = its target, for i < n.
 *
 *  rows  [n]            read; any order, repetitions allowed
 *  x     [n, x_shape]   x_dtype, written; NULL: not wanted
 *  y     [n, y_shape]   y_dtype, written; NULL: not wanted
 *
 *  Row i of tokens is the window that begins at token i * window; its target is the window one token later. A label of
 *  a class, or of a pixel's class, that is stored as -1 or -100 does not count in the loss, and is delivered as -1.
 *
 *  Blocks. Local. Thread-safe. Deterministic.
 *  Errors: ERR_INVALID  a row is out of range, or there is no such split
 *          ERR_DATA     a checksum differs, a label is out of range, a float is not finite; the message says where
 *          ERR_IO       reading failed
 *  Cost: one read per run of consecutive rows; the first touch of a 1 MiB block reads and checks all of it.
 */
charl_status charl_dataset_read(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n, void *x,
                                void *y) CHARL_MUST_CHECK;

/** out[i] = token first + i of a split, for i < n, as stored (info.stored_dtype), checked against
 *  the vocabulary.
 *
 *  Blocks. Local. Thread-safe. Deterministic. Errors: as charl_dataset_read; ERR_INVALID if not
 *  tokens.
 */
charl_status charl_dataset_read_tokens(charl_dataset *ds, charl_split split, int64_t first, int64_t n,
                                       void *out) CHARL_MUST_CHECK;

/** Read everything once: all checksums, all labels and tokens in range, all floats finite, the
 *  tokenizer whole.
 *
 *  Blocks. Local. Errors: as charl_dataset_read. Cost: reads the whole file.
 */
charl_status charl_dataset_verify(charl_dataset *ds) CHARL_MUST_CHECK;

/** Row at `position` of the training stream: the concatenated orders of all epochs of n rows, where
 *  position / n is the epoch. With `shuffle` each epoch is a permutation keyed by (seed, epoch),
 *  computed per index without a table. Integer arithmetic only: the same on every machine. n >= 1,
 *  position >= 0. Local. Thread-safe.
 */
int64_t charl_order_row(uint64_t seed, int64_t n, bool shuffle, int64_t position);
/** Write the rows of `count` positions, from `position` on, to out, at a third of the cost of charl_order_row.
 *  Local. Thread-safe. */
void charl_order_rows(uint64_t seed, int64_t n, bool shuffle, int64_t position, int64_t count, int64_t *out);

/** The rows of those positions where an epoch is shuffled in blocks, so that few rows far apart in a file are needed at
 *  a time: blocks of `block` consecutive rows are put in an order keyed by (seed, epoch), and the rows of each `window`
 *  / `block` blocks in that order, at least one, are shuffled among themselves. Every row comes once in an epoch. n,
 *  block >= 1. Local. Thread-safe. */
void charl_order_blocks(uint64_t seed, int64_t n, int64_t block, int64_t window, int64_t position, int64_t count,
                        int64_t *out);

/** Where the windows of epoch `position / n` begin: a shift in [0, window) keyed by (seed, epoch);
 *  0 without shuffle. Local. Thread-safe. */
int64_t charl_order_shift(uint64_t seed, int64_t n, bool shuffle, int64_t position, int64_t window);

/** The separator of a CSV file as a user writes it: one character, "tab" or "\\t", "blank" (runs of blanks), or "auto",
 *  which gives 0: detect it. False: the text is none of these (CHARL_CSV_SEPARATOR says so). Local. Thread-safe. */
bool charl_csv_separator(const char *text, char *out);
#define CHARL_CSV_SEPARATOR "must be one character, tab, blank or auto"

/** Common to all importers. All zero: no validation set, no replacing, no notes. */
typedef struct charl_import_options {
    size_t struct_size; /* sizeof(charl_import_options) */
    /* [0,1): fraction of the training rows that becomes the validation set. CSV: a random sample, stratified by class;
     * other formats: the last rows */
    double val_split;
    bool in_order;  /* CSV: the last rows instead */
    uint64_t seed;  /* of that sample */
    bool overwrite; /* replace an existing file */
    bool skip_bad;  /* folders of images: leave out files that cannot be read */
    bool link;      /* folders of images: store where the files are, not their pixels */
    /* Called with lines for the user: what the importer decided. May be NULL. */
    void (*noted)(void *ctx, const char *text);
    void *ctx;
} charl_import_options;

/** Convert IDX files (plain or gzip) of images [n,h,w] u8 and labels [n] u8 to images [n,1,h,w] in
 *  charl's layout at `out`. The second pair may be NULL; it becomes the validation set, or the test
 *  set if val_split > 0. `opt` may be NULL.
 *
 *  All importers: mean and std over the training part are stored; `out` appears whole or not at all.
 *
 *  Blocks. Local. Memory: a few MiB.
 *  Errors: ERR_DATA    a source is missing, truncated or malformed; the message says where
 *          ERR_CONFIG  `out` exists and may not be replaced, or is one of the sources
 *          ERR_DISK    `out` could not be written
 */
charl_status charl_import_idx(const char *const images[2], const char *const labels[2], const char *out,
                              const charl_import_options *opt) CHARL_MUST_CHECK;

/** Convert CIFAR-10 binary batches (3073-byte records) to images [n,3,32,32]: `train` files one
 *  after the other, `test` (may be NULL) as with IDX. Blocks. Local. Errors: as charl_import_idx. */
charl_status charl_import_cifar10(const char *const *train, int n_train, const char *test, const char *out,
                                  const charl_import_options *opt) CHARL_MUST_CHECK;

/** Whether a CSV file has a header line. */
typedef enum charl_csv_header { CHARL_CSV_HEADER_AUTO, CHARL_CSV_HEADER_YES, CHARL_CSV_HEADER_NO } charl_csv_header;
typedef enum charl_csv_decimal {
    CHARL_CSV_DECIMAL_AUTO,
    CHARL_CSV_DECIMAL_POINT,
    CHARL_CSV_DECIMAL_COMMA
} charl_csv_decimal;
/** Order of day, month and year in dates such as 05/06/2024 (dmy or mdy) and 05.06.24. */
typedef enum charl_csv_dates {
    CHARL_CSV_DATES_AUTO,
    CHARL_CSV_DATES_DMY,
    CHARL_CSV_DATES_MDY,
    CHARL_CSV_DATES_YMD
} charl_csv_dates;

/** All zero: the last column is the target, and everything else is detected. A list of columns is names, or indexes
 *  from 0 (negative: from the end), with commas between them; a name with a comma in it is a list of its own. */
typedef struct charl_csv_options {
    size_t struct_size;      /* sizeof(charl_csv_options) */
    const char *label;       /* target column, or a list of several; NULL: the last column */
    bool regression;         /* targets are numbers; else a single one is a class, several are 0 or 1 each */
    char separator;          /* ' ': runs of blanks; 0: detect comma, semicolon, tab, | or runs of blanks */
    int64_t skip;            /* lines before the table that are no part of it */
    charl_csv_header header; /* whether the first line holds the names of the columns */
    const char *columns;     /* a list: take these alone; NULL: all */
    const char *drop;        /* a list: leave these out; NULL: none */
    const char *words;       /* a list: treat these as categorical even if numeric; NULL: none */
    /* How to treat missing values: METHOD, COLUMN:METHOD, or a list of these with commas. drop: the row is left
     * out; mean, median: of the column; flag: the mean, and a column NAME_missing of 0 and 1. NULL: a missing value is
     * an error */
    const char *missing;
    const char *na; /* texts that stand for a missing value, with commas; NULL: none beside the usual ones */
    /* texts that usually stand for a missing value, and are values here, as in "NA,None"; NULL: none */
    const char *values;
    /* AUTO: a comma where numbers have commas, none has a point, and fields are not separated by commas; an error where
     * 1.250 may be 1250. Else the other sign may separate thousands */
    charl_csv_decimal decimal;
    /* AUTO: by a date of the column with a day after the 12th; an error for years with two digits */
    charl_csv_dates dates;
    const char *like; /* a dataset made of a CSV file; NULL: none. Everything but separator and decimal is as there */
} charl_csv_options;

/** Convert a CSV file (RFC 4180) to a table of f32 [n,k] with class labels or regression targets.
 *
 *  With CHARL_CSV_HEADER_AUTO the first line is a header if it contains the name given as `label`,
 *  or if its fields outside the label columns are not numbers. A first line in which some of these
 *  are numbers and others are not is an error: it may be a row with a typing error. The columns of
 *  a header have different names.
 *
 *  A column of numbers is one column of x. A column of words is one-hot encoded: a column NAME=WORD of 0 and 1 for each
 *  word of the training rows, in the order of their bytes; any other word is 0 in all of them. A column of dates is
 *  NAME_days since 1970-01-01, NAME_month (1 to 12), NAME_weekday (0: Monday) and, where it has times, NAME_hour.
 *  Means, medians and words are those of the training rows. A column with numbers and words is an error, as are more
 *  than 256 different words, or more than one for every second row, unless `words` names the column. A first column
 *  without a name that counts the rows is left out.
 *
 *  How each column was converted is the recipe of the data set (charl_data_schema.recipe). With `like` the file is
 *  converted by the recipe and the classes of that data set. Columns are found by their names, and an unknown word is 0
 *  in all its columns. It is ERR_DATA if a column or target is missing, if a class is unknown, or if a value is missing
 *  that the recipe does not fill.
 *
 *  Class labels that are not all integers from 0 are names, at most 100,000; they are stored, and
 *  numbered in the order of their bytes (strcmp), whatever row comes first. The file is read two or three times.
 *
 *  Blocks. Local. Memory: 5 bytes per row, 8 more for each column whose median is asked for. Errors: as
 *  charl_import_idx; ERR_DATA names the line for surplus fields, and for missing or non-numeric ones that no option
 *  provides for; ERR_CONFIG names the column that a list has and the file has not. */
charl_status charl_import_csv(const char *path, const charl_csv_options *csv, const char *out,
                              const charl_import_options *opt) CHARL_MUST_CHECK;

/** Convert two NumPy arrays (.npy, C order): x [n,...] of u8, u16, u32, f32 or (converted to f32)
 *  f64, i8 to i64; y [n] or [n,...] of integers (classes) or floats (targets), or [n] of texts (classes with these
 *  names). x may be an archive (.npz) that has both, and y NULL then. Images [n, height, width, channels] are written
 *  as [n, channels, height, width].
 *  Blocks. Local.
 *  Errors: as charl_import_idx; ERR_DATA names a sample's integer that f32 would round. */
charl_status charl_import_npy(const char *x, const char *y, const char *out,
                              const charl_import_options *opt) CHARL_MUST_CHECK;

/** The arrays of HDF5 files that charl did not write; NULL: files in charl's layout. Both or none.
 *
 *  Where y is "@NAME", the target of an array is the attribute NAME of the array, or of the group nearest to it that
 *  has one: a class (an integer from 0, or text) or, if one is a float, a number. x may then hold * ? [] in the
 *  components of the path, as in a shell, and every array that matches is a sample, or with `stacked` its rows are.
 *  They follow one another in the order of the bytes of their paths; validation rows are chosen as of CSV files. */
typedef struct charl_hdf5_options {
    size_t struct_size;          /* sizeof(charl_hdf5_options) */
    const char *x, *y, *weights; /* weights: how much each row counts; NULL: all alike. Not with "@NAME" */
    bool stacked;                /* rows of each array are samples; with "@NAME" only */
} charl_hdf5_options;

/** Convert the rows of HDF5 files, one file after another, to one file in charl's layout: uncompressed, with checksums
 *  and statistics. Files in that layout are merged, split by split. `hdf5` may be NULL.
 *
 *  files  [n] files, folders, patterns
 *
 *  Blocks. Local. Errors: as charl_dataset_open and charl_dataset_sample. */
charl_status charl_import_hdf5(const char *const *files, int n, const charl_hdf5_options *hdf5, const char *out,
                               const charl_import_options *opt) CHARL_MUST_CHECK;

/** Write n training rows of a data set, 0: all, and its other splits to `out`, in charl's layout. Row order, class,
 *  column and target names and sample weights are kept; statistics are computed from the rows that are written.
 *
 *  opt  seed      chooses the rows, of each class as near to its part as whole rows allow
 *       val_split this part of them becomes the validation set, chosen in the same way
 *       in_order  the first n rows instead, and the last of them for validation
 *       May be NULL.
 *
 *  Blocks. Local. Memory: 13 bytes per row. Errors: as charl_dataset_read and charl_import_idx; ERR_DATA for tokens;
 *  ERR_CONFIG when there are fewer rows, and for val_split where there is a validation set. */
charl_status charl_dataset_sample(charl_dataset *ds, int64_t n, const char *out,
                                  const charl_import_options *opt) CHARL_MUST_CHECK;

/** Divide the rows of a data set among `parts` new files, each as charl_dataset_sample writes it.
 *
 *  fractions  [parts] of the rows of each split, > 0, with the sum 1
 *  outs       [parts]
 *
 *  opt->seed and opt->in_order choose the rows as in charl_dataset_sample; opt->val_split is 0. Blocks. Local. Errors:
 *  as there; ERR_CONFIG for other fractions, and for one that leaves a file without training rows. Files that were
 *  complete before an error stay. */
charl_status charl_dataset_divide(charl_dataset *ds, const double *fractions, const char *const *outs, int parts,
                                  const charl_import_options *opt) CHARL_MUST_CHECK;

/** How a text becomes tokens. Zero is the default of all members.
 *
 *  tokenizer       "bytes", "chars", "bpe", or the path of a tokenizer (charl_tokenizer_load); NULL: "bytes"
 *  vocab           bpe: tokens at most; 0: 4096
 *  special_tokens  of a published tokenizer: their texts stand for them (charl_tokenizer_encode)
 *  field           of .jsonl files: the field that holds the text; NULL: "text"
 *  val_file        the validation set, named as `paths` of charl_import_text are; NULL: none, or by val_split
 *  binary          the files hold bytes of any kind; false: they are text, and what is not UTF-8 is refused */
typedef struct charl_text_options {
    size_t struct_size; /* sizeof(charl_text_options) */
    const char *tokenizer;
    int64_t vocab;
    bool special_tokens;
    const char *field;
    const char *val_file;
    bool binary;
} charl_text_options;

/** Convert texts, plain or gzip, one after another, to tokens (u8, u16 or u32, by the size of the vocabulary).
 *
 *  paths  [n] files; folders, of which the .txt and .jsonl files (also .gz) are read; patterns with *, ? and [], as a
 *         shell would expand them. Folders and patterns in the order of the bytes of the names
 *
 *  A document is a file, or the text of a line of a .jsonl file. Between two documents stands the end-of-text token: of
 *  a published tokenizer charl_tokenizer_get_end_of_text, else the character NUL. The data set holds where documents
 *  begin. With val_split the last part becomes the validation set: of the bytes or characters, or for bpe and published
 *  tokenizers of the text, as bpe is learnt from the first part. `text` may be NULL: bytes.
 *
 *  Blocks. Local. Cost: the text is read twice, and once more for each of chars, bpe and val_split. Memory: a few MiB;
 *  bpe: the training text; a published tokenizer: a run of text without spaces.
 *  Errors: as charl_import_idx, charl_tokenizer_create and charl_tokenizer_load; ERR_DATA names the file and the byte
 *  or line of what is
 *  not UTF-8, not JSON or without the field, and of a NUL in one of several documents; ERR_CONFIG  .jsonl in a charl
 *  built without libjansson */
charl_status charl_import_text(const char *const *paths, int n, const charl_text_options *text, const char *out,
                               const charl_import_options *opt) CHARL_MUST_CHECK;

/** What to do with a conversation that is longer than the window. */
typedef enum charl_chat_longer { CHARL_CHAT_REFUSE, CHARL_CHAT_CUT, CHARL_CHAT_SKIP } charl_chat_longer;

/** How conversations become tokens. Zero is the default of all members.
 *
 *  tokenizer      path of a published tokenizer, or "bytes"; NULL: "bytes"
 *  template_name  "chatml", "llama3", "alpaca", or the path of a JSON object: {"begin": "...", "system": {"before":
 *                 "...", "after": "..."}, "user": {...}, "assistant": {...}}, where {end} is the end-of-text token;
 *                 NULL: "chatml"
 *  window         pack conversations into windows of so many tokens, which cut none; 0: one after another
 *  longer         a charl_chat_longer: refuse a longer conversation, cut off its end, or leave it out
 *  val_file       the validation set, named as `paths` are; NULL: none, or by val_split */
typedef struct charl_chat_options {
    size_t struct_size; /* sizeof(charl_chat_options) */
    const char *tokenizer;
    const char *template_name;
    int64_t window;
    int longer;
    const char *val_file;
} charl_chat_options;

/** Convert conversations, lines of JSON, to tokens with weights: what the assistant says weighs 1, and what ends it,
 *  the rest 0. Each is a document. A line is an object with `messages` (role, content), `conversations` (from, value),
 *  `instruction`, `input` and `output`, or `prompt` and `completion` or `response`. Special tokens are recognized in
 *  the template only. With a window the data set can be read with that window only, and windows do not begin at a
 *  random token.
 *
 *  paths  [n] files, folders and patterns of .jsonl, as with charl_import_text
 *
 *  `chat` may be NULL. val_split takes the last conversations. Blocks. Local. Memory: 5 bytes for each token, twice
 *  with val_split.
 *  Errors: as charl_import_text; ERR_DATA names the line of what is no conversation, and of one that is too long. */
charl_status charl_import_chat(const char *const *paths, int n, const charl_chat_options *chat, const char *out,
                               const charl_import_options *opt) CHARL_MUST_CHECK;

/** How texts with a class each become rows of tokens. Zero is the default of all members.
 *
 *  text, label     columns of CSV files, fields of JSON objects; NULL: "text" and "label"
 *  tokenizer       a type, or path of a published tokenizer, as in charl_text_options; NULL: "bytes"
 *  special_tokens  recognize special tokens in the texts
 *  vocab           of a tokenizer that learns; 0: 4096
 *  window          tokens of a row; 0: as many as the longest text has, at most 512
 *  val_file        the validation set, named as `paths` are; NULL: none, or by val_split */
typedef struct charl_text_classes_options {
    size_t struct_size; /* sizeof(charl_text_classes_options) */
    const char *text, *label, *tokenizer;
    bool special_tokens;
    int64_t vocab, window;
    const char *val_file;
} charl_text_classes_options;

/** Convert texts with a class each to padded sequences: CSV files with a header, and lines of JSON objects. Classes are
 *  the labels in the order of their bytes. A tokenizer that learns does so from all texts. val_split chooses rows of
 *  each class.
 *
 *  paths  [n] files, folders and patterns of .csv, .tsv and .jsonl, as with charl_import_text
 *
 *  `options` may be NULL. Blocks. Local. Memory: 5 bytes for each text, and all texts where a tokenizer learns.
 *  Errors: as charl_import_text; ERR_DATA names the line of a row without text or label. */
charl_status charl_import_text_classes(const char *const *paths, int n, const charl_text_classes_options *options,
                                       const char *out, const charl_import_options *opt) CHARL_MUST_CHECK;

/** Layouts of token files.
 *
 *  AUTO     llm.c's where the file begins as such, else nanoGPT's
 *  LLMC     256 i32 (magic number 20240520 or 20240801, version, number of tokens), then u16 or u32
 *  NANOGPT  u16 */
typedef enum charl_tokens_format { CHARL_TOKENS_AUTO, CHARL_TOKENS_LLMC, CHARL_TOKENS_NANOGPT } charl_tokens_format;

/** What files of tokens hold. Zero is the default of all members.
 *
 *  vocab        size of the vocabulary; 0: the tokenizer's, or the largest token plus one
 *  end_of_text  the token between documents, whose places are stored; NULL: the tokenizer's, or none
 *  val_file     the validation set, named as `paths` of charl_import_tokens are; NULL: none, or by val_split
 *  tokenizer    path of the tokenizer that made the tokens (charl_tokenizer_load), which the data set then carries; the
 *               vocabulary is at least as large. NULL: none */
typedef struct charl_tokens_options {
    size_t struct_size; /* sizeof(charl_tokens_options) */
    int64_t vocab;
    charl_tokens_format format;
    const int32_t *end_of_text;
    const char *val_file;
    const char *tokenizer;
} charl_tokens_options;

/** Convert files of token numbers, little-endian, plain or gzip, one after another.
 *
 *  paths  [n] files; folders, of which the .bin files are read; patterns, as with charl_import_text
 *
 *  `tokens` may be NULL. Blocks. Local. Cost: the files are read once, twice where the size of the vocabulary is not
 *  known. Memory: a few MiB, and 8 bytes for each document. Errors: as charl_import_idx and charl_tokenizer_load;
 *  ERR_DATA names file and byte of a foreign magic number or version, of the end of a truncated file, and of a token
 *  outside the vocabulary. */
charl_status charl_import_tokens(const char *const *paths, int n, const charl_tokens_options *tokens, const char *out,
                                 const charl_import_options *opt) CHARL_MUST_CHECK;

/** Kind i = 0, 1, ... of data that charl_dataset_make generates, and a line about it; NULL past the last. Static
 *  storage. Local. */
const char *charl_make_kind_name(int i);
const char *charl_make_kind_help(int i);

/** What charl_dataset_make is to generate. */
typedef struct charl_make_options {
    size_t struct_size;     /* sizeof(charl_make_options) */
    const char *kind;       /* a charl_make_kind_name */
    int64_t n_train, n_val; /* n_train >= 1 */
    uint64_t seed;
    bool overwrite;
} charl_make_options;

/** Generate a synthetic dataset at `path`: the same options give the same bytes of data on every
 *  machine.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  unknown kind, bad counts, or `path` exists
 *          ERR_DISK    the file could not be written */
charl_status charl_dataset_make(const char *path, const charl_make_options *opt) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif

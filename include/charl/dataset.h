#ifndef CHARL_DATASET_H
#define CHARL_DATASET_H
/** Datasets: reading and checking files of samples and targets, and importing other formats.
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
 *  A dataset is an HDF5 file, either in charl's layout (datasets/README.md) or any file whose arrays the options name.
 *  Rows are read to host memory as they are stored; the trainer uploads, normalizes and augments them. An open dataset
 *  never changes: reading is thread-safe, all other functions must be called from one thread. No function is
 *  collective: each rank opens the file itself.
 */
#include "charl/shape.h"

CHARL_BEGIN_DECLS

/** How an image is fitted to samples of another aspect ratio. */
typedef enum charl_image_fit {
    CHARL_FIT_CROP,    /* crop to the largest centred part of that aspect ratio */
    CHARL_FIT_STRETCH, /* distort */
    CHARL_FIT_PAD,     /* pad with black on both sides */
    CHARL_FIT_COUNT
} charl_image_fit;

/** Name of a fit: "crop", "stretch" or "pad"; "?" outside the enum. Local. */
const char *charl_image_fit_name(charl_image_fit fit);
/** The fit called `name`, or CHARL_FIT_COUNT. Local. */
charl_image_fit charl_image_fit_of(const char *name);

/** The format of decoded samples. */
typedef struct charl_image_format {
    int64_t channels; /* 1: gray (0.299 R + 0.587 G + 0.114 B), or 3: RGB */
    int64_t height, width;
    charl_image_fit fit;
} charl_image_format;

typedef struct charl_dataset charl_dataset;

typedef enum charl_split { CHARL_SPLIT_TRAIN, CHARL_SPLIT_VAL, CHARL_SPLIT_TEST, CHARL_SPLIT_COUNT } charl_split;

/** How the training stream is shuffled: not at all; all rows (charl_order_rows); or blocks of adjacent rows of the
 *  file, then rows within a window of blocks (charl_order_blocks). */
typedef enum charl_shuffle { CHARL_SHUFFLE_NO, CHARL_SHUFFLE_ROWS, CHARL_SHUFFLE_BLOCKS } charl_shuffle;

/** How the rows of an epoch are sampled: each once; or with replacement, in proportion to the weights of the samples,
 *  or every class with the same probability. Weights that are used for sampling are not used in the loss. */
typedef enum charl_sampling { CHARL_SAMPLING_ONCE, CHARL_SAMPLING_WEIGHTED, CHARL_SAMPLING_BALANCED } charl_sampling;

typedef enum charl_dataset_kind {
    CHARL_DATASET_IMAGES,
    CHARL_DATASET_TOKENS,
    CHARL_DATASET_TABLE,
    CHARL_DATASET_REGRESSION,
    CHARL_DATASET_SEQUENCES, /* of tokens, with a class or target each; the largest value of x_dtype is padding */
    CHARL_DATASET_KIND_COUNT
} charl_dataset_kind;

/** How to open a file. All members may be zero for a file in charl's layout. Strings are borrowed for the
 *  call. */
typedef struct charl_dataset_options {
    size_t struct_size; /* sizeof(charl_dataset_options) */
    /* samples in a foreign file, as in "/images"; NULL: charl's layout. Several arrays with names, "image:/a,
     * words:/b:tokens", are delivered side by side as f32 (charl_data_schema.fields) */
    const char *x;
    const char *y;       /* targets in a foreign file; together with x, and with names if x has names */
    const char *weights; /* weights of the targets in a foreign file; together with y; NULL: none */
    double val_split;    /* [0,1): fraction of the training rows, taken from the end, for validation, if the file has
                         no validation set */
    /* 1 to folds: the rows of this fold, of `folds` equal parts of the training rows, are for validation. Each class is
     * spread over the folds evenly; the same on every machine. 0: none */
    int64_t fold, folds;
    int64_t classes; /* labels must be below it; 0: the stored number, else counted */
    bool unlabelled; /* targets may be missing (y NULL with x, or no y in the file), for predictions */
    /* read samples of [height, width, channels] in a foreign file as [channels, height, width]; otherwise they are
     * refused */
    bool moves_channels;
    bool fractions; /* require float targets between 0 and 1, as for labels and probabilities */
    bool separate;  /* tokens: keep documents apart: the first token of each is not a target */
    charl_sampling sampling;
    int64_t window;         /* tokens: predictions per sample (a sample reads one token more); ignored
                         otherwise */
    int64_t shuffle_window; /* rows that CHARL_SHUFFLE_BLOCKS shuffles at a time; 0: those of 64 MiB */
    /* size of the cache of decoded chunks; 0: CHARL_DATASET_CACHE_BYTES, or three times shuffle_window if that is more
     */
    int64_t cache_bytes;
    /* number of threads that decode chunks or images, including the calling one; 0: CHARL_DATASET_THREADS, or
     * CHARL_DATASET_PICTURE_THREADS */
    int threads;
} charl_dataset_options;
#define CHARL_DATASET_CACHE_BYTES ((int64_t)256 << 20)
enum { CHARL_DATASET_THREADS = 2, CHARL_DATASET_PICTURE_THREADS = 16 };

/** Description of an open dataset. Pointers are borrowed from the dataset. */
typedef struct charl_dataset_info {
    charl_dataset_kind kind;
    const char *path;
    charl_dtype x_dtype;              /* u8, u16, u32 or f32; tokens: i32 */
    charl_shape x_shape;              /* of one sample */
    charl_dtype stored_dtype;         /* of the samples in the file; tokens: u8, u16 or u32 */
    bool labelled;                    /* has targets; otherwise y_shape is a scalar */
    charl_dtype y_dtype;              /* i32 class labels (-1: ignored) or next tokens, f32 regression targets */
    charl_shape y_shape;              /* of one target; a single label is a scalar */
    int64_t classes;                  /* classes or size of the vocabulary; 0 for regression */
    int64_t rows[CHARL_SPLIT_COUNT];  /* samples; 0: no such split */
    int64_t items[CHARL_SPLIT_COUNT]; /* stored rows; for tokens the number of tokens */
    bool val_is_cut;                  /* the validation rows are the last rows of the training array: val_split */
    /* Tokens: documents that begin in the stored split; 0: unknown. */
    int64_t documents[CHARL_SPLIT_COUNT];
    int64_t ignored[CHARL_SPLIT_COUNT]; /* labels, of samples or of pixels, that are ignored; tokens: 0 */
    /* Rows of a block of CHARL_SHUFFLE_BLOCKS, usually a chunk of the training samples; and the number of rows that it
     * shuffles at a time. */
    int64_t block_rows, shuffle_window;
    charl_sampling sampling;  /* of the shuffled training stream */
    bool weighted;            /* targets have weights */
    int n_stats;              /* channels (images) or columns of mean and std; 0: not stored */
    const float *mean;        /* [n_stats], in the units of x */
    const float *std;         /* [n_stats], never 0 */
    int n_target_stats;       /* numbers of a target, each with a mean and std; 0: not stored */
    const float *target_mean; /* [n_target_stats], in the units of y */
    const float *target_std;  /* [n_target_stats], never 0 */
    const char *layout;       /* "NCHW" ...; "" if not stored */
    const char *fit;          /* images: how they were fitted to the sample size; "" if not stored */
    const char *class_names;  /* newline-separated; "" if not stored */
    const char *columns;      /* names of a table's columns, newline-separated; "" if not stored */
    const char *targets;      /* names of the targets, newline-separated; "" if not stored */
    const char *recipe;       /* how a CSV file was converted (charl_data_schema); "" if it has only numbers */
    const char *tokenizer;    /* type of the tokenizer that produced the tokens; "" if not stored */
    bool checksums;           /* the file contains block checksums */
    bool native;      /* rows are read without HDF5, which only locates chunks: several threads can read at once */
    const char *note; /* unusual properties and their cost; "" if none */
    /* cost of reading the training rows in the order of CHARL_SHUFFLE_ROWS; "" if none */
    const char *rows_note;
    const char *fields;  /* named inputs and targets (charl_data_schema); "": a sample is one array */
    char content_id[65]; /* hexadecimal digest of names, shapes and checksums: equal for equal data.
                            If the file has no checksums, they are computed when it is opened, for
                            large arrays from a part of the data: see charl_dataset_open */
} charl_dataset_info;

/** Open and check a dataset. If there is no file `path` and the name contains one of *?[, all matching files are opened
 *  and concatenated in the order of the bytes of their names. The function checks that arrays exist, are allocated
 *  inside the file, have a known type, and that x and y have the same length; links and storage outside of the file are
 *  refused. HDF5 filter plug-ins are supported. Owned: close it.
 *
 *  Blocks. Local. `opt` may be NULL.
 *  Errors: ERR_DATA  not a regular HDF5 file, or refused; the message names file, array and reason
 *          ERR_IO    reading failed
 *  Cost: reads a few kB, and all labels if the number of classes is not stored or labels are signed. For content_id a
 *  file without checksums is read: arrays up to 1 GiB (256 MiB if they must be converted or decompressed) completely,
 *  of larger ones 1024 (256) evenly spaced blocks of 1 MiB.
 */
charl_status charl_dataset_open(const char *path, const charl_dataset_options *opt,
                                charl_dataset **out) CHARL_MUST_CHECK;

/** Open n datasets of tokens as one, whose training stream takes samples from each in proportion to its weight. The
 *  shares of 10,000 consecutive samples are exact; the seed decides their places. Each dataset has the same order as
 *  alone, and restarts when it ends. An epoch has as many samples as all datasets together. Validation and test sets
 *  are concatenated, without weights.
 *
 *  paths    [n] datasets with the same vocabulary, and the same tokenizer if they contain one; at most 32
 *  weights  [n] positive, in any unit
 *  opt      for each of them; without x and y
 *
 *  Blocks. Local. Errors: as charl_dataset_open; ERR_DATA    not tokens, or different vocabularies or tokenizers
 *                                                ERR_CONFIG  a weight is not positive, or less than a 10,000th of the
 *                                                            sum */
charl_status charl_dataset_open_mix(const char *const *paths, const double *weights, int n,
                                    const charl_dataset_options *opt, charl_dataset **out) CHARL_MUST_CHECK;

/** Take elements [first, first + count) of the samples of a split from other rows from now on: from row
 *  charl_order_row(seed, rows, true, row). So columns of a table lose what they say of their row, and keep their
 *  distribution. Targets and weights stay. count 0: samples are as they are again.
 *
 *  Blocks. Local. Thread-safe; reads that have begun end as they began.
 *  Errors: ERR_INVALID  no such elements, or tokens; ERR_NOMEM. */
charl_status charl_dataset_permute(charl_dataset *ds, charl_split split, int64_t first, int64_t count,
                                   uint64_t seed) CHARL_MUST_CHECK;

/** Whether HDF5 was built thread-safe, so that several threads may open and read different datasets and checkpoints at
 *  the same time. Local. */
bool charl_dataset_is_thread_safe(void);

/** Version of the HDF5 library, such as "1.10.8". Borrowed until the next call on this thread. Local. */
const char *charl_dataset_hdf5_version(void);

/** Close the dataset and free its memory. NULL is a no-op. Local. */
void charl_dataset_close(charl_dataset *ds);

/** Describe the contents of a dataset. Local. */
void charl_dataset_get_info(const charl_dataset *ds, charl_dataset_info *out);

/** Describe how the samples are stored, a line for each array: "/train/x chunks of 64 x 28 x 28, gzip, shuffle, 11.2 MB
 *  instead of 47 MB". Release *out with charl_free. Async. Local. Errors: ERR_NOMEM. */
charl_status charl_dataset_storage(const charl_dataset *ds, char **out) CHARL_MUST_CHECK;

/** Names of kinds ("images", ...) and splits ("train", ...); "?" outside the enum. Local. */
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
 *  Cost: one read per run of consecutive rows; the first access to a 1 MiB block reads and checks all of it.
 */
charl_status charl_dataset_read(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n, void *x,
                                void *y) CHARL_MUST_CHECK;

/** out[i] = token first + i of a split, for i < n, as stored (info.stored_dtype). Checks that tokens are in the
 *  vocabulary.
 *
 *  Blocks. Local. Thread-safe. Deterministic. Errors: as charl_dataset_read; ERR_INVALID if not
 *  tokens.
 */
charl_status charl_dataset_read_tokens(charl_dataset *ds, charl_split split, int64_t first, int64_t n,
                                       void *out) CHARL_MUST_CHECK;

/** Bytes [first, first + count) of a file. */
typedef struct charl_byte_range {
    int64_t first, count;
} charl_byte_range;

/** Visit the files of a data set, in the order in which they are named, with the bytes that nothing has needed since it
 *  was opened: blocks of samples and targets that were not read, of contiguous arrays whose checksums are in the file.
 *
 *  A copy of the file in which they are zeros opens as this file does, with the same content_id, and delivers the rows
 *  that were read; reading others fails. Everything else of a file counts as needed. `visit` gets n ranges of a file,
 *  which ascend and do not touch.
 *
 *  Async. Local. Not while others read. Errors: ERR_CONFIG  rows are in other files, which an array refers to; those of
 *  `visit`; ERR_NOMEM. */
charl_status charl_dataset_unread(charl_dataset *ds,
                                  charl_status (*visit)(void *ctx, const char *path, const charl_byte_range *unread,
                                                        int64_t n),
                                  void *ctx) CHARL_MUST_CHECK;

/** Read and check everything: checksums, ranges of labels and tokens, that floats are finite, and the tokenizer.
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

/** Write the rows of `count` positions of a stream that is shuffled in blocks, so that rows that are needed together
 *  lie close together in the file: blocks of `block` consecutive rows are permuted by (seed, epoch), then the rows of
 *  each window / block consecutive blocks, at least one, are shuffled. Every row occurs once in an epoch. n, block >=
 *  1.
 *  Local. Thread-safe. */
void charl_order_blocks(uint64_t seed, int64_t n, int64_t block, int64_t window, int64_t position, int64_t count,
                        int64_t *out);

/** Offset of the windows of epoch position / n: in [0, window), a function of (seed, epoch); 0 without shuffle. Local.
 *  Thread-safe. */
int64_t charl_order_shift(uint64_t seed, int64_t n, bool shuffle, int64_t position, int64_t window);

/** How a dataset is written. All zero: no validation set, no replacing, no notes. */
typedef struct charl_import_options {
    size_t struct_size; /* sizeof(charl_import_options) */
    /* [0,1): fraction of the training rows that becomes the validation set: of formats that shuffle
     * (charl_importer.shuffles) a random sample, stratified by class; of others the last rows */
    double val_split;
    bool in_order;  /* take the last rows instead, for all formats */
    uint64_t seed;  /* of the random sample */
    bool overwrite; /* replace an existing file */
    /* Called with messages for the user about what the importer decided. May be NULL. */
    void (*noted)(void *ctx, const char *text);
    void *ctx;
} charl_import_options;

/** Write n training rows of a dataset, 0: all, and its other splits to `out`, in charl's layout. Row order, class,
 *  column and target names and sample weights are kept; statistics are computed from the rows that are written.
 *
 *  opt  seed      chooses the rows, with the proportions of the classes as far as whole rows allow
 *       val_split fraction of them that becomes the validation set, chosen in the same way
 *       in_order  the first n rows instead, and the last of them for validation
 *       May be NULL.
 *
 *  Blocks. Local. Memory: 13 bytes per row. Errors: as charl_dataset_read and charl_import; ERR_DATA for tokens;
 *  ERR_CONFIG if there are fewer rows, or val_split is set and there is a validation set. */
charl_status charl_dataset_sample(charl_dataset *ds, int64_t n, const char *out,
                                  const charl_import_options *opt) CHARL_MUST_CHECK;

/** Divide the rows of a dataset among `parts` new files, each as charl_dataset_sample writes it.
 *
 *  fractions  [parts] of the rows of each split, > 0, with the sum 1
 *  outs       [parts]
 *
 *  opt->seed and opt->in_order choose the rows as in charl_dataset_sample; opt->val_split is 0. Blocks. Local. Errors:
 *  as there; ERR_CONFIG for other fractions, and for one that leaves a file without training rows. Files that were
 *  complete before an error stay. */
charl_status charl_dataset_divide(charl_dataset *ds, const double *fractions, const char *const *outs, int parts,
                                  const charl_import_options *opt) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif

#ifndef CHARL_DATASET_H
#define CHARL_DATASET_H
/** Samples and targets in a file: reading them, checking them, making them from other formats.
 *
 *  A dataset is an HDF5 file, either in charl's layout (datasets/README.md) or any file whose
 * arrays the options name. Rows are delivered to host memory as they are stored; normalisation,
 * augmentation and upload are the trainer's. An open dataset never changes: reading is thread-safe,
 * every other function belongs to one thread. Nothing here is collective: each rank opens the file
 * for itself.
 */
#include "charl/shape.h"
#include "charl/tokenizer.h"

CHARL_BEGIN_DECLS

typedef struct charl_dataset charl_dataset;

typedef enum charl_split { CHARL_SPLIT_TRAIN, CHARL_SPLIT_VAL, CHARL_SPLIT_TEST, CHARL_SPLIT_COUNT } charl_split;

typedef enum charl_dataset_kind {
    CHARL_DATASET_IMAGES,
    CHARL_DATASET_TOKENS,
    CHARL_DATASET_TABLE,
    CHARL_DATASET_REGRESSION,
    CHARL_DATASET_KIND_COUNT
} charl_dataset_kind;

/** How to open a file; all zero is right for a file in charl's layout. Strings are borrowed for the
 * call. */
typedef struct charl_dataset_options {
    const char *x;    /* samples in a foreign file, as in "/images"; NULL: charl's layout */
    const char *y;    /* targets in a foreign file; together with x */
    double val_split; /* [0,1): this last part of the training rows is for validation, if the file
                         has none */
    int64_t classes;  /* number of classes the labels must stay below; 0: as stored, else counted */
    bool unlabelled;  /* targets may be missing (y NULL with x, or no y in the file): to predict */
    int64_t window;   /* tokens: predictions per sample (a sample reads one token more); ignored
                         otherwise */
} charl_dataset_options;

/** What an open dataset holds. Pointers are borrowed from the dataset. */
typedef struct charl_dataset_info {
    charl_dataset_kind kind;
    const char *path;
    charl_dtype x_dtype;              /* u8, u16, u32 or f32; tokens: i32 */
    charl_shape x_shape;              /* of one sample */
    charl_dtype stored_dtype;         /* of the samples in the file; tokens: u8, u16 or u32 */
    bool labelled;                    /* there are targets; else y_shape is a scalar */
    charl_dtype y_dtype;              /* i32 class labels or next tokens, f32 regression targets */
    charl_shape y_shape;              /* of one target; a single label is a scalar */
    int64_t classes;                  /* classes or size of the vocabulary; 0 for regression */
    int64_t rows[CHARL_SPLIT_COUNT];  /* samples; 0: there is no such split */
    int64_t items[CHARL_SPLIT_COUNT]; /* stored rows; tokens: tokens */
    int n_stats;                      /* channels (images) or columns of mean and std; 0: not stored */
    const float *mean;                /* [n_stats], in the units of x */
    const float *std;                 /* [n_stats], never 0 */
    const char *layout;               /* "NCHW" ...; "" if not stored */
    const char *fit;                  /* images: how pictures were brought to size; "" if not stored */
    const char *class_names;          /* newline-separated; "" if not stored */
    const char *columns;              /* names of a table's columns, newline-separated; "" if not stored */
    const char *targets;              /* names of the targets, newline-separated; "" if not stored */
    const char *tokenizer;            /* kind of the tokenizer that made the tokens; "" if not stored */
    bool checksums;                   /* the file carries block checksums */
    bool native;                      /* rows are read directly, not through HDF5 */
    const char *note;                 /* what is unusual and what it costs; "" if nothing */
    char content_id[65];              /* hexadecimal digest of names, shapes and checksums: the same data, the
                            same id. Where there are no checksums they are formed when the file is
                            opened, of large arrays from a part: see charl_dataset_open */
} charl_dataset_info;

/** Open and check a dataset: arrays present, allocated, inside the file, of a known type, x and y
 * equally long; nothing that leads out of the file (links, external storage) and nothing that needs
 * a plugin. Owned: close it.
 *
 *  Blocks. Local. `opt` may be NULL.
 *  Errors: ERR_DATA  not a regular HDF5 file, or refused; the message names file, array and reason
 *          ERR_IO    reading failed
 *  Cost: a few kB read; all labels when the number of classes is not stored. A file without
 *  checksums is read for content_id: arrays up to 1 GiB whole, of larger ones 1024 blocks of 1 MiB
 * at even distances; arrays that HDF5 must convert or decompress up to 256 MiB.
 */
charl_status charl_dataset_open(const char *path, const charl_dataset_options *opt,
                                charl_dataset **out) CHARL_MUST_CHECK;

/** Check that the file is still what was opened, by size and times of the open file. After a change
 * of those, blocks that have been read since the last check but one are compared with their
 * checksums at once, all others when they are next read; so a file whose times alone have changed
 * is read on. Every read does the same, at most once a second; call it where what was read so far
 * is about to be trusted, as before a checkpoint.
 *
 *  Blocks. Local. Thread-safe. Errors: ERR_DATA  the file was cut or holds other data, or it was
 * written to and has no checksums of all its blocks; ERR_IO. Cost: one fstat; after a change the
 * blocks read lately. */
charl_status charl_dataset_check(charl_dataset *ds) CHARL_MUST_CHECK;

/** Whether several threads may open and read data sets and checkpoints at once, each its own: HDF5
 * can be built so or not. Local. */
bool charl_dataset_is_thread_safe(void);

/** Version of the HDF5 library, such as "1.10.8". Borrowed until the next call on this thread. Local. */
const char *charl_dataset_hdf5_version(void);

/** Give everything back. NULL is a no-op. Local. */
void charl_dataset_close(charl_dataset *ds);

/** What is in it. Local. */
void charl_dataset_get_info(const charl_dataset *ds, charl_dataset_info *out);

/** "images" ... and "train" ...; "?" outside the enum. Local. */
const char *charl_dataset_kind_name(charl_dataset_kind kind);
const char *charl_split_name(charl_split split);

/** x[i] = sample rows[i], y[i] = its target, for i < n.
 *
 *  rows  [n]            read; any order, repetitions allowed
 *  x     [n, x_shape]   x_dtype, written; NULL: not wanted
 *  y     [n, y_shape]   y_dtype, written; NULL: not wanted
 *
 *  Row i of tokens is the window that begins at token i * window; its target is the window one
 * token later. Blocks. Local. Thread-safe. Deterministic. Errors: ERR_INVALID  a row is out of
 * range, or there is no such split ERR_DATA     a checksum differs, a label is out of range, a
 * float is not finite; the message says where ERR_IO       reading failed Cost: one read per run of
 * consecutive rows; the first touch of a 1 MiB block reads and checks all of it.
 */
charl_status charl_dataset_read(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n, void *x,
                                void *y) CHARL_MUST_CHECK;

/** Windows of tokens at any positions: x[i] = tokens[starts[i], + window), y[i] the same one token
 * later.
 *
 *  Blocks. Local. Thread-safe. Deterministic. Errors: as charl_dataset_read; ERR_INVALID if not
 * tokens.
 */
charl_status charl_dataset_read_at(charl_dataset *ds, charl_split split, const int64_t *starts, int64_t n, void *x,
                                   void *y) CHARL_MUST_CHECK;

/** out[i] = token first + i of a split, for i < n, as stored (info.stored_dtype), checked against
 * the vocabulary.
 *
 *  Blocks. Local. Thread-safe. Deterministic. Errors: as charl_dataset_read; ERR_INVALID if not
 * tokens.
 */
charl_status charl_dataset_read_tokens(charl_dataset *ds, charl_split split, int64_t first, int64_t n,
                                       void *out) CHARL_MUST_CHECK;

/** Read everything once: all checksums, all labels and tokens in range, all floats finite, the
 * tokenizer whole.
 *
 *  Blocks. Local. Errors: as charl_dataset_read. Cost: reads the whole file.
 */
charl_status charl_dataset_verify(charl_dataset *ds) CHARL_MUST_CHECK;

/** Row at `position` of the training stream: the epochs' orders of n rows one after the other,
 * position / n being the epoch. With `shuffle` each epoch is a permutation keyed by (seed, epoch),
 * computed per index without a table. Integer arithmetic only: the same on every machine. n >= 1,
 * position >= 0. Local. Thread-safe.
 */
int64_t charl_order_row(uint64_t seed, int64_t n, bool shuffle, int64_t position);
/** The same for `count` positions from `position` on, at a third of the cost each, into out. Local.
 * Thread-safe. */
void charl_order_rows(uint64_t seed, int64_t n, bool shuffle, int64_t position, int64_t count, int64_t *out);

/** Where the windows of epoch `position / n` begin: a shift in [0, window) keyed by (seed, epoch);
 * 0 without shuffle. Local. Thread-safe. */
int64_t charl_order_shift(uint64_t seed, int64_t n, bool shuffle, int64_t position, int64_t window);

/** Common to all importers. */
typedef struct charl_import_options {
    double val_split; /* [0,1): the last part of the training rows becomes the validation set */
    bool overwrite;   /* replace an existing file */
} charl_import_options;

/** Convert IDX files (plain or gzip) of images [n,h,w] u8 and labels [n] u8 to images [n,1,h,w] in
 * charl's layout at `out`. The second pair may be NULL; it becomes the validation set, or the test
 * set if val_split > 0. `opt` may be NULL.
 *
 *  All importers: mean and std over the training part are stored; `out` appears whole or not at
 * all. Blocks. Local. Memory: a few MiB. Errors: ERR_DATA    a source is missing, truncated or
 * malformed; the message says where ERR_CONFIG  `out` exists and may not be replaced ERR_DISK `out`
 * could not be written
 */
charl_status charl_import_idx(const char *const images[2], const char *const labels[2], const char *out,
                              const charl_import_options *opt) CHARL_MUST_CHECK;

/** Convert CIFAR-10 binary batches (3073-byte records) to images [n,3,32,32]: `train` files one
 * after the other, `test` (may be NULL) as with IDX. Blocks. Local. Errors: as charl_import_idx. */
charl_status charl_import_cifar10(const char *const *train, int n_train, const char *test, const char *out,
                                  const charl_import_options *opt) CHARL_MUST_CHECK;

/** What a CSV file means. */
typedef enum charl_csv_header { CHARL_CSV_HEADER_AUTO, CHARL_CSV_HEADER_YES, CHARL_CSV_HEADER_NO } charl_csv_header;

typedef struct charl_csv_options {
    const char *label;       /* column of the target, by header name or index from 0 (negative: from the
                          end); NULL: the last; or several columns with commas between them */
    bool regression;         /* targets are numbers; else one is a class, and several are each 0 or 1 */
    char separator;          /* 0: comma */
    charl_csv_header header; /* whether the first line holds the names of the columns */
} charl_csv_options;

/** Convert a CSV file (RFC 4180) to a table of f32 [n,k] with class labels or regression targets.
 *
 *  With CHARL_CSV_HEADER_AUTO the first line is a header if it contains the name given as `label`,
 *  or if its fields outside the label columns are not numbers. A first line in which some of these
 *  are numbers and others are not is an error: it may be a row with a typing error. The columns of
 *  a header have different names.
 *
 *  Class labels that are not all integers from 0 are names, at most 100,000; they are stored, and
 *  numbered in the order of their bytes (strcmp), whatever row comes first. The file is read twice.
 *
 *  Blocks. Local. Errors: as charl_import_idx; ERR_DATA names the line for missing, surplus or
 *  non-numeric fields. */
charl_status charl_import_csv(const char *path, const charl_csv_options *csv, const char *out,
                              const charl_import_options *opt) CHARL_MUST_CHECK;

/** Convert two NumPy arrays (.npy, C order): x [n,...] of u8, u16, u32, f32 or (converted to f32)
 * f64, i8 to i64; y [n] or [n,...] of integers (classes) or floats (targets). Blocks. Local.
 * Errors: as charl_import_idx. */
charl_status charl_import_npy(const char *x, const char *y, const char *out,
                              const charl_import_options *opt) CHARL_MUST_CHECK;

/** How a text becomes tokens. */
typedef struct charl_text_options {
    charl_tokenizer_kind tokenizer;
    int64_t vocab; /* bpe: tokens at most; 0: 4096 */
} charl_text_options;

/** Convert n text files, plain or gzip, one after the other, to tokens (u8, u16 or u32, by the size
 * of the vocabulary), with the tokenizer. With val_split the last part becomes the validation set:
 * of the bytes or characters, or for bpe of the text, as the tokenizer is then learnt from the
 * first part. `text` may be NULL: bytes.
 *
 *  Blocks. Local. Memory: a few MiB for bytes, else the text. Errors: as charl_import_idx; chars:
 * ERR_DATA names the file and byte that is not UTF-8; bpe: as charl_tokenizer_create. */
charl_status charl_import_text(const char *const *paths, int n, const charl_text_options *text, const char *out,
                               const charl_import_options *opt) CHARL_MUST_CHECK;

/** Convert a file of token numbers: llm.c's (1 KiB header; u16 or u32) or, without that header,
 * nanoGPT's plain little-endian u16. `vocab` is the size of the vocabulary, 0: the largest token
 * plus one. The file is read twice.
 *
 *  Blocks. Local. Errors: as charl_import_idx; ERR_DATA for a token outside the vocabulary. */
charl_status charl_import_tokens(const char *path, int64_t vocab, const char *out,
                                 const charl_import_options *opt) CHARL_MUST_CHECK;

/** What charl_dataset_make can generate. */
typedef struct charl_make_options {
    const char *kind;       /* "digits": 28x28 images of ten classes; "regression": a smooth function of 8
                         columns with noise */
    int64_t n_train, n_val; /* n_train >= 1 */
    uint64_t seed;
    bool overwrite;
} charl_make_options;

/** Generate a synthetic dataset at `path`: the same options give the same bytes of data on every
 * machine.
 *
 *  Blocks. Local. Errors: ERR_CONFIG  unknown kind, bad counts, or `path` exists   ERR_DISK  could
 * not be written */
charl_status charl_dataset_make(const char *path, const charl_make_options *opt) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif

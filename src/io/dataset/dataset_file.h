#ifndef CHARL_IO_DATASET_DATASET_FILE_H
#define CHARL_IO_DATASET_DATASET_FILE_H
/** The arrays of a dataset file: checked once, then read by rows.
 *
 *  The stored elements of an array come from one of four places and are then converted unless they have the delivered type:
 *
 *      contiguous   pread, from a descriptor that was opened before HDF5 looked at the file
 *      chunked      chunks that are decoded by several threads and kept (chunks.h)
 *      pictures     files decoded in the same way (pictures/pictures.h)
 *      otherwise    HDF5, one thread at a time: compact arrays
 *
 *  The rows of a virtual array, and of several files joined to one set, are read from the arrays that contain them.
 *
 *  After charl__file_seal reading is thread-safe.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/text/text.h"
#include "charl/shape.h"
#include "io/dataset/chunks/chunks.h"
#include "io/h5.h"
#include "io/h5_element.h"

enum { CHARL__ARRAY_NAME = 256, CHARL__BLOCK_BYTES = 1 << 20, CHARL__MAX_ITEM_BYTES = 1 << 30 };

/* Identity of a file's contents by its metadata; a change of the contents changes at least one of them. */
typedef struct charl__file_stamp {
    int64_t bytes;
    struct timespec modified, changed;
} charl__file_stamp;

typedef struct charl__file {
    char *path;
    int fd; /* -1: not open */
    hid_t h5;
    int64_t bytes;
    bool is_source; /* of a virtual array */
    charl__text note;
    /* see dataset_change.c */
    struct charl__array *arrays; /* borrowed; since it was sealed */
    int n_arrays;
    charl__file_stamp stamp;
    pthread_mutex_t looking;
    atomic_int_fast64_t looked_ms; /* time of the last comparison */
    atomic_uint looks;             /* number of checks begun, from CHARL__BLOCK_READ on */
    unsigned good;                 /* the last check that found no change */
    atomic_int generation;         /* number of changes: blocks verified before one are verified again */
    atomic_uint read_unchecked;    /* as block_state, for everything without checksums */
} charl__file;

/* State of a block of a file: unknown; verified by its checksum; or verified, and rows
 * of it were read when this was the number of checks of the file. */
enum { CHARL__BLOCK_UNKNOWN, CHARL__BLOCK_CHECKED, CHARL__BLOCK_READ };

/** Possible contents of an array. */
typedef enum charl__role {
    CHARL__ROLE_SAMPLES, /* u8 u16 u32 f32 */
    CHARL__ROLE_TARGETS, /* u8 i32 i64 f32 */
} charl__role;

typedef struct charl__pictures charl__pictures;

enum { CHARL__MEANING_MISSING = 8 };

/** The class that a stored number represents. */
typedef struct charl__class_number {
    double stored;
    char *name; /* owned */
} charl__class_number;

/** Meaning of an array's stored numbers v, from its attributes: the value is scale * v + offset, or missing if v is one of
 *  `missing`, below `least` or above `most`. If v is the number of a class, the value is the index of v in `classes`. */
typedef struct charl__meaning {
    bool says;                    /* anything */
    charl__class_number *classes; /* [n_classes] ascending; NULL: stored numbers are the indexes */
    int64_t n_classes;
    int channels;      /* which extent in the file is channels; -1: unspecified */
    bool is_one_image; /* the array is not a list of samples */
    bool scaled;
    double scale, offset, least, most;
    int n_missing;
    double missing[CHARL__MEANING_MISSING];
    const char *missing_name[CHARL__MEANING_MISSING]; /* the attribute, static */
} charl__meaning;

typedef struct charl__array {
    char name[CHARL__ARRAY_NAME]; /* "/train/x" */
    charl_dtype dtype;            /* of the bytes that charl__array_read delivers */
    charl_shape item;             /* of one row */
    int64_t rows;
    size_t item_bytes;
    charl__element stored;
    charl__meaning meaning;
    int32_t *labels;           /* all of them if targets are text; NULL: in the file */
    char *class_names;         /* in lines, of text and of enumerations; NULL: none */
    bool interleaved;          /* rows of the file are [h, w, c], and are delivered as [c, h, w] */
    int64_t matlab[2];         /* extents in the file of a MATLAB array, the last of which is rows; 0: another array */
    bool converted;            /* delivered bytes differ from the stored ones */
    bool fractions;            /* floats that must lie from 0 to 1 */
    int64_t offset;            /* of row 0 in the file; -1: not contiguous */
    charl__chunks *chunks;     /* NULL: not chunked */
    charl__pictures *pictures; /* rows are decoded from files, each a chunk (pictures/pictures.h); NULL: no */
    struct charl__array_part *part; /* [n_parts] of an array in several files; NULL: in one */
    int n_parts;
    bool packed;                         /* the parts are other arrays, whose rows stand side by side, as f32 */
    bool zeros;                          /* in no file: f32 rows of 0 */
    struct charl__array_source **source; /* [n_sources] of a virtual array */
    int n_sources;
    hid_t dataset, type; /* only while offset is -1 or the file is not sealed */
    int64_t n_blocks;    /* 0: no checksums */
    bool is_summed;      /* they are not from the file: charl__array_sum computed them */
    uint32_t *block_crc;
    atomic_uint *block_state; /* CHARL__BLOCK_... */
} charl__array;

/* Not open: valid for charl__array_fini. */
#define CHARL__ARRAY_CLOSED                                                                                            \
    {                                                                                                                  \
        .offset = -1, .dataset = H5I_INVALID_HID, .type = H5I_INVALID_HID                                              \
    }

/** Rows of an array in several files: those of one file. Of a packed array: one of the arrays. */
typedef struct charl__array_part {
    charl__file *file;   /* borrowed */
    charl__array *array; /* borrowed */
    int64_t first, rows; /* of the whole: rows [first, first + rows); packed: all rows, from element `first` on */
    int64_t from, per;   /* of `array`: row `from` is the first, and `per` rows of it are one of the whole */
} charl__array_part;

/** An array whose rows a virtual array presents. */
typedef struct charl__array_source {
    charl__file file;
    charl__array array;
} charl__array_source;

/** Open the arrays whose rows the virtual array `a` presents; they become its parts. plist: its creation property list. Errors: ERR_DATA if
 *  a source is missing or not as the virtual array says, is virtual itself, if rows have no source, or if a source provides
 *  anything but contiguous whole rows; those of charl__file_init and charl__array_init. */
charl_status charl__array_open_virtual(charl__array *a, charl__file *f, charl__role role, hid_t plist) CHARL_MUST_CHECK;
void charl__array_close_sources(charl__array *a);

/** Add the rows of `more` to those of `a`, which begins as all zero. Both are borrowed. Errors: ERR_DATA if its rows have another
 *  type or shape; ERR_NOMEM. */
charl_status charl__array_join(charl__array *a, charl__file *f, charl__array *more) CHARL_MUST_CHECK;

/** Add the elements of each row of `more` to those of the packed array `a`, which begins as all zero. Both are borrowed. Errors: ERR_DATA if rows get
 *  too large; ERR_NOMEM. */
charl_status charl__array_pack(charl__array *a, charl__file *f, charl__array *more) CHARL_MUST_CHECK;

/** Open `path`, a regular HDF5 file, for reading. f is caller's storage; fini even after a failure.
 *  Errors: ERR_DATA, ERR_IO. */
charl_status charl__file_init(charl__file *f, const char *path) CHARL_MUST_CHECK;
void charl__file_fini(charl__file *f);

/** Whether `name` (absolute) exists; soft links in the file are followed. Errors: ERR_DATA if a link leads out of the file. */
charl_status charl__file_find(charl__file *f, const char *name, bool *found) CHARL_MUST_CHECK;

/** Open and check one array and its checksums (/crc + name), if any. a is caller's storage; fini
 *  even after a failure. */
charl_status charl__array_init(charl__array *a, charl__file *f, const char *name, charl__role role) CHARL_MUST_CHECK;
void charl__array_fini(charl__array *a);

/** Read the attributes of a->dataset into a->meaning and a->stored. Errors: ERR_DATA if they say that the values are not numbers, or
 *  use an encoding that charl cannot undo; the message names array, attribute and a workaround. */
charl_status charl__meaning_read(charl__file *f, charl__array *a, charl__role role) CHARL_MUST_CHECK;

/** The numbers of an attribute of a->dataset, at most `most`; *n is 0 without it. Errors: ERR_DATA if it has other values. */
charl_status charl__meaning_numbers(const charl__file *f, const charl__array *a, const char *name, double *out,
                                    int most, int *n) CHARL_MUST_CHECK;
/** Read the attributes about the extents of samples into a->meaning. Errors: ERR_DATA for an order that charl does not read. */
charl_status charl__meaning_layout(const charl__file *f, charl__array *a) CHARL_MUST_CHECK;
/** Whether samples `item` of the array are images with the channels last. */
bool charl__array_is_channels_last(const charl__array *a, const charl_shape *item);

/** Read targets that are text: the array's labels and class names, with rows, shape and types. Errors: ERR_DATA if they are not a list of
 *  lines; ERR_NOMEM. */
charl_status charl__labels_read(charl__file *f, charl__array *a, hid_t space) CHARL_MUST_CHECK;
/** Read which numbers of the targets are which classes, if given by an enumeration or flag_values and flag_meanings, into a->class_names
 *  and a->meaning. Errors: ERR_DATA unless they give a name to each of several different numbers; ERR_NOMEM. */
charl_status charl__labels_of_numbers(const charl__file *f, charl__array *a) CHARL_MUST_CHECK;
void charl__labels_free_numbers(charl__meaning *m);
/** The number of an element as a class: its index, or -1 or -100, which do not count, or -2 if it is none. */
int32_t charl__labels_place(const charl__meaning *m, double stored);

/** Deliver rows of [h, w, c] as [c, h, w]. */
void charl__array_move_channels(charl__array *a);

/** Check n rows of stored elements, beginning with row number `first`; if a->meaning.scaled, write their values as f32, and
 *  if it has classes their indexes as i32.
 *  Thread-safe. Errors: ERR_DATA, naming row, element and attribute. */
charl_status charl__meaning_decode(const charl__file *f, const charl__array *a, int64_t first, const void *stored,
                                   int64_t n, void *dst) CHARL_MUST_CHECK;

/** Close HDF5 unless one of the n arrays needs it. From here on changes of the file are detected, and chunks are cached in `cache`.
 *  The arrays and the cache are borrowed. Errors: ERR_NOMEM. */
charl_status charl__file_seal(charl__file *f, charl__array *arrays, int n, charl__chunk_cache *cache) CHARL_MUST_CHECK;

/** Prepare reading n rows, where row i is first + rows[i], or first + i if rows is NULL: *done is how many were prepared, at least one. They
 *  are then read fastest in this order. Thread-safe. Errors: as charl__array_read. */
charl_status charl__array_prepare(charl__array *a, const int64_t *rows, int64_t first, int64_t n,
                                  int64_t *done) CHARL_MUST_CHECK;

/** Rows [first, first + n) into dst, verified: checksums of their blocks, floats finite.
 *  Thread-safe. */
charl_status charl__array_read(charl__file *f, charl__array *a, int64_t first, int64_t n, void *dst) CHARL_MUST_CHECK;

/** Read all of it, and verify every checksum and every float. */
charl_status charl__array_verify(charl__file *f, charl__array *a) CHARL_MUST_CHECK;

/** A checksum of the array's contents: from its block checksums or, if it has none, from the data it
 *  reads: all of it, whose checksums are then kept as if they were the file's, or a sample of a large array.
 *  Not while others read. Errors: ERR_IO, ERR_DATA, ERR_NOMEM. Cost: reads up to 1 GiB with all
 *  processors, or 256 MiB through HDF5. */
charl_status charl__array_sum(charl__file *f, charl__array *a, uint32_t *out) CHARL_MUST_CHECK;

/** Compare block `block` of an array with its checksum. Thread-safe. Errors: ERR_DATA, ERR_IO,
 *  ERR_NOMEM. */
charl_status charl__array_check_block(charl__file *f, charl__array *a, int64_t block) CHARL_MUST_CHECK;

/** Record the metadata of the file just opened. Errors: ERR_IO. */
charl_status charl__file_stamp_read(charl__file *f) CHARL_MUST_CHECK;

/** Whether the file system now reports other metadata. For messages. Thread-safe. */
bool charl__file_is_changed(charl__file *f);

/** Check whether the file has changed since it was opened; without `now` at most once a second.
 *  If so, recently read blocks are verified at once and all others when they are
 *  next read. Thread-safe. Errors: ERR_DATA if it was truncated, if a block differs, or if it was
 *  written to and lacks checksums; ERR_IO; ERR_NOMEM. */
charl_status charl__file_look(charl__file *f, bool now) CHARL_MUST_CHECK;

/** The floats `name` of array `object` ("/train/x"): a 1-D attribute, or, if there are too many
 *  for one, the array /stats/NAME. A new array (charl_free); NULL and 0 if absent. */
charl_status charl__file_stats(charl__file *f, const char *object, const char *name, float **out,
                               int64_t *n) CHARL_MUST_CHECK;

/** Text attribute of `object` as a new string (charl_free) that replaces *out, NULL or owned; "" if absent. */
charl_status charl__file_text(charl__file *f, const char *object, const char *name, char **out) CHARL_MUST_CHECK;

/** A list of names: the text attribute `name` of the file or, if it is too long for one, the
 *  array /names/NAME of bytes. A new string that replaces *out, as above; "" if absent. */
charl_status charl__file_names(charl__file *f, const char *name, char **out) CHARL_MUST_CHECK;

#endif

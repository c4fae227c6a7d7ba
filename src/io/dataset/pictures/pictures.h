#ifndef CHARL_IO_DATASET_PICTURES_PICTURES_H
#define CHARL_IO_DATASET_PICTURES_PICTURES_H
/** Arrays whose rows stay in image files: a row is decoded whenever it is read.
 *
 *      /train/x         u8 [n, channels, height, width], never written. Its checksums (/crc/train/x) are those of the decoded rows, so
 *                       the set has the same content_id as a set that holds them
 *      /files/train/x   u8 [n, width]: for each row the CRC-32C of its pixels (4 bytes, little-endian) and the path of its file, ended by
 *                       NUL: absolute, or relative to the folder of the data set
 *
 *  For its readers each row is a chunk (chunks.h): several threads decode, and memory is bounded. A row whose pixels have another
 *  checksum is an error: the file was changed, or another libjpeg rounds differently.
 */
#include "base/text/text.h"
#include "charl/dataset.h"
#include "io/dataset/dataset_file.h"

enum { CHARL__PICTURE_PATH = 4 }; /* offset of the path in a record */

/** charl_image_read, which libcharl-train sets when it is loaded. */
typedef charl_status charl__picture_reader(const char *path, const charl_image_format *format, unsigned char *out);
void charl__pictures_set_reader(charl__picture_reader *read);

/** The image files of `a`, whose type and shape are known; *out is NULL if there is no list of files. Errors: ERR_DATA if the list
 *  is damaged or does not fit, or the first file is missing; ERR_IO, ERR_NOMEM. */
charl_status charl__pictures_open(charl__file *f, charl__array *a, charl__pictures **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__pictures_close(charl__pictures *p);
/** The list of files. */
charl__array *charl__pictures_list(charl__pictures *p);

/** The name of a folder in records of a data set at `path`: relative to the data set's folder if it is inside, else absolute; ends in a slash
 *  unless it is "". Errors: ERR_CONFIG if one of them does not exist, ERR_NOMEM. */
charl_status charl__pictures_root(const char *path, const char *folder, charl__text *out) CHARL_MUST_CHECK;
/** Fill in the record of file `name` below `root`, which has these pixels. It must have room for the path and be zero. */
void charl__pictures_record(const char *root, const char *name, const void *pixels, size_t bytes,
                            unsigned char *record);

#endif

#ifndef CHARL_IO_H5_DRIVER_H
#define CHARL_IO_H5_DRIVER_H
/** The file driver of charl's HDF5 files, whose first error is permanent.
 *
 *  HDF5 cannot unwind from a failed write: closing the file fails, and the library crashes when the
 *  process ends. This driver reports success to HDF5 for every write and records the first failure in a
 *  block that belongs to the caller and outlives H5Fclose; from then on nothing more is written to the
 *  file. So a writer must write, close, then call charl__h5_io_check.
 *
 *  It retries after signals, completes short transfers, opens regular files only (a FIFO would block
 *  forever), takes no locks, and passes the fault points io.open io.read io.eintr io.short
 *  io.enospc io.eio io.write io.flip io.truncate io.close where the argument is the errno to report
 *  (io.flip: the byte within the write whose lowest bit is flipped).
 */
#include <hdf5.h>

#include "base/error.h"

/** Belongs to the caller; must outlive every file opened with it. One file at a time. */
typedef struct charl__h5_io {
    int fd;         /* use this descriptor (it is duplicated, not closed) instead of opening the name; -1:
               open the name */
    int error;      /* errno of the first failure; 0: none */
    const char *op; /* the failed operation: "open", "write" ... */
    int64_t reads, writes;
    int64_t bytes_read, bytes_written;
} charl__h5_io;

/** File access properties with the driver, format bounds V110..V110 and 4096-byte alignment. Release
 *  them with charl__h5_close. `io` is reset except for io->fd, and borrowed until the file is
 *  closed. Errors: ERR_NOMEM. */
charl_status charl__h5_driver_fapl(charl__h5_io *io, hid_t *out) CHARL_MUST_CHECK;

/** Whether everything written so far reached the operating system. `needed` is the size of the
 *  whole file, for the message. Errors: ERR_DISK (ERR_NOMEM for ENOMEM) naming path, operation,
 *  bytes needed and bytes free. */
charl_status charl__h5_io_check(const charl__h5_io *io, const char *path, int64_t needed) CHARL_MUST_CHECK;

#endif

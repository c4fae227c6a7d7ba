/* A virtual file driver over pread and pwrite. Its one invariant: the write, truncate and close
 * callbacks always report success to HDF5, and after the first failure the file is not touched
 * again.
 */
#include "io/h5_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "io/commit.h"
#include "io/h5.h"
#include "io/progress.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

/* pub must come first: HDF5 passes it back as H5FD_t. */
typedef struct driver_file {
    H5FD_t pub;
    charl__h5_io *io;
    int fd;
    haddr_t eoa, eof;
    charl__writeback writeback;
} driver_file;

typedef struct driver_info {
    charl__h5_io *io;
} driver_info;

static void note(charl__h5_io *io, const char *op, int err)
{
    if (io->error == 0) {
        io->error = err ? err : EIO;
        io->op = op;
    }
}

/* The errno to report at fault point `name`, 0 if it does not fire. */
static int injected(const char *name, int usual)
{
    int64_t arg = 0;

    if (!charl__fault_arg(name, &arg)) {
        return 0;
    }
    return arg > 0 && arg < 4096 ? (int)arg : usual;
}

static int open_flags(unsigned flags)
{
    int f = O_CLOEXEC | O_NONBLOCK | O_NOCTTY; /* not to block on a file that is not regular */

    f |= (flags & H5F_ACC_RDWR) ? O_RDWR : O_RDONLY;
    f |= (flags & H5F_ACC_CREAT) ? O_CREAT : 0;
    f |= (flags & H5F_ACC_EXCL) ? O_EXCL : 0;
    return f;
}

/* A descriptor of a regular file, or -1 with *err set. */
static int open_descriptor(const charl__h5_io *io, const char *name, unsigned flags, struct stat *s, int *err)
{
    int fd = -1;

    *err = injected("io.open", EIO);
    if (*err) {
        return -1;
    }
    fd = io->fd >= 0 ? fcntl(io->fd, F_DUPFD_CLOEXEC, 0) : open(name, open_flags(flags), 0666);
    if (fd < 0) {
        *err = errno;
        return -1;
    }
    if (fstat(fd, s) != 0) {
        *err = errno;
    } else if (!S_ISREG(s->st_mode)) {
        *err = EINVAL;
    } else if ((flags & H5F_ACC_TRUNC) && s->st_size > 0) {
        *err = ftruncate(fd, 0) != 0 ? errno : 0;
        s->st_size = 0;
    }
    if (*err) {
        close(fd);
        return -1;
    }
    return fd;
}

static H5FD_t *driver_open(const char *name, unsigned flags, hid_t fapl, haddr_t maxaddr)
{
    const driver_info *info = H5Pget_driver_info(fapl);
    driver_file *f = NULL;
    struct stat s;
    int err = 0;

    (void)maxaddr;
    if (!info) {
        return NULL;
    }
    if (charl__alloc(sizeof *f, &f) != CHARL_OK) {
        note(info->io, "open", ENOMEM);
        return NULL;
    }
    if (charl__acquire("file descriptor") != CHARL_OK) {
        note(info->io, "open", ENOMEM);
        charl_free(f);
        return NULL;
    }
    f->io = info->io;
    f->fd = open_descriptor(f->io, name, flags, &s, &err);
    if (f->fd < 0) {
        note(f->io, "open", err);
        charl__drop();
        charl_free(f);
        return NULL;
    }
    f->eof = (haddr_t)s.st_size;
    return &f->pub;
}

static herr_t driver_close(H5FD_t *pub)
{
    driver_file *f = (driver_file *)pub;
    const int err = injected("io.close", EIO);

    if (close(f->fd) != 0 && errno != EINTR) {
        note(f->io, "close", errno);
    }
    if (err) {
        note(f->io, "close", err);
    }
    charl__drop();
    charl_free(f);
    return 0;
}

static herr_t driver_query(const H5FD_t *pub, unsigned long *flags)
{
    (void)pub;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t driver_get_eoa(const H5FD_t *pub, H5FD_mem_t type)
{
    (void)type;
    return ((const driver_file *)pub)->eoa;
}

static herr_t driver_set_eoa(H5FD_t *pub, H5FD_mem_t type, haddr_t addr)
{
    (void)type;
    ((driver_file *)pub)->eoa = addr;
    return 0;
}

static haddr_t driver_get_eof(const H5FD_t *pub, H5FD_mem_t type)
{
    (void)type;
    return ((const driver_file *)pub)->eof;
}

/* One attempt to read: the number of bytes, or -errno. */
static ssize_t read_some(const driver_file *f, char *at, size_t size, haddr_t addr)
{
    ssize_t n;

    if (charl__fault("io.eintr")) {
        return -EINTR;
    }
    n = pread(f->fd, at, size, (off_t)addr);
    return n < 0 ? -errno : n;
}

static herr_t driver_read(H5FD_t *pub, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t size, void *buffer)
{
    driver_file *f = (driver_file *)pub;
    char *at = buffer;
    int err = injected("io.read", EIO);

    (void)type;
    (void)dxpl;
    f->io->reads++;
    while (size > 0 && !err) {
        const ssize_t n = read_some(f, at, size, addr);

        if (n < 0) {
            err = n == -EINTR ? 0 : (int)-n;
            continue;
        }
        if (n == 0) { /* HDF5 reads ahead past the end of the file and expects zeros there */
            memset(at, 0, size);
            break;
        }
        at += n;
        addr += (haddr_t)n;
        size -= (size_t)n;
        f->io->bytes_read += n;
    }
    if (err) {
        note(f->io, "read", err);
        return -1;
    }
    return 0;
}

/* One attempt to write: the number of bytes, or -errno. */
static ssize_t write_some(driver_file *f, const char *at, size_t size, haddr_t addr)
{
    ssize_t n;
    int err;

    if (charl__fault("io.eintr")) {
        return -EINTR;
    }
    if ((err = injected("io.enospc", ENOSPC)) || (err = injected("io.eio", EIO)) || (err = injected("io.write", EIO))) {
        return -err;
    }
    if (size > 1 && charl__fault("io.short")) {
        size /= 2;
    }
    n = pwrite(f->fd, at, size < CHARL__PIECE ? size : CHARL__PIECE, (off_t)addr);
    return n < 0 ? -errno : n;
}

/* Flip one bit of what was just written, like a faulty disk or cable. */
static void flip(driver_file *f, const void *buffer, size_t size, haddr_t addr)
{
    int64_t arg = 0;

    if (size > 0 && charl__fault_arg("io.flip", &arg)) {
        const size_t byte = (size_t)arg % size;
        const unsigned char wrong = ((const unsigned char *)buffer)[byte] ^ 1U;

        if (pwrite(f->fd, &wrong, 1, (off_t)(addr + byte)) != 1) {
            note(f->io, "write", errno);
        }
    }
}

static herr_t driver_write(H5FD_t *pub, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t size, const void *buffer)
{
    driver_file *f = (driver_file *)pub;
    const char *at = buffer;
    const haddr_t start = addr, end = addr + size;
    size_t left = size;
    int err;

    (void)type;
    (void)dxpl;
    f->io->writes++;
    while (left > 0 && f->io->error == 0) {
        const ssize_t n = write_some(f, at, left, addr);

        if (n > 0) {
            at += n;
            addr += (haddr_t)n;
            left -= (size_t)n;
            f->io->bytes_written += n;
            err = charl__writeback_step(&f->writeback, f->fd, (int64_t)addr);
            if (err) {
                note(f->io, "write", err);
            }
            charl__progress_made();
        } else if (n != -EINTR) {
            note(f->io, "write", n < 0 ? (int)-n : ENOSPC);
        }
    }
    if (f->io->error == 0) {
        flip(f, buffer, size, start);
    }
    f->eof = end > f->eof ? end : f->eof;
    return 0;
}

static herr_t driver_flush(H5FD_t *pub, hid_t dxpl, hbool_t closing)
{
    (void)pub;
    (void)dxpl;
    (void)closing;
    return 0; /* the commit protocol calls fsync once, after the close */
}

static herr_t driver_truncate(H5FD_t *pub, hid_t dxpl, hbool_t closing)
{
    driver_file *f = (driver_file *)pub;
    int err = 0;

    (void)dxpl;
    (void)closing;
    if (f->eoa == f->eof) {
        return 0;
    }
    if (f->io->error == 0) {
        err = injected("io.truncate", EIO);
        if (!err && ftruncate(f->fd, (off_t)f->eoa) != 0) {
            err = errno;
        }
        if (err) {
            note(f->io, "truncate", err);
        }
    }
    f->eof = f->eoa;
    return 0;
}

static const H5FD_class_t driver_class = {
#if H5_VERSION_GE(1, 13, 0)
    .version = H5FD_CLASS_VERSION,
    .value = 600,
#endif
    .name = "charl",
    .maxaddr = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(driver_info),
    .open = driver_open,
    .close = driver_close,
    .query = driver_query,
    .get_eoa = driver_get_eoa,
    .set_eoa = driver_set_eoa,
    .get_eof = driver_get_eof,
    .read = driver_read,
    .write = driver_write,
    .flush = driver_flush,
    .truncate = driver_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* The driver, registered once for the life of the process: HDF5 1.10 drops a closing file's
 * reference to its driver before it looks up the driver's close function, so the last reference
 * must never be a file's. */
static hid_t registered_driver(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static hid_t driver = H5I_INVALID_HID;
    hid_t out;

    pthread_mutex_lock(&lock);
    if (driver < 0 || H5Iget_type(driver) != H5I_VFL) { /* the first time, or after H5close */
        driver = H5FDregister(&driver_class);
    }
    out = driver;
    pthread_mutex_unlock(&lock);
    return out;
}

charl_status charl__h5_driver_fapl(charl__h5_io *io, hid_t *out)
{
    CHARL_H5_SCOPE;
    const hid_t driver = registered_driver();
    CHARL_SCOPED(charl__h5_close) hid_t fapl = H5I_INVALID_HID;
    const driver_info info = {io};

    *out = H5I_INVALID_HID;
    *io = (charl__h5_io){.fd = io->fd};
    CHARL_REQUIRE(driver >= 0, CHARL_ERR_NOMEM, "HDF5 does not take the file driver");
    CHARL_H5_OPEN(CHARL_ERR_NOMEM, fapl, H5Pcreate(H5P_FILE_ACCESS), "HDF5 access properties");
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_driver(fapl, driver, &info), "HDF5 file driver");
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110), "HDF5 format bounds");
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_alignment(fapl, 4096, 4096), "HDF5 alignment");
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG), "HDF5 close degree");
    *out = fapl;
    fapl = H5I_INVALID_HID;
    return CHARL_OK;
}

charl_status charl__h5_io_check(const charl__h5_io *io, const char *path, int64_t needed)
{
    CHARL_REQUIRE(io->error != ENOMEM, CHARL_ERR_NOMEM, "%s: out of memory in %s", path, io->op);
    if (io->error) {
        CHARL_TRY(charl__disk_error(path, io->op, io->error, needed));
    }
    return CHARL_OK;
}

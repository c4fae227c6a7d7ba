/* Compression of pages. zlib is part of charl; the libraries of snappy and zstd are opened when a file needs them, so charl builds, installs and
 * runs without them. Declares the functions of their stable binary interfaces that it uses. They are never closed. */
#include <dlfcn.h>
#include <pthread.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "data/parquet/parquet_private.h"

enum { PLAIN, SNAPPY, GZIP, LZO, BROTLI, LZ4, ZSTD, LZ4_RAW };

static struct {
    int (*snappy)(const char *, size_t, char *, size_t *);
    size_t (*zstd)(void *, size_t, const void *, size_t);
    unsigned (*zstd_failed)(size_t);
} libraries;

static void load(void)
{
    void *snappy = dlopen("libsnappy.so.1", RTLD_NOW | RTLD_LOCAL),
         *zstd = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);

    if (snappy) {
        *(void **)&libraries.snappy = dlsym(snappy, "snappy_uncompress");
    }
    if (zstd) {
        *(void **)&libraries.zstd = dlsym(zstd, "ZSTD_decompress");
        *(void **)&libraries.zstd_failed = dlsym(zstd, "ZSTD_isError");
    }
}

static const char *name_of(int codec)
{
    static const char *const names[] = {"none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4"};

    return codec >= 0 && codec < (int)(sizeof names / sizeof *names) ? names[codec]
                                                                     : "a compression that charl does not know";
}

charl_status charl__parquet_expansion(const char *where, int codec, int64_t n, int64_t *most)
{
    enum { GZIP_MOST = 1032, SNAPPY_MOST = 64 }; /* snappy: a copy of 64 bytes takes at least two */

    CHARL_REQUIRE(
        codec == PLAIN || codec == SNAPPY || codec == GZIP || codec == ZSTD, CHARL_ERR_DATA,
        "%s is compressed with %s, which charl does not read; HINT it reads gzip, snappy and zstd: in Python, "
        "pandas.read_parquet(FILE).to_parquet(NEW, compression='zstd')",
        where, name_of(codec));
    *most = codec == PLAIN ? n : codec == ZSTD ? INT64_MAX : n * (codec == GZIP ? GZIP_MOST : SNAPPY_MOST);
    return CHARL_OK;
}

/* zlib's own format and that of gzip. */
static charl_status inflate_all(unsigned char *from, size_t n, unsigned char *to, size_t bytes, bool *whole)
{
    enum { EITHER = 32 + MAX_WBITS };
    z_stream z = {.next_in = from, .avail_in = (uInt)n, .next_out = to, .avail_out = (uInt)bytes};
    int status;

    CHARL_TRY(charl__acquire("zlib stream"));
    status = inflateInit2(&z, EITHER);
    if (status == Z_OK) {
        status = inflate(&z, Z_FINISH);
        (void)inflateEnd(&z);
    }
    charl__drop();
    CHARL_REQUIRE(status != Z_MEM_ERROR, CHARL_ERR_NOMEM, "out of memory for decompressing");
    *whole = status == Z_STREAM_END && z.avail_out == 0;
    return CHARL_OK;
}

charl_status charl__parquet_unpack(const char *where, int codec, unsigned char *from, size_t n, unsigned char *to,
                                   size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool whole = true;

    if (codec == PLAIN) {
        memcpy(to, from, bytes);
    } else if (codec == GZIP) {
        CHARL_TRY(inflate_all(from, n, to, bytes, &whole));
    } else {
        const bool missing = charl__fault("parquet.no_library");
        size_t got = bytes;

        pthread_once(&once, load);
        CHARL_REQUIRE(!missing &&
                          (codec == SNAPPY ? libraries.snappy != NULL : libraries.zstd && libraries.zstd_failed),
                      CHARL_ERR_DATA,
                      "%s is compressed with %s, and %s is not installed; HINT on Debian and Ubuntu: "
                      "`apt-get install %s`",
                      where, name_of(codec), codec == SNAPPY ? "libsnappy.so.1" : "libzstd.so.1",
                      codec == SNAPPY ? "libsnappy1v5" : "libzstd1");
        if (codec == SNAPPY) {
            whole = libraries.snappy((const char *)from, n, (char *)to, &got) == 0 && got == bytes;
        } else {
            got = libraries.zstd(to, bytes, from, n);
            whole = !libraries.zstd_failed(got) && got == bytes;
        }
    }
    CHARL_REQUIRE(whole, CHARL_ERR_DATA, "%s: damaged: %s does not decompress", where, name_of(codec));
    return CHARL_OK;
}

/* Detects the kind of a file. Binary formats are detected by their first bytes, text by its first lines and the name, folders by their contents. */
#include "io/kind.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/text/text.h"
#include "base/text/utf8.h"
#include "io/h5.h"

enum { HEAD = 8192, NAME = 1024, MOST_ENTRIES = 2000, HINT = 1024 };

#define IMPORT(format, options) "convert it: `charl data import " format " %P" options " -o %S.h5`", format
#define IMPORT_ARRAYS                                                                                                  \
    "name its arrays in a configuration (data.x and data.y), or convert it: `charl data import hdf5 %P --x NAME --y "  \
    "NAME -o %S-charl.h5`",                                                                                            \
        "hdf5"
#define START_WITH "`charl train CONFIG --init-from %P` starts a training with "
#define MAKES_CHECKPOINT ", and writes a checkpoint, which eval, generate, predict and export take"
#define UNPACK "unpack it first"

/* One row for each kind; a reader's list of accepted kinds refers to `as`. */
static const charl__kind
    /* charl's own */
    dataset = {CHARL__KIND_OF_HDF5 | CHARL__KIND_DATASET, "a dataset of charl",
               "`charl data info %P` describes it; a training or an evaluation takes it as data.path=%P"},
    checkpoint = {CHARL__KIND_OF_HDF5 | CHARL__KIND_CHECKPOINT, "a checkpoint of charl",
                  "`charl checkpoint show %P` describes it"},
    proof = {CHARL__KIND_OF_HDF5 | CHARL__KIND_PROOF, "a proof of a run", "`charl verify %P` checks it"},
    run = {CHARL__KIND_RUN, "a run directory", "`charl report %P` draws its curves; its last checkpoint is %P/last.h5"},
    new_run = {CHARL__KIND_RUN, "a run directory without checkpoints", NULL},
    runs = {0, "a folder of run directories", "name one of them, or compare all: `charl report %P/*`"},
    checkpoints = {0, "the folder of a run's checkpoints", "name one of them, or the run directory, %P/.."},
    run_lock = {CHARL__KIND_TEXT, "the run.lock of a run", "`charl verify %D` compares a run with it"},
    metrics = {CHARL__KIND_TEXT | CHARL__KIND_JSON_LINES, "the metrics.jsonl of a run",
               "`charl report %D` draws its curves"},
    trace = {CHARL__KIND_TEXT | CHARL__KIND_TRACE, "a time line",
             "`charl trace merge %P -o merged.json` takes it, and https://ui.perfetto.dev shows it"},
    config = {CHARL__KIND_TEXT | CHARL__KIND_CONFIG, "a configuration", "`charl train %P` trains what it describes"},
    /* HDF5 of other programs */
    hdf5 = {CHARL__KIND_OF_HDF5 | CHARL__KIND_DATASET, "an HDF5 file that charl did not write", IMPORT_ARRAYS},
    netcdf4 = {CHARL__KIND_OF_HDF5 | CHARL__KIND_DATASET, "a netCDF-4 file", IMPORT_ARRAYS},
    matlab73 = {CHARL__KIND_OF_HDF5 | CHARL__KIND_DATASET, "a MATLAB file (version 7.3)", IMPORT_ARRAYS},
    anndata = {CHARL__KIND_OF_HDF5 | CHARL__KIND_DATASET, "an AnnData file",
               "name its arrays in a configuration (data.x and data.y)"},
    pandas = {CHARL__KIND_OF_HDF5, "a file of pandas or PyTables",
              "write a table instead: in Python, pandas.read_hdf('%P').to_csv('%S.csv', index=False), then `charl data "
              "import csv %S.csv -o %S.h5`"},
    keras = {CHARL__KIND_OF_HDF5, "a model of Keras", "charl reads weights in the safetensors format"},
    hdf5_open = {CHARL__KIND_OF_HDF5, "an HDF5 file that another program is writing, or did not close when it ended",
                 "wait for that program, or mark the file as closed: `h5clear -s %P`"},
    hdf5_bad = {CHARL__KIND_OF_HDF5 | CHARL__KIND_DATASET | CHARL__KIND_CHECKPOINT | CHARL__KIND_PROOF,
                "an HDF5 file that cannot be opened", NULL},
    /* arrays */
    npy = {CHARL__KIND_NPY | CHARL__KIND_WEIGHTS, "a NumPy array",
           "convert it: `charl data import npy X.npy Y.npy -o data.h5`"},
    npz = {CHARL__KIND_NPZ | CHARL__KIND_WEIGHTS, "an archive of NumPy arrays", IMPORT("npy", "")},
    idx = {CHARL__KIND_IDX, "an IDX file", "convert it: `charl data import idx IMAGES LABELS -o data.h5`"},
    netcdf3 = {0, "a netCDF file of the classic format", "convert it to netCDF-4: `nccopy -k netCDF-4 %P %S.nc4`"},
    matlab5 = {0, "a MATLAB file of a version before 7.3", "save it again in MATLAB with save('%S.mat', '-v7.3')"},
    tfrecord = {0, "a TFRecord file", "write its examples as CSV, NumPy arrays or HDF5"},
    /* weights */
    safetensors = {CHARL__KIND_WEIGHTS, "weights in the safetensors format", START_WITH "them" MAKES_CHECKPOINT},
    safetensors_index = {CHARL__KIND_WEIGHTS | CHARL__KIND_TEXT, "the index of weights in the safetensors format",
                         START_WITH "them" MAKES_CHECKPOINT},
    pytorch = {CHARL__KIND_WEIGHTS, "weights in PyTorch's own format", START_WITH "them" MAKES_CHECKPOINT},
    gguf = {0, "weights in llama.cpp's format (GGUF)", "charl reads safetensors, which publishers offer beside it"},
    onnx = {0, "an ONNX model", "charl writes ONNX, but does not read it; weights are read as safetensors"},
    adapter = {CHARL__KIND_ADAPTER | CHARL__KIND_WEIGHTS, "a folder with adapters (PEFT)",
               START_WITH
               "the base that they name, to which they are added (model.from = BASE takes its shape)" MAKES_CHECKPOINT},
    model = {CHARL__KIND_MODEL | CHARL__KIND_WEIGHTS | CHARL__KIND_TOKENIZER, "a folder with a published model",
             START_WITH "its weights (model.from = %P takes its shape)" MAKES_CHECKPOINT},
    model_config = {CHARL__KIND_MODEL | CHARL__KIND_TEXT, "the config.json of a published model",
                    "model.from = %P takes the model's shape from it"},
    /* tokenizers */
    tokenizer_json = {CHARL__KIND_TEXT | CHARL__KIND_TOKENIZER, "a tokenizer (tokenizer.json)",
                      "`charl data import text TEXT.txt --tokenizer %P -o data.h5` uses it"},
    vocab = {CHARL__KIND_TEXT | CHARL__KIND_TOKENIZER, "part of a tokenizer (vocab.json and merges.txt)",
             "`charl data import text TEXT.txt --tokenizer %D -o data.h5` uses it"},
    wordpiece = {CHARL__KIND_TEXT | CHARL__KIND_TOKENIZER, "BERT's vocabulary (vocab.txt)",
                 "`charl data import text TEXT.txt --tokenizer %P -o data.h5` uses it"},
    tiktoken = {CHARL__KIND_TEXT | CHARL__KIND_TOKENIZER, "a rank file of tiktoken",
                "`charl data import text TEXT.txt --tokenizer %P -o data.h5` uses it"},
    sentencepiece = {CHARL__KIND_TOKENIZER, "a SentencePiece model",
                     "`charl data import text TEXT.txt --tokenizer %P -o data.h5` uses it"},
    tokenizer_folder = {CHARL__KIND_TOKENIZER | CHARL__KIND_FOLDER, "a folder with a tokenizer",
                        "`charl data import text TEXT.txt --tokenizer %P -o data.h5` uses it"},
    /* text */
    csv = {CHARL__KIND_TEXT | CHARL__KIND_TABLE, "a CSV file", IMPORT("csv", "")},
    json_lines = {CHARL__KIND_TEXT | CHARL__KIND_JSON_LINES, "a file of JSON lines", IMPORT("text", "")},
    json_array = {CHARL__KIND_TEXT, "one JSON array",
                  "write each of its objects on a line of its own: `jq -c '.[]' %P > %S.jsonl`"},
    json_object = {CHARL__KIND_TEXT | CHARL__KIND_JSON_LINES, "one JSON object", NULL},
    yaml = {CHARL__KIND_TEXT, "a YAML file", "charl's configurations are INI files: [section], then key = value"},
    html = {CHARL__KIND_TEXT, "a web page", "a download that failed often leaves one; fetch the file again"},
    python = {CHARL__KIND_TEXT, "a Python program", NULL},
    plain = {CHARL__KIND_TEXT | CHARL__KIND_TABLE | CHARL__KIND_JSON_LINES | CHARL__KIND_CONFIG, "a text", NULL,
             "text"},
    txt = {CHARL__KIND_TEXT | CHARL__KIND_TABLE | CHARL__KIND_JSON_LINES | CHARL__KIND_CONFIG, "a text",
           IMPORT("text", "")},
    utf16 = {CHARL__KIND_WIDE, "text in UTF-16", "convert it: `iconv -f UTF-16 -t UTF-8 %P > %S-utf8.txt`"},
    utf32 = {CHARL__KIND_WIDE, "text in UTF-32", "convert it: `iconv -f UTF-32 -t UTF-8 %P > %S-utf8.txt`"},
    lfs = {0, "a Git LFS pointer", "`git lfs pull` fetches the file itself"},
    /* tables of other programs, documents, archives */
    parquet = {CHARL__KIND_TABLE | CHARL__KIND_PARQUET, "a Parquet file", IMPORT("parquet", "")},
    parquet_packed = {0, "a Parquet file in gzip", UNPACK ": `gunzip %P`"},
    arrow = {0, "an Arrow or Feather file",
             "write it as CSV: in Python, pandas.read_feather('%P').to_csv('%S.csv', index=False)"},
    excel = {0, "an Excel workbook",
             "save the sheet as CSV, or in Python: pandas.read_excel('%P').to_csv('%S.csv', index=False)"},
    office = {0, "an Office document", "save its text as .txt, or its table as CSV"},
    sqlite = {0, "an SQLite database",
              "write a table as CSV: `sqlite3 -header -csv %P 'SELECT * FROM TABLE' > %S.csv`"},
    pickle = {0, "a Python pickle", "in Python, write what it holds as CSV, NumPy arrays or HDF5"},
    pdf = {0, "a PDF document", "write its text as .txt: `pdftotext %P`"}, zip = {0, "a zip archive", UNPACK},
    tar = {0, "a tar archive", UNPACK}, packed = {0, "a file that is compressed in another way than gzip", UNPACK},
    sound = {0, "a sound", NULL}, video = {0, "a video", NULL}, program = {0, "a program", NULL},
    /* pictures */
    image = {CHARL__KIND_IMAGE, "an image",
             "convert a folder of images: `charl data import images FOLDER --size 64x64 -o data.h5`"},
    foreign_image = {0, "an image that is neither PNG nor JPEG", "convert it: `convert %P %S.png` (ImageMagick)"},
    /* the rest */
    tokens = {CHARL__KIND_TOKENS, "a binary file, perhaps of tokens", IMPORT("tokens", "")},
    binary = {CHARL__KIND_TOKENS, "a binary file of an unknown format", NULL}, empty = {~0U, "an empty file", NULL},
    special = {~0U, "a device, pipe or socket", NULL}, /* readers say so */
    /* folders */
    images = {CHARL__KIND_FOLDER, "a folder of images", IMPORT("images", " --size 64x64")},
    texts = {CHARL__KIND_FOLDER, "a folder of texts", IMPORT("text", "")},
    token_files = {CHARL__KIND_FOLDER, "a folder of token files", IMPORT("tokens", "")},
    tables = {CHARL__KIND_FOLDER, "a folder of CSV files", "convert each: `charl data import csv FILE.csv -o FILE.h5`"},
    datasets = {CHARL__KIND_FOLDER, "a folder of HDF5 files", "name one of them"},
    folder = {CHARL__KIND_FOLDER, "a folder", NULL}, empty_folder = {CHARL__KIND_FOLDER, "an empty folder", NULL};

/* The first bytes of a file; for gzip, of its contents. */
typedef struct head {
    const char *path, *name; /* last part */
    int64_t file_bytes;
    size_t n;
    bool is_packed;
    unsigned char at[HEAD + 1]; /* and a NUL */
} head;

static bool has(const head *h, size_t at, const char *bytes, size_t n)
{
    return h->n >= at + n && memcmp(h->at + at, bytes, n) == 0;
}

#define HAS(h, at, bytes) has((h), (at), bytes, sizeof(bytes) - 1)

/* Whether the name ends in one of the endings, in letters of either case, or in it and .gz. */
static bool ends(const head *h, const char *const *endings)
{
    size_t length = strlen(h->name);

    length -= length > 3 && strcasecmp(h->name + length - 3, ".gz") == 0 ? 3 : 0;
    for (; *endings; endings++) {
        const size_t n = strlen(*endings);

        if (length > n && strncasecmp(h->name + length - n, *endings, n) == 0) {
            return true;
        }
    }
    return false;
}

#define ENDS(h, ...) ends((h), (const char *const[]){__VA_ARGS__, NULL})

static bool h5_has(hid_t file, const char *attribute)
{
    return H5Aexists(file, attribute) > 0;
}

/* A short text attribute of the file; "" without one. */
static void h5_text(hid_t file, const char *attribute, char *text, size_t size)
{
    const hid_t a = h5_has(file, attribute) ? H5Aopen(file, attribute, H5P_DEFAULT) : -1,
                type = a >= 0 ? H5Aget_type(a) : -1, space = a >= 0 ? H5Aget_space(a) : -1;
    const size_t n =
        type >= 0 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 ? H5Tget_size(type) : size;

    text[0] = '\0';
    if (n < size && H5Sget_simple_extent_npoints(space) == 1 && H5Aread(a, type, text) >= 0) {
        text[n] = '\0';
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(a);
}

/* The kind of an HDF5 file, from its contents. */
static const charl__kind *of_hdf5(const head *h, bool is_matlab)
{
    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    const charl__kind *kind = is_matlab ? &matlab73 : &hdf5;
    char text[32];
    hid_t file;

    H5Pset_file_locking(fapl, false, true);
    H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
    file = H5Fopen(h->path, H5F_ACC_RDONLY, fapl);
    if (file < 0) {
        const bool is_open = HAS(h, 0, "\x89HDF\r\n\x1a\n") && h->n > 11 && h->at[8] >= 3 && (h->at[11] & 5) != 0;

        kind = is_open ? &hdf5_open : &hdf5_bad;
    } else if (h5_has(file, "charl_format")) {
        h5_text(file, "charl_format", text, sizeof text);
        kind = strcmp(text, "checkpoint") == 0 ? &checkpoint
               : strcmp(text, "dataset") == 0  ? &dataset
               : strcmp(text, "proof") == 0    ? &proof
                                               : &hdf5_bad;
    } else if (h5_has(file, "_NCProperties")) {
        kind = &netcdf4;
    } else if (h5_has(file, "PYTABLES_FORMAT_VERSION")) {
        kind = &pandas;
    } else if (h5_has(file, "keras_version") || H5Lexists(file, "model_weights", H5P_DEFAULT) > 0) {
        kind = &keras;
    } else if (h5_has(file, "encoding-type")) {
        kind = &anndata;
    }
    if (file >= 0) {
        H5Fclose(file);
    }
    H5Pclose(fapl);
    return kind;
}

static bool begins_hdf5(const char *path, size_t *at)
{
    static const unsigned char mark[] = "\x89HDF\r\n\x1a\n";
    unsigned char found[8];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = false;

    /* after a user block: 512, 1024, ... bytes */
    for (off_t place = 0; fd >= 0 && !is && pread(fd, found, sizeof found, place) == (ssize_t)sizeof found;
         place = place ? 2 * place : 512) {
        is = memcmp(found, mark, sizeof found) == 0;
        *at = (size_t)place;
    }
    if (fd >= 0) {
        close(fd);
    }
    return is;
}

/* The name of a zip archive's first file. */
static const charl__kind *of_zip(const head *h)
{
    const size_t length = h->n >= 30 ? h->at[26] | (size_t)h->at[27] << 8 : 0;
    char first[256] = "";

    if (h->n >= 30 + length && length < sizeof first) {
        memcpy(first, h->at + 30, length);
        first[length] = '\0';
    }
    if (charl__ends_in(first, ".npy") || ENDS(h, ".npz")) {
        return &npz;
    }
    if (charl__ends_in(first, "/data.pkl") || charl__ends_in(first, "/.format_version") ||
        ENDS(h, ".pt", ".pth", ".bin", ".ckpt")) {
        return &pytorch;
    }
    if (ENDS(h, ".keras")) {
        return &keras;
    }
    if (ENDS(h, ".xlsx", ".xlsm", ".ods") || strncmp(first, "xl/", 3) == 0) {
        return &excel;
    }
    return ENDS(h, ".docx", ".pptx", ".odt") || strcmp(first, "[Content_Types].xml") == 0 ? &office : &zip;
}

static bool is_idx(const head *h)
{
    return h->n >= 8 && h->at[0] == 0 && h->at[1] == 0 && h->at[2] >= 8 && h->at[2] <= 14 && h->at[3] >= 1 &&
           h->at[3] <= 8 && (h->at[2] == 8 || h->n < HEAD || ENDS(h, "ubyte", ".idx", "int32"));
}

static bool is_safetensors(const head *h)
{
    uint64_t length = 0;

    for (int i = 7; h->n > 9 && i >= 0; i--) {
        length = length << 8 | h->at[i];
    }
    return length > 1 && length < 1U << 30 && (int64_t)length <= h->file_bytes && h->at[8] == '{';
}

/* The kind according to the first bytes; NULL: unknown. */
static const charl__kind *of_bytes(const head *h)
{
    static const struct {
        const char *bytes;
        size_t n, at;
        const charl__kind *kind;
    } marks[] = {
#define MARK(at, bytes, kind) {bytes, sizeof(bytes) - 1, at, &(kind)}
        MARK(0, "\x93NUMPY", npy),
        MARK(0, "\x89PNG\r\n\x1a\n", image),
        MARK(0, "\xff\xd8\xff", image),
        MARK(0, "GIF8", foreign_image),
        MARK(0, "II*\0", foreign_image),
        MARK(0, "MM\0*", foreign_image),
        MARK(8, "WEBP", foreign_image),
        MARK(4, "ftypheic", foreign_image),
        MARK(4, "ftypavif", foreign_image),
        MARK(4, "ftyp", video),
        MARK(8, "WAVE", sound),
        MARK(0, "ID3", sound),
        MARK(0, "fLaC", sound),
        MARK(0, "OggS", sound),
        MARK(0, "MATLAB 5.0 MAT-file", matlab5),
        MARK(0, "CDF\x01", netcdf3),
        MARK(0, "CDF\x02", netcdf3),
        MARK(0, "CDF\x05", netcdf3),
        MARK(0, "GGUF", gguf),
        MARK(0, "tjgg", gguf),
        MARK(0, "PAR1", parquet),
        MARK(0, "ARROW1", arrow),
        MARK(0, "FEA1", arrow),
        MARK(0, "SQLite format 3", sqlite),
        MARK(0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", excel),
        MARK(0, "%PDF-", pdf),
        MARK(0, "BZh", packed),
        MARK(0,
             "\xfd"
             "7zXZ",
             packed),
        MARK(0, "\x28\xb5\x2f\xfd", packed),
        MARK(0, "7z\xbc\xaf", packed),
        MARK(0, "Rar!", packed),
        MARK(0,
             "\x7f"
             "ELF",
             program),
        MARK(257, "ustar", tar),
        MARK(0, "\xff\xfe\0\0", utf32),
        MARK(0, "\0\0\xfe\xff", utf32),
        MARK(0, "\xff\xfe", utf16),
        MARK(0, "\xfe\xff", utf16),
        MARK(0, "version https://git-lfs.github.com/spec/", lfs),
#undef MARK
    };

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (has(h, marks[i].at, marks[i].bytes, marks[i].n)) {
            return marks[i].kind == &parquet && h->is_packed ? &parquet_packed : marks[i].kind;
        }
    }
    if (HAS(h, 0, "PK\3\4") || HAS(h, 0, "PK\5\6")) {
        return of_zip(h);
    }
    if (h->n > 2 && h->at[0] == 0x80 && h->at[1] >= 2 && h->at[1] <= 5) {
        return HAS(h, 2, "\x8a\x0al\xfc\x9c\x46\xf9") || ENDS(h, ".pt", ".pth", ".bin", ".ckpt") ? &pytorch : &pickle;
    }
    if (h->n > 8 && h->at[0] == '\n' && h->at[2] == '\n' && h->at[3] < ' ') {
        return &sentencepiece;
    }
    return is_safetensors(h) ? &safetensors : is_idx(h) ? &idx : NULL;
}

/* Text without a byte order mark in which every second byte, or three of four, is 0. */
static const charl__kind *of_wide(const head *h)
{
    size_t zeros[4] = {0}, n = h->n & ~(size_t)3;

    for (size_t i = 0; i < n; i++) {
        zeros[i & 3] += h->at[i] == 0;
    }
    n /= 4;
    if (n < 2) {
        return NULL;
    }
    if (zeros[0] + zeros[1] + zeros[2] + zeros[3] == 3 * n && (zeros[0] == 0 || zeros[3] == 0)) {
        return &utf32;
    }
    return (zeros[0] + zeros[2] == 0 && zeros[1] + zeros[3] > n) ||
                   (zeros[1] + zeros[3] == 0 && zeros[0] + zeros[2] > n)
               ? &utf16
               : NULL;
}

/* No control characters except those of text; UTF-8, or an older encoding with mostly ASCII in it. */
/* A text may have some stray control characters, but not NUL. */
static bool is_text(const head *h)
{
    size_t high = 0, control = 0;

    for (size_t i = 0; i < h->n; i++) {
        const unsigned char c = h->at[i];

        control += (c < ' ' && !(c >= '\t' && c <= '\r') && c != 0x1b && c != 0x1a) || c == 0x7f;
        high += c >= 0x80;
    }
    if (memchr(h->at, 0, h->n) || control * 30 > h->n) {
        return false;
    }
    return high * 3 <= h->n || charl__utf8_valid(h->at, h->n) + 4 > h->n; /* the last character may be cut off */
}

/* The next line; its length is *n. NULL at the end. */
static const char *next_line(const char **at, size_t *n)
{
    const char *line = *at;

    if (!*line) {
        return NULL;
    }
    *n = strcspn(line, "\n");
    *at = line + *n + (line[*n] == '\n');
    return line;
}

/* A line "[section]", or "key = value" after blank lines and comments. */
static bool is_ini(const char *text)
{
    const char *line;
    size_t n;

    while ((line = next_line(&text, &n)) != NULL) {
        size_t at = strspn(line, " \t\r");
        const size_t name = strspn(line + at + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

        if (at >= n || line[at] == '#' || line[at] == ';') {
            continue;
        }
        return line[at] == '[' && name > 0 && line[at + 1 + name] == ']' && !isdigit((unsigned char)line[at + 1]);
    }
    return false;
}

/* Lines "BASE64 NUMBER", numbered from some number on. */
static bool is_ranks(const char *line)
{
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    unsigned long before = 0;

    for (int i = 0; i < 3; i++) {
        const size_t n = strspn(line, base64);
        char *end = NULL;
        const unsigned long rank = n >= 4 && n % 4 == 0 && line[n] == ' ' ? strtoul(line + n + 1, &end, 10) : 0;

        if (!end || end == line + n + 1 || *end != '\n' || (i > 0 && rank != before + 1)) {
            return false;
        }
        before = rank;
        line = end + 1;
    }
    return true;
}

/* The first lines have the same number of separators. */
static bool is_table(const char *text)
{
    static const char separators[] = ",;\t|";
    const char *line = NULL;
    size_t n = 0;

    for (const char *c = separators; *c; c++) {
        const char *at = text;
        int count[2] = {0};

        for (int i = 0; i < 2 && (line = next_line(&at, &n)) != NULL; i++) {
            for (size_t k = 0; k < n; k++) {
                count[i] += line[k] == *c;
            }
        }
        if (line && count[0] > 0 && count[0] == count[1]) {
            return true;
        }
    }
    return false;
}

static const charl__kind *of_json(const head *h, const char *text)
{
    const char *line = text + strspn(text, " \t\r\n");
    const size_t n = strcspn(line, "\n");

    if (strcmp(h->name, "tokenizer.json") == 0 || strncmp(h->name, "tekken", 6) == 0 ||
        strstr(text, "\"added_tokens\"") || (strstr(text, "\"model\"") && strstr(text, "\"vocab\""))) {
        return &tokenizer_json;
    }
    if (strcmp(h->name, "vocab.json") == 0) {
        return &vocab;
    }
    if (charl__ends_in(h->name, ".index.json") || strstr(text, "\"weight_map\"")) {
        return &safetensors_index;
    }
    if (strcmp(h->name, "config.json") == 0 || strstr(text, "\"model_type\"")) {
        return &model_config;
    }
    if (strncmp(line, "{\"traceEvents\"", 14) == 0) {
        return &trace;
    }
    if (strncmp(line, "{\"event\":", 9) == 0 || strcmp(h->name, "metrics.jsonl") == 0) {
        return &metrics;
    }
    if (*line == '[') {
        return &json_array;
    }
    return ENDS(h, ".jsonl", ".ndjson") || (n > 1 && strchr("}\r", line[n - 1]) && line[n] && line[n + 1] == '{')
               ? &json_lines
               : &json_object;
}

static bool begins(const char *text, const char *beginning)
{
    return strncasecmp(text, beginning, strlen(beginning)) == 0;
}

static const charl__kind *of_text(const head *h)
{
    const char *all = (const char *)h->at + (HAS(h, 0, "\xef\xbb\xbf") ? 3 : 0), *text = all + strspn(all, " \t\r\n");

    if (begins(text, "<!doctype html") || begins(text, "<html")) {
        return &html;
    }
    if (strncmp(text, "charl run.lock", 14) == 0 || strcmp(h->name, "run.lock") == 0) {
        return &run_lock;
    }
    if (strcmp(h->name, "vocab.txt") == 0) { /* before is_ini: it begins with [PAD] */
        return &wordpiece;
    }
    if (is_ini(all) || ENDS(h, ".ini", ".cfg", ".conf")) {
        return &config;
    }
    if (ENDS(h, ".tiktoken") || is_ranks(text)) {
        return &tiktoken;
    }
    if (begins(text, "#version:") || strcmp(h->name, "merges.txt") == 0) {
        return &vocab;
    }
    if (*text == '{' || (*text == '[' && (ENDS(h, ".json", ".jsonl") || strchr("{\"[]-0123456789 \n\r\t", text[1])))) {
        return of_json(h, all);
    }
    if (ENDS(h, ".csv", ".tsv")) {
        return &csv;
    }
    if (ENDS(h, ".yaml", ".yml") || strncmp(text, "---\n", 4) == 0 || begins(text, "%YAML")) {
        return &yaml;
    }
    if (ENDS(h, ".py") || begins(text, "#!/usr/bin/env python")) {
        return &python;
    }
    if (ENDS(h, ".txt", ".md", ".jsonl")) {
        return &txt;
    }
    return is_table(all) ? &csv : &plain;
}

static const charl__kind *of_file(head *h)
{
    const charl__kind *kind;
    size_t at = 0;

    if (!h->is_packed && begins_hdf5(h->path, &at)) {
        return of_hdf5(h, at > 0 && HAS(h, 0, "MATLAB 7.3"));
    }
    kind = of_bytes(h);
    if (kind) {
        return kind;
    }
    if (is_text(h)) {
        return of_text(h);
    }
    kind = of_wide(h);
    if (kind) {
        return kind;
    }
    if (charl__is_image_name(h->name) || charl__is_foreign_image_name(h->name)) {
        return charl__is_image_name(h->name) ? &image : &foreign_image;
    }
    if (ENDS(h, ".safetensors")) {
        return &safetensors;
    }
    return ENDS(h, ".onnx")                     ? &onnx
           : ENDS(h, ".tfrecord", ".tfrecords") ? &tfrecord
           : ENDS(h, ".bin")                    ? &tokens
                                                : &binary;
}

static bool holds(const char *dir, const char *name)
{
    char path[NAME];
    struct stat s;

    return (size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path && stat(path, &s) == 0;
}

/* The kind of a folder, from the names in it. */
typedef struct contents {
    int n, images, texts, tables, datasets, tokens, weights, steps, tokenizers, runs;
} contents;

static void look_into(const char *path, int depth, contents *c)
{
    const struct dirent *e;
    DIR *d = opendir(path);

    for (int i = 0; d && i < MOST_ENTRIES && (e = readdir(d)) != NULL; i++) {
        const head h = {.path = path, .name = e->d_name};
        char inner[NAME];
        struct stat s;

        if (e->d_name[0] == '.') {
            continue;
        }
        c->n++;
        c->images += charl__is_image_name(e->d_name) || charl__is_foreign_image_name(e->d_name);
        c->texts += ENDS(&h, ".txt", ".jsonl");
        c->tables += ENDS(&h, ".csv", ".tsv");
        c->datasets += ENDS(&h, ".h5", ".hdf5");
        c->tokens += ENDS(&h, ".bin");
        c->weights += depth > 0 && (ENDS(&h, ".safetensors") || strncmp(e->d_name, "pytorch_model", 13) == 0);
        c->steps += strncmp(e->d_name, "step-", 5) == 0 && ENDS(&h, ".h5");
        c->tokenizers += ENDS(&h, ".tiktoken") || strncmp(e->d_name, "tokenizer.model", 15) == 0;
        c->runs += strcmp(e->d_name, "metrics.jsonl") == 0;
        if (depth > 0 && c->images == 0 &&
            (size_t)snprintf(inner, sizeof inner, "%s/%s", path, e->d_name) < sizeof inner && stat(inner, &s) == 0 &&
            S_ISDIR(s.st_mode)) {
            look_into(inner, depth - 1, c);
        }
    }
    if (d) {
        closedir(d);
    }
}

static const charl__kind *of_folder(const char *path)
{
    contents c = {0};

    const bool is_run = holds(path, "run.lock") || holds(path, "metrics.jsonl") || holds(path, "config.ini");
    const bool has_last = holds(path, "last.h5");

    look_into(path, 1, &c);
    if (is_run || has_last) {
        return c.steps > 0 || has_last ? &run : &new_run;
    }
    if (c.runs > 0) { /* one folder deeper */
        return &runs;
    }
    if (holds(path, "adapter_config.json")) {
        return &adapter;
    }
    if (holds(path, "config.json") || c.weights > 0) {
        return &model;
    }
    if (holds(path, "tokenizer.json") || holds(path, "vocab.json") || holds(path, "tekken.json") || c.tokenizers > 0) {
        return &tokenizer_folder;
    }
    return c.steps > 0      ? &checkpoints
           : c.images > 0   ? &images
           : c.texts > 0    ? &texts
           : c.tables > 0   ? &tables
           : c.tokens > 0   ? &token_files
           : c.datasets > 0 ? &datasets
           : c.n == 0       ? &empty_folder
                            : &folder;
}

static bool read_head(head *h)
{
    const int fd = open(h->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    gzFile gz = fd >= 0 ? gzdopen(fd, "rb") : NULL;
    int n = 0;

    if (!gz) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    n = gzread(gz, h->at, HEAD);
    h->n = n > 0 ? (size_t)n : 0;
    h->is_packed = !gzdirect(gz);
    gzclose(gz);
    return n >= 0 || h->is_packed;
}

const charl__kind *charl__kind_of(const char *path)
{
    CHARL_H5_SCOPE;
    const char *slash = strrchr(path, '/');
    head h = {.path = path, .name = slash && slash[1] ? slash + 1 : path};
    struct stat s;

    if (stat(path, &s) != 0) {
        return NULL;
    }
    if (S_ISDIR(s.st_mode)) {
        return of_folder(path);
    }
    if (!S_ISREG(s.st_mode)) {
        return &special;
    }
    h.file_bytes = s.st_size;
    if (s.st_size == 0) {
        return &empty;
    }
    return read_head(&h) ? of_file(&h) : NULL;
}

/* Append n bytes of a path, quoted if a shell requires it and there are no quotes yet. */
static size_t put(char *text, size_t at, const char *what, size_t n)
{
    const bool plain_name =
        text[at - 1] == '\'' ||
        strspn(what, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:@%+=-~") >= n;
    const char *quote = plain_name ? "" : "'";

    return at + (size_t)snprintf(text + at, HINT - at, "%s%.*s%s", quote, (int)n, what, quote);
}

/* "; HINT ..." with the command for a kind, or "". Returns text. */
static const char *hint_of(const charl__kind *kind, const char *path, char text[HINT])
{
    size_t length = strlen(path), at = 0;
    const char *slash, *dot, *stem;
    size_t stem_length;

    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    for (slash = path + length; slash > path && slash[-1] != '/'; slash--) {
    }
    dot = memchr(slash, '.', (size_t)(path + length - slash));
    dot = dot && dot > slash ? dot : path + length;
    stem = *slash == '.' || *slash == '/' ? "data" : slash; /* for a folder . or .. */
    stem_length = stem == slash ? (size_t)(dot - slash) : strlen(stem);
    text[0] = '\0';
    if (kind->use && length < 256) {
        at = (size_t)snprintf(text, HINT, "; HINT ");
        for (const char *p = kind->use; *p && at < HINT - 300; p++) {
            if (*p != '%') {
                text[at++] = *p;
                text[at] = '\0';
            } else if (*++p == 'P') {
                at = put(text, at, path, length);
            } else if (*p == 'S') {
                at = put(text, at, stem, stem_length);
            } else {
                at = slash > path ? put(text, at, path, (size_t)(slash - path)) : put(text, at, ".", 1);
            }
        }
    }
    return text;
}

charl_status charl__kind_expect(const char *path, unsigned wanted, const char *what, charl_status code)
{
    const charl__kind *kind = charl__kind_of(path);
    char hint[HINT];

    CHARL_REQUIRE(!kind || (kind->as & wanted), code, "%s is %s, not %s%s", path, kind->name, what,
                  hint_of(kind, path, hint));
    return CHARL_OK;
}

charl_status charl__kind_explain(charl_status st, const char *path, unsigned wanted, const char *what,
                                 charl_status code)
{
    if (st == code) {
        CHARL_TRY(charl__kind_expect(path, wanted, what, code));
    }
    return st;
}

static bool ends_in_one_of(const char *name, const char *const *endings, size_t n)
{
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < n; i++) {
        size_t k = 0;

        while (endings[i][k] && tolower((unsigned char)dot[k + 1]) == endings[i][k]) {
            k++;
        }
        if (!endings[i][k] && !dot[k + 1]) {
            return true;
        }
    }
    return false;
}

bool charl__is_image_name(const char *name)
{
    static const char *const endings[] = {"png", "jpg", "jpeg", "jfif"};

    return ends_in_one_of(name, endings, sizeof endings / sizeof *endings);
}

bool charl__is_foreign_image_name(const char *name)
{
    static const char *const endings[] = {"gif", "bmp", "webp", "tif", "tiff", "heic", "avif", "ppm", "pgm", "jp2"};

    return ends_in_one_of(name, endings, sizeof endings / sizeof *endings);
}

/* Programs and kernels: defines, the prelude and the file's text, compiled once per process and,
 * if there is a cache directory or the driver has its own, once per machine. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/numeric/hash.h"
#include "base/log.h"
#include "base/text/text.h"
#include "device/device_private.h"
#include "device/kernel_source.h"
#include "device/nvidia/ptx.h"

/* Never a fast-math option: with one, x != x is false for NaN. GPU compilers approximate division
 * and square root, and not the same way in every context (1 / sqrt(x) may become another
 * instruction), unless told otherwise; CPUs have exact instructions. Without -w compilers print
 * "1 warning generated." on the terminal; tests/lint compiles kernels with warnings as errors. */
static const char *options_of(const charl_device *dev)
{
    if (dev->facts.nvidia.ptx) { /* with -cl-std asm is no keyword */
        return dev->found.rounds_divide ? "-w -DCHARL_PTX -DASM=asm -cl-fp32-correctly-rounded-divide-sqrt"
                                        : "-w -DCHARL_PTX -DASM=asm";
    }
    return dev->info.kind != CHARL_DEVICE_CPU && dev->found.rounds_divide
               ? "-cl-std=CL1.2 -w -cl-fp32-correctly-rounded-divide-sqrt"
               : "-cl-std=CL1.2 -w";
}

static const char *embedded(const char *name)
{
    for (const charl__kernel_source *s = charl__kernel_sources; s->name; s++) {
        if (strcmp(s->name, name) == 0) {
            return s->text;
        }
    }
    return NULL;
}

static charl_status read_file(const char *path, charl__text *out)
{
    charl_status st = CHARL_OK;
    char block[4096];
    size_t got;
    FILE *f = fopen(path, "rb");

    CHARL_REQUIRE_CLEANUP(f, CHARL_ERR_KERNEL, "cannot read %s (CHARL_KERNEL_DIR is set)", path);
    while ((got = fread(block, 1, sizeof block, f)) > 0) {
        CHARL_TRY_CLEANUP(charl__text_append(out, block, got));
    }
    CHARL_REQUIRE_CLEANUP(!ferror(f), CHARL_ERR_KERNEL, "cannot read %s (CHARL_KERNEL_DIR is set)", path);
cleanup:
    if (f) {
        fclose(f);
    }
    return st;
}

static charl_status read_one(const char *name, charl__text *out)
{
    charl_status st = CHARL_OK;
    const char *dir = charl__env(CHARL_ENV_KERNEL_DIR);
    const char *text = embedded(name);
    charl__text path = {0};

    if (dir) {
        CHARL_TRY_CLEANUP(charl__text_printf(&path, "%s/%s", dir, name));
        CHARL_TRY_CLEANUP(read_file(charl__text_string(&path), out));
    } else {
        CHARL_REQUIRE_CLEANUP(text, CHARL_ERR_KERNEL, "there is no kernel file %s", name);
        CHARL_TRY_CLEANUP(charl__text_append(out, text, strlen(text)));
    }
cleanup:
    charl__text_fini(&path);
    return st;
}

/* Expand a kernel file: every #include "FOLDER/NAME", a path in kernels/, is replaced by the
 * file, and *_of.clh, a file for several types, once for each. */
static charl_status read_source(const char *name, charl__text *out)
{
    static const char word[] = "#include \"";
    charl_status st = CHARL_OK;
    charl__text own = {0};
    const char *rest, *at;

    CHARL_TRY_CLEANUP(read_one(name, &own));
    rest = charl__text_string(&own);
    while ((at = strstr(rest, word)) != NULL) {
        const char *first = at + sizeof word - 1;
        const size_t length = strcspn(first, "\"\n");
        char part[64];

        CHARL_REQUIRE_CLEANUP(first[length] == '"' && length < sizeof part, CHARL_ERR_KERNEL,
                              "kernels/%s: an #include names no file", name);
        memcpy(part, first, length);
        part[length] = '\0';
        CHARL_TRY_CLEANUP(charl__text_append(out, rest, (size_t)(at - rest)));
        CHARL_TRY_CLEANUP(read_source(part, out));
        rest = first + length + 1;
    }
    CHARL_TRY_CLEANUP(charl__text_append(out, rest, strlen(rest)));
cleanup:
    charl__text_fini(&own);
    return st;
}

/* Files that precede every kernel file, in this order. The definition is text and no option, so that all compilers and the key see it. */
static charl_status read_prelude(const charl_device *dev, charl__text *out)
{
    static const char *const files[] = {"prelude/builtins.clh", "prelude/common.clh", "prelude/math.clh",
                                        "prelude/memory.clh",   "prelude/rows.clh",   "prelude/fast_math.clh"};
    static const char exact_half[] = "#define CHARL_EXACT_HALF\n";

    if (dev->facts.nvidia.ptx && dev->facts.exact_half) {
        CHARL_TRY(charl__text_append(out, exact_half, sizeof exact_half - 1));
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        CHARL_TRY(read_source(files[i], out));
    }
    return CHARL_OK;
}

/* CHARL_DUMP_KERNELS: a file that cannot be written is worth a warning, not a failure. */
static charl_status dump(const char *file, const char *key, const char *const source[3])
{
    charl_status st = CHARL_OK;
    const char *slash = strrchr(file, '/');
    charl__text path = {0};
    FILE *f = NULL;
    bool ok = true;

    CHARL_TRY_CLEANUP(
        charl__text_printf(&path, "%s/%s-%.12s.cl", charl__env(CHARL_ENV_DUMP_KERNELS), slash ? slash + 1 : file, key));
    f = fopen(charl__text_string(&path), "w");
    for (int i = 0; f && i < 3; i++) {
        ok = fputs(source[i], f) >= 0 && ok;
    }
    if (!f || fclose(f) != 0 || !ok) {
        charl__log(CHARL_LOG_WARN, "cannot write %s (CHARL_DUMP_KERNELS)", charl__text_string(&path));
    }
cleanup:
    charl__text_fini(&path);
    return st;
}

/* The parameters of a launch as text, one per line, then its defines. */
static charl_status write_defines(const charl__launch *l, charl__text *out)
{
    for (const charl__kernel_param *p = l->params; p->name; p++) {
        if (p->text) {
            const size_t from = out->length;

            CHARL_TRY(charl__text_printf(out, "#define %s %s", p->name, p->text));
            for (size_t i = from; i < out->length; i++) {
                out->data[i] = out->data[i] == '\n' || out->data[i] == '\r' ? ' ' : out->data[i];
            }
            CHARL_TRY(charl__text_append(out, "\n", 1));
        } else {
            CHARL_TRY(charl__text_printf(out, p->value < 0 ? "#define %s (%lld)\n" : "#define %s %lld\n", p->name,
                                         (long long)p->value));
        }
    }
    return charl__text_append(out, l->defines ? l->defines : "", l->defines ? strlen(l->defines) : 0);
}

static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The text that follows `name`, ignoring comments: after a #define its default, "" if it is used otherwise, NULL if it does not
 * occur. */
static const char *find_default(const char *text, const char *name)
{
    const size_t length = strlen(name);
    const char *used = NULL;

    for (const char *at = text; *at; at++) {
        if (at[0] == '/' && at[1] == '*') {
            while (at[1] && (at[0] != '*' || at[1] != '/')) {
                at++;
            }
            at += at[1] != '\0';
        } else if (*at == *name && strncmp(at, name, length) == 0 && !is_of_word(at[length]) &&
                   (at == text || !is_of_word(at[-1]))) {
            if (at - text >= 8 && strncmp(at - 8, "#define ", 8) == 0) {
                return at + length;
            }
            used = "";
        }
    }
    return used;
}

/* Check the parameters: one that the file does not use would have no effect. source: as in program_build. */
static charl_status check_params(const charl__launch *l, const char *const source[3])
{
    for (const charl__kernel_param *p = l->params; p->name; p++) {
        const size_t length = strcspn(p->name, "(");
        char name[64];
        const char *by_default;

        CHARL_INVARIANT(length < sizeof name);
        memcpy(name, p->name, length);
        name[length] = '\0';
        by_default = find_default(source[2], name);
        by_default = by_default ? by_default : find_default(source[1], name);
        CHARL_REQUIRE(by_default, CHARL_ERR_INVALID, "kernels/%s.cl has no parameter %s", l->file, name);
        CHARL_REQUIRE(p->text || !islower((unsigned char)by_default[strspn(by_default, " (")]), CHARL_ERR_INVALID,
                      "parameter %s of kernels/%s.cl is a type or code, %lld is given", name, l->file,
                      (long long)p->value);
    }
    return CHARL_OK;
}

/* Whether the #define lines define the name that begins at `name`. */
static bool is_defined(const char *defines, const char *name)
{
    static const char word[] = "#define ";
    size_t length = 0;

    while (is_of_word(name[length])) {
        length++;
    }
    for (const char *at = defines; (at = strstr(at, word)) != NULL;) {
        at += sizeof word - 1;
        if (strncmp(at, name, length) == 0 && !is_of_word(at[length])) {
            return true;
        }
    }
    return false;
}

/* The text of a kernel file without the defaults, lines "#define NAME ...", that the launch defines. */
static charl_status leave_out_defaults(const char *text, const char *defines, charl__text *out)
{
    static const char word[] = "#define ";
    const char *from = text;

    for (const char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        next += *next != '\0';
        if (strncmp(line, word, sizeof word - 1) == 0 && is_defined(defines, line + sizeof word - 1)) {
            CHARL_TRY(charl__text_append(out, from, (size_t)(line - from)));
            from = next;
        }
    }
    return charl__text_append(out, from, strlen(from));
}

static bool is_for_sm90a(const charl__program *p)
{
    return p->sm90a.shared_bytes > 0 || p->sm90a.min_blocks > 0;
}

/* Build a program and put it into the cache. */
static charl_status build(charl_device *dev, const charl__program *p, charl__driver_program **out)
{
    const char *const source[3] = {p->defines, p->common, p->text};

    if (is_for_sm90a(p)) {
        CHARL_TRY(charl__sm90a_build(dev, p->file, source, &p->sm90a, out));
    } else {
        CHARL_TRY(dev->driver->program_build(dev, p->file, source, p->options, p->key, out));
    }
    dev->counters.programs_built++;
    return charl__cache_store(dev, p->key, *out);
}

/* Load a program from the cache, or build it: in one of the ranks that need it, or in a helper process. */
static charl_status load_or_build(charl_device *dev, charl__program *p)
{
    charl_status st = CHARL_OK;
    const char *options = is_for_sm90a(p) ? "" : p->options;
    charl__driver_program *program = NULL;
    int lock = -1;

    CHARL_TRY_CLEANUP(charl__compilers_wait(dev, p));
    CHARL_TRY_CLEANUP(charl__cache_load(dev, p->key, options, &program));
    if (!program &&
        (lock = charl__cache_lock(dev, p->key, true)) >= 0) { /* the rank that held the lock may have built it */
        CHARL_TRY_CLEANUP(charl__cache_load(dev, p->key, options, &program));
    }
    if (!program) {
        CHARL_TRY_CLEANUP(build(dev, p, &program));
    }
    p->program = program;
    program = NULL;
cleanup:
    charl__cache_unlock(lock);
    if (program) {
        dev->driver->program_release(dev, program);
    }
    return st;
}

charl_status charl__program_compile(charl_device *dev, const charl__program *p)
{
    charl_status st = CHARL_OK;
    charl__driver_program *program = NULL;
    const int lock = charl__cache_lock(dev, p->key, false);

    CHARL_REQUIRE_CLEANUP(lock >= 0, CHARL_ERR_DEVICE, "another process compiles %s", p->file);
    if (!charl__cache_has(dev, p->key)) {
        CHARL_TRY_CLEANUP(build(dev, p, &program));
    }
cleanup:
    charl__cache_unlock(lock);
    if (program) {
        dev->driver->program_release(dev, program);
    }
    return st;
}

static void forget_sources(charl__program *p)
{
    charl_free(p->common);
    charl_free(p->text);
    charl_free(p->options);
    p->common = p->text = p->options = NULL;
}

static charl_status load(charl_device *dev, charl__program *p)
{
    charl_status st = CHARL_OK;
    const int known = dev->progress.known;
    double begun;

    dev->progress.known =
        dev->pocl ? 0 : known; /* its kernels are compiled later, and more programs may be requested before */
    begun = charl__compiling_begin(dev, p->file);
    st = load_or_build(dev, p);
    dev->progress.known = known;
    charl__compiling_end(dev, begun, st == CHARL_OK && !dev->pocl);
    CHARL_TRY(st);
    forget_sources(p);
    return CHARL_OK;
}

/* The compiler's input, and the key. */
static charl_status read_sources(charl_device *dev, const charl__launch *l, charl__program *p)
{
    charl_status st = CHARL_OK;
    charl__text common = {0}, text = {0}, own = {0}, name = {0}, options = {0};
    const char *source[3] = {p->defines, NULL, NULL};

    CHARL_TRY_CLEANUP(charl__text_printf(&name, "%s.cl", p->file));
    CHARL_TRY_CLEANUP(read_prelude(dev, &common));
    if (p->source) {
        CHARL_TRY_CLEANUP(charl__text_append(&text, p->source, strlen(p->source)));
    } else {
        CHARL_TRY_CLEANUP(read_source(charl__text_string(&name), &text));
    }
    source[1] = charl__text_string(&common);
    source[2] = charl__text_string(&text);
    CHARL_TRY_CLEANUP(check_params(l, source));
    if (!p->source) {
        CHARL_TRY_CLEANUP(leave_out_defaults(source[2], p->defines, &own));
        source[2] = charl__text_string(&own);
    }
    if (is_for_sm90a(p)) {
        CHARL_TRY_CLEANUP(charl__text_printf(&options, "%s, sm_90a %d, %lld bytes, %d groups",
                                             charl__sm90a_options(dev), CHARL__PTX_VERSION,
                                             (long long)p->sm90a.shared_bytes, p->sm90a.min_blocks));
    } else {
        CHARL_TRY_CLEANUP(charl__text_printf(&options, "%s%s", options_of(dev),
                                             charl__env_is_on(CHARL_ENV_NO_OPTIMIZER) ? " -cl-opt-disable" : ""));
    }
    charl__cache_key(dev, source, charl__text_string(&options), p->key);
    if (charl__env(CHARL_ENV_DUMP_KERNELS)) {
        CHARL_TRY_CLEANUP(dump(p->file, p->key, source));
    }
    p->common = charl__text_steal(&common);
    p->text = charl__text_steal(p->source ? &text : &own);
    p->options = charl__text_steal(&options);
cleanup:
    charl__text_fini(&options);
    charl__text_fini(&name);
    charl__text_fini(&own);
    charl__text_fini(&text);
    charl__text_fini(&common);
    return st;
}

static void destroy(charl_device *dev, charl__program *p)
{
    if (!p) {
        return;
    }
    while (p->kernels) {
        charl__kernel *k = p->kernels;

        p->kernels = k->next;
        charl__kernel_release(dev, k->kernel);
        charl_free(k->entry);
        charl_free(k);
    }
    while (p->variants) {
        charl__variant *v = p->variants;

        p->variants = v->next;
        charl_free(v->entry);
        charl_free(v);
    }
    if (p->program) {
        dev->driver->program_release(dev, p->program);
    }
    forget_sources(p);
    charl_free(p->file);
    charl_free(p->defines);
    charl_free(p);
}

/* The program of l, registered with the device and possibly not loaded. */
static charl_status find_or_add(charl_device *dev, const charl__launch *l, charl__program **out)
{
    charl_status st = CHARL_OK;
    charl__text text = {0};
    const char *defines;
    uint64_t hash;
    charl__program *p = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(write_defines(l, &text));
    defines = charl__text_string(&text);
    hash = charl__fnv1a64_string(l->file) * 31 + charl__fnv1a64_string(defines);
    for (charl__program *q = dev->programs; q; q = q->next) {
        if (q->hash == hash && q->sm90a.shared_bytes == l->sm90a.shared_bytes &&
            q->sm90a.min_blocks == l->sm90a.min_blocks && q->source == l->source && strcmp(q->file, l->file) == 0 &&
            strcmp(q->defines, defines) == 0) {
            *out = q;
            goto cleanup;
        }
    }
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *p, &p));
    p->hash = hash;
    p->sm90a = l->sm90a;
    p->source = l->source;
    CHARL_TRY_CLEANUP(charl__strdup(l->file, &p->file));
    CHARL_TRY_CLEANUP(charl__strdup(defines, &p->defines));
    CHARL_TRY_CLEANUP(read_sources(dev, l, p));
    p->next = dev->programs;
    dev->programs = p;
    dev->progress.known += !dev->pocl;
    *out = p;
    p = NULL;
cleanup:
    destroy(dev, p);
    charl__text_fini(&text);
    return st;
}

charl_status charl__program_want(charl_device *dev, const charl__launch *l)
{
    charl__program *p = NULL;

    CHARL_TRY(find_or_add(dev, l, &p));
    return p->program ? CHARL_OK : charl__compilers_want(dev, p);
}

charl_status charl__program_get(charl_device *dev, const charl__launch *l, charl__program **out)
{
    CHARL_TRY(find_or_add(dev, l, out));
    return (*out)->program ? CHARL_OK : load(dev, *out);
}

void charl__programs_release(charl_device *dev)
{
    while (dev->programs) {
        charl__program *p = dev->programs;

        dev->programs = p->next;
        destroy(dev, p);
    }
}

charl_status charl__kernel_create(charl_device *dev, const charl__program *p, const char *entry, charl__kernel *out)
{
    int err;

    *out = (charl__kernel){.kernel = NULL};
    CHARL_TRY(charl__acquire("kernel"));
    err = dev->driver->kernel_create(dev, p->program, entry, &out->kernel, &out->args);
    if (err != 0) {
        const charl__driver_error e = dev->driver->error(err);

        charl__drop();
        CHARL_FAIL(e.status == CHARL_ERR_NOMEM ? e.status : CHARL_ERR_KERNEL, "kernels/%s.cl has no kernel %s: %s",
                   p->file, entry, e.text);
    }
    dev->counters.kernels_created++;
    return CHARL_OK;
}

void charl__kernel_release(charl_device *dev, charl__driver_kernel *k)
{
    if (k) {
        dev->driver->kernel_release(dev, k);
        charl__drop();
    }
}

charl_status charl__kernel_get(charl_device *dev, charl__program *p, const char *entry, charl__kernel *out)
{
    charl_status st = CHARL_OK;
    charl__kernel *k = NULL;

    for (charl__kernel *q = p->kernels; q; q = q->next) {
        if (strcmp(q->entry, entry) == 0) {
            *out = *q;
            goto cleanup;
        }
    }
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *k, &k));
    CHARL_TRY_CLEANUP(charl__kernel_create(dev, p, entry, k));
    CHARL_TRY_CLEANUP(charl__strdup(entry, &k->entry));
    k->next = p->kernels;
    p->kernels = k;
    *out = *k;
    k = NULL;
cleanup:
    if (k) {
        charl__kernel_release(dev, k->kernel);
        charl_free(k);
    }
    return st;
}

charl_status charl__kernel_is_new(charl_device *dev, charl__program *p, const char *entry, const size_t local[3],
                                  bool *out)
{
    charl_status st = CHARL_OK;
    charl__variant *v = NULL;

    *out = false;
    if (!dev->pocl) {
        return CHARL_OK;
    }
    for (v = p->variants; v; v = v->next) {
        if (strcmp(v->entry, entry) == 0 && memcmp(v->local, local, sizeof v->local) == 0) {
            return CHARL_OK;
        }
    }
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *v, &v));
    CHARL_TRY_CLEANUP(charl__strdup(entry, &v->entry));
    memcpy(v->local, local, sizeof v->local);
    v->next = p->variants;
    p->variants = v;
    v = NULL;
    *out = true;
cleanup:
    charl_free(v);
    return st;
}

/* Messages go to stderr in one form, "program: error: what" with "  hint: what to do" below. */
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <charl/log.h>
#include <charl/text.h>
#include <charl/version.h>

enum { MESSAGE_BYTES = 8192 };

static const char *program_name = "charl";

double charl__cli_clock_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

charl_status charl__cli_alloc(int64_t count, size_t size, void *out)
{
    void *memory = count < 0 ? NULL : calloc(count > 0 ? (size_t)count : 1, size);

    CHARL_REQUIRE(memory, CHARL_ERR_NOMEM, "no memory for %lld elements of %zu bytes", (long long)count, size);
    memcpy(out, &memory, sizeof memory);
    return CHARL_OK;
}

bool charl__cli_speaks(void)
{
    const struct timespec patience = {.tv_sec = 5}; /* a rank may start late on a busy machine */
    sigset_t set;
    siginfo_t info;

    if (charl_launcher_rank() == 0) {
        return true;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCONT); /* set by mpirun first */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return sigtimedwait(&set, &info, &patience) < 0;
}

int charl__cli_exit_code(charl_status st)
{
    switch (st) {
    case CHARL_OK:
        return CHARL__EXIT_OK;
    case CHARL_ERR_CONFIG:
        return CHARL__EXIT_USAGE;
    case CHARL_ERR_DATA:
    case CHARL_ERR_IO:
        return CHARL__EXIT_DATA;
    case CHARL_ERR_NOMEM:
    case CHARL_ERR_DEVICE:
    case CHARL_ERR_KERNEL:
        return CHARL__EXIT_DEVICE;
    case CHARL_ERR_CHECKPOINT:
        return CHARL__EXIT_CHECKPOINT;
    case CHARL_ERR_NONFINITE:
        return CHARL__EXIT_NONFINITE;
    case CHARL_ERR_COMM:
        return CHARL__EXIT_COMM;
    case CHARL_ERR_BUSY:
    case CHARL_ERR_DISK:
        return CHARL__EXIT_DISK;
    case CHARL_ERR_AUDIT:
        return CHARL__EXIT_AUDIT;
    default:
        return CHARL__EXIT_INTERNAL;
    }
}

void charl__cli_write(FILE *f, const char *text, size_t length)
{
    for (size_t i = 0, n; i < length; i += n) {
        bool visible;

        n = charl_text_next(text + i, length - i, &visible);
        if (visible || text[i] == '\t') {
            fwrite(text + i, 1, n, f);
        } else {
            fputc('?', f);
        }
    }
}

static void put_line(FILE *f, const char *line, size_t length)
{
    charl__cli_write(f, line, length);
    fputc('\n', f);
}

void charl__cli_say(const char *level, const char *text)
{
    charl__cli_compiling_erase();
    fflush(stdout);
    flockfile(stderr);
    while (*text) {
        const size_t length = strcspn(text, "\n");

        fprintf(stderr, "%s: %s: ", program_name, level);
        put_line(stderr, text, length);
        text += length + (text[length] == '\n');
    }
    funlockfile(stderr);
}

static void say_hint(const char *hint)
{
    fprintf(stderr, "  hint: ");
    put_line(stderr, hint, strlen(hint));
}

/* Where the hint of a message begins: a HINT at its beginning, or after punctuation. The word may also be part of a name in the message. */
static const char *find_hint(const char *text)
{
    const char *at = strstr(text, "HINT ");

    while (at && at != text && at[-1] != '\n' && !(at - text >= 2 && at[-1] == ' ' && strchr(";.,", at[-2]))) {
        at = strstr(at + 1, "HINT ");
    }
    return at;
}

/* Each line of a warning or a note may be an error message, with its hint. */
static void say_message(const char *level, const char *message)
{
    char text[MESSAGE_BYTES];

    while (*message) {
        const size_t length = strcspn(message, "\n");
        const char *hint;

        snprintf(text, sizeof text, "%.*s", (int)length, message);
        hint = charl__cli_split_hint(text);
        charl__cli_say(level, text);
        if (hint) {
            say_hint(hint);
        }
        message += length + (message[length] == '\n');
    }
}

void charl__cli_warn(void *ctx, const char *text)
{
    (void)ctx;
    say_message("warning", text);
}

void charl__cli_note(void *ctx, const char *text)
{
    (void)ctx;
    say_message("note", text);
}

/* The environment check has the same result on every rank: the first prints it. */
static void on_log(void *ctx, charl_log_level level, const char *message)
{
    if (ctx && charl_launcher_rank() != 0) {
        return;
    }
    charl__cli_say(level == CHARL_LOG_WARN ? "warning" : charl_log_level_name(level), message);
}

const char *charl__cli_program(void)
{
    return program_name;
}

int charl__cli_begin(const char *program)
{
    charl_status st;

    program_name = program;
    setvbuf(stderr, NULL, _IOLBF,
            BUFSIZ);          /* write each line at once: mpirun mixes the output of processes between writes */
    signal(SIGPIPE, SIG_DFL); /* the parent may ignore it; without a reader a command ends quietly */
    signal(SIGXFSZ, SIG_IGN); /* a file beyond `ulimit -f` makes write() fail instead */
    charl_log_set_callback(on_log, &program_name);
    st = charl_version_check();
    st = st == CHARL_OK ? charl_environment_check() : st;
    st = st == CHARL_OK ? charl_fault_check() : st;
    charl_log_set_callback(on_log, NULL);
    return st == CHARL_OK ? CHARL__EXIT_OK : charl__cli_fail_alike(st);
}

/* Whether output to `fd` is lost because its reader has closed the pipe. */
static bool has_no_reader(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

int charl__cli_end(int code)
{
    const bool failed = ferror(stdout) != 0;

    charl__cli_compiling_done();
    errno = 0;
    if ((fflush(stdout) != 0 || failed) && code == CHARL__EXIT_OK && !has_no_reader(STDOUT_FILENO)) {
        return charl__cli_error(CHARL__EXIT_DISK, NULL, "standard output could not be written: %s",
                                errno ? strerror(errno) : "output was lost");
    }
    return code;
}

int charl__cli_error(int code, const char *hint, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0) {
        snprintf(text, sizeof text, "(a message that could not be formatted)");
    }
    va_end(ap);
    charl__cli_say("error", text);
    if (hint) {
        say_hint(hint);
    }
    return code;
}

char *charl__cli_split_hint(char *text)
{
    const char *found = find_hint(text);
    char *hint, *end;

    if (!found) {
        return NULL;
    }
    hint = end = text + (found - text);
    while (end > text && strchr(" ;.,\n", end[-1])) {
        end--;
    }
    *end = '\0';
    hint += strlen("HINT");
    return hint + strspn(hint, ": ");
}

int charl__cli_fail(charl_status st)
{
    char text[MESSAGE_BYTES];
    char *hint;

    snprintf(text, sizeof text, "%s", charl_error_message());
    if (!text[0]) {
        snprintf(text, sizeof text, "%s", charl_status_text(st));
    }
    hint = charl__cli_split_hint(text);
    if (charl_log_get_level() >= CHARL_LOG_DEBUG) {
        char path[MESSAGE_BYTES];

        snprintf(path, sizeof path, "%s%s", charl_status_name(st), charl_error_path());
        charl__cli_say("debug", path);
    }
    return charl__cli_error(charl__cli_exit_code(st), hint, "%s", text);
}

int charl__cli_fail_alike(charl_status st)
{
    return charl__cli_speaks() ? charl__cli_fail(st) : charl__cli_exit_code(st);
}

void charl__cli_put_word(FILE *f, const char *word)
{
    const char *quote = "";

    for (const char *c = word; *c != '\0'; c++) {
        const bool is_plain = (*c >= '0' && *c <= '9') || (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') ||
                              strchr("/._-+,:@%=", *c) || (unsigned char)*c >= 0x80;

        quote = is_plain ? quote : "'";
    }
    fprintf(f, "%s", quote);
    for (size_t n; (n = strcspn(word, "'")), word[n] != '\0'; word += n + 1) {
        charl__cli_write(f, word, n);
        fprintf(f, "'\\''");
    }
    charl__cli_write(f, word, strlen(word));
    fprintf(f, "%s", quote);
}

void charl__cli_put(const char *text, int indent)
{
    while (*text) {
        const size_t length = strcspn(text, "\n");

        printf("%*s", length ? indent : 0, "");
        charl__cli_write(stdout, text, length);
        text += length;
        if (*text == '\n') {
            putchar('\n');
            text++;
        }
    }
}

void charl__cli_shorten(const char *name, int width, char *out)
{
    const int length = (int)strlen(name), tail = (width - 2) / 2;

    if (length > width) {
        snprintf(out, (size_t)width + 1, "%.*s..%s", width - 2 - tail, name, name + length - tail);
    } else {
        snprintf(out, (size_t)width + 1, "%s", name);
    }
}

/* Progress shown while kernels are compiled: on a terminal one line that is rewritten and
 * disappears, in a log an occasional line. Nothing if kernels come from a cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

static const double SHOWN_AFTER_S = 0.3, SAID_EVERY_S = 15;

int charl__cli_columns(FILE *f)
{
    const char *term = getenv("TERM");
    struct winsize size = {0};

    return isatty(fileno(f)) && ioctl(fileno(f), TIOCGWINSZ, &size) == 0 && term && strcmp(term, "dumb") != 0
               ? size.ws_col
               : 0;
}

const char *charl__cli_compiling_count(const charl_compile_progress *p, bool slash, char text[32])
{
    const bool counts =
        p->known == 0 || p->done < p->known; /* otherwise `current` is a program, whose kernels come later */
    const int now = p->current && counts ? p->done + 1 : p->done;

    if (p->known > 0) {
        snprintf(text, 32, "%d%s%d", now, slash ? "/" : " of ", p->known);
    } else {
        snprintf(text, 32, "%d", now);
    }
    return text;
}

const char *charl__cli_compiling_line(const charl__cli_compiling *c, const charl_compile_progress *p, int columns,
                                      char text[CHARL__COMPILE_TEXT])
{
    const double spent_s = p->seconds - c->base_s;
    char count[32];
    int most = columns < CHARL__COMPILE_TEXT ? columns : CHARL__COMPILE_TEXT - 1;

    text[0] = '\0';
    if (p->current && spent_s >= SHOWN_AFTER_S && columns > 0) {
        snprintf(text, (size_t)most, "compiling kernels: %s, %.0f s, now %s",
                 charl__cli_compiling_count(p, false, count), spent_s, p->current);
    }
    return text;
}

bool charl__cli_compiling_is_due(charl__cli_compiling *c, const charl_compile_progress *p)
{
    const double now = charl__cli_clock_s();

    if (!p->current || p->seconds - c->base_s < CHARL__COMPILE_LONG_S ||
        (c->said_s > 0 && now - c->said_s < SAID_EVERY_S)) {
        return false;
    }
    c->said_s = now;
    return true;
}

double charl__cli_compiling_end(charl__cli_compiling *c, const charl_compile_progress *p)
{
    const double spent_s = p->seconds - c->base_s;

    *c = (charl__cli_compiling){.base_s = p->seconds};
    return spent_s;
}

/* Static: a command has one device at a time. */
static charl__cli_compiling shown;
static charl_compile_progress latest;
static bool is_drawn;

void charl__cli_compiling_erase(void)
{
    if (is_drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        is_drawn = false;
    }
}

void charl__cli_compiling_show(void *ctx, const charl_compile_progress *p)
{
    const int columns = charl__cli_columns(stderr);
    char text[CHARL__COMPILE_TEXT], count[32];

    (void)ctx;
    if (charl_launcher_rank() != 0) {
        return;
    }
    if (p->seconds < latest.seconds) { /* another device */
        shown = (charl__cli_compiling){0};
    }
    latest = *p;
    charl__cli_compiling_erase();
    charl__cli_compiling_line(&shown, p, columns, text);
    if (text[0]) {
        fflush(stdout);
        fputs(text, stderr);
        fflush(stderr);
        is_drawn = true;
    } else if (columns == 0 && charl__cli_compiling_is_due(&shown, p)) {
        fflush(stdout);
        fprintf(stderr, "%s: compiling kernels: %s, %.0f s\n", charl__cli_program(),
                charl__cli_compiling_count(p, false, count), p->seconds - shown.base_s);
    }
}

void charl__cli_compiling_done(void)
{
    const double spent_s = charl__cli_compiling_end(&shown, &latest);

    charl__cli_compiling_erase();
    if (spent_s >= CHARL__COMPILE_LONG_S && latest.done > 0) {
        fprintf(stderr, "%s: compiled %d kernels in %.1f s\n", charl__cli_program(), latest.done, spent_s);
    } else if (spent_s >= CHARL__COMPILE_LONG_S) { /* programs, whose kernels were not counted */
        fprintf(stderr, "%s: compiled kernels in %.1f s\n", charl__cli_program(), spent_s);
    }
}

/* POSIX clocks as doubles: 53 bits hold microseconds for centuries. */
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

static double read_clock(clockid_t id)
{
    struct timespec now = {0};

    (void)clock_gettime(id, &now); /* cannot fail for the two clocks that POSIX requires */
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double charl__clock_s(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double charl__clock_wall_s(void)
{
    return read_clock(CLOCK_REALTIME);
}

const char *charl__clock_format(double wall_s, char *text)
{
    struct tm parts;
    time_t whole;

    snprintf(text, CHARL__CLOCK_TEXT, "?");
    if (fabs(wall_s) < 1e11) { /* years -1200 to 5138; false for NaN */
        whole = (time_t)floor(wall_s);
        if (gmtime_r(&whole, &parts)) {
            (void)strftime(text, CHARL__CLOCK_TEXT, "%Y-%m-%dT%H:%M:%SZ", &parts);
        }
    }
    return text;
}

void charl__sleep_s(double seconds)
{
    const double forever_s = 1e9;
    struct timespec left;

    if (!(seconds > 0)) {
        return;
    }
    seconds = seconds < forever_s ? seconds : forever_s;
    left.tv_sec = (time_t)seconds;
    left.tv_nsec = (long)ceil((seconds - (double)left.tv_sec) * 1e9);
    if (left.tv_nsec > 999999999L) {
        left.tv_sec++;
        left.tv_nsec = 0;
    }
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

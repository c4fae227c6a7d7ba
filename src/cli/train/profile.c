/* The tables of --profile. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/train/train.h"

enum { SHOWN = 40, NUMBERS = 52, NAME_LEAST = 16, NAME_MOST = 60 };

/* "1.23 TFLOP/s", into text of 32 bytes */
static const char *rate_text(double per_s, const char *unit, char *text)
{
    static const char prefix[] = {'M', 'G', 'T', 'P'};
    int k = 0;

    for (per_s /= 1e6; per_s >= 999.5 && k < 3; k++) {
        per_s /= 1e3;
    }
    snprintf(text, 32, "%.3g %c%s", per_s, prefix[k], unit);
    return text;
}

/* Billions per second; "-" if the amount is unknown. */
static const char *giga(double amount, double ms, char *text)
{
    if (amount > 0 && ms > 0) {
        snprintf(text, 32, "%.*f", amount / ms * 1e-6 < 100 ? 1 : 0, amount / ms * 1e-6);
    } else {
        snprintf(text, 32, "-");
    }
    return text;
}

static void print_row(const charl_profile_row *r, int width)
{
    char flop[32], bytes[32], roofline[32] = "-", name[NAME_MOST + 1];

    charl__cli_shorten(r->name, width, name);
    if (r->roofline > 0) {
        snprintf(roofline, sizeof roofline, "%.0f %% %s", 100 * r->roofline, r->is_compute ? "flop" : "byte");
    }
    printf("  %-*s %9.3f %5.1f %8.4g %8s %7s %10s\n", width, name, r->ms, 100 * r->share, r->launches,
           giga(r->flop, r->ms, flop), giga(r->bytes, r->ms, bytes), roofline);
}

static void print_rows(const char *title, const charl_profile_row *row, int count, int width)
{
    double ms = 0, share = 0;

    printf("  %-*s %9s %5s %8s %8s %7s %10s\n", width, title, "ms", "%", "launches", "GFLOP/s", "GB/s", "roofline");
    for (int i = 0; i < count && i < SHOWN; i++) {
        print_row(&row[i], width);
    }
    for (int i = SHOWN; i < count; i++) {
        ms += row[i].ms;
        share += row[i].share;
    }
    if (count > SHOWN) {
        printf("  %-*s %9.3f %5.1f   (%d more)\n", width, "others", ms, 100 * share, count - SHOWN);
    }
}

void charl__train_print_profile(const charl_profile *p, int columns)
{
    const int room = columns - 3 - NUMBERS;
    const int width = room < NAME_LEAST ? NAME_LEAST : room > NAME_MOST ? NAME_MOST : room;
    char flops[32], bytes[32];

    printf("profile of steps %" PRId64 " to %" PRId64 " on rank 0, per step\n", p->first, p->last);
    printf("  a step takes %.3f ms, its kernels %.3f ms (%.1f %%)\n", p->step_ms, p->kernel_ms,
           p->step_ms > 0 ? 100 * p->kernel_ms / p->step_ms : 0.0);
    printf("  the device reaches at best %s in %s and %s (measured)\n\n", rate_text(p->peak_flops, "FLOP/s", flops),
           p->arithmetic, rate_text(p->peak_bytes, "B/s", bytes));
    print_rows("layer", p->layer, p->n_layers, width);
    putchar('\n');
    print_rows("kernel", p->kernel, p->n_kernels, width);
}

/* Energy of devices: one counter of an NVIDIA GPU, or those of a machine's processor packages (RAPL).
 *
 *     /sys/class/powercap/intel-rapl:0/name                  package-0        AMD's processors are there too
 *     /sys/class/powercap/intel-rapl:0/energy_uj             counts up, from 0 again behind max_energy_range_uj
 *     /sys/class/powercap/intel-rapl:0:0/name                core             a part of the package, as are all names with two colons
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/env.h"
#include "device/device_private.h"

static const double MOST_W =
    600; /* of a package: it cannot have passed its end twice in less than range / MOST_W seconds */

/* The number in DIR/ENTRY/NAME; false: there is none, or it may not be read. */
static bool read_number(const char *dir, const char *entry, const char *name, double *out)
{
    char path[4096], text[64] = "", *end = text;
    FILE *f;

    if (snprintf(path, sizeof path, "%s/%s/%s", dir, entry, name) >= (int)sizeof path || !(f = fopen(path, "re"))) {
        return false;
    }
    if (fgets(text, sizeof text, f)) {
        *out = strtod(text, &end);
    }
    (void)fclose(f);
    return end != text;
}

static bool is_package(const char *dir, const char *entry)
{
    char path[4096], text[64] = "";
    const char *colon = strchr(entry, ':');
    FILE *f;

    if (!colon || strchr(colon + 1, ':') || snprintf(path, sizeof path, "%s/%s/name", dir, entry) >= (int)sizeof path ||
        !(f = fopen(path, "re"))) {
        return false;
    }
    if (!fgets(text, sizeof text, f)) {
        text[0] = '\0';
    }
    (void)fclose(f);
    return strncmp(text, "package", 7) == 0;
}

/* Add what package `i` has used since the last reading, `gap_s` ago. False: unknown. */
static bool add_package(charl_energy_meter *m, int i, const char *dir, const char *entry, double gap_s)
{
    double uj, range_uj, used_uj;

    if (!read_number(dir, entry, "energy_uj", &uj) || !read_number(dir, entry, "max_energy_range_uj", &range_uj)) {
        return false;
    }
    if (m->counters == 0) { /* the first reading */
        m->last[i] = uj;
        return true;
    }
    used_uj = uj - m->last[i] + (uj < m->last[i] ? range_uj : 0);
    m->last[i] = uj;
    m->joules += used_uj * 1e-6;
    return gap_s * MOST_W < range_uj * 1e-6;
}

/* Number of packages that were read; 0: none, or not all of them. */
static int read_packages(charl_energy_meter *m, double gap_s)
{
    const char *given = charl__env(CHARL_ENV_POWERCAP_DIR), *dir = given ? given : "/sys/class/powercap";
    struct dirent **entries = NULL;
    const int n = scandir(dir, &entries, NULL, alphasort);
    bool is_good = true;
    int count = 0;

    for (int i = 0; i < n; i++) {
        if (is_good && is_package(dir, entries[i]->d_name)) {
            is_good = count < CHARL_ENERGY_COUNTERS && add_package(m, count, dir, entries[i]->d_name, gap_s);
            count++;
        }
        free(entries[i]);
    }
    free(entries);
    return is_good ? count : 0;
}

void charl_device_read_energy(const charl_device_info *device, charl_energy_meter *m)
{
    const bool is_first = m && m->read_s == 0;
    const double now = charl__clock_s();
    double joules = 0;
    int counters = 0;

    if (!device || !m || (!is_first && !m->is_known)) {
        return;
    }
    if (charl__nvidia_energy(device, &joules)) {
        m->joules += is_first || joules < m->last[0] ? 0 : joules - m->last[0];
        counters = is_first || joules >= m->last[0] ? 1 : 0; /* it has not begun again with the driver */
        m->last[0] = joules;
    } else if (device->kind == CHARL_DEVICE_CPU) {
        counters = read_packages(m, now - m->read_s);
    }
    m->is_known = counters > 0 && (is_first || counters == m->counters);
    m->counters = counters;
    m->read_s = now;
}

/* The energy of a run's devices. */
#include "train/metrics/energy.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "train/trainer.h"

/* What the ranks tell each other of their devices. */
typedef struct meter_text {
    char pci[16];
    bool is_known;
} meter_text;

charl_status charl__energy_begin(charl__trainer *t)
{
    const charl_device_info *device = charl_device_get_info(t->session.dev);
    const int size = charl_comm_size(t->comm), rank = charl_comm_rank(t->comm);
    CHARL_SCOPED_FREE meter_text *all = NULL;
    charl__energy *e = &t->energy;
    meter_text mine = {0};

    *e = (charl__energy){.is_measured = true};
    charl_device_read_energy(device, &e->meter);
    memcpy(mine.pci, device->pci, sizeof mine.pci);
    mine.is_known = e->meter.is_known;
    CHARL_TRY(charl_comm_agree(t->comm, charl__alloc_array(size, sizeof *all, &all)));
    CHARL_TRY(charl_comm_allgather(t->comm, &mine, sizeof mine, all));
    for (int r = 0; r < size; r++) {
        bool is_first = true;

        for (int k = 0; k < r; k++) {
            is_first = is_first && (strcmp(all[k].pci, all[r].pci) != 0 ||
                                    strcmp(charl_comm_host(t->comm, k), charl_comm_host(t->comm, r)) != 0);
        }
        e->devices += is_first;
        e->counts = r == rank ? is_first : e->counts;
        e->is_measured = e->is_measured && (!is_first || all[r].is_known);
    }
    return CHARL_OK;
}

charl_status charl__energy_sum(charl__trainer *t, bool now)
{
    charl__energy *e = &t->energy;
    float v[2] = {0}; /* joules since the last sum, counters that were lost */

    if (!e->is_measured) {
        return CHARL_OK;
    }
    if (e->counts && (now || charl__clock_s() - e->meter.read_s >= 1)) {
        charl_device_read_energy(charl_device_get_info(t->session.dev), &e->meter);
    }
    if (e->counts) {
        v[0] = (float)(e->meter.joules - e->told_j);
        v[1] = e->meter.is_known ? 0 : 1;
        e->told_j += (double)v[0];
    }
    CHARL_TRY(charl__grad_reducer_control(t->replica.dp->reducer, v, 2));
    e->is_measured = v[1] == 0;
    e->total_j = e->is_measured ? e->total_j + (double)v[0] : 0;
    return CHARL_OK;
}

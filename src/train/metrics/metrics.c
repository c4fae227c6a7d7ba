/* Metrics files: the formats that are open, and the numbers of a row. */
#include "train/metrics/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/registry/key.h"
#include "base/alloc.h"
#include "base/owner.h"
#include "io/commit.h"

static const charl__metrics_format *const formats[] = {
    &charl__metrics_jsonl,
    &charl__metrics_csv,
    &charl__metrics_tensorboard,
};

enum { N_FORMATS = sizeof formats / sizeof *formats };

struct charl_metrics {
    charl__owner owner;    /* while a row is written */
    void *file[N_FORMATS]; /* NULL: not asked for */
    bool loses_rows;
    int64_t times; /* how often that has begun */
};

bool charl__metrics_loses_rows(charl_metrics *m, bool now)
{
    const bool begins = now && !m->loses_rows;

    m->loses_rows = now;
    m->times += begins;
    return begins && (m->times & (m->times - 1)) == 0;
}

charl_status charl__metrics_write_file(const char *dir, const char *name, const char *text)
{
    CHARL_SCOPED_FREE char *path = NULL;

    CHARL_TRY(charl__commit_join(dir, name, &path));
    CHARL_TRY(charl__commit_bytes(path, text, strlen(text)));
    return CHARL_OK;
}

bool charl__metrics_digest(const charl_metrics *m, char hash[CHARL__SHA256_TEXT])
{
    for (int i = 0; m && i < N_FORMATS; i++) {
        if (m->file[i] && formats[i]->digest) {
            charl__sha256 sha = *formats[i]->digest(m->file[i]);
            unsigned char digest[CHARL__SHA256_BYTES];

            charl__sha256_final(&sha, digest);
            charl__sha256_format(digest, hash);
            return true;
        }
    }
    return false;
}

charl_status charl_metrics_open(const charl_config *config, const char *dir, unsigned wanted, int64_t keep_step,
                                charl_metrics **out)
{
    CHARL_GIVEN(dir, out);
    charl_status st = CHARL_OK;
    const charl__metrics_place place = {.dir = dir, .keep_step = keep_step, .config = config};
    charl_metrics *m = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *m, &m));
    charl__owner_init(&m->owner);
    for (int i = 0; i < N_FORMATS; i++) {
        if (wanted & formats[i]->bit) {
            CHARL_TRY_CLEANUP(formats[i]->open(&place, &m->file[i]));
        }
    }
    *out = m;
    m = NULL;
cleanup:
    charl_metrics_close(m);
    return st;
}

void charl_metrics_close(charl_metrics *m)
{
    if (m) {
        for (int i = 0; i < N_FORMATS; i++) {
            formats[i]->close(m->file[i]);
        }
        charl_free(m);
    }
}

charl_status charl_metrics_train(charl_metrics *m, const charl_train_row *row)
{
    CHARL_GIVEN(m, row);
    CHARL_OWNED(&m->owner, "set of metrics files");
    for (int i = 0; i < N_FORMATS; i++) {
        if (m->file[i]) {
            CHARL_TRY(formats[i]->train(m->file[i], row));
        }
    }
    return CHARL_OK;
}

charl_status charl_metrics_val(charl_metrics *m, const charl_val_row *row)
{
    CHARL_GIVEN(m, row);
    CHARL_OWNED(&m->owner, "set of metrics files");
    for (int i = 0; i < N_FORMATS; i++) {
        if (m->file[i]) {
            CHARL_TRY(formats[i]->val(m->file[i], row));
        }
    }
    return CHARL_OK;
}

charl_status charl__metrics_balance(charl_metrics *m, const charl_balance_row *row)
{
    CHARL_GIVEN(m, row);
    CHARL_OWNED(&m->owner, "set of metrics files");
    for (int i = 0; i < N_FORMATS; i++) {
        if (m->file[i] && formats[i]->balance) {
            CHARL_TRY(formats[i]->balance(m->file[i], row));
        }
    }
    return CHARL_OK;
}

charl_status charl_metrics_histograms(charl_metrics *m, int64_t step, const charl_params *params, float gradient_scale)
{
    CHARL_GIVEN(m, params);
    CHARL_OWNED(&m->owner, "set of metrics files");
    CHARL_TRY(charl__range_check(CHARL_ERR_INVALID, "gradient_scale", (double)gradient_scale, "(0,inf)"));
    for (int i = 0; i < N_FORMATS; i++) {
        if (m->file[i] && formats[i]->histograms) {
            CHARL_TRY(formats[i]->histograms(m->file[i], step, params, gradient_scale));
        }
    }
    return CHARL_OK;
}

typedef enum presence { ALWAYS, POSITIVE } presence;

/* A field of a row, a double or, for a count, an int64_t. */
typedef struct field {
    const char *name;
    size_t offset;
    int kind;
    presence when;
} field;

#define T(member) offsetof(charl_train_row, member)
static const field train_fields[] = {
    {"epoch", T(epoch), CHARL__METRICS_ROUNDED, ALWAYS},
    {"loss", T(loss), CHARL__METRICS_EXACT, ALWAYS},
    {"lr", T(lr), CHARL__METRICS_EXACT, ALWAYS},
    {"grad_norm", T(grad_norm), CHARL__METRICS_EXACT, ALWAYS},
    {"samples", T(samples), CHARL__METRICS_COUNT, ALWAYS},
    {"samples_per_s", T(samples_per_s), CHARL__METRICS_ROUNDED, ALWAYS},
    {"tokens_per_s", T(tokens_per_s), CHARL__METRICS_ROUNDED, POSITIVE},
    {"tflops", T(tflops), CHARL__METRICS_ROUNDED, POSITIVE},
    {"mfu", T(mfu), CHARL__METRICS_ROUNDED, POSITIVE},
    {"step_ms", T(step_ms), CHARL__METRICS_MS, ALWAYS},
    {"data_ms", T(data_ms), CHARL__METRICS_MS, ALWAYS},
    {"comm_ms", T(comm_ms), CHARL__METRICS_MS, ALWAYS},
    {"comm_exposed_ms", T(comm_exposed_ms), CHARL__METRICS_MS, ALWAYS},
    {"power_w", T(power_w), CHARL__METRICS_ROUNDED, POSITIVE},
    {"temperature_c", T(temperature_c), CHARL__METRICS_ROUNDED, POSITIVE},
    {"energy_j", T(energy_j), CHARL__METRICS_ROUNDED, POSITIVE},
    {"mem_bytes", T(mem_bytes), CHARL__METRICS_COUNT, ALWAYS},
    {"skipped", T(skipped), CHARL__METRICS_COUNT, POSITIVE},
    {"overflowed", T(overflowed), CHARL__METRICS_COUNT, POSITIVE},
    {"spikes", T(spikes), CHARL__METRICS_COUNT, POSITIVE},
    {"elapsed_s", T(elapsed_s), CHARL__METRICS_SECONDS, ALWAYS},
};
#undef T

_Static_assert(sizeof train_fields / sizeof *train_fields <= CHARL__METRICS_VALUES,
               "a row has room for all of its values");

int charl__metrics_train_values(const charl_train_row *row, charl__metrics_value out[CHARL__METRICS_VALUES])
{
    int n = 0;

    for (size_t i = 0; i < sizeof train_fields / sizeof *train_fields; i++) {
        const field *f = &train_fields[i];
        const void *at = (const char *)row + f->offset;
        const double value = f->kind == CHARL__METRICS_COUNT ? (double)*(const int64_t *)at : *(const double *)at;

        if (f->when == ALWAYS || (value > 0 && isfinite(value))) {
            out[n++] = (charl__metrics_value){.name = f->name, .value = value, .kind = f->kind};
        }
    }
    return n;
}

int charl__metrics_val_values(const charl_val_row *row, charl__metrics_value out[CHARL__METRICS_VALUES])
{
    int n = 0;

    out[n++] = (charl__metrics_value){"epoch", row->epoch, CHARL__METRICS_ROUNDED};
    out[n++] = (charl__metrics_value){"loss", row->loss, CHARL__METRICS_EXACT};
    for (int i = 0; i < row->n_metrics; i++) {
        out[n++] = (charl__metrics_value){row->metrics[i].name, row->metrics[i].value, CHARL__METRICS_EXACT};
    }
    out[n++] = (charl__metrics_value){"elapsed_s", row->elapsed_s, CHARL__METRICS_SECONDS};
    return n;
}

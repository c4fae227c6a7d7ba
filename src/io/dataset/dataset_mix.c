/* Several data sets of tokens mixed to one. Their tokens follow each other, set by set; stream.c decides which of them a training stream
 * reads. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/options.h"
#include "base/text/text.h"
#include "io/dataset/dataset_mix.h"
#include "io/scoped.h"
#include "io/tokenizer.h"

/* Number of a block's samples from each set: in proportion to the weights; the remainder goes to the sets that lose most by rounding. */
static charl_status divide_block(charl_dataset *ds, const char *const *paths, const double *weights)
{
    double total = 0, lost[CHARL__MIX_MOST];
    int64_t left = CHARL__MIX_BLOCK;

    for (int j = 0; j < ds->n_parts; j++) {
        CHARL_REQUIRE(weights[j] > 0 && isfinite(weights[j]), CHARL_ERR_CONFIG,
                      "the weight of %s is %g; weights are positive", paths[j], weights[j]);
        total += weights[j];
    }
    for (int j = 0; j < ds->n_parts; j++) {
        const double exact = weights[j] / total * CHARL__MIX_BLOCK;

        ds->share[j] = (int64_t)exact;
        lost[j] = exact - (double)ds->share[j];
        left -= ds->share[j];
    }
    for (; left > 0; left--) {
        int most = 0;

        for (int j = 1; j < ds->n_parts; j++) {
            most = lost[j] > lost[most] ? j : most;
        }
        ds->share[most]++;
        lost[most] = -1;
    }
    for (int j = 0; j < ds->n_parts; j++) {
        CHARL_REQUIRE(ds->share[j] > 0, CHARL_ERR_CONFIG, "the weight of %s is less than a %dth of all weights",
                      paths[j], CHARL__MIX_BLOCK);
    }
    return CHARL_OK;
}

charl_status charl__dataset_tokenizer(const charl_dataset *ds, charl_tokenizer **out)
{
    for (int j = 0; j < ds->n_parts; j++) {
        if (ds->part[j]->stored->tokenizer_kind[0]) {
            return charl__tokenizer_of_dataset(ds->part[j]->file.path, out);
        }
    }
    return charl__tokenizer_of_dataset(ds->file.path, out);
}

/* All sets must contain tokens of one vocabulary, stored in the same type. */
static charl_status check_part(const charl_dataset *first, const charl_dataset *d)
{
    const charl__array *x = first->views[CHARL_SPLIT_TRAIN].x, *y = d->views[CHARL_SPLIT_TRAIN].x;

    CHARL_REQUIRE(d->kind == CHARL_DATASET_TOKENS, CHARL_ERR_DATA, "%s holds %s; only sets of tokens can be mixed",
                  d->file.path, charl_dataset_kind_name(d->kind));
    CHARL_REQUIRE(d->classes == first->classes, CHARL_ERR_DATA,
                  "%s has a vocabulary of %lld tokens, %s one of %lld; HINT import both with the "
                  "same --tokenizer or --vocab",
                  d->file.path, (long long)d->classes, first->file.path, (long long)first->classes);
    CHARL_REQUIRE(d->packed == first->packed, CHARL_ERR_DATA,
                  "of %s and %s only one was packed into windows; HINT import both with the same --window",
                  d->file.path, first->file.path);
    CHARL_REQUIRE(x->dtype == y->dtype, CHARL_ERR_DATA, "%s stores tokens as %s, %s as %s", d->file.path,
                  charl_dtype_name(y->dtype), first->file.path, charl_dtype_name(x->dtype));
    return CHARL_OK;
}

/* All tokenizers in the sets must be the same. */
static charl_status check_tokenizers(const charl_dataset *ds)
{
    CHARL_SCOPED(charl__tokenizer_left) charl_tokenizer *first = NULL, *t = NULL;
    const char *owner = NULL;

    for (int j = 0; j < ds->n_parts; j++) {
        const charl_dataset *d = ds->part[j];

        if (!d->stored->tokenizer_kind[0]) {
            continue;
        }
        CHARL_TRY(charl__tokenizer_of_dataset(d->file.path, &t));
        CHARL_REQUIRE(!first || charl__tokenizer_equal(first, t), CHARL_ERR_DATA,
                      "%s holds tokens of another tokenizer than %s; HINT import both with "
                      "the same --tokenizer FILE",
                      d->file.path, owner);
        if (!first) {
            first = t;
            owner = d->file.path;
        } else {
            charl__tokenizer_release(t);
        }
        t = NULL;
    }
    return CHARL_OK;
}

/* The properties of the mix, and its name in messages. */
static charl_status describe(charl_dataset *ds)
{
    const charl_dataset *first = ds->part[0];
    const char *tokenizer = "";
    CHARL_SCOPED(charl__text_fini) charl__text name = {0}, id = {0};

    ds->kind = first->kind;
    ds->classes = ds->stored_classes = first->classes;
    ds->window = first->window;
    ds->packed = first->packed;
    CHARL_TRY(charl__text_printf(&id, "mix\n"));
    for (int j = 0; j < ds->n_parts; j++) {
        const charl_dataset *d = ds->part[j];

        tokenizer = tokenizer[0] ? tokenizer : d->stored->tokenizer_kind;
        CHARL_TRY(charl__text_printf(&name, "%s%s", j ? ", " : "", d->file.path));
        CHARL_TRY(charl__text_printf(&id, "%s %lld\n", d->content_id, (long long)ds->share[j]));
    }
    charl__sha256_text(id.data, id.length, ds->content_id);
    CHARL_TRY(charl__strdup(charl__text_string(&name), &ds->file.path));
    CHARL_TRY(charl__schema_set(&ds->stored->tokenizer_kind, tokenizer));
    CHARL_TRY(charl__schema_set(&ds->stored->layout, first->stored->layout));
    return CHARL_OK;
}

charl_status charl_dataset_open_mix(const char *const *paths, const double *weights, int n,
                                    const charl_dataset_options *opt, charl_dataset **out)
{
    CHARL_GIVEN(paths || n == 0, weights || n == 0, out);
    CHARL__OPTIONS(charl_dataset_options, opt);
    CHARL_SCOPED(charl__dataset_left) charl_dataset *ds = NULL;
    CHARL_SCOPED_FREE charl_dataset **part = NULL;

    *out = NULL;
    CHARL_REQUIRE(n >= 1 && n <= CHARL__MIX_MOST, CHARL_ERR_CONFIG, "a mix of %d data sets; it can have 1 to %d", n,
                  CHARL__MIX_MOST);
    CHARL_TRY(charl__alloc_array(n, sizeof *part, &part));
    CHARL_TRY(charl__dataset_create(&ds));
    ds->part = part;
    ds->n_parts = n;
    part = NULL;
    CHARL_TRY(charl__alloc_array(n, sizeof *ds->share, &ds->share));
    CHARL_TRY(divide_block(ds, paths, weights));
    for (int j = 0; j < n; j++) {
        CHARL_TRY(charl_dataset_open(paths[j], opt, &ds->part[j]));
        CHARL_TRY(check_part(ds->part[0], ds->part[j]));
    }
    CHARL_TRY(check_tokenizers(ds));
    CHARL_TRY(describe(ds));
    *out = ds;
    ds = NULL;
    return CHARL_OK;
}

void charl__mix_fini(charl_dataset *ds)
{
    for (int j = 0; j < ds->n_parts; j++) {
        charl_dataset_close(ds->part[j]);
    }
    charl_free(ds->part);
    charl_free(ds->share);
    charl_free(ds->file.path);
}

void charl__mix_info(const charl_dataset *ds, charl_dataset_info *out)
{
    for (int j = 0; j < ds->n_parts; j++) {
        charl_dataset_info part;

        charl_dataset_get_info(ds->part[j], &part);
        if (j == 0) {
            *out = part;
            continue;
        }
        for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
            out->rows[s] += part.rows[s];
            out->items[s] += part.items[s];
            out->documents[s] += part.documents[s];
        }
        out->checksums = out->checksums && part.checksums;
        out->native = out->native && part.native;
        out->weighted = out->weighted || part.weighted;
        out->note = out->note[0] ? out->note : part.note;
    }
    out->path = ds->file.path;
    out->classes = ds->classes;
    out->tokenizer = ds->stored->tokenizer_kind;
    memcpy(out->content_id, ds->content_id, sizeof out->content_id);
}

charl_dataset *charl__mix_find(const charl_dataset *ds, charl_split split, int64_t token, int64_t *first)
{
    *first = 0;
    for (int j = 0; j < ds->n_parts; j++) {
        const int64_t items = ds->part[j]->views[split].items;

        if (token >= 0 && token < *first + items) {
            return ds->part[j];
        }
        *first += items;
    }
    return NULL;
}

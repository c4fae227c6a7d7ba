#include "data/import/import_rows.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "data/import/importer.h"
#include "data/tokenizer/tokenizer_private.h"

/* A block fits into a cache, unless that is too few images for all processors. */
enum { FAST_BYTES = 1 << 20, DECODED = 64, MOST_BYTES = 16 << 20, NOTED = 20 };

charl_data_schema charl__import_schema(charl_dataset_kind kind)
{
    char *const none = (char *)(uintptr_t) "";

    return (charl_data_schema){.kind = kind,
                               .class_names = none,
                               .columns = none,
                               .targets = none,
                               .recipe = none,
                               .layout = none,
                               .fit = none,
                               .tokenizer_kind = none};
}

/* Lines of warnings, then notes; of many, only the first. */
static void pass_notes(charl__rows *rows, const charl_import_options *opt)
{
    for (int warnings = 1; warnings >= 0; warnings--) {
        char *text = charl__rows_drain_notes(rows, warnings);
        int n = 0;

        for (char *line = text, *end; line && *line && n < NOTED; line = end, n++) {
            end = line + strcspn(line, "\n");
            charl__import_note(opt, "%.*s", (int)(end - line), line);
            end += *end == '\n';
        }
        charl_free(text);
    }
}

charl_status charl__import_pass(const charl__rows_options *source, const charl_import_options *opt,
                                charl_status (*visit)(void *ctx, const charl__rows *rows, const void *x, const void *y,
                                                      int64_t n),
                                void *ctx, charl__import_count *count)
{
    const charl_data_schema *s = source->schema;
    const int64_t row = charl_shape_count(&s->x_shape) * (int64_t)charl_dtype_size(s->x_dtype),
                  targets = charl_shape_count(&s->y_shape) * (int64_t)charl_dtype_size(s->y_dtype),
                  fast = FAST_BYTES / (row + targets), most = MOST_BYTES / (row + targets);
    const int64_t block = fast > DECODED ? fast : most > DECODED ? DECODED : most > 0 ? most : 1;
    CHARL_SCOPED(charl__rows_left) charl__rows *rows = NULL;
    CHARL_SCOPED_FREE char *x = NULL, *y = NULL;
    int64_t got;

    *count = (charl__import_count){0};
    CHARL_TRY(charl__alloc_array(block, (size_t)row, &x));
    CHARL_TRY(charl__alloc_array(block, (size_t)targets, &y));
    CHARL_TRY(charl__rows_open(source, &rows));
    for (;; count->rows += got) {
        CHARL_TRY(charl__rows_next(rows, block, x, y, &got));
        if (got == 0) {
            break;
        }
        CHARL_TRY(visit ? visit(ctx, rows, x, rows->has_targets ? y : NULL, got) : CHARL_OK);
    }
    pass_notes(rows, opt);
    count->skipped = rows->skipped;
    snprintf(count->first, sizeof count->first, "%s", charl__text_string(&rows->first_skipped));
    return CHARL_OK;
}

/* An import that is being written. */
typedef struct writing {
    const charl__import_plan *plan;
    charl__writer *w;
    int source;
    int64_t done, end; /* rows; the end of the current source's rows */
} writing;

static charl_status write_block(void *ctx, const charl__rows *rows, const void *x, const void *y, int64_t n)
{
    writing *g = ctx;

    CHARL_REQUIRE(n <= g->end - g->done, CHARL_ERR_DATA, "%s: the file changed while it was being read", rows->subject);
    CHARL_TRY(charl__writer_put(g->w, x, g->plan->labels ? g->plan->labels + g->done : y, n));
    g->done += n;
    return g->plan->written ? g->plan->written(g->plan->ctx, g->source, rows, x, n) : CHARL_OK;
}

static charl_status write_sources(writing *g, const charl_import_options *opt)
{
    charl__import_count count[2] = {{0}, {0}};

    for (int k = 0; k < 2 && g->plan->source[k].n_paths > 0; k++) {
        g->source = k;
        g->end += g->plan->rows[k];
        CHARL_TRY(charl__import_pass(&g->plan->source[k], opt, write_block, g, &count[k]));
        g->done = g->end;
    }
    for (int k = 0; k < 2; k++) {
        CHARL_REQUIRE(count[k].skipped == 0, CHARL_ERR_DATA,
                      "%lld of %lld image%s cannot be read (--skip-bad skips them); the first: %s",
                      (long long)count[k].skipped, (long long)(count[k].rows + count[k].skipped),
                      count[k].rows + count[k].skipped == 1 ? "" : "s", count[k].first);
    }
    return CHARL_OK;
}

charl_status charl__import_rows(const charl__import_plan *plan, const char *out, const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const charl_data_schema *s = plan->schema;
    const bool values = s->y_dtype == CHARL_F32;
    const charl__writer_spec spec = {.kind = s->kind,
                                     .x_dtype = s->x_dtype,
                                     .x_item = s->x_shape,
                                     .values = values,
                                     .scales = values && plan->scales,
                                     .y_item = s->y_shape,
                                     .classes = plan->classes,
                                     .linked = plan->linked,
                                     .rows = plan->rows[0],
                                     .more = plan->rows[1],
                                     .val = plan->val};
    writing g = {.plan = plan};

    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &g.w));
    CHARL_TRY_CLEANUP(charl__writer_text(g.w, "columns", s->columns));
    CHARL_TRY_CLEANUP(charl__writer_text(g.w, "targets", s->targets));
    CHARL_TRY_CLEANUP(charl__writer_text(g.w, "class_names", s->class_names));
    CHARL_TRY_CLEANUP(charl__writer_text(g.w, "recipe", plan->plain ? "" : s->recipe));
    CHARL_TRY_CLEANUP(charl__writer_text(g.w, "fit", s->fit));
    if (s->tokenizer) {
        CHARL_TRY_CLEANUP(charl__writer_number(g.w, "vocab", charl_tokenizer_get_vocab(s->tokenizer)));
        CHARL_TRY_CLEANUP(charl__tokenizer_store(s->tokenizer, g.w));
    }
    CHARL_TRY_CLEANUP(write_sources(&g, opt));
    CHARL_TRY_CLEANUP(plan->end ? plan->end(plan->ctx, g.w) : CHARL_OK);
    CHARL_TRY_CLEANUP(charl__writer_finish(g.w));
cleanup:
    charl__writer_destroy(g.w);
    return st;
}

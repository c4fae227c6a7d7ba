#ifndef CHARL_EXPORT_FOLDER_H
#define CHARL_EXPORT_FOLDER_H
/** Folders that transformers and peft load, and files with their layout: code shared by these exporters. */
#include "base/text/text.h"
#include "export/export.h"
#include "nn/weights_layout.h"

typedef struct charl__folder {
    charl__export e;
    charl_config *config;
    void *settings; /* of the model, without auto values */
    const charl__weights_layout *layout;
    bool is_new;         /* created by charl__folder_make */
    charl__text written; /* paths of the files written so far, each with its NUL */
} charl__folder;

/** Open f->e.checkpoint as charl__export_open does, and select the layout that has the settings of its model. Call charl__folder_fini even
 *  after a failure. Errors: ERR_CONFIG  there is no such layout; ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__folder_open(charl__folder *f, const char *base, charl_ema_choice ema) CHARL_MUST_CHECK;
void charl__folder_fini(charl__folder *f);
/** The same of a checkpoint that is open, f->e.r. */
charl_status charl__folder_choose(charl__folder *f) CHARL_MUST_CHECK;

/** A weight of the model and its place in the layout. */
typedef struct charl__folder_weight {
    const charl_checkpoint_tensor *t; /* NULL: zeros */
    char own[CHARL__LAYOUT_NAME];
    charl_shape shape;
    const charl__weights_rule *rule;
    int64_t block;
} charl__folder_weight;

/** All weights of the model; *out is new, charl_free. Errors: ERR_CONFIG  the layout has no such weight; ERR_NOMEM. */
charl_status charl__folder_weights(const charl__folder *f, charl__folder_weight **out, int64_t *n) CHARL_MUST_CHECK;
/** Values of a weight, *out [w->shape], new: its parts one after another, each in the file's layout, or without `transposes` with all matrices as
 *  [out, in]. Errors: as charl__export_read. */
charl_status charl__folder_read(const charl__folder *f, const charl__folder_weight *w, bool transposes,
                                float **out) CHARL_MUST_CHECK;

/** Create the folder f->e.path, or use an empty one. Errors: ERR_DISK. */
charl_status charl__folder_make(charl__folder *f) CHARL_MUST_CHECK;

/** Write a text file of that name into the folder. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__folder_write(charl__folder *f, const char *name, const charl__text *text) CHARL_MUST_CHECK;

/** Write weights as a file of that name into the folder (charl__safetensors_save). Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__folder_save(charl__folder *f, const char *name, const charl_checkpoint_tensor *tensors, int64_t n,
                                const charl_data_schema *schema) CHARL_MUST_CHECK;

/** After a failure: remove the files that were written, and the folder if it is new, so that the export can be repeated. */
void charl__folder_undo(charl__folder *f);

#endif

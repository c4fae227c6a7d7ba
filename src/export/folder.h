#ifndef CHARL_EXPORT_FOLDER_H
#define CHARL_EXPORT_FOLDER_H
/** Folders that transformers and peft load: code shared by their exporters. */
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

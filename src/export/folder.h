#ifndef CHARL_EXPORT_FOLDER_H
#define CHARL_EXPORT_FOLDER_H
/** Folders that transformers and peft load: what their exporters share. */
#include "base/text/text.h"
#include "export/export.h"
#include "nn/weights_layout.h"

typedef struct charl__folder {
    charl__export e;
    charl_config *config;
    void *settings; /* of the model, without autos */
    const charl_weights_layout *layout;
} charl__folder;

/** Open f->e.checkpoint as charl__export_open does, and choose the layout that has the settings of its model. Call charl__folder_fini also
 *  after a failure. Errors: ERR_CONFIG  there is no such layout; ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__folder_open(charl__folder *f, const char *base, int ema) CHARL_MUST_CHECK;
void charl__folder_fini(charl__folder *f);

/** Make the folder `path`, or take an empty one. Errors: ERR_DISK. */
charl_status charl__folder_make(const char *path) CHARL_MUST_CHECK;

/** Write a text file of that name into the folder. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__folder_write(const charl__folder *f, const char *name, const charl__text *text) CHARL_MUST_CHECK;

#endif

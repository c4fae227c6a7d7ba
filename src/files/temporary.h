#ifndef CHARL_FILES_TEMPORARY_H
#define CHARL_FILES_TEMPORARY_H
/** Folders for the time of a command, in TMPDIR or /tmp.
 *
 *      CHARL_SCOPED(charl__temporary_remove) charl__text folder = {0};
 *
 *      CHARL_TRY(charl__temporary_make(&folder));
 */
#include "base/error.h"
#include "base/text/text.h"

/** Make an empty folder; *out, {0}, becomes its path, on failure "". Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__temporary_make(charl__text *out) CHARL_MUST_CHECK;
/** Remove it with all that it holds; "": a no-op. */
void charl__temporary_remove(charl__text *folder);

#endif

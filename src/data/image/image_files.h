#ifndef CHARL_DATA_IMAGE_IMAGE_FILES_H
#define CHARL_DATA_IMAGE_IMAGE_FILES_H
/** Names of image files. */
#include "charl/image.h"

/** Append "folder/name", or only name if folder is "". Errors: ERR_NOMEM. */
charl_status charl__files_append(charl_image_files *f, const char *folder, const char *name) CHARL_MUST_CHECK;

/** Which files of a folder are listed. */
typedef enum charl__folder_entries {
    CHARL__FOLDER_IMAGES,     /* .png, .jpg and .jpeg; other images are an error */
    CHARL__FOLDER_ALL_IMAGES, /* other images too */
    CHARL__FOLDER_FOLDERS
} charl__folder_entries;

/** Append the paths of the entries of a folder, sorted by name, except hidden ones. May append none.
 *  Errors: ERR_DATA, ERR_NOMEM. */
charl_status charl__folder_list(const char *folder, charl__folder_entries what,
                                charl_image_files *out) CHARL_MUST_CHECK;

/** charl_image_files_add, and folders with everything in them, at any depth: images of a folder
 *  sorted by name, then the images of its sub-folders; other images too. Hidden files and folders are ignored. Errors: as
 *  charl_image_files_add; ERR_DATA for folders deeper than 64. */
charl_status charl__image_files_add_tree(charl_image_files *files, const char *path) CHARL_MUST_CHECK;

#endif

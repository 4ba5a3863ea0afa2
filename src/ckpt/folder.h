/* folder.h - the folder of a model: which versions it has, and which of them
 * nobody needs. */
#ifndef FL_CKPT_FOLDER_H
#define FL_CKPT_FOLDER_H

#include "ckpt/version.h"

/* "000812-3f9c01": six digits or more, a hyphen, six hexadecimal digits. */
bool fl_version_is_id(const char *name);
uint64_t fl_version_number(const char *id);

/* The names of all versions in DIR, the newest first, each freed with fl_free;
   a folder that is not there has none. */
typedef FL_VEC(char *) fl_version_names;
FL_MUST_CHECK
fl_status fl_folder_list(const char *dir, fl_version_names *out);
void fl_version_names_release(fl_version_names *names);

/* "dir/name", freed with fl_free. */
char *fl_folder_join(const char *dir, const char *name);

bool fl_folder_has(const char *dir, const char *name);

/* What CURRENT says, without the line feed. FL_ERR_NOTFOUND: it is not there. */
FL_MUST_CHECK
fl_status fl_folder_current(const char *dir, char id[FL_VERSION_ID_MAX]);

/* Removes a version, its manifest first, so that half of one is none. */
FL_MUST_CHECK
fl_status fl_folder_remove(const char *dir, const char *id);

/* Removes versions without a manifest and half-written CURRENTs; says so. */
FL_MUST_CHECK
fl_status fl_folder_clean(const char *dir);

/* Removes versions other than the newest `keep` and what they are based on. */
void fl_folder_prune(const char *dir, uint32_t keep);

#endif

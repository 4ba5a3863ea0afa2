/* user_folder.h - where a user's files about running jobs lie: keys and notes.
 *
 *     $XDG_RUNTIME_DIR/flotilla
 *     /tmp/flotilla-UID
 *     $HOME/.flotilla
 *
 * or FLOTILLA_RUNTIME_DIR alone, where that is set. The first that can be made is
 * used. It is for its owner alone: one that others
 * may look into, or that somebody else has made, is as good as none. Any thread.
 */
#ifndef FL_PS_USER_FOLDER_H
#define FL_PS_USER_FOLDER_H

#include <stdbool.h>

#include "base/vec.h"

typedef bool (*fl_user_folder_fn)(void *arg, const char *folder);

/* Calls for every folder that there may be, the best first, until one says yes;
   whether one did. */
bool fl_user_folders(fl_user_folder_fn fn, void *arg);

/* Whether it is there and this user's alone. */
bool fl_user_folder_is_ours(const char *folder);
/* The same after making it, if it was not there. */
bool fl_user_folder_make(const char *folder);

/* A new file that nobody else can read; what was there is replaced. */
FL_MUST_CHECK
fl_status fl_user_file_write(const char *path, const char *text, size_t len);

#endif

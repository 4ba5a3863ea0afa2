/* save_files.h - parts of a save by servers that do not see its folder (setting
 * save_gather): they write into a folder of their own host, and send the files to
 * server 0, which puts them into the version.
 *
 * The one thread that saves.
 */
#ifndef FL_PS_SERVER_SAVE_FILES_H
#define FL_PS_SERVER_SAVE_FILES_H

#include "base/vec.h"
#include "ckpt/pace.h"
#include "ckpt/version.h"
#include "flotilla/file.h"
#include "ps/msg/save_calls.h"

/* Files that come; zeros are none. */
typedef struct fl_save_incoming {
    char *name;
    fl_file_writer *to; /* NULL: it is whole */
    uint64_t len;       /* bytes so far */
} fl_save_incoming;

typedef struct fl_save_files {
    FL_VEC(fl_save_incoming) files;
} fl_save_files;

/* The next bytes of a file of the version; those that came before are fine. */
FL_MUST_CHECK
fl_status fl_save_files_add(fl_save_files *g, const fl_model_version *v,
                            const fl_save_file_request *r);
/* What is not whole is removed. */
void fl_save_files_clear(fl_save_files *g);

/* Sends a file of the part, piece by piece. */
typedef struct fl_save_way {
    fl_status (*send)(void *arg, fl_msg type, const void *request);
    void *arg;
    uint64_t number; /* of the save */
    fl_pace *pace;
} fl_save_way;

FL_MUST_CHECK
fl_status fl_save_files_send(const fl_save_way *way, const fl_model_version *v,
                             const char *name);

#endif

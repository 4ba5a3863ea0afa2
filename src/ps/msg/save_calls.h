/* save_calls.h - the words of a save: what members say of themselves, and what
 * the coordinator tells them to do. Both ask the same question again and again:
 * "I have come so far", and the answer is what to do next.
 */
#ifndef FL_PS_MSG_SAVE_CALLS_H
#define FL_PS_MSG_SAVE_CALLS_H

#include "ps/msg/message.h"

/* --- SAVE (save.c) -------------------------------------------------------- */

/* Of directories, in bytes; and of a version's name. */
#define FL_SAVE_DIR_MAX 4095
#define FL_SAVE_VERSION_ROOM 32

/* Copies the name of a directory that a peer has sent. FL_ERR_INVAL for what is
   no path from the root. */
FL_MUST_CHECK
fl_status fl_save_read_dir(fl_msg_bytes from, char to[FL_SAVE_DIR_MAX + 1]);

/* A path and, behind a NUL, what goes with it: with the directory of a save the
   recipe of a model for prediction (ps/recipe.h), with a file its bytes. */
typedef struct fl_save_place {
    fl_msg_bytes path; /* without a NUL */
    fl_msg_bytes rest; /* may be empty: of a directory, all that the job has */
} fl_save_place;

fl_save_place fl_save_split(fl_msg_bytes joined);
void fl_save_join(fl_pack *out, const char *path, fl_msg_bytes rest);

/* Why a save is a whole one, as text. */
#define FL_SAVE_WHOLE_ROOM 256

/* Bits. */
typedef enum fl_save_kind {
    FL_SAVE_KIND_FULL = 0,
    FL_SAVE_KIND_DELTA = 1, /* what changed since the version that counts, when
                               all servers know it; else everything */
    /* Of a model for prediction, the rows that are worth a place online
       (table/cut.h), which spends their scores. */
    FL_SAVE_KIND_BY_SCORE = 2,
    FL_SAVE_KINDS = 4
} fl_save_kind;

typedef struct fl_save_request {
    uint32_t keep;    /* versions; 0: as the setting says */
    uint32_t kind;    /* fl_save_kind */
    fl_msg_bytes dir; /* and a recipe: fl_save_split */
} fl_save_request;

typedef struct fl_save_reply {
    uint64_t step; /* of the cut */
    char version[FL_SAVE_VERSION_ROOM];
    char base[FL_SAVE_VERSION_ROOM]; /* of a delta; "": it is a whole one */
    char whole[FL_SAVE_WHOLE_ROOM];  /* why, when a delta was wanted */
} fl_save_reply;

/* --- CUT (cut.c): trainers ------------------------------------------------- */

typedef enum fl_cut_state {
    FL_CUT_WATCHING, /* trains, and wants to know of the next cut */
    FL_CUT_BUSY,     /* has heard of it, and a batch is under way */
    FL_CUT_READY,    /* nothing is under way, and nothing begins */
    FL_CUT_IDLE,     /* the same, but before the round that it should make */
    FL_CUT_CALLING,  /* the same, and its program waits in a call */
    FL_CUT_HELD,     /* the same, within a round that cannot end */
    FL_CUT_FAILED    /* could not come; it says why */
} fl_cut_state;

typedef enum fl_cut_order {
    FL_CUT_COME = 1, /* come to the cut, after the round before `round` */
    FL_CUT_HOLD,   /* the round under way waits for the cut: it is your place */
    FL_CUT_REOPEN, /* others wait for you in a round: make it, then come */
    FL_CUT_GO_ON   /* the cut is over, or is not made */
} fl_cut_order;

typedef struct fl_cut_request {
    uint64_t number;    /* of the last cut that was heard of; 0: none */
    uint32_t state;     /* fl_cut_state */
    fl_msg_bytes bytes; /* what it brings; of FAILED the reason */
} fl_cut_request;

typedef struct fl_cut_reply {
    uint64_t number;
    uint32_t order; /* fl_cut_order */
    uint64_t round; /* the first that comes after the cut */
} fl_cut_reply;

/* --- SAVE_WORK (save_work.c): servers -------------------------------------- */

typedef enum fl_save_state {
    FL_SAVE_IDLE,
    FL_SAVE_PREPARED, /* sees the folder; of server 0 the version's name */
    FL_SAVE_CUT,      /* has its cut, and writes */
    FL_SAVE_WRITTEN,  /* with what belongs into the manifest */
    FL_SAVE_COMMITTED,
    FL_SAVE_FAILED /* with the reason */
} fl_save_state;

typedef enum fl_save_order_kind {
    FL_SAVE_PREPARE = 1,
    FL_SAVE_TAKE_CUT,
    FL_SAVE_COMMIT, /* server 0 only */
    FL_SAVE_END     /* it is over, for better or worse */
} fl_save_order_kind;

typedef struct fl_save_work_request {
    uint64_t number; /* of the save; 0: none yet */
    uint32_t state;  /* fl_save_state */
    /* Of PREPARED, when a delta is wanted: server 0 has found what it would
       change; or why there can be none, whoever says so. */
    char base[FL_SAVE_VERSION_ROOM], whole[FL_SAVE_WHOLE_ROOM];
    fl_msg_bytes bytes;
} fl_save_work_request;

typedef struct fl_save_work_reply {
    uint64_t number, step;
    uint32_t order; /* fl_save_order_kind */
    uint32_t keep;
    uint32_t kind;     /* fl_save_kind: what is wanted */
    uint32_t has_cuts; /* of END: servers were told to take their cuts */
    /* Of END: the version that counts now, "": the save has failed. */
    char version[FL_SAVE_VERSION_ROOM];
    char base[FL_SAVE_VERSION_ROOM]; /* that it changes; "": it is whole */
    fl_msg_bytes dir;                /* and a recipe: fl_save_split */
} fl_save_work_reply;

/* --- SAVE_PART (save_part.c): from servers to server 0 --------------------- */

/* Variables of dense blocks as they are in the cut (ps/named.h). */
typedef struct fl_save_part_request {
    uint64_t number; /* of the save */
    fl_msg_bytes bytes;
} fl_save_part_request;

/* --- SAVE_FILE (save_file.c): from servers to server 0 --------------------- */

/* Bytes of a file of the version, one request after the other. */
typedef struct fl_save_file_request {
    uint64_t number; /* of the save */
    uint64_t offset;
    uint32_t is_last;   /* the file is whole with this */
    fl_msg_bytes bytes; /* its name and these: fl_save_split */
} fl_save_file_request;

#endif

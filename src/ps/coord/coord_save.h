/* coord_save.h - saves of the whole job, one at a time.
 *
 *     GATHERING   trainers come to the cut; server 0 begins a version, the other
 *                 servers find its folder
 *     CUTTING     every server takes its cut; nobody trains
 *     WRITING     trainers have gone on; servers write
 *     COMMITTING  server 0 writes the manifest: from then on the version counts
 *
 * Whoever asks for a save while trainers still come to one of the same, for the
 * same directory, gets that one; others wait for the next. After an error in any
 * phase trainers go on, and the old model stays.
 *
 * A delta is wanted, and is made when server 0 finds a version that counts and
 * every server knows what changed since; otherwise the save is a whole one, and
 * who asked for it is told why.
 *
 * As all of the coordinator: callbacks come last, and must not call back.
 */
#ifndef FL_PS_COORD_COORD_SAVE_H
#define FL_PS_COORD_COORD_SAVE_H

#include "ps/coord/coord.h"
#include "ps/msg/save_calls.h"

/* What a member brought. */
typedef struct fl_save_part {
    uint32_t rank;
    uint8_t *bytes; /* 8-byte aligned; NULL: none */
    uint64_t len;
} fl_save_part;

/* All of them, for who commits. */
struct fl_save_parts {
    fl_save_part *trainers, *servers; /* in the order of ranks */
    uint32_t n_trainers, n_servers;
};
void fl_save_parts_free(fl_save_parts *p); /* NULL is fine */

typedef struct fl_save_wanted {
    fl_msg_bytes dir; /* and a recipe (fl_save_split); copied */
    uint32_t keep;    /* 0: as the option says */
    uint32_t kind;    /* fl_save_kind */
} fl_save_wanted;

/* Somebody wants a save. The question is answered when the version counts, or
   when there will be none; NULL: nobody waits. */
void fl_coord_save(fl_coord *c, void *question, const fl_save_wanted *wanted,
                   uint64_t now_ms);

/* A trainer's or a server's "I have come so far". A question is answered when
   there is something to do, an older one of the same member with
   FL_ERR_CLOSED. */
void fl_coord_cut(fl_coord *c, const fl_coord_asker *who,
                  const fl_cut_request *q);
void fl_coord_save_work(fl_coord *c, const fl_coord_asker *server,
                        const fl_save_work_request *q);

#endif

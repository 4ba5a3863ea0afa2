/* trainer_part.h - what a trainer brings to the cut of a save, as bytes.
 *
 *     u64 seed, u64 main version, u64 startup version
 *     text mode
 *     u64 n, n bytes    position in the data, JSON; may be empty
 *     u64 n, n bytes    the user's program; empty when there is none
 *     u64 n, n bytes    its startup program
 *     u32 n             variables that the model is to have, whole:
 *       text name, u32 dtype, u32 rank, u64 dims
 *     u32 n             tables: text name, u64 n and n bytes of settings
 *     align, then values of this trainer (ps/named.h)
 *
 * All trainers bring all of it: any of them may be the first that is left. Values
 * that all have alike (mode collective) trainer 0 brings, which cannot have left.
 */
#ifndef FL_PS_TRAINER_PART_H
#define FL_PS_TRAINER_PART_H

#include "base/vec.h"
#include "ps/msg/message.h"
#include "ps/named.h"

typedef struct fl_part_table {
    char name[FL_NAMED_ROOM];
    fl_msg_bytes settings;
} fl_part_table;

/* Texts and values lie in the bytes that were read. */
typedef struct fl_trainer_part {
    uint64_t seed, main_version, startup_version;
    char mode[64];
    fl_msg_bytes position, program, startup;
    FL_VEC(fl_named) wholes; /* without data */
    FL_VEC(fl_part_table) tables;
    FL_VEC(fl_named) values;
} fl_trainer_part;

void fl_trainer_part_pack(fl_pack *p, const fl_trainer_part *part);
/* FL_ERR_CORRUPT for bytes that are none. */
FL_MUST_CHECK
fl_status fl_trainer_part_read(fl_trainer_part *out, fl_msg_bytes bytes);
void fl_trainer_part_release(fl_trainer_part *p);

#endif

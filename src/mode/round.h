/* round.h - a step that all trainers make together, in the modes that have such
 * (sync, collective):
 *
 *     ROUND_PUSH, ROUND_DENSE   to all servers, which keep them
 *     ROUND                     to all servers, with the samples of this trainer:
 *                               applied when all have come; the reply has the
 *                               dense parameters
 *     PULL                      rows of the next batches, if they are known
 *
 * All leave together, and nobody waits for a word in between: a server takes the
 * requests of a trainer in their order, and server 0 decides who is in a round
 * when all have come to all servers.
 *
 * A mode that weighs by itself has to know who came first: when the servers have
 * kept what it sent, BARRIER "round" at server 0 in the place of ROUND, and then
 * APPLY to all servers with the weights. All trainers got the same answer at the
 * barrier, so they ask for the same. Where servers hold nothing, BARRIER is all.
 *
 * The number of the round is the global step. One round at a time.
 */
#ifndef FL_MODE_ROUND_H
#define FL_MODE_ROUND_H

#include "mode/lockstep.h"

typedef struct fl_round fl_round;

typedef FL_VEC(fl_round_member) fl_round_members;

typedef struct fl_round_ops {
    /* What this trainer says of itself at the barrier, for the others' weigh;
       NULL: its samples. */
    uint64_t (*say)(void *mode, uint64_t samples);
    /* What those that came count; refuses a round that it cannot be part of.
       NULL: servers weigh, as `weighing` has it, by what they said. */
    fl_status (*weigh)(void *mode, const fl_came_list *came,
                       fl_round_members *out);
    fl_weighing weighing;
} fl_round_ops;

fl_round *fl_round_new(fl_cluster *cluster, const fl_round_ops *ops,
                       void *mode);
void fl_round_free(fl_round *r); /* NULL is fine */

/* The exchange of a lockstep (fl_lockstep_ops), which it ends. */
void fl_round_begin(fl_round *r, fl_lockstep *core, const fl_merged *g);

/* The number of the step that begins. A trainer that comes back learns it when
   it connects; if it cannot, the requests of this step say why. */
uint64_t fl_round_step(const fl_round *r);

#endif

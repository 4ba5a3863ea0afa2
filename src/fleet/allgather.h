/* allgather.h - what the workers of a fleet tell each other, in rounds.
 *
 *     fl_allgather_begin            for one call of the user
 *     fl_allgather_words, fl_allgather_run_round   as often as needed; then
 *     look
 *                                                  at the parts
 *     fl_allgather_end
 *
 * In a round every worker brings up to `cap` words of 8 bytes, and all get the
 * words of all, in the order of ranks; so all of them come to the same result.
 * Workers that disagree about the call, or about how much it is about, all get
 * an error that names them. A worker that leaves between two rounds of a call
 * is seen by all others in the same round: they begin anew without it. In a
 * single process rounds are over at once. Owner thread only.
 */
#ifndef FL_FLEET_ALLGATHER_H
#define FL_FLEET_ALLGATHER_H

#include "fleet/fleet.h"

/* What is called, with its name in messages. */
typedef enum fl_fleet_call {
    FL_CALL_REDUCE_SUM,
    FL_CALL_REDUCE_MIN,
    FL_CALL_REDUCE_MAX,
    FL_CALL_GATHER,
    FL_CALL_SUM,
    FL_CALL_MAX,
    FL_CALL_MIN,
    FL_CALL_ACC,
    FL_CALL_MAE,
    FL_CALL_MSE,
    FL_CALL_RMSE,
    FL_CALL_AUC,
    FL_CALL_EXACT_AUC,
    FL_CALL_EVAL
} fl_fleet_call;
const char *fl_fleet_call_name(fl_fleet_call call);

/* A round has at least room for so many. */
#define FL_ALLGATHER_CAP_MIN 4

typedef struct fl_allgather_part {
    int rank;
    size_t n;          /* words */
    const void *words; /* 8-byte aligned */
} fl_allgather_part;

typedef struct fl_allgather_round {
    fl_fleet *fleet;
    fl_fleet_call call;
    bool is_alone;
    size_t cap;
    uint64_t *message;               /* this worker's, of the round */
    FL_VEC(fl_allgather_part) parts; /* of the last round */
    fl_client_gathered got;          /* what they lie in */
    FL_VEC(int) ranks;               /* of the first round */
    bool is_changed;                 /* the last round had others */
} fl_allgather_round;

/* Connects if need be. Ended in any case. */
FL_MUST_CHECK
fl_status fl_allgather_begin(fl_allgather_round *t, fl_fleet *f,
                             fl_fleet_call call);
void fl_allgather_end(fl_allgather_round *t);

/* Where up to cap words of the next round go. */
void *fl_allgather_words(fl_allgather_round *t);
/* n of them are there; the whole call is about `total`, the same for all. With
   is_changed the parts are of no use: all begin anew with
   fl_allgather_restart. */
FL_MUST_CHECK
fl_status fl_allgather_run_round(fl_allgather_round *t, size_t n,
                                 uint64_t total);
void fl_allgather_restart(fl_allgather_round *t);

/* --- on top of it --------------------------------------------------------- */

/* n values of all workers are folded into these; untouched on failure. */
FL_MUST_CHECK
fl_status fl_fleet_fold(fl_fleet *f, fl_fleet_call call, fl_reduce_kind kind,
                        double *values, size_t n);

#endif

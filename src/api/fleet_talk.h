/* fleet_talk.h - what the workers of a fleet tell each other, in rounds.
 *
 *     fl_talk_begin            for one call of the user
 *     fl_talk_words, fl_talk_round   as often as needed; then look at parts
 *     fl_talk_end
 *
 * In a round every worker brings up to `cap` words of 8 bytes, and all get the
 * words of all, in the order of ranks; so all of them come to the same result.
 * Workers that disagree about the call, or about how much it is about, all get
 * an error that names them. A worker that leaves between two rounds of a call
 * is seen by all others in the same round: they begin anew without it. In a
 * single process rounds are over at once. Owner thread only.
 */
#ifndef FL_API_FLEET_TALK_H
#define FL_API_FLEET_TALK_H

#include "api/fleet.h"

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
    FL_CALL_EXACT_AUC
} fl_fleet_call;
const char *fl_fleet_call_name(fl_fleet_call call);

/* A round has at least room for so many. */
#define FL_TALK_CAP_MIN 4

typedef struct fl_talk_part {
    int rank;
    size_t n;          /* words */
    const void *words; /* 8-byte aligned */
} fl_talk_part;

typedef struct fl_talk {
    fl_fleet *fleet;
    fl_fleet_call call;
    bool is_alone;
    size_t cap;
    uint64_t *message;          /* this worker's, of the round */
    FL_VEC(fl_talk_part) parts; /* of the last round */
    fl_cluster_gathered got;    /* what they lie in */
    FL_VEC(int) ranks;          /* of the first round */
    bool is_changed;            /* the last round had others */
} fl_talk;

/* Connects if need be. Ended in any case. */
FL_MUST_CHECK
fl_status fl_talk_begin(fl_talk *t, fl_fleet *f, fl_fleet_call call);
void fl_talk_end(fl_talk *t);

/* Where up to cap words of the next round go. */
void *fl_talk_words(fl_talk *t);
/* n of them are there; the whole call is about `total`, the same for all. With
   is_changed the parts are of no use: all begin anew with fl_talk_restart. */
FL_MUST_CHECK
fl_status fl_talk_round(fl_talk *t, size_t n, uint64_t total);
void fl_talk_restart(fl_talk *t);

/* --- on top of it --------------------------------------------------------- */

/* n values of all workers are folded into these; untouched on failure. */
FL_MUST_CHECK
fl_status fl_fleet_fold(fl_fleet *f, fl_fleet_call call, fl_reduce_kind kind,
                        double *values, size_t n);

#endif

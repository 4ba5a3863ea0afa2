/* calls.h - what a client asks for and what a server answers, where both sides
 * and the coordinator use the same words. */
#ifndef FL_PS_MSG_CALLS_H
#define FL_PS_MSG_CALLS_H

#include <stdio.h>

#include "base/vec.h"
#include "ps/msg/message.h"

/* --- BARRIER (barrier.c) -------------------------------------------------- */

/* Of all rounds. */
#define FL_ROUND_BARRIER "round"

/* Each kind has names of its own. */
typedef enum fl_barrier_kind {
    FL_BARRIER_PLAIN,  /* for all live trainers */
    FL_BARRIER_ROUND,  /* not for those that wait elsewhere */
    FL_BARRIER_END,    /* the other servers', for the end of the job */
    FL_BARRIER_GATHER, /* GATHER: bytes are brought to it */
    FL_BARRIER_MEET, /* ROUND: a round to which trainers come on all servers */
} fl_barrier_kind;

typedef struct fl_barrier_request {
    char name[FL_MSG_NAME_ROOM];
    uint64_t generation, share;
    uint32_t kind; /* fl_barrier_kind */
} fl_barrier_request;

/* Who came, and the number it brought; in the order of ranks. */
typedef struct fl_came {
    uint32_t rank;
    uint64_t share;
} fl_came;

typedef FL_VEC(fl_came) fl_came_list;

/* As the reply has them. */
void fl_came_pack(fl_pack *p, const fl_came *came, size_t n);
/* Into *came, which is emptied first. */
FL_MUST_CHECK
fl_status fl_came_unpack(fl_msg_bytes payload, fl_came_list *came);

/* --- ROUND_CAME (round_came.c) -------------------------------------------- */

/* A trainer whose gradients of a round a server has. */
typedef struct fl_round_guest {
    uint32_t rank, incarnation;
} fl_round_guest;

typedef FL_VEC(fl_round_guest) fl_round_guests;

/* --- GATHER (gather.c) ---------------------------------------------------- */

/* What one member brought, where it lies. */
typedef struct fl_gather_piece {
    uint32_t rank;
    const void *bytes;
    uint64_t len;
} fl_gather_piece;

typedef FL_VEC(fl_gather_piece) fl_gather_pieces;

/* --- DISPATCH (dispatch.c) ------------------------------------------------ */

/* Answers that are no item: none is left and none comes back; not known yet. */
#define FL_DISPATCH_NONE UINT64_MAX
#define FL_DISPATCH_LATER (UINT64_MAX - 1)

/* A trainer's question for the next item of a pass, which is a name and a
   number. */
typedef struct fl_dispatch_request {
    char name[FL_MSG_NAME_ROOM];
    uint64_t number, n; /* of the pass; items in it */
    uint64_t question;  /* from 1 on, per trainer and pass; 0: for no item */
    uint64_t finished;  /* an item; FL_DISPATCH_NONE: none */
    uint32_t is_hasty;  /* does not wait for items that others have */
} fl_dispatch_request;

/* --- REPORT (report.c) ---------------------------------------------------- */

/* What is longer is no phase. */
#define FL_PHASE_ROOM 256

typedef struct fl_report_request {
    char phase[FL_PHASE_ROOM];
    uint64_t samples;
    double loss, auc;  /* NaN: not known */
    uint64_t expected; /* samples at the end of the pass; 0: not known */
} fl_report_request;

typedef struct fl_report_reply {
    double rate; /* of all trainers, samples per second; NaN: not known */
} fl_report_reply;

/* --- CLOCK (clock.c) ------------------------------------------------------ */

/* How far the clock of server 0 is ahead, by the best of n answers. */
typedef struct fl_clock_guess {
    int n;
    int64_t ahead_ns;
    uint64_t error_ns;
} fl_clock_guess;

/* An answer to a question that left at asked_ns. */
void fl_clock_take(fl_clock_guess *g, uint64_t asked_ns, uint64_t there_ns,
                   uint64_t heard_ns);

/* --- JOIN (join.c) -------------------------------------------------------- */

typedef struct fl_join_reply {
    uint32_t incarnation;
} fl_join_reply;

/* --- RELAY and RELAY_TAKE (relay.c) --------------------------------------- */

/* Bytes for a trainer. */
typedef struct fl_relay_request {
    uint32_t to; /* rank */
    uint64_t generation;
    fl_msg_bytes bytes;
} fl_relay_request;

typedef struct fl_relay_take_request {
    uint64_t generation;
    uint64_t seen; /* messages of it that were received from this server */
} fl_relay_take_request;

/* Text as it goes into a request. */
#define fl_msg_text(to, text) ((void)snprintf((to), sizeof(to), "%s", (text)))

#endif

/* coord_inside.h - what the files of the coordinator share; for coord*.c
   only. */
#ifndef FL_PS_COORD_COORD_INSIDE_H
#define FL_PS_COORD_COORD_INSIDE_H

#include "base/vec.h"
#include "ps/coord/coord.h"
#include "ps/coord/coord_save.h"
#include "rpc/stream/stream.h"

/* A wait is told after the first and then again and again. */
#define FL_COORD_LOG_FIRST_MS 3000
#define FL_COORD_LOG_AGAIN_MS 10000

/* Names come from peers, so that all of this has a limit. */
#define FL_BARRIER_NAME_MAX 63
#define FL_BARRIERS_MAX 1024 /* open ones, and names in all */
#define FL_GATHERS_MAX 16    /* names, as each has bytes that are kept */
#define FL_PHASE_MAX 24

typedef enum fl_member_state {
    FL_MEMBER_ABSENT, /* never joined */
    FL_MEMBER_HERE,   /* counts, even when it is down or silent */
    FL_MEMBER_LEFT,   /* in order */
    FL_MEMBER_LOST    /* by force */
} fl_member_state;

/* What a trainer said last about its work. */
typedef struct fl_member_progress {
    bool is_known;
    char phase[FL_PHASE_MAX + 1];
    uint64_t samples, at_ms;
    uint64_t from_samples, from_ms; /* where the rate is measured from */
    double rate;                    /* samples per second; NaN: not known yet */
    double loss, auc;
    uint64_t expected; /* samples at the end of the pass; 0: not known */
} fl_member_progress;

typedef struct fl_coord_member {
    fl_identity id;
    const char *role; /* what people call it */
    char peer[FL_ADDRESS_MAX];
    fl_member_state state;
    uint32_t incarnation;
    bool uses_incarnation; /* it has got the answer to its join */
    bool is_down, is_silent;
    uint64_t away_ms; /* since when it is either */
    uint64_t step;    /* the job's step that it was last seen at */
    fl_member_progress progress;
} fl_coord_member;

typedef struct fl_asked {
    bool came;
    uint64_t share;      /* to a barrier */
    fl_gather_part part; /* to a gather */
    void *question;
} fl_asked;

typedef struct fl_barrier_id {
    fl_barrier_kind kind;
    const char *name;
    uint64_t generation;
} fl_barrier_id;

/* What the other servers have told of a round. */
typedef struct fl_meet {
    uint32_t n_asked; /* servers whose question is open */
    void **questions; /* by rank - 1; NULL: it has not asked yet */
    uint32_t *has;    /* by rank - 1 and trainer: an incarnation; 0: nobody */
} fl_meet;

typedef struct fl_barrier {
    fl_barrier_kind kind;
    char name[FL_BARRIER_NAME_MAX + 1];
    uint64_t generation;
    uint64_t since_ms, log_ms;
    uint64_t bytes;    /* of a gather's reply */
    bool is_too_large; /* those are more than are sent, and are not kept */
    uint32_t n_came;
    fl_meet meeting; /* of the kind MEET */
    fl_asked by_rank[];
} fl_barrier;

/* What was brought to one generation of a gather. */
typedef struct fl_gather_record {
    uint64_t generation;
    fl_gathered *gathered; /* NULL: it was too large */
    uint64_t bytes;        /* of its reply */
} fl_gather_record;

/* All generations up to this one are over. Who came to it is remembered for
   those whose answer is lost. Records of gathers are kept for trainers that
   start again and go through all generations: the oldest ones go when they
   are too many. */
typedef struct fl_passed {
    fl_barrier_kind kind;
    char name[FL_BARRIER_NAME_MAX + 1];
    uint64_t generation;
    fl_came_list came;
    FL_VEC(fl_gather_record) records; /* in the order of generations */
    uint64_t record_bytes;            /* of all of them */
} fl_passed;

typedef struct fl_work_pass fl_work_pass;

/* A member of a save: how far it has come, and its open question. */
typedef struct fl_save_seat {
    uint32_t state;  /* fl_cut_state, or of a server fl_save_state */
    uint64_t number; /* of the save that it is at */
    void *question;  /* NULL: none */
    fl_save_part part;
} fl_save_seat;

typedef struct fl_save_wish {
    void *question; /* NULL: nobody waits */
    char *dir;      /* and a recipe (fl_save_split), and a NUL behind it */
    size_t dir_len; /* with the recipe */
    uint32_t keep, kind;
} fl_save_wish;

typedef enum fl_save_phase {
    FL_SAVES_NONE,
    FL_SAVES_GATHERING,
    FL_SAVES_CUTTING,
    FL_SAVES_WRITING,
    FL_SAVES_COMMITTING
} fl_save_phase;

typedef struct fl_coord_saves {
    fl_save_phase phase;
    uint64_t number; /* of the last one */
    uint64_t since_ms, cut_ms, log_ms;
    bool has_begun;              /* these two are known */
    uint64_t last_ms, last_step; /* of the last one that was begun by itself */
    uint64_t delta_ms;           /* when that, or a delta, was begun */
    uint64_t step;               /* of the cut */
    char version[FL_SAVE_VERSION_ROOM];
    char base[FL_SAVE_VERSION_ROOM]; /* of a delta, as long as it can be one */
    char whole[FL_SAVE_WHOLE_ROOM];  /* why it cannot */
    uint64_t cut_number;             /* of the last one with cuts */
    uint64_t counts_number; /* of the last one that counts, and its version */
    char counts[FL_SAVE_VERSION_ROOM];
    FL_VEC(fl_save_wish) now, next; /* who waits for this one, and the next */
    fl_save_seat *seats;            /* trainers by rank, then servers */
} fl_coord_saves;

struct fl_coord {
    fl_coord_options o;
    fl_coord_events e;
    void *arg;
    uint64_t start_ms, log_ms;
    fl_coord_member *members; /* trainers by rank, then servers by rank */
    uint32_t n_trainers, n_members;
    uint32_t n_joined; /* that joined at least once */
    uint32_t n_live;   /* trainers that count */
    bool is_complete, is_over;
    fl_err why; /* it is over */
    uint64_t epoch, step;
    FL_VEC(fl_barrier *) open; /* in the order of their first question */
    FL_VEC(fl_passed) passed;
    FL_VEC(fl_work_pass *) passes; /* in the order of their first question */
    fl_coord_saves saves;
};

/* Time between two moments; threads may tell them in the wrong order. */
static inline uint64_t fl_coord_between(uint64_t from_ms, uint64_t to_ms)
{
    return to_ms > from_ms ? to_ms - from_ms : 0;
}

/* Moves *log_ms on and returns true when it is time to speak. */
bool fl_coord_is_due(uint64_t *log_ms, uint64_t now_ms);
void fl_coord_log_line(fl_coord *c, fl_str *line); /* takes the line */
/* FL_ERR_CLOSED, with the reason why the job is over. */
fl_status fl_coord_fail_over(const fl_coord *c);

/* --- barriers (coord_barrier.c) ------------------------------------------ */

/* Answers those for which nobody is missing any more. */
void fl_coord_check_barriers(fl_coord *c);
/* Answers one trainer's questions for barriers with this thread's last
   error. */
void fl_coord_withdraw(fl_coord *c, uint32_t rank, fl_status st);
/* Answers all questions with this thread's last error. */
void fl_coord_drop_barriers(fl_coord *c, fl_status st);
void fl_coord_tick_barriers(fl_coord *c, uint64_t now_ms);
/* One that this trainer waits at, or NULL. */
const fl_barrier *fl_coord_waits_at(const fl_coord *c, uint32_t rank);
/* Whether a barrier waits for this trainer. */
bool fl_coord_is_missing(const fl_coord *c, const fl_barrier *b, uint32_t rank);
void fl_coord_release_barriers(fl_coord *c);
const char *fl_barrier_kind_name(const fl_barrier *b); /* "barrier" */

FL_MUST_CHECK
fl_status fl_coord_check_name(const char *what, const char *name);

/* A question for either kind; what was brought is taken over. */
void fl_coord_enter_barrier(fl_coord *c, const fl_coord_asker *who,
                            const fl_barrier_id *id, fl_asked *asked);
/* One that this trainer waits at, of that kind and name; NULL: none. */
const fl_barrier *fl_coord_waits_by_name(const fl_coord *c, uint32_t rank,
                                         const fl_barrier_id *id);

/* Whether there may be one more of its kind, unless it is open or over. */
FL_MUST_CHECK
fl_status fl_coord_check_room(const fl_coord *c, const fl_barrier_id *id);
/* The one that is asked for, open from now on; NULL: it is over, and the question
   was answered. */
fl_barrier *fl_coord_reach_barrier(fl_coord *c, const fl_coord_asker *who,
                                   const fl_barrier_id *id);
/* Somebody has come, which others may have waited for. */
void fl_coord_check_came(fl_coord *c, uint64_t now_ms);

/* --- rounds on several servers (coord_meet.c) ----------------------------- */

void fl_meet_init(fl_meet *m, const fl_coord *c);
void fl_meet_release(fl_meet *m);
/* Whether each of them has asked; a barrier of another kind has none. */
bool fl_meet_is_told(const fl_coord *c, const fl_barrier *b);
/* The first server but 0 that a trainer has not come to; 0: there is none. */
uint32_t fl_meet_lacks(const fl_coord *c, const fl_barrier *b, uint32_t rank);
/* Answers the servers with those who came, or with this thread's last error. */
void fl_meet_answer(const fl_coord *c, const fl_barrier *b, fl_status st,
                    const fl_came_list *came);

/* --- gathers (coord_gather.c) --------------------------------------------- */

/* Bytes come to an open gather, or are taken back. */
void fl_coord_keep_part(const fl_coord *c, fl_barrier *b, fl_asked *asked);
void fl_coord_drop_part(fl_barrier *b, fl_asked *asked);
/* Moves what was brought to where it is remembered. */
void fl_coord_remember_parts(const fl_coord *c, fl_barrier *b, fl_passed *p);
void fl_coord_release_records(fl_passed *p);
/* The answer of one that is over. */
void fl_coord_answer_gather(const fl_coord *c, const fl_passed *p,
                            uint64_t generation, void *question);
FL_MUST_CHECK
fl_status fl_coord_check_gather(const fl_coord *c, uint32_t rank,
                                const fl_barrier_id *id);

/* --- work (coord_dispatch.c)
   -------------------------------------------------- */

/* What a trainer has not finished goes to others; its open question is answered
   with this thread's last error. */
void fl_coord_withdraw_work(fl_coord *c, uint32_t rank, fl_status st);
/* Answers all questions with this thread's last error. */
void fl_coord_drop_work(fl_coord *c, fl_status st);
void fl_coord_tick_work(fl_coord *c, uint64_t now_ms);
void fl_coord_release_work(fl_coord *c);

/* --- saves (coord_save.c) ------------------------------------------------- */

/* Whatever a save waits for may have happened. */
void fl_coord_check_save(fl_coord *c, uint64_t now_ms);
/* A trainer no longer counts, or begins anew: its open question is answered with
   this thread's last error. */
void fl_coord_withdraw_save(fl_coord *c, uint32_t rank, fl_status st);
/* Answers all questions with this thread's last error. */
void fl_coord_drop_saves(fl_coord *c, fl_status st);
void fl_coord_tick_save(fl_coord *c, uint64_t now_ms);
void fl_coord_release_saves(fl_coord *c);
/* The open barrier of a round that this trainer waits at, or NULL; and the round
   that trainers make next. */
const fl_barrier *fl_coord_waits_in_round(const fl_coord *c, uint32_t rank);
uint64_t fl_coord_next_round(const fl_coord *c);

/* --- sentences (coord_text.c) -------------------------------------------- */

typedef struct fl_text64 {
    char s[64];
} fl_text64;

fl_text64 fl_text_of_ms(uint64_t ms);                /* "2.1 s", "3 min 5 s" */
fl_text64 fl_text_of_rank(const fl_coord_member *m); /* "trainer 3" */

/* "trainer 3 (10.0.0.7:4321, process 77)". */
void fl_text_add_member(fl_str *s, const fl_coord_member *m);
/* "trainer 1 and server 2": those that never joined. */
void fl_text_add_absent(fl_str *s, const fl_coord *c);
/* How many are here: "3 of 5 members", "2 of 3 workers". */
fl_text64 fl_text_of_here(const fl_coord *c);
/* "trainer 1 and 3 others", of those that came. */
void fl_text_add_came(fl_str *s, const fl_coord *c, const fl_barrier *b);
/* "trainer 1 and trainer 4", of those that a barrier waits for. */
void fl_text_add_missing(fl_str *s, const fl_coord *c, const fl_barrier *b);
/* The same with what is known about each: "trainer 1 (down for 4 s, ...)". */
void fl_text_add_missing_why(fl_str *s, const fl_coord *c, const fl_barrier *b,
                             uint64_t now_ms);

#endif

/* coord.h - who is in the job: the coordinator's rules, without any network.
 *
 * It runs on server 0. It is told what happens (somebody joined, left, went
 * silent, a barrier was asked for, time passed) and tells, through callbacks,
 * whom to answer and what to print. One thread at a time.
 *
 * Members are S servers and T trainers by rank. Trainers get an incarnation
 * when they join; a trainer that joins again is a new incarnation. The
 * rendezvous is over when all have joined once; while it waits it names who is
 * missing. A barrier counts the trainers that are live: joined and not left. A
 * trainer that is lost (its connection gone, or nothing heard of it, for
 * restart_timeout_ms) leaves by force: barriers go on without it, or the job
 * ends, by policy. Server 0 is here from the start; its own join only brings
 * its address and process. Callbacks must not call back.
 */
#ifndef FL_PS_COORD_COORD_H
#define FL_PS_COORD_COORD_H

#include "base/status.h"
#include "ps/coord/gathered.h"
#include "ps/msg/calls.h"
#include "ps/msg/save_calls.h"
#include "rpc/wire/hello.h"

typedef struct fl_coord fl_coord;
typedef struct fl_save_parts fl_save_parts;

typedef struct fl_coord_options {
    int n_servers, n_trainers;
    uint64_t connect_timeout_ms, restart_timeout_ms;
    bool go_on_without; /* a lost trainer does not end the job */
    bool
        are_workers; /* server and trainer of a rank are one process, a worker */
    uint64_t max_gathered_bytes; /* of all trainers; 0: no limit */
    uint64_t max_record_bytes;   /* of gathers that are over; 0: 64 MB */
    /* Saves by themselves (coord_save.h): where, "" or NULL: none; and how often,
       0: not by time, not by steps. */
    const char *save_dir; /* borrowed */
    uint64_t save_every_ms, save_every_steps, save_delta_every_ms;
    uint64_t save_timeout_ms; /* longest wait for a member that has to come */
    uint32_t save_keep;
} fl_coord_options;

/* Answers that are owed are known by what was given with the question. */
typedef struct fl_coord_events {
    /* A barrier is over for this one: FL_OK, with those who came to it in the
       order of ranks, or this thread's last error. Exactly once per question,
       at the latest when the job is over. */
    void (*answer)(void *arg, void *question, fl_status st, const fl_came *came,
                   size_t n_came);
    /* The answer to fl_coord_dispatch: FL_OK and an item or why there is none
       (msg/calls.h), or this thread's last error. Exactly once per question as
       well. */
    void (*dispatched)(void *arg, void *question, fl_status st, uint64_t item);
    /* The answer to fl_coord_gather: FL_OK and what all have brought, which is
       borrowed, or this thread's last error. Exactly once per question as well. */
    void (*gathered)(void *arg, void *question, fl_status st, fl_gathered *g);
    /* The answers to fl_coord_save, fl_coord_cut and fl_coord_save_work, in the
       same way. What a version is made of comes with the order to commit, and is
       the receiver's (fl_save_parts_free). */
    void (*saved)(void *arg, void *question, fl_status st,
                  const fl_save_reply *r);
    void (*cut)(void *arg, void *question, fl_status st, const fl_cut_reply *r);
    void (*save_work)(void *arg, void *question, fl_status st,
                      const fl_save_work_reply *r, fl_save_parts *parts);
    /* A line for people, at most one per change. */
    void (*log_line)(void *arg, const char *line);
    /* The job is over: FL_OK when all trainers left, else the reason. */
    void (*over)(void *arg, fl_status why);
} fl_coord_events;

fl_coord *fl_coord_new(const fl_coord_options *o, const fl_coord_events *e,
                       void *arg, uint64_t now_ms);
/* Forgets questions that are open; fl_coord_end answers them. */
void fl_coord_free(fl_coord *c);

/* Ends the job from outside, with this thread's last error. */
void fl_coord_end(fl_coord *c, fl_status why);

/* A member is there. *incarnation is given: the one it has when this process
   joined before, else a new one. Refuses ranks beyond the job's and a second
   live member of one rank that is another process. May also be told of a
   connection that carries its incarnation, instead of fl_coord_up: that brings
   the address, and from then on a process without one is known for another. */
FL_MUST_CHECK
fl_status fl_coord_join(fl_coord *c, const fl_identity *who, const char *peer,
                        uint64_t now_ms, uint32_t *incarnation);
void fl_coord_leave(fl_coord *c, fl_member_role role, uint32_t rank,
                    uint64_t now_ms);
/* Its connection is gone or back; nothing is heard or it is again. Only to be
   told of the incarnation that joined last: an older one's end, or a process
   that has not joined yet, says nothing about it. fl_coord_heard may come at
   any time and brings the last step seen. */
void fl_coord_down(fl_coord *c, fl_member_role role, uint32_t rank,
                   const char *why, uint64_t now_ms);
void fl_coord_up(fl_coord *c, fl_member_role role, uint32_t rank,
                 uint64_t now_ms);
void fl_coord_silent(fl_coord *c, fl_member_role role, uint32_t rank,
                     uint64_t heard_ms_ago, uint64_t step, uint64_t now_ms);
void fl_coord_heard(fl_coord *c, fl_member_role role, uint32_t rank,
                    uint64_t step, uint64_t now_ms);
uint32_t fl_coord_incarnation(const fl_coord *c, fl_member_role role,
                              uint32_t rank); /* 0: never joined */

/* The trainer that asks for something, what its answer is known by, and when it
   asks. */
typedef struct fl_coord_asker {
    uint32_t rank, incarnation;
    void *question;
    uint64_t now_ms;
} fl_coord_asker;

/* A round does not count trainers that wait in another barrier: they are done
   with their data and wait for the rest.

   A trainer that asks again for the same barrier has lost its connection: the
   older question is answered with FL_ERR_CLOSED. One that is over already is
   answered with FL_OK at once, as its answer was lost. */
void fl_coord_barrier(fl_coord *c, const fl_coord_asker *who,
                      const fl_barrier_request *q);

/* The same for a round to which trainers come on every server, and a server other
   than 0 whom it has; it waits for the same answer. A round counts who has come to
   all of them. What a server tells of one round adds up; a later question of it
   replaces the earlier one. */
void fl_coord_meet(fl_coord *c, const fl_coord_asker *who, uint64_t round,
                   uint64_t share);
void fl_coord_round_came(fl_coord *c, const fl_coord_asker *who, uint64_t round,
                         const fl_round_guests *guests);

/* The same with bytes for all that come; the part is taken over. Gathers have
   names of their own. What was brought to generations that are over is
   remembered, up to max_record_bytes: an older one is gone, which is an error.
 */
void fl_coord_gather(fl_coord *c, const fl_coord_asker *who, const char *name,
                     uint64_t generation, fl_gather_part *part);

/* A trainer's question for the next item of a pass. */
void fl_coord_dispatch(fl_coord *c, const fl_coord_asker *who,
                       const fl_dispatch_request *w);

/* Whether this trainer counts: an error, for what it asks for, when it has not
   joined, has left, was given up or replaced, or when the job is over. */
FL_MUST_CHECK
fl_status fl_coord_check_asker(const fl_coord *c, uint32_t rank,
                               uint32_t incarnation, const char *what);

uint64_t fl_coord_step(fl_coord *c, uint64_t add);
void fl_coord_report(fl_coord *c, uint32_t rank, const fl_report_request *r,
                     uint64_t now_ms);
/* Samples per second of the trainers that are here; NaN: not known. */
double fl_coord_rate(const fl_coord *c);

/* Time passes; to be called about every 100 ms. */
void fl_coord_tick(fl_coord *c, uint64_t now_ms);

uint64_t fl_coord_epoch(const fl_coord *c); /* grows with every change */
bool fl_coord_is_complete(const fl_coord *c);

/* Free with fl_job_status_free. */
struct fl_job_status *fl_coord_status(const fl_coord *c, uint64_t now_ms);

#endif

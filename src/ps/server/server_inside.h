/* server_inside.h - what the files of a server share; for server*.c and
 * the handlers of ps/msg only.
 *
 *     server.c           beginning, ticks, and the end
 *     server_requests.c  who may ask for what, and how replies leave
 *     server_coord.c     the coordinator, and who may ask it
 *     server_members.c   connections that come, go and fall silent
 *     server_upstream.c  the way of the other servers to server 0
 *     server_rounds.c    rounds on the other servers
 *     server_save.c      the way of its saver (saver.h) to the coordinator
 *
 * Requests for the store and the relay run in the loop of their connection and
 * take no lock of the server. All that concerns members and the end is guarded by
 * mu, under which the coordinator runs, and its answers leave. Under mu those
 * of the host and of the link may be taken; both call back without their own.
 */
#ifndef FL_PS_SERVER_SERVER_INSIDE_H
#define FL_PS_SERVER_SERVER_INSIDE_H

#include <stdatomic.h>

#include "base/log.h"
#include "ps/server/buffers.h"
#include "ps/coord/coord.h"
#include "ps/coord/coord_save.h"
#include "ps/server/relay.h"
#include "ps/server/server.h"
#include "rpc/server/rpc_server.h"
#include "rpc/client/rpc_client.h"
#include "rpc/metrics/exporter.h"
#include "rpc/wire/handshake.h"

/* How long last words may take. */
#define FL_SERVER_FLUSH_MS 2000

typedef enum fl_server_phase {
    FL_SERVER_SERVING,
    FL_SERVER_ENDING, /* the result is known, last words are on their way */
    FL_SERVER_OVER
} fl_server_phase;

/* A trainer's or a server's place. `session` is the connection whose end says
   something about the member: that of the incarnation (of a server: the boot id)
   which joined last. */
typedef struct fl_member_conn {
    fl_session *session; /* borrowed while it is up; NULL: none */
    uint32_t incarnation;
    uint64_t boot_id;
    bool is_silent;
    bool is_joining;    /* a connection without an incarnation is there */
    uint64_t vacant_ms; /* since when there is no connection at all */
    fl_reply *watch;    /* a server's question for the end */
    bool is_told;       /* of the end, a server; that it has left, a trainer */
    /* Its connection broke after that, and until then it may come back to ask
       again; 0: no. */
    uint64_t back_by_ms;
} fl_member_conn;

/* Who takes parts of collective calls (msg/coll_part.c). */
typedef struct fl_server_parts {
    fl_mutex mu;
    fl_cond idle;
    fl_server_part_fn fn; /* guarded by mu; NULL: nobody */
    void *arg;            /* guarded by mu */
    int n_inside;         /* guarded by mu */
} fl_server_parts;

/* A trainer that has come to a round. */
typedef struct fl_round_seat {
    struct fl_barrier_question *question; /* NULL: nobody */
    uint32_t incarnation;
    uint64_t round;
    uint64_t report; /* by which server 0 knows; 0: it does not yet */
} fl_round_seat;

/* Of a server other than 0. */
typedef struct fl_server_rounds {
    fl_round_seat *seats; /* by rank */
    size_t n_seated;
    uint64_t n_reports;
    bool has_last;
    uint64_t last;     /* round that is decided, */
    fl_came_list came; /* and who is in it */
} fl_server_rounds;

/* Of the link to server 0. Loop 0 only, but for what is noted. */
typedef struct fl_upstream {
    fl_rpc_client *link; /* guarded by mu; NULL: none, or no more */
    fl_pack end;         /* payload of the question for the end */
    struct iovec end_piece;
    bool is_leaving; /* an answer to LEAVE is awaited; guarded by mu */
    bool was_up, is_away;
    uint64_t away_ms, log_ms;
} fl_upstream;

struct fl_server {
    fl_server_options o; /* texts are our own */
    char *job, *token, *server_0;
    char *note; /* path of the job's; NULL: it is none of ours */
    fl_identity me;
    char address[FL_ADDRESS_MAX];
    fl_net *net;
    fl_loop **loops;
    int n_loops;
    bool has_threads; /* the loops are our own */
    uint64_t tick;    /* timer; loop 0 only */
    fl_rpc_server *host;
    fl_store *store;
    fl_relay *relay;
    fl_reply_buffers buffers;
    fl_server_parts parts;
    _Atomic uint64_t step; /* the largest that was seen */
    fl_upstream upstream;
    fl_clock_guess clock;            /* of server 0; loop 0 only */
    uint64_t clock_asked_ns;         /* loop 0 only */
    fl_exporter *exporter;           /* NULL: none */
    struct fl_saver *saver;          /* NULL: it takes no part in saves */
    struct fl_server_tell *tell;     /* NULL: there is no record of the job */
    _Atomic uint64_t n_save_reports; /* of the saver, by the link */

    fl_mutex mu;
    fl_cond changed;
    fl_coord *coord;         /* guarded by mu; NULL but on server 0 */
    fl_log_level level;      /* of what the coordinator says; guarded by mu */
    fl_member_conn *members; /* trainers, then servers; guarded by mu */
    fl_server_rounds rounds; /* guarded by mu */
    size_t n_sessions;       /* that are up; guarded by mu */
    fl_server_phase phase;   /* guarded by mu */
    bool is_asked;           /* to end, by somebody; guarded by mu */
    uint64_t end_by_ms;      /* when ENDING is over; guarded by mu */
    fl_err why;              /* result; guarded by mu */
};

/* A request and what belongs to it. */
typedef struct fl_server_request {
    fl_session *session;
    const fl_frame *frame;
    fl_msg_bytes payload;
    const void *request; /* its fields, where it has some */
    fl_reply *reply;
} fl_server_request;

/* --- server.c ------------------------------------------------------------- */

uint64_t fl_server_now_ms(const fl_server *s);
/* What people call a server of the job: "server", or "worker" of a job of
   workers. */
const char *fl_server_word(const fl_server *s);
/* Under mu. The first result stays; an error is this thread's last one. */
void fl_server_end(fl_server *s, fl_status why);
/* Under mu. The same for an end that was asked for; `who` did it. */
void fl_server_end_asked(fl_server *s, const char *who);
/* Under mu, whenever something changed that the end waits for. */
void fl_server_check_end(fl_server *s);
void fl_server_raise_step(fl_server *s, uint64_t step);

/* --- server_metrics.c ----------------------------------------------------- */

/* Answers GET /metrics, if the settings say so; that it cannot is only told. */
void fl_server_open_metrics(fl_server *s);

/* --- server_requests.c ---------------------------------------------------- */

void fl_server_on_request(void *server, fl_session *session, const fl_frame *f,
                          fl_payload *payload, fl_reply *r);

/* Replies by the fields of the message. */
void fl_server_reply(fl_reply *to, fl_msg type, const void *reply);
/* Without a payload, or with this thread's last error. */
void fl_server_reply_empty(const fl_server_request *r, fl_status st);
/* What came with a request; NULL: nothing. */
fl_msg_bytes fl_server_bytes(const fl_payload *payload);
/* A request for the store, in the loop of its connection. */
void fl_server_ask_store(fl_server *s, const fl_server_request *r);

/* Memory for a reply that is written once: in the arena that is shared with the
   peer when there is room, else in a buffer that the connection sends from. */
typedef struct fl_reply_buf {
    fl_server *server;
    const fl_server_request *request;
    fl_reply_buffer *buffer;
    uint64_t len;
    bool is_arena, is_too_large;
} fl_reply_buf;

fl_reply_buf fl_reply_buf_of(fl_server *s, const fl_server_request *r);
void *fl_reply_buf_reserve(void *buf, uint64_t len); /* for fl_store_reply */
/* Sends what was written, or this thread's last error. */
void fl_reply_buf_end(fl_reply_buf *buf, fl_status st);

/* --- server_coord.c; all under mu ----------------------------------------- */

fl_coord *fl_server_make_coord(fl_server *s);

/* Only who has joined, and was not replaced since, has a say. */
FL_MUST_CHECK
fl_status fl_server_check_member(fl_server *s, const fl_server_request *r);
/* The trainer that asks, and what it is owed. Without mu. */
fl_coord_asker fl_server_asker(const fl_server *s, const fl_server_request *r);

/* Somebody waits at a barrier of the coordinator, and is told once, under mu:
   frees it. */
typedef struct fl_barrier_question fl_barrier_question;
struct fl_barrier_question {
    void (*answer)(fl_barrier_question *q, fl_status st, const fl_came *came,
                   size_t n_came);
    fl_reply *reply;
};

/* One that is sent who came, as the reply to BARRIER has it. */
fl_barrier_question *fl_barrier_question_new(fl_reply *reply);

/* For fl_coord_events, in the files of the messages. */
void fl_server_answer_barrier(void *server, void *question, fl_status st,
                              const fl_came *came, size_t n_came);
void fl_server_answer_dispatch(void *server, void *question, fl_status st,
                               uint64_t item);
void fl_server_answer_gather(void *server, void *question, fl_status st,
                             fl_gathered *g);
void fl_server_answer_saved(void *server, void *question, fl_status st,
                            const fl_save_reply *r);
void fl_server_answer_cut(void *server, void *question, fl_status st,
                          const fl_cut_reply *r);
void fl_server_answer_save_work(void *server, void *question, fl_status st,
                                const fl_save_work_reply *r,
                                fl_save_parts *parts);

/* --- server_rounds.c; under mu, on the servers but 0 ---------------------- */

void fl_server_rounds_init(fl_server *s);
void fl_server_rounds_release(fl_server *s);
/* A trainer has come, with all its gradients; its question is answered when the
   round is decided. */
void fl_server_come_to_round(fl_server *s, const fl_coord_asker *who,
                             uint64_t round);
void fl_server_tick_rounds(fl_server *s);
/* This server ends: answers all questions. */
void fl_server_drop_rounds(fl_server *s);
/* The request (msg/round_came.c). */
void fl_round_came_pack(fl_pack *p, uint64_t round,
                        const fl_round_guests *guests);

/* --- msg/round.c; in the loop of the connection --------------------------- */

/* True: it waits for the round that its trainer has come to, and the payload is
   taken over. */
bool fl_server_wait_for_round(const fl_server_request *r, fl_payload *payload);
/* The connection is down. */
void fl_server_leave_round(fl_session *session);

/* --- server_members.c ----------------------------------------------------- */

/* For fl_rpc_server_events. */
void fl_server_up(void *server, fl_session *session);
void fl_server_down(void *server, fl_session *session, fl_status why);
void fl_server_silent(void *server, fl_session *session, bool silent);
fl_status fl_server_admit(void *server, const fl_identity *id);

/* Under mu. NULL for a tool, and beyond the ranks of the job. */
fl_member_conn *fl_server_member(fl_server *s, fl_member_role role,
                                 uint32_t rank);
/* Under mu. This one has joined. */
void fl_server_set_member(fl_server *s, fl_session *session,
                          uint32_t incarnation);
/* Under mu, on server 0. */
void fl_server_tick_members(fl_server *s, uint64_t now_ms);
/* Under mu. Gives all servers the result that they wait for. */
void fl_server_answer_watches(fl_server *s);
/* Under mu, on server 0: every other server knows that the job is over. */
bool fl_server_told_all(fl_server *s);
/* Under mu, on server 0: what a member was told last was lost with its
   connection, maybe, and it comes back. */
bool fl_server_awaits_return(fl_server *s);

/* --- server_save.c -------------------------------------------------------- */

/* When it is a member. Without mu. */
void fl_server_start_saver(fl_server *s);

/* --- server_upstream.c
   -------------------------------------------------------- */

/* Loop 0: asks server 0 for the time, and tells the timeline (msg/clock.c). */
void fl_server_ask_clock(fl_server *s);
/* Under mu. */
FL_MUST_CHECK
fl_status fl_server_open_upstream(fl_server *s);
/* Under mu. Tells server 0 that this one ends before the job does. */
void fl_server_leave_job(fl_server *s);
/* In loop 0. */
void fl_server_tick_upstream(fl_server *s, uint64_t now_ms);
/* In loop 0, without mu; done twice is fine. */
void fl_server_close_upstream(fl_server *s);

#endif

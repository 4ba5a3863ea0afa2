/* client.h - a trainer's side: one link per server, keys scattered to servers,
 * rows put to where they belong. A tool that only looks has one as well.
 *
 * Requests are asynchronous inside; the public calls (flotilla/job.h) wait. One
 * request per server and call: items of several tables travel together. What is
 * pulled goes from the received payload straight to the caller's rows; what is
 * pushed is gathered once into the request, or with one server not at all.
 *
 * Any thread may make requests; fl_client_free waits for nobody.
 */
#ifndef FL_PS_CLIENT_CLIENT_H
#define FL_PS_CLIENT_CLIENT_H

#include "base/stats.h"
#include "flotilla/job.h"
#include "ps/msg/calls.h"
#include "ps/msg/items.h"
#include "ps/msg/save_calls.h"
#include "rpc/client/rpc_client.h"

typedef struct fl_client fl_client;

typedef struct fl_client_options {
    const char *const *servers;
    int n_servers, n_trainers, rank;
    const char *job, *token;
    uint64_t connect_timeout_ms, restart_timeout_ms, ping_ms, suspect_ms;
    uint64_t max_message_bytes, arena_bytes;
    bool are_workers; /* servers are parts of workers, and are called so: one
                          that has ended cannot return */
    bool is_tool;     /* takes no part in the job: does not join, asks only
                          what tools may; n_trainers and rank are not used */
    fl_codec push;    /* how gradients travel; values that are assigned do so as
                          they are */
    int window;       /* requests under way per server; 0: 16 */
    bool may_coalesce; /* requests wait for others, until the poller is flushed,
                          and small ones of a kind become one; in a simulation
                          these must have left before it is freed */
    /* A server is lost for good, or the job has ended: in the loop, with the
       reason as this thread's last error, maybe once per server. Requests to it
       fail as well. NULL: nobody wants to know. */
    void (*on_lost)(void *arg, fl_status why);
    void *arg;
} fl_client_options;

/* Joins at server 0, then dials all servers, and waits for them. In a
   simulation (loop not NULL) nothing waits: the state is polled. */
FL_MUST_CHECK
fl_status fl_client_new(fl_client **out, fl_net *net, fl_loop *loop,
                        const fl_client_options *o);
/* Requests under way fail with FL_ERR_CLOSED first. NULL is fine. */
void fl_client_free(fl_client *c);

/* FL_PENDING while it connects, then FL_OK, or why it could not. Requests are
   refused before. */
fl_status fl_client_state(fl_client *c);

/* The server of a key: contiguous ranges of virtual shards. */
int fl_client_server_of(int n_servers, uint64_t key);

/* Of its loop: flushing it sends what was coalesced. */
fl_poller *fl_client_poller(fl_client *c);

/* The step that requests carry from now on. */
void fl_client_set_step(fl_client *c, uint64_t step);

/* --- requests to some or all servers --------------------------------------
 *
 * `done` is called once, in the loop, with the result as this thread's last
 * error; memory of the caller is borrowed until then. When there is nothing to
 * ask for (no keys), it is called at once, unless the client coalesces. After
 * an error of the call itself it is not called.
 */
typedef void (*fl_client_done)(void *arg, fl_status st);

typedef struct fl_ending {
    fl_client_done done;
    void *arg;
} fl_ending;

/* --- rows ----------------------------------------------------------------- */

/* dims[i] is the width of the table of item i. */
FL_MUST_CHECK
fl_status fl_client_pull(fl_client *c, const fl_job_pull_item *items,
                         const uint32_t *dims, size_t n, fl_ending ending);
/* The same with values that travel so, and are rounded accordingly. */
FL_MUST_CHECK
fl_status fl_client_pull_coded(fl_client *c, fl_codec codec,
                               const fl_job_pull_item *items,
                               const uint32_t *dims, size_t n,
                               fl_ending ending);
FL_MUST_CHECK
fl_status fl_client_push(fl_client *c, const fl_job_push_item *items,
                         const uint32_t *dims, size_t n, fl_ending ending);

typedef struct fl_client_values {
    int table;
    uint32_t dim;
    const uint64_t *keys;
    size_t n;
    const float *values; /* [n, dim] */
} fl_client_values;

FL_MUST_CHECK
fl_status fl_client_assign(fl_client *c, const fl_client_values *v,
                           fl_ending ending);

/* Keys of one server, and where its rows go; it is borrowed until done. */
typedef struct fl_peek {
    uint32_t table, dim;
    const uint64_t *keys;
    size_t n;
    float *out;       /* [n, dim] */
    uint8_t *missing; /* [n]: 1 where there is no row */
} fl_peek;

/* For tools. */
FL_MUST_CHECK
fl_status fl_client_peek(fl_client *c, int server, fl_peek *p,
                         fl_ending ending);

/* --- dense blocks --------------------------------------------------------- */

/* They live on the server that the hash of their name chooses. */
int fl_client_server_of_block(int n_servers, const char *name);

typedef struct fl_client_block {
    uint32_t number;
    int server;
    uint64_t n; /* floats */
} fl_client_block;

/* One request per server that has some of them; out[i] and values[i] belong to
   blocks[i]. The lists are borrowed for the call, the memory until done. */
FL_MUST_CHECK
fl_status fl_client_pull_blocks(fl_client *c, const fl_client_block *blocks,
                                float *const *out, size_t n, fl_ending ending);
/* The same with values that travel so, and are rounded accordingly. */
FL_MUST_CHECK
fl_status fl_client_pull_blocks_coded(fl_client *c, fl_codec codec,
                                      const fl_client_block *blocks,
                                      float *const *out, size_t n,
                                      fl_ending ending);
/* What takes the values of blocks[i] as they arrive, in the loop; the bytes are
   borrowed. */
typedef struct fl_client_store {
    fl_status (*store)(void *arg, size_t i, fl_codec codec, const void *values);
    void *arg;
} fl_client_store;

/* The same for values whose place is known when they are there. */
FL_MUST_CHECK
fl_status fl_client_pull_blocks_into(fl_client *c, fl_codec codec,
                                     const fl_client_block *blocks, size_t n,
                                     const fl_client_store *store,
                                     fl_ending ending);
/* PUSH_DENSE or ASSIGN_DENSE. */
FL_MUST_CHECK
fl_status fl_client_send_blocks(fl_client *c, uint16_t type,
                                const fl_client_block *blocks,
                                const float *const *values, size_t n,
                                fl_ending ending);

/* --- rounds (store/rounds.h) -----------------------------------------------
 *
 * Rows go to every server, blocks to theirs; applying asks every server. */

FL_MUST_CHECK
fl_status fl_client_round_push(fl_client *c, uint64_t round,
                               const fl_job_push_item *items,
                               const uint32_t *dims, size_t n,
                               fl_ending ending);
FL_MUST_CHECK
fl_status fl_client_round_blocks(fl_client *c, uint64_t round,
                                 const fl_client_block *blocks,
                                 const float *const *values, size_t n,
                                 fl_ending ending);

/* A round to be applied; the values of the blocks afterwards go to out. */
typedef struct fl_client_round {
    uint64_t number;
    const fl_round_member *members; /* in the order of ranks; not for meet */
    size_t n_members;
    uint64_t share;       /* what this trainer brings; for meet */
    fl_weighing weighing; /* the same */
    const fl_client_block *blocks;
    float *const *out;
    size_t n_blocks;
    fl_codec codec; /* how these values travel */
} fl_client_round;

FL_MUST_CHECK
fl_status fl_client_apply(fl_client *c, const fl_client_round *round,
                          fl_ending ending);
/* Comes to the round on every server, behind what was sent for it; it is applied
   when all have come. */
FL_MUST_CHECK
fl_status fl_client_meet(fl_client *c, const fl_client_round *round,
                         fl_ending ending);

/* --- what others changed ---------------------------------------------------
 *
 * cursors[by server] are 0 at first, and moved when all servers have answered.
 * on_rows is called with the ending's argument, once per server, and more often
 * for one whose rows do not fit into a message, before done; the memory is borrowed
 * for the call.
 */
typedef struct fl_client_changes {
    int table;
    uint32_t dim;
    uint64_t *cursors;
} fl_client_changes;

typedef void (*fl_client_rows)(void *arg, const uint64_t *keys, size_t n,
                               const float *values);
FL_MUST_CHECK
fl_status fl_client_changed(fl_client *c, const fl_client_changes *what,
                            fl_client_rows on_rows, fl_ending ending);

/* --- calls -----------------------------------------------------------------
 *
 * Where the ending has no `done` (FL_WAIT) the call waits itself; not in the
 * loop. Results are where they belong before done is called, in the loop.
 */
#define FL_WAIT ((fl_ending){ 0 })
#define FL_ALL_SERVERS (-1)

/* Of tables and blocks, at one server or all. */
FL_MUST_CHECK
fl_status fl_client_declare(fl_client *c, int server, const char *text,
                            fl_ending ending);
FL_MUST_CHECK
fl_status fl_client_clear(fl_client *c, uint32_t table, fl_ending ending);
/* Adds what all servers have removed to *n_removed. */
FL_MUST_CHECK
fl_status fl_client_shrink(fl_client *c, uint32_t table, uint32_t unseen_days,
                           uint64_t *n_removed, fl_ending ending);
/* Adds an object with the counters of each server to the list that is open. */
FL_MUST_CHECK
fl_status fl_client_stats_all(fl_client *c, fl_json *list, fl_ending ending);
/* Adds the hashes of all servers to *hash. */
FL_MUST_CHECK
fl_status fl_client_hash(fl_client *c, uint64_t *hash, fl_ending ending);

/* Waits for all live trainers, and lists who came; came may be NULL. */
FL_MUST_CHECK
fl_status fl_client_barrier(fl_client *c, const fl_barrier_request *r,
                            fl_came_list *came, fl_ending ending);

/* What all have brought; the pieces lie in its memory. */
typedef struct fl_client_gathered {
    void *memory;
    uint64_t bytes;
    fl_gather_pieces pieces;
} fl_client_gathered;
void fl_client_gathered_release(fl_client_gathered *g);

/* The bytes are borrowed until done. */
FL_MUST_CHECK
fl_status fl_client_gather(fl_client *c, const char *name, uint64_t generation,
                           fl_msg_bytes bytes, fl_client_gathered *out,
                           fl_ending ending);

/* Makes a model of what the job has; answered when it counts. What is asked for is
   borrowed until then. */
FL_MUST_CHECK
fl_status fl_client_save(fl_client *c, const fl_save_request *r,
                         fl_save_reply *out, fl_ending ending);
/* All servers replace what they hold by a saved model: its path, and what of it
   (fl_save_split, ckpt/load_plan.h), which are borrowed until done. */
FL_MUST_CHECK
fl_status fl_client_load(fl_client *c, fl_msg_bytes what, fl_ending ending);
/* How far this trainer is on its way to a cut; the answer is what to do next. The
   bytes are borrowed until then. */
FL_MUST_CHECK
fl_status fl_client_cut(fl_client *c, const fl_cut_request *r,
                        fl_cut_reply *out, fl_ending ending);

/* Adds to the step of the job; *step is the one afterwards. */
FL_MUST_CHECK
fl_status fl_client_step(fl_client *c, uint64_t add, uint64_t *step,
                         fl_ending ending);
FL_MUST_CHECK
fl_status fl_client_report(fl_client *c, const fl_report_request *r,
                           fl_report_reply *of_job, fl_ending ending);
/* Asks server 0 for the time, a few times, and tells the timeline. */
FL_MUST_CHECK
fl_status fl_client_ask_clock(fl_client *c);
/* An item, FL_DISPATCH_NONE or FL_DISPATCH_LATER. */
FL_MUST_CHECK
fl_status fl_client_dispatch(fl_client *c, const fl_dispatch_request *r,
                             uint64_t *item, fl_ending ending);
/* Leaves the job. That servers end afterwards is not told any more. Refused
   when a server was lost: its reason. */
FL_MUST_CHECK
fl_status fl_client_leave(fl_client *c, fl_ending ending);

/* --- from trainer to trainer ----------------------------------------------- */

/* By way of one server; the bytes are borrowed until done. *is_full then says
   that it was not taken and must be sent again. */
FL_MUST_CHECK
fl_status fl_client_relay(fl_client *c, int server, const fl_relay_request *r,
                          bool *is_full, fl_ending ending);

/* Messages for this trainer at all servers, a few MB of each. */
typedef struct fl_client_inbox {
    uint64_t generation;
    uint64_t *seen; /* by server; 0 at first in every generation, and moved */
    /* In the loop before done, the bytes are borrowed for the call; after an error
       no more can be taken. */
    fl_status (*on_message)(void *arg, fl_msg_bytes bytes);
    void *arg;
} fl_client_inbox;

/* The inbox is borrowed until done. */
FL_MUST_CHECK
fl_status fl_client_relay_take(fl_client *c, const fl_client_inbox *in,
                               fl_ending ending);

/* A part of a collective call, to the worker that serves there: head and bytes,
   one behind the other, are borrowed until done. */
typedef struct fl_client_part {
    fl_msg_bytes head, bytes;
} fl_client_part;
FL_MUST_CHECK
fl_status fl_client_send_part(fl_client *c, int server, const fl_client_part *p,
                              fl_ending ending);

/* --- counters ------------------------------------------------------------- */

/* Requests of a type that a server was sent. */
uint64_t fl_client_requests(const fl_client *c, int server, uint16_t type);

/* Payloads of all requests and replies. */
#define FL_CLIENT_STATS(X)                                                     \
    X(sent, BYTES)                                                             \
    X(received, BYTES)
FL_STATS(fl_client_stats, FL_CLIENT_STATS);
const fl_client_stats *fl_client_stats_of(const fl_client *c);

#endif

/* client.h - a trainer's side: one link per server, keys dealt to servers, rows
 * scattered to where they belong.
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

#include "flotilla/job.h"
#include "ps/proto.h"
#include "rpc/client/rpc_client.h"

typedef struct fl_client fl_client;

typedef struct fl_client_options {
    const char *const *servers;
    int n_servers, n_trainers, rank;
    const char *job, *token;
    uint64_t connect_timeout_ms, restart_timeout_ms, ping_ms, suspect_ms;
    uint64_t max_message_bytes, arena_bytes;
    int window;        /* requests under way per server; 0: 16 */
    bool may_coalesce; /* small pulls and pushes wait for others, until the
                          poller is flushed; in a simulation they must have left
                          before it is freed */
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

/* dims[i] is the width of the table of item i. */
FL_MUST_CHECK
fl_status fl_client_pull(fl_client *c, const fl_job_pull_item *items,
                         const uint32_t *dims, size_t n, fl_client_done done,
                         void *arg);
FL_MUST_CHECK
fl_status fl_client_push(fl_client *c, const fl_job_push_item *items,
                         const uint32_t *dims, size_t n, fl_client_done done,
                         void *arg);
FL_MUST_CHECK
fl_status fl_client_assign(fl_client *c, int table, uint32_t dim,
                           const uint64_t *keys, size_t n, const float *values,
                           fl_client_done done, void *arg);

/* Any other request with a small payload, which is copied, to one server or to
   all (-1). When all have answered well their replies are given in the order
   of the servers, before `done`. */
typedef void (*fl_client_reply)(void *arg, int server, const void *payload,
                                uint64_t len);
FL_MUST_CHECK
fl_status fl_client_ask(fl_client *c, int server, uint16_t type, bool once,
                        const void *payload, size_t len,
                        fl_client_reply on_reply, fl_client_done done,
                        void *arg);

/* Leaves the job. That servers end afterwards is not told any more. Refused
   when a server was lost: its reason. */
FL_MUST_CHECK
fl_status fl_client_leave(fl_client *c, fl_client_done done, void *arg);

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
                                float *const *out, size_t n,
                                fl_client_done done, void *arg);
/* PUSH_DENSE or ASSIGN_DENSE. */
FL_MUST_CHECK
fl_status fl_client_send_blocks(fl_client *c, uint16_t type,
                                const fl_client_block *blocks,
                                const float *const *values, size_t n,
                                fl_client_done done, void *arg);

/* --- rounds (proto.h) ------------------------------------------------------
 *
 * Rows go to every server, blocks to theirs; applying asks every server. */
typedef struct fl_client_member {
    uint32_t rank;
    double weight;
} fl_client_member;

FL_MUST_CHECK
fl_status fl_client_round_push(fl_client *c, uint64_t round,
                               const fl_job_push_item *items,
                               const uint32_t *dims, size_t n,
                               fl_client_done done, void *arg);
FL_MUST_CHECK
fl_status fl_client_round_blocks(fl_client *c, uint64_t round,
                                 const fl_client_block *blocks,
                                 const float *const *values, size_t n,
                                 fl_client_done done, void *arg);
/* The values of the blocks afterwards go to out. */
FL_MUST_CHECK
fl_status fl_client_apply(fl_client *c, uint64_t round,
                          const fl_client_member *members, size_t n_members,
                          const fl_client_block *blocks, float *const *out,
                          size_t n, fl_client_done done, void *arg);

/* --- what others changed ---------------------------------------------------
 *
 * cursors[by server] are 0 at first, and moved when all servers have answered.
 * on_rows is called once per server, and more often for one whose rows do not
 * fit into a message, before done; the memory is lent for the call.
 */
typedef void (*fl_client_rows)(void *arg, const uint64_t *keys, size_t n,
                               const float *values);
FL_MUST_CHECK
fl_status fl_client_changed(fl_client *c, int table, uint32_t dim,
                            uint64_t *cursors, fl_client_rows on_rows,
                            fl_client_done done, void *arg);

/* --- mail (proto.h) ------------------------------------------------------- */

typedef struct fl_client_letter {
    uint32_t to; /* rank of a trainer */
    uint64_t generation;
    const void *bytes;
    uint64_t len;
} fl_client_letter;

/* By way of one server; the bytes are borrowed until done. *is_full then says
   that it was not taken and must be sent again. */
FL_MUST_CHECK
fl_status fl_client_mail(fl_client *c, int server, const fl_client_letter *l,
                         bool *is_full, fl_client_done done, void *arg);

/* Mails for this trainer at all servers, a few MB of each. seen[by server] are
   0 at first in every generation, and are moved. on_mail is called in the loop
   before done, the bytes are lent for the call; after an error of it no more
   can be taken. */
typedef fl_status (*fl_client_mails)(void *arg, const void *bytes,
                                     uint64_t len);
FL_MUST_CHECK
fl_status fl_client_take(fl_client *c, uint64_t generation, uint64_t *seen,
                         fl_client_mails on_mail, fl_client_done done,
                         void *arg);

/* --- counters ------------------------------------------------------------- */

/* Requests of a type that a server was sent. */
uint64_t fl_client_requests(const fl_client *c, int server, uint16_t type);

/* Payloads of all requests and replies. */
typedef struct fl_client_traffic {
    uint64_t sent_bytes, received_bytes;
} fl_client_traffic;
fl_client_traffic fl_client_traffic_of(const fl_client *c);

#endif

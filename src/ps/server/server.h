/* server.h - a parameter server: a host (rpc/server/rpc_server.h) in front of a
 * store, and on rank 0 the coordinator as well.
 *
 * All calls are for the owner's thread. Servers with other ranks join the job
 * at server 0 and end when it says that the job is over, or when it is lost.
 */
#ifndef FL_PS_SERVER_SERVER_H
#define FL_PS_SERVER_SERVER_H

#include "ps/store/store.h"
#include "rpc/stream/stream.h"

typedef struct fl_server fl_server;

typedef struct fl_server_options {
    const char *const *servers; /* addresses of all, borrowed */
    int n_servers, n_trainers, rank;
    const char *listen; /* NULL: servers[rank] */
    const char *job, *token;
    uint64_t boot_id; /* 0: drawn */
    int n_loops;      /* 0: one per core */
    uint64_t connect_timeout_ms, restart_timeout_ms, ping_ms, suspect_ms;
    bool go_on_without;
    bool are_workers; /* servers are parts of workers: one that has ended cannot
                         return */
    uint64_t max_message_bytes, arena_bytes;
    int max_connections;
    const fl_op_set *ops;
    const fl_conf *conf;
    /* What it holds from the start, as fl_store_hold takes it; NULL: it waits
       for a declaration. */
    const fl_contents *contents;
    const char *declared, *edited;
    const char *model; /* a saved one that it begins with; NULL: none */
    const char *plan;  /* what of it (ckpt/load_plan.h); NULL: all */
    bool is_announced; /* server 0 leaves a note of the job (ps/job_file.h),
                          unless somebody has */
} fl_server_options;

/* Listens and serves in threads of its own (or in the simulation's loop). The
   net and, for a simulation, its loop are the caller's; loop NULL: real ones.
   ops and conf are borrowed for the server's life, the rest for the call. */
FL_MUST_CHECK
fl_status fl_server_new(fl_server **out, fl_net *net, fl_loop *loop,
                        const fl_server_options *o);
/* Waits for the end of the job and gives its result: FL_OK when the trainers
   are done, or when the end was asked for. In a simulation only when it is
   over. */
FL_MUST_CHECK
fl_status fl_server_wait(fl_server *s);
/* The same; an interruption asks for the end. */
FL_MUST_CHECK
fl_status fl_server_serve(fl_server *s);
/* The same as soon as the result is known: last words are on their way, and it
   goes on to answer. */
FL_MUST_CHECK
fl_status fl_server_wait_result(fl_server *s);
/* Asks for the end, as a tool does with SHUTDOWN; does not wait for it. */
void fl_server_stop(fl_server *s);
/* Ends before the job is over, because its process cannot go on. The others are
   told why; does not wait for them. */
void fl_server_give_up(fl_server *s, const char *why);
/* At once, whatever is under way; NULL is fine. */
void fl_server_free(fl_server *s);

const char *fl_server_address(const fl_server *s);
fl_store *fl_server_store(fl_server *s);
/* Parts of collective calls (COLL_PART) go to a function, in the loops of their
   connections; the bytes are borrowed for the call, and the reply is owed
   (rpc/server/rpc_server.h). Without one they are refused: let trainers meet once
   all have theirs. NULL: no more, and when this returns none is at work. */
struct fl_reply;
typedef void (*fl_server_part_fn)(void *arg, int from, const void *part,
                                  size_t len, struct fl_reply *reply);
void fl_server_on_part(fl_server *s, fl_server_part_fn fn, void *arg);
/* Gives that reply: FL_OK, or this thread's last error. */
void fl_server_part_taken(void *reply, fl_status st);
/* Whether fl_server_wait would return at once, for simulations. */
bool fl_server_is_over(fl_server *s);

#endif

/* client_inside.h - what the files of the client share:
 *
 *     client.c           the links, and what is told of them
 *     client_request.c   requests and their parts
 *     client_coalesce.c      small ones that leave as one
 *     client_rows.c      the dealing of keys
 *     client_blocks.c    dense blocks, and the end of a round
 *     client_changed.c   what others changed
 *     client_relay.c      from trainer to trainer
 */
#ifndef FL_PS_CLIENT_CLIENT_INSIDE_H
#define FL_PS_CLIENT_CLIENT_INSIDE_H

#include <stdatomic.h>

#include "base/thread.h"
#include "base/vec.h"
#include "ps/client/client.h"

/* Types of types.def are below it. */
#define FL_CLIENT_TYPES 64

/* Requests that are kept to be used again, with their memory. */
#define FL_CLIENT_SPARE 8

/* --- requests ------------------------------------------------------------- */

typedef struct fl_request fl_request;

/* What one server is asked. */
typedef struct fl_part {
    fl_request *request;
    int server;
    bool is_used;
    fl_pack head;
    FL_VEC(struct iovec) pieces; /* of the payload, the head first */
    uint64_t reply_bytes;        /* wanted, when values are */
    fl_payload *payload;         /* the answer, until all have answered */
} fl_part;

/* The keys of one item that go to one server, and what belongs to them. */
typedef struct fl_cell {
    uint64_t n, filled;
    uint64_t *keys;
    float *values, *shows, *clicks; /* of a push or an assign */
    uint32_t *counts;
    uint32_t *places; /* of a pull: the rows of the caller; NULL: in order */
} fl_cell;

/* Where the values of a block go when its server has answered. */
typedef struct fl_block_out {
    int server;
    float *out;
    uint64_t n;
} fl_block_out;

/* Who is told that it is over. */
typedef struct fl_ending {
    fl_client_done done;
    void *arg;
} fl_ending;

/* Made by the caller's thread; the loop's once it is sent. */
struct fl_request {
    fl_request *next; /* among the spare or the kept ones */
    fl_client *client;
    uint16_t type;
    bool once;
    int n_open; /* parts without an answer */
    fl_err err; /* the first one */
    fl_client_reply on_reply;
    FL_VEC(fl_ending) endings; /* one, or those of all that were joined */
    bool is_kept;              /* for others to join */
    uint64_t kept_bytes;
    fl_part *parts; /* by server */

    /* Rows, by item; cells by server and item. */
    FL_VEC(fl_rows_item) rows;
    FL_VEC(uint32_t) dims;
    FL_VEC(float *) outs;
    FL_VEC(fl_cell) cells;
    FL_VEC(fl_rows_item) heads;
    void *body; /* what is gathered */
    size_t body_bytes;

    uint64_t round; /* of a push for a round */

    FL_VEC(fl_block_out) blocks; /* that are pulled, in the order of replies */
    FL_VEC(uint32_t) numbers;    /* of the blocks of one server */

    /* Of a question for what others changed. */
    uint32_t dim;
    fl_client_rows on_rows;

    /* Of one for mails. */
    uint64_t *cursors;
    fl_client_mails on_mail;
    bool *is_full; /* of a mail that is sent */
};

/* Of a request that nobody joins. */
static inline void *fl_request_arg(const fl_request *r)
{
    return r->endings.data[0].arg;
}

/* A request to be filled; an error when the client is not connected. */
FL_MUST_CHECK
fl_status fl_request_new(fl_client *c, uint16_t type, bool once,
                         fl_ending ending, fl_request **out);
/* Gives it up before it is sent, or when it is over. */
void fl_request_free(fl_request *r);
/* Frees the memory of a spare one. */
void fl_request_destroy(fl_request *r);

/* Adds a piece to the payload for a server; the first is the part's head. */
void fl_part_add(fl_part *p, const void *bytes, uint64_t len);

/* Sends the parts that are used; when there are none it is done. Fails when a
   message would be too large; it is freed then, unless it was only a try. */
FL_MUST_CHECK
fl_status fl_request_send(fl_request *r);
FL_MUST_CHECK
fl_status fl_request_try(fl_request *r);

/* Ends a request that cannot be sent. */
void fl_request_fail(fl_request *r, fl_status st);

/* --- rows ----------------------------------------------------------------- */

typedef struct fl_request_ask {
    uint16_t type;
    bool once;
    fl_ending ending;
    uint64_t bytes; /* of what goes, and what comes back */
} fl_request_ask;

/* A request to add items to, perhaps one that others began; nothing may fail
   between the two (client_coalesce.c). After an error of the second there is no
   request. */
FL_MUST_CHECK
fl_status fl_request_begin(fl_client *c, const fl_request_ask *a,
                           fl_request **out);
FL_MUST_CHECK
fl_status fl_request_end(fl_request *r);

/* Deals the items to the servers and tries to send (client_rows.c). */
FL_MUST_CHECK
fl_status fl_request_deal(fl_request *r);

/* --- answers that belong to the caller's memory --------------------------- */

/* Puts the values of an answer where they belong: rows (client_rows.c), and
   blocks (client_blocks.c). */
void fl_request_scatter(fl_request *r, const fl_part *p, const float *values);
void fl_request_fill_blocks(const fl_request *r, const fl_part *p,
                            const float *values);

/* Whether an answer holds rows of that width (client_changed.c). */
FL_MUST_CHECK
fl_status fl_request_check_rows(const fl_request *r, const fl_part *p);
/* Lends the rows of all answers, which are good. */
void fl_request_give_rows(const fl_request *r);

/* Takes the answer to a MAIL or a TAKE (client_relay.c). */
FL_MUST_CHECK
fl_status fl_request_read_mail(const fl_request *r, const fl_part *p);

/* --- the client ----------------------------------------------------------- */

typedef struct fl_request_list {
    fl_request *first, *last;
} fl_request_list;

typedef struct fl_client_link {
    fl_client *client;
    int server;
    fl_rpc_client *link;
    bool was_up, is_away;
    uint64_t away_ms; /* since when */
    _Atomic uint64_t requests[FL_CLIENT_TYPES];
} fl_client_link;

struct fl_client {
    fl_client_options o; /* with texts of its own */
    char **servers;
    char *job, *token;
    fl_net *net;
    fl_loop *loop;
    bool has_loop; /* of its own */
    _Atomic uint64_t step, n_requests;
    _Atomic uint64_t sent_bytes, received_bytes; /* of payloads */
    atomic_bool is_leaving;

    /* Loop only. */
    fl_rpc_client *joiner; /* until server 0 knows the incarnation */
    uint64_t timer, start_ms;
    int n_up;

    fl_client_link *links; /* by server; complete when the state is FL_OK */

    fl_mutex joining;
    fl_request_list kept_pushes, kept_pulls; /* guarded by joining */

    fl_mutex mu;
    fl_cond cond;
    fl_status state;   /* guarded by mu */
    fl_err why;        /* guarded by mu */
    fl_request *spare; /* guarded by mu */
    int n_spare;       /* guarded by mu */
};

#endif

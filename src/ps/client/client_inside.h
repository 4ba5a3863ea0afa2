/* client_inside.h - what the files of the client share:
 *
 *     client.c           the links, and what is told of them
 *     client_request.c   requests and their parts
 *     client_coalesce.c  small ones that leave as one
 *     client_rows.c      keys scattered to servers
 *     client_blocks.c    dense blocks, and the end of a round
 *     client_changed.c   what others changed
 *
 * What is asked with a few numbers is in the files of ps/msg.
 */
#ifndef FL_PS_CLIENT_CLIENT_INSIDE_H
#define FL_PS_CLIENT_CLIENT_INSIDE_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/interrupt.h"
#include "base/thread.h"
#include "base/vec.h"
#include "ps/client/client.h"

/* Requests that are kept to be used again, with their memory. */
#define FL_CLIENT_SPARE 8

/* --- requests ------------------------------------------------------------- */

typedef struct fl_request fl_request;

/* What one server is asked. */
typedef struct fl_request_part {
    fl_request *request;
    int server;
    bool is_used;
    fl_pack head;
    FL_VEC(struct iovec) pieces; /* of the payload, the head first */
    uint64_t reply_bytes;        /* wanted, when values are */
    fl_payload *payload;         /* the answer */
} fl_request_part;

/* The keys of one item that go to one server, and what belongs to them. */
typedef struct fl_cell {
    uint64_t n, filled;
    uint64_t first; /* row of the item, where keys stay in their order */
    uint64_t *keys;
    void *coded_keys; /* of the payload; NULL: the keys themselves are */
    uint8_t *values;  /* of a push or an assign, as they travel */
    float *shows, *clicks;
    uint32_t *counts;
    uint32_t *places; /* of a pull: the rows of the caller; NULL: as they
                         follow on the first */
} fl_cell;

/* Rows, by item; cells by server and item (client_rows.c). */
typedef struct fl_request_rows {
    FL_VEC(fl_rows_item) items;
    FL_VEC(float *) outs;
    FL_VEC(fl_cell) cells;
    FL_VEC(fl_rows_item) heads;
    fl_buf coded;     /* values, and for one server keys, as they travel */
    fl_buf body;      /* what is gathered */
    fl_buf servers;   /* of the keys of all items, 16 bits each */
    bool is_in_order; /* each server's keys of an item follow on one another */
} fl_request_rows;

/* Where the values of a block go when its server has answered. */
typedef struct fl_block_out {
    int server;
    size_t number; /* in the caller's list */
    float *out;    /* NULL: the store takes them */
    uint64_t n;
    fl_codec codec;
} fl_block_out;

/* Blocks (client_blocks.c). */
typedef struct fl_request_blocks {
    FL_VEC(fl_client_block) sent; /* with values, */
    FL_VEC(const float *) values; /* which are borrowed */
    FL_VEC(fl_block_out) outs;    /* in the order of replies */
    fl_client_store store;        /* of those without memory */
    FL_VEC(fl_block_item) items;  /* of one server */
    fl_buf coded;                 /* values as they travel */
} fl_request_blocks;

/* Takes the reply of a call, whose bytes are borrowed. */
typedef fl_status (*fl_call_take)(void *out, int server, fl_msg_bytes reply);

/* Takes an answer, in the loop. */
typedef fl_status (*fl_request_take)(fl_request *r, const fl_request_part *p);

/* Fills the parts from what was added. */
typedef fl_status (*fl_request_fill)(fl_request *r);

/* Made by the caller's thread; the loop's once it is sent. */
struct fl_request {
    fl_request *next; /* among the spare or the coalesced ones */
    fl_client *client;
    uint16_t type;
    int n_open; /* parts without an answer */
    fl_err err; /* the first one */
    /* For each answer when it comes; its payload is freed afterwards. NULL:
       answers are not looked at. */
    fl_request_take on_part;
    /* For each answer, in the order of the servers, when all have come; their
       payloads stay until then. NULL: there is nothing to do. */
    fl_request_take on_all;
    fl_request_fill fill; /* before it is sent; NULL: the parts are filled */
    fl_call_take take;    /* of a call */
    void *state;          /* for these */
    FL_VEC(fl_ending) endings; /* one, or those of all that were coalesced */
    bool is_coalesced;         /* others may be added to it */
    uint64_t coalesced_bytes;
    fl_request_part *parts; /* by server */
    fl_request_rows rows;
    fl_request_blocks blocks;
    uint64_t round; /* of a push for a round */
};

/* A request to be filled; an error when the client is not connected. */
FL_MUST_CHECK
fl_status fl_request_new(fl_client *c, uint16_t type, fl_ending ending,
                         fl_request **out);
/* Gives it up before it is sent, or when it is over. */
void fl_request_free(fl_request *r);
/* Frees the memory of a spare one. */
void fl_request_destroy(fl_request *r);

/* Adds a piece to the payload for a server; the first is the part's head. */
void fl_part_add(fl_request_part *p, const void *bytes, uint64_t len);
/* Packs the fields of a request; bytes at their end are a borrowed piece. */
void fl_part_pack(fl_request_part *p, const void *request);
/* The answer. */
fl_msg_bytes fl_part_reply(const fl_request_part *p);
/* The same as coded values, which have to be as many as are wanted. */
FL_MUST_CHECK
fl_status fl_part_values(const fl_request_part *p, const uint8_t **values);

/* Sends the parts that are used; when there are none it is done. Fails when a
   message would be too large; it is freed then, unless it was only a try. */
FL_MUST_CHECK
fl_status fl_request_send(fl_request *r);
FL_MUST_CHECK
fl_status fl_request_try(fl_request *r);

/* Ends a request that cannot be sent. */
void fl_request_fail(fl_request *r, fl_status st);

/* --- calls ---------------------------------------------------------------- */

/* A request that is fields, to one server or to all. */
typedef struct fl_call_spec {
    fl_msg type;
    int server;
    const void *request; /* NULL: it is empty */
    /* Takes a reply into out, in the order of the servers, when all have
       answered well. NULL: by its fields, unless there is no out. */
    fl_call_take take;
    void *out;
} fl_call_spec;

/* Bytes at the end of the request are borrowed until it is over. */
FL_MUST_CHECK
fl_status fl_client_call(fl_client *c, const fl_call_spec *call,
                         fl_ending ending);

/* --- requests that are coalesced ------------------------------------------ */

typedef struct fl_request_spec {
    uint16_t type;
    fl_ending ending;
    uint64_t bytes; /* of what goes, and what comes back */
} fl_request_spec;

/* How many bytes of a kind are small, whatever the size of a message. */
#define FL_SMALL_ROWS_BYTES ((uint64_t)64 << 10)
#define FL_SMALL_BLOCKS_BYTES ((uint64_t)1 << 20)

/* A request to add items to, perhaps one that others began; nothing may fail
   between the two (client_coalesce.c). After an error of the second there is no
   request. */
FL_MUST_CHECK
fl_status fl_request_begin(fl_client *c, const fl_request_spec *a,
                           fl_request **out);
FL_MUST_CHECK
fl_status fl_request_end(fl_request *r);

/* Memory for so many bytes of the request, and a little more: requests are about
   equally large. */
FL_MUST_CHECK
fl_status fl_request_grow(const fl_request *r, fl_buf *b, uint64_t bytes);

/* Fills the parts and tries to send. */
FL_MUST_CHECK
fl_status fl_request_fill_and_try(fl_request *r);

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
    _Atomic uint64_t requests[FL_MSG_MAX];
} fl_client_link;

struct fl_client {
    fl_client_options o; /* with texts of its own */
    char **servers;
    char *job, *token;
    fl_net *net;
    fl_loop *loop;
    bool has_loop;                  /* of its own */
    fl_interruptible interruptible; /* with a loop of its own */
    _Atomic uint64_t step, n_requests;
    fl_client_stats stats;
    atomic_bool is_leaving;

    /* Loop only. */
    fl_rpc_client *joiner; /* until server 0 knows the incarnation */
    uint64_t timer, start_ms;
    int n_up;

    fl_client_link *links; /* by server; complete when the state is FL_OK */

    fl_mutex coalesce_mu;
    fl_request_list pushes, blocks, pulls; /* coalesced; guarded by
                                              coalesce_mu */

    fl_mutex mu;
    fl_cond cond;
    fl_status state;   /* guarded by mu */
    fl_err why;        /* guarded by mu */
    fl_request *spare; /* guarded by mu */
    int n_spare;       /* guarded by mu */
};

/* What people call a server of the job: "server", or "worker" where workers
   serve. */
const char *fl_client_peer_word(const fl_client *c);

/* --- msg/round.c ---------------------------------------------------------- */

void fl_round_pack(fl_pack *p, const fl_client_round *round,
                   const fl_block_item *blocks, size_t n);

#endif

/* store.h - what one server holds: tables and dense blocks, and the requests
 * that touch them. It knows no network: payload in, reply out.
 *
 * Any thread; a request runs to its end in the thread that brings it.
 */
#ifndef FL_PS_STORE_STORE_H
#define FL_PS_STORE_STORE_H

#include "base/stats.h"
#include "conf/conf.h"
#include "ps/declare.h"
#include "ps/store/contents.h"
#include "ps/store/dense.h"
#include "ps/msg/items.h"
#include "table/table.h"

typedef struct fl_store fl_store;

/* Both are borrowed for its life. */
fl_store *fl_store_new(const fl_op_set *ops, const fl_conf *conf);
void fl_store_free(fl_store *s);

/* Replies that can come in pages (CHANGED) have at most so many bytes; without
   it, any number. Before the first request. */
void fl_store_set_page(fl_store *s, uint64_t bytes);

/* It has the rows of one of so many ranges of hashes (fl_server_of), and deals
   their work within it; without it, all rows. Before the first declaration. */
void fl_store_set_servers(fl_store *s, int n);

/* A saved model, and what a server takes of it. */
typedef struct fl_model_share {
    const char *path;
    const char *plan;    /* what of it (ckpt/load_plan.h); NULL: all */
    int rank, n_servers; /* the rows and blocks of one of so many */
} fl_model_share;

/* What is declared begins with a saved model. Before the first declaration. *step
   is that of the model; 0 when only some of its variables are loaded. */
FL_MUST_CHECK
fl_status fl_store_set_model(fl_store *s, const fl_model_share *share,
                             uint64_t *step);

/* Replaces what it holds by that of a saved model. After an error before anything
   was changed it is as it was. Requests wait while blocks are written, not while
   rows are. */
FL_MUST_CHECK
fl_status fl_store_load(fl_store *s, const fl_model_share *share);

/* The first declaration is run and makes everything; a later one must be the
   same. After an error everything is as it was. The text may change meanwhile. */
FL_MUST_CHECK
fl_status fl_store_declare(fl_store *s, const char *text, size_t len);

/* The same by programs that have run here, before any declaration: later ones
   must be like `declared`, what was transpiled, or like `edited`, what has
   become of it since. */
FL_MUST_CHECK
fl_status fl_store_hold(fl_store *s, const fl_contents *c, const char *declared,
                        const char *edited);
/* NULL before the first declaration; borrowed. */
const char *fl_store_declaration(const fl_store *s);

/* The name of a dense block by its number, and its floats; NULL: there is none
   of that number. Borrowed. */
const char *fl_store_block_name(const fl_store *s, size_t number, uint64_t *n);

/* A reply: bytes that the store writes into memory of the caller's choice. */
typedef struct fl_store_reply {
    /* Gives memory for the reply, 4-byte aligned, called once at most and not for
       an empty reply; NULL: no memory. An error may come after it. */
    void *(*reserve)(void *arg, uint64_t len);
    void *arg;
    uint64_t step; /* that the job has come to by the request; 0: as before */
} fl_store_reply;

/* Every message whose place is the STORE (messages.def). */
typedef struct fl_store_call {
    uint16_t type;
    fl_msg_bytes payload;       /* 8-byte aligned; may change meanwhile */
    uint64_t step;              /* of the job, as the server knows it */
    uint32_t rank, incarnation; /* of the sender */
} fl_store_call;

/* A push or an assign whose keys or rates are refused changes nothing. */
FL_MUST_CHECK
fl_status fl_store_request(fl_store *s, const fl_store_call *call,
                           fl_store_reply *reply);

/* Counters by table, block and rank, and memory, as text; tests read single
   numbers. Freed with fl_free. */
char *fl_store_stats_json(fl_store *s);
/* The same for Prometheus (store_metrics.c). */
void fl_store_metrics(fl_store *s, fl_str *out);

/* Rows are those of requests that went well, repeated keys included; merged
   ones are those pushed rows whose sender had merged them. */
#define FL_STORE_COUNTS(X)                                                     \
    X(requests, COUNT)                                                         \
    X(pulled_rows, COUNT)                                                      \
    X(pushed_rows, COUNT)                                                      \
    X(merged_rows, COUNT)                                                      \
    X(in, BYTES)                                                               \
    X(out, BYTES)
FL_STATS(fl_store_counts, FL_STORE_COUNTS);

/* Requests so far, of every type. */
uint64_t fl_store_requests(const fl_store *s);

/* Of the requests of a type. */
const fl_store_counts *fl_store_count(const fl_store *s, uint16_t type);

#endif

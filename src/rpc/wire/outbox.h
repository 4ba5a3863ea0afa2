/* outbox.h - messages on their way out; for conn.c only.
 *
 * Each has its head and pieces as an iovec that shrinks as bytes are taken.
 * Owner thread only.
 */
#ifndef FL_RPC_WIRE_OUTBOX_H
#define FL_RPC_WIRE_OUTBOX_H

#include "rpc/wire/conn.h"

typedef struct fl_out fl_out;

typedef struct fl_outbox {
    fl_out *first, **end;
    uint64_t waiting_bytes;
} fl_outbox;

/* The pieces stay where they are, the rest is copied. f->length is right. */
fl_out *fl_out_new(const fl_frame *f, const fl_message *m);
/* With a copy of its payload and its length; NULL without memory. */
fl_out *fl_out_copy(const fl_frame *f, const void *payload, size_t len);
/* Calls `done` of each in a list and frees them; NULL is fine. */
void fl_out_finish(fl_out *list);

void fl_outbox_init(fl_outbox *b);
void fl_outbox_add(fl_outbox *b, fl_out *m);

/* The first bytes that wait, in at most max pieces; returns how many bytes. */
size_t fl_outbox_gather(const fl_outbox *b, struct iovec *v, int max, int *n);

/* n bytes were taken: gives those messages that are now sent, to be finished,
   and counts them. */
fl_out *fl_outbox_taken(fl_outbox *b, size_t n, fl_conn_stats *stats);

/* All that wait, to be finished; the box is empty then. */
fl_out *fl_outbox_clear(fl_outbox *b);

#endif

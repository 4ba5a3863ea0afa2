/* buffers.h - memory for replies, used again and again.
 *
 * Sizes are powers of two, so that a buffer fits the next reply of about the
 * same size, and what lies idle is bounded. Any thread.
 */
#ifndef FL_PS_SERVER_BUFFERS_H
#define FL_PS_SERVER_BUFFERS_H

#include "base/thread.h"

/* From 4 KB on; the largest is more than there ever is memory. */
#define FL_REPLY_BUFFER_SIZES 48

typedef struct fl_reply_buffer fl_reply_buffer;

typedef struct fl_reply_buffers {
    fl_mutex mu;
    fl_reply_buffer *idle[FL_REPLY_BUFFER_SIZES]; /* by size; guarded by mu */
    uint64_t idle_bytes;                          /* guarded by mu */
} fl_reply_buffers;

void fl_reply_buffers_init(fl_reply_buffers *b);
/* All buffers have been put back. */
void fl_reply_buffers_release(fl_reply_buffers *b);

/* At least that many bytes, 64-byte aligned, with anything in them; NULL
   without memory. */
fl_reply_buffer *fl_reply_buffers_take(fl_reply_buffers *b, uint64_t len);
void *fl_reply_buffer_data(fl_reply_buffer *buf);
/* Puts an fl_reply_buffer back; NULL is fine. */
void fl_reply_buffer_put(void *buf);

#endif

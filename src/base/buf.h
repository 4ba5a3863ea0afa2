/* buf.h - memory sized by data that grows and is kept for the next time.
 *
 * Zeros are an empty one. Owner thread only.
 */
#ifndef FL_BASE_BUF_H
#define FL_BASE_BUF_H

#include <stddef.h>

typedef struct fl_buf {
    void *data; /* 64-byte aligned */
    size_t bytes;
} fl_buf;

/* Makes it at least that large, and gives its memory: what was in it is not
   kept when it grows. NULL, and all as it was, when there is no memory. */
void *fl_buf_reserve(fl_buf *b, size_t bytes);
/* The same with that many bytes set to zero. */
void *fl_buf_zeros(fl_buf *b, size_t bytes);
void fl_buf_release(fl_buf *b);

#endif

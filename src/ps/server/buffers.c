/* buffers.c - idle buffers in one list per size, the last one put back first:
 * its pages are the likeliest to be in the cache. */
#include "ps/server/buffers.h"

#include "base/alloc.h"

#define SIZE_MIN_BITS 12
/* What a server may keep for later. */
#define IDLE_BYTES_MAX ((uint64_t)64 << 20)
/* The data begins here, as aligned as the buffer itself. */
#define HEAD_BYTES 64

struct fl_reply_buffer {
    fl_reply_buffers *home;
    fl_reply_buffer *next;
    uint64_t bytes; /* with the head */
    unsigned size;  /* index of its list */
};

_Static_assert(sizeof(fl_reply_buffer) <= HEAD_BYTES, "the head has no room");

void fl_reply_buffers_init(fl_reply_buffers *b)
{
    *b = (fl_reply_buffers){ 0 };
    fl_mutex_init(&b->mu);
}

void fl_reply_buffers_release(fl_reply_buffers *b)
{
    fl_reply_buffer *next;

    for (unsigned i = 0; i < FL_REPLY_BUFFER_SIZES; i++) {
        for (fl_reply_buffer *buf = b->idle[i]; buf; buf = next) {
            next = buf->next;
            fl_data_free(buf, (size_t)buf->bytes);
        }
    }
    fl_mutex_release(&b->mu);
}

static unsigned size_of(uint64_t len)
{
    unsigned size = 0;

    while (len > (uint64_t)1 << (size + SIZE_MIN_BITS))
        size++;
    return size;
}

static fl_reply_buffer *make(fl_reply_buffers *b, unsigned size)
{
    uint64_t bytes = ((uint64_t)1 << (size + SIZE_MIN_BITS)) + HEAD_BYTES;
    fl_reply_buffer *buf = fl_try_alloc((size_t)bytes);

    if (buf)
        *buf = (fl_reply_buffer){ .home = b, .bytes = bytes, .size = size };
    return buf;
}

fl_reply_buffer *fl_reply_buffers_take(fl_reply_buffers *b, uint64_t len)
{
    fl_reply_buffer *buf;
    unsigned size;

    if (len > (uint64_t)1 << (SIZE_MIN_BITS + FL_REPLY_BUFFER_SIZES - 1))
        return NULL;
    size = size_of(len);
    fl_lock(&b->mu);
    buf = b->idle[size];
    if (buf) {
        b->idle[size] = buf->next;
        b->idle_bytes -= buf->bytes;
    }
    fl_unlock(&b->mu);
    return buf ? buf : make(b, size);
}

void *fl_reply_buffer_data(fl_reply_buffer *buf)
{
    return (uint8_t *)buf + HEAD_BYTES;
}

void fl_reply_buffer_put(void *buffer)
{
    fl_reply_buffer *buf = buffer;
    fl_reply_buffers *b;
    bool is_kept;

    if (!buf)
        return;
    b = buf->home;
    fl_lock(&b->mu);
    is_kept = b->idle_bytes + buf->bytes <= IDLE_BYTES_MAX;
    if (is_kept) {
        buf->next = b->idle[buf->size];
        b->idle[buf->size] = buf;
        b->idle_bytes += buf->bytes;
    }
    fl_unlock(&b->mu);
    if (!is_kept)
        fl_data_free(buf, (size_t)buf->bytes);
}

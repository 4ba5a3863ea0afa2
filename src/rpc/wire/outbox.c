/* outbox.c - a list of messages and how far they have been taken. */
#include "rpc/wire/outbox.h"

#include <string.h>

#include "base/alloc.h"

/* Copies up to this length live in the message itself. */
#define SMALL_COPY 4096

struct fl_out {
    fl_out *next;
    uint64_t length; /* as its head says */
    void (*done)(void *arg);
    void *arg;
    void *copy; /* of the payload, when it is large */
    size_t copy_bytes;
    int at, n; /* pieces from `at` on are not taken yet */
    uint8_t head[FL_FRAME_BYTES];
    struct iovec v[]; /* the head, then the pieces; a small copy behind them */
};

/* With room for so many pieces and so many bytes behind them. */
static fl_out *make(const fl_frame *f, int n_pieces, size_t more)
{
    size_t pieces = sizeof(struct iovec) * ((size_t)n_pieces + 1);
    fl_out *m = fl_alloc(sizeof(*m) + pieces + more);

    m->length = f->length;
    fl_frame_write(f, m->head);
    m->v[0] = (struct iovec){ m->head, FL_FRAME_BYTES };
    m->n = 1;
    return m;
}

static void add_piece(fl_out *m, void *base, size_t len)
{
    if (len)
        m->v[m->n++] = (struct iovec){ base, len };
}

fl_out *fl_out_new(const fl_frame *f, const fl_message *m)
{
    fl_out *out = make(f, m->n_pieces, 0);

    for (int i = 0; i < m->n_pieces; i++)
        add_piece(out, m->pieces[i].iov_base, m->pieces[i].iov_len);
    out->done = m->done;
    out->arg = m->arg;
    return out;
}

fl_out *fl_out_copy(const fl_frame *f, const void *payload, size_t len)
{
    fl_frame framed = *f;
    bool is_small = len <= SMALL_COPY;
    void *copy = NULL;
    fl_out *m;

    if (!is_small) {
        copy = fl_try_alloc(len);
        if (!copy)
            return NULL;
    }
    framed.length = len;
    m = make(&framed, 1, is_small ? len : 0);
    m->copy = copy;
    m->copy_bytes = len;
    if (is_small)
        copy = m->v + 2;
    if (len)
        memcpy(copy, payload, len);
    add_piece(m, copy, len);
    return m;
}

void fl_out_finish(fl_out *list)
{
    while (list) {
        fl_out *m = list;

        list = m->next;
        if (m->done)
            m->done(m->arg);
        fl_data_free(m->copy, m->copy_bytes);
        fl_free(m);
    }
}

void fl_outbox_init(fl_outbox *b)
{
    *b = (fl_outbox){ .end = &b->first };
}

void fl_outbox_add(fl_outbox *b, fl_out *m)
{
    for (int i = 0; i < m->n; i++)
        b->waiting_bytes += m->v[i].iov_len;
    *b->end = m;
    b->end = &m->next;
}

size_t fl_outbox_gather(const fl_outbox *b, struct iovec *v, int max, int *n)
{
    size_t bytes = 0;

    *n = 0;
    for (const fl_out *m = b->first; m; m = m->next) {
        for (int i = m->at; i < m->n; i++) {
            if (*n == max)
                return bytes;
            bytes += m->v[i].iov_len;
            v[(*n)++] = m->v[i];
        }
    }
    return bytes;
}

/* Takes n bytes off a message; returns those beyond its end. */
static size_t advance(fl_out *m, size_t n)
{
    while (m->at < m->n) {
        struct iovec *v = &m->v[m->at];

        if (n < v->iov_len) {
            v->iov_base = (uint8_t *)v->iov_base + n;
            v->iov_len -= n;
            return 0;
        }
        n -= v->iov_len;
        m->at++;
    }
    return n;
}

fl_out *fl_outbox_taken(fl_outbox *b, size_t n, fl_conn_stats *stats)
{
    fl_out *sent = b->first, *last = NULL;

    b->waiting_bytes -= n;
    while (b->first) {
        n = advance(b->first, n);
        if (b->first->at < b->first->n)
            break;
        last = b->first;
        b->first = last->next;
        stats->out_messages++;
        stats->out_bytes += FL_FRAME_BYTES + last->length;
    }
    if (!b->first)
        b->end = &b->first;
    if (!last)
        return NULL;
    last->next = NULL;
    return sent;
}

fl_out *fl_outbox_clear(fl_outbox *b)
{
    fl_out *list = b->first;

    fl_outbox_init(b);
    return list;
}

/* conn_kit.h - connections on a wire, and what their owner saw. */
#ifndef FL_TESTS_RPC_CONN_KIT_H
#define FL_TESTS_RPC_CONN_KIT_H

#include "types_kit.h"
#include "wire_kit.h"

/* What one end of a wire saw. */
typedef struct seen {
    fl_conn *c;
    uint64_t n_messages, n_bytes, n_rooms, n_done;
    uint64_t next; /* number that the next message must have */
    bool is_closed;
    fl_status why;
    fl_err error;
    fl_frame last;
    fl_payload *kept;
    bool keeps, echoes, defers, frees;
    bool is_threaded;
    uint64_t n_bad;
} seen;

static const fl_conn_options options = { .max_bytes = 64 << 20,
                                         .window_bytes = 1 << 20,
                                         .names = type_name };

/* A message's bytes follow from its number. */
static inline uint8_t byte_of(uint64_t number, size_t i)
{
    return (uint8_t)(number * 31 + i + (i >> 8) * 7 + (i >> 16) * 13);
}

static inline void fill(uint8_t *to, uint64_t number, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = byte_of(number, i);
}

static inline bool is_right(uint64_t number, const fl_payload *p)
{
    const uint8_t *data = fl_payload_data(p);
    size_t len = fl_payload_len(p), n_bad = 0;

    for (size_t i = 0; i < len; i++)
        n_bad += data[i] != byte_of(number, i);
    return n_bad == 0 && (uintptr_t)data % 64 == 0;
}

static inline void see_message(void *arg, fl_conn *c, const fl_frame *f,
                               fl_payload *p)
{
    seen *s = arg;

    expect(s, s->c == c && f->request == s->next);
    expect(s, f->length == (p ? fl_payload_len(p) : 0));
    expect(s, !p || is_right(f->request, p));
    s->next++;
    s->n_messages++;
    s->n_bytes += f->length;
    s->last = *f;
    if (s->echoes)
        fl_conn_send_copy(c, f, p ? fl_payload_data(p) : NULL, f->length);
    if (s->defers)
        fl_conn_defer(c);
    if (s->keeps && !s->kept)
        s->kept = p;
    else
        fl_payload_free(p);
    if (s->frees) {
        fl_conn_free(c);
        s->c = NULL;
    }
}

static inline void see_close(void *arg, fl_conn *c, fl_status why)
{
    seen *s = arg;

    assert_ptr_equal(s->c, c);
    assert_false(s->is_closed);
    assert_null(fl_conn_stream(c));
    s->is_closed = true;
    s->why = why;
    fl_err_save(&s->error, why);
    if (s->frees) {
        fl_conn_free(c);
        s->c = NULL;
    }
}

static inline void see_room(void *arg, fl_conn *c)
{
    seen *s = arg;

    assert_ptr_equal(s->c, c);
    assert_false(fl_conn_is_full(c));
    s->n_rooms++;
}

static const fl_conn_events seeing = { see_message, see_close, see_room };

static inline void connect_end(wire *w, int side, seen *s)
{
    *s = (seen){ 0 };
    s->c = fl_conn_new(&w->end[side]->base, &options, &seeing, s);
}

static inline void send_number(fl_conn *c, uint64_t number, size_t len)
{
    fl_frame f = { .type = TYPE_ADD, .request = number };
    uint8_t *bytes = fl_alloc(len);

    fill(bytes, number, len);
    fl_conn_send_copy(c, &f, bytes, len);
    fl_free(bytes);
}

static inline void count_done(void *arg)
{
    ((seen *)arg)->n_done++;
}

/* Borrowed bytes, told when they are taken. */
static inline void send_borrowed(seen *s, uint64_t number, uint8_t *bytes,
                                 size_t len)
{
    struct iovec v[] = { { bytes, len / 3 },
                         { NULL, 0 },
                         { bytes + len / 3, len - len / 3 } };
    fl_message m = { .frame = { .type = TYPE_ADD, .request = number },
                     .pieces = v,
                     .n_pieces = 3,
                     .done = count_done,
                     .arg = s };

    fl_conn_send(s->c, &m);
}

/* The test plays the peer at end 0. */
static inline void write_frame(wire *w, const fl_frame *f)
{
    uint8_t head[FL_FRAME_BYTES];

    fl_frame_write(f, head);
    wire_put(w->end[1], head, sizeof(head));
}

static inline void expect_closed(seen *s, fl_status why, const char *says)
{
    assert_true(s->is_closed);
    assert_int_equal(s->why, why);
    (void)fl_err_restore(&s->error);
    assert_says(says);
}

#endif

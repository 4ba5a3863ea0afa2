/* relay.c - the mailboxes of the trainers.
 *
 *     first        first + n
 *       |  messages   |
 *     --+-------------+--> numbers of a generation
 *
 * A receiver that has seen the numbers below `seen` lets go of them, and gets
 * those from there on. It asks again with the same number when a reply was
 * lost.
 */
#include "ps/server/relay.h"

#include <inttypes.h>
#include <string.h>

#include "base/thread.h"
#include "base/vec.h"

#define LENGTH_BYTES sizeof(uint64_t) /* before every message of a reply */

typedef struct message {
    void *bytes; /* NULL: an empty one */
    uint64_t len;
} message;

typedef struct mailbox {
    fl_mutex mu; /* guards the rest */
    uint64_t generation;
    uint64_t first; /* number of the oldest message that is kept */
    uint64_t bytes;
    size_t at; /* of the oldest message in the list */
    FL_VEC(message) messages;
} mailbox;

struct fl_relay {
    uint32_t n;
    mailbox mailboxes[];
};

fl_relay *fl_relay_new(uint32_t n_trainers)
{
    fl_relay *m = fl_alloc(sizeof(*m) + n_trainers * sizeof(*m->mailboxes));

    m->n = n_trainers;
    for (uint32_t i = 0; i < n_trainers; i++)
        fl_mutex_init(&m->mailboxes[i].mu);
    return m;
}

/* Lets go of the n oldest messages. */
static void drop(mailbox *b, uint64_t n)
{
    for (; n; n--) {
        message *l = &b->messages.data[b->at++];

        b->bytes -= l->len;
        b->first++;
        fl_data_free(l->bytes, (size_t)l->len);
    }
    /* A mailbox that is never empty must not have its past before it for ever. */
    if (b->at < b->messages.len - b->at)
        return;
    b->messages.len -= b->at;
    if (b->messages.len)
        memmove(b->messages.data, b->messages.data + b->at,
                b->messages.len * sizeof(*b->messages.data));
    b->at = 0;
}

static uint64_t count(const mailbox *b)
{
    return b->messages.len - b->at;
}

void fl_relay_free(fl_relay *m)
{
    for (uint32_t i = 0; m && i < m->n; i++) {
        mailbox *b = &m->mailboxes[i];

        drop(b, count(b));
        fl_vec_release(&b->messages);
        fl_mutex_release(&b->mu);
    }
    fl_free(m);
}

uint64_t fl_relay_bytes(fl_relay *m, uint32_t rank)
{
    mailbox *b = &m->mailboxes[rank];
    uint64_t bytes;

    fl_lock(&b->mu);
    bytes = b->bytes;
    fl_unlock(&b->mu);
    return bytes;
}

/* --- generations, under the mutex ----------------------------------------- */

static fl_status turn_to(mailbox *b, uint64_t generation)
{
    if (generation < b->generation)
        FL_FAIL(FL_ERR_CLOSED,
                "a message of generation %" PRIu64
                " is over: the trainers are at "
                "generation %" PRIu64,
                generation, b->generation);
    if (generation == b->generation)
        return FL_OK;
    drop(b, count(b));
    b->generation = generation;
    b->first = 0;
    return FL_OK;
}

/* --- putting -------------------------------------------------------------- */

/* Copied without the mutex: it may be large. */
static fl_status copy_message(const void *bytes, uint64_t len, message *out)
{
    *out = (message){ .len = len };
    if (!len)
        return FL_OK;
    out->bytes = fl_try_alloc((size_t)len);
    if (!out->bytes)
        FL_FAIL(FL_ERR_NOMEM,
                "the server has no memory for a message of %" PRIu64 " bytes",
                len);
    memcpy(out->bytes, bytes, (size_t)len);
    return FL_OK;
}

static bool has_room(const mailbox *b, uint64_t len)
{
    return !count(b) || (b->bytes < FL_RELAY_MAILBOX_BYTES &&
                         len <= FL_RELAY_MAILBOX_BYTES - b->bytes);
}

static fl_status put(mailbox *b, uint64_t generation, const message *l,
                     bool *is_full)
{
    fl_status st;

    fl_lock(&b->mu);
    st = turn_to(b, generation);
    *is_full = !st && !has_room(b, l->len);
    if (!st && !*is_full) {
        fl_vec_push(&b->messages, *l);
        b->bytes += l->len;
    }
    fl_unlock(&b->mu);
    return st;
}

fl_status fl_relay_put(fl_relay *m, const fl_relay_request *r, bool *is_full)
{
    message l;
    fl_status st;

    if (r->to >= m->n)
        FL_FAIL(FL_ERR_NOTFOUND,
                "a message is for trainer %" PRIu32
                ", and the job has %" PRIu32,
                r->to, m->n);
    FL_TRY(copy_message(r->bytes.data, r->bytes.len, &l));
    st = put(&m->mailboxes[r->to], r->generation, &l, is_full);
    if (st || *is_full)
        fl_data_free(l.bytes, (size_t)l.len);
    return st;
}

/* --- taking --------------------------------------------------------------- */

/* How many of the oldest messages a reply has: as many as fit, at least one. */
static size_t choose(const mailbox *b, uint64_t max_bytes, uint64_t *bytes)
{
    size_t n = 0;

    *bytes = 0;
    for (size_t i = b->at; i < b->messages.len; i++, n++) {
        uint64_t more = LENGTH_BYTES + b->messages.data[i].len;

        if (n && (more > max_bytes || *bytes > max_bytes - more))
            break;
        *bytes += more;
    }
    return n;
}

static fl_status write_messages(const mailbox *b, uint64_t max_bytes,
                                fl_store_reply *reply)
{
    uint64_t bytes;
    size_t n = choose(b, max_bytes, &bytes);
    uint8_t *to;

    if (!n)
        return FL_OK;
    to = reply->reserve(reply->arg, bytes);
    if (!to)
        FL_FAIL(FL_ERR_NOMEM,
                "the server has no memory for a reply of %" PRIu64 " bytes",
                bytes);
    for (size_t i = b->at; i < b->at + n; i++) {
        const message *l = &b->messages.data[i];

        memcpy(to, &l->len, LENGTH_BYTES);
        to += LENGTH_BYTES;
        if (l->len)
            memcpy(to, l->bytes, (size_t)l->len);
        to += l->len;
    }
    return FL_OK;
}

static fl_status take(mailbox *b, uint64_t generation, uint64_t seen,
                      uint64_t max_bytes, fl_store_reply *reply)
{
    FL_TRY(turn_to(b, generation));
    if (seen < b->first || seen - b->first > count(b))
        FL_FAIL(FL_ERR_INVAL,
                "a trainer has seen %" PRIu64
                " messages, and those from %" PRIu64 " to %" PRIu64 " are here",
                seen, b->first, b->first + count(b));
    drop(b, seen - b->first);
    return write_messages(b, max_bytes, reply);
}

fl_status fl_relay_take(fl_relay *m, uint32_t rank,
                        const fl_relay_take_request *r, uint64_t max_bytes,
                        fl_store_reply *reply)
{
    fl_status st;
    mailbox *b;

    FL_ASSERT(rank < m->n);
    b = &m->mailboxes[rank];
    if (max_bytes > FL_RELAY_REPLY_BYTES)
        max_bytes = FL_RELAY_REPLY_BYTES;
    fl_lock(&b->mu);
    st = take(b, r->generation, r->seen, max_bytes, reply);
    fl_unlock(&b->mu);
    return st;
}

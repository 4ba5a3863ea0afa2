/* relay.c - the boxes of the trainers.
 *
 *     first        first + n
 *       | kept mails  |
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
#include "rpc/wire/frame.h"

#define LENGTH_BYTES sizeof(uint64_t) /* before every mail of a reply */

typedef struct letter {
    void *bytes; /* NULL: an empty one */
    uint64_t len;
} letter;

typedef struct box {
    fl_mutex mu; /* guards the rest */
    uint64_t generation;
    uint64_t first; /* number of the oldest mail that is kept */
    uint64_t bytes;
    size_t at; /* of the oldest mail in the list */
    FL_VEC(letter) letters;
} box;

struct fl_mail {
    uint32_t n;
    box boxes[];
};

fl_mail *fl_mail_new(uint32_t n_trainers)
{
    fl_mail *m = fl_alloc(sizeof(*m) + n_trainers * sizeof(*m->boxes));

    m->n = n_trainers;
    for (uint32_t i = 0; i < n_trainers; i++)
        fl_mutex_init(&m->boxes[i].mu);
    return m;
}

/* Lets go of the n oldest mails. */
static void drop(box *b, uint64_t n)
{
    for (; n; n--) {
        letter *l = &b->letters.data[b->at++];

        b->bytes -= l->len;
        b->first++;
        fl_data_free(l->bytes, (size_t)l->len);
    }
    /* A box that is never empty must not have its past before it for ever. */
    if (b->at < b->letters.len - b->at)
        return;
    b->letters.len -= b->at;
    if (b->letters.len)
        memmove(b->letters.data, b->letters.data + b->at,
                b->letters.len * sizeof(*b->letters.data));
    b->at = 0;
}

static uint64_t count(const box *b)
{
    return b->letters.len - b->at;
}

void fl_mail_free(fl_mail *m)
{
    for (uint32_t i = 0; m && i < m->n; i++) {
        box *b = &m->boxes[i];

        drop(b, count(b));
        fl_vec_release(&b->letters);
        fl_mutex_release(&b->mu);
    }
    fl_free(m);
}

uint64_t fl_mail_bytes(fl_mail *m, uint32_t rank)
{
    box *b = &m->boxes[rank];
    uint64_t bytes;

    fl_lock(&b->mu);
    bytes = b->bytes;
    fl_unlock(&b->mu);
    return bytes;
}

/* --- generations, under the mutex ----------------------------------------- */

static fl_status turn_to(box *b, uint64_t generation)
{
    if (generation < b->generation)
        FL_FAIL(FL_ERR_CLOSED,
                "mail of generation %" PRIu64 " is over: the trainers are at "
                "generation %" PRIu64,
                generation, b->generation);
    if (generation == b->generation)
        return FL_OK;
    drop(b, count(b));
    b->generation = generation;
    b->first = 0;
    return FL_OK;
}

static fl_unpack unpack(const void *payload, uint64_t len)
{
    const uint8_t *at = payload;

    return (fl_unpack){ .at = at, .end = len ? at + len : at };
}

/* --- putting -------------------------------------------------------------- */

/* Copied without the mutex: it may be large. */
static fl_status copy_letter(const void *bytes, uint64_t len, letter *out)
{
    *out = (letter){ .len = len };
    if (!len)
        return FL_OK;
    out->bytes = fl_try_alloc((size_t)len);
    if (!out->bytes)
        FL_FAIL(FL_ERR_NOMEM,
                "the server has no memory for a mail of %" PRIu64 " bytes",
                len);
    memcpy(out->bytes, bytes, (size_t)len);
    return FL_OK;
}

static bool has_room(const box *b, uint64_t len)
{
    return !count(b) || (b->bytes < FL_MAIL_BOX_BYTES &&
                         len <= FL_MAIL_BOX_BYTES - b->bytes);
}

static fl_status put(box *b, uint64_t generation, const letter *l,
                     bool *is_full)
{
    fl_status st;

    fl_lock(&b->mu);
    st = turn_to(b, generation);
    *is_full = !st && !has_room(b, l->len);
    if (!st && !*is_full) {
        fl_vec_push(&b->letters, *l);
        b->bytes += l->len;
    }
    fl_unlock(&b->mu);
    return st;
}

fl_status fl_mail_put(fl_mail *m, const void *payload, uint64_t len,
                      bool *is_full)
{
    fl_unpack u = unpack(payload, len);
    uint32_t to = fl_unpack_u32(&u), zero = fl_unpack_u32(&u);
    uint64_t generation = fl_unpack_u64(&u);
    letter l;
    fl_status st;

    if (u.bad || zero)
        FL_FAIL(FL_ERR_CORRUPT, "a mail of %" PRIu64 " bytes does not parse",
                len);
    if (to >= m->n)
        FL_FAIL(FL_ERR_NOTFOUND,
                "a mail is for trainer %" PRIu32 ", and the job has %" PRIu32,
                to, m->n);
    FL_TRY(copy_letter(u.at, (uint64_t)(u.end - u.at), &l));
    st = put(&m->boxes[to], generation, &l, is_full);
    if (st || *is_full)
        fl_data_free(l.bytes, (size_t)l.len);
    return st;
}

/* --- taking --------------------------------------------------------------- */

/* How many of the oldest mails a reply has: as many as fit, at least one. */
static size_t choose(const box *b, uint64_t max_bytes, uint64_t *bytes)
{
    size_t n = 0;

    *bytes = 0;
    for (size_t i = b->at; i < b->letters.len; i++, n++) {
        uint64_t more = LENGTH_BYTES + b->letters.data[i].len;

        if (n && (more > max_bytes || *bytes > max_bytes - more))
            break;
        *bytes += more;
    }
    return n;
}

static fl_status write_letters(const box *b, uint64_t max_bytes,
                               fl_store_reply *reply)
{
    uint64_t bytes;
    size_t n = choose(b, max_bytes, &bytes);
    uint8_t *to;

    if (!n)
        return FL_OK;
    to = reply->room(reply->arg, bytes);
    if (!to)
        FL_FAIL(FL_ERR_NOMEM,
                "the server has no memory for a reply of %" PRIu64 " bytes",
                bytes);
    for (size_t i = b->at; i < b->at + n; i++) {
        const letter *l = &b->letters.data[i];

        memcpy(to, &l->len, LENGTH_BYTES);
        to += LENGTH_BYTES;
        if (l->len)
            memcpy(to, l->bytes, (size_t)l->len);
        to += l->len;
    }
    return FL_OK;
}

static fl_status take(box *b, uint64_t generation, uint64_t seen,
                      uint64_t max_bytes, fl_store_reply *reply)
{
    FL_TRY(turn_to(b, generation));
    if (seen < b->first || seen - b->first > count(b))
        FL_FAIL(FL_ERR_INVAL,
                "a trainer has seen %" PRIu64 " mails, and those from %" PRIu64
                " to %" PRIu64 " are here",
                seen, b->first, b->first + count(b));
    drop(b, seen - b->first);
    return write_letters(b, max_bytes, reply);
}

fl_status fl_mail_take(fl_mail *m, uint32_t rank, const void *payload,
                       uint64_t len, uint64_t max_bytes, fl_store_reply *reply)
{
    fl_unpack u = unpack(payload, len);
    uint64_t generation = fl_unpack_u64(&u), seen = fl_unpack_u64(&u);
    fl_status st;
    box *b;

    if (u.bad || u.at != u.end)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (take) of %" PRIu64 " bytes does not parse", len);
    FL_ASSERT(rank < m->n);
    b = &m->boxes[rank];
    if (max_bytes > FL_MAIL_REPLY_BYTES)
        max_bytes = FL_MAIL_REPLY_BYTES;
    fl_lock(&b->mu);
    st = take(b, generation, seen, max_bytes, reply);
    fl_unlock(&b->mu);
    return st;
}

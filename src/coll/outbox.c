/* outbox.c - parts that leave: a queue per rank, and a window.
 *
 * A part is copied when it leaves, into a slot that lives until the link has
 * ended with it. So the memory of a call is free as soon as its last part has
 * left, also when the other side is lost and nobody knows when the link will
 * notice.
 */
#include <string.h>

#include "coll/builtin.h"

struct fl_coll_queued {
    fl_coll_queued *next;
    fl_run *run;
    fl_coll_part part;
};

struct fl_coll_slot {
    fl_coll_slot *next;
    fl_builtin *b;
    int to;
    uint32_t ring;
    uint8_t head[FL_COLL_HEAD_BYTES];
    fl_buf bytes;
};

/* --- slots ----------------------------------------------------------------- */

static fl_coll_slot *take_slot(fl_builtin *b)
{
    fl_coll_slot *s = b->spare;

    if (!s)
        return fl_alloc(sizeof(*s));
    b->spare = s->next;
    b->n_spare--;
    return s;
}

static void free_slot(fl_coll_slot *s)
{
    fl_buf_release(&s->bytes);
    fl_free(s);
}

static void give_slot(fl_builtin *b, fl_coll_slot *s)
{
    if (b->n_spare >= FL_COLL_SPARE) {
        free_slot(s);
        return;
    }
    s->next = b->spare;
    b->spare = s;
    b->n_spare++;
}

static void pump(fl_builtin *b, int to);

static void on_ended(void *arg, fl_status st)
{
    fl_coll_slot *s = arg;
    fl_builtin *b = s->b;
    bool is_last;
    int to = s->to;

    fl_lock(&b->mu);
    b->outboxes[to].n_under_way[s->ring]--;
    b->n_slots--;
    give_slot(b, s);
    is_last = b->is_freed && !b->n_slots;
    if (st && !b->err.status)
        fl_builtin_fail(b, fl_err_ctx(st, "worker %d", to));
    else if (!b->err.status)
        pump(b, to);
    fl_builtin_leave(b);
    if (is_last)
        fl_builtin_destroy(b);
}

/* What is said before the first call is nobody's. */
static void count_sent(fl_builtin *b, const fl_coll_part *p)
{
    if (p->at.ring == FL_COLL_RING_MEETING)
        return;
    fl_stat_add(&b->base.stats.parts, 1);
    fl_stat_add(&b->base.stats.sent, p->n);
}

static fl_status post(fl_builtin *b, int to, const fl_coll_part *p)
{
    fl_coll_slot *s = take_slot(b);
    fl_coll_out o = { .to = to,
                      .head = s->head,
                      .head_bytes = FL_COLL_HEAD_BYTES,
                      .n = p->n,
                      .ended = on_ended,
                      .arg = s };
    fl_status st = FL_OK;

    s->b = b;
    s->to = to;
    s->ring = p->at.ring;
    fl_coll_part_pack(p, s->head);
    o.bytes = p->n ? fl_buf_reserve(&s->bytes, p->n) : NULL;
    if (p->n && !o.bytes)
        st = fl_err_set(FL_ERR_NOMEM,
                        "worker %d has no memory for %zu bytes to be sent",
                        b->base.rank, p->n);
    else if (p->n)
        memcpy(s->bytes.data, p->bytes, p->n);
    if (!st)
        st = b->link.send(b->link.arg, &o);
    if (st) {
        give_slot(b, s);
        return fl_err_ctx(st, "worker %d", to);
    }
    b->n_slots++;
    b->outboxes[to].n_under_way[s->ring]++;
    count_sent(b, p);
    return FL_OK;
}

/* --- queues ---------------------------------------------------------------- */

static fl_coll_queued *take_queued(fl_coll_outbox *box, fl_coll_queued **at)
{
    fl_coll_queued *q = *at;

    *at = q->next;
    if (!q->next)
        box->end = at;
    q->run->n_queued--;
    return q;
}

/* The first whose ring has room in its window: rings do not wait for each
   other. */
static fl_coll_queued *take_next(fl_coll_outbox *box)
{
    for (fl_coll_queued **at = &box->first; *at; at = &(*at)->next)
        if (box->n_under_way[(*at)->part.at.ring] < FL_COLL_WINDOW)
            return take_queued(box, at);
    return NULL;
}

static void pump(fl_builtin *b, int to)
{
    fl_coll_queued *q;

    while ((q = take_next(&b->outboxes[to]))) {
        fl_status st = post(b, to, &q->part);

        fl_free(q);
        if (st) {
            fl_builtin_fail(b, st);
            return;
        }
    }
}

void fl_run_send(fl_run *r, int to, uint32_t step, uint64_t chunk,
                 fl_coll_span s, const void *from)
{
    int rank = r->group->ranks[to];
    fl_coll_outbox *box = &r->b->outboxes[rank];
    fl_coll_queued *q;

    if (r->b->err.status)
        return;
    q = fl_alloc(sizeof(*q));
    q->run = r;
    q->part = (fl_coll_part){
        .at = r->at,
        .sign = r->sign,
        .step = step,
        .chunk = chunk,
        .bytes = from ? (const uint8_t *)from + fl_run_bytes(r, s.lo) : NULL,
        .n = fl_run_bytes(r, s.hi - s.lo),
    };
    *box->end = q;
    box->end = &q->next;
    r->n_queued++;
    pump(r->b, rank);
}

void fl_coll_outbox_clear(fl_builtin *b)
{
    for (int i = 0; i < b->base.n_ranks; i++) {
        fl_coll_outbox *box = &b->outboxes[i];

        while (box->first)
            fl_free(take_queued(box, &box->first));
    }
}

/* The others fail with the same sentence; who is lost does not hear it. */
void fl_coll_outbox_abort(fl_builtin *b)
{
    fl_coll_part p = { .sign.kind = FL_COLL_KIND_FAILED,
                       .status = (uint32_t)b->err.status,
                       .bytes = b->err.text,
                       .n = strlen(b->err.text) };

    for (int i = 0; i < b->base.n_ranks; i++)
        if (i != b->base.rank)
            (void)post(b, i, &p);
}

void fl_coll_outbox_release(fl_builtin *b)
{
    while (b->spare) {
        fl_coll_slot *s = b->spare;

        b->spare = s->next;
        free_slot(s);
    }
    fl_free(b->outboxes);
}

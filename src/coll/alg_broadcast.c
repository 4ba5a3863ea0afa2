/* alg_broadcast.c - chunks go down a tree (tree.c), each as soon as it is
 * there. */
#include <string.h>

#include "coll/builtin.h"

static fl_coll_span all_of(const fl_run *r)
{
    return (fl_coll_span){ 0, r->call.n };
}

static void send_on(fl_run *r, const fl_coll_tree *t, size_t chunk)
{
    fl_coll_span c = fl_run_chunk(r, all_of(r), chunk);

    for (int i = t->n_children - 1; i >= 0; i--)
        fl_run_send(r, t->children[i], 0, chunk, c, r->call.out);
}

static fl_status start(fl_run *r)
{
    fl_coll_tree t = fl_coll_tree_of(r);
    size_t n = fl_run_chunks(r, all_of(r));

    if (t.parent >= 0) {
        r->n_left = n;
        return FL_OK;
    }
    if (n && r->call.in != r->call.out)
        memcpy(r->call.out, r->call.in, fl_run_bytes(r, r->call.n));
    for (size_t i = 0; i < n; i++)
        send_on(r, &t, i);
    return FL_OK;
}

static fl_status take(fl_run *r, const fl_coll_part *p, bool *is_early)
{
    fl_coll_tree t = fl_coll_tree_of(r);
    fl_coll_span c;

    (void)is_early;
    if (p->from != t.parent || p->step)
        return fl_run_unexpected(r, p);
    FL_TRY(fl_run_expect(r, p, all_of(r), &c));
    memcpy((uint8_t *)r->call.out + fl_run_bytes(r, c.lo), p->bytes, p->n);
    r->n_left--;
    send_on(r, &t, (size_t)p->chunk);
    return FL_OK;
}

static int awaits(const fl_run *r)
{
    return fl_coll_tree_of(r).parent;
}

const fl_coll_alg fl_coll_alg_broadcast = {
    .name = "broadcast",
    .start = start,
    .take = take,
    .awaits = awaits,
};

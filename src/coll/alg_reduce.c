/* alg_reduce.c - sums go up a tree (tree.c), chunk by chunk.
 *
 * A rank adds what its children bring to its own, in the order of the children,
 * and sends the chunk up when the last of them is in. One that comes before its
 * turn waits.
 */
#include <string.h>

#include "coll/builtin.h"

static fl_coll_span all_of(const fl_run *r)
{
    return (fl_coll_span){ 0, r->call.n };
}

/* How many children have brought each chunk, behind the sums. */
static uint8_t *seen_of(const fl_run *r)
{
    bool is_root = r->acc == r->call.out;

    return (uint8_t *)r->scratch.data +
           (is_root ? 0 : fl_run_bytes(r, r->call.n));
}

static fl_status start(fl_run *r)
{
    fl_coll_tree t = fl_coll_tree_of(r);
    size_t n = fl_run_chunks(r, all_of(r));
    size_t own = t.parent < 0 ? 0 : fl_run_bytes(r, r->call.n);

    if (!t.n_children) {
        fl_run_send_all(r, t.parent, 0, all_of(r), r->call.in);
        return FL_OK;
    }
    FL_TRY(fl_run_reserve(r, own + n));
    r->acc = t.parent < 0 ? r->call.out : r->scratch.data;
    if (n)
        memset(seen_of(r), 0, n);
    r->n_left = n * (size_t)t.n_children;
    return FL_OK;
}

static int find_child(const fl_coll_tree *t, int rank)
{
    for (int i = 0; i < t->n_children; i++)
        if (t->children[i] == rank)
            return i;
    return -1;
}

static fl_status take(fl_run *r, const fl_coll_part *p, bool *is_early)
{
    fl_coll_tree t = fl_coll_tree_of(r);
    int child = find_child(&t, p->from);
    uint8_t *seen, *to;
    fl_coll_span c;

    if (child < 0 || p->step)
        return fl_run_unexpected(r, p);
    FL_TRY(fl_run_expect(r, p, all_of(r), &c));
    seen = &seen_of(r)[p->chunk];
    if (*seen > child)
        return fl_run_unexpected(r, p);
    *is_early = *seen < child;
    if (*is_early)
        return FL_OK;
    to = r->acc + fl_run_bytes(r, c.lo);
    fl_coll_combine(&r->call, to, *seen ? to : fl_run_in(r, c.lo), p->bytes,
                    c.hi - c.lo);
    r->n_left--;
    if (++*seen == t.n_children && t.parent >= 0)
        fl_run_send(r, t.parent, 0, p->chunk, c, r->acc);
    return FL_OK;
}

/* The first child that has not brought all. */
static int awaits(const fl_run *r)
{
    fl_coll_tree t = fl_coll_tree_of(r);
    size_t n = fl_run_chunks(r, all_of(r));
    int first = t.n_children;

    for (size_t i = 0; t.n_children && i < n; i++)
        if (seen_of(r)[i] < first)
            first = seen_of(r)[i];
    return first < t.n_children ? t.children[first] : -1;
}

const fl_coll_alg fl_coll_alg_reduce = {
    .name = "reduce",
    .start = start,
    .take = take,
    .awaits = awaits,
};

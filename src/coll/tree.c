/* tree.c - who is above and below whom, seen from the root.
 *
 * Small messages go down a binomial tree: the parent of place v is v without its
 * lowest bit. What travels in many chunks goes along a chain, where every rank
 * sends each byte once.
 */
#include "coll/builtin.h"

/* Fewer chunks than this do not fill a chain. */
#define CHAIN_CHUNKS 4

static bool is_chain(const fl_run *r)
{
    return fl_run_chunks(r, (fl_coll_span){ 0, r->call.n }) >= CHAIN_CHUNKS;
}

static int rank_of(const fl_run *r, int place)
{
    return fl_run_rank_at(r, r->call.root, place);
}

static fl_coll_tree chain_of(const fl_run *r, int place)
{
    fl_coll_tree t = { .parent = place ? rank_of(r, place - 1) : -1 };

    if (place + 1 < fl_run_ranks(r))
        t.children[t.n_children++] = rank_of(r, place + 1);
    return t;
}

fl_coll_tree fl_coll_tree_of(const fl_run *r)
{
    int place = fl_run_rank_at(r, fl_run_me(r), -r->call.root);
    fl_coll_tree t = { .parent = -1 };

    if (is_chain(r))
        return chain_of(r, place);
    if (place)
        t.parent = rank_of(r, place & (place - 1));
    for (int bit = 1; !(place & bit) && place + bit < fl_run_ranks(r); bit *= 2)
        t.children[t.n_children++] = rank_of(r, place + bit);
    return t;
}

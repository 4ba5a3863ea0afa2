/* gate.c - threads that come to rest together. */
#include "base/gate.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/thread.h"

struct fl_gate {
    int n_threads;
    void (*at_rest)(void *arg);
    void *arg;
    atomic_bool is_closed; /* changes under mu */
    fl_mutex mu;           /* guards all below */
    fl_cond opened;
    uint64_t round;
    int n_waiting, n_left;
    bool has_failed;
};

fl_gate *fl_gate_new(int n_threads, void (*at_rest)(void *arg), void *arg)
{
    fl_gate *g = fl_alloc(sizeof(*g));

    g->n_threads = n_threads;
    g->at_rest = at_rest;
    g->arg = arg;
    atomic_init(&g->is_closed, false);
    fl_mutex_init(&g->mu);
    fl_cond_init(&g->opened);
    return g;
}

void fl_gate_free(fl_gate *g)
{
    if (!g)
        return;
    fl_cond_release(&g->opened);
    fl_mutex_release(&g->mu);
    fl_free(g);
}

/* Under the mutex, which is held meanwhile: all who could want it wait. */
static void look(fl_gate *g)
{
    bool are_all = g->n_waiting + g->n_left == g->n_threads;

    if (!g->n_waiting || (!are_all && !g->has_failed))
        return;
    if (!g->has_failed)
        g->at_rest(g->arg);
    atomic_store(&g->is_closed, false);
    g->round++;
    fl_cond_wake_all(&g->opened);
}

void fl_gate_enter(fl_gate *g)
{
    uint64_t round;

    if (!atomic_load(&g->is_closed))
        return;
    fl_lock(&g->mu);
    round = g->round;
    if (atomic_load(&g->is_closed)) {
        g->n_waiting++;
        look(g);
        while (g->round == round)
            fl_cond_wait(&g->opened, &g->mu);
        g->n_waiting--;
    }
    fl_unlock(&g->mu);
}

void fl_gate_leave(fl_gate *g, bool has_failed)
{
    fl_lock(&g->mu);
    g->has_failed = g->has_failed || has_failed;
    g->n_left++;
    look(g);
    fl_unlock(&g->mu);
}

void fl_gate_ask(fl_gate *g)
{
    fl_lock(&g->mu);
    if (!g->has_failed)
        atomic_store(&g->is_closed, true);
    fl_unlock(&g->mu);
}

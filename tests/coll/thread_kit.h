/* thread_kit.h - ranks in threads, on machines of any name, and a way between
 * them in threads of its own. */
#ifndef FL_TESTS_COLL_THREAD_KIT_H
#define FL_TESTS_COLL_THREAD_KIT_H

#include "coll_kit.h"

#include "base/thread.h"

#define WORLD_RANKS 6

typedef struct world world;

/* What is on its way to a rank. */
typedef struct post {
    struct post *next;
    fl_coll_out o;
    int from;
} post;

typedef struct member {
    world *w;
    int rank;
    fl_coll *c;
    fl_thread *postman, *worker;
    fl_mutex mu;
    fl_cond more;
    post *first, **end; /* guarded by mu */
    bool is_over;       /* guarded by mu */
    fl_status st;
    uint64_t hash;
    char text[FL_ERR_TEXT_MAX];
} member;

struct world {
    const char *machines; /* a letter per rank; a space: shares nothing */
    fl_status (*work)(member *m);
    int n;
    member m[WORLD_RANKS];
};

/* --- the way ------------------------------------------------------------------ */

static inline fl_status world_send(void *arg, const fl_coll_out *o)
{
    member *from = arg, *to = &from->w->m[o->to];
    post *p = fl_alloc(sizeof(*p));

    p->o = *o;
    p->from = from->rank;
    fl_lock(&to->mu);
    *to->end = p;
    to->end = &p->next;
    fl_cond_wake_all(&to->more);
    fl_unlock(&to->mu);
    return FL_OK;
}

static inline void world_receipt(void *arg, fl_status st)
{
    post *p = arg;

    (void)st;
    p->o.ended(p->o.arg, FL_OK);
    fl_free(p);
}

static inline void world_bring(member *m, post *p)
{
    size_t n = p->o.head_bytes + p->o.n;
    uint8_t *bytes = fl_try_alloc(n);

    memcpy(bytes, p->o.head, p->o.head_bytes);
    if (p->o.n)
        memcpy(bytes + p->o.head_bytes, p->o.bytes, p->o.n);
    fl_coll_on_part(m->c, p->from, bytes, n,
                    (fl_coll_receipt){ world_receipt, p });
    fl_data_free(bytes, n);
}

static inline void world_deliver(void *arg)
{
    member *m = arg;

    fl_lock(&m->mu);
    while (m->first || !m->is_over) {
        post *p = m->first;

        if (!p) {
            fl_cond_wait(&m->more, &m->mu);
            continue;
        }
        m->first = p->next;
        if (!p->next)
            m->end = &m->first;
        fl_unlock(&m->mu);
        world_bring(m, p);
        fl_lock(&m->mu);
    }
    fl_unlock(&m->mu);
}

/* --- life --------------------------------------------------------------------- */

static inline void world_work(void *arg)
{
    member *m = arg;

    m->st = m->w->work(m);
    if (m->st)
        (void)snprintf(m->text, sizeof(m->text), "%s", fl_last_error());
}

static inline void world_open(world *w)
{
    w->n = (int)strlen(w->machines);
    for (int r = 0; r < w->n; r++) {
        member *m = &w->m[r];
        char machine[2] = { w->machines[r] == ' ' ? '\0' : w->machines[r] };
        fl_coll_options o = { .rank = r,
                              .n_ranks = w->n,
                              .machine = machine,
                              .link = { world_send, m } };

        *m = (member){ .w = w, .rank = r };
        m->end = &m->first;
        fl_mutex_init(&m->mu);
        fl_cond_init(&m->more);
        assert_ok(fl_coll_new(&m->c, &o));
    }
    for (int r = 0; r < w->n; r++)
        assert_ok(
            fl_thread_start(&w->m[r].postman, "post", world_deliver, &w->m[r]));
}

static inline void world_close(world *w)
{
    for (int r = 0; r < w->n; r++) {
        fl_lock(&w->m[r].mu);
        w->m[r].is_over = true;
        fl_cond_wake_all(&w->m[r].more);
        fl_unlock(&w->m[r].mu);
    }
    for (int r = 0; r < w->n; r++)
        fl_thread_join(w->m[r].postman);
    for (int r = 0; r < w->n; r++) {
        fl_coll_free(w->m[r].c);
        fl_cond_release(&w->m[r].more);
        fl_mutex_release(&w->m[r].mu);
    }
}

/* Every rank works in a thread of its own; engines are still there. */
static inline void world_go(world *w)
{
    world_open(w);
    for (int r = 0; r < w->n; r++)
        assert_ok(
            fl_thread_start(&w->m[r].worker, "work", world_work, &w->m[r]));
    for (int r = 0; r < w->n; r++)
        fl_thread_join(w->m[r].worker);
}

static inline void world_expect_good(world *w)
{
    for (int r = 0; r < w->n; r++)
        if (w->m[r].st)
            fail_msg("rank %d of '%s': %s", r, w->machines, w->m[r].text);
}

#endif

/* queues_kit.h - bounded queues with a sender that the test holds in its
 * hands. */
#ifndef FL_TESTS_MODE_QUEUES_KIT_H
#define FL_TESTS_MODE_QUEUES_KIT_H

#include "wait_kit.h"

#include "base/alloc.h"
#include "base/vec.h"
#include "mode/queues.h"

#define N_QUEUES 3
#define FOR_EVER (UINT64_C(3600) * 1000000000)

typedef struct item {
    fl_queue_entry entry;
    int who, number;
    fl_comm_answer answer;
} item;

/* What was worked on, one after the other. */
typedef struct sent {
    size_t queue, n;
    int who[8], number[8];
    const void *thread;
} sent;

/* Its address tells threads apart. */
static _Thread_local char this_thread;

typedef struct shop {
    fl_queues *q;
    _Atomic uint64_t wait_ns;
    fl_mutex mu;
    fl_cond cond;
    FL_VEC(sent) log;              /* guarded by mu */
    atomic_bool is_slow[N_QUEUES]; /* not done before the test says so */
    bool is_broken[N_QUEUES];      /* every work fails */
    size_t n_dropped;              /* guarded by mu */
    size_t n_at_pause;             /* worked on by then; guarded by mu */
} shop;

static inline void record(shop *s, size_t queue, fl_queue_entry *list, size_t n)
{
    sent e = { .queue = queue, .n = n, .thread = &this_thread };
    size_t i = 0;

    for (; list; list = list->next, i++) {
        e.who[i] = ((item *)list)->who;
        e.number[i] = ((item *)list)->number;
    }
    FL_ASSERT(i == n);
    fl_lock(&s->mu);
    fl_vec_push(&s->log, e);
    fl_cond_wake_all(&s->cond);
    fl_unlock(&s->mu);
}

static inline void work(void *arg, size_t queue, fl_queue_entry *list, size_t n)
{
    shop *s = arg;
    bool is_slow = s->is_slow[queue];

    record(s, queue, list, n);
    if (s->is_broken[queue])
        fl_queues_done(s->q, queue, n, fl_err_set(FL_ERR_IO, "the van broke"));
    else if (!is_slow)
        fl_queues_done(s->q, queue, n, FL_OK);
}

static inline void pause_work(void *arg)
{
    shop *s = arg;

    fl_lock(&s->mu);
    s->n_at_pause = s->log.len;
    fl_cond_wake_all(&s->cond);
    fl_unlock(&s->mu);
}

static inline void drop(void *arg, size_t queue, fl_queue_entry *list)
{
    shop *s = arg;

    (void)queue;
    fl_lock(&s->mu);
    for (; list; list = list->next)
        s->n_dropped++;
    fl_unlock(&s->mu);
}

static inline void shop_open(shop *s, fl_queues_config o)
{
    *s = (shop){ 0 };
    fl_mutex_init(&s->mu);
    fl_cond_init(&s->cond);
    o.n_queues = N_QUEUES;
    if (!o.enough)
        o.enough = o.max_take;
    if (!o.max_under_way)
        o.max_under_way = 1;
    o.wait_ns = &s->wait_ns;
    o.arg = s;
    o.work = work;
    o.pause = pause_work;
    o.drop = drop;
    s->q = fl_queues_new(&o);
}

static inline void shop_free(shop *s)
{
    fl_queues_free(s->q);
    fl_vec_release(&s->log);
    fl_cond_release(&s->cond);
    fl_mutex_release(&s->mu);
}

/* Until so many were worked on. */
static inline void wait_for_sent(shop *s, size_t n)
{
    uint64_t deadline = fl_now_ns() + KIT_HANGS_NS;
    bool is_sent;

    fl_lock(&s->mu);
    while (s->log.len < n && fl_cond_wait_until(&s->cond, &s->mu, deadline))
        ;
    is_sent = s->log.len >= n;
    fl_unlock(&s->mu);
    assert_true(is_sent);
}

static inline size_t n_sent(shop *s)
{
    size_t n;

    fl_lock(&s->mu);
    n = s->log.len;
    fl_unlock(&s->mu);
    return n;
}

static inline fl_status put(shop *s, size_t queue, item *it, sleeper *sl)
{
    fl_comm_begin(&it->answer, &sl->port);
    return fl_queues_put(s->q, queue, &it->entry, &it->answer);
}

static inline bool is_answered(const item *it)
{
    return fl_comm_result(&it->answer) != FL_PENDING;
}

#endif

/* tell.c - counters of a server, again and again until it ends. */
#include "ps/server/tell.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/thread.h"

#define PERIOD_NS UINT64_C(1000000000)

struct fl_server_tell {
    fl_record *record;
    fl_store *store;
    fl_thread *thread;
    fl_mutex mu;
    fl_cond wake;
    bool is_over; /* guarded by mu */
};

static void tell(fl_server_tell *t)
{
    char *json = fl_store_stats_json(t->store);

    fl_record_add_server(t->record, json);
    fl_free(json);
}

static void work(void *arg)
{
    fl_server_tell *t = arg;
    uint64_t next_ns = fl_now_ns() + PERIOD_NS;

    fl_lock(&t->mu);
    while (!t->is_over) {
        if (fl_cond_wait_until(&t->wake, &t->mu, next_ns))
            continue;
        fl_unlock(&t->mu);
        tell(t);
        fl_lock(&t->mu);
        next_ns += PERIOD_NS;
    }
    fl_unlock(&t->mu);
}

fl_status fl_server_tell_start(fl_server_tell **out, const fl_conf *conf,
                               int rank, fl_store *store)
{
    char who[32];
    fl_record *record;
    fl_server_tell *t;
    fl_status st;

    snprintf(who, sizeof(who), "server-%d", rank);
    FL_TRY(fl_record_open(
        &record,
        &(fl_record_start){ .conf = conf, .who = who, .has_no_curves = true }));
    *out = NULL;
    if (!record)
        return FL_OK;
    t = fl_alloc(sizeof(*t));
    t->record = record;
    t->store = store;
    fl_mutex_init(&t->mu);
    fl_cond_init(&t->wake);
    st = fl_thread_start(&t->thread, "fl-record", work, t);
    if (st) {
        fl_server_tell_stop(t);
        return st;
    }
    *out = t;
    return FL_OK;
}

void fl_server_tell_stop(fl_server_tell *t)
{
    if (!t)
        return;
    fl_lock(&t->mu);
    t->is_over = true;
    fl_cond_wake_all(&t->wake);
    fl_unlock(&t->mu);
    fl_thread_join(t->thread);
    tell(t);
    fl_record_close(t->record);
    fl_cond_release(&t->wake);
    fl_mutex_release(&t->mu);
    fl_free(t);
}

/* watch.c - newer versions of a model take the place of older ones.
 *
 * A version is opened and checked in full beside the one that is in use, and put
 * in its place only then. What cannot be taken is remembered, told once and not
 * tried again. When CURRENT names yet another version meanwhile, the one that
 * could not be opened may just have been removed: the newer one is tried.
 */
#include "serve/model.h"

#include <string.h>

#include "base/log.h"

/* Versions that come and go while one is being opened. */
#define TRIES 4

#define NS_PER_MS 1000000u

static void put_in_place(fl_model *m, fl_edition *e)
{
    fl_edition *old;

    fl_lock(&m->mu);
    old = m->edition;
    m->edition = e;
    m->n_versions++;
    atomic_fetch_add(&m->generation, 1);
    fl_unlock(&m->mu);
    FL_INFO("serve", "model %s version=%s instead_of=%s", m->options.path,
            e->id, old->id);
    fl_edition_unref(old);
}

static fl_status open_next(fl_model *m, fl_edition **out)
{
    fl_edition *e;
    fl_status st;

    /* Editions are put in place under `refreshing` alone. */
    FL_TRY(fl_edition_open(&e, &m->options, m->edition));
    st = fl_recipe_check_same(e->recipe, m->first);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        fl_edition_unref(e);
        return fl_err_restore(&why);
    }
    *out = e;
    return FL_OK;
}

static fl_status refuse(fl_model *m, fl_status st)
{
    st = fl_err_ctx(st, "model %s: version %s is not taken, %s stays",
                    m->options.path, m->seen, m->edition->id);
    fl_lock(&m->mu);
    m->n_refused++;
    fl_unlock(&m->mu);
    FL_WARN("serve", "%s", fl_last_error());
    return st;
}

/* The directory cannot be looked at; told when it begins to be so. */
static fl_status is_blind(fl_model *m, fl_status st)
{
    st = fl_err_ctx(st, "model %s: no look for newer versions, %s stays",
                    m->options.path, m->edition->id);
    if (!m->is_blind)
        FL_WARN("serve", "%s", fl_last_error());
    m->is_blind = true;
    return st;
}

/* Under refreshing. Whether a version was tried is in *is_new. */
static fl_status look(fl_model *m, bool *is_new)
{
    char id[FL_EDITION_ID_MAX];
    fl_edition *e = NULL;

    *is_new = false;
    FL_TRY(fl_edition_newest(m->options.path, id));
    m->is_blind = false;
    *is_new = strcmp(id, m->seen) != 0;
    if (!*is_new)
        return FL_OK;
    memcpy(m->seen, id, sizeof(m->seen));
    FL_TRY(open_next(m, &e));
    FL_ASSERT(e);
    memcpy(m->seen, e->id, sizeof(m->seen));
    put_in_place(m, e);
    return FL_OK;
}

/* Under refreshing. */
static fl_status look_again(fl_model *m)
{
    bool is_new = false;
    fl_status st = look(m, &is_new);
    fl_err why = { 0 };

    if (st && !is_new)
        return is_blind(m, st);
    for (int i = 1; st && is_new && i < TRIES; i++) {
        fl_err_save(&why, st);
        st = look(m, &is_new);
    }
    /* Nothing newer came: the reason before is the one that counts. */
    if (!is_new && why.status)
        st = fl_err_restore(&why);
    return st ? refuse(m, st) : FL_OK;
}

fl_status fl_model_refresh(fl_model *m)
{
    fl_status st;

    fl_lock(&m->refreshing);
    st = look_again(m);
    fl_unlock(&m->refreshing);
    return st;
}

/* --- the thread ----------------------------------------------------------- */

/* False when the model is being closed. */
static bool wait_a_while(fl_model *m)
{
    uint64_t until = fl_now_ns() + m->watch_ms * NS_PER_MS;
    bool goes_on;

    fl_lock(&m->mu);
    while (!m->is_closing && fl_cond_wait_until(&m->changed, &m->mu, until))
        ;
    goes_on = !m->is_closing;
    fl_unlock(&m->mu);
    return goes_on;
}

static void watch(void *arg)
{
    fl_model *m = arg;

    while (wait_a_while(m)) {
        fl_lock(&m->refreshing);
        (void)look_again(m); /* what went wrong was told, and counted */
        fl_unlock(&m->refreshing);
    }
}

fl_status fl_model_start_watcher(fl_model *m)
{
    return fl_thread_start(&m->watcher, "fl-watch", watch, m);
}

void fl_model_stop_watcher(fl_model *m)
{
    fl_lock(&m->mu);
    m->is_closing = true;
    fl_cond_wake_all(&m->changed);
    fl_unlock(&m->mu);
    fl_thread_join(m->watcher);
    m->watcher = NULL;
}

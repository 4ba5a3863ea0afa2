/* mode_local.c - training in one process.
 *
 * Tables stand in a list that only grows: a new entry is complete before it
 * becomes the head, and no entry changes or goes away before the backend. So a
 * request finds its table without a lock, and a model has few enough tables to
 * walk over them. `mu` is for those who add: one at a time.
 */
#include "mode/mode_local.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "mode/mode.h"
#include "mode/part_merger.h"

typedef struct local_table {
    fl_table *table; /* has the name */
    char *settings;  /* as given */
    uint64_t seed;
    fl_part_merger *parts; /* pushes that replicas make in parts */
    const struct local_table *next;
} local_table;

typedef struct local_comm {
    fl_comm port;
    bool is_shared;
    fl_mutex mu; /* held while adding to the list */
    _Atomic(const local_table *) first;
} local_comm;

static const local_table *look_up(const local_comm *lc, const char *name)
{
    const local_table *e = atomic_load(&lc->first);

    while (e && strcmp(fl_table_name(e->table), name))
        e = e->next;
    return e;
}

/* --- tables -------------------------------------------------------------- */

/* Under mu. */
static fl_status add_table(local_comm *lc, const char *name,
                           const char *settings, uint64_t seed, fl_table **out)
{
    fl_table_config config;
    local_table *e;
    fl_table *t;

    FL_TRY(fl_table_config_parse(&config, name, settings, seed));
    config.keeps_known = lc->is_shared;
    FL_TRY(fl_table_create(&t, &config));
    e = fl_alloc(sizeof(*e));
    *e = (local_table){ .table = t,
                        .settings = fl_strdup(settings),
                        .seed = seed,
                        .parts = fl_part_merger_new(),
                        .next = atomic_load(&lc->first) };
    atomic_store(&lc->first, e);
    *out = t;
    return FL_OK;
}

/* A startup program that runs again starts training anew. */
static fl_status declare_again(const local_table *e, const char *settings,
                               uint64_t seed)
{
    const char *name = fl_table_name(e->table);

    if (strcmp(e->settings, settings))
        FL_FAIL(FL_ERR_INVAL,
                "table %s exists with the settings '%s' and cannot become one "
                "with '%s'",
                name, e->settings, settings);
    if (e->seed != seed)
        FL_FAIL(FL_ERR_INVAL,
                "table %s exists with the seed %llu and cannot become one with "
                "%llu",
                name, (unsigned long long)e->seed, (unsigned long long)seed);
    fl_table_clear(e->table);
    return FL_OK;
}

static fl_status local_declare(fl_comm *c, const char *table,
                               const char *settings, uint64_t seed)
{
    local_comm *lc = (local_comm *)c;
    const local_table *e;
    fl_status st;
    fl_table *t;

    fl_lock(&lc->mu);
    e = look_up(lc, table);
    st = e ? declare_again(e, settings, seed)
           : add_table(lc, table, settings, seed, &t);
    fl_unlock(&lc->mu);
    return st;
}

fl_status fl_mode_local_make(fl_comm *c, const char *name, const char *settings,
                             uint64_t seed, fl_table **out)
{
    local_comm *lc = (local_comm *)c;
    fl_status st;

    fl_lock(&lc->mu);
    st = look_up(lc, name)
             ? fl_err_set(FL_ERR_EXISTS, "table %s exists already", name)
             : add_table(lc, name, settings, seed, out);
    fl_unlock(&lc->mu);
    return st;
}

static fl_status get_entry(fl_comm *c, const char *name,
                           const local_table **out)
{
    *out = look_up((local_comm *)c, name);
    if (!*out)
        FL_FAIL(FL_ERR_NOTFOUND,
                "there is no table %s; run the startup program first", name);
    return FL_OK;
}

fl_status fl_mode_local_find(fl_comm *c, const char *name, fl_table **out)
{
    const local_table *e;

    FL_TRY(get_entry(c, name, &e));
    *out = e->table;
    return FL_OK;
}

/* --- requests ------------------------------------------------------------ */

static fl_status entry_for(fl_comm *c, const fl_comm_request *r,
                           const local_table **out)
{
    FL_TRY(get_entry(c, r->table, out));
    if (fl_table_dim((*out)->table) != r->rows.dim)
        FL_FAIL(FL_ERR_INVAL, "table %s has rows of %u, not of %u", r->table,
                fl_table_dim((*out)->table), r->rows.dim);
    return FL_OK;
}

static fl_status local_pull(fl_comm *c, fl_comm_request *r)
{
    const local_table *e;

    FL_TRY(entry_for(c, r, &e));
    return fl_table_pull(e->table, r->rows.keys, r->rows.n,
                         r->create ? FL_PULL_CREATE : FL_PULL_ONLY, r->out);
}

static fl_status local_push(fl_comm *c, fl_comm_request *r)
{
    const local_table *e;

    FL_TRY(entry_for(c, r, &e));
    if (r->update)
        FL_TRY(fl_table_set_update(e->table, r->update));
    if (r->worker.n_parts > 1)
        return fl_part_merger_push(e->parts, e->table, r);
    return fl_table_push(e->table, &r->rows);
}

static void local_free(fl_comm *c)
{
    local_comm *lc = (local_comm *)c;
    const local_table *next;

    for (const local_table *e = atomic_load(&lc->first); e; e = next) {
        next = e->next;
        fl_table_destroy(e->table);
        fl_free(e->settings);
        fl_part_merger_free(e->parts);
        fl_free((void *)(uintptr_t)e);
    }
    fl_mutex_release(&lc->mu);
    fl_free(lc);
}

static const fl_comm_data data = { .pull = local_pull, .push = local_push };
static const fl_comm_life life = { .declare = local_declare,
                                   .free = local_free };

fl_comm *fl_mode_local_new(void)
{
    local_comm *lc = fl_alloc(sizeof(*lc));

    lc->port = (fl_comm){
        .name = "local", .data = &data, .life = &life, .is_synchronous = true
    };
    fl_mutex_init(&lc->mu);
    atomic_init(&lc->first, NULL);
    return &lc->port;
}

fl_comm *fl_mode_local_new_shared(void)
{
    fl_comm *c = fl_mode_local_new();

    ((local_comm *)c)->is_shared = true;
    return c;
}

static fl_comm *local_open(fl_cluster *none)
{
    FL_ASSERT(!none);
    return fl_mode_local_new();
}

const fl_mode fl_mode_local = {
    .name = "local",
    .doc = "one process trains, with tables of its own",
    .open = local_open,
};

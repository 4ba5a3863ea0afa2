/* table_load.c - the files of a table into a live one, by threads that take
 * virtual shards each. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "ckpt/table_columns.h"
#include "ckpt/table_file.h"
#include "table/inside.h"

/* Rows that are handed to the table at a time. */
#define STEP 4096

typedef struct load {
    fl_table *t;
    const fl_model_version *v;
    const fl_manifest_table *from;
    const fl_table_load_options *wanted;
    const fl_row_layout *layout;
    fl_row_file *files;
    size_t n_files;
    bool same_rule;
    atomic_size_t next; /* tensor to be verified */
    atomic_bool failed;
} load;

/* --- does it fit ---------------------------------------------------------- */

static const fl_manifest_field *find_saved(const fl_manifest_table *from,
                                           const char *name)
{
    for (size_t i = 0; i < from->n_fields; i++)
        if (!strcmp(from->fields[i].name, name))
            return &from->fields[i];
    return NULL;
}

static const fl_row_field *find_live(const fl_row_layout *l, const char *name)
{
    for (int i = 0; i < l->n_fields; i++)
        if (!strcmp(l->fields[i].name, name))
            return &l->fields[i];
    return NULL;
}

static fl_status check_field(const load *x, const fl_row_field *f)
{
    const fl_manifest_field *saved = find_saved(x->from, f->name);
    const char *name = fl_table_name(x->t);

    if (!saved && f->role == FL_FIELD_VALUE)
        FL_FAIL(FL_ERR_INVAL,
                "table %s has rows with %s, which the saved ones of %s, made "
                "with accessor %s, do not have",
                name, f->name, x->v->path, x->from->accessor);
    if (!saved && !x->wanted->other_state)
        FL_FAIL(FL_ERR_INVAL,
                "table %s keeps %s, which %s does not have; ask for another "
                "optimizer to let it begin anew",
                name, f->name, x->v->path);
    if (saved && saved->len != f->len && !x->wanted->other_dim)
        FL_FAIL(FL_ERR_INVAL,
                "table %s has %u numbers in %s, %s has %u; ask for another dim "
                "to have them cut or filled up",
                name, f->len, f->name, x->v->path, saved->len);
    return FL_OK;
}

/* State of another rule is of no use, whatever its name. */
static fl_status check_rule(load *x)
{
    const char *rule = fl_table_acc(x->t)->rule->name;
    fl_table_config saved;

    FL_TRY(fl_table_config_parse(&saved, x->from->name, x->from->settings,
                                 x->from->seed));
    x->same_rule = !strcmp(saved.rule ? saved.rule : "sgd", rule);
    if (!x->same_rule && !x->wanted->other_state)
        FL_FAIL(FL_ERR_INVAL,
                "table %s is updated by %s, that of %s by %s; ask for another "
                "optimizer to let its state begin anew",
                fl_table_name(x->t), rule, x->v->path,
                saved.rule ? saved.rule : "sgd");
    return FL_OK;
}

static fl_status check_fit(const load *x)
{
    for (int i = 0; i < x->layout->n_fields; i++)
        FL_TRY(check_field(x, &x->layout->fields[i]));
    for (size_t i = 0; i < x->from->n_fields; i++)
        if (!find_live(x->layout, x->from->fields[i].name) &&
            !x->wanted->other_state)
            FL_FAIL(FL_ERR_INVAL,
                    "%s has %s of each row of table %s, which has no place for "
                    "it; ask for another optimizer to leave it out",
                    x->v->path, x->from->fields[i].name, fl_table_name(x->t));
    return FL_OK;
}

/* The accessor has to be the same: a field of one name is another thing in
   another accessor. */
static fl_status begin(load *x, const char *name)
{
    const fl_table_config *config = fl_table_acc(x->t)->config;

    FL_TRY(fl_version_table(x->v, name, &x->from));
    x->layout = &fl_table_acc(x->t)->layout;
    if (strcmp(x->from->accessor, config->accessor) != 0)
        FL_FAIL(FL_ERR_INVAL, "table %s has accessor %s, %s has %s",
                fl_table_name(x->t), config->accessor, x->v->path,
                x->from->accessor);
    FL_TRY(check_rule(x));
    return check_fit(x);
}

/* --- files ---------------------------------------------------------------- */

static bool is_wanted(const load *x, uint32_t first, uint32_t last)
{
    return first <= x->wanted->last && last >= x->wanted->first;
}

static fl_status open_files(load *x)
{
    x->files = fl_alloc(sizeof(*x->files) * (x->from->n_files + 1));
    for (size_t i = 0; i < x->from->n_files; i++) {
        const fl_manifest_shards *s = &x->from->files[i];

        if (!is_wanted(x, s->first, s->last))
            continue;
        FL_TRY(fl_row_file_open(&x->files[x->n_files], x->v, s, x->layout));
        x->n_files++;
    }
    return FL_OK;
}

static void close_files(load *x)
{
    for (size_t i = 0; i < x->n_files; i++)
        fl_row_file_close(&x->files[i]);
    fl_free(x->files);
}

static fl_row_file *file_of(const load *x, uint32_t shard)
{
    for (size_t i = 0; i < x->n_files; i++)
        if (shard >= x->files[i].first && shard <= x->files[i].last)
            return &x->files[i];
    return NULL;
}

static fl_status check_cover(const load *x)
{
    for (uint32_t s = x->wanted->first; s <= x->wanted->last; s++)
        if (!file_of(x, s))
            FL_FAIL(FL_ERR_CORRUPT, "%s has no file for shard %u of table %s",
                    x->v->path, s, x->from->name);
    return FL_OK;
}

/* --- rows ----------------------------------------------------------------- */

/* Rows [lo, hi) of a group, all of one shard. */
typedef struct part {
    const fl_row_file *f;
    fl_cut_kind kind;
    uint32_t shard;
    uint64_t lo, hi;
} part;

static fl_status check_rows(const load *x, const part *p)
{
    const fl_row_group *g = &p->f->groups[p->kind];

    for (uint64_t i = p->lo; i < p->hi; i++) {
        if (fl_shard_of(g->keys[i]) != p->shard)
            FL_FAIL(FL_ERR_CORRUPT, "%s: key %" PRIu64 " is no key of shard %u",
                    fl_st_path(p->f->file), g->keys[i], p->shard);
        if (g->epochs && g->epochs[i] > x->from->epoch)
            FL_FAIL(FL_ERR_CORRUPT,
                    "%s: key %" PRIu64 " has epoch %u, after the save's %u",
                    fl_st_path(p->f->file), g->keys[i], g->epochs[i],
                    x->from->epoch);
    }
    return FL_OK;
}

static bool is_of_use(const load *x, fl_cut_kind kind, int field)
{
    return x->same_rule || kind == FL_CUT_CANDIDATE ||
           x->layout->fields[field].role != FL_FIELD_STATE;
}

static fl_status restore_part(const load *x, const part *p)
{
    const fl_row_group *g = &p->f->groups[p->kind];
    fl_restore_rows r = { .kind = p->kind,
                          .n = (size_t)(p->hi - p->lo),
                          .keys = g->keys + p->lo,
                          .epochs = g->epochs ? g->epochs + p->lo : NULL };

    FL_TRY(check_rows(x, p));
    for (int i = 0; i < FL_ROW_FIELDS_MAX; i++)
        if (g->fields[i] && is_of_use(x, p->kind, i))
            r.columns[i] =
                (fl_restore_column){ g->fields[i] + p->lo * g->lens[i],
                                     g->lens[i] };
    if (p->kind == FL_CUT_GONE)
        fl_table_remove(x->t, r.keys, r.n, NULL);
    else
        FL_TRY(fl_table_restore_rows(x->t, &r));
    return FL_OK;
}

/* What went goes first: it may have come again in another form. */
static fl_status load_shard(const load *x, uint32_t shard)
{
    static const fl_cut_kind order[] = { FL_CUT_GONE, FL_CUT_FULL, FL_CUT_SHORT,
                                         FL_CUT_CANDIDATE };
    const fl_row_file *f = file_of(x, shard);

    for (size_t i = 0; i < FL_LEN(order); i++) {
        const fl_row_group *g = &f->groups[order[i]];
        part p = { .f = f, .kind = order[i], .shard = shard };
        uint64_t end;

        if (!g->keys)
            continue;
        end = g->shards[shard - f->first + 1];
        for (p.lo = g->shards[shard - f->first]; p.lo < end; p.lo = p.hi) {
            p.hi = end - p.lo < STEP ? end : p.lo + STEP;
            FL_TRY(restore_part(x, &p));
        }
    }
    return FL_OK;
}

/* --- sums ----------------------------------------------------------------- */

/* Number i of all tensors of the wanted files; NULL: there are fewer. */
static const fl_st_tensor *tensor_at(const load *x, size_t i,
                                     const fl_st_file **f)
{
    for (size_t k = 0; k < x->n_files; k++) {
        const fl_st_tensor *t;

        *f = x->files[k].file;
        for (size_t n = 0; (t = fl_st_at(*f, n)); n++)
            if (i-- == 0)
                return t;
    }
    return NULL;
}

/* --- threads -------------------------------------------------------------- */

/* What a thread does; shards are its own, so that partitions are not shared. */
typedef struct worker {
    load *x;
    fl_status (*work)(const struct worker *w);
    uint32_t first, last;
    fl_err err;
} worker;

/* Takes tensors as long as there are some. */
static fl_status verify_tensors(const worker *w)
{
    const fl_st_tensor *t;
    const fl_st_file *f;

    while (!atomic_load(&w->x->failed) &&
           (t = tensor_at(w->x, atomic_fetch_add(&w->x->next, 1), &f)))
        FL_TRY(fl_st_verify(f, t, t->xxh3));
    return FL_OK;
}

static fl_status load_shards(const worker *w)
{
    for (uint32_t s = w->first; s <= w->last && !atomic_load(&w->x->failed);
         s++)
        FL_TRY(load_shard(w->x, s));
    return FL_OK;
}

static void run_worker(void *arg)
{
    worker *w = arg;
    fl_status st = w->work(w);

    if (st)
        atomic_store(&w->x->failed, true);
    fl_err_save(&w->err, st);
}

/* The last one is this thread's own, as is any that gets no thread. */
static fl_status run_workers(load *x, fl_status (*work)(const worker *w))
{
    uint32_t n_shards = x->wanted->last - x->wanted->first + 1;
    uint32_t n = x->wanted->n_threads > 1 ? (uint32_t)x->wanted->n_threads : 1;
    fl_status st = FL_OK;
    fl_thread **threads;
    worker *workers;

    n = n < n_shards ? n : n_shards;
    threads = fl_alloc(sizeof(*threads) * n);
    workers = fl_alloc(sizeof(*workers) * n);
    for (uint32_t i = 0; i < n; i++) {
        worker *w = &workers[i];

        w->x = x;
        w->work = work;
        w->first = x->wanted->first + i * n_shards / n;
        w->last = x->wanted->first + (i + 1) * n_shards / n - 1;
        if (i + 1 == n || fl_thread_start(&threads[i], "load", run_worker, w))
            run_worker(w);
    }
    for (uint32_t i = 0; i < n; i++) {
        fl_thread_join(threads[i]);
        if (!st)
            st = fl_err_restore(&workers[i].err);
    }
    fl_free(threads);
    fl_free(workers);
    return st;
}

/* --- all of it ------------------------------------------------------------ */

static fl_status reserve(const load *x)
{
    uint64_t n = 0;

    for (uint32_t s = x->wanted->first; s <= x->wanted->last; s++) {
        const fl_row_file *f = file_of(x, s);

        for (int k = FL_CUT_FULL; k <= FL_CUT_SHORT; k++)
            if (f->groups[k].keys)
                n += f->groups[k].shards[s - f->first + 1] -
                     f->groups[k].shards[s - f->first];
    }
    return fl_table_reserve(x->t, x->wanted->first, x->wanted->last, n);
}

/* State that begins anew has no use for the scalars of another rule. */
static fl_status restore_moment(const load *x)
{
    const fl_manifest_table *from = x->from;
    fl_cut_moment m = { .epoch = from->epoch,
                        .days = from->days,
                        .n_days = from->n_days,
                        .scalars = from->scalars,
                        .n_scalars = x->same_rule ? (int)from->n_scalars : 0 };

    return fl_table_restore_moment(x->t, &m);
}

static fl_status load_all(load *x)
{
    FL_TRY(open_files(x));
    FL_TRY(check_cover(x));
    if (!x->wanted->is_verified)
        FL_TRY(run_workers(x, verify_tensors));
    FL_TRY(reserve(x));
    FL_TRY(run_workers(x, load_shards));
    return restore_moment(x);
}

fl_status fl_table_file_check(const fl_table *t, const fl_model_version *v,
                              const char *name,
                              const fl_table_load_options *wanted)
{
    load x = { .t = (fl_table *)(uintptr_t)t, .v = v, .wanted = wanted };

    return begin(&x, name);
}

fl_status fl_table_file_load(fl_table *t, const fl_model_version *v,
                             const char *name,
                             const fl_table_load_options *wanted)
{
    load x = { .t = t, .v = v, .wanted = wanted };
    fl_status st = begin(&x, name);

    if (!st)
        st = load_all(&x);
    close_files(&x);
    return fl_err_ctx(st, "loading table %s", fl_table_name(t));
}

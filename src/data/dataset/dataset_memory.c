/* dataset_memory.c - loading, shuffling and passes of an InMemoryDataset.
 *
 * A pass needs no thread: a counter deals out the order in ranges of a batch
 * each, and every consumer gathers its own. One that goes on in the midst has
 * gaps before the last range, when batches of some threads were not trained.
 *
 * Records are in the order of their files, whatever threads have read them.
 * Before the first shuffle after a load they are sorted; from then on the order
 * depends on the records, the seed and the calls alone.
 */
#include "base/hash.h"
#include "base/interrupt.h"
#include "data/dataset/dataset_inside.h"

struct fl_memory_pass {
    const fl_dataset *dataset;
    uint64_t len, step;
    atomic_uint_fast64_t next; /* batch: first the gaps, then from `first` on */
    FL_VEC(fl_range) gaps;     /* a batch at most each */
    uint64_t first;
    fl_columns *columns; /* by consumer */
    int n_consumers;
};

struct fl_preload {
    fl_loaded *into;
    fl_reading *reading;
    fl_thread *thread;
    atomic_bool is_interrupted;
    fl_err err; /* how it ended */
};

/* --- what is loaded ------------------------------------------------------ */

static fl_loaded *new_loaded(const fl_schema *s)
{
    fl_loaded *l = fl_alloc(sizeof(*l));

    /* The parser has checked them already. */
    FL_ASSERT(!fl_schema_init(&l->schema, s->slots, s->n_slots));
    l->memory = fl_memory_new(&l->schema);
    return l;
}

void fl_loaded_free(fl_loaded *l)
{
    if (!l)
        return;
    fl_memory_free(l->memory);
    fl_schema_release(&l->schema);
    fl_free(l);
}

static void replace_loaded(fl_dataset *d, fl_loaded *l)
{
    fl_loaded_free(d->loaded);
    d->loaded = l;
    d->is_canonical = false;
    d->n_shuffled = 0;
}

/* --- loading ------------------------------------------------------------- */

static fl_status check_in_memory(const fl_dataset *d, const char *what)
{
    if (!d->in_memory)
        FL_FAIL(FL_ERR_INVAL,
                "fl_dataset_%s is for an InMemoryDataset; this is a "
                "QueueDataset",
                what);
    return FL_OK;
}

static fl_status add_rows(void *arg, int worker, fl_row_run from,
                          fl_records *rows)
{
    (void)worker;
    return fl_memory_add_run(arg, &from, rows);
}

static void free_preload(fl_preload *p)
{
    fl_reading_free(p->reading);
    fl_loaded_free(p->into);
    fl_free(p);
}

static fl_status start_loading(fl_dataset *d, int n_threads, fl_preload **out)
{
    fl_reading_args a = { .n_threads = n_threads, .take = add_rows };
    fl_preload *p;
    fl_status st;

    FL_TRY(fl_dataset_open_input(d, "load_into_memory", n_threads));
    p = fl_alloc(sizeof(*p));
    p->into = new_loaded(&d->input->parser->schema);
    a.arg = p->into->memory;
    st = fl_reading_start(&p->reading, d, &a);
    if (st) {
        free_preload(p);
        return st;
    }
    *out = p;
    return FL_OK;
}

static void wait_for_end(void *arg)
{
    fl_preload *p = arg;

    fl_err_save(&p->err, fl_reading_wait(p->reading));
}

static void interrupt(void *arg)
{
    fl_preload *p = arg;

    atomic_store(&p->is_interrupted, true);
    fl_reading_stop(p->reading);
}

/* Until all is read, or somebody interrupts it. */
static void wait_here(fl_preload *p)
{
    fl_interruptible me = { .kind = FL_INTERRUPT_SOON,
                            .stop = interrupt,
                            .arg = p };

    fl_interruptible_enter(&me);
    if (p->thread)
        fl_thread_join(p->thread);
    else
        wait_for_end(p);
    fl_interruptible_leave(&me);
}

/* The records become the dataset's if they all came. */
static fl_status finish_loading(fl_dataset *d, fl_preload *p)
{
    fl_status st = fl_err_restore(&p->err);

    d->stats = fl_reading_stats(p->reading);
    if (!st && atomic_load(&p->is_interrupted))
        st = fl_interrupted("loading data into memory");
    if (!st)
        st = fl_memory_settle(p->into->memory);
    if (!st) {
        replace_loaded(d, p->into);
        p->into = NULL;
    }
    free_preload(p);
    return st;
}

fl_status fl_dataset_load_into_memory(fl_dataset *d)
{
    fl_preload *p = NULL;

    FL_TRY(check_in_memory(d, "load_into_memory"));
    FL_TRY(fl_dataset_check_idle(d, "load_into_memory"));
    FL_TRY(start_loading(d, d->n_threads, &p));
    wait_here(p);
    return finish_loading(d, p);
}

fl_status fl_dataset_preload_into_memory(fl_dataset *d, int n_threads)
{
    fl_preload *p = NULL;
    fl_status st;

    FL_TRY(check_in_memory(d, "preload_into_memory"));
    FL_TRY(fl_dataset_check_idle(d, "preload_into_memory"));
    FL_TRY(start_loading(d, n_threads ? n_threads : d->n_threads, &p));
    st = fl_thread_start(&p->thread, "data-load", wait_for_end, p);
    if (st) {
        fl_err err;

        fl_err_save(&err, st);
        fl_preload_cancel(p);
        return fl_err_restore(&err);
    }
    d->preload = p;
    return FL_OK;
}

fl_status fl_dataset_wait_preload_done(fl_dataset *d)
{
    fl_preload *p = d->preload;

    FL_TRY(check_in_memory(d, "wait_preload_done"));
    if (!p)
        FL_FAIL(FL_ERR_INVAL, "fl_dataset_wait_preload_done: nothing is being "
                              "preloaded; call fl_dataset_preload_into_memory "
                              "first");
    wait_here(p);
    d->preload = NULL;
    return finish_loading(d, p);
}

void fl_preload_cancel(fl_preload *p)
{
    if (!p)
        return;
    fl_reading_stop(p->reading);
    wait_here(p);
    free_preload(p);
}

void fl_dataset_release_memory(fl_dataset *d)
{
    fl_dataset_end(d);
    fl_preload_cancel(d->preload);
    d->preload = NULL;
    replace_loaded(d, NULL);
}

uint64_t fl_dataset_get_memory_data_size(const fl_dataset *d)
{
    return d->loaded ? fl_memory_len(d->loaded->memory) : 0;
}

uint64_t fl_dataset_get_shuffle_data_size(const fl_dataset *d)
{
    return d->n_shuffled;
}

uint64_t fl_dataset_memory_bytes(const fl_dataset *d)
{
    return d->loaded ? fl_memory_bytes(d->loaded->memory) : 0;
}

/* --- shuffling ----------------------------------------------------------- */

fl_status fl_dataset_check_loaded(const fl_dataset *d, const char *what)
{
    FL_TRY(check_in_memory(d, what));
    FL_TRY(fl_dataset_check_idle(d, what));
    if (!d->loaded)
        FL_FAIL(FL_ERR_INVAL,
                "fl_dataset_%s: nothing is loaded; call "
                "fl_dataset_load_into_memory first",
                what);
    return FL_OK;
}

fl_status fl_dataset_make_canonical(fl_dataset *d)
{
    if (!d->is_canonical)
        FL_TRY(fl_memory_sort(d->loaded->memory));
    d->is_canonical = true;
    return FL_OK;
}

/* A seed for each shuffle. */
static uint64_t next_seed(fl_dataset *d)
{
    return fl_mix64(d->input->seed) + fl_mix64(++d->n_shuffles);
}

void fl_dataset_shuffle_loaded(fl_dataset *d, uint64_t seed)
{
    fl_memory_shuffle(d->loaded->memory, seed);
    d->n_shuffled = fl_memory_len(d->loaded->memory);
}

static fl_status shuffle(fl_dataset *d, const char *what)
{
    FL_TRY(fl_dataset_check_loaded(d, what));
    FL_TRY(fl_dataset_make_canonical(d));
    fl_dataset_shuffle_loaded(d, next_seed(d));
    return FL_OK;
}

fl_status fl_dataset_local_shuffle(fl_dataset *d)
{
    return shuffle(d, "local_shuffle");
}

fl_status fl_dataset_global_shuffle(fl_dataset *d, int n_threads)
{
    if (n_threads < 0)
        FL_FAIL(FL_ERR_INVAL, "fl_dataset_global_shuffle: %d threads",
                n_threads);
    return shuffle(d, "global_shuffle");
}

static fl_status check_slot_names(const fl_dataset *d, const char *const *slots,
                                  size_t n_slots)
{
    for (size_t i = 0; i < n_slots; i++)
        if (fl_schema_find(&d->loaded->schema, slots[i]) < 0)
            FL_FAIL(FL_ERR_NOTFOUND,
                    "fl_dataset_slots_shuffle: no slot is called %s", slots[i]);
    return FL_OK;
}

fl_status fl_dataset_slots_shuffle(fl_dataset *d, const char *const *slots,
                                   size_t n_slots)
{
    FL_TRY(fl_dataset_check_loaded(d, "slots_shuffle"));
    FL_TRY(check_slot_names(d, slots, n_slots));
    FL_TRY(fl_dataset_make_canonical(d));
    for (size_t i = 0; i < n_slots; i++) {
        int slot = fl_schema_find(&d->loaded->schema, slots[i]);

        FL_TRY(fl_memory_shuffle_slot(d->loaded->memory, (uint32_t)slot,
                                      next_seed(d)));
    }
    d->n_shuffled = fl_memory_len(d->loaded->memory);
    return FL_OK;
}

/* --- a pass -------------------------------------------------------------- */

/* What was not trained before the last record that was, in batches. */
static void list_gaps(fl_memory_pass *w, const fl_ranges *trained)
{
    for (size_t i = 0; i < trained->len; i++) {
        const fl_range *r = &trained->data[i];

        for (uint64_t lo = w->first; lo < r->lo; lo += w->step)
            fl_vec_push(&w->gaps,
                        ((fl_range){
                            lo, r->lo - lo < w->step ? r->lo : lo + w->step }));
        w->first = r->hi;
    }
}

static fl_trained *track(const fl_memory_pass *w, const fl_ranges *before)
{
    fl_trained *t = fl_trained_new(1);

    fl_trained_block(t, 0, 0, w->len);
    fl_trained_end(t, 0);
    for (size_t i = 0; before && i < before->len; i++) {
        const fl_range *r = &before->data[i];
        fl_row_run run = { .at = r->lo, .n = r->hi - r->lo };

        fl_trained_add(t, &(fl_row_runs){ &run, 1, 1 });
    }
    return t;
}

fl_status fl_memory_pass_begin(fl_dataset *d, int n_consumers,
                               const fl_position *from)
{
    fl_memory_pass *w;

    FL_TRY(fl_dataset_check_loaded(d, "begin"));
    FL_TRY(fl_position_check_memory(d, from));
    w = fl_alloc(sizeof(*w));
    w->dataset = d;
    w->len = fl_memory_len(d->loaded->memory);
    /* Not more than there are, so that the counter cannot wrap. */
    w->step = d->batch_size < w->len ? d->batch_size : w->len;
    w->n_consumers = n_consumers;
    w->columns = fl_alloc((size_t)n_consumers * sizeof(*w->columns));
    for (int i = 0; i < n_consumers; i++)
        fl_columns_init(&w->columns[i], &d->loaded->schema);
    if (from)
        list_gaps(w, &from->trained);
    d->trained = track(w, from ? &from->trained : NULL);
    d->walk = w;
    return FL_OK;
}

void fl_memory_pass_end(fl_memory_pass *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->n_consumers; i++)
        fl_columns_release(&w->columns[i]);
    fl_free(w->columns);
    fl_vec_release(&w->gaps);
    fl_free(w);
}

const fl_columns *fl_memory_pass_held(const fl_memory_pass *w, int consumer)
{
    return &w->columns[consumer];
}

/* The places of a batch; empty at the end. */
static fl_range batch_at(const fl_memory_pass *w, uint64_t i)
{
    uint64_t lo, left;

    if (i < w->gaps.len)
        return w->gaps.data[i];
    i -= w->gaps.len;
    left = w->len - w->first;
    if (!w->step || i >= (left + w->step - 1) / w->step)
        return (fl_range){ w->len, w->len };
    lo = w->first + i * w->step;
    return (fl_range){ lo, w->len - lo < w->step ? w->len : lo + w->step };
}

fl_status fl_memory_pass_next(fl_memory_pass *w, int consumer, fl_columns **out,
                              uint64_t *waited_ns)
{
    fl_range r = batch_at(w, atomic_fetch_add(&w->next, 1));
    fl_columns *c = &w->columns[consumer];
    uint64_t since = fl_now_ns();

    c->runs.len = 0;
    if (r.lo == r.hi) {
        *out = NULL;
        return FL_OK;
    }
    FL_TRY(fl_memory_batch(w->dataset->loaded->memory, r.lo, r.hi, c));
    fl_row_runs_add(&c->runs, (fl_row_run){ .at = r.lo, .n = r.hi - r.lo });
    fl_input_shape_feeds(w->dataset->input, c);
    *waited_ns += fl_now_ns() - since;
    *out = c;
    return FL_OK;
}

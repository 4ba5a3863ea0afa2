/* round_work.c - the tasks of a round, and who is at them.
 *
 *     piece    an item that a member sent, with the member's weight
 *     target   a table or a block with its pieces, side by side
 *     task     a part of a table, or a block
 *     desk     memory that a thread needs for its tasks
 *
 * A table goes one step on when the first of its tasks has its sum, so that a
 * round without memory for sums has changed nothing.
 */
#include "ps/store/round_work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/merge.h"
#include "kernel/vec.h"

typedef struct piece {
    uint32_t number; /* of its table or block */
    float weight;
    size_t order;
    const fl_round_rows *rows;
    const fl_block_item *block;
} piece;

typedef FL_VEC(piece) pieces;

typedef struct target {
    fl_table *table; /* NULL: a block */
    fl_dense *dense;
    const piece *pieces;
    size_t n;
    bool has_step; /* guarded by the owner's lock */
    fl_hyper step;
} target;

typedef struct task {
    size_t target;
    uint32_t part;
} task;

typedef struct desk {
    fl_merger merger;
    FL_VEC(fl_rows) batches;
    fl_buf sum;
} desk;

struct fl_round_work {
    fl_mutex *mu; /* the owner's, guards everything but what a task reads */
    fl_cond idle; /* nobody is at a task */
    uint64_t round;
    pieces rows, blocks;
    FL_VEC(target) targets;
    FL_VEC(task) tasks;
    size_t n_taken;
    atomic_uint n_busy; /* threads at a task */
    bool is_touched;
    fl_err err;
    FL_VEC(desk *) desks; /* that nobody sits at */
};

/* --- life ----------------------------------------------------------------- */

fl_round_work *fl_round_work_new(fl_mutex *owners)
{
    fl_round_work *w = fl_alloc(sizeof(*w));

    w->mu = owners;
    fl_cond_init(&w->idle);
    return w;
}

static void desk_free(desk *d)
{
    fl_merger_release(&d->merger);
    fl_vec_release(&d->batches);
    fl_buf_release(&d->sum);
    fl_free(d);
}

void fl_round_work_free(fl_round_work *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->desks.len; i++)
        desk_free(w->desks.data[i]);
    fl_vec_release(&w->desks);
    fl_vec_release(&w->rows);
    fl_vec_release(&w->blocks);
    fl_vec_release(&w->targets);
    fl_vec_release(&w->tasks);
    fl_cond_release(&w->idle);
    fl_free(w);
}

/* --- pieces --------------------------------------------------------------- */

void fl_round_work_clear(fl_round_work *w, uint64_t round)
{
    w->round = round;
    w->rows.len = w->blocks.len = 0;
    w->targets.len = w->tasks.len = 0;
    w->n_taken = 0;
    w->is_touched = false;
    w->err.status = FL_OK;
}

void fl_round_work_add_rows(fl_round_work *w, const fl_round_rows *rows,
                            float weight)
{
    fl_vec_push(&w->rows, ((piece){ .number = rows->table,
                                    .weight = weight,
                                    .order = w->rows.len,
                                    .rows = rows }));
}

void fl_round_work_add_block(fl_round_work *w, const fl_block_item *block,
                             float weight)
{
    fl_vec_push(&w->blocks, ((piece){ .number = block->block,
                                      .weight = weight,
                                      .order = w->blocks.len,
                                      .block = block }));
}

static int compare(const void *a, const void *b)
{
    const piece *x = a, *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort(pieces *p)
{
    if (p->len)
        qsort(p->data, p->len, sizeof(*p->data), compare);
}

/* How many pieces from this one on are for the same. */
static size_t count_like(const pieces *p, size_t from)
{
    size_t to = from;

    while (to < p->len && p->data[to].number == p->data[from].number)
        to++;
    return to - from;
}

/* --- tasks ---------------------------------------------------------------- */

/* Neighbours in this order are far apart in the table. */
static void add_parts(fl_round_work *w, size_t table)
{
    for (uint32_t i = 0; i < FL_ROUND_PARTS / 2; i++) {
        fl_vec_push(&w->tasks, ((task){ table, i }));
        fl_vec_push(&w->tasks, ((task){ table, i + FL_ROUND_PARTS / 2 }));
    }
}

static void add_tables(fl_round_work *w, const fl_store_ctx *c)
{
    size_t n;

    for (size_t i = 0; i < w->rows.len; i += n) {
        const piece *p = &w->rows.data[i];
        fl_store_table *t = &c->schema->tables.data[p->number];

        n = count_like(&w->rows, i);
        (void)fl_store_commit(c->call, &t->log);
        add_parts(w, w->targets.len);
        fl_vec_push(&w->targets,
                    ((target){ .table = t->table, .pieces = p, .n = n }));
    }
}

static void add_blocks(fl_round_work *w, const fl_store_ctx *c)
{
    size_t n;

    for (size_t i = 0; i < w->blocks.len; i += n) {
        const piece *p = &w->blocks.data[i];
        fl_store_block *b = &c->schema->blocks.data[p->number];

        n = count_like(&w->blocks, i);
        (void)fl_store_commit(c->call, &b->log);
        fl_vec_push(&w->tasks, ((task){ .target = w->targets.len }));
        fl_vec_push(&w->targets,
                    ((target){ .dense = b->dense, .pieces = p, .n = n }));
    }
}

void fl_round_work_begin(fl_round_work *w, const fl_store_ctx *c)
{
    sort(&w->rows);
    sort(&w->blocks);
    add_tables(w, c);
    add_blocks(w, c);
}

/* --- at a task, without the lock ------------------------------------------ */

/* The rate is that of the first member. */
static void begin_push(fl_round_work *w, target *t)
{
    fl_lock_soon(w->mu);
    if (!t->has_step)
        fl_table_begin_push(t->table, t->pieces->rows->parts->lr, &t->step);
    t->has_step = true;
    w->is_touched = true;
    fl_unlock(w->mu);
}

static fl_status apply_part(fl_round_work *w, target *t, uint32_t part, desk *d)
{
    fl_rows merged;

    d->batches.len = 0;
    d->merger.values_only = !fl_table_heeds_counts(t->table);
    for (size_t i = 0; i < t->n; i++) {
        fl_rows rows = t->pieces[i].rows->parts[part];

        rows.scale = t->pieces[i].weight;
        fl_vec_push(&d->batches, rows);
    }
    FL_TRY(fl_merge_rows(&d->merger, d->batches.data, t->n, &merged));
    begin_push(w, t);
    return fl_table_push_part(t->table, &merged, &t->step);
}

static fl_status apply_block(fl_round_work *w, const target *t, desk *d)
{
    size_t n = (size_t)fl_dense_len(t->dense);
    float *grad = fl_buf_zeros(&d->sum, n * sizeof(float));

    if (!grad)
        FL_FAIL(FL_ERR_NOMEM,
                "no memory for the gradients of round %" PRIu64
                " (%zu numbers)",
                w->round, n);
    for (size_t i = 0; i < t->n; i++)
        fl_vec_f32()->axpy(grad, t->pieces[i].weight,
                           t->pieces[i].block->values, n);
    fl_lock_soon(w->mu);
    w->is_touched = true;
    fl_unlock(w->mu);
    return fl_dense_push(t->dense, FL_CODEC_F32, grad, w->round);
}

/* --- who is at them ------------------------------------------------------- */

static desk *take_desk(fl_round_work *w)
{
    if (!w->desks.len)
        return fl_alloc(sizeof(desk));
    return w->desks.data[--w->desks.len];
}

static void do_task(fl_round_work *w, const task *what, desk *d)
{
    target *t = &w->targets.data[what->target];
    fl_status st;

    atomic_fetch_add(&w->n_busy, 1);
    fl_unlock(w->mu);
    st = t->table ? apply_part(w, t, what->part, d) : apply_block(w, t, d);
    fl_lock_soon(w->mu);
    if (st && !w->err.status)
        fl_err_save(&w->err, st);
    if (atomic_fetch_sub(&w->n_busy, 1) == 1)
        fl_cond_wake_all(&w->idle);
}

void fl_round_work_do(fl_round_work *w)
{
    desk *d = take_desk(w);

    while (w->n_taken < w->tasks.len && !w->err.status)
        do_task(w, &w->tasks.data[w->n_taken++], d);
    fl_vec_push(&w->desks, d);
}

fl_status fl_round_work_end(fl_round_work *w, bool *is_touched)
{
    fl_wait_for_zero(&w->idle, w->mu, &w->n_busy);
    *is_touched = w->is_touched;
    return w->err.status ? fl_err_restore(&w->err) : FL_OK;
}

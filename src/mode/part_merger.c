/* gather.c - the parts of one push, until the last of them has come.
 *
 * Pushes stand in a list, those that have parts before those that have none. A
 * part goes to the first push that lacks it: parts make their pushes in one
 * order, so the first of the list is complete first. It then goes to the end,
 * to be used again with its memory.
 */
#include "mode/part_merger.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "base/vec.h"
#include "kernel/merge.h"

/* One part, in memory of its own. */
typedef struct part {
    bool is_here;
    fl_rows rows;
    fl_buf memory;
} part;

typedef struct joint {
    uint64_t step;
    part *parts;
    fl_rows *batches; /* for the merge */
    int n_parts, n_here;
} joint;

struct fl_part_merger {
    fl_mutex mu;
    FL_VEC(joint *) joints; /* guarded by mu */
    fl_merger merger;       /* guarded by mu */
};

fl_part_merger *fl_part_merger_new(void)
{
    fl_part_merger *g = fl_alloc(sizeof(*g));

    fl_mutex_init(&g->mu);
    return g;
}

/* --- pushes that are under way ------------------------------------------- */

static void joint_release(joint *j)
{
    for (int i = 0; i < j->n_parts; i++)
        fl_buf_release(&j->parts[i].memory);
    fl_free(j->parts);
    fl_free(j->batches);
    *j = (joint){ 0 };
}

static void joint_clear(joint *j)
{
    for (int i = 0; i < j->n_parts; i++)
        j->parts[i].is_here = false;
    j->n_here = 0;
}

static void joint_begin(joint *j, const fl_comm_request *r)
{
    size_t n = (size_t)r->worker.n_parts;

    if (j->n_parts != r->worker.n_parts) {
        joint_release(j);
        j->parts = fl_alloc(n * sizeof(*j->parts));
        j->batches = fl_alloc(n * sizeof(*j->batches));
        j->n_parts = r->worker.n_parts;
    }
    j->step = r->step;
}

/* A step that failed half-way leaves parts behind. */
static void drop_others(fl_part_merger *g, const fl_comm_request *r)
{
    for (size_t i = 0; i < g->joints.len; i++) {
        joint *j = g->joints.data[i];

        if (j->step != r->step || j->n_parts != r->worker.n_parts)
            joint_clear(j);
    }
}

static size_t find_joint(fl_part_merger *g, const fl_comm_request *r)
{
    size_t i = 0;

    drop_others(g, r);
    while (i < g->joints.len && g->joints.data[i]->n_here &&
           g->joints.data[i]->parts[r->worker.part].is_here)
        i++;
    if (i == g->joints.len)
        fl_vec_push(&g->joints, fl_alloc(sizeof(joint)));
    if (!g->joints.data[i]->n_here)
        joint_begin(g->joints.data[i], r);
    return i;
}

static void move_to_end(fl_part_merger *g, size_t i)
{
    joint *j = g->joints.data[i];

    joint_clear(j);
    for (; i + 1 < g->joints.len; i++)
        g->joints.data[i] = g->joints.data[i + 1];
    g->joints.data[i] = j;
}

/* --- one part ------------------------------------------------------------ */

static fl_status part_keep(part *p, const fl_comm_request *r)
{
    size_t bytes;

    FL_TRY(fl_err_ctx(fl_rows_bytes(&r->rows, &bytes), "table %s", r->table));
    if (!fl_buf_reserve(&p->memory, bytes))
        FL_FAIL(FL_ERR_NOMEM,
                "table %s: no memory for %zu bytes of gradients of a replica",
                r->table, bytes);
    p->rows = fl_rows_copy(&r->rows, p->memory.data);
    p->is_here = true;
    return FL_OK;
}

/* --- pushing ------------------------------------------------------------- */

static fl_status push_all(fl_part_merger *g, const joint *j, fl_table *t,
                          const fl_comm_request *r)
{
    fl_rows merged;

    for (int i = 0; i < j->n_parts; i++)
        j->batches[i] = i == r->worker.part ? r->rows : j->parts[i].rows;
    FL_TRY(fl_merge_rows(&g->merger, j->batches, (size_t)j->n_parts, &merged));
    merged.lr = r->rows.lr;
    return fl_table_push(t, &merged);
}

fl_status fl_part_merger_push(fl_part_merger *g, fl_table *t,
                              const fl_comm_request *r)
{
    fl_status st;
    size_t at;
    joint *j;

    fl_lock(&g->mu);
    at = find_joint(g, r);
    j = g->joints.data[at];
    if (j->n_here + 1 < j->n_parts) {
        st = part_keep(&j->parts[r->worker.part], r);
        j->n_here += !st;
    } else {
        st = push_all(g, j, t, r);
        move_to_end(g, at);
    }
    fl_unlock(&g->mu);
    return st;
}

void fl_part_merger_free(fl_part_merger *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->joints.len; i++) {
        joint_release(g->joints.data[i]);
        fl_free(g->joints.data[i]);
    }
    fl_vec_release(&g->joints);
    fl_merger_release(&g->merger);
    fl_mutex_release(&g->mu);
    fl_free(g);
}

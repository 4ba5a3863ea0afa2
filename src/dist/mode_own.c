/* mode_own.c - modes that users define.
 *
 * Their functions may wait, so an operator has its answer when the call
 * returns. What the definition leaves out is done here, with the servers.
 */
#include "dist/mode_own.h"

#include "base/alloc.h"
#include "kernel/merge.h"

/* The passes of async: gradients are sent, nothing is waited for. */
#define PASSES                                                                 \
    "canon_decay canon_clip canon_lr canon_power dist_sparse dist_pull "       \
    "dist_place "                                                              \
    "dist_server dist_send dist_startup"

/* The caller's descriptor may have been shorter than ours, so it is kept. */
typedef struct own_mode {
    fl_mode mode; /* the first member */
    fl_mode_def def;
} own_mode;

/* The backend. */
typedef struct own_comm {
    fl_cluster_port port; /* the first member */
    const fl_mode_def *def;
    fl_job *job;
    void *mode;
} own_comm;

/* --- what a mode can ask for ---------------------------------------------- */

/* Begins one request; the latch is its argument. */
typedef struct job_call {
    fl_job *job;
    const char *table;
    const fl_rows *rows;
    fl_pull_kind kind;
    float *out;
    const fl_param_values *values;
    size_t n;
    fl_latch latch;
} job_call;

typedef fl_status (*begin_fn)(job_call *a);

static fl_status ask(job_call *a, begin_fn begin)
{
    fl_status st;

    FL_TRY(fl_cluster_ready(a->job->cluster));
    fl_latch_init(&a->latch,
                  fl_client_poller(fl_cluster_client(a->job->cluster)));
    fl_latch_add(&a->latch);
    st = begin(a);
    if (!st)
        st = fl_latch_wait(&a->latch);
    fl_latch_release(&a->latch);
    return st;
}

static fl_status begin_pull(job_call *a)
{
    const fl_rows *r = a->rows;
    fl_job_pull_item item = {
        .keys = r->keys, .n = r->n, .kind = a->kind, .out = a->out
    };

    FL_TRY(fl_cluster_table(a->job->cluster, a->table, r->dim, &item.table));
    return fl_client_pull(fl_cluster_client(a->job->cluster), &item, &r->dim, 1,
                          (fl_ending){ fl_latch_done, &a->latch });
}

fl_status fl_mode_pull(fl_job *j, const char *table, const fl_rows *rows,
                       fl_pull_kind kind, float *out)
{
    job_call a = {
        .job = j, .table = table, .rows = rows, .kind = kind, .out = out
    };

    return ask(&a, begin_pull);
}

static fl_status begin_push(job_call *a)
{
    fl_job_push_item item = { .rows = *a->rows };

    FL_TRY(fl_cluster_table(a->job->cluster, a->table, item.rows.dim,
                            &item.table));
    return fl_client_push(fl_cluster_client(a->job->cluster), &item,
                          &item.rows.dim, 1,
                          (fl_ending){ fl_latch_done, &a->latch });
}

fl_status fl_mode_push(fl_job *j, const char *table, const fl_rows *rows)
{
    fl_merger m = { 0 };
    fl_rows scaled;
    job_call a = { .job = j, .table = table, .rows = &scaled };
    fl_status st = fl_merge_rows(&m, rows, 1, &scaled);

    if (!st)
        st = ask(&a, begin_push);
    fl_merger_release(&m);
    return fl_err_ctx(st, "table %s", table);
}

static fl_status list_blocks(const job_call *a, fl_cluster_blocks *b)
{
    for (size_t i = 0; i < a->n; i++) {
        const fl_param_values *v = &a->values[i];
        const fl_dist_param *p;

        FL_TRY(fl_cluster_param(a->job->cluster, v->param, v->n, &p));
        fl_cluster_blocks_add(b, a->job->cluster, p, v->data);
    }
    return FL_OK;
}

static fl_status begin_send(job_call *a)
{
    fl_cluster_blocks b = { 0 };
    fl_status st = list_blocks(a, &b);

    if (!st)
        st = fl_client_send_blocks(
            fl_cluster_client(a->job->cluster), FL_MSG_PUSH_DENSE,
            b.blocks.data, (const float *const *)b.data.data, b.blocks.len,
            (fl_ending){ fl_latch_done, &a->latch });
    fl_cluster_blocks_release(&b);
    return st;
}

fl_status fl_mode_send(fl_job *j, const fl_param_values *v)
{
    job_call a = { .job = j, .values = v, .n = 1 };

    return ask(&a, begin_send);
}

static fl_status begin_recv(job_call *a)
{
    fl_cluster_blocks b = { 0 };
    fl_status st = list_blocks(a, &b);

    if (!st)
        st = fl_client_pull_blocks(fl_cluster_client(a->job->cluster),
                                   b.blocks.data, b.data.data, b.blocks.len,
                                   (fl_ending){ fl_latch_done, &a->latch });
    fl_cluster_blocks_release(&b);
    return st;
}

fl_status fl_mode_recv(fl_job *j, const fl_param_values *v, size_t n)
{
    job_call a = { .job = j, .values = v, .n = n };

    return ask(&a, begin_recv);
}

fl_status fl_mode_recv_all(fl_job *j)
{
    const fl_dist *d = fl_cluster_dist(j->cluster);
    FL_VEC(fl_param_values) all = { 0 };
    fl_status st;

    for (size_t i = 0; i < d->params.len; i++) {
        const fl_dist_param *p = &d->params.data[i];
        fl_tensor t;

        if (fl_scope_find(fl_cluster_scope(j->cluster), p->name, &t))
            fl_vec_push(&all, ((fl_param_values){ p->name, t.data, p->n }));
    }
    st = fl_mode_recv(j, all.data, all.len);
    fl_vec_release(&all);
    return st;
}

fl_status fl_mode_barrier(fl_job *j, const char *name, uint64_t generation)
{
    return fl_cluster_barrier(j->cluster, name, generation);
}

/* --- the port ------------------------------------------------------------- */

/* Waiting is a matter of the library's own backends. */
static fl_status answer(const own_comm *j, fl_status st)
{
    if (st == FL_PENDING)
        FL_FAIL(FL_ERR_INVAL,
                "a function of mode %s gave the status %d, which is none",
                j->def->name, (int)st);
    return st;
}

static fl_status own_pull(fl_comm *c, fl_comm_request *r)
{
    own_comm *j = (own_comm *)c;
    fl_pull_kind kind = r->create ? FL_PULL_CREATE : FL_PULL_ONLY;

    return j->def->pull
               ? answer(j,
                        j->def->pull(j->mode, r->table, &r->rows, kind, r->out))
               : fl_mode_pull(j->job, r->table, &r->rows, kind, r->out);
}

static fl_status own_push(fl_comm *c, fl_comm_request *r)
{
    own_comm *j = (own_comm *)c;
    fl_cluster_stats *counts = fl_cluster_stats_of(j->port.cluster);

    fl_stat_add(&counts->gradients_made, r->worker.part == 0);
    FL_TRY(j->def->push ? answer(j, j->def->push(j->mode, r->table, &r->rows))
                        : fl_mode_push(j->job, r->table, &r->rows));
    fl_stat_add(&counts->gradients_applied, r->worker.part == 0);
    return FL_OK;
}

static fl_status own_send(fl_comm *c, fl_comm_call *r)
{
    own_comm *j = (own_comm *)c;
    fl_cluster_stats *counts = fl_cluster_stats_of(j->port.cluster);

    for (size_t i = 0; i < r->n; i++) {
        fl_stat_add(&counts->gradients_made, 1);
        FL_TRY(j->def->send ? answer(j, j->def->send(j->mode, &r->values[i]))
                            : fl_mode_send(j->job, &r->values[i]));
        fl_stat_add(&counts->gradients_applied, 1);
    }
    return FL_OK;
}

/* The startup program's comes before any state of the mode is of use. */
static fl_status own_recv(fl_comm *c, fl_comm_call *r)
{
    own_comm *j = (own_comm *)c;

    return j->def->recv ? answer(j, j->def->recv(j->mode, r->values, r->n))
                        : fl_mode_recv(j->job, r->values, r->n);
}

static fl_status own_barrier(fl_comm *c, fl_comm_call *r)
{
    own_comm *j = (own_comm *)c;

    return j->def->barrier ? answer(j, j->def->barrier(j->mode, r->samples))
                           : FL_OK;
}

static fl_status own_stop(fl_comm *c)
{
    own_comm *j = (own_comm *)c;

    if (j->def->stop)
        FL_TRY(j->def->stop(j->mode));
    return fl_cluster_leave(j->port.cluster);
}

static void own_free(fl_comm *c)
{
    own_comm *j = (own_comm *)c;

    if (j->def->close)
        j->def->close(j->mode);
    fl_cluster_free(j->port.cluster);
    fl_free(j);
}

static const fl_comm_data data = {
    .pull = own_pull,
    .push = own_push,
    .send = own_send,
    .recv = own_recv,
    .barrier = own_barrier,
};

static const fl_comm_life life = {
    .declare = fl_cluster_port_declare,
    .step = fl_cluster_port_step,
    .begin_batch = fl_cluster_port_begin_batch,
    .end_batch = fl_cluster_port_end_batch,
    .stop = own_stop,
    .free = own_free,
};

fl_comm *fl_mode_own_open(fl_job *job)
{
    const fl_mode_def *def = job->mode->own;
    own_comm *j = fl_alloc(sizeof(*j));

    fl_cluster_port_init(&j->port, job->cluster, def->name, &data, &life);
    j->def = def;
    j->job = job;
    j->mode = def->open ? def->open(job) : NULL;
    return &j->port.comm;
}

fl_mode *fl_mode_own_new(const fl_mode_def *def)
{
    own_mode *m = fl_alloc(sizeof(*m));

    m->def = *def;
    m->mode = (fl_mode){ .name = def->name,
                         .doc = def->doc,
                         .passes = def->passes ? def->passes : PASSES,
                         .needs_servers = true,
                         .server_adds = def->server_adds,
                         .own = &m->def };
    return &m->mode;
}

/* lockstep_kit.h - a small job for the modes whose threads meet: its tables and
 * parameters by hand, and calls of the port that wait for their answers.
 *
 *     emb   a table of rows of 2        w   6 numbers, as blocks of 4 and 2
 *     wide  a table of rows of 1        b   3 numbers, one block
 */
#ifndef FL_TESTS_MODE_LOCKSTEP_KIT_H
#define FL_TESTS_MODE_LOCKSTEP_KIT_H

#include "../ps/job_kit.h"
#include "servers_kit.h"

#include "mode/lockstep.h"
#include "mode/mode.h"

#define EMB_DIM 2
#define W_FLOATS 6
#define B_FLOATS 3

/* --- what the passes would make ----------------------------------------- */

#define EMB_SETTINGS "dim=2 init=uniform(-1,1) optimizer=adagrad"
#define WIDE_SETTINGS "dim=1 init=constant(1) optimizer=sgd"

/* Blocks start as zeros and go down by half a gradient. */
#define JOB_TEXT                                                               \
    "seed 7\n" TABLE_TEXT("emb", EMB_SETTINGS)                                 \
        TABLE_TEXT("wide", WIDE_SETTINGS) SGD_START("w.block0", "4")           \
            SGD_START("w.block1", "2") SGD_START("b", "3") SERVE_TEXT("1,2,3") \
                SGD_UPDATE("1", "w.block0", "4")                               \
                    SGD_UPDATE("2", "w.block1", "2") SGD_UPDATE("3", "b", "3")

static inline void add_block(fl_dist *d, const char *name, uint64_t from,
                             uint64_t n)
{
    fl_dist_block b = {
        .name = name,
        .from_row = from,
        .n_rows = n,
        .from = from,
        .n = n,
        .server = fl_client_server_of_block(d->config.n_servers, name),
        .number = (uint32_t)d->blocks.len,
    };

    fl_vec_push(&d->blocks, b);
}

static inline void add_param(fl_dist *d, const char *name, uint64_t n,
                             size_t n_blocks)
{
    fl_dist_param p = { .name = name,
                        .shape = { .rank = 1, .dim = { (int64_t)n } },
                        .n = n,
                        .first_block = d->blocks.len,
                        .n_blocks = n_blocks };

    fl_vec_push(&d->params, p);
}

static inline void dist_init(fl_dist *d, const char *mode,
                             const char *const *servers, int n_servers,
                             int n_trainers, int rank)
{
    fl_dist_table emb = { "emb", EMB_SETTINGS, EMB_DIM };
    fl_dist_table wide = { "wide", WIDE_SETTINGS, 1 };

    *d = (fl_dist){ .config = { .mode = mode,
                                .servers = servers,
                                .n_servers = n_servers,
                                .n_trainers = n_trainers,
                                .rank = rank } };
    fl_vec_push(&d->tables, emb);
    fl_vec_push(&d->tables, wide);
    add_param(d, "w", W_FLOATS, 2);
    add_block(d, "w.block0", 0, 4);
    add_block(d, "w.block1", 4, 2);
    add_param(d, "b", B_FLOATS, 1);
    add_block(d, "b", 0, 3);
    add_servers(d, JOB_TEXT);
}

static inline void dist_release(fl_dist *d)
{
    fl_vec_release(&d->tables);
    fl_vec_release(&d->params);
    fl_vec_release(&d->blocks);
    release_servers(d);
}

/* --- calls -------------------------------------------------------------- */

/* Somebody who waits for answers. */
typedef struct caller {
    fl_waker waker; /* the first member */
    fl_mutex mu;
    fl_cond cond;
} caller;

static inline void wake_caller(fl_waker *w)
{
    caller *c = (caller *)w;

    fl_lock(&c->mu);
    fl_cond_wake_all(&c->cond);
    fl_unlock(&c->mu);
}

static inline void caller_init(caller *c)
{
    c->waker.wake = wake_caller;
    fl_mutex_init(&c->mu);
    fl_cond_init(&c->cond);
}

static inline void caller_release(caller *c)
{
    fl_cond_release(&c->cond);
    fl_mutex_release(&c->mu);
}

/* What a call gave in the end; the alarm clock ends a wait in vain. The answer
   is marked before its owner is woken, so both are looked at under the lock. */
static inline fl_status answer_of(caller *c, const fl_comm_answer *a,
                                  fl_status st)
{
    if (st != FL_PENDING)
        return st;
    fl_lock(&c->mu);
    while ((st = fl_comm_result(a)) == FL_PENDING)
        fl_cond_wait(&c->cond, &c->mu);
    fl_unlock(&c->mu);
    return st;
}

/* --- a training thread -------------------------------------------------- */

#define KEYS_MAX 16

/* One batch of one thread: what its frame would hold. */
typedef struct frame {
    caller caller;
    fl_comm_request emb, wide;
    fl_comm_call w, b, barrier, recv;
    fl_param_values w_values, b_values, params[2];
    uint64_t keys[KEYS_MAX];
    float emb_rows[KEYS_MAX * EMB_DIM], wide_rows[KEYS_MAX];
    float w_grad[W_FLOATS], b_grad[B_FLOATS];
} frame;

static inline fl_worker_id worker_of(int thread)
{
    return (
        fl_worker_id){ .thread = thread, .part = 0, .n_parts = 1, .scale = 1 };
}

static inline void frame_init(frame *f, int thread)
{
    *f = (frame){ 0 };
    caller_init(&f->caller);
    f->emb = (fl_comm_request){ .table = "emb",
                                .rows = { .keys = f->keys,
                                          .values = f->emb_rows,
                                          .lr = 0.1,
                                          .merged = true,
                                          .dim = EMB_DIM,
                                          .scale = 1 },
                                .out = f->emb_rows,
                                .create = true,
                                .worker = worker_of(thread) };
    f->wide = f->emb;
    f->wide.table = "wide";
    f->wide.rows.dim = 1;
    f->wide.rows.values = f->wide.out = f->wide_rows;
    f->w_values = (fl_param_values){ "w", f->w_grad, W_FLOATS };
    f->b_values = (fl_param_values){ "b", f->b_grad, B_FLOATS };
    f->w = (fl_comm_call){ .values = &f->w_values,
                           .n = 1,
                           .worker = worker_of(thread) };
    f->b = f->w;
    f->b.values = &f->b_values;
    f->barrier = (fl_comm_call){ .worker = worker_of(thread), .samples = 10 };
    f->recv = (fl_comm_call){ .values = f->params,
                              .n = 2,
                              .worker = worker_of(thread) };
}

static inline void frame_release(frame *f)
{
    caller_release(&f->caller);
}

/* Where the parameters are that this thread trains. */
static inline void frame_params(frame *f, float *w, float *b)
{
    f->params[0] = (fl_param_values){ "w", w, W_FLOATS };
    f->params[1] = (fl_param_values){ "b", b, B_FLOATS };
}

typedef fl_status (*rows_fn)(fl_comm *c, fl_comm_request *r);
typedef fl_status (*call_fn)(fl_comm *c, fl_comm_call *r);

static inline fl_status begin_rows(frame *f, fl_comm *c, rows_fn fn,
                                   fl_comm_request *r)
{
    fl_comm_begin(&r->answer, &f->caller.waker);
    return fn(c, r);
}

static inline fl_status begin_call(frame *f, fl_comm *c, call_fn fn,
                                   fl_comm_call *r)
{
    fl_comm_begin(&r->answer, &f->caller.waker);
    return fn(c, r);
}

static inline fl_status do_rows(frame *f, fl_comm *c, rows_fn fn,
                                fl_comm_request *r)
{
    return answer_of(&f->caller, &r->answer, begin_rows(f, c, fn, r));
}

static inline fl_status do_call(frame *f, fl_comm *c, call_fn fn,
                                fl_comm_call *r)
{
    return answer_of(&f->caller, &r->answer, begin_call(f, c, fn, r));
}

/* All that a batch hands over. */
static inline fl_status hand_over(frame *f, fl_comm *c)
{
    FL_TRY(do_rows(f, c, c->data->push, &f->emb));
    FL_TRY(do_rows(f, c, c->data->push, &f->wide));
    FL_TRY(do_call(f, c, c->data->send, &f->w));
    return do_call(f, c, c->data->send, &f->b);
}

#endif

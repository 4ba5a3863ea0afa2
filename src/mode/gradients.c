/* gradients.c - copies of gradients that wait to be sent. */
#include "mode/gradients.h"

#include <string.h>

#include "base/alloc.h"

/* --- the pool ------------------------------------------------------------ */

void fl_gradient_pool_init(fl_gradient_pool *s)
{
    *s = (fl_gradient_pool){ 0 };
    fl_mutex_init(&s->mu);
}

/* Under mu. */
static void put_back(fl_gradient_pool *s, fl_gradient *g)
{
    g->next_part = s->spare;
    s->spare = g;
}

static void forget_parts(fl_gradient_pool *s, fl_gradient_step *step)
{
    for (int i = 0; i < step->n_parts; i++) {
        if (step->parts[i])
            put_back(s, step->parts[i]);
        step->parts[i] = NULL;
    }
    step->n_here = 0;
}

void fl_gradient_pool_release(fl_gradient_pool *s)
{
    fl_gradient *next;

    for (size_t i = 0; i < s->steps.len; i++) {
        forget_parts(s, &s->steps.data[i]);
        fl_free(s->steps.data[i].parts);
    }
    fl_vec_release(&s->steps);
    for (fl_gradient *g = s->spare; g; g = next) {
        next = g->next_part;
        fl_buf_release(&g->memory);
        fl_free(g);
    }
    s->spare = NULL;
    fl_mutex_release(&s->mu);
}

void fl_gradients_give_back(fl_gradient_pool *s, fl_queue_entry *list)
{
    fl_queue_entry *next;

    fl_lock(&s->mu);
    for (; list; list = next) {
        fl_gradient *part = (fl_gradient *)list;

        next = list->next;
        while (part) {
            fl_gradient *behind = part->next_part;

            put_back(s, part);
            part = behind;
        }
    }
    fl_unlock(&s->mu);
}

static fl_status take(fl_gradient_pool *s, const char *name, size_t bytes,
                      fl_gradient **out)
{
    fl_gradient *g;

    fl_lock(&s->mu);
    g = s->spare;
    if (g)
        s->spare = g->next_part;
    fl_unlock(&s->mu);
    if (!g)
        g = fl_alloc(sizeof(*g));
    g->entry = (fl_queue_entry){ 0 };
    g->next_part = NULL;
    if (!fl_buf_reserve(&g->memory, bytes)) {
        fl_gradients_give_back(s, &g->entry);
        FL_FAIL(FL_ERR_NOMEM,
                "%s: no memory for a gradient of %zu bytes that waits to be "
                "sent; a smaller communicator_send_queue_size needs less",
                name, bytes);
    }
    *out = g;
    return FL_OK;
}

/* --- copies --------------------------------------------------------------- */

fl_status fl_gradient_of_rows(fl_gradient_pool *s, const fl_comm_request *r,
                              fl_gradient **out)
{
    size_t bytes;

    FL_TRY(fl_err_ctx(fl_rows_bytes(&r->rows, &bytes), "table %s", r->table));
    FL_TRY(take(s, r->table, bytes, out));
    (*out)->rows = fl_rows_copy(&r->rows, (*out)->memory.data);
    return FL_OK;
}

fl_status fl_gradient_of_param(fl_gradient_pool *s, const fl_param_values *v,
                               fl_gradient **out)
{
    size_t bytes = v->n * sizeof(float);

    FL_TRY(take(s, v->param, bytes, out));
    memcpy((*out)->memory.data, v->data, bytes);
    (*out)->rows =
        (fl_rows){ .values = (*out)->memory.data, .n = v->n, .scale = 1 };
    return FL_OK;
}

/* --- steps of several parts ----------------------------------------------- */

/* The step of that thread, with room for its parts. Under mu. */
static fl_gradient_step *step_of(fl_gradient_pool *s,
                                 const fl_worker_id *worker)
{
    fl_gradient_step *step = NULL;

    for (size_t i = 0; !step && i < s->steps.len; i++)
        if (s->steps.data[i].thread == worker->thread)
            step = &s->steps.data[i];
    if (!step) {
        fl_gradient_step fresh = { .thread = worker->thread };

        fl_vec_push(&s->steps, fresh);
        step = &s->steps.data[s->steps.len - 1];
    }
    if (step->n_parts != worker->n_parts) {
        forget_parts(s, step);
        fl_free(step->parts);
        step->n_parts = worker->n_parts;
        step->parts = fl_alloc((size_t)worker->n_parts * sizeof(fl_gradient *));
    }
    return step;
}

static fl_gradient *chain_parts(fl_gradient_step *step)
{
    fl_gradient *first = NULL;

    for (int i = step->n_parts - 1; i >= 0; i--) {
        step->parts[i]->next_part = first;
        first = step->parts[i];
        step->parts[i] = NULL;
    }
    step->n_here = 0;
    return first;
}

fl_gradient *fl_gradient_collect(fl_gradient_pool *s,
                                 const fl_worker_id *worker, fl_gradient *part)
{
    fl_gradient *whole = NULL;
    fl_gradient_step *step;

    FL_ASSERT(worker->part >= 0 && worker->part < worker->n_parts);
    fl_lock(&s->mu);
    step = step_of(s, worker);
    if (step->parts[worker->part])
        forget_parts(s, step);
    step->parts[worker->part] = part;
    if (++step->n_here == step->n_parts)
        whole = chain_parts(step);
    fl_unlock(&s->mu);
    return whole;
}

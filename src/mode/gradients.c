/* gradients.c - copies of gradients that wait to be sent.
 *
 * A copy of rows is one block of memory:
 *
 *     keys u64 | rows f32 [n, dim] | shows f32 | clicks f32 | counts u32
 *
 * of which the last three are there when the push has them.
 */
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
        fl_data_free(g->data, g->bytes);
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

static fl_status reserve(fl_gradient *g, size_t bytes)
{
    void *data;

    if (bytes <= g->bytes)
        return FL_OK;
    data = fl_try_alloc(bytes);
    if (!data)
        return FL_ERR_NOMEM;
    fl_data_free(g->data, g->bytes);
    g->data = data;
    g->bytes = bytes;
    return FL_OK;
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
    if (reserve(g, bytes)) {
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

/* Copies to *at, and moves it. Nothing stays nothing. */
static void *copy(char **at, const void *from, size_t bytes)
{
    void *to = *at;

    if (!from)
        return NULL;
    memcpy(to, from, bytes);
    *at += bytes;
    return to;
}

fl_status fl_gradient_of_rows(fl_gradient_pool *s, const fl_comm_request *r,
                              fl_gradient **out)
{
    size_t row = r->dim * sizeof(float), n = r->n, bytes;
    fl_gradient *g;
    char *at;

    if (fl_mul_overflow(n, sizeof(uint64_t) + row + 3 * sizeof(float), &bytes))
        FL_FAIL(FL_ERR_INVAL, "table %s: a push of %zu rows is too large",
                r->table, n);
    FL_TRY(take(s, r->table, bytes, &g));
    at = g->data;
    g->lr = r->lr;
    g->piece =
        (fl_piece){ .n = n,
                    .scale = r->worker.n_parts > 1 ? r->worker.scale : 1 };
    if (n) {
        g->piece.keys = copy(&at, r->keys, n * sizeof(uint64_t));
        g->piece.rows = copy(&at, r->rows, n * row);
        g->piece.shows = copy(&at, r->shows, n * sizeof(float));
        g->piece.clicks = copy(&at, r->clicks, n * sizeof(float));
        g->piece.counts = copy(&at, r->counts, n * sizeof(uint32_t));
    }
    *out = g;
    return FL_OK;
}

fl_status fl_gradient_of_param(fl_gradient_pool *s, const fl_comm_values *v,
                               fl_gradient **out)
{
    fl_gradient *g;

    FL_TRY(take(s, v->param, v->n * sizeof(float), &g));
    memcpy(g->data, v->data, v->n * sizeof(float));
    g->lr = 0;
    g->piece = (fl_piece){ .rows = g->data, .n = v->n, .scale = 1 };
    *out = g;
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

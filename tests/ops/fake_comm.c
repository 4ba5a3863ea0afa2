/* fake_comm.c - a backend for tests. */
#include "fake_comm.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

float fake_first(uint64_t key, uint32_t i)
{
    return (float)key / 2 + (float)i;
}

fake_table *fake_find(fake_comm *c, const char *name)
{
    for (size_t i = 0; i < c->tables.len; i++)
        if (!strcmp(c->tables.data[i].name, name))
            return &c->tables.data[i];
    return NULL;
}

static fl_status fake_declare(fl_comm *port, const char *name,
                              const char *settings, uint64_t seed)
{
    fake_comm *c = (fake_comm *)port;
    fake_table *t = fake_find(c, name);
    fake_table fresh = { .seed = seed };

    if (t && strcmp(t->settings, settings))
        FL_FAIL(FL_ERR_INVAL, "table %s has other settings", name);
    if (t) {
        t->rows.len = 0;
        return FL_OK;
    }
    if (sscanf(settings, "dim=%u", &fresh.dim) != 1 || fresh.dim > FAKE_DIM_MAX)
        FL_FAIL(FL_ERR_INVAL, "table %s: '%s' is not for tests", name,
                settings);
    fresh.name = fl_strdup(name);
    fresh.settings = fl_strdup(settings);
    fl_vec_push(&c->tables, fresh);
    return FL_OK;
}

static fake_row new_row(uint64_t key)
{
    fake_row r = { .key = key };

    for (uint32_t i = 0; i < FAKE_DIM_MAX; i++)
        r.value[i] = fake_first(key, i);
    return r;
}

static fake_row *find_row(fake_table *t, uint64_t key)
{
    for (size_t i = 0; i < t->rows.len; i++)
        if (t->rows.data[i].key == key)
            return &t->rows.data[i];
    return NULL;
}

static fake_row *make_row(fake_table *t, uint64_t key)
{
    fake_row *r = find_row(t, key);

    if (r)
        return r;
    fl_vec_push(&t->rows, new_row(key));
    return &t->rows.data[t->rows.len - 1];
}

static fl_status table_for(fake_comm *c, const char *name, uint32_t dim,
                           fake_table **out)
{
    *out = fake_find(c, name);
    if (!*out)
        FL_FAIL(FL_ERR_NOTFOUND, "there is no table %s", name);
    if ((*out)->dim != dim)
        FL_FAIL(FL_ERR_INVAL, "table %s has rows of %u, not of %u", name,
                (*out)->dim, dim);
    return FL_OK;
}

static fl_status pull_now(fake_comm *c, fl_comm_request *r)
{
    fake_table *t;

    FL_TRY(table_for(c, r->table, r->rows.dim, &t));
    c->n_asked = r->rows.n;
    for (size_t i = 0; i < r->rows.n; i++) {
        fake_row *row = r->create ? make_row(t, r->rows.keys[i])
                                  : find_row(t, r->rows.keys[i]);
        fake_row first = new_row(r->rows.keys[i]);

        memcpy(r->out + i * t->dim, row ? row->value : first.value,
               t->dim * sizeof(float));
    }
    return FL_OK;
}

static void note_push(fake_push *p, const fl_comm_request *r)
{
    size_t n = r->rows.n < FAKE_KEYS_MAX ? r->rows.n : FAKE_KEYS_MAX;

    *p = (fake_push){ .n = r->rows.n,
                      .has_counts = r->rows.counts != NULL,
                      .has_shows = r->rows.shows != NULL,
                      .has_clicks = r->rows.clicks != NULL };
    for (size_t i = 0; i < n; i++) {
        p->keys[i] = r->rows.keys[i];
        p->counts[i] = r->rows.counts ? r->rows.counts[i] : 1;
        p->shows[i] = r->rows.shows ? r->rows.shows[i] : 1;
        p->clicks[i] = r->rows.clicks ? r->rows.clicks[i] : 0;
    }
}

static fl_status push_now(fake_comm *c, fl_comm_request *r)
{
    fake_table *t;

    FL_TRY(table_for(c, r->table, r->rows.dim, &t));
    note_push(&c->last, r);
    for (size_t i = 0; i < r->rows.n; i++) {
        fake_row *row = make_row(t, r->rows.keys[i]);

        for (uint32_t j = 0; j < t->dim; j++)
            row->value[j] -= (float)r->rows.lr * r->rows.values[i * t->dim + j];
    }
    return FL_OK;
}

typedef fl_status (*request_fn)(fake_comm *c, fl_comm_request *r);

static fl_status serve(fl_comm *port, fl_comm_request *r, request_fn now)
{
    fake_comm *c = (fake_comm *)port;

    if (!c->slow)
        return now(c, r);
    c->waiting = r;
    c->answer = now;
    return FL_PENDING;
}

static fl_status fake_pull(fl_comm *port, fl_comm_request *r)
{
    return serve(port, r, pull_now);
}

static fl_status fake_push_rows(fl_comm *port, fl_comm_request *r)
{
    return serve(port, r, push_now);
}

/* A row that is not there has its first value in the room. */
static fl_status fake_find_rows(fl_comm *port, fl_comm_find *f)
{
    fake_comm *c = (fake_comm *)port;
    fake_table *t;

    FL_TRY(table_for(c, f->table, f->dim, &t));
    c->n_asked = f->n;
    for (size_t i = 0; i < f->n; i++) {
        const fake_row *row = find_row(t, f->keys[i]);
        fake_row first = new_row(f->keys[i]);
        float *room = f->room + i * f->dim;

        memcpy(room, first.value, f->dim * sizeof(float));
        f->rows[i] = row ? row->value : room;
    }
    return FL_OK;
}

/* --- dense parameters ----------------------------------------------------- */

float fake_value(size_t i)
{
    return (float)i + 0.5f;
}

static void note_call(fake_call *to, const fl_comm_call *r)
{
    size_t n = r->n < FAKE_PARAMS_MAX ? r->n : FAKE_PARAMS_MAX;

    *to = (fake_call){ .n = r->n, .worker = r->worker, .samples = r->samples };
    for (size_t i = 0; i < n; i++) {
        const fl_param_values *v = &r->values[i];

        snprintf(to->params[i], FAKE_NAME_MAX, "%s", v->param);
        to->lens[i] = v->n;
        to->firsts[i] = v->n ? v->data[0] : 0;
    }
}

static fl_status send_now(fake_comm *c, fl_comm_call *r)
{
    note_call(&c->last_call, r);
    c->n_sends++;
    return FL_OK;
}

static fl_status recv_now(fake_comm *c, fl_comm_call *r)
{
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->values[i].n; k++)
            r->values[i].data[k] = fake_value(k);
    note_call(&c->last_call, r);
    c->n_recvs++;
    return FL_OK;
}

static fl_status barrier_now(fake_comm *c, fl_comm_call *r)
{
    note_call(&c->last_call, r);
    c->n_meets++;
    return FL_OK;
}

typedef fl_status (*call_fn)(fake_comm *c, fl_comm_call *r);

static fl_status serve_call(fl_comm *port, fl_comm_call *r, call_fn now)
{
    fake_comm *c = (fake_comm *)port;

    if (!c->slow)
        return now(c, r);
    c->waiting_call = r;
    c->answer_call = now;
    return FL_PENDING;
}

static fl_status fake_send(fl_comm *port, fl_comm_call *r)
{
    return serve_call(port, r, send_now);
}

static fl_status fake_recv(fl_comm *port, fl_comm_call *r)
{
    return serve_call(port, r, recv_now);
}

static fl_status fake_barrier(fl_comm *port, fl_comm_call *r)
{
    return serve_call(port, r, barrier_now);
}

static fl_status fake_serve(fl_comm *port, const fl_comm_service *s)
{
    fake_comm *c = (fake_comm *)port;

    snprintf(c->served, sizeof(c->served), "%s %zu", s->endpoint, s->n_blocks);
    return FL_OK;
}

/* --- the backend ---------------------------------------------------------- */

void fake_answer(fake_comm *c)
{
    fl_comm_request *r = c->waiting;
    fl_comm_call *call = c->waiting_call;

    c->waiting = NULL;
    c->waiting_call = NULL;
    if (r)
        fl_comm_finish(&r->answer, c->answer(c, r));
    if (call)
        fl_comm_finish(&call->answer, c->answer_call(c, call));
}

static void fake_free(fl_comm *port)
{
    fake_comm *c = (fake_comm *)port;

    for (size_t i = 0; i < c->tables.len; i++) {
        fl_free(c->tables.data[i].name);
        fl_free(c->tables.data[i].settings);
        fl_vec_release(&c->tables.data[i].rows);
    }
    fl_vec_release(&c->tables);
    fl_free(c);
}

static const fl_comm_data data = {
    .pull = fake_pull,
    .push = fake_push_rows,
    .find = fake_find_rows,
    .send = fake_send,
    .recv = fake_recv,
    .barrier = fake_barrier,
};

static const fl_comm_life life = {
    .declare = fake_declare,
    .serve = fake_serve,
    .free = fake_free,
};

fake_comm *fake_comm_new(void)
{
    fake_comm *c = fl_alloc(sizeof(*c));

    c->port = (fl_comm){ .name = "fake", .data = &data, .life = &life };
    return c;
}

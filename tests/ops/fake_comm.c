/* fake_comm.c - a table backend for tests. */
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

static fl_status table_for(fake_comm *c, const fl_comm_request *r,
                           fake_table **out)
{
    *out = fake_find(c, r->table);
    if (!*out)
        FL_FAIL(FL_ERR_NOTFOUND, "there is no table %s", r->table);
    if ((*out)->dim != r->dim)
        FL_FAIL(FL_ERR_INVAL, "table %s has rows of %u, not of %u", r->table,
                (*out)->dim, r->dim);
    return FL_OK;
}

static fl_status pull_now(fake_comm *c, fl_comm_request *r)
{
    fake_table *t;

    FL_TRY(table_for(c, r, &t));
    c->n_asked = r->n;
    for (size_t i = 0; i < r->n; i++) {
        fake_row *row =
            r->create ? make_row(t, r->keys[i]) : find_row(t, r->keys[i]);
        fake_row first = new_row(r->keys[i]);

        memcpy(r->rows + i * t->dim, row ? row->value : first.value,
               t->dim * sizeof(float));
    }
    return FL_OK;
}

static void note_push(fake_push *p, const fl_comm_request *r)
{
    size_t n = r->n < FAKE_KEYS_MAX ? r->n : FAKE_KEYS_MAX;

    *p = (fake_push){ .n = r->n,
                      .has_counts = r->counts != NULL,
                      .has_shows = r->shows != NULL,
                      .has_clicks = r->clicks != NULL };
    for (size_t i = 0; i < n; i++) {
        p->keys[i] = r->keys[i];
        p->counts[i] = r->counts ? r->counts[i] : 1;
        p->shows[i] = r->shows ? r->shows[i] : 1;
        p->clicks[i] = r->clicks ? r->clicks[i] : 0;
    }
}

static fl_status push_now(fake_comm *c, fl_comm_request *r)
{
    fake_table *t;

    FL_TRY(table_for(c, r, &t));
    note_push(&c->last, r);
    for (size_t i = 0; i < r->n; i++) {
        fake_row *row = make_row(t, r->keys[i]);

        for (uint32_t j = 0; j < t->dim; j++)
            row->value[j] -= (float)r->lr * r->rows[i * t->dim + j];
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

void fake_answer(fake_comm *c)
{
    fl_comm_request *r = c->waiting;

    c->waiting = NULL;
    fl_comm_finish(r, c->answer(c, r));
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

fake_comm *fake_comm_new(void)
{
    fake_comm *c = fl_alloc(sizeof(*c));

    c->port = (fl_comm){ .name = "fake",
                         .declare = fake_declare,
                         .pull = fake_pull,
                         .push = fake_push_rows,
                         .free = fake_free };
    return c;
}

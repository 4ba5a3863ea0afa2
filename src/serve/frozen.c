/* frozen.c - pulls from a source of rows; what has none gets its first value. */
#include "serve/frozen.h"

#include <string.h>

/* One thread writes, so that no other can come between. */
static void count(_Atomic uint64_t *at, uint64_t n)
{
    atomic_store_explicit(at,
                          atomic_load_explicit(at, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static fl_status rule_for(const fl_frozen *f, const char *table, uint32_t dim,
                          const fl_table **out)
{
    const fl_table *t = fl_rules_find(f->rules, table);

    if (!t)
        FL_FAIL(FL_ERR_NOTFOUND, "the model has no table %s", table);
    if (fl_table_dim(t) != dim)
        FL_FAIL(FL_ERR_INVAL, "table %s has rows of %u, not of %u", table,
                fl_table_dim(t), dim);
    *out = t;
    return FL_OK;
}

static fl_status frozen_pull(fl_comm *c, fl_comm_request *r)
{
    fl_frozen *f = (fl_frozen *)c;
    fl_source_read read = { .table = r->table,
                            .keys = r->rows.keys,
                            .n = r->rows.n,
                            .dim = r->rows.dim,
                            .out = r->out };

    FL_TRY(rule_for(f, r->table, r->rows.dim, &read.rule));
    FL_TRY(fl_err_ctx(f->source->ops->read(f->source, &read), "table %s",
                      r->table));
    count(&f->rows, read.n);
    count(&f->missing, read.n_missing);
    return FL_OK;
}

static fl_status frozen_find(fl_comm *c, fl_comm_find *r)
{
    fl_frozen *f = (fl_frozen *)c;
    fl_source_read read = { .table = r->table,
                            .keys = r->keys,
                            .n = r->n,
                            .dim = r->dim,
                            .out = r->room,
                            .next = r->next,
                            .n_next = r->n_next,
                            .is_asked = r->is_asked };

    FL_TRY(rule_for(f, r->table, r->dim, &read.rule));
    FL_TRY(fl_err_ctx(f->source->ops->find(f->source, &read, r->rows),
                      "table %s", r->table));
    count(&f->rows, read.n);
    count(&f->missing, read.n_missing);
    return FL_OK;
}

static fl_status frozen_push(fl_comm *c, fl_comm_request *r)
{
    (void)c;
    FL_FAIL(FL_ERR_INVAL,
            "table %s belongs to a saved model, which does not change; the "
            "program is one that trains",
            r->table);
}

static fl_status frozen_declare(fl_comm *c, const char *table,
                                const char *settings, uint64_t seed)
{
    (void)c, (void)settings, (void)seed;
    FL_FAIL(FL_ERR_INVAL,
            "table %s belongs to a saved model and is not made anew; the "
            "program is one that starts training",
            table);
}

/* It is a part of its predictor. */
static void frozen_free(fl_comm *c)
{
    (void)c;
}

static const fl_comm_data elsewhere = { .pull = frozen_pull,
                                        .push = frozen_push };
static const fl_comm_data in_memory = { .pull = frozen_pull,
                                        .find = frozen_find,
                                        .push = frozen_push };
static const fl_comm_life life = { .declare = frozen_declare,
                                   .free = frozen_free };

void fl_frozen_init(fl_frozen *f)
{
    memset(f, 0, sizeof(*f));
    f->port = (fl_comm){ .name = "model",
                         .data = &elsewhere,
                         .life = &life,
                         .is_synchronous = true };
}

void fl_frozen_use(fl_frozen *f, const fl_rules *rules, fl_row_source *source)
{
    f->rules = rules;
    f->source = source;
    f->port.data = source->ops->find ? &in_memory : &elsewhere;
}

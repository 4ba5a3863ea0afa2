/* comm.c - the in-process backend of the port: each table is one array.
 *
 * Row i of a table lies at rows + i * stride: value, then the rule's state.
 * Tables are declared before the first request and never go away before the
 * backend. A table is guarded by its mutex for the time of one request.
 */
#include "ir/comm.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/thread.h"

typedef struct array_table {
    fl_table_spec spec;
    const fl_rule *rule;
    char *name;
    size_t stride, bytes;
    fl_mutex mu;
    float *rows;    /* guarded by mu */
    fl_hyper hyper; /* guarded by mu: carries the rule's scalars */
    struct array_table *next;
} array_table;

typedef struct array_comm {
    fl_comm port;
    fl_map by_name;
    array_table *first;
} array_comm;

void fl_comm_finish(fl_comm_request *r, fl_status st)
{
    fl_err_save(&r->error, st);
    atomic_store(&r->finished, true);
    fl_wake(r->waker);
}

static fl_status find_table(fl_comm *c, const char *name, array_table **out)
{
    *out = fl_map_find(&((array_comm *)c)->by_name, name);
    if (!*out)
        FL_FAIL(FL_ERR_NOTFOUND, "table %s was not declared to the %s backend",
                name, c->name);
    return FL_OK;
}

static void init_rows(array_table *t)
{
    uint32_t dim = t->spec.dim;
    int n_states = fl_rule_n_states(t->rule);

    for (uint64_t i = 0; i < t->spec.height; i++) {
        float *row = t->rows + i * t->stride;

        fl_init_row(&t->spec.init, i, row, dim);
        for (int s = 0; s < n_states; s++)
            for (uint32_t j = 0; j < dim; j++)
                row[(size_t)(s + 1) * dim + j] =
                    (float)t->rule->states[s].first;
    }
}

static double first_scalar(const fl_rule *rule, const fl_table_spec *spec,
                           int i)
{
    const char *from = rule->scalars[i].first_from;

    for (int k = 0; from && k < fl_rule_n_params(rule); k++)
        if (!strcmp(rule->params[k].name, from))
            return spec->p[k];
    return rule->scalars[i].first;
}

static fl_status array_declare(fl_comm *c, const fl_table_spec *spec)
{
    array_comm *ac = (array_comm *)c;
    const fl_rule *rule = fl_rule_find(spec->rule);
    array_table *t;
    size_t stride, bytes;

    if (fl_map_find(&ac->by_name, spec->name))
        FL_FAIL(FL_ERR_INVAL, "table %s is declared twice", spec->name);
    if (!rule)
        FL_FAIL(FL_ERR_NOTFOUND, "table %s: no update rule is called %s",
                spec->name, spec->rule);
    if (!spec->dim || !spec->height)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: the array backend needs a dim and a height",
                spec->name);
    stride = (size_t)spec->dim * (1 + (size_t)fl_rule_n_states(rule));
    if (fl_mul_overflow(stride * sizeof(float), spec->height, &bytes))
        FL_FAIL(FL_ERR_INVAL, "table %s is too large", spec->name);
    t = fl_alloc(sizeof(*t));
    t->rows = fl_try_alloc(bytes);
    if (!t->rows) {
        fl_free(t);
        FL_FAIL(FL_ERR_NOMEM, "table %s: no memory for %" PRIu64 " rows",
                spec->name, spec->height);
    }
    t->spec = *spec;
    t->name = fl_strdup(spec->name);
    t->rule = rule;
    t->stride = stride;
    t->bytes = bytes;
    t->hyper.flag = spec->flag;
    memcpy(t->hyper.p, spec->p, sizeof(spec->p));
    for (int i = 0; i < fl_rule_n_scalars(rule); i++)
        t->hyper.scalar[i] = first_scalar(rule, spec, i);
    fl_mutex_init(&t->mu);
    init_rows(t);
    t->next = ac->first;
    ac->first = t;
    fl_map_put(&ac->by_name, t->name, t);
    return FL_OK;
}

static fl_status check_request(const array_table *t, const fl_comm_request *r)
{
    if (r->dim != t->spec.dim)
        FL_FAIL(FL_ERR_INVAL, "table %s has rows of %u, not of %u", t->name,
                t->spec.dim, r->dim);
    for (size_t i = 0; i < r->n; i++)
        if (r->keys[i] >= t->spec.height)
            FL_FAIL(FL_ERR_INVAL,
                    "table %s: id %" PRIu64 " at place %zu is not below its "
                    "height %" PRIu64,
                    t->name, r->keys[i], i, t->spec.height);
    return FL_OK;
}

static fl_status array_pull(fl_comm *c, fl_comm_request *r)
{
    size_t row_bytes;
    array_table *t;

    FL_TRY(find_table(c, r->table, &t));
    FL_TRY(check_request(t, r));
    row_bytes = t->spec.dim * sizeof(float);
    fl_lock(&t->mu);
    for (size_t i = 0; i < r->n; i++)
        memcpy(r->rows + i * t->spec.dim, t->rows + r->keys[i] * t->stride,
               row_bytes);
    fl_unlock(&t->mu);
    return FL_OK;
}

static void update_rows(array_table *t, const fl_comm_request *r)
{
    float *state[FL_RULE_STATE_MAX];
    uint32_t dim = t->spec.dim;

    for (size_t i = 0; i < r->n; i++) {
        float *row = t->rows + r->keys[i] * t->stride;

        for (int s = 0; s < FL_RULE_STATE_MAX; s++)
            state[s] = row + (size_t)(s + 1) * dim;
        t->rule->update_f32(row, state, r->rows + i * dim, dim, &t->hyper);
    }
}

static fl_status array_push(fl_comm *c, fl_comm_request *r)
{
    array_table *t;

    FL_TRY(find_table(c, r->table, &t));
    FL_TRY(check_request(t, r));
    if (!r->merged)
        FL_FAIL(FL_ERR_INVAL, "table %s: the pushed rows are not merged",
                t->name);
    fl_lock(&t->mu);
    t->hyper.lr = r->lr;
    if (t->rule->prepare)
        t->rule->prepare(&t->hyper);
    update_rows(t, r);
    if (t->rule->advance)
        t->rule->advance(&t->hyper);
    fl_unlock(&t->mu);
    return FL_OK;
}

static void array_free(fl_comm *c)
{
    array_comm *ac = (array_comm *)c;
    array_table *next;

    for (array_table *t = ac->first; t; t = next) {
        next = t->next;
        fl_mutex_release(&t->mu);
        fl_data_free(t->rows, t->bytes);
        fl_free(t->name);
        fl_free(t);
    }
    fl_map_release(&ac->by_name);
    fl_free(ac);
}

fl_comm *fl_comm_array_new(void)
{
    array_comm *ac = fl_alloc(sizeof(*ac));

    ac->port = (fl_comm){ .name = "array",
                          .declare = array_declare,
                          .pull = array_pull,
                          .push = array_push,
                          .free = array_free };
    return &ac->port;
}

void fl_comm_free(fl_comm *c)
{
    if (c)
        c->free(c);
}

/* contents.c - a server's program that a peer has sent, run against a port that
 * takes down what it says. */
#include "ps/store/contents.h"

#include <inttypes.h>

#include "exec/executor.h"
#include "ps/declare.h"

/* --- tables --------------------------------------------------------------- */

static fl_contents_table *add_table(fl_contents *c, const char *name)
{
    fl_contents_table *t = fl_alloc(sizeof(*t));

    t->name = fl_strdup(name);
    fl_vec_push(&c->tables, t);
    fl_map_put(&c->by_name, t->name, t);
    return t;
}

fl_status fl_contents_add_table(fl_contents *c, const char *name,
                                const char *settings, uint64_t seed)
{
    fl_contents_table *t = fl_map_find(&c->by_name, name);

    if (!t && c->tables.len >= FL_DECLARED_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "table %s is one too many: a server has at most "
                "%d",
                name, FL_DECLARED_MAX);
    if (!t)
        t = add_table(c, name);
    fl_free(t->settings);
    t->settings = fl_strdup(settings);
    t->seed = seed;
    return FL_OK;
}

void fl_contents_release(fl_contents *c)
{
    for (size_t i = 0; i < c->tables.len; i++) {
        fl_free(c->tables.data[i]->name);
        fl_free(c->tables.data[i]->settings);
        fl_free(c->tables.data[i]);
    }
    fl_vec_release(&c->tables);
    fl_map_release(&c->by_name);
}

/* --- the port ------------------------------------------------------------- */

typedef struct port {
    fl_comm comm; /* the first member */
    fl_contents contents;
    fl_status (*take)(void *arg, const fl_contents *c);
    void *arg;
} port;

static fl_status port_declare(fl_comm *c, const char *table,
                              const char *settings, uint64_t seed)
{
    return fl_contents_add_table(&((port *)c)->contents, table, settings, seed);
}

static fl_status port_serve(fl_comm *c, const fl_comm_service *s)
{
    port *p = (port *)c;

    if (p->contents.service)
        FL_FAIL(FL_ERR_INVAL, "the program serves twice");
    p->contents.service = s;
    return p->take(p->arg, &p->contents);
}

static const fl_comm_life life = {
    .declare = port_declare,
    .serve = port_serve,
};

/* --- what a peer may ask for ---------------------------------------------- */

static fl_status check_var(const fl_var *v, const fl_conf *conf)
{
    uint64_t most = (uint64_t)conf->max_message_bytes;
    size_t bytes;

    if (v->flags & FL_VAR_DATA)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is fed, but nobody feeds what a server runs "
                "before it serves",
                v->name);
    if (fl_shape_numel(&v->meta.shape) < 0)
        return FL_OK; /* a table, or what the executor will look at */
    FL_TRY(
        fl_err_ctx(fl_tensor_bytes(&v->meta, &bytes), "variable %s", v->name));
    if (bytes > most)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s of %zu bytes would not fit into a message "
                "(max_message_bytes is %" PRIu64 ")",
                v->name, bytes, most);
    return FL_OK;
}

static fl_status check_program(const fl_program *p, const fl_conf *conf)
{
    const fl_block *b = fl_program_main(p);

    for (const fl_var *v = b->first_var; v; v = v->next)
        FL_TRY(check_var(v, conf));
    for (const fl_op_node *n = b->first; n; n = n->next)
        if ((n->def->flags & (FL_OP_EFFECT | FL_OP_WAITS)) &&
            !(n->def->flags & FL_OP_SERVER))
            FL_FAIL(FL_ERR_INVAL,
                    "op %s acts outside of the server, which a program that is "
                    "sent to it must not",
                    n->def->name);
    return FL_OK;
}

/* --- running -------------------------------------------------------------- */

/* As it is: block 0 runs once, and passes would only take time. */
static fl_status run_once(fl_executor *e, const fl_program *p)
{
    fl_unit_spec spec = { .program = p,
                          .kind = FL_UNIT_ALONE,
                          .n_runners = 1,
                          .n_threads = 1,
                          .nominal_batch = 1 };
    fl_unit *unit;

    FL_TRY(fl_executor_unit(e, &spec, &unit));
    return fl_unit_run_alone(e, unit, NULL);
}

fl_status fl_contents_run(const fl_program *p, const fl_conf *conf,
                          fl_status (*take)(void *arg, const fl_contents *c),
                          void *arg)
{
    port to = { .comm = { .name = "a server", .life = &life },
                .take = take,
                .arg = arg };
    fl_executor e = { 0 };
    fl_scope scope;
    fl_status st;

    FL_TRY(check_program(p, conf));
    fl_scope_init(&scope);
    to.contents.scope = &scope;
    e.options = (fl_exec_options){
        .slice_min_elements = conf->slice_min_elements,
        .pending_timeout_ms = conf->pending_timeout_ms,
        .scope = &scope,
        .comm = &to.comm,
    };
    st = run_once(&e, p);
    if (!st && !to.contents.service)
        st = fl_err_set(FL_ERR_INVAL, "the program does not serve: it has no "
                                      "operator listen_and_serv");
    fl_executor_drop_units(&e);
    fl_contents_release(&to.contents);
    fl_scope_release(&scope);
    return st;
}

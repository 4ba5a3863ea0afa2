/* store.c - making what was declared, and requests that are short. */
#include "ps/store/store_inside.h"

#include <inttypes.h>
#include <stddef.h>

#include "ir/attr.h"
#include "pass/match.h"
#include "ps/store/rounds.h"
#include "ps/store/store_model.h"
#include "table/inside.h"

/* --- making --------------------------------------------------------------- */

static void schema_free(fl_store_schema *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->tables.len; i++) {
        fl_table_destroy(w->tables.data[i].table);
        if (w->changes)
            fl_changes_free(atomic_load(&w->changes[i]));
    }
    for (size_t i = 0; i < w->blocks.len; i++)
        fl_dense_free(w->blocks.data[i].dense);
    fl_vec_release(&w->tables);
    fl_vec_release(&w->blocks);
    fl_free(w->changes);
    fl_free(w->text);
    fl_free(w->edited);
    fl_free(w);
}

/* The rule of a table is what its operator says; without one, what its settings
   say. */
static fl_status read_table(const fl_contents_table *from,
                            const fl_op_node *update, fl_table_config *out)
{
    fl_update u;

    FL_TRY(fl_table_config_parse(out, from->name, from->settings, from->seed));
    if (!update)
        return FL_OK;
    FL_ASSERT(fl_node_update(update, &u));
    if (out->rule && strcmp(out->rule, u.rule->name))
        FL_FAIL(FL_ERR_INVAL,
                "table %s is made with optimizer=%s, but its block updates it "
                "with %s; leave the rule to the block",
                from->name, out->rule, u.rule->name);
    out->rule = u.rule->name;
    memcpy(out->p, u.p, sizeof(u.p));
    return FL_OK;
}

static fl_status add_table(fl_store_schema *w, const fl_contents_table *from,
                           const fl_op_node *update, int n_servers)
{
    fl_store_table t = { 0 };
    fl_table_config config;

    FL_TRY(read_table(from, update, &config));
    config.n_holders = n_servers;
    t.height = config.height;
    FL_TRY(fl_table_create(&t.table, &config));
    t.row_bytes = fl_table_acc(t.table)->layout.bytes;
    t.short_bytes = fl_table_acc(t.table)->layout.short_bytes;
    fl_vec_push(&w->tables, t);
    return FL_OK;
}

/* One operator, which updates a table whose rows are here. */
static fl_status check_update(const fl_op_node *n, const fl_contents *from)
{
    const fl_var *v = fl_match_in(n, "Param");
    const fl_attr *lazy = n ? fl_match_attr(n, "lazy_mode") : NULL;
    fl_update u;

    if (!n || n->next || !v || !(v->flags & FL_VAR_TABLE) ||
        !fl_node_update(n, &u) || u.rule->whole)
        FL_FAIL(FL_ERR_INVAL,
                "one of table_blocks has something else than the operator that "
                "updates the rows of one table");
    if (!fl_map_find(&from->by_name, v->name))
        FL_FAIL(FL_ERR_NOTFOUND,
                "one of table_blocks updates table %s, which no init_table has "
                "made",
                v->name);
    if (lazy && !lazy->b)
        FL_FAIL(FL_ERR_INVAL,
                "the rows of table %s are updated when they have a gradient: "
                "lazy_mode=false is not for it",
                v->name);
    return FL_OK;
}

/* The updates by the names of their tables. */
static fl_status find_updates(const fl_contents *from, fl_map *out)
{
    const fl_comm_service *s = from->service;

    for (size_t i = 0; i < s->n_table_blocks; i++) {
        fl_op_node *n = s->program->blocks.data[s->table_blocks[i]]->first;
        const char *table;

        FL_TRY(check_update(n, from));
        table = fl_match_in(n, "Param")->name;
        if (fl_map_find(out, table))
            FL_FAIL(FL_ERR_INVAL, "two of table_blocks update table %s", table);
        fl_map_put(out, table, n);
    }
    return FL_OK;
}

static fl_status add_tables(fl_store_schema *w, const fl_contents *from,
                            int n_servers)
{
    fl_map updates = { 0 };
    fl_status st = find_updates(from, &updates);

    for (size_t i = 0; i < from->tables.len && !st; i++)
        st = add_table(w, from->tables.data[i],
                       fl_map_find(&updates, from->tables.data[i]->name),
                       n_servers);
    fl_map_release(&updates);
    return st;
}

static fl_status add_block(fl_store_schema *w, const fl_contents *from,
                           size_t i, const fl_conf *conf)
{
    const fl_comm_service *s = from->service;
    fl_store_block b = { 0 };

    if (i < s->n_from_rows)
        b.from_row = (uint64_t)s->from_rows[i];
    FL_TRY(fl_dense_new(&b.dense, s->program->blocks.data[s->blocks[i]],
                        from->scope, conf));
    fl_vec_push(&w->blocks, b);
    return FL_OK;
}

/* Requests find a block by its number, but people and hashes by its name. */
static fl_status check_names(const fl_store_schema *w)
{
    fl_map names = { 0 };
    fl_status st = FL_OK;

    for (size_t i = 0; i < w->blocks.len && !st; i++) {
        const char *name = fl_dense_name(w->blocks.data[i].dense);

        if (fl_map_find(&names, name))
            st = fl_err_set(FL_ERR_INVAL, "two blocks update %s", name);
        fl_map_put(&names, name, &w->blocks.data[i]);
    }
    fl_map_release(&names);
    return st;
}

static fl_status fill_schema(fl_store_schema *w, const fl_contents *from,
                             fl_store *s)
{
    if (from->service->n_blocks > FL_DECLARED_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "%zu blocks are too many: a server has at most "
                "%d",
                from->service->n_blocks, FL_DECLARED_MAX);
    w->adds = from->service->adds;
    FL_TRY(add_tables(w, from, s->n_servers));
    for (size_t i = 0; i < from->service->n_blocks; i++)
        FL_TRY(add_block(w, from, i, s->conf));
    w->changes = fl_alloc(w->tables.len * sizeof(*w->changes));
    FL_TRY(check_names(w));
    return s->model ? fl_store_load_schema(s, w, s->model) : FL_OK;
}

static fl_status make_schema(const fl_contents *from, fl_store *s,
                             fl_store_schema **out)
{
    fl_store_schema *w = fl_alloc(sizeof(*w));
    fl_status st = fill_schema(w, from, s);

    if (st) {
        schema_free(w);
        return st;
    }
    *out = w;
    return FL_OK;
}

fl_store *fl_store_new(const fl_op_set *ops, const fl_conf *conf)
{
    fl_store *s = fl_alloc(sizeof(*s));

    s->ops = ops;
    s->conf = conf;
    s->rounds = fl_rounds_new();
    s->page_bytes = UINT64_MAX;
    s->n_servers = 1;
    fl_mutex_init(&s->mu);
    fl_mutex_init(&s->ranks_mu);
    fl_store_gate_init(&s->gate);
    atomic_init(&s->schema, NULL);
    return s;
}

void fl_store_free(fl_store *s)
{
    if (!s)
        return;
    schema_free(atomic_load(&s->schema));
    fl_store_model_close(s->model);
    for (int i = 0; i < FL_STORE_USES; i++)
        fl_store_chain_release(&s->chains[i]);
    fl_rounds_free(s->rounds);
    fl_vec_release(&s->by_rank);
    fl_mutex_release(&s->mu);
    fl_mutex_release(&s->ranks_mu);
    fl_store_gate_release(&s->gate);
    fl_free(s);
}

fl_status fl_store_set_model(fl_store *s, const fl_model_share *share,
                             uint64_t *step)
{
    FL_ASSERT(!s->model && !atomic_load(&s->schema));
    FL_TRY(fl_store_model_open(&s->model, share));
    *step = fl_store_model_step(s->model);
    return FL_OK;
}

void fl_store_set_page(fl_store *s, uint64_t bytes)
{
    s->page_bytes = bytes;
}

void fl_store_set_servers(fl_store *s, int n)
{
    s->n_servers = n;
}

/* --- changing ------------------------------------------------------------- */

uint64_t fl_store_commit(const fl_store_call *call, fl_store_log *log)
{
    FL_ASSERT(fl_msg_find(call->type)->mutates);
    return atomic_fetch_add(&log->position, 1) + 1;
}

/* --- declaring ------------------------------------------------------------ */

/* For fl_contents_run. */
typedef struct making {
    fl_store *store;
    fl_store_schema *schema;
} making;

static fl_status take_contents(void *arg, const fl_contents *c)
{
    making *m = arg;

    return make_schema(c, m->store, &m->schema);
}

static fl_status run_declared(fl_store *s, const char *text,
                              fl_store_schema **out)
{
    making m = { .store = s };
    fl_program *p;
    fl_status st;

    FL_TRY(fl_program_parse(text, s->ops, &p));
    st = fl_contents_run(p, s->conf, take_contents, &m);
    fl_program_free(p);
    if (st) {
        schema_free(m.schema);
        return st;
    }
    *out = m.schema;
    (*out)->text = fl_strdup(text);
    return FL_OK;
}

/* Whoever knows of an edit says what runs, anybody else what was transpiled. */
static fl_status compare(const fl_store_schema *w, const char *text)
{
    if (w->edited && !strcmp(w->edited, text))
        return FL_OK;
    return fl_declaration_compare(w->text, text);
}

static fl_status declare_copy(fl_store *s, const char *text, size_t len)
{
    fl_store_schema *w = atomic_load(&s->schema);
    fl_store_call call = { .type = FL_MSG_DECLARE,
                           .payload = { text, strlen(text) } };

    FL_TRY(fl_declaration_check(text, len));
    if (w)
        return compare(w, text);
    FL_TRY(fl_err_ctx(run_declared(s, text, &w), "declaration"));
    (void)fl_store_commit(&call, &s->declared);
    atomic_store(&s->schema, w);
    return FL_OK;
}

/* The copy is there before it is looked at: a peer may write to its memory. */
fl_status fl_store_declare(fl_store *s, const char *text, size_t len)
{
    char *copy;
    fl_status st;

    if (len > FL_DECLARE_BYTES_MAX)
        FL_FAIL(FL_ERR_INVAL, "declaration: %zu bytes are more than %u", len,
                FL_DECLARE_BYTES_MAX);
    copy = fl_try_alloc(len + 1);
    if (!copy)
        FL_FAIL(FL_ERR_NOMEM, "declaration: no memory for its %zu bytes", len);
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    fl_lock(&s->mu);
    st = declare_copy(s, copy, len);
    fl_unlock(&s->mu);
    fl_data_free(copy, len + 1);
    return st;
}

fl_status fl_store_hold(fl_store *s, const fl_contents *c, const char *declared,
                        const char *edited)
{
    fl_store_schema *w;

    FL_ASSERT(!atomic_load(&s->schema));
    FL_TRY(make_schema(c, s, &w));
    w->text = fl_strdup(declared);
    w->edited = fl_strdup(edited);
    atomic_store(&s->schema, w);
    return FL_OK;
}

const char *fl_store_declaration(const fl_store *s)
{
    const fl_store_schema *w = atomic_load(&s->schema);

    return w ? w->text : NULL;
}

const char *fl_store_block_name(const fl_store *s, size_t number, uint64_t *n)
{
    const fl_store_schema *w = atomic_load(&s->schema);

    if (!w || number >= w->blocks.len)
        return NULL;
    *n = fl_dense_len(w->blocks.data[number].dense);
    return fl_dense_name(w->blocks.data[number].dense);
}

/* --- replies -------------------------------------------------------------- */

fl_status fl_store_reserve(fl_store_ctx *c, uint64_t len, void **out)
{
    *out = NULL;
    if (!len)
        return FL_OK;
    *out = c->reply->reserve(c->reply->arg, len);
    if (!*out)
        FL_FAIL(FL_ERR_NOMEM, "no memory for a reply (%s) of %" PRIu64 " bytes",
                fl_msg_name(c->call->type), len);
    c->out_bytes = len;
    return FL_OK;
}

fl_status fl_store_answer(fl_store_ctx *c, const void *reply)
{
    const fl_field *fields = fl_msg_find(c->call->type)->reply->fields;
    fl_pack p = { 0 };
    fl_msg_bytes end = fl_fields_pack(&p, fields, reply);
    fl_status st;
    void *buf = NULL;

    st = fl_store_reserve(c, p.len + end.len, &buf);
    if (buf && p.len)
        memcpy(buf, p.data, p.len);
    if (buf && end.len)
        memcpy((char *)buf + p.len, end.data, (size_t)end.len);
    fl_pack_release(&p);
    return st;
}

/* --- requests ------------------------------------------------------------- */

/* There are counters even before anything is declared. */
static fl_status check_declared(const fl_store_ctx *c)
{
    if (!c->schema && c->call->type != FL_MSG_STATS)
        FL_FAIL(FL_ERR_INVAL,
                "a request (%s) came before tables and blocks were declared",
                fl_msg_name(c->call->type));
    return FL_OK;
}

fl_status fl_store_find_table(const fl_store_ctx *c, uint32_t table,
                              fl_store_table **out)
{
    if (table >= c->schema->tables.len)
        return fl_items_unknown(c->call->type, "table", table);
    *out = &c->schema->tables.data[table];
    return FL_OK;
}

static fl_status run(fl_store_ctx *c, const fl_msg_def *m)
{
    _Alignas(max_align_t) uint8_t fields[FL_MSG_STRUCT_MAX];

    FL_TRY(check_declared(c));
    if (m->request->fields)
        FL_TRY(fl_msg_read_request(c->call->type, c->call->payload, fields));
    c->request = fields;
    return m->in_store(c);
}

fl_status fl_store_request(fl_store *s, const fl_store_call *call,
                           fl_store_reply *reply)
{
    const fl_msg_def *m = fl_msg_find(call->type);
    fl_store_ctx c = { .store = s,
                       .schema = atomic_load(&s->schema),
                       .call = call,
                       .reply = reply };
    fl_status st;

    if (!m || !m->in_store)
        FL_FAIL(FL_ERR_INVAL, "a request (%s) is not for the store",
                fl_msg_name(call->type));
    fl_store_gate_enter(&s->gate);
    st = run(&c, m);
    fl_store_gate_leave(&s->gate);
    fl_store_note(s, &c, st);
    fl_free(c.rows);
    fl_free(c.blocks);
    return st;
}

/* dist.c - the runner of distribution passes, and what they have made. */
#include "pass/dist.h"

#include "pass/match.h"
#include "pass/runner.h"

#define ARENA_CHUNK_BYTES (16 << 10)

/* --- one pass after the other --------------------------------------------- */

static const char *copy_wire(fl_dist *d, const char *name)
{
    return fl_arena_strdup(&d->arena, name ? name : "f32");
}

static void copy_config(fl_dist *d, const fl_dist_config *from)
{
    size_t n = (size_t)from->n_servers;
    const char **servers = fl_arena_alloc(&d->arena, sizeof(*servers) * n);

    for (size_t i = 0; i < n; i++)
        servers[i] = fl_arena_strdup(&d->arena, from->servers[i]);
    d->config = *from;
    d->config.servers = servers;
    d->config.mode = fl_arena_strdup(&d->arena, from->mode ? from->mode : "");
    d->config.wire_pull = copy_wire(d, from->wire_pull);
    d->config.wire_push = copy_wire(d, from->wire_push);
}

static fl_status dump_all(fl_dist *d, const char *folder, int number,
                          const char *name)
{
    fl_dump_text to = { folder, "main", number, name };
    char part[32];

    FL_TRY(fl_pass_dump(&to, d->main));
    to.part = "startup";
    FL_TRY(fl_pass_dump(&to, d->startup));
    to.part = part;
    for (size_t i = 0; i < d->servers.len; i++) {
        snprintf(part, sizeof(part), "server-%zu", i);
        FL_TRY(fl_pass_dump_text(&to, d->servers.data[i].declared));
    }
    return FL_OK;
}

static fl_status run_changes(fl_dist *d, const fl_pass *pass, int number,
                             const char *folder)
{
    bool changed = false;

    FL_TRY(pass->spread(d, &changed));
    if (!changed)
        return FL_OK;
    FL_TRY(fl_program_verify(d->main));
    FL_TRY(fl_err_ctx(fl_program_verify(d->startup), "startup program"));
    for (size_t i = 0; i < d->servers.len; i++) {
        FL_TRY(fl_err_ctx(fl_program_verify(d->servers.data[i].main),
                          "program of server %zu", i));
        FL_TRY(fl_err_ctx(fl_program_verify(d->servers.data[i].startup),
                          "startup program of server %zu", i));
    }
    return dump_all(d, folder, number, pass->name);
}

static fl_status run_passes(fl_dist *d, const char *passes, const char *folder)
{
    const char *name;
    int number = 0;
    size_t len;

    FL_TRY(dump_all(d, folder, 0, "input"));
    while (fl_pass_next_name(&passes, &name, &len)) {
        const fl_pass *pass = fl_pass_find_part(name, len);

        if (!pass)
            return fl_pass_no_such(name, len);
        if (!pass->spread)
            FL_FAIL(FL_ERR_INVAL, "pass %s distributes nothing", pass->name);
        FL_TRY(fl_err_ctx(run_changes(d, pass, ++number, folder), "pass %s",
                          pass->name));
    }
    return FL_OK;
}

/* Texts go where they are wanted. */
static fl_status run_dumped(fl_dist *d, const char *passes,
                            const fl_dump_place *dump)
{
    char *folder = NULL;
    fl_status st;

    if (dump)
        FL_TRY(fl_pass_dump_begin(dump, &folder));
    st = run_passes(d, passes, folder);
    fl_free(folder);
    return st;
}

fl_dist *fl_dist_new_empty(const fl_dist_config *config)
{
    fl_dist *d = fl_alloc(sizeof(*d));

    fl_arena_init(&d->arena, ARENA_CHUNK_BYTES);
    copy_config(d, config);
    return d;
}

fl_status fl_dist_new(fl_dist **out, const fl_dist_config *config,
                      const fl_program *main, const fl_program *startup,
                      const char *passes, const fl_dump_place *dump)
{
    fl_dist *d;
    fl_status st;

    if (config->n_servers < 1)
        FL_FAIL(FL_ERR_INVAL, "there is no server; name their addresses");
    d = fl_dist_new_empty(config);
    st = fl_program_clone(main, FL_CLONE_ALL, &d->main);
    if (!st)
        st = fl_program_clone(startup, FL_CLONE_ALL, &d->startup);
    if (!st)
        st = run_dumped(d, passes, dump);
    if (st) {
        fl_dist_free(d);
        return st;
    }
    *out = d;
    return FL_OK;
}

void fl_dist_free(fl_dist *d)
{
    if (!d)
        return;
    fl_program_free(d->main);
    fl_program_free(d->startup);
    fl_vec_release(&d->params);
    fl_vec_release(&d->blocks);
    fl_vec_release(&d->tables);
    fl_vec_release(&d->counters);
    for (size_t i = 0; i < d->servers.len; i++) {
        fl_program_free(d->servers.data[i].startup);
        fl_program_free(d->servers.data[i].main);
        fl_free(d->servers.data[i].declared);
    }
    fl_vec_release(&d->servers);
    fl_arena_release(&d->arena);
    fl_free(d);
}

/* --- names ---------------------------------------------------------------- */

const fl_dist_param *fl_dist_find_param(const fl_dist *d, const char *name)
{
    for (size_t i = 0; i < d->params.len; i++)
        if (!strcmp(d->params.data[i].name, name))
            return &d->params.data[i];
    return NULL;
}

int fl_dist_find_table(const fl_dist *d, const char *name)
{
    for (size_t i = 0; i < d->tables.len; i++)
        if (!strcmp(d->tables.data[i].name, name))
            return (int)i;
    return -1;
}

fl_status fl_dist_find_server(const fl_dist *d, const char *endpoint,
                              int *server)
{
    for (int i = 0; i < d->config.n_servers; i++)
        if (!strcmp(d->config.servers[i], endpoint)) {
            *server = i;
            return FL_OK;
        }
    FL_FAIL(FL_ERR_NOTFOUND,
            "%s is none of the %d servers of the job, the first of which is %s",
            endpoint, d->config.n_servers, d->config.servers[0]);
}

/* --- programs of servers -------------------------------------------------- */

/* Numbers of blocks in attributes stay right, as `to` has block 0 alone. */
static fl_status append_program(fl_program *to, const fl_program *from)
{
    if (to->blocks.len != 1)
        FL_FAIL(FL_ERR_INVAL,
                "the startup program has %zu blocks; that of a server has one",
                to->blocks.len);
    FL_TRY(fl_block_copy(fl_program_main(to), fl_program_main(from)->first));
    for (size_t i = 1; i < from->blocks.len; i++) {
        const fl_block *b = from->blocks.data[i];

        FL_TRY(fl_block_copy(
            fl_program_add_block(to, to->blocks.data[b->parent]), b->first));
    }
    return FL_OK;
}

/* Where a server is belongs not to what it holds: trainers may reach it by
   different addresses. */
static void drop_endpoint(fl_program *p)
{
    for (fl_op_node *n = fl_program_main(p)->first; n; n = n->next)
        if (fl_match_op(n, "listen_and_serv"))
            n->attrs[fl_op_find_attr(n->def, "endpoint")].s = "";
}

fl_status fl_dist_print_server(const fl_dist *d, int server, char **text)
{
    const fl_dist_server *s = &d->servers.data[server];
    fl_program *p;
    fl_status st;

    FL_TRY(fl_program_clone(s->startup, FL_CLONE_ALL, &p));
    st = append_program(p, s->main);
    if (!st) {
        drop_endpoint(p);
        *text = fl_program_print(p);
    }
    fl_program_free(p);
    return fl_err_ctx(st, "programs of server %s", d->config.servers[server]);
}

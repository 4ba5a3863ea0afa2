/* dist.c - the runner of distribution passes, and the programs of servers.
 *
 * A server's programs are for people and for tools: they are cut out of the
 * declaration, which is what a server works by.
 */
#include "pass/dist.h"

#include "pass/runner.h"

#define ARENA_CHUNK_BYTES (16 << 10)

/* --- one pass after the other --------------------------------------------- */

static void copy_config(fl_dist *d, const fl_dist_config *from)
{
    size_t n = (size_t)from->n_servers;
    const char **servers = fl_arena_alloc(&d->arena, sizeof(*servers) * n);

    for (size_t i = 0; i < n; i++)
        servers[i] = fl_arena_strdup(&d->arena, from->servers[i]);
    d->config = *from;
    d->config.servers = servers;
    d->config.mode = fl_arena_strdup(&d->arena, from->mode ? from->mode : "");
}

static fl_status dump_all(fl_dist *d, const char *dir, int number,
                          const char *name)
{
    char label[64];

    snprintf(label, sizeof(label), "%s-main", name);
    FL_TRY(fl_pass_dump(d->main, dir, number, label));
    snprintf(label, sizeof(label), "%s-startup", name);
    FL_TRY(fl_pass_dump(d->startup, dir, number, label));
    if (!d->declaration.len)
        return FL_OK;
    snprintf(label, sizeof(label), "%s-servers", name);
    return fl_pass_dump_text(fl_str_text(&d->declaration), dir, number, label);
}

static fl_status run_changes(fl_dist *d, const fl_pass *pass, int number,
                             const char *dump_dir)
{
    bool changed = false;

    FL_TRY(pass->spread(d, &changed));
    if (!changed)
        return FL_OK;
    FL_TRY(fl_program_verify(d->main));
    FL_TRY(fl_err_ctx(fl_program_verify(d->startup), "startup program"));
    return dump_all(d, dump_dir, number, pass->name);
}

static fl_status run_passes(fl_dist *d, const char *passes,
                            const char *dump_dir)
{
    const char *name;
    int number = 0;
    size_t len;

    FL_TRY(fl_pass_dump_begin(dump_dir));
    FL_TRY(dump_all(d, dump_dir, 0, "input"));
    while (fl_pass_next_name(&passes, &name, &len)) {
        const fl_pass *pass = fl_pass_find_part(name, len);

        if (!pass)
            return fl_pass_no_such(name, len);
        if (!pass->spread)
            FL_FAIL(FL_ERR_INVAL, "pass %s distributes nothing", pass->name);
        FL_TRY(fl_err_ctx(run_changes(d, pass, ++number, dump_dir), "pass %s",
                          pass->name));
    }
    return FL_OK;
}

fl_status fl_dist_new(fl_dist **out, const fl_dist_config *config,
                      const fl_program *main, const fl_program *startup,
                      const char *passes, const char *dump_dir)
{
    fl_dist *d;
    fl_status st;

    if (config->n_servers < 1)
        FL_FAIL(FL_ERR_INVAL, "there is no server; name their addresses");
    d = fl_alloc(sizeof(*d));
    fl_arena_init(&d->arena, ARENA_CHUNK_BYTES);
    copy_config(d, config);
    st = fl_program_clone(main, FL_CLONE_ALL, &d->main);
    if (!st)
        st = fl_program_clone(startup, FL_CLONE_ALL, &d->startup);
    if (!st)
        st = run_passes(d, passes, dump_dir);
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
    fl_str_release(&d->declaration);
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

/* What stands for one block in the declaration: lines behind bars, those of
   its startup program before the cut. */
#define BAR "| "
#define CUT "|---\n"

static const char *after_line(const char *at)
{
    at += strcspn(at, "\n");
    return at + (*at == '\n');
}

/* The lines behind "program NAME N". */
static const char *find_lines(const fl_dist *d, const fl_dist_block *b)
{
    const char *at = fl_str_text(&d->declaration);
    size_t n = strlen(b->name);

    for (; *at; at = after_line(at))
        if (!strncmp(at, "program ", 8) && !strncmp(at + 8, b->name, n) &&
            at[8 + n] == ' ')
            return after_line(at);
    FL_ASSERT(!"a block has no program");
    return at;
}

static const char *find_cut(const char *at)
{
    while (*at == '|' && strncmp(at, CUT, strlen(CUT)))
        at = after_line(at);
    return at;
}

/* Several blocks have the same learning rate, which is written once. */
static bool has_line(const fl_str *text, const char *line, size_t len)
{
    const char *at = fl_str_text(text);

    for (; *at; at = after_line(at))
        if (!strncmp(at, line, len))
            return true;
    return false;
}

static void add_startup(const fl_dist *d, const fl_dist_block *b, fl_str *out)
{
    const char *at = find_lines(d, b), *cut = find_cut(at);

    for (; at < cut; at = after_line(at)) {
        const char *line = at + strlen(BAR);
        size_t len = (size_t)(after_line(at) - line);

        if (!has_line(out, line, len))
            fl_str_addf(out, "%.*s", (int)len, line);
    }
}

static void add_update(const fl_dist *d, const fl_dist_block *b, int index,
                       fl_str *out)
{
    const char *at = after_line(find_cut(find_lines(d, b)));

    fl_str_addf(out, "block %d parent 0\n", index);
    for (; *at == '|'; at = after_line(at))
        fl_str_addf(out, "  %.*s", (int)(after_line(at) - at - strlen(BAR)),
                    at + strlen(BAR));
    fl_str_add(out, "end\n");
}

static void add_service(const fl_dist *d, int server, fl_str *out)
{
    int n = 0;

    fl_str_addf(out, "op listen_and_serv () -> () {endpoint=\"%s\", ",
                d->config.servers[server]);
    fl_str_add(out, "optimize_blocks=[");
    for (size_t i = 0; i < d->blocks.len; i++)
        if (d->blocks.data[i].server == server) {
            fl_str_addf(out, "%s%d", n ? "," : "", n + 1);
            n++;
        }
    fl_str_addf(out, "], distributed_mode=\"%s\"} @rpc\n", d->config.mode);
}

fl_status fl_dist_server_program(const fl_dist *d, int server, fl_program **out)
{
    fl_str text = { 0 };
    fl_status st;
    int n = 0;

    FL_ASSERT(server >= 0 && server < d->config.n_servers);
    add_service(d, server, &text);
    for (size_t i = 0; i < d->blocks.len; i++)
        if (d->blocks.data[i].server == server)
            add_update(d, &d->blocks.data[i], ++n, &text);
    st = fl_program_parse(fl_str_text(&text), d->main->ops, out);
    fl_str_release(&text);
    return fl_err_ctx(st, "program of server %s", d->config.servers[server]);
}

fl_status fl_dist_server_startup(const fl_dist *d, int server, fl_program **out)
{
    fl_str text = { 0 };
    fl_status st;

    FL_ASSERT(server >= 0 && server < d->config.n_servers);
    for (size_t i = 0; i < d->blocks.len; i++)
        if (d->blocks.data[i].server == server)
            add_startup(d, &d->blocks.data[i], &text);
    st = fl_program_parse(fl_str_text(&text), d->main->ops, out);
    fl_str_release(&text);
    return fl_err_ctx(st, "startup program of server %s",
                      d->config.servers[server]);
}

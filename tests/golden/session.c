/* session.c - one context with one program made from text. */
#include "session.h"
#include "../make.h"

#include <inttypes.h>
#include <string.h>

bool session_open(session *s, golden_case *c)
{
    memset(s, 0, sizeof(*s));
    s->c = c;
    s->lines.pool = &c->pool;
    s->ctx = make_ctx();
    if (s->ctx)
        s->executor = make_executor(s->ctx);
    if (!s->executor)
        case_fail(c, "%s", fl_last_error());
    return s->executor != NULL;
}

void session_close(session *s)
{
    fl_executor_free(s->executor);
    if (s->ctx && s->program != fl_default_main_program(s->ctx))
        fl_program_free(s->program);
    fl_ctx_free(s->ctx);
}

const char *type_text(pool *p, fl_dtype dtype, int rank, const int64_t *dims)
{
    text t = { .pool = p };

    text_addf(&t, "%s[", fl_dtype_text(dtype));
    for (int i = 0; i < rank; i++)
        text_addf(&t, "%s%" PRId64, i ? "," : "", dims[i]);
    text_addf(&t, "]");
    return t.s;
}

void session_declare(session *s, const char *name, const fl_tensor *t,
                     const char *words)
{
    int64_t dims[FL_RANK_MAX];

    memcpy(dims, t->shape.dim, sizeof(dims));
    if (t->kind == FL_KIND_ROWS)
        dims[0] = -1;
    text_addf(&s->lines, "var %s : %s", name,
              type_text(&s->c->pool, t->dtype, t->shape.rank, dims));
    if (t->n_lod)
        text_addf(&s->lines, " lod=%d", t->n_lod);
    if (t->kind == FL_KIND_ROWS)
        text_addf(&s->lines, " rows");
    text_addf(&s->lines, " %s\n", words);
}

void session_feed(session *s, const char *name, const fl_tensor *t)
{
    session_declare(s, name, t, "data");
    POOL_PUSH(&s->c->pool, s->feeds, s->n_feeds, ((fl_feed){ name, *t }));
}

bool session_keep(session *s, const char *name, const fl_tensor *t)
{
    session_declare(s, name, t, "persist");
    return session_set(s, name, t);
}

size_t session_fetch(session *s, const char *name)
{
    POOL_PUSH(&s->c->pool, s->fetches, s->n_fetches, name);
    return s->n_fetches - 1;
}

static bool check(session *s, fl_status st)
{
    if (st)
        case_fail(s->c, "%s", fl_last_error());
    return st == FL_OK;
}

bool session_build(session *s)
{
    return check(s, fl_program_from_text(&s->program, s->ctx, s->lines.s));
}

bool session_build_main(session *s)
{
    s->program = fl_default_main_program(s->ctx);
    return check(s, fl_program_add(s->program, s->lines.s));
}

bool session_startup(session *s)
{
    return check(s,
                 fl_run(s->executor, fl_default_startup_program(s->ctx), NULL));
}

bool session_run(session *s)
{
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = s->feeds, .n_feeds = s->n_feeds,
                .fetches = s->fetches, .n_fetches = s->n_fetches);

    if (!s->fetched)
        s->fetched =
            pool_alloc(&s->c->pool, (s->n_fetches + 1) * sizeof(fl_tensor));
    args.out = s->fetched;
    return check(s, fl_run(s->executor, s->program, &args));
}

bool session_set(session *s, const char *name, const fl_tensor *t)
{
    return check(s, fl_scope_set(fl_current_scope(s->ctx), name, t));
}

bool session_get(session *s, const char *name, fl_tensor *out)
{
    return check(s, fl_scope_get(fl_current_scope(s->ctx), name, out));
}

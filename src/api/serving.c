/* serving.c - a model for other processes, and the way to one. */
#include "flotilla/serving.h"

#include "base/args.h"
#include "ctx/ctx.h"
#include "dist/endpoints.h"
#include "dist/job_key.h"
#include "front/caller.h"
#include "front/door.h"
#include "front/http.h"

struct fl_serving {
    fl_endpoints net; /* empty without `listen` */
    fl_scoring *pool;
    fl_door *door; /* NULL: none */
    fl_http *http; /* NULL: none */
};

/* --- a server ------------------------------------------------------------- */

static fl_status check_args(const fl_model *m, const fl_serving_args *a)
{
    if (!m)
        FL_FAIL(FL_ERR_INVAL, "there is no model to serve: the call that "
                              "should have given it has failed");
    if (!a->listen && !a->http)
        FL_FAIL(FL_ERR_INVAL, "where to serve the model? Give an address, "
                              "listen or http");
    if (a->n_threads < 0)
        FL_FAIL(FL_ERR_INVAL, "%d threads cannot serve a model", a->n_threads);
    return FL_OK;
}

static fl_status open_door(fl_serving *s, fl_conf *conf, const char *listen)
{
    FL_TRY(fl_endpoints_open(&s->net, conf, listen));
    return fl_door_open(&s->door, s->net.net, s->pool, conf, listen);
}

static fl_status start(fl_serving *s, fl_ctx *c, fl_model *m,
                       const fl_serving_args *a)
{
    fl_scoring_options o = { .n_threads = a->n_threads,
                             .max_batch = a->max_batch };

    FL_TRY(fl_job_key_load(&c->conf));
    FL_TRY(fl_scoring_new(&s->pool, m, &o));
    if (a->listen)
        FL_TRY(open_door(s, &c->conf, a->listen));
    if (a->http)
        FL_TRY(fl_http_open(&s->http, s->pool, &c->conf, a->http));
    return FL_OK;
}

fl_status fl_serving_start_with(fl_serving **out, fl_ctx *c, fl_model *m,
                                const fl_serving_args *args)
{
    fl_serving_args a;
    fl_serving *s;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_serving_args, &a, args));
    FL_TRY(check_args(m, &a));
    s = fl_alloc(sizeof(*s));
    st = start(s, c, m, &a);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        fl_serving_stop(s);
        return fl_err_restore(&why);
    }
    *out = s;
    return FL_OK;
}

/* Who waits is answered first, by doors that are still open. */
void fl_serving_stop(fl_serving *s)
{
    if (!s)
        return;
    if (s->pool)
        fl_scoring_stop(s->pool);
    fl_http_close(s->http);
    fl_door_close(s->door);
    fl_scoring_free(s->pool);
    fl_endpoints_close(&s->net);
    fl_free(s);
}

const char *fl_serving_address(const fl_serving *s)
{
    return s->door ? fl_door_address(s->door) : NULL;
}

const char *fl_serving_http_address(const fl_serving *s)
{
    return s->http ? fl_http_address(s->http) : NULL;
}

/* --- a caller ------------------------------------------------------------- */

struct fl_remote_model {
    fl_endpoints net;
    fl_caller *caller;
};

fl_status fl_remote_model_open(fl_remote_model **out, fl_ctx *c,
                               const char *address)
{
    fl_remote_model *m = fl_alloc(sizeof(*m));
    fl_status st = fl_endpoints_open(&m->net, &c->conf, address);

    if (!st)
        st = fl_caller_open(&m->caller, m->net.net, &c->conf, address);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        fl_remote_model_close(m);
        return fl_err_restore(&why);
    }
    *out = m;
    return FL_OK;
}

void fl_remote_model_close(fl_remote_model *m)
{
    if (!m)
        return;
    fl_caller_close(m->caller);
    fl_endpoints_close(&m->net);
    fl_free(m);
}

fl_status fl_remote_model_run(fl_remote_model *m, const fl_feed *feeds,
                              size_t n_feeds, const fl_feed **outputs,
                              size_t *n_outputs)
{
    return fl_caller_ask(m->caller, feeds, n_feeds, outputs, n_outputs);
}

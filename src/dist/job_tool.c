/* job_tool.c - serving, and looking at a job from outside. */
#include "dist/job.h"
#include "dist/job_key.h"

#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/hash.h"
#include "base/thread.h"
#include "ops/ops.h"
#include "ps/options.h"
#include "ps/status.h"
#include "rpc/client/rpc_client.h"

/* A tool is used by somebody who looks at the screen. */
#define TOOL_MS 10000
/* A server that is not there is told as such before the question is too old. */
#define QUESTION_MS (2 * TOOL_MS)
#define TOOL_WINDOW_BYTES (UINT64_C(1) << 20)

/* --- a server ------------------------------------------------------------- */

static fl_status serve(const fl_ctx *c, const fl_endpoints *e,
                       const fl_job_args *a)
{
    fl_server_options o = fl_server_options_of(&c->conf);
    fl_server *s;
    fl_status st;
    fl_err why;

    o.servers = (const char *const *)e->servers.data;
    o.n_servers = (int)e->servers.len;
    o.n_trainers = a->n_trainers ? a->n_trainers : 1;
    o.rank = a->rank;
    o.listen = a->listen;
    o.model = a->model;
    o.ops = &fl_ops;
    FL_TRY(fl_server_check_door(&o));
    FL_TRY(fl_server_new(&s, e->net, NULL, &o));
    st = fl_err_ctx(fl_server_serve(s), "server %d", a->rank);
    fl_err_save(&why, st);
    fl_server_free(s);
    return st ? fl_err_restore(&why) : FL_OK;
}

static fl_status check_server_args(const fl_endpoints *e, const fl_job_args *a)
{
    if (a->rank < 0 || (size_t)a->rank >= e->servers.len)
        FL_FAIL(FL_ERR_INVAL,
                "server %d: the job has %zu servers, with ranks from 0 to %zu",
                a->rank, e->servers.len, e->servers.len - 1);
    if (a->n_trainers < 0)
        FL_FAIL(FL_ERR_INVAL, "server %d: there cannot be %d trainers", a->rank,
                a->n_trainers);
    return FL_OK;
}

fl_status fl_job_serve_with(fl_ctx *c, const fl_job_args *args)
{
    fl_job_args a;
    fl_endpoints e;
    fl_status st;
    fl_err why;

    FL_TRY(FL_ARGS_READ(fl_job_args, &a, args));
    FL_TRY(fl_endpoints_open(&e, &c->conf, a.servers));
    st = check_server_args(&e, &a);
    if (!st)
        st = serve(c, &e, &a);
    fl_err_save(&why, st);
    fl_endpoints_close(&e);
    return st ? fl_err_restore(&why) : FL_OK;
}

/* --- a tool --------------------------------------------------------------- */

/* One question of a tool, from its link to the answer. */
typedef struct question {
    uint16_t type;
    struct iovec request;
    uint64_t timeout_ms; /* 0: the answer takes its time */
    fl_job_key key;
    fl_rpc_client *link;
    fl_mutex mu;
    fl_cond cond;
    bool is_over; /* guarded by mu */
    fl_err err;   /* guarded by mu */
    /* Where the answer goes; NULL: it has none. */
    fl_status (*take)(void *out, fl_msg_bytes reply);
    void *out;
} question;

static void on_answer(void *arg, fl_status st, const fl_frame *f,
                      fl_payload *payload)
{
    question *q = arg;

    (void)f;
    if (!st && q->take)
        st = q->take(q->out, payload ? (fl_msg_bytes){ fl_payload_data(payload),
                                                       fl_payload_len(payload) }
                                     : (fl_msg_bytes){ 0 });
    fl_payload_free(payload);
    fl_lock(&q->mu);
    fl_err_save(&q->err, st);
    q->is_over = true;
    fl_cond_wake_all(&q->cond);
    fl_unlock(&q->mu);
}

static void close_link(void *arg)
{
    question *q = arg;

    fl_rpc_client_free(q->link);
}

static fl_status open_link(question *q, const fl_ctx *c, const fl_endpoints *e,
                           fl_loop *loop)
{
    const fl_conf *conf = &c->conf;
    uint64_t ms = conf->connect_timeout_ms < TOOL_MS
                      ? (uint64_t)conf->connect_timeout_ms
                      : TOOL_MS;
    /* Tools come and go; a rank of its own keeps each apart from the others. */
    fl_rpc_client_options o = {
        .me = { .role = FL_MEMBER_TOOL,
                .rank = (uint32_t)fl_auth_random64(),
                .process = (uint32_t)getpid() },
        .peer_role = FL_MEMBER_SERVER,
        .token = fl_str_text(&q->key.token),
        .conn = { .max_bytes = (uint64_t)conf->max_message_bytes,
                  .window_bytes = TOOL_WINDOW_BYTES,
                  .names = fl_msg_find_name },
        .window = 1,
        .ping_ms = (uint64_t)conf->ping_ms,
        .suspect_ms = (uint64_t)conf->suspect_ms,
        .connect_timeout_ms = ms,
        .restart_timeout_ms = ms,
        .must_listen = true,
    };

    (void)snprintf(o.me.job, sizeof(o.me.job), "%s", fl_str_text(&q->key.job));
    return fl_rpc_client_new(&q->link, loop, e->net, e->servers.data[0], &o);
}

static fl_status wait_for(question *q)
{
    fl_rpc_call call = { .type = q->type,
                         .pieces = &q->request,
                         .n_pieces = q->request.iov_len ? 1 : 0,
                         .timeout_ms = q->timeout_ms,
                         .on_reply = on_answer,
                         .arg = q };

    fl_rpc_client_call(q->link, &call);
    fl_lock(&q->mu);
    while (!q->is_over)
        fl_cond_wait(&q->cond, &q->mu);
    fl_unlock(&q->mu);
    return q->err.status;
}

static fl_status ask_in_loop(const fl_ctx *c, const fl_endpoints *e,
                             question *q)
{
    fl_loop *loop;
    fl_status st;

    FL_TRY(fl_loop_new(&loop, "ps tool"));
    st = open_link(q, c, e, loop);
    if (st) {
        fl_loop_free(loop);
        return st;
    }
    st = wait_for(q);
    fl_loop_post(loop, close_link, q);
    fl_loop_free(loop);
    return st ? fl_err_restore(&q->err) : FL_OK;
}

/* Asks server 0 at the address. */
static fl_status ask(fl_ctx *c, const char *address, fl_job_use use,
                     question *q)
{
    fl_status st;
    fl_err why;
    fl_endpoints e;

    FL_TRY(fl_endpoints_open(&e, &c->conf, address));
    fl_job_key_choose(&q->key, &c->conf, address, use);
    fl_mutex_init(&q->mu);
    fl_cond_init(&q->cond);
    st = ask_in_loop(c, &e, q);
    fl_err_save(&why, st);
    fl_cond_release(&q->cond);
    fl_mutex_release(&q->mu);
    fl_job_key_release(&q->key);
    fl_endpoints_close(&e);
    return st ? fl_err_restore(&why) : FL_OK;
}

static fl_status take_status(void *out, fl_msg_bytes reply)
{
    return fl_job_status_unpack(out, reply);
}

fl_status fl_job_status_get(fl_job_status **out, fl_ctx *c, const char *address)
{
    question q = { .type = FL_MSG_STATUS,
                   .timeout_ms = QUESTION_MS,
                   .take = take_status,
                   .out = out };

    return ask(c, address, FL_JOB_LOOK, &q);
}

fl_status fl_job_shutdown(fl_ctx *c, const char *address)
{
    question q = { .type = FL_MSG_SHUTDOWN, .timeout_ms = QUESTION_MS };

    return ask(c, address, FL_JOB_CHANGE, &q);
}

/* --- a save --------------------------------------------------------------- */

static fl_status take_saved(void *out, fl_msg_bytes reply)
{
    return fl_msg_read_reply(FL_MSG_SAVE, reply, out);
}

/* Members that do not come end the wait, by save_timeout_ms of server 0. */
static fl_status ask_save(fl_ctx *c, const char *address,
                          const fl_save_request *r, fl_save_reply *saved)
{
    question q = { .type = FL_MSG_SAVE, .take = take_saved, .out = saved };
    fl_pack p = { 0 };
    fl_msg_bytes end = fl_fields_pack(&p, fl_msg_save_request.fields, r);
    fl_status st;

    fl_pack_bytes(&p, end.data, (size_t)end.len);
    q.request = (struct iovec){ p.data, p.len };
    st = ask(c, address, FL_JOB_CHANGE, &q);
    fl_pack_release(&p);
    return st;
}

fl_status fl_job_save_at_with(fl_ctx *c, const char *address, const char *dir,
                              const fl_job_save_args *args, fl_job_saved *saved)
{
    fl_save_request r = { .dir = { dir, strlen(dir) } };
    fl_job_saving what;
    fl_save_reply reply;

    FL_TRY(fl_job_saving_of(args, &what));
    r.keep = what.keep;
    r.kind = (uint32_t)what.kind;
    FL_TRY(ask_save(c, address, &r, &reply));
    return fl_job_tell_saved(&reply, saved);
}

fl_status fl_job_save_at(fl_ctx *c, const char *address, const char *dir,
                         char **version)
{
    fl_job_saved saved = FL_INIT(fl_job_saved);

    FL_TRY(fl_job_save_at_with(c, address, dir, NULL, &saved));
    *version = fl_strdup(saved.version);
    return FL_OK;
}

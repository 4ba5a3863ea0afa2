/* caller.c - one link, one question at a time. */
#include "front/caller.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/thread.h"
#include "conf/patience.h"
#include "front/door.h"
#include "front/tensors.h"
#include "rpc/client/rpc_client.h"

#define WINDOW_BYTES ((uint64_t)4 << 20)
#define ARENA_BYTES 4096

struct fl_caller {
    fl_loop *loop;
    fl_rpc_client *link;
    char *token;
    uint64_t timeout_ms;
    fl_pack request;
    fl_arena arena; /* of the outputs */
    fl_buf reply;

    fl_mutex mu;
    fl_cond changed;
    bool is_over;    /* guarded by mu */
    fl_err err;      /* guarded by mu */
    uint64_t length; /* of the reply; guarded by mu */
};

/* --- a question ----------------------------------------------------------- */

static fl_status keep_reply(fl_caller *c, const fl_payload *payload)
{
    c->length = payload ? fl_payload_len(payload) : 0;
    if (!fl_buf_reserve(&c->reply, (size_t)c->length + 1))
        FL_FAIL(FL_ERR_NOMEM, "no memory for an answer of %llu bytes",
                (unsigned long long)c->length);
    if (c->length)
        memcpy(c->reply.data, fl_payload_data(payload), (size_t)c->length);
    return FL_OK;
}

static void on_reply(void *arg, fl_status st, const fl_frame *f,
                     fl_payload *payload)
{
    fl_caller *c = arg;

    (void)f;
    fl_lock(&c->mu);
    if (!st)
        st = keep_reply(c, payload);
    fl_err_save(&c->err, st);
    c->is_over = true;
    fl_cond_wake_all(&c->changed);
    fl_unlock(&c->mu);
    fl_payload_free(payload);
}

static fl_status call(fl_caller *c)
{
    struct iovec piece = { c->request.data, c->request.len };
    fl_rpc_call q = { .type = FL_PREDICT_TYPE,
                      .pieces = &piece,
                      .n_pieces = 1,
                      .timeout_ms = c->timeout_ms,
                      .on_reply = on_reply,
                      .arg = c };
    fl_err err;

    c->is_over = false;
    fl_rpc_client_call(c->link, &q);
    fl_lock(&c->mu);
    while (!c->is_over)
        fl_cond_wait(&c->changed, &c->mu); /* the call has a deadline */
    err = c->err;
    fl_unlock(&c->mu);
    return err.status ? fl_err_restore(&err) : FL_OK;
}

fl_status fl_caller_ask(fl_caller *c, const fl_feed *feeds, size_t n,
                        const fl_feed **outputs, size_t *n_outputs)
{
    fl_feed *all;

    c->request.len = 0;
    fl_tensors_pack(&c->request, feeds, n);
    FL_TRY(call(c));
    fl_arena_clear(&c->arena);
    FL_TRY(fl_tensors_unpack(c->reply.data, c->length, &c->arena, &all,
                             n_outputs));
    *outputs = all;
    return FL_OK;
}

/* --- the link ------------------------------------------------------------- */

static fl_status open_link(fl_caller *c, fl_net *net, const fl_conf *conf,
                           const char *address)
{
    /* Callers come and go; a rank of its own keeps each apart from others. */
    fl_rpc_client_options o = {
        .me = { .role = FL_MEMBER_TOOL,
                .rank = (uint32_t)fl_auth_random64(),
                .process = (uint32_t)getpid() },
        .peer_role = FL_MEMBER_SERVER,
        .token = c->token,
        .conn = { .max_bytes = (uint64_t)conf->max_message_bytes,
                  .window_bytes = WINDOW_BYTES,
                  .names = fl_predict_type_name },
        .window = 1,
        .ping_ms = (uint64_t)conf->ping_ms,
        .suspect_ms = (uint64_t)conf->suspect_ms,
        .connect_timeout_ms = (uint64_t)conf->connect_timeout_ms,
        .restart_timeout_ms = fl_patience_ms(conf, FL_JOB_WITH_SERVERS),
    };

    (void)snprintf(o.me.job, sizeof(o.me.job), "%s", conf->job);
    return fl_rpc_client_new(&c->link, c->loop, net, address, &o);
}

fl_status fl_caller_open(fl_caller **out, fl_net *net, const fl_conf *conf,
                         const char *address)
{
    fl_caller *c = fl_alloc(sizeof(*c));
    const char *token =
        conf->join_token[0] ? conf->join_token : conf->look_token;
    fl_status st;

    c->token = fl_strdup(token);
    c->timeout_ms =
        (uint64_t)conf->connect_timeout_ms + (uint64_t)conf->pending_timeout_ms;
    fl_mutex_init(&c->mu);
    fl_cond_init(&c->changed);
    fl_arena_init(&c->arena, ARENA_BYTES);
    st = fl_loop_new(&c->loop, "fl-caller");
    if (!st)
        st = open_link(c, net, conf, address);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        fl_caller_close(c);
        return fl_err_restore(&why);
    }
    *out = c;
    return FL_OK;
}

static void close_link(void *arg)
{
    fl_rpc_client_free(arg);
}

void fl_caller_close(fl_caller *c)
{
    if (!c)
        return;
    if (c->link)
        fl_loop_call(c->loop, close_link, c->link);
    fl_loop_free(c->loop);
    fl_pack_release(&c->request);
    fl_buf_release(&c->reply);
    fl_arena_release(&c->arena);
    fl_cond_release(&c->changed);
    fl_mutex_release(&c->mu);
    fl_free(c->token);
    fl_free(c);
}

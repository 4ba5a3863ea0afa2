/* door.c - PREDICT requests from connections to the pool, and answers back.
 *
 * A request is copied out of its payload, in the connection's loop, and belongs
 * to a question from then on, which ends with its answer. What is under way when
 * the door closes is answered into nothing.
 */
#include "front/door.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "front/tensors.h"
#include "rpc/server/rpc_server.h"
#include "rpc/stream/address.h"

#define HANDSHAKE_MS 5000
#define WINDOW_BYTES ((uint64_t)4 << 20)
#define ARENA_BYTES 4096

struct fl_door {
    fl_scoring *pool;
    fl_loop *loop;
    fl_rpc_server *host;
    char address[FL_ADDRESS_MAX];
};

/* A request from its arrival to its answer. */
typedef struct question {
    fl_score score; /* the first member */
    fl_scoring *pool;
    fl_reply *reply;
    fl_arena arena;
    void *bytes;
    size_t len;
} question;

const char *fl_predict_type_name(uint16_t type)
{
    return type == FL_PREDICT_TYPE ? "predict" : NULL;
}

/* --- one request ---------------------------------------------------------- */

static void question_free(question *q)
{
    fl_arena_release(&q->arena);
    fl_data_free(q->bytes, q->len);
    fl_free(q);
}

static void send_outputs(const question *q, const fl_tensor *outputs)
{
    size_t n;
    const fl_model_var *v = fl_scoring_outputs(q->pool, &n);
    fl_feed *named = fl_alloc((n + 1) * sizeof(*named));
    fl_pack p = { 0 };

    for (size_t i = 0; i < n; i++)
        named[i] = (fl_feed){ .name = v[i].name, .value = outputs[i] };
    fl_tensors_pack(&p, named, n);
    fl_reply_send(q->reply, p.data, p.len);
    fl_pack_release(&p);
    fl_free(named);
}

static void on_scored(fl_score *s, fl_status st, const fl_tensor *outputs)
{
    question *q = (question *)s;

    if (st)
        fl_reply_error(q->reply, st);
    else
        send_outputs(q, outputs);
    question_free(q);
}

static fl_status copy_bytes(question *q, const fl_payload *payload)
{
    q->len = payload ? (size_t)fl_payload_len(payload) : 0;
    q->bytes = fl_try_alloc(q->len ? q->len : 1);
    if (!q->bytes)
        FL_FAIL(FL_ERR_NOMEM, "no memory for a request of %zu bytes", q->len);
    if (q->len)
        memcpy(q->bytes, fl_payload_data(payload), q->len);
    return FL_OK;
}

static fl_status ask(question *q, const fl_payload *payload)
{
    fl_scoring *pool = q->pool;
    fl_feed *feeds;
    size_t n;

    FL_TRY(copy_bytes(q, payload));
    FL_TRY(fl_tensors_unpack(q->bytes, q->len, &q->arena, &feeds, &n));
    q->score.feeds = fl_arena_alloc(&q->arena, (fl_scoring_n_inputs(pool) + 1) *
                                                   sizeof(*feeds));
    FL_TRY(fl_scoring_check(pool, feeds, n, &q->score));
    return fl_scoring_ask(pool, &q->score);
}

static void on_request(void *arg, fl_session *session, const fl_frame *f,
                       fl_payload *payload, fl_reply *r)
{
    question *q = fl_alloc(sizeof(*q));
    fl_status st;

    (void)session, (void)f; /* there is one type, and the transport knows it */
    q->pool = ((fl_door *)arg)->pool;
    q->reply = r;
    q->score.done = on_scored;
    fl_arena_init(&q->arena, ARENA_BYTES);
    st = ask(q, payload);
    fl_payload_free(payload);
    if (st) {
        fl_reply_error(r, st);
        question_free(q);
    }
}

/* --- opening -------------------------------------------------------------- */

fl_status fl_door_check(const fl_conf *conf, const char *listen)
{
    fl_address a;

    if (conf->join_token[0] || conf->tls_ca[0])
        return FL_OK;
    FL_TRY(fl_address_parse(&a, listen));
    if (!conf->allow_no_token && !fl_address_is_loopback(&a))
        FL_FAIL(FL_ERR_INVAL,
                "there is no join token, and %s is beyond the loopback: "
                "anybody could ask; set join_token or join_token_file, or "
                "allow_no_token=true",
                listen);
    FL_WARN("serve", "there is no join token: whoever reaches %s can ask",
            listen);
    return FL_OK;
}

static fl_status open_host(fl_door *d, fl_net *net, const fl_conf *conf,
                           const char *listen)
{
    static const fl_rpc_server_events events = { .on_request = on_request };
    fl_rpc_server_options o = {
        .listen = listen,
        .loops = &d->loop,
        .n_loops = 1,
        .events = &events,
        .arg = d,
        .me = { .role = FL_MEMBER_SERVER,
                .boot_id = fl_auth_random64(),
                .process = (uint32_t)getpid() },
        .token = conf->join_token,
        /* No memory is shared with callers: what was checked stays. */
        .conn = { .max_bytes = (uint64_t)conf->max_message_bytes,
                  .window_bytes = WINDOW_BYTES,
                  .names = fl_predict_type_name },
        .ping_ms = (uint64_t)conf->ping_ms,
        .suspect_ms = (uint64_t)conf->suspect_ms,
        .handshake_ms = HANDSHAKE_MS,
        .max_connections = (int)conf->max_connections,
    };

    (void)snprintf(o.me.job, sizeof(o.me.job), "%s", conf->job);
    (void)snprintf(o.me.address, sizeof(o.me.address), "%s", listen);
    return fl_rpc_server_new(&d->host, net, &o, d->address);
}

fl_status fl_door_open(fl_door **out, fl_net *net, fl_scoring *pool,
                       const fl_conf *conf, const char *listen)
{
    fl_door *d;
    fl_status st;

    FL_TRY(fl_door_check(conf, listen));
    d = fl_alloc(sizeof(*d));
    d->pool = pool;
    st = fl_loop_new(&d->loop, "fl-door");
    if (!st)
        st = open_host(d, net, conf, listen);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        fl_door_close(d);
        return fl_err_restore(&why);
    }
    *out = d;
    return FL_OK;
}

void fl_door_close(fl_door *d)
{
    if (!d)
        return;
    if (d->host)
        fl_rpc_server_free(d->host);
    fl_loop_free(d->loop);
    fl_free(d);
}

const char *fl_door_address(const fl_door *d)
{
    return d->address;
}

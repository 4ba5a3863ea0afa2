/* server_upstream.c - the way of the other servers to server 0.
 *
 * A server joins the job there, and waits at the barrier "end": the answer is
 * the result of the job. Until then the connection shows each of the two that
 * the other lives. When server 0 is lost the question fails with the link, and
 * the server ends, naming it.
 */
#include "ps/server/server_inside.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/timeline.h"

#define LOG_FIRST_MS 3000
#define LOG_AGAIN_MS 10000
#define LEAVE_MS 1000
#define WINDOW_BYTES ((uint64_t)1 << 20)
#define CALLS 8

/* --- what people are told; loop 0 ----------------------------------------- */

static void log_away(const fl_server *s, uint64_t since_ms, const char *how)
{
    uint64_t left = s->o.restart_timeout_ms > since_ms
                        ? s->o.restart_timeout_ms - since_ms
                        : 0;

    FL_WARN("ps",
            "%s 0 (%s) %s; waiting up to %.1f s for its return, then %s %d "
            "ends",
            fl_server_word(s), s->server_0, how, (double)left * 1e-3,
            fl_server_word(s), s->o.rank);
}

static void on_up(fl_server *s)
{
    fl_upstream *w = &s->upstream;

    if (w->is_away)
        FL_INFO("ps", "%s 0 (%s) is back after %.1f s", fl_server_word(s),
                s->server_0, (double)(fl_server_now_ms(s) - w->away_ms) * 1e-3);
    w->was_up = true;
    w->is_away = false;
}

static void on_state(void *arg, fl_rpc_client *l, fl_rpc_client_state state,
                     uint64_t since_ms)
{
    fl_server *s = arg;
    fl_upstream *w = &s->upstream;
    char how[FL_ERR_TEXT_MAX + 32];

    (void)l;
    if (state == FL_RPC_CLIENT_UP) {
        on_up(s);
        return;
    }
    if (state != FL_RPC_CLIENT_SILENT && state != FL_RPC_CLIENT_DOWN)
        return;
    if (!w->is_away)
        w->away_ms = fl_server_now_ms(s) - since_ms;
    w->is_away = true;
    if (state == FL_RPC_CLIENT_SILENT) {
        (void)snprintf(how, sizeof(how), "has been silent for %.1f s",
                       (double)since_ms * 1e-3);
        log_away(s, since_ms, how);
    } else {
        (void)snprintf(how, sizeof(how), "is down (%s)", fl_last_error());
        log_away(s, 0, how);
    }
}

void fl_server_tick_upstream(fl_server *s, uint64_t now_ms)
{
    fl_upstream *w = &s->upstream;

    if (w->was_up || now_ms < w->log_ms)
        return;
    if (w->log_ms)
        FL_INFO("ps", "%s %d is waiting for %s 0 (%s)", fl_server_word(s),
                s->o.rank, fl_server_word(s), s->server_0);
    w->log_ms = now_ms + (w->log_ms ? LOG_AGAIN_MS : LOG_FIRST_MS);
}

/* --- requests; loop 0 ----------------------------------------------------- */

/* An error of the link names server 0 already. */
static fl_status name_server_0(fl_server *s, fl_status st)
{
    fl_err e;

    if (!st || !s->upstream.link)
        return st;
    fl_err_save(&e, st);
    if (fl_rpc_client_why(s->upstream.link))
        return fl_err_restore(&e);
    (void)fl_err_restore(&e);
    return fl_err_ctx(st, "%s 0 (%s)", fl_server_word(s), s->server_0);
}

/* The link that is closed here fails what is left of its requests: that is not
   news. */
static bool is_news(const fl_server *s)
{
    return s->upstream.link != NULL;
}

static void on_joined(void *arg, fl_status st, const fl_frame *f,
                      fl_payload *payload)
{
    fl_server *s = arg;

    (void)f;
    fl_payload_free(payload);
    fl_lock(&s->mu);
    if (st && is_news(s))
        fl_server_end(s, name_server_0(s, st));
    fl_unlock(&s->mu);
    if (!st && fl_timeline_now())
        fl_server_ask_clock(s);
}

static void on_end(void *arg, fl_status st, const fl_frame *f,
                   fl_payload *payload)
{
    fl_server *s = arg;
    bool is_over;

    (void)f;
    fl_payload_free(payload);
    fl_lock(&s->mu);
    is_over = is_news(s);
    if (is_over && !st && s->phase == FL_SERVER_SERVING)
        FL_INFO("ps", "server %d ends: the job is over", s->o.rank);
    if (is_over)
        fl_server_end(s, name_server_0(s, st));
    is_over = is_over && !s->upstream.is_leaving;
    fl_unlock(&s->mu);
    if (is_over)
        fl_server_close_upstream(s);
}

static void on_left(void *arg, fl_status st, const fl_frame *f,
                    fl_payload *payload)
{
    fl_server *s = arg;

    (void)st; /* server 0 knows, or will find out by itself */
    (void)f;
    fl_payload_free(payload);
    fl_server_close_upstream(s);
    fl_lock(&s->mu);
    s->upstream.is_leaving = false;
    fl_server_check_end(s);
    fl_unlock(&s->mu);
}

/* --- opening and closing -------------------------------------------------- */

fl_status fl_server_open_upstream(fl_server *s)
{
    fl_rpc_client_options o = {
        .me = s->me,
        .peer_role = FL_MEMBER_SERVER,
        .peer_name = fl_server_word(s),
        .token = s->token,
        .conn = { .max_bytes = s->o.max_message_bytes,
                  .window_bytes = WINDOW_BYTES,
                  .names = fl_msg_find_name },
        .window = CALLS,
        .ping_ms = s->o.ping_ms,
        .suspect_ms = s->o.suspect_ms,
        .connect_timeout_ms = s->o.connect_timeout_ms,
        .restart_timeout_ms = s->o.restart_timeout_ms,
        .no_return = s->o.are_workers,
        .on_state = on_state,
        .arg = s,
    };

    FL_TRY(fl_rpc_client_new(&s->upstream.link, s->loops[0], s->net,
                             s->server_0, &o));
    fl_rpc_client_call(
        s->upstream.link,
        &(fl_rpc_call){ .type = FL_MSG_JOIN, .on_reply = on_joined, .arg = s });
    (void)fl_fields_pack(&s->upstream.end, fl_msg_barrier_request.fields,
                         &(fl_barrier_request){ .kind = FL_BARRIER_END });
    s->upstream.end_piece =
        (struct iovec){ s->upstream.end.data, s->upstream.end.len };
    fl_rpc_client_call(s->upstream.link,
                       &(fl_rpc_call){ .type = FL_MSG_BARRIER,
                                       .pieces = &s->upstream.end_piece,
                                       .n_pieces = 1,
                                       .on_reply = on_end,
                                       .arg = s });
    return FL_OK;
}

void fl_server_leave_job(fl_server *s)
{
    if (!s->upstream.link)
        return;
    s->upstream.is_leaving = true;
    fl_rpc_client_call(s->upstream.link, &(fl_rpc_call){ .type = FL_MSG_LEAVE,
                                                         .timeout_ms = LEAVE_MS,
                                                         .on_reply = on_left,
                                                         .arg = s });
}

void fl_server_close_upstream(fl_server *s)
{
    fl_rpc_client *l;

    fl_lock(&s->mu);
    l = s->upstream.link;
    s->upstream.link = NULL;
    fl_unlock(&s->mu);
    fl_rpc_client_free(l);
}

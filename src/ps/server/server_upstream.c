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

#define SAY_FIRST_MS 3000
#define SAY_AGAIN_MS 10000
#define LEAVE_MS 1000
#define WINDOW_BYTES ((uint64_t)1 << 20)
#define CALLS 4

/* --- what people are told; loop 0 ----------------------------------------- */

static void say_away(const fl_server *s, uint64_t since_ms, const char *how)
{
    uint64_t left = s->o.restart_timeout_ms > since_ms
                        ? s->o.restart_timeout_ms - since_ms
                        : 0;

    FL_WARN("ps",
            "server 0 (%s) %s; waiting up to %.1f s for its return, then "
            "server %d ends",
            s->server_0, how, (double)left * 1e-3, s->o.rank);
}

static void on_up(fl_server *s)
{
    fl_server_way *w = &s->way;

    if (w->is_away)
        FL_INFO("ps", "server 0 (%s) is back after %.1f s", s->server_0,
                (double)(fl_server_now_ms(s) - w->away_ms) * 1e-3);
    w->was_up = true;
    w->is_away = false;
}

static void on_told(void *arg, fl_rpc_client *l, fl_rpc_client_state state,
                    uint64_t since_ms)
{
    fl_server *s = arg;
    fl_server_way *w = &s->way;
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
        say_away(s, since_ms, how);
    } else {
        (void)snprintf(how, sizeof(how), "is down (%s)", fl_last_error());
        say_away(s, 0, how);
    }
}

void fl_server_tick_way(fl_server *s, uint64_t now_ms)
{
    fl_server_way *w = &s->way;

    if (w->was_up || now_ms < w->say_ms)
        return;
    if (w->say_ms)
        FL_INFO("ps", "server %d is waiting for server 0 (%s)", s->o.rank,
                s->server_0);
    w->say_ms = now_ms + (w->say_ms ? SAY_AGAIN_MS : SAY_FIRST_MS);
}

/* --- requests; loop 0 ----------------------------------------------------- */

/* An error of the link names server 0 already. */
static fl_status name_server_0(fl_server *s, fl_status st)
{
    fl_err e;

    if (!st || !s->way.link)
        return st;
    fl_err_save(&e, st);
    if (fl_rpc_client_why(s->way.link))
        return fl_err_restore(&e);
    (void)fl_err_restore(&e);
    return fl_err_ctx(st, "server 0 (%s)", s->server_0);
}

/* The link that is closed here fails what is left of its requests: that is not
   news. */
static bool is_news(const fl_server *s)
{
    return s->way.link != NULL;
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
    is_over = is_over && !s->way.is_leaving;
    fl_unlock(&s->mu);
    if (is_over)
        fl_server_close_way(s);
}

static void on_left(void *arg, fl_status st, const fl_frame *f,
                    fl_payload *payload)
{
    fl_server *s = arg;

    (void)st; /* server 0 knows, or will find out by itself */
    (void)f;
    fl_payload_free(payload);
    fl_server_close_way(s);
    fl_lock(&s->mu);
    s->way.is_leaving = false;
    fl_server_check_end(s);
    fl_unlock(&s->mu);
}

/* --- opening and closing -------------------------------------------------- */

fl_status fl_server_open_way(fl_server *s)
{
    fl_rpc_client_options o = {
        .me = s->me,
        .peer_role = FL_MEMBER_SERVER,
        .token = s->token,
        .conn = { .max_bytes = s->o.max_message_bytes,
                  .window_bytes = WINDOW_BYTES,
                  .names = fl_msg_find_name },
        .window = CALLS,
        .ping_ms = s->o.ping_ms,
        .suspect_ms = s->o.suspect_ms,
        .connect_timeout_ms = s->o.connect_timeout_ms,
        .restart_timeout_ms = s->o.restart_timeout_ms,
    };

    FL_TRY(fl_rpc_client_new(&s->way.link, s->loops[0], s->net, s->server_0, &o,
                             on_told, s));
    fl_rpc_client_call(
        s->way.link,
        &(fl_call){ .type = FL_MSG_JOIN, .on_reply = on_joined, .arg = s });
    (void)fl_fields_pack(&s->way.end, fl_msg_barrier_request.fields,
                         &(fl_barrier_request){ .name = FL_BARRIER_END });
    s->way.end_piece = (struct iovec){ s->way.end.data, s->way.end.len };
    fl_rpc_client_call(s->way.link, &(fl_call){ .type = FL_MSG_BARRIER,
                                                .pieces = &s->way.end_piece,
                                                .n_pieces = 1,
                                                .on_reply = on_end,
                                                .arg = s });
    return FL_OK;
}

void fl_server_leave_job(fl_server *s)
{
    if (!s->way.link)
        return;
    s->way.is_leaving = true;
    fl_rpc_client_call(s->way.link, &(fl_call){ .type = FL_MSG_LEAVE,
                                                .timeout_ms = LEAVE_MS,
                                                .on_reply = on_left,
                                                .arg = s });
}

void fl_server_close_way(fl_server *s)
{
    fl_rpc_client *l;

    fl_lock(&s->mu);
    l = s->way.link;
    s->way.link = NULL;
    fl_unlock(&s->mu);
    fl_rpc_client_free(l);
}

/* server_save.c - the way of a saver to the coordinator: on server 0 directly,
 * else by the link to it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ps/server/saver.h"
#include "ps/server/server_inside.h"

/* A request by the link; it lives until its answer. */
typedef struct call {
    fl_server *server;
    uint64_t number; /* among the reports; 0: somebody waits for it */
    fl_pack payload;
    struct iovec piece;
    /* Of one that is waited for. */
    fl_mutex mu;
    fl_cond over;
    bool is_over; /* guarded by mu */
    fl_err err;
} call;

static void free_call(call *k)
{
    fl_pack_release(&k->payload);
    fl_free(k);
}

/* False when there is no link any more. */
static bool send_call(call *k, fl_msg type,
                      void (*on_reply)(void *arg, fl_status st,
                                       const fl_frame *f, fl_payload *payload))
{
    fl_server *s = k->server;
    bool is_open;

    k->piece = (struct iovec){ k->payload.data, k->payload.len };
    fl_lock(&s->mu);
    is_open = s->upstream.link != NULL;
    if (is_open)
        fl_rpc_client_call(s->upstream.link,
                           &(fl_rpc_call){ .type = (uint16_t)type,
                                           .pieces = &k->piece,
                                           .n_pieces = 1,
                                           .on_reply = on_reply,
                                           .arg = k });
    fl_unlock(&s->mu);
    return is_open;
}

/* --- reports -------------------------------------------------------------- */

static fl_status read_order(const fl_payload *payload, fl_save_work_reply *r)
{
    fl_msg_bytes bytes = { 0 };

    if (payload)
        bytes =
            (fl_msg_bytes){ fl_payload_data(payload), fl_payload_len(payload) };
    return fl_msg_read_reply(FL_MSG_SAVE_WORK, bytes, r);
}

/* An older report than the last one is of no interest. */
static void on_order(void *arg, fl_status st, const fl_frame *f,
                     fl_payload *payload)
{
    call *k = arg;
    fl_server *s = k->server;
    fl_save_work_reply r;

    (void)f;
    if (!st)
        st = read_order(payload, &r);
    if (k->number == atomic_load(&s->n_save_reports))
        fl_saver_take_order(s->saver, st, &r, NULL);
    fl_payload_free(payload);
    free_call(k);
}

static void report_by_link(fl_server *s, const fl_save_work_request *r)
{
    call *k = fl_alloc(sizeof(*k));
    fl_msg_bytes end;

    k->server = s;
    k->number = atomic_fetch_add(&s->n_save_reports, 1) + 1;
    end = fl_fields_pack(&k->payload, fl_msg_save_work_request.fields, r);
    if (end.len)
        fl_pack_bytes(&k->payload, end.data, (size_t)end.len);
    if (!send_call(k, FL_MSG_SAVE_WORK, on_order))
        free_call(k);
}

static void report(void *server, const fl_save_work_request *r)
{
    fl_server *s = server;

    if (!s->coord) {
        report_by_link(s, r);
        return;
    }
    fl_lock(&s->mu);
    s->level = FL_LOG_INFO;
    fl_coord_save_work(s->coord,
                       &(fl_coord_asker){ .question = s->saver,
                                          .now_ms = fl_server_now_ms(s) },
                       r);
    fl_unlock(&s->mu);
}

/* --- values and files ----------------------------------------------------- */

static void on_taken(void *arg, fl_status st, const fl_frame *f,
                     fl_payload *payload)
{
    call *k = arg;

    (void)f;
    fl_payload_free(payload);
    fl_lock(&k->mu);
    fl_err_save(&k->err, st);
    k->is_over = true;
    fl_cond_wake_all(&k->over);
    fl_unlock(&k->mu);
}

static fl_status wait_for(call *k, fl_msg type)
{
    if (!send_call(k, type, on_taken))
        FL_FAIL(FL_ERR_CLOSED, "the job is over");
    fl_lock(&k->mu);
    while (!k->is_over)
        fl_cond_wait(&k->over, &k->mu);
    fl_unlock(&k->mu);
    return k->err.status ? fl_err_restore(&k->err) : FL_OK;
}

/* The link ends the wait when server 0 is lost, and when this server ends. */
static fl_status send(void *server, fl_msg type, const void *request)
{
    call *k = fl_alloc(sizeof(*k));
    fl_msg_bytes end;
    fl_status st;

    k->server = server;
    fl_mutex_init(&k->mu);
    fl_cond_init(&k->over);
    end = fl_fields_pack(&k->payload,
                         fl_msg_find((uint16_t)type)->request->fields, request);
    fl_pack_bytes(&k->payload, end.data, (size_t)end.len);
    st = wait_for(k, type);
    fl_cond_release(&k->over);
    fl_mutex_release(&k->mu);
    free_call(k);
    return st;
}

/* --- life ----------------------------------------------------------------- */

/* A simulation has one thread, and no saves. */
void fl_server_start_saver(fl_server *s)
{
    char host[256] = "?";

    if (!s->has_threads)
        return;
    (void)gethostname(host, sizeof(host) - 1);
    s->saver = fl_saver_new(&(fl_saver_options){ .store = s->store,
                                                 .conf = s->o.conf,
                                                 .rank = s->o.rank,
                                                 .n_servers = s->o.n_servers,
                                                 .host = host,
                                                 .report = report,
                                                 .send = s->coord ? NULL : send,
                                                 .arg = s });
    fl_saver_start(s->saver);
}

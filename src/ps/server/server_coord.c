/* server_coord.c - the coordinator of server 0, and who may ask it. All under mu,
 * unless it is noted. */
#include "ps/server/server_inside.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

/* --- what it tells -------------------------------------------------------- */

static void on_log_line(void *arg, const char *line)
{
    const fl_server *s = arg;

    fl_log(s->level, "ps", "%s", line);
    if (s->host)
        fl_rpc_server_log(s->host, (uint8_t)s->level, line);
}

static void on_over(void *arg, fl_status why)
{
    fl_server *s = arg;

    if (why && s->is_asked && s->host)
        fl_rpc_server_dismiss(s->host, FL_MEMBER_TRAINER, why);
    fl_server_end(s, s->is_asked ? FL_OK : why);
}

fl_coord *fl_server_make_coord(fl_server *s)
{
    static const fl_coord_events events = {
        .answer = fl_server_answer_barrier,
        .dispatched = fl_server_answer_dispatch,
        .gathered = fl_server_answer_gather,
        .saved = fl_server_answer_saved,
        .cut = fl_server_answer_cut,
        .save_work = fl_server_answer_save_work,
        .log_line = on_log_line,
        .over = on_over,
    };
    fl_coord_options o = {
        .n_servers = s->o.n_servers,
        .n_trainers = s->o.n_trainers,
        .connect_timeout_ms = s->o.connect_timeout_ms,
        .restart_timeout_ms = s->o.restart_timeout_ms,
        .go_on_without = s->o.go_on_without,
        .are_workers = s->o.are_workers,
        .max_gathered_bytes = s->o.max_message_bytes,
        .save_dir = s->o.conf->save_dir,
        .save_every_ms = (uint64_t)s->o.conf->save_every_s * 1000,
        .save_every_steps = (uint64_t)s->o.conf->save_every_steps,
        .save_delta_every_ms = (uint64_t)s->o.conf->save_delta_every_ms,
        .save_timeout_ms = (uint64_t)s->o.conf->save_timeout_ms,
        .save_keep = (uint32_t)s->o.conf->save_keep,
    };
    fl_coord *c;

    s->level = FL_LOG_INFO;
    c = fl_coord_new(&o, &events, s, fl_server_now_ms(s));
    (void)fl_coord_step(c, atomic_load(&s->step)); /* of a model, or 0 */
    return c;
}

/* --- checks --------------------------------------------------------------- */

fl_status fl_server_check_member(fl_server *s, const fl_server_request *a)
{
    const fl_identity *who = fl_session_who(a->session);
    const fl_member_conn *conn = fl_server_member(s, who->role, who->rank);
    uint32_t now = fl_coord_incarnation(s->coord, who->role, who->rank);

    if (!now)
        FL_FAIL(FL_ERR_INVAL, "%s %" PRIu32 " has not joined the job",
                fl_member_role_name(who->role), who->rank);
    if (who->role == FL_MEMBER_SERVER && who->boot_id != conn->boot_id)
        FL_FAIL(FL_ERR_CLOSED, "another process is server %" PRIu32 " now",
                who->rank);
    if (who->role == FL_MEMBER_TRAINER && who->incarnation != now)
        FL_FAIL(FL_ERR_CLOSED,
                "incarnation %" PRIu32 " of trainer %" PRIu32
                " asks, but incarnation %" PRIu32 " is the one that counts",
                who->incarnation, who->rank, now);
    return FL_OK;
}

fl_coord_asker fl_server_asker(const fl_server *s, const fl_server_request *r)
{
    const fl_identity *who = fl_session_who(r->session);

    return (fl_coord_asker){ .rank = who->rank,
                             .incarnation = who->incarnation,
                             .question = r->reply,
                             .now_ms = fl_server_now_ms(s) };
}

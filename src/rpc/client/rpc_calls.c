/* rpc_calls.c - the requests of a link: their order, their window, and what
 * happens to them when the connection breaks or time runs out.
 *
 *     first -> [sent] [sent] [sent] | [unsent] [unsent] -> last
 *
 * A request gets its sequence number when it is sent for the first time, and
 * the server applies numbers in order without gaps. A number that was given is
 * therefore never taken back: when the time of such a request is up, an empty
 * PING with its number takes its place in the list (a tombstone), so that a server
 * which has not seen the number yet can count over it.
 *
 * Pieces of a request belong to its owner again once it is answered. A request
 * whose bytes are still being written when its time is up therefore costs the
 * connection: one that takes nothing for that long is not worth keeping.
 *
 * Callbacks may make any call on the link, so a list is taken away from it
 * before its entries are answered.
 */
#include "base/alloc.h"
#include "rpc/server/rpc_server.h"
#include "rpc/client/rpc_client_inside.h"

/* Deadlines are looked at no more often, however many there are. */
#define LOOK_MIN_MS 10

/* --- lists ---------------------------------------------------------------- */

void fl_rpc_client_list_add(fl_rpc_client_list *list, fl_rpc_client_entry *e)
{
    e->prev = list->last;
    e->next = NULL;
    if (list->last)
        list->last->next = e;
    else
        list->first = e;
    list->last = e;
}

static void list_remove(fl_rpc_client_list *list, fl_rpc_client_entry *e)
{
    if (e->prev)
        e->prev->next = e->next;
    else
        list->first = e->next;
    if (e->next)
        e->next->prev = e->prev;
    else
        list->last = e->prev;
}

static void list_replace(fl_rpc_client_list *list, fl_rpc_client_entry *e,
                         fl_rpc_client_entry *by)
{
    by->prev = e->prev;
    by->next = e->next;
    if (by->prev)
        by->prev->next = by;
    else
        list->first = by;
    if (by->next)
        by->next->prev = by;
    else
        list->last = by;
}

static void forget(fl_rpc_client *l, fl_rpc_client_entry *e)
{
    if (l->calls.unsent == e)
        l->calls.unsent = e->next;
    if (e->is_sent)
        l->calls.n_sent--;
    list_remove(&l->calls.list, e);
}

/* The entry is in no list any more. */
static void answer(fl_rpc_client *l, fl_rpc_client_entry *e, fl_status st,
                   const fl_frame *f, fl_payload *payload)
{
    fl_rpc_call call = e->call;
    bool is_tombstone = e->is_tombstone;

    e->is_over = true;
    if (!e->n_borrowed)
        fl_free(e);
    if (is_tombstone) {
        fl_payload_free(payload);
        return;
    }
    fl_stat_sub(&l->stats.waiting, 1);
    call.on_reply(call.arg, st, f, payload);
}

static void answer_list(fl_rpc_client *l, fl_rpc_client_list list,
                        const fl_err *e)
{
    fl_rpc_client_entry *next;

    for (fl_rpc_client_entry *x = list.first; x; x = next) {
        next = x->next;
        answer(l, x, fl_err_restore(e), NULL, NULL);
    }
}

void fl_rpc_client_answer_all(fl_rpc_client *l, fl_rpc_client_list in,
                              const fl_err *e)
{
    fl_rpc_client_list all = l->calls.list;

    fl_rpc_client_unsend(l);
    l->calls.list = (fl_rpc_client_list){ 0 };
    l->calls.unsent = NULL;
    fl_loop_cancel(l->loop, l->calls.timer);
    l->calls.timer = 0;
    answer_list(l, all, e);
    answer_list(l, in, e);
}

/* --- deadlines ------------------------------------------------------------ */

static void on_deadline(void *arg);

static void arm(fl_rpc_client *l, uint64_t due_ms, uint64_t now)
{
    fl_rpc_client_calls *c = &l->calls;

    if (due_ms < now + LOOK_MIN_MS)
        due_ms = now + LOOK_MIN_MS;
    if (c->timer && c->timer_due_ms <= due_ms)
        return;
    fl_loop_cancel(l->loop, c->timer);
    c->timer_due_ms = due_ms;
    c->timer = fl_loop_timer(l->loop, due_ms - now, on_deadline, l);
}

/* Takes those out whose time is up, and leaves tombstones where a number is. */
static fl_rpc_client_list take_expired(fl_rpc_client *l, uint64_t now)
{
    fl_rpc_client_list out = { 0 };
    fl_rpc_client_entry *next, *tombstone;

    for (fl_rpc_client_entry *e = l->calls.list.first; e; e = next) {
        next = e->next;
        if (!e->deadline_ms || now < e->deadline_ms)
            continue;
        if (e->sequence) {
            tombstone = fl_alloc(sizeof(*tombstone));
            *tombstone = *e;
            tombstone->call.n_pieces = 0;
            tombstone->deadline_ms = 0;
            tombstone->n_borrowed = 0;
            tombstone->is_tombstone = true;
            list_replace(&l->calls.list, e, tombstone);
            if (l->calls.unsent == e)
                l->calls.unsent = tombstone;
        } else {
            forget(l, e);
        }
        fl_rpc_client_list_add(&out, e);
    }
    return out;
}

static bool is_any_lent(const fl_rpc_client *l, uint64_t now)
{
    for (fl_rpc_client_entry *e = l->calls.list.first; e; e = e->next)
        if (e->deadline_ms && now >= e->deadline_ms && e->n_borrowed)
            return true;
    return false;
}

/* Time in which this process did not run is not held against the server. */
static void put_off(fl_rpc_client *l, uint64_t paused_ms)
{
    for (fl_rpc_client_entry *e = l->calls.list.first; e; e = e->next)
        if (e->deadline_ms)
            e->deadline_ms += paused_ms;
}

static void arm_for_next(fl_rpc_client *l, uint64_t now)
{
    uint64_t due = UINT64_MAX;

    for (fl_rpc_client_entry *e = l->calls.list.first; e; e = e->next)
        if (e->deadline_ms && e->deadline_ms < due)
            due = e->deadline_ms;
    if (due != UINT64_MAX)
        arm(l, due, now);
}

static void on_deadline(void *arg)
{
    fl_rpc_client *l = arg;
    uint64_t now = fl_loop_now_ms(l->loop);
    fl_rpc_client_list expired;
    fl_err late;

    fl_rpc_client_enter(l);
    l->calls.timer = 0;
    put_off(
        l, fl_heartbeat_paused_ms(l->calls.timer_due_ms, now, l->o.suspect_ms));
    (void)fl_err_set(FL_ERR_TIMEOUT,
                     "%s %u at %s gave no answer in the request's time",
                     fl_rpc_client_peer(l), l->o.peer_rank, l->address);
    fl_err_save(&late, FL_ERR_TIMEOUT);
    if (is_any_lent(l, now))
        fl_rpc_client_broke(l, FL_ERR_TIMEOUT);
    expired = take_expired(l, now);
    arm_for_next(l, now);
    fl_rpc_client_pump(l);
    answer_list(l, expired, &late);
    fl_rpc_client_leave(l);
}

/* --- sending -------------------------------------------------------------- */

/* The oldest sequence that has no reply yet; UINT64_MAX: all have. */
static uint64_t oldest_open(const fl_rpc_client *l)
{
    for (fl_rpc_client_entry *e = l->calls.list.first; e; e = e->next) {
        if (e->sequence)
            return e->sequence;
        if (!e->was_sent)
            break;
    }
    return UINT64_MAX;
}

/* The server remembers so many results; an older request without a reply would
   be forgotten there. */
static bool is_too_far_ahead(const fl_rpc_client *l,
                             const fl_rpc_client_entry *e)
{
    uint64_t oldest;

    if (!e->call.once || e->sequence)
        return false;
    oldest = oldest_open(l);
    return oldest != UINT64_MAX &&
           l->calls.last_sequence + 1 - oldest >= FL_RPC_SERVER_RESULTS;
}

static void given_back(void *arg)
{
    fl_rpc_client_entry *e = arg;

    e->n_borrowed--;
    if (e->is_over && !e->n_borrowed)
        fl_free(e);
}

static fl_frame head_of(fl_rpc_client *l, const fl_rpc_client_entry *e)
{
    return (fl_frame){
        .type = e->is_tombstone ? FL_TYPE_PING : e->call.type,
        .request = e->request,
        .trace = e->call.trace,
        .sequence = e->sequence,
        .rank = l->o.me.rank,
        .incarnation = l->o.me.incarnation,
        .step = e->call.step,
    };
}

/* The entry may be answered and gone when fl_conn_send returns. */
static void send_entry(fl_rpc_client *l, fl_rpc_client_entry *e)
{
    fl_message m = { .done = given_back, .arg = e };

    if (e->was_sent)
        fl_stat_add(&l->stats.sent_again, 1);
    else
        e->request = ++l->calls.last_request;
    if (e->call.once && !e->sequence)
        e->sequence = ++l->calls.last_sequence;
    e->is_sent = e->was_sent = true;
    e->n_borrowed++;
    l->calls.unsent = e->next;
    l->calls.n_sent++;
    l->calls.step = e->call.step;
    l->sent_ms = fl_loop_now_ms(l->loop);
    m.frame = head_of(l, e);
    m.pieces = e->call.pieces;
    m.n_pieces = e->call.n_pieces;
    fl_conn_send(l->conn, &m);
}

static bool may_send(const fl_rpc_client *l)
{
    return l->phase == FL_RPC_CLIENT_AT_REQUESTS && l->calls.unsent &&
           l->calls.n_sent < l->o.window && !fl_conn_is_full(l->conn) &&
           !is_too_far_ahead(l, l->calls.unsent);
}

/* All that may be sent leaves with one call of the system. A full connection
   may have room again after that. */
void fl_rpc_client_pump(fl_rpc_client *l)
{
    while (may_send(l)) {
        fl_conn_hold(l->conn);
        do
            send_entry(l, l->calls.unsent);
        while (may_send(l));
        fl_conn_let_go(l->conn);
    }
}

void fl_rpc_client_unsend(fl_rpc_client *l)
{
    for (fl_rpc_client_entry *e = l->calls.list.first; e; e = e->next)
        e->is_sent = false;
    l->calls.unsent = l->calls.list.first;
    l->calls.n_sent = 0;
}

/* --- in and out ----------------------------------------------------------- */

void fl_rpc_client_take_calls(fl_rpc_client *l, fl_rpc_client_list in)
{
    uint64_t now = fl_loop_now_ms(l->loop);
    fl_rpc_client_entry *next;

    for (fl_rpc_client_entry *e = in.first; e; e = next) {
        next = e->next;
        fl_rpc_client_list_add(&l->calls.list, e);
        if (!l->calls.unsent)
            l->calls.unsent = e;
        if (e->call.timeout_ms) {
            e->deadline_ms = now + e->call.timeout_ms;
            arm(l, e->deadline_ms, now);
        }
    }
    fl_rpc_client_pump(l);
}

static fl_rpc_client_entry *find_sent(const fl_rpc_client *l, uint64_t request)
{
    for (fl_rpc_client_entry *e = l->calls.list.first; e && e->is_sent;
         e = e->next)
        if (e->request == request)
            return e;
    return NULL;
}

void fl_rpc_client_reply(fl_rpc_client *l, const fl_frame *f,
                         fl_payload *payload)
{
    fl_rpc_client_entry *e = find_sent(l, f->request);
    fl_status st = FL_OK;

    if (!e) { /* its time was up before */
        fl_payload_free(payload);
        return;
    }
    if (e->n_borrowed) {
        fl_payload_free(payload);
        fl_rpc_client_fail(l,
                           fl_err_set(FL_ERR_CORRUPT,
                                      "it answers a request that it does not "
                                      "have yet"));
        return;
    }
    if (f->flags & FL_FRAME_ERROR) {
        st = fl_error_read(payload);
        fl_payload_free(payload);
        payload = NULL;
    }
    if (e->sequence > l->calls.answered)
        l->calls.answered = e->sequence;
    forget(l, e);
    answer(l, e, st, st ? NULL : f, payload);
}

fl_status fl_rpc_client_agree(fl_rpc_client *l, uint64_t applied, bool is_first)
{
    fl_rpc_client_calls *c = &l->calls;

    if (is_first) {
        c->last_sequence = c->answered = applied;
        return FL_OK;
    }
    if (applied < c->answered)
        FL_FAIL(FL_ERR_CLOSED,
                "it came back without requests that it had confirmed (it has "
                "%llu, it had %llu): the job must start again from its last "
                "save",
                (unsigned long long)applied, (unsigned long long)c->answered);
    if (applied > c->last_sequence)
        FL_FAIL(FL_ERR_CLOSED,
                "another process has sent requests to it as %s %u: two "
                "processes of a job must not have the same rank",
                fl_member_role_name(l->o.me.role), l->o.me.rank);
    return FL_OK;
}

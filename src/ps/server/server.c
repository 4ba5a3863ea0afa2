/* server.c - beginning, ticks, and the end of a server.
 *
 *     SERVING --the result is known--> ENDING --all went, or 2 s--> OVER
 *
 * Between the result and the end the server goes on to answer: trainers wait
 * for the replies to their last requests, other servers for the result. Each
 * says goodbye when it has what it needs, and when the last one has gone
 * everything was heard. One whose connection broke may have to ask again. Who
 * stays, or does not come back, is not waited for longer than
 * FL_SERVER_FLUSH_MS.
 */
#include "ps/server/saver.h"
#include "ps/server/server_inside.h"
#include "ps/server/tell.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/timeline.h"
#include "ckpt/remote.h"
#include "ps/job_file.h"

#define TICK_MS 100
#define HANDSHAKE_MS 5000
#define WINDOW_BYTES ((uint64_t)4 << 20)
#define LOOPS_MAX 1024
/* A page is taken in as a whole by whoever asked for it, and others wait. */
#define PAGE_BYTES ((uint64_t)16 << 20)

/* --- small things --------------------------------------------------------- */

uint64_t fl_server_now_ms(const fl_server *s)
{
    return fl_loop_now_ms(s->loops[0]);
}

void fl_server_raise_step(fl_server *s, uint64_t step)
{
    uint64_t seen = atomic_load(&s->step);

    while (step > seen && !atomic_compare_exchange_weak(&s->step, &seen, step))
        ;
}

const char *fl_server_address(const fl_server *s)
{
    return s->address;
}

fl_store *fl_server_store(fl_server *s)
{
    return s->store;
}

/* --- the end -------------------------------------------------------------- */

void fl_server_check_end(fl_server *s)
{
    bool all_went = !s->n_sessions && !s->upstream.is_leaving &&
                    fl_server_told_all(s) && !fl_server_awaits_return(s);

    if (s->phase != FL_SERVER_ENDING ||
        (!all_went && fl_server_now_ms(s) < s->end_by_ms))
        return;
    s->phase = FL_SERVER_OVER;
    fl_cond_wake_all(&s->changed);
}

void fl_server_end(fl_server *s, fl_status why)
{
    if (s->phase != FL_SERVER_SERVING)
        return;
    s->phase = FL_SERVER_ENDING;
    fl_err_save(&s->why, why);
    /* Who computes and asks for nothing would otherwise learn it too late. */
    if (why && s->host)
        fl_rpc_server_dismiss(s->host, FL_MEMBER_TRAINER,
                              fl_err_restore(&s->why));
    s->end_by_ms = fl_server_now_ms(s) + FL_SERVER_FLUSH_MS;
    fl_cond_wake_all(&s->changed);
    fl_server_answer_watches(s);
    fl_server_drop_rounds(s);
    fl_server_check_end(s);
}

void fl_server_end_asked(fl_server *s, const char *who)
{
    if (s->phase != FL_SERVER_SERVING)
        return;
    FL_INFO("ps", "server %d ends: %s asked for it", s->o.rank, who);
    s->is_asked = true;
    if (s->coord) {
        (void)fl_err_set(FL_ERR_CLOSED, "%s asked server 0 to end", who);
        fl_coord_end(s->coord, FL_ERR_CLOSED);
    } else {
        fl_server_leave_job(s);
        fl_server_end(s, FL_OK);
    }
}

static fl_status wait_for(fl_server *s, fl_server_phase phase)
{
    fl_err why;

    fl_lock(&s->mu);
    while (s->phase < phase)
        fl_cond_wait(&s->changed, &s->mu);
    why = s->why;
    fl_unlock(&s->mu);
    return why.status ? fl_err_restore(&why) : FL_OK;
}

fl_status fl_server_wait(fl_server *s)
{
    return wait_for(s, FL_SERVER_OVER);
}

fl_status fl_server_wait_result(fl_server *s)
{
    return wait_for(s, FL_SERVER_ENDING);
}

void fl_server_stop(fl_server *s)
{
    fl_lock(&s->mu);
    fl_server_end_asked(s, "its owner");
    fl_unlock(&s->mu);
}

static void stop(void *server)
{
    fl_server_stop(server);
}

fl_status fl_server_serve(fl_server *s)
{
    fl_interruptible me = { .kind = FL_INTERRUPT_SOON, .stop = stop, .arg = s };
    fl_status st;

    fl_interruptible_enter(&me);
    st = fl_server_wait(s);
    fl_interruptible_leave(&me);
    return st;
}

static void end_early(fl_server *s, const char *why)
{
    if (!s->coord)
        fl_server_leave_job(s);
    (void)fl_err_set(FL_ERR_CLOSED, "%s", why);
    if (s->coord)
        fl_coord_end(s->coord, FL_ERR_CLOSED);
    else
        fl_server_end(s, FL_ERR_CLOSED);
}

void fl_server_give_up(fl_server *s, const char *why)
{
    fl_lock(&s->mu);
    if (s->phase == FL_SERVER_SERVING)
        end_early(s, why);
    fl_unlock(&s->mu);
}

bool fl_server_is_over(fl_server *s)
{
    bool is_over;

    fl_lock(&s->mu);
    is_over = s->phase == FL_SERVER_OVER;
    fl_unlock(&s->mu);
    return is_over;
}

/* --- ticks ---------------------------------------------------------------- */

static void on_tick(void *arg)
{
    fl_server *s = arg;
    uint64_t now = fl_server_now_ms(s);
    bool is_serving;

    fl_lock(&s->mu);
    if (s->coord)
        fl_server_tick_members(s, now);
    fl_server_tick_rounds(s);
    fl_server_check_end(s);
    is_serving = s->phase == FL_SERVER_SERVING;
    fl_unlock(&s->mu);
    if (is_serving && s->o.rank > 0)
        fl_server_tick_upstream(s, now);
    s->tick = fl_loop_timer(s->loops[0], TICK_MS, on_tick, s);
}

static void leave_loop_0(void *arg)
{
    fl_server *s = arg;

    fl_loop_cancel(s->loops[0], s->tick);
    s->tick = 0;
    fl_server_close_upstream(s);
}

/* --- making --------------------------------------------------------------- */

static fl_status check_options(const fl_server_options *o)
{
    if (o->n_servers < 1 || o->n_trainers < 1)
        FL_FAIL(FL_ERR_INVAL,
                "a job has at least one server (here: %d) and one trainer "
                "(here: %d)",
                o->n_servers, o->n_trainers);
    if (o->rank < 0 || o->rank >= o->n_servers)
        FL_FAIL(FL_ERR_INVAL,
                "server %d: the job has %d server%s, with ranks from 0 to %d",
                o->rank, o->n_servers, o->n_servers == 1 ? "" : "s",
                o->n_servers - 1);
    if (strlen(o->job) >= FL_JOB_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "server %d: the name of the job, '%s', is longer than %d "
                "characters",
                o->rank, o->job, FL_JOB_MAX - 1);
    if (o->n_loops < 0 || o->n_loops > LOOPS_MAX)
        FL_FAIL(FL_ERR_INVAL, "server %d: %d threads are not in 0..%d", o->rank,
                o->n_loops, LOOPS_MAX);
    return FL_OK;
}

static fl_server *make(fl_net *net, const fl_server_options *o)
{
    fl_server *s = fl_alloc(sizeof(*s));
    size_t n_seats = (size_t)o->n_trainers + (size_t)o->n_servers;

    s->o = *o;
    s->net = net;
    s->job = fl_strdup(o->job);
    s->token = fl_strdup(o->token ? o->token : "");
    s->server_0 = fl_strdup(o->servers[0]);
    s->o.servers = NULL;
    s->o.listen = NULL;
    s->o.job = s->job;
    s->o.token = s->token;
    s->me = (fl_identity){
        .role = FL_MEMBER_SERVER,
        .rank = (uint32_t)o->rank,
        .boot_id = o->boot_id ? o->boot_id : fl_auth_random64(),
        .process = (uint32_t)getpid(),
    };
    (void)snprintf(s->me.job, sizeof(s->me.job), "%s", o->job);
    /* With an address of its own to listen at ("0.0.0.0:6174"), the one that
       the others have is the one to show. */
    if (o->listen)
        (void)snprintf(s->me.address, sizeof(s->me.address), "%s",
                       o->servers[o->rank]);
    fl_mutex_init(&s->mu);
    fl_cond_init(&s->changed);
    fl_mutex_init(&s->parts.mu);
    fl_cond_init(&s->parts.idle);
    fl_reply_buffers_init(&s->buffers);
    s->store = fl_store_new(o->ops, o->conf);
    fl_store_set_servers(s->store, o->n_servers);
    fl_store_set_page(s->store, o->max_message_bytes < PAGE_BYTES
                                    ? o->max_message_bytes
                                    : PAGE_BYTES);
    s->relay = fl_relay_new((uint32_t)o->n_trainers);
    if (!o->are_workers)
        fl_timeline_name("server", o->rank, o->job);
    s->members = fl_alloc(n_seats * sizeof(*s->members));
    fl_server_rounds_init(s);
    return s;
}

static fl_status make_loops(fl_server *s, fl_loop *loop)
{
    int n = loop ? 1 : s->o.n_loops ? s->o.n_loops : fl_cpu_count();
    char name[32];

    s->loops = fl_alloc((size_t)n * sizeof(fl_loop *));
    s->has_threads = !loop;
    if (loop) {
        s->loops[s->n_loops++] = loop;
        return FL_OK;
    }
    while (s->n_loops < n) {
        (void)snprintf(name, sizeof(name), "ps%d.%d", s->o.rank, s->n_loops);
        FL_TRY(fl_loop_new(&s->loops[s->n_loops], name));
        s->n_loops++;
    }
    return FL_OK;
}

static fl_status open_host(fl_server *s, const char *listen)
{
    static const fl_rpc_server_events events = {
        .on_request = fl_server_on_request,
        .on_up = fl_server_up,
        .on_down = fl_server_down,
        .on_silent = fl_server_silent,
        .admit = fl_server_admit,
    };
    fl_rpc_server_options o = {
        .me = s->me,
        .token = s->token,
        .conn = { .max_bytes = s->o.max_message_bytes,
                  .window_bytes = WINDOW_BYTES,
                  .arena_bytes = s->o.arena_bytes,
                  .names = fl_msg_find_name },
        .ping_ms = s->o.ping_ms,
        .suspect_ms = s->o.suspect_ms,
        .handshake_ms = HANDSHAKE_MS,
        .max_connections = s->o.max_connections,
    };

    fl_rpc_server *host;

    (void)snprintf(o.me.address, sizeof(o.me.address), "%s", listen);
    o.listen = listen;
    o.loops = s->loops;
    o.n_loops = s->n_loops;
    o.events = &events;
    o.arg = s;
    FL_TRY(fl_rpc_server_new(&host, s->net, &o, s->address));
    fl_lock(&s->mu);
    s->host = host;
    fl_unlock(&s->mu);
    return FL_OK;
}

/* Server 0 is a member by itself, the others go there. */
static fl_status take_part(fl_server *s)
{
    uint32_t incarnation;
    fl_status st;

    if (!*s->me.address)
        (void)snprintf(s->me.address, sizeof(s->me.address), "%s", s->address);
    fl_lock(&s->mu);
    if (!s->coord)
        st = fl_server_open_upstream(s);
    else if (s->phase == FL_SERVER_SERVING)
        st = fl_coord_join(s->coord, &s->me, s->me.address, fl_server_now_ms(s),
                           &incarnation);
    else
        st = FL_OK; /* a short job has come and gone since the listening */
    fl_unlock(&s->mu);
    return st;
}

/* The job goes on behind the step of the model. */
static fl_status take_model(fl_server *s, const fl_server_options *o)
{
    char *local = NULL;
    uint64_t step;
    fl_status st;

    FL_TRY(fl_remote_fetch(o->conf, o->model, &local));
    st = fl_store_set_model(s->store,
                            &(fl_model_share){ .path = local,
                                               .plan = o->plan,
                                               .rank = o->rank,
                                               .n_servers = o->n_servers },
                            &step);
    fl_free(local);
    FL_TRY(st);
    fl_server_raise_step(s, step);
    return FL_OK;
}

/* Without the note the job runs as well; tools need the address then. */
static void announce(fl_server *s)
{
    fl_local_jobs *known = fl_job_files_read();
    char *program = fl_own_command();
    const fl_local_job job = { .name = s->job,
                               .address = s->server_0,
                               .program = program,
                               .by =
                                   s->o.are_workers ? "worker 0" : "server 0" };

    if (!fl_job_files_find(known, s->server_0) &&
        fl_job_file_write(&job, s->token, &s->note))
        FL_INFO("ps", "%s", fl_last_error());
    fl_local_jobs_free(known);
    fl_free(program);
}

static fl_status start(fl_server *s, fl_loop *loop, const fl_server_options *o)
{
    const char *listen = o->listen ? o->listen : o->servers[o->rank];

    if (o->model)
        FL_TRY(take_model(s, o));
    if (o->contents)
        FL_TRY(fl_store_hold(s->store, o->contents, o->declared, o->edited));
    FL_TRY(make_loops(s, loop));
    if (s->o.rank == 0)
        s->coord = fl_server_make_coord(s);
    FL_TRY(open_host(s, listen));
    FL_TRY(take_part(s));
    fl_server_start_saver(s);
    fl_loop_call(s->loops[0], on_tick, s);
    /* The record of a worker that serves is the worker's. */
    if (s->has_threads && !o->are_workers)
        FL_TRY(fl_server_tell_start(&s->tell, o->conf, o->rank, s->store));
    FL_INFO("ps", "%s %d of %d listens at %s", fl_server_word(s), s->o.rank,
            s->o.n_servers, s->address);
    if (o->is_announced && !o->rank)
        announce(s);
    if (o->conf && s->has_threads)
        fl_server_open_metrics(s);
    return FL_OK;
}

fl_status fl_server_new(fl_server **out, fl_net *net, fl_loop *loop,
                        const fl_server_options *o)
{
    fl_server *s;
    fl_status st;

    FL_TRY(check_options(o));
    s = make(net, o);
    st = fl_err_ctx(start(s, loop, o), "server %d", o->rank);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        fl_server_free(s);
        return fl_err_restore(&why);
    }
    *out = s;
    return FL_OK;
}

/* Whoever still waits for an answer gets one now. */
static void end_now(fl_server *s)
{
    (void)fl_err_set(FL_ERR_CLOSED, "server %d was closed", s->o.rank);
    fl_lock(&s->mu);
    if (s->coord)
        fl_coord_end(s->coord, FL_ERR_CLOSED);
    else
        fl_server_end(s, FL_ERR_CLOSED);
    fl_unlock(&s->mu);
}

void fl_server_free(fl_server *s)
{
    if (!s)
        return;
    fl_job_file_remove(s->note);
    fl_exporter_close(s->exporter);
    if (s->n_loops) {
        end_now(s);
        fl_loop_call(s->loops[0], leave_loop_0, s);
    }
    fl_server_tell_stop(s->tell);
    fl_saver_free(s->saver);
    fl_rpc_server_free(s->host);
    for (int i = 0; i < s->n_loops && s->has_threads; i++)
        fl_loop_free(s->loops[i]);
    fl_coord_free(s->coord);
    fl_store_free(s->store);
    fl_relay_free(s->relay);
    fl_reply_buffers_release(&s->buffers);
    fl_pack_release(&s->upstream.end);
    fl_server_rounds_release(s);
    fl_cond_release(&s->parts.idle);
    fl_mutex_release(&s->parts.mu);
    fl_cond_release(&s->changed);
    fl_mutex_release(&s->mu);
    fl_free(s->loops);
    fl_free(s->members);
    fl_free(s->job);
    fl_free(s->token);
    fl_free(s->server_0);
    fl_free(s->note);
    fl_free(s);
}

/* shuffle.c - records that change places between trainers.
 *
 *     barrier     who takes part; nobody is in the shuffle before this any more
 *     send        packs to the others, by the servers in turn, and take what
 *                 has come meanwhile: boxes would fill up otherwise
 *     barrier     all was sent; taking goes on while others still send
 *     take        until every box is empty
 *
 * Requests end by themselves, and a box that stays full has nobody who takes
 * from it: no wait is without end.
 */
#include <inttypes.h>

#include "flotilla/experimental/job_data.h"
#include "dist/job.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "conf/patience.h"
#include "data/dataset/exchange.h"

#define BARRIER "shuffle"

#define MS UINT64_C(1000000) /* in nanoseconds */
#define PAUSE_MIN_NS MS
#define PAUSE_MAX_NS (20 * MS)

/* The second barrier. It is asked for and not waited for, and may be given up:
   the last of the two sides frees it. */
typedef struct barrier {
    bool is_asked; /* owner only, before it is */
    fl_mutex mu;
    fl_cond cond;
    bool is_over, is_left; /* guarded by mu */
    fl_err err;
    fl_came_list came;
} barrier;

/* A pack on its way, one per server. */
typedef struct sending {
    fl_exchange_pack pack;
    bool is_full;
} sending;

typedef struct shuffle {
    fl_latch latch;
    fl_client *client;
    const fl_dist_config *config;
    fl_exchange *exchange;
    uint64_t generation;
    fl_came_list members;
    uint32_t *ranks; /* theirs */
    barrier *end;
    sending *sendings; /* by server */
    fl_client_inbox inbox;
    uint64_t n_taken; /* by the last question */
    bool is_dispatched;
    uint64_t pause_ns, stuck_ns; /* since when no box has room; 0: they have */
    uint64_t patience_ns;
} shuffle;

/* --- barriers ------------------------------------------------------------- */

static void free_barrier(barrier *m)
{
    fl_vec_release(&m->came);
    fl_cond_release(&m->cond);
    fl_mutex_release(&m->mu);
    fl_free(m);
}

static barrier *make_barrier(void)
{
    barrier *m = fl_alloc(sizeof(*m));

    fl_mutex_init(&m->mu);
    fl_cond_init(&m->cond);
    return m;
}

static void on_passed(void *arg, fl_status st)
{
    barrier *m = arg;
    bool is_left;

    fl_lock(&m->mu);
    if (st)
        fl_err_save(&m->err, st);
    m->is_over = true;
    is_left = m->is_left;
    fl_cond_wake_all(&m->cond);
    fl_unlock(&m->mu);
    if (is_left)
        free_barrier(m);
}

/* The caller's side of it. */
static void leave_barrier(barrier *m)
{
    bool is_over;

    fl_lock(&m->mu);
    is_over = m->is_over || !m->is_asked;
    m->is_left = true;
    fl_unlock(&m->mu);
    if (is_over)
        free_barrier(m);
}

static fl_status begin_barrier(shuffle *s)
{
    fl_status st;

    s->end->is_asked = true;
    st = fl_client_barrier(
        s->client,
        &(fl_barrier_request){ .name = BARRIER,
                               .generation = s->generation + 1 },
        &s->end->came, (fl_ending){ on_passed, s->end });
    if (st)
        on_passed(s->end, st);
    return st;
}

/* Who takes part, and whether this one does: a trainer that was started again
   finds behind it what the others have made. */
static fl_status pass_first(shuffle *s, bool *has_me)
{
    FL_TRY(fl_client_barrier(
        s->client,
        &(fl_barrier_request){ .name = BARRIER, .generation = s->generation },
        &s->members, FL_WAIT));
    for (size_t i = 0; i < s->members.len; i++)
        *has_me |= s->members.data[i].rank == (uint32_t)s->config->rank;
    return FL_OK;
}

/* Everybody who began has sent everything. */
static fl_status check_end(const shuffle *s)
{
    const barrier *m = s->end;
    size_t n = m->came.len, k = 0;

    if (m->err.status)
        return fl_err_restore(&m->err);
    for (size_t i = 0; i < s->members.len; i++) {
        uint32_t rank = s->members.data[i].rank;

        while (k < n && m->came.data[k].rank < rank)
            k++;
        if (k == n || m->came.data[k].rank != rank)
            FL_FAIL(FL_ERR_CLOSED,
                    "trainer %" PRIu32 " was lost during the shuffle, and "
                    "records with it: load the data again",
                    rank);
    }
    return FL_OK;
}

/* --- sending and taking --------------------------------------------------- */

static fl_status on_message(void *arg, fl_msg_bytes bytes)
{
    shuffle *s = arg;

    s->n_taken++;
    return fl_exchange_add(s->exchange, bytes.data, bytes.len);
}

static void begin_take(shuffle *s)
{
    fl_status st;

    s->n_taken = 0;
    st = fl_client_relay_take(s->client, &s->inbox, fl_client_latch(&s->latch));
    if (st)
        fl_latch_done(&s->latch, st);
}

static void begin_send(shuffle *s, int server)
{
    sending *one = &s->sendings[server];
    fl_relay_request r = { .to = one->pack.to,
                           .generation = s->generation,
                           .bytes = { one->pack.words,
                                      fl_exchange_pack_bytes(&one->pack) } };
    fl_status st = fl_client_relay(s->client, server, &r, &one->is_full,
                                   fl_client_latch(&s->latch));

    if (st)
        fl_latch_done(&s->latch, st);
}

/* Servers without a pack under way get the next ones. */
static fl_status fill_sendings(shuffle *s)
{
    for (int i = 0; i < s->config->n_servers && !s->is_dispatched; i++) {
        sending *one = &s->sendings[i];

        if (one->pack.words)
            continue;
        FL_TRY(fl_exchange_next(s->exchange, &one->pack));
        s->is_dispatched = !one->pack.words;
    }
    return FL_OK;
}

/* Packs that were taken go; *n_full are left, for *to among others. */
static bool drop_sent(shuffle *s, int *n_full, uint32_t *to)
{
    bool has_sent = false;

    *n_full = 0;
    for (int i = 0; i < s->config->n_servers; i++) {
        sending *one = &s->sendings[i];

        if (!one->pack.words)
            continue;
        if (one->is_full) {
            ++*n_full;
            *to = one->pack.to;
        } else {
            fl_exchange_pack_release(&one->pack);
            has_sent = true;
        }
    }
    return has_sent;
}

/* Whoever takes no more would be waited for in vain. */
static fl_status check_stuck(shuffle *s, bool is_stuck, uint32_t to)
{
    uint64_t now = fl_now_ns();

    if (!is_stuck || !s->stuck_ns)
        s->stuck_ns = is_stuck ? now : 0;
    else if (now - s->stuck_ns > s->patience_ns)
        FL_FAIL(FL_ERR_TIMEOUT,
                "trainer %" PRIu32 " has not taken the records that are sent "
                "to it for %" PRIu64 " s: is it still there?",
                to, s->patience_ns / (1000 * MS));
    return FL_OK;
}

/* For a while that grows while nothing happens; until the barrier is passed. */
static void rest(shuffle *s)
{
    barrier *m = s->end;
    uint64_t until = fl_now_ns() + s->pause_ns;

    fl_lock(&m->mu);
    while (!m->is_over && fl_cond_wait_until(&m->cond, &m->mu, until))
        ;
    fl_unlock(&m->mu);
    s->pause_ns =
        s->pause_ns * 2 < PAUSE_MAX_NS ? s->pause_ns * 2 : PAUSE_MAX_NS;
}

static fl_status send_all(shuffle *s)
{
    for (;;) {
        bool has_sent;
        uint32_t to = 0;
        int n_full;

        FL_TRY(fill_sendings(s));
        for (int i = 0; i < s->config->n_servers; i++)
            if (s->sendings[i].pack.words)
                begin_send(s, i);
        begin_take(s);
        FL_TRY(fl_latch_wait(&s->latch));
        has_sent = drop_sent(s, &n_full, &to);
        if (s->is_dispatched && !n_full)
            return FL_OK;
        FL_TRY(check_stuck(s, n_full && !has_sent, to));
        if (has_sent || s->n_taken)
            s->pause_ns = PAUSE_MIN_NS;
        else
            rest(s);
    }
}

static fl_status take_some(shuffle *s)
{
    begin_take(s);
    return fl_latch_wait(&s->latch);
}

static bool is_passed(barrier *m)
{
    bool is_over;

    fl_lock(&m->mu);
    is_over = m->is_over;
    fl_unlock(&m->mu);
    return is_over;
}

static fl_status take_rest(shuffle *s)
{
    while (!is_passed(s->end)) {
        FL_TRY(take_some(s));
        if (s->n_taken)
            s->pause_ns = PAUSE_MIN_NS;
        else
            rest(s);
    }
    FL_TRY(check_end(s));
    do
        FL_TRY(take_some(s));
    while (s->n_taken);
    return FL_OK;
}

/* --- the whole ------------------------------------------------------------ */

static fl_status run(shuffle *s)
{
    FL_TRY(send_all(s));
    FL_TRY(begin_barrier(s));
    return take_rest(s);
}

static void init(shuffle *s, fl_job *j)
{
    size_t n = (size_t)j->dist->config.n_servers;

    *s = (shuffle){ .config = &j->dist->config,
                    .client = fl_cluster_client(j->cluster),
                    .generation = 2 * j->n_shuffles,
                    .end = make_barrier(),
                    .sendings = fl_alloc(n * sizeof(*s->sendings)),
                    .inbox = { .generation = 2 * j->n_shuffles,
                               .seen = fl_alloc(n * sizeof(uint64_t)),
                               .on_message = on_message,
                               .arg = s },
                    .pause_ns = PAUSE_MIN_NS,
                    .patience_ns =
                        2 * fl_patience_ms(&j->ctx->conf, FL_JOB_WITH_SERVERS) *
                        MS };
    fl_latch_init(&s->latch, fl_client_poller(s->client));
}

static void release(shuffle *s)
{
    for (int i = 0; i < s->config->n_servers; i++)
        fl_exchange_pack_release(&s->sendings[i].pack);
    leave_barrier(s->end);
    fl_free(s->sendings);
    fl_free(s->inbox.seen);
    fl_free(s->ranks);
    fl_vec_release(&s->members);
    fl_latch_release(&s->latch);
}

static fl_status exchange(shuffle *s, fl_dataset *d, uint64_t seed)
{
    size_t n = s->members.len;
    fl_exchange_args a = { .rank = (uint32_t)s->config->rank,
                           .n = (uint32_t)n,
                           .seed = seed };
    fl_status st;
    fl_err why;

    s->ranks = fl_alloc(n * sizeof(*s->ranks));
    for (size_t i = 0; i < n; i++)
        s->ranks[i] = s->members.data[i].rank;
    a.ranks = s->ranks;
    FL_TRY(fl_exchange_begin(&s->exchange, d, &a));
    st = run(s);
    if (!st)
        return fl_exchange_end(s->exchange);
    fl_err_save(&why, st);
    fl_exchange_drop(s->exchange);
    return fl_err_restore(&why);
}

static fl_status shuffle_alone(fl_dataset *d, uint64_t seed)
{
    static const uint32_t me;
    fl_exchange_args a = { .ranks = &me, .n = 1, .seed = seed };
    fl_exchange *x;

    FL_TRY(fl_exchange_begin(&x, d, &a));
    return fl_exchange_end(x);
}

/* Nobody is there any more to give records to and to take them from. */
static fl_status shuffle_late(const shuffle *s, fl_dataset *d, uint64_t seed)
{
    FL_WARN("job",
            "the other trainers have made this shuffle without trainer %d, "
            "which has joined since: it keeps the records of its own files, "
            "shuffled, although others may have them too",
            s->config->rank);
    return shuffle_alone(d, seed);
}

static fl_status shuffle_together(fl_job *j, fl_dataset *d, uint64_t seed)
{
    bool has_me = false;
    fl_status st;
    shuffle s;

    FL_TRY(fl_job_ready(j));
    init(&s, j);
    st = pass_first(&s, &has_me);
    if (!st)
        st = has_me ? exchange(&s, d, seed) : shuffle_late(&s, d, seed);
    if (!st)
        st = fl_cluster_learn_step(j->cluster);
    release(&s);
    return st;
}

fl_status fl_job_global_shuffle(fl_job *j, fl_dataset *d, uint64_t seed)
{
    uint64_t drawn;
    fl_status st;

    FL_TRY(fl_exchange_check(d));
    drawn = fl_mix64(seed + fl_mix64(++j->n_shuffles));
    st = j->dist->config.n_trainers == 1 ? shuffle_alone(d, drawn)
                                         : shuffle_together(j, d, drawn);
    return fl_err_ctx(st, "fl_job_global_shuffle");
}

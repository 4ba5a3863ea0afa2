/* meeting.c - before the first call: who shares memory with whom.
 *
 * Every rank says where it is and how its segment is found, opens those of its
 * machine, and says whether it could. Both are gathers like any other, on a ring
 * of their own, and calls wait for them. What follows depends on what all have
 * said, so all decide alike: ranks of a machine share memory when each of them
 * has opened all segments there.
 */
#include <string.h>

#include "base/log.h"
#include "coll/builtin.h"

typedef struct place {
    char machine[FL_MACHINE_MAX]; /* "": shares nothing */
    fl_segment_id segment;
} place;

typedef struct meeting {
    fl_builtin *b;
    place mine, *all;       /* by rank */
    fl_segment **segments;  /* by rank, of this machine */
    uint8_t could, *others; /* open all */
} meeting;

static int n_ranks(const meeting *m)
{
    return m->b->base.n_ranks;
}

static void free_meeting(meeting *m)
{
    fl_segment_hide(&m->mine.segment);
    for (int i = 0; i < n_ranks(m); i++)
        fl_segment_unmap(m->segments[i]);
    fl_free(m->segments);
    fl_free(m->others);
    fl_free(m->all);
    fl_free(m);
}

/* --- groups ----------------------------------------------------------------- */

static bool is_same_machine(const meeting *m, int a, int b)
{
    return a == b || (m->all[a].machine[0] &&
                      strcmp(m->all[a].machine, m->all[b].machine) == 0);
}

/* All of the machine of this rank have opened all. */
static bool is_shared(const meeting *m, int rank)
{
    for (int i = 0; i < n_ranks(m); i++)
        if (is_same_machine(m, rank, i) && !m->others[i])
            return false;
    return true;
}

/* The first of those that share memory with this rank, or itself. */
static int leader_of(const meeting *m, int rank)
{
    int first = 0;

    while (!is_same_machine(m, rank, first))
        first++;
    return is_shared(m, rank) ? first : rank;
}

/* Those with this leader, or (-1) all leaders. */
static fl_coll_group group_of(const meeting *m, int leader)
{
    fl_coll_group g = { .me = -1 };

    g.ranks = fl_alloc((size_t)n_ranks(m) * sizeof(*g.ranks));
    for (int i = 0; i < n_ranks(m); i++) {
        if (leader_of(m, i) != (leader < 0 ? i : leader))
            continue;
        if (i == m->b->base.rank)
            g.me = g.n;
        g.ranks[g.n++] = i;
    }
    return g;
}

static void fail_shared_call(void *builtin, fl_status st)
{
    fl_builtin *b = builtin;

    fl_lock(&b->mu);
    fl_builtin_fail(b, st);
    fl_builtin_leave(b);
}

/* The segments are those of the group from then on. */
static fl_status share(meeting *m, const fl_coll_group *g, fl_shared **out)
{
    fl_segment **segments = fl_alloc((size_t)g->n * sizeof(*segments));
    fl_shared_options o = { .n = g->n,
                            .me = g->me,
                            .ranks = g->ranks,
                            .segments = segments,
                            .stats = &m->b->base.stats,
                            .send = fl_builtin_send,
                            .fail = fail_shared_call,
                            .arg = m->b };
    fl_status st;

    for (int i = 0; i < g->n; i++) {
        segments[i] = m->segments[g->ranks[i]];
        m->segments[g->ranks[i]] = NULL;
    }
    st = fl_shared_new(out, &o);
    fl_free(segments);
    return st;
}

static fl_status decide(meeting *m)
{
    fl_builtin *b = m->b;
    fl_coll_group here = group_of(m, leader_of(m, b->base.rank));
    fl_coll_group leaders = group_of(m, -1);
    fl_shared *shared = NULL;
    fl_status st = here.n > 1 ? share(m, &here, &shared) : FL_OK;

    if (leaders.n == 1 || leaders.n == n_ranks(m))
        leaders.n = 0;
    fl_lock(&b->mu);
    b->shared = shared;
    b->leaders = leaders;
    fl_unlock(&b->mu);
    fl_free(here.ranks);
    return st;
}

/* --- what is said ----------------------------------------------------------- */

static void gather(meeting *m, fl_coll_call call)
{
    call.kind = FL_COLL_ALLGATHER;
    call.dtype = FL_DTYPE_U8;
    call.ring = FL_COLL_RING_MEETING;
    call.arg = m;
    fl_builtin_start(m->b, &call, &m->b->all,
                     fl_builtin_number(m->b, call.ring));
}

static void on_could(void *arg, fl_status st)
{
    meeting *m = arg;
    fl_builtin *b = m->b;

    if (st) {
        free_meeting(m);
        return;
    }
    st = decide(m);
    free_meeting(m);
    if (st)
        fail_shared_call(b, st);
    else
        fl_builtin_ready(b);
}

static void open_segments(meeting *m)
{
    int me = m->b->base.rank;

    m->could = m->mine.machine[0] != '\0';
    for (int i = 0; i < n_ranks(m); i++) {
        if (i == me || !is_same_machine(m, me, i))
            continue;
        m->segments[i] = fl_segment_open(&m->all[i].segment);
        if (!m->segments[i])
            m->could = 0;
    }
}

static void on_places(void *arg, fl_status st)
{
    meeting *m = arg;
    fl_builtin *b = m->b;

    if (st) {
        free_meeting(m);
        return;
    }
    for (int i = 0; i < n_ranks(m); i++)
        m->all[i].machine[FL_MACHINE_MAX - 1] = '\0';
    open_segments(m);
    fl_lock(&b->mu);
    gather(m,
           (fl_coll_call){
               .in = &m->could, .out = m->others, .n = 1, .done = on_could });
    fl_builtin_leave(b);
}

/* Without memory to share, it is a machine of its own. */
static void make_segment(meeting *m)
{
    fl_segment *own;

    m->mine.segment.fd = -1;
    if (!m->b->machine[0])
        return;
    if (fl_segment_new(&own, &m->mine.segment)) {
        FL_INFO("coll", "%s: collective calls go by sockets", fl_last_error());
        return;
    }
    m->segments[m->b->base.rank] = own;
    memcpy(m->mine.machine, m->b->machine, sizeof(m->mine.machine));
}

void fl_builtin_meet(fl_builtin *b)
{
    meeting *m = fl_alloc(sizeof(*m));
    size_t n = (size_t)b->base.n_ranks;

    m->b = b;
    m->all = fl_alloc(n * sizeof(*m->all));
    m->segments = fl_alloc(n * sizeof(*m->segments));
    m->others = fl_alloc(n);
    make_segment(m);
    gather(m, (fl_coll_call){ .in = &m->mine,
                              .out = m->all,
                              .n = sizeof(m->mine),
                              .done = on_places });
}

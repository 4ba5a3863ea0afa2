/* hogwild.c - threads that train on batches of their own with shared weights.
 *
 * With several frames a thread looks ahead: while one batch computes, what the
 * next one needs from outside is on its way.
 *
 *     frame 0   | ask | compute 0 |      ask 2 | compute 2 | ...
 *     frame 1         | ask 1 ............     | compute 1 | ...
 *
 * Asking has its price, however little is asked for. So where a backend allows
 * it, small batches go in groups: while those of one are computed, one after the
 * other, the next group has been asked for.
 *
 *     frames 0, 1   | ask | compute 0, 1 |    ask 4, 5 | compute 4, 5 | ...
 *     frames 2, 3         | ask 2, 3 ...............   | compute 2, 3 | ...
 *
 * A frame more, if the source holds so many batches, has the one behind these:
 * while a thread waits for an answer it makes ready what it will ask for next.
 *
 * The frames are used in turn, so a batch is taken from the source up to two
 * groups, and one more, before it is trained.
 */
#include "exec/executor.h"
#include "exec/joint_step.h"
#include "ir/comm.h"

/* Batches that need more than this from outside are not small. */
#define GROUP_BYTES ((size_t)768 << 10)

typedef struct hogwild {
    fl_executor *e;
    fl_unit *u;
    const fl_hogwild_args *args;
    fl_feed *feeds;         /* n_feeds per frame */
    bool *is_fed;           /* by frame: it has its batch */
    fl_tensor *fetched;     /* n_fetches per thread */
    fl_joint_step *meeting; /* NULL: threads update each for itself */
    atomic_bool stop;       /* another thread failed */
} hogwild;

static fl_feed *feeds_of(const hogwild *h, int frame)
{
    return h->feeds + (size_t)frame * h->args->n_feeds;
}

/* The next batch of a thread, into the memory of a frame. */
static bool take_batch(const hogwild *h, int thread, int frame)
{
    return !atomic_load(&h->stop) &&
           h->args->next(h->args->arg, thread, feeds_of(h, frame));
}

/* What the batches before it do to the rows matters where they do anything. */
static fl_ahead behind_others(const hogwild *h)
{
    return h->u->plan->trains ? FL_AHEAD_OTHER : FL_AHEAD_OWN;
}

static fl_status run_batch(hogwild *h, int thread, int frame)
{
    uint64_t samples = fl_unit_samples(h->u, feeds_of(h, frame));
    fl_runner *r = h->u->runners[frame];

    FL_TRY(fl_unit_begin(h->e, h->u, frame, samples));
    return h->meeting ? fl_joint_step_run(h->meeting, thread, r)
                      : fl_runner_run(r, FL_PART_ALL, NULL);
}

static void tell_batch(hogwild *h, int thread, int frame)
{
    const fl_hogwild_args *a = h->args;
    fl_tensor *fetched = h->fetched + (size_t)thread * a->n_fetches;

    if (!a->on_batch)
        return;
    fl_unit_fetch(h->u, frame, fetched);
    a->on_batch(a->arg, thread, fetched);
}

static fl_status train_batch(hogwild *h, int thread, int frame)
{
    fl_status st;

    fl_unit_begin_batch(h->e, h->u);
    st = run_batch(h, thread, frame);
    if (!st)
        tell_batch(h, thread, frame);
    fl_unit_end_batch(h->e, h->u);
    return st;
}

/* --- the batches of a thread ---------------------------------------------- */

typedef struct line {
    hogwild *h;
    int thread;
    int n_group; /* batches that are asked for together; 0: none is asked for */
    int n_asked; /* at a time: two groups */
    int n_frames;                         /* that are used */
    uint64_t n_taken, n_begun, n_trained; /* batches; begun: asked for */
    bool is_over;                         /* the source has no more */
} line;

/* Frames of a thread are n_runners apart. */
static int frame_of(const line *l, uint64_t batch)
{
    return l->thread +
           (int)(batch % (uint64_t)l->n_frames) * l->h->u->spec.n_runners;
}

static void use_groups(line *l, int n_group)
{
    int n_each = l->h->u->n_frames / l->h->u->spec.n_runners;

    l->n_group = n_group;
    l->n_asked = 2 * n_group;
    l->n_frames = n_each > l->n_asked ? l->n_asked + 1 : n_each;
}

/* As many batches like the one in that frame as are small together. */
static void set_group(line *l, int frame)
{
    size_t bytes = fl_runner_ahead_bytes(l->h->u->runners[frame]);
    size_t most = (size_t)l->h->u->spec.n_ahead;
    size_t n = bytes ? GROUP_BYTES / bytes : most;

    use_groups(l, n < 1 ? 1 : (int)(n < most ? n : most));
}

/* A batch that cannot be fed is refused when it is its turn. */
static void take_one(line *l)
{
    int frame = frame_of(l, l->n_taken);
    hogwild *h = l->h;

    l->is_over = !take_batch(h, l->thread, frame);
    if (l->is_over)
        return;
    h->is_fed[frame] =
        l->n_group && !fl_unit_feed(h->u, frame, feeds_of(h, frame));
    l->n_taken++;
}

static void begin_one(line *l)
{
    int frame = frame_of(l, l->n_begun);
    bool is_next = l->n_begun == l->n_trained;

    if (l->h->is_fed[frame])
        fl_runner_start_ahead(l->h->u->runners[frame],
                              is_next ? FL_AHEAD_OWN : behind_others(l->h));
    if (l->n_group && !l->n_begun)
        set_group(l, frame);
    l->n_begun++;
}

static void take_group(line *l)
{
    while (l->n_begun < l->n_trained + (uint64_t)l->n_asked) {
        if (l->n_begun == l->n_taken && !l->is_over)
            take_one(l);
        if (l->n_begun == l->n_taken)
            return;
        begin_one(l);
    }
}

/* While the thread waits in its run. */
static bool prepare_one(void *arg)
{
    line *l = arg;
    int frame = frame_of(l, l->n_taken);

    if (l->is_over || l->n_taken >= l->n_trained + (uint64_t)l->n_frames)
        return false;
    take_one(l);
    if (!l->is_over && l->h->is_fed[frame])
        fl_runner_do_early(l->h->u->runners[frame]);
    return true;
}

static fl_status train_next(line *l)
{
    int frame = frame_of(l, l->n_trained);
    fl_runner *r = l->h->u->runners[frame];
    fl_status st;

    if (!l->h->is_fed[frame])
        FL_TRY(fl_unit_feed(l->h->u, frame, feeds_of(l->h, frame)));
    if (l->n_frames > l->n_asked)
        r->meanwhile = (fl_meanwhile){ prepare_one, l };
    st = train_batch(l->h, l->thread, frame);
    r->meanwhile = (fl_meanwhile){ 0 };
    l->n_trained += !st;
    return st;
}

/* Those that are asked for together, if there are so many. */
static fl_status train_group(line *l)
{
    int n = l->n_group ? l->n_group : 1;
    fl_status st = FL_OK;

    for (int i = 0; i < n && !st && l->n_trained < l->n_taken; i++)
        if (!atomic_load(&l->h->stop))
            st = train_next(l);
    fl_unit_end_group(l->h->e, l->h->u);
    return st;
}

/* What a group pushed travels with the pulls of the one behind the next. */
static fl_status train(hogwild *h, int i)
{
    bool looks_ahead = h->u->n_frames > h->u->spec.n_runners;
    line l = { .h = h, .thread = i, .n_asked = 1, .n_frames = 1 };
    fl_status st = FL_OK;

    if (looks_ahead)
        use_groups(&l, 1);
    take_group(&l);
    while (!st && l.n_trained < l.n_taken && !atomic_load(&h->stop)) {
        if (looks_ahead)
            fl_comm_flush(h->e->options.comm);
        st = train_group(&l);
        if (!st)
            take_group(&l);
    }
    return st;
}

/* After an error there may be a batch that has been asked for. A backend that
   holds such a question back answers it when the thread leaves. */
static void drop_ahead(const hogwild *h, int thread)
{
    for (int i = thread; i < h->u->n_frames; i += h->u->spec.n_runners)
        fl_runner_drop_ahead(h->u->runners[i]);
}

static fl_status run_thread(void *arg, int i)
{
    hogwild *h = arg;
    fl_comm *comm = h->e->options.comm;
    fl_err err;

    fl_err_save(&err, train(h, i));
    if (err.status)
        atomic_store(&h->stop, true);
    if (h->args->on_end)
        h->args->on_end(h->args->arg, i, err.status);
    /* Threads that meet this one must not wait for it any more. */
    if (h->meeting)
        fl_joint_step_leave(h->meeting, i, fl_err_restore(&err));
    if (h->u->plan->trains && comm && comm->life->leave)
        comm->life->leave(comm, i);
    drop_ahead(h, i);
    return fl_err_ctx(fl_err_restore(&err), "training thread %d", i);
}

/* Where the others may go on without batches of this process, it helps them. */
static fl_status drain(fl_comm *comm)
{
    return comm->life->drain ? comm->life->drain(comm) : FL_OK;
}

static fl_status run_threads(hogwild *h)
{
    fl_comm *comm = h->e->options.comm;
    int n = h->args->n_threads;
    fl_status st;

    if (!h->u->plan->trains || !comm)
        return fl_team_run(h->u->team, run_thread, h);
    if (comm->threads_meet && n > 1)
        FL_TRY(fl_joint_step_new(&h->meeting, h->u->plan, n));
    if (comm->life->enter)
        comm->life->enter(comm, n);
    st = fl_team_run(h->u->team, run_thread, h);
    fl_joint_step_free(h->meeting);
    return st ? st : drain(comm);
}

fl_status fl_unit_run_hogwild(fl_executor *e, fl_unit *u,
                              const fl_hogwild_args *args)
{
    size_t n_feeds = (size_t)u->n_frames * args->n_feeds;
    size_t n_fetched = (size_t)args->n_threads * args->n_fetches;
    hogwild h = { .e = e, .u = u, .args = args };
    fl_status st;

    fl_unit_offer(e, u);
    h.feeds = fl_alloc(sizeof(fl_feed) * (n_feeds + 1));
    h.is_fed = fl_alloc((size_t)u->n_frames);
    h.fetched = fl_alloc(sizeof(fl_tensor) * (n_fetched + 1));
    for (size_t i = 0; i < n_feeds; i++)
        h.feeds[i].name = args->feed_names[i % args->n_feeds];
    atomic_init(&h.stop, false);
    st = run_threads(&h);
    fl_free(h.feeds);
    fl_free(h.is_fed);
    fl_free(h.fetched);
    return st;
}

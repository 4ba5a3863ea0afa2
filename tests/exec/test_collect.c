/* test_collect.c - runs of a worker that is not alone: what all workers make
 * together begins in the order of the program and travels while the rest
 * computes, threads meet and update once, and a worker without a batch makes the
 * steps of the others.
 *
 * The backend plays a second worker that has whatever this one has: sums are
 * twice what was given, each of the two counts one half. It answers when the
 * training thread has nothing else to do, and not before. */
#include "net.h"

#include <string.h>

#include "base/alloc.h"
#include "ctx/ctx.h"
#include "exec/executor.h"
#include "../make.h"

#define WIDTH 3
#define ROWS 4
#define WAITS_MAX 16

typedef struct twin {
    fl_comm port;
    fl_poller poller;
    fl_mutex mu;
    int rings[WAITS_MAX], n_begun; /* in the order in which they began */
    fl_comm_collect *waiting[WAITS_MAX];
    int n_waiting;
    int n_most; /* waiting at once */
    int n_shares, n_barriers, n_drains;
    uint64_t samples; /* of the last step */
} twin;

static void answer_one(fl_comm_collect *r)
{
    float *to = r->out;

    for (size_t i = 0; i < r->n; i++)
        to[i] = 2 * ((const float *)r->in)[i];
    fl_comm_finish(&r->answer, FL_OK);
}

static void answer_all(twin *t)
{
    fl_comm_collect *waiting[WAITS_MAX];
    int n;

    fl_lock(&t->mu);
    n = t->n_waiting;
    memcpy(waiting, t->waiting, sizeof(waiting));
    t->n_waiting = 0;
    fl_unlock(&t->mu);
    for (int i = 0; i < n; i++)
        answer_one(waiting[i]);
}

static fl_status twin_collect(fl_comm *c, fl_comm_collect *r)
{
    twin *t = (twin *)c;

    fl_lock(&t->mu);
    FL_ASSERT(t->n_waiting < WAITS_MAX);
    t->waiting[t->n_waiting++] = r;
    if (t->n_waiting > t->n_most)
        t->n_most = t->n_waiting;
    t->rings[t->n_begun++ % WAITS_MAX] = r->ring;
    fl_unlock(&t->mu);
    return FL_PENDING;
}

static fl_status twin_share(fl_comm *c, fl_comm_share *r)
{
    twin *t = (twin *)c;

    t->n_shares++;
    t->samples = r->samples;
    r->share = 0.5;
    return FL_OK;
}

static fl_status twin_barrier(fl_comm *c, fl_comm_call *r)
{
    (void)r;
    ((twin *)c)->n_barriers++;
    return FL_OK;
}

static fl_status twin_drain(fl_comm *c)
{
    ((twin *)c)->n_drains++;
    return FL_OK;
}

static void twin_wait(fl_poller *p, bool (*is_over)(void *arg), void *arg)
{
    twin *t = (twin *)((char *)p - offsetof(twin, poller));

    while (!is_over(arg))
        answer_all(t);
}

static void do_nothing(fl_poller *p)
{
    (void)p;
}

static fl_status declare(fl_comm *c, const char *table, const char *settings,
                         uint64_t seed)
{
    (void)c;
    (void)table;
    (void)settings;
    (void)seed;
    return FL_OK;
}

static void twin_free(fl_comm *c)
{
    fl_mutex_release(&((twin *)c)->mu);
    fl_free(c);
}

static const fl_comm_data data = { .collect = twin_collect,
                                   .share = twin_share,
                                   .barrier = twin_barrier };
static const fl_comm_life life = { .declare = declare,
                                   .drain = twin_drain,
                                   .free = twin_free };

static twin *twin_use(fl_ctx *ctx)
{
    twin *t = fl_alloc(sizeof(*t));

    t->port = (fl_comm){ .name = "twin",
                         .data = &data,
                         .life = &life,
                         .has_own_deadline = true,
                         .n_workers = 2,
                         .threads_meet = true };
    t->poller = (fl_poller){ do_nothing, twin_wait, do_nothing };
    atomic_store(&t->port.poller, &t->poller);
    fl_mutex_init(&t->mu);
    fl_comm_free(ctx->comm);
    ctx->comm = &t->port;
    return t;
}

/* --- one of two layers ---------------------------------------------------- */

#define LAYERS                                                                 \
    "var x : f32[-1,3] data\n"                                                 \
    "param w : f32[3,3] init=constant(0.5) trainable\n"                        \
    "param v : f32[3,3] init=constant(0.25) trainable\n"                       \
    "var lr : f32[1] persist\n"
#define FORWARD                                                                \
    "op mul (X=x, Y=w) -> (Out=h)\n"                                           \
    "op mul (X=h, Y=v) -> (Out=y)\n"                                           \
    "op mean (X=y) -> (Out=loss)\n"                                            \
    "op fill_constant () -> (Out=loss@GRAD) {shape=[1], value=1} @backward\n"  \
    "op mean_grad (X=y, Out@GRAD=loss@GRAD) -> (X@GRAD=y@GRAD) @backward\n"

static const char alone_text[] = LAYERS FORWARD
    "op mul_grad (X=h, Y=v, Out@GRAD=y@GRAD) -> (X@GRAD=h@GRAD, "
    "Y@GRAD=v@GRAD) @backward\n"
    "op mul_grad (X=x, Y=w, Out@GRAD=h@GRAD) -> (Y@GRAD=w@GRAD) @backward\n"
    "op sgd (Param=v, Grad=v@GRAD, LearningRate=lr) -> (ParamOut=v) @optimize\n"
    "op sgd (Param=w, Grad=w@GRAD, LearningRate=lr) -> (ParamOut=w) @optimize\n"
    "fetch loss\n";

static const char worker_text[] = LAYERS
    "op batch_share () -> (Out=s) @rpc\n" FORWARD
    "op mul_grad (X=h, Y=v, Out@GRAD=y@GRAD) -> (X@GRAD=h@GRAD, "
    "Y@GRAD=v@GRAD) @backward\n"
    "op c_allreduce_sum (X=v@GRAD, Share=s) -> (Out=vs) {ring_id=1} @rpc\n"
    "op mul_grad (X=x, Y=w, Out@GRAD=h@GRAD) -> (Y@GRAD=w@GRAD) @backward\n"
    "op c_allreduce_sum (X=w@GRAD, Share=s) -> (Out=ws) {ring_id=2} @rpc\n"
    "op sgd (Param=v, Grad=vs, LearningRate=lr) -> (ParamOut=v) @optimize\n"
    "op sgd (Param=w, Grad=ws, LearningRate=lr) -> (ParamOut=w) @optimize\n"
    "op send_barrier (X=s) -> () @rpc\n"
    "fetch loss\n";

static const char first_values[] =
    LAYERS "op fill_constant () -> (Out=w) {shape=[3,3], value=0.5}\n"
           "op fill_constant () -> (Out=v) {shape=[3,3], value=0.25}\n"
           "op fill_constant () -> (Out=lr) {shape=[1], value=0.5}\n";

typedef struct member {
    fl_ctx *c;
    fl_executor *e;
    twin *twin; /* NULL: alone */
    fl_program *program, *startup;
} member;

static void member_open(member *m, const char *text)
{
    *m = (member){ .c = make_ctx() };
    assert_ok(fl_ctx_set(m->c, "profile", "true"));
    if (text != alone_text)
        m->twin = twin_use(m->c);
    m->e = make_executor(m->c);
    assert_ok(fl_program_from_text(&m->program, m->c, text));
    assert_ok(fl_program_from_text(&m->startup, m->c, first_values));
    assert_ok(fl_run(m->e, m->startup, NULL));
}

static void member_close(member *m)
{
    fl_executor_free(m->e);
    fl_program_free(m->program);
    fl_program_free(m->startup);
    fl_ctx_free(m->c);
}

/* Batch `no`, of n rows. */
typedef struct batch {
    float x[ROWS * WIDTH * 4];
    fl_feed feed;
} batch;

static void fill(batch *b, int no, int n)
{
    for (int i = 0; i < n * WIDTH; i++)
        b->x[i] = (float)((no * 7 + i * 3) % 11) * 0.125f;
    b->feed = (fl_feed){ "x", fl_tensor_of(FL_DTYPE_F32, b->x, 2,
                                           (int64_t[]){ n, WIDTH }) };
}

static void train(member *m, int no)
{
    batch b;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &b.feed, .n_feeds = 1);

    fill(&b, no, ROWS);
    assert_ok(fl_run(m->e, m->program, &a));
}

static void expect_same(member *a, member *b, float tolerance)
{
    static const char *const names[] = { "w", "v" };

    for (size_t k = 0; k < FL_LEN(names); k++) {
        size_t n, same_n;
        float *x = net_copy(a->c, names[k], &n);
        float *y = net_copy(b->c, names[k], &same_n);

        assert_int_equal(n, same_n);
        for (size_t i = 0; i < n; i++)
            assert_float_equal(x[i], y[i], tolerance);
        fl_free(x);
        fl_free(y);
    }
}

/* --- one thread ----------------------------------------------------------- */

static void the_mean_of_two_alike_is_what_one_has(void **state)
{
    member one, two;

    (void)state;
    member_open(&one, alone_text);
    member_open(&two, worker_text);
    for (int i = 0; i < 5; i++) {
        train(&one, i);
        train(&two, i);
    }
    expect_same(&one, &two, 0);
    assert_int_equal(two.twin->n_shares, 5);
    assert_int_equal(two.twin->n_barriers, 5);
    assert_int_equal(two.twin->samples, ROWS);
    member_close(&one);
    member_close(&two);
}

/* Events of an operator of that type. */
static int find_events(member *m, const char *type, const fl_trace_event **out,
                       int room)
{
    int n = 0;

    for (size_t i = 0; i < m->e->trace.events.len; i++) {
        const fl_trace_event *e = &m->e->trace.events.data[i];

        if (!strcmp(e->name, type) && n < room)
            out[n++] = e;
    }
    return n;
}

static void a_bucket_travels_while_the_rest_computes(void **state)
{
    const fl_trace_event *bucket[4], *rest[2];
    member two;

    (void)state;
    member_open(&two, worker_text);
    train(&two, 0);
    /* Begun, and looked at again when the answer was there. */
    assert_int_equal(find_events(&two, "c_allreduce_sum", bucket, 4), 4);
    assert_int_equal(find_events(&two, "mul_grad", rest, 2), 2);
    assert_string_equal(bucket[0]->what, "vs");
    assert_string_equal(bucket[2]->what, "vs");
    assert_true(rest[0]->end_ns <= bucket[0]->start_ns);
    assert_true(bucket[0]->end_ns <= rest[1]->start_ns);
    assert_true(rest[1]->end_ns <= bucket[2]->start_ns);
    member_close(&two);
}

static void buckets_begin_in_order_and_need_not_end_before(void **state)
{
    member two;

    (void)state;
    member_open(&two, worker_text);
    train(&two, 0);
    assert_int_equal(two.twin->n_begun, 2);
    assert_int_equal(two.twin->rings[0], 1);
    assert_int_equal(two.twin->rings[1], 2);
    assert_int_equal(two.twin->n_most, 2);
    member_close(&two);
}

/* --- threads -------------------------------------------------------------- */

#define THREADS 3
#define BATCHES 6 /* of a thread */

typedef struct source {
    batch batches[THREADS];
    int n[THREADS], least;
    fl_mutex mu;
} source;

/* Thread t has batches t, t + THREADS, ...; the last one has fewer. */
static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    source *s = arg;
    int most = thread == THREADS - 1 ? s->least : BATCHES;

    if (s->n[thread] >= most)
        return false;
    fill(&s->batches[thread], s->n[thread] * THREADS + thread, ROWS);
    s->n[thread]++;
    feeds[0].value = s->batches[thread].feed.value;
    return true;
}

static fl_status train_threads(member *m, source *s)
{
    const char *names[] = { "x" };
    fl_hogwild_args h =
        FL_INIT(fl_hogwild_args, .n_threads = THREADS, .feed_names = names,
                .n_feeds = 1, .next = next_batch, .arg = s);

    return fl_run_hogwild(m->e, m->program, &h);
}

/* One thread on the joined batches. */
static void train_joined(member *m, int least)
{
    for (int i = 0; i < BATCHES; i++) {
        int n = i < least ? THREADS : THREADS - 1;
        batch part, all;
        fl_run_args a = FL_INIT(fl_run_args, .feeds = &all.feed, .n_feeds = 1);

        fill(&all, 0, n * ROWS);
        for (int t = 0; t < n; t++) {
            fill(&part, i * THREADS + t, ROWS);
            memcpy(all.x + t * ROWS * WIDTH, part.x,
                   sizeof(float) * ROWS * WIDTH);
        }
        assert_ok(fl_run(m->e, m->program, &a));
    }
}

static void threads_that_meet_update_once(void **state)
{
    static const int least[] = { BATCHES, 2, 0 };

    (void)state;
    for (size_t k = 0; k < FL_LEN(least); k++) {
        source s = { .least = least[k] };
        member one, two;

        member_open(&one, alone_text);
        member_open(&two, worker_text);
        train_joined(&one, least[k]);
        assert_ok(train_threads(&two, &s));
        expect_same(&one, &two, 1e-6f);
        assert_int_equal(two.twin->n_shares, BATCHES);
        assert_int_equal(two.twin->n_drains, 1);
        member_close(&one);
        member_close(&two);
    }
}

static void an_error_of_one_thread_is_everybodys(void **state)
{
    const float values[WIDTH * WIDTH] = { 3e38f, 3e38f, 3e38f, 3e38f };
    fl_tensor huge =
        fl_tensor_of(FL_DTYPE_F32, values, 2, (int64_t[]){ WIDTH, WIDTH });
    source s = { .least = BATCHES };
    member two;

    (void)state;
    member_open(&two, worker_text);
    assert_ok(fl_ctx_set(two.c, "check_nan_inf", "true"));
    assert_ok(fl_scope_set(&two.c->scope, "w", &huge));
    assert_int_equal(train_threads(&two, &s), FL_ERR_NUMERIC);
    member_close(&two);
}

static const char own_text[] = LAYERS
    "op c_allreduce_sum (X=x) -> (Out=z)\n"
    "op mul (X=z, Y=w) -> (Out=loss)\n"
    "op sgd (Param=w, Grad=w, LearningRate=lr) -> (ParamOut=w) @optimize\n"
    "fetch loss\n";

static void what_each_thread_would_run_is_refused(void **state)
{
    source s = { .least = BATCHES };
    member two;

    (void)state;
    member_open(&two, own_text);
    assert_error(train_threads(&two, &s), FL_ERR_INVAL,
                 "train with one of them per worker");
    member_close(&two);
}

/* --- without a batch ------------------------------------------------------ */

/* The update of zeros changes nothing, but it is a step. */
static void a_worker_without_a_batch_makes_the_step(void **state)
{
    member one, two;

    (void)state;
    member_open(&one, alone_text);
    member_open(&two, worker_text);
    train(&one, 0);
    train(&two, 0);
    assert_ok(two.twin->port.filler.run(two.twin->port.filler.arg));
    expect_same(&one, &two, 0);
    assert_int_equal(two.twin->n_shares, 2);
    assert_int_equal(two.twin->samples, 0);
    assert_int_equal(fl_scope_step(&two.c->scope), 2);
    train(&one, 1);
    train(&two, 1);
    expect_same(&one, &two, 0);
    member_close(&one);
    member_close(&two);
}

static void a_program_that_is_gone_makes_no_steps(void **state)
{
    member two;

    (void)state;
    member_open(&two, worker_text);
    train(&two, 0);
    fl_executor_drop_program(two.e, two.program->id);
    assert_error(two.twin->port.filler.run(two.twin->port.filler.arg),
                 FL_ERR_INVAL, "is gone");
    fl_executor_free(two.e);
    assert_null(two.twin->port.filler.arg);
    two.e = NULL;
    member_close(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_of_two_alike_is_what_one_has),
        cmocka_unit_test(a_bucket_travels_while_the_rest_computes),
        cmocka_unit_test(buckets_begin_in_order_and_need_not_end_before),
        cmocka_unit_test(threads_that_meet_update_once),
        cmocka_unit_test(an_error_of_one_thread_is_everybodys),
        cmocka_unit_test(what_each_thread_would_run_is_refused),
        cmocka_unit_test(a_worker_without_a_batch_makes_the_step),
        cmocka_unit_test(a_program_that_is_gone_makes_no_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

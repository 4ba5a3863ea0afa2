/* test_sched.c - steps on a team: overlap, equal bits, operators that wait. */
#include "net.h"

#include <stdlib.h>
#include <string.h>
#include <cjson/cJSON.h>

#include "ctx/ctx.h"
#include "base/thread.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "../make.h"

/* --- two branches -------------------------------------------------------- */

#define SIDE 512

static const char branches[] = "var x : f32[-1,512] data\n"
                               "op matmul (X=x, Y=x) -> (Out=a1)\n"
                               "op matmul (X=a1, Y=x) -> (Out=a2)\n"
                               "op matmul (X=x, Y=x) -> (Out=b1) {alpha=0.5}\n"
                               "op matmul (X=b1, Y=x) -> (Out=b2)\n"
                               "op elementwise_sub (X=a2, Y=b2) -> (Out=s)\n"
                               "fetch s\n";

static float *run_branches(const char *threads, fl_executor **keep,
                           fl_ctx **keep_ctx)
{
    float *x = malloc(SIDE * SIDE * sizeof(float));
    float *copy = malloc(SIDE * SIDE * sizeof(float));
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_feed feed = { "x", fl_tensor_of(FL_DTYPE_F32, x, 2,
                                       (int64_t[]){ SIDE, SIDE }) };
    const char *fetch = "s";
    fl_program *p;
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    for (int i = 0; i < SIDE * SIDE; i++)
        x[i] = (float)(i % 97) / 97 - 0.5f;
    assert_ok(fl_ctx_set(c, "num_threads", threads));
    assert_ok(fl_ctx_set(c, "profile", "true"));
    assert_ok(fl_program_from_text(&p, c, branches));
    assert_ok(fl_run(e, p, &a));
    memcpy(copy, out.data, SIDE * SIDE * sizeof(float));
    fl_program_free(p);
    free(x);
    *keep = e;
    *keep_ctx = c;
    return copy;
}

static bool overlaps(const fl_trace *t)
{
    for (size_t i = 0; i < t->events.len; i++)
        for (size_t k = 0; k < i; k++) {
            const fl_trace_event *a = &t->events.data[i];
            const fl_trace_event *b = &t->events.data[k];

            if (a->thread != b->thread && a->start_ns < b->end_ns &&
                b->start_ns < a->end_ns)
                return true;
        }
    return false;
}

static void independent_branches_overlap_and_give_the_same_bits(void **state)
{
    fl_executor *e1, *e2;
    fl_ctx *c1, *c2;
    float *one = run_branches("1", &e1, &c1);
    bool seen = false;

    (void)state;
    assert_false(overlaps(&e1->trace));
    /* The second core may be busy with something else now and then. */
    for (int i = 0; i < 20 && !seen; i++) {
        float *two = run_branches("2", &e2, &c2);

        assert_memory_equal(one, two, SIDE * SIDE * sizeof(float));
        seen = overlaps(&e2->trace);
        free(two);
        fl_executor_free(e2);
        fl_ctx_free(c2);
    }
    assert_true(seen);
    free(one);
    fl_executor_free(e1);
    fl_ctx_free(c1);
}

static void the_profile_and_the_timeline_name_the_operators(void **state)
{
    fl_executor *e;
    fl_ctx *c;
    float *out = run_branches("2", &e, &c);
    char *text = fl_executor_profile(e);
    char *profile = fl_executor_profile_json(e);
    char *json = fl_trace_json(&e->trace);
    cJSON *root = cJSON_ParseWithOpts(profile, NULL, 1);
    const cJSON *first =
        cJSON_GetArrayItem(cJSON_GetObjectItem(root, "operators"), 0);

    (void)state;
    assert_true(cJSON_GetObjectItem(first, "calls")->valueint > 0);
    assert_true(cJSON_GetObjectItem(first, "total_seconds")->valuedouble <=
                cJSON_GetObjectItem(root, "total_seconds")->valuedouble);
    cJSON_Delete(root);
    fl_text_free(profile);
    assert_non_null(strstr(text, "matmul"));
    assert_non_null(strstr(text, "share"));
    assert_non_null(strstr(json, "\"traceEvents\""));
    assert_non_null(strstr(json, "\"name\":\"elementwise_sub\""));
    fl_free(json);
    fl_text_free(text);
    free(out);
    fl_executor_free(e);
    fl_ctx_free(c);
}

/* --- an operator that waits ---------------------------------------------- */

/* Copies X to Out when somebody says so; it is a stand-in for a pull. */
static struct {
    fl_mutex mu;
    fl_cond asked_cond;
    fl_waker *waker; /* guarded by mu */
    bool asked, early;
    int runs;
} world;

static fl_status wait_infer(fl_infer *c)
{
    return fl_infer_same(c, 0, 0);
}

static fl_status wait_run(fl_op_ctx *c)
{
    size_t bytes = 0;

    world.runs++;
    if (!c->resumed) {
        if (world.early)
            fl_wake(c->waker); /* the answer comes before we return */
        fl_lock(&world.mu);
        world.waker = c->waker;
        world.asked = true;
        fl_cond_wake_all(&world.asked_cond);
        fl_unlock(&world.mu);
        return FL_PENDING;
    }
    if (fl_tensor_bytes(fl_in_t(c, 0), &bytes))
        return FL_ERR_INVAL;
    memcpy(fl_out(c, 0), fl_in(c, 0), bytes);
    return FL_OK;
}

static const fl_op wait_op = {
    .name = "wait",
    .doc = "Out = X, after a while",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_WAITS,
    .infer = wait_infer,
    .run = wait_run,
};

static const fl_op *find_op(const char *name)
{
    return strcmp(name, "wait") ? fl_ops.find(name) : &wait_op;
}

static const char *no_name(const char *name)
{
    (void)name;
    return NULL;
}

static const fl_op_set with_wait = { .find = find_op, .nearest = no_name };

static void answer(void *arg)
{
    (void)arg;
    fl_lock(&world.mu);
    while (!world.asked)
        fl_cond_wait(&world.asked_cond, &world.mu);
    fl_unlock(&world.mu);
    fl_wake(world.waker);
}

static void reset_world(bool early)
{
    memset(&world, 0, sizeof(world));
    fl_mutex_init(&world.mu);
    fl_cond_init(&world.asked_cond);
    world.early = early;
}

static fl_status run_waiting(const char *threads, const char *timeout_ms,
                             float *result)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    float x[3] = { 1, 2, 3 };
    fl_feed feed = { "x", fl_tensor_of(FL_DTYPE_F32, x, 1, (int64_t[]){ 3 }) };
    const char *fetch = "s";
    fl_program *p;
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);
    fl_status st;

    assert_ok(fl_program_parse("var x : f32[-1] data\n"
                               "op wait (X=x) -> (Out=w)\n"
                               "op square (X=x) -> (Out=q)\n"
                               "op elementwise_add (X=w, Y=q) -> (Out=s)\n"
                               "fetch s\n",
                               &with_wait, &p));
    p->ctx = c;
    assert_ok(fl_ctx_set(c, "num_threads", threads));
    assert_ok(fl_ctx_set(c, "pending_timeout_ms", timeout_ms));
    st = fl_run(e, p, &a);
    if (!st)
        *result = ((float *)out.data)[2];
    /* An operator that still waits keeps the runner's memory; answer it. */
    if (st && world.waker)
        fl_wake(world.waker);
    fl_executor_free(e);
    fl_program_free(p);
    fl_ctx_free(c);
    return st;
}

static void a_waiting_operator_blocks_nobody_and_is_woken(void **state)
{
    static const char *const threads[] = { "1", "2" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        fl_thread *t;
        float s = 0;

        reset_world(false);
        assert_ok(fl_thread_start(&t, "answer", answer, NULL));
        assert_ok(run_waiting(threads[i], "60000", &s));
        fl_thread_join(t);
        assert_float_equal(s, 12, 0);
        assert_int_equal(world.runs, 2);
    }
}

static void an_answer_before_the_operator_returned_is_not_lost(void **state)
{
    float s = 0;

    (void)state;
    reset_world(true);
    assert_ok(run_waiting("1", "60000", &s));
    assert_float_equal(s, 12, 0);
}

static void no_answer_in_time_names_the_operator(void **state)
{
    float s;

    (void)state;
    reset_world(false);
    assert_error(run_waiting("1", "20", &s), FL_ERR_TIMEOUT, "op wait -> w");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(independent_branches_overlap_and_give_the_same_bits),
        cmocka_unit_test(the_profile_and_the_timeline_name_the_operators),
        cmocka_unit_test(a_waiting_operator_blocks_nobody_and_is_woken),
        cmocka_unit_test(an_answer_before_the_operator_returned_is_not_lost),
        cmocka_unit_test(no_answer_in_time_names_the_operator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_shared.c - every kind of call by memory that ranks share, and what is
 * left of that memory. */
#include "thread_kit.h"

#include <dirent.h>
#include <unistd.h>

#include "kinds_kit.h"

typedef struct job_of_all {
    fl_coll_call call;
    values v;
} job_of_all;

static job_of_all job;

static fl_status make_the_call(member *m)
{
    fl_coll_call a = job.call;

    a.in = job.v.in[m->rank];
    a.out = job.v.out[m->rank];
    return fl_coll_run(m->c, &a);
}

static void one(const char *machines, fl_coll_call a)
{
    world w = { .machines = machines, .work = make_the_call };
    int n = (int)strlen(machines);

    job.call = a;
    kinds_make_values(&job.v, n, a.dtype, a.n);
    world_go(&w);
    world_expect_good(&w);
    for (int r = 0; r < n; r++)
        kinds_check(&a, &job.v, n, r);
    world_close(&w);
    kinds_free_values(&job.v, n);
}

static void every_kind_gives_what_it_says(void **state)
{
    static const size_t sizes[] = { 0, 5, 5000, 120005 };
    static const char *const layouts[] = { "aa", "aaa", "aabb", "aab" };
    (void)state;

    for (size_t l = 0; l < FL_LEN(layouts); l++)
        for (size_t i = 0; i < FL_LEN(sizes); i++)
            for (int kind = 0; kind < FL_COLL_KIND_COUNT; kind++) {
                fl_coll_call a = { .kind = (fl_coll_kind)kind,
                                   .root = 1,
                                   .n = sizes[i] };

                if (kind == FL_COLL_REDUCESCATTER)
                    a.n *= strlen(layouts[l]);
                one(layouts[l], a);
            }
}

static void every_type_and_operation(void **state)
{
    (void)state;
    for (int op = 0; op < FL_COLL_OP_COUNT; op++)
        for (int t = FL_DTYPE_F32; t <= FL_DTYPE_I64; t++)
            for (size_t n = 7; n < 100000; n *= 7000) {
                fl_coll_call a = { .kind = FL_COLL_ALLREDUCE,
                                   .op = (fl_coll_op)op,
                                   .dtype = (fl_dtype)t,
                                   .n = n };

                one("aaa", a);
            }
}

static void rings_without_a_channel_are_sent(void **state)
{
    fl_coll_call a = { .kind = FL_COLL_ALLREDUCE, .n = 100, .ring = 40 };
    (void)state;

    one("aaa", a);
}

/* --- what is left, and what is sent --------------------------------------------- */

static fl_status sum_something(member *m)
{
    static float v[WORLD_RANKS][90000];

    return fl_coll_run(m->c, &(fl_coll_call){ .kind = FL_COLL_ALLREDUCE,
                                              .in = v[m->rank],
                                              .out = v[m->rank],
                                              .n = 90000 });
}

static int count_segments(void)
{
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;
    int n = 0;

    assert_non_null(d);
    while ((e = readdir(d))) {
        char to[256] = "";

        if (readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1) > 0)
            n += strstr(to, "flotilla-coll") != NULL;
    }
    closedir(d);
    return n;
}

/* What is mapped by nobody is gone; while it is mapped, no name leads to it. */
static void no_name_leads_to_the_memory(void **state)
{
    world w = { .machines = "aaa", .work = sum_something };
    (void)state;

    world_go(&w);
    world_expect_good(&w);
    assert_int_equal(count_segments(), 0);
    world_close(&w);
}

static void who_shares_memory_sends_nothing(void **state)
{
    world w = { .machines = "aaa", .work = sum_something };
    (void)state;

    world_go(&w);
    world_expect_good(&w);
    for (int r = 0; r < 3; r++) {
        const fl_coll_stats *s = fl_coll_stats_of(w.m[r].c);

        assert_int_equal(fl_stat_get(&s->sent), 0);
        assert_int_equal(fl_stat_get(&s->shared), 90000 * sizeof(float));
    }
    world_close(&w);
}

/* Two machines: each first rank sends 2 n (2 - 1) / 2. */
static void only_the_first_of_a_machine_sends(void **state)
{
    world w = { .machines = "aabbb", .work = sum_something };
    (void)state;

    world_go(&w);
    world_expect_good(&w);
    for (int r = 0; r < 5; r++)
        assert_int_equal(fl_stat_get(&fl_coll_stats_of(w.m[r].c)->sent),
                         r == 0 || r == 2 ? 90000 * sizeof(float) : 0);
    world_close(&w);
}

static void people_are_told_who_is_waited_for(void **state)
{
    world w = { .machines = "aa", .work = sum_something };
    char text[200] = "";
    fl_coll_call a = { .kind = FL_COLL_BARRIER };
    kit_rank late = { 0 };
    (void)state;

    world_go(&w);
    world_expect_good(&w);
    a.done = kit_done;
    a.arg = &late;
    fl_coll_begin(w.m[0].c, &a);
    assert_true(fl_coll_waits_for(w.m[0].c, text, sizeof(text)));
    assert_string_equal(text, "barrier, call 1 of ring 0, waits for worker 1");
    world_close(&w);
    assert_int_equal(late.st, FL_ERR_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_gives_what_it_says),
        cmocka_unit_test(every_type_and_operation),
        cmocka_unit_test(rings_without_a_channel_are_sent),
        cmocka_unit_test(no_name_leads_to_the_memory),
        cmocka_unit_test(who_shares_memory_sends_nothing),
        cmocka_unit_test(only_the_first_of_a_machine_sends),
        cmocka_unit_test(people_are_told_who_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

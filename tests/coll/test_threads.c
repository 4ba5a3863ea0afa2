/* test_threads.c - ranks in threads that wait for their calls, or do not, by
 * parts, by memory that they share, and on two levels. */
#include "thread_kit.h"

#include "base/latch.h"

#define N_CALLS 16
#define MOST 100000

/* All ways to be spread over machines. */
static const char *const layouts[] = { "    ",   "aaaa", "aabb", "abab",
                                       "aabbbc", "aa b", "aa" };

static size_t size_of(int i)
{
    return i % 7 == 6 ? 0 : (size_t)i * 6661 % MOST;
}

static fl_coll_call call_of(int i, float *v)
{
    return (fl_coll_call){
        .kind = i % 7 == 6 ? FL_COLL_BARRIER : FL_COLL_ALLREDUCE,
        .in = v,
        .out = v,
        .n = size_of(i),
    };
}

static void fill(const member *m, float *v, size_t n)
{
    for (size_t j = 0; j < n; j++)
        v[j] = (float)((double)fl_mix64(j * 8 + (uint64_t)m->rank) / 1e19);
}

static void note(member *m, const float *v, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        uint32_t bits;

        memcpy(&bits, &v[j], sizeof(bits));
        m->hash = fl_mix64(m->hash ^ bits);
    }
}

/* Almost what a sum in double gives. */
static bool is_near(const member *m, const float *v, size_t n)
{
    for (size_t j = 0; j < n; j += 97) {
        double sum = 0;

        for (int r = 0; r < m->w->n; r++)
            sum += (double)fl_mix64(j * 8 + (uint64_t)r) / 1e19;
        if (v[j] - sum > 1e-5 || sum - v[j] > 1e-5)
            return false;
    }
    return true;
}

static fl_status one_call(member *m, float *v, int i)
{
    fl_coll_call a = call_of(i, v);

    fill(m, v, a.n);
    FL_TRY(fl_coll_run(m->c, &a));
    if (!is_near(m, v, a.n))
        FL_FAIL(FL_ERR_NUMERIC, "call %d gives a wrong sum", i);
    note(m, v, a.n);
    return FL_OK;
}

static fl_status make_calls(member *m, int n)
{
    float *v = fl_try_alloc(MOST * sizeof(float));
    fl_status st = FL_OK;

    for (int i = 0; i < n && !st; i++)
        st = one_call(m, v, i);
    fl_data_free(v, MOST * sizeof(float));
    return st;
}

static fl_status make_all_calls(member *m)
{
    return make_calls(m, N_CALLS);
}

static uint64_t hash_of(const char *layout, fl_status (*work)(member *m))
{
    world w = { .machines = layout, .work = work };

    world_go(&w);
    world_expect_good(&w);
    world_close(&w);
    for (int r = 1; r < w.n; r++)
        assert_int_equal(w.m[r].hash, w.m[0].hash);
    return w.m[0].hash;
}

static void threads_get_the_same_bits_and_get_them_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(layouts); i++)
        assert_int_equal(hash_of(layouts[i], make_all_calls),
                         hash_of(layouts[i], make_all_calls));
}

/* --- calls that nobody waits for ----------------------------------------------- */

/* All are begun before the first has ended; two rings take turns. */
static fl_status begin_all_calls(member *m)
{
    size_t bytes = (size_t)N_CALLS * MOST * sizeof(float);
    float *v = fl_try_alloc(bytes);
    fl_latch l;
    fl_status st;

    fl_latch_init(&l, NULL);
    for (int i = 0; i < N_CALLS; i++) {
        fl_coll_call a = call_of(i, v + (size_t)i * MOST);

        a.ring = i % 2;
        a.done = fl_latch_done;
        a.arg = &l;
        fill(m, v + (size_t)i * MOST, a.n);
        fl_latch_add(&l);
        fl_coll_begin(m->c, &a);
    }
    st = fl_latch_wait(&l);
    for (int i = 0; i < N_CALLS && !st; i++)
        note(m, v + (size_t)i * MOST, size_of(i));
    fl_latch_release(&l);
    fl_data_free(v, bytes);
    return st;
}

static void calls_that_nobody_waits_for_give_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(layouts); i++)
        assert_int_equal(hash_of(layouts[i], begin_all_calls),
                         hash_of(layouts[i], make_all_calls));
}

/* --- failures ------------------------------------------------------------------ */

static fl_status fail_in_the_middle(member *m)
{
    FL_TRY(make_calls(m, N_CALLS / 2));
    if (m->rank == 1)
        fl_coll_fail(m->c, fl_err_set(FL_ERR_NUMERIC, "worker 1 has a NaN"));
    return make_calls(m, N_CALLS);
}

static void a_failure_ends_all_threads(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(layouts); i++) {
        world w = { .machines = layouts[i], .work = fail_in_the_middle };

        world_go(&w);
        for (int r = 0; r < w.n; r++) {
            assert_int_equal(w.m[r].st, FL_ERR_NUMERIC);
            assert_non_null(strstr(w.m[r].text, "worker 1 has a NaN"));
        }
        world_close(&w);
    }
}

static fl_status make_another_call(member *m)
{
    static float v[WORLD_RANKS][MOST];
    fl_coll_call a = call_of(2, v[m->rank]);

    FL_TRY(make_calls(m, 5));
    if (m->rank == 1)
        a.n = 7;
    return fl_coll_run(m->c, &a);
}

static void a_call_that_does_not_fit_names_both(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(layouts); i++) {
        world w = { .machines = layouts[i], .work = make_another_call };

        world_go(&w);
        for (int r = 0; r < w.n; r++) {
            const char *text = w.m[r].text;

            assert_int_equal(w.m[r].st, FL_ERR_INVAL);
            if (!strstr(text, "allreduce of 7 f32 (sum) on worker 1") ||
                !strstr(text, "allreduce of 13322 f32 (sum) on worker "))
                fail_msg("%s: %s", layouts[i], text);
        }
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_get_the_same_bits_and_get_them_again),
        cmocka_unit_test(calls_that_nobody_waits_for_give_the_same),
        cmocka_unit_test(a_failure_ends_all_threads),
        cmocka_unit_test(a_call_that_does_not_fit_names_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
